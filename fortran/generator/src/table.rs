//! The tables. `procedures.tsv` has a line for each procedure that Fortran has, with five columns:
//!
//! | column | what it says |
//! | --- | --- |
//! | name | as in the standard |
//! | interfaces | `all`: the three of them; `modules`: not `mpif.h`; `old`: deprecated, so `mpi_f08` has it as `mpi` does |
//! | sizes | `both`: `mpi_f08` has it with large counts too (in C: `_c`); `small`: it has not |
//! | result | `error`: a subroutine that ends with `ierror`; `none`: one without; `double`, `address`: a function |
//! | arguments | separated by `;`: direction, kind, name, and in parentheses the length of an array or a string |
//!
//! A `*` after the direction says that `mpi_f08` gives no `INTENT` (a constant such as `MPI_BOTTOM` may stand there). `asynchronous`
//! stands before the kind of what is used until a later call. `large_only` at the end says that only the form with large counts has
//! this argument. The kinds are in [`Kind`]. `callbacks.tsv` has the same for the user's procedures.

use std::fmt;

/// Where a procedure is to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interfaces {
    /// In `mpi_f08`, `mpi` and `mpif.h`.
    All,
    /// In the two modules.
    Modules,
    /// Deprecated since MPI 2: in all three, with `INTEGER` handles.
    Old,
}

/// What a procedure returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// `ierror`, its last argument.
    Error,
    /// Nothing.
    Nothing,
    /// A double precision number.
    Double,
    /// An integer of the size of an address.
    Address,
}

/// The size of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integer {
    /// Fortran's `INTEGER`, C's `int`.
    Default,
    /// `MPI_ADDRESS_KIND`, `MPI_Aint`.
    Address,
    /// `MPI_COUNT_KIND`, `MPI_Count`.
    Count,
    /// `MPI_OFFSET_KIND`, `MPI_Offset`.
    Offset,
}

/// What an argument is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer: its size in the small and in the large form.
    Integer(Integer, Integer),
    /// A `LOGICAL`.
    Logical,
    /// A `LOGICAL` of any size, by its address.
    RawLogical,
    /// A handle: `Comm`, `Datatype`, …
    Handle(String),
    /// A status, of the kind that the interface has.
    Status,
    /// A status of `mpi` and `mpif.h`, in any interface.
    OldStatus,
    /// A status of `mpi_f08`, in any interface.
    NewStatus,
    /// A buffer of any type.
    Choice,
    /// An address that the procedure returns.
    Pointer,
    /// The address of a buffer that was attached.
    Detached,
    /// The memory that a callback gets.
    Memory,
    /// A `CHARACTER`.
    String,
    /// An array of them.
    Strings,
    /// A two-dimensional array of them.
    StringLists,
    /// Weights of a graph: `MPI_UNWEIGHTED` and `MPI_WEIGHTS_EMPTY` may stand there.
    Weights,
    /// A procedure of the user's, by the name of its interface.
    Procedure(String),
}

/// Which way an argument goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the procedure.
    In,
    /// From it.
    Out,
    /// Both.
    InOut,
}

/// An argument.
#[derive(Clone, Debug)]
pub struct Argument {
    /// Its name, which a caller may use as a keyword.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Which way it goes.
    pub direction: Direction,
    /// Whether `mpi_f08` gives its `INTENT`.
    pub intent: bool,
    /// Whether it is used after the call.
    pub asynchronous: bool,
    /// The length of an array or a string. `*`: not said.
    pub length: Option<String>,
    /// Whether only the large form has it.
    pub large_only: bool,
}

impl Argument {
    /// Whether it is an array (a string has a length, too).
    pub fn is_array(&self) -> bool {
        self.length.is_some() && self.kind != Kind::String
    }
}

/// A procedure of the library, or the interface of one of the user's.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// Its name.
    pub name: String,
    /// Where it is to be had.
    pub interfaces: Interfaces,
    /// Whether there is a form with large counts.
    pub large: bool,
    /// What it returns.
    pub returns: Returns,
    /// All arguments but `ierror`.
    pub arguments: Vec<Argument>,
}

impl Procedure {
    /// The arguments of the small or the large form.
    pub fn arguments(&self, large: bool) -> impl Iterator<Item = &Argument> {
        self.arguments
            .iter()
            .filter(move |argument| large || !argument.large_only)
    }

    /// Whether it has a buffer of any type among its arguments.
    pub fn has_choice(&self) -> bool {
        self.arguments
            .iter()
            .any(|argument| argument.kind == Kind::Choice)
    }
}

/// A constant of the ABI.
pub struct Constant {
    /// Its name in C.
    pub name: &'static str,
    /// `int`, `pointer`, `MPI_Offset`, or the type of the handle.
    pub kind: &'static str,
    /// Its value.
    pub value: i64,
}

/// A function of the C ABI.
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// The C type that it returns.
    pub returns: &'static str,
    /// Its parameters in C.
    pub parameters: &'static str,
}

/// The procedures of the library.
pub fn procedures() -> Vec<Procedure> {
    rows::<5>(include_str!("../../procedures.tsv"))
        .map(|[name, interfaces, sizes, returns, arguments]| {
            procedure(name, interfaces, sizes, returns, arguments)
        })
        .collect()
}

/// The interfaces of the user's procedures. `ierror` is among their arguments, since it is not optional there.
pub fn callbacks() -> Vec<Procedure> {
    rows::<4>(include_str!("../../callbacks.tsv"))
        .map(|[name, interfaces, sizes, arguments]| procedure(name, interfaces, sizes, "none", arguments))
        .collect()
}

/// The constants of the C ABI.
pub fn constants() -> Vec<Constant> {
    rows::<3>(include_str!("../../../tests/abi/constants.tsv"))
        .map(|[name, kind, value]| Constant {
            name,
            kind,
            value: value.parse().unwrap_or_else(|e| panic!("{name}: {value:?}: {e}")),
        })
        .collect()
}

/// The functions of the C ABI.
pub fn functions() -> Vec<Function> {
    rows::<3>(include_str!("../../../tests/abi/functions.tsv"))
        .map(|[name, returns, parameters]| Function {
            name,
            returns,
            parameters,
        })
        .collect()
}

/// The columns of each line but the first, which names them.
fn rows<const N: usize>(table: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    table.lines().skip(1).map(|line| {
        let columns: Vec<_> = line.split('\t').collect();
        columns
            .try_into()
            .unwrap_or_else(|_| panic!("not {N} columns: {line:?}"))
    })
}

fn procedure(name: &str, interfaces: &str, sizes: &str, returns: &str, arguments: &str) -> Procedure {
    Procedure {
        name: name.to_owned(),
        interfaces: match interfaces {
            "all" => Interfaces::All,
            "modules" => Interfaces::Modules,
            "old" => Interfaces::Old,
            other => panic!("{name}: interfaces {other:?}"),
        },
        large: match sizes {
            "both" => true,
            "small" => false,
            other => panic!("{name}: sizes {other:?}"),
        },
        returns: match returns {
            "error" => Returns::Error,
            "none" => Returns::Nothing,
            "double" => Returns::Double,
            "address" => Returns::Address,
            other => panic!("{name}: result {other:?}"),
        },
        arguments: arguments
            .split(';')
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .map(|text| argument(text).unwrap_or_else(|what| panic!("{name}: {text:?}: {what}")))
            .collect(),
    }
}

fn argument(text: &str) -> Result<Argument, String> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let large_only = words.last() == Some(&"large_only");
    if large_only {
        words.pop();
    }
    let asynchronous = words.get(1) == Some(&"asynchronous");
    if asynchronous {
        words.remove(1);
    }
    let [direction, kind, name] = words[..] else {
        return Err("not a direction, a kind and a name".to_owned());
    };
    let intent = !direction.ends_with('*');
    let direction = match direction.trim_end_matches('*') {
        "in" => Direction::In,
        "out" => Direction::Out,
        "inout" => Direction::InOut,
        other => return Err(format!("direction {other:?}")),
    };
    let (name, length) = match name.split_once('(') {
        Some((name, length)) => (name, Some(length.trim_end_matches(')').to_owned())),
        None => (name, None),
    };
    Ok(Argument {
        name: name.to_owned(),
        kind: kind_of(kind)?,
        direction,
        intent,
        asynchronous,
        length,
        large_only,
    })
}

/// The kinds of handles.
pub const HANDLES: [&str; 11] = [
    "Comm",
    "Datatype",
    "Errhandler",
    "File",
    "Group",
    "Info",
    "Message",
    "Op",
    "Request",
    "Session",
    "Win",
];

fn kind_of(word: &str) -> Result<Kind, String> {
    use Integer::{Address, Count, Default, Offset};
    Ok(match word {
        "integer" => Kind::Integer(Default, Default),
        "count" => Kind::Integer(Default, Count),
        "displacement" => Kind::Integer(Default, Address),
        "address" => Kind::Integer(Address, Address),
        "extent" => Kind::Integer(Address, Count),
        "large" => Kind::Integer(Count, Count),
        "offset" => Kind::Integer(Offset, Offset),
        "logical" => Kind::Logical,
        "raw_logical" => Kind::RawLogical,
        "status" => Kind::Status,
        "old_status" => Kind::OldStatus,
        "new_status" => Kind::NewStatus,
        "choice" => Kind::Choice,
        "pointer" => Kind::Pointer,
        "detached" => Kind::Detached,
        "memory" => Kind::Memory,
        "string" => Kind::String,
        "strings" => Kind::Strings,
        "string_lists" => Kind::StringLists,
        "weights" => Kind::Weights,
        handle if HANDLES.contains(&handle) => Kind::Handle(handle.to_owned()),
        interface if interface.ends_with("_function") => Kind::Procedure(interface.to_owned()),
        other => return Err(format!("kind {other:?}")),
    })
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::In => "in",
            Direction::Out => "out",
            Direction::InOut => "inout",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C functions that Fortran has not: the conversions of handles, and the tool interface (sections 19.3.4, 15.3).
    fn c_alone(name: &str) -> bool {
        name.starts_with("MPI_T_") || name.ends_with("_fromint") || name.ends_with("_toint")
    }

    /// The arguments that C has and Fortran has not.
    fn fewer(name: &str) -> usize {
        match name {
            "MPI_Init" | "MPI_Init_thread" | "MPI_Info_create_env" => 2,
            // `...`
            "MPI_Pcontrol" => 1,
            _ => 0,
        }
    }

    /// C's type of a parameter: without `const`, the name, and what makes it a pointer; and whether it is one.
    fn base(parameter: &str) -> (String, bool) {
        let pointer = parameter.contains('*') || parameter.contains('[');
        let text = parameter.split('[').next().unwrap_or("").replace('*', " ");
        let words: Vec<_> = text.split_whitespace().filter(|word| *word != "const").collect();
        (words.first().copied().unwrap_or("").to_owned(), pointer)
    }

    #[test]
    fn fortran_has_each_function_of_c_and_no_other() {
        let functions = functions();
        let procedures = procedures();
        for function in &functions {
            if c_alone(function.name) {
                continue;
            }
            // A procedure with large counts is the other one's other form.
            let of = |name: &str| procedures.iter().find(|procedure| procedure.name == name);
            let found = of(function.name).is_some()
                || function
                    .name
                    .strip_suffix("_c")
                    .and_then(of)
                    .is_some_and(|procedure| procedure.large);
            assert!(found, "{} is not in the table", function.name);
        }
        for procedure in &procedures {
            let in_c = functions.iter().any(|function| function.name == procedure.name);
            let fortran_alone = [
                "MPI_F_sync_reg",
                "MPI_Sizeof",
                "MPI_Status_f082f",
                "MPI_Status_f2f08",
            ];
            assert_eq!(
                in_c,
                !fortran_alone.contains(&procedure.name.as_str()),
                "{}",
                procedure.name
            );
            let large = format!("{}_c", procedure.name);
            assert_eq!(
                procedure.large,
                functions.iter().any(|function| function.name == large),
                "{large}"
            );
        }
    }

    #[test]
    fn arguments_are_those_of_c() {
        for procedure in procedures() {
            for large in [false, true].into_iter().take(1 + usize::from(procedure.large)) {
                let name = format!("{}{}", procedure.name, if large { "_c" } else { "" });
                let Some(function) = functions().into_iter().find(|function| function.name == name) else {
                    continue;
                };
                let c: Vec<_> = function
                    .parameters
                    .split(", ")
                    .filter(|text| !text.is_empty() && *text != "void")
                    .collect();
                let arguments: Vec<_> = procedure.arguments(large).collect();
                assert_eq!(c.len(), arguments.len() + fewer(&name), "{name}");
                for (c, argument) in c[fewer(&name) * usize::from(name != "MPI_Pcontrol")..]
                    .iter()
                    .zip(arguments)
                {
                    fits(&name, c, argument, large);
                }
            }
        }
    }

    /// An argument is what C's parameter is.
    fn fits(name: &str, c: &str, argument: &Argument, large: bool) {
        let (kind, pointer) = base(c);
        let expected = match &argument.kind {
            Kind::Integer(small, large_size) => match if large { large_size } else { small } {
                Integer::Default => "int",
                Integer::Address => "MPI_Aint",
                Integer::Count => "MPI_Count",
                Integer::Offset => "MPI_Offset",
            }
            .to_owned(),
            Kind::Logical | Kind::Weights => "int".to_owned(),
            Kind::Handle(handle) => format!("MPI_{handle}"),
            Kind::Status | Kind::OldStatus | Kind::NewStatus => "MPI_Status".to_owned(),
            Kind::Choice | Kind::Pointer | Kind::Detached | Kind::Memory | Kind::RawLogical => {
                "void".to_owned()
            }
            Kind::String | Kind::Strings | Kind::StringLists => "char".to_owned(),
            Kind::Procedure(interface) => {
                let suffix = if kind.ends_with("_c") { "_c" } else { "" };
                format!("{interface}{suffix}")
            }
        };
        let what = format!("{name}: {} and C's {c}", argument.name);
        // Extra states and attributes are addresses, for which C has pointers.
        let address = kind == "void" && matches!(argument.kind, Kind::Integer(..));
        assert!(kind == expected || address, "{what}");
        let written = argument.direction != Direction::In;
        if !address && !matches!(argument.kind, Kind::Procedure(_)) {
            let by_pointer =
                written || argument.is_array() || matches!(expected.as_str(), "void" | "char" | "MPI_Status");
            // `MPI_Cancel` alone gets a pointer to what it does not change.
            assert!(pointer == by_pointer || name == "MPI_Cancel", "{what}");
        }
        // Buffers and strings that are only read are constant in C, but for a few.
        let constant = c.starts_with("const ");
        if constant && matches!(argument.kind, Kind::Choice | Kind::String | Kind::Integer(..)) {
            assert!(!written, "{what}: constant, and written");
        }
    }

    #[test]
    fn lengths_are_arguments_or_constants() {
        let constants = constants();
        for procedure in procedures() {
            for argument in &procedure.arguments {
                let Some(length) = &argument.length else { continue };
                for part in length.split(',') {
                    let known = part == "*"
                        || part.parse::<u32>().is_ok()
                        || procedure.arguments.iter().any(|other| other.name == part)
                        || constants.iter().any(|constant| constant.name == part);
                    assert!(known, "{}: {} of length {length}", procedure.name, argument.name);
                }
            }
        }
    }

    #[test]
    fn callbacks_are_those_that_procedures_take() {
        let callbacks = callbacks();
        for procedure in procedures() {
            for argument in &procedure.arguments {
                if let Kind::Procedure(interface) = &argument.kind {
                    assert!(
                        callbacks.iter().any(|callback| callback.name == *interface),
                        "{interface}"
                    );
                }
            }
        }
    }
}
