//! A rank's buffers for buffered mode: attached to its communicators, its sessions and the process, flushed and detached, or
//! left to the end of what they are attached to. When a buffer is detached its memory is the user's again, who scribbles it
//! over at once.

use std::cell::RefCell;
use std::sync::Arc;

use fastrand::Rng;
use weft::engine::buffered::{ALIGNMENT, Attachment, SendBuffer};
use weft::engine::request::{Outcome, RequestId};
use weft::identity::Context;
use weft::sim::{Buffer, Rank};

use super::plan::{Message, Mode};

/// The memory of each buffer that is attached or has messages; none: `MPI_BUFFER_AUTOMATIC`.
#[derive(Default)]
pub struct Rooms(RefCell<Vec<(Arc<SendBuffer>, Option<Buffer>)>>);

impl Rooms {
    /// Attaches a buffer with room for so many bytes.
    pub fn attach(&self, rank: &Rank, rng: &mut Rng, attachment: &Attachment, bytes: usize) {
        let memory = (rng.u32(..4) != 0).then(|| rank.blank(bytes));
        let buffer = memory.as_ref().map_or_else(SendBuffer::automatic, Buffer::room);
        attachment
            .attach(buffer.clone(), "it")
            .expect("nothing was attached");
        self.0.borrow_mut().push((buffer, memory));
    }

    /// A detached buffer has no message any more: its memory is the user's.
    pub fn forget(&self, buffer: &Arc<SendBuffer>) {
        let mut rooms = self.0.borrow_mut();
        let place = rooms.iter().position(|(other, _)| Arc::ptr_eq(other, buffer));
        rooms.swap_remove(place.expect("it was attached"));
    }
}

/// Room for all messages of a rank that `concerns`, though none has left: the least that the standard promises them.
pub fn room_for(messages: &[Message], rank: u32, concerns: impl Fn(usize) -> bool) -> usize {
    let mine = messages
        .iter()
        .filter(|message| message.from == rank && message.mode == Mode::Buffered && concerns(message.domain));
    mine.map(|message| message.bytes + ALIGNMENT).sum()
}

/// A buffer on its way out: detached, or to be emptied.
pub struct Leaving {
    buffer: Arc<SendBuffer>,
    flush: RequestId,
}

impl Leaving {
    /// Begins to wait for the messages that are in a buffer.
    pub fn of(rank: &Rank, buffer: Arc<SendBuffer>) -> Leaving {
        let flush = rank
            .instance()
            .engine()
            .flush_buffer(&buffer, Context::of_bits(0));
        Leaving { buffer, flush }
    }

    /// Whether all of them have left.
    pub fn is_empty(&self, rank: &Rank) -> bool {
        rank.has_ended(self.flush)
    }

    /// Waits until they have. None was lost.
    pub async fn leaves(self, rank: &Rank) -> Arc<SendBuffer> {
        assert_eq!(rank.wait(self.flush).await, Outcome::EMPTY);
        self.buffer
    }

    /// They must have by now.
    pub fn has_left(self, rank: &Rank) -> Arc<SendBuffer> {
        let flushed = rank.instance().engine().take(self.flush);
        assert_eq!(flushed, Some(Outcome::EMPTY), "messages are left in a buffer");
        self.buffer
    }
}
