//! Chapter 11: starting and ending. The state of the process that the C bindings serve: the one instance ([`Lifetime`]), and the
//! World Model.
//!
//! What does not belong here: the steps of starting, ending and aborting (`instance`, `objects::world`, `objects::session`).

mod dynamic;
pub mod session;

use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::abi::common::arguments::give;
use crate::abi::common::calls;
use crate::abi::common::check;
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, early_communicator};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::base::error::{Error, Result};
use crate::engine::buffered::SendBuffer;
use crate::err;
use crate::instance::{self, Instance, Lifetime, Stage};
use crate::objects::errhandler::Errhandler;
use crate::objects::world::{self, World, WorldModel};
use crate::system::bootstrap::pmi1::ENV_INITIAL_ERRHANDLER;
use crate::system::lock::this_thread;
use crate::system::rcu::Held;

/// The instance, from its making to its end.
pub static LIFETIME: Lifetime = Lifetime::new(instance::Host {
    label: calls::current_procedure,
    names: objects::names_of_communicators,
    at_rest: close_at_exit,
});
static WORLD_MODEL: WorldModel = WorldModel::new();
/// The level that Init provided.
static THREAD_LEVEL: AtomicI32 = AtomicI32::new(MPI_THREAD_SINGLE);

/// How far the World Model has come.
#[inline]
pub fn stage() -> Stage {
    LIFETIME.stage()
}

/// What there is between Init and Finalize, if it is now.
pub fn running_world() -> Option<Arc<World>> {
    WORLD_MODEL.world()
}

/// What there is between Init and Finalize.
#[inline]
pub fn world() -> Result<Arc<World>> {
    running_world().ok_or_else(|| match is_active() {
        true => no_world("the procedure"),
        false => not_running(),
    })
}

/// Whether the World Model or a session is initialized.
#[inline(always)]
pub fn is_active() -> bool {
    LIFETIME.is_active()
}

/// The instance, while the World Model or a session is initialized.
#[inline]
pub fn instance() -> Result<Arc<Instance>> {
    LIFETIME.current().ok_or_else(not_running)
}

/// The same without a reference of its own: see [`Lifetime::hold`].
#[inline(always)]
pub fn hold_instance() -> Result<Held<'static, Instance>> {
    LIFETIME.hold().ok_or_else(not_running)
}

/// There is neither the World Model nor a session.
#[cold]
pub fn not_running() -> Error {
    match stage() {
        Stage::Before => err!(Other, "called before MPI_Init, and no session is initialized"),
        _ => err!(Other, "called after MPI_Finalize, and no session is initialized"),
    }
}

/// There are sessions, but no World Model, of which `what` is a part.
#[cold]
fn no_world(what: &str) -> Error {
    let (when, left) = match stage() {
        Stage::Before => ("before MPI_Init", "is initialized"),
        _ => ("after MPI_Finalize", "is still initialized"),
    };
    err!(
        Other,
        "called {when}: a session {left}, but {what} belongs to the World Model"
    )
}

/// `MPI_COMM_WORLD` or `MPI_COMM_SELF`, where they are not: by what is missing.
#[cold]
pub fn no_predefined_communicator(name: &str) -> Error {
    match is_active() {
        true => no_world(&format!(
            "the communicator {name} (a session's are made by MPI_Comm_create_from_group)"
        )),
        false => not_running(),
    }
}

/// The handler that counts while no object has one: `mpiexec -initial-errhandler` sets it.
pub fn initial_errhandler() -> Errhandler {
    match std::env::var(ENV_INITIAL_ERRHANDLER).as_deref() {
        Ok("mpi_errors_return") => Errhandler::Return,
        Ok("mpi_errors_abort") => Errhandler::Abort,
        _ => Errhandler::AreFatal,
    }
}

/// What was left at rest is closed when the process exits. Here, because the C library calls a function without an argument, which
/// only finds what is the process's.
fn close_at_exit() {
    static REGISTERED: std::sync::Once = std::sync::Once::new();
    extern "C" fn close() {
        LIFETIME.close_at_rest();
    }
    REGISTERED.call_once(|| {
        // SAFETY: the function takes nothing and unwinds nowhere.
        let _: c_int = unsafe { libc::atexit(close) };
    });
}

/// What the bindings do for the World Model.
struct Bindings {
    /// The level that Init provides.
    thread_level: c_int,
}

impl world::Host for Bindings {
    fn begins(&self, world: &World) {
        THREAD_LEVEL.store(self.thread_level, Ordering::Relaxed);
        for (communicator, handle, name) in [
            (&world.world, MPI_COMM_WORLD, "MPI_COMM_WORLD"),
            (&world.alone, MPI_COMM_SELF, "MPI_COMM_SELF"),
        ] {
            communicator.handle().store(handle, Ordering::Relaxed);
            *communicator.errhandler().lock() = initial_errhandler();
            objects::COMMUNICATORS.define(handle, Some(communicator.clone()));
            *communicator.name().lock() = name.into();
        }
        if let Some(parent) = &world.parent {
            *parent.errhandler().lock() = initial_errhandler();
            *parent.name().lock() = "MPI_COMM_PARENT".into();
            // There is room for the first one.
            let _ = objects::new_communicator(Some(parent.clone()));
        }
    }

    /// Section 11.2.4: the delete callbacks of `MPI_COMM_SELF` come first, with all of MPI still there. Those of
    /// `MPI_COMM_WORLD`, which nothing else can free, follow.
    fn calls_back(&self, world: &World) -> Result<()> {
        loop {
            world.alone.attributes().delete_all(MPI_COMM_SELF)?;
            world.world.attributes().delete_all(MPI_COMM_WORLD)?;
            // A callback may have set another one.
            if world.alone.attributes().is_empty() {
                // Section 11.2.2: MPI_COMM_SELF is gone, and with it its error handler.
                *world.alone.errhandler().lock() = initial_errhandler();
                return Ok(());
            }
        }
    }

    fn takes_buffers(&self) -> Vec<Arc<SendBuffer>> {
        objects::take_buffers(0)
    }

    fn points_out_what_is_left(&self, instance: &Instance) {
        check::point_out_what_is_left(instance);
    }

    fn points_out_untaken(&self, instance: &Instance, untaken: Vec<String>) {
        check::point_out(instance, "message", "not received", untaken);
    }

    fn ends(&self) {
        for handle in [MPI_COMM_WORLD, MPI_COMM_SELF] {
            objects::COMMUNICATORS.define(handle, None);
        }
        objects::forget_session(0);
    }
}

/// Starts the World Model.
fn initialize(thread_level: c_int) -> Result<()> {
    let several_threads = thread_level == MPI_THREAD_MULTIPLE;
    WORLD_MODEL.initialize_with(&LIFETIME, several_threads, &Bindings { thread_level })
}

/// Ends the World Model.
fn finalize() -> Result<()> {
    world()?;
    let thread_level = THREAD_LEVEL.load(Ordering::Relaxed);
    WORLD_MODEL.finalize_with(&LIFETIME, &Bindings { thread_level })
}

/// The thread levels that may be asked for, and what is given for them.
fn thread_level(required: c_int) -> Result<c_int> {
    match required {
        MPI_THREAD_SINGLE | MPI_THREAD_FUNNELED | MPI_THREAD_SERIALIZED | MPI_THREAD_MULTIPLE => Ok(required),
        _ => Err(err!(
            Arg,
            "required is {required}, which is none of MPI_THREAD_SINGLE ({MPI_THREAD_SINGLE}), \
             MPI_THREAD_FUNNELED ({MPI_THREAD_FUNNELED}), MPI_THREAD_SERIALIZED ({MPI_THREAD_SERIALIZED}) and \
             MPI_THREAD_MULTIPLE ({MPI_THREAD_MULTIPLE})"
        )),
    }
}

mpi! {
    /// Section 11.2.1. The arguments are left alone: everything comes from the environment.
    small fn MPI_Init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) always {
        initialize(MPI_THREAD_SINGLE)
    }

    /// Section 11.6.2.
    small fn MPI_Init_thread(
        _argc: *mut c_int,
        _argv: *mut *mut *mut c_char,
        required: c_int,
        provided: *mut c_int,
    ) always {
        let level = thread_level(required)?;
        initialize(level)?;
        // SAFETY: null or an `int` of the user's.
        unsafe { give(provided, level, "provided") }
    }

    /// Section 11.6.2.
    small fn MPI_Query_thread(provided: *mut c_int) local {
        world()?;
        // SAFETY: null or an `int` of the user's.
        unsafe { give(provided, THREAD_LEVEL.load(Ordering::Relaxed), "provided") }
    }

    /// Section 11.6.2.
    small fn MPI_Is_thread_main(flag: *mut c_int) local {
        let is_main = world()?.main_thread == this_thread();
        // SAFETY: null or an `int` of the user's.
        unsafe { give(flag, is_main.into(), "flag") }
    }

    /// Section 11.4.
    small fn MPI_Initialized(flag: *mut c_int) always {
        // SAFETY: null or an `int` of the user's.
        unsafe { give(flag, (stage() != Stage::Before).into(), "flag") }
    }

    /// Section 11.4.
    small fn MPI_Finalized(flag: *mut c_int) always {
        // SAFETY: null or an `int` of the user's.
        unsafe { give(flag, (stage() == Stage::Finalized).into(), "flag") }
    }

    /// Section 11.2.2.
    small fn MPI_Finalize() local {
        finalize()
    }

    /// Section 11.4.2. It ends the process at any time, for whoever calls it does not want to go on.
    small fn MPI_Abort(comm: MPI_Comm, errorcode: c_int) always {
        let place = match (early_communicator(comm), stage()) {
            (Ok(comm), _) => format!("on {}", objects::name_of_communicator(&comm)),
            (Err(_), Stage::Before) => "before MPI_Init".into(),
            (Err(_), Stage::Running) => "on an invalid communicator".into(),
            (Err(_), Stage::Finalized) => "after MPI_Finalize".into(),
        };
        LIFETIME.abort(errorcode, &format!("MPI_Abort with code {errorcode} {place}"))
    }
}
