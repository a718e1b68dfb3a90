//! Sections 3.4 and 3.6: buffered mode, and the buffers of communicators, sessions and the process.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::abi::common::arguments::{give, give_count};
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, communicator};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::abi::point_to_point::request;
use crate::abi::point_to_point::{Mode, Sending};
use crate::abi::process;
use crate::base::error::Result;
use crate::engine::buffered::{Attachment, SendBuffer};
use crate::err;
use crate::identity::Context;
use crate::instance::Instance;
use crate::objects::communicator::Communicator;
use crate::objects::session::Session;

/// The buffer that serves a communicator: its own, otherwise its session's, otherwise the process's.
pub fn buffer_of(communicator: &Communicator) -> Option<Arc<SendBuffer>> {
    communicator
        .attachment()
        .get()
        .or_else(|| objects::session_of(communicator)?.attachment().get())
        .or_else(|| communicator.instance().attachment().get())
}

/// What a buffer can be attached to.
enum Owner {
    Communicator(Arc<Communicator>),
    Session(Arc<Session>),
    Process(Arc<Instance>),
}

impl Owner {
    fn communicator(handle: MPI_Comm) -> Result<Owner> {
        objects::communicator(handle).map(Owner::Communicator)
    }

    fn session(handle: MPI_Session) -> Result<Owner> {
        objects::session(handle).map(Owner::Session)
    }

    fn process() -> Result<Owner> {
        process::instance().map(Owner::Process)
    }

    fn attachment(&self) -> &Attachment {
        match self {
            Owner::Communicator(communicator) => communicator.attachment(),
            Owner::Session(session) => session.attachment(),
            Owner::Process(instance) => instance.attachment(),
        }
    }

    fn instance(&self) -> &Arc<Instance> {
        match self {
            Owner::Communicator(communicator) => communicator.instance(),
            Owner::Session(session) => session.instance(),
            Owner::Process(instance) => instance,
        }
    }

    /// The communicator for the errors of its requests.
    fn context(&self) -> Context {
        match self {
            Owner::Communicator(communicator) => communicator.context(),
            Owner::Session(_) | Owner::Process(_) => Context::NONE,
        }
    }

    fn name(&self) -> String {
        match self {
            Owner::Communicator(communicator) => objects::name_of_communicator(communicator),
            Owner::Session(_) => "the session".into(),
            Owner::Process(_) => "the process".into(),
        }
    }

    /// # Safety
    /// The buffer is `MPI_BUFFER_AUTOMATIC`, null, or valid for that many bytes, and left alone until it is detached.
    unsafe fn attach(&self, buffer: *mut c_void, size: i64) -> Result<()> {
        let buffer = if buffer == MPI_BUFFER_AUTOMATIC {
            SendBuffer::automatic()
        } else {
            let size =
                usize::try_from(size).map_err(|_| err!(Arg, "size is {size}, but must not be negative"))?;
            if buffer.is_null() && size > 0 {
                return Err(err!(Buffer, "buffer is a null pointer, but size is {size}"));
            }
            // SAFETY: the caller keeps the buffer valid until it has been detached.
            unsafe { SendBuffer::of_user(buffer.cast(), size) }
        };
        self.attachment().attach(buffer, &self.name())
    }

    /// Without a buffer, the result is a buffer of 0 bytes at a null address.
    ///
    /// # Safety
    /// The pointers are null or valid for writing.
    unsafe fn detach<T: TryFrom<i64> + From<i16>>(
        &self,
        buffer_addr: *mut c_void,
        size: *mut T,
    ) -> Result<()> {
        for (null, name) in [(buffer_addr.is_null(), "buffer_addr"), (size.is_null(), "size")] {
            if null {
                return Err(err!(Arg, "{name} is a null pointer"));
            }
        }
        let (buffer, result) = self.instance().detach(self.attachment(), self.context());
        let (address, bytes) = match buffer {
            None => (std::ptr::null_mut(), 0),
            Some(buffer) => buffer
                .memory()
                .map_or((MPI_BUFFER_AUTOMATIC, 0), |(address, bytes)| {
                    (address.cast::<c_void>(), bytes)
                }),
        };
        // SAFETY: the caller's pointers are null or valid for writing. The address may be written to any place that has room for it.
        unsafe {
            buffer_addr.cast::<*mut c_void>().write_unaligned(address);
            give_count(size, bytes as i64, "size")?;
        }
        result
    }

    fn flush(&self) -> Result<()> {
        match self.attachment().get() {
            Some(buffer) => self.instance().flush(&buffer, self.context()),
            None => Ok(()),
        }
    }

    /// # Safety
    /// The pointer is null or valid for writing.
    unsafe fn iflush(&self, to_request: *mut MPI_Request) -> Result<()> {
        if to_request.is_null() {
            return Err(err!(Arg, "request is a null pointer"));
        }
        let id = match self.attachment().get() {
            Some(buffer) => self.instance().engine().flush_buffer(&buffer, self.context()),
            None => {
                let ended = crate::engine::request::Outcome::EMPTY;
                self.instance().engine().ended_request(ended, self.context())
            }
        };
        // SAFETY: the caller's pointers are null or valid for writing.
        unsafe { give(to_request, request::handle_of(self.instance(), id)?, "request") }
    }
}

mpi! {
    /// Section 3.4.
    large fn MPI_Bsend(buf: *const c_void, count: Count, datatype: MPI_Datatype, dest: c_int, tag: c_int,
        comm: MPI_Comm) comm(comm) {
        let comm = communicator(comm)?;
        let sending = Sending::new(buf, count.into(), datatype, dest, tag, comm, Mode::Buffered)?;
        // SAFETY: the user leaves the buffer alone until this call returns.
        unsafe { sending.start(false) }.map(|_| ())
    }

    /// Section 3.7.2.
    large fn MPI_Ibsend(buf: *const c_void, count: Count, datatype: MPI_Datatype, dest: c_int, tag: c_int,
        comm: MPI_Comm, request: *mut MPI_Request) comm(comm) {
        let comm = communicator(comm)?;
        let sending = Sending::new(buf, count.into(), datatype, dest, tag, comm, Mode::Buffered)?;
        // SAFETY: the user leaves the buffer alone until the request has ended.
        unsafe { sending.give(request) }
    }

    /// Section 3.6.
    large fn MPI_Buffer_attach(buffer: *mut c_void, size: Count) local {
        // SAFETY: the user leaves the buffer to the library.
        unsafe { Owner::process()?.attach(buffer, size.into()) }
    }

    /// Section 3.6.
    large fn MPI_Buffer_detach(buffer_addr: *mut c_void, size: *mut Count) local {
        // SAFETY: each is null or the user's to be written.
        unsafe { Owner::process()?.detach(buffer_addr, size) }
    }

    /// Section 3.6.
    small fn MPI_Buffer_flush() local {
        Owner::process()?.flush()
    }

    /// Section 3.6.
    small fn MPI_Buffer_iflush(request: *mut MPI_Request) local {
        // SAFETY: null or a handle of the user's.
        unsafe { Owner::process()?.iflush(request) }
    }

    /// Section 3.6.
    large fn MPI_Comm_attach_buffer(comm: MPI_Comm, buffer: *mut c_void, size: Count) comm(comm) {
        // SAFETY: the user leaves the buffer to the library.
        unsafe { Owner::communicator(comm)?.attach(buffer, size.into()) }
    }

    /// Section 3.6.
    large fn MPI_Comm_detach_buffer(comm: MPI_Comm, buffer_addr: *mut c_void, size: *mut Count) comm(comm) {
        // SAFETY: each is null or the user's to be written.
        unsafe { Owner::communicator(comm)?.detach(buffer_addr, size) }
    }

    /// Section 3.6.
    small fn MPI_Comm_flush_buffer(comm: MPI_Comm) comm(comm) {
        Owner::communicator(comm)?.flush()
    }

    /// Section 3.6.
    small fn MPI_Comm_iflush_buffer(comm: MPI_Comm, request: *mut MPI_Request) comm(comm) {
        // SAFETY: null or a handle of the user's.
        unsafe { Owner::communicator(comm)?.iflush(request) }
    }

    /// Section 3.6.
    large fn MPI_Session_attach_buffer(session: MPI_Session, buffer: *mut c_void, size: Count) session(session) {
        // SAFETY: the user leaves the buffer to the library.
        unsafe { Owner::session(session)?.attach(buffer, size.into()) }
    }

    /// Section 3.6.
    large fn MPI_Session_detach_buffer(session: MPI_Session, buffer_addr: *mut c_void, size: *mut Count)
        session(session) {
        // SAFETY: each is null or the user's to be written.
        unsafe { Owner::session(session)?.detach(buffer_addr, size) }
    }

    /// Section 3.6.
    small fn MPI_Session_flush_buffer(session: MPI_Session) session(session) {
        Owner::session(session)?.flush()
    }

    /// Section 3.6.
    small fn MPI_Session_iflush_buffer(session: MPI_Session, request: *mut MPI_Request) session(session) {
        // SAFETY: null or a handle of the user's.
        unsafe { Owner::session(session)?.iflush(request) }
    }
}
