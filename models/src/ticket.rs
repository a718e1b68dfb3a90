//! The ticket lock of windows under loom: those who have it alone exclude all others, those who share it don't exclude each other, and
//! each gets its turn, in the order of the tickets.
//!
//! Two spin, so that nothing but the words orders what they do. Three sleep, each for its own ticket, and are woken as the real ones are; if
//! a call for one were missing, it would sleep forever.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::tickets::{Ticket, Words, entered, is_granted, release, take};

/// The words, around something that loom watches.
struct Model {
    users: AtomicU64,
    write: AtomicU64,
    read: AtomicU64,
    /// Who waits sleeps.
    sleeps: bool,
    asleep: Mutex<()>,
    /// By ticket.
    calls: [Condvar; 4],
    value: UnsafeCell<u64>,
}

impl Words for Model {
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
            users: AtomicU64::new(0),
            write: AtomicU64::new(0),
            read: AtomicU64::new(0),
            sleeps,
            asleep: Mutex::new(()),
            calls: std::array::from_fn(|_| Condvar::new()),
            value: UnsafeCell::new(0),
        })
    }

    fn wait(&self, ticket: Ticket) {
        if self.sleeps {
            let mut asleep = self.asleep.lock().expect("nobody panics");
            while !is_granted(self, ticket) {
                let call = &self.calls[ticket.number as usize];
                asleep = call.wait(asleep).expect("nobody panics");
            }
        } else {
            while !is_granted(self, ticket) {
                thread::yield_now();
            }
        }
        entered(self, ticket);
    }

    /// Takes the lock and uses the value, which loom checks.
    fn visit(&self, exclusive: bool) {
        let ticket = take(self, exclusive);
        self.wait(ticket);
        match exclusive {
            // SAFETY: loom checks that nobody else is inside.
            true => self.value.with_mut(|value| unsafe { *value += 1 }),
            // SAFETY: loom checks that nobody writes it.
            false => self.value.with(|value| assert!(unsafe { *value } <= 3)),
        }
        release(self, exclusive);
    }
}

fn visits<const N: usize>(kinds: [bool; N]) {
    let mut orders = loom::model::Builder::new();
    // There are too many of three to try all.
    orders.preemption_bound = (N > 2).then_some(3);
    orders.check(move || {
        let model = Model::new(N > 2);
        let others: Vec<_> = kinds[1..]
            .iter()
            .map(|&exclusive| {
                let model = model.clone();
                thread::spawn(move || model.visit(exclusive))
            })
            .collect();
        model.visit(kinds[0]);
        for other in others {
            other.join().expect("it ends");
        }
        let alone = kinds.iter().filter(|&&exclusive| exclusive).count() as u64;
        // SAFETY: all have ended.
        assert_eq!(model.value.with(|value| unsafe { *value }), alone);
        assert_eq!((model.write(), model.read()), (N as u64, N as u64));
    });
}

#[test]
fn two_exclude_each_other() {
    for kinds in [[true, true], [true, false], [false, true]] {
        visits(kinds);
    }
}

#[test]
fn those_who_have_it_alone_get_their_turns() {
    visits([true, true, true]);
}

#[test]
fn those_who_share_it_and_one_who_does_not_get_their_turns() {
    visits([false, true, false]);
}

#[test]
fn one_who_shares_it_and_those_who_do_not_get_their_turns() {
    visits([true, false, true]);
}

/// Two share the lock at the same time: neither leaves before both are inside.
#[test]
fn it_is_shared() {
    loom::model(|| {
        let model = Model::new(false);
        let inside = Arc::new(AtomicU64::new(0));
        let share = |model: &Model, inside: &AtomicU64| {
            let ticket = take(model, false);
            model.wait(ticket);
            inside.fetch_add(1, Ordering::SeqCst);
            while inside.load(Ordering::SeqCst) != 2 {
                thread::yield_now();
            }
            release(model, false);
        };
        let other = {
            let (model, inside) = (model.clone(), inside.clone());
            thread::spawn(move || share(&model, &inside))
        };
        share(&model, &inside);
        other.join().expect("it ends");
    });
}
