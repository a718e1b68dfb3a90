//! The queue of messages to a peer, and its streams: what feeds the lane.

use super::peer::{ConnectionState, Outgoing, Payload, Stream};
use super::progress::SPARE;
use super::protocol::rendezvous_data::Frame;
use super::request::{SendStage, Work};
use super::transmit::{Body, Words, hand};
use super::wire::{FLAG_PIPELINED, FLAG_SYNC, HEADER_BYTES, MessageKind};
use super::{Engine, EngineState, LOOPBACK, Operation};
use crate::base::error::Result;
use crate::data::pieces::Piece;
use crate::identity::PeerIndex;
use crate::lane::Sent;

impl Engine {
    /// Hands as much of a peer's queue and streams to its lane as the lane and the window take. `true`: nothing is left,
    /// or the rest waits for the peer.
    pub(super) fn flush(&mut self, to: PeerIndex) -> bool {
        loop {
            if self.state.peer(to).link != ConnectionState::Up
                && let Some(done) = self.settle(to)
            {
                return done;
            }
            let peer = self.state.peer(to);
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
            let sent = self.send_frame(to, stream);
            if let Ok(Frame::Sent(_)) = sent {
                self.state.accepts_again(to);
            }
            match sent {
                // A pipelined message is not long.
                Ok(Frame::Sent(Some(stream))) if stream.pipelined => {
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
            true if self.state.peer(to).link == ConnectionState::Parting => self.say_bye(to),
            true => self.tell(to),
            // After the last piece of a pipelined message the receiver is asked whether the message can be taken back.
            false => self.flush(to),
        }
    }

    /// As [`Engine::flush`]; but if the lane has refused the latest message to a peer, the next progress asks it again.
    pub(super) fn flush_unless_refused(&mut self, to: PeerIndex) {
        let peer = self.state.peer(to);
        if peer.link == ConnectionState::Up && peer.at_once != 0 {
            self.flush(to);
        }
    }

    /// Only an `Ack` may be sent until the peer has taken more.
    #[cold]
    fn hold(&mut self, to: PeerIndex) -> bool {
        let peer = self.state.peer(to);
        let waits = !peer.queue.is_empty() || !peer.streams.is_empty();
        if waits && !std::mem::replace(&mut peer.flow.blocked, true) {
            self.state.blocked += 1;
        }
        if !waits && self.state.peer(to).link == ConnectionState::Parting {
            return self.say_bye(to);
        }
        self.tell(to)
    }

    /// Sends the peer an acknowledgement, if that is due and no other message contained it. `false`: the lane can't take
    /// the message now.
    pub(super) fn tell(&mut self, to: PeerIndex) -> bool {
        if !self.state.peer(to).flow.due {
            return true;
        }
        let ack = Outgoing {
            words: Words {
                kind: MessageKind::ACK,
                flags: 0,
                tag: 0,
                context: 0,
                arg: 0,
            },
            payload: Payload::NONE,
            request: None,
        };
        match self.send_outgoing(to, ack) {
            Ok(again) => again.is_none(),
            // A peer that has disconnected may be gone, and needs no `Ack` any more. What it has sent may still be
            // arriving, so the peer is not marked as lost for this alone: whatever needs it will find out.
            Err(_) => {
                self.state.peer(to).flow.due = false;
                true
            }
        }
    }

    /// Hands one queued message to the lane; returns it if the lane can't take it now.
    pub(super) fn send_outgoing(
        &mut self,
        to: PeerIndex,
        mut outgoing: Outgoing,
    ) -> Result<Option<Outgoing>> {
        if matches!(outgoing.payload, Payload::OfRequest) && !self.prepare(to, &mut outgoing)? {
            return Ok(None);
        }
        let Engine { lanes, state, .. } = self;
        let peer = state.peers.get_mut(to).expect("known");
        let limits = &state.limits[peer.lane];
        let header = peer.header(state.name.rank, outgoing.words);
        let body = match &mut outgoing.payload {
            // Bytes that stay with the lane for longer than this call can't stay in `outgoing`.
            Payload::Short { len, bytes } if HEADER_BYTES + usize::from(*len) > limits.buffered => {
                Body::Owned(bytes[..usize::from(*len)].to_vec())
            }
            Payload::Short { len, bytes } => Body::Lasting(Piece::of(&bytes[..usize::from(*len)])),
            Payload::Owned(bytes) => Body::Owned(std::mem::take(bytes)),
            Payload::OfRequest => {
                let request = outgoing.request.and_then(|id| state.requests.get(id));
                match request.map(|request| &request.work) {
                    Some(Work::Send(work)) => {
                        let memory = &work.memory;
                        let len = memory.len() as usize;
                        match memory.piece(0, len) {
                            Some(bytes) => Body::Lasting(bytes),
                            // Memory that is not one run is sent so only where the lane copies it: `prepare` has made sure of that.
                            None => Body::Packed(memory, 0, len),
                        }
                    }
                    _ => Body::Lasting(Piece::EMPTY),
                }
            }
        };
        let (words, request) = (outgoing.words, outgoing.request);
        let operation = || Operation::Message {
            peer: to,
            request,
            ack: words.kind == MessageKind::ACK,
            owned: None,
        };
        // SAFETY: the memory of a send that has not ended is valid; what else is lasting is so short that the lane copies it.
        let handed = unsafe {
            hand(
                &mut *lanes[peer.lane],
                limits,
                &mut state.operations,
                to,
                &header.encode(),
                body,
                operation,
            )
        }?;
        if let (Payload::Owned(bytes), Some(mut back)) = (&mut outgoing.payload, handed.back) {
            if handed.sent == Sent::Again {
                *bytes = back;
            } else if state.spare.len() < SPARE {
                back.clear();
                state.spare.push(back);
            }
        }
        if handed.sent == Sent::Again {
            peer.at_once = 0;
            return Ok(Some(outgoing));
        }
        if peer.lane == LOOPBACK {
            state.sleepers.wake();
        }
        peer.went();
        if let Some(id) = request {
            let in_lane = handed.sent == Sent::Pending;
            if let Some(request) = state.requests.get_mut(id)
                && let Work::Send(work) = &mut request.work
            {
                work.seq = Some(header.seq);
                work.in_lane += u32::from(in_lane);
                work.stage = match words.kind {
                    MessageKind::RTS if words.flags & FLAG_PIPELINED != 0 => {
                        peer.streams.push_back(Stream {
                            request: id,
                            receiver: id.to_u64(),
                            pipelined: true,
                            next: 0,
                            granted: work.memory.len(),
                            end: work.memory.len(),
                        });
                        SendStage::Streaming
                    }
                    MessageKind::RTS => SendStage::AwaitsReceiver,
                    _ if words.flags & FLAG_SYNC != 0 => SendStage::AwaitsReceiver,
                    _ => SendStage::InLane,
                };
            }
            state.end_send(id);
        }
        state.accepts_again(to);
        Ok(None)
    }
}

impl EngineState {
    /// Queues a message of our own to a peer.
    pub(super) fn reply(&mut self, to: PeerIndex, kind: MessageKind, context: u64, arg: u64, payload: &[u8]) {
        let words = Words {
            kind,
            flags: 0,
            tag: 0,
            context,
            arg,
        };
        self.reply_with(to, words, payload);
    }

    /// The same, with flags and a tag.
    pub(super) fn reply_with(&mut self, to: PeerIndex, words: Words, payload: &[u8]) {
        self.queue_reply(to, words, Payload::short(payload));
    }

    /// The same, with this payload.
    pub(super) fn queue_reply(&mut self, to: PeerIndex, words: Words, payload: Payload) {
        let peer = self.peer(to);
        if matches!(peer.link, ConnectionState::Lost(_)) || peer.has_said_bye() {
            return;
        }
        self.seek(to);
        self.peer(to).queue.push_back(Outgoing {
            words,
            payload,
            request: None,
        });
        self.list(to);
    }
}
