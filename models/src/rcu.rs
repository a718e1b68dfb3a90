//! Looks without a lock under loom: one or two threads look, and one replaces the object and ends the old one.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::thread;

use crate::protocol::{Sides, enter, leave, until_all_left};

struct Model {
    counts: [AtomicUsize; 2],
    /// Which of the objects is published.
    published: AtomicUsize,
    /// 0: it has ended.
    objects: [UnsafeCell<u32>; 2],
}

impl Sides for Model {
    type Reader = usize;

    fn set_count(&self, reader: usize, count: usize) {
        self.counts[reader].store(count, Ordering::Release);
    }
    fn count(&self, reader: usize) -> usize {
        self.counts[reader].load(Ordering::Acquire)
    }
    // loom knows no `membarrier`; a fence on each side is what it stands for.
    fn fence_of_reader(&self) {
        fence(Ordering::SeqCst);
    }
    fn fence_of_writer(&self) {
        fence(Ordering::SeqCst);
    }
    fn wait(&self, _: u32) {
        thread::yield_now();
    }
}

impl Model {
    fn look(&self, reader: usize) {
        enter(self, reader);
        let object = self.published.load(Ordering::Acquire);
        // SAFETY: loom checks that nobody writes meanwhile.
        assert_ne!(self.objects[object].with(|object| unsafe { *object }), 0);
        leave(self, reader);
    }
}

/// Each of `looks` is how often a thread looks.
fn nobody_sees_what_has_ended(looks: &'static [usize]) {
    loom::model(move || {
        let model = Arc::new(Model {
            counts: [AtomicUsize::new(0), AtomicUsize::new(0)],
            published: AtomicUsize::new(0),
            objects: [UnsafeCell::new(1), UnsafeCell::new(2)],
        });
        let readers: Vec<_> = (0..looks.len())
            .map(|reader| {
                let model = model.clone();
                thread::spawn(move || (0..looks[reader]).for_each(|_| model.look(reader)))
            })
            .collect();
        model.published.swap(1, Ordering::AcqRel);
        until_all_left(&*model, || (0..looks.len()).collect());
        // SAFETY: loom checks that nobody looks meanwhile.
        model.objects[0].with_mut(|object| unsafe { *object = 0 });
        for reader in readers {
            reader.join().expect("it ends");
        }
    });
}

#[test]
fn a_thread_that_looks_again_is_not_waited_for() {
    nobody_sees_what_has_ended(&[2]);
}

#[test]
fn two_threads_that_look_are_waited_for() {
    nobody_sees_what_has_ended(&[1, 1]);
}
