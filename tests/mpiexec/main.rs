//! `mpiexec` from outside, with shell commands as ranks, and with ranks that speak PMI by `weft::system::bootstrap` ([`rank`]).

mod command_line;
mod ends;
mod hosts;
mod jobs;
mod output;
mod placing;
mod rank;
mod spawning;
mod terminal;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// `mpiexec` with these arguments and without input. No job of a test goes on for longer than a minute.
fn mpiexec(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpiexec"));
    command
        .args(args)
        .stdin(Stdio::null())
        .env("MPIEXEC_TIMEOUT", "60")
        .env_remove("PMI_FD");
    command
}

/// Runs `mpiexec` to its end.
fn run(args: &[&str]) -> Output {
    mpiexec(args).output().expect("mpiexec starts")
}

/// The exit status; a launcher killed by a signal is a failure of the test.
fn status(output: &Output) -> i32 {
    output
        .status
        .code()
        .unwrap_or_else(|| panic!("mpiexec was killed: {output:?}"))
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// The job fails with this status and says why in one line.
fn fails_in_one_line(output: &Output, expected: i32, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(status(output), expected, "{text}");
    let told: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("mpiexec: "))
        .collect();
    assert_eq!(told.len(), 1, "{text}");
    for words in words {
        assert!(told[0].contains(words), "{text}");
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// The lines of standard output in alphabetical order, for ranks write in any order.
fn sorted(output: &Output) -> Vec<String> {
    let mut lines: Vec<String> = stdout(output).lines().map(str::to_string).collect();
    lines.sort();
    lines
}

/// What spawned ranks say. A line of theirs may follow the beginning of one of the ranks that have spawned them, which the harness of those
/// has written: two launchers, with one output, do not know of each other's lines.
fn said_by_spawned(output: &Output) -> Vec<String> {
    let said = stdout(output);
    let lines = said
        .lines()
        .filter_map(|line| Some(line[line.find("spawned")?..].to_string()));
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

/// Waits until `done` or fails with `what`.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the process is there and not a zombie.
fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']));
    state == Some(false)
}

/// A job that runs while the test does something to it.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("mpiexec starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Running { child, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(
            self.output.read_line(&mut line).expect("text"),
            0,
            "the job ended early"
        );
        line.trim_end().to_string()
    }

    /// Reads lines up to one for each of `count` ranks that `wanted` picks; what it made of them.
    fn lines<T>(&mut self, count: usize, mut wanted: impl FnMut(&str) -> Option<T>) -> Vec<T> {
        let mut found = Vec::new();
        while found.len() < count {
            found.extend(wanted(&self.line()));
        }
        found
    }

    fn signal(&self, number: i32) {
        // SAFETY: the call takes numbers only; the child has not been waited for, so the number is its.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, number) }, 0);
    }

    /// Its exit status and what it wrote to standard error.
    fn end(self) -> (i32, String) {
        drop(self.output);
        let output = self.child.wait_with_output().expect("mpiexec can be waited for");
        (status(&output), stderr(&output))
    }
}
