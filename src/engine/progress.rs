//! Progress: polling the lanes, delivering what they report, and moving the queues to peers.

use super::peer::{ConnectionState, Peer};
use super::sleepers::Bed;
use super::wire::{FLAG_BACKPRESSURE, HEADER_BYTES, Header, MessageKind};
use super::{Engine, EngineState, LOOPBACK, Operation};
use crate::base::bytes::RawBytes;
use crate::base::error::{Error, Result};
use crate::err;
use crate::identity::{Context, PeerIndex, ProcessName};
use crate::lane::{Lane, Late, Sink};

/// Decides in which calls of progress the lanes are polled.
///
/// A message from the first lane should not wait for the poll of a slower lane that has nothing: a poll of libfabric's
/// `tcp` costs several times what shared memory needs for a message. So while the first lane is busy, another lane that
/// has long been quiet is skipped most of the time. A lane with operations under way is not skipped: its polls are needed
/// to send them, and report nothing until they are complete.
#[derive(Default)]
pub(super) struct Turns {
    /// Calls of [`Engine::progress`], wrapping.
    calls: u32,
    /// For how many more calls the first lane counts as busy.
    busy: u32,
    /// By lane: how many polls have found nothing since one last found something.
    quiet: Vec<u32>,
}

/// The number of buffers of packed messages that are kept.
pub(super) const SPARE: usize = 4;

/// For how many calls a lane counts as busy after it has delivered something.
const BUSY: u32 = 1 << 12;
/// After how many polls without a result a lane counts as quiet.
const QUIET: u32 = 64;
/// A quiet lane through which peers may read is polled in one of this many calls.
const REGISTERED_ONE_IN: u32 = 8;

impl Turns {
    pub(super) fn new(lanes: usize) -> Turns {
        Turns {
            quiet: vec![0; lanes],
            ..Turns::default()
        }
    }

    /// There is one more lane.
    pub(super) fn add_lane(&mut self) {
        self.quiet.push(0);
    }

    /// Begins a call.
    #[inline]
    fn begin(&mut self) {
        self.calls = self.calls.wrapping_add(1);
        self.busy = self.busy.saturating_sub(1);
    }

    /// Whether a lane is to be polled; every `one_in` calls it is in any case.
    #[inline]
    fn polls(&self, lane: usize, one_in: u32) -> bool {
        lane < 2 || self.busy == 0 || self.quiet[lane] < QUIET || self.calls.is_multiple_of(one_in)
    }

    /// Whether a lane is to be polled though it would be skipped, because its polls make progress for others: for
    /// everything that is being sent, where the transport has no thread of its own. Whether a peer reads registered
    /// memory can't be seen, so that counts less.
    #[inline]
    fn polls_undone(&self, lane: &dyn Lane) -> bool {
        !lane.is_drained() || (self.calls.is_multiple_of(REGISTERED_ONE_IN) && lane.is_registered())
    }

    /// What a poll found.
    #[inline]
    fn polled(&mut self, lane: usize, any: bool) {
        if lane >= 2 {
            self.quiet[lane] = if any {
                0
            } else {
                self.quiet[lane].saturating_add(1)
            };
        } else if any && lane == 1 {
            self.busy = BUSY;
        }
    }

    /// Called before a sleep: after it, all lanes are polled.
    fn rest(&mut self) {
        self.busy = 0;
    }
}

/// How far ahead of its turn a message may come before it counts as invalid.
const HELD_MAX: u32 = 1 << 16;

/// What [`Engine::arm`] found for a thread that goes to sleep.
#[derive(Clone, Copy, Debug)]
pub struct Armed {
    /// Some lane has no descriptor and has to be polled after a time.
    pub by_clock: bool,
    /// Such a lane sends something, or reads or offers memory: it moves only when it is polled, so a long sleep would hold it up.
    pub moves: bool,
    bed: Bed,
}

impl Engine {
    /// Makes the progress that can be made now. `true`: something happened. `waits`: the caller does nothing but repeat
    /// this call, so a lane that has long been quiet may be skipped in more calls.
    pub fn progress(&mut self, waits: bool) -> bool {
        let Engine {
            lanes, state, turns, ..
        } = self;
        let one_in = if waits { 64 } else { 8 };
        turns.begin();
        let before = state.events;
        let mut any = false;
        for (at, lane) in lanes.iter_mut().enumerate() {
            let due = match at {
                LOOPBACK => state.has_sent_itself(),
                _ => turns.polls(at, one_in) || turns.polls_undone(&**lane),
            };
            if !due {
                continue;
            }
            state.polling = at;
            match lane.poll(state) {
                Ok(some) => {
                    turns.polled(at, some);
                    any |= some;
                }
                Err(error) => state.lane_failed(at, error),
            }
        }
        for bell in &self.state.bells {
            any |= bell.look();
        }
        if !self.state.reads.is_empty() {
            self.start_reads();
        }
        if !self.state.accesses.is_empty() {
            self.start_accesses();
        }
        for _ in 0..self.state.sending.len() {
            let Some(id) = self.state.sending.pop_front() else {
                break;
            };
            self.state.peer(id).listed = false;
            if !self.flush(id) {
                self.state.list(id);
                self.report_late(id);
            }
        }
        if !self.state.deregistered.is_empty() {
            self.deregister();
        }
        // Handing a message to its lane may have ended its request, or it goes to this process itself.
        any || self.state.events != before || self.state.has_sent_itself()
    }

    /// After a lane has refused a message to a peer: tells the user, with the peer's address, if that has gone on for
    /// long, or marks the peer as lost if it can't be reached.
    #[cold]
    pub(super) fn report_late(&mut self, to: PeerIndex) {
        if let Some(peer) = self.state.peers.get(to)
            && peer.is_connected()
        {
            match self.lanes[peer.lane].late(to) {
                Some(Late::Tell(words)) => eprintln!("[weft] rank {}: {words}", self.state.me.number()),
                Some(Late::Lost(error)) => self.lose(to, error),
                None => {}
            }
        }
    }

    /// For waiting: collects descriptors that become readable when there is something to do, or when another thread has done something.
    /// `None`: there is something to do now. Otherwise [`Engine::has_slept`] has to follow.
    pub fn arm(&mut self, descriptors: &mut Vec<std::os::fd::RawFd>) -> Option<Armed> {
        self.turns.rest();
        let (lanes, peers) = (&self.lanes, &self.state.peers);
        let mut by_clock = !self.state.reads.is_empty()
            || !self.state.accesses.is_empty()
            || self.state.sending.iter().any(|&to| {
                let peer = peers.get(to);
                !peer.is_some_and(|peer| peer.is_connected() && lanes[peer.lane].rings_for_room(to))
            });
        if !self.lanes[0].is_drained() {
            return None;
        }
        for lane in &mut self.lanes {
            lane.silence();
        }
        // Before a lane executes its fence; they are looked at after it.
        self.show_sleep();
        let mut moves = false;
        for lane in &mut self.lanes[1..] {
            match lane.arm() {
                Some(descriptor) => descriptors.push(descriptor),
                None if lane.can_sleep() => return None,
                None => {
                    by_clock = true;
                    moves |= !lane.is_drained() || lane.is_registered();
                }
            }
        }
        if self.state.has_reached_words() {
            return None;
        }
        let (bed, descriptor) = self.state.sleepers.enter();
        match descriptor {
            Some(descriptor) => descriptors.push(descriptor),
            None => by_clock = true,
        }
        Some(Armed { by_clock, moves, bed })
    }

    /// How often progress has been made, wrapping.
    pub fn calls(&self) -> u32 {
        self.turns.calls
    }

    /// Whether a thread sleeps between [`Engine::arm`] and [`Engine::has_slept`].
    pub fn has_sleepers(&self) -> bool {
        self.state.sleepers.are_any()
    }

    /// After a sleep for which [`Engine::arm`] gave descriptors.
    pub fn has_slept(&mut self, armed: Armed) {
        self.state.sleepers.leave(armed.bed);
    }

    /// Whether a lane wants waiting to sleep rather than spin.
    #[inline]
    pub fn sleeps_early(&self) -> bool {
        self.sleeps_early
    }
}

impl EngineState {
    /// Whether there is a message to oneself that has not been taken.
    #[inline]
    fn has_sent_itself(&self) -> bool {
        let own = self.peers.get(self.me);
        own.is_some_and(|own| own.next_out != own.next_in)
    }

    /// Handles a message whose turn it is; its sender's [`Peer`] is up to date.
    #[inline(always)]
    fn deliver(&mut self, header: &Header<PeerIndex>, payload: RawBytes, taken: Taken) {
        if !taken.plain && !self.on_ack(header) {
            return self.nonsense_about_acks(header);
        }
        if taken.owed {
            self.owe(header.src);
        }
        if !self.on_message(header, payload) {
            self.nonsensical(header);
        }
    }

    #[cold]
    fn nonsense_about_acks(&mut self, header: &Header<PeerIndex>) {
        let text = format!(
            "an acknowledgement of messages ({}) that were not sent",
            header.ack
        );
        self.lose(header.src, nonsense(header.src, &text));
    }

    #[cold]
    pub(super) fn nonsensical(&mut self, header: &Header<PeerIndex>) {
        let text = format!("a message that makes no sense ({:?})", header.kind);
        self.lose(header.src, nonsense(header.src, &text));
    }

    /// The peer has taken more of our messages, or changes its backpressure. `false`: the header can't be valid.
    fn on_ack(&mut self, header: &Header<PeerIndex>) -> bool {
        let peer = self.peer(header.src);
        let lane = peer.lane;
        let taken = u32::from(header.ack.wrapping_sub(peer.flow.acked as u16));
        if taken > peer.next_out.wrapping_sub(peer.flow.acked) {
            return false;
        }
        peer.flow.acked = peer.flow.acked.wrapping_add(taken);
        let backpressure = header.flags & FLAG_BACKPRESSURE != 0;
        let changed = std::mem::replace(&mut peer.flow.backpressure, backpressure) != backpressure;
        // For a peer that is not connected yet, this takes effect when it is connected.
        let (changed, unblocked) = (
            changed && peer.link == ConnectionState::Up,
            peer.flow.blocked && peer.has_room(),
        );
        if changed {
            self.limit_eager(header.src, lane, backpressure);
        }
        if unblocked {
            self.peer(header.src).flow.blocked = false;
            self.blocked -= 1;
            self.list(header.src);
        }
        true
    }

    /// Notes that the peer must be sent an acknowledgement.
    #[cold]
    pub(super) fn owe(&mut self, to: PeerIndex) {
        let peer = self.peer(to);
        if matches!(peer.link, ConnectionState::Lost(_)) || peer.has_said_bye() {
            return;
        }
        peer.flow.due = true;
        self.seek(to);
        self.list(to);
    }

    /// Handles a message that did not come in its turn: it is kept until then, where the lane may reorder.
    #[cold]
    fn out_of_turn(&mut self, header: &Header<PeerIndex>, head: &[u8; HEADER_BYTES], payload: RawBytes) {
        let lane = self.polling;
        let ordered = self.limits[lane].ordered;
        let peer = self.peer(header.src);
        let ahead = header.seq.wrapping_sub(peer.next_in);
        if ordered || ahead > HELD_MAX || peer.held.contains_key(&header.seq) {
            let text = format!("message {} when {} was expected", header.seq, peer.next_in);
            self.lose(header.src, nonsense(header.src, &text));
        } else {
            peer.held.insert(header.seq, {
                let mut message = head.to_vec();
                payload.append_to(&mut message);
                message
            });
        }
    }

    /// Handles messages that came before their turn and whose turn it is now.
    #[cold]
    fn deliver_held(&mut self, from: PeerIndex) {
        loop {
            let half = self.half_of(from);
            let peer = self.peer(from);
            let Some(bytes) = peer.held.remove(&peer.next_in) else {
                break;
            };
            if let Some((header, payload)) = Header::parse(&bytes) {
                let header = header.of(from);
                let taken = Taken::by(peer, &header, half);
                self.deliver(&header, payload.into(), taken);
            }
        }
    }

    fn lane_failed(&mut self, lane: usize, error: Error) {
        let of_lane = |(_, peer): &(PeerIndex, &Peer)| {
            peer.lane == lane && (peer.is_connected() || peer.link == ConnectionState::Parting)
        };
        let lost: Vec<PeerIndex> = self.peers.iter().filter(of_lane).map(|(id, _)| id).collect();
        for id in lost {
            self.lose(id, error.clone());
        }
    }
}

#[cold]
fn nonsense(from: PeerIndex, what: &str) -> Error {
    err!(
        Other,
        "process {} sent {what}; the connection to it is closed",
        from.number()
    )
}

impl Sink for EngineState {
    #[inline]
    fn message(&mut self, bytes: &[u8]) {
        match bytes.split_first_chunk() {
            Some((header, payload)) => self.parts(header, payload.into()),
            None => self.unauthenticated += 1,
        }
    }

    #[inline]
    fn parts(&mut self, head: &[u8; HEADER_BYTES], payload: RawBytes) {
        let header = Header::decode(head);
        let from_self = header.src == self.name.rank;
        if header.token != self.token || header.src >= self.size || from_self != (self.polling == LOOPBACK) {
            return self.of_another_job(head, payload);
        }
        let half = self.windows[self.polling] / 2;
        self.arrived(&header.of(PeerIndex::of_rank(header.src)), half, head, payload);
    }

    fn completed(&mut self, token: u64, result: Result<()>) {
        let Ok(token) = u32::try_from(token) else {
            return;
        };
        if self.operations.get(token).is_none() {
            return;
        }
        match self.operations.remove(token) {
            // See `Engine::tell`.
            Operation::Message { ack: true, .. } => {}
            Operation::Message {
                peer, request, owned, ..
            } => {
                if self.spare.len() < SPARE {
                    self.spare.extend(owned);
                }
                self.message_left(peer, request, result);
            }
            Operation::Read { request, bytes } => self.read_ended(request, result.map(|()| bytes)),
            Operation::OneSided(part) => self.part_ended(part, result),
        }
    }

    fn peer_lost(&mut self, peer: PeerIndex, error: Error) {
        if peer.rank_in(self.size).is_some() || self.peers.get(peer).is_some() {
            self.lose(peer, error);
        }
    }

    fn sender_lost(&mut self, sender: ProcessName, error: Error) {
        if let Some(peer) = self.place_of(sender) {
            self.lose(peer, error);
        }
    }
}

impl EngineState {
    /// A message that does not carry this job's token: from another job, or from an unauthenticated sender.
    #[inline(never)]
    fn of_another_job(&mut self, head: &[u8; HEADER_BYTES], payload: RawBytes) {
        let header = Header::decode(head);
        let Some((from, half)) = self.foreign_sender(&header, payload) else {
            return;
        };
        let header = header.of(from);
        // `MPI_COMM_WORLD` is another communicator in each job, with the same context.
        let matched = matches!(header.kind, MessageKind::EAGER | MessageKind::RTS);
        if matched && Context::of_bits(header.context).is_of_one_job() {
            return self.nonsensical(&header);
        }
        self.arrived(&header, half, head, payload);
    }

    /// A message of a process that may send to this one. `half`: of its window.
    #[inline(always)]
    fn arrived(
        &mut self,
        header: &Header<PeerIndex>,
        half: u32,
        head: &[u8; HEADER_BYTES],
        payload: RawBytes,
    ) {
        let peer = self.peers.meet(header.src);
        if matches!(peer.link, ConnectionState::Lost(_)) {
            return;
        }
        if header.seq != peer.next_in {
            return self.out_of_turn(header, head, payload);
        }
        let more = !peer.held.is_empty();
        let taken = Taken::by(peer, header, half);
        self.deliver(header, payload, taken);
        if more {
            self.deliver_held(header.src);
        }
    }
}

/// Updates what is known about the sender of a message.
#[derive(Clone, Copy)]
struct Taken {
    /// It contains nothing new except how many messages the sender has taken, and nothing waits for that.
    plain: bool,
    /// An acknowledgement is due after this many messages.
    owed: bool,
}

impl Taken {
    /// Counts a peer's next message as taken. `half`: half of its window.
    #[inline(always)]
    fn by(peer: &mut Peer, header: &Header<PeerIndex>, half: u32) -> Taken {
        peer.next_in = header.seq.wrapping_add(1);
        let owed = !peer.flow.due && peer.next_in.wrapping_sub(peer.flow.told) >= half;
        let taken = u32::from(header.ack.wrapping_sub(peer.flow.acked as u16));
        let plain = !peer.flow.blocked
            && (header.flags & FLAG_BACKPRESSURE != 0) == peer.flow.backpressure
            && taken <= peer.next_out.wrapping_sub(peer.flow.acked);
        if plain {
            peer.flow.acked = peer.flow.acked.wrapping_add(taken);
        }
        Taken { plain, owed }
    }
}

#[cfg(test)]
mod tests {
    use crate::identity::JobId;
    use std::os::fd::RawFd;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::Parts;
    use super::*;
    use crate::data::pieces::Piece;
    use crate::lane::loopback::Loopback;
    use crate::lane::{Limits, Region, RemoteKey, Sent};

    /// How often lane 2 is polled in a number of calls, where lane 1 always has something and lane 2 as given.
    fn polls(calls: u32, one_in: u32, any: impl Fn(u32) -> bool) -> u32 {
        let mut turns = Turns::new(3);
        let mut polled = 0;
        for call in 0..calls {
            turns.begin();
            assert!(turns.polls(0, one_in) && turns.polls(1, one_in));
            turns.polled(1, true);
            if turns.polls(2, one_in) {
                polled += 1;
                turns.polled(2, any(call));
            }
        }
        polled
    }

    #[test]
    fn a_quiet_lane_is_left_out_beside_a_busy_one_but_never_starved() {
        assert_eq!(polls(10_000, 64, |_| true), 10_000, "it is not quiet");
        assert!((QUIET..QUIET + 10_000 / 64 + 2).contains(&polls(10_000, 64, |_| false)));
        assert!((QUIET..QUIET + 10_000 / 8 + 2).contains(&polls(10_000, 8, |_| false)));
        // Once it has something, it is polled every time again.
        assert!(polls(20_000, 64, |call| call >= 10_000) > 9_900);
    }

    /// A lane in which nothing arrives, or always something, and which counts its polls.
    struct Counting {
        polls: Arc<AtomicU32>,
        any: bool,
        drained: bool,
        registered: bool,
    }

    impl Lane for Counting {
        fn name(&self) -> String {
            "counting".into()
        }
        fn limits(&self) -> Limits {
            Loopback::default().limits()
        }
        fn address(&self) -> Vec<u8> {
            Vec::new()
        }
        fn connect(&mut self, _: PeerIndex, _: &[u8]) -> Result<()> {
            Ok(())
        }
        unsafe fn send(&mut self, _: PeerIndex, _: &[u8], _: Piece, _: u64) -> Result<Sent> {
            Ok(Sent::Again)
        }
        fn poll(&mut self, _: &mut dyn Sink) -> Result<bool> {
            self.polls.fetch_add(1, Ordering::Relaxed);
            Ok(self.any)
        }
        unsafe fn register(&mut self, _: &[Piece]) -> Result<(Region, RemoteKey)> {
            Err(err!(Other, "no memory is registered here"))
        }
        fn deregister(&mut self, _: Region) {}
        unsafe fn read(&mut self, _: PeerIndex, _: &RemoteKey, _: u64, _: &[Piece], _: u64) -> Result<Sent> {
            Ok(Sent::Again)
        }
        fn arm(&mut self) -> Option<RawFd> {
            None
        }
        fn can_sleep(&self) -> bool {
            false
        }
        fn is_drained(&self) -> bool {
            self.drained
        }
        fn is_registered(&self) -> bool {
            self.registered
        }
    }

    /// How often a lane whose polls find nothing is polled in a number of calls, beside a busy one.
    fn polls_beside_a_busy_one(calls: u32, drained: bool, registered: bool) -> u32 {
        let lane = |any, drained, registered| Counting {
            polls: Arc::default(),
            any,
            drained,
            registered,
        };
        let (busy, quiet) = (lane(true, true, false), lane(false, drained, registered));
        let polls = quiet.polls.clone();
        let mut engine = Engine::new(Parts {
            me: ProcessName {
                job: JobId(1),
                rank: 0,
            },
            size: 3,
            token: 1,
            agreed: 0,
            lanes: vec![Box::new(Loopback::default()), Box::new(busy), Box::new(quiet)],
            eager_max: None,
            rma: true,
            first_generation: 0,
            window: 2,
            unexpected_max: u64::MAX,
        });
        for _ in 0..calls {
            engine.progress(true);
        }
        polls.load(Ordering::Relaxed)
    }

    #[test]
    fn a_lane_that_has_something_under_way_is_polled_beside_a_busy_one() {
        const CALLS: u32 = 64 * 100;
        let left_out = polls_beside_a_busy_one(CALLS, true, false);
        assert!((QUIET..QUIET + CALLS / 64 + 2).contains(&left_out), "{left_out}");
        assert_eq!(polls_beside_a_busy_one(CALLS, false, false), CALLS);
        assert_eq!(polls_beside_a_busy_one(CALLS, false, true), CALLS);
        // A peer may be reading; this process can't know whether one does.
        let registered = polls_beside_a_busy_one(CALLS, true, true);
        assert!(
            (CALLS / REGISTERED_ONE_IN..CALLS / 4).contains(&registered),
            "{registered}"
        );
    }

    #[test]
    fn beside_an_idle_lane_and_after_a_sleep_all_are_polled() {
        let mut turns = Turns::new(3);
        for _ in 0..2 * BUSY {
            turns.begin();
            turns.polled(1, false);
            turns.polled(2, false);
            assert!(turns.polls(2, 64));
        }
        turns.polled(1, true);
        turns.calls = 1;
        assert!(!turns.polls(2, 64));
        turns.rest();
        assert!(turns.polls(2, 64));
    }
}
