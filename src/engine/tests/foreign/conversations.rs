//! Conversations between engines of several jobs, from `Hello` to `Bye`.

use super::neighbours::*;
use super::*;

#[test]
fn a_process_is_heard_before_and_after_it_is_met() {
    for meets in [false, true] {
        let mut two = Neighbours::new(2, true);
        two.meet(0, 1);
        if meets {
            two.meet(1, 0);
        }
        for byte in 0..3 {
            two.send(0, 1, byte);
        }
        two.run();
        two.meet(1, 0);
        for byte in 0..3 {
            assert_eq!(two.receives(1, 0), Some(byte));
        }
        two.cards = false;
        two.send(1, 0, 9);
        two.run();
        assert_eq!(two.receives(0, 1), Some(9));
        assert_eq!([0, 1].map(|at| two.said(at, MessageKind::HELLO)), [1, 0]);
    }
}

#[test]
fn both_may_begin_at_the_same_time() {
    for ordered in [true, false] {
        let mut two = Neighbours::new(2, ordered);
        for at in [0, 1] {
            two.meet(at, 1 - at);
            two.send(at, 1 - at, at as u8);
            two.send(at, 1 - at, 10 + at as u8);
        }
        // Each looks up the other's card, and sends before it polls.
        for at in [0, 1, 0] {
            two.step(at);
        }
        two.run();
        for at in [0, 1] {
            assert_eq!(two.receives(1 - at, at), Some(at as u8));
            assert_eq!(two.receives(1 - at, at), Some(10 + at as u8));
        }
        assert_eq!([0, 1].map(|at| two.said(at, MessageKind::HELLO)), [1, 1]);
    }
}

#[test]
fn on_a_lane_without_order_nothing_follows_hello_before_its_answer() {
    let mut two = Neighbours::new(2, false);
    two.meet(0, 1);
    for byte in 0..5 {
        two.send(0, 1, byte);
    }
    for _ in 0..10 {
        two.step(0);
    }
    assert_eq!(two.town.lock().letters[&(0, 1)].len(), 1);
    assert!(!two.engines[0].is_drained());
    two.run();
    for byte in 0..5 {
        assert_eq!(two.receives(1, 0), Some(byte));
    }
    assert_eq!(two.said(0, MessageKind::EAGER), 5);
    // The state stays there.
    for at in [0, 1] {
        two.part(at, 1 - at);
    }
    two.run();
    assert_eq!([0, 1].map(|at| two.said(at, MessageKind::BYE)), [0, 0]);
    two.meet(0, 1);
    two.send(0, 1, 7);
    two.run();
    assert_eq!(two.receives(1, 0), Some(7));
    assert_eq!(two.said(0, MessageKind::HELLO), 1);
}

/// After a message of the first, in each order of steps and partings.
#[test]
fn two_part_in_any_order() {
    for seed in 0..2000 {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let mut two = Neighbours::new(2, true);
        for at in [0, 1] {
            two.meet(at, 1 - at);
        }
        let senders = rng.u32(..4);
        for at in [0, 1] {
            if senders & 1 << at != 0 {
                two.send(at, 1 - at, at as u8);
            }
        }
        let mut parted = [false; 2];
        while parted != [true; 2] {
            let at = rng.usize(..2);
            if rng.u32(..3) != 0 {
                two.step(at);
            } else if !std::mem::replace(&mut parted[at], true) {
                two.part(at, 1 - at);
            }
        }
        two.run();
        two.assert_strangers();
        let byes = [0, 1].map(|at| two.said(at, MessageKind::BYE));
        let expected = u32::from(senders != 0);
        assert_eq!(byes, [expected; 2], "{seed}");
        let town = two.town.lock();
        let left = |at: u32| town.disconnected.get(&at).copied().unwrap_or(0);
        assert_eq!([left(0), left(1)], [expected; 2], "{seed}");
        let mut released = town.released.clone();
        released.sort_by_key(|(at, ..)| *at);
        let both = [(0, name(11, 0), true), (1, name(10, 0), true)];
        assert_eq!(released, &both[..2 * expected as usize], "{seed}");
    }
}

#[test]
fn a_stranger_is_parted_without_a_word() {
    let mut two = Neighbours::new(2, true);
    two.meet(0, 1);
    assert_eq!(two.engines[0].state.numberings.counts(), (1, 1));
    two.part(0, 1);
    two.part(0, 1);
    two.run();
    two.assert_strangers();
    assert!(two.town.lock().kinds.is_empty());
}

/// What is sent to a process that has not said `Bye` yet begins the next conversation.
#[test]
fn what_is_sent_after_bye_waits() {
    let mut two = Neighbours::new(2, true);
    for at in [0, 1] {
        two.meet(at, 1 - at);
    }
    two.send(0, 1, 1);
    two.step(0);
    two.step(0);
    two.part(0, 1);
    two.step(0);
    assert_eq!(two.said(0, MessageKind::BYE), 1);
    two.meet(0, 1);
    two.send(0, 1, 2);
    two.step(0);
    assert!(!two.engines[0].is_drained(), "it waits");
    assert_eq!(two.said(0, MessageKind::EAGER), 1);
    // Without a card from elsewhere.
    two.cards = false;
    two.run();
    assert_eq!([two.receives(1, 0), two.receives(1, 0)], [Some(1), Some(2)]);
    assert!(two.engines[0].is_drained());
    assert_eq!(two.said(0, MessageKind::HELLO), 2);
    // The other one has a communicator still, and has answered.
    assert_eq!(two.said(1, MessageKind::BYE), 1);
}

/// A message that is never sent, as its send was given up, is not in the next conversation either.
#[test]
fn what_waits_can_be_given_up() {
    let mut two = Neighbours::new(2, true);
    two.meet(0, 1);
    two.meet(1, 0);
    two.send(0, 1, 1);
    two.step(0);
    two.step(0);
    two.part(0, 1);
    let bytes = [2];
    let send = Send {
        peer: two.peer(0, 1),
        envelope: Envelope {
            context: SHARED,
            source: 0,
            tag: 5,
        },
        memory: Memory::of(&bytes),
        sync: false,
    };
    // SAFETY: the bytes outlive the send.
    let id = unsafe { two.engines[0].send(&send, true) }
        .expect("the peer lives")
        .expect("a request");
    two.engines[0].cancel(id);
    assert!(two.engines[0].take(id).expect("it has ended").cancelled);
    two.run();
    assert_eq!([two.receives(1, 0), two.receives(1, 0)], [Some(1), None]);
    two.part(1, 0);
    two.run();
    two.assert_strangers();
}

/// Messages that wait for a receive that the communicator still has are not dropped, though their sender has taken leave.
#[test]
fn messages_stay_for_a_communicator_that_is_left() {
    let mut two = Neighbours::new(2, true);
    for at in [0, 1] {
        two.meet(at, 1 - at);
    }
    two.send(0, 1, 1);
    two.run();
    two.part(0, 1);
    two.run();
    assert_eq!(two.engines[1].state.peers.iter().count(), 1, "only itself");
    assert_eq!(two.receives(1, 0), Some(1));
    two.send(1, 0, 3);
    two.run();
    assert_eq!(two.receives(0, 1), Some(3));
    two.part(1, 0);
    two.run();
    two.assert_strangers();
}

#[test]
fn a_lost_process_is_forgotten_and_may_come_again() {
    let mut two = Neighbours::new(2, true);
    for at in [0, 1] {
        two.meet(at, 1 - at);
    }
    two.send(0, 1, 1);
    two.run();
    let lost = || -> Error { err!(ProcAborted, "it has died") };
    for at in [0, 1] {
        let peer = two.peer(at, 1 - at);
        two.engines[at].lose(peer, lost());
        let state = two.engines[at]
            .state
            .peers
            .get(peer)
            .map(|peer| peer.link.clone());
        assert!(matches!(state, Some(ConnectionState::Lost(_))));
    }
    for at in [0, 1] {
        two.part(at, 1 - at);
    }
    two.assert_strangers();
    let released = std::mem::take(&mut two.town.lock().released);
    assert_eq!(released, [(0, name(11, 0), false), (1, name(10, 0), false)]);
    for at in [0, 1] {
        two.meet(at, 1 - at);
        two.send(at, 1 - at, 5);
    }
    two.run();
    for at in [0, 1] {
        assert_eq!(two.receives(at, 1 - at), Some(5));
    }
}

/// It is lost before it has said `Bye`: there is nothing to wait for.
#[test]
fn who_is_lost_while_it_is_left_is_forgotten() {
    let mut two = Neighbours::new(2, true);
    two.meet(0, 1);
    two.send(0, 1, 1);
    two.step(0);
    two.step(0);
    two.part(0, 1);
    assert_eq!(two.said(0, MessageKind::BYE), 1);
    let peer = two.peer(0, 1);
    two.engines[0].lose(peer, err!(ProcAborted, "it has died"));
    two.step(0);
    assert!(two.engines[0].state.peers.get(peer).is_none());
    assert_eq!(two.engines[0].state.numberings.counts(), (0, 0));
}

/// No card: it is an error of those who send, and another communicator may bring one.
#[test]
fn without_a_card_a_process_is_lost() {
    let mut two = Neighbours::new(2, true);
    two.cards = false;
    two.meet(0, 1);
    two.send(0, 1, 1);
    two.run();
    let peer = two.peer(0, 1);
    let state = two.engines[0].state.peers.get(peer).map(|peer| peer.link.clone());
    assert!(matches!(state, Some(ConnectionState::Lost(_))));
    two.part(0, 1);
    two.cards = true;
    two.meet(0, 1);
    two.send(0, 1, 2);
    two.run();
    assert_eq!(two.receives(1, 0), Some(2));
}

/// Bye does not overtake what the lane does not take yet.
#[test]
fn bye_is_the_last_message() {
    let mut two = Neighbours::new(2, true);
    for at in [0, 1] {
        two.meet(at, 1 - at);
    }
    two.send(0, 1, 0);
    two.run();
    two.town.lock().full.push(0);
    for byte in 1..20 {
        two.send(0, 1, byte);
    }
    two.part(0, 1);
    two.run_some();
    assert!(!two.engines[0].has_left());
    assert_eq!(two.said(0, MessageKind::BYE), 0);
    two.town.lock().full.clear();
    two.run();
    assert_eq!(two.said(0, MessageKind::BYE), 1);
    for byte in 0..20 {
        assert_eq!(two.receives(1, 0), Some(byte));
    }
    two.part(1, 0);
    two.run();
    two.assert_strangers();
}

/// The last message waits for the window, which a process that has taken leave does not move any more.
#[test]
fn bye_comes_through_a_full_window() {
    let mut two = Neighbours::new(2, true);
    for engine in &mut two.engines {
        engine.state.limits[1].queue = 0;
    }
    for at in [0, 1] {
        two.meet(at, 1 - at);
    }
    for byte in 0..20 {
        two.send(0, 1, byte);
        two.send(1, 0, byte);
    }
    for _ in 0..5 {
        two.step(0);
    }
    two.part(0, 1);
    two.part(1, 0);
    two.run();
    two.assert_strangers();
}

/// Three jobs that meet, send and part at random: each message arrives, in order, whichever conversation carries it.
#[test]
fn conversations_that_come_and_go_lose_nothing() {
    for seed in 0..300 {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let mut three = Neighbours::new(3, true);
        let mut sent: FxHashMap<(usize, usize), VecDeque<u8>> = FxHashMap::default();
        let check = |three: &mut Neighbours, sent: &mut FxHashMap<_, VecDeque<u8>>, from, to| {
            let Some(byte) = three.receives(to, from) else {
                return false;
            };
            let next = sent.get_mut(&(from, to)).and_then(VecDeque::pop_front);
            assert_eq!(next, Some(byte), "{seed}: from {from} to {to}");
            true
        };
        let mut number = 0u8;
        for _ in 0..400 {
            let (one, other) = (rng.usize(..3), rng.usize(1..3));
            let other = (one + other) % 3;
            match rng.u32(..10) {
                0..3 => {
                    number = number.wrapping_add(1);
                    // A communicator is there as long as messages are on their way.
                    three.meet(one, other);
                    three.meet(other, one);
                    three.send(one, other, number);
                    sent.entry((one, other)).or_default().push_back(number);
                }
                3..7 => _ = three.step(one),
                7 => _ = check(&mut three, &mut sent, one, other),
                _ => {
                    // One side has no communicator any more; the other one may be late to find that out.
                    let pending = |pair| sent.get(&pair).is_some_and(|sent| !sent.is_empty());
                    if !pending((other, one)) {
                        three.part(one, other);
                    }
                }
            }
        }
        three.run();
        for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            three.meet(to, from);
            while check(&mut three, &mut sent, from, to) {}
        }
        assert!(sent.values().all(VecDeque::is_empty), "{seed}: {sent:?}");
        for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            three.part(from, to);
        }
        three.run();
        three.assert_strangers();
    }
}

/// Two processes without a common lane get one, and then reach each other by it.
#[test]
fn a_lane_that_is_added_carries_messages() {
    let town: Arc<Mutex<Town>> = Arc::default();
    let engines = (0..2).map(|at| engine(at, vec![Box::new(Loopback::default())]));
    let mut two = Neighbours {
        engines: engines.collect(),
        town: town.clone(),
        cards: true,
    };
    two.engines[0].count_all(true);
    for (at, engine) in (0..).zip(&mut two.engines) {
        assert!(engine.card().lanes.is_empty());
        engine.add_lane(street(&town, at, LIMITS, "main"));
        engine.add_lane(street(&town, at + 10, Limits { queue: 160, ..LIMITS }, "side"));
        let card = engine.card();
        let lanes: Vec<_> = card
            .lanes
            .iter()
            .map(|lane| (lane.network.as_str(), lane.window))
            .collect();
        assert_eq!(lanes, [("main", 1024), ("side", 10)]);
    }
    for at in [0, 1] {
        two.meet(at, 1 - at);
        two.send(at, 1 - at, 4);
    }
    two.run();
    for at in [0, 1] {
        assert_eq!(two.receives(at, 1 - at), Some(4));
        two.part(at, 1 - at);
    }
    two.run();
    two.assert_strangers();
}
