//! Counts that do not match, and several operations at once.

use std::sync::Arc;

use weft::Class;
use weft::data::datatype::Datatype;
use weft::data::op::Op;
use weft::engine::request::Outcome;
use weft::objects::collective::shared::prepare_in_simulation;
use weft::objects::collective::{self, Buffer, Operands, VBuffer};
use weft::sim::{Options, Simulation, check};
use weft::system::locality::Layout;

use crate::SIZES;

/// The ABI's number of `MPI_BXOR`.
const BXOR: usize = 42;

fn bytes(bytes: &mut [u8], count: u64, blocks: u32) -> Buffer {
    assert!(count * u64::from(blocks) <= bytes.len() as u64);
    // SAFETY: the callers keep the bytes until the operation has ended.
    unsafe { Buffer::new(bytes.as_mut_ptr(), count, blocks, Datatype::byte().clone()) }
}

/// The bits of all ranks' bytes combined by exclusive or, in place.
fn exclusive_or(bytes: &mut [u8], count: u64, result: u64) -> Operands {
    assert!(count.max(result) <= bytes.len() as u64);
    let (datatype, op) = (Datatype::byte().clone(), Op::predefined(BXOR).unwrap().clone());
    // SAFETY: the callers keep the bytes until the operation has ended.
    unsafe { Operands::new(None, Some(bytes.as_mut_ptr()), count, result, datatype, op) }
}

/// A rank that expects less than it gets has an error, everybody's call returns, and nothing lies beyond its buffer.
#[test]
fn too_long() {
    check("too_long", 2 * SIZES.len() as u64, |seed| {
        let size = SIZES[seed as usize % SIZES.len()];
        if size == 1 {
            return;
        }
        let results = Simulation::new(seed, size, Options::random(seed)).run(|rank| async move {
            let me = rank.me().number();
            let short = me == size - 1;
            let count = if short { 40 } else { 60 };
            let mut message = vec![me as u8 + 1; 64];
            let bcast = collective::bcast(&rank.world().collective(), 0, bytes(&mut message, count, 1)).await;
            assert!(!short || message[40..].iter().all(|&byte| byte == me as u8 + 1));
            let mut own = vec![7; 64];
            let mut all = vec![0; 64 * size as usize];
            let allgather = collective::allgather(
                &rank.world().collective(),
                Some(bytes(&mut own, 1, 1)),
                bytes(&mut all, u64::from(!short), size),
            )
            .await;
            assert!(!short || all.iter().all(|&byte| byte == 0));
            let mut elements = [3; 8];
            let count = if short { 2 } else { 4 };
            let given = exclusive_or(&mut elements, count, count);
            let reduce = collective::allreduce(&rank.world().collective(), given).await;
            assert!(elements[4..].iter().all(|&byte| byte == 3));
            [bcast, allgather, reduce]
        });
        let last = results.into_iter().next_back().flatten().expect("it lived");
        for (at, result) in last.into_iter().enumerate() {
            let error = result.expect_err("it got more than it expected");
            assert_eq!(error.class, Class::Truncate, "call {at}: {error}");
        }
    });
}

/// Processes that share memory reduce different numbers of elements: all of their calls end, with an error, and so do later ones,
/// without.
#[test]
fn uneven_reductions_in_shared_memory() {
    for (size, count, other) in [
        (9, 3, 2),
        (65, 3, 4),
        (70, 8, 9),
        (3, 100_000, 50_000),
        // In different numbers of segments, where other processes' operands are read directly.
        (3, 3_000_000, 2_000_000),
        (4, 50_000, 100_000),
    ] {
        for (odd, cma) in [(0, true), (1, false), (size / 2, false), (size - 1, true)] {
            let mut options = Options::random(1);
            options.cma = cma;
            options.layout = Layout::parse("(vector,(0,1,1))").expect("a layout");
            options.processors = None;
            Simulation::new(u64::from(size + odd), size, options).run(|rank| async move {
                let me = rank.me().number();
                for is_even in [false, true] {
                    let number = if is_even || me != odd { count } else { other };
                    let mut elements = vec![me as u8; number as usize];
                    let messages = rank.world().collective();
                    let (messages, used) = prepare_in_simulation(messages).await.expect("no process is lost");
                    assert!(used.is_some(), "all share memory");
                    let given = exclusive_or(&mut elements, number, number);
                    let result = collective::allreduce(&messages, given).await;
                    let call = format!("{number} bytes at {me} of {size}, {odd} is odd");
                    match is_even {
                        true => result.expect(&call),
                        false => drop(result.expect_err(&call)),
                    }
                    let sum = (0..size).fold(0, |sum, each| sum ^ each as u8);
                    assert!(!is_even || elements.iter().all(|&byte| byte == sum), "{call}");
                }
            });
        }
    }
}

/// The same with a root.
#[test]
fn uneven_rooted_reductions_in_shared_memory() {
    for (size, count, other) in [
        (2, 50_000, 60_000),
        (3, 50_000, 100_000),
        // Only the longer ones are read directly.
        (3, 100_000, 200_000),
        (4, 3_000_000, 2_000_000),
    ] {
        for (odd, root) in [(0, 0), (0, 1), (1, 0), (size - 1, size - 1)] {
            let mut options = Options::random(1);
            options.cma = true;
            options.layout = Layout::parse("(vector,(0,1,1))").expect("a layout");
            options.processors = None;
            Simulation::new(u64::from(size + odd), size, options).run(|rank| async move {
                let me = rank.me().number();
                for is_even in [false, true] {
                    let number = if is_even || me != odd { count } else { other };
                    let mut elements = vec![me as u8; number as usize];
                    let messages = rank.world().collective();
                    let (messages, used) = prepare_in_simulation(messages).await.expect("no process is lost");
                    assert!(used.is_some(), "all share memory");
                    let (datatype, op) = (Datatype::byte().clone(), Op::predefined(BXOR).unwrap().clone());
                    let send = (me != root).then_some(elements.as_ptr());
                    let receive = (me == root).then_some(elements.as_mut_ptr());
                    // SAFETY: as long, and outlives the operation.
                    let given = unsafe { Operands::new(send, receive, number, number, datatype, op) };
                    let result = collective::reduce(&messages, root, given).await;
                    let call = format!("{number} bytes at {me} of {size}, {odd} is odd, {root} is the root");
                    match is_even {
                        true => result.expect(&call),
                        false => drop(result.expect_err(&call)),
                    }
                    let sum = (0..size).fold(0, |sum, each| sum ^ each as u8);
                    let expected = if me == root { sum } else { me as u8 };
                    assert!(
                        !is_even || elements.iter().all(|&byte| byte == expected),
                        "{call}"
                    );
                }
            });
        }
    }
}

/// A process that shares memory with others expects fewer bytes than they send: all calls end, its own with an error, and nothing lies
/// beyond its blocks. `gap`: how far apart the bytes are that the others send.
#[test]
fn uneven_blocks_in_shared_memory() {
    const CASES: [(u32, u64, u64, i64); 8] = [
        (2, 10, 5, 1),
        // A root whose blocks are lent, or in a place, and a process that expects so few bytes that it takes them for short ones.
        (4, 10_000, 1000, 1),
        (3, 2000, 100, 1),
        (3, 700, 699, 1),
        (3, 9000, 1, 1),
        (5, 5000, 2000, 2),
        (3, 100_000, 50_000, 1),
        (4, 100_000, 99_999, 2),
    ];
    for (size, count, fewer, gap) in CASES {
        for (odd, root) in [(0, size - 1), (size - 1, 0), (size / 2, (size / 2 + 1) % size)] {
            let mut options = Options::random(1);
            options.layout = Layout::parse("(vector,(0,1,1))").expect("a layout");
            options.processors = None;
            Simulation::new(count + u64::from(odd), size, options).run(|rank| async move {
                let me = rank.me().number();
                let datatype = Datatype::resized(Datatype::byte(), 0, gap).expect("a datatype");
                datatype.commit();
                let all = size as usize * count as usize;
                let displs: Arc<[i64]> = (0..i64::from(size)).map(|at| at * count as i64).collect();
                for call in [
                    "even alltoallv",
                    "alltoallv",
                    "even scatterv",
                    "scatterv",
                    "scatter",
                    "even scatter",
                    "nothing for scatterv",
                    "even scatterv",
                ] {
                    let what = format!("{call} of {count} and {fewer} bytes at {me} of {size}, {odd} is odd");
                    let mine = match me == odd && !call.starts_with("even") {
                        true if call.starts_with("nothing") => 0,
                        true => fewer,
                        false => count,
                    };
                    let mut own = vec![me as u8 + 1; all * gap as usize];
                    let mut got = vec![0; all];
                    let messages = rank.world().collective();
                    let (messages, used) = prepare_in_simulation(messages).await.expect("no process is lost");
                    assert!(used.is_some(), "all share memory");
                    let blocks = |address: &mut [u8], count, datatype: &Arc<Datatype>| {
                        let counts = vec![count; size as usize].into();
                        // SAFETY: so many bytes from each displacement on, which outlive the operations.
                        unsafe {
                            VBuffer::new(address.as_mut_ptr(), counts, displs.clone(), datatype.clone())
                        }
                    };
                    let send = blocks(&mut own, count, &datatype);
                    let is_alltoall = call.ends_with("alltoallv");
                    let result = match is_alltoall {
                        true => {
                            let receive = blocks(&mut got, mine, Datatype::byte());
                            collective::alltoallv(&messages, Some(send), receive).await
                        }
                        false if call.ends_with("scatter") => {
                            let receive = Some(bytes(&mut got, mine, 1));
                            let elements = |address: &mut [u8]| {
                                // SAFETY: a block for each process, which outlive the operation.
                                unsafe { Buffer::new(address.as_mut_ptr(), count, size, datatype.clone()) }
                            };
                            let send = (me == root).then(|| elements(&mut own));
                            collective::scatter(&messages, root, send, receive).await
                        }
                        false => {
                            let receive = Some(bytes(&mut got, mine, 1));
                            collective::scatterv(&messages, root, (me == root).then_some(send), receive).await
                        }
                    };
                    match mine == count {
                        true => result.expect(&what),
                        false => assert_eq!(result.expect_err(&what).class, Class::Truncate, "{what}"),
                    }
                    for (from, block) in (0..size).zip(got.chunks(count as usize)) {
                        let from = match is_alltoall {
                            true => Some(from),
                            false => (from == 0).then_some(root),
                        };
                        let (come, rest) = block.split_at(from.map_or(0, |_| mine as usize));
                        assert!(
                            come.iter()
                                .all(|&byte| Some(u32::from(byte)) == from.map(|from| from + 1)),
                            "{what}"
                        );
                        assert!(rest.iter().all(|&byte| byte == 0), "{what}");
                    }
                }
            });
        }
    }
}

/// What does not fit into the memory that an operation was handed is an error before anything is sent.
#[test]
fn beyond_what_was_handed() {
    Simulation::new(1, 2, Options::random(1)).run(|rank| async move {
        let world = rank.world();
        let (operand, mut room) = ([1u8; 8], [0u8; 8]);
        let mut given = |count, result| {
            let (datatype, op) = (Datatype::byte().clone(), Op::predefined(BXOR).unwrap().clone());
            let (send, receive) = (Some(operand.as_ptr()), Some(room.as_mut_ptr()));
            // SAFETY: both are longer, and outlive the operations.
            unsafe { Operands::new(send, receive, count, result, datatype, op) }
        };
        let results = [
            collective::allreduce(&world.collective(), given(4, 3)).await,
            collective::reduce(&world.collective(), rank.me().number(), given(4, 3)).await,
            collective::scan(&world.collective(), given(4, 3)).await,
            collective::exscan(&world.collective(), given(4, 3)).await,
            collective::reduce_scatter_block(&world.collective(), given(4, 3)).await,
            collective::reduce_scatter(&world.collective(), given(4, 3), [2, 3].into()).await,
            collective::reduce_scatter(&world.collective(), given(4, 1), [2, 2].into()).await,
            collective::reduce_scatter(&world.collective(), given(4, 3), [2, u64::MAX].into()).await,
        ];
        for (at, result) in results.into_iter().enumerate() {
            let error = result.expect_err("it does not fit");
            assert_eq!(error.class, Class::Count, "call {at}: {error}");
        }
        assert_eq!(room, [0; 8]);
    });
}

/// A communicator is duplicated for all of its processes, or for none: then each hears of the last who was not ready.
#[test]
fn no_duplicate_for_some_only() {
    check("no_duplicate_for_some_only", 3 * SIZES.len() as u64, |seed| {
        let size = SIZES[seed as usize % SIZES.len()];
        let (one, other) = (seed as u32 % size, (seed as u32 / 3) % size);
        let results = Simulation::new(seed, size, Options::random(seed)).run(|rank| async move {
            let me = rank.me().number();
            let failed = rank.world().clone().duplicate(me != one && me != other).await;
            let made = rank.world().clone().duplicate(true).await.expect("all are ready");
            assert_eq!(made.size(), size);
            (failed.err(), made.context())
        });
        let results: Vec<_> = results
            .into_iter()
            .map(|result| result.expect("it lived"))
            .collect();
        for (error, context) in &results {
            let error = error.as_ref().expect("somebody was not ready");
            assert_eq!(error.class, Class::Other);
            let words = format!("failed at rank {},", one.max(other));
            assert!(error.message.contains(&words), "{error}");
            assert_eq!(*context, results[0].1);
        }
    });
}

/// Nonblocking operations on one communicator do not see each other's messages.
#[test]
fn several_at_once() {
    check("several_at_once", 3 * SIZES.len() as u64, |seed| {
        let size = SIZES[seed as usize % SIZES.len()];
        Simulation::new(seed, size, Options::random(seed)).run(|rank| async move {
            let me = rank.me().number();
            let world = rank.world();
            let mut broadcasts: Vec<Vec<u8>> = (0..5).map(|at| vec![(me as u8) << 3 | at; 700]).collect();
            let mut sums: Vec<[u8; 3]> = (0..5).map(|at| [me as u8, at, 1]).collect();
            let mut requests = Vec::new();
            for (at, (message, sum)) in (0..).zip(broadcasts.iter_mut().zip(&mut sums)) {
                let (operation, buffer) = (world.collective(), bytes(message, 700, 1));
                requests.push(rank.instance().spawn(Box::pin(async move {
                    collective::bcast(&operation, at % size, buffer).await?;
                    Ok(Outcome::EMPTY)
                })));
                let operation = world.collective();
                let given = exclusive_or(sum, 3, 3);
                requests.push(rank.instance().spawn(Box::pin(async move {
                    collective::allreduce(&operation, given).await?;
                    Ok(Outcome::EMPTY)
                })));
            }
            collective::barrier(&world.collective()).await.unwrap();
            for request in requests.into_iter().rev() {
                assert_eq!(rank.wait(request).await.error, None);
            }
            for (at, (message, sum)) in (0u8..).zip(broadcasts.iter().zip(&sums)) {
                let root = u32::from(at) % size;
                assert!(message.iter().all(|&byte| byte == (root as u8) << 3 | at));
                let odd = (size % 2) as u8;
                let ranks = (0..size as u8).fold(0, |all, rank| all ^ rank);
                assert_eq!(*sum, [ranks, odd * at, odd]);
            }
        });
    });
}
