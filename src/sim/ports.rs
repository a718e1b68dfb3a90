//! Ports in a simulation, and the channels that are made there: what is said comes some virtual time later.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::jobs::Jobs;
use crate::base::error::{Error, Result};
use crate::err;
use crate::identity::PeerIndex;
use crate::lane::sim::Network;
use crate::system::port::{Accepts, Connects, Courier, Ports};

/// The ports of all processes.
#[derive(Clone, Default)]
pub(super) struct Harbours(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    ports: FxHashMap<String, Arc<Mutex<Waiting>>>,
    opened: u64,
}

/// Those that have come to a port and were not accepted, in this order.
struct Waiting {
    owner: PeerIndex,
    closed: bool,
    comers: VecDeque<Arc<Mutex<Pipe>>>,
}

/// The ports of one process, and how it finds those of others.
pub(super) struct SimPorts {
    pub node: PeerIndex,
    pub network: Network,
    pub jobs: Jobs,
    pub harbours: Harbours,
    /// The longest time that something said takes.
    pub delay_ns_max: u64,
}

/// Both directions of a channel.
struct Pipe {
    /// Its ends: the one that came, and the one that accepted.
    ends: [Option<PeerIndex>; 2],
    closed: [bool; 2],
    /// What was said to each end, and when it comes.
    said: [VecDeque<(u64, Vec<u8>)>; 2],
}

struct SimPort {
    name: String,
    place: Place,
    waiting: Arc<Mutex<Waiting>>,
    harbours: Harbours,
}

struct Coming {
    place: Place,
    port: Arc<Mutex<Waiting>>,
    pipe: Arc<Mutex<Pipe>>,
}

struct SimChannel {
    place: Place,
    /// Which of the ends it is.
    end: usize,
    pipe: Arc<Mutex<Pipe>>,
}

/// Where a process is.
#[derive(Clone)]
struct Place {
    node: PeerIndex,
    network: Network,
    jobs: Jobs,
    delay_ns_max: u64,
}

impl Place {
    fn later(&self) -> u64 {
        self.network.now_ns() + 1 + self.network.random(self.delay_ns_max + 1)
    }
}

impl SimPorts {
    fn place(&self) -> Place {
        Place {
            node: self.node,
            network: self.network.clone(),
            jobs: self.jobs.clone(),
            delay_ns_max: self.delay_ns_max,
        }
    }
}

impl Ports for SimPorts {
    fn open(&self, _: Option<&str>) -> Result<Box<dyn Accepts>> {
        let open = &mut *self.harbours.0.lock();
        let name = format!("sim-port-{}", open.opened);
        open.opened += 1;
        let waiting = Arc::new(Mutex::new(Waiting {
            owner: self.node,
            closed: false,
            comers: VecDeque::new(),
        }));
        open.ports.insert(name.clone(), waiting.clone());
        Ok(Box::new(SimPort {
            name,
            place: self.place(),
            waiting,
            harbours: self.harbours.clone(),
        }))
    }

    fn connect(&self, name: &str, _: Option<Instant>) -> Result<Box<dyn Connects>> {
        let port = self.harbours.0.lock().ports.get(name).cloned();
        let port = port.ok_or_else(|| err!(Port, "nobody listens at the port: it is closed"))?;
        let pipe = Arc::new(Mutex::new(Pipe {
            ends: [Some(self.node), None],
            closed: [false; 2],
            said: Default::default(),
        }));
        let waiting = &mut *port.lock();
        waiting.comers.push_back(pipe.clone());
        let place = self.place();
        place.network.wake_at(waiting.owner, place.later());
        Ok(Box::new(Coming {
            place,
            port: port.clone(),
            pipe,
        }))
    }
}

impl Accepts for SimPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn accept(&mut self) -> Result<Option<Box<dyn Courier>>> {
        let comers = &mut self.waiting.lock().comers;
        while let Some(pipe) = comers.pop_front() {
            let mut state = pipe.lock();
            let came = state.ends[0].expect("it has come");
            if state.closed[0] || self.place.network.is_dead(came) {
                continue;
            }
            state.ends[1] = Some(self.place.node);
            self.place.network.wake_at(came, self.place.later());
            drop(state);
            return Ok(Some(Box::new(SimChannel {
                place: self.place.clone(),
                end: 1,
                pipe,
            })));
        }
        Ok(None)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Drop for SimPort {
    fn drop(&mut self) {
        self.harbours.0.lock().ports.remove(&self.name);
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        for pipe in waiting.comers.drain(..) {
            let came = pipe.lock().ends[0].expect("it has come");
            self.place.network.wake_at(came, self.place.later());
        }
    }
}

impl Connects for Coming {
    fn finish(&mut self) -> Result<Option<Box<dyn Courier>>> {
        if self.pipe.lock().ends[1].is_some() {
            return Ok(Some(Box::new(SimChannel {
                place: self.place.clone(),
                end: 0,
                pipe: self.pipe.clone(),
            })));
        }
        let port = self.port.lock();
        match port.closed || self.place.network.is_dead(port.owner) {
            true => Err(err!(Port, "the port was closed before anybody accepted")),
            false => Ok(None),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        let mut pipe = self.pipe.lock();
        // Nobody has accepted.
        if pipe.ends[1].is_none() {
            pipe.closed[0] = true;
        }
    }
}

impl SimChannel {
    fn other(&self, pipe: &Pipe) -> PeerIndex {
        pipe.ends[1 - self.end].expect("it was accepted")
    }
}

fn gone() -> Error {
    err!(Other, "the other job is gone: it closed its connection")
}

impl Courier for SimChannel {
    fn send(&mut self, frame: Vec<u8>) -> Result<()> {
        let pipe = &mut *self.pipe.lock();
        let other = self.other(pipe);
        let said = &mut pipe.said[1 - self.end];
        let due_ns = self
            .place
            .later()
            .max(said.back().map_or(0, |(due_ns, _)| *due_ns));
        said.push_back((due_ns, frame));
        self.place.network.wake_at(other, due_ns);
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<Vec<u8>>> {
        let pipe = &mut *self.pipe.lock();
        let other = self.other(pipe);
        let said = &mut pipe.said[self.end];
        match said.front() {
            Some((due_ns, _)) if *due_ns <= self.place.network.now_ns() => {
                Ok(said.pop_front().map(|(_, frame)| frame))
            }
            Some(_) => Ok(None),
            None if pipe.closed[1 - self.end] || self.place.network.is_dead(other) => Err(gone()),
            None => Ok(None),
        }
    }

    fn is_drained(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn into_link(self: Box<Self>) -> Option<OwnedFd> {
        let other = self.other(&self.pipe.lock());
        self.place.jobs.link(self.place.node, other);
        None
    }
}

impl Drop for SimChannel {
    fn drop(&mut self) {
        let pipe = &mut *self.pipe.lock();
        pipe.closed[self.end] = true;
        self.place.network.wake_at(self.other(pipe), self.place.later());
    }
}
