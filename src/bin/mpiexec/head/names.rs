//! Names of services. They are kept by the first head of all that have spawned each other, or by a name server that this one is pointed at;
//! the others pass requests on.

use std::collections::HashMap;

use nix::unistd::Pid;
use weft::tools::pmi1::{names::NOT_PUBLISHED, wire};

use super::Job;
use crate::events::Source;
use crate::names::service::Client;
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
    /// What keeps them instead.
    service: Option<Client>,
}

impl Names {
    /// They are kept by the service at `address`, if there is one.
    pub fn by(address: Option<&str>) -> Names {
        Names {
            service: address.map(Client::of),
            ..Names::default()
        }
    }
}

impl Job {
    /// Does what the job `owner` wants.
    pub(super) fn ask_name(&mut self, asker: Asker, owner: String, request: Request) {
        if self.parent.is_none() && self.names.service.is_none() {
            let answer = self.names.table.handle(&owner, request);
            return self.answer_name(asker, answer);
        }
        let ticket = self.names.next;
        self.names.next = ticket.wrapping_add(1);
        if asker != Asker::Nobody {
            self.names.waiting.insert(ticket, asker);
        }
        if let Some(parent) = &mut self.parent {
            parent.send(&FromSpawned::Name {
                ticket,
                owner,
                request,
            });
        } else if let Some(service) = &mut self.names.service {
            // A job that has published nothing has no connection, and needs none to forget that.
            if request == Request::Forget && service.descriptor().is_none() {
                return;
            }
            match service.ask(ticket, owner, request) {
                Ok(()) => self.attend_service(),
                Err(error) => self.take_named(ticket, unreachable(&error)),
            }
        }
    }

    /// Goes on with the service of names.
    pub(super) fn attend_service(&mut self) {
        let Some(service) = &mut self.names.service else {
            return;
        };
        let answers = service.turn();
        self.watch_service();
        match answers {
            Ok(answers) => {
                for (ticket, answer) in answers {
                    self.take_named(ticket, answer);
                }
            }
            Err(error) => {
                let tickets: Vec<u32> = self.names.waiting.keys().copied().collect();
                for ticket in tickets {
                    self.take_named(ticket, unreachable(&error));
                }
            }
        }
    }

    /// Has events of the service come, whose descriptor changes when it is connected.
    fn watch_service(&mut self) {
        let descriptor = self.names.service.as_ref().and_then(Client::descriptor);
        if let Some(descriptor) = descriptor {
            // It may be watched already. One that was closed is not watched any more.
            let _ = Source::Names.readable(&self.epoll, descriptor, 0);
        }
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

fn unreachable(error: &weft::Error) -> Answer {
    Answer::Refused(format!("the name server can't be reached: {error}"))
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
        Answer::Unknown => format!("cmd={command} rc=1 msg={NOT_PUBLISHED}\n"),
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
