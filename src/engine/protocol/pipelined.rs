//! Pipelined eager messages, in short *pipelined* ones: they come in pieces whether or not a receive is posted.
//!
//! The sender's `Rts` has `FLAG_PIPELINED`, and its data follows without a `Cts`, as `Data` messages that name the sender's request.
//! So a message that is too long to be copied at once costs no round trip, and the two copies of its pieces, into the lane and out of it,
//! are made at the same time. A posted receive gets each piece straight into its memory; until there is one, the pieces are
//! kept, and count as unexpected bytes.

use crate::base::bytes::RawBytes;
use crate::data::memory::Memory;
use crate::engine::EngineState;
use crate::engine::matching::Envelope;
use crate::engine::peer::ConnectionState;
use crate::engine::protocol::rendezvous::Rts;
use crate::engine::receive::{Arrived, Received, deliver};
use crate::engine::request::{Fetch, Outcome, ReceiveStage, ReceiveWork, RequestId, Work};
use crate::engine::wire::Header;
use crate::identity::PeerIndex;

/// A message is pipelined only while fewer than this many others are being sent in pieces to the same peer; this bounds
/// how many come to a receiver that has asked for no more.
pub(super) const AT_ONCE: usize = 4;

/// The length of the piece of a message that begins at `next`, where the first and the last piece have `least` bytes: a
/// quarter of what lies before it or after it, whichever is less.
pub(super) fn piece(next: u64, end: u64, least: u64) -> u64 {
    const PAGE: u64 = 4096;
    least.max(next.min(end - next) / 4 / PAGE * PAGE)
}

/// The longest message in bytes that is pipelined: its receiver has to make room for it without having asked for it.
pub(in crate::engine) const PIPELINED_MAX: u64 = 1 << 20;

/// A pipelined message that has begun to arrive. It stays in the table until all of it has arrived, and as long as it is
/// kept.
pub(in crate::engine) struct Arrival {
    from: PeerIndex,
    /// The sender's request, which its pieces name.
    sender: u64,
    size: u64,
    /// Where the next piece begins.
    next: u64,
    to: Target,
}

/// Where the pieces go.
enum Target {
    /// To a receive.
    Receive(RequestId),
    /// No receive has matched it; these bytes have arrived.
    Kept(Vec<u8>),
    /// Nowhere: they are discarded.
    Nobody,
}

impl EngineState {
    /// Begins a pipelined message, for this receive if there is one already. `None`: the message makes no sense.
    pub(in crate::engine) fn begin_arrival(
        &mut self,
        from: PeerIndex,
        rts: &Rts,
        receive: Option<RequestId>,
    ) -> Option<u32> {
        let EngineState { arrivals, peers, .. } = self;
        let peer = peers.get_mut(from)?;
        let known = |&at: &u32| arrivals.get(at).is_some_and(|one| one.sender == rts.sender);
        if rts.size == 0 || rts.size > PIPELINED_MAX || peer.arriving.iter().any(known) {
            return None;
        }
        let to = match receive {
            Some(id) => Target::Receive(id),
            None => Target::Kept(Vec::with_capacity(rts.size as usize)),
        };
        let at = arrivals.insert(Arrival {
            from,
            sender: rts.sender,
            size: rts.size,
            next: 0,
            to,
        });
        peer.arriving.push(at);
        Some(at)
    }

    /// Handles a piece of a pipelined message. `false`: it makes no sense.
    pub(in crate::engine) fn on_piece(&mut self, header: &Header<PeerIndex>, payload: RawBytes) -> bool {
        let EngineState {
            arrivals,
            peers,
            requests,
            ..
        } = self;
        let Some(peer) = peers.get_mut(header.src) else {
            return false;
        };
        let of = |at: &u32| arrivals.get(*at).is_some_and(|one| one.sender == header.context);
        let Some(place) = peer.arriving.iter().position(of) else {
            return false;
        };
        let at = peer.arriving[place];
        let arrival = arrivals.get_mut(at).expect("it is arriving");
        let len = payload.len() as u64;
        if header.arg != arrival.next || len == 0 || len > arrival.size - arrival.next {
            return false;
        }
        arrival.next += len;
        let ends = arrival.next == arrival.size;
        let mut ended = None;
        match &mut arrival.to {
            Target::Receive(id) => {
                let request = requests.get(*id).filter(|request| request.outcome.is_none());
                // An abandoned receive needs no further bytes.
                if let Some(Work::Receive(ReceiveWork {
                    memory,
                    stage: ReceiveStage::Fetching(fetch),
                })) = request.map(|request| &request.work)
                {
                    let fits = fetch.limit.saturating_sub(header.arg).min(len) as usize;
                    if fits > 0 {
                        // SAFETY: the memory of a receive that has not ended is valid.
                        unsafe { memory.unpack(header.arg, payload.first(fits)) };
                    }
                    ended = ends.then(|| (*id, Arrived::of(fetch).outcome()));
                }
            }
            Target::Kept(bytes) => payload.append_to(bytes),
            Target::Nobody => {}
        }
        if ends {
            let is_kept = matches!(arrival.to, Target::Kept(_));
            peer.arriving.swap_remove(place);
            if !is_kept {
                arrivals.remove(at);
            }
        }
        if let Some((id, outcome)) = ended {
            self.complete(id, outcome);
        }
        true
    }

    /// Gives a pipelined message that was kept to a receive.
    ///
    /// # Safety
    /// The memory is valid for writing until the receive has ended, and nobody else touches it meanwhile.
    pub(in crate::engine) unsafe fn accept_arrival(
        &mut self,
        at: u32,
        envelope: Envelope,
        memory: &Memory,
    ) -> Received {
        let arrival = self
            .arrivals
            .get_mut(at)
            .expect("a message that is kept is known");
        let Target::Kept(bytes) = std::mem::replace(&mut arrival.to, Target::Nobody) else {
            unreachable!("only one receive takes a message");
        };
        let (from, sender, size) = (arrival.from, arrival.sender, arrival.size);
        if arrival.next == size {
            self.arrivals.remove(at);
            // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
            return Received::Now(unsafe { deliver(&envelope, memory, bytes[..].into()) }.outcome());
        }
        if let ConnectionState::Lost(error) = &self.peer(from).link {
            let outcome = Outcome::failed(error.clone());
            self.arrivals.remove(at);
            return Received::Now(outcome);
        }
        // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
        unsafe { memory.unpack(0, &bytes[..]) };
        let id = self.requests.insert(Work::None, envelope.context);
        self.await_pieces(id, from, envelope, size, sender, memory.clone());
        let arrival = self.arrivals.get_mut(at).expect("as before");
        arrival.to = Target::Receive(id);
        Received::Later(id)
    }

    /// Makes a request the receive of a pipelined message.
    pub(in crate::engine) fn await_pieces(
        &mut self,
        id: RequestId,
        from: PeerIndex,
        envelope: Envelope,
        size: u64,
        sender: u64,
        memory: Memory,
    ) {
        let fetch = Fetch {
            peer: from,
            sender,
            envelope,
            size,
            limit: size.min(memory.len()),
            received: 0,
            // No data comes as an answer to `Cts`.
            granted: 0,
            key: None,
            read: 0,
        };
        if let Some(request) = self.requests.get_mut(id) {
            request.work = Work::Receive(ReceiveWork {
                memory,
                stage: ReceiveStage::Fetching(Box::new(fetch)),
            });
        }
    }

    /// Drops a pipelined message that was kept and that no receive will take.
    pub(in crate::engine) fn forget_arrival(&mut self, at: u32) {
        let arrival = self
            .arrivals
            .get_mut(at)
            .expect("a message that is kept is known");
        arrival.to = Target::Nobody;
        let from = arrival.from;
        if !self.peer(from).arriving.contains(&at) {
            self.arrivals.remove(at);
        }
    }

    /// No more messages come from a peer. The receives that wait for its pieces are failed by
    /// [`EngineState::fail_requests_of`]; kept messages stay until a receive asks for them.
    pub(in crate::engine) fn end_arrivals_from(&mut self, from: PeerIndex) {
        for at in std::mem::take(&mut self.peer(from).arriving) {
            let is_kept = self
                .arrivals
                .get(at)
                .is_some_and(|one| matches!(one.to, Target::Kept(_)));
            if !is_kept {
                self.arrivals.remove(at);
            }
        }
    }
}
