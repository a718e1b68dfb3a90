//! Functions of ours for callbacks that C gives no extra state: error handlers and operations. What such a function has to call can't be
//! told from its arguments, so there are many alike, each with a place for one procedure of the user's. A procedure has the same place
//! however often it is passed, and keeps it until the process ends: error handlers and operations live on in what uses them, so nobody tells
//! when the last is gone.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::Procedure;
use crate::abi::{Comm, File, Session, Win};
use crate::abi::{Count, Datatype, Function, Handle, Int};

/// How many there are of each kind.
pub const PLACES: usize = 256;

/// The user's procedures of one kind.
pub struct Pool([AtomicPtr<c_void>; PLACES]);

impl Pool {
    const fn new() -> Self {
        Self([const { AtomicPtr::new(ptr::null_mut()) }; PLACES])
    }

    /// The place of this procedure. `None` if all are taken.
    fn place(&self, function: Function) -> Option<usize> {
        let function = function.cast_mut();
        self.0.iter().position(|place| {
            // Taken here, or earlier. Release: together with the load in `at`; but the address is all there is to be seen.
            match place.compare_exchange(ptr::null_mut(), function, Ordering::Release, Ordering::Acquire) {
                Ok(_) => true,
                Err(taken) => taken == function,
            }
        })
    }

    fn at(&self, place: usize) -> Procedure {
        Procedure::new(self.0[place].load(Ordering::Acquire))
    }
}

/// The functions `$function::<$kind, 0>` to `$function::<$kind, 255>`.
macro_rules! instances {
    ($function:ident $kind:ident) => {
        instances!($function $kind: 0 16 32 48 64 80 96 112 128 144 160 176 192 208 224 240)
    };
    ($function:ident $kind:ident: $($first:literal)+) => {
        [$([
            $function::<$kind, { $first }>, $function::<$kind, { $first + 1 }>,
            $function::<$kind, { $first + 2 }>, $function::<$kind, { $first + 3 }>,
            $function::<$kind, { $first + 4 }>, $function::<$kind, { $first + 5 }>,
            $function::<$kind, { $first + 6 }>, $function::<$kind, { $first + 7 }>,
            $function::<$kind, { $first + 8 }>, $function::<$kind, { $first + 9 }>,
            $function::<$kind, { $first + 10 }>, $function::<$kind, { $first + 11 }>,
            $function::<$kind, { $first + 12 }>, $function::<$kind, { $first + 13 }>,
            $function::<$kind, { $first + 14 }>, $function::<$kind, { $first + 15 }>,
        ]),+]
    };
}

/// Sixteen times sixteen.
type Instances<F> = [[F; 16]; PLACES / 16];

/// An object that has error handlers.
pub trait Handled: Handle + 'static {
    /// The user's error handlers for it.
    fn pool() -> &'static Pool;
}

/// The counts of an operation's elements: `Int`, or `Count`.
pub trait Counting: Copy + 'static {
    /// The user's operations with such counts.
    fn pool() -> &'static Pool;
}

macro_rules! pools {
    ($of:ident: $($kind:ty)+) => {$(
        impl $of for $kind {
            fn pool() -> &'static Pool {
                static POOL: Pool = Pool::new();
                &POOL
            }
        }
    )+};
}

pools!(Handled: Comm File Session Win);
pools!(Counting: Int Count);

/// An error handler for C. C declares that more arguments may follow: no one reads them.
type ErrorHandler<H> = unsafe extern "C" fn(handle: *mut H, error_code: *mut Int);

unsafe extern "C" fn error_handler<H: Handled, const PLACE: usize>(handle: *mut H, error_code: *mut Int) {
    // SAFETY: C passes the address of a handle.
    let mut number = unsafe { *handle }.to_int();
    // SAFETY: only such procedures are put in this pool, and this function is given away after that.
    let procedure = unsafe {
        H::pool()
            .at(PLACE)
            .typed::<unsafe extern "C" fn(*mut Int, *mut Int)>()
    };
    // SAFETY: the user's word that it is an error handler.
    unsafe { procedure(&mut number, error_code) };
}

struct ErrorHandlers<H>(H);

impl<H: Handled> ErrorHandlers<H> {
    const ALL: Instances<ErrorHandler<H>> = instances!(error_handler H);
}

/// The function for C that calls this error handler. `None` if there are too many.
pub fn error_handler_of<H: Handled>(function: Function) -> Option<Function> {
    let place = H::pool().place(function)?;
    Some(ErrorHandlers::<H>::ALL[place / 16][place % 16] as Function)
}

/// An operation for C.
type Operation<C> =
    unsafe extern "C" fn(invec: *mut c_void, inoutvec: *mut c_void, len: *mut C, datatype: *mut Datatype);

/// An operation in Fortran.
type FortranOperation<C> =
    unsafe extern "C" fn(invec: *mut c_void, inoutvec: *mut c_void, len: *mut C, datatype: *mut Int);

unsafe extern "C" fn operation<C: Counting, const PLACE: usize>(
    invec: *mut c_void,
    inoutvec: *mut c_void,
    len: *mut C,
    datatype: *mut Datatype,
) {
    // SAFETY: C passes the addresses of a handle and of a count.
    let (mut number, mut len) = unsafe { ((*datatype).to_int(), *len) };
    // SAFETY: only such procedures are put in this pool, and this function is given away after that.
    let procedure = unsafe { C::pool().at(PLACE).typed::<FortranOperation<C>>() };
    // SAFETY: the user's word that it is an operation.
    unsafe { procedure(invec, inoutvec, &mut len, &mut number) };
}

struct Operations<C>(C);

impl<C: Counting> Operations<C> {
    const ALL: Instances<Operation<C>> = instances!(operation C);
}

/// The function for C that calls this operation. `None` if there are too many.
pub fn operation_of<C: Counting>(function: Function) -> Option<Function> {
    let place = C::pool().place(function)?;
    Some(Operations::<C>::ALL[place / 16][place % 16] as Function)
}
