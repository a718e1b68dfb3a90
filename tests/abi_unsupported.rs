//! Keeps `docs/unsupported.md` identical with the list in `weft::abi::unsupported`. `WEFT_BLESS=1` rewrites it.

use std::fmt::Write as _;

use weft::abi::unsupported::UNSUPPORTED;

fn page() -> String {
    let mut page = String::from(
        "# What is not built yet\n\n\
         Each of these procedures is there for the linker, and raises `MPI_ERR_UNSUPPORTED_OPERATION` with its own name.\n\
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
