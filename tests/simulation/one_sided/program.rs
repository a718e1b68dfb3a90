//! What the ranks of a run do: windows, operations, and the steps of each rank.

use std::ops::Range;

use super::element::Elem;
use super::shape::Shape;

/// A run.
#[derive(Debug)]
pub struct Program {
    pub seed: u64,
    pub ranks: u32,
    pub windows: Vec<WindowPlan>,
    /// By their numbers. Those of one rank to one window are started in the order of their numbers.
    pub operations: Vec<Operation>,
    pub races: Vec<Race>,
    /// By rank.
    pub steps: Vec<Vec<Step>>,
}

/// How a window is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavor {
    Create,
    Allocate,
    Shared,
    Dynamic,
}

#[derive(Debug)]
pub struct WindowPlan {
    pub flavor: Flavor,
    /// By rank.
    pub parts: Vec<Part>,
}

/// What a rank exposes. Offsets count from its first byte; in a dynamic window they go through all chunks.
#[derive(Debug)]
pub struct Part {
    pub unit: i64,
    /// The sizes of what is attached; only one for others than dynamic windows.
    pub chunks: Vec<usize>,
    pub initial: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Put,
    Get,
    Accumulate(usize),
    GetAccumulate(usize),
    CompareAndSwap,
}

impl Kind {
    pub fn fetches(self) -> bool {
        matches!(self, Kind::Get | Kind::GetAccumulate(_) | Kind::CompareAndSwap)
    }

    pub fn op(self) -> Option<usize> {
        match self {
            Kind::Accumulate(op) | Kind::GetAccumulate(op) => Some(op),
            _ => None,
        }
    }

    /// Whether it is atomic, and ordered with others of the same origin.
    pub fn is_ordered(self) -> bool {
        !matches!(self, Kind::Put | Kind::Get)
    }
}

#[derive(Clone, Debug)]
pub enum Data {
    /// Packed.
    Bytes(Vec<u8>),
    /// What an operation before has fetched, plus a number in each of its elements, which are 64-bit integers.
    Incremented { fetched_by: usize, by: u64 },
}

#[derive(Debug)]
pub struct Operation {
    pub origin: u32,
    pub window: usize,
    pub target: u32,
    pub kind: Kind,
    /// Where the places of `there` are counted from.
    pub at: usize,
    pub there: Shape,
    pub here: Shape,
    pub data: Data,
    /// Of a comparison.
    pub compare: Vec<u8>,
    /// Where what is fetched goes.
    pub result: Shape,
    pub request: bool,
    /// Whether there is only one result.
    pub defined: bool,
    pub race: Option<usize>,
}

impl Operation {
    /// The packed bytes at the target.
    pub fn bytes(&self) -> impl Iterator<Item = usize> + '_ {
        self.there.bytes().map(|byte| self.at + byte)
    }
}

/// Elements that several ranks fetch and change, so that their results tell the order.
#[derive(Debug)]
pub struct Race {
    pub kind: RaceKind,
    pub window: usize,
    pub target: u32,
    pub at: usize,
    pub elem: Elem,
    /// What is there before, packed.
    pub initial: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RaceKind {
    /// Each operation adds a bit of its own.
    Marks,
    /// Each operation stores a value of its own.
    Swaps,
    /// Each operation stores a value of its own if it finds that of another one.
    Compares,
}

/// A part of a window in a check.
#[derive(Clone, Debug)]
pub struct Elements {
    pub at: usize,
    pub elem: Elem,
    pub count: usize,
}

impl Elements {
    pub fn range(&self) -> Range<usize> {
        self.at..self.at + self.count * self.elem.extent
    }
}

#[derive(Clone, Debug)]
pub enum Step {
    /// Starts an operation.
    Operate(usize),
    /// Waits for its request.
    Wait(usize),
    /// This rank's own memory.
    Store {
        window: usize,
        at: usize,
        bytes: Vec<u8>,
    },
    /// Looks at this rank's own memory. The contents of races are not known before; those of approximate elements can have different
    /// bytes, and get the usual ones.
    Check {
        window: usize,
        approximate: Vec<Elements>,
        races: Vec<usize>,
    },
    Barrier,
    Fence {
        window: usize,
        assert: i32,
    },
    Post {
        window: usize,
        group: Vec<u32>,
        unchecked: bool,
    },
    Start {
        window: usize,
        group: Vec<u32>,
        unchecked: bool,
    },
    Complete(usize),
    /// The end of an exposure epoch, by `MPI_Win_test` or by `MPI_Win_wait`.
    End {
        window: usize,
        test: bool,
    },
    Lock {
        window: usize,
        rank: u32,
        exclusive: bool,
        unchecked: bool,
    },
    Unlock {
        window: usize,
        rank: u32,
    },
    LockAll {
        window: usize,
        unchecked: bool,
    },
    UnlockAll(usize),
    Flush {
        window: usize,
        rank: Option<u32>,
        local: bool,
    },
    Sync(usize),
    Pause(u64),
}
