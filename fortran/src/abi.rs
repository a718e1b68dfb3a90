//! The types of the C ABI (MPI 5.0, chapter 20), as `mpi.h` has them.

use std::ffi::{c_int, c_void};

use crate::bindings::pmpi;

/// Fortran's `INTEGER`, and C's `int`.
pub type Int = c_int;
/// `MPI_Aint`.
pub type Aint = isize;
/// `MPI_Count`.
pub type Count = i64;
/// `MPI_Offset`.
pub type Offset = i64;
/// Fortran's default `LOGICAL`.
pub type Logical = i32;
/// A procedure of the user's, or one of C's for a callback.
pub type Function = *const c_void;

/// `MPI_SUCCESS`.
pub const SUCCESS: Int = 0;
/// `MPI_UNDEFINED`.
pub const UNDEFINED: Int = -32766;

/// `MPI_Status`, and Fortran's `TYPE(MPI_Status)`, and its array of `MPI_STATUS_SIZE` integers: the same memory.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Status {
    /// `MPI_SOURCE`.
    pub source: Int,
    /// `MPI_TAG`.
    pub tag: Int,
    /// `MPI_ERROR`.
    pub error: Int,
    /// What the library keeps here.
    pub internal: [Int; 5],
}

/// A handle of C, and its number in Fortran.
pub trait Handle: Copy + PartialEq {
    /// The null handle.
    const NULL: Self;
    /// The handle of a number.
    fn from_int(number: Int) -> Self;
    /// Its number.
    fn to_int(self) -> Int;
}

/// Handles below this are constants, and their own numbers (section 20.3.2).
const CONSTANTS: usize = 0x1000;

macro_rules! handles {
    ($($name:ident $null:literal $from:ident $to:ident;)+) => {$(
        #[doc = concat!("`MPI_", stringify!($name), "`.")]
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(usize);

        impl Handle for $name {
            const NULL: Self = Self($null);

            #[inline(always)]
            fn from_int(number: Int) -> Self {
                if (number as usize) < CONSTANTS {
                    Self(number as usize)
                } else {
                    // SAFETY: the function takes any number.
                    unsafe { pmpi::$from(number) }
                }
            }

            #[inline(always)]
            fn to_int(self) -> Int {
                if self.0 < CONSTANTS {
                    self.0 as Int
                } else {
                    // SAFETY: the handle is one that C gave.
                    unsafe { pmpi::$to(self) }
                }
            }
        }
    )+};
}

handles! {
    Comm 0x100 PMPI_Comm_fromint PMPI_Comm_toint;
    Datatype 0x200 PMPI_Type_fromint PMPI_Type_toint;
    Errhandler 0x140 PMPI_Errhandler_fromint PMPI_Errhandler_toint;
    File 0x118 PMPI_File_fromint PMPI_File_toint;
    Group 0x108 PMPI_Group_fromint PMPI_Group_toint;
    Info 0x130 PMPI_Info_fromint PMPI_Info_toint;
    Message 0x128 PMPI_Message_fromint PMPI_Message_toint;
    Op 0x020 PMPI_Op_fromint PMPI_Op_toint;
    Request 0x180 PMPI_Request_fromint PMPI_Request_toint;
    Session 0x120 PMPI_Session_fromint PMPI_Session_toint;
    Win 0x110 PMPI_Win_fromint PMPI_Win_toint;
}
