//! Direct algorithms, for processes that share processors: everything is sent directly to one process and directly from
//! it.
//!
//! There, an algorithm of several rounds is expensive for its turns, not for its messages: in each round, each process
//! has to get its turn on the processor before the next round can begin, and a change of processes costs as much as
//! several messages. Here the processes other than the root send and receive once, and a process that the root has
//! released can begin the next operation in the same turn.

use super::buffer::{Address, Chunk};
use super::gather::no_send;
use super::reduction::{Accumulator, Reducer};
use super::run::{Run, UnderWay};
use super::scratch::Scratch;
use crate::base::error::Result;

/// No process leaves before all have come.
pub(super) async fn barrier(run: &mut Run<'_>) {
    if run.rank == 0 {
        for from in 1..run.size {
            run.receive_now(from, Chunk::empty()).await;
        }
    } else {
        let sending = run.send(0, Chunk::empty());
        run.end(sending).await;
    }
    broadcast(run, 0, &Chunk::empty()).await;
}

/// From the root to all others.
pub(super) async fn broadcast(run: &mut Run<'_>, root: u32, chunk: &Chunk) {
    if run.rank != root {
        return run.receive_now(root, chunk.clone()).await;
    }
    let mut sends = UnderWay::new();
    for to in run.others() {
        let sending = run.send(to, chunk.clone());
        run.keep(&mut sends, sending);
    }
    run.end_all(sends).await;
}

/// All `count` elements combined, for the root; only the root passes `receive`. It takes one operand after the other,
/// because most have arrived when it gets its turn: those of the ranks below it from the nearest on, then those above.
pub(super) async fn reduce(
    run: &mut Run<'_>,
    root: u32,
    send: Option<Address>,
    receive: Option<Address>,
    reducer: &Reducer,
    count: u64,
) -> Result<()> {
    let Some(receive) = receive else {
        let own = send.ok_or_else(no_send)?;
        let sending = run.send(root, reducer.chunk(own, 0..count));
        run.end(sending).await;
        return Ok(());
    };
    let scratch = Scratch::elements(&reducer.datatype, count, 1)?;
    let mut sum = match send {
        Some(send) => Accumulator::reading(reducer, send, [receive, scratch.slot(0)]),
        None => Accumulator::owning(reducer, receive, scratch.slot(0)),
    };
    for from in (0..root).rev().chain(root + 1..run.size) {
        run.receive_now(from, reducer.chunk(sum.free, 0..count)).await;
        sum.absorb(from < root, !reducer.commutes(), 0..count);
    }
    sum.settle(receive, 0..count);
    Ok(())
}
