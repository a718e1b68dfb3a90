//! Output of the ranks, on its way to the launcher's.

use nix::sys::epoll::EpollFlags;

use super::Job;
use crate::events::Source;
use crate::outcome::system_words;
use crate::output::Progress;
use crate::wire::ToAgent;

impl Job {
    pub(super) fn sink_of(&self, number: usize) -> usize {
        number.min(self.sinks.len() - 1)
    }

    /// Tells all agents something about the streams that go to a sink.
    fn tell_of_streams(&mut self, sink: usize, message: impl Fn(u8) -> ToAgent) {
        for number in 0..2 {
            if self.sink_of(number) == sink {
                self.send_all(&message(number as u8));
            }
        }
    }

    pub(super) fn flush_sinks(&mut self) {
        for number in 0..self.sinks.len() {
            let progress = self.sinks[number].flush();
            if progress == Progress::Ended {
                self.tell_of_streams(number, |stream| ToAgent::Drop { stream });
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
                self.tell_of_streams(number, |stream| ToAgent::Pause { stream, pause: full });
            }
        }
    }
}
