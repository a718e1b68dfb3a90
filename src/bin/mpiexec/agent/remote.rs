//! An agent in a process of its own, on another machine than the head: `mpiexec --agent`. It speaks with the head over its
//! standard input and output, or over a connection to the head's port if an engine has started it. It ends with all of
//! its ranks when the connection ends, or when the head is silent for too long, so a machine that is cut off cleans up by itself.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::{Mode, umask};

use super::Agent;
use crate::bind;
use crate::claims::Claims;
use crate::events::{Source, wait_until};
use crate::launch::port;
use crate::outcome::{Failure, STATUS_LAUNCHER, system_words};
use crate::process::Inherited;
use crate::program::{self, Program};
use crate::watchdog::Watchdog;
use crate::wire::frames::{Frames, Wrong, frame, greeting};
use crate::wire::{FromAgent, Input, JobStart, Surroundings, ToAgent};

/// How often it says that it is there.
const PING: Duration = Duration::from_secs(1);
/// After this silence of the head it ends.
const LOST: Duration = Duration::from_secs(10);
/// How long the head may take to say what to start.
const START: Duration = Duration::from_secs(60);
/// How much may wait to be sent before ranks that write have to wait (bytes).
const PENDING_MAX: usize = 256 * 1024;

/// The connection to the head.
struct Link {
    epoll: Rc<Epoll>,
    from: OwnedFd,
    into: OwnedFd,
    frames: Frames,
    out: VecDeque<u8>,
    waits_for_room: bool,
    heard: Instant,
    /// A head that was stopped by its user says nothing.
    may_be_silent: bool,
    lost: bool,
}

/// Runs an agent; its exit status.
pub fn run() -> u8 {
    // Whoever has started the head's command by hand should know why nothing happens.
    match connect().and_then(serve) {
        Ok(()) => 0,
        Err(message) => {
            eprintln!("mpiexec: {message}");
            STATUS_LAUNCHER
        }
    }
}

fn connect() -> Result<Link, String> {
    let words = |error: std::io::Error| {
        format!(
            "the connection to the head can't be made: {}",
            system_words(&error)
        )
    };
    let of_system = |errno: Errno| words(errno.into());
    let (from, into, own) = match std::env::var(port::VARIABLE) {
        Ok(call) => {
            // SAFETY: the process has one thread.
            unsafe { std::env::remove_var(port::VARIABLE) };
            let host = std::env::var("SLURMD_NODENAME").ok();
            let host = host.or_else(|| nix::unistd::gethostname().ok()?.into_string().ok());
            let stream = port::connect(&call, host.as_deref().unwrap_or_default())?;
            (
                OwnedFd::from(stream.try_clone().map_err(words)?),
                OwnedFd::from(stream),
                false,
            )
        }
        Err(_) => {
            let own = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().map_err(words);
            (
                own(std::io::stdin().as_fd())?,
                own(std::io::stdout().as_fd())?,
                true,
            )
        }
    };
    for fd in [&from, &into] {
        fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(of_system)?;
    }
    let epoll = Rc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(of_system)?);
    Source::FromPeer.readable(&epoll, &from, 0).map_err(of_system)?;
    let mut link = Link {
        epoll,
        from,
        into,
        frames: Frames::default(),
        out: VecDeque::new(),
        waits_for_room: false,
        heard: Instant::now(),
        may_be_silent: false,
        lost: false,
    };
    if own {
        link.out.extend(greeting(""));
    }
    link.send(&FromAgent::Hello {
        pid: std::process::id(),
    });
    link.flush();
    Ok(link)
}

impl Link {
    fn send(&mut self, message: &FromAgent) {
        match frame(message) {
            Some(bytes) => self.out.extend(bytes),
            // No message is longer than what was read at once.
            None => self.lost = true,
        }
    }

    fn flush(&mut self) {
        while !self.out.is_empty() && !self.lost {
            let (front, _) = self.out.as_slices();
            match nix::unistd::write(&self.into, front) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(_) => self.lost = true,
            }
        }
        if self.lost {
            self.out.clear();
        }
        let waits = !self.out.is_empty();
        if waits != self.waits_for_room {
            self.waits_for_room = waits;
            let _ = match waits {
                true => (self.epoll).add(&self.into, Source::ToPeer.event(EpollFlags::EPOLLOUT, 0)),
                false => self.epoll.delete(&self.into),
            };
        }
    }

    /// Sends what is left.
    fn finish(&mut self) {
        let _ = self.epoll.delete(&self.from);
        let until = Instant::now() + LOST;
        self.flush();
        while !self.out.is_empty() && Instant::now() < until {
            let _ = self
                .epoll
                .wait(&mut [EpollEvent::empty(); 4], wait_until(Some(until)));
            self.flush();
        }
    }

    /// Reads what is there, as far as it fits; all messages that are whole.
    fn read(&mut self) -> Result<Vec<ToAgent>, String> {
        let mut buffer = vec![0u8; 64 * 1024];
        match nix::unistd::read(&self.from, &mut buffer) {
            Err(Errno::EINTR | Errno::EAGAIN) => return Ok(Vec::new()),
            Ok(0) | Err(_) => self.lost = true,
            Ok(count) => self.frames.push(&buffer[..count]),
        }
        self.heard = Instant::now();
        let wrong = |wrong: Wrong| match wrong {
            Wrong::NoGreeting => "standard input is not the head of a job".to_string(),
            Wrong::Version(other) => format!("the head of the job has another version: {other}"),
            Wrong::Message(what) => format!("{what} that came from the head of the job"),
        };
        if !self.frames.is_greeted() && self.frames.greeting().map_err(wrong)?.is_none() {
            return Ok(Vec::new());
        }
        let mut messages = Vec::new();
        while let Some(message) = self.frames.next().map_err(wrong)? {
            self.may_be_silent = message == ToAgent::Signal(libc::SIGTSTP);
            messages.push(message);
        }
        Ok(messages)
    }
}

/// Waits for the start, and then runs the job's part.
fn serve(mut link: Link) -> Result<(), String> {
    let mut messages: VecDeque<ToAgent> = VecDeque::new();
    let until = Instant::now() + START;
    while messages.is_empty() {
        let mut events = [EpollEvent::empty(); 4];
        let _ = link.epoll.wait(&mut events, wait_until(Some(until)));
        messages.extend(link.read()?);
        link.flush();
        if link.lost || Instant::now() >= until {
            return Err("the head of the job has not said what to start".into());
        }
    }
    let Some(ToAgent::Start(start, surroundings)) = messages.pop_front() else {
        return Err("the head of the job has not begun with a start".into());
    };
    let epoll = link.epoll.clone();
    match prepare(&epoll, &start, surroundings) {
        Ok(prepared) => {
            work(link, prepared, &start, messages);
            Ok(())
        }
        Err(Failure { message, status }) => {
            link.send(&FromAgent::Failed { message, status });
            link.send(&FromAgent::Gone);
            link.finish();
            Ok(())
        }
    }
}

/// What is needed to start ranks. The claims are held until the end.
struct Prepared {
    agent: Agent,
    signals: SignalFd,
    _claims: Claims,
    cpus: Vec<Option<nix::sched::CpuSet>>,
    programs: Vec<Option<Program>>,
    inherited: Inherited,
}

fn prepare(epoll: &Rc<Epoll>, start: &JobStart, surroundings: Surroundings) -> Result<Prepared, Failure> {
    let failed = |what: &str, error: &dyn std::fmt::Display| Failure::launcher(format!("{what}: {error}"));
    for (name, value) in &surroundings.environment {
        // What `setenv` would refuse can't come from an environment.
        let bytes = name.as_encoded_bytes();
        if bytes.is_empty()
            || bytes.contains(&b'=')
            || bytes.contains(&0)
            || value.as_encoded_bytes().contains(&0)
        {
            continue;
        }
        // SAFETY: the process has one thread.
        unsafe { std::env::set_var(name, value) };
    }
    umask(Mode::from_bits_truncate(surroundings.umask));
    std::env::set_current_dir(&surroundings.wdir).map_err(|error| {
        let wdir = surroundings.wdir.display();
        failed(
            &format!("the working directory '{wdir}' can't be used"),
            &system_words(&error),
        )
    })?;
    let programs: Vec<Option<Program>> = (start.apps.iter().zip(0..))
        .map(|(app, number)| {
            let is_used = start.ranks.iter().any(|&(_, app)| app == number);
            is_used.then(|| program::find(app)).transpose()
        })
        .collect::<Result<_, _>>()?;
    let mut claims = Claims::new();
    let cpus = bind::bindings(start.bind, start.map_by, start.ranks.len(), &mut claims)?;
    let watchdog =
        Watchdog::start(&start.job).map_err(|error| failed("the watchdog can't be started", &error))?;
    nix::sys::prctl::set_child_subreaper(true)
        .map_err(|error| failed("mpiexec can't adopt orphans there", &error))?;
    let handled: SigSet = [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT]
        .into_iter()
        .collect();
    let inherited =
        Inherited::replace(&handled).map_err(|error| failed("signals can't be blocked", &error))?;
    let signals = SignalFd::with_flags(&handled, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .and_then(|signals| Source::Signals.readable(epoll, &signals, 0).map(|()| signals))
        .map_err(|error| failed("signals can't be received", &error))?;
    Ok(Prepared {
        agent: Agent::new(epoll.clone(), watchdog),
        signals,
        _claims: claims,
        cpus,
        programs,
        inherited,
    })
}

fn work(mut link: Link, prepared: Prepared, start: &JobStart, mut messages: VecDeque<ToAgent>) {
    let Prepared {
        mut agent,
        signals,
        _claims,
        cpus,
        programs,
        inherited,
    } = prepared;
    // What the head inherits is not there.
    let mut start = start.clone();
    if start.input == Input::Inherit {
        start.input = Input::Null;
    }
    agent.start(&start, &programs, &cpus, &inherited);
    // That may have taken long, on a slow file system.
    link.heard = Instant::now();
    let mut paused = [false; 2];
    let mut next_ping = Instant::now() + PING;
    let mut awake = Instant::now();
    let mut ends = false;
    let mut events = [EpollEvent::empty(); 64];
    loop {
        for message in messages.drain(..) {
            match message {
                ToAgent::Pause { stream, pause } if stream < 2 => paused[usize::from(stream)] = pause,
                message => agent.obey(message),
            }
        }
        agent.handle_time();
        agent.settle();
        for message in agent.take_told() {
            link.send(&message);
        }
        let now = Instant::now();
        if now.duration_since(awake) > 2 * PING {
            link.heard = now;
        }
        awake = now;
        if now >= next_ping {
            next_ping = now + PING;
            link.send(&FromAgent::Ping);
        }
        link.flush();
        let is_silent = !link.may_be_silent && now.duration_since(link.heard) > LOST;
        if (link.lost || is_silent) && !ends {
            ends = true;
            link.lost = true;
            let _ = link.epoll.delete(&link.from);
            agent.obey(ToAgent::Kill);
            agent.obey(ToAgent::Finish);
        }
        if agent.is_done() {
            break;
        }
        // The head takes no more for now.
        let full = link.out.len() > PENDING_MAX;
        for (stream, &pause) in paused.iter().enumerate() {
            let pause = pause || full;
            agent.obey(ToAgent::Pause {
                stream: stream as u8,
                pause,
            });
        }
        let next = [Some(next_ping), agent.next_time()].into_iter().flatten().min();
        let count = match link.epoll.wait(&mut events, wait_until(next)) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            // Its end kills the ranks, and the watchdog what is left.
            Err(_) => return,
        };
        for event in &events[..count] {
            match Source::of(event.data()) {
                Some((Source::Signals, _)) => {
                    while let Ok(Some(info)) = signals.read_signal() {
                        match info.ssi_signo as i32 {
                            libc::SIGCHLD => agent.reap(),
                            _ => link.lost = true,
                        }
                    }
                }
                Some((Source::FromPeer, _)) if !link.lost => match link.read() {
                    Ok(read) => messages.extend(read),
                    Err(_) => link.lost = true,
                },
                Some((Source::FromPeer | Source::ToPeer, _)) | None => {}
                Some((source, number)) => agent.handle(source, number),
            }
        }
    }
    agent.clean_up();
    link.send(&FromAgent::Gone);
    link.finish();
}
