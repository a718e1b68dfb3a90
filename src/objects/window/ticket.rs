//! A lock that one may have alone or several may share, in words that all its users see and that only grow. Who asks first gets it
//! first.
//!
//! Each asks by drawing a ticket, a number from 0 on. `write` counts those who have left the lock, so whoever wants it alone waits until
//! it is his number. `read` counts those who don't keep others from sharing it: that are those who share it, once they have entered, and those
//! who had it alone, when they have left. So whoever wants to share it waits until `read` is his number, and lets the next one pass.
//!
//! ```text
//!   alone:   wait for write = ticket;                    leave: read + 1, then write + 1
//!   shared:  wait for read = ticket, enter: read + 1;    leave: write + 1
//! ```
//!
//! Nobody but the one whose turn it is changes `read`. Several may change `write` at once: those who share the lock, and one who has just let
//! them enter by his `read + 1`.
//!
//! The words are a parameter, so that a model can bring its own (`models/src/ticket.rs`).

/// The words. Loads acquire, stores and additions release.
pub trait Words {
    /// Adds one to the number of tickets, and returns it as it was.
    fn draw(&self) -> u64;
    /// The ticket that may have the lock alone.
    fn write(&self) -> u64;
    /// Adds one to that, and returns what it is then.
    fn raise_write(&self) -> u64;
    /// The ticket that may share the lock.
    fn read(&self) -> u64;
    /// Sets that.
    fn set_read(&self, to: u64);
    /// A ticket's turn may have come: wakes who waits for that.
    fn wake(&self, ticket: u64);
}

/// A place in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "all later ones wait for this one"]
pub struct Ticket {
    /// Its number.
    pub number: u64,
    /// Whether it is for the lock alone.
    pub exclusive: bool,
}

/// Joins the queue. When the turn has come ([`is_granted`]), [`entered`] follows, and in the end [`release`].
pub fn take(words: &impl Words, exclusive: bool) -> Ticket {
    Ticket {
        number: words.draw(),
        exclusive,
    }
}

/// Whether the turn has come. It does not pass.
pub fn is_granted(words: &impl Words, ticket: Ticket) -> bool {
    match ticket.exclusive {
        true => words.write() == ticket.number,
        false => words.read() == ticket.number,
    }
}

/// Said once when the turn has come: others may share the lock, too, unless it is for this one alone.
pub fn entered(words: &impl Words, ticket: Ticket) {
    if !ticket.exclusive {
        let next = ticket.number + 1;
        words.set_read(next);
        words.wake(next);
    }
}

/// Leaves the lock.
pub fn release(words: &impl Words, exclusive: bool) {
    if exclusive {
        // Nobody else changes it now.
        let next = words.read() + 1;
        words.set_read(next);
        let left = words.raise_write();
        words.wake(next);
        if left != next {
            // The next one has left it meanwhile.
            words.wake(left);
        }
    } else {
        let left = words.raise_write();
        words.wake(left);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Plain {
        users: AtomicU64,
        write: AtomicU64,
        read: AtomicU64,
    }

    impl Words for Plain {
        fn draw(&self) -> u64 {
            self.users.fetch_add(1, Ordering::Relaxed)
        }
        fn write(&self) -> u64 {
            self.write.load(Ordering::Acquire)
        }
        fn raise_write(&self) -> u64 {
            self.write.fetch_add(1, Ordering::Release) + 1
        }
        fn read(&self) -> u64 {
            self.read.load(Ordering::Acquire)
        }
        fn set_read(&self, to: u64) {
            self.read.store(to, Ordering::Release);
        }
        fn wake(&self, _: u64) {}
    }

    #[test]
    fn who_asks_first_gets_it_first() {
        let lock = Plain::default();
        let [first, second] = [(); 2].map(|()| take(&lock, false));
        let alone = take(&lock, true);
        let last = take(&lock, false);
        let granted = |tickets: [Ticket; 4]| tickets.map(|ticket| is_granted(&lock, ticket));
        let all = [first, second, alone, last];
        assert_eq!(granted(all), [true, false, false, false]);
        entered(&lock, first);
        assert!(is_granted(&lock, second));
        entered(&lock, second);
        assert_eq!(granted(all)[2..], [false, false]);
        release(&lock, false);
        assert!(!is_granted(&lock, alone), "one still shares it");
        release(&lock, false);
        assert!(is_granted(&lock, alone) && !is_granted(&lock, last));
        entered(&lock, alone);
        assert!(!is_granted(&lock, last), "it is for that one alone");
        release(&lock, true);
        assert!(is_granted(&lock, last));
        entered(&lock, last);
        release(&lock, false);
        let next = take(&lock, true);
        assert!(is_granted(&lock, next));
    }

    /// Threads that take it at random never see another one inside against the rules.
    #[test]
    fn threads_exclude_each_other() {
        let lock = Plain::default();
        let (readers, writers) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let (lock, readers, writers) = (&lock, &readers, &writers);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(seed);
                    for _ in 0..300 {
                        let exclusive = rng.u32(..3) == 0;
                        let ticket = take(lock, exclusive);
                        while !is_granted(lock, ticket) {
                            std::thread::yield_now();
                        }
                        entered(lock, ticket);
                        let inside = if exclusive { writers } else { readers };
                        let others = inside.fetch_add(1, Ordering::SeqCst);
                        assert!(!exclusive || others == 0);
                        let against = if exclusive { readers } else { writers };
                        assert_eq!(against.load(Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        release(lock, exclusive);
                    }
                });
            }
        });
        assert_eq!(lock.write(), 1200);
        assert_eq!(lock.read(), 1200);
    }
}
