//! The lifetime of the instance. It is made when the first of the World Model and the sessions is initialized, and comes
//! to rest when the last of them is finalized: the launcher is told that the process may exit, but peers can still send
//! to it, and a later session finds it unchanged and can use it at once. It is closed
//!
//! - by `MPI_Finalize`, if no process of the job has had a session: all processes close theirs together, so the next
//!   session of each makes one of the same incarnation ([`Users`]). This is done only where the launcher accepts the
//!   process again ([`AfterFinalize`]): other launchers give no further business cards, or not before all processes have
//!   come to a fence;
//! - when the process exits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};

use super::{Instance, Policy, Then, User, Users};
use crate::base::error::Result;
use crate::base::random;
use crate::base::settings::{Settings, misspelt_here};
use crate::base::startup::{Ledger, Phase};
use crate::engine::describe::{self, OwnNames};
use crate::engine::{Engine, Parts};
use crate::lane;
use crate::system::bootstrap::{self, AfterFinalize};
use crate::system::rcu::{Held, Published};

/// What the layer above does for an instance.
pub struct Host {
    /// Returns the name of the procedure that the calling thread is in, for reports.
    pub label: fn() -> &'static str,
    /// Finds the names of communicators, by their contexts.
    pub names: fn() -> OwnNames,
    /// Called when an instance rests for the first time: [`Lifetime::close_at_rest`] is to be called when the process exits.
    pub at_rest: fn(),
}

impl Host {
    /// For a program that needs nothing of this: it calls [`Lifetime::close_at_rest`] at its end.
    pub const PLAIN: Host = Host {
        label: || "the program",
        names: || Box::new(describe::bare),
        at_rest: || {},
    };
}

/// The instance of a process, from its making to its end. See the module.
pub struct Lifetime {
    host: Host,
    /// The instance while it has users: what every procedure looks up.
    current: Published<Instance>,
    active: AtomicBool,
    library: Mutex<Library>,
    /// Signalled when a session that had to wait may be initialized.
    decided: Condvar,
}

struct Library {
    instance: Option<Arc<Instance>>,
    users: Users,
}

impl Lifetime {
    /// Before the first user.
    pub const fn new(host: Host) -> Lifetime {
        Lifetime {
            host,
            current: Published::none(),
            active: AtomicBool::new(false),
            library: Mutex::new(Library {
                instance: None,
                users: Users::new(),
            }),
            decided: Condvar::new(),
        }
    }

    /// The instance, while it has users.
    #[inline]
    pub fn current(&self) -> Option<Arc<Instance>> {
        self.current.share()
    }

    /// The instance, while it has users, without counting a reference: while the result lives, the caller must not wait, and
    /// must not call a user's function.
    #[inline(always)]
    pub fn hold(&self) -> Option<Held<'_, Instance>> {
        self.current.hold()
    }

    /// Whether the instance has users.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    /// The instance for one more user.
    pub fn acquire(&self, user: User) -> Result<Arc<Instance>> {
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
                instance
            }
        };
        library.users.come(user);
        if library.users.count() == 1 {
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
    pub fn has_other_users(&self) -> bool {
        self.library.lock().users.count() > 1
    }

    /// Whether a session has been initialized here.
    pub fn had_sessions(&self) -> bool {
        self.library.lock().users.had_sessions()
    }

    /// The same as the final answer in the vote on closing the instance, which [`Lifetime::release`] or [`Lifetime::go_on`] ends.
    pub fn last_word(&self) -> bool {
        self.library.lock().users.last_word()
    }

    /// The vote decided not to close the instance.
    pub fn go_on(&self) {
        self.library.lock().users.go_on();
        self.decided.notify_all();
    }

    /// A user no longer needs the instance. `close`: no process of the job has had a session.
    pub fn release(&self, close: bool) -> Result<()> {
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
        let ledger = instance.ledger();
        let told = ledger.time(Phase::Disconnect, || instance.take_leave());
        match then {
            Then::Closes => library.instance = None,
            _ => (self.host.at_rest)(),
        }
        told
    }

    /// The instance, at rest or not, if there is one and its lock is free.
    pub fn try_instance(&self) -> Option<Arc<Instance>> {
        self.library
            .try_lock_for(std::time::Duration::from_millis(100))?
            .instance
            .clone()
    }

    /// Closes an instance at rest, if there is one: the process is about to exit, and leaves no files behind.
    pub fn close_at_rest(&self) {
        if let Some(mut library) = self.library.try_lock()
            && library.users.count() == 0
        {
            library.instance = None;
        }
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
    let policy = Policy::new(&settings, &job);
    let lanes = lane::choose::open(&settings, &job, policy.spins(), random::number()?, &ledger)?;
    let engine = Engine::new(Parts {
        me: job.name(),
        size: job.size,
        token: random::number()?,
        lanes,
        eager_max: (settings.eager_max != 0).then_some(settings.eager_max as usize),
        rma: settings.rma,
        first_generation: incarnation,
        window: WINDOW,
        unexpected_max: settings.unexpected_max,
    });
    let instance = Instance::new(engine, bootstrap, settings, policy, incarnation, ledger)?;
    instance.set_label(host.label);
    instance.set_names(host.names);
    Ok(instance)
}
