//! The World Model (MPI 5.0 section 11.2): its state between `MPI_Init` and `MPI_Finalize`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use crate::base::error::{Error, Result};
use crate::base::startup::Phase;
use crate::engine::Engine;
use crate::engine::buffered::SendBuffer;
use crate::engine::describe::Names;
use crate::err;
use crate::instance::transports::{self, TransportUse};
use crate::instance::{Instance, Lifetime, Stage, User};
use crate::objects::collective;
use crate::objects::communicator::Communicator;
use crate::system::lock::this_thread;

/// What there is between Init and Finalize.
pub struct World {
    /// The instance.
    pub(crate) instance: Arc<Instance>,
    /// `MPI_COMM_WORLD`
    pub(crate) world: Arc<Communicator>,
    /// `MPI_COMM_SELF`
    pub(crate) alone: Arc<Communicator>,
    /// With the processes that have spawned this job, if any have (section 11.8.2).
    pub(crate) parent: Option<Arc<Communicator>>,
    /// The thread that called Init.
    pub(crate) main_thread: usize,
}

/// What the layer above does for the World Model.
pub(crate) trait Host {
    /// The communicators exist now: they get their names for the user.
    fn begins(&self, world: &World);
    /// Calls the user's delete callbacks. After an error MPI goes on.
    fn calls_back(&self, world: &World) -> Result<()>;
    /// Takes the buffers of buffered mode that the user did not detach from communicators.
    fn takes_buffers(&self) -> Vec<Arc<SendBuffer>>;
    /// Points out what the program has left behind (`WEFT_CHECK`).
    fn points_out_what_is_left(&self, instance: &Instance);
    /// Points out messages that no receive took.
    fn points_out_untaken(&self, instance: &Instance, untaken: Vec<String>);
    /// The World Model is over: its state is dropped.
    fn ends(&self);
}

/// For a program that needs nothing of this.
impl Host for () {
    fn begins(&self, _: &World) {}
    fn calls_back(&self, _: &World) -> Result<()> {
        Ok(())
    }
    fn takes_buffers(&self) -> Vec<Arc<SendBuffer>> {
        Vec::new()
    }
    fn points_out_what_is_left(&self, _: &Instance) {}
    fn points_out_untaken(&self, _: &Instance, untaken: Vec<String>) {
        untaken
            .iter()
            .for_each(|message| eprintln!("[weft] not received: {message}"));
    }
    fn ends(&self) {}
}

/// The World Model of a process: it begins and ends once.
pub struct WorldModel {
    world: RwLock<Option<Arc<World>>>,
    initializing: Mutex<()>,
    /// Whether a thread is inside Finalize.
    finalizing: AtomicBool,
}

impl WorldModel {
    /// Before Init.
    pub const fn new() -> WorldModel {
        WorldModel {
            world: RwLock::new(None),
            initializing: Mutex::new(()),
            finalizing: AtomicBool::new(false),
        }
    }

    /// What there is between Init and Finalize. To be dropped before [`WorldModel::finalize`]: whoever keeps it keeps what would be
    /// closed there.
    #[inline]
    pub fn world(&self) -> Option<Arc<World>> {
        self.world.read().clone()
    }

    /// Begins it. `several_threads`: more than one may be in a call at a time.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER` if it has begun before.
    pub fn initialize(&self, lifetime: &Lifetime, several_threads: bool) -> Result<()> {
        self.initialize_with(lifetime, several_threads, &())
    }

    /// The same with what the layer above does.
    pub(crate) fn initialize_with(
        &self,
        lifetime: &Lifetime,
        several_threads: bool,
        host: &dyn Host,
    ) -> Result<()> {
        let start = Instant::now();
        let _guard = self.initializing.lock();
        match lifetime.stage() {
            Stage::Before => {}
            Stage::Running => return Err(err!(Other, "MPI has been initialized already")),
            Stage::Finalized => {
                return Err(err!(
                    Other,
                    "the World Model can't be initialized again after MPI_Finalize"
                ));
            }
        }
        let instance = lifetime.acquire(User::World)?;
        if several_threads {
            instance.engine().set_several_threads();
        }
        let everybody = Communicator::world(&instance);
        let parent = match instance.block_on_turns(parent(&everybody)) {
            Ok(parent) => parent,
            Err(error) => {
                lifetime.release(false)?;
                return Err(error);
            }
        };
        let world = Arc::new(World {
            world: everybody,
            alone: Communicator::alone(&instance),
            parent,
            instance,
            main_thread: this_thread(),
        });
        host.begins(&world);
        let ledger = world.instance.ledger().clone();
        *self.world.write() = Some(world);
        lifetime.set_stage(Stage::Running);
        ledger.end_init(start);
        Ok(())
    }

    /// Ends it (section 11.2.2): what the user has completed or freed is sent completely, all processes enter a barrier, and the
    /// connections are closed.
    ///
    /// # Errors
    /// A delete callback's: MPI goes on. `MPI_ERR_OTHER` from inside a delete callback of MPI_Finalize, if the World Model is not running, or where
    /// a process of the job is gone.
    pub fn finalize(&self, lifetime: &Lifetime) -> Result<()> {
        self.finalize_with(lifetime, &())
    }

    /// The same with what the layer above does.
    pub(crate) fn finalize_with(&self, lifetime: &Lifetime, host: &dyn Host) -> Result<()> {
        if self.finalizing.swap(true, Ordering::AcqRel) {
            return Err(err!(
                Other,
                "MPI_Finalize is running already: this call is from one of its callbacks, or from another thread"
            ));
        }
        let result = match self.world() {
            Some(world) => host
                .calls_back(&world)
                .and_then(|()| self.close(world, lifetime, host)),
            // Another thread has ended it meanwhile.
            None => Err(err!(Other, "the World Model is not initialized")),
        };
        self.finalizing.store(false, Ordering::Release);
        result
    }

    /// The part of finalizing that does not call the user's functions.
    fn close(&self, world: Arc<World>, lifetime: &Lifetime, host: &dyn Host) -> Result<()> {
        let instance = &world.instance;
        let settings = instance.settings();
        let patience = Duration::from_secs(settings.finalize_report_s);
        instance.report_after((!patience.is_zero()).then_some(patience));
        // What the user did not detach is detached here. Sending its messages is a part of finalizing.
        let mut buffers = host.takes_buffers();
        for attachment in [
            world.world.attachment(),
            world.alone.attachment(),
            instance.attachment(),
        ] {
            buffers.extend(attachment.take());
        }
        if settings.check {
            host.points_out_what_is_left(instance);
        }
        let ledger = instance.ledger().clone();
        let start = Instant::now();
        ledger.begin_finalize();
        let check = settings
            .check
            .then_some(|untaken| host.points_out_untaken(instance, untaken));
        instance.set_explanation(Some(describe));
        let report = settings.report;
        // Before Finalize's own messages.
        let ways = report.transports.then(|| TransportUse::of(instance).encode());
        let had_sessions = || lifetime.had_sessions();
        let last_word = || lifetime.last_word();
        let ending = Communicator::finalize_world(instance, had_sessions, last_word, check, ways);
        let ended = instance.block_on_turns(ending);
        if ended.is_ok() {
            // Only the process's buffer can still have messages, of sessions. No call is left that could report a lost one.
            let _ = instance.flush_all(&buffers);
        }
        instance.set_explanation(None);
        instance.report_after(None);
        let ended = ended.inspect_err(|_| lifetime.go_on())?;
        lifetime.set_stage(Stage::Finalized);
        *self.world.write() = None;
        host.ends();
        let rank = instance.job().rank;
        lifetime.release(!ended.sessions_left)?;
        // The last user of the instance, if `release` closed it.
        ledger.time(Phase::Close, || drop(world));
        let mut tables = String::new();
        if !ended.ways.is_empty() {
            let all: Vec<Option<TransportUse>> = (ended.ways.iter())
                .map(|text| TransportUse::decode(text, ended.ways.len()))
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
}

/// Connects the job with the processes that have spawned it, which wait for that. Collective over the job. To be awaited by
/// [`Instance::block_on_turns`].
pub async fn parent(everybody: &Arc<Communicator>) -> Result<Option<Arc<Communicator>>> {
    let Some(port) = everybody.instance().job().parent.clone() else {
        return Ok(None);
    };
    let port = (everybody.rank() == 0).then_some(Ok((port, None)));
    let connected = everybody.clone().connect_to(0, port).await;
    connected.map(Some).map_err(|error| Error {
        message: format!("the processes that have spawned this job can't be reached: {error}").into(),
        ..error
    })
}

impl Default for WorldModel {
    fn default() -> WorldModel {
        WorldModel::new()
    }
}

/// What MPI_Finalize waits for, in words.
fn describe(instance: &Instance, engine: &Engine, names: Names) -> String {
    let under_way = engine.pending(names, |context| !Communicator::is_of_world(instance, context));
    let missing = Communicator::finalizing_waits_for(engine)
        .map(|from| collective::missing(engine.size(), engine.me().number(), from))
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
