//! The receiving side of a rendezvous: the sender's memory is read, or its data asked for.

use super::matching::Envelope;
use super::memory::Memory;
use super::peer::Link;
use super::receive::Arrived;
use super::request::{Fetch, Outcome, ReceiveStage, ReceiveWork, RequestId, Work};
use super::send::{Grant, Rts};
use super::wire::{Header, Kind};
use super::{Engine, Operation, State};
use crate::err;
use crate::error::Result;
use crate::lane::{ProcId, Sent, total};

/// A message is read into so many pieces of memory at a time.
pub(super) const READ_PIECES: usize = 1024;

impl Engine {
    /// Starts the reads of remote memory that wait.
    pub(super) fn start_reads(&mut self) {
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
            let Some(peer) = state.peers[from.0 as usize].as_ref() else {
                continue;
            };
            match &peer.link {
                Link::Up if full & 1 << (peer.lane % 64) == 0 => {}
                // Those that wait when a peer is lost are failed there.
                Link::Lost(_) => continue,
                // Full, or its card is on the way, which `fetch` has asked for.
                Link::Up | Link::Unknown | Link::LookingUp => {
                    state.reads.push_back(id);
                    continue;
                }
            }
            if memory.flat().is_none() && memory.mean_run() < state.limits[peer.lane].read_run as u64 {
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
                    // What is still missing of it comes at once.
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

impl State {
    /// Begins to fetch a rendezvous message: by reading the sender's memory or by asking for its data.
    pub(super) fn fetch(
        &mut self,
        id: RequestId,
        from: ProcId,
        envelope: Envelope,
        rts: Rts,
        memory: Memory,
    ) {
        let limit = rts.size.min(memory.len());
        let may_read = self.rma && (memory.flat().is_some() || memory.mean_run() >= self.read_run(from));
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
        } else if let Link::Lost(error) = &self.peer(from).link {
            let outcome = Outcome::failed(error.clone());
            self.complete(id, outcome);
        } else if read {
            self.seek(from);
            self.reads.push_back(id);
        } else {
            let grant = Grant::new(limit, granted);
            self.reply(from, Kind::Cts, id.to_u64(), rts.sender, &grant.encode());
        }
    }

    /// How long the runs of memory have to be on average for a read from a peer to go into them. Its lane may not be known yet:
    /// then the least of all, and `Engine::start_reads` decides.
    fn read_run(&mut self, from: ProcId) -> u64 {
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

    /// A read of remote memory came to its end: so many bytes. Where it failed, the data is asked for instead.
    pub(super) fn read_ended(&mut self, id: RequestId, result: Result<u64>) {
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
        if let Link::Lost(error) = &self.peer(from).link {
            let outcome = Outcome::failed(error.clone());
            return self.complete(id, outcome);
        }
        if reads {
            return self.reads.push_front(id);
        }
        self.reply(from, Kind::Cts, id.to_u64(), sender, &grant.encode());
    }

    /// All bytes of a rendezvous message are here.
    fn finish_fetch(&mut self, id: RequestId, tell_sender: bool) {
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
            self.reply(from, Kind::Done, 0, sender, &[]);
        }
        self.complete(id, arrived.outcome());
    }

    /// How many bytes of a rendezvous message from a peer may be under way as `Data` messages. Its lane may not be known
    /// yet: then the least of all.
    fn window_bytes(&mut self, from: ProcId) -> u64 {
        let lane = self.peer(from).lane;
        let message = match self.limits.get(lane) {
            Some(limits) => limits.message,
            None => self.limits.iter().map(|limits| limits.message).min().unwrap_or(1),
        };
        self.window * message as u64
    }

    /// A part of a rendezvous message arrived.
    pub(super) fn on_data(&mut self, header: &Header, payload: &[u8]) -> bool {
        let window = self.window_bytes(header.src);
        let id = RequestId::from_u64(header.context);
        let Some(request) = self
            .requests
            .get_mut(id)
            .filter(|request| request.outcome.is_none())
        else {
            // Given up: nobody wants it.
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
            self.reply(header.src, Kind::Cts, id.to_u64(), sender, &grant.encode());
        }
        true
    }
}
