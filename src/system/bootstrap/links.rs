//! Links: sockets between two jobs that stay open for as long as these are connected (MPI 5.0 section 11.10.4). Over one of them a job
//! tells the other that it was aborted; and where one ends without a goodbye, the other job is gone.
//!
//! Weft's launcher watches those of its jobs. All other processes keep their own: [`WithLinks`] adds them to a bootstrap that has none.
//!
//! What does not belong here: how a link is made (`system::port`), and those that `mpiexec` watches (`bin/mpiexec`).

mod link;
mod with_links;
pub mod words;

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use rustc_hash::FxHashSet;

use super::Notice;
use crate::base::error::{Error, Result};
use crate::err;
use crate::identity::JobId;

pub use link::{Heard, Link};
pub(super) use with_links::WithLinks;
pub use words::{Word, Words};

/// The links of this process.
#[derive(Default)]
pub(super) struct Links {
    links: Vec<(JobId, Link)>,
    /// From the first one on.
    watched: Option<Watched>,
    /// Jobs that are gone, which is told once.
    lost: FxHashSet<JobId>,
    notices: Vec<Notice>,
}

/// What can be slept on.
struct Watched {
    /// The links.
    links: Epoll,
    /// `links`, and `other`: the launcher's descriptor.
    all: Epoll,
    other: Cell<Option<RawFd>>,
}

impl Links {
    /// Takes over a socket between this job and another one. A pair of jobs may have several.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER`: the system can't watch it.
    pub fn add(&mut self, job: JobId, socket: OwnedFd) -> Result<()> {
        let watched = match self.watched.take() {
            Some(watched) => watched,
            None => Watched::nothing().map_err(unwatched)?,
        };
        let watched = self.watched.insert(watched);
        watched.links.add(&socket, readable()).map_err(unwatched)?;
        self.links.push((job, Link::over(socket)));
        Ok(())
    }

    /// Says goodbye to a job, with which this one is not connected any more.
    pub fn part(&mut self, job: JobId) {
        self.lost.remove(&job);
        self.say_bye(|of| of == job);
    }

    /// Says goodbye to all jobs.
    pub fn part_from_all(&mut self) {
        self.lost.clear();
        self.say_bye(|_| true);
    }

    fn say_bye(&mut self, to: impl Fn(JobId) -> bool) {
        for (_, link) in self.links.extract_if(.., |(job, _)| to(*job)) {
            link.say(&Word::Bye);
            link.end();
        }
    }

    /// Tells all jobs that this one was aborted.
    pub fn abort(&self, code: i32, why: &str) {
        let word = Word::Abort {
            code,
            why: why.to_string(),
        };
        for (_, link) in &self.links {
            link.say(&word);
        }
    }

    /// Reads what has come; see [`Links::notices`].
    pub fn attend(&mut self) {
        self.links.retain_mut(|(job, link)| {
            let job = *job;
            let (notice, stays) = match link.hear() {
                Heard::Nothing => (None, true),
                Heard::Word(Word::Bye) => (None, false),
                Heard::Word(Word::Abort { code, why }) => (Some(Notice::Aborted { code, why }), false),
                Heard::End(why) => (self.lost.insert(job).then_some(Notice::Lost { job, why }), false),
            };
            self.notices.extend(notice);
            stays
        });
    }

    /// What [`Links::attend`] has read.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// A descriptor that becomes readable when [`Links::attend`] has something to do or `other` is readable. Without links it is `other`
    /// itself.
    pub fn descriptor<'a>(&'a self, other: Option<BorrowedFd<'a>>) -> Option<BorrowedFd<'a>> {
        match self.watched.as_ref().filter(|_| !self.links.is_empty()) {
            None => other,
            Some(watched) => Some(watched.with(other)),
        }
    }
}

impl Watched {
    fn nothing() -> Result<Watched, Errno> {
        let new = || Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC);
        let (links, all) = (new()?, new()?);
        all.add(&links.0, readable())?;
        Ok(Watched {
            links,
            all,
            other: Cell::new(None),
        })
    }

    /// The descriptor, after `other` has taken the place of the one before.
    fn with(&self, other: Option<BorrowedFd<'_>>) -> BorrowedFd<'_> {
        let before = self.other.replace(other.map(|other| other.as_raw_fd()));
        if let Some(before) = before.filter(|_| before != self.other.get()) {
            let all = self.all.0.as_raw_fd();
            // SAFETY: takes numbers only. If it was closed, nothing of that number is there.
            unsafe { libc::epoll_ctl(all, libc::EPOLL_CTL_DEL, before, std::ptr::null_mut()) };
        }
        if let Some(other) = other {
            // The number may be that of another descriptor meanwhile. If it can't be watched, sleeps end by their limit.
            let _ = match self.all.modify(other, &mut readable()) {
                Err(Errno::ENOENT) => self.all.add(other, readable()),
                result => result,
            };
        }
        self.all.0.as_fd()
    }
}

fn readable() -> EpollEvent {
    EpollEvent::new(EpollFlags::EPOLLIN, 0)
}

fn unwatched(errno: Errno) -> Error {
    err!(
        Other,
        "the link to another job can't be watched: {}",
        errno.desc()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    const A: JobId = JobId(1);
    const B: JobId = JobId(2);

    fn link(links: &mut Links, job: JobId) -> UnixStream {
        let (own, other) = UnixStream::pair().unwrap();
        links.add(job, own.into()).unwrap();
        other
    }

    /// Whether a descriptor is readable.
    pub(super) fn wakes(descriptor: Option<BorrowedFd<'_>>) -> bool {
        let mut polled = [PollFd::new(descriptor.unwrap(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::ZERO) == Ok(1)
    }

    fn heard(links: &mut Links) -> Vec<Notice> {
        links.attend();
        links.notices()
    }

    fn rest(mut other: UnixStream) -> String {
        let mut text = String::new();
        other.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn an_end_without_a_goodbye_is_a_loss_and_told_once() {
        let mut links = Links::default();
        assert!(links.descriptor(None).is_none() && heard(&mut links).is_empty());
        let (first, second, third) = (link(&mut links, A), link(&mut links, A), link(&mut links, B));
        assert!(!wakes(links.descriptor(None)));
        assert_eq!(heard(&mut links), []);
        drop(first);
        assert!(wakes(links.descriptor(None)));
        drop(second);
        let notices = heard(&mut links);
        assert!(matches!(&notices[..], [Notice::Lost { job: A, why }] if why.contains("without a goodbye")));
        assert!(!wakes(links.descriptor(None)));
        drop(third);
        assert!(matches!(heard(&mut links)[..], [Notice::Lost { job: B, .. }]));
        assert!(links.descriptor(None).is_none());
        // The same job may be met, and lost, again.
        links.part(A);
        drop(link(&mut links, A));
        assert_eq!(heard(&mut links).len(), 1);
    }

    #[test]
    fn a_goodbye_is_no_loss() {
        let mut links = Links::default();
        let (mut first, second) = (link(&mut links, A), link(&mut links, B));
        first.write_all(b"by").unwrap();
        assert_eq!(heard(&mut links), []);
        first.write_all(b"e\n").unwrap();
        drop(first);
        assert_eq!(heard(&mut links), []);
        assert_eq!(links.links.len(), 1);
        // A copy, as a forked child has.
        let copy = links.links[0].1.as_fd().try_clone_to_owned().unwrap();
        links.part(A);
        links.part(B);
        assert_eq!(rest(second), "bye\n");
        drop(copy);
        let (third, fourth) = (link(&mut links, A), link(&mut links, B));
        links.part_from_all();
        assert_eq!(rest(third) + &rest(fourth), "bye\nbye\n");
        assert!(links.links.is_empty());
    }

    #[test]
    fn aborts_are_told_and_heard() {
        let (mut links, mut others) = (Links::default(), Links::default());
        let (own, other) = UnixStream::pair().unwrap();
        links.add(A, own.into()).unwrap();
        others.add(B, other.into()).unwrap();
        let parted = link(&mut links, B);
        links.part(B);
        links.abort(7, "two\nlines");
        drop(links);
        let abort = Notice::Aborted {
            code: 7,
            why: "two lines".into(),
        };
        assert_eq!(heard(&mut others), [abort]);
        assert_eq!(rest(parted), "bye\n", "who is not connected is not told");
    }

    #[test]
    fn a_link_that_nobody_reads_blocks_nobody() {
        let mut links = Links::default();
        let _other = link(&mut links, A);
        for _ in 0..10_000 {
            links.abort(1, &"long ".repeat(200));
        }
    }

    #[test]
    fn the_launchers_descriptor_wakes_too_and_may_change() {
        let mut links = Links::default();
        let (mut from, launcher) = UnixStream::pair().unwrap();
        let own = links.descriptor(Some(launcher.as_fd())).unwrap().as_raw_fd();
        assert_eq!(own, launcher.as_raw_fd(), "without links it is the only one");
        let mut other = link(&mut links, A);
        assert!(!wakes(links.descriptor(Some(launcher.as_fd()))));
        from.write_all(b"x").unwrap();
        assert!(wakes(links.descriptor(Some(launcher.as_fd()))));
        assert!(!wakes(links.descriptor(None)), "it is not asked any more");
        assert!(wakes(links.descriptor(Some(launcher.as_fd()))));
        // Another one, of the same number.
        let number = launcher.as_raw_fd();
        drop(launcher);
        let (mut from, launcher) = UnixStream::pair().unwrap();
        let launcher = match launcher.as_raw_fd() == number {
            true => launcher,
            false => {
                // SAFETY: the number is free, or another test has taken it just now, and then the first is used.
                let moved = unsafe { libc::fcntl(launcher.as_raw_fd(), libc::F_DUPFD_CLOEXEC, number) };
                // SAFETY: made just now.
                unsafe { std::os::fd::FromRawFd::from_raw_fd(moved) }
            }
        };
        assert!(!wakes(links.descriptor(Some(launcher.as_fd()))));
        from.write_all(b"x").unwrap();
        assert!(wakes(links.descriptor(Some(launcher.as_fd()))));
        assert!(!wakes(links.descriptor(None)));
        other.write_all(b"bye\n").unwrap();
        assert!(wakes(links.descriptor(None)));
    }

    proptest! {
        #[test]
        fn garbage_is_a_loss(bytes in prop::collection::vec(any::<u8>(), 1..200)) {
            let mut links = Links::default();
            let mut other = link(&mut links, A);
            let sent = [&bytes[..], b"\n"].concat();
            other.write_all(&sent).unwrap();
            prop_assume!(!sent.starts_with(b"bye\n") && !sent.starts_with(b"abort "));
            let notices = heard(&mut links);
            let is_lost = matches!(&notices[..], [Notice::Lost { job: A, why }] if why.contains("is expected"));
            prop_assert!(is_lost);
            prop_assert!(links.links.is_empty());
        }
    }
}
