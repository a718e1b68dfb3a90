//! Words in shared memory that this process waits for: other processes of the machine raise them without a message.
//!
//! A wait that goes on is also posted as a receive of a message that nobody sends. So reports tell what the process waits for, ranks
//! that call different operations are found ([`super::mismatch`]), and the loss of the process that was to raise the word ends the
//! wait.
//!
//! A task that waits for a word is ready to be polled once it is reached: [`Ready`] knows these beside those whose requests have ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::dispatch::Job;
use super::matching::Pattern;
use super::request::{RequestId, TaskId};
use super::{Engine, EngineState, Received};
use crate::base::error::Error;
use crate::data::memory::Memory;
use crate::identity::PeerIndex;
use crate::lane::{Doorbell, Sample};
use crate::system::shared_memory::Map;

/// A word that only grows.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The memory that it is in.
    pub map: Arc<Map>,
    /// Where it is.
    pub at: usize,
    /// The wait ends when it has at least this value.
    pub least: u64,
    /// How whoever raises it learns that this process sleeps.
    pub sleeper: Sleeper,
    /// The message that a report is to name.
    pub pattern: Pattern,
    /// The process that raises the word.
    pub peer: PeerIndex,
}

impl Watched {
    fn is_reached(&self) -> bool {
        self.map.u64(self.at).load(Ordering::Acquire) >= self.least
    }
}

/// Words in the same memory that say that this process sleeps.
#[derive(Clone, Copy, Debug)]
pub struct Sleeper {
    /// Where the word with its bit is, and the bit.
    pub at: usize,
    /// See `at`.
    pub bit: u64,
    /// Where it says for what it sleeps, and for what: a number that those who raise the word know as well.
    pub whom_at: usize,
    /// See `whom_at`.
    pub whom: u32,
}

/// What [`Sleeper::whom`] is for a process that sleeps for several things: whatever happens wakes it.
pub const ANYTHING: u32 = u32::MAX;

impl Sleeper {
    fn bits(self, map: &Map) -> &AtomicU64 {
        map.u64(self.at)
    }

    fn whom(self, map: &Map) -> &AtomicU32 {
        map.u32(self.whom_at)
    }
}

/// Names a word that is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchId(u32);

pub(super) struct Watch {
    watched: Watched,
    /// Whom to poll once it is reached.
    task: Option<TaskId>,
    /// It has been reported.
    reached: bool,
    /// How often it was looked at for the task.
    looks: u32,
    /// Others may have been told to wake this process for it.
    shown: bool,
    /// Once the wait goes on.
    receive: Option<Result<RequestId, Error>>,
}

/// After so many looks a task's wait goes on, even if no thread sleeps: some tenths of a millisecond.
const LOOKS_MAX: u32 = 1 << 12;

/// The tasks that are to be polled.
#[derive(Default)]
pub(super) struct Ready {
    tasks: Vec<TaskId>,
    /// Operations that messages have begun: tasks to be.
    begun: Vec<Job>,
    /// Number of both, and of tasks' words that have not been reached as far as is known: 0 where there is nothing to look at.
    due: usize,
}

impl Ready {
    /// One more: its request has ended.
    #[inline(always)]
    pub fn push(&mut self, task: TaskId) {
        self.tasks.push(task);
        self.due += 1;
    }

    /// One that is to be a task.
    pub fn begin(&mut self, job: Job) {
        self.begun.push(job);
        self.due += 1;
    }

    /// Whether there are any that messages have begun.
    fn has_served(&self) -> bool {
        !self.begun.is_empty() || self.tasks.iter().any(|task| task.serves())
    }

    /// Takes those tasks that messages have begun.
    fn take_served(&mut self, into: &mut Vec<TaskId>) {
        let before = self.tasks.len();
        self.tasks.retain(|&task| {
            if task.serves() {
                into.push(task);
            }
            !task.serves()
        });
        self.due -= before - self.tasks.len();
    }

    /// How many there are for certain.
    fn len(&self) -> usize {
        self.tasks.len() + self.begun.len()
    }
}

impl Engine {
    /// How processes that share memory with this one wake it.
    pub fn doorbell(&self) -> Option<Doorbell> {
        self.lanes.iter().find_map(|lane| lane.doorbell())
    }

    /// By what processes that share memory with this one try whether they can read its own.
    pub fn sample(&self) -> Option<Sample> {
        self.lanes.iter().find_map(|lane| lane.sample())
    }

    /// Watches a word until [`Engine::unwatch`]: a sleep ends when it is reached.
    pub fn watch(&mut self, watched: Watched) -> WatchId {
        let id = self.insert_watch(watched, None);
        self.post_watch(id.0);
        id
    }

    /// The same for a task, which is polled when the word is reached or it is known that it will not be.
    pub fn watch_for(&mut self, watched: Watched, task: TaskId) -> WatchId {
        self.state.ready.due += 1;
        // A thread that sleeps has not shown that it does to those who raise this word.
        self.state.sleepers.wake();
        self.insert_watch(watched, Some(task))
    }

    fn insert_watch(&mut self, watched: Watched, task: Option<TaskId>) -> WatchId {
        WatchId(self.state.watched.insert(Watch {
            watched,
            task,
            reached: false,
            looks: 0,
            shown: false,
            receive: None,
        }))
    }

    /// Posts the receive that stands for the wait.
    #[cold]
    fn post_watch(&mut self, number: u32) {
        let Watch { watched, task, .. } = &self.state.watched[number];
        let (pattern, peer, task) = (watched.pattern, watched.peer, *task);
        // SAFETY: it has no memory.
        let receive = unsafe { self.receive(pattern, Some(peer), Memory::empty()) };
        let receive = receive.map(|received| match received {
            Received::Later(id) => id,
            // Two ranks have chosen different algorithms, which is an error of the program: the wait ends when its time is out.
            Received::Now(outcome) => self.ended_request(outcome, pattern.context),
        });
        if let Some(task) = task {
            match receive {
                Ok(id) if self.outcome(id).is_none() => self.wake_on(id, task),
                _ => self.state.ready.push(task),
            }
        }
        self.state.watched[number].receive = Some(receive);
    }

    /// Ends that.
    pub fn unwatch(&mut self, id: WatchId) {
        let watch = self.state.watched.remove(id.0);
        let Watched { map, sleeper, .. } = &watch.watched;
        // Another thread may sleep for something else in the same memory.
        let is_shared = |other: &Watched| Arc::ptr_eq(&other.map, map) && other.sleeper.at == sleeper.at;
        let goes_on = {
            let mut others = self.state.watched.iter();
            others.any(|(_, other)| other.shown && is_shared(&other.watched))
        };
        if watch.shown && !goes_on {
            sleeper.bits(map).fetch_and(!sleeper.bit, Ordering::Relaxed);
        }
        if watch.task.is_some() && !watch.reached {
            self.state.ready.due -= 1;
        }
        if let Some(Ok(receive)) = watch.receive {
            if let Some(request) = self.state.requests.get_mut(receive) {
                request.waiter = None;
            }
            self.cancel(receive);
            self.take(receive);
        }
    }

    /// The request that stands for the wait in reports.
    pub fn request_of(&self, id: WatchId) -> Option<RequestId> {
        self.state.watched[id.0].receive.as_ref()?.as_ref().ok().copied()
    }

    /// Why the word will not be reached, if that is known.
    pub fn failure_of(&self, id: WatchId) -> Option<Error> {
        match self.state.watched[id.0].receive.as_ref()? {
            Ok(receive) => {
                let outcome = self.outcome(*receive)?;
                outcome.error.as_deref().cloned()
            }
            Err(error) => Some(error.clone()),
        }
    }

    /// Whether there are tasks to be polled.
    #[inline]
    pub fn has_ready_tasks(&mut self) -> bool {
        self.state.ready.due != 0 && self.finds_ready_tasks()
    }

    /// Whether there may be tasks to be polled.
    #[inline]
    pub fn may_have_ready_tasks(&self) -> bool {
        self.state.ready.due != 0
    }

    /// The tasks to be polled.
    pub fn take_ready(&mut self, into: &mut Vec<TaskId>) {
        if self.has_ready_tasks() {
            let ready = &mut self.state.ready;
            ready.due -= ready.tasks.len();
            into.append(&mut ready.tasks);
        }
    }

    /// Whether there are tasks to be polled, or to be made, that messages have begun.
    pub fn has_served_tasks(&self) -> bool {
        self.state.ready.has_served()
    }

    /// The tasks to be polled that messages have begun.
    pub fn take_served(&mut self, into: &mut Vec<TaskId>) {
        self.state.ready.take_served(into);
    }

    /// The next operation that a message has begun, to be run as a task.
    pub fn take_begun(&mut self) -> Option<Job> {
        let ready = &mut self.state.ready;
        // In their order.
        let job = (!ready.begun.is_empty()).then(|| ready.begun.remove(0))?;
        ready.due -= 1;
        Some(job)
    }

    /// Looks at the words of tasks.
    #[inline(never)]
    fn finds_ready_tasks(&mut self) -> bool {
        let EngineState { ready, watched, .. } = &mut self.state;
        let mut goes_on = None;
        if ready.due != ready.len() {
            for (number, watch) in watched.iter_mut() {
                let Some(task) = watch.task.filter(|_| !watch.reached) else {
                    continue;
                };
                if watch.watched.is_reached() {
                    watch.reached = true;
                    ready.tasks.push(task);
                } else {
                    watch.looks = watch.looks.saturating_add(1);
                    // One at a time; others follow at the next looks.
                    if watch.looks >= LOOKS_MAX && watch.receive.is_none() {
                        goes_on = Some(number);
                    }
                }
            }
        }
        if let Some(number) = goes_on {
            self.post_watch(number);
        }
        self.state.ready.len() != 0
    }

    /// Reports the words that have been reached, to other threads too. `true`: there were some, or a wait has been found to go on.
    /// Progress does not do that by itself: a process that waits looks at its word at each turn, and calls this before it sleeps.
    pub fn look_at_words(&mut self) -> bool {
        if self.state.watched.is_empty() {
            return false;
        }
        let mut any = false;
        let mut go_on = Vec::new();
        let EngineState { ready, watched, .. } = &mut self.state;
        for (number, watch) in watched.iter_mut() {
            if watch.reached {
                continue;
            }
            if watch.watched.is_reached() {
                watch.reached = true;
                any = true;
                if let Some(task) = watch.task {
                    ready.tasks.push(task);
                }
            } else if watch.receive.is_none() {
                go_on.push(number);
            }
        }
        if any {
            self.state.happened();
        }
        for &number in &go_on {
            self.post_watch(number);
        }
        any || !go_on.is_empty()
    }

    /// Before a sleep: shows those who raise words that this process sleeps. The fence of the lane that has the doorbell has to follow.
    pub(super) fn show_sleep(&mut self) {
        for (_, watch) in self.state.watched.iter() {
            let Watched { map, sleeper, .. } = &watch.watched;
            let is_other = |other: &Watched| {
                let same_place = Arc::ptr_eq(&other.map, map) && other.sleeper.whom_at == sleeper.whom_at;
                same_place && other.sleeper.whom != sleeper.whom
            };
            let others = self
                .state
                .watched
                .iter()
                .any(|(_, watch)| is_other(&watch.watched));
            let whom = if others { ANYTHING } else { sleeper.whom };
            sleeper.whom(map).store(whom, Ordering::Relaxed);
            sleeper.bits(map).fetch_or(sleeper.bit, Ordering::Relaxed);
        }
        for (_, watch) in self.state.watched.iter_mut() {
            watch.shown = true;
        }
    }
}

impl EngineState {
    /// Whether a word has been reached that progress has not reported.
    pub(super) fn has_reached_words(&self) -> bool {
        self.watched
            .iter()
            .any(|(_, watch)| !watch.reached && watch.watched.is_reached())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_messages_have_begun_is_taken_alone() {
        let mut ready = Ready::default();
        let (of_call, of_message) = (TaskId::new(7, false), TaskId::new(7, true));
        assert_eq!((of_call.place(), of_message.place()), (7, 7));
        assert_eq!(TaskId::of_number(of_message.number()), of_message);
        ready.push(of_call);
        assert!(!ready.has_served());
        ready.push(of_message);
        ready.push(of_call);
        assert!(ready.has_served());
        let mut taken = Vec::new();
        ready.take_served(&mut taken);
        assert_eq!((taken, ready.tasks.len(), ready.due), (vec![of_message], 2, 2));
        assert!(!ready.has_served());
        ready.begin(Box::pin(async { Ok(crate::engine::request::Outcome::EMPTY) }));
        assert!(ready.has_served());
    }
}
