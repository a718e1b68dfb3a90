//! What is told of a program that hangs, dies or leaves something behind: what it had written, what its ranks waited for, and what
//! is left. And under which names debuggers and leak checkers see the library.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weft::sim::skip;

use crate::Outcome;
use crate::build;
use crate::job::Job;

const RANKS: u32 = 4;
/// The longest that a job may take to say what it is waited for.
const LIMIT: Duration = Duration::from_secs(100);

pub fn trials() -> Vec<Trial> {
    let mut trials = vec![
        Trial::test("diagnosis::output_arrives_before_a_signal", signals),
        Trial::test("diagnosis::output_arrives_before_the_time_limit", time_limit),
        Trial::test("diagnosis::a_persistent_collective_is_named", persistent),
        Trial::test("diagnosis::output_of_a_killed_rank_arrives", killed),
        Trial::test("diagnosis::what_is_left_is_counted_and_named", left),
        Trial::test(
            "diagnosis::misspelt_settings_are_told_without_a_launcher",
            misspelt,
        ),
        Trial::test("diagnosis::an_interface_that_is_not_there_is_an_error", interface),
        Trial::test("diagnosis::a_waiting_rank_is_in_mpi_recv", backtrace),
        Trial::test("diagnosis::valgrind_finds_no_leak", leaks),
    ];
    for (how, status, why) in [
        ("crashes", 128 + 11, "was killed by signal 11"),
        ("aborts", 5, "called MPI_Abort with code 5 on MPI_COMM_WORLD"),
    ] {
        let name = format!("diagnosis::output_arrives_before_a_rank::{how}");
        trials.push(Trial::test(name, move || ended_by_rank_1(how, status, why)));
    }
    trials
}

fn hangs(how: &str) -> Result<Job, Failed> {
    Ok(Job::new(&build::program("hangs")?, RANKS).arguments(&[how]))
}

/// The job's process and what it writes, in files.
struct Watched {
    child: Child,
    folder: tempfile::TempDir,
}

impl Watched {
    fn start(job: &Job) -> Result<Watched, Failed> {
        let folder = tempfile::tempdir()?;
        let child = job
            .command(folder.path())
            .stdout(File::create(folder.path().join("stdout"))?)
            .stderr(File::create(folder.path().join("stderr"))?)
            .spawn()?;
        Ok(Watched { child, folder })
    }

    fn said(&self, stream: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(stream)).unwrap_or_default()
    }

    /// Waits for the line of each rank, and gives the ranks' processes in their order.
    fn processes(&mut self) -> Result<Vec<i32>, Failed> {
        let end = Instant::now() + LIMIT;
        loop {
            let said = self.said("stdout");
            let of_rank = |rank: u32| -> Option<i32> {
                let begin = format!("rank {rank} is process ");
                let line = said
                    .split_inclusive('\n')
                    .find_map(|line| line.strip_prefix(&begin))?;
                line.strip_suffix('\n')?.parse().ok()
            };
            if let Some(found) = (0..RANKS).map(of_rank).collect() {
                return Ok(found);
            }
            if Instant::now() > end || self.child.try_wait()?.is_some() {
                let why = format!("no line of each rank:\n{said}\n{}", self.said("stderr"));
                let _ = self.child.kill();
                return Err(why.into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The exit status as a shell tells it, and what stands on standard error.
    fn end(mut self) -> Result<(i32, String, String), Failed> {
        let end = Instant::now() + LIMIT;
        let status = loop {
            match self.child.try_wait()? {
                Some(status) => break status,
                None if Instant::now() > end => {
                    let _ = self.child.kill();
                    return Err(format!("it did not end:\n{}", self.said("stderr")).into());
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        Ok((code.unwrap_or(-1), self.said("stdout"), self.said("stderr")))
    }
}

/// Some lines of a text, each with the words of one of these, in this order.
fn has_lines(text: &str, expected: &[&str]) -> Outcome {
    let mut lines = text.lines();
    for words in expected {
        if !lines.any(|line| line.contains(words)) {
            return Err(format!("no line has '{words}', in this order:\n{text}").into());
        }
    }
    Ok(())
}

/// What the ranks of `hangs waits` wait for.
fn tells_what_ranks_wait_for(stderr: &str) -> Outcome {
    has_lines(
        stderr,
        &[
            "  rank 0 is in MPI_Recv and waits",
            "receive of up to 4 bytes from rank 3, tag 7, on halo: no message has come",
            "  ranks 2-3 are in MPI_Barrier and wait: MPI_Barrier on MPI_COMM_WORLD: nothing has come from rank ",
            "  rank 1 did not answer",
        ],
    )?;
    match stderr.lines().count() {
        ..=8 => Ok(()),
        _ => Err(format!("these are many lines:\n{stderr}").into()),
    }
}

/// Waits until a process sleeps and goes on sleeping: a rank that waits takes some turns before it does.
fn wait_until_asleep(process: i32) -> Outcome {
    let end = Instant::now() + LIMIT;
    let mut asleep = 0;
    while asleep < 20 {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with('S'));
        asleep = if state == Some(true) { asleep + 1 } else { 0 };
        if Instant::now() > end {
            return Err(format!("process {process} does not sleep").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn signals() -> Outcome {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut job = Watched::start(&hangs("waits")?)?;
        for process in job.processes()? {
            wait_until_asleep(process)?;
        }
        kill(Pid::from_raw(job.child.id() as i32), signal)?;
        let (status, stdout, stderr) = job.end()?;
        if status != 128 + signal as i32 {
            return Err(format!("status {status} after {signal}\n{stderr}").into());
        }
        has_lines(&stderr, &[&format!("mpiexec: {signal} came; ending the job:")])?;
        tells_what_ranks_wait_for(&stderr)?;
        // The beginnings of lines, too, where the rank could hear that it is about to end.
        if stdout.matches("then it").count() != 3 {
            return Err(format!("three ranks have begun a line:\n{stdout}").into());
        }
    }
    Ok(())
}

/// At a time when all ranks wait, however long they took to get there.
fn time_limit() -> Outcome {
    let mut limit = 2;
    loop {
        let mut job = Watched::start(&hangs("waits")?.option("--timeout").option(limit.to_string()))?;
        let processes = job.processes();
        let (status, _, stderr) = job.end()?;
        // A busy machine may take that long to start them.
        if (processes.is_err() || !stderr.contains("is in MPI_Recv")) && limit < 60 {
            limit *= 3;
            continue;
        }
        processes?;
        if status != 124 {
            return Err(format!("status {status}\n{stderr}").into());
        }
        let line = format!(
            "mpiexec: after the time limit of {limit} s ranks 0-3 were still running; ending the job:"
        );
        has_lines(&stderr, &[&line])?;
        return tells_what_ranks_wait_for(&stderr);
    }
}

/// A rank has not started what the others have.
fn persistent() -> Outcome {
    let words = [
        "rank 0 is in MPI_Wait and waits:",
        "MPI_Bcast_init with root 2 on MPI_COMM_WORLD: nothing has come from rank 2",
        "rank 2 is in MPI_Finalize",
    ];
    let mut limit = 2;
    loop {
        let job = Job::new(&build::program("persistent_collectives")?, 3).arguments(&["left"]);
        let ended = job.option("--timeout").option(limit.to_string()).run()?;
        // A busy machine may take that long to come so far.
        if words.iter().any(|words| !ended.stderr.contains(words)) && limit < 60 {
            limit *= 3;
            continue;
        }
        return words.iter().try_for_each(|words| ended.says(&[words]));
    }
}

fn killed() -> Outcome {
    let mut job = Watched::start(&hangs("waits")?)?;
    let processes = job.processes()?;
    kill(Pid::from_raw(processes[1]), Signal::SIGKILL)?;
    let (status, _, stderr) = job.end()?;
    if status != 128 + 9 {
        return Err(format!("status {status}\n{stderr}").into());
    }
    has_lines(&stderr, &["mpiexec: rank 1 (pid "])
}

fn ended_by_rank_1(how: &str, status: i32, why: &str) -> Outcome {
    let ended = hangs(how)?.run()?;
    ended.status_is(status)?;
    ended.says(&["mpiexec: rank 1 (pid ", why])?;
    // Other ranks may have been killed before they printed anything.
    ended.prints("rank 1 is process ")?;
    if how == "aborts" {
        ended.prints("then it")?;
    }
    Ok(())
}

fn left() -> Outcome {
    let ended = hangs("leaves")?.run()?;
    ended.is_well("hangs", RANKS)?;
    if !ended.stderr.is_empty() {
        return Err(ended.fail("it was said without WEFT_CHECK=1"));
    }
    let ended = hangs("leaves")?.env("WEFT_CHECK", "1").run()?;
    ended.is_well("hangs", RANKS)?;
    let at = "[weft] rank 0: at MPI_Finalize ";
    for (count, lines) in [
        (
            "3 requests are not completed:",
            &[
                "send of 4 bytes to process 0, tag 1, on MPI_COMM_SELF: it has ended",
                "receive of up to 12 bytes from rank 0, tag 2, on halo: no message has come",
                "persistent request on halo",
            ][..],
        ),
        ("1 window is not freed:", &["window of 1 process"]),
        (
            "2 communicators are not freed:",
            &["halo, of 1 process", "communicator 0x"],
        ),
        (
            "1 group is not freed:",
            &["group of 4 processes, with 2 references"],
        ),
        ("1 datatype is not freed:", &["derived datatype of 16 bytes"]),
        ("1 info is not freed:", &["colour"]),
        (
            "1 message is not received:",
            &["message of 4 bytes from rank 0, tag 1, on MPI_COMM_SELF"],
        ),
    ] {
        ended.says_once(&format!("{at}{count}"))?;
        for words in lines {
            ended.says(&["[weft] rank 0:   ", words])?;
        }
    }
    let lines = ended.stderr.lines().count();
    if lines != 7 + 10 {
        return Err(ended.fail(format!("{lines} lines, and the other ranks have left nothing")));
    }
    Ok(())
}

/// A singleton.
fn alone(program: &str, environment: &[(&str, &str)]) -> Result<(i32, String), Failed> {
    let output = Command::new(build::program(program)?)
        .env_remove("PMI_FD")
        .envs(environment.iter().copied())
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((output.status.code().unwrap_or(-1), stderr))
}

fn misspelt() -> Outcome {
    let (status, stderr) = alone("self", &[("WEFT_PROVIDR", "tcp")])?;
    let expected = "[weft] WEFT_PROVIDR is not a setting of Weft: did you mean WEFT_PROVIDER?\n";
    if (status, stderr.as_str()) != (0, expected) {
        return Err(format!("status {status}: {stderr}").into());
    }
    // Under Weft's launcher, that one says it.
    let ended = Job::new(&build::program("self")?, 3)
        .env("WEFT_PROVIDR", "tcp")
        .run()?;
    ended.status_is(0)?;
    ended.says_once("WEFT_PROVIDR is not a setting of Weft: did you mean WEFT_PROVIDER?")
}

fn interface() -> Outcome {
    for (ranks, way) in [
        (1, "WEFT_LANES=shm"),
        (2, "WEFT_LANES=shm"),
        (2, "WEFT_LANES=shm,ofi"),
    ] {
        let job = Job::new(&build::program("self")?, ranks).over(way);
        let ended = job.env("WEFT_INTERFACE", "eth9").run()?;
        if ended.status == 0 {
            return Err(ended.fail("there is no such interface"));
        }
        ended.says(&["WEFT_INTERFACE", "'eth9'", "lo"])?;
    }
    for name in ["lo", "127.0.0.1"] {
        let job = Job::new(&build::program("self")?, 2).over("WEFT_LANES=shm");
        job.env("WEFT_INTERFACE", name).run()?.status_is(0)?;
    }
    Ok(())
}

/// SIGUSR1 is handed on to the ranks, which then print the frames of their stacks, by the names that the library exports.
fn backtrace() -> Outcome {
    let mut job = Watched::start(&hangs("waits")?)?;
    for process in job.processes()? {
        wait_until_asleep(process)?;
    }
    let launcher = Pid::from_raw(job.child.id() as i32);
    kill(launcher, Signal::SIGUSR1)?;
    let end = Instant::now() + LIMIT;
    while job.said("stderr").matches("end of the frames").count() < 3 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(launcher, Signal::SIGTERM)?;
    let (_, _, stderr) = job.end()?;
    let frames = |name: &str| stderr.matches(&format!("({name}+0x")).count();
    if (frames("MPI_Recv"), frames("MPI_Barrier")) != (1, 2) {
        return Err(format!("one rank waits in MPI_Recv, two in MPI_Barrier:\n{stderr}").into());
    }
    Ok(())
}

/// With the suppressions that are installed, for what libfabric keeps.
fn leaks() -> Outcome {
    if Command::new("valgrind").arg("--version").output().is_err() {
        skip("there is no valgrind");
        return Ok(());
    }
    let suppressions = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/valgrind.supp");
    for way in ["WEFT_LANES=shm", "WEFT_LANES=ofi"] {
        let ended = Job::new(Path::new("valgrind"), 2)
            .arguments(&[
                "--quiet",
                "--leak-check=full",
                "--error-exitcode=42",
                &format!("--suppressions={}", suppressions.display()),
                &build::program("received")?.to_string_lossy(),
            ])
            .over(way)
            .run()?;
        ended.status_is(0)?;
        if ended.stderr.contains("==") {
            return Err(ended.fail("valgrind has something to say"));
        }
    }
    Ok(())
}
