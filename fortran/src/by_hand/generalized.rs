//! Generalized requests (section 13.2). C's extra state is a [`Callbacks`] that belongs to the request, and goes when the request is freed.

use std::ffi::c_void;

use crate::abi::{Aint, Function, Handle, Int, Logical, Request, SUCCESS, Status};
use crate::bindings::Library;
use crate::callback::Procedure;
use crate::convert::{logical, set};

/// The user's procedures, and their extra state.
struct Callbacks {
    query: Procedure,
    free: Procedure,
    cancel: Procedure,
    extra_state: Aint,
}

type Query = unsafe extern "C" fn(extra_state: *mut Aint, status: *mut Status, ierror: *mut Int);
type Free = unsafe extern "C" fn(extra_state: *mut Aint, ierror: *mut Int);
type Cancel = unsafe extern "C" fn(extra_state: *mut Aint, complete: *mut Logical, ierror: *mut Int);

/// The query function for C.
unsafe extern "C" fn query(extra_state: *mut c_void, status: *mut Status) -> Int {
    // SAFETY: C passes the extra state that it got, and the request is not freed yet.
    let callbacks = unsafe { &*extra_state.cast::<Callbacks>() };
    let (mut state, mut error, mut ignored) = (callbacks.extra_state, SUCCESS, Status::default());
    let status = if status.is_null() {
        &raw mut ignored
    } else {
        status
    };
    // SAFETY: the user's word that it is a query function.
    unsafe { callbacks.query.typed::<Query>()(&mut state, status, &mut error) };
    error
}

/// The free function for C, which calls it once.
unsafe extern "C" fn free(extra_state: *mut c_void) -> Int {
    // SAFETY: C passes the extra state that it got, and no callback of this request is called after this one.
    let callbacks = unsafe { Box::from_raw(extra_state.cast::<Callbacks>()) };
    let (mut state, mut error) = (callbacks.extra_state, SUCCESS);
    // SAFETY: the user's word that it is a free function.
    unsafe { callbacks.free.typed::<Free>()(&mut state, &mut error) };
    error
}

/// The cancel function for C.
unsafe extern "C" fn cancel(extra_state: *mut c_void, complete: Int) -> Int {
    // SAFETY: C passes the extra state that it got, and the request is not freed yet.
    let callbacks = unsafe { &*extra_state.cast::<Callbacks>() };
    let (mut state, mut error, mut complete) = (callbacks.extra_state, SUCCESS, logical(complete));
    // SAFETY: the user's word that it is a cancel function.
    unsafe { callbacks.cancel.typed::<Cancel>()(&mut state, &mut complete, &mut error) };
    error
}

/// `MPI_Grequest_start` (section 13.2).
pub unsafe fn grequest_start<A: Library>(
    query_fn: Function,
    free_fn: Function,
    cancel_fn: Function,
    extra_state: *const Aint,
    request: *mut Int,
    ierror: *mut Int,
) {
    unsafe {
        let callbacks = Box::into_raw(Box::new(Callbacks {
            query: Procedure::new(query_fn),
            free: Procedure::new(free_fn),
            cancel: Procedure::new(cancel_fn),
            extra_state: *extra_state,
        }));
        let mut started = Request::NULL;
        let error = A::MPI_Grequest_start(
            query as Function,
            free as Function,
            cancel as Function,
            callbacks.cast(),
            &mut started,
        );
        if error == SUCCESS {
            *request = started.to_int();
        } else {
            // There is no request that would free it.
            drop(Box::from_raw(callbacks));
        }
        set(ierror, error);
    }
}
