//! Completion queues.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr;
use std::rc::Rc;

use weft_libfabric_sys as sys;

use super::call::{CallError, check};
use super::objects::{Domain, close};

/// A completion as libfabric reports it.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Completion(sys::fi_cq_data_entry);

impl Completion {
    /// The context that the operation was posted with.
    #[inline]
    pub fn context(&self) -> *mut c_void {
        self.0.op_context
    }

    /// Bytes received.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether nothing was received.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Where in a multi-receive buffer the message is.
    #[inline]
    pub fn buffer(&self) -> *const u8 {
        self.0.buf.cast()
    }

    /// Whether a message was received.
    #[inline]
    pub fn is_receive(&self) -> bool {
        self.0.flags & sys::FI_RECV != 0
    }

    /// Whether libfabric releases a multi-receive buffer: no further message will be put there.
    #[inline]
    pub fn releases_buffer(&self) -> bool {
        self.0.flags & sys::FI_MULTI_RECV != 0
    }

    /// A completion for tests: of a message at `message`, or, with `None`, only the notification that a buffer is
    /// released.
    #[cfg(test)]
    pub(crate) fn of_receive(
        context: *mut c_void,
        message: Option<(*mut u8, usize)>,
        releases_buffer: bool,
    ) -> Completion {
        let (at, len) = message.unwrap_or((std::ptr::null_mut(), 0));
        let received = if message.is_some() { sys::FI_RECV } else { 0 };
        let released = if releases_buffer { sys::FI_MULTI_RECV } else { 0 };
        Completion(sys::fi_cq_data_entry {
            op_context: context,
            flags: received | released,
            len,
            buf: at.cast(),
            data: 0,
        })
    }
}

/// An operation that failed.
pub struct Failure {
    /// The context that the operation was posted with.
    pub context: *mut c_void,
    /// Whether libfabric releases a multi-receive buffer.
    pub releases_buffer: bool,
    /// Why.
    pub error: CallError,
}

/// What [`CompletionQueue::read`] found.
pub enum Polled {
    /// This many completions, at least one, are in the batch.
    Completions(usize),
    /// Nothing now.
    Nothing,
    /// An operation failed.
    Failed(Failure),
}

/// Completions that one read returns at most.
const BATCH: usize = 16;

/// A queue of completions.
pub struct CompletionQueue {
    raw: *mut sys::fid_cq,
    descriptor: Option<RawFd>,
    domain: Rc<Domain>,
}

/// Room for the completions of one read.
pub struct Batch {
    entries: [MaybeUninit<Completion>; BATCH],
    filled: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Batch {
            entries: [const { MaybeUninit::uninit() }; BATCH],
            filled: 0,
        }
    }
}

impl Batch {
    /// Most completions of one read.
    pub const SIZE: usize = BATCH;

    /// The completion at `position`; `None` from the number that the last read filled on.
    #[inline]
    pub fn get(&self, position: usize) -> Option<Completion> {
        // SAFETY: libfabric wrote the first `filled` entries.
        (position < self.filled).then(|| unsafe { self.entries[position].assume_init() })
    }
}

// SAFETY: plain bytes; the pointers inside are followed only by those who know what they point to.
unsafe impl Send for Batch {}

impl CompletionQueue {
    /// Opens a queue of at least `size` entries (0: the provider's default). `with_descriptor`: one that
    /// [`CompletionQueue::arm`] can return a descriptor for.
    #[doc(alias = "fi_cq_open")]
    pub fn open(
        domain: &Rc<Domain>,
        size: usize,
        with_descriptor: bool,
    ) -> Result<Rc<CompletionQueue>, CallError> {
        let mut attr = sys::fi_cq_attr {
            size,
            format: sys::FI_CQ_FORMAT_DATA,
            wait_obj: if with_descriptor {
                sys::FI_WAIT_FD
            } else {
                sys::FI_WAIT_NONE
            },
            ..Default::default()
        };
        let mut raw = ptr::null_mut();
        // SAFETY: the domain is open; `attr` and `raw` outlive the call.
        let status = unsafe { sys::fi_cq_open(domain.as_ptr(), &mut attr, &mut raw, ptr::null_mut()) };
        check("fi_cq_open", status as isize)?;
        let mut queue = CompletionQueue {
            raw,
            descriptor: None,
            domain: domain.clone(),
        };
        if with_descriptor {
            let mut descriptor: RawFd = -1;
            // SAFETY: FI_GETWAIT of a queue with FI_WAIT_FD writes an int.
            let status = unsafe {
                sys::fi_control(
                    queue.fid(),
                    sys::FI_GETWAIT as i32,
                    ptr::from_mut(&mut descriptor).cast(),
                )
            };
            check("fi_control(FI_GETWAIT)", status as isize)?;
            queue.descriptor = (descriptor >= 0).then_some(descriptor);
        }
        Ok(Rc::new(queue))
    }

    /// Reads the completions that there are into `batch`, and makes progress.
    #[doc(alias = "fi_cq_read")]
    #[inline]
    pub fn read(&self, batch: &mut Batch) -> Result<Polled, CallError> {
        // SAFETY: the queue is open; the batch has room for BATCH entries of the queue's format.
        let count = unsafe { sys::fi_cq_read(self.raw, batch.entries.as_mut_ptr().cast(), BATCH) };
        if count > 0 {
            batch.filled = (count as usize).min(BATCH);
            return Ok(Polled::Completions(batch.filled));
        }
        if count == 0 || count == -(sys::FI_EAGAIN as isize) {
            return Ok(Polled::Nothing);
        }
        if count == -(sys::FI_EAVAIL as isize) {
            return self.read_failure();
        }
        check("fi_cq_read", count).map(|_| Polled::Nothing)
    }

    #[doc(alias = "fi_cq_readerr")]
    #[cold]
    fn read_failure(&self) -> Result<Polled, CallError> {
        let mut entry = sys::fi_cq_err_entry::default();
        // SAFETY: the queue is open and `entry` outlives the call. `err_data` is null with size 0, so that libfabric
        // lends its own buffer, valid until the next read.
        let status = unsafe { sys::fi_cq_readerr(self.raw, &mut entry, 0) };
        if status == 0 || status == -(sys::FI_EAGAIN as isize) {
            return Ok(Polled::Nothing);
        }
        check("fi_cq_readerr", status)?;
        let mut text = [0; 256];
        // SAFETY: the queue is open, `err_data` comes from the entry just read, and `text` has the size that is given.
        let detail = unsafe {
            let words = sys::fi_cq_strerror(
                self.raw,
                entry.prov_errno,
                entry.err_data,
                text.as_mut_ptr(),
                text.len(),
            );
            if words.is_null() {
                String::new()
            } else {
                CStr::from_ptr(words).to_string_lossy().into_owned()
            }
        };
        let call = match entry.flags {
            flags if flags & sys::FI_ATOMIC != 0 => "fi_atomicmsg",
            flags if flags & sys::FI_READ != 0 => "fi_read",
            flags if flags & sys::FI_WRITE != 0 => "fi_writemsg",
            flags if flags & sys::FI_RECV != 0 => "fi_recvmsg",
            flags if flags & sys::FI_SEND != 0 => "fi_send",
            _ => "fi_cq_readerr",
        };
        Ok(Polled::Failed(Failure {
            context: entry.op_context,
            releases_buffer: entry.flags & sys::FI_MULTI_RECV != 0,
            error: CallError {
                call,
                code: entry.err.abs(),
                detail,
            },
        }))
    }

    /// The descriptor to sleep on, or `None` if there is something to read now or there is no descriptor.
    pub fn arm(&self) -> Option<RawFd> {
        let descriptor = self.descriptor?;
        self.domain.fabric().may_wait(self.fid()).then_some(descriptor)
    }

    /// Whether there is a descriptor.
    pub fn has_descriptor(&self) -> bool {
        self.descriptor.is_some()
    }

    pub(super) fn fid(&self) -> *mut sys::fid {
        // SAFETY: the object is open; only the field's address is taken.
        unsafe { ptr::addr_of_mut!((*self.raw).fid) }
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: endpoints hold an `Rc` of this, so none is left.
        unsafe { close(self.fid()) };
    }
}
