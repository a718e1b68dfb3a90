//! Elements of predefined datatypes and the reductions on them, by the definitions of the standard (MPI 5.0 section 6.9). Nothing is shared
//! with the code under test but the table of datatypes.
//!
//! Values of floating-point types are small integers, for which every order of the operations gives the same.

use std::sync::Arc;

use fastrand::Rng;
use weft::data::datatype::{Basic, Category, Datatype, Element, Representation};
use weft::data::op::Op;

/// The ABI's numbers of the operations.
pub const SUM: usize = 33;
pub const MIN: usize = 34;
pub const MAX: usize = 35;
pub const PROD: usize = 36;
pub const BAND: usize = 40;
pub const BOR: usize = 41;
pub const BXOR: usize = 42;
pub const LAND: usize = 48;
pub const LOR: usize = 49;
pub const LXOR: usize = 50;
pub const MINLOC: usize = 56;
pub const MAXLOC: usize = 57;
pub const REPLACE: usize = 60;
pub const NO_OP: usize = 61;

/// A predefined datatype.
#[derive(Clone, Copy, Debug)]
pub struct Elem {
    pub handle: usize,
    pub element: Element,
    pub extent: usize,
}

/// What some bytes mean.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Value {
    Integer(i128),
    Real(f64),
    Complex(f64, f64),
}

impl Elem {
    pub fn of(handle: usize) -> Elem {
        let datatype = Datatype::predefined(handle).expect("a predefined datatype");
        Elem {
            handle,
            element: datatype.element().expect("it is predefined"),
            extent: datatype.extent() as usize,
        }
    }

    /// Any one that windows can have: all but `MPI_PACKED`.
    pub fn random(rng: &mut Rng) -> Elem {
        let all: Vec<usize> = Datatype::all_predefined().map(|(handle, _)| handle).collect();
        loop {
            let elem = Elem::of(all[rng.usize(..all.len())]);
            match elem.element {
                Element::Basic(basic) if basic.category == Category::Packed => {}
                // Those that programs use are the most frequent.
                Element::Basic(basic) if basic.category != Category::CInteger && rng.u32(..3) != 0 => {}
                _ => return elem,
            }
        }
    }

    pub fn datatype(&self) -> &'static Arc<Datatype> {
        Datatype::predefined(self.handle).expect("a predefined datatype")
    }

    pub fn name(&self) -> String {
        self.datatype().name().into_owned()
    }

    /// Its parts and where they begin; between them, a pair may have a gap.
    fn parts(&self) -> Vec<(usize, Basic)> {
        match self.element {
            Element::Basic(basic) => vec![(0, basic)],
            Element::Pair(value, index, at) => vec![(0, value), (at as usize, index)],
        }
    }

    /// Bytes of data, packed.
    pub fn size(&self) -> usize {
        self.parts().iter().map(|(_, basic)| basic.size() as usize).sum()
    }

    /// Where the packed bytes are.
    pub fn bytes(&self) -> Vec<usize> {
        let parts = self.parts();
        parts
            .iter()
            .flat_map(|&(at, basic)| at..at + basic.size() as usize)
            .collect()
    }

    /// Whether the same value may have different bytes: zeros with a sign, bytes that are no part of the number.
    pub fn is_approximate(&self) -> bool {
        self.parts()
            .iter()
            .any(|(_, basic)| !is_integer(basic.representation))
    }

    /// The operations on it, but `MPI_REPLACE` and `MPI_NO_OP`, which all have.
    pub fn ops(&self) -> Vec<usize> {
        let all = [
            SUM, MIN, MAX, PROD, BAND, BOR, BXOR, LAND, LOR, LXOR, MINLOC, MAXLOC,
        ];
        let defined = |op: &usize| {
            Op::predefined(*op)
                .expect("an operation")
                .check(self.datatype())
                .is_ok()
        };
        all.into_iter().filter(defined).collect()
    }

    /// Whether it can be compared and swapped (section 12.3.4): "C integer, Fortran integer, Logical, Multi-language types, or Byte".
    pub fn is_compared(&self) -> bool {
        use Category::*;
        matches!(self.element, Element::Basic(basic)
            if matches!(basic.category, CInteger | FortranInteger | Logical | MultiLanguage | Byte))
    }

    /// Packed bytes of a value for this operation.
    pub fn random_value(&self, rng: &mut Rng, op: usize) -> Vec<u8> {
        let parts = self.parts();
        let values = parts.iter().flat_map(|(_, basic)| {
            let representation = basic.representation;
            let value = if is_complex(representation) {
                match op {
                    PROD => [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)][rng.usize(..4)].into_complex(),
                    _ => Value::Complex(small(rng), small(rng)),
                }
            } else if !is_integer(representation) {
                Value::Real(match op {
                    PROD => [1.0, -1.0][rng.usize(..2)],
                    _ => small(rng),
                })
            } else if basic.category == Category::Logical {
                Value::Integer(rng.i128(0..2))
            } else if parts.len() == 2 || rng.u32(..4) == 0 {
                Value::Integer(rng.i128(-3..4))
            } else {
                Value::Integer(rng.i128(..))
            };
            encode(representation, value)
        });
        values.collect()
    }

    /// Packed bytes of an integer, at most as large as the type represents exactly.
    pub fn number(&self, number: u128) -> Vec<u8> {
        let representation = self.parts()[0].1.representation;
        let value = match representation {
            of if is_complex(of) => Value::Complex(number as f64, 0.0),
            of if is_integer(of) => Value::Integer(number as i128),
            _ => Value::Real(number as f64),
        };
        encode(representation, value)
    }

    /// The integer that packed bytes are; `None`: none, or a negative one.
    pub fn as_number(&self, bytes: &[u8]) -> Option<u128> {
        let representation = self.parts()[0].1.representation;
        match decode(representation, bytes) {
            Value::Integer(value) => Some(match representation.size() {
                16 => value as u128,
                size => value as u128 & ((1 << (8 * size)) - 1),
            }),
            Value::Real(value) | Value::Complex(value, 0.0) if value >= 0.0 => Some(value as u128),
            _ => None,
        }
    }

    /// How many different bits a sum of [`number`](Self::number) can have. 0: it has no sums.
    pub fn bits(&self) -> u32 {
        use Representation::*;
        let Element::Basic(basic) = self.element else {
            return 0;
        };
        match basic.representation {
            L8 | L16 | L32 | L64 | L128 => 0,
            F16 | ComplexF16 => 11,
            F32 | ComplexF32 => 24,
            F64 | ComplexF64 | LongDouble | F128 | ComplexLongDouble | ComplexF128 => 52,
            of => 8 * of.size() as u32,
        }
    }

    /// `target = target op origin` of packed elements.
    pub fn combine(&self, op: usize, origin: &[u8], target: &mut [u8]) {
        match op {
            NO_OP => return,
            REPLACE => return target.copy_from_slice(origin),
            MINLOC | MAXLOC => return self.locate(op == MAXLOC, origin, target),
            _ => {}
        }
        let (_, basic) = self.parts()[0];
        let of = basic.representation;
        let result = match (decode(of, target), decode(of, origin)) {
            (Value::Integer(a), Value::Integer(b)) => {
                let truth = |truth: bool| i128::from(truth);
                Value::Integer(match op {
                    SUM => a.wrapping_add(b),
                    PROD => a.wrapping_mul(b),
                    MIN => a.min(b),
                    MAX => a.max(b),
                    BAND => a & b,
                    BOR => a | b,
                    BXOR => a ^ b,
                    LAND => truth(a != 0 && b != 0),
                    LOR => truth(a != 0 || b != 0),
                    LXOR => truth((a != 0) != (b != 0)),
                    _ => unreachable!("operation {op} on an integer"),
                })
            }
            (Value::Real(a), Value::Real(b)) => Value::Real(match op {
                SUM => a + b,
                PROD => a * b,
                MIN => a.min(b),
                MAX => a.max(b),
                _ => unreachable!("operation {op} on a floating-point number"),
            }),
            (Value::Complex(a, ai), Value::Complex(b, bi)) => match op {
                SUM => Value::Complex(a + b, ai + bi),
                PROD => Value::Complex(a * b - ai * bi, a * bi + ai * b),
                _ => unreachable!("operation {op} on a complex number"),
            },
            _ => unreachable!("both are of one type"),
        };
        target.copy_from_slice(&encode(of, result));
    }

    fn locate(&self, max: bool, origin: &[u8], target: &mut [u8]) {
        let [(_, value), (_, index)] = self.parts()[..] else {
            unreachable!("a pair")
        };
        let at = value.size() as usize;
        let key = |bytes: &[u8]| {
            let real = |value| match value {
                Value::Integer(value) => value as f64,
                Value::Real(value) => value,
                Value::Complex(..) => unreachable!("no pair has one"),
            };
            let value = real(decode(value.representation, &bytes[..at]));
            let index = real(decode(index.representation, &bytes[at..]));
            (if max { -value } else { value }, index)
        };
        // The smaller index where values are equal.
        if key(origin) < key(target) {
            target.copy_from_slice(origin);
        }
    }

    /// Whether packed elements have the same values.
    pub fn same(&self, a: &[u8], b: &[u8]) -> bool {
        if !self.is_approximate() {
            return a == b;
        }
        let mut elements = a.chunks(self.size()).zip(b.chunks(self.size()));
        let same = |(a, b): (&[u8], &[u8])| {
            let mut at = 0;
            self.parts().iter().all(|(_, basic)| {
                let bytes = at..at + basic.size() as usize;
                at = bytes.end;
                decode(basic.representation, &a[bytes.clone()]) == decode(basic.representation, &b[bytes])
            })
        };
        a.len() == b.len() && elements.all(same)
    }
}

trait IntoComplex {
    fn into_complex(self) -> Value;
}

impl IntoComplex for (f64, f64) {
    fn into_complex(self) -> Value {
        Value::Complex(self.0, self.1)
    }
}

fn small(rng: &mut Rng) -> f64 {
    f64::from(rng.i32(-3..4))
}

fn is_complex(representation: Representation) -> bool {
    use Representation::*;
    matches!(
        representation,
        ComplexF16 | ComplexF32 | ComplexF64 | ComplexLongDouble | ComplexF128
    )
}

fn is_integer(representation: Representation) -> bool {
    use Representation::*;
    !is_complex(representation) && !matches!(representation, F16 | F32 | F64 | LongDouble | F128)
}

/// The parts of a complex number.
fn half(representation: Representation) -> Representation {
    use Representation::*;
    match representation {
        ComplexF16 => F16,
        ComplexF32 => F32,
        ComplexF64 => F64,
        ComplexLongDouble => LongDouble,
        ComplexF128 => F128,
        other => other,
    }
}

/// Bits of the exponent and of the fraction.
fn format(representation: Representation) -> (u32, u32) {
    match representation {
        Representation::F16 => (5, 10),
        Representation::F32 => (8, 23),
        Representation::F64 => (11, 52),
        _ => (15, 112),
    }
}

fn encode(representation: Representation, value: Value) -> Vec<u8> {
    let len = representation.size() as usize;
    match value {
        Value::Integer(value) => value.to_le_bytes()[..len].to_vec(),
        Value::Complex(re, im) => {
            let part = |value| encode(half(representation), Value::Real(value));
            [part(re), part(im)].concat()
        }
        Value::Real(value) => encode_real(representation, value),
    }
}

/// The x87's format has 64 bits of fraction, the first of which is always 1.
fn is_x87(representation: Representation) -> bool {
    cfg!(target_arch = "x86_64") && representation == Representation::LongDouble
}

fn encode_real(representation: Representation, value: f64) -> Vec<u8> {
    let bits = value.to_bits();
    let (sign, exponent, fraction) = (bits >> 63, bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
    let (exponent_bits, fraction_bits) = match is_x87(representation) {
        true => (15, 63),
        false => format(representation),
    };
    let bias = (1u128 << (exponent_bits - 1)) - 1;
    let (exponent, fraction) = match value == 0.0 {
        true => (0, 0),
        false => {
            let exponent = (u128::from(exponent) + bias) - 1023;
            let fraction = match fraction_bits >= 52 {
                true => u128::from(fraction) << (fraction_bits - 52),
                false => u128::from(fraction >> (52 - fraction_bits)),
            };
            (exponent, fraction)
        }
    };
    if is_x87(representation) {
        let mut bytes = [0; 16];
        let integer = if value == 0.0 { 0 } else { 1u64 << 63 };
        bytes[..8].copy_from_slice(&(integer | fraction as u64).to_le_bytes());
        bytes[8..10].copy_from_slice(&(exponent as u16 | (sign as u16) << 15).to_le_bytes());
        return bytes.to_vec();
    }
    let all = u128::from(sign) << (exponent_bits + fraction_bits) | exponent << fraction_bits | fraction;
    all.to_le_bytes()[..representation.size() as usize].to_vec()
}

fn decode(representation: Representation, bytes: &[u8]) -> Value {
    let mut all = [0; 16];
    if is_complex(representation) {
        let (re, im) = bytes.split_at(bytes.len() / 2);
        let part = |bytes| match decode(half(representation), bytes) {
            Value::Real(value) => value,
            _ => unreachable!("its parts are real"),
        };
        return Value::Complex(part(re), part(im));
    }
    all[..bytes.len()].copy_from_slice(bytes);
    let bits = u128::from_le_bytes(all);
    if is_integer(representation) {
        use Representation::*;
        let unused = 128 - 8 * bytes.len() as u32;
        return Value::Integer(match representation {
            U8 | U16 | U32 | U64 => bits as i128,
            _ => (bits << unused) as i128 >> unused,
        });
    }
    let (exponent_bits, fraction_bits, bits) = match is_x87(representation) {
        // Without the bit that is always 1, and without what is no part of the number.
        true => (15, 63, bits & ((1 << 63) - 1) | (bits >> 64 & 0xffff) << 63),
        false => {
            let (exponent_bits, fraction_bits) = format(representation);
            (exponent_bits, fraction_bits, bits)
        }
    };
    let fraction = bits & ((1 << fraction_bits) - 1);
    let exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
    let sign = if bits >> (exponent_bits + fraction_bits) & 1 == 0 {
        1.0
    } else {
        -1.0
    };
    if exponent == 0 && fraction == 0 {
        return Value::Real(0.0 * sign);
    }
    let scale = 2f64.powi(exponent as i32 - ((1 << (exponent_bits - 1)) - 1));
    let fraction = 1.0 + fraction as f64 / 2f64.powi(fraction_bits as i32);
    Value::Real(sign * fraction * scale)
}

#[test]
fn values_come_back() {
    let rng = &mut Rng::with_seed(1);
    for (handle, _) in Datatype::all_predefined() {
        let elem = Elem::of(handle);
        for (_, basic) in elem.parts() {
            let of = basic.representation;
            for number in -40..40i128 {
                let value = match of {
                    of if is_complex(of) => Value::Complex(number as f64, 2.0 * number as f64),
                    of if !is_integer(of) => Value::Real(number as f64),
                    _ => Value::Integer(number),
                };
                let found = decode(of, &encode(of, value));
                let unsigned = matches!(found, Value::Integer(found) if found != number);
                assert!(
                    found == value || unsigned && number < 0,
                    "{}: {value:?}, {found:?}",
                    elem.name()
                );
            }
        }
        if elem.bits() > 0 {
            for bit in 0..elem.bits() {
                assert_eq!(
                    elem.as_number(&elem.number(1 << bit)),
                    Some(1 << bit),
                    "{}",
                    elem.name()
                );
            }
        }
        let value = elem.random_value(rng, SUM);
        assert_eq!(value.len(), elem.size());
        assert!(elem.same(&value, &value));
    }
}

/// As the code under test has them: two who agree are less likely wrong.
#[test]
fn reductions_are_those_of_the_library() {
    let rng = &mut Rng::with_seed(2);
    for (handle, datatype) in Datatype::all_predefined() {
        let elem = Elem::of(handle);
        for op in elem.ops().into_iter().chain([REPLACE, NO_OP]) {
            for _ in 0..20 {
                let (origin, mut expected) = (elem.random_value(rng, op), elem.random_value(rng, op));
                let spread = |packed: &[u8]| {
                    let mut bytes = vec![0u8; elem.extent];
                    for (at, byte) in elem.bytes().into_iter().zip(packed) {
                        bytes[at] = *byte;
                    }
                    bytes
                };
                let (input, mut inout) = (spread(&origin), spread(&expected));
                // SAFETY: both hold one element.
                unsafe {
                    Op::predefined(op).expect("an operation").apply(
                        input.as_ptr(),
                        inout.as_mut_ptr(),
                        1,
                        datatype,
                    )
                };
                let before = expected.clone();
                elem.combine(op, &origin, &mut expected);
                let found: Vec<u8> = elem.bytes().iter().map(|&at| inout[at]).collect();
                assert!(
                    elem.same(&found, &expected),
                    "{} of {}: {origin:?}, {before:?}: {found:?} instead of {expected:?}",
                    op,
                    elem.name()
                );
            }
        }
    }
}
