//! Kernels of the predefined operations on numbers and truth values.
//!
//! One loop, [`each`], serves all of them: the compiler makes a vector loop of it for each operation and type.
//! Integers wrap. Of two numbers where one is NaN, `MPI_MAX` and `MPI_MIN` keep the second operand. A truth value is
//! true if it is not zero, and results are 0 or 1.

use super::binary128::Binary128;
use super::predefined::PredefinedKind;
use super::{Kernel, LongDouble};
use crate::data::datatype::Representation;
use std::ops::{BitAnd, BitOr, BitXor};

/// `inout[i] = combine(input[i], inout[i])`.
///
/// # Safety
/// As [`Kernel`], for elements of `T`; no alignment is needed.
#[inline(always)]
unsafe fn each<T: Copy>(input: *const u8, inout: *mut u8, count: usize, combine: impl Fn(T, T) -> T) {
    let (input, inout) = (input.cast::<T>(), inout.cast::<T>());
    for index in 0..count {
        // SAFETY: the caller vouches for `count` elements in both.
        unsafe {
            let result = combine(
                input.add(index).read_unaligned(),
                inout.add(index).read_unaligned(),
            );
            inout.add(index).write_unaligned(result);
        }
    }
}

/// A kernel, made of a type and an operation on two of them.
macro_rules! kernel {
    ($type:ty, $combine:expr) => {
        // SAFETY: whoever calls a kernel vouches for its buffers.
        Some(|input, inout, count| unsafe { each::<$type>(input, inout, count, $combine) })
    };
}

/// The kernel of `kind` on `representation`. The caller checks whether the operation is defined there.
pub(super) fn kernel(kind: PredefinedKind, representation: Representation) -> Option<Kernel> {
    match representation {
        Representation::I8 => integer::<i8>(kind),
        Representation::U8 => integer::<u8>(kind),
        Representation::I16 => integer::<i16>(kind),
        Representation::U16 => integer::<u16>(kind),
        Representation::I32 => integer::<i32>(kind),
        Representation::U32 => integer::<u32>(kind),
        Representation::I64 => integer::<i64>(kind),
        Representation::U64 => integer::<u64>(kind),
        Representation::I128 => integer::<i128>(kind),
        Representation::F32 => floating::<f32>(kind),
        Representation::F64 => floating::<f64>(kind),
        Representation::ComplexF32 => complex::<f32>(kind),
        Representation::ComplexF64 => complex::<f64>(kind),
        Representation::LongDouble => floating::<LongDouble>(kind),
        Representation::ComplexLongDouble => complex::<LongDouble>(kind),
        Representation::F128 => floating::<Binary128>(kind),
        Representation::ComplexF128 => complex::<Binary128>(kind),
        Representation::F16 | Representation::ComplexF16 => None,
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

fn integer<T: Integer>(kind: PredefinedKind) -> Option<Kernel> {
    match kind {
        PredefinedKind::Max => kernel!(T, |a, b| a.max(b)),
        PredefinedKind::Min => kernel!(T, |a, b| a.min(b)),
        PredefinedKind::Sum => kernel!(T, |a, b| a.add(b)),
        PredefinedKind::Prod => kernel!(T, |a, b| a.multiply(b)),
        PredefinedKind::Band => kernel!(T, |a, b| a & b),
        PredefinedKind::Bor => kernel!(T, |a, b| a | b),
        PredefinedKind::Bxor => kernel!(T, |a, b| a ^ b),
        PredefinedKind::Land => kernel!(T, |a, b| T::from(a.is_true() & b.is_true())),
        PredefinedKind::Lor => kernel!(T, |a, b| T::from(a.is_true() | b.is_true())),
        PredefinedKind::Lxor => kernel!(T, |a, b| T::from(a.is_true() ^ b.is_true())),
        PredefinedKind::Minloc | PredefinedKind::Maxloc | PredefinedKind::Replace | PredefinedKind::NoOp => {
            None
        }
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

fn floating<T: Floating>(kind: PredefinedKind) -> Option<Kernel> {
    match kind {
        PredefinedKind::Max => kernel!(T, |a, b| if a.exceeds(b) { a } else { b }),
        PredefinedKind::Min => kernel!(T, |a, b| if b.exceeds(a) { a } else { b }),
        PredefinedKind::Sum => kernel!(T, |a, b| a.add(b)),
        PredefinedKind::Prod => kernel!(T, |a, b| a.multiply(b)),
        _ => None,
    }
}

/// Real part, imaginary part.
type Complex<T> = [T; 2];

fn complex<T: Floating>(kind: PredefinedKind) -> Option<Kernel> {
    match kind {
        PredefinedKind::Sum => kernel!(Complex<T>, |a, b| [a[0].add(b[0]), a[1].add(b[1])]),
        PredefinedKind::Prod => kernel!(Complex<T>, |a, b| [
            a[0].multiply(b[0]).subtract(a[1].multiply(b[1])),
            a[0].multiply(b[1]).add(a[1].multiply(b[0])),
        ]),
        _ => None,
    }
}
