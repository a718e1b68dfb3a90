//! Weft in a Rust program: what a program needs that has the library inside, without the C bindings. `examples/embedding.rs` is one.
//!
//! A [`Lifetime`] makes what a process needs for MPI when its first user comes, and keeps it for later ones. The [`WorldModel`] is
//! such a user, with a communicator of all processes; a [`Session`] is another. An operation that takes several messages is a future, which
//! [`Communicator::block_on`] runs. [`Lifetime::abort`] ends the job at any time.
//!
//! This is all of the interface. The library's own types stay inside: where theirs would show too much, the types here hold one
//! of them.

use std::future::Future;
use std::sync::Arc;

use crate::base::error::Result;
use crate::err;
use crate::objects::communicator;
use crate::objects::errhandler::Errhandler;
use crate::objects::management::create::NO_COLOR;
use crate::objects::session::{self, ProcessSet};

pub use crate::instance::{Host, Lifetime};
pub use crate::objects::collective::{allgather_bytes, barrier, bcast_bytes};
pub use crate::objects::communicator::Collective;
pub use crate::objects::world::{World, WorldModel};

impl World {
    /// A communicator of all processes of the job (`MPI_COMM_WORLD`).
    pub fn everybody(&self) -> Communicator<'_> {
        Communicator::of(self.world.clone(), None)
    }

    /// A communicator of this process alone (`MPI_COMM_SELF`).
    pub fn myself(&self) -> Communicator<'_> {
        Communicator::of(self.alone.clone(), None)
    }
}

/// A session (MPI 5.0 section 11.3). One that is dropped without [`Session::close`] stays open.
pub struct Session<'l> {
    inner: Arc<session::Session>,
    lifetime: &'l Lifetime,
}

impl<'l> Session<'l> {
    /// Opens one. Local, and may be done at any time, by any thread.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER`: the launcher can't be reached, or no lane can be opened.
    pub fn open(lifetime: &'l Lifetime) -> Result<Session<'l>> {
        let inner = session::Session::open(lifetime, Errhandler::Return, None)?;
        Ok(Session { inner, lifetime })
    }

    /// The names of the process sets that this process is in: `mpi://WORLD`, `mpi://SELF`, and those of `mpiexec -pset`.
    pub fn process_sets(&self) -> Vec<&str> {
        let job = self.inner.instance().job();
        ProcessSet::of(job).map(|set| set.name(job)).collect()
    }

    /// A communicator of the processes of a set, ranked as in the job (sections 7.3.2 and 7.4.2). Collective over the set: its
    /// processes find each other by the set and by `tag`, a text that all give alike.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: there is no set of this name. `MPI_ERR_GROUP`: this process is not in it. `MPI_ERR_PROC_ABORTED`: another
    /// one is gone.
    pub fn communicator(&self, set: &str, tag: &str) -> Result<Communicator<'_>> {
        let instance = self.inner.instance();
        let group = self.inner.group(ProcessSet::of_name(set, instance.job())?);
        let made = communicator::Communicator::from_group(instance.clone(), group, tag);
        let made = instance.block_on(made)?;
        let made = made.ok_or_else(|| err!(Group, "this process is not in the process set '{set}'"))?;
        Ok(Communicator::of(made, Some(&self.inner)))
    }

    /// Ends it: waits until all that was sent on its communicators has arrived, at this process and at the others. Collective over
    /// the members of each communicator that was made of it and not disconnected.
    ///
    /// # Errors
    /// The first of what was under way. The session is over all the same.
    pub fn close(self) -> Result<()> {
        self.inner.close(self.lifetime, &())
    }
}

/// A communicator (MPI 5.0 chapter 7), of the World Model or of a session.
pub struct Communicator<'s> {
    inner: Arc<communicator::Communicator>,
    /// Which one it was derived from; `None`: the World Model.
    session: Option<&'s session::Session>,
}

impl<'s> Communicator<'s> {
    fn of(inner: Arc<communicator::Communicator>, session: Option<&'s session::Session>) -> Communicator<'s> {
        if let Some(session) = session {
            session.connect(&inner);
        }
        Communicator { inner, session }
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.inner.rank()
    }

    /// Number of processes.
    pub fn size(&self) -> u32 {
        self.inner.size()
    }

    /// Runs an operation to its end, and makes progress meanwhile.
    pub fn block_on<T>(&self, operation: impl Future<Output = T>) -> T {
        self.inner.instance().block_on(operation)
    }

    /// The next collective operation, whose messages nobody else sees: [`barrier`] and the like take one each, and
    /// [`Collective::exchange_bytes`] and the like as many messages as one needs. All processes call this equally often.
    pub fn collective(&self) -> Collective {
        self.inner.collective()
    }

    /// One communicator for each color, ranks by key and then by old rank; `None` without a color (section 7.4.2,
    /// `MPI_Comm_split`). Collective.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: the color is 2^31 or above. `MPI_ERR_PROC_ABORTED`: another process is gone.
    pub async fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Communicator<'s>>> {
        let color = color.map_or(Ok(NO_COLOR), |color| {
            i32::try_from(color).map_err(|_| err!(Arg, "the color is {color}, but must be below 2^31"))
        })?;
        let made = self.inner.clone().split(color, key).await?;
        Ok(made.map(|made| Communicator::of(made, self.session)))
    }

    /// Ends it (section 11.10.4, `MPI_Comm_disconnect`): waits until all that was sent on it has arrived, at this process and at the
    /// others. Collective.
    ///
    /// # Errors
    /// `MPI_ERR_PROC_ABORTED`: another process is gone.
    pub fn disconnect(self) -> Result<()> {
        let lost = self.inner.disconnect()?;
        if let Some(session) = self.session {
            session.disconnect(&self.inner);
        }
        lost
    }
}
