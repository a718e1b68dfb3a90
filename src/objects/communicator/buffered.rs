//! Sends in buffered mode (MPI 5.0 sections 3.4 and 3.6): local, whatever the receiver does.

use std::sync::Arc;

use super::Communicator;
use crate::base::error::Result;
use crate::data::memory::Memory;
use crate::engine::buffered::{Attachment, BufferSlot, SendBuffer};
use crate::engine::request::RequestId;
use crate::engine::{Send, Tried};
use crate::err;
use crate::identity::Context;
use crate::instance::Instance;

impl Communicator {
    /// Starts a send in buffered mode to a rank: it is sent at once, or copied to the buffer. No buffer counts as
    /// one without room. `None`: no request was asked for.
    ///
    /// # Safety
    /// The memory is valid during the call, and nobody writes to it meanwhile.
    pub unsafe fn send_buffered(
        &self,
        buffer: Option<&Arc<SendBuffer>>,
        to: u32,
        tag: i32,
        memory: Memory,
        request: bool,
    ) -> Result<Option<RequestId>> {
        let bytes = memory.len();
        match buffer {
            Some(buffer) => buffer.holds(bytes)?,
            None if bytes > 0 => {
                return Err(err!(
                    Buffer,
                    "the message has {bytes} bytes, but no buffer is attached to the communicator, its session or the \
                     process"
                ));
            }
            None => {}
        }
        let message = |memory| self.message(to, tag, memory, false);
        // SAFETY: the caller keeps the memory valid and unchanged for the call; what does not go at once comes back.
        match unsafe { self.instance.engine().try_send(&message(memory.clone()), request) } {
            Tried::Sent(id) => return Ok(id),
            Tried::NotNow => {}
        }
        let mut slot = match buffer {
            Some(buffer) => self.reserve(buffer, bytes)?,
            None => SendBuffer::automatic().reserve(bytes)?,
        };
        // The engine is not locked while a long message is copied.
        // SAFETY: the memory is readable for the call, as the caller says; that many bytes were reserved.
        unsafe { slot.fill(&memory) };
        let Send { peer, envelope, .. } = message(memory);
        self.instance.engine().send_from(peer, envelope, slot, request)
    }

    /// Room in the buffer, after freeing that of messages that have left.
    fn reserve(&self, buffer: &Arc<SendBuffer>, bytes: u64) -> Result<BufferSlot> {
        loop {
            match buffer.reserve(bytes) {
                Err(full) if !self.instance.step() => return Err(full),
                Err(_) => {}
                slot => return slot,
            }
        }
    }
}

impl Instance {
    /// Detaches a buffer, and waits until all its messages have left. The result is an error if one was lost.
    pub fn detach(
        self: &Arc<Self>,
        attachment: &Attachment,
        context: Context,
    ) -> (Option<Arc<SendBuffer>>, Result<()>) {
        let Some(buffer) = attachment.take() else {
            return (None, Ok(()));
        };
        let result = self.flush(&buffer, context);
        (Some(buffer), result)
    }

    /// Waits until all messages that are in some buffers now have left. The result is an error if one was lost.
    pub fn flush_all(self: &Arc<Self>, buffers: &[Arc<SendBuffer>]) -> Result<()> {
        let mut result = Ok(());
        for buffer in buffers {
            result = result.and(self.flush(buffer, Context::NONE));
        }
        result
    }

    /// Waits until all messages that are in a buffer now have left.
    pub fn flush(self: &Arc<Self>, buffer: &SendBuffer, context: Context) -> Result<()> {
        let flushed = self.engine().flush_buffer(buffer, context);
        self.wait(flushed).error.map_or(Ok(()), |error| Err(*error))
    }
}
