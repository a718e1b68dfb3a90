//! The agents of other machines, seen from the head.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollFlags};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::stat::{Mode, umask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::cli::Plan;
use crate::events::Source;
use crate::launch::{self, environment, port::Port};
use crate::outcome::{Failure, system_words};
use crate::placement::{Launcher, Placement};
use crate::process::Inherited;
use crate::wire::frames::{Frames, Wrong, frame, greeting, version};
use crate::wire::{FromAgent, JobStart, Surroundings, ToAgent};

/// How often each side says that it is there.
pub const PING: Duration = Duration::from_secs(1);
/// After this silence a machine is lost.
const LOST: Duration = Duration::from_secs(6);
/// How long a launcher command may take until the agent speaks.
const CONNECT: Duration = Duration::from_secs(60);
/// How long agents may take to clean up.
const CLEAN_UP: Duration = Duration::from_secs(8);
/// How long the exit status of a launcher command is waited for when its output has ended.
const STATUS_WAIT: Duration = Duration::from_secs(2);
/// The longest line that is passed on from a launcher command (bytes).
const LINE_MAX: usize = 1000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The agent has not spoken.
    Connecting,
    /// Its connection ended before it spoke; why is found at the end of the launcher command.
    Refused,
    Up,
    /// It has ended, or is lost.
    Gone,
}

struct Peer {
    name: String,
    state: State,
    /// Where to write to and to read from.
    link: Option<(OwnedFd, OwnedFd)>,
    out: VecDeque<u8>,
    waits_for_room: bool,
    frames: Frames,
    /// When it last spoke; before that, when its state began.
    heard: Instant,
}

/// A launcher command.
struct Child {
    pid: Pid,
    name: String,
    hosts: Vec<usize>,
    errors: Option<OwnedFd>,
    text: Vec<u8>,
    /// Its lines, held back until it is known whether they explain a failure.
    lines: Vec<String>,
    status: Option<WaitStatus>,
}

/// All of them.
pub struct Peers {
    epoll: Rc<Epoll>,
    /// By host; `None`: this machine.
    peers: Vec<Option<Peer>>,
    names: Vec<String>,
    children: Vec<Child>,
    port: Option<Port>,
    told: Vec<(usize, FromAgent)>,
    words: Vec<String>,
    failures: Vec<(usize, Failure)>,
    next_ping: Instant,
    /// When this was last called: who sleeps itself hears nothing.
    awake: Instant,
    /// When those that have not ended by then are given up.
    finish_by: Option<Instant>,
    verbose: bool,
}

impl Peers {
    /// Those of a placement; nothing is started yet.
    pub fn new(epoll: Rc<Epoll>, placement: &Placement) -> Peers {
        let now = Instant::now();
        let peer = |name: &String| Peer {
            name: name.clone(),
            state: State::Connecting,
            link: None,
            out: VecDeque::new(),
            waits_for_room: false,
            frames: Frames::default(),
            heard: now,
        };
        let hosts = &placement.hosts;
        Peers {
            epoll,
            peers: (hosts.iter())
                .map(|host| (!host.is_this).then(|| peer(&host.name)))
                .collect(),
            names: hosts.iter().map(|host| host.name.clone()).collect(),
            children: Vec::new(),
            port: None,
            told: Vec::new(),
            words: Vec::new(),
            failures: Vec::new(),
            next_ping: now + PING,
            awake: now,
            finish_by: None,
            verbose: false,
        }
    }

    /// Starts the agents, all at once; each gets its part of `starts` as soon as it is there.
    pub fn start(
        &mut self,
        plan: &Plan,
        launcher: &Launcher,
        starts: &[JobStart],
        inherited: &Inherited,
    ) -> Result<(), Failure> {
        if self.is_empty() {
            return Ok(());
        }
        self.verbose = plan.verbose;
        let outcome = self.launch(plan, launcher, starts, &inherited.mask());
        if outcome.is_err() {
            for peer in self.peers.iter_mut().flatten() {
                peer.state = State::Gone;
            }
        }
        outcome
    }

    fn launch(
        &mut self,
        plan: &Plan,
        launcher: &Launcher,
        starts: &[JobStart],
        mask: &SigSet,
    ) -> Result<(), Failure> {
        let failed = |what: &str, error: &std::io::Error| {
            Failure::launcher(format!("{what}: {}", system_words(error)))
        };
        let own_umask = umask(Mode::empty());
        umask(own_umask);
        let surroundings = Surroundings {
            environment: environment::travelling(),
            wdir: std::env::current_dir()
                .map_err(|error| failed("the current directory can't be read", &error))?,
            umask: own_umask.bits(),
        };
        for (peer, start) in self.peers.iter_mut().zip(starts) {
            let Some(peer) = peer else { continue };
            let start = ToAgent::Start(Box::new(start.clone()), surroundings.clone());
            let start = frame(&start).ok_or_else(|| {
                Failure::launcher("the environment is too large to travel to other hosts".into())
            })?;
            peer.out.extend(greeting(""));
            peer.out.extend(start);
        }
        let call = if launch::needs_port(launcher) {
            let port = Port::open().map_err(|error| failed("no port can be opened for agents", &error))?;
            Source::Port
                .readable(&self.epoll, &port, 0)
                .map_err(|errno| failed("the port can't be watched", &errno.into()))?;
            let call = port
                .call()
                .map_err(|error| failed("the addresses of this machine can't be read", &error))?;
            self.port = Some(port);
            Some(call)
        } else {
            None
        };
        let hosts: Vec<(usize, &str)> = (self.peers.iter().enumerate())
            .filter_map(|(number, peer)| Some((number, peer.as_ref()?.name.as_str())))
            .collect();
        let path = plan.launcher_exec.as_deref();
        let launched = launch::start(launcher, path, &hosts, call.as_deref(), mask)?;
        for (number, one) in launched.into_iter().enumerate() {
            let _ = Source::PeerErrors.readable(&self.epoll, &one.errors, number);
            if let (Some(link), Some(&host)) = (one.link, one.hosts.first()) {
                self.connect(host, link);
            }
            self.children.push(Child {
                pid: one.pid,
                name: one.name,
                hosts: one.hosts,
                errors: Some(one.errors),
                text: Vec::new(),
                lines: Vec::new(),
                status: None,
            });
        }
        Ok(())
    }

    fn connect(&mut self, host: usize, link: (OwnedFd, OwnedFd)) {
        if let Some(peer) = self.peers[host].as_mut() {
            let _ = Source::FromPeer.readable(&self.epoll, &link.1, host);
            peer.link = Some(link);
            self.write(host);
        }
    }

    /// Whether the job is on one machine.
    pub fn is_empty(&self) -> bool {
        self.peers.iter().all(Option::is_none)
    }

    /// A host's name.
    pub fn name(&self, host: usize) -> &str {
        &self.names[host]
    }

    /// The launcher commands.
    pub fn children(&self) -> Vec<Pid> {
        self.children.iter().map(|child| child.pid).collect()
    }

    /// For each host, whether its agent has ended; this machine's has not.
    pub fn gone(&self) -> Vec<bool> {
        let gone = |peer: &Peer| peer.state == State::Gone;
        self.peers
            .iter()
            .map(|peer| peer.as_ref().is_some_and(gone))
            .collect()
    }

    /// Whether all have ended.
    pub fn are_gone(&self) -> bool {
        self.peers.iter().flatten().all(|peer| peer.state == State::Gone)
    }

    /// What agents have told since the last call, with their hosts.
    pub fn take_told(&mut self) -> Vec<(usize, FromAgent)> {
        std::mem::take(&mut self.told)
    }

    /// Lines for the user.
    pub fn take_words(&mut self) -> Vec<String> {
        std::mem::take(&mut self.words)
    }

    /// Hosts that were lost.
    pub fn take_failures(&mut self) -> Vec<(usize, Failure)> {
        std::mem::take(&mut self.failures)
    }

    /// Sends a message to one agent.
    pub fn send(&mut self, host: usize, message: ToAgent) {
        let Some(peer) = self.peers[host].as_mut().filter(|peer| peer.state != State::Gone) else {
            return;
        };
        match frame(&message) {
            Some(bytes) => peer.out.extend(bytes),
            None => self.lose(host, "a message to it is too long"),
        }
    }

    /// Sends a message to all.
    pub fn send_all(&mut self, message: &ToAgent) {
        if *message == ToAgent::Finish && !self.are_gone() {
            self.finish_by.get_or_insert(Instant::now() + CLEAN_UP);
        }
        for host in 0..self.peers.len() {
            self.send(host, message.clone());
        }
    }

    /// Writes what is waiting, as far as there is room.
    pub fn flush(&mut self) {
        for host in 0..self.peers.len() {
            let waits = |peer: &Peer| !peer.out.is_empty() && !peer.waits_for_room;
            if self.peers[host].as_ref().is_some_and(waits) {
                self.write(host);
            }
        }
    }

    fn write(&mut self, host: usize) {
        let Some(peer) = self.peers[host].as_mut() else {
            return;
        };
        let Some((into, _)) = &peer.link else { return };
        while !peer.out.is_empty() {
            let (front, _) = peer.out.as_slices();
            match nix::unistd::write(into, front) {
                Ok(count) => drop(peer.out.drain(..count)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                // The end of what comes from there says so, too.
                Err(_) => peer.out.clear(),
            }
        }
        let waits = !peer.out.is_empty();
        if waits != peer.waits_for_room {
            peer.waits_for_room = waits;
            let _ = match waits {
                true => (self.epoll).add(into, Source::ToPeer.event(EpollFlags::EPOLLOUT, host)),
                false => self.epoll.delete(into),
            };
        }
    }

    /// Handles an event of one of its sources.
    pub fn handle(&mut self, source: Source, number: usize) {
        match source {
            Source::FromPeer => self.read(number),
            Source::ToPeer => self.write(number),
            Source::PeerErrors => self.read_errors(number),
            Source::Port => self.accept(),
            _ => {}
        }
    }

    fn read(&mut self, host: usize) {
        let Some(peer) = self.peers.get_mut(host).and_then(Option::as_mut) else {
            return;
        };
        let Some((_, from)) = &peer.link else { return };
        let mut buffer = vec![0u8; 64 * 1024];
        match nix::unistd::read(from, &mut buffer) {
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Ok(0) | Err(_) => self.disconnected(host),
            Ok(count) => {
                peer.heard = Instant::now();
                peer.frames.push(&buffer[..count]);
                self.read_frames(host);
            }
        }
    }

    fn read_frames(&mut self, host: usize) {
        let Some(peer) = self.peers[host].as_mut() else {
            return;
        };
        let outcome = loop {
            if !peer.frames.is_greeted() {
                match peer.frames.greeting() {
                    Ok(Some(_)) => peer.state = State::Up,
                    Ok(None) => break Ok(()),
                    Err(wrong) => break Err(wrong),
                }
                continue;
            }
            peer.state = State::Up;
            match peer.frames.next::<FromAgent>() {
                Ok(Some(FromAgent::Ping)) => {}
                Ok(Some(FromAgent::Gone)) => {
                    return self.close(host);
                }
                Ok(Some(message)) => self.told.push((host, message)),
                Ok(None) => break Ok(()),
                Err(wrong) => break Err(wrong),
            }
        };
        let what = match outcome {
            Ok(()) => return,
            Err(Wrong::NoGreeting) => {
                "what answers there is not mpiexec (does a file that its shell reads at the start print much?)".into()
            }
            Err(Wrong::Version(other)) => {
                format!("its mpiexec has the version {other}, and this one {}: they have to be the same", version())
            }
            Err(Wrong::Message(what)) => what.into(),
        };
        self.lose(host, &what);
    }

    fn close(&mut self, host: usize) {
        if let Some(peer) = self.peers[host].as_mut() {
            peer.state = State::Gone;
            peer.out.clear();
            if let Some((into, from)) = peer.link.take() {
                let _ = self.epoll.delete(&from);
                if peer.waits_for_room {
                    let _ = self.epoll.delete(&into);
                }
            }
        }
    }

    /// Gives a host up.
    fn lose(&mut self, host: usize, why: &str) {
        if self.peers[host]
            .as_ref()
            .is_some_and(|peer| peer.state != State::Gone)
        {
            self.close(host);
            let message = format!("host {}: {why}; ending the job", self.names[host]);
            self.failures.push((host, Failure::launcher(message)));
        }
    }

    fn disconnected(&mut self, host: usize) {
        let Some(peer) = self.peers[host].as_mut() else {
            return;
        };
        match peer.state {
            State::Connecting => {
                if let Some((_, from)) = &peer.link {
                    let _ = self.epoll.delete(from);
                }
                peer.state = State::Refused;
                peer.heard = Instant::now();
                self.judge_refused();
            }
            State::Up => self.lose(host, "its mpiexec was killed or its connection was closed"),
            _ => {}
        }
    }

    fn read_errors(&mut self, number: usize) {
        let Some(child) = self.children.get_mut(number) else {
            return;
        };
        loop {
            let Some(errors) = &child.errors else { break };
            let mut buffer = [0u8; 4096];
            match nix::unistd::read(errors, &mut buffer) {
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Ok(0) | Err(_) => {
                    let _ = self.epoll.delete(errors);
                    child.errors = None;
                    child.text.push(b'\n');
                }
                Ok(count) => child.text.extend_from_slice(&buffer[..count]),
            }
            while let Some(end) = child.text.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = child.text.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).replace(char::is_control, " ");
                let line = line.trim();
                if !line.is_empty() {
                    child.lines.push(line.chars().take(LINE_MAX).collect());
                }
            }
            if child.text.len() > LINE_MAX {
                child.text.push(b'\n');
            }
        }
        self.pass_lines_on();
    }

    /// Passes on what launcher commands print, unless it may be why they fail.
    fn pass_lines_on(&mut self) {
        for child in &mut self.children {
            let is_up = |&host: &usize| {
                self.peers[host]
                    .as_ref()
                    .is_some_and(|peer| peer.state == State::Up)
            };
            if self.verbose || child.hosts.iter().all(is_up) {
                let who = match child.hosts[..] {
                    [host] => format!("host {}", self.names[host]),
                    _ => child.name.clone(),
                };
                self.words
                    .extend(child.lines.drain(..).map(|line| format!("{who}: {line}")));
            }
        }
    }

    /// Takes the ends of launcher commands.
    pub fn reaped(&mut self, ends: &[WaitStatus]) {
        for end in ends {
            let child = self
                .children
                .iter_mut()
                .find(|child| Some(child.pid) == end.pid());
            if let Some(child) =
                child.filter(|_| !matches!(end, WaitStatus::Stopped(..) | WaitStatus::Continued(_)))
            {
                child.status = Some(*end);
            }
        }
        self.judge_refused();
    }

    /// Says why agents could not be started, once that is known.
    fn judge_refused(&mut self) {
        for number in 0..self.children.len() {
            self.read_errors_of(number);
            let child = &self.children[number];
            let with_port = self.port.is_some();
            for host in child.hosts.clone() {
                let Some(peer) = &self.peers[host] else { continue };
                let late = peer.heard.elapsed() > STATUS_WAIT;
                let refused = match peer.state {
                    State::Refused => self.children[number].status.is_some() || late,
                    State::Connecting => with_port && self.children[number].status.is_some(),
                    _ => false,
                };
                if refused {
                    let why = self.why_refused(number);
                    self.lose(host, &why);
                }
            }
        }
    }

    fn read_errors_of(&mut self, number: usize) {
        if self.children[number].status.is_some() && self.children[number].errors.is_some() {
            self.read_errors(number);
        }
    }

    fn why_refused(&self, number: usize) -> String {
        let child = &self.children[number];
        let path = launch::own_path().unwrap_or_default();
        let (name, path) = (&child.name, path.display());
        let words = child
            .lines
            .last()
            .map_or(String::new(), |line| format!(": {line}"));
        match child.status {
            Some(WaitStatus::Exited(_, 127)) if child.hosts.len() == 1 => format!(
                "it has no '{path}', where this mpiexec is: Weft has to be at the same place on all hosts{words}"
            ),
            Some(WaitStatus::Exited(_, 126)) if child.hosts.len() == 1 => {
                format!("'{path}' can't be executed there{words}")
            }
            Some(WaitStatus::Exited(_, 255)) if name == "ssh" => format!("ssh can't reach it{words}"),
            Some(WaitStatus::Exited(_, status)) => {
                format!("{name} ended with status {status} before mpiexec answered from there{words}")
            }
            Some(WaitStatus::Signaled(_, signal, _)) => format!("{name} was killed by {signal}{words}"),
            _ => format!("{name} has closed the connection before mpiexec answered from there{words}"),
        }
    }

    fn accept(&mut self) {
        let Some(port) = &mut self.port else { return };
        for (name, stream, frames) in port.take() {
            let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
            let waits = |peer: &Peer| peer.link.is_none() && peer.state == State::Connecting;
            let fits = |same: &dyn Fn(&str) -> bool| {
                let mut peers = self.peers.iter();
                peers.position(|peer| peer.as_ref().is_some_and(|peer| waits(peer) && same(&peer.name)))
            };
            let host = fits(&|own| own == name).or_else(|| fits(&|own| short(own) == short(&name)));
            let Some(host) = host else { continue };
            let Ok(other) = stream.try_clone() else { continue };
            if let Some(peer) = self.peers[host].as_mut() {
                peer.frames = frames;
                peer.heard = Instant::now();
            }
            self.connect(host, (stream.into(), other.into()));
            self.read_frames(host);
        }
        let all_in = self
            .peers
            .iter()
            .flatten()
            .all(|peer| peer.link.is_some() || peer.state == State::Gone);
        if all_in && let Some(port) = self.port.take() {
            let _ = self.epoll.delete(&port);
        }
    }

    /// When to call [`Peers::handle_time`] next.
    pub fn next_time(&self) -> Option<Instant> {
        let soon = || Instant::now() + Duration::from_millis(20);
        let strangers = self.port.as_ref().is_some_and(Port::has_strangers).then(soon);
        let ping = (!self.are_gone()).then_some(self.next_ping);
        strangers.into_iter().chain(ping).min()
    }

    /// Does what is due; `going`: the job is not ending.
    pub fn handle_time(&mut self, now: Instant, going: bool) {
        if self.is_empty() {
            return;
        }
        // It was stopped, or the machine did not let it run.
        if now.duration_since(self.awake) > 2 * PING {
            for peer in self.peers.iter_mut().flatten() {
                peer.heard = now;
            }
        }
        self.awake = now;
        if self.port.as_ref().is_some_and(Port::has_strangers) {
            self.accept();
        }
        if now >= self.next_ping {
            self.next_ping = now + PING;
            for host in 0..self.peers.len() {
                if self.peers[host]
                    .as_ref()
                    .is_some_and(|peer| peer.state == State::Up)
                {
                    self.send(host, ToAgent::Ping);
                }
            }
            self.judge_refused();
        }
        let overdue = self.finish_by.is_some_and(|by| by <= now);
        for host in 0..self.peers.len() {
            let Some(peer) = &self.peers[host] else { continue };
            let silence = now.duration_since(peer.heard);
            match peer.state {
                // Nothing runs there.
                State::Connecting | State::Refused if !going => self.lose(host, "it is not needed any more"),
                State::Connecting if silence > CONNECT => {
                    let seconds = CONNECT.as_secs();
                    self.lose(
                        host,
                        &format!("mpiexec has not answered from there for {seconds} s"),
                    );
                }
                State::Up if overdue || silence > LOST => {
                    let seconds = LOST.as_secs();
                    self.lose(
                        host,
                        &format!("nothing has come from it for {seconds} s: it is down or cut off"),
                    );
                }
                _ => {}
            }
        }
        self.pass_lines_on();
    }

    /// Ends the launcher commands. Agents have ended, or end when their connections do.
    pub fn end(&mut self) {
        for host in 0..self.peers.len() {
            self.close(host);
        }
        let start = Instant::now();
        loop {
            for child in &mut self.children {
                if child.status.is_none() {
                    // An engine has to end its step in order; ssh has nothing to do any more.
                    let patience = if child.hosts.len() > 1 {
                        STATUS_WAIT
                    } else {
                        Duration::ZERO
                    };
                    let signal = match start.elapsed() {
                        time if time > STATUS_WAIT + patience => Some(Signal::SIGKILL),
                        time if time >= patience => Some(Signal::SIGTERM),
                        _ => None,
                    };
                    signal.map(|signal| kill(child.pid, signal));
                    child.status = match waitpid(child.pid, Some(WaitPidFlag::WNOHANG)) {
                        Ok(WaitStatus::StillAlive) => None,
                        Ok(status) => Some(status),
                        Err(_) => Some(WaitStatus::StillAlive),
                    };
                }
            }
            if self.children.iter().all(|child| child.status.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
