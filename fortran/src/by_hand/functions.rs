//! Functions that return a value, and procedures that only Fortran has.

use std::ffi::c_void;

use crate::abi::{Aint, Int, SUCCESS, Status};
use crate::bindings::Library;
use crate::convert::set;
use crate::sections::Buffer;

/// `MPI_Wtime` (section 9.6).
pub unsafe fn wtime<A: Library>() -> f64 {
    unsafe { A::MPI_Wtime() }
}

/// `MPI_Wtick` (section 9.6).
pub unsafe fn wtick<A: Library>() -> f64 {
    unsafe { A::MPI_Wtick() }
}

/// `MPI_Aint_add` (section 5.1.5).
pub unsafe fn aint_add<A: Library>(base: *const Aint, disp: *const Aint) -> Aint {
    unsafe { A::MPI_Aint_add(*base, *disp) }
}

/// `MPI_Aint_diff` (section 5.1.5).
pub unsafe fn aint_diff<A: Library>(addr1: *const Aint, addr2: *const Aint) -> Aint {
    unsafe { A::MPI_Aint_diff(*addr1, *addr2) }
}

/// `MPI_Pcontrol` (section 15.2.4).
pub unsafe fn pcontrol<A: Library>(level: *const Int) {
    unsafe { A::MPI_Pcontrol(*level) };
}

/// `MPI_F_sync_reg` (section 19.1.8): that it is called is all it is for.
pub unsafe fn f_sync_reg<A: Library>(buf: *mut c_void) {
    std::hint::black_box(buf);
}

/// The same with a descriptor.
pub unsafe fn f_sync_reg_described<A: Library>(buf: Buffer) {
    std::hint::black_box(buf.address());
}

/// `MPI_Sizeof` (section 19.1.9) where the compiler passes no type: 0, as of an unknown one. The modules have the sizes themselves then.
pub unsafe fn sizeof<A: Library>(_x: *mut c_void, size: *mut Int, ierror: *mut Int) {
    unsafe {
        *size = 0;
        set(ierror, SUCCESS);
    }
}

/// `MPI_Sizeof`: the size of an element.
pub unsafe fn sizeof_described<A: Library>(x: Buffer, size: *mut Int, ierror: *mut Int) {
    unsafe {
        *size = x.element as Int;
        set(ierror, SUCCESS);
    }
}

/// `MPI_Status_f2f08` (section 19.3.5): both are the same memory.
pub unsafe fn status_f2f08<A: Library>(f_status: *mut Status, f08_status: *mut Status, ierror: *mut Int) {
    unsafe {
        *f08_status = *f_status;
        set(ierror, SUCCESS);
    }
}

/// `MPI_Status_f082f` (section 19.3.5).
pub unsafe fn status_f082f<A: Library>(f08_status: *mut Status, f_status: *mut Status, ierror: *mut Int) {
    unsafe {
        *f_status = *f08_status;
        set(ierror, SUCCESS);
    }
}
