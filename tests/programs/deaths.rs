//! Jobs that end badly: within seconds, with the right status and a line that says which rank and why, and with
//! nothing left behind.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Outcome;
use crate::build;
use crate::job::Job;
use crate::matrix::common;

/// "Within seconds", on a machine where other tests run at the same time.
const SOON: Duration = Duration::from_secs(20);
const RANKS: u32 = 4;

/// How rank `who` dies, the status of the job, and what is said.
struct Death {
    name: &'static str,
    how: &'static str,
    who: u32,
    code: i32,
    status: i32,
    words: &'static [&'static str],
}

const fn death(
    name: &'static str,
    how: &'static str,
    who: u32,
    code: i32,
    status: i32,
    words: &'static [&'static str],
) -> Death {
    Death {
        name,
        how,
        who,
        code,
        status,
        words,
    }
}

const DEATHS: &[Death] = &[
    death(
        "segmentation_fault",
        "segfault",
        1,
        0,
        139,
        &["rank 1", "signal 11"],
    ),
    death(
        "killed",
        "kill",
        2,
        0,
        137,
        &["rank 2", "signal 9 (Killed); ending the job"],
    ),
    death("first_rank_killed", "kill", 0, 0, 137, &["rank 0", "signal 9"]),
    death("exit_0", "exit", 1, 0, 1, &["rank 1", "status 0", "MPI_Finalize"]),
    death("exit_3", "exit", 3, 3, 3, &["rank 3", "status 3", "MPI_Finalize"]),
    death(
        "_exit_0",
        "_exit",
        0,
        0,
        1,
        &["rank 0", "status 0", "MPI_Finalize"],
    ),
    death("abort_0", "abort", 1, 0, 0, &["rank 1", "MPI_Abort", "code 0"]),
    death("abort_1", "abort", 0, 1, 1, &["rank 0", "MPI_Abort", "1"]),
    death("abort_42", "abort", 2, 42, 42, &["rank 2", "MPI_Abort", "42"]),
    death("abort_255", "abort", 3, 255, 255, &["rank 3", "MPI_Abort", "255"]),
    death("abort_256", "abort", 3, 256, 1, &["rank 3", "MPI_Abort", "256"]),
    death(
        "abort_while_others_compute",
        "abort-stuck",
        1,
        5,
        5,
        &["rank 1", "MPI_Abort", "5"],
    ),
    death(
        "error",
        "error",
        2,
        0,
        6,
        &["rank 2", "MPI_Send", "destination 11"],
    ),
];

/// The tests.
pub fn trials() -> Vec<Trial> {
    let deaths = DEATHS
        .iter()
        .map(|death| Trial::test(format!("deaths::{}", death.name), || die(death)));
    let signals = [
        ("deaths::interrupt_leaves_nothing", To::Launcher(Signal::SIGINT)),
        (
            "deaths::termination_leaves_nothing",
            To::Launcher(Signal::SIGTERM),
        ),
        (
            "deaths::killed_launcher_leaves_nothing",
            To::Launcher(Signal::SIGKILL),
        ),
        ("deaths::killed_rank_leaves_nothing", To::Rank(Signal::SIGKILL)),
        ("deaths::crashed_rank_leaves_nothing", To::Rank(Signal::SIGSEGV)),
    ];
    let signals = signals.into_iter().flat_map(|(name, to)| {
        // Weft's own shared memory has no names: nothing can be left, whoever is killed how.
        [common(), "shm", "WEFT_LANES=shm"]
            .into_iter()
            .map(move |provider| {
                Trial::test(format!("{name}::{provider}"), move || {
                    leaves_nothing(to, provider)
                })
            })
    });
    let files = Trial::test("deaths::only_temporary_files_count", only_temporary_files_count);
    deaths.chain(signals).chain([files]).collect()
}

fn die(death: &Death) -> Outcome {
    let (who, code) = (death.who.to_string(), death.code.to_string());
    let ended = Job::new(&build::program("death")?, RANKS)
        .arguments(&[death.how, &who, &code])
        .over(common())
        .run()?;
    ended.status_is(death.status)?;
    let mut words = vec!["mpiexec: "];
    words.extend(death.words);
    ended.says(&words)?;
    if ended.took > SOON {
        return Err(ended.fail("the end took too long"));
    }
    Ok(())
}

/// Who gets a signal.
#[derive(Clone, Copy)]
enum To {
    Launcher(Signal),
    Rank(Signal),
}

/// Whether the process is there and not a zombie.
fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']));
    state == Some(false)
}

/// Whether a file can be left behind by a job: it lies where files for a while lie. The build's own do not count, wherever the
/// checkout stands.
fn is_temporary(path: &Path, build: &[&Path]) -> bool {
    let lies_in = |folder: &Path| path.starts_with(folder);
    ["/dev/shm", "/tmp", "/var/tmp"]
        .map(Path::new)
        .into_iter()
        .any(lies_in)
        && !build.iter().copied().any(lies_in)
}

fn only_temporary_files_count() -> Outcome {
    let build = [Path::new("/tmp/checkout"), Path::new("/var/tmp/target/debug")];
    for (path, expected) in [
        ("/dev/shm/17:0:1", true),
        ("/tmp/weft-17", true),
        ("/tmp/checkout-of-another/file", true),
        ("/var/tmp/target/file", true),
        ("/tmp/checkout/target/debug/libweft.so", false),
        ("/var/tmp/target/debug/programs/death", false),
        ("/usr/lib/libfabric.so.1", false),
    ] {
        if is_temporary(Path::new(path), &build) != expected {
            return Err(format!("{path}: expected {expected}").into());
        }
    }
    Ok(())
}

/// Temporary files that the process has mapped or open. Only those count: other jobs come and go at the same time.
fn shared_files(pid: i32) -> BTreeSet<PathBuf> {
    // The folder of the profile: this program lies in its `deps`.
    let own = std::env::current_exe().unwrap_or_default();
    let target = own.parent().unwrap_or(build::root());
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mapped = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])));
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd"));
    let open = descriptors
        .into_iter()
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    mapped
        .chain(open)
        .filter(|path| is_temporary(path, &[build::root(), target.parent().unwrap_or(build::root())]))
        .collect()
}

/// A job whose ranks have told that they are there, with their process ids.
pub struct Waiting {
    launcher: Child,
    /// In any order.
    pub pids: Vec<i32>,
    folder: tempfile::TempDir,
}

impl Waiting {
    /// Ranks that then wait (`ready`) or go to `MPI_Finalize` (`finalize`).
    pub fn start(how: &str, provider: &str) -> Result<Waiting, Failed> {
        let folder = tempfile::tempdir()?;
        let job = Job::new(&build::program("death")?, RANKS)
            .arguments(&[how, "0"])
            .over(provider);
        let mut launcher = job
            .command(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let output = launcher.stdout.take().ok_or("no pipe")?;
        let mut pids = Vec::new();
        for line in BufReader::new(output).lines() {
            let line = line?;
            if let Some(pid) = line.strip_prefix("pid ") {
                pids.push(pid.parse()?);
            }
            if pids.len() == RANKS as usize {
                return Ok(Waiting {
                    launcher,
                    pids,
                    folder,
                });
            }
        }
        let output = launcher.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "{}: {:?} before all ranks were ready\n{text}",
            job.shell(),
            output.status
        )
        .into())
    }

    /// Sends a signal to the launcher or a rank, unless it is gone; the launcher's status, if it has one, and what it said. The
    /// job ends soon, with all of its processes and files.
    pub fn kill(mut self, pid: i32, signal: Signal) -> Result<(Option<i32>, String), Failed> {
        let files: BTreeSet<PathBuf> = self
            .pids
            .iter()
            .flat_map(|&pid| shared_files(pid))
            .filter(|path| path.exists())
            .collect();
        match kill(Pid::from_raw(pid), signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(error.into()),
        }
        let launcher = &mut self.launcher;
        let ended = until("the end of mpiexec", || {
            matches!(launcher.try_wait(), Ok(Some(_)) | Err(_))
        });
        let gone = until("the end of all ranks", || {
            !self.pids.iter().any(|&pid| is_alive(pid))
        });
        if ended.is_err() {
            let _ = launcher.kill();
        }
        let result = launcher.wait()?;
        let mut text = String::new();
        if let Some(mut pipe) = launcher.stderr.take() {
            pipe.read_to_string(&mut text)?;
        }
        ended?;
        gone.map_err(|failed| format!("{}\n{text}", failed.message().unwrap_or("")))?;
        // The watchdog of a killed launcher works a little longer than the ranks live.
        until("no file is left", || !files.iter().any(|path| path.exists())).map_err(|failed| {
            let left: Vec<&PathBuf> = files.iter().filter(|path| path.exists()).collect();
            format!("{}: {left:?}\n{text}", failed.message().unwrap_or(""))
        })?;
        only_ours(self.folder.path())?;
        Ok((result.code(), text))
    }
}

/// A line of the launcher names the process.
pub fn names(text: &str, pid: i32) -> Outcome {
    let named = format!("(pid {pid}, ");
    let mut lines = text.lines();
    match lines.any(|line| line.starts_with("mpiexec: rank ") && line.contains(&named)) {
        true => Ok(()),
        false => Err(format!("no line names the rank {named}\n{text}").into()),
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) -> Outcome {
    let start = Instant::now();
    while !done() {
        if start.elapsed() > SOON {
            return Err(format!("not within {} s: {what}", SOON.as_secs()).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn leaves_nothing(to: To, provider: &str) -> Outcome {
    let job = Waiting::start("ready", provider)?;
    let (launcher, rank) = (job.launcher.id() as i32, job.pids[2]);
    let (pid, signal) = match to {
        To::Launcher(signal) => (launcher, signal),
        To::Rank(signal) => (rank, signal),
    };
    let (status, text) = job.kill(pid, signal)?;
    let expected = match to {
        To::Launcher(Signal::SIGKILL) => None,
        To::Launcher(signal) | To::Rank(signal) => Some(128 + signal as i32),
    };
    if status != expected {
        return Err(format!("expected status {expected:?}, got {status:?}\n{text}").into());
    }
    match to {
        To::Launcher(_) => Ok(()),
        To::Rank(_) => names(&text, rank),
    }
}

/// The job's folder for temporary files is empty.
fn only_ours(folder: &Path) -> Outcome {
    let left: Vec<_> = std::fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(format!("these temporary files are left: {left:?}").into()),
    }
}
