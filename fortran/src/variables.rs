//! Fortran's constants that are variables: a procedure knows them by their addresses (section 2.5.4). Each is a common block, which the
//! program has as well: the dynamic linker makes the two one, so only the addresses count, and nothing is ever stored here.

use std::ffi::c_void;
use std::ptr;

use crate::abi::{Int, Status};

macro_rules! variables {
    ($($(#[$meta:meta])* $symbol:ident: $type:ty = $value:expr; $is:ident)+) => {$(
        #[unsafe(no_mangle)]
        static mut $symbol: $type = $value;

        $(#[$meta])*
        #[inline(always)]
        pub fn $is(address: *const c_void) -> bool {
            address == (&raw const $symbol).cast()
        }
    )+};
}

const NO_STATUS: Status = Status {
    source: 0,
    tag: 0,
    error: 0,
    internal: [0; 5],
};

variables! {
    /// Whether this is `MPI_BOTTOM`.
    weft_bottom_: Int = 0; is_bottom
    /// Whether this is `MPI_IN_PLACE`.
    weft_in_place_: Int = 0; is_in_place
    /// Whether this is `MPI_BUFFER_AUTOMATIC`.
    weft_buffer_automatic_: Int = 0; is_buffer_automatic
    /// Whether this is `MPI_STATUS_IGNORE`.
    weft_status_ignore_: Status = NO_STATUS; is_status_ignore
    /// Whether this is `MPI_STATUSES_IGNORE`.
    weft_statuses_ignore_: Status = NO_STATUS; is_statuses_ignore
    /// Whether this is `MPI_ERRCODES_IGNORE`.
    weft_errcodes_ignore_: Int = 0; is_errcodes_ignore
    /// Whether this is `MPI_ARGV_NULL`.
    weft_argv_null_: [u8; 4] = [0; 4]; is_argv_null
    /// Whether this is `MPI_ARGVS_NULL`.
    weft_argvs_null_: [u8; 4] = [0; 4]; is_argvs_null
    /// Whether this is `MPI_UNWEIGHTED`.
    weft_unweighted_: Int = 0; is_unweighted
    /// Whether this is `MPI_WEIGHTS_EMPTY`.
    weft_weights_empty_: Int = 0; is_weights_empty
}

/// The address of a buffer for C: its own, or the constant that it stands for.
#[inline(always)]
pub fn address(buffer: *mut c_void) -> *mut c_void {
    if is_in_place(buffer) {
        ptr::without_provenance_mut(1)
    } else if is_bottom(buffer) {
        ptr::null_mut()
    } else if is_buffer_automatic(buffer) {
        ptr::without_provenance_mut(2)
    } else {
        buffer
    }
}

/// The address of a buffer that was attached, for Fortran: that of `MPI_BUFFER_AUTOMATIC` is the variable's (section 3.6).
pub fn detached(buffer: *mut c_void) -> *mut c_void {
    if buffer.addr() == 2 {
        (&raw mut weft_buffer_automatic_).cast()
    } else {
        buffer
    }
}
