//! Tests: many connections into one endpoint of libfabric's TCP provider, with messages of which only a part has arrived, some
//! of which never arrive whole.
//!
//! The normal tests take seconds and use fixed seeds. `ci/soak.d/incast` sets how many unauthenticated senders hang up
//! (`WEFT_TEST_INCAST`) and a seed for the lengths of messages (`WEFT_TEST_SEED`).

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::*;
use crate::lane::HEADER_BYTES;
use crate::lane::conformance::{Log, Pair, pattern};

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn open(provider: &str) -> OfiLane {
    let settings = Settings::read(|name| (name == "WEFT_PROVIDER").then(|| provider.to_string()))
        .expect("good settings");
    OfiLane::open(&settings, true, true, &Ledger::default()).expect("the provider is there")
}

/// Where it listens.
pub(crate) fn address_of(lane: &OfiLane) -> SocketAddr {
    fabric::socket_address(&lane.own_name).expect("an IP address")
}

fn number_in(variable: &str) -> Option<usize> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

/// Allows this process as many descriptors as the system permits.
pub(crate) fn raise_descriptors() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("limits can be read");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("the soft limit can be raised");
}

/// A connection that is made by hand, with the protocol of libfabric's TCP provider (prov/tcp/src/xnet_proto.h), so that
/// parts of messages can be sent.
pub(crate) struct Hand(TcpStream);

/// Bytes of a request for a connection, and of its answer.
const REQUEST: usize = 40;

impl Hand {
    /// Asks for a connection.
    fn knock(address: SocketAddr) -> Hand {
        let mut socket = TcpStream::connect(address).expect("somebody listens");
        // The caller is known by the port at which it says that it listens.
        let port = socket.local_addr().expect("a connected socket").port();
        let mut request = [0; REQUEST];
        // The version, a request, and the number of bytes that follow the first 32.
        (request[0], request[3]) = (3, 8);
        // In the caller's byte order, to show it.
        request[24..32].copy_from_slice(&1u64.to_ne_bytes());
        request[34..36].copy_from_slice(&port.to_be_bytes());
        request[36..].copy_from_slice(&std::process::id().to_be_bytes());
        socket.write_all(&request).expect("a few bytes find room");
        socket.set_nonblocking(true).expect("a socket can be so");
        Hand(socket)
    }

    /// Many of them; `poll` makes the process at that address accept each.
    pub fn many(count: usize, address: SocketAddr, poll: &mut dyn FnMut()) -> Vec<Hand> {
        let mut hands = Vec::new();
        while hands.len() < count {
            // No more at once than any listening socket keeps waiting.
            let first = hands.len();
            hands.extend((0..100.min(count - first)).map(|_| Hand::knock(address)));
            for hand in &mut hands[first..] {
                let mut answer = [0; REQUEST];
                let mut got = 0;
                let start = Instant::now();
                while got < answer.len() {
                    assert!(start.elapsed() < PATIENCE, "no answer to a request");
                    poll();
                    match hand.0.read(&mut answer[got..]) {
                        Ok(0) => panic!("a request was refused"),
                        Ok(more) => got += more,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
                    }
                }
                assert_eq!(answer[..2], [3, 1], "a request is accepted");
            }
        }
        hands
    }

    /// Announces that a message of `len` bytes follows.
    pub fn announce(&mut self, len: usize) {
        let mut header = [0; 16];
        // The version, a plain message, and the bytes of this header.
        (header[0], header[6]) = (3, 16);
        header[8..].copy_from_slice(&(16 + len as u64).to_ne_bytes());
        self.say(&header);
    }

    /// The same, of a peer who knows the lane's secret, which is then already there.
    fn announce_to(&mut self, lane: &OfiLane, len: usize) {
        self.announce(Secret::BYTES + len);
        self.say(&lane.secret.bytes());
    }

    pub fn say(&mut self, bytes: &[u8]) {
        // A socket's buffers hold more than the tests write before they are read.
        let said = self.0.write(bytes).expect("there is room in the socket");
        assert_eq!(said, bytes.len(), "all finds room in the socket");
    }
}

/// The endpoint into which all goes.
struct Receiver {
    lane: OfiLane,
    log: Log,
}

impl Receiver {
    fn new(provider: &str) -> Receiver {
        Receiver {
            lane: open(provider),
            log: Log::default(),
        }
    }

    fn address(&self) -> SocketAddr {
        address_of(&self.lane)
    }

    /// This many connections to it.
    fn hands(&mut self, count: usize) -> Vec<Hand> {
        Hand::many(count, self.address(), &mut || self.poll())
    }

    fn poll(&mut self) {
        self.lane.poll(&mut self.log).expect("polling works");
    }

    fn poll_until(&mut self, what: &str, mut done: impl FnMut(&mut Log) -> bool) {
        let start = Instant::now();
        while !done(&mut self.log) {
            assert!(start.elapsed() < PATIENCE, "no end of {what}");
            self.poll();
        }
    }

    /// Polls until nothing has come for a while. Bytes that lie in this machine's sockets are there at the first poll.
    fn drain(&mut self) {
        let mut quiet = 0;
        while quiet < 20 {
            quiet = if self.lane.poll(&mut self.log).expect("polling works") {
                0
            } else {
                quiet + 1
            };
        }
    }
}

/// A message with its number in its first bytes.
fn message(number: usize, len: usize) -> Vec<u8> {
    let mut bytes = pattern(number, len);
    let told = (number as u32).to_le_bytes();
    let len = bytes.len().min(4);
    bytes[..len].copy_from_slice(&told[..len]);
    bytes
}

/// The number of a message, after a check of each byte.
fn number_of(bytes: &[u8]) -> usize {
    let number = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes")) as usize;
    assert!(
        bytes == message(number, bytes.len()),
        "message {number} of {} bytes differs from what was sent",
        bytes.len()
    );
    number
}

#[test]
fn halves_of_many_messages_are_overwritten_by_nobody() {
    raise_descriptors();
    let mut receiver = Receiver::new("net");
    let most = receiver.lane.limits().message;
    // 300 connections keep a place in use for longer than all others take: about three of the longest messages fit into a
    // buffer.
    let mut hands = receiver.hands(301);
    let mut known_peer = hands.pop().expect("one of them");
    let lens: Vec<usize> = (0..hands.len())
        .map(|at| [most, most - 1, 4096, most / 2, 41][at % 5])
        .collect();
    for (at, hand) in hands.iter_mut().enumerate() {
        hand.announce_to(&receiver.lane, lens[at]);
        hand.say(&message(at, lens[at])[..lens[at] / 2]);
        // In between, whole messages fill every place that is free, or should be.
        for round in 0..2 {
            let number = 1000 + at * 2 + round;
            known_peer.announce_to(&receiver.lane, most - at);
            known_peer.say(&message(number, most - at));
            receiver.poll_until("a whole message", |log| {
                log.messages.pop().is_some_and(|bytes| {
                    assert_eq!(number_of(&bytes), number);
                    true
                })
            });
        }
    }
    // The rest of each message, that of the first one last.
    for (at, hand) in hands.iter_mut().enumerate().rev() {
        hand.say(&message(at, lens[at])[lens[at] / 2..]);
    }
    receiver.poll_until("the other halves", |log| log.messages.len() == hands.len());
    let mut numbers: Vec<usize> = receiver
        .log
        .messages
        .iter()
        .map(|bytes| number_of(bytes))
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..hands.len()).collect::<Vec<_>>());
}

#[test]
fn unauthenticated_senders_that_hang_up_in_the_middle_of_a_message_cost_no_buffers() {
    raise_descriptors();
    let senders = number_in("WEFT_TEST_INCAST").unwrap_or(250);
    let mut receiver = Receiver::new("net");
    let most = receiver.lane.limits().message;
    let mut known_peer = receiver.hands(1).pop().expect("one");
    for number in 0..senders {
        let mut sender = receiver.hands(1).pop().expect("one");
        let len = [most, 100, most - 1, 1 << 30, 5000][number % 5];
        sender.announce(len);
        sender.say(&pattern(number, (len / 2).min(most / 2)));
        receiver.drain();
        // A known peer's message is behind it, before and after the end of the connection.
        for round in 0..2 {
            let number = 2 * number + round;
            let len = 100 + number * 517 % (most - 100);
            known_peer.announce_to(&receiver.lane, len);
            known_peer.say(&message(number, len));
            receiver.poll_until("a known peer's message", |log| {
                log.messages.pop().is_some_and(|bytes| {
                    assert_eq!(number_of(&bytes), number);
                    true
                })
            });
            if round == 0 {
                let _ = sender.0.shutdown(std::net::Shutdown::Both);
                receiver.drain();
            }
        }
    }
    // The first one costs the buffers that were shared then; no later one costs any.
    let count = receiver.lane.receives.count();
    assert!(count <= 48, "{count} buffers after {senders} senders");
}

/// Over ofi_rxm a long message is fetched by its receiver. When the sender is gone, ofi_rxm (1.17) keeps the buffer
/// without any report. So each of these senders costs a buffer or two, as long as one message; but others still find
/// theirs. With 2.5 the fourth such message, which was longer than the rest of a shared buffer, made the next message go
/// past that buffer's end: `Tuning::shares`.
#[test]
fn unauthenticated_senders_that_hang_up_before_a_long_message_is_fetched_hold_nobody_up() {
    raise_descriptors();
    let provider = "tcp;ofi_rxm";
    let mut receiver = Receiver::new(provider);
    let mut known_peer = open(provider);
    let address = receiver.lane.address();
    known_peer
        .connect(PeerIndex::new(0), &address)
        .expect("a good address");
    let bytes = pattern(3, 300_000);
    for number in 0..60 {
        let mut sender = open(provider);
        sender
            .connect(PeerIndex::new(0), &address)
            .expect("a good address");
        let start = Instant::now();
        let (to, context) = (
            sender.peers[&PeerIndex::new(0)].address,
            sender.operations.context(0),
        );
        // SAFETY: the bytes and the unauthenticated sender's contexts outlive its endpoint, and the address is one of its vector.
        while unsafe {
            sender
                .endpoint
                .send(bytes.as_ptr(), bytes.len(), std::ptr::null_mut(), to, context)
        } != Ok(Posted::Accepted)
        {
            assert!(start.elapsed() < PATIENCE, "no connection");
            receiver.poll();
            sender.poll(&mut Log::default()).expect("polling works");
        }
        // Some see the fetch begin, some don't.
        for _ in 0..number % 4 {
            receiver.poll();
        }
        // Its endpoint closes, not its domain: what was not fetched is still registered there.
        std::mem::forget(sender.domain.clone());
        drop(sender);
        receiver.drain();
        // Those that were fetched before the sender was gone.
        receiver.log.messages.clear();
        for round in 0..4 {
            let payload = message(4 * number + round, 4000);
            // SAFETY: short enough to be copied.
            while unsafe { known_peer.send(PeerIndex::new(0), &payload[..40], Piece::of(&payload[40..]), 1) }
                != Ok(Sent::Done)
            {
                receiver.poll();
                known_peer.poll(&mut Log::default()).expect("polling works");
            }
            receiver.poll_until("a known peer's message", |log| {
                known_peer.poll(&mut Log::default()).expect("polling works");
                log.messages.pop().is_some_and(|bytes| bytes == payload)
            });
        }
    }
    let count = receiver.lane.receives.count();
    assert!(count <= 48 + 3 * 60, "{count} buffers after 60 senders");
    std::mem::forget(receiver.lane.domain.clone());
}

/// 300 endpoints send at the same time to one: a key, with which that one reads their memory, and messages of mixed lengths;
/// and 100 connections have an incomplete message there all the while.
#[test]
fn three_hundred_endpoints_send_to_one() {
    raise_descriptors();
    let count = 300;
    let mut receiver = Receiver::new("net");
    let most = receiver.lane.limits().message;
    let mut hands = receiver.hands(100);
    for (at, hand) in hands.iter_mut().enumerate() {
        hand.announce_to(&receiver.lane, most - at);
        hand.say(&message(at, most - at)[..most / 2]);
        receiver.poll();
    }
    let memory: Vec<Vec<u8>> = (0..count).map(|at| pattern(at, 100_000 + at)).collect();
    let address = receiver.lane.address();
    let mut senders = Vec::new();
    let mut plans: Vec<Vec<Vec<u8>>> = Vec::new();
    for (at, memory) in memory.iter().enumerate() {
        let mut sender = open("net");
        sender
            .connect(PeerIndex::new(0), &address)
            .expect("a good address");
        receiver
            .lane
            .connect(PeerIndex::new(at as u32 + 1), &sender.address())
            .expect("a good address");
        // SAFETY: the memory outlives the lanes.
        let (_, key) = unsafe { sender.register(&[Piece::of(memory)]) }.expect("registering works");
        // A message's number, and behind it, in the first one, the key.
        let number = 1000 + 4 * at;
        let mut first = (number as u32).to_le_bytes().to_vec();
        first.resize(HEADER_BYTES, 0);
        first.extend_from_slice(&key.0);
        let lens = [40 + at, 4000 + 7 * at, most - at];
        let others = lens
            .iter()
            .enumerate()
            .map(|(more, &len)| message(number + 1 + more, len));
        plans.push(std::iter::once(first).chain(others).collect());
        senders.push((sender, Log::default()));
    }
    let mut next = vec![0; count];
    let mut targets: Vec<Vec<u8>> = memory.iter().map(|memory| vec![0; memory.len()]).collect();
    let mut seen = std::collections::HashSet::new();
    let mut unread: Vec<(usize, RemoteKey)> = Vec::new();
    let mut read = 0;
    let start = Instant::now();
    while seen.len() < 4 * count || read < count {
        assert!(
            start.elapsed() < PATIENCE,
            "{} messages and {read} reads of {count} senders",
            seen.len()
        );
        for (at, (sender, log)) in senders.iter_mut().enumerate() {
            if let Some(bytes) = plans[at].get(next[at]) {
                let (header, payload) = bytes.split_at(HEADER_BYTES);
                // SAFETY: the plans outlive the lanes.
                let sent = unsafe { sender.send(PeerIndex::new(0), header, Piece::of(payload), 1) }
                    .expect("sending works");
                next[at] += usize::from(sent != Sent::Again);
            }
            sender.poll(log).expect("polling works");
            if at % 8 == 0 {
                receiver.poll();
            }
        }
        for bytes in receiver.log.messages.drain(..) {
            let number = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes")) as usize;
            assert!(seen.insert(number), "message {number} came twice");
            let (at, more) = ((number - 1000) / 4, (number - 1000) % 4);
            assert!(bytes == plans[at][more], "message {more} of sender {at} differs");
            if more == 0 {
                unread.push((at, RemoteKey(bytes[HEADER_BYTES..].to_vec())));
            }
        }
        unread.retain(|(at, key)| {
            let into = [Piece::of_mut(&mut targets[*at])];
            // SAFETY: the targets outlive the lanes.
            let sent = unsafe {
                receiver
                    .lane
                    .read(PeerIndex::new(*at as u32 + 1), key, 0, &into, *at as u64)
            };
            sent.expect("reading works") == Sent::Again
        });
        for (at, result) in receiver.log.completed.drain(..) {
            result.expect("reads succeed");
            assert!(
                targets[at as usize] == memory[at as usize],
                "memory of sender {at} differs"
            );
            read += 1;
        }
    }
    for (at, hand) in hands.iter_mut().enumerate().rev() {
        hand.say(&message(at, most - at)[most / 2..]);
    }
    receiver.poll_until("the other halves", |log| log.messages.len() == hands.len());
    let mut numbers: Vec<usize> = receiver
        .log
        .messages
        .iter()
        .map(|bytes| number_of(bytes))
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..hands.len()).collect::<Vec<_>>());
    drop(senders);
}

/// Bytes of a message without payload.
const LEAST: usize = Secret::BYTES + HEADER_BYTES;

/// Lengths of messages that fill a buffer up to each place near its end that makes a difference, and random ones.
fn lengths(buffer: usize, most: usize, seed: u64) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut left = buffer;
    let mut push = |left: &mut usize, len: usize| {
        lengths.push(len);
        *left -= len;
        if *left < most {
            *left = buffer;
        }
    };
    let rests = [
        0,
        1,
        LEAST,
        most / 2,
        most - 1,
        most,
        most + 1,
        most + LEAST,
        2 * most - 1,
    ];
    for rest in rests {
        // To a new buffer.
        while left != buffer {
            push(&mut left, most);
        }
        // The last one before the rest is the longest, and those before it share what there is in front of it.
        let before = buffer - rest - most;
        let count = before.div_ceil(most);
        for at in 0..count {
            push(&mut left, before / count + usize::from(at < before % count));
        }
        push(&mut left, most);
        // The longest one comes right behind.
        push(&mut left, most);
    }
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..100 {
        let len = match random.u8(..3) {
            0 => most - random.usize(..8),
            1 => LEAST + random.usize(..8),
            _ => random.usize(LEAST..=most),
        };
        push(&mut left, len);
    }
    lengths
}

/// All of them arrive, over a provider, into buffers that messages share and into buffers of their own.
fn all_lengths_arrive(provider: &str) {
    for shared in [true, false] {
        let mut pair = Pair::new([open(provider), open(provider)]);
        let most = Secret::BYTES + pair.lanes[0].limits().message;
        let buffer = Tuning::of(&pair.lanes[1].info).receive_bytes;
        if !shared {
            pair.lanes[1].receives.share_no_more();
        }
        let lengths = lengths(buffer, most, number_in("WEFT_TEST_SEED").unwrap_or(5) as u64);
        let messages: Vec<Vec<u8>> = lengths
            .iter()
            .enumerate()
            .map(|(at, len)| pattern(at, len - LEAST))
            .collect();
        let together = 16;
        let mut arrived = 0;
        let check = |pair: &mut Pair<OfiLane>, arrived: &mut usize| {
            for bytes in pair.logs[1].messages.drain(..) {
                // Those of a window come in any order where the provider keeps none.
                let first = *arrived / together * together;
                let window = first..(first + together).min(messages.len());
                assert!(
                    messages[window]
                        .iter()
                        .any(|sent| bytes[HEADER_BYTES..] == sent[..]),
                    "{provider}: message {arrived}, of {} bytes, differs",
                    bytes.len()
                );
                *arrived += 1;
            }
        };
        for (at, payload) in messages.iter().enumerate() {
            pair.send(0, payload, at as u64);
            if (at + 1) % together == 0 || at + 1 == messages.len() {
                pair.poll_until("messages", |pair| {
                    check(pair, &mut arrived);
                    arrived == at + 1
                });
            }
        }
        pair.poll_until("draining", |pair| pair.lanes[0].is_drained());
    }
}

#[test]
fn all_lengths_arrive_over_net() {
    all_lengths_arrive("net");
}

#[test]
fn all_lengths_arrive_over_tcp_rxm() {
    all_lengths_arrive("tcp;ofi_rxm");
}

#[test]
fn all_lengths_arrive_over_sockets() {
    all_lengths_arrive("sockets");
}

#[test]
fn all_lengths_arrive_over_udp_rxd() {
    all_lengths_arrive("udp;ofi_rxd");
}

#[test]
fn all_lengths_arrive_over_shm() {
    // libfabric 2.5.1 crashes in fi_cq_read when two endpoints of one process exchange a message above 192 bytes. There
    // tests/c/received.c has two processes.
    if crate::system::fabric::version().unwrap() < (2, 0) {
        all_lengths_arrive("shm");
    }
}
