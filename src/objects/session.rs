//! Sessions (MPI 5.0 section 11.3).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::base::error::Result;
use crate::engine::buffered::Attachment;
use crate::engine::request::{Outcome, RequestId};
use crate::err;
use crate::identity::{Context, PeerIndex};
use crate::instance::{Completion, Instance};
use crate::objects::collective;
use crate::objects::communicator::Communicator;
use crate::objects::errhandler::Errhandler;
use crate::objects::group::Group;
use crate::objects::info::Info;
use crate::system::bootstrap::Job;

/// A session that is initialized.
pub struct Session {
    number: u64,
    instance: Arc<Instance>,
    errhandler: Mutex<Errhandler>,
    info: Arc<Info>,
    attachment: Attachment,
    /// Whether groups, and so perhaps other objects, were derived from it.
    has_derived: AtomicBool,
    links: Mutex<Links>,
}

/// What ties a session to other processes: what its end waits for.
#[derive(Default)]
struct Links {
    /// Context id and group of each communicator of several processes that was derived from it and not disconnected.
    connected: FxHashMap<Context, Arc<Group>>,
    /// The members of freed communicators are parting: the requests of that.
    partings: Vec<RequestId>,
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
    /// A new session, which provides what `info` says.
    pub fn new(instance: Arc<Instance>, errhandler: Errhandler, info: Arc<Info>) -> Arc<Session> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Arc::new(Session {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            instance,
            errhandler: Mutex::new(errhandler),
            info,
            attachment: Attachment::default(),
            has_derived: AtomicBool::new(false),
            links: Mutex::default(),
        })
    }

    /// What marks the groups that are derived from it: a number that no other session of the process has or had.
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
    pub fn info(&self) -> &Info {
        &self.info
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
        let job = self.instance.job();
        let members = match set {
            ProcessSet::World => (0..job.size).map(PeerIndex::of_rank).collect(),
            ProcessSet::Myself => vec![self.instance.me()],
            ProcessSet::Named(at) => job.process_sets[at].iter().map(PeerIndex::of_rank).collect(),
        };
        Group::of_session(self.number, members)
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

    /// A communicator is freed: its members begin to part, so that a session's end does not grow with the number of
    /// those. One with something under way is kept for the end.
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
            // Those that have parted well need no memory.
            links.partings.retain(|&parting| {
                let well = engine
                    .outcome(parting)
                    .is_some_and(|outcome| outcome.error.is_none());
                well.then(|| engine.take(parting)).is_none()
            });
        }
        drop(links);
        let Some(parting) = Communicator::new(&self.instance, context, group) else {
            return;
        };
        let instance = self.instance.clone();
        let parted = self.instance.spawn(Box::pin(async move {
            // Short messages are counted, too, so that the end of the session can wait until they have left.
            let _counting = instance.count_all();
            let parted = collective::barrier(&parting.disconnect_barrier()).await;
            instance.take_context_back(context);
            parted.map(|()| Outcome::EMPTY)
        }));
        self.links.lock().partings.push(parted);
    }

    /// Ends it: the members of each communicator that was not disconnected part, all of those at once, as some may
    /// have them in one session and others in several; then all that was sent has left. Local if there is none.
    ///
    /// What has not ended then on its communicators does so with an error, so that nothing writes into the user's memory
    /// any more.
    ///
    /// To be awaited by [`Instance::block_on_turns`].
    pub async fn finalize(&self) -> Result<()> {
        let instance = &self.instance;
        let Links { connected, partings } = std::mem::take(&mut *self.links.lock());
        if connected.is_empty() && partings.is_empty() {
            return Ok(());
        }
        // Nobody has to part from oneself, but what one has sent to oneself has to end.
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
        if !communicators.is_empty() || !partings.is_empty() {
            result = Communicator::disconnect_all(instance, communicators).await;
            for parting in partings {
                let parted = Completion::of(instance, parting).await;
                result = result.and(parted.map(drop));
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
