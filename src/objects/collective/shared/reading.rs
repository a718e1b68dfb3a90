//! Reductions of long operands that are read where they are ([`Area::lend`]). Each process combines a slice of all operands. A root
//! lends its result too, and the others write their slices there. Where all need the result, they take it from long places, segment
//! after segment. Each element is combined in one order only, as in `reducing`.

use std::ops::Range;

use super::reducing::shift;
use super::short::uneven;
use super::{Area, Bytes, LONG, Room, Run, all_have_long, get, rounds, start_of};
use crate::base::error::Result;
use crate::err;
use crate::objects::collective::buffer::Address;
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
    /// This process.
    rank: u32,
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

/// The elements of a range that one of `size` processes combines. All have about as many, a root somewhat more, as it writes them to no
/// other process.
fn slice_of(range: &Range<u64>, size: u32, member: u32, root: Option<u32>) -> Range<u64> {
    let (number, size) = (range.end - range.start, u64::from(size));
    let start = |member: u64| {
        let before = member * size + u64::from(root.is_some_and(|root| u64::from(root) < member));
        let all = size * size + u64::from(root.is_some());
        let elements = u128::from(number) * u128::from(before) / u128::from(all);
        range.start + number.min((elements as u64).next_multiple_of(LINE))
    };
    start(u64::from(member))..start(u64::from(member) + 1)
}

impl<'a> Operands<'a> {
    /// Nothing is lent yet.
    fn new(
        run: &Run<'_>,
        reducer: &'a Reducer,
        shift: i64,
        count: u64,
        own: Address,
    ) -> Result<Operands<'a>> {
        let (others, bytes) = (u64::from(run.size) - 1, reducer.datatype.size());
        let len = (READ / others).saturating_sub(LINE).max(READ_MIN);
        let most = (len / bytes / LINE * LINE).max(1).min(count);
        Ok(Operands {
            reducer,
            shift,
            count,
            rank: run.rank,
            own,
            lent: Vec::new(),
            scratch: Scratch::kept((slot_for(most * bytes) * others) as usize)?,
            most,
            inputs: vec![own; run.size as usize],
        })
    }

    /// See [`slice_of`].
    fn slice(&self, range: &Range<u64>, member: u32, root: Option<u32>) -> Range<u64> {
        slice_of(range, self.inputs.len() as u32, member, root)
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

    /// Reads a part of all operands, and that of the last other process to `spare` if there is such a place.
    async fn read(&mut self, run: &mut Run<'_>, area: &Area, part: &Range<u64>, spare: Option<Address>) {
        let datatype = &self.reducer.datatype;
        let bytes = datatype.size();
        let (at, len) = (part.start * bytes, (part.end - part.start) * bytes);
        let slot = slot_for(self.most * bytes);
        let last = self.last_other();
        let mut place = 0;
        for (nth, (input, lent)) in self.inputs.iter_mut().zip(&self.lent).enumerate() {
            let Some(lent) = lent else {
                *input = self.own.element(part.start, datatype);
                continue;
            };
            // As far from the beginning of a line as there: the kernel copies whole lines faster.
            let begin = (place + lent.offset_in_line(at)) as i64;
            place += slot as usize;
            *input = match spare {
                Some(spare) if nth == last => spare,
                _ => self.scratch.address().at(begin - self.shift),
            };
            // SAFETY: the caller's place for them, or within a slot, which has room for `most` elements from anywhere in its first line.
            let into = unsafe { Bytes::new(input.at(self.shift).get(), len as usize) };
            let read = area.read(lent, at, into).await;
            run.note(read);
        }
    }

    /// The last process but this one. Its operand is among those that are combined first, so the result may be where it has been read to.
    fn last_other(&self) -> usize {
        let last = self.inputs.len() - 1;
        last - usize::from(self.rank as usize == last)
    }

    /// Where its operand has been read to.
    fn spare(&self) -> Address {
        match self.lent[self.last_other()] {
            Some(_) => self.inputs[self.last_other()],
            // It is lost. Nobody will use the result.
            None => self.scratch.address().at(-self.shift),
        }
    }

    /// Combines the part that has been read.
    fn combine(&self, part: &Range<u64>, output: Address) {
        let Reducer { datatype, operation } = self.reducer;
        apply_many(operation, &self.inputs, output, part.end - part.start, datatype);
    }

    /// Combines elements `range`, the root's own part of its result.
    async fn combine_here(&mut self, run: &mut Run<'_>, area: &Area, range: Range<u64>, result: Address) {
        for part in self.parts(range) {
            let into = result.element(part.start, &self.reducer.datatype);
            let is_free = result != self.own;
            self.read(run, area, &part, is_free.then_some(into)).await;
            // Where its own operand is, that would be lost before it is combined, if it is not among the first.
            if is_free || self.inputs.len() <= AT_A_TIME {
                self.combine(&part, into);
            } else {
                self.combine(&part, self.spare());
                self.reducer.copy(self.spare(), into, 0..part.end - part.start);
            }
        }
    }

    /// Combines elements `range` and writes them to the root's result.
    async fn combine_there(
        &mut self,
        run: &mut Run<'_>,
        area: &Area,
        range: Range<u64>,
        result: Option<Lent>,
    ) {
        let bytes = self.reducer.datatype.size();
        for part in self.parts(range) {
            self.read(run, area, &part, None).await;
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
            match area.lent(member, round, 0).await {
                Ok(lent) if lent.number() == bytes && lent.total() == bytes => {
                    self.lent[member as usize] = Some(lent);
                }
                Ok(lent) => {
                    run.note::<()>(Err(uneven(member, lent.total(), bytes)));
                    all_alike = false;
                }
                Err(error) => run.note::<()>(Err(error)),
            }
        }
        area.all_in(round);
        all_alike
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
    if segment == 0 || rounds(count, segment).is_none() || !all_have_long(run, area).await {
        return Ok(false);
    }
    // SAFETY: the operation's memory, and one run.
    let loan = |elements: Address| unsafe { Bytes::new(elements.at(shift).get(), (count * bytes) as usize) };
    let loans = [own, receive.unwrap_or(own)].map(loan);
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
    match (Operands::new(run, reducer, shift, count, own), root, receive) {
        (Ok(mut operands), Some(root), receive) => {
            // Where another length is found, the others see that, too, and nobody reads anything.
            if operands.find(run, area, lending).await {
                // A process that finds another one lost writes nothing. The others may not have noticed, and go on.
                if !run.has_failed() {
                    to_root(run, area, &mut operands, (root, receive), lending).await;
                }
                end_at_root(run, area).await;
            }
        }
        (Err(error), Some(_), _) => {
            run.note::<()>(Err(error));
            end_at_root(run, area).await;
        }
        (Ok(mut operands), None, Some(receive)) => {
            if operands.find(run, area, lending).await {
                to_all(run, area, &mut operands, receive, segment).await;
            }
        }
        (Err(error), None, _) => return Err(error),
        (Ok(_), None, None) => unreachable!("all need the result"),
    }
    Ok(true)
}

/// The last round of a reduction for a root: who has published in it reads and writes nothing any more, and says whether its slice is there.
async fn end_at_root(run: &mut Run<'_>, area: &Area) {
    let round = area.next();
    let claimed = area.claim(round, Room::Short).await;
    run.note(claimed);
    area.publish(round, 0, Room::Short, run.has_failed().into());
    for member in area.others() {
        if let Some(theirs) = get(run, area, member, round).await
            && theirs.total != 0
        {
            run.note::<()>(Err(err!(
                Other,
                "the operation has failed on process {member} of this host"
            )));
        }
    }
    area.all_in(round);
    area.done(round);
}

/// Each combines a slice, and writes it to where the root needs it.
async fn to_root(
    run: &mut Run<'_>,
    area: &Area,
    operands: &mut Operands<'_>,
    (root, receive): (u32, Option<Address>),
    lending: Round,
) {
    let range = operands.slice(&(0..operands.count), run.rank, Some(root));
    match receive {
        Some(receive) => operands.combine_here(run, area, range, receive).await,
        None => {
            let result = match area.lent(root, lending, 1).await {
                Ok(result) => Some(result),
                Err(error) => {
                    run.note::<()>(Err(error));
                    None
                }
            };
            operands.combine_there(run, area, range, result).await;
        }
    }
}

/// Each combines a slice of a segment in its long places, from where all take it.
async fn to_all(run: &mut Run<'_>, area: &Area, operands: &mut Operands<'_>, receive: Address, segment: u64) {
    let (reducer, shift, count) = (operands.reducer, operands.shift, operands.count);
    let bytes = reducer.datatype.size();
    // A place that is one of several has left the other cores' caches when its turn comes again: with two processes that have a core each,
    // 64 KiB take 8 µs, and 13 µs in what is always the same place.
    let most = operands.slice(&(0..count.min(segment)), 0, None);
    let room = match (most.end - most.start) * bytes <= LONG as u64 {
        true => Room::Long,
        false => Room::AllLong,
    };
    for first in (0..count).step_by(segment as usize) {
        let all = first..count.min(first + segment);
        let round = area.next();
        let claimed = area.claim(round, room).await;
        run.note(claimed);
        let range = operands.slice(&all, run.rank, None);
        let len = ((range.end - range.start) * bytes) as usize;
        let place = start_of(area.own(round, len, room)).at(-shift);
        for part in operands.parts(range.clone()) {
            let into = place.element(part.start - range.start, &reducer.datatype);
            operands.read(run, area, &part, Some(into)).await;
            operands.combine(&part, into);
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
                let range = operands.slice(&all, member, None);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_all_of_a_range_and_none_is_longer_than_its_share() {
        for size in [2, 3, 5, 8, 64, 512] {
            for number in [
                1,
                63,
                64,
                65,
                1000,
                64 * u64::from(size) * 3 - 1,
                64 * u64::from(size) * 3,
            ] {
                for root in [None, Some(0), Some(1), Some(size - 1)] {
                    let range = 128..128 + number;
                    let share = number.div_ceil(u64::from(size)).next_multiple_of(LINE);
                    let mut end = range.start;
                    for member in 0..size {
                        let slice = slice_of(&range, size, member, root);
                        assert_eq!(slice.start, end);
                        assert!(root.is_some() || slice.end - slice.start <= share);
                        end = slice.end;
                    }
                    assert_eq!(end, range.end);
                }
            }
        }
        assert_eq!(slice_of(&(0..8000), 2, 1, Some(1)), 3200..8000);
    }
}
