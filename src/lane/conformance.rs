//! What every lane must do, as tests over two lanes of one process that any implementation can run.
//!
//! A lane's own tests call [`run`] with a function that makes a pair of lanes, not yet connected. Every wait is bounded
//! by a deadline, so a lane that loses something fails rather than hangs.

mod one_sided;

use std::time::{Duration, Instant};

use super::{Lane, RemoteKey, Sent, Sink};
use crate::base::error::{Error, Result};
use crate::data::pieces::Piece;
use crate::identity::{PeerIndex, ProcessName};

/// How long any single step may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a lane reported.
#[derive(Default)]
pub(crate) struct Log {
    pub messages: Vec<Vec<u8>>,
    /// How many have come, including those that a test has taken out.
    pub arrived: usize,
    pub completed: Vec<(u64, Result<()>)>,
    pub lost: Vec<(PeerIndex, Error)>,
}

impl Sink for Log {
    fn message(&mut self, bytes: &[u8]) {
        self.messages.push(bytes.to_vec());
        self.arrived += 1;
    }
    fn completed(&mut self, token: u64, result: Result<()>) {
        self.completed.push((token, result));
    }
    fn sender_lost(&mut self, sender: ProcessName, error: Error) {
        self.lost.push((PeerIndex::of_rank(sender.rank), error));
    }
    fn peer_lost(&mut self, peer: PeerIndex, error: Error) {
        self.lost.push((peer, error));
    }
}

/// Two lanes that know each other: process 0 and process 1.
pub(crate) struct Pair<L> {
    pub lanes: [L; 2],
    pub logs: [Log; 2],
    /// How many messages each has sent.
    sent: [usize; 2],
    /// Whether the second one is in another process, and has a copy of the memory that it is given.
    apart: bool,
}

const HEADER: [u8; 40] = *b"a header of forty bytes, as the engine's";

/// Bytes that depend on their offset and their message.
pub(crate) fn pattern(seed: usize, len: usize) -> Vec<u8> {
    // From then on the same comes again; to compute each byte takes long in debug code.
    const PERIOD: usize = 1 << 16;
    let mut bytes: Vec<u8> = (0..len.min(PERIOD))
        .map(|at| (at.wrapping_mul(31) ^ (at >> 8).wrapping_mul(7) ^ seed.wrapping_mul(131)) as u8)
        .collect();
    while bytes.len() < len {
        bytes.extend_from_within(..bytes.len().min(len - bytes.len()));
    }
    bytes
}

impl<L: Lane> Pair<L> {
    pub(crate) fn new(mut lanes: [L; 2]) -> Pair<L> {
        let addresses = [lanes[0].address(), lanes[1].address()];
        lanes[0]
            .connect(PeerIndex::new(1), &addresses[1])
            .expect("the other lane's address is good");
        lanes[1]
            .connect(PeerIndex::new(0), &addresses[0])
            .expect("the other lane's address is good");
        Pair::unconnected(lanes)
    }

    /// Two lanes, not yet connected to each other.
    pub(crate) fn unconnected(lanes: [L; 2]) -> Pair<L> {
        Pair {
            lanes,
            logs: Default::default(),
            sent: [0, 0],
            apart: false,
        }
    }

    pub(crate) fn poll(&mut self) {
        for (lane, log) in self.lanes.iter_mut().zip(&mut self.logs) {
            lane.poll(log).expect("polling works");
        }
        if self.lanes[0].sleeps_early() {
            // The transport's own thread needs the core that a spinning test would keep.
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    pub(crate) fn poll_until(&mut self, what: &str, mut done: impl FnMut(&mut Pair<L>) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(
                start.elapsed() < PATIENCE,
                "{}: no end of {what}",
                self.lanes[0].name()
            );
            self.poll();
        }
    }

    /// Sends from lane `from`, polling while the lane returns [`Sent::Again`], or while as much is on its way as the other lane may leave waiting.
    pub(crate) fn send(&mut self, from: usize, payload: &[u8], token: u64) -> Sent {
        self.send_behind(from, &HEADER, payload, token)
    }

    fn send_behind(&mut self, from: usize, header: &[u8], payload: &[u8], token: u64) -> Sent {
        let start = Instant::now();
        let to = 1 - from;
        let most = self.lanes[to].limits().queue;
        self.poll_until("messages on their way", |pair| {
            pair.sent[from] < pair.logs[to].arrived.saturating_add(most)
        });
        loop {
            let to = PeerIndex::new(to as u32);
            // SAFETY: the tests keep payloads until their completion, or until the lanes are closed.
            match unsafe { self.lanes[from].send(to, header, Piece::of(payload), token) }
                .expect("sending works")
            {
                Sent::Again => self.poll(),
                other => {
                    self.sent[from] += 1;
                    return other;
                }
            }
            assert!(
                start.elapsed() < PATIENCE,
                "{}: sending says again forever",
                self.lanes[0].name()
            );
        }
    }

    fn read(&mut self, key: &RemoteKey, offset: u64, into: &mut [u8], token: u64) -> Sent {
        self.read_into(key, offset, &[Piece::of_mut(into)], token)
    }

    fn read_into(&mut self, key: &RemoteKey, offset: u64, into: &[Piece], token: u64) -> Sent {
        let start = Instant::now();
        loop {
            // SAFETY: the tests keep targets until the completion.
            let sent = unsafe { self.lanes[0].read(PeerIndex::new(1), key, offset, into, token) };
            match sent.expect("reading works") {
                Sent::Again => self.poll(),
                other => return other,
            }
            assert!(
                start.elapsed() < PATIENCE,
                "{}: reading says again forever",
                self.lanes[0].name()
            );
        }
    }

    fn drain(&mut self) {
        self.poll_until("draining", |pair| pair.lanes.iter().all(|lane| lane.is_drained()));
    }
}

/// Runs all tests. `make` returns two fresh lanes each time.
pub(crate) fn run<L: Lane>(make: impl FnMut() -> [L; 2]) {
    run_on(make, false);
}

/// The same, of lanes in other processes.
pub(crate) fn run_apart<L: Lane>(make: impl FnMut() -> [L; 2]) {
    run_on(make, true);
}

fn run_on<L: Lane>(mut make: impl FnMut() -> [L; 2], apart: bool) {
    let mut pair = Pair::new(make());
    pair.apart = apart;
    sizes(&mut pair);
    long_headers(&mut pair);
    packed(&mut pair);
    order(&mut pair);
    crossing(&mut pair);
    completions(&mut pair);
    if pair.lanes[0].limits().rma {
        reads(&mut pair);
        reads_into_pieces(&mut pair);
        if pair.lanes[1].limits().register_run < usize::MAX {
            reads_from_pieces(&mut pair);
        }
        bad_keys(&mut pair);
    }
    if pair.lanes[0].limits().write {
        one_sided::run(&mut pair);
    }
    bad_addresses(&mut pair);
    unknown_peer(&mut pair);
    pair.drain();
    drop(pair);
    close_while_busy(Pair::new(make()));
    let limits = make()[0].limits();
    if limits.write {
        let mut pair = Pair::new(make());
        pair.apart = apart;
        one_sided::stale_keys(pair);
    }
}

/// Sizes around every limit arrive whole, in both directions.
fn sizes<L: Lane>(pair: &mut Pair<L>) {
    let limits = pair.lanes[0].limits();
    let most = limits.message - HEADER.len();
    let mut sizes: Vec<usize> = (0..=300).step_by(7).collect();
    for edge in [limits.buffered - HEADER.len(), limits.eager, 4096, 16384, most] {
        sizes.extend(
            [edge.saturating_sub(1), edge, edge + 1]
                .iter()
                .filter(|size| **size <= most),
        );
    }
    for (seed, size) in sizes.into_iter().enumerate() {
        for from in 0..2 {
            let payload = pattern(seed, size);
            let sent = pair.send(from, &payload, 9);
            if HEADER.len() + size <= limits.buffered {
                assert_eq!(sent, Sent::Done, "{size} bytes are within `buffered`");
            }
            pair.poll_until("a message", |pair| {
                !pair.logs[1 - from].messages.is_empty()
                    && (sent == Sent::Done || !pair.logs[from].completed.is_empty())
            });
            let message = pair.logs[1 - from].messages.remove(0);
            assert_eq!(message[..HEADER.len()], HEADER);
            assert!(message[HEADER.len()..] == payload, "{size} bytes differ");
            if sent == Sent::Pending {
                assert_eq!(pair.logs[from].completed.remove(0), (9, Ok(())));
            }
            assert!(
                pair.logs[from].completed.is_empty(),
                "no completion but those of pending sends"
            );
        }
    }
}

/// Headers that are longer than others arrive whole, with payloads that the lane need not copy.
fn long_headers<L: Lane>(pair: &mut Pair<L>) {
    let limits = pair.lanes[0].limits();
    let header = pattern(1, limits.header);
    for (seed, longer) in [0, 1, 16, usize::MAX].into_iter().enumerate() {
        let header = &header[..limits.header.min(HEADER.len().saturating_add(longer))];
        for size in [limits.buffered + 1 - header.len(), limits.message - header.len()] {
            if header.len() + size > limits.message {
                continue;
            }
            let payload = pattern(seed, size);
            let sent = pair.send_behind(0, header, &payload, 9);
            pair.poll_until("a message", |pair| {
                !pair.logs[1].messages.is_empty()
                    && (sent == Sent::Done || !pair.logs[0].completed.is_empty())
            });
            let message = pair.logs[1].messages.remove(0);
            assert_eq!(&message[..header.len()], header);
            assert!(message[header.len()..] == payload, "{size} bytes differ");
            pair.logs[0].completed.clear();
        }
    }
}

/// Payloads that are written where the lane wants them arrive whole, and more of them than the lane has room for at once.
fn packed<L: Lane>(pair: &mut Pair<L>) {
    let most = pair.lanes[0].limits().buffered - HEADER.len();
    let sizes = [0, 1, 15, 16, 17, 100, 1000, most - 1, most];
    for number in 0..100 {
        let payload = pattern(number, sizes[number % sizes.len()].min(most));
        let start = Instant::now();
        loop {
            let sent = pair.lanes[0].send_packed(PeerIndex::new(1), &HEADER, payload.len(), &mut |into| {
                assert_eq!(into.len(), payload.len());
                into.fill_from(&payload[..]);
            });
            match sent.expect("sending works") {
                Sent::Done => break,
                Sent::Again => pair.poll(),
                Sent::Pending => panic!("{} bytes are within `buffered`", payload.len()),
            }
            assert!(
                start.elapsed() < PATIENCE,
                "{}: again forever",
                pair.lanes[0].name()
            );
        }
    }
    pair.poll_until("a hundred messages", |pair| pair.logs[1].messages.len() == 100);
    let messages = std::mem::take(&mut pair.logs[1].messages);
    if pair.lanes[0].limits().ordered {
        for (number, message) in messages.iter().enumerate() {
            let payload = pattern(number, sizes[number % sizes.len()].min(most));
            assert!(message[..HEADER.len()] == HEADER && message[HEADER.len()..] == payload);
        }
    }
}

/// Many messages of mixed sizes, as fast as the lane takes them, arrive once each; in order where it promises that.
fn order<L: Lane>(pair: &mut Pair<L>) {
    let limits = pair.lanes[0].limits();
    let most = limits.message - HEADER.len();
    let count = if pair.lanes[0].sleeps_early() { 1500 } else { 6000 };
    let size = |number: usize| match number % 10 {
        0 => most,
        1 => limits.buffered.min(most),
        2 | 3 => most.min(1000),
        _ => 8 + number % 40,
    };
    let payload = |number: usize| {
        let mut bytes = pattern(number, size(number).max(8));
        bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
        bytes
    };
    let mut kept = Vec::new();
    let mut next = 0;
    let check = |pair: &mut Pair<L>, next: &mut usize| {
        for message in pair.logs[1].messages.drain(..) {
            let body = &message[HEADER.len()..];
            let number = u64::from_le_bytes(body[..8].try_into().unwrap()) as usize;
            if limits.ordered {
                assert_eq!(number, *next, "messages arrive in order");
            }
            assert!(
                number < count && body == payload(number),
                "message {number} differs"
            );
            *next += 1;
        }
    };
    let mut pending = 0;
    for number in 0..count {
        let bytes = payload(number);
        if pair.send(0, &bytes, number as u64) == Sent::Pending {
            kept.push(bytes);
            pending += 1;
        }
        check(pair, &mut next);
    }
    pair.poll_until("all messages", |pair| {
        check(pair, &mut next);
        next == count && pair.logs[0].completed.len() == pending
    });
    assert!(pair.logs[0].completed.iter().all(|(_, result)| result.is_ok()));
    pair.logs[0].completed.clear();
}

/// Both sides send a lot at the same time.
fn crossing<L: Lane>(pair: &mut Pair<L>) {
    let most = pair.lanes[0].limits().message - HEADER.len();
    let payload = pattern(5, most);
    let count = 200;
    let mut pending = [0, 0];
    for _ in 0..count {
        for (from, pending) in pending.iter_mut().enumerate() {
            *pending += usize::from(pair.send(from, &payload, 1) == Sent::Pending);
        }
    }
    pair.poll_until("crossing messages", |pair| {
        (0..2).all(|side| {
            pair.logs[side].messages.len() == count && pair.logs[side].completed.len() == pending[side]
        })
    });
    for log in &mut pair.logs {
        assert!(
            log.messages
                .drain(..)
                .all(|message| message[HEADER.len()..] == payload)
        );
        log.completed.clear();
    }
}

/// Every pending send completes once, with its own token.
fn completions<L: Lane>(pair: &mut Pair<L>) {
    let payload = pattern(3, pair.lanes[0].limits().message - HEADER.len());
    let mut expected: Vec<u64> = Vec::new();
    for token in 1000..1100u64 {
        if pair.send(0, &payload, token) == Sent::Pending {
            expected.push(token);
        }
    }
    pair.poll_until("completions", |pair| {
        pair.logs[0].completed.len() >= expected.len() && pair.logs[1].messages.len() == 100
    });
    pair.drain();
    let mut tokens: Vec<u64> = pair.logs[0].completed.drain(..).map(|(token, _)| token).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, expected);
    pair.logs[1].messages.clear();
}

/// Remote reads of many sizes and offsets.
fn reads<L: Lane>(pair: &mut Pair<L>) {
    let source = pattern(77, 5 << 20);
    // SAFETY: `source` outlives the registration.
    let (region, key) = unsafe { pair.lanes[1].register(&[Piece::of(&source)]) }.expect("registering works");
    assert!(key.0.len() <= RemoteKey::MAX);
    for (offset, len) in [
        (0, 0),
        (0, 1),
        (3, 8),
        (4095, 4099),
        (1, 65536),
        (0, 1 << 20),
        (12345, 3 << 20),
        (0, 5 << 20),
    ] {
        let mut into = vec![0xee; len];
        let sent = pair.read(&key, offset as u64, &mut into, 42);
        if sent == Sent::Pending {
            pair.poll_until("a read", |pair| !pair.logs[0].completed.is_empty());
            assert_eq!(pair.logs[0].completed.remove(0), (42, Ok(())));
        }
        assert!(
            into == source[offset..offset + len],
            "{len} bytes at {offset} differ"
        );
        assert!(pair.logs[0].completed.is_empty(), "one completion for one read");
    }
    // Several at once, ended in any order.
    let mut targets: Vec<Vec<u8>> = (0..20).map(|_| vec![0; 100_000]).collect();
    let mut pending = 0;
    for (number, target) in targets.iter_mut().enumerate() {
        pending += usize::from(pair.read(&key, number as u64 * 1000, target, number as u64) == Sent::Pending);
    }
    pair.poll_until("twenty reads", |pair| pair.logs[0].completed.len() == pending);
    for (_, result) in pair.logs[0].completed.drain(..) {
        result.expect("reads succeed");
    }
    for (number, target) in targets.iter().enumerate() {
        assert!(target[..] == source[number * 1000..number * 1000 + 100_000]);
    }
    // Beyond the end.
    let mut into = [0u8; 16];
    let len = source.len() as u64;
    for offset in [len - 15, len, u64::MAX - 3] {
        // SAFETY: `into` lives on; the call is refused anyway.
        let sent =
            unsafe { pair.lanes[0].read(PeerIndex::new(1), &key, offset, &[Piece::of_mut(&mut into)], 1) };
        assert!(sent.is_err(), "a read at {offset} of {len} bytes is refused");
    }
    pair.lanes[1].deregister(region);
    pair.lanes[1].deregister(region);
    pair.drain();
}

/// Pieces of a buffer, with lengths from the list in turn and gaps between, the pieces at odd positions before those at
/// even ones: what comes first in the data need not come first in memory.
fn scattered(buffer: &mut [u8], lengths: &[usize], count: usize) -> Vec<Piece> {
    let mut rest = buffer;
    let mut pieces = Vec::new();
    for index in 0..count {
        let (piece, after) = rest.split_at_mut(lengths[index % lengths.len()]);
        pieces.push(Piece::of_mut(piece));
        rest = &mut after[1 + index % 3..];
    }
    let odd = pieces.iter().skip(1).step_by(2);
    odd.chain(pieces.iter().step_by(2)).copied().collect()
}

/// The bytes of all pieces, which lie in `buffer`.
fn gathered(buffer: &[u8], pieces: &[Piece]) -> Vec<u8> {
    let base = buffer.as_ptr() as usize;
    let range = |piece: &Piece| piece.address as usize - base..piece.address as usize - base + piece.len;
    let pieces: Vec<&[u8]> = pieces.iter().map(|piece| &buffer[range(piece)]).collect();
    pieces.concat()
}

/// Lengths of pieces, and how many there are: few and many, short, long, and both.
const PIECES: [(&[usize], usize); 7] = [
    (&[1], 2),
    (&[5], 1000),
    (&[4096], 300),
    (&[100_000, 1, 7], 12),
    (&[300, 70_000, 8, 8, 8], 50),
    (&[1 << 20], 3),
    (&[513, 511], 2049),
];

/// One remote read into several pieces of memory; what lies between them is not touched.
fn reads_into_pieces<L: Lane>(pair: &mut Pair<L>) {
    let source = pattern(78, 4 << 20);
    // SAFETY: `source` outlives the registration.
    let (region, key) = unsafe { pair.lanes[1].register(&[Piece::of(&source)]) }.expect("registering works");
    for (lengths, count) in PIECES {
        for offset in [0, 4097] {
            let mut buffer = vec![0xee; 4 << 20];
            let pieces = scattered(&mut buffer, lengths, count);
            let len: usize = pieces.iter().map(|piece| piece.len).sum();
            if pair.read_into(&key, offset as u64, &pieces, 43) == Sent::Pending {
                pair.poll_until("a read into pieces", |pair| !pair.logs[0].completed.is_empty());
                assert_eq!(pair.logs[0].completed.remove(0), (43, Ok(())));
            }
            assert!(pair.logs[0].completed.is_empty(), "one completion for one read");
            assert!(
                gathered(&buffer, &pieces) == source[offset..offset + len],
                "{count} pieces of {lengths:?} differ"
            );
            for piece in &pieces {
                let start = piece.address as usize - buffer.as_ptr() as usize;
                buffer[start..start + piece.len].fill(0xee);
            }
            assert!(buffer == vec![0xee; buffer.len()], "a gap was written to");
        }
    }
    // More at once than there are operations for.
    let mut buffers: Vec<Vec<u8>> = (0..30).map(|_| vec![0; 200_000]).collect();
    let mut pending = 0;
    let targets: Vec<Vec<Piece>> = buffers
        .iter_mut()
        .map(|buffer| scattered(buffer, &[1000, 31], 300))
        .collect();
    for (number, pieces) in targets.iter().enumerate() {
        pending +=
            usize::from(pair.read_into(&key, number as u64 * 1000, pieces, number as u64) == Sent::Pending);
    }
    pair.poll_until("thirty reads", |pair| pair.logs[0].completed.len() == pending);
    for (_, result) in pair.logs[0].completed.drain(..) {
        result.expect("reads succeed");
    }
    for (number, (buffer, pieces)) in buffers.iter().zip(&targets).enumerate() {
        let len: usize = pieces.iter().map(|piece| piece.len).sum();
        assert!(gathered(buffer, pieces) == source[number * 1000..number * 1000 + len]);
    }
    // Beyond the end, though not by the first piece.
    let mut into = [0u8; 16];
    let (one, two) = into.split_at_mut(8);
    let pieces = [Piece::of_mut(one), Piece::of_mut(two)];
    // SAFETY: `into` lives on; the call is refused anyway.
    let sent = unsafe { pair.lanes[0].read(PeerIndex::new(1), &key, source.len() as u64 - 15, &pieces, 1) };
    assert!(sent.is_err(), "a read beyond the end is refused");
    pair.lanes[1].deregister(region);
    pair.drain();
}

/// Memory that is registered in several pieces is read from any place to any other, into one piece and into several.
fn reads_from_pieces<L: Lane>(pair: &mut Pair<L>) {
    let mut source = pattern(79, 4 << 20);
    for (lengths, count) in PIECES {
        let registered = scattered(&mut source, lengths, count);
        let data = gathered(&source, &registered);
        // SAFETY: `source` outlives the registration.
        let (region, key) = unsafe { pair.lanes[1].register(&registered) }.expect("registering works");
        assert!(key.0.len() <= RemoteKey::MAX);
        let end = data.len();
        let quarter = end / 4;
        // Whole, in four consecutive reads, then from other offsets, also lower ones.
        let ranges = [
            0..end,
            0..quarter,
            quarter..2 * quarter,
            2 * quarter..3 * quarter,
            3 * quarter..end,
            end / 2..end,
            end / 3..end / 2,
            end - 1..end,
        ];
        for (number, range) in ranges.into_iter().enumerate() {
            let mut contiguous = vec![0; range.len()];
            let mut buffer = vec![0xee; 8 << 20];
            let pieces = match number % 2 {
                0 => vec![Piece::of_mut(&mut contiguous)],
                _ => {
                    // The last piece takes what is left over.
                    let mut pieces = scattered(&mut buffer, &[777], range.len() / 777 + 2);
                    let mut left = range.len();
                    for piece in &mut pieces {
                        piece.len = piece.len.min(left);
                        left -= piece.len;
                    }
                    pieces.retain(|piece| piece.len > 0);
                    pieces
                }
            };
            if pieces.iter().all(|piece| piece.len == 0) {
                continue;
            }
            if pair.read_into(&key, range.start as u64, &pieces, 44) == Sent::Pending {
                pair.poll_until("a read from pieces", |pair| !pair.logs[0].completed.is_empty());
                assert_eq!(pair.logs[0].completed.remove(0), (44, Ok(())));
            }
            let got = match number % 2 {
                0 => contiguous,
                _ => gathered(&buffer, &pieces),
            };
            assert!(
                got == data[range.clone()],
                "{range:?} of {count} pieces of {lengths:?} differ"
            );
        }
        let mut into = [0u8; 2];
        // SAFETY: `into` lives on; the call is refused anyway.
        let sent = unsafe {
            pair.lanes[0].read(
                PeerIndex::new(1),
                &key,
                end as u64 - 1,
                &[Piece::of_mut(&mut into)],
                1,
            )
        };
        assert!(sent.is_err(), "a read beyond the end is refused");
        pair.lanes[1].deregister(region);
        pair.drain();
    }
}

/// Invalid keys are errors.
fn bad_keys<L: Lane>(pair: &mut Pair<L>) {
    let mut into = [0u8; 16];
    for bytes in [vec![], vec![0], vec![0xff; 24], vec![0xff; 64], vec![0; 23]] {
        // SAFETY: `into` lives on; the call is refused.
        let sent = unsafe {
            pair.lanes[0].read(
                PeerIndex::new(1),
                &RemoteKey(bytes.clone()),
                0,
                &[Piece::of_mut(&mut into)],
                1,
            )
        };
        assert!(sent.is_err(), "the key {bytes:?} is refused");
    }
}

/// Invalid addresses are errors, and change nothing.
fn bad_addresses<L: Lane>(pair: &mut Pair<L>) {
    let good = pair.lanes[1].address();
    let mut broken = vec![vec![], vec![0], vec![0xff; 8], vec![0xff; 300]];
    for cut in 0..good.len() {
        broken.push(good[..cut].to_vec());
    }
    for byte in 0..good.len().min(6) {
        let mut bytes = good.clone();
        bytes[byte] ^= 0x55;
        broken.push(bytes);
    }
    for bytes in broken {
        assert!(
            pair.lanes[0].connect(PeerIndex::new(7), &bytes).is_err(),
            "the address {bytes:02x?} is refused"
        );
    }
    let payload = pattern(1, 10);
    pair.send(0, &payload, 1);
    pair.poll_until("a message after bad addresses", |pair| {
        !pair.logs[1].messages.is_empty()
    });
    pair.logs[1].messages.clear();
}

/// A peer that was never connected is an error.
fn unknown_peer<L: Lane>(pair: &mut Pair<L>) {
    for len in [0, 900, pair.lanes[0].limits().message - HEADER.len()] {
        let payload = vec![0; len];
        // SAFETY: `payload` lives on; the call is refused.
        assert!(unsafe { pair.lanes[0].send(PeerIndex::new(99), &HEADER, Piece::of(&payload), 1) }.is_err());
    }
}

/// Closing with sends and reads under way neither hangs nor crashes.
fn close_while_busy<L: Lane>(mut pair: Pair<L>) {
    let payload = pattern(8, pair.lanes[0].limits().message - HEADER.len());
    let mut target = vec![0u8; 1 << 20];
    pair.send(0, &payload, 1);
    pair.poll_until("a first message", |pair| !pair.logs[1].messages.is_empty());
    for token in 0..50 {
        // SAFETY: the payload outlives the lanes.
        let _ = unsafe { pair.lanes[0].send(PeerIndex::new(1), &HEADER, Piece::of(&payload), token) };
    }
    if pair.lanes[0].limits().rma {
        // SAFETY: both buffers outlive the lanes.
        unsafe {
            let (_, key) = pair.lanes[1]
                .register(&[Piece::of(&payload)])
                .expect("registering works");
            let some = &mut target[..payload.len()];
            let _ = pair.lanes[0].read(PeerIndex::new(1), &key, 0, &[Piece::of_mut(some)], 1);
        }
    }
    if pair.lanes[0].limits().write {
        // SAFETY: both buffers outlive the lanes.
        unsafe {
            let (_, key) = pair.lanes[1]
                .expose(Piece::of_mut(&mut target))
                .expect("exposing works");
            for token in 0..20 {
                let _ = pair.lanes[0].write(PeerIndex::new(1), &key, 0, &[Piece::of(&payload)], token);
            }
        }
    }
    drop(pair);
    drop((payload, target));
}
