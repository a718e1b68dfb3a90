//! The segment: memory of one process that the others on its machine map to send to it. `docs/shared-memory.md` has its layout.
//!
//! It is a file of [`shared_memory`], which has no name. A ring's pages are allocated before any is touched.
//!
//! Its words are atomics or are accessed by the rules of [`super::ring`]. Both sides belong to one user, who may write to
//! the memory of either in other ways too (`ptrace`), so the code guards only against mistakes: every word that is read
//! is checked before it is used.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::doorbell::{Fences, Shared};
use super::flag::Flag;
use super::ring::{self, INLINE, LINE};
use crate::base::bytes::{RawBytes, RawRoom, copy_short};
use crate::identity::{JobId, ProcessName};
use crate::lane::HEADER_BYTES;
use crate::system::shared_memory::{self, Map};

const MAGIC: u64 = u64::from_le_bytes(*b"weft-shm");
/// To be increased with every change of the layout.
pub const VERSION: u32 = 6;

const PAGE: usize = 4096;
const CELLS: usize = 512;
/// The bytes that a bulk has at first, and the most. 2 MiB are more than most cores' own caches.
const FIRST: usize = 128 << 10;
const BULK: usize = 2 << 20;
/// How many bytes the bulks of one segment may have together, though each has at least its first length.
const BULKS: usize = 16 << 20;
/// A payload of this many bytes makes the bulk grow: a piece of a long message.
const LONG: usize = 8 << 10;
/// A ring: a page with the counters, the cells, the bulk. Only its first part is allocated when a sender joins.
const RING: usize = PAGE + CELLS * LINE + BULK;
const RING_FIRST: usize = RING - BULK + FIRST;

// Offsets in the head page. Words that are written by different processes, or at different times, have cache lines of their own.
const AT_MAGIC: usize = 0;
const AT_VERSION: usize = 8;
const AT_RINGS: usize = 12;
const AT_TOKEN: usize = 16;
const AT_FENCE: usize = 24;
const AT_OWN: usize = 28;
const AT_JOINED: usize = 2 * LINE;
const AT_SLEEPING: usize = 3 * LINE;
const AT_READY: usize = 4 * LINE;
/// Bytes of each of the two bitmaps.
const BITMAP: usize = (PAGE - AT_READY) / 2;
const AT_CLAIMED: usize = AT_READY + BITMAP;
/// As many as a bitmap has bits.
pub const RINGS_MAX: u32 = (BITMAP * 8) as u32;
/// So many rings at most are for processes of other jobs, behind those of this job's.
const OTHERS: u32 = 4096;

// Offsets in a ring.
const AT_CELLS_BACK: usize = 0;
const AT_BULK_BACK: usize = 8;
const AT_MUTE: usize = 16;
const AT_TIMES: usize = 24;
const AT_OWNER: usize = LINE;
const AT_OWNER_PID: usize = LINE + 4;
const AT_OWNER_BELL: usize = LINE + 8;
const AT_OWNER_INODE: usize = LINE + 16;
const AT_OWNER_JOB: usize = LINE + 24;
const AT_WANTS_ROOM: usize = 2 * LINE;
const AT_CELLS: usize = PAGE;
const AT_BULK: usize = PAGE + CELLS * LINE;

// Offsets in a cell.
const AT_HEADER: usize = 8;
const AT_INLINE: usize = AT_HEADER + HEADER_BYTES;
const _: () = assert!(AT_INLINE + INLINE == LINE);

fn file_len(rings: u32) -> usize {
    PAGE + rings as usize * RING
}

/// The head page of a segment.
pub struct Head {
    map: Map,
}

impl Head {
    /// What must be equal to the business card.
    pub fn token(&self) -> u64 {
        self.map.u64(AT_TOKEN).load(Ordering::Relaxed)
    }

    /// The address of the token in this process's own memory: peers test whether they can read it.
    pub fn token_address(&self) -> u64 {
        self.map.base().as_ptr() as u64 + AT_TOKEN as u64
    }

    /// Whether the segment's owner can't make its senders' processors order their accesses, so that each sender has to.
    pub fn wants_fences(&self) -> bool {
        self.map.u32(AT_FENCE).load(Ordering::Relaxed) != 0
    }

    /// Whether the owner sleeps and wants to be woken.
    #[inline(always)]
    pub fn sleeping(&self) -> &AtomicU32 {
        // SAFETY: as in `Map::u32`, with an offset within the page; without the checks, as this is on the fast path.
        unsafe { AtomicU32::from_ptr(self.map.base().as_ptr().add(AT_SLEEPING).cast()) }
    }

    /// How many senders have joined.
    #[inline(always)]
    pub fn joined(&self) -> u32 {
        // SAFETY: as in `sleeping`.
        unsafe { AtomicU32::from_ptr(self.map.base().as_ptr().add(AT_JOINED).cast()) }.load(Ordering::Acquire)
    }

    fn ready(&self, ring: u32) -> (&AtomicU64, u64) {
        (self.map.u64(AT_READY + ring as usize / 64 * 8), 1 << (ring % 64))
    }

    /// Takes a free ring of these.
    fn claim(&self, rings: std::ops::Range<u32>) -> Option<u32> {
        rings.into_iter().find(|&ring| {
            let (word, bit) = self.claimed(ring);
            // Acquire: pairs with the release in `Segment::release`, before which the ring became empty.
            word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Acquire) & bit == 0
        })
    }

    fn claimed(&self, ring: u32) -> (&AtomicU64, u64) {
        (
            self.map.u64(AT_CLAIMED + ring as usize / 64 * 8),
            1 << (ring % 64),
        )
    }

    /// How many rings are for processes of the owner's job.
    fn own(&self) -> u32 {
        self.map.u32(AT_OWN).load(Ordering::Relaxed)
    }
}

/// Who sends through a ring: its name, its process id, and the names of its pipe (see [`super::doorbell::Bell::names`]). In
/// another process's memory it is that process's claim, and is checked where it is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// Its name.
    pub name: ProcessName,
    /// Its process id.
    pub pid: u32,
    /// Its pipe's descriptor.
    pub bell: u32,
    /// Its pipe's inode.
    pub bell_inode: u64,
}

/// A process's own segment.
pub struct Segment {
    file: File,
    /// The rings of this job's processes. Those that no sender has joined have no pages, and are not touched. Other jobs' are mapped one by
    /// one.
    map: Arc<Map>,
    head: Head,
    /// How many are this job's.
    own: u32,
    rings: u32,
    /// The rings that were given out.
    given: Vec<bool>,
}

impl Segment {
    /// Makes one with room for this many senders of this job, and for some of others.
    pub fn create(own: u32, token: u64, wants_fences: bool) -> io::Result<Segment> {
        let own = own.clamp(1, RINGS_MAX - OTHERS);
        // They take no memory, but count for the length of the file, which the user may have limited.
        let room = shared_memory::longest().saturating_sub(file_len(own) as u64) / RING as u64;
        let rings = own + OTHERS.min(u32::try_from(room).unwrap_or(OTHERS));
        let file = shared_memory::file(file_len(rings) as u64)?;
        shared_memory::allocate(&file, 0, PAGE)?;
        let head = Head {
            map: Map::new(&file, 0, PAGE)?,
        };
        let map = Arc::new(Map::new(&file, 0, file_len(own))?);
        head.map.u32(AT_VERSION).store(VERSION, Ordering::Relaxed);
        head.map.u32(AT_RINGS).store(rings, Ordering::Relaxed);
        head.map.u32(AT_OWN).store(own, Ordering::Relaxed);
        head.map.u64(AT_TOKEN).store(token, Ordering::Relaxed);
        head.map
            .u32(AT_FENCE)
            .store(wants_fences.into(), Ordering::Relaxed);
        head.map.u64(AT_MAGIC).store(MAGIC, Ordering::Release);
        Ok(Segment {
            file,
            map,
            head,
            own,
            rings,
            given: vec![false; rings as usize],
        })
    }

    /// How much memory a segment takes, as a text.
    pub fn needs() -> String {
        format!("{PAGE} bytes at first, and {RING_FIRST} for each process that sends to this one")
    }

    /// For the business card.
    pub fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// The number of senders for which it has room.
    pub fn rings(&self) -> u32 {
        self.rings
    }

    /// Its head page.
    #[inline(always)]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// A ring and the process that claims to be its sender, once that has joined; once only, because a ring has one receiver.
    pub fn ring(&mut self, ring: u32) -> Option<(Mapped, Owner)> {
        if ring >= self.rings || self.given[ring as usize] {
            return None;
        }
        let (word, bit) = self.head.ready(ring);
        // Acquire: pairs with the release in `Joined::join`, before which the sender allocated the ring's pages.
        if word.load(Ordering::Acquire) & bit == 0 {
            return None;
        }
        let at = PAGE + ring as usize * RING;
        let (map, at) = match ring < self.own {
            true => (self.map.clone(), at),
            // Without memory for that, it is tried again when the next sender joins.
            false => (Arc::new(Map::new(&self.file, at, RING).ok()?), 0),
        };
        let number = |offset| map.u32(at + offset).load(Ordering::Relaxed);
        let owner = Owner {
            name: ProcessName {
                job: JobId(map.u64(at + AT_OWNER_JOB).load(Ordering::Relaxed)),
                rank: number(AT_OWNER),
            },
            pid: number(AT_OWNER_PID),
            bell: number(AT_OWNER_BELL),
            bell_inode: map.u64(at + AT_OWNER_INODE).load(Ordering::Relaxed),
        };
        self.given[ring as usize] = true;
        Some((Mapped::new(map, at, None), owner))
    }

    /// Makes a ring of another job's process free for the next one, and gives its memory back: its sender writes no more, and what was
    /// mapped of it here is not used any more.
    pub fn release(&mut self, ring: u32) {
        if ring < self.own || ring >= self.rings || !self.given[ring as usize] {
            return;
        }
        // A ring begins with zeros. Where the system can't do that, the ring is not used again.
        if shared_memory::give_back(&self.file, PAGE + ring as usize * RING, RING).is_err() {
            return;
        }
        let (word, bit) = self.head.ready(ring);
        word.fetch_and(!bit, Ordering::Relaxed);
        self.given[ring as usize] = false;
        let (word, bit) = self.head.claimed(ring);
        // Release: pairs with `Head::claim`.
        word.fetch_and(!bit, Ordering::Release);
    }
}

/// Another process's segment, with a ring of this process in it.
pub struct Joined {
    head: Head,
}

impl Joined {
    /// Opens the segment that process `pid` has as descriptor `descriptor` and that has this token, and takes a ring
    /// for messages of process `me`, which may be of another job (`other_job`). The error says what failed.
    pub fn join(
        pid: u32,
        descriptor: u32,
        rings: u32,
        token: u64,
        me: Owner,
        other_job: bool,
    ) -> Result<(Joined, Mapped), String> {
        let failed = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
        let file =
            shared_memory::open(pid, descriptor).map_err(failed("its shared memory can't be opened"))?;
        let is_one = shared_memory::is_one(&file, file_len(rings) as u64)
            .map_err(failed("its shared memory has no size"))?;
        if !is_one {
            return Err("the shared memory that its business card names was not made by Weft".into());
        }
        let map = Map::new(&file, 0, PAGE).map_err(failed("its shared memory can't be mapped"))?;
        let head = Head { map };
        let same = head.map.u64(AT_MAGIC).load(Ordering::Acquire) == MAGIC
            && head.map.u32(AT_VERSION).load(Ordering::Relaxed) == VERSION
            && head.map.u32(AT_RINGS).load(Ordering::Relaxed) == rings
            && head.token() == token;
        if !same {
            return Err("its shared memory is another process's, or another version's".into());
        }
        let own = head.own();
        if own == 0 || own > rings {
            return Err("its shared memory has no valid number of places for senders".into());
        }
        let places = if other_job { own..rings } else { 0..own };
        let number = places.len();
        let Some(ring) = head.claim(places) else {
            return Err(format!(
                "all {number} places for senders in its shared memory are taken"
            ));
        };
        let at = PAGE + ring as usize * RING;
        shared_memory::allocate(&file, at, RING_FIRST).map_err(|error| {
            format!(
                "the {RING_FIRST} bytes of shared memory that messages to it need can't be allocated: {error}; they count as memory of \
                 this process (free some, or raise its control group's limit)"
            )
        })?;
        let map = Map::new(&file, at, RING).map_err(failed("its shared memory can't be mapped"))?;
        map.u32(AT_OWNER).store(me.name.rank, Ordering::Relaxed);
        map.u32(AT_OWNER_PID).store(me.pid, Ordering::Relaxed);
        map.u32(AT_OWNER_BELL).store(me.bell, Ordering::Relaxed);
        map.u64(AT_OWNER_INODE).store(me.bell_inode, Ordering::Relaxed);
        map.u64(AT_OWNER_JOB).store(me.name.job.0, Ordering::Relaxed);
        let (word, bit) = head.ready(ring);
        // Release: the ring's pages and owner come before; pairs with `Segment::ring`.
        word.fetch_or(bit, Ordering::Release);
        // Release: pairs with `Head::joined`, whose change makes the owner look at the bits.
        head.map.u32(AT_JOINED).fetch_add(1, Ordering::Release);
        let growth = Growth {
            file,
            bulk: at + AT_BULK,
            most: (BULKS / own as usize).min(BULK),
        };
        let growth = (2 * FIRST <= growth.most).then(|| Box::new(growth));
        Ok((Joined { head }, Mapped::new(Arc::new(map), 0, growth)))
    }

    /// The segment's head page.
    #[inline(always)]
    pub fn head(&self) -> &Head {
        &self.head
    }
}

/// The memory of a ring within a mapping, which stays as long as this does. Each side has one.
pub struct Mapped {
    /// Where the ring begins in `_map`.
    base: NonNull<u8>,
    _map: Arc<Map>,
    /// For the sender: how to allocate more of the bulk. Boxed, because receivers, whose rings are polled all the time, have none.
    growth: Option<Box<Growth>>,
}

/// What a sender needs for its bulk to grow.
struct Growth {
    file: File,
    /// Where the bulk begins in the file.
    bulk: usize,
    /// How long it may become.
    most: usize,
}

// SAFETY: as for `Map`.
unsafe impl Send for Mapped {}

impl Mapped {
    /// The ring at an offset that is a multiple of a page.
    fn new(map: Arc<Map>, at: usize, growth: Option<Box<Growth>>) -> Mapped {
        assert!(map.has(at, RING));
        // SAFETY: within the mapping, as just checked.
        let base = unsafe { map.base().add(at) };
        Mapped {
            base,
            _map: map,
            growth,
        }
    }

    #[inline(always)]
    fn u64(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= RING);
        // SAFETY: aligned, within the ring (all callers' offsets are), which stays mapped, and accessed as an atomic by
        // all.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    #[inline(always)]
    fn u32(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at.is_multiple_of(4) && at + 4 <= RING);
        // SAFETY: as in `u64`.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// For the receiver: notes that it can't ring the sender's bell.
    pub fn set_mute(&self) {
        self.u32(AT_MUTE).store(1, Ordering::Relaxed);
    }

    /// Whether the receiver can't ring.
    pub fn is_mute(&self) -> bool {
        self.u32(AT_MUTE).load(Ordering::Relaxed) != 0
    }

    #[inline(always)]
    fn cell(&self, cell: u64) -> *mut u8 {
        let at = AT_CELLS + (cell as usize & (CELLS - 1)) * LINE;
        // SAFETY: within the ring.
        unsafe { self.base.as_ptr().add(at) }
    }
}

impl ring::Memory for Mapped {
    const CELLS: u64 = CELLS as u64;
    const BULK: u64 = BULK as u64;
    const FIRST: u64 = FIRST as u64;
    const LONG: usize = LONG;

    #[inline(always)]
    fn word(&self, cell: u64) -> u64 {
        self.u64(AT_CELLS + (cell as usize & (CELLS - 1)) * LINE)
            .load(Ordering::Acquire)
    }

    #[inline(always)]
    fn publish(&self, cell: u64, word: u64) {
        self.u64(AT_CELLS + (cell as usize & (CELLS - 1)) * LINE)
            .store(word, Ordering::Release);
    }

    #[inline(always)]
    fn fill(&self, cell: u64, header: &[u8; HEADER_BYTES], payload: RawBytes) {
        assert!(payload.len() <= INLINE);
        let at = AT_CELLS + (cell as usize & (CELLS - 1)) * LINE;
        // By words, as `Header::encode` has just written it: the wider loads of a plain copy would wait for its stores.
        for (nth, word) in header.as_chunks().0.iter().enumerate() {
            self.u64(at + AT_HEADER + 8 * nth)
                .store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        let cell = self.cell(cell);
        // SAFETY: the cell has a line, of which these are the bytes behind the header; the receiver has given it back, so only this
        // process touches it. `copy_short` writes `payload.len()` bytes, at most `INLINE`.
        unsafe { copy_short(payload.as_ptr(), cell.add(AT_INLINE), payload.len()) };
    }

    #[inline(always)]
    fn contents(&self, cell: u64) -> ([u8; HEADER_BYTES], [u8; INLINE]) {
        let cell = self.cell(cell);
        // SAFETY: within the cell's line; its sender does not touch it until it is given back. Any bytes are valid.
        unsafe {
            (
                cell.add(AT_HEADER).cast::<[u8; HEADER_BYTES]>().read(),
                cell.add(AT_INLINE).cast::<[u8; INLINE]>().read(),
            )
        }
    }

    #[inline(always)]
    fn write(&self, at: u64, len: usize, fill: impl FnOnce(RawRoom)) {
        let at = at as usize;
        assert!(at <= BULK && len <= BULK - at);
        // SAFETY: within the bulk, as just checked, mapped, and the receiver has given these bytes back: it does not look at
        // them until they are published, after `fill`.
        fill(unsafe { RawRoom::new(self.base.as_ptr().add(AT_BULK + at), len) });
    }

    fn grow(&mut self, from: u64) -> bool {
        let from = from as usize;
        let grown = self.growth.as_ref().is_some_and(|growth| {
            2 * from <= growth.most && shared_memory::allocate(&growth.file, growth.bulk + from, from).is_ok()
        });
        // It is not asked for again, or only in vain.
        if !grown || 4 * from > self.growth.as_ref().map_or(0, |growth| growth.most) {
            self.growth = None;
        }
        grown
    }

    #[inline(always)]
    fn read(&self, at: u64, len: usize, see: impl FnOnce(RawBytes)) {
        let at = at as usize;
        assert!(at <= BULK && len <= BULK - at);
        // SAFETY: within the bulk, as just checked, and mapped. The sender does not write there until the bytes are given back, after
        // `see`. (A sender that breaks that is a faulty process of the same user; it can only spoil the data.)
        see(unsafe { RawBytes::new(self.base.as_ptr().add(AT_BULK + at), len) });
    }

    fn given_back(&self) -> (u64, u64) {
        (
            self.u64(AT_CELLS_BACK).load(Ordering::Acquire),
            self.u64(AT_BULK_BACK).load(Ordering::Acquire),
        )
    }

    #[inline(always)]
    fn give_back(&self, cells: u64, bulk: u64) {
        self.u64(AT_CELLS_BACK).store(cells, Ordering::Release);
        self.u64(AT_BULK_BACK).store(bulk, Ordering::Release);
    }

    fn times(&self) -> u64 {
        self.u64(AT_TIMES).load(Ordering::Relaxed)
    }

    fn tell_times(&self, times: u64) {
        self.u64(AT_TIMES).store(times, Ordering::Relaxed);
    }

    #[inline(always)]
    fn wants_room(&self) -> impl Flag {
        Shared {
            word: self.u32(AT_WANTS_ROOM),
            // Room is given back a quarter at a time: there is time for a fence.
            fences: Fences::BySenders,
        }
    }
}

/// A ring as words, for tests that play a faulty sender.
#[cfg(test)]
pub struct Raw;

#[cfg(test)]
impl Raw {
    /// How many words a ring has.
    pub fn words() -> usize {
        RING / 8
    }

    /// Overwrites a word of a ring.
    pub fn write(segment: &Segment, ring: u32, word: usize, value: u64) {
        assert!(ring < segment.rings && word < Raw::words());
        segment
            .map
            .u64(PAGE + ring as usize * RING + word * 8)
            .store(value, Ordering::Relaxed);
    }
}
