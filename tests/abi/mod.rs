//! The standard ABI's facts as data, and a C compiler to hold things against them.

#![allow(dead_code)] // Each test program uses its part.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A constant of the standard.
pub struct Constant {
    /// Its name in C.
    pub name: String,
    /// `int`, `pointer`, `MPI_Offset`, or the type of the handle.
    pub kind: String,
    /// Its value, as an address where it is a handle or a pointer.
    pub value: i64,
}

/// A procedure of the standard.
pub struct Procedure {
    /// Its `MPI_` name.
    pub name: String,
    /// The type that it returns.
    pub returns: String,
    /// Its parameters as C writes them.
    pub parameters: String,
}

/// The three columns of a table whose first line names them.
fn rows(table: &str) -> impl Iterator<Item = [String; 3]> {
    table.lines().skip(1).map(|line| {
        let columns: Vec<_> = line.split('\t').map(str::to_owned).collect();
        columns
            .try_into()
            .unwrap_or_else(|_| panic!("not three columns: {line:?}"))
    })
}

/// Every constant of the standard ABI.
pub fn constants() -> Vec<Constant> {
    rows(include_str!("constants.tsv"))
        .map(|[name, kind, value]| Constant {
            value: value.parse().unwrap_or_else(|e| panic!("{name}: {value:?}: {e}")),
            name,
            kind,
        })
        .collect()
}

/// Every procedure of the standard ABI.
pub fn procedures() -> Vec<Procedure> {
    table_of_procedures(include_str!("functions.tsv"))
}

fn table_of_procedures(table: &str) -> Vec<Procedure> {
    rows(table)
        .map(|[name, returns, parameters]| Procedure {
            name,
            returns,
            parameters,
        })
        .collect()
}

/// The procedures of MPI-1 that MPI 3.0 removed, and that there are beside the standard's.
pub fn removed() -> Vec<Procedure> {
    table_of_procedures(include_str!("removed.tsv"))
}

/// A folder for what this test program makes.
pub fn scratch() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME"));
    std::fs::create_dir_all(&dir).expect("the target folder is writable");
    dir
}

/// Compiles `source` against `include/mpi.h`, with every warning an error, and gives the output's path. The file's
/// name chooses the language (`.c`, `.cc`); the compilers are those that `CC` and `CXX` name.
pub fn compile(file: &str, source: &str, flags: &[&str]) -> PathBuf {
    let (path, output, result) = try_to_compile(file, source, flags);
    assert!(
        result.status.success(),
        "the compiler refuses {}:\n{}",
        path.display(),
        String::from_utf8_lossy(&result.stderr)
    );
    output
}

/// What the compiler says of a source that it must refuse (every warning is an error).
pub fn refused(file: &str, source: &str, flags: &[&str]) -> String {
    let (path, _, result) = try_to_compile(file, source, flags);
    assert!(!result.status.success(), "the compiler takes {}", path.display());
    String::from_utf8_lossy(&result.stderr).into_owned()
}

/// The source's path, the output's, and how the compiler ended.
fn try_to_compile(file: &str, source: &str, flags: &[&str]) -> (PathBuf, PathBuf, Output) {
    let path = scratch().join(file);
    std::fs::write(&path, source).expect("the target folder is writable");
    let output = path.with_added_extension("out");
    let (variable, default) = if file.ends_with(".cc") {
        ("CXX", "c++")
    } else {
        ("CC", "cc")
    };
    let compiler = std::env::var(variable).unwrap_or_else(|_| default.to_owned());
    let result = Command::new(&compiler)
        .args(["-Wall", "-Wextra", "-Werror"])
        .args(flags)
        .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include"))
        .arg(&path)
        .arg("-o")
        .arg(&output)
        .output()
        .unwrap_or_else(|e| panic!("{compiler}: {e}"));
    (path, output, result)
}

/// Runs a program that must succeed, and gives what it printed.
pub fn run(program: &Path) -> String {
    let result = Command::new(program)
        .output()
        .expect("the program was just compiled");
    assert!(
        result.status.success(),
        "{}: {}",
        program.display(),
        result.status
    );
    String::from_utf8(result.stdout).expect("the program prints ASCII")
}
