//! The receiving side of the protocols: an arriving message goes to a receive or waits for one. Probes.

use smallvec::SmallVec;

use super::matching::{Envelope, Pattern};
use super::peer::ConnectionState;
use super::protocol::rendezvous::Rts;
use super::request::{Fetch, Outcome, ReceiveStage, ReceiveWork, RequestId, Work};
use super::wire::{FLAG_PIPELINED, FLAG_SYNC, Header, MessageKind};
use super::{Engine, EngineState};
use crate::base::bytes::RawBytes;
use crate::base::error::{Error, Result};
use crate::data::memory::Memory;
use crate::err;
use crate::identity::{Context, PeerIndex};

/// A message that no receive has taken yet.
pub struct Message {
    from: PeerIndex,
    seq: u32,
    body: Body,
}

/// Unexpected messages of at most this many bytes need no allocation.
const UNEXPECTED_INLINE: usize = 32;
type EagerBytes = SmallVec<[u8; UNEXPECTED_INLINE]>;

enum Body {
    /// All of it. A synchronous sender waits for `Done`.
    Eager { bytes: EagerBytes, sync: Option<u64> },
    /// It is still at the sender.
    Rendezvous(Rts),
    /// It comes in pieces: its index in the table of such messages, and its length.
    Pipelined(u32, u64),
}

impl Message {
    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        match &self.body {
            Body::Eager { bytes, .. } => bytes.len() as u64,
            Body::Rendezvous(rts) => rts.size,
            Body::Pipelined(_, size) => *size,
        }
    }

    /// Who sent it.
    pub(super) fn from(&self) -> PeerIndex {
        self.from
    }

    /// Whether it is the message of this number from a peer.
    pub(super) fn is(&self, from: PeerIndex, seq: u64) -> bool {
        self.from == from && u64::from(self.seq) == seq
    }

    /// Bytes of its data that are here, or on their way without having been asked for.
    pub(super) fn held_bytes(&self) -> u64 {
        match &self.body {
            Body::Eager { bytes, .. } => bytes.len() as u64,
            Body::Rendezvous(_) => 0,
            Body::Pipelined(_, size) => *size,
        }
    }

    /// Whether it has no bytes.
    #[cfg(feature = "sim")]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a probe returns about a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probed {
    /// Who sent it, and its tag.
    pub envelope: Envelope,
    /// Its length.
    pub bytes: u64,
}

/// The outcome of starting a receive.
pub enum Received {
    /// The message was there.
    Now(Outcome),
    /// It is under way.
    Later(RequestId),
}

/// A receive for which there is no message yet.
pub(super) struct Receive {
    pub pattern: Pattern,
    /// The only process that can send it, if the source is given.
    pub peer: Option<PeerIndex>,
    pub memory: Memory,
}

/// A receive whose caller polls for it: see [`Engine::receive_attended`].
pub(super) enum Attended {
    /// There is none.
    Nobody,
    /// It waits for a message.
    Waits(Receive),
    /// It has become a posted one like others.
    Posted(RequestId),
    /// The message has come.
    Ended(Arrived),
}

/// A message that has been put into its receive's memory.
#[derive(Clone, Copy)]
pub(super) struct Arrived {
    source: u32,
    tag: i32,
    size: u64,
    fitted: u64,
}

impl Engine {
    /// Starts a receive. `peer` is the process that the pattern's source stands for, if it names one.
    ///
    /// # Safety
    /// The memory is valid for writing until the receive has ended, and nobody else touches it meanwhile.
    #[inline]
    pub unsafe fn receive(
        &mut self,
        pattern: Pattern,
        peer: Option<PeerIndex>,
        memory: Memory,
    ) -> Result<Received> {
        // SAFETY: the caller keeps the memory valid for writing, and uses it for nothing else, until the receive has ended.
        if let Some(received) = unsafe { self.receive_unexpected(&pattern, peer, &memory) }? {
            return Ok(received);
        }
        Ok(Received::Later(self.state.post(Receive {
            pattern,
            peer,
            memory,
        })))
    }

    /// Starts a receive for which there is no message yet; `None`: there is one, or the peer is lost, and nothing has
    /// been done.
    ///
    /// # Safety
    /// As for [`Engine::receive`].
    #[inline(always)]
    pub unsafe fn post_now(
        &mut self,
        pattern: Pattern,
        peer: Option<PeerIndex>,
        memory: Memory,
    ) -> Option<RequestId> {
        let state = &mut self.state;
        let is_lost = |peer: PeerIndex| match state.peers.get(peer) {
            Some(known) => matches!(known.link, ConnectionState::Lost(_)),
            None => false,
        };
        if peer.is_some_and(is_lost) || state.unexpected.find(&pattern).is_some() {
            return None;
        }
        Some(state.post(Receive {
            pattern,
            peer,
            memory,
        }))
    }

    /// Starts a receive whose caller polls for it: as long as no other thread gets at the engine, which `stays` returns
    /// before each turn, it makes progress itself, and the message goes into its memory without a request.
    ///
    /// # Safety
    /// As for [`Engine::receive`].
    #[inline]
    pub unsafe fn receive_attended(
        &mut self,
        pattern: Pattern,
        peer: Option<PeerIndex>,
        memory: Memory,
        mut stays: impl FnMut(&Engine) -> bool,
    ) -> Result<Received> {
        // SAFETY: the caller keeps the memory valid for writing, and uses it for nothing else, until the receive has ended.
        if let Some(received) = unsafe { self.receive_unexpected(&pattern, peer, &memory) }? {
            return Ok(received);
        }
        let receive = Receive {
            pattern,
            peer,
            memory,
        };
        let before = std::mem::replace(&mut self.state.attended, Attended::Waits(receive));
        debug_assert!(matches!(before, Attended::Nobody));
        // There is nothing to drop.
        std::mem::forget(before);
        while stays(self) {
            self.progress(true);
            if !matches!(self.state.attended, Attended::Waits(_)) {
                break;
            }
        }
        Ok(
            match std::mem::replace(&mut self.state.attended, Attended::Nobody) {
                Attended::Ended(arrived) => Received::Now(arrived.outcome()),
                Attended::Posted(id) => Received::Later(id),
                Attended::Waits(receive) => Received::Later(self.state.post(receive)),
                Attended::Nobody => unreachable!("it was put there above"),
            },
        )
    }

    /// Receives from the unexpected queue, if there is a matching message.
    ///
    /// # Safety
    /// As for [`Engine::receive`].
    #[inline(always)]
    unsafe fn receive_unexpected(
        &mut self,
        pattern: &Pattern,
        peer: Option<PeerIndex>,
        memory: &Memory,
    ) -> Result<Option<Received>> {
        while let Some(found) = self.state.unexpected.find(pattern) {
            let (envelope, message) = self.state.unkeep(found);
            if let Some(peer) = peer
                && peer != message.from
            {
                self.lose(message.from, lies(message.from, &envelope));
                self.state.forget(message);
                continue;
            }
            // SAFETY: the caller keeps the memory valid for writing, and uses it for nothing else, until the receive has ended.
            return Ok(Some(unsafe { self.accept(envelope, message, memory) }));
        }
        if let Some(peer) = peer
            && let Some(known) = self.state.peers.get(peer)
            && let ConnectionState::Lost(error) = &known.link
        {
            return Err(error.clone());
        }
        Ok(None)
    }

    /// Receives a message that has been taken out of the unexpected queue.
    ///
    /// # Safety
    /// As for [`Engine::receive`].
    pub unsafe fn accept(&mut self, envelope: Envelope, message: Message, memory: &Memory) -> Received {
        match message.body {
            Body::Eager { bytes, sync } => {
                if let Some(sender) = sync {
                    self.state.reply(message.from, MessageKind::DONE, 0, sender, &[]);
                    self.flush(message.from);
                }
                // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
                Received::Now(unsafe { deliver(&envelope, memory, bytes[..].into()) }.outcome())
            }
            // SAFETY: the caller keeps the memory valid for writing, and uses it for nothing else, until the receive has ended.
            Body::Pipelined(at, _) => unsafe { self.state.accept_arrival(at, envelope, memory) },
            Body::Rendezvous(rts) => {
                let id = self.state.requests.insert(Work::None, envelope.context);
                self.state.fetch(id, message.from, envelope, rts, memory.clone());
                self.start_reads();
                self.flush(message.from);
                match self
                    .state
                    .requests
                    .get(id)
                    .is_some_and(|request| request.outcome.is_some())
                {
                    true => Received::Now(self.take(id).expect("has ended")),
                    false => Received::Later(id),
                }
            }
        }
    }

    /// The first message that matches the pattern, which stays in the queue.
    pub fn probe(&mut self, pattern: &Pattern) -> Option<Probed> {
        let found = self.state.unexpected.find(pattern)?;
        let (&envelope, message) = self.state.unexpected.peek(found);
        Some(Probed {
            envelope,
            bytes: message.len(),
        })
    }

    /// The first message that matches the pattern, taken out of the queue to be received by [`Engine::accept`].
    pub fn probe_out(&mut self, pattern: &Pattern) -> Option<(Envelope, Message)> {
        let found = self.state.unexpected.find(pattern)?;
        Some(self.state.unkeep(found))
    }
}

/// The envelope of a message with this header, if it can have one. The largest number would be the wildcard.
#[inline(always)]
pub(super) fn envelope(header: &Header<PeerIndex>) -> Option<Envelope> {
    (header.tag >= 0 && header.arg < u64::from(u32::MAX)).then_some(Envelope {
        context: Context::of_bits(header.context),
        source: header.arg as u32,
        tag: header.tag,
    })
}

#[cold]
fn lies(from: PeerIndex, envelope: &Envelope) -> Error {
    err!(
        Other,
        "process {} sent a message as rank {} of a communicator, but it does not have that rank; the connection to it is closed",
        from.number(),
        envelope.source
    )
}

/// A copy of a payload for the unexpected queue.
#[inline]
fn kept(payload: RawBytes) -> EagerBytes {
    let mut bytes = EagerBytes::with_capacity(payload.len());
    // SAFETY: that many bytes are readable, and there is room for them that nothing else has used yet.
    unsafe {
        payload
            .as_ptr()
            .copy_to_nonoverlapping(bytes.as_mut_ptr(), payload.len());
        bytes.set_len(payload.len());
    }
    bytes
}

/// Puts an eager message into the receive's memory.
///
/// # Safety
/// The memory is that of a receive that has not ended.
#[inline(always)]
pub(super) unsafe fn deliver(envelope: &Envelope, memory: &Memory, bytes: RawBytes) -> Arrived {
    // SAFETY: the memory of a receive that has not ended is valid.
    let fitted = unsafe { memory.unpack(0, bytes) };
    Arrived {
        source: envelope.source,
        tag: envelope.tag,
        size: bytes.len() as u64,
        fitted: fitted as u64,
    }
}

impl Arrived {
    /// From a message that came in pieces.
    pub(super) fn of(fetch: &Fetch) -> Arrived {
        Arrived {
            source: fetch.envelope.source,
            tag: fetch.envelope.tag,
            size: fetch.size,
            fitted: fetch.limit,
        }
    }

    /// How its receive ends.
    #[inline(always)]
    pub(super) fn outcome(&self) -> Outcome {
        Outcome {
            source: self.source as i32,
            tag: self.tag,
            bytes: self.fitted,
            cancelled: false,
            error: (self.size > self.fitted).then(|| Box::new(self.truncated())),
        }
    }

    #[cold]
    fn truncated(&self) -> Error {
        err!(
            Truncate,
            "the message from rank {} with tag {} has {} bytes, the receive buffer only {}",
            self.source,
            self.tag,
            self.size,
            self.fitted
        )
    }
}

impl EngineState {
    /// Puts a receive at the end of the posted queue.
    #[inline(always)]
    fn post(&mut self, receive: Receive) -> RequestId {
        let Receive {
            pattern,
            peer,
            memory,
        } = receive;
        let work = ReceiveWork {
            memory,
            stage: ReceiveStage::Posted {
                id: self.posted.next_id(),
                peer,
            },
        };
        let id = self.requests.insert(Work::Receive(work), pattern.context);
        self.posted.push(pattern, id);
        id
    }

    /// Turns the receive whose caller polls for it into a posted one, if it still waits.
    #[inline(always)]
    pub(super) fn post_attended(&mut self) {
        if matches!(self.attended, Attended::Waits(_)) {
            self.post_waiting();
        }
    }

    #[inline(never)]
    fn post_waiting(&mut self) {
        if let Attended::Waits(receive) = std::mem::replace(&mut self.attended, Attended::Nobody) {
            let id = self.post(receive);
            self.attended = Attended::Posted(id);
        }
    }

    /// Handles an eager message or a request to send.
    pub(super) fn on_user_message(&mut self, header: &Header<PeerIndex>, payload: RawBytes) -> bool {
        let Some(envelope) = envelope(header) else {
            return false;
        };
        let (sync, payload) = match (header.kind, header.flags & FLAG_SYNC != 0) {
            (MessageKind::EAGER, true) => match payload.split_first() {
                Some((sender, rest)) => (Some(u64::from_le_bytes(sender)), rest),
                None => return false,
            },
            _ => (None, payload),
        };
        let rts = match header.kind {
            MessageKind::RTS => match Rts::decode(payload) {
                Some(rts) => Some(rts),
                None => return false,
            },
            _ => None,
        };
        let pipelined = rts.is_some() && header.flags & FLAG_PIPELINED != 0;
        self.post_attended();
        let posted = self.posted.find(&envelope);
        let Some((place, id)) = posted else {
            let body = match rts {
                Some(rts) if pipelined => match self.begin_arrival(header.src, &rts, None) {
                    Some(at) => Body::Pipelined(at, rts.size),
                    None => return false,
                },
                Some(rts) => Body::Rendezvous(rts),
                None => Body::Eager {
                    bytes: kept(payload),
                    sync,
                },
            };
            let message = Message {
                from: header.src,
                seq: header.seq,
                body,
            };
            self.keep(envelope, message);
            return true;
        };
        let Some(request) = self.requests.get(id) else {
            self.posted.remove(place);
            return true;
        };
        let Work::Receive(work) = &request.work else {
            self.posted.remove(place);
            return true;
        };
        if let ReceiveStage::Posted { peer: Some(peer), .. } = work.stage
            && peer != header.src
        {
            // Its rank is not the sender's.
            return false;
        }
        match rts {
            None => {
                // SAFETY: a posted receive has not ended.
                let arrived = unsafe { deliver(&envelope, &work.memory, payload) };
                self.posted.remove(place);
                self.complete(id, arrived.outcome());
                if let Some(sender) = sync {
                    self.reply(header.src, MessageKind::DONE, 0, sender, &[]);
                }
            }
            Some(rts) if pipelined => {
                let memory = work.memory.clone();
                if self.begin_arrival(header.src, &rts, Some(id)).is_none() {
                    return false;
                }
                self.posted.remove(place);
                self.await_pieces(id, header.src, envelope, rts.size, rts.sender, memory);
            }
            Some(rts) => {
                let memory = work.memory.clone();
                self.posted.remove(place);
                self.fetch(id, header.src, envelope, rts, memory);
            }
        }
        true
    }

    /// Drops a message that was kept and that no receive will take.
    pub(super) fn forget(&mut self, message: Message) {
        if let Body::Pipelined(at, _) = message.body {
            self.forget_arrival(at);
        }
    }
}
