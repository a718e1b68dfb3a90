//! Operations across intercommunicators (MPI 5.0 section 6.2.3). Where data is sent from or to a root, the root and the
//! other group are taken together as one group, with the root as rank 0, and the algorithm is the one of
//! intracommunicators. The other operations are made of operations inside each group, and of messages between the groups.

use std::borrow::Cow;

use super::allgather::uneven;
use super::alltoall::{exchange_all, partners};
use super::bcast::broadcast;
use super::buffer::{Address, Blocks, Buffer, Chunk, Packed, VBuffer, WithoutOwn};
use super::choose;
use super::gather::no_receive;
use super::pieces::Pieces;
use super::reduce::within;
use super::reduction::Reducer;
use super::run::{Run, UnderWay};
use super::scatter::linear_root;
use super::scratch::{Scratch, copy};
use crate::base::error::{Error, Result};
use crate::err;
use crate::objects::communicator::Collective;

/// The root of an operation. Across an intercommunicator, processes of the root's group that are not the root
/// (`MPI_PROC_NULL`) do not take part in it: they only begin it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Root {
    /// The process of this rank, across an intercommunicator in the remote group.
    Rank(u32),
    /// This process, whose operation goes to or from the remote group of an intercommunicator (`MPI_ROOT`).
    Here,
}

impl From<u32> for Root {
    fn from(rank: u32) -> Root {
        Root::Rank(rank)
    }
}

impl Root {
    /// The operation among the root and all others that take part in it, and the root's rank there.
    pub(super) fn among(self, operation: &Collective) -> (Cow<'_, Collective>, u32) {
        match self {
            Root::Rank(root) if operation.is_across() => (Cow::Owned(operation.below(root)), 0),
            Root::Rank(root) => (Cow::Borrowed(operation), root),
            Root::Here => (Cow::Owned(operation.above()), 0),
        }
    }

    /// The root's blocks, by rank of the operation among all: an intercommunicator's root has none for itself.
    pub(super) fn own_blocks<B: WithoutOwn>(self, blocks: Option<B>) -> Option<B> {
        match self {
            Root::Here => blocks.map(B::behind_one),
            Root::Rank(_) => blocks,
        }
    }
}

/// The data of each process of one group for all of the other. Every process receives from some of the other group, as
/// many as any other or one more; then what they have received goes round inside the group.
pub(super) async fn allgather(operation: &Collective, send: Option<Buffer>, receive: Buffer) -> Result<()> {
    let own = send.ok_or_else(in_place)?.chunk();
    let mut run = Run::across(operation);
    let total = receive.block(0).len() * u64::from(run.size);
    let range = |first: u32, end: u32| receive.blocks(first, end - first);
    share(&mut run, &operation.inside(), own, &receive, range, total).await?;
    run.finish()
}

/// As [`allgather`], with blocks of different lengths.
pub(super) async fn allgatherv(operation: &Collective, send: Option<Buffer>, receive: VBuffer) -> Result<()> {
    let own = send.ok_or_else(in_place)?.chunk();
    let mut run = Run::across(operation);
    let lengths = (0..run.size).map(|rank| receive.block(rank).len());
    let total = lengths.clone().sum::<u64>();
    // The blocks of one process need not be consecutive.
    let scratch = Scratch::bytes(total as usize)?;
    let packed = Packed::new(scratch.address(), lengths);
    let range = |first: u32, end: u32| packed.range(first, end);
    share(&mut run, &operation.inside(), own, &packed, range, total).await?;
    for rank in 0..run.size {
        run.note(copy(&packed.block(rank), &receive.block(rank)));
    }
    run.finish()
}

/// `range` returns the memory of consecutive blocks.
async fn share(
    run: &mut Run<'_>,
    inside: &Collective,
    own: Chunk,
    blocks: &impl Blocks,
    range: impl Fn(u32, u32) -> Chunk + Send + Sync,
    total: u64,
) -> Result<()> {
    let mut inside = Run::new(inside);
    // The receivers of this process's block, and the senders of the blocks for this one.
    let to = Pieces {
        total: inside.size.into(),
        number: run.size,
    }
    .piece_of(inside.rank.into());
    let theirs = Shares {
        pieces: Pieces {
            total: run.size.into(),
            number: inside.size,
        },
        range,
    };
    let mut under_way = UnderWay::new();
    let (first, end) = theirs.of(inside.rank);
    for from in first..end {
        let receiving = run.receive(from, blocks.block(from));
        run.keep(&mut under_way, receiving);
    }
    let sending = run.send(to, own);
    run.keep(&mut under_way, sending);
    run.end_all(under_way).await;
    uneven(&mut inside, &theirs, total).await?;
    run.note(inside.finish());
    Ok(())
}

/// The blocks of one group's processes, some for each process of the other.
struct Shares<F> {
    pieces: Pieces,
    range: F,
}

impl<F> Shares<F> {
    /// First and end of the blocks that a process receives.
    fn of(&self, rank: u32) -> (u32, u32) {
        let share = self.pieces.range(rank, rank + 1);
        (share.start as u32, share.end as u32)
    }
}

impl<F: Fn(u32, u32) -> Chunk + Send + Sync> Blocks for Shares<F> {
    fn block(&self, rank: u32) -> Chunk {
        let (first, end) = self.of(rank);
        (self.range)(first, end)
    }
}

/// Every process's block for every process of the other group.
pub(super) async fn alltoall<B: Blocks>(operation: &Collective, send: Option<B>, receive: B) -> Result<()> {
    let send = send.ok_or_else(in_place)?;
    let mut run = Run::across(operation);
    let partners = partners(run.rank, operation.inside().size(), run.size);
    exchange_all(&mut run, choose::WINDOW, partners, &send, &receive, || Ok(())).await;
    run.finish()
}

/// The elements of one group combined, for the root in the other group.
pub(super) async fn reduce(
    operation: &Collective,
    root: Root,
    send: Option<Address>,
    receive: Option<Address>,
    reducer: &Reducer,
    count: u64,
) -> Result<()> {
    let mut run = Run::across(operation);
    if count == 0 {
        return Ok(());
    }
    match root {
        Root::Here => {
            let receive = receive.ok_or_else(no_receive)?;
            run.receive_now(0, reducer.chunk(receive, 0..count)).await;
        }
        Root::Rank(root) => {
            let scratch = Scratch::elements(&reducer.datatype, if run.rank == 0 { count } else { 0 }, 1)?;
            let sum = combined(&mut run, &operation.inside(), send, &scratch, reducer, count).await?;
            if let Some(sum) = sum {
                let sending = run.send(root, reducer.chunk(sum, 0..count));
                run.end(sending).await;
            }
        }
    }
    run.finish()
}

/// The elements of this process's group combined, in the first slot of rank 0's scratch.
async fn combined(
    run: &mut Run<'_>,
    inside: &Collective,
    send: Option<Address>,
    scratch: &Scratch,
    reducer: &Reducer,
    count: u64,
) -> Result<Option<Address>> {
    let send = send.ok_or_else(in_place)?;
    let mut inside = Run::new(inside);
    let sum = (inside.rank == 0).then(|| scratch.slot(0));
    within(&mut inside, 0, Some(send), sum, reducer, count).await?;
    run.note(inside.finish());
    Ok(sum)
}

/// The elements of each group combined, for every process of the other: ranks 0 exchange them.
pub(super) async fn allreduce(
    operation: &Collective,
    send: Option<Address>,
    receive: Address,
    reducer: &Reducer,
    count: u64,
) -> Result<()> {
    let mut run = Run::across(operation);
    if count == 0 {
        return Ok(());
    }
    let inside = operation.inside();
    let scratch = Scratch::elements(&reducer.datatype, if run.rank == 0 { count } else { 0 }, 1)?;
    let sum = combined(&mut run, &inside, send, &scratch, reducer, count).await?;
    let result = reducer.chunk(receive, 0..count);
    if let Some(sum) = sum {
        run.exchange(0, reducer.chunk(sum, 0..count), 0, result.clone())
            .await;
    }
    let mut inside = Run::new(&inside);
    broadcast(&mut inside, 0, result).await?;
    run.note(inside.finish());
    run.finish()
}

/// The elements of each group combined and scattered in the other: ranks 0 exchange them. `start` returns where the block
/// of a rank of this process's group begins.
pub(super) async fn reduce_blocks(
    operation: &Collective,
    send: Option<Address>,
    receive: Address,
    start: impl Fn(u32) -> u64 + Send + Sync,
    reducer: &Reducer,
) -> Result<()> {
    let mut run = Run::across(operation);
    let inside = operation.inside();
    let total = start(inside.size());
    if total == 0 {
        return Ok(());
    }
    let scratch = Scratch::elements(&reducer.datatype, if run.rank == 0 { total } else { 0 }, 2)?;
    let sum = combined(&mut run, &inside, send, &scratch, reducer, total).await?;
    let mut inside = Run::new(&inside);
    let mine = start(inside.rank + 1) - start(inside.rank);
    let own = Buffer::one(receive, mine, reducer.datatype.clone());
    match sum {
        Some(sum) => {
            let theirs = scratch.slot(1);
            run.exchange(
                0,
                reducer.chunk(sum, 0..total),
                0,
                reducer.chunk(theirs, 0..total),
            )
            .await;
            let blocks = Combined {
                address: theirs,
                start,
                reducer,
            };
            linear_root(&mut inside, &blocks, Some(&own)).await;
        }
        None => {
            inside.receive_now(0, own.chunk()).await;
        }
    }
    run.note(inside.finish());
    run.finish()
}

/// A result with a block for each rank.
struct Combined<'a, S> {
    address: Address,
    start: S,
    reducer: &'a Reducer,
}

impl<S: Fn(u32) -> u64 + Send + Sync> Blocks for Combined<'_, S> {
    fn block(&self, rank: u32) -> Chunk {
        self.reducer
            .chunk(self.address, (self.start)(rank)..(self.start)(rank + 1))
    }
}

#[cold]
fn in_place() -> Error {
    err!(Buffer, "there is no MPI_IN_PLACE on an intercommunicator")
}
