//! PMI lines from and to the ranks.

use std::io::IoSliceMut;
use std::os::fd::AsRawFd;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg, send};

use super::{Abort, EXIT_TIME, Inner, Job, REPLIES_MAX, Source};
use crate::outcome::abort_status;
use crate::server::Effect;
use crate::watchdog::pidfd_open;

impl Job {
    pub(super) fn receive_pmi(&mut self, rank: usize) {
        let mut buffer = [0u8; 16 * 1024];
        loop {
            let Some(pmi) = &self.ranks[rank].pmi else { return };
            let mut space = nix::cmsg_space!(UnixCredentials);
            let mut slices = [IoSliceMut::new(&mut buffer)];
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
            let received =
                recvmsg::<()>(pmi.as_raw_fd(), &mut slices, Some(&mut space), flags).map(|message| {
                    let sender = message.cmsgs().ok().and_then(|mut controls| {
                        controls.find_map(|control| match control {
                            ControlMessageOwned::ScmCredentials(credentials) => Some(credentials.pid()),
                            _ => None,
                        })
                    });
                    (message.bytes, sender)
                });
            match received {
                Ok((0, _)) => return self.close_pmi(rank),
                Ok((count, sender)) => {
                    self.ranks[rank].lines.push(&buffer[..count]);
                    if let Err(error) = self.handle_lines(rank, sender) {
                        self.close_pmi(rank);
                        let who = self.describe(rank);
                        return self.fail(
                            format!("{who} broke the PMI protocol: {error}; ending the job"),
                            1,
                        );
                    }
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(_) => return self.close_pmi(rank),
            }
        }
        if self.ranks[rank].end.is_none() {
            self.send_replies(rank);
        }
    }

    pub(super) fn close_pmi(&mut self, rank: usize) {
        if let Some(pmi) = self.ranks[rank].pmi.take() {
            let _ = self.epoll.delete(&pmi);
        }
    }

    pub(super) fn handle_lines(&mut self, rank: usize, sender: Option<i32>) -> weft::Result<()> {
        while let Some(line) = self.ranks[rank].lines.next_line()? {
            if self.verbose {
                self.say(&format!("rank {rank} says {}", line.escape_ascii()));
            }
            for effect in self.server.line(rank, sender, &line)? {
                self.apply(effect);
            }
            self.check_waiting();
        }
        Ok(())
    }

    pub(super) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Reply { rank, line } => {
                if self.verbose {
                    self.say(&format!("rank {rank} is told {}", line.trim_end()));
                }
                self.ranks[rank].replies.extend(line.as_bytes());
                self.send_replies(rank);
            }
            Effect::Initialized { rank, pid } => {
                let inner = pid.filter(|&pid| pid != self.ranks[rank].pid.as_raw());
                if let Some(pid) = inner {
                    self.processes.add(pid);
                    self.watchdog.note(pid);
                }
                let opened = inner.and_then(|pid| Some((pid, pidfd_open(pid).ok()?)));
                if let Some((pid, descriptor)) = opened {
                    let _ = self
                        .epoll
                        .add(&descriptor, Source::Inner.event(EpollFlags::EPOLLIN, rank));
                    self.ranks[rank].inner = Some(Inner { pid, descriptor });
                }
            }
            Effect::Finalized { rank } => {
                if let Some(inner) = self.ranks[rank].inner.take() {
                    let _ = self.epoll.delete(&inner.descriptor);
                }
                self.ranks[rank].wrapper_deadline = None;
            }
            Effect::Report { rank, text } => self.take_report(rank, text),
            Effect::Abort { rank, code, message } => {
                let words = message.replace(char::is_control, " ");
                let who = self.describe(rank);
                let call = format!("MPI_Abort with code {code}");
                // The message of the call itself, or of an error that ended the rank.
                let message = match words.strip_prefix(&call) {
                    _ if words.is_empty() => format!("{who} called {call}; ending the job"),
                    Some(place) => format!("{who} called {call}{place}; ending the job"),
                    None => format!("{who}: {words}; ending the job"),
                };
                self.ranks[rank].aborts = true;
                // It counts when all other events until now have been handled.
                self.abort.get_or_insert(Abort {
                    message,
                    status: abort_status(code),
                    believe_at: Instant::now() + EXIT_TIME,
                });
            }
        }
    }

    pub(super) fn send_replies(&mut self, rank: usize) {
        let Some(target) = self.ranks.get_mut(rank) else {
            return;
        };
        let Some(pmi) = &target.pmi else {
            target.replies.clear();
            return;
        };
        while !target.replies.is_empty() {
            let (front, _) = target.replies.as_slices();
            match send(
                pmi.as_raw_fd(),
                front,
                MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
            ) {
                Ok(count) => drop(target.replies.drain(..count)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) if target.replies.len() < REPLIES_MAX => break,
                Err(_) => target.replies.clear(),
            }
        }
        let waits = !target.replies.is_empty();
        if waits != target.waits_for_room {
            target.waits_for_room = waits;
            let mut flags = EpollFlags::EPOLLIN;
            flags.set(EpollFlags::EPOLLOUT, waits);
            let _ = self.epoll.modify(pmi, &mut Source::Pmi.event(flags, rank));
        }
    }
}
