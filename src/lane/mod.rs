//! Lanes carry active messages between processes, in order per peer where they can, and read remote memory where
//! they can. Matching, protocols and requests live above them, in the engine.
//!
//! A lane has no threads of its own and no locks: the engine owns it and calls it.
//!
//! What does not belong here: tags, requests, and the choice between protocols (`engine`).

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
use crate::identity::{PeerIndex, ProcessName};

/// Bytes of the header that stands in front of each message.
pub const HEADER_BYTES: usize = 40;

/// What a lane can carry.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Header and payload up to this many bytes never return [`Sent::Pending`]: the lane copies them.
    pub buffered: usize,
    /// The largest header and payload of one active message.
    pub message: usize,
    /// The least payload of a message that is a piece of a longer one, but for the last one: pieces become longer towards the middle,
    /// up to what `message` has room for. A lane whose two sides copy at the same time has short ones at the ends.
    pub piece: usize,
    /// Whether messages of one peer arrive in the order in which they were sent. Where not, the engine puts them
    /// in order by their sequence number.
    pub ordered: bool,
    /// Whether [`Lane::register`] and [`Lane::read`] work.
    pub rma: bool,
    /// From this message size on a rendezvous reads remote memory rather than receiving `Data` messages (bytes).
    pub rma_from: usize,
    /// Memory that is not one run is read into directly where its runs have so many bytes on average: the price of a further
    /// piece is what it costs to copy about so many (`usize::MAX`: it is never worth while).
    pub read_run: usize,
    /// Likewise, memory that is not one run is registered.
    pub register_run: usize,
    /// Up to this many payload bytes a message is sent eagerly.
    pub eager: usize,
    /// Up to this many payload bytes a message that is too long for that is pipelined: sent in pieces of at most `message`, without
    /// waiting for its receive. 0: none is.
    pub pipelined: usize,
    /// About how many messages from all peers together may wait for this process to poll. The engine keeps each peer to
    /// its share.
    pub queue: usize,
}

/// What became of a message handed to [`Lane::send`] or a read handed to [`Lane::read`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// The bytes were taken (or read); there is no completion to come.
    Done,
    /// The bytes must stay where they are until [`Sink::completed`] gets the token.
    Pending,
    /// Nothing was done for want of resources; the same call again after some progress.
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
    /// A message arrived: header and payload as they came, unchecked; valid during the call.
    fn message(&mut self, bytes: &[u8]);
    /// The same, from a lane that has header and payload apart. Who wants to be fast does not put them together.
    fn parts(&mut self, header: &[u8; HEADER_BYTES], payload: RawBytes) {
        let mut message = header.to_vec();
        payload.append_to(&mut message);
        self.message(&message);
    }
    /// A pending send or read came to its end.
    fn completed(&mut self, token: u64, result: Result<()>);
    /// The peer can't be reached any more. Pending operations to it are still completed, with errors.
    fn peer_lost(&mut self, peer: PeerIndex, error: Error);
    /// The same of a process that this one need not be connected to, by its name.
    fn sender_lost(&mut self, sender: ProcessName, error: Error);
}

/// A way to carry active messages.
pub trait Lane: Send {
    /// For reports: `ofi/tcp;ofi_rxm`, `loopback`, …
    fn name(&self) -> String;

    /// What it can carry; constant.
    fn limits(&self) -> Limits;

    /// Where peers find this process; part of its business card.
    fn address(&self) -> Vec<u8>;

    /// Makes `peer` known by the bytes of its [`Lane::address`], which come from outside and are checked. Does not
    /// wait for the peer.
    fn connect(&mut self, peer: PeerIndex, address: &[u8]) -> Result<()>;

    /// Sends header and payload as one message to a connected peer.
    ///
    /// # Safety
    /// `payload` is valid for reading, and nobody writes to it during the call. After [`Sent::Pending`] it stays so until
    /// [`Sink::completed`] is called with `token`.
    unsafe fn send(&mut self, peer: PeerIndex, header: &[u8], payload: Piece, token: u64) -> Result<Sent>;

    /// As [`Lane::send`], of a payload of `len` bytes that `fill` writes to where the lane wants them, so that the copy which
    /// the lane makes is the only one. With the header they are no more than [`Limits::buffered`]. `fill` writes all of
    /// them; it may be called though nothing is sent then.
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

    /// Delivers what arrived and what completed. `true`: there was something.
    fn poll(&mut self, sink: &mut dyn Sink) -> Result<bool>;

    /// Lets peers read these bytes until [`Lane::deregister`]. A lane may be able to do so with one piece only.
    ///
    /// # Safety
    /// The memory is readable until then.
    unsafe fn register(&mut self, pieces: &[Piece]) -> Result<(Region, RemoteKey)>;

    /// Ends the registration.
    fn deregister(&mut self, region: Region);

    /// Reads what `peer` registered as `key`, from its byte `offset` on, into these pieces, one after the other. The lane splits
    /// what is too much for one operation, and completes once for all.
    ///
    /// # Safety
    /// The pieces are valid for writing. After [`Sent::Pending`] they stay so, and untouched, until [`Sink::completed`] gets
    /// `token`.
    unsafe fn read(
        &mut self,
        peer: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        into: &[Piece],
        token: u64,
    ) -> Result<Sent>;

    /// Prepares for sleeping: a descriptor that becomes readable when [`Lane::poll`] has something to do, or `None` if
    /// it has something now or has no such descriptor ([`Lane::can_sleep`] tells which).
    fn arm(&mut self) -> Option<RawFd>;

    /// Whether [`Lane::arm`] can give a descriptor.
    fn can_sleep(&self) -> bool;

    /// Whether the latest message to `peer` was refused ([`Sent::Again`]) and the descriptor of the next [`Lane::arm`] becomes
    /// readable as soon as it is worth trying again. Where not, whoever sleeps has to look by the clock.
    fn rings_for_room(&self, peer: PeerIndex) -> bool {
        let _ = peer;
        false
    }

    /// Where a connected peer is, for reports: an address, and over what.
    fn place(&self, peer: PeerIndex) -> Option<String> {
        let _ = peer;
        None
    }

    /// Asked when a message to a connected peer, or a read of its memory, was refused ([`Sent::Again`]): what to tell the user,
    /// once, where none has been taken for so long that the peer may be out of reach. It need not be: one that computes or is
    /// stopped takes none either. So nothing is lost by that, and the same is tried again.
    fn late(&mut self, peer: PeerIndex) -> Option<String> {
        let _ = peer;
        None
    }

    /// Whether nothing is under way: no send or read waits for its completion.
    fn is_drained(&self) -> bool;

    /// Whether a peer may be reading memory of this process by way of this lane's polls.
    fn is_registered(&self) -> bool {
        false
    }

    /// While on, [`Lane::is_drained`] tells of every message, also of those short ones that otherwise are handed to the
    /// transport for good.
    fn count_all(&mut self, on: bool) {
        let _ = on;
    }

    /// Whether a thread of the transport itself makes progress (`FI_PROGRESS_AUTO`) and would be starved of a core
    /// by a spinning rank, so that waiting should sleep at once; constant.
    fn sleeps_early(&self) -> bool {
        false
    }
}
