//! Weft: an MPI library on libfabric that implements the MPI 5.0 standard ABI.
//!
//! C, C++ and Fortran programs use `libmpi_abi.so.1`, whose procedures are in `src/abi`. A Rust program can do the same, or use
//! [`embedding`], which has no handles and no state of the process. All else is the library's own: tests see it with the
//! feature `sim`.
//!
//! `docs/architecture.md` is the map. The layers, from the top; each may use those below it, never those above
//! (`ci/checks/layers` holds the code to that):
//!
//! - `abi`: the C procedures; handles, arguments, error codes
//! - `objects`: what handles stand for: communicators, groups, collectives, windows, files, sessions, …
//! - `instance`: one MPI process: its lifetime, its tasks, waiting
//! - `engine`: matching, protocols, requests, progress
//! - `lane`: ways to carry messages
//! - `system`: libfabric, the launcher, hardware, memory of the operating system
//! - `data`: datatypes, reduction operations, the user's memory
//! - `identity`: names of processes and communication contexts
//! - `base`: errors, settings, and small tools that depend on nothing else

// What the public items show is public itself. Where tests see the inside, all modules are.
#![cfg_attr(not(feature = "sim"), deny(unnameable_types))]

#[cfg(not(feature = "sim"))]
mod abi;
#[cfg(not(feature = "sim"))]
mod base;
#[cfg(not(feature = "sim"))]
mod data;
#[cfg(not(feature = "sim"))]
mod engine;
#[cfg(not(feature = "sim"))]
mod identity;
#[cfg(not(feature = "sim"))]
mod instance;
#[cfg(not(feature = "sim"))]
mod lane;
#[cfg(not(feature = "sim"))]
mod objects;
#[cfg(not(feature = "sim"))]
mod system;

#[cfg(feature = "sim")]
pub mod abi;
#[cfg(feature = "sim")]
pub mod base;
#[cfg(feature = "sim")]
pub mod data;
#[cfg(feature = "sim")]
pub mod engine;
#[cfg(feature = "sim")]
pub mod identity;
#[cfg(feature = "sim")]
pub mod instance;
#[cfg(feature = "sim")]
pub mod lane;
#[cfg(feature = "sim")]
pub mod objects;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(feature = "sim")]
pub mod system;

pub mod embedding;
#[doc(hidden)]
pub mod tools;

pub use base::error::{Class, Error, Result};
