//! The types of the standard ABI (MPI 5.0, section 20.3) as Rust sees them.
//!
//! A handle is a pointer in C and never points at anything: here it is the number in that pointer. The struct and
//! the function types have C's layout and calling convention; `include/mpi.h` is their other half.

#![cfg_attr(
    not(feature = "sim"),
    allow(dead_code, reason = "the ABI is complete, the library not yet")
)]
#![allow(non_camel_case_types)] // The names are the standard's own.

use std::ffi::{c_int, c_void};

/// Holds an address, or a distance between two (`intptr_t`).
pub type MPI_Aint = isize;
/// A position in a file, in bytes or elementary types.
pub type MPI_Offset = i64;
/// A count that holds any `int`, `MPI_Aint` and `MPI_Offset`.
pub type MPI_Count = i64;
/// Fortran's `INTEGER`, which is C's `int` in every compiler that Weft supports.
pub type MPI_Fint = c_int;

/// A communicator (chapter 7).
pub type MPI_Comm = usize;
/// A datatype (chapter 5).
pub type MPI_Datatype = usize;
/// An error handler (section 9.3).
pub type MPI_Errhandler = usize;
/// An open file (chapter 14).
pub type MPI_File = usize;
/// A group of processes (section 7.3).
pub type MPI_Group = usize;
/// A set of hints (chapter 10).
pub type MPI_Info = usize;
/// A message that a matching probe has taken (section 3.8).
pub type MPI_Message = usize;
/// A reduction operation (section 6.9).
pub type MPI_Op = usize;
/// Something under way: an operation that can be waited for.
pub type MPI_Request = usize;
/// A session (section 11.3).
pub type MPI_Session = usize;
/// A window of memory for one-sided communication (chapter 12).
pub type MPI_Win = usize;

/// The values and names of an enumerated variable (section 15.3.5).
pub type MPI_T_enum = usize;
/// A control variable, bound to an object (section 15.3.6).
pub type MPI_T_cvar_handle = usize;
/// A performance variable, bound to an object (section 15.3.7).
pub type MPI_T_pvar_handle = usize;
/// Separates one user of performance variables from others (section 15.3.7).
pub type MPI_T_pvar_session = usize;
/// A registration for an event type (section 15.3.8).
pub type MPI_T_event_registration = usize;
/// One event, as a callback sees it (section 15.3.8).
pub type MPI_T_event_instance = usize;
/// What an event callback may do: one of `MPI_T_CB_REQUIRE_*`.
pub type MPI_T_cb_safety = c_int;
/// Whether a source delivers its events in order: `MPI_T_SOURCE_ORDERED` or `MPI_T_SOURCE_UNORDERED`.
pub type MPI_T_source_order = c_int;

/// The outcome of a receive (section 3.2.5): eight `int`s, of which five are the library's own.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
#[allow(non_snake_case)] // The fields are the standard's own.
pub struct MPI_Status {
    /// The rank that sent the message.
    pub MPI_SOURCE: c_int,
    /// The message's tag.
    pub MPI_TAG: c_int,
    /// The error code of this operation, written where one call completes several.
    pub MPI_ERROR: c_int,
    /// For the library alone (`MPI_internal` in C).
    pub internal: [c_int; 5],
}

const _: () = assert!(size_of::<MPI_Status>() == 32);

/// A callback as it arrives from C: a function's address, or a small number that stands for a predefined one
/// (`MPI_COMM_DUP_FN`), which must be ruled out before the address is called.
pub type Callback = usize;

/// A reduction operation of the user's (section 6.9.5).
pub type MPI_User_function = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype);
/// A reduction operation of the user's with a large count.
pub type MPI_User_function_c =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut MPI_Count, *mut MPI_Datatype);

/// Copies an attribute when its object is duplicated (section 7.7): object, key, extra state, the attribute's
/// value, where to put the copy's value, and whether there is to be a copy. The handle types are all `usize`, so
/// that this one type stands for `MPI_Comm_copy_attr_function`, its `Type` and `Win` siblings and the deprecated
/// `MPI_Copy_function`.
pub type CopyAttrFunction =
    unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
/// Ends an attribute when it or its object is deleted (section 7.7): object, key, the attribute's value, extra
/// state. Stands for `MPI_Comm_delete_attr_function` and its siblings.
pub type DeleteAttrFunction = unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int;

/// An error handler of the user's (section 9.3): the object's handle and the error code, both by address. In C it
/// takes more arguments after these two, which the standard leaves to the library, and Weft passes none. Stands for
/// `MPI_Comm_errhandler_function` and its siblings of files, sessions and windows.
pub type ErrhandlerFunction = unsafe extern "C" fn(*mut usize, *mut c_int, ...);

/// Fills in the status of a generalized request (section 13.2).
pub type MPI_Grequest_query_function = unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int;
/// Frees what a generalized request holds (section 13.2).
pub type MPI_Grequest_free_function = unsafe extern "C" fn(*mut c_void) -> c_int;
/// Cancels a generalized request, if it is not complete (section 13.2).
pub type MPI_Grequest_cancel_function = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// Returns the extent of a datatype in a data representation of the user's (section 14.5.3).
pub type MPI_Datarep_extent_function =
    unsafe extern "C" fn(MPI_Datatype, *mut MPI_Aint, *mut c_void) -> c_int;
/// Converts between a file and memory (section 14.5.3): user buffer, type, count, file buffer, position, extra
/// state.
pub type MPI_Datarep_conversion_function =
    unsafe extern "C" fn(*mut c_void, MPI_Datatype, c_int, *mut c_void, MPI_Offset, *mut c_void) -> c_int;
/// Converts between a file and memory, with a large count.
pub type MPI_Datarep_conversion_function_c =
    unsafe extern "C" fn(*mut c_void, MPI_Datatype, MPI_Count, *mut c_void, MPI_Offset, *mut c_void) -> c_int;

/// Called for an event (section 15.3.8).
pub type MPI_T_event_cb_function =
    unsafe extern "C" fn(MPI_T_event_instance, MPI_T_event_registration, MPI_T_cb_safety, *mut c_void);
/// Called when a registration has ended (section 15.3.8).
pub type MPI_T_event_free_cb_function =
    unsafe extern "C" fn(MPI_T_event_registration, MPI_T_cb_safety, *mut c_void);
/// Called when events were dropped (section 15.3.8): how many, and by which source.
pub type MPI_T_event_dropped_cb_function =
    unsafe extern "C" fn(MPI_Count, MPI_T_event_registration, c_int, MPI_T_cb_safety, *mut c_void);
