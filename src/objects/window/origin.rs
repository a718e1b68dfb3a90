//! Operations by messages, at the process that starts them. What the target makes of them is in `target`.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use smallvec::SmallVec;

use super::access::{Action, Pending, Place};
use super::message::{self, ACKNOWLEDGE, Code, Head};
use super::outbox::{POSTS, REPLIES, ToTarget, of_data};
use super::runs::{self, Groups};
use super::{Origin, Window};
use crate::base::error::Result;
use crate::data::datatype::Runs;
use crate::data::memory::Memory;
use crate::data::op::Op;
use crate::engine::Received;
use crate::engine::request::{Outcome, RequestId};
use crate::err;
use crate::instance::{Completion, Instance};
use crate::system::lock::MutexGuard;

/// The most bytes of a batch, and of data that a put has with it, and the most groups of runs of one. Longer data is a message of its own,
/// or several operations.
const BATCH: usize = 64 << 10;
const SHORT: usize = 8 << 10;
const GROUPS: usize = 128;
/// So many requests of the user's are remembered before it is looked which of them have ended.
const REQUESTED: usize = 64;
/// So many operations of a task may be under way.
const AT_ONCE: usize = 16;
/// The most bytes of each of these, where they are messages of their own.
const LONG: u64 = 1 << 20;

/// How long messages may be.
#[derive(Debug)]
pub struct Limits {
    batch: usize,
    short: u64,
    /// The most data of an accumulate, all of which is in batches.
    combined: u64,
    groups: usize,
}

impl Limits {
    /// Where a message has so many bytes at most.
    fn of(most: usize) -> Limits {
        let batch = most.min(BATCH);
        // With one group, at least, it fits in a message.
        let room = batch.saturating_sub(Head::BYTES + runs::GROUP_BYTES_MAX);
        let combined = (batch / 4 * 3).min(room) / message::ALIGN * message::ALIGN;
        let short = (batch / 2).min(SHORT).next_multiple_of(message::ALIGN);
        let left = batch.saturating_sub(combined + Head::BYTES + message::ALIGN);
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

/// A part of an operation: what one message has room for.
struct Piece {
    /// The first packed byte.
    start: u64,
    /// How many.
    bytes: u64,
    /// Where they are at the target.
    groups: Groups,
}

/// Whether all data of an operation is in batches.
fn accumulates(action: &Action) -> bool {
    matches!(action, Action::Accumulate(..) | Action::GetAccumulate(..))
}

/// The part of an operation from a packed byte on, of at most so many bytes and groups.
fn cut(place: &Place, start: u64, most: u64, groups: usize) -> Piece {
    let mut found = Groups::new();
    let most = most.min(place.len() - start);
    let bytes = place.access().piece(start, most, groups, &mut found);
    Piece {
        start,
        bytes,
        groups: found,
    }
}

/// What a piece of an operation has under way.
type Replies = SmallVec<[RequestId; 2]>;

impl Window {
    /// Starts an operation by messages. `None`: no request was asked for.
    ///
    /// # Safety
    /// As for the operation.
    pub(super) unsafe fn by_messages(
        self: &Arc<Self>,
        origin: &mut Origin,
        action: Action,
        place: Place,
        request: bool,
    ) -> Result<Option<RequestId>> {
        let rank = place.rank;
        self.ensure_lock(origin, rank)?;
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
        // SAFETY: the caller's promises.
        let replies = unsafe { self.issue(origin, &action, &place, &piece, false) }?;
        let gets = !matches!(action, Action::Put(_) | Action::Accumulate(..));
        let asks = self.asks_always();
        let long = piece.bytes > self.limits().short && !accumulates(&action);
        let to = self.to(origin, rank);
        if !request {
            // A first one that is waited for is not kept back, and none that is checked: with what comes later it may go unnoticed.
            let alone = to.replies.is_empty() && !replies.is_empty() || self.members().are_checked();
            to.long |= long;
            to.unanswered |= replies.is_empty() || !gets || asks;
            to.replies.extend(replies);
            if alone {
                self.post_batch(origin, rank)?;
            }
            return Ok(None);
        }
        to.unanswered = true;
        to.unanswered_gets |= gets;
        if replies.is_empty() {
            return Ok(Some(self.ended_request()));
        }
        self.post_batch(origin, rank)?;
        if replies.len() == 1 && !long && !self.may_fail_there() {
            let requested = &mut self.to(origin, rank).requested;
            if requested.len() == REQUESTED {
                let engine = self.communicator().instance().engine();
                requested.retain(|request| engine.is_complete(*request) == Some(false));
            }
            requested.push(replies[0]);
            return Ok(Some(replies[0]));
        }
        self.to(origin, rank).jobs += 1;
        let (window, done) = (self.clone(), self.new_request());
        origin.begun.push(Box::pin(async move {
            let mut ended = window.end_all(replies).await;
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

    /// Whether a target has to be asked also after operations that it answers. Where locks are in shared memory, giving one back does not
    /// tell it anything, and a lane may still have the memory that an answer was sent from.
    pub(super) fn asks_always(&self) -> bool {
        self.may_fail_there() || self.locks_by_words()
    }

    /// An operation as one piece, if it can be one.
    fn whole(&self, action: &Action, place: &Place) -> Option<Piece> {
        let most = match action {
            Action::Put(_) | Action::Get(_) => u64::MAX,
            Action::CompareAndSwap(..) => u64::MAX,
            Action::Accumulate(..) | Action::GetAccumulate(..) => self.limits().combined,
        };
        let piece = cut(place, 0, most, self.limits().groups);
        (piece.bytes == place.len()).then_some(piece)
    }

    /// Has a task send an operation, behind those that it has been given before. Its request ends with it.
    fn queue(
        self: &Arc<Self>,
        origin: &mut Origin,
        action: Action,
        place: Place,
        request: bool,
    ) -> Option<RequestId> {
        let rank = place.rank;
        let done = request.then(|| self.new_request());
        let pending = Pending { action, place, done };
        let to = self.to(origin, rank);
        if let Some(waiting) = &mut to.waiting {
            waiting.push_back(pending);
            return done;
        }
        to.waiting = Some(VecDeque::from([pending]));
        to.jobs += 1;
        let window = self.clone();
        // It begins when the origin's state is free: this call has it.
        let sends = Box::pin(async move {
            window.send_waiting(rank).await;
            Ok(Outcome::EMPTY)
        });
        origin.begun.push(sends);
        done
    }

    /// Sends what waits for a rank, in order.
    async fn send_waiting(self: &Arc<Self>, rank: u32) {
        loop {
            let (next, full, replies) = {
                let mut origin = self.origin().lock();
                let to = self.to(&mut origin, rank);
                let next = to.waiting.as_mut().and_then(VecDeque::pop_front);
                if next.is_none() {
                    to.waiting = None;
                }
                let full = to.posted >= POSTS && next.is_some();
                let many = to.replies.len() >= REPLIES && next.is_some();
                (next, full, many.then(|| std::mem::take(&mut to.replies)))
            };
            let Some(Pending { action, place, done }) = next else {
                break;
            };
            let mut result = Ok(());
            if let Some(replies) = replies {
                // They may be asked for in the batch.
                let posted = self.post_batch(&mut self.origin().lock(), rank);
                let ended = self.end_all(replies).await;
                result = posted.and(ended);
            }
            if full {
                let asked = self.ask_for_errors(rank, false).await;
                self.to(&mut self.origin().lock(), rank).posted = 0;
                result = result.and(asked);
            }
            let whole = self.whole(&action, &place).filter(|_| done.is_none());
            let sent = match whole {
                // SAFETY: whoever started the operation has promised it.
                Some(piece) => unsafe { self.send_whole(&action, &place, &piece) },
                // SAFETY: as above.
                None => unsafe { self.send_in_pieces(&action, &place).await },
            };
            if let Some(done) = done {
                let told = match self.may_fail_there() {
                    true => self.ask_for_errors(rank, true).await,
                    false => Ok(()),
                };
                self.end_request(done, sent.and(told));
            } else {
                result = result.and(sent);
            }
            if let Err(error) = result {
                self.origin().lock().failed.get_or_insert(error);
            }
        }
        self.job_done(rank);
    }

    /// Sends an operation that has waited, and need not be answered by itself.
    ///
    /// # Safety
    /// As for the operation.
    unsafe fn send_whole(&self, action: &Action, place: &Place, piece: &Piece) -> Result<()> {
        let asks = self.asks_always();
        let mut origin = self.origin().lock();
        // SAFETY: the caller's promises.
        let issued = unsafe { self.issue(&mut origin, action, place, piece, false) };
        let noted = issued.map(|replies| {
            let to = self.to(&mut origin, place.rank);
            let gets = !matches!(action, Action::Put(_) | Action::Accumulate(..));
            to.unanswered |= replies.is_empty() || !gets || asks;
            to.long |= piece.bytes > self.limits().short && !accumulates(action);
            to.replies.extend(replies);
        });
        self.release(origin);
        noted
    }

    /// Sends an operation in pieces, and waits until all of them have been answered.
    ///
    /// # Safety
    /// As for the operation.
    async unsafe fn send_in_pieces(&self, action: &Action, place: &Place) -> Result<()> {
        let accumulates = accumulates(action);
        let limits = self.limits();
        let most = if accumulates { limits.combined } else { LONG };
        let mut under_way: VecDeque<Replies> = VecDeque::new();
        let mut result = Ok(());
        let mut from = 0;
        while from < place.len() && result.is_ok() {
            if under_way.len() == AT_ONCE {
                let oldest = under_way.pop_front().expect("there are some");
                result = self.end_all(oldest).await;
                continue;
            }
            let piece = cut(place, from, most, limits.groups);
            from += piece.bytes;
            let mut origin = self.origin().lock();
            // SAFETY: the caller's promises.
            let issued = unsafe { self.issue(&mut origin, action, place, &piece, true) };
            let issued = issued.and_then(|replies| match self.post_batch(&mut origin, place.rank) {
                Ok(()) => {
                    under_way.push_back(replies);
                    Ok(())
                }
                Err(error) => {
                    origin
                        .given_up
                        .extend(replies.into_iter().map(|reply| (reply, None)));
                    Err(error)
                }
            });
            self.release(origin);
            result = issued;
        }
        if self.asks_always() {
            self.to(&mut self.origin().lock(), place.rank).unanswered = true;
        }
        // Also after an error: they have the user's memory.
        for replies in under_way {
            let ended = self.end_all(replies).await;
            result = result.and(ended);
        }
        result
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
    ) -> Result<Replies> {
        let mut replies = Replies::new();
        let (from, bytes) = (piece.start, piece.bytes);
        let mut head = Head::of(Code::Put, 0);
        let mut data: SmallVec<[Memory; 2]> = SmallVec::new();
        let mut follows = None;
        let combines = |head: &mut Head, op: &Op| {
            head.op = op.handle() as u8;
            head.datatype = place.component.map_or(0, |component| component.handle() as u16);
        };
        let result = match action {
            Action::Put(memory) if bytes <= self.limits().short => {
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
            // SAFETY: the result is the operation's until it ends; `Replies` are waited for.
            replies.extend(unsafe { self.hear(place.rank, tag, result) }?);
        }
        head.data = data.iter().map(|part| part.len() as u32).sum();
        let appended = self.append(origin, place.rank, head, &piece.groups, |into| {
            // SAFETY: the caller says that it is readable.
            data.iter().for_each(|part| unsafe { message::pack(part, into) });
        });
        if let Err(error) = appended {
            origin
                .given_up
                .extend(replies.into_iter().map(|reply| (reply, None)));
            return Err(error);
        }
        let phase = origin.outbox.phase;
        self.to(origin, place.rank).sent[phase] += 1;
        if let Some(memory) = follows {
            let sent = self.post_batch(origin, place.rank).and_then(|()| {
                // SAFETY: it is the operation's until it ends; `Replies` are waited for.
                unsafe {
                    self.communicator()
                        .send(place.rank, of_data(head.tag as i32), memory, false, true)
                }
            });
            match sent {
                Ok(sending) => replies.extend(sending),
                Err(error) => {
                    origin
                        .given_up
                        .extend(replies.into_iter().map(|reply| (reply, None)));
                    return Err(error);
                }
            }
        }
        Ok(replies)
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

    /// Sends the batch for a rank.
    pub(super) fn post_batch(&self, origin: &mut Origin, rank: u32) -> Result<()> {
        let phase = origin.outbox.phase as u64;
        let to = self.to(origin, rank);
        if to.batch.is_empty() {
            return Ok(());
        }
        let communicator = self.communicator();
        let arg = u64::from(communicator.rank()) | phase << 32;
        let posted =
            communicator
                .instance()
                .engine()
                .post(to.peer, communicator.context(), arg, &mut to.batch);
        // Not so after an error.
        to.batch.clear();
        to.posted += 1;
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
