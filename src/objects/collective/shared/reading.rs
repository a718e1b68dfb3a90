//! Reductions of long operands that are read where they are ([`Area::lend`]). Each process combines a slice of each segment in its long
//! places, from where those take it that need the result. Each element is combined in one order only, as in `reducing`.

use std::ops::Range;

use super::reducing::shift;
use super::short::uneven;
use super::{Area, Bytes, LONG, Room, Run, all_have_long, get, rounds, start_of};
use crate::base::error::Result;
use crate::objects::collective::buffer::Address;
use crate::objects::collective::choose;
use crate::objects::collective::reduction::Reducer;
use crate::objects::collective::scratch::{KEPT, Scratch, apply_many};
use crate::objects::communicator::area::{ALL_LONG, Lent, Round};

/// So many bytes of operands are read before they are combined: they stay in a core's own cache.
const READ: u64 = KEPT as u64;
/// But at least so many of each.
const READ_MIN: u64 = 4 << 10;

/// What the processes of a reduction have lent, and the place where it is read to.
struct Operands<'a> {
    reducer: &'a Reducer,
    own: Address,
    lent: Vec<Option<Lent>>,
    /// From an address to the first byte of its elements.
    shift: i64,
    scratch: Scratch,
    /// So many elements of each fit there.
    most: u64,
}

impl Operands<'_> {
    /// Combines elements `range` of all operands.
    async fn combine(&self, run: &mut Run<'_>, area: &Area, range: Range<u64>, output: Address) {
        let Reducer { datatype, operation } = self.reducer;
        let bytes = datatype.size();
        let mut inputs = vec![self.own; self.lent.len()];
        let mut start = range.start;
        while start < range.end {
            let number = self.most.min(range.end - start);
            let len = number * bytes;
            let mut place = 0;
            for (input, lent) in inputs.iter_mut().zip(&self.lent) {
                let Some(lent) = lent else {
                    *input = self.own.element(start, datatype);
                    continue;
                };
                let into = self.scratch.address().at(place);
                place += (self.most * bytes).next_multiple_of(64) as i64;
                // SAFETY: that many bytes of the scratch, as `most` was chosen.
                let room = unsafe { Bytes::new(into.get(), len as usize) };
                let read = area.read(lent, start * bytes, room).await;
                run.note(read);
                *input = into.at(-self.shift);
            }
            let into = output.element(start - range.start, datatype);
            apply_many(operation, &inputs, into, number, datatype);
            start += number;
        }
    }
}

/// All elements combined, for who passes `receive`; with `to_root` that is only the root. `false`: it can't be done so.
pub async fn reduce(
    run: &mut Run<'_>,
    area: &Area,
    own: Address,
    receive: Option<Address>,
    reducer: &Reducer,
    count: u64,
    to_root: bool,
) -> Result<bool> {
    // All pass the same operation, and with a predefined one the same datatype.
    let Some(shift) = shift(reducer, own, count).filter(|_| reducer.operation.is_predefined()) else {
        return Ok(false);
    };
    let (size, bytes) = (u64::from(run.size), reducer.datatype.size());
    // Multiples of a line, so that slices begin at one.
    let each = ALL_LONG as u64 / bytes / 64 * 64;
    let segment = each * size;
    if segment == 0 {
        return Ok(false);
    }
    let Some(segments) = rounds(count, segment) else {
        return Ok(false);
    };
    if !all_have_long(run, area).await {
        return Ok(false);
    }
    let most = (READ / (size - 1) / 64 * 64).max(READ_MIN) / bytes;
    let alone = to_root && choose::root_combines(count * bytes, run.size);
    let most = most
        .clamp(1, each)
        .min(if alone { count } else { count.div_ceil(size) });
    let slot = (most * bytes).next_multiple_of(64);
    let scratch = Scratch::kept((slot * (size - 1)) as usize)?;
    // SAFETY: the elements' bytes, which are one run that begins there.
    let whole = unsafe { Bytes::new(own.at(shift).get(), (count * bytes) as usize) };
    let lending = area.next();
    let lends = area.lend(lending, 1, |_| whole, count * bytes).await;
    run.note(lends);
    let Some(lent) = lent_by_all(run, area, lending, count * bytes).await else {
        // The others see that, too, and nobody reads anything.
        return Ok(true);
    };
    let operands = Operands {
        reducer,
        own,
        lent,
        shift,
        scratch,
        most,
    };
    let (rank, is_root) = (run.rank, receive.is_some());
    // The elements of a segment that a process combines.
    let slice = |nth: u64, member: u32| {
        let (first, end) = (nth * segment, count.min((nth + 1) * segment));
        if alone {
            return if (member == rank) == is_root {
                first..end
            } else {
                end..end
            };
        }
        let each = (end - first).div_ceil(size);
        let of = |member: u64| end.min(first + member * each);
        of(u64::from(member))..of(u64::from(member) + 1)
    };
    // A place that is one of several has left the other cores' caches when its turn comes again: with two processes that have a core each,
    // 64 KiB take 8 µs, and 13 µs in what is always the same place.
    let room = match !alone && count.min(segment).div_ceil(size) * bytes <= LONG as u64 {
        true => Room::Long,
        false => Room::AllLong,
    };
    for nth in 0..segments {
        let round = area.next();
        let claimed = area.claim(round, room).await;
        run.note(claimed);
        let range = slice(nth, run.rank);
        let number = range.end - range.start;
        let len = (number * bytes) as usize;
        let published = if alone { 0 } else { len };
        let place = start_of(area.own(round, len, room)).at(-shift);
        let result = receive.map(|receive| receive.element(range.start, &reducer.datatype));
        // Where nobody else needs it, it goes where it belongs at once, unless the operand is there.
        let direct = result.filter(|_| alone && receive != Some(own));
        operands.combine(run, area, range, direct.unwrap_or(place)).await;
        area.publish(round, published, room, count * bytes);
        if let (Some(result), None) = (result, direct) {
            reducer.copy(place, result, 0..number);
        }
        for distance in 1..run.size {
            let member = run.above(distance);
            // Whoever needs no result waits, too: until the others have read its operand.
            let found = get(run, area, member, round).await;
            if let (Some(found), Some(receive), false) = (found, receive, alone) {
                let range = slice(nth, member);
                let number = range.end - range.start;
                let theirs = found.bytes.number() as u64;
                if theirs != number * bytes {
                    run.note::<()>(Err(uneven(member, theirs, number * bytes)));
                    continue;
                }
                let from = start_of(found.bytes).at(-shift);
                reducer.copy(from, receive.element(range.start, &reducer.datatype), 0..number);
            }
        }
        area.all_in(round);
        area.done(round);
    }
    Ok(true)
}

/// What all others lend in a round, by process: operands of so many bytes. `None`: some are longer than others.
async fn lent_by_all(run: &mut Run<'_>, area: &Area, round: Round, bytes: u64) -> Option<Vec<Option<Lent>>> {
    let (mut all, mut all_alike) = (vec![None; run.size as usize], true);
    for distance in 1..run.size {
        let member = run.above(distance);
        match area.lent(member, round, 0).await {
            Ok(lent) if lent.number() == bytes && lent.total() == bytes => all[member as usize] = Some(lent),
            Ok(lent) => {
                run.note::<()>(Err(uneven(member, lent.total(), bytes)));
                all_alike = false;
            }
            Err(error) => run.note::<()>(Err(error)),
        }
    }
    area.all_in(round);
    area.done(round);
    all_alike.then_some(all)
}
