//! What the procedures of all chapters share.
//!
//! - `types`, `constants`: the standard ABI's types and numbers
//! - `procedure`: the macro by which each procedure is declared once
//! - `calls`: how a procedure is called, and what happens to its errors
//! - `handle`, `objects`: from handles to objects; `arguments`: checks of arguments
//! - `errors`, `status`: error codes; what is in an `MPI_Status`
//! - `check`: what a program leaves behind at MPI_Finalize
//!
//! What does not belong here: procedures, which are with their chapter, and what a Rust program without handles would need too
//! (`objects`).

pub mod arguments;
pub mod calls;
pub mod check;
pub mod constants;
pub mod errors;
pub mod handle;
pub mod objects;
pub mod procedure;
pub mod status;
pub mod types;
