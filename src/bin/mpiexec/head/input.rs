//! The launcher's standard input, where rank 0 can't have it itself. If it is a terminal, ranks are in process groups of
//! their own and can't read it; and rank 0 may be on another machine.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::{getpgrp, tcgetpgrp};

use super::Job;
use crate::events::Source;
use crate::wire::ToAgent;

/// How often to check whether a launcher in the background came to the foreground: a shell's `fg` notifies only a stopped one.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How much is read at once (bytes).
const CHUNK: usize = 4096;
/// The same for another machine, which takes longer to ask for more.
const CHUNK_FAR: usize = 64 * 1024;

/// The launcher's standard input.
pub struct Keyboard {
    is_terminal: bool,
    chunk: usize,
    /// Rank 0 has not taken the last bytes yet.
    on_its_way: bool,
    watched: bool,
    /// When to check whether it can be read.
    look_at: Option<Instant>,
    ended: bool,
}

impl Keyboard {
    /// To be read for rank 0; `far`: on another machine.
    pub fn new(is_terminal: bool, far: bool) -> Keyboard {
        Keyboard {
            is_terminal,
            chunk: if far { CHUNK_FAR } else { CHUNK },
            on_its_way: false,
            watched: false,
            look_at: None,
            ended: false,
        }
    }

    /// When to call [`Job::read_keyboard`] again.
    pub fn look_at(&self) -> Option<Instant> {
        self.look_at
    }
}

impl Job {
    pub(super) fn watch_keyboard(&mut self) {
        let stdin = std::io::stdin();
        let Some(keyboard) = &mut self.keyboard else {
            return;
        };
        // In the background a read would stop the launcher.
        let foreground = !keyboard.is_terminal || tcgetpgrp(&stdin).is_ok_and(|group| group == getpgrp());
        let room = !keyboard.ended && !keyboard.on_its_way;
        let wanted = foreground && room;
        keyboard.look_at = (room && !foreground).then(|| Instant::now() + LOOK_AGAIN);
        if wanted == keyboard.watched {
            return;
        }
        match wanted {
            true => match Source::Terminal.readable(&self.epoll, &stdin, 0) {
                Ok(()) => keyboard.watched = true,
                // A regular file, or /dev/null: it can always be read.
                Err(_) => keyboard.look_at = Some(Instant::now()),
            },
            false => {
                keyboard.watched = false;
                let _ = self.epoll.delete(&stdin);
            }
        }
    }

    pub(super) fn read_keyboard(&mut self) {
        self.watch_keyboard();
        let ready = |keyboard: &&mut Keyboard| {
            keyboard.watched || keyboard.look_at.is_some_and(|at| at <= Instant::now())
        };
        let Some(keyboard) = self.keyboard.as_mut().filter(ready) else {
            return;
        };
        let mut buffer = vec![0u8; keyboard.chunk];
        let message = match nix::unistd::read(std::io::stdin(), &mut buffer) {
            Err(Errno::EINTR | Errno::EAGAIN) => return,
            Ok(0) | Err(_) => {
                keyboard.ended = true;
                ToAgent::InputEnd
            }
            Ok(count) => {
                keyboard.on_its_way = true;
                buffer.truncate(count);
                ToAgent::Input(buffer)
            }
        };
        self.watch_keyboard();
        if let Some(host) = self.ranks.first().map(|rank| rank.host) {
            self.send(host, message);
        }
    }

    pub(super) fn input_taken(&mut self) {
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.on_its_way = false;
        }
        self.watch_keyboard();
    }

    pub(super) fn forget_keyboard(&mut self) {
        if self.keyboard.take().is_some_and(|keyboard| keyboard.watched) {
            let _ = self.epoll.delete(std::io::stdin());
        }
    }
}
