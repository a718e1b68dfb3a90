//! The lane between processes of one machine: shared memory of our own.
//!
//! Users: [`ShmLane::open`]; the rest is [`Lane`]. [`ShmLane::connect`] fails with a reason where two processes can't share
//! memory (other machine, other pid namespace, no rights, no memory); the engine then takes the next lane.
//!
//! Implementation. Each process has a [`segment`] of its own with a [`ring`] for each sender; a message is copied into the
//! receiver's ring and from there to where the receiver wants it. The budget of the fast path: one look-up of the peer, one
//! cache line written and one read, no system call, no lock, no allocation. Large messages go through the ring in pieces,
//! which both sides copy at the same time; where they can't, because they share a core, the receiver reads the sender's
//! memory ([`cma`]). [`doorbell`] wakes sleepers.
//!
//! The death of a peer is not noticed here: the launcher notices it.
//!
//! What does not belong here: memory files as such (`system::shared_memory`), which ranks share a machine (`system::locality`), memory that
//! the user's windows share (`objects::window`), and libfabric's `shm` provider (`lane::ofi`).

mod address;
pub(crate) mod cma;
mod doorbell;
mod flag;
mod registered;
mod ring;
mod segment;
mod stores;
#[cfg(test)]
mod tests;

use std::os::fd::RawFd;

use crate::base::bytes::RawRoom;
use crate::base::error::Result;
use crate::data::pieces::{Piece, total};
use crate::err;
use crate::identity::{PeerIndex, ProcessName};
use crate::lane::atomic::Atomics;
use crate::lane::{Doorbell, HEADER_BYTES, Lane, Limits, Region, RemoteKey, Sample, Sent, Sink};

use address::{Address, MemoryDomain};
use doorbell::{Bell, Shared};
pub use doorbell::{BellPull, Fences};
use registered::{Bookmark, Registered, Tables};
use ring::{Popped, Receiver, Sender};
use segment::{Joined, Mapped, Owner, Segment};
pub use stores::{Allowed, StoreKind};

/// Messages of one sender that a poll delivers before it goes on to the next sender.
const BURST: usize = 32;

/// The options of a lane.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// This process.
    pub me: ProcessName,
    /// How many processes its job has.
    pub size: u32,
    /// How many processes of its job may want to send to it.
    pub senders: u32,
    /// The token of the segment: random.
    pub token: u64,
    /// The node: processes share memory within one node only.
    pub node: u32,
    /// Whether to read peers' memory where the system allows it.
    pub cma: bool,
    /// Whether processes share cores, so that two seldom run at the same time.
    pub crowded: bool,
    /// How long payloads may be written.
    pub stores: Allowed,
}

/// See the module.
pub struct ShmLane {
    me: ProcessName,
    /// How many processes its job has.
    size: u32,
    /// By index.
    peers: Vec<Option<Box<Peer>>>,
    /// The rings of the processes that send to this one.
    incoming: Vec<Incoming>,
    /// How many had joined when `incoming` was last updated.
    joined: u32,
    segment: Segment,
    bell: Bell,
    fences: Fences,
    address: Address,
    cma: bool,
    tables: Tables,
    crowded: bool,
    stores: Allowed,
}

/// A process that this one sends to.
struct Peer {
    ring: Sender<Mapped>,
    joined: Joined,
    fences: Fences,
    bell: BellPull,
    /// Its process id, for reading its memory, if that works.
    cma: Option<u32>,
    bookmark: Bookmark,
}

/// A process that sends to this one.
struct Incoming {
    number: u32,
    owner: Owner,
    ring: Receiver<Mapped>,
    /// Its bell, to wake it when it waits for room; opened when it first does.
    bell: Option<BellPull>,
    /// It wrote something invalid, and its ring is not read any more.
    closed: bool,
}

impl Incoming {
    /// Wakes the sender, as there is room again. A sender that can't be woken checks again after a time.
    #[cold]
    fn ring(&mut self) {
        let Owner {
            pid,
            bell,
            bell_inode,
            ..
        } = self.owner;
        if self.bell.is_none() {
            self.bell = BellPull::open(pid, bell, bell_inode).ok();
        }
        match &self.bell {
            Some(bell) => bell.ring(),
            None => self.ring.memory().set_mute(),
        }
    }
}

/// Whether processes of the same user may open what this one has under `/proc`.
fn is_open_to_others() -> bool {
    // SAFETY: the call takes numbers only.
    unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) == 1 }
}

impl ShmLane {
    /// Makes this process's segment. The error contains the reason.
    pub fn open(options: Options) -> Result<ShmLane> {
        let failed = |reason: String| {
            err!(
                Other,
                "shared memory can't be used: {reason} (WEFT_LANES=ofi does without it)"
            )
        };
        if !is_open_to_others() {
            return Err(failed(
                "the system lets no other process look into this one (prctl PR_GET_DUMPABLE), as with programs that \
                 change their user"
                    .into(),
            ));
        }
        let domain = MemoryDomain::here(options.node).map_err(failed)?;
        let fences = Fences::offered();
        let wants_fences = fences == Fences::BySenders;
        let segment = Segment::create(options.senders, options.token, wants_fences).map_err(|error| {
            let needed = Segment::needs();
            failed(format!(
                "no memory file can be created (memfd_create): {error}; {needed} are needed"
            ))
        })?;
        let bell = Bell::new().map_err(|error| failed(format!("no pipe can be made: {error}")))?;
        let (bell_end, bell_inode) = bell
            .names()
            .map_err(|error| failed(format!("a pipe has no number: {error}")))?;
        let pid = std::process::id();
        let token_at = segment.head().token_address();
        let own = Sample {
            pid,
            address: token_at,
            value: options.token,
        };
        let cma = options.cma && cma::works(own);
        if cma {
            cma::allow();
        }
        let address = Address {
            domain,
            pid,
            segment: segment.descriptor() as u32,
            rings: segment.rings(),
            token: options.token,
            token_at,
            bell: bell_end as u32,
            bell_inode,
        };
        Ok(ShmLane {
            me: options.me,
            size: options.size,
            peers: Vec::new(),
            incoming: Vec::new(),
            joined: 0,
            segment,
            bell,
            fences,
            address,
            cma,
            tables: Tables::default(),
            crowded: options.crowded,
            stores: options.stores,
        })
    }

    /// Whether it can read another process's memory.
    pub fn reads_memory(&self) -> bool {
        self.cma
    }

    /// Calls `push` to put a message with a payload of `len` bytes into a peer's ring.
    #[inline(always)]
    fn push(
        &mut self,
        peer: PeerIndex,
        header: &[u8],
        len: usize,
        push: impl FnOnce(&mut Sender<Mapped>, &[u8; HEADER_BYTES]) -> std::result::Result<bool, ring::Nonsense>,
    ) -> Result<Sent> {
        let Some(Some(known)) = self.peers.get_mut(peer.index()) else {
            return Err(self.unknown(peer));
        };
        let Ok(header) = <&[u8; HEADER_BYTES]>::try_from(header) else {
            return Err(err!(
                Intern,
                "a header has {HEADER_BYTES} bytes, this one {}",
                header.len()
            ));
        };
        if len > ring::payload_max::<Mapped>() {
            return Err(err!(
                Intern,
                "a payload of {len} bytes is longer than the lane shm carries"
            ));
        }
        match push(&mut known.ring, header) {
            Ok(true) => {}
            Ok(false) => return Ok(Sent::Again),
            Err(ring::Nonsense) => return Err(nonsense(peer.number())),
        }
        let sleeping = Shared {
            word: known.joined.head().sleeping(),
            fences: known.fences,
        };
        if flag::must_ring(&sleeping) {
            known.bell.ring();
        }
        Ok(Sent::Done)
    }

    #[cold]
    fn unknown(&self, peer: PeerIndex) -> crate::Error {
        err!(
            Intern,
            "process {} was not connected on the lane shm",
            peer.number()
        )
    }

    /// Adds the rings of the senders that have joined since the last time.
    #[cold]
    fn welcome(&mut self, joined: u32) {
        self.joined = joined;
        for number in 0..self.segment.rings() {
            if let Some((memory, owner)) = self.segment.ring(number) {
                self.incoming.push(Incoming {
                    number,
                    owner,
                    ring: Receiver::new(memory),
                    bell: None,
                    closed: false,
                });
            }
        }
    }
}

/// Whether a process of this number lives.
fn is_there(pid: u32) -> bool {
    std::path::Path::new("/proc").join(pid.to_string()).exists()
}

#[cold]
fn nonsense(rank: u32) -> crate::Error {
    err!(
        Other,
        "what process {} wrote into shared memory makes no sense; the connection to it is closed",
        rank
    )
}

impl Lane for ShmLane {
    fn name(&self) -> String {
        "shm".into()
    }

    fn limits(&self) -> Limits {
        let most = FRAME + HEADER_BYTES;
        Limits {
            buffered: most,
            message: most,
            header: HEADER_BYTES,
            piece: EAGER,
            ordered: true,
            rma: self.cma,
            write: self.cma,
            atomics: Atomics::None,
            needs_target: false,
            ends_with_receipt: true,
            rma_from: if self.crowded { PIPELINED + 1 } else { usize::MAX },
            read_run: READ_RUN,
            register_run: REGISTER_RUN,
            eager: EAGER,
            pipelined: PIPELINED,
            // Each sender has a ring of its own and takes no other's place.
            queue: usize::MAX,
        }
    }

    fn address(&self) -> Vec<u8> {
        self.address.encode()
    }

    fn connect(&mut self, peer: PeerIndex, address: &[u8]) -> Result<()> {
        let failed = |reason: String| {
            err!(
                Other,
                "process {} can't be reached by shared memory: {reason}",
                peer.number()
            )
        };
        let Some(theirs) = Address::decode(address) else {
            return Err(failed("its business card is not understood".into()));
        };
        let here = self.address.domain;
        if theirs.domain.machine.boot != here.machine.boot {
            return Err(failed("it is on another machine".into()));
        }
        if theirs.domain.machine.pids != here.machine.pids {
            return Err(failed("it is in another pid namespace".into()));
        }
        if theirs.domain.node != here.node {
            return Err(failed("WEFT_FAKE_NODES puts it on another node".into()));
        }
        let bell = BellPull::open(theirs.pid, theirs.bell, theirs.bell_inode).map_err(failed)?;
        let owner = Owner {
            name: self.me,
            pid: self.address.pid,
            bell: self.address.bell,
            bell_inode: self.address.bell_inode,
        };
        let (joined, ring) = Joined::join(
            theirs.pid,
            theirs.segment,
            theirs.rings,
            theirs.token,
            owner,
            peer.rank_in(self.size).is_none(),
        )
        .map_err(failed)?;
        let fences = if joined.head().wants_fences() {
            Fences::BySenders
        } else {
            self.fences
        };
        let sample = Sample {
            pid: theirs.pid,
            address: theirs.token_at,
            value: theirs.token,
        };
        let cma = self.cma && cma::works(sample);
        let index = peer.index();
        if self.peers.len() <= index {
            self.peers.resize_with(index + 1, || None);
        }
        self.peers[index] = Some(Box::new(Peer {
            ring: Sender::new(ring, self.stores),
            joined,
            fences,
            bell,
            cma: cma.then_some(theirs.pid),
            bookmark: Bookmark::default(),
        }));
        Ok(())
    }

    fn disconnect(&mut self, peer: PeerIndex) {
        if let Some(known) = self.peers.get_mut(peer.index()) {
            *known = None;
        }
    }

    fn release(&mut self, sender: ProcessName, ended: bool) {
        let (segment, incoming) = (&mut self.segment, &mut self.incoming);
        let mut released = false;
        incoming.retain(|from| {
            // One that has ended may have come again, with another ring behind this one.
            let goes = from.owner.name == sender && !(ended && released);
            released |= goes;
            if goes && (ended || !is_there(from.owner.pid)) {
                segment.release(from.number);
            }
            !goes
        });
    }

    #[inline]
    unsafe fn send(&mut self, peer: PeerIndex, header: &[u8], payload: Piece, _: u64) -> Result<Sent> {
        // SAFETY: the caller says that the payload is readable, and it is copied before this returns.
        let payload = unsafe { payload.bytes() };
        self.push(peer, header, payload.len(), |ring, header| {
            ring.push(header, payload)
        })
    }

    fn send_packed(
        &mut self,
        peer: PeerIndex,
        header: &[u8],
        len: usize,
        fill: &mut dyn FnMut(RawRoom),
    ) -> Result<Sent> {
        self.push(peer, header, len, |ring, header| {
            ring.push_packed(header, len, fill)
        })
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink) -> Result<bool> {
        let joined = self.segment.head().joined();
        if joined != self.joined {
            self.welcome(joined);
        }
        let mut any = false;
        for from in &mut self.incoming {
            if from.closed {
                continue;
            }
            for _ in 0..BURST {
                match from.ring.pop(|header, payload| sink.parts(header, payload)) {
                    Popped::Nothing => break,
                    Popped::Message => any = true,
                    Popped::MessageAndBell => {
                        any = true;
                        from.ring();
                    }
                    Popped::Nonsense => {
                        from.closed = true;
                        any = true;
                        let name = from.owner.name;
                        sink.sender_lost(name, nonsense(name.rank));
                        break;
                    }
                }
            }
        }
        Ok(any)
    }

    unsafe fn register(&mut self, pieces: &[Piece]) -> Result<(Region, RemoteKey)> {
        Ok(self.tables.register(pieces))
    }

    fn deregister(&mut self, region: Region) {
        self.tables.deregister(region);
    }

    unsafe fn read(
        &mut self,
        peer: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        into: &[Piece],
        _: u64,
    ) -> Result<Sent> {
        let Some(Some(known)) = self.peers.get_mut(peer.index()) else {
            return Err(self.unknown(peer));
        };
        let len = total(into);
        let memory = Registered::decode(key).filter(|memory| memory.has(offset, len));
        let memory = memory.ok_or_else(|| {
            err!(
                Other,
                "process {} offers no {len} bytes of memory at {offset}",
                peer.number()
            )
        })?;
        let Some(pid) = known.cma else {
            return Err(err!(
                Other,
                "the memory of process {} can't be read",
                peer.number()
            ));
        };
        // SAFETY: the caller's pointer is null or valid for reading.
        unsafe { memory.read(pid, offset, into, &mut known.bookmark) }
            .map_err(|error| err!(Other, "reading the memory of process {}: {error}", peer.number()))?;
        Ok(Sent::Done)
    }

    unsafe fn expose(&mut self, memory: Piece) -> Result<(Region, RemoteKey)> {
        Ok(Tables::expose(memory))
    }

    fn reaches_memory(&self, peer: PeerIndex) -> bool {
        let known = self.peers.get(peer.index()).and_then(Option::as_ref);
        known.is_some_and(|known| known.cma.is_some())
    }

    /// The kernel writes during the call.
    unsafe fn write(
        &mut self,
        peer: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        from: &[Piece],
        _: u64,
    ) -> Result<Sent> {
        let Some(Some(known)) = self.peers.get(peer.index()) else {
            return Err(self.unknown(peer));
        };
        let len = total(from);
        let memory = Registered::decode(key).filter(|memory| memory.has(offset, len));
        let memory = memory.ok_or_else(|| {
            err!(
                Other,
                "process {} offers no {len} bytes of memory at {offset}",
                peer.number()
            )
        })?;
        let Some(pid) = known.cma else {
            return Err(err!(
                Other,
                "the memory of process {} can't be written",
                peer.number()
            ));
        };
        // SAFETY: the caller says that the pieces are readable; the key is one that the peer has given out for memory that is written.
        unsafe { memory.write(pid, offset, from) }
            .map_err(|error| err!(Other, "writing the memory of process {}: {error}", peer.number()))?;
        Ok(Sent::Done)
    }

    fn silence(&mut self) {
        self.bell.silence();
    }

    fn arm(&mut self) -> Option<RawFd> {
        for peer in self.peers.iter().flatten() {
            peer.ring.ask_for_room();
        }
        let ShmLane {
            segment,
            peers,
            incoming,
            joined,
            ..
        } = self;
        let sleeping = Shared {
            word: segment.head().sleeping(),
            fences: self.fences,
        };
        let quiet = || {
            // Every ring is checked, so that no request for a ring at its bell remains without a reason.
            let full = peers.iter_mut().flatten().filter(|peer| peer.ring.is_short());
            let has_room = full.fold(false, |any, peer| peer.ring.has_room() | any);
            !has_room
                && *joined == segment.head().joined()
                && incoming.iter().all(|from| from.closed || from.ring.is_empty())
        };
        flag::go_to_sleep(&sleeping, quiet).then(|| self.bell.descriptor())
    }

    fn rings_for_room(&self, peer: PeerIndex) -> bool {
        let known = self.peers.get(peer.index()).and_then(Option::as_ref);
        known.is_some_and(|known| known.ring.is_short() && !known.ring.memory().is_mute())
    }

    fn can_sleep(&self) -> bool {
        true
    }

    fn doorbell(&self) -> Option<Doorbell> {
        Some(Doorbell {
            pid: self.address.pid,
            descriptor: self.address.bell,
            inode: self.address.bell_inode,
            wants_fences: self.fences == Fences::BySenders,
        })
    }

    fn sample(&self) -> Option<Sample> {
        self.cma.then_some(Sample {
            pid: self.address.pid,
            address: self.address.token_at,
            value: self.address.token,
        })
    }

    /// What is in a ring no longer needs this process: the memory stays until the receiver has taken it.
    fn is_drained(&self) -> bool {
        true
    }
}

/// A message of at most this many bytes is one message of the ring. Of a longer one, a piece is copied out while the next
/// is copied in: the first and last pieces are this short, because the other side does not copy while the first one is
/// copied in and the last one out.
const EAGER: usize = 8 << 10;
/// The longest piece.
const FRAME: usize = 32 << 10;
/// Up to this many bytes a message is pipelined: to wait for its receive costs a round trip, to come before it a copy.
const PIPELINED: usize = 128 << 10;
const _: () = assert!(FRAME <= ring::payload_max::<Mapped>());
/// From these lengths of runs on, reading into many runs, and reading from many runs, costs little more than one long
/// run. Measured for 1 MiB, in microseconds of processor time, where one run took 145 to 180: 170 into runs of 512 B and
/// 383 into runs of 128 B; from runs of 4 KiB 166, of 1 KiB 493, since the kernel looks up the pages of each. Both sides
/// in runs of 16 KiB took 118.
const READ_RUN: usize = 512;
const REGISTER_RUN: usize = 16 << 10;
