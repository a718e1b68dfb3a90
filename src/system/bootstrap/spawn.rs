//! Processes that come and go (MPI 5.0 chapter 11): what a process asks its launcher for, and what it is told.
//!
//! - `hints`: what the user's hints say to every launcher; `soft`: sets of numbers
//! - `program`: where a program is
//! - `plain`: a spawn as launchers other than Weft's take it

mod hints;
mod plain;
mod program;
mod soft;

pub use hints::Hints;
pub(super) use plain::{Plain, PlainCommand};
pub use program::{NoProgram, find_program};

use std::ffi::OsString;

use crate::identity::JobId;

/// Programs to be started as a job of their own (section 11.8).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Spawn {
    /// In order: the ranks of the first command come first.
    pub commands: Vec<Command>,
    /// The port at which the new job's processes find those that have spawned them.
    pub port: String,
}

/// One program of a [`Spawn`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Command {
    /// Its file, as the user wrote it.
    pub program: OsString,
    /// Its arguments, without the program's name.
    pub arguments: Vec<OsString>,
    /// How many processes at most.
    pub count: u32,
    /// The user's hints, reserved keys and others, in the order of the info object.
    pub info: Vec<(String, OsString)>,
}

/// What became of a [`Spawn`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spawned {
    /// How many processes were started. 0: none, and no job was made.
    pub started: u32,
    /// Of each command: how many of its processes were started.
    pub of_command: Vec<u32>,
    /// Of each command: why not all of them were, where that is an error.
    pub errors: Vec<Option<String>>,
}

/// What a launcher tells without being asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A job that this one was connected with is gone, without a goodbye.
    Lost {
        /// The job.
        job: JobId,
        /// The reason, in words.
        why: String,
    },
    /// A job that this one is connected with was aborted with this code: this one ends, too.
    Aborted {
        /// The code of its `MPI_Abort`.
        code: i32,
        /// The reason, in words.
        why: String,
    },
    /// A job that was spawned has ended before its processes came to the port.
    NotConnected {
        /// The number of the spawn.
        spawn: u32,
        /// The reason, in words.
        why: String,
    },
}
