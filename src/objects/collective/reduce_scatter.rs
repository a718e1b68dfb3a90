//! `MPI_Reduce_scatter_block`, `MPI_Reduce_scatter` (MPI 5.0 section 6.10).

use std::ops::Range;
use std::sync::Arc;

use super::buffer::{Address, Chunk, Operands};
use super::choose;
use super::gather::no_send;
use super::inter;
use super::queue::Queue;
use super::reduce;
use super::reduction::{Accumulator, Folding, Halving, Order, Reducer};
use super::run::{Network, Run, UnderWay};
use super::scratch::{Scratch, copy};
use super::shared;
use crate::base::error::Result;
use crate::data::datatype::Datatype;
use crate::data::op::Op;
use crate::instance::selection::{Algorithm, Operation};
use crate::objects::communicator::Collective;

/// The elements of all ranks combined, for each rank as many as its result has. With `MPI_IN_PLACE` the result is stored at the
/// beginning of the receive buffer. On an intercommunicator: the elements of each group for the other, where both receive the same
/// number in all; the ranks are those of a process's own group.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` at a process whose peer sends more elements; `MPI_ERR_COUNT` where its operand has another number than all
/// results together.
pub async fn reduce_scatter_block(operation: &Collective, operands: Operands) -> Result<()> {
    let count = operands.result;
    let start = move |rank: u32| count.saturating_mul(rank.into());
    reduce_blocks(operation, operands, start).await
}

/// The sum of the numbers that all processes have for this one: each has one for every rank.
///
/// # Errors
/// A process is lost.
///
/// # Panics
/// If there is not one for every rank.
pub async fn sum_of_each(operation: &Collective, mine: Vec<u64>) -> Result<u64> {
    assert_eq!(mine.len(), operation.size() as usize, "one for every rank");
    let mut sum = Box::new(0u64);
    // SAFETY: both are on the heap and this function's own until the operation has ended or is dropped, which ends it.
    let operands = unsafe {
        Operands::new(
            Some(mine.as_ptr().cast()),
            Some((&raw mut *sum).cast()),
            mine.len() as u64,
            1,
            Datatype::uint64().clone(),
            Op::sum().clone(),
        )
    };
    reduce_scatter_block(operation, operands).await?;
    drop(mine);
    Ok(*sum)
}

/// As [`reduce_scatter_block`], with `counts[r]` elements for rank `r`.
///
/// # Errors
/// As for [`reduce_scatter_block`].
///
/// # Panics
/// If there is no count for a rank.
pub async fn reduce_scatter(operation: &Collective, operands: Operands, counts: Arc<[u64]>) -> Result<()> {
    let mut starts = Vec::with_capacity(counts.len() + 1);
    let mut end = 0u64;
    starts.push(0);
    starts.extend(counts.iter().map(|count| {
        end = end.saturating_add(*count);
        end
    }));
    let start = move |rank: u32| starts[rank as usize];
    reduce_blocks(operation, operands, start).await
}

/// `start` returns where a rank's block begins, in elements, and never decreases.
async fn reduce_blocks(
    operation: &Collective,
    operands: Operands,
    start: impl Fn(u32) -> u64 + Send + Sync,
) -> Result<()> {
    let rank = operation.rank();
    let ranks = match operation.is_across() {
        true => operation.inside().size(),
        false => operation.size(),
    };
    let Operands {
        send,
        receive,
        reducer,
        ..
    } = operands.scattered(start(ranks), start(rank + 1) - start(rank))?;
    let own = send.or(receive).ok_or_else(no_send)?;
    // Who gets nothing needs no place for it.
    let receive = receive.unwrap_or(own);
    if operation.is_across() {
        return inter::reduce_blocks(operation, send, receive, start, &reducer).await;
    }
    among(Network::Real(operation), send, receive, start, reducer).await
}

/// The same, wherever its messages go.
pub(super) async fn among(
    network: Network<'_>,
    send: Option<Address>,
    receive: Address,
    start: impl Fn(u32) -> u64 + Send + Sync,
    reducer: Reducer,
) -> Result<()> {
    let mut run = Run::on(network);
    let rank = run.rank;
    let blocks = Task {
        own: send.unwrap_or(receive),
        in_place: send.is_none(),
        receive,
        start,
        reducer,
    };
    let total = (blocks.start)(run.size);
    if total == 0 {
        return Ok(());
    }
    if run.size == 1 {
        if send.is_some() {
            blocks.reducer.copy(blocks.own, receive, 0..total);
        }
        return Ok(());
    }
    if let Some(area) = run.area {
        let range = (blocks.start)(rank)..(blocks.start)(rank + 1);
        let reducer = &blocks.reducer;
        if shared::reduce_scatter(&mut run, area, send, receive, reducer, total, range).await? {
            return run.finish();
        }
    }
    match choose::reducing(&run, Operation::ReduceScatter, &blocks.reducer, total, None).algorithm {
        Algorithm::Direct => blocks.pairwise(&mut run).await?,
        Algorithm::Halving => blocks.halving(&mut run).await?,
        _ => blocks.reduce_then_scatter(&mut run).await?,
    }
    run.finish()
}

/// One reduce-scatter.
struct Task<S> {
    /// This process's operand, which stays unchanged until everything has been sent.
    own: Address,
    in_place: bool,
    receive: Address,
    start: S,
    reducer: Reducer,
}

/// The number of operands for which a process has room at a time.
const OPERANDS: usize = 4;

impl<S: Fn(u32) -> u64 + Send + Sync> Task<S> {
    fn block(&self, rank: u32) -> Range<u64> {
        (self.start)(rank)..(self.start)(rank + 1)
    }

    fn chunk(&self, rank: u32) -> Chunk {
        self.reducer.chunk(self.own, self.block(rank))
    }

    /// Where a rank's block of this process's operand begins.
    fn address(&self, rank: u32) -> Address {
        self.own.element((self.start)(rank), &self.reducer.datatype)
    }

    /// Puts the result, some elements at `from`, where it belongs.
    fn settle(&self, from: Address, count: u64) {
        if from != self.receive {
            self.reducer.copy(from, self.receive, 0..count);
        }
    }

    /// Every block directly to its owner, which combines them as they come: first those of the ranks below it, from the
    /// nearest on, then those of the ranks above, from the farthest on. So each operand is put before what has been
    /// combined of its side.
    async fn pairwise<'a>(&self, run: &mut Run<'a>) -> Result<()> {
        let reducer = &self.reducer;
        let mine = self.block(run.rank);
        let count = mine.end - mine.start;
        let scratch = Scratch::elements(&reducer.datatype, count, OPERANDS + 2)?;
        let low = match self.in_place {
            true => scratch.slot(OPERANDS),
            false => self.receive,
        };
        let high = scratch.slot(OPERANDS + 1);
        let copy_into = |from: Address, to: Address| {
            let (from, to) = (reducer.chunk(from, 0..count), reducer.chunk(to, 0..count));
            copy(&from, &to).expect("as many elements");
        };
        let mut any_high = false;
        let mut sends = Queue::new();
        let mut receives = Queue::new();
        let post = |run: &Run<'a>, distance: u32| {
            let slot = scratch.slot(distance as usize % OPERANDS);
            run.receive(run.below(distance), reducer.chunk(slot, 0..count))
        };
        let ahead = OPERANDS as u32;
        for distance in 1..run.size.min(ahead + 1) {
            if count > 0 {
                receives.push(post(run, distance));
            }
            let to = run.above(distance);
            if !self.block(to).is_empty() {
                sends.push(run.send(to, self.chunk(to)));
            }
        }
        copy_into(self.address(run.rank), low);
        for distance in 1..run.size {
            if let Some(receiving) = receives.pop() {
                run.end(receiving).await;
                let operand = scratch.slot(distance as usize % OPERANDS);
                if distance <= run.rank || reducer.commutes() {
                    reducer.combine(operand, low, 0..count);
                } else if any_high {
                    reducer.combine(operand, high, 0..count);
                } else {
                    copy_into(operand, high);
                    any_high = true;
                }
            }
            if distance + ahead < run.size {
                if count > 0 {
                    receives.push(post(run, distance + ahead));
                }
                let to = run.above(distance + ahead);
                if !self.block(to).is_empty() {
                    sends.push(run.send(to, self.chunk(to)));
                }
            }
            if sends.len() > choose::WINDOW {
                let oldest = sends.pop().expect("the window is not empty");
                run.end(oldest).await;
            }
        }
        while let Some(sending) = sends.pop() {
            run.end(sending).await;
        }
        if any_high {
            reducer.combine(low, high, 0..count);
            self.settle(high, count);
        } else {
            self.settle(low, count);
        }
        Ok(())
    }

    /// Recursive halving, for operations that commute.
    async fn halving(&self, run: &mut Run<'_>) -> Result<()> {
        let reducer = &self.reducer;
        let folding = Folding::of(run.size);
        let mine = self.block(run.rank);
        let all = 0..(self.start)(run.size);
        let scratch = Scratch::elements(&reducer.datatype, all.end, 2)?;
        let mut sum = Accumulator::reading(reducer, self.own, [scratch.slot(0), scratch.slot(1)]);
        let Some(folded) = folding.fold(run, &mut sum, all).await else {
            let result = reducer.chunk(self.receive, 0..mine.end - mine.start);
            run.receive_now(run.rank + 1, result).await;
            return Ok(());
        };
        let start = |piece: u32| (self.start)(folding.first_rank(piece));
        let halving = Halving {
            folding,
            order: Order::FarFirst,
            start: &start,
        };
        halving.reduce_scatter(run, &mut sum, folded).await;
        if run.rank < 2 * folding.pairs {
            let theirs = reducer.chunk(sum.sum, self.block(run.rank - 1));
            let sending = run.send(run.rank - 1, theirs);
            run.end(sending).await;
        }
        self.settle(
            sum.sum.element(mine.start, &reducer.datatype),
            mine.end - mine.start,
        );
        Ok(())
    }

    /// All to rank 0, which scatters.
    async fn reduce_then_scatter(&self, run: &mut Run<'_>) -> Result<()> {
        let reducer = &self.reducer;
        let all = (self.start)(run.size);
        let mine = self.block(run.rank);
        let count = mine.end - mine.start;
        let scratch = Scratch::elements(&reducer.datatype, if run.rank == 0 { all } else { 0 }, 1)?;
        let result = (run.rank == 0).then(|| scratch.slot(0));
        reduce::whole(run, 0, Some(self.own), result, reducer, all).await?;
        let Some(result) = result else {
            run.receive_now(0, reducer.chunk(self.receive, 0..count)).await;
            return Ok(());
        };
        let mut sends = UnderWay::new();
        for rank in 1..run.size {
            let sending = run.send(rank, reducer.chunk(result, self.block(rank)));
            run.keep(&mut sends, sending);
        }
        self.settle(result, count);
        run.end_all(sends).await;
        Ok(())
    }
}
