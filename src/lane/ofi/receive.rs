//! Receive buffers. As a rule many messages share one: libfabric puts message after message into it (`FI_MULTI_RECV`),
//! and releases it when it has no room left for the longest message.
//!
//! The hard case: the notification that a buffer is released (`FI_MULTI_RECV` in a completion) can come with its last
//! message, while earlier ones are still arriving: a TCP provider reads each message straight into its place, part by
//! part as parts come, so each connection can have an incomplete message in some buffer. So a buffer is posted again only
//! when every byte up to the end of its last message is accounted for; until then another one is used instead. There are
//! as many buffers as that needs, about one for each peer at worst.
//!
//! A receive that fails (a connection that ends in the middle of a message) has no length: libfabric's TCP providers
//! report neither where it was nor how long. Then it is not known whether the rest of that buffer still arrives, and it
//! is not used again. So from the first failure on, each new buffer takes one message only: such a receive ends once,
//! with or without an error, and then libfabric no longer uses its buffer. That costs a call of libfabric for each
//! message, but no more buffers are lost. The same is done where more than [`SHARED_MOST`] buffers wait for messages to
//! end, whoever sends them.
//!
//! libfabric does not report either that an incomplete message has taken the last room of a buffer. But buffers are
//! filled in the order in which they were posted: a message in one of them shows that those before it have no room left,
//! and others are posted instead. And where bytes stay in the sockets while no message comes
//! ([`ReceiveBuffers::distrust`]), all buffers are held by incomplete messages.
//!
//! What does not belong here: what becomes of a message (the lane hands it to the engine), how long and how many buffers are at first
//! (`tuning`), and finding out that bytes stay in the sockets (the lane, with `system::fabric`).

use std::collections::VecDeque;

use crate::system::fabric::{Access, CallError, Completion, Domain, Endpoint, MemoryRegion, Posted, Takes};
use std::ffi::c_void;
use std::rc::Rc;

use super::memory::{Contexts, Pages};
use crate::base::error::Result;
use crate::err;

/// The most buffers. Those that do not exist take only addresses, no memory.
const MOST: usize = 1 << 16;

/// The most shared buffers: a message of a few bytes is enough to hold each of them.
const SHARED_MOST: usize = 64;

/// How many buffers for one message each are posted, where the provider has room for them.
const SINGLES: usize = 32;

/// The state of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BufferState {
    /// With libfabric, for many messages.
    Shared,
    /// With libfabric, for one message.
    Single,
    /// Released by libfabric, with messages that are still arriving, or may be.
    Settling,
    /// Free.
    Idle,
}

struct Buffer {
    pages: Pages,
    descriptor: *mut c_void,
    state: BufferState,
    /// Bytes of messages that completed.
    arrived: usize,
    /// The end of the last message that completed; `usize::MAX`: where the last one ends is not known.
    end: usize,
    /// The number of its last posting, among all postings.
    posting: u64,
}

/// All of a lane's receive buffers.
pub(super) struct ReceiveBuffers {
    buffers: Vec<Buffer>,
    /// Those that are free; the last one is used next, as its memory is warm.
    idle: Vec<usize>,
    contexts: Contexts,
    /// Bytes of a buffer that messages share.
    size: usize,
    /// Bytes of the longest message.
    message: usize,
    /// Whether new postings are for one message each.
    singles: bool,
    wanted_singles: usize,
    /// How many buffers with room should be posted, of the kind that `singles` selects.
    wanted: usize,
    /// The buffers with room, as far as is known, in the order of their postings.
    posted: VecDeque<usize>,
    postings: u64,
    /// The posting from which the last message came.
    newest: u64,
}

// SAFETY: descriptors are libfabric's, of no thread in particular.
unsafe impl Send for ReceiveBuffers {}

/// What the buffers need to be posted.
pub(super) struct Target<'a> {
    pub endpoint: &'a Rc<Endpoint>,
    pub domain: &'a Rc<Domain>,
    /// Where regions of new buffers go; `None`: the provider needs none.
    pub registered: Option<&'a mut Vec<MemoryRegion>>,
}

impl ReceiveBuffers {
    /// `wanted` buffers of `size` bytes, for messages of at most `message` bytes, with a provider that has room for `entries`
    /// posted ones. None is posted yet: call [`ReceiveBuffers::replenish`].
    pub(super) fn new(size: usize, wanted: usize, message: usize, entries: usize) -> Result<ReceiveBuffers> {
        Ok(ReceiveBuffers {
            buffers: Vec::new(),
            idle: Vec::new(),
            contexts: Contexts::new(MOST)?,
            size: size.max(message),
            message,
            singles: false,
            wanted: wanted.clamp(1, SHARED_MOST),
            wanted_singles: SINGLES.min(entries / 2).max(1),
            posted: VecDeque::new(),
            postings: 0,
            newest: 0,
        })
    }

    /// Which buffer a context belongs to.
    #[inline]
    pub(super) fn index(&self, context: *mut c_void) -> Option<usize> {
        self.contexts
            .index(context)
            .filter(|index| *index < self.buffers.len())
    }

    /// The message of a completion; `None` where it lies outside the buffer, which only a broken provider reports.
    #[inline]
    pub(super) fn message(&mut self, index: usize, completion: &Completion) -> Option<&[u8]> {
        let buffer = &mut self.buffers[index];
        let offset = match buffer.state {
            // Providers need not report where the only message of a buffer is.
            BufferState::Single => 0,
            _ => (completion.buffer() as usize).wrapping_sub(buffer.pages.base() as usize),
        };
        let end = offset
            .checked_add(completion.len())
            .filter(|end| *end <= buffer.pages.len())?;
        buffer.arrived += completion.len();
        buffer.end = buffer.end.max(end);
        // SAFETY: the range is inside the buffer's pages, libfabric has written it and writes there no more until the
        // buffer is posted again, which needs `&mut self`.
        Some(unsafe { std::slice::from_raw_parts(buffer.pages.base().add(offset), completion.len()) })
    }

    /// Notes that a buffer's message completed, and whether libfabric releases the buffer. `true`: a buffer is missing.
    #[inline]
    pub(super) fn settle(&mut self, index: usize, completion: &Completion) -> bool {
        let buffer = &self.buffers[index];
        if buffer.posting == self.newest
            && buffer.state == BufferState::Shared
            && !completion.releases_buffer()
        {
            return false;
        }
        self.settle_rarely(index, completion);
        self.is_short()
    }

    /// The rest of [`ReceiveBuffers::settle`]: for the first message of a buffer, the last one, and those that come late.
    fn settle_rarely(&mut self, index: usize, completion: &Completion) {
        let buffer = &self.buffers[index];
        let (state, released) = (buffer.state, completion.releases_buffer());
        let complete = buffer.arrived >= buffer.end;
        self.newest = self.newest.max(buffer.posting);
        while let Some(&first) = self.posted.front()
            && self.buffers[first].posting < self.newest
        {
            self.posted.pop_front();
        }
        match state {
            BufferState::Single => self.end(index, BufferState::Idle),
            // A notification that comes alone means that libfabric no longer uses the buffer (fi_cq(3)); one that comes with a message
            // means only that it puts no further message there.
            BufferState::Shared if released && (complete || !completion.is_receive()) => {
                self.end(index, BufferState::Idle)
            }
            BufferState::Shared if released => self.end(index, BufferState::Settling),
            BufferState::Settling if complete => self.end(index, BufferState::Idle),
            BufferState::Shared | BufferState::Settling | BufferState::Idle => {}
        }
    }

    /// Notes that a buffer is no longer with libfabric, or has no more room.
    fn end(&mut self, index: usize, state: BufferState) {
        if self.posted.front() == Some(&index) {
            self.posted.pop_front();
        } else {
            // After a failure, or with a provider that does not keep the order.
            self.posted.retain(|&other| other != index);
        }
        self.buffers[index].state = state;
        if state == BufferState::Idle {
            self.idle.push(index);
        }
    }

    /// Notes that a receive failed, and whether libfabric releases the buffer.
    #[cold]
    pub(super) fn failed(&mut self, index: usize, released: bool) {
        match self.buffers[index].state {
            BufferState::Single => self.end(index, BufferState::Idle),
            // Other messages may still be arriving, anywhere in it.
            BufferState::Shared if released => {
                self.buffers[index].end = usize::MAX;
                self.end(index, BufferState::Settling);
            }
            // Where it is still posted it stays so: later messages go there.
            BufferState::Shared | BufferState::Settling | BufferState::Idle => {}
        }
        self.share_no_more();
    }

    /// Makes each new buffer take one message only. Shared ones that are still posted don't count any more: after a failure it is
    /// not known whether libfabric still has them (ofi_rxm drops one whose last message fails, without any report).
    #[cold]
    pub(super) fn share_no_more(&mut self) {
        if !std::mem::replace(&mut self.singles, true) {
            self.wanted = self.wanted_singles;
            self.posted.clear();
        }
    }

    /// Called when messages wait for a buffer though some are posted: incomplete messages hold all that are posted, at
    /// most one for each connection. Others are to be posted.
    #[cold]
    pub(super) fn distrust(&mut self, connections: usize) {
        self.share_no_more();
        if self.buffers.len() - self.idle.len() <= connections + SHARED_MOST + self.wanted {
            self.posted.clear();
        }
    }

    /// The context by which libfabric names a buffer.
    #[cfg(test)]
    pub(super) fn context_of(&self, index: usize) -> *mut c_void {
        self.contexts.pointer(index)
    }

    /// Whether messages share the buffers that are posted from now on.
    #[cfg(test)]
    pub(super) fn are_shared(&self) -> bool {
        !self.singles
    }

    /// How many buffers there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.buffers.len()
    }

    /// Whether fewer buffers are posted than there should be.
    #[inline]
    pub(super) fn is_short(&self) -> bool {
        self.posted.len() < self.wanted
    }

    /// Posts buffers until there are enough.
    pub(super) fn replenish(&mut self, target: &mut Target<'_>) -> Result<()> {
        while self.is_short() {
            let index = match self.idle.pop() {
                Some(index) => index,
                None => match self.add(target) {
                    Ok(index) => index,
                    // As long as one is left messages arrive, if slower.
                    Err(_) if !self.posted.is_empty() => return Ok(()),
                    Err(error) => return Err(error),
                },
            };
            let buffer = &mut self.buffers[index];
            self.postings += 1;
            (buffer.arrived, buffer.end, buffer.posting) = (0, 0, self.postings);
            let (state, takes, len) = if self.singles {
                (BufferState::Single, Takes::One, self.message)
            } else {
                (BufferState::Shared, Takes::Many, buffer.pages.len())
            };
            // SAFETY: the pages and the context live until the endpoint is closed (the lane's field order), nobody
            // writes to them, and they are read only through completions.
            let posted = unsafe {
                target.endpoint.receive(
                    takes,
                    buffer.pages.base(),
                    len,
                    buffer.descriptor,
                    self.contexts.pointer(index),
                )
            };
            if posted == Ok(Posted::Accepted) {
                buffer.state = state;
                self.posted.push_back(index);
                continue;
            }
            self.idle.push(index);
            match posted {
                // shm returns ENOMEM, before it has taken the buffer, while messages that wait use up its entries.
                Err(error) if error.code != libc::ENOMEM || self.posted.is_empty() => {
                    return Err(error.into());
                }
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// Adds a buffer, which the caller has to post or to add to the free ones.
    fn add(&mut self, target: &mut Target<'_>) -> Result<usize> {
        if !self.singles && self.buffers.len() == SHARED_MOST {
            self.share_no_more();
        }
        if self.buffers.len() == MOST {
            return Err(err!(
                Other,
                "all {MOST} receive buffers are held by incomplete messages"
            ));
        }
        let pages = Pages::map(if self.singles { self.message } else { self.size })?;
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
            state: BufferState::Idle,
            arrived: 0,
            end: 0,
            posting: 0,
        });
        Ok(self.buffers.len() - 1)
    }
}

/// A receive that failed, as an error of the lane.
pub(super) fn is_benign(error: &CallError) -> bool {
    // an unauthenticated sender's message that is too long for its place, or a connection that ended in the middle of one.
    error.is_unreachable()
        || matches!(
            error.code,
            libc::EMSGSIZE | libc::EIO | libc::ECANCELED | libc::EPROTO | libc::ENOBUFS
        )
        || error.code >= 256
}

#[cfg(test)]
mod tests;
