//! The sending side of the protocols.
//!
//! Eager: the message goes at once, whole. Rendezvous: a request to send (`Rts`) goes; the receiver, once it has
//! matched it, either reads the sender's memory and says `Done`, or says `Cts`, and the data follows as `Data`
//! messages. A synchronous eager send waits for `Done`.

use super::matching::Envelope;
use super::memory::Memory;
use super::peer::{Link, Outgoing, Payload, Stamp, Stream};
use super::request::{Outcome, RequestId, SendStage, SendWork, SentWork, Work};
use super::wire::{FLAG_PUSHED, FLAG_SYNC, HEADER_BYTES, Header, Kind};
use super::{Engine, LOOPBACK, Operation, State};
use crate::error::{Error, Result};
use crate::lane::{Lane, ProcId, RemoteKey, Sent};

/// A message is pushed only while fewer than so many others are being sent in pieces to the same peer: so no more than these come
/// to a receiver that has asked for no more.
const PUSHED_AT_ONCE: usize = 4;

/// How long the piece of a message should be that begins at `next`, where the first one and the last have `least` bytes: a quarter
/// of what lies before it or behind it.
fn piece(next: u64, end: u64, least: u64) -> u64 {
    const PAGE: u64 = 4096;
    least.max(next.min(end - next) / 4 / PAGE * PAGE)
}

/// What the payload of an `Rts` says: the size, the sender's request and, where the receiver may read it, the
/// memory's key.
pub(super) struct Rts {
    pub size: u64,
    pub sender: u64,
    pub key: Option<RemoteKey>,
}

impl Rts {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + RemoteKey::MAX);
        bytes.extend_from_slice(&self.size.to_le_bytes());
        bytes.extend_from_slice(&self.sender.to_le_bytes());
        if let Some(RemoteKey(key)) = &self.key {
            bytes.extend_from_slice(key);
        }
        bytes
    }

    pub fn decode(payload: &[u8]) -> Option<Rts> {
        let (size, rest) = payload.split_first_chunk::<8>()?;
        let (sender, key) = rest.split_first_chunk::<8>()?;
        (key.len() <= RemoteKey::MAX).then(|| Rts {
            size: u64::from_le_bytes(*size),
            sender: u64::from_le_bytes(*sender),
            key: (!key.is_empty()).then(|| RemoteKey(key.to_vec())),
        })
    }
}

/// What the payload of a `Cts` says: how many bytes the receiver wants in all, and up to where it wants them now. It
/// grants the rest bit by bit, by further `Cts` messages.
#[derive(Clone, Copy)]
pub(super) struct Grant {
    limit: u64,
    granted: u64,
}

impl Grant {
    pub fn new(limit: u64, granted: u64) -> Grant {
        Grant { limit, granted }
    }

    pub fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.limit.to_le_bytes());
        bytes[8..].copy_from_slice(&self.granted.to_le_bytes());
        bytes
    }

    fn decode(payload: &[u8]) -> Option<Grant> {
        let (limit, granted) = <&[u8; 16]>::try_from(payload).ok()?.split_first_chunk::<8>()?;
        let granted = <[u8; 8]>::try_from(granted).ok()?;
        Some(Grant {
            limit: u64::from_le_bytes(*limit),
            granted: u64::from_le_bytes(granted),
        })
    }
}

/// A message to send, as the objects layer gives it.
pub struct Send {
    /// To whom.
    pub peer: ProcId,
    /// Context, own rank and tag.
    pub envelope: Envelope,
    /// The data.
    pub memory: Memory,
    /// Synchronous mode: ends only once the receive has started.
    pub sync: bool,
}

/// What became of an attempt to send at once.
pub enum Tried {
    /// It has gone. The request, if one was asked for, has ended.
    Sent(Option<RequestId>),
    /// It has to wait, and its memory with it.
    NotNow,
}

impl Engine {
    /// Starts a send. `None`: it has ended already, without a request; asked for only where `request` is false.
    ///
    /// # Safety
    /// The memory is valid until the send has ended, and nobody writes to it meanwhile.
    #[inline(always)]
    pub unsafe fn send(&mut self, send: &Send, request: bool) -> Result<Option<RequestId>> {
        // SAFETY: the caller's promise.
        match unsafe { self.try_send(send, request) } {
            Tried::Sent(id) => Ok(id),
            Tried::NotNow => self.send_queued(send).map(Some),
        }
    }

    /// Sends if the lane takes the message now, without keeping its memory. What keeps it from that, an error too, is what
    /// [`Engine::send`] finds.
    ///
    /// # Safety
    /// The memory is valid during the call, and nobody writes to it meanwhile.
    #[inline(always)]
    pub unsafe fn try_send(&mut self, send: &Send, request: bool) -> Tried {
        let len = send.memory.len() as usize;
        if send.sync {
            return Tried::NotNow;
        }
        // SAFETY: the caller's promise.
        let seq = match unsafe { send.memory.slice(0, len) } {
            Some(payload) => self.send_now(send.peer, &send.envelope, payload),
            None => self.send_header(send.peer, &send.envelope, len, |lane, header| {
                lane.send_packed(send.peer, header, len, &mut |into| {
                    // SAFETY: the caller's promise.
                    unsafe { send.memory.pack(0, into) };
                })
            }),
        };
        match seq {
            Some(seq) => Tried::Sent(request.then(|| self.state.sent(send.peer, send.envelope, seq, len))),
            None => Tried::NotNow,
        }
    }

    /// As [`Engine::try_send`], of a run of bytes; tells the message's number.
    #[inline(always)]
    pub fn send_now(&mut self, to: ProcId, envelope: &Envelope, payload: &[u8]) -> Option<u32> {
        self.send_header(to, envelope, payload.len(), |lane, header| {
            // SAFETY: short enough never to be pending.
            unsafe { lane.send(to, header, payload, u64::MAX) }
        })
    }

    /// As [`Engine::send_now`]; the send's request, which has ended.
    #[inline(always)]
    pub fn send_now_with_request(
        &mut self,
        to: ProcId,
        envelope: &Envelope,
        payload: &[u8],
    ) -> Option<RequestId> {
        let seq = self.send_now(to, envelope, payload)?;
        Some(self.state.sent(to, *envelope, seq, payload.len()))
    }

    /// Has `hand` give the lane an eager message with a payload of `len` bytes, if that can go now.
    #[inline(always)]
    fn send_header(
        &mut self,
        to: ProcId,
        envelope: &Envelope,
        len: usize,
        hand: impl FnOnce(&mut dyn Lane, &[u8; HEADER_BYTES]) -> Result<Sent>,
    ) -> Option<u32> {
        let Engine { lanes, state, .. } = self;
        let peer = state.peers.get_mut(to.0 as usize)?.as_mut()?;
        if !peer.is_clear() || len >= peer.at_once {
            return None;
        }
        let Stamp { seq, ack, flags } = peer.stamp();
        let header = Header {
            token: peer.token,
            kind: Kind::Eager,
            flags,
            ack,
            src: state.me,
            seq,
            tag: envelope.tag,
            context: envelope.context,
            arg: envelope.source.into(),
        };
        match hand(&mut *lanes[peer.lane], &header.encode()) {
            Ok(Sent::Done) if peer.lane == LOOPBACK => state.sleepers.wake(),
            Ok(Sent::Done) => {}
            Ok(Sent::Again | Sent::Pending) => return None,
            Err(error) => {
                self.lose(to, error);
                return None;
            }
        }
        peer.went();
        Some(seq)
    }

    /// Any send, through the peer's queue.
    #[inline(never)]
    fn send_queued(&mut self, send: &Send) -> Result<RequestId> {
        let context = send.envelope.context;
        let peer = self.state.peer(send.peer);
        if let Link::Lost(error) = &peer.link {
            return Err(error.clone());
        }
        self.state.seek(send.peer);
        let id = self.state.requests.insert(
            Work::Send(Box::new(SendWork {
                peer: send.peer,
                envelope: send.envelope,
                memory: send.memory.clone(),
                place: None,
                sync: send.sync,
                region: None,
                seq: None,
                in_lane: 0,
                stage: SendStage::Queued,
                cancel_asked: false,
                taken_back: false,
                failed: None,
            })),
            context,
        );
        let first = Outgoing {
            // Settled when the message's turn comes: the lane of the peer may not be known yet.
            kind: Kind::Eager,
            flags: if send.sync { FLAG_SYNC } else { 0 },
            tag: send.envelope.tag,
            context: send.envelope.context,
            arg: send.envelope.source.into(),
            payload: Payload::OfRequest,
            request: Some(id),
        };
        let peer = self.state.peer(send.peer);
        peer.queue.push_back(first);
        self.state.list(send.peer);
        if self.state.peer(send.peer).link == Link::Up {
            self.flush(send.peer);
        }
        Ok(id)
    }

    /// Hands as much of a peer's queue and streams to its lane as that and the window take. `true`: nothing is left, or
    /// the rest waits for the peer.
    pub(super) fn flush(&mut self, to: ProcId) -> bool {
        loop {
            let peer = self.state.peer(to);
            if peer.link != Link::Up {
                return false;
            }
            if !peer.has_room() {
                return self.hold(to);
            }
            let Some(outgoing) = peer.queue.pop_front() else {
                break;
            };
            match self.send_outgoing(to, outgoing) {
                Ok(None) => {}
                Ok(Some(again)) => {
                    self.state.peer(to).queue.push_front(again);
                    return false;
                }
                Err(error) => {
                    self.lose(to, error);
                    return true;
                }
            }
        }
        // A frame of each stream in turn, so that a long message does not hold up another.
        while let Some(stream) = self.state.peer(to).streams.pop_front() {
            if !self.state.peer(to).has_room() {
                self.state.peer(to).streams.push_front(stream);
                return self.hold(to);
            }
            match self.send_frame(to, stream) {
                // One that is pushed is not long.
                Ok(Frame::Sent(Some(stream))) if stream.pushed => {
                    self.state.peer(to).streams.push_front(stream)
                }
                Ok(Frame::Sent(Some(stream))) => self.state.peer(to).streams.push_back(stream),
                Ok(Frame::Sent(None)) => {}
                Ok(Frame::Again(stream)) => {
                    self.state.peer(to).streams.push_front(stream);
                    return false;
                }
                Err(error) => {
                    self.lose(to, error);
                    return true;
                }
            }
        }
        match self.state.peer(to).queue.is_empty() {
            true => self.tell(to),
            // Behind the last piece of a pushed message the receiver is asked whether it can be had back.
            false => self.flush(to),
        }
    }

    /// Nothing but an `Ack` may go until the peer has taken more.
    #[cold]
    fn hold(&mut self, to: ProcId) -> bool {
        let peer = self.state.peer(to);
        let waits = !peer.queue.is_empty() || !peer.streams.is_empty();
        if waits && !std::mem::replace(&mut peer.flow.blocked, true) {
            self.state.blocked += 1;
        }
        self.tell(to)
    }

    /// Tells the peer what has been taken, if that is due and no other message has said it. `false`: the lane can't
    /// take the message now.
    fn tell(&mut self, to: ProcId) -> bool {
        if !self.state.peer(to).flow.due {
            return true;
        }
        let ack = Outgoing {
            kind: Kind::Ack,
            flags: 0,
            tag: 0,
            context: 0,
            arg: 0,
            payload: Payload::NONE,
            request: None,
        };
        match self.send_outgoing(to, ack) {
            Ok(again) => again.is_none(),
            // A peer that has parted may be gone, and needs no word of this any more. What it has sent may still be
            // arriving, so this alone does not lose it: whatever needs it will see.
            Err(_) => {
                self.state.peer(to).flow.due = false;
                true
            }
        }
    }

    /// Hands one queued message to the lane; gives it back if the lane can't take it now.
    fn send_outgoing(&mut self, to: ProcId, mut outgoing: Outgoing) -> Result<Option<Outgoing>> {
        if matches!(outgoing.payload, Payload::OfRequest) && !self.prepare(to, &mut outgoing)? {
            return Ok(None);
        }
        let Engine { lanes, state, .. } = self;
        let peer = state.peers[to.0 as usize].as_mut().expect("known");
        let limits = &state.limits[peer.lane];
        let Stamp { seq, ack, flags } = peer.stamp();
        let header = Header {
            token: peer.token,
            kind: outgoing.kind,
            flags: outgoing.flags | flags,
            ack,
            src: state.me,
            seq,
            tag: outgoing.tag,
            context: outgoing.context,
            arg: outgoing.arg,
        }
        .encode();
        // Bytes that stay with the lane for longer than this call can't stay in `outgoing`.
        if let Payload::Short { len, bytes } = &outgoing.payload
            && HEADER_BYTES + usize::from(*len) > limits.buffered
        {
            outgoing.payload = Payload::Owned(bytes[..usize::from(*len)].to_vec());
        }
        let mut scattered = None;
        let payload: &[u8] = match &outgoing.payload {
            Payload::Short { len, bytes } => &bytes[..usize::from(*len)],
            Payload::Owned(bytes) => bytes,
            Payload::OfRequest => {
                let request = outgoing.request.and_then(|id| state.requests.get(id));
                match request.map(|request| &request.work) {
                    Some(Work::Send(work)) => {
                        let memory = &work.memory;
                        // SAFETY: the memory of a send that has not ended is valid.
                        let bytes = unsafe { memory.slice(0, memory.len() as usize) };
                        scattered = bytes.is_none().then_some(memory);
                        bytes.unwrap_or_default()
                    }
                    _ => &[],
                }
            }
        };
        let pending = HEADER_BYTES + payload.len() > limits.buffered;
        let token = if pending {
            state.operations.insert(Operation::Message {
                peer: to,
                request: outgoing.request,
                ack: outgoing.kind == Kind::Ack,
                owned: None,
            })
        } else {
            u32::MAX
        };
        let sent = match scattered {
            // What is not one run goes so only where the lane copies it: `prepare` has seen to that.
            Some(memory) => {
                lanes[peer.lane].send_packed(to, &header, memory.len() as usize, &mut |into| {
                    // SAFETY: the memory of a send that has not ended is valid.
                    unsafe { memory.pack(0, into) };
                })
            }
            // SAFETY: pending bytes are the user's, which are valid until the send has ended, or owned, and then kept in
            // the operation below.
            None => unsafe { lanes[peer.lane].send(to, &header, payload, token.into()) },
        };
        if pending && !matches!(sent, Ok(Sent::Pending)) {
            state.operations.remove(token);
        }
        let sent = sent?;
        match sent {
            Sent::Again => return Ok(Some(outgoing)),
            Sent::Done => {}
            Sent::Pending => {
                if let (Operation::Message { owned, .. }, Payload::Owned(bytes)) =
                    (&mut state.operations[token], outgoing.payload)
                {
                    *owned = Some(bytes);
                }
            }
        }
        if peer.lane == LOOPBACK {
            state.sleepers.wake();
        }
        peer.went();
        if let Some(id) = outgoing.request {
            let in_lane = sent == Sent::Pending;
            if let Some(request) = state.requests.get_mut(id)
                && let Work::Send(work) = &mut request.work
            {
                work.seq = Some(seq);
                work.in_lane += u32::from(in_lane);
                work.stage = match outgoing.kind {
                    Kind::Rts if outgoing.flags & FLAG_PUSHED != 0 => {
                        peer.streams.push_back(Stream {
                            request: id,
                            receiver: id.to_u64(),
                            pushed: true,
                            next: 0,
                            granted: work.memory.len(),
                            end: work.memory.len(),
                        });
                        SendStage::Streaming
                    }
                    Kind::Rts => SendStage::AwaitsReceiver,
                    _ if outgoing.flags & FLAG_SYNC != 0 => SendStage::AwaitsReceiver,
                    _ => SendStage::InLane,
                };
            }
            state.end_send(id);
        }
        Ok(None)
    }

    /// Settles what a send's first message is: eager or request to send. `false`: the send is gone.
    fn prepare(&mut self, to: ProcId, outgoing: &mut Outgoing) -> Result<bool> {
        let Engine { lanes, state, .. } = self;
        let peer = state.peers[to.0 as usize].as_ref().expect("known");
        let limits = &state.limits[peer.lane];
        let eager = peer.eager;
        let Some(id) = outgoing.request else {
            return Ok(false);
        };
        let Some(request) = state.requests.get_mut(id) else {
            return Ok(false);
        };
        let Work::Send(work) = &mut request.work else {
            return Ok(false);
        };
        let size = work.memory.len();
        if size <= eager as u64 {
            if work.sync {
                // The receiver's `Done` names the request.
                let mut bytes = Vec::with_capacity(size as usize + 8);
                bytes.extend_from_slice(&id.to_u64().to_le_bytes());
                bytes.resize(size as usize + 8, 0);
                // SAFETY: the memory of a send that has not ended is valid.
                unsafe { work.memory.pack(0, &mut bytes[8..]) };
                if bytes.len() + HEADER_BYTES <= limits.message {
                    outgoing.payload = Payload::Owned(bytes);
                    return Ok(true);
                }
            } else if work.memory.flat().is_some() || HEADER_BYTES as u64 + size <= limits.buffered as u64 {
                return Ok(true);
            } else {
                let mut bytes = vec![0; size as usize];
                // SAFETY: the memory of a send that has not ended is valid.
                unsafe { work.memory.pack(0, &mut bytes) };
                outgoing.payload = Payload::Owned(bytes);
                return Ok(true);
            }
        }
        let pushed = !work.sync && size <= peer.pushed as u64 && peer.streams.len() < PUSHED_AT_ONCE;
        let mut key = None;
        if !pushed
            && state.rma
            && limits.rma
            && size >= limits.rma_from as u64
            && (work.memory.flat().is_some() || work.memory.mean_run() >= limits.expose_run as u64)
        {
            let pieces = work.memory.pieces(0, size, usize::MAX);
            // SAFETY: the memory of a send is valid until it has ended, and the exposure ends before.
            if let Ok((region, remote)) = unsafe { lanes[peer.lane].expose(&pieces) } {
                work.region = Some(region);
                key = Some(remote);
            }
            // Memory that can't be exposed is sent as data.
        }
        outgoing.kind = Kind::Rts;
        outgoing.flags = if pushed { FLAG_PUSHED } else { 0 };
        outgoing.payload = Payload::short(
            &Rts {
                size,
                sender: id.to_u64(),
                key,
            }
            .encode(),
        );
        Ok(true)
    }

    /// Sends the next frame of a stream.
    fn send_frame(&mut self, to: ProcId, mut stream: Stream) -> Result<Frame> {
        let Engine { lanes, state, .. } = self;
        let peer = state.peers[to.0 as usize].as_mut().expect("known");
        let limits = &state.limits[peer.lane];
        let Some(Work::Send(work)) = state
            .requests
            .get_mut(stream.request)
            .map(|request| &mut request.work)
        else {
            return Ok(Frame::Sent(None));
        };
        let most = ((limits.message - HEADER_BYTES) as u64).min(stream.granted - stream.next);
        let len = most.min(piece(stream.next, stream.end, limits.piece as u64)) as usize;
        let Stamp { seq, ack, flags } = peer.stamp();
        let header = Header {
            token: peer.token,
            kind: Kind::Data,
            flags: if stream.pushed { flags | FLAG_PUSHED } else { flags },
            ack,
            src: state.me,
            seq,
            tag: 0,
            context: stream.receiver,
            arg: stream.next,
        }
        .encode();
        let pending = HEADER_BYTES + len > limits.buffered;
        let mut owned = None;
        // SAFETY: the memory of a send that has not ended is valid, and `next + len` is within it.
        let payload = unsafe { work.memory.slice(stream.next, len) };
        let payload: Option<&[u8]> = match payload {
            None if pending => {
                let mut bytes = state.spare.pop().unwrap_or_default();
                bytes.resize(len, 0);
                // SAFETY: the memory of a send that has not ended is valid.
                unsafe { work.memory.pack(stream.next, &mut bytes) };
                Some(owned.insert(bytes))
            }
            payload => payload,
        };
        let token = if pending {
            state.operations.insert(Operation::Message {
                peer: to,
                request: Some(stream.request),
                ack: false,
                owned: None,
            })
        } else {
            u32::MAX
        };
        let sent = match payload {
            // SAFETY: pending bytes are the user's, valid until the send has ended, or kept in the operation below.
            Some(payload) => unsafe { lanes[peer.lane].send(to, &header, payload, token.into()) },
            None => lanes[peer.lane].send_packed(to, &header, len, &mut |into| {
                // SAFETY: the memory of a send that has not ended is valid.
                unsafe { work.memory.pack(stream.next, into) };
            }),
        };
        if pending {
            if matches!(sent, Ok(Sent::Pending)) {
                if let Operation::Message { owned: kept, .. } = &mut state.operations[token] {
                    *kept = owned;
                }
            } else {
                state.operations.remove(token);
                state.spare.extend(owned);
            }
        }
        let sent = sent?;
        if sent == Sent::Again {
            return Ok(Frame::Again(stream));
        }
        peer.went();
        work.in_lane += u32::from(sent == Sent::Pending);
        stream.next += len as u64;
        if stream.next < stream.granted {
            return Ok(Frame::Sent(Some(stream)));
        }
        if stream.next < stream.end {
            work.stage = SendStage::Paused {
                receiver: stream.receiver,
                next: stream.next,
                end: stream.end,
            };
            return Ok(Frame::Sent(None));
        }
        work.stage = SendStage::InLane;
        if stream.pushed && work.cancel_asked {
            state.ask_back(stream.request);
        }
        state.end_send(stream.request);
        Ok(Frame::Sent(None))
    }
}

enum Frame {
    /// It went; the stream, if more is to come.
    Sent(Option<Stream>),
    /// The lane can't take it now.
    Again(Stream),
}

impl State {
    /// The request of a send that went at once: it has ended, but may still be taken back.
    #[inline(always)]
    fn sent(&mut self, peer: ProcId, envelope: Envelope, seq: u32, bytes: usize) -> RequestId {
        let work = Work::Sent(SentWork {
            peer,
            envelope,
            seq,
            // One that goes at once is short.
            bytes: bytes as u32,
        });
        self.requests.insert_ended(work, envelope.context, Outcome::EMPTY)
    }

    /// A message has left its memory, for good or ill: where it got lost, the peer waits for its number in vain, so
    /// nothing more can be sent there.
    pub(super) fn message_left(&mut self, to: ProcId, request: Option<RequestId>, result: Result<()>) {
        if let Err(error) = &result {
            self.lose(to, error.clone());
        }
        let Some(id) = request else { return };
        if let Some(request) = self.requests.get_mut(id)
            && let Work::Send(work) = &mut request.work
        {
            work.in_lane -= 1;
            if let Err(error) = result
                && work.failed.is_none()
            {
                work.failed = Some(Box::new(error));
            }
            self.end_send(id);
        }
    }

    /// Ends a send with an error: as soon as no lane holds its memory any more.
    pub(super) fn fail_send(&mut self, id: RequestId, error: Error) {
        let Some(request) = self.requests.get_mut(id) else {
            return;
        };
        let Work::Send(work) = &mut request.work else {
            return;
        };
        if (request.outcome.is_some() && !request.early) || work.failed.is_some() {
            return;
        }
        work.failed = Some(Box::new(error));
        let to = work.peer;
        let region = work.region.take();
        let Some(peer) = self.peers[to.0 as usize].as_mut() else {
            return;
        };
        peer.queue.retain(|outgoing| outgoing.request != Some(id));
        peer.streams.retain(|stream| stream.request != id);
        let lane = peer.lane;
        self.withdrawn.extend(region.map(|region| (lane, region)));
        self.end_send(id);
    }

    /// Ends a send if nothing is missing.
    pub(super) fn end_send(&mut self, id: RequestId) {
        if let Some(request) = self.requests.get(id)
            && request.is_under_way()
            && let Work::Send(work) = &request.work
            && work.has_ended()
        {
            let outcome = work.outcome();
            self.complete(id, outcome);
        }
    }

    /// `Done`: the receiver has all it wants of a send.
    pub(super) fn on_done(&mut self, from: ProcId, sender: u64) -> bool {
        let id = RequestId::from_u64(sender);
        let Some(request) = self.requests.get_mut(id) else {
            // Ended otherwise, by an error: nothing to do.
            return true;
        };
        let Work::Send(work) = &mut request.work else {
            return false;
        };
        if work.failed.is_some() {
            return true;
        }
        if work.peer != from || work.stage != SendStage::AwaitsReceiver {
            return false;
        }
        if let Some(region) = work.region.take() {
            let lane = self.peers[from.0 as usize].as_ref().expect("known").lane;
            self.withdrawn.push((lane, region));
        }
        work.stage = SendStage::InLane;
        self.end_send(id);
        true
    }

    /// `Cts`: the receiver wants the data as `Data`, as much as it grants.
    pub(super) fn on_cts(&mut self, from: ProcId, sender: u64, receiver: u64, payload: &[u8]) -> bool {
        let Some(Grant { limit, granted }) = Grant::decode(payload) else {
            return false;
        };
        let id = RequestId::from_u64(sender);
        let Some(request) = self.requests.get_mut(id) else {
            return true;
        };
        let Work::Send(work) = &mut request.work else {
            return false;
        };
        if work.failed.is_some() {
            return true;
        }
        if work.peer != from || granted == 0 || granted > limit || limit > work.memory.len() {
            return false;
        }
        let next = match work.stage {
            SendStage::AwaitsReceiver => 0,
            SendStage::Paused {
                receiver: same,
                next,
                end,
            } if same == receiver && end == limit && granted > next => next,
            // Not all that was granted has gone: the stream goes on for longer.
            SendStage::Streaming => {
                let streams = &mut self.peer(from).streams;
                let stream = streams
                    .iter_mut()
                    .find(|stream| stream.request == id && stream.receiver == receiver)
                    .filter(|stream| stream.end == limit && granted > stream.granted);
                return stream.map(|stream| stream.granted = granted).is_some();
            }
            _ => return false,
        };
        work.stage = SendStage::Streaming;
        if let Some(region) = work.region.take() {
            let lane = self.peers[from.0 as usize].as_ref().expect("known").lane;
            self.withdrawn.push((lane, region));
        }
        self.peer(from).streams.push_back(Stream {
            request: id,
            receiver,
            pushed: false,
            next,
            granted,
            end: limit,
        });
        self.list(from);
        true
    }
}
