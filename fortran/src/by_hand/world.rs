//! The start of MPI. The library is told what Fortran's types are like, if nobody has told it yet (section 20.4): right after the start, since
//! not every library listens before.

use std::ptr;
use std::sync::Once;

use crate::abi::{Errhandler, Handle, Info, Int, SUCCESS, Session};
use crate::bindings::{Library, pmpi};
use crate::convert::{Text, set};

/// `MPI_Init` (section 11.2.1), whose arguments C's programs have and Fortran's not.
pub unsafe fn init<A: Library>(ierror: *mut Int) {
    unsafe {
        let error = A::MPI_Init(ptr::null_mut(), ptr::null_mut());
        tell(error);
        set(ierror, error);
    }
}

/// `MPI_Init_thread` (section 11.2.1).
pub unsafe fn init_thread<A: Library>(required: *const Int, provided: *mut Int, ierror: *mut Int) {
    unsafe {
        let error = A::MPI_Init_thread(ptr::null_mut(), ptr::null_mut(), *required, provided);
        tell(error);
        set(ierror, error);
    }
}

/// `MPI_Session_init` (section 11.3.1).
pub unsafe fn session_init<A: Library>(
    info: *const Int,
    errhandler: *const Int,
    session: *mut Int,
    ierror: *mut Int,
) {
    let mut opened = Session::NULL;
    unsafe {
        let error = A::MPI_Session_init(
            Info::from_int(*info),
            Errhandler::from_int(*errhandler),
            &mut opened,
        );
        tell(error);
        if error == SUCCESS {
            *session = opened.to_int();
        }
        set(ierror, error);
    }
}

/// What Fortran's types are like: all compilers agree, as long as no option changes the default kinds.
const TYPES: [(&str, &str); 4] = [
    ("mpi_logical_size", "4"),
    ("mpi_integer_size", "4"),
    ("mpi_real_size", "4"),
    ("mpi_double_precision_size", "8"),
];

/// The optional types. That a compiler lacks some (`REAL*2`) is not known here, and a program in C may use them all the same.
const SUPPORTED: [&str; 19] = [
    "mpi_logical1_supported",
    "mpi_logical2_supported",
    "mpi_logical4_supported",
    "mpi_logical8_supported",
    "mpi_logical16_supported",
    "mpi_integer1_supported",
    "mpi_integer2_supported",
    "mpi_integer4_supported",
    "mpi_integer8_supported",
    "mpi_integer16_supported",
    "mpi_real2_supported",
    "mpi_real4_supported",
    "mpi_real8_supported",
    "mpi_real16_supported",
    "mpi_complex4_supported",
    "mpi_complex8_supported",
    "mpi_complex16_supported",
    "mpi_complex32_supported",
    "mpi_double_complex_supported",
];

/// Tells the library what it has to know of Fortran. Another may have done so, or the library know it by itself: then it stays as it is.
fn tell(error: Int) {
    static TOLD: Once = Once::new();
    if error != SUCCESS {
        return;
    }
    TOLD.call_once(|| unsafe {
        let mut known = Info::NULL;
        if pmpi::PMPI_Abi_get_fortran_info(&mut known) == SUCCESS && known != Info::NULL {
            pmpi::PMPI_Info_free(&mut known);
        } else {
            let mut info = Info::NULL;
            if pmpi::PMPI_Info_create(&mut info) == SUCCESS {
                let supported = SUPPORTED.iter().map(|&key| (key, "true"));
                for (key, value) in TYPES.into_iter().chain(supported) {
                    let (key, value) = (Text::new(key.as_bytes()), Text::new(value.as_bytes()));
                    pmpi::PMPI_Info_set(info, key.as_ptr(), value.as_ptr());
                }
                pmpi::PMPI_Abi_set_fortran_info(info);
                pmpi::PMPI_Info_free(&mut info);
            }
        }
        let (mut yes, mut no, mut set) = (1_i32, 0_i32, 0);
        let found =
            pmpi::PMPI_Abi_get_fortran_booleans(4, (&raw mut yes).cast(), (&raw mut no).cast(), &mut set);
        if found == SUCCESS && set == 0 {
            let (mut yes, mut no) = (1_i32, 0_i32);
            pmpi::PMPI_Abi_set_fortran_booleans(4, (&raw mut yes).cast(), (&raw mut no).cast());
        }
    });
}

/// `MPI_Info_create_env` (section 10.2), whose arguments C's programs have and Fortran's not.
pub unsafe fn info_create_env<A: Library>(info: *mut Int, ierror: *mut Int) {
    let mut created = Info::NULL;
    unsafe {
        let error = A::MPI_Info_create_env(0, ptr::null_mut(), &mut created);
        if error == SUCCESS {
            *info = created.to_int();
        }
        set(ierror, error);
    }
}
