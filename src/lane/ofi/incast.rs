//! Tests: many connections into one endpoint of libfabric's TCP provider, with messages of which only a part has arrived, some
//! of which never arrive whole.
//!
//! The gate has what takes seconds. `WEFT_TEST_INCAST` says how many strangers hang up instead (`ci/soak.d/incast`).

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::*;
use crate::lane::conformance::{Log, pattern};

const PATIENCE: Duration = Duration::from_secs(60);

fn open() -> OfiLane {
    let settings =
        Settings::read(|name| (name == "WEFT_PROVIDER").then(|| "net".to_string())).expect("good settings");
    OfiLane::open(&settings, true, true, &Ledger::default()).expect("the provider is there")
}

/// As many descriptors as the system allows.
fn raise_descriptors() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("limits can be read");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("the soft limit can be raised");
}

/// A connection that is made by hand, in the words of libfabric's TCP provider (prov/tcp/src/xnet_proto.h), so that messages can be
/// sent by halves.
struct Hand(TcpStream);

/// Bytes of a request for a connection, and of its answer.
const REQUEST: usize = 40;

impl Hand {
    /// Asks for a connection.
    fn knock(address: SocketAddr) -> Hand {
        let mut socket = TcpStream::connect(address).expect("somebody listens");
        // Whoever calls is known by the port at which he says that he listens.
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

    /// Many of them, each of which is let in.
    fn many(count: usize, at: &mut Receiver) -> Vec<Hand> {
        let mut hands = Vec::new();
        while hands.len() < count {
            // No more at once than wait at a listening socket anywhere.
            let first = hands.len();
            hands.extend((0..100.min(count - first)).map(|_| Hand::knock(at.address())));
            for hand in &mut hands[first..] {
                let mut answer = [0; REQUEST];
                let mut got = 0;
                at.poll_until("an answer to a request", |_| {
                    match hand.0.read(&mut answer[got..]) {
                        Ok(0) => panic!("a request was refused"),
                        Ok(more) => got += more,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
                    }
                    got == answer.len()
                });
                assert_eq!(answer[..2], [3, 1], "a request is accepted");
            }
        }
        hands
    }

    /// Says that a message of `len` bytes follows.
    fn announce(&mut self, len: usize) {
        let mut header = [0; 16];
        // The version, a plain message, and the bytes of this header.
        (header[0], header[6]) = (3, 16);
        header[8..].copy_from_slice(&(16 + len as u64).to_ne_bytes());
        self.say(&header);
    }

    fn say(&mut self, bytes: &[u8]) {
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
    fn new() -> Receiver {
        Receiver {
            lane: open(),
            log: Log::default(),
        }
    }

    fn address(&self) -> SocketAddr {
        fabric::socket_address(&self.lane.own_name).expect("an IP address")
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

/// A message that tells its number in its first bytes.
fn message(number: usize, len: usize) -> Vec<u8> {
    let mut bytes = pattern(number, len);
    let told = (number as u32).to_le_bytes();
    let len = bytes.len().min(4);
    bytes[..len].copy_from_slice(&told[..len]);
    bytes
}

/// Which message that is, after a look at each byte.
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
    let mut receiver = Receiver::new();
    let most = receiver.lane.limits().message;
    // 300 hold a place each, for longer than all others take: of the longest messages some three fit into a buffer.
    let mut hands = Hand::many(301, &mut receiver);
    let mut friend = hands.pop().expect("one of them");
    let lens: Vec<usize> = (0..hands.len())
        .map(|at| [most, most - 1, 4096, most / 2, 41][at % 5])
        .collect();
    for (at, hand) in hands.iter_mut().enumerate() {
        hand.announce(lens[at]);
        hand.say(&message(at, lens[at])[..lens[at] / 2]);
        // In between whole messages go everywhere that is free, or should be.
        for round in 0..2 {
            let number = 1000 + at * 2 + round;
            friend.announce(most - at);
            friend.say(&message(number, most - at));
            receiver.poll_until("a whole message", |log| {
                log.messages.pop().is_some_and(|bytes| {
                    assert_eq!(number_of(&bytes), number);
                    true
                })
            });
        }
    }
    // The other halves, those of the first last.
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
fn strangers_who_hang_up_in_the_middle_of_a_message_cost_no_buffers() {
    raise_descriptors();
    let strangers = std::env::var("WEFT_TEST_INCAST").map_or(250, |text| text.parse().expect("a number"));
    let mut receiver = Receiver::new();
    let most = receiver.lane.limits().message;
    let mut friend = Hand::many(1, &mut receiver).pop().expect("one");
    for number in 0..strangers {
        let mut stranger = Hand::many(1, &mut receiver).pop().expect("one");
        let len = [most, 100, most - 1, 1 << 30, 5000][number % 5];
        stranger.announce(len);
        stranger.say(&pattern(number, (len / 2).min(most / 2)));
        receiver.drain();
        // A friend's message is behind it, before and after the end of the connection.
        for round in 0..2 {
            let number = 2 * number + round;
            let len = 100 + number * 517 % (most - 100);
            friend.announce(len);
            friend.say(&message(number, len));
            receiver.poll_until("a friend's message", |log| {
                log.messages.pop().is_some_and(|bytes| {
                    assert_eq!(number_of(&bytes), number);
                    true
                })
            });
            if round == 0 {
                let _ = stranger.0.shutdown(std::net::Shutdown::Both);
                receiver.drain();
            }
        }
    }
    // The first one costs the buffers that were shared then; no later one costs any.
    let count = receiver.lane.receives.count();
    assert!(count <= 48, "{count} buffers after {strangers} strangers");
}
