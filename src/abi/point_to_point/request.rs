//! Sections 3.7.3, 3.7.4 and 3.8.4: waiting for a request and testing it, freeing and cancelling. `requests` has the same for several.

use std::ffi::c_int;
use std::sync::Arc;

use crate::abi::common::arguments::{give, present, read};
use crate::abi::common::constants::*;
use crate::abi::common::handle;
use crate::abi::common::objects::PERSISTENT;
use crate::abi::common::procedure::mpi;
use crate::abi::common::status;
use crate::abi::common::types::*;
use crate::abi::external::{self, Generalized};
use crate::abi::point_to_point::fast_path;
use crate::abi::point_to_point::persistent::Persistent;
use crate::abi::process;
use crate::base::error::{Error, Result};
use crate::engine::Engine;
use crate::engine::request::{Outcome, RequestId};
use crate::err;
use crate::instance::{Instance, Looked};

/// The handle of a new request.
#[inline]
pub fn handle_of(instance: &Arc<Instance>, id: RequestId) -> Result<MPI_Request> {
    match handle::of_request(id) {
        Some(handle) => Ok(handle),
        None => Err(too_many(&mut instance.engine(), id)),
    }
}

/// As [`handle_of`], for a caller that has locked the engine.
#[inline(always)]
pub fn handle_in(engine: &mut Engine, id: RequestId) -> Result<MPI_Request> {
    match handle::of_request(id) {
        Some(handle) => Ok(handle),
        None => Err(too_many(engine, id)),
    }
}

/// The error if there is no handle for a request.
#[cold]
fn too_many(engine: &mut Engine, id: RequestId) -> Error {
    engine.release(id);
    err!(Other, "there are too many requests at once (more than 16777216)")
}

/// What the handle of a request stands for.
enum Found {
    /// `MPI_REQUEST_NULL`.
    Null,
    /// A request of the engine, by its index and the bits of its generation.
    Own(u32, u32),
    /// See there.
    Persistent(Arc<Persistent>),
    /// See there.
    Generalized(Arc<Generalized>),
}

impl Found {
    #[inline(always)]
    fn of(handle: MPI_Request) -> Result<Found> {
        if let Some((index, generation)) = handle::request_place(handle) {
            return Ok(Found::Own(index, generation));
        }
        if let Some(found) = PERSISTENT.get(handle) {
            return Ok(Found::Persistent(found));
        }
        match external::find(handle) {
            Some(found) => Ok(Found::Generalized(found)),
            None if handle == MPI_REQUEST_NULL => Ok(Found::Null),
            None => Err(invalid(handle)),
        }
    }

    /// The request of the engine behind it; `None`: `MPI_REQUEST_NULL`, or an inactive request: both count as ended, with an empty
    /// status.
    #[inline]
    fn active(&self, engine: &Engine, handle: MPI_Request) -> Result<Option<RequestId>> {
        match self {
            Found::Null => Ok(None),
            Found::Own(index, generation) => engine
                .find_request(*index, *generation, handle::REQUEST_GENERATION_MASK)
                .map(Some)
                .ok_or_else(|| invalid(handle)),
            Found::Persistent(found) => Ok(found.active()),
            Found::Generalized(found) => Ok(Some(found.request())),
        }
    }

    /// What a call that ended the request does with its handle: a persistent one becomes inactive, others are freed. The outcome of a
    /// generalized one comes from its own functions.
    ///
    /// # Safety
    /// The pointer is valid for reading and writing a handle.
    #[inline]
    unsafe fn retire(&self, request: *mut MPI_Request, outcome: &mut Outcome) {
        match self {
            Found::Null => return,
            Found::Persistent(found) => return found.deactivate(),
            Found::Own(..) => {}
            // SAFETY: valid for reading, as the caller says.
            Found::Generalized(found) => *outcome = found.finish(unsafe { request.read() }),
        }
        // SAFETY: valid for writing, as the caller says.
        unsafe { request.write(MPI_REQUEST_NULL) };
    }
}

/// The request of a handle: see [`Found::active`].
#[inline]
pub(super) fn lookup(engine: &Engine, request: MPI_Request) -> Result<Option<RequestId>> {
    if request == MPI_REQUEST_NULL {
        return Ok(None);
    }
    Found::of(request)?.active(engine, request)
}

/// The handle stands for a request.
pub fn check(request: MPI_Request) -> Result<()> {
    lookup(&process::instance()?.engine(), request).map(|_| ())
}

/// What a call that ended a request does with the handle: see [`Found::retire`].
///
/// # Safety
/// The pointer is valid for reading and writing a handle.
#[inline]
pub(super) unsafe fn retire(request: *mut MPI_Request, mut outcome: Outcome) -> Outcome {
    // SAFETY: valid for reading and writing, as the caller says.
    unsafe {
        // It may be gone: the same handle twice in one array.
        let found = Found::of(request.read()).unwrap_or(Found::Null);
        found.retire(request, &mut outcome);
    }
    outcome
}

/// The outcome of a generalized request that stays, from its query function.
pub(super) fn queried(request: MPI_Request, outcome: Outcome) -> Outcome {
    if handle::request_place(request).is_some() {
        return outcome;
    }
    external::find(request).map_or(outcome, |found| found.query())
}

#[cold]
pub(super) fn invalid(request: MPI_Request) -> Error {
    err!(
        Request,
        "the request {request:#x} is not valid: it has ended, or never was one"
    )
}

/// The end of a single request: status, handle, error.
///
/// # Safety
/// `request` is valid for reading and writing a handle, `to_status` `MPI_STATUS_IGNORE` or valid for writing.
pub(super) unsafe fn end(
    outcome: Outcome,
    request: *mut MPI_Request,
    to_status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: as the caller says.
    unsafe { tell(retire(request, outcome), to_status) }
}

/// Its status and error.
///
/// # Safety
/// The pointer is `MPI_STATUS_IGNORE` or valid for writing.
#[inline(always)]
unsafe fn tell(outcome: Outcome, to_status: *mut MPI_Status) -> Result<()> {
    // SAFETY: the caller's pointers are null, MPI_STATUS_IGNORE or valid for writing.
    unsafe { status::write(to_status, &outcome) };
    outcome.error.map_or(Ok(()), |error| Err(*error))
}

/// Waits for the end of a request.
///
/// # Safety
/// `request` is null or valid for reading and writing a handle, `to_status` `MPI_STATUS_IGNORE` or valid for writing.
#[inline(never)]
unsafe fn wait(request: *mut MPI_Request, to_status: *mut MPI_Status) -> Result<()> {
    // SAFETY: null or a handle of the user's.
    let handle = unsafe { read(request, "request") }?;
    let found = Found::of(handle)?;
    let current;
    let (instance, active): (&Instance, _) = match &found {
        Found::Persistent(found) => (found.communicator().instance(), found.active()),
        _ => {
            current = process::instance()?;
            (&current, found.active(&current.engine(), handle)?)
        }
    };
    let Some(id) = active else {
        // SAFETY: the status is ignored or the user's.
        unsafe { status::write_empty(to_status) };
        return Ok(());
    };
    let mut outcome = instance.wait(id);
    // SAFETY: the handle was read from there, and the status is ignored or valid for writing, as the caller says.
    unsafe {
        found.retire(request, &mut outcome);
        tell(outcome, to_status)
    }
}

/// Takes the outcome of a request if it has ended; `None`: it is null or inactive.
#[inline(always)]
fn test(request: MPI_Request) -> Result<Option<Option<Outcome>>> {
    let instance = process::hold_instance()?;
    let mut engine = instance.engine();
    let Some(id) = lookup(&engine, request)? else {
        return Ok(None);
    };
    let looked = instance.look_into(&mut engine, |engine| engine.take(id));
    drop(engine);
    Ok(Some(match looked {
        Looked::Found(outcome) => Some(outcome),
        Looked::Nothing => None,
        Looked::Tasks => {
            let shared = instance.share();
            drop(instance);
            shared.run_ready_tasks();
            shared.engine().take(id)
        }
    }))
}

mpi! {
    /// Section 3.7.3.
    small fn MPI_Wait(request: *mut MPI_Request, status: *mut MPI_Status) local {
        // SAFETY: the request is null or a handle of the user's, the status is ignored or the user's.
        unsafe {
            if fast_path::wait(request, status) {
                return Ok(());
            }
            wait(request, status)
        }
    }

    /// Section 3.7.3.
    small fn MPI_Test(request: *mut MPI_Request, flag: *mut c_int, status: *mut MPI_Status) local {
        // SAFETY: null or a handle of the user's.
        let handle = unsafe { read(request, "request") }?;
        present(flag, "flag")?;
        // SAFETY: each is ignored, null or the user's.
        unsafe {
            match test(handle)? {
                None => {
                    status::write_empty(status);
                    give(flag, 1, "flag")
                }
                Some(None) => give(flag, 0, "flag"),
                Some(Some(outcome)) => {
                    give(flag, 1, "flag")?;
                    end(outcome, request, status)
                }
            }
        }
    }

    /// Section 3.7.3.
    small fn MPI_Request_free(request: *mut MPI_Request) local {
        // SAFETY: null or a handle of the user's.
        let handle = unsafe { read(request, "request") }?;
        let instance = process::instance()?;
        if let Some(found) = external::find(handle) {
            // SAFETY: read from above.
            unsafe { request.write(MPI_REQUEST_NULL) };
            return found.release(handle);
        }
        let mut engine = instance.engine();
        match lookup(&engine, handle)? {
            Some(id) => {
                is_not_one_sided(&engine, id, "freed")?;
                if engine.is_complete(id) == Some(false) {
                    need_not_end(handle, "freed")?;
                }
                engine.release(id);
            }
            None if handle == MPI_REQUEST_NULL => return Err(err!(Request, "the request is MPI_REQUEST_NULL")),
            None => {}
        }
        drop(engine);
        // A started operation goes on.
        PERSISTENT.remove(handle);
        // SAFETY: read from above.
        unsafe { request.write(MPI_REQUEST_NULL) };
        Ok(())
    }

    /// Section 3.7.6.
    small fn MPI_Request_get_status(request: MPI_Request, flag: *mut c_int, status: *mut MPI_Status) local {
        let instance = process::instance()?;
        let found = lookup(&instance.engine(), request)?;
        let Some(id) = found else {
            // SAFETY: each is ignored, null or the user's.
            return unsafe {
                status::write_empty(status);
                give(flag, 1, "flag")
            };
        };
        instance.step();
        let outcome = instance.engine().outcome(id).cloned();
        // SAFETY: null or an `int` of the user's.
        unsafe { give(flag, outcome.is_some().into(), "flag") }?;
        match outcome {
            None => Ok(()),
            // SAFETY: the status is ignored or the user's.
            Some(outcome) => unsafe { tell_query(request, outcome, status) },
        }
    }

    /// Section 3.8.4.
    small fn MPI_Cancel(request: *mut MPI_Request) local {
        // SAFETY: null or a handle of the user's.
        let handle = unsafe { read(request, "request") }?;
        let instance = process::instance()?;
        if let Some(found) = external::find(handle) {
            return found.cancel();
        }
        let mut engine = instance.engine();
        let id = lookup(&engine, handle)?.ok_or_else(|| match handle {
            MPI_REQUEST_NULL => err!(Request, "the request is MPI_REQUEST_NULL"),
            _ => err!(Request, "the request {handle:#x} is inactive: there is nothing to cancel"),
        })?;
        is_not_one_sided(&engine, id, "cancelled")?;
        need_not_end(handle, "cancelled")?;
        engine.cancel(id);
        Ok(())
    }

    /// Section 3.8.4.
    small fn MPI_Test_cancelled(status: *const MPI_Status, flag: *mut c_int) local {
        // SAFETY: null or a status of the user's.
        let status = unsafe { read(status, "status") }?;
        // SAFETY: null or an `int` of the user's.
        unsafe { give(flag, status.cancelled().into(), "flag") }
    }

}

/// The request of an operation on a window is neither freed nor cancelled (section 12.3.5).
fn is_not_one_sided(engine: &Engine, id: RequestId, done: &str) -> Result<()> {
    match engine.is_of_service(id) {
        true => Err(err!(
            Request,
            "the request is that of a one-sided operation, which can't be {done}: it has to be waited for"
        )),
        false => Ok(()),
    }
}

/// An active request that has to end is neither freed nor cancelled.
fn need_not_end(request: MPI_Request, done: &str) -> Result<()> {
    let Some(found) = PERSISTENT.get(request) else {
        return Ok(());
    };
    match found.must_end() {
        Some(what) => Err(Error {
            context: found.communicator().context(),
            ..err!(
                Request,
                "the request {request:#x} is of {what} and active: it must not be {done}"
            )
        }),
        None => Ok(()),
    }
}

/// The status of a request that has ended and stays. Only an error of a query function is an error of the call.
///
/// # Safety
/// The pointer is `MPI_STATUS_IGNORE` or valid for writing.
pub(super) unsafe fn tell_query(request: MPI_Request, outcome: Outcome, to: *mut MPI_Status) -> Result<()> {
    let before = outcome.error.is_some();
    let outcome = queried(request, outcome);
    // SAFETY: the caller's pointers are null, MPI_STATUS_IGNORE or valid for writing.
    unsafe { status::write(to, &outcome) };
    match outcome.error {
        Some(error) if !before => Err(*error),
        _ => Ok(()),
    }
}
