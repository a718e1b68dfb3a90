//! Error handlers.

use crate::abi::*;
use crate::bindings::Library;
use crate::convert::set;

/// `MPI_comm_create_errhandler`.
pub unsafe fn comm_create_errhandler<A: Library>(
    _function: Function,
    _errhandler: *mut Int,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}

/// `MPI_file_create_errhandler`.
pub unsafe fn file_create_errhandler<A: Library>(
    _function: Function,
    _errhandler: *mut Int,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}

/// `MPI_session_create_errhandler`.
pub unsafe fn session_create_errhandler<A: Library>(
    _function: Function,
    _errhandler: *mut Int,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}

/// `MPI_win_create_errhandler`.
pub unsafe fn win_create_errhandler<A: Library>(
    _function: Function,
    _errhandler: *mut Int,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}
