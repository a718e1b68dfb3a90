//! Operations among neighbours in a topology (MPI 5.0 section 8.6): every block directly to its neighbour.
//!
//! Messages between the same two processes are told apart by their order: the one of the first edge is sent first, and received first. In
//! a grid a process may be the neighbour on both sides of a dimension. What it sends to one side comes from the other side, so in each
//! dimension blocks are received in the order opposite to that in which they are sent.

use super::buffer::{Blocks, Buffer, Chunk, VBuffer, WBuffer};
use super::run::Run;
use crate::base::error::Result;
use crate::err;
use crate::objects::communicator::Collective;

/// This process's elements to each destination, and those of each source: a block of `receive` for each.
///
/// # Errors
/// `MPI_ERR_TOPOLOGY` without a topology for this, `MPI_ERR_TRUNCATE` where a source sends more than is expected.
pub async fn neighbour_allgather(operation: &Collective, send: Buffer, receive: Buffer) -> Result<()> {
    exchange(operation, |_| send.chunk(), &receive).await
}

/// As [`neighbour_allgather`], with blocks of different lengths.
///
/// # Errors
/// As for [`neighbour_allgather`].
pub async fn neighbour_allgatherv(operation: &Collective, send: Buffer, receive: VBuffer) -> Result<()> {
    exchange(operation, |_| send.chunk(), &receive).await
}

/// A block for each destination, and one from each source.
///
/// # Errors
/// As for [`neighbour_allgather`].
pub async fn neighbour_alltoall(operation: &Collective, send: Buffer, receive: Buffer) -> Result<()> {
    exchange(operation, |at| send.block(at), &receive).await
}

/// As [`neighbour_alltoall`], with blocks of different lengths.
///
/// # Errors
/// As for [`neighbour_allgather`].
pub async fn neighbour_alltoallv(operation: &Collective, send: VBuffer, receive: VBuffer) -> Result<()> {
    exchange(operation, |at| send.block(at), &receive).await
}

/// As [`neighbour_alltoallv`], with displacements in bytes and blocks of different datatypes.
///
/// # Errors
/// As for [`neighbour_allgather`].
pub async fn neighbour_alltoallw(operation: &Collective, send: WBuffer, receive: WBuffer) -> Result<()> {
    exchange(operation, |at| send.block(at), &receive).await
}

/// `outgoing` is the block for a destination. Empty blocks are not sent. All receives are posted before anything is sent: a process
/// knows nothing of the order in which its neighbours send.
async fn exchange(
    operation: &Collective,
    outgoing: impl Fn(u32) -> Chunk + Send + Sync,
    receive: &impl Blocks,
) -> Result<()> {
    let Some(topology) = operation.communicator().topology() else {
        return Err(err!(Topology, "the communicator has no topology"));
    };
    let neighbours = topology.neighbours()?;
    let mut run = Run::new(operation);
    let mut under_way = Vec::with_capacity(neighbours.sources.len());
    for place in 0..neighbours.sources.len() {
        let at = place ^ usize::from(neighbours.crosswise);
        if let Some(from) = neighbours.sources[at] {
            let incoming = receive.block(at as u32);
            if !incoming.is_empty() {
                under_way.push(run.receive(from, incoming));
            }
        }
    }
    for (at, to) in (0..).zip(&neighbours.destinations) {
        if let Some(to) = *to {
            let block = outgoing(at);
            if !block.is_empty() {
                let sending = run.send(to, block);
                run.keep(&mut under_way, sending);
            }
        }
    }
    run.end_all(under_way).await;
    run.finish()
}
