//! Datatypes against a naive model: random type trees up to six constructors deep (`model`), and types of huge counts
//! (`huge`).
//!
//! `PROPTEST_CASES` says how many of each; `ci/soak.d/datatypes` runs a hundred thousand, optimized.

mod huge;
mod model;

use std::cell::Cell;

use model::{DEPTH_MAX, Map, trees};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use weft::data::datatype::{Category, Datatype, Representation};

/// How many cases of each test: as many as a second or two allows, unless `PROPTEST_CASES` sets another number.
fn cases() -> u32 {
    let set = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    set.unwrap_or(1000)
}

fn runner() -> TestRunner {
    TestRunner::new(Config {
        failure_persistence: None,
        // Trees whose type maps get too long: such a case does not count.
        max_global_rejects: u32::MAX,
        ..Config::with_cases(cases())
    })
}

/// Memory that holds the bytes of some elements wherever they are, and where in it the buffer's address is.
struct Memory {
    bytes: Vec<u8>,
    origin: i64,
}

impl Memory {
    fn new(places: &[i64], fill: u8) -> Memory {
        let (low, high) = (
            places.iter().min().copied().unwrap_or(0),
            places.iter().max().copied().unwrap_or(0),
        );
        Memory {
            bytes: vec![fill; (high - low + 1) as usize],
            origin: -low,
        }
    }

    fn at(&mut self, place: i64) -> &mut u8 {
        &mut self.bytes[(place + self.origin) as usize]
    }

    /// The buffer's address, which may lie outside the memory.
    fn address(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().wrapping_offset(self.origin as isize)
    }

    /// How often each byte is among `places`, up to twice.
    fn times(&self, places: &[i64]) -> Vec<u8> {
        let mut times = vec![0u8; self.bytes.len()];
        for place in places {
            let times = &mut times[(place + self.origin) as usize];
            *times = (*times + 1).min(2);
        }
        times
    }
}

fn check_bounds(datatype: &Datatype, map: &Map) -> Result<(), TestCaseError> {
    prop_assert_eq!(datatype.size(), map.size());
    prop_assert_eq!(datatype.lb(), map.lb());
    prop_assert_eq!(datatype.ub(), map.ub());
    prop_assert_eq!(datatype.extent(), map.extent());
    prop_assert_eq!(datatype.true_lb(), map.true_lb());
    prop_assert_eq!(datatype.true_extent(), map.true_ub() - map.true_lb());
    Ok(())
}

/// Packs in pieces that end where `cuts` say, unpacks in the same pieces, and compares each byte.
fn check_copies(
    datatype: &Datatype,
    places: &[i64],
    count: u64,
    cuts: &[usize],
) -> Result<(), TestCaseError> {
    let mut memory = Memory::new(places, 0);
    for (index, &place) in places.iter().enumerate() {
        *memory.at(place) = (index * 7 + index / 251) as u8;
    }
    let expected: Vec<u8> = places.iter().map(|&place| *memory.at(place)).collect();
    let mut target = Memory::new(places, 0xee);
    let mut expected_target = target.bytes.clone();
    for (&place, &byte) in places.iter().zip(&expected) {
        expected_target[(place + target.origin) as usize] = byte;
    }

    let mut offset = 0;
    for &cut in cuts.iter().cycle() {
        // What is behind the packed bytes stays.
        let mut piece = vec![0xdd; cut + 8];
        // SAFETY: the memory holds every byte of the elements.
        let packed = unsafe { datatype.pack(memory.address(), count, offset as u64, &mut piece[..cut]) };
        prop_assert_eq!(packed, cut.min(expected.len() - offset));
        prop_assert_eq!(&piece[..packed], &expected[offset..offset + packed]);
        prop_assert!(
            piece[packed..].iter().all(|&byte| byte == 0xdd),
            "behind {} bytes",
            packed
        );
        // SAFETY: as above.
        let unpacked = unsafe { datatype.unpack(target.address(), count, offset as u64, &piece[..cut]) };
        prop_assert_eq!(unpacked, packed);
        offset += packed;
        if offset == expected.len() {
            break;
        }
    }
    // What two entries of one place receive is undefined (section 5.1.11): unpacked in no particular order.
    let times = target.times(places);
    let mut bytes = times.iter().zip(&target.bytes).zip(&expected_target);
    let wrong = bytes.position(|((&entries, got), wanted)| entries < 2 && got != wanted);
    prop_assert_eq!(wrong, None, "byte of memory");
    Ok(())
}

/// The runs of an iovec hold the packed bytes in order, and stop where they should.
fn check_segments(
    datatype: &Datatype,
    places: &[i64],
    count: u64,
    offset: usize,
    bytes: usize,
) -> Result<(), TestCaseError> {
    let range = offset.min(places.len())..(offset + bytes).min(places.len());
    let expected: Vec<usize> = places[range]
        .iter()
        .map(|&place| ((1 << 40) + place) as usize)
        .collect();
    for limit in [1, 3, usize::MAX] {
        let runs = datatype.segments(1 << 40, count, offset as u64, bytes, limit);
        prop_assert!(runs.len() <= limit);
        let listed: Vec<usize> = runs.iter().flat_map(|&(at, len)| at..at + len).collect();
        prop_assert_eq!(&listed[..], &expected[..listed.len()]);
        prop_assert!(listed.len() == expected.len() || runs.len() == limit);
    }
    Ok(())
}

fn check_counting(datatype: &Datatype, map: &Map) -> Result<(), TestCaseError> {
    let size = map.size();
    prop_assert_eq!(datatype.count_of(0), Some(0));
    prop_assert_eq!(datatype.elements_of(0), Some(0));
    prop_assert_eq!(datatype.bytes_of_elements(0), Some(0));
    if size == 0 {
        prop_assert_eq!(datatype.count_of(1), None);
        prop_assert_eq!(datatype.elements_of(1), None);
        prop_assert_eq!(datatype.bytes_of_elements(1), None);
        return Ok(());
    }
    // The number of basic elements that end at each packed byte of two elements, if one does.
    let mut ends = vec![None; 2 * size as usize + 1];
    let mut end = 0;
    ends[0] = Some(0);
    for (elements, (_, basic)) in map.entries.iter().chain(&map.entries).enumerate() {
        end += basic.size() as usize;
        ends[end] = Some(elements as u64 + 1);
    }
    for (bytes, elements) in ends.into_iter().enumerate() {
        let bytes = bytes as u64;
        prop_assert_eq!(datatype.elements_of(bytes), elements, "of {} bytes", bytes);
        if let Some(elements) = elements {
            prop_assert_eq!(datatype.bytes_of_elements(elements), Some(bytes));
        }
        prop_assert_eq!(
            datatype.count_of(bytes),
            bytes.is_multiple_of(size).then_some(bytes / size)
        );
    }
    Ok(())
}

/// The signature says which basic elements the packed bytes are: in `external32` each is as long as its kind is there,
/// and has its bytes the other way round.
fn check_signature(datatype: &Datatype, map: &Map, count: u64) -> Result<(), TestCaseError> {
    let places = map.bytes(count);
    let mut memory = Memory::new(&places, 0);
    if memory.times(&places).contains(&2) {
        return Ok(());
    }
    let (mut expected, mut next) = (Vec::new(), 0);
    for (index, (_, basic)) in (0..count).flat_map(|_| &map.entries).enumerate() {
        let (native, external) = (basic.size() as usize, usize::from(basic.external_size));
        let parts = if basic.category == Category::Complex { 2 } else { 1 };
        // A small number, so that it fits where the external form is shorter. Nothing where the format differs.
        let value = match (basic.representation, basic.category) {
            (Representation::LongDouble | Representation::ComplexLongDouble, _) => 0,
            (_, Category::Logical) => 1,
            _ => 1 + (index % 100) as u8,
        };
        for part in 0..parts {
            *memory.at(places[next + part * native / parts]) = value;
            expected.extend(std::iter::repeat_n(0, external / parts - 1));
            expected.push(value);
        }
        next += native;
    }
    prop_assert_eq!(datatype.external_size(count), Ok(expected.len() as u64));
    let mut external = vec![0xdd; expected.len()];
    // SAFETY: the memory holds every byte of the elements.
    let packed = unsafe { datatype.pack_external(memory.address(), count, &mut external) };
    prop_assert_eq!(packed, Ok(expected.len()));
    prop_assert_eq!(&external, &expected);
    let mut back = Memory::new(&places, 0);
    // SAFETY: as above.
    let unpacked = unsafe { datatype.unpack_external(back.address(), count, &external) };
    prop_assert_eq!(unpacked, Ok(expected.len()));
    prop_assert_eq!(&back.bytes, &memory.bytes);
    let first = map.entries.first().map(|entry| entry.1);
    let uniform = first.filter(|first| map.entries.iter().all(|entry| entry.1 == *first));
    prop_assert_eq!(datatype.uniform(), uniform);
    Ok(())
}

fn check_runs(datatype: &Datatype, map: &Map) -> Result<(), TestCaseError> {
    for count in 0..4 {
        let places = map.bytes(count);
        if let Some((offset, length)) = datatype.run(count) {
            prop_assert!((offset..offset + length as i64).eq(places));
        } else {
            // One element that is a run, in whatever way it was made, is known as one.
            let is_run = places.windows(2).all(|pair| pair[1] == pair[0] + 1);
            prop_assert!(count > 1 || !is_run, "{} elements are a run", count);
        }
    }
    Ok(())
}

/// What the cases of a run were like, so that a generator that makes only dull ones is found out.
#[derive(Default)]
struct Tally {
    deep: Cell<u32>,
    scattered: Cell<u32>,
    overlapping: Cell<u32>,
    before_the_address: Cell<u32>,
    empty: Cell<u32>,
    many: Cell<u32>,
}

#[test]
fn random_trees_match_the_model() {
    let tally = Tally::default();
    let strategy = (
        trees(DEPTH_MAX),
        // More than the records that are copied together.
        prop_oneof![6 => 0..4u64, 1 => 60..200u64],
        prop::collection::vec(1..200usize, 1..6),
        (0..200usize, 0..200usize),
    );
    let run = runner().run(&strategy, |(tree, count, cuts, (offset, bytes))| {
        let Some((datatype, map)) = tree.build() else {
            return Err(TestCaseError::reject("too long"));
        };
        let count = if map.size() * count > 1 << 14 {
            count.min(3)
        } else {
            count
        };
        let reach = map.extent().unsigned_abs() * count;
        let count = if reach > 1 << 20 { 1 } else { count };
        let places = map.bytes(count);
        check_bounds(&datatype, &map)?;
        check_copies(&datatype, &places, count, &cuts)?;
        check_copies(&datatype, &places, count, &[(map.size() * count) as usize + 1])?;
        check_segments(&datatype, &places, count, offset, bytes)?;
        check_counting(&datatype, &map)?;
        check_runs(&datatype, &map)?;
        check_signature(&datatype, &map, count.min(3))?;

        let one = map.bytes(1);
        let add = |cell: &Cell<u32>, is: bool| cell.set(cell.get() + u32::from(is));
        add(&tally.deep, tree.depth() >= 5 && !one.is_empty());
        add(
            &tally.scattered,
            one.windows(2).filter(|pair| pair[1] != pair[0] + 1).count() > 8,
        );
        add(&tally.overlapping, Memory::new(&one, 0).times(&one).contains(&2));
        add(&tally.before_the_address, map.lb() < 0);
        add(&tally.empty, one.is_empty());
        add(&tally.many, count >= 60 && !one.is_empty());
        Ok(())
    });
    if let Err(failure) = run {
        panic!("{failure}");
    }
    let all = cases();
    for (what, cell, least, most) in [
        ("five deep or more", &tally.deep, 8, 100),
        ("scattered", &tally.scattered, 10, 100),
        ("overlapping", &tally.overlapping, 5, 90),
        ("before the address", &tally.before_the_address, 15, 85),
        ("empty", &tally.empty, 1, 50),
        ("many elements", &tally.many, 2, 40),
    ] {
        let share = cell.get() * 100 / all;
        println!("{share} % {what}");
        assert!(
            all < 500 || (least..=most).contains(&share),
            "{share} % of {all} cases are {what}: expected {least} to {most} %"
        );
    }
}
