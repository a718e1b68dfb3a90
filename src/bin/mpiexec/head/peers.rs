//! The agents of other machines, seen from the head.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollFlags};
use nix::sys::signal::SigSet;
use nix::sys::stat::{Mode, umask};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;

use super::commands::Child;
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
/// How long the lines of a launcher command are held back.
const LINES_WAIT: Duration = Duration::from_secs(3);

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
    /// Whether its ranks have been started, or can't be. Until then it is busy with that, and on a slow file system for long.
    has_started: bool,
    /// When it last spoke; before that, when its state began.
    heard: Instant,
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
            has_started: false,
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
        let commands = launch::commands(launcher, path, &hosts)?;
        let launched = launch::start(commands, call.as_deref(), mask)?;
        for (number, one) in launched.into_iter().enumerate() {
            let _ = Source::PeerErrors.readable(&self.epoll, &one.errors, number);
            if let (Some(link), Some(&host)) = (one.link, one.hosts.first()) {
                self.connect(host, link);
            }
            self.children
                .push(Child::new(one.pid, one.name, one.hosts, one.errors));
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
            Source::PeerErrors => {
                if let Some(child) = self.children.get_mut(number) {
                    child.read(&self.epoll);
                }
                self.pass_lines_on();
            }
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
        let outcome = loop {
            let Some(peer) = self.peers[host].as_mut() else {
                return;
            };
            if !peer.frames.is_greeted() {
                match peer.frames.greeting() {
                    Ok(Some(_)) => {}
                    Ok(None) => break Ok(()),
                    Err(wrong) => break Err(wrong),
                }
            }
            if peer.state == State::Connecting {
                peer.state = State::Up;
                self.greeted(host);
                continue;
            }
            let next = peer.frames.next::<FromAgent>();
            peer.has_started |=
                matches!(&next, Ok(Some(message)) if !matches!(message, FromAgent::Hello { .. }));
            match next {
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
            Err(Wrong::Message(what)) => format!("{what}, of those that came from there"),
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

    /// Passes on what launcher commands print. Until the agents speak, it may be the reason why they don't, which is told
    /// then, or why this takes long.
    fn pass_lines_on(&mut self) {
        for child in &mut self.children {
            let waits = |host: &usize| {
                let peer = self.peers[*host].as_ref();
                peer.is_some_and(|peer| peer.state != State::Up && peer.heard.elapsed() < LINES_WAIT)
            };
            if self.verbose || !child.hosts.iter().any(waits) {
                let name = child.hosts.first().map_or("", |&host| &self.names[host]);
                self.words.extend(child.take_lines(name));
            }
        }
    }

    /// An agent has spoken. What came before, such as a host's banner, is of no interest then.
    fn greeted(&mut self, host: usize) {
        let of_host = |child: &Child| child.hosts.contains(&host);
        if let Some(number) = self.children.iter().position(of_host) {
            self.children[number].read(&self.epoll);
            let is_up = |&host: &usize| {
                self.peers[host]
                    .as_ref()
                    .is_some_and(|peer| peer.state == State::Up)
            };
            if self.children[number].hosts.iter().all(is_up) {
                self.children[number].lines.clear();
            }
        }
    }

    /// Takes the ends of launcher commands.
    pub fn reaped(&mut self, ends: &[WaitStatus]) {
        for end in ends {
            if let Some(child) = self
                .children
                .iter_mut()
                .find(|child| Some(child.pid) == end.pid())
            {
                child.status = Some(*end);
            }
        }
        self.judge_refused();
    }

    /// Says why agents could not be started, once that is known.
    fn judge_refused(&mut self) {
        for number in 0..self.children.len() {
            let child = &mut self.children[number];
            if child.status.is_some() {
                child.read(&self.epoll);
            }
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
                    let why = self.children[number].why_refused(with_port);
                    self.lose(host, &why);
                }
            }
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
                State::Up if overdue => {
                    let seconds = CLEAN_UP.as_secs();
                    self.lose(
                        host,
                        &format!("its mpiexec has not ended within {seconds} s after the ranks"),
                    );
                }
                State::Up if !peer.has_started && silence > CONNECT => {
                    let seconds = CONNECT.as_secs();
                    self.lose(host, &format!("its ranks have not been started for {seconds} s"));
                }
                State::Up if peer.has_started && silence > LOST => {
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
            let ended =
                (self.children.iter_mut()).filter_map(|child| child.end(start.elapsed()).then_some(()));
            if ended.count() == self.children.len() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
