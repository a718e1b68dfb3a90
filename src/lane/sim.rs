//! An in-process lane for tests: a network in virtual time, in which every delay and refusal follows from a seed.
//!
//! The idea: a [`Network`] holds, for each process, a heap of what is going to reach it and when: messages, completions,
//! deaths. A [`SimLane`] delivers what is due when the engine polls it. Time does not advance until [`Network::advance`]
//! is called. Every delay is at least one nanosecond, so nothing that one process does can be seen at another before time
//! has advanced.
//!
//! It is a strict lane. Bytes that must not change while a message is pending are compared when it completes; memory that
//! is the target of a read is first overwritten with arbitrary bytes; a region can be accessed only until it is deregistered.
//!
//! Writes and atomic operations happen in any order, each at once and some time before its completion: when the target polls, or, where
//! [`Limits::needs_target`] is not set, without it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::os::fd::RawFd;
use std::sync::Arc;

use fastrand::Rng;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::atomic::{AtomicTable, Atomics, Form, Update};
use super::{Doorbell, Lane, Limits, Region, RemoteKey, Sample, Sent, Sink};
use crate::base::error::{Error, Result};
use crate::data::pieces::{Piece, Pieces, total};
use crate::err;
use crate::identity::{PeerIndex, ProcessName};

/// How a network behaves.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// The limits that its lanes report and keep.
    pub limits: Limits,
    /// The longest delay of a message in virtual nanoseconds.
    pub delay_ns_max: u64,
    /// The longest time from a send or read to its completion, where it has one.
    pub completion_ns_max: u64,
    /// How many of a thousand sends and reads are refused with [`Sent::Again`].
    pub again_permille: u32,
    /// How many of a thousand reads, writes and atomic operations fail.
    pub failed_reads_permille: u32,
    /// How many of a thousand messages of the process [`Conditions::rogue`] have some bytes changed or are cut.
    pub mangled_permille: u32,
    /// The process whose messages are changed.
    pub rogue: Option<PeerIndex>,
    /// Whether a lane notices that a process of another job is gone.
    pub notices_other_jobs: bool,
}

/// A network of processes, shared by their lanes and the simulation.
#[derive(Clone)]
pub struct Network(Arc<Mutex<NetworkState>>);

struct NetworkState {
    conditions: Conditions,
    rng: Rng,
    now_ns: u64,
    /// Number of events made so far: orders those that are due at the same time.
    events: u64,
    nodes: Vec<Node>,
    /// Times at which something is to happen outside of the network.
    alarms: BTreeSet<u64>,
    /// When the last message of a pair is due, which the next one must not precede in an ordered network.
    last_due_ns: FxHashMap<(PeerIndex, PeerIndex), u64>,
    /// For each pair: the number of each message, and when it has left its sender.
    left_ns: FxHashMap<(PeerIndex, PeerIndex), Vec<(u64, u64)>>,
}

#[derive(Default)]
struct Node {
    /// What others know it by, once it has a lane.
    name: Option<ProcessName>,
    dead: bool,
    coming: BinaryHeap<Reverse<Event>>,
    regions: FxHashMap<u64, Registered>,
    next_region: u64,
    /// Completions to come.
    pending: usize,
    /// Messages that it has sent.
    sent: u64,
}

struct Registered {
    pieces: Pieces,
    /// Whether peers may write to it.
    exposed: bool,
}

struct Event {
    due_ns: u64,
    number: u64,
    what: What,
}

enum What {
    Message {
        from: PeerIndex,
        bytes: Vec<u8>,
    },
    /// A short message has left, where all are counted.
    Counted,
    /// A message's memory is free again, if it still holds `copy`.
    Left {
        peer: PeerIndex,
        token: u64,
        payload: Piece,
        copy: Vec<u8>,
        result: Result<()>,
    },
    /// The time at which a read happens.
    Read(Reading),
    /// A read is complete.
    HasRead {
        reading: Reading,
        result: Result<()>,
        copy: Vec<u8>,
    },
    /// The time at which a write or an atomic operation happens. It comes to the process that performs it.
    Access(Access),
    /// It is complete: what an atomic operation returns.
    HasAccessed {
        access: Access,
        result: Result<Vec<u8>>,
    },
    Lost(ProcessName, Error),
    /// The process is to be polled at this time.
    Wake,
}

struct Reading {
    peer: PeerIndex,
    region: u64,
    offset: u64,
    into: Pieces,
    token: u64,
}

/// A write or an atomic operation.
struct Access {
    from: PeerIndex,
    peer: PeerIndex,
    region: u64,
    offset: u64,
    /// The bytes that are written, or the operands.
    bytes: Vec<u8>,
    what: Accesses,
    token: u64,
}

enum Accesses {
    /// A write from this memory.
    Write(Pieces),
    /// An atomic operation, with what it compares.
    Update(Update, Vec<u8>),
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        (self.due_ns, self.number) == (other.due_ns, other.number)
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due_ns, self.number).cmp(&(other.due_ns, other.number))
    }
}

impl Network {
    /// A network of `size` processes at time 0.
    pub fn new(seed: u64, size: u32, conditions: Conditions) -> Network {
        Network(Arc::new(Mutex::new(NetworkState {
            conditions,
            rng: Rng::with_seed(seed),
            now_ns: 0,
            events: 0,
            nodes: (0..size).map(|_| Node::default()).collect(),
            alarms: BTreeSet::new(),
            last_due_ns: FxHashMap::default(),
            left_ns: FxHashMap::default(),
        })))
    }

    /// Adds so many processes; the result is the number of the first.
    pub fn add(&self, count: u32) -> PeerIndex {
        let nodes = &mut self.0.lock().nodes;
        let first = PeerIndex::new(nodes.len() as u32);
        nodes.extend((0..count).map(|_| Node::default()));
        first
    }

    /// The lane of a process, by its number in this network. Processes of several jobs can be in one network.
    pub fn lane(&self, me: PeerIndex, name: ProcessName) -> SimLane {
        let state = &mut *self.0.lock();
        state.nodes[me.index()].name = Some(name);
        let limits = state.conditions.limits;
        let atomics = match limits.atomics {
            Atomics::None => AtomicTable::NONE,
            // Few, so that there are operations of several calls.
            Atomics::Emulated | Atomics::Hardware => {
                AtomicTable::of(|_, op, number| if number.has(op) { 5 } else { 0 })
            }
        };
        SimLane {
            me,
            limits,
            network: self.clone(),
            due: VecDeque::new(),
            peers: FxHashMap::default(),
            counts_all: false,
            atomics: Box::new(atomics),
        }
    }

    /// The virtual time in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.0.lock().now_ns
    }

    /// A number below `bound`, from the network's seed.
    pub fn random(&self, bound: u64) -> u64 {
        self.0.lock().rng.u64(..bound)
    }

    /// Moves time on to the next event, and perhaps a few more. `false`: nothing is to come.
    pub fn advance(&self) -> bool {
        let mut state = self.0.lock();
        let next = state
            .nodes
            .iter()
            .filter_map(|node| Some(node.coming.peek()?.0.due_ns))
            .chain(state.alarms.first().copied())
            .min();
        let Some(next) = next else { return false };
        let slack = state.conditions.delay_ns_max / 4;
        let slack = state.rng.u64(..=slack);
        state.now_ns = state.now_ns.max(next + slack);
        let now_ns = state.now_ns;
        state.alarms.retain(|&due_ns| due_ns > now_ns);
        true
    }

    /// Moves time on a little though nothing is to come.
    pub fn tick(&self) {
        self.0.lock().now_ns += 1;
    }

    /// Whether something has reached this process that its lane has not handed over.
    pub fn has_due(&self, process: PeerIndex) -> bool {
        let state = self.0.lock();
        let node = &state.nodes[process.index()];
        node.coming
            .peek()
            .is_some_and(|Reverse(event)| event.due_ns <= state.now_ns)
    }

    /// Makes the next poll of this process at or after that time find something.
    pub fn wake_at(&self, process: PeerIndex, due_ns: u64) {
        self.0.lock().push(process, due_ns, What::Wake);
    }

    /// Makes time stop at that time, or soon after it, though nothing comes to a process then.
    pub fn alarm_at(&self, due_ns: u64) {
        self.0.lock().alarms.insert(due_ns);
    }

    /// How many messages a process has sent, of all kinds.
    pub fn sent(&self, process: PeerIndex) -> u64 {
        self.0.lock().nodes[process.index()].sent
    }

    /// How many messages a process has sent to another, of all kinds.
    pub fn sent_to(&self, from: PeerIndex, to: PeerIndex) -> usize {
        self.0.lock().left_ns.get(&(from, to)).map_or(0, Vec::len)
    }

    /// Ends a process without notice. What it has sent may or may not arrive; then the others learn of its end.
    pub fn kill(&self, process: PeerIndex) {
        let state = &mut *self.0.lock();
        let node = &mut state.nodes[process.index()];
        node.dead = true;
        node.regions.clear();
        let coming = std::mem::take(&mut node.coming);
        state.fail_accesses(coming);
        for at in 0..state.nodes.len() {
            state.announce(
                process,
                PeerIndex::new(at as u32),
                state.now_ns,
                death_of(process),
            );
        }
    }

    /// A process closes its lane and exits. Those of its messages under way are lost that had not left it, as only
    /// [`Lane::is_drained`] reports; messages to the same peer leave in order. Then the others see its connections close.
    pub fn leave(&self, process: PeerIndex) {
        let why = err!(Other, "process {} has exited", process.number());
        self.exit(process, &why);
    }

    /// The same of a process that is ended from outside.
    pub fn end(&self, process: PeerIndex) {
        self.exit(process, &death_of(process));
    }

    fn exit(&self, process: PeerIndex, why: &Error) {
        let state = &mut *self.0.lock();
        let node = &mut state.nodes[process.index()];
        node.dead = true;
        node.regions.clear();
        let coming = std::mem::take(&mut node.coming);
        state.fail_accesses(coming);
        let now_ns = state.now_ns;
        for at in 0..state.nodes.len() {
            let mut last_ns = now_ns;
            let pair = (process, PeerIndex::new(at as u32));
            let left = state.left_ns.get(&pair).and_then(|messages| {
                let mut latest_first = messages.iter().rev();
                latest_first.find(|&&(_, left_ns)| left_ns <= now_ns)
            });
            let left = left.map(|&(number, _)| number);
            let keeps = |Reverse(event): &Reverse<Event>| match event.what {
                What::Message { from, .. } if from == process => {
                    let keeps = left >= Some(event.number);
                    if keeps {
                        last_ns = last_ns.max(event.due_ns);
                    }
                    keeps
                }
                _ => true,
            };
            state.nodes[at].coming.retain(keeps);
            // A connection closes after what was sent over it.
            state.announce(process, PeerIndex::new(at as u32), last_ns, why.clone());
        }
    }

    /// Whether it has been killed, or has left.
    pub fn is_dead(&self, process: PeerIndex) -> bool {
        self.0.lock().nodes[process.index()].dead
    }

    /// Makes any bytes arrive at a process as a message.
    pub fn inject(&self, to: PeerIndex, bytes: &[u8]) {
        let mut state = self.0.lock();
        let due_ns = state.now_ns + 1;
        let (from, bytes) = (to, bytes.to_vec());
        state.push(to, due_ns, What::Message { from, bytes });
    }

    /// What is to come for a process, in words.
    pub fn describe(&self, process: PeerIndex) -> String {
        let state = self.0.lock();
        let node = &state.nodes[process.index()];
        format!(
            "network: {} events to come at time {} ns, {} completions among them, {} regions registered{}",
            node.coming.len(),
            state.now_ns,
            node.pending,
            node.regions.len(),
            if node.dead { ", dead" } else { "" }
        )
    }
}

fn death_of(process: PeerIndex) -> Error {
    err!(ProcAborted, "process {} is dead", process.number())
}

impl NetworkState {
    fn push(&mut self, to: PeerIndex, due_ns: u64, what: What) {
        let number = self.events;
        self.events += 1;
        let node = &mut self.nodes[to.index()];
        // What is not there yet hears nothing.
        if !node.dead && node.name.is_some() {
            node.coming.push(Reverse(Event { due_ns, number, what }));
        }
    }

    fn register(&mut self, me: PeerIndex, pieces: Pieces, exposed: bool) -> (Region, RemoteKey) {
        let node = &mut self.nodes[me.index()];
        let region = node.next_region;
        node.next_region += 1;
        node.regions.insert(region, Registered { pieces, exposed });
        (Region(region), RemoteKey(region.to_le_bytes().to_vec()))
    }

    fn chance(&mut self, permille: u32) -> bool {
        permille != 0 && self.rng.u32(..1000) < permille
    }

    /// Informs a process, some time after `from_ns`, that another can't be reached any more.
    fn announce(&mut self, gone: PeerIndex, to: PeerIndex, from_ns: u64, error: Error) {
        let [name, of] = [gone, to].map(|node| self.nodes[node.index()].name);
        let is_beside = |name: &ProcessName| of.is_some_and(|of| of.job == name.job);
        let name = name.filter(|name| self.conditions.notices_other_jobs || is_beside(name));
        if let Some(name) = name.filter(|_| !self.nodes[to.index()].dead) {
            let due_ns = from_ns + 1 + self.rng.u64(..=2 * self.conditions.delay_ns_max);
            self.push(to, due_ns, What::Lost(name, error));
        }
    }

    /// Puts a message on its way.
    fn post(&mut self, from: PeerIndex, to: PeerIndex, mut bytes: Vec<u8>, left_ns: u64) {
        self.nodes[from.index()].sent += 1;
        if self.nodes[to.index()].dead {
            return;
        }
        if self.conditions.rogue == Some(from) && self.chance(self.conditions.mangled_permille) {
            mangle(&mut self.rng, &mut bytes);
        }
        let mut due_ns = self.now_ns + 1 + self.rng.u64(..=self.conditions.delay_ns_max);
        if self.conditions.limits.ordered {
            let last = self.last_due_ns.entry((from, to)).or_default();
            due_ns = due_ns.max(*last);
            *last = due_ns;
        }
        self.left_ns
            .entry((from, to))
            .or_default()
            .push((self.events, left_ns));
        self.push(to, due_ns, What::Message { from, bytes });
    }

    /// What was to happen at a process that has ended fails.
    fn fail_accesses(&mut self, coming: BinaryHeap<Reverse<Event>>) {
        for Reverse(event) in coming.into_sorted_vec() {
            if let What::Access(access) = event.what
                && access.from != access.peer
            {
                let (from, result) = (access.from, Err(death_of(access.peer)));
                let due_ns = self.completion_time();
                self.push(from, due_ns, What::HasAccessed { access, result });
            }
        }
    }

    /// Performs a write or an atomic operation; returns what was there before.
    fn access(&mut self, access: &Access) -> Result<Vec<u8>> {
        let len = access.bytes.len().max(match &access.what {
            Accesses::Write(_) => 0,
            Accesses::Update(update, _) => update.len(),
        });
        let fails = self.chance(self.conditions.failed_reads_permille);
        let registered = self.nodes[access.peer.index()].regions.get(&access.region);
        let within = registered.filter(|registered| {
            let end = access.offset.checked_add(len as u64);
            registered.exposed && end.is_some_and(|end| end <= total(&registered.pieces) as u64)
        });
        let Some(&[memory]) = within.filter(|_| !fails).map(|within| &within.pieces[..]) else {
            return Err(err!(
                Other,
                "region {} of process {} can't be written at {} for {len} bytes",
                access.region,
                access.peer.number(),
                access.offset
            ));
        };
        let target = [memory.part(access.offset as usize, len)];
        // SAFETY: the exposed memory is valid until it is deregistered, which it has not been.
        let before = unsafe { gather(&target) };
        let after = match &access.what {
            Accesses::Write(_) => access.bytes.clone(),
            Accesses::Update(update, compare) => updated(update, &before, &access.bytes, compare),
        };
        // SAFETY: as above.
        unsafe { scatter(&after, &target) };
        Ok(before)
    }

    fn completion_time(&mut self) -> u64 {
        self.now_ns + 1 + self.rng.u64(..=self.conditions.completion_ns_max)
    }

    /// Does what is due at a process and passes on what its engine has to know. `false`: nothing is due.
    fn next_due(&mut self, me: PeerIndex) -> Option<What> {
        loop {
            let now_ns = self.now_ns;
            let node = &mut self.nodes[me.index()];
            let due = node
                .coming
                .peek()
                .is_some_and(|Reverse(event)| event.due_ns <= now_ns);
            let what = due.then(|| node.coming.pop())??.0.what;
            match what {
                What::Read(reading) => {
                    let (result, copy) = self.read(&reading);
                    let due_ns = self.completion_time();
                    self.push(
                        me,
                        due_ns,
                        What::HasRead {
                            reading,
                            result,
                            copy,
                        },
                    );
                }
                What::Access(access) => {
                    let result = self.access(&access);
                    let due_ns = self.completion_time();
                    self.push(access.from, due_ns, What::HasAccessed { access, result });
                }
                other => return Some(other),
            }
        }
    }

    /// Copies the bytes of a read from the registered memory.
    fn read(&mut self, reading: &Reading) -> (Result<()>, Vec<u8>) {
        let fails = self.chance(self.conditions.failed_reads_permille);
        let len = total(&reading.into);
        let registered = self.nodes[reading.peer.index()].regions.get(&reading.region);
        let within = registered.filter(|registered| {
            let end = reading.offset.checked_add(len as u64);
            end.is_some_and(|end| end <= total(&registered.pieces) as u64)
        });
        let result = match within {
            Some(registered) if !fails => {
                // SAFETY: the registered memory is valid until it is deregistered, which it has not been.
                let from = unsafe { gather(&registered.pieces) };
                let start = reading.offset as usize;
                // SAFETY: the pieces are valid until the completion, as the engine promised.
                unsafe { scatter(&from[start..start + len], &reading.into) };
                Ok(())
            }
            _ => {
                // SAFETY: as above.
                unsafe { scatter(&vec![0xee; len], &reading.into) };
                Err(err!(
                    Other,
                    "region {} of process {} can't be read at {} for {} bytes",
                    reading.region,
                    reading.peer.number(),
                    reading.offset,
                    len
                ))
            }
        };
        // SAFETY: as above.
        (result, unsafe { gather(&reading.into) })
    }
}

/// What an atomic operation makes of some elements.
fn updated(update: &Update, before: &[u8], operands: &[u8], comparands: &[u8]) -> Vec<u8> {
    let size = update.number.size();
    let element = |bytes: &[u8], at: usize| {
        let mut element = [0; 8];
        // There are no operands, or none to compare with.
        let part = bytes.get(at..at + size).unwrap_or(&[]);
        element[..part.len()].copy_from_slice(part);
        u64::from_ne_bytes(element)
    };
    let mut after = Vec::with_capacity(before.len());
    for at in (0..before.len()).step_by(size) {
        let [target, operand, compare] = [before, operands, comparands].map(|bytes| element(bytes, at));
        let made = update.number.combined(update.op, target, operand, compare);
        after.extend_from_slice(&made.to_ne_bytes()[..size]);
    }
    after
}

/// The bytes of all pieces.
///
/// # Safety
/// They are valid for reading.
unsafe fn gather(pieces: &[Piece]) -> Vec<u8> {
    // SAFETY: the caller's pieces are valid.
    let slice = |piece: &Piece| unsafe { std::slice::from_raw_parts(piece.address, piece.len) };
    pieces
        .iter()
        .filter(|piece| piece.len > 0)
        .flat_map(slice)
        .copied()
        .collect()
}

/// Puts bytes into pieces that have room for exactly these bytes.
///
/// # Safety
/// The pieces are valid for writing.
unsafe fn scatter(mut bytes: &[u8], pieces: &[Piece]) {
    for piece in pieces.iter().filter(|piece| piece.len > 0) {
        let (some, rest) = bytes.split_at(piece.len);
        // SAFETY: the caller's pieces are valid.
        unsafe { std::slice::from_raw_parts_mut(piece.address, piece.len) }.copy_from_slice(some);
        bytes = rest;
    }
    assert!(bytes.is_empty(), "{} bytes too many", bytes.len());
}

/// Cuts a message or changes some of its bits, except for those that name its sender: any holder of a process's token can
/// send in another's name.
fn mangle(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if rng.u32(..4) == 0 {
        let len = rng.u64(..=bytes.len() as u64) as usize;
        bytes.truncate(len);
    } else {
        for _ in 0..rng.u32(1..4) {
            // Mostly in the header, where it matters.
            let bound = if rng.bool() {
                bytes.len().min(48)
            } else {
                bytes.len()
            };
            let at = rng.u64(..bound as u64) as usize;
            if !SENDER.contains(&at) {
                bytes[at] ^= 1 << rng.u32(..8);
            }
        }
    }
}

/// Where a header names its sender; see `crate::engine::wire`.
const SENDER: std::ops::Range<usize> = 12..16;

/// One process's connection to a [`Network`].
pub struct SimLane {
    me: PeerIndex,
    limits: Limits,
    network: Network,
    /// What is being delivered, outside of the network's lock.
    due: VecDeque<What>,
    /// The numbers in the network of the processes that this one is connected to.
    peers: FxHashMap<PeerIndex, PeerIndex>,
    counts_all: bool,
    /// See [`Lane::atomics`].
    atomics: Box<AtomicTable>,
}

impl SimLane {
    /// Begins a write or an atomic operation.
    fn begin(
        &mut self,
        (peer, token): (PeerIndex, u64),
        (key, offset): (&RemoteKey, u64),
        bytes: Vec<u8>,
        what: Accesses,
    ) -> Result<Sent> {
        let region = region_of(peer, key)?;
        let peer = self.number(peer)?;
        let state = &mut *self.network.0.lock();
        if state.chance(state.conditions.again_permille) {
            return Ok(Sent::Again);
        }
        if let Accesses::Update(update, _) = &what
            && update.result.len > 0
        {
            let filler = vec![0xee; update.result.len];
            // SAFETY: the caller's memory is valid until the completion. Arbitrary bytes until the result comes.
            unsafe { scatter(&filler, &[update.result]) };
        }
        let access = Access {
            from: self.me,
            peer,
            region,
            offset,
            bytes,
            what,
            token,
        };
        state.nodes[self.me.index()].pending += 1;
        let due_ns = state.now_ns + 1 + state.rng.u64(..=state.conditions.delay_ns_max);
        if state.nodes[peer.index()].dead {
            let result = Err(death_of(peer));
            state.push(self.me, due_ns, What::HasAccessed { access, result });
        } else {
            let performs = if self.limits.needs_target { peer } else { self.me };
            state.push(performs, due_ns, What::Access(access));
        }
        Ok(Sent::Pending)
    }

    /// The number in the network of a peer.
    fn number(&self, peer: PeerIndex) -> Result<PeerIndex> {
        let number = self.peers.get(&peer).copied();
        number.ok_or_else(|| err!(Intern, "process {} was not connected", peer.number()))
    }
}

/// The number of a region, from its key.
fn region_of(peer: PeerIndex, key: &RemoteKey) -> Result<u64> {
    let number = <[u8; 8]>::try_from(key.0.as_slice()).map(u64::from_le_bytes);
    number.map_err(|_| {
        err!(
            Other,
            "process {} sent a memory key that makes no sense",
            peer.number()
        )
    })
}

impl Lane for SimLane {
    fn name(&self) -> String {
        "sim".into()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn address(&self) -> Vec<u8> {
        self.me.number().to_le_bytes().to_vec()
    }

    fn connect(&mut self, peer: PeerIndex, address: &[u8]) -> Result<()> {
        let node = <[u8; 4]>::try_from(address).map(u32::from_le_bytes);
        let state = &mut *self.network.0.lock();
        match node {
            Ok(node) if (node as usize) < state.nodes.len() => {
                let node = PeerIndex::new(node);
                self.peers.insert(peer, node);
                // Whoever comes too late for the news finds nobody.
                if state.nodes[node.index()].dead {
                    state.announce(node, self.me, state.now_ns, death_of(node));
                }
                Ok(())
            }
            _ => Err(err!(
                Other,
                "process {} has an address that makes no sense",
                peer.number()
            )),
        }
    }

    fn disconnect(&mut self, peer: PeerIndex) {
        let known = self.peers.remove(&peer);
        assert!(known.is_some(), "process {} was not connected", peer.number());
    }

    unsafe fn send(&mut self, peer: PeerIndex, header: &[u8], payload: Piece, token: u64) -> Result<Sent> {
        let peer = self.number(peer)?;
        let state = &mut *self.network.0.lock();
        let len = header.len() + payload.len;
        assert!(
            len <= self.limits.message,
            "a message of {len} bytes in a lane for {}",
            self.limits.message
        );
        if state.chance(state.conditions.again_permille) {
            return Ok(Sent::Again);
        }
        // SAFETY: the caller says that the payload is readable.
        let copy = unsafe { payload.bytes() }.to_vec();
        let message = [header, &copy].concat();
        let dead = state.nodes[peer.index()].dead;
        let left_ns = state.completion_time();
        state.post(self.me, peer, message, left_ns);
        if len <= self.limits.buffered || state.rng.u32(..8) == 0 {
            if self.counts_all {
                state.nodes[self.me.index()].pending += 1;
                state.push(self.me, left_ns, What::Counted);
            }
            return Ok(Sent::Done);
        }
        let result = if dead && state.rng.bool() {
            Err(death_of(peer))
        } else {
            Ok(())
        };
        let left = What::Left {
            peer,
            token,
            payload,
            copy,
            result,
        };
        state.nodes[self.me.index()].pending += 1;
        state.push(self.me, left_ns, left);
        Ok(Sent::Pending)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<bool> {
        let mut state = self.network.0.lock();
        while let Some(what) = state.next_due(self.me) {
            if let What::Left { .. } | What::HasRead { .. } | What::HasAccessed { .. } | What::Counted = &what
            {
                state.nodes[self.me.index()].pending -= 1;
            }
            self.due.push_back(what);
        }
        drop(state);
        let any = !self.due.is_empty();
        for what in self.due.drain(..) {
            match what {
                What::Message { bytes, .. } => sink.message(&bytes),
                What::Left {
                    peer,
                    token,
                    payload,
                    copy,
                    result,
                } => {
                    // SAFETY: the engine promised to keep the payload until this completion.
                    let bytes = unsafe { payload.bytes() }.to_vec();
                    assert!(
                        bytes == copy,
                        "{} bytes on their way from {} to {} were changed before the lane was done with them",
                        copy.len(),
                        self.me.number(),
                        peer.number()
                    );
                    sink.completed(token, result);
                }
                What::HasRead {
                    reading,
                    result,
                    copy,
                } => {
                    // SAFETY: the engine promised to keep the memory until this completion.
                    let bytes = unsafe { gather(&reading.into) };
                    assert!(
                        bytes == copy,
                        "{} bytes being read by {} from {} were touched before the lane was done with them",
                        copy.len(),
                        self.me.number(),
                        reading.peer.number()
                    );
                    sink.completed(reading.token, result);
                }
                What::Lost(name, error) => sink.sender_lost(name, error),
                What::Wake | What::Counted => {}
                What::HasAccessed { access, result } => {
                    match &access.what {
                        Accesses::Write(from) => {
                            // SAFETY: the engine promised to keep the bytes until this completion.
                            let bytes = unsafe { gather(from) };
                            assert!(
                                bytes == access.bytes,
                                "{} bytes being written by {} to {} were changed before the lane was done with them",
                                bytes.len(),
                                self.me.number(),
                                access.peer.number()
                            );
                        }
                        Accesses::Update(update, _) if update.form() != Form::Update => {
                            // SAFETY: the engine promised to keep the memory until this completion.
                            let bytes = unsafe { gather(&[update.result]) };
                            assert!(
                                bytes.iter().all(|&byte| byte == 0xee),
                                "the result of an atomic operation by {} was touched before the lane was done with it",
                                self.me.number()
                            );
                            if let Ok(before) = &result {
                                // SAFETY: as above.
                                unsafe { scatter(before, &[update.result]) };
                            }
                        }
                        Accesses::Update(..) => {}
                    }
                    sink.completed(access.token, result.map(drop));
                }
                What::Read(_) | What::Access(_) => unreachable!("done by next_due"),
            }
        }
        Ok(any)
    }

    unsafe fn register(&mut self, pieces: &[Piece]) -> Result<(Region, RemoteKey)> {
        let state = &mut *self.network.0.lock();
        Ok(state.register(self.me, pieces.into(), false))
    }

    unsafe fn expose(&mut self, memory: Piece) -> Result<(Region, RemoteKey)> {
        let state = &mut *self.network.0.lock();
        Ok(state.register(self.me, Pieces::from_elem(memory, 1), true))
    }

    unsafe fn write(
        &mut self,
        peer: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        from: &[Piece],
        token: u64,
    ) -> Result<Sent> {
        // SAFETY: the caller says that the pieces are readable.
        let bytes = unsafe { gather(from) };
        self.begin((peer, token), (key, offset), bytes, Accesses::Write(from.into()))
    }

    fn atomics(&self) -> &AtomicTable {
        &self.atomics
    }

    unsafe fn atomic(
        &mut self,
        peer: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        update: &Update,
        token: u64,
    ) -> Result<Sent> {
        let count = update.elements()?;
        assert!(
            count <= self.atomics.count(update.form(), update.op, update.number),
            "{count} elements of {update:?}"
        );
        // SAFETY: the caller says that operand and comparand are readable.
        let [operands, comparands] =
            [update.operand, update.compare].map(|piece| unsafe { gather(&[piece]) });
        let what = Accesses::Update(*update, comparands);
        self.begin((peer, token), (key, offset), operands, what)
    }

    fn deregister(&mut self, region: Region) {
        let state = &mut *self.network.0.lock();
        let node = &mut state.nodes[self.me.index()];
        let known = node.regions.remove(&region.0).is_some();
        assert!(
            known || node.dead,
            "region {} of process {} is not registered",
            region.0,
            self.me.number()
        );
    }

    unsafe fn read(
        &mut self,
        peer: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        into: &[Piece],
        token: u64,
    ) -> Result<Sent> {
        let region = region_of(peer, key)?;
        let peer = self.number(peer)?;
        let state = &mut *self.network.0.lock();
        if state.chance(state.conditions.again_permille) {
            return Ok(Sent::Again);
        }
        let reading = Reading {
            peer,
            region,
            offset,
            into: into.into(),
            token,
        };
        if state.rng.u32(..8) == 0 {
            return state.read(&reading).0.map(|()| Sent::Done);
        }
        // SAFETY: the caller's pieces are valid. Arbitrary bytes until the data comes.
        unsafe { scatter(&vec![0xee; total(into)], into) };
        let due_ns = state.now_ns + 1 + state.rng.u64(..=state.conditions.delay_ns_max);
        state.nodes[self.me.index()].pending += 1;
        state.push(self.me, due_ns, What::Read(reading));
        Ok(Sent::Pending)
    }

    fn arm(&mut self) -> Option<RawFd> {
        None
    }

    /// Nobody sleeps in a simulation.
    fn doorbell(&self) -> Option<Doorbell> {
        Some(Doorbell {
            pid: 0,
            descriptor: 0,
            inode: 0,
            wants_fences: false,
        })
    }

    /// All processes are in this one.
    fn sample(&self) -> Option<Sample> {
        static WORD: u64 = 0x7765_6674_2d73_696d;
        Some(Sample {
            pid: std::process::id(),
            address: (&raw const WORD).expose_provenance() as u64,
            value: WORD,
        })
    }

    fn can_sleep(&self) -> bool {
        false
    }

    fn is_drained(&self) -> bool {
        self.network.0.lock().nodes[self.me.index()].pending == 0
    }

    fn count_all(&mut self, on: bool) {
        self.counts_all = on;
    }
}
