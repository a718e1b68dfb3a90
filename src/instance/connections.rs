//! With which processes of other jobs this one is connected (MPI 5.0 section 11.10.4): those of the communicators, windows and files that were
//! not disconnected. When the last of them goes, so does what is kept about such a process: its lane, its card, its numbers.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::Instance;
use crate::identity::{Context, JobId, PeerIndex};

/// See the module. Empty in a process that has met no other job.
#[derive(Default)]
pub struct Connections(Mutex<State>);

#[derive(Default)]
struct State {
    /// The processes of other jobs in each communicator that has any.
    by_context: FxHashMap<Context, Arc<[PeerIndex]>>,
    /// In how many of these each of them is.
    processes: FxHashMap<PeerIndex, u32>,
    /// How many such processes there are of each job.
    jobs: FxHashMap<JobId, u32>,
    /// The jobs that are gone, with the reason.
    lost: FxHashMap<JobId, String>,
}

/// What a change of [`Connections`] means.
#[derive(Default, PartialEq, Eq, Debug)]
struct Change {
    /// Processes that are connected for the first time, or no longer.
    processes: Vec<PeerIndex>,
    /// The same for jobs.
    jobs: Vec<JobId>,
}

impl State {
    fn add(
        &mut self,
        context: Context,
        foreign: Arc<[PeerIndex]>,
        job_of: impl Fn(PeerIndex) -> JobId,
    ) -> Change {
        let mut change = Change::default();
        if self.by_context.contains_key(&context) {
            return change;
        }
        for &process in foreign.iter() {
            let count = self.processes.entry(process).or_default();
            *count += 1;
            if *count == 1 {
                change.processes.push(process);
                let of_job = self.jobs.entry(job_of(process)).or_default();
                *of_job += 1;
                if *of_job == 1 {
                    change.jobs.push(job_of(process));
                }
            }
        }
        self.by_context.insert(context, foreign);
        change
    }

    fn remove(&mut self, context: Context, job_of: impl Fn(PeerIndex) -> JobId) -> Change {
        let mut change = Change::default();
        let Some(foreign) = self.by_context.remove(&context) else {
            return change;
        };
        for &process in foreign.iter() {
            let count = self.processes.get_mut(&process).expect("it was counted");
            *count -= 1;
            if *count == 0 {
                self.processes.remove(&process);
                change.processes.push(process);
                let job = job_of(process);
                let of_job = self.jobs.get_mut(&job).expect("it was counted");
                *of_job -= 1;
                if *of_job == 0 {
                    self.jobs.remove(&job);
                    self.lost.remove(&job);
                    change.jobs.push(job);
                }
            }
        }
        change
    }
}

impl Instance {
    /// Whether a process is of this one's job.
    #[inline]
    pub fn is_of_this_job(&self, process: PeerIndex) -> bool {
        process.rank_in(self.job.size).is_some()
    }

    /// The job of a process.
    pub fn job_of(&self, process: PeerIndex) -> JobId {
        self.directory.name(process).job
    }

    /// A communicator of these processes exists from now on: those of other jobs are connected with this one. (Both groups of an
    /// intercommunicator.)
    pub fn connect_by(&self, context: Context, members: impl Iterator<Item = PeerIndex>) {
        if !self.directory.has_others() {
            return;
        }
        let foreign: Arc<[PeerIndex]> = members.filter(|&process| !self.is_of_this_job(process)).collect();
        if foreign.is_empty() {
            return;
        }
        let mut state = self.connections.0.lock();
        let change = state.add(context, foreign, |process| self.job_of(process));
        let lost: Vec<(PeerIndex, String)> = (change.processes.iter())
            .filter_map(|&process| Some((process, state.lost.get(&self.job_of(process))?.clone())))
            .collect();
        drop(state);
        let mut engine = self.engine();
        for &process in &change.processes {
            engine.meet(process);
        }
        for (process, why) in lost {
            engine.lose(process, super::gone(&why));
        }
        drop(engine);
        for job in change.jobs {
            self.bootstrap().connected(job, true);
        }
    }

    /// The communicator of a context was disconnected.
    pub fn disconnect_by(&self, context: Context) {
        let change = self
            .connections
            .0
            .lock()
            .remove(context, |process| self.job_of(process));
        if change.processes.is_empty() {
            return;
        }
        let mut engine = self.engine();
        let mut kept = self.kept.lock();
        for &process in &change.processes {
            kept.remove(&process);
            engine.part(process);
        }
        drop((engine, kept));
        for job in change.jobs {
            self.bootstrap().connected(job, false);
        }
    }

    /// The communicators of the World Model are gone, those with jobs that are gone among them.
    pub fn disconnect_worlds(&self) {
        let contexts: Vec<Context> = self.connections.0.lock().by_context.keys().copied().collect();
        for context in contexts.into_iter().filter(|&context| self.is_worlds(context)) {
            self.disconnect_by(context);
        }
    }

    /// The contexts of the communicators with processes of other jobs for which `of` holds, each with these processes, in ascending order of
    /// contexts. Without those of jobs that are gone.
    pub fn connections(&self, of: impl Fn(Context) -> bool) -> Vec<(Context, Arc<[PeerIndex]>)> {
        let state = self.connections.0.lock();
        let mut all: Vec<_> = (state.by_context.iter())
            .filter(|(context, _)| of(**context))
            .map(|(&context, foreign)| {
                let lives = |process: &PeerIndex| !state.lost.contains_key(&self.job_of(*process));
                (
                    context,
                    foreign.iter().copied().filter(lives).collect::<Arc<[_]>>(),
                )
            })
            .filter(|(_, foreign)| !foreign.is_empty())
            .collect();
        all.sort_unstable_by_key(|(context, _)| *context);
        all
    }

    /// The jobs with which this process is connected.
    pub fn connected_jobs(&self) -> Vec<JobId> {
        self.connections.0.lock().jobs.keys().copied().collect()
    }

    /// A job is gone: all that waits for its processes fails, if this process is connected with any.
    pub(super) fn lose_job(&self, job: JobId, why: &str) {
        let mut state = self.connections.0.lock();
        state.lost.insert(job, why.to_string());
        let its: Vec<PeerIndex> = (state.processes.keys().copied())
            .filter(|&process| self.job_of(process) == job)
            .collect();
        drop(state);
        let mut engine = self.engine();
        for process in its {
            engine.lose(process, super::gone(why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: JobId = JobId(1);
    const B: JobId = JobId(2);

    fn job_of(process: PeerIndex) -> JobId {
        match process.number() < 10 {
            true => A,
            false => B,
        }
    }

    fn context(number: u64) -> Context {
        Context::of_bits(number << 1)
    }

    fn processes(numbers: &[u32]) -> Arc<[PeerIndex]> {
        numbers.iter().map(|&number| PeerIndex::new(number)).collect()
    }

    #[test]
    fn the_last_communicator_parts() {
        let mut state = State::default();
        let first = state.add(context(20), processes(&[5, 6, 11]), job_of);
        assert_eq!(first.processes, *processes(&[5, 6, 11]));
        assert_eq!(first.jobs, [A, B]);
        // Once for each communicator.
        assert_eq!(
            state.add(context(20), processes(&[5, 6, 11]), job_of),
            Change::default()
        );
        let second = state.add(context(21), processes(&[6, 7]), job_of);
        assert_eq!(
            (second.processes, second.jobs),
            (processes(&[7]).to_vec(), vec![])
        );
        let parted = state.remove(context(20), job_of);
        assert_eq!(
            (parted.processes, parted.jobs),
            (processes(&[5, 11]).to_vec(), vec![B])
        );
        assert_eq!(state.remove(context(20), job_of), Change::default());
        let parted = state.remove(context(21), job_of);
        assert_eq!(
            (parted.processes, parted.jobs),
            (processes(&[6, 7]).to_vec(), vec![A])
        );
        assert!(state.processes.is_empty() && state.jobs.is_empty() && state.by_context.is_empty());
    }
}
