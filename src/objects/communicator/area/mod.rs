//! The memory that the processes of a communicator on one host share for its collective operations: flags, and places for data, that
//! each process writes for all others. `docs/shared-memory.md` has its layout. What operations make of it is in
//! `collective::shared`.
//!
//! An operation consists of *rounds*. In a round a process may *publish* some bytes, which the others wait for and read. Each process
//! has a few places that it uses in turn; before it writes to one again, all others have to be done with what was there. So every
//! process says which round was the last that it is done with.
//!
//! A round is named by its operation's number among those that use the area, and its own number in that. Both are the same on all
//! processes, and grow. One operation uses an area at a time: the blocking ones of a communicator have one, and each persistent one has its
//! own ([`Kept`]).
//!
//! Everything that is read is input from another process of the same user, and is checked.

use std::ops::Deref;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

use crate::base::error::{Error, Result};
use crate::engine::mismatch::Step;
use crate::err;
use crate::identity::{Context, PeerIndex};
use crate::instance::Instance;
use crate::lane::Doorbell;
use crate::objects::communicator::sharers::{Awaited, Places, Sharers, Who};
use crate::system::shared_memory::Map;

mod bytes;
mod edges;
mod kept;
mod lending;

pub use bytes::{Bytes, PAIR};
pub use edges::{Destination, Edges, Source};
pub use kept::Kept;
pub use lending::Lent;

const LINE: usize = 64;
const PAGE: usize = 4096;
/// The places of a process: flags, and short ones.
const PLACES: usize = 8;
/// Its long places: each is that of two flags. All of a process fit in a core's own cache with those of several others.
const LONGS: usize = 4;
/// The bytes of a short place.
pub const SHORT: usize = 4 << 10;
/// The bytes of a long place.
pub const LONG: usize = 32 << 10;
/// The bytes of all long places of a process together.
pub const ALL_LONG: usize = LONGS * LONG;
/// So many bytes of data are beside the flag.
const INLINE: usize = LINE - AT_DATA;
/// Among more processes than this, flags are collected in a tree, unless they share processors.
const FLAT_MAX: u32 = 8;
/// The most processes.
pub const MEMBERS_MAX: u32 = 512;

// Offsets in the area. First a bit for each process that sleeps.
const AT_MEMBERS: usize = PAGE;
// Offsets in the two lines of a member.
const MEMBER: usize = 2 * LINE;
// The first line is a record of `sharers`.
const AT_DONE: usize = LINE;
// Offsets in a flag's line.
const AT_ROUND: usize = 0;
const AT_STEP: usize = 8;
const AT_WHERE: usize = 12;
const AT_LEN: usize = 16;
const AT_DATA: usize = 24;

/// The bits that say in which kind of place bytes are.
const ROOM_BITS: u32 = 2;
/// The bits of a round's number in its operation.
const SUB_BITS: u32 = 20;
/// The most rounds of an operation.
pub const ROUNDS_MAX: u64 = 1 << SUB_BITS;

/// Where the parts of an area begin.
#[derive(Clone, Copy)]
struct Layout {
    flags: usize,
    short: usize,
    long: usize,
    end: usize,
}

impl Layout {
    fn of(size: u32) -> Layout {
        let size = size as usize;
        let flags = (AT_MEMBERS + size * MEMBER).next_multiple_of(PAGE);
        let short = (flags + size * PLACES * LINE).next_multiple_of(PAGE);
        let long = short + size * PLACES * SHORT;
        Layout {
            flags,
            short,
            long,
            end: long + size * LONGS * LONG,
        }
    }
}

/// Which kind of place bytes are in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Up to [`SHORT`] bytes.
    Short,
    /// Up to [`LONG`] bytes.
    Long,
    /// Up to [`ALL_LONG`] bytes: all long places of the process as one.
    AllLong,
}

/// A round of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Round {
    id: u64,
    place: usize,
}

/// What a process has published.
#[derive(Clone, Copy)]
pub struct Published {
    /// The bytes, until this process is done with the round.
    pub bytes: Bytes,
    /// What the publisher says of all that it sends in the operation, in bytes.
    pub total: u64,
}

/// See the module.
pub struct Area {
    /// The memory and its processes, who wait for each other by their places.
    sharers: Sharers,
    layout: Layout,
    /// Whether a process may read what all others have published, rather than go through a tree of them.
    flat: bool,
    /// The process ids of its processes, if they can read and write each other's memory.
    readable: Box<[u32]>,
    /// By process: it is done with this round and those before it, as far as is known here.
    seen: Box<[AtomicU64]>,
    /// The operation that is under way: its number, the tag that its messages would have, and its latest round.
    operation: AtomicU64,
    tag: AtomicU32,
    sub: AtomicU64,
    in_use: AtomicBool,
    /// An operation in it has failed.
    spoiled: AtomicBool,
    /// By place: the round that this process published there last.
    last: [AtomicU64; PLACES],
    /// The round that this process published last in a long place, or in all.
    last_long: AtomicU64,
    /// The round that it published last in all.
    last_all_long: AtomicU64,
    /// All others are done with this round and those before it.
    all_done: AtomicU64,
    /// Whether the long places can be used, once that is known.
    long: AtomicU32,
    /// The same of this process's own.
    own_long: AtomicU32,
    /// Where its neighbours are, once an operation among neighbours has found that out.
    edges: OnceLock<Edges>,
}

const UNKNOWN: u32 = 0;
const YES: u32 = 1;
const NO: u32 = 2;

/// The use of an area by one operation.
pub struct Use<A: Deref<Target = Area>> {
    area: A,
}

impl<A: Deref<Target = Area>> Deref for Use<A> {
    type Target = Area;

    #[inline]
    fn deref(&self) -> &Area {
        &self.area
    }
}

impl<A: Deref<Target = Area>> Drop for Use<A> {
    #[inline]
    fn drop(&mut self) {
        self.area.leave();
    }
}

#[cold]
fn busy() -> Error {
    err!(
        Other,
        "another thread is in a collective operation of this communicator"
    )
}

impl Area {
    /// Bytes of the memory of an area.
    pub fn bytes(size: u32) -> usize {
        Layout::of(size).end
    }

    /// Bytes that have to be allocated at first.
    pub fn bytes_at_first(size: u32) -> usize {
        Layout::of(size).long
    }

    /// Of memory with zeroes, or as the other processes have left it, that all have mapped. [`Area::bytes_at_first`] bytes have been
    /// counted as shared.
    pub fn new(
        map: Map,
        instance: &Arc<Instance>,
        mine: u32,
        peers: Box<[PeerIndex]>,
        ranks: Box<[u32]>,
        context: Context,
        doorbell: Doorbell,
    ) -> Area {
        let size = peers.len() as u32;
        assert!(size <= MEMBERS_MAX && map.has(0, Layout::of(size).end));
        let places = Places {
            bits: 0,
            records: AT_MEMBERS,
            stride: MEMBER,
        };
        let who = Who {
            peers,
            ranks,
            mine,
            context,
        };
        Area {
            sharers: Sharers::new(map, instance, places, who, Some(doorbell)),
            layout: Layout::of(size),
            // Where processes share processors, no process's next step begins before all have had their turn.
            flat: size <= FLAT_MAX || instance.job().shared_processors().is_some(),
            readable: Box::default(),
            seen: (0..size).map(|_| AtomicU64::new(0)).collect(),
            operation: AtomicU64::new(0),
            tag: AtomicU32::new(0),
            sub: AtomicU64::new(0),
            in_use: AtomicBool::new(false),
            spoiled: AtomicBool::new(false),
            last: Default::default(),
            last_long: AtomicU64::new(0),
            last_all_long: AtomicU64::new(0),
            all_done: AtomicU64::new(0),
            long: AtomicU32::new(UNKNOWN),
            own_long: AtomicU32::new(UNKNOWN),
            edges: OnceLock::new(),
        }
    }

    /// Called when all processes have mapped it. `readable`: what [`Area::try_reads`] has returned, if it did so on all of them.
    pub fn meet(&mut self, readable: Option<Box<[u32]>>) {
        self.readable = readable.unwrap_or_default();
        self.sharers.meet();
    }

    /// Whether an operation in which all processes wait for all is to be in one round, where each reads what all others have published:
    /// there are few, or they share processors. Otherwise they form a tree, in which a process waits for few.
    #[inline]
    pub fn is_flat(&self) -> bool {
        self.flat
    }

    /// This process's place among its processes.
    #[inline]
    pub fn mine(&self) -> u32 {
        self.sharers.mine()
    }

    /// Where this process's neighbours are, once that is known.
    #[inline]
    pub fn edges(&self) -> &OnceLock<Edges> {
        &self.edges
    }

    /// The place of a rank of the communicator among its processes, if it is one of them.
    pub fn place_of_rank(&self, rank: u32) -> Option<u32> {
        self.sharers.place_of_rank(rank)
    }

    /// The rank of one of its processes in the communicator.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn rank_of(&self, member: u32) -> u32 {
        self.sharers.who().ranks[member as usize]
    }

    /// Number of its processes.
    #[inline]
    pub fn size(&self) -> u32 {
        self.sharers.size()
    }

    /// Begins an operation, whose messages would have this tag.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER`: another thread is in one, which is an error of the program.
    #[inline]
    pub fn begin<A: Deref<Target = Area>>(area: A, tag: i32) -> Result<Use<A>> {
        area.enter(tag)?;
        Ok(Use { area })
    }

    /// Begins an operation, which ends with [`Area::leave`].
    ///
    /// # Errors
    /// As for [`Area::begin`].
    #[inline]
    pub fn enter(&self, tag: i32) -> Result<()> {
        if self.in_use.load(Relaxed) {
            return Err(busy());
        }
        self.in_use.store(true, Relaxed);
        let operation = self.operation.load(Relaxed) + 1;
        self.operation.store(operation, Relaxed);
        self.sub.store(0, Relaxed);
        self.tag.store(tag as u32, Relaxed);
        Ok(())
    }

    /// Ends the operation that has begun.
    #[inline]
    pub fn leave(&self) {
        // Whatever was left out: nobody waits for this process to be done with a round of this operation.
        self.done_with_all();
        self.in_use.store(false, Relaxed);
    }

    /// Says that this process is done with all rounds of the operation: it reads and publishes nothing more in it.
    pub fn done_with_all(&self) {
        self.done_with(self.operation.load(Relaxed) << SUB_BITS | (ROUNDS_MAX - 1));
    }

    /// Notes that an operation in it has failed, so that its processes may not agree any more about what is where.
    pub fn spoil(&self) {
        self.spoiled.store(true, Relaxed);
    }

    /// See [`Area::spoil`].
    pub fn is_spoiled(&self) -> bool {
        self.spoiled.load(Relaxed)
    }

    fn member(&self, member: u32) -> usize {
        AT_MEMBERS + member as usize * MEMBER
    }

    #[inline]
    fn flag(&self, member: u32, place: usize) -> usize {
        self.layout.flags + (member as usize * PLACES + place) * LINE
    }

    #[inline(always)]
    fn map(&self) -> &Map {
        self.sharers.map()
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && self.map().has(at, 8));
        // SAFETY: as in `Map::u64`; all offsets that are made here lie within the mapping, as `new` has checked its length.
        unsafe { AtomicU64::from_ptr(self.map().base().as_ptr().add(at).cast()) }
    }

    #[inline]
    fn half(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at.is_multiple_of(4) && self.map().has(at, 4));
        // SAFETY: as in `word`.
        unsafe { AtomicU32::from_ptr(self.map().base().as_ptr().add(at).cast()) }
    }

    fn room(&self, member: u32, place: usize, room: Room) -> usize {
        let member = member as usize;
        match room {
            Room::Short => self.layout.short + (member * PLACES + place) * SHORT,
            Room::Long => self.layout.long + (member * LONGS + place % LONGS) * LONG,
            Room::AllLong => self.layout.long + member * ALL_LONG,
        }
    }

    /// Bytes of the area.
    fn at(&self, at: usize, number: usize) -> Bytes {
        debug_assert!(self.map().has(at, number));
        // SAFETY: within the mapping, as all places that are made here; the communicator keeps the area, and the operation keeps that. A
        // process writes to its own places only, and only when it has claimed them, and reads those of others between their publication
        // and its being done with the round. (A process that breaks this is a faulty one of the same user; it can only spoil the data.)
        unsafe { Bytes::new(self.map().base().as_ptr().add(at), number) }
    }

    /// Where a process's long place of a round is.
    pub fn place_of(&self, member: u32, round: Round) -> Bytes {
        assert!(member < self.size(), "one of the processes");
        self.at(self.room(member, round.place, Room::Long), LONG)
    }

    /// The next round of the operation.
    #[inline]
    pub fn next(&self) -> Round {
        let sub = self.sub.load(Relaxed) + 1;
        assert!(sub < ROUNDS_MAX - 1, "an operation has so many rounds at most");
        self.sub.store(sub, Relaxed);
        let operation = self.operation.load(Relaxed);
        Round {
            id: operation << SUB_BITS | sub,
            place: ((operation + sub) % PLACES as u64) as usize,
        }
    }

    /// Waits until a word that a process raises has this value.
    #[inline(always)]
    async fn wait(&self, member: u32, at: usize, least: u64) -> Result<()> {
        // Acquire: pairs with the release in `publish` and in `done_with`.
        if self.word(at).load(Acquire) >= least {
            return Ok(());
        }
        let awaited = Awaited {
            at,
            least,
            sleeps_for: member,
            by: member,
            tag: self.tag.load(Relaxed) as i32,
        };
        self.sharers.wait(awaited).await
    }

    /// Wakes the processes that sleep and wait for this one.
    #[inline]
    fn wake(&self) {
        self.sharers.wake(self.mine());
    }

    /// Waits until this process may write to its place of a round. Even after an error it may: all others that
    /// are alive are done with what was there, and may be waiting for what this process publishes.
    ///
    /// # Errors
    /// A process that has still to be done with what was there is lost.
    #[inline(always)]
    pub async fn claim(&self, round: Round, room: Room) -> Result<()> {
        let at = |place: usize| self.last[place % PLACES].load(Relaxed);
        let flag = at(round.place);
        let last = match room {
            Room::Short => flag,
            // It is also that of another flag, and a part of all.
            Room::Long => flag
                .max(at(round.place + LONGS))
                .max(self.last_all_long.load(Relaxed)),
            Room::AllLong => flag.max(self.last_long.load(Relaxed)),
        };
        if last <= self.all_done.load(Relaxed) {
            return Ok(());
        }
        self.claim_from_all(last).await
    }

    async fn claim_from_all(&self, last: u64) -> Result<()> {
        let (mut least, mut failure) = (u64::MAX, None);
        for member in self.others() {
            let seen = &self.seen[member as usize];
            if seen.load(Relaxed) < last {
                let at = self.member(member) + AT_DONE;
                match self.wait(member, at, last).await {
                    Ok(()) => seen.store(self.word(at).load(Acquire), Relaxed),
                    // The others may still be reading what is there.
                    Err(error) => {
                        failure.get_or_insert(error);
                    }
                }
            }
            least = least.min(seen.load(Relaxed));
        }
        if let Some(error) = failure {
            return Err(error);
        }
        self.all_done.store(least, Relaxed);
        Ok(())
    }

    /// Waits until a process is done with a round.
    ///
    /// # Errors
    /// It is lost.
    pub async fn done_by(&self, member: u32, round: Round) -> Result<()> {
        self.wait(member, self.member(member) + AT_DONE, round.id).await
    }

    /// Where this process writes up to so many bytes before it publishes them, once it has claimed the place.
    #[inline]
    pub fn own(&self, round: Round, len: usize, room: Room) -> Bytes {
        let most = match room {
            Room::Short => SHORT,
            Room::Long => LONG,
            Room::AllLong => ALL_LONG,
        };
        assert!(len <= most, "more bytes than a place has");
        match len <= INLINE && room == Room::Short {
            true => self.at(self.flag(self.mine(), round.place) + AT_DATA, len),
            false => self.at(self.room(self.mine(), round.place, room), len),
        }
    }

    /// Publishes what this process has written to [`Area::own`]. `total`: see [`Published`].
    #[inline]
    pub fn publish(&self, round: Round, len: usize, room: Room, total: u64) {
        let at = self.flag(self.mine(), round.place);
        self.half(at + AT_STEP).store(self.tag.load(Relaxed), Relaxed);
        if room != Room::Short {
            self.last_long.store(round.id, Relaxed);
        }
        if room == Room::AllLong {
            self.last_all_long.store(round.id, Relaxed);
        }
        self.half(at + AT_WHERE)
            .store((len as u32) << ROOM_BITS | room as u32, Relaxed);
        self.word(at + AT_LEN).store(total, Relaxed);
        self.last[round.place].store(round.id, Relaxed);
        // Release: pairs with the acquire in `wait`; the bytes come before.
        self.word(at + AT_ROUND).store(round.id, Release);
        self.wake();
    }

    /// Whether [`Area::published`] need not wait.
    #[inline]
    pub fn has_published(&self, member: u32, round: Round) -> bool {
        // Acquire: pairs with the release in `publish`.
        self.word(self.flag(member, round.place) + AT_ROUND).load(Acquire) >= round.id
    }

    /// Waits for what a process publishes in a round.
    ///
    /// # Errors
    /// The process is lost or in another operation.
    #[inline(always)]
    pub async fn published(&self, member: u32, round: Round) -> Result<Published> {
        let at = self.flag(member, round.place);
        self.wait(member, at + AT_ROUND, round.id).await?;
        let found = self.word(at + AT_ROUND).load(Relaxed);
        let (tag, mine) = (self.half(at + AT_STEP).load(Relaxed), self.tag.load(Relaxed));
        if found != round.id || tag != mine {
            return Err(self.contradiction(member, tag));
        }
        // It began this round, so it is done with those before.
        self.seen[member as usize].store(round.id - 1, Relaxed);
        let total = self.word(at + AT_LEN).load(Relaxed);
        let length = self.half(at + AT_WHERE).load(Relaxed);
        const SHORT_ROOM: u32 = Room::Short as u32;
        const LONG_ROOM: u32 = Room::Long as u32;
        const ALL_LONG_ROOM: u32 = Room::AllLong as u32;
        let len = (length >> ROOM_BITS) as usize;
        let at = match length & ((1 << ROOM_BITS) - 1) {
            SHORT_ROOM if len <= INLINE => at + AT_DATA,
            SHORT_ROOM if len <= SHORT => self.room(member, round.place, Room::Short),
            LONG_ROOM if len <= LONG => self.room(member, round.place, Room::Long),
            ALL_LONG_ROOM if len <= ALL_LONG => self.room(member, round.place, Room::AllLong),
            _ => return Err(self.nonsense(member)),
        };
        Ok(Published {
            bytes: self.at(at, len),
            total,
        })
    }

    #[cold]
    fn nonsense(&self, member: u32) -> Error {
        err!(
            Intern,
            "what rank {} wrote into shared memory makes no sense",
            self.sharers.who().ranks[member as usize]
        )
    }

    #[cold]
    fn contradiction(&self, member: u32, theirs: u32) -> Error {
        let (mine, theirs) = (self.tag.load(Relaxed) as i32, theirs as i32);
        let peer = self.sharers.who().peers[member as usize];
        let steps = Step::of_tag(mine).zip(Step::of_tag(theirs));
        match steps {
            Some((mine, theirs)) if mine.operation != theirs.operation => {
                let mut engine = self.sharers.instance().engine();
                let context = self.sharers.who().context;
                engine.contradict((context, mine), (context, theirs), peer)
            }
            // Then it has ended the operation in fewer rounds.
            _ => err!(
                Other,
                "rank {} is in a later collective operation: it may have passed another count to this one",
                self.sharers.who().ranks[member as usize]
            ),
        }
    }

    /// Notes that all processes have published something in a round, so that they are done with all before it.
    #[inline]
    pub fn all_in(&self, round: Round) {
        self.all_done.store(round.id - 1, Relaxed);
    }

    /// Notes that all processes have begun the operation, so that they are done with those before it.
    pub fn all_begun(&self) {
        self.all_done
            .store(self.operation.load(Relaxed) << SUB_BITS, Relaxed);
    }

    /// Says that this process is done with a round and all before it: with what the others have published.
    #[inline]
    pub fn done(&self, round: Round) {
        self.done_with(round.id);
    }

    #[inline]
    fn done_with(&self, id: u64) {
        // Release: what this process has read comes before; pairs with the acquire in `wait`.
        self.word(self.member(self.mine()) + AT_DONE).store(id, Release);
        self.wake();
    }

    /// The places of all processes but this one.
    pub fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let mine = self.mine();
        (0..self.size()).filter(move |&other| other != mine)
    }

    /// Whether the long places can be used, as far as is known.
    pub fn has_long(&self) -> Option<bool> {
        match self.long.load(Relaxed) {
            UNKNOWN => None,
            known => Some(known == YES),
        }
    }

    /// Sets what [`Area::has_long`] returns, once all processes agree on it.
    pub fn set_long(&self, has: bool) {
        self.long.store(if has { YES } else { NO }, Relaxed);
    }

    /// Whether this process has long places, which it allocates when it is first asked.
    pub fn allocate_long(&self) -> bool {
        if self.own_long.load(Relaxed) == UNKNOWN {
            let at = self.room(self.mine(), 0, Room::Long);
            let has =
                self.sharers.instance().share(LONGS * LONG) && self.map().populate(at, LONGS * LONG).is_ok();
            self.own_long.store(if has { YES } else { NO }, Relaxed);
        }
        self.own_long.load(Relaxed) == YES
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        self.sharers.instance().unshare(Area::bytes_at_first(self.size()));
        if self.own_long.load(Relaxed) == YES {
            self.sharers.instance().unshare(LONGS * LONG);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap() {
        for size in [2, 3, 8, 64, 512] {
            let layout = Layout::of(size);
            let n = size as usize;
            assert!(AT_MEMBERS >= n.div_ceil(64) * 8, "a bit for each");
            assert!(AT_MEMBERS + n * MEMBER <= layout.flags);
            assert!(layout.flags + n * PLACES * LINE <= layout.short);
            assert_eq!(layout.short + n * PLACES * SHORT, layout.long);
            assert_eq!(layout.long + n * LONGS * LONG, layout.end);
            assert!(
                layout.long.is_multiple_of(PAGE),
                "long places are allocated by themselves"
            );
        }
    }
}
