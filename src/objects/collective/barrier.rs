//! `MPI_Barrier` (MPI 5.0 section 6.3), and a vote with the same rounds.

use super::buffer::Chunk;
use super::flat;
use super::run::Run;
use super::scratch::Scratch;
use super::shared;
use super::two_level;
use crate::base::error::Result;
use crate::objects::communicator::Collective;

/// No process leaves before all have come, on an intercommunicator those of both groups: dissemination, in ⌈log₂ n⌉
/// rounds, or through rank 0, or through one process of each host.
pub async fn barrier(operation: &Collective) -> Result<()> {
    let operation = operation.everybody();
    if let Some(hosts) = operation.hosts() {
        return Box::pin(two_level::barrier(&operation, hosts)).await;
    }
    let mut run = Run::new(&operation);
    match (run.area, run.flat) {
        (Some(area), _) => shared::barrier(&mut run, area).await,
        (None, true) => flat::barrier(&mut run).await,
        (None, false) => dissemination(&mut run).await,
    }
    run.finish()
}

/// In ⌈log₂ n⌉ rounds.
pub(super) async fn dissemination(run: &mut Run<'_>) {
    let mut distance = 1;
    while distance < run.size {
        let (to, from) = (run.above(distance), run.below(distance));
        run.exchange(to, Chunk::empty(), from, Chunk::empty()).await;
        distance *= 2;
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
