//! `MPI_Bcast` (MPI 5.0 section 6.4).

use smallvec::SmallVec;

use super::buffer::{Address, Buffer, Chunk};
use super::choose;
use super::flat;
use super::inter::Root;
use super::pieces::Pieces;
use super::run::{Network, Run, UnderWay};
use super::scratch::{Scratch, copy};
use super::shared;
use super::tree;
use super::two_level;
use crate::base::error::Result;
use crate::instance::selection::{Algorithm, Choice, Operation};
use crate::objects::communicator::Collective;

/// The elements of `root` for every process, on an intercommunicator for every process of the other group.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` where the root's message is longer than this rank's buffer; the error of a lost process.
pub async fn bcast(operation: &Collective, root: impl Into<Root>, buffer: Buffer) -> Result<()> {
    let (operation, root) = root.into().among(operation);
    if operation.size() == 1 {
        return Ok(());
    }
    among(Network::Real(&operation), root, buffer.chunk()).await
}

/// The same, wherever its messages go.
pub(super) async fn among(network: Network<'_>, root: u32, chunk: Chunk) -> Result<()> {
    if let Some(hosts) = network.hosts()
        && Box::pin(two_level::broadcast(network, hosts, root, &chunk)).await?
    {
        return Ok(());
    }
    let mut run = Run::on(network);
    broadcast(&mut run, root, chunk).await?;
    run.finish()
}

/// The bytes of `root`, which is one of the ranks, for every process. All pass the same number; their contents matter only at the root.
///
/// # Errors
/// What peers say of lost processes.
pub async fn bcast_bytes(operation: &Collective, root: u32, bytes: Vec<u8>) -> Result<Vec<u8>> {
    if operation.size() == 1 {
        return Ok(bytes);
    }
    let scratch = Scratch::of(&bytes)?;
    among(Network::Real(operation), root, scratch.all()).await?;
    Ok(scratch.to_vec())
}

/// Among the processes of a run.
pub(super) async fn broadcast(run: &mut Run<'_>, root: u32, chunk: Chunk) -> Result<()> {
    if let Some(area) = run.area_for(Operation::Bcast, chunk.len())
        && shared::broadcast(run, area, root, &chunk).await
    {
        return Ok(());
    }
    by_messages(run, root, chunk).await
}

/// The same, without the memory that the processes may share.
pub(super) async fn by_messages(run: &mut Run<'_>, root: u32, chunk: Chunk) -> Result<()> {
    let choice = choose::moving(run, Operation::Bcast, chunk.len());
    let algorithm = choice.algorithm;
    if algorithm == Algorithm::Flat {
        flat::broadcast(run, root, &chunk).await;
        return Ok(());
    }
    if algorithm == Algorithm::Tree {
        tree(run, choice.radix, root, &chunk).await;
        return Ok(());
    }
    if algorithm == Algorithm::Chain {
        return chain(run, choice, root, &chunk).await;
    }
    let cut = Cut::of(&chunk, run.size)?;
    if run.rank == root {
        run.note(cut.pack(&chunk));
    }
    scatter(run, root, &cut).await;
    if algorithm == Algorithm::ScatterDoubling {
        allgather_doubling(run, root, &cut).await;
    } else {
        allgather_ring(run, root, &cut).await;
    }
    if run.rank != root {
        run.note(cut.unpack(&chunk));
    }
    Ok(())
}

/// Whole, down a k-nomial tree.
async fn tree(run: &mut Run<'_>, radix: u32, root: u32, chunk: &Chunk) {
    let (relative, size) = (run.relative(root), run.size);
    let rank = |relative: u32| ((u64::from(relative) + u64::from(root)) % u64::from(size)) as u32;
    if relative != 0 {
        run.receive_now(rank(tree::parent(relative, radix)), chunk.clone())
            .await;
    }
    let mut sends = UnderWay::new();
    for (child, _) in tree::children(relative, size, radix) {
        let sending = run.send(rank(child), chunk.clone());
        run.keep(&mut sends, sending);
    }
    run.end_all(sends).await;
}

/// Piece after piece along a chain, or down a k-ary tree (the pipelined chain and tree of the "tuned" collectives of Open MPI:
/// J. Pješivac-Grbović and others: Performance analysis of MPI collective operations, 2005).
async fn chain(run: &mut Run<'_>, choice: Choice, root: u32, chunk: &Chunk) -> Result<()> {
    let (relative, size, radix) = (
        u64::from(run.relative(root)),
        u64::from(run.size),
        u64::from(choice.radix),
    );
    let rank = |relative: u64| ((relative + u64::from(root)) % size) as u32;
    let parent = (relative > 0).then(|| rank((relative - 1) / radix));
    let children = (relative * radix + 1..=relative * radix + radix).take_while(|&child| child < size);
    let children: SmallVec<[u32; 8]> = children.map(rank).collect();
    let pieces = chunk.len().div_ceil(choice.piece).clamp(1, PIECES_MAX);
    pipeline(run, chunk, pieces as u32, parent, &children).await
}

/// In more pieces no message is cut.
const PIECES_MAX: u64 = 1 << 20;

/// Receives pieces from the parent (the root has none), and passes each on to the children while the next ones come.
pub(super) async fn pipeline<'a>(
    run: &mut Run<'a>,
    chunk: &Chunk,
    pieces: u32,
    parent: Option<u32>,
    children: &[u32],
) -> Result<()> {
    let cut = Cut::of(chunk, pieces)?;
    if parent.is_none() {
        run.note(cut.pack(chunk));
    }
    let post = |run: &Run<'a>, piece: u32| {
        let from = parent.filter(|_| piece < pieces)?;
        Some(run.receive(from, cut.range(piece, piece + 1)))
    };
    let mut next = post(run, 0);
    let mut sends = UnderWay::new();
    for piece in 0..pieces {
        let receiving = next.take();
        next = post(run, piece + 1);
        if let Some(receiving) = receiving {
            run.end(receiving).await;
        }
        if sends.len() >= choose::WINDOW {
            run.end_all(std::mem::take(&mut sends)).await;
        }
        for &child in children {
            let sending = run.send(child, cut.range(piece, piece + 1));
            run.keep(&mut sends, sending);
        }
    }
    run.end_all(sends).await;
    if parent.is_some() {
        run.note(cut.unpack(chunk));
    }
    Ok(())
}

/// A message cut into pieces. Where there is one for each process, piece `p` belongs to the process `p` above the root.
pub(super) struct Cut {
    address: Address,
    pieces: Pieces,
    /// Pieces are runs of bytes; anything else is packed. Short scratch must not move once its address is taken.
    packed: Option<Box<Scratch>>,
}

impl Cut {
    pub fn of(chunk: &Chunk, number: u32) -> Result<Cut> {
        let packed = match chunk.run() {
            Some(_) => None,
            None => Some(Box::new(Scratch::bytes(chunk.len() as usize)?)),
        };
        let whole = packed
            .as_ref()
            .map_or_else(|| chunk.clone(), |packed| packed.all());
        let (address, _) = whole.run().expect("bytes are one run");
        let pieces = Pieces {
            total: chunk.len(),
            number,
        };
        Ok(Cut {
            address,
            pieces,
            packed,
        })
    }

    /// Makes the message's bytes those of the pieces.
    pub fn pack(&self, chunk: &Chunk) -> Result<()> {
        let packed = self.packed.as_ref();
        packed.map_or(Ok(()), |packed| copy(chunk, &packed.all()))
    }

    /// The reverse.
    pub fn unpack(&self, chunk: &Chunk) -> Result<()> {
        let packed = self.packed.as_ref();
        packed.map_or(Ok(()), |packed| copy(&packed.all(), chunk))
    }

    /// Pieces `first` to `end - 1`.
    pub fn range(&self, first: u32, end: u32) -> Chunk {
        let range = self.pieces.range(first, end);
        let len = (range.end - range.start) as usize;
        Chunk::bytes(self.address.at(range.start as i64), len)
    }
}

/// Each process gets its piece, by a binomial tree.
async fn scatter(run: &mut Run<'_>, root: u32, cut: &Cut) {
    let relative = run.relative(root);
    let mut mask = 1;
    while mask < run.size && relative & mask == 0 {
        mask *= 2;
    }
    if relative != 0 {
        let (from, end) = (run.below(mask), run.size.min(relative + mask));
        run.receive_now(from, cut.range(relative, end)).await;
    }
    let mut sends = UnderWay::new();
    mask /= 2;
    while mask > 0 {
        let child = relative + mask;
        if child < run.size {
            let range = cut.range(child, run.size.min(child + mask));
            let sending = run.send(run.above(mask), range);
            run.keep(&mut sends, sending);
        }
        mask /= 2;
    }
    run.end_all(sends).await;
}

/// Every process's piece for every process, for a power of two of processes.
async fn allgather_doubling(run: &mut Run<'_>, root: u32, cut: &Cut) {
    let relative = run.relative(root);
    let mut mask = 1;
    while mask < run.size {
        let partner = relative ^ mask;
        let (mine, theirs) = (relative & !(mask - 1), partner & !(mask - 1));
        let rank = (partner + root) % run.size;
        run.exchange(
            rank,
            cut.range(mine, mine + mask),
            rank,
            cut.range(theirs, theirs + mask),
        )
        .await;
        mask *= 2;
    }
}

/// Every process's piece for every process, from neighbour to neighbour.
async fn allgather_ring(run: &mut Run<'_>, root: u32, cut: &Cut) {
    let relative = run.relative(root);
    let (to, from) = (run.above(1), run.below(1));
    let mut sends = UnderWay::new();
    for step in 0..run.size - 1 {
        let out = (relative + run.size - step) % run.size;
        let into = (out + run.size - 1) % run.size;
        let sending = run.send(to, cut.range(out, out + 1));
        run.keep(&mut sends, sending);
        run.receive_now(from, cut.range(into, into + 1)).await;
    }
    run.end_all(sends).await;
}
