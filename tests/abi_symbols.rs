//! Holds the shared library's dynamic symbols against the standard's procedures and those that it removed, and its soname against the ABI's.

mod abi;

use std::collections::BTreeSet;
use std::path::PathBuf;

use object::read::elf::{ElfFile64, FileHeader as _};
use object::{Object as _, ObjectSymbol as _, ObjectSymbolTable as _, RelocationTarget, elf};

/// The shared library that was built for this test: one run of the compiler makes it and the Rust library that
/// this test is linked with, side by side in the folder of the test's own program.
fn library() -> PathBuf {
    let program = std::env::current_exe().expect("a program knows where it is");
    program.with_file_name("libweft.so")
}

#[test]
fn every_procedure_is_exported_under_both_names_and_nothing_else() {
    let bytes = std::fs::read(library()).unwrap_or_else(|e| panic!("{}: {e}", library().display()));
    let file = ElfFile64::<object::Endianness>::parse(&*bytes).expect("an ELF file");
    let exported: BTreeSet<String> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .map(|symbol| symbol.name().expect("a name").to_owned())
        .collect();
    let both = |procedures: Vec<abi::Procedure>| -> BTreeSet<String> {
        let names = procedures.iter().map(|procedure| &procedure.name);
        names
            .flat_map(|name| [name.clone(), format!("P{name}")])
            .collect()
    };
    let mut expected = both(abi::procedures());
    assert_eq!(expected.len(), 2 * 664);
    expected.extend(both(abi::removed()));
    let missing: Vec<_> = expected.difference(&exported).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
    let beyond: Vec<_> = exported.difference(&expected).collect();
    assert!(beyond.is_empty(), "exported, and in neither table: {beyond:?}");
}

#[test]
fn the_library_calls_its_own_procedures_whatever_a_profiler_replaces() {
    let bytes = std::fs::read(library()).unwrap_or_else(|e| panic!("{}: {e}", library().display()));
    let file = ElfFile64::<object::Endianness>::parse(&*bytes).expect("an ELF file");
    let table = file.dynamic_symbol_table().expect("dynamic symbols");
    let relocations = file.dynamic_relocations().expect("dynamic relocations");
    let mut number = 0;
    for (_, relocation) in relocations {
        number += 1;
        if let RelocationTarget::Symbol(index) = relocation.target() {
            let name = table
                .symbol_by_index(index)
                .expect("a symbol")
                .name()
                .expect("a name");
            assert!(!name.contains("MPI_"), "the loader binds {name}");
        }
    }
    assert!(number > 100, "{number} relocations");
}

#[test]
fn the_soname_is_the_one_of_the_abi() {
    let bytes = std::fs::read(library()).unwrap_or_else(|e| panic!("{}: {e}", library().display()));
    let file = ElfFile64::<object::Endianness>::parse(&*bytes).expect("an ELF file");
    let endian = file.endian();
    let header = file.elf_header();
    let sections = header.sections(endian, &*bytes).expect("sections");
    let dynamic = sections
        .dynamic_table(endian, &*bytes)
        .expect("a readable dynamic section");
    let sonames: Vec<_> = dynamic
        .iter()
        .filter(|entry| entry.tag == elf::DT_SONAME)
        .map(|entry| dynamic.string(entry).expect("a string"))
        .collect();
    assert_eq!(sonames, [b"libmpi_abi.so.1"]);
}

#[test]
fn every_procedure_links_from_c() {
    // The linker, unlike a list of names, also refuses a symbol that is hidden or of the wrong kind.
    let mut source =
        String::from("#include <mpi.h>\ntypedef void any(void);\nextern any *all[];\nany *all[] = {\n");
    for procedure in abi::procedures().into_iter().chain(abi::removed()) {
        source.push_str(&format!("    (any *){0}, (any *)P{0},\n", procedure.name));
    }
    source.push_str("};\nint main(void)\n{\n    return all[0] == 0;\n}\n");
    let library = library();
    // A name of its own: the library's soname is not the name of its file.
    let named = abi::scratch().join("libmpi_abi.so.1");
    let _ = std::fs::remove_file(&named);
    std::os::unix::fs::symlink(&library, &named).expect("the target folder is writable");
    let program = abi::compile(
        "link.c",
        &source,
        &[
            "-Wno-cast-function-type",
            "-Wno-deprecated-declarations",
            "-Wl,--no-as-needed",
            "-Wl,-rpath",
            &format!("-Wl,{}", abi::scratch().display()),
            named.to_str().expect("a path in UTF-8"),
        ],
    );
    abi::run(&program);
}
