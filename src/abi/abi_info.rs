//! Chapter 20: the sizes of the ABI's integers, and what the Fortran compiler is like.
//!
//! All of these may be called at any time, by any thread. The standard says this of `MPI_Abi_get_info` (section 20.2); Weft allows it for
//! the others too, so that a library of Fortran's procedures can call them before it calls `MPI_Init`. Whoever sets something should do it before any
//! Fortran datatype is used.
//!
//! A second setting is answered with `MPI_ERR_ABI` and calls no error handler, since a program is meant to go on then: it gets
//! what was set first (section 20.4.1).

use std::ffi::{c_int, c_void};

use crate::abi::common::arguments::give;
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, new_info};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::base::error::{Class, Error, Result};
use crate::data::fortran::{Booleans, Kinds};
use crate::err;
use crate::objects::info::Info;

/// The bytes of the longest `LOGICAL`.
const LONGEST: usize = 16;

/// A size in bytes of a `LOGICAL`, 16 or less or not.
fn size(logical_size: c_int) -> Result<usize> {
    let size = usize::try_from(logical_size)
        .ok()
        .filter(|size| size.is_power_of_two());
    size.ok_or_else(|| err!(Arg, "logical_size is {logical_size}, but must be a power of two"))
}

/// That something was set before is returned, and no error handler is called.
fn returned(error: Error) -> Error {
    Error {
        raised: error.class == Class::Abi,
        ..error
    }
}

mpi! {
    /// Section 20.2.
    small fn MPI_Abi_get_info(info: *mut MPI_Info) always {
        let sizes = [
            ("mpi_aint_size", size_of::<MPI_Aint>()),
            ("mpi_count_size", size_of::<MPI_Count>()),
            ("mpi_offset_size", size_of::<MPI_Offset>()),
        ];
        let entries = sizes.map(|(key, size)| (key.to_owned(), size.to_string()));
        // SAFETY: null or a handle of the user's.
        unsafe { give_info(info, Some(entries)) }
    }

    /// Section 20.4.1. `MPI_INFO_NULL` as long as nothing was set.
    small fn MPI_Abi_get_fortran_info(info: *mut MPI_Info) always {
        // SAFETY: null or a handle of the user's.
        unsafe { give_info(info, Kinds::told().map(Kinds::entries)) }
    }

    /// Section 20.4.1. Keys that are not known are ignored; what has no key is as with most compilers.
    small fn MPI_Abi_set_fortran_info(info: MPI_Info) always {
        let info = objects::info(info)?;
        Kinds::of(|key| info.get(key))?.tell().map_err(returned)
    }

    /// Section 20.4.1. The literals of a `LOGICAL` of another size than the one that was set are the same numbers.
    small fn MPI_Abi_get_fortran_booleans(logical_size: c_int, logical_true: *mut c_void,
        logical_false: *mut c_void, is_set: *mut c_int) always {
        let size = size(logical_size)?;
        let told = Booleans::told().filter(|_| size <= LONGEST);
        if let Some(literals) = told {
            for (to, literal, name) in [
                (logical_true, literals.yes, "logical_true"),
                (logical_false, literals.no, "logical_false"),
            ] {
                if to.is_null() {
                    return Err(err!(Arg, "{name} is a null pointer"));
                }
                let bytes = Booleans::bytes(literal, size);
                // SAFETY: the user gives room for a `LOGICAL` of this size.
                unsafe { to.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            }
        }
        // SAFETY: null or an `int` of the user's.
        unsafe { give(is_set, told.is_some().into(), "is_set") }
    }

    /// Section 20.4.1.
    small fn MPI_Abi_set_fortran_booleans(logical_size: c_int, logical_true: *const c_void,
        logical_false: *const c_void) always {
        let size = size(logical_size)?;
        if size > LONGEST {
            return Err(err!(Arg, "logical_size is {size}; there is no LOGICAL of more than {LONGEST} bytes"));
        }
        // SAFETY: null or a `LOGICAL` of the user's, of this size.
        let (yes, no) = unsafe {
            (literal(logical_true, size, "logical_true")?, literal(logical_false, size, "logical_false")?)
        };
        Booleans::of(&yes, &no)?.tell().map_err(returned)
    }
}

/// The bytes of a literal.
///
/// # Safety
/// The pointer is null or valid for reading `size` bytes.
unsafe fn literal(from: *const c_void, size: usize, name: &str) -> Result<Vec<u8>> {
    if from.is_null() {
        return Err(err!(Arg, "{name} is a null pointer"));
    }
    let mut bytes = vec![0; size];
    // SAFETY: not null, and so readable, as the caller says; the bytes are our own.
    unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(from.cast(), size) };
    Ok(bytes)
}

/// A new info object with these entries, which the user has to free, or `MPI_INFO_NULL`.
///
/// # Safety
/// The pointer is null or valid for writing.
unsafe fn give_info(
    to: *mut MPI_Info,
    entries: Option<impl IntoIterator<Item = (String, String)>>,
) -> Result<()> {
    if to.is_null() {
        return Err(err!(Arg, "info is a null pointer"));
    }
    let info = match entries {
        Some(entries) => new_info(Info::of(entries))?,
        None => MPI_INFO_NULL,
    };
    // SAFETY: not null, and so writable, as the caller says.
    unsafe { give(to, info, "info") }
}
