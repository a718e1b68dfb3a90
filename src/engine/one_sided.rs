//! One-sided operations on memory that other processes have exposed, by their lanes: writes, reads and atomic operations.
//!
//! Users: a process exposes memory ([`Engine::expose`]) and gives the [`Keys`] to others. These ask whether the peer can be reached so
//! ([`Engine::reach`]) and begin operations, each of which counts in a [`Counter`]. It is over once the counter is idle: then what was
//! written is in the target's memory, and what was read in this process's. An operation that fails leaves its error in the counter.
//! [`Engine::wait_for`] makes a request of a counter, so that waiting, and tasks, are as for a receive.
//!
//! Operations happen in any order, also those of one peer. One that the lane does not take, or whose peer is not connected yet, waits in a
//! queue, which progress goes through. If the peer is lost, what waits fails; what a lane has ends through the lane, since that still uses
//! the memory.
//!
//! What does not belong here: which operations are allowed when, and what else has to be atomic with them (`objects::window`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::peer::ConnectionState;
use super::protocol::rendezvous_read::READ_PIECES;
use super::request::{Outcome, RequestId};
use super::{Engine, EngineState, Operation};
use crate::base::error::{Error, Result};
use crate::data::memory::Memory;
use crate::data::pieces::{Piece, Pieces, total};
use crate::err;
use crate::identity::PeerIndex;
use crate::lane::atomic::{AtomicOp, Atomics, Form, Number, Update};
use crate::lane::{Lane, Region, RemoteKey, Sent};

/// Memory in many short runs is packed, and unpacked, so many bytes at a time.
const PACKED: u64 = 256 << 10;
/// So many operations that wait for a lane that is full are passed over in one turn, for the sake of those behind them.
const PASSED: usize = 64;
/// So many may wait.
const WAITING: usize = 1 << 10;

/// Counts the operations of one caller.
#[derive(Default)]
pub struct Counter {
    issued: AtomicU64,
    completed: AtomicU64,
    rest: Mutex<Rest>,
}

#[derive(Default)]
struct Rest {
    /// The first thing that went wrong.
    error: Option<Error>,
    /// What ends when nothing is under way.
    waiting: Vec<RequestId>,
}

impl Counter {
    /// Nothing is under way.
    pub fn new() -> Arc<Counter> {
        Arc::default()
    }

    /// Whether nothing is under way.
    #[inline]
    pub fn is_idle(&self) -> bool {
        // In this order: what has been completed has been issued before.
        let completed = self.completed.load(Ordering::Acquire);
        completed == self.issued.load(Ordering::Acquire)
    }

    /// The first error since it was last taken.
    pub fn take_error(&self) -> Option<Error> {
        self.rest.lock().error.take()
    }

    /// One more is under way. (Only whoever has the engine changes the numbers.)
    fn begin(&self) {
        self.issued.fetch_add(1, Ordering::Release);
    }

    /// One has ended. Returns what ends with the last.
    fn ended(&self, result: Result<()>) -> Vec<RequestId> {
        if let Err(error) = result {
            self.rest.lock().error.get_or_insert(error);
        }
        self.completed.fetch_add(1, Ordering::Release);
        match self.is_idle() {
            true => std::mem::take(&mut self.rest.lock().waiting),
            false => Vec::new(),
        }
    }

    fn outcome(&self) -> Outcome {
        match self.rest.lock().error.clone() {
            Some(error) => Outcome::failed(error),
            None => Outcome::EMPTY,
        }
    }
}

/// By what other processes access exposed memory: a key for each network.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Keys(Vec<(String, RemoteKey)>);

impl Keys {
    /// Its form in messages: for each, the length of the network's name in a byte, the name, the length of the key in a byte, the key.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (network, key) in &self.0 {
            for part in [network.as_bytes(), &key.0] {
                bytes.push(part.len() as u8);
                bytes.extend_from_slice(part);
            }
        }
        bytes
    }

    /// From its form in a message.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn decode(mut bytes: &[u8]) -> Result<Keys> {
        let mut part = || -> Option<Vec<u8>> {
            let (&len, rest) = bytes.split_first()?;
            let (part, rest) = rest.split_at_checked(len.into())?;
            bytes = rest;
            Some(part.to_vec())
        };
        let mut keys = Vec::new();
        while let Some(network) = part() {
            let network = String::from_utf8(network).ok();
            let key = part().filter(|key| key.len() <= RemoteKey::MAX);
            let Some((network, key)) = network.zip(key) else {
                return Err(nonsense());
            };
            keys.push((network, RemoteKey(key)));
        }
        match bytes.is_empty() {
            true => Ok(Keys(keys)),
            false => Err(nonsense()),
        }
    }

    fn on(&self, network: &str) -> Option<&RemoteKey> {
        let found = self.0.iter().find(|(name, _)| name == network);
        found.map(|(_, key)| key)
    }
}

#[cold]
fn nonsense() -> Error {
    err!(Other, "what a process says of its exposed memory makes no sense")
}

/// Memory that this process has exposed.
#[must_use = "it stays exposed until Engine::conceal"]
pub struct Exposed(Vec<(usize, Region)>);

/// Whether a peer's lane can access what the peer has exposed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// It is not known yet: the peer's card has been asked for. Operations may begin, and fail if it can't.
    Unknown,
    /// It can't, or the peer is lost.
    No,
    /// It can.
    Yes {
        /// Who performs atomic operations.
        atomics: Atomics,
        /// Whether they need a processor of the peer's: [`Limits::needs_target`](crate::lane::Limits::needs_target).
        needs_target: bool,
    },
}

/// An operation that has not been given to its lane, or not all of it.
pub(super) struct Access {
    peer: PeerIndex,
    keys: Arc<Keys>,
    /// In the target's memory.
    offset: u64,
    what: What,
    /// Bytes that have been given to the lane.
    done: u64,
    /// Packed bytes from there on that the lane has not taken.
    packed: Option<Vec<u8>>,
    counter: Arc<Counter>,
}

enum What {
    Write(Memory),
    Read(Memory),
    #[cfg_attr(
        not(any(test, feature = "sim")),
        allow(dead_code, reason = "no window has lanes perform atomic operations")
    )]
    Update(Update),
}

/// What a lane has of an operation.
pub(super) struct Part {
    pub peer: PeerIndex,
    counter: Arc<Counter>,
    /// Bytes of our own that are written, or read into, and in that case where they belong.
    owned: Option<Vec<u8>>,
    unpacked: Option<(Memory, u64)>,
}

enum Step {
    /// All of it has been given to the lane, or it has failed.
    Over(Result<()>),
    /// It has to wait: for the peer's card, or because this lane takes no more now.
    Waits(Option<usize>),
}

impl Engine {
    /// Lets peers access some memory, by all lanes that can. Where none can, the keys are of no use to anybody, which [`Engine::reach`]
    /// tells.
    ///
    /// # Safety
    /// The memory is readable and writable until [`Engine::conceal`], and whoever else uses it expects that peers write to it at any time.
    pub unsafe fn expose(&mut self, memory: Piece) -> (Exposed, Keys) {
        let (mut exposed, mut keys) = (Vec::new(), Vec::new());
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            if memory.len == 0 || !self.state.can_write(at) {
                continue;
            }
            // Where there is too little memory that may be locked, for example, this lane is done without.
            // SAFETY: as the caller says.
            if let Ok((region, key)) = unsafe { lane.expose(memory) } {
                exposed.push((at, region));
                keys.push((self.state.networks[at].clone(), key));
            }
        }
        (Exposed(exposed), Keys(keys))
    }

    /// Whether there is a lane that accesses what peers have exposed: `any`, or one that leads to other machines and has no peer poll.
    pub fn accesses_memory(&self, any: bool) -> bool {
        let has = |at: usize| {
            // A simulated process has no number, and its lane leads everywhere.
            let leads_far = |lane: &dyn Lane| lane.doorbell().is_none_or(|doorbell| doorbell.pid == 0);
            let is_far = !self.state.limits[at].needs_target && leads_far(&*self.lanes[at]);
            self.state.can_write(at) && (any || is_far)
        };
        // The first one leads to this process.
        (1..self.lanes.len()).any(has)
    }

    /// Ends that.
    pub fn conceal(&mut self, Exposed(regions): Exposed) {
        for (lane, region) in regions {
            self.lanes[lane].deregister(region);
        }
    }

    /// Whether what a peer has exposed as `keys` can be accessed. Asks for the peer's card, if that has not been done.
    pub fn reach(&mut self, peer: PeerIndex, keys: &Keys) -> Reach {
        self.state.seek(peer);
        let known = self.state.peer(peer);
        let at = match known.link {
            ConnectionState::Up | ConnectionState::Parting => known.lane,
            ConnectionState::Lost(_) => return Reach::No,
            ConnectionState::Unknown | ConnectionState::LookingUp | ConnectionState::Greeting => {
                return Reach::Unknown;
            }
        };
        let limits = &self.state.limits[at];
        let has_key = keys.on(&self.state.networks[at]).is_some();
        match has_key && self.state.can_write(at) && self.lanes[at].reaches_memory(peer) {
            true => Reach::Yes {
                atomics: limits.atomics,
                needs_target: limits.needs_target,
            },
            false => Reach::No,
        }
    }

    /// Whether a connected peer's lane has an atomic operation.
    #[cfg_attr(
        not(any(test, feature = "sim")),
        allow(dead_code, reason = "no window has lanes perform atomic operations")
    )]
    pub fn has_atomic(&self, peer: PeerIndex, form: Form, op: AtomicOp, number: Number) -> bool {
        let lane = self
            .state
            .peers
            .get(peer)
            .and_then(|peer| self.lanes.get(peer.lane));
        lane.is_some_and(|lane| lane.atomics().count(form, op, number) > 0)
    }

    /// Whether so many operations wait that it is better to send others in another way.
    pub fn has_many_accesses(&self) -> bool {
        self.state.accesses.len() >= WAITING
    }

    /// Writes the packed bytes of `from` to what a peer has exposed as `keys`, from its byte `offset` on.
    ///
    /// # Safety
    /// The memory is readable, and stays so and unchanged, until the counter is idle.
    pub unsafe fn write_remote(
        &mut self,
        peer: PeerIndex,
        keys: &Arc<Keys>,
        offset: u64,
        from: Memory,
        counter: &Arc<Counter>,
    ) {
        self.begin(peer, keys, offset, What::Write(from), counter);
    }

    /// Reads what a peer has exposed as `keys`, from its byte `offset` on, and unpacks it into `into`.
    ///
    /// # Safety
    /// The memory is writable, and stays so and untouched, until the counter is idle.
    pub unsafe fn read_remote(
        &mut self,
        peer: PeerIndex,
        keys: &Arc<Keys>,
        offset: u64,
        into: Memory,
        counter: &Arc<Counter>,
    ) {
        self.begin(peer, keys, offset, What::Read(into), counter);
    }

    /// Performs an atomic operation on what a peer has exposed as `keys`, from its byte `offset` on. Each element is updated by itself.
    ///
    /// # Safety
    /// Operands and comparands are readable, and stay so and unchanged, and the result writable and untouched, until the counter is idle.
    /// The first element is aligned to its size at the target.
    #[cfg_attr(
        not(any(test, feature = "sim")),
        allow(dead_code, reason = "no window has lanes perform atomic operations")
    )]
    pub unsafe fn update_remote(
        &mut self,
        peer: PeerIndex,
        keys: &Arc<Keys>,
        offset: u64,
        update: Update,
        counter: &Arc<Counter>,
    ) {
        match update.elements() {
            Err(error) if !update.is_empty() => {
                counter.begin();
                self.state.counts(counter, Err(error));
            }
            _ => self.begin(peer, keys, offset, What::Update(update), counter),
        }
    }

    /// A request that ends when nothing that counts in `counter` is under way, with the counter's error if there is one.
    pub fn wait_for(&mut self, counter: &Counter) -> RequestId {
        let request = self.bare_request();
        match counter.is_idle() {
            true => self.complete(request, counter.outcome()),
            false => counter.rest.lock().waiting.push(request),
        }
        request
    }

    fn begin(&mut self, peer: PeerIndex, keys: &Arc<Keys>, offset: u64, what: What, counter: &Arc<Counter>) {
        counter.begin();
        let mut access = Access {
            peer,
            keys: keys.clone(),
            offset,
            what,
            done: 0,
            packed: None,
            counter: counter.clone(),
        };
        // Those before it may wait for the same lane.
        if !self.state.accesses.is_empty() {
            self.state.accesses.push_back(access);
            return;
        }
        match self.advance(&mut access) {
            Step::Over(result) => self.state.counts(&access.counter, result),
            Step::Waits(_) => self.state.accesses.push_back(access),
        }
    }

    /// Tries the operations that wait.
    pub(super) fn start_accesses(&mut self) {
        // A lane that takes no more for now must not hold up another; but not all that wait for it are looked at each time.
        let mut full = 0u64;
        let mut refused = None;
        let (mut at, mut passed) = (0, 0);
        while let Some(access) = self.state.accesses.get(at).filter(|_| passed < PASSED) {
            let peer = access.peer;
            let lane = self.state.peer(peer).lane;
            if full & 1 << (lane % 64) != 0 {
                at += 1;
                passed += 1;
                continue;
            }
            let Some(mut access) = self.state.accesses.remove(at) else {
                break;
            };
            match self.advance(&mut access) {
                Step::Over(result) => self.state.counts(&access.counter, result),
                Step::Waits(lane) => {
                    if let Some(lane) = lane {
                        full |= 1 << (lane % 64);
                        refused = Some(peer);
                    }
                    at = at.min(self.state.accesses.len());
                    self.state.accesses.insert(at, access);
                    at += 1;
                }
            }
        }
        if let Some(peer) = refused {
            self.report_late(peer);
        }
    }

    /// Gives as much of an operation to its lane as that takes.
    fn advance(&mut self, access: &mut Access) -> Step {
        self.state.seek(access.peer);
        let Engine { lanes, state, .. } = self;
        let peer = state.peers.meet(access.peer);
        let at = match &peer.link {
            ConnectionState::Up | ConnectionState::Parting => peer.lane,
            ConnectionState::Lost(error) => return Step::Over(Err(error.clone())),
            ConnectionState::Unknown | ConnectionState::LookingUp | ConnectionState::Greeting => {
                return Step::Waits(None);
            }
        };
        let len = access.len();
        let keys = access.keys.clone();
        let Some(key) = keys.on(&state.networks[at]) else {
            return Step::Over(match len {
                0 => Ok(()),
                _ => Err(err!(
                    Other,
                    "the memory of process {} is not exposed over the lane {}",
                    access.peer.number(),
                    lanes[at].name()
                )),
            });
        };
        let lane = &mut lanes[at];
        while access.done < len {
            let Some(offset) = access.offset.checked_add(access.done) else {
                return Step::Over(Err(err!(Intern, "an offset of {} bytes", access.offset)));
            };
            let counter = access.counter.clone();
            let token = state.operations.insert(Operation::OneSided(Part {
                peer: access.peer,
                counter,
                owned: None,
                unpacked: None,
            }));
            let (to, least) = (access.peer, state.limits[at].read_run as u64);
            let mut handed = access.hand(least);
            // SAFETY: whoever began the operation keeps its memory as it has to be until the counter is idle; bytes of our own are kept in
            // the lane's part of the operation below.
            let sent = unsafe {
                match &handed {
                    Handed::Write(pieces, _) => lane.write(to, key, offset, pieces, token.into()),
                    Handed::Read(pieces, _) => lane.read(to, key, offset, pieces, token.into()),
                    Handed::Update(update) => {
                        let most = lane.atomics().count(update.form(), update.op, update.number);
                        let few = update.part(0, update.len().min(most * update.number.size()));
                        handed = Handed::Update(few);
                        match most {
                            0 => Err(err!(
                                Intern,
                                "the lane {} has no {:?} of {:?}",
                                lane.name(),
                                few.op,
                                few.number
                            )),
                            _ => lane.atomic(to, key, offset, &few, token.into()),
                        }
                    }
                }
            };
            let bytes = handed.len();
            let owned = handed.owned();
            let unpacked = match (&access.what, &owned) {
                (What::Read(memory), Some(_)) => Some((memory.clone(), access.done)),
                _ => None,
            };
            match sent {
                Ok(Sent::Pending) => {
                    access.counter.begin();
                    if let Some(Operation::OneSided(part)) = state.operations.get_mut(token) {
                        (part.owned, part.unpacked) = (owned, unpacked);
                    }
                    access.done += bytes;
                }
                Ok(Sent::Done) => {
                    state.operations.remove(token);
                    // SAFETY: as above.
                    unsafe { unpack(owned, unpacked) };
                    access.done += bytes;
                }
                Ok(Sent::Again) => {
                    state.operations.remove(token);
                    access.packed = owned;
                    return Step::Waits(Some(at));
                }
                Err(error) => {
                    state.operations.remove(token);
                    return Step::Over(Err(error));
                }
            }
        }
        Step::Over(Ok(()))
    }
}

/// What is given to a lane at once.
enum Handed {
    Write(Pieces, Option<Vec<u8>>),
    Read(Pieces, Option<Vec<u8>>),
    Update(Update),
}

impl Handed {
    fn len(&self) -> u64 {
        match self {
            Handed::Write(pieces, _) | Handed::Read(pieces, _) => total(pieces) as u64,
            Handed::Update(update) => update.len() as u64,
        }
    }

    fn owned(self) -> Option<Vec<u8>> {
        match self {
            Handed::Write(_, owned) | Handed::Read(_, owned) => owned,
            Handed::Update(_) => None,
        }
    }
}

impl Access {
    fn len(&self) -> u64 {
        match &self.what {
            What::Write(memory) | What::Read(memory) => memory.len(),
            What::Update(update) => update.len() as u64,
        }
    }

    /// The next bytes. Memory whose runs are shorter than `least` on average is packed.
    fn hand(&mut self, least: u64) -> Handed {
        let left = self.len() - self.done;
        let (memory, writes) = match &self.what {
            What::Update(update) => {
                return Handed::Update(update.part(self.done as usize, left as usize));
            }
            What::Write(memory) => (memory, true),
            What::Read(memory) => (memory, false),
        };
        let (pieces, owned) = if memory.contiguous().is_some() || memory.mean_run() >= least {
            (memory.pieces(self.done, left, READ_PIECES), None)
        } else {
            let mut bytes = self.packed.take().unwrap_or_else(|| {
                let mut bytes = vec![0; left.min(PACKED) as usize];
                if writes {
                    // SAFETY: whoever began the operation keeps the memory readable.
                    unsafe { memory.pack(self.done, &mut bytes[..]) };
                }
                bytes
            });
            (Pieces::from_elem(Piece::of_mut(&mut bytes), 1), Some(bytes))
        };
        match writes {
            true => Handed::Write(pieces, owned),
            false => Handed::Read(pieces, owned),
        }
    }
}

/// Puts bytes that were read where they belong.
///
/// # Safety
/// The memory is writable.
unsafe fn unpack(owned: Option<Vec<u8>>, unpacked: Option<(Memory, u64)>) {
    if let Some((bytes, (memory, offset))) = owned.zip(unpacked) {
        // SAFETY: as the caller says.
        unsafe { memory.unpack(offset, &bytes[..]) };
    }
}

impl EngineState {
    /// Whether memory can be exposed and accessed over a lane.
    fn can_write(&self, lane: usize) -> bool {
        self.rma && self.limits[lane].rma && self.limits[lane].write
    }

    /// An operation, or a lane's part of one, has ended.
    fn counts(&mut self, counter: &Counter, result: Result<()>) {
        for request in counter.ended(result) {
            self.complete_bare(request, counter.outcome());
        }
        self.happened();
    }

    /// A lane has ended its part of an operation.
    pub(super) fn part_ended(&mut self, part: Part, result: Result<()>) {
        if result.is_ok() {
            // SAFETY: whoever began the operation keeps the memory writable until the counter is idle, which it is not yet.
            unsafe { unpack(part.owned, part.unpacked) };
        }
        self.counts(&part.counter, result);
    }

    /// A peer is lost: what waits for it fails.
    pub(super) fn fail_accesses_of(&mut self, peer: PeerIndex, error: &Error) {
        let all = std::mem::take(&mut self.accesses).into_iter();
        let (failed, rest): (VecDeque<_>, VecDeque<_>) = all.partition(|access| access.peer == peer);
        self.accesses = rest;
        for access in failed {
            self.counts(&access.counter, Err(error.clone()));
        }
    }
}
