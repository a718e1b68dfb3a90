//! Errors that end the job, and calls where the library does not run. (Errors that return: `tests/c/errors.c`.)

use libtest_mimic::Trial;

use crate::Outcome;
use crate::build;
use crate::job::Job;
use crate::matrix::common;

const OTHER: i32 = 16;
const RANK: i32 = 6;
const ARG: i32 = 13;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("misuse::a_call_before_init_ends_the_job", before),
        Trial::test("misuse::a_call_after_finalize_ends_the_job", after),
        Trial::test("misuse::init_after_finalize_ends_the_job", again),
        Trial::test("misuse::errors_return_if_the_launcher_says_so", returning),
        Trial::test("misuse::init_twice_is_an_error", twice),
        Trial::test("misuse::the_default_handler_ends_the_job", default_handler),
        Trial::test("misuse::a_file_can_end_the_job", fatal_file),
        Trial::test("misuse::a_file_that_is_left_open_is_pointed_out", open_file),
        Trial::test("misuse::without_a_launcher_too", alone),
        Trial::test("misuse::different_collectives_are_an_error_and_no_hang", mixed),
        Trial::test("misuse::settings_are_checked", settings),
        Trial::test("misuse::an_unknown_provider_is_one_line", provider),
        Trial::test("misuse::without_libfabric_one_machine_works", no_libfabric),
        Trial::test(
            "misuse::a_startup_report_says_where_the_time_goes",
            startup_report,
        ),
    ]
}

fn job(case: &str) -> Result<Job, libtest_mimic::Failed> {
    Ok(Job::new(&build::program("errors")?, 2)
        .arguments(&[case])
        .over(common()))
}

fn before() -> Outcome {
    let ended = job("before")?.run()?;
    ended.status_is(OTHER)?;
    ended.says(&["mpiexec: rank ", "MPI_Comm_rank", "before MPI_Init"])
}

fn after() -> Outcome {
    let ended = job("after")?.run()?;
    ended.status_is(OTHER)?;
    ended.says(&["[weft]", "MPI_Send", "after MPI_Finalize"])
}

fn again() -> Outcome {
    let ended = job("again")?.run()?;
    ended.status_is(OTHER)?;
    ended.says(&["[weft]", "MPI_Init", "after MPI_Finalize"])
}

fn returning() -> Outcome {
    for case in ["before", "after", "again"] {
        let job = job(case)?
            .option("-initial-errhandler")
            .option("mpi_errors_return");
        let ended = job.run()?;
        ended.status_is(0)?;
        ended.prints(&format!("code {OTHER}"))?;
    }
    Ok(())
}

fn twice() -> Outcome {
    let ended = job("twice")?.run()?;
    ended.status_is(0)?;
    ended.prints(&format!("code {OTHER}"))
}

fn default_handler() -> Outcome {
    let ended = job("within")?.run()?;
    ended.status_is(RANK)?;
    ended.says(&[
        "mpiexec: rank ",
        "MPI_Send",
        "destination 4711",
        "2 processes",
        "MPI_ERR_RANK",
        "MPI_COMM_WORLD",
    ])?;
    ended.says_once("destination 4711")
}

/// Errors of files return, unless the program says otherwise.
fn fatal_file() -> Outcome {
    let ended = Job::new(&build::program("file_errors")?, 2)
        .arguments(&["fatal"])
        .over(common())
        .run()?;
    ended.status_is(ARG)?;
    ended.says(&[
        "mpiexec: rank ",
        "MPI_File_get_size",
        "size",
        "MPI_ERR_ARG",
        "the file '",
    ])
}

/// Each of the cases of `tests/c/mixed.c`, and one over libfabric too.
fn mixed() -> Outcome {
    let shm = "WEFT_LANES=shm";
    let cases = [
        ("apart", 2, shm),
        ("apart", 5, shm),
        ("third", 2, shm),
        ("third", 5, shm),
        ("passed", 2, shm),
        ("roots", 5, shm),
        ("objects", 2, shm),
        ("crossed", 2, common()),
        ("crossed", 5, shm),
        ("crossed_all", 3, shm),
        ("swapped", 3, shm),
        ("gone", 3, shm),
        ("gone", 5, shm),
        ("late", 3, shm),
    ];
    let all = cases.map(|(case, ranks, way)| ("mixed", case, ranks, way));
    let persistent = [2, 5].map(|ranks| ("persistent_collectives", "apart", ranks, shm));
    let all = [&all[..], &persistent].concat();
    // Processes look into what the others do after a second, for which several jobs can wait together.
    for some in all.chunks(4) {
        std::thread::scope(|scope| {
            let job = |&(program, case, ranks, way): &(&'static str, &str, u32, &str)| -> Outcome {
                let job = Job::new(&build::program(program)?, ranks).arguments(&[case]);
                job.over(way).run()?.is_well(program, ranks)
            };
            let running: Vec<_> = (some.iter()).map(|one| scope.spawn(move || job(one))).collect();
            (running.into_iter()).try_for_each(|one| one.join().expect("a job does not panic"))
        })?;
    }
    Ok(())
}

fn open_file() -> Outcome {
    let job = Job::new(&build::program("file_errors")?, 2)
        .arguments(&["left"])
        .over(common());
    let ended = job.run()?;
    ended.is_well("file_errors", 2)?;
    if ended.stderr.contains("MPI_Finalize") {
        return Err(ended.fail("it was said without WEFT_CHECK=1"));
    }
    let ended = job.env("WEFT_CHECK", "1").run()?;
    ended.is_well("file_errors", 2)?;
    ended.says(&["[weft] rank 1: at MPI_Finalize 1 file is not closed:"])?;
    ended.says(&["[weft] rank 1:   the file '", "/left'"])
}

/// A singleton, started by hand.
fn alone() -> Outcome {
    let program = build::program("errors")?;
    let output = std::process::Command::new(&program).arg("within").output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() != Some(RANK) || !text.contains("destination 4711") {
        return Err(format!("{}: {:?}, {text}", program.display(), output.status).into());
    }
    let output = std::process::Command::new(build::program("self")?).output()?;
    if !output.status.success() || output.stdout != b"self: ok with 1 ranks\n" {
        return Err(format!("self: {output:?}").into());
    }
    Ok(())
}

fn settings() -> Outcome {
    let ended = job("within")?.env("WEFT_EAGER_MAX", "much").run()?;
    if ended.status == 0 {
        return Err(ended.fail("a malformed setting was accepted"));
    }
    ended.says(&["MPI_Init", "WEFT_EAGER_MAX", "'much'", "number"])
}

fn provider() -> Outcome {
    let ended = job("within")?.over("pigeon").run()?;
    if ended.status == 0 {
        return Err(ended.fail("an unknown provider was accepted"));
    }
    ended.says(&["MPI_Init", "WEFT_PROVIDER", "'pigeon'", "tcp;ofi_rxm"])
}

/// Where the dynamic linker finds something that is no libfabric, a job says what to install; who talks to nobody does
/// not notice.
fn no_libfabric() -> Outcome {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("libfabric.so.1"), "no library\n")?;
    let program = build::program("self")?;
    // One machine is enough for shared memory.
    for ranks in [1, 3] {
        let ended = Job::new(&program, ranks)
            .env("LD_LIBRARY_PATH", folder.path())
            .run()?;
        ended.is_well("self", ranks)?;
    }
    let ended = Job::new(&program, 2)
        .env("LD_LIBRARY_PATH", folder.path())
        .env("WEFT_LANES", "ofi")
        .run()?;
    if ended.status == 0 {
        return Err(ended.fail("two ranks do without libfabric"));
    }
    ended.says(&[
        "MPI_Init",
        "libfabric",
        "can't be loaded",
        "apt install libfabric1",
    ])
}

/// The lines of the table, for rank 0 alone or for all; nothing where nobody asks.
fn startup_report() -> Outcome {
    let program = build::program("self")?;
    for (value, tables) in [("", 0), ("startup", 1), ("startup,all", 3)] {
        let ended = Job::new(&program, 3)
            .over(common())
            .env("WEFT_REPORT", value)
            .run()?;
        ended.status_is(0)?;
        for words in [
            "startup report",
            "loading the library",
            "barrier of the ranks",
            "Weft's own",
        ] {
            let count = ended.stderr.matches(words).count();
            if count != tables {
                return Err(ended.fail(format!("'{words}' comes {count} times, not {tables}")));
            }
        }
    }
    Ok(())
}
