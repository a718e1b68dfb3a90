//! `MPI_Alltoall`, `MPI_Alltoallv`, `MPI_Alltoallw` (MPI 5.0 section 6.8).

use std::collections::VecDeque;

use super::buffer::{Blocks, Buffer, Packed, VBuffer, WBuffer};
use super::choose;
use super::inter;
use super::run::Run;
use super::scratch::{Scratch, copy};
use super::shared;
use crate::base::error::Result;
use crate::objects::communicator::Collective;

/// Every process's block for every process, on an intercommunicator for every process of the other group. `send` is
/// `None` with `MPI_IN_PLACE`; both have the layout of the elements for one rank.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` at a process to which a peer sends more than it expects.
pub async fn alltoall(operation: &Collective, send: Option<Buffer>, receive: Buffer) -> Result<()> {
    if operation.is_across() {
        return inter::alltoall(operation, send, receive).await;
    }
    let mut run = Run::new(operation);
    let block = receive.block(0).len();
    if let Some(area) = run.area_for(block)
        && shared::alltoall(&mut run, area, send.as_ref().unwrap_or(&receive), &receive, block).await
    {
        if let Some(send) = send {
            run.note(copy(&send.block(run.rank), &receive.block(run.rank)));
        }
        return run.finish();
    }
    if choose::alltoall_by_bruck(block, run.size) {
        bruck(&mut run, send.as_ref().unwrap_or(&receive), &receive).await?;
        return run.finish();
    }
    finish_blocks(run, send, receive).await
}

/// As [`alltoall`], with blocks of different lengths. With `MPI_IN_PLACE` each block is replaced in place.
///
/// # Errors
/// As for [`alltoall`].
pub async fn alltoallv(operation: &Collective, send: Option<VBuffer>, receive: VBuffer) -> Result<()> {
    blocks(operation, send, receive).await
}

/// As [`alltoallv`], with displacements in bytes and blocks of different datatypes.
///
/// # Errors
/// As for [`alltoall`].
pub async fn alltoallw(operation: &Collective, send: Option<WBuffer>, receive: WBuffer) -> Result<()> {
    blocks(operation, send, receive).await
}

async fn blocks<B: Blocks>(operation: &Collective, send: Option<B>, receive: B) -> Result<()> {
    match operation.is_across() {
        true => inter::alltoall(operation, send, receive).await,
        false => finish_blocks(Run::new(operation), send, receive).await,
    }
}

async fn finish_blocks<B: Blocks>(mut run: Run<'_>, send: Option<B>, receive: B) -> Result<()> {
    match send {
        Some(send) => direct(&mut run, &send, &receive).await,
        None => {
            // Blocks to be sent are copied first, so that received blocks can take their places.
            let lengths = (0..run.size).map(|rank| match rank == run.rank {
                true => 0,
                false => receive.block(rank).len(),
            });
            let scratch = Scratch::bytes(lengths.clone().sum::<u64>() as usize)?;
            let packed = Packed::new(scratch.address(), lengths);
            for rank in run.others() {
                run.note(copy(&receive.block(rank), &packed.block(rank)));
            }
            direct(&mut run, &packed, &receive).await;
        }
    }
    run.finish()
}

/// Every block directly to its receiver, in the order of the distance.
async fn direct(run: &mut Run<'_>, send: &impl Blocks, receive: &impl Blocks) {
    let (rank, size) = (run.rank, run.size);
    let partners = partners(rank, size, size).skip(1);
    let own = send.block(rank);
    exchange_all(run, partners, send, receive, || match own.is_empty() {
        true => Ok(()),
        false => copy(&own, &receive.block(rank)),
    })
    .await;
}

/// The partners with which a process of `size` exchanges, step by step, among `others`: each of them once in each direction, and
/// two partners always at the same step.
pub(super) fn partners(
    rank: u32,
    size: u32,
    others: u32,
) -> impl Iterator<Item = (Option<u32>, Option<u32>)> + Send {
    let round = size.max(others);
    (0..round).map(move |distance| {
        let [to, from] = [rank + distance, rank + round - distance].map(|at| at % round);
        ((to < others).then_some(to), (from < others).then_some(from))
    })
}

/// Sends blocks to partners and receives theirs, many at a time; `meanwhile` is called while the last are under way.
/// Empty blocks are not sent.
///
/// Waiting for the oldest messages while newer ones are posted can't deadlock if partners have each other at the same
/// step: of all processes, take those that wait for the earliest step; their partners have posted what they wait for, as
/// they are at least at that step.
pub(super) async fn exchange_all(
    run: &mut Run<'_>,
    partners: impl Iterator<Item = (Option<u32>, Option<u32>)> + Send,
    send: &impl Blocks,
    receive: &impl Blocks,
    meanwhile: impl FnOnce() -> Result<()> + Send,
) {
    let mut under_way = VecDeque::new();
    for (to, from) in partners {
        let receiving = from.and_then(|from| {
            let incoming = receive.block(from);
            (!incoming.is_empty()).then(|| run.receive(from, incoming))
        });
        let sending = to.and_then(|to| {
            let outgoing = send.block(to);
            (!outgoing.is_empty()).then(|| run.send(to, outgoing))
        });
        if receiving.is_some() || sending.is_some() {
            under_way.push_back((receiving, sending));
        }
        if under_way.len() == choose::WINDOW {
            let oldest = under_way.pop_front().expect("the window is not empty");
            for completion in [oldest.0, oldest.1].into_iter().flatten() {
                run.end(completion).await;
            }
        }
    }
    run.note(meanwhile());
    for (receiving, sending) in under_way {
        for completion in [receiving, sending].into_iter().flatten() {
            run.end(completion).await;
        }
    }
}

/// Bruck's algorithm: the block for the rank at distance `d` travels by the powers of two whose sum is `d`, together with all
/// others whose distance has that power. `send` may be `receive`: it is copied first.
async fn bruck(run: &mut Run<'_>, send: &Buffer, receive: &Buffer) -> Result<()> {
    let size = run.size;
    let block = receive.block(0).len() as usize;
    let scratch = Scratch::bytes(block * size as usize)?;
    let travelling = size as usize / 2 + 1;
    let (out, into) = (
        Scratch::bytes(block * travelling)?,
        Scratch::bytes(block * travelling)?,
    );
    let place = |distance: u32| scratch.part(distance as usize * block, block);
    for distance in 0..size {
        run.note(copy(&send.block(run.above(distance)), &place(distance)));
    }
    let mut power = 1;
    while power < size {
        let moving = (0..size).filter(|distance| distance & power != 0);
        let mut number = 0;
        for distance in moving.clone() {
            run.note(copy(&place(distance), &out.part(number * block, block)));
            number += 1;
        }
        run.exchange(
            run.above(power),
            out.part(0, number * block),
            run.below(power),
            into.part(0, number * block),
        )
        .await;
        for (at, distance) in moving.enumerate() {
            run.note(copy(&into.part(at * block, block), &place(distance)));
        }
        power *= 2;
    }
    // The blocks that have come over a distance lie there.
    for distance in 0..size {
        run.note(copy(&place(distance), &receive.block(run.below(distance))));
    }
    Ok(())
}
