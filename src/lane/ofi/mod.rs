//! The lane over libfabric: one reliable datagram endpoint (`FI_EP_RDM`), messages into multi-receive buffers, and
//! reads and writes of remote memory and atomic operations on it.
//!
//! Users: [`OfiLane::open`] takes the settings; the rest is [`Lane`].
//!
//! Implementation. The budget of the fast path is one look-up of the peer, one copy of header and payload into one
//! buffer, and `fi_inject`; no system call and no allocation of ours. By size, a message goes
//!
//! 1. up to `inject_size`: by `fi_inject`, which copies;
//! 2. up to `limits.buffered`: through the bounce buffer of an operation slot, so the caller's bytes are free at once;
//! 3. above: by `fi_sendmsg` with two segments, the header in the slot's bounce buffer and the payload in place. Where
//!    the provider does not support two segments, everything is sent by 2.
//!
//! The loss of a peer: ofi_rxm reports it with the operations under way; `net` of 1.17 does not, and returns `FI_EAGAIN`
//! forever, as it does for a peer that is merely busy. So there the launcher notices a death. With manual progress a
//! connection is made only while both sides poll: that a peer does not take anything for long, not even the first
//! message, does not mean that it is dead. The user is told where it is ([`Lane::late`]), and the lane goes on trying. Only where
//! nothing listens at the address of a peer over TCP, or there is no way to it, is the peer lost (`peers`).
//!
//! What comes from the network is only passed on: nothing in a message is read here but the lane's secret in front of it.
//! An unauthenticated sender who connects and sends junk costs a completion with an error, or a message that is refused.
//!
//! - `open`, `tuning`: opening the lane, and sizes for each provider
//! - `send`, `receive`: messages out, messages in; `one_sided`, `transfers`: access to remote memory, and what is long of it; `operations`:
//!   those under way
//! - `secret`: what each message begins with
//! - `peers`: whom it talks to; `departed`: whom it no longer does; `registered`, `keys`, `memory`: memory that libfabric and peers use
//! - `shm_name`, `shm_room`: what libfabric's own `shm` provider needs
//!
//! What does not belong here: calls of libfabric and the choice of a provider (`system::fabric`), which lanes are opened
//! (`lane::choose`), and Weft's own shared memory (`lane::shm`).

mod departed;
#[cfg(test)]
pub(crate) mod incast;
mod keys;
mod memory;
mod one_sided;
mod open;
mod operations;
#[cfg(test)]
mod other_process;
mod peers;
mod receive;
mod registered;
mod secret;
mod send;
pub mod shm_name;
pub mod shm_room;
#[cfg(test)]
mod tests;
mod transfers;
mod tuning;

use std::collections::{HashMap, HashSet};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustc_hash::FxBuildHasher;

use crate::base::bytes::RawRoom;
use crate::base::error::Result;
use crate::base::settings::Settings;
use crate::base::startup::{Ledger, Phase};
use crate::data::pieces::{Piece, total};
use crate::err;
use crate::identity::PeerIndex;
use crate::lane::atomic::{AtomicTable, Update};
use crate::lane::{HEADER_BYTES, LONGER_BY, Lane, Late, Limits, Region, RemoteKey, Sent, Sink};
use crate::system::fabric::{
    self, Access, AddressVector, Batch, CallError, Completion, CompletionQueue, Domain, Endpoint, Fabric,
    Failure, Info, MemoryRegion, Polled, Posted, Sockets, UnpacedLoopback, When, select,
};

use departed::Departed;
use operations::{Operation, Operations};
use peers::Peer;
use receive::{ReceiveBuffers, Target};
use registered::{Registered, Registrar, RemoteMemory};
use secret::Secret;
use transfers::{Direction, Transfer, Transfers};
use tuning::Tuning;

/// Operations under way at most; more get [`Sent::Again`].
const OPERATIONS: usize = 512;

/// Full batches of completions that one poll handles at most, so that a flood of messages does not keep the engine from
/// its other work.
const ROUNDS: usize = 32;

/// After this many polls in a row that found nothing, the lane checks whether messages wait in sockets for a receive
/// buffer.
const QUIET: u32 = 16;

/// They do if this many checks in a row find something there. A single check may come just before a message is read.
const LOOKS: u32 = 4;

/// Where the provider needs registered buffers: the number of them, each of the length of a message, for payloads that can't be registered.
const SPARES: usize = 8;

/// After a peer has taken nothing for this long, it is tried whether anything listens at its address, unless [`OfiLane::report_after`] is
/// shorter. A launcher that watches processes has told of a dead one by then.
const ATTEMPT_AFTER: Duration = Duration::from_secs(10);

/// The longest single read of remote memory: some providers count in 32 bits.
const READ_PART: usize = 1 << 30;

/// In the name of the network of a lane that reaches only this machine, in front of the machine's number.
pub const MACHINE: char = '@';

/// The lane over libfabric.
///
/// The order of the fields is the order in which they close: the endpoint before the registrations (unless those are
/// bound to it, when each holds it), and the memory that libfabric may write to last.
pub struct OfiLane {
    endpoint: Rc<Endpoint>,
    registered: HashMap<u64, Registered, FxBuildHasher>,
    /// Those of them that hardware serves, so that they need no polls: [`Lane::expose`].
    unattended: HashSet<u64, FxBuildHasher>,
    transfers: Transfers,
    /// Registrations of the lane's own buffers, in no order.
    own_regions: Vec<MemoryRegion>,
    queue: Rc<CompletionQueue>,
    addresses: Rc<AddressVector>,
    domain: Rc<Domain>,
    operations: Operations,
    receives: ReceiveBuffers,

    info: Info,
    provider: String,
    own_name: Vec<u8>,
    /// What messages to this lane begin with.
    secret: Secret,
    limits: Limits,
    /// See [`Lane::atomics`].
    atomics: Box<AtomicTable>,
    inject_size: usize,
    /// Nothing is injected: every message has a completion.
    counts_all: bool,
    scratch: Box<[u8]>,
    batch: Batch,
    peers: HashMap<PeerIndex, Peer, FxBuildHasher>,
    departed: Departed,
    registrar: Registrar,
    /// Whether buffers of local operations are registered: the provider asks for it, or a test.
    registers_local: bool,
    next_region: u64,
    /// After this time, a peer for which libfabric takes nothing is reported.
    report_after: Option<Duration>,
    /// After this time it is tried whether anything listens at the peer's address.
    attempt_after: Duration,
    /// Whether addresses are those of TCP.
    over_tcp: bool,
    sleeps_early: bool,
    /// The sockets: to sleep on where the completion queue has no descriptor, though the provider could have one; or to give long buffers.
    sockets: Option<Sockets>,
    /// Whether connections are given long receive buffers.
    long_receives: bool,
    /// [`Tuning::reads_after_sleep`].
    reads_after_sleep: usize,
    /// Whether this process has slept since the last poll, and such reads are due.
    has_slept: bool,
    /// Whether connections may be ones that send long messages by timers.
    paced: bool,
    /// While the lane is open.
    _unpaced: Option<UnpacedLoopback>,
    /// Whose loopback address it is at; `None`: it is at another address, or that is not known.
    machine: Option<u64>,
    /// Polls in a row that found nothing.
    quiet: u32,
    /// Checks in a row that found something in the sockets.
    unread: u32,
}

// SAFETY: libfabric's objects have no thread of their own and may be used from any, one at a time (`FI_THREAD_DOMAIN`). All
// references to those of a lane are in the lane: none is handed out, and no clone of an `Rc` leaves it.
unsafe impl Send for OfiLane {}

impl OfiLane {
    /// Opens an endpoint of the provider that the settings (or the order of preference) choose. `local_only`: all
    /// processes of the job are on this machine, so the loopback address will do. `spins`: a wait spins before it sleeps, so
    /// that it need not be woken at once; the descriptor for that costs two system calls a message.
    pub fn open(settings: &Settings, local_only: bool, spins: bool, ledger: &Ledger) -> Result<OfiLane> {
        ledger.time(Phase::Load, fabric::load)?;
        let chosen = ledger.time(Phase::Ask, || select::choose(settings, local_only))?;
        let mut lane = OfiLane::open_info(chosen, settings, false, spins, ledger)?;
        let address = fabric::socket_address(&lane.own_name);
        if local_only && address.is_some_and(|address| address.ip().is_loopback()) {
            lane.machine = open::loopback_number();
        }
        Ok(lane)
    }

    #[cold]
    fn replenish(&mut self) -> Result<()> {
        self.receives.replenish(&mut Target {
            endpoint: &self.endpoint,
            domain: &self.domain,
            registered: self.registers_local.then_some(&mut self.own_regions),
        })
    }

    /// Gives new connections long receive buffers, where the provider needs them. Returns whether it does.
    #[cold]
    fn lengthen(&mut self) -> bool {
        if self.long_receives
            && let Some(sockets) = &mut self.sockets
        {
            sockets.lengthen();
        }
        self.long_receives
    }

    /// The reads after a sleep, the first of which has found nothing.
    #[cold]
    fn read_on(&mut self) -> Result<Polled> {
        self.has_slept = false;
        for _ in 1..self.reads_after_sleep {
            match self.queue.read(&mut self.batch)? {
                Polled::Nothing => {}
                found => return Ok(found),
            }
        }
        Ok(Polled::Nothing)
    }

    /// Before long messages: connections that are new since then need not send them by timers.
    #[inline]
    fn unpace(&mut self) {
        if self.paced {
            self.paced = self.sockets.as_mut().is_some_and(Sockets::unpace);
        }
    }

    /// A TCP provider that has no buffer for a message leaves it in its socket. If that goes on while nothing comes, then the
    /// buffers that are posted are all held by incomplete messages.
    #[cold]
    fn look_for_waiting_messages(&mut self) -> Result<()> {
        self.quiet = 0;
        if self.lengthen() {
            return Ok(());
        }
        let Some(connections) = self.sockets.as_mut().and_then(Sockets::unread) else {
            self.unread = 0;
            return Ok(());
        };
        self.unread += 1;
        if self.unread < LOOKS {
            return Ok(());
        }
        self.unread = 0;
        self.receives.distrust(connections);
        self.replenish()
    }

    /// Makes an address known to libfabric; the result is its number. The address was decoded, and thereby checked.
    fn insert(&mut self, peer: PeerIndex, name: &[u8]) -> Result<u64> {
        // libfabric reads as many bytes as the format says: some formats' structs are longer than their addresses.
        let mut padded = name.to_vec();
        padded.resize(name.len().max(self.own_name.len()) + 64, 0);
        // SAFETY: the format is this domain's, and `decode` has checked the bytes as far as the format allows.
        unsafe { self.addresses.insert(&padded) }.map_err(|error| {
            err!(
                Other,
                "process {}'s address can't be used: {error}",
                peer.number()
            )
        })
    }

    /// Has libfabric forget the addresses of processes that have parted, as far as it can.
    fn forget_departed(&mut self) {
        let (operations, transfers) = (&self.operations, &self.transfers);
        while let Some(address) = self
            .departed
            .next(|peer| operations.concern(peer, |transfer| transfers.peer(transfer)))
        {
            // SAFETY: the address is one of this vector's, and nothing is sent to it any more, nor under way.
            unsafe { self.addresses.remove(address) };
        }
    }

    #[cold]
    fn unknown(&self, peer: PeerIndex) -> crate::Error {
        err!(
            Intern,
            "process {} was not connected on the lane {}",
            peer.number(),
            self.provider
        )
    }

    /// What to return to the engine after libfabric returned `FI_EAGAIN`.
    #[cold]
    fn again(&mut self, peer: PeerIndex) -> Sent {
        if let Some(known) = self.peers.get_mut(&peer) {
            known.refused();
        }
        Sent::Again
    }

    #[cold]
    fn refused(&self, peer: PeerIndex, error: CallError) -> crate::Error {
        let place = self.place(peer).unwrap_or_default();
        err!(
            Other,
            "sending to process {} at {place} from {}: {error}",
            peer.number(),
            peers::words(&self.info, &self.own_name)
        )
    }

    /// Handles one completion.
    #[inline]
    fn complete(&mut self, completion: Completion, sink: &mut dyn Sink) -> Result<()> {
        let context = completion.context();
        if let Some(index) = self.receives.index(context) {
            if completion.is_receive()
                && let Some(message) = self.receives.message(index, &completion)
                && !message.is_empty()
            {
                // The sink counts what is no message.
                sink.message(self.secret.strip(message).unwrap_or_default());
            }
            if self.receives.settle(index, &completion) {
                self.replenish()?;
            }
            return Ok(());
        }
        // Any other context was never handed out by this lane: nothing to do for it.
        if let Some(slot) = self.operations.index(context)
            && let Some(operation) = self.operations.end(slot)
        {
            self.end(operation, Ok(()), sink);
        }
        Ok(())
    }

    /// Reports to the engine how an operation ended.
    fn end(&mut self, operation: Operation, result: Result<()>, sink: &mut dyn Sink) {
        match operation {
            Operation::Free { .. } | Operation::Copied { .. } => {}
            Operation::Spared { spare, .. } => self.operations.give_back(spare),
            Operation::Lent { token, region, .. } => {
                if let Some(region) = region {
                    self.registrar.end(region);
                }
                sink.completed(token, result);
            }
            Operation::Transfer { transfer } => {
                if let Some(transfer) = self.transfers.ended(transfer, result) {
                    self.end_transfer(transfer, sink);
                }
            }
            Operation::OneSided {
                token,
                result: (into, place),
                ..
            } => {
                if result.is_ok() && into.len > 0 {
                    // SAFETY: the caller of `atomic` keeps the result valid until now; the operation has just ended.
                    unsafe { self.operations.hand_out(place, into) };
                }
                sink.completed(token, result);
            }
        }
    }

    /// Handles an operation that failed.
    #[cold]
    fn fail(&mut self, failure: Failure, sink: &mut dyn Sink) -> Result<()> {
        if let Some(index) = self.receives.index(failure.context) {
            self.receives.failed(index, failure.releases_buffer);
            if !receive::is_benign(&failure.error) {
                return Err(err!(Other, "receiving over {}: {}", self.provider, failure.error));
            }
            return self.replenish();
        }
        let Some(slot) = self.operations.index(failure.context) else {
            // An injected message has no context. libfabric does not report its receiver; the peer's other
            // operations, or the launcher, will report its death.
            return Ok(());
        };
        let Some(operation) = self.operations.end(slot) else {
            return Ok(());
        };
        let peer = match &operation {
            Operation::Copied { peer }
            | Operation::Spared { peer, .. }
            | Operation::Lent { peer, .. }
            | Operation::OneSided { peer, .. } => Some(*peer),
            Operation::Transfer { transfer } => self.transfers.peer(*transfer),
            Operation::Free { .. } => None,
        };
        let error = match peer {
            Some(peer) => self.refused(peer, failure.error.clone()),
            None => failure.error.clone().into(),
        };
        let copied = matches!(operation, Operation::Copied { .. } | Operation::Spared { .. });
        self.end(operation, Err(error.clone()), sink);
        // A copied message was reported as sent, so if it is lost, the peer counts as lost whatever the reason is.
        if let Some(peer) = peer
            && (copied || failure.error.is_unreachable())
            && let Some(known) = self.peers.get_mut(&peer)
            && !std::mem::replace(&mut known.lost, true)
        {
            sink.peer_lost(peer, error);
        }
        Ok(())
    }
}

impl Lane for OfiLane {
    fn name(&self) -> String {
        format!("ofi/{}", self.provider)
    }

    fn network(&self) -> String {
        match self.machine {
            Some(number) => format!("{}{MACHINE}{number:016x}", self.name()),
            None => self.name(),
        }
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn address(&self) -> Vec<u8> {
        peers::encode(
            &self.provider,
            self.info.address_format(),
            self.secret,
            &self.own_name,
        )
    }

    fn connect(&mut self, peer: PeerIndex, address: &[u8]) -> Result<()> {
        let format = self.info.address_format();
        let (secret, name) = peers::decode(address, &self.provider, format, &self.own_name)?;
        self.forget_departed();
        let number = match self.departed.take(name) {
            Some(number) => number,
            None => self.insert(peer, name)?,
        };
        self.peers.insert(peer, Peer::new(number, secret, name));
        if let Some((sockets, address)) = self.sockets.as_mut().zip(fabric::socket_address(name)) {
            sockets.add(address);
        }
        Ok(())
    }

    fn disconnect(&mut self, peer: PeerIndex) {
        let Some(known) = self.peers.remove(&peer) else {
            return;
        };
        if let Some((sockets, address)) = self.sockets.as_mut().zip(fabric::socket_address(known.name())) {
            sockets.part(address);
        }
        self.departed.add(known.name().into(), peer, known.address);
        self.forget_departed();
    }

    #[inline]
    unsafe fn send(&mut self, peer: PeerIndex, header: &[u8], payload: Piece, token: u64) -> Result<Sent> {
        let len = header.len() + payload.len;
        if len <= self.limits.buffered && header.len() <= HEADER_BYTES {
            return self.send_short(peer, header, payload.len, |to| {
                // SAFETY: the caller says that the payload is readable.
                to.fill_from(unsafe { payload.bytes() });
            });
        }
        if len > self.limits.message || header.len() > self.limits.header {
            return Err(err!(
                Intern,
                "a message of {len} bytes with a header of {} is longer than the lane {} carries ({} and {})",
                header.len(),
                self.provider,
                self.limits.message,
                self.limits.header
            ));
        }
        self.unpace();
        // SAFETY: the caller keeps the payload valid and unchanged until the lane has completed it.
        unsafe { self.send_in_place(peer, header, payload, token) }
    }

    fn send_packed(
        &mut self,
        peer: PeerIndex,
        header: &[u8],
        len: usize,
        fill: &mut dyn FnMut(RawRoom),
    ) -> Result<Sent> {
        assert!(header.len() <= HEADER_BYTES, "a header is no longer");
        self.send_short(peer, header, len, fill)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<bool> {
        if self.transfers.has_unissued()
            && let Some(transfer) = self.transfers.resume(&self.endpoint, &mut self.operations)
        {
            self.end_transfer(transfer, sink);
        }
        if self.receives.is_short() {
            self.replenish()?;
        }
        // A full batch means that more is waiting. Providers move all that arrived into the queue at each read, so
        // reading less than that would let it grow, and use up the receive buffers.
        for round in 0..ROUNDS {
            let polled = match self.queue.read(&mut self.batch)? {
                Polled::Nothing if self.has_slept => self.read_on()?,
                polled => polled,
            };
            match polled {
                Polled::Nothing if round > 0 => return Ok(true),
                Polled::Nothing => {
                    self.quiet += 1;
                    if self.quiet == QUIET {
                        self.look_for_waiting_messages()?;
                    }
                    return Ok(false);
                }
                Polled::Failed(failure) => {
                    self.fail(failure, sink)?;
                    return Ok(true);
                }
                Polled::Completions(count) => {
                    (self.quiet, self.unread) = (0, 0);
                    for position in 0..count {
                        if let Some(completion) = self.batch.get(position) {
                            self.complete(completion, sink)?;
                        }
                    }
                    if count < Batch::SIZE {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(true)
    }

    unsafe fn register(&mut self, pieces: &[Piece]) -> Result<(Region, RemoteKey)> {
        let &[piece] = pieces else {
            return Err(err!(
                Intern,
                "the lane {} registers one piece at a time",
                self.provider
            ));
        };
        self.unpace();
        // SAFETY: the caller keeps the memory valid until `deregister`, at which the region ends.
        unsafe { self.offer(piece, Access::RemoteRead) }
    }

    fn deregister(&mut self, region: Region) {
        self.unattended.remove(&region.0);
        if let Some(registered) = self.registered.remove(&region.0) {
            self.registrar.end(registered);
        }
    }

    unsafe fn read(
        &mut self,
        peer: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        into: &[Piece],
        token: u64,
    ) -> Result<Sent> {
        if !self.limits.rma {
            return Err(err!(
                Intern,
                "the lane {} does not read remote memory",
                self.provider
            ));
        }
        // SAFETY: the caller keeps the pieces valid and untouched until the read has completed.
        unsafe { self.transfer(Direction::Read, (peer, token), (key, offset), into) }
    }

    unsafe fn expose(&mut self, memory: Piece) -> Result<(Region, RemoteKey)> {
        self.check_writes()?;
        self.unpace();
        // SAFETY: the caller keeps the memory valid until `deregister`, at which the region ends.
        unsafe { self.offer(memory, Access::RemoteAny) }
    }

    unsafe fn write(
        &mut self,
        peer: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        from: &[Piece],
        token: u64,
    ) -> Result<Sent> {
        self.check_writes()?;
        // SAFETY: the caller keeps the pieces valid and unchanged until the write has completed.
        unsafe { self.transfer(Direction::Write, (peer, token), (key, offset), from) }
    }

    fn atomics(&self) -> &AtomicTable {
        &self.atomics
    }

    unsafe fn atomic(
        &mut self,
        peer: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        update: &Update,
        token: u64,
    ) -> Result<Sent> {
        // SAFETY: the caller keeps the result valid and untouched until the operation has completed.
        unsafe { self.update(peer, (key, offset), update, token) }
    }

    fn arm(&mut self) -> Option<RawFd> {
        self.has_slept = self.reads_after_sleep > 1;
        if self.transfers.has_unissued() || self.receives.is_short() {
            return None;
        }
        if self.lengthen() {
            return self.queue.arm();
        }
        match &mut self.sockets {
            Some(sockets) if self.operations.is_idle() => sockets.arm(),
            Some(_) => None,
            None => self.queue.arm(),
        }
    }

    fn can_sleep(&self) -> bool {
        self.queue.has_descriptor()
    }

    fn place(&self, peer: PeerIndex) -> Option<String> {
        Some(self.peers.get(&peer)?.place(&self.info))
    }

    fn late(&mut self, peer: PeerIndex) -> Option<Late> {
        let known = self.peers.get_mut(&peer)?;
        known.tried(Instant::now());
        let hint = match fabric::socket_address(&self.own_name) {
            Some(_) => " (WEFT_INTERFACE names another network interface)",
            None => "",
        };
        let why = match self.provider.as_str() {
            _ if self.over_tcp => known.unreachable(self.attempt_after),
            "shm" => known.has_no_file(self.attempt_after),
            _ => None,
        };
        if let Some(why) = why {
            return Some(Late::Lost(err!(
                Other,
                "process {} can't be reached at {} from {}: {why}{hint}",
                peer.number(),
                known.place(&self.info),
                peers::words(&self.info, &self.own_name),
            )));
        }
        let limit = self.report_after?;
        known.is_late(limit).then(|| {
            Late::Tell(format!(
                "libfabric has taken no message for process {} for {} s. It is at {}, this process at {}. That goes on as \
                 soon as process {} calls MPI again: it may be computing, or stopped. Otherwise its address can't be reached from \
                 here{hint}",
                peer.number(),
                limit.as_secs(),
                known.place(&self.info),
                peers::words(&self.info, &self.own_name),
                peer.number()
            ))
        })
    }

    fn is_drained(&self) -> bool {
        self.operations.is_idle() && !self.transfers.has_unissued()
    }

    fn is_registered(&self) -> bool {
        self.registered.len() > self.unattended.len()
    }

    fn count_all(&mut self, on: bool) {
        self.counts_all = on;
    }

    fn sleeps_early(&self) -> bool {
        self.sleeps_early
    }
}
