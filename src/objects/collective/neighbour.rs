//! Operations among neighbours in a topology (MPI 5.0 section 8.6): every block directly to its neighbour, by messages, or inside a host
//! in shared memory ([`shared`]).
//!
//! Messages between the same two processes are told apart by their order: the one of the first edge is sent first, and received first. In
//! a grid a process may be the neighbour on both sides of a dimension. What it sends to one side comes from the other side, so in each
//! dimension blocks are received in the order opposite to that in which they are sent.

use super::buffer::{Blocks, Buffer, Chunk, VBuffer, WBuffer};
use super::run::Run;
pub(super) use super::run::UnderWay;
use super::scratch::copy;
use super::shared;
use crate::base::error::Result;
use crate::err;
use crate::objects::communicator::Collective;
use crate::objects::topology::Neighbours;

/// This process's elements to each destination, and those of each source: a block of `receive` for each.
///
/// # Errors
/// `MPI_ERR_TOPOLOGY` without a topology for this, `MPI_ERR_TRUNCATE` where a source sends more than is expected.
pub async fn neighbour_allgather(operation: &Collective, send: Buffer, receive: Buffer) -> Result<()> {
    exchange(operation, true, |_| send.chunk(), &receive).await
}

/// As [`neighbour_allgather`], with blocks of different lengths.
///
/// # Errors
/// As for [`neighbour_allgather`].
pub async fn neighbour_allgatherv(operation: &Collective, send: Buffer, receive: VBuffer) -> Result<()> {
    exchange(operation, true, |_| send.chunk(), &receive).await
}

/// A block for each destination, and one from each source.
///
/// # Errors
/// As for [`neighbour_allgather`].
pub async fn neighbour_alltoall(operation: &Collective, send: Buffer, receive: Buffer) -> Result<()> {
    exchange(operation, false, |at| send.block(at), &receive).await
}

/// As [`neighbour_alltoall`], with blocks of different lengths.
///
/// # Errors
/// As for [`neighbour_allgather`].
pub async fn neighbour_alltoallv(operation: &Collective, send: VBuffer, receive: VBuffer) -> Result<()> {
    exchange(operation, false, |at| send.block(at), &receive).await
}

/// As [`neighbour_alltoallv`], with displacements in bytes and blocks of different datatypes.
///
/// # Errors
/// As for [`neighbour_allgather`].
pub async fn neighbour_alltoallw(operation: &Collective, send: WBuffer, receive: WBuffer) -> Result<()> {
    exchange(operation, false, |at| send.block(at), &receive).await
}

/// `outgoing` is the block for a destination; with `same` it is one for all.
async fn exchange(
    operation: &Collective,
    same: bool,
    outgoing: impl Fn(u32) -> Chunk + Send + Sync,
    receive: &impl Blocks,
) -> Result<()> {
    let Some(topology) = operation.communicator().topology() else {
        return Err(err!(Topology, "the communicator has no topology"));
    };
    let neighbours = topology.neighbours()?;
    let mut run = Run::new(operation);
    match run.area_of_host() {
        Some(area) => {
            shared::among_neighbours(&mut run, area, neighbours, same, &outgoing, receive).await?;
        }
        None => {
            let others = |rank| rank != operation.rank();
            let under_way = start(&mut run, neighbours, others, &outgoing, receive);
            for (place, block) in neighbours.own(run.rank) {
                run.note(copy(&outgoing(block), &receive.block(place as u32)));
            }
            run.end_all(under_way).await;
        }
    }
    run.finish()
}

/// Starts to exchange messages with those neighbours. Empty blocks are not sent. All receives are posted before anything is sent: a process
/// knows nothing of the order in which its neighbours send.
pub(super) fn start<'a>(
    run: &mut Run<'a>,
    neighbours: &Neighbours,
    with: impl Fn(u32) -> bool,
    outgoing: &impl Fn(u32) -> Chunk,
    receive: &impl Blocks,
) -> UnderWay<'a> {
    let mut under_way = UnderWay::new();
    for place in neighbours.order() {
        if let Some(from) = neighbours.sources[place].filter(|&from| with(from)) {
            let incoming = receive.block(place as u32);
            if !incoming.is_empty() {
                let receiving = run.receive(from, incoming);
                run.keep(&mut under_way, receiving);
            }
        }
    }
    for (at, to) in (0..).zip(&neighbours.destinations) {
        if let Some(to) = to.filter(|&to| with(to)) {
            let block = outgoing(at);
            if !block.is_empty() {
                let sending = run.send(to, block);
                run.keep(&mut under_way, sending);
            }
        }
    }
    under_way
}
