//! Types found by size or by precision (MPI 5.0, section 19.1.9): `MPI_Type_match_size` and
//! `MPI_Type_create_f90_real` and similar procedures.
//!
//! The kinds of numbers are those of Fortran compilers for this machine: binary32, binary64, C's `long double` and
//! binary128; integers of 1 to 16 bytes; without those that the compiler does not have ([`Kinds`]). As with `selected_real_kind`, the first
//! that suffices is taken.

use super::Datatype;
use super::basic::{Basic, Category, Element, Representation};
use super::envelope::{Argument, Combiner, Origin};
use super::layout::Layout;
use super::predefined::basic_bounds;
use super::signature::Signature;
use crate::base::error::Result;
use crate::data::fortran::Kinds;
use crate::err;
use std::sync::Arc;

/// `MPI_UNDEFINED`: no requirement.
const UNDEFINED: i32 = -32766;

/// The classes of `MPI_Type_match_size`, with the standard ABI's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum TypeClass {
    /// `MPIX_TYPECLASS_LOGICAL`.
    Logical = 191,
    /// `MPI_TYPECLASS_INTEGER`.
    Integer = 192,
    /// `MPI_TYPECLASS_REAL`.
    Real = 193,
    /// `MPI_TYPECLASS_COMPLEX`.
    Complex = 194,
}

impl TypeClass {
    /// The class of an ABI number.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for another number.
    pub fn from_abi(value: i32) -> Result<TypeClass> {
        match value {
            191 => Ok(TypeClass::Logical),
            192 => Ok(TypeClass::Integer),
            193 => Ok(TypeClass::Real),
            194 => Ok(TypeClass::Complex),
            _ => Err(err!(
                Arg,
                "typeclass is {value}; it must be MPI_TYPECLASS_INTEGER, _REAL or _COMPLEX"
            )),
        }
    }
}

/// Decimal digits, decimal exponent range, representation, and the named datatype of each kind of real number.
const REALS: [(i32, i32, Representation, usize); 5] = [
    (3, 4, Representation::F16, 714),
    (6, 37, Representation::F32, 722),
    (15, 307, Representation::F64, 730),
    (18, 4931, Representation::LongDouble, 0),
    (33, 4931, Representation::F128, 738),
];

/// Decimal range, representation and named datatype of each kind of integer.
const INTEGERS: [(i32, Representation, usize); 5] = [
    (2, Representation::I8, 705),
    (4, Representation::I16, 713),
    (9, Representation::I32, 721),
    (18, Representation::I64, 729),
    (38, Representation::I128, 737),
];

fn complex(real: Representation) -> Representation {
    match real {
        Representation::F16 => Representation::ComplexF16,
        Representation::F32 => Representation::ComplexF32,
        Representation::F64 => Representation::ComplexF64,
        Representation::LongDouble => Representation::ComplexLongDouble,
        _ => Representation::ComplexF128,
    }
}

/// The first kind of real number with `precision` digits and `range`, and its bytes in `external32`.
fn real(precision: i32, range: i32, kinds: Kinds) -> Result<(Representation, u8)> {
    if precision == UNDEFINED && range == UNDEFINED {
        return Err(err!(
            Arg,
            "precision and range are both MPI_UNDEFINED; one of them must be given"
        ));
    }
    for (name, value) in [("precision", precision), ("range", range)] {
        if value < 0 && value != UNDEFINED {
            return Err(err!(
                Arg,
                "{name} is {value}; it must be MPI_UNDEFINED or not negative"
            ));
        }
    }
    // MPI_UNDEFINED is below every precision and range.
    let kind = REALS.iter().find(|kind| {
        let is_there = match kind.2 {
            Representation::F16 => kinds.has_half,
            Representation::LongDouble => kinds.has_extended,
            _ => kinds.has(kind.3),
        };
        is_there && precision <= kind.0 && range <= kind.1
    });
    let kind = kind.ok_or_else(|| err!(Arg, "no real kind has precision {precision} and range {range}"))?;
    let external = match () {
        () if precision > 15 || range > 307 => 16,
        () if precision > 6 || range > 37 => 8,
        () => 4,
    };
    Ok((kind.2, external))
}

/// The first kind of integer with `range`, and its bytes in `external32`.
fn integer(range: i32, kinds: Kinds) -> Result<(Representation, u8)> {
    if range < 0 {
        return Err(err!(Arg, "range is {range}, but must not be negative"));
    }
    let kind = INTEGERS
        .iter()
        .find(|kind| kinds.has(kind.2) && range <= kind.0)
        .ok_or_else(|| err!(Arg, "no integer kind has range {range}"))?;
    let external = match range {
        19.. => 16,
        10.. => 8,
        5.. => 4,
        3.. => 2,
        _ => 1,
    };
    Ok((kind.1, external))
}

impl Datatype {
    /// `MPI_Type_match_size`: the sized Fortran type of this class and size in bytes.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if there is none.
    pub fn match_size(class: TypeClass, size: i32) -> Result<&'static Arc<Datatype>> {
        let handle = match (class, size) {
            (TypeClass::Logical, 1) => 704,
            (TypeClass::Logical, 2) => 712,
            (TypeClass::Logical, 4) => 720,
            (TypeClass::Logical, 8) => 728,
            (TypeClass::Logical, 16) => 736,
            (TypeClass::Integer, 1) => 705,
            (TypeClass::Integer, 2) => 713,
            (TypeClass::Integer, 4) => 721,
            (TypeClass::Integer, 8) => 729,
            (TypeClass::Integer, 16) => 737,
            (TypeClass::Real, 2) => 714,
            (TypeClass::Real, 4) => 722,
            (TypeClass::Real, 8) => 730,
            (TypeClass::Real, 16) => 738,
            (TypeClass::Complex, 4) => 723,
            (TypeClass::Complex, 8) => 731,
            (TypeClass::Complex, 16) => 739,
            (TypeClass::Complex, 32) => 747,
            _ => 0,
        };
        Datatype::predefined(handle)
            .ok_or_else(|| err!(Arg, "size is {size}; no {class:?} type has that size"))
    }

    /// `MPI_Type_create_f90_real`. Each call makes a new object: the caller, which must return one handle per pair of
    /// arguments, keeps the object.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` where no kind suffices.
    pub fn f90_real(precision: i32, range: i32) -> Result<Arc<Datatype>> {
        let (representation, external_size) = real(precision, range, Kinds::current())?;
        let basic = Basic {
            category: Category::Floating,
            representation,
            external_size,
        };
        Ok(unnamed(Combiner::F90Real, &[precision, range], basic))
    }

    /// `MPI_Type_create_f90_complex`; as [`f90_real`](Self::f90_real).
    ///
    /// # Errors
    /// `MPI_ERR_ARG` where no kind suffices.
    pub fn f90_complex(precision: i32, range: i32) -> Result<Arc<Datatype>> {
        let (part, part_size) = real(precision, range, Kinds::current())?;
        let basic = Basic {
            category: Category::Complex,
            representation: complex(part),
            external_size: 2 * part_size,
        };
        Ok(unnamed(Combiner::F90Complex, &[precision, range], basic))
    }

    /// `MPI_Type_create_f90_integer`; as [`f90_real`](Self::f90_real).
    ///
    /// # Errors
    /// `MPI_ERR_ARG` where no kind suffices.
    pub fn f90_integer(range: i32) -> Result<Arc<Datatype>> {
        let (representation, external_size) = integer(range, Kinds::current())?;
        let basic = Basic {
            category: Category::FortranInteger,
            representation,
            external_size,
        };
        Ok(unnamed(Combiner::F90Integer, &[range], basic))
    }
}

/// An unnamed predefined datatype.
fn unnamed(combiner: Combiner, arguments: &[i32], basic: Basic) -> Arc<Datatype> {
    Datatype::assemble_predefined(
        "",
        0,
        Some(Element::Basic(basic)),
        basic_bounds(basic),
        Arc::new(Layout::Run {
            offset: 0,
            len: basic.size(),
        }),
        Arc::new(Signature::Uniform { basic, count: 1 }),
        Origin::new(
            combiner,
            arguments.iter().map(|&value| Argument::Int(value)).collect(),
            Vec::new(),
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complex_number_has_parts_of_its_kind() {
        for (part, whole) in [
            (Representation::F16, Representation::ComplexF16),
            (Representation::F32, Representation::ComplexF32),
            (Representation::F64, Representation::ComplexF64),
            (Representation::LongDouble, Representation::ComplexLongDouble),
            (Representation::F128, Representation::ComplexF128),
        ] {
            assert_eq!(complex(part), whole);
        }
    }
}
