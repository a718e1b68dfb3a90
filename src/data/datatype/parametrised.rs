//! Types found by size or by precision (MPI 5.0, sections 19.1.8 to 19.1.11): `MPI_Type_match_size` and
//! `MPI_Type_create_f90_real` and similar procedures.
//!
//! The kinds of numbers are those of Fortran compilers for this machine: binary32, binary64, C's `long double` and
//! binary128; integers of 1 to 16 bytes.

use super::Datatype;
use super::basic::{Basic, Category, Element, Representation};
use super::envelope::{Argument, Combiner, Origin};
use super::layout::Layout;
use super::predefined::basic_bounds;
use super::signature::Signature;
use crate::base::error::Result;
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

/// Decimal digits, decimal exponent range, representation, of each kind of real number.
const REALS: [(i32, i32, Representation); 4] = [
    (6, 37, Representation::F32),
    (15, 307, Representation::F64),
    (18, 4931, Representation::LongDouble),
    (33, 4931, Representation::F128),
];

/// Decimal range and representation of each kind of integer.
const INTEGERS: [(i32, Representation); 5] = [
    (2, Representation::I8),
    (4, Representation::I16),
    (9, Representation::I32),
    (18, Representation::I64),
    (38, Representation::I128),
];

fn complex(real: Representation) -> Representation {
    match real {
        Representation::F32 => Representation::ComplexF32,
        Representation::F64 => Representation::ComplexF64,
        Representation::LongDouble => Representation::ComplexLongDouble,
        _ => Representation::ComplexF128,
    }
}

/// The first kind of real number with `precision` digits and `range`.
fn real(precision: i32, range: i32) -> Result<Representation> {
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
    let kind = REALS.iter().find(|kind| precision <= kind.0 && range <= kind.1);
    kind.map(|kind| kind.2)
        .ok_or_else(|| err!(Arg, "no real kind has precision {precision} and range {range}"))
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
        let arguments = &[precision, range];
        Ok(unnamed(
            Combiner::F90Real,
            arguments,
            Category::Floating,
            real(precision, range)?,
        ))
    }

    /// `MPI_Type_create_f90_complex`; as [`f90_real`](Self::f90_real).
    ///
    /// # Errors
    /// `MPI_ERR_ARG` where no kind suffices.
    pub fn f90_complex(precision: i32, range: i32) -> Result<Arc<Datatype>> {
        let representation = complex(real(precision, range)?);
        Ok(unnamed(
            Combiner::F90Complex,
            &[precision, range],
            Category::Complex,
            representation,
        ))
    }

    /// `MPI_Type_create_f90_integer`; as [`f90_real`](Self::f90_real).
    ///
    /// # Errors
    /// `MPI_ERR_ARG` where no kind suffices.
    pub fn f90_integer(range: i32) -> Result<Arc<Datatype>> {
        if range < 0 {
            return Err(err!(Arg, "range is {range}, but must not be negative"));
        }
        let kind = INTEGERS.iter().find(|kind| range <= kind.0);
        let kind = kind.ok_or_else(|| err!(Arg, "range is {range}; no integer kind has more than 38"))?;
        Ok(unnamed(
            Combiner::F90Integer,
            &[range],
            Category::FortranInteger,
            kind.1,
        ))
    }
}

/// An unnamed predefined datatype.
fn unnamed(
    combiner: Combiner,
    arguments: &[i32],
    category: Category,
    representation: Representation,
) -> Arc<Datatype> {
    let basic = Basic {
        category,
        representation,
        external_size: representation.size() as u8,
    };
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
            (Representation::F32, Representation::ComplexF32),
            (Representation::F64, Representation::ComplexF64),
            (Representation::LongDouble, Representation::ComplexLongDouble),
            (Representation::F128, Representation::ComplexF128),
        ] {
            assert_eq!(complex(part), whole);
        }
    }
}
