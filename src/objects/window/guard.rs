//! The guard of a target's elements in memory that this process shares with others ([`updates`]).

use std::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};
use std::time::{Duration, Instant};

use super::holder;
use super::segments::{Control, Lines, Segments};
use super::updates::{self, Words};
use crate::data::op::Guard;
use crate::system::{membarrier, rcu};

/// How often a process looks whether the lock is free before it lets others run: who has it may need this processor.
const LOOKS: u32 = 64;

/// How long a process waits for one that has the lock before it looks whether that one has died, which takes some microseconds.
const PATIENCE: Duration = Duration::from_millis(5);

/// That of a rank that shares the memory, whose words are looked for when they are needed.
pub struct Guarded<'a> {
    segments: &'a Segments,
    rank: u32,
    /// The words of the rank and of this process, where these are at hand.
    lines: Option<[&'a Lines; 2]>,
}

impl<'a> Guarded<'a> {
    /// The rank's memory is seen by this process.
    #[inline(always)]
    pub fn new(segments: &'a Segments, rank: u32) -> Guarded<'a> {
        Guarded {
            segments,
            rank,
            lines: None,
        }
    }

    /// The same, with [`Members::both_lines`](super::members::Members::both_lines).
    #[inline(always)]
    pub(super) fn nearby(segments: &'a Segments, rank: u32, lines: Option<[&'a Lines; 2]>) -> Guarded<'a> {
        Guarded {
            segments,
            rank,
            lines,
        }
    }

    #[inline(always)]
    fn control(&self) -> Control<'a> {
        self.segments.control(self.rank).expect("its memory is seen")
    }

    #[inline(always)]
    fn words(&self) -> Target<'a> {
        let has_word = rcu::is_first();
        let (name, mode, [busy, others_busy]) = match self.lines {
            // Locks are in shared memory, so that each rank is its own place.
            Some([there, own]) => (self.rank + 1, &there.mode, [&own.busy, &own.others_busy]),
            None => self.distant_words(),
        };
        Target {
            segments: self.segments,
            mode,
            name,
            own: if has_word { busy } else { others_busy },
            has_word,
        }
    }

    #[inline(never)]
    fn distant_words(&self) -> (u32, &'a AtomicU32, [&'a AtomicU32; 2]) {
        let (control, own) = (self.control(), self.segments.own_control());
        (
            control.place() + 1,
            control.mode(),
            [own.busy(), own.others_busy()],
        )
    }

    /// Begins what [`Guard::by_atomics`] does, until [`Busy::leave`]; `None`: the lock has to be taken.
    #[inline(always)]
    pub fn enter(&self) -> Option<Busy<'a>> {
        let words = self.words();
        updates::enter(&words).then_some(Busy(words))
    }
}

/// Elements are being updated by atomic operations.
#[must_use]
pub struct Busy<'a>(Target<'a>);

impl Busy<'_> {
    /// They are no longer.
    #[inline(always)]
    pub fn leave(self) {
        updates::leave(&self.0);
    }
}

impl Guard for Guarded<'_> {
    fn by_atomics(&self, update: &mut dyn FnMut()) -> bool {
        let Some(busy) = self.enter() else {
            return false;
        };
        update();
        busy.leave();
        true
    }

    #[inline]
    fn lock(&self) {
        let word = self.control().lock();
        let name = self.segments.own_control().place() + 1;
        if !holder::try_take(word, name) && wait(word, name, |other| self.segments.has_ended(other - 1)) {
            updates::is_taken_over(&self.words());
        }
    }

    fn unlock(&self) -> bool {
        holder::give_back(self.control().lock())
    }

    fn give_way(&self) {
        let word = self.control().lock();
        for _ in 0..LOOKS {
            if !holder::is_free(word) {
                return;
            }
            std::hint::spin_loop();
        }
        std::thread::yield_now();
    }

    fn excludes_all(&self, wanted: bool) -> bool {
        updates::excludes_all(&self.words(), wanted)
    }
}

impl holder::Word for AtomicU32 {
    #[inline(always)]
    fn get(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn change(&self, from: u32, to: u32) -> bool {
        let changed = self.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed);
        changed.is_ok()
    }

    #[inline(always)]
    fn set(&self, to: u32) {
        self.store(to, Ordering::Release);
    }
}

/// Waits until the lock is free, and takes it. `true`: it was taken over from a process that has died.
#[cold]
#[inline(never)]
fn wait(word: &AtomicU32, name: u32, has_died: impl Fn(u32) -> bool) -> bool {
    // Who is waited for, and since when.
    let mut waits: Option<(u32, Instant)> = None;
    loop {
        for _ in 0..LOOKS {
            if holder::try_take(word, name) {
                return false;
            }
            std::hint::spin_loop();
        }
        let holder = holder::want(word).filter(|&holder| holder != name);
        waits = match (holder, waits) {
            (Some(holder), Some((other, since))) if holder == other && since.elapsed() < PATIENCE => waits,
            (Some(holder), Some((other, _))) if holder == other => {
                if has_died(holder) && holder::take_over(word, holder, name) {
                    return true;
                }
                Some((holder, Instant::now()))
            }
            (holder, _) => holder.map(|holder| (holder, Instant::now())),
        };
        std::thread::yield_now();
    }
}

/// The words of a target.
struct Target<'a> {
    segments: &'a Segments,
    mode: &'a AtomicU32,
    /// What a process says that is busy with it.
    name: u32,
    /// Where this thread says so.
    own: &'a AtomicU32,
    /// Whether it is the thread that its process's word is for. It needs no fence, as others make it execute one. Others count themselves.
    has_word: bool,
}

impl Words for Target<'_> {
    #[inline(always)]
    fn mode(&self) -> u32 {
        self.mode.load(Ordering::Acquire)
    }

    fn set_mode(&self, mode: u32) {
        self.mode.store(mode, Ordering::Release);
    }

    #[inline(always)]
    fn set_busy(&self) {
        match self.has_word {
            // Release: whoever reads it knows that updates of the target named before are done.
            true => self.own.store(self.name, Ordering::Release),
            false => _ = self.own.fetch_add(1, Ordering::Relaxed),
        }
    }

    #[inline(always)]
    fn clear_busy(&self) {
        match self.has_word {
            true => self.own.store(0, Ordering::Release),
            false => _ = self.own.fetch_sub(1, Ordering::Release),
        }
    }

    #[inline(always)]
    fn fence(&self) {
        match self.has_word {
            true => compiler_fence(Ordering::SeqCst),
            false => fence(Ordering::SeqCst),
        }
    }

    fn fence_all(&self) -> bool {
        fence(Ordering::SeqCst);
        membarrier::is_offered() && membarrier::fence_all()
    }

    fn is_any_busy(&self) -> bool {
        let mut all = self.segments.controls();
        all.any(|control| {
            control.busy().load(Ordering::Acquire) == self.name
                || control.others_busy().load(Ordering::Acquire) != 0
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::UnsafeCell;

    use super::*;

    /// What the lock protects.
    struct Counter(UnsafeCell<u64>);

    // SAFETY: counted by whoever has the lock.
    unsafe impl Sync for Counter {}

    /// The first of four processes dies while it has the lock. The others count.
    #[test]
    fn a_lock_is_taken_over_from_the_dead_once() {
        const TIMES: u64 = if cfg!(miri) { 10 } else { 1000 };
        let word = AtomicU32::new(0);
        let counter = Counter(UnsafeCell::new(0));
        assert!(holder::try_take(&word, 1));
        let overs: usize = std::thread::scope(|scope| {
            let count = |name: u32| {
                let (word, counter) = (&word, &counter);
                move || {
                    let mut overs = 0;
                    for _ in 0..TIMES {
                        if !holder::try_take(word, name) && wait(word, name, |other| other == 1) {
                            overs += 1;
                        }
                        // SAFETY: this thread has the lock.
                        unsafe { *counter.0.get() += 1 };
                        holder::give_back(word);
                    }
                    overs
                }
            };
            let threads: Vec<_> = (2..5).map(|name| scope.spawn(count(name))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("it ends"))
                .sum()
        });
        assert_eq!((overs, counter.0.into_inner()), (1, 3 * TIMES));
        assert!(holder::is_free(&word));
    }

    /// Who lives is waited for, however long it takes, and so is another thread of the same process.
    #[test]
    fn a_lock_is_not_taken_from_the_living() {
        let (word, looks) = (AtomicU32::new(0), AtomicU32::new(0));
        for holder in [1, 2] {
            assert!(holder::try_take(&word, holder));
            looks.store(0, Ordering::Relaxed);
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    wait(&word, 2, |other| {
                        assert_eq!(other, 1);
                        if looks.fetch_add(1, Ordering::Relaxed) == 2 {
                            holder::give_back(&word);
                        }
                        false
                    })
                });
                if holder == 2 {
                    while holder::want(&word) != Some(2) {}
                    holder::give_back(&word);
                }
                assert!(!waiting.join().expect("it ends"));
            });
            assert_eq!(looks.load(Ordering::Relaxed), if holder == 1 { 3 } else { 0 });
            assert_eq!(holder::want(&word), Some(2));
            assert!(!holder::take_over(&word, 1, 3) && holder::give_back(&word));
        }
    }
}
