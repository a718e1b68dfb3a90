//! Section 12.3: operations on the memory of a window's processes. (Those with a request: `requests`; section 12.5, synchronisation:
//! `synchronise`; windows themselves: `abi::window`.)
//!
//! What does not belong here: ways to a target's memory, epochs and messages (`objects::window`).

mod fast_path;
mod general;
mod requests;
mod synchronise;

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::abi::common::arguments::{Integer, count, memory};
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, Found, committed, name_of_window, op, window};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::base::error::Result;
use crate::data::datatype::Datatype;
use crate::data::memory::Memory;
use crate::data::op::Op;
use crate::err;
use crate::objects::window::{Target, Window};

/// Elements at the origin.
struct Here {
    memory: Memory,
    datatype: Found<Datatype>,
}

impl Here {
    /// Checks the arguments: those of the origin.
    #[inline]
    fn new(address: *const c_void, number: impl Integer, datatype: MPI_Datatype) -> Result<Here> {
        Here::named(address, number, datatype, ["origin_addr", "origin_count"])
    }

    /// Checks the arguments, which have these names.
    #[inline]
    fn named(
        address: *const c_void,
        number: impl Integer,
        datatype: MPI_Datatype,
        [address_name, count_name]: [&'static str; 2],
    ) -> Result<Here> {
        let datatype = committed(datatype)?;
        let number = count(number.wide(), count_name)?;
        let memory = memory(address, number, &datatype, address_name)?;
        Ok(Here { memory, datatype })
    }

    /// One element, for which there is no count argument.
    fn one(address: *const c_void, datatype: &Arc<Datatype>, name: &str) -> Result<Memory> {
        memory(address, 1, datatype, name)
    }
}

/// The names of the arguments for a result.
const RESULT: [&str; 2] = ["result_addr", "result_count"];

/// The elements at the target. `None`: `MPI_PROC_NULL`.
fn there(
    window: &Window,
    rank: c_int,
    disp: impl Integer,
    number: impl Integer,
    datatype: MPI_Datatype,
) -> Result<Option<Target>> {
    let datatype = committed(datatype)?;
    let number = count(number.wide(), "target_count")?;
    // The displacements of a dynamic window are addresses.
    let Some(rank) = target_rank(window, rank)? else {
        return Ok(None);
    };
    if number > i64::MAX as u64 / datatype.size().max(1) {
        return Err(err!(
            Count,
            "target_count is {number}, which of {} makes more bytes than fit in 63 bits",
            datatype.describe()
        ));
    }
    Ok(Some(Target {
        rank,
        disp: disp.wide(),
        count: number,
        datatype: Arc::clone(&datatype),
    }))
}

/// A rank of a window. `None`: `MPI_PROC_NULL`.
fn target_rank(window: &Window, rank: c_int) -> Result<Option<u32>> {
    let processes = window.communicator().size();
    match rank {
        MPI_PROC_NULL => Ok(None),
        _ if rank >= 0 && (rank as u32) < processes => Ok(Some(rank as u32)),
        _ => Err(err!(
            Rank,
            "rank {rank} is outside {} of {processes} processes",
            name_of_window(window)
        )),
    }
}

/// The operation of an accumulate that returns nothing.
fn accumulating(handle: MPI_Op) -> Result<Found<Op>> {
    let op = op(handle)?;
    match op.is_no_op() {
        true => Err(err!(
            Op,
            "op is MPI_NO_OP, which only MPI_Get_accumulate, MPI_Rget_accumulate and MPI_Fetch_and_op take"
        )),
        false => Ok(op),
    }
}

/// An origin that is not used where the operation is `MPI_NO_OP` (section 12.3.4).
fn origin_of(
    op: &Op,
    address: *const c_void,
    number: impl Integer,
    datatype: MPI_Datatype,
) -> Result<(Memory, Arc<Datatype>)> {
    if op.is_no_op() {
        return Ok((Memory::empty(), Datatype::byte().clone()));
    }
    let origin = Here::new(address, number, datatype)?;
    Ok((origin.memory, Arc::clone(&origin.datatype)))
}

mpi! {
    /// Section 12.3.1.
    large fn MPI_Put(origin_addr: *const c_void, origin_count: Count, origin_datatype: MPI_Datatype, target_rank: c_int,
        target_disp: MPI_Aint, target_count: Count, target_datatype: MPI_Datatype, win: MPI_Win) win(win) {
        let (here, count, target_number) = (origin_addr.cast_mut(), origin_count.into(), target_count.into());
        // SAFETY: the user's buffer.
        if unsafe {
            fast_path::copy(here, count, origin_datatype, target_rank, target_disp, target_number, target_datatype, win, true)
        }
        .is_some()
        {
            return Ok(());
        }
        // SAFETY: the user keeps the buffer unchanged until the operation is complete (section 12.3).
        unsafe {
            general::put(origin_addr, count, origin_datatype, target_rank, target_disp, target_number, target_datatype, win)
        }
    }

    /// Section 12.3.2.
    large fn MPI_Get(origin_addr: *mut c_void, origin_count: Count, origin_datatype: MPI_Datatype, target_rank: c_int,
        target_disp: MPI_Aint, target_count: Count, target_datatype: MPI_Datatype, win: MPI_Win) win(win) {
        let (count, target_number) = (origin_count.into(), target_count.into());
        // SAFETY: the user's buffer.
        if unsafe {
            fast_path::copy(origin_addr, count, origin_datatype, target_rank, target_disp, target_number, target_datatype, win, false)
        }
        .is_some()
        {
            return Ok(());
        }
        // SAFETY: the user leaves the buffer alone until the operation is complete (section 12.3).
        unsafe {
            general::get(origin_addr, count, origin_datatype, target_rank, target_disp, target_number, target_datatype, win)
        }
    }

    /// Section 12.3.4.
    large fn MPI_Accumulate(origin_addr: *const c_void, origin_count: Count, origin_datatype: MPI_Datatype,
        target_rank: c_int, target_disp: MPI_Aint, target_count: Count, target_datatype: MPI_Datatype, op: MPI_Op,
        win: MPI_Win) win(win) {
        let op_type = (origin_datatype, i64::from(origin_count));
        // SAFETY: the user's buffer.
        if op != MPI_NO_OP && op_type == (target_datatype, target_count.into()) && op_type.1 == 1 && unsafe {
            let none = std::ptr::null_mut();
            fast_path::update_one(origin_addr, none, origin_datatype, target_rank, target_disp, op, win).is_some()
        } {
            return Ok(());
        }
        // SAFETY: as above.
        if op != MPI_NO_OP && op_type == (target_datatype, target_count.into()) && unsafe {
            fast_path::update(origin_addr, None, op_type.1, origin_datatype, target_rank, target_disp, op, win).is_some()
        } {
            return Ok(());
        }
        let window = window(win)?;
        let op = accumulating(op)?;
        let origin = Here::new(origin_addr, origin_count, origin_datatype)?;
        match there(&window, target_rank, target_disp, target_count, target_datatype)? {
            // SAFETY: as for MPI_Put.
            Some(target) => unsafe { window.accumulate(origin.memory, &origin.datatype, &target, &op) },
            None => Ok(()),
        }
    }

    /// Section 12.3.4.
    large fn MPI_Get_accumulate(origin_addr: *const c_void, origin_count: Count, origin_datatype: MPI_Datatype,
        result_addr: *mut c_void, result_count: Count, result_datatype: MPI_Datatype, target_rank: c_int,
        target_disp: MPI_Aint, target_count: Count, target_datatype: MPI_Datatype, op: MPI_Op, win: MPI_Win) win(win) {
        let result_type = (result_datatype, i64::from(result_count));
        let is_one = result_type == (target_datatype, target_count.into())
            && result_type.1 == 1
            && (op == MPI_NO_OP || result_type == (origin_datatype, origin_count.into()));
        // SAFETY: the user's buffers.
        if is_one && !result_addr.is_null() && unsafe {
            fast_path::update_one(origin_addr, result_addr, result_datatype, target_rank, target_disp, op, win).is_some()
        } {
            return Ok(());
        }
        let window = window(win)?;
        let op = objects::op(op)?;
        let (origin, origin_type) = origin_of(&op, origin_addr, origin_count, origin_datatype)?;
        let result = Here::named(result_addr, result_count, result_datatype, RESULT)?;
        match there(&window, target_rank, target_disp, target_count, target_datatype)? {
            // SAFETY: as for MPI_Put and MPI_Get.
            Some(target) => unsafe {
                window.get_accumulate((origin, &origin_type), (result.memory, &result.datatype), &target, &op)
            },
            None => Ok(()),
        }
    }

    /// Section 12.3.4.
    small fn MPI_Fetch_and_op(origin_addr: *const c_void, result_addr: *mut c_void, datatype: MPI_Datatype,
        target_rank: c_int, target_disp: MPI_Aint, op: MPI_Op, win: MPI_Win) win(win) {
        // SAFETY: the user's buffers.
        let done = unsafe {
            let is_done = !result_addr.is_null()
                && fast_path::update_one(origin_addr, result_addr, datatype, target_rank, target_disp, op, win).is_some();
            is_done || fast_path::update(origin_addr, Some(result_addr), 1, datatype, target_rank, target_disp, op, win).is_some()
        };
        match done {
            true => Ok(()),
            // SAFETY: as for MPI_Put and MPI_Get.
            false => unsafe { general::fetch_and_op(origin_addr, result_addr, datatype, target_rank, target_disp, op, win) },
        }
    }

    /// Section 12.3.4.
    small fn MPI_Compare_and_swap(origin_addr: *const c_void, compare_addr: *const c_void, result_addr: *mut c_void,
        datatype: MPI_Datatype, target_rank: c_int, target_disp: MPI_Aint, win: MPI_Win) win(win) {
        let buffers = [origin_addr, compare_addr];
        // SAFETY: the user's buffers.
        match unsafe { fast_path::compare_and_swap(buffers, result_addr, datatype, target_rank, target_disp, win) } {
            Some(()) => Ok(()),
            // SAFETY: as for MPI_Put and MPI_Get.
            None => unsafe { general::compare_and_swap(buffers, result_addr, datatype, target_rank, target_disp, win) },
        }
    }
}
