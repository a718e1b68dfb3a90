//! Names for several jobs that share nothing else: `mpiexec --name-server` keeps them, and the heads of jobs that are pointed at it
//! (`-nameserver ADDRESS`) ask it. Its address is the name of a port, with a secret.

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};
use weft::tools::port::{Channel, Connecting, Port};
use weft::{Result, err};

use super::{Answer, Request, Table};
use crate::outcome::Failure;

/// How long a head tries to reach the service.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest message (bytes).
const MESSAGE_MAX: usize = 64 << 10;

/// From a head.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Asked {
    ticket: u32,
    owner: String,
    request: Request,
}

/// To it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Told {
    ticket: u32,
    answer: Answer,
}

fn encode(message: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(message).map_err(|error| err!(Intern, "a message can't be written: {error}"))
}

fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let read = (bytes.len() <= MESSAGE_MAX).then(|| postcard::take_from_bytes(bytes));
    match read {
        Some(Ok((message, []))) => Ok(message),
        _ => Err(err!(Other, "a message can't be read")),
    }
}

/// Runs the service until a signal ends it; prints its address.
pub fn serve(interface: Option<&str>) -> std::result::Result<u8, Failure> {
    let failed = |error: weft::Error| Failure::launcher(format!("the name service can't run: {error}"));
    let mut port = Port::open(interface).map_err(failed)?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", port.name())
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::launcher(format!("standard output can't be written: {error}")))?;
    let mut service = Service::default();
    loop {
        let mut polled = vec![PollFd::new(port.descriptor(), PollFlags::POLLIN)];
        let clients = service.clients.values();
        polled.extend(clients.map(|channel| PollFd::new(channel.descriptor(), PollFlags::POLLIN)));
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => service.turn(&mut port).map_err(failed)?,
            Err(errno) => return Err(Failure::launcher(format!("the name service can't wait: {errno}"))),
        }
    }
}

/// The names, and those who ask.
#[derive(Default)]
struct Service {
    table: Table,
    clients: HashMap<u64, Channel>,
    next: u64,
    /// The jobs that each of them has spoken for.
    owners: HashMap<u64, Vec<String>>,
}

impl Service {
    fn turn(&mut self, port: &mut Port) -> Result<()> {
        while let Some(channel) = port.accept()? {
            self.clients.insert(self.next, channel);
            self.next += 1;
        }
        let numbers: Vec<u64> = self.clients.keys().copied().collect();
        for number in numbers {
            if self.answer(number).is_err() {
                self.clients.remove(&number);
                for owner in self.owners.remove(&number).unwrap_or_default() {
                    self.table.handle(&owner, Request::Forget);
                }
            }
        }
        Ok(())
    }

    /// Answers all that has come. An error: it is gone, or breaks the protocol.
    fn answer(&mut self, number: u64) -> Result<()> {
        let Some(channel) = self.clients.get_mut(&number) else {
            return Ok(());
        };
        channel.is_drained()?;
        while let Some(frame) = channel.receive()? {
            let Asked {
                ticket,
                owner,
                request,
            } = decode(&frame)?;
            // Nobody speaks for another one's jobs.
            let owner = format!("{number} {owner}");
            let forgets = request == Request::Forget;
            let answer = self.table.handle(&owner, request);
            let owners = self.owners.entry(number).or_default();
            owners.retain(|known| *known != owner);
            if !forgets {
                owners.push(owner);
            }
            channel.send(encode(&Told { ticket, answer })?)?;
        }
        Ok(())
    }
}

/// The service as a head sees it.
pub struct Client {
    address: String,
    state: State,
    /// Requests before there is a connection.
    queue: Vec<Vec<u8>>,
}

enum State {
    Idle,
    Connecting(Connecting),
    Up(Channel),
}

impl Client {
    /// That of an address; nothing is connected yet.
    pub fn of(address: &str) -> Client {
        Client {
            address: address.to_string(),
            state: State::Idle,
            queue: Vec::new(),
        }
    }

    /// Asks. An error: it can't be reached.
    pub fn ask(&mut self, ticket: u32, owner: String, request: Request) -> Result<()> {
        let message = encode(&Asked {
            ticket,
            owner,
            request,
        })?;
        if message.len() > MESSAGE_MAX {
            return Err(err!(Service, "the name or the port is too long"));
        }
        self.queue.push(message);
        if let State::Idle = self.state {
            let until = Instant::now() + CONNECT;
            match Connecting::to(&self.address, Some(until)) {
                Ok(connecting) => self.state = State::Connecting(connecting),
                Err(error) => {
                    self.queue.clear();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Goes on: the answers that have come. An error: the connection is gone, and what was asked has no answer.
    pub fn turn(&mut self) -> Result<Vec<(u32, Answer)>> {
        let outcome = self.try_turn();
        if outcome.is_err() {
            self.state = State::Idle;
            self.queue.clear();
        }
        outcome
    }

    fn try_turn(&mut self) -> Result<Vec<(u32, Answer)>> {
        if let State::Connecting(connecting) = &mut self.state
            && let Some(channel) = connecting.finish()?
        {
            self.state = State::Up(channel);
        }
        let mut answers = Vec::new();
        if let State::Up(channel) = &mut self.state {
            for message in self.queue.drain(..) {
                channel.send(message)?;
            }
            channel.is_drained()?;
            while let Some(frame) = channel.receive()? {
                let Told { ticket, answer } = decode(&frame)?;
                answers.push((ticket, answer));
            }
        }
        Ok(answers)
    }

    /// Becomes readable when there is something to do; `None`: nothing is asked.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Idle => None,
            State::Connecting(connecting) => Some(connecting.descriptor()),
            State::Up(channel) => Some(channel.descriptor()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_share_nothing_else_find_each_others_names() {
        let mut port = Port::open(None).unwrap();
        let mut service = Service::default();
        let (mut one, mut other) = (Client::of(port.name()), Client::of(port.name()));
        let mut ask = |service: &mut Service, client: &mut Client, owner: &str, request: Request| {
            client.ask(7, owner.into(), request).unwrap();
            let begun = Instant::now();
            loop {
                service.turn(&mut port).unwrap();
                if let Some((7, answer)) = client.turn().unwrap().pop() {
                    return answer;
                }
                assert!(begun.elapsed() < Duration::from_secs(20));
            }
        };
        let publish = |port: &str| Request::Publish {
            service: "s".into(),
            port: port.into(),
        };
        let look_up = || Request::LookUp { service: "s".into() };
        let unpublish = || Request::Unpublish { service: "s".into() };
        assert_eq!(ask(&mut service, &mut one, "job", publish("1")), Answer::Done);
        let found = Answer::Found { port: "1".into() };
        assert_eq!(ask(&mut service, &mut other, "job", look_up()), found);
        // Another job, though it says that it has the same name.
        let refused = ask(&mut service, &mut other, "job", unpublish());
        assert!(matches!(refused, Answer::Refused(_)));
        drop(one);
        while matches!(
            ask(&mut service, &mut other, "job", look_up()),
            Answer::Found { .. }
        ) {}
        assert_eq!(ask(&mut service, &mut other, "job", publish("2")), Answer::Done);
    }

    #[test]
    fn noise_ends_a_connection_and_a_wrong_address_is_an_error() {
        let mut port = Port::open(None).unwrap();
        let mut service = Service::default();
        let mut connecting = Connecting::to(port.name(), None).unwrap();
        let mut channel = loop {
            service.turn(&mut port).unwrap();
            if let Some(channel) = connecting.finish().unwrap() {
                break channel;
            }
        };
        channel.send(vec![0xff; 100]).unwrap();
        while !service.clients.is_empty() {
            let _ = channel.is_drained();
            service.turn(&mut port).unwrap();
        }
        Client::of("nowhere")
            .ask(1, "job".into(), Request::Forget)
            .unwrap_err();
    }
}
