//! Operations of one round, on runs of bytes that a short place has room for: what all others are made of, and what the fast path of
//! the bindings calls.

use super::exchange::{LENT, even_block};
use super::moving::{longer, truncated};
use super::{Area, Bytes, Room, Round, SHORT};
use crate::base::error::{Error, Result};
use crate::err;
use crate::objects::communicator::area::{Destination, Edges, Source};

/// Publishes bytes that a short place has room for.
#[inline(always)]
pub async fn publish(area: &Area, own: Bytes) -> Result<Round> {
    let round = area.next();
    publish_in(area, round, own, own.number() as u64).await?;
    Ok(round)
}

/// The same in this round, with this total.
#[inline(always)]
async fn publish_in(area: &Area, round: Round, own: Bytes, total: u64) -> Result<()> {
    assert!(own.number() <= SHORT, "as many as a short place has room for");
    if let Err(error) = area.claim(round, Room::Short).await {
        publish_bytes(area, round, own, total);
        return Err(error);
    }
    publish_bytes(area, round, own, total);
    Ok(())
}

#[inline(always)]
fn publish_bytes(area: &Area, round: Round, own: Bytes, total: u64) {
    own.copy_to(area.own(round, own.number(), Room::Short));
    area.publish(round, own.number(), Room::Short, total);
}

/// What the total says in a tree where a process has failed, and so has nothing to publish.
const FAILED: u64 = u64::MAX;

/// Tells those that wait for this process in a round that it has failed.
#[cold]
async fn publish_failure(area: &Area, round: Round) -> Result<()> {
    let claimed = area.claim(round, Room::Short).await;
    area.publish(round, 0, Room::Short, FAILED);
    claimed
}

/// The bytes that a process publishes in a round of a tree: so many.
async fn hear(area: &Area, member: u32, round: Round, len: usize) -> Result<Bytes> {
    let found = area.published(member, round).await?;
    match found.bytes.number() == len {
        _ if found.total == FAILED => Err(err!(
            Other,
            "the operation has failed on process {member} of this host, or on one that it waits for"
        )),
        true => Ok(found.bytes),
        false => Err(uneven(member, found.bytes.number() as u64, len as u64)),
    }
}

/// Operands of up to this many bytes from all processes together are combined by every process that needs the result; of longer ones
/// each process combines a part.
const ALL_COMBINE: usize = 32 << 10;

/// Whether [`allreduce`] is to be used for such operands.
#[inline(always)]
pub fn all_combine(own: Bytes, size: u32) -> bool {
    own.number() <= SHORT && (size == 2 || own.number() * size as usize <= ALL_COMBINE)
}

/// See [`super::barrier`].
#[inline(always)]
pub async fn barrier(area: &Area) -> Result<()> {
    if !area.is_flat() {
        // SAFETY: it combines nothing.
        return unsafe { through_tree(area, Bytes::none(), Bytes::none(), |_, _| {}).await };
    }
    let round = area.next();
    if let Err(error) = area.claim(round, Room::Short).await {
        area.publish(round, 0, Room::Short, 0);
        return Err(error);
    }
    area.publish(round, 0, Room::Short, 0);
    for member in area.others() {
        area.published(member, round).await?;
    }
    area.all_in(round);
    Ok(())
}

/// Receives what the root [`publish`]es.
#[inline(always)]
pub async fn fetch(area: &Area, root: u32, into: Bytes) -> Result<()> {
    let found = area.published(root, area.next()).await?;
    found.bytes.copy_to(into);
    match found.total > into.number() as u64 {
        true => Err(truncated(root, found.total, into.number() as u64)),
        false => Ok(()),
    }
}

/// Hands the operands of the processes below `end` to `combine`, from the last to the first, and whether it is the last. This process's
/// own is at `own`, or where that is `None` what it has published; all have the same length.
#[inline(always)]
pub async fn operands(
    area: &Area,
    round: Round,
    own: Option<Bytes>,
    end: u32,
    len: usize,
    mut combine: impl FnMut(Bytes, bool) + Send,
) -> Result<()> {
    for member in (0..end).rev() {
        let operand = match own.filter(|_| member == area.mine()) {
            Some(own) => own,
            None => area.published(member, round).await?.bytes,
        };
        if operand.number() != len {
            return Err(uneven(member, operand.number() as u64, len as u64));
        }
        combine(operand, member + 1 == end);
    }
    Ok(())
}

/// For so many children a process waits in a tree.
const CHILDREN: u32 = 7;

/// Combines all operands for process 0, in the order of a tree: of a group of processes the first one combines the operands of the
/// others with its own, then of a group of such first ones, and so on. A failure is passed on, so that all of them end.
///
/// # Safety
/// As for [`allreduce`].
async unsafe fn up_tree(
    area: &Area,
    own: Bytes,
    result: Bytes,
    combine: &(impl Fn(Bytes, Bytes) + Send + Sync),
) -> Result<()> {
    let (mine, size) = (area.mine(), area.size());
    let mut has = own;
    let mut failure = None;
    let mut step = 1;
    while step < size {
        let (round, group) = (area.next(), step * (CHILDREN + 1));
        if mine.is_multiple_of(group) {
            for child in (1..=CHILDREN)
                .map(|nth| mine + nth * step)
                .filter(|&child| child < size)
            {
                match hear(area, child, round, own.number()).await {
                    Ok(found) => {
                        if !has.is(result) {
                            has.copy_to(result);
                            has = result;
                        }
                        combine(found, result);
                    }
                    Err(error) => {
                        failure.get_or_insert(error);
                    }
                }
            }
        } else if mine.is_multiple_of(step) {
            let published = match failure {
                None => publish_in(area, round, has, has.number() as u64).await,
                Some(_) => publish_failure(area, round).await,
            };
            failure = failure.or(published.err());
        }
        step = group;
    }
    if mine == 0 && !has.is(result) {
        has.copy_to(result);
    }
    failure.map_or(Ok(()), Err)
}

/// Up the tree, and from process 0 to all.
///
/// # Safety
/// As for [`allreduce`].
#[inline(never)]
async unsafe fn through_tree(
    area: &Area,
    own: Bytes,
    result: Bytes,
    combine: impl Fn(Bytes, Bytes) + Send + Sync,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let combined = unsafe { up_tree(area, own, result, &combine).await };
    let round = area.next();
    let shared = match area.mine() {
        0 if combined.is_ok() => publish_in(area, round, result, result.number() as u64).await,
        0 => publish_failure(area, round).await,
        _ => hear(area, 0, round, result.number())
            .await
            .map(|found| found.copy_to(result)),
    };
    combined.and(shared)?;
    area.all_begun();
    Ok(())
}

#[cold]
pub(super) fn uneven(from: u32, theirs: u64, mine: u64) -> Error {
    err!(
        Truncate,
        "process {from} of this host reduces {theirs} bytes, and this one {mine}"
    )
}

/// All operands combined, for every process. With `own` at `result` the operand is replaced. The operation commutes, or the area
/// is flat.
///
/// # Safety
/// `combine` may be called with an operand of another process, or this one's, and the result: it changes no more than the latter.
#[inline(always)]
pub async unsafe fn allreduce(
    area: &Area,
    own: Bytes,
    result: Bytes,
    combine: impl Fn(Bytes, Bytes) + Send + Sync,
) -> Result<()> {
    if !area.is_flat() {
        // SAFETY: the caller's promise.
        return unsafe { through_tree(area, own, result, combine).await };
    }
    let round = publish(area, own).await?;
    let separate = (!own.is(result)).then_some(own);
    // SAFETY: the caller's promise.
    let combine = unsafe { into(result, combine) };
    operands(area, round, separate, area.size(), own.number(), combine).await?;
    area.all_in(round);
    Ok(())
}

/// All operands combined, for the root, which alone has a place for the result. It reads those of all others, as a tree would need room
/// for what is combined on the way.
///
/// # Safety
/// As for [`allreduce`].
#[inline(always)]
pub async unsafe fn reduce(
    area: &Area,
    own: Bytes,
    result: Option<Bytes>,
    combine: impl Fn(Bytes, Bytes) + Send,
) -> Result<()> {
    let Some(result) = result else {
        return publish(area, own).await.map(drop);
    };
    let separate = (!own.is(result)).then_some(own);
    let round = match separate {
        Some(_) => area.next(),
        None => publish(area, own).await?,
    };
    // SAFETY: the caller's promise.
    let combine = unsafe { into(result, combine) };
    operands(area, round, separate, area.size(), own.number(), combine).await
}

/// What [`operands`] calls to combine them there.
///
/// # Safety
/// As for [`allreduce`].
#[inline(always)]
unsafe fn into(result: Bytes, combine: impl Fn(Bytes, Bytes) + Send) -> impl FnMut(Bytes, bool) + Send {
    move |operand, is_first| match is_first {
        true => operand.copy_to(result),
        false => combine(operand, result),
    }
}

/// Every process's bytes for every process, as many from each: `all` has room for them, by process.
#[inline(always)]
pub async fn allgather(area: &Area, own: Bytes, all: Bytes) -> Result<()> {
    let round = publish(area, own).await?;
    let block = |member: u32| all.part(member as usize * own.number(), own.number());
    let mine = block(area.mine());
    if !mine.is(own) {
        own.copy_to(mine);
    }
    for member in area.others() {
        let found = area.published(member, round).await?;
        if found.total > own.number() as u64 {
            if found.total >= LENT {
                return Err(longer(member));
            }
            found.bytes.copy_to(block(member));
            return Err(truncated(member, found.total, own.number() as u64));
        }
        found.bytes.copy_to(block(member));
    }
    area.all_in(round);
    Ok(())
}

/// Every process's block for every process, all of the same length: both buffers have one for each. They may be the same.
#[inline(always)]
pub async fn alltoall(area: &Area, send: Bytes, receive: Bytes) -> Result<()> {
    let len = send.number() / area.size() as usize;
    // As an exchange has it, which some may do whose blocks are longer.
    let round = area.next();
    publish_in(area, round, send, len as u64).await?;
    let block = |of: Bytes, member: u32| of.part(member as usize * len, len);
    if !send.is(receive) {
        block(send, area.mine()).copy_to(block(receive, area.mine()));
    }
    for member in area.others() {
        let found = area.published(member, round).await?;
        if found.total != len as u64 || found.bytes.number() != send.number() {
            return Err(match found.total >= LENT {
                true => longer(member),
                false => truncated(member, found.total, len as u64),
            });
        }
        block(found.bytes, area.mine()).copy_to(block(receive, member));
    }
    area.all_in(round);
    Ok(())
}

/// Blocks of this process are copied one by one where they are longer: some may be for nobody.
const BLOCK: usize = 64;

/// A block for each destination, or with `same` one for all, and one from each source, all of `len` bytes and inside the area. `None`: all
/// have come; otherwise what has been published in this round has to be looked at more closely.
#[inline(always)]
pub async fn neighbours(
    area: &Area,
    edges: &Edges,
    same: bool,
    (send, receive): (Bytes, Bytes),
    len: usize,
) -> Result<Option<Round>> {
    let round = area.next();
    let claimed = area.claim(round, Room::Short).await;
    let place = area.own(round, send.number(), Room::Short);
    if same || len <= BLOCK {
        send.copy_to(place);
    } else {
        for (at, to) in edges.destinations.iter().enumerate() {
            if matches!(to, Destination::Here(_)) {
                send.part(at * len, len).copy_to(place.part(at * len, len));
            }
        }
    }
    area.publish(round, send.number(), Room::Short, len as u64);
    claimed?;
    let mut rest = None;
    for (place, source) in edges.sources.iter().enumerate() {
        let into = receive.part(place * len, len);
        let block = |block: u32| if same { 0 } else { block as usize };
        let from = match *source {
            Source::Own(own) => even_block(send, block(own), len as u64),
            Source::Here {
                member,
                block: theirs,
            } => {
                let found = area.published(member, round).await?;
                let has = found.total == len as u64;
                has.then(|| even_block(found.bytes, block(theirs), len as u64))
                    .flatten()
            }
            Source::Nobody | Source::Away => continue,
        };
        match from {
            Some(from) => from.copy_to(into),
            None => rest = Some(round),
        }
    }
    Ok(rest)
}
