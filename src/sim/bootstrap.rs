//! A launcher whose answers come late, and which may end when the process has told it that it may exit.

use std::os::fd::BorrowedFd;
use std::panic::resume_unwind;
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::Options;
use super::jobs::Jobs;
use crate::base::error::Result;
use crate::identity::{JobId, PeerIndex, ProcessName};
use crate::lane::sim::Network;
use crate::system::bootstrap::{AfterFinalize, Bootstrap, Job, Notice, Spawn, Spawned};

/// The business cards of all ranks.
#[derive(Clone, Default)]
pub(super) struct Cards(Arc<Mutex<FxHashMap<u32, Vec<u8>>>>);

impl Cards {
    pub(super) fn of(&self, rank: u32) -> Option<Vec<u8>> {
        self.0.lock().get(&rank).cloned()
    }
}

/// The launcher's fences: each is over for a process some time after the last one has come.
#[derive(Clone)]
pub(super) struct Fences(Arc<Mutex<FenceState>>);

struct FenceState {
    /// The number of the job's first process in the network.
    first: u32,
    /// How many fences each rank has entered.
    come: Vec<u32>,
    /// When each rank learns of the end of each fence.
    over_ns: Vec<Vec<u64>>,
}

impl Fences {
    pub(super) fn new(first: PeerIndex, size: u32) -> Fences {
        Fences(Arc::new(Mutex::new(FenceState {
            first: first.number(),
            come: vec![0; size as usize],
            over_ns: Vec::new(),
        })))
    }
}

/// What unwinds in place of a process that exits.
pub(super) struct Gone;

/// One rank's connection to the launcher.
pub(super) struct Launcher {
    job: Job,
    /// The process's number in the network.
    node: PeerIndex,
    jobs: Jobs,
    cards: Cards,
    fences: Fences,
    network: Network,
    lookup_ns_max: u64,
    /// When the requested answers come.
    answers_ns: FxHashMap<u32, u64>,
    after_finalize: AfterFinalize,
    over: bool,
}

impl Launcher {
    pub(super) fn new(node: PeerIndex, jobs: &Jobs, network: &Network, options: &Options) -> Launcher {
        let (about, rank) = jobs.of(node);
        let (size, layout) = (about.size, &options.layout);
        let locals = layout.locals_of(rank, size);
        Launcher {
            job: Job {
                rank,
                size,
                appnum: None,
                universe_size: None,
                local_only: locals.count == size,
                local_rank: locals.before,
                local_ranks: locals.count,
                processors: options.processors,
                launcher_pids: None,
                layout: layout.clone(),
                layout_unknown: None,
                id: about.id,
                memory_alloc_kinds: None,
                process_sets: Vec::new(),
                parent: about.parent,
            },
            node,
            jobs: jobs.clone(),
            cards: about.cards,
            fences: about.fences,
            network: network.clone(),
            lookup_ns_max: options.lookup_ns_max,
            answers_ns: FxHashMap::default(),
            after_finalize: options.after_finalize,
            over: false,
        }
    }
}

impl Bootstrap for Launcher {
    fn job(&self) -> &Job {
        &self.job
    }

    fn name(&self) -> &'static str {
        "sim"
    }

    fn publish(&mut self, _: u32, card: &[u8]) -> Result<()> {
        self.cards.0.lock().insert(self.job.rank, card.to_vec());
        Ok(())
    }

    fn needs_fence(&self) -> bool {
        false
    }

    fn after_finalize(&self) -> AfterFinalize {
        self.after_finalize
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn begin_fence(&mut self) -> Result<()> {
        assert!(!self.over, "the launcher is gone, and somebody wants a fence");
        let state = &mut *self.fences.0.lock();
        state.come[self.job.rank as usize] += 1;
        let all = state.come.iter().copied().min().unwrap_or(0) as usize;
        while state.over_ns.len() < all {
            let over_ns = (0..self.job.size).map(|rank| {
                let over_ns = self.network.now_ns() + 1 + self.network.random(self.lookup_ns_max + 1);
                self.network.wake_at(PeerIndex::new(state.first + rank), over_ns);
                over_ns
            });
            state.over_ns.push(over_ns.collect());
        }
        Ok(())
    }

    fn fence_is_over(&mut self) -> Result<bool> {
        let state = self.fences.0.lock();
        let me = self.job.rank as usize;
        let over_ns = state.over_ns.get(state.come[me] as usize - 1);
        Ok(over_ns.is_some_and(|over_ns| over_ns[me] <= self.network.now_ns()))
    }

    fn attend(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn lookup(&mut self, _: u32, peer: ProcessName) -> Result<Option<Vec<u8>>> {
        assert!(!self.over, "the launcher is gone, and somebody wants a card");
        let now_ns = self.network.now_ns();
        let answer_ns = *self.answers_ns.entry(peer.rank).or_insert_with(|| {
            let answer_ns = now_ns + self.network.random(self.lookup_ns_max + 1);
            self.network.wake_at(self.node, answer_ns);
            answer_ns
        });
        if now_ns < answer_ns {
            return Ok(None);
        }
        Ok(self.cards.of(peer.rank))
    }

    /// At once, as nothing waits here.
    fn fetch(&mut self, _: u32, peer: ProcessName) -> Result<Vec<u8>> {
        assert!(!self.over, "the launcher is gone, and somebody wants a card");
        Ok(self.cards.of(peer.rank).expect("all have published"))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn spawn(&mut self, spawn: &Spawn) -> Result<u32> {
        Ok(self.jobs.spawn(self.node, spawn))
    }

    fn spawned(&mut self, spawn: u32) -> Result<Option<Spawned>> {
        Ok(self.jobs.spawned(spawn))
    }

    fn publish_name(&mut self, service: &str, port: &str) -> Result<()> {
        self.jobs.publish(service, port);
        Ok(())
    }

    fn unpublish_name(&mut self, service: &str) -> Result<()> {
        self.jobs.unpublish(service);
        Ok(())
    }

    fn lookup_name(&mut self, service: &str) -> Result<Option<String>> {
        Ok(self.jobs.published(service))
    }

    fn connected(&mut self, job: JobId, on: bool) {
        self.jobs.connected(self.node, job, on);
    }

    fn notices(&mut self) -> Vec<Notice> {
        self.jobs.told(self.node)
    }

    fn tells_why(&self) -> bool {
        true
    }

    /// Ends the process here: the thread goes on with others.
    fn abort(&mut self, code: i32, _: &str) -> bool {
        self.jobs.abort(self.node, code);
        self.network.end(self.node);
        resume_unwind(Box::new(Gone));
    }

    fn finalize(&mut self) -> Result<()> {
        self.over = self.after_finalize == AfterFinalize::Ends;
        Ok(())
    }
}
