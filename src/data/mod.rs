//! The user's data: where its bytes are, how they are copied, and how they are combined. Nothing here communicates; only
//! this layer and the lanes touch the user's bytes.
//!
//! - [`datatype`]: layouts, packing and unpacking
//! - [`fortran`]: what is known of the Fortran compiler
//! - [`op`]: reduction operations and their kernels
//! - [`kind`]: kinds of memory
//! - [`memory`]: a buffer argument
//! - [`pieces`]: runs of its bytes, as lanes take them
//!
//! What does not belong here: handles and C types (`abi`), making memory readable for peers (`lane`), and memory that another process may
//! write to at any time (`base::bytes`).

pub mod datatype;
pub mod fortran;
pub mod kind;
pub mod memory;
pub mod op;
pub mod pieces;
