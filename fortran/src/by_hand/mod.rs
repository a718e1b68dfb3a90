//! The procedures that do not follow from the table. Each has the name that the generator gives its like: `waitall` for `MPI_Waitall`,
//! `op_create_c` for `MPI_Op_create` with large counts; and gets what Fortran passes.

mod attributes;
mod data_representations;
mod errhandlers;
mod functions;
mod generalized;
mod operations;
mod removed;
mod requests;
mod spawn;
mod strings;
mod world;

pub use attributes::*;
pub use data_representations::*;
pub use errhandlers::*;
pub use functions::*;
pub use generalized::*;
pub use operations::*;
pub use requests::*;
pub use spawn::*;
pub use strings::*;
pub use world::*;
