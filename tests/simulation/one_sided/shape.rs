//! Datatypes, and where their elements are by the definitions of the constructors (MPI 5.0 chapter 5).

use std::sync::Arc;

use fastrand::Rng;
use weft::data::datatype::Datatype;

use super::element::Elem;

/// Some elements of one predefined type, as `count` elements of a datatype.
#[derive(Clone, Debug)]
pub struct Shape {
    pub elem: Elem,
    pub datatype: Arc<Datatype>,
    pub count: u64,
    /// Where the elements are, in packed order, in units of the element's extent.
    pub places: Vec<usize>,
}

impl Shape {
    /// `len` elements one after the other.
    pub fn run(elem: Elem, len: usize) -> Shape {
        Shape {
            elem,
            datatype: elem.datatype().clone(),
            count: len as u64,
            places: (0..len).collect(),
        }
    }

    /// So many elements, somewhere.
    pub fn exactly(rng: &mut Rng, elem: Elem, len: usize) -> Shape {
        let more = rng.usize(..=len.min(2000));
        let shape = Shape::random(rng, elem, len + more, len);
        match shape.places.len() == len {
            true => shape,
            false => Shape::run(elem, len),
        }
    }

    /// Some elements within `room` places, at least one, none twice; about `wanted` where that is possible.
    pub fn random(rng: &mut Rng, elem: Elem, room: usize, wanted: usize) -> Shape {
        assert!(room > 0);
        let wanted = wanted.clamp(1, room);
        let base = elem.datatype();
        let made = match rng.u32(..10) {
            0..4 => None,
            4 => {
                let datatype = Datatype::contiguous(wanted as i64, base).expect("it is small");
                Some((datatype, 1, (0..wanted).collect()))
            }
            5 | 6 => vector(rng, elem, room, wanted),
            7 | 8 => Some(indexed(rng, elem, room, wanted)),
            _ => strided(rng, elem, room, wanted),
        };
        match made {
            None => Shape::run(elem, wanted),
            Some((datatype, count, places)) => Shape {
                elem,
                datatype,
                count,
                places,
            },
        }
    }

    /// The same elements of a datatype whose first element is so many bytes further on.
    pub fn shifted(&self, bytes: i64) -> Shape {
        if bytes == 0 {
            return self.clone();
        }
        let datatype =
            Datatype::hindexed(&[self.count as i64], &[bytes], &self.datatype).expect("it is small");
        Shape {
            datatype,
            count: 1,
            ..self.clone()
        }
    }

    /// So many places are reached.
    pub fn reach(&self) -> usize {
        self.places.iter().max().map_or(0, |last| last + 1)
    }

    /// Packed bytes.
    pub fn len(&self) -> usize {
        self.places.len() * self.elem.size()
    }

    /// Where each packed byte is, in bytes.
    pub fn bytes(&self) -> impl Iterator<Item = usize> + '_ {
        let within = self.elem.bytes();
        (self.places.iter()).flat_map(move |place| {
            within
                .clone()
                .into_iter()
                .map(move |byte| place * self.elem.extent + byte)
        })
    }
}

type Made = (Arc<Datatype>, u64, Vec<usize>);

fn vector(rng: &mut Rng, elem: Elem, room: usize, wanted: usize) -> Option<Made> {
    let longest = 1 + rng.usize(..20);
    let block = rng.usize(1..=wanted.min(longest));
    let count = wanted / block;
    let most = if count > 1 {
        (room - block) / (count - 1)
    } else {
        block
    };
    if most < block {
        return None;
    }
    let stride = rng.usize(block..=most.min(block + 30));
    let places = (0..count)
        .flat_map(|at| at * stride..at * stride + block)
        .collect();
    let (count, block) = (count as i64, block as i64);
    let datatype = match rng.bool() {
        true => Datatype::vector(count, block, stride as i64, elem.datatype()),
        false => Datatype::hvector(count, block, (stride * elem.extent) as i64, elem.datatype()),
    };
    Some((datatype.expect("it is small"), 1, places))
}

fn indexed(rng: &mut Rng, elem: Elem, room: usize, wanted: usize) -> Made {
    let mut blocks = Vec::new();
    let (mut at, mut left) = (0, wanted);
    let longest = 1 + rng.usize(..wanted.min(40));
    while left > 0 && blocks.len() < 3000 {
        let len = rng.usize(1..=longest.min(left));
        let gaps = room - at - left;
        at += rng.usize(..=gaps.min(9));
        blocks.push((len as i64, at as i64));
        (at, left) = (at + len, left - len);
    }
    if rng.bool() {
        rng.shuffle(&mut blocks);
    }
    let places = blocks
        .iter()
        .flat_map(|&(len, at)| at as usize..(at + len) as usize)
        .collect();
    let (lens, places_of): (Vec<i64>, Vec<i64>) = blocks.into_iter().unzip();
    let datatype = Datatype::indexed(&lens, &places_of, elem.datatype()).expect("it is small");
    (datatype, 1, places)
}

/// Several elements of a datatype with another extent, of two blocks.
fn strided(rng: &mut Rng, elem: Elem, room: usize, wanted: usize) -> Option<Made> {
    let (first, second) = (rng.usize(1..4), rng.usize(1..4));
    let gap = rng.usize(..3);
    let reach = first + gap + second;
    let stride = reach + rng.usize(..4);
    let count = (wanted / (first + second)).min((room + stride - reach.min(room)) / stride);
    if count == 0 || reach > room || (count - 1) * stride + reach > room {
        return None;
    }
    let one = Datatype::indexed(
        &[first as i64, second as i64],
        &[0, (first + gap) as i64],
        elem.datatype(),
    );
    let datatype =
        Datatype::resized(&one.expect("it is small"), 0, (stride * elem.extent) as i64).expect("it is small");
    let of_one = (0..first).chain(first + gap..reach);
    let places = (0..count)
        .flat_map(|at| of_one.clone().map(move |place| at * stride + place))
        .collect();
    Some((datatype, count as u64, places))
}

#[test]
fn shapes_are_those_of_the_library() {
    for seed in 0..2000 {
        let rng = &mut Rng::with_seed(seed);
        let elem = Elem::random(rng);
        let room = 1 + rng.usize(..60);
        let wanted = 1 + rng.usize(..60);
        let shape = Shape::random(rng, elem, room, wanted).shifted([0, 0, 3][rng.usize(..3)]);
        assert!(shape.reach() <= room, "{shape:?}");
        let mut places = shape.places.clone();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), shape.places.len(), "{shape:?}");
        assert_eq!(
            shape.datatype.size() * shape.count,
            shape.len() as u64,
            "{shape:?}"
        );
        let bytes: Vec<u8> = (0..shape.reach() * elem.extent + 3).map(|_| rng.u8(..)).collect();
        let shift = shape.datatype.true_lb() as usize - shape.places[..].iter().min().unwrap() * elem.extent;
        let mut packed = vec![0; shape.len()];
        // SAFETY: all elements are within the bytes.
        let len = unsafe {
            shape
                .datatype
                .pack(bytes.as_ptr(), shape.count, 0, &mut packed[..])
        };
        assert_eq!(len, packed.len());
        let expected: Vec<u8> = shape.bytes().map(|at| bytes[at + shift]).collect();
        assert_eq!(packed, expected, "{shape:?}");
    }
}
