//! Processes that come and go: jobs that are spawned, and jobs that meet at a port.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;

use crate::Outcome;
use crate::build;
use crate::job::Job;
use crate::matrix::common;

/// Shared memory, and libfabric alone.
const WAYS: &[&str] = &["WEFT_LANES=shm,ofi", "tcp;ofi_rxm"];

/// What is spawned, and where: see `tests/c/placed.c`. `ci/checks/hosts` does that over several hosts.
const PLACED: &[(&str, u32, &str)] = &[
    (
        "by_several_commands",
        3,
        "2 wdir=/ in=/ root=2 and 1 wdir=/usr in=/usr",
    ),
    ("three_generations", 1, "2 then 1 wdir=/ in=/ then 2"),
    (
        "nowhere",
        2,
        "2 host=nowhere.invalid fails=nowhere.invalid root=1",
    ),
];

/// The tests.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for &way in WAYS {
        for (mode, ranks, children) in [
            ("disconnect", 1, "1"),
            ("disconnect", 3, "2"),
            ("finalize", 2, "3"),
            ("free", 2, "1"),
            ("grand", 1, "2"),
        ] {
            let name = format!("dynamic::spawn_and_{mode}::{ranks}_and_{children}::{way}");
            trials.push(Trial::test(name, move || {
                one("spawn", ranks, &[children, mode], way, "spawn: ok")
            }));
        }
        for (what, ranks, words) in PLACED {
            let name = format!("dynamic::placed_{what}::{ranks}::{way}");
            trials.push(Trial::test(name, move || {
                let words: Vec<_> = words.split(' ').collect();
                one("placed", *ranks, &words, way, "placed: ok")
            }));
        }
        for ranks in [1, 2] {
            let name = format!("dynamic::a_job_survives_its_children::{ranks}::{way}");
            trials.push(Trial::test(name, move || survives(ranks, way)));
        }
        for ranks in [1, 2, 5] {
            let name = format!("dynamic::ports_within_a_job::{ranks}::{way}");
            trials.push(Trial::test(name, move || {
                one("ports", ranks, &["one"], way, "ports: ok")
            }));
        }
        for (servers, clients) in [(1, 1), (3, 2), (1, 4)] {
            let name = format!("dynamic::ports_of_two_jobs::{servers}_and_{clients}::{way}");
            trials.push(Trial::test(name, move || two("ports", servers, clients, way)));
        }
        for ranks in [2, 3] {
            let name = format!("dynamic::join_within_a_job::{ranks}::{way}");
            trials.push(Trial::test(name, move || {
                one("join", ranks, &[], way, "join: ok")
            }));
        }
    }
    trials.push(Trial::test("dynamic::spawn_without_a_launcher", alone));
    trials
}

fn one(program: &str, ranks: u32, arguments: &[&str], way: &str, says: &str) -> Outcome {
    let ended = Job::new(&build::program(program)?, ranks)
        .arguments(arguments)
        .env("WEFT_TEST_BRIEF", "1")
        .over(way)
        .run()?;
    ended.status_is(0)?;
    ended.prints(says)
}

/// The children's job is gone, which its parents are told, and which its status tells.
fn survives(ranks: u32, way: &str) -> Outcome {
    let ended = Job::new(&build::program("survivors")?, ranks)
        .arguments(&["exit"])
        .env("WEFT_TEST_BRIEF", "1")
        .over(way)
        .run()?;
    ended.status_is(3)?;
    ended.prints(&format!("survivors: ok with {ranks} ranks"))
}

/// A server and a client, each under a launcher of its own.
fn two(program: &str, servers: u32, clients: u32, way: &str) -> Outcome {
    let folder = tempfile::tempdir()?;
    let port = folder.path().join("port");
    let port = port.to_string_lossy();
    let program = build::program(program)?;
    let job = |ranks, mode: &str| {
        Job::new(&program, ranks)
            .arguments(&[mode, &port])
            .env("WEFT_TEST_BRIEF", "1")
            .over(way)
    };
    let server = job(servers, "server");
    let out = folder.path().join("server");
    let mut running: Child = server
        .command(folder.path())
        .stdout(said(&out)?)
        .stderr(said(&out)?)
        .spawn()?;
    let client = job(clients, "client").run();
    // Its own limit ends it.
    let deadline = Instant::now() + Duration::from_secs(120);
    let status = loop {
        if let Some(status) = running.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            let _ = running.kill();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let said = std::fs::read_to_string(&out)?;
    client?.status_is(0)?;
    match status.success() && said.contains("ports: ok") {
        true => Ok(()),
        false => Err(format!("the server ended with {status}:\n{said}").into()),
    }
}

/// A file behind which both streams write.
fn said(path: &Path) -> std::io::Result<File> {
    File::options().create(true).append(true).open(path)
}

/// A world of one that no launcher has started brings up a launcher of its own.
fn alone() -> Outcome {
    let job = Job::new(&build::program("spawn")?, 1).over(common());
    let folder = tempfile::tempdir()?;
    // The environment of a job, without its launcher.
    let prepared = job.command(folder.path());
    let mut command = Command::new("timeout");
    command
        .arg("100")
        .arg(build::program("spawn")?)
        .args(["2", "disconnect"])
        .env("WEFT_MPIEXEC", env!("CARGO_BIN_EXE_mpiexec"))
        .env("WEFT_TEST_BRIEF", "1")
        .stdin(Stdio::null());
    for (name, value) in prepared.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.output()?;
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    match output.status.success() && said.contains("spawn: ok with 1 ranks") {
        true => Ok(()),
        false => Err(format!("it ended with {}:\n{said}", output.status).into()),
    }
}
