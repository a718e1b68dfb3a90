//! Section 12.5: synchronisation.

use std::ffi::c_int;

use super::target_rank;
use crate::abi::common::arguments::{give, present};
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, window};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::base::error::Result;
use crate::err;

/// Checks an assertion argument: nothing but these bits.
fn assertion(value: c_int, allowed: c_int, names: &str) -> Result<c_int> {
    match value & !allowed {
        0 => Ok(value),
        other => Err(err!(
            Assert,
            "assert is {value:#x}, of which {other:#x} is no assertion for this call: it takes {names}, or 0"
        )),
    }
}

/// The assertion that some calls take alone.
fn unchecked(value: c_int) -> Result<bool> {
    Ok(assertion(value, MPI_MODE_NOCHECK, "MPI_MODE_NOCHECK")? != 0)
}

mpi! {
    /// Section 12.5.1. Collective.
    small fn MPI_Win_fence(assert: c_int, win: MPI_Win) win(win) {
        let window = window(win)?;
        let allowed = MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
        let names = "MPI_MODE_NOSTORE, MPI_MODE_NOPUT, MPI_MODE_NOPRECEDE, MPI_MODE_NOSUCCEED";
        let assert = assertion(assert, allowed, names)?;
        window.communicator().instance().block_on(window.fence(assert))
    }

    /// Section 12.5.2.
    small fn MPI_Win_start(group: MPI_Group, assert: c_int, win: MPI_Win) win(win) {
        let window = window(win)?;
        let group = objects::group(group)?;
        let unchecked = unchecked(assert)?;
        window.communicator().instance().block_on(window.start_epoch(&group, unchecked))
    }

    /// Section 12.5.2.
    small fn MPI_Win_complete(win: MPI_Win) win(win) {
        let window = window(win)?;
        window.communicator().instance().block_on(window.complete())
    }

    /// Section 12.5.2.
    small fn MPI_Win_post(group: MPI_Group, assert: c_int, win: MPI_Win) win(win) {
        let window = window(win)?;
        let group = objects::group(group)?;
        let allowed = MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT;
        let assert = assertion(assert, allowed, "MPI_MODE_NOCHECK, MPI_MODE_NOSTORE, MPI_MODE_NOPUT")?;
        window.post(&group, assert & MPI_MODE_NOCHECK != 0)
    }

    /// Section 12.5.2.
    small fn MPI_Win_wait(win: MPI_Win) win(win) {
        let window = window(win)?;
        window.communicator().instance().block_on(window.wait())
    }

    /// Section 12.5.2.
    small fn MPI_Win_test(win: MPI_Win, flag: *mut c_int) win(win) {
        let window = window(win)?;
        present(flag, "flag")?;
        let ended = window.test()?;
        // SAFETY: not null, so the user's.
        unsafe { give(flag, c_int::from(ended), "flag") }
    }

    /// Section 12.5.3.
    small fn MPI_Win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: MPI_Win) win(win) {
        let window = window(win)?;
        let exclusive = match lock_type {
            MPI_LOCK_EXCLUSIVE => true,
            MPI_LOCK_SHARED => false,
            other => {
                return Err(err!(
                    Locktype,
                    "lock_type is {other}, but must be MPI_LOCK_EXCLUSIVE or MPI_LOCK_SHARED"
                ));
            }
        };
        let unchecked = unchecked(assert)?;
        match target_rank(&window, rank)? {
            Some(rank) => window.communicator().instance().block_on(window.lock(exclusive, rank, unchecked)),
            None => Ok(()),
        }
    }

    /// Section 12.5.3.
    small fn MPI_Win_lock_all(assert: c_int, win: MPI_Win) win(win) {
        let window = window(win)?;
        let unchecked = unchecked(assert)?;
        window.communicator().instance().block_on(window.lock_all(unchecked))
    }

    /// Section 12.5.3.
    small fn MPI_Win_unlock(rank: c_int, win: MPI_Win) win(win) {
        let window = window(win)?;
        match target_rank(&window, rank)? {
            Some(rank) if window.unlock_now(rank)? => Ok(()),
            Some(rank) => window.communicator().instance().block_on(window.unlock(rank)),
            None => Ok(()),
        }
    }

    /// Section 12.5.3.
    small fn MPI_Win_unlock_all(win: MPI_Win) win(win) {
        let window = window(win)?;
        window.communicator().instance().block_on(window.unlock_all())
    }

    /// Section 12.5.4.
    small fn MPI_Win_flush(rank: c_int, win: MPI_Win) win(win) {
        let window = window(win)?;
        match target_rank(&window, rank)? {
            Some(rank) if window.flush_now(Some(rank))? => Ok(()),
            Some(rank) => window.communicator().instance().block_on(window.flush(Some(rank))),
            None => Ok(()),
        }
    }

    /// Section 12.5.4.
    small fn MPI_Win_flush_all(win: MPI_Win) win(win) {
        let window = window(win)?;
        match window.flush_now(None)? {
            true => Ok(()),
            false => window.communicator().instance().block_on(window.flush(None)),
        }
    }

    /// Section 12.5.4.
    small fn MPI_Win_flush_local(rank: c_int, win: MPI_Win) win(win) {
        let window = window(win)?;
        match target_rank(&window, rank)? {
            Some(rank) if window.flush_now(Some(rank))? => Ok(()),
            Some(rank) => window.communicator().instance().block_on(window.flush_local(Some(rank))),
            None => Ok(()),
        }
    }

    /// Section 12.5.4.
    small fn MPI_Win_flush_local_all(win: MPI_Win) win(win) {
        let window = window(win)?;
        match window.flush_now(None)? {
            true => Ok(()),
            false => window.communicator().instance().block_on(window.flush_local(None)),
        }
    }

    /// Section 12.5.4.
    small fn MPI_Win_sync(win: MPI_Win) win(win) {
        window(win)?.sync();
        Ok(())
    }
}
