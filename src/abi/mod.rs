//! The C bindings: a folder or file for each chapter of the standard. Handles, arguments and error codes are here; the
//! objects are in the layers below.
//!
//! - [`common`]: what the procedures of all chapters share
//! - `point_to_point` (chapters 3 and 4), `datatype` (5), `collective` (6), `communicator` (7), `topology` (8),
//!   `environment` (9), `info` (10), [`process`] (11), `window` (12), `external` (13), `file` (14), `abi_info` (20)
//! - `trivial`: procedures that need no instance; [`unsupported`]: what is not built yet
//!
//! What does not belong here: what a Rust program without handles would need too (`objects`, `instance`).

use std::ffi::c_int;

mod abi_info;
mod collective;
pub mod common;
mod communicator;
mod datatype;
mod environment;
mod external;
mod file;
mod info;
mod one_sided;
mod point_to_point;
pub mod process;
mod topology;
mod trivial;
pub mod unsupported;
mod window;

use common::{calls, constants, objects, types};

/// A procedure that is not built yet raises an error through the error handler of its file.
#[cold]
fn unsupported_file_call(procedure: &'static str, handle: types::MPI_File) -> c_int {
    calls::file(handle, procedure, || {
        objects::file(handle)?;
        Err(unsupported_error())
    })
}

/// The same for a procedure that concerns files and has no file argument.
#[cold]
fn unsupported_call_without_file(procedure: &'static str) -> c_int {
    calls::no_file(procedure, || Err(unsupported_error()))
}

/// A procedure of the tool interface that is not built yet. It may be called at any time, and never calls an error handler
/// (section 15.3.10).
#[cold]
fn unsupported_tool_call(procedure: &'static str) -> c_int {
    match procedure {
        "MPI_T_init_thread" => constants::MPI_T_ERR_NOT_SUPPORTED,
        _ => constants::MPI_T_ERR_NOT_INITIALIZED,
    }
}

fn unsupported_error() -> crate::Error {
    crate::err!(
        UnsupportedOperation,
        "this version of Weft does not have the procedure yet (docs/unsupported.md lists those)"
    )
}
