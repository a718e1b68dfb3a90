//! The user's data: where its bytes are, how they are copied, and how they are combined. Nothing here communicates; only
//! this layer and the lanes touch the user's bytes.
//!
//! - [`datatype`]: layouts, packing and unpacking
//! - [`op`]: reduction operations and their kernels
//! - [`kind`]: kinds of memory
//! - [`memory`]: a buffer argument
//! - [`pieces`]: runs of its bytes, as lanes take them

pub mod datatype;
pub mod kind;
pub mod memory;
pub mod op;
pub mod pieces;
