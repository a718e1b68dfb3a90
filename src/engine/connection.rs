//! Peers that become reachable, and those that are lost.

use super::peer::{ConnectionState, Peer};
use super::{EAGER_UNDER_BACKPRESSURE, Engine, EngineState, business_card, protocol, wire};
use crate::base::error::Error;
use crate::err;
use crate::identity::PeerIndex;
use crate::lane::choose::loses_first_messages;

impl Engine {
    /// The other processes of the job that messages were sent to, in ascending order, each with the index of its lane in
    /// [`Engine::lane_names`], without those that have been lost.
    pub fn links(&self) -> impl Iterator<Item = (PeerIndex, usize)> {
        let linked =
            self.state.peers.iter().filter(|(id, peer)| {
                id.rank_in(self.state.size).is_some() && peer.link == ConnectionState::Up
            });
        linked.filter_map(|(id, peer)| Some((id, peer.lane.checked_sub(1)?)))
    }

    /// Makes a peer reachable by its business card; the first lane that both have and that connects them carries its
    /// messages.
    pub fn connect(&mut self, peer: PeerIndex, card: &business_card::BusinessCard) {
        // A peer may have been lost while its card was looked up: nobody waits for that any more. Or one of another job has introduced
        // itself.
        let link = &self.state.peer(peer).link;
        if !matches!(link, ConnectionState::Unknown | ConnectionState::LookingUp) {
            return;
        }
        let found = match self.state.sees_the_same(peer, card) {
            Ok(()) => self.first_lane_to(peer, card),
            Err(error) => Err(error),
        };
        match found {
            Ok(at) => {
                self.state.peer(peer).token = self.state.token_for(peer, card);
                match peer.rank_in(self.state.size) {
                    Some(_) => self.state.link_up(peer, at),
                    None => self.state.link_up_foreign(peer, at, card),
                }
                self.state.list(peer);
                self.state.happened();
            }
            Err(error) => self.lose(peer, error),
        }
    }

    fn first_lane_to(&mut self, peer: PeerIndex, card: &business_card::BusinessCard) -> Result<usize, Error> {
        let mut reasons: Vec<Error> = Vec::new();
        let mut order: Vec<(usize, String)> =
            (self.lanes.iter().map(|lane| lane.network()).enumerate().skip(1)).collect();
        if peer.rank_in(self.state.size).is_none() {
            order.sort_by_key(|(_, network)| loses_first_messages(network));
        }
        for (at, network) in order {
            let lane = &mut self.lanes[at];
            let Some(theirs) = card.lanes.iter().find(|theirs| theirs.network == network) else {
                continue;
            };
            match lane.connect(peer, &theirs.address) {
                Ok(()) => return Ok(at),
                Err(error) => reasons.push(error),
            }
        }
        let names = |all: Vec<&str>| {
            if all.is_empty() {
                "none".to_string()
            } else {
                all.join(", ")
            }
        };
        let own = self.networks();
        let why: String = reasons
            .iter()
            .map(|error| format!("; {}", error.message))
            .collect();
        Err(err!(
            Other,
            "process {} can be reached by none of the lanes of this process{why} (this process has {}, that one {}; \
             do all use the same WEFT_LANES and WEFT_PROVIDER? WEFT_LANES=shm,ofi opens libfabric beside shared memory)",
            peer.number(),
            names(own.iter().map(String::as_str).collect()),
            names(card.lanes.iter().map(|lane| lane.network.as_str()).collect())
        ))
    }

    /// Marks a peer as unreachable: all that waits for it fails with `error`.
    pub fn lose(&mut self, peer: PeerIndex, error: Error) {
        self.state.lose(peer, error);
        self.deregister();
    }

    /// Ends the registrations of sends that have ended.
    pub(super) fn deregister(&mut self) {
        for (lane, region) in self.state.deregistered.drain(..) {
            self.lanes[lane].deregister(region);
        }
    }

    /// The processes of the job whose business cards were not needed yet.
    pub fn unconnected(&self) -> Vec<PeerIndex> {
        let is_unknown = |id: &PeerIndex| match self.state.peers.get(*id) {
            Some(peer) => matches!(peer.link, ConnectionState::Unknown | ConnectionState::LookingUp),
            None => true,
        };
        let job = (0..self.state.size).map(PeerIndex::of_rank);
        job.filter(is_unknown).collect()
    }

    /// Peers whose business cards are wanted; the caller fetches them and calls [`Engine::connect`].
    pub fn wanted(&mut self) -> &mut Vec<PeerIndex> {
        &mut self.state.wanted
    }

    /// Whether there are any.
    #[inline]
    pub fn has_wanted(&self) -> bool {
        !self.state.wanted.is_empty()
    }
}

impl EngineState {
    /// Whether a peer of the same job sees alike what all of it have to.
    fn sees_the_same(&self, peer: PeerIndex, card: &business_card::BusinessCard) -> Result<(), Error> {
        if peer.rank_in(self.size).is_none() || card.agreed == self.agreed {
            return Ok(());
        }
        if (card.agreed ^ self.agreed) >> 32 != 0 {
            return Err(err!(
                Other,
                "process {} has another table of collective algorithms than this one, so collective operations would go wrong: \
                 WEFT_COLLECTIVES has to name a file of the same lines on all ranks",
                peer.number()
            ));
        }
        Err(err!(
            Other,
            "process {} sees other hosts than this one, so collective operations would go wrong: WEFT_FAKE_NODES and WEFT_TWO_LEVEL have \
             to be the same on all ranks, and the launcher has to tell all ranks the same",
            peer.number()
        ))
    }

    /// Makes sure that messages to a peer can be sent: asks for its business card, unless that has been done.
    pub(super) fn seek(&mut self, id: PeerIndex) {
        let peer = self.peer(id);
        if peer.link == ConnectionState::Unknown {
            peer.link = ConnectionState::LookingUp;
            self.wanted.push(id);
        }
    }

    /// Messages to a peer of this job can be sent from now on, over this lane.
    pub(super) fn link_up(&mut self, id: PeerIndex, lane: usize) {
        let window = self.windows[lane];
        let peer = self.peer(id);
        peer.link = ConnectionState::Up;
        peer.lane = lane;
        peer.flow.window = window;
        let backpressure = peer.flow.backpressure;
        self.limit_eager(id, lane, backpressure);
    }

    /// Half of the window of a peer on the lane that is being polled.
    pub(super) fn half_of(&self, id: PeerIndex) -> u32 {
        match id.rank_in(self.size) {
            Some(_) => self.windows[self.polling] / 2,
            None => self.half_of_foreign(id).unwrap_or(1),
        }
    }

    /// Sets the size up to which messages to a peer are sent eagerly over a lane. `backpressure`: the peer asked for less.
    pub(super) fn limit_eager(&mut self, id: PeerIndex, lane: usize, backpressure: bool) {
        let eager = self.eager_limit(lane, backpressure);
        let copied = (self.limits[lane].buffered + 1).saturating_sub(wire::HEADER_BYTES);
        let pipelined = (self.limits[lane].pipelined)
            .min(self.eager_max.unwrap_or(usize::MAX))
            .min(protocol::pipelined::PIPELINED_MAX as usize);
        let peer = self.peer(id);
        peer.eager = eager;
        peer.pipelined = if backpressure { 0 } else { pipelined };
        peer.at_once = copied.min(eager + 1);
    }

    /// The lane of a peer has taken a message from its queue: the next one is tried at once again.
    #[inline]
    pub(super) fn accepts_again(&mut self, id: PeerIndex) {
        if let Some(Peer {
            at_once: 0,
            lane,
            flow,
            ..
        }) = self.peers.get(id)
        {
            self.limit_eager(id, *lane, flow.backpressure);
        }
    }

    /// The largest payload that is sent eagerly over a lane. `backpressure`: the peer asked for less.
    pub(super) fn eager_limit(&self, lane: usize, backpressure: bool) -> usize {
        let limits = &self.limits[lane];
        let eager = limits
            .eager
            .min(self.eager_max.unwrap_or(usize::MAX))
            .min(limits.message - wire::HEADER_BYTES);
        if backpressure {
            eager.min(EAGER_UNDER_BACKPRESSURE)
        } else {
            eager
        }
    }

    pub(super) fn lose(&mut self, id: PeerIndex, error: Error) {
        self.post_attended();
        self.happened();
        let peer = self.peer(id);
        if matches!(peer.link, ConnectionState::Lost(_)) {
            return;
        }
        peer.link = ConnectionState::Lost(error.clone());
        peer.flow.due = false;
        if std::mem::replace(&mut peer.flow.blocked, false) {
            self.blocked -= 1;
        }
        let peer = self.peer(id);
        peer.queue.clear();
        peer.streams.clear();
        peer.held.clear();
        self.end_arrivals_from(id);
        self.fail_requests_of(id, &error);
        self.tell_servers(id);
        self.fail_accesses_of(id, &error);
        if id.rank_in(self.size).is_none() {
            self.lose_foreign(id);
        }
    }
}
