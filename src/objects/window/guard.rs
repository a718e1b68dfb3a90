//! The guard of a target's elements in memory that this process shares with others ([`updates`]).

use std::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};

use super::segments::{Control, Lines, Segments};
use super::updates::{self, Words};
use crate::data::op::Guard;
use crate::system::{membarrier, rcu};

/// How often a process looks whether the lock is free before it lets others run: who has it may need this processor.
const LOOKS: u32 = 64;

// The word of the lock.
const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and others wait.
const WANTED: u32 = 2;

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

    fn lock(&self) {
        let word = self.control().lock();
        let mut looks = 0u32;
        loop {
            let found = word.load(Ordering::Relaxed);
            if found == FREE {
                let taken = word.compare_exchange_weak(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
                if taken.is_ok() {
                    return;
                }
            }
            looks += 1;
            if !looks.is_multiple_of(LOOKS) {
                std::hint::spin_loop();
                continue;
            }
            if found == TAKEN {
                // If it has changed, it was given back in between.
                _ = word.compare_exchange(TAKEN, WANTED, Ordering::Relaxed, Ordering::Relaxed);
            }
            std::thread::yield_now();
        }
    }

    fn unlock(&self) -> bool {
        let word = self.control().lock();
        let is_wanted = word.load(Ordering::Relaxed) == WANTED;
        // Who says in between that he wants it will say it again, if this is not enough.
        word.store(FREE, Ordering::Release);
        is_wanted
    }

    fn give_way(&self) {
        let word = self.control().lock();
        for _ in 0..LOOKS {
            if word.load(Ordering::Relaxed) != FREE {
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
