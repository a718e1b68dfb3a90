//! Sessions (MPI 5.0 section 11.3), from opening to closing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::base::error::Result;
use crate::engine::buffered::{Attachment, SendBuffer};
use crate::engine::request::{Outcome, RequestId};
use crate::err;
use crate::identity::{Context, PeerIndex};
use crate::instance::{Completion, Instance, Lifetime, User};
use crate::objects::collective;
use crate::objects::communicator::Communicator;
use crate::objects::errhandler::Errhandler;
use crate::objects::group::Group;
use crate::objects::info::Info;
use crate::objects::memory_kinds;
use crate::system::bootstrap::Job;

/// The info key that asks for a thread level, and its values.
const THREAD_LEVEL: &str = "thread_level";
const THREAD_LEVELS: [&str; 4] = [
    "MPI_THREAD_SINGLE",
    "MPI_THREAD_FUNNELED",
    "MPI_THREAD_SERIALIZED",
    "MPI_THREAD_MULTIPLE",
];

/// A session that is initialized.
pub struct Session {
    number: u64,
    instance: Arc<Instance>,
    errhandler: Mutex<Errhandler>,
    provides: Provides,
    attachment: Attachment,
    /// Whether it is over.
    closed: AtomicBool,
    /// Whether groups, and so perhaps other objects, were derived from it.
    has_derived: AtomicBool,
    /// The groups of process sets that were asked for, so that each is made once.
    groups: Mutex<Vec<(ProcessSet, Arc<Group>)>>,
    links: Mutex<Links>,
}

/// What ties a session to other processes: what its end waits for.
#[derive(Default)]
struct Links {
    /// Context id and group of each communicator of several processes that was derived from it and not disconnected.
    connected: FxHashMap<Context, Arc<Group>>,
    /// The requests of the disconnect barriers of freed communicators.
    barriers: Vec<RequestId>,
}

/// What a session provides of what it was asked for.
struct Provides {
    thread_level: &'static str,
    /// `None`: what the launcher asks for counts, as the info says nothing (section 11.4.3).
    memory_kinds: Option<String>,
}

impl Provides {
    /// # Errors
    /// `MPI_ERR_INFO_VALUE`: there is no such thread level.
    fn of(asked: Option<&Info>) -> Result<Provides> {
        let asked_for = |key| asked.and_then(|info| info.get(key));
        let level = asked_for(THREAD_LEVEL);
        let level = level.as_deref().unwrap_or(THREAD_LEVELS[3]);
        let known = THREAD_LEVELS.into_iter().find(|known| *known == level);
        Ok(Provides {
            thread_level: known.ok_or_else(|| {
                err!(
                    InfoValue,
                    "the info key {THREAD_LEVEL} has the value '{level}': expected one of {}",
                    THREAD_LEVELS.join(", ")
                )
            })?,
            memory_kinds: asked_for(memory_kinds::KEY),
        })
    }

    /// `launcher_kinds`: the memory kinds that the launcher asks for.
    fn info(&self, launcher_kinds: Option<&str>) -> Info {
        let kinds = self.memory_kinds.as_deref().or(launcher_kinds);
        let kinds = memory_kinds::supported(kinds.unwrap_or(memory_kinds::DEFAULT));
        Info::of([
            (THREAD_LEVEL.to_string(), self.thread_level.to_string()),
            (memory_kinds::KEY.to_string(), kinds),
        ])
    }
}

/// What the layer above does for a session.
pub trait Host {
    /// Takes the buffers of buffered mode that the user did not detach from communicators derived from it.
    fn takes_buffers(&self, session: &Session) -> Vec<Arc<SendBuffer>>;
    /// It is over: it and what was derived from it are forgotten.
    fn ends(&self, session: &Session);
}

/// For a program that has nothing of its own to do.
impl Host for () {
    fn takes_buffers(&self, _: &Session) -> Vec<Arc<SendBuffer>> {
        Vec::new()
    }
    fn ends(&self, _: &Session) {}
}

/// A process set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessSet {
    /// All processes of the job.
    World,
    /// This process.
    Myself,
    /// One that the launcher named: its place in [`Job::process_sets`].
    Named(usize),
}

impl ProcessSet {
    /// The sets that a process is in, in the order of `MPI_Session_get_nth_pset`.
    pub fn of(job: &Job) -> impl Iterator<Item = ProcessSet> {
        let named = job.process_sets.iter().enumerate();
        let mine = named.filter(|(_, set)| set.contains(job.rank));
        [ProcessSet::World, ProcessSet::Myself]
            .into_iter()
            .chain(mine.map(|(at, _)| ProcessSet::Named(at)))
    }

    /// Its name.
    pub fn name(self, job: &Job) -> &str {
        match self {
            ProcessSet::World => "mpi://WORLD",
            ProcessSet::Myself => "mpi://SELF",
            ProcessSet::Named(at) => &job.process_sets[at].name,
        }
    }

    /// The set of a name; the case of the letters of a `mpi://` name does not matter. The process need not be in it.
    ///
    /// # Errors
    /// There is none (`MPI_ERR_ARG`).
    pub fn of_name(name: &str, job: &Job) -> Result<ProcessSet> {
        let standard = [ProcessSet::World, ProcessSet::Myself]
            .into_iter()
            .find(|set| set.name(job).eq_ignore_ascii_case(name));
        let named = || job.process_sets.iter().position(|set| set.name == name);
        standard
            .or_else(|| named().map(ProcessSet::Named))
            .ok_or_else(|| {
                let known: Vec<&str> = ProcessSet::of(job).map(|set| set.name(job)).collect();
                err!(
                    Arg,
                    "there is no process set '{name}'; this process is in {}",
                    known.join(", ")
                )
            })
    }
}

impl Session {
    /// Opens one (section 11.3.1), which keeps the instance until [`Session::close`]. Local, and may be done at any time, by any
    /// thread. `asked`: the info keys `thread_level` and `mpi_memory_alloc_kinds`.
    ///
    /// # Errors
    /// `MPI_ERR_INFO_VALUE`: there is no such thread level. Others where there can't be an instance.
    pub fn open(lifetime: &Lifetime, errhandler: Errhandler, asked: Option<&Info>) -> Result<Arc<Session>> {
        let instance = lifetime.acquire(User::Session)?;
        // Another session may be another thread's, whatever each of them says of its own.
        instance.engine().set_several_threads();
        let made = Session::new(instance, errhandler, asked);
        if made.is_err() {
            lifetime.release(false)?;
        }
        made
    }

    /// Ends it (section 11.3.1): its communicators are disconnected ([`Session::finalize`]), what is in its buffers leaves, and the instance is given
    /// back. An error of its end leaves nothing of it, either.
    ///
    /// # Errors
    /// `MPI_ERR_SESSION`: another thread has ended it at the same time. Others of what was under way or in buffers.
    pub fn close(&self, lifetime: &Lifetime, host: &dyn Host) -> Result<()> {
        let instance = &self.instance;
        // What the user did not detach is detached here. That its messages leave is a part of the end, of each communicator by
        // itself: one of them may be received only after this process has disconnected another.
        let mut buffers = match self.has_derived() {
            true => host.takes_buffers(self),
            false => Vec::new(),
        };
        buffers.extend(self.attachment.take());
        if !lifetime.has_other_users() {
            buffers.extend(instance.attachment().take());
        }
        let ended = match self.has_derived() {
            true => instance.block_on_turns(self.finalize()),
            false => Ok(()),
        };
        let lost = instance.flush_all(&buffers);
        if self.closed.swap(true, Ordering::AcqRel) {
            return Err(err!(
                Session,
                "the session was finalized by another thread at the same time"
            ));
        }
        host.ends(self);
        ended.and(lifetime.release(false)).and(lost)
    }

    /// A new session of an instance that somebody else keeps. See [`Session::open`].
    pub fn new(
        instance: Arc<Instance>,
        errhandler: Errhandler,
        asked: Option<&Info>,
    ) -> Result<Arc<Session>> {
        Ok(Arc::new(Session {
            number: instance.new_session_number(),
            instance,
            errhandler: Mutex::new(errhandler),
            provides: Provides::of(asked)?,
            attachment: Attachment::default(),
            closed: AtomicBool::new(false),
            has_derived: AtomicBool::new(false),
            groups: Mutex::default(),
            links: Mutex::default(),
        }))
    }

    /// What marks the groups that are derived from it: a number that no other session of the instance has or had.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The instance that it uses.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// What happens to its errors.
    pub fn errhandler(&self) -> &Mutex<Errhandler> {
        &self.errhandler
    }

    /// What it provides.
    pub fn info(&self) -> Info {
        let job = self.instance.job();
        self.provides.info(job.memory_alloc_kinds.as_deref())
    }

    /// Where its buffer for buffered mode is attached.
    pub fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// Whether there can be objects that were derived from it.
    pub fn has_derived(&self) -> bool {
        self.has_derived.load(Ordering::Acquire)
    }

    /// The processes of a set.
    pub fn group(&self, set: ProcessSet) -> Arc<Group> {
        self.has_derived.store(true, Ordering::Release);
        let mut groups = self.groups.lock();
        if let Some((_, group)) = groups.iter().find(|(of, _)| *of == set) {
            return group.clone();
        }
        let job = self.instance.job();
        let of_list = |members| Group::of_session(self.number, members);
        let group = match set {
            ProcessSet::World => Group::first_of_session(self.number, job.size),
            ProcessSet::Myself => of_list(vec![self.instance.me()]),
            ProcessSet::Named(at) => of_list(job.process_sets[at].iter().map(PeerIndex::of_rank).collect()),
        };
        groups.push((set, group.clone()));
        group
    }

    /// How many processes a set has.
    pub fn size(&self, set: ProcessSet) -> u32 {
        let job = self.instance.job();
        match set {
            ProcessSet::World => job.size,
            ProcessSet::Myself => 1,
            ProcessSet::Named(at) => job.process_sets[at].iter().count() as u32,
        }
    }

    /// Notes a communicator that was derived from it.
    pub fn connect(&self, communicator: &Communicator) {
        let context = communicator.context();
        self.instance.lend_context(context);
        let processes = communicator.everybody();
        self.links.lock().connected.insert(context, processes);
    }

    /// Forgets a communicator that has been disconnected.
    pub fn disconnect(&self, communicator: &Communicator) {
        self.links.lock().connected.remove(&communicator.context());
        self.instance.take_context_back(communicator.context());
    }

    /// A communicator is freed: its disconnect barrier begins now, so that the end of the session does not take longer with each of
    /// them. If an operation is under way on it, it is kept for the end.
    pub fn free(&self, communicator: &Communicator) {
        let context = communicator.context();
        let is_it = |of: Context| of.communicator() == context;
        if self.instance.engine().has_under_way(is_it) {
            return;
        }
        let mut links = self.links.lock();
        let Some(group) = links.connected.remove(&context) else {
            return;
        };
        {
            let mut engine = self.instance.engine();
            // Those that have ended without an error need no memory.
            links.barriers.retain(|&barrier| {
                let well = engine
                    .outcome(barrier)
                    .is_some_and(|outcome| outcome.error.is_none());
                well.then(|| engine.take(barrier)).is_none()
            });
        }
        drop(links);
        let Some(freed) = Communicator::new(&self.instance, context, group) else {
            return;
        };
        let instance = self.instance.clone();
        let barrier = self.instance.spawn(Box::pin(async move {
            // Short messages are counted, too, so that the end of the session can wait until they have left.
            let _counting = instance.count_all();
            let disconnected = collective::barrier(&freed.disconnect_barrier()).await;
            instance.take_context_back(context);
            disconnected.map(|()| Outcome::EMPTY)
        }));
        self.links.lock().barriers.push(barrier);
    }

    /// Ends it: a disconnect barrier on each communicator that was not disconnected, on all of them at the same time, because other
    /// processes may have them in several sessions; then all messages have left. Local if there is no such communicator.
    ///
    /// What has not ended then on its communicators does so with an error, so that nothing writes into the user's memory
    /// any more.
    ///
    /// To be awaited by [`Instance::block_on_turns`].
    pub async fn finalize(&self) -> Result<()> {
        let instance = &self.instance;
        let Links { connected, barriers } = std::mem::take(&mut *self.links.lock());
        if connected.is_empty() && barriers.is_empty() {
            return Ok(());
        }
        // A communicator of this process alone needs no barrier, but its operations have to end.
        let is_mine_alone = |of: Context| {
            let group = connected.get(&of.communicator());
            group.is_some_and(|group| group.size() == 1)
        };
        instance.settled(is_mine_alone).await;
        let communicators: Vec<_> = connected
            .iter()
            .filter(|(_, group)| group.size() > 1)
            .filter_map(|(&context, group)| Communicator::new(instance, context, group.clone()))
            .collect();
        let mut result = Ok(());
        if !communicators.is_empty() || !barriers.is_empty() {
            result = Communicator::disconnect_all(instance, communicators).await;
            for barrier in barriers {
                let disconnected = Completion::of(instance.clone(), barrier).await;
                result = result.and(disconnected.map(drop));
            }
            instance.left().await;
        }
        let is_ours = |of: Context| connected.contains_key(&of.communicator());
        let error = err!(
            Session,
            "the session was finalized before the operation was completed"
        );
        // A collective that has failed in one step goes on with the next.
        loop {
            instance.engine().give_up_all(is_ours, &error);
            if !instance.run_ready_tasks() {
                break;
            }
        }
        for &context in connected.keys() {
            instance.take_context_back(context);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(asked: Option<&str>, launcher: Option<&str>) -> Option<String> {
        let asked = asked.map(|kinds| Info::of([(memory_kinds::KEY.into(), kinds)]));
        let provides = Provides::of(asked.as_ref()).expect("no thread level is asked for");
        provides.info(launcher).get(memory_kinds::KEY)
    }

    #[test]
    fn the_info_counts_before_the_launcher() {
        assert_eq!(kinds(None, None).as_deref(), Some("mpi,system"));
        assert_eq!(
            kinds(None, Some("mpi:win_allocate")).as_deref(),
            Some("mpi,system,mpi:win_allocate")
        );
        assert_eq!(
            kinds(Some("mpi:alloc_mem"), Some("mpi:win_allocate")).as_deref(),
            Some("mpi,system,mpi:alloc_mem")
        );
    }

    #[test]
    fn a_bad_thread_level_is_named() {
        let asked = Info::of([(THREAD_LEVEL.into(), "many")]);
        let error = Provides::of(Some(&asked)).err().expect("there is no such level");
        assert!(
            error.message.contains("many") && error.message.contains("MPI_THREAD_SERIALIZED"),
            "{error}"
        );
    }
}
