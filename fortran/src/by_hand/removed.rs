//! The procedures of MPI-1 that MPI 3.0 removed and programs still call without an interface: `mpi_address_` and its like. They call what
//! has replaced them, and their addresses are default integers, so one that does not fit is an error.
