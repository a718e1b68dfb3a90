//! The client of PMIx, by the library of that name, which is loaded only where a PMIx launcher has started the process: Slurm
//! (`srun --mpi=pmix`), PRRTE (`prterun`), Open MPI (`mpirun`).
//!
//! - `library`: where the library is found
//! - `values`: what the server says, checked, and what it is told
//! - `sets`: process sets
//! - `answers`: what comes from the library's own thread
//! - `spawn`, `names`: further jobs, and services
//!
//! PRRTE's server waits for a card that has not been put yet, so cards are fetched on demand and no fence is needed. With Slurm a
//! fence that collects no data is no barrier, and such a wait may never end: there, and with launchers that are not known, each
//! fence collects, and cards are there after it.
//!
//! What does not belong here: the declarations (`sys/`), and what the ranks do between jobs (`instance`).

mod answers;
mod library;
mod names;
mod sets;
mod spawn;
mod values;

use std::ffi::{CStr, CString, c_char};
use std::os::fd::BorrowedFd;
use std::ptr;
use std::time::Duration;

use weft_libfabric_sys::pmix as sys;

use super::death::die_of_a_signal;
use super::watch::{Means, Stage, Watch};
use super::{AfterFinalize, Bootstrap, Job, Spawn, Spawned};
use crate::base::error::{Error, Result};
use crate::err;
use crate::identity::ProcessName;
use crate::system::locality::Layout;
use answers::Answers;
use spawn::Spawns;
use values::Said;

/// How long [`Bootstrap::abort`] waits for the server.
const ABORT_WAIT: Duration = Duration::from_secs(5);

/// The connection to a PMIx server.
pub struct Pmix {
    library: &'static sys::Symbols,
    me: sys::Proc,
    job: Job,
    /// Whether fences must collect what was put: see the module.
    collects: bool,
    answers: Answers,
    spawns: Spawns,
    /// Under Slurm, for a job of several ranks.
    watch: Option<Watch>,
    /// The server was told that this process may exit.
    over: bool,
}

/// Whether the environment is that of a process which a PMIx server expects.
pub fn is_expected(environment: impl Fn(&str) -> Option<String>) -> bool {
    environment("PMIX_NAMESPACE").is_some() && environment("PMIX_RANK").is_some()
}

impl Pmix {
    /// Connects to the server that the environment names.
    pub fn connect(environment: impl Fn(&str) -> Option<String>) -> Result<Pmix> {
        let library = library::load(&environment)?;
        let me = init(library)?;
        let namespace = values::namespace(&me)?;
        let mut pmix = Pmix {
            library,
            me,
            job: super::singleton::Singleton::new().job().clone(),
            collects: !namespace.starts_with("prte"),
            answers: Answers::new()?,
            spawns: Spawns::default(),
            watch: None,
            over: false,
        };
        pmix.learn(namespace)?;
        pmix.find_parent(&environment)?;
        if let Some(step) = pmix.job.id.strip_prefix("slurm.pmix.") {
            pmix.watch = Watch::start_or_warn(&pmix.job, step, Means::Step);
        }
        Ok(pmix)
    }

    /// Tells the watch, if there is one.
    fn set(&self, stage: Stage) {
        if let Some(watch) = &self.watch {
            watch.set(stage);
        }
    }

    fn learn(&mut self, namespace: String) -> Result<()> {
        let all = values::process(&namespace, sys::RANK_WILDCARD)?;
        let size = self
            .ask(&all, "pmix.job.size")?
            .and_then(|said| said.number::<u32>())
            .filter(|&size| size > 0 && i32::try_from(size).is_ok())
            .ok_or_else(|| {
                err!(
                    Other,
                    "the PMIx server does not say how many processes the job has"
                )
            })?;
        let rank = self.me.rank;
        if rank >= size {
            return Err(err!(
                Other,
                "the PMIx server says that this is rank {rank} of {size}: a rank below the size is expected"
            ));
        }
        let me = self.me;
        let job = &mut self.job;
        (job.rank, job.size) = (rank, size);
        job.id.clone_from(&namespace);
        self.job.appnum = self.ask(&me, "pmix.appnum")?.and_then(|said| said.number());
        self.job.universe_size = self.ask(&all, "pmix.univ.size")?.and_then(|said| said.number());
        let layout = match self.ask(&all, "pmix.anlmap")? {
            Some(Said::Text(mapping)) => Layout::parse(&mapping),
            _ => self.resolve(&namespace),
        };
        self.job.layout = layout.unwrap_or_else(|error| {
            self.job.layout_unknown = Some(error.message.into_owned());
            Layout::of_machines(&vec![None; size as usize])
        });
        let locals = self.job.layout.locals_of(rank, size);
        self.job.local_ranks = locals.count;
        self.job.local_rank = locals.before;
        self.job.local_only = locals.count == size;
        self.job.process_sets = self.process_sets(&namespace, size)?;
        Ok(())
    }

    /// The value of a key that the server has told this process at its start; `None` if it has not.
    fn ask(&self, process: &sys::Proc, key: &str) -> Result<Option<Said>> {
        let key = values::text(key)?;
        let local = values::flag("pmix.optional");
        let mut value = ptr::null_mut();
        // SAFETY: a process, a key and one attribute, which live until the call returns; `value` has room for a pointer.
        let status = unsafe { (self.library.PMIx_Get)(process, key.as_ptr(), &local, 1, &mut value) };
        if status != sys::SUCCESS || value.is_null() {
            return Ok(None);
        }
        // SAFETY: the library has allocated it for the caller.
        Ok(unsafe { values::take(value) })
    }

    /// The machines by their names, each with its ranks.
    fn resolve(&self, namespace: &str) -> Result<Layout> {
        let space = values::text(namespace)?;
        let mut list: *mut c_char = ptr::null_mut();
        // SAFETY: a text, and room for a pointer.
        let status = unsafe { (self.library.PMIx_Resolve_nodes)(space.as_ptr(), &mut list) };
        check(self.library, status, "PMIx_Resolve_nodes")?;
        // SAFETY: the library has allocated the text for the caller.
        let list = unsafe { values::take_text(list) }
            .ok_or_else(|| err!(Other, "the PMIx server does not name the job's machines"))?;
        let mut machines = vec![None; self.job.size as usize];
        for node in list.split(',') {
            let name = values::text(node)?;
            let (mut processes, mut count) = (ptr::null_mut(), 0);
            // SAFETY: texts, and room for a pointer and a number.
            let status = unsafe {
                (self.library.PMIx_Resolve_peers)(name.as_ptr(), space.as_ptr(), &mut processes, &mut count)
            };
            check(self.library, status, "PMIx_Resolve_peers")?;
            if processes.is_null() {
                continue;
            }
            // SAFETY: the library has allocated that many for the caller.
            let ranks = unsafe { std::slice::from_raw_parts(processes, count) };
            for process in ranks {
                if let Some(machine) = machines.get_mut(process.rank as usize) {
                    *machine = Some(node.to_string());
                }
            }
            // SAFETY: by C's allocator, and not used any more.
            unsafe { libc::free(processes.cast()) };
        }
        match machines.iter().position(Option::is_none) {
            Some(rank) => Err(err!(Other, "the PMIx server does not say where rank {rank} is")),
            None => Ok(Layout::of_machines(&machines)),
        }
    }
}

/// Joins the server's job, for the first time or again; the result is this process.
fn init(library: &sys::Symbols) -> Result<sys::Proc> {
    let mut me = values::process("", 0)?;
    let blocked = SignalsBlocked::now();
    // SAFETY: `me` has room for the name of this process, and there are no attributes.
    let status = unsafe { (library.PMIx_Init)(&mut me, ptr::null_mut(), 0) };
    drop(blocked);
    check(library, status, "PMIx_Init")?;
    Ok(me)
}

/// Checks the status of a call.
fn check(library: &sys::Symbols, status: i32, what: &str) -> Result<()> {
    match status {
        sys::SUCCESS | sys::OPERATION_SUCCEEDED => Ok(()),
        _ => Err(failed(library, status, what)),
    }
}

fn failed(library: &sys::Symbols, status: i32, what: &str) -> Error {
    // SAFETY: takes a number only.
    let text = unsafe { (library.PMIx_Error_string)(status) };
    let text = match text.is_null() {
        true => "unknown".into(),
        // SAFETY: a text that the library does not free before the next such call.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy(),
    };
    err!(
        Other,
        "the launcher's PMIx server can't be used: {what} says {text} ({status})"
    )
}

impl Bootstrap for Pmix {
    fn job(&self) -> &Job {
        &self.job
    }

    fn name(&self) -> &'static str {
        "pmix"
    }

    fn publish(&mut self, incarnation: u32, card: &[u8]) -> Result<()> {
        let key = values::text(&card_key(incarnation))?;
        let mut bytes = card.to_vec();
        let mut value = values::bytes(&mut bytes);
        // SAFETY: the key and the value live until the call returns; the library copies both.
        let status = unsafe { (self.library.PMIx_Put)(sys::GLOBAL, key.as_ptr(), &mut value) };
        check(self.library, status, "PMIx_Put")?;
        // SAFETY: no preconditions after PMIx_Init.
        let status = unsafe { (self.library.PMIx_Commit)() };
        check(self.library, status, "PMIx_Commit")
    }

    fn needs_fence(&self) -> bool {
        self.collects
    }

    fn begin_fence(&mut self) -> Result<()> {
        self.answers
            .begin_fence(self.library, &self.job.id, self.collects)
    }

    fn fence_is_over(&mut self) -> Result<bool> {
        match self.answers.fence() {
            None => Ok(false),
            Some(status) => check(self.library, status, "PMIx_Fence").map(|()| true),
        }
    }

    fn lookup(&mut self, incarnation: u32, peer: ProcessName) -> Result<Option<Vec<u8>>> {
        let rank = self.job.rank_of(peer)?;
        let process = values::process(&self.job.id, rank)?;
        let key = card_key(incarnation);
        match self.answers.value(self.library, &process, &key, self.collects)? {
            None => Ok(None),
            Some(Ok(Said::Bytes(card))) => Ok(Some(card)),
            Some(Ok(_)) => Err(err!(Other, "the business card of process {rank} is not bytes")),
            Some(Err(status)) => Err(failed(
                self.library,
                status,
                &format!("PMIx_Get of the business card of process {rank}"),
            )),
        }
    }

    fn after_finalize(&self) -> AfterFinalize {
        AfterFinalize::Ends
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn attend(&mut self) -> Result<bool> {
        self.answers.drain();
        Ok(false)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (!self.over).then(|| self.answers.descriptor())
    }

    fn spawn(&mut self, spawn: &Spawn) -> Result<u32> {
        self.begin_spawn(spawn)
    }

    fn spawned(&mut self, spawn: u32) -> Result<Option<Spawned>> {
        self.end_spawn(spawn)
    }

    fn spawn_patience(&self) -> Option<Duration> {
        Some(spawn::PATIENCE)
    }

    fn publish_name(&mut self, service: &str, port: &str) -> Result<()> {
        self.publish_service(service, port)
    }

    fn unpublish_name(&mut self, service: &str) -> Result<()> {
        self.unpublish_service(service)
    }

    fn lookup_name(&mut self, service: &str) -> Result<Option<String>> {
        self.look_up_service(service)
    }

    fn abort(&mut self, code: i32, message: &str) -> bool {
        if self.over && self.job.size == 1 {
            return false;
        }
        let (library, over) = (self.library, self.over);
        let message = CString::new(message).unwrap_or_default();
        // Each call returns when the server has answered, and that may be never.
        let (done, answered) = std::sync::mpsc::channel();
        let asking = std::thread::Builder::new().spawn(move || {
            // What this leaks, some 150 kB in 4.2.2, is why it is not done for each session.
            let joined = !over || init(library).is_ok();
            // SAFETY: a text that lives until the call returns; no processes stand for all.
            let asked = joined
                && unsafe { (library.PMIx_Abort)(code, message.as_ptr(), ptr::null_mut(), 0) }
                    == sys::SUCCESS;
            let _ = done.send(asked);
        });
        let answer = asking.ok().and_then(|_| answered.recv_timeout(ABORT_WAIT).ok());
        if answer == Some(true) {
            self.set(Stage::Outside);
        }
        if over && answer != Some(true) {
            die_of_a_signal();
        }
        answer == Some(true)
    }

    fn come_back(&mut self) {
        self.set(Stage::Again);
    }

    fn finalize(&mut self) -> Result<()> {
        self.set(Stage::Outside);
        if std::mem::replace(&mut self.over, true) {
            return Ok(());
        }
        // SAFETY: after PMIx_Init, once; no call is under way in another thread, as they all need `self`.
        let status = unsafe { (self.library.PMIx_Finalize)(ptr::null(), 0) };
        check(self.library, status, "PMIx_Finalize")
    }
}

/// The key of a business card. The server keeps the keys of each process apart.
fn card_key(incarnation: u32) -> String {
    format!("weft-card-{incarnation}")
}

/// While it lives, all signals are blocked in this thread, and so in the threads that are made meanwhile, for good: the library's own must
/// not take the program's signals.
struct SignalsBlocked(nix::sys::signal::SigSet);

impl SignalsBlocked {
    fn now() -> Option<SignalsBlocked> {
        use nix::sys::signal::{SigSet, SigmaskHow};
        SigSet::all()
            .thread_swap_mask(SigmaskHow::SIG_BLOCK)
            .ok()
            .map(SignalsBlocked)
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        let _ = self.0.thread_set_mask();
    }
}
