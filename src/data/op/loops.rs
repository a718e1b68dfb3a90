//! The loops of the kernels, compiled once for each [`Level`].
//!
//! There is one source for all operations: it takes a block of `N` elements as an array, 64 bytes or so, out of each operand, combines them,
//! and stores the result, and the compiler makes vector instructions of a block. The loops tell it nothing else to vectorise: a fence for the
//! compiler alone, which costs no instruction, stands in each.
//!
//! A block is read whole before any of it is written, so the output may be one of the operands.

use super::level::Level;
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, compiler_fence};

/// Combines `count` elements: `inout[i] = input[i] op inout[i]`.
///
/// Safety: both point to `count` elements of the kernel's type, initialized, in memory that does not overlap. The machine has the instructions of the kernel's level.
pub(super) type Pairwise = unsafe fn(input: *const u8, inout: *mut u8, count: usize);

/// Combines `count` elements of `number` inputs, at least one: `output[i] = inputs[0][i] op (inputs[1][i] op …)`.
///
/// Safety: `inputs` points to `number` addresses of `count` elements of the kernel's type, initialized; `output` is as long, and is the same address as an
/// input or overlaps none. The machine has the instructions of the kernel's level.
pub(super) type Many = unsafe fn(inputs: *const *const u8, number: usize, output: *mut u8, count: usize);

/// The two forms of one operation on one type.
#[derive(Clone, Copy)]
pub(super) struct Kernels {
    pub pairwise: Pairwise,
    pub many: Many,
}

/// One operation on one type at each level.
pub(super) type Levels = [Kernels; Level::ALL.len()];

/// What a kernel does to two elements. Elements need no alignment.
pub(super) trait Operation {
    type Element: Copy;

    fn combine(a: Self::Element, b: Self::Element) -> Self::Element;

    /// [`combine`](Self::combine) of each two elements, in another form where the compiler makes better code of it.
    #[inline(always)]
    fn block<const N: usize>(a: [Self::Element; N], mut b: [Self::Element; N]) -> [Self::Element; N] {
        for (a, b) in a.into_iter().zip(&mut b) {
            *b = Self::combine(a, *b);
        }
        b
    }
}

/// A block's bytes of one short vector, which all targets have.
const SHORT: usize = 16;

/// Keeps the compiler from vectorising the loop around it, and from making a conditional store, which is slow on some
/// processors, out of a choice between what is loaded and what is already there.
#[inline(always)]
fn fence() {
    compiler_fence(Ordering::SeqCst);
}

/// A cache line.
const LINE: usize = 64;
/// For so many bytes it is worth it that blocks are stored in whole lines: then they take two thirds of the time.
const LONG: usize = 2 << 10;

/// How many of `count` elements are before the first cache line that begins with one; none if there are few.
#[inline(always)]
fn before_line<T>(address: *const u8, count: usize) -> usize {
    let bytes = (address as usize).wrapping_neg() % LINE;
    match bytes.is_multiple_of(size_of::<T>()) && count >= LONG / size_of::<T>() {
        true => bytes / size_of::<T>(),
        false => 0,
    }
}

/// # Safety
/// `at` holds `N` elements.
#[inline(always)]
unsafe fn load<T: Copy, const N: usize>(at: *const T) -> [T; N] {
    // SAFETY: as the caller says.
    unsafe { at.cast::<[T; N]>().read_unaligned() }
}

/// # Safety
/// `at` has room for `N` elements.
#[inline(always)]
unsafe fn store<T: Copy, const N: usize>(at: *mut T, block: [T; N]) {
    fence();
    // SAFETY: as the caller says.
    unsafe { at.cast::<[T; N]>().write_unaligned(block) };
}

/// # Safety
/// As [`Pairwise`].
#[inline(always)]
unsafe fn pairwise<O: Operation, const N: usize>(input: *const u8, inout: *mut u8, count: usize) {
    const { assert!(N.is_power_of_two() && N <= 64) };
    let (mut input, mut inout) = (input.cast::<O::Element>(), inout.cast::<O::Element>());
    let mut left = count;
    macro_rules! step {
        ($n:expr) => {
            // SAFETY: there are at least so many elements left in both.
            unsafe {
                store(inout, O::block::<{ $n }>(load(input), load(inout)));
                (input, inout) = (input.add($n), inout.add($n));
            }
        };
    }
    for _ in 0..before_line::<O::Element>(inout.cast(), count) {
        step!(1);
        left -= 1;
    }
    while left >= N {
        step!(N);
        left -= N;
    }
    // Fewer than `N`: halves of a block, as long as they fill a short vector.
    macro_rules! halves {
        ($($n:literal)*) => {$(
            if N > $n && $n * size_of::<O::Element>() >= SHORT && left & $n != 0 {
                step!($n);
                left -= $n;
            }
        )*};
    }
    halves!(32 16 8 4 2 1);
    while left > 0 {
        step!(1);
        left -= 1;
    }
}

/// # Safety
/// As [`Many`], for the `N` elements from the one of that index on.
#[inline(always)]
unsafe fn many_at<O: Operation, const N: usize>(
    inputs: *const *const u8,
    number: usize,
    output: *mut u8,
    index: usize,
) {
    // SAFETY: the caller vouches for the inputs and the output.
    unsafe {
        let block_of = |input: usize| load((*inputs.add(input)).cast::<O::Element>().add(index));
        let mut block: [O::Element; N] = block_of(number - 1);
        for input in (0..number - 1).rev() {
            fence();
            block = O::block(block_of(input), block);
        }
        store(output.cast::<O::Element>().add(index), block);
    }
}

/// # Safety
/// As [`Many`]; `S` elements fill a short vector, or are one.
#[inline(always)]
unsafe fn many<O: Operation, const N: usize, const S: usize>(
    inputs: *const *const u8,
    number: usize,
    output: *mut u8,
    count: usize,
) {
    let mut index = 0;
    // SAFETY: each step stays within `count` elements.
    unsafe {
        let before = before_line::<O::Element>(output, count);
        while S > 1 && before - index >= S {
            many_at::<O, S>(inputs, number, output, index);
            index += S;
        }
        while index < before {
            many_at::<O, 1>(inputs, number, output, index);
            index += 1;
        }
        while count - index >= N {
            many_at::<O, N>(inputs, number, output, index);
            index += N;
        }
        while S > 1 && count - index >= S {
            many_at::<O, S>(inputs, number, output, index);
            index += S;
        }
        while index < count {
            many_at::<O, 1>(inputs, number, output, index);
            index += 1;
        }
    }
}

/// The loops, compiled for a level.
macro_rules! compiled {
    ($pairwise_name:ident $many_name:ident $(, $features:literal)?) => {
        /// # Safety
        /// As [`Pairwise`].
        $(#[target_feature(enable = $features)])?
        unsafe fn $pairwise_name<O: Operation, const N: usize>(input: *const u8, inout: *mut u8, count: usize) {
            // SAFETY: as the caller says.
            unsafe { pairwise::<O, N>(input, inout, count) };
        }

        /// # Safety
        /// As [`Many`].
        $(#[target_feature(enable = $features)])?
        unsafe fn $many_name<O: Operation, const N: usize>(
            inputs: *const *const u8,
            number: usize,
            output: *mut u8,
            count: usize,
        ) {
            // SAFETY: as the caller says.
            unsafe {
                // The number of elements in a short vector.
                match SHORT / size_of::<O::Element>() {
                    2 if N > 2 => many::<O, N, 2>(inputs, number, output, count),
                    4 if N > 4 => many::<O, N, 4>(inputs, number, output, count),
                    8 if N > 8 => many::<O, N, 8>(inputs, number, output, count),
                    16 if N > 16 => many::<O, N, 16>(inputs, number, output, count),
                    _ => many::<O, N, 1>(inputs, number, output, count),
                }
            };
        }
    };
}

compiled!(pairwise_baseline many_baseline);
#[cfg(target_arch = "x86_64")]
compiled!(pairwise_avx2 many_avx2, "avx2,f16c");
#[cfg(target_arch = "x86_64")]
compiled!(pairwise_avx512 many_avx512, "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl");

/// The kernels of an operation in blocks of `N` elements.
pub(super) struct Blocks<O, const N: usize>(PhantomData<O>);

impl<O: Operation, const N: usize> Blocks<O, N> {
    pub const BASELINE: Kernels = Kernels {
        pairwise: pairwise_baseline::<O, N>,
        many: many_baseline::<O, N>,
    };
    #[cfg(target_arch = "x86_64")]
    pub const AVX2: Kernels = Kernels {
        pairwise: pairwise_avx2::<O, N>,
        many: many_avx2::<O, N>,
    };
    #[cfg(target_arch = "x86_64")]
    pub const AVX512: Kernels = Kernels {
        pairwise: pairwise_avx512::<O, N>,
        many: many_avx512::<O, N>,
    };

    /// At each level the loop that is compiled for it.
    pub const LEVELS: Levels = [
        Self::BASELINE,
        #[cfg(target_arch = "x86_64")]
        Self::AVX2,
        #[cfg(target_arch = "x86_64")]
        Self::AVX512,
    ];

    /// For operations of which the compiler makes worse code with AVX-512.
    pub const UP_TO_AVX2: Levels = [
        Self::BASELINE,
        #[cfg(target_arch = "x86_64")]
        Self::AVX2,
        #[cfg(target_arch = "x86_64")]
        Self::AVX2,
    ];

    /// For operations that there are no vector instructions for.
    pub const SCALAR: Levels = [Self::BASELINE; Level::ALL.len()];
}
