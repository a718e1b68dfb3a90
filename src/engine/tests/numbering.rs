//! Processes of other jobs: the token determines which job a message is from.

use super::foreign::{OTHER, OTHER_JOB, hello, message, message_in, receive};
use super::*;
use crate::engine::foreign::window;
use crate::engine::numbering::derived;

fn token() -> u64 {
    derived(TOKEN, OTHER_JOB)
}

/// Process 1 of the other job has introduced itself.
fn scene() -> Scene {
    let mut scene = Scene::new(|_| ());
    scene.gets(hello(1, 0, 0));
    scene
}

#[test]
fn the_token_tells_of_which_job_a_rank_is() {
    let mut scene = scene();
    scene.gets(message(token(), 1, 1, b"theirs"));
    assert_eq!(receive(&mut scene, OTHER).as_deref(), Some(&b"theirs"[..]));
    // The same rank of this job is another process, with sequence numbers of its own.
    scene.gets(message(TOKEN, 1, 0, b"ours"));
    assert_eq!(receive(&mut scene, PEER).as_deref(), Some(&b"ours"[..]));
    scene.gets(message(token(), 1, 2, b"again"));
    assert_eq!(receive(&mut scene, OTHER).as_deref(), Some(&b"again"[..]));
}

#[test]
fn who_is_not_known_is_not_heard() {
    let mut scene = scene();
    for (token, rank) in [(token(), 0), (token(), 3), (98, 1), (derived(TOKEN, JobId(3)), 1)] {
        scene.gets(message(token, rank, 0, b"hello"));
    }
    assert_eq!(receive(&mut scene, OTHER), None);
    let unauthenticated = scene.engine.describe(&crate::engine::describe::bare);
    assert!(
        unauthenticated.contains("4 messages that were not for this process"),
        "{unauthenticated}"
    );
}

#[test]
fn each_job_has_another_token_from_the_same_card() {
    let scene = scene();
    assert_eq!(scene.engine.card().token, TOKEN);
    let tokens = [
        derived(TOKEN, OTHER_JOB),
        derived(TOKEN, JobId(3)),
        derived(TOKEN + 1, OTHER_JOB),
        TOKEN,
    ];
    for (at, token) in tokens.iter().enumerate() {
        assert!(!tokens[..at].contains(token));
    }
    // As `docs/wire.md` says.
    assert_eq!(derived(0x0123_4567_89ab_cdef, JobId(0xfedc_ba98_7654_3210)), 0);
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
        scene.gets(message_in(context, token(), 1, 1, b"hello"));
        let peer = scene.engine.state.peers.get(OTHER).expect("it was met");
        assert!(matches!(peer.link, ConnectionState::Lost(_)), "{context:?}");
        assert_eq!(scene.engine.state.unexpected.len(), 0);
    }
}

/// The window between two jobs does not depend on their sizes, which the other one does not know.
#[test]
fn the_window_between_jobs_is_the_smaller_one_of_both_cards() {
    for (theirs, smaller) in [(3, 3), (1000, 62), (62, 62), (61, 61), (1, 1)] {
        let mut scene = Scene::new(|limits| limits.queue = 1000);
        assert_eq!(scene.engine.card().lanes[0].window, 62);
        assert_eq!(window(&scene.engine.state.limits[1]), 62);
        scene.gets(hello(1, 0, theirs));
        let peer = scene.engine.state.peers.get(OTHER).expect("it was met");
        assert_eq!(peer.flow.window, smaller);
        // `Hello` counts, too.
        let mut taken = 1;
        let heard = loop {
            match &scene.heard()[..] {
                [] => scene.gets(message(token(), 1, taken, b"hello")),
                [(header, _)] => break *header,
                more => panic!("{more:?}"),
            }
            taken += 1;
        };
        assert_eq!(
            (heard.kind, taken),
            (MessageKind::ACK, (smaller / 2).max(1)),
            "{smaller}"
        );
    }
}

/// A message that comes before its turn is that of the same process later.
#[test]
fn what_is_held_keeps_its_sender() {
    let mut scene = Scene::new(|limits| limits.ordered = false);
    scene.gets(hello(1, 0, 0));
    scene.gets(message(token(), 1, 2, b"second"));
    assert_eq!(receive(&mut scene, OTHER), None);
    scene.gets(message(token(), 1, 1, b"first"));
    assert_eq!(receive(&mut scene, OTHER).as_deref(), Some(&b"first"[..]));
    assert_eq!(receive(&mut scene, OTHER).as_deref(), Some(&b"second"[..]));
}
