//! Kernels of the logical operations on Fortran's `LOGICAL`, in the literals of the compiler ([`Booleans`]).
//!
//! What is not the literal of `.FALSE.` is true, and results are one of the two literals. Compilers differ in what they make of other
//! values (some look at the lowest bit, some compare with zero), but only give the literals to a variable themselves.

use super::loops::{Blocks, Levels, Operation};
use super::predefined::PredefinedKind;
use crate::data::fortran::Booleans;
use std::marker::PhantomData;

/// The value of a `LOGICAL`.
trait Word: Copy + PartialEq {
    /// The lowest bytes of a literal.
    fn of(literal: i128) -> Self;
}

macro_rules! words {
    ($($type:ty)*) => {$(
        impl Word for $type {
            #[inline(always)]
            fn of(literal: i128) -> Self {
                literal as $type
            }
        }
    )*};
}

words!(i8 i16 i32 i64 i128);

/// An operation on truth values.
trait Truth {
    fn of(a: bool, b: bool) -> bool;
}

struct And;
struct Or;
struct Xor;

impl Truth for And {
    #[inline(always)]
    fn of(a: bool, b: bool) -> bool {
        a & b
    }
}

impl Truth for Or {
    #[inline(always)]
    fn of(a: bool, b: bool) -> bool {
        a | b
    }
}

impl Truth for Xor {
    #[inline(always)]
    fn of(a: bool, b: bool) -> bool {
        a ^ b
    }
}

struct Logical<T, O>(PhantomData<(T, O)>);

impl<T: Word, O: Truth> Operation for Logical<T, O> {
    type Element = T;

    #[inline(always)]
    fn combine(a: T, b: T) -> T {
        Self::block([a], [b])[0]
    }

    #[inline(always)]
    fn block<const N: usize>(a: [T; N], mut b: [T; N]) -> [T; N] {
        let literals = Booleans::current();
        let (yes, no) = (T::of(literals.yes), T::of(literals.no));
        for (a, b) in a.into_iter().zip(&mut b) {
            *b = if O::of(a != no, *b != no) { yes } else { no };
        }
        b
    }
}

const fn levels<T: Word, const N: usize>(kind: PredefinedKind) -> Option<&'static Levels> {
    match kind {
        PredefinedKind::Land => Some(&Blocks::<Logical<T, And>, N>::LEVELS),
        PredefinedKind::Lor => Some(&Blocks::<Logical<T, Or>, N>::LEVELS),
        PredefinedKind::Lxor => Some(&Blocks::<Logical<T, Xor>, N>::LEVELS),
        _ => None,
    }
}

/// The kernels on a `LOGICAL` of so many bytes.
pub(super) const fn kernels(kind: PredefinedKind, size: u64) -> Option<&'static Levels> {
    match size {
        1 => levels::<i8, 64>(kind),
        2 => levels::<i16, 32>(kind),
        4 => levels::<i32, 16>(kind),
        8 => levels::<i64, 8>(kind),
        _ => levels::<i128, 4>(kind),
    }
}
