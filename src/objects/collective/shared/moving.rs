//! Operations that move data, in shared memory.

use super::exchange::{All, Form, LENT, Pattern, exchange, rest};
use super::{
    ALL_LONG, Area, Bytes, LONG, Room, Run, SHORT, all_have_long, chunk_of, get, part, put, room_for, rounds,
    short, take,
};
use crate::base::error::{Error, Result};
use crate::err;
use crate::instance::selection::Operation;
use crate::objects::collective::buffer::{Blocks, Chunk};
use crate::objects::collective::scratch::{copy, copy_streaming};

/// No process leaves before all have come: each says that it has, and looks at what the others say.
pub async fn barrier(run: &mut Run<'_>, area: &Area) {
    let result = short::barrier(area).await;
    run.note(result);
}

/// Process 0 returns when all have come.
pub async fn arrive(run: &mut Run<'_>, area: &Area) {
    let round = area.next();
    if run.rank != 0 {
        put(run, area, round, &Chunk::empty(), Room::Short, 0).await;
        return;
    }
    for member in area.others() {
        get(run, area, member, round).await;
    }
}

#[cold]
pub(super) fn truncated(from: u32, theirs: u64, mine: u64) -> Error {
    err!(
        Truncate,
        "process {from} of this host sends {theirs} bytes, and there is room for {mine}"
    )
}

/// A process lends its blocks, which are so long that it takes the operation for an exchange.
#[cold]
pub(super) fn longer(from: u32) -> Error {
    err!(
        Truncate,
        "process {from} of this host sends longer blocks than this one expects"
    )
}

/// What `total` says where a message is too long even for all rounds.
const BY_MESSAGES: u64 = u64::MAX;

/// The bytes of a chunk, for all processes that call [`fetch`] or [`gather`] for them; `false`: they are too many.
pub async fn offer(run: &mut Run<'_>, area: &Area, chunk: &Chunk) -> bool {
    let total = chunk.len();
    let long = total > SHORT as u64 && area.allocate_long();
    let (piece, room) = match long {
        true => (LONG as u64, Room::Long),
        false => (SHORT as u64, Room::Short),
    };
    let Some(rounds) = rounds(total, piece) else {
        let round = area.next();
        put(run, area, round, &Chunk::empty(), Room::Short, BY_MESSAGES).await;
        return false;
    };
    for nth in 0..rounds {
        let round = area.next();
        put(run, area, round, &part(chunk, nth * piece, piece), room, total).await;
        // It reads nothing of others, who may offer bytes in the same rounds.
        area.done(round);
    }
    true
}

/// Whether an operation has been done in this way, or has failed in the attempt, which is noted.
pub(super) fn done_or_noted(run: &mut Run<'_>, done: Result<bool>) -> bool {
    match done {
        Ok(done) => done,
        Err(error) => {
            run.note::<()>(Err(error));
            true
        }
    }
}

/// The bytes that a process offers, into a chunk.
async fn fetch(run: &mut Run<'_>, area: &Area, from: u32, chunk: &Chunk) -> bool {
    let mut done = 0;
    loop {
        let round = area.next();
        let Some(found) = get(run, area, from, round).await else {
            return true;
        };
        if found.total == BY_MESSAGES {
            return false;
        }
        if done == 0 && found.total > chunk.len() {
            run.note::<()>(Err(truncated(from, found.total, chunk.len())));
        }
        take(run, &chunk_of(found.bytes), chunk, done);
        done += found.bytes.number() as u64;
        if done >= found.total || found.bytes.number() == 0 {
            return true;
        }
        area.done(round);
    }
}

/// From the root to all.
pub async fn broadcast(run: &mut Run<'_>, area: &Area, root: u32, chunk: &Chunk) -> bool {
    match run.rank == root {
        true => offer(run, area, chunk).await,
        false => fetch(run, area, root, chunk).await,
    }
}

/// Every process's block for every process. All know the lengths of all. `own`: where this process's is, if it is not in place yet.
pub async fn allgather(run: &mut Run<'_>, area: &Area, own: Option<&Chunk>, blocks: &impl Blocks) -> bool {
    let place = blocks.block(run.rank);
    let longest = (0..run.size).map(|rank| blocks.block(rank).len()).max();
    let longest = longest.unwrap_or(0);
    if run.reads(area, Operation::Allgather, longest) {
        // What this process has just written would take the others longer to read.
        let lent = own.unwrap_or(&place);
        let copies = |run: &mut Run<'_>| {
            if let Some(own) = own {
                run.note(copy_among(own, &place, longest.saturating_mul(run.size.into())));
            }
        };
        let edges = all(run, Pattern::Allgather);
        exchange(run, area, &edges, &|_| lent.clone(), blocks, false, copies).await;
        return true;
    }
    let room = match room_for(longest) {
        Room::Long if all_have_long(run, area).await => Room::Long,
        _ => Room::Short,
    };
    let piece = bytes_in(room);
    let Some(rounds) = rounds(longest, piece) else {
        return false;
    };
    if let Some(own) = own {
        run.note(copy(own, &place));
    }
    let own = place;
    for nth in 0..rounds {
        let (round, start) = (area.next(), nth * piece);
        let mine = match start < own.len() || nth == 0 {
            true => part(&own, start, piece),
            false => Chunk::empty(),
        };
        put(run, area, round, &mine, room, own.len()).await;
        for distance in 1..run.size {
            let from = run.above(distance);
            let Some(found) = get(run, area, from, round).await else {
                continue;
            };
            let block = blocks.block(from);
            if found.total >= LENT {
                run.note::<()>(Err(longer(from)));
                continue;
            }
            if nth == 0 && found.total > block.len() {
                run.note::<()>(Err(truncated(from, found.total, block.len())));
            }
            take(run, &chunk_of(found.bytes), &block, start);
        }
        area.all_in(round);
        area.done(round);
    }
    true
}

fn bytes_in(room: Room) -> u64 {
    match room {
        Room::Short => SHORT as u64,
        Room::Long => LONG as u64,
        Room::AllLong => ALL_LONG as u64,
    }
}

/// The longest piece of which a place has room for one for each process.
fn piece_of(room: Room, size: u32) -> u64 {
    bytes_in(room) / u64::from(size) / 64 * 64
}

/// Where blocks of this length for each process go, and how long their pieces are. `None`: there is no room.
async fn divided(run: &mut Run<'_>, area: &Area, block: u64) -> Option<(Room, u64)> {
    if block * u64::from(run.size) <= SHORT as u64 {
        return Some((Room::Short, block.max(1)));
    }
    let room = match all_have_long(run, area).await {
        true => Room::Long,
        false => Room::Short,
    };
    let piece = piece_of(room, run.size);
    (piece != 0).then_some((room, piece))
}

/// Publishes a piece of each of some blocks, for each process one.
async fn put_all(
    run: &mut Run<'_>,
    area: &Area,
    round: super::Round,
    (room, start, len): (Room, u64, u64),
    blocks: &impl Blocks,
) {
    let claimed = area.claim(round, room).await;
    run.note(claimed);
    let all = len * u64::from(run.size);
    let place = area.own(round, all as usize, room);
    for to in run.others() {
        let block = blocks.block(to);
        let len = len.min(block.len().saturating_sub(start));
        if len != 0 {
            let at = place.part(to as usize * place.number() / run.size as usize, len as usize);
            run.note(copy(&part(&block, start, len), &chunk_of(at)));
        }
    }
    // As an exchange has it, which some may do whose blocks are longer.
    area.publish(round, all as usize, room, Form::Even(len).total());
}

/// This process's block of those that another one has published, `theirs` bytes for each process, as far as `len` bytes of it matter.
fn block_of(run: &Run<'_>, blocks: Bytes, theirs: u64, len: u64) -> Bytes {
    blocks.part(run.rank as usize * theirs as usize, theirs.min(len) as usize)
}

fn all(run: &Run<'_>, pattern: Pattern) -> All {
    All {
        rank: run.rank,
        size: run.size,
        pattern,
    }
}

/// Where a process reads and writes so many bytes in an operation, they don't stay in its caches. Measured on two cores that both copy,
/// in microseconds a MiB, with ordinary stores and with those that bypass the caches: 1 MiB 29 and 44, 4 MiB 70 and 72, 64 MiB 130 and 78.
const BEYOND_CACHES: u64 = 8 << 20;

/// Copies a block of an operation that reads and writes `all` bytes on this process.
fn copy_among(from: &Chunk, to: &Chunk, all: u64) -> Result<()> {
    match all >= BEYOND_CACHES {
        true => copy_streaming(from, to),
        false => copy(from, to),
    }
}

/// Every process's block for every process, of different lengths. `in_place`: `send` and `receive` are the same.
pub async fn blocks_to_all(
    run: &mut Run<'_>,
    area: &Area,
    send: &impl Blocks,
    receive: &impl Blocks,
    in_place: bool,
) {
    let rank = run.rank;
    let own = |run: &mut Run<'_>| {
        if !in_place {
            let moved = (0..run.size).map(|from| receive.block(from).len());
            let moved = moved.fold(0, u64::saturating_add);
            run.note(copy_among(
                &send.block(rank),
                &receive.block(rank),
                moved.saturating_mul(2),
            ));
        }
    };
    let edges = all(run, Pattern::Alltoall);
    exchange(run, area, &edges, &|to| send.block(to), receive, in_place, own).await;
}

/// Every process's block for every process; all blocks have this many bytes. `in_place`: `send` and `receive` are the same.
pub async fn alltoall(
    run: &mut Run<'_>,
    area: &Area,
    send: &impl Blocks,
    receive: &impl Blocks,
    block: u64,
    in_place: bool,
) -> bool {
    if run.reads(area, Operation::Alltoall, block) {
        blocks_to_all(run, area, send, receive, in_place).await;
        return true;
    }
    let Some((room, piece)) = divided(run, area, block).await else {
        return false;
    };
    let Some(rounds) = rounds(block, piece) else {
        return false;
    };
    for nth in 0..rounds {
        let (round, start) = (area.next(), nth * piece);
        let len = piece.min(block - start);
        put_all(run, area, round, (room, start, len), send).await;
        for distance in 1..run.size {
            let from = run.above(distance);
            let Some(found) = get(run, area, from, round).await else {
                continue;
            };
            if found.total >= LENT {
                run.note::<()>(Err(longer(from)));
                continue;
            }
            let theirs = found.bytes.number() as u64 / u64::from(run.size);
            if theirs > len {
                run.note::<()>(Err(truncated(from, theirs, len)));
            }
            let mine = block_of(run, found.bytes, theirs, len);
            take(run, &chunk_of(mine), &receive.block(from), start);
        }
        area.all_in(round);
        area.done(round);
    }
    if !in_place {
        run.note(copy(&send.block(run.rank), &receive.block(run.rank)));
    }
    true
}

/// The blocks that the other processes [`offer`], for the root.
pub async fn gather(run: &mut Run<'_>, area: &Area, receive: &impl Blocks) {
    let mut round = area.next();
    // By process: how much has come, and how much there is. Made only where one round is not enough.
    let mut rest: Vec<(u32, u64, u64)> = Vec::new();
    for from in run.others() {
        let Some(found) = get(run, area, from, round).await else {
            continue;
        };
        let block = receive.block(from);
        if found.total == BY_MESSAGES {
            let receiving = run.receive(from, block);
            run.end(receiving).await;
            continue;
        }
        if found.total > block.len() {
            run.note::<()>(Err(truncated(from, found.total, block.len())));
        }
        take(run, &chunk_of(found.bytes), &block, 0);
        if (found.bytes.number() as u64) < found.total && found.bytes.number() != 0 {
            rest.push((from, found.bytes.number() as u64, found.total));
        }
    }
    while !rest.is_empty() {
        area.done(round);
        round = area.next();
        for (from, done, total) in &mut rest {
            match get(run, area, *from, round).await {
                Some(found) if found.bytes.number() != 0 => {
                    take(run, &chunk_of(found.bytes), &receive.block(*from), *done);
                    *done += found.bytes.number() as u64;
                }
                _ => *done = *total,
            }
        }
        rest.retain(|(_, done, total)| done < total);
    }
}

/// The root's block for every process, all of so many bytes, which are few. Only the root passes `send`, the others `receive`. `false`: they
/// are too many.
pub async fn scatter_short(
    run: &mut Run<'_>,
    area: &Area,
    root: u32,
    send: Option<&impl Blocks>,
    receive: Option<&Chunk>,
    block: u64,
) -> bool {
    if block.saturating_mul(run.size.into()) > SHORT as u64 {
        return false;
    }
    let round = area.next();
    if let Some(send) = send {
        put_all(run, area, round, (Room::Short, 0, block), send).await;
        area.done(round);
    } else if let Some(receive) = receive {
        // The root's blocks may be longer.
        let edges = all(run, Pattern::Scatter(root));
        rest(run, area, round, &edges, &One(receive.clone())).await;
    }
    true
}

/// The root's block for every process, of different lengths. Only the root passes `send`, the others `receive`, and so does the root unless
/// its block stays in place.
pub async fn scatter(
    run: &mut Run<'_>,
    area: &Area,
    root: u32,
    send: Option<&impl Blocks>,
    receive: Option<&Chunk>,
) {
    let own = |run: &mut Run<'_>| {
        if let (Some(send), Some(receive)) = (send, receive) {
            run.note(copy(&send.block(root), receive));
        }
    };
    let outgoing = |to| send.map_or_else(Chunk::empty, |send| send.block(to));
    let receive = One(receive.cloned().unwrap_or_else(Chunk::empty));
    let edges = all(run, Pattern::Scatter(root));
    exchange(run, area, &edges, &outgoing, &receive, false, own).await;
}

/// The only block.
struct One(Chunk);

impl Blocks for One {
    fn block(&self, _: u32) -> Chunk {
        self.0.clone()
    }
}
