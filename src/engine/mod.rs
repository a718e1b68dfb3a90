//! The engine: progress, matching, protocols, requests and waiting. One [`Engine`] holds all the state of one
//! process; whoever uses it holds its lock (see [`crate::instance`]).
//!
//! - `wire`, `business_card`: what processes tell each other
//! - `matching`: the posted and the unexpected queue
//! - `request`, `peer`: what the state consists of; `numbering`: whose message it is
//! - `send`, `receive`: what the layers above call; `buffered`: buffers for messages in buffered mode
//! - `protocol`: how messages go, a file for each way
//! - `transmit`: making headers and handing messages to lanes; `queue`: what waits for that
//! - `progress`: polling, and delivery of messages and completions; `dispatch`: what is done with each kind of message
//! - `context`: what is under way in some contexts, and its end
//! - `describe`: what is pending, in words
//! - `mismatch`: collective operations that ranks call in different orders
//! - `sleepers`: waking other threads of this process

pub mod buffered;
pub mod business_card;
pub mod matching;

pub mod peer;
pub mod request;
pub mod wire;

mod context;
pub mod describe;
pub mod dispatch;
#[cfg(test)]
mod incast;
pub mod mismatch;
mod numbering;
mod progress;
mod protocol;
mod queue;
mod receive;
mod send;
mod sleepers;
#[cfg(test)]
mod tests;
mod transmit;

use std::collections::VecDeque;

use crate::base::error::Error;
use crate::base::slab::Slab;
use crate::err;
use crate::identity::{Context, JobId, PeerIndex, ProcessName};
use crate::lane::{Lane, Limits};
use matching::{Envelope, MessageId, Posted, Unexpected};
use numbering::Numberings;
use peer::{Link, Peer, Peers};
use request::{Outcome, ReceiveStage, Request, RequestId, Requests, SendStage, TaskId, Work};
use sleepers::Sleepers;

pub use progress::Armed;
pub use receive::{Message, Probed, Received};
pub use send::{Send, Tried};

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
    /// What messages to this process must show.
    token: u64,
    /// The largest eager payload, where a setting bounds it.
    eager_max: Option<usize>,
    /// Whether remote memory may be read.
    rma: bool,
    limits: Vec<Limits>,
    /// The own job, and how many processes it has: their ranks are their indices.
    job: JobId,
    size: u32,
    peers: Peers,
    /// What messages of other jobs show.
    numberings: Numberings,
    added: dispatch::AddedKinds,
    posted: Posted<RequestId>,
    /// The receive that its caller stays with: posted after all in `posted`.
    attended: receive::Attended,
    unexpected: Unexpected<Message>,
    /// Pipelined messages that have begun to come.
    arrivals: Slab<protocol::pipelined::Arrival>,
    /// How many `Data` messages of one rendezvous message may be under way, so that what a slow receiver has not polled
    /// yet does not use up the buffers of its lane.
    window: u64,
    requests: Requests,
    /// What the tokens of lanes stand for.
    operations: Slab<Operation>,
    /// Peers with something in their queue or streams.
    sending: VecDeque<PeerIndex>,
    /// How many peers have something to send and must take more first.
    blocked: u32,
    /// By lane: how many messages may be on their way to one peer.
    windows: Vec<u32>,
    /// How many bytes of one peer's messages are held for receives to come before it is asked to send none eagerly.
    unexpected_max: u64,
    /// Peers whose cards are wanted.
    wanted: Vec<PeerIndex>,
    /// Receives that are ready to read remote memory.
    reads: VecDeque<RequestId>,
    /// Exposures that ended while the lanes were busy.
    deregistered: Vec<(usize, crate::lane::Region)>,
    /// Tasks to be polled.
    ready: Vec<TaskId>,
    /// Counts whatever may have changed the state of a request or peer.
    events: u64,
    /// The lane that is being polled.
    polling: usize,
    /// Messages without the right token or that make no sense.
    unauthenticated: u64,
    /// Looks into collective operations that wait for long.
    watch: mismatch::Watch,
    /// Buffers of packed messages that have left, for the next ones.
    spare: Vec<Vec<u8>>,
    /// How many want every message counted.
    counting: u32,
    sleepers: Sleepers,
}

/// What a lane's token stands for.
enum Operation {
    /// A message of a send; holds the bytes where they are not the user's own.
    Message {
        peer: PeerIndex,
        request: Option<RequestId>,
        /// An `Ack`: nobody waits for it.
        ack: bool,
        owned: Option<Vec<u8>>,
    },
    /// A read for a receive.
    Read { request: RequestId, bytes: u64 },
}

/// What the engine is made of.
pub struct Parts {
    /// This process.
    pub me: ProcessName,
    /// How many processes its job has.
    pub size: u32,
    /// What messages to this process must show: random.
    pub token: u64,
    /// Ways to other processes; the first one is the way to oneself.
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

/// The most messages on their way to one peer, whatever its lane's queue holds: below 2^15, since headers tell 16 bits
/// of how many were taken.
const WINDOW_MAX: usize = 1024;
/// The fewest, whatever the number of peers.
const WINDOW_MIN: usize = 4;
/// The largest payload in bytes that is still sent eagerly to a peer that holds too many messages: no request to send would be
/// shorter by much.
const EAGER_UNDER_BACKPRESSURE: usize = 64;

/// The first lane is the way to oneself.
const LOOPBACK: usize = 0;

impl Engine {
    /// An engine at rest.
    pub fn new(parts: Parts) -> Engine {
        let limits: Vec<Limits> = parts.lanes.iter().map(|lane| lane.limits()).collect();
        let peers = (parts.size.max(2) - 1) as usize;
        let mut windows: Vec<u32> = limits
            .iter()
            .map(|limits| (limits.queue / peers).clamp(WINDOW_MIN, WINDOW_MAX) as u32)
            .collect();
        // Who polls is who sends.
        windows[0] = u32::MAX;
        let mut engine = Engine {
            turns: progress::Turns::new(limits.len()),
            sleeps_early: parts.lanes.iter().any(|lane| lane.sleeps_early()),
            lanes: parts.lanes,
            state: EngineState {
                me: PeerIndex::of_rank(parts.me.rank),
                token: parts.token,
                eager_max: parts.eager_max,
                rma: parts.rma,
                limits,
                job: parts.me.job,
                size: parts.size,
                peers: Peers::default(),
                numberings: Numberings::default(),
                added: dispatch::AddedKinds::default(),
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
                deregistered: Vec::new(),
                ready: Vec::new(),
                events: 0,
                polling: 0,
                unauthenticated: 0,
                watch: mismatch::Watch::default(),
                spare: Vec::new(),
                counting: 0,
                sleepers: Sleepers::new(),
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

    /// How many processes the job has.
    pub fn size(&self) -> u32 {
        self.state.size
    }

    /// What to publish so that others can reach this process.
    pub fn card(&self) -> business_card::BusinessCard {
        let lanes = self.lanes.iter().skip(1);
        business_card::BusinessCard {
            token: self.state.token,
            lanes: lanes.map(|lane| (lane.name(), lane.address())).collect(),
        }
    }

    /// The lanes to others, in the order in which they are tried.
    pub fn lane_names(&self) -> Vec<String> {
        self.lanes.iter().skip(1).map(|lane| lane.name()).collect()
    }

    /// The other processes that messages were sent to, in ascending order, each with the place of its lane in
    /// [`Engine::lane_names`]. Those that have been lost are not told.
    pub fn links(&self) -> impl Iterator<Item = (PeerIndex, usize)> {
        let linked = self.state.peers.iter().filter(|(_, peer)| peer.link == Link::Up);
        linked.filter_map(|(id, peer)| Some((id, peer.lane.checked_sub(1)?)))
    }

    /// Makes a peer reachable by what it published; the first lane that both have and that connects them carries its
    /// messages.
    pub fn connect(&mut self, peer: PeerIndex, card: &business_card::BusinessCard) {
        // A peer may have been lost while its card was looked up: nobody waits for that any more.
        if matches!(self.state.peer(peer).link, Link::Lost(_)) {
            return;
        }
        match self.first_lane_to(peer, card) {
            Ok(at) => {
                self.state.peer(peer).token = card.token;
                self.state.link_up(peer, at);
                self.state.list(peer);
                self.state.happened();
            }
            Err(error) => self.lose(peer, error),
        }
    }

    fn first_lane_to(&mut self, peer: PeerIndex, card: &business_card::BusinessCard) -> Result<usize, Error> {
        let mut reasons: Vec<Error> = Vec::new();
        for (at, lane) in self.lanes.iter_mut().enumerate().skip(1) {
            let name = lane.name();
            let Some((_, address)) = card.lanes.iter().find(|(theirs, _)| *theirs == name) else {
                continue;
            };
            match lane.connect(peer, address) {
                Ok(()) => return Ok(at),
                Err(error) => reasons.push(error),
            }
        }
        let names = |all: Vec<&str>| {
            if all.is_empty() {
                "none".to_string()
            } else {
                all.join(", ")
            }
        };
        let own: Vec<String> = self.lanes.iter().skip(1).map(|lane| lane.name()).collect();
        let why: String = reasons
            .iter()
            .map(|error| format!("; {}", error.message))
            .collect();
        Err(err!(
            Other,
            "process {} can be reached by none of the lanes of this process{why} (this process has {}, that one {}; \
             do all use the same WEFT_LANES and WEFT_PROVIDER? WEFT_LANES=shm,ofi opens libfabric beside shared memory)",
            peer.number(),
            names(own.iter().map(String::as_str).collect()),
            names(card.lanes.iter().map(|(name, _)| name.as_str()).collect())
        ))
    }

    /// Marks a peer as out of reach: all that waits for it fails with `error`.
    pub fn lose(&mut self, peer: PeerIndex, error: Error) {
        self.state.lose(peer, error);
        self.deregister();
    }

    /// Ends the registrations of sends that have ended.
    fn deregister(&mut self) {
        for (lane, region) in self.state.deregistered.drain(..) {
            self.lanes[lane].deregister(region);
        }
    }

    /// The processes of the job whose business cards were not needed yet.
    pub fn unconnected(&self) -> Vec<PeerIndex> {
        let is_unknown = |id: &PeerIndex| match self.state.peers.get(*id) {
            Some(peer) => matches!(peer.link, Link::Unknown | Link::LookingUp),
            None => true,
        };
        let job = (0..self.state.size).map(PeerIndex::of_rank);
        job.filter(is_unknown).collect()
    }

    /// Peers whose business cards are wanted; the caller fetches them and calls [`Engine::connect`].
    pub fn wanted(&mut self) -> &mut Vec<PeerIndex> {
        &mut self.state.wanted
    }

    /// Whether there are any.
    #[inline]
    pub fn has_wanted(&self) -> bool {
        !self.state.wanted.is_empty()
    }

    /// A request without work of its own, to be ended by [`Engine::complete`].
    pub fn bare_request(&mut self) -> RequestId {
        self.state.requests.insert(Work::None, Context::NONE)
    }

    /// A request that has ended already, of the communicator of a context.
    pub fn ended_request(&mut self, outcome: Outcome, context: Context) -> RequestId {
        self.state.requests.insert_ended(Work::None, context, outcome)
    }

    /// Ends a request of [`Engine::bare_request`].
    pub fn complete(&mut self, request: RequestId, outcome: Outcome) {
        self.state.complete(request, outcome);
    }

    /// The whole name of a request, from what a handle tells of it.
    #[inline]
    pub fn find_request(&self, index: u32, generation_bits: u32, mask: u32) -> Option<RequestId> {
        self.state.requests.find(index, generation_bits, mask)
    }

    /// Whether a request has ended, by what a handle tells of it; `None`: there is none such.
    #[inline(always)]
    pub fn has_ended(&self, index: u32, generation_bits: u32, mask: u32) -> Option<bool> {
        let request = self.state.requests.get_named(index, generation_bits, mask)?;
        Some(request.outcome.is_some())
    }

    /// Whether the request has ended; `None`: there is none such.
    #[inline]
    pub fn is_complete(&self, request: RequestId) -> Option<bool> {
        Some(self.state.requests.get(request)?.outcome.is_some())
    }

    /// Says to which communicator a request belongs that was not made by a send or receive.
    pub fn set_context(&mut self, request: RequestId, context: Context) {
        if let Some(request) = self.state.requests.get_mut(request) {
            request.context = context;
        }
    }

    /// Says of which collective operation a request is: the communicator's context, and its messages' tag.
    pub fn set_collective(&mut self, request: RequestId, context: Context, tag: i32) {
        if let Some(request) = self.state.requests.get_mut(request) {
            request.context = context;
            if request.outcome.is_none() {
                request.work = Work::Collective(tag);
            }
        }
    }

    /// Says of which requests one consists that was not made by a send or receive: when it is freed, so are they.
    pub fn set_both(&mut self, request: RequestId, parts: [Option<RequestId>; 2]) {
        if let Some(request) = self.state.requests.get_mut(request)
            && request.outcome.is_none()
        {
            request.work = Work::Both(parts);
        }
    }

    /// How the request ended, if it has.
    pub fn outcome(&self, request: RequestId) -> Option<&Outcome> {
        self.state.requests.get(request)?.outcome.as_ref()
    }

    /// Takes a request out if it has ended. Its error says to which communicator it belongs.
    #[inline]
    pub fn take(&mut self, request: RequestId) -> Option<Outcome> {
        let found = self.state.requests.get_mut(request)?;
        if found.early {
            return self.take_early(request);
        }
        let mut outcome = found.outcome.take()?;
        if let Some(error) = &mut outcome.error {
            error.context = found.context;
        }
        self.state.requests.discard(request);
        Some(outcome)
    }

    /// Takes a request out that has ended well, by what a handle tells of it.
    #[inline(always)]
    pub fn take_well_ended(&mut self, index: u32, generation_bits: u32, mask: u32) -> Option<Outcome> {
        let requests = &mut self.state.requests;
        requests.take_well_ended(index, generation_bits, mask)
    }

    /// The outcome of a request that has still something to do: it goes on as a freed one.
    #[cold]
    fn take_early(&mut self, request: RequestId) -> Option<Outcome> {
        let found = self.state.requests.get_mut(request)?;
        found.early = false;
        found.released = true;
        found.outcome.take()
    }

    /// Nobody will ask for the request's outcome: it goes as soon as it has ended (`MPI_Request_free`).
    pub fn release(&mut self, id: RequestId) {
        match self.state.requests.get_mut(id) {
            Some(request) if request.outcome.is_none() => {
                request.released = true;
                if let Work::Both(parts) = request.work {
                    for part in parts.into_iter().flatten() {
                        if let Some(part) = self.state.requests.get_mut(part) {
                            part.released_whole = true;
                        }
                    }
                }
            }
            Some(request) if request.early => drop(self.take_early(id)),
            Some(_) => self.state.requests.discard(id),
            None => {}
        }
    }

    /// Wakes `task` when the request ends.
    pub fn wake_on(&mut self, request: RequestId, task: TaskId) {
        if let Some(request) = self.state.requests.get_mut(request) {
            request.waiter = Some(task);
        }
    }

    /// Tasks whose requests have ended since the last call.
    pub fn take_ready(&mut self, into: &mut Vec<TaskId>) {
        into.append(&mut self.state.ready);
    }

    /// Whether [`Engine::take_ready`] would give something.
    #[inline]
    pub fn has_ready_tasks(&self) -> bool {
        !self.state.ready.is_empty()
    }

    /// Counts whatever may have changed what somebody waits for.
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
            && state.deregistered.is_empty()
            && state.operations.is_empty()
            && self.lanes.iter().all(|lane| lane.is_drained())
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

    /// While somebody wants it, [`Engine::is_drained`] tells of every message: see [`Lane::count_all`]. Each `true` is
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
    /// The state of a request or peer may have changed.
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

    /// Messages to a peer can go from now on, over this lane.
    fn link_up(&mut self, id: PeerIndex, lane: usize) {
        let window = self.windows[lane];
        let peer = self.peer(id);
        peer.link = Link::Up;
        peer.lane = lane;
        peer.flow.window = window;
        let backpressure = peer.flow.backpressure;
        self.limit_eager(id, lane, backpressure);
    }

    /// Settles what is sent eagerly to a peer over a lane. `backpressure`: it asked for less.
    fn limit_eager(&mut self, id: PeerIndex, lane: usize, backpressure: bool) {
        let eager = self.eager_limit(lane, backpressure);
        let copied = (self.limits[lane].buffered + 1).saturating_sub(wire::HEADER_BYTES);
        let pipelined = (self.limits[lane].pipelined)
            .min(self.eager_max.unwrap_or(usize::MAX))
            .min(protocol::pipelined::PIPELINED_MAX as usize);
        let peer = self.peer(id);
        peer.eager = eager;
        peer.pipelined = if backpressure { 0 } else { pipelined };
        peer.at_once = copied.min(eager + 1);
    }

    /// The lane of a peer has taken a message from its queue: the next one is tried at once again.
    #[inline]
    fn accepts_again(&mut self, id: PeerIndex) {
        if let Some(Peer {
            at_once: 0,
            lane,
            flow,
            ..
        }) = self.peers.get(id)
        {
            self.limit_eager(id, *lane, flow.backpressure);
        }
    }

    /// The largest payload that is sent eagerly over a lane. `backpressure`: to a peer that asked for less.
    fn eager_limit(&self, lane: usize, backpressure: bool) -> usize {
        let limits = &self.limits[lane];
        let eager = limits
            .eager
            .min(self.eager_max.unwrap_or(usize::MAX))
            .min(limits.message - wire::HEADER_BYTES);
        if backpressure {
            eager.min(EAGER_UNDER_BACKPRESSURE)
        } else {
            eager
        }
    }

    /// Keeps a message for a receive to come.
    fn keep(&mut self, envelope: Envelope, message: Message) {
        let (from, bytes) = (message.from(), message.held_bytes());
        self.unexpected.push(envelope, message);
        self.happened();
        let most = self.unexpected_max;
        let flow = &mut self.peer(from).flow;
        flow.held_bytes += bytes;
        if flow.held_bytes > most && !flow.asks_backpressure {
            self.ask_backpressure(from, true);
        }
    }

    /// Asks a peer to send no more eagerly, or to do so again.
    #[cold]
    fn ask_backpressure(&mut self, peer: PeerIndex, on: bool) {
        self.peer(peer).flow.asks_backpressure = on;
        if peer == self.me {
            self.limit_eager(peer, 0, on);
        } else {
            self.owe(peer);
        }
    }

    /// Takes a message that was kept.
    fn unkeep(&mut self, found: MessageId) -> (Envelope, Message) {
        let (envelope, message) = self.unexpected.take(found);
        let most = self.unexpected_max;
        let (from, bytes) = (message.from(), message.held_bytes());
        if let Some(Peer { flow, .. }) = self.peers.get_mut(from) {
            flow.held_bytes -= bytes;
            // Not at once, lest a program at the limit has the peer told with every message.
            if flow.asks_backpressure && flow.held_bytes <= most / 2 {
                self.ask_backpressure(from, false);
            }
        }
        (envelope, message)
    }

    /// Sees to it that messages to a peer can go: asks for its business card, unless somebody has.
    fn seek(&mut self, id: PeerIndex) {
        let peer = self.peer(id);
        if peer.link == Link::Unknown {
            peer.link = Link::LookingUp;
            self.wanted.push(id);
        }
    }

    /// Notes that the peer has something to send.
    fn list(&mut self, id: PeerIndex) {
        let peer = self.peer(id);
        let something = !peer.queue.is_empty() || !peer.streams.is_empty() || peer.flow.due;
        if something && !peer.listed {
            peer.listed = true;
            self.sending.push_back(id);
        }
    }

    /// Ends a request and wakes who waits for it.
    fn complete(&mut self, id: RequestId, outcome: Outcome) {
        self.happened();
        let Some(request) = self.requests.get_mut(id) else {
            return;
        };
        let released = request.released;
        let Work::Send(work) = &mut request.work else {
            if let Some(task) = request.end(outcome) {
                self.ready.push(task);
            }
            if released {
                self.requests.discard(id);
            }
            return;
        };
        let place = work.place.take();
        let lost = match (&place, released) {
            // Nobody else will ask.
            (Some(_), true) => outcome.error.as_deref().cloned(),
            _ => None,
        };
        request.outcome = Some(outcome);
        request.early = false;
        self.ready.extend(request.waiter.take());
        if released {
            self.requests.discard(id);
        }
        if let Some(place) = place {
            self.give_back(*place, lost);
        }
    }

    fn lose(&mut self, id: PeerIndex, error: Error) {
        self.post_attended();
        self.happened();
        let peer = self.peer(id);
        if matches!(peer.link, Link::Lost(_)) {
            return;
        }
        peer.link = Link::Lost(error.clone());
        peer.flow.due = false;
        if std::mem::replace(&mut peer.flow.blocked, false) {
            self.blocked -= 1;
        }
        let peer = self.peer(id);
        peer.queue.clear();
        peer.streams.clear();
        peer.held.clear();
        self.end_arrivals_from(id);
        self.fail_requests_of(id, &error);
    }
}
