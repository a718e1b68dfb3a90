//! Which accesses to this process's part of a window conflict with each other (MPI 5.0 sections 12.3 and 12.7), where the setting
//! `check` is on.
//!
//! Then all operations go by messages, so their target sees them all: those of the program on its own memory excepted. It keeps which bytes
//! have been accessed, how and by whom, until this is complete in a way that others can know of: a flush or an unlock ends what its origin has
//! done, a fence and the end of an exposure epoch end all. So a conflict that is reported is one; some are not seen, as a flush forgets
//! more than it has to, and as memory is bounded.
//!
//! What conflicts: a put with anything, an accumulate with a get, and accumulates with each other whose elements are of different size, place
//! or kind, or, of different origins, whose operations are not those that the hint `accumulate_ops` allows. The operations that compare
//! and swap go with all others.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::message::{Code, Head};
use crate::data::datatype::{Category, Datatype, Element, Runs, Unit};
use crate::data::op::Op;

/// The most accesses that are kept; those beyond are compared with these, and forgotten.
const MOST: usize = if cfg!(test) { 1 << 12 } else { 1 << 17 };
/// The most runs of an operation that are looked at.
const RUNS: usize = if cfg!(test) { 1 << 11 } else { 1 << 16 };

/// An access, and by whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The rank of its origin.
    origin: u32,
    /// What it is: a long put is [`Code::Put`], a long accumulate [`Code::Accumulate`].
    code: Code,
    /// The ABI's number of the reduction, of an accumulate.
    op: u8,
    /// The ABI's number of the predefined datatype of its elements, of an accumulate.
    datatype: u16,
    /// Where its elements begin, modulo their extent.
    shift: u8,
    /// See [`Ended`].
    turn: u32,
}

/// What of an origin's accesses is complete: those of an earlier turn.
#[derive(Default, Debug)]
struct Ended {
    /// The turn of those that fetch.
    fetching: u32,
    /// The turn of the others.
    storing: u32,
}

/// Two accesses that conflict.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// The bytes that both access.
    pub bytes: Range<u64>,
    /// The one that has come first.
    pub first: Access,
    /// The other one.
    pub second: Access,
}

/// Bytes that the same accesses concern. They end here.
#[derive(Debug)]
struct Stretch {
    end: u64,
    accesses: SmallVec<[Access; 1]>,
}

/// See the module.
#[derive(Default, Debug)]
pub struct Conflicts {
    /// By their first bytes; they do not overlap.
    stretches: BTreeMap<u64, Stretch>,
    /// How many accesses are in these.
    kept: usize,
    /// Some of them may be complete by now.
    has_ended: bool,
    origins: FxHashMap<u32, Ended>,
}

/// Whether what it returns is there when its origin has it.
fn fetches(code: Code) -> bool {
    matches!(code, Code::Get | Code::GetAccumulate | Code::CompareAndSwap)
}

impl Access {
    /// What an operation of a message does. `None`: it accesses nothing.
    pub fn of(origin: u32, head: &Head) -> Option<Access> {
        let (code, combines) = match head.code {
            Code::Put | Code::PutLong => (Code::Put, false),
            Code::Get => (Code::Get, false),
            Code::AccumulateLong => (Code::Accumulate, true),
            code @ (Code::Accumulate | Code::GetAccumulate | Code::CompareAndSwap) => (code, true),
            Code::Lock | Code::Unlock | Code::Flush | Code::Count => return None,
        };
        Some(Access {
            origin,
            code,
            op: if combines { head.op } else { 0 },
            datatype: if combines { head.datatype } else { 0 },
            shift: 0,
            turn: 0,
        })
    }

    fn component(&self) -> Option<&'static Datatype> {
        Datatype::predefined(self.datatype.into()).map(|datatype| &**datatype)
    }

    /// What its runs are counted in. `None`: it makes no sense.
    pub fn unit(&self) -> Option<Unit> {
        match self.combines() {
            false => Some(Unit::BYTE),
            true => (self.component().map(Unit::element)).filter(|unit| unit.extent > 0 && unit.reach > 0),
        }
    }

    fn op(&self) -> Option<&'static Op> {
        Op::predefined(self.op.into()).map(|op| &**op)
    }

    /// Whether it is atomic for each element.
    fn combines(&self) -> bool {
        !matches!(self.code, Code::Put | Code::Get)
    }

    /// Whether two accesses of the same bytes conflict. `same_op`: not even `MPI_NO_OP` goes with other operations.
    fn conflicts_with(&self, other: &Access, same_op: bool) -> bool {
        match (self.combines(), other.combines()) {
            (false, false) => self.code == Code::Put || other.code == Code::Put,
            (true, true) => self.is_placed_otherwise(other) || self.combines_otherwise(other, same_op),
            _ => true,
        }
    }

    /// Of accumulates: whether elements of both have different sizes, places or kinds.
    fn is_placed_otherwise(&self, other: &Access) -> bool {
        if self.datatype == other.datatype {
            return self.shift != other.shift;
        }
        let (Some(a), Some(b)) = (self.component(), other.component()) else {
            return false;
        };
        let form = |of: &Datatype| (of.size(), of.extent(), of.element().map(kind));
        form(a) != form(b) || self.shift != other.shift
    }

    /// Of accumulates: whether these operations are not to meet. Those of one origin are in order.
    fn combines_otherwise(&self, other: &Access, same_op: bool) -> bool {
        let compares = [self, other].iter().any(|one| one.code == Code::CompareAndSwap);
        let reads = |access: &Access| access.op().is_none_or(Op::is_no_op);
        let is_read = !same_op && (reads(self) || reads(other));
        self.origin != other.origin && self.op != other.op && !compares && !is_read
    }

    /// In words: a procedure that does this.
    fn describe(&self) -> String {
        let name = match self.code {
            Code::Get => return "MPI_Get".into(),
            Code::Accumulate => "MPI_Accumulate",
            Code::GetAccumulate => "MPI_Get_accumulate",
            Code::CompareAndSwap => "MPI_Compare_and_swap",
            _ => return "MPI_Put".into(),
        };
        let op = self.op().filter(|_| self.code != Code::CompareAndSwap);
        let names = [op.map(Op::name), self.component().map(Datatype::name)];
        let names: Vec<_> = names.into_iter().flatten().collect();
        format!("{name} ({})", names.join(", "))
    }
}

/// What elements are: those of different kinds are not atomic towards each other. Whole numbers are of one kind, signed or not, as C and Fortran
/// have different names for the same.
fn kind(element: Element) -> [u8; 2] {
    let one = |category| match category {
        Category::Floating => 1,
        Category::Complex => 2,
        Category::CInteger
        | Category::FortranInteger
        | Category::MultiLanguage
        | Category::Logical
        | Category::Byte
        | Category::Char
        | Category::Character
        | Category::Packed => 3,
    };
    match element {
        Element::Basic(basic) => [one(basic.category), 0],
        Element::Pair(value, index, _) => [one(value.category), one(index.category)],
    }
}

impl Conflict {
    /// In words, for the second one's origin. `rank`: whose memory it is; `addresses`: the bytes are at addresses.
    pub fn describe(&self, rank: u32, addresses: bool) -> String {
        let Conflict { bytes, first, second } = self;
        let (start, last) = (bytes.start, bytes.end - 1);
        let bytes = match addresses {
            true => format!("from {start:#x} to {last:#x}"),
            false => format!("{start} to {last}"),
        };
        format!(
            "{} of rank {} conflicts with {} of rank {}, which is not complete: bytes {bytes} of rank {rank}",
            second.describe(),
            second.origin,
            first.describe(),
            first.origin,
        )
    }
}

impl Conflicts {
    /// An access to groups of runs is made, within 64 bits. Returns the first conflict with another one. `same_op`: the hint
    /// `accumulate_ops` has that value.
    pub fn note(&mut self, access: Access, groups: &[Runs], same_op: bool) -> Option<Conflict> {
        let unit = access.unit()?;
        let ended = self.origins.entry(access.origin).or_default();
        let turn = match fetches(access.code) {
            true => ended.fetching,
            false => ended.storing,
        };
        let mut found = None;
        let runs = groups
            .iter()
            .flat_map(|group| group.places().map(|at| (at, group.len)));
        for (at, len) in runs.take(RUNS) {
            let bytes = at..at.saturating_add((len - 1) * unit.extent + unit.reach);
            let shift = if access.combines() { at % unit.extent } else { 0 };
            let shift = shift as u8;
            let access = Access {
                turn,
                shift,
                ..access
            };
            let conflict = self.note_run(access, bytes, same_op);
            found = found.or(conflict);
        }
        found
    }

    /// All that an origin has done is complete; `fetched`: at least what has returned something is.
    pub fn end(&mut self, origin: u32, fetched: bool) {
        if let Some(ended) = self.origins.get_mut(&origin) {
            ended.fetching = ended.fetching.wrapping_add(1);
            if !fetched {
                ended.storing = ended.storing.wrapping_add(1);
            }
            self.has_ended = true;
        }
    }

    /// All is complete.
    pub fn end_all(&mut self) {
        *self = Conflicts::default();
    }

    fn note_run(&mut self, access: Access, bytes: Range<u64>, same_op: bool) -> Option<Conflict> {
        if self.kept >= MOST && std::mem::take(&mut self.has_ended) {
            self.forget_ended();
        }
        let is_full = self.kept >= MOST;
        if !is_full {
            self.cut(bytes.start);
            self.cut(bytes.end);
        }
        let mut found = None;
        // The one before it reaches into it only if nothing could be cut.
        let before = self.stretches.range(..bytes.start).next_back();
        let mut at = match before {
            Some((&start, stretch)) if stretch.end > bytes.start => start,
            _ => bytes.start,
        };
        while at < bytes.end {
            let next = self.stretches.range_mut(at..bytes.end).next();
            match next {
                Some((&start, stretch)) if start == at => {
                    let origins = &self.origins;
                    self.kept -= stretch.accesses.len();
                    stretch.accesses.retain(|access| is_open(origins, access));
                    let other = |other: &&Access| access.conflicts_with(other, same_op);
                    if found.is_none()
                        && let Some(first) = stretch.accesses.iter().find(other)
                    {
                        found = Some(Conflict {
                            bytes: at.max(bytes.start)..stretch.end.min(bytes.end),
                            first: *first,
                            second: access,
                        });
                    }
                    if !is_full && !stretch.accesses.contains(&access) {
                        stretch.accesses.push(access);
                    }
                    self.kept += stretch.accesses.len();
                    at = stretch.end;
                }
                next => {
                    let end = next.map_or(bytes.end, |(&start, _)| start);
                    if !is_full {
                        let accesses = SmallVec::from_buf([access]);
                        self.stretches.insert(at, Stretch { end, accesses });
                        self.kept += 1;
                    }
                    at = end;
                }
            }
        }
        if !is_full {
            self.join(bytes);
        }
        found
    }

    /// Has a stretch begin at a byte, if one goes over it.
    fn cut(&mut self, at: u64) {
        let Some((_, before)) = self.stretches.range_mut(..at).next_back() else {
            return;
        };
        if before.end > at {
            let behind = Stretch {
                end: before.end,
                accesses: before.accesses.clone(),
            };
            before.end = at;
            self.kept += behind.accesses.len();
            self.stretches.insert(at, behind);
        }
    }

    /// Joins the stretches in and around these bytes that concern the same accesses.
    fn join(&mut self, bytes: Range<u64>) {
        let first = self.stretches.range(..bytes.start).next_back();
        let mut at = first.map_or(bytes.start, |(&start, _)| start);
        while at < bytes.end {
            let mut two = self.stretches.range(at..=bytes.end);
            let (Some((&start, one)), Some((&next, other))) = (two.next(), two.next()) else {
                break;
            };
            if one.end == next && one.accesses == other.accesses {
                let end = other.end;
                let gone = self.stretches.remove(&next).map_or(0, |gone| gone.accesses.len());
                self.kept -= gone;
                self.stretches.get_mut(&start).expect("it is there").end = end;
                at = start;
            } else {
                at = next;
            }
        }
    }

    fn forget_ended(&mut self) {
        let (origins, kept) = (&self.origins, &mut self.kept);
        *kept = 0;
        self.stretches.retain(|_, stretch| {
            stretch.accesses.retain(|access| is_open(origins, access));
            *kept += stretch.accesses.len();
            !stretch.accesses.is_empty()
        });
    }
}

/// Whether an access may still be under way, for all that others know.
fn is_open(origins: &FxHashMap<u32, Ended>, access: &Access) -> bool {
    let ended = origins.get(&access.origin);
    ended.is_some_and(|ended| match fetches(access.code) {
        true => access.turn == ended.fetching,
        false => access.turn == ended.storing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::window::runs::tests::named;

    fn access(origin: u32, code: Code, op: &str, datatype: &str) -> Access {
        let ops = Op::all_predefined().find(|(_, known)| known.name() == op);
        let head = Head {
            op: ops.map_or(0, |(handle, _)| handle as u8),
            datatype: match datatype {
                "" => 0,
                name => named(name).handle() as u16,
            },
            ..Head::of(code, 0)
        };
        Access::of(origin, &head).expect("it accesses something")
    }

    fn run(at: u64, len: u64) -> Runs {
        Runs {
            at,
            len,
            count: 1,
            stride: 0,
        }
    }

    /// Whether two accesses of the same elements conflict, in either order.
    fn conflict(a: Access, b: Access, [place, other]: [u64; 2], same_op: bool) -> bool {
        let found = [[(a, place), (b, other)], [(b, other), (a, place)]].map(|order| {
            let mut conflicts = Conflicts::default();
            order.map(|(access, at)| {
                let len = if access.combines() { 1 } else { 4 };
                conflicts.note(access, &[run(at, len)], same_op).is_some()
            })
        });
        assert_eq!(found[0], found[1]);
        assert!(!found[0][0], "there was nothing yet");
        found[0][1]
    }

    #[test]
    fn the_standard_says_what_conflicts() {
        let (put, get) = (access(1, Code::Put, "", ""), access(1, Code::Get, "", ""));
        let of = |origin: u32, code, op: &str, datatype: &str| access(origin, code, op, datatype);
        let add = |origin| of(origin, Code::Accumulate, "MPI_SUM", "MPI_INT");
        let fetch = of(2, Code::GetAccumulate, "MPI_SUM", "MPI_INT");
        let read = of(2, Code::GetAccumulate, "MPI_NO_OP", "MPI_INT");
        let replace = |origin| of(origin, Code::Accumulate, "MPI_REPLACE", "MPI_INT");
        let swap = of(2, Code::CompareAndSwap, "", "MPI_INT");
        let cases = [
            (put, put, true),
            (put, get, true),
            (get, get, false),
            (put, add(1), true),
            (put, read, true),
            (get, add(2), true),
            (get, swap, true),
            (add(1), add(2), false),
            (add(1), fetch, false),
            (add(1), read, false),
            (add(1), swap, false),
            (replace(1), swap, false),
            // Of one origin they are in order; of several, the operations are to be the same.
            (add(1), replace(1), false),
            (add(1), replace(2), true),
            // The same type by another name, or nearly.
            (add(1), of(2, Code::Accumulate, "MPI_SUM", "MPI_INT32_T"), false),
            (add(1), of(2, Code::Accumulate, "MPI_SUM", "MPI_UNSIGNED"), false),
            (add(1), of(2, Code::Accumulate, "MPI_SUM", "MPI_FLOAT"), true),
            (add(1), of(2, Code::Accumulate, "MPI_SUM", "MPI_SHORT"), true),
            (add(1), of(1, Code::Accumulate, "MPI_SUM", "MPI_LONG"), true),
            (add(1), of(2, Code::Accumulate, "MPI_MAXLOC", "MPI_2INT"), true),
        ];
        for (a, b, expected) in cases {
            assert_eq!(conflict(a, b, [16, 16], false), expected, "{a:?} {b:?}");
        }
        assert!(conflict(add(1), add(2), [16, 18], false), "half of an element");
        assert!(!conflict(add(1), add(2), [16, 20], false), "the next element");
        assert!(!conflict(put, put, [16, 20], false) && conflict(put, put, [16, 19], false));
        assert!(
            conflict(add(1), read, [16, 16], true),
            "accumulate_ops is same_op"
        );
        assert!(!conflict(add(1), fetch, [16, 16], true));
    }

    #[test]
    fn what_is_complete_conflicts_no_more() {
        let (put, get) = (access(1, Code::Put, "", ""), access(1, Code::Get, "", ""));
        let other = access(2, Code::Put, "", "");
        let mut conflicts = Conflicts::default();
        let note = |conflicts: &mut Conflicts, access: Access, at| {
            conflicts.note(access, &[run(at, 8)], false).is_some()
        };
        assert!(!note(&mut conflicts, put, 0) && !note(&mut conflicts, get, 8));
        conflicts.end(2, false);
        assert!(
            note(&mut conflicts, get, 4),
            "another origin has completed its own"
        );
        conflicts.end_all();
        assert!(!note(&mut conflicts, put, 0) && !note(&mut conflicts, get, 8));
        conflicts.end(1, true);
        assert!(!note(&mut conflicts, other, 8), "what the get returns was there");
        assert!(note(&mut conflicts, other, 0), "the put need not be there");
        conflicts.end(1, false);
        conflicts.end(2, false);
        assert!(!note(&mut conflicts, put, 4));
        assert!(note(&mut conflicts, put, 11), "an origin with itself");
    }

    #[test]
    fn conflicts_are_described_shortly() {
        let worst = access(
            99_999_999,
            Code::GetAccumulate,
            "MPI_REPLACE",
            "MPI_C_LONG_DOUBLE_COMPLEX",
        );
        let bytes = 1 << 46..1 << 47;
        let (first, second) = (worst, worst);
        let words = Conflict { bytes, first, second }.describe(99_999_999, false);
        assert!(words.len() < 252, "{} {words}", words.len());
        let put = access(3, Code::PutLong, "", "");
        let first = access(1, Code::Accumulate, "MPI_SUM", "MPI_INT");
        let conflict = Conflict {
            bytes: 8..16,
            first,
            second: put,
        };
        assert_eq!(
            conflict.describe(0, false),
            "MPI_Put of rank 3 conflicts with MPI_Accumulate (MPI_SUM, MPI_INT) of rank 1, which is not complete: bytes 8 to 15 of rank 0"
        );
    }

    /// Random accesses: the same conflicts as with a list for each byte.
    #[test]
    fn stretches_are_as_good_as_bytes() {
        const BYTES: usize = 300;
        for seed in 0..300 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut conflicts = Conflicts::default();
            let mut bytes: Vec<Vec<(Access, bool)>> = vec![Vec::new(); BYTES];
            for _ in 0..120 {
                let origin = rng.u32(..3);
                match rng.u32(..12) {
                    0 => {
                        let fetched = rng.bool();
                        conflicts.end(origin, fetched);
                        for (access, open) in bytes.iter_mut().flatten() {
                            *open &= access.origin != origin || fetched && !fetches(access.code);
                        }
                        continue;
                    }
                    1 if rng.bool() => {
                        conflicts.end_all();
                        bytes.iter_mut().for_each(Vec::clear);
                        continue;
                    }
                    _ => {}
                }
                let code = [
                    Code::Put,
                    Code::Get,
                    Code::Get,
                    Code::Accumulate,
                    Code::GetAccumulate,
                ];
                let code = code[rng.usize(..5)];
                let (op, datatype) = match code {
                    Code::Put | Code::Get => ("", ""),
                    _ => (
                        ["MPI_SUM", "MPI_REPLACE", "MPI_NO_OP"][rng.usize(..3)],
                        ["MPI_INT", "MPI_SHORT_INT"][rng.usize(..2)],
                    ),
                };
                let access = access(origin, code, op, datatype);
                let unit = access.unit().expect("it makes sense");
                let len = 1 + rng.u64(..3);
                let count = 1 + rng.u64(..4);
                let at = rng.u64(..100);
                let at = if rng.bool() { at } else { at / 8 * 8 };
                let runs = Runs {
                    at,
                    len,
                    count,
                    stride: rng.i64(0..3) * 8 + (len * unit.extent) as i64,
                };
                let mut expected = false;
                for place in runs.places() {
                    let shift = if access.combines() { place % unit.extent } else { 0 };
                    let access = Access {
                        shift: shift as u8,
                        ..access
                    };
                    let last = place + (len - 1) * unit.extent + unit.reach;
                    for all in &mut bytes[place as usize..last as usize] {
                        expected |= all
                            .iter()
                            .any(|(other, open)| *open && access.conflicts_with(other, false));
                        all.push((access, true));
                    }
                }
                let found = conflicts.note(access, &[runs], false);
                assert_eq!(found.is_some(), expected, "seed {seed}: {access:?} {runs:?}");
                let mut end = 0;
                let mut kept = 0;
                for (&start, stretch) in &conflicts.stretches {
                    assert!(end <= start && start < stretch.end);
                    end = stretch.end;
                    kept += stretch.accesses.len();
                }
                assert_eq!(kept, conflicts.kept);
            }
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut conflicts = Conflicts::default();
        let put = access(1, Code::Put, "", "");
        // Without gaps they are one stretch.
        for at in 0..1000 {
            assert_eq!(conflicts.note(put, &[run(at * 8, 8)], false), None);
        }
        assert_eq!((conflicts.stretches.len(), conflicts.kept), (1, 1));
        let spread = |at| Runs {
            at,
            len: 1,
            count: RUNS as u64,
            stride: 2,
        };
        for part in 1..5 {
            let found = conflicts.note(put, &[spread(part << 16)], false);
            assert_eq!(found, None);
        }
        assert!(conflicts.kept <= MOST);
        // It is compared all the same.
        let other = access(2, Code::Put, "", "");
        assert!(conflicts.note(other, &[run(100, 1)], false).is_some());
        assert!(conflicts.note(other, &[run(9000, 1)], false).is_none());
        assert!(conflicts.note(put, &[run(9000, 1)], false).is_none(), "forgotten");
        // What is complete makes room.
        conflicts.end(1, false);
        assert!(conflicts.note(other, &[run(9000, 1)], false).is_none());
        assert!(conflicts.note(put, &[run(9000, 1)], false).is_some());
        assert_eq!(conflicts.kept, 2);
    }
}
