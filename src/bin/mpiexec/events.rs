//! What an event of the loop is about.

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags, EpollTimeout};
use std::os::fd::AsFd;
use std::time::Instant;

/// An epoll event carries this and a number: of a rank among those of its agent, of a host, of a sink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Source {
    Signals = 0,
    Pmi = 1,
    Stdout = 2,
    Stderr = 3,
    /// The MPI process below a wrapper.
    Inner = 4,
    /// The launcher's standard input.
    Terminal = 5,
    /// The pipe to rank 0's standard input.
    Input = 6,
    Sink = 7,
    /// Messages from another machine.
    FromPeer = 8,
    /// Room for messages to another machine.
    ToPeer = 9,
    /// What a launcher command, or the remote shell, prints as an error.
    PeerErrors = 10,
    /// The port that agents connect to, or one that has connected.
    Port = 11,
    /// The head that has spawned this job.
    Parent = 12,
    /// The head of a job that this one has spawned.
    Child = 13,
    /// A link to another job.
    Link = 14,
    /// The name server.
    Names = 15,
}

impl Source {
    /// The event to ask the kernel for.
    pub fn event(self, flags: EpollFlags, number: usize) -> EpollEvent {
        EpollEvent::new(flags, (self as u64) << 32 | number as u64)
    }

    /// What the kernel reports.
    pub fn of(data: u64) -> Option<(Source, usize)> {
        let all = [
            Source::Signals,
            Source::Pmi,
            Source::Stdout,
            Source::Stderr,
            Source::Inner,
            Source::Terminal,
            Source::Input,
            Source::Sink,
            Source::FromPeer,
            Source::ToPeer,
            Source::PeerErrors,
            Source::Port,
            Source::Parent,
            Source::Child,
            Source::Link,
            Source::Names,
        ];
        let source = all.into_iter().find(|&source| source as u64 == data >> 32)?;
        Some((source, (data & 0xffff_ffff) as usize))
    }

    /// Watches `fd` for being readable.
    pub fn readable(self, epoll: &Epoll, fd: impl AsFd, number: usize) -> nix::Result<()> {
        epoll.add(fd, self.event(EpollFlags::EPOLLIN, number))
    }
}

/// How long to wait so that it is past `next` afterwards: rounded up.
pub fn wait_until(next: Option<Instant>) -> EpollTimeout {
    let Some(next) = next else {
        return EpollTimeout::NONE;
    };
    let wait_ms = next
        .saturating_duration_since(Instant::now())
        .as_micros()
        .div_ceil(1000);
    EpollTimeout::try_from(wait_ms.min(i32::MAX as u128) as i32).unwrap_or(EpollTimeout::ZERO)
}
