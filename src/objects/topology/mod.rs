//! Virtual topologies (MPI 5.0, chapter 8).
//!
//! - [`dims`]: sizes of Cartesian grids
//!
//! What does not belong here: where processes really are (`system::locality`), and dividing communicators by that (`management`).

pub mod dims;
