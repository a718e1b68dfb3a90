//! Reports of what ranks wait for, printed before the time limit or a signal ends the job.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{Ending, GRACE, Job};
use crate::outcome::{STATUS_TIMEOUT, rank_list, signal_status};
use crate::server::{Effect, Phase};
use crate::wire::ToAgent;

/// How long ranks may take to report what they wait for. One that computes does not receive the question.
const TIME: Duration = Duration::from_millis(500);
/// The most lines that are printed.
const LINES_MAX: usize = 24;
/// The most lines of one rank.
const LINES_OF_RANK: usize = 8;

/// Why the job is about to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The time limit is over.
    Time(Duration),
    /// The launcher got this signal.
    Signal(Signal),
}

/// The ranks were asked what they wait for.
pub struct Asked {
    reason: Reason,
    until: Instant,
    /// The report of each of them.
    reports: Vec<Option<String>>,
}

impl Asked {
    /// When to go on without an answer.
    pub fn until(&self) -> Instant {
        self.until
    }
}

impl Job {
    /// Asks every rank that is in MPI what it waits for; the job ends when all have answered, or after a time limit.
    pub(super) fn ask_for_reports(&mut self, reason: Reason) {
        let now = Instant::now();
        self.asked = Some(Asked {
            reason,
            until: now + TIME,
            reports: vec![None; self.ranks.len()],
        });
        for rank in 0..self.ranks.len() {
            if self.is_in_mpi(rank) {
                self.apply(Effect::Reply {
                    rank,
                    line: "cmd=report\n".into(),
                });
            }
        }
    }

    pub(super) fn take_report(&mut self, rank: usize, text: String) {
        if let Some(asked) = &mut self.asked {
            asked.reports[rank] = Some(text);
        }
    }

    /// Ends the job once the ranks that were asked have answered.
    pub(super) fn judge_reports(&mut self) {
        let Some(asked) = &self.asked else { return };
        let waits = |rank: usize| self.is_in_mpi(rank) && asked.reports[rank].is_none();
        if Instant::now() < asked.until && (0..self.ranks.len()).any(waits) {
            return;
        }
        let Some(Asked { reason, reports, .. }) = self.asked.take() else {
            return;
        };
        let running = self.running_ranks();
        if running.is_empty() || self.ending != Ending::No {
            return;
        }
        let in_mpi = |rank: &usize| self.is_in_mpi(*rank);
        let silent: Vec<usize> = (running.iter().copied())
            .filter(|rank| in_mpi(rank) && reports[*rank].is_none())
            .collect();
        let told = lines(&reports, &silent);
        let colon = if told.is_empty() { "" } else { ":" };
        match reason {
            Reason::Time(limit) => {
                let message = format!(
                    "after the time limit of {} s {} {} still running; ending the job{colon}{told}",
                    limit.as_secs_f64(),
                    rank_list(&running),
                    if running.len() == 1 { "was" } else { "were" },
                );
                // This status is more exact than that of an earlier rank.
                self.status = Some(STATUS_TIMEOUT);
                self.fail_connected(message, STATUS_TIMEOUT, STATUS_TIMEOUT.into());
            }
            Reason::Signal(signal) => {
                self.say(&format!("{signal} came; ending the job{colon}{told}"));
                self.abort_connected(signal_status(signal as i32).into(), &format!("{signal} came"));
                self.send_all(&ToAgent::Signal(signal as i32));
                self.send_all(&ToAgent::Signal(libc::SIGCONT));
                self.ending = Ending::Asked {
                    kill_at: Instant::now() + GRACE,
                };
            }
        }
    }

    fn is_in_mpi(&self, rank: usize) -> bool {
        !self.ranks[rank].gone && self.server.phase(rank) == Phase::Active
    }

    fn running_ranks(&self) -> Vec<usize> {
        (0..self.ranks.len())
            .filter(|&rank| !self.ranks[rank].gone)
            .collect()
    }
}

/// The reports, equal ones together; each line with a line feed before it.
fn lines(reports: &[Option<String>], silent: &[usize]) -> String {
    let mut alike: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (rank, report) in reports.iter().enumerate() {
        if let Some(report) = report {
            alike.entry(report).or_default().push(rank);
        }
    }
    let mut groups: Vec<(&str, Vec<usize>)> = alike.into_iter().collect();
    groups.sort_by_key(|(_, ranks)| ranks[0]);
    let mut told = Vec::new();
    let mut left_out = Vec::new();
    for (report, ranks) in groups {
        let are = if ranks.len() == 1 { "is" } else { "are" };
        let mut of_rank = report.lines();
        let mut first = of_rank.next().unwrap_or_default().to_string();
        if ranks.len() > 1 {
            first = first.replacen(" and waits", " and wait", 1);
        }
        let mut lines = vec![format!("  {} {are} {first}", rank_list(&ranks))];
        lines.extend(
            of_rank
                .by_ref()
                .take(LINES_OF_RANK - 1)
                .map(|line| format!("    {}", line.trim())),
        );
        let more = of_rank.count();
        if more != 0 {
            lines.push(format!("    and {more} more"));
        }
        match told.len() + lines.len() <= LINES_MAX {
            true => told.extend(lines),
            false => left_out.extend(ranks),
        }
    }
    if !left_out.is_empty() {
        left_out.sort_unstable();
        let wait = if left_out.len() == 1 { "waits" } else { "wait" };
        told.push(format!("  {} {wait}, too", rank_list(&left_out)));
    }
    if !silent.is_empty() {
        let they = if silent.len() == 1 {
            "it computes, or waits"
        } else {
            "they compute, or wait"
        };
        told.push(format!(
            "  {} did not answer: {they} for something else than MPI",
            rank_list(silent)
        ));
    }
    told.iter()
        .map(|line| format!("\n{}", line.replace(|c: char| c.is_control(), " ")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_that_are_alike_are_told_once() {
        let of = |reports: &[&str]| -> Vec<Option<String>> {
            let reports = reports.iter();
            reports
                .map(|text| (!text.is_empty()).then(|| text.to_string()))
                .collect()
        };
        assert_eq!(lines(&of(&["", ""]), &[]), "");
        assert_eq!(
            lines(
                &of(&[
                    "in A and waits:\n  b\n  c",
                    "",
                    "in D and waits",
                    "in D and waits"
                ]),
                &[1]
            ),
            "\n  rank 0 is in A and waits:\n    b\n    c\n  ranks 2-3 are in D and wait\n  rank 1 did not answer: it computes, or waits \
             for something else than MPI"
        );
        let many: Vec<String> = (0..100).map(|rank| format!("in {rank}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let told = lines(&of(&many), &[]);
        assert_eq!(told.lines().count(), 1 + LINES_MAX + 1);
        assert!(told.ends_with("\n  ranks 24-99 wait, too"), "{told}");
        let long = format!("in A{}", "\nx".repeat(20));
        let told = lines(&of(&[&long]), &[]);
        assert!(told.ends_with("\n    x\n    and 13 more"), "{told}");
    }
}
