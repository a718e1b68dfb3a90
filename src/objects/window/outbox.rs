//! What a process has under way to the targets of a window, by messages.
//!
//! Short operations are collected in a batch for each target, which goes out when it is full, when something has to be answered, or when a
//! call of synchronisation comes. Long ones go out at once: their bytes as a message of their own. What takes several messages is
//! sent by a task, behind which later operations to the same target wait, so that accumulates stay in their order.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::access::Pending;
use crate::engine::request::RequestId;
use crate::identity::PeerIndex;

/// Tags of messages of a window below this have a meaning of their own.
const FIRST_TAG: i32 = 16;
/// The message of `MPI_Win_post`.
pub const POST: i32 = 1;
/// The message of `MPI_Win_complete`.
pub const COMPLETE: i32 = 2;
/// The message that stands for a wait for a lock in shared memory, and is never sent.
pub const LOCK: i32 = 3;

/// See the module.
#[derive(Default)]
pub struct Outbox {
    targets: FxHashMap<u32, ToTarget>,
    tags: i32,
    /// How many times something was waited for.
    turns: u64,
    /// How many fences have ended, modulo 2: operations say in which phase they were sent.
    pub phase: usize,
}

/// What is under way to one target.
pub struct ToTarget {
    /// Its process.
    pub peer: PeerIndex,
    /// Operations that have not been sent.
    pub batch: Vec<u8>,
    /// How many batches were sent since something was last answered.
    pub posted: u32,
    /// How many operations were sent in each phase.
    pub sent: [u64; 2],
    /// Messages whose ends have to be waited for: what operations return, acknowledgements, and long messages to the target.
    pub replies: SmallVec<[RequestId; 4]>,
    /// Requests of the user's that are such receives. The user ends them, but their results have to be there after a flush, whose
    /// acknowledgement overtakes what is sent by rendezvous.
    pub requested: SmallVec<[RequestId; 2]>,
    /// Some of the replies belong to long operations: they may end after an acknowledgement of what follows.
    pub long: bool,
    /// Operations were sent that nothing has answered: a flush has to ask.
    pub unanswered: bool,
    /// Among them are some that write to this process's memory.
    pub unanswered_gets: bool,
    /// How many tasks send or receive something.
    pub jobs: usize,
    /// While one sends what takes several messages: what waits behind it.
    pub waiting: Option<VecDeque<Pending>>,
    /// A lock was asked for by message.
    pub locked: bool,
    /// It is not known whether it has been granted.
    pub lock_pending: bool,
    /// Who waits for what is under way: their turns, in ascending order.
    settling: SmallVec<[u64; 1]>,
}

impl Outbox {
    /// What is under way to a rank.
    pub fn to(&mut self, rank: u32, peer: impl FnOnce() -> PeerIndex) -> &mut ToTarget {
        self.targets.entry(rank).or_insert_with(|| ToTarget {
            peer: peer(),
            batch: Vec::new(),
            posted: 0,
            sent: [0; 2],
            replies: SmallVec::new(),
            requested: SmallVec::new(),
            long: false,
            unanswered: false,
            unanswered_gets: false,
            jobs: 0,
            waiting: None,
            locked: false,
            lock_pending: false,
            settling: SmallVec::new(),
        })
    }

    /// The same, if anything was sent there.
    pub fn get_mut(&mut self, rank: u32) -> Option<&mut ToTarget> {
        self.targets.get_mut(&rank)
    }

    /// A thread waits for all that is under way to some ranks; returns its turn.
    pub fn begin_settling(&mut self, ranks: &[u32]) -> u64 {
        self.turns += 1;
        for rank in ranks {
            if let Some(to) = self.targets.get_mut(rank) {
                to.settling.push(self.turns);
            }
        }
        self.turns
    }

    /// It has waited.
    pub fn end_settling(&mut self, ranks: &[u32], turn: u64) {
        for rank in ranks {
            if let Some(to) = self.targets.get_mut(rank) {
                to.settling.retain(|other| *other != turn);
            }
        }
    }

    /// Whether another thread that began before still waits for something under way to one of these ranks.
    pub fn settles_before(&self, ranks: &[u32], turn: u64) -> bool {
        let first = |rank| self.targets.get(rank)?.settling.first();
        ranks.iter().filter_map(first).any(|first| *first < turn)
    }

    /// The ranks whose locks were asked for, other than this one, and may not have been granted.
    pub fn pending_locks(&self, but: u32) -> Vec<u32> {
        let pending = self
            .targets
            .iter()
            .filter(|(rank, to)| **rank != but && to.lock_pending);
        let mut ranks: Vec<u32> = pending.map(|(rank, _)| *rank).collect();
        ranks.sort_unstable();
        ranks
    }

    /// The ranks to which something was sent, in ascending order.
    pub fn ranks(&self) -> Vec<u32> {
        let mut ranks: Vec<u32> = self.targets.keys().copied().collect();
        ranks.sort_unstable();
        ranks
    }

    /// Whether nothing is under way to a rank, or to any.
    #[inline]
    pub fn is_idle(&self, rank: Option<u32>) -> bool {
        match rank {
            _ if self.targets.is_empty() => true,
            Some(rank) => self.targets.get(&rank).is_none_or(ToTarget::is_idle),
            None => self.targets.values().all(ToTarget::is_idle),
        }
    }

    /// A tag for messages that answer, an even number. The next one is that of the data of a long put, which goes the other way: two
    /// processes may be origin and target of each other at the same time. It comes back after 2^30 others.
    pub fn new_tag(&mut self) -> i32 {
        self.tags = match self.tags {
            ..FIRST_TAG => FIRST_TAG,
            tag => tag
                .checked_add(2)
                .filter(|&tag| tag < i32::MAX)
                .unwrap_or(FIRST_TAG),
        };
        self.tags
    }
}

/// The tag of the data of a long put, by the one of its acknowledgement.
pub fn of_data(tag: i32) -> i32 {
    tag | 1
}

impl ToTarget {
    /// Whether nothing is under way that a flush has to wait for or to ask about.
    pub fn is_idle(&self) -> bool {
        self.batch.is_empty()
            && self.replies.is_empty()
            && !self.unanswered
            && self.jobs == 0
            && self.settling.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_those_of_messages() {
        let mut outbox = Outbox::default();
        assert_eq!(outbox.new_tag(), FIRST_TAG);
        assert_eq!(outbox.new_tag(), FIRST_TAG + 2);
        outbox.tags = i32::MAX - 3;
        assert_eq!(outbox.new_tag(), i32::MAX - 1);
        assert_eq!(outbox.new_tag(), FIRST_TAG);
    }
}
