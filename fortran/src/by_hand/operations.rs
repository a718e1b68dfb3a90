//! Operations.

use crate::abi::*;
use crate::bindings::Library;
use crate::convert::set;

/// `MPI_op_create`.
pub unsafe fn op_create<A: Library>(
    _function: Function,
    _commute: *const Logical,
    _op: *mut Int,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}

/// `MPI_op_create_c`.
pub unsafe fn op_create_c<A: Library>(
    _function: Function,
    _commute: *const Logical,
    _op: *mut Int,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}
