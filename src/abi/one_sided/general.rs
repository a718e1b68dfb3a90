//! The general path of the operations that have a fast one: whatever the arguments, and with all checks. Apart from it, so that the fast one
//! needs few registers and little of the stack.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use super::{Here, there};
use crate::abi::common::objects::{self, committed, window};
use crate::abi::common::types::*;
use crate::base::error::Result;
use crate::data::memory::Memory;
use crate::err;

/// `MPI_Put`.
///
/// # Safety
/// The buffer stays unchanged until the operation is complete.
#[cold]
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "those of the procedure")]
pub unsafe fn put(
    address: *const c_void,
    number: i64,
    datatype: MPI_Datatype,
    rank: c_int,
    disp: MPI_Aint,
    target_number: i64,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> Result<()> {
    let window = window(win)?;
    let origin = Here::new(address, number, datatype)?;
    match there(&window, rank, disp, target_number, target_datatype)? {
        // SAFETY: the caller's promise.
        Some(target) => unsafe { window.put(origin.memory, &target) },
        None => Ok(()),
    }
}

/// `MPI_Get`.
///
/// # Safety
/// Nobody uses the buffer until the operation is complete.
#[cold]
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "those of the procedure")]
pub unsafe fn get(
    address: *mut c_void,
    number: i64,
    datatype: MPI_Datatype,
    rank: c_int,
    disp: MPI_Aint,
    target_number: i64,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> Result<()> {
    let window = window(win)?;
    let origin = Here::new(address, number, datatype)?;
    match there(&window, rank, disp, target_number, target_datatype)? {
        // SAFETY: the caller's promise.
        Some(target) => unsafe { window.get(origin.memory, &target) },
        None => Ok(()),
    }
}

/// `MPI_Fetch_and_op`.
///
/// # Safety
/// The buffers are left alone until the operation is complete.
#[cold]
#[inline(never)]
pub unsafe fn fetch_and_op(
    origin_address: *const c_void,
    result_address: *mut c_void,
    datatype: MPI_Datatype,
    rank: c_int,
    disp: MPI_Aint,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let window = window(win)?;
    let op = objects::op(op)?;
    let element = committed(datatype)?;
    if !element.is_predefined() {
        return Err(err!(
            Type,
            "datatype is {}, but must be a predefined one",
            element.describe()
        ));
    }
    let (origin, origin_type) = match op.is_no_op() {
        true => (Memory::empty(), Arc::clone(&element)),
        false => (
            Here::one(origin_address, &element, "origin_addr")?,
            Arc::clone(&element),
        ),
    };
    let result = Here::one(result_address, &element, "result_addr")?;
    match there(&window, rank, disp, 1i64, datatype)? {
        // SAFETY: the caller's promise.
        Some(target) => unsafe {
            window.get_accumulate((origin, &origin_type), (result, &element), &target, &op)
        },
        None => Ok(()),
    }
}

/// `MPI_Compare_and_swap`.
///
/// # Safety
/// The buffers are left alone until the operation is complete.
#[cold]
#[inline(never)]
pub unsafe fn compare_and_swap(
    [origin_address, compare_address]: [*const c_void; 2],
    result_address: *mut c_void,
    datatype: MPI_Datatype,
    rank: c_int,
    disp: MPI_Aint,
    win: MPI_Win,
) -> Result<()> {
    let window = window(win)?;
    let element = committed(datatype)?;
    let origin = Here::one(origin_address, &element, "origin_addr")?;
    let compare = Here::one(compare_address, &element, "compare_addr")?;
    let result = Here::one(result_address, &element, "result_addr")?;
    match there(&window, rank, disp, 1i64, datatype)? {
        // SAFETY: the caller's promise.
        Some(target) => unsafe { window.compare_and_swap(origin, compare, result, &target) },
        None => Ok(()),
    }
}
