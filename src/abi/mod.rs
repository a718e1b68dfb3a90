//! The C bindings: one file per chapter of the standard.
//!
//! - `types`, `constants`: the standard ABI's types and numbers
//! - `procedure`: the macro by which each procedure is declared once
//! - `library`: the one instance that the process has; `process`: the World Model, and what happens to errors
//! - `handle`, `objects`: from handles to objects; checks of arguments
//! - `errors`, `status`: error codes; what is in an `MPI_Status`. `added`: error classes and codes of the user's
//! - `short`: the short way of the calls that programs make most
//! - `check`: what a program leaves behind at MPI_Finalize
//! - the chapters; `trivial` (what needs no library behind it) and `unsupported` (what is not built yet)

use std::ffi::c_int;

mod added;
mod attribute;
mod buffered;
mod check;
mod collective;
mod communicator;
pub mod constants;
mod datatype;
mod environment;
pub mod errors;
mod exchange;
mod file;
mod generalized;
pub mod handle;
mod hardware;
mod info;
mod intercommunicator;
mod library;
pub mod objects;
mod op;
mod partitioned;
mod persistent;
mod point_to_point;
mod procedure;
pub mod process;
mod request;
mod session;
mod short;
mod status;
mod topology;
mod trivial;
pub mod types;
pub mod unsupported;
mod window;

/// A procedure that is not built yet says so through the error handler of `MPI_COMM_SELF`.
#[cold]
fn unsupported_call(procedure: &'static str) -> c_int {
    process::local(procedure, || Err(unsupported_error()))
}

/// The same through the error handler of a communicator.
#[cold]
fn unsupported_comm_call(procedure: &'static str, handle: types::MPI_Comm) -> c_int {
    process::comm(handle, procedure, || {
        objects::communicator(handle)?;
        Err(unsupported_error())
    })
}

/// The same through the error handler of a window.
#[cold]
fn unsupported_win_call(procedure: &'static str, handle: types::MPI_Win) -> c_int {
    process::win(handle, procedure, || {
        objects::window(handle)?;
        Err(unsupported_error())
    })
}

/// The same through the error handler of a file.
#[cold]
fn unsupported_file_call(procedure: &'static str, handle: types::MPI_File) -> c_int {
    process::file(handle, procedure, || {
        objects::file(handle)?;
        Err(unsupported_error())
    })
}

/// The same of a procedure that concerns files and has none.
#[cold]
fn unsupported_call_without_file(procedure: &'static str) -> c_int {
    process::no_file(procedure, || Err(unsupported_error()))
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
