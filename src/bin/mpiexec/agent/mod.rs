//! An agent starts the ranks of one machine and watches them. It decides nothing about the job: what happens goes to the
//! head as [`FromAgent`], and what to do comes as [`ToAgent`]. The head's own machine has its agent inside the head's
//! process; on another one it runs in a process of its own ([`remote`]).

mod ending;
mod input;
mod links;
mod pmi;
pub mod remote;
mod streams;

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sched::CpuSet;
use nix::sys::epoll::{Epoll, EpollFlags};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use weft::tools::locality::Processors;
use weft::tools::pmi1::wire::Lines;

use crate::cli::App;
use crate::events::Source;
use crate::leftovers::Processes;
use crate::library;
use crate::outcome::{STATUS_LAUNCHER, STATUS_NOT_EXECUTABLE, STATUS_NOT_FOUND};
use crate::output::Stream;
use crate::picture::Picture;
use crate::process::{Inherited, Start, Started};
use crate::program::Program;
use crate::watchdog::{Watchdog, kill_orphans, pidfd_open};
use crate::wire::{FromAgent, Input, JobStart, ToAgent};
use input::InputPipe;
use links::{Links, Passed};

/// How long output and orphans are waited for after the job's last rank's end.
const LAST_WAIT: Duration = Duration::from_secs(2);

struct Rank {
    /// Its number in the job.
    number: u32,
    pid: Pid,
    ended: bool,
    pmi: Option<OwnedFd>,
    lines: Lines,
    replies: VecDeque<u8>,
    passed: Passed,
    /// The connection had no room for all of them.
    waits_for_room: bool,
    /// Standard output and standard error.
    streams: [Option<Stream>; 2],
    /// Whether [`Agent::partials`] has them.
    partial_queued: [bool; 2],
    /// The MPI process, where it is not the rank's own process but somewhere below it.
    inner: Option<Inner>,
    /// It has called `MPI_Abort`: its end adds no information.
    aborts: bool,
    /// It was there before, and gets no signals from here.
    is_adopted: bool,
}

impl Rank {
    /// One whose output does not come here.
    fn new(number: u32, pid: Pid, pmi: OwnedFd) -> Rank {
        Rank {
            number,
            pid,
            ended: false,
            pmi: Some(pmi),
            lines: Lines::default(),
            replies: VecDeque::new(),
            passed: Passed::default(),
            waits_for_room: false,
            streams: [None, None],
            partial_queued: [false; 2],
            inner: None,
            aborts: false,
            is_adopted: false,
        }
    }
}

/// An MPI process somewhere below a rank's own.
struct Inner {
    pid: i32,
    /// Readable when it has ended.
    descriptor: OwnedFd,
}

/// The agent of one machine.
pub struct Agent {
    epoll: Rc<Epoll>,
    watchdog: Watchdog,
    ranks: Vec<Rank>,
    by_pid: HashMap<Pid, usize>,
    /// All processes that were seen, to remove the files that they leave.
    processes: Processes,
    running: usize,
    /// Whether standard output, standard error are not read for now.
    paused: [bool; 2],
    /// When to forward the beginning of a line.
    partials: VecDeque<(Instant, usize, usize)>,
    input: Option<InputPipe>,
    /// The head waits for [`FromAgent::Settled`].
    settles: bool,
    /// When to stop waiting for output; set when the job has ended.
    last_wait: Option<Instant>,
    /// What the head has not taken yet.
    told: Vec<FromAgent>,
    /// The ends of children that are no ranks, where the caller has children of its own.
    others: Vec<WaitStatus>,
    /// Children of this process that are not the job's.
    spared: Vec<Pid>,
    /// Links to other jobs.
    links: Links,
}

impl Agent {
    /// Without ranks yet.
    pub fn new(epoll: Rc<Epoll>, watchdog: Watchdog) -> Agent {
        Agent {
            epoll,
            ranks: Vec::new(),
            by_pid: HashMap::new(),
            processes: Processes::new(),
            running: 0,
            paused: [false; 2],
            partials: VecDeque::new(),
            input: None,
            settles: false,
            last_wait: None,
            told: Vec::new(),
            others: Vec::new(),
            spared: vec![watchdog.pid()],
            links: Links::default(),
            watchdog,
        }
    }

    /// Starts the ranks; `programs` has the program of each of `start.apps` that has ranks here, `cpus` the binding of each rank.
    pub fn start(
        &mut self,
        start: &JobStart,
        programs: &[Option<Program>],
        cpus: &[Option<CpuSet>],
        inherited: &Inherited,
    ) {
        let picture = start.report_bindings.then(Picture::of_this_machine);
        let mut known: Vec<Option<(&App, &Program, Option<OsString>)>> = Vec::new();
        known.extend(start.apps.iter().zip(programs).map(|(app, program)| {
            let program = program.as_ref()?;
            let path = library::search_path(app.environment("LD_LIBRARY_PATH"), &program.path);
            Some((app, program, path))
        }));
        for (local, &(rank, app)) in start.ranks.iter().enumerate() {
            let Some(Some((app, program, library_path))) = known.get(app as usize) else {
                let message = format!("rank {rank} can't be started: its program is not in the list");
                return self.tell(FromAgent::Failed {
                    message,
                    status: STATUS_LAUNCHER,
                });
            };
            let cpus = cpus.get(local).copied().flatten();
            let starter = Start {
                app,
                program,
                rank: rank as usize,
                size: start.size as usize,
                local_rank: local,
                local_size: start.ranks.len(),
                job: &start.job,
                process_sets: &start.process_sets,
                library_path: library_path.as_deref(),
                cpus,
                input: if rank == 0 { start.input } else { Input::Null },
                at_terminal: start.at_terminal,
                inherited,
            };
            let added = starter.spawn().and_then(|started| {
                let bound = picture.as_ref().map(|picture| {
                    let meant = cpus.as_ref().map(Processors::from);
                    let bound = Processors::of_thread(started.pid.as_raw());
                    picture.line(rank as usize, &bound, meant.as_ref())
                });
                self.add(rank, started, bound)
            });
            if let Err(error) = added {
                let status = match error.raw_os_error() {
                    Some(libc::ENOENT) => STATUS_NOT_FOUND,
                    Some(libc::EACCES | libc::ENOEXEC | libc::EISDIR) => STATUS_NOT_EXECUTABLE,
                    _ => STATUS_LAUNCHER,
                };
                let shown = app.program.display();
                let message = format!("rank {rank} ({shown}) can't be started: {error}");
                return self.tell(FromAgent::Failed { message, status });
            }
        }
    }

    fn add(&mut self, rank: u32, started: Started, bound: Option<String>) -> std::io::Result<()> {
        let Started {
            pid,
            pmi,
            stdout,
            stderr,
            stdin,
        } = started;
        let local = self.ranks.len();
        self.watchdog.add(pid);
        self.by_pid.insert(pid, local);
        self.processes.add(pid.as_raw());
        self.running += 1;
        Source::Pmi.readable(&self.epoll, &pmi, local)?;
        self.ranks.push(Rank {
            streams: [stdout, stderr].map(|fd| Some(Stream::new(fd))),
            ..Rank::new(rank, pid, pmi)
        });
        self.tell(FromAgent::Started {
            rank,
            pid: pid.as_raw(),
            bound,
        });
        for number in 0..2 {
            self.watch_stream(local, number)?;
        }
        self.input = self.input.take().or(stdin.map(InputPipe::new));
        Ok(())
    }

    /// Takes over a process that runs already as the only rank.
    pub fn adopt(&mut self, pid: Pid, pmi: OwnedFd) -> nix::Result<()> {
        setsockopt(&pmi, sockopt::PassCred, &true)?;
        fcntl(&pmi, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Source::Pmi.readable(&self.epoll, &pmi, 0)?;
        // Without this, the end of the connection tells of its end.
        let inner = pidfd_open(pid.as_raw()).ok().map(|descriptor| {
            self.add_event(&descriptor, Source::Inner, EpollFlags::EPOLLIN, 0);
            Inner {
                pid: pid.as_raw(),
                descriptor,
            }
        });
        self.running += 1;
        self.ranks.push(Rank {
            inner,
            is_adopted: true,
            ..Rank::new(0, pid, pmi)
        });
        self.tell(FromAgent::Started {
            rank: 0,
            pid: pid.as_raw(),
            bound: None,
        });
        Ok(())
    }

    fn tell(&mut self, message: FromAgent) {
        self.told.push(message);
    }

    /// What has happened since the last call.
    pub fn take_told(&mut self) -> Vec<FromAgent> {
        std::mem::take(&mut self.told)
    }

    /// Children that have ended and are no ranks.
    pub fn take_others(&mut self) -> Vec<WaitStatus> {
        std::mem::take(&mut self.others)
    }

    /// A child of this process that is not the job's: it is not killed with the job's orphans.
    pub fn spare(&mut self, child: Pid) {
        self.spared.push(child);
    }

    /// That child has ended.
    pub fn unspare(&mut self, child: Pid) {
        self.spared.retain(|&spared| spared != child);
    }

    /// The place of a rank; another machine may say anything.
    fn local(&self, rank: u32) -> Option<usize> {
        self.ranks.binary_search_by_key(&rank, |rank| rank.number).ok()
    }

    /// Does what the head says.
    pub fn obey(&mut self, message: ToAgent) {
        let of = |agent: &Agent, rank| agent.local(rank);
        match message {
            ToAgent::Reply { rank, line } => {
                if let Some(local) = of(self, rank) {
                    self.ranks[local].replies.extend(line.as_bytes());
                    self.send_replies(local);
                }
            }
            ToAgent::Close { rank } => of(self, rank).into_iter().for_each(|local| self.close_pmi(local)),
            ToAgent::Watch { rank, pid } => of(self, rank)
                .into_iter()
                .for_each(|local| self.watch(local, pid)),
            ToAgent::Unwatch { rank } => of(self, rank).into_iter().for_each(|local| self.unwatch(local)),
            ToAgent::Aborts { rank } => {
                if let Some(local) = of(self, rank) {
                    self.ranks[local].aborts = true;
                }
                self.settles = true;
            }
            ToAgent::Signal(number) => self.signal_groups(number),
            ToAgent::Kill => self.signal_groups(libc::SIGKILL),
            ToAgent::Input(bytes) => self.put_input(&bytes),
            ToAgent::InputEnd => self.end_input(),
            ToAgent::Pause { stream, pause } => self.pause_streams(usize::from(stream), pause),
            ToAgent::Drop { stream } => self.drop_streams(usize::from(stream)),
            ToAgent::Unlink { job } => self.unlink(job),
            ToAgent::AbortLinks { jobs, code, why } => self.abort_links(&jobs, code, &why),
            ToAgent::Finish => {
                self.drop_links();
                if self.last_wait.is_none() {
                    self.last_wait = Some(Instant::now() + LAST_WAIT);
                    kill_orphans(&self.spared);
                }
            }
            ToAgent::Start(..) | ToAgent::Ping => {}
        }
    }

    /// Handles an event of one of its sources.
    pub fn handle(&mut self, source: Source, number: usize) {
        match source {
            Source::Pmi => self.receive_pmi(number),
            Source::Stdout => self.read_stream(number, 0),
            Source::Stderr => self.read_stream(number, 1),
            Source::Inner => self.inner_ended(number),
            Source::Input => self.write_input(),
            Source::Link => self.read_link(number),
            _ => {}
        }
    }

    /// When to call [`Agent::handle_time`] next.
    pub fn next_time(&self) -> Option<Instant> {
        let last = self.last_wait.filter(|&last| last > Instant::now());
        [self.partials.front().map(|(at, ..)| *at), last]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether all output of its ranks was read.
    pub fn is_silent(&self) -> bool {
        (self.ranks.iter()).all(|rank| rank.streams.iter().all(Option::is_none))
    }

    /// Whether the job has ended and no output is waited for any more.
    pub fn is_done(&self) -> bool {
        let waited = |last| self.is_silent() || Instant::now() >= last;
        self.running == 0 && self.last_wait.is_some_and(waited)
    }

    /// Removes what processes have left. Nothing runs any more, or it was killed.
    pub fn clean_up(self) {
        self.processes.remove_files();
        self.watchdog.dismiss();
    }

    fn add_event(&self, fd: impl std::os::fd::AsFd, source: Source, flags: EpollFlags, number: usize) {
        // Without the event, what it would tell is found at the rank's end.
        let _ = self.epoll.add(fd, source.event(flags, number));
    }
}
