//! Procedures that store a string whose length is another argument.

use std::ffi::c_char;

use crate::abi::{Datatype, File, Handle, Info, Int, Logical, Offset, SUCCESS, Session};
use crate::bindings::Library;
use crate::convert::{fill, logical, set, trimmed};

/// `MPI_MAX_DATAREP_STRING` of C.
const LONGEST_DATAREP: usize = 128;

/// Room for a string of so many characters and the zero behind it.
fn room(length: Int) -> Vec<c_char> {
    vec![0; usize::try_from(length).unwrap_or(0) + 1]
}

/// `MPI_Info_get` (chapter 16): `valuelen` is the length without a zero, as in C.
pub unsafe fn info_get<A: Library>(
    info: *const Int,
    key: *mut c_char,
    valuelen: *const Int,
    value: *mut c_char,
    flag: *mut Logical,
    ierror: *mut Int,
    key_length: usize,
    value_length: usize,
) {
    unsafe {
        let key = trimmed(key, key_length);
        let mut found = 0;
        let mut stored = room(*valuelen);
        let error = A::MPI_Info_get(
            Info::from_int(*info),
            key.as_ptr(),
            *valuelen,
            stored.as_mut_ptr(),
            &mut found,
        );
        if error == SUCCESS {
            *flag = logical(found);
            if found != 0 {
                fill(value, value_length, stored.as_ptr());
            }
        }
        set(ierror, error);
    }
}

/// `MPI_Info_get_string` (section 10.1). `buflen` counts no zero in Fortran, neither what is given nor what is returned.
pub unsafe fn info_get_string<A: Library>(
    info: *const Int,
    key: *mut c_char,
    buflen: *mut Int,
    value: *mut c_char,
    flag: *mut Logical,
    ierror: *mut Int,
    key_length: usize,
    value_length: usize,
) {
    unsafe {
        let key = trimmed(key, key_length);
        let mut found = 0;
        let mut stored = room(*buflen);
        // C's 0 asks for the length alone, and so does Fortran's.
        let mut length = if *buflen > 0 {
            buflen.read().saturating_add(1)
        } else {
            *buflen
        };
        let asked = length;
        let error = A::MPI_Info_get_string(
            Info::from_int(*info),
            key.as_ptr(),
            &mut length,
            stored.as_mut_ptr(),
            &mut found,
        );
        if error == SUCCESS {
            *flag = logical(found);
            if found != 0 {
                if asked > 0 {
                    fill(value, value_length, stored.as_ptr());
                }
                *buflen = length - 1;
            }
        }
        set(ierror, error);
    }
}

/// `MPI_Session_get_nth_pset` (section 11.3.2). `pset_len` counts no zero in Fortran.
pub unsafe fn session_get_nth_pset<A: Library>(
    session: *const Int,
    info: *const Int,
    n: *const Int,
    pset_len: *mut Int,
    pset_name: *mut c_char,
    ierror: *mut Int,
    pset_name_length: usize,
) {
    unsafe {
        let mut stored = room(*pset_len);
        let asked = if *pset_len > 0 {
            pset_len.read().saturating_add(1)
        } else {
            *pset_len
        };
        let mut length = asked;
        let error = A::MPI_Session_get_nth_pset(
            Session::from_int(*session),
            Info::from_int(*info),
            *n,
            &mut length,
            stored.as_mut_ptr(),
        );
        if error == SUCCESS {
            if asked > 0 {
                fill(pset_name, pset_name_length, stored.as_ptr());
            }
            *pset_len = length - 1;
        }
        set(ierror, error);
    }
}

/// `MPI_File_get_view` (section 14.3).
pub unsafe fn file_get_view<A: Library>(
    fh: *const Int,
    disp: *mut Offset,
    etype: *mut Int,
    filetype: *mut Int,
    datarep: *mut c_char,
    ierror: *mut Int,
    datarep_length: usize,
) {
    unsafe {
        let (mut etype_c, mut filetype_c) = (Datatype::NULL, Datatype::NULL);
        let mut stored = [0 as c_char; LONGEST_DATAREP];
        let error = A::MPI_File_get_view(
            File::from_int(*fh),
            disp,
            &mut etype_c,
            &mut filetype_c,
            stored.as_mut_ptr(),
        );
        if error == SUCCESS {
            *etype = etype_c.to_int();
            *filetype = filetype_c.to_int();
            fill(datarep, datarep_length, stored.as_ptr());
        }
        set(ierror, error);
    }
}
