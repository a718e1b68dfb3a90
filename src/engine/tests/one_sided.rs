//! One-sided operations of two engines over the simulated network.

use super::*;
use crate::engine::one_sided::{Counter, Keys, Reach};
use crate::lane::atomic::{AtomicOp, Form, Number, Update};
use crate::lane::sim::{Conditions, Network};

/// Two engines, of which the first accesses the second one's memory.
struct Two {
    network: Network,
    engines: Vec<Engine>,
    counter: Arc<Counter>,
}

impl Two {
    fn new(seed: u64, adjust: impl FnOnce(&mut Conditions)) -> Two {
        let mut two = Two::unconnected(seed, adjust);
        two.connect();
        two
    }

    fn unconnected(seed: u64, adjust: impl FnOnce(&mut Conditions)) -> Two {
        let mut conditions = Conditions {
            limits: Limits {
                buffered: MESSAGE,
                message: MESSAGE,
                header: crate::lane::HEADER_BYTES,
                piece: MESSAGE,
                ordered: true,
                rma: true,
                write: true,
                atomics: Atomics::Hardware,
                needs_target: seed.is_multiple_of(2),
                ends_with_receipt: false,
                rma_from: 0,
                read_run: [0, 8, usize::MAX][(seed % 3) as usize],
                register_run: 0,
                eager: 500,
                pipelined: 0,
                queue: 64,
            },
            delay_ns_max: 1000,
            completion_ns_max: 300,
            again_permille: 300,
            failed_reads_permille: 0,
            mangled_permille: 0,
            rogue: None,
            notices_other_jobs: true,
        };
        adjust(&mut conditions);
        let network = Network::new(seed, 2, conditions);
        let engine = |rank: u32| {
            let me = ProcessName { job: JOB, rank };
            Engine::new(Parts {
                me,
                size: 2,
                token: TOKEN + u64::from(rank),
                agreed: 0,
                lanes: vec![
                    Box::new(Loopback::default()),
                    Box::new(network.lane(PeerIndex::new(rank), me)),
                ],
                eager_max: None,
                rma: true,
                first_generation: 0,
                window: WINDOW,
                unexpected_max: UNEXPECTED_MAX,
            })
        };
        let engines = (0..2).map(engine).collect();
        Two {
            network,
            engines,
            counter: Counter::new(),
        }
    }

    fn connect(&mut self) {
        for me in 0..2 {
            let card = self.engines[1 - me].card();
            self.engines[me].connect(PeerIndex::new(1 - me as u32), &card);
        }
    }

    fn turn(&mut self) {
        if !self.network.advance() {
            self.network.tick();
        }
        for (at, engine) in self.engines.iter_mut().enumerate() {
            if !self.network.is_dead(PeerIndex::new(at as u32)) {
                engine.progress(false);
            }
        }
    }

    fn until_idle(&mut self) {
        for _ in 0..100_000 {
            if self.counter.is_idle() {
                return;
            }
            self.turn();
        }
        panic!("operations do not end");
    }

    fn write(&mut self, keys: &Arc<Keys>, offset: u64, from: Memory) {
        // SAFETY: the tests keep the memory until the counter is idle.
        unsafe { self.engines[0].write_remote(PEER, keys, offset, from, &self.counter) };
    }

    fn read(&mut self, keys: &Arc<Keys>, offset: u64, into: Memory) {
        // SAFETY: as above.
        unsafe { self.engines[0].read_remote(PEER, keys, offset, into, &self.counter) };
    }

    fn update(&mut self, keys: &Arc<Keys>, offset: u64, update: Update) {
        // SAFETY: as above; the offsets are multiples of the sizes.
        unsafe { self.engines[0].update_remote(PEER, keys, offset, update, &self.counter) };
    }

    /// The target's memory, which the second engine exposes.
    fn expose(&mut self, target: &mut [u64]) -> (crate::engine::one_sided::Exposed, Arc<Keys>) {
        let memory = Piece {
            address: target.as_mut_ptr().cast(),
            len: size_of_val(target),
            ..Piece::EMPTY
        };
        // SAFETY: the tests conceal it, or end the engine, before the memory.
        let (exposed, keys) = unsafe { self.engines[1].expose(memory) };
        let keys = Keys::decode(&keys.encode()).expect("what was encoded");
        (exposed, Arc::new(keys))
    }
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[test]
fn what_is_written_is_read_again_whatever_the_lane_refuses() {
    for seed in 0..12 {
        let mut two = Two::new(seed, |_| ());
        let mut target = vec![0u64; 4000];
        let (exposed, keys) = two.expose(&mut target);
        let needs_target = seed.is_multiple_of(2);
        assert_eq!(
            two.engines[0].reach(PEER, &keys),
            Reach::Yes {
                atomics: Atomics::Hardware,
                needs_target
            }
        );
        // One run, several runs, many runs, and nothing.
        let datatype = Datatype::vector(3000, 3, 5, Datatype::byte()).expect("a vector");
        let run = pattern(5000);
        let scattered = pattern(2 * 3000 * 5);
        two.write(&keys, 7, Memory::of(&run));
        two.write(
            &keys,
            6000,
            Memory::new(scattered.as_ptr().cast_mut(), 1, &datatype),
        );
        two.write(&keys, 32_000, Memory::empty());
        assert!(!two.counter.is_idle());
        two.until_idle();
        assert_eq!(two.counter.take_error(), None);
        let packed: Vec<u8> = (scattered.chunks(5).take(3000))
            .flat_map(|chunk| chunk[..3].to_vec())
            .collect();
        let now = bytes_of(&target);
        assert!(now[7..5007] == run && now[6000..15_000] == packed, "{seed}");
        assert!(now[..7].iter().chain(&now[15_000..]).all(|&byte| byte == 0));

        let (mut whole, mut pieces) = (vec![0xaau8; 9000], vec![0xaau8; 15_000]);
        two.read(&keys, 6000, Memory::of_mut(&mut whole));
        two.read(&keys, 6000, Memory::new(pieces.as_mut_ptr(), 1, &datatype));
        two.until_idle();
        assert_eq!(two.counter.take_error(), None);
        assert!(whole == packed, "{seed}");
        for (chunk, expected) in pieces.chunks(5).zip(packed.chunks(3)) {
            assert!(chunk[..3] == *expected && chunk[3..].iter().all(|&byte| byte == 0xaa));
        }
        assert!(two.engines.iter().all(|engine| engine.is_drained()));
        two.engines[1].conceal(exposed);
    }
}

#[test]
fn atomic_operations_of_any_number_of_elements_are_split() {
    for seed in 0..6 {
        let mut two = Two::new(seed, |_| ());
        let mut target = vec![100u64; 40];
        let (exposed, keys) = two.expose(&mut target);
        let one = bytes_of(&[1; 17]);
        let mut former = vec![vec![0u8; 17 * 8]; 20];
        for result in &mut former {
            let update = Update {
                op: AtomicOp::Sum,
                number: Number::U64,
                operand: Piece::of(&one),
                compare: Piece::EMPTY,
                result: Piece::of_mut(result),
            };
            two.update(&keys, 16, update);
        }
        two.until_idle();
        assert_eq!(two.counter.take_error(), None);
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        for at in 0..17 {
            let mut found: Vec<u64> = former
                .iter()
                .map(|result| word(&result[8 * at..8 * at + 8]))
                .collect();
            found.sort_unstable();
            assert!(
                found.into_iter().eq(100..120),
                "each addition found another number"
            );
        }
        assert!(target.iter().enumerate().all(|(at, &word)| {
            let expected = if (2..19).contains(&at) { 120 } else { 100 };
            word == expected
        }));
        // There is no such operation, and elements that are not whole.
        let has = |op| two.engines[0].has_atomic(PEER, Form::Update, op, Number::F64);
        assert!(has(AtomicOp::Sum) && !has(AtomicOp::Xor));
        let mut update = Update {
            op: AtomicOp::Xor,
            number: Number::F64,
            operand: Piece::of(&one),
            compare: Piece::EMPTY,
            result: Piece::EMPTY,
        };
        two.update(&keys, 0, update);
        two.until_idle();
        assert!(two.counter.take_error().is_some());
        (update.op, update.operand) = (AtomicOp::Sum, Piece::of(&one[..9]));
        two.update(&keys, 0, update);
        two.until_idle();
        assert!(two.counter.take_error().is_some() && two.counter.take_error().is_none());
        two.engines[1].conceal(exposed);
    }
}

#[test]
fn a_request_ends_with_the_last_operation_and_has_its_error() {
    let mut two = Two::new(3, |_| ());
    let mut target = vec![0u64; 100];
    let (exposed, keys) = two.expose(&mut target);
    let done = two.engines[0].wait_for(&two.counter);
    assert_eq!(two.engines[0].take(done), Some(Outcome::EMPTY));
    let from = [7u8; 100];
    two.write(&keys, 0, Memory::of(&from));
    two.write(&keys, 100, Memory::of(&from));
    let waits = two.engines[0].wait_for(&two.counter);
    let events = two.engines[0].events();
    assert_eq!(two.engines[0].is_complete(waits), Some(false));
    two.until_idle();
    assert!(two.engines[0].events() > events);
    assert_eq!(two.engines[0].take(waits), Some(Outcome::EMPTY));
    // Beyond the end, and after it was concealed.
    two.write(&keys, 701, Memory::of(&from));
    let waits = two.engines[0].wait_for(&two.counter);
    two.until_idle();
    let outcome = two.engines[0].take(waits).expect("it has ended");
    assert!(outcome.error.is_some() && two.counter.take_error().is_some());
    two.engines[1].conceal(exposed);
    two.write(&keys, 0, Memory::of(&from));
    let mut into = [0u8; 8];
    two.read(&keys, 0, Memory::of_mut(&mut into));
    two.until_idle();
    assert!(two.counter.take_error().is_some());
    let mut expected = vec![7u8; 200];
    expected.resize(800, 0);
    assert_eq!(bytes_of(&target), expected);
}

#[test]
fn what_fails_in_the_network_changes_nothing() {
    let mut two = Two::new(5, |conditions| conditions.failed_reads_permille = 1000);
    let mut target = vec![0u64; 10];
    let (exposed, keys) = two.expose(&mut target);
    let from = [1u8; 16];
    two.write(&keys, 0, Memory::of(&from));
    two.until_idle();
    assert!(two.counter.take_error().is_some());
    assert!(target.iter().all(|&word| word == 0));
    two.engines[1].conceal(exposed);
}

#[test]
fn operations_wait_for_the_card_of_their_peer() {
    let mut two = Two::unconnected(1, |_| ());
    let mut target = vec![0u64; 10];
    let (exposed, keys) = two.expose(&mut target);
    let from = [9u8; 8];
    two.write(&keys, 8, Memory::of(&from));
    assert_eq!(two.engines[0].reach(PEER, &keys), Reach::Unknown);
    assert_eq!(*two.engines[0].wanted(), [PEER]);
    for _ in 0..10 {
        two.turn();
    }
    assert!(!two.counter.is_idle() && !two.engines[0].is_drained());
    two.connect();
    two.until_idle();
    assert_eq!(two.counter.take_error(), None);
    assert_eq!(bytes_of(&target)[8..16], from);
    two.engines[1].conceal(exposed);
}

#[test]
fn the_loss_of_the_peer_ends_all_operations() {
    for seed in 0..20 {
        let mut two = Two::new(seed, |_| ());
        let mut target = vec![0u64; 1000];
        let (_exposed, keys) = two.expose(&mut target);
        let from = pattern(8000);
        let mut into = vec![0u8; 8000];
        for _ in 0..20 {
            two.write(&keys, 0, Memory::of(&from));
        }
        two.read(&keys, 0, Memory::of_mut(&mut into));
        for _ in 0..seed {
            two.turn();
        }
        two.network.kill(PEER);
        two.until_idle();
        // Some may have ended before.
        let is_lost = |two: &mut Two| two.engines[0].reach(PEER, &keys) == Reach::No;
        for _ in 0..1000 {
            if is_lost(&mut two) {
                break;
            }
            two.turn();
        }
        assert!(is_lost(&mut two));
        two.counter.take_error();
        two.write(&keys, 0, Memory::of(&from));
        assert!(two.counter.is_idle() && two.counter.take_error().is_some());
        let waits = two.engines[0].wait_for(&two.counter);
        assert!(two.engines[0].take(waits).is_some());
    }
}

#[test]
fn without_a_lane_that_writes_nothing_is_exposed() {
    let mut two = Two::new(2, |conditions| conditions.limits.write = false);
    let mut target = vec![0u64; 10];
    let (exposed, keys) = two.expose(&mut target);
    assert_eq!(two.engines[0].reach(PEER, &keys), Reach::No);
    two.write(&keys, 0, Memory::of(&[1]));
    two.until_idle();
    assert!(two.counter.take_error().is_some());
    two.engines[1].conceal(exposed);
}

#[test]
fn keys_that_make_no_sense_are_errors() {
    let mut two = Two::new(2, |_| ());
    let mut target = vec![0u64; 10];
    let (exposed, keys) = two.expose(&mut target);
    let good = keys.encode();
    assert_eq!(Keys::decode(&good).as_ref(), Ok(&*keys));
    assert_eq!(Keys::decode(&[]), Ok(Keys::default()));
    let starts: Vec<usize> = (1..good.len())
        .filter(|&len| Keys::decode(&good[..len]).is_ok())
        .collect();
    // Only where one key ends and the next begins.
    assert_eq!(starts.len(), 1, "{starts:?}");
    for bytes in [
        &[0xffu8][..],
        &[1, 0xff, 0],
        &[0, 65],
        &[[0, 65].as_slice(), &[0; 65]].concat()[..],
    ] {
        assert!(Keys::decode(bytes).is_err(), "{bytes:?}");
    }
    two.engines[1].conceal(exposed);
}
