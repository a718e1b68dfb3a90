//! Section 3.8: probing for messages, and receiving those that were found.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::abi::common::arguments::{any_tag, count, give, memory, present, read};
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, TakenMessage, committed, communicator, hold_communicator};
use crate::abi::common::procedure::mpi;
use crate::abi::common::status;
use crate::abi::common::types::*;
use crate::abi::point_to_point::{finish, give_received, request, source};
use crate::base::error::{Class, Error, Result};
use crate::engine::Received;
use crate::engine::request::Outcome;
use crate::err;
use crate::identity::Context;
use crate::instance::Looked;
use crate::objects::communicator::Communicator;

/// A message that was taken out of the queue.
type Taken = (crate::engine::matching::Envelope, crate::engine::Message);

mpi! {
    /// Section 3.8.1.
    small fn MPI_Iprobe(source: c_int, tag: c_int, comm: MPI_Comm, flag: *mut c_int, status: *mut MPI_Status)
        comm(comm) {
        let comm = hold_communicator(comm)?;
        let tag = any_tag(tag)?;
        let found = match self::source(source, &comm)? {
            None => Some(status::PROC_NULL),
            Some(from) => {
                let pattern = comm.pattern(from, tag);
                let found = match comm.instance().look(|engine| engine.probe(&pattern)) {
                    Looked::Found(found) => Some(found),
                    Looked::Nothing => None,
                    Looked::Tasks => {
                        let instance = comm.instance().clone();
                        drop(comm);
                        instance.run_ready_tasks();
                        instance.engine().probe(&pattern)
                    }
                };
                found.map(|probed| status::of_probe(&probed))
            }
        };
        if let Some(outcome) = &found {
            // SAFETY: the status is ignored or valid for writing.
            unsafe { status::write(status, outcome) };
        }
        // SAFETY: null or an `int` of the user's.
        unsafe { give(flag, found.is_some().into(), "flag") }
    }

    /// Section 3.8.1.
    small fn MPI_Probe(source: c_int, tag: c_int, comm: MPI_Comm, status: *mut MPI_Status) comm(comm) {
        let comm = communicator(comm)?;
        let tag = any_tag(tag)?;
        let outcome = match self::source(source, &comm)? {
            None => status::PROC_NULL,
            Some(from) => {
                let pattern = comm.pattern(from, tag);
                status::of_probe(&comm.instance().wait_for(|engine| engine.probe(&pattern)))
            }
        };
        // SAFETY: the status is ignored or valid for writing.
        unsafe { status::write(status, &outcome) };
        Ok(())
    }

    /// Section 3.8.2.
    small fn MPI_Improbe(source: c_int, tag: c_int, comm: MPI_Comm, flag: *mut c_int, message: *mut MPI_Message,
        status: *mut MPI_Status) comm(comm) {
        let comm = communicator(comm)?;
        let tag = any_tag(tag)?;
        present(flag, "flag")?;
        present(message, "message")?;
        let (handle, outcome) = match self::source(source, &comm)? {
            None => (MPI_MESSAGE_NO_PROC, status::PROC_NULL),
            Some(from) => {
                let pattern = comm.pattern(from, tag);
                comm.instance().step();
                let taken = comm.instance().engine().probe_out(&pattern);
                let Some(taken) = taken else {
                    // SAFETY: null or an `int` of the user's.
                    return unsafe { give(flag, 0, "flag") };
                };
                take(&comm, taken)?
            }
        };
        // SAFETY: each is ignored, null or the user's.
        unsafe {
            status::write(status, &outcome);
            give(message, handle, "message")?;
            give(flag, 1, "flag")
        }
    }

    /// Section 3.8.2.
    small fn MPI_Mprobe(source: c_int, tag: c_int, comm: MPI_Comm, message: *mut MPI_Message,
        status: *mut MPI_Status) comm(comm) {
        let comm = communicator(comm)?;
        let tag = any_tag(tag)?;
        present(message, "message")?;
        let (handle, outcome) = match self::source(source, &comm)? {
            None => (MPI_MESSAGE_NO_PROC, status::PROC_NULL),
            Some(from) => {
                let pattern = comm.pattern(from, tag);
                let taken = comm.instance().wait_for(|engine| engine.probe_out(&pattern));
                take(&comm, taken)?
            }
        };
        // SAFETY: each is ignored, null or the user's.
        unsafe {
            status::write(status, &outcome);
            give(message, handle, "message")
        }
    }

    /// Section 3.8.3.
    large fn MPI_Mrecv(buf: *mut c_void, count: Count, datatype: MPI_Datatype, message: *mut MPI_Message,
        status: *mut MPI_Status) local {
        // SAFETY: the arguments are as the standard asks for.
        match unsafe { receive_message(buf, count.into(), datatype, message) }? {
            Some((comm, received)) => {
                // SAFETY: the status is ignored or valid for writing.
                let ended = unsafe { finish(&comm, received, status) };
                ended.map_err(|error| Error { context: comm.context(), ..error })
            }
            None => {
                // SAFETY: the status is ignored or valid for writing.
                unsafe { status::write(status, &status::PROC_NULL) };
                Ok(())
            }
        }
    }

    /// Section 3.8.3.
    large fn MPI_Imrecv(buf: *mut c_void, count: Count, datatype: MPI_Datatype, message: *mut MPI_Message,
        request: *mut MPI_Request) local {
        present(request, "request")?;
        // SAFETY: the arguments are as the standard asks for.
        match unsafe { receive_message(buf, count.into(), datatype, message) }? {
            // SAFETY: null or a handle of the user's.
            Some((comm, received)) => unsafe { give_received(&comm, received, request) },
            None => {
                // It belongs to no communicator.
                let instance = crate::abi::process::instance()?;
                let id = instance.engine().ended_request(status::PROC_NULL, Context::NONE);
                // SAFETY: null or a handle of the user's.
                unsafe { give(request, request::handle_of(&instance, id)?, "request") }
            }
        }
    }
}

/// A handle for a message that a probe took, and its status.
fn take(comm: &Arc<Communicator>, taken: Taken) -> Result<(MPI_Message, Outcome)> {
    let outcome = status::of_probe(&crate::engine::Probed {
        envelope: taken.0,
        bytes: taken.1.len(),
    });
    let handle = objects::new_message(TakenMessage {
        context: comm.context(),
        session: comm.group().session(),
        taken: Mutex::new(Some((comm.clone(), taken.0, taken.1))),
    })?;
    Ok((handle, outcome))
}

/// Starts the receive of a message that a probe took; `None`: from no process. An error belongs to the message's communicator, where
/// there is a message.
///
/// # Safety
/// The arguments are as the standard asks for.
unsafe fn receive_message(
    buf: *mut c_void,
    number: i64,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
) -> Result<Option<(Arc<Communicator>, Received)>> {
    // SAFETY: null or a handle of the user's.
    let handle = unsafe { read(message, "message") }?;
    let checked = || memory(buf, count(number, "count")?, &*committed(datatype)?, "buf");
    let memory = checked().map_err(|error| Error {
        context: objects::MESSAGES
            .get(handle)
            .map_or(Context::NONE, |taken| taken.context),
        ..error
    })?;
    if handle == MPI_MESSAGE_NO_PROC {
        // SAFETY: read from above.
        unsafe { message.write(MPI_MESSAGE_NULL) };
        return Ok(None);
    }
    let taken = objects::MESSAGES.remove(handle).ok_or_else(|| {
        let mut error = err!(
            Request,
            "the message {handle:#x} is not valid: it was received, or never was one"
        );
        if handle == MPI_MESSAGE_NULL {
            error = crate::Error::new(Class::Request, "the message is MPI_MESSAGE_NULL");
        }
        error
    })?;
    // SAFETY: read from above.
    unsafe { message.write(MPI_MESSAGE_NULL) };
    let (comm, envelope, found) = taken
        .taken
        .lock()
        .take()
        .expect("received once, as its handle is gone");
    // SAFETY: the user leaves the buffer alone until the receive has ended.
    let received = unsafe { comm.instance().engine().accept(envelope, found, &memory) };
    Ok(Some((comm, received)))
}
