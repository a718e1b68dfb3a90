//! `MPI_Finalize`, where the test looks at more than whether the program ends well: reports, erroneous programs, results
//! written afterwards, and ranks killed meanwhile.

use std::collections::BTreeSet;
use std::fs::File;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use nix::sys::signal::Signal;

use crate::Outcome;
use crate::build;
use crate::deaths::{Waiting, names};
use crate::job::{Job, repeat};
use crate::matrix::common;

/// The tests.
pub fn trials() -> Vec<Trial> {
    let mut trials = vec![
        Trial::test("finalizing::a_long_wait_is_told_once", report),
        Trial::test("finalizing::no_report_with_0", no_report),
        Trial::test("finalizing::process_0_writes_results", results),
        Trial::test("finalizing::calls_outside_are_errors", outside),
    ];
    trials.extend(ERRONEOUS.iter().map(|(case, rank, words)| {
        Trial::test(format!("finalizing::erroneous_{case}"), move || {
            erroneous(case, rank, words)
        })
    }));
    for provider in [common(), "sockets", "shm"] {
        trials.push(Trial::test(
            format!("finalizing::a_killed_rank_ends_the_job::{provider}"),
            move || killed(provider),
        ));
    }
    trials
}

fn finalize(ranks: u32, arguments: &[&str]) -> Result<Job, Failed> {
    Ok(Job::new(&build::program("finalize")?, ranks)
        .arguments(arguments)
        .over(common()))
}

/// The lines in which ranks say what they wait for.
fn reports(text: &str) -> Vec<&str> {
    let is_report = |line: &&str| line.contains("is in MPI_Finalize and waits");
    text.lines().filter(is_report).collect()
}

/// The late rank comes when all others have said that they wait for it.
fn report() -> Outcome {
    let folder = tempfile::tempdir()?;
    let go = folder.path().join("go");
    let ended = finalize(4, &["later", go.to_str().ok_or("a path that is no text")?])?
        .env("WEFT_FINALIZE_REPORT_S", "1")
        .run_watched(|said| {
            if reports(said).len() >= 3 && !go.exists() {
                File::create(&go)?;
            }
            Ok(())
        })?;
    ended.is_well("finalize", 4)?;
    // The neighbour of the late one waits for nobody else.
    ended.says(&[
        "[weft] rank 0 is in MPI_Finalize and waits for rank 3, which has not called MPI_Finalize",
    ])?;
    let told = reports(&ended.stderr);
    let who: BTreeSet<&str> = told.iter().filter_map(|line| line.split(' ').nth(2)).collect();
    if told.len() != 3 || who != BTreeSet::from(["0", "1", "2"]) {
        return Err(ended.fail("each rank that waits says so once"));
    }
    Ok(())
}

fn no_report() -> Outcome {
    let ended = finalize(2, &["later"])?
        .env("WEFT_FINALIZE_REPORT_S", "0")
        .run()?;
    ended.is_well("finalize", 2)?;
    match reports(&ended.stderr).is_empty() {
        true => Ok(()),
        false => Err(ended.fail("no report is wanted")),
    }
}

/// What is wrong with a program, the rank that says so (of 3), and in which words.
const ERRONEOUS: &[(&str, u32, &[&str])] = &[
    (
        "unmatched",
        2,
        &["message of ", "from rank 0", "tag 77", "8 bytes"],
    ),
    (
        "unmatched_freed",
        2,
        &["message of ", "from rank 0", "tag 77", "1000000 bytes"],
    ),
    (
        "unmatched_freed",
        2,
        &["message of ", "from rank 0", "tag 78", "8 bytes"],
    ),
    (
        "unmatched_buffered",
        2,
        &["message of ", "from rank 0", "tag 77", "524288 bytes"],
    ),
    (
        "pending_send",
        0,
        &["send of 1000000 bytes", "to rank 2", "tag 77"],
    ),
    (
        "pending_receive",
        0,
        &["receive of up to 8 bytes", "from rank 2", "tag 77"],
    ),
];

/// The standard allows to end such programs, and so they end; with `WEFT_CHECK=1` a line says what is wrong.
fn erroneous(case: &str, rank: &u32, words: &[&str]) -> Outcome {
    for way in [common(), "tcp;ofi_rxm", "sockets", "shm", "WEFT_LANES=shm"] {
        let job = finalize(3, &["erroneous", case])?.over(way);
        let ended = job.run()?;
        ended.is_well("finalize", 3)?;
        if !ended.stderr.is_empty() {
            return Err(ended.fail("it was said without WEFT_CHECK=1"));
        }
        let ended = job.env("WEFT_CHECK", "1").run()?;
        ended.is_well("finalize", 3)?;
        let who = format!("[weft] rank {rank}:   ");
        let mut all = vec![who.as_str()];
        all.extend(words);
        ended.says(&all)?;
    }
    Ok(())
}

fn results() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("outfile");
    let ended = finalize(3, &["results", path.to_str().ok_or("a path that is no text")?])?.run()?;
    ended.prints("finalize: ok with 3 ranks")?;
    // Each rank has a status of its own, and the first that is not 0 counts.
    if ![21, 22].contains(&ended.status) {
        return Err(ended.fail("expected the status of rank 1 or 2"));
    }
    match std::fs::read_to_string(&path)?.as_str() {
        "results of 3 ranks\n" => Ok(()),
        other => Err(format!("the file has '{other}'").into()),
    }
}

/// With errors that return each call tells what is wrong; by default the first ends the job (`misuse`).
fn outside() -> Outcome {
    let ways = [common(), "tcp;ofi_rxm", "sockets", "shm", "WEFT_LANES=shm"];
    for (way, ranks) in ways.into_iter().zip([1, 3, 2, 5, 8]) {
        let ended = Job::new(&build::program("outside")?, ranks)
            .option("-initial-errhandler")
            .option("mpi_errors_return")
            .over(way)
            .run()?;
        ended.is_well("outside", ranks)?;
    }
    Ok(())
}

/// A rank is killed at some instant while all are on their way through `MPI_Finalize`: the job ends soon, with its status and
/// a line that names it, even where another rank's transport notices first; unless it was over by then.
fn killed(provider: &str) -> Outcome {
    let mut killed_in_time = 0;
    for round in 0..8 * repeat() {
        let seed = u64::from(round) * 31 + u64::from(std::process::id());
        let mut random = fastrand::Rng::with_seed(seed);
        let job = Waiting::start("finalize", provider)?;
        std::thread::sleep(Duration::from_micros(random.u64(..60_000)));
        let victim = job.pids[random.usize(..job.pids.len())];
        let failed = |why: Failed| format!("seed {seed}: {}", why.message().unwrap_or("it failed"));
        let (status, text) = job.kill(victim, Signal::SIGKILL).map_err(failed)?;
        match status {
            Some(137) => {
                names(&text, victim).map_err(failed)?;
                killed_in_time += 1;
            }
            Some(0) => {}
            other => return Err(format!("seed {seed}: the job ended with {other:?}\n{text}").into()),
        }
    }
    match killed_in_time {
        0 => Err("no rank was ever killed in time".into()),
        _ => Ok(()),
    }
}
