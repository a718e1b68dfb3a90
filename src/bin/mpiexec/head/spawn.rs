//! Jobs that ranks of this one have spawned, seen from the head; and the other way round, the head that has spawned this one.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use weft::err;
use weft::tools::Spawned;
use weft::tools::pmi1::{wire, words};

use super::Job;
use super::names::Asker;
use crate::events::Source;
use crate::names::Request;
use crate::outcome::End;
use crate::placement::Taken;
use crate::server::{Effect, SpawnForm};
use crate::spawn::messages::{FromSpawned, Lost, Start, ToSpawned};
use crate::spawn::{self, connection::Connection};

/// How much of a list one line carries (bytes; twice as many digits).
const PART_BYTES: usize = 7 * 1024;

/// The heads of spawned jobs that have not ended.
#[derive(Default)]
pub struct Children {
    all: Vec<Option<Child>>,
    /// The first exit status of one that has ended that is not 0.
    status: Option<u8>,
}

struct Child {
    pid: Pid,
    connection: Connection,
    /// The rank that has asked, in which of its sessions, and how.
    asker: (usize, u32, SpawnForm),
    /// What is still to be told.
    state: State,
    /// The jobs that have published names through it.
    owners: Vec<String>,
    /// The slots that its ranks take.
    taken: Vec<Taken>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The outcome.
    Starting,
    /// Nothing was started.
    Refused,
    /// The end.
    Running,
    /// Its ranks have ended.
    Ended,
}

impl Children {
    /// Whether all have ended.
    pub fn is_empty(&self) -> bool {
        self.all.iter().all(Option::is_none)
    }

    /// The first exit status that is not 0.
    pub fn status(&self) -> Option<u8> {
        self.status
    }

    /// Has them end with all of their ranks.
    pub fn end_all(&mut self) {
        for child in self.all.iter_mut().flatten() {
            child.connection.close();
        }
    }

    /// Passes a signal on to them.
    pub fn signal(&self, signal: Signal) {
        for child in self.all.iter().flatten() {
            // It has not been waited for, so the number is its own.
            let _ = kill(child.pid, signal);
        }
    }

    fn get(&mut self, number: usize) -> Option<&mut Child> {
        self.all.get_mut(number).and_then(Option::as_mut)
    }

    /// Sends a message to one of them.
    pub fn send(&mut self, number: usize, message: &ToSpawned) {
        if let Some(child) = self.get(number) {
            child.connection.send(message);
        }
    }

    /// Whether this is the process of one of them.
    pub fn is(&self, number: usize, pid: Pid) -> bool {
        let child = self.all.get(number).and_then(Option::as_ref);
        child.is_some_and(|child| child.pid == pid)
    }
}

/// The head that has spawned this job.
pub struct Parent {
    connection: Connection,
    /// How many ranks of each program are to be started.
    counts: Vec<u32>,
    /// The slots that they take.
    taken: Vec<Taken>,
    /// Whether it knows what became of the start.
    told: bool,
    /// Nothing was started.
    refused: bool,
    /// Whether any rank was connected with another job.
    connected: bool,
    /// What it puts into the key-value space of this job.
    preput: Vec<(String, String)>,
}

impl Parent {
    /// By its connection; `counts`: how many ranks each program has; `preput`: what is in the key-value space from the start; `taken`: the
    /// slots of the ranks.
    pub fn new(
        connection: Connection,
        counts: Vec<u32>,
        preput: Vec<(String, String)>,
        taken: Vec<Taken>,
    ) -> Parent {
        Parent {
            connection,
            counts,
            preput,
            taken,
            told: false,
            refused: false,
            connected: false,
        }
    }

    /// Sends it a message.
    pub fn send(&mut self, message: &FromSpawned) {
        self.connection.send(message);
    }

    /// Its connection.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// What is in the key-value space of this job from the start.
    pub fn take_preput(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.preput)
    }

    /// A rank is connected with another job.
    pub fn note_connected(&mut self) {
        self.connected = true;
    }

    /// Nothing was started, and it knows why.
    pub fn was_refused(&self) -> bool {
        self.refused
    }

    /// Tells why nothing was started. `guilty`: the program that is the reason. `false`: it was told something before.
    pub fn refuse(&mut self, message: &str, guilty: Option<usize>) -> bool {
        if self.told {
            return false;
        }
        self.told = true;
        self.refused = true;
        // The job that asked goes on.
        let message = without_end(message);
        let mut errors = vec![None; self.counts.len()];
        let outcome = match guilty.and_then(|number| errors.get_mut(number)) {
            Some(error) => {
                *error = Some(message.to_string());
                Ok(Spawned {
                    started: 0,
                    of_command: vec![0; errors.len()],
                    errors,
                })
            }
            None => Err(err!(Spawn, "{message}")),
        };
        self.send(&FromSpawned::Outcome(words::of_outcome(&outcome)));
        true
    }

    fn tell_started(&mut self) {
        self.told = true;
        self.send(&FromSpawned::Taken(self.taken.clone()));
        let outcome = Ok(Spawned {
            started: self.counts.iter().sum(),
            of_command: self.counts.clone(),
            errors: vec![None; self.counts.len()],
        });
        self.send(&FromSpawned::Outcome(words::of_outcome(&outcome)));
    }
}

/// The reason of an end without the words that it is one.
pub(super) fn without_end(message: &str) -> &str {
    message.strip_suffix("; ending the job").unwrap_or(message)
}

impl Job {
    /// A rank asks for a job; `list` is what it wants.
    pub(super) fn spawn(
        &mut self,
        rank: usize,
        form: SpawnForm,
        list: Vec<u8>,
        preput: Vec<(String, String)>,
    ) {
        let number = self.children.all.iter().position(Option::is_none);
        let number = number.unwrap_or_else(|| {
            self.children.all.push(None);
            self.children.all.len() - 1
        });
        let session = self.server.session(rank).unwrap_or(0);
        let asker = (rank, session, form);
        match self.start_child(asker, list, preput, number) {
            Ok(child) => {
                self.agent.spare(child.pid);
                if self.verbose {
                    self.say(&format!(
                        "rank {rank} spawns a job; its mpiexec is process {}",
                        child.pid
                    ));
                }
                self.children.all[number] = Some(child);
            }
            Err(error) => {
                let outcome = Err(err!(
                    Spawn,
                    "the mpiexec of the new job can't be started: {error}"
                ));
                self.tell_outcome(asker, &words::of_outcome(&outcome));
            }
        }
    }

    fn start_child(
        &mut self,
        asker: (usize, u32, SpawnForm),
        list: Vec<u8>,
        preput: Vec<(String, String)>,
        number: usize,
    ) -> io::Result<Child> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, flags)?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("mpiexec")
            .arg(spawn::OPTION)
            .arg(theirs.as_raw_fd().to_string())
            .stdin(Stdio::null())
            .process_group(0);
        let restore = self.inherited.restore();
        let descriptor = theirs.as_raw_fd();
        let prepare = move || {
            restore()?;
            // SAFETY: the descriptor is open until `spawn` returns.
            let theirs = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
            fcntl(theirs, FcntlArg::F_SETFD(FdFlag::empty()))?;
            Ok(())
        };
        // SAFETY: between fork and exec this makes system calls only: no allocation, no lock.
        unsafe { command.pre_exec(prepare) };
        let mut connection = Connection::over(ours)?;
        connection.watch(&self.epoll, Source::Child, number)?;
        // This process reaps all of its children by itself.
        let pid = Pid::from_raw(command.spawn()?.id() as i32);
        let app = self.app_of[asker.0] as usize;
        let mut plan = self.plan.clone();
        plan.apps = plan.apps.into_iter().skip(app).take(1).collect();
        plan.timeout = self
            .deadline
            .map(|(at, _)| at.saturating_duration_since(Instant::now()));
        plan.taken.extend(self.taken.iter().cloned());
        let others = self.children.all.iter().flatten();
        let others = others.filter(|other| other.state != State::Ended);
        plan.taken
            .extend(others.flat_map(|other| other.taken.iter().cloned()));
        connection.send(&ToSpawned::Start(Box::new(Start {
            plan,
            spawn: list,
            preput,
        })));
        Ok(Child {
            pid,
            connection,
            asker,
            state: State::Starting,
            owners: Vec::new(),
            taken: Vec::new(),
        })
    }

    /// Sends a rank what became of a spawn.
    fn tell_outcome(&mut self, (rank, session, form): (usize, u32, SpawnForm), list: &[u8]) {
        // It may have gone on to another program meanwhile.
        if self.server.session(rank) != Some(session) {
            return;
        }
        let SpawnForm::Weft(id) = form else {
            let line = outcome_line(list);
            return self.apply(Effect::Reply { rank, line });
        };
        let mut parts = list.chunks(PART_BYTES).peekable();
        while let Some(part) = parts.next() {
            let more = u8::from(parts.peek().is_some());
            let line = format!(
                "cmd=weft_spawned id={id} more={more} data={}\n",
                wire::to_hex(part)
            );
            self.apply(Effect::Reply { rank, line });
        }
    }

    /// Handles what the head of a spawned job says.
    pub(super) fn read_child(&mut self, number: usize) {
        let Some(child) = self.children.get(number) else {
            return;
        };
        child.connection.flush();
        for message in child.connection.read::<FromSpawned>() {
            self.take_from_child(number, message);
        }
    }

    fn take_from_child(&mut self, number: usize, message: FromSpawned) {
        let Some(child) = self.children.get(number) else {
            return;
        };
        match message {
            FromSpawned::Taken(taken) => child.taken = taken,
            FromSpawned::Outcome(list) => {
                if child.state == State::Starting {
                    let are_some = words::are_some_started(&list);
                    child.state = if are_some { State::Running } else { State::Refused };
                    let asker = child.asker;
                    self.tell_outcome(asker, &list);
                }
            }
            FromSpawned::Name {
                ticket,
                owner,
                request,
            } => {
                if !child.owners.contains(&owner) {
                    child.owners.push(owner.clone());
                }
                let pid = child.pid;
                self.ask_name(Asker::Child { number, pid, ticket }, owner, request);
            }
            FromSpawned::Ended { connected, why, lost } => {
                self.child_ended(number, connected, &why);
                self.job_lost(lost);
            }
        }
    }

    /// The ranks of a spawned job have ended.
    fn child_ended(&mut self, number: usize, connected: bool, why: &str) {
        let Some(child) = self.children.get(number) else {
            return;
        };
        let was = std::mem::replace(&mut child.state, State::Ended);
        let (rank, session, form) = child.asker;
        // Another MPI's client is not told.
        if let SpawnForm::Weft(id) = form
            && was == State::Running
            && !connected
            && self.server.session(rank) == Some(session)
        {
            let line = format!(
                "cmd=weft_not_connected id={id} why={}\n",
                wire::to_hex(why.as_bytes())
            );
            self.apply(Effect::Reply { rank, line });
        }
    }

    /// Takes the ends of heads of spawned jobs.
    pub(super) fn children_reaped(&mut self, ends: &[WaitStatus]) {
        for end in ends {
            let is_it = |child: &Option<Child>| child.as_ref().map(|child| child.pid) == end.pid();
            let Some(number) = self
                .children
                .all
                .iter()
                .position(is_it)
                .filter(|_| end.pid().is_some())
            else {
                continue;
            };
            let Some(how) = End::from_wait(*end) else { continue };
            // What it said before its end counts.
            self.read_child(number);
            let why = "the mpiexec of the spawned job was killed";
            let Some(child) = self.children.get(number) else {
                continue;
            };
            if child.state == State::Starting {
                let asker = child.asker;
                self.tell_outcome(asker, &words::of_outcome(&Err(err!(Spawn, "{why}"))));
            }
            self.child_ended(number, false, why);
            if let Some(mut child) = self.children.all[number].take() {
                child.connection.close();
                self.agent.unspare(child.pid);
                for owner in child.owners {
                    self.ask_name(Asker::Nobody, owner, Request::Forget);
                }
            }
            if how.status() != 0 {
                self.children.status.get_or_insert(how.status());
            }
        }
    }

    /// Handles what the head that has spawned this job says.
    pub(super) fn read_parent(&mut self) {
        let Some(parent) = &mut self.parent else { return };
        parent.connection.flush();
        let messages = parent.connection.read::<ToSpawned>();
        let is_gone = parent.connection.is_closed();
        for message in messages {
            match message {
                ToSpawned::Named { ticket, answer } => self.take_named(ticket, answer),
                ToSpawned::Lost(lost) => self.job_lost(Some(lost)),
                ToSpawned::Start(_) => {}
            }
        }
        if is_gone {
            // It was killed, or its user ends everything.
            self.children.end_all();
            self.kill_all();
        }
    }

    /// Tells the head that has spawned this job once all ranks run.
    pub(super) fn tell_of_start(&mut self) {
        if let Some(parent) = self.parent.as_mut().filter(|parent| !parent.told)
            && self.ranks.iter().all(|rank| rank.pid.is_some())
        {
            parent.tell_started();
        }
    }

    /// A job at the other end of a connection between heads is lost.
    fn job_lost(&mut self, lost: Option<Lost>) {
        let Some(Lost { jobs, why }) = lost else { return };
        for job in jobs {
            self.link_lost(job, &why);
        }
    }

    /// Tells the head that has spawned this job that all ranks have ended; and those of the jobs that it has spawned, if it has lost a host.
    pub(super) fn tell_of_end(&mut self) {
        let why = self
            .reason
            .clone()
            .unwrap_or_else(|| "its processes have ended".to_string());
        let lost = self.has_lost_host.then(|| Lost {
            jobs: self.server.jobs().into_iter().collect(),
            why: without_end(&why).to_string(),
        });
        if let Some(lost) = &lost {
            for child in self.children.all.iter_mut().flatten() {
                child.connection.send(&ToSpawned::Lost(lost.clone()));
            }
        }
        if let Some(parent) = &mut self.parent {
            let connected = parent.connected;
            parent.send(&FromSpawned::Ended {
                connected,
                why,
                lost: lost.clone(),
            });
        }
    }
}

/// What became of a spawn, as a line for clients of other MPIs.
fn outcome_line(list: &[u8]) -> String {
    let refused = |why: &str| {
        let words: Vec<&str> = why.split_whitespace().collect();
        format!("cmd=spawn_result rc=1 msg={}\n", words.join("_"))
    };
    match words::to_any_outcome(list) {
        Err(error) | Ok(Err(error)) => refused(&error.message),
        Ok(Ok(Spawned {
            started: 0, errors, ..
        })) => refused(
            errors
                .iter()
                .flatten()
                .next()
                .map_or("no_process_was_wanted", |why| why),
        ),
        Ok(Ok(_)) => "cmd=spawn_result rc=0 msg=success\n".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_lines() {
        let spawned = |started, error: Option<&str>| {
            words::of_outcome(&Ok(Spawned {
                started,
                of_command: vec![started],
                errors: vec![error.map(str::to_string)],
            }))
        };
        assert_eq!(
            outcome_line(&spawned(2, None)),
            "cmd=spawn_result rc=0 msg=success\n"
        );
        let none = outcome_line(&spawned(0, Some("the program 'a\tb' is not found")));
        assert_eq!(none, "cmd=spawn_result rc=1 msg=the_program_'a_b'_is_not_found\n");
        let error = words::of_outcome(&Err(err!(Spawn, "there is no room")));
        assert_eq!(
            outcome_line(&error),
            "cmd=spawn_result rc=1 msg=there_is_no_room\n"
        );
        assert!(outcome_line(b"nonsense").contains("rc=1"));
    }
}
