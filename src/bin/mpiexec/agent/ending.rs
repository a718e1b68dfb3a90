//! Signals to the ranks, and their ends.

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};

use super::Agent;
use crate::outcome::End;
use crate::watchdog::kill_orphans;
use crate::wire::FromAgent;

impl Agent {
    pub(super) fn signal_groups(&self, number: i32) {
        let Ok(signal) = Signal::try_from(number) else {
            return;
        };
        for rank in self.ranks.iter().filter(|rank| !rank.ended && !rank.is_adopted) {
            let _ = killpg(rank.pid, signal);
        }
    }

    /// Handles all children that have ended.
    pub fn reap(&mut self) {
        loop {
            let status = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(status) => status,
                Err(Errno::EINTR) => continue,
                Err(_) => break,
            };
            let Some(pid) = status.pid() else { break };
            let end = End::from_wait(status);
            match end.and_then(|end| Some((end, self.by_pid.remove(&pid)?))) {
                Some((end, local)) => {
                    self.processes.add(pid.as_raw());
                    self.exited(local, end);
                }
                // A child that the caller has started, or an orphan.
                None if self.spared.contains(&pid) => self.others.push(status),
                None => self.processes.add(pid.as_raw()),
            }
        }
        if self.last_wait.is_some() {
            kill_orphans(&self.spared);
        }
    }

    pub(super) fn exited(&mut self, local: usize, end: End) {
        // What it sent before its end counts.
        self.receive_pmi(local);
        for number in 0..2 {
            self.drain_stream(local, number);
        }
        self.running -= 1;
        let gone = &mut self.ranks[local];
        gone.ended = true;
        gone.pmi = None;
        gone.inner = None;
        let rank = gone.number;
        self.watchdog.remove(gone.pid);
        if rank == 0 {
            self.close_input();
        }
        self.tell(FromAgent::Ended { rank, end });
    }

    /// Answers [`ToAgent::Aborts`](crate::wire::ToAgent::Aborts) once it can. A rank whose transport has lost another rank
    /// calls `MPI_Abort`, and may do so before the kernel reports the other one's end. So ends that are about to come are
    /// waited for.
    pub fn settle(&mut self) {
        if !self.settles {
            return;
        }
        self.reap();
        let is_on_its_way_out = |local: usize| {
            let rank = &self.ranks[local];
            // Its files and sockets are closed before its parent can wait for it.
            !rank.ended
                && !rank.aborts
                && (is_exiting(rank.pid.as_raw())
                    || rank.inner.as_ref().is_some_and(|inner| is_exiting(inner.pid)))
        };
        if !(0..self.ranks.len()).any(is_on_its_way_out) {
            self.settles = false;
            self.tell(FromAgent::Settled);
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
    use std::time::Instant;

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
