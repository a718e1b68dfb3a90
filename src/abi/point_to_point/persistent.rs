//! Section 3.9: persistent communication. A persistent request is an operation with checked arguments that can be started
//! repeatedly; each start makes an ordinary request of the engine, which waiting, testing and cancelling then use
//! (`request`). Everything that returns a request when it is started can be made persistent.
//!
//! Here: sends, receives, and starting. `partitioned` and `collective` make their own.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::abi::common::arguments;
use crate::abi::common::arguments::{array_mut, give, read};
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, PERSISTENT, communicator};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::abi::point_to_point::request;
use crate::abi::point_to_point::{Mode, Receiving, Sending};
use crate::base::error::{Error, Result};
use crate::engine::request::RequestId;
use crate::err;
use crate::objects::communicator::Communicator;
use crate::objects::partitioned::{PartitionedReceive, PartitionedSend};
use crate::system::lock::Mutex;

/// See the module.
pub struct Persistent {
    communicator: Arc<Communicator>,
    start: Box<dyn Fn() -> Result<RequestId> + Send + Sync>,
    partitions: Partitions,
    /// Whether it is of a collective operation.
    collective: bool,
    /// The request of the latest start, until that has been waited for.
    active: Mutex<Option<RequestId>>,
}

/// The partitions of a request.
pub enum Partitions {
    /// It has none: it is not partitioned communication.
    None,
    /// A send.
    Send(Arc<PartitionedSend>),
    /// A receive.
    Receive(Arc<PartitionedReceive>),
    /// A send of this many partitions to `MPI_PROC_NULL`.
    SendNowhere(u64),
    /// A receive of this many partitions from `MPI_PROC_NULL`.
    ReceiveNowhere(u64),
}

impl Persistent {
    /// An inactive request. `start` starts it once.
    pub fn new(
        communicator: &Arc<Communicator>,
        start: impl Fn() -> Result<RequestId> + Send + Sync + 'static,
    ) -> Persistent {
        Persistent {
            communicator: communicator.clone(),
            start: Box::new(start),
            partitions: Partitions::None,
            collective: false,
            active: Mutex::new(None),
        }
    }

    /// The same for partitioned communication.
    pub fn with_partitions(self, partitions: Partitions) -> Persistent {
        Persistent { partitions, ..self }
    }

    /// The same for a collective operation.
    pub fn of_collective(self) -> Persistent {
        Persistent {
            collective: true,
            ..self
        }
    }

    /// What it is of, where an active one is neither freed nor cancelled (sections 4.2.1 and 6.13).
    pub fn must_end(&self) -> Option<&'static str> {
        match (&self.partitions, self.collective) {
            (_, true) => Some("a persistent collective operation"),
            (Partitions::None, false) => None,
            _ => Some("partitioned communication"),
        }
    }

    /// Its partitions.
    pub fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    /// Returns a handle to the user.
    ///
    /// # Safety
    /// The pointer is null or valid for writing.
    pub unsafe fn give(self, to_request: *mut MPI_Request) -> Result<()> {
        if to_request.is_null() {
            return Err(err!(Arg, "request is a null pointer"));
        }
        let handle = PERSISTENT.insert(Arc::new(self)).ok_or_else(objects::too_many)?;
        // SAFETY: the caller's pointers are null or valid for writing.
        unsafe { give(to_request, handle, "request") }
    }

    /// Its communicator.
    pub fn communicator(&self) -> &Arc<Communicator> {
        &self.communicator
    }

    /// The request of the latest start; `None`: it is inactive.
    #[inline]
    pub fn active(&self) -> Option<RequestId> {
        *self.active.lock()
    }

    /// Notes that the latest start has been waited for.
    #[inline]
    pub fn deactivate(&self) {
        *self.active.lock() = None;
    }

    fn start(&self) -> Result<()> {
        let id = (self.start)().map_err(|error| Error {
            context: self.communicator.context(),
            ..error
        })?;
        *self.active.lock() = Some(id);
        Ok(())
    }
}

/// The persistent request of a handle, which must be inactive.
fn inactive(handle: MPI_Request) -> Result<Arc<Persistent>> {
    if handle == MPI_REQUEST_NULL {
        return Err(err!(Request, "the request is MPI_REQUEST_NULL"));
    }
    let found = match PERSISTENT.get(handle) {
        Some(found) => found,
        // `check` returns an error if there is no such request.
        None => {
            request::check(handle)?;
            return Err(err!(Request, "the request {handle:#x} is not persistent"));
        }
    };
    match found.active() {
        None => Ok(found),
        Some(_) => Err(err!(
            Request,
            "the request {handle:#x} is active: it has been started, and not been waited for since"
        )),
    }
}

/// # Safety
/// The buffer is valid whenever the request is active, and the pointer null or valid for writing.
unsafe fn give_sending(sending: Sending, to_request: *mut MPI_Request) -> Result<()> {
    let communicator = sending.communicator().clone();
    let start = move || {
        // SAFETY: the buffer is valid while the request is active, as the caller says: from its start until it has ended.
        unsafe { sending.start(true) }.map(|id| id.expect("a request was asked for"))
    };
    // SAFETY: the caller's pointers are null or valid for writing.
    unsafe { Persistent::new(&communicator, start).give(to_request) }
}

mpi! {
    /// Section 3.9.
    large fn MPI_Send_init(buf: *const c_void, count: Count, datatype: MPI_Datatype, dest: c_int, tag: c_int,
        comm: MPI_Comm, request: *mut MPI_Request) comm(comm) {
        let comm = communicator(comm)?;
        let sending = Sending::new(buf, count.into(), datatype, dest, tag, comm, Mode::Standard)?;
        // SAFETY: the user leaves the buffer alone while the request is active.
        unsafe { give_sending(sending, request) }
    }

    /// Section 3.9.
    large fn MPI_Bsend_init(buf: *const c_void, count: Count, datatype: MPI_Datatype, dest: c_int, tag: c_int,
        comm: MPI_Comm, request: *mut MPI_Request) comm(comm) {
        let comm = communicator(comm)?;
        let sending = Sending::new(buf, count.into(), datatype, dest, tag, comm, Mode::Buffered)?;
        // SAFETY: the user leaves the buffer alone while the request is active.
        unsafe { give_sending(sending, request) }
    }

    /// Section 3.9.
    large fn MPI_Ssend_init(buf: *const c_void, count: Count, datatype: MPI_Datatype, dest: c_int, tag: c_int,
        comm: MPI_Comm, request: *mut MPI_Request) comm(comm) {
        let comm = communicator(comm)?;
        let sending = Sending::new(buf, count.into(), datatype, dest, tag, comm, Mode::Synchronous)?;
        // SAFETY: the user leaves the buffer alone while the request is active.
        unsafe { give_sending(sending, request) }
    }

    /// Section 3.9.
    large fn MPI_Rsend_init(buf: *const c_void, count: Count, datatype: MPI_Datatype, dest: c_int, tag: c_int,
        comm: MPI_Comm, request: *mut MPI_Request) comm(comm) {
        let comm = communicator(comm)?;
        let sending = Sending::new(buf, count.into(), datatype, dest, tag, comm, Mode::Standard)?;
        // SAFETY: the user leaves the buffer alone while the request is active.
        unsafe { give_sending(sending, request) }
    }

    /// Section 3.9.
    large fn MPI_Recv_init(buf: *mut c_void, count: Count, datatype: MPI_Datatype, source: c_int, tag: c_int,
        comm: MPI_Comm, request: *mut MPI_Request) comm(comm) {
        let comm = communicator(comm)?;
        let receiving = Receiving::new(buf, count.into(), datatype, source, tag, comm)?;
        let communicator = receiving.communicator().clone();
        // SAFETY: the user leaves the buffer alone while the request is active.
        let start = move || unsafe { receiving.start_request() };
        // SAFETY: null or a handle of the user's.
        unsafe { Persistent::new(&communicator, start).give(request) }
    }

    /// Section 3.9.
    small fn MPI_Start(request: *mut MPI_Request) local {
        // SAFETY: null or a handle of the user's.
        inactive(unsafe { read(request, "request") }?)?.start()
    }

    /// Section 3.9. All are checked before any is started.
    small fn MPI_Startall(count: c_int, requests: *mut MPI_Request) local {
        let number = arguments::count(count, "count")? as usize;
        // SAFETY: an array of the user's.
        let requests = unsafe { array_mut(requests, number, "array_of_requests") }?;
        let at = |at: usize| move |error: Error| Error {
            message: format!("array_of_requests[{at}]: {error}").into(),
            ..error
        };
        for (nth, &request) in requests.iter().enumerate() {
            inactive(request).map_err(at(nth))?;
        }
        for (nth, &request) in requests.iter().enumerate() {
            inactive(request).and_then(|found| found.start()).map_err(at(nth))?;
        }
        Ok(())
    }
}
