//! Weft: an MPI library on libfabric that implements the MPI 5.0 standard ABI.
//!
//! `docs/architecture.md` is the map. The layers, from the top; each may use those below it, never those above
//! (`ci/checks/layers` holds the `use` lines to that):
//!
//! - [`abi`]: the C procedures; handles, arguments, error codes
//! - [`objects`]: what handles stand for: communicators, groups, collectives, windows, files, sessions, …
//! - [`instance`]: one MPI process: its lifetime, its tasks, waiting
//! - [`engine`]: matching, protocols, requests, progress
//! - [`lane`]: ways to carry messages
//! - [`system`]: libfabric, the launcher, hardware, memory of the operating system
//! - [`data`]: datatypes, reduction operations, the user's memory
//! - [`identity`]: names of processes and communication contexts
//! - [`base`]: errors, settings, and what else needs nobody

pub mod abi;
pub mod base;
pub mod data;
pub mod engine;
pub mod identity;
pub mod instance;
pub mod lane;
pub mod objects;
#[cfg(feature = "sim")]
pub mod sim;
pub mod system;

pub use base::error::{Class, Error, Result};
