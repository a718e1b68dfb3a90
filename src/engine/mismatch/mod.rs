//! Collective operations that ranks call in different orders, which is an error of the program: the program gets an error
//! message, and not a wait that never ends.
//!
//! The tag of a collective operation's messages contains the operation ([`Step`]), so messages of different operations
//! never match. When an operation waits for long, the engine checks whether a message of its peer has come that has the
//! same number and belongs to another operation; if there is none, it sends the peer a `Waits` message with its own
//! operation, once a second at first and then less and less often, as the peer may only be late. A peer that waits in
//! another operation of that number fails its own and answers with the same. Messages that come in time are not touched.
//!
//! - `step`: the contents of a tag
//! - `crossing`: two processes that wait for each other in different operations
//!
//! What does not belong here: what communicators are called in the report (`objects::communicator::names`), whether a wait can end
//! before a request has (`instance`), and words about waits that are right (`describe`).

mod crossing;
mod step;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use super::matching::Pattern;
use super::request::{Outcome, ReceiveStage, Request, RequestId, Work};
use super::wire::MessageKind;
use super::{Engine, EngineState};
use crate::base::error::Error;
use crate::identity::{Context, PeerIndex};

use crossing::{Crossing, Said};
pub use step::{Begun, Kind, Operation, Step};

/// How long a wait lasts before it is checked, and the longest time between two checks.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// How many failed operations are remembered: what is posted later for one of them fails too.
const FAILED_MAX: usize = 64;

/// Whether a step is more than a few numbers from another one.
fn is_far(tag: Option<i32>, other: i32) -> bool {
    let number = |tag: i32| Step::of_tag(tag).map(|step| step.number);
    match (tag.and_then(number), number(other)) {
        (Some(one), Some(other)) => one.abs_diff(other) > FAILED_MAX as u32,
        _ => true,
    }
}

/// The communicator's context, if a context and a tag are those of messages of a collective operation.
pub(super) fn of_collective(context: Context, tag: i32) -> Option<Context> {
    (context.is_collective() && Step::of_tag(tag).is_some()).then(|| context.communicator())
}

/// What the layers above know of a process that waits.
pub struct View<'a> {
    /// The present time.
    pub now: Instant,
    /// Whether the wait can't end before this request has.
    pub needs: &'a dyn Fn(RequestId) -> bool,
}

/// When to check, and what was found.
#[derive(Default)]
pub(super) struct Watch {
    /// The context and tag that was waited for at the last check, and when the next one is due.
    waits: Option<(Context, i32, Instant, Duration)>,
    failed: Vec<Failed>,
    crossing: Crossing,
}

/// An operation that has failed here.
struct Failed {
    context: Context,
    step: Step,
    /// What a peer was in, and in which context.
    against: (Context, Step),
    error: Error,
}

impl Engine {
    /// For a process that sleeps: checks collective operations that wait for long.
    pub fn look_into_waits(&mut self, view: &View) {
        let now = view.now;
        let watch = &self.state.watch;
        if let Some((_, _, due, _)) = watch.waits
            && now < due
            && watch.failed.is_empty()
            && !watch.crossing.has_heard()
        {
            return;
        }
        let is_collective = |pattern: &Pattern| {
            let communicator = pattern.tag.and_then(|tag| of_collective(pattern.context, tag));
            communicator.is_some()
        };
        let waiting: Vec<(Pattern, RequestId)> = self
            .state
            .posted
            .iter()
            .filter(|(pattern, _)| is_collective(pattern))
            .map(|(pattern, id)| (*pattern, id))
            .collect();
        self.look_for_crossings(&waiting, view);
        let first = waiting
            .iter()
            .map(|(pattern, _)| (pattern.context, pattern.tag.unwrap_or(0)))
            .min();
        let Some((context, tag)) = first else {
            // Nothing to check; it is not done at each of many short sleeps.
            self.state.watch.waits = Some((Context::NONE, 0, now + FIRST, FIRST));
            return;
        };
        // Operations that ended long ago are forgotten, well before their numbers are used again.
        self.state.watch.failed.retain(|failed| {
            let left = |pattern: &Pattern| {
                pattern.context == failed.context && is_far(pattern.tag, failed.step.tag())
            };
            !waiting.iter().any(|(pattern, _)| left(pattern))
        });
        for (pattern, id) in &waiting {
            let is_it = |failed: &&Failed| {
                failed.context == pattern.context && Some(failed.step.tag()) == pattern.tag
            };
            let known = self.state.watch.failed.iter().find(is_it);
            if let Some(error) = known.map(|known| known.error.clone()) {
                self.give_up(*id, error);
            }
        }
        match self.state.watch.waits {
            Some((before, tag_before, due, pause)) if (before, tag_before) == (context, tag) => {
                if now >= due {
                    let pause = (pause * 2).min(LONGEST);
                    self.state.watch.waits = Some((context, tag, now + pause, pause));
                    self.look_into(&waiting, view);
                }
            }
            _ => self.state.watch.waits = Some((context, tag, now + FIRST, FIRST)),
        }
    }

    /// For a process that has seen, without a message, that a peer is in another operation of the same number: this process's fails, and
    /// the peer gets to know if it asks.
    pub fn contradict(&mut self, mine: (Context, Step), theirs: (Context, Step), peer: PeerIndex) -> Error {
        let error = mine.1.error(theirs.1, peer);
        self.state.fail_step(mine, theirs, error.clone());
        error
    }

    fn look_into(&mut self, waiting: &[(Pattern, RequestId)], view: &View) {
        for (pattern, id) in waiting {
            let Some((peer, mine)) = self.state.waits_in(*id, pattern) else {
                continue;
            };
            let theirs = self.state.unexpected.iter().find_map(|(envelope, _)| {
                let theirs = Step::of_tag(envelope.tag)?;
                let same = envelope.context == pattern.context && Some(envelope.source) == pattern.source;
                (same && mine.contradicts(theirs)).then_some(theirs)
            });
            match theirs {
                Some(theirs) => {
                    let context = pattern.context;
                    self.state
                        .fail_step((context, mine), (context, theirs), mine.error(theirs, peer));
                }
                None => {
                    let said = self.state.said_of(pattern.context, mine, view);
                    self.state.say(peer, pattern.context, said);
                }
            }
        }
    }
}

impl EngineState {
    /// The process from which a receive waits for a message, and that message's operation.
    fn waits_in(&self, id: RequestId, pattern: &Pattern) -> Option<(PeerIndex, Step)> {
        let request = self.requests.get(id)?;
        let Work::Receive(work) = &request.work else {
            return None;
        };
        // It may have failed together with another receive of its operation.
        if request.outcome.is_some() {
            return None;
        }
        match &work.stage {
            ReceiveStage::Posted { peer, .. } => Some(((*peer)?, Step::of_tag(pattern.tag?)?)),
            ReceiveStage::Fetching(_) => None,
        }
    }

    fn say(&mut self, peer: PeerIndex, context: Context, said: Said) {
        self.reply(peer, MessageKind::WAITS, context.bits(), said.encode(), &[]);
    }

    /// A peer reports in which operation it waits for this process. `false`: the message makes no sense.
    pub(super) fn on_waits(&mut self, peer: PeerIndex, context: Context, arg: u64) -> bool {
        let Some(said) = Said::decode(arg) else {
            return false;
        };
        let theirs = said.step;
        let waiting = self.posted.iter().find_map(|(pattern, _)| {
            let mine = Step::of_tag(pattern.tag?)?;
            (pattern.context == context && mine.contradicts(theirs)).then_some(mine)
        });
        if let Some(mine) = waiting {
            self.fail_step((context, mine), (context, theirs), mine.error(theirs, peer));
        }
        // It may have failed before, because of another peer's report.
        let mut failed = self.watch.failed.iter();
        let mine = waiting.or_else(|| {
            let is_it = |failed: &&Failed| failed.context == context && failed.step.contradicts(theirs);
            Some(failed.find(is_it)?.step)
        });
        match mine {
            // So that the peer's operation fails as well.
            Some(step) if !said.answer => {
                let answer = Said {
                    step,
                    stuck: None,
                    answer: true,
                };
                self.say(peer, context, answer);
            }
            Some(_) => {}
            None => self.watch.crossing.hear(peer, context, said),
        }
        true
    }

    /// Fails all requests that wait in an operation.
    fn fail_step(&mut self, (context, mine): (Context, Step), theirs: (Context, Step), error: Error) {
        let ids: Vec<RequestId> = self
            .posted
            .iter()
            .filter(|(pattern, _)| pattern.context == context && pattern.tag == Some(mine.tag()))
            .map(|(_, id)| id)
            .collect();
        for id in ids {
            if let Some(request) = self.requests.get_mut(id)
                && let Work::Receive(work) = &request.work
                && let ReceiveStage::Posted { id: place, .. } = work.stage
            {
                self.posted.remove(place);
                self.complete(id, Outcome::failed(error.clone()));
            }
        }
        if self.watch.failed.len() == FAILED_MAX {
            self.watch.failed.remove(0);
        }
        self.watch.failed.push(Failed {
            context,
            step: mine,
            against: theirs,
            error,
        });
    }
}
