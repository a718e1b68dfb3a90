//! Where elements are, as few groups of runs: what goes into a message that accesses them elsewhere, and what accumulates walk along.
//!
//! A group has runs of one length at equal distances, so a vector is one. Runs are counted in units, which are bytes, or elements of the
//! predefined type that an accumulate combines: a pair of such elements has a gap between value and index and is two runs of bytes, but one unit.
//! Units are never cut.
//!
//! Bytes come from the walk in packed order, in pieces that may touch, and may end within a unit (where a layout has long elements in
//! pieces). So a unit is where its first byte is, units that touch are joined to runs, and these to groups.

use super::Datatype;
use super::walk::{RecordRun, Sink};
use std::ops::Range;

/// What runs are counted in. Sizes are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unit {
    /// Of its data, packed.
    pub size: u64,
    /// From its first byte of data to after its last.
    pub reach: u64,
    /// From one of a run to the next.
    pub extent: u64,
}

impl Unit {
    /// A byte.
    pub const BYTE: Unit = Unit {
        size: 1,
        reach: 1,
        extent: 1,
    };

    /// An element of a predefined datatype.
    pub fn element(predefined: &Datatype) -> Unit {
        debug_assert!(predefined.is_predefined() && predefined.true_lb() == 0);
        Unit {
            size: predefined.size(),
            reach: predefined.true_extent() as u64,
            extent: predefined.extent() as u64,
        }
    }
}

/// Runs of one length at equal distances. Sums of addresses wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Runs {
    /// Where the first one begins, in bytes.
    pub at: u64,
    /// Units of each; at least one.
    pub len: u64,
    /// How many; at least one.
    pub count: u64,
    /// From one to the next, in bytes.
    pub stride: i64,
}

impl Runs {
    /// Units in all of them.
    pub fn units(&self) -> u64 {
        self.len * self.count
    }

    /// Where each begins.
    pub fn places(&self) -> impl Iterator<Item = u64> + use<> {
        let (at, stride) = (self.at, self.stride as u64);
        (0..self.count).map(move |index| at.wrapping_add(index.wrapping_mul(stride)))
    }

    /// From their lowest byte to after their highest.
    pub fn span(&self, unit: Unit) -> Range<i128> {
        let far = i128::from(self.count - 1) * i128::from(self.stride);
        let len = i128::from(self.len - 1) * i128::from(unit.extent) + i128::from(unit.reach);
        let at = i128::from(self.at);
        at + far.min(0)..at + far.max(0) + len
    }
}

/// Joins runs to groups, and passes these on until nobody wants more.
struct Grouper<'a> {
    unit: Unit,
    /// How many packed bytes of a unit that has begun are behind.
    inside: u64,
    /// Where a run begins that the next unit may continue, and its units: none if there is none.
    run: (u64, u64),
    group: Option<Runs>,
    visit: &'a mut dyn FnMut(Runs) -> bool,
    is_full: bool,
}

impl Grouper<'_> {
    fn emit(&mut self) {
        if let Some(group) = self.group.take()
            && !self.is_full
        {
            self.is_full = !(self.visit)(group);
        }
    }

    fn finish(&mut self) {
        self.end_run();
        self.emit();
    }

    /// Whether a unit there continues the run.
    fn touches(&self, at: u64) -> bool {
        let (start, len) = self.run;
        len > 0 && start.wrapping_add(len * self.unit.extent) == at
    }

    fn end_run(&mut self) {
        let (at, len) = std::mem::take(&mut self.run);
        if len > 0 {
            self.add(Runs {
                at,
                len,
                count: 1,
                stride: 0,
            });
        }
    }

    fn add_run(&mut self, at: u64, len: u64) {
        if self.touches(at) {
            self.run.1 += len;
        } else {
            self.end_run();
            self.run = (at, len);
        }
    }

    /// Adds runs of whole units that have no gaps.
    fn whole(&mut self, at: u64, len: u64, count: u64, stride: i64) {
        let Unit { size, extent, .. } = self.unit;
        if count == 1 && (size == extent || len == 1) {
            return self.add_run(at, len);
        }
        self.end_run();
        if size == extent || len == 1 {
            return self.add(Runs {
                at,
                len,
                count,
                stride,
            });
        }
        // Closer than usual.
        for index in 0..count {
            if self.is_full {
                break;
            }
            self.add(Runs {
                at: at.wrapping_add(index.wrapping_mul(stride as u64)),
                len: 1,
                count: len,
                stride: size as i64,
            });
        }
    }

    fn add(&mut self, next: Runs) {
        let Some(last) = &mut self.group else {
            self.group = Some(next);
            return;
        };
        let apart = next.at.wrapping_sub(last.at) as i64;
        match (last.count, next.count) {
            (1, 1) if last.len == next.len => (last.count, last.stride) = (2, apart),
            (1, _) if last.len == next.len && apart == next.stride => {
                (last.count, last.stride) = (1 + next.count, next.stride);
            }
            (2.., _)
                if last.len == next.len
                    && apart == (last.count as i64).wrapping_mul(last.stride)
                    && (next.count == 1 || next.stride == last.stride) =>
            {
                last.count += next.count;
            }
            _ => {
                self.emit();
                self.group = Some(next);
            }
        }
    }

    /// Whether so many bytes are whole units that begin now.
    fn is_whole(&self, len: u64) -> bool {
        self.inside == 0 && len.is_multiple_of(self.unit.size)
    }
}

/// No conditions on the runs: it never accesses them.
impl Sink for Grouper<'_> {
    unsafe fn run(&mut self, at: usize, len: usize) {
        let (mut at, mut len) = (at as u64, len as u64);
        let size = self.unit.size;
        if self.inside > 0 {
            let rest = len.min(size - self.inside);
            self.inside = (self.inside + rest) % size;
            at = at.wrapping_add(rest);
            len -= rest;
        }
        let (whole, rest) = (len / size, len % size);
        if whole > 0 {
            self.whole(at, whole, 1, 0);
        }
        if rest > 0 {
            self.inside = rest;
            self.add_run(at.wrapping_add(whole * size), 1);
        }
    }

    unsafe fn strided(&mut self, at: usize, count: u64, stride: i64, len: usize) {
        let (mut at, mut count) = (at, count);
        // SAFETY: there are no conditions.
        unsafe {
            if i64::try_from(len) == Ok(stride) {
                return self.run(at, len * count as usize);
            }
            if self.touches(at as u64) {
                self.run(at, len);
                (at, count) = (at.wrapping_add(stride as usize), count - 1);
            }
            let units = len as u64 / self.unit.size;
            if count > 1 && self.is_whole(len as u64) {
                let is_run = units == 1 || self.unit.size == self.unit.extent;
                match is_run && i64::try_from(units * self.unit.extent) == Ok(stride) {
                    true => self.add_run(at as u64, units * count),
                    false => self.whole(at as u64, units, count, stride),
                }
                return;
            }
            for _ in 0..count {
                if self.full() {
                    break;
                }
                self.run(at, len);
                at = at.wrapping_add(stride as usize);
            }
        }
    }

    unsafe fn records(&mut self, at: usize, count: u64, stride: i64, runs: &[RecordRun], size: u64) {
        if size == self.unit.size && self.inside == 0 {
            let at = (at as u64).wrapping_add(runs[0].offset as u64);
            match u64::try_from(stride) == Ok(self.unit.extent) {
                true => self.add_run(at, count),
                false => self.whole(at, 1, count, stride),
            }
            return;
        }
        let mut at = at;
        for _ in 0..count {
            for run in runs {
                if self.full() {
                    return;
                }
                // SAFETY: there are no conditions.
                unsafe { self.run(at.wrapping_add(run.offset as usize), run.len) };
            }
            at = at.wrapping_add(stride as usize);
        }
    }

    fn full(&self) -> bool {
        self.is_full
    }
}

impl Datatype {
    /// Passes on where `count` elements at the address `at` have their packed bytes `range`, in groups and in packed order, until `visit` wants
    /// no more. The datatype is made of such units, and the range begins and ends between two of them.
    pub fn runs_of(
        &self,
        at: u64,
        count: u64,
        range: Range<u64>,
        unit: Unit,
        visit: &mut dyn FnMut(Runs) -> bool,
    ) {
        debug_assert!(
            [self.size, range.start, range.end]
                .iter()
                .all(|at| at.is_multiple_of(unit.size))
        );
        let mut grouper = Grouper {
            unit,
            inside: 0,
            run: (0, 0),
            group: None,
            visit,
            is_full: false,
        };
        let bytes = range.end.saturating_sub(range.start) as usize;
        // SAFETY: the grouper asks nothing of the bytes.
        unsafe { self.walk(at as usize, count, range.start, bytes, &mut grouper) };
        grouper.finish();
    }

    /// From the lowest byte of data that `count` elements at an address have to after the highest. `None`: they have none.
    #[inline]
    pub fn span(&self, count: u64, at: u64) -> Option<Range<i128>> {
        if count == 0 || self.size == 0 {
            return None;
        }
        let far = i128::from(count - 1) * i128::from(self.bounds.extent);
        let first = i128::from(at) + i128::from(self.bounds.true_lb);
        let last = first + i128::from(self.bounds.true_extent);
        Some(first + far.min(0)..last + far.max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn named(name: &str) -> &'static Arc<Datatype> {
        Datatype::all_predefined()
            .find(|(_, datatype)| datatype.name() == name)
            .expect("a predefined type")
            .1
    }

    fn all(datatype: &Datatype, at: u64, count: u64, unit: Unit) -> Vec<Runs> {
        let mut list = Vec::new();
        let range = 0..count * datatype.size();
        datatype.runs_of(at, count, range, unit, &mut |runs| {
            list.push(runs);
            true
        });
        list
    }

    fn runs(at: u64, len: u64, count: u64, stride: i64) -> Runs {
        Runs {
            at,
            len,
            count,
            stride,
        }
    }

    #[test]
    fn regular_types_are_one_group() {
        let int = named("MPI_INT");
        let ints = Unit::element(int);
        let contiguous = Datatype::contiguous(10, int).unwrap();
        assert_eq!(all(&contiguous, 100, 3, Unit::BYTE), [runs(100, 120, 1, 0)]);
        assert_eq!(all(&contiguous, 100, 3, ints), [runs(100, 30, 1, 0)]);
        let column = Datatype::vector(5, 2, 7, int).unwrap();
        assert_eq!(all(&column, 4, 1, Unit::BYTE), [runs(4, 8, 5, 28)]);
        assert_eq!(all(&column, 4, 1, ints), [runs(4, 2, 5, 28)]);
        let back = Datatype::hvector(1000, 1, -12, int).unwrap();
        assert_eq!(all(&back, 50_000, 1, ints), [runs(50_000, 1, 1000, -12)]);
        assert_eq!(all(&back, 50_000, 0, ints), []);
    }

    #[test]
    fn pairs_are_not_divided() {
        for name in [
            "MPI_DOUBLE_INT",
            "MPI_SHORT_INT",
            "MPI_LONG_DOUBLE_INT",
            "MPI_2INT",
        ] {
            let pair = named(name);
            let (unit, extent) = (Unit::element(pair), pair.extent());
            assert_eq!(all(pair, 64, 7, unit), [runs(64, 7, 1, 0)], "{name}");
            let column = Datatype::vector(20, 1, 3, pair).unwrap();
            assert_eq!(all(&column, 64, 1, unit), [runs(64, 1, 20, 3 * extent)], "{name}");
            let blocks = Datatype::vector(3, 2, 3, pair).unwrap();
            assert_eq!(all(&blocks, 0, 1, unit), [runs(0, 2, 3, 3 * extent)], "{name}");
            let odd = Datatype::indexed(&[1, 3], &[5, 0], pair).unwrap();
            let expected = [runs(5 * extent as u64, 1, 1, 0), runs(0, 3, 1, 0)];
            assert_eq!(all(&odd, 0, 1, unit), expected, "{name}");
        }
        // Without the gap behind the index, as a program may lay them out.
        let close = Datatype::resized(named("MPI_DOUBLE_INT"), 0, 12).unwrap();
        let unit = Unit::element(named("MPI_DOUBLE_INT"));
        assert_eq!(all(&close, 0, 4, unit), [runs(0, 1, 4, 12)]);
    }

    /// A list of blocks of different lengths is kept in pieces of 16 bytes; elements have 32.
    #[test]
    fn long_elements_are_not_divided() {
        let long = named("MPI_C_LONG_DOUBLE_COMPLEX");
        let places: Vec<i64> = (0..12).map(|index| index * 5 + index % 3).collect();
        let lengths: Vec<i64> = (0..12).map(|index| 1 + index % 2).collect();
        let list = Datatype::indexed(&lengths, &places, long).unwrap();
        let expected = places
            .iter()
            .zip(&lengths)
            .map(|(at, len)| (*at as u64 * 32, *len as u64));
        let found = all(&list, 0, 1, Unit::element(long));
        let found = found
            .iter()
            .flat_map(|runs| runs.places().map(|at| (at, runs.len)));
        assert!(found.eq(expected));
    }

    #[test]
    fn spans_reach_from_the_lowest_byte_to_the_highest() {
        let int = named("MPI_INT");
        let holey = Datatype::indexed(&[1, 1], &[-3, 5], int).unwrap();
        assert_eq!(holey.span(1, 100), Some(88..124));
        assert_eq!(holey.span(3, 100), Some(88..124 + 72));
        assert_eq!(holey.span(0, 100), None);
        let back = Datatype::resized(int, 0, -8).unwrap();
        assert_eq!(back.span(3, 0), Some(-16..4));
        let far = Datatype::resized(int, 0, i64::MIN).unwrap();
        let lowest = far.span(u64::MAX, u64::MAX).unwrap().start;
        assert_eq!(
            lowest,
            i128::from(u64::MAX) + i128::from(u64::MAX - 1) * i128::from(i64::MIN)
        );
        assert_eq!(Datatype::contiguous(0, int).unwrap().span(5, 0), None);
    }

    #[test]
    fn a_visitor_that_has_enough_gets_no_more() {
        let int = named("MPI_INT");
        let places: Vec<i64> = (0..100).map(|index| index * index * 2).collect();
        let list = Datatype::indexed_block(1, &places, int).unwrap();
        let mut seen = 0;
        list.runs_of(0, 1, 0..400, Unit::BYTE, &mut |_| {
            seen += 1;
            seen < 3
        });
        assert_eq!(seen, 3);
    }
}
