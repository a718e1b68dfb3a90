//! Intercommunicators with the processes of other jobs (MPI 5.0 sections 11.8 to 11.10): spawned ones, and those that meet at a port. All work
//! alike: one process of each group, its root, has a channel to the other root, over which the groups are introduced to each other.
//! The channel's socket then stays, as the link by which the jobs learn of each other's end.
//!
//! To be awaited by [`Instance::block_on_turns`]: no request ends when something comes through a channel.

use std::future::poll_fn;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::introduce::{Way, introduce, tell};
use super::links::link_jobs;
use crate::base::error::{Class, Error, Result};
use crate::engine::mismatch::Operation;
use crate::err;
use crate::instance::{Instance, SharedPort, SleepsOn};
use crate::objects::communicator::{Collective, Communicator};
use crate::objects::group::Group;
use crate::system::bootstrap::{Spawn, Spawned};
use crate::system::port::Courier;

/// What [`Communicator::spawn`] has done.
pub struct Children {
    /// How many processes of each command were asked for at most.
    pub wanted: Vec<u32>,
    /// How many of each command's processes run, and why not all, where that is an error.
    pub spawned: Spawned,
    /// With the processes that run; `None`: there are none.
    pub communicator: Option<Arc<Communicator>>,
}

impl Communicator {
    /// An intercommunicator with the processes that come to a port of this process's (`MPI_Comm_accept`). `port` matters only at the root: its
    /// name, and when to give up.
    ///
    /// # Errors
    /// `MPI_ERR_PORT` if the port is not open, or is closed meanwhile, or nobody comes in time.
    pub async fn accept(
        self: Arc<Self>,
        root: u32,
        port: Option<Result<(String, Option<Instant>)>>,
    ) -> Result<Arc<Communicator>> {
        let operation = self.step(const { Operation::named("MPI_Comm_accept") }, false);
        let channel = match port {
            Some(Ok((name, until))) => Some(accepted(self.instance(), &name, until, || None).await),
            Some(Err(error)) => Some(Err(error)),
            None => None,
        };
        self.join_through(&operation, root, channel).await
    }

    /// An intercommunicator with the processes that accept at a port (`MPI_Comm_connect`). `port` matters only at the root: its name, and
    /// when to give up.
    ///
    /// # Errors
    /// `MPI_ERR_PORT` if there is no such port, or it is closed meanwhile, or nobody accepts in time.
    pub async fn connect_to(
        self: Arc<Self>,
        root: u32,
        port: Option<Result<(String, Option<Instant>)>>,
    ) -> Result<Arc<Communicator>> {
        let operation = self.step(const { Operation::named("MPI_Comm_connect") }, false);
        let channel = match port {
            Some(Ok((name, until))) => Some(connected(self.instance(), &name, until).await),
            Some(Err(error)) => Some(Err(error)),
            None => None,
        };
        self.join_through(&operation, root, channel).await
    }

    /// An intercommunicator with the processes of a new job (`MPI_Comm_spawn_multiple`). `asked` matters only at the root: what to start, and
    /// when to give up.
    ///
    /// # Errors
    /// `MPI_ERR_SPAWN` if no process can be started at all. What became of each command is in the result.
    pub async fn spawn(
        self: Arc<Self>,
        root: u32,
        asked: Option<Result<(Spawn, Option<Instant>)>>,
    ) -> Result<Children> {
        let operation = self.step(const { Operation::named("MPI_Comm_spawn") }, false);
        let instance = self.instance().clone();
        let mut started = match asked {
            Some(Ok((spawn, until))) => Some(start(&instance, spawn, until).await),
            Some(Err(error)) => Some(Err(error)),
            None => None,
        };
        let said = started.as_ref().map(|started| match started {
            Ok(started) => Ok(encode(&started.wanted, &started.spawned)),
            Err(error) => Err(error.clone()),
        });
        let (wanted, spawned) = decode(&tell(&operation, root, said).await?)?;
        if spawned.started == 0 {
            return Ok(Children {
                wanted,
                spawned,
                communicator: None,
            });
        }
        let channel = match &mut started {
            Some(Ok(started)) => {
                let (number, until) = (started.number, started.until);
                let ended = || match instance.ended_spawn(number) {
                    Some(why) => Some(err!(Spawn, "the spawned processes did not connect: {why}")),
                    None if until.is_some_and(|until| Instant::now() >= until) => Some(err!(
                        Spawn,
                        "the spawned processes did not connect in time: perhaps they could not be started, or have ended"
                    )),
                    None => None,
                };
                Some(accepted(&instance, &started.port.name, None, ended).await)
            }
            _ => None,
        };
        let communicator = self.join_through(&operation, root, channel).await?;
        Ok(Children {
            wanted,
            spawned,
            communicator: Some(communicator),
        })
    }

    /// An intercommunicator of this process and another one that are connected by a stream socket (`MPI_Comm_join`). Afterwards nothing
    /// of this is in the socket.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER` if the socket fails, or the other side does not do the same.
    pub async fn join(self: Arc<Self>, socket: Box<dyn Courier>) -> Result<Arc<Communicator>> {
        let operation = self.step(const { Operation::named("MPI_Comm_connect") }, false);
        let channel = joined(self.instance(), socket).await;
        self.join_through(&operation, 0, Some(channel)).await
    }

    /// An intercommunicator with the group whose root has the other end of the root's channel.
    async fn join_through(
        self: &Arc<Self>,
        operation: &Collective,
        root: u32,
        channel: Option<Result<Box<dyn Courier>>>,
    ) -> Result<Arc<Communicator>> {
        let mut channel = channel;
        let _awake = match &channel {
            Some(Ok(channel)) => awake_by(self.instance(), channel.descriptor()),
            _ => None,
        };
        let instance = self.instance();
        let before = instance.connected_jobs();
        let (new, other) = self
            .join_by(
                operation,
                root,
                channel.as_mut().map(|channel| match channel {
                    Ok(channel) => Ok(&mut **channel as &mut dyn Courier),
                    Err(error) => Err(error.clone()),
                }),
            )
            .await?;
        let job = instance.job_of(other);
        if let Some(Ok(channel)) = channel {
            // Within a job its launcher tells who is gone.
            if job != instance.job().name().job
                && let Some(link) = channel.into_link()
            {
                // Without it, they learn of each other's end by their lanes.
                let _ = instance.bootstrap().link(job, link);
            }
        }
        let root = instance.job_of(self.group().member(root));
        link_jobs(&new, &before, Some((root, job))).await;
        Ok(new)
    }

    /// The same by any courier; beside the communicator is a process of the other root's job.
    pub async fn join_by(
        self: &Arc<Self>,
        operation: &Collective,
        root: u32,
        courier: Option<Result<&mut dyn Courier>>,
    ) -> Result<(Arc<Communicator>, crate::identity::PeerIndex)> {
        let way = courier.map(|courier| courier.map(Way::Frames));
        let other = introduce(operation, root, way).await?;
        let of_job = (other.peers.iter().copied())
            .find(|&process| self.instance().job_of(process) == other.job)
            .ok_or_else(|| err!(Intern, "the other root is not in its group"))?;
        let peers = Group::of_session(self.group().session(), other.peers);
        let group = self.group().clone();
        let new = Communicator::between(self.instance(), other.context, group, peers).expect("a member");
        // Whoever finds it later counts it again, which changes nothing.
        new.connects();
        Ok((new, of_job))
    }
}

/// A spawn whose job was made.
struct Started {
    number: u32,
    wanted: Vec<u32>,
    spawned: Spawned,
    port: OpenPort,
    /// When to give up.
    until: Option<Instant>,
}

/// A port that is closed when this is dropped.
pub(super) struct OpenPort {
    instance: Arc<Instance>,
    pub name: String,
}

impl OpenPort {
    pub fn new(instance: &Arc<Instance>) -> Result<OpenPort> {
        Ok(OpenPort {
            instance: instance.clone(),
            name: instance.open_port()?,
        })
    }
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        self.instance.close_port(&self.name);
    }
}

/// The root's part of a spawn until the processes are started.
async fn start(instance: &Arc<Instance>, mut spawn: Spawn, until: Option<Instant>) -> Result<Started> {
    let port = OpenPort::new(instance)?;
    spawn.port.clone_from(&port.name);
    let wanted: Vec<u32> = spawn.commands.iter().map(|command| command.count).collect();
    let commands = wanted.len();
    let number = instance.bootstrap().spawn(&spawn)?;
    let patience = instance.bootstrap().spawn_patience();
    let until = until.or_else(|| Instant::now().checked_add(patience?));
    let spawned = poll_fn(|_| match instance.bootstrap().spawned(number) {
        // The launcher may wait for others to end.
        Ok(None) if until.is_some_and(|until| Instant::now() >= until) => Poll::Ready(Err(err!(
            Spawn,
            "the spawned processes did not connect in time: the launcher has not started them yet"
        ))),
        Ok(None) => Poll::Pending,
        Ok(Some(spawned)) => Poll::Ready(Ok(spawned)),
        // No command is the reason, so the code of every process says it.
        Err(error) if error.class == Class::Spawn => Poll::Ready(Ok(Spawned {
            started: 0,
            of_command: vec![0; commands],
            errors: vec![Some(error.message.into_owned()); commands],
        })),
        Err(error) => Poll::Ready(Err(error)),
    })
    .await?;
    if [spawned.of_command.len(), spawned.errors.len()] != [commands; 2] {
        return Err(err!(
            Intern,
            "the launcher's answer is not about the {commands} commands that were asked for"
        ));
    }
    Ok(Started {
        number,
        wanted,
        spawned,
        port,
        until,
    })
}

fn encode(wanted: &[u32], spawned: &Spawned) -> Vec<u8> {
    let mut bytes = spawned.started.to_le_bytes().to_vec();
    let counts = wanted.iter().zip(&spawned.of_command);
    for ((wanted, count), error) in counts.zip(&spawned.errors) {
        bytes.extend_from_slice(&wanted.to_le_bytes());
        bytes.extend_from_slice(&count.to_le_bytes());
        // 0: no error; otherwise the length of its text, and one.
        let text = error.as_deref().map(str::as_bytes);
        bytes.extend_from_slice(&text.map_or(0, |text| text.len() as u32 + 1).to_le_bytes());
        bytes.extend_from_slice(text.unwrap_or_default());
    }
    bytes
}

fn decode(bytes: &[u8]) -> Result<(Vec<u32>, Spawned)> {
    parse(bytes).ok_or_else(|| err!(Intern, "what the root has said about a spawn is not understood"))
}

fn parse(bytes: &[u8]) -> Option<(Vec<u32>, Spawned)> {
    let (started, mut rest) = bytes.split_first_chunk()?;
    let mut spawned = Spawned {
        started: u32::from_le_bytes(*started),
        of_command: Vec::new(),
        errors: Vec::new(),
    };
    let mut of_each = Vec::new();
    while !rest.is_empty() {
        let (wanted, after) = rest.split_first_chunk()?;
        let (count, after) = after.split_first_chunk()?;
        let (len, after) = after.split_first_chunk()?;
        let len = u32::from_le_bytes(*len) as usize;
        let (text, after) = after.split_at_checked(len.saturating_sub(1))?;
        of_each.push(u32::from_le_bytes(*wanted));
        spawned.of_command.push(u32::from_le_bytes(*count));
        let text = String::from_utf8_lossy(text).into_owned();
        spawned.errors.push((len != 0).then_some(text));
        rest = after;
    }
    Some((of_each, spawned))
}

/// While the result lives, this process sleeps on a descriptor, if there is one.
fn awake_by(instance: &Arc<Instance>, descriptor: Option<BorrowedFd<'_>>) -> Option<SleepsOn> {
    descriptor.map(|descriptor| instance.sleep_on(descriptor.as_raw_fd()))
}

/// The next process that comes to an open port. `stop` gives an error when nobody will come any more.
pub(super) async fn accepted(
    instance: &Arc<Instance>,
    name: &str,
    until: Option<Instant>,
    stop: impl Fn() -> Option<Error>,
) -> Result<Box<dyn Courier>> {
    let port = instance.port(name)?;
    let _awake = awake_by(instance, port.lock().descriptor());
    poll_fn(|_| {
        if let Some(error) = stop() {
            return Poll::Ready(Err(error));
        }
        // Another thread may have closed it.
        if let Err(error) = instance.port(name) {
            return Poll::Ready(Err(error));
        }
        let mut port = port.lock();
        match port.accept() {
            Ok(None) => {}
            Ok(Some(channel)) => return Poll::Ready(Ok(channel)),
            Err(error) => return Poll::Ready(Err(error)),
        }
        match until {
            Some(until) if Instant::now() >= until && !port.is_accepting() => {
                Poll::Ready(Err(err!(Port, "nobody has connected to the port in time")))
            }
            _ => Poll::Pending,
        }
    })
    .await
}

/// A channel to whoever accepts at a port.
pub(super) async fn connected(
    instance: &Arc<Instance>,
    name: &str,
    until: Option<Instant>,
) -> Result<Box<dyn Courier>> {
    let mut connecting = instance.ports().connect(name, until)?;
    let mut awake = None;
    poll_fn(|_| {
        let finished = connecting.finish();
        // It may be another descriptor after each call.
        awake = match &finished {
            Ok(None) => awake_by(instance, connecting.descriptor()),
            _ => None,
        };
        match finished {
            Ok(None) => Poll::Pending,
            Ok(Some(channel)) => Poll::Ready(Ok(channel)),
            Err(error) => Poll::Ready(Err(error)),
        }
    })
    .await
}

/// How long the other side of `MPI_Comm_join` has to accept, once it has said where.
const JOIN_TIME: Duration = Duration::from_secs(60);

/// A channel beside a socket: both sides open a port and tell its name, and the one with the lower name connects.
async fn joined(instance: &Arc<Instance>, mut socket: Box<dyn Courier>) -> Result<Box<dyn Courier>> {
    let port = OpenPort::new(instance)?;
    let _awake = awake_by(instance, socket.descriptor());
    socket.send(port.name.as_bytes().to_vec())?;
    let theirs = poll_fn(|_| match socket.receive() {
        Ok(None) => Poll::Pending,
        Ok(Some(frame)) => Poll::Ready(Ok(frame)),
        Err(error) => Poll::Ready(Err(error)),
    })
    .await?;
    poll_fn(|_| match socket.is_drained() {
        Ok(false) => Poll::Pending,
        Ok(true) => Poll::Ready(Ok(())),
        Err(error) => Poll::Ready(Err(error)),
    })
    .await?;
    let theirs = String::from_utf8(theirs).map_err(|_| {
        err!(
            Other,
            "the other process says through the socket what is no name of a port"
        )
    })?;
    let until = Some(Instant::now() + JOIN_TIME);
    match port.name < theirs {
        true => connected(instance, &theirs, until).await,
        false => accepted(instance, &port.name, until, || None).await,
    }
}

impl Instance {
    /// Opens a port (`MPI_Open_port`); the result is its name.
    pub fn open_port(&self) -> Result<String> {
        let port = self.ports().open(self.settings().interface.as_deref())?;
        let name = port.name().to_string();
        self.open_ports()
            .lock()
            .insert(name.clone(), Arc::new(port.into()));
        Ok(name)
    }

    /// Closes a port; `false`: it was not open.
    pub fn close_port(&self, name: &str) -> bool {
        self.open_ports().lock().remove(name).is_some()
    }

    fn port(&self, name: &str) -> Result<SharedPort> {
        self.open_ports()
            .lock()
            .get(name)
            .cloned()
            .ok_or_else(|| err!(Port, "no port of this name is open in this process"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_became_of_a_spawn_comes_back() {
        let spawned = Spawned {
            started: 5,
            of_command: vec![2, 3, 0],
            errors: vec![None, Some(String::new()), Some("no such file".into())],
        };
        let wanted = vec![2, 4, 1];
        assert_eq!(parse(&encode(&wanted, &spawned)), Some((wanted, spawned)));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse(&bytes);
        }
    }
}
