//! Multi-receive buffers: libfabric puts message after message into one, and gives it back when there is no room for
//! the longest message left.
//!
//! The hard case: a buffer can be given back while an earlier message in it is still arriving (ofi_rxm fetches long
//! messages by itself), and that message completes later. So a buffer goes to libfabric again only when every byte
//! up to the end of its last message is accounted for; until then another one takes its place.

use crate::fabric::{Access, CallError, Completion, Domain, Endpoint, MemoryRegion, Posted};
use std::ffi::c_void;
use std::sync::Arc;

use super::memory::{Contexts, Pages};
use crate::err;
use crate::error::Result;

/// Buffers at most, those that take the place of others included.
const MAX_BUFFERS: usize = 64;

/// Where a buffer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// With libfabric.
    Posted,
    /// Given back with messages still arriving.
    Settling,
    /// Free; libfabric had no room for it (`-FI_EAGAIN`) or it was just given back.
    Idle,
    /// Given up after an error that did not say whether libfabric still uses it.
    Abandoned,
}

struct Buffer {
    pages: Pages,
    descriptor: *mut c_void,
    state: State,
    /// Bytes of messages that completed.
    arrived: usize,
    /// The end of the last message that completed.
    end: usize,
    /// Which posting of all this one's last was.
    posting: u64,
}

/// All of a lane's receive buffers.
pub(super) struct ReceiveBuffers {
    buffers: Vec<Buffer>,
    contexts: Contexts,
    size: usize,
    wanted: usize,
    posted: usize,
    postings: u64,
}

// SAFETY: descriptors are libfabric's, of no thread in particular.
unsafe impl Send for ReceiveBuffers {}

/// What the buffers need to be posted.
pub(super) struct Target<'a> {
    pub endpoint: &'a Arc<Endpoint>,
    pub domain: &'a Arc<Domain>,
    /// Where regions of new buffers go; `None`: the provider asks for none.
    pub registered: Option<&'a mut Vec<MemoryRegion>>,
}

impl ReceiveBuffers {
    /// None posted yet: call [`ReceiveBuffers::replenish`].
    pub(super) fn new(size: usize, wanted: usize) -> ReceiveBuffers {
        ReceiveBuffers {
            buffers: Vec::new(),
            contexts: Contexts::new(MAX_BUFFERS),
            size,
            wanted: wanted.clamp(1, MAX_BUFFERS),
            posted: 0,
            postings: 0,
        }
    }

    /// Which buffer a context belongs to.
    #[inline]
    pub(super) fn index(&self, context: *mut c_void) -> Option<usize> {
        self.contexts
            .index(context)
            .filter(|index| *index < self.buffers.len())
    }

    /// The message of a completion; `None` where it lies outside the buffer, which only a broken provider says.
    #[inline]
    pub(super) fn message(&mut self, index: usize, completion: &Completion) -> Option<&[u8]> {
        let buffer = &mut self.buffers[index];
        let offset = (completion.buffer() as usize).wrapping_sub(buffer.pages.base() as usize);
        let end = offset
            .checked_add(completion.len())
            .filter(|end| *end <= buffer.pages.len())?;
        buffer.arrived += completion.len();
        buffer.end = buffer.end.max(end);
        // SAFETY: the range is inside the buffer's pages, libfabric has written it and writes there no more until the
        // buffer is posted again, which needs `&mut self`.
        Some(unsafe { std::slice::from_raw_parts(buffer.pages.base().add(offset), completion.len()) })
    }

    /// Notes that a buffer's message completed, and whether libfabric gives the buffer back. `true`: one is missing.
    #[inline]
    pub(super) fn settle(&mut self, index: usize, released: bool) -> bool {
        let buffer = &mut self.buffers[index];
        if !released && buffer.state != State::Settling {
            return false;
        }
        if released && buffer.state == State::Posted {
            buffer.state = State::Settling;
            self.posted -= 1;
        }
        if buffer.state == State::Settling && buffer.arrived >= buffer.end {
            buffer.state = State::Idle;
        }
        self.posted < self.wanted
    }

    /// Notes that a receive failed.
    #[cold]
    pub(super) fn failed(&mut self, index: usize, released: bool) {
        let buffer = &mut self.buffers[index];
        if buffer.state == State::Posted {
            self.posted -= 1;
            // What was never reported as given back may still be written to, so it is not used again.
            buffer.state = if released {
                State::Settling
            } else {
                State::Abandoned
            };
        }
        if buffer.state == State::Settling && buffer.arrived >= buffer.end {
            buffer.state = State::Idle;
        }
    }

    /// Whether fewer buffers are posted than there should be.
    #[inline]
    pub(super) fn is_short(&self) -> bool {
        self.posted < self.wanted
    }

    /// Posts buffers until there are enough.
    pub(super) fn replenish(&mut self, target: &mut Target<'_>) -> Result<()> {
        while self.posted < self.wanted {
            let index = match self.buffers.iter().position(|buffer| buffer.state == State::Idle) {
                Some(index) => index,
                None if self.buffers.len() < MAX_BUFFERS => self.add(target)?,
                None => match self.oldest_settling() {
                    // So many buffers later, the gaps in this one are no messages that still arrive but padding
                    // between messages, which fi_msg(3) allows providers.
                    Some(index) => index,
                    None if self.posted > 0 => return Ok(()),
                    None => {
                        return Err(err!(
                            Other,
                            "all {MAX_BUFFERS} receive buffers were lost to errors of the libfabric provider"
                        ));
                    }
                },
            };
            let buffer = &mut self.buffers[index];
            self.postings += 1;
            (buffer.arrived, buffer.end, buffer.posting) = (0, 0, self.postings);
            // shm says ENOMEM, before it has taken the buffer, while messages that wait use up its entries.
            let busy = |error: &CallError| error.code == libc::ENOMEM && self.posted > 0;
            // SAFETY: the pages and the context live until the endpoint is closed (the lane's field order), nobody
            // writes to them, and they are read only through completions.
            let posted = unsafe {
                target.endpoint.receive_many(
                    buffer.pages.base(),
                    buffer.pages.len(),
                    buffer.descriptor,
                    self.contexts.pointer(index),
                )
            };
            match posted {
                Ok(Posted::Accepted) => buffer.state = State::Posted,
                Ok(Posted::Again) => return Ok(()),
                Err(error) if busy(&error) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            self.posted += 1;
        }
        Ok(())
    }

    fn oldest_settling(&self) -> Option<usize> {
        let settling = self
            .buffers
            .iter()
            .enumerate()
            .filter(|(_, buffer)| buffer.state == State::Settling);
        settling
            .min_by_key(|(_, buffer)| buffer.posting)
            .map(|(index, _)| index)
    }

    /// Adds an idle buffer.
    fn add(&mut self, target: &mut Target<'_>) -> Result<usize> {
        let pages = Pages::map(self.size)?;
        let descriptor = match &mut target.registered {
            None => std::ptr::null_mut(),
            Some(registered) => {
                let key = super::keys::local(registered.len());
                // SAFETY: the pages outlive the region (the lane's field order).
                let region = unsafe {
                    MemoryRegion::register(
                        target.domain,
                        target.endpoint,
                        pages.base(),
                        pages.len(),
                        Access::Receive,
                        key,
                    )
                }?;
                let descriptor = region.descriptor();
                registered.push(region);
                descriptor
            }
        };
        self.buffers.push(Buffer {
            pages,
            descriptor,
            state: State::Idle,
            arrived: 0,
            end: 0,
            posting: 0,
        });
        Ok(self.buffers.len() - 1)
    }
}

/// A receive that failed, as an error of the lane.
pub(super) fn is_benign(error: &CallError) -> bool {
    // A stranger's message that is too long for its place, or a connection that ended in the middle of one.
    error.is_unreachable()
        || matches!(
            error.code,
            libc::EMSGSIZE | libc::EIO | libc::ECANCELED | libc::EPROTO | libc::ENOBUFS
        )
        || error.code >= 256
}
