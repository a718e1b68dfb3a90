//! Section 12.3.5: operations with a request.

use std::ffi::{c_int, c_void};

use super::{Here, RESULT, accumulating, origin_of, there};
use crate::abi::common::arguments::{give, present};
use crate::abi::common::objects::{self, window};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::abi::point_to_point::request;
use crate::base::error::Result;
use crate::engine::request::{Outcome, RequestId};
use crate::objects::window::Window;

/// Returns a request to the user: that of an operation, or one that has ended where there was none (`MPI_PROC_NULL`).
///
/// # Safety
/// The pointer is null or valid for writing.
unsafe fn give_request(window: &Window, started: Option<RequestId>, to: *mut MPI_Request) -> Result<()> {
    let communicator = window.communicator();
    let instance = communicator.instance();
    let request = started.unwrap_or_else(|| {
        let mut engine = instance.engine();
        engine.ended_request(Outcome::EMPTY, communicator.context())
    });
    // SAFETY: the caller's promise.
    unsafe { give(to, request::handle_of(instance, request)?, "request") }
}

mpi! {
    /// Section 12.3.5.
    large fn MPI_Rput(origin_addr: *const c_void, origin_count: Count, origin_datatype: MPI_Datatype, target_rank: c_int,
        target_disp: MPI_Aint, target_count: Count, target_datatype: MPI_Datatype, win: MPI_Win,
        request: *mut MPI_Request) win(win) {
        let window = window(win)?;
        present(request, "request")?;
        let origin = Here::new(origin_addr, origin_count, origin_datatype)?;
        let target = there(&window, target_rank, target_disp, target_count, target_datatype)?;
        // SAFETY: the user keeps the buffer unchanged until the request has ended; the pointer is not null.
        unsafe {
            let started = target.map(|target| window.rput(origin.memory, &target)).transpose()?;
            give_request(&window, started, request)
        }
    }

    /// Section 12.3.5.
    large fn MPI_Rget(origin_addr: *mut c_void, origin_count: Count, origin_datatype: MPI_Datatype, target_rank: c_int,
        target_disp: MPI_Aint, target_count: Count, target_datatype: MPI_Datatype, win: MPI_Win,
        request: *mut MPI_Request) win(win) {
        let window = window(win)?;
        present(request, "request")?;
        let origin = Here::new(origin_addr, origin_count, origin_datatype)?;
        let target = there(&window, target_rank, target_disp, target_count, target_datatype)?;
        // SAFETY: the user leaves the buffer alone until the request has ended; the pointer is not null.
        unsafe {
            let started = target.map(|target| window.rget(origin.memory, &target)).transpose()?;
            give_request(&window, started, request)
        }
    }

    /// Section 12.3.5.
    large fn MPI_Raccumulate(origin_addr: *const c_void, origin_count: Count, origin_datatype: MPI_Datatype,
        target_rank: c_int, target_disp: MPI_Aint, target_count: Count, target_datatype: MPI_Datatype, op: MPI_Op,
        win: MPI_Win, request: *mut MPI_Request) win(win) {
        let window = window(win)?;
        present(request, "request")?;
        let op = accumulating(op)?;
        let origin = Here::new(origin_addr, origin_count, origin_datatype)?;
        let target = there(&window, target_rank, target_disp, target_count, target_datatype)?;
        // SAFETY: as for MPI_Rput.
        unsafe {
            let started = target
                .map(|target| window.raccumulate(origin.memory, &origin.datatype, &target, &op))
                .transpose()?;
            give_request(&window, started, request)
        }
    }

    /// Section 12.3.5.
    large fn MPI_Rget_accumulate(origin_addr: *const c_void, origin_count: Count, origin_datatype: MPI_Datatype,
        result_addr: *mut c_void, result_count: Count, result_datatype: MPI_Datatype, target_rank: c_int,
        target_disp: MPI_Aint, target_count: Count, target_datatype: MPI_Datatype, op: MPI_Op, win: MPI_Win,
        request: *mut MPI_Request) win(win) {
        let window = window(win)?;
        present(request, "request")?;
        let op = objects::op(op)?;
        let (origin, origin_type) = origin_of(&op, origin_addr, origin_count, origin_datatype)?;
        let result = Here::named(result_addr, result_count, result_datatype, RESULT)?;
        let target = there(&window, target_rank, target_disp, target_count, target_datatype)?;
        // SAFETY: as for MPI_Rput and MPI_Rget.
        unsafe {
            let started = target
                .map(|target| {
                    let (origin, result) = ((origin, &*origin_type), (result.memory, &**result.datatype));
                    window.rget_accumulate(origin, result, &target, &op)
                })
                .transpose()?;
            give_request(&window, started, request)
        }
    }
}
