//! Kernels of the predefined operations on numbers and C's truth values.
//!
//! Integers wrap. Of two numbers where one is NaN, `MPI_MAX` and `MPI_MIN` keep the second operand. A truth value is
//! true if it is not zero, and results are 0 or 1.

use super::binary128::Binary128;
use super::half;
use super::logical;
use super::loops::{Blocks, Levels, Operation};
use super::predefined::PredefinedKind;
use crate::data::datatype::Representation;
use std::marker::PhantomData;
use std::ops::{BitAnd, BitOr, BitXor};

/// Operations that combine two elements of a type by a function of it.
macro_rules! operations {
    ($($name:ident: $bound:ident, |$a:ident, $b:ident| $result:expr;)*) => {$(
        pub(super) struct $name<T>(PhantomData<T>);

        impl<T: $bound> Operation for $name<T> {
            type Element = T;

            #[inline(always)]
            fn combine($a: T, $b: T) -> T {
                $result
            }
        }
    )*};
}

/// The kernels of `kind` on `representation`. The caller checks whether the operation is defined there.
pub(super) const fn kernels(kind: PredefinedKind, representation: Representation) -> Option<&'static Levels> {
    use Representation::*;
    let ordered = matches!(kind, PredefinedKind::Max | PredefinedKind::Min);
    match representation {
        I8 if ordered => order::<i8, 64>(kind),
        U8 if ordered => order::<u8, 64>(kind),
        I16 if ordered => order::<i16, 32>(kind),
        U16 if ordered => order::<u16, 32>(kind),
        I32 if ordered => order::<i32, 16>(kind),
        U32 if ordered => order::<u32, 16>(kind),
        I64 if ordered => order::<i64, 8>(kind),
        U64 if ordered => order::<u64, 8>(kind),
        // All else is the same with a sign and without.
        I8 | U8 => integer::<u8, 64>(kind),
        I16 | U16 => integer::<u16, 32>(kind),
        I32 | U32 => integer::<u32, 16>(kind),
        I64 | U64 => integer::<u64, 8>(kind),
        I128 => wide(kind),
        L8 | L16 | L32 | L64 | L128 => logical::kernels(kind, representation.size()),
        F16 => half::real(kind),
        F32 => floating::<f32, 16>(kind),
        F64 => floating::<f64, 8>(kind),
        ComplexF16 => half::complex(kind),
        ComplexF32 => match kind {
            PredefinedKind::Sum => Some(&Blocks::<ComplexSum<f32>, 8>::LEVELS),
            PredefinedKind::Prod => Some(&Blocks::<ComplexProduct<f32>, 8>::UP_TO_AVX2),
            _ => None,
        },
        ComplexF64 => match kind {
            PredefinedKind::Sum => Some(&Blocks::<ComplexSum<f64>, 4>::LEVELS),
            PredefinedKind::Prod => Some(&Blocks::<ComplexProduct<f64>, 16>::LEVELS),
            _ => None,
        },
        LongDouble => floating_scalar::<super::LongDouble>(kind),
        ComplexLongDouble => complex_scalar::<super::LongDouble>(kind),
        F128 => floating_scalar::<Binary128>(kind),
        ComplexF128 => complex_scalar::<Binary128>(kind),
    }
}

/// An integer or truth value of the language.
trait Integer:
    Copy + Ord + From<bool> + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self>
{
    fn add(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;

    fn is_true(self) -> bool {
        self != Self::from(false)
    }
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Integer for $type {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
    )*};
}

integers!(i8 u8 i16 u16 i32 u32 i64 u64 i128);

operations! {
    IntegerMax: Integer, |a, b| a.max(b);
    IntegerMin: Integer, |a, b| a.min(b);
    IntegerSum: Integer, |a, b| a.add(b);
    IntegerProduct: Integer, |a, b| a.multiply(b);
    And: Integer, |a, b| a & b;
    Or: Integer, |a, b| a | b;
    Xor: Integer, |a, b| a ^ b;
    LogicalAnd: Integer, |a, b| T::from(a.is_true() & b.is_true());
    LogicalOr: Integer, |a, b| T::from(a.is_true() | b.is_true());
    LogicalXor: Integer, |a, b| T::from(a.is_true() ^ b.is_true());
    FloatingMax: Floating, |a, b| if a.exceeds(b) { a } else { b };
    FloatingMin: Floating, |a, b| if b.exceeds(a) { a } else { b };
    FloatingSum: Floating, |a, b| a.add(b);
    FloatingProduct: Floating, |a, b| a.multiply(b);
}

const fn order<T: Integer, const N: usize>(kind: PredefinedKind) -> Option<&'static Levels> {
    match kind {
        PredefinedKind::Max => Some(&Blocks::<IntegerMax<T>, N>::LEVELS),
        PredefinedKind::Min => Some(&Blocks::<IntegerMin<T>, N>::LEVELS),
        _ => None,
    }
}

const fn integer<T: Integer, const N: usize>(kind: PredefinedKind) -> Option<&'static Levels> {
    match kind {
        PredefinedKind::Sum => Some(&Blocks::<IntegerSum<T>, N>::LEVELS),
        PredefinedKind::Prod => Some(&Blocks::<IntegerProduct<T>, N>::LEVELS),
        PredefinedKind::Band => Some(&Blocks::<And<T>, N>::LEVELS),
        PredefinedKind::Bor => Some(&Blocks::<Or<T>, N>::LEVELS),
        PredefinedKind::Bxor => Some(&Blocks::<Xor<T>, N>::LEVELS),
        PredefinedKind::Land => Some(&Blocks::<LogicalAnd<T>, N>::LEVELS),
        PredefinedKind::Lor => Some(&Blocks::<LogicalOr<T>, N>::LEVELS),
        PredefinedKind::Lxor => Some(&Blocks::<LogicalXor<T>, N>::LEVELS),
        _ => None,
    }
}

/// Integers of 16 bytes.
const fn wide(kind: PredefinedKind) -> Option<&'static Levels> {
    match kind {
        PredefinedKind::Max => Some(&Blocks::<IntegerMax<i128>, 1>::SCALAR),
        PredefinedKind::Min => Some(&Blocks::<IntegerMin<i128>, 1>::SCALAR),
        PredefinedKind::Sum => Some(&Blocks::<IntegerSum<i128>, 1>::SCALAR),
        PredefinedKind::Prod => Some(&Blocks::<IntegerProduct<i128>, 1>::SCALAR),
        PredefinedKind::Band => Some(&Blocks::<And<i128>, 4>::SCALAR),
        PredefinedKind::Bor => Some(&Blocks::<Or<i128>, 4>::SCALAR),
        PredefinedKind::Bxor => Some(&Blocks::<Xor<i128>, 4>::SCALAR),
        PredefinedKind::Land => Some(&Blocks::<LogicalAnd<i128>, 1>::SCALAR),
        PredefinedKind::Lor => Some(&Blocks::<LogicalOr<i128>, 1>::SCALAR),
        PredefinedKind::Lxor => Some(&Blocks::<LogicalXor<i128>, 1>::SCALAR),
        _ => None,
    }
}

/// A floating-point number.
pub(super) trait Floating: Copy {
    fn add(self, other: Self) -> Self;
    fn subtract(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    /// False if one is NaN.
    fn exceeds(self, other: Self) -> bool;
}

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Floating for $type {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn subtract(self, other: Self) -> Self {
                self - other
            }

            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn exceeds(self, other: Self) -> bool {
                self > other
            }
        }
    )*};
}

floats!(f32 f64);

const fn floating<T: Floating, const N: usize>(kind: PredefinedKind) -> Option<&'static Levels> {
    match kind {
        PredefinedKind::Max => Some(&Blocks::<FloatingMax<T>, N>::LEVELS),
        PredefinedKind::Min => Some(&Blocks::<FloatingMin<T>, N>::LEVELS),
        PredefinedKind::Sum => Some(&Blocks::<FloatingSum<T>, N>::LEVELS),
        PredefinedKind::Prod => Some(&Blocks::<FloatingProduct<T>, N>::LEVELS),
        _ => None,
    }
}

const fn floating_scalar<T: Floating>(kind: PredefinedKind) -> Option<&'static Levels> {
    match kind {
        PredefinedKind::Max => Some(&Blocks::<FloatingMax<T>, 1>::SCALAR),
        PredefinedKind::Min => Some(&Blocks::<FloatingMin<T>, 1>::SCALAR),
        PredefinedKind::Sum => Some(&Blocks::<FloatingSum<T>, 1>::SCALAR),
        PredefinedKind::Prod => Some(&Blocks::<FloatingProduct<T>, 1>::SCALAR),
        _ => None,
    }
}

const fn complex_scalar<T: Floating>(kind: PredefinedKind) -> Option<&'static Levels> {
    match kind {
        PredefinedKind::Sum => Some(&Blocks::<ComplexSum<T>, 1>::SCALAR),
        PredefinedKind::Prod => Some(&Blocks::<ComplexProduct<T>, 1>::SCALAR),
        _ => None,
    }
}

/// Real part, imaginary part.
type Complex<T> = [T; 2];

pub(super) struct ComplexSum<T>(PhantomData<T>);

impl<T: Floating> Operation for ComplexSum<T> {
    type Element = Complex<T>;

    #[inline(always)]
    fn combine(a: Complex<T>, b: Complex<T>) -> Complex<T> {
        [a[0].add(b[0]), a[1].add(b[1])]
    }

    #[inline(always)]
    fn block<const N: usize>(a: [Complex<T>; N], mut b: [Complex<T>; N]) -> [Complex<T>; N] {
        for (a, b) in a.as_flattened().iter().zip(b.as_flattened_mut()) {
            *b = a.add(*b);
        }
        b
    }
}

pub(super) struct ComplexProduct<T>(PhantomData<T>);

impl<T: Floating> Operation for ComplexProduct<T> {
    type Element = Complex<T>;

    #[inline(always)]
    fn combine(a: Complex<T>, b: Complex<T>) -> Complex<T> {
        [
            a[0].multiply(b[0]).subtract(a[1].multiply(b[1])),
            a[0].multiply(b[1]).add(a[1].multiply(b[0])),
        ]
    }

    #[inline(always)]
    fn block<const N: usize>(a: [Complex<T>; N], b: [Complex<T>; N]) -> [Complex<T>; N] {
        if N == 1 {
            return b.map(|b| Self::combine(a[0], b));
        }
        // Step by step over the block, which the compiler makes better code of.
        let (mut first, mut second) = (b, b);
        for k in 0..N {
            first[k] = [a[k][0].multiply(b[k][0]), a[k][0].multiply(b[k][1])];
        }
        for k in 0..N {
            second[k] = [a[k][1].multiply(b[k][1]), a[k][1].multiply(b[k][0])];
        }
        for k in 0..N {
            first[k] = [first[k][0].subtract(second[k][0]), first[k][1].add(second[k][1])];
        }
        first
    }
}
