//! The `external32` representation (MPI 5.0, section 14.5.2): big-endian, IEEE formats, no gaps.
//!
//! Data goes through the native packed form in small pieces: the layout finds the bytes, the signature has their types.
//! Sizes differ from native ones for `long` (4 bytes), `wchar_t` (2 bytes) and, in format only, `long double`,
//! which is IEEE binary128 there and the 80-bit format of the x87 here.

use super::Datatype;
use super::basic::{Basic, Category, Representation};
use super::signature::Signature;
use crate::base::error::{Error, Result};
use crate::err;

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
    /// `MPI_ERR_TRUNCATE` if `from` is too short (nothing is unpacked).
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
                from_external(basic, external, native);
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

/// Applies a conversion to the real and the imaginary part.
fn halves(from: &[u8], to: &mut [u8], convert: impl Fn(&[u8], &mut [u8])) {
    let (middle_from, middle_to) = (from.len() / 2, to.len() / 2);
    convert(&from[..middle_from], &mut to[..middle_to]);
    convert(&from[middle_from..], &mut to[middle_to..]);
}

fn to_external(basic: Basic, native: &[u8], external: &mut [u8]) -> Result<()> {
    use Representation::*;
    match basic.representation {
        ComplexF16 | ComplexF32 | ComplexF64 | ComplexF128 => halves(native, external, swap),
        LongDouble => long_double_to_external(native, external),
        ComplexLongDouble => halves(native, external, long_double_to_external),
        _ if external.len() < native.len() => {
            let mut wide = [0; 16];
            let wide = &mut wide[..native.len()];
            swap(native, wide);
            let (high, low) = wide.split_at(native.len() - external.len());
            external.copy_from_slice(low);
            if high.iter().any(|&byte| byte != extension(basic, low)) {
                return Err(err!(
                    Conversion,
                    "a number does not fit in the {} bytes that external32 has for its type",
                    external.len()
                ));
            }
        }
        _ => swap(native, external),
    }
    Ok(())
}

fn from_external(basic: Basic, external: &[u8], native: &mut [u8]) {
    use Representation::*;
    match basic.representation {
        ComplexF16 | ComplexF32 | ComplexF64 | ComplexF128 => halves(external, native, swap),
        LongDouble => long_double_from_external(external, native),
        ComplexLongDouble => halves(external, native, long_double_from_external),
        // Any byte but 0 is true; a C compiler trusts a `_Bool` to be 0 or 1.
        U8 if basic.category == Category::Logical => native[0] = u8::from(external[0] != 0),
        _ if external.len() < native.len() => {
            let mut wide = [extension(basic, external); 16];
            let wide = &mut wide[..native.len()];
            wide[native.len() - external.len()..].copy_from_slice(external);
            swap(wide, native);
        }
        _ => swap(external, native),
    }
}

/// The bytes above a shortened big-endian integer: copies of its sign.
fn extension(basic: Basic, low: &[u8]) -> u8 {
    let signed = basic.category != Category::Character
        && matches!(
            basic.representation,
            Representation::I16 | Representation::I32 | Representation::I64
        );
    if signed && low[0] & 0x80 != 0 { 0xff } else { 0 }
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
