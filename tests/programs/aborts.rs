//! `MPI_Abort` (MPI 5.0 section 11.4.2) from everywhere: the job ends within seconds, with the code as status, a line that
//! says who called it, and the output that was written.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use weft::lane::ofi::shm_name;

use crate::Outcome;
use crate::build;
use crate::job::{Ended, Job};
use crate::matrix::{common, full};

/// "Within seconds", on a machine where other tests run at the same time.
const SOON: Duration = Duration::from_secs(20);
const RANKS: u32 = 3;
const ALL: [u32; 4] = [3, 2, 5, 8];

/// Where rank 1 calls it while the others wait, compute, or are in `MPI_Finalize`.
const PLACES: &[&str] = &[
    "world",
    "self",
    "null",
    "handler",
    "op",
    "delete",
    "copy",
    "at_finalize",
    "finalize",
    "thread",
    "session",
    "before",
    "blocked",
    "stopped",
    "reader",
];

/// Codes, and the statuses that they lead to.
const CODES: &[(i32, i32)] = &[(0, 0), (1, 1), (255, 255), (256, 1), (300, 44), (-1, 255)];

/// The tests.
pub fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = PLACES
        .iter()
        .enumerate()
        .map(|(number, &place)| Trial::test(format!("aborts::{place}"), move || aborts(number, place)))
        .collect();
    trials.extend([
        Trial::test("aborts::codes", codes),
        Trial::test("aborts::several_at_once", several_at_once),
        Trial::test("aborts::after_finalize_alone", after_finalize),
        Trial::test("aborts::output_arrives", output_arrives),
        Trial::test("aborts::without_a_launcher", without_a_launcher),
        Trial::test("aborts::other_jobs_go_on", other_jobs_go_on),
        Trial::test("aborts::below_a_shell", below_a_shell),
        Trial::test("aborts::shm_leaves_no_files", shm_leaves_no_files),
    ]);
    match std::env::var_os("WEFT_TEST_PEERS").filter(|path| !path.is_empty()) {
        Some(peers) => trials.push(Trial::test("aborts::under_launcher_of_mpich", move || {
            under_launcher_of_mpich(&PathBuf::from(&peers))
        })),
        None => {
            eprintln!("programs: WEFT_TEST_PEERS does not say where MPICH is: no abort under its launcher")
        }
    }
    trials
}

fn job(place: &str, code: i32) -> Result<Job, Failed> {
    Ok(Job::new(&build::program("abort")?, RANKS)
        .arguments(&[place, &code.to_string()])
        .over(common()))
}

fn soon(ended: &Ended) -> Outcome {
    match ended.took > SOON {
        true => Err(ended.fail("the end took too long")),
        false => Ok(()),
    }
}

/// The same over two ways, or all of them in the full matrix, with each number of ranks in turn; among stopped ranks with all of them.
fn aborts(number: usize, place: &str) -> Outcome {
    let mut ways = vec!["WEFT_LANES=shm", common()];
    if full() {
        ways.extend(["tcp;ofi_rxm", "sockets", "shm"]);
    }
    for (turn, way) in ways.into_iter().enumerate() {
        let numbers = match place {
            "stopped" => ALL.as_slice(),
            _ => &ALL[(number + turn) % ALL.len()..][..1],
        };
        for &ranks in numbers {
            let ended = Job::new(&build::program("abort")?, ranks)
                .arguments(&[place, "7"])
                .over(way)
                .run()?;
            ended.status_is(7)?;
            ended.says(&["mpiexec: rank 1 ", "called MPI_Abort with code 7"])?;
            ended.says_once("MPI_Abort with code")?;
            soon(&ended)?;
        }
    }
    Ok(())
}

fn codes() -> Outcome {
    for &(code, status) in CODES {
        let ended = job("world", code)?.run()?;
        ended.status_is(status)?;
        ended.says(&[
            "mpiexec: rank 1 ",
            &format!("called MPI_Abort with code {code} on MPI_COMM_WORLD;"),
        ])?;
    }
    Ok(())
}

/// One of the codes is the job's, and the line names the rank that it is from.
fn several_at_once() -> Outcome {
    for _ in 0..5 {
        let ended = job("all", 10)?.run()?;
        let rank = ended.status - 10;
        if !(0..RANKS as i32).contains(&rank) {
            return Err(ended.fail("the status is no rank's code"));
        }
        ended.says(&[
            &format!("mpiexec: rank {rank} "),
            &format!("called MPI_Abort with code {}", ended.status),
        ])?;
        // Of several that abort, the one that counts is told of, once.
        ended.says_once("MPI_Abort with code")?;
        soon(&ended)?;
    }
    Ok(())
}

/// The process is connected with nobody any more.
fn after_finalize() -> Outcome {
    let ended = job("after", 7)?.run()?;
    ended.status_is(7)?;
    ended.says(&["[weft]", "MPI_Abort with code 7 after MPI_Finalize"])?;
    ended.says(&["mpiexec: rank 1 ", "exited with status 7"])?;
    ended.prints("rank 0 goes on")?;
    ended.prints("rank 2 goes on")
}

fn output_arrives() -> Outcome {
    let ended = job("output", 7)?.run()?;
    ended.status_is(7)?;
    for rank in 0..RANKS {
        ended.prints(&format!("rank {rank} is here, "))?;
    }
    let lines = ended.stdout.lines().filter(|line| line.starts_with("line "));
    let expected = (0..20000).map(|number| format!("line {number}"));
    if !lines.eq(expected) {
        return Err(ended.fail("lines are missing"));
    }
    ended.prints("the last line, without an end")
}

fn alone(place: &str, code: i32) -> Result<Output, Failed> {
    let mut child = Command::new(build::program("abort")?)
        .args([place, &code.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        if start.elapsed() > SOON {
            child.kill()?;
            child.wait()?;
            return Err(format!("'{place}' alone does not end").into());
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    Ok(child.wait_with_output()?)
}

fn without_a_launcher() -> Outcome {
    // Nobody else is there to be stopped or to be in MPI_Finalize.
    let places = PLACES
        .iter()
        .filter(|&&place| !matches!(place, "blocked" | "stopped"));
    let cases = places
        .map(|&place| (place, 7, 7))
        .chain(CODES.iter().map(|&(code, status)| ("world", code, status)))
        .chain([("after", 7, 7), ("all", 9, 9)]);
    for (place, code, status) in cases {
        let output = alone(place, code)?;
        let text = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(status) || !text.contains(&format!("MPI_Abort with code {code} ")) {
            return Err(format!("'{place}' with code {code}, alone: {:?}\n{text}", output.status).into());
        }
    }
    Ok(())
}

fn other_jobs_go_on() -> Outcome {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("end");
    let path = file.to_str().ok_or("a path that is no text")?;
    let other = Job::new(&build::program("abort")?, 2)
        .arguments(&["other", "0", path])
        .over(common());
    let other = std::thread::spawn(move || other.run());
    let ended = job("world", 7)?.run();
    std::fs::write(&file, "")?;
    let other = other.join().map_err(|_| "the other job's thread panicked")??;
    ended?.status_is(7)?;
    other.is_well("abort", 2)
}

/// The wrapper's own status does not count.
fn below_a_shell() -> Outcome {
    let program = build::program("abort")?;
    let script = format!("'{}' world 7; exit 3", program.display());
    let ended = Job::new("/bin/sh".as_ref(), RANKS)
        .arguments(&["-c", &script])
        .over(common())
        .run()?;
    ended.status_is(7)?;
    soon(&ended)
}

/// Neither ranks that end themselves nor those that are killed close their endpoints.
fn shm_leaves_no_files() -> Outcome {
    for place in ["world", "all", "blocked", "before", "after", "at_finalize"] {
        let ended = job(place, 7)?.over("shm").run()?;
        let pids: Vec<i32> = ended
            .stdout
            .lines()
            .filter_map(|line| line.split_once(" is here, pid ")?.1.parse().ok())
            .collect();
        for entry in std::fs::read_dir("/dev/shm")? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let owner = shm_name::owner(&name);
            if owner.is_some_and(|(pid, _)| pids.contains(&pid)) {
                return Err(ended.fail(format!("'{place}' leaves /dev/shm/{name}")));
            }
        }
        if pids.is_empty() && place != "before" {
            return Err(ended.fail("no rank told its process id"));
        }
    }
    Ok(())
}

fn under_launcher_of_mpich(peers: &std::path::Path) -> Outcome {
    // Its launcher does not let a stopped process go on, and kills it.
    for place in PLACES {
        let ended = job(place, 7)?.under(&peers.join("bin/mpiexec")).run()?;
        ended.status_is(7)?;
        // This launcher does not say it, so the rank does.
        ended.says(&["[weft]", "MPI_Abort with code 7"])?;
        soon(&ended)?;
    }
    Ok(())
}
