//! Which part of an operation goes in which message, and those that take several: a task sends them.

use std::collections::VecDeque;
use std::sync::Arc;

use super::super::access::{Action, Pending, Place};
use super::super::message::{ALIGN, Head};
use super::super::outbox::{POSTS, REPLIES};
use super::super::runs::{self, Groups};
use super::super::{Origin, Window};
use super::UnderWay;
use crate::base::error::Result;
use crate::engine::request::{Outcome, RequestId};
use crate::lane::LONGER_BY;

/// So many operations of a task may be under way.
const AT_ONCE: usize = 16;
/// From so many bytes on an accumulate goes in pieces whose data are messages of their own, of so many bytes at most, few at once: the target has
/// room for them. What a system copies at once costs it less.
const COMBINED_FROM: u64 = 512 << 10;
const COMBINED: u64 = 512 << 10;
const COMBINED_AT_ONCE: usize = 2;
/// One of so many of those that return nothing is acknowledged, and the last.
const ACKNOWLEDGED: u64 = 8;
/// The most bytes of each of these, where they are messages of their own.
const LONG: u64 = 1 << 20;

/// A part of an operation: what one message has room for.
pub(super) struct Piece {
    /// The first packed byte.
    pub(super) start: u64,
    /// How many.
    pub(super) bytes: u64,
    /// Where they are at the target.
    pub(super) groups: Groups,
}

impl Piece {
    /// Bytes of its operation without the data.
    fn head_bytes(&self) -> usize {
        Head::BYTES + self.groups.iter().map(runs::len_in_message).sum::<usize>()
    }
}

/// Whether an operation combines elements, in their order.
pub(super) fn accumulates(action: &Action) -> bool {
    matches!(action, Action::Accumulate(..) | Action::GetAccumulate(..))
}

/// Whether data of a piece that may be sent from where it is goes in the same message.
pub(super) fn is_one_message(place: &Place, piece: &Piece) -> bool {
    piece.bytes <= place.in_place && piece.head_bytes() <= LONGER_BY
}

/// Whether the data of so much of an accumulate is a message of its own.
pub(super) fn is_combined_apart(action: &Action, place: &Place, bytes: u64) -> bool {
    let from = COMBINED_FROM.min(16 * place.in_place);
    matches!(action, Action::Accumulate(..))
        && place.in_place != 0
        && place.len() >= from
        && bytes > place.in_place
}

/// How much data each of these messages has: of an accumulate that is not much longer, there are two, so that one is combined while the next
/// one comes.
fn combined_apart(place: &Place) -> u64 {
    let most = COMBINED.min(8 * place.in_place);
    place.len().div_ceil(2).next_multiple_of(ALIGN as u64).min(most)
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

impl Window {
    /// An operation as one piece, if it can be one.
    pub(super) fn whole(&self, action: &Action, place: &Place) -> Option<Piece> {
        let most = match action {
            Action::Put(_) | Action::Get(_) => u64::MAX,
            Action::CompareAndSwap(..) => u64::MAX,
            Action::Accumulate(..) | Action::GetAccumulate(..) => self.most_combined(action, place),
        };
        let piece = cut(place, 0, most, self.limits().groups);
        let is_whole = piece.bytes == place.len() && self.fits(action, place, &piece);
        is_whole.then_some(piece)
    }

    /// The most data of a piece of an accumulate.
    fn most_combined(&self, action: &Action, place: &Place) -> u64 {
        let combined = self.limits().combined;
        let is_run = match action {
            Action::Accumulate(memory, _) | Action::GetAccumulate(memory, ..) => {
                memory.contiguous().is_some()
            }
            _ => false,
        };
        match is_run {
            true => combined.max(place.in_place),
            false => combined,
        }
    }

    /// Whether a piece of an accumulate can be sent.
    fn fits(&self, action: &Action, place: &Place, piece: &Piece) -> bool {
        !accumulates(action)
            || piece.bytes <= self.limits().combined
            || is_one_message(place, piece)
            || is_combined_apart(action, place, piece.bytes)
    }

    /// Has a task send an operation, behind those that it has been given before. Its request ends with it.
    pub(super) fn queue(
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
                let many = to.replies.len() + to.leaving.len() >= REPLIES && next.is_some();
                let ends = many.then(|| {
                    let mut ends = std::mem::take(&mut to.replies);
                    ends.append(&mut to.leaving);
                    ends
                });
                (next, full, ends)
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
                let asked_at = self.to(&mut self.origin().lock(), rank).posted;
                let asked = self.ask_for_errors(rank, false).await;
                self.to(&mut self.origin().lock(), rank).are_answered(asked_at);
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
        let mut origin = self.origin().lock();
        let asks = self.asks_after(&mut origin, place.rank, action, piece.bytes);
        // SAFETY: the caller's promises.
        let issued = unsafe { self.issue(&mut origin, action, place, piece, false) };
        let noted = issued.map(|issued| {
            let long = self.is_long(action, place, piece);
            let to = self.to(&mut origin, place.rank);
            let gets = !matches!(action, Action::Put(_) | Action::Accumulate(..));
            if gets {
                to.answered = to.batches();
            }
            to.unanswered |= issued.replies.is_empty() || !gets || asks;
            to.long |= long;
            to.replies.extend(issued.replies);
            to.leaving.extend(issued.leaving);
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
        let apart = is_combined_apart(action, place, place.len());
        let (most, at_once) = match (accumulates, apart) {
            (true, true) => (combined_apart(place), COMBINED_AT_ONCE),
            (true, false) => (self.most_combined(action, place), AT_ONCE),
            (false, _) => (LONG, AT_ONCE),
        };
        let mut under_way: VecDeque<UnderWay> = VecDeque::new();
        let mut result = Ok(());
        let (mut from, mut number, mut posted) = (0, 0, 0);
        while from < place.len() && result.is_ok() {
            if under_way.len() == at_once {
                let oldest = under_way.pop_front().expect("there are some");
                result = self.end_all(oldest).await;
                continue;
            }
            let mut piece = cut(place, from, most, limits.groups);
            if !self.fits(action, place, &piece) {
                piece = cut(place, from, limits.combined, limits.groups);
            }
            from += piece.bytes;
            number += 1;
            let acknowledge = !accumulates || apart || from == place.len() || number % ACKNOWLEDGED == 0;
            let mut origin = self.origin().lock();
            // SAFETY: the caller's promises.
            let issued = unsafe { self.issue(&mut origin, action, place, &piece, acknowledge) };
            let issued = issued.and_then(|issued| match self.post_batch(&mut origin, place.rank) {
                Ok(()) => {
                    posted = self.to(&mut origin, place.rank).posted;
                    under_way.push_back(issued);
                    Ok(())
                }
                Err(error) => {
                    origin
                        .given_up
                        .extend(issued.into_iter().map(|reply| (reply, None)));
                    Err(error)
                }
            });
            self.release(origin);
            result = issued;
        }
        // Also after an error: they have the user's memory.
        for issued in under_way {
            let ended = self.end_all(issued).await;
            result = result.and(ended);
        }
        let mut origin = self.origin().lock();
        let asks = self.asks_after(&mut origin, place.rank, action, place.len());
        let to = self.to(&mut origin, place.rank);
        match result {
            // The last one is answered.
            Ok(()) => to.are_answered(posted),
            Err(_) => to.unanswered = true,
        }
        to.unanswered |= asks;
        result
    }
}
