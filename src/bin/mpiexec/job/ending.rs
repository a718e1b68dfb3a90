//! Signals, and how ranks and the job end.

use std::time::Instant;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::getpid;

use super::reports::Reason;
use super::{Abort, Ending, GRACE, Job, LAST_WAIT, WRAPPER_GRACE};
use crate::outcome::{End, signal_status, signal_text};
use crate::output::{OWN, Sink};
use crate::server::Phase;
use crate::watchdog::kill_orphans;

impl Job {
    pub(super) fn handle_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            match Signal::try_from(info.ssi_signo as i32) {
                Ok(Signal::SIGCHLD) => self.reap(),
                Ok(signal) => self.forward(signal),
                Err(_) => {}
            }
        }
    }

    pub(super) fn forward(&mut self, signal: Signal) {
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
                    self.signal_groups(signal);
                    self.signal_groups(Signal::SIGCONT);
                }
            }
            Signal::SIGTSTP => {
                self.signal_groups(signal);
                let _ = kill(getpid(), Signal::SIGSTOP);
            }
            Signal::SIGCONT => {
                self.signal_groups(signal);
                self.watch_terminal();
            }
            signal => self.signal_groups(signal),
        }
    }

    pub(super) fn signal_groups(&self, signal: Signal) {
        for rank in self.ranks.iter().filter(|rank| rank.end.is_none()) {
            let _ = killpg(rank.pid, signal);
        }
    }

    pub(super) fn reap(&mut self) {
        loop {
            let status = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(status) => status,
                Err(Errno::EINTR) => continue,
                Err(_) => break,
            };
            let Some(pid) = status.pid() else { break };
            self.processes.add(pid.as_raw());
            // The watchdog and orphans have no rank.
            if let (Some(end), Some(rank)) = (End::from_wait(status), self.by_pid.remove(&pid)) {
                self.exited(rank, end);
            }
        }
        if self.last_wait.is_some() {
            kill_orphans(self.watchdog.pid());
        }
    }

    pub(super) fn exited(&mut self, rank: usize, end: End) {
        // What it sent before its end counts.
        self.receive_pmi(rank);
        for number in 0..2 {
            self.drain_stream(rank, number);
        }
        self.running -= 1;
        let gone = &mut self.ranks[rank];
        gone.end = Some(end);
        gone.pmi = None;
        gone.inner = None;
        gone.wrapper_deadline = None;
        self.watchdog.remove(gone.pid);
        self.server.exited(rank);
        self.judge(rank, end);
        self.after_exit();
    }

    /// Decides whether a call of `MPI_Abort` is why the job ends. A rank whose transport has lost another rank calls it, too,
    /// and may do so before the kernel reports that rank's end. So a rank that has ended, or is about to, is judged first.
    pub(super) fn judge_abort(&mut self) {
        if self.abort.is_none() {
            return;
        }
        self.reap();
        if self.ending != Ending::No {
            self.abort = None;
            return;
        }
        let others_exit = (0..self.ranks.len()).any(|rank| self.is_on_its_way_out(rank));
        let settled = |abort: &mut Abort| !others_exit || abort.believe_at <= Instant::now();
        if let Some(abort) = self.abort.take_if(settled) {
            self.fail(abort.message, abort.status);
        }
    }

    /// Whether a rank's end is to be expected at any moment, and not by its own decision: its files and sockets are
    /// closed before its parent can wait for it.
    fn is_on_its_way_out(&self, rank: usize) -> bool {
        let rank = &self.ranks[rank];
        if rank.end.is_some() || rank.aborts {
            return false;
        }
        rank.wrapper_deadline.is_some()
            || is_exiting(rank.pid.as_raw())
            || rank.inner.as_ref().is_some_and(|inner| is_exiting(inner.pid))
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
            self.terminal = None;
            kill_orphans(self.watchdog.pid());
        }
    }

    pub(super) fn inner_ended(&mut self, rank: usize) {
        self.receive_pmi(rank);
        if let Some(inner) = self.ranks[rank].inner.take() {
            let _ = self.epoll.delete(&inner.descriptor);
        }
        if self.server.phase(rank) == Phase::Active && self.ending == Ending::No {
            self.ranks[rank].wrapper_deadline = Some(Instant::now() + WRAPPER_GRACE);
        }
    }

    pub(super) fn describe(&self, rank: usize) -> String {
        format!(
            "rank {rank} (pid {}, {})",
            self.ranks[rank].pid, self.ranks[rank].program
        )
    }

    /// Ends the job with one line that has the reason; later reasons are not printed.
    pub(super) fn fail(&mut self, message: String, status: u8) {
        self.asked = None;
        if self.ending != Ending::No {
            return;
        }
        self.say(&message);
        self.status.get_or_insert(status);
        self.ask_to_end();
    }

    pub(super) fn ask_to_end(&mut self) {
        self.ending = Ending::Asked {
            kill_at: Instant::now() + GRACE,
        };
        self.signal_groups(Signal::SIGTERM);
        self.signal_groups(Signal::SIGCONT);
    }

    pub(super) fn kill_all(&mut self) {
        self.ending = Ending::Killed;
        if let Some(signal) = self.interrupted {
            self.status.get_or_insert(signal_status(signal as i32));
        }
        self.signal_groups(Signal::SIGKILL);
    }

    pub(super) fn say(&mut self, message: &str) {
        if let Some(sink) = self.sinks.last_mut() {
            sink.put(OWN, b"", format!("mpiexec: {message}\n").as_bytes());
        }
    }
}

/// Whether the kernel has begun to end a process, though `waitpid` may not report it yet.
fn is_exiting(pid: i32) -> bool {
    /// `PF_EXITING` of the kernel's flags (proc_pid_stat(5)). The process's first thread has it before anything of the
    /// process is closed.
    const EXITING: u32 = 4;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name, which may have any characters: state, five numbers, the flags.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let flags = rest.split_ascii_whitespace().nth(6);
    flags
        .and_then(|flags| flags.parse::<u32>().ok())
        .is_some_and(|flags| flags & EXITING != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_that_ends_is_exiting() {
        assert!(!is_exiting(std::process::id() as i32));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let start = Instant::now();
        // It has not been waited for, so it still exists.
        while !is_exiting(child.id() as i32) {
            assert!(start.elapsed().as_secs() < 20);
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!is_exiting(-1));
    }
}
