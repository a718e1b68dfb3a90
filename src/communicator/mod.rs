//! Communicators and groups (MPI 5.0 chapter 7).
//!
//! - [`Communicator`]: a group and a context, and messages among its members or, of an intercommunicator, between two
//!   groups
//! - [`Collective`]: the messages of one collective operation
//! - `group`: groups
//! - `create`: making communicators from others; `inter`: making intercommunicators, and merging them
//! - `locality`: dividing communicators by where processes are
//! - `buffered`: sends in buffered mode
//! - `partitioned`: sends and receives in partitions
//! - `ending`: disconnecting, and the barriers inside finalize

mod buffered;
mod create;
pub mod dims;
mod ending;
pub mod group;
mod inter;
pub mod locality;
pub mod names;
pub mod partitioned;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::attribute::Attributes;
use crate::engine::buffered::Attachment;
use crate::engine::matching::{Envelope, Pattern};
use crate::engine::memory::Memory;
use crate::engine::mismatch::{Begun, Operation};
use crate::engine::request::{Outcome, RequestId};
use crate::engine::{Engine, Received, Send};
use crate::errhandler::Errhandler;
use crate::error::Result;
use crate::instance::{Completion, Instance};
use crate::lane::ProcId;
use group::{Comparison, Group};
pub use inter::Bridge;
use partitioned::Numbers;

/// `MPI_TAG_UB`: every non-negative `int` is a tag.
pub const TAG_UB: i32 = i32::MAX;

/// See the module.
pub struct Communicator {
    instance: Arc<Instance>,
    /// Context id of point-to-point messages; collective messages use the next one. It changes once, for a duplicate in the
    /// making, of which no message has been sent by then.
    context: AtomicU64,
    group: Arc<Group>,
    /// Whom the ranks of messages name: the same group, or the remote one of an intercommunicator.
    peers: Arc<Group>,
    rank: u32,
    /// Counts collective operations, blocking and nonblocking ones, each by themselves: a part of their messages' tag.
    begun: Arc<Begun>,
    name: Mutex<String>,
    errhandler: Mutex<Errhandler>,
    attributes: Attributes,
    attachment: Attachment,
    /// The tags of its partitioned sends' messages.
    partitioned: Mutex<Numbers>,
    /// The binding's handle of this communicator; opaque here.
    handle: AtomicUsize,
}

impl Communicator {
    /// A communicator of processes that all know its context id. `None` if this process is not a member.
    pub fn new(instance: &Arc<Instance>, context: u64, group: Arc<Group>) -> Option<Arc<Communicator>> {
        Self::between(instance, context, group.clone(), group)
    }

    /// An intercommunicator of two groups that have no process in common, whose processes all know its context id: the
    /// local group and the remote one. `None` if this process is not in the local one. (With one and the same group
    /// twice: an intracommunicator.)
    pub fn between(
        instance: &Arc<Instance>,
        context: u64,
        group: Arc<Group>,
        peers: Arc<Group>,
    ) -> Option<Arc<Communicator>> {
        let rank = group.rank_of(instance.me())?;
        let begun = Arc::default();
        if !Self::is_meeting(context) {
            instance.engine().count_steps(context, &begun);
        }
        Some(Arc::new(Communicator {
            instance: instance.clone(),
            context: AtomicU64::new(context),
            group,
            peers,
            rank,
            begun,
            name: Mutex::default(),
            errhandler: Mutex::default(),
            attributes: Attributes::default(),
            attachment: Attachment::default(),
            partitioned: Mutex::default(),
            handle: AtomicUsize::new(0),
        }))
    }

    /// All processes of the job.
    pub fn world(instance: &Arc<Instance>) -> Arc<Communicator> {
        Self::new(instance, WORLD_CONTEXT, Group::first(instance.job().size)).expect("in the world")
    }

    /// This process alone.
    pub fn alone(instance: &Arc<Instance>) -> Arc<Communicator> {
        Self::new(instance, SELF_CONTEXT, Group::of(vec![instance.me()])).expect("myself")
    }

    /// All processes of the job, for the barrier inside finalize.
    pub fn finalizing(instance: &Arc<Instance>) -> Arc<Communicator> {
        Self::new(instance, FINALIZE_CONTEXT, Group::first(instance.job().size)).expect("in the world")
    }

    /// The context id of the communicator to whose messages a context belongs. Contexts of meetings (`create.rs`) are
    /// numbers of their own, of which this makes others that are no communicator's either.
    pub fn context_id(context: u64) -> u64 {
        context & !(PARTIAL | PARTITIONED | INSIDE | 1)
    }

    /// Whether a message of this context belongs to the operations inside finalize.
    pub fn is_finalizing(context: u64) -> bool {
        context & !1 == FINALIZE_CONTEXT
    }

    /// The rank from which the first operation inside finalize waits for a message, if it does: not all have come then. The
    /// others begin when all have.
    pub fn finalizing_waits_for(engine: &Engine) -> Option<u32> {
        engine.awaited_in(FINALIZE_CONTEXT + 1, 0)
    }

    /// Its context id, of which the low bit is free.
    #[inline(always)]
    pub fn context(&self) -> u64 {
        self.context.load(Ordering::Relaxed)
    }

    /// What it belongs to.
    #[inline]
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// This process's rank.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of processes, of an intercommunicator in the local group.
    #[inline]
    pub fn size(&self) -> u32 {
        self.group.size()
    }

    /// Its processes, of an intercommunicator those of the local group.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Whom the ranks of messages name: its processes, of an intercommunicator those of the remote group.
    #[inline]
    pub fn peers(&self) -> &Arc<Group> {
        &self.peers
    }

    /// Whether it is an intercommunicator.
    pub fn is_inter(&self) -> bool {
        !Arc::ptr_eq(&self.group, &self.peers)
    }

    /// All processes that have to do with it: of an intercommunicator both groups, in an order that is the same on both
    /// sides.
    pub fn everybody(&self) -> Arc<Group> {
        if !self.is_inter() {
            return self.group.clone();
        }
        let [first, second] = match self.is_first() {
            true => [&self.group, &self.peers],
            false => [&self.peers, &self.group],
        };
        let processes = first.iter().chain(second.iter()).collect();
        Group::of_session(self.group.session(), processes)
    }

    /// Of an intercommunicator: whether the local group comes first where both are put in a row.
    fn is_first(&self) -> bool {
        comes_first(&self.group, &self.peers)
    }

    /// Its name (`MPI_Comm_set_name`).
    pub fn name(&self) -> &Mutex<String> {
        &self.name
    }

    /// What happens to its errors.
    pub fn errhandler(&self) -> &Mutex<Errhandler> {
        &self.errhandler
    }

    /// What the user keeps with it.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Where its buffer for buffered mode is attached.
    pub fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// The binding's handle of this communicator.
    pub fn handle(&self) -> &AtomicUsize {
        &self.handle
    }

    /// How two communicators compare.
    pub fn compare(&self, other: &Communicator) -> Comparison {
        if self.context() == other.context() {
            return Comparison::Ident;
        }
        if self.is_inter() != other.is_inter() {
            return Comparison::Unequal;
        }
        let groups = [self.group.compare(&other.group), self.peers.compare(&other.peers)];
        if groups.contains(&Comparison::Unequal) {
            Comparison::Unequal
        } else if groups.contains(&Comparison::Similar) {
            Comparison::Similar
        } else {
            Comparison::Congruent
        }
    }

    /// Starts a send to a rank. `None`: it has ended and no request was asked for.
    ///
    /// # Safety
    /// As for [`crate::engine::Engine::send`].
    #[inline(always)]
    pub unsafe fn send(
        &self,
        to: u32,
        tag: i32,
        memory: Memory,
        sync: bool,
        request: bool,
    ) -> Result<Option<RequestId>> {
        let send = self.message(to, tag, memory, sync);
        // SAFETY: the caller's promise.
        unsafe { self.instance.engine().send(&send, request) }
    }

    /// A message to a rank.
    #[inline(always)]
    fn message(&self, to: u32, tag: i32, memory: Memory, sync: bool) -> Send {
        Send {
            peer: self.peers.member(to),
            envelope: Envelope {
                context: self.context(),
                source: self.rank,
                tag,
            },
            memory,
            sync,
        }
    }

    /// Starts a receive; `None` is a wildcard.
    ///
    /// # Safety
    /// As for [`crate::engine::Engine::receive`].
    #[inline(always)]
    pub unsafe fn receive(&self, from: Option<u32>, tag: Option<i32>, memory: Memory) -> Result<Received> {
        let peer = from.map(|rank| self.peers.member(rank));
        // SAFETY: the caller's promise.
        unsafe {
            self.instance
                .engine()
                .receive(self.pattern(from, tag), peer, memory)
        }
    }

    /// Starts a receive whose caller stays with it for a while: see [`Instance::receive_attended`].
    ///
    /// # Safety
    /// As for [`crate::engine::Engine::receive`].
    #[inline(always)]
    pub unsafe fn receive_attended(
        &self,
        from: Option<u32>,
        tag: Option<i32>,
        memory: Memory,
        alone: impl Fn() -> bool,
    ) -> Result<Received> {
        let peer = from.map(|rank| self.peers.member(rank));
        // SAFETY: the caller's promise.
        unsafe {
            self.instance
                .receive_attended(self.pattern(from, tag), peer, memory, alone)
        }
    }

    /// What a receive or probe takes.
    #[inline]
    pub fn pattern(&self, source: Option<u32>, tag: Option<i32>) -> Pattern {
        Pattern {
            context: self.context(),
            source,
            tag,
        }
    }

    /// The barrier by which the members part: the last operation on it, whatever the count of the others is.
    pub fn parting(self: &Arc<Self>) -> Collective {
        self.operation(self.context() + 1, TAG_UB)
            .everybody()
            .into_owned()
    }

    /// Begins a blocking collective operation that makes or ends an object: see [`Communicator::step`].
    pub fn collective(self: &Arc<Self>) -> Collective {
        self.step(Operation::OF_OBJECTS, false)
    }

    /// Begins a collective operation: all members begin the blocking ones in the same order, and the nonblocking ones, so that the
    /// count that becomes a part of its messages' tag is the same everywhere.
    pub fn step(self: &Arc<Self>, operation: Operation, nonblocking: bool) -> Collective {
        let step = self.begun.next(operation, nonblocking);
        self.operation(self.context() + 1, step.tag())
    }

    /// The communicator's context id where a context and a tag are those of messages of such an operation.
    pub fn of_collective(context: u64, tag: i32) -> Option<u64> {
        let is_one = context & 1 != 0
            && context & (PARTIAL | PARTITIONED) == 0
            && !Self::is_meeting(context)
            && tag != TAG_UB;
        is_one.then(|| Self::context_id(context))
    }

    /// Begins an operation of some of the members alone, who know each other by a tag of the user's.
    fn partial(self: &Arc<Self>, tag: i32) -> Collective {
        self.operation(self.context() | PARTIAL, tag)
    }

    fn operation(self: &Arc<Self>, context: u64, tag: i32) -> Collective {
        Collective {
            communicator: self.clone(),
            among: None,
            rank: self.rank,
            context,
            tag,
        }
    }
}

/// Of two groups that have no process in common: whether `group` comes first where both are put in a row.
fn comes_first(group: &Group, other: &Group) -> bool {
    group.member(0) < other.member(0)
}

/// Context ids of the communicators that need no agreement. Those of `Instance::new_context` are larger.
const WORLD_CONTEXT: u64 = 2;
const SELF_CONTEXT: u64 = 4;
const FINALIZE_CONTEXT: u64 = 6;
/// Set in a communicator's context id for messages of its partial operations. No context id has it, as there are
/// fewer than 2³¹ processes.
const PARTIAL: u64 = 1 << 63;
/// Set in a communicator's context id for messages of partitioned communication: as it is for the offers by which a
/// send finds its receive, the next one for the data. No context id of `Instance::new_context` has it, as there are fewer
/// than 2²⁸ processes.
const PARTITIONED: u64 = 1 << 60;
/// Set in a communicator's context id for the messages by which the leaders of two groups make an intercommunicator.
const BRIDGE: u64 = PARTIAL | INSIDE;
/// Set in an intercommunicator's context id for messages inside a group, where sources are ranks of the sender's own
/// group. No context id of `Instance::new_context` has it, as there are fewer than 2²⁹ processes.
const INSIDE: u64 = 1 << 61;

/// One collective operation: messages among the members of a communicator that only this operation sees. On an
/// intercommunicator, ranks at first name processes of the remote group, as they do in all its messages; from there
/// [`Collective::inside`], [`Collective::everybody`], [`Collective::below`] and [`Collective::above`] make
/// operations among other processes, to which all that is known of intracommunicators applies. An operation uses one
/// of the last three at most, as their messages are told apart by ranks alone.
#[derive(Clone)]
pub struct Collective {
    communicator: Arc<Communicator>,
    /// Among whom, where these are not the processes that the communicator's messages name.
    among: Option<Arc<Group>>,
    rank: u32,
    context: u64,
    tag: i32,
}

impl Collective {
    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of processes that ranks name.
    pub fn size(&self) -> u32 {
        self.processes().size()
    }

    fn processes(&self) -> &Group {
        self.among.as_ref().unwrap_or(&self.communicator.peers)
    }

    /// Whether ranks name processes of an intercommunicator's remote group, to which this process does not belong.
    pub fn is_across(&self) -> bool {
        self.among.is_none() && self.communicator.is_inter()
    }

    /// Of an operation across an intercommunicator: the same inside the local group.
    pub fn inside(&self) -> Collective {
        Collective {
            context: self.context | INSIDE,
            ..self.among(self.communicator.group.clone(), self.communicator.rank)
        }
    }

    /// Across an intercommunicator: among all processes of both groups. Otherwise the operation itself.
    pub fn everybody(&self) -> Cow<'_, Collective> {
        if !self.is_across() {
            return Cow::Borrowed(self);
        }
        let communicator = &self.communicator;
        let before = match communicator.is_first() {
            true => 0,
            false => communicator.peers.size(),
        };
        Cow::Owned(self.among(communicator.everybody(), before + communicator.rank))
    }

    /// Of an operation across an intercommunicator: among this process, which becomes rank 0, and the remote group.
    pub fn above(&self) -> Collective {
        let me = self.communicator.instance.me();
        let processes = std::iter::once(me).chain(self.communicator.peers.iter());
        self.among(Group::of(processes.collect()), 0)
    }

    /// Of an operation across an intercommunicator: among a process of the remote group, which becomes rank 0, and the
    /// local group.
    pub fn below(&self, root: u32) -> Collective {
        let root = self.communicator.peers.member(root);
        let processes = std::iter::once(root).chain(self.communicator.group.iter());
        self.among(Group::of(processes.collect()), self.communicator.rank + 1)
    }

    fn among(&self, processes: Arc<Group>, rank: u32) -> Collective {
        Collective {
            communicator: self.communicator.clone(),
            among: Some(processes),
            rank,
            context: self.context,
            tag: self.tag,
        }
    }

    /// The tag of its messages.
    pub fn tag(&self) -> i32 {
        self.tag
    }

    /// On which communicator.
    pub fn communicator(&self) -> &Arc<Communicator> {
        &self.communicator
    }

    /// The process of a rank.
    pub fn process(&self, rank: u32) -> ProcId {
        self.processes().member(rank)
    }

    /// Starts a send to a rank; it is under way before the result is awaited.
    ///
    /// # Safety
    /// The memory is valid and unchanged until the result is ready or dropped.
    pub unsafe fn send(&self, to: u32, memory: Memory) -> Completion {
        let instance = &self.communicator.instance;
        let send = Send {
            peer: self.process(to),
            envelope: Envelope {
                context: self.context,
                source: self.rank(),
                tag: self.tag,
            },
            memory,
            sync: false,
        };
        // SAFETY: the caller's promise.
        match unsafe { instance.engine().send(&send, false) } {
            Ok(Some(request)) => Completion::of(instance, request),
            Ok(None) => Completion::ended(instance, Ok(Outcome::EMPTY)),
            Err(error) => Completion::ended(instance, Err(error)),
        }
    }

    /// Starts a receive from a rank.
    ///
    /// # Safety
    /// The memory is valid and left alone until the result is ready or dropped.
    pub unsafe fn receive(&self, from: u32, memory: Memory) -> Completion {
        let instance = &self.communicator.instance;
        let pattern = Pattern {
            context: self.context,
            source: Some(from),
            tag: Some(self.tag),
        };
        // SAFETY: the caller's promise.
        match unsafe {
            instance
                .engine()
                .receive(pattern, Some(self.process(from)), memory)
        } {
            Ok(Received::Later(request)) => Completion::of(instance, request),
            Ok(Received::Now(mut outcome)) => {
                let result = outcome.error.take().map_or(Ok(outcome), |error| Err(*error));
                Completion::ended(instance, result)
            }
            Err(error) => Completion::ended(instance, Err(error)),
        }
    }

    /// Sends bytes of ours and waits until they have gone.
    pub async fn send_bytes(&self, to: u32, bytes: &[u8]) -> Result<()> {
        // SAFETY: borrowed until the completion is ready or dropped.
        unsafe { self.send(to, Memory::of(bytes)) }.await?;
        Ok(())
    }

    /// Receives bytes of ours.
    pub async fn receive_bytes(&self, from: u32, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: borrowed until the completion is ready or dropped.
        unsafe { self.receive(from, Memory::of_mut(bytes)) }.await?;
        Ok(())
    }

    /// Sends to one rank while receiving from another.
    pub async fn exchange_bytes(&self, to: u32, send: &[u8], from: u32, receive: &mut [u8]) -> Result<()> {
        // SAFETY: both borrowed until the completions are ready or dropped.
        let (receiving, sending) = unsafe {
            (
                self.receive(from, Memory::of_mut(receive)),
                self.send(to, Memory::of(send)),
            )
        };
        receiving.await?;
        sending.await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_tells_its_communicator_whatever_the_message_is() {
        for mark in [
            1,
            PARTIAL,
            PARTITIONED,
            PARTITIONED | 1,
            BRIDGE,
            INSIDE,
            INSIDE | 1,
        ] {
            assert_eq!(Communicator::context_id(0x276 | mark), 0x276, "mark {mark:#x}");
            let collective = [1, INSIDE | 1].contains(&mark).then_some(0x276);
            assert_eq!(
                Communicator::of_collective(0x276 | mark, 5),
                collective,
                "mark {mark:#x}"
            );
        }
        assert_eq!(Communicator::of_collective(0x277, TAG_UB), None, "the parting");
        let meeting = create::MEETING | 0x276;
        assert!(Communicator::is_meeting(meeting) && !Communicator::is_meeting(0x276));
        assert_eq!(Communicator::of_collective(meeting | 1, 5), None, "a meeting");
    }
}
