//! Random layouts on both sides against lists of bytes; lengths above the block's; the system's copies.

use proptest::prelude::*;
use std::sync::Arc;

use super::super::runs::tests::{datatype, named, places};
use super::super::runs::{Access, Groups};
use super::*;
use crate::data::op::Guard;

struct Nobody;

impl Guard for Nobody {
    fn by_atomics(&self, update: &mut dyn FnMut()) -> bool {
        update();
        true
    }

    fn lock(&self) {}

    fn unlock(&self) -> bool {
        false
    }

    fn give_way(&self) {}

    fn excludes_all(&self, wanted: bool) -> bool {
        wanted
    }
}

fn op(name: &str) -> &'static Arc<Op> {
    Op::all_predefined()
        .find(|(_, op)| op.name() == name)
        .expect("a predefined operation")
        .1
}

/// Memory that holds some elements, and where each packed byte of them is.
struct Elements {
    /// Words, so that elements are aligned.
    words: Vec<u128>,
    places: Vec<usize>,
    /// Where the buffer's address is in it.
    at: usize,
    count: u64,
    datatype: Arc<Datatype>,
}

impl Elements {
    /// `None`: elements overlap.
    fn new(datatype: &Arc<Datatype>, count: u64, fill: u8) -> Option<Elements> {
        let span = datatype.span(count, 0).unwrap_or(0..0);
        let at = (-span.start.min(0)) as usize / 64 * 64 + 64;
        let places: Vec<usize> = places(datatype, at as u64, count)
            .into_iter()
            .map(|at| at as usize)
            .collect();
        let mut sorted = places.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let end = at + span.end.max(0) as usize + 64;
        (sorted.len() == places.len()).then(|| Elements {
            words: vec![u128::from_ne_bytes([fill; 16]); end.div_ceil(16)],
            places,
            at,
            count,
            datatype: datatype.clone(),
        })
    }

    fn address(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast::<u8>().wrapping_add(self.at)
    }

    fn memory(&mut self) -> Memory {
        Memory::new(self.address(), self.count, &self.datatype)
    }

    fn bytes(&mut self) -> &mut [u8] {
        let (start, len) = (self.words.as_mut_ptr().cast(), self.words.len() * 16);
        // SAFETY: the words' own bytes.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }

    fn packed(&mut self) -> Vec<u8> {
        let places = self.places.clone();
        places.iter().map(|&at| self.bytes()[at]).collect()
    }

    fn set(&mut self, packed: &[u8]) {
        for (at, &byte) in self.places.clone().into_iter().zip(packed) {
            self.bytes()[at] = byte;
        }
    }

    /// Whether all bytes but the elements' are still this.
    fn is_clean(&mut self, fill: u8) -> bool {
        let mut other = vec![true; self.words.len() * 16];
        self.places.iter().for_each(|&at| other[at] = false);
        self.bytes()
            .iter()
            .zip(other)
            .all(|(&byte, other)| !other || byte == fill)
    }
}

fn number(index: usize) -> u8 {
    (index * 7 + index / 251) as u8
}

/// Elements of a random layout, many or few, and those of another one.
fn layout() -> impl Strategy<Value = (Arc<Datatype>, &'static Arc<Datatype>, u64)> {
    (datatype(), prop_oneof![0..3u64, 0..3u64, 20..30u64])
        .prop_map(|((datatype, component), count)| (datatype, component, count))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn copies_of_any_layouts((from, _, number_from) in layout(), (to, _, number_to) in layout(), by_kernel in any::<bool>()) {
        let (Some(mut from), Some(mut to)) = (Elements::new(&from, number_from, 0), Elements::new(&to, number_to, 0xee)) else {
            return Ok(());
        };
        let values: Vec<u8> = (0..from.places.len()).map(number).collect();
        from.set(&values);
        let mut expected = to.packed();
        let len = values.len().min(expected.len());
        expected[..len].copy_from_slice(&values[..len]);
        let (ours, theirs) = (from.memory(), to.memory());
        // SAFETY: both hold the elements that they describe; of this process, where the kernel does it.
        unsafe {
            match by_kernel && !cfg!(miri) {
                false => copy(&ours, &theirs),
                true => write_attached(std::process::id(), &theirs, &ours).unwrap(),
            }
        }
        prop_assert_eq!(to.packed(), &expected[..]);
        prop_assert!(to.is_clean(0xee));
        if by_kernel && !cfg!(miri) {
            to.set(&vec![0xee; expected.len()]);
            let theirs = to.memory();
            // SAFETY: as above.
            unsafe { read_attached(std::process::id(), &ours, &theirs).unwrap() };
            prop_assert_eq!(to.packed(), expected);
            prop_assert!(to.is_clean(0xee));
        }
    }

    #[test]
    fn groups_are_scattered_and_gathered((datatype, _, count) in layout()) {
        let Some(mut to) = Elements::new(&datatype, count, 0xee) else { return Ok(()) };
        let values: Vec<u8> = (0..to.places.len()).map(number).collect();
        let access = Access::new(&datatype, count, to.at as u64, Unit::BYTE).unwrap();
        let mut groups = Groups::new();
        access.piece(0, u64::MAX, usize::MAX, &mut groups);
        let base = to.words.as_mut_ptr().cast();
        // SAFETY: the groups lie within the words.
        unsafe { scatter(RawBytes::from(&values[..]), base, &groups) };
        prop_assert_eq!(to.packed(), &values[..]);
        prop_assert!(to.is_clean(0xee));
        let mut back = vec![0; values.len()];
        // SAFETY: as above.
        unsafe { gather(RawRoom::from(&mut back[..]), base, &groups) };
        prop_assert_eq!(back, values);
    }

    /// Sums and locations in any layout, with origins and results of another one, against the operation on packed elements one after the other.
    #[test]
    fn accumulates_of_any_layouts(
        (datatype, component, count) in layout(),
        spread in 0..3i64,
        (fetches, alone, by_groups) in any::<(bool, bool, bool)>(),
        name in prop::sample::select(&["MPI_SUM", "MPI_MAXLOC", "MPI_REPLACE", "MPI_NO_OP"][..]),
    ) {
        let op = op(name);
        let Some(mut target) = Elements::new(&datatype, count, 0xee) else { return Ok(()) };
        if op.check_accumulate(component).is_err() {
            return Ok(());
        }
        let (size, number_of) = (component.size() as usize, target.places.len() as u64 / component.size());
        let wide = Datatype::resized(component, 0, component.extent() * (1 + spread)).unwrap();
        let mut origin = Elements::new(&wide, number_of, 1).expect("apart");
        let mut result = Elements::new(&wide, number_of, 0xdd).expect("apart");
        // Numbers whose exponents are as usual.
        let value = |seed: usize| move |index: usize| match index % 8 {
            7 => 0x40 ^ (number(index + seed) & 0x80),
            _ => number(index * (3 + seed)),
        };
        let (there, given): (Vec<u8>, Vec<u8>) = (0..target.places.len()).map(|index| (value(1)(index), value(2)(index))).unzip();
        target.set(&there);
        origin.set(&given);
        let mut expected = there.clone();
        for (old, new) in expected.chunks_mut(size).zip(given.chunks(size)) {
            let (mut element, mut operand) = (Elements::new(component, 1, 0).unwrap(), Elements::new(component, 1, 0).unwrap());
            element.set(old);
            operand.set(new);
            if !op.is_no_op() {
                // SAFETY: one element each.
                unsafe { op.apply(element.address(), operand.address(), 1, component) };
                old.copy_from_slice(&match op.is_accumulate_only() {
                    true => new.to_vec(),
                    false => operand.packed(),
                });
            }
        }
        let combine = Combine {
            op,
            component,
            sharing: if alone { Sharing::Alone } else { Sharing::Shared(&Nobody) },
        };
        if by_groups {
            let access = Access::new(&datatype, count, target.at as u64, Unit::element(component)).unwrap();
            let mut groups = Groups::new();
            access.piece(0, u64::MAX, usize::MAX, &mut groups);
            let mut before = vec![0; there.len()];
            let room = fetches.then_some(before.as_mut_ptr());
            // SAFETY: the groups lie within the words; there is an operand for each element.
            unsafe { accumulate_groups(combine, target.words.as_mut_ptr().cast(), &groups, given.as_ptr(), room) };
            result.set(&before);
        } else {
            let (from, into) = (origin.memory(), result.memory());
            // SAFETY: all hold the elements that they describe.
            unsafe { accumulate(combine, &from, fetches.then_some(&into), target.address(), count, &datatype) };
        }
        prop_assert_eq!(target.packed(), expected);
        prop_assert!(target.is_clean(0xee));
        if fetches {
            prop_assert_eq!(result.packed(), there);
        }
        prop_assert!(result.is_clean(0xdd));
    }
}

/// Columns of one matrix, which lie between each other.
#[test]
fn origin_and_target_may_interleave() {
    let column = Datatype::vector(3000, 1, 2, named("MPI_INT")).unwrap();
    let mut matrix: Vec<i32> = (0..6000).collect();
    let address = matrix.as_mut_ptr().cast::<u8>();
    let (first, second) = (
        Memory::new(address, 1, &column),
        Memory::new(address.wrapping_add(4), 1, &column),
    );
    // SAFETY: both lie within the matrix.
    unsafe { copy(&first, &second) };
    assert!(
        matrix
            .chunks(2)
            .enumerate()
            .all(|(row, pair)| pair == [2 * row as i32; 2])
    );
    // Here they overlap, so any result will do.
    let shifted = Memory::new(
        address.wrapping_add(8),
        1,
        &Datatype::vector(2000, 1, 2, named("MPI_INT")).unwrap(),
    );
    // SAFETY: as above.
    unsafe {
        copy(&first, &shifted);
        copy(
            &Memory::run(address, 20_000),
            &Memory::run(address.wrapping_add(1), 20_000),
        );
        copy(&Memory::run(address, 20_000), &first);
    }
}

/// Above what is packed at a time.
#[test]
fn long_runs_are_copied_one_by_one() {
    let rows = Datatype::vector(7, 5000, 6000, named("MPI_BYTE")).unwrap();
    let cells = Datatype::vector(35_000 / 4, 2, 3, named("MPI_SHORT")).unwrap();
    for (one, other) in [(&rows, &cells), (&cells, &rows), (&rows, &rows)] {
        let (mut from, mut to) = (
            Elements::new(one, 1, 0).unwrap(),
            Elements::new(other, 1, 0xee).unwrap(),
        );
        let values: Vec<u8> = (0..35_000).map(number).collect();
        from.set(&values);
        let (ours, theirs) = (from.memory(), to.memory());
        // SAFETY: both hold the elements that they describe.
        unsafe { copy(&ours, &theirs) };
        assert!(to.packed() == values && to.is_clean(0xee));
    }
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    let mut word = [0u8; 8];
    let nowhere = Memory::Contiguous(cma::remote(8, 8));
    let column = Datatype::vector(2, 1, 2, named("MPI_INT")).unwrap();
    let holes = Memory::new(cma::remote(8, 8).address, 1, &column);
    let own = Memory::of_mut(&mut word);
    if cfg!(miri) {
        return;
    }
    for there in [&nowhere, &holes] {
        // SAFETY: of this process, and 8 bytes.
        unsafe {
            read_attached(std::process::id(), there, &own).unwrap_err();
            write_attached(std::process::id(), there, &own).unwrap_err();
        }
    }
}
