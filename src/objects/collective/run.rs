//! One run of a collective operation on one process: its messages, and how failures are kept.
//!
//! A message that fails (it was too long for its buffer, or a peer is gone) does not end the run: the other messages
//! of the algorithm are still sent and received, so that the peers' calls return, and the run ends with the first
//! failure.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::buffer::Chunk;
use super::choose;
use crate::base::error::{Error, Result};
use crate::instance::Completion;
use crate::instance::selection::Selection;
use crate::objects::communicator::area::Area;
use crate::objects::communicator::{Collective, Hosts};

/// See the module.
pub(super) struct Run<'a> {
    operation: &'a Collective,
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
        debug_assert!(!operation.is_across(), "ranks name processes of the other group");
        Run::across(operation)
    }

    /// A run of an operation across an intercommunicator, where ranks name processes of the other group: `rank` is this
    /// process's in its own, and `size` that of the other. It only exchanges messages.
    pub fn across(operation: &'a Collective) -> Run<'a> {
        let size = operation.size();
        Run {
            operation,
            team: Team::All,
            rank: operation.rank(),
            size,
            crowded: choose::crowded(size, operation.communicator().instance().job()),
            hosts: operation.hosts(),
            area: operation.area().filter(|area| area.size() == size),
            failure: None,
        }
    }

    /// A run among the processes of this one's host. Its messages are told from those of other runs of the operation by who sends them to
    /// whom, and in which order.
    pub fn inside(operation: &'a Collective, hosts: &'a Hosts) -> Run<'a> {
        let ranks = hosts.ranks(hosts.mine());
        Run {
            operation,
            team: Team::Inside(ranks),
            rank: hosts.place(operation.rank()),
            size: ranks.len() as u32,
            crowded: false,
            hosts: None,
            area: operation.area(),
            failure: None,
        }
    }

    /// A run among one process of each host, the root for its own; `None` if this is not one of them. Places are the numbers of hosts.
    pub fn heads(operation: &'a Collective, hosts: &'a Hosts, root: Option<u32>) -> Option<Run<'a>> {
        let mine = hosts.mine();
        (head(hosts, root, mine) == operation.rank()).then(|| Run {
            operation,
            team: Team::Heads { hosts, root },
            rank: mine,
            size: hosts.number(),
            crowded: false,
            hosts: None,
            area: None,
            failure: None,
        })
    }

    /// The memory that its processes share, if blocks of so many bytes are to go through that.
    pub fn area_for(&self, bytes: u64) -> Option<&'a Area> {
        let job = self.operation.communicator().instance().job();
        let shared = || job.shared_processors().is_some();
        self.area
            .filter(|_| self.size > 1 && choose::in_shared_memory(bytes, self.size, shared))
    }

    /// The table of algorithms.
    pub fn selection(&self) -> &'a Selection {
        self.operation.communicator().instance().selection()
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
    pub fn send(&self, to: u32, chunk: Chunk) -> Completion {
        // SAFETY: a user's buffer is valid until the operation ends (see `Buffer`), which is not before its
        // completions have ended or were dropped; scratch is dropped after them. Algorithms do not write to what
        // they are sending.
        unsafe { self.operation.send(self.team.rank_of(to), chunk.into_memory()) }
    }

    /// Starts a receive.
    pub fn receive(&self, from: u32, chunk: Chunk) -> Completion {
        // SAFETY: as in `send`; algorithms leave what they are receiving alone until it has come.
        unsafe {
            self.operation
                .receive(self.team.rank_of(from), chunk.into_memory())
        }
    }

    /// Waits for the end of a message.
    pub async fn end(&mut self, completion: Completion) {
        let result = completion.await;
        self.note(result);
    }

    /// Waits for the end of all of them.
    pub async fn end_all(&mut self, completions: Vec<Completion>) {
        for completion in completions {
            self.end(completion).await;
        }
    }

    /// Puts a message that has not ended yet on a list. Most short sends end at once, and lists stay empty.
    pub fn keep(&mut self, list: &mut Vec<Completion>, mut completion: Completion) {
        match pin!(&mut completion).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => self.note(result),
            Poll::Pending => list.push(completion),
        }
    }

    /// Receives from one rank while sending to another.
    pub async fn exchange(&mut self, to: u32, send: Chunk, from: u32, receive: Chunk) {
        let receiving = self.receive(from, receive);
        let sending = self.send(to, send);
        self.end(receiving).await;
        self.end(sending).await;
    }

    /// Records a failure.
    pub fn note<T>(&mut self, result: Result<T>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }

    /// Its result.
    pub fn finish(self) -> Result<()> {
        self.failure.map_or(Ok(()), Err)
    }
}
