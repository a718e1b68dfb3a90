//! `docs/conformance-lifecycle.md`: every row of its tables names a test that exists.

use std::path::Path;

/// The cells of a table's row.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.strip_prefix('|')?.trim_end().strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

#[test]
fn every_sentence_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text =
        std::fs::read_to_string(root.join("docs/conformance-lifecycle.md")).expect("the table is there");
    let mut wrong = Vec::new();
    // Of the tables, those whose second column is of tests.
    let (mut names_tests, mut rows) = (false, 0);
    for (number, line) in text.lines().enumerate() {
        let Some(cells) = cells(line) else {
            names_tests = false;
            continue;
        };
        if !names_tests || cells[0].starts_with("---") {
            names_tests |= matches!(cells[..], [_, "test"]);
            continue;
        }
        rows += 1;
        let mut complain = |what: &str| wrong.push(format!("line {}: {what}: {line}", number + 1));
        let [_, tests] = cells[..] else {
            complain("two cells are expected");
            continue;
        };
        if tests.is_empty() {
            complain("no test");
        }
        for test in tests.split(';') {
            let Some((file, word)) = test.trim().trim_matches('`').split_once(": ") else {
                complain("a test is named as `FILE: WORD`");
                continue;
            };
            match std::fs::read_to_string(root.join(file)) {
                Ok(source) if source.contains(word) => {}
                Ok(_) => complain(&format!("{file} has no '{word}'")),
                Err(error) => complain(&format!("{file}: {error}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows > 180, "only {rows} rows were found");
}
