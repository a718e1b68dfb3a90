//! How a procedure is called: its name is recorded for reports, MPI must be running, and an error goes to the error handler of
//! the right object (MPI 5.0 section 9.3).

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::abi::common::constants::*;
use crate::abi::common::errors;
use crate::abi::common::objects;
use crate::abi::common::types::{ErrhandlerFunction, MPI_Comm, MPI_File, MPI_Session, MPI_Win};
use crate::abi::process;
use crate::base::error::{Error, Result};
use crate::objects::communicator::Communicator;
use crate::objects::errhandler::{Errhandler, UserHandler};
use crate::objects::window::Window;
use crate::system::lock::this_thread;

thread_local! {
    /// The procedure that the thread called last: a report of a hang names it.
    static PROCEDURE: Cell<&'static str> = const { Cell::new("no procedure") };
}

/// The same for the thread that calls first, which need not access the thread-local memory of a shared library: which
/// thread it is, and the name, whose two words only that thread reads and writes.
static FIRST_THREAD: AtomicUsize = AtomicUsize::new(0);
static FIRST_PROCEDURE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static FIRST_PROCEDURE_LEN: AtomicUsize = AtomicUsize::new(0);

/// Records which procedure the thread calls.
#[inline(always)]
fn enter(name: &'static str) {
    if FIRST_THREAD.load(Ordering::Relaxed) == this_thread() {
        FIRST_PROCEDURE.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
        FIRST_PROCEDURE_LEN.store(name.len(), Ordering::Relaxed);
    } else {
        enter_first_or_later(name);
    }
}

#[inline(never)]
fn enter_first_or_later(name: &'static str) {
    let first = FIRST_THREAD.compare_exchange(0, this_thread(), Ordering::Relaxed, Ordering::Relaxed);
    match first {
        Ok(_) => enter(name),
        Err(_) => PROCEDURE.set(name),
    }
}

/// The procedure that the thread called last.
pub fn current_procedure() -> &'static str {
    let (name, len) = (
        FIRST_PROCEDURE.load(Ordering::Relaxed),
        FIRST_PROCEDURE_LEN.load(Ordering::Relaxed),
    );
    if FIRST_THREAD.load(Ordering::Relaxed) != this_thread() || name.is_null() {
        return PROCEDURE.get();
    }
    // SAFETY: both words are this thread's, and of one text in `enter`, which is never freed.
    unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(name, len)) }
}

/// Runs a procedure whose errors go to a communicator's handler.
#[inline(always)]
pub fn comm(handle: MPI_Comm, name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    run(name, body, |name, error| {
        raise(objects::early_communicator(handle).ok().as_deref(), name, error)
    })
}

/// Runs a procedure whose errors go to the handler of `MPI_COMM_SELF`.
#[inline(always)]
pub fn local(name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    run(name, body, |name, error| {
        // A request's error belongs to what the request was made by.
        if let Some(window) = objects::window_of_context(error.context) {
            return raise_at_window(&window, name, error);
        }
        let communicator = objects::communicator_of_context(error.context);
        raise(communicator.as_deref(), name, error)
    })
}

/// Runs a procedure whose errors go to a session's handler.
pub fn session(handle: MPI_Session, name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    enter(name);
    // While there is a session MPI runs; where it does not run, the argument is wrong.
    match body() {
        Ok(()) => MPI_SUCCESS,
        Err(error) => match objects::session(handle) {
            Ok(session) => {
                let handler = session.errhandler().lock().clone();
                raise_to(&handler, handle, " on a session", name, error)
            }
            Err(_) => raise(None, name, error),
        },
    }
}

/// Runs a procedure whose errors go to a window's handler.
pub fn win(handle: MPI_Win, name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    run(name, body, |name, error| match objects::window(handle) {
        Ok(window) => raise_at_window(&window, name, error),
        Err(_) => raise(None, name, error),
    })
}

#[cold]
fn raise_at_window(window: &Window, name: &'static str, error: Error) -> c_int {
    let handler = window.errhandler().lock().clone();
    let handle = window.handle().load(Ordering::Relaxed);
    let place = format!(" on {}", objects::name_of_window(window));
    raise_to(&handler, handle, &place, name, error)
}

/// The error handler of `MPI_FILE_NULL`, which new files get, and errors where there is no file (section 14.7).
pub static FILE_ERRHANDLER: Mutex<Errhandler> = Mutex::new(Errhandler::Return);

/// Runs a procedure whose errors go to a file's handler.
pub fn file(handle: MPI_File, name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    run(name, body, |name, error| match objects::file(handle) {
        Ok(file) => {
            let handler = file.errhandler().lock().clone();
            let place = format!(" on {}", file.describe());
            raise_to(&handler, handle, &place, name, error)
        }
        Err(_) => raise_without_file(name, error),
    })
}

/// Runs a procedure that concerns files, but has no file whose handler could get its errors.
pub fn no_file(name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    run(name, body, raise_without_file)
}

#[cold]
fn raise_without_file(name: &'static str, error: Error) -> c_int {
    if error.raised || !process::is_active() {
        return raise(None, name, error);
    }
    let handler = FILE_ERRHANDLER.lock().clone();
    raise_to(&handler, MPI_FILE_NULL, "", name, error)
}

/// Runs a procedure that may be called at any time.
#[inline(always)]
pub fn always(name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    enter(name);
    match body() {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise(None, name, error),
    }
}

#[inline(always)]
fn run(
    name: &'static str,
    body: impl FnOnce() -> Result<()>,
    failed: impl FnOnce(&'static str, Error) -> c_int,
) -> c_int {
    enter(name);
    if !process::is_active() {
        return failed(name, process::not_running());
    }
    match body() {
        Ok(()) => MPI_SUCCESS,
        Err(error) => failed(name, error),
    }
}

/// Passes an error to a communicator's error handler, or to the one of `MPI_COMM_SELF` (before Init and after
/// Finalize: the initial one), and returns the code to return.
#[cold]
pub fn raise(communicator: Option<&Communicator>, name: &'static str, error: Error) -> c_int {
    if error.raised {
        return error.code.unwrap_or(error.class as c_int);
    }
    let world = process::running_world();
    let communicator = communicator.or_else(|| world.as_deref().map(|world| &*world.alone));
    match communicator {
        Some(communicator) => {
            let handler = communicator.errhandler().lock().clone();
            let place = format!(" on {}", objects::name_of_communicator(communicator));
            raise_to(
                &handler,
                objects::handle_of_communicator(communicator),
                &place,
                name,
                error,
            )
        }
        None => raise_to(&process::initial_errhandler(), MPI_COMM_NULL, "", name, error),
    }
}

/// Passes an error to the handler of a communicator at once, where the procedure's arguments do not name it. The returned error
/// goes to no other handler.
#[cold]
pub fn raise_at(communicator: &Communicator, name: &'static str, error: Error) -> Error {
    let code = raise(Some(communicator), name, error.clone());
    Error {
        code: Some(code),
        raised: true,
        ..error
    }
}

/// Passes an error to a handler at once, where that is not the handler of an object. The returned error goes to no other handler.
#[cold]
pub fn raise_with(handler: &Errhandler, object: usize, name: &'static str, error: Error) -> Error {
    let code = raise_to(handler, object, "", name, error.clone());
    Error {
        code: Some(code),
        raised: true,
        ..error
    }
}

/// Passes an error to a handler, and returns the code to return: a handler of the user's may change it (section 9.3). Where several
/// requests were ended it gets the code of the one that failed; unless it changes that, the call returns its own.
#[cold]
fn raise_to(handler: &Errhandler, object: usize, place: &str, name: &'static str, error: Error) -> c_int {
    let code = errors::code_of(name, &error);
    match handler {
        Errhandler::Return => {}
        Errhandler::User(handler) => {
            let given = error.in_status.unwrap_or(code);
            let after = call_handler(handler, object, given);
            if after != given {
                return after;
            }
        }
        Errhandler::AreFatal | Errhandler::Abort => {
            let class = errors::class_of(code).unwrap_or(error.class as c_int);
            process::LIFETIME.abort(
                class,
                &format!("{name}: {error} ({}{place})", errors::class_name(class)),
            );
        }
    }
    code
}

/// Calls an object's handler with a code of the user's. The call has succeeded, whatever the handler does with that code
/// (section 9.5).
pub fn call(handler: &Errhandler, object: usize, name: &str, code: c_int) {
    match handler {
        Errhandler::Return => {}
        Errhandler::User(handler) => {
            call_handler(handler, object, code);
        }
        Errhandler::AreFatal | Errhandler::Abort => {
            let text = errors::text_of(code).unwrap_or_else(|| format!("error code {code}"));
            process::LIFETIME.abort(code, &format!("{name}: {text}"));
        }
    }
}

/// Calls an error handler of the user's, and returns the code as the handler left it; no lock is held.
fn call_handler(handler: &UserHandler, mut object: usize, mut code: c_int) -> c_int {
    // SAFETY: an error handler function's address, by the promise of `UserHandler::new`.
    let function = unsafe { std::mem::transmute::<usize, ErrhandlerFunction>(handler.function()) };
    // SAFETY: by the same promise it may be called with the addresses of a handle and of a code; both are ours during the call.
    unsafe { function(&mut object, &mut code) };
    code
}
