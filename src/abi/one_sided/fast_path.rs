//! The fast path of operations on memory that this process sees, for the most common arguments: predefined datatypes that are one run of
//! bytes. Each function does all of its call, or nothing, and returns which; the general path then checks everything from the beginning.

use std::ffi::{c_int, c_void};

use crate::abi::common::constants::MPI_NO_OP;
use crate::abi::common::objects::WINDOWS;
use crate::abi::common::types::*;
use crate::base::bytes;
use crate::data::datatype::Datatype;
use crate::data::kind::MemoryKind;
use crate::data::op::{self, Op, can_compare_and_swap};
use crate::data::pieces::Piece;
use crate::objects::window::Until;

/// Bytes of some elements of a predefined datatype that are one run from the buffer's address on, if they are.
#[inline(always)]
fn run(datatype: MPI_Datatype, number: i64) -> Option<usize> {
    let number = u64::try_from(number).ok()?;
    let (offset, len) = Datatype::predefined(datatype)?.run(number)?;
    (offset == 0).then_some(len)
}

fn piece(buffer: *mut c_void, len: usize) -> Piece {
    let address = buffer.cast::<u8>();
    Piece {
        address,
        len,
        kind: MemoryKind::of(address),
    }
}

/// Copies between a buffer and a target's memory: `puts` says which way. `None`: it has done nothing.
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
) -> Option<()> {
    let len = run(datatype, number)?;
    if (target_datatype, target_number) != (datatype, number) && run(target_datatype, target_number)? != len {
        return None;
    }
    let window = WINDOWS.hold(win)?;
    let rank = u32::try_from(rank).ok()?;
    if buffer.is_null() {
        return None;
    }
    let Some(target) = window.reach(rank, disp as i64, len) else {
        let here = piece(buffer, len);
        // SAFETY: the caller's buffer, which the user leaves alone until the operation is complete.
        return unsafe { window.begin_short(rank, disp as i64, here, puts) }.then_some(());
    };
    let buffer = buffer.cast::<u8>();
    // SAFETY: the caller's buffer; the target's memory, which the user leaves to the window's operations.
    unsafe {
        match puts {
            true => bytes::copy(buffer, target, len),
            false => {
                window.begin_loads();
                bytes::copy(target, buffer, len);
            }
        }
    }
    Some(())
}

/// [`update`] of one element, where the processor does it; `result`, unless it is null, gets what it was. `None`: it has done nothing.
///
/// # Safety
/// The buffers are valid for that.
#[inline(always)]
pub unsafe fn update_one(
    origin: *const c_void,
    result: *mut c_void,
    datatype: MPI_Datatype,
    rank: c_int,
    disp: MPI_Aint,
    op: MPI_Op,
    win: MPI_Win,
) -> Option<()> {
    let single = Op::predefined(op)?.single(Datatype::predefined(datatype)?)?;
    let loads = op == MPI_NO_OP;
    if origin.is_null() && !loads {
        return None;
    }
    let window = WINDOWS.hold(win)?;
    let there = (u32::try_from(rank).ok()?, disp as i64, single.size());
    window.update_word_at(there, |target| {
        if loads {
            window.begin_loads();
        }
        // SAFETY: the caller's buffers; the target's memory, which the user leaves to the window's operations.
        unsafe { single.update(origin.cast(), target, result.cast()) };
    })
}

/// Combines elements of a predefined datatype with those at a target; `result` gets what they were. `None`: it has done nothing.
///
/// # Safety
/// The buffers are valid for that.
#[inline(never)]
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
) -> Option<()> {
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
    if op.is_no_op() {
        window.begin_loads();
    }
    let rank = u32::try_from(rank).ok()?;
    if !window.is_unseen(rank) {
        let there = (rank, disp as i64, len);
        return window.update_at(there, number as u64, |target, sharing| {
            let (operands, before) = (origin.cast(), result.map(|result| result.cast()));
            // SAFETY: the caller's buffers; the target's memory, which the user leaves to the window's operations.
            unsafe { op.update(datatype, operands, target, number as u64, before, sharing) };
        });
    }
    let operands = (!op.is_no_op()).then(|| piece(origin.cast_mut(), len));
    let memories = [operands, result.map(|result| piece(result, len))];
    // SAFETY: the caller's buffers, which the user leaves alone until the operation is complete.
    unsafe { window.begin_update(rank, disp as i64, (op, datatype), number as u64, memories) }.then_some(())
}

/// `MPI_Compare_and_swap`. `None`: it has done nothing.
///
/// # Safety
/// The buffers are valid for that.
#[inline(always)]
pub unsafe fn compare_and_swap(
    [origin, compare]: [*const c_void; 2],
    result: *mut c_void,
    datatype: MPI_Datatype,
    rank: c_int,
    disp: MPI_Aint,
    win: MPI_Win,
) -> Option<()> {
    let len = run(datatype, 1)?;
    let datatype = Datatype::predefined(datatype)?;
    if origin.is_null() || compare.is_null() || result.is_null() || !can_compare_and_swap(datatype) {
        return None;
    }
    let window = WINDOWS.hold(win)?;
    let there = (u32::try_from(rank).ok()?, disp as i64, len);
    if window.is_unseen(there.0) {
        let memories = [
            piece(origin.cast_mut(), len),
            piece(compare.cast_mut(), len),
            piece(result, len),
        ];
        // SAFETY: the caller's buffers, which the user leaves alone until the operation is complete.
        return unsafe { window.swap_now(there.0, there.1, datatype, memories) }.then_some(());
    }
    window.update_at(there, 1, |target, sharing| {
        // SAFETY: the caller's buffers; the target's memory, which the user leaves to the window's operations.
        unsafe {
            op::compare_and_swap(
                datatype,
                origin.cast(),
                compare.cast(),
                result.cast(),
                target,
                sharing,
            );
        }
    })
}

/// `MPI_Win_flush` and its relatives: of a rank, or of all.
#[inline(always)]
pub fn flush(rank: Option<c_int>, win: MPI_Win, until: Until) -> bool {
    let Some(window) = WINDOWS.hold(win) else {
        return false;
    };
    let Ok(rank) = rank.map(u32::try_from).transpose() else {
        return false;
    };
    window.flush_quickly(rank) || (until == Until::There && window.flush_asking(rank))
}

/// `MPI_Win_lock` without an assertion.
#[inline(always)]
pub fn lock(exclusive: bool, rank: c_int, win: MPI_Win) -> bool {
    match (WINDOWS.hold(win), u32::try_from(rank)) {
        (Some(window), Ok(rank)) => window.lock_quickly(rank, exclusive),
        _ => false,
    }
}

/// `MPI_Win_unlock`.
#[inline(always)]
pub fn unlock(rank: c_int, win: MPI_Win) -> bool {
    match (WINDOWS.hold(win), u32::try_from(rank)) {
        (Some(window), Ok(rank)) => window.unlock_quickly(rank) || window.unlock_asking(rank),
        _ => false,
    }
}

/// `MPI_Win_lock_all` without an assertion.
#[inline(always)]
pub fn lock_all(win: MPI_Win) -> bool {
    WINDOWS.hold(win).is_some_and(|window| window.lock_all_quickly())
}

/// `MPI_Win_unlock_all`.
#[inline(always)]
pub fn unlock_all(win: MPI_Win) -> bool {
    WINDOWS
        .hold(win)
        .is_some_and(|window| window.unlock_all_quickly() || window.unlock_all_asking())
}
