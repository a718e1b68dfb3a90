//! A random script: which steps jobs and their processes take. Each process takes those that it is a part of, in this order, and nothing
//! else holds it up; so nobody waits in a circle.

use std::collections::BTreeSet;

use fastrand::Rng;
use weft::sim::skewed;

/// A process, by its number among those of all jobs of the script.
pub type Process = usize;

#[derive(Clone, Debug)]
pub struct Job {
    pub first: Process,
    pub size: usize,
}

impl Job {
    pub fn processes(&self) -> std::ops::Range<Process> {
        self.first..self.first + self.size
    }
}

/// A communicator: its group, or both of an intercommunicator.
#[derive(Clone, Debug)]
pub struct Comm {
    pub sides: [Vec<Process>; 2],
}

impl Comm {
    pub fn is_inter(&self) -> bool {
        !self.sides[1].is_empty()
    }

    pub fn members(&self) -> impl Iterator<Item = Process> {
        self.sides.iter().flatten().copied()
    }

    /// Side and rank of a process.
    pub fn place(&self, process: Process) -> Option<(usize, usize)> {
        (0..2).find_map(|side| {
            let rank = self.sides[side].iter().position(|&member| member == process)?;
            Some((side, rank))
        })
    }

    /// Those to which a process sends by rank.
    pub fn peers(&self, process: Process) -> &[Process] {
        let (side, _) = self.place(process).expect("a member");
        &self.sides[if self.is_inter() { 1 - side } else { side }]
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub from: Process,
    pub to: Process,
    pub bytes: usize,
    pub sync: bool,
}

/// Communicators are named by their number.
#[derive(Clone, Debug)]
pub enum Step {
    Spawn {
        comm: usize,
        root: usize,
        job: usize,
        new: usize,
    },
    /// The first accepts.
    Meet {
        comms: [usize; 2],
        roots: [usize; 2],
        new: usize,
    },
    Dup {
        comm: usize,
        new: usize,
    },
    /// The color of each member and what becomes of each color.
    Split {
        comm: usize,
        colors: Vec<(Process, i32)>,
        new: [Option<usize>; 2],
    },
    /// `low`: the side that comes first.
    Merge {
        comm: usize,
        low: usize,
        new: usize,
    },
    /// An intercommunicator of two whose leaders are both in a third.
    Bridge {
        comms: [usize; 2],
        leaders: [Process; 2],
        over: usize,
        new: usize,
    },
    Talk {
        comm: usize,
        messages: Vec<Message>,
        gathers: bool,
    },
    /// And which processes are strangers to each other afterwards.
    Disconnect {
        comm: usize,
        strangers: Vec<(Process, Process)>,
    },
    Free {
        comm: usize,
    },
    /// All jobs that are connected.
    Finalize {
        jobs: Vec<usize>,
    },
    /// Some jobs go on only when others have ended.
    Wait {
        jobs: Vec<usize>,
        ended: Vec<usize>,
    },
    /// A process aborts, which ends these jobs.
    Abort {
        process: Process,
        jobs: Vec<usize>,
    },
    /// A process dies, which ends its job. The others wait for one of its processes: who, on which communicator, for whom.
    Die {
        process: Process,
        job: usize,
        witnesses: Vec<(Process, usize, Process)>,
    },
    /// A process aborts or dies in the midst of what it has to do with others: the jobs that are connected with it, and its own.
    Fall {
        process: Process,
        job: usize,
        jobs: Vec<usize>,
        aborts: bool,
    },
}

#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub jobs: Vec<Job>,
    /// How many of them are there at the start.
    pub at_start: usize,
    pub comms: Vec<Comm>,
    pub steps: Vec<Step>,
    /// Jobs that end early.
    pub doomed: BTreeSet<usize>,
    /// Those that may do so, when an operation fails.
    pub shaky: BTreeSet<usize>,
}

impl Plan {
    pub fn job_of(&self, process: Process) -> usize {
        self.jobs.partition_point(|job| job.first <= process) - 1
    }

    pub fn processes(&self) -> usize {
        self.jobs.last().map_or(0, |job| job.first + job.size)
    }

    fn processes_of(&self, jobs: &[usize]) -> Vec<Process> {
        jobs.iter().flat_map(|&job| self.jobs[job].processes()).collect()
    }

    /// The processes that take a part in a step.
    pub fn takes_part(&self, step: &Step, process: Process) -> bool {
        let among = |comm: usize| self.comms[comm].place(process).is_some();
        let of = |jobs: &[usize]| jobs.contains(&self.job_of(process));
        match step {
            Step::Spawn { new, .. } => among(*new),
            Step::Meet { new, .. } | Step::Bridge { new, .. } => among(*new),
            Step::Dup { comm, .. }
            | Step::Split { comm, .. }
            | Step::Merge { comm, .. }
            | Step::Talk { comm, .. }
            | Step::Disconnect { comm, .. }
            | Step::Free { comm } => among(*comm),
            Step::Finalize { jobs } | Step::Wait { jobs, .. } | Step::Abort { jobs, .. } => of(jobs),
            Step::Fall { job, .. } => of(&[*job]),
            Step::Die { job, witnesses, .. } => {
                of(&[*job]) || witnesses.iter().any(|&(witness, ..)| witness == process)
            }
        }
    }
}

/// What is so after the steps so far.
struct Making {
    plan: Plan,
    /// Jobs that have not ended.
    alive: Vec<bool>,
    /// Communicators that can be used.
    usable: Vec<bool>,
    /// Those by which processes are connected: also freed ones, and those with processes that have died.
    connects: Vec<bool>,
    /// Jobs that have met at a port.
    links: BTreeSet<(usize, usize)>,
    quiet: bool,
}

const JOBS_MAX: usize = 5;
const COMMS_MAX: usize = 10;

impl Plan {
    /// `quiet`: no lane notices that a process of another job is gone, so that those who have not met at a port don't learn of it.
    pub fn random(seed: u64, quiet: bool) -> Plan {
        let rng = &mut Rng::with_seed(seed ^ 0x6a6f_6273);
        let mut making = Making {
            plan: Plan::default(),
            alive: Vec::new(),
            usable: Vec::new(),
            connects: Vec::new(),
            links: BTreeSet::new(),
            quiet,
        };
        for _ in 0..rng.usize(1..=3) {
            making.add_job(rng.usize(1..=3));
        }
        making.plan.at_start = making.plan.jobs.len();
        let violent = rng.u32(..2) == 0;
        for _ in 0..rng.usize(4..24) {
            making.draw(rng, violent);
        }
        for job in 0..making.plan.jobs.len() {
            if making.alive[job] {
                making.finalize(rng, job);
            }
        }
        making.plan
    }
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> Option<T> {
    (!from.is_empty()).then(|| from[rng.usize(..from.len())])
}

impl Making {
    fn add_job(&mut self, size: usize) -> usize {
        let first = self.plan.processes();
        self.plan.jobs.push(Job { first, size });
        self.alive.push(true);
        let world = (first..first + size).collect();
        self.add_comm([world, Vec::new()]);
        self.plan.jobs.len() - 1
    }

    fn add_comm(&mut self, sides: [Vec<Process>; 2]) -> usize {
        self.plan.comms.push(Comm { sides });
        self.usable.push(true);
        self.connects.push(true);
        self.plan.comms.len() - 1
    }

    fn comm(&self, comm: usize) -> &Comm {
        &self.plan.comms[comm]
    }

    fn jobs_in(&self, comm: usize) -> BTreeSet<usize> {
        let members = self.comm(comm).members();
        members.map(|process| self.plan.job_of(process)).collect()
    }

    fn is_world(&self, comm: usize) -> bool {
        let comm = self.comm(comm);
        let first = comm.sides[0][0];
        let job = &self.plan.jobs[self.plan.job_of(first)];
        // The first communicator of these members is.
        let is_first = |other: &&Comm| other.sides == comm.sides;
        job.first == first
            && comm.sides[0].iter().copied().eq(job.processes())
            && !comm.is_inter()
            && self
                .plan
                .comms
                .iter()
                .find(is_first)
                .is_some_and(|found| std::ptr::eq(found, comm))
    }

    fn usable(&self, of: impl Fn(&Comm) -> bool) -> Vec<usize> {
        (0..self.plan.comms.len())
            .filter(|&comm| self.usable[comm] && of(self.comm(comm)))
            .collect()
    }

    fn can_add_comm(&self) -> bool {
        self.usable.iter().filter(|usable| **usable).count() < COMMS_MAX + self.plan.jobs.len()
    }

    /// The jobs that are connected with one, by these pairs.
    fn reached(&self, job: usize, are_paired: impl Fn(usize, usize) -> bool) -> BTreeSet<usize> {
        let mut reached = BTreeSet::from([job]);
        loop {
            let more = (0..self.plan.jobs.len())
                .filter(|&other| self.alive[other] && !reached.contains(&other))
                .find(|&other| reached.iter().any(|&known| are_paired(known, other)));
            match more {
                Some(more) => reached.insert(more),
                None => return reached,
            };
        }
    }

    fn are_connected(&self, one: usize, other: usize) -> bool {
        (0..self.plan.comms.len()).any(|comm| {
            let jobs = self.jobs_in(comm);
            self.connects[comm] && jobs.contains(&one) && jobs.contains(&other)
        })
    }

    fn connected_with(&self, job: usize) -> BTreeSet<usize> {
        self.reached(job, |one, other| self.are_connected(one, other))
    }

    fn linked_with(&self, job: usize) -> BTreeSet<usize> {
        self.reached(job, |one, other| {
            self.links.contains(&(one.min(other), one.max(other)))
        })
    }

    fn link(&mut self, one: Process, other: Process) {
        let (one, other) = (self.plan.job_of(one), self.plan.job_of(other));
        if one != other {
            self.links.insert((one.min(other), one.max(other)));
        }
    }

    fn drop_links(&mut self) {
        let links = std::mem::take(&mut self.links);
        self.links = (links.into_iter())
            .filter(|&(one, other)| self.alive[one] && self.alive[other] && self.are_connected(one, other))
            .collect();
    }

    fn push(&mut self, step: Step) {
        self.plan.steps.push(step);
    }

    fn are_apart(&self, one: usize, other: usize) -> bool {
        self.comm(one)
            .members()
            .all(|process| self.comm(other).place(process).is_none())
    }

    fn draw(&mut self, rng: &mut Rng, violent: bool) {
        // What can't be done now is not done.
        let _ = match rng.u32(..if violent { 37 } else { 32 }) {
            0..3 => self.spawn(rng),
            3..8 => self.meet(rng),
            8..10 => self.dup(rng),
            10..13 => self.split(rng),
            13..16 => self.merge(rng),
            16..19 => self.bridge(rng),
            19..24 => self.talk(rng),
            24..29 => self.disconnect(rng),
            29 => self.free(rng),
            30..32 => self.some_finalize(rng),
            32..34 => self.abort(rng),
            34..36 => self.fall(rng),
            _ => self.die(rng),
        };
    }

    fn spawn(&mut self, rng: &mut Rng) -> Option<()> {
        let comm = pick(rng, &self.usable(|comm| !comm.is_inter()))?;
        if self.plan.jobs.len() == JOBS_MAX {
            return None;
        }
        let job = self.add_job(rng.usize(1..=3));
        let group = self.comm(comm).sides[0].clone();
        let root = rng.usize(..group.len());
        self.link(group[root], self.plan.jobs[job].first);
        let new = self.add_comm([group, self.plan.jobs[job].processes().collect()]);
        self.push(Step::Spawn { comm, root, job, new });
        Some(())
    }

    fn meet(&mut self, rng: &mut Rng) -> Option<()> {
        let intra = self.usable(|comm| !comm.is_inter());
        let one = pick(rng, &intra)?;
        let others: Vec<usize> = intra
            .into_iter()
            .filter(|&other| self.are_apart(one, other))
            .collect();
        let other = pick(rng, &others)?;
        if !self.can_add_comm() {
            return None;
        }
        let sides = [one, other].map(|comm| self.comm(comm).sides[0].clone());
        let roots = [0, 1].map(|side| rng.usize(..sides[side].len()));
        self.link(sides[0][roots[0]], sides[1][roots[1]]);
        let new = self.add_comm(sides);
        self.push(Step::Meet {
            comms: [one, other],
            roots,
            new,
        });
        Some(())
    }

    fn dup(&mut self, rng: &mut Rng) -> Option<()> {
        let comm = pick(rng, &self.usable(|_| true))?;
        if !self.can_add_comm() {
            return None;
        }
        let new = self.add_comm(self.comm(comm).sides.clone());
        self.push(Step::Dup { comm, new });
        Some(())
    }

    fn split(&mut self, rng: &mut Rng) -> Option<()> {
        let comm = pick(rng, &self.usable(|comm| comm.members().count() > 1))?;
        if !self.can_add_comm() {
            return None;
        }
        let colors: Vec<(Process, i32)> = (self.comm(comm).members())
            .map(|process| (process, rng.i32(-1..2)))
            .collect();
        let new = [0, 1].map(|color| {
            let chosen: Vec<Process> = (colors.iter())
                .filter(|(_, own)| *own == color)
                .map(|(process, _)| *process)
                .collect();
            let parent = self.comm(comm).clone();
            let sides = parent.sides.clone().map(|side| {
                side.into_iter()
                    .filter(|process| chosen.contains(process))
                    .collect::<Vec<_>>()
            });
            let is_there = !sides[0].is_empty() && (!parent.is_inter() || !sides[1].is_empty());
            is_there.then(|| self.add_comm(sides))
        });
        self.push(Step::Split { comm, colors, new });
        Some(())
    }

    fn merge(&mut self, rng: &mut Rng) -> Option<()> {
        let comm = pick(rng, &self.usable(Comm::is_inter))?;
        if !self.can_add_comm() {
            return None;
        }
        let low = rng.usize(..2);
        let sides = &self.comm(comm).sides;
        let group = [&sides[low][..], &sides[1 - low]].concat();
        let new = self.add_comm([group, Vec::new()]);
        self.push(Step::Merge { comm, low, new });
        Some(())
    }

    fn bridge(&mut self, rng: &mut Rng) -> Option<()> {
        let intra = self.usable(|comm| !comm.is_inter());
        let meet = |one: usize, other: usize| {
            let other = self.comm(other);
            self.comm(one)
                .members()
                .any(|process| other.place(process).is_some())
        };
        let mut can = Vec::new();
        for &over in &intra {
            let with_leader: Vec<usize> = (intra.iter().copied()).filter(|&comm| meet(comm, over)).collect();
            for &one in &with_leader {
                let others = with_leader.iter().filter(|&&other| self.are_apart(one, other));
                can.extend(others.map(|&other| (over, one, other)));
            }
        }
        let (over, one, other) = pick(rng, &can)?;
        if !self.can_add_comm() {
            return None;
        }
        let comms = [one, other];
        let leaders = comms.map(|comm| {
            let can: Vec<Process> = (self.comm(comm).members())
                .filter(|&process| self.comm(over).place(process).is_some())
                .collect();
            can[rng.usize(..can.len())]
        });
        let new = self.add_comm(comms.map(|comm| self.comm(comm).sides[0].clone()));
        self.push(Step::Bridge {
            comms,
            leaders,
            over,
            new,
        });
        Some(())
    }

    fn talk(&mut self, rng: &mut Rng) -> Option<()> {
        let number = pick(rng, &self.usable(|_| true))?;
        let comm = self.comm(number);
        let members: Vec<Process> = comm.members().collect();
        let messages = (0..rng.usize(..8)).map(|_| {
            let from = members[rng.usize(..members.len())];
            let peers = comm.peers(from);
            Message {
                from,
                to: peers[rng.usize(..peers.len())],
                bytes: skewed(rng, 13) as usize,
                sync: rng.bool(),
            }
        });
        let messages = messages.collect();
        let gathers = !comm.is_inter() && rng.bool();
        self.push(Step::Talk {
            comm: number,
            messages,
            gathers,
        });
        Some(())
    }

    fn disconnect(&mut self, rng: &mut Rng) -> Option<()> {
        let mut can = self.usable(|_| true);
        can.retain(|&comm| !self.is_world(comm));
        let comm = pick(rng, &can)?;
        self.usable[comm] = false;
        self.connects[comm] = false;
        let strangers = self.strangers(comm);
        self.push(Step::Disconnect { comm, strangers });
        self.drop_links();
        Some(())
    }

    /// The processes of a communicator that nothing connects directly.
    fn strangers(&self, comm: usize) -> Vec<(Process, Process)> {
        let members: Vec<Process> = self.comm(comm).members().collect();
        let share = |one: Process, other: Process| {
            (0..self.plan.comms.len()).any(|comm| {
                let comm_of = self.comm(comm);
                self.connects[comm] && comm_of.place(one).is_some() && comm_of.place(other).is_some()
            })
        };
        let mut strangers = Vec::new();
        for &one in &members {
            for &other in &members {
                let several = self.plan.job_of(one) != self.plan.job_of(other);
                if several && !share(one, other) {
                    strangers.push((one, other));
                }
            }
        }
        strangers
    }

    fn free(&mut self, rng: &mut Rng) -> Option<()> {
        let mut can = self.usable(|_| true);
        can.retain(|&comm| !self.is_world(comm));
        let comm = pick(rng, &can)?;
        self.usable[comm] = false;
        self.push(Step::Free { comm });
        Some(())
    }

    fn any_alive(&self, rng: &mut Rng) -> Option<usize> {
        let alive: Vec<usize> = (0..self.plan.jobs.len()).filter(|&job| self.alive[job]).collect();
        pick(rng, &alive)
    }

    fn some_finalize(&mut self, rng: &mut Rng) -> Option<()> {
        let job = self.any_alive(rng)?;
        // Not too early, or little happens.
        if self.plan.steps.len() < 4
            || self.connected_with(job).len() == self.alive.iter().filter(|alive| **alive).count()
        {
            return None;
        }
        self.finalize(rng, job);
        Some(())
    }

    fn finalize(&mut self, rng: &mut Rng, job: usize) {
        let jobs: Vec<usize> = self.connected_with(job).into_iter().collect();
        self.push(Step::Finalize { jobs: jobs.clone() });
        self.ended(&jobs);
        let others: Vec<usize> = (0..self.plan.jobs.len())
            .filter(|&other| self.alive[other] && rng.bool())
            .collect();
        if !others.is_empty() && rng.bool() {
            self.push(Step::Wait {
                jobs: others,
                ended: jobs,
            });
        }
    }

    /// Jobs have ended, together with all that are connected with them, or not.
    fn ended(&mut self, jobs: &[usize]) {
        for &job in jobs {
            self.alive[job] = false;
        }
        for process in self.plan.processes_of(jobs) {
            for comm in 0..self.plan.comms.len() {
                if self.comm(comm).place(process).is_some() {
                    self.usable[comm] = false;
                }
            }
        }
        self.drop_links();
    }

    fn abort(&mut self, rng: &mut Rng) -> Option<()> {
        let job = self.any_alive(rng)?;
        let connected = self.connected_with(job);
        if !self.can_tell(&connected) {
            return None;
        }
        // Those that have met only through others don't hear of each other's abort.
        if connected != self.linked_with(job) {
            return None;
        }
        let process = self.plan.jobs[job].first + rng.usize(..self.plan.jobs[job].size);
        let jobs: Vec<usize> = connected.into_iter().collect();
        self.plan.doomed.extend(&jobs);
        self.push(Step::Abort {
            process,
            jobs: jobs.clone(),
        });
        self.ended(&jobs);
        Some(())
    }

    /// Whether all of these jobs learn of each other's end.
    fn can_tell(&self, jobs: &BTreeSet<usize>) -> bool {
        let mut pairs = jobs
            .iter()
            .flat_map(|&one| jobs.iter().map(move |&other| (one, other)));
        !self.quiet
            || pairs.all(|(one, other)| {
                one >= other || !self.are_connected(one, other) || self.links.contains(&(one, other))
            })
    }

    fn fall(&mut self, rng: &mut Rng) -> Option<()> {
        let job = self.any_alive(rng)?;
        let connected = self.connected_with(job);
        if !self.can_tell(&connected) {
            return None;
        }
        let process = self.plan.jobs[job].first + rng.usize(..self.plan.jobs[job].size);
        self.plan.doomed.insert(job);
        let aborts = rng.bool();
        let mut jobs: Vec<usize> = connected.into_iter().collect();
        self.push(Step::Fall {
            process,
            job,
            jobs: jobs.clone(),
            aborts,
        });
        jobs.retain(|&other| other != job);
        self.plan.shaky.extend(&jobs);
        if !jobs.is_empty() {
            self.push(Step::Finalize { jobs: jobs.clone() });
        }
        self.ended(&jobs);
        self.ended(&[job]);
        Some(())
    }

    fn die(&mut self, rng: &mut Rng) -> Option<()> {
        let job = self.any_alive(rng)?;
        if !self.can_tell(&self.connected_with(job)) {
            return None;
        }
        let process = self.plan.jobs[job].first + rng.usize(..self.plan.jobs[job].size);
        let mut witnesses = Vec::new();
        for witness in 0..self.plan.processes() {
            let of = self.plan.job_of(witness);
            if !self.alive[of] || of == job {
                continue;
            }
            let can: Vec<(usize, Process)> = self
                .usable(|comm| comm.place(witness).is_some())
                .into_iter()
                .flat_map(|comm| {
                    let peers = self.comm(comm).peers(witness).iter();
                    peers.map(move |&peer| (comm, peer))
                })
                .filter(|&(_, peer)| self.plan.job_of(peer) == job)
                .collect();
            if let Some((comm, peer)) = pick(rng, &can) {
                witnesses.push((witness, comm, peer));
            }
        }
        self.plan.doomed.insert(job);
        self.push(Step::Die {
            process,
            job,
            witnesses,
        });
        self.ended(&[job]);
        Some(())
    }
}
