//! `MPI_Allgather`, `MPI_Allgatherv` (MPI 5.0 section 6.7).

use super::buffer::{Blocks, Buffer, Chunk, Packed, VBuffer};
use super::choose;
use super::inter;
use super::run::{Network, Run, UnderWay};
use super::scratch::{Scratch, copy};
use super::shared;
use crate::base::error::Result;
use crate::instance::selection::{Algorithm, Operation};
use crate::objects::communicator::Collective;

/// Every process's elements for every process, by rank; on an intercommunicator, those of each group for the other.
/// `send` is `None` with `MPI_IN_PLACE`; `receive` has the layout of the elements of one rank.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` at a process to which a peer sends more than it expects.
pub async fn allgather(operation: &Collective, send: Option<Buffer>, receive: Buffer) -> Result<()> {
    if operation.is_across() {
        return inter::allgather(operation, send, receive).await;
    }
    among(Network::Real(operation), send, receive).await
}

/// The same, wherever its messages go.
pub(super) async fn among(network: Network<'_>, send: Option<Buffer>, receive: Buffer) -> Result<()> {
    let mut run = Run::on(network);
    let own = send.map(|send| send.chunk());
    if let Some(area) = run.area_for(Operation::Allgather, receive.block(0).len())
        && shared::allgather(&mut run, area, own.as_ref(), &receive).await
    {
        return run.finish();
    }
    place_own(&mut run, own, &receive);
    let block = receive.block(0).len();
    even(&mut run, &receive, block).await?;
    run.finish()
}

/// As [`allgather`], with blocks of different lengths.
///
/// # Errors
/// As for [`allgather`].
pub async fn allgatherv(operation: &Collective, send: Option<Buffer>, receive: VBuffer) -> Result<()> {
    if operation.is_across() {
        return inter::allgatherv(operation, send, receive).await;
    }
    let mut run = Run::new(operation);
    let own = send.map(|send| send.chunk());
    let longest = receive
        .counts
        .iter()
        .max()
        .map_or(0, |count| count * receive.datatype.size());
    if let Some(area) = run.area_for(Operation::Allgather, longest)
        && shared::allgather(&mut run, area, own.as_ref(), &receive).await
    {
        return run.finish();
    }
    place_own(&mut run, own, &receive);
    let elements: u64 = receive.counts.iter().sum();
    uneven(&mut run, &receive, elements * receive.datatype.size()).await?;
    run.finish()
}

/// The bytes of every process for every process, by rank. All have the same number.
///
/// # Errors
/// The error of a lost process.
pub async fn allgather_bytes(operation: &Collective, mine: &[u8]) -> Result<Vec<u8>> {
    let mut run = Run::new(operation);
    let total = mine.len() * run.size as usize;
    let (own, all) = (Scratch::of(mine)?, Scratch::bytes(total)?);
    let blocks = Packed::new(all.address(), (0..run.size).map(|_| mine.len() as u64));
    run.note(copy(&own.all(), &blocks.block(run.rank)));
    uneven(&mut run, &blocks, total as u64).await?;
    run.finish().map(|()| all.to_vec())
}

/// Every process's block for every process, where each has its own in place and all have `block` bytes.
async fn even(run: &mut Run<'_>, blocks: &Buffer, block: u64) -> Result<()> {
    match choose::allgather(run, block * u64::from(run.size), true).algorithm {
        Algorithm::Doubling => doubling(run, blocks).await,
        Algorithm::Bruck => bruck(run, blocks).await?,
        Algorithm::Neighbours => neighbours(run, blocks).await,
        _ => ring(run, blocks).await,
    }
    Ok(())
}

/// Every process's block for every process, where each has its own in place and blocks may differ. `total`: the bytes of all.
pub(super) async fn uneven(run: &mut Run<'_>, blocks: &impl Blocks, total: u64) -> Result<()> {
    match choose::allgather(run, total, false).algorithm {
        Algorithm::Bruck => bruck(run, blocks).await?,
        _ => ring(run, blocks).await,
    }
    Ok(())
}

fn place_own(run: &mut Run<'_>, own: Option<Chunk>, blocks: &impl Blocks) {
    if let Some(own) = own {
        run.note(copy(&own, &blocks.block(run.rank)));
    }
}

/// Recursive doubling, for a power of two of processes.
async fn doubling(run: &mut Run<'_>, blocks: &Buffer) {
    let mut mask = 1;
    while mask < run.size {
        let partner = run.rank ^ mask;
        let (mine, theirs) = (run.rank & !(mask - 1), partner & !(mask - 1));
        run.exchange(
            partner,
            blocks.blocks(mine, mask),
            partner,
            blocks.blocks(theirs, mask),
        )
        .await;
        mask *= 2;
    }
}

/// Bruck's algorithm: each round doubles the number of blocks that a process has, which are its own and those of the
/// ranks that follow.
async fn bruck(run: &mut Run<'_>, blocks: &impl Blocks) -> Result<()> {
    let lengths = (0..run.size).map(|distance| blocks.block(run.above(distance)).len());
    let total: u64 = lengths.clone().sum();
    let scratch = Scratch::bytes(total as usize)?;
    let packed = Packed::new(scratch.address(), lengths);
    run.note(copy(&blocks.block(run.rank), &packed.block(0)));
    let mut have = 1;
    while have < run.size {
        let number = have.min(run.size - have);
        run.exchange(
            run.below(have),
            packed.range(0, number),
            run.above(have),
            packed.range(have, have + number),
        )
        .await;
        have += number;
    }
    for distance in 1..run.size {
        run.note(copy(&packed.block(distance), &blocks.block(run.above(distance))));
    }
    Ok(())
}

/// Neighbour exchange, for an even number of processes: neighbours in turn on both sides exchange what they got last, two blocks at a
/// time, in half as many rounds as round a ring (J. Chen, L. Zhang, Y. Zhang, W. Yuan: Performance evaluation of allgather algorithms on
/// terascale Linux cluster with fast Ethernet, 2005).
async fn neighbours(run: &mut Run<'_>, blocks: &Buffer) {
    let (rank, pairs) = (run.rank, run.size / 2);
    // The partner of even rounds has the other rank of this one's pair of blocks.
    let is_even = rank.is_multiple_of(2);
    let (first, second) = match is_even {
        true => (run.above(1), run.below(1)),
        false => (run.below(1), run.above(1)),
    };
    run.exchange(first, blocks.block(rank), first, blocks.block(first))
        .await;
    // Pairs of blocks come from the side of each partner, from the nearest one on.
    let pair = rank / 2;
    let mut last = pair;
    for round in 1..pairs {
        let far = round.div_ceil(2);
        let (partner, from_above) = match round % 2 {
            1 => (second, !is_even),
            _ => (first, is_even),
        };
        let next = match from_above {
            true => (pair + far) % pairs,
            false => (pair + pairs - far) % pairs,
        };
        run.exchange(
            partner,
            blocks.blocks(2 * last, 2),
            partner,
            blocks.blocks(2 * next, 2),
        )
        .await;
        last = next;
    }
}

/// Round a ring, from neighbour to neighbour.
async fn ring(run: &mut Run<'_>, blocks: &impl Blocks) {
    let (to, from) = (run.above(1), run.below(1));
    let mut sends = UnderWay::new();
    for step in 0..run.size - 1 {
        let sending = run.send(to, blocks.block(run.below(step)));
        run.keep(&mut sends, sending);
        run.receive_now(from, blocks.block(run.below(step + 1))).await;
    }
    run.end_all(sends).await;
}
