//! Reductions in shared memory. Each element is combined in one order only, so it has the same bits on every process: from the highest
//! rank to the lowest, which keeps the order of the operands.

use std::ops::Range;

use super::moving::done_or_noted;
use super::short::uneven;
use super::{
    Area, Bytes, LONG, Room, Run, SHORT, all_have_long, chunk_of, get, put, reading, rounds, short, start_of,
};
use crate::base::error::Result;
use crate::instance::selection::Operation;
use crate::objects::collective::buffer::{Address, Chunk};
use crate::objects::collective::reduction::Reducer;
use crate::objects::collective::scratch::{Scratch, apply_many, copy};

/// Whether these elements lie in a place as they lie in a user's buffer: how far their first byte is behind their address.
pub(super) fn shift(reducer: &Reducer, address: Address, count: u64) -> Option<i64> {
    let (first, _) = reducer.chunk(address, 0..count).run()?;
    Some(first.get() as i64 - address.get() as i64)
}

/// The operands of all processes in a round of short places, seen by one of them.
struct Operands<'a> {
    reducer: &'a Reducer,
    /// Where they lie as in a user's buffer.
    shift: Option<i64>,
    /// Where they are unpacked otherwise.
    scratch: Scratch,
    count: u64,
}

impl<'a> Operands<'a> {
    fn new(reducer: &'a Reducer, like: Address, count: u64) -> Result<Operands<'a>> {
        let shift = shift(reducer, like, count);
        let needed = if shift.is_none() { count } else { 0 };
        Ok(Operands {
            reducer,
            shift,
            scratch: Scratch::elements(&reducer.datatype, needed, 1)?,
            count,
        })
    }

    /// The elements of an operand that was published, until the next one is asked for.
    fn of(&self, bytes: Bytes) -> Address {
        match self.shift {
            Some(shift) => start_of(bytes).at(-shift),
            None => {
                let elements = self.reducer.chunk(self.scratch.slot(0), 0..self.count);
                copy(&chunk_of(bytes), &elements).expect("as many bytes");
                self.scratch.slot(0)
            }
        }
    }
}

/// Publishes this process's operand whole.
async fn publish(run: &mut Run<'_>, area: &Area, own: &Chunk) -> super::Round {
    let round = area.next();
    put(run, area, round, own, Room::Short, own.len()).await;
    round
}

/// The operands of the ranks below `end` combined, elements `range` of them. This process's own is at `own`, or where that is `None`
/// what it has published. The result may be where the own one was, if that was published.
async fn combine(
    run: &mut Run<'_>,
    area: &Area,
    round: super::Round,
    operands: &Operands<'_>,
    (own, end): (Option<Address>, u32),
    (result, range): (Address, Range<u64>),
) {
    let reducer = operands.reducer;
    let bytes = (operands.count * reducer.datatype.size()) as usize;
    let number = range.end - range.start;
    let own = own.filter(|_| run.rank < end);
    let own_bytes = own.map(|own| {
        let address = own.at(operands.shift.unwrap_or(0));
        // SAFETY: only handed back below, where it is not read but stands for the own operand.
        unsafe { Bytes::new(address.get(), bytes) }
    });
    let see = |operand: Bytes, is_first: bool| {
        let operand = match own.zip(own_bytes) {
            Some((own, bytes)) if bytes.is(operand) => own,
            _ => operands.of(operand),
        };
        let operand = operand.element(range.start, &reducer.datatype);
        match is_first {
            true => reducer.copy(operand, result, 0..number),
            false => reducer.combine(operand, result, 0..number),
        }
    };
    let result = short::operands(area, round, own_bytes, end, bytes, see).await;
    run.note(result);
}

/// All elements combined, for every process; `false`: by messages.
pub async fn allreduce(
    run: &mut Run<'_>,
    area: &Area,
    send: Option<Address>,
    receive: Address,
    reducer: &Reducer,
    count: u64,
) -> Result<bool> {
    let bytes = count * reducer.datatype.size();
    // SAFETY: asked for its length only.
    let whole = unsafe { Bytes::new(receive.get(), bytes as usize) };
    if !short::all_combine(whole, run.size) {
        return Ok(long(
            run,
            area,
            send.unwrap_or(receive),
            Some(receive),
            reducer,
            count,
            None,
        )
        .await);
    }
    let operands = Operands::new(reducer, receive, count)?;
    if !area.is_flat() {
        // All pass the same operation, and with a predefined one the same datatype.
        let Some(shift) = operands.shift.filter(|_| reducer.operation.is_predefined()) else {
            return Ok(false);
        };
        let bytes = bytes as usize;
        let (own, result) = (send.unwrap_or(receive).at(shift), receive.at(shift));
        // SAFETY: of the operation, as the addresses are, and of so many elements.
        let (own, result) = unsafe { (Bytes::new(own.get(), bytes), Bytes::new(result.get(), bytes)) };
        let combine = |input: Bytes, inout: Bytes| {
            let (input, inout) = (start_of(input).at(-shift), start_of(inout).at(-shift));
            reducer.combine(input, inout, 0..count);
        };
        // SAFETY: it combines an operand with the result.
        let combined = unsafe { short::allreduce(area, own, result, combine) }.await;
        run.note(combined);
        return Ok(true);
    }
    let own = reducer.chunk(send.unwrap_or(receive), 0..count);
    let round = publish(run, area, &own).await;
    let all = run.size;
    combine(run, area, round, &operands, (send, all), (receive, 0..count)).await;
    area.all_in(round);
    Ok(true)
}

/// All elements combined, for the root, which alone passes `receive`.
pub async fn reduce(
    run: &mut Run<'_>,
    area: &Area,
    root: u32,
    send: Option<Address>,
    receive: Option<Address>,
    reducer: &Reducer,
    count: u64,
) -> Result<bool> {
    let bytes = count * reducer.datatype.size();
    let Some(own) = send.or(receive) else {
        return Err(crate::objects::collective::gather::no_send());
    };
    if bytes > SHORT as u64 {
        return Ok(long(run, area, own, receive, reducer, count, Some(root)).await);
    }
    let Some(receive) = receive else {
        publish(run, area, &reducer.chunk(own, 0..count)).await;
        return Ok(true);
    };
    let operands = Operands::new(reducer, receive, count)?;
    // The root's own operand is published only where its place is needed for the result.
    let round = match send {
        Some(_) => area.next(),
        None => publish(run, area, &reducer.chunk(receive, 0..count)).await,
    };
    let all = run.size;
    combine(run, area, round, &operands, (send, all), (receive, 0..count)).await;
    Ok(true)
}

/// The operands of the ranks up to this one combined or, if `exclusive`, of those below it; short ones only.
pub async fn scan(
    run: &mut Run<'_>,
    area: &Area,
    send: Option<Address>,
    receive: Address,
    reducer: &Reducer,
    count: u64,
    exclusive: bool,
) -> Result<bool> {
    if count * reducer.datatype.size() > SHORT as u64 {
        return Ok(false);
    }
    let operands = Operands::new(reducer, receive, count)?;
    let round = publish(run, area, &reducer.chunk(send.unwrap_or(receive), 0..count)).await;
    let end = run.rank + u32::from(!exclusive);
    combine(run, area, round, &operands, (send, end), (receive, 0..count)).await;
    Ok(true)
}

/// Elements `range` of all processes' `count` combined, for this process; short operands only.
pub async fn reduce_scatter(
    run: &mut Run<'_>,
    area: &Area,
    send: Option<Address>,
    receive: Address,
    reducer: &Reducer,
    count: u64,
    range: Range<u64>,
) -> Result<bool> {
    if count * reducer.datatype.size() > SHORT as u64 {
        return Ok(false);
    }
    let operands = Operands::new(reducer, send.unwrap_or(receive), count)?;
    let round = publish(run, area, &reducer.chunk(send.unwrap_or(receive), 0..count)).await;
    let all = run.size;
    combine(run, area, round, &operands, (send, all), (receive, range)).await;
    area.all_in(round);
    Ok(true)
}

/// Segment after segment: each process puts its elements of a segment into a place, combines a slice of all processes' elements, and
/// puts that into its place of the next round, from where those take it that need the result: who passes
/// `receive`, which is `root` or, if that is `None`, all.
async fn long(
    run: &mut Run<'_>,
    area: &Area,
    own: Address,
    receive: Option<Address>,
    reducer: &Reducer,
    count: u64,
    root: Option<u32>,
) -> bool {
    let operation = match root {
        Some(_) => Operation::Reduce,
        None => Operation::Allreduce,
    };
    if run.reads(area, operation, count * reducer.datatype.size()) {
        let done = reading::reduce(run, area, own, receive, reducer, count, root).await;
        if done_or_noted(run, done) {
            return true;
        }
    }
    // All pass the same operation, and with a predefined one the same datatype.
    if !reducer.operation.is_predefined() {
        return false;
    }
    let size = u64::from(run.size);
    let Some(shift) = shift(reducer, own, count) else {
        return false;
    };
    let bytes = reducer.datatype.size();
    let inputs = LONG as u64 * size / (size + 1) / 64 * 64;
    // A multiple of the number of processes, so that all slices are equally long but in the last segment.
    let segment = inputs / bytes / size * size;
    if segment == 0 {
        return false;
    }
    let Some(segments) = rounds(count, segment) else {
        return false;
    };
    if !all_have_long(run, area).await {
        return false;
    }
    // The elements of a segment, and which of these a process combines.
    let elements = |nth: u64| nth * segment..count.min((nth + 1) * segment);
    let slice = |nth: u64, member: u32| {
        let elements = elements(nth);
        let each = (elements.end - elements.start).div_ceil(size);
        let end = (elements.end - elements.start).min((u64::from(member) + 1) * each);
        end.min(u64::from(member) * each)..end
    };
    let mut operands = vec![own; run.size as usize];
    let mut before: Option<super::Round> = None;
    let mut all_alike = true;
    for nth in 0..=segments {
        let round = area.next();
        let claimed = area.claim(round, Room::Long).await;
        run.note(claimed);
        let place = start_of(area.own(round, LONG, Room::Long));
        let result = place.at(inputs as i64 - shift);
        if let Some(before) = before {
            let range = slice(nth - 1, run.rank);
            let first = elements(nth - 1).start;
            let number = range.end - range.start;
            for (member, operand) in (0..run.size).zip(&mut operands) {
                *operand = match member == run.rank {
                    true => own.element(first + range.start, &reducer.datatype),
                    false => start_of(area.place_of(member, before))
                        .at(-shift)
                        .element(range.start, &reducer.datatype),
                };
            }
            apply_many(&reducer.operation, &operands, result, number, &reducer.datatype);
            area.done(before);
        }
        if nth < segments {
            // This process reads its own slice where it is.
            let (all, mine) = (elements(nth), slice(nth, run.rank));
            let into = place.at(-shift);
            for part in [0..mine.start, mine.end..all.end - all.start] {
                let from = own.element(all.start + part.start, &reducer.datatype);
                let to = into.element(part.start, &reducer.datatype);
                reducer.copy(from, to, 0..part.end - part.start);
            }
        }
        area.publish(round, LONG, Room::Long, count * bytes);
        let takes = receive.filter(|_| nth > 0);
        if nth == segments && takes.is_none() {
            break;
        }
        for distance in 0..run.size {
            let member = run.above(distance);
            if member != run.rank
                && let Some(found) = get(run, area, member, round).await
                && found.total != count * bytes
            {
                run.note::<()>(Err(uneven(member, found.total, count * bytes)));
                all_alike = false;
            }
            if let Some(receive) = takes {
                let range = slice(nth - 1, member);
                let from = match member == run.rank {
                    true => result,
                    false => start_of(area.place_of(member, round)).at(inputs as i64 - shift),
                };
                let first = elements(nth - 1).start + range.start;
                let to = receive.element(first, &reducer.datatype);
                reducer.copy(from, to, 0..range.end - range.start);
            }
        }
        area.all_in(round);
        if !all_alike {
            // Nor do the others go on, as they see the same.
            break;
        }
        before = Some(round);
    }
    true
}
