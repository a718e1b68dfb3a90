//! PMI lines from and to the ranks.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg, send};

use super::{Agent, Inner, links};
use crate::events::Source;
use crate::outcome::End;
use crate::watchdog::pidfd_open;
use crate::wire::FromAgent;

/// The most bytes that wait to be sent to one rank. A client asks for one thing at a time, Weft's client for a card per peer.
const REPLIES_MAX: usize = 1 << 30;
/// The most descriptors that one line brings; a rank that passes more loses them.
const DESCRIPTORS_MAX: usize = 8;

impl Agent {
    pub(super) fn receive_pmi(&mut self, local: usize) {
        let mut buffer = [0u8; 16 * 1024];
        loop {
            let Some(pmi) = self.ranks.get(local).and_then(|rank| rank.pmi.as_ref()) else {
                return;
            };
            let mut space = nix::cmsg_space!(UnixCredentials, [RawFd; DESCRIPTORS_MAX]);
            let mut slices = [IoSliceMut::new(&mut buffer)];
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
            let received =
                recvmsg::<()>(pmi.as_raw_fd(), &mut slices, Some(&mut space), flags).map(|message| {
                    let (mut sender, mut passed) = (None, Vec::new());
                    for control in message.cmsgs().into_iter().flatten() {
                        match control {
                            ControlMessageOwned::ScmCredentials(credentials) => {
                                sender = Some(credentials.pid())
                            }
                            ControlMessageOwned::ScmRights(descriptors) => {
                                // SAFETY: the kernel has made these descriptors for this process just now.
                                let own = |fd: RawFd| unsafe { OwnedFd::from_raw_fd(fd) };
                                passed.extend(descriptors.into_iter().map(own));
                            }
                            _ => {}
                        }
                    }
                    (message.bytes, sender, passed)
                });
            match received {
                Ok((0, ..)) => return self.close_pmi(local),
                Ok((count, sender, passed)) => {
                    self.ranks[local].lines.push(&buffer[..count]);
                    let taken = self.ranks[local].passed.add(passed);
                    if let Err(error) = taken.and_then(|()| self.tell_lines(local, sender)) {
                        self.close_pmi(local);
                        return self.tell(FromAgent::Broken {
                            rank: self.ranks[local].number,
                            error: error.to_string(),
                        });
                    }
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(_) => return self.close_pmi(local),
            }
        }
        if !self.ranks[local].ended {
            self.send_replies(local);
        }
    }

    fn tell_lines(&mut self, local: usize, pid: Option<i32>) -> weft::Result<()> {
        while let Some(line) = self.ranks[local].lines.next_line()? {
            if line.starts_with(links::LINE) {
                self.take_link(local, &line)?;
                continue;
            }
            let rank = self.ranks[local].number;
            self.tell(FromAgent::Line { rank, pid, line });
        }
        Ok(())
    }

    pub(super) fn close_pmi(&mut self, local: usize) {
        if let Some(pmi) = self.ranks[local].pmi.take() {
            let _ = self.epoll.delete(&pmi);
        }
        // No process is left that has the other end, or none can be asked about.
        if self.ranks[local].is_adopted && !self.ranks[local].ended {
            self.exited(local, End::Exit(0));
        }
    }

    /// Watches the process that has initialized PMI, if it is not the rank's own.
    pub(super) fn watch(&mut self, local: usize, pid: i32) {
        if pid <= 0 || pid == self.ranks[local].pid.as_raw() || self.ranks[local].ended {
            return;
        }
        self.processes.add(pid);
        self.watchdog.note(pid);
        match pidfd_open(pid) {
            Ok(descriptor) => {
                self.add_event(&descriptor, Source::Inner, EpollFlags::EPOLLIN, local);
                self.ranks[local].inner = Some(Inner { pid, descriptor });
            }
            // It ended before the head's message was here.
            Err(Errno::ESRCH) => self.inner_ended(local),
            Err(_) => {}
        }
    }

    pub(super) fn unwatch(&mut self, local: usize) {
        if self.ranks[local].is_adopted && !self.ranks[local].ended {
            return;
        }
        if let Some(inner) = self.ranks[local].inner.take() {
            let _ = self.epoll.delete(&inner.descriptor);
        }
    }

    pub(super) fn inner_ended(&mut self, local: usize) {
        self.receive_pmi(local);
        if self.ranks[local].is_adopted {
            if !self.ranks[local].ended {
                self.exited(local, End::Exit(0));
            }
            return;
        }
        self.unwatch(local);
        self.tell(FromAgent::InnerEnded {
            rank: self.ranks[local].number,
        });
    }

    pub(super) fn send_replies(&mut self, local: usize) {
        let target = &mut self.ranks[local];
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
            let _ = self.epoll.modify(pmi, &mut Source::Pmi.event(flags, local));
        }
    }
}
