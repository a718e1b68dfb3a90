//! The header at the start of every message. `docs/wire.md` has its layout.
//!
//! Bytes from the network are untrusted input: [`Header::parse`] checks all that can be checked without the engine's
//! state.

use crate::identity::PeerIndex;

pub use crate::lane::HEADER_BYTES;

/// What a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageKind(u8);

impl MessageKind {
    /// A user's or collective's message, whole: the payload is the packed data. With `FLAG_SYNC` the sender's request
    /// (8 bytes) precedes it.
    pub const EAGER: MessageKind = MessageKind(1);
    /// Request to send (rendezvous): the payload contains the size, the sender's request and, where it may be read,
    /// the memory's key (`rendezvous::Rts`).
    pub const RTS: MessageKind = MessageKind(2);
    /// Clear to send: the receiver wants the data as `DATA` messages.
    pub const CTS: MessageKind = MessageKind(3);
    /// A part of a rendezvous message's data.
    pub const DATA: MessageKind = MessageKind(4);
    /// The receiver is done with a rendezvous or synchronous send's buffer.
    pub const DONE: MessageKind = MessageKind(5);
    /// Cancels the message whose sequence number is in `arg`.
    pub const CANCEL: MessageKind = MessageKind(6);
    /// The answer to `CANCEL`; flag bit 0: it was taken back.
    pub const CANCEL_REPLY: MessageKind = MessageKind(7);
    /// Contains only what every header contains: how many messages have been taken.
    pub const ACK: MessageKind = MessageKind(8);
    /// The sender waits for the receiver in a collective operation: its context id, and the tag of its messages in `arg`.
    pub const WAITS: MessageKind = MessageKind(9);
    /// The answer to a `CTS` for a send that was given up: no more of its data comes. `arg`: the receiver's request.
    pub const GONE: MessageKind = MessageKind(10);

    /// The first message to a process of another job: the payload is the sender's name and its card.
    pub const HELLO: MessageKind = MessageKind(11);
    /// The last message to a process of another job, unless the two meet again.
    pub const BYE: MessageKind = MessageKind(12);

    /// For whoever serves the context ([`super::dispatch::Serve`]); `arg` is the server's, its low half the sender's rank in the communicator.
    pub const SERVICE: MessageKind = MessageKind(13);

    /// Its number in a header.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// Flag of `Eager`: the sender waits for `Done` (synchronous mode).
pub const FLAG_SYNC: u8 = 1;
/// Flag of `Rts`: the data follows at once, as `Data` messages with the same flag, which name the sender's request.
pub const FLAG_PIPELINED: u8 = 1;
/// Flag of `CancelReply`: the message was taken back.
pub const FLAG_CANCELLED: u8 = 1;
/// Flag of `Service`: an eager message without contents comes with it, behind it, of the same sender and with its tag, in its context.
pub const FLAG_FOLLOWED: u8 = 1;
/// Flag of `Service`, with the former: in the context for collective operations.
pub const FLAG_COLLECTIVE: u8 = 2;
/// Flag of every kind: the sender of this message holds as many bytes of unexpected messages of its receiver as it
/// accepts, and asks for requests to send (`Rts`) in place of eager messages.
pub const FLAG_BACKPRESSURE: u8 = 0x80;

/// Little-endian on the wire, [`HEADER_BYTES`] long, at these offsets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header<Sender = u32> {
    /// 0: the receiver's token, which only its business card contains; messages with another token are ignored.
    pub token: u64,
    /// 8: what the message is for.
    pub kind: MessageKind,
    /// 9: see the `FLAG_` constants.
    pub flags: u8,
    /// 10: how many messages of the receiver's stream the sender has taken, modulo 2^16.
    pub ack: u16,
    /// 12: who sent it. On the wire it is the rank in its job; which job that is, the token shows. Of a message whose token was
    /// checked it is the process's index here.
    pub src: Sender,
    /// 16: position in the stream from the sender to the receiver, from 0, wrapping.
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
        let kind = self.kind.0;
        // By words, because the lanes read words: a load that spans several stores waits until they have reached the cache.
        let words = [
            self.token,
            u64::from(kind)
                | u64::from(self.flags) << 8
                | u64::from(self.ack) << 16
                | u64::from(self.src) << 32,
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
        Some((Header::decode(head), payload))
    }

    /// The header of these bytes. The caller checks whether it makes sense.
    #[inline]
    pub fn decode(head: &[u8; HEADER_BYTES]) -> Header {
        let u32_at = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        Header {
            token: u64_at(0),
            kind: MessageKind(head[8]),
            flags: head[9],
            ack: u16::from_le_bytes([head[10], head[11]]),
            src: u32_at(12),
            seq: u32_at(16),
            tag: u32_at(20) as i32,
            context: u64_at(24),
            arg: u64_at(32),
        }
    }

    /// The same, sent by this process.
    #[inline(always)]
    pub fn of(self, src: PeerIndex) -> Header<PeerIndex> {
        let Header {
            token,
            kind,
            flags,
            ack,
            src: _,
            seq,
            tag,
            context,
            arg,
        } = self;
        Header {
            token,
            kind,
            flags,
            ack,
            src,
            seq,
            tag,
            context,
            arg,
        }
    }
}
