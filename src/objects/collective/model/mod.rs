//! The algorithms in a model of a machine instead of over messages: how long they take, and what they send and store, for more processes
//! than could be simulated with all that an instance has. What runs are the very same `async fn`s; only [`Run`](super::run::Run) sends its
//! messages here, and nothing is copied or combined.
//!
//! # The model
//! LogGP (A. Alexandrov, M. Ionescu, K. Schauser, C. Scheiman: LogGP: incorporating long messages into the LogP model, SPAA 1995). A process
//! is busy for `o` when it sends a message and when it receives one; a message of `k` bytes leaves its port `(k - 1) G` after the first
//! byte, which takes the time `L` to arrive; the next one leaves `g` after that, or
//! later. Ports take one message at a time in each
//! direction, whole. Between processes of a host, and between hosts, the numbers differ, and so do ports: inside a host each process has its
//! own; the network's port is one for all processes of the host. To that come times to combine and to copy a byte.
//!
//! Each process has its own clock, which its own waiting, sending and computing move; messages arrive in the order of time. So the result
//! is exact for the model, and the same in every run. There is no rendezvous: a long message is sent whether or not its receive is posted.
//!
//! The state is the thread's: algorithms and their futures need no reference to it.

mod machine;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rustc_hash::FxHashMap;

use super::buffer::{Address, Buffer};
use super::reduction::Reducer;
use super::run::Network;
use super::{allgather, allreduce, alltoall, barrier, bcast, gather, reduce, reduce_scatter, scatter};
use crate::base::error::Result;
use crate::data::datatype::Datatype;
use crate::data::op::Op;
use crate::instance::selection::{Choice, Operation, Question, Selection};
use crate::objects::communicator::Hosts;

pub use machine::{INFINIBAND, LogGp, Machine, SLINGSHOT, bound};

/// What is run: one operation of `ranks` processes, `per_host` consecutive ones on each host.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Which operation.
    pub operation: Operation,
    /// Number of processes.
    pub ranks: u32,
    /// How many share a host.
    pub per_host: u32,
    /// What they are is said in the table of `instance::selection`. Reductions combine bytes.
    pub bytes: u64,
    /// Of operations with a root.
    pub root: u32,
}

/// The algorithms of an operation, as a table names them, that are worth comparing.
pub const fn algorithms(operation: Operation) -> &'static [&'static str] {
    match operation {
        Operation::Barrier => &[
            "flat",
            "dissemination",
            "dissemination radix=4",
            "dissemination radix=8",
            "dissemination radix=16",
        ],
        Operation::Bcast => &[
            "flat",
            "tree",
            "tree radix=4",
            "tree radix=8",
            "tree radix=16",
            "chain",
            "chain radix=2 piece=16K",
            "scatter-doubling",
            "scatter-ring",
        ],
        Operation::Gather | Operation::Scatter => {
            &["direct", "tree", "tree radix=4", "tree radix=8", "tree radix=16"]
        }
        Operation::Allgather => &["doubling", "bruck", "ring", "neighbours"],
        Operation::Alltoall => &[
            "bruck",
            "bruck radix=4",
            "bruck radix=8",
            "direct window=1",
            "direct",
        ],
        Operation::Reduce => &["flat", "tree", "tree radix=4", "tree radix=8", "chain", "halving"],
        Operation::Allreduce => &[
            "flat",
            "doubling",
            "doubling radix=4",
            "doubling radix=8",
            "halving",
            "ring",
            "root",
        ],
        Operation::ReduceScatter => &["direct", "halving", "root"],
    }
}

/// What a call costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Which algorithm it was.
    pub choice: Option<Choice>,
    /// Until the last process has ended, in picoseconds.
    pub time: u64,
    /// The most messages of which each could only be sent after the one before had come.
    pub rounds: u32,
    /// The most messages that a process sends.
    pub messages: u64,
    /// The most bytes that a process sends.
    pub bytes: u64,
    /// The most bytes of temporary memory that a process has at a time.
    pub memory: u64,
    /// The most others that a process sends to.
    pub peers: u64,
    /// Messages of all.
    pub all_messages: u64,
}

#[derive(Default)]
struct Process {
    clock: u64,
    /// The longest chain of messages that ends here.
    depth: u32,
    /// What its program waits for.
    waits: Option<Ticket>,
    messages: u64,
    bytes: u64,
    memory: u64,
    memory_max: u64,
    peers: u64,
}

/// One message among those of a pair of processes, by its number there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Ticket {
    pair: u64,
    number: u32,
}

impl Ticket {
    fn receiver(self) -> u32 {
        self.pair as u32
    }
}

/// The messages of a pair so far.
#[derive(Default)]
struct Pair {
    sent: u32,
    posted: u32,
}

/// When a port is free, in each direction.
#[derive(Clone, Copy, Default)]
struct Port {
    out: u64,
    into: u64,
}

/// A message whose first byte is at its receiver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Arriving {
    at: u64,
    /// In which order they were sent.
    number: u64,
    pair: u64,
    of_pair: u32,
    bytes: u64,
    depth: u32,
}

struct State {
    machine: Machine,
    per_host: u32,
    current: u32,
    processes: Vec<Process>,
    /// Of processes, and behind them of hosts.
    ports: Vec<Port>,
    pairs: FxHashMap<u64, Pair>,
    /// When messages were there whole, and at the end of how many.
    arrived: FxHashMap<Ticket, (u64, u32)>,
    arriving: BinaryHeap<Reverse<Arriving>>,
    sent: u64,
    sent_max: u64,
    selection: Arc<Selection>,
    /// The first choice.
    choice: Option<Choice>,
}

/// Messages of up to so many bytes are copied, so that their memory is free at once.
const COPIED: u64 = 8 << 10;

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// With the thread's model, if it has one.
fn with<T>(act: impl FnOnce(&mut State) -> T) -> Option<T> {
    STATE.with_borrow_mut(|state| state.as_mut().map(act))
}

fn with_state<T>(act: impl FnOnce(&mut State) -> T) -> T {
    with(act).expect("a model runs on this thread")
}

/// Looks up in the table of algorithms of the thread's model.
pub(super) fn choose(operation: Operation, question: &Question, usable: impl Fn(Choice) -> bool) -> Choice {
    with_state(|state| {
        let choice = state.selection.choose(operation, question, usable);
        state.choice.get_or_insert(choice);
        choice
    })
}

/// Whether a model runs on this thread, and then a process of it has taken so many bytes of memory.
pub(super) fn takes(bytes: usize) -> bool {
    let took = with(|state| {
        let process = &mut state.processes[state.current as usize];
        process.memory += bytes as u64;
        process.memory_max = process.memory_max.max(process.memory);
    });
    took.is_some()
}

/// The reverse of [`takes`].
pub(super) fn gives_back(bytes: usize) {
    with(|state| {
        let process = &mut state.processes[state.current as usize];
        process.memory = process.memory.saturating_sub(bytes as u64);
    });
}

/// Whether a model runs on this thread, and then a process of it has copied so many bytes.
pub(super) fn copies(bytes: u64) -> bool {
    with(|state| state.processes[state.current as usize].clock += bytes * state.machine.copy).is_some()
}

/// The same of combining.
pub(super) fn combines(bytes: u64) -> bool {
    with(|state| state.processes[state.current as usize].clock += bytes * state.machine.combine).is_some()
}

/// A message of a process of the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message(Kind);

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Has left the process at this time.
    Sent(u64),
    Posted(Ticket),
}

/// Sends a message.
pub(super) fn send(from: u32, to: u32, bytes: u64) -> Message {
    with_state(|state| Message(Kind::Sent(state.send(from, to, bytes))))
}

/// Posts a receive.
pub(super) fn receive(from: u32, to: u32) -> Message {
    let pair = u64::from(from) << 32 | u64::from(to);
    with_state(|state| {
        let posted = &mut state.pairs.entry(pair).or_default().posted;
        let number = *posted;
        *posted += 1;
        Message(Kind::Posted(Ticket { pair, number }))
    })
}

impl Future for Message {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        with_state(|state| {
            let current = state.current as usize;
            match self.0 {
                Kind::Sent(left) => {
                    let clock = &mut state.processes[current].clock;
                    *clock = (*clock).max(left);
                    Poll::Ready(Ok(()))
                }
                Kind::Posted(ticket) => {
                    let Some((at, depth)) = state.arrived.remove(&ticket) else {
                        state.processes[current].waits = Some(ticket);
                        return Poll::Pending;
                    };
                    let overhead = state.between((ticket.pair >> 32) as u32, ticket.receiver()).o;
                    let process = &mut state.processes[current];
                    process.waits = None;
                    process.clock = process.clock.max(at) + overhead;
                    process.depth = process.depth.max(depth);
                    Poll::Ready(Ok(()))
                }
            }
        })
    }
}

impl Message {
    /// Whether it has left, or has come, without any waiting.
    pub fn has_ended(&self) -> bool {
        with_state(|state| match self.0 {
            Kind::Sent(left) => left <= state.processes[state.current as usize].clock,
            Kind::Posted(ticket) => state.arrived.contains_key(&ticket),
        })
    }
}

impl State {
    fn between(&self, from: u32, to: u32) -> LogGp {
        match from / self.per_host == to / self.per_host {
            true => self.machine.memory,
            false => self.machine.network,
        }
    }

    /// The port of a process towards another.
    fn port(&self, of: u32, towards: u32) -> usize {
        match of / self.per_host == towards / self.per_host {
            true => of as usize,
            false => self.processes.len() + (of / self.per_host) as usize,
        }
    }

    /// Returns when the message has left; 0 where nobody has to wait for that.
    fn send(&mut self, from: u32, to: u32, bytes: u64) -> u64 {
        let LogGp { l, o, g, big_g } = self.between(from, to);
        let pair = u64::from(from) << 32 | u64::from(to);
        let counts = self.pairs.entry(pair).or_default();
        let of_pair = counts.sent;
        counts.sent += 1;
        let port = self.port(from, to);
        let process = &mut self.processes[from as usize];
        process.peers += u64::from(of_pair == 0);
        process.messages += 1;
        process.bytes += bytes;
        process.clock += o;
        let leaves = process.clock.max(self.ports[port].out);
        let left = leaves + bytes.saturating_sub(1) * big_g;
        self.ports[port].out = left + g;
        let depth = process.depth + 1;
        self.sent += 1;
        self.arriving.push(Reverse(Arriving {
            at: leaves + l,
            number: self.sent,
            pair,
            of_pair,
            bytes,
            depth,
        }));
        if bytes <= COPIED { 0 } else { left }
    }

    /// The next message arrives: returns whose program goes on. `None`: there are no more.
    fn arrive(&mut self) -> Option<Option<u32>> {
        let Reverse(message) = self.arriving.pop()?;
        let ticket = Ticket {
            pair: message.pair,
            number: message.of_pair,
        };
        let (from, to) = ((message.pair >> 32) as u32, ticket.receiver());
        let LogGp { g, big_g, .. } = self.between(from, to);
        let port = self.port(to, from);
        let begins = message.at.max(self.ports[port].into);
        let there = begins + message.bytes.saturating_sub(1) * big_g;
        self.ports[port].into = there + g;
        self.arrived.insert(ticket, (there, message.depth));
        Some((self.processes[to as usize].waits == Some(ticket)).then_some(to))
    }
}

/// What a process runs.
type Program<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// Ends the thread's model however its function is left.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        STATE.take();
    }
}

/// Runs one call. `None`: it takes more than `messages_max` messages.
///
/// # Panics
/// If the algorithm deadlocks.
pub fn run(machine: &Machine, selection: &Arc<Selection>, call: &Call, messages_max: u64) -> Option<Cost> {
    let hosts = call.ranks.div_ceil(call.per_host);
    let nodes: Vec<u64> = (0..call.ranks)
        .map(|rank| (rank / call.per_host).into())
        .collect();
    STATE.set(Some(State {
        machine: *machine,
        per_host: call.per_host,
        current: 0,
        processes: (0..call.ranks).map(|_| Process::default()).collect(),
        ports: vec![Port::default(); (call.ranks + hosts) as usize],
        pairs: FxHashMap::default(),
        arrived: FxHashMap::default(),
        arriving: BinaryHeap::new(),
        sent: 0,
        sent_max: messages_max,
        selection: selection.clone(),
        choice: None,
    }));
    let _running = Running;
    let shape = Hosts::by_node(&nodes, 0);
    let shapes: Vec<Option<Hosts>> = (0..call.ranks)
        .map(|rank| shape.as_ref().map(|shape| shape.seen_by(rank)))
        .collect();
    let mut programs: Vec<Option<Program<'_>>> = (0..call.ranks)
        .map(|rank| {
            let network = Network::Model {
                rank,
                size: call.ranks,
                hosts: shapes[rank as usize].as_ref(),
            };
            Some(Box::pin(program(*call, network)) as Program<'_>)
        })
        .collect();
    let mut step = |rank: u32| -> bool {
        with_state(|state| state.current = rank);
        let program = programs[rank as usize].as_mut().expect("it waits for a message");
        let polled = program.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(result) = polled {
            result.expect("nothing fails in a model");
            programs[rank as usize] = None;
        }
        with_state(|state| state.sent <= state.sent_max)
    };
    for rank in 0..call.ranks {
        if !step(rank) {
            return None;
        }
    }
    while let Some(goes_on) = with_state(State::arrive) {
        if let Some(rank) = goes_on
            && !step(rank)
        {
            return None;
        }
    }
    assert!(
        programs.iter().all(Option::is_none),
        "{call:?}: some processes wait forever"
    );
    let cost = with_state(|state| {
        assert!(
            state.arrived.is_empty(),
            "{call:?}: nobody received some messages"
        );
        let most = |number: fn(&Process) -> u64| state.processes.iter().map(number).max().unwrap_or(0);
        Cost {
            choice: state.choice,
            time: most(|process| process.clock),
            rounds: most(|process| process.depth.into()) as u32,
            messages: most(|process| process.messages),
            bytes: most(|process| process.bytes),
            memory: most(|process| process.memory_max),
            peers: most(|process| process.peers),
            all_messages: state.sent,
        }
    });
    Some(cost)
}

/// The handle of `MPI_SUM`.
const SUM: usize = 33;

/// What a process does. Nobody looks into its buffers.
async fn program(call: Call, network: Network<'_>) -> Result<()> {
    // SAFETY: no memory is touched while a model runs (`copies`, `combines`, `takes`), and messages carry none.
    let address = unsafe { Address::new(std::ptr::without_provenance_mut(1 << 40)) };
    let byte = Datatype::byte().clone();
    let (size, is_root) = (call.ranks, network.rank() == call.root);
    let blocks = |block: u64| Buffer {
        address,
        count: block,
        blocks: size,
        datatype: byte.clone(),
    };
    let one = |bytes: u64| Buffer::one(address, bytes, byte.clone());
    let reducer = || Reducer {
        datatype: byte.clone(),
        operation: Op::predefined(SUM).expect("a predefined operation").clone(),
    };
    let each = call.bytes / u64::from(size);
    match call.operation {
        Operation::Barrier => barrier::among(network).await,
        Operation::Bcast => bcast::among(network, call.root, one(call.bytes).chunk()).await,
        Operation::Gather => {
            let receive = is_root.then(|| blocks(call.bytes));
            gather::among(network, call.root, Some(one(call.bytes)), receive).await
        }
        Operation::Scatter => {
            let send = is_root.then(|| blocks(call.bytes));
            scatter::among(network, call.root, send, Some(one(call.bytes))).await
        }
        Operation::Allgather => allgather::among(network, Some(one(each)), blocks(each)).await,
        Operation::Alltoall => alltoall::among(network, Some(blocks(call.bytes)), blocks(call.bytes)).await,
        Operation::Reduce => {
            let receive = is_root.then_some(address);
            reduce::among(network, call.root, Some(address), receive, &reducer(), call.bytes).await
        }
        Operation::Allreduce => {
            allreduce::among(network, Some(address), address, &reducer(), call.bytes).await
        }
        Operation::ReduceScatter => {
            let start = move |rank: u32| each * u64::from(rank);
            reduce_scatter::among(network, Some(address), address, start, reducer()).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIMPLE: Machine = Machine {
        name: "simple",
        source: "none",
        network: LogGp {
            l: 1000,
            o: 10,
            g: 50,
            big_g: 2,
        },
        memory: LogGp {
            l: 100,
            o: 10,
            g: 50,
            big_g: 1,
        },
        combine: 3,
        copy: 5,
    };

    fn cost(lines: &str, operation: Operation, ranks: u32, per_host: u32, bytes: u64) -> Cost {
        let selection = Arc::new(Selection::parse("the test", lines).expect("good lines"));
        let call = Call {
            operation,
            ranks,
            per_host,
            bytes,
            root: 0,
        };
        run(&SIMPLE, &selection, &call, u64::MAX).expect("few messages")
    }

    #[test]
    fn a_message_takes_what_loggp_says() {
        let pair = |per_host, bytes| cost("bcast -> tree", Operation::Bcast, 2, per_host, bytes).time;
        assert_eq!(pair(1, 1), 10 + 1000 + 10);
        assert_eq!(pair(1, 101), 10 + 1000 + 100 * 2 + 10);
        assert_eq!(pair(2, 101), 10 + 100 + 100 + 10);
    }

    #[test]
    fn a_port_takes_one_message_at_a_time() {
        let flat = |ranks, bytes| cost("bcast -> flat", Operation::Bcast, ranks, 1, bytes);
        // The second leaves a gap after all bytes of the first.
        assert_eq!(flat(3, 1).time, 10 + 50 + 1000 + 10);
        assert_eq!(flat(3, 1001).time, 10 + 1000 * 2 + 50 + 1000 + 1000 * 2 + 10);
        assert_eq!(
            (flat(3, 1).rounds, flat(3, 1).messages, flat(3, 7).bytes),
            (1, 2, 14)
        );
        let gather = cost("gather -> direct", Operation::Gather, 3, 1, 1001);
        // The root's own block is copied meanwhile.
        assert_eq!(gather.time, 10 + 1000 + 1000 * 2 + 50 + 1000 * 2 + 10);
        assert_eq!(gather.peers, 1);
    }

    #[test]
    fn processes_of_a_host_share_its_port_of_the_network() {
        // Ranks 0 and 1 send to 2 and 3 and the reverse.
        let alltoall = cost("alltoall -> direct", Operation::Alltoall, 4, 2, 1001);
        let alone = cost("alltoall -> direct", Operation::Alltoall, 4, 1, 1001);
        assert!(alltoall.time >= 1000 + 4 * 1000 * 2, "{alltoall:?}");
        assert!(alone.time < alltoall.time, "{alone:?}");
    }

    #[test]
    fn rounds_memory_and_combining_are_counted() {
        let doubling = cost("allreduce -> doubling", Operation::Allreduce, 8, 1, 1);
        assert_eq!((doubling.rounds, doubling.messages, doubling.peers), (3, 3, 3));
        assert_eq!(doubling.all_messages, 24);
        assert!(doubling.time >= 3 * (1000 + 20) + 3 * 3, "{doubling:?}");
        let long = cost("allreduce -> doubling", Operation::Allreduce, 8, 1, 1 << 20);
        assert!((1 << 20..=2 << 20).contains(&long.memory), "{long:?}");
    }

    #[test]
    fn too_many_messages_end_a_run() {
        let selection = Arc::new(Selection::parse("", "").expect("a good table"));
        let call = Call {
            operation: Operation::Alltoall,
            ranks: 100,
            per_host: 1,
            bytes: 1 << 10,
            root: 0,
        };
        assert!(run(&SIMPLE, &selection, &call, 5000).is_none());
        assert!(run(&SIMPLE, &selection, &call, 9900).is_some());
    }
}
