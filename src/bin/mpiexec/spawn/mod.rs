//! Jobs that ranks of this one start (MPI 5.0, section 11.8). Each has a head of its own, a second `mpiexec` that the first one starts as
//! `mpiexec --spawned-job FD` in a process group of its own: placement, agents, binding, output and the watchdog are those of any job. Over a
//! socket it gets what to start ([`messages`]), and says what became of that.
//!
//! - [`connection`]: the socket, from either side
//! - [`keys`]: what the user's hints say; [`soft`]: sets of numbers
//! - [`start`]: how the new head comes from its first message to a running job
//!
//! The first head's side is in `head::spawn`.

pub mod connection;
pub mod keys;
pub mod messages;
pub mod soft;
pub mod start;

/// The hidden option that makes `mpiexec` the head of a spawned job; the number of a descriptor follows.
pub const OPTION: &str = "--spawned-job";
