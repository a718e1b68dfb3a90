//! What is known of the Fortran compiler of this process: the sizes of its default kinds, the optional kinds that it has, and the
//! literal values of `.TRUE.` and `.FALSE.` (MPI 5.0, section 20.4.1).
//!
//! The library is told once, by `MPI_Abi_set_fortran_info` and `MPI_Abi_set_fortran_booleans`, and then never forgets it. As long as it has not been
//! told, it takes the compiler for a usual one ([`Kinds::USUAL`], [`Booleans::USUAL`]).
//!
//! What does not belong here: which datatypes change with it (`datatype::predefined`), and info objects (`abi::abi_info`).

use crate::base::error::{Error, Result};
use crate::data::datatype::Datatype;
use crate::err;
use parking_lot::Mutex;
use std::sync::OnceLock;

/// The keys of default kinds and the sizes in bytes that such a kind can have.
const SIZES: [(&str, &[u8]); 4] = [
    ("mpi_logical_size", &[1, 2, 4, 8, 16]),
    ("mpi_integer_size", &[1, 2, 4, 8, 16]),
    ("mpi_real_size", &[4, 8, 16]),
    ("mpi_double_precision_size", &[4, 8, 16]),
];

/// The optional kinds: their keys, and the handle constants of their datatypes.
const OPTIONAL: [(&str, usize); 19] = [
    ("mpi_logical1_supported", 704),
    ("mpi_logical2_supported", 712),
    ("mpi_logical4_supported", 720),
    ("mpi_logical8_supported", 728),
    ("mpi_logical16_supported", 736),
    ("mpi_integer1_supported", 705),
    ("mpi_integer2_supported", 713),
    ("mpi_integer4_supported", 721),
    ("mpi_integer8_supported", 729),
    ("mpi_integer16_supported", 737),
    ("mpi_real2_supported", 714),
    ("mpi_real4_supported", 722),
    ("mpi_real8_supported", 730),
    ("mpi_real16_supported", 738),
    ("mpi_complex4_supported", 723),
    ("mpi_complex8_supported", 731),
    ("mpi_complex16_supported", 739),
    ("mpi_complex32_supported", 747),
    ("mpi_double_complex_supported", 541),
];

/// Weft's own key: whether there is a `REAL` in the format of C's `long double` (gfortran's and flang's `REAL(10)`), which
/// `MPI_Type_create_f90_real` then chooses before `REAL*16`.
const EXTENDED: &str = "weft_real10_supported";

/// The kinds of a Fortran compiler. Sizes are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kinds {
    /// Of the default `LOGICAL`.
    pub logical: u8,
    /// Of the default `INTEGER`.
    pub integer: u8,
    /// Of the default `REAL`.
    pub real: u8,
    /// Of `DOUBLE PRECISION`.
    pub double_precision: u8,
    /// Whether `selected_real_kind` finds a `REAL` in C's format of `long double`.
    pub has_extended: bool,
    /// Whether `selected_real_kind` finds a `REAL*2`, which few compilers have.
    pub has_half: bool,
    /// A bit for each entry of [`OPTIONAL`] that is not there.
    missing: u32,
}

impl Kinds {
    /// Of compilers without special options: `DOUBLE PRECISION` has 8 bytes, the others have 4. All optional datatypes can be used.
    pub const USUAL: Kinds = Kinds {
        logical: 4,
        integer: 4,
        real: 4,
        double_precision: 8,
        has_extended: true,
        has_half: false,
        missing: 0,
    };

    /// The kinds that the entries of an info object say, as `value` gives them. What has no entry is as usual.
    ///
    /// # Errors
    /// `MPI_ERR_INFO_VALUE` for a size that there is not, or a truth value other than `true` or `false`.
    pub fn of(value: impl Fn(&str) -> Option<String>) -> Result<Kinds> {
        let truth = |key: &str| match value(key) {
            None => Ok(None),
            Some(text) => match text.trim() {
                "true" => Ok(Some(true)),
                "false" => Ok(Some(false)),
                other => Err(err!(
                    InfoValue,
                    "{key} is '{other}'; it must be 'true' or 'false'"
                )),
            },
        };
        let mut kinds = Kinds::USUAL;
        for (place, (key, sizes)) in SIZES.into_iter().enumerate() {
            let Some(text) = value(key) else {
                continue;
            };
            let size = text.trim().parse().ok().filter(|size| sizes.contains(size));
            *kinds.sizes()[place] = size.ok_or_else(|| {
                let known: Vec<String> = sizes.iter().map(u8::to_string).collect();
                err!(
                    InfoValue,
                    "{key} is '{text}'; it must be one of {}",
                    known.join(", ")
                )
            })?;
        }
        for (place, (key, _)) in OPTIONAL.into_iter().enumerate() {
            let there = truth(key)?;
            if there == Some(false) {
                kinds.missing |= 1 << place;
            }
            if key == "mpi_real2_supported" {
                kinds.has_half = there == Some(true);
            }
        }
        kinds.has_extended = truth(EXTENDED)?.unwrap_or(Kinds::USUAL.has_extended);
        Ok(kinds)
    }

    /// The sizes in the order of [`SIZES`].
    fn sizes(&mut self) -> [&mut u8; 4] {
        [
            &mut self.logical,
            &mut self.integer,
            &mut self.real,
            &mut self.double_precision,
        ]
    }

    /// The entries of an info object that says all of it.
    pub fn entries(mut self) -> Vec<(String, String)> {
        let (missing, extended) = (self.missing, self.has_extended);
        let sizes = self.sizes().into_iter().zip(SIZES);
        let mut entries: Vec<_> = sizes
            .map(|(size, (key, _))| (key.to_owned(), size.to_string()))
            .collect();
        let optional = OPTIONAL.into_iter().enumerate();
        entries.extend(
            optional.map(|(place, (key, _))| (key.to_owned(), (missing >> place & 1 == 0).to_string())),
        );
        entries.push((EXTENDED.to_owned(), extended.to_string()));
        entries
    }

    /// Whether the compiler has what the predefined datatype of this handle constant stands for.
    pub fn has(self, handle: usize) -> bool {
        let place = OPTIONAL.iter().position(|optional| optional.1 == handle);
        place.is_none_or(|place| self.missing >> place & 1 == 0)
    }

    /// What the library was told, if it was.
    pub fn told() -> Option<Kinds> {
        KINDS.get().copied()
    }

    /// What the library was told, or the usual kinds.
    pub fn current() -> Kinds {
        Kinds::told().unwrap_or(Kinds::USUAL)
    }

    /// Tells the library. The predefined datatypes of Fortran are from now on those of these kinds; what was made of them before
    /// stays as it is.
    ///
    /// # Errors
    /// `MPI_ERR_ABI` if it was told before.
    pub fn tell(self) -> Result<()> {
        static TELLING: Mutex<()> = Mutex::new(());
        let _telling = TELLING.lock();
        if KINDS.get().is_some() {
            return Err(told_before("the kinds of Fortran have been set"));
        }
        Datatype::adopt_kinds(self);
        let _ = KINDS.set(self);
        Ok(())
    }
}

static KINDS: OnceLock<Kinds> = OnceLock::new();

fn told_before(what: &str) -> Error {
    err!(Abi, "{what} before, which can be done once")
}

/// The literal values of `.TRUE.` and `.FALSE.`, as numbers. A `LOGICAL` of any size has their lowest bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Booleans {
    /// `.TRUE.`.
    pub yes: i128,
    /// `.FALSE.`.
    pub no: i128,
}

impl Booleans {
    /// Of gfortran and LLVM's flang.
    pub const USUAL: Booleans = Booleans { yes: 1, no: 0 };

    /// The literals whose bytes, as this machine orders them, are these. Literals of another size are the same numbers with the
    /// sign extended, which holds for all compilers that we know.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if a `LOGICAL` of one byte could not tell them apart.
    pub fn of(logical_true: &[u8], logical_false: &[u8]) -> Result<Booleans> {
        let (yes, no) = (number(logical_true), number(logical_false));
        if yes as u8 == no as u8 {
            return Err(err!(
                Arg,
                "logical_true is {yes} and logical_false {no}; their lowest bytes must differ"
            ));
        }
        Ok(Booleans { yes, no })
    }

    /// The bytes of a literal of `size` bytes, 16 at most, in this machine's order.
    pub fn bytes(literal: i128, size: usize) -> Vec<u8> {
        let bytes = literal.to_ne_bytes();
        match cfg!(target_endian = "little") {
            true => bytes[..size].to_vec(),
            false => bytes[16 - size..].to_vec(),
        }
    }

    /// What the library was told, if it was.
    #[inline]
    pub fn told() -> Option<Booleans> {
        BOOLEANS.get().copied()
    }

    /// What the library was told, or the usual literals.
    #[inline]
    pub fn current() -> Booleans {
        Booleans::told().unwrap_or(Booleans::USUAL)
    }

    /// Tells the library.
    ///
    /// # Errors
    /// `MPI_ERR_ABI` if it was told before.
    pub fn tell(self) -> Result<()> {
        BOOLEANS
            .set(self)
            .map_err(|_| told_before("the literals of Fortran's LOGICAL have been set"))
    }

    /// Whether a `LOGICAL` of these bytes, in this machine's order, is true: all of them are looked at, and what is not the literal
    /// of `.FALSE.` is true.
    pub fn is_true(self, bytes: &[u8]) -> bool {
        bytes != Booleans::bytes(self.no, bytes.len())
    }
}

static BOOLEANS: OnceLock<Booleans> = OnceLock::new();

/// The number of up to 16 bytes, in this machine's order, with its sign.
fn number(bytes: &[u8]) -> i128 {
    let high_first = |value: u128, &byte: &u8| value << 8 | u128::from(byte);
    let value = match cfg!(target_endian = "little") {
        true => bytes.iter().rev().fold(0, high_first),
        false => bytes.iter().fold(0, high_first),
    };
    let unused = 128 - 8 * bytes.len() as u32;
    value.unbounded_shl(unused).cast_signed().unbounded_shr(unused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    fn kinds(entries: &[(&str, &str)]) -> Result<Kinds> {
        Kinds::of(|key| {
            let found = entries.iter().find(|entry| entry.0 == key)?;
            Some(found.1.to_owned())
        })
    }

    #[test]
    fn what_is_not_said_is_as_usual() {
        assert_eq!(kinds(&[]), Ok(Kinds::USUAL));
        assert_eq!(kinds(&[("colour", "blue")]), Ok(Kinds::USUAL));
        let wide = kinds(&[("mpi_integer_size", " 8 "), ("mpi_real_size", "16")]).expect("known sizes");
        assert_eq!(
            (wide.logical, wide.integer, wide.real, wide.double_precision),
            (4, 8, 16, 8)
        );
    }

    #[test]
    fn entries_say_what_was_told() {
        let told = kinds(&[
            ("mpi_logical_size", "8"),
            ("mpi_double_precision_size", "16"),
            ("mpi_integer16_supported", "false"),
            ("mpi_complex4_supported", "false"),
            ("mpi_real2_supported", "true"),
            ("weft_real10_supported", "false"),
        ])
        .expect("known values");
        assert!(!told.has(737) && !told.has(723) && told.has(738) && told.has(521));
        let entries = told.entries();
        assert_eq!(entries.len(), 24);
        let entries: Vec<_> = entries.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(kinds(&entries), Ok(told));
    }

    #[test]
    fn every_optional_key_has_the_datatype_of_its_name() {
        for (key, handle) in OPTIONAL {
            let datatype = Datatype::predefined(handle).expect("a predefined datatype");
            assert_eq!(key, format!("{}_supported", datatype.name().to_lowercase()));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (key, value) in [
            ("mpi_integer_size", "3"),
            ("mpi_integer_size", "four"),
            ("mpi_integer_size", "-4"),
            ("mpi_integer_size", "260"),
            ("mpi_real_size", "2"),
            ("mpi_logical_size", ""),
            ("mpi_double_precision_size", "32"),
            ("mpi_integer4_supported", "yes"),
            ("weft_real10_supported", "1"),
        ] {
            let error = kinds(&[(key, value)]).unwrap_err();
            assert_eq!(error.class, Class::InfoValue);
            assert!(
                error.message.contains(key) && error.message.contains(value),
                "{error}"
            );
        }
    }

    #[test]
    fn literals_are_numbers_with_a_sign() {
        let of = |yes: &[u8], no: &[u8]| Booleans::of(yes, no);
        assert_eq!(of(&1i32.to_ne_bytes(), &[0; 4]), Ok(Booleans::USUAL));
        let intel = Booleans { yes: -1, no: 0 };
        assert_eq!(of(&[0xff], &[0]), Ok(intel));
        assert_eq!(of(&[0xff; 8], &[0; 8]), Ok(intel));
        assert_eq!(of(&[0xff; 16], &[0; 16]), Ok(intel));
        assert_eq!(Booleans::bytes(-1, 8), [0xff; 8]);
        assert_eq!(Booleans::bytes(2, 4), 2i32.to_ne_bytes());
        for no in [1i16, 257] {
            assert_eq!(
                of(&1i16.to_ne_bytes(), &no.to_ne_bytes()).unwrap_err().class,
                Class::Arg
            );
        }
        assert!(intel.is_true(&256i32.to_ne_bytes()) && !intel.is_true(&[0; 16]));
        let inverse = Booleans { yes: 0, no: -1 };
        assert!(!inverse.is_true(&[0xff; 2]) && inverse.is_true(&[0xff, 0xfe]));
    }
}
