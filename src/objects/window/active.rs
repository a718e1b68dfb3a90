//! Active target communication (MPI 5.0 sections 12.5.1 and 12.5.2): fences, and epochs among groups.
//!
//! A fence tells each process how many operations of others it has to expect, and waits for these: by a reduce-scatter of what each has sent to
//! whom, or where the processes are few (two), by a message to each, with which the operations go that have not been sent yet. So operations need no
//! acknowledgements. A process that has left a fence may send operations of the next phase while another
//! one still waits for some of the last: these wait at the target, which knows them by their phase, of which there are never more than two.
//! Where a process may also access another one's memory by itself, or by its lane, nobody leaves a fence before all have come so far.
//!
//! The epochs of groups are opened and ended by small messages in the window's context, which arrive after the operations that were sent
//! before them, or with them.
//!
//! Where all are on one host, no messages say this, but words in the memory that they share: how many fences each process has come to, how many
//! operations each has sent to each other one before, how often each has posted to another one, and how often that one has completed. Whoever waits
//! for such a word sees what was stored before it was raised. Where every process sees the memory of all others, nothing else need order the
//! operations. Elsewhere short ones are done by [`mailbox`](super::mailbox) if their target is in a call of MPI, and if none went by messages before a
//! fence, nobody has to wait a second time.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task::Poll;

use smallvec::SmallVec;

use super::epoch::Ranks;
use super::message::{Code, Head};
use super::outbox::{COMPLETE, FENCE, LAST, POST};
use super::passive::Until;
use super::segments::Segments;
use super::target::Ended;
use super::{Origin, Window};
use crate::base::error::Result;
use crate::data::memory::Memory;
use crate::engine::Received;
use crate::engine::dispatch::Behind;
use crate::engine::request::RequestId;
use crate::err;
use crate::objects::collective;
use crate::objects::communicator::sharers::Awaited;
use crate::objects::group::Group;

/// Assertions of a fence that change what it does, with the numbers of the standard ABI (section 12.5.5).
mod assertion {
    /// `MPI_MODE_NOPRECEDE`
    pub const NO_PRECEDE: i32 = 2048;
    /// `MPI_MODE_NOSUCCEED`
    pub const NO_SUCCEED: i32 = 16384;
}

/// An epoch that ends at so many processes at most asks each to do what is short.
const ASKED: usize = 8;
/// So many processes at most tell each other of a fence directly. Among more, a reduce-scatter takes fewer messages.
pub(super) const FEW: u32 = 2;

/// What those sleep for who wait for a process's fences: no ticket of a lock.
const FENCES: u32 = 1 << 30;
/// The same for what it does in the epochs of groups.
const GROUPS: u32 = 2 << 30;

impl Window {
    /// The words by which processes wait for each other, where all are on one host.
    fn words(&self) -> Option<&Segments> {
        let members = self.members();
        let segments = members.segments().filter(|_| members.all_here());
        segments.map(|segments| &**segments)
    }

    /// Those of fences, where the processes are few.
    fn words_of_fences(&self) -> Option<&Segments> {
        self.words().filter(|words| words.sent(0, 0, 0).is_some())
    }

    /// Those of the epochs of groups, likewise.
    fn words_of_groups(&self) -> Option<&Segments> {
        self.words().filter(|words| words.pair(0, 0).is_some())
    }

    /// Whether the waits of [`Window::fence`] are in place, for a blocking call.
    pub fn fences_in_place(&self) -> bool {
        self.members().all_mapped() && self.words_of_fences().is_some()
    }

    /// Whether those of the epochs of groups are.
    pub fn groups_in_place(&self) -> bool {
        self.members().all_mapped() && self.words_of_groups().is_some()
    }

    /// Waits until all processes have come to the same point as this one, which is the next one.
    async fn meet_by_words(&self, words: &Segments) -> Result<()> {
        let sharers = words.sharers();
        let control = |place: u32| {
            words
                .control(sharers.who().ranks[place as usize])
                .expect("all are here")
        };
        let mine = control(sharers.mine()).fences();
        // Only this process changes it.
        let fences = mine.load(Ordering::Relaxed) + 1;
        mine.store(fences, Ordering::Release);
        sharers.wake(FENCES | sharers.mine());
        let mut result = Ok(());
        for place in (0..sharers.size()).filter(|&place| place != sharers.mine()) {
            let control = control(place);
            if control.fences().load(Ordering::Acquire) >= fences {
                continue;
            }
            let awaited = Awaited {
                at: control.place_of_fences(),
                least: fences,
                sleeps_for: FENCES | place,
                by: place,
                tag: FENCE,
            };
            result = result.and(sharers.wait(awaited).await);
        }
        result
    }

    /// A fence by words where operations may go by messages: says how many, waits for all processes, and if there were any, for these and for all
    /// processes once more. `counts`: there may have been some.
    async fn count_by_words(self: &Arc<Self>, words: &Segments, counts: bool) -> Result<()> {
        let (places, mine) = (words.sharers().size(), words.sharers().mine());
        let own = words.own_control();
        // Each fence has two points.
        let fence = own.fences().load(Ordering::Relaxed) / 2;
        let sent = |from, to| words.sent(from, to, fence).expect("they are few");
        let mut total = 0;
        {
            let mut origin = self.origin().lock();
            let phase = origin.outbox.phase;
            for (place, &rank) in (0..).zip(&words.sharers().who().ranks) {
                let to = origin.outbox.get_mut(rank).filter(|_| counts);
                let number = to.map_or(0, |to| to.sent[phase]);
                sent(mine, place).store(number, Ordering::Relaxed);
                total += number;
            }
        }
        own.sent(fence).store(total, Ordering::Relaxed);
        let met = self.meet_by_words(words).await;
        // A process writes there again only at the fence after the next one.
        let any = words
            .controls()
            .any(|control| control.sent(fence).load(Ordering::Relaxed) != 0);
        if met.is_ok() && !any {
            self.origin().lock().outbox.all_done(None);
            // Nobody waits for that.
            own.fences().store(2 * fence + 2, Ordering::Release);
            return Ok(());
        }
        let expected = (0..places)
            .map(|place| sent(place, mine).load(Ordering::Relaxed))
            .sum();
        self.origin().lock().outbox.next_phase();
        let arrived = match met {
            Ok(()) => self.wait_for_arrivals(expected).await.map(drop),
            Err(error) => Err(error),
        };
        self.end_phase(&arrived);
        // A process that has failed still takes part.
        let met = self.meet_by_words(words).await;
        if arrived.is_ok() && met.is_ok() {
            self.origin().lock().outbox.all_done(None);
        }
        arrived.and(met)
    }

    /// `MPI_Win_fence`.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: an epoch is open that a fence does not end. What has become of the operations.
    pub async fn fence(self: &Arc<Self>, assert: i32) -> Result<()> {
        self.origin().lock().epochs.may_fence()?;
        let succeeds = assert & assertion::NO_SUCCEED == 0;
        let words = self.words_of_fences();
        if let Some(words) = words.filter(|_| self.members().all_mapped()) {
            let fenced = self.meet_by_words(words).await;
            self.origin().lock().epochs.fenced(succeeds);
            self.take_turn(false);
            return fenced;
        }
        fence(Ordering::SeqCst);
        let precedes = assert & assertion::NO_PRECEDE == 0;
        let mut result = Ok(());
        let few = self.communicator().size() <= FEW;
        if precedes {
            result = self.settle_epoch(None, few && words.is_none()).await;
        }
        // A process that has failed still takes part, so that the others do not wait for it.
        let fenced = match (words, precedes && self.may_use_messages()) {
            (Some(words), counts) => self.count_by_words(words, counts).await,
            (None, true) if few => self.all_arrived_of_few().await,
            (None, true) => self.all_arrived().await,
            (None, false) => collective::barrier(&self.communicator().collective()).await,
        };
        fence(Ordering::SeqCst);
        self.origin().lock().epochs.fenced(succeeds);
        result.and(fenced)
    }

    /// Waits for all operations of others in this phase, and begins the next.
    async fn all_arrived(self: &Arc<Self>) -> Result<()> {
        let communicator = self.communicator();
        let sent = {
            let mut origin = self.origin().lock();
            let phase = origin.outbox.phase;
            let sent: Vec<u64> = (0..communicator.size())
                .map(|rank| {
                    let to = origin.outbox.get_mut(rank);
                    to.map_or(0, |to| to.sent[phase])
                })
                .collect();
            origin.outbox.next_phase();
            sent
        };
        let arrived = match collective::sum_of_each(&communicator.collective(), sent).await {
            Ok(expected) => self.wait_for_arrivals(expected).await.map(drop),
            Err(error) => Err(error),
        };
        self.end_phase(&arrived);
        arrived?;
        // Where all go by messages, one of the next phase waits until its target has come so far; other accesses don't.
        if self.members().are_apart() {
            return Ok(());
        }
        collective::barrier(&communicator.collective()).await?;
        self.origin().lock().outbox.all_done(None);
        Ok(())
    }

    /// The same among few processes. Each tells each other one, behind the operations that it has not sent to it yet, that it has come so far, and,
    /// if it has sent any operations to anyone, how many to this one.
    async fn all_arrived_of_few(self: &Arc<Self>) -> Result<()> {
        let communicator = self.communicator();
        let (mine, size) = (communicator.rank(), communicator.size());
        let operation = communicator.collective();
        let others = (1..size).map(|distance| (mine + distance) % size);
        let mut sends: SmallVec<[_; FEW as usize]> = SmallVec::new();
        let (mut result, own, any) = {
            let mut origin = self.origin().lock();
            let phase = origin.outbox.phase;
            let sent_to =
                |origin: &mut Origin, rank| origin.outbox.get_mut(rank).map_or(0, |to| to.sent[phase]);
            let any = (0..size).any(|rank| sent_to(&mut origin, rank) != 0);
            let own = sent_to(&mut origin, mine);
            let mut result = self.post_batch(&mut origin, mine);
            for rank in others.clone() {
                let told = match any {
                    true => {
                        let number = sent_to(&mut origin, rank);
                        self.count_behind(&mut origin, rank, number, operation.tag())
                    }
                    false => Ok(false),
                };
                let has_gone = *told.as_ref().unwrap_or(&false);
                result = result.and(told.map(drop));
                if !has_gone {
                    // Who waits for it hears of it, also after an error. SAFETY: it has no memory.
                    sends.push(unsafe { operation.send(rank, Memory::empty()) });
                }
            }
            origin.outbox.next_phase();
            self.release(origin);
            (result, own, any)
        };
        for rank in others {
            // SAFETY: it has no memory.
            let come = unsafe { operation.receive_now(rank, Memory::empty()) }.await;
            result = result.and(come.map(drop));
        }
        for send in sends {
            let sent = send.await;
            result = result.and(sent.map(drop));
        }
        let arrived = match result {
            Ok(()) => self.wait_for_arrivals(own).await,
            Err(error) => Err(error),
        };
        let arrived = arrived.map(|ended| ended.counted || any);
        self.end_phase(&arrived);
        // As in `all_arrived`, but where no operation goes by messages, all of which each has said, nobody waits for any.
        if arrived? && !self.members().are_apart() {
            collective::barrier(&communicator.collective()).await?;
        }
        if !self.members().are_apart() {
            self.origin().lock().outbox.all_done(None);
        }
        Ok(())
    }

    /// Sends the operations to a rank that have not been sent yet, how many there are in this phase, and if possible the message of a fence. Returns
    /// whether that was.
    fn count_behind(&self, origin: &mut Origin, rank: u32, number: u64, tag: i32) -> Result<bool> {
        let head = Head {
            data: size_of_val(&number) as u32,
            ..Head::of(Code::Count, 0)
        };
        self.append(origin, rank, head, &[], |batch| {
            batch.extend(number.to_le_bytes())
        })?;
        let behind = Behind {
            tag,
            collective: true,
        };
        let posted = self.post_with(origin, rank, Some(behind));
        // They are done before any of the next phase, and need no answer.
        self.to(origin, rank).posted = 0;
        posted
    }

    /// What became of the wait for the operations of a phase.
    fn end_phase<T>(&self, arrived: &Result<T>) {
        if arrived.is_err() {
            // Others may be in either phase from now on.
            let mut engine = self.communicator().instance().engine();
            self.give_up_phases(&mut engine.outlet());
        }
    }

    /// Completes what is under way to these ranks, or all, at the end of an epoch: what is short and has not been sent is done at once where that
    /// can be. `later`: what has not been sent may be sent with what the caller tells the target.
    async fn settle_epoch(self: &Arc<Self>, ranks: Option<&[u32]>, later: bool) -> Result<()> {
        let later = later && !self.may_fail_there();
        let busy: Vec<u32> = {
            let mut origin = self.origin().lock();
            let all = ranks.is_none().then(|| origin.outbox.ranks());
            let ranks = ranks.or(all.as_deref()).unwrap_or_default();
            for &rank in ranks.iter().filter(|_| ranks.len() <= ASKED) {
                if let Err(error) = self.complete_now(&mut origin, rank, Until::Epoch) {
                    origin.failed.get_or_insert(error);
                }
            }
            let failed = origin.failed.is_some();
            let mut is_busy = |rank| {
                let to = origin.outbox.get_mut(rank);
                failed || to.is_some_and(|to| !(to.is_idle() || later && to.needs_no_wait()))
            };
            ranks.iter().copied().filter(|&rank| is_busy(rank)).collect()
        };
        match busy[..] {
            [] => Ok(()),
            _ => self.settle(&busy, Until::Epoch).await,
        }
    }

    /// Waits until so many operations of all processes have been done in this phase, and begins the next.
    async fn wait_for_arrivals(self: &Arc<Self>, expected: u64) -> Result<Ended> {
        let communicator = self.communicator();
        let group = communicator.group();
        poll_fn(|_| {
            let mut engine = communicator.instance().engine();
            if let Some(ended) = self.next_phase(&mut engine.outlet(), expected) {
                if ended.ahead {
                    // It may have to be answered, and the program need not call MPI again soon.
                    engine.progress(false);
                }
                return Poll::Ready(Ok(ended));
            }
            match group.iter().find_map(|process| engine.loss_of(process)) {
                Some(error) => Poll::Ready(Err(error.clone())),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Whether any operation of the window may go by messages.
    fn may_use_messages(&self) -> bool {
        !self.members().all_mapped()
    }

    /// Words have been raised; if this process is one of those that wait for them (`own`), another thread may sleep.
    fn wakes_itself(&self, own: bool) {
        if own {
            self.communicator().instance().engine().note_event();
        }
    }

    /// `MPI_Win_post`: the processes of a group may access this one's memory.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: an epoch is open that does not allow it; `MPI_ERR_GROUP`: the group has others than the window's processes.
    pub fn post(&self, group: &Group, unchecked: bool) -> Result<()> {
        let ranks = self.ranks_of(group)?;
        let mut origin = self.origin().lock();
        origin.epochs.post()?;
        if let Some(words) = self.words_of_groups() {
            fence(Ordering::SeqCst);
            let own = ranks.contains(&self.communicator().rank());
            post_by_words(words, &mut origin, ranks);
            drop(origin);
            self.wakes_itself(own);
            return Ok(());
        }
        fence(Ordering::SeqCst);
        let mut result = Ok(());
        for &rank in &ranks {
            // SAFETY: it has no memory.
            let receive = unsafe {
                self.communicator()
                    .receive(Some(rank), Some(COMPLETE), Memory::empty())
            };
            let posted = receive.and_then(|received| {
                if let Received::Later(request) = received {
                    origin.exposed.push(request);
                }
                match unchecked {
                    true => Ok(()),
                    false => self.tell(rank, POST),
                }
            });
            result = result.and(posted);
        }
        result
    }

    /// `MPI_Win_start`: this process accesses the memory of the processes of a group. It waits for their `MPI_Win_post`.
    ///
    /// # Errors
    /// As for [`Window::post`]; the error of a process that is lost.
    pub async fn start_epoch(self: &Arc<Self>, group: &Group, unchecked: bool) -> Result<()> {
        let ranks = self.ranks_of(group)?;
        self.origin().lock().epochs.start(ranks.iter().copied())?;
        let mut result = Ok(());
        if let Some(words) = self.words_of_groups() {
            let waits: &[u32] = if unchecked { &[] } else { &ranks };
            for &rank in waits {
                let posted = wait_for_post(words, rank).await;
                if posted.is_ok() {
                    // It has ended the last epoch, and with it what this process had sent.
                    self.origin().lock().outbox.all_done(Some(rank));
                }
                result = result.and(posted);
            }
            if result.is_err() {
                // As below.
                let _ = self.origin().lock().epochs.complete();
                ranks.iter().for_each(|&rank| complete_by_words(words, rank));
            }
            fence(Ordering::SeqCst);
            return result;
        }
        if !unchecked {
            let mut posts: Vec<RequestId> = Vec::with_capacity(ranks.len());
            for &rank in &ranks {
                // SAFETY: it has no memory.
                match unsafe {
                    self.communicator()
                        .receive(Some(rank), Some(POST), Memory::empty())
                } {
                    Ok(Received::Later(request)) => posts.push(request),
                    Ok(Received::Now(_)) => {}
                    Err(error) => result = result.and(Err(error)),
                }
            }
            let posted = self.end_all(posts).await;
            result = result.and(posted);
        }
        fence(Ordering::SeqCst);
        if result.is_err() {
            // The epoch has not begun; those who wait for its end have posted theirs.
            let _ = self.origin().lock().epochs.complete();
            for &rank in &ranks {
                let _ = self.tell(rank, COMPLETE);
            }
        }
        result
    }

    /// `MPI_Win_complete`: the operations of the epoch are complete here, and will be at their targets before they leave theirs.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: there is no epoch. What has become of the operations.
    pub async fn complete(self: &Arc<Self>) -> Result<()> {
        let ranks = self.origin().lock().epochs.complete()?;
        let words = self.words_of_groups();
        let mut result = Ok(());
        if !self.members().all_mapped() {
            fence(Ordering::SeqCst);
            result = self.settle_epoch(Some(&ranks), true).await;
        }
        for &rank in &ranks {
            let sent = {
                let mut origin = self.origin().lock();
                let to = origin.outbox.get_mut(rank);
                to.is_some_and(|to| to.told || !to.batch.is_empty())
            };
            // Behind what was sent.
            let told = match words {
                None => self.tell_behind(rank, COMPLETE),
                Some(_) if !sent => Ok(()),
                Some(words) => {
                    tell_by_words(words, rank);
                    self.tell_behind(rank, LAST)
                }
            };
            result = result.and(told);
            if let Some(to) = self.origin().lock().outbox.get_mut(rank) {
                // The next epoch begins there when they are done.
                (to.told, to.posted) = (false, 0);
            }
            if let Some(words) = words {
                complete_by_words(words, rank);
            }
        }
        if words.is_some() {
            self.wakes_itself(ranks.contains(&self.communicator().rank()));
        }
        result
    }

    /// `MPI_Win_wait`: all operations of the others in this exposure epoch are complete.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: there is no epoch; the error of a process that is lost.
    pub async fn wait(self: &Arc<Self>) -> Result<()> {
        let (completes, exposed_to) = {
            let mut origin = self.origin().lock();
            origin.epochs.may_wait("MPI_Win_wait")?;
            (
                std::mem::take(&mut origin.exposed),
                std::mem::take(&mut origin.exposed_to),
            )
        };
        let (mut completes, mut result) = (completes, Ok(()));
        if let Some(words) = self.words_of_groups() {
            for &rank in &exposed_to {
                let completed = wait_for_completion(words, rank).await;
                result = result.and(completed);
            }
            if self.members().all_mapped() {
                self.origin().lock().epochs.waited();
                self.take_turn(false);
                return result;
            }
            let told = self.hear_of_completion(words, &exposed_to, &mut completes);
            result = result.and(told);
        }
        let ended = result.and(self.end_all(completes).await);
        // Those who have completed have what they got; a lane may still have the memory.
        poll_fn(|_| match self.has_no_tasks() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        self.served().lock().end_accesses();
        self.origin().lock().epochs.waited();
        fence(Ordering::SeqCst);
        ended
    }

    /// `MPI_Win_test`: whether [`Window::wait`] would return at once; if so, it has been done.
    ///
    /// # Errors
    /// As there.
    pub fn test(self: &Arc<Self>) -> Result<bool> {
        self.origin().lock().epochs.may_wait("MPI_Win_test")?;
        let instance = self.communicator().instance();
        instance.step();
        let mut origin = self.origin().lock();
        if let Some(words) = self.words_of_groups() {
            if !origin.exposed_to.iter().all(|&rank| has_completed(words, rank)) {
                return Ok(false);
            }
            let exposed_to = std::mem::take(&mut origin.exposed_to);
            if self.members().all_mapped() {
                origin.epochs.waited();
                return Ok(true);
            }
            self.hear_of_completion(words, &exposed_to, &mut origin.exposed)?;
        }
        let mut engine = instance.engine();
        let has_ended = |&request: &RequestId| engine.is_complete(request) != Some(false);
        if !origin.exposed.iter().all(has_ended) || !self.has_no_tasks() {
            return Ok(false);
        }
        let outcomes = std::mem::take(&mut origin.exposed)
            .into_iter()
            .filter_map(|request| engine.take(request));
        let failed = outcomes
            .filter_map(|outcome| outcome.error)
            .fold(None, |first, error| first.or(Some(error)));
        drop(engine);
        self.served().lock().end_accesses();
        origin.epochs.waited();
        fence(Ordering::SeqCst);
        match failed {
            Some(error) => Err(*error),
            None => Ok(true),
        }
    }

    /// Starts the receives of the messages of those of these ranks, all of which have completed, that have sent one behind their operations.
    fn hear_of_completion(
        &self,
        words: &Segments,
        ranks: &[u32],
        requests: &mut Vec<RequestId>,
    ) -> Result<()> {
        let mut result = Ok(());
        for &rank in ranks.iter().filter(|&&rank| has_told(words, rank)) {
            // SAFETY: it has no memory.
            let receive = unsafe {
                self.communicator()
                    .receive(Some(rank), Some(LAST), Memory::empty())
            };
            match receive {
                Ok(Received::Later(request)) => requests.push(request),
                Ok(Received::Now(_)) => {}
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    /// The ranks of a group's processes in the window.
    fn ranks_of(&self, group: &Group) -> Result<Ranks> {
        let members = self.communicator().group();
        let rank = |(at, process)| {
            members.rank_of(process).ok_or_else(|| {
                err!(
                    Group,
                    "process {at} of the group does not belong to the window's group"
                )
            })
        };
        group.iter().enumerate().map(rank).collect()
    }
}

/// Counts that this process exposes its memory to these ranks.
fn post_by_words(words: &Segments, origin: &mut Origin, ranks: Ranks) {
    let mine = words.sharers().mine();
    for &rank in &ranks {
        let posted = words.pair(mine, rank).expect("they have words").posted();
        // Only this process changes it.
        posted.store(posted.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
    words.sharers().wake(GROUPS | mine);
    origin.exposed_to = ranks;
}

/// Counts that this process has ended its epoch at a rank.
fn complete_by_words(words: &Segments, rank: u32) {
    let mine = words.sharers().mine();
    let completed = words.pair(rank, mine).expect("they have words").completed();
    // Only this process changes it.
    completed.store(completed.load(Ordering::Relaxed) + 1, Ordering::Release);
    words.sharers().wake(GROUPS | mine);
}

/// Says that a message comes, too, when this process is about to count that.
fn tell_by_words(words: &Segments, rank: u32) {
    let pair = words.pair(rank, words.sharers().mine()).expect("they have words");
    let next = pair.completed().load(Ordering::Relaxed) + 1;
    // Who waits sees it when the count is raised.
    pair.told().store(next, Ordering::Relaxed);
}

/// Whether a rank has sent a message about the last time that it has completed.
fn has_told(words: &Segments, rank: u32) -> bool {
    let pair = words.pair(words.sharers().mine(), rank).expect("they have words");
    let completed = pair.completed().load(Ordering::Acquire);
    completed != 0 && pair.told().load(Ordering::Relaxed) == completed
}

/// Waits until a rank has posted once more than this process has completed.
async fn wait_for_post(words: &Segments, rank: u32) -> Result<()> {
    let sharers = words.sharers();
    let pair = words.pair(rank, sharers.mine()).expect("they have words");
    let least = pair.completed().load(Ordering::Relaxed) + 1;
    if pair.posted().load(Ordering::Acquire) >= least {
        return Ok(());
    }
    let awaited = Awaited {
        at: pair.places()[0],
        least,
        sleeps_for: GROUPS | rank,
        by: rank,
        tag: POST,
    };
    sharers.wait(awaited).await
}

/// Whether a rank has completed as often as this process has posted to it.
fn has_completed(words: &Segments, rank: u32) -> bool {
    let pair = words.pair(words.sharers().mine(), rank).expect("they have words");
    pair.completed().load(Ordering::Acquire) >= pair.posted().load(Ordering::Relaxed)
}

/// Waits for that.
async fn wait_for_completion(words: &Segments, rank: u32) -> Result<()> {
    if has_completed(words, rank) {
        return Ok(());
    }
    let sharers = words.sharers();
    let pair = words.pair(sharers.mine(), rank).expect("they have words");
    let awaited = Awaited {
        at: pair.places()[1],
        least: pair.posted().load(Ordering::Relaxed),
        sleeps_for: GROUPS | rank,
        by: rank,
        tag: COMPLETE,
    };
    sharers.wait(awaited).await
}
