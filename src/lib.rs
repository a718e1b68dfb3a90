//! Weft: an MPI library on libfabric that implements the MPI 5.0 standard ABI.
//!
//! `docs/architecture.md` is the map. The layers, from the top; each may use those below it, never those above:
//!
//! - bindings: [`abi`]
//! - objects: [`datatype`], [`op`], communicators, groups, windows, files, sessions, …
//! - engine: progress, matching, protocols, waiting
//! - lanes: [`lane`]
//! - system: [`fabric`], [`bootstrap`], [`topology`]; raw FFI in its own crate, `sys/`

pub mod abi;
pub mod allocation;
pub mod attribute;
pub mod bootstrap;
pub mod bytes;
pub mod collective;
pub mod communicator;
pub mod datatype;
pub mod engine;
pub mod errhandler;
pub mod error;
pub mod fabric;
pub mod file;
pub mod info;
pub mod instance;
pub mod lane;
pub mod lock;
pub mod membarrier;
pub mod memory_kinds;
pub mod op;
pub mod output;
pub mod random;
pub mod session;
pub mod settings;
pub mod shared_memory;
#[cfg(feature = "sim")]
pub mod sim;
pub mod startup;
pub mod topology;
pub mod transports;
pub mod window;

pub use error::{Class, Error, Result};
