//! The function that is called where a buffer is not contiguous: it makes a plan of what C gets instead.

use std::fmt::Write;

use super::{integer, is_text, parameters, rust_argument, rust_name};
use crate::table::{Direction, Integer, Kind, Procedure};

/// How the buffers of a procedure are used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Only their addresses are.
    Address,
    /// As memory of so many bytes.
    Memory,
    /// Each with a count and a datatype, for one message.
    Message,
    /// In any other way.
    Whole,
}

/// How a procedure uses its buffers.
pub fn used(procedure: &Procedure) -> Use {
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
pub fn sections(out: &mut String, procedure: &Procedure, large: bool) {
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
pub fn on(procedure: &Procedure, large: bool) -> String {
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
