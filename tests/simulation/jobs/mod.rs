//! Jobs that come and go (MPI 5.0 sections 11.8 to 11.10): they spawn others, meet, make communicators of processes of several jobs,
//! disconnect, finalize, abort and die, in any order.
//!
//! - `plan`: a random script
//! - `program`: the processes that follow it
//! - `model`: who is connected with whom, and what that means
//!
//! The standard's promises: a communicator has the processes that it should, and what is sent on it arrives; MPI_Finalize ends when all
//! processes that are connected have called it, and waits for no others; an abort ends exactly those that are connected, and the death of a
//! process is an error to these and nothing to others. And Weft's: of a process with which nothing connects another one any more nothing is
//! kept.

mod model;
mod plan;
mod program;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use weft::sim::{Options, Simulation, check};

use model::Model;
use plan::Plan;

/// Runs a script; a failure prints it.
fn follow(seed: u64, plan: Plan, options: Options) {
    let sizes: Vec<u32> = (plan.jobs[..plan.at_start].iter())
        .map(|job| job.size as u32)
        .collect();
    let conditions = &options.conditions;
    let forgets = conditions.limits.ordered && conditions.notices_other_jobs;
    let model = Rc::new(RefCell::new(Model::new(plan)));
    let run = AssertUnwindSafe(|| {
        Simulation::of_jobs(seed, &sizes, options)
            .run(|rank| program::program(rank, seed, forgets, model.clone()));
        model.borrow().check();
    });
    if let Err(reason) = catch_unwind(run) {
        // It may be borrowed where the run has failed.
        if let Ok(model) = model.try_borrow() {
            eprintln!("{}", model.report());
        }
        resume_unwind(reason);
    }
}

#[test]
#[ignore]
fn counts() {
    let mut counts = std::collections::BTreeMap::new();
    for seed in 1..=1000 {
        for step in Plan::random(seed, false).steps {
            let text = format!("{step:?}");
            *counts
                .entry(text.split(' ').next().unwrap().to_string())
                .or_insert(0) += 1;
        }
    }
    panic!("{counts:?}");
}

#[test]
fn jobs_come_and_go() {
    check("jobs_come_and_go", 150, |seed| {
        let mut options = Options::random(seed);
        options.steps_max = 2_000_000;
        options.conditions.limits.ordered = !seed.is_multiple_of(8);
        let quiet = seed % 4 == 1;
        options.conditions.notices_other_jobs = !quiet;
        follow(seed, Plan::random(seed, quiet), options);
    });
}
