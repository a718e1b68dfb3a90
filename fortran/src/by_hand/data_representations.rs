//! Data representations of the user's (section 14.5.3). C's extra state is a [`Callbacks`], which stays until the process ends, as a data
//! representation does.

use std::ffi::{c_char, c_void};
use std::ptr;

use crate::abi::{Aint, Count, Datatype, Function, Handle, Int, Offset, SUCCESS};
use crate::bindings::Library;
use crate::callback::{Procedure, predefined};
use crate::convert::{set, text};

/// The user's procedures, and their extra state. A conversion is not called if there is none: C knows that.
struct Callbacks {
    read: Procedure,
    write: Procedure,
    extent: Procedure,
    extra_state: Aint,
}

/// A conversion in Fortran, with counts of type `C`.
type Conversion<C> = unsafe extern "C" fn(
    userbuf: *mut c_void,
    datatype: *mut Int,
    count: *mut C,
    filebuf: *mut c_void,
    position: *mut Offset,
    extra_state: *mut Aint,
    ierror: *mut Int,
);

type Extent =
    unsafe extern "C" fn(datatype: *mut Int, extent: *mut Aint, extra_state: *mut Aint, ierror: *mut Int);

/// Calls a conversion.
unsafe fn convert<C>(
    procedure: Procedure,
    userbuf: *mut c_void,
    datatype: Datatype,
    mut count: C,
    filebuf: *mut c_void,
    mut position: Offset,
    mut extra_state: Aint,
) -> Int {
    let (mut datatype, mut error) = (datatype.to_int(), SUCCESS);
    // SAFETY: the user's word that it is a conversion with such counts.
    unsafe {
        procedure.typed::<Conversion<C>>()(
            userbuf,
            &mut datatype,
            &mut count,
            filebuf,
            &mut position,
            &mut extra_state,
            &mut error,
        );
    }
    error
}

/// The function for C that reads.
unsafe extern "C" fn read<C>(
    userbuf: *mut c_void,
    datatype: Datatype,
    count: C,
    filebuf: *mut c_void,
    position: Offset,
    extra_state: *mut c_void,
) -> Int {
    // SAFETY: C passes the extra state that it got, which is never freed.
    unsafe {
        let callbacks = &*extra_state.cast::<Callbacks>();
        convert(
            callbacks.read,
            userbuf,
            datatype,
            count,
            filebuf,
            position,
            callbacks.extra_state,
        )
    }
}

/// The function for C that writes.
unsafe extern "C" fn write<C>(
    userbuf: *mut c_void,
    datatype: Datatype,
    count: C,
    filebuf: *mut c_void,
    position: Offset,
    extra_state: *mut c_void,
) -> Int {
    // SAFETY: C passes the extra state that it got, which is never freed.
    unsafe {
        let callbacks = &*extra_state.cast::<Callbacks>();
        convert(
            callbacks.write,
            userbuf,
            datatype,
            count,
            filebuf,
            position,
            callbacks.extra_state,
        )
    }
}

/// The function for C that tells a datatype's extent in the file.
unsafe extern "C" fn extent(datatype: Datatype, extent: *mut Aint, extra_state: *mut c_void) -> Int {
    // SAFETY: C passes the extra state that it got, which is never freed.
    let callbacks = unsafe { &*extra_state.cast::<Callbacks>() };
    let (mut datatype, mut state, mut error) = (datatype.to_int(), callbacks.extra_state, SUCCESS);
    // SAFETY: the user's word that it is such a function.
    unsafe { callbacks.extent.typed::<Extent>()(&mut datatype, extent, &mut state, &mut error) };
    error
}

/// Registers by this function of C's. The `none`s say whether there is no conversion: C's constant for that is null.
unsafe fn register<C>(
    functions: [Function; 3],
    none: fn(Function) -> bool,
    extra_state: Aint,
    register: impl FnOnce([Function; 3], *mut c_void) -> Int,
) -> Int {
    let [read_fn, write_fn, extent_fn] = functions;
    let callbacks = Box::into_raw(Box::new(Callbacks {
        read: Procedure::new(read_fn),
        write: Procedure::new(write_fn),
        extent: Procedure::new(extent_fn),
        extra_state,
    }));
    let unless_none = |given, ours| if none(given) { ptr::null() } else { ours };
    let error = register(
        [
            unless_none(read_fn, read::<C> as Function),
            unless_none(write_fn, write::<C> as Function),
            extent as Function,
        ],
        callbacks.cast(),
    );
    if error != SUCCESS {
        // SAFETY: nothing was registered, so C has it no more.
        drop(unsafe { Box::from_raw(callbacks) });
    }
    error
}

macro_rules! procedures {
    ($($name:ident $c:ident $text:literal $count:ident $none:ident;)+) => {$(
        #[doc = concat!("`", $text, "` (section 14.5.3).")]
        pub unsafe fn $name<A: Library>(
            datarep: *mut c_char,
            read_fn: Function,
            write_fn: Function,
            extent_fn: Function,
            extra_state: *const Aint,
            ierror: *mut Int,
            datarep_length: usize,
        ) {
            unsafe {
                let datarep = text(datarep, datarep_length);
                let error = register::<$count>(
                    [read_fn, write_fn, extent_fn],
                    predefined::$none,
                    *extra_state,
                    |[read, write, extent], state| A::$c(datarep.as_ptr(), read, write, extent, state),
                );
                set(ierror, error);
            }
        }
    )+};
}

procedures! {
    register_datarep MPI_Register_datarep "MPI_Register_datarep" Int is_no_conversion;
    register_datarep_c MPI_Register_datarep_c "MPI_Register_datarep_c" Count is_no_conversion_c;
}
