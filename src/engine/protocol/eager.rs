//! Eager: a message is sent at once, whole. A receive that is posted takes it; otherwise it waits in the unexpected
//! queue. A synchronous send's message contains the number of its request, and `Done` comes back when a receive has
//! matched.

use crate::base::bytes::RawBytes;
use crate::base::error::Result;
use crate::data::pieces::Piece;
use crate::engine::matching::Envelope;
use crate::engine::peer::Peer;
use crate::engine::receive::{Attended, deliver, envelope};
use crate::engine::request::{Outcome, ReceiveStage, RequestId, SentWork, Work};
use crate::engine::send::{Send, Tried};
use crate::engine::transmit::Words;
use crate::engine::wire::{HEADER_BYTES, Header, MessageKind};
use crate::engine::{Engine, EngineState, LOOPBACK};
use crate::identity::PeerIndex;
use crate::lane::{Lane, Limits, Sent};

impl Engine {
    /// Sends if the lane takes the message now, without keeping its memory. If something prevents that, an error too, the
    /// caller leaves the message to [`Engine::send`], which finds it again.
    ///
    /// # Safety
    /// The memory is valid during the call, and nobody writes to it meanwhile.
    #[inline(always)]
    pub unsafe fn try_send(&mut self, send: &Send, request: bool) -> Tried {
        let len = send.memory.len() as usize;
        if send.sync {
            return Tried::NotNow;
        }
        let seq = match send.memory.piece(0, len) {
            // SAFETY: the caller says that the memory is readable, and nobody writes to it, during the call.
            Some(payload) => unsafe { self.send_now(send.peer, &send.envelope, payload) },
            None => self.send_header(send.peer, &send.envelope, len, |lane, header| {
                lane.send_packed(send.peer, header, len, &mut |into| {
                    // SAFETY: as above; the lane's room is none of the user's memory.
                    unsafe { send.memory.pack(0, into) };
                })
            }),
        };
        match seq {
            Some(seq) => Tried::Sent(request.then(|| self.state.sent(send.peer, send.envelope, seq, len))),
            None => Tried::NotNow,
        }
    }

    /// As [`Engine::try_send`], of a run of bytes; returns the message's sequence number.
    ///
    /// # Safety
    /// As for [`Engine::try_send`].
    #[inline(always)]
    pub unsafe fn send_now(&mut self, to: PeerIndex, envelope: &Envelope, payload: Piece) -> Option<u32> {
        self.send_header(to, envelope, payload.len, |lane, header| {
            // SAFETY: the caller says that it is readable during the call; short enough never to be pending.
            unsafe { lane.send(to, header, payload, u64::MAX) }
        })
    }

    /// As [`Engine::send_now`]; returns the send's request, which has ended.
    ///
    /// # Safety
    /// As for [`Engine::try_send`].
    #[inline(always)]
    pub unsafe fn send_now_with_request(
        &mut self,
        to: PeerIndex,
        envelope: &Envelope,
        payload: Piece,
    ) -> Option<RequestId> {
        // SAFETY: the caller's promise is the same.
        let seq = unsafe { self.send_now(to, envelope, payload) }?;
        Some(self.state.sent(to, *envelope, seq, payload.len))
    }

    /// Calls `hand` to give the lane an eager message with a payload of `len` bytes, if that can be sent now.
    #[inline(always)]
    fn send_header(
        &mut self,
        to: PeerIndex,
        envelope: &Envelope,
        len: usize,
        hand: impl FnOnce(&mut dyn Lane, &[u8; HEADER_BYTES]) -> Result<Sent>,
    ) -> Option<u32> {
        let words = Words {
            kind: MessageKind::EAGER,
            flags: 0,
            tag: envelope.tag,
            context: envelope.context.bits(),
            arg: envelope.source.into(),
        };
        let fits = |peer: &Peer, _: &Limits| len < peer.at_once;
        self.send_words(to, words, fits, hand)
    }

    /// Sends a message of bytes of our own, which the lane copies, if that can be done now. `false`: nothing was done.
    pub(in crate::engine) fn send_copied(&mut self, to: PeerIndex, words: Words, payload: &[u8]) -> bool {
        let fits = |peer: &Peer, limits: &Limits| {
            peer.at_once != 0 && HEADER_BYTES + payload.len() <= limits.buffered
        };
        let sent = self.send_words(to, words, fits, |lane, header| {
            // SAFETY: it is readable during the call, and short enough never to be pending.
            unsafe { lane.send(to, header, Piece::of(payload), u64::MAX) }
        });
        sent.is_some()
    }

    /// Calls `hand` to give the lane a message, if nothing is in front of it and it `fits`; returns its sequence number.
    #[inline(always)]
    fn send_words(
        &mut self,
        to: PeerIndex,
        words: Words,
        fits: impl FnOnce(&Peer, &Limits) -> bool,
        hand: impl FnOnce(&mut dyn Lane, &[u8; HEADER_BYTES]) -> Result<Sent>,
    ) -> Option<u32> {
        let Engine { lanes, state, .. } = self;
        let peer = state.peers.get_mut(to)?;
        if !peer.is_clear() || !fits(peer, &state.limits[peer.lane]) {
            return None;
        }
        let header = peer.header(state.name.rank, words);
        match hand(&mut *lanes[peer.lane], &header.encode()) {
            Ok(Sent::Done) if peer.lane == LOOPBACK => state.sleepers.wake(),
            Ok(Sent::Done) => {}
            Ok(Sent::Again | Sent::Pending) => {
                peer.at_once = 0;
                return None;
            }
            Err(error) => {
                self.lose(to, error);
                return None;
            }
        }
        peer.went();
        Some(header.seq)
    }
}

impl EngineState {
    /// The request of a send that was sent at once: it has ended, but may still be cancelled.
    #[inline(always)]
    fn sent(&mut self, peer: PeerIndex, envelope: Envelope, seq: u32, bytes: usize) -> RequestId {
        let work = Work::Sent(SentWork {
            peer,
            envelope,
            seq,
            // A message that is sent at once is short.
            bytes: bytes as u32,
        });
        self.requests.insert_ended(work, envelope.context, Outcome::EMPTY)
    }

    /// Handles an eager message that is not of a synchronous send.
    #[inline]
    pub(in crate::engine) fn on_eager(&mut self, header: &Header<PeerIndex>, payload: RawBytes) -> bool {
        let Some(envelope) = envelope(header) else {
            return false;
        };
        if let Attended::Waits(receive) = &self.attended
            && self.posted.is_empty()
            && receive.pattern.takes(&envelope)
        {
            if receive.peer.is_some_and(|peer| peer != header.src) {
                // Its rank is not the sender's.
                return false;
            }
            // SAFETY: the receive is under way as long as it is attended.
            let arrived = unsafe { deliver(&envelope, &receive.memory, payload) };
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
            // SAFETY: a posted receive has not ended.
            let arrived = unsafe { deliver(&envelope, &work.memory, payload) };
            if let Some(task) = request.end(arrived.outcome()) {
                self.ready.push(task);
            }
            self.posted.remove(place);
            self.happened();
            return true;
        }
        self.on_user_message(header, payload)
    }
}
