//! Which rank runs on which host.

use std::ffi::OsString;

use crate::cli::Plan;
use crate::hosts;
use crate::outcome::Failure;

/// A host of the job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// As typed: for the launcher command.
    pub name: String,
    /// How many ranks it takes.
    pub slots: u32,
    /// It is this machine.
    pub is_this: bool,
}

/// Where ranks go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Only those that have ranks, in order.
    pub hosts: Vec<Host>,
    /// Index into `hosts` for each rank of the job.
    pub of_rank: Vec<usize>,
    /// `MPI_UNIVERSE_SIZE`.
    pub universe_size: u32,
}

/// What starts agents on other hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Launcher {
    /// ssh, for each host.
    Ssh,
    /// srun, for all at once.
    Slurm,
    /// prterun, for all at once.
    Prrte,
    /// A program that is called like ssh.
    Program(OsString),
}

/// Places the ranks of `plan`.
pub fn place(plan: &Plan) -> Result<Placement, Failure> {
    let typed: Vec<String> = plan.apps.iter().flat_map(|app| app.hosts.clone()).collect();
    let ranks: u32 = plan.apps.iter().map(|app| app.count).sum();
    hosts::place(&typed, ranks)
}
