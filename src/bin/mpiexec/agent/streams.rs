//! What the ranks write, on its way to the head.

use std::time::Instant;

use nix::sys::epoll::EpollFlags;

use super::{Agent, Rank};
use crate::events::Source;
use crate::output::{IDLE, Progress};
use crate::wire::FromAgent;

/// Passes on what a stream of a rank has.
fn put<'a>(told: &'a mut Vec<FromAgent>, rank: u32, number: usize) -> impl FnMut(&[u8]) + 'a {
    move |bytes| {
        told.push(FromAgent::Output {
            rank,
            stream: number as u8,
            bytes: bytes.to_vec(),
        });
    }
}

impl Agent {
    pub(super) fn watch_stream(&self, local: usize, number: usize) -> nix::Result<()> {
        let source = [Source::Stdout, Source::Stderr][number];
        match &self.ranks[local].streams[number] {
            Some(stream) if !self.paused[number] => source.readable(&self.epoll, stream, local),
            _ => Ok(()),
        }
    }

    pub(super) fn read_stream(&mut self, local: usize, number: usize) {
        let progress = self.read_once(local, number);
        let Some(rank) = self.ranks.get_mut(local) else {
            return;
        };
        let is_prompt = rank.streams[number]
            .as_ref()
            .is_some_and(|stream| stream.is_prompt());
        if progress != Progress::Ended && is_prompt && !rank.partial_queued[number] {
            rank.partial_queued[number] = true;
            self.partials.push_back((Instant::now() + IDLE, local, number));
        }
    }

    fn read_once(&mut self, local: usize, number: usize) -> Progress {
        let Some(Rank {
            streams,
            number: rank,
            ..
        }) = self.ranks.get_mut(local)
        else {
            return Progress::Ended;
        };
        let Some(stream) = &mut streams[number] else {
            return Progress::Ended;
        };
        let progress = stream.read(&mut put(&mut self.told, *rank, number));
        if progress == Progress::Ended {
            streams[number] = None;
        }
        progress
    }

    /// Reads the remaining output of a process that has ended.
    pub(super) fn drain_stream(&mut self, local: usize, number: usize) {
        // A process that it left behind may go on writing, so there is a limit: a little more than a pipe holds.
        for _ in 0..32 {
            if self.read_once(local, number) != Progress::More {
                return;
            }
        }
    }

    /// Forwards the beginnings of lines to which nothing was added for a while.
    pub fn handle_time(&mut self) {
        let now = Instant::now();
        while self.partials.front().is_some_and(|(at, ..)| *at <= now) {
            let Some((_, local, number)) = self.partials.pop_front() else {
                break;
            };
            let rank = &mut self.ranks[local];
            let Some(stream) = &mut rank.streams[number] else {
                continue;
            };
            match stream.flush_if_idle(now, &mut put(&mut self.told, rank.number, number)) {
                Some(later) => self.partials.push_back((later, local, number)),
                None => rank.partial_queued[number] = false,
            }
        }
    }

    /// Stops or resumes reading standard outputs or standard errors.
    pub(super) fn pause_streams(&mut self, number: usize, pause: bool) {
        if number >= 2 || self.paused[number] == pause {
            return;
        }
        self.paused[number] = pause;
        for local in 0..self.ranks.len() {
            match &self.ranks[local].streams[number] {
                Some(stream) if pause => drop(self.epoll.delete(stream)),
                _ => drop(self.watch_stream(local, number)),
            }
        }
    }

    /// Nobody reads them any more: ranks that write get SIGPIPE, as if they wrote to the reader themselves.
    pub(super) fn drop_streams(&mut self, number: usize) {
        for rank in &mut self.ranks {
            if let Some(stream) = rank.streams.get_mut(number) {
                *stream = None;
            }
        }
    }

    /// Whether epoll reports when a stream can be written.
    pub(super) fn watch_room(&self, fd: impl std::os::fd::AsFd, wanted: bool) {
        let _ = self.epoll.delete(&fd);
        if wanted {
            self.add_event(fd, Source::Input, EpollFlags::EPOLLOUT, 0);
        }
    }
}
