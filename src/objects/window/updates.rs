//! How the updates of a target's elements are kept apart in memory that processes share: by atomic operations of the processor at first, and by
//! a lock from the first operation with many elements on.
//!
//! A lock lets many elements be updated by vector instructions, but only where all others take it too. So each target has a *mode* in shared
//! memory, which begins with atomic operations. Whoever has many elements takes the lock and says in the mode that all have to take it. Those
//! who came before may still be busy without it: each process says so in a word of its own, before it looks at the mode. When none is, the
//! mode says that too, and elements may be updated by ordinary instructions. Until then whoever has the lock still uses atomic operations, so
//! nobody waits for those who are busy, even if they have died meanwhile.
//!
//! ```text
//!   few, without the lock:  busy = the target;  fence;  mode: atomic? update;  busy = nobody
//!   many, with the lock:    mode: atomic → closing;  fence;  nobody busy? mode → locked
//! ```
//!
//! Of the two fences, the second one makes all processors execute one (`membarrier`), so that the first need only keep the compiler from
//! reordering. Where the second can't be had, the mode becomes that of atomic operations for ever.
//!
//! The word of a process is for one of its threads, which changes it by plain stores. The others count themselves.
//!
//! Whoever has the lock may die with it, and another one takes it over ([`holder`](super::holder)). It does not know whether the fence has been
//! made, so a mode that is closing becomes that of atomic operations again, which is right at any time before it is closed.
//!
//! Otherwise the mode never goes back: programs that accumulate much in a window do it again. What uses the window's memory without being an accumulate
//! (puts and gets) does not take part.
//!
//! The words are a parameter, so that a model can bring its own (`models/src/updates.rs`).

/// Updates of words are atomic operations, without the lock.
pub const ATOMIC: u32 = 0;
/// All take the lock. Some may be busy that came before.
pub const CLOSING: u32 = 1;
/// All take the lock, and nobody is busy without it.
pub const LOCKED: u32 = 2;
/// As at first, for good.
pub const ATOMIC_FOR_EVER: u32 = 3;

/// The words of a target, and those of all processes that share its memory.
pub trait Words {
    /// The mode; acquires.
    fn mode(&self) -> u32;
    /// Sets it; releases. The caller has the lock.
    fn set_mode(&self, mode: u32);
    /// Says that the caller is busy with the target.
    fn set_busy(&self);
    /// Says that it is not any more; releases.
    fn clear_busy(&self);
    /// The fence of those who are busy.
    fn fence(&self);
    /// The fence of whoever closes. `false`: there is none.
    fn fence_all(&self) -> bool;
    /// Whether any of those who share the memory is busy with the target; acquires.
    fn is_any_busy(&self) -> bool;
}

/// Begins an update of words by atomic operations. `false`: the lock has to be taken.
#[inline(always)]
pub fn enter(words: &impl Words) -> bool {
    words.set_busy();
    words.fence();
    if matches!(words.mode(), ATOMIC | ATOMIC_FOR_EVER) {
        return true;
    }
    words.clear_busy();
    false
}

/// Ends it.
#[inline(always)]
pub fn leave(words: &impl Words) {
    words.clear_busy();
}

/// Whether whoever has the lock, which is the caller, is alone. `wanted`: it should be, now or soon.
pub fn excludes_all(words: &impl Words, wanted: bool) -> bool {
    match words.mode() {
        LOCKED => true,
        ATOMIC | CLOSING if wanted => close(words),
        _ => false,
    }
}

#[cold]
fn close(words: &impl Words) -> bool {
    if words.mode() == ATOMIC {
        words.set_mode(CLOSING);
        if !words.fence_all() {
            words.set_mode(ATOMIC_FOR_EVER);
            return false;
        }
    }
    // Whoever has set the mode has also made the fence, and not given the lock away in between; if it has died instead, see `is_taken_over`.
    let closed = !words.is_any_busy();
    if closed {
        words.set_mode(LOCKED);
    }
    closed
}

/// The lock, which the caller has now, was that of a process that has died.
#[cold]
pub fn is_taken_over(words: &impl Words) {
    if words.mode() == CLOSING {
        words.set_mode(ATOMIC);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::UnsafeCell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};

    use super::*;
    use crate::data::datatype::Datatype;
    use crate::data::op::{Guard, MANY, Op, Sharing, compare_and_swap};

    const THREADS: usize = 4;
    const ELEMENTS: usize = 128;
    const _: () = assert!(ELEMENTS as u64 > MANY && MANY > 8);

    /// The words of processes that are threads.
    #[derive(Default)]
    struct Shared {
        mode: AtomicU32,
        busy: [AtomicBool; THREADS],
        taken: AtomicBool,
        /// How often the lock was taken.
        times: AtomicUsize,
        has_no_fence: bool,
    }

    struct Process<'a>(&'a Shared, usize);

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
        fn fence(&self) {
            fence(Ordering::SeqCst);
        }
        fn fence_all(&self) -> bool {
            fence(Ordering::SeqCst);
            !self.0.has_no_fence
        }
        fn is_any_busy(&self) -> bool {
            self.0.busy.iter().any(|busy| busy.load(Ordering::Acquire))
        }
    }

    impl Guard for Process<'_> {
        fn by_atomics(&self, update: &mut dyn FnMut()) -> bool {
            let entered = enter(self);
            if entered {
                update();
                leave(self);
            }
            entered
        }
        fn lock(&self) {
            while self.0.taken.swap(true, Ordering::Acquire) {
                std::thread::yield_now();
            }
            self.0.times.fetch_add(1, Ordering::Relaxed);
        }
        fn unlock(&self) -> bool {
            self.0.taken.store(false, Ordering::Release);
            true
        }
        fn give_way(&self) {
            std::thread::yield_now();
        }
        fn excludes_all(&self, wanted: bool) -> bool {
            excludes_all(self, wanted)
        }
    }

    struct Elements(UnsafeCell<[i64; ELEMENTS]>);

    // SAFETY: updated by the functions of `op` alone, under one guard, while several threads run.
    unsafe impl Sync for Elements {}

    impl Elements {
        fn at(&self, index: usize) -> *mut u8 {
            self.0.get().cast::<i64>().wrapping_add(index).cast()
        }
    }

    fn datatype(name: &str) -> &'static Arc<Datatype> {
        let mut all = Datatype::all_predefined();
        all.find(|(_, datatype)| datatype.name() == name)
            .expect("a predefined type")
            .1
    }

    fn op(name: &str) -> &'static Arc<Op> {
        let mut all = Op::all_predefined();
        all.find(|(_, op)| op.name() == name)
            .expect("a predefined operation")
            .1
    }

    /// Each thread adds one to each element so many times, to many elements at a time, to few, to one, and by comparing.
    fn adds_up(shared: &Shared, times: usize) {
        let elements = Elements(UnsafeCell::new([0; ELEMENTS]));
        let sum = op("MPI_SUM");
        let int = datatype("MPI_INT64_T");
        let add = |guard: &Process<'_>, first: usize, count: usize| {
            let ones = [1i64; ELEMENTS];
            let at = elements.at(first);
            // SAFETY: so many elements each; the target is common to threads that all do this.
            unsafe {
                sum.update(
                    int,
                    ones.as_ptr().cast(),
                    at,
                    count as u64,
                    None,
                    Sharing::Shared(guard),
                )
            };
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (elements, add) = (&elements, &add);
                scope.spawn(move || {
                    let guard = Process(shared, thread);
                    for time in 0..times {
                        match (time + thread) % 4 {
                            0 if time >= times / 4 => add(&guard, 0, ELEMENTS),
                            1 => (0..ELEMENTS / 8).for_each(|few| add(&guard, few * 8, 8)),
                            2 => (0..ELEMENTS).for_each(|one| add(&guard, one, 1)),
                            _ => (0..ELEMENTS).for_each(|one| {
                                let at = elements.at(one);
                                let mut was = 0i64;
                                loop {
                                    let (expected, new) = (was, was + 1);
                                    let [expected_at, new_at] = [&raw const expected, &raw const new];
                                    let (new_at, expected_at) = (new_at.cast(), expected_at.cast());
                                    let result = (&raw mut was).cast();
                                    let sharing = Sharing::Shared(&guard);
                                    // SAFETY: one element each; the target as above.
                                    unsafe {
                                        compare_and_swap(int, new_at, expected_at, result, at, sharing)
                                    };
                                    if was == expected {
                                        break;
                                    }
                                }
                            }),
                        }
                    }
                });
            }
        });
        assert_eq!(elements.0.into_inner(), [(THREADS * times) as i64; ELEMENTS]);
    }

    const TIMES: usize = if cfg!(miri) { 4 } else { 40 };

    #[test]
    fn no_update_is_lost() {
        let shared = Shared::default();
        adds_up(&shared, TIMES);
        assert!(matches!(shared.mode.load(Ordering::Relaxed), CLOSING | LOCKED));
        // Nobody is busy any more.
        assert!(excludes_all(&Process(&shared, 0), true));
        adds_up(&shared, TIMES);
        assert!(!enter(&Process(&shared, 0)));
    }

    #[test]
    fn without_a_fence_words_are_updated_by_atomic_operations_for_ever() {
        let shared = Shared {
            has_no_fence: true,
            ..Shared::default()
        };
        adds_up(&shared, TIMES);
        assert_eq!(shared.mode.load(Ordering::Relaxed), ATOMIC_FOR_EVER);
        assert!(!excludes_all(&Process(&shared, 0), true) && enter(&Process(&shared, 0)));
    }

    /// As if that process had died.
    #[test]
    fn nobody_waits_for_who_is_busy() {
        let shared = Shared::default();
        assert!(enter(&Process(&shared, 0)));
        assert!(!excludes_all(&Process(&shared, 1), true));
        replaces_by_another(&shared);
        leave(&Process(&shared, 0));
        assert!(!excludes_all(&Process(&shared, 1), false) && excludes_all(&Process(&shared, 1), true));
    }

    /// Who dies while it closes may not have made the fence: whoever takes the lock over closes it anew.
    #[test]
    fn what_was_half_closed_is_closed_anew() {
        let shared = Shared::default();
        let [dead, other] = [0, 1].map(|place| Process(&shared, place));
        dead.set_mode(CLOSING);
        assert!(!enter(&other));
        is_taken_over(&other);
        assert!(enter(&other));
        assert!(!excludes_all(&other, true));
        assert!(!enter(&other) && excludes_all(&other, true));
        // What is closed stays so.
        is_taken_over(&other);
        assert!(!enter(&other) && excludes_all(&other, false));
    }

    /// A process that is not busy updates one element, and then many.
    fn replaces_by_another(shared: &Shared) {
        let mut elements = [0i64; ELEMENTS];
        let (int, replace) = (datatype("MPI_INT64_T"), op("MPI_REPLACE"));
        for (value, count) in [(7i64, 1), (8, ELEMENTS)] {
            let values = [value; ELEMENTS];
            let at = elements.as_mut_ptr().cast();
            let guard = Process(shared, 1);
            // SAFETY: so many elements each.
            unsafe {
                replace.update(
                    int,
                    values.as_ptr().cast(),
                    at,
                    count as u64,
                    None,
                    Sharing::Shared(&guard),
                )
            };
        }
        assert_eq!(elements, [8; ELEMENTS]);
        assert_eq!(shared.times.load(Ordering::Relaxed), 2);
    }
}
