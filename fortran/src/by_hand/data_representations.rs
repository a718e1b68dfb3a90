//! Data representations.

use crate::abi::*;
use crate::bindings::Library;
use crate::convert::set;

/// `MPI_register_datarep`.
pub unsafe fn register_datarep<A: Library>(
    _datarep: *mut std::ffi::c_char,
    _read: Function,
    _write: Function,
    _extent: Function,
    _state: *const Aint,
    ierror: *mut Int,
    _length: usize,
) {
    unsafe { set(ierror, 59) }
}

/// `MPI_register_datarep_c`.
pub unsafe fn register_datarep_c<A: Library>(
    _datarep: *mut std::ffi::c_char,
    _read: Function,
    _write: Function,
    _extent: Function,
    _state: *const Aint,
    ierror: *mut Int,
    _length: usize,
) {
    unsafe { set(ierror, 59) }
}
