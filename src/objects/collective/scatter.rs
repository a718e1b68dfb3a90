//! `MPI_Scatter`, `MPI_Scatterv` (MPI 5.0 section 6.6).

use super::buffer::{Blocks, Buffer, Chunk, VBuffer};
use super::choose;
use super::inter::Root;
use super::run::{Network, Run, UnderWay};
use super::scratch::{Scratch, copy};
use super::shared;
use super::tree::{children, parent};
use crate::base::error::{Error, Result};
use crate::err;
use crate::instance::selection::{Algorithm, Operation};
use crate::objects::communicator::Collective;
use crate::objects::communicator::area::Area;

/// To each rank its block of the root's elements. `send` matters only at the root, and has the layout of the elements for one
/// rank; `receive` is `None` with `MPI_IN_PLACE` at the root.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` at a process whose block is longer than its buffer.
pub async fn scatter(
    operation: &Collective,
    root: impl Into<Root>,
    send: Option<Buffer>,
    receive: Option<Buffer>,
) -> Result<()> {
    let root = root.into();
    let send = root.own_blocks(send);
    let (operation, root) = root.among(operation);
    among(Network::Real(&operation), root, send, receive).await
}

/// The same, wherever its messages go.
pub(super) async fn among(
    network: Network<'_>,
    root: u32,
    send: Option<Buffer>,
    receive: Option<Buffer>,
) -> Result<()> {
    let mut run = Run::on(network);
    if let Some(area) = run.area {
        let block = match (&send, &receive) {
            (Some(send), _) if run.rank == root => send.block(0).len(),
            (_, receive) => receive.as_ref().map_or(0, |receive| receive.chunk().len()),
        };
        scatter_shared(&mut run, area, root, send, receive, Some(block)).await?;
        return run.finish();
    }
    within(&mut run, root, send, receive).await?;
    run.finish()
}

/// Among the processes of a run, by messages. Only the root passes `send`.
async fn within(run: &mut Run<'_>, root: u32, send: Option<Buffer>, receive: Option<Buffer>) -> Result<()> {
    let choice = |run: &Run<'_>, block: &Chunk| choose::moving(run, Operation::Scatter, block.len());
    if run.rank == root {
        let send = send.ok_or_else(no_send)?;
        let choice = choice(run, &send.block(0));
        match choice.algorithm {
            Algorithm::Tree => tree_root(run, choice.radix, &send, receive.as_ref()).await?,
            _ => linear_root(run, &send, receive.as_ref()).await,
        }
        return Ok(());
    }
    let chunk = receive.ok_or_else(no_receive)?.chunk();
    let choice = choice(run, &chunk);
    match choice.algorithm {
        Algorithm::Tree => tree(run, choice.radix, root, chunk).await?,
        _ => {
            run.receive_now(root, chunk).await;
        }
    }
    Ok(())
}

/// As [`scatter`], with blocks of different lengths.
///
/// # Errors
/// As for [`scatter`].
pub async fn scatterv(
    operation: &Collective,
    root: impl Into<Root>,
    send: Option<VBuffer>,
    receive: Option<Buffer>,
) -> Result<()> {
    let root = root.into();
    let send = root.own_blocks(send);
    let (operation, root) = root.among(operation);
    let mut run = Run::new(&operation);
    if let Some(area) = run.area {
        scatter_shared(&mut run, area, root, send, receive, None).await?;
        return run.finish();
    }
    if run.rank == root {
        let send = send.ok_or_else(no_send)?;
        linear_root(&mut run, &send, receive.as_ref()).await;
    } else {
        run.receive_now(root, receive.ok_or_else(no_receive)?.chunk())
            .await;
    }
    run.finish()
}

/// `block`: the bytes of each block, if all know that they are equal.
async fn scatter_shared(
    run: &mut Run<'_>,
    area: &Area,
    root: u32,
    send: Option<impl Blocks>,
    receive: Option<Buffer>,
    block: Option<u64>,
) -> Result<()> {
    let send = send.filter(|_| run.rank == root);
    if run.rank == root && send.is_none() {
        return Err(no_send());
    }
    if run.rank != root && receive.is_none() {
        return Err(no_receive());
    }
    let receive = receive.map(|receive| receive.chunk());
    let (send, receive) = (send.as_ref(), receive.as_ref());
    if let Some(block) = block
        && shared::scatter_short(run, area, root, send, receive, block).await
    {
        if let (Some(send), Some(receive)) = (send, receive) {
            run.note(copy(&send.block(root), receive));
        }
        return Ok(());
    }
    shared::scatter(run, area, root, send, receive).await;
    Ok(())
}

/// The root's part where it sends directly to every process.
pub(super) async fn linear_root(run: &mut Run<'_>, blocks: &impl Blocks, own: Option<&Buffer>) {
    let mut sends = UnderWay::new();
    for distance in 1..run.size {
        let rank = run.above(distance);
        let sending = run.send(rank, blocks.block(rank));
        run.keep(&mut sends, sending);
    }
    if let Some(own) = own {
        run.note(copy(&blocks.block(run.rank), &own.chunk()));
    }
    run.end_all(sends).await;
}

/// The root's part in the tree.
async fn tree_root(run: &mut Run<'_>, radix: u32, send: &Buffer, own: Option<&Buffer>) -> Result<()> {
    let (root, size) = (run.rank, run.size);
    let block = send.block(0).len() as usize;
    let split = size - root;
    let wraps = |child: u32, number: u32| child < split && child + number > split;
    // The ranks of at most one child wrap around after the last one: its blocks lie in two places.
    let round = children(0, size, radix).find(|&(child, number)| wraps(child, number));
    let scratch = Scratch::bytes(round.map_or(0, |(_, number)| number as usize * block))?;
    if let Some((child, number)) = round {
        let first = split - child;
        let cut = first as usize * block;
        let (low, high) = (
            scratch.part(0, cut),
            scratch.part(cut, (number - first) as usize * block),
        );
        run.note(copy(&send.blocks(root + child, first), &low));
        run.note(copy(&send.blocks(0, number - first), &high));
    }
    let mut sends = UnderWay::new();
    for (child, number) in children(0, size, radix) {
        let rank = (root + child) % size;
        let chunk = if wraps(child, number) {
            scratch.all()
        } else {
            send.blocks(rank, number)
        };
        let sending = run.send(rank, chunk);
        run.keep(&mut sends, sending);
    }
    if let Some(own) = own {
        run.note(copy(&send.block(root), &own.chunk()));
    }
    run.end_all(sends).await;
    Ok(())
}

/// The part of another process in the tree.
async fn tree(run: &mut Run<'_>, radix: u32, root: u32, chunk: Chunk) -> Result<()> {
    let relative = run.relative(root);
    let parent = (root + parent(relative, radix)) % run.size;
    let block = chunk.len() as usize;
    let below: u32 = children(relative, run.size, radix)
        .map(|(_, number)| number)
        .sum();
    if below == 0 {
        run.receive_now(parent, chunk).await;
        return Ok(());
    }
    let scratch = Scratch::bytes((below as usize + 1) * block)?;
    run.receive_now(parent, scratch.all()).await;
    let mut sends = UnderWay::new();
    for (child, number) in children(relative, run.size, radix) {
        let part = scratch.part((child - relative) as usize * block, number as usize * block);
        let sending = run.send((root + child) % run.size, part);
        run.keep(&mut sends, sending);
    }
    run.note(copy(&scratch.part(0, block), &chunk));
    run.end_all(sends).await;
    Ok(())
}

#[cold]
fn no_send() -> Error {
    err!(Buffer, "the root needs a send buffer and gave none")
}

#[cold]
fn no_receive() -> Error {
    err!(
        Buffer,
        "MPI_IN_PLACE is not a valid receive buffer here: only the root may give it"
    )
}
