//! The lifetime of the instance. It is made when the first of the World Model and the sessions is initialized, and comes
//! to rest when the last of them is finalized: the launcher is told that the process may exit, but peers can still send
//! to it, and a later session finds it unchanged and can use it at once. It is closed
//!
//! - by `MPI_Finalize`, if no process of the job has had a session: all processes close theirs together, so the next
//!   session of each makes one of the same incarnation ([`Users`]). This is done only where the launcher accepts the
//!   process again ([`AfterFinalize`]): other launchers give no further business cards, or not before all processes have
//!   come to a fence;
//! - when the process exits.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::selection::Selection;
use super::{Instance, Policy, Then, User, Users, hosts};
use crate::base::error::Result;
use crate::base::random;
use crate::base::settings::{Settings, misspelt_here};
use crate::base::startup::{Ledger, Phase};
use crate::engine::describe::{self, OwnNames};
use crate::engine::{Engine, Parts};
use crate::lane;
use crate::system::bootstrap::{self, AfterFinalize, Bootstrap};
use crate::system::output;
use crate::system::port::Sockets;
use crate::system::rcu::{Held, Published};

/// What the layer above does for an instance.
pub struct Host {
    /// Returns the name of the procedure that the calling thread is in, for reports.
    pub(crate) label: fn() -> &'static str,
    /// Finds the names of communicators, by their contexts.
    pub(crate) names: fn() -> OwnNames,
    /// The instance has come to rest, or has got a thread: [`Lifetime::close_at_rest`] is to be called when the process exits.
    pub(crate) at_rest: fn(),
}

impl Host {
    /// For a program that needs nothing of this: it calls [`Lifetime::close_at_rest`] at its end.
    pub const PLAIN: Host = Host {
        label: || "the program",
        names: || Box::new(describe::bare),
        at_rest: || {},
    };
}

/// How far the World Model has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Stage {
    /// Before Init.
    Before,
    /// Between Init and Finalize.
    Running,
    /// After Finalize.
    Finalized,
}

/// What a process needs for MPI, its *instance*, from its making to its end. It is made when the first of the World Model and the
/// sessions comes, rests when the last of them has gone, and is there again for the next one. A program has one such value, for as
/// long as it runs.
pub struct Lifetime {
    host: Host,
    /// The instance while it has users: what every procedure looks up.
    current: Published<Instance>,
    active: AtomicBool,
    /// See [`Lifetime::stage`].
    stage: AtomicU8,
    library: Mutex<Library>,
    /// Signalled when a session that had to wait may be initialized.
    decided: Condvar,
}

struct Library {
    instance: Option<Arc<Instance>>,
    /// The process that made it.
    owner: u32,
    users: Users,
}

impl Lifetime {
    /// Before the first user.
    pub const fn new(host: Host) -> Lifetime {
        Lifetime {
            host,
            current: Published::none(),
            active: AtomicBool::new(false),
            stage: AtomicU8::new(Stage::Before as u8),
            library: Mutex::new(Library {
                instance: None,
                owner: 0,
                users: Users::new(),
            }),
            decided: Condvar::new(),
        }
    }

    /// The instance, while it has users.
    #[inline]
    pub(crate) fn current(&self) -> Option<Arc<Instance>> {
        self.current.share()
    }

    /// The instance, while it has users, without counting a reference: while the result lives, the caller must not wait, and
    /// must not call a user's function.
    #[inline(always)]
    pub(crate) fn hold(&self) -> Option<Held<'_, Instance>> {
        self.current.hold()
    }

    /// Whether the instance has users.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    /// How far the World Model has come, which begins and ends once.
    #[inline]
    pub(crate) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Before,
            1 => Stage::Running,
            _ => Stage::Finalized,
        }
    }

    /// The World Model has come so far.
    pub(crate) fn set_stage(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Release);
    }

    /// The instance for one more user.
    pub(crate) fn acquire(&self, user: User) -> Result<Arc<Instance>> {
        let mut library = self.library.lock();
        // All processes are inside MPI_Finalize then, so this ends without any further call of theirs.
        self.decided
            .wait_while(&mut library, |library| !library.users.may_come());
        let instance = match &library.instance {
            Some(instance) => {
                let instance = instance.clone();
                if library.users.count() == 0 {
                    instance.resume(bootstrap::connect)?;
                }
                instance
            }
            None => {
                let instance = open(&self.host, library.users.incarnation())?;
                library.instance = Some(instance.clone());
                library.owner = std::process::id();
                instance
            }
        };
        library.users.come(user);
        if library.users.count() == 1 {
            instance.open_progress_thread(self.host.at_rest);
            self.publish(Some(instance.clone()));
            self.active.store(true, Ordering::Release);
        }
        Ok(instance)
    }

    fn publish(&self, instance: Option<Arc<Instance>>) {
        if let Some(before) = self.current.replace(instance) {
            drop(before.reclaim());
        }
    }

    /// Whether there are users besides the caller.
    pub(crate) fn has_other_users(&self) -> bool {
        self.library.lock().users.count() > 1
    }

    /// Whether a session has been initialized here.
    pub(crate) fn had_sessions(&self) -> bool {
        self.library.lock().users.had_sessions()
    }

    /// The same as the final answer in the vote on closing the instance, which [`Lifetime::release`] or [`Lifetime::go_on`] ends.
    pub(crate) fn last_word(&self) -> bool {
        self.library.lock().users.last_word()
    }

    /// The vote decided not to close the instance.
    pub(crate) fn go_on(&self) {
        self.library.lock().users.go_on();
        self.decided.notify_all();
    }

    /// A user no longer needs the instance. `close`: no process of the job has had a session.
    pub(crate) fn release(&self, close: bool) -> Result<()> {
        let mut library = self.library.lock();
        let left = self.leave(&mut library, close);
        drop(library);
        self.decided.notify_all();
        left
    }

    fn leave(&self, library: &mut Library, close: bool) -> Result<()> {
        let Some(instance) = &library.instance else {
            return Ok(());
        };
        let then = library
            .users
            .leave(close && instance.after_finalize() == AfterFinalize::Returns);
        if then == Then::GoesOn {
            return Ok(());
        }
        self.active.store(false, Ordering::Release);
        self.publish(None);
        instance.close_progress_thread();
        let ledger = instance.ledger();
        let told = ledger.time(Phase::Disconnect, || instance.take_leave());
        match then {
            Then::Closes => library.instance = None,
            _ => (self.host.at_rest)(),
        }
        told
    }

    /// The instance, at rest or not, if there is one and its lock is free.
    fn try_instance(&self) -> Option<Arc<Instance>> {
        self.library
            .try_lock_for(std::time::Duration::from_millis(100))?
            .instance
            .clone()
    }

    /// Closes an instance at rest, if there is one: the process is about to exit, and leaves no files behind. Of one that has users it only ends
    /// the thread ([`progress_thread`](super)), which must not run while libraries end. Does nothing in a
    /// child that the process has forked: the connections, descriptors and files are the parent's, which goes on using them.
    pub fn close_at_rest(&self) {
        if let Some(mut library) = self.library.try_lock()
            && library.owner == std::process::id()
        {
            if library.users.count() == 0 {
                library.instance = None;
            } else if let Some(instance) = &library.instance {
                instance.end_progress_thread();
            }
        }
    }

    /// Ends the job with a code (MPI 5.0 section 11.4.2): all processes that this one is connected with, and these are all of the
    /// job, before the World Model too. After it this process is connected with nobody, and ends alone. Its status is the low 8
    /// bits of the code. Why is said once: by the launcher if it tells the user such things, which Weft's does for the first
    /// rank that aborts, and by this process otherwise.
    ///
    /// C's buffers are written out. Nothing else runs: no destructors, and no functions that are registered for the exit.
    pub fn abort(&self, code: i32, text: &str) -> ! {
        let instance = self.try_instance();
        let rank = instance.as_ref().map(|instance| instance.job().rank);
        match instance {
            // At rest.
            Some(_) if self.stage() == Stage::Finalized && !self.is_active() => end(rank, None, code, text),
            // Not `lock`: the thread may hold it itself if something of ours failed inside.
            Some(instance) => match instance.try_bootstrap() {
                Some(mut bootstrap) => end(rank, Some(&mut **bootstrap), code, text),
                None => end(rank, None, code, text),
            },
            None if self.stage() == Stage::Before => match bootstrap::connect() {
                Ok(mut bootstrap) => end(rank, Some(&mut *bootstrap), code, text),
                Err(_) => end(rank, None, code, text),
            },
            None => end(rank, None, code, text),
        }
    }
}

/// Ends the job with a code: see [`Lifetime::abort`].
pub(super) fn end(rank: Option<u32>, mut bootstrap: Option<&mut dyn Bootstrap>, code: i32, text: &str) -> ! {
    let line = match rank {
        Some(rank) => format!("[weft] rank {rank}: {text}\n"),
        None => format!("[weft] {text}\n"),
    };
    // In one piece: a rank that is killed meanwhile, as others are when one aborts, leaves no half of a line.
    let say = || {
        let _ = std::io::stderr().write_all(line.as_bytes());
    };
    let told = bootstrap.as_ref().is_some_and(|bootstrap| bootstrap.tells_why());
    if !told {
        say();
    }
    // Here and not in the bindings, for a program without them can have parts in C, too.
    output::flush();
    // Weft's own launcher reads all before it ends.
    if !told
        && bootstrap
            .as_ref()
            .is_some_and(|bootstrap| bootstrap.descriptor().is_some())
    {
        let end = Instant::now() + output::TIME;
        output::wait_for_reader(&std::io::stdout(), end);
        output::wait_for_reader(&std::io::stderr(), end);
    }
    let asked = bootstrap
        .as_mut()
        .is_some_and(|bootstrap| bootstrap.abort(code, text));
    if told && !asked {
        say();
    }
    // SAFETY: ends the process without running destructors, which may belong to threads that still run.
    unsafe { libc::_exit(exit_status(code)) }
}

/// The exit status of a process that aborts with a code: its low 8 bits, as of a status that `main` returns. Only the code
/// 0 itself looks like success.
fn exit_status(code: i32) -> i32 {
    match code & 0xff {
        0 if code != 0 => 1,
        status => status,
    }
}

/// `Data` messages of one rendezvous message under way: enough to keep any network busy, and few of a lane's buffers.
const WINDOW: u32 = 32;

fn open(host: &Host, incarnation: u32) -> Result<Arc<Instance>> {
    let settings = Settings::read(|name| std::env::var(name).ok())?;
    let ledger = Arc::new(Ledger::new(settings.report.startup));
    let bootstrap = ledger.time(Phase::Connect, bootstrap::connect)?;
    let job = bootstrap.job().clone();
    if let Some(why) = job
        .layout_unknown
        .as_ref()
        .filter(|_| settings.report.transports && job.rank == 0)
    {
        eprintln!("[weft] {why}: the ranks have told each other where they are");
    }
    // Weft's launcher has printed the reason.
    if job.rank == 0 && !bootstrap.tells_why() {
        static TOLD: std::sync::Once = std::sync::Once::new();
        TOLD.call_once(|| misspelt_here().iter().for_each(|line| eprintln!("[weft] {line}")));
    }
    let selection = Arc::new(Selection::of_file(settings.collectives.as_deref())?);
    let policy = Policy::new(&settings, &job);
    let lanes = lane::choose::open(&settings, &job, policy.spins(), random::number()?, &ledger)?;
    let engine = Engine::new(Parts {
        me: job.name(),
        size: job.size,
        token: random::number()?,
        agreed: u64::from(hosts::digest(&job, &settings)) | u64::from(selection.digest()) << 32,
        lanes,
        eager_max: (settings.eager_max != 0).then_some(settings.eager_max as usize),
        rma: settings.rma,
        first_generation: incarnation,
        window: WINDOW,
        unexpected_max: settings.unexpected_max,
    });
    let instance = Instance::new(
        engine,
        bootstrap,
        Box::new(Sockets),
        settings,
        selection,
        policy,
        incarnation,
        ledger,
    )?;
    instance.set_label(host.label);
    instance.set_names(host.names);
    Ok(instance)
}
