//! The library behind Weft's Fortran interfaces (`mpi_f08`, `mpi`, `mpif.h`): the procedures that Fortran calls, on the C ABI of MPI 5.0
//! and nothing else, so that any library of that ABI can serve them.
//!
//! - `bindings`: what the generator writes from the table of procedures (`fortran/generator/src/bindings` describes it)
//! - [`by_hand`]: the procedures that do not follow from the table: callbacks, attributes, requests, …
//! - [`callback`]: what C calls where a callback is written in Fortran
//! - [`errors`]: errors that are found here
//! - `sections`: array sections as buffers, by their descriptors
//! - `convert`: handles, logicals, strings, statuses
//! - `variables`: the constants that Fortran has as variables, such as `MPI_BOTTOM`
//! - `abi`: the types of the C ABI
//!
//! All that Fortran passes is passed by reference, and every function here relies on it that the caller's references are what the
//! interfaces say: `unsafe` is everywhere at this border, and nothing lives above it.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each function is called by Fortran, on whose arguments all rests"
)]

mod abi;
mod bindings;
mod by_hand;
mod callback;
mod convert;
mod errors;
mod sections;
mod variables;
