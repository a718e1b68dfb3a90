//! Reductions of long operands that are read where they are ([`Area::lend`]). Each process combines a slice of all operands. A root gets
//! it at once: it lends its result too, where the others write; short operands of two processes it combines alone. Where all need
//! the result, they take it from long places, segment after segment. Each element is combined in one order only, as in `reducing`.

use std::ops::Range;

use super::reducing::shift;
use super::short::uneven;
use super::{Area, Bytes, LONG, Room, Run, all_have_long, get, rounds, start_of};
use crate::base::error::Result;
use crate::objects::collective::buffer::Address;
use crate::objects::collective::choose;
use crate::objects::collective::reduction::Reducer;
use crate::objects::collective::scratch::{AT_A_TIME, KEPT, Scratch, apply_many};
use crate::objects::communicator::area::{ALL_LONG, Lent, Round};

/// So many bytes of operands are read before they are combined: they stay in a core's own cache.
const READ: u64 = KEPT as u64;
/// But at least so many of each.
const READ_MIN: u64 = 4 << 10;
/// A cache line. Also a number of elements that fill lines whatever they are.
const LINE: u64 = 64;

/// The operands of all processes.
struct Operands<'a> {
    reducer: &'a Reducer,
    /// From an address to the first byte of its elements.
    shift: i64,
    count: u64,
    own: Address,
    /// By process, those of the others.
    lent: Vec<Option<Lent>>,
    /// Where they are read to: a slot for each.
    scratch: Scratch,
    /// So many elements fit into a slot.
    most: u64,
    /// By process: where the elements are that have been read.
    inputs: Vec<Address>,
}

/// The bytes of a slot for so many bytes, which begin anywhere in a line.
fn slot_for(bytes: u64) -> u64 {
    (bytes + LINE - 1).next_multiple_of(LINE)
}

impl<'a> Operands<'a> {
    /// Of `size` processes; nothing is lent yet.
    fn new(reducer: &'a Reducer, shift: i64, count: u64, own: Address, size: u32) -> Result<Operands<'a>> {
        let (others, bytes) = (u64::from(size) - 1, reducer.datatype.size());
        let len = (READ / others).saturating_sub(LINE).max(READ_MIN);
        let most = (len / bytes / LINE * LINE).max(1).min(count);
        Ok(Operands {
            reducer,
            shift,
            count,
            own,
            lent: Vec::new(),
            scratch: Scratch::kept((slot_for(most * bytes) * others) as usize)?,
            most,
            inputs: vec![own; size as usize],
        })
    }

    /// The bytes of all elements of an operand, or of a result as long.
    fn bytes(&self, elements: Address) -> Bytes {
        let len = self.count * self.reducer.datatype.size();
        // SAFETY: the operation's memory, and one run.
        unsafe { Bytes::new(elements.at(self.shift).get(), len as usize) }
    }

    /// The elements of a range that a process combines: all have about as many.
    fn slice(&self, range: Range<u64>, member: u32) -> Range<u64> {
        let (number, size) = (range.end - range.start, self.inputs.len() as u64);
        let each = number.div_ceil(size).next_multiple_of(LINE);
        let of = |member: u64| range.end.min(range.start + member * each);
        of(u64::from(member))..of(u64::from(member) + 1)
    }

    /// The parts of a range that are read and combined at a time: as equally long as can be.
    fn parts(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let number = range.end - range.start;
        let each = number
            .div_ceil(number.div_ceil(self.most).max(1))
            .next_multiple_of(LINE)
            .min(self.most)
            .max(1);
        (range.start..range.end)
            .step_by(each as usize)
            .map(move |start| start..range.end.min(start + each))
    }

    /// Reads a part of all operands.
    async fn read(&mut self, run: &mut Run<'_>, area: &Area, part: &Range<u64>) {
        let datatype = &self.reducer.datatype;
        let (at, len) = (
            part.start * datatype.size(),
            (part.end - part.start) * datatype.size(),
        );
        let slot = slot_for(self.most * datatype.size());
        let mut place = 0;
        for (input, lent) in self.inputs.iter_mut().zip(&self.lent) {
            let Some(lent) = lent else {
                *input = self.own.element(part.start, datatype);
                continue;
            };
            // As far from the beginning of a line as there: the kernel copies whole lines faster.
            let into = self
                .scratch
                .address()
                .at(place as i64 + lent.offset_in_line(at) as i64);
            place += slot;
            // SAFETY: within a slot, which has room for `most` elements from anywhere in its first line.
            let room = unsafe { Bytes::new(into.get(), len as usize) };
            let read = area.read(lent, at, room).await;
            run.note(read);
            *input = into.at(-self.shift);
        }
    }

    /// Combines the part that has been read.
    fn combine(&self, part: &Range<u64>, output: Address) {
        let Reducer { datatype, operation } = self.reducer;
        apply_many(operation, &self.inputs, output, part.end - part.start, datatype);
    }

    /// Where the result of a part may be instead of what has been read.
    fn spare(&self) -> Address {
        // That of the last process that is not this one: it is among those that are combined first.
        let others = self.lent.iter().zip(&self.inputs).rev();
        let mut others = others.filter_map(|(lent, input)| lent.is_some().then_some(*input));
        others.next().unwrap_or(self.scratch.address().at(-self.shift))
    }

    /// Where the result of a part is combined that is to be in `result`: there, unless the own operand is there and would be lost before it
    /// is combined.
    fn output(&self, result: Address, part: &Range<u64>) -> Address {
        match result == self.own && self.inputs.len() > AT_A_TIME {
            true => self.spare(),
            false => result.element(part.start, &self.reducer.datatype),
        }
    }

    /// Combines elements `range`, this process's part of the root's result. `all_read`: what it does when it reads no operand any more.
    async fn to_result(
        &mut self,
        run: &mut Run<'_>,
        area: &Area,
        range: Range<u64>,
        result: Address,
        all_read: impl Fn() + Send,
    ) {
        for part in self.parts(range.clone()) {
            self.read(run, area, &part).await;
            if part.end == range.end {
                all_read();
            }
            let output = self.output(result, &part);
            self.combine(&part, output);
            let result = result.element(part.start, &self.reducer.datatype);
            if output != result {
                self.reducer.copy(output, result, 0..part.end - part.start);
            }
        }
    }

    /// Combines elements `range` and writes them to the root's result.
    async fn to_lent(&mut self, run: &mut Run<'_>, area: &Area, range: Range<u64>, result: Option<Lent>) {
        let bytes = self.reducer.datatype.size();
        for part in self.parts(range) {
            self.read(run, area, &part).await;
            let output = self.spare();
            self.combine(&part, output);
            let Some(result) = result else { continue };
            let len = (part.end - part.start) * bytes;
            // SAFETY: of a slot.
            let combined = unsafe { Bytes::new(output.at(self.shift).get(), len as usize) };
            // SAFETY: the root lends its result for that, and each process writes its own slice.
            let written = unsafe { area.write(&result, part.start * bytes, combined) }.await;
            run.note(written);
        }
    }

    /// Waits for what all others lend in a round: operands as long as this process's. `false`: some have another length, which all see.
    async fn find(&mut self, run: &mut Run<'_>, area: &Area, round: Round) -> bool {
        let bytes = self.count * self.reducer.datatype.size();
        let mut all_alike = true;
        self.lent.resize(run.size as usize, None);
        for distance in 1..run.size {
            let member = run.above(distance);
            match find(run, area, member, round, bytes).await {
                Found::Lent(lent) => self.lent[member as usize] = Some(lent),
                Found::Uneven => all_alike = false,
                Found::Lost => {}
            }
        }
        area.all_in(round);
        all_alike
    }
}

/// What a process lends.
enum Found {
    Lent(Lent),
    /// Its operand has another length, which is noted.
    Uneven,
    /// That failed, which is noted.
    Lost,
}

/// Waits for the operand that a process lends in a round, which is to have so many bytes.
async fn find(run: &mut Run<'_>, area: &Area, member: u32, round: Round, bytes: u64) -> Found {
    match area.lent(member, round, 0).await {
        Ok(lent) if lent.number() == bytes && lent.total() == bytes => Found::Lent(lent),
        Ok(lent) => {
            run.note::<()>(Err(uneven(member, lent.total(), bytes)));
            Found::Uneven
        }
        Err(error) => {
            run.note::<()>(Err(error));
            Found::Lost
        }
    }
}

/// All elements combined: for `root`, which alone passes `receive`, or for all. `false`: it can't be done so.
pub async fn reduce(
    run: &mut Run<'_>,
    area: &Area,
    own: Address,
    receive: Option<Address>,
    reducer: &Reducer,
    count: u64,
    root: Option<u32>,
) -> Result<bool> {
    // All pass the same operation, and with a predefined one the same datatype.
    let Some(shift) = shift(reducer, own, count).filter(|_| reducer.operation.is_predefined()) else {
        return Ok(false);
    };
    let bytes = reducer.datatype.size();
    let segment = ALL_LONG as u64 / bytes / LINE * LINE * u64::from(run.size);
    if segment == 0 || rounds(count, segment).is_none() {
        return Ok(false);
    }
    if !all_have_long(run, area).await {
        return Ok(false);
    }
    let alone = root.filter(|_| choose::root_combines(count * bytes, run.size));
    if let (Some(root), None) = (alone, receive) {
        // SAFETY: one run of so many bytes.
        let whole = unsafe { Bytes::new(own.at(shift).get(), (count * bytes) as usize) };
        only_lend(run, area, root, whole).await;
        return Ok(true);
    }
    let mut operands = Operands::new(reducer, shift, count, own, run.size)?;
    let loans = [own, receive.unwrap_or(own)].map(|elements| operands.bytes(elements));
    let is_root = root == Some(run.rank);
    let lending = area.next();
    let lent = area.lend(
        lending,
        1 + u32::from(is_root),
        |nth| loans[nth as usize],
        count * bytes,
    );
    let lent = lent.await;
    run.note(lent);
    if !operands.find(run, area, lending).await {
        // The others see that, too, and nobody reads anything.
        return Ok(true);
    }
    match (root, receive) {
        (Some(_), Some(receive)) if alone.is_some() => {
            let all = 0..count;
            operands
                .to_result(run, area, all, receive, || area.done(lending))
                .await;
        }
        (Some(root), receive) => to_root(run, area, &mut operands, (root, receive), lending).await,
        (None, Some(receive)) => to_all(run, area, &mut operands, receive, segment).await,
        (None, None) => unreachable!("all need the result"),
    }
    Ok(true)
}

/// For the root, which combines all.
async fn only_lend(run: &mut Run<'_>, area: &Area, root: u32, whole: Bytes) {
    let (lending, bytes) = (area.next(), whole.number() as u64);
    let lent = area.lend(lending, 1, |_| whole, bytes).await;
    run.note(lent);
    let is_read = matches!(find(run, area, root, lending, bytes).await, Found::Lent(_));
    if is_read {
        let returned = area.returned(lending).await;
        run.note(returned);
    }
}

/// Each combines a slice, and writes it to where the root needs it.
async fn to_root(
    run: &mut Run<'_>,
    area: &Area,
    operands: &mut Operands<'_>,
    (root, receive): (u32, Option<Address>),
    lending: Round,
) {
    let range = operands.slice(0..operands.count, run.rank);
    match receive {
        Some(receive) => operands.to_result(run, area, range, receive, || {}).await,
        None => {
            let result = match area.lent(root, lending, 1).await {
                Ok(result) => Some(result),
                Err(error) => {
                    run.note::<()>(Err(error));
                    None
                }
            };
            operands.to_lent(run, area, range, result).await;
        }
    }
    area.done(lending);
    let returned = area.returned(lending).await;
    run.note(returned);
}

/// Each combines a slice of a segment in its long places, from where all take it.
async fn to_all(run: &mut Run<'_>, area: &Area, operands: &mut Operands<'_>, receive: Address, segment: u64) {
    let (reducer, shift, count) = (operands.reducer, operands.shift, operands.count);
    let bytes = reducer.datatype.size();
    // A place that is one of several has left the other cores' caches when its turn comes again: with two processes that have a core each,
    // 64 KiB take 8 µs, and 13 µs in what is always the same place.
    let most = operands.slice(0..count.min(segment), 0);
    let room = match (most.end - most.start) * bytes <= LONG as u64 {
        true => Room::Long,
        false => Room::AllLong,
    };
    for first in (0..count).step_by(segment as usize) {
        let all = first..count.min(first + segment);
        let round = area.next();
        let claimed = area.claim(round, room).await;
        run.note(claimed);
        let range = operands.slice(all.clone(), run.rank);
        let len = ((range.end - range.start) * bytes) as usize;
        let place = start_of(area.own(round, len, room)).at(-shift);
        for part in operands.parts(range.clone()) {
            operands.read(run, area, &part).await;
            operands.combine(&part, place.element(part.start - range.start, &reducer.datatype));
        }
        area.publish(round, len, room, count * bytes);
        let take = |from: Address, range: Range<u64>| {
            let into = receive.element(range.start, &reducer.datatype);
            reducer.copy(from, into, 0..range.end - range.start);
        };
        take(place, range);
        for distance in 1..run.size {
            let member = run.above(distance);
            if let Some(found) = get(run, area, member, round).await {
                let range = operands.slice(all.clone(), member);
                let expected = (range.end - range.start) * bytes;
                let theirs = found.bytes.number() as u64;
                match theirs == expected {
                    true => take(start_of(found.bytes).at(-shift), range),
                    false => run.note::<()>(Err(uneven(member, theirs, expected))),
                }
            }
        }
        area.all_in(round);
        area.done(round);
    }
}
