//! What all other parts use and what itself needs no other part of Weft: errors, settings, and small tools. Nothing here
//! communicates or knows what MPI objects are.
//!
//! What does not belong here: names of processes and contexts (`identity`), what wraps libfabric, the launcher or memory files (`system`),
//! and a tool that one layer alone uses, which is in that layer.

pub mod attribute;
pub mod bytes;
pub mod error;
pub mod random;
pub mod settings;
#[cfg(any(test, feature = "sim"))]
pub mod skip;
pub mod slab;
pub mod startup;
