//! Lanes carry messages between processes, in order per peer where they can, and read and write remote memory where they can.
//! Matching, protocols and requests are above them, in the engine.
//!
//! A lane has no threads of its own and no locks: the engine owns it and calls it.
//!
//! What does not belong here: tags, requests, and the choice between protocols (`engine`).

pub mod atomic;
pub mod choose;
#[cfg(test)]
pub(crate) mod conformance;
pub mod loopback;
pub mod ofi;
pub mod shm;
#[cfg(feature = "sim")]
pub mod sim;

use std::os::fd::RawFd;

use crate::base::bytes::{RawBytes, RawRoom};
use crate::base::error::{Error, Result};
use crate::data::pieces::Piece;
use crate::err;
use crate::identity::{PeerIndex, ProcessName};
use atomic::{AtomicTable, Atomics, Update};

/// Bytes of the header at the start of each message.
pub const HEADER_BYTES: usize = 40;

/// How much longer than [`HEADER_BYTES`] a header may be in lanes that can send a few bytes and others behind them from where they are.
pub const LONGER_BY: usize = 64;

/// What a lane can carry.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Header and payload up to this many bytes never return [`Sent::Pending`]: the lane copies them.
    pub buffered: usize,
    /// The largest header and payload of one message.
    pub message: usize,
    /// The longest header of one that is not buffered: at least [`HEADER_BYTES`]. Where it is more, a few bytes of a message can be copied, and
    /// the others behind them be sent from where they are.
    pub header: usize,
    /// The least payload of a message that is a piece of a longer one, except for the last: pieces are longer towards the
    /// middle, up to what `message` has room for. A lane whose two sides copy at the same time uses short ones at the
    /// ends.
    pub piece: usize,
    /// Whether messages of one peer arrive in the order in which they were sent. Where not, the engine puts them
    /// in order by their sequence number.
    pub ordered: bool,
    /// Whether [`Lane::register`] and [`Lane::read`] work.
    pub rma: bool,
    /// Whether [`Lane::expose`] and [`Lane::write`] work, where [`Lane::reaches_memory`] does not say otherwise.
    pub write: bool,
    /// Who performs [`Lane::atomic`].
    pub atomics: Atomics,
    /// Whether reads, writes and atomic operations need a processor of the process whose memory it is: mostly polls of this lane, over
    /// libfabric's `sockets` a thread of the provider's.
    pub needs_target: bool,
    /// Whether memory that is being sent, or read by a peer, is used no more once the peer has all of it, though this process may not know
    /// that yet.
    pub ends_with_receipt: bool,
    /// From this message size in bytes on, a rendezvous reads remote memory instead of receiving `Data` messages.
    pub rma_from: usize,
    /// Data is read directly into memory that is not one run if its runs have this many bytes on average: a further piece
    /// costs about as much as copying this many bytes (`usize::MAX`: it is never worth while).
    pub read_run: usize,
    /// The same limit for registering memory that is not one run.
    pub register_run: usize,
    /// Up to this many payload bytes a message is sent eagerly.
    pub eager: usize,
    /// Up to this many payload bytes, a message that is too long to be sent eagerly is pipelined: sent in pieces of at
    /// most `message`, without waiting for its receive. 0: none is.
    pub pipelined: usize,
    /// About how many messages from all peers together may wait for this process to poll. The engine limits each peer to
    /// its share.
    pub queue: usize,
}

/// The outcome of [`Lane::send`], [`Lane::read`], [`Lane::write`] or [`Lane::atomic`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// The bytes were taken (or read); there is no completion to come.
    Done,
    /// The bytes must stay valid and unchanged until [`Sink::completed`] gets the token.
    Pending,
    /// Nothing was done, as resources are missing: repeat the call after some progress.
    Again,
}

/// Names remote memory that a peer has registered: opaque to the engine, at most [`RemoteKey::MAX`] bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemoteKey(pub Vec<u8>);

impl RemoteKey {
    /// The longest key in bytes.
    pub const MAX: usize = 64;
}

/// Memory registered by this process, to be handed to [`Lane::deregister`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Region(pub u64);

/// What a lane reports from [`Lane::poll`]. The engine implements it.
pub trait Sink {
    /// A message arrived: header and payload as received, unchecked; valid during the call.
    fn message(&mut self, bytes: &[u8]);
    /// The same, from a lane that has header and payload in separate places. A fast sink does not join them.
    fn parts(&mut self, header: &[u8; HEADER_BYTES], payload: RawBytes) {
        let mut message = header.to_vec();
        payload.append_to(&mut message);
        self.message(&message);
    }
    /// A pending operation has ended.
    fn completed(&mut self, token: u64, result: Result<()>);
    /// The peer can't be reached any more. Pending operations to it are still completed, with errors.
    fn peer_lost(&mut self, peer: PeerIndex, error: Error);
    /// The same for a process, by its name, to which this one need not be connected.
    fn sender_lost(&mut self, sender: ProcessName, error: Error);
}

/// What follows if a peer takes nothing for long ([`Lane::late`]).
#[derive(Clone, PartialEq, Debug)]
pub enum Late {
    /// To be told to the user, once: the peer may be unreachable. It need not be, as a peer that computes or is stopped takes nothing
    /// either. So it is not lost, and the lane goes on trying.
    Tell(String),
    /// It can't be reached: that is certain.
    Lost(Error),
}

#[cold]
fn no_access(lane: &str) -> Error {
    err!(Intern, "the lane {lane} does not write remote memory")
}

/// How other processes of the machine wake this one while it sleeps on a descriptor of [`Lane::arm`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doorbell {
    /// Its process id.
    pub pid: u32,
    /// Its descriptor of the pipe.
    pub descriptor: u32,
    /// The pipe's inode.
    pub inode: u64,
    /// Whether whoever wakes it has to order its accesses itself.
    pub wants_fences: bool,
}

/// A word of a process's memory. Whoever reads it there, and finds the value, can read that memory ([`shm::cma`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The process's id.
    pub pid: u32,
    /// Where the word is.
    pub address: u64,
    /// What it is: random.
    pub value: u64,
}

/// A way to carry messages.
pub trait Lane: Send {
    /// The name for reports: `ofi/tcp;ofi_rxm`, `loopback`, …
    fn name(&self) -> String;

    /// The name of the network that it is at: lanes of the same one can connect. Not the lane's own name where that is not enough, as with
    /// one that reaches only this machine.
    fn network(&self) -> String {
        self.name()
    }

    /// Its limits; constant.
    fn limits(&self) -> Limits;

    /// This process's address for peers; part of its business card.
    fn address(&self) -> Vec<u8>;

    /// Connects to `peer` by the bytes of its [`Lane::address`], which come from outside and are checked. Does not
    /// wait for the peer.
    fn connect(&mut self, peer: PeerIndex, address: &[u8]) -> Result<()>;

    /// Ends the connection to a peer: nothing more is sent to it before it is connected again. What was sent before still reaches it.
    fn disconnect(&mut self, peer: PeerIndex) {
        let _ = peer;
    }

    /// Gives up what belongs to the messages of a process of another job. `ended`: it sends no more before it connects again; otherwise
    /// it is lost, and may still be sending.
    fn release(&mut self, sender: ProcessName, ended: bool) {
        let _ = (sender, ended);
    }

    /// Sends header and payload as one message to a connected peer. The header is copied; it has [`HEADER_BYTES`], or up to
    /// [`Limits::header`] if the message is longer than [`Limits::buffered`].
    ///
    /// # Safety
    /// `payload` is valid for reading, and nobody writes to it during the call. After [`Sent::Pending`] it stays so until
    /// [`Sink::completed`] is called with `token`.
    unsafe fn send(&mut self, peer: PeerIndex, header: &[u8], payload: Piece, token: u64) -> Result<Sent>;

    /// As [`Lane::send`], for a payload of `len` bytes that `fill` writes directly to where the lane needs them, so that
    /// it is copied only once. With the header they are no more than [`Limits::buffered`]. `fill` writes all of them; it
    /// may be called even if nothing is sent then.
    fn send_packed(
        &mut self,
        peer: PeerIndex,
        header: &[u8],
        len: usize,
        fill: &mut dyn FnMut(RawRoom),
    ) -> Result<Sent> {
        assert!(
            header.len() + len <= self.limits().buffered,
            "the lane copies the message"
        );
        let mut bytes = vec![0; len];
        fill(RawRoom::from(&mut bytes[..]));
        // SAFETY: bytes of this function's, and short enough never to be pending.
        unsafe { self.send(peer, header, Piece::of(&bytes), u64::MAX) }
    }

    /// Delivers messages and completions. `true`: there were any.
    fn poll(&mut self, sink: &mut dyn Sink) -> Result<bool>;

    /// Lets peers read these bytes until [`Lane::deregister`]. A lane may support one piece only.
    ///
    /// # Safety
    /// The memory is readable until then.
    unsafe fn register(&mut self, pieces: &[Piece]) -> Result<(Region, RemoteKey)>;

    /// Ends the registration.
    fn deregister(&mut self, region: Region);

    /// Reads memory that `peer` registered as `key`, from its byte `offset` on, into these pieces, one after the other. The lane splits
    /// a read that is too large for one operation, and completes once for all.
    ///
    /// # Safety
    /// The pieces are valid for writing. After [`Sent::Pending`] they stay valid and untouched until [`Sink::completed`] gets
    /// `token`.
    unsafe fn read(
        &mut self,
        peer: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        into: &[Piece],
        token: u64,
    ) -> Result<Sent>;

    /// Lets peers read and write these bytes until [`Lane::deregister`], and update them atomically where the lane can do that. Reads
    /// are those of [`Lane::read`], with the same key.
    ///
    /// # Safety
    /// The memory is readable and writable until then, and whoever else uses it expects that peers write to it at any time.
    unsafe fn expose(&mut self, memory: Piece) -> Result<(Region, RemoteKey)> {
        let _ = memory;
        Err(no_access(&self.name()))
    }

    /// Whether this process can read and write what a connected peer has exposed.
    fn reaches_memory(&self, peer: PeerIndex) -> bool {
        let _ = peer;
        self.limits().write
    }

    /// Writes these pieces, one after the other, to memory that `peer` has exposed as `key`, from its byte `offset` on. It has ended once
    /// a processor of the target, and whatever reads its memory by this lane, finds all of the bytes there. Several operations, and
    /// the parts of one, are in no order. The lane splits what is too large for one operation, and completes once for all.
    ///
    /// What is outside of the exposed memory is an error, at once or at the end, and nothing is written there. A key that is no longer
    /// valid is one, too, where the lane can know it.
    ///
    /// # Safety
    /// The pieces are valid for reading. After [`Sent::Pending`] they stay valid and unchanged until [`Sink::completed`] gets `token`.
    unsafe fn write(
        &mut self,
        peer: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        from: &[Piece],
        token: u64,
    ) -> Result<Sent> {
        let _ = (peer, key, offset, from, token);
        Err(no_access(&self.name()))
    }

    /// Which atomic operations there are, and how many elements one call takes; constant.
    fn atomics(&self) -> &AtomicTable {
        &AtomicTable::NONE
    }

    /// Performs an atomic operation on memory that `peer` has exposed as `key`, from its byte `offset` on; [`Lane::atomics`] has it. It
    /// ends, and fails, as [`Lane::write`] does.
    ///
    /// # Safety
    /// Operand and comparand are valid for reading. The result is valid for writing; after [`Sent::Pending`] it stays valid and untouched
    /// until [`Sink::completed`] gets `token`.
    unsafe fn atomic(
        &mut self,
        peer: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        update: &Update,
        token: u64,
    ) -> Result<Sent> {
        let _ = (peer, key, offset, update, token);
        Err(no_access(&self.name()))
    }

    /// Forgets earlier rings, before others are shown that this process sleeps: a later one ends the sleep.
    fn silence(&mut self) {}

    /// Prepares for sleeping: returns a descriptor that becomes readable when [`Lane::poll`] has something to do, or `None` if
    /// it has something now, or has no such descriptor (see [`Lane::can_sleep`]).
    fn arm(&mut self) -> Option<RawFd>;

    /// Whether [`Lane::arm`] can return a descriptor.
    fn can_sleep(&self) -> bool;

    /// Whether the latest message to `peer` was refused ([`Sent::Again`]) and the descriptor of the next [`Lane::arm`] becomes
    /// readable as soon as it is worth trying again. Where it does not, a sleeper has to try again after a time.
    fn rings_for_room(&self, peer: PeerIndex) -> bool {
        let _ = peer;
        false
    }

    /// Where a connected peer is, for reports: its address, and the provider.
    fn place(&self, peer: PeerIndex) -> Option<String> {
        let _ = peer;
        None
    }

    /// Called when a message to a connected peer, or a read of its memory, was refused ([`Sent::Again`]): returns what follows if
    /// nothing was taken for long.
    fn late(&mut self, peer: PeerIndex) -> Option<Late> {
        let _ = peer;
        None
    }

    /// How processes that share memory with this one wake it, if they can. [`Lane::arm`] then makes their processors execute a fence, or
    /// they do so themselves.
    fn doorbell(&self) -> Option<Doorbell> {
        None
    }

    /// By what other processes of the machine try whether they can read this one's memory. `None`: they are not to, or it is known that
    /// they can't.
    fn sample(&self) -> Option<Sample> {
        None
    }

    /// Whether nothing is under way: no send or read waits for its completion.
    fn is_drained(&self) -> bool;

    /// Whether a peer may be reading memory of this process, which needs polls of this lane.
    fn is_registered(&self) -> bool {
        false
    }

    /// While on, [`Lane::is_drained`] counts every message, including short ones, which otherwise count as gone once they
    /// are handed to the transport.
    fn count_all(&mut self, on: bool) {
        let _ = on;
    }

    /// Whether a thread of the transport itself makes progress (`FI_PROGRESS_AUTO`) and would get no core from a spinning
    /// rank, so that waiting should sleep at once; constant.
    fn sleeps_early(&self) -> bool {
        false
    }
}
