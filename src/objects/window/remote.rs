//! Puts and gets by the one-sided operations of lanes (`engine::one_sided`): the target takes no part in them, unless its lane has it poll.
//!
//! Each process exposes its memory when the window is made, if any of them wants to access memory so, and says by which [`Keys`]; they are
//! decoded when they are first used. What is under way to a target counts in a counter, which flushes and whatever else ends an epoch
//! wait for before they tell the target anything. Operations with requests have counters of their own, for which flushes wait as well.
//!
//! By messages go:
//! - all accumulates, as an element must be updated by one path only, and no provider has all operations on any type that hardware
//!   performs; updates of the target itself and of processes of its host are atomic with those that it does for others
//! - what is accessed before the connection is there, or before it is known that the lock is granted, which is asked for with the first
//!   operation
//! - what has many runs at the target, and whatever comes while many operations wait for their lanes

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::access::{Action, Place};
use super::members::Way;
use super::runs::Groups;
use super::{Exposed, Origin, Window, segments};
use crate::base::error::Result;
use crate::base::settings::Access;
use crate::data::datatype::Runs;
use crate::data::memory::Memory;
use crate::engine::one_sided::{Counter, Keys, Reach};
use crate::engine::request::RequestId;
use crate::err;
use crate::instance::Instance;
use crate::objects::collective;
use crate::objects::communicator::Communicator;

/// The most runs at the target: each is an operation of its own, and a message holds many.
const RUNS: u64 = 64;
/// The shortest runs, on average, unless there is only one: shorter ones are sooner packed into a message.
const RUN: u64 = 1 << 10;
/// So many counters of requests are remembered before it is looked which of them are idle.
const REQUESTED: usize = 64;

/// By what the memory of a window's processes can be accessed.
#[derive(Debug)]
pub struct Remote {
    /// Bytes of what each has said: the length of its keys in two bytes, the keys, and bytes without a meaning.
    record: usize,
    said: Vec<u8>,
    /// Also where it need not be faster.
    forced: bool,
}

impl Remote {
    const LEN: usize = 2;

    /// Whether a process wants to access the memory of others so: `far`, there are some to which messages would lead.
    pub fn is_wanted(instance: &Instance, exposed: &Exposed, far: bool) -> bool {
        let forced = Remote::is_forced(instance);
        let has_memory = match exposed {
            Exposed::Users(_) | Exposed::Own(..) | Exposed::OnHost(_) => true,
            // What is attached has no keys.
            Exposed::Attached(_) => false,
            Exposed::Shared(_) => forced,
        };
        let may = segments::access(instance) != Access::Messages;
        far && has_memory && may && instance.engine().accesses_memory(forced)
    }

    fn is_forced(instance: &Instance) -> bool {
        segments::access(instance) == Access::Rdma
    }

    /// What a rank has said.
    fn encoded(&self, rank: u32) -> &[u8] {
        let record = &self.said[rank as usize * self.record..][..self.record];
        let len = usize::from(u16::from_le_bytes([record[0], record[1]]));
        record[Remote::LEN..].get(..len).unwrap_or(&[])
    }

    /// Whether a rank has exposed anything.
    #[inline]
    pub fn has(&self, rank: u32) -> bool {
        !self.encoded(rank).is_empty()
    }

    /// See [`Remote`].
    pub fn forced(&self) -> bool {
        self.forced
    }
}

/// What goes to one target so.
#[derive(Default)]
pub struct Direct {
    /// Whether the lane can, once that is known, and the keys.
    keys: Option<Option<Arc<Keys>>>,
    /// What is under way, but for what counts in others.
    counter: Arc<Counter>,
    /// What requests of the user's wait for.
    requested: Vec<Arc<Counter>>,
    /// Something was begun that nobody has begun to wait for.
    used: bool,
}

impl Direct {
    /// Whether nothing has to be waited for.
    #[inline]
    pub fn is_idle(&self) -> bool {
        !self.used
    }

    /// What is under way, for whoever waits for it.
    pub fn take(&mut self) -> Option<UnderWay> {
        std::mem::take(&mut self.used).then(|| UnderWay {
            counter: self.counter.clone(),
            requested: std::mem::take(&mut self.requested),
        })
    }

    fn counter(&mut self, request: bool) -> &Arc<Counter> {
        self.used = true;
        if !request {
            return &self.counter;
        }
        if self.requested.len() >= REQUESTED {
            self.requested.retain(|counter| !counter.is_idle());
        }
        self.requested.push(Counter::new());
        self.requested.last().expect("the new one")
    }
}

/// See [`Direct::take`].
pub struct UnderWay {
    counter: Arc<Counter>,
    requested: Vec<Arc<Counter>>,
}

impl UnderWay {
    /// Waits until all of it has ended.
    ///
    /// # Errors
    /// That of an operation that no request tells of.
    pub async fn ended(self) -> Result<()> {
        poll_fn(|_| {
            let mut all = std::iter::once(&self.counter).chain(&self.requested);
            match all.all(|counter| counter.is_idle()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        self.counter.take_error().map_or(Ok(()), Err)
    }
}

impl Window {
    /// Exposes this process's memory, and finds out by what that of the others can be accessed. All processes of the window do so, by the
    /// messages of `parent`.
    ///
    /// # Errors
    /// A process is lost.
    pub(super) async fn expose(&self, parent: &Arc<Communicator>) -> Result<Remote> {
        let instance = parent.instance();
        let memory = Memory::run(self.exposed().base(), self.exposed().size());
        // Others may want it where this process doesn't.
        let may = segments::access(instance) != Access::Messages;
        let mut keys = Vec::new();
        if let Some(memory) = memory.contiguous().filter(|_| may) {
            // SAFETY: the memory is the window's, which keeps it until it is retired, and conceals it then; the user leaves it to the
            // window's operations.
            let (exposed, by) = unsafe { instance.engine().expose(memory) };
            *self.concealed.lock() = Some(exposed);
            keys = by.encode();
        }
        let [longest] = collective::largest(&parent.collective(), [keys.len() as u64]).await?;
        let Some(len) = u16::try_from(longest).ok().map(usize::from) else {
            return Err(err!(
                Intern,
                "a process exposes its memory by keys of {longest} bytes"
            ));
        };
        let mut said = (keys.len() as u16).to_le_bytes().to_vec();
        said.extend(&keys);
        said.resize(Remote::LEN + len, 0);
        let record = said.len();
        let mut said = collective::allgather_bytes(&parent.collective(), &said).await?;
        if !may {
            said.fill(0);
        }
        Ok(Remote {
            record,
            said,
            forced: Remote::is_forced(instance),
        })
    }

    /// Nobody accesses this process's memory any more.
    pub(super) fn conceal(&self) {
        let exposed = self.concealed.lock().take();
        if let Some(exposed) = exposed {
            self.communicator().instance().engine().conceal(exposed);
        }
    }

    /// Starts an operation by the target's lane. `None`: it has to go by messages; otherwise its request, if one was asked for.
    ///
    /// # Safety
    /// As for the operation; the place is within the target's memory.
    pub(super) unsafe fn by_lane(
        &self,
        origin: &mut Origin,
        action: &Action,
        place: &Place,
        request: bool,
    ) -> Option<Option<RequestId>> {
        let rank = place.rank;
        if self.members().way(rank) != Way::Remote {
            return None;
        }
        let (memory, writes) = match action {
            Action::Put(memory) => (memory, true),
            Action::Get(memory) => (memory, false),
            Action::Accumulate(..) | Action::GetAccumulate(..) | Action::CompareAndSwap(..) => return None,
        };
        let remote = self.members().remote()?;
        let needs_lock = !self.locks_by_words() && origin.epochs.needs_lock(rank);
        let to = self.to(origin, rank);
        if needs_lock && !to.granted {
            return None;
        }
        let peer = to.peer;
        let mut groups = Groups::new();
        let described = place.access().piece(0, place.len(), RUNS as usize, &mut groups);
        let runs: u64 = groups
            .iter()
            .map(|group| group.count)
            .fold(0, u64::saturating_add);
        let are_few = described == place.len() && (runs == 1 || runs <= RUNS);
        if !are_few || runs > 1 && !remote.forced() && place.len() / runs < RUN {
            return None;
        }
        let direct = to.direct.get_or_insert_default();
        let communicator = self.communicator();
        let mut engine = communicator.instance().engine();
        if engine.has_many_accesses() {
            return None;
        }
        if direct.keys.is_none() {
            let keys = Keys::decode(remote.encoded(rank)).ok().map(Arc::new);
            let reached = keys.as_ref().map_or(Reach::No, |keys| engine.reach(peer, keys));
            direct.keys = match reached {
                // It has been asked for.
                Reach::Unknown => return None,
                Reach::Yes { needs_target, .. } if remote.forced() || !needs_target => Some(keys),
                Reach::Yes { .. } | Reach::No => Some(None),
            };
        }
        let keys = direct.keys.clone()??;
        let counter = direct.counter(request).clone();
        let mut from = 0;
        let places = groups
            .iter()
            .flat_map(|group: &Runs| group.places().map(|at| (at, group.len)));
        for (at, len) in places {
            let part = memory.part(from, len);
            from += len;
            // SAFETY: the memory is the operation's until it is complete at this process: the end of the request, or a call that
            // completes it, waits for the counter.
            unsafe {
                match writes {
                    true => engine.write_remote(peer, &keys, at, part, &counter),
                    false => engine.read_remote(peer, &keys, at, part, &counter),
                }
            }
        }
        Some(request.then(|| {
            let done = engine.wait_for(&counter);
            engine.set_context(done, communicator.context());
            done
        }))
    }
}
