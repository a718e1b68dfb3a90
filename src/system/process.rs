//! Whether another process of this machine has ended.
//!
//! A process id alone does not tell: some time after the end of a process another one gets it. So a process says when it began as well, by the
//! clock of its time namespace. Whoever asks is in the same pid namespace.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

/// A process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// When it began, in ticks since the machine was booted.
    pub begun: u64,
    /// Whose ticks: the inode of its time namespace. 0: the system knows none.
    pub clock: u64,
}

/// What `/proc/PID/stat` says of a process.
#[derive(PartialEq, Eq, Debug)]
struct Stat {
    /// One letter.
    state: u8,
    /// How many threads it has, with those that are ending.
    threads: u64,
    /// See [`Process::begun`].
    begun: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Stat> {
        Stat::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name of the program, in parentheses, may hold anything.
    fn parse(text: &[u8]) -> Option<Stat> {
        let behind = text.iter().rposition(|&byte| byte == b')')? + 1;
        let fields = std::str::from_utf8(&text[behind..]).ok()?;
        // The first of these is the third one of all.
        let mut fields = fields.split_ascii_whitespace();
        Some(Stat {
            state: *fields.next()?.as_bytes().first()?,
            threads: fields.nth(16)?.parse().ok()?,
            begun: fields.nth(1)?.parse().ok()?,
        })
    }

    /// Whether nothing of it runs any more. The first thread of a process may end before the others, which are counted as long as they can run.
    fn is_over(&self) -> bool {
        matches!(self.state, b'Z' | b'X') && self.threads <= 1
    }
}

impl Process {
    /// This one; `None` where `/proc` does not tell.
    pub fn here() -> Option<Process> {
        static HERE: OnceLock<Option<Process>> = OnceLock::new();
        let here = *HERE.get_or_init(Process::look);
        // A process that was forked from that one is another one.
        here.filter(|process| process.pid == std::process::id())
            .or_else(Process::look)
    }

    fn look() -> Option<Process> {
        let pid = std::process::id();
        Some(Process {
            pid,
            begun: Stat::of(pid)?.begun,
            clock: clock()?,
        })
    }

    /// Whether it has ended, with all its threads. `false` where that can't be told.
    pub fn has_ended(&self) -> bool {
        let Some(pid) = libc::pid_t::try_from(self.pid).ok().filter(|&pid| pid > 0) else {
            return false;
        };
        // SAFETY: the call takes numbers only, and 0 is no signal.
        if unsafe { libc::kill(pid, 0) } != 0
            && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
        {
            return true;
        }
        // Whoever has the id now, it or a later one: if that has ended, so has this one.
        let Some(found) = Stat::of(self.pid) else {
            return false;
        };
        let same_clock = || Process::here().is_some_and(|here| here.clock == self.clock);
        found.is_over() || found.begun != self.begun && same_clock()
    }
}

/// See [`Process::clock`].
fn clock() -> Option<u64> {
    match fs::metadata("/proc/self/ns/time") {
        Ok(found) => Some(found.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(0),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_program_may_be_called_anything() {
        let text = b"77 (a) R (b c) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 3 0 123456 9 9 9\n";
        let stat = Stat {
            state: b'Z',
            threads: 3,
            begun: 123_456,
        };
        assert_eq!(Stat::parse(text), Some(stat));
        for wrong in [
            "",
            "77 (a",
            "77 (a)",
            "77 (a) R 1 2 3",
            "77 (a) R x x x x x x x x x x x x x x x x x x x x",
        ] {
            assert_eq!(Stat::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn this_process_has_not_ended() {
        let here = Process::here().expect("/proc tells");
        assert!(!here.has_ended());
        let earlier = Process {
            begun: here.begun - 1,
            ..here
        };
        assert!(earlier.has_ended(), "its id is this process's now");
        let elsewhere = Process {
            clock: here.clock + 1,
            ..earlier
        };
        assert!(!elsewhere.has_ended(), "its ticks are not known here");
        for pid in [0, u32::MAX, 1 << 31] {
            assert!(!Process { pid, ..here }.has_ended(), "{pid} is no id");
        }
    }

    #[test]
    fn a_process_ends_when_it_is_killed() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a program");
        let begun = Stat::of(child.id()).expect("it lives").begun;
        let process = Process {
            pid: child.id(),
            begun,
            ..Process::here().expect("/proc tells")
        };
        assert!(!process.has_ended());
        child.kill().expect("its parent may");
        // Nobody asks for its status yet.
        let state = || Stat::of(child.id()).expect("it is remembered").state;
        while state() != b'Z' {
            std::thread::yield_now();
        }
        assert!(process.has_ended());
        child.wait().expect("it was killed");
        assert!(process.has_ended());
    }
}
