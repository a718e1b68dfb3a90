//! Memory of an operation that other processes read where it is ([`Area::lend`]): a chunk that is one run is lent as it is, others packed.

use super::{Area, Run, part};
use crate::base::error::Result;
use crate::objects::collective::buffer::Chunk;
use crate::objects::collective::scratch::{Scratch, copy};
use crate::objects::communicator::area::{Bytes, Lent, Round};

/// Reading into runs that are shorter than this on average costs more than unpacking what has been read as one.
const RUN: u64 = 512;
/// So many runs are read into at a time.
const RUNS: usize = 128;
/// So many bytes are unpacked at a time: they stay in a core's own cache.
const PIECE: u64 = 64 << 10;

/// What a process lends: keep it until the others are done with it.
#[must_use]
pub struct Loan {
    /// What is lent where the chunk is not one run.
    _packed: Option<Scratch>,
}

/// The bytes of a chunk that is one run.
pub fn bytes_of(chunk: &Chunk) -> Option<Bytes> {
    let (address, len) = chunk.run()?;
    // SAFETY: of the operation, as the chunk is.
    Some(unsafe { Bytes::new(address.get(), len) })
}

/// Lends the bytes of a chunk in a round. `total`: see [`Published`](super::Published).
pub async fn lend(run: &mut Run<'_>, area: &Area, round: Round, chunk: &Chunk, total: u64) -> Result<Loan> {
    let (bytes, packed) = match bytes_of(chunk) {
        Some(bytes) => (bytes, None),
        None => {
            let packed = room_for(chunk.len() as usize)?;
            let all = packed.part(0, chunk.len() as usize);
            run.note(copy(chunk, &all));
            (bytes_of(&all).expect("one run"), Some(packed))
        }
    };
    area.lend(round, bytes, total).await?;
    Ok(Loan { _packed: packed })
}

/// The least length of a scratch that lies outside of it.
const PACKED_MIN: usize = 1 << 10;

/// Room for bytes that are lent packed: what is longer than what a scratch keeps inside, so it may move.
pub fn room_for(bytes: usize) -> Result<Scratch> {
    Scratch::bytes(bytes.max(PACKED_MIN))
}

/// Reads lent bytes from byte `at` on into a chunk, all that it has room for.
pub async fn read(area: &Area, from: &Lent, at: u64, chunk: &Chunk) -> Result<()> {
    if let Some(bytes) = bytes_of(chunk) {
        return area.read(from, at, bytes).await;
    }
    let memory = chunk.memory();
    let mut done = 0;
    if memory.mean_run() >= RUN {
        while done < chunk.len() {
            let pieces = memory.pieces(done, chunk.len() - done, RUNS);
            // SAFETY: memory of the operation.
            unsafe { area.read_pieces(from, at + done, &pieces).await? };
            done += crate::data::pieces::total(&pieces) as u64;
        }
        return Ok(());
    }
    let scratch = Scratch::bytes(chunk.len().clamp(PACKED_MIN as u64, PIECE) as usize)?;
    while done < chunk.len() {
        let len = PIECE.min(chunk.len() - done);
        let some = scratch.part(0, len as usize);
        area.read(from, at + done, bytes_of(&some).expect("one run"))
            .await?;
        copy(&some, &part(chunk, done, len))?;
        done += len;
    }
    Ok(())
}
