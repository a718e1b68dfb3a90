//! Processes that come and go: jobs that are spawned, and jobs that meet at a port.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;

use crate::Outcome;
use crate::build;
use crate::job::Job;

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
            ("several", 2, "3"),
            ("refused", 2, "1"),
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
        for mode in ["chain", "ring", "apart", "third"] {
            let name = format!("dynamic::three_jobs::{mode}::{way}");
            trials.push(Trial::test(name, move || {
                one("three_jobs", 2, &[mode], way, "three_jobs: ok")
            }));
        }
        let name = format!("dynamic::accepting_threads::{way}");
        trials.push(Trial::test(name, move || {
            one("accepting_threads", 3, &[], way, "accepting_threads: ok")
        }));
        for (ranks, arguments) in [(2, &["2"] as &[&str]), (3, &["1", "only"])] {
            let name = format!("dynamic::sessions::{ranks}_and_{}::{way}", arguments.join("_"));
            trials.push(Trial::test(name, move || {
                one("spawn_sessions", ranks, arguments, way, "spawn_sessions: ok")
            }));
        }
        for (mode, status, says) in ENDS {
            let name = format!("dynamic::ends::{mode}::{way}");
            trials.push(Trial::test(name, move || ends(mode, *status, says, way)));
        }
    }
    for ranks in [1, 3] {
        let name = format!("dynamic::what_can_not_be_spawned::{ranks}");
        trials.push(Trial::test(name, move || {
            one("spawn_errors", ranks, &[], WAYS[0], "spawn_errors: ok")
        }));
    }
    for (server, client, word) in [
        ("WEFT_LANES=shm", "WEFT_LANES=ofi", "WEFT_LANES"),
        ("tcp;ofi_rxm", "sockets", "ofi/sockets"),
    ] {
        let name = format!("dynamic::no_way_in_common::{server}::{client}");
        trials.push(Trial::test(name, move || no_way(server, client, word)));
    }
    trials.push(Trial::test("dynamic::spawn_many", || {
        one("spawn_errors", 2, &["many"], WAYS[0], "spawn_errors: ok")
    }));
    for way in ["WEFT_LANES=shm,ofi", "tcp;ofi_rxm", "shm", "sockets"] {
        for (mode, cycles) in [("meet", "40"), ("visit", "16")] {
            let name = format!("dynamic::cycles::{mode}::{way}");
            trials.push(Trial::test(name, move || {
                one("cycles", 1, &[mode, cycles], way, "cycles: ok")
            }));
        }
    }
    trials.push(Trial::test("dynamic::cycles::spawn", || {
        one("cycles", 1, &["spawn", "16"], WAYS[1], "cycles: ok")
    }));
    for way in ["accept", "create"] {
        for end in ["abort", "die", "finalize"] {
            for (lanes, ranks) in [(WAYS[0], 1), (WAYS[1], 2)] {
                let name = format!("dynamic::through_a_third::{way}::{end}::{ranks}::{lanes}");
                trials.push(Trial::test(name, move || through_a_third(way, end, ranks, lanes)));
            }
        }
    }
    trials.push(Trial::test("dynamic::spawn_without_a_launcher", alone));
    trials
}

/// How jobs of `tests/c/spawn_ends.c` end: the status of the first launcher, which is that of the job that ended worst, and what is said.
const ENDS: &[(&str, i32, &str)] = &[
    ("abort-apart", 7, "spawn_ends: ok"),
    ("kill-apart", 137, "spawn_ends: ok"),
    ("abort", 7, ""),
    ("kill", 137, "spawn_ends: ok"),
    ("parent-first", 0, "the child ends well"),
    ("abort-parent", 9, "the disconnected child ends well"),
];

fn ends(mode: &str, status: i32, says: &str, way: &str) -> Outcome {
    let ended = Job::new(&build::program("spawn_ends")?, 2)
        .arguments(&[mode])
        .over(way)
        .run()?;
    ended.status_is(status)?;
    ended.prints(says)
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
    meet(&job(servers, "server"), &job(clients, "client"))
}

/// Two jobs whose settings leave no way between them: an error for all, which says so and has the `word`.
fn no_way(server: &str, client: &str, word: &str) -> Outcome {
    let folder = tempfile::tempdir()?;
    let port = folder.path().join("port");
    let port = port.to_string_lossy();
    let program = build::program("ports")?;
    let job = |ranks, mode: &str, way: &str| {
        Job::new(&program, ranks)
            .arguments(&[mode, &port, word])
            .over(way)
    };
    meet(&job(2, "server", server), &job(2, "client", client))
}

/// Runs a job of `ports` that serves and one that comes to it, at the same time.
pub fn meet(server: &Job, client: &Job) -> Outcome {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("server");
    let mut running: Child = server
        .command(folder.path())
        .stdout(said(&out)?)
        .stderr(said(&out)?)
        .spawn()?;
    let client = client.run();
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

/// Two jobs that are connected by a third one only, which has left: the end of one is told to the other, which only tests a request.
fn through_a_third(way: &str, end: &str, ranks: u32, lanes: &str) -> Outcome {
    let folder = tempfile::tempdir()?;
    let program = build::program("connected")?;
    let at = folder.path().to_string_lossy();
    let start = |role: &str| -> Result<(Child, std::path::PathBuf), Box<dyn std::error::Error>> {
        let out = folder.path().join(format!("{role}.out"));
        let job = Job::new(&program, ranks)
            .arguments(&[role, &at, way, end])
            .over(lanes);
        let mut command = job.command(folder.path());
        Ok((command.stdout(said(&out)?).stderr(said(&out)?).spawn()?, out))
    };
    let [mut first, mut middle, mut last] = [start("first")?, start("middle")?, start("last")?];
    let wait = |(child, out): &mut (Child, std::path::PathBuf)| -> Result<(Option<i32>, String), Box<dyn std::error::Error>> {
        // Its own limit ends it.
        let status = child.wait()?;
        Ok((status.code(), std::fs::read_to_string(out)?))
    };
    if end != "finalize" {
        let middle = wait(&mut middle)?;
        if middle.0 != Some(0) || !middle.1.contains("connected: ok") {
            for (child, _) in [&mut first, &mut last] {
                child.kill()?;
                child.wait()?;
            }
            return Err(format!("the job in the middle: {middle:?}").into());
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        while !folder.path().join("waits").exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::fs::write(folder.path().join("go.part"), "go")?;
        std::fs::rename(folder.path().join("go.part"), folder.path().join("go"))?;
    }
    let ends = [wait(&mut first)?, wait(&mut last)?];
    let middle = match end {
        "finalize" => wait(&mut middle)?,
        _ => (Some(0), "connected: ok".into()),
    };
    let expected = match end {
        "abort" => [(Some(7), "a connected job was aborted"), (Some(7), "MPI_Abort")],
        "die" => [(Some(0), "connected: ok"), (Some(137), "was killed by signal 9")],
        _ => [(Some(0), "connected: ok"); 2],
    };
    let is_right = (ends.iter().zip(expected))
        .all(|((status, said), (code, words))| *status == code && said.contains(words));
    match is_right && middle.0 == Some(0) {
        true => Ok(()),
        false => Err(format!("expected {expected:?}, got {ends:?}, and the middle {middle:?}").into()),
    }
}

/// A file behind which both streams write.
fn said(path: &Path) -> std::io::Result<File> {
    File::options().create(true).append(true).open(path)
}

/// A world of one that no launcher has started brings up a launcher of its own.
fn alone() -> Outcome {
    let job = Job::new(&build::program("spawn")?, 1).over(WAYS[1]);
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
