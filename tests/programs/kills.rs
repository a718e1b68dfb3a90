//! A rank that is killed at any instant never hangs the others, never corrupts a message, and leaves nothing behind.
//!
//! The gate has a few kill points. `WEFT_TEST_KILLS` says how many kill points each way of carrying messages is given, `WEFT_TEST_KILLS_FROM` the first seed:
//! `WEFT_TEST_KILLS=10000 cargo test --test programs -- kills`. The failure of a seed says how to run it again; as the kernel's
//! clock says where exactly a rank dies, it may take several runs to fail again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};

use crate::Outcome;
use crate::build;
use crate::job::{Ended, Job};
use crate::matrix::common;

/// Unless a setting says otherwise: a job over shared memory alone takes some 0.1 s, one that loads libfabric a second. The search is
/// `ci/soak.d/kills`.
const KILLS: u64 = 8;
const KILLS_OVER_LIBFABRIC: u64 = 3;
/// How long processes may be seen after the launcher's end. (Whether the job ends at all is told by the launcher's own limit,
/// which comes with another status.)
const SOON: Duration = Duration::from_secs(20);
const RANKS: [u32; 4] = [2, 3, 4, 5];

/// The tests.
pub fn trials() -> Vec<Trial> {
    let mixed = format!("WEFT_LANES=shm,ofi WEFT_FAKE_NODES=2 WEFT_PROVIDER={}", common());
    let mut ways = vec![
        ("shm", "WEFT_LANES=shm", KILLS),
        ("shm_without_cma", "WEFT_LANES=shm WEFT_CMA=0", KILLS),
        ("mixed", &mixed, KILLS_OVER_LIBFABRIC),
        ("tcp;ofi_rxm", "tcp;ofi_rxm", KILLS_OVER_LIBFABRIC),
        (common(), common(), KILLS_OVER_LIBFABRIC),
    ];
    ways.dedup_by_key(|&mut (name, ..)| name);
    let trial = |(name, way, kills): (&str, &str, u64)| {
        let way = way.to_string();
        Trial::test(format!("kills::{name}"), move || storms(&way, kills))
    };
    ways.into_iter().map(trial).collect()
}

fn number(variable: &str, otherwise: u64) -> u64 {
    let value = std::env::var(variable).ok();
    value.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn storms(way: &str, kills: u64) -> Outcome {
    let program = build::program("storm")?;
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log");
    let told = std::env::var_os("WEFT_TEST_KILLS").is_some();
    let (first, kills) = (
        number("WEFT_TEST_KILLS_FROM", 1),
        number("WEFT_TEST_KILLS", kills),
    );
    let mut ends: BTreeMap<i32, u64> = BTreeMap::new();
    for seed in first..first + kills {
        let ranks = RANKS[(seed % RANKS.len() as u64) as usize];
        File::create(&log)?;
        let job = Job::new(&program, ranks)
            .arguments(&[&seed.to_string(), &log.to_string_lossy()])
            .over(way);
        let ended = job.run()?;
        check(&ended, &log, ranks)?;
        *ends.entry(ended.status).or_default() += 1;
    }
    if told {
        eprintln!("{kills} kill points over {way}, by the job's status: {ends:?}");
    }
    // One rank in ten is killed as it ends, and may have ended before.
    let survived = ends.get(&0).copied().unwrap_or(0);
    if survived > kills / 4 + 1 {
        return Err(format!("{survived} of {kills} ranks that were to be killed were not").into());
    }
    Ok(())
}

/// The job of a killed rank ended as it should, or the rank had ended before.
fn check(ended: &Ended, log: &Path, ranks: u32) -> Outcome {
    let wrong = fs::read_to_string(log)?;
    if !wrong.is_empty() {
        return Err(ended.fail(format!("a rank has seen what it must not:\n{wrong}")));
    }
    if ended.status == 0 {
        ended.is_well("storm", ranks)?;
    } else {
        ended.status_is(137)?;
        ended.says(&["mpiexec: ", "rank ", "signal 9"])?;
    }
    nobody_has(log).map_err(|failed| ended.fail(failed.message().unwrap_or_default()))
}

/// No process is left that was started with this argument.
fn nobody_has(argument: &Path) -> Outcome {
    let wanted = argument.as_os_str().as_encoded_bytes();
    let start = Instant::now();
    loop {
        let left: Vec<String> = processes_with(wanted)?;
        if left.is_empty() {
            return Ok(());
        }
        if start.elapsed() > SOON {
            return Err(format!("these processes are left: {left:?}").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn processes_with(argument: &[u8]) -> Result<Vec<String>, Failed> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.filter_map(|entry| entry.ok()) {
        // Processes come and go.
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if line.split(|&byte| byte == 0).any(|word| word == argument) {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(found)
}
