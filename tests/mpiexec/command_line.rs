//! Mistakes and help: one clear line each.

use super::*;

/// Runs and expects this status, and one line on standard error that has `words`.
fn refused(args: &[&str], expected: i32, words: &str) {
    let output = run(args);
    let text = stderr(&output);
    assert_eq!(status(&output), expected, "{args:?}: {text}");
    assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
    assert!(
        text.starts_with("mpiexec: ") && text.contains(words),
        "{args:?}: {text}"
    );
    assert_eq!(stdout(&output), "");
}

#[test]
fn a_program_that_can_not_run_is_told_once() {
    refused(
        &["-n", "4", "no-such-program-here"],
        127,
        "'no-such-program-here' is not found",
    );
    refused(&["-n", "4", "./no-such-program-here"], 127, "does not exist");
    refused(&["-n", "4", "/etc/passwd"], 126, "not executable");
    refused(&["/etc"], 126, "directory");
    refused(
        &["-n", "1", "true", ":", "-n", "1", "no-such-program-here"],
        127,
        "no-such-program-here",
    );
}

#[test]
fn mistakes_are_told_in_one_line() {
    refused(&[], 2, "no program");
    refused(&["-n", "0", "true"], 2, "0");
    refused(&["-n", "many", "true"], 2, "many");
    refused(&["-n"], 2, "required");
    refused(&["-no-such-option", "true"], 2, "-no-such-option");
    refused(&["-wdir", "/no/such/directory", "true"], 2, "/no/such/directory");
    refused(&["-initial-errhandler", "none", "true"], 2, "mpi_errors_return");
    let output = mpiexec(&["true"])
        .env("MPIEXEC_TIMEOUT", "soon")
        .output()
        .unwrap();
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("soon"));
}

#[test]
fn help_and_version_go_to_standard_output() {
    let help = run(&["--help"]);
    assert_eq!(status(&help), 0);
    for words in [
        "Usage: mpiexec",
        "--bind-to",
        "--dry-run",
        "--report-bindings",
        "-n 1 ./manager : -n 7 ./worker",
        "exit status",
    ] {
        assert!(stdout(&help).contains(words), "{words}");
    }
    let version = run(&["-version"]);
    assert!(stdout(&version).contains(env!("CARGO_PKG_VERSION")));
}
