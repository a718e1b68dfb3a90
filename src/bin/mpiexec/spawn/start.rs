//! The head of a spawned job, until the job runs.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weft::tools::pmi1::words;
use weft::tools::{Spawn, Spawned};
use weft::{Result, err};

use super::connection::Connection;
use super::keys;
use super::messages::{FromSpawned, Start, ToSpawned};
use super::take_descriptor;
use crate::claims::Claims;
use crate::head::{self, Origin};
use crate::outcome::{Failure, STATUS_LAUNCHER};
use crate::{bind, placement, program};

/// How long the head that has started this one may take to say what to start, and to take an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the head of a spawned job; `descriptor` is the word after the option. Its exit status: that of the job.
pub fn run(descriptor: Option<&str>) -> u8 {
    let socket = take_descriptor(descriptor);
    let Some(mut parent) = socket.and_then(|socket| Connection::over(socket).ok()) else {
        eprintln!("mpiexec: {} is for mpiexec itself", super::OPTION);
        return STATUS_LAUNCHER;
    };
    // A head that is gone needs no answer.
    let Some(start) = first_message(&mut parent) else {
        return STATUS_LAUNCHER;
    };
    match prepare(&start) {
        Ok(Prepared::Job(job)) => {
            let Job {
                plan,
                placement,
                programs,
                cpus,
                _claims,
            } = *job;
            let apps = plan.apps.iter().map(|app| app.count).collect();
            let origin = Origin::Spawned(head::Parent::new(parent, apps, start.preput, placement.taken()));
            let ran = head::run(&plan, &placement, &programs, &cpus, origin);
            ran.unwrap_or_else(|failure| failure.status)
        }
        Ok(Prepared::Answer(answer)) => refuse(parent, &Ok(answer)),
        Err(error) => refuse(parent, &Err(error)),
    }
}

fn first_message(parent: &mut Connection) -> Option<Start> {
    let until = Instant::now() + PATIENCE;
    loop {
        match parent.read::<ToSpawned>().into_iter().next() {
            Some(ToSpawned::Start(start)) => return Some(*start),
            Some(_) => return None,
            None => wait(parent, PollFlags::POLLIN, until)?,
        }
    }
}

/// Sends the last message.
fn refuse(mut parent: Connection, outcome: &Result<Spawned>) -> u8 {
    parent.send(&FromSpawned::Outcome(words::of_outcome(outcome)));
    let until = Instant::now() + PATIENCE;
    while !parent.flush() && wait(&parent, PollFlags::POLLOUT, until).is_some() {}
    0
}

/// Waits for an event; `None`: time is over, or the connection has ended.
fn wait(connection: &Connection, events: PollFlags, until: Instant) -> Option<()> {
    let socket = connection.socket()?;
    let left = until.checked_duration_since(Instant::now())?;
    let timeout = PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX);
    let _ = poll(&mut [PollFd::new(socket.as_fd(), events)], timeout);
    Some(())
}

/// What is needed to run the job.
struct Job {
    plan: crate::cli::Plan,
    placement: placement::Placement,
    programs: Vec<Option<program::Program>>,
    cpus: Vec<Option<nix::sched::CpuSet>>,
    /// Held until the job has ended.
    _claims: Claims,
}

enum Prepared {
    Job(Box<Job>),
    /// There is nothing to start.
    Answer(Spawned),
}

fn prepare(start: &Start) -> Result<Prepared> {
    let spawn: Spawn = words::to_spawn(&start.spawn)?;
    let mut plan = start.plan.clone();
    let mut errors = keys::apply(&mut plan, &spawn)?;
    let none = |errors: Vec<Option<String>>| {
        Ok(Prepared::Answer(Spawned {
            started: 0,
            of_command: vec![0; errors.len()],
            errors,
        }))
    };
    if errors.iter().any(Option::is_some) || plan.apps.iter().all(|app| app.count == 0) {
        return none(errors);
    }
    let failed = |failure: Failure| err!(Spawn, "{}", failure.message);
    let placement = placement::place(&mut plan).map_err(failed)?;
    let mut programs = Vec::new();
    let (mut first, mut here) = (0, 0);
    for (app, error) in plan.apps.iter().zip(&mut errors) {
        let ranks = first..first + app.count as usize;
        first = ranks.end;
        let own = ranks
            .filter(|&rank| placement.hosts[placement.of_rank[rank]].is_this)
            .count();
        here += own;
        programs.push(match (own > 0).then(|| program::find(app)) {
            Some(Err(failure)) => {
                *error = Some(failure.message);
                None
            }
            Some(Ok(program)) => Some(program),
            None => None,
        });
    }
    if errors.iter().any(Option::is_some) {
        return none(errors);
    }
    let mut claims = Claims::new();
    let cpus = bind::bindings(plan.bind, plan.map_by, here, &mut claims).map_err(failed)?;
    Ok(Prepared::Job(Box::new(Job {
        plan,
        placement,
        programs,
        cpus,
        _claims: claims,
    })))
}
