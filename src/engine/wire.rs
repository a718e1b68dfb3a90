//! The one header that stands in front of every active message. `docs/wire.md` draws it.
//!
//! Bytes off a wire are input: [`Header::parse`] checks all that can be checked without the engine's state.

use crate::lane::ProcId;

pub use crate::lane::HEADER_BYTES;

/// What a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A user's or collective's message, whole: the payload is the packed data. With `FLAG_SYNC` the sender's request
    /// (8 bytes) stands before it.
    Eager = 1,
    /// Request to send (rendezvous): the payload says the size, the sender's request and, where it may be read,
    /// the memory's key (`send::Rts`).
    Rts = 2,
    /// Clear to send: the receiver wants the data as `Data` messages.
    Cts = 3,
    /// A part of a rendezvous message's data.
    Data = 4,
    /// The receiver is done with a rendezvous or synchronous send's buffer.
    Done = 5,
    /// Take back the message whose sequence number is in `arg`.
    Cancel = 6,
    /// The answer to `Cancel`; flag bit 0: it was taken back.
    CancelReply = 7,
    /// Says nothing but what every header says: how many messages have been taken.
    Ack = 8,
    /// The sender waits for the receiver in a collective operation: its context id, and the tag of its messages in `arg`.
    Waits = 9,
}

impl Kind {
    fn from_u8(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::Eager,
            2 => Kind::Rts,
            3 => Kind::Cts,
            4 => Kind::Data,
            5 => Kind::Done,
            6 => Kind::Cancel,
            7 => Kind::CancelReply,
            8 => Kind::Ack,
            9 => Kind::Waits,
            _ => return None,
        })
    }
}

/// Flag of `Eager`: the sender waits for `Done` (synchronous mode).
pub const FLAG_SYNC: u8 = 1;
/// Flag of `Rts`: the data follows at once, as `Data` messages with the same flag, which name the sender's request.
pub const FLAG_PUSHED: u8 = 1;
/// Flag of `CancelReply`: the message was taken back.
pub const FLAG_CANCELLED: u8 = 1;
/// Flag of every kind: the sender of this message holds as many bytes of unexpected messages of its receiver as it
/// will, and asks for requests to send (`Rts`) in place of eager messages.
pub const FLAG_PRESSED: u8 = 0x80;

/// Little-endian on the wire, [`HEADER_BYTES`] long, at these offsets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// 0: the receiver's secret, which only its address card tells; others' messages do not count.
    pub token: u64,
    /// 8: what the message is for.
    pub kind: Kind,
    /// 9: see the `FLAG_` constants.
    pub flags: u8,
    /// 10: how many messages of the receiver's stream `src` has taken, modulo 2^16.
    pub ack: u16,
    /// 12: who sent it.
    pub src: ProcId,
    /// 16: position in the stream from `src` to the receiver, from 0, wrapping.
    pub seq: u32,
    /// 20: the MPI tag.
    pub tag: i32,
    /// 24: `Eager`, `Rts`: the context id; others: the receiver's request.
    pub context: u64,
    /// 32: `Eager`, `Rts`: the sender's rank in the communicator (low half); `Data`: the offset in bytes; others: the
    /// sender's request or a sequence number.
    pub arg: u64,
}

impl Header {
    /// The bytes for the wire.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let kind = self.kind as u8;
        // By words, for the lanes read words again: a load that spans several stores waits until they have reached the cache.
        let words = [
            self.token,
            u64::from(kind)
                | u64::from(self.flags) << 8
                | u64::from(self.ack) << 16
                | u64::from(self.src.0) << 32,
            u64::from(self.seq) | u64::from(self.tag as u32) << 32,
            self.context,
            self.arg,
        ];
        let mut bytes = [0; HEADER_BYTES];
        for (at, word) in words.into_iter().enumerate() {
            bytes[8 * at..8 * at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The header and the payload behind it, if the bytes can be a message at all.
    #[inline]
    pub fn parse(message: &[u8]) -> Option<(Header, &[u8])> {
        let (head, payload) = message.split_first_chunk()?;
        Some((Header::decode(head)?, payload))
    }

    /// The header of these bytes, if they can be one.
    #[inline]
    pub fn decode(head: &[u8; HEADER_BYTES]) -> Option<Header> {
        let u32_at = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        Some(Header {
            token: u64_at(0),
            kind: Kind::from_u8(head[8])?,
            flags: head[9],
            ack: u16::from_le_bytes([head[10], head[11]]),
            src: ProcId(u32_at(12)),
            seq: u32_at(16),
            tag: u32_at(20) as i32,
            context: u64_at(24),
            arg: u64_at(32),
        })
    }
}
