//! The symbols that the library exports for each procedure.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::sections::{Use, on, used};
use super::{BY_HAND, is_text, parameters, rust_argument, rust_name};
use crate::modules::f08::{has_new_form, symbol};
use crate::table::{Interfaces, Kind, Procedure, Returns, procedures};

/// The symbols that get addresses, and whether each is one of the old interfaces.
fn by_address(procedure: &Procedure, large: bool, prefix: &str) -> Vec<(String, bool)> {
    let fortran = procedure.name.to_lowercase();
    let size = if large { "_c" } else { "" };
    let mut symbols = Vec::new();
    if !large {
        symbols.push((format!("{prefix}{fortran}_"), true));
    }
    if procedure.interfaces != Interfaces::Old || has_new_form(procedure) {
        symbols.push((format!("{prefix}{fortran}{size}_f08_"), false));
    }
    if !large
        && procedure
            .arguments
            .iter()
            .any(|argument| argument.kind == Kind::Pointer)
    {
        symbols.push((format!("{prefix}{fortran}_cptr_"), false));
    }
    symbols
}

/// The symbol that gets the compiler's own descriptors.
fn by_descriptor(procedure: &Procedure, large: bool, prefix: &str) -> String {
    let size = if large { "_c" } else { "" };
    format!("{prefix}{}{size}_f08ts_", procedure.name.to_lowercase())
}

/// All symbols of the procedures in the table.
pub fn exported() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for procedure in procedures() {
        for large in [false, true].into_iter().take(1 + usize::from(procedure.large)) {
            for prefix in ["", "p"] {
                names.extend(
                    by_address(&procedure, large, prefix)
                        .into_iter()
                        .map(|(name, _)| name),
                );
                if procedure.has_choice() && procedure.interfaces != Interfaces::Old {
                    names.insert(by_descriptor(&procedure, large, prefix));
                    names.insert(symbol(&procedure, prefix, large));
                }
            }
        }
    }
    names
}

/// Writes the exported functions.
pub fn exports(out: &mut String, procedure: &Procedure, large: bool) {
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
        for (symbol, old) in by_address(procedure, large, prefix) {
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
    let own_name = by_descriptor(procedure, large, prefix);
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
