//! Section 12.5: synchronisation.

use std::ffi::c_int;

use super::{fast_path, target_rank};
use crate::abi::common::arguments::{give, present};
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, window};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::base::error::Result;
use crate::err;
use crate::instance::run_in_place;
use crate::objects::window::Until;

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

/// `MPI_Win_flush` and `MPI_Win_flush_local`, where it is not as simple as on the fast path; without a rank, those for all.
#[cold]
#[inline(never)]
fn flush(rank: Option<c_int>, win: MPI_Win, until: Until) -> Result<()> {
    let window = window(win)?;
    let rank = match rank.map(|rank| target_rank(&window, rank)).transpose()? {
        Some(None) => return Ok(()),
        Some(rank) => rank,
        None => None,
    };
    match window.flush_now(rank, until)? {
        true => Ok(()),
        false => window
            .communicator()
            .instance()
            .block_on(window.complete_at(rank, until)),
    }
}

/// `MPI_Win_lock`, likewise.
#[cold]
#[inline(never)]
fn lock(lock_type: c_int, rank: c_int, assert: c_int, win: MPI_Win) -> Result<()> {
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
        Some(rank) if !unchecked && window.lock_soon(exclusive, rank) => Ok(()),
        Some(rank) => window
            .communicator()
            .instance()
            .block_on(window.lock(exclusive, rank, unchecked)),
        None => Ok(()),
    }
}

/// `MPI_Win_unlock`, likewise.
#[cold]
#[inline(never)]
fn unlock(rank: c_int, win: MPI_Win) -> Result<()> {
    let window = window(win)?;
    match target_rank(&window, rank)? {
        Some(rank) if window.unlock_now(rank)? => Ok(()),
        Some(rank) => window.communicator().instance().block_on(window.unlock(rank)),
        None => Ok(()),
    }
}

mpi! {
    /// Section 12.5.1. Collective.
    small fn MPI_Win_fence(assert: c_int, win: MPI_Win) win(win) {
        let window = window(win)?;
        let allowed = MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
        let names = "MPI_MODE_NOSTORE, MPI_MODE_NOPUT, MPI_MODE_NOPRECEDE, MPI_MODE_NOSUCCEED";
        let assert = assertion(assert, allowed, names)?;
        match window.fences_in_place() {
            true => run_in_place(window.fence(assert)),
            false => window.communicator().instance().block_on(window.fence(assert)),
        }
    }

    /// Section 12.5.2.
    small fn MPI_Win_start(group: MPI_Group, assert: c_int, win: MPI_Win) win(win) {
        let window = window(win)?;
        let group = objects::group(group)?;
        let unchecked = unchecked(assert)?;
        match window.groups_in_place() {
            true => run_in_place(window.start_epoch(&group, unchecked)),
            false => window.communicator().instance().block_on(window.start_epoch(&group, unchecked)),
        }
    }

    /// Section 12.5.2.
    small fn MPI_Win_complete(win: MPI_Win) win(win) {
        let window = window(win)?;
        match window.groups_in_place() {
            true => run_in_place(window.complete()),
            false => window.communicator().instance().block_on(window.complete()),
        }
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
        match window.groups_in_place() {
            true => run_in_place(window.wait()),
            false => window.communicator().instance().block_on(window.wait()),
        }
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
        let is_exclusive = lock_type == MPI_LOCK_EXCLUSIVE;
        let is_simple = assert == 0 && (is_exclusive || lock_type == MPI_LOCK_SHARED);
        match is_simple && fast_path::lock(is_exclusive, rank, win) {
            true => Ok(()),
            false => lock(lock_type, rank, assert, win),
        }
    }

    /// Section 12.5.3.
    small fn MPI_Win_lock_all(assert: c_int, win: MPI_Win) win(win) {
        if assert == 0 && fast_path::lock_all(win) {
            return Ok(());
        }
        let window = window(win)?;
        let unchecked = unchecked(assert)?;
        window.communicator().instance().block_on(window.lock_all(unchecked))
    }

    /// Section 12.5.3.
    small fn MPI_Win_unlock(rank: c_int, win: MPI_Win) win(win) {
        match fast_path::unlock(rank, win) {
            true => Ok(()),
            false => unlock(rank, win),
        }
    }

    /// Section 12.5.3.
    small fn MPI_Win_unlock_all(win: MPI_Win) win(win) {
        if fast_path::unlock_all(win) {
            return Ok(());
        }
        let window = window(win)?;
        window.communicator().instance().block_on(window.unlock_all())
    }

    /// Section 12.5.4.
    small fn MPI_Win_flush(rank: c_int, win: MPI_Win) win(win) {
        match fast_path::flush(Some(rank), win, Until::There) {
            true => Ok(()),
            false => flush(Some(rank), win, Until::There),
        }
    }

    /// Section 12.5.4.
    small fn MPI_Win_flush_all(win: MPI_Win) win(win) {
        match fast_path::flush(None, win, Until::There) {
            true => Ok(()),
            false => flush(None, win, Until::There),
        }
    }

    /// Section 12.5.4.
    small fn MPI_Win_flush_local(rank: c_int, win: MPI_Win) win(win) {
        match fast_path::flush(Some(rank), win, Until::Here) {
            true => Ok(()),
            false => flush(Some(rank), win, Until::Here),
        }
    }

    /// Section 12.5.4.
    small fn MPI_Win_flush_local_all(win: MPI_Win) win(win) {
        match fast_path::flush(None, win, Until::Here) {
            true => Ok(()),
            false => flush(None, win, Until::Here),
        }
    }

    /// Section 12.5.4.
    small fn MPI_Win_sync(win: MPI_Win) win(win) {
        window(win)?.sync();
        Ok(())
    }
}
