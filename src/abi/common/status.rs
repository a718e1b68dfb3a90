//! `MPI_Status`: the library's own fields hold the number of bytes (two words) and whether the operation was
//! cancelled.

use std::ffi::c_int;

use crate::abi::common::constants::*;
use crate::abi::common::types::MPI_Status;
use crate::engine::Probed;
use crate::engine::request::Outcome;

const CANCELLED: usize = 2;

impl MPI_Status {
    /// Bytes received.
    pub fn bytes(&self) -> u64 {
        u64::from(self.internal[0] as u32) | u64::from(self.internal[1] as u32) << 32
    }

    /// Sets the bytes received.
    pub fn set_bytes(&mut self, bytes: u64) {
        self.internal[0] = bytes as c_int;
        self.internal[1] = (bytes >> 32) as c_int;
    }

    /// Whether the operation was cancelled.
    pub fn cancelled(&self) -> bool {
        self.internal[CANCELLED] != 0
    }

    /// Sets whether the operation was cancelled.
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.internal[CANCELLED] = cancelled.into();
    }
}

/// Fills in a status, except for `MPI_ERROR`, which calls for a single operation leave alone (MPI 5.0 section 3.2.5).
///
/// # Safety
/// The pointer is `MPI_STATUS_IGNORE` or valid for writing.
#[inline]
pub unsafe fn write(to: *mut MPI_Status, outcome: &Outcome) {
    if to.is_null() {
        return;
    }
    // SAFETY: the caller's pointers are null or valid for writing. The fields are written one by one, as the status may hold anything before.
    unsafe {
        (&raw mut (*to).MPI_SOURCE).write(outcome.source);
        (&raw mut (*to).MPI_TAG).write(outcome.tag);
        (&raw mut (*to).internal).write([
            outcome.bytes as c_int,
            (outcome.bytes >> 32) as c_int,
            outcome.cancelled.into(),
            0,
            0,
        ]);
    }
}

/// The empty status of a request that is null or inactive (section 3.7.3), `MPI_ERROR` included.
///
/// # Safety
/// The pointer is `MPI_STATUS_IGNORE` or valid for writing.
pub unsafe fn write_empty(to: *mut MPI_Status) {
    // SAFETY: the caller's pointer is MPI_STATUS_IGNORE or valid for writing.
    unsafe {
        write(to, &Outcome::EMPTY);
        write_error(to, MPI_SUCCESS);
    }
}

/// Sets `MPI_ERROR`.
///
/// # Safety
/// The pointer is `MPI_STATUS_IGNORE` or valid for writing.
pub unsafe fn write_error(to: *mut MPI_Status, code: c_int) {
    if !to.is_null() {
        // SAFETY: the caller's pointers are null or valid for writing.
        unsafe { (&raw mut (*to).MPI_ERROR).write(code) };
    }
}

/// The outcome of an operation with `MPI_PROC_NULL` (section 3.10).
pub const PROC_NULL: Outcome = Outcome {
    source: MPI_PROC_NULL,
    tag: MPI_ANY_TAG,
    bytes: 0,
    cancelled: false,
    error: None,
};

/// The result of a probe, as a status.
pub fn of_probe(probed: &Probed) -> Outcome {
    Outcome {
        source: probed.envelope.source as i32,
        tag: probed.envelope.tag,
        bytes: probed.bytes,
        cancelled: false,
        error: None,
    }
}
