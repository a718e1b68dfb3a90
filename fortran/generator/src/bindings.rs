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

use std::fmt::Write;

use crate::modules::f08::symbol;
use crate::table::{
    Argument, Direction, Function, Integer, Interfaces, Kind, Procedure, Returns, functions, procedures,
};

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
    library(&mut out);
    for procedure in procedures() {
        for large in [false, true].into_iter().take(1 + usize::from(procedure.large)) {
            if !BY_HAND.contains(&procedure.name.as_str()) {
                body(&mut out, &procedure, large);
                if procedure.has_choice() {
                    sections(&mut out, &procedure, large);
                }
            }
            exports(&mut out, &procedure, large);
        }
    }
    out
}

/// The functions of C that Fortran needs.
///
/// Libraries of the ABI do not agree on the two partitioned ones: MPICH's `MPI_Psend_init` takes an `MPI_Count`, and there is no
/// `MPI_Psend_init_c`. So the former is called with an `MPI_Count`, which is in a register where an `int` would be, and the latter need not be
/// there ([`PARTITIONED`]).
fn needed() -> Vec<Function> {
    let mut functions = functions();
    functions.retain(|function| !function.name.starts_with("MPI_T_"));
    for function in &mut functions {
        if matches!(function.name, "MPI_Psend_init" | "MPI_Precv_init") {
            function.parameters = PARTITIONED
                .iter()
                .find(|(name, ..)| *name == function.name)
                .map_or(function.parameters, |(.., parameters)| parameters);
        }
    }
    functions
}

/// A function that each library has, the one that some have beside it, and what the former is called with.
const PARTITIONED: [(&str, &str, &str); 2] = [
    (
        "MPI_Psend_init",
        "MPI_Psend_init_c",
        "const void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request",
    ),
    (
        "MPI_Precv_init",
        "MPI_Precv_init_c",
        "void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request",
    ),
];

/// The trait with all functions of C, and the two that have it.
fn library(out: &mut String) {
    let functions = needed();
    let optional = |name: &str| PARTITIONED.iter().find(|(_, optional, _)| *optional == name);
    out.push_str(
        "/// The functions of the C ABI, under one of their two names.\npub trait Library: 'static {\n    \
         /// What its functions begin with.\n    const PREFIX: &'static str;\n",
    );
    for function in &functions {
        let (parameters, _) = c_parameters(function.parameters);
        writeln!(
            out,
            "    /// `{}` of C.\n    unsafe fn {}({parameters}) -> {};",
            function.name,
            function.name,
            c_type(function.returns)
        )
        .unwrap();
    }
    out.push_str("}\n");
    for (name, prefix, what) in [
        ("Mpi", "", "What an application calls."),
        ("Pmpi", "P", "What a profiler calls."),
    ] {
        writeln!(
            out,
            "/// {what}\npub struct {name};\n/// The functions.\npub mod {} {{\n    use super::*;\n    unsafe extern \"C\" {{",
            name.to_lowercase()
        )
        .unwrap();
        for function in functions
            .iter()
            .filter(|function| optional(function.name).is_none())
        {
            let (parameters, _) = c_parameters(function.parameters);
            let variadic = if function.parameters.contains("...") {
                ", ..."
            } else {
                ""
            };
            writeln!(
                out,
                "        pub fn {prefix}{}({parameters}{variadic}) -> {};",
                function.name,
                c_type(function.returns)
            )
            .unwrap();
        }
        writeln!(
            out,
            "    }}\n}}\nimpl Library for {name} {{\n    const PREFIX: &'static str = \"{prefix}\";"
        )
        .unwrap();
        for function in &functions {
            let (parameters, arguments) = c_parameters(function.parameters);
            if let Some((instead, ..)) = optional(function.name) {
                writeln!(
                    out,
                    "    unsafe fn {0}({parameters}) -> Int {{ unsafe {{\n        \
                     static FOUND: std::sync::OnceLock<usize> = std::sync::OnceLock::new();\n        \
                     let function = *FOUND.get_or_init(|| libc::dlsym(libc::RTLD_DEFAULT, c\"{prefix}{0}\".as_ptr()).addr());\n        \
                     match function {{\n            0 => Self::{instead}({arguments}),\n            \
                     _ => std::mem::transmute::<usize, unsafe extern \"C\" fn({parameters}) -> Int>(function)({arguments}),\n        }}\n    }} }}",
                    function.name
                )
                .unwrap();
                continue;
            }
            writeln!(
                out,
                "    #[inline(always)]\n    unsafe fn {}({parameters}) -> {} {{ unsafe {{ {}::{prefix}{}({arguments}) }} }}",
                function.name,
                c_type(function.returns),
                name.to_lowercase(),
                function.name
            )
            .unwrap();
        }
        out.push_str("}\n");
    }
}

/// C's parameters for Rust: as a declaration has them, and as a call.
fn c_parameters(text: &str) -> (String, String) {
    let mut declared = Vec::new();
    let mut named = Vec::new();
    for (index, parameter) in text.split(", ").enumerate() {
        if parameter.is_empty() || parameter == "void" || parameter == "..." {
            continue;
        }
        declared.push(format!("a{index}: {}", c_parameter(parameter)));
        named.push(format!("a{index}"));
    }
    (declared.join(", "), named.join(", "))
}

/// The type of one of C's parameters, whose name comes last.
fn c_parameter(text: &str) -> String {
    let (text, arrays) = match text.split_once('[') {
        // `int ranges[][3]` is a run of integers for us.
        Some((text, _)) => (text, 1),
        None => (text, 0),
    };
    let name = text
        .rfind(|c: char| !c.is_alphanumeric() && c != '_')
        .map_or(0, |at| at + 1);
    let kind = format!("{}{}", &text[..name], "*".repeat(arrays));
    c_type(if name == 0 { text } else { &kind })
}

/// A type of C in Rust.
fn c_type(text: &str) -> String {
    let constant = text.starts_with("const ");
    let text = text.trim_start_matches("const ");
    let stars = text.matches('*').count();
    let base = text.replace('*', "").trim().to_owned();
    let (base, stars) = match base.as_str() {
        "void" => ("c_void".to_owned(), stars),
        "int" => ("Int".to_owned(), stars),
        "char" => ("c_char".to_owned(), stars),
        "double" => ("f64".to_owned(), stars),
        "MPI_Aint" => ("Aint".to_owned(), stars),
        "MPI_Count" => ("Count".to_owned(), stars),
        "MPI_Offset" => ("Offset".to_owned(), stars),
        "MPI_Status" => ("Status".to_owned(), stars),
        function if function.ends_with("_function") || function.ends_with("_function_c") => {
            ("Function".to_owned(), 0)
        }
        other => (other.trim_start_matches("MPI_").to_owned(), stars),
    };
    let mut out = String::new();
    for star in 0..stars {
        out.push_str(if constant && star + 1 == stars {
            "*const "
        } else {
            "*mut "
        });
    }
    out + &base
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

/// The Rust expression for the length of an array of handles or logicals.
fn length(procedure: &Procedure, argument: &Argument, large: bool) -> String {
    let length = argument.length.as_deref().expect("an array");
    if length != "*" {
        let counted = procedure
            .arguments(large)
            .find(|other| other.name == length)
            .unwrap_or_else(|| panic!("{}: the length of {}", procedure.name, argument.name));
        return format!("convert::length(*{} as i64)", rust_argument(counted));
    }
    match (procedure.name.as_str(), argument.name.as_str()) {
        (name, "sendtypes") if name.to_lowercase().contains("neighbor") => {
            "convert::neighbors::<A>(comm_c).1".to_owned()
        }
        (name, "recvtypes") if name.to_lowercase().contains("neighbor") => {
            "convert::neighbors::<A>(comm_c).0".to_owned()
        }
        (_, "sendtypes" | "recvtypes") => "convert::peers::<A>(comm_c)".to_owned(),
        ("MPI_Cart_sub", "remain_dims") => "convert::dimensions::<A>(comm_c)".to_owned(),
        (name, argument) => panic!("{name}: the length of {argument}"),
    }
}

/// How long a string may be that C stores.
fn longest(procedure: &Procedure, argument: &Argument) -> &'static str {
    match argument.length.as_deref() {
        Some("MPI_MAX_ERROR_STRING") => "512",
        Some("MPI_MAX_LIBRARY_VERSION_STRING") => "8192",
        Some("MPI_MAX_OBJECT_NAME") => "128",
        Some("MPI_MAX_PORT_NAME") => "1024",
        Some("MPI_MAX_PROCESSOR_NAME") => "256",
        None if procedure.name == "MPI_Info_get_nthkey" => "256",
        other => panic!("{}: the length of {}: {other:?}", procedure.name, argument.name),
    }
}

/// The function that converts the arguments and calls C.
fn body(out: &mut String, procedure: &Procedure, large: bool) {
    let mut before = String::new();
    let mut after = String::new();
    let mut arguments = Vec::new();
    // The communicator says how long other arguments are.
    let (first, rest): (Vec<_>, Vec<_>) = procedure
        .arguments(large)
        .partition(|argument| argument.kind == Kind::Handle("Comm".to_owned()));
    for argument in first.into_iter().chain(rest) {
        convert(&mut before, &mut after, procedure, argument, large);
    }
    let size = if large { "_c" } else { "" };
    let c_name = format!("{}{size}", procedure.name);
    let function = needed().into_iter().find(|function| function.name == c_name);
    let function = function.unwrap_or_else(|| panic!("{c_name}: not in C"));
    let c: Vec<_> = function
        .parameters
        .split(", ")
        .filter(|parameter| !matches!(*parameter, "" | "void"))
        .collect();
    assert_eq!(
        c.len(),
        procedure.arguments(large).count(),
        "{c_name}: C has as many parameters"
    );
    for (argument, c) in procedure.arguments(large).zip(c) {
        arguments.push(passed(argument, c, large));
    }
    writeln!(
        out,
        "/// `{0}{size}`.\n#[inline(never)]\npub unsafe fn {1}<A: Library>({2}) {{ unsafe {{\n{before}    \
         let error = A::{0}{size}({3});",
        procedure.name,
        rust_name(procedure, large),
        parameters(procedure, large, false),
        arguments.join(", ")
    )
    .unwrap();
    if !after.is_empty() {
        writeln!(out, "    if error == SUCCESS {{\n{after}    }}").unwrap();
    }
    out.push_str("    convert::set(ierror, error);\n} }\n");
}

/// What stands in the call.
fn passed(argument: &Argument, c: &str, large: bool) -> String {
    let constant = c.starts_with("const ");
    let name = rust_argument(argument);
    let input = argument.direction == Direction::In;
    let array = argument.is_array();
    match &argument.kind {
        Kind::Integer(..)
            if input && !array && c.starts_with("MPI_Count") && integer(&argument.kind, large) == "Int" =>
        {
            format!("Count::from(*{name})")
        }
        Kind::Integer(..) if input && !array => format!("*{name}"),
        // C has no `const` for ranges.
        Kind::Integer(..) if array && input && !constant => format!("{name}.cast_mut()"),
        Kind::Integer(..) => name,
        Kind::RawLogical if input => format!("{name}.cast_mut().cast()"),
        Kind::Pointer | Kind::RawLogical => format!("{name}.cast()"),
        Kind::Weights if input => format!("convert::weights({name})"),
        Kind::Weights => format!("convert::weights({name}) as *mut Int"),
        Kind::Logical | Kind::Handle(_) if array && input => format!("{name}_c.as_ptr()"),
        Kind::Logical | Kind::Handle(_) if array => format!("{name}_c.as_mut_ptr()"),
        // `MPI_Cancel` gets a pointer, and stores nothing.
        Kind::Handle(_) if input && c.contains('*') => format!("&mut {{ {name}_c }}"),
        Kind::Logical | Kind::Handle(_) if input => format!("{name}_c"),
        Kind::Logical | Kind::Handle(_) => format!("&mut {name}_c"),
        Kind::Status if array => format!("convert::statuses({name})"),
        Kind::Status | Kind::OldStatus | Kind::NewStatus => format!("convert::status({name})"),
        Kind::Choice => format!("convert::address({name})"),
        Kind::Detached => format!("(&raw mut {name}_c).cast()"),
        Kind::String if input => format!("{name}_c.as_ptr()"),
        Kind::String => format!("{name}_c.as_mut_ptr()"),
        Kind::Memory | Kind::Strings | Kind::StringLists | Kind::Procedure(_) => {
            panic!("{}: is for a procedure that is written by hand", argument.name)
        }
    }
}

/// What comes before and after the call.
fn convert(before: &mut String, after: &mut String, procedure: &Procedure, argument: &Argument, large: bool) {
    let name = rust_argument(argument);
    let array = argument.is_array();
    let direction = argument.direction;
    match &argument.kind {
        Kind::Logical if array => {
            let length = length(procedure, argument, large);
            if direction == Direction::In {
                writeln!(before, "    let {name}_c = convert::truths({name}, {length});").unwrap();
            } else {
                writeln!(before, "    let mut {name}_c = convert::integers({length});").unwrap();
                writeln!(after, "        convert::store_logicals({name}, &{name}_c);").unwrap();
            }
        }
        Kind::Logical if direction == Direction::In => {
            writeln!(before, "    let {name}_c = convert::truth(*{name});").unwrap();
        }
        // A logical of any size.
        Kind::Logical => {
            writeln!(before, "    let mut {name}_c: Int = 0;").unwrap();
            writeln!(after, "        *{name} = convert::logical({name}_c);").unwrap();
        }
        Kind::Handle(handle) if array => {
            let length = length(procedure, argument, large);
            match direction {
                Direction::In | Direction::InOut => {
                    let mutable = if direction == Direction::In { "" } else { "mut " };
                    writeln!(
                        before,
                        "    let {mutable}{name}_c = convert::handles::<{handle}>({name}, {length});"
                    )
                    .unwrap();
                }
                Direction::Out => {
                    writeln!(
                        before,
                        "    let mut {name}_c = convert::null_handles::<{handle}>({length});"
                    )
                    .unwrap();
                }
            }
            if direction != Direction::In {
                writeln!(after, "        convert::store_handles({name}, &{name}_c);").unwrap();
            }
        }
        Kind::Handle(handle) => {
            match direction {
                Direction::In => writeln!(before, "    let {name}_c = {handle}::from_int(*{name});"),
                Direction::InOut => writeln!(before, "    let mut {name}_c = {handle}::from_int(*{name});"),
                Direction::Out => writeln!(before, "    let mut {name}_c = {handle}::NULL;"),
            }
            .unwrap();
            if direction != Direction::In {
                writeln!(after, "        *{name} = {name}_c.to_int();").unwrap();
            }
        }
        Kind::Detached => {
            writeln!(before, "    let mut {name}_c: *mut c_void = ptr::null_mut();").unwrap();
            writeln!(
                after,
                "        if !{name}.is_null() {{\n            *{name} = {name}_c;\n        }}"
            )
            .unwrap();
        }
        Kind::String if direction == Direction::In => {
            let convert = if procedure.name.starts_with("MPI_Info_") {
                "trimmed"
            } else {
                "text"
            };
            writeln!(
                before,
                "    let {name}_c = convert::{convert}({name}, {name}_length);"
            )
            .unwrap();
        }
        Kind::String => {
            writeln!(
                before,
                "    let mut {name}_c = [0 as c_char; {}];",
                longest(procedure, argument)
            )
            .unwrap();
            writeln!(
                after,
                "        convert::fill({name}, {name}_length, {name}_c.as_ptr());"
            )
            .unwrap();
        }
        _ => {}
    }
}

/// How the buffers of a procedure are used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Only their addresses are.
    Address,
    /// As memory of so many bytes.
    Memory,
    /// Each with a count and a datatype, for one message.
    Message,
    /// In any other way.
    Whole,
}

fn used(procedure: &Procedure) -> Use {
    let name = procedure.name.as_str();
    let address = [
        "MPI_Get_address",
        "MPI_Free_mem",
        "MPI_Win_detach",
        "MPI_Fetch_and_op",
        "MPI_Compare_and_swap",
    ];
    if address.contains(&name) || name.ends_with("_end") {
        return Use::Address;
    }
    if ["MPI_Win_create", "MPI_Win_attach"].contains(&name)
        || name.ends_with("uffer_attach")
        || name.ends_with("attach_buffer")
    {
        return Use::Memory;
    }
    let collective = [
        "Gather", "gather", "Scatter", "scatter", "lltoall", "educe", "can", "xscan",
    ];
    if collective.iter().any(|word| name.contains(word)) && !name.contains("Cancel") {
        Use::Whole
    } else {
        Use::Message
    }
}

/// The function that is called if a buffer is not contiguous.
fn sections(out: &mut String, procedure: &Procedure, large: bool) {
    let how = used(procedure);
    if matches!(how, Use::Address | Use::Memory) {
        return;
    }
    let name = rust_name(procedure, large);
    let all: Vec<_> = procedure.arguments(large).collect();
    let request = all.iter().find(|argument| {
        argument.kind == Kind::Handle("Request".to_owned()) && argument.direction == Direction::Out
    });
    let file = all
        .iter()
        .any(|argument| argument.kind == Kind::Handle("File".to_owned()));
    let window = all
        .iter()
        .any(|argument| argument.kind == Kind::Handle("Win".to_owned()));
    let until = match request {
        Some(_) if procedure.name.starts_with("MPI_P") && procedure.name.ends_with("_init") => {
            "Until::Partitions"
        }
        Some(_) if procedure.name.ends_with("_init") => "Until::Freed",
        Some(_) => "Until::Completed",
        None if window || (file && procedure.name.ends_with("_begin")) => "Until::Later",
        None => "Until::Returned",
    };
    let mut plan = String::new();
    let mut replaced = Vec::new();
    for (index, argument) in all.iter().enumerate() {
        if argument.kind != Kind::Choice {
            continue;
        }
        let buffer = rust_argument(argument);
        let way = match argument.direction {
            Direction::In => "Way::In",
            // What is not received keeps its value.
            Direction::Out | Direction::InOut => "Way::InOut",
        };
        let until_next: Vec<_> = all[index + 1..]
            .iter()
            .take_while(|other| other.kind != Kind::Choice)
            .collect();
        let count = until_next.iter().find(|other| {
            matches!(
                other.kind,
                Kind::Integer(Integer::Default, Integer::Count)
                    | Kind::Integer(Integer::Count, Integer::Count)
            ) && other.length.is_none()
        });
        let datatype = until_next
            .iter()
            .find(|other| other.kind == Kind::Handle("Datatype".to_owned()) && other.length.is_none());
        match (how, count, datatype) {
            (Use::Message, Some(count), Some(datatype)) => {
                let (count_name, type_name) = (rust_argument(count), rust_argument(datatype));
                let planned = if until == "Until::Partitions" {
                    format!("partitions(&{buffer}, *partitions, *{count_name} as Count, *{type_name})")
                } else {
                    format!("message(&{buffer}, *{count_name} as Count, *{type_name}, {way})")
                };
                writeln!(
                    plan,
                    "    let ({buffer}_a, {count_name}_a, {type_name}_a) = plan.{planned};"
                )
                .unwrap();
                writeln!(
                    plan,
                    "    let {count_name}_a = {count_name}_a as {};",
                    integer(&count.kind, large)
                )
                .unwrap();
                replaced.push((buffer.clone(), format!("{buffer}_a")));
                replaced.push((count_name.clone(), format!("&{count_name}_a")));
                replaced.push((type_name.clone(), format!("&{type_name}_a")));
            }
            _ => {
                writeln!(plan, "    let {buffer}_a = plan.whole(&{buffer}, {way});").unwrap();
                replaced.push((buffer.clone(), format!("{buffer}_a")));
            }
        }
    }
    let arguments: Vec<_> = all
        .iter()
        .map(|argument| {
            let name = rust_argument(argument);
            replaced
                .iter()
                .find(|(from, _)| *from == name)
                .map_or(name, |(_, to)| to.clone())
        })
        .chain(["&mut error".to_owned()])
        .chain(
            all.iter()
                .filter(|argument| is_text(argument))
                .map(|argument| format!("{}_length", rust_argument(argument))),
        )
        .collect();
    let parameters = parameters(procedure, large, false);
    let mut parameters: Vec<_> = parameters.split(", ").map(str::to_owned).collect();
    for parameter in &mut parameters {
        if parameter.ends_with(": *mut c_void") {
            *parameter = parameter.replace(": *mut c_void", ": Buffer");
        }
    }
    let request = request.map_or("ptr::null()".to_owned(), |request| {
        format!("{}.cast_const()", rust_argument(request))
    });
    let on = on(procedure, large);
    writeln!(
        out,
        "/// `{0}`, where a buffer is not contiguous.\n#[cold]\n#[inline(never)]\nunsafe fn {name}_sections<A: Library>({1}) {{ unsafe {{\n    \
         let mut plan = Plan::new(\"{0}\", {until}, {on});\n{plan}    \
         let mut error = plan.failed();\n    if error == SUCCESS {{\n        {name}::<A>({2});\n    }}\n    \
         plan.end({request}, error);\n    convert::set(ierror, error);\n}} }}",
        procedure.name,
        parameters.join(", "),
        arguments.join(", "),
    )
    .unwrap();
}

/// The object at which an error is raised.
fn on(procedure: &Procedure, large: bool) -> String {
    procedure
        .arguments(large)
        .find_map(|argument| match &argument.kind {
            Kind::Handle(handle) if ["Comm", "File", "Win"].contains(&handle.as_str()) => {
                (argument.direction == Direction::In)
                    .then(|| format!("On::{handle}(*{})", rust_argument(argument)))
            }
            _ => None,
        })
        .unwrap_or_else(|| "On::Nothing".to_owned())
}

/// The symbols.
fn exports(out: &mut String, procedure: &Procedure, large: bool) {
    let by_hand = BY_HAND.contains(&procedure.name.as_str());
    let name = rust_name(procedure, large);
    let path = if by_hand {
        format!("by_hand::{name}")
    } else {
        name.clone()
    };
    let returned = match procedure.returns {
        Returns::Double => " -> f64",
        Returns::Address => " -> Aint",
        _ => "",
    };
    let all: Vec<_> = procedure.arguments(large).collect();
    let lengths: Vec<_> = all
        .iter()
        .filter(|argument| is_text(argument))
        .map(|argument| format!("{}_length", rust_argument(argument)))
        .collect();
    let ierror = (procedure.returns == Returns::Error).then(|| "ierror".to_owned());
    for (library, prefix) in [("Mpi", ""), ("Pmpi", "p")] {
        let fortran = procedure.name.to_lowercase();
        let size = if large { "_c" } else { "" };
        let mut symbols = Vec::new();
        if !large {
            symbols.push((format!("{prefix}{fortran}_"), true));
        }
        if procedure.interfaces != Interfaces::Old {
            symbols.push((format!("{prefix}{fortran}{size}_f08_"), false));
        }
        if !large && all.iter().any(|argument| argument.kind == Kind::Pointer) {
            symbols.push((format!("{prefix}{fortran}_cptr_"), false));
        }
        for (symbol, old) in symbols {
            let arguments: Vec<_> = all
                .iter()
                .map(|argument| {
                    // In the old interfaces this is a variable of any type, which may be too short.
                    if old && argument.kind == Kind::Detached {
                        "ptr::null_mut()".to_owned()
                    } else {
                        rust_argument(argument)
                    }
                })
                .chain(ierror.clone())
                .chain(lengths.iter().cloned())
                .collect();
            let unused = if old && all.iter().any(|argument| argument.kind == Kind::Detached) {
                "#[allow(unused_variables)]\n"
            } else {
                ""
            };
            writeln!(
                out,
                "{unused}#[unsafe(export_name = \"{symbol}\")]\nunsafe extern \"C\" fn {symbol}({}){returned} {{ \
                 unsafe {{ {path}::<{library}>({}) }} }}",
                parameters(procedure, large, false),
                arguments.join(", ")
            )
            .unwrap();
        }
        if procedure.has_choice() && procedure.interfaces != Interfaces::Old {
            with_descriptors(out, procedure, large, library, prefix, by_hand);
        }
    }
}

/// The symbols that get descriptors: those of C's for the modules, the compiler's own where a procedure of Fortran's calls it as such.
fn with_descriptors(
    out: &mut String,
    procedure: &Procedure,
    large: bool,
    library: &str,
    prefix: &str,
    by_hand: bool,
) {
    let symbol = symbol(procedure, prefix, large);
    let name = rust_name(procedure, large);
    let own_name = format!(
        "{prefix}{}{}_f08ts_",
        procedure.name.to_lowercase(),
        if large { "_c" } else { "" }
    );
    let all: Vec<_> = procedure.arguments(large).collect();
    let choices: Vec<_> = all
        .iter()
        .filter(|argument| argument.kind == Kind::Choice)
        .map(|argument| rust_argument(argument))
        .collect();
    let strings: String = all
        .iter()
        .filter(|argument| argument.kind == Kind::String)
        .map(|argument| rust_argument(argument))
        .map(|name| format!("    let ({name}, {name}_length) = character({name});\n"))
        .collect();
    let ierror = (procedure.returns == Returns::Error).then(|| "ierror".to_owned());
    let lengths: Vec<_> = all
        .iter()
        .filter(|argument| is_text(argument))
        .map(|argument| format!("{}_length", rust_argument(argument)))
        .collect();
    // The arguments of a call, the buffers with this before and after their names.
    let call = |before: &str, after: &str| {
        all.iter()
            .map(|argument| {
                let name = rust_argument(argument);
                if argument.kind == Kind::Choice {
                    format!("{before}{name}{after}")
                } else {
                    name
                }
            })
            .chain(ierror.clone())
            .chain(lengths.iter().cloned())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let own = parameters(procedure, large, false);
    let described = parameters(procedure, large, true);

    if prefix.is_empty() {
        let contiguous: Vec<_> = choices
            .iter()
            .map(|name| format!("{name}.is_contiguous()"))
            .collect();
        let body = if by_hand {
            format!("    by_hand::{name}_described::<A>({})", call("", ""))
        } else if used(procedure) == Use::Address {
            format!("    {name}::<A>({})", call("", ".address()"))
        } else if used(procedure) == Use::Memory {
            format!(
                "    if {} {{\n        {name}::<A>({})\n    }} else {{\n        \
                 convert::set(ierror, refuse(\"{}\", {}));\n    }}",
                contiguous.join(" && "),
                call("", ".address()"),
                procedure.name,
                on(procedure, large)
            )
        } else {
            format!(
                "    if {} {{\n        {name}::<A>({})\n    }} else {{\n        {name}_sections::<A>({})\n    }}",
                contiguous.join(" && "),
                call("", ".address()"),
                call("", "")
            )
        };
        writeln!(
            out,
            "#[inline(always)]\nunsafe fn {name}_buffers<A: Library>({}) {{ unsafe {{\n{body}\n}} }}",
            own.replace(": *mut c_void", ": Buffer")
        )
        .unwrap();
        let rooms: String = choices
            .iter()
            .map(|name| {
                format!("    let mut {name}_room = None;\n    let {name} = Native::of({name}, &mut {name}_room);\n")
            })
            .collect();
        let types: Vec<_> = own
            .split(", ")
            .filter_map(|parameter| parameter.split_once(": "))
            .map(|(_, kind)| kind)
            .collect();
        writeln!(
            out,
            "/// Calls a tool's procedure.\n#[cold]\n#[inline(never)]\nunsafe fn {name}_tool(tool: *mut c_void, {described}) {{ unsafe {{\n\
             {rooms}{strings}    let tool: unsafe extern \"C\" fn({}) = std::mem::transmute(tool);\n    tool({})\n}} }}",
            types.join(", "),
            call("", "")
        )
        .unwrap();
    }
    let tool = if prefix.is_empty() {
        let passed: Vec<_> = described
            .split(", ")
            .filter_map(|parameter| parameter.split_once(": "))
            .map(|(name, _)| name)
            .collect();
        format!(
            "    static TOOL: Tool = Tool::new(c\"{own_name}\");\n    if let Some(tool) = TOOL.get() {{\n        \
             return {name}_tool(tool, {});\n    }}\n",
            passed.join(", ")
        )
    } else {
        String::new()
    };
    writeln!(
        out,
        "#[unsafe(export_name = \"{symbol}\")]\nunsafe extern \"C\" fn {symbol}({described}) {{ unsafe {{\n{tool}{strings}    \
         {name}_buffers::<{library}>({})\n}} }}",
        call("Buffer::read(", ")")
    )
    .unwrap();
    let rooms: String = choices
        .iter()
        .map(|name| {
            format!(
                "    let mut {name}_room = None;\n    let {name} = Described::of({name}, &mut {name}_room);\n"
            )
        })
        .collect();
    writeln!(
        out,
        "#[unsafe(export_name = \"{own_name}\")]\nunsafe extern \"C\" fn {own_name}({own}) {{ unsafe {{\n{rooms}    \
         {name}_buffers::<{library}>({})\n}} }}",
        call("Buffer::read(", ")")
    )
    .unwrap();
}
