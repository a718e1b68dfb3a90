//! One engine alone: the test plays its peer, message by message, over a lane that records what it is given. So each
//! answer and each bound is tested by itself; `tests/simulation` tests many ranks together.

mod endings;
mod foreign;
mod nonsense;
mod numbering;
mod one_sided;
mod queue;

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;

use parking_lot::Mutex;

use super::business_card::{BusinessCard, LaneEntry};
use super::matching::{Envelope, Pattern};
use super::peer::ConnectionState;
use super::protocol::rendezvous::Rts;
use super::protocol::rendezvous_data::Grant;
use super::receive::Received;
use super::request::{Outcome, RequestId};
use super::wire::{FLAG_BACKPRESSURE, FLAG_CANCELLED, FLAG_PIPELINED, Header, MessageKind};
use super::{Engine, Parts, Send};
use crate::base::error::{Class, Result};
use crate::data::datatype::Datatype;
use crate::data::memory::Memory;
use crate::data::pieces::{Piece, total};
use crate::identity::{Context, JobId, PeerIndex, ProcessName};
use crate::lane::atomic::Atomics;
use crate::lane::loopback::Loopback;
use crate::lane::{Lane, Limits, Region, RemoteKey, Sent, Sink};

const ME: PeerIndex = PeerIndex::new(0);
pub(super) const PEER: PeerIndex = PeerIndex::new(1);
const CONTEXT: Context = Context::WORLD;
const JOB: JobId = JobId(1);
const TOKEN: u64 = 77;
/// Data messages of a rendezvous that may be under way.
const WINDOW: u32 = 2;
const MESSAGE: usize = 1000 + super::wire::HEADER_BYTES;
const UNEXPECTED_MAX: u64 = 1000;

/// The two ends of the played lane.
#[derive(Default)]
struct Wire {
    /// What the peer has sent.
    coming: VecDeque<Vec<u8>>,
    /// What the engine has sent.
    sent: Vec<Vec<u8>>,
    /// What the peer has registered.
    registered: Vec<u8>,
    /// Offset and length of each read of that.
    reads: Vec<(u64, usize)>,
    /// How many registrations of the engine's own memory there are.
    regions: usize,
    /// It accepts no message now.
    full: bool,
    /// How many messages it was given, accepted or not.
    tries: u32,
    /// It accepts no message of this kind now.
    refuses: Option<MessageKind>,
    /// The calls of `count_all`.
    counts: Vec<bool>,
    /// It holds what it is given until the test ends it.
    keeps: bool,
    kept: Vec<u64>,
    /// It accepts no read now.
    reads_nothing: bool,
    /// It has not reported yet that all it took is gone.
    busy: bool,
    /// What looking for messages comes to, once.
    failure: Option<crate::Error>,
}

struct Played {
    limits: Limits,
    wire: Arc<Mutex<Wire>>,
}

impl Lane for Played {
    fn name(&self) -> String {
        "played".into()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn address(&self) -> Vec<u8> {
        Vec::new()
    }

    fn connect(&mut self, _: PeerIndex, _: &[u8]) -> Result<()> {
        Ok(())
    }

    unsafe fn send(&mut self, _: PeerIndex, header: &[u8], payload: Piece, token: u64) -> Result<Sent> {
        let mut wire = self.wire.lock();
        wire.tries += 1;
        let kind = Header::parse(header).map(|(header, _)| header.kind);
        if wire.full || wire.refuses.is_some() && kind == wire.refuses {
            return Ok(Sent::Again);
        }
        // SAFETY: the caller says that the payload is readable.
        let bytes = unsafe { payload.bytes() }.to_vec();
        wire.sent.push([header, &bytes].concat());
        if wire.keeps && header.len() + payload.len > self.limits.buffered {
            wire.kept.push(token);
            return Ok(Sent::Pending);
        }
        Ok(Sent::Done)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<bool> {
        let (coming, done) = {
            let mut wire = self.wire.lock();
            if let Some(failure) = wire.failure.take() {
                return Err(failure);
            }
            let done = if wire.keeps {
                Vec::new()
            } else {
                std::mem::take(&mut wire.kept)
            };
            (std::mem::take(&mut wire.coming), done)
        };
        let any = !coming.is_empty() || !done.is_empty();
        coming.iter().for_each(|message| sink.message(message));
        done.into_iter().for_each(|token| sink.completed(token, Ok(())));
        Ok(any)
    }

    unsafe fn register(&mut self, _: &[Piece]) -> Result<(Region, RemoteKey)> {
        self.wire.lock().regions += 1;
        Ok((Region(1), RemoteKey(vec![1])))
    }

    fn deregister(&mut self, _: Region) {
        self.wire.lock().regions -= 1;
    }

    unsafe fn read(
        &mut self,
        _: PeerIndex,
        _: &RemoteKey,
        offset: u64,
        into: &[Piece],
        _: u64,
    ) -> Result<Sent> {
        let mut wire = self.wire.lock();
        if wire.reads_nothing {
            return Ok(Sent::Again);
        }
        let mut from = offset as usize;
        wire.reads.push((offset, total(into)));
        assert!(wire.reads.len() < 1000, "it reads forever");
        for piece in into {
            let bytes = &wire.registered[from..from + piece.len];
            // SAFETY: the engine's promise.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), piece.address, piece.len) };
            from += piece.len;
        }
        Ok(Sent::Done)
    }

    fn arm(&mut self) -> Option<RawFd> {
        None
    }

    fn can_sleep(&self) -> bool {
        false
    }

    fn is_drained(&self) -> bool {
        !self.wire.lock().busy
    }

    fn count_all(&mut self, on: bool) {
        self.wire.lock().counts.push(on);
    }
}

/// What a card says of the played lane of a process that takes so many messages; 0: as many as this one.
fn played_at(window: u16) -> LaneEntry {
    LaneEntry {
        network: "played".into(),
        window: if window == 0 { u16::MAX } else { window },
        address: Vec::new(),
    }
}

/// An engine with its peer, which the test plays.
pub(super) struct Scene {
    pub engine: Engine,
    wire: Arc<Mutex<Wire>>,
    /// The number of the peer's next message.
    seq: u32,
    /// How many messages of the engine the peer says it has taken.
    taken: u16,
}

impl Scene {
    pub fn new(adjust: impl FnOnce(&mut Limits)) -> Scene {
        let mut scene = Scene::unconnected(adjust);
        scene.connect();
        scene
    }

    /// The peer's card is not known yet.
    fn without_card() -> Scene {
        Scene::unconnected(|_| ())
    }

    fn connect(&mut self) {
        let card = BusinessCard {
            agreed: 0,
            token: TOKEN + 1,
            lanes: vec![played_at(0)],
        };
        self.engine.connect(PEER, &card);
    }

    fn unconnected(adjust: impl FnOnce(&mut Limits)) -> Scene {
        let mut limits = Limits {
            buffered: MESSAGE,
            message: MESSAGE,
            header: crate::lane::HEADER_BYTES,
            piece: MESSAGE,
            ordered: true,
            rma: true,
            write: false,
            atomics: Atomics::None,
            needs_target: true,
            ends_with_receipt: false,
            rma_from: 0,
            read_run: 1,
            register_run: 1,
            eager: 500,
            pipelined: 0,
            queue: 64,
        };
        adjust(&mut limits);
        let wire: Arc<Mutex<Wire>> = Arc::default();
        let played = Played {
            limits,
            wire: wire.clone(),
        };
        let engine = Engine::new(Parts {
            me: ProcessName { job: JOB, rank: 0 },
            size: 3,
            token: TOKEN,
            agreed: 0,
            lanes: vec![Box::new(Loopback::default()), Box::new(played)],
            eager_max: None,
            rma: true,
            first_generation: 0,
            window: WINDOW,
            unexpected_max: UNEXPECTED_MAX,
        });
        Scene {
            engine,
            wire,
            seq: 0,
            taken: 0,
        }
    }

    /// These bytes reach the engine.
    fn gets(&mut self, bytes: Vec<u8>) {
        self.wire.lock().coming.push_back(bytes);
        // Where a read can't begin, the engine tries forever.
        for _ in 0..100 {
            if !self.engine.progress(false) {
                break;
            }
        }
    }

    /// The peer sends a message of this number, and the engine gets it.
    fn says_as(&mut self, seq: u32, kind: MessageKind, flags: u8, words: (i32, u64, u64), payload: &[u8]) {
        let (tag, context, arg) = words;
        let header = Header {
            token: TOKEN,
            kind,
            flags,
            ack: self.taken,
            src: PEER.number(),
            seq,
            tag,
            context,
            arg,
        };
        self.gets([&header.encode(), payload].concat());
    }

    /// The peer's next message.
    pub fn says(&mut self, kind: MessageKind, flags: u8, words: (i32, u64, u64), payload: &[u8]) {
        let seq = self.seq;
        self.seq += 1;
        self.says_as(seq, kind, flags, words, payload);
    }

    /// The peer announces a long message, of this many bytes and with this tag, that can't be read.
    pub fn announces(&mut self, flags: u8, tag: i32, size: u64) {
        let rts = Rts {
            size,
            sender: 31,
            key: None,
        };
        self.says(
            MessageKind::RTS,
            flags,
            (tag, CONTEXT.bits(), PEER.number().into()),
            &rts.encode(),
        );
    }

    /// An eager message of the peer with this tag.
    fn eager(&mut self, tag: i32, payload: &[u8]) {
        self.says(
            MessageKind::EAGER,
            0,
            (tag, CONTEXT.bits(), PEER.number().into()),
            payload,
        );
    }

    /// What the engine has sent since it was last asked.
    pub fn heard(&mut self) -> Vec<(Header, Vec<u8>)> {
        let sent = std::mem::take(&mut self.wire.lock().sent);
        self.taken += sent.len() as u16;
        let parse = |bytes: &Vec<u8>| {
            let (header, payload) = Header::parse(bytes).expect("a message");
            (header, payload.to_vec())
        };
        sent.iter().map(parse).collect()
    }

    /// The only message that it has sent.
    fn hears(&mut self, kind: MessageKind) -> (Header, Vec<u8>) {
        let heard = self.heard();
        assert!(
            matches!(&heard[..], [(header, _)] if header.kind == kind),
            "one {kind:?}, and not {heard:?}"
        );
        heard.into_iter().next().expect("it is there")
    }

    fn is_lost(&self) -> bool {
        let peer = self.engine.state.peers.get(PEER);
        matches!(peer.expect("known").link, ConnectionState::Lost(_))
    }

    fn receive(&mut self, tag: i32, memory: Memory) -> Received {
        let pattern = Pattern {
            context: CONTEXT,
            source: Some(PEER.number()),
            tag: Some(tag),
        };
        // SAFETY: the tests keep the memory until the receive has ended.
        unsafe { self.engine.receive(pattern, Some(PEER), memory) }.expect("the peer lives")
    }

    /// Posts a receive for which there is nothing yet.
    fn post(&mut self, tag: i32, memory: Memory) -> RequestId {
        match self.receive(tag, memory) {
            Received::Later(id) => id,
            Received::Now(outcome) => panic!("nothing had been sent: {outcome:?}"),
        }
    }

    fn outcome(&mut self, received: Received) -> Outcome {
        match received {
            Received::Now(outcome) => outcome,
            Received::Later(id) => self.engine.take(id).expect("it has ended"),
        }
    }

    fn send(&mut self, tag: i32, memory: Memory) -> RequestId {
        self.send_as(tag, memory, false)
    }

    fn send_as(&mut self, tag: i32, memory: Memory, sync: bool) -> RequestId {
        let send = Send {
            peer: PEER,
            envelope: Envelope {
                context: CONTEXT,
                source: ME.number(),
                tag,
            },
            memory,
            sync,
        };
        // SAFETY: the tests keep the memory until the send has ended.
        let id = unsafe { self.engine.send(&send, true) }.expect("the peer lives");
        id.expect("a request was asked for")
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn a_cancel_takes_its_own_message_and_no_other_of_the_same_envelope() {
    for wanted in 0..4u32 {
        let mut scene = Scene::new(|_| ());
        for number in 0..4 {
            scene.eager(5, &[number]);
        }
        scene.heard();
        let mut payload = [0; 16];
        payload[..8].copy_from_slice(&99u64.to_le_bytes());
        payload[8..12].copy_from_slice(&PEER.number().to_le_bytes());
        scene.says(
            MessageKind::CANCEL,
            0,
            (5, CONTEXT.bits(), wanted.into()),
            &payload,
        );
        let (reply, _) = scene.hears(MessageKind::CANCEL_REPLY);
        assert_eq!((reply.flags & FLAG_CANCELLED, reply.arg), (FLAG_CANCELLED, 99));
        // It is gone, and a second cancel finds nothing.
        scene.says(
            MessageKind::CANCEL,
            0,
            (5, CONTEXT.bits(), wanted.into()),
            &payload,
        );
        let (reply, _) = scene.hears(MessageKind::CANCEL_REPLY);
        assert_eq!((reply.flags & FLAG_CANCELLED, reply.arg), (0, 99));
        for number in (0..4).filter(|&number| u32::from(number) != wanted) {
            let mut buffer = [0xee];
            let received = scene.receive(5, Memory::of_mut(&mut buffer));
            assert_eq!(scene.outcome(received).bytes, 1);
            assert_eq!(buffer, [number]);
        }
        assert!(!scene.is_lost() && scene.engine.state.unexpected.is_empty());
    }
}

/// How a message of the peer comes.
type Arrive<'a> = &'a dyn Fn(&mut Scene);

/// The outcome of a receive of a message that is too long: the error, and how many bytes are in the buffer.
#[test]
fn a_truncated_receive_counts_what_has_fitted() {
    let data = pattern(700);
    let rts = |key: &[u8]| {
        Rts {
            size: 700,
            sender: 31,
            key: (!key.is_empty()).then(|| RemoteKey(key.to_vec())),
        }
        .encode()
    };
    let words = (5, CONTEXT.bits(), u64::from(PEER.number()));
    let eager = |scene: &mut Scene| scene.eager(5, &pattern(700));
    let read = |scene: &mut Scene| {
        scene.wire.lock().registered = pattern(700);
        scene.says(MessageKind::RTS, 0, words, &rts(&[1]));
    };
    let pipelined = |scene: &mut Scene| {
        scene.says(MessageKind::RTS, FLAG_PIPELINED, words, &rts(&[]));
        for (at, part) in pattern(700).chunks(300).enumerate() {
            scene.says(MessageKind::DATA, FLAG_PIPELINED, (0, 31, at as u64 * 300), part);
        }
    };
    let asked_for = |scene: &mut Scene| scene.says(MessageKind::RTS, 0, words, &rts(&[]));
    let arrivals: [(&str, Arrive<'_>); 4] = [
        ("eager", &eager),
        ("read", &read),
        ("pipelined", &pipelined),
        ("asked for", &asked_for),
    ];
    for (name, arrive) in arrivals {
        for early in [true, false] {
            for room in [0, 1, 299, 301, 699, 700, 701] {
                let what = format!("{name}, posted before: {early}, room {room}");
                let mut scene = Scene::new(|_| ());
                let mut buffer = vec![0xee; room];
                let memory = Memory::of_mut(&mut buffer);
                let received = if early {
                    let id = scene.post(5, memory);
                    arrive(&mut scene);
                    Received::Later(id)
                } else {
                    arrive(&mut scene);
                    scene.receive(5, memory)
                };
                let heard = scene.heard();
                if let [(cts, grant)] = &heard[..]
                    && cts.kind == MessageKind::CTS
                {
                    let fitted = room.min(700);
                    assert_eq!(cts.arg, 31, "{what}");
                    assert_eq!(grant[..8], (fitted as u64).to_le_bytes(), "{what}");
                    scene.says(MessageKind::DATA, 0, (0, cts.context, 0), &data[..fitted]);
                }
                let outcome = scene.outcome(received);
                let fitted = room.min(700);
                assert_eq!(outcome.bytes, fitted as u64, "{what}");
                assert_eq!((outcome.source, outcome.tag), (PEER.number() as i32, 5), "{what}");
                let class = outcome.error.as_ref().map(|error| error.class);
                assert_eq!(class, (room < 700).then_some(Class::Truncate), "{what}");
                assert!(buffer[..fitted] == data[..fitted], "{what}");
                assert!(!scene.is_lost(), "{what}");
            }
        }
    }
}

#[test]
fn a_message_too_far_ahead_of_its_turn_is_nonsense() {
    const AHEAD: u32 = 1 << 16;
    for (ordered, ahead, lost) in [
        (false, 1, false),
        (false, AHEAD, false),
        (false, AHEAD + 1, true),
        (false, u32::MAX, true),
        (true, 1, true),
    ] {
        let mut scene = Scene::new(|limits| limits.ordered = ordered);
        let words = (5, CONTEXT.bits(), u64::from(PEER.number()));
        scene.says_as(ahead, MessageKind::EAGER, 0, words, &[ahead as u8]);
        assert_eq!(scene.is_lost(), lost, "{ahead} ahead, ordered: {ordered}");
        assert!(scene.engine.state.unexpected.is_empty(), "its turn has not come");
        if ahead == 1 && !lost {
            // Its turn comes, and then no other can have its number.
            scene.says_as(0, MessageKind::EAGER, 0, words, &[0]);
            assert_eq!(scene.engine.state.unexpected.len(), 2);
            scene.says_as(1, MessageKind::EAGER, 0, words, &[1]);
            assert!(scene.is_lost());
        }
    }
}

#[test]
fn data_beyond_what_was_granted_loses_the_peer() {
    // Two messages of data may be under way; of the granted bytes all may come, in any sizes, and not one more.
    let granted = u64::from(WINDOW) * MESSAGE as u64;
    let size = 4 * granted;
    for (at, len, good) in [
        (0, granted, true),
        (0, granted + 1, false),
        (granted - 1, 1, true),
        (granted - 1, 2, false),
        (granted, 1, false),
        (u64::MAX, 1, false),
    ] {
        let mut scene = Scene::new(|_| ());
        let mut buffer = vec![0xee; size as usize];
        let id = scene.post(5, Memory::of_mut(&mut buffer));
        scene.announces(0, 5, size);
        let (cts, grant) = scene.hears(MessageKind::CTS);
        assert_eq!(grant, Grant::new(size, granted).encode());
        let data = vec![1; len as usize];
        scene.says(MessageKind::DATA, 0, (0, cts.context, at), &data);
        assert_eq!(scene.is_lost(), !good, "{len} bytes at {at}");
        let written = buffer.iter().filter(|&&byte| byte == 1).count();
        assert_eq!(written as u64, if good { len } else { 0 }, "{len} bytes at {at}");
        assert_eq!(scene.engine.is_complete(id), Some(!good));
        if at == 0 && good {
            // Half a window more at a time.
            let (_, grant) = scene.hears(MessageKind::CTS);
            assert_eq!(grant, Grant::new(size, granted + granted / 2).encode());
        }
    }
}

#[test]
fn backpressure_is_asked_for_while_too_much_is_held_and_no_longer() {
    let mut scene = Scene::new(|_| ());
    let backpressure = |scene: &mut Scene| {
        // Every message sent contains it.
        let request = scene.send(9, Memory::empty());
        scene.engine.take(request).expect("it went at once");
        let (header, _) = scene.heard().pop().expect("it went");
        header.flags & FLAG_BACKPRESSURE != 0
    };
    assert!(!backpressure(&mut scene));
    for _ in 0..2 {
        for number in 1..=5 {
            scene.eager(5, &[7; 250]);
            let most = UNEXPECTED_MAX / 250;
            assert_eq!(
                backpressure(&mut scene),
                number > most,
                "{number} of 250 bytes are held"
            );
        }
        for left in (0..5).rev() {
            let mut buffer = [0; 250];
            let received = scene.receive(5, Memory::of_mut(&mut buffer));
            assert_eq!(scene.outcome(received).bytes, 250);
            if left * 250 == UNEXPECTED_MAX / 2 {
                // It is sent in a message of its own, where there is no other.
                while scene.engine.progress(false) {}
                let (ack, _) = scene.hears(MessageKind::ACK);
                assert_eq!(ack.flags & FLAG_BACKPRESSURE, 0);
            }
            let half = UNEXPECTED_MAX / 2;
            assert_eq!(
                backpressure(&mut scene),
                left * 250 > half,
                "{left} of 250 bytes are left"
            );
        }
    }
}

#[test]
fn a_sender_under_backpressure_asks_first_and_sends_eagerly_again_after() {
    for pipelined in [0, 500] {
        let mut scene = Scene::new(|limits| {
            limits.eager = 100;
            limits.pipelined = pipelined;
            limits.buffered = super::wire::HEADER_BYTES + 300;
        });
        let data = pattern(400);
        let (short, middle, long) = (
            Memory::of(&data[..64]),
            Memory::of(&data[..65]),
            Memory::of(&data[..400]),
        );
        let kinds = |scene: &mut Scene| {
            let mut kinds = Vec::new();
            for memory in [&short, &middle, &long] {
                let id = scene.send(5, memory.clone());
                let (header, _) = scene.heard().swap_remove(0);
                kinds.push((header.kind, header.flags & FLAG_PIPELINED));
                // The peer has received it, so nothing is left over.
                if header.kind == MessageKind::RTS && header.flags & FLAG_PIPELINED == 0 {
                    let backpressure = scene.engine.state.peer(PEER).flow.backpressure;
                    let flags = if backpressure { FLAG_BACKPRESSURE } else { 0 };
                    scene.says(MessageKind::DONE, flags, (0, 0, id.to_u64()), &[]);
                }
                assert_eq!(scene.engine.take(id), Some(Outcome::EMPTY));
            }
            kinds
        };
        let eager = (MessageKind::EAGER, 0);
        let asked = (MessageKind::RTS, 0);
        let as_ever = [
            eager,
            eager,
            (MessageKind::RTS, if pipelined != 0 { FLAG_PIPELINED } else { 0 }),
        ];
        assert_eq!(kinds(&mut scene), as_ever);
        for _ in 0..2 {
            scene.says(MessageKind::ACK, FLAG_BACKPRESSURE, (0, 0, 0), &[]);
            assert_eq!(kinds(&mut scene), [eager, asked, asked], "more than 64 bytes");
            scene.says(MessageKind::ACK, 0, (0, 0, 0), &[]);
            assert_eq!(kinds(&mut scene), as_ever);
        }
        assert!(scene.engine.is_empty() && scene.wire.lock().regions == 0);
    }
}

#[test]
fn a_handle_names_one_request_and_not_the_next_in_its_place() {
    const MASK: u32 = 0xff;
    let mut engine = Scene::new(|_| ()).engine;
    let id = engine.bare_request();
    let (index, bits) = (id.index, id.generation & MASK);
    assert_eq!(engine.has_ended(index, bits, MASK), Some(false));
    assert_eq!(engine.find_request(index, bits, MASK), Some(id));
    engine.complete(id, Outcome::EMPTY);
    assert_eq!(engine.has_ended(index, bits, MASK), Some(true));
    for (index, bits) in [(index, bits ^ 1), (index + 1, bits)] {
        assert_eq!(engine.has_ended(index, bits, MASK), None);
        assert_eq!(engine.find_request(index, bits, MASK), None);
        assert_eq!(engine.take_well_ended(index, bits, MASK), None);
    }
    assert_eq!(engine.take_well_ended(index, bits, MASK), Some(Outcome::EMPTY));
    // Its place goes to the next one, and its handle names nothing.
    let next = engine.bare_request();
    assert_eq!(next.index, index);
    assert_eq!(engine.has_ended(index, bits, MASK), None);
}

#[test]
fn a_freed_receive_leaves_nothing_when_its_message_has_come() {
    let data = pattern(300);
    let words = (5, CONTEXT.bits(), u64::from(PEER.number()));
    let rts = |key: Option<RemoteKey>| {
        Rts {
            size: 300,
            sender: 31,
            key,
        }
        .encode()
    };
    for kind in ["eager", "read", "asked for", "pipelined"] {
        let mut scene = Scene::new(|_| ());
        let mut buffer = vec![0; 300];
        let id = scene.post(5, Memory::of_mut(&mut buffer));
        scene.engine.release(id);
        match kind {
            "eager" => scene.eager(5, &data),
            "read" => {
                scene.wire.lock().registered = data.clone();
                scene.says(MessageKind::RTS, 0, words, &rts(Some(RemoteKey(vec![1]))));
            }
            "asked for" => {
                scene.says(MessageKind::RTS, 0, words, &rts(None));
                let (cts, _) = scene.hears(MessageKind::CTS);
                scene.says(MessageKind::DATA, 0, (0, cts.context, 0), &data);
            }
            _ => {
                scene.says(MessageKind::RTS, FLAG_PIPELINED, words, &rts(None));
                scene.says(MessageKind::DATA, FLAG_PIPELINED, (0, 31, 0), &data);
            }
        }
        assert!(buffer == data, "{kind}");
        assert_eq!(scene.engine.is_complete(id), None, "{kind}: the request is left");
        assert!(
            scene.engine.state.requests.is_empty() && !scene.is_lost(),
            "{kind}"
        );
    }
}

#[test]
fn a_message_is_read_piece_after_piece_into_many_runs() {
    // Runs of 3 bytes: more than one read takes, and the last read is not full.
    const RUNS: usize = 2500;
    // There is room for more than comes.
    const ROOM: usize = RUNS + 1000;
    let datatype = Datatype::vector(ROOM as i64, 3, 5, Datatype::byte()).expect("a vector");
    let registered = pattern(3 * RUNS);
    let mut buffer = vec![0xee; 5 * ROOM];
    let mut scene = Scene::new(|_| ());
    let memory = Memory::new(buffer.as_mut_ptr(), 1, &datatype);
    let id = scene.post(5, memory);
    scene.wire.lock().registered = registered.clone();
    let rts = Rts {
        size: registered.len() as u64,
        sender: 31,
        key: Some(RemoteKey(vec![1])),
    };
    scene.says(
        MessageKind::RTS,
        0,
        (5, CONTEXT.bits(), PEER.number().into()),
        &rts.encode(),
    );
    let (done, _) = scene.hears(MessageKind::DONE);
    assert_eq!(done.arg, 31);
    let outcome = scene.engine.take(id).expect("all has been read");
    assert_eq!((outcome.bytes, outcome.error), (registered.len() as u64, None));
    // Each byte was asked for once, and in no more reads than are needed.
    let reads = scene.wire.lock().reads.clone();
    assert_eq!(
        reads.len(),
        RUNS.div_ceil(super::protocol::rendezvous_read::READ_PIECES)
    );
    let mut next = 0;
    for (offset, len) in reads {
        assert_eq!(offset, next);
        next += len as u64;
    }
    let (filled, rest) = buffer.split_at(5 * RUNS);
    let got: Vec<u8> = filled.chunks(5).flat_map(|run| &run[..3]).copied().collect();
    assert!(got == registered, "the bytes lie elsewhere");
    assert!(
        rest.iter().all(|&byte| byte == 0xee),
        "more was read than there is"
    );
    let gaps = buffer.chunks(5).flat_map(|run| &run[3..]);
    assert!(gaps.into_iter().all(|&byte| byte == 0xee), "a gap was written to");
}
