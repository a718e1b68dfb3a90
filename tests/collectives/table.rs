//! The table of algorithms, held against all algorithms in the model of a machine: for each number of ranks and each length its choice takes
//! at most a few times as long as the best one.

use std::sync::Arc;

use weft::instance::selection::{Operation, Selection};
use weft::objects::collective::model::{Call, INFINIBAND, Machine, SLINGSHOT, algorithms, bound, run};

/// How many times as long as the best algorithm the chosen one may take.
const FACTOR: f64 = 2.5;

const RANKS: [u32; 8] = [2, 3, 8, 10, 16, 37, 64, 100];
const BYTES: [u64; 4] = [8, 1 << 10, 64 << 10, 1 << 20];

fn time(machine: &Machine, lines: &str, call: &Call) -> Option<u64> {
    let selection = Arc::new(Selection::parse("the test", lines).expect("good lines"));
    let cost = run(machine, &selection, call, u64::MAX).expect("as many messages as it takes");
    let wanted = lines.split_once("-> ").map(|(_, algorithm)| algorithm);
    let used = cost.choice.expect("a choice").to_string();
    // Some can't be used for some numbers of ranks.
    (wanted.is_none_or(|wanted| used.split(' ').next() == wanted.split(' ').next())).then_some(cost.time)
}

fn check(operation: Operation) {
    let mut worse = String::new();
    for machine in [INFINIBAND, SLINGSHOT] {
        for ranks in RANKS {
            for bytes in BYTES {
                let bytes = match operation {
                    Operation::Barrier => 0,
                    // Blocks, or all of them.
                    Operation::Allgather | Operation::ReduceScatter => bytes * u64::from(ranks),
                    _ => bytes,
                };
                let call = Call {
                    operation,
                    ranks,
                    per_host: 1,
                    bytes,
                    root: 0,
                };
                let of_each = algorithms(operation).iter().filter_map(|algorithm| {
                    let line = format!("{} -> {algorithm}", operation.name());
                    Some((time(&machine, &line, &call)?, *algorithm))
                });
                let (best, name) = of_each.min().expect("some algorithm can be used");
                let chosen = time(&machine, "", &call).expect("one is chosen");
                assert!(best >= bound(&machine, &call), "{call:?}: {name} beats the bound");
                if chosen as f64 > FACTOR * best as f64 {
                    let (machine, times) = (machine.name, chosen as f64 / best as f64);
                    worse += &format!("\n{machine}: {ranks} ranks, {bytes} bytes: {times:.2} times {name}");
                }
            }
        }
    }
    assert!(worse.is_empty(), "{}:{worse}", operation.name());
}

#[test]
fn table_barrier() {
    check(Operation::Barrier);
}

#[test]
fn table_bcast() {
    check(Operation::Bcast);
}

#[test]
fn table_gather_and_scatter() {
    check(Operation::Gather);
    check(Operation::Scatter);
}

#[test]
fn table_allgather() {
    check(Operation::Allgather);
}

#[test]
fn table_alltoall() {
    check(Operation::Alltoall);
}

#[test]
fn table_reduce() {
    check(Operation::Reduce);
}

#[test]
fn table_allreduce() {
    check(Operation::Allreduce);
}

#[test]
fn table_reduce_scatter() {
    check(Operation::ReduceScatter);
}
