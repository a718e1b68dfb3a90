//! How requests end that are not waited for, and what counts as ended.

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
                scene.says(MessageKind::CTS, 0, (0, receiver, id.to_u64()), &grant);
            }
        }
        scene.engine.abandon(given_up);
        let outcome = scene.engine.take(given_up).expect("it has ended");
        assert!(outcome.error.is_some(), "{granted}");
        assert_eq!(scene.engine.is_complete(other), Some(false), "{granted}");
        scene.wire.lock().full = false;
        while scene.engine.progress(false) {}
        let mut heard = scene.heard();
        // A receiver that had asked learns that no more comes.
        let all = heard.len();
        heard.retain(|(header, _)| (header.kind, header.arg) != (MessageKind::GONE, 7));
        assert_eq!(all - heard.len(), usize::from(granted > 0), "{granted}");
        assert!(
            heard
                .iter()
                .all(|(header, _)| (header.kind, header.context) == (MessageKind::DATA, 8))
        );
        let bytes: usize = heard.iter().map(|(_, payload)| payload.len()).sum();
        assert_eq!(bytes as u64, granted);
        assert_eq!(scene.engine.is_complete(other), Some(granted == LEN as u64));
        // A receiver that asks for its data is answered that there is none.
        let grant = Grant::new(LEN as u64, LEN as u64).encode();
        scene.says(MessageKind::CTS, 0, (0, 7, given_up.to_u64()), &grant);
        let heard = scene.heard();
        let answers: Vec<_> = heard
            .iter()
            .map(|(header, _)| (header.kind, header.arg))
            .collect();
        assert!(
            !scene.is_lost() && answers == [(MessageKind::GONE, 7)],
            "{answers:?}"
        );
    }
}

#[test]
fn a_receive_whose_send_was_given_up_ends_with_an_error() {
    let mut scene = without_reads();
    let mut buffer = vec![0; LEN];
    let id = scene.post(6, Memory::of_mut(&mut buffer));
    scene.announces(0, 6, LEN as u64);
    scene.heard();
    scene.says(MessageKind::GONE, 0, (0, 0, id.to_u64()), &[]);
    let error = scene
        .engine
        .take(id)
        .expect("it has ended")
        .error
        .expect("an error");
    assert!(error.message.contains("given up"), "{error:?}");
    // It may come twice; but not for a receive that has asked for nothing.
    scene.says(MessageKind::GONE, 0, (0, 0, id.to_u64()), &[]);
    assert!(!scene.is_lost());
    let id = scene.post(6, Memory::of_mut(&mut buffer));
    scene.says(MessageKind::GONE, 0, (0, 0, id.to_u64()), &[]);
    assert!(scene.is_lost());
    scene.engine.abandon(id);
}

#[test]
fn a_send_that_is_given_up_is_deregistered() {
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
    scene.announces(0, 6, LEN as u64);
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
        scene.says(MessageKind::CTS, 0, (0, 7, id.to_u64()), &grant);
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
    scene.eager(5, &[]);
    assert!(!scene.engine.is_empty(), "a message that nobody has taken");
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
    for (len, kind) in [
        (0, MessageKind::EAGER),
        (FITS, MessageKind::EAGER),
        (FITS + 1, MessageKind::RTS),
    ] {
        let mut scene = Scene::new(|limits| {
            limits.rma = false;
            // Eight bytes name the request.
            limits.message = crate::engine::wire::HEADER_BYTES + 8 + FITS;
            limits.buffered = limits.message;
        });
        let id = scene.send_as(5, Memory::of(&data[..len]), true);
        let (_, payload) = scene.hears(kind);
        if kind == MessageKind::EAGER {
            assert_eq!(payload[..8], id.to_u64().to_le_bytes());
            assert_eq!(payload[8..], data[..len]);
        }
        assert_eq!(scene.engine.is_complete(id), Some(false), "{len}");
        scene.says(MessageKind::DONE, 0, (0, 0, id.to_u64()), &[]);
        assert_eq!(scene.engine.take(id), Some(Outcome::EMPTY), "{len}");
    }
}

/// A long message of the peer that is to be read, and its receive.
fn to_be_read(scene: &mut Scene, buffer: &mut [u8]) -> RequestId {
    let id = scene.post(6, Memory::of_mut(buffer));
    scene.wire.lock().registered = pattern(buffer.len());
    let rts = Rts {
        size: buffer.len() as u64,
        sender: 31,
        key: Some(RemoteKey(vec![1])),
    };
    scene.says(
        MessageKind::RTS,
        0,
        (6, CONTEXT.bits(), PEER.number().into()),
        &rts.encode(),
    );
    id
}

#[test]
fn what_has_not_left_is_told_in_each_place() {
    let left = |scene: &Scene| (scene.engine.has_left(), scene.engine.is_drained());
    let data = pattern(LEN);
    let mut scene = without_reads();
    assert_eq!(left(&scene), (true, true));
    // The lane takes nothing.
    scene.wire.lock().full = true;
    scene.send(5, Memory::of(&data));
    assert_eq!(left(&scene), (false, false));
    scene.wire.lock().full = false;
    while scene.engine.progress(false) {}
    // It waits for the receiver alone.
    assert_eq!(left(&scene), (true, true));
    scene.wire.lock().busy = true;
    assert_eq!(left(&scene), (false, false));
    // The lane keeps the bytes.
    let mut scene = Scene::new(|limits| limits.buffered = crate::engine::wire::HEADER_BYTES + 100);
    scene.wire.lock().keeps = true;
    let id = scene.send(5, Memory::of(&data[..400]));
    assert_eq!(
        (left(&scene), scene.engine.is_complete(id)),
        ((false, false), Some(false))
    );
    scene.wire.lock().keeps = false;
    while scene.engine.progress(false) {}
    assert_eq!(
        (left(&scene), scene.engine.is_complete(id)),
        ((true, true), Some(true))
    );
    // A read that can't begin yet.
    let mut scene = Scene::new(|_| ());
    let mut buffer = vec![0; LEN];
    scene.wire.lock().reads_nothing = true;
    let id = to_be_read(&mut scene, &mut buffer);
    assert_eq!(left(&scene), (false, false));
    scene.wire.lock().reads_nothing = false;
    while scene.engine.progress(false) {}
    assert_eq!(
        (left(&scene), scene.engine.is_complete(id)),
        ((true, true), Some(true))
    );
    assert!(buffer == data);
}

#[test]
fn a_window_takes_so_many_messages_and_the_next_waits() {
    let mut scene = without_reads();
    let window = scene.engine.state.peer(PEER).flow.window;
    for number in 0..window + 3 {
        let id = scene.send(5, Memory::empty());
        let went = number < window;
        assert_eq!(scene.engine.is_complete(id), Some(went), "message {number}");
        assert_eq!(scene.engine.is_drained(), went, "message {number}");
        assert!(!went || scene.engine.has_left(), "message {number}");
    }
    assert_eq!(scene.wire.lock().sent.len(), window as usize);
    // The peer has taken two: as many go.
    scene.taken = 2;
    scene.eager(9, &[]);
    assert_eq!(scene.wire.lock().sent.len(), window as usize + 2);
    assert!(!scene.engine.is_drained());
    // With the peer, what waits is gone.
    scene.wire.lock().failure = Some(crate::err!(Other, "the lane is broken"));
    while scene.engine.progress(false) {}
    assert!(scene.is_lost() && scene.engine.is_drained());
}

#[test]
fn with_a_lane_its_peers_are_lost_and_no_others() {
    let mut scene = without_reads();
    let mut buffer = [0; 10];
    let id = scene.post(5, Memory::of_mut(&mut buffer));
    scene.wire.lock().failure = Some(crate::err!(Other, "the lane is broken"));
    while scene.engine.progress(false) {}
    assert!(scene.is_lost());
    let error = scene
        .engine
        .take(id)
        .expect("it has ended")
        .error
        .expect("an error");
    assert!(error.message.contains("the lane is broken"), "{error}");
    let mine = scene.engine.state.peer(ME).link.clone();
    assert_eq!(mine, ConnectionState::Up, "the way to itself");
}

#[test]
fn what_was_freed_and_is_under_way_is_known() {
    let data = pattern(LEN);
    let freed = |scene: &Scene| {
        let other = scene.engine.has_freed(|context| context != CONTEXT);
        assert!(!other);
        scene.engine.has_freed(|context| context == CONTEXT)
    };
    let mut scene = without_reads();
    let send = scene.send(5, Memory::of(&data));
    assert!(!freed(&scene), "it is the user's");
    scene.engine.release(send);
    assert!(freed(&scene));
    scene.says(MessageKind::DONE, 0, (0, 0, send.to_u64()), &[]);
    assert!(!freed(&scene), "it has ended");
    // A receive counts from its message on.
    let mut buffer = vec![0; LEN];
    let receive = scene.post(5, Memory::of_mut(&mut buffer));
    scene.engine.release(receive);
    assert!(!freed(&scene));
    scene.announces(0, 5, LEN as u64);
    assert!(freed(&scene));
}

#[test]
fn who_asks_for_a_message_back_awaits_an_answer() {
    let data = pattern(LEN);
    let awaits = |scene: &Scene| {
        assert!(!scene.engine.awaits_answers(|context| context != CONTEXT));
        scene.engine.awaits_answers(|context| context == CONTEXT)
    };
    for answered in [true, false] {
        let mut scene = without_reads();
        let id = scene.send(5, Memory::of(&data));
        assert!(!awaits(&scene));
        scene.engine.cancel(id);
        while scene.engine.progress(false) {}
        assert!(awaits(&scene));
        scene.heard();
        if answered {
            scene.says(
                MessageKind::CANCEL_REPLY,
                FLAG_CANCELLED,
                (0, 0, id.to_u64()),
                &[],
            );
        } else {
            scene.wire.lock().failure = Some(crate::err!(Other, "the lane is broken"));
            while scene.engine.progress(false) {}
        }
        assert!(!awaits(&scene));
    }
}

#[test]
fn data_for_a_receive_that_reads_is_nonsense() {
    let mut scene = Scene::new(|_| ());
    let mut buffer = vec![0; LEN];
    scene.wire.lock().reads_nothing = true;
    let id = to_be_read(&mut scene, &mut buffer);
    scene.says(MessageKind::DATA, 0, (0, id.to_u64(), 0), &[1; 10]);
    assert!(scene.is_lost());
}

#[test]
fn a_receive_that_waits_to_read_is_given_up() {
    let mut scene = Scene::new(|_| ());
    let mut buffer = vec![0; LEN];
    scene.wire.lock().reads_nothing = true;
    let id = to_be_read(&mut scene, &mut buffer);
    scene.engine.abandon(id);
    assert!(scene.engine.take(id).expect("it has ended").error.is_some());
    scene.wire.lock().reads_nothing = false;
    while scene.engine.progress(false) {}
    assert!(scene.wire.lock().reads.is_empty() && scene.engine.has_said_all());
}

#[test]
fn who_is_not_connected_is_wanted() {
    let mut scene = Scene::without_card();
    assert!(!scene.engine.has_wanted());
    let id = scene.send(5, Memory::empty());
    assert!(scene.engine.has_wanted());
    assert_eq!(scene.engine.wanted().drain(..).collect::<Vec<_>>(), [PEER]);
    assert!(!scene.engine.has_wanted());
    assert_eq!(scene.engine.is_complete(id), Some(false));
    scene.connect();
    while scene.engine.progress(false) {}
    assert_eq!(scene.engine.is_complete(id), Some(true));
}

/// An engine that pipelines messages of up to 2,500 bytes, whose pieces the lane does not accept now.
fn held_up() -> Scene {
    let scene = Scene::new(|limits| {
        (limits.eager, limits.pipelined) = (100, 2500);
        limits.rma = false;
    });
    scene.wire.lock().refuses = Some(MessageKind::DATA);
    scene
}

/// Pipelined messages are not long: each is sent whole before the next begins, and only a limited number is begun at once.
#[test]
fn pipelined_messages_go_one_after_the_other_and_a_fifth_is_asked_for() {
    let data = pattern(2500);
    let mut scene = held_up();
    for _ in 0..6 {
        scene.send(5, Memory::of(&data));
    }
    scene.wire.lock().refuses = None;
    for _ in 0..100 {
        scene.engine.progress(false);
    }
    let heard = scene.heard();
    let of_kind = |kind| heard.iter().filter(move |(header, _)| header.kind == kind);
    let pipelined: Vec<bool> = of_kind(MessageKind::RTS)
        .map(|(header, _)| header.flags & FLAG_PIPELINED != 0)
        .collect();
    assert_eq!(pipelined, [true, true, true, true, false, false]);
    // Three pieces each.
    let pieces: Vec<u64> = of_kind(MessageKind::DATA)
        .map(|(header, _)| header.context)
        .collect();
    let lengths: Vec<usize> = pieces
        .chunk_by(|one, next| one == next)
        .map(<[u64]>::len)
        .collect();
    assert_eq!(lengths, [3; 4], "{pieces:?}");
}

#[test]
fn a_pipelined_message_that_is_taken_back_leaves_nothing() {
    let data = pattern(300);
    // Half of it has come, or all.
    for half in [true, false] {
        let mut scene = Scene::new(|_| ());
        scene.announces(FLAG_PIPELINED, 5, 300);
        scene.says(MessageKind::DATA, FLAG_PIPELINED, (0, 31, 0), &data[..100]);
        if !half {
            scene.says(MessageKind::DATA, FLAG_PIPELINED, (0, 31, 100), &data[100..]);
        }
        let mut payload = [0; 16];
        payload[..8].copy_from_slice(&31u64.to_le_bytes());
        payload[8..12].copy_from_slice(&PEER.number().to_le_bytes());
        scene.says(MessageKind::CANCEL, 0, (5, CONTEXT.bits(), 0), &payload);
        let (reply, _) = scene.hears(MessageKind::CANCEL_REPLY);
        assert_eq!(reply.flags & FLAG_CANCELLED, FLAG_CANCELLED);
        if half {
            scene.says(MessageKind::DATA, FLAG_PIPELINED, (0, 31, 100), &data[100..]);
        }
        assert!(
            !scene.is_lost() && scene.engine.state.arrivals.is_empty(),
            "half: {half}"
        );
        assert!(scene.engine.state.unexpected.is_empty());
    }
}

#[test]
fn memory_is_offered_for_reading_from_a_length_on_and_read_where_that_is_wanted() {
    let data = pattern(1000);
    for (len, offered) in [(699, false), (700, true), (1000, true)] {
        let mut scene = Scene::new(|limits| limits.rma_from = 700);
        scene.send(5, Memory::of(&data[..len]));
        let (_, payload) = scene.hears(MessageKind::RTS);
        let rts = Rts::decode(payload[..].into()).expect("it makes sense");
        assert_eq!((rts.size, rts.key.is_some()), (len as u64, offered));
        assert_eq!(scene.wire.lock().regions, usize::from(offered));
    }
    // Runs of 3 bytes are too short to be offered, or to be read into, where the lane says so.
    let datatype = Datatype::vector(300, 3, 5, Datatype::byte()).expect("a vector");
    for (run, is_read) in [(3, true), (4, false)] {
        let mut scene = Scene::new(|limits| (limits.register_run, limits.read_run) = (run, run));
        let mut bytes = vec![0u8; 1500];
        scene.send(5, Memory::new(bytes.as_mut_ptr(), 1, &datatype));
        let (_, payload) = scene.hears(MessageKind::RTS);
        let rts = Rts::decode(payload[..].into()).expect("it makes sense");
        assert_eq!(rts.key.is_some(), is_read, "runs from {run} on");
        let id = scene.post(6, Memory::new(bytes.as_mut_ptr(), 1, &datatype));
        scene.wire.lock().registered = pattern(900);
        let rts = Rts {
            size: 900,
            sender: 31,
            key: Some(RemoteKey(vec![1])),
        };
        scene.says(
            MessageKind::RTS,
            0,
            (6, CONTEXT.bits(), PEER.number().into()),
            &rts.encode(),
        );
        scene.hears(if is_read {
            MessageKind::DONE
        } else {
            MessageKind::CTS
        });
        assert_eq!(scene.engine.is_complete(id), Some(is_read), "runs from {run} on");
    }
}

#[test]
fn where_reads_are_switched_off_nothing_is_read() {
    let mut scene = Scene::new(|_| ());
    scene.engine.state.rma = false;
    let data = pattern(1000);
    scene.send(5, Memory::of(&data));
    let (_, payload) = scene.hears(MessageKind::RTS);
    assert!(
        Rts::decode(payload[..].into())
            .expect("it makes sense")
            .key
            .is_none()
    );
    let mut buffer = vec![0; 1000];
    let id = to_be_read(&mut scene, &mut buffer);
    scene.hears(MessageKind::CTS);
    assert_eq!(scene.engine.is_complete(id), Some(false));
    assert!(scene.wire.lock().reads.is_empty());
}

#[test]
fn a_pipelined_message_is_asked_back_behind_its_last_piece() {
    let data = pattern(2500);
    let mut scene = held_up();
    let ids = [(); 2].map(|()| scene.send(5, Memory::of(&data)));
    scene.engine.cancel(ids[1]);
    assert!(scene.engine.awaits_answers(|context| context == CONTEXT));
    scene.wire.lock().refuses = None;
    for _ in 0..100 {
        scene.engine.progress(false);
    }
    let kinds: Vec<MessageKind> = scene.heard().iter().map(|(header, _)| header.kind).collect();
    assert_eq!(kinds[..2], [MessageKind::RTS; 2]);
    assert_eq!(
        kinds[2..],
        [[MessageKind::DATA; 3], [MessageKind::DATA; 3]]
            .concat()
            .into_iter()
            .chain([MessageKind::CANCEL])
            .collect::<Vec<_>>()
    );
    assert_eq!(scene.engine.take(ids[0]), Some(Outcome::EMPTY));
    scene.says(
        MessageKind::CANCEL_REPLY,
        FLAG_CANCELLED,
        (0, 0, ids[1].to_u64()),
        &[],
    );
    assert!(scene.engine.take(ids[1]).expect("it has ended").cancelled);
}

#[test]
fn a_pipelined_message_that_is_alone_is_asked_back() {
    let data = pattern(2500);
    let mut scene = Scene::new(|limits| (limits.eager, limits.pipelined) = (100, 2500));
    scene.wire.lock().refuses = Some(MessageKind::DATA);
    let id = scene.send(5, Memory::of(&data));
    scene.engine.cancel(id);
    assert!(scene.engine.awaits_answers(|context| context == CONTEXT));
}

#[test]
fn what_was_asked_for_is_not_asked_back() {
    let data = pattern(LEN);
    let mut scene = without_reads();
    let id = scene.send(5, Memory::of(&data));
    scene.heard();
    scene.wire.lock().full = true;
    let grant = Grant::new(LEN as u64, LEN as u64).encode();
    scene.says(MessageKind::CTS, 0, (0, 7, id.to_u64()), &grant);
    scene.engine.cancel(id);
    assert!(!scene.engine.awaits_answers(|_| true));
    scene.wire.lock().full = false;
    while scene.engine.progress(false) {}
    assert!(
        scene
            .heard()
            .iter()
            .all(|(header, _)| header.kind == MessageKind::DATA)
    );
    assert_eq!(scene.engine.take(id), Some(Outcome::EMPTY));
}

#[test]
fn of_two_receives_that_wait_to_read_one_is_given_up() {
    for given_up in 0..2 {
        let mut scene = Scene::new(|_| ());
        let mut buffers = [vec![0; LEN], vec![0; LEN]];
        scene.wire.lock().reads_nothing = true;
        let ids = buffers.each_mut().map(|buffer| to_be_read(&mut scene, buffer));
        scene.engine.abandon(ids[given_up]);
        scene.wire.lock().reads_nothing = false;
        while scene.engine.progress(false) {}
        assert!(
            scene
                .engine
                .take(ids[given_up])
                .expect("it has ended")
                .error
                .is_some()
        );
        assert_eq!(
            scene.engine.take(ids[1 - given_up]).expect("it has ended").error,
            None
        );
        assert!(buffers[1 - given_up] == pattern(LEN));
    }
}

#[test]
fn the_next_grant_comes_when_half_a_window_is_left() {
    let window = u64::from(WINDOW) * MESSAGE as u64;
    let size = 3 * window;
    let mut scene = Scene::new(|_| ());
    let mut buffer = vec![0; size as usize];
    scene.post(5, Memory::of_mut(&mut buffer));
    scene.announces(0, 5, size);
    let (cts, grant) = scene.hears(MessageKind::CTS);
    assert_eq!(grant, Grant::new(size, window).encode());
    let (mut received, mut granted) = (0, window);
    while received < size {
        let len = 40.min(size - received);
        scene.says(
            MessageKind::DATA,
            0,
            (0, cts.context, received),
            &vec![1; len as usize],
        );
        received += len;
        let due = granted < size && received + window / 2 >= granted;
        let heard = scene.heard();
        let grants: Vec<_> = heard
            .iter()
            .filter(|(header, _)| header.kind == MessageKind::CTS)
            .collect();
        assert_eq!(grants.len(), usize::from(due), "{received} of {granted}");
        if due {
            granted = size.min(granted + window / 2);
            assert_eq!(grants[0].1, Grant::new(size, granted).encode());
        }
    }
    assert!(!scene.is_lost() && buffer.iter().all(|&byte| byte == 1));
}

#[test]
fn a_message_to_itself_is_taken_back_at_once() {
    for len in [10, 1 << 20] {
        let data = pattern(len);
        let mut scene = Scene::new(|_| ());
        let send = Send {
            peer: ME,
            envelope: Envelope {
                context: CONTEXT,
                source: ME.number(),
                tag: 5,
            },
            memory: Memory::of(&data),
            sync: true,
        };
        // SAFETY: the data outlives the engine.
        let id = unsafe { scene.engine.send(&send, true) }
            .expect("it can go")
            .expect("a request");
        scene.engine.cancel(id);
        let outcome = scene.engine.take(id).expect("it has the answer itself");
        assert!(outcome.cancelled && scene.engine.state.unexpected.is_empty());
    }
}

#[test]
fn what_is_under_way_in_a_context_is_given_up() {
    let data = pattern(LEN);
    let mut scene = without_reads();
    let mut buffer = [0; 10];
    let of = |context| context == CONTEXT;
    assert!(!scene.engine.has_under_way(of) && !scene.engine.has_ready_tasks());
    let send = scene.send(5, Memory::of(&data));
    let receive = scene.post(5, Memory::of_mut(&mut buffer));
    scene.eager(9, &[1]);
    let other = scene.engine.bare_request();
    assert!(scene.engine.has_under_way(of));
    assert!(
        !scene
            .engine
            .has_under_way(|context| context == CONTEXT.collective())
    );
    scene
        .engine
        .give_up_all(of, &crate::err!(Other, "the communicator is gone"));
    assert!(!scene.engine.has_under_way(of));
    for id in [send, receive] {
        let error = scene
            .engine
            .take(id)
            .expect("it has ended")
            .error
            .expect("an error");
        assert_eq!(error.message, "the communicator is gone");
    }
    assert!(scene.engine.state.unexpected.is_empty());
    assert_eq!(scene.engine.is_complete(other), Some(false), "of no context");
    scene.engine.set_context(other, CONTEXT);
    assert!(scene.engine.has_under_way(of));
}

#[test]
fn of_two_sends_that_wait_for_the_lane_one_is_given_up() {
    let data = pattern(LEN);
    for given_up in 0..2 {
        let mut scene = without_reads();
        scene.wire.lock().full = true;
        let ids = [5, 6].map(|tag| scene.send(tag, Memory::of(&data)));
        scene.engine.abandon(ids[given_up]);
        assert!(
            scene
                .engine
                .take(ids[given_up])
                .expect("it has ended")
                .error
                .is_some()
        );
        scene.wire.lock().full = false;
        while scene.engine.progress(false) {}
        let (header, _) = scene.hears(MessageKind::RTS);
        assert_eq!(header.tag, [6, 5][given_up]);
    }
}

#[test]
fn a_send_whose_bytes_the_lane_keeps_ends_with_its_first_error() {
    let data = pattern(400);
    let mut scene = Scene::new(|limits| limits.buffered = crate::engine::wire::HEADER_BYTES + 100);
    scene.wire.lock().keeps = true;
    let id = scene.send(5, Memory::of(&data));
    for words in ["the first", "the second"] {
        scene.engine.give_up_all(|_| true, &crate::err!(Other, "{words}"));
        assert_eq!(
            scene.engine.is_complete(id),
            Some(false),
            "the lane has its memory"
        );
    }
    scene.wire.lock().keeps = false;
    while scene.engine.progress(false) {}
    let error = scene
        .engine
        .take(id)
        .expect("it has ended")
        .error
        .expect("an error");
    assert_eq!(error.message, "the first");
}

#[test]
fn of_a_lost_peer_no_half_message_is_left() {
    let mut buffer = [0; 100];
    for receives in [true, false] {
        let mut scene = Scene::new(|_| ());
        let receive = receives.then(|| scene.post(5, Memory::of_mut(&mut buffer)));
        scene.announces(FLAG_PIPELINED, 5, 100);
        scene.says(MessageKind::DATA, FLAG_PIPELINED, (0, 31, 0), &[1; 60]);
        scene.wire.lock().failure = Some(crate::err!(Other, "the lane is broken"));
        while scene.engine.progress(false) {}
        assert!(scene.is_lost());
        match receive {
            Some(id) => assert!(scene.engine.take(id).expect("it has ended").error.is_some()),
            None => {
                // A call that asks for it gets the error.
                let received = scene.engine.probe_out(&Pattern {
                    context: CONTEXT,
                    source: Some(PEER.number()),
                    tag: Some(5),
                });
                let (_, message) = received.expect("it is kept until somebody asks");
                scene.engine.state.forget(message);
            }
        }
        assert!(scene.engine.state.arrivals.is_empty(), "receives: {receives}");
    }
}

#[test]
fn long_messages_share_the_way() {
    let data = pattern(LEN);
    let mut scene = without_reads();
    let ids = [5, 6].map(|tag| scene.send(tag, Memory::of(&data)));
    scene.heard();
    scene.wire.lock().full = true;
    for (id, receiver) in ids.into_iter().zip([7, 8]) {
        let grant = Grant::new(LEN as u64, LEN as u64).encode();
        scene.says(MessageKind::CTS, 0, (0, receiver, id.to_u64()), &grant);
    }
    scene.wire.lock().full = false;
    while scene.engine.progress(false) {}
    let to: Vec<u64> = scene.heard().iter().map(|(header, _)| header.context).collect();
    assert_eq!(to, [7, 8].repeat(LEN / 1000));
}
