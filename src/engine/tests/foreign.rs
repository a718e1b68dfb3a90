//! Processes of other jobs: how they introduce themselves, and how they part. Here against a played process; `conversations` has several
//! engines, which are `neighbours`.

mod conversations;
mod neighbours;

use rustc_hash::FxHashMap;

use super::*;
use crate::base::error::Error;
use crate::engine::numbering::derived;
use crate::err;

pub(super) const OTHER_JOB: JobId = JobId(2);
/// Of a communicator of both jobs.
pub(super) const SHARED: Context = Context::of_bits(100 << 1);
/// After the three of this job.
pub(super) const OTHER: PeerIndex = PeerIndex::new(3);
const OTHER_TOKEN: u64 = 1234;

fn name(job: u64, rank: u32) -> ProcessName {
    ProcessName {
        job: JobId(job),
        rank,
    }
}

fn header(token: u64, kind: MessageKind, rank: u32, seq: u32) -> Header {
    Header {
        token,
        kind,
        flags: 0,
        ack: 0,
        src: rank,
        seq,
        tag: 5,
        context: SHARED.bits(),
        arg: 0,
    }
}

/// An eager message of process `rank` with this token.
pub(super) fn message(token: u64, rank: u32, seq: u32, payload: &[u8]) -> Vec<u8> {
    message_in(SHARED, token, rank, seq, payload)
}

pub(super) fn message_in(context: Context, token: u64, rank: u32, seq: u32, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        context: context.bits(),
        ..header(token, MessageKind::EAGER, rank, seq)
    };
    [&header.encode(), payload].concat()
}

fn hello_of(token: u64, named: ProcessName, rank: u32, seq: u32, window: u16) -> Vec<u8> {
    let card = BusinessCard {
        agreed: 0,
        token: OTHER_TOKEN,
        lanes: vec![played_at(window)],
    };
    let header = header(token, MessageKind::HELLO, rank, seq);
    [&header.encode()[..], &named.encode(), &card.encode()].concat()
}

/// Process `rank` of the other job introduces itself.
pub(super) fn hello(rank: u32, seq: u32, window: u16) -> Vec<u8> {
    let named = name(OTHER_JOB.0, rank);
    hello_of(derived(TOKEN, OTHER_JOB), named, rank, seq, window)
}

/// What a receive of a message of `peer` gets.
pub(super) fn receive(scene: &mut Scene, peer: PeerIndex) -> Option<Vec<u8>> {
    receive_from(&mut scene.engine, peer)
}

fn receive_from(engine: &mut Engine, peer: PeerIndex) -> Option<Vec<u8>> {
    receive_of(engine, peer, 0)
}

/// The same with the sender's rank in the communicator.
fn receive_of(engine: &mut Engine, peer: PeerIndex, source: u32) -> Option<Vec<u8>> {
    let mut bytes = [0; 8];
    let pattern = Pattern {
        context: SHARED,
        source: Some(source),
        tag: Some(5),
    };
    // SAFETY: `bytes` outlives the receive, which has ended or is given up here.
    let received = unsafe { engine.receive(pattern, Some(peer), Memory::of_mut(&mut bytes)) };
    match received.expect("the peer lives") {
        Received::Now(outcome) => Some(bytes[..outcome.bytes as usize].to_vec()),
        Received::Later(id) => {
            engine.abandon(id);
            engine.take(id);
            None
        }
    }
}

fn unauthenticated(scene: &Scene) -> u64 {
    scene.engine.state.unauthenticated
}

#[test]
fn who_has_heard_hello_says_none() {
    let mut scene = Scene::new(|_| ());
    scene.gets(hello(1, 0, 0));
    assert_eq!(scene.engine.directory().name(OTHER), name(2, 1));
    let bytes = *b"to them";
    let send = Send {
        peer: OTHER,
        envelope: Envelope {
            context: SHARED,
            source: 0,
            tag: 5,
        },
        memory: Memory::of(&bytes),
        sync: false,
    };
    // SAFETY: the bytes outlive the send.
    assert!(
        // SAFETY: the memory of these messages is a constant's.
        unsafe { scene.engine.send(&send, false) }
            .expect("the peer lives")
            .is_none()
    );
    let heard = scene.heard();
    let [(header, payload)] = &heard[..] else {
        panic!("one message is sent: {heard:?}");
    };
    // It names this process by its own rank, and carries what its job has to.
    assert_eq!(
        (header.token, header.src, &payload[..]),
        (derived(OTHER_TOKEN, JOB), ME.number(), &b"to them"[..])
    );
    assert!(scene.engine.wanted().is_empty());
}

#[test]
fn hello_with_a_wrong_token_or_name_is_not_heard() {
    let right = derived(TOKEN, OTHER_JOB);
    let mut scene = Scene::new(|_| ());
    let wrong = [
        hello_of(right + 1, name(2, 1), 1, 0, 0),
        // The token is that of another job, or of this one.
        hello_of(right, name(3, 1), 1, 0, 0),
        hello_of(derived(TOKEN, JOB), name(JOB.0, 1), 1, 0, 0),
        // Of this job, without such a rank.
        hello_of(TOKEN, name(JOB.0, 9), 9, 0, 0),
        // Another rank.
        hello_of(right, name(2, 1), 2, 0, 0),
    ];
    let count = wrong.len() as u64;
    for bytes in wrong {
        scene.gets(bytes);
    }
    let whole = hello(1, 0, 0);
    for len in crate::engine::wire::HEADER_BYTES..whole.len() {
        scene.gets(whole[..len].to_vec());
    }
    let cut = (whole.len() - crate::engine::wire::HEADER_BYTES) as u64;
    assert_eq!(unauthenticated(&scene), count + cut);
    assert_eq!(scene.engine.state.numberings.counts(), (0, 0));
    assert!(scene.heard().is_empty() && !scene.is_lost());
    // The right one is heard after all.
    scene.gets(whole);
    assert_eq!(scene.engine.state.numberings.counts(), (1, 1));
}

#[test]
fn hello_of_a_process_of_this_job_closes_the_connection() {
    let mut scene = Scene::new(|_| ());
    scene.gets(hello_of(TOKEN, name(JOB.0, 1), 1, 0, 0));
    assert!(scene.is_lost());
    let mut scene = Scene::new(|_| ());
    scene.gets(header(TOKEN, MessageKind::BYE, 1, 0).encode().to_vec());
    assert!(scene.is_lost());
}

#[test]
fn garbage_of_a_known_process_closes_its_connection() {
    let token = derived(TOKEN, OTHER_JOB);
    let bye = |payload: &[u8]| [&header(token, MessageKind::BYE, 1, 1).encode()[..], payload].concat();
    let known = hello(1, 1, 0);
    let wrong = [
        known[..known.len() - 1].to_vec(),
        hello_of(token, name(2, 2), 1, 1, 0),
        bye(b"x"),
        // A number out of turn.
        hello(1, 0, 0),
    ];
    for bytes in wrong {
        let mut scene = Scene::new(|_| ());
        scene.gets(hello(1, 0, 0));
        scene.gets(bytes);
        let peer = scene.engine.state.peers.get(OTHER).expect("it is known");
        assert!(matches!(peer.link, ConnectionState::Lost(_)));
        assert!(!scene.is_lost());
    }
    // Once more is no error.
    let mut scene = Scene::new(|_| ());
    scene.gets(hello(1, 0, 0));
    scene.gets(known);
    scene.gets(message(token, 1, 2, b"hello"));
    assert_eq!(receive(&mut scene, OTHER).as_deref(), Some(&b"hello"[..]));
}

#[test]
fn who_is_met_has_to_introduce_itself_nevertheless() {
    let mut scene = Scene::new(|_| ());
    let peer = scene.engine.directory().place(name(2, 1)).expect("a place");
    assert_eq!(peer, OTHER);
    scene.engine.meet(peer);
    scene.gets(message(derived(TOKEN, OTHER_JOB), 1, 0, b"hello"));
    assert_eq!(unauthenticated(&scene), 1);
    scene.gets(hello(1, 0, 0));
    scene.gets(message(derived(TOKEN, OTHER_JOB), 1, 1, b"hello"));
    assert_eq!(receive(&mut scene, OTHER).as_deref(), Some(&b"hello"[..]));
}

#[test]
fn after_bye_nothing_comes() {
    let token = derived(TOKEN, OTHER_JOB);
    let mut scene = Scene::new(|_| ());
    scene.gets(hello(1, 0, 0));
    // The answer to `Bye` does not leave, so the conversation has not ended.
    scene.wire.lock().full = true;
    scene.gets(header(token, MessageKind::BYE, 1, 1).encode().to_vec());
    scene.gets(message(token, 1, 2, b"hello"));
    let peer = scene.engine.state.peers.get(OTHER);
    assert!(peer.is_none(), "it is lost, and nobody has met it");
}
