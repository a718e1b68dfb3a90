//! Windows (MPI 5.0 chapter 12): memory of each process of a communicator that the others may access.
//!
//! - [`Window`]: what all windows have; making them
//! - `attached`: the memory of a dynamic window
//! - [`members`]: what each process exposes, and the way to its memory
//! - [`segments`]: memory that the processes of one host share
//! - `lock`: locks in such memory; [`ticket`]: what they are made of; `guard`, [`updates`], [`holder`]: what keeps updates of elements apart there
//! - `hints`: what the user promises about a window's use
//! - `access`: the operations; `runs`: where their elements are; `direct`, `quick`: by this process itself; `collected`: by the kernel; `mailbox`: by asking the target in shared memory;
//!   `origin`, `outbox`, `quick_message`: by messages; `message`: these; `target`, `queue`: what a target does with them; `conflicts`: which
//!   of them conflict with each other; `remote`: by the one-sided operations of lanes
//! - `epoch`: which calls are allowed when; `active`, `passive`: the calls of synchronisation; `ordering`: what a flush orders
//!
//! A window has the processes of the communicator that it was made of and a context of its own, in which nothing else is sent:
//! that of a communicator that the user never sees. So operations on a window are messages among its members like those
//! of a collective, and freeing it disconnects that communicator.
//!
//! What does not belong here: handles and arguments (`abi::window`), memory that the user allocates without a window (`allocation`), and
//! memory files as such (`system::shared_memory`).

mod access;
mod active;
mod attached;
mod collected;
mod conflicts;
mod direct;
mod epoch;
mod guard;
mod hints;
pub mod holder;
mod lock;
mod mailbox;
pub mod members;
mod message;
mod ordering;
mod origin;
mod outbox;
mod passive;
mod queue;
mod quick;
mod quick_message;
mod remote;
mod runs;
pub mod segments;
mod target;
pub mod ticket;
pub mod updates;

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicIsize, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use crate::base::attribute::Attributes;
use crate::base::error::{Error, Result};
use crate::data::op::Sharing;
use crate::engine::dispatch::{Job, Serve};
use crate::engine::one_sided;
use crate::engine::request::RequestId;
use crate::err;
use crate::instance::WantsProgress;
use crate::objects::allocation::{self, Allocation};
use crate::objects::communicator::Communicator;
use crate::objects::errhandler::Errhandler;
use crate::objects::info::Info;
use crate::system::lock::Mutex as OwnedMutex;
use epoch::Epochs;
use guard::Guarded;
use outbox::Outbox;
use target::Served;

pub use access::Target;
pub use attached::Attached;
pub use members::Members;
#[cfg(feature = "sim")]
pub use members::Way;
pub use passive::Until;
use segments::{Segment, Segments, Wish};

/// How a window was made, with the numbers of the standard ABI (section 20.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Flavor {
    /// With memory of the user's (`MPI_Win_create`).
    Create = 311,
    /// With memory of its own (`MPI_Win_allocate`).
    Allocate = 312,
    /// Memory is attached and detached (`MPI_Win_create_dynamic`).
    Dynamic = 313,
    /// With memory that all its processes share (`MPI_Win_allocate_shared`).
    Shared = 314,
}

/// `MPI_WIN_UNIFIED`: the processor's memory is coherent, so there is one copy of a window's memory for all processes that access it
/// (section 12.4).
const UNIFIED: i32 = 321;
/// `MPI_UNDEFINED`
const UNDEFINED: i32 = -32766;

/// The memory of this process that a window exposes.
#[derive(Debug)]
pub enum Exposed {
    /// The user's.
    Users(Users),
    /// The window's own, and its size in bytes.
    Own(Allocation, usize),
    /// The window's own (`MPI_Win_allocate`), shared by its processes on this host.
    OnHost(Arc<Segments>),
    /// What the user has attached.
    Attached(Attached),
    /// The window's own, shared by its processes.
    Shared(Arc<Segments>),
}

/// Memory of the user's that a window exposes.
#[derive(Debug)]
pub struct Users {
    address: *mut u8,
    size: usize,
}

// SAFETY: only an address; by the promise of `Users::new` the memory is valid, whichever thread looks.
unsafe impl Send for Users {}
// SAFETY: as for `Send`.
unsafe impl Sync for Users {}

impl Users {
    /// `size` bytes from an address on.
    ///
    /// # Safety
    /// As long as the result exists, they are valid for reading and writing, and used only as the standard allows (MPI 5.0
    /// section 12.2.1).
    pub unsafe fn new(address: *mut u8, size: usize) -> Users {
        Users { address, size }
    }
}

impl Exposed {
    /// How a window of this memory was made.
    pub fn flavor(&self) -> Flavor {
        match self {
            Exposed::Users(..) => Flavor::Create,
            Exposed::Own(..) | Exposed::OnHost(_) => Flavor::Allocate,
            Exposed::Attached(_) => Flavor::Dynamic,
            Exposed::Shared(_) => Flavor::Shared,
        }
    }

    /// Where it begins; null (`MPI_BOTTOM`) for attached memory, which has addresses of its own.
    pub fn base(&self) -> *mut u8 {
        match self {
            Exposed::Users(memory) => memory.address,
            Exposed::Own(memory, _) => memory.address().cast(),
            Exposed::Attached(_) => std::ptr::null_mut(),
            Exposed::OnHost(shared) | Exposed::Shared(shared) => {
                let address = |own| shared.address(own);
                shared.own().map_or(std::ptr::null_mut(), address)
            }
        }
    }

    /// How many bytes from the base on; 0 for attached memory.
    pub fn size(&self) -> usize {
        match self {
            Exposed::Users(memory) => memory.size,
            Exposed::Own(_, size) => *size,
            Exposed::Attached(_) => 0,
            Exposed::OnHost(shared) | Exposed::Shared(shared) => shared.own().map_or(0, |own| own.size),
        }
    }

    /// Keeps memory of the window's own when the window is freed.
    pub fn leave(&self) {
        match self {
            Exposed::Own(memory, _) => memory.leave(),
            Exposed::OnHost(shared) | Exposed::Shared(shared) => shared.leave(),
            Exposed::Users(..) | Exposed::Attached(_) => {}
        }
    }
}

/// The part of one process in a new window.
#[derive(Debug)]
pub struct Part {
    /// Its memory.
    pub exposed: Exposed,
    /// How many bytes its displacements count as one; positive.
    pub disp_unit: i64,
    /// The hints of the user.
    pub asked: Option<Arc<Info>>,
}

/// As [`Part`], for a window whose memory is shared.
#[derive(Debug)]
pub struct SharedPart {
    /// How many bytes it wants.
    pub size: usize,
    /// As [`Part::disp_unit`].
    pub disp_unit: i64,
    /// As [`Part::asked`].
    pub asked: Option<Arc<Info>>,
}

/// Memory of a process that this one can read and write like its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reach {
    /// Where it begins, for this process. Null if there is none.
    pub address: *mut u8,
    /// How many bytes.
    pub size: usize,
    /// How many bytes its owner's displacements count as one.
    pub disp_unit: i64,
}

/// What the predefined attributes of a window point to in C (section 12.2.6). The user has these addresses and may write
/// there, so they are atomics, and Weft reads none of them.
#[derive(Debug)]
pub struct Facts {
    /// `MPI_WIN_SIZE`, in bytes.
    pub size: AtomicIsize,
    /// `MPI_WIN_DISP_UNIT`, in bytes; `MPI_UNDEFINED` where it is too large for an `int`.
    pub disp_unit: AtomicI32,
    /// `MPI_WIN_CREATE_FLAVOR`
    pub flavor: AtomicI32,
    /// `MPI_WIN_MODEL`
    pub model: AtomicI32,
}

/// See the module.
pub struct Window {
    /// The communicator that the user never sees.
    communicator: Arc<Communicator>,
    exposed: Exposed,
    /// Set when it is made, after which others may access it.
    members: OnceLock<Members>,
    me: Weak<Window>,
    origin: OwnedMutex<Origin>,
    /// What its epochs allow.
    open: Arc<epoch::Open>,
    /// How many calls of synchronisation had nothing to wait for, more or less.
    turns: AtomicU32,
    served: OwnedMutex<Served>,
    limits: OnceLock<origin::Limits>,
    /// What lanes let others access: until the window is retired.
    concealed: Mutex<Option<one_sided::Exposed>>,
    disp_unit: i64,
    facts: Facts,
    hints: Info,
    /// See [`hints::orders_accumulates`].
    orders: AtomicBool,
    /// While its hints ask for a thread that makes progress.
    progress: Mutex<Option<WantsProgress>>,
    name: Mutex<String>,
    errhandler: Mutex<Errhandler>,
    attributes: Attributes,
    /// The binding's handle of this window; opaque here.
    handle: AtomicUsize,
}

/// What this process has under way as an origin, and in which epochs. This is locked before the engine, never while the engine is locked.
#[derive(Default)]
struct Origin {
    epochs: Epochs,
    outbox: Outbox,
    /// The receives of the messages that end an exposure epoch.
    exposed: Vec<RequestId>,
    /// The ranks to which it is, where words in shared memory end it.
    exposed_to: epoch::Ranks,
    /// Tasks to be started when this is unlocked again.
    begun: Vec<Job>,
    /// What tasks may still have to send of puts that were copied.
    kept: Vec<Vec<u8>>,
    /// Requests to be given up then, with memory that they have.
    given_up: Vec<(RequestId, Option<passive::Told>)>,
    /// Whether it pays to ask others by this process's mailbox.
    asking: mailbox::Asking,
    /// Room for the next acknowledgement.
    told: Option<passive::Told>,
    /// The first error of an operation that a task has sent and no request tells of.
    failed: Option<Error>,
}

impl Window {
    /// Makes a window of all processes of an intracommunicator, each of which passes its part, or the reason why it has none:
    /// then no process gets a window, and none waits for one that has none.
    ///
    /// # Errors
    /// The error in this process's part; where another process's failed, `MPI_ERR_OTHER` with its rank.
    pub async fn create(parent: Arc<Communicator>, part: Result<Part>) -> Result<Arc<Window>> {
        let communicator = parent.clone().hidden(part.is_ok()).await;
        let mut part = part?;
        let communicator = communicator?;
        let wish = match part.exposed {
            Exposed::Own(_, size) => Some(Wish {
                size: size as u64,
                disp_unit: part.disp_unit,
                alignment: allocation::alignment_of(part.asked.as_deref()) as u64,
                separate: true,
            }),
            _ => None,
        };
        // By the parent's messages: that the window belongs to a session is known only when it exists.
        let shared = Segments::for_host(&parent, &communicator, wish).await;
        // After a failure the other hosts still wait for what this process says.
        let (shared, failure) = match shared {
            Ok(shared) => (shared.map(Arc::new), None),
            Err(error) => (None, Some(error)),
        };
        if let Some(shared) = shared.as_ref().filter(|shared| shared.own().is_some()) {
            part.exposed = Exposed::OnHost(shared.clone());
        }
        let window = Window::of(communicator, part);
        let members = window.meet(&parent, shared).await;
        window.begin(members, failure)
    }

    /// As [`Window::create`], with memory that all processes share.
    ///
    /// # Errors
    /// As there, and those of [`Segments::for_all`].
    pub async fn allocate_shared(parent: Arc<Communicator>, part: Result<SharedPart>) -> Result<Arc<Window>> {
        let communicator = parent.clone().hidden(part.is_ok()).await;
        let SharedPart {
            size,
            disp_unit,
            asked,
        } = part?;
        let communicator = communicator?;
        let wish = Wish {
            size: size as u64,
            disp_unit,
            alignment: 1,
            separate: hints::may_be_separate(asked.as_deref()),
        };
        // By the parent's messages: see above.
        let shared = Arc::new(Segments::for_all(&parent, &communicator, wish).await?);
        let part = Part {
            exposed: Exposed::Shared(shared.clone()),
            disp_unit,
            asked,
        };
        let window = Window::of(communicator, part);
        let members = window.meet(&parent, Some(shared)).await;
        window.begin(members, None)
    }

    /// A window that is served: messages of the others may come from when they know what this process exposes.
    fn of(communicator: Arc<Communicator>, part: Part) -> Arc<Window> {
        let flavor = part.exposed.flavor();
        let checks = communicator.instance().settings().check;
        let hints = hints::of_new(flavor, part.asked.as_deref());
        let origin = Origin::default();
        let window = Arc::new_cyclic(|me| Window {
            communicator,
            members: OnceLock::new(),
            me: me.clone(),
            open: origin.epochs.open(),
            origin: OwnedMutex::new(origin),
            turns: AtomicU32::new(0),
            served: OwnedMutex::new(Served::new(checks)),
            limits: OnceLock::new(),
            concealed: Mutex::default(),
            disp_unit: part.disp_unit,
            facts: Facts {
                size: AtomicIsize::new(part.exposed.size() as isize),
                disp_unit: AtomicI32::new(part.disp_unit.try_into().unwrap_or(UNDEFINED)),
                flavor: AtomicI32::new(flavor as i32),
                model: AtomicI32::new(UNIFIED),
            },
            orders: AtomicBool::new(hints::orders_accumulates(&hints)),
            hints,
            exposed: part.exposed,
            progress: Mutex::default(),
            name: Mutex::default(),
            // Section 12.6: whatever the communicator's is.
            errhandler: Mutex::new(Errhandler::AreFatal),
            attributes: Attributes::default(),
            handle: AtomicUsize::new(0),
        });
        let server: Arc<dyn Serve> = window.clone();
        let communicator = &window.communicator;
        communicator
            .instance()
            .engine()
            .serve(communicator.context(), server);
        window.settle_progress();
        window
    }

    /// Finds out what all expose, and the ways there.
    async fn meet(&self, parent: &Arc<Communicator>, shared: Option<Arc<Segments>>) -> Result<Members> {
        let mut members = Members::gather(parent, &self.exposed, self.disp_unit, shared).await?;
        if members.wants_remote() {
            members.give_remote(self.expose(parent).await?);
        }
        Ok(members)
    }

    /// The end of making it.
    fn begin(self: Arc<Self>, members: Result<Members>, failure: Option<Error>) -> Result<Arc<Window>> {
        match (members, failure) {
            (Ok(members), None) => {
                let members = self.members.get_or_init(|| members);
                if let Some(segments) = members.segments()
                    && let Some(bell) = segments.bell(segments.sharers().mine())
                {
                    let (communicator, map) = (&self.communicator, segments.sharers().map().clone());
                    let mut engine = communicator.instance().engine();
                    engine.watch_bell(communicator.context(), map, bell.at(), bell.words());
                }
                Ok(self)
            }
            (Err(error), _) | (_, Some(error)) => {
                self.retire(true);
                Err(error)
            }
        }
    }

    /// Serves no messages any more, which keeps the window. `ignored`: others may not know, and their messages are ignored.
    pub fn retire(&self, ignored: bool) {
        self.conceal();
        let communicator = &self.communicator;
        let server = communicator
            .instance()
            .engine()
            .end_service(communicator.context(), ignored);
        // Now that the engine is unlocked.
        drop(server);
        drop(self.progress.lock().take());
    }

    /// Has a thread that makes progress, or has none, as the hints say.
    fn settle_progress(&self) {
        let mut progress = self.progress.lock();
        match hints::wants_progress_thread(&self.hints) {
            true if progress.is_some() => {}
            true => *progress = Some(self.communicator.instance().want_progress_thread()),
            false => *progress = None,
        }
    }

    /// What this process has under way.
    #[inline]
    fn origin(&self) -> &OwnedMutex<Origin> {
        &self.origin
    }

    /// What this process knows as a target.
    #[inline]
    fn served(&self) -> &OwnedMutex<Served> {
        &self.served
    }

    /// Whether the window may be freed.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: an epoch is open.
    pub fn may_free(&self) -> Result<()> {
        self.origin.lock().epochs.may_free()
    }

    /// Whether processes see each other's memory of the window.
    fn is_shared(&self) -> bool {
        matches!(self.exposed, Exposed::OnHost(_) | Exposed::Shared(_))
    }

    /// How elements of a rank's memory are updated that this process sees: others may do so too, or the caller has [`Window::served`] locked.
    fn with_sharing<T>(&self, rank: u32, update: impl FnOnce(Sharing<'_>) -> T) -> T {
        match &self.exposed {
            Exposed::OnHost(segments) | Exposed::Shared(segments) => {
                update(Sharing::Shared(&Guarded::new(segments, rank)))
            }
            Exposed::Users(..) | Exposed::Own(..) | Exposed::Attached(_) => update(Sharing::Alone),
        }
    }

    /// The communicator in whose context its messages are.
    pub fn communicator(&self) -> &Arc<Communicator> {
        &self.communicator
    }

    /// How it was made.
    pub fn flavor(&self) -> Flavor {
        self.exposed.flavor()
    }

    /// The memory of this process.
    pub fn exposed(&self) -> &Exposed {
        &self.exposed
    }

    /// What all processes expose, and the ways to it.
    #[inline]
    pub fn members(&self) -> &Members {
        self.members.get().expect("the window has been made")
    }

    /// What is attached to it.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR` if it is not a dynamic window.
    pub fn attached(&self) -> Result<&Attached> {
        match &self.exposed {
            Exposed::Attached(attached) => Ok(attached),
            _ => Err(err!(
                RmaFlavor,
                "memory can be attached only to a window of MPI_Win_create_dynamic, and this one is of flavor {:?}",
                self.flavor()
            )),
        }
    }

    /// The memory of a rank, as far as this process can get at it; without a rank, of the first one that has any.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR` for a dynamic window, whose memory has no beginning.
    pub fn query(&self, rank: Option<u32>) -> Result<Reach> {
        let none = Reach {
            address: std::ptr::null_mut(),
            size: 0,
            disp_unit: self.disp_unit,
        };
        let reach = |shared: &Segments, segment: Option<&Segment>| {
            segment.map_or(none, |segment| Reach {
                address: shared.address(segment),
                size: segment.size,
                disp_unit: segment.disp_unit,
            })
        };
        Ok(match &self.exposed {
            Exposed::Shared(shared) => {
                reach(shared, rank.map_or(shared.first(), |rank| shared.segment(rank)))
            }
            // Of the processes of this host.
            Exposed::OnHost(shared) => {
                let rank = rank.or(self.members().first());
                reach(shared, rank.and_then(|rank| shared.segment(rank)))
            }
            Exposed::Attached(_) => {
                return Err(err!(
                    RmaFlavor,
                    "the window is one of MPI_Win_create_dynamic, whose memory has neither a beginning nor a size"
                ));
            }
            // This process sees only its own memory.
            Exposed::Users(..) | Exposed::Own(..) => {
                match rank.or(self.members().first()) == Some(self.communicator.rank()) {
                    true => Reach {
                        address: self.exposed.base(),
                        size: self.exposed.size(),
                        ..none
                    },
                    false => none,
                }
            }
        })
    }

    /// What the predefined attributes point to.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// All its hints, with the values in use.
    pub fn hints(&self) -> &Info {
        &self.hints
    }

    /// Takes over hints of the user's.
    pub fn change_hints(&self, asked: &Info) {
        hints::change(&self.hints, asked);
        self.orders
            .store(hints::orders_accumulates(&self.hints), Ordering::Relaxed);
        self.settle_progress();
    }

    /// Its name (`MPI_Win_set_name`).
    pub fn name(&self) -> &Mutex<String> {
        &self.name
    }

    /// What happens to its errors.
    pub fn errhandler(&self) -> &Mutex<Errhandler> {
        &self.errhandler
    }

    /// What the user keeps with it.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The binding's handle of this window.
    pub fn handle(&self) -> &AtomicUsize {
        &self.handle
    }
}
