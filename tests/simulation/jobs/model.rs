//! Who has come how far, and who is connected with whom.

use std::collections::BTreeSet;

use weft::identity::{PeerIndex, ProcessName};
use weft::lane::sim::Network;
use weft::sim::Rank;

use super::plan::{Plan, Process, Step};

pub struct Model {
    pub plan: Plan,
    /// What each process is called, once it has started.
    pub names: Vec<Option<ProcessName>>,
    /// Its number in the network.
    nodes: Vec<Option<PeerIndex>>,
    /// The step that each is in.
    pub at: Vec<Option<usize>>,
    /// How many steps, its own and others', each has behind it.
    behind: Vec<usize>,
    /// Communicators that some member has.
    made: Vec<bool>,
    /// Those that some member has disconnected, which all have entered then.
    left: Vec<bool>,
    called_finalize: Vec<bool>,
    pub ended: Vec<bool>,
    /// Jobs one of whose processes has died.
    died: BTreeSet<usize>,
}

impl Model {
    pub fn new(plan: Plan) -> Model {
        let processes = plan.processes();
        Model {
            names: vec![None; processes],
            nodes: vec![None; processes],
            at: vec![None; processes],
            behind: vec![0; processes],
            made: vec![false; plan.comms.len()],
            left: vec![false; plan.comms.len()],
            called_finalize: vec![false; processes],
            ended: vec![false; processes],
            died: BTreeSet::new(),
            plan,
        }
    }

    pub fn starts(&mut self, process: Process, rank: &Rank) {
        self.names[process] = Some(rank.instance().job().name());
        self.nodes[process] = Some(rank.node());
    }

    /// Whether a job has come to an end before its time, or will not begin.
    pub fn is_gone(&self, job: usize, network: &Network) -> bool {
        let mut started = self.plan.jobs[job]
            .processes()
            .filter_map(|process| Some((process, self.nodes[process]?)));
        if started
            .clone()
            .any(|(process, node)| network.is_dead(node) && !self.ended[process])
        {
            return true;
        }
        let spawner = self.plan.steps.iter().find_map(|step| match step {
            Step::Spawn {
                comm, root, job: new, ..
            } if *new == job => Some(self.plan.comms[*comm].sides[0][*root]),
            _ => None,
        });
        let spawner = spawner.map(|process| self.plan.job_of(process));
        started.next().is_none() && spawner.is_some_and(|spawner| self.is_gone(spawner, network))
    }

    pub fn enters(&mut self, process: Process, step: usize) {
        self.at[process] = Some(step);
        self.behind[process] = step;
        if let Step::Finalize { .. } = self.plan.steps[step] {
            self.called_finalize[process] = true;
        }
    }

    pub fn has_made(&mut self, comm: usize) {
        self.made[comm] = true;
    }

    pub fn has_left(&mut self, comm: usize) {
        self.left[comm] = true;
    }

    pub fn dies(&mut self, process: Process) {
        let job = self.plan.job_of(process);
        self.died.insert(job);
    }

    pub fn passes(&mut self, process: Process, step: usize) {
        self.at[process] = None;
        self.behind[process] = step + 1;
    }

    /// Whether these processes have done a step, as far as it is theirs.
    fn have_done(&self, step: usize, of: impl Fn(Process) -> bool) -> bool {
        (0..self.plan.processes())
            .filter(|&process| of(process) && self.plan.takes_part(&self.plan.steps[step], process))
            .all(|process| self.behind[process] > step)
    }

    /// Whether the end of a process at this step concerns the connected jobs and nobody else: all have parted from others that were to do so,
    /// those that were to die before have done so, and before an abort all have met that were to do so.
    pub fn may_end(&self, at: usize) -> bool {
        let (jobs, meets) = match &self.plan.steps[at] {
            Step::Abort { jobs, .. } => (jobs, true),
            Step::Fall { jobs, .. } => (jobs, false),
            _ => return true,
        };
        let is_inside = |process: Process| jobs.contains(&self.plan.job_of(process));
        (0..at).all(|before| {
            let concerns = match &self.plan.steps[before] {
                Step::Spawn { .. } | Step::Meet { .. } | Step::Bridge { .. } => meets,
                Step::Die { job, .. } | Step::Fall { job, .. } => return self.died.contains(job),
                Step::Disconnect { comm, .. } => meets || !self.plan.comms[*comm].members().all(is_inside),
                _ => false,
            };
            !concerns || self.have_done(before, is_inside)
        })
    }

    /// Whether all that a job has to do with others in the steps before is over for all.
    pub fn may_die(&self, at: usize, job: usize, network: &Network) -> bool {
        (0..at).all(|before| {
            let step = &self.plan.steps[before];
            let concerns =
                (self.plan.jobs[job].processes()).any(|process| self.plan.takes_part(step, process));
            !concerns
                || self.have_done(before, |process| {
                    !self.is_gone(self.plan.job_of(process), network)
                })
        })
    }

    /// The jobs that are connected with one.
    fn connected_with(&self, job: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::from([job]);
        loop {
            let before = reached.len();
            for (number, comm) in self.plan.comms.iter().enumerate() {
                let jobs: BTreeSet<usize> = (comm.members())
                    .map(|process| self.plan.job_of(process))
                    .filter(|job| !self.died.contains(job))
                    .collect();
                if self.made[number] && !self.left[number] && !jobs.is_disjoint(&reached) {
                    reached.extend(jobs);
                }
            }
            if reached.len() == before {
                return reached;
            }
        }
    }

    /// A process has finalized: all that are connected with it have called that.
    pub fn finalized(&self, process: Process) {
        let job = self.plan.job_of(process);
        if self.plan.shaky.contains(&job) {
            return;
        }
        for job in self.connected_with(job) {
            for other in self.plan.jobs[job].processes() {
                assert!(
                    self.called_finalize[other],
                    "process {process} has finalized before {other}, of job {job}, has called that"
                );
            }
        }
    }

    pub fn have_ended(&self, jobs: &[usize]) -> bool {
        let mut processes = jobs.iter().flat_map(|&job| self.plan.jobs[job].processes());
        processes.all(|process| self.ended[process])
    }

    /// At the end of the run.
    pub fn check(&self) {
        for (process, &ended) in self.ended.iter().enumerate() {
            let job = self.plan.job_of(process);
            let doomed = self.plan.doomed.contains(&job);
            assert!(
                ended != doomed || self.plan.shaky.contains(&job),
                "process {process}"
            );
        }
    }

    /// The script, and where everybody is.
    pub fn report(&self) -> String {
        let mut text = String::new();
        for (number, job) in self.plan.jobs.iter().enumerate() {
            let processes: Vec<Process> = job.processes().collect();
            text += &format!("job {number}: processes {processes:?}\n");
        }
        for (number, comm) in self.plan.comms.iter().enumerate() {
            text += &format!("communicator {number}: {:?}\n", comm.sides);
        }
        for (number, step) in self.plan.steps.iter().enumerate() {
            let here: Vec<Process> = (0..self.at.len())
                .filter(|&process| self.at[process] == Some(number))
                .collect();
            text += &format!("{number}: {step:?}");
            if !here.is_empty() {
                text += &format!(" <- processes {here:?}");
            }
            text += "\n";
        }
        for (process, name) in self.names.iter().enumerate() {
            if let (Some(name), false) = (name, self.ended[process]) {
                text += &format!("process {process}: rank {} of job {:#x}\n", name.rank, name.job.0);
            }
        }
        text
    }
}
