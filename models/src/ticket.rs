//! The lock of windows under loom: those who have it alone exclude all others, those who share it don't exclude each other, and each who
//! waits gets his turn, whoever takes it ahead of him.
//!
//! Two spin, so that nothing but the words orders what they do. Three sleep, each for its own ticket, and are woken as the real ones are; if
//! a call for one were missing, it would sleep forever.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::tickets::{Ticket, Words, claim, draw, entered, is_first, is_given, release, try_take};

/// The words, around something that loom watches.
struct Model {
    state: AtomicU64,
    drawn: AtomicU64,
    first: AtomicU64,
    given: AtomicU64,
    /// Who waits sleeps.
    sleeps: bool,
    asleep: Mutex<()>,
    /// By ticket.
    calls: [Condvar; 4],
    value: UnsafeCell<u64>,
}

impl Words for Model {
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
    fn wake(&self, ticket: u64) {
        if self.sleeps {
            // Either it has seen the word, or it is asleep: a fence on each side, in the real one.
            drop(self.asleep.lock().expect("nobody panics"));
            self.calls[ticket as usize].notify_all();
        }
    }
}

impl Model {
    fn new(sleeps: bool) -> Arc<Model> {
        Arc::new(Model {
            state: AtomicU64::new(0),
            drawn: AtomicU64::new(0),
            first: AtomicU64::new(0),
            given: AtomicU64::new(0),
            sleeps,
            asleep: Mutex::new(()),
            calls: std::array::from_fn(|_| Condvar::new()),
            value: UnsafeCell::new(0),
        })
    }

    fn wait(&self, ticket: Ticket, is_reached: impl Fn(&Model, Ticket) -> bool) {
        if self.sleeps {
            let mut asleep = self.asleep.lock().expect("nobody panics");
            while !is_reached(self, ticket) {
                let call = &self.calls[ticket.number as usize];
                asleep = call.wait(asleep).expect("nobody panics");
            }
        } else {
            while !is_reached(self, ticket) {
                thread::yield_now();
            }
        }
    }

    /// Takes the lock; with `tries`, without a ticket where it is free.
    fn take(&self, exclusive: bool, tries: bool) {
        if tries && try_take(self, exclusive) {
            return;
        }
        let ticket = draw(self, exclusive);
        self.wait(ticket, |model, ticket| is_first(model, ticket));
        if !claim(self, ticket) {
            self.wait(ticket, |model, ticket| is_given(model, ticket));
        }
        entered(self, ticket);
    }

    /// Takes the lock and uses the value, which loom checks.
    fn visit(&self, exclusive: bool, tries: bool) {
        self.take(exclusive, tries);
        match exclusive {
            // SAFETY: loom checks that nobody else is inside.
            true => self.value.with_mut(|value| unsafe { *value += 1 }),
            // SAFETY: loom checks that nobody writes it.
            false => self.value.with(|value| assert!(unsafe { *value } <= 3)),
        }
        release(self, exclusive);
    }
}

/// Each visits it once; with the second word, without a ticket where it is free.
fn visits<const N: usize>(kinds: [(bool, bool); N]) {
    let mut orders = loom::model::Builder::new();
    // There are too many of three to try all.
    orders.preemption_bound = (N > 2).then_some(3);
    orders.check(move || {
        let model = Model::new(N > 2);
        let others: Vec<_> = kinds[1..]
            .iter()
            .map(|&(exclusive, tries)| {
                let model = model.clone();
                thread::spawn(move || model.visit(exclusive, tries))
            })
            .collect();
        model.visit(kinds[0].0, kinds[0].1);
        for other in others {
            other.join().expect("it ends");
        }
        let alone = kinds.iter().filter(|&&(exclusive, _)| exclusive).count() as u64;
        // SAFETY: all have ended.
        assert_eq!(model.value.with(|value| unsafe { *value }), alone);
        assert_eq!(model.state(), 0);
        assert_eq!(model.first(), model.drawn.load(Ordering::Relaxed));
    });
}

#[test]
fn two_exclude_each_other() {
    for kinds in [[true, true], [true, false], [false, true]] {
        for tries in [[true, true], [true, false], [false, false]] {
            visits([(kinds[0], tries[0]), (kinds[1], tries[1])]);
        }
    }
}

#[test]
fn those_who_have_it_alone_get_their_turns() {
    visits([(true, true), (true, true), (true, false)]);
}

#[test]
fn those_who_share_it_and_one_who_does_not_get_their_turns() {
    visits([(false, true), (true, true), (false, false)]);
}

#[test]
fn one_who_shares_it_and_those_who_do_not_get_their_turns() {
    visits([(true, false), (false, false), (true, true)]);
}

/// Two share the lock at the same time: neither leaves before both are inside.
#[test]
fn it_is_shared() {
    loom::model(|| {
        let model = Model::new(false);
        let inside = Arc::new(AtomicU64::new(0));
        let share = |model: &Model, inside: &AtomicU64, tries: bool| {
            model.take(false, tries);
            inside.fetch_add(1, Ordering::SeqCst);
            while inside.load(Ordering::SeqCst) != 2 {
                thread::yield_now();
            }
            release(model, false);
        };
        let other = {
            let (model, inside) = (model.clone(), inside.clone());
            thread::spawn(move || share(&model, &inside, false))
        };
        share(&model, &inside, true);
        other.join().expect("it ends");
    });
}
