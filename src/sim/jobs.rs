//! The jobs of a run, as their launchers know them: which there are, which are linked, and how they end. A launcher that has started several
//! jobs, and launchers that know each other only by links, are the same here.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::bootstrap::{Cards, Fences};
use crate::identity::{JobId, PeerIndex};
use crate::lane::sim::Network;
use crate::system::bootstrap::{Notice, Spawn, Spawned};

/// See the module.
#[derive(Clone)]
pub(super) struct Jobs {
    network: Network,
    /// The longest time that a launcher takes to do something.
    answer_ns_max: u64,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    jobs: Vec<Job>,
    /// What is to happen, by time and number.
    coming: BTreeMap<(u64, u64), Coming>,
    events: u64,
    /// The ports of services.
    names: BTreeMap<String, String>,
    /// Spawns under way, by their numbers: when the answer comes, and which.
    spawns: Vec<Option<(u64, Spawned)>>,
}

struct Job {
    about: About,
    /// What each rank is told, and when.
    told: Vec<VecDeque<(u64, Notice)>>,
    /// The ranks that are connected with other jobs.
    connected: BTreeMap<JobId, BTreeSet<u32>>,
    /// The jobs that it has a link to.
    links: BTreeSet<JobId>,
    /// Jobs that are gone.
    lost: FxHashMap<JobId, String>,
    /// The node and the number of the spawn that has made it, as long as it is not connected.
    spawned_by: Option<(PeerIndex, u32)>,
    /// The launcher ends it, or has ended it.
    over: bool,
    /// Whether its ranks are told of the abort of another job, and end it themselves.
    ends_itself: bool,
}

/// What the processes of a job are told at the start.
#[derive(Clone)]
pub(super) struct About {
    pub id: String,
    /// The number of its first process in the network.
    pub first: u32,
    pub size: u32,
    /// The program, as the spawn named it. Empty for the jobs that are there at the start.
    pub program: String,
    pub parent: Option<String>,
    pub cards: Cards,
    pub fences: Fences,
}

enum Coming {
    Start(PeerIndex),
    End(PeerIndex),
    /// A launcher hears of the end of another job.
    Hears {
        job: JobId,
        of: JobId,
        end: End,
    },
}

/// How a job has ended.
#[derive(Clone)]
enum End {
    Aborted(i32),
    Lost,
}

/// What is to be done now with processes, by their numbers in the network.
#[derive(Default)]
pub(super) struct Due {
    pub starts: Vec<PeerIndex>,
    pub ends: Vec<PeerIndex>,
}

impl Jobs {
    pub fn new(network: &Network, answer_ns_max: u64) -> Jobs {
        Jobs {
            network: network.clone(),
            answer_ns_max,
            state: Arc::default(),
        }
    }

    /// A job whose processes are in the network from `first` on.
    pub fn add(&self, first: PeerIndex, size: u32, program: &str, parent: Option<String>) -> About {
        let state = &mut *self.state.lock();
        let ends_itself = !state.jobs.is_empty() && self.network.random(2) == 0;
        let id = match state.jobs.len() {
            0 => "sim".into(),
            number => format!("sim-{number}"),
        };
        let about = About {
            id,
            first: first.number(),
            size,
            program: program.into(),
            parent,
            cards: Cards::default(),
            fences: Fences::new(first, size),
        };
        state.jobs.push(Job {
            about: about.clone(),
            told: (0..size).map(|_| VecDeque::new()).collect(),
            connected: BTreeMap::new(),
            links: BTreeSet::new(),
            lost: FxHashMap::default(),
            spawned_by: None,
            over: false,
            ends_itself,
        });
        about
    }

    /// The job of a process, and its rank there.
    pub fn of(&self, node: PeerIndex) -> (About, u32) {
        let state = self.state.lock();
        let job = &state.jobs[state.place_of(node)];
        (job.about.clone(), node.number() - job.about.first)
    }

    fn later(&self) -> u64 {
        self.network.now_ns() + 1 + self.network.random(self.answer_ns_max + 1)
    }

    fn plan(&self, state: &mut State, what: Coming) {
        let due_ns = self.later();
        state.coming.insert((due_ns, state.events), what);
        state.events += 1;
        self.network.alarm_at(due_ns);
    }

    /// What has become due.
    pub fn due(&self) -> Due {
        let mut due = Due::default();
        let state = &mut *self.state.lock();
        while let Some(entry) = state.coming.first_entry()
            && entry.key().0 <= self.network.now_ns()
        {
            match entry.remove() {
                Coming::Start(node) => due.starts.push(node),
                Coming::End(node) => due.ends.push(node),
                Coming::Hears { job, of, end } => self.hears(state, job, of, end),
            }
        }
        due
    }

    /// A job is made of the first command of a spawn.
    pub fn spawn(&self, spawner: PeerIndex, spawn: &Spawn) -> u32 {
        let size = spawn.commands.iter().map(|command| command.count).sum();
        let program = spawn
            .commands
            .first()
            .map_or_else(Cow::default, |command| command.program.to_string_lossy());
        let first = self.network.add(size);
        self.add(first, size, &program, Some(spawn.port.clone()));
        let answer_ns = self.later();
        self.network.wake_at(spawner, answer_ns);
        let state = &mut *self.state.lock();
        for rank in 0..size {
            self.plan(state, Coming::Start(PeerIndex::new(first.number() + rank)));
        }
        let number = state.spawns.len() as u32;
        let spawned = Spawned {
            started: size,
            of_command: spawn.commands.iter().map(|command| command.count).collect(),
            errors: spawn.commands.iter().map(|_| None).collect(),
        };
        state.spawns.push(Some((answer_ns, spawned)));
        state.jobs.last_mut().expect("just made").spawned_by = Some((spawner, number));
        number
    }

    /// What became of a spawn, once that is told.
    pub fn spawned(&self, number: u32) -> Option<Spawned> {
        let spawn = &mut self.state.lock().spawns[number as usize];
        let is_due = spawn
            .as_ref()
            .is_some_and(|(due_ns, _)| *due_ns <= self.network.now_ns());
        spawn.take_if(|_| is_due).map(|(_, spawned)| spawned)
    }

    pub fn publish(&self, service: &str, port: &str) {
        self.state.lock().names.insert(service.into(), port.into());
    }

    pub fn unpublish(&self, service: &str) {
        self.state.lock().names.remove(service);
    }

    pub fn published(&self, service: &str) -> Option<String> {
        self.state.lock().names.get(service).cloned()
    }

    /// A process has one end of a link to the job of another.
    pub fn link(&self, node: PeerIndex, other: PeerIndex) {
        let state = &mut *self.state.lock();
        let other = state.jobs[state.place_of(other)].name();
        let at = state.place_of(node);
        state.jobs[at].links.insert(other);
        // It may be gone already.
        let gone = state.place(other).is_none_or(|at| state.jobs[at].over);
        if gone {
            let job = state.jobs[at].name();
            self.plan(
                state,
                Coming::Hears {
                    job,
                    of: other,
                    end: End::Lost,
                },
            );
        }
    }

    /// A process is connected with others of a job from now on, or no longer.
    pub fn connected(&self, node: PeerIndex, other: JobId, on: bool) {
        let state = &mut *self.state.lock();
        let at = state.place_of(node);
        let job = &mut state.jobs[at];
        let rank = node.number() - job.about.first;
        job.spawned_by = None;
        let ranks = job.connected.entry(other).or_default();
        if on {
            ranks.insert(rank);
            if let Some(why) = job.lost.get(&other).cloned() {
                self.tell(job, rank, Notice::Lost { job: other, why });
            }
            return;
        }
        ranks.remove(&rank);
        if ranks.is_empty() {
            job.connected.remove(&other);
            job.links.remove(&other);
            // The other launcher hears a goodbye before anything else of this job.
            let name = job.name();
            if let Some(at) = state.place(other) {
                state.jobs[at].links.remove(&name);
            }
        }
    }

    /// What a process is told now.
    pub fn told(&self, node: PeerIndex) -> Vec<Notice> {
        let state = &mut *self.state.lock();
        let at = state.place_of(node);
        let job = &mut state.jobs[at];
        let told = &mut job.told[(node.number() - job.about.first) as usize];
        let mut notices = Vec::new();
        while told
            .front()
            .is_some_and(|(due_ns, _)| *due_ns <= self.network.now_ns())
        {
            notices.extend(told.pop_front().map(|(_, notice)| notice));
        }
        notices
    }

    /// A process ends its job with a code, and those that are connected with it.
    pub fn abort(&self, node: PeerIndex, code: i32) {
        let state = &mut *self.state.lock();
        let at = state.place_of(node);
        self.end(state, at, End::Aborted(code));
    }

    /// A process has died: its launcher ends the job.
    pub fn die(&self, node: PeerIndex) {
        let state = &mut *self.state.lock();
        let at = state.place_of(node);
        self.end(state, at, End::Lost);
    }

    fn end(&self, state: &mut State, at: usize, end: End) {
        let job = &mut state.jobs[at];
        if std::mem::replace(&mut job.over, true) {
            return;
        }
        let (name, about) = (job.name(), job.about.clone());
        let links = std::mem::take(&mut job.links);
        if let Some((spawner, spawn)) = job.spawned_by.take() {
            let why = "its processes have ended before".to_string();
            let of = state.place_of(spawner);
            let rank = spawner.number() - state.jobs[of].about.first;
            self.tell(&mut state.jobs[of], rank, Notice::NotConnected { spawn, why });
        }
        for rank in 0..about.size {
            self.plan(state, Coming::End(PeerIndex::new(about.first + rank)));
        }
        // One whose end of a link this job has not taken over sees the channel close.
        let one_sided: Vec<JobId> = (state.jobs.iter())
            .filter(|other| other.links.contains(&name) && !links.contains(&other.name()))
            .map(Job::name)
            .collect();
        for job in one_sided {
            let end = End::Lost;
            self.plan(state, Coming::Hears { job, of: name, end });
        }
        for other in links {
            let heard = match end {
                End::Aborted(_) if !state.jobs[at].connected.contains_key(&other) => End::Lost,
                _ => end.clone(),
            };
            self.plan(
                state,
                Coming::Hears {
                    job: other,
                    of: name,
                    end: heard,
                },
            );
        }
    }

    fn hears(&self, state: &mut State, job: JobId, of: JobId, end: End) {
        let Some(at) = state.place(job).filter(|&at| !state.jobs[at].over) else {
            return;
        };
        let job = &mut state.jobs[at];
        let ranks: Vec<u32> = job.connected.get(&of).into_iter().flatten().copied().collect();
        let why = "the simulation ended it".to_string();
        match end {
            // It concerns only those that are connected.
            End::Aborted(_) if ranks.is_empty() => {}
            End::Aborted(code) if job.ends_itself => {
                let at = self.network.random(ranks.len() as u64) as usize;
                self.tell(job, ranks[at], Notice::Aborted { code, why });
            }
            End::Aborted(code) => self.end(state, at, End::Aborted(code)),
            End::Lost => {
                job.lost.insert(of, why.clone());
                for rank in ranks {
                    self.tell(
                        job,
                        rank,
                        Notice::Lost {
                            job: of,
                            why: why.clone(),
                        },
                    );
                }
            }
        }
    }

    fn tell(&self, job: &mut Job, rank: u32, notice: Notice) {
        let told = &mut job.told[rank as usize];
        let due_ns = self.later().max(told.back().map_or(0, |(due_ns, _)| *due_ns));
        told.push_back((due_ns, notice));
        self.network
            .wake_at(PeerIndex::new(job.about.first + rank), due_ns);
    }
}

impl Job {
    fn name(&self) -> JobId {
        JobId::of(&self.about.id)
    }
}

impl State {
    fn place_of(&self, node: PeerIndex) -> usize {
        let after = self.jobs.partition_point(|job| job.about.first <= node.number());
        after - 1
    }

    fn place(&self, job: JobId) -> Option<usize> {
        self.jobs.iter().position(|known| known.name() == job)
    }
}
