//! Procedures that need no instance: arithmetic on addresses, handles as integers, versions, the clock,
//! and the fields of a status.
//!
//! All of them may be called before MPI is initialized and after it is finalized, from any thread, and none has an object
//! whose error handler could be asked: where an argument is a null pointer they return `MPI_ERR_ARG`.

use std::ffi::{c_char, c_int, c_void};

use crate::abi::common::constants::*;
use crate::abi::common::types::*;

/// Exports each function under its `MPI_` and its `PMPI_` name, as `mpi!` does (`procedure.rs`).
macro_rules! export {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty $body:block)+) => {
        $(
            $(#[$meta])*
            #[allow(non_snake_case)] // The name is the standard's own.
            #[inline(always)]
            unsafe extern "C" fn $name($($arg: $type),*) -> $result $body

            const _: () = {
                #[inline(never)]
                #[unsafe(export_name = stringify!($name))]
                unsafe extern "C" fn mpi($($arg: $type),*) -> $result {
                    // SAFETY: the caller's promises are passed on unchanged.
                    unsafe { $name($($arg),*) }
                }

                #[unsafe(export_name = concat!("P", stringify!($name)))]
                unsafe extern "C" fn pmpi($($arg: $type),*) -> $result {
                    // SAFETY: the caller's promises are passed on unchanged.
                    unsafe { mpi($($arg),*) }
                }
            };
        )+
    };
}

/// Writes `value` to where the user asks for it.
///
/// # Safety
/// `to` is null, or the user may have `value` written there.
unsafe fn give<T>(to: *mut T, value: T) -> c_int {
    if to.is_null() {
        return MPI_ERR_ARG;
    }
    // SAFETY: not null, and writable, as the caller says.
    unsafe { to.write(value) };
    MPI_SUCCESS
}

/// Returns one field of a status to the user.
///
/// # Safety
/// Each pointer is null, or valid for reading (`status`) or writing (`to`).
unsafe fn get(status: *const MPI_Status, to: *mut c_int, field: impl FnOnce(&MPI_Status) -> c_int) -> c_int {
    // SAFETY: null or readable, by the caller's promise; nobody else uses a status during a call that it is passed to.
    match unsafe { status.as_ref() } {
        // SAFETY: null or writable, by the caller's promise.
        Some(status) => unsafe { give(to, field(status)) },
        None => MPI_ERR_ARG,
    }
}

/// Changes a status.
///
/// # Safety
/// `status` is null, or valid for reading and writing.
unsafe fn set(status: *mut MPI_Status, change: impl FnOnce(&mut MPI_Status)) -> c_int {
    // SAFETY: null or writable, by the caller's promise; nobody else uses a status during a call that it is passed to.
    match unsafe { status.as_mut() } {
        Some(status) => {
            change(status);
            MPI_SUCCESS
        }
        None => MPI_ERR_ARG,
    }
}

// Section 5.1.5: addresses.
export! {
    fn MPI_Get_address(location: *const c_void, address: *mut MPI_Aint) -> c_int {
        // SAFETY: the standard asks for a pointer to an `MPI_Aint`.
        unsafe { give(address, location.addr().cast_signed()) }
    }

    /// Removed in MPI 3.0; programs still use it.
    fn MPI_Address(location: *const c_void, address: *mut MPI_Aint) -> c_int {
        // SAFETY: as above.
        unsafe { MPI_Get_address(location, address) }
    }

    fn MPI_Aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
        base.wrapping_add(disp)
    }

    fn MPI_Aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
        addr1.wrapping_sub(addr2)
    }
}

// Section 9.1.1: versions.
export! {
    fn MPI_Get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
        // SAFETY: the standard asks for two pointers to `int`.
        unsafe { give(version, MPI_VERSION).max(give(subversion, MPI_SUBVERSION)) }
    }

    fn MPI_Get_library_version(version: *mut c_char, resultlen: *mut c_int) -> c_int {
        const TEXT: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(
            concat!("Weft ", env!("CARGO_PKG_VERSION"), ", MPI 5.0, ABI 1.0\0").as_bytes(),
        ) {
            Ok(text) => text,
            Err(_) => panic!("a zero inside the text"),
        };
        const LEN: usize = TEXT.count_bytes();
        const { assert!(LEN < MPI_MAX_LIBRARY_VERSION_STRING as usize) };
        if version.is_null() || resultlen.is_null() {
            return MPI_ERR_ARG;
        }
        // SAFETY: the standard asks for `MPI_MAX_LIBRARY_VERSION_STRING` bytes, and the text with its zero is no
        // longer, as asserted above; no part of a constant overlaps the user's memory.
        unsafe {
            version.copy_from_nonoverlapping(TEXT.as_ptr(), LEN + 1);
            give(resultlen, LEN as c_int)
        }
    }

    fn MPI_Abi_get_version(abi_major: *mut c_int, abi_minor: *mut c_int) -> c_int {
        // SAFETY: the standard asks for two pointers to `int`.
        unsafe { give(abi_major, MPI_ABI_VERSION).max(give(abi_minor, MPI_ABI_SUBVERSION)) }
    }
}

/// Reads the monotonic clock with `read`, in seconds.
fn seconds(read: unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int) -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a timespec of our own. The call cannot fail: Linux always has this clock.
    unsafe { read(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

// Section 9.6: timers. All processes of a machine have one clock; `MPI_WTIME_IS_GLOBAL` is another
// matter, since machines differ.
export! {
    fn MPI_Wtime() -> f64 {
        seconds(libc::clock_gettime)
    }

    fn MPI_Wtick() -> f64 {
        seconds(libc::clock_getres)
    }
}

// Section 15.2.4: control of a profiler. There is none here. C's declaration goes on with `...`, which the callee
// need not take.
export! {
    fn MPI_Pcontrol(_level: c_int) -> c_int {
        MPI_SUCCESS
    }
}

// Sections 3.2.5 and 13.3: the public fields of a status, for languages that cannot reach into a C struct.
export! {
    fn MPI_Status_get_source(status: *const MPI_Status, source: *mut c_int) -> c_int {
        // SAFETY: the standard asks for a pointer to a status and one to an `int`.
        unsafe { get(status, source, |s| s.MPI_SOURCE) }
    }

    fn MPI_Status_get_tag(status: *const MPI_Status, tag: *mut c_int) -> c_int {
        // SAFETY: as above.
        unsafe { get(status, tag, |s| s.MPI_TAG) }
    }

    fn MPI_Status_get_error(status: *const MPI_Status, error: *mut c_int) -> c_int {
        // SAFETY: as above.
        unsafe { get(status, error, |s| s.MPI_ERROR) }
    }

    fn MPI_Status_set_source(status: *mut MPI_Status, source: c_int) -> c_int {
        // SAFETY: the standard asks for a pointer to a status.
        unsafe { set(status, |s| s.MPI_SOURCE = source) }
    }

    fn MPI_Status_set_tag(status: *mut MPI_Status, tag: c_int) -> c_int {
        // SAFETY: as above.
        unsafe { set(status, |s| s.MPI_TAG = tag) }
    }

    fn MPI_Status_set_error(status: *mut MPI_Status, error: c_int) -> c_int {
        // SAFETY: as above.
        unsafe { set(status, |s| s.MPI_ERROR = error) }
    }
}

// Section 20.3.4: a handle's number is all there is to it, and fits an `int`: predefined handles lie below 4096,
// and Weft's own are 32 bits wide. The upper ones become negative integers, and come back as they were.
macro_rules! handles_as_integers {
    ($($handle:ident: $toint:ident, $fromint:ident;)+) => {
        export! {
            $(
                fn $toint(handle: $handle) -> c_int {
                    (handle as u32).cast_signed()
                }

                fn $fromint(number: c_int) -> $handle {
                    number.cast_unsigned() as usize
                }
            )+
        }
    };
}

handles_as_integers! {
    MPI_Comm: MPI_Comm_toint, MPI_Comm_fromint;
    MPI_Datatype: MPI_Type_toint, MPI_Type_fromint;
    MPI_Errhandler: MPI_Errhandler_toint, MPI_Errhandler_fromint;
    MPI_File: MPI_File_toint, MPI_File_fromint;
    MPI_Group: MPI_Group_toint, MPI_Group_fromint;
    MPI_Info: MPI_Info_toint, MPI_Info_fromint;
    MPI_Message: MPI_Message_toint, MPI_Message_fromint;
    MPI_Op: MPI_Op_toint, MPI_Op_fromint;
    MPI_Request: MPI_Request_toint, MPI_Request_fromint;
    MPI_Session: MPI_Session_toint, MPI_Session_fromint;
    MPI_Win: MPI_Win_toint, MPI_Win_fromint;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_being_an_integer() {
        for handle in [
            MPI_COMM_NULL,
            MPI_COMM_WORLD,
            4096,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
        ] {
            // SAFETY: neither takes a pointer.
            let back = unsafe { MPI_Comm_fromint(MPI_Comm_toint(handle)) };
            assert_eq!(back, handle);
        }
    }

    #[test]
    fn the_clock_moves_forward_by_at_least_its_tick() {
        // SAFETY: neither takes a pointer.
        let (tick, start) = unsafe { (MPI_Wtick(), MPI_Wtime()) };
        assert!(tick > 0.0 && tick < 1e-3, "tick {tick}");
        // SAFETY: takes no pointer.
        while unsafe { MPI_Wtime() } == start {}
        // SAFETY: takes no pointer.
        assert!(unsafe { MPI_Wtime() } > start);
    }

    #[test]
    fn the_library_version_is_a_c_string_of_the_length_it_tells() {
        let mut text = [0x7f as c_char; MPI_MAX_LIBRARY_VERSION_STRING as usize];
        let mut len = -1;
        // SAFETY: a buffer as long as the standard asks for, and an `int`.
        let result = unsafe { MPI_Get_library_version(text.as_mut_ptr(), &mut len) };
        assert_eq!(result, MPI_SUCCESS);
        assert_eq!(text.iter().position(|&c| c == 0), Some(len as usize));
    }

    #[test]
    fn the_fields_of_a_status_are_its_own() {
        let mut status = MPI_Status::default();
        let (mut source, mut tag, mut error) = (0, 0, 0);
        // SAFETY: pointers to a status and `int`s of our own.
        unsafe {
            assert_eq!(MPI_Status_set_source(&mut status, 1), MPI_SUCCESS);
            assert_eq!(MPI_Status_set_tag(&mut status, 2), MPI_SUCCESS);
            assert_eq!(MPI_Status_set_error(&mut status, 3), MPI_SUCCESS);
            assert_eq!(MPI_Status_get_source(&status, &mut source), MPI_SUCCESS);
            assert_eq!(MPI_Status_get_tag(&status, &mut tag), MPI_SUCCESS);
            assert_eq!(MPI_Status_get_error(&status, &mut error), MPI_SUCCESS);
            assert_eq!(MPI_Status_get_tag(std::ptr::null(), &mut tag), MPI_ERR_ARG);
            assert_eq!(MPI_Status_set_tag(std::ptr::null_mut(), 0), MPI_ERR_ARG);
        }
        assert_eq!((source, tag, error), (1, 2, 3));
        assert_eq!(status.internal, [0; 5]);
    }
}
