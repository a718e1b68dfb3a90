//! Bytes off a wire are input: whatever a peer sends, the others do not notice, and no memory is touched that should
//! not be.

use std::sync::Arc;

use fastrand::Rng;
use parking_lot::Mutex;
use proptest::prelude::*;
use weft::engine::business_card::BusinessCard;
use weft::engine::matching::Pattern;
use weft::engine::wire::{HEADER_BYTES, Header, MessageKind};
use weft::identity::{Context, PeerIndex};
use weft::sim::{Options, Rank, Simulation, check};

const KINDS: [MessageKind; 10] = [
    MessageKind::EAGER,
    MessageKind::RTS,
    MessageKind::CTS,
    MessageKind::DATA,
    MessageKind::DONE,
    MessageKind::CANCEL,
    MessageKind::CANCEL_REPLY,
    MessageKind::ACK,
    MessageKind::WAITS,
    MessageKind::GONE,
];

proptest! {
    #[test]
    fn a_header_comes_back(token: u64, kind in 0..KINDS.len(), flags: u8, ack: u16, src: u32, seq: u32, tag: i32, context: u64,
                           arg: u64, payload in prop::collection::vec(any::<u8>(), 0..50)) {
        let header = Header { token, kind: KINDS[kind], flags, ack, src, seq, tag, context, arg };
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(&payload);
        prop_assert_eq!(Header::parse(&bytes), Some((header, payload.as_slice())));
        for cut in 0..HEADER_BYTES {
            prop_assert_eq!(Header::parse(&bytes[..cut]), None);
        }
    }

    #[test]
    fn any_bytes_are_a_message_or_nothing(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Some((header, payload)) = Header::parse(&bytes) {
            prop_assert_eq!(&header.encode()[..], &bytes[..HEADER_BYTES]);
            prop_assert_eq!(payload, &bytes[HEADER_BYTES..]);
        }
    }
}

const VICTIM: u32 = 0;
const ATTACKER: u32 = 1;
const KNOWN_PEER: u32 = 2;
/// Contexts that the attacker uses: the world's, its collective one, and others.
const CONTEXTS: [u64; 4] = [2, 3, 6, u64::MAX];

/// What the attacker knows: everything but how to behave.
#[derive(Clone)]
struct Knowledge {
    token: u64,
    /// Requests of the victim, as they would go over the wire.
    requests: Arc<Mutex<Vec<u64>>>,
}

fn forge(rng: &mut Rng, known: &Knowledge, seq: u32) -> Vec<u8> {
    let requests = known.requests.lock();
    let number = |rng: &mut Rng| match rng.u32(..8) {
        0 => rng.u64(..),
        1 => rng.u64(..100),
        2 => u64::MAX - rng.u64(..2),
        3 => u64::from(u32::MAX) - rng.u64(..2),
        _ => rng.choice(requests.iter().copied()).unwrap_or(0),
    };
    let kind = KINDS[rng.u32(..KINDS.len() as u32) as usize];
    let mut arg = number(rng);
    if matches!(kind, MessageKind::EAGER | MessageKind::RTS) && rng.u32(..4) != 0 {
        arg = ATTACKER.into();
    }
    if matches!(kind, MessageKind::DATA) && rng.bool() {
        arg = [0, rng.u64(..3000)][rng.u32(..2) as usize];
    }
    let mut context = number(rng);
    if matches!(kind, MessageKind::EAGER | MessageKind::RTS | MessageKind::CANCEL) || rng.u32(..8) == 0 {
        context = CONTEXTS[rng.u32(..4) as usize];
    }
    let unauthenticated = rng.u32(..10) == 0;
    let header = Header {
        token: if unauthenticated { rng.u64(..) } else { known.token },
        kind,
        flags: if rng.bool() { 0 } else { rng.u8(..) },
        ack: if rng.u32(..200) == 0 { rng.u16(..) } else { 0 },
        src: if unauthenticated { rng.u32(..5) } else { ATTACKER },
        seq: if rng.u32(..200) == 0 { rng.u32(..) } else { seq },
        tag: if rng.u32(..100) == 0 {
            rng.i32(..)
        } else {
            rng.i32(0..4)
        },
        context,
        arg,
    };
    let mut bytes = header.encode().to_vec();
    let words = [0, 1, 2, 3, 4, 8][rng.u32(..6) as usize];
    for _ in 0..words {
        let word = if rng.bool() { rng.u64(..5000) } else { number(rng) };
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    if rng.u32(..8) == 0 {
        bytes.extend((0..rng.u32(..900)).map(|_| 0x99));
    }
    if rng.u32(..50) == 0 {
        bytes.truncate(rng.u64(..=bytes.len() as u64) as usize);
    }
    bytes
}

async fn attack(rank: Rank, mut rng: Rng, known: Knowledge) {
    let mut seq = 0;
    for _ in 0..200 {
        let bytes = forge(&mut rng, &known, seq);
        rank.network().inject(PeerIndex::new(VICTIM), &bytes);
        let counts = Header::parse(&bytes).is_some_and(|(header, _)| {
            (header.token, header.src, header.seq) == (known.token, ATTACKER, seq)
        });
        seq += u32::from(counts);
        if rng.u32(..3) == 0 {
            rank.pause(rng.u64(1..2000)).await;
        }
    }
    rank.die().await
}

async fn defend(rank: Rank, mut rng: Rng, known: Knowledge) {
    let mut requests = Vec::new();
    for tag in 0..4 {
        for _ in 0..3 {
            let buffer = rank.buffer(&vec![0x55; rng.u32(..3000) as usize]);
            // SAFETY: both buffers are kept until their requests have ended, below.
            let sent = unsafe {
                rank.world()
                    .send(ATTACKER, tag, buffer.memory(), rng.bool(), true)
            };
            if let Ok(Some(request)) = sent {
                if rng.u32(..3) == 0 {
                    rank.instance().engine().cancel(request);
                }
                requests.push((request, buffer));
            }
            let buffer = rank.blank(rng.u32(..3000) as usize);
            let tag = rng.bool().then_some(tag);
            // SAFETY: as above.
            let received = unsafe { rank.world().receive(Some(ATTACKER), tag, buffer.memory()) };
            if let Ok(weft::engine::Received::Later(request)) = received {
                requests.push((request, buffer));
            }
            known
                .requests
                .lock()
                .extend(requests.last().map(|(request, _)| request.to_u64()));
            known
                .requests
                .lock()
                .extend(requests.iter().rev().nth(1).map(|(request, _)| request.to_u64()));
            rank.pause(rng.u64(1..3000)).await;
        }
    }
    // The other peer is heard and answered all the time.
    for number in 0..20u32 {
        let buffer = rank.blank(1000);
        // SAFETY: the buffer is kept until the receive has ended.
        let received = unsafe {
            rank.world()
                .receive(Some(KNOWN_PEER), Some(1000), buffer.memory())
        };
        let outcome = rank.received(received.expect("the known peer lives")).await;
        assert_eq!((outcome.error, outcome.bytes), (None, u64::from(number) * 50));
        assert!(
            buffer.bytes()[..number as usize * 50]
                .iter()
                .all(|&byte| u32::from(byte) == number)
        );
        // SAFETY: as above.
        let sent = unsafe { rank.world().send(KNOWN_PEER, 1001, buffer.memory(), true, true) };
        let outcome = rank
            .wait(sent.expect("the known peer lives").expect("asked for"))
            .await;
        assert_eq!(outcome.error, None);
        rank.pause(rng.u64(1..1000)).await;
    }
    for (request, _buffer) in requests {
        rank.wait(request).await;
    }
    // The attacker is dead by now: what is left of it can be taken, and fails where it has to be fetched.
    for context in CONTEXTS {
        let all = Pattern {
            context: Context::of_bits(context),
            source: None,
            tag: None,
        };
        loop {
            let Some((envelope, message)) = rank.instance().engine().probe_out(&all) else {
                break;
            };
            let buffer = rank.blank(10);
            // SAFETY: the buffer is kept until the receive has ended.
            let received = unsafe {
                rank.instance()
                    .engine()
                    .accept(envelope, message, &buffer.memory())
            };
            rank.received(received).await;
        }
    }
}

async fn exchange(rank: Rank) {
    for number in 0..20u32 {
        let buffer = rank.buffer(&vec![number as u8; number as usize * 50]);
        // SAFETY: the buffer is kept until the send has ended.
        let sent = unsafe { rank.world().send(VICTIM, 1000, buffer.memory(), false, true) };
        let outcome = rank
            .wait(sent.expect("the victim lives").expect("asked for"))
            .await;
        assert_eq!(outcome.error, None);
        let answer = rank.blank(1000);
        // SAFETY: as above.
        let received = unsafe { rank.world().receive(Some(VICTIM), Some(1001), answer.memory()) };
        let outcome = rank.received(received.expect("the victim lives")).await;
        assert_eq!((outcome.error, outcome.bytes), (None, 1000));
    }
}

#[test]
fn only_the_attacker_fails() {
    check("only_the_attacker_fails", 500, |seed| {
        let simulation = Simulation::new(seed, 3, Options::random(seed));
        let card = BusinessCard::decode(&simulation.card(VICTIM).expect("published")).expect("a card");
        let known = Knowledge {
            token: card.token,
            requests: Arc::default(),
        };
        simulation.run(|rank| {
            let known = known.clone();
            let rng = Rng::with_seed(seed ^ u64::from(rank.me().number() + 1) << 40);
            async move {
                match rank.me().number() {
                    VICTIM => defend(rank, rng, known).await,
                    ATTACKER => attack(rank, rng, known).await,
                    _ => exchange(rank).await,
                }
            }
        });
    });
}
