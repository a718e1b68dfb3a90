//! Random programs of all that takes part in matching, against a model: sends in every mode, persistent ones, and
//! cancelled ones; receives with wildcards, persistent, cancelled; probes, and matched probes whose messages are received
//! later, in another order.
//!
//! The model is a list of all messages. Each is either taken back or received, once, by a receive that may take it; of
//! two messages of one sender that one receive would take, the earlier one is not for a later receive (MPI 5.0 section
//! 3.5); and when all are settled, no receive that is left has anything to match.

use std::sync::Arc;

use fastrand::Rng;
use parking_lot::Mutex;
use weft::engine::buffered::SendBuffer;
use weft::engine::matching::{Envelope, Pattern};
use weft::engine::request::{Outcome, RequestId};
use weft::engine::{Message, Received};
use weft::identity::Context;
use weft::objects::collective::barrier;
use weft::objects::communicator::Communicator;
use weft::sim::{Buffer, Options, Rank, Simulation, check, join_all, skewed};

/// What is known of one message, to both sides.
#[derive(Clone, Debug)]
struct Known {
    envelope: Envelope,
    destination: u32,
    bytes: usize,
    /// Whether the sender has taken it back, once that is known.
    cancelled: Option<bool>,
    received: u32,
}

type Model = Arc<Mutex<Vec<Known>>>;

const SENDS: u32 = 30;
const TAGS: i32 = 3;
/// The context of a communicator for ready sends, whose receives must be there before: no wildcard may take them.
const READY: u64 = 0x1000;
const HEAD: usize = 4;
const BYTES_MAX: usize = 3000;

fn content(message: usize, bytes: usize) -> Vec<u8> {
    let head = (message as u32).to_le_bytes();
    let rest = (HEAD..bytes).map(|at| (message * 31 + at * 7 + at / 256) as u8);
    head.into_iter().chain(rest).collect()
}

/// One send operation, started once, or again and again if it is persistent.
struct Sending {
    destination: u32,
    tag: i32,
    /// Large enough for each start's message.
    buffer: Buffer,
    starts_left: u32,
    under_way: Option<(usize, RequestId)>,
    cancels: bool,
}

async fn idle(rank: &Rank, rng: &mut Rng) {
    match rng.u32(..6) {
        0 => rank.pause(skewed(rng, 15)).await,
        1 | 2 => rank.turn().await,
        _ => {}
    }
}

/// Sends everything that this rank sends. The model's order of a sender's messages is that of their starts.
async fn sender(rank: Rank, mut rng: Rng, model: Model) {
    let world = rank.world().clone();
    let mut left = SENDS;
    let mut sendings: Vec<Sending> = Vec::new();
    while left > 0 || !sendings.is_empty() {
        idle(&rank, &mut rng).await;
        if left > 0 && rng.bool() {
            left -= 1;
            sendings.push(Sending {
                destination: rng.u32(..world.size()),
                tag: rng.i32(0..TAGS),
                buffer: rank.blank(BYTES_MAX),
                starts_left: if rng.u32(..3) == 0 { rng.u32(2..6) } else { 1 },
                under_way: None,
                cancels: rng.u32(..3) == 0,
            });
        }
        if sendings.is_empty() {
            continue;
        }
        let at = rng.u64(..sendings.len() as u64) as usize;
        let sending = &mut sendings[at];
        match sending.under_way {
            None if sending.starts_left == 0 => drop(sendings.swap_remove(at)),
            None => {
                sending.starts_left -= 1;
                let bytes = HEAD + skewed(&mut rng, 11) as usize;
                let message = {
                    let mut model = model.lock();
                    model.push(Known {
                        envelope: Envelope {
                            context: world.context(),
                            source: world.rank(),
                            tag: sending.tag,
                        },
                        destination: sending.destination,
                        bytes,
                        cancelled: (!sending.cancels).then_some(false),
                        received: 0,
                    });
                    model.len() - 1
                };
                let memory = sending.buffer.memory().part(0, bytes as u64);
                // SAFETY: within the buffer, which no send uses now.
                unsafe { memory.unpack(0, content(message, bytes).as_slice()) };
                let (to, tag, mode) = (sending.destination, sending.tag, rng.u32(..3));
                let room = rank.instance().attachment().get();
                let request = match mode {
                    // SAFETY: the buffer is valid during the call.
                    0 => unsafe { world.send_buffered(room.as_ref(), to, tag, memory, true) },
                    // SAFETY: the buffer is kept, and left alone, until the request has ended.
                    mode => unsafe { world.send(to, tag, memory, mode == 1, true) },
                };
                let request = request.expect("nobody dies").expect("a request was asked for");
                sending.under_way = Some((message, request));
            }
            Some((message, request)) => {
                if sending.cancels && rng.bool() {
                    rank.instance().engine().cancel(request);
                }
                // Its end may be up to the receiver, who may wait for another message of ours.
                if !rank.has_ended(request) {
                    rank.turn().await;
                    continue;
                }
                let outcome = rank.wait(request).await;
                assert_eq!(outcome.error, None);
                assert!(!outcome.cancelled || sending.cancels);
                model.lock()[message].cancelled = Some(outcome.cancelled);
                sending.under_way = None;
                // SAFETY: the buffer is ours again.
                unsafe { sending.buffer.memory().unpack(0, [0xcc; BYTES_MAX].as_slice()) };
            }
        }
    }
}

/// A receive, with its place in the order of those of its rank.
struct Receiving {
    order: usize,
    pattern: Pattern,
    buffer: Buffer,
    state: Option<RequestId>,
    starts_left: u32,
    cancels: bool,
}

/// What a rank has received: the order of the receive, what it would have taken, and which message it took.
type Log = Vec<(usize, Pattern, usize)>;

struct Receiver {
    rank: Rank,
    model: Model,
    log: Log,
    next: usize,
}

impl Receiver {
    fn order(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    fn note(&mut self, order: usize, pattern: Pattern, buffer: &Buffer, outcome: &Outcome) {
        assert_eq!((outcome.cancelled, &outcome.error), (false, &None));
        let bytes = &buffer.bytes()[..outcome.bytes as usize];
        let number = u32::from_le_bytes(bytes[..HEAD].try_into().expect("4 bytes")) as usize;
        assert_eq!(bytes, content(number, bytes.len()));
        let known = &mut self.model.lock()[number];
        assert_eq!(known.bytes, bytes.len());
        assert_eq!(known.destination, self.rank.world().rank());
        assert_eq!(
            (known.envelope.source as i32, known.envelope.tag),
            (outcome.source, outcome.tag)
        );
        assert!(pattern.takes(&known.envelope), "{pattern:?} took {known:?}");
        known.received += 1;
        self.log.push((order, pattern, number));
    }

    fn is_settled(&self) -> bool {
        let me = self.rank.world().rank();
        let model = self.model.lock();
        let mut mine = model.iter().filter(|known| known.destination == me);
        mine.all(|known| known.received == 1 || known.cancelled == Some(true))
    }

    fn pattern(&self, rng: &mut Rng) -> Pattern {
        let world = self.rank.world();
        let source = rng.bool().then(|| rng.u32(..world.size()));
        world.pattern(source, rng.bool().then(|| rng.i32(0..TAGS)))
    }

    /// Starts a receive, and notes it if it ends at once.
    fn start(&mut self, receiving: &mut Receiving) {
        receiving.order = self.order();
        receiving.starts_left -= 1;
        let Pattern { source, tag, .. } = receiving.pattern;
        let memory = receiving.buffer.memory();
        // SAFETY: the buffer is kept until the receive has ended.
        let received = unsafe { self.rank.world().receive(source, tag, memory) };
        match received.expect("nobody dies") {
            Received::Later(request) => receiving.state = Some(request),
            Received::Now(outcome) => {
                receiving.state = None;
                self.note(receiving.order, receiving.pattern, &receiving.buffer, &outcome);
            }
        }
    }

    fn end(&mut self, receiving: &mut Receiving, outcome: &Outcome) {
        receiving.state = None;
        if !outcome.cancelled {
            self.note(receiving.order, receiving.pattern, &receiving.buffer, outcome);
        } else {
            assert_eq!(outcome.error, None);
            assert!(receiving.cancels, "nobody has cancelled this receive");
        }
    }

    /// A probe, and with it perhaps a message taken out: the one that the probe told of.
    fn probe(&mut self, rng: &mut Rng, held: &mut Vec<(usize, Pattern, Envelope, Message)>) {
        let pattern = self.pattern(rng);
        let mut engine = self.rank.instance().engine();
        let Some(seen) = engine.probe(&pattern) else {
            assert!(engine.probe_out(&pattern).is_none());
            return;
        };
        assert!(pattern.takes(&seen.envelope));
        let exactly = Pattern {
            source: Some(seen.envelope.source),
            tag: Some(seen.envelope.tag),
            ..pattern
        };
        assert_eq!(engine.probe(&exactly), Some(seen));
        if rng.bool() {
            return;
        }
        let (envelope, message) = engine.probe_out(&pattern).expect("it was there");
        assert_eq!((envelope, message.len()), (seen.envelope, seen.bytes));
        drop(engine);
        let order = self.order();
        held.push((order, pattern, envelope, message));
    }

    async fn accept(&mut self, (order, pattern, envelope, message): (usize, Pattern, Envelope, Message)) {
        let buffer = self.rank.blank(message.len() as usize);
        // SAFETY: the buffer is kept until the receive has ended.
        let received = unsafe {
            let mut engine = self.rank.instance().engine();
            engine.accept(envelope, message, &buffer.memory())
        };
        let outcome = self.rank.received(received).await;
        self.note(order, pattern, &buffer, &outcome);
    }

    /// Receives until every message to this rank is settled. `done`: no rank sends any more.
    async fn run(mut self, mut rng: Rng, mut done: impl FnMut() -> bool) -> Log {
        let mut receivings: Vec<Receiving> = Vec::new();
        let mut held = Vec::new();
        while !(done() && self.is_settled()) {
            idle(&self.rank, &mut rng).await;
            match rng.u32(..6) {
                0 | 1 if receivings.len() < 12 => {
                    let mut receiving = Receiving {
                        order: 0,
                        pattern: self.pattern(&mut rng),
                        buffer: self.rank.blank(BYTES_MAX),
                        state: None,
                        starts_left: if rng.u32(..3) == 0 { rng.u32(2..6) } else { 1 },
                        cancels: rng.u32(..3) == 0,
                    };
                    self.start(&mut receiving);
                    receivings.push(receiving);
                }
                2 => self.probe(&mut rng, &mut held),
                3 if !held.is_empty() => {
                    let at = rng.u64(..held.len() as u64) as usize;
                    let taken = held.swap_remove(at);
                    self.accept(taken).await;
                }
                _ if !receivings.is_empty() => {
                    let at = rng.u64(..receivings.len() as u64) as usize;
                    let mut receiving = receivings.swap_remove(at);
                    match receiving.state {
                        None if receiving.starts_left == 0 => continue,
                        None => self.start(&mut receiving),
                        Some(request) => {
                            if receiving.cancels && rng.u32(..4) == 0 {
                                self.rank.instance().engine().cancel(request);
                            }
                            if self.rank.has_ended(request) {
                                let outcome = self.rank.wait(request).await;
                                self.end(&mut receiving, &outcome);
                            } else {
                                self.rank.turn().await;
                            }
                        }
                    }
                    receivings.push(receiving);
                }
                _ => self.rank.turn().await,
            }
        }
        assert!(
            held.is_empty(),
            "a message that a probe took is settled only once it is received"
        );
        for mut receiving in receivings {
            if let Some(request) = receiving.state {
                receiving.cancels = true;
                self.rank.instance().engine().cancel(request);
                let outcome = self.rank.wait(request).await;
                assert!(
                    outcome.cancelled,
                    "{outcome:?} came though every message was settled"
                );
            }
        }
        self.log
    }
}

/// Of two messages of one sender, the earlier one is not for a later receive if the earlier receive would take it.
fn in_order(log: &Log, model: &[Known]) {
    for &(order, pattern, message) in log {
        for &(other_order, _, earlier) in log {
            let (this, that) = (&model[message], &model[earlier]);
            let overtaken =
                this.envelope.source == that.envelope.source && earlier < message && other_order > order;
            assert!(
                !overtaken || !pattern.takes(&that.envelope),
                "{pattern:?} took {this:?} though {that:?} had been sent before, which a later receive took"
            );
        }
    }
}

/// Ready sends: their receives are posted, so each goes straight to its own, whatever else is under way.
async fn ready(rank: Rank, mut rng: Rng, posted: Arc<Mutex<Vec<bool>>>) {
    let group = rank.world().group().clone();
    let world = Communicator::new(rank.instance(), Context::of_bits(READY), group).expect("a member");
    let (me, size) = (world.rank(), world.size());
    let from = (me + size - 1) % size;
    for round in 0..4 {
        let tag = round % TAGS;
        let bytes = HEAD + skewed(&mut rng, 11) as usize;
        let (out, into) = (rank.buffer(&content(me as usize, bytes)), rank.blank(BYTES_MAX));
        // SAFETY: the buffer is kept until the receive has ended.
        let received = unsafe { world.receive(Some(from), Some(tag), into.memory()) };
        let Ok(Received::Later(receive)) = received else {
            panic!("a ready send came before its receive was posted");
        };
        let flag = |rank: u32| (round as u32 * size + rank) as usize;
        posted.lock()[flag(me)] = true;
        rank.until(|| posted.lock()[flag((me + 1) % size)]).await;
        idle(&rank, &mut rng).await;
        // SAFETY: the buffer is kept until the send has ended.
        let sent = unsafe { world.send((me + 1) % size, tag, out.memory(), false, true) };
        let outcome = rank.wait(receive).await;
        assert_eq!(
            (outcome.source, outcome.tag, &outcome.error),
            (from as i32, tag, &None)
        );
        assert_eq!(
            into.bytes()[..outcome.bytes as usize],
            content(from as usize, outcome.bytes as usize)
        );
        rank.wait(sent.expect("nobody dies").expect("a request was asked for"))
            .await;
    }
}

fn run(seed: u64, ordered: bool) {
    let mut options = Options::random(seed);
    options.conditions.limits.ordered = ordered;
    let size = Rng::with_seed(seed).u32(1..5);
    let model = Model::default();
    let posted = Arc::new(Mutex::new(vec![false; 4 * size as usize]));
    let senders_left = Arc::new(Mutex::new(size));
    let logs = Simulation::new(seed, size, options).run(|rank| {
        let (model, posted, senders_left) = (model.clone(), posted.clone(), senders_left.clone());
        async move {
            let mut rng = Rng::with_seed(seed ^ u64::from(rank.me().number() + 1) << 40);
            let attached = rank
                .instance()
                .attachment()
                .attach(SendBuffer::automatic(), "the process");
            attached.expect("nothing was attached");
            let log = Arc::new(Mutex::new(Log::new()));
            let sending = {
                let (rank, rng, model, left) =
                    (rank.clone(), rng.fork(), model.clone(), senders_left.clone());
                async move {
                    sender(rank, rng, model).await;
                    *left.lock() -= 1;
                }
            };
            let receiving = {
                let receiver = Receiver {
                    rank: rank.clone(),
                    model: model.clone(),
                    log: Log::new(),
                    next: 0,
                };
                let (rng, log) = (rng.fork(), log.clone());
                async move { *log.lock() = receiver.run(rng, || *senders_left.lock() == 0).await }
            };
            let ready = ready(rank.clone(), rng.fork(), posted);
            let all: [std::pin::Pin<Box<dyn Future<Output = ()>>>; 3] =
                [Box::pin(sending), Box::pin(receiving), Box::pin(ready)];
            join_all(all).await;
            barrier(&rank.world().collective()).await.expect("a barrier");
            let room = rank.instance().attachment().take().expect("attached above");
            let flush = rank.instance().engine().flush_buffer(&room, Context::of_bits(0));
            assert_eq!(rank.wait(flush).await, Outcome::EMPTY);
            std::mem::take(&mut *log.lock())
        }
    });
    let model = model.lock();
    for known in model.iter() {
        let cancelled = known.cancelled.expect("every send has ended");
        assert!(
            cancelled != (known.received == 1) && known.received <= 1,
            "{known:?}"
        );
    }
    for log in logs {
        in_order(&log.expect("nobody dies"), &model);
    }
}

#[test]
fn all_at_once() {
    check("all_at_once", 75, |seed| run(seed, true));
}

#[test]
fn all_at_once_without_order() {
    check("all_at_once_without_order", 40, |seed| run(seed, false));
}
