//! Holds the symbols of the Fortran library against the table of procedures.

use std::collections::BTreeSet;
use std::path::PathBuf;

use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSymbol as _};
use weft_fortran_generator::bindings::exported;
use weft_fortran_generator::modules::{PREDEFINED, VARIABLES};

/// What programs of MPI-1 call, and the standard has no longer.
const REMOVED: [&str; 10] = [
    "address",
    "errhandler_create",
    "errhandler_get",
    "errhandler_set",
    "type_extent",
    "type_hindexed",
    "type_hvector",
    "type_lb",
    "type_struct",
    "type_ub",
];

#[test]
fn each_interface_has_its_symbols_and_nothing_else_is_exported() {
    let program = std::env::current_exe().expect("a program knows where it is");
    let library: PathBuf = program.with_file_name("libweft_fortran.so");
    let bytes = std::fs::read(&library).unwrap_or_else(|e| panic!("{}: {e}", library.display()));
    let file = ElfFile64::<object::Endianness>::parse(&*bytes).expect("an ELF file");
    let found: BTreeSet<String> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .map(|symbol| symbol.name().expect("a name").to_owned())
        .collect();

    let mut expected = exported();
    assert!(expected.len() > 2500, "{}", expected.len());
    for name in [
        "mpi_send_",
        "pmpi_comm_rank_f08_",
        "weft_mpi_isend_c_f08ts",
        "mpi_isend_f08ts_",
    ] {
        assert!(expected.contains(name), "{name}");
    }
    expected.extend(PREDEFINED.map(|(name, _)| format!("{}_", name.to_lowercase())));
    expected.extend(VARIABLES.map(|(_, block)| format!("weft_{block}_")));
    expected.extend(
        REMOVED
            .iter()
            .flat_map(|name| [format!("mpi_{name}_"), format!("pmpi_{name}_")]),
    );
    expected.extend(["weft_probe".to_owned()]);
    let missing: Vec<_> = expected.difference(&found).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
    let beyond: Vec<_> = found.difference(&expected).collect();
    assert!(beyond.is_empty(), "exported, and in no table: {beyond:?}");
}
