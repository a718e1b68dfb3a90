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
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use weft::sim::{Options, Simulation, check};

use model::Model;
use plan::{Comm, Job, Plan, Step};

/// Runs a script; a failure prints it.
fn follow(seed: u64, plan: Plan, mut options: Options) {
    // Many times what they take.
    options.steps_max = 2_000_000;
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

/// Whether no lane notices the end of another job's process, so that only launchers tell of it.
fn is_quiet(seed: u64) -> bool {
    seed % 4 == 1
}

/// So many seeds in each run of the tests.
const SEEDS: u64 = 150;

#[test]
fn jobs_come_and_go() {
    check("jobs_come_and_go", SEEDS, |seed| {
        let mut options = Options::random(seed);
        options.conditions.limits.ordered = !seed.is_multiple_of(8);
        options.conditions.notices_other_jobs = !is_quiet(seed);
        follow(seed, Plan::random(seed, is_quiet(seed)), options);
    });
}

#[test]
fn scripts_have_steps_of_every_kind() {
    let plans: Vec<Plan> = (1..=SEEDS)
        .map(|seed| Plan::random(seed, is_quiet(seed)))
        .collect();
    let steps: Vec<&Step> = plans.iter().flat_map(|plan| &plan.steps).collect();
    let kinds: BTreeSet<String> = (steps.iter())
        .map(|step| {
            format!("{step:?}")
                .chars()
                .take_while(|letter| letter.is_alphabetic())
                .collect()
        })
        .collect();
    assert_eq!(kinds.len(), 14, "{kinds:?}");
    let is_wide = |step: &&&Step| matches!(step, Step::Finalize { jobs } if jobs.len() > 2);
    assert!(steps.iter().filter(is_wide).count() > 20);
    let sees_death = |step: &&&Step| matches!(step, Step::Die { witnesses, .. } if !witnesses.is_empty());
    assert!(steps.iter().filter(sees_death).count() > 3);
    let spreads = |step: &&&Step| matches!(step, Step::Abort { jobs, .. } if jobs.len() > 1);
    assert!(steps.iter().filter(spreads).count() > 5);
}

/// Two jobs of one process each, and an intercommunicator of both.
fn two_jobs(steps: impl IntoIterator<Item = Step>) -> Plan {
    let group = |group: &[usize], other: &[usize]| Comm {
        sides: [group.to_vec(), other.to_vec()],
    };
    let meet = Step::Meet {
        comms: [0, 1],
        roots: [0, 0],
        new: 2,
    };
    Plan {
        jobs: [0, 1].map(|first| Job { first, size: 1 }).into(),
        at_start: 2,
        comms: vec![group(&[0], &[]), group(&[1], &[]), group(&[0], &[1])],
        steps: [meet].into_iter().chain(steps).collect(),
        doomed: [1].into(),
        ..Plan::default()
    }
}

/// MPI_Finalize of a job that was connected with one that has died keeps nothing of it either.
#[test]
fn nothing_is_kept_of_the_dead() {
    check("nothing_is_kept_of_the_dead", 30, |seed| {
        let die = Step::Die {
            process: 1,
            job: 1,
            witnesses: vec![(0, 2, 1)],
        };
        let plan = two_jobs([die, Step::Finalize { jobs: vec![0] }]);
        follow(seed, plan, Options::random(seed));
    });
}

/// A job dies while another one says farewell to it: what was to be sent to it is not waited for by a call that blocks.
#[test]
fn a_farewell_to_the_dead_ends() {
    check("a_farewell_to_the_dead_ends", 100, |seed| {
        let fall = Step::Fall {
            process: 1,
            job: 1,
            jobs: vec![0, 1],
            aborts: false,
        };
        let mut plan = two_jobs([fall, Step::Finalize { jobs: vec![0] }]);
        plan.shaky = [0].into();
        follow(seed, plan, Options::random(seed));
    });
}
