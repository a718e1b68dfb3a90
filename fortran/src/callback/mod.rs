//! Callbacks that are written in Fortran: C gets a function of ours, which calls the user's as Fortran wants it, everything by reference.
//!
//! - [`keyvals`]: copy and delete functions of attributes
//! - [`cells`]: the values of attributes that were set in Fortran
//! - [`pool`]: functions of ours for callbacks that C gives no extra state: error handlers and operations
//! - [`predefined`]: `MPI_COMM_DUP_FN` and its like

pub mod cells;
pub mod keyvals;
pub mod pool;
pub mod predefined;

use std::mem;

use crate::abi::Function;

/// A procedure of the user's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Procedure(Function);

// SAFETY: it is the address of code.
unsafe impl Send for Procedure {}
// SAFETY: as above.
unsafe impl Sync for Procedure {}

impl Procedure {
    /// One that Fortran passed.
    pub fn new(function: Function) -> Self {
        Self(function)
    }

    /// As a function that can be called.
    ///
    /// # Safety
    /// `F` is the type of a function, and this procedure is of that type.
    pub unsafe fn typed<F: Copy>(self) -> F {
        const { assert!(size_of::<F>() == size_of::<Function>()) };
        // SAFETY: the caller's word; a function pointer is an address.
        unsafe { mem::transmute_copy(&self.0) }
    }
}
