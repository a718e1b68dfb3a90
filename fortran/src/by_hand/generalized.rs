//! Generalized requests.

use crate::abi::*;
use crate::bindings::Library;
use crate::convert::set;

/// `MPI_grequest_start`.
pub unsafe fn grequest_start<A: Library>(
    _query: Function,
    _free: Function,
    _cancel: Function,
    _state: *const Aint,
    _request: *mut Int,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}
