//! What waits for a lane, and messages of the layers above.

use super::*;
use crate::engine::dispatch::{Incoming, Words};

fn send(scene: &mut Scene) -> RequestId {
    let send = Send {
        peer: PEER,
        envelope: Envelope {
            context: CONTEXT,
            source: 0,
            tag: 5,
        },
        memory: Memory::of(b"hello"),
        sync: false,
    };
    // SAFETY: the memory is a constant's.
    let id = unsafe { scene.engine.send(&send, true) }.expect("the peer lives");
    id.expect("a request")
}

fn tries(scene: &Scene) -> u32 {
    std::mem::take(&mut scene.wire.lock().tries)
}

#[test]
fn a_lane_that_is_full_is_asked_once_for_each_message() {
    let mut scene = Scene::new(|_| ());
    scene.wire.lock().full = true;
    let first = send(&mut scene);
    assert_eq!(tries(&scene), 1);
    // What has to wait behind it is not tried.
    let second = send(&mut scene);
    assert_eq!((tries(&scene), scene.engine.is_complete(first)), (0, Some(false)));
    scene.engine.progress(false);
    assert_eq!(tries(&scene), 1);
    scene.wire.lock().full = false;
    scene.engine.progress(false);
    assert_eq!(tries(&scene), 2);
    assert!(scene.engine.take(first).is_some() && scene.engine.take(second).is_some());
    // From now on messages go at once again.
    let third = send(&mut scene);
    assert_eq!((tries(&scene), scene.engine.is_complete(third)), (1, Some(true)));
    assert_eq!(scene.heard().len(), 3);
}

/// Messages of a kind that another layer has added reach it, in their turn, and it can answer.
#[test]
fn other_layers_have_kinds_of_their_own() {
    const ASKS: MessageKind = MessageKind::added(0);
    const ANSWERS: MessageKind = MessageKind::added(1);
    let mut scene = Scene::new(|_| ());
    let handler = |incoming: &mut Incoming| {
        let words = incoming.words();
        let mut payload = incoming.payload().to_vec();
        payload.reverse();
        let answer = Words {
            kind: ANSWERS,
            flags: words.flags + 1,
            arg: words.arg + 1,
            ..words
        };
        let replied = incoming.reply(answer, &payload);
        assert!(replied.is_ok() && incoming.reply(answer, &[0; 1 << 20]).is_err());
        (words.tag, incoming.from()) == (7, PEER)
    };
    scene.engine.handle(ASKS, Box::new(handler));
    scene.says(ASKS, 2, (7, 40, 1), b"abc");
    let heard = scene.heard();
    let [(header, payload)] = &heard[..] else {
        panic!("one answer: {}", heard.len());
    };
    assert_eq!((header.kind, header.flags, header.tag), (ANSWERS, 3, 7));
    assert_eq!((header.context, header.arg, &payload[..]), (40, 2, &b"cba"[..]));
    let asks = Words {
        kind: ASKS,
        flags: 0,
        tag: 0,
        context: 3,
        arg: 4,
    };
    assert!(scene.engine.post(PEER, asks, b"x").is_ok());
    assert!(scene.engine.post(PEER, asks, &[0; 1 << 20]).is_err());
    assert_eq!(scene.heard().len(), 1);
    // Its handler says that this makes no sense: the connection to the sender is closed.
    scene.says(ASKS, 0, (8, 40, 1), b"");
    scene.says(ASKS, 0, (7, 40, 1), b"abc");
    assert_eq!(scene.heard().len(), 0);
    assert!(scene.engine.post(PEER, asks, b"x").is_err(), "it is lost");
}

/// A handler can end a request that waits for its message, and no other.
#[test]
fn a_handler_ends_bare_requests() {
    const ENDS: MessageKind = MessageKind::added(0);
    let mut scene = Scene::new(|_| ());
    let bare = scene.engine.bare_request();
    let mut buffer = [0; 10];
    let receive = scene.post(5, Memory::of_mut(&mut buffer));
    let handler = move |incoming: &mut Incoming| {
        incoming.complete(bare, Outcome::EMPTY);
        incoming.complete(receive, Outcome::EMPTY);
        true
    };
    scene.engine.handle(ENDS, Box::new(handler));
    scene.says(ENDS, 0, (0, 0, 0), b"");
    assert_eq!(scene.engine.is_complete(bare), Some(true));
    assert_eq!(
        scene.engine.is_complete(receive),
        Some(false),
        "its memory is in use"
    );
    scene.engine.abandon(receive);
}

#[test]
fn a_kind_that_nobody_knows_makes_no_sense() {
    for kind in [MessageKind::added(5), MessageKind::added(191)] {
        let mut scene = Scene::new(|_| ());
        scene.says(kind, 0, (0, 0, 0), b"");
        let told = scene.engine.describe(&crate::engine::describe::bare);
        assert!(
            told.contains("unreachable") && told.contains("makes no sense"),
            "{told}"
        );
    }
}
