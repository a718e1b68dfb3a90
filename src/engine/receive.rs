//! The receiving side of the protocols: what comes meets a receive or waits for one. Probes.

use smallvec::SmallVec;

use super::matching::{Envelope, Pattern};
use super::memory::Memory;
use super::peer::{Link, Outgoing, Payload};
use super::request::{Fetch, Outcome, ReceiveStage, ReceiveWork, RequestId, Work};
use super::send::Rts;
use super::wire::{FLAG_PUSHED, FLAG_SYNC, Header, Kind};
use super::{Engine, State};
use crate::err;
use crate::error::{Error, Result};
use crate::lane::ProcId;

/// A message that no receive has taken yet.
pub struct Message {
    from: ProcId,
    seq: u32,
    body: Body,
}

/// Unexpected messages of no more bytes need no memory of their own.
const UNEXPECTED_INLINE: usize = 32;

enum Body {
    /// All of it. A synchronous sender waits to be told.
    Eager {
        bytes: SmallVec<[u8; UNEXPECTED_INLINE]>,
        sync: Option<u64>,
    },
    /// It is still with the sender.
    Rendezvous(Rts),
    /// It comes in pieces: its place among those that do, and its length.
    Pushed(u32, u64),
}

impl Message {
    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        match &self.body {
            Body::Eager { bytes, .. } => bytes.len() as u64,
            Body::Rendezvous(rts) => rts.size,
            Body::Pushed(_, size) => *size,
        }
    }

    /// Who sent it.
    pub(super) fn from(&self) -> ProcId {
        self.from
    }

    /// Whether it is the message of this number from a peer.
    pub(super) fn is(&self, from: ProcId, seq: u64) -> bool {
        self.from == from && u64::from(self.seq) == seq
    }

    /// Bytes of its data that are here, or on their way unasked for.
    pub(super) fn held_bytes(&self) -> u64 {
        match &self.body {
            Body::Eager { bytes, .. } => bytes.len() as u64,
            Body::Rendezvous(_) => 0,
            Body::Pushed(_, size) => *size,
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a probe tells of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probed {
    /// Who sent it, and its tag.
    pub envelope: Envelope,
    /// Its length.
    pub bytes: u64,
}

/// What became of a receive at once.
pub enum Received {
    /// The message was there.
    Now(Outcome),
    /// It is under way.
    Later(RequestId),
}

/// A receive for which there is no message yet.
pub(super) struct Receive {
    pattern: Pattern,
    /// The only process that can send it, if the source is given.
    peer: Option<ProcId>,
    memory: Memory,
}

/// A receive that its caller stays with: see [`Engine::receive_attended`].
pub(super) enum Attended {
    /// There is none.
    Nobody,
    /// For a message.
    Waits(Receive),
    /// It is a posted one like others by now.
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
        peer: Option<ProcId>,
        memory: Memory,
    ) -> Result<Received> {
        // SAFETY: the caller's promise.
        if let Some(received) = unsafe { self.receive_unexpected(&pattern, peer, &memory) }? {
            return Ok(received);
        }
        Ok(Received::Later(self.state.post(Receive {
            pattern,
            peer,
            memory,
        })))
    }

    /// Starts a receive for which there is no message yet; `None`: there is one, or the peer is lost, and nothing was done.
    ///
    /// # Safety
    /// As for [`Engine::receive`].
    #[inline(always)]
    pub unsafe fn post_now(
        &mut self,
        pattern: Pattern,
        peer: Option<ProcId>,
        memory: Memory,
    ) -> Option<RequestId> {
        let state = &mut self.state;
        let is_lost = |peer: ProcId| match state.peers.get(peer.0 as usize) {
            Some(Some(known)) => matches!(known.link, Link::Lost(_)),
            _ => false,
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

    /// Starts a receive whose caller stays: as long as nobody else gets at the engine, which `stays` tells before each
    /// turn, it makes progress itself, and the message goes into its memory without a request.
    ///
    /// # Safety
    /// As for [`Engine::receive`].
    #[inline]
    pub unsafe fn receive_attended(
        &mut self,
        pattern: Pattern,
        peer: Option<ProcId>,
        memory: Memory,
        mut stays: impl FnMut(&Engine) -> bool,
    ) -> Result<Received> {
        // SAFETY: the caller's promise.
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

    /// Receives from the unexpected queue, if something is there.
    ///
    /// # Safety
    /// As for [`Engine::receive`].
    #[inline(always)]
    unsafe fn receive_unexpected(
        &mut self,
        pattern: &Pattern,
        peer: Option<ProcId>,
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
            // SAFETY: the caller's promise.
            return Ok(Some(unsafe { self.accept(envelope, message, memory) }));
        }
        if let Some(peer) = peer
            && let Some(Some(known)) = self.state.peers.get(peer.0 as usize)
            && let Link::Lost(error) = &known.link
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
                    self.state.reply(message.from, Kind::Done, 0, sender, &[]);
                    self.flush(message.from);
                }
                Received::Now(deliver(&envelope, memory, &bytes).outcome())
            }
            // SAFETY: the caller's promise.
            Body::Pushed(at, _) => unsafe { self.state.accept_arrival(at, envelope, memory) },
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

    /// The first message that the pattern takes, left where it is.
    pub fn probe(&mut self, pattern: &Pattern) -> Option<Probed> {
        let found = self.state.unexpected.find(pattern)?;
        let (&envelope, message) = self.state.unexpected.peek(found);
        Some(Probed {
            envelope,
            bytes: message.len(),
        })
    }

    /// The first message that the pattern takes, taken out, to be received by [`Engine::accept`].
    pub fn probe_out(&mut self, pattern: &Pattern) -> Option<(Envelope, Message)> {
        let found = self.state.unexpected.find(pattern)?;
        Some(self.state.unkeep(found))
    }
}

/// What a message with this header says of itself, if it can be. The largest number would be the wildcard.
#[inline(always)]
fn envelope(header: &Header) -> Option<Envelope> {
    (header.tag >= 0 && header.arg < u64::from(u32::MAX)).then_some(Envelope {
        context: header.context,
        source: header.arg as u32,
        tag: header.tag,
    })
}

#[cold]
fn lies(from: ProcId, envelope: &Envelope) -> Error {
    err!(
        Other,
        "process {} sent a message as rank {} of a communicator, which it is not; nothing it sends counts any more",
        from.0,
        envelope.source
    )
}

/// Puts an eager message into the receive's memory.
#[inline(always)]
pub(super) fn deliver(envelope: &Envelope, memory: &Memory, bytes: &[u8]) -> Arrived {
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
    /// Of a message that came in pieces.
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

impl State {
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

    /// Makes the receive that its caller stays with a posted one, if it still waits.
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

    /// An eager message, of no synchronous send, arrived.
    #[inline]
    pub(super) fn on_eager(&mut self, header: &Header, payload: &[u8]) -> bool {
        let Some(envelope) = envelope(header) else {
            return false;
        };
        if let Attended::Waits(receive) = &self.attended
            && self.posted.is_empty()
            && receive.pattern.takes(&envelope)
        {
            if receive.peer.is_some_and(|peer| peer != header.src) {
                // It lies about its rank.
                return false;
            }
            let arrived = deliver(&envelope, &receive.memory, payload);
            self.attended = Attended::Ended(arrived);
            self.events += 1;
            return true;
        }
        self.post_attended();
        if let Some((place, id)) = self.posted.find(&envelope)
            && let Some(request) = self.requests.get_mut(id)
            && !request.released
            && let Work::Receive(work) = &request.work
            && let ReceiveStage::Posted { peer, .. } = work.stage
            && peer.is_none_or(|peer| peer == header.src)
        {
            let arrived = deliver(&envelope, &work.memory, payload);
            if let Some(task) = request.end(arrived.outcome()) {
                self.ready.push(task);
            }
            self.posted.remove(place);
            self.happened();
            return true;
        }
        self.on_user_message(header, payload)
    }

    /// An eager message or request to send arrived.
    pub(super) fn on_user_message(&mut self, header: &Header, payload: &[u8]) -> bool {
        let Some(envelope) = envelope(header) else {
            return false;
        };
        let (sync, payload) = match (header.kind, header.flags & FLAG_SYNC != 0) {
            (Kind::Eager, true) => match payload.split_first_chunk::<8>() {
                Some((sender, rest)) => (Some(u64::from_le_bytes(*sender)), rest),
                None => return false,
            },
            _ => (None, payload),
        };
        let rts = match header.kind {
            Kind::Rts => match Rts::decode(payload) {
                Some(rts) => Some(rts),
                None => return false,
            },
            _ => None,
        };
        let pushed = rts.is_some() && header.flags & FLAG_PUSHED != 0;
        self.post_attended();
        let posted = self.posted.find(&envelope);
        let Some((place, id)) = posted else {
            let body = match rts {
                Some(rts) if pushed => match self.begin_arrival(header.src, &rts, None) {
                    Some(at) => Body::Pushed(at, rts.size),
                    None => return false,
                },
                Some(rts) => Body::Rendezvous(rts),
                None => Body::Eager {
                    bytes: SmallVec::from_slice(payload),
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
            // It lies about its rank.
            return false;
        }
        match rts {
            None => {
                let arrived = deliver(&envelope, &work.memory, payload);
                self.posted.remove(place);
                self.complete(id, arrived.outcome());
                if let Some(sender) = sync {
                    self.reply(header.src, Kind::Done, 0, sender, &[]);
                }
            }
            Some(rts) if pushed => {
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

    /// No receive will take a message that was kept.
    pub(super) fn forget(&mut self, message: Message) {
        if let Body::Pushed(at, _) = message.body {
            self.forget_arrival(at);
        }
    }

    /// Queues a message of our own to a peer.
    pub(super) fn reply(&mut self, to: ProcId, kind: Kind, context: u64, arg: u64, payload: &[u8]) {
        self.reply_flagged(to, kind, 0, context, arg, payload);
    }

    pub(super) fn reply_flagged(
        &mut self,
        to: ProcId,
        kind: Kind,
        flags: u8,
        context: u64,
        arg: u64,
        payload: &[u8],
    ) {
        if matches!(self.peer(to).link, Link::Lost(_)) {
            return;
        }
        self.seek(to);
        self.peer(to).queue.push_back(Outgoing {
            kind,
            flags,
            tag: 0,
            context,
            arg,
            payload: Payload::short(payload),
            request: None,
        });
        self.list(to);
    }
}
