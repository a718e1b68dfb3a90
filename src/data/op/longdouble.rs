//! C's `long double` on x86-64: the 80-bit format of the x87 in 16 bytes, of which the last 6 have no meaning.
//!
//! Rust has no such type, so each operation loads its operands onto the x87's stack, computes there, and stores the
//! result, in one block of inline assembly that leaves the stack unchanged. That is what a C compiler does with a
//! `long double`, roundings included.

use super::kernels::Floating;
#[cfg(not(miri))]
use std::arch::asm;
use std::mem::MaybeUninit;

#[cfg(miri)]
use rustc_apfloat::{Float, ieee::X87DoubleExtended};

/// One `long double`. Its padding may never have been written.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(super) struct LongDouble(MaybeUninit<[u8; 16]>);

#[cfg(not(miri))]
macro_rules! arithmetic {
    ($name:ident, $instruction:literal) => {
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            // The 6 bytes of padding are the second operand's: the store leaves them.
            let mut result = other;
            // SAFETY: reads 10 bytes of each operand and writes 10 of the result, all of them 16 bytes long. The stack of the
            // x87 is empty before, as the calling convention has it, and after; its registers are declared as overwritten.
            unsafe {
                asm!(
                    "fld tbyte ptr [{a}]",
                    "fld tbyte ptr [{b}]",
                    $instruction,
                    "fstp tbyte ptr [{result}]",
                    a = in(reg) &raw const self.0,
                    b = in(reg) &raw const other.0,
                    result = in(reg) &raw mut result.0,
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                    options(nostack),
                );
            }
            result
        }
    };
}

#[cfg(not(miri))]
impl Floating for LongDouble {
    arithmetic!(add, "faddp st(1), st(0)");
    // st(1) = st(1) - st(0): the first operand, loaded first, minus the second.
    arithmetic!(subtract, "fsubp st(1), st(0)");
    arithmetic!(multiply, "fmulp st(1), st(0)");

    #[inline(always)]
    fn exceeds(self, other: Self) -> bool {
        let above: u8;
        // SAFETY: reads 10 bytes of each operand; the x87's stack is empty before and after.
        unsafe {
            asm!(
                "fld tbyte ptr [{b}]",
                "fld tbyte ptr [{a}]",
                // Carry and zero flag both clear: st(0) > st(1), neither of them NaN.
                "fucomip st(0), st(1)",
                "seta {above}",
                "fstp st(0)",
                a = in(reg) &raw const self.0,
                b = in(reg) &raw const other.0,
                above = out(reg_byte) above,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack, readonly),
            );
        }
        above != 0
    }
}

/// For Miri, which knows no inline assembly: by LLVM's arithmetic of constants, as `binary128`.
#[cfg(miri)]
impl Floating for LongDouble {
    fn add(self, other: Self) -> Self {
        other.with((self.number() + other.number()).value)
    }

    fn subtract(self, other: Self) -> Self {
        other.with((self.number() - other.number()).value)
    }

    fn multiply(self, other: Self) -> Self {
        other.with((self.number() * other.number()).value)
    }

    fn exceeds(self, other: Self) -> bool {
        self.number() > other.number()
    }
}

#[cfg(miri)]
impl LongDouble {
    fn number(self) -> X87DoubleExtended {
        let (significand, exponent) = self.parts();
        X87DoubleExtended::from_bits(u128::from(exponent) << 64 | u128::from(significand))
    }

    /// Another number with this one's padding.
    fn with(mut self, number: X87DoubleExtended) -> Self {
        let bytes: *mut u8 = self.0.as_mut_ptr().cast();
        let number = number.to_bits().to_le_bytes();
        // SAFETY: the first 10 of the 16 bytes.
        unsafe { bytes.copy_from_nonoverlapping(number.as_ptr(), 10) };
        self
    }
}

impl LongDouble {
    /// Significand, and exponent with the sign.
    fn parts(self) -> (u64, u16) {
        let start: *const u8 = self.0.as_ptr().cast();
        // SAFETY: the first 10 of the 16 bytes are the number, which was initialized.
        unsafe {
            (
                start.cast::<u64>().read_unaligned(),
                start.add(8).cast::<u16>().read_unaligned(),
            )
        }
    }

    /// Whether it is not NaN.
    pub(super) fn is_number(self) -> bool {
        let (significand, exponent) = self.parts();
        // The top bit of the significand is its integer part, 1 in infinities too.
        exponent & 0x7fff != 0x7fff || significand << 1 == 0
    }
}
