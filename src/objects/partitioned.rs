//! Partitioned communication (MPI 5.0 chapter 4): a message whose partitions are sent one by one, as threads mark them
//! ready, and whose arrival can be tested one by one.
//!
//! 1. A send, when it is made, sends an *offer* with the user's tag: its partitions, and the tags that its data will
//!    have. A receive, when it is made, posts a receive for an offer. So the two match in the order in which
//!    they were made, and, as offers have a context of their own, no other receive matches them.
//! 2. Each start of the send is a number of *pieces*: messages of one or more partitions in a second context. The thread that
//!    marks the last partition of a piece ready sends it.
//! 3. Each start of the receive posts a receive for each piece, straight into the user's memory. A piece's tag is the
//!    same at each start: messages of one tag keep their order, so the n-th start of one side matches the n-th of the other.
//!
//! The two sides need not have the same number of partitions: a partition of the receiver has arrived when all pieces that
//! contain some of its bytes have arrived.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::base::error::{Class, Error, Result};
use crate::data::memory::Memory;
use crate::engine::matching::{Envelope, Pattern};
use crate::engine::request::{Outcome, RequestId};
use crate::engine::{Received, Send};
use crate::err;
use crate::instance::Completion;
use crate::objects::communicator::{Collective, Communicator, Numbers};

/// With at most this many partitions, each is sent separately.
const PIECES_MIN: u64 = 64;
/// With more of them, small ones are put together until a message has this many bytes.
const PIECE_BYTES: u64 = 1024;
/// The most messages of one start.
const PIECES_MAX: u64 = 1 << 20;

/// Some equal partitions of a buffer, in packed bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Partitions {
    /// How many.
    number: u64,
    /// Bytes of each.
    bytes: u64,
}

impl Partitions {
    /// The partitions of a buffer of `number` times `each`.
    fn new(number: u64, each: &Memory) -> Result<Partitions> {
        let bytes = each.len();
        match number.checked_mul(bytes) {
            Some(_) => Ok(Partitions { number, bytes }),
            None => Err(err!(
                Count,
                "{number} partitions of {bytes} bytes exceed the largest size"
            )),
        }
    }

    /// Bytes of all.
    fn total(&self) -> u64 {
        self.number * self.bytes
    }

    /// How many go into one piece.
    fn per_piece(&self) -> u64 {
        let pieces = (self.total() / PIECE_BYTES).clamp(PIECES_MIN, PIECES_MAX);
        self.number.div_ceil(pieces).max(1)
    }

    /// How many pieces there are. Without partitions there is an empty one, so that the receiver learns of each start.
    fn pieces(&self) -> u64 {
        self.number.div_ceil(self.per_piece()).max(1)
    }

    /// Which partitions are in a piece.
    fn of_piece(&self, piece: u64) -> Range<u64> {
        let per_piece = self.per_piece();
        let first = (piece * per_piece).min(self.number);
        first..(first + per_piece).min(self.number)
    }

    /// Which bytes are in a piece.
    fn bytes_of(&self, piece: u64) -> Range<u64> {
        let Range { start, end } = self.of_piece(piece);
        start * self.bytes..end * self.bytes
    }

    /// Which pieces have some of these bytes. For no bytes: all of them.
    fn covering(&self, bytes: Range<u64>) -> Range<u64> {
        let end = bytes.end.min(self.total());
        if bytes.start >= end {
            return 0..self.pieces();
        }
        let piece_bytes = self.per_piece() * self.bytes;
        bytes.start / piece_bytes..end.div_ceil(piece_bytes)
    }
}

/// What a send tells the receive that matches it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Offer {
    partitions: Partitions,
    /// The tag of the first piece; the others have the next ones.
    first_tag: u32,
}

impl Offer {
    const BYTES: usize = 20;

    fn encode(&self) -> [u8; Offer::BYTES] {
        let mut bytes = [0; Offer::BYTES];
        bytes[..8].copy_from_slice(&self.partitions.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.partitions.bytes.to_le_bytes());
        bytes[16..].copy_from_slice(&self.first_tag.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Offer> {
        let (number, rest) = bytes.split_first_chunk::<8>()?;
        let (bytes, tag) = rest.split_first_chunk::<8>()?;
        let partitions = Partitions {
            number: u64::from_le_bytes(*number),
            bytes: u64::from_le_bytes(*bytes),
        };
        let first_tag = u32::from_le_bytes(tag.try_into().ok()?);
        partitions.number.checked_mul(partitions.bytes)?;
        let end = u64::from(first_tag) + partitions.pieces();
        (partitions.number <= i32::MAX as u64 && end <= u64::from(Numbers::END)).then_some(Offer {
            partitions,
            first_tag,
        })
    }

    fn tag(&self, piece: u64) -> i32 {
        (u64::from(self.first_tag) + piece) as i32
    }
}

/// A partitioned send.
pub struct PartitionedSend {
    communicator: Arc<Communicator>,
    to: u32,
    memory: Memory,
    offer: Offer,
    /// A bit for each partition: whether it is ready.
    ready: Box<[AtomicU64]>,
    /// For each piece, how many of its partitions are not ready.
    missing: Box<[AtomicU32]>,
    /// How many pieces have not been sent.
    unsent: AtomicU32,
    state: Mutex<Sending>,
}

/// The sends of the latest start.
#[derive(Default)]
struct Sending {
    /// The sends that had not ended at once.
    sent: Vec<Completion>,
    /// Ends when all have been sent.
    all_sent: Option<RequestId>,
}

impl PartitionedSend {
    /// A send of `number` partitions, which all together are `memory`, to a rank; `each` is the first of them.
    ///
    /// # Errors
    /// `MPI_ERR_COUNT` if there are too many bytes, `MPI_ERR_OTHER` if there are too many partitioned sends.
    pub fn new(
        communicator: &Arc<Communicator>,
        to: u32,
        tag: i32,
        number: u64,
        each: &Memory,
        memory: Memory,
    ) -> Result<Arc<PartitionedSend>> {
        let partitions = Partitions::new(number, each)?;
        let pieces = partitions.pieces();
        let row = communicator.partitioned().lock().take(pieces as u32);
        let first_tag = row.ok_or_else(|| {
            err!(
                Other,
                "the partitioned sends of this communicator have too many partitions at once"
            )
        })?;
        let offer = Offer {
            partitions,
            first_tag,
        };
        let operation = communicator.operation(communicator.context().partitioned_offers(), tag);
        let instance = communicator.instance();
        let offering = instance.spawn(Box::pin(async move {
            operation.send_bytes(to, offer.encode().to_vec()).await?;
            Ok(Outcome::EMPTY)
        }));
        instance.engine().release(offering);
        Ok(Arc::new(PartitionedSend {
            communicator: communicator.clone(),
            to,
            memory,
            offer,
            ready: (0..number.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            missing: (0..pieces).map(|_| AtomicU32::new(0)).collect(),
            unsent: AtomicU32::new(0),
            state: Mutex::default(),
        }))
    }

    /// How many partitions it has.
    pub fn partitions(&self) -> u64 {
        self.offer.partitions.number
    }

    /// Starts it: no partition is ready. The request ends when all have been sent and the memory is the user's again.
    ///
    /// # Safety
    /// The memory of each partition is valid, and left alone, from when it is ready until the request has ended.
    pub unsafe fn start(self: &Arc<Self>) -> Result<RequestId> {
        let partitions = &self.offer.partitions;
        // A partition is marked ready only after this call (MPI 5.0 section 4.2.1).
        for word in &self.ready {
            word.store(0, Ordering::Relaxed);
        }
        for (piece, missing) in self.missing.iter().enumerate() {
            let Range { start, end } = partitions.of_piece(piece as u64);
            missing.store((end - start) as u32, Ordering::Relaxed);
        }
        self.unsent.store(partitions.pieces() as u32, Ordering::Relaxed);
        let instance = self.communicator.instance();
        let all_sent = instance.engine().bare_request();
        self.state.lock().all_sent = Some(all_sent);
        let all_sent = Completion::of(instance.clone(), all_sent);
        let sending = self.clone();
        let request = instance.spawn(Box::pin(async move {
            all_sent.await?;
            let sent = std::mem::take(&mut sending.state.lock().sent);
            let mut result = Ok(Outcome::EMPTY);
            for piece in sent {
                let ended = piece.await;
                if result.is_ok() {
                    result = ended.map(|_| Outcome::EMPTY);
                }
            }
            result
        }));
        instance
            .engine()
            .set_context(request, self.communicator.context());
        if partitions.number == 0 {
            self.send(0);
        }
        Ok(request)
    }

    /// Marks one of the partitions ready. Any number of threads may do so at once. An error
    /// of the message is returned by the request.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if it was ready already.
    pub fn ready(&self, partition: u64) -> Result<()> {
        let bit = 1 << (partition % 64);
        // Acquire and release here and below: what the user's threads wrote before each was ready is visible to the thread
        // that sends them.
        if self.ready[(partition / 64) as usize].fetch_or(bit, Ordering::AcqRel) & bit != 0 {
            return Err(err!(
                Arg,
                "partition {partition} was marked as ready before, since the latest start of the request"
            ));
        }
        let piece = partition / self.offer.partitions.per_piece();
        if self.missing[piece as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
            self.send(piece);
        }
        Ok(())
    }

    fn send(&self, piece: u64) {
        let bytes = self.offer.partitions.bytes_of(piece);
        let communicator = &self.communicator;
        let send = Send {
            peer: communicator.peers().member(self.to),
            envelope: Envelope {
                context: communicator.context().partitioned_data(),
                source: communicator.rank(),
                tag: self.offer.tag(piece),
            },
            memory: self.memory.part(bytes.start, bytes.end - bytes.start),
            sync: false,
        };
        let instance = communicator.instance();
        // SAFETY: the promise of `start`: all its partitions are ready.
        let sent = unsafe { instance.engine().send(&send, false) };
        let sent = match sent {
            Ok(None) => None,
            Ok(Some(id)) => Some(Completion::of(instance.clone(), id)),
            Err(error) => Some(Completion::ended(Err(error))),
        };
        if let Some(sent) = sent {
            self.state.lock().sent.push(sent);
        }
        if self.unsent.fetch_sub(1, Ordering::AcqRel) == 1 {
            let all_sent = self.state.lock().all_sent.take().expect("started");
            instance.engine().complete(all_sent, Outcome::EMPTY);
        }
    }
}

impl Drop for PartitionedSend {
    fn drop(&mut self) {
        self.communicator
            .partitioned()
            .lock()
            .give_back(self.offer.first_tag);
    }
}

/// A partitioned receive.
pub struct PartitionedReceive {
    communicator: Arc<Communicator>,
    from: u32,
    tag: i32,
    memory: Memory,
    partitions: Partitions,
    /// The offer of the matching send, once it has come.
    offer: Arc<OnceLock<Result<Offer>>>,
    state: Mutex<Receiving>,
}

#[derive(Default)]
struct Receiving {
    /// Ends with the offer; for the first start.
    meeting: Option<RequestId>,
    /// The receives of the latest start, once it knows their tags; `None`: it has ended at once.
    pieces: Option<Vec<Option<RequestId>>>,
}

impl PartitionedReceive {
    /// A receive of `number` partitions, which all together are `memory`, from a rank; `each` is the first of them.
    ///
    /// # Errors
    /// `MPI_ERR_COUNT` if there are too many bytes.
    pub fn new(
        communicator: &Arc<Communicator>,
        from: u32,
        tag: i32,
        number: u64,
        each: &Memory,
        memory: Memory,
    ) -> Result<Arc<PartitionedReceive>> {
        let partitions = Partitions::new(number, each)?;
        let operation = communicator.operation(communicator.context().partitioned_offers(), tag);
        let instance = communicator.instance();
        let offer: Arc<OnceLock<Result<Offer>>> = Arc::default();
        let slot = offer.clone();
        // A task of its own: it keeps its position among the receives of this tag even if this one is freed before.
        let meeting = instance.spawn(Box::pin(async move {
            let met = meet(&operation, from).await;
            slot.get_or_init(|| met);
            Ok(Outcome::EMPTY)
        }));
        Ok(Arc::new(PartitionedReceive {
            communicator: communicator.clone(),
            from,
            tag,
            memory,
            partitions,
            offer,
            state: Mutex::new(Receiving {
                meeting: Some(meeting),
                pieces: None,
            }),
        }))
    }

    /// How many partitions it has.
    pub fn partitions(&self) -> u64 {
        self.partitions.number
    }

    /// Starts it. The request ends when all partitions have arrived.
    ///
    /// # Safety
    /// The memory is valid, and left alone except for partitions that have arrived, until the request has ended.
    pub unsafe fn start(self: &Arc<Self>) -> Result<RequestId> {
        let meeting = {
            let mut state = self.state.lock();
            state.pieces = None;
            state.meeting.take()
        };
        let instance = self.communicator.instance();
        let receiving = self.clone();
        let meeting = meeting.map(|id| Completion::of(instance.clone(), id));
        let request = instance.spawn(Box::pin(async move {
            if let Some(meeting) = meeting {
                meeting.await?;
            }
            let offer = receiving.offer.get().expect("they have met").clone()?;
            // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
            unsafe { receiving.receive(&offer) }.await
        }));
        instance
            .engine()
            .set_context(request, self.communicator.context());
        Ok(request)
    }

    /// Posts the receives of one start, and waits for their ends.
    ///
    /// # Safety
    /// As for [`PartitionedReceive::start`].
    async unsafe fn receive(&self, offer: &Offer) -> Result<Outcome> {
        let communicator = &self.communicator;
        let instance = communicator.instance();
        let pieces = offer.partitions.pieces();
        let mut ids = Vec::with_capacity(pieces as usize);
        let mut ends = Vec::with_capacity(pieces as usize);
        for piece in 0..pieces {
            let bytes = offer.partitions.bytes_of(piece);
            let memory = self.memory.part(bytes.start, bytes.end - bytes.start);
            let pattern = Pattern {
                context: communicator.context().partitioned_data(),
                source: Some(self.from),
                tag: Some(offer.tag(piece)),
            };
            let peer = communicator.peers().member(self.from);
            // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
            let received = unsafe { instance.engine().receive(pattern, Some(peer), memory) };
            let (id, end) = match received {
                Ok(Received::Later(id)) => (Some(id), Completion::of(instance.clone(), id)),
                Ok(Received::Now(outcome)) => (None, Completion::of_outcome(outcome)),
                Err(error) => (None, Completion::ended(Err(error))),
            };
            ids.push(id);
            ends.push(end);
        }
        self.state.lock().pieces = Some(ids);
        let mut outcome = Outcome {
            source: self.from as i32,
            tag: self.tag,
            ..Outcome::EMPTY
        };
        for end in ends {
            let ended = end.outcome().await;
            outcome.bytes += ended.bytes;
            outcome.error = outcome.error.or(ended.error);
        }
        match &mut outcome.error {
            // The error of one message says less.
            Some(error) if error.class == Class::Truncate => **error = self.too_small(offer),
            _ => {}
        }
        Ok(outcome)
    }

    #[cold]
    fn too_small(&self, offer: &Offer) -> Error {
        let (theirs, mine) = (offer.partitions, self.partitions);
        err!(
            Truncate,
            "the partitioned send of rank {} with tag {} has {} partitions of {} bytes, the receive buffer only {} of {}",
            self.from,
            self.tag,
            theirs.number,
            theirs.bytes,
            mine.number,
            mine.bytes
        )
    }

    /// Whether one of the partitions has arrived since the latest start.
    pub fn has_arrived(&self, partition: u64) -> bool {
        let Some(Ok(offer)) = self.offer.get() else {
            return false;
        };
        let start = partition * self.partitions.bytes;
        let pieces = offer.partitions.covering(start..start + self.partitions.bytes);
        let state = self.state.lock();
        let Some(ids) = &state.pieces else {
            return false;
        };
        let engine = self.communicator.instance().engine();
        ids[pieces.start as usize..pieces.end as usize]
            .iter()
            .flatten()
            // A request that no longer exists has ended and been taken.
            .all(|&id| engine.is_complete(id) != Some(false))
    }
}

impl Drop for PartitionedReceive {
    fn drop(&mut self) {
        if let Some(meeting) = self.state.get_mut().meeting {
            self.communicator.instance().engine().release(meeting);
        }
    }
}

/// Receives the offer of the send whose turn it is.
async fn meet(operation: &Collective, from: u32) -> Result<Offer> {
    let mut bytes = [0; Offer::BYTES];
    // SAFETY: the bytes are a part of this, which is pinned: they live until the completion is ready or dropped.
    let outcome = unsafe { operation.receive(from, Memory::of_mut(&mut bytes)) }.await?;
    let offer = Offer::decode(&bytes[..outcome.bytes as usize]);
    offer.ok_or_else(|| {
        err!(
            Other,
            "rank {from} sent a partitioned send's offer that makes no sense"
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn partitions() -> impl Strategy<Value = Partitions> {
        let few = (0..200u64, 0..5000u64);
        let many = (0..1u64 << 31, 0..1u64 << 20);
        prop_oneof![few, many].prop_map(|(number, bytes)| Partitions { number, bytes })
    }

    #[test]
    fn few_partitions_go_alone_and_small_ones_together() {
        let pieces = |number, bytes| Partitions { number, bytes }.pieces();
        assert_eq!(
            (pieces(0, 8), pieces(1, 0), pieces(64, 0), pieces(64, 1)),
            (1, 1, 64, 64)
        );
        assert_eq!(pieces(10_000, 8), 78);
        assert_eq!(pieces(1000, 1 << 20), 1000);
        assert_eq!(pieces(1 << 30, 1 << 20), PIECES_MAX);
    }

    proptest! {
        /// Every partition and every byte is in exactly one piece, in order.
        #[test]
        fn pieces_are_all_of_it(partitions in partitions(), probe in any::<u64>()) {
            let pieces = partitions.pieces();
            prop_assert!((1..=PIECES_MAX).contains(&pieces));
            prop_assert_eq!(partitions.of_piece(0).start, 0);
            prop_assert_eq!(partitions.of_piece(pieces - 1).end, partitions.number);
            let piece = probe % pieces;
            let range = partitions.of_piece(piece);
            prop_assert!(!range.is_empty() || partitions.number == 0);
            prop_assert!(range.clone().all(|at| at / partitions.per_piece() == piece));
            if piece + 1 < pieces {
                prop_assert_eq!(range.end, partitions.of_piece(piece + 1).start);
            }
        }

        /// The pieces of a range of bytes are those that have some of them.
        #[test]
        fn covering_is_what_overlaps(number in 0..200u64, bytes in 0..3000u64, start in 0..9000u64, len in 0..9000u64) {
            let partitions = Partitions { number, bytes };
            let covering = partitions.covering(start..start + len);
            let end = (start + len).min(partitions.total());
            if start >= end {
                prop_assert_eq!(covering, 0..partitions.pieces());
            } else {
                for piece in 0..partitions.pieces() {
                    let of = partitions.bytes_of(piece);
                    prop_assert_eq!(covering.contains(&piece), of.start < end && start < of.end);
                }
            }
        }

        #[test]
        fn an_offer_survives_the_wire(partitions in partitions(), first_tag in 0..1u32 << 30) {
            let offer = Offer { partitions, first_tag };
            prop_assert_eq!(Offer::decode(&offer.encode()), Some(offer));
        }

        /// Any bytes are either a valid offer or none.
        #[test]
        fn garbage_is_no_offer(bytes in prop::collection::vec(any::<u8>(), 0..30)) {
            if let Some(offer) = Offer::decode(&bytes) {
                prop_assert_eq!(bytes.len(), Offer::BYTES);
                prop_assert!(offer.tag(offer.partitions.pieces() - 1) >= 0);
            }
        }
    }
}
