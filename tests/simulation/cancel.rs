//! Cancelling (MPI 5.0 section 3.8.4): each message is either cancelled or received, never both, never neither; and
//! each wait returns.

use std::sync::Arc;

use fastrand::Rng;
use parking_lot::Mutex;
use weft::engine::Received;
use weft::engine::buffered::SendBuffer;
use weft::engine::matching::Envelope;
use weft::engine::request::RequestId;
use weft::identity::Context;
use weft::objects::collective::barrier;
use weft::sim::{Options, Rank, Simulation, check, join_all, skewed};

/// What is known of one message. Both sides look at it, so that one that waits in vain can give up.
#[derive(Clone, Copy, Default, Debug)]
struct Fate {
    /// How the send ended.
    cancelled: Option<bool>,
    /// No receive will take it but the last sweep.
    unwanted: bool,
    received: u32,
}

type Fates = Arc<Mutex<Vec<Fate>>>;

const MESSAGES: usize = 24;

fn content(tag: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (tag * 31 + at * 7) as u8).collect()
}

async fn wait_or(rank: &Rank, request: RequestId, mut give_up: impl FnMut() -> bool) {
    while !rank.has_ended(request) {
        if give_up() {
            rank.instance().engine().cancel(request);
            return;
        }
        rank.turn().await;
    }
}

async fn sender(rank: Rank, room: Arc<SendBuffer>, mut rng: Rng, fates: Fates, tag: usize, bytes: usize) {
    rank.pause(1 << rng.u32(..16)).await;
    let buffer = rank.buffer(&content(tag, bytes));
    let (world, memory) = (rank.world(), buffer.memory());
    let (request, buffer) = match rng.u32(..3) {
        0 => {
            // SAFETY: the buffer is valid during the call.
            let request = unsafe { world.send_buffered(Some(&room), 1, tag as i32, memory, true) };
            // At once: whoever reads it from here on finds rubbish.
            drop(buffer);
            (request, None)
        }
        // SAFETY: the buffer is kept until the send has ended.
        mode => unsafe { (world.send(1, tag as i32, memory, mode == 1, true), Some(buffer)) },
    };
    let request = request.expect("nobody dies").expect("a request was asked for");
    match rng.u32(..4) {
        // Cancelled whether it has ended or not; perhaps twice.
        0 | 1 => {
            rank.pause(skewed(&mut rng, 16)).await;
            rank.instance().engine().cancel(request);
            if rng.bool() {
                rank.turn().await;
                rank.instance().engine().cancel(request);
            }
        }
        _ => wait_or(&rank, request, || fates.lock()[tag].unwanted).await,
    }
    let outcome = rank.wait(request).await;
    assert_eq!(outcome.error, None);
    drop(buffer);
    fates.lock()[tag].cancelled = Some(outcome.cancelled);
}

async fn receiver(rank: Rank, mut rng: Rng, fates: Fates, tag: usize, bytes: usize) {
    rank.pause(1 << rng.u32(..16)).await;
    if rng.u32(..4) == 0 {
        fates.lock()[tag].unwanted = true;
        return;
    }
    let buffer = rank.blank(bytes);
    let source = rng.bool().then_some(0);
    // SAFETY: the buffer is kept until the receive has ended.
    let received = unsafe { rank.world().receive(source, Some(tag as i32), buffer.memory()) };
    let outcome = match received.expect("nobody dies") {
        Received::Now(outcome) => outcome,
        Received::Later(request) => {
            if rng.u32(..4) == 0 {
                rank.pause(skewed(&mut rng, 16)).await;
                rank.instance().engine().cancel(request);
            }
            wait_or(&rank, request, || fates.lock()[tag].cancelled == Some(true)).await;
            rank.wait(request).await
        }
    };
    assert_eq!(outcome.error, None);
    let fate = &mut fates.lock()[tag];
    if outcome.cancelled {
        fate.unwanted = true;
    } else {
        assert_eq!(buffer.bytes(), content(tag, bytes));
        fate.received += 1;
    }
}

/// Receives what has arrived and was never wanted.
async fn sweep(rank: &Rank, fates: &Fates) {
    let all = rank.world().pattern(None, None);
    loop {
        let found = rank.instance().engine().probe_out(&all);
        let Some((envelope, message)) = found else { break };
        let tag = envelope.tag as usize;
        let buffer = rank.blank(message.len() as usize);
        // SAFETY: the buffer is kept until the receive has ended.
        let received = unsafe {
            rank.instance()
                .engine()
                .accept(envelope, message, &buffer.memory())
        };
        let outcome = rank.received(received).await;
        assert_eq!((outcome.error, outcome.cancelled), (None, false));
        assert_eq!(buffer.bytes(), content(tag, buffer.bytes().len()));
        fates.lock()[tag].received += 1;
    }
}

fn run(seed: u64, ordered: bool) {
    let mut options = Options::random(seed);
    options.conditions.limits.ordered = ordered;
    let fates: Fates = Arc::new(Mutex::new(vec![Fate::default(); MESSAGES]));
    Simulation::new(seed, 2, options).run(|rank| {
        let fates = fates.clone();
        async move {
            let mut common = Rng::with_seed(seed);
            let mut own = Rng::with_seed(seed ^ u64::from(rank.me().number() + 1) << 40);
            let sizes: Vec<usize> = (0..MESSAGES).map(|_| skewed(&mut common, 12) as usize).collect();
            let messages = sizes.into_iter().enumerate();
            // More than all messages with their alignment.
            let room = rank.blank(MESSAGES * ((1 << 12) + 16));
            let run = room.memory().contiguous().expect("a run of bytes");
            let (address, len) = (run.address, run.len);
            // SAFETY: flushed before it is dropped.
            let room_for = unsafe { SendBuffer::of_user(address, len) };
            if rank.me().number() == 0 {
                join_all(messages.map(|(tag, bytes)| {
                    let (rank, room) = (rank.clone(), room_for.clone());
                    sender(rank, room, own.fork(), fates.clone(), tag, bytes)
                }))
                .await;
            } else {
                join_all(
                    messages
                        .map(|(tag, bytes)| receiver(rank.clone(), own.fork(), fates.clone(), tag, bytes)),
                )
                .await;
            }
            barrier(&rank.world().collective()).await.expect("a barrier");
            let flush = rank
                .instance()
                .engine()
                .flush_buffer(&room_for, Context::of_bits(0));
            sweep(&rank, &fates).await;
            assert_eq!(rank.wait(flush).await.error, None);
            // Scribbled over: nobody needs it any more.
            drop(room);
        }
    });
    for (tag, fate) in fates.lock().iter().enumerate() {
        let cancelled = fate.cancelled.expect("the sender has waited");
        assert!(
            cancelled != (fate.received == 1) && fate.received <= 1,
            "seed {seed}, message {tag}: {fate:?}"
        );
    }
}

/// Messages that differ in nothing but their content, some of them cancelled: the receiver gets all the others, in their order.
fn run_alike(seed: u64, ordered: bool) {
    const TAG: i32 = 3;
    let mut options = Options::random(seed);
    options.conditions.limits.ordered = ordered;
    // Whether each send was cancelled, once all are known.
    let ends: Arc<Mutex<Option<Vec<bool>>>> = Arc::default();
    let got: Arc<Mutex<Vec<usize>>> = Arc::default();
    Simulation::new(seed, 2, options).run(|rank| {
        let (ends, got) = (ends.clone(), got.clone());
        async move {
            let mut common = Rng::with_seed(seed);
            let sizes: Vec<usize> = (0..MESSAGES)
                .map(|_| 1 + skewed(&mut common, 11) as usize)
                .collect();
            if rank.me().number() == 0 {
                let mut sends = Vec::new();
                for (number, &bytes) in sizes.iter().enumerate() {
                    let buffer = rank.buffer(&content(number, bytes));
                    let sync = common.u32(..4) == 0;
                    // SAFETY: the buffer is kept until the send has ended.
                    let request = unsafe { rank.world().send(1, TAG, buffer.memory(), sync, true) };
                    sends.push((request.expect("nobody dies").expect("asked for"), buffer));
                    if common.u32(..4) == 0 {
                        rank.pause(skewed(&mut common, 14)).await;
                    }
                    // This one, or one that may have arrived or been taken.
                    if common.bool() {
                        let (request, _) = sends[common.u32(..sends.len() as u32) as usize];
                        rank.instance().engine().cancel(request);
                    }
                }
                let mut cancelled = Vec::new();
                for (request, _buffer) in sends {
                    let outcome = rank.wait(request).await;
                    assert_eq!(outcome.error, None);
                    cancelled.push(outcome.cancelled);
                }
                *ends.lock() = Some(cancelled);
            }
            let pattern = rank.world().pattern(Some(0), Some(TAG));
            let take = async || {
                let Some((_, message)) = rank.instance().engine().probe_out(&pattern) else {
                    return false;
                };
                let buffer = rank.blank(message.len() as usize);
                let envelope = Envelope {
                    context: pattern.context,
                    source: 0,
                    tag: TAG,
                };
                // SAFETY: the buffer is kept until the receive has ended.
                let received = unsafe {
                    rank.instance()
                        .engine()
                        .accept(envelope, message, &buffer.memory())
                };
                let outcome = rank.received(received).await;
                assert_eq!((outcome.error, outcome.cancelled), (None, false));
                let is_it = |&number: &usize| buffer.bytes() == content(number, sizes[number]);
                let number = (0..MESSAGES).find(is_it).expect("one that was sent");
                got.lock().push(number);
                true
            };
            if rank.me().number() == 1 {
                while ends.lock().is_none() {
                    rank.pause(skewed(&mut common, 14)).await;
                    take().await;
                }
            }
            barrier(&rank.world().collective()).await.expect("a barrier");
            while take().await {}
        }
    });
    let ends = ends.lock().take().expect("the sender has waited");
    let expected: Vec<usize> = (0..MESSAGES).filter(|&number| !ends[number]).collect();
    assert_eq!(*got.lock(), expected, "seed {seed}");
}

#[test]
fn alike_but_for_what_was_cancelled() {
    check("alike_but_for_what_was_cancelled", 75, |seed| {
        run_alike(seed, !seed.is_multiple_of(4))
    });
}

#[test]
fn cancelled_or_received() {
    check("cancelled_or_received", 250, |seed| run(seed, true));
}

#[test]
fn cancelled_or_received_without_order() {
    check("cancelled_or_received_without_order", 75, |seed| run(seed, false));
}
