//! The Rust side: the procedures that Fortran calls, on the functions of the C ABI.
//!
//! For each procedure of the table, and for its form with large counts, there is one generic function that converts the arguments and
//! calls C. Its parameter says whether it calls `MPI_Send` or `PMPI_Send`. The exported symbols call it:
//!
//! | symbol | for |
//! | --- | --- |
//! | `mpi_send_` | `mpif.h` and the module `mpi` |
//! | `mpi_comm_rank_f08_` | `mpi_f08`, where there are no buffers, or the compiler has no descriptors |
//! | `weft_mpi_send_f08ts` | `mpi_f08`: buffers by descriptor |
//! | `mpi_send_f08ts_` | a tool's procedure in Fortran (section 19.1.5): buffers by the compiler's own descriptor |
//! | `mpi_send_c_f08_`, `weft_mpi_send_c_f08ts`, … | the same with large counts |
//!
//! and likewise `pmpi_send_`, …, `weft_pmpi_send_f08ts`, which call `PMPI_Send`. So a profiler sees each call once, whether it is written in
//! Fortran or in C.
//!
//! If a program or a tool has a `mpi_send_f08ts_`, `weft_mpi_send_f08ts` calls that.
//!
//! What does not follow from the table is written by hand: [`BY_HAND`].
//!
//! - `library`: the functions of C
//! - `call`: the function that converts arguments and calls C
//! - `sections`: the one before it that is called where a buffer is not contiguous
//! - `exports`: the symbols

mod call;
mod exports;
mod library;
mod sections;

pub use exports::exported;

use crate::table::{Argument, Direction, Integer, Kind, Procedure, Returns, procedures};

/// The procedures that `weft_fortran::by_hand` has, each under the name that the table's would have.
pub const BY_HAND: &[&str] = &[
    "MPI_Aint_add",
    "MPI_Aint_diff",
    "MPI_Attr_get",
    "MPI_Attr_put",
    "MPI_Comm_create_errhandler",
    "MPI_Comm_create_keyval",
    "MPI_Comm_get_attr",
    "MPI_Comm_set_attr",
    "MPI_Comm_spawn",
    "MPI_Comm_spawn_multiple",
    "MPI_F_sync_reg",
    "MPI_File_create_errhandler",
    "MPI_File_get_view",
    "MPI_Grequest_start",
    "MPI_Info_create_env",
    "MPI_Info_get",
    "MPI_Info_get_string",
    "MPI_Init",
    "MPI_Init_thread",
    "MPI_Keyval_create",
    "MPI_Op_create",
    "MPI_Pcontrol",
    "MPI_Register_datarep",
    "MPI_Request_free",
    "MPI_Request_get_status",
    "MPI_Request_get_status_all",
    "MPI_Request_get_status_any",
    "MPI_Request_get_status_some",
    "MPI_Session_create_errhandler",
    "MPI_Session_get_nth_pset",
    "MPI_Session_init",
    "MPI_Sizeof",
    "MPI_Start",
    "MPI_Startall",
    "MPI_Status_f082f",
    "MPI_Status_f2f08",
    "MPI_Test",
    "MPI_Testall",
    "MPI_Testany",
    "MPI_Testsome",
    "MPI_Type_create_keyval",
    "MPI_Type_get_attr",
    "MPI_Type_set_attr",
    "MPI_Wait",
    "MPI_Waitall",
    "MPI_Waitany",
    "MPI_Waitsome",
    "MPI_Win_create_errhandler",
    "MPI_Win_create_keyval",
    "MPI_Win_get_attr",
    "MPI_Win_set_attr",
    "MPI_Wtick",
    "MPI_Wtime",
];

/// The whole file.
pub fn file() -> String {
    let mut out = String::from("// Written by weft-fortran-generator.\n\n");
    library::library(&mut out);
    for procedure in procedures() {
        for large in [false, true].into_iter().take(1 + usize::from(procedure.large)) {
            if !BY_HAND.contains(&procedure.name.as_str()) {
                call::body(&mut out, &procedure, large);
                if procedure.has_choice() {
                    sections::sections(&mut out, &procedure, large);
                }
            }
            exports::exports(&mut out, &procedure, large);
        }
    }
    out
}

/// The name of the function in Rust.
fn rust_name(procedure: &Procedure, large: bool) -> String {
    let size = if large { "_c" } else { "" };
    format!(
        "{}{size}",
        procedure.name.trim_start_matches("MPI_").to_lowercase()
    )
}

/// The type of an integer.
fn integer(kind: &Kind, large: bool) -> &'static str {
    let size = match kind {
        Kind::Integer(small, large_size) => {
            if large {
                *large_size
            } else {
                *small
            }
        }
        _ => Integer::Default,
    };
    match size {
        Integer::Default => "Int",
        Integer::Address => "Aint",
        Integer::Count => "Count",
        Integer::Offset => "Offset",
    }
}

/// The type of an argument as Fortran passes it.
fn fortran_type(argument: &Argument, large: bool, descriptors: bool) -> String {
    let pointer = if argument.direction == Direction::In {
        "*const"
    } else {
        "*mut"
    };
    match &argument.kind {
        Kind::Integer(..) | Kind::Weights => format!("{pointer} {}", integer(&argument.kind, large)),
        Kind::Logical | Kind::RawLogical => format!("{pointer} Logical"),
        Kind::Handle(_) => format!("{pointer} Int"),
        Kind::Status | Kind::OldStatus | Kind::NewStatus => "*mut Status".to_owned(),
        Kind::Choice if descriptors => "*const Descriptor".to_owned(),
        Kind::Choice => "*mut c_void".to_owned(),
        Kind::Pointer | Kind::Detached => "*mut *mut c_void".to_owned(),
        Kind::Memory => "*mut c_void".to_owned(),
        Kind::String if descriptors => "*const Descriptor".to_owned(),
        Kind::String | Kind::Strings | Kind::StringLists => "*mut c_char".to_owned(),
        Kind::Procedure(_) => "Function".to_owned(),
    }
}

fn is_text(argument: &Argument) -> bool {
    matches!(argument.kind, Kind::String | Kind::Strings | Kind::StringLists)
}

/// The parameters as Fortran passes them: the arguments, `ierror`, and the lengths of strings.
fn parameters(procedure: &Procedure, large: bool, descriptors: bool) -> String {
    let mut all: Vec<_> = procedure
        .arguments(large)
        .map(|argument| {
            format!(
                "{}: {}",
                rust_argument(argument),
                fortran_type(argument, large, descriptors)
            )
        })
        .collect();
    if procedure.returns == Returns::Error {
        all.push("ierror: *mut Int".to_owned());
    }
    if !descriptors {
        all.extend(
            procedure
                .arguments(large)
                .filter(|argument| is_text(argument))
                .map(|argument| format!("{}_length: usize", rust_argument(argument))),
        );
    }
    all.join(", ")
}

/// The name of an argument in Rust.
fn rust_argument(argument: &Argument) -> String {
    match argument.name.as_str() {
        "type" | "final" | "in" => format!("r#{}", argument.name),
        name => name.to_owned(),
    }
}
