//! Chapter 3: sends, receives, probes. (Requests: `request`; buffered mode: `buffered`; persistent communication:
//! `persistent`; both directions at once: `exchange`.)
//!
//! What does not belong here: matching and protocols (`engine`).

pub mod buffered;
mod exchange;
pub mod fast_path;
mod partitioned;
pub mod persistent;
mod probe;
pub mod request;
mod requests;

use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::sync::Arc;

use crate::abi::common::arguments::{any_tag, count, give, memory, present, rank, tag};
use crate::abi::common::constants::*;

use crate::abi::common::objects::{committed, hold_communicator};
use crate::abi::common::procedure::mpi;
use crate::abi::common::status;
use crate::abi::common::types::*;
use crate::base::error::Result;
use crate::data::memory::Memory;
use crate::engine::Received;
use crate::engine::request::{Outcome, RequestId};
use crate::instance::Instance;
use crate::objects::communicator::Communicator;
use crate::system::rcu::{self, Held};

/// The mode of a send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Standard, and ready: the matching receive is posted then, or the program is erroneous.
    Standard,
    /// It ends once the receive has started.
    Synchronous,
    /// It ends at once, with the help of a buffer.
    Buffered,
}

/// A send whose arguments have been checked: the common part of blocking, nonblocking and persistent ones. A caller that
/// starts it at once only holds the communicator ([`Hold`]); one that keeps it has a reference.
pub struct Sending<C = Arc<Communicator>> {
    comm: C,
    /// `None` is `MPI_PROC_NULL`.
    to: Option<u32>,
    tag: i32,
    memory: Memory,
    mode: Mode,
}

/// A communicator, as long as the thread does not wait and calls no function of the user's.
type Hold = Held<'static, Communicator>;

impl<C: Deref<Target = Communicator>> Sending<C> {
    /// Checks the arguments.
    #[inline(always)]
    pub fn new(
        buf: *const c_void,
        number: i64,
        datatype: MPI_Datatype,
        dest: c_int,
        tag_: c_int,
        comm: C,
        mode: Mode,
    ) -> Result<Sending<C>> {
        let datatype = committed(datatype)?;
        let number = count(number, "count")?;
        let memory = memory(buf, number, &datatype, "buf");
        Sending::to(comm, dest, tag(tag_)?, mode, memory)
    }

    /// With arguments that are checked except for `dest` and the buffer, which is not used if nothing is to be sent.
    #[inline(always)]
    pub fn to(comm: C, dest: c_int, tag: i32, mode: Mode, memory: Result<Memory>) -> Result<Sending<C>> {
        let (to, memory) = match dest {
            MPI_PROC_NULL => (None, Memory::empty()),
            _ => (Some(rank(dest, &comm, "destination")?), memory?),
        };
        Ok(Sending {
            comm,
            to,
            tag,
            memory,
            mode,
        })
    }

    /// Its communicator.
    pub fn communicator(&self) -> &C {
        &self.comm
    }
}

/// Starts a send; `None`: it has ended, and no request was asked for. (`to`: `None` is `MPI_PROC_NULL`.)
///
/// # Safety
/// The memory is valid, and left alone until the send has ended.
#[inline(always)]
unsafe fn start_send(
    comm: &Communicator,
    to: Option<u32>,
    tag: i32,
    memory: Memory,
    mode: Mode,
    request: bool,
) -> Result<Option<RequestId>> {
    let Some(to) = to else {
        return Ok(request.then(|| ended(comm, Outcome::EMPTY)));
    };
    // SAFETY: the caller keeps the memory valid, and lets nobody write to it, until the send has ended.
    unsafe { comm.send(to, tag, memory, mode == Mode::Synchronous, request) }
}

impl Sending {
    /// Starts it; `None`: it has ended, and no request was asked for.
    ///
    /// # Safety
    /// The buffer is valid, and left alone until the send has ended.
    #[inline]
    pub unsafe fn start(&self, request: bool) -> Result<Option<RequestId>> {
        let memory = self.memory.clone();
        if self.mode == Mode::Buffered
            && let Some(to) = self.to
        {
            let buffer = crate::abi::point_to_point::buffered::buffer_of(&self.comm);
            // SAFETY: the caller keeps the memory valid, and lets nobody write to it, until the send has ended.
            return unsafe {
                self.comm
                    .send_buffered(buffer.as_ref(), to, self.tag, memory, request)
            };
        }
        // SAFETY: the caller keeps the memory valid, and lets nobody write to it, until the send has ended.
        unsafe { start_send(&self.comm, self.to, self.tag, memory, self.mode, request) }
    }

    /// Starts it and returns its handle to the user.
    ///
    /// # Safety
    /// The buffer is valid, and left alone until the send has ended; the pointer is null or valid for writing.
    pub unsafe fn give(&self, to_request: *mut MPI_Request) -> Result<()> {
        present(to_request, "request")?;
        // SAFETY: the caller keeps the memory valid, and lets nobody write to it, until the send has ended.
        let id = unsafe { self.start(true) }?.expect("a request was asked for");
        // SAFETY: the caller's pointers are null or valid for writing.
        unsafe { give_request(&self.comm, id, to_request) }
    }
}

impl Sending<Hold> {
    /// Sends and waits for its end.
    ///
    /// # Safety
    /// The buffer is valid, and left alone until this returns; not in buffered mode.
    #[inline(always)]
    unsafe fn run_now(self) -> Result<()> {
        let Sending {
            comm,
            to,
            tag,
            memory,
            mode,
        } = self;
        // SAFETY: the caller keeps the memory valid, and lets nobody write to it, until the send has ended.
        match unsafe { start_send(&comm, to, tag, memory, mode, false) }? {
            None => Ok(()),
            Some(id) => {
                let instance = comm.instance().clone();
                drop(comm);
                wait(&instance, id)
            }
        }
    }

    /// Starts it and returns its handle to the user.
    ///
    /// # Safety
    /// The buffer is valid, and left alone until the send has ended; the pointer is null or valid for writing; not in
    /// buffered mode.
    #[inline(always)]
    unsafe fn give_now(self, to_request: *mut MPI_Request) -> Result<()> {
        present(to_request, "request")?;
        let Sending {
            comm,
            to,
            tag,
            memory,
            mode,
        } = self;
        // SAFETY: the caller keeps the memory valid, and lets nobody write to it, until the send has ended.
        let id = unsafe { start_send(&comm, to, tag, memory, mode, true) }?.expect("a request was asked for");
        // SAFETY: the caller's pointers are null or valid for writing.
        unsafe { give_request(&comm, id, to_request) }
    }
}

/// Waits for the end of a send.
#[cold]
fn wait(instance: &Arc<Instance>, id: RequestId) -> Result<()> {
    instance.wait(id).error.map_or(Ok(()), |error| Err(*error))
}

/// Returns a request's handle to the user.
///
/// # Safety
/// The pointer is null or valid for writing.
#[inline]
unsafe fn give_request(comm: &Communicator, id: RequestId, to: *mut MPI_Request) -> Result<()> {
    // SAFETY: the caller's pointers are null or valid for writing.
    unsafe { give(to, request::handle_of(comm.instance(), id)?, "request") }
}

/// A receive whose arguments have been checked: the common part of blocking, nonblocking and persistent ones. As for
/// [`Sending`], the communicator is held or kept.
pub struct Receiving<C = Arc<Communicator>> {
    comm: C,
    /// `Some(None)` is any rank, `None` is `MPI_PROC_NULL`.
    from: Option<Option<u32>>,
    tag: Option<i32>,
    memory: Memory,
}

impl<C: Deref<Target = Communicator>> Receiving<C> {
    /// Checks the arguments.
    #[inline(always)]
    pub fn new(
        buf: *mut c_void,
        number: i64,
        datatype: MPI_Datatype,
        source: c_int,
        tag: c_int,
        comm: C,
    ) -> Result<Receiving<C>> {
        let datatype = committed(datatype)?;
        let number = count(number, "count")?;
        let memory = memory(buf, number, &datatype, "buf");
        Receiving::from(comm, source, any_tag(tag)?, memory)
    }

    /// With arguments that are checked except for `source` and the buffer, which is not used if nothing is to be received.
    #[inline(always)]
    pub fn from(comm: C, source: c_int, tag: Option<i32>, memory: Result<Memory>) -> Result<Receiving<C>> {
        let from = self::source(source, &comm)?;
        let memory = match from {
            None => Memory::empty(),
            Some(_) => memory?,
        };
        Ok(Receiving {
            comm,
            from,
            tag,
            memory,
        })
    }

    /// With checked arguments.
    #[inline(always)]
    pub fn of(comm: C, from: Option<u32>, tag: Option<i32>, memory: Memory) -> Receiving<C> {
        Receiving {
            comm,
            from: Some(from),
            tag,
            memory,
        }
    }

    /// Its communicator.
    pub fn communicator(&self) -> &C {
        &self.comm
    }
}

/// Starts a receive. (`from`: `Some(None)` is any rank, `None` is `MPI_PROC_NULL`.)
///
/// # Safety
/// The memory is valid, and left alone until the receive has ended.
#[inline(always)]
pub(super) unsafe fn start_receive(
    comm: &Communicator,
    from: Option<Option<u32>>,
    tag: Option<i32>,
    memory: Memory,
) -> Result<Received> {
    match from {
        None => Ok(Received::Now(status::PROC_NULL)),
        // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
        Some(from) => unsafe { comm.receive(from, tag, memory) },
    }
}

impl Receiving {
    /// Starts it.
    ///
    /// # Safety
    /// The buffer is valid, and left alone until the receive has ended.
    #[inline]
    pub unsafe fn start(&self) -> Result<Received> {
        // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
        unsafe { start_receive(&self.comm, self.from, self.tag, self.memory.clone()) }
    }

    /// Starts it; there is a request even if it has ended at once.
    ///
    /// # Safety
    /// As for [`Receiving::start`].
    pub unsafe fn start_request(&self) -> Result<RequestId> {
        // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
        Ok(match unsafe { self.start() }? {
            Received::Later(id) => id,
            Received::Now(outcome) => ended(&self.comm, outcome),
        })
    }
}

impl Receiving<Hold> {
    /// Receives and waits for its end; fills in the status, even if there is an error.
    ///
    /// # Safety
    /// The buffer is valid, and left alone until this returns; the status is `MPI_STATUS_IGNORE` or valid for writing.
    #[inline]
    unsafe fn run_now(self, to_status: *mut MPI_Status) -> Result<()> {
        let Receiving {
            comm,
            from,
            tag,
            memory,
        } = self;
        let alone = || !rcu::is_waited_for();
        let received = match from {
            None => Received::Now(status::PROC_NULL),
            // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
            Some(from) => unsafe { comm.receive_attended(from, tag, memory, alone) }?,
        };
        let outcome = match received {
            Received::Now(outcome) => outcome,
            Received::Later(id) => {
                let instance = comm.instance().clone();
                drop(comm);
                instance.wait(id)
            }
        };
        // SAFETY: the caller's pointers are null, MPI_STATUS_IGNORE or valid for writing.
        unsafe { status::write(to_status, &outcome) };
        outcome.error.map_or(Ok(()), |error| Err(*error))
    }

    /// Starts it and returns its handle to the user.
    ///
    /// # Safety
    /// The buffer is valid, and left alone until the receive has ended; the pointer is null or valid for writing.
    #[inline(always)]
    unsafe fn give_now(self, to_request: *mut MPI_Request) -> Result<()> {
        present(to_request, "request")?;
        let Receiving {
            comm,
            from,
            tag,
            memory,
        } = self;
        // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
        unsafe { give_received(&comm, start_receive(&comm, from, tag, memory)?, to_request) }
    }
}

/// A request that has ended.
pub fn ended(comm: &Communicator, outcome: Outcome) -> RequestId {
    comm.instance().engine().ended_request(outcome, comm.context())
}

/// The source of a receive: `Some(None)` any rank, `None` no process.
#[inline]
pub(super) fn source(value: c_int, comm: &Communicator) -> Result<Option<Option<u32>>> {
    match value {
        MPI_ANY_SOURCE => Ok(Some(None)),
        MPI_PROC_NULL => Ok(None),
        _ => Ok(Some(Some(rank(value, comm, "source")?))),
    }
}

/// Ends a blocking receive: fills in the status, even if there is an error.
///
/// # Safety
/// The status is `MPI_STATUS_IGNORE` or valid for writing.
#[inline]
pub unsafe fn finish(comm: &Communicator, received: Received, to_status: *mut MPI_Status) -> Result<()> {
    let outcome = match received {
        Received::Now(outcome) => outcome,
        Received::Later(id) => comm.instance().wait(id),
    };
    // SAFETY: the caller's pointers are null, MPI_STATUS_IGNORE or valid for writing.
    unsafe { status::write(to_status, &outcome) };
    outcome.error.map_or(Ok(()), |error| Err(*error))
}

/// Sends and waits for its end.
///
/// # Safety
/// The buffer is valid, and left alone until this returns; not in buffered mode.
#[inline(never)]
unsafe fn send(
    buf: *const c_void,
    number: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<()> {
    let sending = Sending::new(buf, number, datatype, dest, tag, hold_communicator(comm)?, mode)?;
    // SAFETY: the caller keeps the memory valid, and lets nobody write to it, until the send has ended.
    unsafe { sending.run_now() }
}

/// Starts a send and returns its handle to the user.
///
/// # Safety
/// The buffer is valid, and left alone until the send has ended; the pointer is null or valid for writing; not in
/// buffered mode.
#[inline(never)]
unsafe fn isend(
    buf: *const c_void,
    number: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Mode,
    to_request: *mut MPI_Request,
) -> Result<()> {
    let sending = Sending::new(buf, number, datatype, dest, tag, hold_communicator(comm)?, mode)?;
    // SAFETY: the caller keeps the memory valid, and lets nobody write to it, until the send has ended.
    unsafe { sending.give_now(to_request) }
}

/// Receives and waits for its end.
///
/// # Safety
/// The buffer is valid, and left alone until this returns; the status is `MPI_STATUS_IGNORE` or valid for writing.
#[inline(never)]
unsafe fn receive(
    buf: *mut c_void,
    number: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    to_status: *mut MPI_Status,
) -> Result<()> {
    let receiving = Receiving::new(buf, number, datatype, source, tag, hold_communicator(comm)?)?;
    // SAFETY: the caller leaves the buffer alone until this returns; the status is ignored or valid for writing, as it says.
    unsafe { receiving.run_now(to_status) }
}

/// Starts a receive and returns its handle to the user.
///
/// # Safety
/// The buffer is valid, and left alone until the receive has ended; the pointer is null or valid for writing.
#[inline(never)]
unsafe fn ireceive(
    buf: *mut c_void,
    number: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    to_request: *mut MPI_Request,
) -> Result<()> {
    let receiving = Receiving::new(buf, number, datatype, source, tag, hold_communicator(comm)?)?;
    // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
    unsafe { receiving.give_now(to_request) }
}

mpi! {
    /// Section 3.2.1.
    large fn MPI_Send(buf: *const c_void, count: Count, datatype: MPI_Datatype, dest: c_int, tag: c_int,
        comm: MPI_Comm) comm(comm) {
        // SAFETY: the user leaves the buffer alone until this call returns.
        unsafe {
            if fast_path::send(buf, count.into(), datatype, dest, tag, comm) {
                return Ok(());
            }
            send(buf, count.into(), datatype, dest, tag, comm, Mode::Standard)
        }
    }

    /// Section 3.4.
    large fn MPI_Ssend(buf: *const c_void, count: Count, datatype: MPI_Datatype, dest: c_int, tag: c_int,
        comm: MPI_Comm) comm(comm) {
        // SAFETY: the user leaves the buffer alone until this call returns.
        unsafe {
            send(buf, count.into(), datatype, dest, tag, comm, Mode::Synchronous)
        }
    }

    /// Section 3.4. The matching receive is posted, or the program is erroneous: a standard send.
    large fn MPI_Rsend(buf: *const c_void, count: Count, datatype: MPI_Datatype, dest: c_int, tag: c_int,
        comm: MPI_Comm) comm(comm) {
        // SAFETY: the user leaves the buffer alone until this call returns.
        unsafe {
            if fast_path::send(buf, count.into(), datatype, dest, tag, comm) {
                return Ok(());
            }
            send(buf, count.into(), datatype, dest, tag, comm, Mode::Standard)
        }
    }

    /// Section 3.7.2.
    large fn MPI_Isend(buf: *const c_void, count: Count, datatype: MPI_Datatype, dest: c_int, tag: c_int,
        comm: MPI_Comm, request: *mut MPI_Request) comm(comm) {
        // SAFETY: the user leaves the buffer alone until the request has ended; null or a handle of the user's.
        unsafe {
            if fast_path::isend(buf, count.into(), datatype, dest, tag, comm, request)? {
                return Ok(());
            }
            isend(buf, count.into(), datatype, dest, tag, comm, Mode::Standard, request)
        }
    }

    /// Section 3.7.2.
    large fn MPI_Issend(buf: *const c_void, count: Count, datatype: MPI_Datatype, dest: c_int, tag: c_int,
        comm: MPI_Comm, request: *mut MPI_Request) comm(comm) {
        // SAFETY: the user leaves the buffer alone until the request has ended; null or a handle of the user's.
        unsafe {
            isend(buf, count.into(), datatype, dest, tag, comm, Mode::Synchronous, request)
        }
    }

    /// Section 3.7.2.
    large fn MPI_Irsend(buf: *const c_void, count: Count, datatype: MPI_Datatype, dest: c_int, tag: c_int,
        comm: MPI_Comm, request: *mut MPI_Request) comm(comm) {
        // SAFETY: the user leaves the buffer alone until the request has ended; null or a handle of the user's.
        unsafe {
            if fast_path::isend(buf, count.into(), datatype, dest, tag, comm, request)? {
                return Ok(());
            }
            isend(buf, count.into(), datatype, dest, tag, comm, Mode::Standard, request)
        }
    }

    /// Section 3.2.4.
    large fn MPI_Recv(buf: *mut c_void, count: Count, datatype: MPI_Datatype, source: c_int, tag: c_int,
        comm: MPI_Comm, status: *mut MPI_Status) comm(comm) {
        // SAFETY: the user leaves the buffer alone until this call returns; the status is ignored or valid for writing.
        unsafe {
            if let Some(receiving) = fast_path::receiving(buf, count.into(), datatype, source, tag, comm) {
                return receiving.run_now(status);
            }
            receive(buf, count.into(), datatype, source, tag, comm, status)
        }
    }

    /// Section 3.7.2.
    large fn MPI_Irecv(buf: *mut c_void, count: Count, datatype: MPI_Datatype, source: c_int, tag: c_int,
        comm: MPI_Comm, request: *mut MPI_Request) comm(comm) {
        // SAFETY: the user leaves the buffer alone until the request has ended; null or a handle of the user's.
        unsafe {
            if fast_path::irecv(buf, count.into(), datatype, source, tag, comm, request)? {
                return Ok(());
            }
            ireceive(buf, count.into(), datatype, source, tag, comm, request)
        }
    }

}

/// Returns to the user a handle for a receive, ended or not.
///
/// # Safety
/// The pointer is null or valid for writing.
#[inline]
pub(super) unsafe fn give_received(
    comm: &Communicator,
    received: Received,
    to: *mut MPI_Request,
) -> Result<()> {
    let id = match received {
        Received::Later(id) => id,
        Received::Now(outcome) => ended(comm, outcome),
    };
    // SAFETY: the caller's pointers are null, MPI_STATUS_IGNORE or valid for writing.
    unsafe { give_request(comm, id, to) }
}
