//! Windows (MPI 5.0 chapter 12): memory of each process of a communicator that the others may access.
//!
//! - [`Window`]: what all windows have; making them
//! - `attached`: the memory of a dynamic window
//! - `shared`: memory that the processes of one machine have in common
//! - `hints`: what the user promises about a window's use
//!
//! A window has the processes of the communicator that it was made of and a context of its own, in which nothing else is sent:
//! that of a communicator that the user never sees. So operations on a window are messages among its members like those
//! of a collective, and freeing it disconnects that communicator.
//!
//! What does not belong here: handles and arguments (`abi::window`), memory that the user allocates without a window (`allocation`), and
//! memory files as such (`system::shared_memory`).

mod attached;
mod hints;
mod shared;

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicIsize, AtomicUsize};

use parking_lot::Mutex;

use crate::base::attribute::Attributes;
use crate::base::error::Result;
use crate::err;
use crate::objects::allocation::Allocation;
use crate::objects::communicator::Communicator;
use crate::objects::errhandler::Errhandler;
use crate::objects::info::Info;

pub use attached::Attached;
use shared::{Segment, Shared};

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
    /// What the user has attached.
    Attached(Attached),
    /// The window's own, shared by its processes.
    Shared(Shared),
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
            Exposed::Own(..) => Flavor::Allocate,
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
            Exposed::Shared(shared) => shared.address(shared.own()),
        }
    }

    /// How many bytes from the base on; 0 for attached memory.
    pub fn size(&self) -> usize {
        match self {
            Exposed::Users(memory) => memory.size,
            Exposed::Own(_, size) => *size,
            Exposed::Attached(_) => 0,
            Exposed::Shared(shared) => shared.own().size,
        }
    }

    /// Keeps memory of the window's own when the window is freed.
    pub fn leave(&self) {
        match self {
            Exposed::Own(memory, _) => memory.leave(),
            Exposed::Shared(shared) => shared.leave(),
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
    disp_unit: i64,
    facts: Facts,
    hints: Info,
    name: Mutex<String>,
    errhandler: Mutex<Errhandler>,
    attributes: Attributes,
    /// The binding's handle of this window; opaque here.
    handle: AtomicUsize,
}

impl Window {
    /// Makes a window of all processes of an intracommunicator, each of which passes its part, or the reason why it has none:
    /// then no process gets a window, and none waits for one that has none.
    ///
    /// # Errors
    /// The error in this process's part; where another process's failed, `MPI_ERR_OTHER` with its rank.
    pub async fn create(parent: Arc<Communicator>, part: Result<Part>) -> Result<Arc<Window>> {
        let communicator = parent.hidden(part.is_ok()).await;
        let part = part?;
        Ok(Arc::new(Window::of(communicator?, part)))
    }

    /// As [`Window::create`], with memory that all processes share.
    ///
    /// # Errors
    /// As there, and those of [`Shared::allocate`].
    pub async fn allocate_shared(parent: Arc<Communicator>, part: Result<SharedPart>) -> Result<Arc<Window>> {
        let communicator = parent.clone().hidden(part.is_ok()).await;
        let SharedPart {
            size,
            disp_unit,
            asked,
        } = part?;
        let communicator = communicator?;
        let separate = hints::may_be_separate(asked.as_deref());
        // By the parent's messages: that it belongs to a session is known only when the window exists.
        let shared = Shared::allocate(&parent, size, disp_unit, separate).await?;
        let part = Part {
            exposed: Exposed::Shared(shared),
            disp_unit,
            asked,
        };
        Ok(Arc::new(Window::of(communicator, part)))
    }

    fn of(communicator: Arc<Communicator>, part: Part) -> Window {
        let flavor = part.exposed.flavor();
        Window {
            communicator,
            disp_unit: part.disp_unit,
            facts: Facts {
                size: AtomicIsize::new(part.exposed.size() as isize),
                disp_unit: AtomicI32::new(part.disp_unit.try_into().unwrap_or(UNDEFINED)),
                flavor: AtomicI32::new(flavor as i32),
                model: AtomicI32::new(UNIFIED),
            },
            hints: hints::of_new(flavor, part.asked.as_deref()),
            exposed: part.exposed,
            name: Mutex::default(),
            // Section 12.6: whatever the communicator's is.
            errhandler: Mutex::new(Errhandler::AreFatal),
            attributes: Attributes::default(),
            handle: AtomicUsize::new(0),
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
        match &self.exposed {
            Exposed::Shared(shared) => {
                let reach = |segment: &Segment| Reach {
                    address: shared.address(segment),
                    size: segment.size,
                    disp_unit: segment.disp_unit,
                };
                Ok(match rank {
                    Some(rank) => reach(shared.segment(rank)),
                    None => shared.first().map_or(none, reach),
                })
            }
            Exposed::Attached(_) => Err(err!(
                RmaFlavor,
                "the window is one of MPI_Win_create_dynamic, whose memory has neither a beginning nor a size"
            )),
            // This process knows only its own memory. Rank 0 is the first one that has memory, if it has any.
            Exposed::Users(..) | Exposed::Own(..) => {
                Ok(match rank.unwrap_or(0) == self.communicator.rank() {
                    true => Reach {
                        address: self.exposed.base(),
                        size: self.exposed.size(),
                        ..none
                    },
                    false => none,
                })
            }
        }
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
