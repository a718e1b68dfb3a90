//! Kernels of `MPI_MINLOC` and `MPI_MAXLOC` on pairs of a value and an index (MPI 5.0, section 6.9.4).
//!
//! If values are equal, the smaller index is the result. Where a value is NaN, no value exceeds the other and they are not equal:
//! the second operand stays.

use super::binary128::Binary128;
use super::kernels::Floating;
#[cfg(target_arch = "x86_64")]
use super::longdouble::LongDouble as X87;
use super::loops::{Blocks, Levels, Operation};
use crate::data::datatype::Representation;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// The operations on values and indices.
trait Ordered: Copy {
    fn above(self, other: Self) -> bool;
    fn equals(self, other: Self) -> bool;
}

macro_rules! ordered {
    ($($type:ty)*) => {$(
        impl Ordered for $type {
            #[inline(always)]
            fn above(self, other: Self) -> bool {
                self > other
            }

            #[inline(always)]
            fn equals(self, other: Self) -> bool {
                self == other
            }
        }
    )*};
}

ordered!(i8 i16 i32 i64 i128 f32 f64);

impl Ordered for Binary128 {
    fn above(self, other: Self) -> bool {
        self.exceeds(other)
    }

    fn equals(self, other: Self) -> bool {
        Binary128::equals(self, other)
    }
}

#[cfg(target_arch = "x86_64")]
impl Ordered for X87 {
    #[inline(always)]
    fn above(self, other: Self) -> bool {
        self.exceeds(other)
    }

    #[inline(always)]
    fn equals(self, other: Self) -> bool {
        !self.exceeds(other) && !other.exceeds(self) && self.is_number() && other.is_number()
    }
}

/// Whether the first of two values is the result, whatever the indices.
#[inline(always)]
fn beyond<const MAX: bool, V: Ordered>(a: V, b: V) -> bool {
    if MAX { a.above(b) } else { b.above(a) }
}

/// A pair as C lays it out, each part at the start of a `W` that is as long as the longer one. What is left of a `W` may never have been
/// written, and stays as it is.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair<W: Copy> {
    value: MaybeUninit<W>,
    index: MaybeUninit<W>,
}

struct Location<const MAX: bool, W, V, I>(PhantomData<(W, V, I)>);

impl<const MAX: bool, W: Copy, V: Ordered, I: Ordered> Operation for Location<MAX, W, V, I> {
    type Element = Pair<W>;

    #[inline(always)]
    fn combine(a: Pair<W>, mut b: Pair<W>) -> Pair<W> {
        const { assert!(size_of::<V>() <= size_of::<W>() && size_of::<I>() <= size_of::<W>()) };
        // SAFETY: a `V` and an `I`, which are numbers, are at the start of words that have room for them.
        unsafe {
            let value = |pair: &Pair<W>| pair.value.as_ptr().cast::<V>().read_unaligned();
            let index = |pair: &Pair<W>| pair.index.as_ptr().cast::<I>().read_unaligned();
            let ((v, i), (w, j)) = ((value(&a), index(&a)), (value(&b), index(&b)));
            let beyond = beyond::<MAX, V>(v, w);
            let first = beyond | (v.equals(w) & j.above(i));
            b.value
                .as_mut_ptr()
                .cast::<V>()
                .write_unaligned(if beyond { v } else { w });
            b.index
                .as_mut_ptr()
                .cast::<I>()
                .write_unaligned(if first { i } else { j });
        }
        b
    }
}

/// A number of 32 bits.
trait Half: Ordered {
    fn of(bits: u32) -> Self;
}

impl Half for f32 {
    #[inline(always)]
    fn of(bits: u32) -> Self {
        f32::from_bits(bits)
    }
}

impl Half for i32 {
    #[inline(always)]
    fn of(bits: u32) -> Self {
        bits.cast_signed()
    }
}

/// A pair of two numbers of 32 bits as one of 64, which the compiler makes better code of.
struct Word<const MAX: bool, V, I>(PhantomData<(V, I)>);

impl<const MAX: bool, V: Half, I: Half> Operation for Word<MAX, V, I> {
    type Element = u64;

    #[inline(always)]
    fn combine(a: u64, b: u64) -> u64 {
        let (low, high) = (|word: u64| word as u32, |word: u64| (word >> 32) as u32);
        let parts = |word: u64| match cfg!(target_endian = "little") {
            true => (V::of(low(word)), I::of(high(word))),
            false => (V::of(high(word)), I::of(low(word))),
        };
        let ((v, i), (w, j)) = (parts(a), parts(b));
        // Of equal values, which may be zeros of either sign, any will do.
        let first = beyond::<MAX, V>(v, w) | (v.equals(w) & j.above(i));
        if first { a } else { b }
    }
}

fn word<V: Half, I: Half>(max: bool) -> Option<&'static Levels> {
    Some(match max {
        true => &Blocks::<Word<true, V, I>, 8>::LEVELS,
        false => &Blocks::<Word<false, V, I>, 8>::LEVELS,
    })
}

fn long<V: Ordered, I: Ordered, const N: usize>(max: bool) -> Option<&'static Levels> {
    Some(match max {
        true => &Blocks::<Location<true, u64, V, I>, N>::LEVELS,
        false => &Blocks::<Location<false, u64, V, I>, N>::LEVELS,
    })
}

/// Of two numbers of the same type, in vectors that are worth it.
fn twins<T: Ordered, const N: usize>(max: bool) -> Option<&'static Levels> {
    Some(match max {
        true => &Blocks::<Location<true, T, T, T>, N>::LEVELS,
        false => &Blocks::<Location<false, T, T, T>, N>::LEVELS,
    })
}

/// The kernels on pairs of these two representations; `None` where no predefined pair has them.
pub(super) fn kernels(max: bool, value: Representation, index: Representation) -> Option<&'static Levels> {
    use Representation::*;
    match (value, index) {
        (F32, F32) => word::<f32, f32>(max),
        (F32, I32) => word::<f32, i32>(max),
        (I32, I32) => word::<i32, i32>(max),
        (F64, F64) => long::<f64, f64, 16>(max),
        (F64, I32) => long::<f64, i32, 8>(max),
        (I64, I32) => long::<i64, i32, 8>(max),
        // Fortran's pairs, if its default kinds have other sizes than usual.
        (I8, I8) => twins::<i8, 1>(max),
        (I16, I16) => twins::<i16, 8>(max),
        (I64, I64) => twins::<i64, 8>(max),
        (I128, I128) => twins::<i128, 1>(max),
        (F128, F128) => twins::<Binary128, 1>(max),
        (I16, I32) => Some(match max {
            true => &Blocks::<Location<true, u32, i16, i32>, 8>::UP_TO_AVX2,
            false => &Blocks::<Location<false, u32, i16, i32>, 8>::UP_TO_AVX2,
        }),
        (LongDouble, I32) => Some(match max {
            true => &Blocks::<Location<true, [u64; 2], super::LongDouble, i32>, 1>::SCALAR,
            false => &Blocks::<Location<false, [u64; 2], super::LongDouble, i32>, 1>::SCALAR,
        }),
        _ => None,
    }
}
