//! A small process that outlives the launcher by a moment: when the launcher dies without having ended the job
//! (SIGKILL, a crash), it kills what is left of it, and removes what that leaves behind.
//!
//! Ranks that the launcher started itself die with it by their parent-death signal. Processes that they have started do
//! not, so the watchdog kills the ranks' process groups, and then all processes with the job's id and the launcher's number
//! in their environment, until there are none. It is in a session of its own, where the terminal's signals don't reach it, and learns of the
//! launcher's death by the end of a pipe.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, fork, getpid, pipe2, setsid};
use weft::tools::pmi1::{ENV_JOB, ENV_MPIEXEC};

use crate::leftovers::Processes;

/// How long the watchdog looks for processes of a dead launcher's job.
const SEARCH: Duration = Duration::from_secs(3);

/// The messages of the launcher, each with the number of a process.
mod message {
    /// Nothing is left to do.
    pub const DISMISSED: u8 = 0;
    /// A rank was started.
    pub const STARTED: u8 = 1;
    /// It is gone.
    pub const GONE: u8 = 2;
    /// A process below a rank uses PMI.
    pub const BELOW: u8 = 3;
}

/// The launcher's end.
pub struct Watchdog {
    pid: Pid,
    pipe: File,
}

impl Watchdog {
    /// Starts the watchdog of the job named `job`. The process must have one thread and should have few descriptors open.
    pub fn start(job: &str) -> nix::Result<Watchdog> {
        let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
        let marks = [
            format!("{ENV_JOB}={job}"),
            format!("{ENV_MPIEXEC}={}", std::process::id()),
        ];
        // SAFETY: the process has one thread, so the child may do what it likes.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => Ok(Watchdog {
                pid: child,
                pipe: File::from(write),
            }),
            ForkResult::Child => {
                drop(write);
                keep(&marks, File::from(read));
                // Functions that the launcher registered to run at its exit must not run here.
                // SAFETY: it takes a number and does not return.
                unsafe { libc::_exit(0) }
            }
        }
    }

    /// The watchdog's process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// A rank was started in a process group of its own.
    pub fn add(&mut self, group: Pid) {
        self.tell(message::STARTED, group.as_raw());
    }

    /// The rank is gone, and its group's number may be used again.
    pub fn remove(&mut self, group: Pid) {
        self.tell(message::GONE, group.as_raw());
    }

    /// An MPI process below a rank's own process. It may end by itself when the launcher does, and leave files behind.
    pub fn note(&mut self, pid: i32) {
        self.tell(message::BELOW, pid);
    }

    /// Nothing is left of the job.
    pub fn dismiss(mut self) {
        self.tell(message::DISMISSED, 0);
        let pid = self.pid;
        drop(self);
        while waitpid(pid, None) == Err(Errno::EINTR) {}
    }

    fn tell(&mut self, message: u8, number: i32) {
        let [a, b, c, d] = number.to_le_bytes();
        // Without a watchdog (it may have been killed) the job goes on all the same.
        let _ = self.pipe.write_all(&[message, a, b, c, d]);
    }
}

fn keep(marks: &[String], mut pipe: File) {
    let _ = setsid();
    let _ = nix::sys::prctl::set_name(c"mpiexec-watchdog");
    let _ = SigSet::all().thread_block();
    // The launcher's output must end when the launcher does.
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = (dup2_stdin(&null), dup2_stdout(&null), dup2_stderr(&null));
    }
    let mut processes = Processes::new();
    let mut groups: Vec<i32> = Vec::new();
    let mut bytes = [0u8; 5];
    while pipe.read_exact(&mut bytes).is_ok() {
        let [message, a, b, c, d] = bytes;
        let number = i32::from_le_bytes([a, b, c, d]);
        match message {
            message::DISMISSED => return,
            message::GONE => groups.retain(|&group| group != number),
            message::STARTED => {
                groups.push(number);
                processes.add(number);
            }
            _ => processes.add(number),
        }
    }
    for group in groups {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    let end = Instant::now() + SEARCH;
    let mut empty_searches = 0;
    // A process may be forked during the search, so only the second empty search counts.
    while empty_searches < 2 && Instant::now() < end {
        empty_searches = if kill_marked(marks) == 0 {
            empty_searches + 1
        } else {
            0
        };
        std::thread::sleep(Duration::from_millis(5));
    }
    processes.remove_files();
}

/// Kills every process with all `marks` in its environment; returns how many there were.
fn kill_marked(marks: &[String]) -> usize {
    let has_marks = |pid: i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let has = |mark: &String| {
            environment
                .split(|&byte| byte == 0)
                .any(|entry| entry == mark.as_bytes())
        };
        marks.iter().all(has)
    };
    let own = getpid().as_raw();
    let marked = processes().filter(|&pid| pid != own && has_marks(pid));
    // The handle keeps naming the process that has the marks, even if another process gets its number later.
    marked
        .filter(|&pid| pidfd_open(pid).is_ok_and(|handle| has_marks(pid) && pidfd_kill(&handle).is_ok()))
        .count()
}

/// All processes that `/proc` shows.
fn processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A descriptor that becomes readable when the process ends.
pub fn pidfd_open(pid: i32) -> nix::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = Errno::result(fd)? as i32;
    // SAFETY: the call gave this descriptor to us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn pidfd_kill(handle: &OwnedFd) -> nix::Result<()> {
    let fd = handle.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open; a null siginfo is allowed.
    let done = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            fd,
            libc::SIGKILL,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    Errno::result(done).map(drop)
}

/// Kills the processes that came to this one as orphans, but not those of `spared`. They are children of this process, so their numbers
/// stay theirs until it waits for them.
pub fn kill_orphans(spared: &[Pid]) {
    for pid in children().into_iter().map(Pid::from_raw) {
        if !spared.contains(&pid) {
            // It may be a zombie by now.
            let _ = kill(pid, Signal::SIGKILL);
        }
    }
}

/// The children of this process, which has one thread.
fn children() -> Vec<i32> {
    let own = getpid();
    if let Ok(text) = std::fs::read_to_string(format!("/proc/self/task/{own}/children")) {
        return text
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect();
    }
    children_by_parent(own)
}

/// The same on a kernel without CONFIG_PROC_CHILDREN. The parent is the second field after the command's closing parenthesis.
fn children_by_parent(own: Pid) -> Vec<i32> {
    let is_child = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_ascii_whitespace().nth(1));
        parent.and_then(|parent| parent.parse().ok()) == Some(own.as_raw())
    };
    processes().filter(is_child).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Child, Command};

    fn sleeper(mark: &str, other: &str) -> Child {
        Command::new("sleep")
            .arg("1000")
            .env("WEFT_TEST_MARK", mark)
            .env("WEFT_TEST_MARK_2", other)
            .spawn()
            .unwrap()
    }

    #[test]
    fn those_with_both_marks_are_killed_and_no_others() {
        let mark = format!("of {}", std::process::id());
        let marks = [format!("WEFT_TEST_MARK={mark}"), "WEFT_TEST_MARK_2=a".into()];
        let mut marked = [sleeper(&mark, "a"), sleeper(&mark, "a")];
        let others = [sleeper(&format!("{mark}1"), "a"), sleeper(&mark, "b")];
        assert_eq!(kill_marked(&marks), 2);
        for child in &mut marked {
            assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        }
        assert_eq!(kill_marked(&marks), 0);
        for mut other in others {
            assert_eq!(other.try_wait().unwrap(), None);
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }

    #[test]
    fn children_are_known_by_their_parent() {
        let mut child = sleeper("child", "");
        let pid = child.id() as i32;
        let own = getpid();
        let found = children_by_parent(own);
        assert!(found.contains(&pid) && !found.contains(&own.as_raw()));
        assert!(!children_by_parent(Pid::from_raw(pid)).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!children_by_parent(own).contains(&pid));
    }
}
