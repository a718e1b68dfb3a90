//! Operations that move data by reads of other processes' memory where it is ([`Area::lend`]): one copy instead of two, and few rounds.
//!
//! Blocks that are one run are lent as they are; others are packed, and so are those that received data will overwrite. That is done in
//! pieces, so that an operation needs little memory, and all processes use the same pieces, whatever their blocks look like.

use super::moving::truncated;
use super::{Area, Run, part, rounds};
use crate::base::error::Result;
use crate::data::pieces::total;
use crate::objects::collective::buffer::{Blocks, Chunk};
use crate::objects::collective::scratch::{Scratch, copy};
use crate::objects::communicator::area::{Bytes, LOANS_MAX, Lent, Round};

/// Reading into runs that are shorter than this on average costs more than unpacking what has been read as one.
const RUN: u64 = 512;
/// So many runs are read into at a time.
const RUNS: usize = 128;
/// So many bytes are unpacked at a time: they stay in a core's own cache.
const UNPACKED: u64 = 64 << 10;
/// At most so many bytes are packed at a time, but at least [`PIECE_MIN`] of each block. The pieces of a longer operation each take two
/// more waits for all processes.
const PACKED: u64 = 1 << 20;
/// See [`PACKED`].
const PIECE_MIN: u64 = 64 << 10;

/// The bytes of a chunk that is one run.
pub fn bytes_of(chunk: &Chunk) -> Option<Bytes> {
    let (address, len) = chunk.run()?;
    // SAFETY: of the operation, as the chunk is.
    Some(unsafe { Bytes::new(address.get(), len) })
}

/// Some chunks that are lent at a time, and what is packed for that.
struct Loans {
    lent: Vec<Bytes>,
    packed: Option<Scratch>,
}

impl Loans {
    /// For chunks of `bytes` together; if they must be packed.
    fn new(chunks: impl Iterator<Item = Chunk>, bytes: u64, must_pack: bool) -> Result<Loans> {
        let packs = must_pack || { chunks }.any(|chunk| chunk.run().is_none());
        let packed = match packs {
            true => Some(Scratch::kept(bytes as usize)?),
            false => None,
        };
        Ok(Loans {
            lent: Vec::new(),
            packed,
        })
    }

    /// Lends some chunks in a round.
    async fn lend(
        &mut self,
        run: &mut Run<'_>,
        area: &Area,
        round: Round,
        chunks: impl Iterator<Item = Chunk>,
        all: u64,
    ) {
        self.lent.clear();
        let mut end = 0;
        for chunk in chunks {
            let lent = match &self.packed {
                None => chunk,
                Some(packed) => {
                    let len = chunk.len() as usize;
                    let into = packed.part(end, len);
                    run.note(copy(&chunk, &into));
                    end += len;
                    into
                }
            };
            self.lent.push(bytes_of(&lent).expect("one run"));
        }
        let (lent, number) = (&self.lent, self.lent.len() as u32);
        let lending = area.lend(round, number, |nth| lent[nth as usize], all).await;
        run.note(lending);
    }
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

/// Reads what a process lends in a round into a chunk, of whose message the bytes before `start` have come.
async fn take(
    run: &mut Run<'_>,
    area: &Area,
    round: Round,
    (from, nth): (u32, u32),
    chunk: &Chunk,
    start: u64,
) {
    let lent = match area.lent(from, round, nth).await {
        Ok(lent) => lent,
        Err(error) => return run.note::<()>(Err(error)),
    };
    if start == 0 && lent.total() > chunk.len() {
        run.note::<()>(Err(truncated(from, lent.total(), chunk.len())));
    }
    let len = lent.number().min(chunk.len().saturating_sub(start));
    if len != 0 {
        let into = part(chunk, start, len);
        run.note(read(area, &lent, 0, &into).await);
    }
}

/// When all have lent something in a round: this process is done with it, and waits for the others.
async fn give_back(run: &mut Run<'_>, area: &Area, round: Round) {
    area.all_in(round);
    area.done(round);
    run.note(area.returned(round).await);
}

/// See [`super::allgather`]; the longest block has `longest` bytes. `false`: it is too long.
pub async fn allgather(
    run: &mut Run<'_>,
    area: &Area,
    own: Option<&Chunk>,
    blocks: &impl Blocks,
    longest: u64,
) -> Result<bool> {
    let Some(rounds) = rounds(longest, PACKED) else {
        return Ok(false);
    };
    let place = blocks.block(run.rank);
    // What this process has just written would take the others longer to read.
    let lent = own.unwrap_or(&place);
    let mut loans = Loans::new(std::iter::once(lent.clone()), lent.len().min(PACKED), false)?;
    for nth in 0..rounds {
        let (round, start) = (area.next(), nth * PACKED);
        let piece = std::iter::once(part(lent, start, PACKED));
        loans.lend(run, area, round, piece, lent.len()).await;
        if let Some(own) = own.filter(|_| nth == 0) {
            run.note(copy(own, &place));
        }
        for distance in 1..run.size {
            let from = run.above(distance);
            take(run, area, round, (from, 0), &blocks.block(from), start).await;
        }
        give_back(run, area, round).await;
    }
    Ok(true)
}

/// See [`super::alltoall`]; all blocks have this many bytes. `in_place`: `send` and `receive` are the same. `false`: there are too many
/// processes, or bytes.
pub async fn alltoall(
    run: &mut Run<'_>,
    area: &Area,
    send: &impl Blocks,
    receive: &impl Blocks,
    block: u64,
    in_place: bool,
) -> Result<bool> {
    let piece = (PACKED / u64::from(run.size)).max(PIECE_MIN);
    let Some(rounds) = rounds(block, piece).filter(|_| run.size <= LOANS_MAX) else {
        return Ok(false);
    };
    let rank = run.rank;
    let chunk = |to: u32| match to == rank {
        true => Chunk::empty(),
        false => send.block(to),
    };
    let all = || (0..run.size).map(chunk);
    let longest = all().map(|chunk| chunk.len()).max().unwrap_or(0);
    let mut loans = Loans::new(all(), piece.min(longest) * u64::from(run.size), in_place)?;
    let size = run.size;
    for nth in 0..rounds {
        let (round, start) = (area.next(), nth * piece);
        let pieces = (0..size).map(|to| part(&chunk(to), start, piece));
        loans.lend(run, area, round, pieces, block).await;
        if nth == 0 && !in_place {
            run.note(copy(&send.block(rank), &receive.block(rank)));
        }
        for distance in 1..run.size {
            let from = run.above(distance);
            take(run, area, round, (from, rank), &receive.block(from), start).await;
        }
        give_back(run, area, round).await;
    }
    Ok(true)
}
