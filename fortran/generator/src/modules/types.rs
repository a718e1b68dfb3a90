//! The module `weft_mpi_types`: what `mpi_f08` and `mpi` both have. Handle types with their operators, the type of a status, the kinds of
//! integers, and the constants that are numbers.

use std::fmt::Write;

use super::{Compiler, in_fortran, value};
use crate::table::{HANDLES, constants};

/// The kinds of integers, and the places in a status that is an array (sections 2.5.6, 19.3.5).
pub fn kinds() -> [(&'static str, i64); 8] {
    [
        ("MPI_ADDRESS_KIND", 8),
        ("MPI_OFFSET_KIND", 8),
        ("MPI_COUNT_KIND", 8),
        ("MPI_INTEGER_KIND", 4),
        ("MPI_STATUS_SIZE", 8),
        ("MPI_SOURCE", 1),
        ("MPI_TAG", 2),
        ("MPI_ERROR", 3),
    ]
}

/// The whole module.
pub fn module(compiler: Compiler) -> String {
    let mut out = String::from(
        "! What the modules mpi_f08 and mpi have in common. Written by weft-fortran-modules.\n\
         module weft_mpi_types\n  implicit none\n  public\n\n",
    );
    for (name, value) in kinds() {
        writeln!(out, "  integer, parameter :: {name} = {value}").unwrap();
    }
    writeln!(
        out,
        "  logical, parameter :: MPI_SUBARRAYS_SUPPORTED_F08 = {0}\n  \
         logical, parameter :: MPI_ASYNC_PROTECTS_NONBLOCKING_F08 = {0}\n",
        if compiler.descriptors { ".true." } else { ".false." }
    )
    .unwrap();

    for constant in constants().iter().filter(|constant| in_fortran(constant)) {
        match constant.kind {
            "int" => writeln!(
                out,
                "  integer, parameter :: {} = {}",
                constant.name,
                value(constant)
            )
            .unwrap(),
            "MPI_Offset" => writeln!(
                out,
                "  integer(kind=MPI_OFFSET_KIND), parameter :: {} = {}_MPI_OFFSET_KIND",
                constant.name,
                value(constant)
            )
            .unwrap(),
            _ => {}
        }
    }

    for handle in HANDLES {
        writeln!(
            out,
            "\n  type, bind(c) :: MPI_{handle}\n    integer :: MPI_VAL\n  end type MPI_{handle}"
        )
        .unwrap();
    }
    out.push_str(
        "\n  type, bind(c) :: MPI_Status\n    integer :: MPI_SOURCE\n    integer :: MPI_TAG\n    integer :: MPI_ERROR\n    \
         integer :: MPI_internal(5)\n  end type MPI_Status\n",
    );
    for (operator, suffix) in [("==", "equal"), ("/=", "unequal")] {
        writeln!(out, "\n  interface operator({operator})").unwrap();
        for handle in HANDLES {
            writeln!(
                out,
                "    module procedure weft_{}_{suffix}",
                handle.to_lowercase()
            )
            .unwrap();
        }
        writeln!(out, "  end interface operator({operator})").unwrap();
    }
    for handle in HANDLES {
        for suffix in ["equal", "unequal"] {
            writeln!(out, "  private :: weft_{}_{suffix}", handle.to_lowercase()).unwrap();
        }
    }
    let sizes = if compiler.descriptors { Vec::new() } else { sized() };
    for name in ["MPI_Sizeof", "PMPI_Sizeof"]
        .iter()
        .take(2 * usize::from(!sizes.is_empty()))
    {
        writeln!(out, "\n  interface {name}").unwrap();
        for (procedure, ..) in &sizes {
            writeln!(out, "    module procedure {procedure}").unwrap();
        }
        writeln!(out, "  end interface {name}").unwrap();
    }
    for (procedure, ..) in &sizes {
        writeln!(out, "  private :: {procedure}").unwrap();
    }
    out.push_str("\ncontains\n");
    for (procedure, kind, rank) in &sizes {
        let shape = match rank {
            0 => String::new(),
            rank => format!("({})", vec![":"; *rank].join(",")),
        };
        writeln!(
            out,
            "\n  subroutine {procedure}(x, size, ierror)\n    {kind}, intent(in) :: x{shape}\n    \
             integer, intent(out) :: size\n    integer, optional, intent(out) :: ierror\n    \
             size = int(storage_size(x)) / 8\n    if (present(ierror)) ierror = 0\n  end subroutine {procedure}"
        )
        .unwrap();
    }
    for handle in HANDLES {
        for (operator, suffix) in [("==", "equal"), ("/=", "unequal")] {
            let name = format!("weft_{}_{suffix}", handle.to_lowercase());
            writeln!(
                out,
                "\n  elemental logical function {name}(one, other)\n    type(MPI_{handle}), intent(in) :: one, other\n    \
                 {name} = one%MPI_VAL {operator} other%MPI_VAL\n  end function {name}"
            )
            .unwrap();
        }
    }
    out.push_str("\nend module weft_mpi_types\n");
    out
}

/// The procedures of `MPI_Sizeof` for a compiler that passes no descriptors: the name of each, the type of its argument, and how many
/// dimensions that has.
fn sized() -> Vec<(String, String, usize)> {
    let kinds = [
        ("integer", [1, 2, 4, 8].as_slice()),
        ("real", &[4, 8]),
        ("complex", &[4, 8]),
        ("logical", &[1, 2, 4, 8]),
    ];
    let numbers = kinds.iter().flat_map(|(name, kinds)| {
        kinds
            .iter()
            .map(move |kind| (format!("{name}{kind}"), format!("{name}(kind={kind})")))
    });
    numbers
        .chain([("character".to_owned(), "character(len=*)".to_owned())])
        .flat_map(|(name, kind)| {
            (0..8).map(move |rank| (format!("weft_sizeof_{name}_{rank}"), kind.clone(), rank))
        })
        .collect()
}
