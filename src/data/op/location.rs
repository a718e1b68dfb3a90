//! Kernels of `MPI_MINLOC` and `MPI_MAXLOC` on pairs of a value and an index (MPI 5.0, section 6.9.4).
//!
//! If values are equal, the smaller index is the result. Where a value is NaN, no value exceeds the other and they are not equal:
//! the second operand stays.

use super::Kernel;
use super::binary128::Binary128;
use super::kernels::Floating;
#[cfg(target_arch = "x86_64")]
use super::longdouble::LongDouble as X87;
use crate::data::datatype::Representation;

/// A pair as C lays it out.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair<V, I> {
    value: V,
    index: I,
}

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

ordered!(i16 i32 i64 f32 f64);

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

/// # Safety
/// As [`Kernel`], for pairs of `V` and `I`.
unsafe fn each<const MAX: bool, V: Ordered, I: Ordered>(input: *const u8, inout: *mut u8, count: usize) {
    let (input, inout) = (input.cast::<Pair<V, I>>(), inout.cast::<Pair<V, I>>());
    for at in 0..count {
        // SAFETY: the caller vouches for `count` pairs in both; each field is read and written by itself, so that the
        // padding between them is left alone.
        unsafe {
            let (one, other) = (input.add(at), inout.add(at));
            let (a, i) = (
                (&raw const (*one).value).read_unaligned(),
                (&raw const (*one).index).read_unaligned(),
            );
            let (value, index) = (&raw mut (*other).value, &raw mut (*other).index);
            let (b, j) = (value.read_unaligned(), index.read_unaligned());
            if if MAX { a.above(b) } else { b.above(a) } {
                value.write_unaligned(a);
                index.write_unaligned(i);
            } else if a.equals(b) && j.above(i) {
                index.write_unaligned(i);
            }
        }
    }
}

fn of<V: Ordered, I: Ordered>(max: bool) -> Option<Kernel> {
    Some(if max {
        each::<true, V, I>
    } else {
        each::<false, V, I>
    })
}

/// The kernel on pairs of these two representations; `None` where no predefined pair has them.
pub(super) fn kernel(max: bool, value: Representation, index: Representation) -> Option<Kernel> {
    use Representation::*;
    match (value, index) {
        (F32, F32) => of::<f32, f32>(max),
        (F64, F64) => of::<f64, f64>(max),
        (F32, I32) => of::<f32, i32>(max),
        (F64, I32) => of::<f64, i32>(max),
        (I16, I32) => of::<i16, i32>(max),
        (I32, I32) => of::<i32, i32>(max),
        (I64, I32) => of::<i64, i32>(max),
        (LongDouble, I32) => of::<super::LongDouble, i32>(max),
        _ => None,
    }
}
