//! Partitioned communication (MPI 5.0 chapter 4) of random shapes: many pairs at once, some with the same tag, beside
//! ordinary messages. Each partition that has arrived is there, each start meets its own, in the order in which the two
//! sides were made.

use std::sync::Arc;

use fastrand::Rng;
use weft::base::error::Class;
use weft::engine::Received;
use weft::engine::request::Outcome;
use weft::objects::collective::barrier;
use weft::objects::partitioned::{PartitionedReceive, PartitionedSend};
use weft::sim::{Buffer, Options, Rank, Simulation, check, join_all, skewed};

/// A send and the receive that it is to meet.
#[derive(Clone, Copy, Debug)]
struct Pair {
    number: u32,
    source: u32,
    destination: u32,
    tag: i32,
    /// Partitions of the sender, and bytes of each.
    from: (u64, u64),
    /// Those of the receiver, who may have room for more.
    to: (u64, u64),
    /// Freed without a start.
    idle: bool,
    starts: u32,
}

impl Pair {
    fn random(rng: &mut Rng, number: u32, size: u32, starts: u32) -> Pair {
        let from = (skewed(rng, 8), skewed(rng, 11));
        let bytes = from.0 * from.1;
        let to = rng.u64(1..20);
        Pair {
            number,
            source: rng.u32(..size),
            destination: rng.u32(..size),
            tag: rng.i32(0..3),
            from,
            to: (to, bytes.div_ceil(to) + u64::from(rng.u32(..5) == 0)),
            idle: rng.u32(..6) == 0,
            starts,
        }
    }

    fn byte(&self, start: u32, at: u64) -> u8 {
        (u64::from(self.number * 41 + start * 97) + at * 7 + at / 256) as u8
    }

    fn content(&self, start: u32, bytes: std::ops::Range<u64>) -> Vec<u8> {
        bytes.map(|at| self.byte(start, at)).collect()
    }
}

enum Side {
    Sender(Arc<PartitionedSend>, Buffer),
    Receiver(Arc<PartitionedReceive>, Buffer),
}

async fn idle(rank: &Rank, rng: &mut Rng) {
    match rng.u32(..8) {
        0 => rank.pause(skewed(rng, 15)).await,
        1 | 2 => rank.turn().await,
        _ => {}
    }
}

async fn sender(rank: Rank, pair: Pair, mut rng: Rng, send: Arc<PartitionedSend>, buffer: Buffer) {
    let (number, bytes) = pair.from;
    let memory = buffer.memory();
    for start in 0..pair.starts {
        idle(&rank, &mut rng).await;
        // SAFETY: nobody writes to what is ready, until the request has ended.
        let request = unsafe { send.start() }.expect("nobody dies");
        let mut order: Vec<u64> = (0..number).collect();
        if rng.bool() {
            rng.shuffle(&mut order);
        }
        for partition in order {
            idle(&rank, &mut rng).await;
            let range = partition * bytes..(partition + 1) * bytes;
            let part = memory.part(range.start, bytes);
            // SAFETY: within the buffer, and nobody reads it before it is ready.
            unsafe { part.unpack(0, pair.content(start, range).as_slice()) };
            assert!(!rank.has_ended(request), "ended before all is ready");
            send.ready(partition).expect("not ready before");
            if rng.u32(..20) == 0 {
                let again = send.ready(partition).expect_err("ready twice");
                assert_eq!(again.class, Class::Arg);
            }
        }
        assert_eq!(rank.wait(request).await, Outcome::EMPTY);
        // SAFETY: it is ours again.
        unsafe { memory.unpack(0, vec![0xcc; buffer.bytes().len()].as_slice()) };
    }
}

async fn receiver(rank: Rank, pair: Pair, mut rng: Rng, receive: Arc<PartitionedReceive>, buffer: Buffer) {
    let (number, bytes) = pair.to;
    let all = pair.from.0 * pair.from.1;
    for start in 0..pair.starts {
        idle(&rank, &mut rng).await;
        // SAFETY: nobody but the library touches it until the request has ended.
        unsafe {
            buffer
                .memory()
                .unpack(0, vec![0x77; buffer.bytes().len()].as_slice())
        };
        // SAFETY: as above.
        let request = unsafe { receive.start() }.expect("nobody dies");
        let mut arrived = vec![false; number as usize];
        while rng.u32(..200) != 0 && !rank.has_ended(request) {
            let partition = rng.u64(..number);
            let now = receive.has_arrived(partition);
            assert!(now || !arrived[partition as usize], "it had arrived");
            if now && !arrived[partition as usize] {
                let range = (partition * bytes).min(all)..((partition + 1) * bytes).min(all);
                let there = &buffer.bytes()[range.start as usize..range.end as usize];
                assert_eq!(there, pair.content(start, range));
            }
            arrived[partition as usize] = now;
            idle(&rank, &mut rng).await;
        }
        let outcome = rank.wait(request).await;
        let expected = Outcome {
            source: pair.source as i32,
            tag: pair.tag,
            bytes: all,
            cancelled: false,
            error: None,
        };
        assert_eq!(outcome, expected);
        assert!((0..number).all(|partition| receive.has_arrived(partition)));
        assert_eq!(buffer.bytes()[..all as usize], pair.content(start, 0..all));
        assert!(buffer.bytes()[all as usize..].iter().all(|&byte| byte == 0x77));
    }
}

/// An ordinary message around the ring, by receives that would take any.
async fn ordinary(rank: &Rank, rng: &mut Rng) {
    let world = rank.world();
    let next = (world.rank() + 1) % world.size();
    let (out, into) = (rank.buffer(b"ordinary"), rank.blank(8));
    // SAFETY: the buffers are kept until both have ended.
    let received = unsafe { world.receive(None, None, into.memory()) };
    idle(rank, rng).await;
    // SAFETY: as above.
    let sent = unsafe { world.send(next, rng.i32(0..3), out.memory(), false, true) };
    let outcome = match received.expect("nobody dies") {
        Received::Now(outcome) => outcome,
        Received::Later(request) => rank.wait(request).await,
    };
    assert_eq!((outcome.bytes, outcome.error), (8, None));
    assert_eq!(into.bytes(), b"ordinary");
    rank.wait(sent.expect("nobody dies").expect("a request was asked for"))
        .await;
}

fn run(seed: u64, ordered: bool) {
    let mut options = Options::random(seed);
    options.conditions.limits.ordered = ordered;
    let mut common = Rng::with_seed(seed);
    let size = common.u32(1..5);
    let starts = common.u32(1..4);
    let number = common.u32(1..8);
    let pairs: Vec<Pair> = (0..number)
        .map(|number| Pair::random(&mut common, number, size, starts))
        .collect();
    Simulation::new(seed, size, options).run(|rank| {
        let pairs = pairs.clone();
        async move {
            let mut rng = Rng::with_seed(seed ^ u64::from(rank.me().number() + 1) << 40);
            let world = rank.world().clone();
            let me = world.rank();
            let mut sides = Vec::new();
            for pair in pairs {
                idle(&rank, &mut rng).await;
                if pair.source == me {
                    let (number, bytes) = pair.from;
                    let buffer = rank.blank((number * bytes) as usize);
                    let (all, each) = (buffer.memory(), rank.blank(bytes as usize));
                    let send =
                        PartitionedSend::new(&world, pair.destination, pair.tag, number, &each.memory(), all);
                    sides.push((pair, Side::Sender(send.expect("room for all"), buffer)));
                }
                if pair.destination == me {
                    let (number, bytes) = pair.to;
                    let buffer = rank.blank((number * bytes) as usize);
                    let (all, each) = (buffer.memory(), rank.blank(bytes as usize));
                    let receive =
                        PartitionedReceive::new(&world, pair.source, pair.tag, number, &each.memory(), all);
                    sides.push((pair, Side::Receiver(receive.expect("room for all"), buffer)));
                }
            }
            let running: Vec<_> = sides
                .into_iter()
                .filter(|(pair, _)| !pair.idle)
                .map(|(pair, side)| {
                    let (rank, rng) = (rank.clone(), rng.fork());
                    async move {
                        match side {
                            Side::Sender(send, buffer) => sender(rank, pair, rng, send, buffer).await,
                            Side::Receiver(receive, buffer) => {
                                receiver(rank, pair, rng, receive, buffer).await;
                            }
                        }
                    }
                })
                .collect();
            ordinary(&rank, &mut rng).await;
            join_all(running).await;
            barrier(&world.collective()).await.expect("a barrier");
        }
    });
}

#[test]
fn partitions_arrive() {
    check("partitions_arrive", 100, |seed| run(seed, true));
}

#[test]
fn partitions_arrive_without_order() {
    check("partitions_arrive_without_order", 50, |seed| run(seed, false));
}
