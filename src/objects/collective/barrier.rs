//! `MPI_Barrier` (MPI 5.0 section 6.3), and a vote with the same rounds.

use super::buffer::Chunk;
use super::choose;
use super::flat;
use super::run::{Network, Run, UnderWay};
use super::scratch::Scratch;
use super::shared;
use super::two_level;
use crate::base::error::Result;
use crate::instance::selection::{Algorithm, Operation};
use crate::objects::communicator::Collective;

/// No process leaves before all have come, on an intercommunicator those of both groups: dissemination, in ⌈log₂ n⌉
/// rounds, or through rank 0, or through one process of each host.
pub async fn barrier(operation: &Collective) -> Result<()> {
    let operation = operation.everybody();
    among(Network::Real(&operation)).await
}

/// The same, wherever its messages go.
pub(super) async fn among(network: Network<'_>) -> Result<()> {
    if let Some(hosts) = network.hosts()
        && choose::over_hosts(network, hosts, Operation::Barrier, 0, true).algorithm == Algorithm::Levels
    {
        return Box::pin(two_level::barrier(network, hosts)).await;
    }
    let mut run = Run::on(network);
    match run.area {
        Some(area) => shared::barrier(&mut run, area).await,
        None => within(&mut run).await,
    }
    run.finish()
}

/// Among the processes of a run, by messages.
pub(super) async fn within(run: &mut Run<'_>) {
    let choice = choose::moving(run, Operation::Barrier, 0);
    match choice.algorithm {
        Algorithm::Flat => flat::barrier(run).await,
        _ => dissemination(run, choice.radix).await,
    }
}

/// In ⌈log n⌉ rounds to the base of the radix `k`, in each of which a process tells `k - 1` others (D. Hensgen, R. Finkel, U. Manber:
/// Two algorithms for barrier synchronization, 1988; for several messages at a time T. Hoefler, T. Mehlan, F. Mietke, W. Rehm: Fast barrier
/// synchronization for InfiniBand, 2006).
async fn dissemination(run: &mut Run<'_>, radix: u32) {
    let mut distance = 1;
    while distance < u64::from(run.size) {
        let others = |run: &Run<'_>| {
            let size = u64::from(run.size);
            let distances = (1..u64::from(radix)).map(move |times| times * distance);
            distances
                .take_while(move |&distance| distance < size)
                .map(|distance| distance as u32)
        };
        let first = others(run).next().expect("the loop's condition");
        let mut receives = UnderWay::new();
        for distance in others(run).skip(1) {
            let receiving = run.receive(run.below(distance), Chunk::empty());
            receives.push(receiving);
        }
        let mut sends = UnderWay::new();
        for distance in others(run) {
            let sending = run.send(run.above(distance), Chunk::empty());
            run.keep(&mut sends, sending);
        }
        run.receive_now(run.below(first), Chunk::empty()).await;
        run.end_all(receives).await;
        run.end_all(sends).await;
        distance *= u64::from(radix);
    }
}

/// The ranks that may be missing, where a process waits in [`largest`] for a message of rank `from`: at least one of
/// these has not come. All others on which that message depends have come.
pub fn missing(size: u32, rank: u32, from: u32) -> Vec<u32> {
    let distance = (rank + size - from) % size;
    let mut missing: Vec<u32> = (distance..(2 * distance).min(size))
        .map(|distance| (rank + size - distance) % size)
        .collect();
    missing.sort_unstable();
    missing
}

/// Every process sends every process, itself too, a message: what was sent on any communicator before has arrived then, on each
/// pair of processes. For checks only, as it connects all to all.
pub async fn flush(operation: &Collective) -> Result<()> {
    let mut run = Run::new(operation);
    for distance in 0..run.size {
        let (to, from) = (run.above(distance), run.below(distance));
        run.exchange(to, Chunk::empty(), from, Chunk::empty()).await;
    }
    run.finish()
}

/// A barrier that returns to every process the largest of each of a few numbers that the processes contribute.
/// (Dissemination counts some processes twice, which does not change a maximum.)
pub async fn largest<const N: usize>(operation: &Collective, mine: [u64; N]) -> Result<[u64; N]> {
    let mut run = Run::new(operation);
    let mut largest = mine;
    let mut distance = 1;
    while distance < run.size {
        let (to, from) = (run.above(distance), run.below(distance));
        let said = Scratch::of(largest.map(u64::to_le_bytes).as_flattened())?;
        let theirs = Scratch::bytes(8 * N)?;
        run.exchange(to, said.all(), from, theirs.all()).await;
        for (mine, theirs) in largest.iter_mut().zip(theirs.to_vec().as_chunks().0) {
            *mine = (*mine).max(u64::from_le_bytes(*theirs));
        }
        distance *= 2;
    }
    run.finish().map(|()| largest)
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn the_late_one_is_always_among_the_missing() {
        assert_eq!(missing(4, 0, 3), [3]);
        assert_eq!(missing(8, 1, 7), [6, 7]);
        assert_eq!(missing(5, 0, 1), [1]);
        for size in 2..20 {
            for late in 0..size {
                // Which ranks receive nothing in which round: the simplest model of dissemination.
                let mut silent_from = vec![u32::MAX; size as usize];
                silent_from[late as usize] = 0;
                let (mut round, mut distance) = (0, 1);
                while distance < size {
                    let before = silent_from.clone();
                    for rank in (0..size).filter(|&rank| before[rank as usize] > round) {
                        let from = (rank + size - distance) % size;
                        if before[from as usize] <= round {
                            silent_from[rank as usize] = round + 1;
                            assert!(
                                missing(size, rank, from).contains(&late),
                                "{size} {late} {rank} {from}"
                            );
                        }
                    }
                    (round, distance) = (round + 1, distance * 2);
                }
            }
        }
    }
}
