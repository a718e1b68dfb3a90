//! Answers of a peer that make no sense: the connection to it is closed, and it gets nothing that was not asked for properly.

use super::*;
use crate::engine::protocol::pipelined::PIPELINED_MAX;

const LEN: usize = 5000;
/// The peer's request.
const RECEIVER: u64 = 7;

/// A long message that waits for the peer's `Cts`, as it can't be read.
fn rendezvous(data: &[u8]) -> (Scene, RequestId) {
    let mut scene = Scene::new(|limits| limits.rma = false);
    let id = scene.send(5, Memory::of(data));
    scene.hears(MessageKind::RTS);
    (scene, id)
}

fn grant(scene: &mut Scene, receiver: u64, sender: RequestId, limit: u64, granted: u64) {
    let payload = Grant::new(limit, granted).encode();
    scene.says(MessageKind::CTS, 0, (0, receiver, sender.to_u64()), &payload);
}

/// The bytes that the engine has sent since it was last asked.
fn data_heard(scene: &mut Scene) -> Vec<u8> {
    let heard = scene.heard().into_iter();
    heard
        .flat_map(|(header, payload)| {
            assert_eq!((header.kind, header.context), (MessageKind::DATA, RECEIVER));
            payload
        })
        .collect()
}

#[test]
fn a_first_grant() {
    let data = pattern(LEN);
    let len = LEN as u64;
    for (limit, granted, good) in [
        (len, 1000, true),
        (len, len, true),
        (len, 0, false),
        (1000, 1001, false),
        (len + 1, 1, false),
        (u64::MAX, u64::MAX, false),
    ] {
        let (mut scene, id) = rendezvous(&data);
        grant(&mut scene, RECEIVER, id, limit, granted);
        assert_eq!(scene.is_lost(), !good, "{granted} of {limit}");
        let sent = if good { granted as usize } else { 0 };
        assert!(data_heard(&mut scene) == data[..sent], "{granted} of {limit}");
    }
    for payload in [&[0xff; 15][..], &[0xff; 17], &[]] {
        let (mut scene, id) = rendezvous(&data);
        scene.says(MessageKind::CTS, 0, (0, RECEIVER, id.to_u64()), payload);
        assert!(scene.is_lost(), "{} bytes", payload.len());
    }
}

#[test]
fn a_further_grant() {
    let data = pattern(LEN);
    let len = LEN as u64;
    for (receiver, limit, granted, good) in [
        (RECEIVER, len, 1001, true),
        (RECEIVER, len, len, true),
        (RECEIVER + 1, len, 2000, false),
        (RECEIVER, len - 1, 2000, false),
        (RECEIVER, len, 1000, false),
        (RECEIVER, len, 999, false),
    ] {
        let what = format!("{granted} of {limit} to {receiver}");
        // All that was granted has gone, or the lane has not taken it yet.
        for full in [false, true] {
            let (mut scene, id) = rendezvous(&data);
            scene.wire.lock().full = full;
            grant(&mut scene, RECEIVER, id, len, 1000);
            let mut heard = data_heard(&mut scene);
            assert_eq!(heard.len(), if full { 0 } else { 1000 });
            grant(&mut scene, receiver, id, limit, granted);
            assert_eq!(scene.is_lost(), !good, "{what}, full: {full}");
            scene.wire.lock().full = false;
            while scene.engine.progress(false) {}
            heard.extend(data_heard(&mut scene));
            let sent = match (good, full) {
                (true, _) => granted as usize,
                (false, true) => 0,
                (false, false) => 1000,
            };
            assert!(
                heard == data[..sent],
                "{what}, full: {full}: {} bytes",
                heard.len()
            );
        }
    }
}

#[test]
fn a_grant_for_what_is_no_such_send() {
    let data = pattern(LEN);
    let mut buffer = [0; 10];
    let (mut scene, id) = rendezvous(&data);
    // What is gone may have been asked for before: the receiver learns that.
    let gone = RequestId {
        generation: id.generation + 1,
        ..id
    };
    grant(&mut scene, RECEIVER, gone, 1000, 1000);
    let heard = scene.heard();
    let answers: Vec<_> = heard
        .iter()
        .map(|(header, _)| (header.kind, header.arg))
        .collect();
    assert_eq!(answers, [(MessageKind::GONE, RECEIVER)]);
    assert!(!scene.is_lost());
    let receive = scene.post(5, Memory::of_mut(&mut buffer));
    grant(&mut scene, RECEIVER, receive, 1, 1);
    assert!(scene.is_lost());
    // A short one has gone, and nobody asks for it.
    let (mut scene, _) = rendezvous(&data);
    let short = scene.send(5, Memory::of(&data[..10]));
    scene.hears(MessageKind::EAGER);
    grant(&mut scene, RECEIVER, short, 10, 10);
    assert!(scene.is_lost() && scene.heard().is_empty());
}

fn cancel_reply(scene: &mut Scene, id: RequestId, cancelled: bool) {
    let flags = if cancelled { FLAG_CANCELLED } else { 0 };
    scene.says(MessageKind::CANCEL_REPLY, flags, (0, 0, id.to_u64()), &[]);
}

#[test]
fn an_answer_to_a_cancel() {
    let data = pattern(LEN);
    for cancelled in [true, false] {
        for len in [10, LEN] {
            let sent = || {
                let mut scene = Scene::new(|limits| limits.rma = false);
                let id = scene.send(5, Memory::of(&data[..len]));
                scene.heard();
                (scene, id)
            };
            // Nobody has asked.
            let (mut scene, id) = sent();
            cancel_reply(&mut scene, id, cancelled);
            assert!(scene.is_lost(), "{len} bytes, cancelled: {cancelled}");
            // One answer is enough.
            let (mut scene, id) = sent();
            scene.engine.cancel(id);
            while scene.engine.progress(false) {}
            scene.hears(MessageKind::CANCEL);
            cancel_reply(&mut scene, id, cancelled);
            assert!(!scene.is_lost());
            if cancelled {
                assert_eq!(
                    scene.engine.outcome(id).map(|outcome| outcome.cancelled),
                    Some(true)
                );
            }
            cancel_reply(&mut scene, id, cancelled);
            assert!(scene.is_lost(), "{len} bytes, cancelled: {cancelled}, twice");
        }
    }
    let (mut scene, id) = rendezvous(&data);
    let gone = RequestId {
        generation: id.generation + 1,
        ..id
    };
    cancel_reply(&mut scene, gone, true);
    assert!(!scene.is_lost());
    let mut buffer = [0; 10];
    let receive = scene.post(5, Memory::of_mut(&mut buffer));
    cancel_reply(&mut scene, receive, true);
    assert!(scene.is_lost());
}

/// A receiver that has asked for the bytes has not agreed to a cancel.
#[test]
fn a_message_that_is_being_fetched_can_not_have_been_given_back() {
    let data = pattern(LEN);
    for cancelled in [true, false] {
        let (mut scene, id) = rendezvous(&data);
        scene.engine.cancel(id);
        while scene.engine.progress(false) {}
        scene.hears(MessageKind::CANCEL);
        grant(&mut scene, RECEIVER, id, LEN as u64, 1000);
        assert_eq!(data_heard(&mut scene).len(), 1000);
        cancel_reply(&mut scene, id, cancelled);
        assert_eq!(scene.is_lost(), cancelled);
        if !cancelled {
            grant(&mut scene, RECEIVER, id, LEN as u64, LEN as u64);
            assert!(data_heard(&mut scene) == data[1000..]);
            assert_eq!(scene.engine.outcome(id), Some(&Outcome::EMPTY));
        }
    }
}

/// A receiver that reads the bytes sends `Done` when it has them; one that gets them as `Data` sends nothing.
#[test]
fn an_end_that_is_not_due() {
    let data = pattern(LEN);
    let done = |scene: &mut Scene, id: RequestId| scene.says(MessageKind::DONE, 0, (0, 0, id.to_u64()), &[]);
    let (mut scene, id) = rendezvous(&data);
    done(&mut scene, id);
    assert_eq!(scene.engine.take(id), Some(Outcome::EMPTY));
    done(&mut scene, id);
    assert!(!scene.is_lost(), "what is gone is gone");
    let (mut scene, id) = rendezvous(&data);
    grant(&mut scene, RECEIVER, id, LEN as u64, 1000);
    done(&mut scene, id);
    assert!(scene.is_lost(), "4000 bytes have not been asked for");
    let mut buffer = [0; 10];
    let (mut scene, _) = rendezvous(&data);
    let receive = scene.post(5, Memory::of_mut(&mut buffer));
    done(&mut scene, receive);
    assert!(scene.is_lost(), "a receive");
}

#[test]
fn a_word_of_having_taken_what_was_not_sent() {
    for (sent, taken, lost) in [
        (0, 0, false),
        (0, 1, true),
        (3, 3, false),
        (3, 4, true),
        (3, 0xffff, true),
    ] {
        let mut scene = Scene::new(|_| ());
        for _ in 0..sent {
            scene.send(5, Memory::empty());
        }
        scene.taken = taken;
        scene.eager(9, &[]);
        assert_eq!(scene.is_lost(), lost, "{taken} of {sent}");
        let held = scene.engine.state.unexpected.len();
        assert_eq!(held, usize::from(!lost), "{taken} of {sent}");
    }
}

/// A message with a wrong token or sender: no peer is responsible, and no connection is closed.
#[test]
fn a_message_of_an_unauthenticated_sender() {
    let good = Header {
        token: TOKEN,
        kind: MessageKind::EAGER,
        flags: 0,
        ack: 0,
        src: PEER.number(),
        seq: 0,
        tag: 5,
        context: CONTEXT.bits(),
        arg: PEER.number().into(),
    };
    let strange = [
        Header {
            token: TOKEN + 1,
            ..good
        },
        Header { src: 3, ..good },
        Header {
            src: u32::MAX,
            ..good
        },
        // A process sends to itself only through its loopback lane.
        Header {
            src: ME.number(),
            ..good
        },
    ];
    let mut scene = Scene::new(|_| ());
    for header in strange {
        scene.wire.lock().coming.push_back(header.encode().to_vec());
        while scene.engine.progress(false) {}
    }
    // Half a header, and a kind that does not exist.
    for bytes in [&good.encode()[..20], &[0xff; 40], &[]] {
        scene.wire.lock().coming.push_back(bytes.to_vec());
        while scene.engine.progress(false) {}
    }
    assert!(!scene.is_lost() && scene.engine.state.unexpected.is_empty());
    assert_eq!(scene.engine.state.unauthenticated, 7);
    scene.eager(5, &[]);
    assert_eq!(scene.engine.state.unexpected.len(), 1);
}

#[test]
fn an_envelope_that_can_not_be() {
    for (tag, source, good) in [
        (5, u64::from(PEER.number()), true),
        (0, u64::from(PEER.number()), true),
        (i32::MAX, u64::from(PEER.number()), true),
        (-1, u64::from(PEER.number()), false),
        (i32::MIN, u64::from(PEER.number()), false),
        // The largest number is the wildcard, and longer ones are no ranks.
        (5, u64::from(u32::MAX), false),
        (5, u64::from(u32::MAX) + 1 + u64::from(PEER.number()), false),
    ] {
        let mut scene = Scene::new(|_| ());
        scene.says(MessageKind::EAGER, 0, (tag, CONTEXT.bits(), source), &[]);
        assert_eq!(scene.is_lost(), !good, "tag {tag}, source {source}");
    }
}

/// The receiver has room for each piece as it comes, so what is announced has bounds.
#[test]
fn a_pipelined_message_that_can_not_be() {
    let pipelined = |scene: &mut Scene, size, sender| {
        let rts = Rts {
            size,
            sender,
            key: None,
        };
        scene.says(
            MessageKind::RTS,
            FLAG_PIPELINED,
            (5, CONTEXT.bits(), PEER.number().into()),
            &rts.encode(),
        );
    };
    for (size, good) in [
        (0, false),
        (1, true),
        (PIPELINED_MAX, true),
        (PIPELINED_MAX + 1, false),
        (u64::MAX, false),
    ] {
        let mut scene = Scene::new(|_| ());
        pipelined(&mut scene, size, 31);
        assert_eq!(scene.is_lost(), !good, "{size} bytes");
    }
    for (other, good) in [(32, true), (31, false)] {
        let mut scene = Scene::new(|_| ());
        pipelined(&mut scene, 100, 31);
        pipelined(&mut scene, 100, other);
        assert_eq!(scene.is_lost(), !good, "sender {other}");
    }
}

#[test]
fn a_piece_that_can_not_be() {
    for (at, len, good) in [
        (60, 40, true),
        (60, 1, true),
        (60, 41, false),
        (60, 1000, false),
        (60, 0, false),
        (59, 40, false),
        (61, 39, false),
        (0, 40, false),
        (u64::MAX, 40, false),
    ] {
        for receives in [true, false] {
            let mut scene = Scene::new(|_| ());
            let mut buffer = [0; 100];
            let receive = receives.then(|| scene.post(5, Memory::of_mut(&mut buffer)));
            scene.announces(FLAG_PIPELINED, 5, 100);
            scene.says(MessageKind::DATA, FLAG_PIPELINED, (0, 31, 0), &[1; 60]);
            scene.says(MessageKind::DATA, FLAG_PIPELINED, (0, 31, at), &vec![1; len]);
            assert_eq!(scene.is_lost(), !good, "{len} bytes at {at}");
            if let Some(id) = receive {
                let ended = !good || len == 40;
                assert_eq!(scene.engine.is_complete(id), Some(ended), "{len} bytes at {at}");
            }
        }
    }
}

/// Each process has one rank in a communicator, so no process can send as another one.
#[test]
fn a_message_in_anothers_name() {
    let liar = PeerIndex::new(2);
    for kind in [MessageKind::EAGER, MessageKind::RTS] {
        let mut scene = Scene::new(|_| ());
        let mut buffer = [0; 10];
        let id = scene.post(5, Memory::of_mut(&mut buffer));
        let header = Header {
            token: TOKEN,
            kind,
            flags: 0,
            ack: 0,
            src: liar.number(),
            seq: 0,
            tag: 5,
            context: CONTEXT.bits(),
            arg: PEER.number().into(),
        };
        let rts = Rts {
            size: 10,
            sender: 31,
            key: None,
        };
        let payload = if kind == MessageKind::RTS {
            rts.encode()
        } else {
            vec![1; 10]
        };
        let bytes = [&header.encode()[..], &payload].concat();
        scene.wire.lock().coming.push_back(bytes);
        while scene.engine.progress(false) {}
        let lost =
            |scene: &mut Scene, id| matches!(scene.engine.state.peer(id).link, ConnectionState::Lost(_));
        assert!(lost(&mut scene, liar) && !lost(&mut scene, PEER), "{kind:?}");
        // The right receive still gets it.
        assert_eq!(scene.engine.is_complete(id), Some(false));
        scene.eager(5, &[7; 10]);
        assert_eq!(scene.engine.take(id).expect("it has ended").error, None);
        assert_eq!(buffer, [7; 10]);
    }
}

/// A lane that reports the loss of a process that is not of this job.
#[test]
fn a_loss_of_nobody() {
    let mut scene = Scene::new(|_| ());
    for nobody in [3, 4, u32::MAX] {
        let sink: &mut dyn Sink = &mut scene.engine.state;
        sink.peer_lost(PeerIndex::new(nobody), crate::err!(Other, "gone"));
    }
    assert!(!scene.is_lost());
    let sink: &mut dyn Sink = &mut scene.engine.state;
    sink.peer_lost(PEER, crate::err!(Other, "gone"));
    assert!(scene.is_lost());
}
