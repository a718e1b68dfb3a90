//! A terminal as standard input: ranks are in process groups of their own and can't read it, so the launcher does,
//! and fills a pipe to rank 0.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use nix::unistd::{getpgrp, tcgetpgrp};

use super::{Job, Source};

/// How often to check whether a launcher in the background came to the foreground: a shell's `fg` notifies only a stopped one.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The launcher's standard input.
pub struct Terminal {
    /// The pipe to rank 0.
    into: Option<OwnedFd>,
    bytes: VecDeque<u8>,
    watched: bool,
    /// When to check whether it can be read.
    look_at: Option<Instant>,
    ended: bool,
}

impl Terminal {
    /// To be read into `into`.
    pub fn new(into: OwnedFd) -> Terminal {
        Terminal {
            into: Some(into),
            bytes: VecDeque::new(),
            watched: false,
            look_at: None,
            ended: false,
        }
    }
}

impl Terminal {
    /// When to call [`Job::watch_terminal`] again.
    pub fn look_at(&self) -> Option<Instant> {
        self.look_at
    }
}

impl Job {
    pub(super) fn watch_terminal(&mut self) {
        let stdin = std::io::stdin();
        let Some(terminal) = &mut self.terminal else {
            return;
        };
        // In the background a read would stop the launcher.
        let foreground = tcgetpgrp(&stdin).is_ok_and(|group| group == getpgrp());
        let room = !terminal.ended && terminal.bytes.is_empty() && terminal.into.is_some();
        let wanted = foreground && room;
        terminal.look_at = (room && !foreground).then(|| Instant::now() + LOOK_AGAIN);
        if wanted != terminal.watched {
            terminal.watched = wanted;
            let _ = match wanted {
                true => self
                    .epoll
                    .add(&stdin, Source::Terminal.event(EpollFlags::EPOLLIN, 0)),
                false => self.epoll.delete(&stdin),
            };
        }
    }

    pub(super) fn read_terminal(&mut self) {
        self.watch_terminal();
        let Some(terminal) = self.terminal.as_mut().filter(|terminal| terminal.watched) else {
            return;
        };
        let mut buffer = [0u8; 4096];
        match nix::unistd::read(std::io::stdin(), &mut buffer) {
            Ok(0) => terminal.ended = true,
            Ok(count) => terminal.bytes.extend(&buffer[..count]),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(_) => terminal.ended = true,
        }
        self.write_input();
    }

    pub(super) fn write_input(&mut self) {
        let Some(terminal) = &mut self.terminal else {
            return;
        };
        let Some(into) = &terminal.into else { return };
        while !terminal.bytes.is_empty() {
            let (front, _) = terminal.bytes.as_slices();
            match nix::unistd::write(into, front) {
                Ok(count) => drop(terminal.bytes.drain(..count)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(_) => {
                    terminal.bytes.clear();
                    terminal.ended = true;
                }
            }
        }
        let waits = !terminal.bytes.is_empty();
        let _ = self.epoll.delete(into);
        if waits {
            let _ = self.epoll.add(into, Source::Input.event(EpollFlags::EPOLLOUT, 0));
        } else if terminal.ended {
            terminal.into = None;
        }
        self.watch_terminal();
    }
}
