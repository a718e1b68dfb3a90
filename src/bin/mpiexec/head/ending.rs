//! Signals, and how ranks and the job end.

use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::getpid;

use super::names::Asker;
use super::reports::Reason;
use super::{Abort, Ending, GRACE, Job, LAST_WAIT, Rank, WRAPPER_GRACE};
use crate::names::Request;
use crate::outcome::{End, abort_status, rank_list, signal_status, signal_text};
use crate::output::{OWN, Sink};
use crate::server::Phase;
use crate::wire::ToAgent;

impl Job {
    pub(super) fn handle_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            match Signal::try_from(info.ssi_signo as i32) {
                Ok(Signal::SIGCHLD) => {
                    self.agent.reap();
                    let others = self.agent.take_others();
                    self.peers.reaped(&others);
                    self.children_reaped(&others);
                }
                Ok(signal) => self.forward(signal),
                Err(_) => {}
            }
        }
    }

    pub(super) fn forward(&mut self, signal: Signal) {
        self.children.signal(signal);
        if self.is_adopted {
            // The process gets its own, and may go on.
            if signal == Signal::SIGTSTP {
                let _ = kill(getpid(), Signal::SIGSTOP);
            }
            return;
        }
        match signal {
            Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP => {
                if self.running == 0 || self.interrupted.is_some() || self.ending == Ending::Killed {
                    self.interrupted = Some(signal);
                    return self.kill_all();
                }
                self.interrupted = Some(signal);
                if self.ending == Ending::No {
                    self.ask_for_reports(Reason::Signal(signal));
                } else {
                    self.send_all(&ToAgent::Signal(signal as i32));
                    self.send_all(&ToAgent::Signal(libc::SIGCONT));
                }
            }
            Signal::SIGTSTP => {
                self.send_all(&ToAgent::Signal(signal as i32));
                self.peers.flush();
                let _ = kill(getpid(), Signal::SIGSTOP);
            }
            Signal::SIGCONT => {
                self.send_all(&ToAgent::Signal(signal as i32));
                self.watch_keyboard();
            }
            signal => self.send_all(&ToAgent::Signal(signal as i32)),
        }
    }

    pub(super) fn exited(&mut self, rank: usize, end: End) {
        if self.give_up(rank) {
            self.ranks[rank].end = Some(end);
            self.server.exited(rank);
            self.judge(rank, end);
            self.after_exit();
        }
    }

    /// `-print-all-exitcodes`: a line for each way in which ranks have ended.
    pub(super) fn tell_statuses(&mut self) {
        if !self.print_all_exitcodes {
            return;
        }
        let mut ends: Vec<(Option<End>, Vec<usize>)> = Vec::new();
        for (number, rank) in self.ranks.iter().enumerate() {
            match ends.iter_mut().find(|(end, _)| *end == rank.end) {
                Some((_, ranks)) => ranks.push(number),
                None => ends.push((rank.end, vec![number])),
            }
        }
        for (end, ranks) in ends {
            let how = match end {
                Some(End::Exit(status)) => format!("exit status {status}"),
                Some(End::Signal(number)) => format!("killed by {}", signal_text(number)),
                None => "no exit status".to_string(),
            };
            self.say(&format!("{}: {how}", rank_list(&ranks)));
        }
        self.flush_sinks();
    }

    /// Counts a rank as gone; `false`: it was.
    fn give_up(&mut self, rank: usize) -> bool {
        let gone = &mut self.ranks[rank];
        if std::mem::replace(&mut gone.gone, true) {
            return false;
        }
        gone.wrapper_deadline = None;
        self.running -= 1;
        true
    }

    /// Counts ranks as gone that will never be started, or whose machine is lost. The job is ending already.
    pub(super) fn give_up_ranks(&mut self, which: impl Fn(&Rank) -> bool) {
        for rank in 0..self.ranks.len() {
            if which(&self.ranks[rank]) {
                self.give_up(rank);
            }
        }
        self.after_exit();
    }

    /// Decides whether a call of `MPI_Abort` is why the job ends. A rank whose transport has lost another rank calls it, too,
    /// and may do so before the launcher knows of that rank's end. So a rank that has ended, or is about to, is judged first, and
    /// so is a machine that does not answer.
    pub(super) fn judge_abort(&mut self) {
        let Some(abort) = &self.abort else { return };
        if self.ending != Ending::No {
            self.abort = None;
            return;
        }
        let own = self.own_host.is_none_or(|host| abort.settled[host]);
        let lost = self.peers.gone();
        let others = (abort.settled.iter().zip(&lost).enumerate())
            .all(|(host, (settled, lost))| *settled || *lost || self.is_own(host));
        let wrapper = |rank: &Rank| rank.wrapper_deadline.is_some() && !rank.aborts;
        let exits = !own || self.ranks.iter().any(wrapper);
        let settled = |abort: &mut Abort| others && (!exits || abort.believe_at <= Instant::now());
        if let Some(abort) = self.abort.take_if(settled) {
            self.fail_connected(abort.message, abort_status(abort.code), abort.code);
        }
    }

    /// Decides whether a rank's end is a failure, and whether it ends the job.
    pub(super) fn judge(&mut self, rank: usize, end: End) {
        let who = self.describe(rank);
        let phase = self.server.phase(rank);
        match end {
            _ if self.ending != Ending::No => {
                if self.status.is_none() && end.status() != 0 {
                    self.status = Some(end.status());
                }
            }
            // It ends as it likes.
            _ if self.is_adopted => {}
            // Its call of `MPI_Abort` has the reason.
            _ if self.ranks[rank].aborts => {}
            End::Signal(libc::SIGPIPE) if self.sinks.iter().any(Sink::is_broken) => {
                // The user closed the output; there is nothing to report.
                self.status.get_or_insert(end.status());
                self.ask_to_end();
            }
            End::Signal(number) => {
                let when = if phase == Phase::Finalized {
                    " after MPI_Finalize"
                } else {
                    ""
                };
                self.fail(
                    format!(
                        "{who} was killed by {}{when}; ending the job",
                        signal_text(number)
                    ),
                    end.status(),
                );
            }
            End::Exit(status) if phase == Phase::Active => {
                let text =
                    format!("{who} exited with status {status} without calling MPI_Finalize; ending the job");
                self.fail(text, status.max(1));
            }
            End::Exit(status) if status != 0 && phase == Phase::Plain && self.server.any_active() => {
                let text = format!("{who} exited with status {status} before MPI_Init; ending the job");
                self.fail(text, status);
            }
            End::Exit(0) => {}
            End::Exit(status) => {
                if self.status.is_none() {
                    self.say(&format!("{who} exited with status {status}"));
                    self.status = Some(status);
                }
            }
        }
        self.check_waiting();
    }

    pub(super) fn check_waiting(&mut self) {
        if self.ending != Ending::No {
            return;
        }
        if let Some((gone, waiter)) = self.server.waited_for_in_vain() {
            let how = match self.server.phase(gone) {
                Phase::Finalized => "has finalized and exited",
                _ => "exited without MPI_Init",
            };
            let text = format!(
                "{} {how} while rank {waiter} waits for it; ending the job",
                self.describe(gone)
            );
            self.fail(text, 1);
        }
    }

    pub(super) fn after_exit(&mut self) {
        if self.running == 0 && self.last_wait.is_none() {
            self.last_wait = Some(Instant::now() + LAST_WAIT);
            self.forget_keyboard();
            self.ask_name(Asker::Nobody, self.id.clone(), Request::Forget);
            self.tell_of_end();
            self.leave_jobs(true);
            self.send_all(&ToAgent::Finish);
        }
    }

    pub(super) fn inner_ended(&mut self, rank: usize) {
        if self.server.phase(rank) == Phase::Active && self.ending == Ending::No && !self.ranks[rank].gone {
            self.ranks[rank].wrapper_deadline = Some(Instant::now() + WRAPPER_GRACE);
        }
    }

    pub(super) fn describe(&self, rank: usize) -> String {
        let Rank {
            pid, program, host, ..
        } = &self.ranks[rank];
        let pid = pid.unwrap_or_default();
        match self.peers.is_empty() {
            true => format!("rank {rank} (pid {pid}, {program})"),
            false => format!("rank {rank} (pid {pid} on {}, {program})", self.peers.name(*host)),
        }
    }

    /// Ends the job with one line that has the reason; later reasons are not printed.
    pub(super) fn fail(&mut self, message: String, status: u8) {
        self.asked = None;
        if self.ending != Ending::No {
            return;
        }
        let guilty = self.guilty;
        // Who has asked for the job says why there is none.
        let is_told = (self.parent.as_mut()).is_some_and(|parent| parent.refuse(&message, guilty));
        if !is_told {
            self.say(&message);
        }
        self.reason.get_or_insert(message);
        self.status.get_or_insert(status);
        self.ask_to_end();
    }

    pub(super) fn ask_to_end(&mut self) {
        self.ending = Ending::Asked {
            kill_at: Instant::now() + GRACE,
        };
        self.send_all(&ToAgent::Signal(libc::SIGTERM));
        self.send_all(&ToAgent::Signal(libc::SIGCONT));
    }

    pub(super) fn kill_all(&mut self) {
        self.ending = Ending::Killed;
        if let Some(signal) = self.interrupted {
            self.status.get_or_insert(signal_status(signal as i32));
        }
        self.send_all(&ToAgent::Kill);
    }

    pub(super) fn say(&mut self, message: &str) {
        if let Some(sink) = self.sinks.last_mut() {
            sink.put(OWN, b"", format!("mpiexec: {message}\n").as_bytes());
        }
    }
}
