//! Section 3.10: sending and receiving at the same time.

use std::ffi::{c_int, c_void};

use crate::abi::common::arguments::{any_tag, count, give, memory, present, tag};
use crate::abi::common::constants::MPI_PROC_NULL;
use crate::abi::common::objects::{committed, communicator};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::abi::point_to_point::request;
use crate::abi::point_to_point::{Mode, Receiving, Sending, finish};
use crate::base::error::{Error, Result};
use crate::data::memory::Memory;
use crate::engine::Received;
use crate::engine::request::Outcome;
use crate::err;
use crate::instance::Completion;

mpi! {
    /// Section 3.10.
    large fn MPI_Sendrecv(sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype, dest: c_int,
        sendtag: c_int, recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype, source: c_int,
        recvtag: c_int, comm: MPI_Comm, status: *mut MPI_Status) comm(comm) {
        let out = (sendbuf, sendcount.into(), sendtype, dest, sendtag);
        let into = (recvbuf, recvcount.into(), recvtype, source, recvtag);
        let exchange = Exchange::new(out, into, comm)?;
        // SAFETY: the user leaves the buffers alone until this call returns.
        unsafe { exchange.run(status) }
    }

    /// Section 3.10. What is sent is copied first, so that it can be overwritten.
    large fn MPI_Sendrecv_replace(buf: *mut c_void, count: Count, datatype: MPI_Datatype, dest: c_int,
        sendtag: c_int, source: c_int, recvtag: c_int, comm: MPI_Comm, status: *mut MPI_Status) comm(comm) {
        let both = (buf, count.into(), datatype);
        // SAFETY: the user's buffer is valid.
        let exchange = unsafe { Exchange::replacing(both, (dest, sendtag), (source, recvtag), comm) }?;
        // SAFETY: the user leaves the buffer alone until this call returns.
        unsafe { exchange.run(status) }
    }

    /// Section 3.10.
    large fn MPI_Isendrecv(sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype, dest: c_int,
        sendtag: c_int, recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype, source: c_int,
        recvtag: c_int, comm: MPI_Comm, request: *mut MPI_Request) comm(comm) {
        let out = (sendbuf, sendcount.into(), sendtype, dest, sendtag);
        let into = (recvbuf, recvcount.into(), recvtype, source, recvtag);
        let exchange = Exchange::new(out, into, comm)?;
        // SAFETY: the user leaves the buffers alone until the request has ended; null or a handle of the user's.
        unsafe { exchange.give(request) }
    }

    /// Section 3.10.
    large fn MPI_Isendrecv_replace(buf: *mut c_void, count: Count, datatype: MPI_Datatype, dest: c_int,
        sendtag: c_int, source: c_int, recvtag: c_int, comm: MPI_Comm, request: *mut MPI_Request) comm(comm) {
        let both = (buf, count.into(), datatype);
        // SAFETY: the user's buffer is valid.
        let exchange = unsafe { Exchange::replacing(both, (dest, sendtag), (source, recvtag), comm) }?;
        // SAFETY: the user leaves the buffer alone until the request has ended; null or a handle of the user's.
        unsafe { exchange.give(request) }
    }
}

/// Buffer, count, datatype, rank, tag.
type Half<T> = (*mut T, i64, MPI_Datatype, c_int, c_int);
type ConstHalf<T> = (*const T, i64, MPI_Datatype, c_int, c_int);

/// Both directions, with checked arguments.
struct Exchange {
    sending: Sending,
    receiving: Receiving,
    /// What is sent, where it is a copy: it lives as long as the send.
    copy: Vec<u8>,
}

impl Exchange {
    fn new(out: ConstHalf<c_void>, into: Half<c_void>, comm: MPI_Comm) -> Result<Exchange> {
        let comm = communicator(comm)?;
        let (sendbuf, sendcount, sendtype, dest, sendtag) = out;
        let (recvbuf, recvcount, recvtype, source, recvtag) = into;
        let (sendtype, recvtype) = (committed(sendtype)?, committed(recvtype)?);
        let (sendcount, recvcount) = (count(sendcount, "sendcount")?, count(recvcount, "recvcount")?);
        let (sendtag, recvtag) = (tag(sendtag)?, any_tag(recvtag)?);
        let from = memory(sendbuf, sendcount, &sendtype, "sendbuf");
        let sending = Sending::to(comm.clone(), dest, sendtag, Mode::Standard, from)?;
        let to = memory(recvbuf, recvcount, &recvtype, "recvbuf");
        let receiving = Receiving::from(comm, source, recvtag, to)?;
        Ok(Exchange {
            sending,
            receiving,
            copy: Vec::new(),
        })
    }

    /// # Safety
    /// The buffer is valid for reading.
    unsafe fn replacing(
        (buf, number, datatype): (*mut c_void, i64, MPI_Datatype),
        (dest, sendtag): (c_int, c_int),
        (source, recvtag): (c_int, c_int),
        comm: MPI_Comm,
    ) -> Result<Exchange> {
        let comm = communicator(comm)?;
        let datatype = committed(datatype)?;
        let number = count(number, "count")?;
        let (sendtag, recvtag) = (tag(sendtag)?, any_tag(recvtag)?);
        let both = memory(buf, number, &datatype, "buf");
        let mut copy = Vec::new();
        if dest != MPI_PROC_NULL
            && let Ok(from) = &both
        {
            let len = from.len() as usize;
            copy.try_reserve_exact(len)
                .map_err(|_| err!(NoMem, "there is no memory for a copy of a message of {len} bytes"))?;
            copy.resize(len, 0);
            // SAFETY: the caller keeps the memory valid, and lets nobody write to it, until the send has ended.
            unsafe { from.pack(0, &mut copy[..]) };
        }
        let from = both.as_ref().map(|_| Memory::of(&copy)).map_err(Error::clone);
        let sending = Sending::to(comm.clone(), dest, sendtag, Mode::Standard, from)?;
        let receiving = Receiving::from(comm, source, recvtag, both)?;
        Ok(Exchange {
            sending,
            receiving,
            copy,
        })
    }

    /// Starts both and waits until both have ended. The status is filled in even if there is an error.
    ///
    /// # Safety
    /// The buffers are valid, and left alone until this returns; the status is ignored or valid for writing.
    unsafe fn run(&self, to_status: *mut MPI_Status) -> Result<()> {
        let comm = self.receiving.communicator();
        // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
        let received = unsafe { self.receiving.start() }?;
        // SAFETY: the caller keeps the user's buffers valid until both have ended; a copy lives as long as this.
        let sent = unsafe { self.sending.start(false) }.inspect_err(|_| {
            if let Received::Later(id) = received {
                // If it is dropped, it abandons the receive and waits until the buffer is not used any more.
                drop(Completion::of(comm.instance().clone(), id));
            }
        })?;
        // SAFETY: the caller's pointers are null, MPI_STATUS_IGNORE or valid for writing.
        let result = unsafe { finish(comm, received, to_status) };
        if let Some(id) = sent
            && let Some(error) = comm.instance().wait(id).error
        {
            return Err(*error);
        }
        result
    }

    /// Starts both, with one request for both. Its status is that of the receive.
    ///
    /// # Safety
    /// The buffers are valid, and left alone until the request has ended; the pointer is null or valid for writing.
    unsafe fn give(self, to_request: *mut MPI_Request) -> Result<()> {
        present(to_request, "request")?;
        let comm = self.receiving.communicator().clone();
        let instance = comm.instance();
        // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
        let (received, receiving) = match unsafe { self.receiving.start() }? {
            Received::Later(id) => (Some(id), Completion::of(instance.clone(), id)),
            Received::Now(outcome) => (None, Completion::of_outcome(outcome)),
        };
        // SAFETY: the caller keeps the user's buffers valid until the operation ends; a copy lives in it, behind the completion.
        let sent = unsafe { self.sending.start(false) }?;
        let sending = match sent {
            Some(id) => Completion::of(instance.clone(), id),
            None => Completion::of_outcome(Outcome::EMPTY),
        };
        let copy = self.copy;
        let id = instance.spawn(Box::pin(async move {
            let received = receiving.outcome().await;
            let sent = sending.outcome().await;
            drop(copy);
            Ok(Outcome {
                error: received.error.or(sent.error),
                ..received
            })
        }));
        let mut engine = instance.engine();
        engine.set_context(id, comm.context());
        engine.set_both(id, [received, sent]);
        drop(engine);
        // SAFETY: the caller's pointers are null or valid for writing.
        unsafe { give(to_request, request::handle_of(instance, id)?, "request") }
    }
}
