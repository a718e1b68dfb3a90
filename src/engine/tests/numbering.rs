//! Processes of other jobs: the token determines which job a message is from.

use super::*;
use crate::engine::{LOOPBACK, WINDOW_MIN};

const OTHER_JOB: JobId = JobId(2);
const OTHER_TOKEN: u64 = 99;
/// Of a communicator of both jobs.
const SHARED: Context = Context::of_bits(100 << 1);
/// After the three of this job.
const OTHER: PeerIndex = PeerIndex::new(3);

/// An eager message of process `rank` with this token.
fn message(token: u64, rank: u32, seq: u32, payload: &[u8]) -> Vec<u8> {
    message_in(SHARED, token, rank, seq, payload)
}

fn message_in(context: Context, token: u64, rank: u32, seq: u32, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        token,
        kind: MessageKind::EAGER,
        flags: 0,
        ack: 0,
        src: rank,
        seq,
        tag: 5,
        context: context.bits(),
        arg: 0,
    };
    [&header.encode(), payload].concat()
}

fn scene() -> Scene {
    let mut scene = Scene::new(|_| ());
    scene.engine.admit(OTHER_JOB, OTHER_TOKEN);
    let name = ProcessName {
        job: OTHER_JOB,
        rank: 1,
    };
    scene.engine.place(name, OTHER);
    scene
}

/// What a receive of a message of `peer` gets.
fn receive(scene: &mut Scene, peer: PeerIndex) -> Option<Vec<u8>> {
    let mut bytes = [0; 8];
    let pattern = Pattern {
        context: SHARED,
        source: Some(0),
        tag: Some(5),
    };
    // SAFETY: `bytes` outlives the receive, which has ended or is given up here.
    let received = unsafe {
        scene
            .engine
            .receive(pattern, Some(peer), Memory::of_mut(&mut bytes))
    };
    match received.expect("the peer lives") {
        Received::Now(outcome) => Some(bytes[..outcome.bytes as usize].to_vec()),
        Received::Later(id) => {
            scene.engine.abandon(id);
            scene.engine.take(id);
            None
        }
    }
}

#[test]
fn the_token_tells_of_which_job_a_rank_is() {
    let mut scene = scene();
    scene.gets(message(OTHER_TOKEN, 1, 0, b"theirs"));
    assert_eq!(receive(&mut scene, OTHER).as_deref(), Some(&b"theirs"[..]));
    // The same rank of this job is another process, with sequence numbers of its own.
    scene.gets(message(TOKEN, 1, 0, b"ours"));
    assert_eq!(receive(&mut scene, PEER).as_deref(), Some(&b"ours"[..]));
    scene.gets(message(OTHER_TOKEN, 1, 1, b"again"));
    assert_eq!(receive(&mut scene, OTHER).as_deref(), Some(&b"again"[..]));
}

#[test]
fn who_was_not_admitted_is_not_heard() {
    let mut scene = scene();
    for (token, rank) in [(OTHER_TOKEN, 0), (OTHER_TOKEN, 3), (98, 1)] {
        scene.gets(message(token, rank, 0, b"hello"));
    }
    assert_eq!(receive(&mut scene, OTHER), None);
    let unauthenticated = scene.engine.describe(&crate::engine::describe::bare);
    assert!(
        unauthenticated.contains("3 messages that were not for this process"),
        "{unauthenticated}"
    );
}

#[test]
fn each_job_is_told_another_token() {
    let mut scene = scene();
    assert_eq!(scene.engine.card().token, TOKEN);
    let card = scene.engine.card_for(OTHER_JOB).expect("it was admitted");
    assert_eq!((card.token, card.lanes), (OTHER_TOKEN, scene.engine.card().lanes));
    assert_eq!(scene.engine.card_for(JobId(3)), None);
    // A job that is admitted again keeps its token.
    scene.engine.admit(OTHER_JOB, 1);
    scene.engine.admit(JOB, 2);
    assert_eq!(
        scene.engine.card_for(OTHER_JOB).map(|card| card.token),
        Some(OTHER_TOKEN)
    );
    assert_eq!(scene.engine.card_for(JOB), None);
}

#[test]
fn messages_to_another_job_name_this_process_by_its_own_rank() {
    let mut scene = scene();
    let send = Send {
        peer: OTHER,
        envelope: Envelope {
            context: SHARED,
            source: 0,
            tag: 5,
        },
        memory: Memory::of(b"to them"),
        sync: false,
    };
    // SAFETY: the memory is a constant's.
    let id = unsafe { scene.engine.send(&send, true) }.expect("the peer lives");
    assert_eq!(*scene.engine.wanted(), [OTHER]);
    scene.engine.wanted().clear();
    let card = BusinessCard {
        agreed: 0,
        token: 1234,
        lanes: vec![("played".into(), Vec::new())],
    };
    scene.engine.connect(OTHER, &card);
    scene.engine.progress(false);
    let heard = scene.heard();
    let [(header, payload)] = &heard[..] else {
        panic!("one message is sent: {}", heard.len());
    };
    assert_eq!(
        (header.token, header.src, &payload[..]),
        (1234, ME.number(), &b"to them"[..])
    );
    assert!(scene.engine.take(id.expect("a request")).is_some());
}

/// `MPI_COMM_WORLD` has the same context in all jobs, but it is not the same communicator.
#[test]
fn another_job_has_no_business_in_the_world_of_this_one() {
    for context in [
        Context::WORLD,
        Context::WORLD.collective(),
        Context::SELF,
        Context::NONE,
    ] {
        let mut scene = scene();
        scene.gets(message_in(context, OTHER_TOKEN, 1, 0, b"hello"));
        let peer = scene.engine.state.peers.get(OTHER).expect("it was met");
        assert!(matches!(peer.link, ConnectionState::Lost(_)), "{context:?}");
        assert_eq!(scene.engine.state.unexpected.len(), 0);
    }
}

/// The window is the same on both sides, whatever the sizes of their jobs: it does not depend on them.
#[test]
fn the_window_between_jobs_is_the_least() {
    let mut scene = Scene::new(|limits| limits.queue = 1000);
    let lane = LOOPBACK + 1;
    let windows = [ME, PEER, OTHER].map(|peer| scene.engine.state.window_of(peer, lane));
    assert_eq!(windows[1..], [500, WINDOW_MIN as u32]);
    scene.engine.admit(OTHER_JOB, OTHER_TOKEN);
    let name = ProcessName {
        job: OTHER_JOB,
        rank: 1,
    };
    scene.engine.place(name, OTHER);
    let due = |scene: &Scene| {
        scene
            .engine
            .state
            .peers
            .get(OTHER)
            .is_some_and(|peer| peer.flow.due)
    };
    for seq in 0..WINDOW_MIN as u32 / 2 {
        assert!(!due(&scene));
        scene.gets(message(OTHER_TOKEN, 1, seq, b"hello"));
    }
    assert!(due(&scene), "half of the window has come");
}

/// A message that comes before its turn is that of the same process later.
#[test]
fn what_is_held_keeps_its_sender() {
    let mut scene = Scene::new(|limits| limits.ordered = false);
    scene.engine.admit(OTHER_JOB, OTHER_TOKEN);
    let name = ProcessName {
        job: OTHER_JOB,
        rank: 1,
    };
    scene.engine.place(name, OTHER);
    scene.gets(message(OTHER_TOKEN, 1, 1, b"second"));
    assert_eq!(receive(&mut scene, OTHER), None);
    scene.gets(message(OTHER_TOKEN, 1, 0, b"first"));
    assert_eq!(receive(&mut scene, OTHER).as_deref(), Some(&b"first"[..]));
    assert_eq!(receive(&mut scene, OTHER).as_deref(), Some(&b"second"[..]));
}
