//! Files (MPI 5.0 chapter 14): a file of the operating system that the processes of a communicator have open together.
//!
//! - [`File`]: opening, closing, and what concerns the file as a whole
//! - [`Amode`]: access modes
//! - `agreement`: whether all processes want the same and none has an error
//! - `hints`: what the user says about a file's use
//! - `system`: the calls of the operating system, and the classes of its errors
//!
//! A file has the processes of the communicator that it was opened with and, like a window, a context of its own: that of a
//! communicator that the user never sees.
//!
//! The first process does what has to be done once, and all others receive the result: creating the file, changing its
//! size, deleting it. So a collective call fails on all processes or on none. The process that has an error returns the
//! reason, the others the rank.
//!
//! Nothing is read or written yet (`docs/unsupported.md`).
//!
//! What does not belong here: handles and arguments (`abi::file`), the `external32` form of data (`data::datatype`), and files that
//! processes share as memory (`system::shared_memory`).

mod agreement;
mod amode;
mod hints;
mod system;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::base::error::Result;
use crate::err;
use crate::objects::collective;
use crate::objects::communicator::{Collective, Communicator};
use crate::objects::errhandler::Errhandler;
use crate::objects::group::Group;
use crate::objects::info::Info;
use agreement::{agree, agree_on};

pub use amode::Amode;
pub use system::{delete, path};

/// The part of one process in a new file.
#[derive(Debug)]
pub struct Part {
    /// Its name, as the user gives it.
    pub name: PathBuf,
    /// Its access mode.
    pub amode: Amode,
    /// The hints of the user.
    pub asked: Option<Arc<Info>>,
}

/// See the module.
pub struct File {
    /// The communicator that the user never sees.
    communicator: Arc<Communicator>,
    /// The name as the user gave it.
    name: PathBuf,
    /// The path, which stays the same when the program changes its directory.
    path: PathBuf,
    amode: Amode,
    file: fs::File,
    hints: Info,
    /// Whether conflicting accesses are to be atomic (section 14.6.1).
    atomic: AtomicBool,
    /// Whether this process has changed the file since it was last synchronized.
    changed: AtomicBool,
    errhandler: Mutex<Errhandler>,
}

impl File {
    /// Opens a file on all processes of an intracommunicator, each of which passes its part, or the reason why it has none.
    /// If it can't be opened on all, it is opened on none, and a file that was created for it is deleted.
    ///
    /// # Errors
    /// The error in this process's part; `MPI_ERR_NOT_SAME` for different access modes; the operating system's; and where
    /// another process failed, an error of the same class, which names its rank.
    pub async fn open(parent: Arc<Communicator>, part: Result<Part>) -> Result<Arc<File>> {
        // By the parent's messages: that it belongs to a session is known only when the file exists.
        let operation = || parent.collective();
        let part = part.and_then(|part| {
            let permissions = hints::permissions(part.asked.as_deref());
            let path = system::absolute(&part.name)?;
            Ok((part, permissions, path))
        });
        let said = part.as_ref().map_err(Clone::clone);
        let said = said.map(|(part, permissions, _)| part.amode.bits() << 32 | u64::from(*permissions));
        let (smallest, largest) = agree(&operation(), said).await?;
        if smallest != largest {
            let differ = smallest >> 32 != largest >> 32;
            let what = if differ { "amode" } else { hints::PERMISSIONS_KEY };
            return Err(err!(NotSame, "{what} is not the same on all processes"));
        }
        let (part, permissions, path) = part?;
        let creates = part.amode.has(Amode::CREATE);
        let mut created = false;
        let opened = if parent.rank() == 0 {
            let opened = system::open_first(&path, part.amode, permissions);
            opened.map(|(file, new)| {
                created = new;
                Some(file)
            })
        } else {
            Ok(None)
        };
        let opened = agree_on(&operation(), opened).await?;
        let opened = match opened {
            Some(file) => Ok(file),
            None => system::open_next(&path, part.amode),
        };
        let opened = agree_on(&operation(), opened).await;
        if opened.is_err() && creates {
            if created {
                // An error in deleting it again is not what the user needs to know.
                let _ = system::delete(&path);
            }
            // A later attempt does not find it.
            collective::barrier(&operation()).await?;
        }
        let file = opened?;
        let communicator = parent.hidden(true).await?;
        Ok(Arc::new(File {
            communicator,
            hints: hints::of_open(&part.name, part.amode, permissions),
            name: part.name,
            path,
            amode: part.amode,
            file,
            atomic: AtomicBool::new(false),
            changed: AtomicBool::new(false),
            // Section 14.7: until the binding gives it the default, whatever the communicator's is.
            errhandler: Mutex::new(Errhandler::Return),
        }))
    }

    /// Finishes the work on the file: writes what this process has changed to the disk, and deletes the file if it was opened
    /// for that. It is closed when the last one drops this. Collective.
    ///
    /// # Errors
    /// The operating system's, of any process.
    pub async fn close(&self) -> Result<()> {
        let deletes = self.amode.has(Amode::DELETE_ON_CLOSE);
        if deletes && !system::has_other_names(&self.file) {
            // The file is deleted, so nothing has to reach the disk.
            self.changed.store(false, Ordering::Release);
        }
        // All processes have come then, so none still needs the file.
        let synchronized = self.sync().await;
        if !deletes {
            return synchronized;
        }
        let deleted = self.by_first(|| system::delete(&self.path)).await;
        synchronized.and(deleted)
    }

    /// Gives the file a size in bytes. Collective.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a negative size, `MPI_ERR_NOT_SAME` for different ones, `MPI_ERR_READ_ONLY`,
    /// `MPI_ERR_UNSUPPORTED_OPERATION` for a sequential file, the operating system's.
    pub async fn set_size(&self, size: i64) -> Result<()> {
        let size = self.agree_on_size(size).await?;
        self.by_first(|| system::resize(&self.file, &self.path, size))
            .await
    }

    /// Allocates storage for the first `size` bytes; a smaller file gets this size. Collective.
    ///
    /// # Errors
    /// As for [`File::set_size`].
    pub async fn preallocate(&self, size: i64) -> Result<()> {
        let size = self.agree_on_size(size).await?;
        self.by_first(|| system::preallocate(&self.file, &self.path, size))
            .await
    }

    /// Writes what this process has changed to the disk. Collective.
    ///
    /// # Errors
    /// The operating system's, of any process.
    pub async fn sync(&self) -> Result<()> {
        let synchronized = match self.changed.swap(false, Ordering::AcqRel) {
            true => system::sync(&self.file, &self.path)
                .inspect_err(|_| self.changed.store(true, Ordering::Release)),
            false => Ok(()),
        };
        agree_on(&self.operation(), synchronized).await
    }

    /// Sets whether conflicting accesses are atomic from now on. Collective.
    ///
    /// # Errors
    /// `MPI_ERR_NOT_SAME` where the processes differ.
    pub async fn set_atomicity(&self, atomic: bool) -> Result<()> {
        let (smallest, largest) = agree(&self.operation(), Ok(atomic.into())).await?;
        if smallest != largest {
            return Err(err!(NotSame, "flag is not the same on all processes"));
        }
        self.atomic.store(atomic, Ordering::Release);
        Ok(())
    }

    /// Whether conflicting accesses are atomic.
    pub fn is_atomic(&self) -> bool {
        self.atomic.load(Ordering::Acquire)
    }

    /// Its size in bytes. Local.
    ///
    /// # Errors
    /// The operating system's.
    pub fn size(&self) -> Result<u64> {
        system::size(&self.file, &self.path)
    }

    fn operation(&self) -> Collective {
        self.communicator.collective()
    }

    /// The size that all processes pass, if the file can get one.
    async fn agree_on_size(&self, size: i64) -> Result<u64> {
        let checked = if !self.amode.may_write() {
            Err(err!(
                ReadOnly,
                "{} was opened with MPI_MODE_RDONLY",
                self.describe()
            ))
        } else if self.amode.has(Amode::SEQUENTIAL) {
            Err(err!(
                UnsupportedOperation,
                "{} was opened with MPI_MODE_SEQUENTIAL",
                self.describe()
            ))
        } else {
            u64::try_from(size).map_err(|_| err!(Arg, "size is {size}, but must not be negative"))
        };
        let (smallest, largest) = agree(&self.operation(), checked).await?;
        match smallest == largest {
            true => Ok(largest),
            false => Err(err!(
                NotSame,
                "size is not the same on all processes: {smallest} on one, {largest} on another"
            )),
        }
    }

    /// The first process does it, and all receive the result.
    async fn by_first(&self, act: impl FnOnce() -> Result<()>) -> Result<()> {
        let done = match self.communicator.rank() {
            0 => {
                self.changed.store(true, Ordering::Release);
                act()
            }
            _ => Ok(()),
        };
        agree_on(&self.operation(), done).await
    }

    /// The communicator in whose context its messages are.
    pub fn communicator(&self) -> &Arc<Communicator> {
        &self.communicator
    }

    /// The processes that have it open together.
    pub fn group(&self) -> &Arc<Group> {
        self.communicator.group()
    }

    /// Its access mode.
    pub fn amode(&self) -> Amode {
        self.amode
    }

    /// All hints that it has, with the values in use. None of them changes while the file is open.
    pub fn hints(&self) -> &Info {
        &self.hints
    }

    /// Its name for messages.
    pub fn describe(&self) -> String {
        format!("the file '{}'", system::shown(&self.name))
    }

    /// What happens to its errors.
    pub fn errhandler(&self) -> &Mutex<Errhandler> {
        &self.errhandler
    }
}
