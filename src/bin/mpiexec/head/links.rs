//! Jobs that this one is connected with (MPI 5.0, section 11.10.4). Ranks say with whom they are; agents hold the links. An abort of one
//! of these jobs ends this one, and the other way round; one that is gone is told to the ranks that are connected with it.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use weft::tools::pmi1::wire;

use super::spawn::without_end;
use super::{Ending, Job};
use crate::outcome::abort_status;
use crate::server::Effect;
use crate::wire::ToAgent;

/// How long after its last rank is connected no more a job counts as left: ranks speak over connections of their own, so that the goodbye
/// of one may come before the first word of another.
const GRACE: Duration = Duration::from_millis(500);
/// The most jobs.
const JOBS_MAX: usize = 65_536;

/// The jobs.
#[derive(Default)]
pub struct Links {
    jobs: HashMap<u64, Other>,
    /// Another job was aborted, and this one is for that reason.
    ended_by_other: bool,
}

/// Another job.
#[derive(Default)]
struct Other {
    /// The ranks that are connected with it.
    ranks: BTreeSet<usize>,
    /// Some rank was connected with it.
    met: bool,
    /// When it counts as left, without such ranks.
    leave_at: Option<Instant>,
    /// It is gone, for this reason.
    lost: Option<String>,
    /// It was aborted.
    aborted: Option<(i32, String)>,
}

impl Links {
    /// When to call [`Job::leave_jobs`] next.
    pub fn next_time(&self) -> Option<Instant> {
        self.jobs.values().filter_map(|other| other.leave_at).min()
    }

    /// Whether this job ends because another one was aborted.
    pub fn have_ended_it(&self) -> bool {
        self.ended_by_other
    }
}

impl Job {
    /// A rank is connected with another job from now on, or not any more.
    pub(super) fn connected(&mut self, rank: usize, job: u64, on: bool) {
        if !on && !self.links.jobs.contains_key(&job) {
            return;
        }
        if self.links.jobs.len() >= JOBS_MAX && !self.links.jobs.contains_key(&job) {
            return self.broke_protocol(rank, "it is connected with too many jobs");
        }
        let other = self.links.jobs.entry(job).or_default();
        if !on {
            other.ranks.remove(&rank);
            if other.ranks.is_empty() {
                other.leave_at = Some(Instant::now() + GRACE);
            }
            return;
        }
        other.ranks.insert(rank);
        other.met = true;
        other.leave_at = None;
        let (lost, aborted) = (other.lost.clone(), other.aborted.take());
        if let Some(why) = lost {
            self.tell_lost(rank, job, &why);
        }
        if let Some((code, why)) = aborted {
            self.end_with(code, &why);
        }
        if let Some(parent) = &mut self.parent {
            parent.note_connected();
        }
    }

    /// The rank has finalized: it is connected with nobody.
    pub(super) fn disconnect_rank(&mut self, rank: usize) {
        for other in self.links.jobs.values_mut() {
            if other.ranks.remove(&rank) && other.ranks.is_empty() {
                other.leave_at = Some(Instant::now() + GRACE);
            }
        }
    }

    /// An agent has got a link.
    pub(super) fn linked(&mut self, job: u64) {
        if self.links.jobs.len() < JOBS_MAX {
            self.links.jobs.entry(job).or_default().leave_at = None;
        }
    }

    /// A link has ended without a goodbye.
    pub(super) fn link_lost(&mut self, job: u64, why: &str) {
        let Some(other) = self.links.jobs.get_mut(&job).filter(|other| other.lost.is_none()) else {
            return;
        };
        other.lost = Some(why.to_string());
        for rank in other.ranks.clone() {
            self.tell_lost(rank, job, why);
        }
    }

    fn tell_lost(&mut self, rank: usize, job: u64, why: &str) {
        let why = wire::to_hex(why.as_bytes());
        let line = format!("cmd=weft_lost job={job:016x} why={why}\n");
        self.apply(Effect::Reply { rank, line });
    }

    /// Another job was aborted.
    pub(super) fn link_aborted(&mut self, job: u64, code: i32, why: &str) {
        let Some(other) = self.links.jobs.get_mut(&job) else {
            return;
        };
        if !other.ranks.is_empty() {
            self.end_with(code, why);
        } else if !other.met {
            // Its ranks may be about to say that they are connected.
            other.aborted = Some((code, why.to_string()));
        }
    }

    /// Ends this job because of another one.
    fn end_with(&mut self, code: i32, why: &str) {
        if self.ending != Ending::No {
            return;
        }
        self.links.ended_by_other = true;
        let message = format!("a connected job was aborted ({why}); ending the job");
        self.fail_connected(message, abort_status(code), code);
    }

    /// Ends the job as `MPI_Abort` does: with all that are connected with it.
    pub(super) fn fail_connected(&mut self, message: String, status: u8, code: i32) {
        if self.ending == Ending::No {
            self.abort_connected(code, &message);
        }
        self.fail(message, status);
    }

    /// Tells the jobs that are connected with this one that it is aborted.
    pub(super) fn abort_connected(&mut self, code: i32, why: &str) {
        let connected = self
            .links
            .jobs
            .iter()
            .filter(|(_, other)| !other.ranks.is_empty());
        let jobs: Vec<u64> = connected.map(|(&job, _)| job).collect();
        if !jobs.is_empty() {
            let why = without_end(why).to_string();
            self.send_all(&ToAgent::AbortLinks { jobs, code, why });
        }
    }

    /// Says goodbye to jobs that no rank is connected with any more; `all`: at the end of this job.
    pub(super) fn leave_jobs(&mut self, all: bool) {
        let now = Instant::now();
        let is_left = |other: &Other| {
            other.ranks.is_empty() && (all || other.leave_at.is_some_and(|leave_at| leave_at <= now))
        };
        let left: Vec<u64> = (self.links.jobs.iter())
            .filter(|(_, other)| is_left(other))
            .map(|(&job, _)| job)
            .collect();
        for job in left {
            self.links.jobs.remove(&job);
            self.send_all(&ToAgent::Unlink { job });
        }
    }
}
