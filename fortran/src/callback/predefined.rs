//! The predefined callbacks. Fortran has them as procedures, which a program can pass on, and can call itself.
//!
//! Passed on, they are known by their addresses. A program that is not position-independent may have an entry of its own for a procedure of
//! a library; its address is then the procedure's for the whole process, which the dynamic linker sees to, as it does for data: the symbols
//! are exported, so the addresses here come from it as well. But each symbol must have an address of its own for that: were functions with the
//! same code made one, as the compiler does, we would compare with the address of another symbol. So their code differs, by `unlike_others`.

use std::ffi::c_void;
use std::hint::black_box;

use crate::abi::{Aint, Count, Function, Int, Logical, Offset, SUCCESS};

/// The addresses of the predefined callbacks for one kind of object.
pub struct Callbacks {
    /// `MPI_COMM_DUP_FN` and its like.
    pub dup: Function,
    /// `MPI_COMM_NULL_COPY_FN` and its like.
    pub null_copy: Function,
    /// `MPI_COMM_NULL_DELETE_FN` and its like.
    pub null_delete: Function,
}

/// Makes the code of a function unlike that of others that do the same.
#[inline(always)]
fn unlike_others(name: &'static str) {
    black_box(name.as_ptr());
}

macro_rules! of_attributes {
    ($($name:ident $integer:ty: $dup:ident $null_copy:ident $null_delete:ident;)+) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $dup(
            _object: *const Int,
            _keyval: *const Int,
            _extra_state: *const $integer,
            attribute_val_in: *const $integer,
            attribute_val_out: *mut $integer,
            flag: *mut Logical,
            ierror: *mut Int,
        ) {
            unlike_others(stringify!($dup));
            unsafe {
                *attribute_val_out = *attribute_val_in;
                *flag = 1;
                *ierror = SUCCESS;
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $null_copy(
            _object: *const Int,
            _keyval: *const Int,
            _extra_state: *const $integer,
            _attribute_val_in: *const $integer,
            _attribute_val_out: *mut $integer,
            flag: *mut Logical,
            ierror: *mut Int,
        ) {
            unlike_others(stringify!($null_copy));
            unsafe {
                *flag = 0;
                *ierror = SUCCESS;
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $null_delete(
            _object: *const Int,
            _keyval: *const Int,
            _attribute_val: *const $integer,
            _extra_state: *const $integer,
            ierror: *mut Int,
        ) {
            unlike_others(stringify!($null_delete));
            unsafe { *ierror = SUCCESS };
        }

        /// Those for one kind of object.
        pub fn $name() -> Callbacks {
            Callbacks {
                dup: $dup as Function,
                null_copy: $null_copy as Function,
                null_delete: $null_delete as Function,
            }
        }
    )+};
}

of_attributes! {
    comm Aint: mpi_comm_dup_fn_ mpi_comm_null_copy_fn_ mpi_comm_null_delete_fn_;
    datatype Aint: mpi_type_dup_fn_ mpi_type_null_copy_fn_ mpi_type_null_delete_fn_;
    win Aint: mpi_win_dup_fn_ mpi_win_null_copy_fn_ mpi_win_null_delete_fn_;
    deprecated Int: mpi_dup_fn_ mpi_null_copy_fn_ mpi_null_delete_fn_;
}

macro_rules! no_conversion {
    ($($count:ty: $symbol:ident $is:ident;)+) => {$(
        // It says that nothing is converted, and is never called for that.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol(
            _userbuf: *mut c_void,
            _datatype: *const Int,
            _count: *const $count,
            _filebuf: *mut c_void,
            _position: *const Offset,
            _extra_state: *const Aint,
            ierror: *mut Int,
        ) {
            unlike_others(stringify!($symbol));
            unsafe { *ierror = SUCCESS };
        }

        /// Whether it is this one.
        pub fn $is(function: Function) -> bool {
            function == $symbol as Function
        }
    )+};
}

no_conversion! {
    Int: mpi_conversion_fn_null_ is_no_conversion;
    Count: mpi_conversion_fn_null_c_ is_no_conversion_c;
}
