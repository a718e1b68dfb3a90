//! Reads of other processes' memory where it is ([`Area::lend`]) into memory of an operation.

use super::{Area, part};
use crate::base::error::Result;
use crate::data::pieces::total;
use crate::objects::collective::buffer::Chunk;
use crate::objects::collective::scratch::{Scratch, copy};
use crate::objects::communicator::area::{Bytes, Lent};

/// Reading into runs that are shorter than this on average costs more than unpacking what has been read as one.
const RUN: u64 = 512;
/// So many runs are read into at a time.
const RUNS: usize = 128;
/// So many bytes are unpacked at a time: they stay in a core's own cache.
const UNPACKED: u64 = 64 << 10;

/// The bytes of a chunk that is one run.
pub fn bytes_of(chunk: &Chunk) -> Option<Bytes> {
    let (address, len) = chunk.run()?;
    // SAFETY: of the operation, as the chunk is.
    Some(unsafe { Bytes::new(address.get(), len) })
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
            done += total(&pieces) as u64;
        }
        return Ok(());
    }
    let scratch = Scratch::kept(UNPACKED as usize)?;
    while done < chunk.len() {
        let len = UNPACKED.min(chunk.len() - done);
        let some = scratch.part(0, len as usize);
        area.read(from, at + done, bytes_of(&some).expect("one run"))
            .await?;
        copy(&some, &part(chunk, done, len))?;
        done += len;
    }
    Ok(())
}
