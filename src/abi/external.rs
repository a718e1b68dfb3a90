//! Section 13.2: generalized requests, which the user's own operations end. Each has a bare request of the engine, which
//! waiting and testing use; `request` calls from here what the user's functions do.
//!
//! The free callback is called once: by the call that ends the request (after the query callback), or, where the handle was
//! freed before, by `MPI_Request_free` or `MPI_Grequest_complete`, whichever comes last. No lock is held while a callback
//! runs.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::abi::common::arguments::give;
use crate::abi::common::constants::*;
use crate::abi::common::handle::{HandleKind, Table};
use crate::abi::common::objects;
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::abi::point_to_point::request;
use crate::abi::process;
use crate::base::error::{Error, Result};
use crate::engine::request::{Outcome, RequestId};
use crate::err;

/// The generalized requests that have not been freed.
static GENERALIZED: Table<Generalized> = Table::new(HandleKind::Generalized);

/// See the module.
pub struct Generalized {
    request: RequestId,
    query: MPI_Grequest_query_function,
    free: MPI_Grequest_free_function,
    cancel: MPI_Grequest_cancel_function,
    extra: usize,
    state: Mutex<GeneralizedState>,
}

#[derive(Clone, Copy, Default)]
struct GeneralizedState {
    /// `MPI_Grequest_complete` was called.
    complete: bool,
    /// `MPI_Request_free` was called.
    freed: bool,
}

/// The return value of a callback, as an error unless it is success.
fn result_of(code: c_int, callback: &str) -> Result<()> {
    match code {
        MPI_SUCCESS => Ok(()),
        code => Err(failed(code, callback)),
    }
}

#[cold]
fn failed(code: c_int, callback: &str) -> Error {
    Error {
        code: Some(code),
        ..err!(
            Other,
            "the {callback} callback of a generalized request returned {code}"
        )
    }
}

/// The generalized request of a handle that the user has not freed.
pub fn find(handle: MPI_Request) -> Option<Arc<Generalized>> {
    GENERALIZED.get(handle).filter(|found| !found.state.lock().freed)
}

impl Generalized {
    /// The engine's request behind it.
    pub fn request(&self) -> RequestId {
        self.request
    }

    fn extra(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.extra)
    }

    /// Calls the query callback, when the request is complete.
    pub fn query(&self) -> Outcome {
        let empty = Outcome::EMPTY;
        let mut status = MPI_Status {
            MPI_SOURCE: empty.source,
            MPI_TAG: empty.tag,
            ..MPI_Status::default()
        };
        // SAFETY: the user gave it as such a function; the status is ours during the call.
        let code = unsafe { (self.query)(self.extra(), &mut status) };
        Outcome {
            source: status.MPI_SOURCE,
            tag: status.MPI_TAG,
            bytes: status.bytes(),
            cancelled: status.cancelled(),
            error: result_of(code, "query").err().map(Box::new),
        }
    }

    fn call_free(&self, handle: MPI_Request) -> Result<()> {
        // SAFETY: the user gave it as such a function.
        let code = unsafe { (self.free)(self.extra()) };
        // Copies of the handle are valid until the callback has returned.
        GENERALIZED.remove(handle);
        result_of(code, "free")
    }

    /// A call has ended it: returns the contents of the status. The error is that of the last callback that failed.
    pub fn finish(&self, handle: MPI_Request) -> Outcome {
        let mut outcome = self.query();
        if let Err(error) = self.call_free(handle) {
            outcome.error = Some(Box::new(error));
        }
        outcome
    }

    /// `MPI_Request_free`.
    pub fn release(&self, handle: MPI_Request) -> Result<()> {
        process::instance()?.engine().release(self.request);
        let complete = {
            let mut state = self.state.lock();
            state.freed = true;
            state.complete
        };
        match complete {
            true => self.call_free(handle),
            false => Ok(()),
        }
    }

    /// `MPI_Cancel`.
    pub fn cancel(&self) -> Result<()> {
        let complete = self.state.lock().complete;
        // SAFETY: the user gave it as such a function.
        let code = unsafe { (self.cancel)(self.extra(), complete.into()) };
        result_of(code, "cancel")
    }
}

mpi! {
    /// Section 13.2.
    small fn MPI_Grequest_start(query_fn: Option<MPI_Grequest_query_function>,
        free_fn: Option<MPI_Grequest_free_function>, cancel_fn: Option<MPI_Grequest_cancel_function>,
        extra_state: *mut c_void, request: *mut MPI_Request) local {
        let null = |name: &str| err!(Arg, "{name} is a null pointer");
        let query = query_fn.ok_or_else(|| null("query_fn"))?;
        let free = free_fn.ok_or_else(|| null("free_fn"))?;
        let cancel = cancel_fn.ok_or_else(|| null("cancel_fn"))?;
        if request.is_null() {
            return Err(null("request"));
        }
        let instance = process::instance()?;
        let id = instance.engine().bare_request();
        let generalized = Generalized {
            request: id,
            query,
            free,
            cancel,
            extra: extra_state.expose_provenance(),
            state: Mutex::default(),
        };
        let handle = GENERALIZED.insert(Arc::new(generalized)).ok_or_else(|| {
            instance.engine().complete(id, Outcome::EMPTY);
            instance.engine().release(id);
            objects::too_many()
        })?;
        // SAFETY: an `MPI_Request` of the user's.
        unsafe { give(request, handle, "request") }
    }

    /// Section 13.2. Also by a copy of a handle that was freed.
    small fn MPI_Grequest_complete(request: MPI_Request) local {
        if request == MPI_REQUEST_NULL {
            return Err(err!(Request, "the request is MPI_REQUEST_NULL"));
        }
        let Some(found) = GENERALIZED.get(request) else {
            request::check(request)?;
            return Err(err!(Request, "the request {request:#x} is not a generalized request"));
        };
        let instance = process::instance()?;
        let freed = {
            let mut state = found.state.lock();
            if std::mem::replace(&mut state.complete, true) {
                return Err(err!(Request, "the generalized request {request:#x} was completed before"));
            }
            state.freed
        };
        instance.engine().complete(found.request, Outcome::EMPTY);
        match freed {
            true => found.call_free(request),
            false => Ok(()),
        }
    }
}
