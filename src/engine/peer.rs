//! What the engine knows of a process that it talks to.

use std::collections::{BTreeMap, VecDeque};

use super::request::RequestId;
use super::wire::{FLAG_PRESSED, Kind};
use crate::error::Error;

/// A process that this one has sent to or heard from.
pub struct Peer {
    /// Whether messages can be handed to its lane.
    pub link: Link,
    /// What its address card says that messages to it must show.
    pub token: u64,
    /// Its lane.
    pub lane: usize,
    /// Sequence number of the next message to it.
    pub next_out: u32,
    /// Sequence number of the next message from it.
    pub next_in: u32,
    /// Messages that the lane has not taken yet, in order.
    pub queue: VecDeque<Outgoing>,
    /// Rendezvous and pushed messages whose data is being sent, in turn.
    pub streams: VecDeque<Stream>,
    /// The pushed messages from it of which more is to come.
    pub arriving: Vec<u32>,
    /// Messages that came before their turn (lanes without order).
    pub held: BTreeMap<u32, Vec<u8>>,
    /// Whether it is in the engine's list of peers with something to send.
    pub listed: bool,
    /// The largest payload to send eagerly, in bytes.
    pub eager: usize,
    /// The largest payload to push, in bytes.
    pub pushed: usize,
    /// Payloads of fewer bytes are sent eagerly and are copied by the lane at once.
    pub at_once: usize,
    /// How much may be on its way.
    pub flow: Flow,
}

/// Flow control: how far each side of a pair of streams has come. A sender holds back what would be more than a window
/// ahead of what the receiver has taken, so that what a late receiver has not polled yet fits into the transport's
/// buffers; and it does not send eagerly what the receiver has no memory for.
///
/// Every header tells how many messages its sender has taken. Where nothing goes back for half a window, an `Ack` does,
/// which is the one kind of message that no window holds up.
pub struct Flow {
    /// How many messages may be on their way to the peer.
    pub window: u32,
    /// How many messages (modulo 2^32) the peer has taken.
    pub acked: u32,
    /// How many messages of the peer it knows that this process has taken.
    pub told: u32,
    /// The peer must be told, by a message of its own if there is no other.
    pub due: bool,
    /// Something waits for the window.
    pub blocked: bool,
    /// Bytes of unexpected messages of the peer held here.
    pub held_bytes: u64,
    /// They are too many: the peer is to send no more eagerly.
    pub pressing: bool,
    /// What the peer says of the same.
    pub pressed: bool,
}

/// What the header of the next message says of flow control.
#[derive(Clone, Copy)]
pub struct Stamp {
    /// The message's number.
    pub seq: u32,
    /// How many messages of the other side were taken.
    pub ack: u16,
    /// `FLAG_PRESSED` or 0.
    pub flags: u8,
}

/// The state of the way to a peer.
#[derive(Clone, PartialEq, Debug)]
pub enum Link {
    /// Nothing was asked for.
    Unknown,
    /// Its address card is being looked up.
    LookingUp,
    /// Messages can be sent.
    Up,
    /// It can't be reached any more, for this reason.
    Lost(Error),
}

/// A message in the queue of a peer.
pub struct Outgoing {
    /// What for.
    pub kind: Kind,
    /// Header fields, as in `wire::Header`.
    pub flags: u8,
    /// Header field.
    pub tag: i32,
    /// Header field.
    pub context: u64,
    /// Header field.
    pub arg: u64,
    /// What follows the header.
    pub payload: Payload,
    /// The send that it belongs to, to be told when it has gone.
    pub request: Option<RequestId>,
}

/// What follows the header of a queued message.
pub enum Payload {
    /// Few bytes of our own.
    Short {
        /// How many.
        len: u8,
        /// The bytes.
        bytes: [u8; 96],
    },
    /// Bytes of our own.
    Owned(Vec<u8>),
    /// The bytes of the send's own memory, which is flat.
    OfRequest,
}

impl Payload {
    /// No bytes.
    pub const NONE: Payload = Payload::Short {
        len: 0,
        bytes: [0; 96],
    };

    /// A copy of few bytes.
    pub fn short(from: &[u8]) -> Payload {
        let mut bytes = [0; 96];
        match bytes.get_mut(..from.len()) {
            Some(place) => {
                place.copy_from_slice(from);
                Payload::Short {
                    len: from.len() as u8,
                    bytes,
                }
            }
            None => Payload::Owned(from.to_vec()),
        }
    }
}

/// The data of a rendezvous or pushed message on its way.
pub struct Stream {
    /// The send.
    pub request: RequestId,
    /// The receiver's request; of a pushed message, the sender's.
    pub receiver: u64,
    /// Whether it is pushed.
    pub pushed: bool,
    /// The next byte to send.
    pub next: u64,
    /// Up to where the receiver has room for now.
    pub granted: u64,
    /// Where to stop.
    pub end: u64,
}

impl Peer {
    /// A process that nothing is known of yet.
    pub fn new() -> Peer {
        Peer {
            link: Link::Unknown,
            token: 0,
            lane: usize::MAX,
            next_out: 0,
            next_in: 0,
            queue: VecDeque::new(),
            streams: VecDeque::new(),
            arriving: Vec::new(),
            held: BTreeMap::new(),
            listed: false,
            eager: 0,
            pushed: 0,
            at_once: 0,
            flow: Flow {
                window: 0,
                acked: 0,
                told: 0,
                due: false,
                blocked: false,
                held_bytes: 0,
                pressing: false,
                pressed: false,
            },
        }
    }

    /// Whether a message may go straight to the lane.
    #[inline]
    pub fn is_clear(&self) -> bool {
        matches!(self.link, Link::Up) && self.queue.is_empty() && self.has_room()
    }

    /// Whether the window lets another message go.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.next_out.wrapping_sub(self.flow.acked) < self.flow.window
    }

    /// What the next message's header says. [`Peer::went`] follows once the lane has taken the message.
    #[inline]
    pub fn stamp(&self) -> Stamp {
        Stamp {
            seq: self.next_out,
            ack: self.next_in as u16,
            flags: if self.flow.pressing { FLAG_PRESSED } else { 0 },
        }
    }

    /// The message with the last stamp went.
    #[inline]
    pub fn went(&mut self) {
        self.next_out = self.next_out.wrapping_add(1);
        self.flow.told = self.next_in;
        self.flow.due = false;
    }
}

impl Default for Peer {
    fn default() -> Self {
        Peer::new()
    }
}
