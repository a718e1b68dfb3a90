//! Keeps `docs/unsupported.md` identical with the list in `weft::abi::unsupported`. `WEFT_BLESS=1` rewrites it.

use std::fmt::Write as _;

use weft::abi::unsupported::{RAISED_AT, UNSUPPORTED};

mod abi;

fn page() -> String {
    let mut page = String::from(
        "# What is not built yet\n\n\
         Each of these procedures is there for the linker, and raises `MPI_ERR_UNSUPPORTED_OPERATION` with its own name: at the\n\
         communicator, window or file that is among its arguments, otherwise at `MPI_COMM_SELF`. The tool interface\n\
         (`MPI_T_…`) raises nothing: `MPI_T_init_thread` returns `MPI_T_ERR_NOT_SUPPORTED` and every other\n\
         `MPI_T_ERR_NOT_INITIALIZED`, before `MPI_Init` too.\n\
         `_c` stands for the twin with large counts. This page is written from `src/abi/unsupported.rs`:\n\
         `WEFT_BLESS=1 cargo test --test abi_unsupported` writes it anew.\n\n\
         | chapter of MPI 5.0 | number | procedures |\n| --- | --- | --- |\n",
    );
    let mut total = 0;
    for chapter in UNSUPPORTED {
        let procedures = chapter.procedures;
        let mut cells = Vec::new();
        for procedure in procedures {
            let base = procedure
                .strip_suffix("_c")
                .filter(|base| procedures.contains(base));
            if base.is_some() {
                continue; // Named with its twin.
            }
            let twin = procedures.contains(&format!("{procedure}_c").as_str());
            cells.push(format!("`{procedure}`{}", if twin { " `_c`" } else { "" }));
        }
        writeln!(
            page,
            "| {}. {} | {} | {} |",
            chapter.number,
            chapter.title,
            procedures.len(),
            cells.join(", ")
        )
        .expect("a String takes everything");
        total += procedures.len();
    }
    writeln!(page, "\nIn all: {total} of 664.").expect("a String takes everything");
    page
}

#[test]
fn the_page_lists_what_the_source_lists() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/unsupported.md");
    let page = page();
    if std::env::var_os("WEFT_BLESS").is_some() {
        std::fs::write(path, &page).expect("docs/unsupported.md is writable");
    }
    let written = std::fs::read_to_string(path).expect("docs/unsupported.md is readable");
    assert!(
        written == page,
        "docs/unsupported.md is out of date: WEFT_BLESS=1 cargo test --test abi_unsupported writes it anew"
    );
}

/// Each raises at the first communicator, window or file among its parameters.
#[test]
fn errors_go_to_the_object_among_the_parameters() {
    let procedures = abi::procedures();
    assert_eq!(
        RAISED_AT.len(),
        UNSUPPORTED.iter().map(|chapter| chapter.procedures.len()).sum()
    );
    for &(name, kind, before) in RAISED_AT {
        let procedure = procedures
            .iter()
            .find(|procedure| procedure.name == name)
            .expect("one of the standard's");
        let object = procedure
            .parameters
            .split(", ")
            .enumerate()
            .find_map(|(at, parameter)| {
                let (of_type, variable) = parameter.split_once(' ')?;
                let kind = match of_type {
                    _ if variable.contains(['*', '[']) => return None,
                    "MPI_Comm" => "comm",
                    "MPI_Win" => "win",
                    "MPI_File" => "file",
                    _ => return None,
                };
                Some((kind, at))
            });
        let expected = match object {
            _ if name.starts_with("MPI_T_") => ("tool", 0),
            None if name.starts_with("MPI_Register_datarep") => ("no_file", 0),
            found => found.unwrap_or(("", 0)),
        };
        assert_eq!((kind, before), expected, "{name}({})", procedure.parameters);
    }
}
