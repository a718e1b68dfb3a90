//! Writes the Fortran interfaces of MPI 5.0 from one table of procedures:
//!
//! - [`modules`]: the modules `mpi_f08` and `mpi` and the include file `mpif.h`, in Fortran
//! - [`bindings`]: the procedures that those call, in Rust, on the C ABI
//! - [`calls`]: programs that call all of them, for tests
//! - [`compile`]: compiles the modules with the user's compiler
//! - [`table`]: the tables: `procedures.tsv`, `callbacks.tsv`, and the ABI's constants and functions
//!
//! What it writes is not in git. The build of `weft-fortran` runs it for the Rust part; `weft-fortran-modules` runs it for the Fortran
//! part, on the user's machine.

pub mod bindings;
pub mod calls;
pub mod compile;
pub mod modules;
pub mod table;
