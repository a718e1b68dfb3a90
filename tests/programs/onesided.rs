//! One-sided communication: the programs `tests/c/rma_*.c`, by each way to a target's memory (`WEFT_WINDOWS`), and their deaths.
//!
//! The gate runs a fixed sample; `WEFT_TEST_MATRIX=full` runs every program by every way over every lane with every number of ranks
//! (`ci/soak.d/onesided`).

use std::time::Duration;

use libtest_mimic::Trial;

use crate::Outcome;
use crate::build;
use crate::job::{Job, repeat};
use crate::matrix::{common, full, providers};

/// The programs.
const PROGRAMS: &[&str] = &[
    "rma_ops",
    "rma_layouts",
    "rma_fence",
    "rma_pscw",
    "rma_locks",
    "rma_order",
    "rma_large",
    "rma_requests",
    "rma_passive",
    "rma_asked",
    "rma_errors",
    "rma_threads",
    "rma_bulk",
    "rma_sessions",
    "rma_random",
];

/// The program about accesses that conflict, and with how many ranks it runs.
const CONFLICT: &str = "rma_conflict";
const CONFLICT_WAYS: &[&str] = &["WEFT_LANES=shm", MIXED];
const CONFLICT_RANKS: &[u32] = &[2, 3, 4];

/// Of the gate: the way, with how many ranks, and with how many in brief.
const SAMPLE: &[(&str, &[u32], &[u32])] = &[
    ("WEFT_LANES=shm", &[1, 3], &[2, 5, 8]),
    ("WEFT_LANES=shm WEFT_WINDOWS=messages", &[2], &[1, 4]),
    ("WEFT_LANES=shm WEFT_WINDOWS=attach", &[3], &[2]),
];
/// Where processes start slowly, or the machine pretends to be two.
const SAMPLE_ELSEWHERE: &[u32] = &[3];
const MIXED: &str = "WEFT_LANES=shm,ofi WEFT_FAKE_NODES=2";
/// By remote writes and reads of a network that every libfabric has.
const REMOTE: &str = "WEFT_LANES=ofi WEFT_PROVIDER=tcp;ofi_rxm WEFT_WINDOWS=rdma";
/// The programs of the sample that take this way.
const SAMPLE_REMOTE: &[&str] = &[
    "rma_ops",
    "rma_layouts",
    "rma_fence",
    "rma_pscw",
    "rma_locks",
    "rma_large",
    "rma_requests",
];

/// Of the full matrix.
const RANKS: &[u32] = &[1, 2, 3, 4, 5, 8];
const WAYS: &[&str] = &[
    "",
    " WEFT_WINDOWS=messages",
    " WEFT_WINDOWS=attach",
    " WEFT_WINDOWS=direct",
    " WEFT_WINDOWS=rdma",
];
/// What each of the ways is combined with, beside the providers of libfabric.
const LANES: &[&str] = &[
    "WEFT_LANES=shm",
    "WEFT_LANES=shm WEFT_CMA=0",
    MIXED,
    "WEFT_LANES=shm,ofi WEFT_FAKE_NODES=3",
];
/// With more ranks over libfabric programs do less.
const WHOLE_AT_MOST: u32 = 4;

/// One test per program and way.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut add = |program: &'static str, way: String, whole: Vec<u32>, brief: Vec<u32>| {
        let name = format!("onesided::{program}::{way}");
        trials.push(Trial::test(name, move || {
            run(program, &way, &whole, false)?;
            run(program, &way, &brief, true)
        }));
    };
    for &program in PROGRAMS {
        if full() {
            for way in WAYS {
                for lanes in LANES {
                    add(program, format!("{lanes}{way}"), RANKS.to_vec(), Vec::new());
                }
                for provider in providers() {
                    let (whole, brief) = RANKS.iter().partition(|&&ranks| ranks <= WHOLE_AT_MOST);
                    add(
                        program,
                        format!("WEFT_LANES=ofi WEFT_PROVIDER={provider}{way}"),
                        whole,
                        brief,
                    );
                }
            }
            continue;
        }
        for (way, whole, brief) in SAMPLE {
            add(program, (*way).into(), whole.to_vec(), brief.to_vec());
        }
        for way in [format!("WEFT_LANES=ofi WEFT_PROVIDER={}", common()), MIXED.into()] {
            add(program, way, Vec::new(), SAMPLE_ELSEWHERE.to_vec());
        }
        if SAMPLE_REMOTE.contains(&program) {
            add(program, REMOTE.into(), Vec::new(), SAMPLE_ELSEWHERE.to_vec());
        }
    }
    for way in CONFLICT_WAYS {
        let name = format!("onesided::{CONFLICT}::{way}");
        trials.push(Trial::test(name, move || {
            let way = format!("{way} WEFT_CHECK=1");
            match full() {
                true => run(CONFLICT, &way, CONFLICT_RANKS, false),
                false => run(CONFLICT, &way, &CONFLICT_RANKS[..2], true),
            }
        }));
    }
    for death in DEATHS {
        for way in [
            "WEFT_LANES=shm",
            "WEFT_LANES=shm WEFT_WINDOWS=messages",
            MIXED,
            REMOTE,
        ] {
            // The others wait by messages.
            if way == REMOTE && !full() && death[0] != "fence" {
                continue;
            }
            let name = format!("onesided::deaths::{}::{way}", death.join("_"));
            trials.push(Trial::test(name, move || die(death, way)));
        }
    }
    trials.push(Trial::test("onesided::rma_mailbox", asks_by_mailbox));
    for mode in ["atomic", "closed"] {
        let name = format!("onesided::half_done::{mode}");
        trials.push(Trial::test(name, move || half_done(mode)));
    }
    for (way, how, ranks) in progress() {
        let name = format!("onesided::progress_thread::{how}::{way}::{ranks}");
        trials.push(Trial::test(name, move || progresses(&way, how, ranks)));
    }
    for how in SURVIVED {
        for way in ["WEFT_LANES=shm,ofi", "WEFT_LANES=ofi"] {
            let name = format!("onesided::survivors::{how}::{way}");
            trials.push(Trial::test(name, move || survive(how, way)));
        }
    }
    trials
}

fn run(program: &str, way: &str, numbers: &[u32], brief: bool) -> Outcome {
    let path = build::program(program)?;
    for _ in 0..repeat() {
        for &ranks in numbers {
            let mut job = Job::new(&path, ranks).over(way);
            if brief {
                job = job.env("WEFT_TEST_BRIEF", "1");
            }
            job.run()?.is_well(program, ranks)?;
        }
    }
    Ok(())
}

/// Between processes that each have a processor, and wait long: `tests/c/rma_mailbox.c`.
fn asks_by_mailbox() -> Outcome {
    let program = "rma_mailbox";
    for _ in 0..repeat() {
        let ended = Job::new(&build::program(program)?, 2)
            .over("WEFT_LANES=shm WEFT_SPIN_US=1000000")
            .run()?;
        ended.is_well(program, 2)?;
        for line in ended.stdout.lines().filter(|line| line.starts_with("skipped:")) {
            eprintln!("{program}: {line}");
        }
    }
    Ok(())
}

/// How the others wait, at whose memory, and who is killed: `tests/c/rma_death.c`.
const DEATHS: &[[&str; 3]] = &[
    ["lock", "0", "2"],
    ["lock", "2", "2"],
    ["flush", "1", "1"],
    ["unlock", "3", "3"],
    ["fence", "1", "2"],
    ["start", "0", "0"],
    ["wait", "1", "1"],
    ["free", "0", "3"],
];

/// "Within seconds", on a machine where other tests run at the same time.
const SOON: Duration = Duration::from_secs(20);

/// How a job waits at a process of another job that is gone: `tests/c/rma_survivors.c`.
const SURVIVED: &[&str] = &["fence", "lock", "flush", "request", "start", "wait", "test"];

/// The ways by which a target that computes is helped by its thread, how that is turned on or what is tried, and the number of ranks:
/// `tests/c/rma_progress_thread.c`.
fn progress() -> Vec<(String, &'static str, u32)> {
    let over = |provider: &str| format!("WEFT_LANES=ofi WEFT_PROVIDER={provider}");
    let shm = || "WEFT_LANES=shm WEFT_WINDOWS=messages".to_string();
    let mut all = vec![
        (shm(), "setting", 3),
        (shm(), "hint", 2),
        (shm(), "idle", 2),
        (shm(), "cycles", 1),
        (shm(), "sessions", 1),
        (shm(), "exit", 3),
        (shm(), "jobs", 2),
        (over(common()), "setting", 3),
        (over("tcp;ofi_rxm"), "hint", 2),
    ];
    if full() {
        let mut ways: Vec<String> = providers().into_iter().map(over).collect();
        ways.extend([
            shm(),
            shm() + " WEFT_SPIN_US=0 WEFT_SLEEP_MAX_MS=80000000",
            MIXED.into(),
        ]);
        for way in ways {
            for ranks in [2, 3, 5] {
                let hows = ["setting", "hint", "off", "idle", "jobs"];
                all.extend(hows.map(|how| (way.clone(), how, ranks)));
            }
            all.extend(["cycles", "sessions"].map(|how| (way.clone(), how, 1)));
        }
    }
    all
}

fn progresses(way: &str, how: &str, ranks: u32) -> Outcome {
    let program = "rma_progress_thread";
    for _ in 0..repeat() {
        let mut job = Job::new(&build::program(program)?, ranks)
            .arguments(&[how])
            .over(way);
        // Otherwise the program asks by the info key, or not at all.
        if matches!(how, "setting" | "sessions" | "exit" | "jobs") {
            job = job.env("WEFT_PROGRESS_THREAD", "1");
        }
        let ended = job.run()?;
        match how {
            "exit" => {
                ended.status_is(7)?;
                ended.says(&["rank 0", "MPI_Finalize"])?;
            }
            "sessions" => {
                ended.status_is(0)?;
                ended.prints("rma_progress_thread: ok")?;
            }
            _ => ended.is_well(program, ranks)?,
        }
    }
    Ok(())
}

fn survive(how: &'static str, way: &str) -> Outcome {
    let ended = Job::new(&build::program("rma_survivors")?, 2)
        .arguments(&[how])
        .over(way)
        .over(&format!("WEFT_PROVIDER={}", common()))
        .run()?;
    // The child's status.
    ended.status_is(3)?;
    ended.prints("rma_survivors: ok with 2 ranks")
}

/// A process dies in the midst of an update: `tests/c/rma_half_done.c`.
fn half_done(mode: &str) -> Outcome {
    for _ in 0..repeat() {
        let ended = Job::new(&build::program("rma_half_done")?, 2)
            .arguments(&[mode])
            .over("WEFT_LANES=shm,ofi")
            .over(&format!("WEFT_PROVIDER={}", common()))
            .run()?;
        // The child's status.
        ended.status_is(137)?;
        ended.prints("rma_half_done: ok with 2 ranks")?;
        if ended.took > SOON {
            return Err(ended.fail("the end took too long"));
        }
    }
    Ok(())
}

fn die(death: &[&str; 3], way: &str) -> Outcome {
    let ended = Job::new(&build::program("rma_death")?, 4)
        .arguments(death)
        .over(way)
        .run()?;
    ended.status_is(137)?;
    ended.says(&["mpiexec: ", &format!("rank {}", death[2]), "signal 9"])?;
    match ended.took > SOON {
        true => Err(ended.fail("the end took too long")),
        false => Ok(()),
    }
}
