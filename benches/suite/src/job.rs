//! One run of one program: started, limited in time, and cleaned up after.
//!
//! Ranks are the launcher's children or its helpers', and some launchers leave them behind when they are killed. So this
//! process adopts orphans ([`adopt`]), and a run has ended only when no descendant is left.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid, waitpid};
use nix::unistd::Pid;

/// How long a launcher that was asked to end has for it, and whatever outlives its launcher.
const GRACE: Duration = Duration::from_secs(3);
/// Of what a failed run wrote to standard error, this many last lines are kept.
const LINES: usize = 20;

/// What to run and for how long.
#[derive(Debug)]
pub struct Job {
    /// The launcher and its arguments.
    pub words: Vec<OsString>,
    pub environment: Vec<(&'static str, OsString)>,
    /// Variables that it must not inherit.
    pub unset: &'static [&'static str],
    pub limit: Duration,
}

/// A run that gave no result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The command line.
    pub command: String,
    /// What happened, in a few words.
    pub what: String,
    /// The end of its standard error, or of its standard output where that is empty.
    pub said: String,
    /// All of its standard output: what it had found by then.
    pub printed: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.command, self.what)?;
        for line in self.said.lines() {
            write!(f, "\n    {line}")?;
        }
        Ok(())
    }
}

/// Makes this process the parent of all descendants whose own parent dies.
pub fn adopt() -> Result<(), String> {
    nix::sys::prctl::set_child_subreaper(true)
        .map_err(|error| format!("cannot adopt orphaned processes: {error}"))
}

/// Whether there is such a program: at that path, or somewhere in `PATH` if it is a name alone.
pub fn is_program(path: &Path) -> bool {
    let runs = |path: &Path| {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if path.components().count() > 1 {
        return runs(path);
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| runs(&folder.join(path)))
}

impl Job {
    /// Runs it to its end, or for as long as it may take; what it printed.
    ///
    /// # Errors
    ///
    /// It does not start, ends with another status than 0, or does not end in time.
    pub fn run(&self) -> Result<String, Failure> {
        let trouble = |error: io::Error| {
            self.failure(format!("it cannot be run: {error}"), String::new(), String::new())
        };
        // Files and not pipes: a rank that outlives its launcher cannot keep this process reading.
        let mut out = tempfile::tempfile().map_err(trouble)?;
        let mut err = tempfile::tempfile().map_err(trouble)?;
        let mut command = Command::new(&self.words[0]);
        command
            .args(&self.words[1..])
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(out.try_clone().map_err(trouble)?)
            .stderr(err.try_clone().map_err(trouble)?);
        for name in self.unset {
            // What was set above stays.
            if !self.environment.iter().any(|(set, _)| set == name) {
                command.env_remove(name);
            }
        }
        let child = command.spawn().map_err(trouble)?;
        let ended = supervise(child, self.limit).map_err(trouble)?;
        let printed = text(&mut out);
        let what = match ended {
            Some(status) if status.success() => return Ok(printed),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("it ended with status {code}"),
                (None, signal) => format!("signal {} ended it", signal.unwrap_or(0)),
            },
            None => format!("it hung: it was ended after {} s", self.limit.as_secs_f64()),
        };
        let said = text(&mut err);
        Err(self.failure(what, said, printed))
    }

    /// A failure of this job, with its standard error and its standard output.
    pub fn failure(&self, what: String, said: String, printed: String) -> Failure {
        let words: Vec<_> = self.words.iter().map(|word| word.to_string_lossy()).collect();
        let text = if said.trim().is_empty() { &printed } else { &said };
        let lines: Vec<_> = text.trim_end().lines().collect();
        Failure {
            command: words.join(" "),
            what,
            said: lines[lines.len().saturating_sub(LINES)..].join("\n"),
            printed,
        }
    }
}

/// What is in the file, from its beginning.
fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    // A file of our own that cannot be read is as good as an empty one: the missing numbers will be reported.
    let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for the launcher to end, and makes sure that nothing of the job is left. `None`: it had to be ended.
fn supervise(mut child: Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let pid = Pid::from_raw(child.id().cast_signed());
    let (say, ended) = mpsc::channel();
    // It waits without reaping, so that the process id stays the launcher's until `child.wait` below.
    let waiter = thread::spawn(move || {
        while waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR) {}
        let _ = say.send(());
    });
    let in_time = ended.recv_timeout(limit) != Err(RecvTimeoutError::Timeout);
    if !in_time {
        // A launcher that is asked takes its ranks with it.
        let _ = kill(pid, Signal::SIGTERM);
        if ended.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
            let _ = kill(pid, Signal::SIGKILL);
        }
    }
    let status = child.wait()?;
    let _ = waiter.join();
    sweep(if in_time { GRACE } else { Duration::ZERO });
    Ok(in_time.then_some(status))
}

/// Waits for all descendants of this process, and after the grace period kills them. One that even then does not go (the
/// kernel may hold it) is left behind after a while.
fn sweep(grace: Duration) {
    let start = Instant::now();
    while start.elapsed() < grace + 3 * GRACE {
        let left = descendants();
        if left.is_empty() {
            return;
        }
        for pid in left {
            if start.elapsed() >= grace {
                let _ = kill(pid, Signal::SIGKILL);
            }
            // Those that are not our own children say ECHILD, and are once their parents have gone.
            let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// All processes below this one.
fn descendants() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pairs: Vec<(i32, i32)> = entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((pid, parent(&stat)?))
        })
        .collect();
    let mut found = vec![nix::unistd::getpid().as_raw()];
    let mut next = 0;
    while let Some(&above) = found.get(next) {
        found.extend(
            pairs
                .iter()
                .filter(|&&(_, parent)| parent == above)
                .map(|&(pid, _)| pid),
        );
        next += 1;
    }
    found[1..].iter().map(|&pid| Pid::from_raw(pid)).collect()
}

/// The parent's process id in the text of `/proc/PID/stat`. The program's name, in parentheses, can hold anything.
fn parent(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(script: &str, limit: Duration) -> Job {
        Job {
            words: ["/bin/sh", "-c", script].map(OsString::from).into(),
            environment: vec![("GIVEN", "here".into())],
            unset: &["GIVEN", "PATH_OF_NOTHING"],
            limit,
        }
    }

    /// All in one test: a run waits for every descendant of this process, so two at once would be in each other's way.
    #[test]
    fn jobs_run_fail_hang_and_leave_nothing_behind() {
        adopt().unwrap();
        let long = Duration::from_secs(60);
        assert_eq!(job("echo one; echo $GIVEN", long).run(), Ok("one\nhere\n".into()));

        let failure = job("echo out; echo broken >&2; exit 3", long).run().unwrap_err();
        assert_eq!(
            (failure.what.as_str(), failure.said.as_str()),
            ("it ended with status 3", "broken")
        );
        assert!(failure.command.starts_with("/bin/sh -c echo out"), "{failure}");
        assert_eq!(failure.printed, "out\n");
        let failure = job("echo only out; kill -9 $$", long).run().unwrap_err();
        assert_eq!(
            (failure.what.as_str(), failure.said.as_str()),
            ("signal 9 ended it", "only out")
        );
        let failure = job("seq 1 100 >&2; false", long).run().unwrap_err();
        assert_eq!(
            failure.said.lines().collect::<Vec<_>>(),
            (81..=100).map(|n| n.to_string()).collect::<Vec<_>>()
        );

        let nothing = Job {
            words: vec!["/nowhere/mpiexec".into()],
            ..job("", long)
        };
        assert!(nothing.run().unwrap_err().what.contains("cannot be run"));

        // One that heeds no signal, with a child in a session of its own that keeps standard output open.
        let start = Instant::now();
        let stubborn =
            "trap '' TERM; echo begun >&2; (trap '' TERM; setsid sleep 1000) & sleep 1000; sleep 1000";
        let failure = job(stubborn, Duration::from_millis(500)).run().unwrap_err();
        assert_eq!(failure.what, "it hung: it was ended after 0.5 s");
        assert_eq!(failure.said, "begun");
        assert!(start.elapsed() < Duration::from_secs(50), "{:?}", start.elapsed());
        assert_eq!(descendants(), []);

        // An orphan ends with the run that left it, without making a failure of it.
        assert_eq!(job("sleep 1000 & echo done", long).run(), Ok("done\n".into()));
        assert_eq!(descendants(), []);
    }

    #[test]
    fn a_parent_is_found_behind_any_name() {
        assert_eq!(parent("12 (a) R) (x)) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12 (sh) S 1 12"), Some(1));
        assert_eq!(parent("nonsense"), None);
    }

    #[test]
    fn programs_are_found_by_path_and_by_name() {
        assert!(is_program(Path::new("/bin/sh")));
        assert!(is_program(Path::new("sh")));
        assert!(!is_program(Path::new("/etc/passwd")));
        assert!(!is_program(Path::new("no-such-launcher")));
    }
}
