//! One job from its first process to its last: one loop over all events.

mod ending;
mod forward;
mod pmi;
mod reports;
mod terminal;

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sched::CpuSet;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use weft::tools::ProcessSet;
use weft::tools::locality::Processors;
use weft::tools::pmi1::wire::{Lines, to_hex};

use crate::cli::Plan;
use crate::leftovers::Processes;
use crate::library;
use crate::outcome::{End, Failure, STATUS_LAUNCHER, STATUS_NOT_EXECUTABLE, STATUS_NOT_FOUND};
use crate::output::{Sink, Stream};
use crate::picture::Picture;
use crate::process::{Inherited, Input, Start, Started};
use crate::program::Program;
use crate::server::{Facts, Server};
use crate::watchdog::Watchdog;
use reports::{Asked, Reason};
use terminal::Terminal;

/// How long ranks have to end after they were asked to, before they are killed.
const GRACE: Duration = Duration::from_secs(2);
/// How long a wrapper (`sh -c`) has to end by itself after the MPI program in it died, because its exit status says more.
const WRAPPER_GRACE: Duration = Duration::from_millis(200);
/// How long output and orphans are waited for after the last rank's end.
const LAST_WAIT: Duration = Duration::from_secs(2);
/// The most bytes that wait to be sent to one rank. A client asks for one thing at a time, Weft's client for a card per peer.
const REPLIES_MAX: usize = 1 << 30;
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

/// What an event is about; an epoll event carries its number and the rank's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
enum Source {
    Signals = 0,
    Pmi = 1,
    Stdout = 2,
    Stderr = 3,
    /// The MPI process below a wrapper.
    Inner = 4,
    /// The launcher's standard input, a terminal.
    Terminal = 5,
    /// The pipe to rank 0's standard input.
    Input = 6,
    Sink = 7,
}

impl Source {
    fn event(self, flags: EpollFlags, number: usize) -> EpollEvent {
        EpollEvent::new(flags, (self as u64) << 32 | number as u64)
    }

    fn of(data: u64) -> Option<(Source, usize)> {
        let all = [
            Source::Signals,
            Source::Pmi,
            Source::Stdout,
            Source::Stderr,
            Source::Inner,
            Source::Terminal,
            Source::Input,
            Source::Sink,
        ];
        let source = all.into_iter().find(|&source| source as u64 == data >> 32)?;
        Some((source, (data & 0xffff_ffff) as usize))
    }
}

struct Rank {
    pid: Pid,
    program: String,
    end: Option<End>,
    pmi: Option<OwnedFd>,
    lines: Lines,
    replies: VecDeque<u8>,
    /// The connection had no room for all of them.
    waits_for_room: bool,
    /// Standard output and standard error.
    streams: [Option<Stream>; 2],
    /// Whether [`Job::partials`] has them.
    partial_queued: [bool; 2],
    /// The MPI process, where it is not the rank's own process but somewhere below it.
    inner: Option<Inner>,
    /// It has called `MPI_Abort`: its end adds no information.
    aborts: bool,
    /// When the wrapper's time to end by itself is over.
    wrapper_deadline: Option<Instant>,
}

/// An MPI process somewhere below a rank's own.
struct Inner {
    pid: i32,
    /// Readable when it has ended.
    descriptor: OwnedFd,
}

/// A rank has called `MPI_Abort`. It may have done so because it has lost another rank, whose end is the real reason.
struct Abort {
    /// The message.
    message: String,
    status: u8,
    /// When it counts, even if other ranks are ending.
    believe_at: Instant,
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

/// A running job.
pub struct Job {
    epoll: Epoll,
    signals: SignalFd,
    watchdog: Watchdog,
    server: Server,
    ranks: Vec<Rank>,
    by_pid: HashMap<Pid, usize>,
    /// All processes that were seen, to remove the files that they leave.
    processes: Processes,
    running: usize,
    /// One sink, or two: of standard output and standard error.
    sinks: Vec<Sink>,
    /// Whether a sink waits until it can be written; its streams are not read while it is full.
    sink_waits: Vec<bool>,
    sink_full: Vec<bool>,
    /// When to forward the beginning of a line.
    partials: VecDeque<(Instant, usize, usize)>,
    terminal: Option<Terminal>,
    ending: Ending,
    /// The first call of `MPI_Abort`, until it counts.
    abort: Option<Abort>,
    /// The signal that ends the job.
    interrupted: Option<Signal>,
    /// Some output could not be written.
    output_lost: bool,
    /// The first failure's exit status.
    status: Option<u8>,
    deadline: Option<(Instant, Duration)>,
    /// The ranks were asked what they wait for.
    asked: Option<Asked>,
    /// When to stop waiting for orphans and output; set at the last rank's end.
    last_wait: Option<Instant>,
    verbose: bool,
    /// Whether to print where each rank is bound.
    picture: Option<Picture>,
}

/// Runs the job to its end; its exit status.
pub fn run(
    plan: &Plan,
    programs: &[Program],
    cpus: &[Option<CpuSet>],
    universe_size: u32,
) -> Result<u8, Failure> {
    let failed = |what: &str, error: &dyn std::fmt::Display| Failure::launcher(format!("{what}: {error}"));
    let id = job_id().map_err(|error| failed("no random numbers", &error))?;
    let watchdog = Watchdog::start(&id).map_err(|error| failed("the watchdog can't be started", &error))?;
    nix::sys::prctl::set_child_subreaper(true)
        .map_err(|error| failed("this process can't adopt orphans", &error))?;
    let mut handled: SigSet = FORWARDED.into_iter().collect();
    handled.add(Signal::SIGCHLD);
    let inherited =
        Inherited::replace(&handled).map_err(|error| failed("signals can't be blocked", &error))?;

    let mut job = Job::new(plan, &id, watchdog, &handled, universe_size)
        .map_err(|error| failed("the job can't be set up", &error))?;
    job.start_all(plan, programs, cpus, &id, &inherited);
    job.run_loop();
    job.processes.remove_files();
    job.watchdog.dismiss();
    match job.status {
        None | Some(0) if job.output_lost => Ok(STATUS_LAUNCHER),
        status => Ok(status.unwrap_or(0)),
    }
}

fn job_id() -> std::io::Result<String> {
    let mut random = [0u8; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(format!("weft-{}-{}", std::process::id(), to_hex(&random)))
}

impl Job {
    fn new(
        plan: &Plan,
        id: &str,
        watchdog: Watchdog,
        handled: &SigSet,
        universe_size: u32,
    ) -> std::io::Result<Job> {
        let per_rank = |value: &dyn Fn(usize) -> Option<String>| -> Vec<Option<String>> {
            let counted = plan.apps.iter().enumerate();
            counted
                .flat_map(|(number, app)| (0..app.count).map(move |_| number))
                .map(value)
                .collect()
        };
        let facts = Facts {
            job: id.to_string(),
            appnums: plan
                .apps
                .iter()
                .zip(0..)
                .flat_map(|(app, number)| (0..app.count).map(move |_| number))
                .collect(),
            universe_size,
            launcher_pid: std::process::id(),
            memory_alloc_kinds: per_rank(&|app| plan.apps[app].memory_alloc_kinds.clone()),
        };
        let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
        let mut sinks = vec![Sink::new(&stdout)?];
        if !Sink::same(&stdout, &stderr) {
            sinks.push(Sink::new(&stderr)?);
        }
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let signals = SignalFd::with_flags(handled, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        epoll.add(&signals, Source::Signals.event(EpollFlags::EPOLLIN, 0))?;
        Ok(Job {
            epoll,
            signals,
            watchdog,
            server: Server::new(facts),
            ranks: Vec::new(),
            by_pid: HashMap::new(),
            processes: Processes::new(),
            running: 0,
            sink_waits: vec![false; sinks.len()],
            sink_full: vec![false; sinks.len()],
            sinks,
            partials: VecDeque::new(),
            terminal: None,
            ending: Ending::No,
            abort: None,
            interrupted: None,
            status: None,
            deadline: plan.timeout.map(|timeout| (Instant::now() + timeout, timeout)),
            asked: None,
            output_lost: false,
            last_wait: None,
            verbose: plan.verbose,
            picture: plan.report_bindings.then(Picture::of_this_machine),
        })
    }

    fn start_all(
        &mut self,
        plan: &Plan,
        programs: &[Program],
        cpus: &[Option<CpuSet>],
        id: &str,
        inherited: &Inherited,
    ) {
        let first_input = if nix::unistd::isatty(std::io::stdin()).unwrap_or(false) {
            Input::Pipe
        } else {
            Input::Inherit
        };
        let at_terminal = nix::unistd::isatty(std::io::stdout()).unwrap_or(false);
        let process_sets = plan.process_sets();
        let process_sets = (!process_sets.is_empty()).then(|| ProcessSet::encode(&process_sets));
        let library_paths: Vec<Option<OsString>> = (plan.apps.iter().zip(programs))
            .map(|(app, program)| library::search_path(app.environment("LD_LIBRARY_PATH"), &program.path))
            .collect();
        let apps = plan.apps.iter().zip(programs).zip(&library_paths);
        let starts =
            apps.flat_map(|((app, program), path)| (0..app.count).map(move |_| (app, program, path)));
        for (rank, (app, program, library_path)) in starts.enumerate() {
            let start = Start {
                app,
                program,
                rank,
                size: cpus.len(),
                job: id,
                process_sets: &process_sets,
                library_path: library_path.as_deref(),
                cpus: cpus[rank],
                input: if rank == 0 { first_input } else { Input::Null },
                at_terminal,
                inherited,
            };
            let shown = app.program.display().to_string();
            let added = start.spawn().and_then(|started| {
                self.report_binding(rank, started.pid, cpus[rank].as_ref());
                self.add(rank, started, shown.clone(), plan.prefix)
            });
            if let Err(error) = added {
                let status = match error.raw_os_error() {
                    Some(libc::ENOENT) => STATUS_NOT_FOUND,
                    Some(libc::EACCES | libc::ENOEXEC | libc::EISDIR) => STATUS_NOT_EXECUTABLE,
                    _ => STATUS_LAUNCHER,
                };
                self.fail(format!("rank {rank} ({shown}) can't be started: {error}"), status);
                break;
            }
        }
        self.after_exit();
    }

    /// Prints where a rank is bound, if that was asked for: where it really is, not where it should be.
    fn report_binding(&mut self, rank: usize, pid: Pid, meant: Option<&CpuSet>) {
        if let Some(picture) = &self.picture {
            let meant = meant.map(Processors::from);
            let text = picture.line(rank, &Processors::of_thread(pid.as_raw()), meant.as_ref());
            self.say(&text);
        }
    }

    fn add(&mut self, rank: usize, started: Started, program: String, prefix: bool) -> std::io::Result<()> {
        let Started {
            pid,
            pmi,
            stdout,
            stderr,
            stdin,
        } = started;
        self.watchdog.add(pid);
        self.by_pid.insert(pid, rank);
        self.processes.add(pid.as_raw());
        self.running += 1;
        let prefix = if prefix {
            format!("[{rank}] ")
        } else {
            String::new()
        };
        let stream = |number: usize, fd| Some(Stream::new(2 * rank + number, fd, prefix.clone()));
        self.ranks.push(Rank {
            pid,
            program,
            end: None,
            pmi: Some(pmi),
            lines: Lines::default(),
            replies: VecDeque::new(),
            waits_for_room: false,
            streams: [stream(0, stdout), stream(1, stderr)],
            partial_queued: [false; 2],
            inner: None,
            aborts: false,
            wrapper_deadline: None,
        });
        if self.verbose {
            let text = format!("rank {rank} is process {pid} ({})", self.ranks[rank].program);
            self.say(&text);
        }
        let added = &self.ranks[rank];
        if let Some(pmi) = &added.pmi {
            self.epoll
                .add(pmi, Source::Pmi.event(EpollFlags::EPOLLIN, rank))?;
        }
        for number in 0..2 {
            self.watch_stream(rank, number)?;
        }
        if let Some(stdin) = stdin {
            self.terminal = Some(Terminal::new(stdin));
            self.watch_terminal();
        }
        Ok(())
    }

    fn run_loop(&mut self) {
        let mut events = [EpollEvent::empty(); 64];
        self.flush_sinks();
        while !self.is_over() {
            let count = match self.epoll.wait(&mut events, self.timeout()) {
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
            }
            self.handle_time();
            self.judge_reports();
            self.judge_abort();
            self.flush_sinks();
        }
    }

    fn handle(&mut self, data: u64) {
        match Source::of(data) {
            Some((Source::Signals, _)) => self.handle_signals(),
            Some((Source::Pmi, rank)) => self.receive_pmi(rank),
            Some((Source::Stdout, rank)) => self.read_stream(rank, 0),
            Some((Source::Stderr, rank)) => self.read_stream(rank, 1),
            Some((Source::Inner, rank)) => self.inner_ended(rank),
            Some((Source::Terminal, _)) => self.read_terminal(),
            Some((Source::Input, _)) => self.write_input(),
            // All sinks are flushed after each round.
            Some((Source::Sink, _)) | None => {}
        }
    }

    /// Whether all ranks have ended, nothing is left of them, and their output is written.
    fn is_over(&self) -> bool {
        let silent = || {
            self.ranks
                .iter()
                .all(|rank| rank.streams.iter().all(Option::is_none))
                && self.sinks.iter().all(Sink::is_empty)
        };
        self.running == 0
            && self
                .last_wait
                .is_some_and(|last| silent() || (Instant::now() >= last && self.sinks_done()))
    }

    /// When time is up, output that a slow reader has not taken is still waited for; a signal ends that.
    fn sinks_done(&self) -> bool {
        self.sinks.iter().all(Sink::is_empty) || self.ending == Ending::Killed
    }

    fn timeout(&self) -> EpollTimeout {
        let last_wait = self.last_wait.filter(|&last| last > Instant::now());
        let kill_at = match self.ending {
            Ending::Asked { kill_at } if self.running > 0 => Some(kill_at),
            _ => None,
        };
        let wrappers = self.ranks.iter().filter_map(|rank| rank.wrapper_deadline);
        let partial = self.partials.front().map(|(at, ..)| *at);
        let deadline = self
            .deadline
            .map(|(at, _)| at)
            .filter(|_| self.ending == Ending::No);
        let terminal = self.terminal.as_ref().and_then(Terminal::look_at);
        let asked = self.asked.as_ref().map(Asked::until);
        let believe_at = self.abort.as_ref().map(|abort| abort.believe_at);
        let next = [last_wait, kill_at, partial, deadline, terminal, asked, believe_at]
            .into_iter()
            .flatten()
            .chain(wrappers)
            .min();
        let Some(next) = next else {
            return EpollTimeout::NONE;
        };
        // Rounded up, so that it is past the time when it returns.
        let wait_ms = next
            .saturating_duration_since(Instant::now())
            .as_micros()
            .div_ceil(1000);
        EpollTimeout::try_from(wait_ms.min(i32::MAX as u128) as i32).unwrap_or(EpollTimeout::ZERO)
    }

    fn handle_time(&mut self) {
        let now = Instant::now();
        while self.partials.front().is_some_and(|(at, ..)| *at <= now) {
            let Some((_, rank, number)) = self.partials.pop_front() else {
                break;
            };
            let sink = self.sink_of(number);
            let Some(stream) = &mut self.ranks[rank].streams[number] else {
                continue;
            };
            match stream.flush_if_idle(now, &mut self.sinks[sink]) {
                Some(later) => self.partials.push_back((later, rank, number)),
                None => self.ranks[rank].partial_queued[number] = false,
            }
        }
        if self
            .terminal
            .as_ref()
            .and_then(Terminal::look_at)
            .is_some_and(|at| at <= now)
        {
            self.watch_terminal();
        }
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
