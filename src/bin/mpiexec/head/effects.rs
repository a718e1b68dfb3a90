//! PMI lines of the ranks, and what they lead to.

use std::time::Instant;

use super::names::Asker;
use super::{Abort, EXIT_TIME, Job};
use crate::server::Effect;
use crate::wire::ToAgent;

impl Job {
    pub(super) fn take_line(&mut self, rank: usize, sender: Option<i32>, line: &[u8]) {
        if self.verbose {
            self.say(&format!("rank {rank} says {}", line.escape_ascii()));
        }
        match self.server.line(rank, sender, line) {
            Ok(effects) => effects.into_iter().for_each(|effect| self.apply(effect)),
            Err(error) => {
                let (host, number) = (self.ranks[rank].host, rank as u32);
                self.send(host, ToAgent::Close { rank: number });
                return self.broke_protocol(rank, &error.to_string());
            }
        }
        self.check_waiting();
    }

    pub(super) fn broke_protocol(&mut self, rank: usize, error: &str) {
        let who = self.describe(rank);
        self.fail(
            format!("{who} broke the PMI protocol: {error}; ending the job"),
            1,
        );
    }

    pub(super) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Reply { rank, line } => {
                if self.verbose {
                    self.say(&format!("rank {rank} is told {}", line.trim_end()));
                }
                let host = self.ranks[rank].host;
                let rank = rank as u32;
                self.send(host, ToAgent::Reply { rank, line });
            }
            Effect::Initialized { rank, pid } => {
                if let Some(pid) = pid.filter(|&pid| Some(pid) != self.ranks[rank].pid) {
                    let (host, rank) = (self.ranks[rank].host, rank as u32);
                    self.send(host, ToAgent::Watch { rank, pid });
                }
            }
            Effect::Finalized { rank } => {
                let (host, number) = (self.ranks[rank].host, rank as u32);
                self.send(host, ToAgent::Unwatch { rank: number });
                self.ranks[rank].wrapper_deadline = None;
                self.disconnect_rank(rank);
            }
            Effect::Spawn {
                rank,
                form,
                list,
                preput,
            } => self.spawn(rank, form, list, preput),
            Effect::Name {
                rank,
                what,
                hex,
                request,
            } => {
                let session = self.server.session(rank).unwrap_or(0);
                let asker = Asker::Rank {
                    rank,
                    session,
                    what,
                    hex,
                };
                self.ask_name(asker, self.id.clone(), request);
            }
            Effect::Connected { rank, job, on } => self.connected(rank, job, on),
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
                let believe_at = Instant::now() + EXIT_TIME;
                let settled = self.peers.gone();
                // It counts when all other events until now have been handled.
                self.abort.get_or_insert(Abort {
                    message,
                    code,
                    believe_at,
                    settled,
                });
                self.send_all(&ToAgent::Aborts { rank: rank as u32 });
            }
        }
    }
}
