//! Updates of an element by several processes under loom: some update it by atomic operations, and some, who have many, by ordinary
//! instructions under a lock. No update is lost, and whoever uses ordinary instructions is alone, also where a process has died while it had the
//! lock.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::holder::{self, Word};
use crate::updates_of_elements::{ATOMIC, CLOSING, LOCKED, Words, enter, excludes_all, is_taken_over, leave};

struct Model {
    mode: AtomicU32,
    busy: [AtomicBool; 3],
    /// Whether a fence for all can be had.
    fences: bool,
    lock: Mutex<()>,
    /// The element. Who updates it by an atomic operation does not need it for himself.
    element: UnsafeCell<AtomicUsize>,
}

impl Model {
    fn new(fences: bool) -> Model {
        Model {
            mode: AtomicU32::new(ATOMIC),
            busy: [const { false }; 3].map(AtomicBool::new),
            fences,
            lock: Mutex::new(()),
            element: UnsafeCell::new(AtomicUsize::new(0)),
        }
    }

    /// The element, when all have ended.
    fn sum(&self) -> usize {
        // SAFETY: loom checks that nobody uses it.
        self.element
            .with_mut(|element| unsafe { (*element).with_mut(|element| *element) })
    }
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
        self.add();
    }

    /// By whoever has the lock.
    fn add(&self) {
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
        let model = Arc::new(Model::new(fences));
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
        assert_eq!(model.sum(), done);
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

impl Word for AtomicU32 {
    fn get(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }
    fn change(&self, from: u32, to: u32) -> bool {
        self.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
    fn set(&self, to: u32) {
        self.store(to, Ordering::Release);
    }
}

/// The same with the lock of the library, which the first process has when it dies.
struct Mortal {
    words: Model,
    lock: AtomicU32,
    /// What others find out about the first one.
    is_dead: AtomicBool,
    /// How often the lock was taken over.
    overs: AtomicUsize,
}

impl Mortal {
    /// By its name, which is its place, from 1.
    fn take(&self, place: usize) {
        let name = place as u32 + 1;
        while !holder::try_take(&self.lock, name) {
            if holder::want(&self.lock) == Some(1)
                && self.is_dead.load(Ordering::Acquire)
                && holder::take_over(&self.lock, 1, name)
            {
                self.overs.fetch_add(1, Ordering::Relaxed);
                is_taken_over(&Process(&self.words, place));
                return;
            }
            thread::yield_now();
        }
    }

    /// One update of many elements, or of few.
    fn does(&self, place: usize, many: bool) {
        let process = Process(&self.words, place);
        if many {
            self.take(place);
            process.add();
            holder::give_back(&self.lock);
        } else if enter(&process) {
            process.by_atomic_operation();
            leave(&process);
        } else {
            self.take(place);
            process.by_atomic_operation();
            holder::give_back(&self.lock);
        }
    }
}

/// The first process takes the lock, comes to a mode, and dies. Of the two others one begins before that; they have few elements each, or many.
fn survivors(mode: u32, each: [bool; 2]) {
    loom::model(move || {
        let model = Arc::new(Mortal {
            words: Model::new(true),
            lock: AtomicU32::new(0),
            is_dead: AtomicBool::new(false),
            overs: AtomicUsize::new(0),
        });
        assert!(holder::try_take(&model.lock, 1));
        let one = model.clone();
        let one = thread::spawn(move || one.does(1, each[0]));
        let first = Process(&model.words, 0);
        match mode {
            CLOSING => first.set_mode(CLOSING),
            LOCKED => _ = excludes_all(&first, true),
            _ => {}
        }
        model.is_dead.store(true, Ordering::Release);
        model.does(2, each[1]);
        one.join().expect("it ends");
        assert_eq!(model.words.sum(), 2);
        // If nobody has found it taken, it still is.
        let is_left = holder::want(&model.lock) == Some(1);
        assert_eq!(model.overs.load(Ordering::Relaxed), usize::from(!is_left));
    });
}

#[test]
fn those_who_survive_take_the_lock_over_once() {
    for mode in [ATOMIC, CLOSING, LOCKED] {
        survivors(mode, [true, true]);
        survivors(mode, [false, true]);
        survivors(mode, [true, false]);
    }
}
