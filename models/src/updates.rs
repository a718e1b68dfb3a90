//! Updates of an element by several processes under loom: some update it by atomic operations, and some, who have many, by ordinary
//! instructions under a lock. No update is lost, and whoever uses ordinary instructions is alone.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::updates_of_elements::{LOCKED, Words, enter, excludes_all, leave};

struct Model {
    mode: AtomicU32,
    busy: [AtomicBool; 3],
    /// Whether a fence for all can be had.
    fences: bool,
    lock: Mutex<()>,
    /// The element. Who updates it by an atomic operation does not need it for himself.
    element: UnsafeCell<AtomicUsize>,
}

/// One process.
struct Process<'a>(&'a Model, usize);

impl Words for Process<'_> {
    fn mode(&self) -> u32 {
        self.0.mode.load(Ordering::Acquire)
    }
    fn set_mode(&self, mode: u32) {
        self.0.mode.store(mode, Ordering::Release);
    }
    fn set_busy(&self) {
        self.0.busy[self.1].store(true, Ordering::Relaxed);
    }
    fn clear_busy(&self) {
        self.0.busy[self.1].store(false, Ordering::Release);
    }
    // loom knows no `membarrier`; a fence on each side is what it stands for.
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
    fn fence_all(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.fences
    }
    fn is_any_busy(&self) -> bool {
        self.0.busy.iter().any(|busy| busy.load(Ordering::Acquire))
    }
}

impl Process<'_> {
    fn by_atomic_operation(&self) {
        self.0.element.with(|element| {
            // SAFETY: loom checks that nobody has it for himself.
            unsafe { (*element).fetch_add(1, Ordering::Relaxed) };
        });
    }

    fn few(&self) {
        if enter(self) {
            self.by_atomic_operation();
            leave(self);
        } else {
            let _taken = self.0.lock.lock().expect("nobody panics");
            self.by_atomic_operation();
        }
    }

    /// Updates of many elements, or few.
    fn does(&self, work: &[bool]) {
        work.iter()
            .for_each(|&many| if many { self.many() } else { self.few() });
    }

    fn many(&self) {
        let _taken = self.0.lock.lock().expect("nobody panics");
        match excludes_all(self, true) {
            // SAFETY: loom checks that nobody else uses it.
            true => self
                .0
                .element
                .with_mut(|element| unsafe { (*element).with_mut(|element| *element += 1) }),
            false => self.by_atomic_operation(),
        }
    }
}

/// What each process does: few elements, or many.
fn updates<const N: usize>(each: [&'static [bool]; N], fences: bool) {
    let mut orders = loom::model::Builder::new();
    // There are too many of three to try all.
    orders.preemption_bound = (N > 2).then_some(3);
    orders.check(move || {
        let model = Arc::new(Model {
            mode: AtomicU32::new(0),
            busy: [const { false }; 3].map(AtomicBool::new),
            fences,
            lock: Mutex::new(()),
            element: UnsafeCell::new(AtomicUsize::new(0)),
        });
        let others: Vec<_> = (1..N)
            .map(|place| {
                let (model, work) = (model.clone(), each[place]);
                thread::spawn(move || Process(&model, place).does(work))
            })
            .collect();
        Process(&model, 0).does(each[0]);
        for other in others {
            other.join().expect("it ends");
        }
        let done = each.iter().map(|work| work.len()).sum::<usize>();
        // SAFETY: all have ended.
        assert_eq!(
            model
                .element
                .with_mut(|element| unsafe { (*element).with_mut(|element| *element) }),
            done
        );
        // If somebody has closed it while nobody was busy, it stays so.
        let process = Process(&model, 0);
        assert_eq!(excludes_all(&process, false), process.mode() == LOCKED);
    });
}

#[test]
fn few_elements_and_many_are_kept_apart() {
    updates([&[false, false], &[true]], true);
    updates([&[false], &[true, true]], true);
    updates([&[false, true], &[true, false]], true);
}

#[test]
fn three_are_kept_apart() {
    updates([&[true], &[false], &[false]], true);
    updates([&[true], &[true], &[false]], true);
}

#[test]
fn without_a_fence_all_stay_with_atomic_operations() {
    updates([&[true, false], &[true, true]], false);
    updates([&[true], &[true], &[false]], false);
}
