//! The `external32` representation (MPI 5.0, section 14.5.2): big-endian, IEEE formats, no gaps.
//!
//! Data goes through the native packed form in small pieces: the layout finds the bytes, the signature has their types.
//! Sizes differ from native ones for `long` (4 bytes), `wchar_t` (2 bytes) and, in format only, `long double`,
//! which is IEEE binary128 there and the 80-bit format of the x87 here. Fortran's default kinds have their usual sizes there, whatever the
//! compiler was told, and what `MPI_Type_create_f90_real` and similar procedures return has the size that the standard gives to its precision
//! and range. So any integer or real number may be longer here or there. An integer that does not fit is an error, and so is a real number
//! that would become infinite; one with too many digits is rounded to nearest, ties to even.
//!
//! A truth value is 0 or 1 there, and any other is read as true. As long as the literals of the Fortran compiler are not known, a `LOGICAL` is
//! an integer.

use super::Datatype;
use super::basic::{Basic, Category, Representation};
use super::signature::Signature;
use crate::base::error::{Error, Result};
use crate::data::fortran::Booleans;
use crate::err;
use rustc_apfloat::ieee::{Double, Half, Quad, Single};
use rustc_apfloat::{Float, FloatConvert};

/// Native bytes converted at a time; every element size divides it.
const PIECE: usize = 2048;

impl Datatype {
    /// The bytes of `count` elements in `external32` (`MPI_Pack_external_size_c`).
    ///
    /// # Errors
    /// `MPI_ERR_VALUE_TOO_LARGE` where it does not fit in 63 bits.
    pub fn external_size(&self, count: u64) -> Result<u64> {
        let bytes = u128::from(self.signature.external_size()) * u128::from(count);
        i64::try_from(bytes).map(|bytes| bytes as u64).map_err(|_| {
            err!(
                ValueTooLarge,
                "{count} elements take {bytes} bytes in external32, which do not fit in 63 bits"
            )
        })
    }

    /// Packs `count` elements at `from` into the start of `into`; returns the bytes written.
    ///
    /// # Errors
    /// `MPI_ERR_TRUNCATE` if `into` is too short (nothing is written), `MPI_ERR_CONVERSION` for a number that does not
    /// fit in its external size.
    ///
    /// # Safety
    /// The data of the elements is readable, initialized, and does not lie in `into`.
    pub unsafe fn pack_external(&self, from: *const u8, count: u64, into: &mut [u8]) -> Result<usize> {
        let total = self.external_size(count)?;
        let Some(mut rest) = usize::try_from(total)
            .ok()
            .and_then(|total| into.get_mut(..total))
        else {
            return Err(err!(
                Truncate,
                "{count} elements take {total} bytes in external32, but outbuf has {} left",
                into.len()
            ));
        };
        let mut native = [0; PIECE];
        let mut offset = 0;
        self.convert(count, |basic, elements| {
            let (size, external) = (basic.size() as usize, usize::from(basic.external_size));
            let (part, behind) = std::mem::take(&mut rest).split_at_mut(elements * external);
            // SAFETY: the caller vouches for the data; `native` is a local.
            unsafe { self.pack(from, count, offset, &mut native[..elements * size]) };
            for (native, external) in native.chunks_exact(size).zip(part.chunks_exact_mut(external)) {
                to_external(basic, native, external)?;
            }
            offset += (elements * size) as u64;
            rest = behind;
            Ok(())
        })?;
        Ok(total as usize)
    }

    /// Unpacks `count` elements to `into` from the start of `from`; returns the bytes taken.
    ///
    /// # Errors
    /// `MPI_ERR_TRUNCATE` if `from` is too short (nothing is unpacked), `MPI_ERR_CONVERSION` for a number that does not fit in its
    /// size in memory.
    ///
    /// # Safety
    /// The data of the elements is writable, and does not lie in `from`.
    pub unsafe fn unpack_external(&self, into: *mut u8, count: u64, from: &[u8]) -> Result<usize> {
        let total = self.external_size(count)?;
        let Some(mut rest) = usize::try_from(total).ok().and_then(|total| from.get(..total)) else {
            return Err(err!(
                Truncate,
                "{count} elements take {total} bytes in external32, but inbuf has {} left",
                from.len()
            ));
        };
        let mut native = [0; PIECE];
        let mut offset = 0;
        self.convert(count, |basic, elements| {
            let (size, external) = (basic.size() as usize, usize::from(basic.external_size));
            let (part, behind) = rest.split_at(elements * external);
            for (native, external) in native.chunks_exact_mut(size).zip(part.chunks_exact(external)) {
                from_external(basic, external, native)?;
            }
            // SAFETY: the caller vouches for the memory; `native` is a local.
            unsafe { self.unpack(into, count, offset, &native[..elements * size]) };
            offset += (elements * size) as u64;
            rest = behind;
            Ok(())
        })?;
        Ok(total as usize)
    }

    /// Calls `piece` with runs of equal basic elements, in order, of at most [`PIECE`] bytes each.
    fn convert(&self, count: u64, mut piece: impl FnMut(Basic, usize) -> Result<()>) -> Result<()> {
        let mut failed: Option<Error> = None;
        let mut run = |basic: Basic, elements: u64| {
            let mut left = elements;
            while left > 0 && failed.is_none() {
                let now = left.min(PIECE as u64 / basic.size());
                failed = piece(basic, now as usize).err();
                left -= now;
            }
            failed.is_none()
        };
        match &*self.signature {
            Signature::Empty => {}
            // A run may be longer than one element of the datatype.
            Signature::Uniform { basic, count: inner } => {
                run(*basic, inner.saturating_mul(count));
            }
            signature => {
                let _ = (0..count).all(|_| signature.visit(&mut run));
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// One element in big-endian order from native order, or back.
fn swap(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
    if cfg!(target_endian = "little") {
        to.reverse();
    }
}

/// The same number in another number of bytes, both in big-endian order.
type Resize = fn(Basic, &[u8], &mut [u8]) -> Result<()>;

/// How a kind of element is converted.
struct Conversion {
    /// How many numbers an element is.
    parts: usize,
    /// From native order to big-endian order, and back. A `long double` is as long in both.
    to_big_endian: fn(&[u8], &mut [u8]),
    from_big_endian: fn(&[u8], &mut [u8]),
    resize: Resize,
}

/// The conversion of an element of so many bytes.
fn conversion(representation: Representation) -> Conversion {
    use Representation::*;
    let parts = match representation {
        ComplexF16 | ComplexF32 | ComplexF64 | ComplexLongDouble | ComplexF128 => 2,
        _ => 1,
    };
    match representation {
        LongDouble | ComplexLongDouble => Conversion {
            parts,
            to_big_endian: long_double_to_external,
            from_big_endian: long_double_from_external,
            resize: resize_real,
        },
        F16 | F32 | F64 | F128 | ComplexF16 | ComplexF32 | ComplexF64 | ComplexF128 => Conversion {
            parts,
            to_big_endian: swap,
            from_big_endian: swap,
            resize: resize_real,
        },
        I8 | U8 | I16 | U16 | I32 | U32 | I64 | U64 | I128 | L8 | L16 | L32 | L64 | L128 => Conversion {
            parts,
            to_big_endian: swap,
            from_big_endian: swap,
            resize: resize_integer,
        },
    }
}

/// The literals of a truth value, if it is one whose literals are known.
fn literals(basic: Basic) -> Option<Booleans> {
    use Representation::*;
    match basic.representation {
        L8 | L16 | L32 | L64 | L128 => Booleans::told(),
        // A C compiler trusts a `_Bool` to be 0 or 1.
        _ if basic.category == Category::Logical => Some(Booleans::USUAL),
        _ => None,
    }
}

fn to_external(basic: Basic, native: &[u8], external: &mut [u8]) -> Result<()> {
    if let Some(literals) = literals(basic) {
        external.fill(0);
        external[external.len() - 1] = u8::from(literals.is_true(native));
        return Ok(());
    }
    let conversion = conversion(basic.representation);
    let (size, external_size) = (native.len() / conversion.parts, external.len() / conversion.parts);
    for (native, external) in native
        .chunks_exact(size)
        .zip(external.chunks_exact_mut(external_size))
    {
        if size == external_size {
            (conversion.to_big_endian)(native, external);
        } else {
            let mut wide = [0; 16];
            (conversion.to_big_endian)(native, &mut wide[..size]);
            (conversion.resize)(basic, &wide[..size], external)?;
        }
    }
    Ok(())
}

fn from_external(basic: Basic, external: &[u8], native: &mut [u8]) -> Result<()> {
    if let Some(literals) = literals(basic) {
        let is_true = external.iter().any(|&byte| byte != 0);
        let literal = if is_true { literals.yes } else { literals.no };
        native.copy_from_slice(&Booleans::bytes(literal, native.len()));
        return Ok(());
    }
    let conversion = conversion(basic.representation);
    let (size, external_size) = (native.len() / conversion.parts, external.len() / conversion.parts);
    for (external, native) in external
        .chunks_exact(external_size)
        .zip(native.chunks_exact_mut(size))
    {
        if size == external_size {
            (conversion.from_big_endian)(external, native);
        } else {
            let mut wide = [0; 16];
            (conversion.resize)(basic, external, &mut wide[..size])?;
            (conversion.from_big_endian)(&wide[..size], native);
        }
    }
    Ok(())
}

/// An integer of another length.
fn resize_integer(basic: Basic, from: &[u8], to: &mut [u8]) -> Result<()> {
    match from.len().checked_sub(to.len()) {
        Some(left_out) => {
            let (high, low) = from.split_at(left_out);
            to.copy_from_slice(low);
            let wanted = extension(basic, low);
            match high.iter().all(|&byte| byte == wanted) {
                true => Ok(()),
                false => Err(does_not_fit(to.len())),
            }
        }
        None => {
            let (high, low) = to.split_at_mut(to.len() - from.len());
            high.fill(extension(basic, from));
            low.copy_from_slice(from);
            Ok(())
        }
    }
}

/// The bytes above a shortened big-endian integer: copies of its sign.
fn extension(basic: Basic, low: &[u8]) -> u8 {
    use Representation::*;
    let signed = basic.category != Category::Character
        && matches!(
            basic.representation,
            I8 | I16 | I32 | I64 | I128 | L8 | L16 | L32 | L64 | L128
        );
    if signed && low[0] & 0x80 != 0 { 0xff } else { 0 }
}

/// A real number in the IEEE format of another length.
fn resize_real(_: Basic, from: &[u8], to: &mut [u8]) -> Result<()> {
    let bits = from
        .iter()
        .fold(0u128, |value, &byte| value << 8 | u128::from(byte));
    let mut inexact = false;
    // Each number of a shorter format is one of the longest.
    let number: Quad = match from.len() {
        2 => Half::from_bits(bits).convert(&mut inexact).value,
        4 => Single::from_bits(bits).convert(&mut inexact).value,
        8 => Double::from_bits(bits).convert(&mut inexact).value,
        _ => Quad::from_bits(bits),
    };
    fn round<F: Float>(number: Quad) -> (u128, bool)
    where
        Quad: FloatConvert<F>,
    {
        let rounded = number.convert(&mut false).value;
        (rounded.to_bits(), rounded.is_finite() || !number.is_finite())
    }
    let (bits, fits) = match to.len() {
        2 => round::<Half>(number),
        4 => round::<Single>(number),
        8 => round::<Double>(number),
        _ => (number.to_bits(), true),
    };
    to.copy_from_slice(&bits.to_be_bytes()[16 - to.len()..]);
    if fits { Ok(()) } else { Err(does_not_fit(to.len())) }
}

#[cold]
fn does_not_fit(bytes: usize) -> Error {
    err!(
        Conversion,
        "a number does not fit in the {bytes} bytes that it would be converted to"
    )
}

/// The bits of the binary128 fraction that the x87's significand lacks.
#[cfg(target_arch = "x86_64")]
const FINER: u32 = 49;

/// From the 80-bit format to binary128, which holds each of its values: the exponents are the same, and the fraction is
/// longer.
#[cfg(target_arch = "x86_64")]
fn long_double_to_external(native: &[u8], external: &mut [u8]) {
    let word = |range: std::ops::Range<usize>| {
        native[range]
            .iter()
            .rev()
            .fold(0u64, |value, &byte| value << 8 | u64::from(byte))
    };
    let (significand, sign, exponent) = (word(0..8), word(8..10) >> 15, word(8..10) & 0x7fff);
    let (integer, fraction) = (significand >> 63, u128::from(significand << 1 >> 1) << FINER);
    let (exponent, fraction) = match (exponent, integer) {
        // A denormal number with the integer bit set is the smallest normal exponent.
        (0, integer) => (integer, fraction),
        // Without it, it is not a valid number to the x87 either.
        (_, 0) => (0x7fff, 1 << 111),
        (exponent, _) => (exponent, fraction),
    };
    let bits = u128::from(sign) << 127 | u128::from(exponent) << 112 | fraction;
    external.copy_from_slice(&bits.to_be_bytes());
}

/// From binary128 to the 80-bit format, rounded to nearest, ties to even.
#[cfg(target_arch = "x86_64")]
fn long_double_from_external(external: &[u8], native: &mut [u8]) {
    let bits = external
        .iter()
        .fold(0u128, |value, &byte| value << 8 | u128::from(byte));
    let (sign, mut exponent) = ((bits >> 127) as u16, (bits >> 112) as u16 & 0x7fff);
    let fraction = bits & ((1 << 112) - 1);
    let significand = if exponent == 0x7fff {
        let payload = (fraction >> FINER) as u64;
        // If all of the payload were lost, NaN would become infinity.
        let quiet = u64::from(fraction != 0) << 62;
        1 << 63 | payload | quiet
    } else {
        let (kept, lost) = (fraction >> FINER, fraction & ((1 << FINER) - 1));
        let half = 1 << (FINER - 1);
        let up = lost > half || (lost == half && kept & 1 == 1);
        let mut significand = (u128::from(exponent != 0) << 63 | kept) + u128::from(up);
        if significand >> 64 != 0 {
            significand >>= 1;
            exponent += 1;
        } else if exponent == 0 && significand >> 63 != 0 {
            exponent = 1;
        }
        significand as u64
    };
    native.fill(0);
    native[..8].copy_from_slice(&significand.to_le_bytes());
    native[8..10].copy_from_slice(&(sign << 15 | exponent).to_le_bytes());
}

/// Where `long double` is binary128 itself, only the order of bytes changes.
#[cfg(not(target_arch = "x86_64"))]
fn long_double_to_external(native: &[u8], external: &mut [u8]) {
    swap(native, external);
}

#[cfg(not(target_arch = "x86_64"))]
fn long_double_from_external(external: &[u8], native: &mut [u8]) {
    swap(external, native);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    fn basic(category: Category, representation: Representation, external_size: u8) -> Basic {
        Basic {
            category,
            representation,
            external_size,
        }
    }

    /// The element in `external32`, and what comes back.
    fn there_and_back(basic: Basic, native: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
        let mut external = vec![0xdd; basic.external_size.into()];
        to_external(basic, native, &mut external)?;
        let mut back = vec![0xdd; native.len()];
        from_external(basic, &external, &mut back)?;
        Ok((external, back))
    }

    #[test]
    fn a_real_number_is_rounded_to_the_size_that_it_has_there() {
        let wide = basic(Category::Floating, Representation::F64, 4);
        for number in [
            0.0,
            -0.0,
            1.0,
            0.1,
            -1e-40,
            1e-46,
            3.4e38,
            f64::INFINITY,
            f64::from(f32::MIN_POSITIVE),
        ] {
            let rounded = number as f32;
            let (external, back) = there_and_back(wide, &number.to_ne_bytes()).expect("it fits");
            assert_eq!(external, rounded.to_be_bytes(), "{number}");
            assert_eq!(back, f64::from(rounded).to_ne_bytes(), "{number}");
        }
        let (external, back) = there_and_back(wide, &f64::NAN.to_ne_bytes()).expect("any NaN will do");
        assert!(f32::from_be_bytes(external.try_into().expect("four bytes")).is_nan());
        assert!(f64::from_ne_bytes(back.try_into().expect("eight bytes")).is_nan());
        for number in [3.5e38f64, -1e300] {
            let error = there_and_back(wide, &number.to_ne_bytes()).unwrap_err();
            assert_eq!(error.class, Class::Conversion);
        }
    }

    #[test]
    fn a_real_number_may_be_longer_there() {
        let half = basic(Category::Floating, Representation::F16, 4);
        for bits in 0..=u16::MAX {
            let (external, back) = there_and_back(half, &bits.to_ne_bytes()).expect("it fits");
            let number = f32::from_be_bytes(external.try_into().expect("four bytes"));
            if !number.is_nan() {
                assert_eq!(back, bits.to_ne_bytes());
            }
        }
        let complex = basic(Category::Complex, Representation::ComplexF32, 16);
        let native = [1.5f32.to_ne_bytes(), (-2f32).to_ne_bytes()].concat();
        let (external, back) = there_and_back(complex, &native).expect("it fits");
        assert_eq!(external, [1.5f64.to_be_bytes(), (-2f64).to_be_bytes()].concat());
        assert_eq!(back, native);
        let double = basic(Category::Floating, Representation::F64, 16);
        let (external, back) = there_and_back(double, &(-0.1f64).to_ne_bytes()).expect("it fits");
        assert_eq!(external[..2], [0xbf, 0xfb]);
        assert_eq!(back, (-0.1f64).to_ne_bytes());
        // The 80-bit format, in a size that binary64 has.
        let extended = basic(Category::Floating, Representation::LongDouble, 8);
        let mut native = vec![0; 16];
        from_external(extended, &0.75f64.to_be_bytes(), &mut native).expect("it fits");
        let mut external = [0; 8];
        to_external(extended, &native, &mut external).expect("it fits");
        assert_eq!(external, 0.75f64.to_be_bytes());
    }

    #[test]
    fn an_integer_keeps_its_sign_or_does_not_fit() {
        let wide = basic(Category::FortranInteger, Representation::I64, 4);
        for number in [0, -1, i64::from(i32::MIN), i64::from(i32::MAX)] {
            let (external, back) = there_and_back(wide, &number.to_ne_bytes()).expect("it fits");
            assert_eq!(external, (number as i32).to_be_bytes());
            assert_eq!(back, number.to_ne_bytes());
        }
        let narrow = basic(Category::FortranInteger, Representation::I16, 4);
        let (external, back) = there_and_back(narrow, &(-300i16).to_ne_bytes()).expect("it fits");
        assert_eq!(
            (external, back),
            ((-300i32).to_be_bytes().to_vec(), (-300i16).to_ne_bytes().to_vec())
        );
        for (basic, number) in [(wide, 1 << 31), (wide, -(1 << 31) - 1)] {
            assert_eq!(
                there_and_back(basic, &i64::to_ne_bytes(number))
                    .unwrap_err()
                    .class,
                Class::Conversion
            );
        }
        let error = from_external(narrow, &40_000i32.to_be_bytes(), &mut [0; 2]).unwrap_err();
        assert_eq!(error.class, Class::Conversion);
    }

    #[test]
    fn a_logical_is_an_integer_until_the_literals_are_known() {
        let logical = basic(Category::Logical, Representation::L64, 4);
        let (external, back) = there_and_back(logical, &(-1i64).to_ne_bytes()).expect("it fits");
        assert_eq!((external, back), (vec![0xff; 4], vec![0xff; 8]));
    }
}
