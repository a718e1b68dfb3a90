//! IEEE binary128 in software: Fortran's `REAL*16`, and C's `long double` on all targets but x86-64.
//!
//! Stable Rust has no such type, so LLVM's own arithmetic of constants (`rustc_apfloat`) is used: exact, then rounded to nearest, ties to
//! even, on every target alike. `cases.tsv` has the results of gcc's `__float128` for the same operands.
//!
//! What does not belong here: which operations there are and their loops (`kernels`, `location`), the x87's format (`longdouble`), and
//! conversion to and from `external32` (`data::datatype`).

use rustc_apfloat::Float;
use rustc_apfloat::ieee::Quad;

use super::kernels::Floating;

/// One number, in the byte order of the target.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Binary128(u128);

impl Binary128 {
    fn number(self) -> Quad {
        Quad::from_bits(self.0)
    }

    fn of(number: Quad) -> Binary128 {
        Binary128(number.to_bits())
    }

    /// Neither of them NaN.
    pub(super) fn equals(self, other: Self) -> bool {
        self.number() == other.number()
    }
}

impl Floating for Binary128 {
    fn add(self, other: Self) -> Self {
        Binary128::of((self.number() + other.number()).value)
    }

    fn subtract(self, other: Self) -> Self {
        Binary128::of((self.number() - other.number()).value)
    }

    fn multiply(self, other: Self) -> Self {
        Binary128::of((self.number() * other.number()).value)
    }

    fn exceeds(self, other: Self) -> bool {
        self.number() > other.number()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<u128> {
        (text != "NaN").then(|| u128::from_str_radix(text, 16).expect("hexadecimal"))
    }

    #[test]
    fn it_is_what_gcc_computes() {
        let mut cases = 0;
        for line in include_str!("cases.tsv").lines().skip(1) {
            let columns: Vec<&str> = line.split('\t').collect();
            let nan = Quad::NAN.to_bits();
            let operand = |at: usize| Binary128(parse(columns[at]).unwrap_or(nan));
            let (a, b) = (operand(0), operand(1));
            let results = [a.add(b), a.subtract(b), a.multiply(b)];
            for (result, expected) in results.into_iter().zip(&columns[2..5]) {
                let number = (!result.number().is_nan()).then_some(result.0);
                assert_eq!(number, parse(expected), "{line}");
            }
            assert_eq!(a.exceeds(b), columns[5] == "1", "{line}");
            assert_eq!(a.equals(b), columns[6] == "1", "{line}");
            cases += 1;
        }
        assert!(cases > 400);
    }
}
