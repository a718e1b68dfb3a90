//! Types of up to 2⁶³ bytes: loops of loops, whose bytes are where a few sums and products say, and constructors that
//! refuse exactly what 64 bits do not hold.

use std::sync::Arc;

use proptest::prelude::*;
use weft::Result;
use weft::data::datatype::{Datatype, Order};

use crate::model::{Map, trees};
use crate::runner;

/// A constructor of a loop or two around a type.
#[derive(Clone, Debug)]
enum Loop {
    Contiguous(i64),
    Vector(i64, i64, i64),
    Hvector(i64, i64, i64),
    /// Blocks of one length, so many bytes apart.
    HindexedBlock(i64, i64, i64),
    /// Size, subsize, start of the outer and the inner dimension.
    Subarray([i64; 3], [i64; 3]),
}

/// What is known of a type without its list of entries: all numbers are exact.
struct Known {
    /// Count and stride in bytes of each loop, the outermost first.
    loops: Vec<(i128, i128)>,
    offset: i128,
    size: i128,
    bounds: (i128, i128),
    reach: (i128, i128),
    marked: bool,
    align: i128,
}

impl Known {
    fn of(map: &Map) -> Known {
        let aligns = map.entries.iter().map(|entry| entry.1.representation.align());
        Known {
            loops: Vec::new(),
            offset: 0,
            size: map.size().into(),
            bounds: (map.lb().into(), map.ub().into()),
            reach: (map.true_lb().into(), map.true_ub().into()),
            marked: !map.lower.is_empty(),
            align: aligns.max().unwrap_or(1).into(),
        }
    }

    fn extent(&self) -> i128 {
        self.bounds.1 - self.bounds.0
    }

    fn around(&mut self, count: i64, stride: i128) {
        let count = i128::from(count);
        self.loops.insert(0, (count, stride));
        self.size = self.size.saturating_mul(count);
        let far = (count - 1) * stride;
        self.reach = (self.reach.0 + far.min(0), self.reach.1 + far.max(0));
        self.bounds = (self.bounds.0 + far.min(0), self.bounds.1 + far.max(0));
    }

    /// Of unmarked types the bounds are those of the entries, padded.
    fn settle(&mut self) {
        if !self.marked {
            let extent = self.reach.1 - self.reach.0;
            let padded = (extent + self.align - 1) / self.align * self.align;
            self.bounds = (self.reach.0, self.reach.0 + padded);
        }
    }

    fn fits(&self) -> bool {
        let numbers = [
            self.size,
            self.bounds.0,
            self.bounds.1,
            self.extent(),
            self.reach.0,
            self.reach.1,
            self.reach.1 - self.reach.0,
        ];
        numbers.iter().all(|&number| i64::try_from(number).is_ok())
    }

    /// Where the packed byte is.
    fn place(&self, byte: u64, base: &[i64]) -> i128 {
        let mut rest = i128::from(byte);
        let (mut size, mut at) = (self.size, self.offset);
        for &(count, stride) in &self.loops {
            size /= count;
            at += rest / size * stride;
            rest %= size;
        }
        at + i128::from(base[rest as usize])
    }
}

impl Loop {
    /// The new type, and what is to be known of it; `None` where a number of the way there does not fit.
    fn build(&self, old: &Arc<Datatype>, known: &mut Known) -> (Result<Arc<Datatype>>, bool) {
        let extent = known.extent();
        let fits = |number: i128| i64::try_from(number).is_ok();
        let mut also = true;
        let made = match *self {
            Loop::Contiguous(count) => {
                known.around(count, extent);
                Datatype::contiguous(count, old)
            }
            Loop::Vector(count, length, stride) => {
                let bytes = i128::from(stride) * extent;
                also = fits(bytes);
                known.around(length, extent);
                known.around(count, if also { bytes } else { 0 });
                Datatype::vector(count, length, stride, old)
            }
            Loop::Hvector(count, length, stride) => {
                known.around(length, extent);
                known.around(count, stride.into());
                Datatype::hvector(count, length, stride, old)
            }
            Loop::HindexedBlock(count, length, stride) => {
                let places: Vec<i64> = (0..count).map(|index| index * stride).collect();
                known.around(length, extent);
                known.around(count, stride.into());
                Datatype::hindexed_block(length, &places, old)
            }
            Loop::Subarray(outer, inner) => {
                let whole = i128::from(outer[0]) * i128::from(inner[0]);
                also = fits(whole) && fits(whole * extent);
                known.around(inner[1], extent);
                known.around(outer[1], i128::from(inner[0]) * extent);
                let first = (i128::from(outer[2]) * i128::from(inner[0]) + i128::from(inner[2])) * extent;
                known.offset += first;
                known.reach = (known.reach.0 + first, known.reach.1 + first);
                known.marked = true;
                known.bounds = (0, whole * extent);
                Datatype::subarray(
                    &[outer[0], inner[0]],
                    &[outer[1], inner[1]],
                    &[outer[2], inner[2]],
                    Order::C,
                    old,
                )
            }
        };
        known.settle();
        (made, also)
    }
}

/// A number of any magnitude.
fn magnitude(bits: u32) -> impl Strategy<Value = i64> + Clone {
    (0..bits, any::<u64>()).prop_map(|(bits, number)| 1 + (number & ((1 << bits) - 1)) as i64)
}

fn loops() -> impl Strategy<Value = Loop> {
    let count = || prop_oneof![3 => magnitude(8), 3 => magnitude(24), 1 => magnitude(62)];
    let stride = || {
        let sign = prop_oneof![Just(1), Just(-1), Just(0)];
        (sign, magnitude(40)).prop_map(|(sign, stride)| sign * stride)
    };
    let dimension = || (magnitude(16), magnitude(16), magnitude(16)).prop_map(|(a, b, c)| [a + b + c, b, c]);
    prop_oneof![
        count().prop_map(Loop::Contiguous),
        (count(), magnitude(20), stride()).prop_map(|(a, b, c)| Loop::Vector(a, b, c)),
        (count(), magnitude(20), stride()).prop_map(|(a, b, c)| Loop::Hvector(a, b, c)),
        (1..20i64, count(), stride()).prop_map(|(a, b, c)| Loop::HindexedBlock(a, b, c)),
        (dimension(), dimension()).prop_map(|(a, b)| Loop::Subarray(a, b)),
    ]
}

#[test]
fn huge_counts_match_the_model() {
    let strategy = (
        trees(2),
        prop::collection::vec(loops(), 1..4),
        1..1u64 << 10,
        any::<prop::sample::Index>(),
    );
    let (built, refused) = (std::cell::Cell::new(0u32), std::cell::Cell::new(0u32));
    let run = runner().run(&strategy, |(tree, loops, count, byte)| {
        let Some((base, map)) = tree.build() else {
            return Err(TestCaseError::reject("too long"));
        };
        if map.size() == 0 {
            return Err(TestCaseError::reject("empty"));
        }
        let base_places = map.bytes(1);
        let (mut datatype, mut known) = (base.clone(), Known::of(&map));
        for step in &loops {
            let (made, fits) = step.build(&datatype, &mut known);
            prop_assert_eq!(made.is_ok(), fits && known.fits(), "{:?}", step);
            match made {
                Ok(made) => datatype = made,
                Err(error) => {
                    prop_assert_eq!(error.class, weft::Class::ValueTooLarge);
                    refused.set(refused.get() + 1);
                    return Ok(());
                }
            }
        }
        built.set(built.get() + 1);
        let size = datatype.size();
        prop_assert_eq!(i128::from(size), known.size);
        let bounds = (i128::from(datatype.lb()), i128::from(datatype.ub()));
        prop_assert_eq!(bounds, known.bounds);
        let true_lb = i128::from(datatype.true_lb());
        prop_assert_eq!(
            (true_lb, true_lb + i128::from(datatype.true_extent())),
            known.reach
        );
        // Where 100 bytes come from that start anywhere in `count` elements.
        let count = count.min(u64::MAX / size);
        let start = match usize::try_from(size * count) {
            Ok(all) => byte.index(all) as u64,
            Err(_) => 0,
        };
        let end = (start + 100).min(size * count);
        let expected: Vec<usize> = (start..end)
            .map(|byte| {
                let element = i128::from(byte / size) * known.extent();
                (element + known.place(byte % size, &base_places)) as usize
            })
            .collect();
        let runs = datatype.segments(0, count, start, 100, usize::MAX);
        let bytes = runs
            .iter()
            .flat_map(|&(at, len)| (0..len).map(move |byte| at.wrapping_add(byte)));
        prop_assert_eq!(bytes.collect::<Vec<_>>(), expected);
        // Elements up to a byte: those of whole copies of the base, and those of the rest.
        let elements = map.entries.len() as u64;
        let rest = base.elements_of(start % map.size());
        let wanted = rest.map(|rest| start / map.size() * elements + rest);
        prop_assert_eq!(datatype.elements_of(start), wanted);
        Ok(())
    });
    if let Err(failure) = run {
        panic!("{failure}");
    }
    let (built, refused) = (built.get(), refused.get());
    assert!(
        built >= refused / 2 && refused >= built / 20,
        "{built} built, {refused} refused"
    );
}
