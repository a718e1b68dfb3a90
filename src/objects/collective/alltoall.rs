//! `MPI_Alltoall`, `MPI_Alltoallv`, `MPI_Alltoallw` (MPI 5.0 section 6.8).

use super::buffer::{Blocks, Buffer, Packed, VBuffer, WBuffer};
use super::choose;
use super::inter;
use super::queue::Queue;
use super::run::{Network, Run, UnderWay};
use super::scratch::{Scratch, copy};
use super::shared;
use crate::base::error::Result;
use crate::instance::selection::{Algorithm, Operation};
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
    among(Network::Real(operation), send, receive).await
}

/// The same, wherever its messages go.
pub(super) async fn among(network: Network<'_>, send: Option<Buffer>, receive: Buffer) -> Result<()> {
    let mut run = Run::on(network);
    let block = receive.block(0).len();
    if let Some(area) = run.area_for(Operation::Alltoall, block)
        && shared::alltoall(
            &mut run,
            area,
            send.as_ref().unwrap_or(&receive),
            &receive,
            block,
            send.is_none(),
        )
        .await
    {
        return run.finish();
    }
    within(&mut run, send, receive).await?;
    run.finish()
}

/// Among the processes of a run, by messages.
async fn within(run: &mut Run<'_>, send: Option<Buffer>, receive: Buffer) -> Result<()> {
    let choice = choose::moving(run, Operation::Alltoall, receive.block(0).len());
    match choice.algorithm {
        Algorithm::Bruck => bruck(run, choice.radix, send.as_ref().unwrap_or(&receive), &receive).await,
        _ => blocks_within(run, choice.window as usize, send, receive).await,
    }
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
        false => {
            let mut run = Run::new(operation);
            if let Some(area) = run.area {
                let in_place = send.is_none();
                shared::blocks_to_all(
                    &mut run,
                    area,
                    send.as_ref().unwrap_or(&receive),
                    &receive,
                    in_place,
                )
                .await;
                return run.finish();
            }
            blocks_within(&mut run, choose::WINDOW, send, receive).await?;
            run.finish()
        }
    }
}

async fn blocks_within<B: Blocks>(
    run: &mut Run<'_>,
    window: usize,
    send: Option<B>,
    receive: B,
) -> Result<()> {
    match send {
        Some(send) => direct(run, window, &send, &receive).await,
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
            direct(run, window, &packed, &receive).await;
        }
    }
    Ok(())
}

/// Every block directly to its receiver, in the order of the distance: with a window of 1 pairwise exchange, with a larger one the scattered
/// messages of MPICH (R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH, 2005).
async fn direct(run: &mut Run<'_>, window: usize, send: &impl Blocks, receive: &impl Blocks) {
    let (rank, size) = (run.rank, run.size);
    let partners = partners(rank, size, size).skip(1);
    let own = send.block(rank);
    exchange_all(run, window, partners, send, receive, || match own.is_empty() {
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
    window: usize,
    partners: impl Iterator<Item = (Option<u32>, Option<u32>)> + Send,
    send: &impl Blocks,
    receive: &impl Blocks,
    meanwhile: impl FnOnce() -> Result<()> + Send,
) {
    let mut under_way = Queue::new();
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
            under_way.push((receiving, sending));
        }
        if under_way.len() == window {
            let oldest = under_way.pop().expect("the window is not empty");
            for completion in [oldest.0, oldest.1].into_iter().flatten() {
                run.end(completion).await;
            }
        }
    }
    run.note(meanwhile());
    while let Some((receiving, sending)) = under_way.pop() {
        for completion in [receiving, sending].into_iter().flatten() {
            run.end(completion).await;
        }
    }
}

/// Bruck's algorithm: the block for the rank at distance `d` travels by the digits of `d` in the base of the radix, together with all
/// others whose distance has that digit there (J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby: Efficient algorithms for all-to-all
/// communications in multiport message-passing systems, 1997). `send` may be `receive`: it is copied first.
async fn bruck(run: &mut Run<'_>, radix: u32, send: &Buffer, receive: &Buffer) -> Result<()> {
    let (size, radix) = (run.size, u64::from(radix));
    let block = receive.block(0).len() as usize;
    let scratch = Scratch::bytes(block * size as usize)?;
    // In later rounds no more.
    let travelling = (0..size)
        .filter(|&distance| u64::from(distance) % radix != 0)
        .count();
    let (out, into) = (
        Scratch::bytes(block * travelling)?,
        Scratch::bytes(block * travelling)?,
    );
    let place = |distance: u32| scratch.part(distance as usize * block, block);
    for distance in 0..size {
        run.note(copy(&send.block(run.above(distance)), &place(distance)));
    }
    let mut power = 1;
    while power < u64::from(size) {
        let moving =
            |digit: u64| (0..size).filter(move |&distance| u64::from(distance) / power % radix == digit);
        let digits = (1..radix).take_while(|digit| digit * power < u64::from(size));
        let (mut receives, mut sends) = (UnderWay::new(), UnderWay::new());
        let mut at = 0;
        for digit in digits.clone() {
            let (begin, distance) = (at, (digit * power) as u32);
            for distance in moving(digit) {
                run.note(copy(&place(distance), &out.part(at * block, block)));
                at += 1;
            }
            let range = |scratch: &Scratch| scratch.part(begin * block, (at - begin) * block);
            receives.push(run.receive(run.below(distance), range(&into)));
            let sending = run.send(run.above(distance), range(&out));
            run.keep(&mut sends, sending);
        }
        run.end_all(receives).await;
        run.end_all(sends).await;
        for (at, distance) in digits.flat_map(moving).enumerate() {
            run.note(copy(&into.part(at * block, block), &place(distance)));
        }
        power *= radix;
    }
    // The blocks that have come over a distance lie there.
    for distance in 0..size {
        run.note(copy(&place(distance), &receive.block(run.below(distance))));
    }
    Ok(())
}
