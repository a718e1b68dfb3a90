//! Which algorithm a collective operation uses. All members must choose the same, so every choice depends only on what
//! the standard makes them agree on (the number of processes, the bytes of a matching block, the operation), and on what
//! the launcher says to all alike (the number of processors that all share, and which processes share a host): never on a setting,
//! which may differ. (Two settings for tests change which processes share a host; that all see the same hosts is checked when they
//! connect: `instance::hosts`.)
//!
//! The crossing points are those of algorithms whose costs are latency × rounds + bytes ÷ bandwidth; each constant
//! says where the second term starts to win.

use crate::objects::communicator::area::SHORT;
use crate::system::bootstrap::Job;

/// The cost of switching between two processes on one processor, as a number of messages.
const SWITCH: u32 = 4;

/// Whether direct messages between one process and all others cost less than ⌈log₂ n⌉ rounds: where a job's processes
/// share processors, no process's next round begins before all have had their turn.
pub(super) fn flat(size: u32, job: &Job) -> bool {
    let Some(processors) = job.shared_processors() else {
        return false;
    };
    let rounds = size.next_power_of_two().ilog2();
    let turns = rounds
        .saturating_sub(1)
        .saturating_mul(job.size.div_ceil(processors));
    size > 2 && turns.saturating_mul(SWITCH) >= size
}

/// Whether a blocking operation uses the memory that all of its processes share for blocks of so many bytes. Between two processes that
/// do not share processors, a long one goes through a ring that is longer than their caches, or is read from the other's memory; places
/// in shared memory would be written while the other core still has them.
pub(super) fn in_shared_memory(bytes: u64, size: u32, crowded: impl FnOnce() -> bool) -> bool {
    bytes <= SHORT as u64 || size > 2 || crowded()
}

/// Short broadcasts send the whole message ⌈log₂ n⌉ times in a row; longer ones cut it into pieces.
const BCAST_SHORT: u64 = 12 << 10;
/// With fewer processes the tree is so shallow that cutting does not pay ...
const BCAST_PIECES_FROM: u32 = 4;
/// ... unless the message is really long.
const BCAST_LONG: u64 = 512 << 10;

/// How to broadcast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bcast {
    /// From the root to each, whole.
    Flat,
    /// Down a binomial tree, whole.
    Binomial,
    /// Pieces down a binomial tree, then an allgather by recursive doubling.
    ScatterDoubling,
    /// Pieces down a binomial tree, then round a ring.
    ScatterRing,
}

pub(super) fn bcast(bytes: u64, size: u32, flat: bool) -> Bcast {
    if flat && bytes <= BCAST_SHORT {
        Bcast::Flat
    } else if bytes <= BCAST_SHORT || size < BCAST_PIECES_FROM {
        Bcast::Binomial
    } else if bytes <= BCAST_LONG && size.is_power_of_two() {
        Bcast::ScatterDoubling
    } else {
        Bcast::ScatterRing
    }
}

/// In how many pieces a message of medium length goes from host to host.
const CHAIN_PIECES: u32 = 3;
/// The shortest piece of a long one in bytes: a host has passed on a piece of that length in the time of a few messages.
const CHAIN_PIECE: u64 = 128 << 10;

/// In how many pieces a broadcast goes along a chain of hosts; `None`: down a tree of hosts, or as it does among as many
/// processes. With p pieces and h hosts, the chain takes the time of (p + h - 2) ÷ p messages, so long messages are cut more often;
/// but there are at most half as many messages between hosts as where all `size` processes pass pieces round a ring (h × size).
pub(super) fn bcast_chain(bytes: u64, hosts: u32, size: u32) -> Option<u32> {
    if bytes <= BCAST_SHORT {
        return None;
    }
    let pieces = match bytes <= BCAST_LONG {
        true => CHAIN_PIECES,
        false => bytes.div_ceil(CHAIN_PIECE).min((size / 2 + 1).into()) as u32,
    };
    // Otherwise dividing the message among the hosts, and exchanging the parts, takes less time: that of two messages.
    (hosts - 1 <= pieces).then_some(pieces)
}

/// Blocks up to this many bytes travel up and down trees; longer ones directly between root and rank, without being
/// copied on the way.
const TREE_BLOCK: u64 = 2 << 10;
/// With fewer processes a tree saves the root no message.
const TREE_FROM: u32 = 5;

/// Whether gather and scatter use a binomial tree for blocks of this many bytes.
pub(super) fn gather_by_tree(block: u64, size: u32) -> bool {
    block <= TREE_BLOCK && size >= TREE_FROM
}

/// Up to this many bytes in all, an allgather doubles what it has in each round.
const ALLGATHER_DOUBLING: u64 = 512 << 10;
/// Up to this many bytes in all, it may copy everything once more (Bruck).
const ALLGATHER_BRUCK: u64 = 80 << 10;

/// How to gather to all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Allgather {
    /// Recursive doubling, in place.
    Doubling,
    /// Bruck's algorithm, in temporary memory.
    Bruck,
    /// Neighbour to neighbour.
    Ring,
}

/// `even`: all blocks are equally long and consecutive.
pub(super) fn allgather(total: u64, size: u32, even: bool) -> Allgather {
    if even && size.is_power_of_two() && total <= ALLGATHER_DOUBLING {
        Allgather::Doubling
    } else if total <= ALLGATHER_BRUCK && size > 2 {
        Allgather::Bruck
    } else {
        Allgather::Ring
    }
}

/// Blocks up to this many bytes are forwarded by others, in ⌈log₂ n⌉ rounds, rather than sent in `n - 1` messages ...
const ALLTOALL_BRUCK: u64 = 256;
/// ... where there are this many processes.
const ALLTOALL_BRUCK_FROM: u32 = 8;

/// Whether alltoall uses Bruck's algorithm for blocks of this many bytes.
pub(super) fn alltoall_by_bruck(block: u64, size: u32) -> bool {
    block <= ALLTOALL_BRUCK && size >= ALLTOALL_BRUCK_FROM
}

/// How many exchanges with other ranks are under way at once.
pub(super) const WINDOW: usize = 32;

/// Reductions of up to this many bytes send everything in each of ⌈log₂ n⌉ rounds; longer ones divide the work.
const REDUCE_SHORT: u64 = 8 << 10;
/// From this many bytes on, a ring's `2 (n - 1)` rounds beat folding to a power of two, which sends everything once more.
const ALLREDUCE_RING: u64 = 256 << 10;

/// Longer reductions are in one level if the ranks of each host are consecutive: halving then also exchanges most bytes inside
/// hosts, and all processes work, not only the heads.
const REDUCE_TWO_LEVELS: u64 = 128 << 10;

/// Whether reductions over several hosts are in two levels. Where the order of operands matters, the ranks of each host have to be
/// `consecutive`.
pub(super) fn reduce_in_two_levels(bytes: u64, commutes: bool, consecutive: bool) -> bool {
    match consecutive {
        true => bytes <= REDUCE_TWO_LEVELS,
        false => commutes,
    }
}

/// How to reduce to all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Allreduce {
    /// To one process, and from there to all.
    Flat,
    /// Recursive doubling.
    Doubling,
    /// Reduce-scatter by recursive halving, then an allgather by doubling (Rabenseifner).
    Halving,
    /// Reduce-scatter and allgather round a ring.
    Ring,
}

pub(super) fn allreduce(bytes: u64, count: u64, size: u32, commutes: bool, flat: bool) -> Allreduce {
    if flat && bytes <= REDUCE_SHORT {
        Allreduce::Flat
    } else if bytes <= REDUCE_SHORT || count < u64::from(size) {
        Allreduce::Doubling
    } else if commutes && !size.is_power_of_two() && bytes >= ALLREDUCE_RING {
        Allreduce::Ring
    } else {
        Allreduce::Halving
    }
}

/// Whether reduce halves and gathers (Rabenseifner) rather than sends everything up a binomial tree.
pub(super) fn reduce_by_halving(bytes: u64, count: u64, size: u32) -> bool {
    bytes > REDUCE_SHORT && count >= u64::from(size) && size > 2
}

/// Up to this many processes, and from this many bytes on, each process sends each other its block of a reduce-scatter.
const PAIRWISE_UP_TO: u32 = 4;
const PAIRWISE_FROM: u64 = 64 << 10;

/// How to reduce and scatter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReduceScatter {
    /// Each block directly to its owner.
    Pairwise,
    /// Recursive halving.
    Halving,
    /// All to one process, which scatters.
    ReduceThenScatter,
}

pub(super) fn reduce_scatter(total: u64, size: u32, commutes: bool, flat: bool) -> ReduceScatter {
    if flat && total <= REDUCE_SHORT {
        ReduceScatter::ReduceThenScatter
    } else if size <= PAIRWISE_UP_TO || total >= PAIRWISE_FROM {
        ReduceScatter::Pairwise
    } else if commutes {
        ReduceScatter::Halving
    } else {
        ReduceScatter::ReduceThenScatter
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::bootstrap::{Bootstrap, singleton::Singleton};

    fn chosen(size: u32, job_size: u32, processors: Option<u32>) -> bool {
        let job = Job {
            size: job_size,
            processors,
            ..Singleton::new().job().clone()
        };
        flat(size, &job)
    }

    #[test]
    fn processes_that_share_processors_take_few_turns() {
        assert!(chosen(8, 8, Some(2)) && chosen(512, 512, Some(8)));
        assert!(chosen(3, 8, Some(2)), "others share them, too");
        // With two processes, the direct algorithms save no turn.
        assert!(!chosen(2, 8, Some(2)));
        // This many messages of one process cost more than the few turns of one processor.
        assert!(!chosen(129, 129, Some(128)));
        // Each has a processor, or the number is not known.
        for processors in [None, Some(0), Some(8), Some(9)] {
            assert!(!chosen(8, 8, processors));
        }
        let elsewhere = Job {
            size: 8,
            local_only: false,
            processors: Some(2),
            ..Singleton::new().job().clone()
        };
        assert!(!flat(8, &elsewhere));
    }
}
