//! Names of services. They are kept by the first head of all that have spawned each other; the others pass requests on.

use std::collections::HashMap;

use nix::unistd::Pid;
use weft::tools::pmi1::wire;

use super::Job;
use crate::names::{Answer, Request, Table, What};
use crate::server::Effect;
use crate::spawn::messages::{FromSpawned, ToSpawned};

/// Who gets the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asker {
    /// A rank, in this of its sessions.
    Rank {
        rank: usize,
        session: u32,
        what: What,
        /// Words are in hexadecimal.
        hex: bool,
    },
    /// The head of a spawned job, with its own number of the request.
    Child { number: usize, pid: Pid, ticket: u32 },
    /// Nobody waits for it.
    Nobody,
}

/// Names, or requests that were passed on.
#[derive(Default)]
pub struct Names {
    table: Table,
    waiting: HashMap<u32, Asker>,
    next: u32,
}

impl Job {
    /// Does what the job `owner` wants.
    pub(super) fn ask_name(&mut self, asker: Asker, owner: String, request: Request) {
        let Some(parent) = &mut self.parent else {
            let answer = self.names.table.handle(&owner, request);
            return self.answer_name(asker, answer);
        };
        let ticket = self.names.next;
        self.names.next = ticket.wrapping_add(1);
        if asker != Asker::Nobody {
            self.names.waiting.insert(ticket, asker);
        }
        parent.send(&FromSpawned::Name {
            ticket,
            owner,
            request,
        });
    }

    /// The answer to a request that was passed on.
    pub(super) fn take_named(&mut self, ticket: u32, answer: Answer) {
        if let Some(asker) = self.names.waiting.remove(&ticket) {
            self.answer_name(asker, answer);
        }
    }

    fn answer_name(&mut self, asker: Asker, answer: Answer) {
        match asker {
            Asker::Nobody => {}
            Asker::Child { number, pid, ticket } => {
                if self.children.is(number, pid) {
                    self.children.send(number, &ToSpawned::Named { ticket, answer });
                }
            }
            // It may have gone on to another program meanwhile.
            Asker::Rank { rank, session, .. } if self.server.session(rank) != Some(session) => {}
            Asker::Rank { rank, what, hex, .. } => {
                let line = line(what, hex, &answer);
                self.apply(Effect::Reply { rank, line });
            }
        }
    }
}

/// The line for a rank.
fn line(what: What, hex: bool, answer: &Answer) -> String {
    let command = match what {
        What::Publish => "publish_result",
        What::Unpublish => "unpublish_result",
        What::LookUp => "lookup_result",
    };
    match answer {
        Answer::Refused(why) => format!("cmd={command} rc=1 msg={}\n", why.replace(' ', "_")),
        Answer::Done => format!("cmd={command} rc=0 msg=success\n"),
        Answer::Found { port } if hex => {
            let port = wire::to_hex(port.as_bytes());
            format!("cmd={command} rc=0 msg=success port={port}\n")
        }
        // It can't stand in a line.
        Answer::Found { port } if !wire::is_word(port) => {
            format!("cmd={command} rc=1 msg=the_port_has_blanks\n")
        }
        Answer::Found { port } => format!("cmd={command} rc=0 msg=success port={port}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_lines() {
        let found = Answer::Found { port: "a b".into() };
        assert_eq!(
            line(What::LookUp, true, &found),
            "cmd=lookup_result rc=0 msg=success port=612062\n"
        );
        assert!(line(What::LookUp, false, &found).contains("rc=1"));
        assert_eq!(
            line(
                What::Publish,
                true,
                &Answer::Refused("it is published already".into())
            ),
            "cmd=publish_result rc=1 msg=it_is_published_already\n"
        );
        assert_eq!(
            line(What::Unpublish, false, &Answer::Done),
            "cmd=unpublish_result rc=0 msg=success\n"
        );
    }
}
