//! The function that converts the arguments from Fortran, calls C, and converts what comes back.

use std::fmt::Write;

use super::library::needed;
use super::{integer, parameters, rust_argument, rust_name};
use crate::table::{Argument, Direction, Kind, Procedure};

/// The function that converts the arguments and calls C.
pub fn body(out: &mut String, procedure: &Procedure, large: bool) {
    let mut before = String::new();
    let mut after = String::new();
    let mut arguments = Vec::new();
    // The communicator says how long other arguments are.
    let (first, rest): (Vec<_>, Vec<_>) = procedure
        .arguments(large)
        .partition(|argument| argument.kind == Kind::Handle("Comm".to_owned()));
    for argument in first {
        convert(&mut before, &mut after, procedure, argument, large);
    }
    if let Some(function) = lengths(procedure) {
        writeln!(
            before,
            "    let lengths = match convert::{function}(comm_c) {{\n        Ok(lengths) => lengths,\n        \
             Err(error) => return convert::set(ierror, error),\n    }};"
        )
        .unwrap();
    }
    for argument in rest {
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
                // C may read it after the call.
                Direction::In if argument.asynchronous => {
                    writeln!(
                        before,
                        "    let {name}_c = convert::lasting_handles::<{handle}>({name}, {length});"
                    )
                    .unwrap();
                    writeln!(
                        after,
                        "        pending::keep_array(request_c.to_int(), {name}_c);"
                    )
                    .unwrap();
                }
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
                "        if !{name}.is_null() {{\n            *{name} = detached({name}_c);\n        }}"
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
    match argument.name.as_str() {
        // Not significant then, and so not to be read.
        "sendtypes" if !procedure.name.to_lowercase().contains("neighbor") => {
            "if is_in_place(sendbuf) { 0 } else { lengths.0 }".to_owned()
        }
        "sendtypes" | "remain_dims" => "lengths.0".to_owned(),
        "recvtypes" => "lengths.1".to_owned(),
        other => panic!("{}: the length of {other}", procedure.name),
    }
}

/// The function that says how long arrays are whose lengths depend on the communicator.
fn lengths(procedure: &Procedure) -> Option<&'static str> {
    let name = procedure.name.to_lowercase();
    if name == "mpi_cart_sub" {
        Some("dimensions")
    } else if !name.contains("alltoallw") {
        None
    } else if name.contains("neighbor") {
        Some("neighbors")
    } else {
        Some("peers")
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
