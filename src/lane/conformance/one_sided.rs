//! The same for writes of remote memory and atomic operations on it.

use super::*;
use crate::lane::Region;
use crate::lane::atomic::{AtomicOp, Form, Number, Update};

const ORIGIN: usize = 0;
const TARGET: PeerIndex = PeerIndex::new(1);

/// Memory that the second lane has exposed.
struct Exposed {
    /// Aligned for all elements.
    words: Vec<u64>,
    region: Region,
    key: RemoteKey,
}

impl Exposed {
    fn of<L: Lane>(pair: &mut Pair<L>, bytes: &[u8]) -> Exposed {
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        let memory = Piece {
            len: bytes.len(),
            ..Piece::of_mut(as_bytes(&mut words))
        };
        as_bytes(&mut words)[..bytes.len()].copy_from_slice(bytes);
        // SAFETY: the words live until the lane is closed or the registration has ended, and are looked at by `Exposed::bytes` alone.
        let (region, key) = unsafe { pair.lanes[1].expose(memory) }.expect("exposing works");
        assert!(key.0.len() <= RemoteKey::MAX);
        Exposed { words, region, key }
    }

    /// What is there now.
    fn bytes<L: Lane>(&self, pair: &mut Pair<L>, len: usize) -> Vec<u8> {
        if !pair.apart {
            let words = self.words.as_ptr().cast::<u8>();
            // SAFETY: within the words; nothing writes to them now. Read one by one, as the compiler has not seen who wrote them.
            return (0..len)
                .map(|at| unsafe { words.add(at).read_volatile() })
                .collect();
        }
        let mut bytes = vec![0; len];
        if pair.read(&self.key, 0, &mut bytes, 77) == Sent::Pending {
            pair.poll_until("a read", |pair| !pair.logs[ORIGIN].completed.is_empty());
            assert_eq!(pair.logs[ORIGIN].completed.remove(0), (77, Ok(())));
        }
        bytes
    }

    fn conceal<L: Lane>(self, pair: &mut Pair<L>) {
        pair.lanes[1].deregister(self.region);
        pair.drain();
    }
}

fn as_bytes(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: the same memory, whose bytes may have any value.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

impl<L: Lane> Pair<L> {
    /// Begins something, polling while the lane says [`Sent::Again`].
    fn begin(&mut self, mut begin: impl FnMut(&mut L) -> Result<Sent>) -> Result<Sent> {
        let start = Instant::now();
        loop {
            match begin(&mut self.lanes[ORIGIN])? {
                Sent::Again => self.poll(),
                other => return Ok(other),
            }
            assert!(
                start.elapsed() < PATIENCE,
                "{}: again forever",
                self.lanes[ORIGIN].name()
            );
        }
    }

    fn write(&mut self, key: &RemoteKey, offset: u64, from: &[Piece], token: u64) -> Result<Sent> {
        // SAFETY: the tests keep what they write until the completion.
        self.begin(|lane| unsafe { lane.write(TARGET, key, offset, from, token) })
    }

    fn atomic(&mut self, key: &RemoteKey, offset: u64, update: &Update, token: u64) -> Result<Sent> {
        // SAFETY: the tests keep the result until the completion.
        self.begin(|lane| unsafe { lane.atomic(TARGET, key, offset, update, token) })
    }

    /// Waits for the end of the only operation. The target polls before the origin: what the origin's poll reports is done.
    fn outcome(&mut self, sent: Result<Sent>, token: u64) -> Result<()> {
        if sent? == Sent::Done {
            return Ok(());
        }
        let start = Instant::now();
        while self.logs[ORIGIN].completed.is_empty() {
            for side in [1, ORIGIN] {
                self.lanes[side]
                    .poll(&mut self.logs[side])
                    .expect("polling works");
            }
            if self.lanes[ORIGIN].sleeps_early() {
                std::thread::sleep(Duration::from_micros(50));
            }
            assert!(
                start.elapsed() < PATIENCE,
                "{}: no end of an operation",
                self.lanes[ORIGIN].name()
            );
        }
        let (ended, result) = self.logs[ORIGIN].completed.remove(0);
        assert_eq!(ended, token);
        assert!(
            self.logs[ORIGIN].completed.is_empty(),
            "one completion for one operation"
        );
        result
    }

    fn write_and_wait(&mut self, key: &RemoteKey, offset: usize, bytes: &[u8]) -> Result<()> {
        let sent = self.write(key, offset as u64, &[Piece::of(bytes)], 31);
        self.outcome(sent, 31)
    }

    /// A message still comes through, in both directions.
    fn is_well(&mut self) {
        for from in 0..2 {
            let payload = pattern(from, 10);
            self.send(from, &payload, 1);
            self.poll_until("a message", |pair| !pair.logs[1 - from].messages.is_empty());
            assert_eq!(
                self.logs[1 - from].messages.remove(0)[HEADER.len()..],
                payload[..]
            );
            assert!(self.logs[from].lost.is_empty(), "{:?}", self.logs[from].lost);
        }
    }
}

pub(super) fn run<L: Lane>(pair: &mut Pair<L>) {
    writes(pair);
    writes_from_pieces(pair);
    many_writes(pair);
    beyond_the_end(pair);
    for op in AtomicOp::ALL {
        atomics(pair, op);
    }
    counting(pair);
}

/// Writes of many sizes and offsets; each is there, whole, when it has ended, and changes nothing beside it.
fn writes<L: Lane>(pair: &mut Pair<L>) {
    const LEN: usize = 3 << 20;
    let mut expected = pattern(5, LEN);
    let target = Exposed::of(pair, &expected);
    let cases = [
        (0, 0),
        (LEN, 0),
        (0, 1),
        (3, 8),
        (4095, 4099),
        (1, 16383),
        (7, 16384),
        (1, 65536),
        (12345, 1 << 20),
        (0, LEN),
        (LEN - 1, 1),
    ];
    for (seed, (offset, len)) in cases.into_iter().enumerate() {
        let bytes = pattern(100 + seed, len);
        pair.write_and_wait(&target.key, offset, &bytes)
            .expect("writing works");
        expected[offset..offset + len].copy_from_slice(&bytes);
        assert!(
            target.bytes(pair, LEN) == expected,
            "{len} bytes at {offset} differ"
        );
        if !pair.apart {
            let mut back = vec![0; len];
            if pair.read(&target.key, offset as u64, &mut back, 3) == Sent::Pending {
                pair.poll_until("a read", |pair| !pair.logs[ORIGIN].completed.is_empty());
                assert_eq!(pair.logs[ORIGIN].completed.remove(0), (3, Ok(())));
            }
            assert!(back == bytes, "what was written is read");
        }
    }
    target.conceal(pair);
}

/// One write of several pieces of memory.
fn writes_from_pieces<L: Lane>(pair: &mut Pair<L>) {
    let mut source = pattern(8, 4 << 20);
    for (lengths, count) in PIECES {
        let pieces = scattered(&mut source, lengths, count);
        let bytes = gathered(&source, &pieces);
        let len = bytes.len() + 100;
        let target = Exposed::of(pair, &vec![0xee; len]);
        let sent = pair.write(&target.key, 50, &pieces, 9);
        pair.outcome(sent, 9).expect("writing works");
        let got = target.bytes(pair, len);
        assert!(got[50..len - 50] == bytes, "{count} pieces of {lengths:?} differ");
        assert!(got[..50].iter().chain(&got[len - 50..]).all(|&byte| byte == 0xee));
        target.conceal(pair);
    }
}

/// More writes at once than there are operations for, of all sizes and with messages in between.
fn many_writes<L: Lane>(pair: &mut Pair<L>) {
    const COUNT: usize = 700;
    let size = |number: usize| match number % 7 {
        0 => 40_000,
        1 => 17_000,
        2 => 1,
        _ => 8 * (number % 50),
    };
    let starts: Vec<usize> = (0..COUNT)
        .scan(0, |end, number| {
            let start = *end;
            *end += size(number);
            Some(start)
        })
        .collect();
    let len = starts[COUNT - 1] + size(COUNT - 1);
    let target = Exposed::of(pair, &vec![0; len]);
    let sources: Vec<Vec<u8>> = (0..COUNT).map(|number| pattern(number, size(number))).collect();
    let mut pending = 0;
    for number in 0..COUNT {
        let (source, start) = (&sources[number], starts[number] as u64);
        let sent = if number % 3 == 0 && source.len() > 1 {
            let (one, two) = source.split_at(source.len() / 2);
            pair.write(
                &target.key,
                start,
                &[Piece::of(one), Piece::of(two)],
                number as u64,
            )
        } else {
            pair.write(&target.key, start, &[Piece::of(source)], number as u64)
        };
        pending += usize::from(sent.expect("writing works") == Sent::Pending);
        if number % 50 == 0 {
            pair.send(ORIGIN, &[number as u8; 8], 10_000);
        }
    }
    pair.poll_until("many writes", |pair| {
        pair.logs[ORIGIN].completed.len() == pending && pair.logs[1].messages.len() == COUNT.div_ceil(50)
    });
    let mut tokens: Vec<u64> = (pair.logs[ORIGIN].completed.drain(..))
        .map(|(token, result)| {
            result.expect("writes succeed");
            token
        })
        .collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), pending, "each completes once");
    pair.logs[1].messages.clear();
    assert!(target.bytes(pair, len) == sources.concat());
    target.conceal(pair);
}

/// What does not lie in exposed memory is refused, and nothing else happens.
fn beyond_the_end<L: Lane>(pair: &mut Pair<L>) {
    const LEN: usize = 1000;
    let before = pattern(1, LEN);
    let target = Exposed::of(pair, &before);
    let bytes = [0xaa; 16];
    for offset in [LEN as u64 - 15, LEN as u64, 1 << 40, u64::MAX - 3] {
        let sent = pair.write(&target.key, offset, &[Piece::of(&bytes)], 5);
        assert!(
            pair.outcome(sent, 5).is_err(),
            "a write at {offset} of {LEN} bytes"
        );
    }
    for key in [vec![], vec![0], vec![0xff; 24], vec![0xff; 64], vec![0; 23]] {
        let sent = pair.write(&RemoteKey(key.clone()), 0, &[Piece::of(&bytes)], 5);
        assert!(pair.outcome(sent, 5).is_err(), "the key {key:?}");
    }
    // SAFETY: the bytes live on; the call is refused.
    let sent =
        unsafe { pair.lanes[ORIGIN].write(PeerIndex::new(99), &target.key, 0, &[Piece::of(&bytes)], 5) };
    // A lane to oneself knows no peers.
    assert!(sent.is_err() || pair.lanes[ORIGIN].address().is_empty());
    assert!(target.bytes(pair, LEN) == before || pair.lanes[ORIGIN].address().is_empty());
    pair.is_well();
    target.conceal(pair);
}

/// After an end of their registration, keys are refused where the lane can know it, and nothing is written.
pub(super) fn stale_keys<L: Lane>(mut pair: Pair<L>) {
    let pair = &mut pair;
    let name = pair.lanes[ORIGIN].name();
    if matches!(name.as_str(), "ofi/shm" | "ofi/udp;ofi_rxd") {
        // They never report the end of such a write.
        return;
    }
    pair.is_well();
    let target = Exposed::of(pair, &[1; 16]);
    pair.write_and_wait(&target.key, 0, &[2; 8])
        .expect("writing works");
    pair.lanes[1].deregister(target.region);
    let refused = pair.write_and_wait(&target.key, 8, &[3; 8]).is_err();
    // The lane shm has the kernel write wherever memory is.
    assert_eq!(refused, name != "shm", "{name}");
    // A TCP provider closes the connection. ofi_rxm (1.17) then loses the messages of the other side.
    if name == "ofi/tcp;ofi_rxm" {
        return;
    }
    if refused && !pair.apart {
        assert_eq!(target.bytes(pair, 16), [[2; 8], [1; 8]].concat());
    }
    pair.is_well();
}

/// A small number as an element, so that no arithmetic rounds.
fn element(number: Number, value: i64) -> u64 {
    match number {
        Number::F32 => (value as f32).to_bits().into(),
        Number::F64 => (value as f64).to_bits(),
        _ => value as u64 & (u64::MAX >> (64 - 8 * number.size())),
    }
}

fn encoded(elements: &[u64], number: Number) -> Vec<u8> {
    let encode = |element: &u64| element.to_le_bytes()[..number.size()].to_vec();
    elements.iter().flat_map(encode).collect()
}

/// Each form of an operation on each type, with one element, a few, and as many as one call takes.
fn atomics<L: Lane>(pair: &mut Pair<L>, op: AtomicOp) {
    let random = &mut fastrand::Rng::with_seed(op as u64);
    for form in Form::ALL {
        for number in Number::ALL {
            let most = pair.lanes[ORIGIN].atomics().count(form, op, number);
            if most == 0 {
                continue;
            }
            for count in [1, 3.min(most), most] {
                let mut some =
                    || -> Vec<u64> { (0..count).map(|_| element(number, random.i64(-8..8))).collect() };
                let (before, operand, compare) = (some(), some(), some());
                let start = 16;
                let all = [&[0xee; 16][..], &encoded(&before, number), &[0xee; 16]].concat();
                let target = Exposed::of(pair, &all);
                let (operands, comparands) = (encoded(&operand, number), encoded(&compare, number));
                let len = operands.len();
                let mut result = vec![0x55; len];
                let update = Update {
                    op,
                    number,
                    operand: match op {
                        AtomicOp::Read => Piece::EMPTY,
                        _ => Piece::of(&operands),
                    },
                    compare: match form {
                        Form::Compare => Piece::of(&comparands),
                        _ => Piece::EMPTY,
                    },
                    result: match form {
                        Form::Update => Piece::EMPTY,
                        _ => Piece::of_mut(&mut result),
                    },
                };
                assert_eq!(update.form(), form);
                let what = format!("{op:?} of {count} {number:?} ({form:?})");
                let sent = pair.atomic(&target.key, start as u64, &update, 6);
                pair.outcome(sent, 6)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                let got = target.bytes(pair, all.len());
                let expected: Vec<u64> = (0..count)
                    .map(|at| number.combined(op, before[at], operand[at], compare[at]))
                    .collect();
                assert_eq!(
                    got[start..start + len],
                    encoded(&expected, number),
                    "{what}: {before:?} and {operand:?}"
                );
                assert!(
                    got[..start]
                        .iter()
                        .chain(&got[start + len..])
                        .all(|&byte| byte == 0xee)
                );
                if form != Form::Update {
                    assert_eq!(result, encoded(&before, number), "{what}: what was there before");
                }
                // One more than one call takes, and what lies beyond the end.
                let beyond = pair.atomic(&target.key, all.len() as u64, &update, 6);
                assert!(pair.outcome(beyond, 6).is_err(), "{what}");
                target.conceal(pair);
            }
        }
    }
}

/// Many additions at once: each finds another number.
fn counting<L: Lane>(pair: &mut Pair<L>) {
    let table = pair.lanes[ORIGIN].atomics();
    if table.count(Form::Fetch, AtomicOp::Sum, Number::U64) == 0 {
        return;
    }
    const COUNT: usize = 800;
    let target = Exposed::of(pair, &[0; 16]);
    let mut results = vec![[0u8; 8]; COUNT];
    let one = 1u64.to_le_bytes();
    let mut pending = 0;
    for (number, result) in results.iter_mut().enumerate() {
        let update = Update {
            op: AtomicOp::Sum,
            number: Number::U64,
            operand: Piece::of(&one),
            compare: Piece::EMPTY,
            result: Piece::of_mut(result),
        };
        let sent = pair.atomic(&target.key, 8, &update, number as u64);
        pending += usize::from(sent.expect("there is that operation") == Sent::Pending);
    }
    pair.poll_until("additions", |pair| pair.logs[ORIGIN].completed.len() == pending);
    for (_, result) in pair.logs[ORIGIN].completed.drain(..) {
        result.expect("additions succeed");
    }
    let mut found: Vec<u64> = results.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    found.sort_unstable();
    let got = target.bytes(pair, 16);
    assert_eq!(got, [[0; 8], (COUNT as u64).to_le_bytes()].concat());
    assert!(found.iter().copied().eq(0..COUNT as u64), "{found:?}");
    target.conceal(pair);
}
