//! Virtual topologies (MPI 5.0, chapter 8).

pub mod dims;
