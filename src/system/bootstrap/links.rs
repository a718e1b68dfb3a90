//! Links: sockets between two jobs that stay open for as long as these are connected (MPI 5.0 section 11.10.4). Over one of them a job
//! tells the other that it was aborted; and where one ends without a goodbye, the other job is gone.
//!
//! What does not belong here: how a link is made (`system::port`), and those that `mpiexec` watches (`bin/mpiexec`).

pub mod words;

pub use words::{Word, Words};
