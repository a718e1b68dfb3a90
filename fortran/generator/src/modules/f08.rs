//! The module `mpi_f08` (section 19.1.2).
//!
//! Each name is a generic interface, since the standard gives the specific procedures names of their own (section 19.1.5):
//! `MPI_Send_f08`, with descriptors `MPI_Send_f08ts`, and for large counts `MPI_Send_c_f08ts`. Those with descriptors are `BIND(C)`:
//! only for such does gfortran pass a strided array as it is, without a copy that is gone when a nonblocking call returns.

use std::fmt::Write;

use super::{
    Compiler, PREDEFINED, VARIABLES, any_type, distinguishable, in_fortran, integer, intent, named_large,
    names, shape, statement,
};
use crate::table::{Argument, Interfaces, Kind, Procedure, Returns, callbacks, constants, procedures};

/// The whole module.
pub fn module(compiler: Compiler) -> String {
    let mut out = String::from(
        "! MPI 5.0 for Fortran 2008. Written by weft-fortran-modules.\nmodule mpi_f08\n  \
         use weft_mpi_types, &\n      MPI_SUBARRAYS_SUPPORTED => MPI_SUBARRAYS_SUPPORTED_F08, &\n      \
         MPI_ASYNC_PROTECTS_NONBLOCKING => MPI_ASYNC_PROTECTS_NONBLOCKING_F08\n  \
         use, intrinsic :: iso_c_binding, only : weft_c_ptr => c_ptr\n  implicit none\n  public\n  private :: weft_c_ptr\n\n",
    );
    for constant in constants().iter().filter(|constant| in_fortran(constant)) {
        if !matches!(constant.kind, "int" | "MPI_Offset") {
            writeln!(
                out,
                "  type({0}), parameter :: {1} = {0}({2})",
                constant.kind, constant.name, constant.value
            )
            .unwrap();
        }
    }
    out.push('\n');
    for (name, block) in VARIABLES {
        let declaration = match name {
            "MPI_STATUS_IGNORE" => "type(MPI_Status) :: MPI_STATUS_IGNORE".to_owned(),
            "MPI_STATUSES_IGNORE" => "type(MPI_Status) :: MPI_STATUSES_IGNORE(1)".to_owned(),
            "MPI_ARGV_NULL" => "character(len=1) :: MPI_ARGV_NULL(1)".to_owned(),
            "MPI_ARGVS_NULL" => "character(len=1) :: MPI_ARGVS_NULL(1,1)".to_owned(),
            "MPI_ERRCODES_IGNORE" | "MPI_UNWEIGHTED" | "MPI_WEIGHTS_EMPTY" => format!("integer :: {name}(1)"),
            // A detached buffer is compared with its `c_loc`.
            "MPI_BUFFER_AUTOMATIC" => format!("integer, target :: {name}"),
            _ => format!("integer :: {name}"),
        };
        writeln!(out, "  {declaration}\n  common /weft_{block}/ {name}").unwrap();
    }

    out.push_str("\n  abstract interface\n");
    for callback in callbacks()
        .iter()
        .filter(|callback| callback.interfaces == Interfaces::All)
    {
        for large in sizes(callback) {
            let suffix = if large { "_c" } else { "" };
            interface_of_callback(&mut out, callback, large, &format!("{}{suffix}", callback.name));
        }
    }
    out.push_str("  end interface\n\n  interface\n");
    for (name, interface) in PREDEFINED {
        let callback = callbacks()
            .into_iter()
            .find(|callback| callback.name == interface);
        let callback = callback.expect("each interface is in the table");
        interface_of_callback(&mut out, &callback, name.ends_with("_C"), name);
    }
    out.push_str("  end interface\n");

    for procedure in procedures() {
        // Without descriptors `weft_mpi_types` has it.
        if procedure.name == "MPI_Sizeof" && !compiler.descriptors {
            continue;
        }
        for prefix in ["", "P"] {
            generic(&mut out, &procedure, prefix, compiler);
        }
    }
    out.push_str("\nend module mpi_f08\n");
    out
}

/// The forms that there are: small, and large.
fn sizes(procedure: &Procedure) -> impl Iterator<Item = bool> {
    [false, true].into_iter().take(1 + usize::from(procedure.large))
}

fn generic(out: &mut String, procedure: &Procedure, prefix: &str, compiler: Compiler) {
    let name = format!("{prefix}{}", procedure.name);
    for large in sizes(procedure) {
        if large && !named_large(procedure) {
            continue;
        }
        let name = if large { format!("{name}_c") } else { name.clone() };
        writeln!(out, "\n  interface {name}").unwrap();
        specific(out, procedure, prefix, large, compiler);
        if has_new_form(procedure) {
            let all = Procedure {
                interfaces: Interfaces::All,
                ..procedure.clone()
            };
            specific(out, &all, prefix, large, compiler);
        }
        if procedure.large && !named_large(procedure) && distinguishable(procedure) {
            specific(out, procedure, prefix, true, compiler);
        }
        writeln!(out, "  end interface {name}").unwrap();
    }
}

/// Whether a deprecated procedure, which has `INTEGER` handles in `mpi_f08` as well, is there with the other handles, too: not by the
/// standard, but other libraries have it so. One with callbacks can't be.
pub fn has_new_form(procedure: &Procedure) -> bool {
    procedure.interfaces == Interfaces::Old
        && procedure
            .arguments
            .iter()
            .any(|argument| matches!(argument.kind, Kind::Handle(_)))
}

/// The name of the specific procedure.
pub fn specific_name(procedure: &Procedure, prefix: &str, large: bool, compiler: Compiler) -> String {
    let size = if large { "_c" } else { "" };
    let scheme = match procedure.interfaces {
        Interfaces::Old => "",
        _ if procedure.has_choice() && compiler.descriptors => "_f08ts",
        _ => "_f08",
    };
    format!("{prefix}{}{size}{scheme}", procedure.name)
}

fn specific(out: &mut String, procedure: &Procedure, prefix: &str, large: bool, compiler: Compiler) {
    let name = specific_name(procedure, prefix, large, compiler);
    let descriptors = procedure.has_choice() && compiler.descriptors;
    let ierror = procedure.returns == Returns::Error;
    let names = names(procedure, large, ierror);
    let bound = if descriptors {
        format!(" bind(c, name=\"{}\")", symbol(procedure, prefix, large))
    } else {
        String::new()
    };
    let (begin, end) = match procedure.returns {
        Returns::Double => ("double precision function", "function"),
        Returns::Address => ("integer(kind=MPI_ADDRESS_KIND) function", "function"),
        _ => ("subroutine", "subroutine"),
    };
    statement(out, 4, &format!("{begin} {name}({names}){bound}"));
    out.push_str("      import\n      implicit none\n");
    let (first, rest): (Vec<_>, Vec<_>) = procedure
        .arguments(large)
        .partition(|argument| matches!(argument.kind, Kind::Integer(..)) && argument.length.is_none());
    // Lengths are declared before the arrays that have them.
    for argument in first.into_iter().chain(rest) {
        declare(
            out,
            argument,
            large,
            procedure.interfaces == Interfaces::Old,
            compiler,
        );
    }
    if ierror {
        out.push_str(if procedure.interfaces == Interfaces::Old {
            "      integer, intent(out) :: ierror\n"
        } else {
            "      integer, optional, intent(out) :: ierror\n"
        });
    }
    writeln!(out, "    end {end} {name}").unwrap();
}

/// The symbol of a procedure that gets descriptors.
pub fn symbol(procedure: &Procedure, prefix: &str, large: bool) -> String {
    let size = if large { "_c" } else { "" };
    format!(
        "weft_{}{}{size}_f08ts",
        prefix.to_lowercase(),
        procedure.name.to_lowercase()
    )
}

fn declare(out: &mut String, argument: &Argument, large: bool, old: bool, compiler: Compiler) {
    let asynchronous = if argument.asynchronous && (compiler.descriptors || argument.kind != Kind::Choice) {
        ", asynchronous"
    } else {
        ""
    };
    let name = format!("{}{}", argument.name, shape(argument, false));
    let attributes = format!("{}{asynchronous}", intent(argument));
    let line = match &argument.kind {
        Kind::Integer(small, large_size) => {
            format!(
                "{}{attributes} :: {name}",
                integer(if large { *large_size } else { *small })
            )
        }
        Kind::Weights => format!("integer{attributes} :: {name}"),
        Kind::Logical | Kind::RawLogical => format!("logical{attributes} :: {name}"),
        Kind::Handle(_) if old => format!("integer{attributes} :: {name}"),
        Kind::Handle(handle) => format!("type(MPI_{handle}){attributes} :: {name}"),
        Kind::Status | Kind::NewStatus => format!("type(MPI_Status){attributes} :: {name}"),
        Kind::OldStatus => format!("integer{attributes} :: {}(MPI_STATUS_SIZE)", argument.name),
        Kind::Choice if compiler.descriptors => {
            format!("type(*), dimension(..){attributes} :: {}", argument.name)
        }
        Kind::Choice => {
            any_type(out, 6, &argument.name);
            format!("type(*), dimension(*){attributes} :: {}", argument.name)
        }
        Kind::Pointer | Kind::Detached => format!("type(weft_c_ptr){attributes} :: {name}"),
        Kind::Memory => format!("type(weft_c_ptr), value :: {}", argument.name),
        Kind::String => {
            let length = match argument.length.as_deref() {
                None | Some("*") => "*",
                Some(length) => length,
            };
            format!("character(len={length}){attributes} :: {}", argument.name)
        }
        Kind::Strings | Kind::StringLists => format!("character(len=*){attributes} :: {name}"),
        Kind::Procedure(_) if old => format!("external :: {}", argument.name),
        Kind::Procedure(interface) => {
            let large = large
                && callbacks()
                    .iter()
                    .any(|callback| callback.name == *interface && callback.large);
            format!(
                "procedure({interface}{}) :: {}",
                if large { "_c" } else { "" },
                argument.name
            )
        }
    };
    statement(out, 6, &line);
}

/// The interface of a callback: without `INTENT`s, as the standard has them.
fn interface_of_callback(out: &mut String, callback: &Procedure, large: bool, name: &str) {
    let old = callback.interfaces == Interfaces::Old;
    statement(
        out,
        4,
        &format!("subroutine {name}({})", names(callback, large, false)),
    );
    out.push_str("      import\n      implicit none\n");
    for argument in callback.arguments(large) {
        let argument = Argument {
            intent: false,
            length: None,
            ..argument.clone()
        };
        declare(out, &argument, large, old, Compiler { descriptors: true });
    }
    writeln!(out, "    end subroutine {name}").unwrap();
}
