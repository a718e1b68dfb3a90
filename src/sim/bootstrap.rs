//! A launcher whose answers come late, and which may end when the process has told it that it may exit.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::base::error::Result;
use crate::identity::{PeerIndex, ProcessName};
use crate::lane::sim::Network;
use crate::system::bootstrap::{AfterFinalize, Bootstrap, Job};
use crate::system::locality::Layout;

/// The name of the job.
pub(super) const JOB: &str = "sim";

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
    /// How many fences each rank has entered.
    come: Vec<u32>,
    /// When each rank learns of the end of each fence.
    over_ns: Vec<Vec<u64>>,
}

impl Fences {
    pub(super) fn new(size: u32) -> Fences {
        Fences(Arc::new(Mutex::new(FenceState {
            come: vec![0; size as usize],
            over_ns: Vec::new(),
        })))
    }
}

/// One rank's connection to the launcher.
pub(super) struct Launcher {
    job: Job,
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
    pub(super) fn new(
        rank: u32,
        size: u32,
        cards: &Cards,
        fences: &Fences,
        network: &Network,
        lookup_ns_max: u64,
        processors: Option<u32>,
        layout: &Layout,
        after_finalize: AfterFinalize,
    ) -> Launcher {
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
                processors,
                launcher_pids: None,
                layout: layout.clone(),
                layout_unknown: None,
                id: JOB.into(),
                memory_alloc_kinds: None,
                process_sets: Vec::new(),
                parent: None,
            },
            cards: cards.clone(),
            fences: fences.clone(),
            network: network.clone(),
            lookup_ns_max,
            answers_ns: FxHashMap::default(),
            after_finalize,
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
                self.network.wake_at(PeerIndex::new(rank), over_ns);
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
            self.network.wake_at(PeerIndex::new(self.job.rank), answer_ns);
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

    fn abort(&mut self, _: i32, message: &str) -> bool {
        panic!("abort: {message}");
    }

    fn finalize(&mut self) -> Result<()> {
        self.over = self.after_finalize == AfterFinalize::Ends;
        Ok(())
    }
}
