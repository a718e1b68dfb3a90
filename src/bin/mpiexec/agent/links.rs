//! Links: sockets to other jobs, which ranks have passed on. Over them jobs tell each other that they were aborted, and where one ends without
//! a goodbye, the other job is gone. The head decides what that means.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use weft::tools::links::{Heard, Link, Word};
use weft::tools::pmi1::wire::Message;
use weft::{Result, err};

use super::Agent;
use crate::events::Source;
use crate::wire::FromAgent;

/// What a line begins with that comes with a socket. It does not go to the head: the socket can't.
pub const LINE: &[u8] = b"cmd=weft_link ";
/// The most sockets of one rank whose lines have not come.
const PASSED_MAX: usize = 64;

/// The links of a machine.
#[derive(Default)]
pub struct Links {
    /// Each with the other job.
    all: Vec<Option<(u64, Link)>>,
}

/// Sockets that a rank has passed, before their lines.
#[derive(Default)]
pub struct Passed(VecDeque<OwnedFd>);

impl Passed {
    /// Takes those that came with some bytes.
    ///
    /// # Errors
    /// No lines come for them.
    pub fn add(&mut self, sockets: Vec<OwnedFd>) -> Result<()> {
        self.0.extend(sockets);
        match self.0.len() > PASSED_MAX {
            true => Err(err!(
                Other,
                "it has passed more than {PASSED_MAX} descriptors without a line"
            )),
            false => Ok(()),
        }
    }
}

impl Agent {
    /// A line of a rank with [`LINE`] at its beginning.
    pub(super) fn take_link(&mut self, local: usize, line: &[u8]) -> Result<()> {
        let message = Message::parse(line)?;
        let text = message.get("job")?;
        let job = u64::from_str_radix(text, 16)
            .map_err(|_| err!(Other, "weft_link has job={text:.20}, which names no job"))?;
        let Some(socket) = self.ranks[local].passed.0.pop_front() else {
            return Err(err!(Other, "weft_link came without a descriptor"));
        };
        let number = self.links.all.iter().position(Option::is_none);
        let number = number.unwrap_or_else(|| {
            self.links.all.push(None);
            self.links.all.len() - 1
        });
        self.tell(FromAgent::Linked { job });
        match Source::Link.readable(&self.epoll, &socket, number) {
            Ok(()) => {
                self.links.all[number] = Some((job, Link::over(socket)));
            }
            Err(errno) => {
                let why = format!("the link to it can't be watched: {}", errno.desc());
                self.tell(FromAgent::LinkLost { job, why });
            }
        }
        Ok(())
    }

    /// Reads what has come over a link.
    pub(super) fn read_link(&mut self, number: usize) {
        let Some((job, link)) = self.links.all.get_mut(number).and_then(Option::as_mut) else {
            return;
        };
        let job = *job;
        let told = match link.hear() {
            Heard::Nothing => return,
            Heard::Word(Word::Bye) => None,
            Heard::Word(Word::Abort { code, why }) => Some(FromAgent::LinkAborted { job, code, why }),
            Heard::End(why) => Some(FromAgent::LinkLost { job, why }),
        };
        self.close_links(|at, _| at == number, None);
        self.told.extend(told);
    }

    /// Ends links, with a last word.
    fn close_links(&mut self, which: impl Fn(usize, u64) -> bool, word: Option<&Word>) {
        for (number, place) in self.links.all.iter_mut().enumerate() {
            if let Some((_, link)) = place.take_if(|(job, _)| which(number, *job)) {
                if let Some(word) = word {
                    link.say(word);
                }
                let _ = self.epoll.delete(&link);
                link.end();
            }
        }
    }

    /// The job is not connected with another one any more.
    pub(super) fn unlink(&mut self, job: u64) {
        self.close_links(|_, of| of == job, Some(&Word::Bye));
    }

    /// The job was aborted, and these jobs are connected with it.
    pub(super) fn abort_links(&mut self, jobs: &[u64], code: i32, why: &str) {
        let word = Word::Abort {
            code,
            why: why.to_string(),
        };
        let links = self.links.all.iter().flatten();
        links
            .filter(|(job, _)| jobs.contains(job))
            .for_each(|(_, link)| link.say(&word));
    }

    /// The job has ended. Those that are still linked with it are told by that.
    pub(super) fn drop_links(&mut self) {
        self.close_links(|_, _| true, None);
    }
}
