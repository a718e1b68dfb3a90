//! What the head of a job and that of a job that it has spawned tell each other. Both run the same program file.

use serde::{Deserialize, Serialize};

use crate::cli::Plan;
use crate::names::{Answer, Request};
use crate::placement::Taken;

/// To the head of a spawned job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ToSpawned {
    /// The first message: what to start.
    Start(Box<Start>),
    /// What became of [`FromSpawned::Name`].
    Named { ticket: u32, answer: Answer },
    /// The job that spawned it has lost a host, and has ended.
    Lost(Lost),
}

/// A job that has ended because it had lost a host, as those connected with it know it: their links to it may have been at that host, and then
/// say nothing for long.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lost {
    /// The numbers by which others know its processes: one for each program that they have run in turn.
    pub jobs: Vec<u64>,
    /// Why, in words.
    pub why: String,
}

/// What to start.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Start {
    /// How the job that spawns was started: options, hosts, the rest of its time limit; its only program is that of the rank that has asked.
    pub plan: Plan,
    /// What the rank asked for, as its list of words.
    pub spawn: Vec<u8>,
    /// What is in the key-value space of the new processes from the start, for programs of other MPIs.
    pub preput: Vec<(String, String)>,
}

/// From the head of a spawned job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FromSpawned {
    /// Before that: the slots that its ranks take.
    Taken(Vec<Taken>),
    /// What became of the start, as a list of words.
    Outcome(Vec<u8>),
    /// A request about a name, of the job `owner`.
    Name {
        ticket: u32,
        owner: String,
        request: Request,
    },
    /// The last of its ranks has ended.
    Ended {
        /// Whether any of them was connected with another job.
        connected: bool,
        /// Why, in words.
        why: String,
        /// If that is because it has lost a host.
        lost: Option<Lost>,
    },
}
