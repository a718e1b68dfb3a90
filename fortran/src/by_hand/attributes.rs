//! Attributes.

use crate::abi::*;
use crate::bindings::Library;
use crate::convert::set;

/// `MPI_comm_create_keyval`.
pub unsafe fn comm_create_keyval<A: Library>(
    _copy: Function,
    _delete: Function,
    _keyval: *mut Int,
    _state: *const Aint,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}

/// `MPI_comm_set_attr`.
pub unsafe fn comm_set_attr<A: Library>(
    _object: *const Int,
    _keyval: *const Int,
    _value: *const Aint,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}

/// `MPI_comm_get_attr`.
pub unsafe fn comm_get_attr<A: Library>(
    _object: *const Int,
    _keyval: *const Int,
    _value: *mut Aint,
    _flag: *mut Logical,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}

/// `MPI_type_create_keyval`.
pub unsafe fn type_create_keyval<A: Library>(
    _copy: Function,
    _delete: Function,
    _keyval: *mut Int,
    _state: *const Aint,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}

/// `MPI_type_set_attr`.
pub unsafe fn type_set_attr<A: Library>(
    _object: *const Int,
    _keyval: *const Int,
    _value: *const Aint,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}

/// `MPI_type_get_attr`.
pub unsafe fn type_get_attr<A: Library>(
    _object: *const Int,
    _keyval: *const Int,
    _value: *mut Aint,
    _flag: *mut Logical,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}

/// `MPI_win_create_keyval`.
pub unsafe fn win_create_keyval<A: Library>(
    _copy: Function,
    _delete: Function,
    _keyval: *mut Int,
    _state: *const Aint,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}

/// `MPI_win_set_attr`.
pub unsafe fn win_set_attr<A: Library>(
    _object: *const Int,
    _keyval: *const Int,
    _value: *const Aint,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}

/// `MPI_win_get_attr`.
pub unsafe fn win_get_attr<A: Library>(
    _object: *const Int,
    _keyval: *const Int,
    _value: *mut Aint,
    _flag: *mut Logical,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}

/// `MPI_keyval_create`.
pub unsafe fn keyval_create<A: Library>(
    _copy: Function,
    _delete: Function,
    _keyval: *mut Int,
    _state: *const Int,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}

/// `MPI_attr_put`.
pub unsafe fn attr_put<A: Library>(
    _comm: *const Int,
    _keyval: *const Int,
    _value: *const Int,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}

/// `MPI_attr_get`.
pub unsafe fn attr_get<A: Library>(
    _comm: *const Int,
    _keyval: *const Int,
    _value: *mut Int,
    _flag: *mut Logical,
    ierror: *mut Int,
) {
    unsafe { set(ierror, 59) }
}
