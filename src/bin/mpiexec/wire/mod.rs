//! What the head and the agents of a job tell each other. For the head's own machine these values are handed over as they
//! are; between machines [`frames`] makes bytes of them.

pub mod frames;

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::bind::{Bind, MapBy};
use crate::cli::App;
use crate::outcome::End;

/// The number of these messages' version; it changes with each change of them.
pub const PROTOCOL: u32 = 2;

/// Standard output or standard error: 0 or 1.
pub type StreamNumber = u8;

/// What an agent needs to start its ranks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobStart {
    /// The job's id.
    pub job: String,
    /// The programs of the whole job, as the command line has them.
    pub apps: Vec<App>,
    /// The ranks of this agent, in order, each with the number of its program.
    pub ranks: Vec<(u32, u32)>,
    /// Number of ranks of the job.
    pub size: u32,
    /// The job's process sets, encoded, where there are any.
    pub process_sets: Option<String>,
    /// What ranks are bound to.
    pub bind: Bind,
    /// In which order.
    pub map_by: MapBy,
    /// Tell where each rank is bound.
    pub report_bindings: bool,
    /// Ranks write to a terminal of their own, because the head does.
    pub at_terminal: bool,
    /// Where rank 0's standard input comes from, if it is one of these ranks.
    pub input: Input,
}

/// Where rank 0's standard input comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// Nowhere.
    Null,
    /// The launcher's own.
    Inherit,
    /// A pipe that is filled with what the head sends.
    Pipe,
}

/// What an agent on another machine takes over from the head's process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Surroundings {
    /// The environment, without what belongs to the head's machine.
    pub environment: Vec<(OsString, OsString)>,
    /// The working directory.
    pub wdir: PathBuf,
    /// The mask of file permissions.
    pub umask: u32,
}

/// From the head to an agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ToAgent {
    /// The first message to another machine.
    Start(Box<JobStart>, Surroundings),
    /// Send this line to the rank.
    Reply { rank: u32, line: String },
    /// Take no more lines from the rank.
    Close { rank: u32 },
    /// This process, below the rank's own, uses PMI: tell when it ends.
    Watch { rank: u32, pid: i32 },
    /// It may end.
    Unwatch { rank: u32 },
    /// The rank has called `MPI_Abort`. Say when no other process is just ending.
    Aborts { rank: u32 },
    /// Send a signal to the process groups of all ranks.
    Signal(i32),
    /// Send SIGKILL to them.
    Kill,
    /// Bytes for rank 0's standard input.
    Input(Vec<u8>),
    /// No more of them.
    InputEnd,
    /// Stop or resume reading what ranks write to these streams.
    Pause { stream: StreamNumber, pause: bool },
    /// Nobody reads these streams any more.
    Drop { stream: StreamNumber },
    /// The job is not connected with this one any more.
    Unlink { job: u64 },
    /// The job is aborted: tell these jobs, which are connected with it.
    AbortLinks { jobs: Vec<u64>, code: i32, why: String },
    /// All ranks of the job have ended: clean up.
    Finish,
    /// The head is there.
    Ping,
}

/// From an agent to the head.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FromAgent {
    /// The agent's process: the first message from another machine.
    Hello { pid: u32 },
    /// A rank runs.
    Started {
        rank: u32,
        pid: i32,
        /// Where it is bound, in words, if that was asked for.
        bound: Option<String>,
    },
    /// A rank can't be started, and no later one of this agent was.
    Failed { message: String, status: u8 },
    /// A line of PMI, with the process that sent it.
    Line {
        rank: u32,
        pid: Option<i32>,
        line: Vec<u8>,
    },
    /// What the rank sent is not PMI.
    Broken { rank: u32, error: String },
    /// Whole lines, or the beginning of one.
    Output {
        rank: u32,
        stream: StreamNumber,
        bytes: Vec<u8>,
    },
    /// The process of [`ToAgent::Watch`] has ended.
    InnerEnded { rank: u32 },
    /// A rank has ended; all that it sent before has been told.
    Ended { rank: u32, end: End },
    /// After [`ToAgent::Aborts`]: no process is just ending.
    Settled,
    /// A rank has passed a link to another job.
    Linked { job: u64 },
    /// Another job says that it was aborted.
    LinkAborted { job: u64, code: i32, why: String },
    /// A link has ended without a goodbye.
    LinkLost { job: u64, why: String },
    /// The bytes of [`ToAgent::Input`] are in the pipe.
    InputTaken,
    /// Rank 0 takes no more input.
    InputClosed,
    /// Nothing is left here: the last message.
    Gone,
    /// The agent is there.
    Ping,
}
