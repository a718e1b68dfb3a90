//! How requests end that nobody waits for, and what counts as over.

use super::*;

const LEN: usize = 5000;

fn without_reads() -> Scene {
    Scene::new(|limits| limits.rma = false)
}

#[test]
fn a_send_that_is_given_up_has_ended_and_sends_no_more() {
    let data = pattern(LEN);
    // Before the peer has asked, while its bytes go, and between two grants. Another one goes on.
    for granted in [0, 1000, LEN as u64] {
        let mut scene = without_reads();
        let given_up = scene.send(5, Memory::of(&data));
        let other = scene.send(6, Memory::of(&data));
        scene.heard();
        scene.wire.lock().full = true;
        for (id, receiver) in [(given_up, 7), (other, 8)] {
            if granted > 0 {
                let grant = Grant::new(LEN as u64, granted).encode();
                scene.says(Kind::Cts, 0, (0, receiver, id.to_u64()), &grant);
            }
        }
        scene.engine.abandon(given_up);
        let outcome = scene.engine.take(given_up).expect("it has ended");
        assert!(outcome.error.is_some(), "{granted}");
        assert_eq!(scene.engine.is_complete(other), Some(false), "{granted}");
        scene.wire.lock().full = false;
        while scene.engine.progress(false) {}
        let heard = scene.heard();
        assert!(
            heard
                .iter()
                .all(|(header, _)| (header.kind, header.context) == (Kind::Data, 8))
        );
        let bytes: usize = heard.iter().map(|(_, payload)| payload.len()).sum();
        assert_eq!(bytes as u64, granted);
        assert_eq!(scene.engine.is_complete(other), Some(granted == LEN as u64));
        // An answer that comes late finds nothing, and does no harm.
        let grant = Grant::new(LEN as u64, LEN as u64).encode();
        scene.says(Kind::Cts, 0, (0, 7, given_up.to_u64()), &grant);
        assert!(!scene.is_lost() && scene.heard().is_empty());
    }
}

#[test]
fn a_send_that_is_given_up_is_exposed_no_more() {
    let data = pattern(LEN);
    let mut scene = Scene::new(|_| ());
    let id = scene.send(5, Memory::of(&data));
    assert_eq!(scene.wire.lock().regions, 1);
    scene.engine.abandon(id);
    assert_eq!(scene.wire.lock().regions, 0);
    assert!(scene.engine.take(id).expect("it has ended").error.is_some());
}

#[test]
fn a_receive_that_is_given_up_takes_no_message() {
    let mut scene = without_reads();
    let mut buffer = [0xee; 10];
    let id = scene.post(5, Memory::of_mut(&mut buffer));
    scene.engine.abandon(id);
    assert!(scene.engine.take(id).expect("it has ended").error.is_some());
    scene.eager(5, &[1; 10]);
    assert_eq!(scene.engine.state.unexpected.len(), 1);
    // One that has its message has ended well.
    let received = scene.receive(5, Memory::of_mut(&mut buffer));
    assert_eq!(scene.outcome(received).bytes, 10);
    // And one whose message is asked for piece by piece.
    let mut long = vec![0; LEN];
    let id = scene.post(6, Memory::of_mut(&mut long));
    let rts = Rts {
        size: LEN as u64,
        sender: 31,
        key: None,
    };
    scene.says(Kind::Rts, 0, (6, CONTEXT, PEER.0.into()), &rts.encode());
    scene.engine.abandon(id);
    assert!(scene.engine.take(id).expect("it has ended").error.is_some());
}

#[test]
fn a_freed_send_that_waits_for_its_receive_is_untaken() {
    let data = pattern(LEN);
    let mut scene = without_reads();
    let untaken = |scene: &Scene| scene.engine.untaken_freed_sends(|context| context == CONTEXT);
    let kept = scene.send(5, Memory::of(&data));
    assert_eq!(untaken(&scene), []);
    let freed = scene.send(5, Memory::of(&data));
    scene.engine.release(freed);
    assert_eq!(untaken(&scene), [freed]);
    assert_eq!(scene.engine.untaken_freed_sends(|context| context != CONTEXT), []);
    scene.heard();
    // Taken, and not yet sent.
    scene.wire.lock().full = true;
    for id in [kept, freed] {
        let grant = Grant::new(LEN as u64, LEN as u64).encode();
        scene.says(Kind::Cts, 0, (0, 7, id.to_u64()), &grant);
    }
    assert_eq!(untaken(&scene), []);
}

#[test]
fn an_engine_with_a_request_is_not_empty() {
    let mut scene = without_reads();
    assert!(scene.engine.is_empty() && scene.engine.has_said_all());
    let bare = scene.engine.bare_request();
    assert!(!scene.engine.is_empty() && !scene.engine.has_said_all());
    scene.engine.complete(bare, Outcome::EMPTY);
    assert!(!scene.engine.is_empty(), "nobody has taken it");
    scene.engine.take(bare);
    assert!(scene.engine.is_empty());
}

#[test]
fn messages_are_counted_while_anybody_wants_it() {
    let mut scene = without_reads();
    for on in [true, true, true, false, false] {
        scene.engine.count_all(on);
    }
    assert_eq!(scene.wire.lock().counts, [true]);
    scene.engine.count_all(false);
    assert_eq!(scene.wire.lock().counts, [true, false]);
}

#[test]
fn a_synchronous_message_goes_at_once_where_it_fits_with_its_word() {
    const FITS: usize = 100;
    let data = pattern(FITS + 1);
    for (len, kind) in [(0, Kind::Eager), (FITS, Kind::Eager), (FITS + 1, Kind::Rts)] {
        let mut scene = Scene::new(|limits| {
            limits.rma = false;
            // Eight bytes name the request.
            limits.message = crate::engine::wire::HEADER_BYTES + 8 + FITS;
            limits.buffered = limits.message;
        });
        let id = scene.send_as(5, Memory::of(&data[..len]), true);
        let (_, payload) = scene.hears(kind);
        if kind == Kind::Eager {
            assert_eq!(payload[..8], id.to_u64().to_le_bytes());
            assert_eq!(payload[8..], data[..len]);
        }
        assert_eq!(scene.engine.is_complete(id), Some(false), "{len}");
        scene.says(Kind::Done, 0, (0, 0, id.to_u64()), &[]);
        assert_eq!(scene.engine.take(id), Some(Outcome::EMPTY), "{len}");
    }
}
