//! A lock that one may have alone or several may share, in words that all its users see. Whoever comes while it is free takes it at once,
//! even if others wait, so that a process that runs need not hand it to one that sleeps. Nobody is passed over for long: who has not got
//! it draws a ticket, and the one with the oldest ticket is given it by whoever leaves it next.
//!
//! `state` says who has the lock, and whether the first of those who wait wants it: from then on nobody takes it by himself. `first` is
//! the ticket of that one, and `given` tells him that he has got it; both only grow, as does the number of tickets that were drawn. Who has got
//! the lock by a ticket makes the next one the first.
//!
//! ```text
//!   take:     state: free → taken                       draw: wait for first = ticket
//!   leave:    state: taken → free, or, if wanted,       first one: state: free → taken, or wanted: wait for given = ticket + 1
//!             → taken for the first one, given + 1      in both cases: first + 1
//! ```
//!
//! Those who share the lock let others share it too, unless the first one who waits wants it alone.
//!
//! The words are a parameter, so that a model can bring its own (`models/src/ticket.rs`).

/// How many share the lock.
const SHARING: u64 = (1 << 32) - 1;
/// One has it alone.
const ALONE: u64 = 1 << 32;
/// The first of those who wait wants it alone.
const WANTED_ALONE: u64 = 1 << 33;
/// The first of those who wait wants to share it.
const WANTED_SHARED: u64 = 1 << 34;

/// The words. Loads acquire, stores release, and what changes a value does both.
pub trait Words {
    /// Who has the lock. 0: nobody, and nobody has said that he wants it.
    fn state(&self) -> u64;
    /// Exchanges that, if it is what the caller thinks; otherwise returns it.
    ///
    /// # Errors
    /// What it is.
    fn change(&self, from: u64, to: u64) -> Result<(), u64>;
    /// Adds one to the number of tickets, and returns it as it was.
    fn draw(&self) -> u64;
    /// The oldest ticket.
    fn first(&self) -> u64;
    /// Sets that.
    fn set_first(&self, to: u64);
    /// The ticket behind the one that was given the lock last.
    fn given(&self) -> u64;
    /// Sets that.
    fn set_given(&self, to: u64);
    /// Something has changed that the one with this ticket may wait for.
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

/// The state while nobody has the lock or has said that he wants it.
pub const FREE: u64 = 0;

/// The state while one has it and nobody else has come. To exchange [`FREE`] for that is to take it, and the other way round to leave it.
#[inline(always)]
pub const fn taken_by_one(exclusive: bool) -> u64 {
    if exclusive { ALONE } else { 1 }
}

/// What the state becomes if one more takes the lock, which has to be possible.
fn taken(state: u64, exclusive: bool) -> Option<u64> {
    match exclusive {
        true => (state == FREE).then_some(ALONE),
        false => (state < SHARING).then_some(state + 1),
    }
}

/// Takes the lock if it is free; [`release`] has to follow.
#[inline]
pub fn try_take(words: &impl Words, exclusive: bool) -> bool {
    // Most often it is; then this is the only access.
    let mut state = FREE;
    loop {
        let Some(next) = taken(state, exclusive) else {
            return false;
        };
        match words.change(state, next) {
            Ok(()) => return true,
            Err(other) => state = other,
        }
    }
}

/// Whether it seems to be free. This disturbs nobody, unlike a try.
pub fn is_free(words: &impl Words, exclusive: bool) -> bool {
    taken(words.state(), exclusive).is_some()
}

/// Joins the queue. When the ticket is the first one ([`is_first`]), [`claim`] follows.
pub fn draw(words: &impl Words, exclusive: bool) -> Ticket {
    Ticket {
        number: words.draw(),
        exclusive,
    }
}

/// Whether there is no older ticket.
pub fn is_first(words: &impl Words, ticket: Ticket) -> bool {
    words.first() == ticket.number
}

/// The first one takes the lock if it is free, or says that he wants it. `false`: it is not; then he waits until he is given it
/// ([`is_given`]). [`entered`] follows.
pub fn claim(words: &impl Words, ticket: Ticket) -> bool {
    let wanted = match ticket.exclusive {
        true => WANTED_ALONE,
        false => WANTED_SHARED,
    };
    let mut state = words.state();
    loop {
        let next = taken(state, ticket.exclusive);
        match words.change(state, next.unwrap_or(state | wanted)) {
            Ok(()) => return next.is_some(),
            Err(other) => state = other,
        }
    }
}

/// Whether the first one has been given the lock.
pub fn is_given(words: &impl Words, ticket: Ticket) -> bool {
    words.given() > ticket.number
}

/// Said once by the first one when he has got the lock: the next one is the first now.
pub fn entered(words: &impl Words, ticket: Ticket) {
    let next = ticket.number + 1;
    words.set_first(next);
    words.wake(next);
}

/// Leaves the lock, and gives it to the first one if he wants it and nobody else has it.
#[inline]
pub fn release(words: &impl Words, exclusive: bool) {
    // Most often nobody else has come; then this is the only access.
    let mut state = taken_by_one(exclusive);
    loop {
        // Nobody but the first one wants it, and he stays the first until he has it.
        let left = if exclusive { state & !ALONE } else { state - 1 };
        let next = match left {
            WANTED_ALONE => ALONE,
            WANTED_SHARED => 1,
            others => others,
        };
        match words.change(state, next) {
            Ok(()) if next == left => return,
            Ok(()) => break,
            Err(other) => state = other,
        }
    }
    give(words);
}

#[cold]
fn give(words: &impl Words) {
    let first = words.first();
    words.set_given(first + 1);
    words.wake(first);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Plain {
        state: AtomicU64,
        drawn: AtomicU64,
        first: AtomicU64,
        given: AtomicU64,
    }

    impl Words for Plain {
        fn state(&self) -> u64 {
            self.state.load(Ordering::Acquire)
        }
        fn change(&self, from: u64, to: u64) -> Result<(), u64> {
            let changed = self
                .state
                .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
            changed.map(drop)
        }
        fn draw(&self) -> u64 {
            self.drawn.fetch_add(1, Ordering::Relaxed)
        }
        fn first(&self) -> u64 {
            self.first.load(Ordering::Acquire)
        }
        fn set_first(&self, to: u64) {
            self.first.store(to, Ordering::Release);
        }
        fn given(&self) -> u64 {
            self.given.load(Ordering::Acquire)
        }
        fn set_given(&self, to: u64) {
            self.given.store(to, Ordering::Release);
        }
        fn wake(&self, _: u64) {}
    }

    /// Waits in the queue.
    fn wait(lock: &Plain, exclusive: bool) {
        let ticket = draw(lock, exclusive);
        while !is_first(lock, ticket) {
            std::thread::yield_now();
        }
        if !claim(lock, ticket) {
            while !is_given(lock, ticket) {
                std::thread::yield_now();
            }
        }
        entered(lock, ticket);
    }

    #[test]
    fn who_comes_while_it_is_free_takes_it() {
        let lock = Plain::default();
        assert!(is_free(&lock, true) && try_take(&lock, true));
        assert!(!is_free(&lock, false) && !try_take(&lock, false) && !try_take(&lock, true));
        // One waits, but has not said that he wants it.
        let ticket = draw(&lock, true);
        release(&lock, true);
        assert!(try_take(&lock, false) && try_take(&lock, false) && !try_take(&lock, true));
        assert!(is_first(&lock, ticket) && !claim(&lock, ticket));
        assert!(!try_take(&lock, false), "the first one wants it alone");
        release(&lock, false);
        assert!(!is_given(&lock, ticket), "one still shares it");
        release(&lock, false);
        assert!(is_given(&lock, ticket) && !try_take(&lock, false));
        entered(&lock, ticket);
        release(&lock, true);
        assert!(is_free(&lock, true) && lock.state() == 0);
    }

    #[test]
    fn those_who_wait_get_it_in_their_order() {
        let lock = Plain::default();
        assert!(try_take(&lock, true));
        let tickets = [false, false, true].map(|exclusive| draw(&lock, exclusive));
        let [first, second, alone] = tickets;
        assert_eq!(
            tickets.map(|ticket| is_first(&lock, ticket)),
            [true, false, false]
        );
        assert!(!claim(&lock, first) && !is_given(&lock, first));
        release(&lock, true);
        assert!(is_given(&lock, first) && !is_given(&lock, second));
        entered(&lock, first);
        assert!(is_first(&lock, second) && claim(&lock, second), "it is shared");
        entered(&lock, second);
        assert!(is_first(&lock, alone) && !claim(&lock, alone));
        release(&lock, false);
        release(&lock, false);
        assert!(is_given(&lock, alone));
        entered(&lock, alone);
        release(&lock, true);
        assert!(try_take(&lock, true));
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
                        if !try_take(lock, exclusive) {
                            wait(lock, exclusive);
                        }
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
        assert_eq!(lock.state(), 0);
        assert_eq!(lock.first(), lock.drawn.load(Ordering::Relaxed));
    }
}
