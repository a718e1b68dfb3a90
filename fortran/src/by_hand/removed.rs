//! The procedures of MPI-1 that MPI 3.0 removed and programs still call without an interface: `mpi_address_` and its like. They call what
//! has replaced them. Their addresses are default integers: one that does not fit is an error.

use std::ffi::c_void;

use super::errhandlers::comm_create_errhandler;
use crate::abi::{Aint, Comm, Datatype, Errhandler, Function, Handle, Int, SUCCESS};
use crate::bindings::{Library, Mpi, Pmpi};
use crate::convert::{Few, address, array, handles, length, set};
use crate::errors::{ERR_ARG, On, raise};

/// Stores an address if it fits.
unsafe fn store(value: Option<Aint>, to: *mut Int, removed: &str, instead: &str) -> Int {
    if let Some(value) = value.and_then(|value| Int::try_from(value).ok()) {
        unsafe { *to = value };
        SUCCESS
    } else {
        raise(
            On::Nothing,
            ERR_ARG,
            &format!("{removed}: the result does not fit a default integer; {instead} returns it"),
        )
    }
}

unsafe fn get_address<A: Library>(location: *mut c_void, to: *mut Int) -> Int {
    let mut value = 0;
    unsafe {
        let error = A::MPI_Get_address(address(location), &mut value);
        if error == SUCCESS {
            store(Some(value), to, "MPI_ADDRESS", "MPI_GET_ADDRESS")
        } else {
            error
        }
    }
}

/// What is asked about a datatype.
#[derive(Clone, Copy)]
enum Bound {
    Extent,
    Lower,
    Upper,
}

unsafe fn bound<A: Library>(datatype: Int, to: *mut Int, bound: Bound) -> Int {
    let (mut lower, mut extent) = (0, 0);
    unsafe {
        let error = A::MPI_Type_get_extent(Datatype::from_int(datatype), &mut lower, &mut extent);
        if error != SUCCESS {
            return error;
        }
        let (value, removed) = match bound {
            Bound::Extent => (Some(extent), "MPI_TYPE_EXTENT"),
            Bound::Lower => (Some(lower), "MPI_TYPE_LB"),
            Bound::Upper => (lower.checked_add(extent), "MPI_TYPE_UB"),
        };
        store(value, to, removed, "MPI_TYPE_GET_EXTENT")
    }
}

/// Makes a datatype.
unsafe fn datatype(newtype: *mut Int, create: impl FnOnce(*mut Datatype) -> Int) -> Int {
    let mut created = Datatype::NULL;
    let error = create(&mut created);
    if error == SUCCESS {
        unsafe { *newtype = created.to_int() };
    }
    error
}

unsafe fn addresses(first: *const Int, count: Int) -> Few<Aint> {
    unsafe { array(first, length(count.into())) }
        .iter()
        .map(|&value| value as Aint)
        .collect()
}

unsafe fn get_errhandler<A: Library>(comm: Int, errhandler: *mut Int) -> Int {
    let mut found = Errhandler::NULL;
    unsafe {
        let error = A::MPI_Comm_get_errhandler(Comm::from_int(comm), &mut found);
        if error == SUCCESS {
            *errhandler = found.to_int();
        }
        error
    }
}

/// Each procedure under its two names. What it evaluates to is its error code.
macro_rules! removed {
    ($($mpi:ident $pmpi:ident ($($argument:ident: $kind:ty),*) $library:ident => $error:expr;)+) => {$(
        removed!(@ $mpi Mpi ($($argument: $kind),*) $library => $error);
        removed!(@ $pmpi Pmpi ($($argument: $kind),*) $library => $error);
    )+};
    (@ $symbol:ident $of:ident ($($argument:ident: $kind:ty),*) $library:ident => $error:expr) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol($($argument: $kind,)* ierror: *mut Int) {
            type $library = $of;
            unsafe { set(ierror, $error) };
        }
    };
}

removed! {
    mpi_address_ pmpi_address_ (location: *mut c_void, address: *mut Int) A =>
        get_address::<A>(location, address);

    mpi_type_extent_ pmpi_type_extent_ (datatype: *const Int, extent: *mut Int) A =>
        bound::<A>(*datatype, extent, Bound::Extent);

    mpi_type_lb_ pmpi_type_lb_ (datatype: *const Int, displacement: *mut Int) A =>
        bound::<A>(*datatype, displacement, Bound::Lower);

    mpi_type_ub_ pmpi_type_ub_ (datatype: *const Int, displacement: *mut Int) A =>
        bound::<A>(*datatype, displacement, Bound::Upper);

    mpi_type_hvector_ pmpi_type_hvector_
    (count: *const Int, blocklength: *const Int, stride: *const Int, oldtype: *const Int, newtype: *mut Int) A =>
        datatype(newtype, |created| {
            A::MPI_Type_create_hvector(
                *count,
                *blocklength,
                *stride as Aint,
                Datatype::from_int(*oldtype),
                created,
            )
        });

    mpi_type_hindexed_ pmpi_type_hindexed_
    (count: *const Int, blocklengths: *const Int, displacements: *const Int, oldtype: *const Int, newtype: *mut Int) A =>
        datatype(newtype, |created| {
            A::MPI_Type_create_hindexed(
                *count,
                blocklengths,
                addresses(displacements, *count).as_ptr(),
                Datatype::from_int(*oldtype),
                created,
            )
        });

    mpi_type_struct_ pmpi_type_struct_
    (count: *const Int, blocklengths: *const Int, displacements: *const Int, types: *const Int, newtype: *mut Int) A =>
        datatype(newtype, |created| {
            A::MPI_Type_create_struct(
                *count,
                blocklengths,
                addresses(displacements, *count).as_ptr(),
                handles::<Datatype>(types, length((*count).into())).as_ptr(),
                created,
            )
        });

    mpi_errhandler_set_ pmpi_errhandler_set_ (comm: *const Int, errhandler: *const Int) A =>
        A::MPI_Comm_set_errhandler(Comm::from_int(*comm), Errhandler::from_int(*errhandler));

    mpi_errhandler_get_ pmpi_errhandler_get_ (comm: *const Int, errhandler: *mut Int) A =>
        get_errhandler::<A>(*comm, errhandler);
}

/// `MPI_Errhandler_create`.
#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_errhandler_create_(function: Function, errhandler: *mut Int, ierror: *mut Int) {
    unsafe { comm_create_errhandler::<Mpi>(function, errhandler, ierror) };
}

/// `PMPI_Errhandler_create`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pmpi_errhandler_create_(function: Function, errhandler: *mut Int, ierror: *mut Int) {
    unsafe { comm_create_errhandler::<Pmpi>(function, errhandler, ierror) };
}
