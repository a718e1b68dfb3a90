//! The one place where headers are made and messages are handed to lanes.

use super::Operation;
use super::peer::Peer;
use super::wire::{FLAG_BACKPRESSURE, HEADER_BYTES, Header, MessageKind};
use crate::base::error::Result;
use crate::base::slab::Slab;
use crate::data::memory::Memory;
use crate::data::pieces::Piece;
use crate::identity::PeerIndex;
use crate::lane::{Lane, Limits, Sent};

/// The contents of a message's header, except for what the connection to its receiver adds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words {
    /// What the message is for.
    pub kind: MessageKind,
    /// Flags of its kind: all but the highest bit, which is the engine's.
    pub flags: u8,
    /// A tag.
    pub tag: i32,
    /// A number; of the engine's own kinds see [`Header::context`].
    pub context: u64,
    /// A number; of the engine's own kinds see [`Header::arg`].
    pub arg: u64,
}

impl Peer {
    /// The header of the next message to this peer, from this process's rank in its job. [`Peer::went`] follows once the lane has taken the message.
    #[inline(always)]
    pub(super) fn header(&self, rank: u32, words: Words) -> Header {
        let Words {
            kind,
            flags,
            tag,
            context,
            arg,
        } = words;
        Header {
            token: self.token,
            kind,
            flags: flags
                | if self.flow.asks_backpressure {
                    FLAG_BACKPRESSURE
                } else {
                    0
                },
            ack: self.next_in as u16,
            src: rank,
            seq: self.next_out,
            tag,
            context,
            arg,
        }
    }
}

/// The bytes after a header.
pub(super) enum Body<'a> {
    /// Bytes that stay unchanged until the operation has ended; or so few that the lane copies them.
    Lasting(Piece),
    /// Bytes of our own, which are kept as long as the lane needs them.
    Owned(Vec<u8>),
    /// A number of the packed bytes of memory, from an offset on, which the lane copies.
    Packed(&'a Memory, u64, usize),
}

/// The outcome of handing over a message.
pub(super) struct Handed {
    pub sent: Sent,
    /// Bytes of our own that the lane does not need.
    pub back: Option<Vec<u8>>,
}

/// Hands a message to a lane. If it keeps the message's bytes, `operation` is noted under the token that it gets, and holds them if
/// they are our own.
///
/// # Safety
/// [`Body::Lasting`] is readable and unchanged until the lane has completed the operation, and [`Body::Packed`] is readable.
pub(super) unsafe fn hand(
    lane: &mut dyn Lane,
    limits: &Limits,
    operations: &mut Slab<Operation>,
    to: PeerIndex,
    header: &[u8; HEADER_BYTES],
    body: Body,
    operation: impl FnOnce() -> Operation,
) -> Result<Handed> {
    let (payload, owned) = match body {
        Body::Packed(memory, from, len) => {
            debug_assert!(HEADER_BYTES + len <= limits.buffered);
            let sent = lane.send_packed(to, header, len, &mut |into| {
                // SAFETY: the caller says that the memory is readable.
                unsafe { memory.pack(from, into) };
            })?;
            return Ok(Handed { sent, back: None });
        }
        Body::Lasting(payload) => (payload, None),
        Body::Owned(bytes) => (Piece::of(&bytes), Some(bytes)),
    };
    let pending = HEADER_BYTES + payload.len > limits.buffered;
    let token = match pending {
        true => operations.insert(operation()),
        false => u32::MAX,
    };
    // SAFETY: bytes that stay with the lane are lasting, as the caller promises, or owned, and then kept in the operation below.
    let sent = unsafe { lane.send(to, header, payload, token.into()) };
    if pending && !matches!(sent, Ok(Sent::Pending)) {
        operations.remove(token);
    }
    let sent = sent?;
    let mut back = owned;
    if sent == Sent::Pending
        && let Some(Operation::Message { owned, .. }) = operations.get_mut(token)
    {
        *owned = back.take();
    }
    Ok(Handed { sent, back })
}
