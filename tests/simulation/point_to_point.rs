//! Random programs of sends and receives, held against a model: every message arrives once, at a receive that it
//! matches, and messages of one sender do not overtake each other where one receive would take both (MPI 5.0 section
//! 3.5).
//!
//! A run has a few phases. In each, a plan says who sends what to whom; a rank starts all its sends and receives in a
//! random order, and waits for them in another. So that every order of matching ends, a rank starts its receives from
//! the particular to the general: exact ones, then those with one wildcard (of one kind), then those with both.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use fastrand::Rng;
use weft::data::datatype::Datatype;
use weft::engine::Received;
use weft::engine::buffered::SendBuffer;
use weft::engine::matching::{Envelope, Pattern};
use weft::engine::request::{Outcome, RequestId};
use weft::identity::Context;
use weft::objects::collective::{allgather_bytes, barrier, bcast_bytes};
use weft::objects::communicator::Communicator;
use weft::sim::{Buffer, Options, Rank, Simulation, check};

/// A message of the plan; ranks are those in its communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Planned {
    source: u32,
    destination: u32,
    tag: i32,
    /// Position among the messages of its sender in its phase, which is the order of sending.
    number: u32,
    bytes: usize,
}

/// The first bytes of each message say which it is; the rest follows from them.
const HEAD: usize = 24;

fn content(message: &Planned) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.bytes);
    for field in [
        message.source,
        message.destination,
        message.tag as u32,
        message.number,
    ] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(&(message.bytes as u64).to_le_bytes());
    let mut rng = Rng::with_seed(u64::from(message.source) << 32 | u64::from(message.number));
    bytes.resize(message.bytes.max(HEAD), 0);
    rng.fill(&mut bytes[HEAD..]);
    bytes.truncate(message.bytes);
    bytes
}

/// Messages too short to hold a head are told by their tag alone: there is one of each per sender and phase.
const SHORT_TAGS: i32 = 1000;

fn plan(rng: &mut Rng, size: u32, per_rank: u32) -> Vec<Planned> {
    let mut plan = Vec::new();
    let sizes = [HEAD as u32 + 1, 200, 2000, 6000][rng.u32(..4) as usize];
    let near = rng.bool();
    for source in 0..size {
        for number in 0..per_rank {
            let destination = match near {
                true => (source + rng.u32(..3)) % size,
                false => rng.u32(..size),
            };
            let short = rng.u32(..8) == 0;
            plan.push(Planned {
                source,
                destination,
                tag: if short {
                    SHORT_TAGS + number as i32
                } else {
                    rng.i32(0..3)
                },
                number,
                bytes: if short {
                    rng.u32(..HEAD as u32)
                } else {
                    rng.u32(HEAD as u32..sizes)
                } as usize,
            });
        }
    }
    plan
}

/// A receive that has been started, or a message taken by a probe.
struct Taken {
    pattern: Pattern,
    buffer: Buffer,
    holey: bool,
    state: ReceiveState,
}

enum ReceiveState {
    UnderWay(RequestId),
    Ended(Outcome),
}

struct Sent {
    _buffer: Option<Buffer>,
    request: Option<RequestId>,
}

/// How a rank takes the messages that come to it, in the order in which it posts the receives.
fn patterns(rng: &mut Rng, communicator: &Communicator, incoming: &[Planned]) -> Vec<(Pattern, bool)> {
    let mut classes: [Vec<(Pattern, bool)>; 3] = Default::default();
    let by_source = rng.bool();
    for message in incoming {
        let class = rng.u32(..3) as usize;
        let pattern = match class {
            0 => communicator.pattern(Some(message.source), Some(message.tag)),
            1 if by_source => communicator.pattern(Some(message.source), None),
            1 => communicator.pattern(None, Some(message.tag)),
            _ => communicator.pattern(None, None),
        };
        classes[class].push((pattern, rng.u32(..5) == 0));
    }
    for class in &mut classes {
        rng.shuffle(class);
    }
    classes.concat()
}

async fn phase(rank: &Rank, communicator: &Communicator, rng: &mut Rng, plan: &[Planned]) {
    let me = communicator.rank();
    let incoming: Vec<Planned> = plan
        .iter()
        .filter(|message| message.destination == me)
        .copied()
        .collect();
    let mut outgoing = plan.iter().filter(|message| message.source == me);
    let mut patterns = patterns(rng, communicator, &incoming).into_iter();
    let (mut sends, mut taken) = (Vec::new(), Vec::new());
    let (mut sending, mut receiving) = (true, true);
    while sending || receiving {
        match rng.u32(..20) {
            0 => rank.turn().await,
            1 => rank.pause(1 << rng.u32(..14)).await,
            2..=10 if sending => match outgoing.next() {
                Some(message) => sends.push(send(rank, communicator, rng, message)),
                None => sending = false,
            },
            _ if receiving => match patterns.next() {
                Some((pattern, probing)) => {
                    taken.push(take(rank, communicator, rng, pattern, probing && !sending).await)
                }
                None => receiving = false,
            },
            _ => {}
        }
    }
    finish(rank, rng, sends, &mut taken).await;
    compare(me, &incoming, &taken);
}

/// Elements of a type with holes: 3 bytes, a hole of 2, 3 bytes.
fn holey() -> &'static Arc<Datatype> {
    static TYPE: OnceLock<Arc<Datatype>> = OnceLock::new();
    TYPE.get_or_init(|| Datatype::vector(2, 3, 5, Datatype::byte()).expect("a vector"))
}

const HOLEY_BYTES: usize = 6;
const HOLEY_EXTENT: usize = 8;

/// Where a byte of the data lies.
fn in_holey(at: usize) -> usize {
    at / HOLEY_BYTES * HOLEY_EXTENT + [0, 1, 2, 5, 6, 7][at % HOLEY_BYTES]
}

fn with_holes(data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x66; data.len() / HOLEY_BYTES * HOLEY_EXTENT];
    for (at, &byte) in data.iter().enumerate() {
        bytes[in_holey(at)] = byte;
    }
    bytes
}

/// The data of a receive; what lies in the holes must be as `Rank::blank` made it.
fn without_holes(bytes: &[u8], len: usize) -> Vec<u8> {
    for element in bytes.chunks_exact(HOLEY_EXTENT) {
        assert_eq!(
            element[3..5],
            [0x77; 2],
            "somebody wrote into a hole of a datatype"
        );
    }
    (0..len).map(|at| bytes[in_holey(at)]).collect()
}

fn send(rank: &Rank, communicator: &Communicator, rng: &mut Rng, message: &Planned) -> Sent {
    let data = content(message);
    let (buffer, memory) = if data.len().is_multiple_of(HOLEY_BYTES) && rng.bool() {
        let buffer = rank.buffer(&with_holes(&data));
        let memory = buffer.typed((data.len() / HOLEY_BYTES) as u64, holey());
        (buffer, memory)
    } else {
        let buffer = rank.buffer(&data);
        let memory = buffer.memory();
        (buffer, memory)
    };
    let (sync, wanted) = (rng.u32(..4) == 0, rng.bool());
    if rng.u32(..4) == 0 {
        let room = rank.instance().attachment().get();
        let (to, tag) = (message.destination, message.tag);
        // SAFETY: the buffer is valid during the call; given up with it.
        let request = unsafe { communicator.send_buffered(room.as_ref(), to, tag, memory, wanted) };
        return Sent {
            _buffer: None,
            request: request.expect("nobody dies in this test"),
        };
    }
    // SAFETY: the buffer is kept until the send has ended.
    let request = unsafe { communicator.send(message.destination, message.tag, memory, sync, wanted) };
    Sent {
        _buffer: Some(buffer),
        request: request.expect("nobody dies in this test"),
    }
}

async fn take(
    rank: &Rank,
    communicator: &Communicator,
    rng: &mut Rng,
    pattern: Pattern,
    probing: bool,
) -> Taken {
    let as_holey = !probing && rng.u32(..3) == 0;
    let (buffer, received) = if probing {
        loop {
            // A look that takes nothing, and sometimes one that does.
            let seen = rank.instance().engine().probe(&pattern);
            let out = seen.map(|seen| {
                let mut engine = rank.instance().engine();
                let (envelope, message) = engine.probe_out(&pattern).expect("it was there");
                assert_eq!((seen.envelope, seen.bytes), (envelope, message.len()));
                let buffer = rank.blank(message.len() as usize);
                // SAFETY: the buffer is kept until the receive has ended.
                let received = unsafe { engine.accept(envelope, message, &buffer.memory()) };
                (buffer, received)
            });
            match out {
                Some(found) => break found,
                None => rank.turn().await,
            }
        }
    } else {
        let (buffer, memory) = if as_holey {
            let buffer = rank.blank(1000 * HOLEY_EXTENT);
            let memory = buffer.typed(1000, holey());
            (buffer, memory)
        } else {
            let buffer = rank.blank(6000 + rng.u32(..2) as usize);
            let memory = buffer.memory();
            (buffer, memory)
        };
        // SAFETY: the buffer is kept until the receive has ended.
        let received = unsafe { communicator.receive(pattern.source, pattern.tag, memory) };
        (buffer, received.expect("nobody dies in this test"))
    };
    let state = match received {
        Received::Now(outcome) => ReceiveState::Ended(outcome),
        Received::Later(request) => ReceiveState::UnderWay(request),
    };
    Taken {
        pattern,
        buffer,
        holey: as_holey,
        state,
    }
}

/// Waits for everything in some order.
async fn finish(rank: &Rank, rng: &mut Rng, sends: Vec<Sent>, taken: &mut [Taken]) {
    let mut sends: Vec<Option<Sent>> = sends.into_iter().map(Some).collect();
    let mut order: Vec<usize> = (0..sends.len() + taken.len()).collect();
    rng.shuffle(&mut order);
    for at in order {
        match at.checked_sub(sends.len()) {
            None => {
                let sent = sends[at].take().expect("waited for once");
                if let Some(request) = sent.request {
                    let outcome = rank.wait(request).await;
                    assert_eq!(outcome, Outcome::EMPTY);
                }
            }
            Some(at) => {
                if let ReceiveState::UnderWay(request) = taken[at].state {
                    taken[at].state = ReceiveState::Ended(rank.wait(request).await);
                }
            }
        }
    }
}

/// The model: `taken` is in the order of posting.
fn compare(me: u32, incoming: &[Planned], taken: &[Taken]) {
    let mut missing: HashMap<Planned, usize> = HashMap::new();
    for message in incoming {
        *missing.entry(*message).or_default() += 1;
    }
    let mut got: Vec<(Pattern, Planned)> = Vec::new();
    for Taken {
        pattern,
        buffer,
        holey,
        state,
    } in taken
    {
        let ReceiveState::Ended(outcome) = state else {
            unreachable!("waited for")
        };
        assert_eq!((outcome.cancelled, &outcome.error), (false, &None));
        let len = outcome.bytes as usize;
        let bytes = match holey {
            true => without_holes(buffer.bytes(), len),
            false => buffer.bytes()[..len].to_vec(),
        };
        let is_it = |message: &&Planned| {
            (message.source as i32, message.tag, message.bytes) == (outcome.source, outcome.tag, bytes.len())
                && content(message) == bytes
        };
        let Some(message) = incoming.iter().find(is_it) else {
            panic!("rank {me} got {bytes:?} with {outcome:?}, which nobody sent");
        };
        let envelope = Envelope {
            context: pattern.context,
            source: message.source,
            tag: message.tag,
        };
        assert!(pattern.takes(&envelope), "{pattern:?} took {message:?}");
        let left = missing.get_mut(message).expect("of the plan");
        *left = left
            .checked_sub(1)
            .unwrap_or_else(|| panic!("rank {me} got {message:?} twice"));
        got.push((*pattern, *message));
    }
    missing.retain(|_, left| *left != 0);
    assert!(missing.is_empty(), "rank {me} did not get {missing:?}");
    for (at, (first, message)) in got.iter().enumerate() {
        for (second, other) in &got[at + 1..] {
            let envelope = Envelope {
                context: first.context,
                source: other.source,
                tag: other.tag,
            };
            assert!(
                other.source != message.source || other.number > message.number || !first.takes(&envelope),
                "rank {me}: {first:?} took {message:?} though {other:?} had been sent before, which {second:?} took"
            );
        }
    }
}

/// A collective operation with its result checked; perhaps another communicator to go on with. `true`: everybody has
/// come before anybody leaves.
async fn between(rank: &Rank, communicator: &mut Arc<Communicator>, kind: u32, colors: i32) -> bool {
    let operation = communicator.collective();
    let (me, size) = (communicator.rank(), communicator.size());
    match kind {
        0 => barrier(&operation).await.expect("a barrier"),
        1 => {
            let root = size / 2;
            let expected: Vec<u8> = (0..3000u32).map(|at| (at % 251) as u8).collect();
            let mine = match me == root {
                true => expected.clone(),
                false => vec![0; 3000],
            };
            let bytes = bcast_bytes(&operation, root, mine).await.expect("a broadcast");
            assert_eq!(bytes, expected);
            return false;
        }
        2 => {
            let all = allgather_bytes(&operation, &[me as u8, 7, 9])
                .await
                .expect("an allgather");
            let expected: Vec<u8> = (0..size).flat_map(|rank| [rank as u8, 7, 9]).collect();
            assert_eq!(all, expected);
        }
        3 => *communicator = communicator.clone().duplicate(true).await.expect("a duplicate"),
        _ => {
            let world = rank.world().clone();
            let me = world.rank() as i32;
            let part = world
                .split(me % colors, -me)
                .await
                .expect("a split")
                .expect("a color");
            assert!(
                part.group()
                    .iter()
                    .all(|process| process.number() as i32 % colors == me % colors)
            );
            *communicator = part;
        }
    }
    true
}

fn run(seed: u64, size: u32, phases: u32, per_rank: u32, adjust: impl Fn(&mut Options)) {
    let mut options = Options::random(seed);
    adjust(&mut options);
    Simulation::new(seed, size, options).run(|rank| async move {
        // What all ranks decide alike, and what each decides for itself.
        let mut common = Rng::with_seed(seed);
        let mut own = Rng::with_seed(seed ^ u64::from(rank.me().number()) << 40);
        let mut communicator = rank.world().clone();
        let attached = rank
            .instance()
            .attachment()
            .attach(SendBuffer::automatic(), "the process");
        attached.expect("nothing was attached");
        for _ in 0..phases {
            let plan = plan(&mut common.fork(), communicator.size(), per_rank);
            phase(&rank, &communicator, &mut own, &plan).await;
            let (kind, colors) = (common.u32(..6), common.i32(2..5));
            if !between(&rank, &mut communicator, kind, colors).await {
                barrier(&communicator.collective()).await.expect("a barrier");
            }
        }
        let room = rank.instance().attachment().take().expect("attached above");
        let flush = rank.instance().engine().flush_buffer(&room, Context::of_bits(0));
        assert_eq!(rank.wait(flush).await, Outcome::EMPTY);
    });
}

#[test]
fn two_ranks() {
    check("two_ranks", 75, |seed| run(seed, 2, 4, 30, |_| ()));
}

#[test]
fn sixty_four_ranks() {
    check(
        "sixty_four_ranks",
        if cfg!(debug_assertions) { 20 } else { 1000 },
        |seed| run(seed, 64, 3, 8, |_| ()),
    );
}

/// One message into, and perhaps out of, so many runs of memory that no single read takes it.
fn run_many_runs(seed: u64) {
    let mut options = Options::random(seed);
    let limits = &mut options.conditions.limits;
    // Mostly read, as far as that does not fail; sometimes sent as data.
    (options.rma, limits.rma, limits.rma_from) = (!seed.is_multiple_of(8), true, 0);
    (limits.read_run, limits.register_run) = (0, 0);
    options.conditions.failed_reads_permille = if seed.is_multiple_of(5) { 200 } else { 0 };
    Simulation::new(seed, 2, options).run(|rank| async move {
        let mut rng = Rng::with_seed(seed);
        let run = rng.u32(1..4) as usize;
        let runs = rng.u32(1025..3500) as usize;
        let extent = run + 2;
        let spread = Datatype::vector(runs as i64, run as i64, extent as i64, Datatype::byte());
        let spread = spread.expect("a vector");
        let data: Vec<u8> = (0..run * runs).map(|_| rng.u8(..)).collect();
        let (sender_spread, bytes) = (rng.bool(), runs * extent);
        if rank.me().number() == 0 {
            let buffer = match sender_spread {
                true => {
                    let mut bytes = vec![0x66; bytes];
                    for (part, place) in data.chunks(run).zip(bytes.chunks_mut(extent)) {
                        place[..run].copy_from_slice(part);
                    }
                    rank.buffer(&bytes)
                }
                false => rank.buffer(&data),
            };
            let memory = match sender_spread {
                true => buffer.typed(1, &spread),
                false => buffer.memory(),
            };
            // SAFETY: the buffer is kept until the send has ended.
            let request = unsafe { rank.world().send(1, 1, memory, false, true) };
            let outcome = rank.wait(request.expect("nobody dies").expect("asked for")).await;
            assert_eq!(outcome, Outcome::EMPTY);
        } else {
            let buffer = rank.blank(bytes);
            let memory = buffer.typed(1, &spread);
            // SAFETY: the buffer is kept until the receive has ended.
            let received = unsafe { rank.world().receive(Some(0), Some(1), memory) };
            let outcome = rank.received(received.expect("nobody dies")).await;
            assert_eq!((outcome.bytes, outcome.error), (data.len() as u64, None));
            for (part, place) in data.chunks(run).zip(buffer.bytes().chunks(extent)) {
                assert!(place[..run] == *part, "the bytes differ");
                assert!(
                    place[run..].iter().all(|&byte| byte == 0x77),
                    "a gap was written to"
                );
            }
        }
    });
}

#[test]
fn one_message_in_many_runs() {
    check("one_message_in_many_runs", 40, run_many_runs);
}

#[test]
fn without_order() {
    check("without_order", 75, |seed| {
        run(seed, 8, 3, 20, |options| {
            options.conditions.limits.ordered = false
        })
    });
}
