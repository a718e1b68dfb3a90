//! An instance: all state of one MPI process. Nothing of it is process-wide, so a test can hold many in one process.
//!
//! - [`Instance`]: the engine behind its lock, the bootstrap, the tasks
//! - `attention`: when a process that does not sleep hears what the launcher says
//! - [`connections`]: with which processes of other jobs this one is connected; [`reach`]: by which lanes such processes are reached
//! - `drain`: waiting until nothing is under way any more
//! - [`hosts`]: which hosts collective operations distinguish
//! - [`selection`]: which algorithms collective operations use
//! - `task`: operations of several steps, written as `async fn`s; the engine is their executor
//! - [`Lifetime`]: when it is made and closed, and what aborts the job; [`Users`]: who uses it
//! - [`transports`]: which lane carried whose messages
//! - `wait`: how a process waits; `progress_thread`: a thread that makes progress while the program computes
//!
//! What does not belong here: matching and protocols (`engine`), and what handles stand for (`objects`).

mod attention;
mod connections;
mod drain;
pub mod hosts;
mod lifetime;
mod pace;
mod progress_thread;
pub mod reach;
pub mod selection;
mod task;
pub mod transports;
mod users;
mod wait;

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::base::error::{Error, Result};
use crate::base::settings::Settings;
use crate::base::slab::Slab;
use crate::base::startup::{Ledger, Phase};
use crate::data::memory::Memory;
use crate::engine::buffered::Attachment;
use crate::engine::business_card::BusinessCard;
use crate::engine::describe::{Names, OwnNames, bare};
use crate::engine::matching::Pattern;
use crate::engine::request::{Outcome, RequestId};
use crate::engine::{Engine, Received};
use crate::err;
use crate::identity::{Context, Contexts, Directory, PeerIndex};
use crate::system::bootstrap::{AfterFinalize, Bootstrap, Job, Notice};
use crate::system::locality::Location;
use crate::system::lock;
use crate::system::output;
use crate::system::port::{Accepts, Ports};

use attention::Attention;
use connections::Connections;
use selection::Selection;

pub use lifetime::{Host, Lifetime, Stage};
use pace::Pace;
use progress_thread::ProgressThread;
pub use progress_thread::WantsProgress;
#[cfg(feature = "sim")]
pub use task::Operation;
use task::Tasks;
pub use task::{Again, Completion, Poller, look_at, poller, run_in_place};
pub use users::{Then, User, Users};
pub use wait::Policy;

/// See the module.
pub struct Instance {
    engine: lock::Mutex<Engine>,
    bootstrap: Mutex<Box<dyn Bootstrap>>,
    /// Business cards that were fetched before they were needed, because the launcher was about to end.
    kept: Mutex<FxHashMap<PeerIndex, Vec<u8>>>,
    tasks: Tasks,
    job: Job,
    settings: Settings,
    selection: Arc<Selection>,
    policy: Policy,
    pace: Pace,
    attention: Attention,
    progress_thread: ProgressThread,
    incarnation: u32,
    ledger: Arc<Ledger>,
    contexts: Contexts,
    directory: Arc<Directory>,
    connections: Connections,
    /// Bytes of memory that this process shares with others for collective operations.
    shared_bytes: AtomicUsize,
    /// Context ids of the communicators that sessions hold.
    lent: Mutex<FxHashSet<Context>>,
    /// How many sessions there have been.
    sessions: AtomicU64,
    attachment: Attachment,
    /// Returns the name of the procedure that the calling thread is in, for reports.
    label: OnceLock<fn() -> &'static str>,
    /// Finds the names of communicators, by their context ids.
    names: OnceLock<fn() -> OwnNames>,
    /// What this process does, in words, where the list of pending requests does not say it.
    notes: Mutex<Slab<String>>,
    /// When a wait that has not ended prints what it waits for.
    report_at: Mutex<Option<Instant>>,
    /// Returns in words what this process waits for, where that is known better than from the engine's list.
    explain: Mutex<Option<Explain>>,
    /// Descriptors beside those of lanes and launcher that end a sleep.
    sleeps_on: Mutex<Slab<RawFd>>,
    /// How ports are opened and found.
    ports: Box<dyn Ports>,
    /// Those that are open here, by their names.
    open_ports: Mutex<FxHashMap<String, SharedPort>>,
    /// Why spawned jobs have ended before they were connected, by the number of their spawn.
    ended_spawns: Mutex<FxHashMap<u32, String>>,
}

/// What [`Instance::look`] found.
pub enum Looked<T> {
    /// What was looked for.
    Found(T),
    /// Nothing.
    Nothing,
    /// Nothing, but there are tasks to run, which may bring it; or the launcher is to be heard ([`Instance::run_ready_tasks`]).
    Tasks,
}

/// See [`Instance::note`].
pub struct Note {
    instance: Arc<Instance>,
    place: u32,
}

impl Drop for Note {
    fn drop(&mut self) {
        self.instance.notes.lock().remove(self.place);
    }
}
/// See [`Instance::sleep_on`].
pub struct SleepsOn {
    instance: Arc<Instance>,
    place: u32,
}

impl Drop for SleepsOn {
    fn drop(&mut self) {
        self.instance.sleeps_on.lock().remove(self.place);
    }
}

/// See [`Instance::set_explanation`].
pub type Explain = fn(&Instance, &Engine, Names) -> String;

/// An open port of this process.
pub type SharedPort = Arc<Mutex<Box<dyn Accepts>>>;

/// A process of another job is gone.
pub(crate) fn gone(why: &str) -> Error {
    err!(ProcAborted, "a process of another job is gone: {why}")
}

/// The most bytes of memory that a process shares with others for collective operations. Further communicators do without.
const SHARED_MAX: usize = 256 << 20;

/// How often a blocking receive looks for its message before it is posted. For one that waits longer the cost of posting does not matter.
const ATTENDED_TURNS: u32 = 1000;

impl Instance {
    /// Puts the parts together and publishes this process's business card.
    pub fn new(
        engine: Engine,
        mut bootstrap: Box<dyn Bootstrap>,
        ports: Box<dyn Ports>,
        settings: Settings,
        selection: Arc<Selection>,
        policy: Policy,
        incarnation: u32,
        ledger: Arc<Ledger>,
    ) -> Result<Arc<Instance>> {
        ledger.time(Phase::Publish, || {
            bootstrap.publish(incarnation, &engine.card().encode())?;
            if bootstrap.needs_fence() {
                bootstrap.fence()?;
            }
            Ok::<_, Error>(())
        })?;
        let job = bootstrap.job().clone();
        let (me, size) = (job.name(), job.size);
        let directory = engine.directory().clone();
        Ok(Arc::new(Instance {
            engine: lock::Mutex::new(engine),
            bootstrap: Mutex::new(bootstrap),
            kept: Mutex::default(),
            tasks: Tasks::default(),
            job,
            attention: Attention::new(),
            progress_thread: ProgressThread::default(),
            pace: Pace::new(policy.spin, settings.spin_us.is_none()),
            settings,
            selection,
            policy,
            incarnation,
            ledger,
            contexts: Contexts::new(me, size),
            directory,
            connections: Connections::default(),
            shared_bytes: AtomicUsize::new(0),
            lent: Mutex::default(),
            sessions: AtomicU64::new(0),
            attachment: Attachment::default(),
            label: OnceLock::new(),
            names: OnceLock::new(),
            notes: Mutex::default(),
            report_at: Mutex::new(None),
            explain: Mutex::new(None),
            sleeps_on: Mutex::default(),
            ports,
            open_ports: Mutex::default(),
            ended_spawns: Mutex::default(),
        }))
    }

    /// The engine, to be held briefly: never while user code runs.
    #[inline(always)]
    pub fn engine(&self) -> lock::MutexGuard<'_, Engine> {
        self.engine.lock()
    }

    /// What the launcher says about the job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Which algorithms collective operations use.
    #[inline]
    pub fn selection(&self) -> &Arc<Selection> {
        &self.selection
    }

    /// Where the time of Init and Finalize goes.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// The connection to the launcher.
    pub fn bootstrap(&self) -> MutexGuard<'_, Box<dyn Bootstrap>> {
        self.bootstrap.lock()
    }

    /// The connection to the launcher, if no other thread uses it.
    pub fn try_bootstrap(&self) -> Option<MutexGuard<'_, Box<dyn Bootstrap>>> {
        self.bootstrap.try_lock_for(std::time::Duration::from_millis(100))
    }

    /// This process.
    pub fn me(&self) -> PeerIndex {
        self.directory.me()
    }

    /// The node of a process of the job: processes of one node share memory. `WEFT_FAKE_NODES` makes several nodes of one
    /// machine. Nothing is known about processes of other jobs: each counts as alone on its node.
    pub fn node_of(&self, process: PeerIndex) -> u64 {
        match process.rank_in(self.job.size) {
            Some(rank) => {
                let nodes = self.settings.fake_nodes;
                self.job.layout.pretended_node_of(rank, nodes)
            }
            None => u64::MAX - u64::from(process.number()),
        }
    }

    /// In which parts of its host this process runs, as it is bound now. `WEFT_FAKE_PACKAGES` pretends packages.
    pub fn location(&self) -> Location {
        match self.settings.fake_packages {
            0 => Location::of_this_process(),
            packages => Location::pretended(self.job.rank, self.settings.fake_nodes, packages),
        }
    }

    /// Where the process's buffer for buffered mode is attached.
    pub fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// The processes that this one knows of.
    #[inline]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// A context for a new communicator, which no other communicator has.
    pub fn new_context(&self) -> Context {
        self.contexts.make()
    }

    /// A number for a new session, which no other one of the instance has or had. From 1: 0 stands for the World Model.
    pub fn new_session_number(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts bytes of memory that this process shares with others for collective operations; `false`, and nothing is counted: they would
    /// be too many.
    pub fn share(&self, bytes: usize) -> bool {
        let counted = self.shared_bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_room = counted + bytes <= SHARED_MAX;
        if !has_room {
            self.unshare(bytes);
        }
        has_room
    }

    /// Takes that back.
    pub fn unshare(&self, bytes: usize) {
        self.shared_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Sets how reports find the name of the procedure in which a thread waits.
    pub fn set_label(&self, label: fn() -> &'static str) {
        // The first caller has set it already.
        let _ = self.label.set(label);
    }

    /// Sets how reports find the names of communicators.
    pub fn set_names(&self, names: fn() -> OwnNames) {
        let _ = self.names.set(names);
    }

    /// The names of communicators now. Not to be called while the engine is locked: a thread that holds their table may wait for the engine.
    pub fn names(&self) -> OwnNames {
        self.names
            .get()
            .map_or_else(|| Box::new(bare) as OwnNames, |names| names())
    }

    /// A wait that goes on for longer than `after` from now prints once on standard error what it waits for. `None` turns
    /// that off.
    pub fn report_after(&self, after: Option<Duration>) {
        *self.report_at.lock() = after.map(|after| Instant::now() + after);
    }

    /// From now on reports contain what `explain` returns, after "and waits".
    pub fn set_explanation(&self, explain: Option<Explain>) {
        *self.explain.lock() = explain;
    }

    /// Prints what this process waits for, if it is time to.
    #[cold]
    fn report_if_late(&self) {
        let mut report_at = self.report_at.lock();
        if report_at.is_some_and(|at| at <= Instant::now()) {
            *report_at = None;
            drop(report_at);
            self.say(&self.report());
        }
    }

    fn say(&self, report: &str) {
        eprintln!("[weft] rank {} is {report}", self.job.rank);
    }

    /// Handles messages of the launcher: it may ask for a report, or be gone.
    #[cold]
    pub(crate) fn attend(&self) {
        self.attention.pay();
        let Some(mut bootstrap) = self.bootstrap.try_lock() else {
            return;
        };
        let attended = bootstrap.attend();
        let notices = bootstrap.notices();
        // A thread that holds the engine may wait for the launcher, never the other way round.
        drop(bootstrap);
        for notice in notices {
            self.take_notice(notice);
        }
        match attended {
            Ok(false) => {}
            Ok(true) => {
                // The launcher is about to end this process.
                output::flush();
                let report = self.report();
                let told = self
                    .bootstrap
                    .try_lock()
                    .is_some_and(|mut bootstrap| bootstrap.report(&report));
                if !told {
                    self.say(&report);
                }
            }
            Err(error) => {
                let size = self.job.size;
                let mut engine = self.engine();
                for peer in (0..size)
                    .map(PeerIndex::of_rank)
                    .filter(|&peer| peer != self.me())
                {
                    engine.lose(peer, error.clone());
                }
            }
        }
    }

    fn take_notice(&self, notice: Notice) {
        match notice {
            Notice::Lost { job, why } => self.lose_job(job, &why),
            Notice::NotConnected { spawn, why } => drop(self.ended_spawns.lock().insert(spawn, why)),
            Notice::Aborted { code, why } => {
                let mut bootstrap = self.bootstrap.lock();
                lifetime::end(Some(self.job.rank), Some(&mut **bootstrap), code, &why)
            }
        }
    }

    /// How ports are opened and found.
    pub fn ports(&self) -> &dyn Ports {
        &*self.ports
    }

    /// The ports that are open here, by their names.
    pub fn open_ports(&self) -> &Mutex<FxHashMap<String, SharedPort>> {
        &self.open_ports
    }

    /// Why a spawned job has ended before its processes came to their port, if it has.
    pub fn ended_spawn(&self, spawn: u32) -> Option<String> {
        self.ended_spawns.lock().remove(&spawn)
    }

    /// While the result lives, this process sleeps on one more descriptor: what becomes readable there ends the sleep.
    pub fn sleep_on(self: &Arc<Self>, descriptor: RawFd) -> SleepsOn {
        let place = self.sleeps_on.lock().insert(descriptor);
        SleepsOn {
            instance: self.clone(),
            place,
        }
    }

    /// What this process waits for, in words that follow "is": on one line if it is one thing.
    pub fn report(&self) -> String {
        let label = self.label.get().map_or("a library call", |label| label());
        let explain = *self.explain.lock();
        let names = self.names();
        let engine = self.engine();
        let (waits, mut lines) = match explain {
            Some(explain) => (explain(self, &engine, &*names), Vec::new()),
            None => (String::new(), engine.pending(&*names, |_| false)),
        };
        drop(engine);
        lines.extend(self.notes.lock().iter().map(|(_, note)| note.clone()));
        let mut text = format!("in {label} and waits{waits}");
        match &lines[..] {
            [] => {}
            [one] => text += &format!(": {one}"),
            several => {
                text += ":";
                several.iter().for_each(|line| text += &format!("\n  {line}"));
            }
        }
        text
    }

    /// Reports contain this line until the result is dropped.
    pub fn note(self: &Arc<Self>, note: String) -> Note {
        let place = self.notes.lock().insert(note);
        Note {
            instance: self.clone(),
            place,
        }
    }

    /// Makes what progress can be made now, tasks included. `true`: something happened.
    pub fn step(&self) -> bool {
        let mut engine = self.engine();
        let any = self.step_engine(&mut engine, false) | engine.look_at_words();
        drop(engine);
        let ran = self.run_ready_tasks();
        if ran {
            // What they have queued leaves now: the program need not call MPI again soon.
            let mut engine = self.engine();
            self.step_engine(&mut engine, false);
        }
        ran || any
    }

    /// Whether waits spin: a process that waits then hears of a message at once.
    pub fn spins(&self) -> bool {
        self.pace.spin() != 0
    }

    /// Looks for something and, where it is not there, makes what progress can be made now and looks once more. It runs
    /// no tasks: a caller that may run them does so and looks again.
    #[inline]
    pub fn look<T>(&self, check: impl FnMut(&mut Engine) -> Option<T>) -> Looked<T> {
        self.look_into(&mut self.engine(), check)
    }

    /// The same with an engine that is locked.
    #[inline]
    pub fn look_into<T>(
        &self,
        engine: &mut Engine,
        mut check: impl FnMut(&mut Engine) -> Option<T>,
    ) -> Looked<T> {
        if let Some(found) = check(engine) {
            return Looked::Found(found);
        }
        self.step_engine(engine, false);
        match check(engine) {
            Some(found) => Looked::Found(found),
            None if engine.has_ready_tasks() || self.attention.is_due() => Looked::Tasks,
            None => Looked::Nothing,
        }
    }

    /// Progress of the engine, and fetching the business cards that it needs.
    #[inline]
    fn step_engine(&self, engine: &mut Engine, waits: bool) -> bool {
        let any = engine.progress(waits);
        if !any {
            self.attention.idle();
        }
        if engine.wanted().is_empty() {
            return any;
        }
        self.ledger.time_between(Phase::LookUp, || self.look_up(engine)) || any
    }

    #[cold]
    fn look_up(&self, engine: &mut Engine) -> bool {
        let Some(mut bootstrap) = self.bootstrap.try_lock() else {
            return false;
        };
        let mut any = false;
        let mut wanted = std::mem::take(engine.wanted());
        let mut kept = self.kept.lock();
        let mut lookup = |peer| match kept.remove(&peer) {
            Some(card) => Ok(Some(card)),
            None => match self.is_of_this_job(peer) {
                true => bootstrap.lookup(self.incarnation, self.directory.name(peer)),
                false => Err(err!(
                    Comm,
                    "process {peer} is of another job, and no communicator connects this process with it any more"
                )),
            },
        };
        wanted.retain(|&peer| match lookup(peer) {
            Ok(None) => true,
            Ok(Some(bytes)) => {
                any = true;
                match BusinessCard::decode(&bytes) {
                    Ok(card) => engine.connect(peer, &card),
                    Err(error) => engine.lose(peer, error),
                }
                false
            }
            Err(error) => {
                any = true;
                engine.lose(peer, error);
                false
            }
        });
        engine.wanted().append(&mut wanted);
        any
    }

    /// Notes the context id of a communicator that a session holds: its messages do not concern the World Model.
    pub fn lend_context(&self, context: Context) {
        self.lent.lock().insert(context);
    }

    /// Takes that back: the communicator has been disconnected.
    pub fn take_context_back(&self, context: Context) {
        self.lent.lock().remove(&context);
        self.disconnect_by(context);
    }

    /// Whether the communicator of a context belongs to the World Model.
    pub fn is_worlds(&self, context: Context) -> bool {
        !self.lent.lock().contains(&context)
    }

    /// Tells the launcher that this process may exit. If the launcher ends with that ([`AfterFinalize::Ends`]), what a
    /// later session may need from it is fetched first: the business cards that are not known yet.
    pub fn take_leave(&self) -> Result<()> {
        let unknown = match self.after_finalize() == AfterFinalize::Ends && !self.bootstrap().is_over() {
            true => self.unknown_cards(),
            false => Vec::new(),
        };
        let mut bootstrap = self.bootstrap();
        for peer in unknown {
            let card = bootstrap.fetch(self.incarnation, self.directory.name(peer))?;
            self.kept.lock().insert(peer, card);
        }
        bootstrap.finalize()
    }

    /// The processes whose business cards are not known here.
    pub fn unknown_cards(&self) -> Vec<PeerIndex> {
        let mut unknown_cards = self.engine().unconnected();
        let kept = self.kept.lock();
        unknown_cards.retain(|peer| !kept.contains_key(peer));
        unknown_cards
    }

    /// Takes business cards that did not come from the launcher.
    pub fn keep_cards(&self, cards: impl IntoIterator<Item = (PeerIndex, Vec<u8>)>) {
        self.kept.lock().extend(cards);
    }

    /// See [`Bootstrap::after_finalize`].
    pub fn after_finalize(&self) -> AfterFinalize {
        self.bootstrap().after_finalize()
    }

    /// Connects to the launcher again, after [`Instance::take_leave`]; `connect` makes a new connection, where one is
    /// possible.
    pub fn resume(&self, connect: impl FnOnce() -> Result<Box<dyn Bootstrap>>) -> Result<()> {
        if self.after_finalize() == AfterFinalize::Returns {
            *self.bootstrap.lock() = connect()?;
        } else {
            self.bootstrap().come_back();
        }
        Ok(())
    }

    /// Starts a receive, and polls for it for a while unless that keeps another thread waiting: `alone` returns whether
    /// no other thread waits for what the caller has locked.
    ///
    /// # Safety
    /// As for [`Engine::receive`].
    #[inline]
    pub unsafe fn receive_attended(
        &self,
        pattern: Pattern,
        peer: Option<PeerIndex>,
        memory: Memory,
        alone: impl Fn() -> bool,
    ) -> Result<Received> {
        let mut engine = self.engine();
        let mut turns = match self.pace.spin() != 0 && !engine.sleeps_early() {
            true => ATTENDED_TURNS,
            false => 1,
        };
        let stays = |engine: &Engine| {
            if turns == 0 || engine.has_wanted() || engine.may_have_ready_tasks() {
                return false;
            }
            if turns < ATTENDED_TURNS {
                std::hint::spin_loop();
            }
            turns = match alone() && !lock::is_shared(&self.engine) {
                true => turns - 1,
                false => 0,
            };
            true
        };
        // SAFETY: the caller keeps the memory valid for writing, and uses it for nothing else, until the receive has ended.
        unsafe { engine.receive_attended(pattern, peer, memory, stays) }
    }

    /// Waits until the request has ended, and takes its outcome.
    ///
    /// # Panics
    /// If there is no such request.
    pub fn wait(&self, request: RequestId) -> Outcome {
        if let Some(outcome) = self.wait_for_task(request) {
            return outcome;
        }
        self.wait_for_all(|id| id == request, |engine| engine.take(request))
    }
}
