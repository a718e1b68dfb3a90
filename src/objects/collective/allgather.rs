//! `MPI_Allgather`, `MPI_Allgatherv` (MPI 5.0 section 6.7).

use super::buffer::{Blocks, Buffer, Packed, VBuffer};
use super::choose::{self, Allgather};
use super::inter;
use super::run::Run;
use super::scratch::{Scratch, copy};
use super::shared;
use crate::base::error::Result;
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
    let mut run = Run::new(operation);
    place_own(&mut run, send, &receive);
    if let Some(area) = run.area_for(receive.block(0).len())
        && shared::allgather(&mut run, area, &receive).await
    {
        return run.finish();
    }
    let block = receive.block(0).len();
    match choose::allgather(block * u64::from(run.size), run.size, true) {
        Allgather::Doubling => doubling(&mut run, &receive).await,
        Allgather::Bruck => bruck(&mut run, &receive).await?,
        Allgather::Ring => ring(&mut run, &receive).await,
    }
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
    place_own(&mut run, send, &receive);
    let longest = receive
        .counts
        .iter()
        .max()
        .map_or(0, |count| count * receive.datatype.size());
    if let Some(area) = run.area_for(longest)
        && shared::allgather(&mut run, area, &receive).await
    {
        return run.finish();
    }
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

/// Every process's block for every process, where each has its own in place and blocks may differ. `total`: the bytes of all.
pub(super) async fn uneven(run: &mut Run<'_>, blocks: &impl Blocks, total: u64) -> Result<()> {
    match choose::allgather(total, run.size, false) {
        Allgather::Bruck => bruck(run, blocks).await?,
        Allgather::Doubling | Allgather::Ring => ring(run, blocks).await,
    }
    Ok(())
}

fn place_own(run: &mut Run<'_>, send: Option<Buffer>, blocks: &impl Blocks) {
    if let Some(send) = send {
        run.note(copy(&send.chunk(), &blocks.block(run.rank)));
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

/// Round a ring, from neighbour to neighbour.
async fn ring(run: &mut Run<'_>, blocks: &impl Blocks) {
    let (to, from) = (run.above(1), run.below(1));
    let mut sends = Vec::new();
    for step in 0..run.size - 1 {
        let receiving = run.receive(from, blocks.block(run.below(step + 1)));
        let sending = run.send(to, blocks.block(run.below(step)));
        run.keep(&mut sends, sending);
        run.end(receiving).await;
    }
    run.end_all(sends).await;
}
