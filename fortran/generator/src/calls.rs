//! Programs that call every procedure of the table, for tests: that all compile and link. Nothing is called unless the program gets an
//! argument.

use std::fmt::Write;

use crate::modules::{PREDEFINED, distinguishable, named_large};
use crate::table::{Argument, Integer, Interfaces, Kind, Procedure, Returns, callbacks, procedures};

/// An interface of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// `use mpi_f08`.
    F08,
    /// `use mpi`.
    Mpi,
    /// `include 'mpif.h'`.
    Include,
}

impl Interface {
    /// What a program begins with.
    fn begin(self) -> &'static str {
        match self {
            Interface::F08 => {
                "  use, intrinsic :: iso_c_binding, only : c_ptr\n  use mpi_f08\n  implicit none\n"
            }
            Interface::Mpi => "  use, intrinsic :: iso_c_binding, only : c_ptr\n  use mpi\n  implicit none\n",
            Interface::Include => "  implicit none\n  include 'mpif.h'\n",
        }
    }
}

/// The program for an interface.
pub fn program(interface: Interface) -> String {
    let mut calls = String::new();
    let mut number = 0;
    for procedure in procedures() {
        if interface == Interface::Include
            && (procedure.interfaces == Interfaces::Modules || procedure.name == "MPI_Sizeof")
        {
            continue;
        }
        for prefix in ["", "P"] {
            number += 1;
            call(&mut calls, &procedure, prefix, false, false, interface, number);
            if interface == Interface::F08
                && procedure.large
                && (distinguishable(&procedure) || named_large(&procedure))
            {
                number += 1;
                call(&mut calls, &procedure, prefix, true, false, interface, number);
            }
            let pointer = procedure
                .arguments
                .iter()
                .any(|argument| argument.kind == Kind::Pointer);
            if interface == Interface::Mpi && pointer {
                number += 1;
                call(&mut calls, &procedure, prefix, false, true, interface, number);
            }
        }
    }
    let mut out = module(interface, &calls);
    out.push_str(
        "program calls\n  use calls_of_all\n  implicit none\n  if (command_argument_count() > 0) then\n",
    );
    for number in 1..=number {
        writeln!(out, "    call call_{number}()").unwrap();
    }
    writeln!(out, "  end if\n  print '(i0)', {number}\nend program calls").unwrap();
    out
}

/// A module with these subroutines. The interface is read once, for all of them: this takes the compiler longer than the rest.
fn module(interface: Interface, subroutines: &str) -> String {
    let mut out = String::from("module calls_of_all\n");
    out.push_str(interface.begin());
    out.push_str("contains\n\n");
    if interface == Interface::F08 {
        out.push_str(&users_procedures());
    }
    out + subroutines + "end module calls_of_all\n\n"
}

/// A procedure for each interface of callbacks.
fn users_procedures() -> String {
    let mut out = String::new();
    for callback in callbacks()
        .iter()
        .filter(|callback| callback.interfaces == Interfaces::All)
    {
        for large in [false, true].into_iter().take(1 + usize::from(callback.large)) {
            let name = users_name(&callback.name, large);
            let names: Vec<_> = callback
                .arguments(large)
                .map(|argument| argument.name.as_str())
                .collect();
            writeln!(out, "  subroutine {name}({})", names.join(", &\n    ")).unwrap();
            for argument in callback.arguments(large) {
                let argument = Argument {
                    length: None,
                    ..argument.clone()
                };
                declare(&mut out, &argument, large, false, false, Interface::F08);
            }
            writeln!(out, "  end subroutine {name}").unwrap();
        }
    }
    out + "\n"
}

fn users_name(interface: &str, large: bool) -> String {
    format!("users_{}{}", &interface[4..], if large { "_c" } else { "" })
}

fn call(
    out: &mut String,
    procedure: &Procedure,
    prefix: &str,
    large: bool,
    as_pointer: bool,
    interface: Interface,
    number: usize,
) {
    let old = procedure.interfaces == Interfaces::Old;
    let arguments: Vec<_> = procedure.arguments(large).collect();
    writeln!(out, "subroutine call_{number}()").unwrap();
    // The old interfaces have had this size from before there were large counts.
    let partitioned =
        interface != Interface::F08 && matches!(procedure.name.as_str(), "MPI_Psend_init" | "MPI_Precv_init");
    for argument in &arguments {
        if !matches!(argument.kind, Kind::Procedure(_)) {
            let large = large || (partitioned && argument.name == "count");
            declare(out, argument, large, as_pointer, old, interface);
        }
    }
    let mut passed: Vec<_> = arguments
        .iter()
        .map(|argument| {
            let value = match &argument.kind {
                Kind::Procedure(name) if interface == Interface::F08 && !old => {
                    let both = callbacks()
                        .iter()
                        .any(|callback| callback.name == *name && callback.large);
                    users_name(name, large && both)
                }
                Kind::Procedure(name) => {
                    let predefined = PREDEFINED.iter().find(|(_, interface)| interface == name);
                    predefined
                        .map_or("MPI_COMM_NULL_DELETE_FN", |(name, _)| name)
                        .to_owned()
                }
                _ => argument.name.clone(),
            };
            if interface == Interface::Include || !prefix.is_empty() {
                value
            } else {
                format!("{}={value}", argument.name)
            }
        })
        .collect();
    if procedure.returns == Returns::Error {
        out.push_str("  integer :: ierror\n");
        passed.push(
            if interface == Interface::Include || !prefix.is_empty() {
                "ierror"
            } else {
                "ierror=ierror"
            }
            .to_owned(),
        );
    }
    let suffix = if large && named_large(procedure) { "_c" } else { "" };
    let name = format!("{prefix}{}{suffix}", procedure.name);
    let passed = passed.join(", &\n    ");
    match procedure.returns {
        Returns::Error | Returns::Nothing => writeln!(out, "  call {name}({passed})").unwrap(),
        Returns::Double | Returns::Address => writeln!(out, "  print *, {name}({passed})").unwrap(),
    }
    writeln!(out, "end subroutine call_{number}\n").unwrap();
}

fn declare(
    out: &mut String,
    argument: &Argument,
    large: bool,
    as_pointer: bool,
    old: bool,
    interface: Interface,
) {
    let f08 = interface == Interface::F08 && !old;
    let shape = match argument.length.as_deref() {
        Some(length) if argument.is_array() && length.contains(',') => "(3,4)",
        Some(_) if argument.is_array() => "(4)",
        _ => "",
    };
    let kind = match &argument.kind {
        Kind::Integer(small, large_size) => match if large { large_size } else { small } {
            Integer::Default => "integer",
            Integer::Address => "integer(kind=MPI_ADDRESS_KIND)",
            Integer::Count => "integer(kind=MPI_COUNT_KIND)",
            Integer::Offset => "integer(kind=MPI_OFFSET_KIND)",
        }
        .to_owned(),
        Kind::Weights => "integer".to_owned(),
        Kind::Logical | Kind::RawLogical => "logical".to_owned(),
        Kind::Handle(handle) if f08 => format!("type(MPI_{handle})"),
        Kind::Handle(_) => "integer".to_owned(),
        Kind::Status if f08 => "type(MPI_Status)".to_owned(),
        Kind::NewStatus => "type(MPI_Status)".to_owned(),
        Kind::Status | Kind::OldStatus => "integer".to_owned(),
        Kind::Choice => "real".to_owned(),
        Kind::Pointer if f08 || as_pointer => "type(c_ptr)".to_owned(),
        Kind::Pointer => "integer(kind=MPI_ADDRESS_KIND)".to_owned(),
        Kind::Detached if f08 => "type(c_ptr)".to_owned(),
        Kind::Detached => "real".to_owned(),
        Kind::Memory => "type(c_ptr), value".to_owned(),
        Kind::String | Kind::Strings | Kind::StringLists => {
            "character(len=MPI_MAX_LIBRARY_VERSION_STRING)".to_owned()
        }
        Kind::Procedure(_) => return,
    };
    let shape = match argument.kind {
        Kind::Choice => "(4)",
        Kind::Status if !f08 && shape.is_empty() => "(MPI_STATUS_SIZE)",
        Kind::Status if !f08 => "(MPI_STATUS_SIZE,4)",
        Kind::OldStatus => "(MPI_STATUS_SIZE)",
        _ => shape,
    };
    writeln!(out, "  {kind} :: {}{shape}", argument.name).unwrap();
}

/// A module that the compiler must refuse in many places: each subroutine calls a procedure with another kind of handle than one of its
/// arguments is. Returns the text, and for each of them what is wrong, the number of its first line, and that of the line behind it.
pub fn wrong_handles() -> (String, Vec<(String, usize, usize)>) {
    let mut calls = String::new();
    let mut wrongs = Vec::new();
    let before = module(Interface::F08, "").lines().count() - 2;
    for procedure in procedures()
        .iter()
        .filter(|procedure| procedure.interfaces != Interfaces::Old)
    {
        for (index, argument) in procedure.arguments.iter().enumerate() {
            let Kind::Handle(handle) = &argument.kind else {
                continue;
            };
            let mut wrong = procedure.clone();
            let other = if handle == "Comm" { "Win" } else { "Comm" };
            wrong.arguments[index].kind = Kind::Handle(other.to_owned());
            let begin = before + calls.lines().count() + 1;
            call(
                &mut calls,
                &wrong,
                "",
                false,
                false,
                Interface::F08,
                wrongs.len() + 1,
            );
            let end = before + calls.lines().count() + 1;
            wrongs.push((format!("{}: {}", procedure.name, argument.name), begin, end));
        }
    }
    (module(Interface::F08, &calls), wrongs)
}
