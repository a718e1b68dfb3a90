//! What a process has under way to the targets of a window, by messages.
//!
//! Short operations are collected in a batch for each target, which goes out when it is full, when something has to be answered, or when a
//! call of synchronisation comes. Long ones go out at once: their bytes as a message of their own. What takes several messages is
//! sent by a task, behind which later operations to the same target wait, so that accumulates stay in their order.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::access::Pending;
use super::collected::Collected;
use super::remote::Direct;
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
/// The same for a fence.
pub const FENCE: i32 = 4;

/// The message that says, beside words, that the operations before it are all of an epoch of groups. What stands for a wait for words would take
/// one with the tag [`COMPLETE`].
pub const LAST: i32 = 5;

/// So many replies of one target may be waited for before operations wait for each other.
pub const REPLIES: usize = 256;
/// So many batches may be sent without an answer, likewise.
pub const POSTS: u32 = 64;

/// See the module.
#[derive(Default)]
pub struct Outbox {
    targets: Vec<ToTarget>,
    /// Where a rank's is.
    places: FxHashMap<u32, usize>,
    /// The one that was looked for last: mostly it is the next one, too.
    recent: usize,
    tags: i32,
    /// How many times something was waited for.
    turns: u64,
    /// How many fences have ended, modulo 2: operations say in which phase they were sent.
    pub phase: usize,
}

/// What is under way to one target.
pub struct ToTarget {
    rank: u32,
    /// Its process.
    pub peer: PeerIndex,
    /// How many bytes can be sent to it from where they are, once it is connected.
    pub in_place: Option<u64>,
    /// Whether its lane uses none of the memory from which something was sent here that has come: likewise.
    pub ends_with_receipt: Option<bool>,
    /// Operations that have not been sent.
    pub batch: Vec<u8>,
    /// Runs that the kernel is to copy to that process's memory, and from there.
    pub puts: Collected,
    /// See `puts`.
    pub gets: Collected,
    /// How many batches were sent since something was last answered.
    pub posted: u32,
    /// How many of these are answered once all of `replies` have come, and with `acknowledgements`.
    pub answered: u32,
    /// See `answered`.
    pub acknowledged: u32,
    /// How many operations were sent in each phase.
    pub sent: [u64; 2],
    /// How many of them are still in the batch.
    pub in_batch: u64,
    /// Something was sent since an epoch of groups last ended there.
    pub told: bool,
    /// Something was sent that may not have been done.
    pub in_flight: bool,
    /// Messages whose ends have to be waited for: what operations return, acknowledgements, and long messages to the target.
    pub replies: SmallVec<[RequestId; 4]>,
    /// Acknowledgements that only tell what is complete at the target.
    pub acknowledgements: SmallVec<[RequestId; 1]>,
    /// Messages that leave from the user's memory.
    pub leaving: SmallVec<[RequestId; 2]>,
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
    /// It is known that it has been granted.
    pub granted: bool,
    /// What goes there by a lane's one-sided operations.
    pub direct: Option<Box<Direct>>,
    /// Who waits for what is under way: their turns, in ascending order.
    settling: SmallVec<[u64; 1]>,
    /// How many threads wait for the turns of others to end.
    pub watchers: u32,
}

impl Outbox {
    /// What is under way to a rank.
    #[inline]
    pub fn to(&mut self, rank: u32, peer: impl FnOnce() -> PeerIndex) -> &mut ToTarget {
        match self.place(rank) {
            Some(place) => self.recent = place,
            None => self.add(rank, peer()),
        }
        &mut self.targets[self.recent]
    }

    #[cold]
    fn add(&mut self, rank: u32, peer: PeerIndex) {
        self.recent = self.targets.len();
        self.places.insert(rank, self.recent);
        self.targets.push(ToTarget {
            rank,
            peer,
            in_place: None,
            ends_with_receipt: None,
            batch: Vec::new(),
            puts: Collected::default(),
            gets: Collected::default(),
            posted: 0,
            answered: 0,
            acknowledged: 0,
            sent: [0; 2],
            in_batch: 0,
            told: false,
            in_flight: false,
            replies: SmallVec::new(),
            acknowledgements: SmallVec::new(),
            leaving: SmallVec::new(),
            requested: SmallVec::new(),
            long: false,
            unanswered: false,
            unanswered_gets: false,
            jobs: 0,
            waiting: None,
            locked: false,
            lock_pending: false,
            granted: false,
            direct: None,
            settling: SmallVec::new(),
            watchers: 0,
        });
    }

    /// Where that of a rank is, if anything was sent there.
    #[inline]
    fn place(&self, rank: u32) -> Option<usize> {
        match self.targets.get(self.recent) {
            Some(recent) if recent.rank == rank => Some(self.recent),
            _ => self.places.get(&rank).copied(),
        }
    }

    fn get(&self, rank: u32) -> Option<&ToTarget> {
        self.place(rank).map(|place| &self.targets[place])
    }

    /// The same as [`Outbox::to`], if anything was sent there.
    #[inline]
    pub fn get_mut(&mut self, rank: u32) -> Option<&mut ToTarget> {
        self.recent = self.place(rank)?;
        Some(&mut self.targets[self.recent])
    }

    /// The next phase begins. How many operations were sent in this one has been said.
    pub fn next_phase(&mut self) {
        let phase = self.phase;
        self.targets.iter_mut().for_each(|to| to.sent[phase] = 0);
        self.phase = 1 - phase;
    }

    /// All operations to a rank, or all ranks, are known to be done.
    pub fn all_done(&mut self, rank: Option<u32>) {
        let is_one = |to: &&mut ToTarget| rank.is_none_or(|rank| to.rank == rank);
        for to in self.targets.iter_mut().filter(is_one) {
            to.are_answered(u32::MAX);
            (to.unanswered, to.unanswered_gets, to.in_flight) = (false, false, false);
        }
    }

    /// Whether a task has anything under way to any rank.
    pub fn has_jobs(&self) -> bool {
        self.targets.iter().any(|to| to.jobs != 0)
    }

    /// A thread waits for all that is under way to a rank; returns its turn.
    pub fn begin_settling(&mut self, rank: u32) -> u64 {
        self.turns += 1;
        let turn = self.turns;
        if let Some(to) = self.get_mut(rank) {
            to.settling.push(turn);
        }
        turn
    }

    /// It has waited.
    pub fn end_settling(&mut self, rank: u32, turn: u64) {
        if let Some(to) = self.get_mut(rank) {
            to.settling.retain(|other| *other != turn);
        }
    }

    /// Whether another thread that began before still waits for something under way to a rank.
    pub fn settles_before(&self, rank: u32, turn: u64) -> bool {
        let first = self.get(rank).and_then(|to| to.settling.first());
        first.is_some_and(|first| *first < turn)
    }

    /// The ranks whose locks were asked for, other than this one, and may not have been granted.
    pub fn pending_locks(&self, but: u32) -> Vec<u32> {
        let pending = self.targets.iter().filter(|to| to.rank != but && to.lock_pending);
        let mut ranks: Vec<u32> = pending.map(|to| to.rank).collect();
        ranks.sort_unstable();
        ranks
    }

    /// The ranks to which something was sent, in ascending order.
    pub fn ranks(&self) -> Vec<u32> {
        let mut ranks: Vec<u32> = self.targets.iter().map(|to| to.rank).collect();
        ranks.sort_unstable();
        ranks
    }

    /// Whether the lock of any rank is held or asked for.
    pub fn holds_any_lock(&self) -> bool {
        self.targets.iter().any(|to| to.locked)
    }

    /// Whether nothing is under way to a rank, or to any.
    #[inline]
    pub fn is_idle(&self, rank: Option<u32>) -> bool {
        match rank {
            _ if self.targets.is_empty() => true,
            Some(rank) => self.get(rank).is_none_or(ToTarget::is_idle),
            None => self.targets.iter().all(ToTarget::is_idle),
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
    /// Whether an operation may be sent now, or put into the batch, and need not wait behind others.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.waiting.is_none() && self.has_room_now()
    }

    /// The same for one that need not be in their order.
    #[inline]
    pub fn has_room_now(&self) -> bool {
        self.replies.len() + self.leaving.len() < REPLIES && self.posted < POSTS
    }

    /// How many batches there are since something was last answered, with the one that is not sent.
    pub fn batches(&self) -> u32 {
        self.posted + u32::from(!self.batch.is_empty())
    }

    /// So many of the first of these are answered.
    pub fn are_answered(&mut self, batches: u32) {
        let left = |all: u32| all.saturating_sub(batches);
        self.posted = left(self.posted);
        self.answered = left(self.answered);
        self.acknowledged = left(self.acknowledged);
    }

    /// Whether there is nothing whose end has to be waited for.
    fn awaits_nothing(&self) -> bool {
        self.replies.is_empty() && self.acknowledgements.is_empty() && self.leaving.is_empty()
    }

    /// Whether nothing was sent, or is to be, that has not been waited for; user's requests aside.
    pub fn is_alone(&self) -> bool {
        self.batch.is_empty() && self.awaits_nothing() && !self.unanswered && self.jobs == 0
    }

    /// Counts an operation that was put into the batch, or sent.
    pub fn count(&mut self, phase: usize) {
        self.sent[phase] += 1;
        // Otherwise it has gone with its data.
        if !self.batch.is_empty() {
            self.in_batch += 1;
        }
    }

    /// The batch was sent.
    pub fn has_sent_batch(&mut self) {
        self.batch.clear();
        self.in_batch = 0;
        self.posted += 1;
        self.told = true;
        self.in_flight = true;
    }

    /// Whether there is something that the kernel is to copy.
    #[inline]
    pub fn has_collected(&self) -> bool {
        !self.puts.is_empty() || !self.gets.is_empty()
    }

    /// Whether there is something that the kernel is to copy, and nothing else is under way.
    pub fn has_only_collected(&self) -> bool {
        self.has_collected() && self.batch.is_empty() && !self.unanswered && self.has_nothing_sent()
    }

    /// Whether operations were begun, and none of what is under way has been sent.
    pub fn has_only_unsent(&self) -> bool {
        !self.batch.is_empty() && !self.has_collected() && self.has_nothing_sent()
    }

    /// Whether nothing is under way, or only that.
    pub fn has_nothing_or_only_unsent(&self) -> bool {
        match self.batch.is_empty() {
            true => !self.has_collected() && !self.unanswered && self.has_nothing_sent(),
            false => self.has_only_unsent(),
        }
    }

    /// Whether nothing was sent that is still under way, as far as anything is known of that before a target is asked.
    pub fn has_nothing_sent(&self) -> bool {
        !self.in_flight && self.has_nothing_to_wait_for()
    }

    /// Whether nothing is under way whose end this process has to wait for when an epoch ends, but that the batch is not sent.
    pub fn needs_no_wait(&self) -> bool {
        !self.has_collected() && self.has_nothing_to_wait_for()
    }

    fn has_nothing_to_wait_for(&self) -> bool {
        self.awaits_nothing()
            && self.requested.is_empty()
            && !self.unanswered_gets
            && self.jobs == 0
            && !self.is_waited_for()
            && self.is_idle_by_lane()
    }

    /// Whether a thread waits for all that is under way there.
    pub fn is_waited_for(&self) -> bool {
        !self.settling.is_empty() || self.watchers != 0
    }

    /// Whether nothing is under way that a flush has to wait for or to ask about.
    pub fn is_idle(&self) -> bool {
        self.is_alone() && !self.has_collected() && self.settling.is_empty() && self.is_idle_by_lane()
    }

    /// Its lock, if that has not been given back meanwhile, is known to be granted.
    pub fn is_granted(&mut self) {
        self.granted = self.locked;
    }

    /// Whether nothing is under way by the lane's one-sided operations that nobody waits for yet.
    pub fn is_idle_by_lane(&self) -> bool {
        self.direct.as_ref().is_none_or(|direct| direct.is_idle())
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
