//! The lifetime of the instance. It is made when the first of the World Model and the sessions is initialised, and
//! comes to rest when the last of them is finalised: the launcher is told that the process may exit, but peers can
//! still send to it, and a later session finds it as it was, at once. It is closed
//!
//! - by `MPI_Finalize`, if no process of the job has had a session: all close theirs together, so that the next
//!   session of each makes one of the same incarnation ([`Users`]). Only where the launcher takes the process up again
//!   ([`Parting`]): a foreign one shows no further address cards, or not before all processes have come to a fence;
//! - when the process exits.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::{Condvar, Mutex};

use super::process;
use crate::bootstrap::{self, Parting};
use crate::engine::{Engine, Parts};
use crate::error::Result;
use crate::instance::{Instance, Policy, Then, Users};
use crate::lane::{self, ProcId};
use crate::lock::{self, MappedMutexGuard, MutexGuard};
use crate::random;
use crate::settings::{Settings, misspelt_here};
use crate::startup::{Ledger, Phase};

pub use crate::instance::User;

/// The instance while it has users: what every procedure looks up.
static CURRENT: lock::Mutex<Option<Arc<Instance>>> = lock::Mutex::new(None);
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// The instance, while it has users.
#[inline]
pub fn current() -> Option<Arc<Instance>> {
    CURRENT.lock().clone()
}

/// The instance, while it has users, without a reference of its own: until the result is dropped nobody else gets at it from
/// here. So there must be no waiting meanwhile, and no call of a user's function.
#[inline(always)]
pub fn hold() -> Option<MappedMutexGuard<'static, Arc<Instance>>> {
    MutexGuard::try_map(CURRENT.lock(), Option::as_mut).ok()
}

/// Whether the instance has users.
#[inline]
pub fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

struct Library {
    instance: Option<Arc<Instance>>,
    users: Users,
}

static LIBRARY: Mutex<Library> = Mutex::new(Library {
    instance: None,
    users: Users::new(),
});

/// A session that had to wait may come.
static DECIDED: Condvar = Condvar::new();

/// The instance for one more user.
pub fn acquire(user: User) -> Result<Arc<Instance>> {
    let mut library = LIBRARY.lock();
    // All processes are inside MPI_Finalize then, so this ends without any call of theirs.
    DECIDED.wait_while(&mut library, |library| !library.users.may_come());
    let instance = match &library.instance {
        Some(instance) => {
            let instance = instance.clone();
            if library.users.count() == 0 {
                instance.resume(bootstrap::connect)?;
            }
            instance
        }
        None => {
            let instance = open(library.users.incarnation())?;
            library.instance = Some(instance.clone());
            instance
        }
    };
    library.users.come(user);
    if library.users.count() == 1 {
        *CURRENT.lock() = Some(instance.clone());
        ACTIVE.store(true, Ordering::Release);
    }
    Ok(instance)
}

/// Whether there are users besides the caller.
pub fn has_other_users() -> bool {
    LIBRARY.lock().users.count() > 1
}

/// Whether a session has been initialised here.
pub fn had_sessions() -> bool {
    LIBRARY.lock().users.had_sessions()
}

/// The same as the last word in the vote on closing the instance, which [`release`] or [`go_on`] ends.
pub fn last_word() -> bool {
    LIBRARY.lock().users.last_word()
}

/// The vote on closing the instance came to nothing.
pub fn go_on() {
    LIBRARY.lock().users.go_on();
    DECIDED.notify_all();
}

/// A user needs the instance no more. `close`: no process of the job has had a session.
pub fn release(close: bool) -> Result<()> {
    let mut library = LIBRARY.lock();
    let left = leave(&mut library, close);
    drop(library);
    DECIDED.notify_all();
    left
}

fn leave(library: &mut Library, close: bool) -> Result<()> {
    let Some(instance) = &library.instance else {
        return Ok(());
    };
    let then = library
        .users
        .leave(close && instance.parting() == Parting::Returns);
    if then == Then::GoesOn {
        return Ok(());
    }
    ACTIVE.store(false, Ordering::Release);
    *CURRENT.lock() = None;
    let ledger = instance.ledger();
    let told = ledger.time(Phase::Leave, || instance.take_leave());
    match then {
        Then::Closes => library.instance = None,
        _ => close_at_exit(),
    }
    told
}

/// The instance, at rest or not, if there is one and it can be had at once.
pub fn try_instance() -> Option<Arc<Instance>> {
    LIBRARY
        .try_lock_for(std::time::Duration::from_millis(100))?
        .instance
        .clone()
}

/// What was left at rest is closed when the process exits, so that it leaves no files behind. A child that it has forked inherits
/// the handler; the connections, descriptors and files are the parent's, which goes on using them.
fn close_at_exit() {
    static REGISTERED: std::sync::Once = std::sync::Once::new();
    static OWNER: AtomicU32 = AtomicU32::new(0);
    extern "C" fn close() {
        if OWNER.load(Ordering::Relaxed) != std::process::id() {
            return;
        }
        if let Some(mut library) = LIBRARY.try_lock()
            && library.users.count() == 0
        {
            library.instance = None;
        }
    }
    REGISTERED.call_once(|| {
        OWNER.store(std::process::id(), Ordering::Relaxed);
        // SAFETY: the function takes nothing and unwinds nowhere.
        let _: c_int = unsafe { libc::atexit(close) };
    });
}

/// `Data` messages of one rendezvous message under way: enough to fill any wire, and few of a lane's buffers.
const WINDOW: u32 = 32;

fn open(incarnation: u32) -> Result<Arc<Instance>> {
    let settings = Settings::read(|name| std::env::var(name).ok())?;
    let ledger = Arc::new(Ledger::new(settings.report.startup));
    let bootstrap = ledger.time(Phase::Greet, bootstrap::connect)?;
    let job = bootstrap.job().clone();
    if let Some(why) = job
        .layout_unknown
        .as_ref()
        .filter(|_| settings.report.transports && job.rank == 0)
    {
        eprintln!("[weft] {why}: the ranks have told each other where they are");
    }
    // Weft's launcher has told the user.
    if job.rank == 0 && !bootstrap.tells_why() {
        static TOLD: std::sync::Once = std::sync::Once::new();
        TOLD.call_once(|| misspelt_here().iter().for_each(|line| eprintln!("[weft] {line}")));
    }
    let policy = Policy::new(&settings, &job);
    let lanes = lane::choose::open(&settings, &job, policy.spins(), random::number()?, &ledger)?;
    let engine = Engine::new(Parts {
        me: ProcId(job.rank),
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
    instance.set_label(process::current_procedure);
    instance.set_names(super::objects::names_of_communicators);
    Ok(instance)
}
