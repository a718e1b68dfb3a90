//! Every algorithm of every operation, one after the other instead of the chosen one, held against the same models: all of 1 to 9 and 16
//! ranks, all roots.

use std::future::Future;

use weft::sim::{Options, Rank, check};
use weft::system::locality::Layout;

use crate::{Case, moving, reducing, run};

const SIZES: [u32; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16];

/// All ranks on one host; three on each; one on each of three in turn.
const ONE_HOST: &str = "(vector,(0,1,16))";
const BLOCKS: &str = "(vector,(0,6,3))";
const CYCLIC: &str = "(vector,(0,3,1))";

/// Runs `program` with each of these lines in the table, on one host and, for algorithms of several hosts, on several.
fn each<F: Future<Output = ()>>(
    test: &str,
    operation: &str,
    algorithms: &[&str],
    is_rooted: bool,
    program: impl Fn(Rank, Case) -> F + Sync,
) {
    let number = (SIZES.len() * algorithms.len()) as u64;
    check(test, number, |seed| {
        let size = SIZES[seed as usize % SIZES.len()];
        let algorithm = algorithms[seed as usize / SIZES.len() % algorithms.len()];
        let layouts: &[&str] = match algorithm.starts_with("levels") || algorithm.starts_with("chain-of") {
            true => &[BLOCKS, CYCLIC],
            false => &[ONE_HOST],
        };
        for layout in layouts {
            let mut options = Options::random(seed);
            options.collectives = format!("{operation} -> {algorithm}");
            options.layout = Layout::parse(layout).expect("a layout");
            let roots: Vec<u32> = (0..if is_rooted { size } else { 1 }).collect();
            run(seed, size, options, &roots, &[0, 1, 3, 50], &program);
        }
    });
}

#[test]
fn barrier_by_each() {
    let algorithms = [
        "levels",
        "flat",
        "dissemination",
        "dissemination radix=3",
        "dissemination radix=4",
        "dissemination radix=64",
    ];
    each(
        "barrier_by_each",
        "barrier",
        &algorithms,
        false,
        moving::barrier_case,
    );
}

#[test]
fn bcast_by_each() {
    let algorithms = [
        "levels",
        "chain-of-hosts pieces=3",
        "chain-of-hosts piece=16",
        "flat",
        "tree",
        "tree radix=3",
        "tree radix=64",
        "chain piece=16",
        "chain radix=2 piece=64",
        "scatter-doubling",
        "scatter-ring",
    ];
    each("bcast_by_each", "bcast", &algorithms, true, moving::bcast_case);
}

#[test]
fn gather_by_each() {
    let algorithms = ["direct", "tree", "tree radix=3", "tree radix=5"];
    each("gather_by_each", "gather", &algorithms, true, moving::gather_case);
}

#[test]
fn scatter_by_each() {
    let algorithms = ["direct", "tree", "tree radix=3", "tree radix=5"];
    each(
        "scatter_by_each",
        "scatter",
        &algorithms,
        true,
        moving::scatter_case,
    );
}

#[test]
fn allgather_by_each() {
    let algorithms = ["doubling", "bruck", "ring", "neighbours"];
    each(
        "allgather_by_each",
        "allgather",
        &algorithms,
        false,
        moving::allgather_case,
    );
}

#[test]
fn allgatherv_by_each() {
    let algorithms = ["bruck", "ring"];
    each(
        "allgatherv_by_each",
        "allgather",
        &algorithms,
        false,
        moving::allgatherv_case,
    );
}

#[test]
fn alltoall_by_each() {
    let algorithms = [
        "bruck",
        "bruck radix=3",
        "bruck radix=4",
        "bruck radix=64",
        "direct window=1",
        "direct window=2",
        "direct",
    ];
    each(
        "alltoall_by_each",
        "alltoall",
        &algorithms,
        false,
        moving::alltoall_case,
    );
}

#[test]
fn reduce_by_each() {
    let algorithms = [
        "levels",
        "flat",
        "tree",
        "tree radix=3",
        "tree radix=6",
        "chain piece=1",
        "chain piece=40",
        "chain",
        "halving",
    ];
    each(
        "reduce_by_each",
        "reduce",
        &algorithms,
        true,
        reducing::reduce_case,
    );
}

#[test]
fn allreduce_by_each() {
    let algorithms = [
        "levels",
        "flat",
        "doubling",
        "doubling radix=4",
        "doubling radix=8",
        "doubling radix=16",
        "halving",
        "ring",
        "root",
    ];
    each(
        "allreduce_by_each",
        "allreduce",
        &algorithms,
        false,
        reducing::allreduce_case,
    );
}

#[test]
fn reduce_scatter_by_each() {
    let algorithms = ["direct", "halving", "root"];
    let program = reducing::reduce_scatter_case;
    each(
        "reduce_scatter_by_each",
        "reduce_scatter",
        &algorithms,
        false,
        program,
    );
}
