//! Collective operations that ranks call in different orders, which is an error of the program: it is told, in words, in place of a
//! wait that never ends.
//!
//! The tag of a collective operation's messages has the operation in it ([`Step`]), so those of different operations never meet. When
//! an operation waits for long, the engine looks whether its peer's message of the same number is there, and of another operation;
//! if none is, it tells the peer what it waits in (`Waits`), once a second at first and then ever more rarely, as the peer may
//! only be late. A peer that waits in another operation of that number fails its own and answers in kind. Nothing of this touches a
//! message that comes in time.

use std::time::{Duration, Instant};

use super::matching::Pattern;
use super::request::{Outcome, ReceiveStage, RequestId, Work};
use super::wire::Kind;
use super::{Engine, State};
use crate::err;
use crate::error::Error;
use crate::lane::ProcId;

/// The operations that tags tell apart; the first stands for all that make or end communicators, windows and files.
const OPERATIONS: &[&str] = &[
    "an operation that makes or ends an object",
    "MPI_Allgather",
    "MPI_Allgatherv",
    "MPI_Allreduce",
    "MPI_Alltoall",
    "MPI_Alltoallv",
    "MPI_Alltoallw",
    "MPI_Barrier",
    "MPI_Bcast",
    "MPI_Exscan",
    "MPI_Gather",
    "MPI_Gatherv",
    "MPI_Reduce",
    "MPI_Reduce_scatter",
    "MPI_Reduce_scatter_block",
    "MPI_Scan",
    "MPI_Scatter",
    "MPI_Scatterv",
];

const OPERATION_BITS: u32 = 6;
const _: () = assert!(
    OPERATIONS.len() < (1 << OPERATION_BITS) - 1,
    "the largest tag is the parting's"
);

/// Which operation it is, by the name of its blocking procedure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation(u8);

impl Operation {
    /// One that makes or ends an object.
    pub const OF_OBJECTS: Operation = Operation(0);

    /// For constants: a name that is not known does not compile.
    pub const fn named(name: &str) -> Operation {
        let mut at = 1;
        while at < OPERATIONS.len() {
            if same(OPERATIONS[at].as_bytes(), name.as_bytes()) {
                return Operation(at as u8);
            }
            at += 1;
        }
        panic!("no collective operation of this name");
    }
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// A collective operation of a communicator, as the tag of its messages tells it. Blocking and nonblocking ones are numbered
/// each by themselves, so ranks may start one of each in different orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// How many there were before it, modulo 2²⁴.
    pub number: u32,
    /// Which it is.
    pub operation: Operation,
    /// Whether it is a nonblocking one.
    pub nonblocking: bool,
}

impl Step {
    /// The tag of its messages.
    #[inline]
    pub fn tag(self) -> i32 {
        let number = (self.number & 0xff_ffff) << (OPERATION_BITS + 1);
        (number | u32::from(self.operation.0) << 1 | u32::from(self.nonblocking)) as i32
    }

    /// What a tag says; `None` where it is no step's.
    fn of_tag(tag: i32) -> Option<Step> {
        let bits = u32::try_from(tag).ok()?;
        let operation = (bits >> 1 & ((1 << OPERATION_BITS) - 1)) as u8;
        (usize::from(operation) < OPERATIONS.len()).then_some(Step {
            number: bits >> (OPERATION_BITS + 1),
            operation: Operation(operation),
            nonblocking: bits & 1 != 0,
        })
    }

    /// Whether two ranks that are in these have called different operations.
    fn contradicts(self, other: Step) -> bool {
        self.number == other.number
            && self.nonblocking == other.nonblocking
            && self.operation != other.operation
    }

    fn name(self) -> String {
        let blocking = OPERATIONS[usize::from(self.operation.0)];
        match blocking.strip_prefix("MPI_") {
            Some(rest) if self.nonblocking => format!("MPI_I{}", rest.to_ascii_lowercase()),
            _ => blocking.into(),
        }
    }

    fn error(self, other: Step, peer: ProcId) -> Error {
        err!(
            Other,
            "the processes call different collective operations: where this one is in {}, process {} is in {} (number {} of the {} \
             ones on this communicator)",
            self.name(),
            peer.0,
            other.name(),
            u64::from(self.number) + 1,
            if self.nonblocking {
                "nonblocking"
            } else {
                "blocking"
            }
        )
    }
}

/// How long a wait is before it is looked into, and the longest until it is looked into again.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// How many failed operations are remembered: what one of them still posts fails too.
const FAILED_MAX: usize = 64;

/// Whether a step is more than a few numbers from another one.
fn is_far(tag: Option<i32>, other: i32) -> bool {
    let number = |tag: i32| Step::of_tag(tag).map(|step| step.number);
    match (tag.and_then(number), number(other)) {
        (Some(one), Some(other)) => one.abs_diff(other) > FAILED_MAX as u32,
        _ => true,
    }
}

/// When to look.
#[derive(Default)]
pub(super) struct Watch {
    /// The context and tag that was waited for at the last look, and when the next one is due.
    waits: Option<(u64, i32, Instant, Duration)>,
    failed: Vec<(u64, i32, Error)>,
}

impl Engine {
    /// For a process that sleeps: looks into collective operations that wait for long. `is_collective`: whether a context and a tag
    /// are those of a collective operation's messages.
    pub fn look_into_waits(&mut self, is_collective: impl Fn(u64, i32) -> bool) {
        let now = Instant::now();
        if let Some((_, _, due, _)) = self.state.watch.waits
            && now < due
            && self.state.watch.failed.is_empty()
        {
            return;
        }
        let waiting: Vec<(Pattern, RequestId)> = self
            .state
            .posted
            .iter()
            .filter(|(pattern, _)| pattern.tag.is_some_and(|tag| is_collective(pattern.context, tag)))
            .map(|(pattern, id)| (*pattern, id))
            .collect();
        let first = waiting
            .iter()
            .map(|(pattern, _)| (pattern.context, pattern.tag.unwrap_or(0)))
            .min();
        let Some((context, tag)) = first else {
            // Nothing here; not to be asked at each of many short sleeps.
            self.state.watch.waits = Some((0, 0, now + FIRST, FIRST));
            return;
        };
        // What this process has left behind is forgotten, long before its number comes round again.
        self.state.watch.failed.retain(|(context, tag, _)| {
            let left = |pattern: &Pattern| pattern.context == *context && is_far(pattern.tag, *tag);
            !waiting.iter().any(|(pattern, _)| left(pattern))
        });
        for (pattern, id) in &waiting {
            let known = self
                .state
                .watch
                .failed
                .iter()
                .find(|(context, tag, _)| *context == pattern.context && Some(*tag) == pattern.tag);
            if let Some(error) = known.map(|known| known.2.clone()) {
                self.give_up(*id, error);
            }
        }
        match self.state.watch.waits {
            Some((before, tag_before, due, pause)) if (before, tag_before) == (context, tag) => {
                if now >= due {
                    let pause = (pause * 2).min(LONGEST);
                    self.state.watch.waits = Some((context, tag, now + pause, pause));
                    self.look_into(&waiting);
                }
            }
            _ => self.state.watch.waits = Some((context, tag, now + FIRST, FIRST)),
        }
    }

    fn look_into(&mut self, waiting: &[(Pattern, RequestId)]) {
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
                Some(theirs) => self.state.fail_step(pattern.context, mine, theirs, peer),
                None => self.state.say_waits(peer, pattern.context, mine),
            }
        }
    }
}

impl State {
    /// From which process a receive waits for a message of which operation.
    fn waits_in(&self, id: RequestId, pattern: &Pattern) -> Option<(ProcId, Step)> {
        let request = self.requests.get(id)?;
        let Work::Receive(work) = &request.work else {
            return None;
        };
        // It may have failed beside another one of its operation.
        if request.outcome.is_some() {
            return None;
        }
        match &work.stage {
            ReceiveStage::Posted { peer, .. } => Some(((*peer)?, Step::of_tag(pattern.tag?)?)),
            ReceiveStage::Fetching(_) => None,
        }
    }

    fn say_waits(&mut self, peer: ProcId, context: u64, step: Step) {
        self.reply(peer, Kind::Waits, context, step.tag() as u64, &[]);
    }

    /// A peer says in which operation it waits for this process. `false`: that makes no sense.
    pub(super) fn on_waits(&mut self, peer: ProcId, context: u64, tag: u64) -> bool {
        let Some(theirs) = i32::try_from(tag).ok().and_then(Step::of_tag) else {
            return false;
        };
        let contradicting =
            |of: u64, tag: i32| Step::of_tag(tag).filter(|mine| of == context && mine.contradicts(theirs));
        let waiting = {
            let mut patterns = self.posted.iter().map(|(pattern, _)| pattern);
            patterns.find_map(|pattern| contradicting(pattern.context, pattern.tag?))
        };
        if let Some(mine) = waiting {
            self.fail_step(context, mine, theirs, peer);
        }
        // It may have failed before, when another peer was heard.
        let failed = &self.watch.failed;
        let mine = waiting.or_else(|| failed.iter().find_map(|(of, tag, _)| contradicting(*of, *tag)));
        if let Some(mine) = mine {
            // So that the peer's fails as well.
            self.say_waits(peer, context, mine);
        }
        true
    }

    /// All that waits in an operation fails.
    fn fail_step(&mut self, context: u64, mine: Step, theirs: Step, peer: ProcId) {
        let error = mine.error(theirs, peer);
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
        self.watch.failed.push((context, mine.tag(), error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_tells_its_step() {
        for number in [0, 1, 77, 0xff_ffff] {
            for (at, name) in OPERATIONS.iter().enumerate() {
                let operation = match at {
                    0 => Operation::OF_OBJECTS,
                    _ => Operation::named(name),
                };
                for nonblocking in [false, true] {
                    let step = Step {
                        number,
                        operation,
                        nonblocking,
                    };
                    assert_eq!(Step::of_tag(step.tag()), Some(step));
                    assert!((0..i32::MAX).contains(&step.tag()), "{step:?}");
                }
            }
        }
        assert_eq!(Step::of_tag(i32::MAX), None, "the parting's");
        assert_eq!(Step::of_tag(-1), None);
    }

    #[test]
    fn only_different_operations_of_one_number_contradict_each_other() {
        let step = |number, name, nonblocking| Step {
            number,
            operation: Operation::named(name),
            nonblocking,
        };
        let mine = step(3, "MPI_Bcast", false);
        assert!(mine.contradicts(step(3, "MPI_Barrier", false)));
        assert!(!mine.contradicts(mine));
        assert!(!mine.contradicts(step(4, "MPI_Barrier", false)));
        assert!(!mine.contradicts(step(3, "MPI_Barrier", true)));
        let blocking = mine.error(step(3, "MPI_Barrier", false), ProcId(5)).message;
        assert!(
            blocking.contains("MPI_Bcast") && blocking.contains("MPI_Barrier"),
            "{blocking}"
        );
        let said = step(3, "MPI_Reduce", true)
            .error(step(3, "MPI_Bcast", true), ProcId(5))
            .message;
        assert!(
            said.contains("MPI_Ireduce") && said.contains("process 5 is in MPI_Ibcast"),
            "{said}"
        );
    }
}
