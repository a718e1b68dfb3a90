//! One-sided communication: random programs of operations and epochs against a sequential model, and what their outcome may be.
//!
//! - `element`, `shape`: elements and datatypes by the definitions of the standard
//! - `program`: what the ranks do; `generate` makes such programs, `model` runs them sequentially, `races` judges what may come out in
//!   several ways, `run` has the simulated ranks do it

mod death;
mod element;
mod errors;
mod garbage;
mod generate;
mod idioms;
mod model;
mod program;
mod races;
mod run;
mod shape;

use std::sync::atomic::{AtomicUsize, Ordering};

use weft::base::settings::Access;
use weft::sim::{Options, check};

use program::{Kind, Program, Step};

/// Programs are such that no order of the ranks' steps changes what is defined.
#[test]
fn programs_are_defined() {
    let kinds: [AtomicUsize; 5] = Default::default();
    check("one_sided::programs_are_defined", 100, |seed| {
        let program = generate::generate(seed);
        let first = model::run(&program, 1);
        for other in 2..4 {
            let second = model::run(&program, other);
            same(&program, &first, &second).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            races::check(&program, &second.fetched, &second.races)
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        for operation in &program.operations {
            kinds[match operation.kind {
                Kind::Put => 0,
                Kind::Get => 1,
                Kind::Accumulate(_) => 2,
                Kind::GetAccumulate(_) => 3,
                Kind::CompareAndSwap => 4,
            }]
            .fetch_add(1, Ordering::Relaxed);
        }
    });
    let kinds = kinds.map(AtomicUsize::into_inner);
    let all: usize = kinds.iter().sum();
    // One seed alone has not all of them.
    assert!(
        all < 5_000 || kinds.iter().all(|&number| number > all / 40),
        "{kinds:?}"
    );
}

/// Whether two outcomes are the same as far as they are defined.
fn same(program: &Program, a: &model::Outcome, b: &model::Outcome) -> Result<(), String> {
    for (number, operation) in program.operations.iter().enumerate() {
        let (Some(a), Some(b)) = (&a.fetched[number], &b.fetched[number]) else {
            continue;
        };
        if operation.defined && !operation.there.elem.same(a, b) {
            return Err(format!("operation {number} {operation:?}: {a:?}, {b:?}"));
        }
    }
    for rank in 0..program.ranks as usize {
        let checks = program.steps[rank].iter().filter_map(|step| match step {
            Step::Check {
                window,
                approximate,
                races,
            } => Some((window, approximate, races)),
            _ => None,
        });
        for (check, (window, approximate, races)) in checks.enumerate() {
            let (mut a, mut b) = (a.checked[rank][check].clone(), b.checked[rank][check].clone());
            for elements in approximate {
                let size = elements.elem.extent;
                for at in (elements.range()).step_by(size) {
                    let of = |memory: &[u8]| -> Vec<u8> {
                        elements
                            .elem
                            .bytes()
                            .iter()
                            .map(|byte| memory[at + byte])
                            .collect()
                    };
                    if elements.elem.same(&of(&a), &of(&b)) {
                        a[at..at + size].fill(0);
                        b[at..at + size].fill(0);
                    }
                }
            }
            for &race in races.iter().filter(|&&race| model::is_open(program, race)) {
                let about = &program.races[race];
                let len = about.initial.len() / about.elem.size() * about.elem.extent;
                a[about.at..about.at + len].fill(0);
                b[about.at..about.at + len].fill(0);
            }
            if let Some(at) = (0..a.len()).find(|&at| a[at] != b[at]) {
                return Err(format!(
                    "check {check} of rank {rank}: window {window} differs at byte {at}"
                ));
            }
        }
    }
    Ok(())
}

/// Random programs, by all ways to the targets' memory.
#[test]
fn random_programs() {
    check("random_programs", 150, |seed| {
        let program = generate::generate(seed);
        run::run(program, options(seed));
    });
}

/// These programs do nothing undefined, so no conflict is found in them.
#[test]
fn nothing_conflicts() {
    check("one_sided::nothing_conflicts", 40, |seed| {
        let program = generate::generate(seed);
        let options = Options {
            check: true,
            ..options(seed)
        };
        run::run(program, options);
    });
}

fn options(seed: u64) -> Options {
    let mut options = Options::random(seed);
    let ways = [
        Access::Messages,
        Access::Auto,
        Access::Attach,
        Access::Direct,
        Access::Rdma,
    ];
    options.windows = ways[seed as usize % ways.len()];
    let has_hardware =
        matches!(options.windows, Access::Attach | Access::Direct) && (seed / 5).is_multiple_of(2);
    if options.windows == Access::Rdma || has_hardware {
        let windows = options.windows;
        by_lanes(seed, &mut options);
        options.windows = windows;
        options.conditions.limits.needs_target &= !has_hardware;
    }
    options
}

/// Remote memory is written and read by hardware, where the kernel does not copy it.
fn by_hardware(options: &mut Options) {
    by_lanes(0, options);
    options.conditions.limits.needs_target = false;
    options.windows = Access::Attach;
}

/// Windows use the lanes' one-sided operations, where those are right for an operation.
fn by_lanes(seed: u64, options: &mut Options) {
    options.windows = Access::Rdma;
    options.rma = true;
    options.conditions.failed_reads_permille = 0;
    let limits = &mut options.conditions.limits;
    (limits.rma, limits.write) = (true, true);
    limits.needs_target = (seed / 5).is_multiple_of(2);
}
