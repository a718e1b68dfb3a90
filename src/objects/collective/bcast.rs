//! `MPI_Bcast` (MPI 5.0 section 6.4).

use super::buffer::{Address, Buffer};
use super::choose::{self, Bcast};
use super::flat;
use super::inter::Root;
use super::pieces::Pieces;
use super::run::Run;
use super::scratch::{Scratch, copy};
use crate::base::error::Result;
use crate::data::memory::Memory;
use crate::objects::communicator::Collective;

/// The elements of `root` for everybody, of an intercommunicator for everybody in the other group.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` where the root's message is longer than this rank's buffer; what peers say of lost processes.
pub async fn bcast(operation: &Collective, root: impl Into<Root>, buffer: Buffer) -> Result<()> {
    let (operation, root) = root.into().among(operation);
    let mut run = Run::new(&operation);
    if run.size > 1 {
        broadcast(&mut run, root, buffer.memory()).await?;
    }
    run.finish()
}

/// The bytes of `root` for everybody.
pub async fn bcast_bytes(operation: &Collective, root: u32, bytes: &mut [u8]) -> Result<()> {
    let mut run = Run::new(operation);
    if run.size > 1 {
        broadcast(&mut run, root, Memory::of_mut(bytes)).await?;
    }
    run.finish()
}

pub(super) async fn broadcast(run: &mut Run<'_>, root: u32, memory: Memory) -> Result<()> {
    let algorithm = choose::bcast(memory.len(), run.size, run.flat);
    if algorithm == Bcast::Flat {
        flat::broadcast(run, root, &memory).await;
        return Ok(());
    }
    if algorithm == Bcast::Binomial {
        binomial(run, root, &memory).await;
        return Ok(());
    }
    // Pieces are runs of bytes; anything else is packed.
    let scratch = Scratch::bytes(match memory.contiguous() {
        Some(_) => 0,
        None => memory.len() as usize,
    })?;
    let (address, packed) = match memory.contiguous() {
        // SAFETY: the memory of the operation, of which each piece lies within.
        Some((address, _)) => (unsafe { Address::new(address) }, false),
        None => (scratch.address(), true),
    };
    if packed && run.rank == root {
        run.note(copy(&memory, &scratch.memory()));
    }
    let pieces = Pieces {
        total: memory.len(),
        number: run.size,
    };
    let pieces = Cut { address, pieces };
    scatter(run, root, &pieces).await;
    if algorithm == Bcast::ScatterDoubling {
        allgather_doubling(run, root, &pieces).await;
    } else {
        allgather_ring(run, root, &pieces).await;
    }
    if packed && run.rank != root {
        run.note(copy(&scratch.memory(), &memory));
    }
    Ok(())
}

/// Whole, down a binomial tree.
async fn binomial(run: &mut Run<'_>, root: u32, memory: &Memory) {
    let relative = run.relative(root);
    let mut mask = 1;
    while mask < run.size {
        if relative & mask != 0 {
            let from = run.below(mask);
            let receiving = run.receive(from, memory.clone());
            run.end(receiving).await;
            break;
        }
        mask *= 2;
    }
    mask /= 2;
    let mut sends = Vec::new();
    while mask > 0 {
        if relative + mask < run.size {
            let to = run.above(mask);
            let sending = run.send(to, memory.clone());
            run.keep(&mut sends, sending);
        }
        mask /= 2;
    }
    run.end_all(sends).await;
}

/// The message cut into a piece for each process; piece `p` is that of the process `p` above the root.
struct Cut {
    address: Address,
    pieces: Pieces,
}

impl Cut {
    fn range(&self, first: u32, end: u32) -> Memory {
        let range = self.pieces.range(first, end);
        Memory::Contiguous {
            address: self.address.at(range.start as i64).get(),
            len: (range.end - range.start) as usize,
        }
    }
}

/// To each its piece, by a binomial tree.
async fn scatter(run: &mut Run<'_>, root: u32, cut: &Cut) {
    let relative = run.relative(root);
    let mut mask = 1;
    while mask < run.size && relative & mask == 0 {
        mask *= 2;
    }
    if relative != 0 {
        let (from, end) = (run.below(mask), run.size.min(relative + mask));
        let receiving = run.receive(from, cut.range(relative, end));
        run.end(receiving).await;
    }
    let mut sends = Vec::new();
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

/// Everybody's piece for everybody, for a power of two of processes.
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

/// Everybody's piece for everybody, from neighbour to neighbour.
async fn allgather_ring(run: &mut Run<'_>, root: u32, cut: &Cut) {
    let relative = run.relative(root);
    let (to, from) = (run.above(1), run.below(1));
    let mut sends = Vec::new();
    for step in 0..run.size - 1 {
        let out = (relative + run.size - step) % run.size;
        let into = (out + run.size - 1) % run.size;
        let receiving = run.receive(from, cut.range(into, into + 1));
        let sending = run.send(to, cut.range(out, out + 1));
        run.keep(&mut sends, sending);
        run.end(receiving).await;
    }
    run.end_all(sends).await;
}
