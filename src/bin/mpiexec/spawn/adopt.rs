//! The head of a process that was started without one, and has started this head itself, to spawn (`mpiexec --own-head FD`). The process is
//! the only rank of its job. It lives and ends by itself: the head serves it, and stays for the jobs that it has spawned.

use std::ffi::OsString;

use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Pid;
use weft::tools::own_head::OPTION;

use super::take_descriptor;
use crate::cli::{self, Request};
use crate::head::{self, Origin};
use crate::outcome::{Failure, STATUS_LAUNCHER};
use crate::placement::{self, Placement};

/// Runs it; `descriptor` is the word after the option.
pub fn run(descriptor: Option<&str>) -> u8 {
    let socket = take_descriptor(descriptor);
    // Who has made the pair of sockets.
    let rank = socket.and_then(|socket| {
        let known = getsockopt(&socket, sockopt::PeerCredentials).ok()?;
        Some((Pid::from_raw(known.pid()), socket))
    });
    let Some((pid, socket)) = rank.filter(|(pid, _)| pid.as_raw() > 0) else {
        eprintln!("mpiexec: {OPTION} is for programs of MPI that spawn");
        return STATUS_LAUNCHER;
    };
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).map_or_else(|_| "?".into(), OsString::from);
    let ran = cli::parse(["-n".into(), "1".into(), program]).and_then(|request| match request {
        Request::Run(mut plan) => {
            // The time limit of the environment is for what users start by mpiexec.
            plan.timeout = None;
            // What is wrong with an allocation is told where ranks are placed.
            let universe = placement::place(&mut plan).map_or(1, |placed| placed.universe_size);
            let origin = Origin::Rank { pid, socket };
            head::run(&plan, &Placement::here(universe), &[None], &[None], origin)
        }
        Request::Print(_) | Request::KeepNames(_) => Err(Failure::launcher("the program has no name".into())),
    });
    match ran {
        Ok(status) => status,
        Err(failure) => {
            eprintln!("mpiexec: {}", failure.message);
            failure.status
        }
    }
}
