//! The messages of one collective operation.

use std::borrow::Cow;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use super::area::Area;
use super::{Communicator, Hosts};
use crate::base::error::Result;
use crate::data::memory::Memory;
use crate::engine::matching::{Envelope, Pattern};
use crate::engine::request::Outcome;
use crate::engine::{Received, Send};
use crate::identity::{Context, PeerIndex};
use crate::instance::{Completion, Instance, Poller, poller};
use crate::objects::group::Group;

/// One collective operation: messages among the members of a communicator that only this operation sees. On an
/// intercommunicator, ranks at first name processes of the remote group, as they do in all its messages; from there
/// `Collective::inside`, `Collective::everybody`, `Collective::below` and `Collective::above` make
/// operations among other processes, which behave as on an intracommunicator. An operation uses one
/// of the last three at most, as their messages are distinguished by ranks alone.
#[derive(Clone)]
pub struct Collective {
    pub(super) communicator: Arc<Communicator>,
    /// Its processes, where these are not those that the communicator's messages name.
    pub(super) among: Option<Arc<Group>>,
    pub(super) rank: u32,
    pub(super) context: Context,
    pub(super) tag: i32,
    /// Whether it uses the memory that the processes of the host share for blocking operations.
    pub(super) on_area: bool,
    /// Such memory that only this operation uses.
    pub(super) own_area: Option<Arc<Area>>,
    /// For one that is started again and again: the processes of `everybody`, `below` or `above`, once they are needed.
    pub(super) kept: Option<Arc<OnceLock<Arc<Group>>>>,
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
        self.among.as_ref().unwrap_or(self.communicator.peers())
    }

    /// Whether ranks name processes of an intercommunicator's remote group, to which this process does not belong.
    pub(crate) fn is_across(&self) -> bool {
        self.among.is_none() && self.communicator.is_inter()
    }

    /// Its processes by host, if it is to be in two levels.
    #[inline]
    pub(crate) fn hosts(&self) -> Option<&Hosts> {
        match self.among {
            None => self.communicator.hosts(),
            Some(_) => None,
        }
    }

    /// For an operation across an intercommunicator: the same inside the local group.
    pub(crate) fn inside(&self) -> Collective {
        Collective {
            context: self.context.inside(),
            ..self.among(self.communicator.group.clone(), self.communicator.rank)
        }
    }

    /// Across an intercommunicator: among all processes of both groups. Otherwise the operation itself.
    pub(crate) fn everybody(&self) -> Cow<'_, Collective> {
        if !self.is_across() {
            return Cow::Borrowed(self);
        }
        let communicator = &self.communicator;
        let before = match communicator.is_first() {
            true => 0,
            false => communicator.peers.size(),
        };
        let processes = self.once(|| communicator.everybody());
        Cow::Owned(self.among(processes, before + communicator.rank))
    }

    /// For an operation across an intercommunicator: among this process, which becomes rank 0, and the remote group.
    pub(crate) fn above(&self) -> Collective {
        let me = self.communicator.instance.me();
        self.among(self.headed(me, self.communicator.peers()), 0)
    }

    /// For an operation across an intercommunicator: among a process of the remote group, which becomes rank 0, and the
    /// local group.
    pub(crate) fn below(&self, root: u32) -> Collective {
        let root = self.communicator.peers().member(root);
        self.among(
            self.headed(root, &self.communicator.group),
            self.communicator.rank + 1,
        )
    }

    /// A process and then those of a group.
    fn headed(&self, first: PeerIndex, others: &Group) -> Arc<Group> {
        self.once(|| Group::of(std::iter::once(first).chain(others.iter()).collect()))
    }

    /// The processes of an operation that is not among its communicator's: those that were made before, if it is started again.
    fn once(&self, make: impl FnOnce() -> Arc<Group>) -> Arc<Group> {
        match &self.kept {
            Some(kept) => kept.get_or_init(make).clone(),
            None => make(),
        }
    }

    /// The same, to be started again and again, with the same root.
    pub(super) fn again(self) -> Collective {
        Collective {
            kept: Some(Arc::default()),
            ..self
        }
    }

    fn among(&self, processes: Arc<Group>, rank: u32) -> Collective {
        Collective {
            communicator: self.communicator.clone(),
            among: Some(processes),
            rank,
            context: self.context,
            tag: self.tag,
            on_area: false,
            own_area: None,
            kept: self.kept.clone(),
        }
    }

    /// The same in memory that the processes of the host share, which it uses ([`Area::begin`]).
    pub(crate) fn on_area(self) -> Collective {
        Collective {
            on_area: true,
            ..self
        }
    }

    /// The same in such memory that only this operation uses.
    pub(crate) fn on_own_area(self, area: Option<Arc<Area>>) -> Collective {
        Collective {
            own_area: area,
            ..self
        }
    }

    /// That memory.
    pub(crate) fn own_area(&self) -> Option<&Arc<Area>> {
        self.own_area.as_ref()
    }

    /// Whether all of its processes share that.
    pub(crate) fn has_own_area_whole(&self) -> bool {
        let area = self.own_area.as_ref();
        area.is_some_and(|area| area.size() == self.size())
    }

    /// The memory that it uses.
    #[inline]
    pub(crate) fn area(&self) -> Option<&Area> {
        match self.on_area {
            true => self.communicator.area().get()?.as_deref(),
            false => self.own_area.as_deref(),
        }
    }

    /// The context of its messages.
    pub(crate) fn context(&self) -> Context {
        self.context
    }

    /// The tag of its messages.
    pub(crate) fn tag(&self) -> i32 {
        self.tag
    }

    /// Its communicator.
    pub(crate) fn communicator(&self) -> &Arc<Communicator> {
        &self.communicator
    }

    /// The process of a rank.
    pub(crate) fn process(&self, rank: u32) -> PeerIndex {
        self.processes().member(rank)
    }

    /// Starts a send to a rank; it is under way before the result is awaited.
    ///
    /// # Safety
    /// The memory is valid and unchanged until the result is ready or dropped.
    pub(crate) unsafe fn send(&self, to: u32, memory: Memory) -> Completion<&Instance> {
        let instance: &Instance = &self.communicator.instance;
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
        // SAFETY: the caller keeps the memory valid, and lets nobody write to it, until the send has ended.
        match unsafe { instance.engine().send(&send, false) } {
            Ok(Some(request)) => Completion::of(instance, request),
            Ok(None) => Completion::ended(Ok(Outcome::EMPTY)),
            Err(error) => Completion::ended(Err(error)),
        }
    }

    /// Starts a receive from a rank.
    ///
    /// # Safety
    /// The memory is valid and left alone until the result is ready or dropped.
    pub(crate) unsafe fn receive(&self, from: u32, memory: Memory) -> Completion<&Instance> {
        let instance: &Instance = &self.communicator.instance;
        let (pattern, peer) = (self.pattern(from), Some(self.process(from)));
        // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
        let received = unsafe { instance.engine().receive(pattern, peer, memory) };
        completion(instance, received)
    }

    /// Receives from a rank. A blocking call, which has nothing else to do, looks for the message before it posts the receive, as `MPI_Recv`
    /// does.
    ///
    /// # Safety
    /// The memory is valid and left alone until the result is ready or dropped.
    pub(crate) async unsafe fn receive_now(&self, from: u32, memory: Memory) -> Result<Outcome> {
        let instance: &Instance = &self.communicator.instance;
        let (pattern, peer) = (self.pattern(from), Some(self.process(from)));
        let mut memory = Some(memory);
        let receiving = poll_fn(|context| {
            let memory = memory.take().expect("polled once");
            // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
            let received = unsafe {
                match poller(context) {
                    Poller::Blocks => instance.receive_attended(pattern, peer, memory, || true),
                    _ => instance.engine().receive(pattern, peer, memory),
                }
            };
            Poll::Ready(completion(instance, received))
        });
        receiving.await.await
    }

    /// The message from a rank.
    #[inline]
    fn pattern(&self, from: u32) -> Pattern {
        Pattern {
            context: self.context,
            source: Some(from),
            tag: Some(self.tag),
        }
    }

    /// Sends bytes that it owns and waits until they are sent.
    ///
    /// # Panics
    /// If there is no such rank.
    pub async fn send_bytes(&self, to: u32, bytes: Vec<u8>) -> Result<()> {
        // SAFETY: this owns the bytes until the completion is ready or dropped; if this is forgotten, so are they.
        unsafe { self.send(to, Memory::of(&bytes)) }.await?;
        Ok(())
    }

    /// Receives up to `len` bytes; what does not come is zero.
    ///
    /// # Panics
    /// If there is no such rank.
    pub async fn receive_bytes(&self, from: u32, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        // SAFETY: as in `send_bytes`.
        unsafe { self.receive(from, Memory::of_mut(&mut bytes)) }.await?;
        Ok(bytes)
    }

    /// Sends to one rank while receiving up to `len` bytes from another.
    ///
    /// # Panics
    /// If there are no such ranks.
    pub async fn exchange_bytes(&self, to: u32, send: Vec<u8>, from: u32, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        // SAFETY: as in `send_bytes`.
        let (receiving, sending) = unsafe {
            (
                self.receive(from, Memory::of_mut(&mut bytes)),
                self.send(to, Memory::of(&send)),
            )
        };
        // Both, whatever has become of the first: who gives up the other one waits for its lane.
        let (received, sent) = (receiving.await, sending.await);
        received?;
        sent?;
        Ok(bytes)
    }
}

/// The end of a receive.
#[inline]
fn completion(instance: &Instance, received: Result<Received>) -> Completion<&Instance> {
    match received {
        Ok(Received::Later(request)) => Completion::of(instance, request),
        Ok(Received::Now(outcome)) => Completion::of_outcome(outcome),
        Err(error) => Completion::ended(Err(error)),
    }
}
