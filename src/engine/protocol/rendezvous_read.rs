//! Rendezvous by read: the sender has registered its memory and sent the key in `Rts`; the receiver reads it and sends `Done`.

use crate::base::error::Result;
use crate::data::pieces::total;
use crate::engine::peer::ConnectionState;
use crate::engine::protocol::rendezvous_data::Grant;
use crate::engine::request::{Outcome, ReceiveStage, ReceiveWork, RequestId, Work};
use crate::engine::wire::MessageKind;
use crate::engine::{Engine, EngineState, Operation};
use crate::err;
use crate::identity::PeerIndex;
use crate::lane::Sent;

/// The number of pieces of memory that a message is read into at a time.
pub(in crate::engine) const READ_PIECES: usize = 1024;

impl Engine {
    /// Starts the reads of remote memory that wait.
    pub(in crate::engine) fn start_reads(&mut self) {
        let Engine { lanes, state, .. } = self;
        // A lane that takes no more for now must not hold up another.
        let mut full = 0u64;
        let mut refused = None;
        let mut left = state.reads.len();
        while left > 0 {
            let Some(id) = state.reads.pop_front() else {
                break;
            };
            left -= 1;
            let Some(request) = state.requests.get(id) else {
                continue;
            };
            let Work::Receive(ReceiveWork {
                memory,
                stage: ReceiveStage::Fetching(fetch),
            }) = &request.work
            else {
                continue;
            };
            let Some(key) = &fetch.key else {
                continue;
            };
            let from = fetch.peer;
            let Some(peer) = state.peers.get(from) else {
                continue;
            };
            match &peer.link {
                ConnectionState::Up | ConnectionState::Parting if full & 1 << (peer.lane % 64) == 0 => {}
                // Those that wait when a peer is lost are failed there.
                ConnectionState::Lost(_) => continue,
                // The lane is full, or the peer's card, for which `fetch` has asked, has not come.
                ConnectionState::Up
                | ConnectionState::Parting
                | ConnectionState::Greeting
                | ConnectionState::Unknown
                | ConnectionState::LookingUp => {
                    state.reads.push_back(id);
                    continue;
                }
            }
            if memory.contiguous().is_none() && memory.mean_run() < state.limits[peer.lane].read_run as u64 {
                state.read_ended(id, Err(err!(Other, "it takes too many pieces")));
                continue;
            }
            let pieces = memory.pieces(fetch.read, fetch.limit - fetch.read, READ_PIECES);
            let bytes = total(&pieces) as u64;
            let token = state.operations.insert(Operation::Read { request: id, bytes });
            // SAFETY: the memory of a receive that has not ended is valid.
            let read = unsafe { lanes[peer.lane].read(from, key, fetch.read, &pieces, token.into()) };
            match read {
                Ok(Sent::Pending) => continue,
                Ok(Sent::Again) => {
                    state.operations.remove(token);
                    state.reads.push_back(id);
                    full |= 1 << (peer.lane % 64);
                    refused = Some(from);
                }
                Ok(Sent::Done) => {
                    state.operations.remove(token);
                    state.read_ended(id, Ok(bytes));
                    // The rest of it is read at once.
                    left += usize::from(state.reads.front() == Some(&id));
                }
                Err(error) => {
                    state.operations.remove(token);
                    state.read_ended(id, Err(error));
                }
            }
        }
        if let Some(from) = refused {
            self.report_late(from);
        }
    }
}

impl EngineState {
    /// How long the runs of memory have to be on average for a read from a peer into them. Its lane may not be known yet:
    /// then the smallest such length of all lanes, and `Engine::start_reads` decides.
    pub(super) fn read_run(&mut self, from: PeerIndex) -> u64 {
        let lane = self.peer(from).lane;
        match self.limits.get(lane) {
            Some(limits) => limits.read_run as u64,
            None => self
                .limits
                .iter()
                .map(|limits| limits.read_run as u64)
                .min()
                .unwrap_or(0),
        }
    }

    /// Handles the end of a read of remote memory, of this many bytes. If it failed, the data is asked for instead.
    pub(in crate::engine) fn read_ended(&mut self, id: RequestId, result: Result<u64>) {
        let Some(request) = self.requests.get_mut(id) else {
            return;
        };
        let Work::Receive(ReceiveWork {
            stage: ReceiveStage::Fetching(fetch),
            ..
        }) = &mut request.work
        else {
            return;
        };
        match result {
            Ok(bytes) => fetch.read += bytes,
            Err(_) => fetch.key = None,
        }
        if fetch.key.is_some() && fetch.read == fetch.limit {
            return self.finish_fetch(id, true);
        }
        let (from, sender, reads) = (fetch.peer, fetch.sender, fetch.key.is_some());
        let grant = Grant::new(fetch.limit, fetch.granted);
        if let ConnectionState::Lost(error) = &self.peer(from).link {
            let outcome = Outcome::failed(error.clone());
            return self.complete(id, outcome);
        }
        if reads {
            return self.reads.push_front(id);
        }
        self.reply(from, MessageKind::CTS, id.to_u64(), sender, &grant.encode());
    }
}
