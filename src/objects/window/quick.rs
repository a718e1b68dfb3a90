//! The short way of what programs call most, on memory that this process sees: each call does all of its work, or nothing, and says which.
//! Then the general one does it, and finds what is unusual or wrong.

use std::sync::atomic::{Ordering, fence};

use super::Window;
use super::epoch::Lock;
use super::members::Way;
use crate::base::error::Result;
use crate::data::op::Sharing;

/// One of so many calls with nothing to wait for makes progress, for what comes by messages to this process.
const STEPS: u32 = 32;

impl Window {
    /// Where `len` bytes of a rank's memory are from a displacement on, if this process sees them and an epoch allows that it accesses them.
    #[inline]
    pub fn reach(&self, rank: u32, disp: i64, len: usize) -> Option<*mut u8> {
        let members = self.members();
        let Way::Mapped(base) = members.way(rank) else {
            return None;
        };
        let member = members.member(rank);
        let at = u64::try_from(disp.checked_mul(member.disp_unit)?).ok()?;
        let end = at.checked_add(len as u64)?;
        if end > member.size || len == 0 || base.is_null() {
            return None;
        }
        self.origin().lock().epochs.access(rank).ok()?;
        Some(base.wrapping_add(at as usize))
    }

    /// Updates elements at such an address, where others may do so too.
    #[inline]
    pub fn update_shared(&self, rank: u32, update: impl FnOnce(Sharing<'_>)) -> bool {
        self.with_sharing(rank, |sharing| match sharing {
            Sharing::Shared(_) => {
                update(sharing);
                true
            }
            Sharing::Alone => false,
        })
    }

    /// [`Window::flush`] and [`Window::flush_local`], where nothing is under way.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`.
    #[inline]
    pub fn flush_now(&self, rank: Option<u32>) -> Result<bool> {
        let turn = {
            let mut origin = self.origin().lock();
            origin.epochs.passive(rank, "a flush")?;
            if origin.failed.is_some() || !origin.outbox.is_idle(rank) {
                return Ok(false);
            }
            origin.next_turn()
        };
        fence(Ordering::SeqCst);
        self.step_in_turn(turn);
        Ok(true)
    }

    /// [`Window::unlock`], where nothing is under way, and locks are in shared memory.
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
        if origin.failed.is_some() || !origin.outbox.is_idle(Some(rank)) {
            return Ok(false);
        }
        fence(Ordering::SeqCst);
        if !unchecked {
            self.members().unlock(rank, exclusive);
        }
        origin.epochs.unlock(rank);
        let turn = origin.next_turn();
        drop(origin);
        self.step_in_turn(turn);
        Ok(true)
    }

    /// A call that may have had nothing to wait for.
    pub(super) fn take_turn(&self) {
        let turn = self.origin().lock().next_turn();
        self.step_in_turn(turn);
    }

    /// Makes progress now and then; always where others can send operations of this window, as a program may wait for one in a loop of
    /// such calls.
    fn step_in_turn(&self, turn: u32) {
        if turn.is_multiple_of(STEPS) || !self.members().all_mapped() {
            self.communicator().instance().step();
        }
    }
}
