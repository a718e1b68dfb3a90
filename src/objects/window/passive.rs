//! Passive target communication (MPI 5.0 section 12.5.3): locks, and what completes operations while they are held.
//!
//! Where all processes of a window share memory, a lock is words in that memory ([`super::ticket`]). Elsewhere the target keeps a queue of
//! those who ask ([`super::queue`]), and a request for a lock is an operation as others: it goes out in one message with the operations
//! that follow it and the unlock. Only where a process accesses the target's memory by itself does it wait for the lock at once.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task::Poll;

use smallvec::SmallVec;

use super::epoch::Lock;
use super::members::Way;
use super::message::{Code, EXCLUSIVE, Head};
use super::outbox::LOCK;
use super::{Origin, Window};
use crate::base::error::Result;
use crate::data::memory::Memory;
use crate::engine::request::RequestId;

/// Bytes of the message in which a target tells of an error.
const TOLD: usize = 256;
/// Room for that.
pub(super) type Told = Box<[u8; TOLD]>;

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
            false => self.settle(&pending, true).await,
        };
        if taken.is_ok() {
            taken = self.take_locks(exclusive, &[rank], !pending.is_empty()).await;
        }
        if taken.is_err() {
            self.origin().lock().epochs.unlock(rank);
        }
        taken
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
        self.take_turn();
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
        self.take_turn();
        ended
    }

    /// `MPI_Win_flush`, without a rank `MPI_Win_flush_all`: all operations are complete here and at the target.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: no lock is held there. What has become of the operations.
    pub async fn flush(self: &Arc<Self>, rank: Option<u32>) -> Result<()> {
        match self.flush_now(rank)? {
            true => Ok(()),
            false => self.complete_at(rank, true).await,
        }
    }

    /// `MPI_Win_flush_local`, without a rank `MPI_Win_flush_local_all`: all operations are complete here.
    ///
    /// # Errors
    /// As for [`Window::flush`].
    pub async fn flush_local(self: &Arc<Self>, rank: Option<u32>) -> Result<()> {
        match self.flush_now(rank)? {
            true => Ok(()),
            false => self.complete_at(rank, false).await,
        }
    }

    /// `MPI_Win_sync`: orders this process's accesses to its own memory with those by others.
    pub fn sync(&self) {
        fence(Ordering::SeqCst);
        // A program that waits for others like this gives them no other call to make progress in.
        self.communicator().instance().step();
    }

    async fn complete_at(self: &Arc<Self>, rank: Option<u32>, there: bool) -> Result<()> {
        fence(Ordering::SeqCst);
        let ranks = match rank {
            Some(rank) => vec![rank],
            None => self.origin().lock().outbox.ranks(),
        };
        self.settle(&ranks, there).await
    }

    /// Completes what is under way to these ranks; `there`: at the targets too.
    pub(super) async fn settle(&self, ranks: &[u32], there: bool) -> Result<()> {
        let mut result = Ok(());
        // What tasks wait for has to be on its way.
        for &rank in ranks {
            let mut origin = self.origin().lock();
            if origin.outbox.get_mut(rank).is_some_and(|to| to.jobs != 0) {
                let posted = self.post_batch(&mut origin, rank);
                result = result.and(posted);
            }
        }
        let mut answers: Vec<(RequestId, Told)> = Vec::new();
        let mut requests: Vec<RequestId> = Vec::new();
        let mut requested: SmallVec<[RequestId; 2]> = SmallVec::new();
        let turn = self.origin().lock().outbox.begin_settling(ranks);
        for &rank in ranks {
            self.jobs_done(rank).await;
            let mut origin = self.origin().lock();
            let Some(to) = origin.outbox.get_mut(rank) else {
                continue;
            };
            requests.extend(to.replies.drain(..));
            requested.append(&mut to.requested);
            to.long = false;
            to.posted = 0;
            let asks = to.unanswered && (there || to.unanswered_gets) || to.lock_pending && there;
            if !asks {
                let posted = self.post_batch(&mut origin, rank);
                result = result.and(posted);
            } else {
                to.unanswered = false;
                to.unanswered_gets = false;
                to.lock_pending = false;
                match self.ask(&mut origin, rank, Head::of(Code::Flush, 0)) {
                    Ok(answer) => answers.push(answer),
                    Err(error) => result = result.and(Err(error)),
                }
            }
            self.release(origin);
        }
        let ended = self.all_answered(requests, &requested, answers).await;
        result = result.and(ended);
        self.settled(ranks, turn).await;
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

    /// Another thread may wait for operations of this one: waits until it has what it began to wait for before.
    async fn settled(&self, ranks: &[u32], turn: u64) {
        self.origin().lock().outbox.end_settling(ranks, turn);
        self.communicator().instance().engine().note_event();
        poll_fn(
            |_| match self.origin().lock().outbox.settles_before(ranks, turn) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            },
        )
        .await;
    }

    /// Sends an operation that the target acknowledges, with what is in the batch.
    fn ask(&self, origin: &mut Origin, rank: u32, head: Head) -> Result<(RequestId, Told)> {
        let tag = origin.outbox.new_tag();
        let mut told = Box::new([0; TOLD]);
        // SAFETY: `told` is on the heap, and goes with the request, whose end is waited for before it is dropped.
        let request = unsafe { self.hear(rank, tag, Memory::of_mut(&mut told[..])) }?.expect("a receive");
        let head = Head {
            tag: tag as u32,
            ..head
        };
        let sent = self
            .append(origin, rank, head, &[], |_, _| ())
            .and_then(|()| self.post_batch(origin, rank));
        if let Err(error) = sent {
            // Not while the origin's state is locked.
            origin.given_up.push((request, Some(told)));
            return Err(error);
        }
        Ok((request, told))
    }

    /// Asks a target for errors of operations before.
    pub(super) async fn ask_for_errors(&self, rank: u32) -> Result<()> {
        let asked = {
            let mut origin = self.origin().lock();
            let asked = self.ask(&mut origin, rank, Head::of(Code::Flush, 0));
            self.release(origin);
            asked
        };
        let (request, told) = asked?;
        self.answered(request, told).await
    }

    /// Waits for the acknowledgement: it has no bytes, or an error of the target.
    async fn answered(&self, request: RequestId, told: Told) -> Result<()> {
        let instance = &**self.communicator().instance();
        let outcome = crate::instance::Completion::of(instance, request).await?;
        match outcome.bytes {
            0 => Ok(()),
            bytes => Err(super::target::error_of(&told[..(bytes as usize).min(TOLD)])),
        }
    }

    /// Whether locks are words in shared memory.
    pub(super) fn locks_by_words(&self) -> bool {
        self.members().all_here()
    }

    /// Whether a target is accessed by messages only. The program accesses its own memory by itself, and what is shared.
    fn is_far(&self, rank: u32) -> bool {
        let members = self.members();
        let has_segment = || {
            members
                .segments()
                .is_some_and(|segments| segments.segment(rank).is_some())
        };
        rank != self.communicator().rank() && members.way(rank) == Way::Messages && !has_segment()
    }

    /// Takes the locks of these ranks; by messages, those of ranks that are far with the first operation there, unless it is to be `now`.
    async fn take_locks(self: &Arc<Self>, exclusive: bool, ranks: &[u32], now: bool) -> Result<()> {
        if self.locks_by_words() {
            return self.take_words(exclusive, ranks).await;
        }
        let mut answers = Vec::new();
        let mut result = Ok(());
        {
            let mut origin = self.origin().lock();
            for &rank in ranks {
                let mut head = Head::of(Code::Lock, 0);
                head.flags = if exclusive { EXCLUSIVE } else { 0 };
                let later = self.is_far(rank) && !now;
                let asked = match later {
                    true => self.append(&mut origin, rank, head, &[], |_, _| ()),
                    false => self
                        .ask(&mut origin, rank, head)
                        .map(|answer| answers.push(answer)),
                };
                if asked.is_ok() {
                    let to = self.to(&mut origin, rank);
                    (to.locked, to.lock_pending) = (true, later);
                }
                result = result.and(asked);
            }
            self.release(origin);
        }
        for (request, told) in answers {
            let answered = self.answered(request, told).await;
            result = result.and(answered);
        }
        result
    }

    /// Before an operation while all are locked: asks for the lock of a target where that has not been done.
    pub(super) fn ensure_lock(&self, origin: &mut Origin, rank: u32) -> Result<()> {
        if self.locks_by_words() || origin.epochs.locked_all() != Ok(false) || self.to(origin, rank).locked {
            return Ok(());
        }
        self.append(origin, rank, Head::of(Code::Lock, 0), &[], |_, _| ())?;
        self.to(origin, rank).locked = true;
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
                to.is_some_and(|to| to.long || to.jobs != 0 || !to.locked)
            })
        };
        let mut result = self.unlock_by_messages(&quick).await;
        if !slow.is_empty() {
            let settled = self.settle(&slow, true).await;
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
                to.posted = 0;
                to.unanswered = false;
                to.unanswered_gets = false;
                requests.extend(to.replies.drain(..));
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
            let failed = origin.failed.is_some();
            let mut is_busy =
                |rank: u32| failed || origin.outbox.get_mut(rank).is_some_and(|to| !to.is_idle());
            ranks.iter().copied().filter(|&rank| is_busy(rank)).collect()
        };
        match busy.is_empty() {
            true => Ok(()),
            false => self.settle(&busy, true).await,
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
