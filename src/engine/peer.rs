//! What the engine knows about a process with which it exchanges messages.

use std::collections::{BTreeMap, VecDeque};

use super::foreign::Foreign;
use super::request::RequestId;
use super::transmit::Words;
use crate::base::error::Error;
use crate::identity::PeerIndex;

/// The processes that this one has exchanged messages with, by their index. It grows with each new one.
#[derive(Default)]
pub struct Peers(Vec<Option<Box<Peer>>>);

impl Peers {
    /// What is known about a process, if anything is.
    #[inline(always)]
    pub fn get(&self, id: PeerIndex) -> Option<&Peer> {
        self.0.get(id.index())?.as_deref()
    }

    /// The same, mutable.
    #[inline(always)]
    pub fn get_mut(&mut self, id: PeerIndex) -> Option<&mut Peer> {
        self.0.get_mut(id.index())?.as_deref_mut()
    }

    /// Adds what is known about a process.
    #[inline(always)]
    pub fn meet(&mut self, id: PeerIndex) -> &mut Peer {
        if self.get(id).is_none() {
            self.grow(id);
        }
        self.get_mut(id).expect("it has been met")
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, id: PeerIndex) {
        if self.0.len() <= id.index() {
            self.0.resize_with(id.index() + 1, || None);
        }
        self.0[id.index()] = Some(Box::default());
    }

    /// Forgets a process.
    pub(super) fn remove(&mut self, id: PeerIndex) -> Option<Box<Peer>> {
        self.0.get_mut(id.index())?.take()
    }

    /// All of them, in the order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = (PeerIndex, &Peer)> {
        let all = (0..).map(PeerIndex::new).zip(&self.0);
        all.filter_map(|(id, peer)| Some((id, peer.as_deref()?)))
    }
}

/// A process that this one has exchanged messages with.
pub struct Peer {
    /// Whether messages can be handed to its lane.
    pub link: ConnectionState,
    /// The token from its business card that messages to it must contain.
    pub token: u64,
    /// Its lane.
    pub lane: usize,
    /// Sequence number of the next message to it.
    pub next_out: u32,
    /// Sequence number of the next message from it.
    pub next_in: u32,
    /// Messages that the lane has not taken yet, in order.
    pub queue: VecDeque<Outgoing>,
    /// Rendezvous and pipelined messages whose data is being sent, in turn.
    pub streams: VecDeque<Stream>,
    /// The pipelined messages from it of which more is to come.
    pub arriving: Vec<u32>,
    /// Messages that came before their turn (lanes without order).
    pub held: BTreeMap<u32, Vec<u8>>,
    /// Whether it is in the engine's list of peers with something to send.
    pub listed: bool,
    /// The largest payload to send eagerly, in bytes.
    pub eager: usize,
    /// The largest payload to send pipelined, in bytes.
    pub pipelined: usize,
    /// Payloads of fewer bytes are sent eagerly and are copied by the lane at once. 0: the lane has refused the latest message;
    /// later ones are queued without an attempt, until the lane takes one from the queue.
    pub at_once: usize,
    /// How many messages may be on their way.
    pub flow: Flow,
    /// What else is known of a process of another job.
    pub(super) foreign: Option<Box<Foreign>>,
}

/// Flow control: how far each side of a pair of streams has come. A sender holds back messages that are more than a
/// window ahead of what the receiver has taken, so messages that a slow receiver has not polled yet fit into the
/// transport's buffers; and it does not send eagerly what the receiver has no memory for.
///
/// Every header contains how many messages its sender has taken. Where no message goes back for half a window, an `Ack`
/// is sent, the one kind of message that no window holds up.
pub struct Flow {
    /// How many messages may be on their way to the peer.
    pub window: u32,
    /// How many messages (modulo 2^32) the peer has taken.
    pub acked: u32,
    /// How many messages of the peer this process has acknowledged.
    pub told: u32,
    /// An acknowledgement is due: an `Ack` is sent if there is no other message.
    pub due: bool,
    /// Something waits for the window.
    pub blocked: bool,
    /// Bytes of unexpected messages of the peer held here.
    pub held_bytes: u64,
    /// They are too many: the peer is asked to send no more eagerly.
    pub asks_backpressure: bool,
    /// Whether the peer has asked for the same.
    pub backpressure: bool,
}

/// The state of the connection to a peer.
#[derive(Clone, PartialEq, Debug)]
pub enum ConnectionState {
    /// Its business card was not asked for.
    Unknown,
    /// Its business card is being looked up.
    LookingUp,
    /// It is connected, but nothing may be sent to it before a `Hello`.
    Greeting,
    /// Messages can be sent.
    Up,
    /// What is in its queue is still sent, and `Bye` behind it. Later messages wait until it has said the same (see [`super::foreign`]).
    Parting,
    /// It can't be reached any more, for this reason.
    Lost(Error),
}

/// A message in the queue of a peer.
pub struct Outgoing {
    /// The contents of its header.
    pub(super) words: Words,
    /// What follows the header.
    pub payload: Payload,
    /// The send that it belongs to, which is notified when it has gone.
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
    /// The bytes of the send's own memory, which is contiguous.
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

/// The data of a rendezvous or pipelined message on its way.
pub struct Stream {
    /// The send.
    pub request: RequestId,
    /// The receiver's request; of a pipelined message, the sender's.
    pub receiver: u64,
    /// Whether it is pipelined.
    pub pipelined: bool,
    /// The next byte to send.
    pub next: u64,
    /// How far the receiver has room now.
    pub granted: u64,
    /// Where to stop.
    pub end: u64,
}

impl Peer {
    /// A process about which nothing is known yet.
    pub fn new() -> Peer {
        Peer {
            link: ConnectionState::Unknown,
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
            pipelined: 0,
            at_once: 0,
            flow: Flow {
                window: 0,
                acked: 0,
                told: 0,
                due: false,
                blocked: false,
                held_bytes: 0,
                asks_backpressure: false,
                backpressure: false,
            },
            foreign: None,
        }
    }

    /// Whether there is something to be done for it.
    pub(super) fn has_something(&self) -> bool {
        !self.queue.is_empty()
            || !self.streams.is_empty()
            || self.flow.due
            || self
                .foreign
                .as_ref()
                .is_some_and(|foreign| foreign.is_due(&self.link))
    }

    /// Whether its lane knows it.
    pub(super) fn is_connected(&self) -> bool {
        match self.link {
            ConnectionState::Greeting | ConnectionState::Up => true,
            ConnectionState::Parting => !self.has_said_bye(),
            ConnectionState::Unknown | ConnectionState::LookingUp | ConnectionState::Lost(_) => false,
        }
    }

    /// Whether messages to it have not left yet.
    pub(super) fn has_messages(&self) -> bool {
        let waiting = self
            .foreign
            .as_ref()
            .is_some_and(|foreign| !foreign.waiting.is_empty());
        waiting || !self.queue.is_empty() || !self.streams.is_empty()
    }

    /// Where further messages to it wait for their turn.
    pub(super) fn outbox(&mut self) -> &mut VecDeque<Outgoing> {
        match &mut self.foreign {
            Some(foreign) if self.link == ConnectionState::Parting => &mut foreign.waiting,
            _ => &mut self.queue,
        }
    }

    /// Takes a send's messages out of the queues.
    pub(super) fn withdraw(&mut self, request: RequestId) {
        let stays = |outgoing: &Outgoing| outgoing.request != Some(request);
        self.queue.retain(stays);
        if let Some(foreign) = &mut self.foreign {
            foreign.waiting.retain(stays);
        }
    }

    /// Whether nothing more is sent to it before the two have met again.
    pub(super) fn has_said_bye(&self) -> bool {
        self.foreign.as_ref().is_some_and(|foreign| foreign.said_bye)
    }

    /// Whether a message may go straight to the lane.
    #[inline]
    pub fn is_clear(&self) -> bool {
        matches!(self.link, ConnectionState::Up) && self.queue.is_empty() && self.has_room()
    }

    /// Whether the window lets another message go.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.next_out.wrapping_sub(self.flow.acked) < self.flow.window
    }

    /// Notes that the message with the header of [`Peer::header`] was sent.
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
