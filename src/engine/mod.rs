//! The engine: progress, matching, protocols, requests and waiting. One [`Engine`] holds all state of one
//! process; a caller holds its lock (see [`crate::instance`]).
//!
//! - `wire`, `business_card`: what processes send each other
//! - `matching`: the posted and the unexpected queue
//! - `request`, `peer`: what the state consists of; `numbering`: whose message it is
//! - `send`, `receive`: what the layers above call; `buffered`: buffers for messages in buffered mode
//! - `protocol`: how messages are sent, a file for each protocol
//! - `transmit`: making headers and handing messages to lanes; `queue`: what waits for that
//! - `progress`: polling, and delivery of messages and completions; `dispatch`: what is done with each kind of message
//! - `foreign`: processes of other jobs, which come and go
//! - `connection`: peers that become reachable, and lost ones; `unexpected`: messages that no receive has matched
//! - `completion`: the outcomes of requests; `context`: what is under way in some contexts, and its end
//! - `describe`: what is pending, in words
//! - `mismatch`: collective operations that ranks call in different orders
//! - `one_sided`: access to memory that other processes have exposed
//! - `sleepers`: waking other threads of this process; `watched`: words in shared memory that it waits for
//!
//! What does not belong here: communicators and collectives (`objects`), how a process waits (`instance`), and how bytes get to another
//! process (`lane`).

pub mod buffered;
pub mod business_card;
pub mod matching;

pub mod peer;
pub mod request;
pub mod wire;

mod completion;
mod connection;
mod context;
pub mod describe;
pub mod dispatch;
pub mod foreign;
#[cfg(test)]
mod incast;
pub mod mismatch;
mod numbering;
pub mod one_sided;
mod progress;
mod protocol;
mod queue;
mod receive;
mod send;
mod sleepers;
#[cfg(test)]
mod tests;
mod transmit;
mod unexpected;
mod watched;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::base::slab::Slab;
use crate::identity::{Context, Directory, PeerIndex, ProcessName};
use crate::lane::{Lane, Limits};
use business_card::LaneEntry;
use matching::{Posted, Unexpected};
use numbering::Numberings;
use peer::{Peer, Peers};
use request::{ReceiveStage, Request, RequestId, Requests, SendStage, Work};
use sleepers::Sleepers;

pub use progress::Armed;
pub use receive::{Message, Probed, Received};
pub use send::{Send, Tried};
pub use watched::{ANYTHING, Sleeper, WatchId, Watched};

/// Engine state of one process.
pub struct Engine {
    lanes: Vec<Box<dyn Lane>>,
    state: EngineState,
    turns: progress::Turns,
    /// See [`Engine::sleeps_early`].
    sleeps_early: bool,
}

/// All but the lanes: what the lanes report to.
struct EngineState {
    me: PeerIndex,
    /// The token that messages to this process must contain.
    token: u64,
    /// See [`Parts::agreed`].
    agreed: u64,
    /// The largest eager payload, where a setting bounds it.
    eager_max: Option<usize>,
    /// Whether remote memory may be read.
    rma: bool,
    limits: Vec<Limits>,
    /// By lane: the network that it is at.
    networks: Vec<String>,
    /// This process, and how many its job has: their ranks are their indices.
    name: ProcessName,
    size: u32,
    /// The processes that this one knows of: those of other jobs get their indices there.
    directory: Arc<Directory>,
    peers: Peers,
    /// The tokens in messages of other jobs.
    numberings: Numberings,
    services: dispatch::Services,
    bells: Vec<dispatch::Bell>,
    posted: Posted<RequestId>,
    /// The receive whose caller polls for it: it counts as posted after all in `posted`.
    attended: receive::Attended,
    unexpected: Unexpected<Message>,
    /// Pipelined messages whose first part has arrived.
    arrivals: Slab<protocol::pipelined::Arrival>,
    /// How many `Data` messages of one rendezvous message may be under way, so that messages that a slow receiver has not
    /// polled do not use up the buffers of its lane.
    window: u64,
    requests: Requests,
    /// What the tokens of lanes stand for.
    operations: Slab<Operation>,
    /// Peers with something in their queue or streams.
    sending: VecDeque<PeerIndex>,
    /// How many peers there are whose queue waits until they have taken more.
    blocked: u32,
    /// By lane: how many messages may be on their way to one peer.
    windows: Vec<u32>,
    /// How many bytes of one peer's messages are held for receives to come before it is asked to send none eagerly.
    unexpected_max: u64,
    /// Peers whose cards are needed.
    wanted: Vec<PeerIndex>,
    /// Receives that are ready to read remote memory.
    reads: VecDeque<RequestId>,
    /// One-sided operations that wait for a lane or for a peer's card.
    accesses: VecDeque<one_sided::Access>,
    /// Regions to deregister once the lanes are free.
    deregistered: Vec<(usize, crate::lane::Region)>,
    /// Tasks to be polled.
    ready: watched::Ready,
    /// Counts whatever may have changed the state of a request or peer.
    events: u64,
    /// The lane that is being polled.
    polling: usize,
    /// Messages without the right token or that make no sense.
    unauthenticated: u64,
    /// Checks collective operations that wait for long.
    watch: mismatch::Watch,
    /// Buffers of packed messages that have left, for the next ones.
    spare: Vec<Vec<u8>>,
    /// How many callers want every message counted.
    counting: u32,
    sleepers: Sleepers,
    /// Words in shared memory that are waited for.
    watched: Slab<watched::Watch>,
}

/// What a lane's token stands for.
enum Operation {
    /// A message of a send; holds the bytes where they are not the user's own.
    Message {
        peer: PeerIndex,
        request: Option<RequestId>,
        /// An `Ack`: nothing waits for it.
        ack: bool,
        owned: Option<Vec<u8>>,
    },
    /// A read for a receive.
    Read { request: RequestId, bytes: u64 },
    /// A part of a one-sided operation.
    OneSided(one_sided::Part),
}

/// What the engine is made of.
pub struct Parts {
    /// This process.
    pub me: ProcessName,
    /// How many processes its job has.
    pub size: u32,
    /// The token that messages to this process must contain: random.
    pub token: u64,
    /// Digests of what all processes of the job have to have alike, so that they choose the same algorithms: in the lower half of the bits
    /// of the hosts that they distinguish, in the upper one of the table of algorithms.
    pub agreed: u64,
    /// Ways to other processes; the first lane leads to this process itself.
    pub lanes: Vec<Box<dyn Lane>>,
    /// Bound of eager payloads in bytes, where a setting gives one.
    pub eager_max: Option<usize>,
    /// Whether remote memory may be read.
    pub rma: bool,
    /// Differs from engine to engine of a process.
    pub first_generation: u32,
    /// How many `Data` messages of one rendezvous message may be under way: at least 2.
    pub window: u32,
    /// How many bytes of unexpected messages of one process are held before it is asked to send none eagerly.
    pub unexpected_max: u64,
}

/// The most messages on their way to one peer, whatever its lane's queue holds: below 2^15, because a header has only 16
/// bits for the number of messages taken.
const WINDOW_MAX: usize = 1024;
/// The fewest, whatever the number of peers.
const WINDOW_MIN: usize = 4;
/// The largest payload in bytes that is still sent eagerly to a peer that holds too many messages: no request to send would be
/// shorter by much.
const EAGER_UNDER_BACKPRESSURE: usize = 64;

/// The first lane leads to this process itself.
const LOOPBACK: usize = 0;

/// How many messages may be on their way to one of so many peers of this job.
fn own_window(limits: &Limits, peers: usize) -> u32 {
    (limits.queue / peers).clamp(WINDOW_MIN, WINDOW_MAX) as u32
}

impl Engine {
    /// An engine without peers, requests and messages.
    pub fn new(parts: Parts) -> Engine {
        let networks = parts.lanes.iter().map(|lane| lane.network()).collect();
        let limits: Vec<Limits> = parts.lanes.iter().map(|lane| lane.limits()).collect();
        let peers = (parts.size.max(2) - 1) as usize;
        let mut windows: Vec<u32> = limits.iter().map(|limits| own_window(limits, peers)).collect();
        // The polling thread is the sending one.
        windows[0] = u32::MAX;
        let mut engine = Engine {
            turns: progress::Turns::new(limits.len()),
            sleeps_early: parts.lanes.iter().any(|lane| lane.sleeps_early()),
            lanes: parts.lanes,
            state: EngineState {
                me: PeerIndex::of_rank(parts.me.rank),
                token: parts.token,
                agreed: parts.agreed,
                eager_max: parts.eager_max,
                rma: parts.rma,
                limits,
                networks,
                name: parts.me,
                size: parts.size,
                directory: Arc::new(Directory::new(parts.me, parts.size)),
                peers: Peers::default(),
                numberings: Numberings::default(),
                services: dispatch::Services::default(),
                bells: Vec::new(),
                posted: Posted::default(),
                attended: receive::Attended::Nobody,
                unexpected: Unexpected::default(),
                arrivals: Slab::default(),
                window: parts.window.max(2).into(),
                requests: Requests::new(parts.first_generation),
                operations: Slab::default(),
                sending: VecDeque::new(),
                blocked: 0,
                windows,
                unexpected_max: parts.unexpected_max,
                wanted: Vec::new(),
                reads: VecDeque::new(),
                accesses: VecDeque::new(),
                deregistered: Vec::new(),
                ready: watched::Ready::default(),
                events: 0,
                polling: 0,
                unauthenticated: 0,
                watch: mismatch::Watch::default(),
                spare: Vec::new(),
                counting: 0,
                sleepers: Sleepers::new(),
                watched: Slab::default(),
            },
        };
        let me = engine.state.me;
        engine.state.peer(me).token = parts.token;
        engine.state.link_up(me, 0);
        engine
    }

    /// This process.
    pub fn me(&self) -> PeerIndex {
        self.state.me
    }

    /// The processes that this one knows of.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.state.directory
    }

    /// How many processes the job has.
    pub fn size(&self) -> u32 {
        self.state.size
    }

    /// The card to publish so that others can reach this process.
    pub fn card(&self) -> business_card::BusinessCard {
        let lanes = self.lanes.iter().skip(1);
        business_card::BusinessCard {
            token: self.state.token,
            agreed: self.state.agreed,
            lanes: lanes
                .map(|lane| LaneEntry {
                    network: lane.network(),
                    window: foreign::window(&lane.limits()),
                    address: lane.address(),
                })
                .collect(),
        }
    }

    /// The lanes to others, in the order in which they are tried.
    pub fn lane_names(&self) -> Vec<String> {
        self.lanes.iter().skip(1).map(|lane| lane.name()).collect()
    }

    /// The networks that these lanes are at.
    pub fn networks(&self) -> Vec<String> {
        self.state.networks[1..].to_vec()
    }

    /// Counts whatever may have changed what a caller waits for.
    #[inline]
    pub fn events(&self) -> u64 {
        self.state.events
    }

    /// Whether all that was handed to the engine has left this process: queues, streams and lanes are empty. A receiver
    /// may still have to take the message of a freed request from our memory: [`Engine::has_freed`].
    pub fn is_drained(&self) -> bool {
        self.has_left() && self.state.blocked == 0
    }

    /// As [`Engine::is_drained`], but for messages that wait until their receivers have taken earlier ones.
    pub fn has_left(&self) -> bool {
        let state = &self.state;
        state.sending.is_empty()
            && state.reads.is_empty()
            && state.accesses.is_empty()
            && state.deregistered.is_empty()
            && state.operations.is_empty()
            && self.lanes.iter().all(|lane| lane.is_drained())
            && !state.has_waiting()
    }

    /// Whether a request is under way that the user has freed, by itself or with what it is a part of, in a context that
    /// `concerns`: a send, or a receive whose message is on its way into the user's memory.
    pub fn has_freed(&self, concerns: impl Fn(Context) -> bool) -> bool {
        self.state.requests.iter().any(|(_, request)| {
            let context = match &request.work {
                Work::Send(work) => work.envelope.context,
                Work::Sent(work) => work.envelope.context,
                Work::Receive(work) => match &work.stage {
                    ReceiveStage::Fetching(fetch) => fetch.envelope.context,
                    ReceiveStage::Posted { .. } => return false,
                },
                Work::None | Work::Collective(_) | Work::Both(_) => return false,
            };
            request.is_freed() && concerns(context)
        })
    }

    /// Sends whose requests were freed and which no receive has taken, as far as this process knows, in the contexts that
    /// `concerns`.
    pub fn untaken_freed_sends(&self, concerns: impl Fn(Context) -> bool) -> Vec<RequestId> {
        let untaken = |request: &Request| match &request.work {
            Work::Send(work) => {
                request.is_freed()
                    && work.stage == SendStage::AwaitsReceiver
                    && concerns(work.envelope.context)
            }
            _ => false,
        };
        let requests = self.state.requests.iter();
        requests
            .filter(|(_, request)| untaken(request))
            .map(|(id, _)| id)
            .collect()
    }

    /// While any caller wants it, [`Engine::is_drained`] counts every message: see [`Lane::count_all`]. Each `true` is
    /// followed by one `false`.
    pub fn count_all(&mut self, on: bool) {
        let counting = &mut self.state.counting;
        let before = *counting != 0;
        *counting = if on { *counting + 1 } else { *counting - 1 };
        let now = *counting != 0;
        if now != before {
            for lane in &mut self.lanes {
                lane.count_all(now);
            }
        }
    }
}

impl EngineState {
    /// Notes that the state of a request or peer may have changed.
    #[inline]
    fn happened(&mut self) {
        self.events += 1;
        self.sleepers.wake();
    }

    /// What is known of a process.
    #[inline]
    fn peer(&mut self, id: PeerIndex) -> &mut Peer {
        self.peers.meet(id)
    }

    /// Notes that the peer has something to send.
    fn list(&mut self, id: PeerIndex) {
        let peer = self.peer(id);
        if peer.has_something() && !peer.listed {
            peer.listed = true;
            self.sending.push_back(id);
        }
    }
}
