//! The lock that its first user owns, under loom: the owner and two others, one of which takes it over.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::terms::{Terms, enter, take_over};

/// What the lock is made of, around something that loom watches.
struct Model {
    held: AtomicBool,
    shared: AtomicBool,
    taken_over: Mutex<bool>,
    value: UnsafeCell<u32>,
}

impl Terms for Model {
    fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }
    fn set_held(&self, on: bool) {
        self.held.store(on, Ordering::Release);
    }
    fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }
    fn set_shared(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }
    // loom knows no `membarrier`; a fence on each side is what it stands for.
    fn fence_of_owner(&self) {
        fence(Ordering::SeqCst);
    }
    fn fence_of_other(&self) {
        fence(Ordering::SeqCst);
    }
    fn wait(&self, _: u32) {
        thread::yield_now();
    }
}

impl Model {
    fn count(&self) {
        // SAFETY: loom checks that nobody else is inside.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    fn count_as_one_of_all(&self) {
        let mut taken_over = self.taken_over.lock().expect("nobody panics");
        if !*taken_over {
            take_over(self);
            *taken_over = true;
        }
        self.count();
    }
}

#[test]
fn the_owner_and_others_exclude_each_other() {
    loom::model(|| {
        let model = Arc::new(Model {
            held: AtomicBool::new(false),
            shared: AtomicBool::new(false),
            taken_over: Mutex::new(false),
            value: UnsafeCell::new(0),
        });
        let others: Vec<_> = (0..2)
            .map(|_| {
                let model = model.clone();
                thread::spawn(move || model.count_as_one_of_all())
            })
            .collect();
        for _ in 0..2 {
            if enter(&*model) {
                model.count();
                model.set_held(false);
            } else {
                model.count_as_one_of_all();
            }
        }
        for other in others {
            other.join().expect("it ends");
        }
        // SAFETY: all have ended.
        assert_eq!(model.value.with(|value| unsafe { *value }), 4);
    });
}
