//! Many runs, each of its own seed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A run that takes longer than this in real time hangs in a call that blocks, which is not allowed.
const RUN_MAX: Duration = Duration::from_secs(120);

/// Fresh seeds are below this: short enough to type, and tests may compute with them.
const FRESH_MAX: u64 = 1 << 30;

/// Which seeds to run.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Seeds {
    first: u64,
    /// The last one, unless the time is over before.
    last: u64,
    /// No run begins after this time.
    time: Option<Duration>,
}

impl Seeds {
    /// By the settings, whose values `number` returns; `random` is a random number.
    fn choose(number: impl Fn(&str) -> Option<f64>, seeds: u64, random: u64) -> Seeds {
        let fixed = |first, last| Seeds {
            first,
            last,
            time: None,
        };
        if let Some(seed) = number("WEFT_SIM_SEED") {
            return fixed(seed as u64, seed as u64);
        }
        match number("WEFT_SIM_SECONDS") {
            Some(seconds) => Seeds {
                first: random % FRESH_MAX,
                last: u64::MAX,
                time: Some(Duration::from_secs_f64(seconds)),
            },
            None => fixed(1, number("WEFT_SIM_SEEDS").map_or(seeds, |seeds| seeds as u64)),
        }
    }
}

/// The option with which cargo runs the test that this process is: `--test simulation`.
fn target() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    // Cargo appends a hash to the name.
    format!(
        "--test {}",
        name.rsplit_once('-').map_or(&*name, |(name, _)| name)
    )
}

/// Calls `run` with the seeds from 1 to `seeds` (`WEFT_SIM_SEEDS` sets another number), on all cores. `WEFT_SIM_SECONDS`
/// takes fresh seeds instead, different ones in each process, for that many seconds; `WEFT_SIM_SEED` runs one seed alone,
/// to run it again. `test` is the name of the test for cargo.
///
/// # Panics
/// With the panic of the first run that fails, after printing how to replay it. A run that hangs aborts the process.
pub fn check(test: &str, seeds: u64, run: impl Fn(u64) + Sync) {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        let number = text.parse::<f64>().ok().filter(|number| *number >= 0.0);
        Some(number.unwrap_or_else(|| panic!("{name} is '{text}', which is no number")))
    };
    let random = crate::base::random::number().expect("random numbers");
    let Seeds { first, last, time } = Seeds::choose(number, seeds, random);
    let begin = Instant::now();
    let next = AtomicU64::new(first);
    let failed = Mutex::new(None);
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let under_way: Vec<Mutex<Option<(u64, Instant)>>> = (0..threads).map(|_| Mutex::new(None)).collect();
    let working = AtomicU64::new(threads as u64);
    let runs = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for mine in &under_way {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > last
                        || time.is_some_and(|time| begin.elapsed() > time)
                        || failed.lock().is_some()
                    {
                        break;
                    }
                    *mine.lock() = Some((seed, Instant::now()));
                    let result = catch_unwind(AssertUnwindSafe(|| run(seed)));
                    *mine.lock() = None;
                    runs.fetch_add(1, Ordering::Relaxed);
                    if let Err(panic) = result {
                        eprintln!("replay: WEFT_SIM_SEED={seed} cargo test {} {test}", target());
                        failed.lock().get_or_insert(panic);
                        break;
                    }
                }
                working.fetch_sub(1, Ordering::Relaxed);
            });
        }
        while working.load(Ordering::Relaxed) != 0 {
            std::thread::sleep(Duration::from_millis(5));
            for mine in &under_way {
                if let Some((seed, since)) = *mine.lock()
                    && since.elapsed() > RUN_MAX
                {
                    eprintln!("hangs: WEFT_SIM_SEED={seed} cargo test {} {test}", target());
                    std::process::abort();
                }
            }
        }
    });
    if let Some(panic) = failed.into_inner() {
        resume_unwind(panic);
    }
    if time.is_some() {
        eprintln!("{test}: {} fresh seeds from {first} on", runs.into_inner());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(settings: &[(&str, f64)]) -> Seeds {
        let number = |name: &str| {
            let found = settings.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| *value)
        };
        Seeds::choose(number, 100, FRESH_MAX + 5)
    }

    #[test]
    fn seeds_are_fixed_fresh_or_one_alone() {
        let fixed = |first, last| Seeds {
            first,
            last,
            time: None,
        };
        assert_eq!(chosen(&[]), fixed(1, 100));
        assert_eq!(chosen(&[("WEFT_SIM_SEEDS", 7.0)]), fixed(1, 7));
        let fresh = [("WEFT_SIM_SECONDS", 2.5), ("WEFT_SIM_SEEDS", 7.0)];
        let found = chosen(&fresh);
        assert_eq!((found.first, found.time), (5, Some(Duration::from_millis(2500))));
        assert_eq!(
            chosen(&[fresh[0], ("WEFT_SIM_SEED", 123_456_789.0)]),
            fixed(123_456_789, 123_456_789)
        );
    }
}
