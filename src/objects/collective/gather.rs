//! `MPI_Gather`, `MPI_Gatherv` (MPI 5.0 section 6.5).

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

/// Every process's elements for `root`, by rank. `send` is `None` with `MPI_IN_PLACE` at the root; `receive` matters only
/// there, and has the layout of the elements of one rank.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` at a process whose peer's block is longer than it expects.
pub async fn gather(
    operation: &Collective,
    root: impl Into<Root>,
    send: Option<Buffer>,
    receive: Option<Buffer>,
) -> Result<()> {
    let root = root.into();
    let receive = root.own_blocks(receive);
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
        gather_shared(&mut run, area, root, send, receive).await?;
        return run.finish();
    }
    within(&mut run, root, send, receive).await?;
    run.finish()
}

/// Among the processes of a run, by messages. Only the root passes `receive`.
async fn within(run: &mut Run<'_>, root: u32, send: Option<Buffer>, receive: Option<Buffer>) -> Result<()> {
    let choice = |run: &Run<'_>, block: &Chunk| choose::moving(run, Operation::Gather, block.len());
    if run.rank == root {
        let receive = receive.ok_or_else(no_receive)?;
        let choice = choice(run, &receive.blocks(0, 1));
        match choice.algorithm {
            Algorithm::Tree => tree_root(run, choice.radix, send.as_ref(), &receive).await?,
            _ => linear_root(run, send.as_ref(), &receive).await,
        }
        return Ok(());
    }
    let send = send.ok_or_else(no_send)?.chunk();
    let choice = choice(run, &send);
    match choice.algorithm {
        Algorithm::Tree => tree(run, choice.radix, root, send).await?,
        _ => {
            let sending = run.send(root, send);
            run.end(sending).await;
        }
    }
    Ok(())
}

/// As [`gather`], with blocks of different lengths.
///
/// # Errors
/// As for [`gather`].
pub async fn gatherv(
    operation: &Collective,
    root: impl Into<Root>,
    send: Option<Buffer>,
    receive: Option<VBuffer>,
) -> Result<()> {
    let root = root.into();
    let receive = root.own_blocks(receive);
    let (operation, root) = root.among(operation);
    let mut run = Run::new(&operation);
    if let Some(area) = run.area {
        gather_shared(&mut run, area, root, send, receive).await?;
        return run.finish();
    }
    if run.rank == root {
        let receive = receive.ok_or_else(no_receive)?;
        linear_root(&mut run, send.as_ref(), &receive).await;
    } else {
        let sending = run.send(root, send.ok_or_else(no_send)?.chunk());
        run.end(sending).await;
    }
    run.finish()
}

async fn gather_shared(
    run: &mut Run<'_>,
    area: &Area,
    root: u32,
    send: Option<Buffer>,
    receive: Option<impl Blocks>,
) -> Result<()> {
    if run.rank != root {
        let send = send.ok_or_else(no_send)?.chunk();
        if !shared::offer(run, area, &send).await {
            let sending = run.send(root, send);
            run.end(sending).await;
        }
        return Ok(());
    }
    let receive = receive.ok_or_else(no_receive)?;
    if let Some(own) = send {
        run.note(copy(&own.chunk(), &receive.block(run.rank)));
    }
    shared::gather(run, area, &receive).await;
    Ok(())
}

/// The root's part where every process sends directly to it.
async fn linear_root(run: &mut Run<'_>, own: Option<&Buffer>, blocks: &impl Blocks) {
    let mut receives = UnderWay::with_capacity(run.size as usize - 1);
    for rank in run.others() {
        let receiving = run.receive(rank, blocks.block(rank));
        run.keep(&mut receives, receiving);
    }
    if let Some(own) = own {
        run.note(copy(&own.chunk(), &blocks.block(run.rank)));
    }
    run.end_all(receives).await;
}

/// The root's part in the tree. A child sends consecutive blocks; where its ranks wrap around after the
/// last one, they lie in two places.
async fn tree_root(run: &mut Run<'_>, radix: u32, own: Option<&Buffer>, receive: &Buffer) -> Result<()> {
    let (root, size) = (run.rank, run.size);
    let block = receive.block(0).len() as usize;
    let split = size - root;
    let wraps = |child: u32, number: u32| child < split && child + number > split;
    // The ranks of at most one child wrap around.
    let round = children(0, size, radix).find(|&(child, number)| wraps(child, number));
    let scratch = Scratch::bytes(round.map_or(0, |(_, number)| number as usize * block))?;
    let mut receives = UnderWay::new();
    for (child, number) in children(0, size, radix) {
        let rank = (root + child) % size;
        let chunk = if wraps(child, number) {
            scratch.all()
        } else {
            receive.blocks(rank, number)
        };
        let receiving = run.receive(rank, chunk);
        run.keep(&mut receives, receiving);
    }
    if let Some(own) = own {
        run.note(copy(&own.chunk(), &receive.block(root)));
    }
    run.end_all(receives).await;
    if let Some((child, number)) = round {
        let first = split - child;
        let cut = first as usize * block;
        let (low, high) = (
            scratch.part(0, cut),
            scratch.part(cut, (number - first) as usize * block),
        );
        run.note(copy(&low, &receive.blocks(root + child, first)));
        run.note(copy(&high, &receive.blocks(0, number - first)));
    }
    Ok(())
}

/// The part of another process in the tree.
async fn tree(run: &mut Run<'_>, radix: u32, root: u32, send: Chunk) -> Result<()> {
    let relative = run.relative(root);
    let parent = (root + parent(relative, radix)) % run.size;
    let block = send.len() as usize;
    let below: u32 = children(relative, run.size, radix)
        .map(|(_, number)| number)
        .sum();
    if below == 0 {
        let sending = run.send(parent, send);
        run.end(sending).await;
        return Ok(());
    }
    let scratch = Scratch::bytes((below as usize + 1) * block)?;
    let mut receives = UnderWay::new();
    for (child, number) in children(relative, run.size, radix) {
        let chunk = scratch.part((child - relative) as usize * block, number as usize * block);
        let receiving = run.receive((root + child) % run.size, chunk);
        run.keep(&mut receives, receiving);
    }
    run.note(copy(&send, &scratch.part(0, block)));
    run.end_all(receives).await;
    let sending = run.send(parent, scratch.all());
    run.end(sending).await;
    Ok(())
}

#[cold]
pub(super) fn no_receive() -> Error {
    err!(Buffer, "this process needs a receive buffer and gave none")
}

#[cold]
pub(super) fn no_send() -> Error {
    err!(
        Buffer,
        "MPI_IN_PLACE is not a valid send buffer here: only the root may give it"
    )
}
