//! Words in shared memory that this process waits for: other processes of the machine raise them without a message.
//!
//! A wait that goes on is also posted as a receive of a message that nobody sends. So reports tell what the process waits for, ranks
//! that call different operations are found ([`super::mismatch`]), and the loss of the process that was to raise the word ends the
//! wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::matching::Pattern;
use super::request::RequestId;
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
    /// Where it says who is to wake it, and who.
    pub whom_at: usize,
    /// See `whom_at`.
    pub whom: u32,
}

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
    /// It has been reported.
    reached: bool,
    receive: Result<RequestId, Error>,
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
        // SAFETY: it has no memory.
        let receive = unsafe { self.receive(watched.pattern, Some(watched.peer), Memory::empty()) };
        let receive = receive.map(|received| match received {
            Received::Later(id) => id,
            // Two ranks have chosen different algorithms, which is an error of the program: the wait ends when its time is out.
            Received::Now(outcome) => self.ended_request(outcome, watched.pattern.context),
        });
        WatchId(self.state.watched.insert(Watch {
            watched,
            reached: false,
            receive,
        }))
    }

    /// Ends that.
    pub fn unwatch(&mut self, id: WatchId) {
        let watch = self.state.watched.remove(id.0);
        let Watched { map, sleeper, .. } = &watch.watched;
        sleeper.bits(map).fetch_and(!sleeper.bit, Ordering::Relaxed);
        if let Ok(receive) = watch.receive {
            self.cancel(receive);
            self.take(receive);
        }
    }

    /// The request that stands for the wait in reports.
    pub fn request_of(&self, id: WatchId) -> Option<RequestId> {
        self.state.watched[id.0].receive.as_ref().ok().copied()
    }

    /// Why the word will not be reached, if that is known.
    pub fn failure_of(&self, id: WatchId) -> Option<Error> {
        match &self.state.watched[id.0].receive {
            Ok(receive) => {
                let outcome = self.outcome(*receive)?;
                outcome.error.as_deref().cloned()
            }
            Err(error) => Some(error.clone()),
        }
    }

    /// Reports the words that have been reached, to other threads too. `true`: there were some. Progress does not do that by itself: a
    /// process that waits looks at its word at each turn, and calls this before it sleeps.
    pub fn look_at_words(&mut self) -> bool {
        let mut any = false;
        for (_, watch) in self.state.watched.iter_mut() {
            if !watch.reached && watch.watched.is_reached() {
                watch.reached = true;
                any = true;
            }
        }
        if any {
            self.state.happened();
        }
        any
    }

    /// Before a sleep: shows those who raise words that this process sleeps. The fence of the lane that has the doorbell has to follow.
    pub(super) fn show_sleep(&self) {
        for (_, Watch { watched, .. }) in self.state.watched.iter() {
            let Watched { map, sleeper, .. } = watched;
            sleeper.whom(map).store(sleeper.whom, Ordering::Relaxed);
            sleeper.bits(map).fetch_or(sleeper.bit, Ordering::Relaxed);
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
