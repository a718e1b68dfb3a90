//! Processes of other jobs: how the two get to know each other, and how they part.
//!
//! The messages of a process to one of another job are a *conversation*, which can end and begin anew, since jobs come and go while this
//! process lives. It begins with `Hello`, which contains the sender's name and card: the receiver need not know the sender's job, nor have
//! finished making the communicator. A process that has heard `Hello` says none itself. Over a lane that keeps no order, nothing follows
//! `Hello` before the receiver has answered.
//!
//! A conversation ends when each side has said `Bye`: its last message, for which it waits until all else has left and no send or receive
//! between the two is under way. One side begins, when no communicator connects it with the other ([`Engine::part`]); the other answers as
//! soon as it can, even if it has a communicator with that process. That is no loss: what either sends from then on waits, and begins the
//! next conversation when this one has ended. Neither side has any state of the conversation then, and its lanes have none either.
//!
//! A process that takes leave over a lane without order would have to be sure that nothing is late: there, conversations do not end.
//!
//! Only the index and name of a process stay ([`Directory`](crate::identity::Directory)), so that groups stay valid.

use std::collections::VecDeque;

use super::business_card::BusinessCard;
use super::numbering::derived;
use super::peer::{ConnectionState, Outgoing, Payload, Peer};
use super::request::{ReceiveStage, SendStage, Work};
use super::transmit::Words;
use super::wire::{HEADER_BYTES, Header, MessageKind};
use super::{Engine, EngineState, LOOPBACK, Operation, WINDOW_MAX, WINDOW_MIN};
use crate::base::bytes::RawBytes;
use crate::err;
use crate::identity::{PeerIndex, ProcessName};
use crate::lane::{Limits, Sink};

/// The part of a lane's queue that one process of another job may use: how many of them there will be is not known.
const FOREIGN_SHARE: usize = 16;

/// What is known of a process of another job beside what is known of all peers.
#[derive(Default)]
pub struct Foreign {
    /// Its card, once it is known.
    card: Option<BusinessCard>,
    /// By lane: how many messages may be on their way to it or from it. Empty as long as the card is not known.
    windows: Vec<u32>,
    /// It has said `Hello`.
    heard_hello: bool,
    /// It knows this process: from a `Hello` that the lane has taken, or as it has said `Hello` itself.
    knows: bool,
    /// `Bye` is to be said.
    leaves: bool,
    /// `Bye` has been said.
    pub(super) said_bye: bool,
    /// It has said `Bye`.
    heard_bye: bool,
    /// It is lost: nothing is to be said to it.
    lost: bool,
    /// Its lane has been told that no more is sent to it.
    disconnected: bool,
    /// What is sent in the next conversation.
    pub(super) waiting: VecDeque<Outgoing>,
    /// What it has sent in the next conversation already: messages as they came, each with its lane. No more than a window, as they are not
    /// acknowledged.
    early: Vec<(usize, Vec<u8>)>,
}

impl Foreign {
    /// Whether this process has to do something for the conversation to begin or end.
    pub fn is_due(&self, link: &ConnectionState) -> bool {
        match link {
            ConnectionState::Unknown | ConnectionState::LookingUp => self.heard_hello,
            ConnectionState::Greeting => !self.knows,
            ConnectionState::Parting => !self.said_bye || self.heard_bye,
            ConnectionState::Up | ConnectionState::Lost(_) => false,
        }
    }

    /// How many messages may be on their way over a lane.
    pub fn window(&self, lane: usize) -> u32 {
        self.windows.get(lane).copied().unwrap_or(WINDOW_MIN as u32)
    }

    /// Whether its messages can be taken: it has introduced itself, or this process has.
    pub fn is_known(&self) -> bool {
        self.card.is_some()
    }
}

/// How many messages of one process of another job may be on their way over a lane, as far as this process is concerned.
pub(super) fn window(limits: &Limits) -> u16 {
    (limits.queue / FOREIGN_SHARE).clamp(WINDOW_MIN, WINDOW_MAX) as u16
}

/// The payload of a `Hello`.
fn hello(name: ProcessName, card: &BusinessCard) -> Vec<u8> {
    [&name.encode()[..], &card.encode()].concat()
}

/// Name and card in a `Hello`, if it is one.
fn read_hello(payload: RawBytes) -> Option<(ProcessName, BusinessCard)> {
    let mut bytes = Vec::new();
    payload.append_to(&mut bytes);
    let (name, card) = bytes.split_first_chunk()?;
    Some((ProcessName::decode(name), BusinessCard::decode(card).ok()?))
}

impl Engine {
    /// This process may be sent to by a process of another job, and send to it, from now on. Called for each process that a communicator
    /// brings, again and again: a process that is known stays as it is. One [`Engine::part`] takes all of it back.
    pub fn meet(&mut self, peer: PeerIndex) {
        let state = &mut self.state;
        if peer.rank_in(state.size).is_none() {
            let name = state.directory.name(peer);
            state.numberings.admit(state.token, name, peer, true);
        }
    }

    /// No communicator connects this process with one of another job any more: says goodbye to it and forgets it, once it has said the same.
    /// A lost one is forgotten at once, and may come again as new. Its index and name stay in the directory. Over a lane that keeps no
    /// order nothing is said or forgotten.
    pub fn part(&mut self, peer: PeerIndex) {
        let state = &mut self.state;
        if peer.rank_in(state.size).is_some() {
            return;
        }
        let name = state.directory.name(peer);
        state.numberings.part(name);
        let Some(known) = state.peers.get_mut(peer) else {
            state.drop_messages_of(peer);
            state.numberings.forget(name);
            return;
        };
        let foreign = known.foreign.get_or_insert_default();
        let has_more = !known.queue.is_empty() || !known.streams.is_empty();
        match known.link {
            ConnectionState::Unknown | ConnectionState::LookingUp if !foreign.heard_hello && !has_more => {
                return self.forget(peer);
            }
            ConnectionState::Unknown | ConnectionState::LookingUp | ConnectionState::Greeting => {
                foreign.leaves = true;
            }
            ConnectionState::Up => {
                if !state.limits[known.lane].ordered {
                    return;
                }
                foreign.leaves = true;
                known.link = ConnectionState::Parting;
            }
            ConnectionState::Parting => {}
            ConnectionState::Lost(_) => known.give_up_on(),
        }
        state.list(peer);
        self.flush(peer);
    }

    /// Brings a conversation as far as it can get where messages can't simply be sent. `None`: those in the queue can be now. Otherwise the
    /// outcome of [`Engine::flush`].
    #[cold]
    pub(super) fn settle(&mut self, to: PeerIndex) -> Option<bool> {
        loop {
            let peer = self.state.peer(to);
            let lane = peer.lane;
            let Some(foreign) = &mut peer.foreign else {
                return (peer.link != ConnectionState::Up).then_some(false);
            };
            match peer.link {
                ConnectionState::Unknown | ConnectionState::LookingUp => {
                    let card = foreign.card.clone().filter(|_| foreign.heard_hello);
                    let Some(card) = card else { return Some(false) };
                    self.state.wanted.retain(|wanted| *wanted != to);
                    self.connect(to, &card);
                }
                ConnectionState::Greeting => {
                    let said = foreign.knows || self.say_hello(to);
                    let ordered = self.state.limits[lane].ordered;
                    if !said || !ordered && !self.state.peer(to).has_answered() {
                        return Some(false);
                    }
                    self.state.is_heard(to);
                }
                ConnectionState::Up => return None,
                ConnectionState::Parting => {
                    let over = foreign.said_bye;
                    return over.then(|| self.end_conversation(to));
                }
                ConnectionState::Lost(_) => return Some(false),
            }
        }
    }

    /// `false`: the lane does not take it now, or the peer is lost.
    fn say_hello(&mut self, to: PeerIndex) -> bool {
        let payload = hello(self.state.name, &self.card());
        let lane = self.state.peer(to).lane;
        let most = self.state.limits[lane].message;
        if HEADER_BYTES + payload.len() > most {
            let len = payload.len();
            self.lose(
                to,
                err!(
                    Intern,
                    "the {len} bytes by which this process introduces itself to one of another job are too long for a message"
                ),
            );
            return false;
        }
        match self.send_outgoing(to, bare(MessageKind::HELLO, Payload::Owned(payload))) {
            Ok(None) => {
                if let Some(foreign) = &mut self.state.peer(to).foreign {
                    foreign.knows = true;
                }
                true
            }
            Ok(Some(_)) => false,
            Err(error) => {
                self.lose(to, error);
                false
            }
        }
    }

    /// Says `Bye`, now that everything else has left. `false`: it can't yet.
    pub(super) fn say_bye(&mut self, to: PeerIndex) -> bool {
        if self.state.has_under_way_with(to) {
            self.tell(to);
            return false;
        }
        match self.send_outgoing(to, bare(MessageKind::BYE, Payload::NONE)) {
            Ok(None) => {
                if let Some(foreign) = &mut self.state.peer(to).foreign {
                    foreign.said_bye = true;
                }
                self.end_conversation(to)
            }
            Ok(Some(_)) => false,
            Err(error) => {
                self.lose(to, error);
                true
            }
        }
    }

    /// After `Bye`: forgets the peer, if it has said the same. `false`: a lane has to end something first.
    fn end_conversation(&mut self, to: PeerIndex) -> bool {
        let in_lane = self
            .state
            .operations
            .iter()
            .any(|(_, operation)| match operation {
                Operation::Message { peer, .. } => *peer == to,
                Operation::Read { request, .. } => self.state.is_reading_from(*request, to),
                Operation::OneSided(part) => part.peer == to,
            });
        let peer = self.state.peer(to);
        let lane = peer.lane;
        let Some(foreign) = &mut peer.foreign else {
            return true;
        };
        if in_lane {
            return !foreign.heard_bye;
        }
        let heard_bye = foreign.heard_bye;
        if !std::mem::replace(&mut foreign.disconnected, true)
            && let Some(lane) = self.lanes.get_mut(lane)
        {
            lane.disconnect(to);
        }
        if heard_bye {
            self.forget(to);
        }
        true
    }

    /// Drops what is known of a process. What was to be sent to it in the next conversation begins that.
    fn forget(&mut self, id: PeerIndex) {
        let state = &mut self.state;
        let name = state.directory.name(id);
        if !state.numberings.is_met(name) {
            state.drop_messages_of(id);
        }
        state.end_arrivals_from(id);
        let Some(peer) = state.peers.remove(id) else {
            return;
        };
        let Peer {
            lane, flow, foreign, ..
        } = *peer;
        let foreign = foreign.map(|foreign| *foreign).unwrap_or_default();
        state.blocked -= u32::from(flow.blocked);
        state.sending.retain(|listed| *listed != id);
        state.wanted.retain(|wanted| *wanted != id);
        state.numberings.forget(name);
        if !foreign.disconnected
            && let Some(lane) = self.lanes.get_mut(lane)
        {
            lane.disconnect(id);
        }
        // Where it has not taken leave, its first messages may be waiting in the lane.
        if foreign.heard_bye {
            for lane in &mut self.lanes[LOOPBACK + 1..] {
                lane.release(name, !foreign.lost);
            }
        }
        self.state.happened();
        if !foreign.waiting.is_empty() {
            let peer = self.state.peer(id);
            peer.queue = foreign.waiting;
            match foreign.card {
                Some(card) if !foreign.lost => self.connect(id, &card),
                _ => self.state.seek(id),
            }
            self.state.list(id);
        }
        for (lane, bytes) in foreign.early {
            let polled = std::mem::replace(&mut self.state.polling, lane);
            self.state.message(&bytes);
            self.state.polling = polled;
        }
    }
}

/// A message of the engine's that consists of its kind and a payload.
fn bare(kind: MessageKind, payload: Payload) -> Outgoing {
    Outgoing {
        words: Words {
            kind,
            flags: 0,
            tag: 0,
            context: 0,
            arg: 0,
        },
        payload,
        request: None,
    }
}

impl Peer {
    /// Ends the conversation with a process that is lost: nothing is said.
    fn give_up_on(&mut self) {
        self.link = ConnectionState::Parting;
        let foreign = self.foreign.get_or_insert_default();
        (foreign.said_bye, foreign.heard_bye, foreign.lost) = (true, true, true);
    }

    /// Whether it has sent anything in this conversation.
    fn has_answered(&self) -> bool {
        self.next_in != 0
            || !self.held.is_empty()
            || self.foreign.as_ref().is_some_and(|foreign| foreign.heard_hello)
    }
}

impl EngineState {
    /// The token that messages to the process of a card must carry, if they come from this one.
    pub(super) fn token_for(&self, peer: PeerIndex, card: &BusinessCard) -> u64 {
        match peer.rank_in(self.size) {
            Some(_) => card.token,
            None => derived(card.token, self.name.job),
        }
    }

    /// A process of another job can be reached over a lane, by its card.
    pub(super) fn link_up_foreign(&mut self, id: PeerIndex, lane: usize, card: &BusinessCard) {
        self.learn(id, card);
        let name = self.directory.name(id);
        // Its answers need no `Hello`.
        self.numberings.admit(self.token, name, id, false);
        let peer = self.peer(id);
        peer.link = ConnectionState::Greeting;
        peer.lane = lane;
        let foreign = peer.foreign.get_or_insert_default();
        foreign.knows |= foreign.heard_hello;
        if foreign.heard_bye {
            // It takes all that comes, but acknowledges nothing any more.
            peer.flow.window = u32::MAX;
        } else {
            peer.flow.window = foreign.window(lane);
        }
    }

    /// The peer in front of [`ConnectionState::Up`] knows this process: the conversation goes on.
    fn is_heard(&mut self, id: PeerIndex) {
        let peer = self.peer(id);
        let (lane, backpressure) = (peer.lane, peer.flow.backpressure);
        let leaves = match &peer.foreign {
            Some(foreign) => foreign.heard_bye || foreign.leaves && self.limits[lane].ordered,
            None => false,
        };
        self.peer(id).link = match leaves {
            true => ConnectionState::Parting,
            false => ConnectionState::Up,
        };
        self.limit_eager(id, lane, backpressure);
    }

    /// Notes the card of a process of another job.
    fn learn(&mut self, id: PeerIndex, card: &BusinessCard) {
        let windows = (self.networks.iter().zip(&self.limits))
            .map(|(network, limits)| {
                let theirs = card.lanes.iter().find(|lane| lane.network == *network);
                let theirs = theirs.map_or(WINDOW_MIN as u16, |lane| lane.window);
                u32::from(window(limits).min(theirs))
            })
            .collect();
        let foreign = self.peer(id).foreign.get_or_insert_default();
        foreign.windows = windows;
        foreign.card = Some(card.clone());
    }

    /// Who sends a message with a token that no known process has: one that says `Hello`, if its token is the right one for its job.
    #[cold]
    pub(super) fn stranger(&mut self, header: &Header, payload: RawBytes) -> Option<PeerIndex> {
        if header.kind != MessageKind::HELLO {
            return None;
        }
        let (name, _) = read_hello(payload)?;
        if name.job == self.name.job
            || name.rank != header.src
            || header.token != derived(self.token, name.job)
        {
            return None;
        }
        let peer = self.directory.place(name)?;
        self.numberings.admit(self.token, name, peer, false);
        Some(peer)
    }

    /// Half of the window of a process of another job on the lane that is being polled. `None`: this process does not know it yet.
    #[inline]
    pub(super) fn half_of_foreign(&self, from: PeerIndex) -> Option<u32> {
        let foreign = self.peers.get(from)?.foreign.as_ref()?;
        foreign.is_known().then(|| foreign.window(self.polling) / 2)
    }

    /// A process introduces itself. `false`: it makes no sense.
    pub(super) fn on_hello(&mut self, header: &Header<PeerIndex>, payload: RawBytes) -> bool {
        let from = header.src;
        if from.rank_in(self.size).is_some() {
            return false;
        }
        let Some((name, card)) = read_hello(payload) else {
            return false;
        };
        if name != self.directory.name(from) {
            return false;
        }
        self.learn(from, &card);
        let (lane, ordered) = (self.polling, self.limits[self.polling].ordered);
        let foreign = self.peer(from).foreign.get_or_insert_default();
        foreign.heard_hello = true;
        // It sends no more before this process has answered.
        if !ordered || foreign.window(lane) < 4 {
            self.owe(from);
        }
        self.list(from);
        self.happened();
        true
    }

    /// A process ends the conversation. `false`: it makes no sense.
    pub(super) fn on_bye(&mut self, from: PeerIndex) -> bool {
        let peer = self.peer(from);
        let Some(foreign) = &mut peer.foreign else {
            return false;
        };
        foreign.heard_bye = true;
        peer.flow.window = u32::MAX;
        if peer.link == ConnectionState::Up {
            peer.link = ConnectionState::Parting;
        }
        if std::mem::replace(&mut peer.flow.blocked, false) {
            self.blocked -= 1;
        }
        self.list(from);
        self.happened();
        true
    }

    /// A message of a process of another job, or of nobody known: whose, and half of its window. `None`: it is not to be taken.
    #[inline(never)]
    pub(super) fn foreign_sender(&mut self, header: &Header, payload: RawBytes) -> Option<(PeerIndex, u32)> {
        let known = self.numberings.sender(header.token, header.src);
        let known = known.filter(|_| self.polling != LOOPBACK);
        let Some(from) = known.or_else(|| self.stranger(header, payload)) else {
            self.unauthenticated += 1;
            return None;
        };
        match self.peers.get(from) {
            Some(Peer {
                foreign: Some(foreign),
                ..
            }) if foreign.heard_bye => {
                // What a lost one still sends is nobody's. After `Bye` nothing comes but `Hello` and what follows that, if it has heard this
                // process's `Bye`, too.
                if !foreign.lost {
                    let goes_on = header.kind == MessageKind::HELLO || !foreign.early.is_empty();
                    match foreign.said_bye && goes_on {
                        true => self.keep_for_later(from, header, payload),
                        false => self.nonsensical(&header.of(from)),
                    }
                }
                return None;
            }
            _ => {}
        }
        let half = match self.half_of_foreign(from) {
            Some(half) => half,
            None if header.kind == MessageKind::HELLO => WINDOW_MIN as u32 / 2,
            // Of an earlier conversation, which has ended here because the process was lost.
            None => {
                self.unauthenticated += 1;
                return None;
            }
        };
        Some((from, half))
    }

    /// Keeps a message of the next conversation until this one is forgotten.
    fn keep_for_later(&mut self, from: PeerIndex, header: &Header, payload: RawBytes) {
        let mut bytes = header.encode().to_vec();
        payload.append_to(&mut bytes);
        let lane = self.polling;
        if let Some(foreign) = &mut self.peer(from).foreign {
            foreign.early.push((lane, bytes));
        }
        self.list(from);
    }

    /// Whether a send to a peer or a receive from it has begun and not ended, so that further messages of it are to come.
    fn has_under_way_with(&self, id: PeerIndex) -> bool {
        self.requests.iter().any(|(_, request)| {
            request.is_under_way()
                && match &request.work {
                    Work::Send(work) => work.peer == id && work.stage != SendStage::Queued,
                    Work::Receive(work) => match &work.stage {
                        ReceiveStage::Fetching(fetch) => fetch.peer == id,
                        ReceiveStage::Posted { .. } => false,
                    },
                    Work::None | Work::Collective(_) | Work::Both(_) | Work::Sent(_) => false,
                }
        })
    }

    /// Whether a request reads memory of a peer.
    fn is_reading_from(&self, request: super::request::RequestId, id: PeerIndex) -> bool {
        match self.requests.get(request).map(|request| &request.work) {
            Some(Work::Receive(work)) => match &work.stage {
                ReceiveStage::Fetching(fetch) => fetch.peer == id,
                ReceiveStage::Posted { .. } => false,
            },
            _ => false,
        }
    }

    /// Drops the messages of a process that no receive has taken: none will.
    fn drop_messages_of(&mut self, id: PeerIndex) {
        let envelopes: Vec<_> = (self.unexpected.iter())
            .filter(|(_, message)| message.from() == id)
            .map(|(envelope, _)| *envelope)
            .collect();
        for envelope in envelopes {
            if let Some(found) = self
                .unexpected
                .find_exact(&envelope, |message| message.from() == id)
            {
                let (_, message) = self.unkeep(found);
                self.forget(message);
            }
        }
    }

    /// A process of another job is lost: where no communicator connects this process with it, it is forgotten.
    pub(super) fn lose_foreign(&mut self, id: PeerIndex) {
        let met = self.numberings.is_met(self.directory.name(id));
        let peer = self.peer(id);
        let Some(foreign) = &mut peer.foreign else { return };
        foreign.waiting.clear();
        if !met && (foreign.leaves || foreign.heard_bye) {
            peer.give_up_on();
            self.list(id);
        }
    }

    /// Whether something waits for a conversation to end.
    pub(super) fn has_waiting(&self) -> bool {
        let waits = |(_, peer): (PeerIndex, &Peer)| {
            let foreign = peer.foreign.as_ref();
            foreign.is_some_and(|foreign| !foreign.waiting.is_empty())
        };
        !self.numberings.is_empty() && self.peers.iter().any(waits)
    }
}

impl Engine {
    /// Adds a lane, after the others: for processes of other jobs, which the lanes of this job may not reach.
    pub fn add_lane(&mut self, lane: Box<dyn crate::lane::Lane>) {
        let limits = lane.limits();
        let peers = (self.state.size.max(2) - 1) as usize;
        self.turns.add_lane();
        self.sleeps_early |= lane.sleeps_early();
        self.state.networks.push(lane.network());
        self.state.windows.push(super::own_window(&limits, peers));
        self.state.limits.push(limits);
        self.lanes.push(lane);
        if self.state.counting != 0
            && let Some(lane) = self.lanes.last_mut()
        {
            lane.count_all(true);
        }
    }
}
