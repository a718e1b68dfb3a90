//! Dividing a communicator by where its processes are: by hardware, or by sets of processes (MPI 5.0 section 7.4.2,
//! `MPI_Comm_split_type`).

use std::sync::Arc;

use super::create::NO_COLOR;
use crate::base::error::Result;
use crate::engine::mismatch::Operation;
use crate::objects::collective;
use crate::objects::communicator::Communicator;
use crate::system::locality::{HardwareKind, Processors, Topology};

/// The procedure that uses all this.
const SPLIT_TYPE: Operation = Operation::named("MPI_Comm_split_type");

/// How many kinds of things a process can belong to.
const LEVELS: usize = HardwareKind::ALL.len();
/// In a message: in none.
const NOWHERE: u32 = u32::MAX;

/// Where a process is, by its own report: for each kind of thing, the only one that it is confined to. The callers agree
/// on which kinds these are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The node; things of different nodes are different.
    pub node: u64,
    /// By kind.
    pub within: [Option<u32>; LEVELS],
}

/// The kind by which a communicator is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// The first kind.
    First,
    /// The first kind for which not all processes are in the same thing.
    Different,
}

impl Place {
    /// Nowhere: such a process gets no communicator.
    pub const NOWHERE: Place = Place {
        node: 0,
        within: [None; LEVELS],
    };

    /// In one thing of one kind.
    pub fn within(node: u64, number: u32) -> Place {
        let mut place = Place {
            node,
            ..Place::NOWHERE
        };
        place.within[0] = Some(number);
        place
    }

    /// In all kinds of hardware to which these processors confine a process, the largest first ([`HardwareKind::ALL`]).
    pub fn of_hardware(node: u64, topology: &Topology, processors: &Processors) -> Place {
        let confined = |kind| topology.confined(kind, processors);
        Place {
            node,
            within: HardwareKind::ALL
                .map(|kind| confined(kind).and_then(|number| u32::try_from(number).ok())),
        }
    }

    const BYTES: usize = 8 + 4 * LEVELS;

    fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (node, numbers) = bytes.split_at_mut(8);
        node.copy_from_slice(&self.node.to_le_bytes());
        for (place, number) in numbers.chunks_exact_mut(4).zip(self.within) {
            place.copy_from_slice(&number.unwrap_or(NOWHERE).to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Place {
        let (node, numbers) = bytes.split_at(8);
        let mut place = Place::within(u64::from_le_bytes(node.try_into().expect("8 bytes")), 0);
        for (number, bytes) in place.within.iter_mut().zip(numbers.chunks_exact(4)) {
            let read = u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
            *number = (read != NOWHERE).then_some(read);
        }
        place
    }

    fn at(&self, level: usize) -> Option<(u64, u32)> {
        self.within[level].map(|number| (self.node, number))
    }
}

/// The kind that divides these processes. Those that are nowhere do not count.
fn dividing(all: &[Place], by: By) -> Option<usize> {
    if by == By::First {
        return Some(0);
    }
    let asked = || all.iter().filter(|place| **place != Place::NOWHERE);
    (0..LEVELS).find(|&level| {
        // A kind to which no process is confined does not divide them.
        let mut somewhere = asked().filter_map(|place| place.at(level));
        match somewhere.next() {
            Some(first) => asked().any(|place| place.at(level) != Some(first)),
            None => false,
        }
    })
}

/// The color of a process: the first one that is in the same thing.
fn color(all: &[Place], me: usize, level: usize) -> Option<usize> {
    let mine = all[me].at(level)?;
    all.iter().position(|other| other.at(level) == Some(mine))
}

impl Communicator {
    /// One communicator for each thing with processes of this one in it, ranks by key and then by old rank; and the kind
    /// of the things, counted as in [`Place::within`]. `None` for a process that is in none of them. Each process passes
    /// where it is, and all that are somewhere pass the same `by`.
    ///
    /// On an intercommunicator, one between the processes of both groups that are in the same thing.
    pub async fn split_by_place(
        self: Arc<Self>,
        place: Place,
        by: By,
        key: i32,
    ) -> Result<Option<(Arc<Communicator>, usize)>> {
        let (all, me) = {
            let operation = self.step(SPLIT_TYPE, false);
            let operation = operation.everybody();
            let all = collective::allgather_bytes(&operation, &place.encode()).await?;
            let places: Vec<Place> = all.chunks_exact(Place::BYTES).map(Place::decode).collect();
            (places, operation.rank() as usize)
        };
        let level = dividing(&all, by);
        let color = level.and_then(|level| color(&all, me, level));
        // The others may make communicators without this process, but it has to take part in that.
        let made = self
            .split_by(SPLIT_TYPE, color.map_or(NO_COLOR, |color| color as i32), key)
            .await?;
        Ok(made.zip(level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: usize = HardwareKind::Machine as usize;
    const PACKAGE: usize = HardwareKind::Package as usize;
    const CORE: usize = HardwareKind::Core as usize;

    /// In a machine, and perhaps in a package and a core.
    fn place(node: u64, package: Option<u32>, core: Option<u32>) -> Place {
        let mut place = Place::within(node, 0);
        place.within[PACKAGE] = package;
        place.within[CORE] = core;
        place
    }

    fn divided(all: &[Place]) -> Option<(usize, Vec<Option<usize>>)> {
        let level = dividing(all, By::Different)?;
        Some((level, (0..all.len()).map(|me| color(all, me, level)).collect()))
    }

    #[test]
    fn a_place_comes_back() {
        let all = [
            place(1 << 40, Some(0), None),
            Place::NOWHERE,
            place(3, None, Some(7)),
        ];
        for place in all {
            assert_eq!(Place::decode(&place.encode()), place);
        }
    }

    #[test]
    fn the_largest_kind_that_divides_is_taken() {
        let two_nodes = [
            place(0, Some(0), None),
            place(1, Some(0), None),
            place(0, Some(1), None),
        ];
        assert_eq!(
            divided(&two_nodes),
            Some((MACHINE, vec![Some(0), Some(1), Some(0)]))
        );
        let two_packages = [
            place(0, Some(1), Some(4)),
            place(0, Some(0), Some(1)),
            place(0, Some(1), Some(5)),
        ];
        assert_eq!(
            divided(&two_packages),
            Some((PACKAGE, vec![Some(0), Some(1), Some(0)]))
        );
        let one_package = [
            place(0, Some(0), Some(2)),
            place(0, Some(0), Some(2)),
            place(0, Some(0), Some(1)),
        ];
        assert_eq!(
            divided(&one_package),
            Some((CORE, vec![Some(0), Some(0), Some(2)]))
        );
    }

    #[test]
    fn who_is_not_confined_gets_nothing_and_may_divide_others() {
        let free = place(0, None, None);
        let all = [place(0, Some(0), Some(0)), place(0, Some(0), Some(1)), free];
        assert_eq!(divided(&all), Some((PACKAGE, vec![Some(0), Some(0), None])));
        // No process can be in a part of this.
        assert_eq!(divided(&[free, free]), None);
        assert_eq!(divided(&[place(0, Some(0), Some(1)); 2]), None);
        assert_eq!(divided(&[free]), None);
        assert_eq!(divided(&[]), None);
        // A process that takes no part does not count.
        assert_eq!(divided(&[Place::NOWHERE, free]), None);
        assert_eq!(
            divided(&[Place::NOWHERE, place(0, None, Some(0)), place(0, None, Some(1))]),
            Some((CORE, vec![None, Some(1), Some(2)]))
        );
    }

    #[test]
    fn the_first_kind_may_leave_all_together() {
        let all = [
            Place::within(0, 3),
            Place::within(0, 3),
            Place::NOWHERE,
            Place::within(1, 3),
        ];
        assert_eq!(dividing(&all, By::First), Some(0));
        let colors: Vec<_> = (0..4).map(|me| color(&all, me, 0)).collect();
        assert_eq!(colors, [Some(0), Some(0), None, Some(3)]);
    }
}
