//! The user's data: where its bytes are, how they are copied, and how they are combined. Nothing here communicates; only
//! this layer and the lanes touch the user's bytes.
//!
//! - [`datatype`]: layouts, packing and unpacking
//! - [`op`]: reduction operations and their kernels
//! - [`memory`]: a buffer argument, and which kind of memory it lies in
//! - [`pieces`]: the runs of bytes that a lane reads into or that a peer may read
//!
//! What does not belong here: handles and C types (`abi`), making memory readable for peers (`lane`), and memory that another process may
//! write to at any time (`base::bytes`).

pub mod datatype;
pub mod memory;
pub mod op;
pub mod pieces;
