//! The module `mpi` (section 19.1.3): explicit interfaces of the procedures that `mpif.h` calls without one. Buffers are passed by
//! their addresses, by what each compiler has for that.

use std::fmt::Write;

use super::{
    Compiler, PREDEFINED, VARIABLES, any_type, in_fortran, integer, intent, names, shape, statement, written,
};
use crate::table::{Argument, Kind, Procedure, Returns, callbacks, constants, procedures};

/// The whole module.
pub fn module(compiler: Compiler) -> String {
    let mut out = String::from(
        "! MPI 5.0 with handles that are INTEGERs. Written by weft-fortran-modules.\nmodule mpi\n  \
         use weft_mpi_types, &\n      weft_subarrays => MPI_SUBARRAYS_SUPPORTED_F08, &\n      \
         weft_async => MPI_ASYNC_PROTECTS_NONBLOCKING_F08\n  \
         use, intrinsic :: iso_c_binding, only : weft_c_ptr => c_ptr\n  implicit none\n  public\n  \
         private :: weft_subarrays, weft_async, weft_c_ptr\n\n  \
         logical, parameter :: MPI_SUBARRAYS_SUPPORTED = .false.\n  \
         logical, parameter :: MPI_ASYNC_PROTECTS_NONBLOCKING = .false.\n",
    );
    for constant in constants().iter().filter(|constant| in_fortran(constant)) {
        if !matches!(constant.kind, "int" | "MPI_Offset") {
            writeln!(
                out,
                "  integer, parameter :: {} = {}",
                constant.name, constant.value
            )
            .unwrap();
        }
    }
    out.push('\n');
    for (name, block) in VARIABLES {
        let declaration = match name {
            "MPI_STATUS_IGNORE" => "integer :: MPI_STATUS_IGNORE(MPI_STATUS_SIZE)".to_owned(),
            "MPI_STATUSES_IGNORE" => "integer :: MPI_STATUSES_IGNORE(MPI_STATUS_SIZE,1)".to_owned(),
            "MPI_ARGV_NULL" => "character(len=1) :: MPI_ARGV_NULL(1)".to_owned(),
            "MPI_ARGVS_NULL" => "character(len=1) :: MPI_ARGVS_NULL(1,1)".to_owned(),
            "MPI_ERRCODES_IGNORE" | "MPI_UNWEIGHTED" | "MPI_WEIGHTS_EMPTY" => format!("integer :: {name}(1)"),
            _ => format!("integer :: {name}"),
        };
        writeln!(out, "  {declaration}\n  common /weft_{block}/ {name}").unwrap();
    }

    out.push_str("\n  interface\n");
    for (name, interface) in PREDEFINED {
        let callback = callbacks()
            .into_iter()
            .find(|callback| callback.name == interface);
        let callback = callback.expect("each interface is in the table");
        let large = name.ends_with("_C");
        statement(
            &mut out,
            4,
            &format!("subroutine {name}({})", names(&callback, large, false)),
        );
        out.push_str("      import\n      implicit none\n");
        for argument in callback.arguments(large) {
            let argument = Argument {
                intent: false,
                ..argument.clone()
            };
            declare(&mut out, &argument, large);
        }
        writeln!(out, "    end subroutine {name}").unwrap();
    }
    for procedure in procedures() {
        if procedure.name == "MPI_Sizeof" {
            continue;
        }
        for prefix in ["", "P"] {
            interface(&mut out, &procedure, prefix);
        }
    }
    out.push_str("  end interface\n");
    addresses(&mut out);
    if compiler.descriptors {
        sizeof(&mut out);
    }
    out.push_str("\nend module mpi\n");
    out
}

fn interface(out: &mut String, procedure: &Procedure, prefix: &str) {
    let name = format!("{prefix}{}", procedure.name);
    subroutine(out, procedure, &name, false);
}

fn subroutine(out: &mut String, procedure: &Procedure, name: &str, as_pointer: bool) {
    let ierror = procedure.returns == Returns::Error;
    let (begin, end) = match procedure.returns {
        Returns::Double => ("double precision function", "function"),
        Returns::Address => ("integer(kind=MPI_ADDRESS_KIND) function", "function"),
        _ => ("subroutine", "subroutine"),
    };
    statement(
        out,
        4,
        &format!("{begin} {name}({})", names(procedure, false, ierror)),
    );
    out.push_str("      import\n      implicit none\n");
    for argument in procedure.arguments(false) {
        if as_pointer && argument.kind == Kind::Pointer {
            writeln!(out, "      type(weft_c_ptr), intent(out) :: {}", argument.name).unwrap();
        } else {
            // Older than large counts, and never an INTEGER (section 4.2.1); the library reads what is in its lower half.
            let partitioned = matches!(procedure.name.as_str(), "MPI_Psend_init" | "MPI_Precv_init");
            declare(out, argument, partitioned && argument.name == "count");
        }
    }
    if ierror {
        out.push_str("      integer, intent(out) :: ierror\n");
    }
    writeln!(out, "    end {end} {name}").unwrap();
}

/// The procedures that return an address in an integer, once more for a `TYPE(C_PTR)`: the first of the two forms has the name of the
/// generic interface (section 9.2).
fn addresses(out: &mut String) {
    for procedure in procedures() {
        if !procedure
            .arguments
            .iter()
            .any(|argument| argument.kind == Kind::Pointer)
        {
            continue;
        }
        for prefix in ["", "P"] {
            let name = format!("{prefix}{}", procedure.name);
            writeln!(out, "\n  interface {name}\n    procedure {name}").unwrap();
            subroutine(out, &procedure, &format!("{name}_cptr"), true);
            writeln!(out, "  end interface {name}").unwrap();
        }
    }
}

/// `MPI_Sizeof` needs to know the type of its argument: it gets a descriptor.
fn sizeof(out: &mut String) {
    for prefix in ["", "P"] {
        writeln!(
            out,
            "\n  interface {prefix}MPI_Sizeof\n    subroutine {prefix}MPI_Sizeof_fts(x, size, ierror) \
             bind(c, name=\"weft_{}mpi_sizeof_f08ts\")\n      type(*), dimension(..) :: x\n      integer, intent(out) :: size, ierror\n    \
             end subroutine {prefix}MPI_Sizeof_fts\n  end interface {prefix}MPI_Sizeof",
            prefix.to_lowercase()
        )
        .unwrap();
    }
}

fn declare(out: &mut String, argument: &Argument, large: bool) {
    let name = format!("{}{}", argument.name, shape(argument, true));
    let attributes = intent(argument);
    let line = match &argument.kind {
        Kind::Integer(small, large_size) => {
            format!(
                "{}{attributes} :: {name}",
                integer(if large { *large_size } else { *small })
            )
        }
        Kind::Weights | Kind::Handle(_) => format!("integer{attributes} :: {name}"),
        Kind::Logical | Kind::RawLogical => format!("logical{attributes} :: {name}"),
        Kind::Status if argument.is_array() => {
            format!("integer{attributes} :: {}(MPI_STATUS_SIZE,*)", argument.name)
        }
        Kind::Status | Kind::OldStatus => {
            format!("integer{attributes} :: {}(MPI_STATUS_SIZE)", argument.name)
        }
        Kind::NewStatus => format!("type(MPI_Status){attributes} :: {name}"),
        Kind::Choice | Kind::Detached | Kind::Memory => {
            any_type(out, 6, &argument.name);
            format!("type(*), dimension(*) :: {}", argument.name)
        }
        Kind::Pointer => format!("integer(kind=MPI_ADDRESS_KIND){attributes} :: {name}"),
        Kind::String => format!("character(len=*){attributes} :: {}", argument.name),
        Kind::Strings | Kind::StringLists => format!("character(len=*){attributes} :: {name}"),
        Kind::Procedure(_) => format!("external :: {}", argument.name),
    };
    debug_assert!(argument.kind != Kind::Pointer || written(argument));
    statement(out, 6, &line);
}
