//! Test: many engines send to one over libfabric's TCP provider, by each protocol, while other connections hold half a message.

use std::time::{Duration, Instant};

use super::matching::{Envelope, Pattern};
use super::receive::Received;
use super::request::RequestId;
use super::{Engine, Parts, Send};
use crate::data::memory::Memory;
use crate::identity::{Context, JobId, PeerIndex, ProcessName};
use crate::lane::Lane;
use crate::lane::conformance::pattern;
use crate::lane::loopback::Loopback;
use crate::lane::ofi::OfiLane;
use crate::lane::ofi::incast::{Hand, address_of, open, raise_descriptors};

const SENDERS: u32 = 300;
const HALVES: usize = 50;
const CONTEXT: Context = Context::WORLD;
const PATIENCE: Duration = Duration::from_secs(60);

/// An engine that may, or may not, read its peers' memory.
fn engine(me: u32, lane: OfiLane, rma: bool) -> Engine {
    Engine::new(Parts {
        me: ProcessName {
            job: JobId(1),
            rank: me,
        },
        size: SENDERS + 1,
        token: 1000 + u64::from(me),
        agreed: 0,
        lanes: vec![Box::new(Loopback::default()), Box::new(lane)],
        eager_max: None,
        rma,
        first_generation: 0,
        window: 32,
        unexpected_max: 1 << 30,
    })
}

/// The lengths of a sender's messages: eager ones, the longest of these, and some that are sent by rendezvous.
fn lengths(at: u32, eager: usize) -> [usize; 5] {
    let at = at as usize;
    [at % 3, 4000 + 7 * at, eager, eager + 1 + at, 100_000 + 13 * at]
}

/// Runs them all, with a receiver that reads its peers' memory or gets it by messages.
fn all_arrives(rma: bool) {
    raise_descriptors();
    let lane = open("net");
    let (eager, address) = (lane.limits().eager, address_of(&lane));
    let mut receiver = engine(0, lane, rma);
    let mut hands = Hand::many(HALVES, address, &mut || {
        receiver.progress(false);
    });
    for (at, hand) in hands.iter_mut().enumerate() {
        hand.announce(eager - at);
        hand.say(&pattern(at, eager)[..eager / 2]);
        receiver.progress(false);
    }
    let bytes: Vec<[Vec<u8>; 5]> = (1..=SENDERS)
        .map(|at| lengths(at, eager).map(|len| pattern(at as usize + len, len)))
        .collect();
    let mut senders: Vec<Engine> = (1..=SENDERS).map(|at| engine(at, open("net"), rma)).collect();
    for (at, sender) in (1..).zip(&mut senders) {
        sender.connect(PeerIndex::new(0), &receiver.card());
        receiver.connect(PeerIndex::new(at), &sender.card());
    }
    let mut sends: Vec<Vec<RequestId>> = vec![Vec::new(); senders.len()];
    for (at, sender) in senders.iter_mut().enumerate() {
        for (tag, bytes) in bytes[at].iter().enumerate() {
            let send = Send {
                peer: PeerIndex::new(0),
                envelope: Envelope {
                    context: CONTEXT,
                    source: at as u32 + 1,
                    tag: tag as i32,
                },
                memory: Memory::of(bytes),
                sync: false,
            };
            // SAFETY: the bytes outlive the engines' work.
            let id = unsafe { sender.send(&send, true) }.expect("the receiver lives");
            sends[at].push(id.expect("a request was asked for"));
        }
    }
    let mut targets: Vec<[Vec<u8>; 5]> = bytes
        .iter()
        .map(|messages| messages.clone().map(|message| vec![0; message.len()]))
        .collect();
    // Half of the receives are posted before their messages, and all in another order than these come.
    let mut open_receives: Vec<(usize, usize, RequestId)> = Vec::new();
    let mut arrived = 0;
    let mut waits_for = (0..senders.len())
        .rev()
        .flat_map(|at| [2, 4, 0, 3, 1].map(|tag| (at, tag)));
    let start = Instant::now();
    let mut turn = 0;
    while arrived < 5 * senders.len() || sends.iter().any(|sends| !sends.is_empty()) {
        assert!(
            start.elapsed() < PATIENCE,
            "{arrived} messages have arrived; {}",
            receiver.describe(&super::describe::bare)
        );
        for (at, tag) in waits_for.by_ref().take(if turn == 0 { 750 } else { 10 }) {
            let target = &mut targets[at][tag];
            let from = Pattern {
                context: CONTEXT,
                source: Some(at as u32 + 1),
                tag: Some(tag as i32),
            };
            // SAFETY: the targets outlive the engine's work.
            let received = unsafe {
                receiver.receive(from, Some(PeerIndex::new(at as u32 + 1)), Memory::of_mut(target))
            };
            match received.expect("the sender lives") {
                Received::Later(id) => open_receives.push((at, tag, id)),
                Received::Now(outcome) => {
                    assert_eq!(
                        (outcome.error, outcome.bytes),
                        (None, bytes[at][tag].len() as u64)
                    );
                    assert!(
                        targets[at][tag] == bytes[at][tag],
                        "message {tag} of {at} differs"
                    );
                    arrived += 1;
                }
            }
        }
        for (at, sender) in senders.iter_mut().enumerate() {
            sender.progress(false);
            sends[at].retain(|&id| match sender.take(id) {
                None => true,
                Some(outcome) => {
                    assert_eq!(outcome.error, None);
                    false
                }
            });
            if at % 8 == 0 {
                receiver.progress(false);
            }
        }
        open_receives.retain(|&(at, tag, id)| match receiver.take(id) {
            None => true,
            Some(outcome) => {
                assert_eq!(
                    (outcome.error, outcome.bytes),
                    (None, bytes[at][tag].len() as u64)
                );
                assert!(
                    targets[at][tag] == bytes[at][tag],
                    "message {tag} of {at} differs"
                );
                arrived += 1;
                false
            }
        });
        turn += 1;
    }
    // The rest of each message, with bytes that no engine has sent.
    for (at, hand) in hands.iter_mut().enumerate() {
        hand.say(&pattern(at, eager)[eager / 2..eager - at]);
    }
    while receiver.state.unauthenticated < HALVES as u64 {
        assert!(
            start.elapsed() < PATIENCE,
            "{} unauthenticated senders",
            receiver.state.unauthenticated
        );
        receiver.progress(false);
    }
    assert!(
        receiver.has_said_all(),
        "{}",
        receiver.describe(&super::describe::bare)
    );
}

#[test]
fn three_hundred_engines_send_to_one_that_reads_their_memory() {
    all_arrives(true);
}

#[test]
fn three_hundred_engines_send_to_one_that_reads_nothing() {
    all_arrives(false);
}
