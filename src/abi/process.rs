//! The state of the process: the one instance that the C bindings serve, and what happens to errors. This is the only
//! process-wide state of Weft.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use super::check;
use super::constants::*;
use super::errors;
use super::library;
use super::objects;
use super::types::{ErrhandlerFunction, MPI_Comm, MPI_File, MPI_Session, MPI_Win};
use crate::bootstrap::{self, Bootstrap};
use crate::collective;
use crate::communicator::Communicator;
use crate::engine::Engine;
use crate::engine::describe::Names;
use crate::err;
use crate::errhandler::{Errhandler, UserHandler};
use crate::error::{Error, Result};
use crate::instance::Instance;
use crate::lock::{MappedMutexGuard, this_thread};
use crate::output;
use crate::startup::Phase;
use crate::transports::{self, Ways};

/// How far the World Model (MPI 5.0 section 11.2) has come.
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

static STAGE: AtomicU8 = AtomicU8::new(Stage::Before as u8);
static WORLD: RwLock<Option<Arc<World>>> = RwLock::new(None);

/// What there is between Init and Finalize.
pub struct World {
    /// The instance.
    pub instance: Arc<Instance>,
    /// `MPI_COMM_WORLD`
    pub world: Arc<Communicator>,
    /// `MPI_COMM_SELF`
    pub alone: Arc<Communicator>,
    /// The level that Init provided.
    pub thread_level: c_int,
    /// The thread that called Init.
    pub main_thread: usize,
}

/// How far the World Model has come.
#[inline]
pub fn stage() -> Stage {
    match STAGE.load(Ordering::Acquire) {
        0 => Stage::Before,
        1 => Stage::Running,
        _ => Stage::Finalized,
    }
}

/// What there is between Init and Finalize.
#[inline]
pub fn world() -> Result<Arc<World>> {
    WORLD.read().clone().ok_or_else(|| match library::is_active() {
        true => no_world("the procedure"),
        false => not_running(),
    })
}

/// The instance, while the World Model or a session is initialised.
#[inline]
pub fn instance() -> Result<Arc<Instance>> {
    library::current().ok_or_else(not_running)
}

/// The same without a reference of its own: see [`library::hold`].
#[inline(always)]
pub fn hold_instance() -> Result<MappedMutexGuard<'static, Arc<Instance>>> {
    library::hold().ok_or_else(not_running)
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
    match library::is_active() {
        true => no_world(&format!(
            "the communicator {name} (a session's are made by MPI_Comm_create_from_group)"
        )),
        false => not_running(),
    }
}

thread_local! {
    /// The procedure that the thread called last: a report of a hang names it.
    static PROCEDURE: Cell<&'static str> = const { Cell::new("no procedure") };
}

/// The same of the thread that calls first, which is spared the way to the thread-local memory of a shared library: which thread it
/// is, and the name, whose two words only that thread reads and writes.
static FIRST_THREAD: AtomicUsize = AtomicUsize::new(0);
static FIRST_PROCEDURE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static FIRST_PROCEDURE_LEN: AtomicUsize = AtomicUsize::new(0);

/// Notes which procedure the thread calls.
#[inline(always)]
fn enter(name: &'static str) {
    if FIRST_THREAD.load(Ordering::Relaxed) == this_thread() {
        FIRST_PROCEDURE.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
        FIRST_PROCEDURE_LEN.store(name.len(), Ordering::Relaxed);
    } else {
        enter_first_or_later(name);
    }
}

#[inline(never)]
fn enter_first_or_later(name: &'static str) {
    let first = FIRST_THREAD.compare_exchange(0, this_thread(), Ordering::Relaxed, Ordering::Relaxed);
    match first {
        Ok(_) => enter(name),
        Err(_) => PROCEDURE.set(name),
    }
}

/// The procedure that the thread called last.
pub fn current_procedure() -> &'static str {
    let (name, len) = (
        FIRST_PROCEDURE.load(Ordering::Relaxed),
        FIRST_PROCEDURE_LEN.load(Ordering::Relaxed),
    );
    if FIRST_THREAD.load(Ordering::Relaxed) != this_thread() || name.is_null() {
        return PROCEDURE.get();
    }
    // SAFETY: both words are this thread's, and of one text in `enter`, which is never freed.
    unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(name, len)) }
}

/// Runs a procedure whose errors go to a communicator's handler.
#[inline(always)]
pub fn comm(handle: MPI_Comm, name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    run(name, body, |name, error| {
        raise(objects::early_communicator(handle).ok().as_deref(), name, error)
    })
}

/// Runs a procedure whose errors go to the handler of `MPI_COMM_SELF`.
#[inline(always)]
pub fn local(name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    run(name, body, |name, error| {
        let communicator = objects::communicator_of_context(error.context);
        raise(communicator.as_deref(), name, error)
    })
}

/// Runs a procedure whose errors go to a session's handler.
pub fn session(handle: MPI_Session, name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    enter(name);
    // While there is a session MPI runs, and where it does not run the argument is what is wrong.
    match body() {
        Ok(()) => MPI_SUCCESS,
        Err(error) => match objects::session(handle) {
            Ok(session) => {
                let handler = session.errhandler().lock().clone();
                raise_to(&handler, handle, " on a session", name, error)
            }
            Err(_) => raise(None, name, error),
        },
    }
}

/// Runs a procedure whose errors go to a window's handler.
pub fn win(handle: MPI_Win, name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    run(name, body, |name, error| match objects::window(handle) {
        Ok(window) => {
            let handler = window.errhandler().lock().clone();
            let place = format!(" on {}", objects::name_of_window(&window));
            raise_to(&handler, handle, &place, name, error)
        }
        Err(_) => raise(None, name, error),
    })
}

/// The error handler of `MPI_FILE_NULL`, which new files get, and errors where there is no file (section 14.7).
pub static FILE_ERRHANDLER: Mutex<Errhandler> = Mutex::new(Errhandler::Return);

/// Runs a procedure whose errors go to a file's handler.
pub fn file(handle: MPI_File, name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    run(name, body, |name, error| match objects::file(handle) {
        Ok(file) => {
            let handler = file.errhandler().lock().clone();
            let place = format!(" on {}", file.describe());
            raise_to(&handler, handle, &place, name, error)
        }
        Err(_) => raise_without_file(name, error),
    })
}

/// Runs a procedure that concerns files, but has none whose handler could get its errors.
pub fn no_file(name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    run(name, body, raise_without_file)
}

#[cold]
fn raise_without_file(name: &'static str, error: Error) -> c_int {
    if error.raised || !library::is_active() {
        return raise(None, name, error);
    }
    let handler = FILE_ERRHANDLER.lock().clone();
    raise_to(&handler, MPI_FILE_NULL, "", name, error)
}

/// Runs a procedure that may be called at any time.
#[inline(always)]
pub fn always(name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    enter(name);
    match body() {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise(None, name, error),
    }
}

#[inline(always)]
fn run(
    name: &'static str,
    body: impl FnOnce() -> Result<()>,
    failed: impl FnOnce(&'static str, Error) -> c_int,
) -> c_int {
    enter(name);
    if !library::is_active() {
        return failed(name, not_running());
    }
    match body() {
        Ok(()) => MPI_SUCCESS,
        Err(error) => failed(name, error),
    }
}

/// Hands an error to a communicator's error handler, or to the one of `MPI_COMM_SELF` (before Init and after
/// Finalize: the initial one), and gives the code to return.
#[cold]
pub fn raise(communicator: Option<&Communicator>, name: &'static str, error: Error) -> c_int {
    if error.raised {
        return error.code.unwrap_or(error.class as c_int);
    }
    let world = WORLD.read().clone();
    let communicator = communicator.or_else(|| world.as_deref().map(|world| &*world.alone));
    match communicator {
        Some(communicator) => {
            let handler = communicator.errhandler().lock().clone();
            let place = format!(" on {}", objects::name_of_communicator(communicator));
            raise_to(
                &handler,
                objects::handle_of_communicator(communicator),
                &place,
                name,
                error,
            )
        }
        None => raise_to(&initial_errhandler(), MPI_COMM_NULL, "", name, error),
    }
}

/// Hands an error to the handler of a communicator at once, where the procedure's arguments do not name it. What comes back
/// goes nowhere else.
#[cold]
pub fn raise_at(communicator: &Communicator, name: &'static str, error: Error) -> Error {
    let code = raise(Some(communicator), name, error.clone());
    Error {
        code: Some(code),
        raised: true,
        ..error
    }
}

/// Hands an error to a handler at once, where that is not the handler of an object. What comes back goes nowhere else.
#[cold]
pub fn raise_with(handler: &Errhandler, object: usize, name: &'static str, error: Error) -> Error {
    let code = raise_to(handler, object, "", name, error.clone());
    Error {
        code: Some(code),
        raised: true,
        ..error
    }
}

/// Hands an error to a handler, and gives the code to return: a handler of the user's may change it (section 9.3). Where several
/// requests were ended it gets the code of the one that failed; unless it changes that, the call returns its own.
#[cold]
fn raise_to(handler: &Errhandler, object: usize, place: &str, name: &'static str, error: Error) -> c_int {
    let code = errors::code_of(name, &error);
    match handler {
        Errhandler::Return => {}
        Errhandler::User(handler) => {
            let given = error.in_status.unwrap_or(code);
            let after = call_handler(handler, object, given);
            if after != given {
                return after;
            }
        }
        Errhandler::AreFatal | Errhandler::Abort => {
            let class = errors::class_of(code).unwrap_or(error.class as c_int);
            end_job(
                class,
                &format!("{name}: {error} ({}{place})", errors::class_name(class)),
            );
        }
    }
    code
}

/// Calls an object's handler with a code of the user's. The call has done what it is for whatever the handler makes of that code
/// (section 9.5).
pub fn call(handler: &Errhandler, object: usize, name: &str, code: c_int) {
    match handler {
        Errhandler::Return => {}
        Errhandler::User(handler) => {
            call_handler(handler, object, code);
        }
        Errhandler::AreFatal | Errhandler::Abort => {
            let text = errors::text_of(code).unwrap_or_else(|| format!("error code {code}"));
            end_job(code, &format!("{name}: {text}"));
        }
    }
}

/// Calls an error handler of the user's, and gives the code as it left it; no lock of ours is held.
fn call_handler(handler: &UserHandler, mut object: usize, mut code: c_int) -> c_int {
    // SAFETY: the user gave the address as that of an error handler function.
    let function = unsafe { std::mem::transmute::<usize, ErrhandlerFunction>(handler.function) };
    // SAFETY: the function takes the addresses of a handle and of a code; both are ours during the call.
    unsafe { function(&mut object, &mut code) };
    code
}

/// The handler that counts while no object has one: `mpiexec -initial-errhandler` sets it.
pub fn initial_errhandler() -> Errhandler {
    match std::env::var("WEFT_LAUNCH_INITIAL_ERRHANDLER").as_deref() {
        Ok("mpi_errors_return") => Errhandler::Return,
        Ok("mpi_errors_abort") => Errhandler::Abort,
        _ => Errhandler::AreFatal,
    }
}

/// Ends the job with a code (MPI 5.0 section 11.4.2): all processes that this one is connected with, and these are all of the
/// job, before Init too. After Finalize it is connected with nobody, and ends alone. Why is said once: by the launcher if it tells
/// the user such things, which Weft's does for the first rank that aborts, and by this process otherwise.
pub fn end_job(code: c_int, text: &str) -> ! {
    let rank = library::try_instance().map(|instance| instance.job().rank);
    let line = match rank {
        Some(rank) => format!("[weft] rank {rank}: {text}\n"),
        None => format!("[weft] {text}\n"),
    };
    // In one piece: a rank that is killed meanwhile, as others are when one aborts, leaves no half of a line.
    let say = || {
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    };
    let end = |mut bootstrap: Option<&mut dyn Bootstrap>| {
        let told = bootstrap.as_ref().is_some_and(|bootstrap| bootstrap.tells_why());
        if !told {
            say();
        }
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
    };
    match library::try_instance() {
        // At rest.
        Some(_) if stage() == Stage::Finalized && !library::is_active() => end(None),
        // Not `lock`: the thread may hold it itself if something of ours failed inside.
        Some(instance) => match instance.try_bootstrap() {
            Some(mut bootstrap) => end(Some(&mut **bootstrap)),
            None => end(None),
        },
        None if stage() == Stage::Before => match bootstrap::connect() {
            Ok(mut bootstrap) => end(Some(&mut *bootstrap)),
            Err(_) => end(None),
        },
        None => end(None),
    }
    // SAFETY: ends the process without running destructors, which may belong to threads that still run.
    unsafe { libc::_exit(errors::exit_status(code)) }
}

/// Starts the World Model.
pub fn initialise(thread_level: c_int) -> Result<()> {
    static INITIALISING: Mutex<()> = Mutex::new(());
    let start = Instant::now();
    let _guard = INITIALISING.lock();
    match stage() {
        Stage::Before => {}
        Stage::Running => return Err(err!(Other, "MPI has been initialised already")),
        Stage::Finalized => {
            return Err(err!(
                Other,
                "the World Model can't be initialised again after MPI_Finalize"
            ));
        }
    }
    let instance = library::acquire(library::User::World)?;
    if thread_level == MPI_THREAD_MULTIPLE {
        instance.engine().set_several_threads();
    }
    let world = Arc::new(World {
        world: Communicator::world(&instance),
        alone: Communicator::alone(&instance),
        instance,
        thread_level,
        main_thread: this_thread(),
    });
    for (communicator, handle) in [(&world.world, MPI_COMM_WORLD), (&world.alone, MPI_COMM_SELF)] {
        communicator.handle().store(handle, Ordering::Relaxed);
        *communicator.errhandler().lock() = initial_errhandler();
        objects::COMMUNICATORS.define(handle, Some(communicator.clone()));
    }
    *world.world.name().lock() = "MPI_COMM_WORLD".into();
    *world.alone.name().lock() = "MPI_COMM_SELF".into();
    let ledger = world.instance.ledger().clone();
    *WORLD.write() = Some(world);
    STAGE.store(Stage::Running as u8, Ordering::Release);
    ledger.end_init(start);
    Ok(())
}

/// What MPI_Finalize waits for, in words.
fn describe_finalize(instance: &Instance, engine: &Engine, names: Names) -> String {
    let under_way = engine.pending(names, |context| !Communicator::is_of_world(instance, context));
    let missing = Communicator::finalizing_waits_for(engine)
        .map(|from| collective::missing(engine.size(), engine.me().0, from))
        .unwrap_or_default();
    let mut text = match &missing[..] {
        [] if under_way.is_empty() => " for other ranks: not all have finished their communication".into(),
        [] => String::new(),
        [one] => format!(" for rank {one}, which has not called MPI_Finalize"),
        several => {
            let several: Vec<String> = several.iter().map(u32::to_string).collect();
            format!(
                " for other ranks: at least one of {} has not called MPI_Finalize",
                several.join(", ")
            )
        }
    };
    if !under_way.is_empty() {
        text += "; under way:";
    }
    for line in under_way {
        text += "\n  ";
        text += &line;
    }
    text
}

/// Whether a thread is inside MPI_Finalize.
static FINALIZING: AtomicBool = AtomicBool::new(false);

/// Ends the World Model (MPI 5.0 section 11.2.2): what the user has completed or freed leaves for good, everybody
/// comes to a barrier, and the way to others is closed.
///
/// # Errors
/// A delete callback's: MPI goes on. `MPI_ERR_OTHER` from inside a delete callback of MPI_Finalize, or where a process of the
/// job is gone.
pub fn finalise() -> Result<()> {
    let world = world()?;
    if FINALIZING.swap(true, Ordering::AcqRel) {
        return Err(err!(
            Other,
            "MPI_Finalize is running already: this call is from one of its callbacks, or from another thread"
        ));
    }
    let result = call_back(&world).and_then(|()| close(world));
    FINALIZING.store(false, Ordering::Release);
    result
}

/// Section 11.2.4: the delete callbacks of `MPI_COMM_SELF` come first, with all of MPI still there. Those of
/// `MPI_COMM_WORLD`, which nothing else can free, follow.
fn call_back(world: &World) -> Result<()> {
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

/// All of finalizing that is not the user's.
fn close(world: Arc<World>) -> Result<()> {
    let instance = &world.instance;
    let settings = instance.settings();
    let patience = Duration::from_secs(settings.finalize_report_s);
    instance.report_after((!patience.is_zero()).then_some(patience));
    // What the user did not detach is detached here. That its messages leave is a part of the end.
    let mut buffers = objects::take_buffers(0);
    for attachment in [
        world.world.attachment(),
        world.alone.attachment(),
        instance.attachment(),
    ] {
        buffers.extend(attachment.take());
    }
    if settings.check {
        check::point_out_what_is_left(instance);
    }
    let ledger = instance.ledger().clone();
    let start = Instant::now();
    ledger.begin_finalize();
    let check = settings.check.then_some(|untaken| {
        check::point_out(instance, "message", "not received", untaken);
    });
    instance.set_explanation(Some(describe_finalize));
    let report = settings.report;
    // Before Finalize's own messages.
    let ways = report.transports.then(|| Ways::of(instance).encode());
    let ending =
        Communicator::finalise_world(instance, library::had_sessions, library::last_word, check, ways);
    let ended = instance.block_on_turns(ending);
    if ended.is_ok() {
        // Only the process's buffer can still have messages, of sessions. One that was lost has nobody left to be told.
        let _ = instance.flush_all(&buffers);
    }
    instance.set_explanation(None);
    instance.report_after(None);
    let ended = ended.inspect_err(|_| library::go_on())?;
    STAGE.store(Stage::Finalized as u8, Ordering::Release);
    *WORLD.write() = None;
    for handle in [MPI_COMM_WORLD, MPI_COMM_SELF] {
        objects::COMMUNICATORS.define(handle, None);
    }
    objects::forget_session(0);
    let rank = instance.job().rank;
    library::release(!ended.sessions_left)?;
    // The last user of the instance, if `release` closed it.
    ledger.time(Phase::Close, || drop(world));
    let mut tables = String::new();
    if !ended.ways.is_empty() {
        let all: Vec<Option<Ways>> = (ended.ways.iter())
            .map(|text| Ways::decode(text, ended.ways.len()))
            .collect();
        tables += &transports::table(&all, report.all);
    }
    if let Some(table) = ledger
        .end_finalize(start, rank)
        .filter(|_| rank == 0 || report.all)
    {
        tables += &table;
    }
    // At once, so that the tables of several ranks do not mix.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), tables.as_bytes());
    Ok(())
}
