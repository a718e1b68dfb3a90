//! Rendezvous by data: the receiver grants bytes with `Cts`, and the sender sends them as `Data` messages, piece by piece.

use crate::base::bytes::RawBytes;
use crate::base::error::Result;
use crate::engine::peer::Stream;
use crate::engine::protocol::pipelined::piece;
use crate::engine::request::{Outcome, ReceiveStage, ReceiveWork, RequestId, SendStage, Work};
use crate::engine::transmit::{Body, Words, hand};
use crate::engine::wire::{FLAG_PIPELINED, HEADER_BYTES, Header, MessageKind};
use crate::engine::{Engine, EngineState, Operation};
use crate::err;
use crate::identity::PeerIndex;
use crate::lane::Sent;

/// The payload of a `Cts`: how many bytes the receiver wants in all, and how far it wants them now. It grants the rest
/// step by step, by further `Cts` messages.
#[derive(Clone, Copy)]
pub(in crate::engine) struct Grant {
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

    fn decode(payload: RawBytes) -> Option<Grant> {
        let (limit, granted) = payload.split_first()?;
        Some(Grant {
            limit: u64::from_le_bytes(limit),
            granted: u64::from_le_bytes(granted.array()?),
        })
    }
}

/// The outcome of sending a frame.
pub(in crate::engine) enum Frame {
    /// It was sent; the stream, if more is to come.
    Sent(Option<Stream>),
    /// The lane can't take it now.
    Again(Stream),
}

impl Engine {
    /// Sends the next frame of a stream: of a rendezvous or a pipelined message.
    pub(in crate::engine) fn send_frame(&mut self, to: PeerIndex, mut stream: Stream) -> Result<Frame> {
        let Engine { lanes, state, .. } = self;
        let peer = state.peers.get_mut(to).expect("known");
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
        let header = peer.header(
            state.name.rank,
            Words {
                kind: MessageKind::DATA,
                flags: if stream.pipelined { FLAG_PIPELINED } else { 0 },
                tag: 0,
                context: stream.receiver,
                arg: stream.next,
            },
        );
        let body = match work.memory.piece(stream.next, len) {
            Some(bytes) => Body::Lasting(bytes),
            None if HEADER_BYTES + len <= limits.buffered => Body::Packed(&work.memory, stream.next, len),
            None => {
                let mut bytes = state.spare.pop().unwrap_or_default();
                bytes.resize(len, 0);
                // SAFETY: the memory of a send that has not ended is valid.
                unsafe { work.memory.pack(stream.next, &mut bytes[..]) };
                Body::Owned(bytes)
            }
        };
        let operation = || Operation::Message {
            peer: to,
            request: Some(stream.request),
            ack: false,
            owned: None,
        };
        // SAFETY: the memory of a send that has not ended is valid.
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
        state.spare.extend(handed.back);
        if handed.sent == Sent::Again {
            return Ok(Frame::Again(stream));
        }
        peer.went();
        work.in_lane += u32::from(handed.sent == Sent::Pending);
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
        if stream.pipelined && work.cancel_asked {
            state.ask_back(stream.request);
        }
        state.end_send(stream.request);
        Ok(Frame::Sent(None))
    }
}

impl EngineState {
    /// Handles `Cts`: the receiver wants the data as `Data` messages, as much as it grants.
    pub(in crate::engine) fn on_cts(
        &mut self,
        from: PeerIndex,
        sender: u64,
        receiver: u64,
        payload: RawBytes,
    ) -> bool {
        let Some(Grant { limit, granted }) = Grant::decode(payload) else {
            return false;
        };
        let id = RequestId::from_u64(sender);
        let Some(request) = self.requests.get_mut(id) else {
            self.reply(from, MessageKind::GONE, 0, receiver, &[]);
            return true;
        };
        let Work::Send(work) = &mut request.work else {
            return false;
        };
        if work.failed.is_some() {
            self.reply(from, MessageKind::GONE, 0, receiver, &[]);
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
            // Not all that was granted before has been sent: the stream goes on.
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
            let lane = self.peers.get(from).expect("known").lane;
            self.deregistered.push((lane, region));
        }
        self.peer(from).streams.push_back(Stream {
            request: id,
            receiver,
            pipelined: false,
            next,
            granted,
            end: limit,
        });
        self.list(from);
        true
    }

    /// `Gone`: the send whose data this process has asked for was given up.
    pub(in crate::engine) fn on_gone(&mut self, from: PeerIndex, receiver: u64) -> bool {
        let id = RequestId::from_u64(receiver);
        let request = self.requests.get(id);
        let Some(request) = request.filter(|request| request.outcome.is_none()) else {
            return true;
        };
        let Work::Receive(ReceiveWork {
            stage: ReceiveStage::Fetching(fetch),
            ..
        }) = &request.work
        else {
            return false;
        };
        if fetch.peer != from || fetch.key.is_some() {
            return false;
        }
        let rank = fetch.envelope.source;
        self.complete(
            id,
            Outcome::failed(err!(Other, "rank {rank} has given up the send of this message")),
        );
        true
    }

    /// How many bytes of a rendezvous message from a peer may be under way as `Data` messages. Its lane may not be known
    /// yet: then the smallest such number of all lanes.
    pub(super) fn window_bytes(&mut self, from: PeerIndex) -> u64 {
        let lane = self.peer(from).lane;
        let message = match self.limits.get(lane) {
            Some(limits) => limits.message,
            None => self.limits.iter().map(|limits| limits.message).min().unwrap_or(1),
        };
        self.window * message as u64
    }

    /// Handles a part of a rendezvous message.
    pub(in crate::engine) fn on_data(&mut self, header: &Header<PeerIndex>, payload: RawBytes) -> bool {
        let window = self.window_bytes(header.src);
        let id = RequestId::from_u64(header.context);
        let Some(request) = self
            .requests
            .get_mut(id)
            .filter(|request| request.outcome.is_none())
        else {
            // Abandoned: the bytes are not needed.
            return true;
        };
        let Work::Receive(ReceiveWork {
            memory,
            stage: ReceiveStage::Fetching(fetch),
        }) = &mut request.work
        else {
            return false;
        };
        let end = header.arg.checked_add(payload.len() as u64);
        if fetch.peer != header.src || fetch.key.is_some() || end.is_none_or(|end| end > fetch.granted) {
            return false;
        }
        // SAFETY: the memory of a receive that has not ended is valid; the bytes lie within it, as was checked.
        unsafe { memory.unpack(header.arg, payload) };
        fetch.received += payload.len() as u64;
        if fetch.received >= fetch.limit {
            self.finish_fetch(id, false);
        } else if fetch.granted < fetch.limit && fetch.received + window / 2 >= fetch.granted {
            fetch.granted = fetch.limit.min(fetch.granted + window / 2);
            let (sender, grant) = (fetch.sender, Grant::new(fetch.limit, fetch.granted));
            self.reply(header.src, MessageKind::CTS, id.to_u64(), sender, &grant.encode());
        }
        true
    }
}
