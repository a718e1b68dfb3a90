//! Requests: what is under way, and how it ended.

use super::buffered::BufferSlot;
use super::matching::{Envelope, PostedId};
use crate::base::error::Error;
use crate::base::slab::Slab;
use crate::data::memory::Memory;
use crate::identity::{Context, PeerIndex};
use crate::lane::{Region, RemoteKey};

/// Names a request of one engine. A freed one is never mistaken for its successor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId {
    /// Its index.
    pub index: u32,
    /// How often that index had been used before.
    pub generation: u32,
}

impl RequestId {
    /// Its form in messages.
    pub fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// From its form in a message: to be looked up, not trusted.
    pub fn from_u64(number: u64) -> RequestId {
        RequestId {
            index: number as u32,
            generation: (number >> 32) as u32,
        }
    }
}

/// How a request ended: what goes into the user's status.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The sender's rank, or `MPI_ANY_SOURCE` in an empty status.
    pub source: i32,
    /// The message's tag, or `MPI_ANY_TAG` in an empty status.
    pub tag: i32,
    /// Bytes received.
    pub bytes: u64,
    /// Whether it was cancelled.
    pub cancelled: bool,
    /// What went wrong.
    pub error: Option<Box<Error>>,
}

impl Outcome {
    /// The empty status of MPI 5.0 section 3.7.3.
    pub const EMPTY: Outcome = Outcome {
        source: -1,
        tag: -2,
        bytes: 0,
        cancelled: false,
        error: None,
    };

    /// An empty status with an error.
    pub fn failed(error: Error) -> Outcome {
        Outcome {
            error: Some(Box::new(error)),
            ..Outcome::EMPTY
        }
    }
}

/// A task that waits for a request: see `crate::instance::task`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskId(u32);

impl TaskId {
    /// The bit of a task that a message has begun.
    const SERVES: u32 = 1 << 31;

    /// The task in a place below 2^31. `serves`: a message has begun it.
    pub fn new(place: u32, serves: bool) -> TaskId {
        assert!(place < TaskId::SERVES, "too many tasks");
        TaskId(if serves { place | TaskId::SERVES } else { place })
    }

    /// Its place in the table of tasks.
    pub fn place(self) -> u32 {
        self.0 & !TaskId::SERVES
    }

    /// Whether a message has begun it: then it runs nothing of the user's.
    pub fn serves(self) -> bool {
        self.0 & TaskId::SERVES != 0
    }

    /// As a number, from which [`TaskId::of_number`] makes it again.
    pub fn number(self) -> u32 {
        self.0
    }

    /// See [`TaskId::number`].
    pub fn of_number(number: u32) -> TaskId {
        TaskId(number)
    }
}

/// One request.
pub struct Request {
    /// What it still has to do.
    pub work: Work,
    /// Set once it has ended.
    pub outcome: Option<Outcome>,
    /// Whether the outcome was known before the end: a send in buffered mode, whose message still has to leave.
    pub early: bool,
    /// Whether no call will ask for the outcome: it is removed as soon as it has ended.
    pub released: bool,
    /// Whether the user has freed the request that this one is a part of. The outcome is still taken.
    pub released_whole: bool,
    /// Whom to wake.
    pub waiter: Option<TaskId>,
    /// The context of the communicator that it belongs to (its error handler gets the error); 0: none.
    pub context: Context,
}

/// What a request does.
pub enum Work {
    /// Ended, or ends by a call of `complete`.
    None,
    /// A nonblocking or persistent collective operation, of the communicator of its context, whose messages have this tag. Ends as `None` does.
    Collective(i32),
    /// Two at once (`MPI_Isendrecv`): the requests of those that had not ended when it was made.
    Both([Option<RequestId>; 2]),
    /// A send. It is allocated separately: it is long, and most sends end before they need one.
    Send(Box<SendWork>),
    /// A send whose message was sent at once: it has ended, but may still be cancelled.
    Sent(SentWork),
    /// A receive.
    Receive(ReceiveWork),
}

impl Work {
    /// Whether nothing of the engine's or of a lane's is under way for it: [`Engine::complete`](super::Engine::complete) ends it.
    pub fn is_bare(&self) -> bool {
        matches!(self, Work::None | Work::Collective(_) | Work::Both(_))
    }
}

/// A send.
pub struct SendWork {
    /// The receiver.
    pub peer: PeerIndex,
    /// Its envelope.
    pub envelope: Envelope,
    /// The memory with its bytes.
    pub memory: Memory,
    /// What the memory is in, where that is a buffer for buffered mode.
    pub slot: Option<Box<BufferSlot>>,
    /// Synchronous mode.
    pub sync: bool,
    /// Memory that the receiver may read.
    pub region: Option<Region>,
    /// Sequence number, once it is on its way: a cancel names the message by it.
    pub seq: Option<u32>,
    /// Messages of a lane that carry its bytes and have not completed.
    pub in_lane: u32,
    /// Where it stands.
    pub stage: SendStage,
    /// The receiver was asked to give it back and has not answered.
    pub cancel_asked: bool,
    /// It was taken back: with the receiver's agreement, or before it was sent.
    pub taken_back: bool,
    /// What went wrong: it ends once no lane uses its memory any more.
    pub failed: Option<Box<Error>>,
}

/// What is kept of a send that has ended at once: most do, so this is small.
#[derive(Clone, Copy)]
pub struct SentWork {
    /// The receiver.
    pub peer: PeerIndex,
    /// Its envelope.
    pub envelope: Envelope,
    /// Sequence number: a cancel names the message by it.
    pub seq: u32,
    /// How many bytes it had, for reports.
    pub bytes: u32,
}

impl SentWork {
    /// The same as a full send, which can have something to do again.
    pub fn as_send(&self) -> Box<SendWork> {
        Box::new(SendWork {
            peer: self.peer,
            envelope: self.envelope,
            memory: Memory::empty(),
            slot: None,
            sync: false,
            region: None,
            seq: Some(self.seq),
            in_lane: 0,
            stage: SendStage::InLane,
            cancel_asked: false,
            taken_back: false,
            failed: None,
        })
    }
}

impl Request {
    /// Ends a receive or an operation of several steps: all that it had to do is done. Returns the task to wake, if one
    /// waits.
    #[inline(always)]
    pub fn end(&mut self, outcome: Outcome) -> Option<TaskId> {
        self.work = Work::None;
        self.outcome = Some(outcome);
        self.early = false;
        self.waiter.take()
    }

    /// Whether it still has something to do.
    pub fn is_under_way(&self) -> bool {
        self.outcome.is_none() || self.early
    }

    /// Whether the user has freed it, or what it is a part of: the end of its communicator has to wait for it.
    pub fn is_freed(&self) -> bool {
        self.released || self.released_whole
    }
}

impl SendWork {
    /// How it ends.
    pub fn outcome(&self) -> Outcome {
        Outcome {
            cancelled: self.taken_back && self.failed.is_none(),
            error: self.failed.clone(),
            ..Outcome::EMPTY
        }
    }

    /// Whether nothing is missing for it to end.
    pub fn has_ended(&self) -> bool {
        let settled = self.stage == SendStage::InLane && !self.cancel_asked;
        self.in_lane == 0 && (settled || self.failed.is_some())
    }
}

/// The state of a send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendStage {
    /// In the peer's queue.
    Queued,
    /// Handed to the lane; only its completion is missing.
    InLane,
    /// The receiver has to confirm that it took it.
    AwaitsReceiver,
    /// `Data` messages are being sent.
    Streaming,
    /// The receiver has to grant more.
    Paused {
        /// Its request.
        receiver: u64,
        /// The next byte to send: all that was granted has been sent.
        next: u64,
        /// Where to stop.
        end: u64,
    },
}

impl SendStage {
    /// Whether the receiver takes the data as `Data` messages.
    pub fn is_streaming(self) -> bool {
        matches!(self, SendStage::Streaming | SendStage::Paused { .. })
    }
}

/// A receive.
pub struct ReceiveWork {
    /// Where the bytes go.
    pub memory: Memory,
    /// Its state.
    pub stage: ReceiveStage,
}

/// The state of a receive.
pub enum ReceiveStage {
    /// In the posted queue.
    Posted {
        /// Its index there.
        id: PostedId,
        /// The only process that can send it, if the source is given.
        peer: Option<PeerIndex>,
    },
    /// A rendezvous message is being fetched.
    Fetching(Box<Fetch>),
}

/// A rendezvous message that is being fetched.
pub struct Fetch {
    /// The sender.
    pub peer: PeerIndex,
    /// The sender's request.
    pub sender: u64,
    /// The message's envelope.
    pub envelope: Envelope,
    /// Its whole length in bytes.
    pub size: u64,
    /// How many bytes of it fit.
    pub limit: u64,
    /// How many have come.
    pub received: u64,
    /// How far the sender may send.
    pub granted: u64,
    /// The sender's memory, where it is read rather than sent.
    pub key: Option<RemoteKey>,
    /// How many bytes have been read.
    pub read: u64,
}

/// The requests of one engine.
pub struct Requests {
    slab: Slab<Request>,
    generations: Vec<u32>,
    first_generation: u32,
}

impl Requests {
    /// None yet. `first_generation` differs from engine to engine of one process, so that a request of an earlier
    /// one is not taken for one of this.
    pub fn new(first_generation: u32) -> Requests {
        Requests {
            slab: Slab::default(),
            generations: Vec::new(),
            first_generation,
        }
    }

    /// A new request.
    #[inline(always)]
    pub fn insert(&mut self, work: Work, context: Context) -> RequestId {
        self.insert_with(work, context, None)
    }

    /// A new request that has ended.
    #[inline(always)]
    pub fn insert_ended(&mut self, work: Work, context: Context, outcome: Outcome) -> RequestId {
        self.insert_with(work, context, Some(outcome))
    }

    #[inline(always)]
    fn insert_with(&mut self, work: Work, context: Context, outcome: Option<Outcome>) -> RequestId {
        let index = self.slab.insert_with(|| Request {
            work,
            outcome,
            early: false,
            released: false,
            released_whole: false,
            waiter: None,
            context,
        });
        let generation = match self.generations.get(index as usize) {
            Some(&generation) => generation,
            None => self.first_use(),
        };
        RequestId { index, generation }
    }

    /// The generation of an index that is used for the first time, the next one.
    #[cold]
    fn first_use(&mut self) -> u32 {
        self.generations.push(self.first_generation);
        self.first_generation
    }

    /// The request, if there is one.
    #[inline]
    pub fn get(&self, id: RequestId) -> Option<&Request> {
        if self.generations.get(id.index as usize) != Some(&id.generation) {
            return None;
        }
        self.slab.get(id.index)
    }

    /// The request, if there is one.
    #[inline]
    pub fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        if self.generations.get(id.index as usize) != Some(&id.generation) {
            return None;
        }
        self.slab.get_mut(id.index)
    }

    /// The whole name of a request of which only the index and the low bits of the generation are known.
    #[inline]
    pub fn find(&self, index: u32, generation_bits: u32, mask: u32) -> Option<RequestId> {
        let generation = *self.generations.get(index as usize)?;
        (generation & mask == generation_bits && self.slab.get(index).is_some())
            .then_some(RequestId { index, generation })
    }

    /// The request of which only the index and the low bits of the generation are known.
    #[inline(always)]
    pub fn get_named(&self, index: u32, generation_bits: u32, mask: u32) -> Option<&Request> {
        let generation = *self.generations.get(index as usize)?;
        match generation & mask == generation_bits {
            true => self.slab.get(index),
            false => None,
        }
    }

    /// Takes a request out that has ended well, by the part of its name in a handle.
    #[inline(always)]
    pub fn take_well_ended(&mut self, index: u32, generation_bits: u32, mask: u32) -> Option<Outcome> {
        let generation = self.generations.get_mut(index as usize)?;
        let request = self.slab.get_mut(index)?;
        let well = |outcome: &Outcome| outcome.error.is_none();
        if *generation & mask != generation_bits
            || request.early
            || !request.outcome.as_ref().is_some_and(well)
        {
            return None;
        }
        let outcome = request.outcome.take();
        *generation = generation.wrapping_add(1);
        self.slab.discard(index);
        outcome
    }

    /// Ends it; its name is invalid from now on.
    #[inline]
    pub fn discard(&mut self, id: RequestId) {
        if self.get(id).is_some() {
            self.generations[id.index as usize] = id.generation.wrapping_add(1);
            self.slab.discard(id.index);
        }
    }

    /// How many there are.
    #[cfg(any(test, feature = "sim"))]
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there is none.
    #[cfg(feature = "sim")]
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (RequestId, &Request)> {
        self.slab.iter().map(|(index, request)| {
            let generation = self.generations[index as usize];
            (RequestId { index, generation }, request)
        })
    }
}
