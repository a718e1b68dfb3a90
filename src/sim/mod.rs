//! A simulator: many ranks in one process, stepped in an order, and over a network, that follow from a seed.
//!
//! Each rank is an `async` program over its own [`Instance`]; nothing in here blocks or reads a clock. At each step some
//! rank is chosen, its instance makes progress, and its program is polled. Time advances when no rank can do anything
//! more. When nothing is to come and some program still waits, or when the steps run out, the run fails and reports what
//! each rank waits for.
//!
//! - [`Simulation`]: one run
//! - [`Rank`]: what a program is given
//! - `check`: many runs; a failure names its seed
//! - `bootstrap`: a launcher that answers late, and may end when a process has told it that it may exit
//! - `jobs`: several jobs in one run: spawned ones, and how one that ends concerns others
//! - `ports`: where they meet
//!
//! A program must not drop an unfinished [`crate::instance::Completion`] and must not make a call that blocks.
//!
//! What does not belong here: the network (`lane::sim`), what one lane or one engine does by itself (their own tests), and the programs
//! that ranks run (`tests/simulation`, `tests/collectives`).

mod bootstrap;
mod buffer;
mod check;
mod jobs;
mod join;
mod ports;
mod rank;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fastrand::Rng;

use crate::base::settings::{Access, Settings};
use crate::engine::describe;
use crate::engine::{Engine, Parts};
use crate::identity::{JobId, PeerIndex, ProcessName};
use crate::instance::selection::Selection;
use crate::instance::{Instance, Policy};
use crate::lane::atomic::Atomics;
use crate::lane::loopback::Loopback;
use crate::lane::sim::{Conditions, Network};
use crate::lane::{HEADER_BYTES, LONGER_BY, Limits};
use crate::system::bootstrap::AfterFinalize;
use crate::system::locality::Layout;

pub use crate::base::skip::skip;
pub use buffer::Buffer;
pub use check::check;
pub use join::join_all;
pub use rank::Rank;

use bootstrap::{Gone, Launcher};
use buffer::Graveyard;
use jobs::Jobs;
use join::Kept;
use ports::{Harbours, SimPorts};

/// What a run is like.
#[derive(Clone, Debug)]
pub struct Options {
    /// The network.
    pub conditions: Conditions,
    /// The setting `eager_max`.
    pub eager_max: Option<usize>,
    /// The setting `rma`.
    pub rma: bool,
    /// The longest time in virtual nanoseconds that the launcher takes to answer.
    pub lookup_ns_max: u64,
    /// The number of processors that the ranks share, as the launcher says.
    pub processors: Option<u32>,
    /// Which ranks share a machine, as the launcher says. (The network is the same between all.)
    pub layout: Layout,
    /// The setting `two_level`.
    pub two_level: bool,
    /// The setting `cma`: whether collective operations in shared memory may read the memory of others.
    pub cma: bool,
    /// The setting `windows`: [`Access::Direct`] lets windows share memory as those of real processes of a machine do.
    pub windows: Access,
    /// The setting `check`, as far as windows are concerned.
    pub check: bool,
    /// Lines before Weft's own of the table of collective algorithms.
    pub collectives: String,
    /// The setting `unexpected_max`; `None`: by the seed.
    pub unexpected_max: Option<u64>,
    /// What the launcher does when a process has told it that it may exit.
    pub after_finalize: AfterFinalize,
    /// A run of more steps counts as failed.
    pub steps_max: u64,
}

impl Options {
    /// A network where everything can happen: short frames, refusals, late completions; limits by the seed.
    pub fn random(seed: u64) -> Options {
        let rng = &mut Rng::with_seed(seed ^ 0x6f70_7469_6f6e);
        let message = rng.u32(192..1500) as usize;
        let limits = Limits {
            buffered: rng.u32(0..message as u32 + 1) as usize,
            message,
            header: HEADER_BYTES + [0, LONGER_BY, LONGER_BY][(seed % 3) as usize],
            piece: rng.u32(1..message as u32) as usize,
            ordered: true,
            rma: rng.u32(..3) != 0,
            write: false,
            atomics: Atomics::None,
            needs_target: true,
            ends_with_receipt: false,
            rma_from: rng.u32(..3000) as usize,
            read_run: [0, 8, usize::MAX][rng.u32(..3) as usize],
            register_run: [0, 8, usize::MAX][rng.u32(..3) as usize],
            eager: rng.u32(..1000) as usize,
            pipelined: [0, rng.u32(..8000) as usize][rng.u32(..2) as usize],
            queue: skewed(rng, 12) as usize,
        };
        Options {
            conditions: Conditions {
                limits,
                delay_ns_max: 1 << rng.u32(..16),
                completion_ns_max: 1 << rng.u32(..16),
                again_permille: [0, 10, 300][rng.u32(..3) as usize],
                failed_reads_permille: [0, 0, 200][rng.u32(..3) as usize],
                mangled_permille: 0,
                rogue: None,
                notices_other_jobs: true,
            },
            eager_max: rng.bool().then(|| rng.u32(..800) as usize),
            rma: rng.u32(..8) != 0,
            lookup_ns_max: 1 << rng.u32(..16),
            processors: [None, Some(1), Some(2), Some(3)][rng.u32(..4) as usize],
            after_finalize: [AfterFinalize::Returns, AfterFinalize::Stays, AfterFinalize::Ends]
                [rng.u32(..3) as usize],
            steps_max: 20_000_000,
            unexpected_max: None,
            two_level: true,
            cma: seed % 4 != 1,
            windows: Access::Auto,
            check: false,
            collectives: String::new(),
            layout: random_layout(rng),
        }
    }
}

/// One machine, or ranks in blocks, singly, or both on several.
fn random_layout(rng: &mut Rng) -> Layout {
    let (machines, ranks) = match rng.u32(..2) {
        0 => (1, 1),
        _ => (rng.u32(2..6), rng.u32(1..5)),
    };
    Layout::parse(&format!("(vector,(0,{machines},{ranks}))")).expect("a layout")
}

/// A number below 2 to the power of `bits`, of any magnitude with equal chance.
pub fn skewed(rng: &mut Rng, bits: u32) -> u64 {
    let bits = rng.u32(..=bits);
    rng.u64(..1 << bits)
}

/// One run.
pub struct Simulation {
    seed: u64,
    options: Options,
    selection: Arc<Selection>,
    network: Network,
    rng: Rng,
    /// By the numbers of their processes in the network; none for one that is not started yet.
    instances: Vec<Option<Arc<Instance>>>,
    jobs: Jobs,
    harbours: Harbours,
    graveyard: Graveyard,
    steps_left: u64,
    /// How many times in succession nothing was to come.
    still_moments: u32,
}

/// How often everything may be refused, or a program look in vain, with nothing to come, before the run counts as stuck.
const STILL_MOMENTS_MAX: u32 = 10_000;

struct Program<F: Future> {
    rank: Rank,
    /// Not dropped while its requests are under way: a completion in it would wait.
    future: Kept<F>,
    result: Option<F::Output>,
    /// Whether to poll it though its engine does nothing: at the start, and where it waits for time to pass.
    its_turn: bool,
}

impl Simulation {
    /// `size` processes that have initialized MPI.
    pub fn new(seed: u64, size: u32, options: Options) -> Simulation {
        Simulation::of_jobs(seed, &[size], options)
    }

    /// The same with several jobs of these sizes.
    pub fn of_jobs(seed: u64, sizes: &[u32], options: Options) -> Simulation {
        let mut rng = Rng::with_seed(seed);
        let network = Network::new(rng.u64(..), sizes.iter().sum(), options.conditions.clone());
        let jobs = Jobs::new(&network, options.lookup_ns_max);
        let selection = Selection::parse("the option collectives", &options.collectives);
        let mut first = 0;
        for &size in sizes {
            jobs.add(PeerIndex::new(first), size, "", None);
            first += size;
        }
        let mut simulation = Simulation {
            seed,
            steps_left: options.steps_max,
            options,
            selection: Arc::new(selection.expect("good lines")),
            network,
            rng,
            instances: Vec::new(),
            jobs,
            harbours: Harbours::default(),
            graveyard: Graveyard::default(),
            still_moments: 0,
        };
        for node in 0..first {
            let instance = simulation.start(PeerIndex::new(node));
            simulation.instances.push(Some(instance));
        }
        simulation
    }

    /// A process initializes MPI.
    fn start(&mut self, node: PeerIndex) -> Arc<Instance> {
        let (about, rank) = self.jobs.of(node);
        let (options, rng) = (&self.options, &mut self.rng);
        let me = ProcessName {
            job: JobId::of(&about.id),
            rank,
        };
        let engine = Engine::new(Parts {
            me,
            size: about.size,
            token: rng.u64(..),
            agreed: 0,
            lanes: vec![
                Box::new(Loopback::default()),
                Box::new(self.network.lane(node, me)),
            ],
            eager_max: options.eager_max,
            rma: options.rma,
            first_generation: rng.u32(..),
            window: rng.u32(2..8),
            unexpected_max: {
                let drawn = skewed(rng, 14);
                options.unexpected_max.unwrap_or(drawn)
            },
        });
        let launcher = Launcher::new(node, &self.jobs, &self.network, options);
        let ports = SimPorts {
            node,
            network: self.network.clone(),
            jobs: self.jobs.clone(),
            harbours: self.harbours.clone(),
            delay_ns_max: options.lookup_ns_max,
        };
        let mut settings = Settings::read(|_| None).expect("the defaults are valid");
        settings.two_level = options.two_level;
        settings.cma = options.cma;
        settings.windows = options.windows;
        settings.check = options.check;
        // Nothing waits in a simulation.
        let policy = Policy {
            spin: Duration::ZERO,
            yields: Duration::ZERO,
            sleep: Duration::ZERO,
        };
        Instance::new(
            engine,
            Box::new(launcher),
            Box::new(ports),
            settings,
            self.selection.clone(),
            policy,
            0,
            Arc::default(),
        )
        .expect("this launcher takes every card")
    }

    /// The network, for tests that interfere with it.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The instance of a rank of the first job.
    pub fn instance(&self, rank: u32) -> &Arc<Instance> {
        self.instances[rank as usize]
            .as_ref()
            .expect("it is there from the start")
    }

    /// The business card that a rank of the first job has published.
    pub fn card(&self, rank: u32) -> Option<Vec<u8>> {
        self.jobs.of(PeerIndex::new(rank)).0.cards.of(rank)
    }

    /// Runs one program per rank, also those that are spawned, until all that are alive have ended and nothing is left anywhere. Returns
    /// their results, in the order in which the jobs were made; `None`: the rank has died before.
    ///
    /// # Panics
    /// If a program panics, if the run gets stuck, or if an engine is not empty at the end.
    pub fn run<F: Future>(mut self, program: impl Fn(Rank) -> F) -> Vec<Option<F::Output>> {
        let mut programs: Vec<Option<Program<F>>> = Vec::new();
        for at in 0..self.instances.len() {
            programs.push(Some(self.begin(at, &program)));
        }
        let mut running: Vec<usize> = (0..programs.len()).collect();
        loop {
            while running.is_empty() {
                let (goes_on, next) = self.next_moment(&mut programs, &program);
                running = next;
                if !goes_on && running.is_empty() {
                    break;
                }
            }
            if running.is_empty() {
                break;
            }
            let place = self.rng.u64(..running.len() as u64) as usize;
            let at = running[place];
            let Some(one) = programs[at].as_mut().filter(|_| !self.is_dead(at)) else {
                running.swap_remove(place);
                continue;
            };
            match catch_unwind(AssertUnwindSafe(|| one.step())) {
                Ok(true) => {}
                Ok(false) => {
                    running.swap_remove(place);
                }
                Err(reason) if reason.is::<Gone>() => {}
                Err(_) => self.fail(&programs, &format!("{} panicked", self.called(at))),
            }
            self.steps_left = self.steps_left.saturating_sub(1);
            if self.steps_left == 0 {
                self.fail(&programs, "the steps have run out: a livelock?");
            }
        }
        for at in 0..programs.len() {
            let Some(one) = programs[at].as_ref().filter(|_| !self.is_dead(at)) else {
                continue;
            };
            if one.result.is_none() {
                self.fail(&programs, &format!("{} waits forever", self.called(at)));
            }
            if !one.rank.instance().engine().is_empty() {
                let what = format!(
                    "{} has ended, but something is left in its engine",
                    self.called(at)
                );
                self.fail(&programs, &what);
            }
        }
        for instance in self.instances.iter().flatten() {
            // SAFETY: the run is over, so the network moves nothing any more.
            unsafe { instance.forsake() };
        }
        (programs.into_iter())
            .map(|program| program.and_then(|program| program.result))
            .collect()
    }

    fn begin<F: Future>(&self, at: usize, program: &impl Fn(Rank) -> F) -> Program<F> {
        let instance = self.instances[at].as_ref().expect("it was started");
        let node = PeerIndex::new(at as u32);
        let rank = Rank::new(instance, node, &self.network, &self.jobs, &self.graveyard);
        let future = Kept::new(program(rank.clone()));
        Program {
            rank,
            future,
            result: None,
            its_turn: true,
        }
    }

    fn is_dead(&self, at: usize) -> bool {
        self.network.is_dead(PeerIndex::new(at as u32))
    }

    /// A process, in words.
    fn called(&self, at: usize) -> String {
        let (about, rank) = self.jobs.of(PeerIndex::new(at as u32));
        match about.first {
            0 => format!("rank {rank}"),
            _ => format!("rank {rank} of job {} {}", about.id, about.program),
        }
    }

    /// Lets time pass until something was to come; returns the ranks that have something to do. If there are none, and nothing was to come,
    /// nothing can happen any more: the first of the results is `false`.
    fn next_moment<F: Future>(
        &mut self,
        programs: &mut Vec<Option<Program<F>>>,
        program: &impl Fn(Rank) -> F,
    ) -> (bool, Vec<usize>) {
        let something = self.network.advance();
        if something {
            self.still_moments = 0;
        } else {
            // Only what was refused can go on, and programs that look for themselves.
            self.network.tick();
            self.still_moments += 1;
            if self.still_moments > STILL_MOMENTS_MAX {
                return (false, Vec::new());
            }
        }
        let due = self.jobs.due();
        for node in due.ends {
            if !self.network.is_dead(node) {
                self.network.end(node);
            }
        }
        for node in due.starts {
            if self.network.is_dead(node) {
                continue;
            }
            let at = node.index();
            if programs.len() <= at {
                programs.resize_with(at + 1, || None);
                self.instances.resize(at + 1, None);
            }
            self.instances[at] = Some(self.start(node));
            programs[at] = Some(self.begin(at, program));
        }
        for program in programs.iter_mut().flatten() {
            program.its_turn |= program.rank.takes_turn();
        }
        let has_something = |at: usize, one: &Program<F>| {
            self.network.has_due(PeerIndex::new(at as u32))
                || one.its_turn
                || one.rank.instance().engine().has_backlog()
        };
        let alive = programs
            .iter()
            .enumerate()
            .filter_map(|(at, one)| Some((at, one.as_ref()?)));
        let busy = alive
            .filter(|&(at, one)| !self.is_dead(at) && has_something(at, one))
            .map(|(at, _)| at)
            .collect();
        (something, busy)
    }

    fn fail<F: Future>(&self, programs: &[Option<Program<F>>], what: &str) -> ! {
        let mut report = format!("seed {}, time {} ns: {what}", self.seed, self.network.now_ns());
        for (at, program) in programs.iter().enumerate() {
            let Some(program) = program else { continue };
            let state = match (&program.result, self.is_dead(at)) {
                (_, true) => "dead",
                (Some(_), _) => "ended",
                (None, _) => "running",
            };
            let engine = program.rank.instance().engine();
            if state == "running" || (state == "ended" && !engine.is_empty()) {
                report += &format!(
                    "\n({state}) {}: {}\n  {}",
                    self.called(at),
                    engine.describe(&describe::bare),
                    self.network.describe(PeerIndex::new(at as u32))
                );
            }
        }
        panic!("{report}");
    }
}

impl<F: Future> Program<F> {
    /// One step; `false`: there was nothing to do.
    fn step(&mut self) -> bool {
        self.rank.instance().attend();
        let any = self.rank.instance().step();
        let its_turn = std::mem::take(&mut self.its_turn);
        if self.result.is_some() || !(any || its_turn) {
            return any;
        }
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(result) = self.future.future().poll(&mut context) {
            self.result = Some(result);
        }
        true
    }
}
