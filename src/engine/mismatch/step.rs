//! How the tag of a collective operation's messages contains the operation.
//!
//! ```text
//!  31  30                           12  11      8  7            2  1    0
//! +---+-------------------------------+----------+--------------+--------+
//! | 0 | number, modulo 2¹⁹            | root     | name         | kind   |   kind: 0 blocking, 1 nonblocking, 2 persistent
//! +---+-------------------------------+----------+--------------+--------+
//! ```
//! The root is 0 for none, its rank + 1 up to 8, and 9 + (rank - 8) mod 7 from rank 8 on: most higher ranks are distinguished.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::base::error::Error;
use crate::err;
use crate::identity::PeerIndex;

/// The operations that tags distinguish; the first stands for all that make or end windows and files, and for the
/// messages of processes that meet.
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
    "MPI_Cart_create",
    "MPI_Cart_sub",
    "MPI_Comm_accept",
    "MPI_Comm_connect",
    "MPI_Comm_create",
    "MPI_Comm_dup",
    "MPI_Comm_spawn",
    "MPI_Comm_split",
    "MPI_Comm_split_type",
    "MPI_Dist_graph_create",
    "MPI_Dist_graph_create_adjacent",
    "MPI_Exscan",
    "MPI_Gather",
    "MPI_Gatherv",
    "MPI_Graph_create",
    "MPI_Intercomm_create",
    "MPI_Intercomm_merge",
    "MPI_Neighbor_allgather",
    "MPI_Neighbor_allgatherv",
    "MPI_Neighbor_alltoall",
    "MPI_Neighbor_alltoallv",
    "MPI_Neighbor_alltoallw",
    "MPI_Reduce",
    "MPI_Reduce_scatter",
    "MPI_Reduce_scatter_block",
    "MPI_Scan",
    "MPI_Scatter",
    "MPI_Scatterv",
];

const NAME_BITS: u32 = 6;
const ROOT_BITS: u32 = 4;
const KIND_BITS: u32 = 2;
pub(super) const NUMBER_BITS: u32 = 19;
const NUMBER_MASK: u32 = (1 << NUMBER_BITS) - 1;
const _: () = assert!(
    KIND_BITS + NAME_BITS + ROOT_BITS + NUMBER_BITS == 31 && OPERATIONS.len() < (1 << NAME_BITS) - 1,
    "a tag is not negative, and the largest one is the disconnect barrier's"
);

/// Roots of ranks below this are distinguished from all others.
const EXACT_ROOTS: u32 = 8;

/// Which operation it is: the name of its blocking procedure, and its root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    name: u8,
    root: u8,
}

impl Operation {
    /// One that makes or ends an object and has no name here.
    pub const OF_OBJECTS: Operation = Operation { name: 0, root: 0 };

    /// For constants: a name that is not known does not compile.
    pub const fn named(name: &str) -> Operation {
        let mut at = 1;
        while at < OPERATIONS.len() {
            if same(OPERATIONS[at].as_bytes(), name.as_bytes()) {
                return Operation {
                    name: at as u8,
                    root: 0,
                };
            }
            at += 1;
        }
        panic!("no collective operation of this name");
    }

    /// The same, with the process of this rank as its root.
    #[inline]
    pub fn of_root(self, rank: u32) -> Operation {
        let rooms = (1 << ROOT_BITS) - 1 - EXACT_ROOTS;
        let root = match rank {
            0..EXACT_ROOTS => rank + 1,
            _ => EXACT_ROOTS + 1 + (rank - EXACT_ROOTS) % rooms,
        };
        Operation {
            root: root as u8,
            ..self
        }
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

/// How an operation is begun. Those of each kind are numbered separately, so ranks may begin operations of different kinds in different
/// orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// By a call that returns when it has ended.
    Blocking,
    /// By a call that returns a request.
    Nonblocking,
    /// By each start of a persistent request. Its number is that of the request, which all ranks make in the same order.
    Persistent,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Blocking, Kind::Nonblocking, Kind::Persistent];

    /// The one of which a stuck process reports how many it has begun.
    pub(super) fn other(self) -> Option<Kind> {
        match self {
            Kind::Blocking => Some(Kind::Nonblocking),
            Kind::Nonblocking => Some(Kind::Blocking),
            Kind::Persistent => None,
        }
    }

    /// For messages to people.
    fn words(self) -> &'static str {
        match self {
            Kind::Blocking => "blocking",
            Kind::Nonblocking => "nonblocking",
            Kind::Persistent => "persistent",
        }
    }
}

/// A collective operation of a communicator, as it is in the tag of its messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// How many operations of its kind there were before it, modulo 2¹⁹.
    pub number: u32,
    /// Which operation it is.
    pub operation: Operation,
    /// How it is begun.
    pub kind: Kind,
}

impl Step {
    /// The tag of its messages.
    #[inline]
    pub fn tag(self) -> i32 {
        let Operation { name, root } = self.operation;
        let number = (self.number & NUMBER_MASK) << ROOT_BITS | u32::from(root);
        ((number << NAME_BITS | u32::from(name)) << KIND_BITS | self.kind as u32) as i32
    }

    /// Reads a tag; `None` where it is not the tag of a step.
    pub fn of_tag(tag: i32) -> Option<Step> {
        let bits = u32::try_from(tag).ok()?;
        let name = (bits >> KIND_BITS & ((1 << NAME_BITS) - 1)) as u8;
        let root = (bits >> (KIND_BITS + NAME_BITS) & ((1 << ROOT_BITS) - 1)) as u8;
        let kind = *Kind::ALL.get((bits & ((1 << KIND_BITS) - 1)) as usize)?;
        (usize::from(name) < OPERATIONS.len()).then_some(Step {
            number: bits >> (KIND_BITS + NAME_BITS + ROOT_BITS),
            operation: Operation { name, root },
            kind,
        })
    }

    /// Whether two ranks that are in these steps have called different operations.
    pub(super) fn contradicts(self, other: Step) -> bool {
        self.number == other.number && self.kind == other.kind && self.operation != other.operation
    }

    /// Whether a process that has begun `begun` operations of its kind has yet to begin it. (Numbers are used again: one
    /// that is less than half of them ahead is yet to come.)
    pub(super) fn is_to_come(self, begun: u32) -> bool {
        (self.number.wrapping_sub(begun) & NUMBER_MASK) < 1 << (NUMBER_BITS - 1)
    }

    /// The procedure, with its root where it has one.
    pub fn words(self) -> String {
        let blocking = OPERATIONS[usize::from(self.operation.name)];
        let mut words = match (self.kind, blocking.strip_prefix("MPI_")) {
            (Kind::Nonblocking, Some(rest)) => match rest.split_once('_') {
                // MPI_Comm_idup, but MPI_Ireduce_scatter.
                Some(("Comm", rest)) => format!("MPI_Comm_i{rest}"),
                _ => format!("MPI_I{}", rest.to_ascii_lowercase()),
            },
            (Kind::Persistent, Some(_)) => format!("{blocking}_init"),
            _ => blocking.into(),
        };
        match u32::from(self.operation.root) {
            0 => {}
            root if root <= EXACT_ROOTS => words += &format!(" with root {}", root - 1),
            _ => words += &format!(" with root {EXACT_ROOTS} or higher"),
        }
        words
    }

    /// The error of a rank that is in this operation while `peer` is in another one of the same number.
    pub(super) fn error(self, other: Step, peer: PeerIndex) -> Error {
        let (mine, theirs) = (self.words(), other.words());
        let theirs = if mine == theirs { "another root's" } else { &theirs };
        err!(
            Other,
            "the processes call different collective operations: where this one is in {mine}, process {} is in {theirs} (number {} of \
             the {} ones on this communicator)",
            peer.number(),
            u64::from(self.number) + 1,
            self.kind.words()
        )
    }
}

/// How many collective operations of each kind a process has begun on a communicator.
#[derive(Default, Debug)]
pub struct Begun([AtomicU32; Kind::ALL.len()]);

impl Begun {
    /// Begins the next one. Threads that begin operations of a communicator have to do so one after the other (MPI 5.0 section 6.14), so
    /// this needs no locked instruction; if they don't, two operations have the same number, as they might on different processes anyway.
    #[inline]
    pub fn next(&self, operation: Operation, kind: Kind) -> Step {
        let count = &self.0[kind as usize];
        let number = count.load(Ordering::Relaxed);
        count.store(number.wrapping_add(1), Ordering::Relaxed);
        Step {
            number,
            operation,
            kind,
        }
    }

    /// How many of one kind, modulo 2¹⁹.
    pub(super) fn count(&self, kind: Kind) -> u32 {
        self.0[kind as usize].load(Ordering::Relaxed) & NUMBER_MASK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_that_are_far_share_what_room_there_is() {
        let room = |rank| Operation::named("MPI_Bcast").of_root(rank).root;
        let mut seen = std::collections::BTreeSet::new();
        for rank in 0..1000 {
            assert!((1..1 << ROOT_BITS).contains(&u32::from(room(rank))), "{rank}");
            assert!(seen.insert(room(rank)) || rank >= EXACT_ROOTS, "{rank}");
        }
        assert_eq!(seen.len(), (1 << ROOT_BITS) - 1, "all of it is used");
    }

    #[test]
    fn a_tag_tells_its_step() {
        for number in [0, 1, 77, NUMBER_MASK] {
            for (at, name) in OPERATIONS.iter().enumerate() {
                let operation = match at {
                    0 => Operation::OF_OBJECTS,
                    _ => Operation::named(name),
                };
                for operation in [
                    operation,
                    operation.of_root(0),
                    operation.of_root(7),
                    operation.of_root(99),
                ] {
                    for kind in Kind::ALL {
                        let step = Step {
                            number,
                            operation,
                            kind,
                        };
                        assert_eq!(Step::of_tag(step.tag()), Some(step));
                        assert!((0..i32::MAX).contains(&step.tag()), "{step:?}");
                    }
                }
            }
        }
        for name in 0..1 << NAME_BITS {
            let step = Step::of_tag(name << KIND_BITS);
            assert_eq!(step.is_some(), (name as usize) < OPERATIONS.len(), "{name}");
        }
        assert_eq!(Step::of_tag(3), None, "there is no such kind");
        assert_eq!(Step::of_tag(i32::MAX), None, "the disconnect barrier's");
        assert_eq!(Step::of_tag(-1), None);
    }

    #[test]
    fn roots_are_told_apart_and_never_taken_for_none() {
        let gather = Operation::named("MPI_Gather");
        for one in 0..8 {
            assert_ne!(gather.of_root(one), gather);
            for other in (0..100).filter(|&other| other != one) {
                assert_ne!(gather.of_root(one), gather.of_root(other), "{one} and {other}");
            }
        }
        for one in 8..200 {
            assert!((one + 1..one + 7).all(|other| gather.of_root(one) != gather.of_root(other)));
        }
    }

    fn step(number: u32, name: &str, kind: Kind) -> Step {
        Step {
            number,
            operation: Operation::named(name),
            kind,
        }
    }

    #[test]
    fn only_different_operations_of_one_number_contradict_each_other() {
        let mine = step(3, "MPI_Bcast", Kind::Blocking);
        assert!(mine.contradicts(step(3, "MPI_Barrier", Kind::Blocking)));
        assert!(!mine.contradicts(mine));
        assert!(!mine.contradicts(step(4, "MPI_Barrier", Kind::Blocking)));
        assert!(!mine.contradicts(step(3, "MPI_Barrier", Kind::Nonblocking)));
        let blocking = mine
            .error(step(3, "MPI_Barrier", Kind::Blocking), PeerIndex::new(5))
            .message;
        assert!(
            blocking.contains("MPI_Bcast") && blocking.contains("MPI_Barrier"),
            "{blocking}"
        );
        let said = step(3, "MPI_Reduce", Kind::Nonblocking)
            .error(step(3, "MPI_Bcast", Kind::Nonblocking), PeerIndex::new(5))
            .message;
        assert!(
            said.contains("MPI_Ireduce") && said.contains("process 5 is in MPI_Ibcast"),
            "{said}"
        );
    }

    #[test]
    fn words_are_those_of_the_procedures() {
        let of = |name: &str, kind, root: Option<u32>| {
            let operation = Operation::named(name);
            let operation = root.map_or(operation, |root| operation.of_root(root));
            Step {
                operation,
                ..step(0, name, kind)
            }
            .words()
        };
        assert_eq!(
            of("MPI_Reduce_scatter", Kind::Nonblocking, None),
            "MPI_Ireduce_scatter"
        );
        assert_eq!(of("MPI_Comm_dup", Kind::Nonblocking, None), "MPI_Comm_idup");
        assert_eq!(of("MPI_Comm_dup", Kind::Blocking, None), "MPI_Comm_dup");
        assert_eq!(
            of("MPI_Reduce_scatter", Kind::Persistent, None),
            "MPI_Reduce_scatter_init"
        );
        assert_eq!(
            of("MPI_Bcast", Kind::Persistent, Some(2)),
            "MPI_Bcast_init with root 2"
        );
        assert_eq!(
            of("MPI_Gather", Kind::Blocking, Some(0)),
            "MPI_Gather with root 0"
        );
        assert_eq!(
            of("MPI_Gather", Kind::Nonblocking, Some(7)),
            "MPI_Igather with root 7"
        );
        assert_eq!(
            of("MPI_Gather", Kind::Blocking, Some(8)),
            "MPI_Gather with root 8 or higher"
        );
    }

    #[test]
    fn what_has_begun_does_not_come_any_more() {
        let begun = Begun::default();
        for number in 0..3 {
            let next = step(number, "MPI_Barrier", Kind::Blocking);
            assert!(next.is_to_come(begun.count(Kind::Blocking)));
            assert_eq!(begun.next(next.operation, Kind::Blocking), next);
            assert!(!next.is_to_come(begun.count(Kind::Blocking)));
            assert_eq!(begun.count(Kind::Nonblocking), 0);
        }
        let last = step(NUMBER_MASK, "MPI_Barrier", Kind::Blocking);
        assert!(last.is_to_come(NUMBER_MASK) && !last.is_to_come(0) && !last.is_to_come(1));
        assert!(step(1, "MPI_Barrier", Kind::Blocking).is_to_come(NUMBER_MASK));
    }
}
