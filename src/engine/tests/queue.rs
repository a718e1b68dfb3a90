//! What waits for a lane, and messages of the layers above.

use super::*;
use crate::engine::dispatch::{Behind, Incoming, Outlet, Serve};
use crate::engine::wire::{FLAG_COLLECTIVE, FLAG_FOLLOWED};

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

struct Reverses(Option<Envelope>);

impl Serve for Reverses {
    fn message(&self, incoming: &mut Incoming<'_>) -> bool {
        let mut payload = incoming.payload().to_vec();
        payload.reverse();
        if let Some(envelope) = self.0 {
            let from = incoming.from();
            assert!(incoming.outlet().send(from, envelope, &payload));
            assert!(!incoming.outlet().send(from, envelope, &[0; 1 << 20]), "too long");
        }
        (incoming.arg(), incoming.from()) == (7, PEER)
    }

    fn lost(&self, _: &mut Outlet<'_>, peer: PeerIndex) {
        assert_eq!(peer, PEER);
    }
}

/// Messages of a context that is served reach its server, in their turn, and it can answer.
#[test]
fn other_layers_serve_contexts() {
    let mut scene = Scene::new(|_| ());
    let context = Context::of_bits(40);
    let envelope = Envelope {
        context,
        source: 0,
        tag: 9,
    };
    scene.engine.serve(context, Arc::new(Reverses(Some(envelope))));
    scene.says(MessageKind::SERVICE, 0, (0, 40, 7), b"abc");
    let heard = scene.heard();
    let [(header, payload)] = &heard[..] else {
        panic!("one answer: {}", heard.len());
    };
    assert_eq!((header.kind, header.tag), (MessageKind::EAGER, 9));
    assert_eq!((header.context, &payload[..]), (40, &b"cba"[..]));
    assert!(
        scene
            .engine
            .post(PEER, context, 1, &mut b"x".to_vec(), None)
            .is_ok()
    );
    assert!(
        scene
            .engine
            .post(PEER, context, 1, &mut vec![0; 1 << 20], None)
            .is_err()
    );
    assert_eq!(scene.heard().len(), 1);
    // Its server says that this makes no sense: the connection to the sender is closed.
    scene.says(MessageKind::SERVICE, 0, (0, 40, 8), b"");
    scene.says(MessageKind::SERVICE, 0, (0, 40, 7), b"abc");
    scene.heard();
    assert!(
        scene
            .engine
            .post(PEER, context, 1, &mut b"x".to_vec(), None)
            .is_err(),
        "it is lost"
    );
}

/// An ordinary message without contents goes with one for a server, and is matched behind it.
#[test]
fn a_message_comes_behind_one_for_a_server() {
    let mut scene = Scene::new(|_| ());
    let context = Context::of_bits(40);
    scene.engine.serve(context, Arc::new(Reverses(None)));
    let behind = |collective| Some(Behind { tag: 9, collective });
    for (collective, flags) in [(false, FLAG_FOLLOWED), (true, FLAG_FOLLOWED | FLAG_COLLECTIVE)] {
        let posted = scene
            .engine
            .post(PEER, context, 7, &mut b"x".to_vec(), behind(collective));
        assert_eq!(posted, Ok(true));
        let heard = scene.heard();
        let [(header, payload)] = &heard[..] else {
            panic!("one message: {}", heard.len());
        };
        assert_eq!(
            (header.kind, header.flags, header.tag),
            (MessageKind::SERVICE, flags, 9)
        );
        assert_eq!((header.context, header.arg, &payload[..]), (40, 7, &b"x"[..]));
    }
    let mut receive = |context| {
        let pattern = Pattern {
            context,
            source: Some(7),
            tag: Some(9),
        };
        // SAFETY: it has no memory.
        match unsafe { scene.engine.receive(pattern, Some(PEER), Memory::empty()) } {
            Ok(Received::Later(request)) => request,
            _ => panic!("nothing has come"),
        }
    };
    let (ordinary, collective) = (receive(context), receive(context.collective()));
    let ended = |scene: &Scene| [ordinary, collective].map(|request| scene.engine.is_complete(request));
    scene.says(MessageKind::SERVICE, 0, (9, 40, 7), b"abc");
    assert_eq!(ended(&scene), [Some(false), Some(false)]);
    scene.says(MessageKind::SERVICE, FLAG_FOLLOWED, (9, 40, 7), b"abc");
    assert_eq!(ended(&scene), [Some(true), Some(false)]);
    scene.says(
        MessageKind::SERVICE,
        FLAG_FOLLOWED | FLAG_COLLECTIVE,
        (9, 40, 7),
        b"abc",
    );
    assert_eq!(ended(&scene), [Some(true), Some(true)]);
}

/// A message of a context that is served no longer is ignored, where that was asked for; one that nobody serves makes no sense.
#[test]
fn a_context_that_nobody_serves_makes_no_sense() {
    let mut scene = Scene::new(|_| ());
    let context = Context::of_bits(40);
    scene.engine.serve(context, Arc::new(Reverses(None)));
    assert!(scene.engine.end_service(context, true).is_some());
    let lost = |scene: &Scene| {
        let told = scene.engine.describe(&crate::engine::describe::bare);
        told.contains("unreachable") && told.contains("makes no sense")
    };
    scene.says(MessageKind::SERVICE, 0, (0, 40, 8), b"");
    assert!(!lost(&scene));
    assert!(scene.engine.end_service(context, false).is_none());
    scene.says(MessageKind::SERVICE, 0, (0, 40, 8), b"");
    assert!(lost(&scene));
}
