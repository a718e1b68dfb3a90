//! Output of the ranks, on its way to the launcher's.

use std::time::Instant;

use nix::sys::epoll::EpollFlags;

use super::{Job, Source};
use crate::outcome::system_words;
use crate::output::{IDLE, Progress};

impl Job {
    pub(super) fn sink_of(&self, number: usize) -> usize {
        number.min(self.sinks.len() - 1)
    }

    pub(super) fn watch_stream(&self, rank: usize, number: usize) -> nix::Result<()> {
        let source = if number == 0 {
            Source::Stdout
        } else {
            Source::Stderr
        };
        match &self.ranks[rank].streams[number] {
            Some(stream) if !self.sink_full[self.sink_of(number)] => {
                self.epoll.add(stream, source.event(EpollFlags::EPOLLIN, rank))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn read_stream(&mut self, rank: usize, number: usize) {
        let sink = self.sink_of(number);
        let Some(stream) = &mut self.ranks[rank].streams[number] else {
            return;
        };
        if stream.read(&mut self.sinks[sink]) == Progress::Ended {
            self.ranks[rank].streams[number] = None;
        } else if stream.is_prompt() && !self.ranks[rank].partial_queued[number] {
            self.ranks[rank].partial_queued[number] = true;
            self.partials.push_back((Instant::now() + IDLE, rank, number));
        }
    }

    /// Reads the remaining output of a process that has ended.
    pub(super) fn drain_stream(&mut self, rank: usize, number: usize) {
        // A process that it left behind may go on writing, so there is a limit: a little more than a pipe holds.
        for _ in 0..32 {
            let sink = self.sink_of(number);
            let Some(stream) = &mut self.ranks[rank].streams[number] else {
                return;
            };
            match stream.read(&mut self.sinks[sink]) {
                Progress::Ended => self.ranks[rank].streams[number] = None,
                Progress::More => {}
                Progress::Done => return,
            }
        }
    }

    pub(super) fn flush_sinks(&mut self) {
        for number in 0..self.sinks.len() {
            let progress = self.sinks[number].flush();
            if progress == Progress::Ended {
                self.drop_streams(number);
            }
            if let Some(error) = self.sinks[number].take_failure() {
                self.output_lost = true;
                let which = ["output", "error"][number];
                self.say(&format!(
                    "standard {which} can't be written: {}; some is lost",
                    system_words(&error)
                ));
                // The message goes to the other sink if possible.
                return self.flush_sinks();
            }
            let waits = progress == Progress::More;
            if waits != self.sink_waits[number] {
                self.sink_waits[number] = waits;
                let sink = &self.sinks[number];
                let _ = match waits {
                    true => self
                        .epoll
                        .add(sink, Source::Sink.event(EpollFlags::EPOLLOUT, number)),
                    false => self.epoll.delete(sink),
                };
            }
            let (full, room) = (self.sinks[number].is_full(), self.sinks[number].has_room());
            if full && !self.sink_full[number] || room && self.sink_full[number] {
                self.sink_full[number] = full;
                self.pause_streams(number, full);
            }
        }
    }

    /// Stops or resumes reading what goes to a sink.
    pub(super) fn pause_streams(&self, sink: usize, pause: bool) {
        for rank in 0..self.ranks.len() {
            for number in (0..2).filter(|&number| self.sink_of(number) == sink) {
                match &self.ranks[rank].streams[number] {
                    Some(stream) if pause => drop(self.epoll.delete(stream)),
                    _ => drop(self.watch_stream(rank, number)),
                }
            }
        }
    }

    /// The sink has no reader any more: ranks that write get SIGPIPE, as if they wrote to it themselves.
    pub(super) fn drop_streams(&mut self, sink: usize) {
        let last = self.sinks.len() - 1;
        for rank in &mut self.ranks {
            for (number, stream) in rank.streams.iter_mut().enumerate() {
                if number.min(last) == sink {
                    *stream = None;
                }
            }
        }
    }
}
