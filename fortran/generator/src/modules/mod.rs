//! The Fortran side: the modules and the include file.
//!
//! - [`types`]: the module `weft_mpi_types`, which the two others share: kinds, handle types, numbers
//! - [`f08`]: the module `mpi_f08`
//! - [`mpi`]: the module `mpi`
//! - [`include`]: the file `mpif.h`

pub mod f08;
pub mod include;
pub mod mpi;
pub mod types;

use crate::table::{Argument, Constant, Direction, Integer, Kind, Procedure};

/// What a compiler can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// It passes `TYPE(*), DIMENSION(..)` as a descriptor that the library reads. Otherwise buffers are passed by their addresses,
    /// and `MPI_SUBARRAYS_SUPPORTED` is false.
    pub descriptors: bool,
}

/// Fortran's constants that are variables, since a procedure knows them by their address. Each is in a common block of its own,
/// `weft_` and the name here, that the library has too.
pub const VARIABLES: [(&str, &str); 10] = [
    ("MPI_BOTTOM", "bottom"),
    ("MPI_IN_PLACE", "in_place"),
    ("MPI_BUFFER_AUTOMATIC", "buffer_automatic"),
    ("MPI_STATUS_IGNORE", "status_ignore"),
    ("MPI_STATUSES_IGNORE", "statuses_ignore"),
    ("MPI_ERRCODES_IGNORE", "errcodes_ignore"),
    ("MPI_ARGV_NULL", "argv_null"),
    ("MPI_ARGVS_NULL", "argvs_null"),
    ("MPI_UNWEIGHTED", "unweighted"),
    ("MPI_WEIGHTS_EMPTY", "weights_empty"),
];

/// The predefined callbacks, with the interface of each.
pub const PREDEFINED: [(&str, &str); 14] = [
    ("MPI_COMM_DUP_FN", "MPI_Comm_copy_attr_function"),
    ("MPI_COMM_NULL_COPY_FN", "MPI_Comm_copy_attr_function"),
    ("MPI_COMM_NULL_DELETE_FN", "MPI_Comm_delete_attr_function"),
    ("MPI_TYPE_DUP_FN", "MPI_Type_copy_attr_function"),
    ("MPI_TYPE_NULL_COPY_FN", "MPI_Type_copy_attr_function"),
    ("MPI_TYPE_NULL_DELETE_FN", "MPI_Type_delete_attr_function"),
    ("MPI_WIN_DUP_FN", "MPI_Win_copy_attr_function"),
    ("MPI_WIN_NULL_COPY_FN", "MPI_Win_copy_attr_function"),
    ("MPI_WIN_NULL_DELETE_FN", "MPI_Win_delete_attr_function"),
    ("MPI_DUP_FN", "MPI_Copy_function"),
    ("MPI_NULL_COPY_FN", "MPI_Copy_function"),
    ("MPI_NULL_DELETE_FN", "MPI_Delete_function"),
    ("MPI_CONVERSION_FN_NULL", "MPI_Datarep_conversion_function"),
    ("MPI_CONVERSION_FN_NULL_C", "MPI_Datarep_conversion_function"),
];

/// A statement of free form, over as many lines as it needs.
fn statement(out: &mut String, indent: usize, text: &str) {
    let mut line = " ".repeat(indent);
    for (index, word) in text.split_inclusive(", ").enumerate() {
        if index > 0 && line.len() + word.len() > 120 {
            out.push_str(line.trim_end());
            out.push_str(" &\n");
            line = " ".repeat(indent + 4);
        }
        line.push_str(word);
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// A constant that Fortran has as a number: not those of the tool interface and of C's view of a status, and no pointers.
fn in_fortran(constant: &Constant) -> bool {
    let name = constant.name;
    constant.kind != "pointer"
        && constant.kind != "type"
        && !name.starts_with("MPI_T_")
        && !name.starts_with("MPI_F_")
        && !name.starts_with("MPIX_")
}

/// The value in Fortran: lengths of strings are one less, since Fortran needs no byte at the end (section 2.6.3).
fn value(constant: &Constant) -> i64 {
    let string = [
        "MPI_MAX_DATAREP_STRING",
        "MPI_MAX_ERROR_STRING",
        "MPI_MAX_INFO_KEY",
        "MPI_MAX_INFO_VAL",
        "MPI_MAX_LIBRARY_VERSION_STRING",
        "MPI_MAX_OBJECT_NAME",
        "MPI_MAX_PORT_NAME",
        "MPI_MAX_PROCESSOR_NAME",
        "MPI_MAX_PSET_NAME_LEN",
        "MPI_MAX_STRINGTAG_LEN",
    ];
    constant.value - i64::from(string.contains(&constant.name))
}

/// The type of an integer.
fn integer(size: Integer) -> &'static str {
    match size {
        Integer::Default => "integer",
        Integer::Address => "integer(kind=MPI_ADDRESS_KIND)",
        Integer::Count => "integer(kind=MPI_COUNT_KIND)",
        Integer::Offset => "integer(kind=MPI_OFFSET_KIND)",
    }
}

/// `, intent(in)` and its like.
fn intent(argument: &Argument) -> String {
    if argument.intent {
        format!(", intent({})", argument.direction)
    } else {
        String::new()
    }
}

/// The shape of an array, in parentheses, where `of_status` stands before the rest for a status as an array.
fn shape(argument: &Argument, assumed: bool) -> String {
    match &argument.length {
        Some(length) if argument.is_array() => {
            if assumed && !length.contains(',') {
                "(*)".to_owned()
            } else {
                format!("({length})")
            }
        }
        _ => String::new(),
    }
}

/// The directives by which compilers pass the address of anything.
fn any_type(out: &mut String, indent: usize, name: &str) {
    let space = " ".repeat(indent);
    out.push_str(&format!("{space}!GCC$ ATTRIBUTES NO_ARG_CHECK :: {name}\n"));
    out.push_str(&format!("{space}!DEC$ ATTRIBUTES NO_ARG_CHECK :: {name}\n"));
    out.push_str(&format!("{space}!DIR$ IGNORE_TKR {name}\n"));
    out.push_str(&format!("{space}!$PRAGMA IGNORE_TKR {name}\n"));
}

/// The names of the arguments, with `ierror` where there is one.
fn names(procedure: &Procedure, large: bool, ierror: bool) -> String {
    let mut names: Vec<_> = procedure
        .arguments(large)
        .map(|argument| argument.name.as_str())
        .collect();
    if ierror {
        names.push("ierror");
    }
    names.join(", ")
}

/// Whether the compiler can tell the form with large counts from the other: it has to have an argument of another kind.
pub fn distinguishable(procedure: &Procedure) -> bool {
    procedure.arguments.iter().any(|argument| {
        matches!(
            argument.kind,
            Kind::Integer(Integer::Default, Integer::Address | Integer::Count)
        )
    })
}

/// Whether it has a callback whose interface depends on the size of counts: its large form has a name of its own, with `_c`.
pub fn named_large(procedure: &Procedure) -> bool {
    procedure.large
        && procedure
            .arguments
            .iter()
            .any(|argument| matches!(argument.kind, Kind::Procedure(_)))
}

/// Whether something may be stored in the argument.
fn written(argument: &Argument) -> bool {
    argument.direction != Direction::In
}
