//! Why a job ends, and with which exit status.

use nix::sys::wait::WaitStatus;

pub use crate::system_words::system_words;

/// A reason to stop, printed as one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Without `mpiexec: ` before it and without a line feed.
    pub message: String,
    /// The exit status; not 0.
    pub status: u8,
}

/// The command line is wrong.
pub const STATUS_USAGE: u8 = 2;
/// The launcher itself failed.
pub const STATUS_LAUNCHER: u8 = 125;
/// The time is up.
pub const STATUS_TIMEOUT: u8 = 124;
/// The program can't be executed.
pub const STATUS_NOT_EXECUTABLE: u8 = 126;
/// The program is not there.
pub const STATUS_NOT_FOUND: u8 = 127;

impl Failure {
    /// A mistake on the command line.
    pub fn usage(message: String) -> Failure {
        Failure {
            message,
            status: STATUS_USAGE,
        }
    }

    /// The launcher itself can't go on.
    pub fn launcher(message: String) -> Failure {
        Failure {
            message,
            status: STATUS_LAUNCHER,
        }
    }
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum End {
    /// It exited with this status.
    Exit(u8),
    /// This signal killed it.
    Signal(i32),
}

impl End {
    /// From the result of `waitpid`; `None` if the process goes on.
    pub fn from_wait(status: WaitStatus) -> Option<End> {
        match status {
            // Linux keeps 8 bits of the argument of `exit`.
            WaitStatus::Exited(_, status) => Some(End::Exit((status & 0xff) as u8)),
            WaitStatus::Signaled(_, signal, _) => Some(End::Signal(signal as i32)),
            _ => None,
        }
    }

    /// The exit status that a shell would give it.
    pub fn status(self) -> u8 {
        match self {
            End::Exit(status) => status,
            End::Signal(number) => signal_status(number),
        }
    }
}

/// 128 + the signal's number.
pub fn signal_status(number: i32) -> u8 {
    128u8.saturating_add(u8::try_from(number).unwrap_or(127))
}

/// The exit status of `MPI_Abort(code)`: as `exit` would shorten it, but only the code 0 itself counts as success.
pub fn abort_status(code: i32) -> u8 {
    match (code & 0xff) as u8 {
        0 if code != 0 => 1,
        status => status,
    }
}

/// `signal 11 (Segmentation fault)`.
pub fn signal_text(number: i32) -> String {
    let name = match number {
        libc::SIGHUP => "Hangup",
        libc::SIGINT => "Interrupt",
        libc::SIGQUIT => "Quit",
        libc::SIGILL => "Illegal instruction",
        libc::SIGTRAP => "Trace trap",
        libc::SIGABRT => "Aborted",
        libc::SIGBUS => "Bus error",
        libc::SIGFPE => "Floating-point exception",
        libc::SIGKILL => "Killed",
        libc::SIGUSR1 => "User signal 1",
        libc::SIGSEGV => "Segmentation fault",
        libc::SIGUSR2 => "User signal 2",
        libc::SIGPIPE => "Broken pipe",
        libc::SIGALRM => "Alarm clock",
        libc::SIGTERM => "Terminated",
        libc::SIGXCPU => "CPU time limit exceeded",
        libc::SIGXFSZ => "File size limit exceeded",
        libc::SIGSYS => "Bad system call",
        _ => return format!("signal {number}"),
    };
    format!("signal {number} ({name})")
}

/// `ranks 0-3, 5`: numbers in order, put short.
pub fn rank_list(ranks: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let shown = runs.iter().take(20).map(|&(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    let more = if runs.len() > 20 { ", …" } else { "" };
    format!(
        "{} {}{more}",
        if ranks.len() == 1 { "rank" } else { "ranks" },
        shown.collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_those_of_a_shell() {
        assert_eq!(End::Exit(3).status(), 3);
        assert_eq!(End::Signal(libc::SIGSEGV).status(), 139);
        assert_eq!(abort_status(7), 7);
        assert_eq!(abort_status(0), 0);
        assert_eq!(abort_status(256), 1);
        assert_eq!(abort_status(-1), 255);
    }

    #[test]
    fn ranks_are_listed_in_runs() {
        assert_eq!(rank_list(&[3]), "rank 3");
        assert_eq!(rank_list(&[0, 1, 2, 5, 7, 8]), "ranks 0-2, 5, 7-8");
        let even = |runs| rank_list(&(0..runs).map(|run| 2 * run).collect::<Vec<_>>());
        assert!(even(20).ends_with(", 36, 38"));
        for runs in [21, 22, 100] {
            assert!(even(runs).ends_with(", 36, 38, …"), "{runs}");
        }
    }
}
