//! Operations by messages, at the process that starts them. What the target makes of them is in `target`.

mod pieces;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use smallvec::SmallVec;

use super::access::{Action, Place};
use super::message::{self, ACKNOWLEDGE, ALIGN, Code, Head};
use super::outbox::{ToTarget, of_data};
use super::runs;
use super::target::COPIED;
use super::{Origin, Window};
use crate::base::error::Result;
use crate::data::datatype::Runs;
use crate::data::memory::Memory;
use crate::data::op::Op;
use crate::data::pieces::Piece as Run;
use crate::engine::dispatch::Behind;
use crate::engine::request::{Outcome, RequestId};
use crate::engine::{Received, Tried};
use crate::err;
use crate::instance::{Completion, Instance};
use crate::lane::LONGER_BY;
use crate::system::lock::MutexGuard;
use pieces::{Piece, accumulates, is_combined_apart, is_one_message};

/// The most bytes of a batch, and of data that is copied into it, and the most groups of runs of an operation. Longer data is sent from where
/// it is, behind its operation or as a message of its own, or is several operations.
const BATCH: usize = IN_PLACE + LONGER_BY;
const SHORT: usize = 8 << 10;
/// The most bytes that are sent behind their operation from where they are.
const IN_PLACE: usize = 64 << 10;
const GROUPS: usize = 128;
/// So many requests of the user's are remembered before it is looked which of them have ended.
const REQUESTED: usize = 64;

/// How long messages may be.
#[derive(Debug)]
pub struct Limits {
    batch: usize,
    short: u64,
    /// The most data of an accumulate that is copied, all of which is in batches.
    combined: u64,
    groups: usize,
}

impl Limits {
    /// Where a message has so many bytes at most.
    fn of(most: usize) -> Limits {
        let batch = most.min(BATCH);
        // With one group, at least, it fits in a message.
        let room = batch.saturating_sub(Head::BYTES + runs::GROUP_BYTES_MAX);
        let combined = (batch / 4 * 3).min(room) / ALIGN * ALIGN;
        let short = (batch / 2).min(SHORT).next_multiple_of(ALIGN);
        let left = batch.saturating_sub(combined + Head::BYTES + ALIGN);
        Limits {
            batch,
            short: short as u64,
            combined: combined as u64,
            groups: (left / runs::GROUP_BYTES_MAX).clamp(1, GROUPS),
        }
    }
}

impl Limits {
    /// The most bytes of a batch.
    pub(super) fn batch(&self) -> usize {
        self.batch
    }

    /// The most data that a put has with it.
    pub(super) fn short(&self) -> u64 {
        self.short
    }
}

/// What a piece of an operation has under way.
#[derive(Default)]
struct UnderWay {
    /// What it returns, its acknowledgement, or the data of a long put.
    replies: SmallVec<[RequestId; 2]>,
    /// Its message, where the data is in the user's memory.
    leaving: Option<RequestId>,
}

impl UnderWay {
    fn is_empty(&self) -> bool {
        self.replies.is_empty() && self.leaving.is_none()
    }
}

impl IntoIterator for UnderWay {
    type Item = RequestId;
    type IntoIter = std::iter::Chain<smallvec::IntoIter<[RequestId; 2]>, std::option::IntoIter<RequestId>>;

    fn into_iter(self) -> Self::IntoIter {
        self.replies.into_iter().chain(self.leaving)
    }
}

impl Window {
    /// Starts an operation by messages. `None`: no request was asked for.
    ///
    /// # Safety
    /// As for the operation.
    pub(super) unsafe fn by_messages(
        self: &Arc<Self>,
        origin: &mut Origin,
        action: Action,
        mut place: Place,
        request: bool,
    ) -> Result<Option<RequestId>> {
        let rank = place.rank;
        self.ensure_lock(origin, rank)?;
        place.in_place = self.in_place(origin, rank, place.len());
        let whole = self.whole(&action, &place);
        let to = self.to(origin, rank);
        // Behind what a task sends in pieces, unless their order does not matter.
        let has_room = match self.is_ordered(&action) {
            true => to.has_room(),
            false => to.has_room_now(),
        };
        let (Some(piece), true) = (whole, has_room) else {
            return Ok(self.queue(origin, action, place, request));
        };
        let gets = !matches!(action, Action::Put(_) | Action::Accumulate(..));
        // One that goes at once tells that it is complete, where nothing else has to be asked for: so a flush that comes next need not ask.
        let acknowledge = !request
            && !gets
            && piece.bytes > self.limits().short
            && (is_one_message(&place, &piece) || accumulates(&action))
            && self.to(origin, rank).is_alone()
            && !origin.epochs.is_active()
            && !self.may_fail_there();
        // SAFETY: the caller's promises.
        let issued = unsafe { self.issue(origin, &action, &place, &piece, acknowledge) }?;
        let long = self.is_long(&action, &place, &piece);
        if !request {
            let asks = self.asks_after(origin, rank, &action, piece.bytes);
            let to = self.to(origin, rank);
            // A first one that is waited for is not kept back, and none that is checked: with what comes later it may go unnoticed.
            let alone = to.replies.is_empty() && !issued.replies.is_empty() || self.members().are_checked();
            to.leaving.extend(issued.leaving);
            if acknowledge {
                to.acknowledged = to.batches();
                to.acknowledgements.extend(issued.replies);
            } else {
                if gets {
                    to.answered = to.batches();
                }
                to.long |= long;
                to.unanswered |= issued.replies.is_empty() || !gets || asks;
                to.replies.extend(issued.replies);
            }
            if alone {
                self.post_batch(origin, rank)?;
            }
            return Ok(None);
        }
        let to = self.to(origin, rank);
        to.unanswered = true;
        to.unanswered_gets |= gets;
        if issued.is_empty() {
            return Ok(Some(self.ended_request()));
        }
        if let Err(error) = self.post_batch(origin, rank) {
            // They have the user's memory.
            origin
                .given_up
                .extend(issued.into_iter().map(|request| (request, None)));
            return Err(error);
        }
        if let ([reply], None) = (&issued.replies[..], issued.leaving)
            && !long
            && !self.may_fail_there()
        {
            let reply = *reply;
            let requested = &mut self.to(origin, rank).requested;
            if requested.len() == REQUESTED {
                let engine = self.communicator().instance().engine();
                requested.retain(|request| engine.is_complete(*request) == Some(false));
            }
            requested.push(reply);
            return Ok(Some(reply));
        }
        self.to(origin, rank).jobs += 1;
        let (window, done) = (self.clone(), self.new_request());
        origin.begun.push(Box::pin(async move {
            let mut ended = window.end_all(issued).await;
            if window.may_fail_there() {
                let told = window.ask_for_errors(rank, true).await;
                ended = ended.and(told);
            }
            window.end_request(done, ended);
            window.job_done(rank);
            Ok(Outcome::EMPTY)
        }));
        Ok(Some(done))
    }

    /// Waits until requests of the user's have ended, or were taken away by the user.
    pub(super) async fn requested_done(&self, requested: &[RequestId]) {
        if requested.is_empty() {
            return;
        }
        let instance = self.communicator().instance();
        poll_fn(|_| {
            let engine = instance.engine();
            let is_over = |&request: &RequestId| engine.is_complete(request) != Some(false);
            match requested.iter().all(is_over) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// A request of an operation, which a task ends.
    fn new_request(&self) -> RequestId {
        let communicator = self.communicator();
        let mut engine = communicator.instance().engine();
        let request = engine.bare_request();
        engine.set_context(request, communicator.context());
        request
    }

    fn end_request(&self, request: RequestId, result: Result<()>) {
        let outcome = result.map_or_else(Outcome::failed, |()| Outcome::EMPTY);
        self.communicator().instance().engine().complete(request, outcome);
    }

    /// What is under way to a rank.
    pub(super) fn to<'a>(&self, origin: &'a mut Origin, rank: u32) -> &'a mut ToTarget {
        origin
            .outbox
            .to(rank, || self.communicator().peers().member(rank))
    }

    /// Whether a target may find errors that this process can't.
    pub(super) fn may_fail_there(&self) -> bool {
        self.flavor() == super::Flavor::Dynamic || self.members().are_checked()
    }

    /// Whether an operation must not overtake accumulates that were started before it.
    fn is_ordered(&self, action: &Action) -> bool {
        match action {
            Action::Put(_) | Action::Get(_) => false,
            Action::Accumulate(..) | Action::GetAccumulate(..) | Action::CompareAndSwap(..) => {
                self.orders.load(Ordering::Relaxed)
            }
        }
    }

    /// Whether a target has to be asked also after an operation on so many bytes that it answers. Where locks are in shared memory, giving one
    /// back does not tell it anything, and its lane may still have the memory from which a long get was answered.
    fn asks_after(&self, origin: &mut Origin, rank: u32, action: &Action, bytes: u64) -> bool {
        if self.may_fail_there() {
            return true;
        }
        if !matches!(action, Action::Get(_)) || bytes <= COPIED || !self.locks_by_words() {
            return false;
        }
        let to = self.to(origin, rank);
        if to.ends_with_receipt.is_none() {
            // The other side has a lane of the same kind.
            let engine = self.communicator().instance().engine();
            to.ends_with_receipt = engine.ends_with_receipt(to.peer);
        }
        to.ends_with_receipt != Some(true)
    }

    /// Whether what an operation has under way may end before the target has come to it, or long after.
    fn is_long(&self, action: &Action, place: &Place, piece: &Piece) -> bool {
        let is_long = piece.bytes > self.limits().short;
        match action {
            Action::Put(_) => is_long && !is_one_message(place, piece),
            Action::Get(_) => is_long,
            Action::Accumulate(..) | Action::GetAccumulate(..) | Action::CompareAndSwap(..) => false,
        }
    }

    /// How much data can be sent to a rank behind its operation from where it is, of so much.
    fn in_place(&self, origin: &mut Origin, rank: u32, bytes: u64) -> u64 {
        if bytes <= self.limits().short {
            return 0;
        }
        let to = self.to(origin, rank);
        if to.in_place.is_none() {
            let most = self.communicator().instance().engine().post_from_max(to.peer);
            // If it has to be copied after all, it is filled up.
            to.in_place = most.map(|most| (most.min(IN_PLACE) / ALIGN * ALIGN) as u64);
        }
        to.in_place.unwrap_or(0)
    }

    /// Puts a piece of an operation into the batch, or sends it: long data follows as a message of its own. Returns what it has under way.
    ///
    /// # Safety
    /// As for the operation.
    unsafe fn issue(
        &self,
        origin: &mut Origin,
        action: &Action,
        place: &Place,
        piece: &Piece,
        acknowledge: bool,
    ) -> Result<UnderWay> {
        let mut under_way = UnderWay::default();
        let (from, bytes) = (piece.start, piece.bytes);
        let mut head = Head::of(Code::Put, 0);
        let mut data: SmallVec<[Memory; 2]> = SmallVec::new();
        let mut follows = None;
        let combines = |head: &mut Head, op: &Op| {
            head.op = op.handle() as u8;
            head.datatype = place.component.map_or(0, |component| component.handle() as u16);
        };
        let result = match action {
            Action::Put(memory) if bytes <= self.limits().short || is_one_message(place, piece) => {
                data.push(memory.part(from, bytes));
                None
            }
            Action::Put(memory) => {
                head.code = Code::PutLong;
                head.tag = origin.outbox.new_tag() as u32;
                follows = Some(memory.part(from, bytes));
                None
            }
            Action::Get(result) => {
                head.code = Code::Get;
                Some(result.part(from, bytes))
            }
            Action::Accumulate(memory, op) if is_combined_apart(action, place, bytes) => {
                head.code = Code::AccumulateLong;
                combines(&mut head, op);
                head.tag = origin.outbox.new_tag() as u32;
                follows = Some(memory.part(from, bytes));
                None
            }
            Action::Accumulate(memory, op) => {
                head.code = Code::Accumulate;
                combines(&mut head, op);
                data.push(memory.part(from, bytes));
                None
            }
            Action::GetAccumulate(memory, result, op) => {
                head.code = Code::GetAccumulate;
                combines(&mut head, op);
                if !memory.is_empty() {
                    data.push(memory.part(from, bytes));
                }
                Some(result.part(from, bytes))
            }
            Action::CompareAndSwap(value, compare, result) => {
                head.code = Code::CompareAndSwap;
                head.datatype = place.component.map_or(0, |component| component.handle() as u16);
                data.extend([value.clone(), compare.clone()]);
                Some(result.clone())
            }
        };
        let acknowledged = acknowledge && result.is_none();
        if acknowledged {
            head.flags |= ACKNOWLEDGE;
        }
        if let Some(result) = result.or_else(|| acknowledged.then(Memory::empty)) {
            if head.tag == 0 {
                head.tag = origin.outbox.new_tag() as u32;
            }
            let tag = head.tag as i32;
            // SAFETY: the result is the operation's until it ends; `UnderWay` is waited for.
            under_way
                .replies
                .extend(unsafe { self.hear(place.rank, tag, result) }?);
        }
        head.data = data.iter().map(|part| part.len() as u32).sum();
        let run = match &data[..] {
            [one] if bytes > self.limits().short && is_one_message(place, piece) => one.contiguous(),
            _ => None,
        };
        let sent = match run {
            // SAFETY: it is the operation's until it ends; `UnderWay` is waited for.
            Some(run) => unsafe { self.send_behind(origin, place.rank, head, &piece.groups, run) },
            None => Ok(Tried::NotNow),
        };
        let appended = match sent {
            Ok(Tried::Sent(leaving)) => {
                under_way.leaving = leaving;
                Ok(())
            }
            Ok(Tried::NotNow) => self.append(origin, place.rank, head, &piece.groups, |into| {
                // SAFETY: the caller says that it is readable.
                data.iter().for_each(|part| unsafe { message::pack(part, into) });
            }),
            Err(error) => Err(error),
        };
        if let Err(error) = appended {
            origin
                .given_up
                .extend(under_way.into_iter().map(|reply| (reply, None)));
            return Err(error);
        }
        let phase = origin.outbox.phase;
        self.to(origin, place.rank).count(phase);
        if let Some(memory) = follows {
            let sent = self.post_batch(origin, place.rank).and_then(|()| {
                // SAFETY: it is the operation's until it ends; `UnderWay` is waited for.
                unsafe {
                    self.communicator()
                        .send(place.rank, of_data(head.tag as i32), memory, false, true)
                }
            });
            match sent {
                Ok(sending) => under_way.replies.extend(sending),
                Err(error) => {
                    origin
                        .given_up
                        .extend(under_way.into_iter().map(|reply| (reply, None)));
                    return Err(error);
                }
            }
        }
        Ok(under_way)
    }

    /// Sends an operation, and its data from where it is, with what is in the batch if that is short.
    ///
    /// # Safety
    /// The data is valid, and nobody writes to it, until the request has ended.
    unsafe fn send_behind(
        &self,
        origin: &mut Origin,
        rank: u32,
        head: Head,
        groups: &[Runs],
        data: Run,
    ) -> Result<Tried> {
        let bytes = Head { data: 0, ..head }.len_with(groups);
        if self.to(origin, rank).batch.len() + bytes > LONGER_BY {
            self.post_batch(origin, rank)?;
        }
        let arg = self.arg(origin);
        let to = self.to(origin, rank);
        let before = to.batch.len();
        head.append_with(groups, &mut to.batch);
        let communicator = self.communicator();
        let mut engine = communicator.instance().engine();
        // SAFETY: the caller's promise.
        let sent = unsafe { engine.post_from(to.peer, communicator.context(), arg, &to.batch, data) };
        match sent {
            Some(leaving) => {
                to.has_sent_batch();
                Ok(Tried::Sent(leaving))
            }
            None => {
                to.batch.truncate(before);
                Ok(Tried::NotNow)
            }
        }
    }

    /// What the header of a message with operations says of them.
    fn arg(&self, origin: &Origin) -> u64 {
        u64::from(self.communicator().rank()) | (origin.outbox.phase as u64) << 32
    }

    /// Appends an operation to the batch for a rank, and sends those before it if there is no room. `fill` appends its data.
    pub(super) fn append(
        &self,
        origin: &mut Origin,
        rank: u32,
        head: Head,
        groups: &[Runs],
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        if self.to(origin, rank).batch.len() + head.len_with(groups) > self.limits().batch {
            self.post_batch(origin, rank)?;
        }
        let batch = &mut self.to(origin, rank).batch;
        head.append_with(groups, batch);
        let data = batch.len();
        fill(batch);
        assert_eq!(batch.len() - data, head.data as usize);
        message::fill(batch);
        Ok(())
    }

    /// Sends the batch for a rank, if there is one.
    pub(super) fn post_batch(&self, origin: &mut Origin, rank: u32) -> Result<()> {
        match self.to(origin, rank).batch.is_empty() {
            true => Ok(()),
            false => self.post_with(origin, rank, None).map(drop),
        }
    }

    /// Sends the batch for a rank, and an ordinary message `behind` it if both can go at once. Returns whether that was so.
    pub(super) fn post_with(&self, origin: &mut Origin, rank: u32, behind: Option<Behind>) -> Result<bool> {
        let arg = self.arg(origin);
        let to = self.to(origin, rank);
        let communicator = self.communicator();
        let mut engine = communicator.instance().engine();
        let posted = engine.post(to.peer, communicator.context(), arg, &mut to.batch, behind);
        // Not so after an error.
        to.has_sent_batch();
        posted
    }

    /// Starts the receive of a message that answers.
    ///
    /// # Safety
    /// The memory is valid for writing until the request has ended.
    pub(super) unsafe fn hear(&self, rank: u32, tag: i32, memory: Memory) -> Result<Option<RequestId>> {
        // SAFETY: the caller's promise.
        match unsafe { self.communicator().receive(Some(rank), Some(tag), memory) }? {
            Received::Later(id) => Ok(Some(id)),
            // Of a message that this process has asked for later: nobody else sends any.
            Received::Now(_) => Err(err!(
                Intern,
                "rank {rank} has answered an operation of the window before it was asked"
            )),
        }
    }

    /// Sends a message without contents to a rank, with the operations that have not been sent yet.
    pub(super) fn tell_behind(&self, rank: u32, tag: i32) -> Result<()> {
        let has_gone = {
            let mut origin = self.origin().lock();
            let to = origin.outbox.get_mut(rank);
            let behind = Behind {
                tag,
                collective: false,
            };
            match to.is_some_and(|to| !to.batch.is_empty()) {
                true => self.post_with(&mut origin, rank, Some(behind)),
                false => Ok(false),
            }
        };
        match has_gone {
            Ok(true) => Ok(()),
            Ok(false) => self.tell(rank, tag),
            // Who waits for it hears of it all the same.
            Err(error) => self.tell(rank, tag).and(Err(error)),
        }
    }

    /// Sends a message without contents to a rank.
    pub(super) fn tell(&self, rank: u32, tag: i32) -> Result<()> {
        // SAFETY: it has no memory.
        let sending = unsafe { self.communicator().send(rank, tag, Memory::empty(), false, false) }?;
        if let Some(sending) = sending {
            self.communicator().instance().engine().release(sending);
        }
        Ok(())
    }

    /// Waits for the ends of requests.
    pub(super) async fn end_all(&self, requests: impl IntoIterator<Item = RequestId>) -> Result<()> {
        let instance: &Instance = self.communicator().instance();
        let ends: SmallVec<[Completion<&Instance>; 4]> = requests
            .into_iter()
            .map(|request| Completion::of(instance, request))
            .collect();
        let mut result = Ok(());
        for end in ends {
            let ended = end.await;
            result = result.and(ended.map(drop));
        }
        result
    }

    fn job_done(&self, rank: u32) {
        self.to(&mut self.origin().lock(), rank).jobs -= 1;
        self.communicator().instance().engine().note_event();
    }

    /// Waits until no task has anything under way to a rank.
    pub(super) async fn jobs_done(&self, rank: u32) {
        poll_fn(|_| {
            let mut origin = self.origin().lock();
            match origin.outbox.get_mut(rank) {
                Some(to) if to.jobs != 0 => Poll::Pending,
                _ => Poll::Ready(()),
            }
        })
        .await;
    }

    #[inline]
    pub(super) fn limits(&self) -> &Limits {
        self.limits
            .get_or_init(|| Limits::of(self.communicator().instance().engine().post_max()))
    }

    /// Unlocks the origin's state, starts the tasks that were begun meanwhile, and gives up the requests of operations that could not be
    /// started. Both may lead back to that state.
    pub(super) fn release(&self, mut origin: MutexGuard<'_, Origin>) {
        if origin.begun.is_empty() && origin.given_up.is_empty() {
            return;
        }
        let (begun, given_up) = (
            std::mem::take(&mut origin.begun),
            std::mem::take(&mut origin.given_up),
        );
        drop(origin);
        let instance: &Instance = self.communicator().instance();
        for job in begun {
            let request = instance.spawn(job);
            instance.engine().release(request);
        }
        for (request, told) in given_up {
            drop(Completion::of(instance, request));
            drop(told);
        }
    }
}
