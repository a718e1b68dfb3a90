//! When to hear what the launcher and connected jobs have to say, in a process that does not sleep: one that only tests, or whose waits are
//! short. A process that sleeps is woken by what they say ([`super::wait`]).

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// After so many turns without any progress the clock is read.
const TURNS: u32 = 16;
/// It costs system calls, so there is this long between two times.
const PAUSE: Duration = Duration::from_millis(10);

/// See the module. Threads may update it at the same time: what they lose are single counts.
#[derive(Debug)]
pub struct Attention {
    /// Turns without any progress.
    idle: AtomicU32,
    start: Instant,
    /// When it is due, in nanoseconds after the start.
    next: AtomicU64,
    due: AtomicBool,
}

impl Attention {
    pub fn new() -> Attention {
        Attention {
            idle: AtomicU32::new(0),
            start: Instant::now(),
            next: AtomicU64::new(PAUSE.as_nanos() as u64),
            due: AtomicBool::new(false),
        }
    }

    /// A turn has found nothing to do.
    #[inline]
    pub fn idle(&self) {
        let idle = self.idle.load(Relaxed).wrapping_add(1);
        self.idle.store(idle, Relaxed);
        if idle.is_multiple_of(TURNS) {
            self.look_at_clock(self.start.elapsed());
        }
    }

    #[cold]
    fn look_at_clock(&self, now: Duration) {
        let now = now.as_nanos() as u64;
        if now >= self.next.load(Relaxed) {
            self.next.store(now + PAUSE.as_nanos() as u64, Relaxed);
            self.due.store(true, Relaxed);
        }
    }

    /// Whether it is time to listen.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.due.load(Relaxed)
    }

    /// It is being done now.
    pub fn pay(&self) {
        self.due.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_after_a_pause_and_once() {
        let attention = Attention::new();
        attention.look_at_clock(PAUSE - Duration::from_nanos(1));
        assert!(!attention.is_due());
        attention.look_at_clock(PAUSE);
        assert!(attention.is_due());
        attention.pay();
        attention.look_at_clock(2 * PAUSE - Duration::from_nanos(1));
        assert!(!attention.is_due());
        attention.look_at_clock(2 * PAUSE);
        assert!(attention.is_due());
    }

    #[test]
    fn turns_without_progress_lead_there() {
        let attention = Attention {
            next: AtomicU64::new(0),
            ..Attention::new()
        };
        for _ in 1..TURNS {
            attention.idle();
            assert!(!attention.is_due());
        }
        attention.idle();
        assert!(attention.is_due());
    }
}
