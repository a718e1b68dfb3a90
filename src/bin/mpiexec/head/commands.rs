//! The commands that start agents, while they run: ssh for each host, or an engine for all.

use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::Epoll;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::launch;

/// The longest line that is passed on (bytes).
const LINE_MAX: usize = 1000;
/// How long an engine may take to end its step in order, and then each command to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(2);

/// A launcher command.
pub struct Child {
    /// Its process.
    pub pid: Pid,
    name: String,
    /// The hosts that it is for.
    pub hosts: Vec<usize>,
    errors: Option<OwnedFd>,
    text: Vec<u8>,
    /// Its lines, held back until it is known whether they explain a failure.
    pub lines: Vec<String>,
    /// How it has ended.
    pub status: Option<WaitStatus>,
}

impl Child {
    /// One that runs; `errors` is its standard error.
    pub fn new(pid: Pid, name: String, hosts: Vec<usize>, errors: OwnedFd) -> Child {
        Child {
            pid,
            name,
            hosts,
            errors: Some(errors),
            text: Vec::new(),
            lines: Vec::new(),
            status: None,
        }
    }

    /// Reads what it has printed, which `epoll` watches.
    pub fn read(&mut self, epoll: &Epoll) {
        while let Some(errors) = &self.errors {
            let mut buffer = [0u8; 4096];
            match nix::unistd::read(errors, &mut buffer) {
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Ok(0) | Err(_) => {
                    let _ = epoll.delete(errors);
                    self.errors = None;
                    self.text.push(b'\n');
                }
                Ok(count) => self.text.extend_from_slice(&buffer[..count]),
            }
            if self.text.len() > LINE_MAX {
                self.text.push(b'\n');
            }
            while let Some(end) = self.text.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).replace(char::is_control, " ");
                let line = line.trim();
                if !line.is_empty() {
                    self.lines.push(line.chars().take(LINE_MAX).collect());
                }
            }
        }
    }

    /// Its lines, each with the name of its host, `host`, or its own if it is for several.
    pub fn take_lines(&mut self, host: &str) -> Vec<String> {
        let who = match self.hosts.len() {
            1 => format!("host {host}: "),
            _ => format!("{}: ", self.name),
        };
        // An engine names itself.
        let line = |line: String| format!("{who}{}", line.strip_prefix(&who).unwrap_or(&line));
        self.lines.drain(..).map(line).collect()
    }

    /// Why no agent came of it, as far as it is known. `with_port`: agents connect to a port.
    pub fn why_refused(&self, with_port: bool) -> String {
        let path = launch::own_path().unwrap_or_default();
        let (name, path) = (&self.name, path.display());
        // Otherwise its status is not that of the one shell there.
        let is_one = self.hosts.len() == 1 && !with_port;
        // ssh ends with the reason. An engine explains itself in a block of text.
        let has_words = |line: &&String| line.contains(|c: char| c.is_alphanumeric());
        let lines: Vec<&str> = self.lines.iter().filter(has_words).map(String::as_str).collect();
        let told = match self.hosts.len() {
            1 if is_one => lines.last().copied().unwrap_or_default().to_string(),
            _ => lines.join(" ").chars().take(LINE_MAX).collect(),
        };
        let words = if told.is_empty() {
            told
        } else {
            format!(": {told}")
        };
        match self.status {
            Some(WaitStatus::Exited(_, 127)) if is_one => format!(
                "it has no '{path}', where this mpiexec is: Weft has to be at the same place on all hosts"
            ),
            Some(WaitStatus::Exited(_, 126)) if is_one => {
                format!("'{path}' can't be executed there{words}")
            }
            Some(WaitStatus::Exited(_, 255)) if name == "ssh" => format!("ssh can't reach it{words}"),
            Some(WaitStatus::Exited(_, status)) => {
                format!("{name} ended with status {status} before mpiexec answered from there{words}")
            }
            Some(WaitStatus::Signaled(_, signal, _)) => format!("{name} was killed by {signal}{words}"),
            _ => format!("{name} has closed the connection before mpiexec answered from there{words}"),
        }
    }

    /// Has it end, and whether it has; `after`: the time since the first call. Agents have ended, or end when their connections do.
    pub fn end(&mut self, after: Duration) -> bool {
        if self.status.is_none() {
            // ssh has nothing to do any more.
            let patience = if self.hosts.len() > 1 {
                PATIENCE
            } else {
                Duration::ZERO
            };
            if after >= patience {
                let forced = after > PATIENCE + patience;
                let _ = kill(self.pid, if forced { Signal::SIGKILL } else { Signal::SIGTERM });
            }
            self.status = match waitpid(self.pid, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => None,
                Ok(status) => Some(status),
                Err(_) => Some(WaitStatus::StillAlive),
            };
        }
        self.status.is_some()
    }
}
