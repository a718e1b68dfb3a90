//! How collective operations scale: every algorithm and the chosen one in the model of a machine (`weft::objects::collective::model`), from
//! 10 to 100,000 ranks. Writes `docs/scale.md` and its plots:
//!
//!     cargo bench --bench scale [-- --ranks-max 1000] [-- --docs FOLDER]

mod page;
mod plot;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use clap::Parser;
use weft::instance::selection::{Operation, Selection};
use weft::objects::collective::model::{Call, Cost, INFINIBAND, Machine, SLINGSHOT, algorithms, bound, run};

const MACHINES: [Machine; 2] = [INFINIBAND, SLINGSHOT];
/// Tens, and the powers of two next to them, with one rank on each host.
const RANKS: [u32; 9] = [10, 16, 100, 128, 1000, 1024, 10_000, 16_384, 100_000];
/// With many on each host.
const PER_HOST: u32 = 16;
const RANKS_ON_HOSTS: [u32; 3] = [64, 1024, 16_384];
/// A run of more messages is left out: an algorithm whose messages grow with the square of the ranks.
const MESSAGES_MAX: u64 = 4_000_000;
/// Of larger numbers of ranks, only some lengths, and only the second machine.
const MANY: u32 = 2000;

#[derive(Parser)]
struct Arguments {
    /// Larger numbers of ranks are left out.
    #[arg(long, default_value_t = 100_000)]
    ranks_max: u32,
    /// Where scale.md and plots/ are written.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/docs"))]
    docs: PathBuf,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// One case, by all algorithms.
struct Case {
    machine: Machine,
    call: Call,
    /// As a user counts: the message, or one block.
    length: u64,
    /// By each of the operation's algorithms, where it can be used and takes not too many messages.
    each: Vec<Option<Cost>>,
    /// What the table chooses, by its name, and its cost.
    chosen: Option<Cost>,
    bound: u64,
}

impl Case {
    /// All that are compared: some are for several hosts.
    fn algorithms(&self) -> impl Iterator<Item = &'static str> + use<> {
        let on_hosts: &[&str] = match self.call.operation {
            _ if self.call.per_host == 1 => &[],
            Operation::Bcast => &["levels", "chain-of-hosts pieces=3", "chain-of-hosts piece=128K"],
            Operation::Barrier | Operation::Reduce | Operation::Allreduce => &["levels"],
            _ => &[],
        };
        algorithms(self.call.operation).iter().chain(on_hosts).copied()
    }

    /// The best of the algorithms, and its name.
    fn best(&self) -> Option<(&'static str, Cost)> {
        let names = self.algorithms();
        let known = names
            .zip(&self.each)
            .filter_map(|(name, cost)| Some((name, (*cost)?)));
        known.min_by_key(|(_, cost)| cost.time)
    }
}

/// Lengths of the message, or of one block.
fn lengths(operation: Operation, ranks: u32) -> &'static [u64] {
    use Operation::*;
    match operation {
        Barrier => &[0],
        _ if ranks > MANY => match operation {
            Bcast | Reduce | Allreduce => &[8, 64 << 10],
            _ => &[8],
        },
        Bcast | Reduce | Allreduce => &[8, 1 << 10, 64 << 10, 1 << 20],
        _ => &[8, 1 << 10, 64 << 10],
    }
}

/// Above, a process of the model takes too much time or memory: it has something to do or to store for each other.
fn ranks_max(operation: Operation) -> u32 {
    match operation {
        Operation::Alltoall => 1024,
        Operation::Allgather => 16_384,
        _ => u32::MAX,
    }
}

fn cases(most: u32) -> Vec<Case> {
    let mut cases = Vec::new();
    for machine in MACHINES {
        for &operation in Operation::ALL {
            let alone = RANKS.into_iter().map(|ranks| (ranks, 1));
            let shapes = alone.chain(RANKS_ON_HOSTS.into_iter().map(|ranks| (ranks, PER_HOST)));
            for (ranks, per_host) in shapes.filter(|&(ranks, _)| ranks <= most.min(ranks_max(operation))) {
                if ranks > MANY && machine.name == INFINIBAND.name {
                    continue;
                }
                for &length in lengths(operation, ranks) {
                    let bytes = match operation {
                        Operation::Allgather | Operation::ReduceScatter => length * u64::from(ranks),
                        _ => length,
                    };
                    let call = Call {
                        operation,
                        ranks,
                        per_host,
                        bytes,
                        root: 0,
                    };
                    let bound = bound(&machine, &call);
                    cases.push(Case {
                        machine,
                        call,
                        length,
                        each: Vec::new(),
                        chosen: None,
                        bound,
                    });
                }
            }
        }
    }
    cases
}

/// Whether an algorithm would send more messages than are let.
fn takes_too_long(operation: Operation, algorithm: &str, ranks: u32) -> bool {
    if matches!(operation, Operation::Gather | Operation::Scatter) {
        return false;
    }
    let quadratic = ["ring", "scatter-ring", "neighbours", "direct"].contains(&algorithm);
    quadratic && u64::from(ranks) * u64::from(ranks) / 2 > MESSAGES_MAX
}

fn fill(case: &mut Case) {
    let by = |lines: &str| {
        let selection = Arc::new(Selection::parse("the benchmark", lines).expect("good lines"));
        run(&case.machine, &selection, &case.call, MESSAGES_MAX)
    };
    let operation = case.call.operation;
    let each = case.algorithms().map(|algorithm| {
        let too_long = takes_too_long(operation, algorithm, case.call.ranks);
        let cost = (!too_long).then(|| by(&format!("{} -> {algorithm}", operation.name())))??;
        // Another one was used if this one can't be.
        let used = cost.choice?.algorithm.name();
        (algorithm.split(' ').next() == Some(used)).then_some(cost)
    });
    case.each = each.collect();
    case.chosen = by("");
}

fn main() {
    let arguments = Arguments::parse();
    let begin = Instant::now();
    // The longest first, so that all processors are busy to the end.
    let mut cases = cases(arguments.ranks_max);
    let number = cases.len();
    let mut order: Vec<(usize, &mut Case)> = cases.iter_mut().enumerate().collect();
    order.sort_by_key(|(at, case)| (case.call.ranks, *at));
    let (left, done) = (Mutex::new(order), AtomicUsize::new(0));
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some((_, case)) = left.lock().expect("no thread has panicked").pop() else {
                        break;
                    };
                    fill(case);
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if done.is_multiple_of(50) || done == number {
                        eprintln!("{done} of {number} cases, {:.0} s", begin.elapsed().as_secs_f64());
                    }
                }
            });
        }
    });
    let written = page::write(&cases, &arguments.docs).and_then(|()| plot::write(&cases, &arguments.docs));
    if let Err(error) = written {
        eprintln!("cannot write to {}: {error}", arguments.docs.display());
        std::process::exit(1);
    }
}
