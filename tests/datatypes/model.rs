//! The naive type-map interpreter: a type map is the list of its entries, and every constructor is its definition in
//! chapter 5 of the standard, spelled out. Nothing is shared with the code under test but the predefined types.

use proptest::prelude::*;
use std::sync::Arc;
use weft::data::datatype::{Basic, Datatype, Element, Order};

/// Type maps of more entries, or that reach over more bytes, are not worth a test's time.
pub(super) const ENTRIES_MAX: usize = 1000;
const REACH_MAX: i64 = 1 << 18;

/// The deepest tree: constructors around a predefined type.
pub(super) const DEPTH_MAX: u32 = 6;

/// A type map: basic elements at displacements, and markers.
#[derive(Clone, Debug, Default)]
pub(super) struct Map {
    pub(super) entries: Vec<(i64, Basic)>,
    pub(super) lower: Vec<i64>,
    pub(super) upper: Vec<i64>,
}

impl Map {
    pub(super) fn of(datatype: &Datatype) -> Map {
        let entries = match datatype.element() {
            Some(Element::Basic(basic)) => vec![(0, basic)],
            Some(Element::Pair(value, index, at)) => vec![(0, value), (at as i64, index)],
            None => panic!("{} is not predefined", datatype.describe()),
        };
        Map {
            entries,
            ..Map::default()
        }
    }

    fn append(&mut self, other: &Map, by: i64) {
        self.entries
            .extend(other.entries.iter().map(|entry| (entry.0 + by, entry.1)));
        self.lower.extend(other.lower.iter().map(|marker| marker + by));
        self.upper.extend(other.upper.iter().map(|marker| marker + by));
    }

    pub(super) fn size(&self) -> u64 {
        self.entries.iter().map(|entry| entry.1.size()).sum()
    }

    pub(super) fn true_lb(&self) -> i64 {
        self.entries.iter().map(|entry| entry.0).min().unwrap_or(0)
    }

    pub(super) fn true_ub(&self) -> i64 {
        self.entries
            .iter()
            .map(|entry| entry.0 + entry.1.size() as i64)
            .max()
            .unwrap_or(0)
    }

    pub(super) fn lb(&self) -> i64 {
        self.lower.iter().copied().min().unwrap_or(self.true_lb())
    }

    pub(super) fn ub(&self) -> i64 {
        if let Some(&marker) = self.upper.iter().max() {
            return marker;
        }
        let align = self
            .entries
            .iter()
            .map(|entry| entry.1.representation.align())
            .max()
            .unwrap_or(1);
        let mut ub = self.true_ub();
        while (ub - self.true_lb()) % align as i64 != 0 {
            ub += 1;
        }
        ub
    }

    pub(super) fn extent(&self) -> i64 {
        self.ub() - self.lb()
    }

    /// Where each packed byte of `count` elements comes from.
    pub(super) fn bytes(&self, count: u64) -> Vec<i64> {
        let extent = self.extent();
        let mut bytes = Vec::with_capacity((self.size() * count) as usize);
        for element in 0..count as i64 {
            for &(at, basic) in &self.entries {
                bytes.extend((0..basic.size() as i64).map(|byte| element * extent + at + byte));
            }
        }
        bytes
    }
}

/// A call of a constructor.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    Predefined(usize),
    Contiguous(i64, Box<Tree>),
    Vector(i64, i64, i64, Box<Tree>),
    Hvector(i64, i64, i64, Box<Tree>),
    Indexed(Vec<(i64, i64)>, Box<Tree>),
    Hindexed(Vec<(i64, i64)>, Box<Tree>),
    IndexedBlock(i64, Vec<i64>, Box<Tree>),
    HindexedBlock(i64, Vec<i64>, Box<Tree>),
    Struct(Vec<(i64, i64, Tree)>),
    Resized(i64, i64, Box<Tree>),
    Dup(Box<Tree>),
    /// Size, subsize, start of each dimension.
    Subarray(Vec<(i64, i64, i64)>, Order, Box<Tree>),
    /// Global size, distribution, argument, processes of each dimension; rank.
    Darray(Vec<(i64, i32, i32, i32)>, i32, Order, Box<Tree>),
}

impl Tree {
    /// The datatype, by the code under test, and the type map, by the definition. `None` where the map gets too long.
    pub(super) fn build(&self) -> Option<(Arc<Datatype>, Map)> {
        let mut map = Map::default();
        let datatype = match self {
            Tree::Predefined(handle) => {
                let datatype = Datatype::predefined(*handle)
                    .expect("a handle of the table")
                    .clone();
                map = Map::of(&datatype);
                Ok(datatype)
            }
            Tree::Contiguous(count, old) => {
                let (old, of) = old.build()?;
                (0..*count).for_each(|index| map.append(&of, index * of.extent()));
                Datatype::contiguous(*count, &old)
            }
            Tree::Vector(count, length, stride, old) => {
                let (old, of) = old.build()?;
                for block in 0..*count {
                    (0..*length).for_each(|index| map.append(&of, (block * stride + index) * of.extent()));
                }
                Datatype::vector(*count, *length, *stride, &old)
            }
            Tree::Hvector(count, length, stride, old) => {
                let (old, of) = old.build()?;
                for block in 0..*count {
                    (0..*length).for_each(|index| map.append(&of, block * stride + index * of.extent()));
                }
                Datatype::hvector(*count, *length, *stride, &old)
            }
            Tree::Indexed(blocks, old) => {
                let (old, of) = old.build()?;
                for (length, at) in blocks {
                    (0..*length).for_each(|index| map.append(&of, (at + index) * of.extent()));
                }
                let (lengths, places): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
                Datatype::indexed(&lengths, &places, &old)
            }
            Tree::Hindexed(blocks, old) => {
                let (old, of) = old.build()?;
                for (length, at) in blocks {
                    (0..*length).for_each(|index| map.append(&of, at + index * of.extent()));
                }
                let (lengths, places): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
                Datatype::hindexed(&lengths, &places, &old)
            }
            Tree::IndexedBlock(length, places, old) => {
                let (old, of) = old.build()?;
                for at in places {
                    (0..*length).for_each(|index| map.append(&of, (at + index) * of.extent()));
                }
                Datatype::indexed_block(*length, places, &old)
            }
            Tree::HindexedBlock(length, places, old) => {
                let (old, of) = old.build()?;
                for at in places {
                    (0..*length).for_each(|index| map.append(&of, at + index * of.extent()));
                }
                Datatype::hindexed_block(*length, places, &old)
            }
            Tree::Struct(parts) => {
                let (mut lengths, mut places, mut datatypes) = (Vec::new(), Vec::new(), Vec::new());
                for (length, at, old) in parts {
                    let (old, of) = old.build()?;
                    (0..*length).for_each(|index| map.append(&of, at + index * of.extent()));
                    lengths.push(*length);
                    places.push(*at);
                    datatypes.push(old);
                }
                Datatype::struct_(&lengths, &places, &datatypes)
            }
            Tree::Resized(lb, extent, old) => {
                let (old, of) = old.build()?;
                map.entries = of.entries;
                map.lower = vec![*lb];
                map.upper = vec![lb + extent];
                Datatype::resized(&old, *lb, *extent)
            }
            Tree::Dup(old) => {
                let (old, of) = old.build()?;
                map = of;
                Ok(Datatype::dup(&old))
            }
            Tree::Subarray(dimensions, order, old) => {
                let (old, of) = old.build()?;
                let sizes: Vec<_> = dimensions.iter().map(|dimension| dimension.0).collect();
                each_index(&sizes, *order, |indices, linear| {
                    let within = indices
                        .iter()
                        .zip(dimensions)
                        .all(|(index, (_, subsize, start))| (*start..start + subsize).contains(index));
                    if within {
                        map.append(&of, linear * of.extent());
                    }
                });
                map.lower = vec![0];
                map.upper = vec![sizes.iter().product::<i64>() * of.extent()];
                let subsizes: Vec<_> = dimensions.iter().map(|dimension| dimension.1).collect();
                let starts: Vec<_> = dimensions.iter().map(|dimension| dimension.2).collect();
                Datatype::subarray(&sizes, &subsizes, &starts, *order, &old)
            }
            Tree::Darray(dimensions, rank, order, old) => {
                let (old, of) = old.build()?;
                let sizes: Vec<_> = dimensions.iter().map(|dimension| dimension.0).collect();
                let psizes: Vec<_> = dimensions.iter().map(|dimension| dimension.3).collect();
                let mut coordinates = vec![0; psizes.len()];
                let mut rest = *rank;
                for index in (0..psizes.len()).rev() {
                    coordinates[index] = i64::from(rest % psizes[index]);
                    rest /= psizes[index];
                }
                each_index(&sizes, *order, |indices, linear| {
                    let mine = (0..sizes.len()).all(|at| {
                        let (size, distribution, argument, processes) = dimensions[at];
                        let processes = i64::from(processes);
                        let block = match (distribution, argument) {
                            (16, _) => size,
                            (17, 19) => (size + processes - 1) / processes,
                            (18, 19) => 1,
                            (_, argument) => i64::from(argument),
                        };
                        indices[at] / block % processes == coordinates[at]
                    });
                    if mine {
                        map.append(&of, linear * of.extent());
                    }
                });
                map.lower = vec![0];
                map.upper = vec![sizes.iter().product::<i64>() * of.extent()];
                let distribs: Vec<_> = dimensions.iter().map(|dimension| dimension.1).collect();
                let dargs: Vec<_> = dimensions.iter().map(|dimension| dimension.2).collect();
                Datatype::darray(
                    psizes.iter().product(),
                    *rank,
                    &sizes,
                    &distribs,
                    &dargs,
                    &psizes,
                    *order,
                    &old,
                )
            }
        };
        // Markers of empty copies pile up without entries to count.
        let long = map.entries.len() > ENTRIES_MAX || map.lower.len() > ENTRIES_MAX;
        let ends = [map.lb(), map.ub(), map.true_lb(), map.true_ub()];
        if long || ends.iter().any(|end| end.abs() > REACH_MAX) {
            return None;
        }
        Some((datatype.expect("valid arguments"), map))
    }

    /// How many constructors are around the innermost type.
    pub(super) fn depth(&self) -> u32 {
        match self {
            Tree::Predefined(_) => 0,
            Tree::Struct(parts) => 1 + parts.iter().map(|part| part.2.depth()).max().unwrap_or(0),
            Tree::Contiguous(_, old)
            | Tree::Vector(_, _, _, old)
            | Tree::Hvector(_, _, _, old)
            | Tree::Indexed(_, old)
            | Tree::Hindexed(_, old)
            | Tree::IndexedBlock(_, _, old)
            | Tree::HindexedBlock(_, _, old)
            | Tree::Resized(_, _, old)
            | Tree::Dup(old)
            | Tree::Subarray(_, _, old)
            | Tree::Darray(_, _, _, old) => 1 + old.depth(),
        }
    }
}

/// Visits every index of an array in memory order, with its linear position.
fn each_index(sizes: &[i64], order: Order, mut visit: impl FnMut(&[i64], i64)) {
    for linear in 0..sizes.iter().product::<i64>() {
        let mut indices = vec![0; sizes.len()];
        let mut rest = linear;
        let fastest_first: Vec<usize> = match order {
            Order::C => (0..sizes.len()).rev().collect(),
            Order::Fortran => (0..sizes.len()).collect(),
        };
        for at in fastest_first {
            indices[at] = rest % sizes[at];
            rest /= sizes[at];
        }
        visit(&indices, linear);
    }
}

fn order() -> impl Strategy<Value = Order> + Clone {
    prop_oneof![Just(Order::C), Just(Order::Fortran)]
}

/// A count or block length. Small ones, so that six levels of them stay small; nothing now and then, and not more often, or
/// most deep trees would be empty; and some that are longer than a list that is unrolled.
fn number() -> impl Strategy<Value = i64> + Clone {
    prop_oneof![1 => Just(0), 16 => Just(1), 14 => Just(2), 6 => Just(3), 2 => 4..14i64]
}

fn darray(old: impl Strategy<Value = Tree> + Clone) -> impl Strategy<Value = Tree> {
    let dimension =
        (1..7i64, 0..5u8, 1..4i32, 1..4i32).prop_map(|(size, kind, argument, processes)| match kind {
            0 => (size, 16, 19, 1),
            1 => (size, 17, 19, processes),
            // Large enough to cover the array.
            2 => (size, 17, size as i32 + argument, processes),
            3 => (size, 18, 19, processes),
            _ => (size, 18, argument, processes),
        });
    (
        prop::collection::vec(dimension, 1..4),
        any::<prop::sample::Index>(),
        order(),
        old,
    )
        .prop_map(|(dimensions, rank, order, old)| {
            let processes: i32 = dimensions.iter().map(|dimension| dimension.3).product();
            let rank = rank.index(processes as usize) as i32;
            Tree::Darray(dimensions, rank, order, Box::new(old))
        })
}

/// A constructor around `inner`; in structures also `any`.
fn around(inner: BoxedStrategy<Tree>, any: BoxedStrategy<Tree>) -> BoxedStrategy<Tree> {
    let old = inner.clone().prop_map(Box::new);
    let list = |places: std::ops::Range<i64>| {
        prop_oneof![
            1 => prop::collection::vec((number(), places.clone()), 0..1),
            16 => prop::collection::vec((number(), places.clone()), 1..4),
            // Neither unrolled nor a record, nor a run in most cases.
            2 => prop::collection::vec((0..3i64, places), 9..30),
        ]
    };
    let places = |places: std::ops::Range<i64>| {
        prop_oneof![
            1 => prop::collection::vec(places.clone(), 0..1),
            16 => prop::collection::vec(places.clone(), 1..4),
            2 => prop::collection::vec(places, 9..30),
        ]
    };
    // Regular lists written out.
    let regular = (1..20i64, -6..7i64, -8..8i64)
        .prop_map(|(count, step, first)| (0..count).map(|index| first + index * step).collect::<Vec<_>>());
    let dimension = (1..4i64, 0..3i64, 0..3i64)
        .prop_map(|(subsize, start, more)| (start + subsize + more, subsize, start));
    let part = (number(), -40..80i64, any);
    prop_oneof![
        (number(), old.clone()).prop_map(|(count, old)| Tree::Contiguous(count, old)),
        (number(), number(), -5..6i64, old.clone())
            .prop_map(|(count, length, stride, old)| Tree::Vector(count, length, stride, old)),
        (number(), number(), -40..80i64, old.clone())
            .prop_map(|(count, length, stride, old)| Tree::Hvector(count, length, stride, old)),
        (list(-4..8), old.clone()).prop_map(|(blocks, old)| Tree::Indexed(blocks, old)),
        (list(-40..80), old.clone()).prop_map(|(blocks, old)| Tree::Hindexed(blocks, old)),
        (number(), prop_oneof![places(-4..8), regular.clone()], old.clone())
            .prop_map(|(length, places, old)| Tree::IndexedBlock(length, places, old)),
        (number(), prop_oneof![places(-40..80), regular], old.clone())
            .prop_map(|(length, places, old)| Tree::HindexedBlock(length, places, old)),
        (
            number(),
            -40..80i64,
            inner.clone(),
            prop::collection::vec(part, 0..3)
        )
            .prop_map(|(length, at, inner, mut parts)| {
                parts.insert(parts.len() / 2, (length, at, inner));
                Tree::Struct(parts)
            }),
        (-20..20i64, -20..80i64, old.clone()).prop_map(|(lb, extent, old)| Tree::Resized(lb, extent, old)),
        old.clone().prop_map(Tree::Dup),
        (prop::collection::vec(dimension, 1..4), order(), old)
            .prop_map(|(dimensions, order, old)| Tree::Subarray(dimensions, order, old)),
        darray(inner),
    ]
    .boxed()
}

/// Random trees, as many of each depth up to this one.
pub(super) fn trees(depth: u32) -> BoxedStrategy<Tree> {
    let handles: Vec<usize> = Datatype::all_predefined().map(|(handle, _)| handle).collect();
    let mut levels = vec![prop::sample::select(handles).prop_map(Tree::Predefined).boxed()];
    let mut any = levels[0].clone();
    for level in 1..=depth {
        levels.push(around(levels[level as usize - 1].clone(), any));
        any = prop::strategy::Union::new(levels.clone()).boxed();
    }
    any
}
