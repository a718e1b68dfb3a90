//! Sessions under a launcher that was asked for something: process sets, kinds of memory, error handlers; and string
//! tags that differ.

use libtest_mimic::Trial;

use crate::Outcome;
use crate::build;
use crate::job::Job;
use crate::matrix::{common, full};

/// The tests.
pub fn trials() -> Vec<Trial> {
    let mut trials = vec![
        Trial::test(
            "sessions::process_sets_have_the_programs_that_name_them",
            process_sets,
        ),
        Trial::test("sessions::memory_kinds_come_from_the_launcher", memory_kinds),
        Trial::test("sessions::again_after_all_are_over", again),
        Trial::test("sessions::a_thousand_cycles", || cycles(common(), &[2])),
        Trial::test("sessions::string_tags_that_differ_are_reported", mismatch),
    ];
    if full() {
        for way in [common(), "tcp;ofi_rxm", "shm"] {
            let name = format!("sessions::a_thousand_cycles::{way}");
            trials.push(Trial::test(name, move || cycles(way, &[2, 3])));
        }
        // They take ten times the processor time that they take over `tcp;ofi_rxm`, most of it in the provider's own threads.
        trials.push(Trial::test("sessions::a_thousand_cycles::sockets", || {
            cycles("sockets", &[2])
        }));
    }
    let ways: &[&str] = if full() { WAYS } else { &WAYS[..1] };
    for way in ways.iter().copied().chain([common()]) {
        // It frees hundreds of communicators, one after the other: over `sockets`, whose own threads wait for the cores that
        // ranks have, that takes half a minute with 3 ranks on a busy machine, and minutes with 5.
        let ranks: &[u32] = if way == "sockets" {
            &[1, 2]
        } else if full() || way == WAYS[0] {
            &[1, 2, 3, 5, 8]
        } else {
            &[3]
        };
        trials.push(Trial::test(format!("sessions::objects::{way}"), move || {
            returning("session_objects", ranks, way)
        }));
        trials.push(Trial::test(
            format!("sessions::bad_input_is_an_error_with_words::{way}"),
            move || returning("session_errors", ranks, way),
        ));
    }
    trials
}

/// Ways besides the common one.
const WAYS: &[&str] = &["WEFT_LANES=shm", "sockets", "shm"];

fn job(ranks: u32, arguments: &[&str]) -> Result<Job, libtest_mimic::Failed> {
    Ok(Job::new(&build::program("session_objects")?, ranks)
        .arguments(arguments)
        .over(common()))
}

fn process_sets() -> Outcome {
    let program = build::program("session_objects")?;
    let program = program.to_string_lossy();
    let second = [
        "sets", "first", ":", "-n", "1", "-pset", "b", &program, "sets", "second",
    ];
    let third = [":", "-n", "2", "-pset", "app://ac", &program, "sets", "third"];
    let ended = job(2, &[&second[..], &third[..]].concat())?
        .option("-pset")
        .option("app://ac")
        .option("-pset")
        .option("a")
        .run()?;
    ended.status_is(0)?;
    let world = |rank| format!("mpi://WORLD={rank}/5 mpi://SELF=0/1");
    for (rank, set) in [(0, 0), (1, 1)] {
        ended.prints(&format!(
            "first sees {} app://ac={set}/4 weft://a={rank}/2 and b of 1",
            world(rank)
        ))?;
    }
    ended.prints(&format!("second sees {} weft://b=0/1 and b of 1", world(2)))?;
    for (rank, set) in [(3, 2), (4, 3)] {
        ended.prints(&format!("third sees {} app://ac={set}/4 and b of 1", world(rank)))?;
    }
    Ok(())
}

fn memory_kinds() -> Outcome {
    job(2, &["kinds", "mpi,system,mpi:alloc_mem"])?
        .option("-memory-alloc-kinds")
        .option("rocm:device,mpi:alloc_mem")
        .run()?
        .status_is(0)?;
    job(1, &["kinds", "mpi,system"])?.run()?.status_is(0)
}

/// Errors that belong to no object go to the initial error handler, which returns.
fn returning(program: &str, ranks: &[u32], provider: &str) -> Outcome {
    for &ranks in ranks {
        let job = Job::new(&build::program(program)?, ranks)
            .option("-initial-errhandler")
            .option("mpi_errors_return")
            .over(provider);
        job.run()?.is_well(program, ranks)?;
    }
    Ok(())
}

/// Unbound and without spinning, for on a busy machine two ranks with a core each wait long for those cores.
fn cycles(way: &str, ranks: &[u32]) -> Outcome {
    for &ranks in ranks {
        let job = Job::new(&build::program("session_cycles")?, ranks)
            .option("--bind-to")
            .option("none")
            .env("WEFT_SPIN_US", "0")
            .over(way);
        job.run()?.is_well("session_cycles", ranks)?;
    }
    Ok(())
}

/// As under other launchers: `cross`.
fn again() -> Outcome {
    let program = build::program("session_again")?;
    for (case, ranks, end) in [
        ("cycles", 2, "_exit"),
        ("after", 3, "return"),
        ("threads", 3, "_exit"),
    ] {
        let job = Job::new(&program, ranks).arguments(&[case, end]).over(common());
        job.run()?.is_well("session_again", ranks)?;
    }
    let ended = Job::new(&program, 3).arguments(&["abort"]).over(common()).run()?;
    ended.status_is(3)
}

/// The program is wrong; what it gets is a hang, and at its end a line that tells why.
fn mismatch() -> Outcome {
    let ended = job(2, &["mismatch"])?.option("--timeout").option("4").run()?;
    ended.status_is(124)?;
    ended.says(&["rank 1 is in MPI_Comm_create_from_group"])?;
    ended.says(&["string tag 'that'", "2 processes", "same"])
}
