//! `docs/conformance-lifecycle.md`: every row of its tables names a test that exists and is run: the word stands in a function that a
//! test calls, or in what is said before it, and a C program is one that `tests/programs` runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The cells of a table's row.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.strip_prefix('|')?.trim_end().strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

fn is_name(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || sign == '_'
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|sign| !is_name(sign)).filter(|name| !name.is_empty())
}

/// A part of a source that has a name: a function, a table, a macro, each with the comment before it.
struct Part {
    name: String,
    text: String,
    /// The test runner begins here.
    is_root: bool,
}

impl Part {
    /// Without comments: names that are mentioned there are not used.
    fn code(&self) -> String {
        let mut code = String::new();
        let mut in_comment = false;
        for line in self.text.lines().map(str::trim_start) {
            in_comment |= line.starts_with("/*");
            if !in_comment && !line.starts_with("//") {
                code.push_str(line);
                code.push('\n');
            }
            in_comment &= !line.contains("*/");
        }
        code
    }
}

/// The parts of a C source: what begins in the first column, after an empty line or the end of the one before.
fn parts_of_c(source: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut in_body = false;
    for line in source.lines() {
        in_body |= line.starts_with('{') || line.ends_with(" = {");
        if line.is_empty() && !in_body {
            parts.push(std::mem::take(&mut text));
        }
        text.push_str(line);
        text.push('\n');
        in_body &= !line.starts_with('}');
    }
    parts.push(text);
    let named = |text: String| {
        let mut part = Part {
            name: String::new(),
            text,
            is_root: false,
        };
        let code = part.code();
        let head = match code.trim_start().strip_prefix("#define ") {
            Some(rest) => names(rest).next(),
            None => code
                .find(['(', '[', '=', ';'])
                .and_then(|end| names(&code[..end]).last()),
        };
        part.name = head.unwrap_or_default().to_string();
        part.is_root = part.name == "main";
        part
    };
    parts.into_iter().map(named).collect()
}

/// The parts of a Rust source: functions and constants wherever they are, each with the lines of comments and attributes before it.
fn parts_of_rust(source: &str) -> Vec<Part> {
    let mut parts = vec![];
    let mut before = String::new();
    for line in source.lines() {
        let trimmed = line.trim_start();
        let head = trimmed.strip_prefix("pub ").unwrap_or(trimmed);
        let head = head.strip_prefix("async ").unwrap_or(head);
        let head = head.strip_prefix("unsafe ").unwrap_or(head);
        let begins = (head
            .strip_prefix("fn ")
            .or(head.strip_prefix("const "))
            .or(head.strip_prefix("static ")))
        .and_then(|rest| names(rest).next());
        if let Some(name) = begins {
            let test = before.lines().any(|line| line.trim() == "#[test]");
            parts.push(Part {
                name: name.to_string(),
                text: std::mem::take(&mut before),
                is_root: test || name == "trials",
            });
        }
        let waits = trimmed.starts_with("//") || trimmed.starts_with("#[");
        match parts.last_mut() {
            Some(part) if !waits => {
                // What stood before was inside.
                part.text.push_str(&std::mem::take(&mut before));
                part.text.push_str(line);
                part.text.push('\n');
            }
            _ => {
                before.push_str(line);
                before.push('\n');
            }
        }
    }
    parts
}

/// The text of all parts that are run.
fn run_text(parts: &[Part]) -> String {
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, part) in parts.iter().enumerate() {
        by_name.entry(&part.name).or_default().push(at);
    }
    let mut reached: BTreeSet<usize> = (0..parts.len()).filter(|&at| parts[at].is_root).collect();
    let mut new: Vec<usize> = reached.iter().copied().collect();
    while let Some(at) = new.pop() {
        let code = parts[at].code();
        for next in names(&code).filter_map(|name| by_name.get(name)).flatten() {
            if reached.insert(*next) {
                new.push(*next);
            }
        }
    }
    reached.into_iter().map(|at| &*parts[at].text).collect()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
    {
        match entry.is_dir() {
            true => files.extend(files_below(&entry)),
            false => files.push(entry),
        }
    }
    files.sort();
    files
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// What of a file is run by tests.
fn run_of(root: &Path, file: &str) -> Result<String, String> {
    let path = root.join(file);
    let source = read(&path)?;
    let c = root.join("tests/c");
    if file.ends_with(".rs") {
        let mut crates = ["collectives", "datatypes", "mpiexec", "programs", "simulation"].into_iter();
        let folder = crates.find(|name| file.starts_with(&format!("tests/{name}/")));
        if !file.starts_with("src/") && folder.is_none() {
            return Err(format!("{file} is no file of tests"));
        }
        let own = parts_of_rust(&source);
        let Some(folder) = folder else {
            return Ok(run_text(&own));
        };
        // Functions of one file are called from others of its crate; only its own text counts.
        let mut parts = own;
        let own = parts.len();
        for other in files_below(&root.join("tests").join(folder))
            .iter()
            .filter(|other| **other != path)
        {
            parts.extend(parts_of_rust(&read(other)?));
        }
        for part in &mut parts[own..] {
            part.text = part.code();
        }
        return Ok(run_text(&parts));
    }
    // The program itself, or those that include the header.
    let programs: Vec<PathBuf> = match file.strip_suffix(".h") {
        None => vec![path.clone()],
        Some(_) => {
            let include = format!(
                "#include \"{}\"",
                path.file_name().expect("a name").to_string_lossy()
            );
            let includes = |file: &PathBuf| read(file).is_ok_and(|source| source.contains(&include));
            files_below(&c).into_iter().filter(includes).collect()
        }
    };
    let mut run = String::new();
    let mut runners = String::new();
    for runner in files_below(&root.join("tests/programs")) {
        runners += &read(&runner)?;
    }
    for program in programs {
        let name = program
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if !runners.contains(&format!("\"{name}\"")) {
            continue;
        }
        let mut parts = parts_of_c(&source);
        if program != path {
            parts.extend(parts_of_c(&read(&program)?));
        }
        run += &run_text(&parts);
    }
    match run.is_empty() {
        true => Err(format!("no test runs {file}")),
        false => Ok(run),
    }
}

/// What is wrong with the tables of a text, and how many rows they have.
fn check(root: &Path, text: &str) -> (Vec<String>, usize) {
    let mut wrong = Vec::new();
    let mut run: BTreeMap<String, Result<String, String>> = BTreeMap::new();
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
        for test in tests.split("`; `") {
            let Some((file, word)) = test.trim().trim_matches('`').split_once(": ") else {
                complain("a test is named as `FILE: WORD`");
                continue;
            };
            match run.entry(file.to_string()).or_insert_with(|| run_of(root, file)) {
                Ok(source) if source.contains(word) => {}
                Ok(_) => complain(&format!("no test that is run in {file} has '{word}'")),
                Err(error) => complain(error),
            }
        }
    }
    (wrong, rows)
}

#[test]
fn every_sentence_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/conformance-lifecycle.md")).expect("the table is there");
    let (wrong, rows) = check(root, &text);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows > 180, "only {rows} rows were found");
}

/// A word that stands somewhere else than in what is run is no test.
#[test]
fn a_sentence_without_a_test_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        fs::write(path, text).expect("it can be written");
    };
    let program = "#include \"part.h\"\n\n/* Nobody calls this. */\nstatic void left(void)\n{\n    gone();\n}\n\n\
        /* What is run. */\nstatic void used(void)\n{\n    /* left */\n    in_the_header();\n}\n\n\
        int main(void)\n{\n    used();\n}\n";
    write("tests/c/run.c", program);
    write("tests/c/not_run.c", program);
    write(
        "tests/c/part.h",
        "static void in_the_header(void)\n{\n    called();\n}\n\nstatic void too_much(void)\n{\n}\n",
    );
    write(
        "tests/programs/main.rs",
        "pub fn trials() {\n    Trial::test(\"a::name\", step);\n    program(\"run\");\n}\n\n\
         fn step() {\n    does();\n}\n\n// As `step`.\nfn stale() {\n    nothing();\n}\n",
    );
    write(
        "src/it.rs",
        "mod tests {\n    /// It holds.\n    #[test]\n    fn holds() {\n        helps();\n    }\n\n    \
         fn helps() {}\n\n    fn forgotten() {}\n}\n",
    );
    for (test, good) in [
        ("tests/c/run.c: used", true),
        ("tests/c/run.c: What is run", true),
        ("tests/c/run.c: left(void)", false),
        ("tests/c/run.c: Nobody calls this", false),
        ("tests/c/run.c: gone", false),
        ("tests/c/not_run.c: used", false),
        ("tests/c/part.h: called", true),
        ("tests/c/part.h: too_much", false),
        ("tests/c/missing.c: used", false),
        ("tests/programs/main.rs: does", true),
        ("tests/programs/main.rs: a::name", true),
        ("tests/programs/main.rs: nothing", false),
        ("tests/programs/main.rs: As `step`", false),
        ("src/it.rs: holds", true),
        ("src/it.rs: It holds", true),
        ("src/it.rs: helps", true),
        ("src/it.rs: forgotten", false),
        ("benches/it.rs: main", false),
        ("no test at all", false),
    ] {
        let text = format!("| sentence | test |\n| --- | --- |\n| It is so | `{test}` |\n");
        let (wrong, rows) = check(folder.path(), &text);
        assert_eq!((wrong.is_empty(), rows), (good, 1), "{test}: {wrong:?}");
    }
}
