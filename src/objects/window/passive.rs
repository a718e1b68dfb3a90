//! Passive target communication (MPI 5.0 section 12.5.3): locks, and what completes operations while they are held.
//!
//! Where all processes of a window share memory, a lock is words in that memory ([`super::ticket`]). Elsewhere the target keeps a queue of
//! those who ask ([`super::queue`]), and a request for a lock is an operation as others: it goes out in one message with the operations
//! that follow it and the unlock. Only where a process accesses the target's memory by itself does it wait for the lock at once; and with
//! `WEFT_WINDOWS=rdma` where its lane may, as otherwise that would have to wait for a flush.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task::Poll;

use smallvec::SmallVec;

use super::epoch::Lock;
use super::members::Way;
use super::message::{Code, EXCLUSIVE, FETCHED, FLUSHED, HOLDS_OTHERS, Head};
use super::outbox::LOCK;
use super::remote::UnderWay;
use super::{Origin, Window};
use crate::base::error::Result;
use crate::data::memory::Memory;
use crate::engine::request::RequestId;

/// Bytes of the message in which a target tells of an error.
const TOLD: usize = 256;
/// Room for that.
pub(super) type Told = Box<[u8; TOLD]>;

/// What completes operations that are under way to a target.
#[derive(Default)]
struct Settling {
    /// As in [`super::outbox::ToTarget`].
    replies: SmallVec<[RequestId; 4]>,
    /// Likewise.
    requested: SmallVec<[RequestId; 2]>,
    /// The target's acknowledgement.
    answer: Option<(RequestId, Told)>,
    /// What goes there by a lane's one-sided operations.
    by_lane: Option<UnderWay>,
    /// The answers also tell that its lock is granted.
    grants: bool,
}

/// What has to be over when operations are completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// They are complete at this process.
    Here,
    /// And at their targets.
    There,
    /// Their epoch ends; the targets learn otherwise when it does.
    Epoch,
}

impl Window {
    /// `MPI_Win_lock`.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: an epoch is open that does not allow it; the target's error, if it is lost.
    pub async fn lock(self: &Arc<Self>, exclusive: bool, rank: u32, unchecked: bool) -> Result<()> {
        let lock = Lock { exclusive, unchecked };
        self.origin().lock().epochs.lock(rank, lock)?;
        if unchecked {
            return Ok(());
        }
        // Whoever locks several targets in an order that avoids deadlocks has to have each before the next.
        let pending = self.origin().lock().outbox.pending_locks(rank);
        let mut taken = match pending.is_empty() {
            true => Ok(()),
            false => self.settle(&pending, Until::There).await,
        };
        if taken.is_ok() {
            taken = self.take_locks(exclusive, &[rank], !pending.is_empty()).await;
        }
        if taken.is_err() {
            self.origin().lock().epochs.unlock(rank);
        }
        taken
    }

    /// The first step of [`Window::lock`] for a call that blocks: takes a lock that is in shared memory, if it becomes free within a while.
    pub fn lock_soon(&self, exclusive: bool, rank: u32) -> bool {
        if self.lock_quickly(rank, exclusive) {
            return true;
        }
        let members = self.members();
        let may_lock = || self.origin().lock().epochs.may_lock(rank);
        // Who has the lock may ask this process for something.
        let serves = || {
            self.serve_mailboxes();
        };
        if !members.all_here() || !may_lock() || !members.look_for_lock(rank, exclusive, serves) {
            return false;
        }
        let lock = Lock {
            exclusive,
            unchecked: false,
        };
        // Another thread may have locked the rank meanwhile; then this has been wrong.
        let begun = self.origin().lock().epochs.lock(rank, lock);
        if begun.is_err() {
            members.unlock(rank, exclusive);
        }
        begun.is_ok()
    }

    /// `MPI_Win_lock_all`. By messages, a target is locked with the first operation there.
    ///
    /// # Errors
    /// As for [`Window::lock`].
    pub async fn lock_all(self: &Arc<Self>, unchecked: bool) -> Result<()> {
        self.origin().lock().epochs.lock_all(unchecked)?;
        if unchecked {
            return Ok(());
        }
        let ranks: Vec<u32> = (0..self.communicator().size())
            .filter(|&rank| self.locks_by_words() || !self.is_far(rank))
            .collect();
        let taken = self.take_locks(false, &ranks, false).await;
        if taken.is_err() {
            if !self.locks_by_words() {
                // Those that were granted. What is wrong is known.
                let _ = self.give_locks_back(false, false, &ranks).await;
            }
            self.origin().lock().epochs.unlock_all();
        }
        taken
    }

    /// `MPI_Win_unlock`: all operations are complete here and at the target.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: it is not locked. What has become of the operations; the lock has been given back nevertheless.
    pub async fn unlock(self: &Arc<Self>, rank: u32) -> Result<()> {
        if self.unlock_now(rank)? {
            return Ok(());
        }
        let lock = self.origin().lock().epochs.locked(rank)?;
        let ended = self
            .give_locks_back(lock.exclusive, lock.unchecked, &[rank])
            .await;
        self.origin().lock().epochs.unlock(rank);
        self.take_turn(false);
        ended
    }

    /// `MPI_Win_unlock_all`.
    ///
    /// # Errors
    /// As for [`Window::unlock`].
    pub async fn unlock_all(self: &Arc<Self>) -> Result<()> {
        let unchecked = self.origin().lock().epochs.locked_all()?;
        let ranks: Vec<u32> = match self.locks_by_words() {
            true => (0..self.communicator().size()).collect(),
            false => self.origin().lock().outbox.ranks(),
        };
        let ended = self.give_locks_back(false, unchecked, &ranks).await;
        self.origin().lock().epochs.unlock_all();
        self.take_turn(false);
        ended
    }

    /// `MPI_Win_flush`, without a rank `MPI_Win_flush_all`: all operations are complete here and at the target.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: no lock is held there. What has become of the operations.
    #[cfg(feature = "sim")]
    pub async fn flush(self: &Arc<Self>, rank: Option<u32>) -> Result<()> {
        match self.flush_now(rank, Until::There)? {
            true => Ok(()),
            false => self.complete_at(rank, Until::There).await,
        }
    }

    /// `MPI_Win_flush_local`, without a rank `MPI_Win_flush_local_all`: all operations are complete here.
    ///
    /// # Errors
    /// As for [`Window::flush`].
    #[cfg(feature = "sim")]
    pub async fn flush_local(self: &Arc<Self>, rank: Option<u32>) -> Result<()> {
        match self.flush_now(rank, Until::Here)? {
            true => Ok(()),
            false => self.complete_at(rank, Until::Here).await,
        }
    }

    /// `MPI_Win_sync`: orders this process's accesses to its own memory with those by others.
    pub fn sync(&self) {
        fence(Ordering::SeqCst);
        // A program that waits for others like this gives them no other call to make progress in.
        self.communicator().instance().step();
    }

    /// `MPI_Win_flush` or `MPI_Win_flush_local`, where [`Window::flush_now`] has said that something is under way.
    ///
    /// # Errors
    /// What has become of the operations.
    pub async fn complete_at(self: &Arc<Self>, rank: Option<u32>, until: Until) -> Result<()> {
        fence(Ordering::SeqCst);
        if let Some(rank) = rank {
            return self.settle_rank(rank, until).await;
        }
        let ranks = self.origin().lock().outbox.ranks();
        self.settle(&ranks, until).await
    }

    /// As [`Window::settle`], of one rank.
    async fn settle_rank(&self, rank: u32, until: Until) -> Result<()> {
        match self.settle_one(rank, until).await {
            Some(result) => result,
            None => self.settle(&[rank], until).await,
        }
    }

    /// As [`Window::settle_rank`], where no task has anything under way there and no other thread waits. `None`: one does, and
    /// nothing was done.
    async fn settle_one(&self, rank: u32, until: Until) -> Option<Result<()>> {
        let (turn, settling, mut result) = {
            let mut origin = self.origin().lock();
            let to = origin.outbox.get_mut(rank)?;
            if to.jobs != 0 || !to.requested.is_empty() || to.is_waited_for() || !to.is_idle_by_lane() {
                return None;
            }
            let turn = origin.outbox.begin_settling(rank);
            let (settling, result) = self.begin_to_settle(&mut origin, rank, until);
            self.release(origin);
            (turn, settling, result)
        };
        if !settling.replies.is_empty() {
            let ended = self.end_all(settling.replies).await;
            result = result.and(ended);
        }
        // Another thread may have begun some meanwhile.
        self.requested_done(&settling.requested).await;
        if let Some((request, told)) = settling.answer {
            let answered = self.answered(request, told).await;
            result = result.and(answered);
        }
        let mut has_jobs = false;
        let failed = {
            let mut origin = self.origin().lock();
            if settling.grants && result.is_ok() {
                self.to(&mut origin, rank).is_granted();
            }
            origin.outbox.end_settling(rank, turn);
            let to = origin.outbox.get_mut(rank)?;
            if to.is_waited_for() {
                self.communicator().instance().engine().note_event();
            }
            match to.jobs {
                0 => origin.failed.take().map_or(Ok(()), Err),
                _ => {
                    has_jobs = true;
                    Ok(())
                }
            }
        };
        result = result.and(failed);
        if has_jobs {
            // The kernel has copied nothing any more, so tasks send it.
            let settled = self.settle(&[rank], until).await;
            result = result.and(settled);
        }
        Some(result)
    }

    /// Sends what has not been sent to a rank, and asks it for what no answer tells of. What has to be waited for then.
    fn begin_to_settle(&self, origin: &mut Origin, rank: u32, until: Until) -> (Settling, Result<()>) {
        // A target that finds errors is asked for them; one that looks for conflicts has to know what is complete.
        let there = until == Until::There || self.may_fail_there() && until == Until::Epoch;
        let there = there || self.members().are_checked();
        let mut head = Head::of(Code::Flush, 0);
        head.flags = match until {
            Until::Here => FETCHED,
            Until::There => FLUSHED,
            Until::Epoch => 0,
        };
        let copied = self.copy_collected(origin, rank);
        let Some(to) = origin.outbox.get_mut(rank) else {
            return (Settling::default(), copied);
        };
        let mut settling = Settling {
            replies: std::mem::take(&mut to.replies),
            requested: std::mem::take(&mut to.requested),
            answer: None,
            by_lane: to.direct.as_mut().and_then(|direct| direct.take()),
            grants: false,
        };
        let long = std::mem::take(&mut to.long);
        let asks = to.unanswered && (there || to.unanswered_gets) || to.lock_pending && there;
        let mut batches = std::mem::take(&mut to.answered);
        if until != Until::Here {
            batches = batches.max(to.acknowledged);
            settling.replies.append(&mut to.acknowledgements);
        }
        // What is long may only have to leave this process; the ends of all else come from the target.
        let is_answered = asks || !long && !settling.replies.is_empty();
        settling.replies.append(&mut to.leaving);
        // Nothing is answered before.
        settling.grants = to.locked && !to.granted && is_answered;
        let sent = match asks {
            false => self.post_batch(origin, rank),
            true => {
                // Those that a target has to know to be complete are still to be told of.
                to.unanswered = until == Until::Here && self.members().are_checked();
                to.unanswered_gets = false;
                to.lock_pending = false;
                self.ask(origin, rank, head)
                    .map(|answer| settling.answer = Some(answer))
            }
        };
        // An answer comes behind the batches before it.
        let to = self.to(origin, rank);
        to.are_answered(if asks { u32::MAX } else { batches });
        if until == Until::Epoch {
            // None is needed: they are done before the next one begins there.
            to.posted = 0;
        }
        // When all of that has been waited for.
        to.in_flight &= until != Until::There;
        (settling, copied.and(sent))
    }

    /// Completes what is under way to these ranks.
    pub(super) async fn settle(&self, ranks: &[u32], until: Until) -> Result<()> {
        let mut result = Ok(());
        // What tasks wait for has to be on its way.
        for &rank in ranks {
            let mut origin = self.origin().lock();
            let copied = self.copy_collected(&mut origin, rank);
            result = result.and(copied);
            if origin.outbox.get_mut(rank).is_some_and(|to| to.jobs != 0) {
                let posted = self.post_batch(&mut origin, rank);
                result = result.and(posted);
            }
            self.release(origin);
        }
        let mut answers: Vec<(RequestId, Told)> = Vec::new();
        let mut requests: Vec<RequestId> = Vec::new();
        let mut requested: SmallVec<[RequestId; 2]> = SmallVec::new();
        let (mut by_lane, mut granted) = (Vec::new(), Vec::new());
        let mut turns: SmallVec<[(u32, u64); 4]> = SmallVec::new();
        for &rank in ranks {
            self.jobs_done(rank).await;
            let mut origin = self.origin().lock();
            // Together with what it is for: another thread that takes some of that before has an earlier turn.
            turns.push((rank, origin.outbox.begin_settling(rank)));
            let (settling, begun) = self.begin_to_settle(&mut origin, rank, until);
            self.release(origin);
            result = result.and(begun);
            requests.extend(settling.replies);
            requested.extend(settling.requested);
            answers.extend(settling.answer);
            by_lane.extend(settling.by_lane);
            granted.extend(settling.grants.then_some(rank));
        }
        let ended = self.all_answered(requests, &requested, answers).await;
        if ended.is_ok() && !granted.is_empty() {
            let mut origin = self.origin().lock();
            granted
                .into_iter()
                .for_each(|rank| self.to(&mut origin, rank).is_granted());
        }
        result = result.and(ended);
        for under_way in by_lane {
            let ended = under_way.ended().await;
            result = result.and(ended);
        }
        self.settled(&turns).await;
        match self.origin().lock().failed.take() {
            Some(error) => result.and(Err(error)),
            None => result,
        }
    }

    /// Waits for what operations have under way, for requests of the user's, and for acknowledgements.
    async fn all_answered(
        &self,
        requests: Vec<RequestId>,
        requested: &[RequestId],
        answers: Vec<(RequestId, Told)>,
    ) -> Result<()> {
        let mut result = self.end_all(requests).await;
        self.requested_done(requested).await;
        for (request, told) in answers {
            let answered = self.answered(request, told).await;
            result = result.and(answered);
        }
        result
    }

    /// Another thread may wait for operations of this one: waits until it has what it began to wait for before. This thread's turns end first, as
    /// the other one may wait for it likewise, at another rank.
    async fn settled(&self, turns: &[(u32, u64)]) {
        {
            let mut origin = self.origin().lock();
            for &(rank, turn) in turns {
                origin.outbox.end_settling(rank, turn);
                self.to(&mut origin, rank).watchers += 1;
            }
        }
        self.communicator().instance().engine().note_event();
        poll_fn(|_| {
            let origin = self.origin().lock();
            let waits = |&(rank, turn): &(u32, u64)| origin.outbox.settles_before(rank, turn);
            match turns.iter().any(waits) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        })
        .await;
        let mut origin = self.origin().lock();
        for &(rank, _) in turns {
            self.to(&mut origin, rank).watchers -= 1;
        }
    }

    /// Sends an operation that the target acknowledges, with what is in the batch.
    pub(super) fn ask(&self, origin: &mut Origin, rank: u32, head: Head) -> Result<(RequestId, Told)> {
        let tag = origin.outbox.new_tag();
        let mut told = origin.told.take().unwrap_or_else(|| Box::new([0; TOLD]));
        // SAFETY: `told` is on the heap, and goes with the request, whose end is waited for before it is dropped.
        let request = unsafe { self.hear(rank, tag, Memory::of_mut(&mut told[..])) }?.expect("a receive");
        let head = Head {
            tag: tag as u32,
            ..head
        };
        let sent = self
            .append(origin, rank, head, &[], |_| ())
            .and_then(|()| self.post_batch(origin, rank));
        if let Err(error) = sent {
            // Not while the origin's state is locked.
            origin.given_up.push((request, Some(told)));
            return Err(error);
        }
        Ok((request, told))
    }

    /// Asks a target for errors of operations before; `fetched`: what these have fetched is complete then for the user.
    pub(super) async fn ask_for_errors(&self, rank: u32, fetched: bool) -> Result<()> {
        let mut head = Head::of(Code::Flush, 0);
        head.flags = if fetched { FETCHED } else { 0 };
        let asked = {
            let mut origin = self.origin().lock();
            let asked = self.ask(&mut origin, rank, head);
            self.release(origin);
            asked
        };
        let (request, told) = asked?;
        self.answered(request, told).await
    }

    /// Waits for the acknowledgement: it has no bytes, or an error of the target.
    pub(super) async fn answered(&self, request: RequestId, told: Told) -> Result<()> {
        let instance = &**self.communicator().instance();
        let outcome = crate::instance::Completion::of(instance, request).await?;
        let result = match outcome.bytes {
            0 => Ok(()),
            bytes => Err(super::target::error_of(&told[..(bytes as usize).min(TOLD)])),
        };
        self.origin().lock().told = Some(told);
        result
    }

    /// Whether locks are words in shared memory.
    pub(super) fn locks_by_words(&self) -> bool {
        self.members().all_here()
    }

    /// Whether the first operations on a target go by messages. The program accesses its own memory by itself, and what is shared.
    fn is_far(&self, rank: u32) -> bool {
        let members = self.members();
        let has_segment = || {
            members
                .segments()
                .is_some_and(|segments| segments.segment(rank).is_some())
        };
        let by_messages = match members.way(rank) {
            Way::Messages => true,
            // The first operations go by messages, and the lock with them.
            Way::Remote => members.remote().is_none_or(|remote| !remote.forced()),
            Way::Mapped(_) | Way::Attach { .. } => false,
        };
        // Operations that are checked go out at once, and with the first one of many locks, in any order, its lock.
        rank != self.communicator().rank() && by_messages && !has_segment() && !members.are_checked()
    }

    /// Takes the locks of these ranks; by messages, those of ranks that are far with the first operation there, unless it is to be `now`.
    async fn take_locks(self: &Arc<Self>, exclusive: bool, ranks: &[u32], now: bool) -> Result<()> {
        if self.locks_by_words() {
            return self.take_words(exclusive, ranks).await;
        }
        let mut result = Ok(());
        // One after the other: others may hold one of these locks alone, and wait for the next one.
        for &rank in ranks {
            let mut head = Head::of(Code::Lock, 0);
            head.flags = match (exclusive, rank == ranks[0]) {
                (true, _) => EXCLUSIVE,
                (false, true) => 0,
                (false, false) => HOLDS_OTHERS,
            };
            let later = self.is_far(rank) && !now;
            let asked = {
                let mut origin = self.origin().lock();
                let asked = match later {
                    true => self.append(&mut origin, rank, head, &[], |_| ()).map(|()| None),
                    false => self.ask(&mut origin, rank, head).map(Some),
                };
                if asked.is_ok() {
                    let to = self.to(&mut origin, rank);
                    (to.locked, to.lock_pending) = (true, later);
                }
                self.release(origin);
                asked
            };
            let taken = match asked {
                Ok(Some((request, told))) => self.answered(request, told).await,
                Ok(None) => continue,
                Err(error) => Err(error),
            };
            if taken.is_ok() {
                self.to(&mut self.origin().lock(), rank).is_granted();
            }
            result = result.and(taken);
        }
        result
    }

    /// Before an operation while all are locked: asks for the lock of a target where that has not been done.
    pub(super) fn ensure_lock(&self, origin: &mut Origin, rank: u32) -> Result<()> {
        if self.locks_by_words() || origin.epochs.locked_all() != Ok(false) || self.to(origin, rank).locked {
            return Ok(());
        }
        let mut head = Head::of(Code::Lock, 0);
        head.flags = match origin.outbox.holds_any_lock() {
            true => HOLDS_OTHERS,
            false => 0,
        };
        self.append(origin, rank, head, &[], |_| ())?;
        let to = self.to(origin, rank);
        (to.locked, to.granted) = (true, false);
        Ok(())
    }

    /// Completes all operations to these ranks and gives their locks back.
    async fn give_locks_back(
        self: &Arc<Self>,
        exclusive: bool,
        unchecked: bool,
        ranks: &[u32],
    ) -> Result<()> {
        fence(Ordering::SeqCst);
        if unchecked || self.locks_by_words() {
            let settled = self.settle_if_busy(ranks).await;
            if !unchecked {
                self.give_words_back(exclusive, ranks);
            }
            return settled;
        }
        // Those for which an acknowledgement of the unlock would come too early are unlocked when the others have been: somebody may wait
        // for one of these locks, and this process for him.
        let (slow, quick): (Vec<u32>, Vec<u32>) = {
            let mut origin = self.origin().lock();
            ranks.iter().partition(|&&rank| {
                let to = origin.outbox.get_mut(rank);
                to.is_some_and(|to| {
                    to.long || to.jobs != 0 || !to.locked || to.has_collected() || !to.is_idle_by_lane()
                })
            })
        };
        let mut result = self.unlock_by_messages(&quick).await;
        if !slow.is_empty() {
            let settled = self.settle(&slow, Until::There).await;
            let unlocked = self.unlock_by_messages(&slow).await;
            result = result.and(settled).and(unlocked);
        }
        match self.origin().lock().failed.take() {
            Some(error) => result.and(Err(error)),
            None => result,
        }
    }

    /// Gives the locks of these ranks back that were asked for by messages.
    async fn unlock_by_messages(&self, ranks: &[u32]) -> Result<()> {
        let mut result = Ok(());
        let mut answers = Vec::new();
        let mut requests: Vec<RequestId> = Vec::new();
        let mut requested: SmallVec<[RequestId; 2]> = SmallVec::new();
        {
            let mut origin = self.origin().lock();
            for &rank in ranks {
                let Some(to) = origin.outbox.get_mut(rank).filter(|to| to.locked) else {
                    continue;
                };
                to.locked = false;
                to.lock_pending = false;
                to.granted = false;
                to.are_answered(u32::MAX);
                to.unanswered = false;
                to.unanswered_gets = false;
                requests.extend(to.replies.drain(..));
                requests.extend(to.acknowledgements.drain(..));
                requests.extend(to.leaving.drain(..));
                requested.append(&mut to.requested);
                match self.ask(&mut origin, rank, Head::of(Code::Unlock, 0)) {
                    Ok(answer) => answers.push(answer),
                    Err(error) => result = result.and(Err(error)),
                }
            }
            self.release(origin);
        }
        let ended = self.all_answered(requests, &requested, answers).await;
        result.and(ended)
    }

    /// As [`Window::settle`], without anything to do where nothing is under way.
    async fn settle_if_busy(&self, ranks: &[u32]) -> Result<()> {
        let busy: Vec<u32> = {
            let mut origin = self.origin().lock();
            let mut busy: Vec<u32> = Vec::new();
            for &rank in ranks {
                let ended = self.complete_now(&mut origin, rank, Until::There);
                if let Err(error) = ended {
                    origin.failed.get_or_insert(error);
                }
                if origin.failed.is_some() || origin.outbox.get_mut(rank).is_some_and(|to| !to.is_idle()) {
                    busy.push(rank);
                }
            }
            busy
        };
        match busy[..] {
            [] => Ok(()),
            [rank] => self.settle_rank(rank, Until::There).await,
            _ => self.settle(&busy, Until::There).await,
        }
    }

    /// Takes locks in shared memory.
    async fn take_words(&self, exclusive: bool, ranks: &[u32]) -> Result<()> {
        for (taken, &rank) in ranks.iter().enumerate() {
            if let Err(error) = self.members().lock(rank, exclusive, LOCK).await {
                self.give_words_back(exclusive, &ranks[..taken]);
                return Err(error);
            }
        }
        Ok(())
    }

    fn give_words_back(&self, exclusive: bool, ranks: &[u32]) {
        for &rank in ranks {
            self.members().unlock(rank, exclusive);
        }
    }
}
