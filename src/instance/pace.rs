//! Whether spinning pays at the moment. A rank may have a core by the launcher's count and share it all the same: with a
//! rank of another host that is a container on this machine, or with programs of others. If what a rank waits for is
//! there only once it has yielded its core, each spin is lost time, so it yields at once until the core is its own again.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A yield that took this long gave the core to somebody.
const GAVE_WAY: Duration = Duration::from_micros(5);
/// A yield that took less found nobody who wanted the core.
const NOBODY: Duration = Duration::from_micros(2);
/// After so many of these in a row the core is taken to be the rank's own.
const ALONE: u32 = 64;
/// At most every so many waits that yield at once, one spins for a while.
const PROBE_EVERY: u32 = 256;
/// For this long: longer than an answer over a fast network takes, much shorter than a turn of another program.
pub const PROBE: Duration = Duration::from_micros(100);

/// See the module. Threads may update it at the same time: what they lose are single counts.
#[derive(Debug)]
pub struct Pace {
    /// How long a wait spins now, in nanoseconds; 0: it yields at once.
    spin: AtomicU64,
    /// How long it spins where the core is the rank's own.
    full: u64,
    /// Whether this may change: not where the user has set the time.
    adapts: bool,
    /// Waits that yielded at once.
    waits: AtomicU32,
    /// Yields in a row that found nobody else.
    alone: AtomicU32,
}

impl Pace {
    /// Spins for `full`, at first.
    pub fn new(full: Duration, adapts: bool) -> Pace {
        let full = full.as_nanos() as u64;
        Pace {
            spin: AtomicU64::new(full),
            full,
            adapts: adapts && full != 0,
            waits: AtomicU32::new(0),
            alone: AtomicU32::new(0),
        }
    }

    /// How long a wait spins, in nanoseconds.
    #[inline]
    pub fn spin(&self) -> u64 {
        self.spin.load(Relaxed)
    }

    /// Whether it is worth asking how long yields take.
    pub fn adapts(&self) -> bool {
        self.adapts
    }

    /// Whether a wait that now yields for the first time should spin for [`PROBE`] before it.
    pub fn probes(&self) -> bool {
        if !self.adapts || self.spin() != 0 {
            return false;
        }
        let waits = self.waits.load(Relaxed).wrapping_add(1);
        self.waits.store(waits, Relaxed);
        waits.is_power_of_two() || waits.is_multiple_of(PROBE_EVERY)
    }

    /// A probe found something: spinning pays.
    pub fn spinning_pays(&self) {
        self.spin.store(self.full, Relaxed);
    }

    /// A yield took so long, and there was something after it, or not.
    pub fn yielded(&self, took: Duration, found: bool) {
        if self.spin() != 0 {
            if found && took >= GAVE_WAY {
                self.waits.store(0, Relaxed);
                self.alone.store(0, Relaxed);
                self.spin.store(0, Relaxed);
            }
            return;
        }
        let alone = match took < NOBODY {
            true => self.alone.load(Relaxed) + 1,
            false => 0,
        };
        self.alone.store(alone, Relaxed);
        if alone >= ALONE {
            self.spinning_pays();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Duration = Duration::from_millis(2);

    fn crowded() -> Pace {
        let pace = Pace::new(FULL, true);
        pace.yielded(GAVE_WAY, true);
        pace
    }

    #[test]
    fn a_yield_that_brings_what_is_waited_for_ends_the_spins() {
        let pace = Pace::new(FULL, true);
        pace.yielded(GAVE_WAY, false);
        pace.yielded(NOBODY, true);
        assert_eq!(pace.spin(), FULL.as_nanos() as u64);
        assert_eq!(crowded().spin(), 0);
    }

    #[test]
    fn a_core_that_nobody_else_wants_brings_them_back() {
        let pace = crowded();
        for _ in 1..ALONE {
            pace.yielded(Duration::ZERO, false);
        }
        pace.yielded(GAVE_WAY, true);
        for _ in 1..ALONE {
            pace.yielded(Duration::ZERO, true);
        }
        assert_eq!(pace.spin(), 0);
        pace.yielded(Duration::ZERO, true);
        assert_ne!(pace.spin(), 0);
    }

    #[test]
    fn probes_become_rare_and_never_stop() {
        let pace = crowded();
        let probes = |waits: u32| (0..waits).filter(|_| pace.probes()).count();
        assert_eq!(probes(PROBE_EVERY), 9);
        assert_eq!(probes(10 * PROBE_EVERY), 10);
        pace.spinning_pays();
        assert_eq!(probes(PROBE_EVERY), 0);
    }

    #[test]
    fn a_time_that_the_user_has_set_stays() {
        let pace = Pace::new(FULL, false);
        assert!(!pace.adapts());
        let never = Pace::new(Duration::ZERO, true);
        assert!(!never.adapts() && !never.probes());
    }
}
