//! One run of a collective operation on one process: its messages, and how failures are kept.
//!
//! A message that fails (it was too long for its buffer, or a peer is gone) does not end the run: the other messages
//! of the algorithm are still sent and received, so that the peers' calls return, and the run ends with the first
//! failure.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;

use super::buffer::Chunk;
use super::choose;
#[cfg(feature = "sim")]
use super::model;
use crate::base::error::{Error, Result};
use crate::instance::selection::{Choice, Operation, Question, Selection};
use crate::instance::{Completion, Instance};
use crate::objects::communicator::area::Area;
use crate::objects::communicator::{Collective, Hosts};

/// Where the messages of a run go.
#[derive(Clone, Copy)]
pub(super) enum Network<'a> {
    /// To the processes of an operation.
    Real(&'a Collective),
    /// Into a model of them.
    #[cfg(feature = "sim")]
    Model {
        rank: u32,
        size: u32,
        hosts: Option<&'a Hosts>,
    },
}

impl<'a> Network<'a> {
    pub fn rank(self) -> u32 {
        match self {
            Network::Real(operation) => operation.rank(),
            #[cfg(feature = "sim")]
            Network::Model { rank, .. } => rank,
        }
    }

    pub fn size(self) -> u32 {
        match self {
            Network::Real(operation) => operation.size(),
            #[cfg(feature = "sim")]
            Network::Model { size, .. } => size,
        }
    }

    /// The processes by host, if these make a difference.
    pub fn hosts(self) -> Option<&'a Hosts> {
        match self {
            Network::Real(operation) => operation.hosts(),
            #[cfg(feature = "sim")]
            Network::Model { hosts, .. } => hosts,
        }
    }

    /// Looks up in the table of algorithms.
    pub fn choose(
        self,
        operation: Operation,
        question: &Question,
        usable: impl Fn(Choice) -> bool,
    ) -> Choice {
        match self {
            Network::Real(collective) => {
                let communicator = collective.communicator();
                let selection = match communicator.is_of_several_jobs() {
                    // Each job may have another table of its own.
                    true => Selection::built_in(),
                    false => communicator.instance().selection(),
                };
                selection.choose(operation, question, usable)
            }
            #[cfg(feature = "sim")]
            Network::Model { .. } => model::choose(operation, question, usable),
        }
    }

    fn crowded(self, size: u32) -> bool {
        match self {
            Network::Real(operation) => {
                let communicator = operation.communicator();
                !communicator.is_of_several_jobs() && choose::crowded(size, communicator.instance().job())
            }
            #[cfg(feature = "sim")]
            Network::Model { .. } => false,
        }
    }

    fn area(self) -> Option<&'a Area> {
        match self {
            Network::Real(operation) => operation.area(),
            #[cfg(feature = "sim")]
            Network::Model { .. } => None,
        }
    }
}

/// A message under way.
pub(super) enum Message<'a> {
    Real(Completion<&'a Instance>),
    #[cfg(feature = "sim")]
    Model(model::Message),
}

impl Future for Message<'_> {
    type Output = Result<()>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match self.get_mut() {
            Message::Real(completion) => Pin::new(completion).poll(context).map_ok(|_| ()),
            #[cfg(feature = "sim")]
            Message::Model(message) => Pin::new(message).poll(context),
        }
    }
}

/// Messages under way: a few need no allocation.
pub(super) type UnderWay<'a> = SmallVec<[Message<'a>; 8]>;

/// See the module.
pub(super) struct Run<'a> {
    network: Network<'a>,
    team: Team<'a>,
    /// This process's rank, in a run of some processes its place among them.
    pub rank: u32,
    /// Number of processes.
    pub size: u32,
    /// Whether its processes share processors: then the algorithms of `flat` take less time than others.
    pub crowded: bool,
    /// The hosts of its processes, where the operation distinguishes them and these are all of its processes.
    pub hosts: Option<&'a Hosts>,
    /// Memory that its processes share, if it is to be used.
    pub area: Option<&'a Area>,
    failure: Option<Error>,
}

/// Which processes a run is among; algorithms name them by 0 to the size − 1.
enum Team<'a> {
    /// All of the operation.
    All,
    /// Those of a host.
    Inside(&'a [u32]),
    /// One of each host: of the host that a root is on, the root, of others the lowest rank.
    Heads { hosts: &'a Hosts, root: Option<u32> },
}

impl Team<'_> {
    /// The rank of a place.
    fn rank_of(&self, place: u32) -> u32 {
        match *self {
            Team::All => place,
            Team::Inside(ranks) => ranks[place as usize],
            Team::Heads { hosts, root } => head(hosts, root, place),
        }
    }
}

/// The rank that acts for a host.
pub(super) fn head(hosts: &Hosts, root: Option<u32>, host: u32) -> u32 {
    root.filter(|&root| hosts.host_of(root) == host)
        .unwrap_or(hosts.ranks(host)[0])
}

impl<'a> Run<'a> {
    /// A run of this operation, among processes of which this is one.
    pub fn new(operation: &'a Collective) -> Run<'a> {
        Run::on(Network::Real(operation))
    }

    /// The same, wherever its messages go.
    pub fn on(network: Network<'a>) -> Run<'a> {
        match network {
            Network::Real(operation) => {
                debug_assert!(!operation.is_across(), "ranks name processes of the other group");
            }
            #[cfg(feature = "sim")]
            Network::Model { .. } => {}
        }
        Run::any(network)
    }

    /// A run of an operation across an intercommunicator, where ranks name processes of the other group: `rank` is this
    /// process's in its own, and `size` that of the other. It only exchanges messages.
    pub fn across(operation: &'a Collective) -> Run<'a> {
        Run::any(Network::Real(operation))
    }

    fn any(network: Network<'a>) -> Run<'a> {
        let size = network.size();
        Run {
            network,
            team: Team::All,
            rank: network.rank(),
            size,
            crowded: network.crowded(size),
            hosts: network.hosts(),
            area: network.area().filter(|area| area.size() == size),
            failure: None,
        }
    }

    /// A run among the processes of this one's host. Its messages are told from those of other runs of the operation by who sends them to
    /// whom, and in which order.
    pub fn inside(network: Network<'a>, hosts: &'a Hosts) -> Run<'a> {
        let ranks = hosts.ranks(hosts.mine());
        Run {
            network,
            team: Team::Inside(ranks),
            rank: hosts.place(network.rank()),
            size: ranks.len() as u32,
            crowded: false,
            hosts: None,
            area: network.area(),
            failure: None,
        }
    }

    /// A run among one process of each host, the root for its own; `None` if this is not one of them. Places are the numbers of hosts.
    pub fn heads(network: Network<'a>, hosts: &'a Hosts, root: Option<u32>) -> Option<Run<'a>> {
        let mine = hosts.mine();
        (head(hosts, root, mine) == network.rank()).then(|| Run {
            network,
            team: Team::Heads { hosts, root },
            rank: mine,
            size: hosts.number(),
            crowded: false,
            hosts: None,
            area: None,
            failure: None,
        })
    }

    /// The memory that its processes share, if blocks of so many bytes are to go through that, or by reads of each other's memory.
    pub fn area_for(&self, operation: Operation, bytes: u64) -> Option<&'a Area> {
        let shared = || match self.network {
            Network::Real(operation) => operation
                .communicator()
                .instance()
                .job()
                .shared_processors()
                .is_some(),
            #[cfg(feature = "sim")]
            Network::Model { .. } => false,
        };
        self.area.filter(|_| self.size > 1).filter(|area| {
            choose::in_shared_memory(bytes, self.size, shared) || self.reads(area, operation, bytes)
        })
    }

    /// Whether an operation on blocks of so many bytes is by reads of each other's memory.
    pub fn reads(&self, area: &Area, operation: Operation, bytes: u64) -> bool {
        area.reads() && choose::by_reads(operation, bytes, self.size)
    }

    /// The memory that its processes on this host share, which may be some of them.
    pub fn area_of_host(&self) -> Option<&'a Area> {
        self.network.area()
    }

    /// Where its messages go.
    pub fn network(&self) -> Network<'a> {
        self.network
    }

    /// This rank counted from `root`.
    pub fn relative(&self, root: u32) -> u32 {
        (self.rank + self.size - root) % self.size
    }

    /// The rank `distance` above this one, modulo the number of processes.
    pub fn above(&self, distance: u32) -> u32 {
        ((u64::from(self.rank) + u64::from(distance)) % u64::from(self.size)) as u32
    }

    /// The rank `distance` below this one, modulo the number of processes.
    pub fn below(&self, distance: u32) -> u32 {
        let size = u64::from(self.size);
        ((u64::from(self.rank) + size - u64::from(distance) % size) % size) as u32
    }

    /// All ranks but this one.
    pub fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let rank = self.rank;
        (0..self.size).filter(move |&other| other != rank)
    }

    /// Starts a send.
    pub fn send(&self, to: u32, chunk: Chunk) -> Message<'a> {
        let to = self.team.rank_of(to);
        match self.network {
            // SAFETY: a user's buffer is valid until the operation ends (see `Buffer`), which is not before its
            // completions have ended or were dropped; scratch is dropped after them. Algorithms do not write to what
            // they are sending.
            Network::Real(operation) => Message::Real(unsafe { operation.send(to, chunk.into_memory()) }),
            #[cfg(feature = "sim")]
            Network::Model { rank, .. } => Message::Model(model::send(rank, to, chunk.len())),
        }
    }

    /// Starts a receive.
    pub fn receive(&self, from: u32, chunk: Chunk) -> Message<'a> {
        let from = self.team.rank_of(from);
        match self.network {
            Network::Real(operation) => {
                // SAFETY: as in `send`; algorithms leave what they are receiving alone until it has come.
                Message::Real(unsafe { operation.receive(from, chunk.into_memory()) })
            }
            #[cfg(feature = "sim")]
            Network::Model { rank, .. } => Message::Model(model::receive(from, rank)),
        }
    }

    /// Receives, and waits for the end of that. Where nothing else is done before a message is waited for, it takes fewer steps than
    /// [`Run::receive`] ([`Collective::receive_now`]).
    pub async fn receive_now(&mut self, from: u32, chunk: Chunk) {
        let from = self.team.rank_of(from);
        let result = match self.network {
            // SAFETY: as in `receive`.
            Network::Real(operation) => unsafe { operation.receive_now(from, chunk.into_memory()) }
                .await
                .map(drop),
            #[cfg(feature = "sim")]
            Network::Model { rank, .. } => model::receive(from, rank).await,
        };
        self.note(result);
    }

    /// Waits for the end of a message.
    pub async fn end(&mut self, message: Message<'a>) {
        let result = message.await;
        self.note(result);
    }

    /// Waits for the end of all of them.
    pub async fn end_all(&mut self, messages: impl IntoIterator<Item = Message<'a>, IntoIter: Send>) {
        for message in messages {
            self.end(message).await;
        }
    }

    /// Puts a message that has not ended yet on a list. Most short sends end at once, and lists stay empty.
    pub fn keep(&mut self, list: &mut UnderWay<'a>, mut message: Message<'a>) {
        #[cfg(feature = "sim")]
        if let Message::Model(message) = &message
            && !message.has_ended()
        {
            return list.push(Message::Model(*message));
        }
        match Pin::new(&mut message).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => self.note(result),
            Poll::Pending => list.push(message),
        }
    }

    /// Receives from one rank while sending to another.
    pub async fn exchange(&mut self, to: u32, send: Chunk, from: u32, receive: Chunk) {
        let sending = self.send(to, send);
        self.receive_now(from, receive).await;
        self.end(sending).await;
    }

    /// Records a failure.
    pub fn note<T>(&mut self, result: Result<T>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }

    /// Whether an error was noted.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Its result.
    pub fn finish(self) -> Result<()> {
        self.failure.map_or(Ok(()), Err)
    }
}
