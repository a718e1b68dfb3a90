//! Communicators (MPI 5.0 chapter 7): a group and a context, and messages among its members or, on an intercommunicator,
//! between two groups. What needs a collective operation to make or end one is in [`super::management`].
//!
//! - [`Communicator`]
//! - [`Collective`]: the messages of one collective operation
//! - [`Hosts`]: which of its processes share a host
//! - [`area`]: memory that they share for collective operations; [`sharers`]: how processes that share memory wait and wake each other
//! - `buffered`: sends in buffered mode
//! - `names`: their names for people, in reports
//! - `numbers`: tags of partitioned sends
//!
//! What does not belong here: the algorithms of collective operations (`collective`), partitioned communication but for its tags
//! (`partitioned`), and matching (`engine`).

pub mod area;
mod buffered;
mod hosts;
pub mod names;
mod numbers;
mod operation;
pub mod sharers;

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::base::attribute::Attributes;
use crate::base::error::Result;
use crate::data::memory::Memory;
use crate::engine::buffered::Attachment;
use crate::engine::matching::{Envelope, Pattern};
use crate::engine::mismatch::{Begun, Kind, Operation};
use crate::engine::request::RequestId;
use crate::engine::{Engine, Received, Send};
use crate::identity::Context;
use crate::instance::Instance;
use crate::objects::errhandler::Errhandler;
use crate::objects::group::{Comparison, Group};
use crate::objects::topology::Topology;
use area::{Area, Kept};
pub use hosts::Hosts;
pub use numbers::Numbers;
pub use operation::Collective;

/// `MPI_TAG_UB`: every non-negative `int` is a tag.
pub const TAG_UB: i32 = i32::MAX;

/// See the module.
pub struct Communicator {
    instance: Arc<Instance>,
    /// The bits of its context. They change once, for a duplicate that is being made, on which no message has been sent by then.
    context: AtomicU64,
    group: Arc<Group>,
    /// The group that the ranks of messages name: the same group, or the remote one of an intercommunicator.
    peers: Arc<Group>,
    rank: u32,
    /// Whether processes of other jobs belong to it.
    several_jobs: bool,
    /// Its processes by host, where that makes a difference; found out when first needed.
    hosts: OnceLock<Option<Hosts>>,
    /// Memory that its processes on this host share for blocking collective operations, once that is settled.
    area: OnceLock<Option<Arc<Area>>>,
    /// How many of these there were before.
    before_area: AtomicU32,
    /// Such memory for single operations.
    kept_areas: Mutex<Kept>,
    /// How its processes are arranged, if they are; set when it is made.
    topology: OnceLock<Arc<Topology>>,
    /// Counts collective operations, those of each kind separately: a part of their messages' tag.
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
    /// A communicator of processes that all know its context. `None` if this process is not a member.
    pub fn new(instance: &Arc<Instance>, context: Context, group: Arc<Group>) -> Option<Arc<Communicator>> {
        Self::between(instance, context, group.clone(), group)
    }

    /// An intercommunicator of two groups that have no process in common, whose processes all know its context: the
    /// local group and the remote one. `None` if this process is not in the local one. (With one and the same group
    /// twice: an intracommunicator.)
    pub fn between(
        instance: &Arc<Instance>,
        context: Context,
        group: Arc<Group>,
        peers: Arc<Group>,
    ) -> Option<Arc<Communicator>> {
        let rank = group.rank_of(instance.me())?;
        let several_jobs = instance.directory().has_others()
            && [&group, &peers]
                .into_iter()
                .any(|group| group.iter().any(|process| !instance.is_of_this_job(process)));
        let begun = Arc::default();
        if !context.is_meeting() {
            instance.engine().count_steps(context, &begun);
        }
        Some(Arc::new(Communicator {
            instance: instance.clone(),
            context: AtomicU64::new(context.bits()),
            group,
            peers,
            rank,
            several_jobs,
            hosts: OnceLock::new(),
            area: OnceLock::new(),
            before_area: AtomicU32::new(0),
            kept_areas: Mutex::default(),
            topology: OnceLock::new(),
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
        Self::new(instance, Context::WORLD, Group::first(instance.job().size)).expect("in the world")
    }

    /// This process alone.
    pub fn alone(instance: &Arc<Instance>) -> Arc<Communicator> {
        Self::new(instance, Context::SELF, Group::of(vec![instance.me()])).expect("myself")
    }

    /// All processes of the job, for the barrier inside finalize.
    pub fn finalizing(instance: &Arc<Instance>) -> Arc<Communicator> {
        Self::new(instance, Context::FINALIZE, Group::first(instance.job().size)).expect("in the world")
    }

    /// The rank from which the first operation inside finalize waits for a message, if it does: not all have come then. The
    /// others begin when all have.
    pub fn finalizing_waits_for(engine: &Engine) -> Option<u32> {
        engine.awaited_in(Context::FINALIZE.collective(), 0)
    }

    /// Its context.
    #[inline(always)]
    pub fn context(&self) -> Context {
        Context::of_bits(self.context.load(Ordering::Relaxed))
    }

    /// Sets the context, which all members know, of one that was unfinished.
    pub(super) fn finish_with(&self, context: Context) {
        // Later users find it in a table of handles after this, so they see the change.
        self.context.store(context.bits(), Ordering::Relaxed);
        self.instance.engine().count_steps(context, &self.begun);
    }

    /// The tags of its partitioned sends' messages.
    pub(super) fn partitioned(&self) -> &Mutex<Numbers> {
        &self.partitioned
    }

    /// The instance that it belongs to.
    #[inline]
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// This process's rank.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of processes; for an intercommunicator, in the local group.
    #[inline]
    pub fn size(&self) -> u32 {
        self.group.size()
    }

    /// Its processes; for an intercommunicator, those of the local group.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// The processes that the ranks of messages name: its own; for an intercommunicator, those of the remote group.
    #[inline]
    pub fn peers(&self) -> &Arc<Group> {
        &self.peers
    }

    /// Its processes by host, if collective operations are to be in two levels: there are several hosts, and several processes on one
    /// of them. The same on all processes.
    #[inline]
    pub(crate) fn hosts(&self) -> Option<&Hosts> {
        self.hosts.get_or_init(|| Hosts::of(self)).as_ref()
    }

    /// Memory that its processes on this host share for blocking collective operations, once that is settled. The same on all processes
    /// of the host.
    #[inline]
    pub(crate) fn area(&self) -> &OnceLock<Option<Arc<Area>>> {
        &self.area
    }

    /// The same for operations that have some each.
    pub(crate) fn kept_areas(&self) -> &Mutex<Kept> {
        &self.kept_areas
    }

    /// That of blocking operations, if all of its processes share it.
    #[inline]
    pub(crate) fn whole_area(&self) -> Option<&Area> {
        let area = self.area.get()?.as_deref()?;
        (area.size() == self.size()).then_some(area)
    }

    /// Counts the blocking collective operations before there is such memory: returns how many there were before this one.
    pub(crate) fn count_before_area(&self) -> u32 {
        self.before_area.fetch_add(1, Ordering::Relaxed)
    }

    /// How its processes are arranged (chapter 8), if they are.
    pub fn topology(&self) -> Option<&Arc<Topology>> {
        self.topology.get()
    }

    /// Arranges the processes of a new one.
    pub(super) fn arrange(&self, topology: Arc<Topology>) {
        // It is set once, by the maker.
        let _ = self.topology.set(topology);
    }

    /// Whether processes of other jobs belong to it. What its processes have to know alike can't come from the launcher of one job then, nor
    /// from settings.
    #[inline]
    pub fn is_of_several_jobs(&self) -> bool {
        self.several_jobs
    }

    /// Whether it is an intercommunicator.
    pub fn is_inter(&self) -> bool {
        !Arc::ptr_eq(&self.group, &self.peers)
    }

    /// All processes that belong to it: for an intercommunicator both groups, in an order that is the same on both
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

    /// Its processes of other jobs are connected with this one from now on, until [`Instance::disconnect_by`].
    pub fn connects(&self) {
        if self.several_jobs {
            self.instance.connect_by(self.context(), self.everybody().iter());
        }
    }

    /// For an intercommunicator: whether the local group comes first where both are put in order, which is the same on all processes.
    pub(super) fn is_first(&self) -> bool {
        let name = |group: &Group| self.instance.directory().name(group.member(0));
        name(&self.group) < name(&self.peers)
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
        // SAFETY: the caller keeps the memory valid, and lets nobody write to it, until the send has ended.
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
        // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
        unsafe {
            self.instance
                .engine()
                .receive(self.pattern(from, tag), peer, memory)
        }
    }

    /// Starts a receive whose caller polls for it for a while: see [`Instance::receive_attended`].
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
        // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
        unsafe {
            self.instance
                .receive_attended(self.pattern(from, tag), peer, memory, alone)
        }
    }

    /// The pattern of a receive or probe.
    #[inline]
    pub fn pattern(&self, source: Option<u32>, tag: Option<i32>) -> Pattern {
        Pattern {
            context: self.context(),
            source,
            tag,
        }
    }

    /// The disconnect barrier: the last operation on it, whatever the count of the others is. Its tag is that of
    /// no other collective operation.
    pub fn disconnect_barrier(self: &Arc<Self>) -> Collective {
        self.operation(self.context().collective(), TAG_UB)
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
        self.step_of_kind(
            operation,
            if nonblocking {
                Kind::Nonblocking
            } else {
                Kind::Blocking
            },
        )
    }

    /// Makes a persistent collective operation: all members make them in the same order. Each start uses these messages: what one start
    /// sends to a process is received by the same start there, as messages between two processes keep their order and no start begins
    /// before the one before it has ended. So several operations may be started in different orders on different members.
    pub fn persistent_step(self: &Arc<Self>, operation: Operation) -> Collective {
        self.step_of_kind(operation, Kind::Persistent).again()
    }

    fn step_of_kind(self: &Arc<Self>, operation: Operation, kind: Kind) -> Collective {
        self.begun_with(self.begun.next(operation, kind).tag())
    }

    /// Begins a blocking collective operation as [`Communicator::step`] does, and returns the tag of its messages.
    #[inline]
    pub(crate) fn next_tag(&self, operation: Operation) -> i32 {
        self.begun.next(operation, Kind::Blocking).tag()
    }

    /// The operation that [`Communicator::next_tag`] has begun.
    pub(crate) fn begun_with(self: &Arc<Self>, tag: i32) -> Collective {
        self.operation(self.context().collective(), tag)
    }

    /// Begins an operation of some of the members, which find each other by a tag of the user's.
    pub(super) fn partial(self: &Arc<Self>, tag: i32) -> Collective {
        self.operation(self.context().partial(), tag)
    }

    pub(super) fn operation(self: &Arc<Self>, context: Context, tag: i32) -> Collective {
        Collective {
            communicator: self.clone(),
            among: None,
            rank: self.rank,
            context,
            tag,
            on_area: false,
            own_area: None,
            kept: None,
        }
    }
}
