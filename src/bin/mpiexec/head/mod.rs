//! The head of a job: one loop over all events. It serves PMI, decides what happens to the job, and writes the ranks' output.
//! What starts and watches ranks is an [`Agent`] for each machine: one in this process, the others behind [`Peers`].

mod commands;
mod effects;
mod ending;
mod input;
mod links;
mod names;
mod peers;
mod reports;
mod sinks;
mod spawn;

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sched::CpuSet;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use weft::tools::{ProcessSet, random};

use crate::agent::Agent;
use crate::cli::Plan;
use crate::events::{Source, wait_until};
use crate::outcome::{End, Failure, STATUS_LAUNCHER};
use crate::output::Sink;
use crate::output_files::OutputFiles;
use crate::placement::{Placement, Taken};
use crate::process::Inherited;
use crate::program::Program;
use crate::server::{Facts, Server};
use crate::watchdog::Watchdog;
use crate::wire::{FromAgent, Input, JobStart, ToAgent};
use input::Keyboard;
use links::Links;
use names::Names;
use peers::Peers;
use reports::{Asked, Reason};
use spawn::Children;
pub use spawn::Parent;

/// How long ranks have to end after they were asked to, before they are killed.
const GRACE: Duration = Duration::from_secs(2);
/// How long a wrapper (`sh -c`) has to end by itself after the MPI program in it died, because its exit status says more.
const WRAPPER_GRACE: Duration = Duration::from_millis(200);
/// How long output and orphans are waited for after the last rank's end.
const LAST_WAIT: Duration = Duration::from_secs(2);
/// How long a process that is ending may take, while a rank's call of `MPI_Abort` waits for that.
const EXIT_TIME: Duration = Duration::from_secs(2);

/// Signals that are passed on to the ranks.
const FORWARDED: [Signal; 8] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

struct Rank {
    program: String,
    /// Before each of its lines of output.
    prefix: String,
    /// Index of its host.
    host: usize,
    /// Once it was started.
    pid: Option<i32>,
    /// It has ended, will never be started, or its host is lost.
    gone: bool,
    /// How it has ended.
    end: Option<End>,
    /// It has called `MPI_Abort`: its end adds no information.
    aborts: bool,
    /// When the wrapper's time to end by itself is over.
    wrapper_deadline: Option<Instant>,
}

/// A rank has called `MPI_Abort`. It may have done so because it has lost another rank, whose end is the real reason.
struct Abort {
    /// The message.
    message: String,
    code: i32,
    /// When it counts, even if other ranks are ending.
    believe_at: Instant,
    /// Whether each host has said that nothing there is just ending.
    settled: Vec<bool>,
}

/// Whether and why the job is ending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    No,
    /// Ranks were asked to end; at that time they are killed.
    Asked {
        kill_at: Instant,
    },
    Killed,
}

/// Who has started a job.
pub enum Origin {
    /// A user, by the command line.
    User,
    /// A rank of another job, by the head of that one.
    Spawned(Parent),
    /// The only rank, which runs already.
    Rank {
        /// Its process.
        pid: Pid,
        /// Its connection.
        socket: OwnedFd,
    },
}

/// A running job.
pub struct Job {
    epoll: Rc<Epoll>,
    signals: SignalFd,
    server: Server,
    ranks: Vec<Rank>,
    /// Those that are not gone.
    running: usize,
    /// The agent in this process.
    agent: Agent,
    /// The index of its host; there may be none with ranks.
    own_host: Option<usize>,
    peers: Peers,
    /// One sink, or two: of standard output and standard error.
    sinks: Vec<Sink>,
    /// Whether a sink waits until it can be written; its streams are not read while it is full.
    sink_waits: Vec<bool>,
    sink_full: Vec<bool>,
    keyboard: Option<Keyboard>,
    ending: Ending,
    /// The first call of `MPI_Abort`, until it counts.
    abort: Option<Abort>,
    /// The signal that ends the job.
    interrupted: Option<Signal>,
    /// Some output could not be written.
    output_lost: bool,
    /// What takes output instead of the sinks, or too.
    files: OutputFiles,
    print_all_exitcodes: bool,
    /// The first failure's exit status.
    status: Option<u8>,
    deadline: Option<(Instant, Duration)>,
    /// The ranks were asked what they wait for.
    asked: Option<Asked>,
    /// When to stop waiting for orphans and output; set at the last rank's end.
    last_wait: Option<Instant>,
    verbose: bool,
    /// How it was started, for jobs that it spawns.
    plan: Plan,
    /// The slots that its ranks take.
    taken: Vec<Taken>,
    /// The job's id.
    id: String,
    /// The number of its program for each rank.
    app_of: Vec<u32>,
    inherited: Inherited,
    /// Jobs that it has spawned.
    children: Children,
    /// The head that has spawned it.
    parent: Option<Parent>,
    names: Names,
    /// Jobs that it is connected with.
    links: Links,
    /// Why it ends early, in words.
    reason: Option<String>,
    /// That is because a host is lost.
    has_lost_host: bool,
    /// The program that can't be started.
    guilty: Option<usize>,
    /// Its rank was there before it, and lives and ends by itself.
    is_adopted: bool,
    /// This rank, until it is the agent's.
    adopted: Option<(Pid, OwnedFd)>,
}

/// Runs the job to its end; its exit status. `programs` and `cpus` are for the ranks on this machine.
pub fn run(
    plan: &Plan,
    placement: &Placement,
    programs: &[Option<Program>],
    cpus: &[Option<CpuSet>],
    mut origin: Origin,
) -> Result<u8, Failure> {
    let ran = set_up(plan, placement, &mut origin);
    let mut job = match (ran, origin) {
        (Ok(job), _) => job,
        (Err(failure), Origin::Spawned(mut parent)) => {
            parent.refuse(&failure.message, None);
            return Ok(0);
        }
        (Err(failure), _) => return Err(failure),
    };
    match job.adopted.take() {
        Some((pid, socket)) => job.adopt(pid, socket),
        None => job.start_all(plan, placement, programs, cpus),
    }
    job.run_loop();
    job.tell_statuses();
    job.peers.end();
    // The head that has spawned it takes over only what is this job's own fault.
    let is_excused = job.parent.as_ref().is_some_and(Parent::was_refused)
        || job.parent.is_some() && job.links.have_ended_it();
    let spawned = job.children.status();
    job.agent.clean_up();
    let own = match job.status {
        None | Some(0) if job.output_lost => STATUS_LAUNCHER,
        status => status.unwrap_or(0),
    };
    Ok(match own {
        _ if is_excused => 0,
        0 => spawned.unwrap_or(0),
        own => own,
    })
}

fn set_up(plan: &Plan, placement: &Placement, origin: &mut Origin) -> Result<Job, Failure> {
    let failed = |what: &str, error: &dyn std::fmt::Display| Failure::launcher(format!("{what}: {error}"));
    let id = job_id().map_err(|error| failed("the job gets no name", &error))?;
    let watchdog = Watchdog::start(&id).map_err(|error| failed("the watchdog can't be started", &error))?;
    nix::sys::prctl::set_child_subreaper(true)
        .map_err(|error| failed("this process can't adopt orphans", &error))?;
    let mut handled: SigSet = FORWARDED.into_iter().collect();
    handled.add(Signal::SIGCHLD);
    let inherited =
        Inherited::replace(&handled).map_err(|error| failed("signals can't be blocked", &error))?;

    let mut job = Job::new(plan, placement, &id, watchdog, &handled, inherited)
        .map_err(|error| failed("the job can't be set up", &error))?;
    if let Origin::Spawned(parent) = origin {
        (parent.connection().watch(&job.epoll, Source::Parent, 0))
            .map_err(|errno| failed("the job can't be set up", &errno))?;
    }
    match std::mem::replace(origin, Origin::User) {
        Origin::User => {}
        Origin::Spawned(mut parent) => {
            job.server.put_before(parent.take_preput());
            job.parent = Some(parent);
        }
        Origin::Rank { pid, socket } => {
            job.is_adopted = true;
            job.adopted = Some((pid, socket));
        }
    }
    Ok(job)
}

fn job_id() -> weft::Result<String> {
    Ok(format!("weft-{}-{}", std::process::id(), random::hexadecimal()?))
}

/// The number of its program for each rank.
fn programs_of_ranks(plan: &Plan) -> impl Iterator<Item = u32> {
    let apps = plan.apps.iter().zip(0..);
    apps.flat_map(|(app, number)| (0..app.count).map(move |_| number))
}

impl Job {
    fn new(
        plan: &Plan,
        placement: &Placement,
        id: &str,
        watchdog: Watchdog,
        handled: &SigSet,
        inherited: Inherited,
    ) -> std::io::Result<Job> {
        let own_host = placement.hosts.iter().position(|host| host.is_this);
        // One machine may have several names.
        let host_of = |host: usize| match placement.hosts[host].is_this {
            true => own_host.unwrap_or(host),
            false => host,
        };
        let hosts: Vec<usize> = placement.of_rank.iter().map(|&host| host_of(host)).collect();
        let kinds = |app: u32| plan.apps[app as usize].memory_alloc_kinds.clone();
        let ranks: Vec<Rank> = (programs_of_ranks(plan).zip(&hosts).enumerate())
            .map(|(rank, (app, &host))| Rank {
                program: plan.apps[app as usize].program.display().to_string(),
                prefix: match plan.prefix {
                    true => format!("[{rank}] "),
                    false => String::new(),
                },
                host,
                pid: None,
                gone: false,
                end: None,
                aborts: false,
                wrapper_deadline: None,
            })
            .collect();
        let facts = Facts {
            job: id.to_string(),
            appnums: programs_of_ranks(plan).collect(),
            universe_size: placement.universe_size,
            agents: vec![std::process::id(); placement.hosts.len()],
            hosts,
            memory_alloc_kinds: programs_of_ranks(plan).map(kinds).collect(),
        };
        let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
        let mut sinks = vec![Sink::new(&stdout)?];
        if !Sink::same(&stdout, &stderr) {
            sinks.push(Sink::new(&stderr)?);
        }
        let epoll = Rc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        let signals = SignalFd::with_flags(handled, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Source::Signals.readable(&epoll, &signals, 0)?;
        Ok(Job {
            agent: Agent::new(epoll.clone(), watchdog),
            own_host,
            peers: Peers::new(epoll.clone(), placement),
            epoll,
            signals,
            server: Server::new(facts),
            running: ranks.len(),
            ranks,
            sink_waits: vec![false; sinks.len()],
            sink_full: vec![false; sinks.len()],
            sinks,
            keyboard: None,
            ending: Ending::No,
            abort: None,
            interrupted: None,
            status: None,
            deadline: plan.timeout.map(|timeout| (Instant::now() + timeout, timeout)),
            asked: None,
            output_lost: false,
            files: OutputFiles::new(plan.files.clone()),
            print_all_exitcodes: plan.print_all_exitcodes,
            last_wait: None,
            verbose: plan.verbose,
            plan: plan.clone(),
            taken: placement.taken(),
            id: id.to_string(),
            app_of: programs_of_ranks(plan).collect(),
            inherited,
            children: Children::default(),
            parent: None,
            names: Names::by(plan.name_server.as_deref()),
            links: Links::default(),
            reason: None,
            has_lost_host: false,
            guilty: None,
            is_adopted: false,
            adopted: None,
        })
    }

    /// Takes over the only rank.
    fn adopt(&mut self, pid: Pid, socket: OwnedFd) {
        if let Err(error) = self.agent.adopt(pid, socket) {
            self.fail(
                format!("the process {pid} can't be watched: {error}"),
                STATUS_LAUNCHER,
            );
            self.give_up_ranks(|_| true);
        }
        self.take_all();
        self.after_exit();
    }

    fn start_all(
        &mut self,
        plan: &Plan,
        placement: &Placement,
        programs: &[Option<Program>],
        cpus: &[Option<CpuSet>],
    ) {
        let inherited = self.inherited.clone();
        let process_sets = plan.process_sets();
        let first_is_here = self.ranks.first().map(|rank| rank.host) == self.own_host;
        let at_keyboard = nix::unistd::isatty(std::io::stdin()).unwrap_or(false);
        let input = match first_is_here && !at_keyboard {
            true => Input::Inherit,
            false => Input::Pipe,
        };
        let start_of = |host: usize| JobStart {
            job: self.id.clone(),
            apps: plan.apps.clone(),
            ranks: (self.ranks.iter().zip(0..).zip(&self.app_of))
                .filter(|((rank, _), _)| rank.host == host)
                .map(|((_, number), &app)| (number, app))
                .collect(),
            size: self.ranks.len() as u32,
            process_sets: (!process_sets.is_empty()).then(|| ProcessSet::encode(&process_sets)),
            bind: plan.bind,
            map_by: plan.map_by,
            report_bindings: plan.report_bindings,
            at_terminal: nix::unistd::isatty(std::io::stdout()).unwrap_or(false),
            input,
        };
        let starts: Vec<JobStart> = (0..placement.hosts.len()).map(start_of).collect();
        // The other machines take longer.
        if let Err(failure) = self.peers.start(plan, &placement.launcher, &starts, &inherited) {
            self.fail(failure.message, failure.status);
            self.give_up_ranks(|_| true);
        }
        for child in self.peers.children() {
            self.agent.spare(child);
        }
        if let Some(start) = self.own_host.map(|host| &starts[host])
            && self.running > 0
        {
            self.agent.start(start, programs, cpus, &inherited);
        }
        if input == Input::Pipe {
            self.keyboard = Some(Keyboard::new(at_keyboard, !first_is_here));
            self.watch_keyboard();
        }
        self.take_all();
        self.after_exit();
    }

    fn run_loop(&mut self) {
        let mut events = [EpollEvent::empty(); 64];
        self.flush_sinks();
        while !self.is_over() {
            let timeout = wait_until(self.next_time());
            let count = match self.epoll.wait(&mut events, timeout) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(errno) => {
                    self.fail(format!("waiting for events failed: {errno}"), STATUS_LAUNCHER);
                    self.kill_all();
                    return;
                }
            };
            for event in &events[..count] {
                self.handle(event.data());
                self.take_all();
            }
            self.agent.handle_time();
            self.handle_time();
            self.agent.settle();
            self.take_all();
            self.judge_reports();
            self.judge_abort();
            self.take_all();
            self.flush_sinks();
            self.peers.flush();
        }
    }

    fn handle(&mut self, data: u64) {
        match Source::of(data) {
            Some((Source::Signals, _)) => self.handle_signals(),
            Some((Source::Terminal, _)) => self.read_keyboard(),
            // All sinks are flushed after each round.
            Some((Source::Sink, _)) | None => {}
            Some((
                source @ (Source::FromPeer | Source::ToPeer | Source::PeerErrors | Source::Port),
                number,
            )) => self.peers.handle(source, number),
            Some((Source::Parent, _)) => self.read_parent(),
            Some((Source::Names, _)) => self.attend_service(),
            Some((Source::Child, number)) => self.read_child(number),
            Some((source, number)) => self.agent.handle(source, number),
        }
    }

    /// Takes what agents have told.
    fn take_all(&mut self) {
        loop {
            let own = self.agent.take_told();
            let others = self.peers.take_told();
            for line in self.peers.take_words() {
                self.say(&line);
            }
            let failures = self.peers.take_failures();
            if own.is_empty() && others.is_empty() && failures.is_empty() {
                return self.tell_of_start();
            }
            for message in own {
                if let Some(host) = self.own_host {
                    self.take(host, message);
                }
            }
            for (host, message) in others {
                self.take(host, message);
            }
            for (host, failure) in failures {
                self.has_lost_host |= self.ending == Ending::No;
                self.fail(failure.message, failure.status);
                self.give_up_ranks(|rank| rank.host == host);
            }
        }
    }

    fn take(&mut self, host: usize, message: FromAgent) {
        // An agent speaks only of its own ranks.
        let is_its = |rank: u32| {
            self.ranks
                .get(rank as usize)
                .is_some_and(|known| known.host == host)
        };
        match message {
            FromAgent::Hello { pid } => self.server.set_agent(host, pid),
            FromAgent::Started { rank, pid, bound } if is_its(rank) => {
                self.started(rank as usize, pid, bound)
            }
            FromAgent::Failed { message, status } => {
                let first = (self.ranks.iter()).position(|rank| rank.host == host && rank.pid.is_none());
                self.guilty = first.map(|rank| self.app_of[rank] as usize);
                let message = match self.is_own(host) {
                    true => message,
                    false => format!("on host {}: {message}", self.peers.name(host)),
                };
                self.fail(message, status);
                self.give_up_ranks(|rank| rank.host == host && rank.pid.is_none());
            }
            FromAgent::Line { rank, pid, line } if is_its(rank) => self.take_line(rank as usize, pid, &line),
            FromAgent::Broken { rank, error } if is_its(rank) => self.broke_protocol(rank as usize, &error),
            FromAgent::Output { rank, stream, bytes } if is_its(rank) && stream < 2 => {
                let (rank, number) = (rank as usize, usize::from(stream));
                let (own, failure) = self
                    .files
                    .put(rank, number, (host, self.peers.name(host)), &bytes);
                if let Some(why) = failure {
                    self.output_lost = true;
                    self.say(&why);
                }
                if own {
                    return;
                }
                let sink = self.sink_of(number);
                let prefix = self.ranks[rank].prefix.as_bytes();
                self.sinks[sink].put(2 * rank + number, prefix, &bytes);
            }
            FromAgent::InnerEnded { rank } if is_its(rank) => self.inner_ended(rank as usize),
            FromAgent::Ended { rank, end } if is_its(rank) => self.exited(rank as usize, end),
            FromAgent::Settled => {
                if let Some(abort) = &mut self.abort {
                    abort.settled[host] = true;
                }
            }
            FromAgent::Linked { job } => self.linked(job),
            FromAgent::LinkAborted { job, code, why } => self.link_aborted(job, code, &why),
            FromAgent::LinkLost { job, why } => self.link_lost(job, &why),
            FromAgent::InputTaken => self.input_taken(),
            FromAgent::InputClosed => self.forget_keyboard(),
            _ => {}
        }
    }

    fn started(&mut self, rank: usize, pid: i32, bound: Option<String>) {
        if self.ranks[rank].gone {
            return;
        }
        self.ranks[rank].pid = Some(pid);
        let host = self.ranks[rank].host;
        let on = match self.is_own(host) {
            true => String::new(),
            false => format!("host {}: ", self.peers.name(host)),
        };
        if let Some(bound) = bound {
            self.say(&format!("{on}{bound}"));
        }
        if self.verbose {
            let text = format!("{on}rank {rank} is process {pid} ({})", self.ranks[rank].program);
            self.say(&text);
        }
    }

    fn is_own(&self, host: usize) -> bool {
        self.own_host == Some(host)
    }

    /// Sends a message to the agent of a host.
    fn send(&mut self, host: usize, message: ToAgent) {
        match self.is_own(host) {
            true => self.agent.obey(message),
            false => self.peers.send(host, message),
        }
    }

    /// Sends a message to all agents.
    fn send_all(&mut self, message: &ToAgent) {
        self.peers.send_all(message);
        self.agent.obey(message.clone());
    }

    /// Whether all ranks have ended, nothing is left of them, and their output is written.
    fn is_over(&self) -> bool {
        let silent = || self.agent.is_silent() && self.sinks.iter().all(Sink::is_empty);
        self.running == 0
            && self.peers.are_gone()
            && self.children.is_empty()
            && self
                .last_wait
                .is_some_and(|last| silent() || (Instant::now() >= last && self.sinks_done()))
    }

    /// When time is up, output that a slow reader has not taken is still waited for; a signal ends that.
    fn sinks_done(&self) -> bool {
        self.sinks.iter().all(Sink::is_empty) || self.ending == Ending::Killed
    }

    fn next_time(&self) -> Option<Instant> {
        let last_wait = self.last_wait.filter(|&last| last > Instant::now());
        let kill_at = match self.ending {
            Ending::Asked { kill_at } if self.running > 0 => Some(kill_at),
            _ => None,
        };
        let wrappers = self.ranks.iter().filter_map(|rank| rank.wrapper_deadline);
        let deadline = self
            .deadline
            .map(|(at, _)| at)
            .filter(|_| self.ending == Ending::No);
        let keyboard = self.keyboard.as_ref().and_then(Keyboard::look_at);
        let asked = self.asked.as_ref().map(Asked::until);
        let now = Instant::now();
        let believe_at = (self.abort.as_ref().map(|abort| abort.believe_at)).filter(|&at| at > now);
        let (agent, peers) = (self.agent.next_time(), self.peers.next_time());
        [
            last_wait,
            kill_at,
            deadline,
            keyboard,
            asked,
            believe_at,
            agent,
            peers,
            self.links.next_time(),
        ]
        .into_iter()
        .flatten()
        .chain(wrappers)
        .min()
    }

    fn handle_time(&mut self) {
        let now = Instant::now();
        self.peers.handle_time(now, self.ending == Ending::No);
        if self
            .keyboard
            .as_ref()
            .and_then(Keyboard::look_at)
            .is_some_and(|at| at <= now)
        {
            self.read_keyboard();
        }
        self.leave_jobs(false);
        if let Ending::Asked { kill_at } = self.ending
            && kill_at <= now
        {
            self.kill_all();
        }
        if let Some((at, limit)) = self.deadline
            && at <= now
            && self.ending == Ending::No
            && self.running > 0
        {
            self.deadline = None;
            self.ask_for_reports(Reason::Time(limit));
        }
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].wrapper_deadline.is_some_and(|at| at <= now) {
                self.ranks[rank].wrapper_deadline = None;
                let message = format!(
                    "{} ended without calling MPI_Finalize; ending the job",
                    self.describe(rank)
                );
                self.fail(message, 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_jobs_have_the_same_name() {
        let (one, other) = (job_id().unwrap(), job_id().unwrap());
        let begin = format!("weft-{}-", std::process::id());
        for id in [&one, &other] {
            let random = id.strip_prefix(&begin).expect("its launcher's number");
            assert!(random.len() == 32 && random.bytes().all(|byte| byte.is_ascii_hexdigit()));
        }
        assert_ne!(one, other);
    }
}
