//! Processes of a host that have mapped the same memory, as far as they wait for words in it and wake each other: the areas of collective
//! operations ([`area`](super::area)), and the memory of windows.
//!
//! The memory has a bit for each process, which says that it sleeps, and a record for each: how it is woken, and for what it
//! sleeps. Whoever raises a word looks at the bits, and wakes those that sleep for that.
//!
//! By the same record they find out whether they can read and write each other's memory, by way of the kernel ([`cma`]): each offers a
//! sample of its memory, and a word to write to.
//!
//! ```text
//!   a record:  process (4), pipe (4), inode (8), fences (4), sleeps for (4),
//!              sample: process (4), whether it can be woken (4), address (8), value (8), where others write (8), unused (8)
//! ```
//!
//! Everything that is read is input from another process of the same user, and is checked.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};
use std::task::Poll;

use parking_lot::Mutex;

use crate::base::error::Result;
use crate::data::pieces::Piece;
use crate::engine::matching::Pattern;
use crate::engine::{Sleeper, WatchId, Watched};
use crate::identity::{Context, PeerIndex};
use crate::instance::{Instance, Poller, poller};
use crate::lane::shm::{BellPull, cma};
use crate::lane::{Doorbell, Sample};
use crate::system::shared_memory::Map;

pub use crate::engine::ANYTHING;

// Offsets in a process's record.
const AT_PID: usize = 0;
const AT_BELL: usize = 4;
const AT_INODE: usize = 8;
const AT_FENCES: usize = 16;
const AT_SLEEPS_FOR: usize = 20;
// By what others try whether they can read the process's memory, and where they try whether they can write it.
const AT_READER: usize = 24;
const AT_HAS_BELL: usize = 28;
const AT_SAMPLE: usize = 32;
const AT_VALUE: usize = 40;
const AT_WRITTEN: usize = 48;
/// The bytes of a record: a cache line.
pub const RECORD: usize = 64;

/// Where others try whether they can write this process's memory. It is always there, whenever one does.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Where the bits and the records are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Places {
    /// The bits, in words of eight bytes.
    pub bits: usize,
    /// The first record.
    pub records: usize,
    /// From one to the next.
    pub stride: usize,
}

/// The processes, by their places in the memory.
pub struct Who {
    /// Each one.
    pub peers: Box<[PeerIndex]>,
    /// Its rank in the communicator.
    pub ranks: Box<[u32]>,
    /// The place of this one.
    pub mine: u32,
    /// The context of the messages that stand for waits.
    pub context: Context,
}

/// A word that only grows, and for which a process waits.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    /// Where it is.
    pub at: usize,
    /// The wait ends when it has at least this value.
    pub least: u64,
    /// What this process sleeps for: whoever raises the word passes that to [`Sharers::wake`].
    pub sleeps_for: u32,
    /// The place of the process that raises it, as far as that is known: its loss ends the wait.
    pub by: u32,
    /// The tag of the message that stands for the wait in reports.
    pub tag: i32,
}

/// See the module.
pub struct Sharers {
    map: Arc<Map>,
    instance: Arc<Instance>,
    places: Places,
    who: Who,
    /// Whether whoever raises a word executes a fence.
    fences: bool,
    /// The pipes of those that were once found asleep.
    bells: Mutex<Vec<Option<BellPull>>>,
}

impl Sharers {
    /// This process writes its record. Without a doorbell it can't be woken, and sleeps for short times only.
    ///
    /// # Panics
    /// If the memory has no room for bits and records.
    pub fn new(
        map: Map,
        instance: &Arc<Instance>,
        places: Places,
        who: Who,
        doorbell: Option<Doorbell>,
    ) -> Sharers {
        let size = who.peers.len();
        let (words, last) = (size.div_ceil(64), (size - 1) * places.stride);
        assert!(map.has(places.bits, 8 * words) && map.has(places.records, last + RECORD));
        assert!(places.bits.is_multiple_of(8) && places.records.is_multiple_of(8));
        assert!(places.stride.is_multiple_of(8) && places.stride >= RECORD);
        assert!(who.ranks.len() == size && (who.mine as usize) < size);
        let sharers = Sharers {
            map: Arc::new(map),
            instance: instance.clone(),
            places,
            fences: doorbell.is_none_or(|doorbell| doorbell.wants_fences),
            bells: Mutex::new((0..size).map(|_| None).collect()),
            who,
        };
        let at = sharers.record(sharers.mine());
        let map = &sharers.map;
        if let Some(doorbell) = doorbell {
            map.u32(at + AT_PID).store(doorbell.pid, Relaxed);
            map.u32(at + AT_BELL).store(doorbell.descriptor, Relaxed);
            map.u64(at + AT_INODE).store(doorbell.inode, Relaxed);
            map.u32(at + AT_HAS_BELL).store(1, Release);
        }
        // Release: pairs with the acquire in `meet`.
        map.u32(at + AT_FENCES).store(sharers.fences.into(), Release);
        sharers
    }

    /// Called when all processes have written their records.
    pub fn meet(&mut self) {
        let wants = |member| self.map.u32(self.record(member) + AT_FENCES).load(Acquire) != 0;
        self.fences |= (0..self.size()).any(wants);
    }

    /// The memory.
    #[inline]
    pub fn map(&self) -> &Arc<Map> {
        &self.map
    }

    /// This process's instance.
    #[inline]
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// Number of processes.
    #[inline]
    pub fn size(&self) -> u32 {
        self.who.peers.len() as u32
    }

    /// This process's place.
    #[inline]
    pub fn mine(&self) -> u32 {
        self.who.mine
    }

    /// The processes.
    pub fn who(&self) -> &Who {
        &self.who
    }

    /// The place of a rank of the communicator, if it is one of them. Ranks are in order.
    #[inline]
    pub fn place_of_rank(&self, rank: u32) -> Option<u32> {
        let ranks = &self.who.ranks;
        // Where all processes share the memory, each rank is its own place.
        match ranks.get(rank as usize) {
            Some(&there) if there == rank => Some(rank),
            _ => ranks.binary_search(&rank).ok().map(|place| place as u32),
        }
    }

    #[inline]
    fn record(&self, member: u32) -> usize {
        self.places.records + member as usize * self.places.stride
    }

    /// Whether a process can be woken when it sleeps.
    pub fn has_doorbell(&self, member: u32) -> bool {
        self.map.u32(self.record(member) + AT_HAS_BELL).load(Acquire) != 0
    }

    /// Says how the others try whether they can read and write this process's memory, before they do.
    pub fn offer_sample(&self, sample: Option<Sample>) {
        let at = self.record(self.mine());
        let Some(Sample { pid, address, value }) = sample else {
            return;
        };
        self.map.u64(at + AT_VALUE).store(value, Relaxed);
        self.map.u64(at + AT_SAMPLE).store(address, Relaxed);
        let written = WRITTEN.as_ptr().expose_provenance() as u64;
        self.map.u64(at + AT_WRITTEN).store(written, Relaxed);
        // Release: pairs with the acquire in `attachable`.
        self.map.u32(at + AT_READER).store(pid, Release);
    }

    /// The process id of a process whose memory this one can read and write. Called when all have offered their samples.
    pub fn attachable(&self, member: u32) -> Option<u32> {
        let at = self.record(member);
        let sample = Sample {
            pid: self.map.u32(at + AT_READER).load(Acquire),
            address: self.map.u64(at + AT_SAMPLE).load(Relaxed),
            value: self.map.u64(at + AT_VALUE).load(Relaxed),
        };
        let written = self.map.u64(at + AT_WRITTEN).load(Relaxed);
        if sample.pid == 0 || !cma::works(sample) {
            return None;
        }
        let word = sample.value.to_ne_bytes();
        // SAFETY: its word for this, whose value nobody reads; the sample was read from the process that it is in.
        let done = unsafe { cma::write_run(sample.pid, written, Piece::of(&word)) };
        done.is_ok().then_some(sample.pid)
    }

    /// Wakes the processes that sleep for this.
    #[inline]
    pub fn wake(&self, what: u32) {
        match self.fences {
            true => fence(Ordering::SeqCst),
            false => compiler_fence(Ordering::SeqCst),
        }
        for group in 0..self.who.peers.len().div_ceil(64) {
            let sleeping = self.bits(group).load(Relaxed);
            if sleeping != 0 {
                self.ring(group, sleeping, what);
            }
        }
    }

    /// The bits of 64 processes.
    #[inline]
    fn bits(&self, group: usize) -> &AtomicU64 {
        let at = self.places.bits + group * 8;
        debug_assert!(group < self.who.peers.len().div_ceil(64) && self.map.has(at, 8));
        // SAFETY: as in `Map::u64`; `new` has checked that the bits of all processes lie within the mapping.
        unsafe { AtomicU64::from_ptr(self.map.base().as_ptr().add(at).cast()) }
    }

    #[cold]
    fn ring(&self, group: usize, mut sleeping: u64, what: u32) {
        while sleeping != 0 {
            let bit = sleeping & sleeping.wrapping_neg();
            sleeping ^= bit;
            let member = group as u32 * 64 + bit.trailing_zeros();
            if member >= self.size() || member == self.mine() {
                continue;
            }
            let of = self.record(member);
            if ![what, ANYTHING].contains(&self.map.u32(of + AT_SLEEPS_FOR).load(Relaxed)) {
                continue;
            }
            if self.bits(group).fetch_and(!bit, Relaxed) & bit == 0 {
                continue;
            }
            let mut bells = self.bells.lock();
            let bell = &mut bells[member as usize];
            if bell.is_none() {
                let pid = self.map.u32(of + AT_PID).load(Relaxed);
                let descriptor = self.map.u32(of + AT_BELL).load(Relaxed);
                *bell = BellPull::open(pid, descriptor, self.map.u64(of + AT_INODE).load(Relaxed)).ok();
            }
            // Without one, it wakes after a time.
            if let Some(bell) = bell {
                bell.ring();
            }
        }
    }

    /// Waits until a word has the value. A blocking call waits in place; for a task, the engine watches the word.
    ///
    /// # Errors
    /// The process that was to raise it is lost, or in another operation.
    pub async fn wait(&self, awaited: Awaited) -> Result<()> {
        // Acquire: pairs with the release by which the word is raised.
        let is_reached = || self.map.u64(awaited.at).load(Acquire) >= awaited.least;
        let mut watch = Watching(None);
        poll_fn(|context| {
            if is_reached() {
                return Poll::Ready(Ok(()));
            }
            let instance = &self.instance;
            if let Some((instance, id)) = watch.0 {
                let failure = instance.engine().failure_of(id);
                return match failure {
                    None => Poll::Pending,
                    // What a process publishes before it is lost counts.
                    Some(_) if is_reached() => Poll::Ready(Ok(())),
                    Some(error) => Poll::Ready(Err(error)),
                };
            }
            let id = match poller(context) {
                Poller::Blocks => {
                    return Poll::Ready(instance.wait_for_word(is_reached, || self.watched(awaited)));
                }
                Poller::Looks => return Poll::Pending,
                Poller::Task(task) => instance.engine().watch_for(self.watched(awaited), task),
                Poller::Other => {
                    let id = instance.engine().watch(self.watched(awaited));
                    watch.0 = Some((&**instance, id));
                    // That the process is lost may be known, and then nothing else comes.
                    return match instance.engine().failure_of(id) {
                        Some(error) if !is_reached() => Poll::Ready(Err(error)),
                        Some(_) => Poll::Ready(Ok(())),
                        None => Poll::Pending,
                    };
                }
            };
            watch.0 = Some((&**instance, id));
            Poll::Pending
        })
        .await
    }

    fn watched(&self, awaited: Awaited) -> Watched {
        let (mine, by) = (self.mine(), awaited.by as usize);
        Watched {
            map: self.map.clone(),
            at: awaited.at,
            least: awaited.least,
            sleeper: Sleeper {
                at: self.places.bits + mine as usize / 64 * 8,
                bit: 1 << (mine % 64),
                whom_at: self.record(mine) + AT_SLEEPS_FOR,
                whom: awaited.sleeps_for,
            },
            pattern: Pattern {
                context: self.who.context,
                source: Some(self.who.ranks[by]),
                tag: Some(awaited.tag),
            },
            peer: self.who.peers[by],
        }
    }
}

/// A word that the engine watches for an operation that is not a blocking one.
struct Watching<'a>(Option<(&'a Instance, WatchId)>);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        if let Some((instance, id)) = self.0.take() {
            instance.engine().unwatch(id);
        }
    }
}
