//! Ranks that wait: they use next to no processor time, and are woken by what they wait for, over each way and however the waits
//! begin; and they wait as long as it takes: a rank that calls nothing is told of and not lost.

use std::fs::File;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;

use crate::Outcome;
use crate::build;
use crate::job::Job;
use crate::matrix::common;

/// One test per way, where waits spin at first and where they do not: that decides on what a rank sleeps.
pub fn trials() -> Vec<Trial> {
    let ways = [
        "WEFT_LANES=shm".to_string(),
        "tcp;ofi_rxm".to_string(),
        common().to_string(),
        format!("WEFT_LANES=shm,ofi WEFT_FAKE_NODES=2 WEFT_PROVIDER={}", common()),
    ];
    let mut trials = Vec::new();
    for way in ways {
        for spin_us in ["0", "2000"] {
            let way = format!("{way} WEFT_SPIN_US={spin_us}");
            let name = format!("waiting::costs_nothing::{way}");
            trials.push(Trial::test(name, move || idle(&way)));
        }
    }
    // With a thread that sleeps, too.
    for way in ["WEFT_LANES=shm", common()] {
        let way = format!("{way} WEFT_SPIN_US=0 WEFT_PROGRESS_THREAD=1");
        let name = format!("waiting::costs_nothing::{way}");
        trials.push(Trial::test(name, move || idle(&way)));
    }
    for way in ["tcp;ofi_rxm", common()] {
        for how in ["computes", "stopped"] {
            let name = format!("waiting::a_silent_rank_is_not_lost::{how}::{way}");
            trials.push(Trial::test(name, move || silent(way, how)));
        }
    }
    for spin_us in ["0", "2000"] {
        let name = format!("waiting::ends_by_a_wake_up::WEFT_SPIN_US={spin_us}");
        trials.push(Trial::test(name, move || woken(spin_us)));
    }
    trials
}

/// `WEFT_TEST_SILENT_S`: for so many seconds at least, up to 80 (`ci/soak.d/silent`); otherwise until the sender has said that
/// nothing was taken from it.
fn silent(way: &str, how: &str) -> Outcome {
    let least = std::env::var("WEFT_TEST_SILENT_S").ok();
    let least = least.and_then(|text| text.parse().ok()).unwrap_or(0);
    let (folder, start) = (tempfile::tempdir()?, Instant::now());
    let go = folder.path().join("go");
    let job = Job::new(&build::program("silent")?, 2)
        .arguments(&[how, go.to_str().ok_or("a path that is no text")?])
        .over(way)
        .env("WEFT_CONTACT_REPORT_S", "1");
    // The address is of this machine.
    let told = |text: &str| {
        let is_told = |line: &str| {
            line.contains("rank 0: libfabric has taken no message for process 1 for 1 s. It is at 127.0.0.1:")
        };
        text.lines().any(is_told)
    };
    let ended = job.run_watched(|text| {
        if told(text) && start.elapsed() >= Duration::from_secs(least) {
            File::create(&go)?;
        }
        Ok(())
    })?;
    ended.is_well("silent", 2)?;
    match told(&ended.stderr) {
        true => Ok(()),
        false => Err(ended.fail("the silent rank was not told of")),
    }
}

/// Longer than any job of a test.
const FOR_EVER_MS: &str = "80000000";

/// Usually a wake-up that is lost is made good after 20 ms, when a sleeper looks for itself, and no test would see it. Here nobody
/// looks, and the job hangs. Not over libfabric: what it has read from a socket and not delivered yet wakes nobody
/// (`src/system/fabric/sockets.rs`), so there a sleeper has to look.
fn woken(spin_us: &str) -> Outcome {
    // Short messages and long ones, other ranks and oneself; threads that sleep in every procedure while others work.
    for program in ["ring", "blocked", "idle", "shared_collectives"] {
        let job = Job::new(&build::program(program)?, 3)
            .over("WEFT_LANES=shm")
            .env("WEFT_SPIN_US", spin_us)
            .env("WEFT_SLEEP_MAX_MS", FOR_EVER_MS)
            .env("WEFT_TEST_BRIEF", "1");
        job.run()?.is_well(program, 3)?;
    }
    Ok(())
}

fn idle(way: &str) -> Outcome {
    let ended = Job::new(&build::program("idle")?, 3).over(way).run()?;
    ended.is_well("idle", 3)?;
    for line in ended.stdout.lines().filter(|line| line.starts_with("rank ")) {
        eprintln!("{way}: {line}");
    }
    Ok(())
}
