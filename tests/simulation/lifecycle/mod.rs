//! Init to finalize (MPI 5.0 chapters 3.6, 3.8.4, 7.4, 11.2, 11.3): ranks with the World Model, sessions, or both, send, in
//! buffered mode too, receive, cancel, free requests, make communicators, and end all of that in any order that the standard
//! allows.
//!
//! - `plan`: a random program that the standard allows
//! - `program`: the ranks that follow it
//! - `rooms`: their buffers
//! - `model`: what must become of each message
//!
//! The standard's promises: what was sent and not cancelled is received, once, whole, and in order; what was cancelled
//! is not; each cancel and each wait for what was cancelled ends, also while the receiver is in finalize; a finalize or
//! disconnect ends, but not before everybody concerned has come to it and everything has met its fate; the end of
//! a session whose communicators were all disconnected waits for nobody; the buffers of freed sends are the user's then. A
//! buffered send finds room where there is as much as the standard asks for, and waits for nobody; a buffer's memory is the
//! user's when it is detached, or when that is over to which it was attached.
//! After its last finalize a process closes its lane at once, and what was still in its hands is lost.

mod model;
mod plan;
mod program;
mod rooms;

use std::cell::RefCell;
use std::rc::Rc;

use fastrand::Rng;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use weft::sim::{Options, Simulation, check};

use model::{Model, Rare};
use plan::Plan;

/// Gives what rare things have happened.
fn run(seed: u64) -> FxHashSet<Rare> {
    let plan = Plan::random(seed);
    if std::env::var_os("WEFT_SIM_SEED").is_some() {
        eprintln!("{plan:#?}");
    }
    let mut options = Options::random(seed);
    options.conditions.limits.ordered = !seed.is_multiple_of(8);
    let ranks = plan.ranks;
    let model = Rc::new(RefCell::new(Model::new(plan)));
    Simulation::new(seed, ranks, options).run(|rank| {
        let rng = Rng::with_seed(seed ^ u64::from(rank.me().number() + 1) << 40);
        program::program(rank, rng, model.clone())
    });
    let model = model.borrow();
    model.check();
    model.seen.clone()
}

#[test]
fn lifecycle() {
    let runs: Mutex<FxHashMap<Option<Rare>, u32>> = Mutex::default();
    check("lifecycle", 250, |seed| {
        let seen = run(seed).into_iter().map(Some);
        let mut runs = runs.lock();
        for what in seen.chain([None]) {
            *runs.entry(what).or_default() += 1;
        }
    });
    // Each happens in a fifth of all runs and more.
    let runs = runs.into_inner();
    if runs.get(&None) >= Some(&1000) {
        for rare in Rare::ALL {
            assert!(runs.contains_key(&Some(rare)), "{rare:?} has never happened");
        }
    }
}
