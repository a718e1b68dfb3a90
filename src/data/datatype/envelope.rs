//! How a datatype was made: what `MPI_Type_get_envelope` and `MPI_Type_get_contents` report (MPI 5.0, section 5.1.13).

use super::Datatype;
use crate::base::error::Result;
use crate::err;
use std::sync::Arc;

/// The constructor, with the standard ABI's number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(i32)]
#[allow(missing_docs)] // The names are the standard's own.
pub enum Combiner {
    Named = 101,
    Dup = 102,
    Contiguous = 103,
    Vector = 104,
    Hvector = 105,
    Indexed = 106,
    Hindexed = 107,
    IndexedBlock = 108,
    HindexedBlock = 109,
    Struct = 110,
    Subarray = 111,
    Darray = 112,
    F90Real = 113,
    F90Complex = 114,
    F90Integer = 115,
    Resized = 116,
}

/// An argument of a constructor, by the C type that its two bindings give it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Argument {
    /// `int` in both.
    Int(i32),
    /// `int`, and `MPI_Count` in the `_c` form.
    Count(i64),
    /// `MPI_Aint`, and `MPI_Count` in the `_c` form.
    Address(i64),
}

/// The constructor call that made a datatype.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) combiner: Combiner,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) datatypes: Vec<Arc<Datatype>>,
    /// Whether the `_c` form was called.
    pub(crate) large: bool,
}

impl Origin {
    pub(crate) fn new(combiner: Combiner, arguments: Vec<Argument>, datatypes: Vec<Arc<Datatype>>) -> Origin {
        Origin {
            combiner,
            arguments,
            datatypes,
            large: false,
        }
    }
}

/// The four numbers and the combiner of `MPI_Type_get_envelope_c`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // The names are those of the procedure's arguments.
pub struct Envelope {
    pub integers: usize,
    pub addresses: usize,
    pub large_counts: usize,
    pub datatypes: usize,
    pub combiner: Combiner,
}

/// The arrays of `MPI_Type_get_contents_c`.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The names are those of the procedure's arguments.
pub struct Contents {
    pub integers: Vec<i32>,
    pub addresses: Vec<i64>,
    pub large_counts: Vec<i64>,
    pub datatypes: Vec<Arc<Datatype>>,
}

impl Datatype {
    /// Records that the `_c` form of the constructor was called, so that counts are reported as large counts.
    ///
    /// For the binding to call on what a constructor of this module just returned.
    pub fn made_large(mut self: Arc<Self>) -> Arc<Self> {
        if let Some(origin) = Arc::get_mut(&mut self).and_then(|new| Arc::get_mut(&mut new.origin)) {
            origin.large = true;
        }
        self
    }

    /// The constructor.
    #[cfg(feature = "sim")]
    pub fn combiner(&self) -> Combiner {
        self.origin.combiner
    }

    /// Whether any count is a large count, so that only the `_c` forms can report the envelope (section 5.1.13).
    pub fn has_large_counts(&self) -> bool {
        self.envelope().large_counts > 0
    }

    /// `MPI_Type_get_envelope_c`.
    pub fn envelope(&self) -> Envelope {
        let origin = &self.origin;
        let mut envelope = Envelope {
            integers: 0,
            addresses: 0,
            large_counts: 0,
            datatypes: origin.datatypes.len(),
            combiner: origin.combiner,
        };
        for argument in &origin.arguments {
            match argument {
                Argument::Int(_) => envelope.integers += 1,
                Argument::Count(_) | Argument::Address(_) if origin.large => envelope.large_counts += 1,
                Argument::Count(_) => envelope.integers += 1,
                Argument::Address(_) => envelope.addresses += 1,
            }
        }
        envelope
    }

    /// `MPI_Type_get_contents_c`. The binding gives each datatype a handle and checks the sizes of the user's arrays.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE` for a predefined datatype, which has no contents.
    pub fn contents(&self) -> Result<Contents> {
        let origin = &self.origin;
        if origin.combiner == Combiner::Named {
            return Err(err!(
                Type,
                "{} is a predefined datatype (MPI_COMBINER_NAMED) and has no contents",
                self.name()
            ));
        }
        let mut contents = Contents {
            integers: Vec::new(),
            addresses: Vec::new(),
            large_counts: Vec::new(),
            datatypes: origin.datatypes.clone(),
        };
        for &argument in &origin.arguments {
            match argument {
                Argument::Int(value) => contents.integers.push(value),
                Argument::Count(value) | Argument::Address(value) if origin.large => {
                    contents.large_counts.push(value)
                }
                // A constructor that was not called by its `_c` form was given an `int` here.
                Argument::Count(value) => contents.integers.push(value as i32),
                Argument::Address(value) => contents.addresses.push(value),
            }
        }
        Ok(contents)
    }
}
