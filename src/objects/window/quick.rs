//! The short way of what programs call most, on memory that this process sees: each call does all of its work, or nothing, and says which.
//! Then the general one does it, and finds what is unusual or wrong. Those that end with `now` may make progress; the others do nothing but their
//! work, so whoever calls them may hold the window without a reference to it.

use std::sync::atomic::{Ordering, fence};

use super::epoch::Lock;
use super::guard::Guarded;
use super::passive::Until;
use super::{Exposed, Origin, Window, ordering};
use crate::base::error::Result;
use crate::data::op::{MANY, Sharing};

/// One of so many calls with nothing to wait for makes progress, for what comes by messages to this process.
const STEPS: u32 = 256;
/// And one of so many in which others have done something for this process.
const ASKED_STEPS: u32 = 16;

/// From so many elements on it pays to combine them as reductions do, where nobody else updates them, rather than each by itself.
const SOME: u64 = 8;

impl Window {
    /// Where `len` bytes of a rank's memory are from a displacement on, if this process sees them and an epoch allows that it accesses them.
    #[inline(always)]
    pub fn reach(&self, rank: u32, disp: i64, len: usize) -> Option<*mut u8> {
        let at = self.members().reach(rank, disp, len)?;
        (self.open.allows(rank) || self.allows(rank)).then_some(at)
    }

    #[inline(never)]
    fn allows(&self, rank: u32) -> bool {
        self.origin().lock().epochs.access(rank).is_ok()
    }

    /// Said before a load of what is there.
    #[inline(always)]
    pub fn begin_loads(&self) {
        ordering::begin_loads();
    }

    /// Updates so many elements within `len` bytes that are as for [`Window::reach`], where others may do so too, unless this process has the
    /// target's lock for itself.
    #[inline(always)]
    pub fn update_at(
        &self,
        (rank, disp, len): (u32, i64, usize),
        count: u64,
        update: impl FnOnce(*mut u8, Sharing<'_>),
    ) -> Option<()> {
        let at = self.members().reach(rank, disp, len)?;
        let (Exposed::OnHost(segments) | Exposed::Shared(segments)) = &self.exposed else {
            return None;
        };
        let guard = Guarded::nearby(segments, rank, self.members().both_lines(rank));
        if !self.open.shares(rank) {
            return self.update_alone(rank, count, |sharing| update(at, sharing), &guard);
        }
        match (count < MANY).then(|| guard.enter()).flatten() {
            Some(busy) => {
                update(at, Sharing::ByAtomics(&guard));
                busy.leave();
            }
            None => update(at, Sharing::Shared(&guard)),
        }
        Some(())
    }

    #[inline(never)]
    fn update_alone(
        &self,
        rank: u32,
        count: u64,
        update: impl FnOnce(Sharing<'_>),
        guard: &Guarded<'_>,
    ) -> Option<()> {
        // Other threads of this process may use the same lock: they are excluded as long as the origin is locked.
        let mut origin = self.origin().lock();
        origin.epochs.access(rank).ok()?;
        if self.has_alone(&origin, rank) {
            let sharing = if count < SOME {
                Sharing::Locked
            } else {
                Sharing::Alone
            };
            update(sharing);
        } else if let Some(busy) = (count < MANY).then(|| guard.enter()).flatten() {
            update(Sharing::ByAtomics(guard));
            busy.leave();
        } else {
            update(Sharing::Shared(guard));
        }
        Some(())
    }

    /// As [`Window::update_at`], for one element that the processor updates at once. It has a power of two of bytes, is aligned to that, and atomic
    /// operations are in use there, or nothing is done.
    #[inline(always)]
    pub fn update_word_at(
        &self,
        (rank, disp, len): (u32, i64, usize),
        update: impl FnOnce(*mut u8),
    ) -> Option<()> {
        let at = self.members().reach(rank, disp, len)?;
        let (Exposed::OnHost(segments) | Exposed::Shared(segments)) = &self.exposed else {
            return None;
        };
        if at as usize & (len - 1) != 0 {
            return None;
        }
        let guard = Guarded::nearby(segments, rank, self.members().both_lines(rank));
        if self.open.shares(rank) {
            let busy = guard.enter()?;
            update(at);
            busy.leave();
            return Some(());
        }
        // As there.
        let mut origin = self.origin().lock();
        origin.epochs.access(rank).ok()?;
        if self.has_alone(&origin, rank) {
            update(at);
        } else {
            let busy = guard.enter()?;
            update(at);
            busy.leave();
        }
        Some(())
    }

    /// Whether this process has the lock of a rank for itself: then nobody but its own threads updates the rank's memory.
    pub(super) fn has_alone(&self, origin: &Origin, rank: u32) -> bool {
        let lock = origin.epochs.lock_of(rank);
        self.members().all_here() && lock.is_some_and(|lock| lock.exclusive && !lock.unchecked)
    }

    /// [`Window::flush`] and [`Window::flush_local`] of a rank, or all, where nothing goes by messages.
    #[inline(always)]
    pub fn flush_quickly(&self, rank: Option<u32>) -> bool {
        let members = self.members();
        let is_known = rank.is_none_or(|rank| rank < members.size());
        if !is_known || !self.open.is_locked(rank) || !members.all_mapped() || !self.is_off_turn(STEPS) {
            return false;
        }
        ordering::complete_stores();
        true
    }

    /// [`Window::flush`] of a rank, or all, where targets do at once what was begun, and are asked for something. It makes no progress but what
    /// waiting for them takes.
    #[inline(never)]
    pub fn flush_asking(&self, rank: Option<u32>) -> bool {
        if !self.may_be_asking(rank) {
            return false;
        }
        let mut origin = self.origin().lock();
        if origin.epochs.passive(rank, "a flush").is_err() || !self.has_asked(&mut origin, rank) {
            return false;
        }
        fence(Ordering::SeqCst);
        self.is_off_turn(ASKED_STEPS)
    }

    /// [`Window::unlock`], likewise.
    #[inline(never)]
    pub fn unlock_asking(&self, rank: u32) -> bool {
        if !self.may_be_asking(Some(rank)) {
            return false;
        }
        let mut origin = self.origin().lock();
        let Some(exclusive) = origin.epochs.only_lock(rank) else {
            return false;
        };
        if !self.has_asked(&mut origin, Some(rank)) || !self.is_off_turn(ASKED_STEPS) {
            return false;
        }
        fence(Ordering::SeqCst);
        self.members().unlock(rank, exclusive);
        origin.epochs.end_access();
        true
    }

    /// [`Window::unlock_all`], likewise.
    #[inline(never)]
    pub fn unlock_all_asking(&self) -> bool {
        if !self.may_be_asking(None) {
            return false;
        }
        let mut origin = self.origin().lock();
        if !origin.epochs.has_locked_all()
            || !self.has_asked(&mut origin, None)
            || !self.is_off_turn(ASKED_STEPS)
        {
            return false;
        }
        fence(Ordering::SeqCst);
        (0..self.members().size()).for_each(|rank| self.members().unlock(rank, false));
        origin.epochs.end_access();
        true
    }

    /// Whether all processes are on this host, but this one does not see the memory of all.
    fn may_be_asking(&self, rank: Option<u32>) -> bool {
        let members = self.members();
        members.all_here() && !members.all_mapped() && rank.is_none_or(|rank| rank < members.size())
    }

    /// Completes what was begun at a rank, or at all, if that is possible at once. `false`: it is not, or they were asked for nothing.
    fn has_asked(&self, origin: &mut Origin, rank: Option<u32>) -> bool {
        let ranks = rank.map_or(0..self.members().size(), |rank| rank..rank + 1);
        for rank in ranks {
            if let Err(error) = self.complete_now(origin, rank, Until::There) {
                // The general way says so.
                origin.failed.get_or_insert(error);
            }
        }
        origin.failed.is_none() && origin.outbox.is_idle(rank) && origin.asking.take_done()
    }

    /// [`Window::lock`], where locks are in shared memory and this one is free.
    #[inline(always)]
    pub fn lock_quickly(&self, rank: u32, exclusive: bool) -> bool {
        let mut origin = self.origin().lock();
        if !origin.epochs.is_idle() || !self.members().try_lock(rank, exclusive) {
            return false;
        }
        origin.epochs.lock_first(rank, exclusive);
        true
    }

    /// [`Window::unlock`], where nothing goes by messages.
    #[inline(always)]
    pub fn unlock_quickly(&self, rank: u32) -> bool {
        let members = self.members();
        if !members.all_mapped() || !self.is_off_turn(STEPS) {
            return false;
        }
        let mut origin = self.origin().lock();
        let Some(exclusive) = origin.epochs.only_lock(rank) else {
            return false;
        };
        if !members.try_unlock(rank, exclusive) {
            return false;
        }
        ordering::unlocked();
        origin.epochs.end_access();
        true
    }

    /// [`Window::lock_all`], where locks are in shared memory and all are free.
    pub fn lock_all_quickly(&self) -> bool {
        let members = self.members();
        let mut origin = self.origin().lock();
        if !origin.epochs.is_idle() {
            return false;
        }
        for rank in 0..members.size() {
            if !members.try_lock(rank, false) {
                (0..rank).for_each(|rank| members.unlock(rank, false));
                return false;
            }
        }
        origin.epochs.lock_all_first();
        true
    }

    /// [`Window::unlock_all`], where nothing goes by messages.
    pub fn unlock_all_quickly(&self) -> bool {
        let members = self.members();
        if !members.are_locked_nearby() || !members.all_mapped() || !self.is_off_turn(STEPS) {
            return false;
        }
        let mut origin = self.origin().lock();
        if !origin.epochs.has_locked_all() {
            return false;
        }
        for rank in 0..members.size() {
            let is_given_back = members.try_unlock(rank, false);
            debug_assert!(is_given_back, "it is nearby");
        }
        ordering::unlocked();
        origin.epochs.end_access();
        true
    }

    /// [`Window::flush`] and [`Window::flush_local`], where nothing is under way but what the kernel copies at once.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`.
    #[inline]
    pub fn flush_now(&self, rank: Option<u32>, until: Until) -> Result<bool> {
        let asked = {
            let mut origin = self.origin().lock();
            origin.epochs.passive(rank, "a flush")?;
            if let Some(rank) = rank
                && let Err(error) = self.complete_now(&mut origin, rank, until)
            {
                // The general way says so, when what was begun nevertheless has ended.
                origin.failed.get_or_insert(error);
            }
            if origin.failed.is_some() || !origin.outbox.is_idle(rank) {
                return Ok(false);
            }
            origin.asking.take_done()
        };
        fence(Ordering::SeqCst);
        self.take_turn(asked);
        Ok(true)
    }

    /// [`Window::unlock`], likewise, where locks are in shared memory.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`.
    #[inline]
    pub fn unlock_now(&self, rank: u32) -> Result<bool> {
        if !self.members().all_here() {
            return Ok(false);
        }
        let mut origin = self.origin().lock();
        let Lock { exclusive, unchecked } = origin.epochs.locked(rank)?;
        if let Err(error) = self.complete_now(&mut origin, rank, Until::There) {
            // The general way gives the lock back all the same.
            origin.failed.get_or_insert(error);
        }
        if origin.failed.is_some() || !origin.outbox.is_idle(Some(rank)) {
            return Ok(false);
        }
        fence(Ordering::SeqCst);
        if !unchecked {
            self.members().unlock(rank, exclusive);
        }
        origin.epochs.unlock(rank);
        let asked = origin.asking.take_done();
        drop(origin);
        self.take_turn(asked);
        Ok(true)
    }

    /// Counts a call that makes no progress. `false`: it is one that does, as one of so many `steps`.
    #[inline(always)]
    fn is_off_turn(&self, steps: u32) -> bool {
        let turn = self.turns.load(Ordering::Relaxed).wrapping_add(1);
        let is_off = !turn.is_multiple_of(steps);
        if is_off {
            // If two threads count one call together, that does not matter.
            self.turns.store(turn, Ordering::Relaxed);
        }
        is_off
    }

    /// A call that may have had nothing to wait for makes progress now and then; always where others can send operations of this window, as a
    /// program may wait for one in a loop of such calls. `asked`: this one has done something, and has looked at what others ask for meanwhile.
    pub(super) fn take_turn(&self, asked: bool) {
        let turn = self.turns.load(Ordering::Relaxed).wrapping_add(1);
        self.turns.store(turn, Ordering::Relaxed);
        let steps = if asked { ASKED_STEPS } else { 1 };
        if turn.is_multiple_of(STEPS) || (turn.is_multiple_of(steps) && !self.members().all_mapped()) {
            self.communicator().instance().step();
        }
    }
}
