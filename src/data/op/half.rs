//! IEEE binary16, Fortran's `REAL*2`: results are computed in single precision and rounded once, to nearest, ties to even.
//!
//! A sum or a product of two numbers is then the same as if it had been computed in half precision. Each part of a complex product is rounded once,
//! not after each of its operations.
//!
//! `MPI_MAX` and `MPI_MIN` compare the bits and need no conversion.

use super::kernels::{ComplexProduct, ComplexSum, FloatingProduct, FloatingSum};
use super::loops::{Blocks, Levels, Operation};
use super::predefined::PredefinedKind;
use std::marker::PhantomData;

/// The bits of a number.
type Bits = u16;

const SIGN: u16 = 0x8000;
const INFINITY: u16 = 0x7c00;

/// Conversion from and to single precision, of as many numbers as there are results.
trait Conversion {
    fn widen(numbers: &[Bits], results: &mut [f32]);
    /// Rounds to nearest, ties to even.
    fn narrow(numbers: &[f32], results: &mut [Bits]);
}

/// For machines without instructions for it.
#[cfg(not(target_arch = "aarch64"))]
mod software {
    use super::{Bits, Conversion, INFINITY, SIGN};

    /// By arithmetic on integers. NaNs become quiet and keep the upper bits of their payload, as with the instructions of processors.
    pub(super) struct Software;

    impl Conversion for Software {
        #[inline(always)]
        fn widen(numbers: &[Bits], results: &mut [f32]) {
            for (number, result) in numbers.iter().zip(results) {
                *result = widen(*number);
            }
        }

        #[inline(always)]
        fn narrow(numbers: &[f32], results: &mut [Bits]) {
            for (number, result) in numbers.iter().zip(results) {
                *result = narrow(*number);
            }
        }
    }

    /// How far apart the fractions of the two formats begin.
    const SHIFT: u32 = f32::MANTISSA_DIGITS - 11;
    /// The difference of the exponents' biases, in place.
    const REBIAS: u32 = (127 - 15) << 23;

    /// Without branches, so that it can be vectorised.
    #[inline(always)]
    fn widen(bits: Bits) -> f32 {
        let magnitude = u32::from(bits & !SIGN);
        let shifted = magnitude << SHIFT;
        let normal = shifted + REBIAS;
        // Infinities and NaNs have the highest exponent in both formats.
        let special = (shifted + 2 * REBIAS)
            | if magnitude > u32::from(INFINITY) {
                1 << 22
            } else {
                0
            };
        // As the fraction of a number with the exponent of the smallest normal one, which is then taken away.
        let smallest = 113 << 23;
        let subnormal = (f32::from_bits(shifted + smallest) - f32::from_bits(smallest)).to_bits();
        let result = if magnitude >= u32::from(INFINITY) {
            special
        } else if magnitude < 0x400 {
            subnormal
        } else {
            normal
        };
        f32::from_bits(result | u32::from(bits & SIGN) << 16)
    }

    /// Without branches, so that it can be vectorised.
    #[inline(always)]
    fn narrow(number: f32) -> Bits {
        let bits = number.to_bits();
        let sign = (bits >> 16) as u16 & SIGN;
        let magnitude = bits & 0x7fff_ffff;
        // Half of the last place that stays, less one bit if that place is even; a carry goes into the exponent.
        let rounded = magnitude.wrapping_add(0xfff + (magnitude >> SHIFT & 1));
        let normal = (rounded.wrapping_sub(REBIAS) >> SHIFT) as u16;
        // Adding a number of which the last place is the smallest subnormal number rounds there.
        let place = 0.5f32;
        let subnormal = (f32::from_bits(magnitude) + place)
            .to_bits()
            .wrapping_sub(place.to_bits()) as u16;
        let nan = 0x7e00 | (magnitude >> SHIFT) as u16 & 0x3ff;
        let result = if magnitude > 0x7f80_0000 {
            nan
        } else if magnitude >= 0x4780_0000 {
            // 65536 or more.
            INFINITY
        } else if magnitude < 0x3880_0000 {
            // Less than the smallest normal number, 2^-14.
            subnormal
        } else {
            normal
        };
        result | sign
    }
}

/// By the instructions of F16C, 8 numbers at a time. For kernels of the levels that have it alone.
#[cfg(target_arch = "x86_64")]
struct F16c;

#[cfg(target_arch = "x86_64")]
impl Conversion for F16c {
    #[inline(always)]
    fn widen(numbers: &[Bits], results: &mut [f32]) {
        use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
        for (results, numbers) in results.chunks_mut(8).zip(numbers.chunks(8)) {
            let (mut few, mut many) = ([0; 8], [0.0; 8]);
            few[..numbers.len()].copy_from_slice(numbers);
            // SAFETY: reads and writes 8 numbers; the kernel's level has F16C.
            unsafe {
                _mm256_storeu_ps(
                    many.as_mut_ptr(),
                    _mm256_cvtph_ps(_mm_loadu_si128(few.as_ptr().cast())),
                );
            }
            results.copy_from_slice(&many[..results.len()]);
        }
    }

    #[inline(always)]
    fn narrow(numbers: &[f32], results: &mut [Bits]) {
        use std::arch::x86_64::{
            _MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph, _mm256_loadu_ps,
        };
        for (results, numbers) in results.chunks_mut(8).zip(numbers.chunks(8)) {
            let (mut few, mut many) = ([0; 8], [0.0; 8]);
            many[..numbers.len()].copy_from_slice(numbers);
            // SAFETY: reads and writes 8 numbers; the kernel's level has F16C.
            unsafe {
                let narrow = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(many.as_ptr()));
                _mm_storeu_si128(few.as_mut_ptr().cast(), narrow);
            }
            results.copy_from_slice(&few[..results.len()]);
        }
    }
}

/// By the conversions of NEON, which every processor of the target has, 4 numbers at a time.
#[cfg(target_arch = "aarch64")]
struct Neon;

#[cfg(target_arch = "aarch64")]
impl Conversion for Neon {
    #[inline(always)]
    fn widen(numbers: &[Bits], results: &mut [f32]) {
        use std::arch::aarch64::{vcvt_f32_f16, vld1_u16, vreinterpret_f16_u16, vst1q_f32};
        for (results, numbers) in results.chunks_mut(4).zip(numbers.chunks(4)) {
            let (mut few, mut many) = ([0; 4], [0.0; 4]);
            few[..numbers.len()].copy_from_slice(numbers);
            // SAFETY: reads and writes 4 numbers.
            unsafe {
                let wide = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(few.as_ptr())));
                vst1q_f32(many.as_mut_ptr(), wide);
            }
            results.copy_from_slice(&many[..results.len()]);
        }
    }

    #[inline(always)]
    fn narrow(numbers: &[f32], results: &mut [Bits]) {
        use std::arch::aarch64::{vcvt_f16_f32, vld1q_f32, vreinterpret_u16_f16, vst1_u16};
        for (results, numbers) in results.chunks_mut(4).zip(numbers.chunks(4)) {
            let (mut few, mut many) = ([0; 4], [0.0; 4]);
            many[..numbers.len()].copy_from_slice(numbers);
            // SAFETY: reads and writes 4 numbers.
            unsafe {
                let narrow = vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(many.as_ptr())));
                vst1_u16(few.as_mut_ptr(), narrow);
            }
            results.copy_from_slice(&few[..results.len()]);
        }
    }
}

/// Not a NaN, and more than the other, which is none either.
#[inline(always)]
fn exceeds(a: Bits, b: Bits) -> bool {
    let is_number = |bits: Bits| bits & !SIGN <= INFINITY;
    // In the order of the numbers; zeros are equal.
    let key = |bits: Bits| {
        let magnitude = (bits & !SIGN).cast_signed();
        if bits & SIGN != 0 { -magnitude } else { magnitude }
    };
    is_number(a) & is_number(b) & (key(a) > key(b))
}

struct Max;

impl Operation for Max {
    type Element = Bits;

    #[inline(always)]
    fn combine(a: Bits, b: Bits) -> Bits {
        if exceeds(a, b) { a } else { b }
    }
}

struct Min;

impl Operation for Min {
    type Element = Bits;

    #[inline(always)]
    fn combine(a: Bits, b: Bits) -> Bits {
        if exceeds(b, a) { a } else { b }
    }
}

/// An operation by way of single precision.
struct Converted<O, C>(PhantomData<(O, C)>);

impl<O: Operation<Element = f32>, C: Conversion> Operation for Converted<O, C> {
    type Element = Bits;

    #[inline(always)]
    fn combine(a: Bits, b: Bits) -> Bits {
        Self::block([a], [b])[0]
    }

    #[inline(always)]
    fn block<const N: usize>(a: [Bits; N], mut b: [Bits; N]) -> [Bits; N] {
        let mut wide = [[0.0; N]; 2];
        C::widen(&a, &mut wide[0]);
        C::widen(&b, &mut wide[1]);
        C::narrow(&O::block(wide[0], wide[1]), &mut b);
        b
    }
}

/// The same for complex numbers: real part, imaginary part.
struct ComplexConverted<O, C>(PhantomData<(O, C)>);

impl<O: Operation<Element = [f32; 2]>, C: Conversion> Operation for ComplexConverted<O, C> {
    type Element = [Bits; 2];

    #[inline(always)]
    fn combine(a: [Bits; 2], b: [Bits; 2]) -> [Bits; 2] {
        Self::block([a], [b])[0]
    }

    #[inline(always)]
    fn block<const N: usize>(a: [[Bits; 2]; N], mut b: [[Bits; 2]; N]) -> [[Bits; 2]; N] {
        let mut wide = [[[0.0; 2]; N]; 2];
        C::widen(a.as_flattened(), wide[0].as_flattened_mut());
        C::widen(b.as_flattened(), wide[1].as_flattened_mut());
        C::narrow(O::block(wide[0], wide[1]).as_flattened(), b.as_flattened_mut());
        b
    }
}

/// What every machine of the target can do.
#[cfg(target_arch = "aarch64")]
type Baseline = Neon;
#[cfg(not(target_arch = "aarch64"))]
type Baseline = software::Software;

/// The levels of an operation that converts: by software where there are no instructions for it.
macro_rules! levels {
    ($converted:ident, $operation:ty, $n:literal) => {
        Some(
            const {
                &[
                    Blocks::<$converted<$operation, Baseline>, $n>::BASELINE,
                    #[cfg(target_arch = "x86_64")]
                    Blocks::<$converted<$operation, F16c>, $n>::AVX2,
                    #[cfg(target_arch = "x86_64")]
                    Blocks::<$converted<$operation, F16c>, $n>::AVX2,
                ]
            },
        )
    };
}

/// The kernels on real numbers.
pub(super) const fn real(kind: PredefinedKind) -> Option<&'static Levels> {
    match kind {
        PredefinedKind::Max => Some(&Blocks::<Max, 32>::LEVELS),
        PredefinedKind::Min => Some(&Blocks::<Min, 32>::LEVELS),
        PredefinedKind::Sum => levels!(Converted, FloatingSum<f32>, 16),
        PredefinedKind::Prod => levels!(Converted, FloatingProduct<f32>, 16),
        _ => None,
    }
}

/// The kernels on complex numbers.
pub(super) const fn complex(kind: PredefinedKind) -> Option<&'static Levels> {
    match kind {
        PredefinedKind::Sum => levels!(ComplexConverted, ComplexSum<f32>, 8),
        PredefinedKind::Prod => levels!(ComplexConverted, ComplexProduct<f32>, 8),
        _ => None,
    }
}
