//! The network of a simulation: what is on its way to each process, in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;

use fastrand::Rng;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::SimLane;
use super::memory::{Access, Reading, Registered};
use crate::base::error::{Error, Result};
use crate::data::pieces::Piece;
use crate::err;
use crate::identity::{PeerIndex, ProcessName};
use crate::lane::Limits;
use crate::lane::atomic::{AtomicTable, Atomics};

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
pub struct Network(pub(super) Arc<Mutex<NetworkState>>);

pub(super) struct NetworkState {
    pub(super) conditions: Conditions,
    pub(super) rng: Rng,
    pub(super) now_ns: u64,
    /// Number of events made so far: orders those that are due at the same time.
    pub(super) events: u64,
    pub(super) nodes: Vec<Node>,
    /// Times at which something is to happen outside of the network.
    pub(super) alarms: BTreeSet<u64>,
    /// When the last message of a pair is due, which the next one must not precede in an ordered network.
    pub(super) last_due_ns: FxHashMap<(PeerIndex, PeerIndex), u64>,
    /// For each pair: the number of each message, and when it has left its sender.
    pub(super) left_ns: FxHashMap<(PeerIndex, PeerIndex), Vec<(u64, u64)>>,
}

#[derive(Default)]
pub(super) struct Node {
    /// What others know it by, once it has a lane.
    pub(super) name: Option<ProcessName>,
    pub(super) dead: bool,
    pub(super) coming: BinaryHeap<Reverse<Event>>,
    pub(super) regions: FxHashMap<u64, Registered>,
    pub(super) next_region: u64,
    /// Completions to come.
    pub(super) pending: usize,
    /// Messages that it has sent.
    pub(super) sent: u64,
}

pub(super) struct Event {
    pub(super) due_ns: u64,
    pub(super) number: u64,
    pub(super) what: What,
}

pub(super) enum What {
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

pub(super) fn death_of(process: PeerIndex) -> Error {
    err!(ProcAborted, "process {} is dead", process.number())
}

impl NetworkState {
    pub(super) fn push(&mut self, to: PeerIndex, due_ns: u64, what: What) {
        let number = self.events;
        self.events += 1;
        let node = &mut self.nodes[to.index()];
        // What is not there yet hears nothing.
        if !node.dead && node.name.is_some() {
            node.coming.push(Reverse(Event { due_ns, number, what }));
        }
    }

    pub(super) fn chance(&mut self, permille: u32) -> bool {
        permille != 0 && self.rng.u32(..1000) < permille
    }

    /// Informs a process, some time after `from_ns`, that another can't be reached any more.
    pub(super) fn announce(&mut self, gone: PeerIndex, to: PeerIndex, from_ns: u64, error: Error) {
        let [name, of] = [gone, to].map(|node| self.nodes[node.index()].name);
        let is_beside = |name: &ProcessName| of.is_some_and(|of| of.job == name.job);
        let name = name.filter(|name| self.conditions.notices_other_jobs || is_beside(name));
        if let Some(name) = name.filter(|_| !self.nodes[to.index()].dead) {
            let due_ns = from_ns + 1 + self.rng.u64(..=2 * self.conditions.delay_ns_max);
            self.push(to, due_ns, What::Lost(name, error));
        }
    }

    /// Puts a message on its way.
    pub(super) fn post(&mut self, from: PeerIndex, to: PeerIndex, mut bytes: Vec<u8>, left_ns: u64) {
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

    pub(super) fn completion_time(&mut self) -> u64 {
        self.now_ns + 1 + self.rng.u64(..=self.conditions.completion_ns_max)
    }

    /// Does what is due at a process and passes on what its engine has to know. `false`: nothing is due.
    pub(super) fn next_due(&mut self, me: PeerIndex) -> Option<What> {
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
