//! The fast path of operations on memory that this process sees, for the most common arguments: predefined datatypes that are one run of
//! bytes. Each function does all of its call, or nothing, and returns which; the general path then checks everything from the beginning.

use std::ffi::{c_int, c_void};

use crate::abi::common::objects::WINDOWS;
use crate::abi::common::types::*;
use crate::base::bytes;
use crate::data::datatype::Datatype;
use crate::data::op::Op;

/// Bytes of some elements of a predefined datatype that are one run from the buffer's address on, if they are.
#[inline(always)]
fn run(datatype: MPI_Datatype, number: i64) -> Option<usize> {
    let number = u64::try_from(number).ok()?;
    let (offset, len) = Datatype::predefined(datatype)?.run(number)?;
    (offset == 0).then_some(len)
}

/// Copies between a buffer and a target's memory: `puts` says which way.
///
/// # Safety
/// The buffer is valid for that.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "those of the procedure")]
pub unsafe fn copy(
    buffer: *mut c_void,
    number: i64,
    datatype: MPI_Datatype,
    rank: c_int,
    disp: MPI_Aint,
    target_number: i64,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    puts: bool,
) -> bool {
    let copied = || {
        let len = run(datatype, number)?;
        if run(target_datatype, target_number)? != len || buffer.is_null() {
            return None;
        }
        let window = WINDOWS.hold(win)?;
        let rank = u32::try_from(rank)
            .ok()
            .filter(|&rank| rank < window.communicator().size())?;
        let target = window.reach(rank, disp as i64, len)?;
        let buffer = buffer.cast::<u8>();
        // SAFETY: the caller's buffer; the target's memory, which the user leaves to the window's operations.
        unsafe {
            match puts {
                true => bytes::copy(buffer, target, len),
                false => bytes::copy(target, buffer, len),
            }
        }
        Some(())
    };
    copied().is_some()
}

/// Combines elements of a predefined datatype with those at a target; `result` gets what they were.
///
/// # Safety
/// The buffers are valid for that.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "those of the procedure")]
pub unsafe fn update(
    origin: *const c_void,
    result: Option<*mut c_void>,
    number: i64,
    datatype: MPI_Datatype,
    rank: c_int,
    disp: MPI_Aint,
    op: MPI_Op,
    win: MPI_Win,
) -> bool {
    let updated = || {
        let len = run(datatype, number)?;
        let (datatype, op) = (Datatype::predefined(datatype)?, Op::predefined(op)?);
        // Pairs have gaps in memory.
        let is_dense = datatype.size() == datatype.extent() as u64;
        let has_origin = !origin.is_null() || op.is_no_op();
        if !is_dense || !has_origin || result.is_some_and(|result| result.is_null()) {
            return None;
        }
        op.check_accumulate(datatype).ok()?;
        let window = WINDOWS.hold(win)?;
        let rank = u32::try_from(rank)
            .ok()
            .filter(|&rank| rank < window.communicator().size())?;
        let target = window.reach(rank, disp as i64, len)?;
        window
            .update_shared(rank, |sharing| {
                let (operands, before) = (origin.cast(), result.map(|result| result.cast()));
                // SAFETY: the caller's buffers; the target's memory, which the user leaves to the window's operations.
                unsafe { op.update(datatype, operands, target, number as u64, before, sharing) };
            })
            .then_some(())
    };
    updated().is_some()
}
