//! The functions of C, under both of their names.

use std::fmt::Write;

use crate::table::{Function, functions};

/// The functions of C that Fortran needs.
///
/// Libraries of the ABI do not agree on the two partitioned ones: MPICH's `MPI_Psend_init` takes an `MPI_Count`, and there is no
/// `MPI_Psend_init_c`. So the former is called with an `MPI_Count`, which is in a register where an `int` would be, and the latter need not be
/// there ([`PARTITIONED`]).
pub fn needed() -> Vec<Function> {
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
pub fn library(out: &mut String) {
    let functions = needed();
    let optional = |name: &str| PARTITIONED.iter().find(|(_, optional, _)| *optional == name);
    out.push_str(
        "/// The functions of the C ABI, under one of their two names.\npub trait Library: 'static {\n",
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
        writeln!(out, "    }}\n}}\nimpl Library for {name} {{").unwrap();
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
