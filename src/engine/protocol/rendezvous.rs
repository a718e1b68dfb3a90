//! Rendezvous: a request to send (`Rts`) goes first, and the data when a receive has matched it. The receiver chooses how: it
//! reads the sender's memory (`rendezvous_read.rs`) or asks for the data (`rendezvous_data.rs`).

use crate::base::bytes::RawBytes;
use crate::base::error::Result;
use crate::data::memory::Memory;
use crate::engine::matching::Envelope;
use crate::engine::peer::{ConnectionState, Outgoing, Payload};
use crate::engine::protocol::pipelined;
use crate::engine::protocol::rendezvous_data::Grant;
use crate::engine::receive::Arrived;
use crate::engine::request::{Fetch, Outcome, ReceiveStage, ReceiveWork, RequestId, SendStage, Work};
use crate::engine::wire::{FLAG_PIPELINED, HEADER_BYTES, MessageKind};
use crate::engine::{Engine, EngineState};
use crate::identity::PeerIndex;
use crate::lane::RemoteKey;

/// The payload of an `Rts`: the size, the sender's request and, where the receiver may read it, the
/// memory's key.
pub(in crate::engine) struct Rts {
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

    pub fn decode(payload: RawBytes) -> Option<Rts> {
        let (size, rest) = payload.split_first()?;
        let (sender, key) = rest.split_first()?;
        (key.len() <= RemoteKey::MAX).then(|| Rts {
            size: u64::from_le_bytes(size),
            sender: u64::from_le_bytes(sender),
            key: (!key.is_empty()).then(|| RemoteKey(key.to_vec())),
        })
    }
}

impl Engine {
    /// Decides what a send's first message is: eager or request to send. `false`: the send no longer exists.
    pub(in crate::engine) fn prepare(&mut self, to: PeerIndex, outgoing: &mut Outgoing) -> Result<bool> {
        let Engine { lanes, state, .. } = self;
        let peer = state.peers.get(to).expect("known");
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
            } else if work.memory.contiguous().is_some()
                || HEADER_BYTES as u64 + size <= limits.buffered as u64
            {
                return Ok(true);
            } else {
                let mut bytes = vec![0; size as usize];
                // SAFETY: the memory of a send that has not ended is valid.
                unsafe { work.memory.pack(0, &mut bytes[..]) };
                outgoing.payload = Payload::Owned(bytes);
                return Ok(true);
            }
        }
        let pipelined =
            !work.sync && size <= peer.pipelined as u64 && peer.streams.len() < pipelined::AT_ONCE;
        let mut key = None;
        if !pipelined
            && state.rma
            && limits.rma
            && size >= limits.rma_from as u64
            && (work.memory.contiguous().is_some() || work.memory.mean_run() >= limits.register_run as u64)
        {
            let pieces = work.memory.pieces(0, size, usize::MAX);
            // SAFETY: the memory of a send is valid until it has ended, and the registration ends before.
            if let Ok((region, remote)) = unsafe { lanes[peer.lane].register(&pieces) } {
                work.region = Some(region);
                key = Some(remote);
            }
            // Memory that can't be registered is sent as data.
        }
        outgoing.words.kind = MessageKind::RTS;
        outgoing.words.flags = if pipelined { FLAG_PIPELINED } else { 0 };
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
}

impl EngineState {
    /// Begins to fetch a rendezvous message: by reading the sender's memory or by asking for its data.
    pub(in crate::engine) fn fetch(
        &mut self,
        id: RequestId,
        from: PeerIndex,
        envelope: Envelope,
        rts: Rts,
        memory: Memory,
    ) {
        let limit = rts.size.min(memory.len());
        let may_read =
            self.rma && (memory.contiguous().is_some() || memory.mean_run() >= self.read_run(from));
        let fetch = Fetch {
            peer: from,
            sender: rts.sender,
            envelope,
            size: rts.size,
            limit,
            received: 0,
            granted: limit.min(self.window_bytes(from)),
            key: rts.key.filter(|_| may_read),
            read: 0,
        };
        let (read, granted) = (fetch.key.is_some(), fetch.granted);
        let Some(request) = self.requests.get_mut(id) else {
            return;
        };
        request.work = Work::Receive(ReceiveWork {
            memory,
            stage: ReceiveStage::Fetching(Box::new(fetch)),
        });
        if limit == 0 {
            self.finish_fetch(id, true);
        } else if let ConnectionState::Lost(error) = &self.peer(from).link {
            let outcome = Outcome::failed(error.clone());
            self.complete(id, outcome);
        } else if read {
            self.seek(from);
            self.reads.push_back(id);
        } else {
            let grant = Grant::new(limit, granted);
            self.reply(from, MessageKind::CTS, id.to_u64(), rts.sender, &grant.encode());
        }
    }

    /// Ends a rendezvous message, all of whose bytes have arrived.
    pub(super) fn finish_fetch(&mut self, id: RequestId, tell_sender: bool) {
        let Some(request) = self.requests.get(id) else {
            return;
        };
        let Work::Receive(ReceiveWork {
            stage: ReceiveStage::Fetching(fetch),
            ..
        }) = &request.work
        else {
            return;
        };
        let arrived = Arrived::of(fetch);
        let (from, sender) = (fetch.peer, fetch.sender);
        if tell_sender {
            self.reply(from, MessageKind::DONE, 0, sender, &[]);
        }
        self.complete(id, arrived.outcome());
    }

    /// Handles `Done`: the receiver has all that it needs of a send.
    pub(in crate::engine) fn on_done(&mut self, from: PeerIndex, sender: u64) -> bool {
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
            let lane = self.peers.get(from).expect("known").lane;
            self.deregistered.push((lane, region));
        }
        work.stage = SendStage::InLane;
        self.end_send(id);
        true
    }
}
