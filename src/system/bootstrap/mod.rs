//! How a process learns about its job: its rank, its size, and the business cards of the others.
//!
//! [`connect`] chooses by the environment: [`pmi1`] where a launcher left a descriptor in `PMI_FD`, [`pmix`] where a PMIx server
//! expects the process, [`singleton`] otherwise. [`links`]: what a process hears from other jobs;
//! [`own_head`]: the launcher that a process without one starts when it spawns.
//!
//! What does not belong here: the contents of a business card (`engine`).

mod death;
pub mod links;
pub mod own_head;
pub mod pmi1;
mod pmix;
mod process_sets;
pub mod singleton;
mod spawn;
mod watch;

pub use process_sets::ProcessSet;
pub use spawn::{Command, Hints, NoProgram, Notice, Spawn, Spawned, find_program};

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::base::error::Result;
use crate::err;
use crate::identity::{JobId, ProcessName};
use crate::system::locality::Layout;
use links::WithLinks;

/// What the launcher says at the start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// This process.
    pub rank: u32,
    /// Number of processes.
    pub size: u32,
    /// Which program of the job this is (`MPI_APPNUM`), where the launcher says so.
    pub appnum: Option<i32>,
    /// `MPI_UNIVERSE_SIZE`, where the launcher says so.
    pub universe_size: Option<u32>,
    /// Whether all processes of the job are on one machine.
    pub local_only: bool,
    /// This process's number among those of its machine, in rank order.
    pub local_rank: u32,
    /// Number of processes on this machine.
    pub local_ranks: u32,
    /// How many processors the launcher gives to the ranks of this machine together, where it says so: a rank that is
    /// bound sees only its own.
    pub processors: Option<u32>,
    /// The pid namespace of the launcher, where it says so: its [`pid_namespace`](crate::system::locality::pid_namespace).
    pub launcher_pids: Option<u64>,
    /// Which ranks share a machine. By the launcher: a hint, as no launcher guarantees it.
    pub layout: Layout,
    /// Why `layout` is unknown, as a text, where the launcher's hint was missing or could not be read.
    pub layout_unknown: Option<String>,
    /// Names the job: the same text in all of its processes, and in no other job of the machine.
    pub id: String,
    /// The memory kinds that the user asked `mpiexec` for (`-memory-alloc-kinds`; MPI 5.0, section 11.4.3).
    pub memory_alloc_kinds: Option<String>,
    /// The process sets that the user asked `mpiexec` for (`-pset`): those that this process is in and others, each name
    /// once.
    pub process_sets: Vec<ProcessSet>,
    /// The port at which the processes wait that have spawned this job, if any have.
    pub parent: Option<String>,
}

impl Job {
    /// The rank of a process of this job.
    ///
    /// # Errors
    /// There is no such rank, or the process is of another job, about which this launcher has no information.
    pub fn rank_of(&self, name: ProcessName) -> Result<u32> {
        let ProcessName { job, rank } = name;
        match job == self.name().job {
            true if rank < self.size => Ok(rank),
            true => Err(err!(Rank, "process {rank} is outside this job of {}", self.size)),
            false => Err(err!(
                Other,
                "process {rank} is of another job, and this launcher can't tell where it is"
            )),
        }
    }

    /// This process, as all processes of all jobs name it.
    pub fn name(&self) -> ProcessName {
        self.process(self.rank)
    }

    /// The same for the process of a rank.
    pub fn process(&self, rank: u32) -> ProcessName {
        ProcessName {
            job: JobId::of(&self.id),
            rank,
        }
    }

    /// How many processors all processes of the job share, if there are more processes than that; `None` also where the
    /// launcher does not say how many processors there are, and for a job of several machines. All processes get the same
    /// result, because it depends only on what the launcher says to all alike.
    #[inline]
    pub fn shared_processors(&self) -> Option<u32> {
        self.processors
            .filter(|&processors| self.local_only && 0 < processors && processors < self.size)
    }
}

/// What a launcher does after a process has told it that it may exit, if the process then comes again, for one more
/// session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterFinalize {
    /// It accepts a new connection.
    Returns,
    /// It needs no notice, and the connection stays.
    Stays,
    /// It is gone: from then on there are no cards and no fences, and it learns of an abort only if a signal kills this
    /// process. Without the notice, the process would count as died.
    Ends,
}

/// The connection to the launcher. Only [`Bootstrap::publish`], [`Bootstrap::fence`], [`Bootstrap::fetch`],
/// [`Bootstrap::abort`] and [`Bootstrap::finalize`] block.
pub trait Bootstrap: Send {
    /// The job as the launcher described it.
    fn job(&self) -> &Job;

    /// For tests: `singleton`, `pmi-1 (weft)`, `pmi-1`, `pmix`.
    #[allow(dead_code)]
    fn name(&self) -> &'static str;

    /// Makes this process's business card visible to the others. `incarnation` counts how often this process
    /// has initialized MPI again.
    fn publish(&mut self, incarnation: u32, card: &[u8]) -> Result<()>;

    /// Whether cards can be fetched only after a [`Bootstrap::fence`] of all processes (launchers of PMI-1 other than Weft's, Slurm's PMIx).
    fn needs_fence(&self) -> bool;

    /// Enters a fence: it is over once every process of the job has entered it.
    fn begin_fence(&mut self) -> Result<()>;

    /// Whether the fence is over; does not wait. The caller may make progress meanwhile.
    fn fence_is_over(&mut self) -> Result<bool>;

    /// Waits until every process of the job has entered.
    fn fence(&mut self) -> Result<()> {
        self.begin_fence()?;
        while !self.fence_is_over()? {
            if let Some(descriptor) = self.descriptor() {
                wait_readable(descriptor);
            }
        }
        Ok(())
    }

    /// Asks for a peer's card; `None` while there is no answer: call again later. With Weft's launcher the
    /// answer comes once the peer has published; other processes' requests may be under way at the same time.
    fn lookup(&mut self, incarnation: u32, peer: ProcessName) -> Result<Option<Vec<u8>>>;

    /// The same, and waits for the answer.
    fn fetch(&mut self, incarnation: u32, peer: ProcessName) -> Result<Vec<u8>> {
        loop {
            if let Some(card) = self.lookup(incarnation, peer)? {
                return Ok(card);
            }
            if let Some(descriptor) = self.descriptor() {
                wait_readable(descriptor);
            }
        }
    }

    /// What happens to the connection at [`Bootstrap::finalize`].
    fn after_finalize(&self) -> AfterFinalize {
        AfterFinalize::Returns
    }

    /// Whether the launcher is gone, as it is after [`AfterFinalize::Ends`].
    fn is_over(&self) -> bool {
        false
    }

    /// Receives what the launcher has sent. `true`: it asks what this process waits for. An error: it is gone.
    fn attend(&mut self) -> Result<bool>;

    /// Whether something for [`Bootstrap::attend`] has been received already, while an answer to something else was read: the descriptor
    /// does not tell of it any more.
    fn has_news(&self) -> bool {
        false
    }

    /// Answers the question that [`Bootstrap::attend`] received; `false`: the launcher can't be reached.
    fn report(&mut self, text: &str) -> bool {
        let _ = text;
        false
    }

    /// The descriptor that becomes readable when [`Bootstrap::lookup`] may have an answer or the launcher is gone.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Whether the launcher prints the message of [`Bootstrap::abort`]. Otherwise the aborting process prints it.
    fn tells_why(&self) -> bool {
        false
    }

    /// Asks for the start of programs as a job of their own; the result is the number by which [`Bootstrap::spawned`] asks what became
    /// of it.
    ///
    /// # Errors
    /// `MPI_ERR_SPAWN`: this launcher can't.
    fn spawn(&mut self, spawn: &Spawn) -> Result<u32> {
        let _ = spawn;
        Err(err!(
            Spawn,
            "the launcher of this job can't start further processes; Weft's mpiexec, Hydra and prterun can"
        ))
    }

    /// What became of a spawn; `None` while that is not known. Each is told once. An error: nothing was started.
    fn spawned(&mut self, spawn: u32) -> Result<Option<Spawned>> {
        Err(err!(Intern, "there is no spawn {spawn}"))
    }

    /// How long to wait for spawned processes, where this launcher does not tell of those that end before they have come to the port.
    fn spawn_patience(&self) -> Option<Duration> {
        None
    }

    /// Publishes the name of a port under the name of a service (section 11.9.4).
    ///
    /// # Errors
    /// `MPI_ERR_SERVICE`: it is published already, or there is nothing that keeps names.
    fn publish_name(&mut self, service: &str, port: &str) -> Result<()> {
        let _ = (service, port);
        Err(err!(
            Service,
            "the launcher of this job keeps no names; Weft's mpiexec, Hydra and prterun do"
        ))
    }

    /// Takes that back.
    ///
    /// # Errors
    /// `MPI_ERR_SERVICE`: this job has not published it.
    fn unpublish_name(&mut self, service: &str) -> Result<()> {
        Err(err!(Service, "the service '{service}' is not published"))
    }

    /// The port of a service, if it is published.
    fn lookup_name(&mut self, service: &str) -> Result<Option<String>> {
        let _ = service;
        Err(err!(
            Name,
            "the launcher of this job keeps no names; Weft's mpiexec, Hydra and prterun do"
        ))
    }

    /// Takes over the socket by which a job and this one watch each other: it stays open for as long as they are connected, and tells of
    /// an abort.
    fn link(&mut self, job: JobId, socket: OwnedFd) -> Result<()> {
        let _ = (job, socket);
        Ok(())
    }

    /// This process is connected with processes of another job from now on, or with none of them any more.
    fn connected(&mut self, job: JobId, on: bool) {
        let _ = (job, on);
    }

    /// What [`Bootstrap::attend`] has received.
    fn notices(&mut self) -> Vec<Notice> {
        Vec::new()
    }

    /// Asks the launcher to end the job with `code`, and waits a few seconds for it to do so, or kills this process where that is the
    /// only way to ask. Returns if that had no effect, and the caller exits then; `false`: there is no launcher to ask.
    fn abort(&mut self, code: i32, message: &str) -> bool;

    /// After [`Bootstrap::finalize`] this process uses MPI once more, over the same connection.
    fn come_back(&mut self) {}

    /// Tells the launcher that this process may exit from now on. Does nothing where the launcher is gone already.
    fn finalize(&mut self) -> Result<()>;
}

/// Sleeps until the descriptor can be read.
fn wait_readable(descriptor: BorrowedFd<'_>) {
    // An error (a signal) only ends the wait early.
    let _ = poll(
        &mut [PollFd::new(descriptor, PollFlags::POLLIN)],
        PollTimeout::NONE,
    );
}

/// Connects to the launcher that the environment names; without one, this process is a singleton.
///
/// An error: the environment names a launcher that can't be reached, or one that Weft can't talk to.
pub fn connect() -> Result<Box<dyn Bootstrap>> {
    let environment = |name: &str| std::env::var(name).ok();
    if environment("PMI_FD").is_some() {
        let mut launcher = pmi1::Pmi1::connect(environment)?;
        launcher.watch_over();
        return Ok(match launcher.is_foreign() {
            true => Box::new(WithLinks::around(launcher)),
            false => Box::new(launcher),
        });
    }
    if pmix::is_expected(environment) && !singleton::is_alone(environment) {
        return Ok(Box::new(WithLinks::around(pmix::Pmix::connect(environment)?)));
    }
    singleton::other_launcher(environment)?;
    Ok(Box::new(WithLinks::around(singleton::Singleton::new())))
}
