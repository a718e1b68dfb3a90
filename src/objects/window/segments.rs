//! Memory that the processes of a window share: a file without a name, which one of them makes and all map, each at an address of its own.
//!
//! It has *control lines* of each process: words for its lock, for updates of its memory, and for synchronisation; and, where they are not too many,
//! words for each two of them. Where processes do not see each other's memory, each has a [`mailbox`](super::mailbox). Behind these may be its
//! *segment*, the memory that it exposes:
//!
//! - `MPI_Win_allocate_shared` (MPI 5.0 section 12.2.3): all processes of the window share one file, or there is no window. The segments follow one
//!   another by rank, without a gap, so that all of them can be used as one array; where all processes allow it
//!   (`alloc_shared_noncontig`) each begins at a page.
//! - `MPI_Win_allocate`: the processes of each host share one, if there are several and nothing prevents it. Each segment begins at a page.
//! - Other windows: in the same way, without segments.
//!
//! Pages of segments are allocated when they are first touched, near the process that touches them first: in many programs one
//! process asks for all of the memory, and each touches a part. So, as with all memory of such size, it is not known
//! before whether there is enough; only what the machine can't have at all is refused. Those of the control lines are allocated at once.
//!
//! `layout` says where all of that is; `docs/shared-memory.md` draws the bytes.

mod layout;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use self::layout::{
    AT_BEGUN, AT_BUSY, AT_CLOCK, AT_DRAWN, AT_FENCES, AT_FIRST, AT_GIVEN, AT_HOLDER, AT_LOCK, AT_MODE,
    AT_OTHERS_BUSY, AT_PROCESS, AT_SENT, AT_STATE, BOX, CONTROL, FENCED, LINE, Layout, PAGE, PAIR, PAIRED,
    SENT, lay_out, lay_out_control, sizes,
};
pub use self::layout::{Segment, Wish};
use super::mailbox::{Bell, Mailbox};
use crate::base::error::Result;
use crate::base::settings::Access;
use crate::err;
use crate::instance::Instance;
use crate::objects::collective;
use crate::objects::collective::shared::{self, Sizes};
use crate::objects::communicator::Communicator;
use crate::objects::communicator::sharers::{Places, Sharers, Who};
use crate::system::process::Process;
use crate::system::shared_memory::{self, Finding, Map};

/// The words of one process that all who share the memory use: each of them only by atomic operations.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    map: &'a Map,
    at: usize,
    place: u32,
}

/// The words of a process that calls use in the midst of all else, as they are in the control lines from `AT_STATE` on.
#[repr(C)]
pub(super) struct Lines {
    /// [`Control::state`]
    pub state: AtomicU64,
    /// [`Control::holder`]
    pub holder: AtomicU32,
    others: [AtomicU32; (AT_MODE - AT_HOLDER) / 4 - 1],
    /// [`Control::mode`]
    pub mode: AtomicU32,
    more: [AtomicU32; (AT_BUSY - AT_MODE) / 4 - 1],
    /// [`Control::busy`]
    pub busy: AtomicU32,
    /// [`Control::others_busy`]
    pub others_busy: AtomicU32,
}

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Lines, state) == 0 && offset_of!(Lines, holder) == AT_HOLDER - AT_STATE);
    assert!(offset_of!(Lines, mode) == AT_MODE - AT_STATE && offset_of!(Lines, busy) == AT_BUSY - AT_STATE);
    assert!(offset_of!(Lines, others_busy) == AT_OTHERS_BUSY - AT_STATE);
    assert!(AT_STATE + size_of::<Lines>() <= CONTROL);
};

/// The words of two processes: see [`Segments::pair`].
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    map: &'a Map,
    at: usize,
}

/// See the module.
pub struct Segments {
    sharers: Sharers,
    /// By place; empty: there are only control lines.
    segments: Box<[Segment]>,
    /// Where the control lines begin.
    control: usize,
    /// Where the mailboxes begin, if there are any.
    mailboxes: Option<usize>,
    /// Where the segments begin.
    data: usize,
    /// Whether each process can be woken by all others.
    wakes: bool,
}

impl std::fmt::Debug for Segments {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Segments");
        shown.field("ranks", &self.sharers.who().ranks);
        shown.field("segments", &self.segments).finish_non_exhaustive()
    }
}

/// In bytes, including swap space.
fn memory_of_machine() -> std::io::Result<u64> {
    let info = nix::sys::sysinfo::sysinfo()?;
    Ok(info.ram_total().saturating_add(info.swap_total()))
}

/// Makes a file for so many processes, with room for `bytes` bytes of segments. The error contains the reason.
fn make(size: usize, bytes: usize) -> Result<(std::fs::File, Finding), String> {
    let failed = |what: &'static str| move |error| format!("{what}: {error}");
    let memory = memory_of_machine().map_err(failed("the machine does not say how much memory it has"))?;
    if bytes as u64 > memory {
        return Err(format!(
            "all processes together ask for {bytes} bytes, but the machine has no more than {memory}"
        ));
    }
    let sizes = sizes(size, bytes).ok_or("they are more than the address space holds")?;
    if (PAGE + sizes.bytes) as u64 > shared_memory::longest() {
        return Err(format!(
            "a file of {bytes} bytes is longer than this process may make one (ulimit -f)"
        ));
    }
    let made = Finding::make(sizes.bytes)?;
    shared_memory::allocate(&made.0, PAGE, sizes.at_first)
        .map_err(failed("no memory can be allocated for it"))?;
    Ok(made)
}

/// Whether the processes of this instance share memory as the processes of a machine do. Simulated ones are all in one process and use
/// messages, unless they are told otherwise.
fn is_real(instance: &Instance) -> bool {
    // Nobody can wake a simulated process.
    let doorbell = instance.engine().doorbell();
    instance.settings().windows == Access::Direct || doorbell.is_none_or(|doorbell| doorbell.pid != 0)
}

/// What ways to other processes' memory there may be.
pub fn access(instance: &Instance) -> Access {
    match instance.settings().windows {
        Access::Auto if !is_real(instance) => Access::Messages,
        access => access,
    }
}

impl Segments {
    /// Memory for all processes of a window, all of which are to have it or none. `window` is the window's communicator; the
    /// messages are those of `parent`, which has the same processes.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SHARED` where a process can't have it, with the reason there; `MPI_ERR_SIZE` for more than the address space holds.
    pub async fn for_all(
        parent: &Arc<Communicator>,
        window: &Arc<Communicator>,
        wish: Wish,
    ) -> Result<Segments> {
        let (rank, size) = (parent.rank(), parent.size() as usize);
        let all = collective::allgather_bytes(&parent.collective(), &wish.encode()).await?;
        let (segments, bytes) = lay_out(&Wish::all(&all))?;
        // No mapping is empty, even behind the control lines.
        let bytes = bytes.max(1);
        let made = (rank == 0).then(|| make(size, bytes));
        let finding = match &made {
            Some(Ok((_, finding))) => finding.encode(),
            _ => Finding::NONE,
        };
        let finding = collective::bcast_bytes(&parent.collective(), 0, finding.to_vec()).await?;
        let sizes = sizes(size, bytes);
        let joined = match (
            &made,
            Finding::decode(finding.first_chunk().expect("as many as were given")),
            sizes,
        ) {
            (Some(Err(reason)), ..) => Err(reason.clone()),
            (_, Some(finding), Some(sizes)) => finding.join(sizes.bytes),
            _ => Err("the first process could make none".into()),
        };
        let joined = joined.map(|map| Segments::new(map, window, (0..parent.size()).collect(), segments));
        let failed = if joined.is_err() { u64::from(rank) + 1 } else { 0 };
        // No process opens it after that: the file may be closed.
        let [failed] = collective::largest(&parent.collective(), [failed]).await?;
        match (joined, failed.checked_sub(1)) {
            (Ok(segments), None) => Ok(segments.meet()),
            (Err(reason), _) => Err(err!(RmaShared, "no memory can be shared: {reason}")),
            (_, Some(other)) => Err(err!(
                RmaShared,
                "no memory can be shared: rank {other} can't map it; its own error says why"
            )),
        }
    }

    /// Memory for the processes of a window on this host, if there are several and all can have it. With a wish, all have one, and there may
    /// be segments.
    ///
    /// # Errors
    /// A process of the host is lost.
    pub async fn for_host(
        parent: &Arc<Communicator>,
        window: &Arc<Communicator>,
        wish: Option<Wish>,
    ) -> Result<Option<Segments>> {
        // All processes of the window begin the operation, so that they number those that follow alike.
        let operation = parent.collective();
        let Some(ranks) = shared::members(parent) else {
            return Ok(None);
        };
        let instance = parent.instance();
        let said = wish.map_or(Vec::new(), |wish| wish.encode().to_vec());
        let willing = !matches!(access(instance), Access::Messages | Access::Rdma);
        let control = sizes(ranks.len(), 0);
        let whole = |said: &[u8]| {
            let wishes = Wish::all(said);
            // A mapping begins at a page: what has to be aligned more is allocated by each process for itself.
            let fits = wishes.iter().all(|wish| wish.alignment <= PAGE as u64);
            let (segments, bytes) = lay_out(&wishes).ok().filter(|_| fits && !wishes.is_empty())?;
            let mut sizes = sizes(ranks.len(), bytes.max(1))?;
            if Some(sizes.bytes) == control.map(|control| control.bytes) {
                // The length says which of the two a file is.
                sizes.bytes += PAGE;
            }
            Some((segments, sizes))
        };
        let chosen = |said: &[u8]| {
            let shares = willing && access(instance) != Access::Attach;
            let memory = memory_of_machine().unwrap_or(0);
            let whole = whole(said).map(|(_, sizes)| sizes);
            let longest = shared_memory::longest();
            let fits = |sizes: &Sizes| sizes.bytes as u64 <= memory && (PAGE + sizes.bytes) as u64 <= longest;
            let whole = whole.filter(|sizes| shares && fits(sizes));
            whole.or(control).filter(|_| willing)
        };
        let join = |found: shared::Found| {
            let (segments, sizes) = match whole(&found.said) {
                Some((segments, sizes)) if sizes.bytes == found.bytes => (segments, sizes),
                _ => (Box::default(), control?),
            };
            let map = willing.then(|| found.map(sizes)).flatten()?;
            Some(Segments::new(map, window, ranks.clone(), segments))
        };
        let joined = shared::file_of_host(&operation, said, chosen, join).await?;
        Ok(joined.map(Segments::meet))
    }

    /// Of a new file, or one as the others have left it, that has the right length.
    fn new(map: Map, window: &Communicator, ranks: Vec<u32>, segments: Box<[Segment]>) -> Segments {
        let Layout {
            control: records,
            mailboxes,
            data,
        } = lay_out_control(ranks.len(), !segments.is_empty());
        let places = Places {
            bits: 0,
            records,
            stride: CONTROL,
        };
        let (group, instance) = (window.group(), window.instance());
        let mine = ranks.binary_search(&window.rank());
        let who = Who {
            peers: ranks.iter().map(|&rank| group.member(rank)).collect(),
            ranks: ranks.into(),
            mine: mine.expect("this process shares it") as u32,
            context: window.context(),
        };
        let end = segments.last().map_or(0, |last| last.offset + last.size);
        assert!(records.is_multiple_of(LINE) && records + who.ranks.len() * CONTROL <= data);
        assert!(map.has(data, end) && (segments.is_empty() || segments.len() == who.ranks.len()));
        let doorbell = instance.engine().doorbell();
        let sample = instance.engine().sample();
        let sharers = Sharers::new(map, instance, places, who, doorbell);
        sharers.offer_sample(sample.filter(|_| instance.settings().cma));
        let segments = Segments {
            sharers,
            segments,
            control: records,
            mailboxes,
            data,
            wakes: false,
        };
        segments.own_control().is_of(Process::here());
        segments
    }

    /// Called when all processes have mapped it.
    fn meet(mut self) -> Segments {
        self.sharers.meet();
        let sharers = &self.sharers;
        self.wakes = (0..sharers.size()).all(|member| sharers.has_doorbell(member));
        self
    }

    /// Its processes, by their places.
    pub fn sharers(&self) -> &Sharers {
        &self.sharers
    }

    /// Whether each process can be woken by all others.
    pub fn wakes(&self) -> bool {
        self.wakes
    }

    /// The words of two processes of which the first one exposes its memory to the second one, where there are such words: how often it has done
    /// so, and how often the other one has ended its epoch. By places.
    pub(super) fn pair(&self, exposing: u32, accessing: u32) -> Option<Pair<'_>> {
        let size = self.sharers.size();
        if size as usize > PAIRED || exposing >= size || accessing >= size {
            return None;
        }
        let nth = (exposing * size + accessing) as usize;
        Some(Pair {
            map: self.sharers.map(),
            at: self.control + size as usize * CONTROL + nth * PAIR,
        })
    }

    /// How many operations a process has sent to another one by messages before a fence with a number, if there are such words. By places.
    pub(super) fn sent(&self, from: u32, to: u32, fence: u64) -> Option<&AtomicU64> {
        let size = self.sharers.size() as usize;
        let (from, to) = (from as usize, to as usize);
        if size > FENCED || from >= size || to >= size {
            return None;
        }
        let first = self.control + size * CONTROL + size * size * PAIR;
        let at = first + (from * size + to) * SENT + (fence & 1) as usize * 8;
        Some(self.sharers.map().u64(at))
    }

    /// The bell of a process, if there are mailboxes.
    #[inline]
    pub(super) fn bell(&self, place: u32) -> Option<Bell<'_>> {
        let size = self.sharers.size();
        assert!(place < size, "one of those who share it");
        let at = self.mailboxes? + place as usize * BOX;
        Some(Bell::new(self.sharers.map(), at, size))
    }

    /// The mailbox of a process, if there are any.
    pub(super) fn mailbox(&self, place: u32) -> Option<Mailbox<'_>> {
        Some(Mailbox::new(self.sharers.map(), self.bell(place)?.at() + LINE))
    }

    /// The control lines of a rank, if it shares the memory.
    #[inline]
    pub fn control(&self, rank: u32) -> Option<Control<'_>> {
        Some(self.control_at(self.sharers.place_of_rank(rank)?))
    }

    /// This process's own.
    #[inline]
    pub fn own_control(&self) -> Control<'_> {
        self.control_at(self.sharers.mine())
    }

    /// Whether the process of a place has ended, as far as that can be told.
    #[cold]
    pub(super) fn has_ended(&self, place: u32) -> bool {
        place < self.sharers.size()
            && self
                .control_at(place)
                .process()
                .is_some_and(|process| process.has_ended())
    }

    /// Those of all processes.
    pub fn controls(&self) -> impl Iterator<Item = Control<'_>> {
        (0..self.sharers.size()).map(|place| self.control_at(place))
    }

    #[inline(always)]
    fn control_at(&self, place: u32) -> Control<'_> {
        assert!(place < self.sharers.size(), "one of those who share it");
        Control {
            map: self.sharers.map(),
            at: self.control + place as usize * CONTROL,
            place,
        }
    }

    /// The words of a rank, if it shares the memory: they are there as long as the memory is mapped.
    pub(super) fn lines(&self, rank: u32) -> Option<NonNull<Lines>> {
        let control = self.control(rank)?;
        assert!(control.map.has(control.at, CONTROL), "within the mapping");
        NonNull::new(
            control
                .map
                .base()
                .as_ptr()
                .wrapping_add(control.at + AT_STATE)
                .cast(),
        )
    }

    /// This process's segment, if there are segments.
    pub fn own(&self) -> Option<&Segment> {
        self.segments.get(self.sharers.mine() as usize)
    }

    /// That of a rank, if it shares the memory.
    pub fn segment(&self, rank: u32) -> Option<&Segment> {
        self.segments.get(self.sharers.place_of_rank(rank)? as usize)
    }

    /// The first one that has any bytes.
    pub fn first(&self) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.size > 0)
    }

    /// Where this process sees a segment.
    pub fn address(&self, segment: &Segment) -> *mut u8 {
        let base = self.sharers.map().base().as_ptr();
        base.wrapping_add(self.data + segment.offset)
    }

    /// Keeps the memory when this is dropped.
    pub fn leave(&self) {
        self.sharers.map().leave();
    }
}

impl<'a> Control<'a> {
    /// Who has the lock ([`ticket`](super::ticket)).
    #[inline]
    pub(super) fn state(&self) -> &'a AtomicU64 {
        self.map.u64(self.at + AT_STATE)
    }

    /// How many tickets of the lock have been drawn.
    pub(super) fn drawn(&self) -> &'a AtomicU64 {
        self.map.u64(self.at + AT_DRAWN)
    }

    /// The oldest ticket of the lock.
    pub(super) fn first(&self) -> &'a AtomicU64 {
        self.map.u64(self.at + AT_FIRST)
    }

    /// The ticket behind the one that was given the lock last.
    pub(super) fn given(&self) -> &'a AtomicU64 {
        self.map.u64(self.at + AT_GIVEN)
    }

    /// How many fences the process has come to.
    #[inline]
    pub(super) fn fences(&self) -> &'a AtomicU64 {
        self.map.u64(self.at + AT_FENCES)
    }

    /// Where that is, for a wait.
    #[inline]
    pub(super) fn place_of_fences(&self) -> usize {
        self.at + AT_FENCES
    }

    /// How many operations the process has sent to all others by messages before a fence with a number.
    pub(super) fn sent(&self, fence: u64) -> &'a AtomicU64 {
        self.map.u64(self.at + AT_SENT + (fence & 1) as usize * 8)
    }

    /// The place, from 1, of the process that was the last one to get the lock.
    #[inline]
    pub fn holder(&self) -> &'a AtomicU32 {
        self.map.u32(self.at + AT_HOLDER)
    }

    /// The process says who it is, before others see its lines.
    fn is_of(&self, process: Option<Process>) {
        let Some(Process { pid, begun, clock }) = process else {
            return;
        };
        self.map.u64(self.at + AT_BEGUN).store(begun, Ordering::Relaxed);
        self.map.u64(self.at + AT_CLOCK).store(clock, Ordering::Relaxed);
        // Release: pairs with the acquire in `process`.
        self.map.u32(self.at + AT_PROCESS).store(pid, Ordering::Release);
    }

    /// The process, which is in this one's pid namespace, as all who share memory are.
    fn process(&self) -> Option<Process> {
        let pid = self.map.u32(self.at + AT_PROCESS).load(Ordering::Acquire);
        (pid != 0).then(|| Process {
            pid,
            begun: self.map.u64(self.at + AT_BEGUN).load(Ordering::Relaxed),
            clock: self.map.u64(self.at + AT_CLOCK).load(Ordering::Relaxed),
        })
    }

    /// Taken by those who update the process's memory and can't do that by atomic operations of the processor: the place, from 1, of who has it
    /// ([`holder`](super::holder)).
    #[inline]
    pub fn lock(&self) -> &'a AtomicU32 {
        self.map.u32(self.at + AT_LOCK)
    }

    /// How the process's memory is updated ([`updates`](super::updates)).
    #[inline(always)]
    pub(super) fn mode(&self) -> &'a AtomicU32 {
        self.short::<AT_MODE>()
    }

    /// Whose memory one of the process's threads updates by atomic operations: its place, from 1.
    #[inline(always)]
    pub(super) fn busy(&self) -> &'a AtomicU32 {
        self.short::<AT_BUSY>()
    }

    /// How many others of its threads do so, for anybody.
    #[inline(always)]
    pub(super) fn others_busy(&self) -> &'a AtomicU32 {
        self.short::<AT_OTHERS_BUSY>()
    }

    /// A word at an offset in the control lines.
    #[inline(always)]
    fn short<const AT: usize>(&self) -> &'a AtomicU32 {
        const { assert!(AT.is_multiple_of(4) && AT < CONTROL) };
        // SAFETY: `control_at` has checked the place, and `new` that the map has the lines of all; they begin at a multiple of a cache line. All
        // access the word as an atomic.
        unsafe { AtomicU32::from_ptr(self.map.base().as_ptr().add(self.at + AT).cast()) }
    }

    /// The process's place among those that share the memory.
    pub fn place(&self) -> u32 {
        self.place
    }

    /// Where the oldest ticket of the lock is, for a wait, and the one behind the one that was given it.
    pub(super) fn places(&self) -> [usize; 2] {
        [self.at + AT_FIRST, self.at + AT_GIVEN]
    }
}

impl<'a> Pair<'a> {
    /// How often the one has posted to the other.
    pub fn posted(&self) -> &'a AtomicU64 {
        self.map.u64(self.at)
    }

    /// How often the other has completed.
    pub fn completed(&self) -> &'a AtomicU64 {
        self.map.u64(self.at + 8)
    }

    /// The last time of these that a message says so, behind operations that the other has sent.
    pub fn told(&self) -> &'a AtomicU64 {
        self.map.u64(self.at + 16)
    }

    /// Where the first two are, for a wait.
    pub fn places(&self) -> [usize; 2] {
        [self.at, self.at + 8]
    }
}
