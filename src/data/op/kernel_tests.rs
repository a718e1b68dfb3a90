//! Every kernel at every level that this machine has, against the operation on one element written in another way: all lengths up to several
//! blocks, addresses without alignment, special values, several inputs, and an output that is one of them.

use super::level::Level;
use super::loops::{Kernels, Levels};
use super::predefined::PredefinedKind::{self, *};
use super::*;
use crate::data::datatype::{Basic, Category, Representation};
use rustc_apfloat::Float;
use rustc_apfloat::ieee::Half;
use std::ops::{Add, Mul, Sub};

const KINDS: [PredefinedKind; 12] = [
    Max, Min, Sum, Prod, Band, Bor, Bxor, Land, Lor, Lxor, Minloc, Maxloc,
];

/// The levels that this machine has.
fn levels() -> impl Iterator<Item = Level> {
    Level::ALL.iter().copied().filter(|level| level.is_here())
}

/// Every kind of element that there is a kernel for, once.
fn elements() -> Vec<Element> {
    let mut elements: Vec<Element> = Vec::new();
    for (_, datatype) in Datatype::all_predefined() {
        if let Some(element) = datatype.element()
            && KINDS.iter().any(|kind| kind.kernels(element).is_some())
            && !elements.iter().any(|other| same(*other, element))
        {
            elements.push(element);
        }
    }
    assert!(elements.len() > 25, "{}", elements.len());
    // Pairs of Fortran's default kinds in sizes that few compilers give them.
    use Representation::*;
    for (category, representation) in [
        (Category::FortranInteger, I8),
        (Category::FortranInteger, I16),
        (Category::FortranInteger, I64),
        (Category::FortranInteger, I128),
        (Category::Floating, F128),
    ] {
        let basic = Basic {
            category,
            representation,
            external_size: 4,
        };
        let pair = Element::Pair(basic, basic, basic.size());
        assert!(Maxloc.kernels(pair).is_some() && Minloc.kernels(pair).is_some());
        elements.push(pair);
    }
    elements
}

/// Whether kernels treat them alike.
fn same(one: Element, other: Element) -> bool {
    match (one, other) {
        (Element::Basic(one), Element::Basic(other)) => {
            (one.representation, one.category) == (other.representation, other.category)
        }
        (Element::Pair(v, i, _), Element::Pair(w, j, _)) => {
            (v.representation, i.representation) == (w.representation, j.representation)
        }
        _ => false,
    }
}

/// The bytes from one element of an array to the next.
pub(super) fn size(element: Element) -> usize {
    match element {
        Element::Basic(basic) => basic.size() as usize,
        Element::Pair(value, index, _) => 2 * value.size().max(index.size()) as usize,
    }
}

/// Random bytes for `count` elements; half of the floating-point numbers are special or close to each other.
pub(super) fn random(element: Element, count: usize, random: &mut fastrand::Rng) -> Vec<u8> {
    use Representation::*;
    let number = |representation: Representation, random: &mut fastrand::Rng| -> Vec<u8> {
        let pick = random.usize(0..32);
        let special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            2.5,
            3e38,
            1e-40,
        ];
        let part = |random: &mut fastrand::Rng| match representation {
            F16 | ComplexF16 => match special.get(pick) {
                Some(&number) => half(number).to_ne_bytes().to_vec(),
                None => random.u16(..).to_ne_bytes().to_vec(),
            },
            F32 | ComplexF32 => match special.get(pick) {
                Some(&number) => (number as f32).to_ne_bytes().to_vec(),
                None => f32::from_bits(random.u32(..)).to_ne_bytes().to_vec(),
            },
            F64 | ComplexF64 => match special.get(pick) {
                Some(&number) => number.to_ne_bytes().to_vec(),
                None => f64::from_bits(random.u64(..)).to_ne_bytes().to_vec(),
            },
            // Patterns that mean no number are no operands: small integers do here. The formats have tests of their own.
            LongDouble | ComplexLongDouble | F128 | ComplexF128 => {
                let basic = match representation {
                    LongDouble | ComplexLongDouble => LongDouble,
                    _ => F128,
                };
                super::tests::encode(basic, random.i64(-50..50), 0)
            }
            // Zeros matter to truth values, and equal numbers to indices.
            _ if pick < 8 => vec![0; representation.size() as usize],
            _ if pick < 16 => super::tests::encode(representation, random.i64(0..4), 0),
            _ => (0..representation.size()).map(|_| random.u8(..)).collect(),
        };
        match representation {
            ComplexF16 | ComplexF32 | ComplexF64 | ComplexLongDouble | ComplexF128 => {
                [part(random), part(random)].concat()
            }
            _ => part(random),
        }
    };
    let mut bytes = Vec::new();
    for _ in 0..count {
        match element {
            Element::Basic(basic) => bytes.extend(number(basic.representation, random)),
            Element::Pair(value, index, at) => {
                let start = bytes.len();
                bytes.extend(number(value.representation, random));
                bytes.resize(start + at as usize, random.u8(..));
                // No NaN is an index.
                bytes.extend(super::tests::encode(index.representation, random.i64(0..4), 0));
                bytes.resize(start + size(element), random.u8(..));
            }
        }
    }
    bytes
}

/// The nearest number in half precision.
fn half(number: f64) -> u16 {
    let exact = rustc_apfloat::ieee::Double::from_bits(u128::from(number.to_bits()));
    let mut lossy = false;
    let half: Half = rustc_apfloat::FloatConvert::convert(exact, &mut lossy).value;
    half.to_bits() as u16
}

fn integer<T: Copy + Into<i128>>(kind: PredefinedKind, a: T, b: T) -> i128 {
    let (a, b): (i128, i128) = (a.into(), b.into());
    let truth = |value: bool| i128::from(value);
    match kind {
        Max => a.max(b),
        Min => a.min(b),
        Sum => a.wrapping_add(b),
        Prod => a.wrapping_mul(b),
        Band => a & b,
        Bor => a | b,
        Bxor => a ^ b,
        Land => truth(a != 0 && b != 0),
        Lor => truth(a != 0 || b != 0),
        Lxor => truth((a != 0) != (b != 0)),
        _ => unreachable!("{kind:?} on an integer"),
    }
}

trait Number: Copy + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> {}

impl<T: Copy + PartialOrd + Add<Output = T> + Sub<Output = T> + Mul<Output = T>> Number for T {}

fn real<T: Number>(kind: PredefinedKind, a: T, b: T) -> T {
    match kind {
        Max if a > b => a,
        Min if a < b => a,
        Max | Min => b,
        Sum => a + b,
        Prod => a * b,
        _ => unreachable!("{kind:?} on a real number"),
    }
}

fn complex<T: Number>(kind: PredefinedKind, a: [T; 2], b: [T; 2]) -> [T; 2] {
    match kind {
        Sum => [a[0] + b[0], a[1] + b[1]],
        Prod => [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]],
        _ => unreachable!("{kind:?} on a complex number"),
    }
}

/// Halves of single precision, and the half that is nearest to one.
fn single(bits: u16) -> f32 {
    let mut lossy = false;
    let single: rustc_apfloat::ieee::Single =
        rustc_apfloat::FloatConvert::convert(Half::from_bits(u128::from(bits)), &mut lossy).value;
    f32::from_bits(single.to_bits() as u32)
}

/// The result of an operation on one element.
fn reference(kind: PredefinedKind, element: Element, a: &[u8], b: &[u8]) -> Vec<u8> {
    use Representation::*;
    macro_rules! of {
        ($type:ty, $bytes:expr) => {
            <$type>::from_ne_bytes($bytes.try_into().expect("the type's size"))
        };
    }
    macro_rules! numbers {
        ($function:ident, $type:ty) => {{
            let result = $function(kind, of!($type, a), of!($type, b));
            (result as $type).to_ne_bytes().to_vec()
        }};
    }
    macro_rules! parts {
        ($type:ty) => {{
            let parts = |bytes: &[u8]| {
                let (real, imaginary) = bytes.split_at(bytes.len() / 2);
                [of!($type, real), of!($type, imaginary)]
            };
            let result = complex(kind, parts(a), parts(b));
            [result[0].to_ne_bytes(), result[1].to_ne_bytes()].concat()
        }};
    }
    let basic = match element {
        Element::Basic(basic) => basic,
        Element::Pair(value, ..) if matches!(value.representation, LongDouble | F128) => {
            return one_by_one(kind, element, a, b);
        }
        Element::Pair(value, index, at) => {
            let at = at as usize;
            let (value_size, index_size) = (value.size() as usize, index.size() as usize);
            let (v, w) = (&a[..value_size], &b[..value_size]);
            let (i, j) = (&a[at..at + index_size], &b[at..at + index_size]);
            let compare = |representation, one: &[u8], other: &[u8]| match representation {
                I8 => of!(i8, one).partial_cmp(&of!(i8, other)),
                I16 => of!(i16, one).partial_cmp(&of!(i16, other)),
                I32 => of!(i32, one).partial_cmp(&of!(i32, other)),
                I64 => of!(i64, one).partial_cmp(&of!(i64, other)),
                I128 => of!(i128, one).partial_cmp(&of!(i128, other)),
                F32 => of!(f32, one).partial_cmp(&of!(f32, other)),
                F64 => of!(f64, one).partial_cmp(&of!(f64, other)),
                other => unreachable!("{other:?} in a pair"),
            };
            let order = compare(value.representation, v, w);
            let order = if kind == Maxloc {
                order
            } else {
                order.map(std::cmp::Ordering::reverse)
            };
            let smaller = compare(index.representation, i, j) == Some(std::cmp::Ordering::Less);
            let mut result = b.to_vec();
            if order == Some(std::cmp::Ordering::Greater)
                || order == Some(std::cmp::Ordering::Equal) && smaller
            {
                result[..value_size].copy_from_slice(v);
                result[at..at + index_size].copy_from_slice(i);
            }
            return result;
        }
    };
    match basic.representation {
        I8 | L8 => numbers!(integer, i8),
        U8 => numbers!(integer, u8),
        I16 | L16 => numbers!(integer, i16),
        U16 => numbers!(integer, u16),
        I32 | L32 => numbers!(integer, i32),
        U32 => numbers!(integer, u32),
        I64 | L64 => numbers!(integer, i64),
        U64 => numbers!(integer, u64),
        I128 | L128 => numbers!(integer, i128),
        F32 => numbers!(real, f32),
        F64 => numbers!(real, f64),
        F16 if matches!(kind, Max | Min) => {
            let order = single(of!(u16, a)).partial_cmp(&single(of!(u16, b)));
            let wanted = match kind {
                Max => std::cmp::Ordering::Greater,
                _ => std::cmp::Ordering::Less,
            };
            if order == Some(wanted) {
                a.to_vec()
            } else {
                b.to_vec()
            }
        }
        // Exact in double precision, and rounded once.
        F16 => {
            let exact = real(
                kind,
                f64::from(single(of!(u16, a))),
                f64::from(single(of!(u16, b))),
            );
            half(exact).to_ne_bytes().to_vec()
        }
        ComplexF16 => {
            let parts = |bytes: &[u8]| [single(of!(u16, bytes[..2])), single(of!(u16, bytes[2..]))];
            let result = complex(kind, parts(a), parts(b));
            result.map(|part| half(f64::from(part)).to_ne_bytes()).concat()
        }
        ComplexF32 => parts!(f32),
        ComplexF64 => parts!(f64),
        LongDouble | ComplexLongDouble | F128 | ComplexF128 => one_by_one(kind, element, a, b),
    }
}

/// What the kernel makes of one element, for formats with tests of their own: here it is about the loops.
fn one_by_one(kind: PredefinedKind, element: Element, a: &[u8], b: &[u8]) -> Vec<u8> {
    let kernels = kind.kernels(element).expect("defined")[Level::Baseline as usize];
    let mut inout = b.to_vec();
    // SAFETY: one element in each.
    unsafe { (kernels.pairwise)(a.as_ptr(), inout.as_mut_ptr(), 1) };
    inout
}

/// Whether a result is right: any NaN is as good as another where it was computed.
pub(super) fn equal(kind: PredefinedKind, element: Element, got: &[u8], wanted: &[u8]) -> bool {
    use Representation::*;
    let nans = |bytes: &[u8]| -> Vec<bool> {
        match element {
            Element::Basic(basic) => match basic.representation {
                F16 | ComplexF16 => (bytes.chunks(2))
                    .map(|part| single(u16::from_ne_bytes([part[0], part[1]])).is_nan())
                    .collect(),
                F32 | ComplexF32 => (bytes.chunks(4))
                    .map(|part| f32::from_ne_bytes(part.try_into().expect("four")).is_nan())
                    .collect(),
                F64 | ComplexF64 => (bytes.chunks(8))
                    .map(|part| f64::from_ne_bytes(part.try_into().expect("eight")).is_nan())
                    .collect(),
                _ => Vec::new(),
            },
            Element::Pair(..) => Vec::new(),
        }
    };
    if got == wanted {
        return true;
    }
    let (one, other) = (nans(got), nans(wanted));
    if !matches!(kind, Sum | Prod) || one != other || one.is_empty() {
        return false;
    }
    let part = got.len() / one.len();
    let parts = got.chunks(part).zip(wanted.chunks(part)).zip(one);
    parts.into_iter().all(|((got, wanted), nan)| nan || got == wanted)
}

/// Calls with every pair of an operation and an element, and its kernels.
fn every(mut test: impl FnMut(PredefinedKind, Element, &Levels)) {
    let mut pairs = 0;
    for element in elements() {
        for kind in KINDS {
            if let Some(levels) = kind.kernels(element) {
                pairs += 1;
                test(kind, element, levels);
            }
        }
    }
    assert!(pairs > 150, "{pairs}");
}

/// Bytes around an array that no kernel may write.
const GUARD: usize = 32;
const LONGEST: usize = 70;
/// Miri takes a thousand times as long: it sees some of each.
const STEP: usize = if cfg!(miri) { 23 } else { 1 };

/// The array behind so many bytes, with guards, and where it begins.
fn guarded(array: &[u8], offset: usize) -> (Vec<u8>, usize) {
    let mut bytes = vec![0xa5; GUARD + offset];
    bytes.extend(array);
    bytes.extend([0x5a; GUARD]);
    (bytes, GUARD + offset)
}

#[test]
fn two_operands() {
    let mut seed = fastrand::Rng::with_seed(13);
    every(|kind, element, kernels| {
        let size = size(element);
        let (a, b) = (
            random(element, LONGEST, &mut seed),
            random(element, LONGEST, &mut seed),
        );
        let operands = a.chunks(size).zip(b.chunks(size));
        let wanted: Vec<_> = operands.map(|(a, b)| reference(kind, element, a, b)).collect();
        for level in levels() {
            for count in (0..=LONGEST).step_by(STEP) {
                // The input's first byte and the result's are aligned in one of four ways each.
                let (input, from) = guarded(&a, count % 3);
                let (mut inout, to) = guarded(&b, count % 5);
                let before = inout.clone();
                let kernel = kernels[level as usize].pairwise;
                // SAFETY: both hold `LONGEST` elements from there on; the machine has the level.
                unsafe { kernel(input[from..].as_ptr(), inout[to..].as_mut_ptr(), count) };
                for (index, wanted) in wanted[..count].iter().enumerate() {
                    let at = to + index * size;
                    assert!(
                        equal(kind, element, &inout[at..at + size], wanted),
                        "{kind:?} on {element:?}, {level:?}, {index} of {count}: {:?} and {:?} made {:?}, not {wanted:?}",
                        &a[index * size..][..size],
                        &b[index * size..][..size],
                        &inout[at..at + size]
                    );
                }
                let end = to + count * size;
                assert!(
                    inout[..to] == before[..to] && inout[end..] == before[end..],
                    "{kind:?} on {element:?}, {level:?}, {count}: it wrote beyond its elements"
                );
            }
        }
    });
}

#[test]
fn several_operands_and_an_output_that_is_one_of_them() {
    let mut seed = fastrand::Rng::with_seed(29);
    every(|kind, element, kernels| {
        let size = size(element);
        for number in (1..=9).step_by(if cfg!(miri) { 4 } else { 1 }) {
            let count = seed.usize(0..=LONGEST);
            let inputs: Vec<_> = (0..number).map(|_| random(element, count, &mut seed)).collect();
            for level in levels() {
                let Kernels { pairwise, many } = kernels[level as usize];
                // What pairs of operands give, from the last to the first.
                let (mut wanted, start) = guarded(&inputs[number - 1], 0);
                for input in inputs[..number - 1].iter().rev() {
                    // SAFETY: both hold `count` elements; the machine has the level.
                    unsafe { pairwise(input.as_ptr(), wanted[start..].as_mut_ptr(), count) };
                }
                // An output of its own, or the place of an input.
                for target in 0..=number {
                    let mut buffers: Vec<_> = (inputs.iter().chain([&inputs[0]]))
                        .enumerate()
                        .map(|(place, input)| guarded(input, place % 3))
                        .collect();
                    let addresses: Vec<_> = (buffers[..number].iter_mut())
                        .map(|(bytes, at)| bytes[*at..].as_mut_ptr())
                        .collect();
                    let inputs: Vec<_> = addresses.iter().map(|at| at.cast_const()).collect();
                    let output = match addresses.get(target) {
                        Some(&address) => address,
                        None => {
                            let (bytes, at) = &mut buffers[target];
                            bytes[*at..].as_mut_ptr()
                        }
                    };
                    // SAFETY: all hold `count` elements; the machine has the level.
                    unsafe { many(inputs.as_ptr(), number, output, count) };
                    let (bytes, at) = &buffers[target];
                    let (got, wanted) = (&bytes[*at..], &wanted[start..]);
                    for (got, wanted) in got[..count * size].chunks(size).zip(wanted.chunks(size)) {
                        assert!(
                            equal(kind, element, got, wanted),
                            "{kind:?} on {element:?}, {level:?}, {number} of {count} into {target}: {got:?}, not {wanted:?}"
                        );
                    }
                    assert!(
                        bytes[..*at].iter().all(|&byte| byte == 0xa5)
                            && got[count * size..] == wanted[count * size..],
                        "{kind:?} on {element:?}, {level:?}, {count}: it wrote beyond its elements"
                    );
                }
            }
        }
    });
}

/// All numbers in half precision, each with some of several exponents, and with special ones.
#[test]
fn every_number_in_half_precision() {
    let element = elements().into_iter().find(
        |element| matches!(element, Element::Basic(basic) if basic.representation == Representation::F16),
    );
    let element = element.expect("MPI_REAL2");
    let all: Vec<u16> = (0..=u16::MAX).step_by(STEP * STEP).collect();
    let mut others: Vec<u16> = (1..64)
        .step_by(9)
        .map(|exponent| (exponent << 10) | (exponent * 37 % 1024))
        .collect();
    others.extend([0x8000, 1, 0x3ff, 0x8400, 0x7bff, 0xfc00, 0x7c01]);
    for kind in [Max, Min, Sum, Prod] {
        let kernels = kind.kernels(element).expect("defined");
        for &other in &others {
            let number = Half::from_bits(u128::from(other));
            let wanted = |bits: u16| -> u16 {
                let a = Half::from_bits(u128::from(bits));
                let result = match kind {
                    Max if a > number => a,
                    Min if a < number => a,
                    Max | Min => number,
                    Sum => (a + number).value,
                    _ => (a * number).value,
                };
                result.to_bits() as u16
            };
            let wanted: Vec<_> = all.iter().map(|&bits| wanted(bits)).collect();
            for level in levels() {
                let mut inout = vec![other; all.len()];
                // SAFETY: both hold as many numbers; the machine has the level.
                unsafe {
                    (kernels[level as usize].pairwise)(
                        all.as_ptr().cast(),
                        inout.as_mut_ptr().cast(),
                        all.len(),
                    )
                };
                for (bits, (&got, &wanted)) in all.iter().zip(inout.iter().zip(&wanted)) {
                    let nan = |bits: u16| bits & 0x7fff > 0x7c00;
                    let equal = got == wanted || nan(got) && nan(wanted) && matches!(kind, Sum | Prod);
                    assert!(
                        equal,
                        "{kind:?} of {bits:#x} and {other:#x}, {level:?}: {got:#x}, not {wanted:#x}"
                    );
                }
            }
        }
    }
}
