//! Which algorithm a collective operation uses. All members must choose the same, so every choice depends only on what
//! the standard makes them agree on (the number of processes, the bytes of a matching block, the operation), on what
//! the launcher says to all alike (the number of processors that all share, and which processes share a host), and on the table of
//! [`selection`](crate::instance::selection). That all see the same hosts and have the same table is checked when they connect.

use super::reduction::Reducer;
use super::run::{Network, Run};
use crate::instance::selection::{Algorithm, Choice, Operation, Question, Traits};
use crate::objects::communicator::Hosts;
use crate::objects::communicator::area::SHORT;
use crate::system::bootstrap::Job;

/// The cost of switching between two processes on one processor, as a number of messages.
const SWITCH: u32 = 4;

/// Whether direct messages between one process and all others cost less than ⌈log₂ n⌉ rounds: where a job's processes
/// share processors, no process's next round begins before all have had their turn.
pub(super) fn crowded(size: u32, job: &Job) -> bool {
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

/// Whether an operation on blocks of so many bytes reads them from the memory of the process that has them, where all can.
///
/// Measured on two cores, in microseconds, reads and otherwise. Two processes: allgather 16 KiB 2.4 and 4.0, 64 KiB 5 and 12, 1 MiB 184
/// and 242; alltoall 16 KiB 2.6 and 4.0, 64 KiB 5 and 13; allreduce 16 KiB 5.5 and 4.8, 32 KiB 7.3 and 8.6, 1 MiB 131 and 216; gather
/// 1 MiB 132 and 110. Eight: alltoall 16 KiB 55 and 72, 64 KiB 240 and 350, 1 MiB 4100 and 10100; allgather 64 KiB 161 and 114, 1 MiB 4100
/// and 4400; reduce 64 KiB 65 and 49, 128 KiB 80 and 90, 1 MiB 580 and 670; allreduce 256 KiB 233 and 231, 1 MiB 850 and 920; broadcast
/// 1 MiB 370 and 280; gather 64 KiB 51 and 45. What one process reads costs less to copy than to read where many read it: then it is in
/// places, which stay in the caches. The root of a gather would read alone. Operations in which the sender alone decides
/// (`shared::exchange`) don't ask this.
pub(super) fn by_reads(operation: Operation, bytes: u64, size: u32) -> bool {
    let least = match (operation, size) {
        (Operation::Alltoall, _) | (Operation::Allgather, 2) => 16 << 10,
        (Operation::Allreduce | Operation::Reduce, 2) => 32 << 10,
        (Operation::Reduce, _) => 128 << 10,
        (Operation::Allgather | Operation::Allreduce, _) => 1 << 20,
        _ => return false,
    };
    bytes >= least
}

/// How many exchanges with other ranks are under way at once.
pub(super) const WINDOW: usize = 32;

/// What a run asks the table of [`selection`](crate::instance::selection) about an operation. Algorithms that can't be used are passed
/// over, so that a table needs no line for the cases of each.
pub(super) struct Call<'a> {
    pub operation: Operation,
    pub run: &'a Run<'a>,
    /// What they are is said in the table.
    pub bytes: u64,
    /// Whether operands may change places.
    pub commutes: bool,
}

/// Whether all blocks are equally long and consecutive, which some algorithms need.
pub(super) fn allgather(run: &Run<'_>, total: u64, even: bool) -> Choice {
    let call = Call {
        operation: Operation::Allgather,
        run,
        bytes: total,
        commutes: true,
    };
    let size = run.size;
    call.choose(|choice| match choice.algorithm {
        Algorithm::Doubling => even && size.is_power_of_two(),
        Algorithm::Neighbours => even && size.is_multiple_of(2),
        _ => true,
    })
}

/// For operations that only move data.
pub(super) fn moving(run: &Run<'_>, operation: Operation, bytes: u64) -> Choice {
    let call = Call {
        operation,
        run,
        bytes,
        commutes: true,
    };
    call.choose(|choice| match choice.algorithm {
        Algorithm::ScatterDoubling => run.size.is_power_of_two(),
        other => !is_for_hosts(other),
    })
}

/// For reductions of `count` elements, to `root` if there is one.
pub(super) fn reducing(
    run: &Run<'_>,
    operation: Operation,
    reducer: &Reducer,
    count: u64,
    root: Option<u32>,
) -> Choice {
    let call = Call {
        operation,
        run,
        bytes: count.saturating_mul(reducer.datatype.size()),
        commutes: reducer.commutes(),
    };
    let (size, commutes) = (u64::from(run.size), reducer.commutes());
    call.choose(|choice| match (operation, choice.algorithm) {
        (Operation::ReduceScatter, Algorithm::Halving) => commutes,
        (_, Algorithm::Halving) => count >= size,
        (_, Algorithm::Ring) => count >= size && commutes,
        // Combined from the last rank down to the first.
        (_, Algorithm::Chain) => commutes || root == Some(0),
        (_, other) => !is_for_hosts(other),
    })
}

fn is_for_hosts(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::Levels | Algorithm::ChainOfHosts)
}

impl Call<'_> {
    fn choose(&self, usable: impl Fn(Choice) -> bool) -> Choice {
        let run = self.run;
        let question = Question {
            ranks: run.size,
            hosts: run.hosts.map_or(1, Hosts::number),
            bytes: self.bytes,
            traits: Traits::COMMUTES
                .when(self.commutes)
                .and(Traits::CROWDED.when(run.crowded))
                .and(Traits::POWER2.when(run.size.is_power_of_two()))
                .and(Traits::CONSECUTIVE.when(run.hosts.is_none_or(Hosts::consecutive))),
        };
        run.network().choose(self.operation, &question, usable)
    }
}

/// What an operation over several hosts does with the difference between them; another algorithm than for hosts: nothing.
pub(super) fn over_hosts(
    network: Network<'_>,
    hosts: &Hosts,
    what: Operation,
    bytes: u64,
    commutes: bool,
) -> Choice {
    let size = network.size();
    let traits = Traits::COMMUTES
        .when(commutes)
        .and(Traits::POWER2.when(size.is_power_of_two()))
        .and(Traits::CONSECUTIVE.when(hosts.consecutive()));
    let question = Question {
        ranks: size,
        hosts: hosts.number(),
        bytes,
        traits,
    };
    network.choose(what, &question, |choice| match choice.algorithm {
        // With p pieces and h hosts, the chain takes the time of (p + h - 2) ÷ p messages: with fewer pieces than hosts, dividing the
        // message among the hosts, and exchanging the parts, takes less time: that of two messages.
        Algorithm::ChainOfHosts => hosts.number() - 1 <= pieces(choice, bytes, size),
        Algorithm::Levels => commutes || hosts.consecutive(),
        _ => true,
    })
}

/// In how many pieces a message goes from host to host. There are at most half as many messages between hosts as where all `size`
/// processes pass pieces round a ring (h × size).
pub(super) fn pieces(choice: Choice, bytes: u64, size: u32) -> u32 {
    match choice.pieces {
        0 => bytes.div_ceil(choice.piece).clamp(1, u64::from(size / 2 + 1)) as u32,
        pieces => pieces,
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
        crowded(size, &job)
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
        assert!(!crowded(8, &elsewhere));
    }
}
