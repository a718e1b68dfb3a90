//! Two processes that wait for each other in different operations: in a blocking one, or in `MPI_Wait` or `MPI_Waitall`
//! for a nonblocking one, on one communicator or on two. That is correct as long as one of them has begun, or can still
//! begin, the other's operation. It can't begin it if it returns to its program only when its own operation has ended,
//! which needs a message of the other. So each process reports in a `Waits` message that it is stuck like that, and a
//! process that receives one checks whether it is stuck too.
//!
//! The receiver of such a message knows that neither will ever go on, if all of this holds:
//!
//! 1. It has not begun the peer's operation. What the peer reported stays true until it does.
//! 2. It is stuck itself, and waits for a message of the peer, or, in finalize, for all.
//! 3. The peer does not send that message while it is stuck. For the communicator of its own operation the peer reports how many
//!    operations of the other kind it has begun. It can't be in a blocking operation of another communicator, as its thread is in
//!    this one; and if it had been in one before, its message would be here, because messages between two processes keep their
//!    order. For a nonblocking operation the peer has to report that it has found the same (in an answer).
//!
//! Nothing is known about a process of several threads: another thread may begin the operation. Nor is anything about persistent
//! operations: they are started in any order, and the number of one is that of its request and not of its start.

use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use super::step::{Begun, Kind, NUMBER_BITS, Step};
use super::{Failed, View, of_collective};
use crate::engine::matching::Pattern;
use crate::engine::request::{RequestId, Work};
use crate::engine::{Engine, EngineState};
use crate::err;
use crate::identity::{Context, PeerIndex};

/// What a process reports about itself while it waits in a collective operation, or about one that has failed: the `arg`
/// of a `Waits` message (see `docs/wire.md`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Said {
    pub step: Step,
    /// If it is stuck there: how many operations of the other kind it has begun, modulo 2¹⁹.
    pub stuck: Option<u32>,
    /// Whether it answers a message of the receiver. An answer is not answered.
    pub answer: bool,
}

const STUCK: u64 = 1 << 31;
const ANSWER: u64 = 1 << 63;
const COUNT_MAX: u64 = 1 << NUMBER_BITS;

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

/// Reports of peers that are stuck, to be checked when this process waits.
struct Heard {
    peer: PeerIndex,
    context: Context,
    said: Said,
}

/// How many reports are kept; peers repeat them.
const HEARD_MAX: usize = 64;

#[derive(Default)]
pub(super) struct Crossing {
    several_threads: bool,
    /// What this process has begun, by communicator.
    begun: FxHashMap<Context, Weak<Begun>>,
    /// From this many on, those of freed communicators are removed.
    full: usize,
    heard: Vec<Heard>,
}

impl Crossing {
    pub fn has_heard(&self) -> bool {
        !self.heard.is_empty()
    }

    /// How many operations of a kind this process has begun; `None`: the communicator is gone.
    fn begun(&self, communicator: Context, kind: Kind) -> Option<u32> {
        Some(self.begun.get(&communicator)?.upgrade()?.count(kind))
    }

    pub fn hear(&mut self, peer: PeerIndex, context: Context, said: Said) {
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

    /// Sets where the operations are counted that this process begins on the communicator of a context.
    pub fn count_steps(&mut self, context: Context, begun: &Arc<Begun>) {
        let crossing = &mut self.state.watch.crossing;
        crossing.begun.insert(context, Arc::downgrade(begun));
        if crossing.begun.len() > crossing.full {
            crossing.begun.retain(|_, begun| begun.strong_count() > 0);
            crossing.full = (crossing.begun.len() * 2).max(64);
        }
    }

    /// Checks the reports of peers, while this process waits.
    pub(super) fn look_for_crossings(&mut self, waiting: &[(Pattern, RequestId)], view: &View) {
        for heard in std::mem::take(&mut self.state.watch.crossing.heard) {
            if !self.state.judge(&heard, waiting, view) {
                self.state.watch.crossing.heard.push(heard);
            }
        }
    }
}

impl EngineState {
    /// `true`: the report needs no further check.
    fn judge(&mut self, heard: &Heard, waiting: &[(Pattern, RequestId)], view: &View) -> bool {
        let Heard { peer, context, said } = *heard;
        let theirs = said.step;
        let communicator = of_collective(context, theirs.tag());
        let Some((communicator, others)) = communicator.zip(said.stuck) else {
            return true;
        };
        let begun = match self.watch.crossing.begun(communicator, theirs.kind) {
            // This process has not begun it yet.
            None if context.is_finalizing() => Some(0),
            begun => begun,
        };
        match begun {
            Some(begun) if theirs.is_to_come(begun) => {}
            // The peer no longer waits, or will not wait for long.
            _ => return true,
        }
        let never_comes = |step: Step, of: Context| match step.kind == theirs.kind {
            _ if of != communicator => step.kind == Kind::Blocking || said.answer,
            false => step.is_to_come(others),
            true => false,
        };
        let mine = waiting.iter().find_map(|(pattern, id)| {
            let (from, mine) = self.waits_in(*id, pattern)?;
            let of = of_collective(pattern.context, mine.tag())?;
            // No process goes on in finalize before all have entered it.
            let needs = from == peer || pattern.context.is_finalizing();
            let meets = needs && never_comes(mine, of) && self.is_stuck(mine, of, view);
            meets.then_some((pattern.context, mine, of))
        });
        if let Some((mine_in, mine, of)) = mine {
            let answer = Said {
                answer: true,
                ..self.said_of(mine_in, mine, view)
            };
            // A process that has entered finalize waits for those that have not.
            if !mine_in.is_finalizing() {
                let theirs_words = match context.is_finalizing() {
                    true => "MPI_Finalize".into(),
                    false if of != communicator => format!("{} of another communicator", theirs.words()),
                    false => theirs.words(),
                };
                let error = err!(
                    Other,
                    "the processes call different collective operations: this one is in {} and process {} in {theirs_words}, and neither \
                     can begin what the other is in",
                    mine.words(),
                    peer.number()
                );
                self.fail_step((mine_in, mine), (context, theirs), error);
            }
            if !said.answer {
                self.say(peer, mine_in, answer);
            }
            return true;
        }
        // It may have failed before, because of another peer's report.
        let mut failed = self.watch.failed.iter();
        let before = failed.find(|failed| failed.against == (context, theirs));
        let Some(&Failed {
            context: mine_in,
            step,
            ..
        }) = before
        else {
            return false;
        };
        if !said.answer {
            let stuck = self.watch.crossing.begun(communicator, theirs.kind);
            self.say(
                peer,
                mine_in,
                Said {
                    step,
                    stuck,
                    answer: true,
                },
            );
        }
        true
    }

    /// What to report about a step in which this process waits.
    pub(super) fn said_of(&self, context: Context, step: Step, view: &View) -> Said {
        let communicator = of_collective(context, step.tag());
        let stuck = communicator.filter(|&communicator| self.is_stuck(step, communicator, view));
        Said {
            step,
            stuck: stuck
                .zip(step.kind.other())
                .and_then(|(of, other)| self.watch.crossing.begun(of, other)),
            answer: false,
        }
    }

    /// Whether this process does not return to its program before the end of a step in which it waits for a message.
    fn is_stuck(&self, step: Step, communicator: Context, view: &View) -> bool {
        // The receives of a blocking one are those of the only thread's call.
        let needs = |(id, request): (RequestId, &super::Request)| {
            let is_it = matches!(request.work, Work::Collective(tag) if tag == step.tag());
            is_it && request.outcome.is_none() && request.context == communicator && (view.needs)(id)
        };
        !self.watch.crossing.several_threads
            && (step.kind == Kind::Blocking || self.requests.iter().any(needs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::mismatch::step::Operation;

    fn said(number: u32) -> Said {
        Said {
            step: Step {
                number,
                operation: Operation::named("MPI_Barrier"),
                kind: Kind::Blocking,
            },
            stuck: Some(0),
            answer: false,
        }
    }

    fn numbers(crossing: &Crossing) -> Vec<u32> {
        crossing
            .heard
            .iter()
            .map(|heard| heard.said.step.number)
            .collect()
    }

    #[test]
    fn of_each_peer_and_communicator_the_last_word_is_kept() {
        let mut crossing = Crossing::default();
        for (peer, context, number) in [(1, 8, 1), (2, 8, 2), (1, 10, 3), (1, 8, 4)] {
            crossing.hear(PeerIndex::new(peer), Context::of_bits(context), said(number));
        }
        assert_eq!(numbers(&crossing), [2, 3, 4]);
        // The oldest are dropped where there are too many.
        for number in 5..5 + HEARD_MAX as u32 {
            crossing.hear(PeerIndex::new(number), Context::of_bits(8), said(number));
        }
        assert_eq!(numbers(&crossing), (5..5 + HEARD_MAX as u32).collect::<Vec<_>>());
    }

    #[test]
    fn who_is_not_stuck_is_not_listened_to() {
        let mut crossing = Crossing::default();
        let stuck = None;
        crossing.hear(PeerIndex::new(1), Context::of_bits(8), Said { stuck, ..said(1) });
        assert!(!crossing.has_heard());
        crossing.several_threads = true;
        crossing.hear(PeerIndex::new(1), Context::of_bits(8), said(1));
        assert!(!crossing.has_heard());
    }
}
