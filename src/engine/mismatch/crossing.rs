//! A process that is in a blocking operation, and one that waits (`MPI_Wait`, `MPI_Waitall`) for a nonblocking one of the same
//! communicator. That is right as long as one of them has begun, or can still begin, what the other is in. It can't where each waits
//! for a message of the other, has not begun the other's operation, and returns to its program only when its own has ended: neither
//! ever will. So each says in `Waits` how many operations of the other kind it has begun, if it is stuck like that, and whoever is
//! told compares.
//!
//! What was said stays true until the one who was told begins the operation. Nothing can be said of a process of several threads:
//! another thread may begin it.

use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use super::step::{Begun, Step};
use super::{Failed, View};
use crate::engine::matching::Pattern;
use crate::engine::request::{RequestId, Work};
use crate::engine::{Engine, State};
use crate::lane::ProcId;

/// What a process says of itself while it waits in a collective operation, or of one that has failed: the `arg` of a
/// `Waits` message (drawn in `docs/wire.md`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Said {
    pub step: Step,
    /// If it is stuck there: how many operations of the other kind it has begun, modulo 2²⁰.
    pub stuck: Option<u32>,
    /// Whether it answers what the receiver has said. An answer is not answered.
    pub answer: bool,
}

const STUCK: u64 = 1 << 31;
const ANSWER: u64 = 1 << 63;
const COUNT_MAX: u64 = 1 << 20;

impl Said {
    pub fn encode(self) -> u64 {
        let stuck = self.stuck.map_or(0, |count| STUCK | u64::from(count) << 32);
        let answer = if self.answer { ANSWER } else { 0 };
        self.step.tag() as u64 | stuck | answer
    }

    pub fn decode(arg: u64) -> Option<Said> {
        let step = Step::of_tag((arg & (STUCK - 1)) as i32)?;
        let count = (arg & !ANSWER) >> 32;
        let is_stuck = arg & STUCK != 0;
        let fits = count < if is_stuck { COUNT_MAX } else { 1 };
        fits.then_some(Said {
            step,
            stuck: is_stuck.then_some(count as u32),
            answer: arg & ANSWER != 0,
        })
    }
}

/// What peers said that are stuck, to be looked at when this process waits.
struct Heard {
    peer: ProcId,
    context: u64,
    said: Said,
}

/// So much is kept; it is said again.
const HEARD_MAX: usize = 64;

#[derive(Default)]
pub(super) struct Crossing {
    several_threads: bool,
    /// What this process has begun, by communicator.
    begun: FxHashMap<u64, Weak<Begun>>,
    /// With so many of them, those that are gone are removed.
    full: usize,
    heard: Vec<Heard>,
}

impl Crossing {
    pub fn has_heard(&self) -> bool {
        !self.heard.is_empty()
    }

    /// How many operations of a kind this process has begun; `None`: the communicator is gone.
    fn begun(&self, communicator: u64, nonblocking: bool) -> Option<u32> {
        Some(self.begun.get(&communicator)?.upgrade()?.count(nonblocking))
    }

    pub fn hear(&mut self, peer: ProcId, context: u64, said: Said) {
        if said.stuck.is_none() || self.several_threads {
            return;
        }
        self.heard
            .retain(|heard| (heard.peer, heard.context) != (peer, context));
        if self.heard.len() == HEARD_MAX {
            self.heard.remove(0);
        }
        self.heard.push(Heard { peer, context, said });
    }
}

impl Engine {
    /// From now on more than one thread may be in a call of this process.
    pub fn set_several_threads(&mut self) {
        self.state.watch.crossing.several_threads = true;
    }

    /// Tells where the operations are counted that this process begins on the communicator of a context.
    pub fn count_steps(&mut self, context: u64, begun: &Arc<Begun>) {
        let crossing = &mut self.state.watch.crossing;
        crossing.begun.insert(context, Arc::downgrade(begun));
        if crossing.begun.len() > crossing.full {
            crossing.begun.retain(|_, begun| begun.strong_count() > 0);
            crossing.full = (crossing.begun.len() * 2).max(64);
        }
    }

    /// Looks through what peers have said, while this process waits.
    pub(super) fn look_for_crossings(&mut self, waiting: &[(Pattern, RequestId)], view: &View) {
        for heard in std::mem::take(&mut self.state.watch.crossing.heard) {
            if !self.state.judge(&heard, waiting, view) {
                self.state.watch.crossing.heard.push(heard);
            }
        }
    }
}

impl State {
    /// `true`: no more is to be made of it.
    fn judge(&mut self, heard: &Heard, waiting: &[(Pattern, RequestId)], view: &View) -> bool {
        let Heard { peer, context, said } = *heard;
        let theirs = said.step;
        let communicator = (view.communicator)(context, theirs.tag());
        let Some((communicator, others)) = communicator.zip(said.stuck) else {
            return true;
        };
        match self.watch.crossing.begun(communicator, theirs.nonblocking) {
            Some(begun) if theirs.is_to_come(begun) => {}
            // The peer waits no longer, or not for long.
            _ => return true,
        }
        let crosses = |step: Step| step.nonblocking != theirs.nonblocking && step.is_to_come(others);
        let mine = waiting.iter().find_map(|(pattern, id)| {
            let (from, mine) = self.waits_in(*id, pattern)?;
            let same = (view.communicator)(pattern.context, mine.tag()) == Some(communicator);
            let meets = same && from == peer && crosses(mine) && self.is_stuck(mine, communicator, view);
            meets.then_some((pattern.context, mine))
        });
        if let Some((context, mine)) = mine {
            let stuck = self.watch.crossing.begun(communicator, theirs.nonblocking);
            self.fail_step(context, mine, theirs, mine.crossing_error(theirs, peer));
            if !said.answer {
                self.say(
                    peer,
                    context,
                    Said {
                        step: mine,
                        stuck,
                        answer: true,
                    },
                );
            }
            return true;
        }
        // It may have failed before, when another peer was heard.
        let failed = self.watch.failed.iter().find_map(|failed| {
            let Failed {
                context,
                step,
                against,
                ..
            } = *failed;
            let same = (view.communicator)(context, step.tag()) == Some(communicator);
            (same && against == theirs && crosses(step)).then_some((context, step))
        });
        if let Some((context, mine)) = failed {
            let stuck = self.watch.crossing.begun(communicator, theirs.nonblocking);
            if !said.answer {
                self.say(
                    peer,
                    context,
                    Said {
                        step: mine,
                        stuck,
                        answer: true,
                    },
                );
            }
            return true;
        }
        false
    }

    /// What is to be said of a step in which this process waits.
    pub(super) fn said_of(&self, context: u64, step: Step, view: &View) -> Said {
        let communicator = (view.communicator)(context, step.tag());
        let stuck = communicator.filter(|&communicator| self.is_stuck(step, communicator, view));
        Said {
            step,
            stuck: stuck.and_then(|communicator| self.watch.crossing.begun(communicator, !step.nonblocking)),
            answer: false,
        }
    }

    /// Whether this process does not return to its program before a step has ended, in which it waits for a message.
    fn is_stuck(&self, step: Step, communicator: u64, view: &View) -> bool {
        // The receives of a blocking one are those of the only thread's call.
        let needs = |(id, request): (RequestId, &super::Request)| {
            let is_it = matches!(request.work, Work::Collective(tag) if tag == step.tag());
            is_it && request.outcome.is_none() && request.context == communicator && (view.needs)(id)
        };
        !self.watch.crossing.several_threads && (!step.nonblocking || self.requests.iter().any(needs))
    }
}
