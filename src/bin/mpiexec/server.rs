//! The PMI-1 service of the job, without its sockets: a line of a rank comes in, effects come out.
//!
//! A rank may run several MPI programs one after another (`sh -c './a; ./b'`): each `init` of another process begins a
//! new epoch for that rank, and keys and barriers belong to one epoch, so a fast rank's second program never uses what a
//! slow rank's first program left.

mod mapping;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use weft::Result;
use weft::err;
use weft::tools::JobId;
use weft::tools::pmi1::wire::{self, Message};
use weft::tools::pmi1::words;

use crate::names::{self, What};
use crate::spawn::lines::{Lines, Request};
use mapping::mapping;

/// Longest name of a key-value space, as `get_maxes` returns it (bytes).
const KVSNAME_MAX: usize = 256;
/// Longest key (bytes).
pub const KEYLEN_MAX: usize = 64;
/// Longest value (bytes): the room that clients of other MPIs have.
const VALLEN_MAX: usize = 1024;
/// Longest value for Weft's own client (bytes).
pub const WEFT_VALLEN_MAX: usize = 8 * 1024;

/// The effect of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Send this line (its line feed included) to the rank.
    Reply { rank: usize, line: String },
    /// The rank initialized PMI; until it finalizes, its end is a failure.
    Initialized { rank: usize, pid: Option<i32> },
    /// The rank may exit from now on.
    Finalized { rank: usize },
    /// The rank's answer to what it waits for.
    Report { rank: usize, text: String },
    /// The rank asks for a job: a list of words that can be read, and what is in the job's key-value space from the start.
    Spawn {
        rank: usize,
        form: SpawnForm,
        list: Vec<u8>,
        preput: Vec<(String, String)>,
    },
    /// The rank asks about the name of a service.
    Name {
        rank: usize,
        what: What,
        hex: bool,
        request: names::Request,
    },
    /// The rank is connected with another job, or is not any more.
    Connected { rank: usize, job: u64, on: bool },
    /// The rank wants the job to end.
    Abort { rank: usize, code: i32, message: String },
}

/// How a spawn was asked for, and is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpawnForm {
    /// By Weft's client, with its number of the spawn.
    Weft(u32),
    /// By another MPI's, in lines.
    Lines,
}

/// The phase of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It never initialized PMI: perhaps no MPI program at all.
    Plain,
    /// Between `init` and `finalize`.
    Active,
    /// After `finalize`.
    Finalized,
}

/// What the service knows about the job from the start.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The job's name.
    pub job: String,
    /// Program number of each rank.
    pub appnums: Vec<u32>,
    /// `MPI_UNIVERSE_SIZE`.
    pub universe_size: u32,
    /// Index of each rank's host.
    pub hosts: Vec<usize>,
    /// The process that has started the ranks of each host.
    pub agents: Vec<u32>,
    /// `-memory-alloc-kinds` of each rank's program.
    pub memory_alloc_kinds: Vec<Option<String>>,
}

struct Client {
    phase: Phase,
    epoch: u32,
    /// The process that initialized PMI last.
    pid: Option<i32>,
    in_barrier: bool,
    /// How often it was initialized.
    sessions: u32,
    /// The beginning of what it asks to spawn.
    spawn: Vec<u8>,
    /// The same in the form of other MPIs' clients.
    spawn_lines: Lines,
    exited: bool,
}

#[derive(Default)]
struct Epoch {
    values: HashMap<String, String>,
    /// The puts in order, for `getbyidx`.
    order: Vec<String>,
    waiting: Vec<Waiting>,
    in_barrier: usize,
}

/// A `get` with `wait=1` whose key has not been put.
struct Waiting {
    rank: usize,
    key: String,
    /// The rank that is expected to put it.
    from: Option<usize>,
}

/// The service.
pub struct Server {
    facts: Facts,
    clients: Vec<Client>,
    epochs: HashMap<u32, Epoch>,
    /// `PMI_process_mapping`.
    mapping: String,
    /// What those that have spawned the job have put.
    preput: Vec<(String, String)>,
}

impl Server {
    /// The service of a job of `facts.appnums.len()` ranks.
    pub fn new(facts: Facts) -> Server {
        let client = |_: &u32| Client {
            phase: Phase::Plain,
            epoch: 0,
            pid: None,
            in_barrier: false,
            sessions: 0,
            spawn: Vec::new(),
            spawn_lines: Lines::default(),
            exited: false,
        };
        Server {
            clients: facts.appnums.iter().map(client).collect(),
            mapping: mapping(&facts.hosts),
            facts,
            epochs: HashMap::new(),
            preput: Vec::new(),
        }
    }

    /// The phase of `rank`.
    pub fn phase(&self, rank: usize) -> Phase {
        self.clients[rank].phase
    }

    /// Which of its sessions `rank` is in, if it is between `init` and `finalize`.
    pub fn session(&self, rank: usize) -> Option<u32> {
        let client = &self.clients[rank];
        (client.phase == Phase::Active).then_some(client.sessions)
    }

    /// Whether any rank is between `init` and `finalize`.
    pub fn any_active(&self) -> bool {
        self.clients.iter().any(|client| client.phase == Phase::Active)
    }

    /// Notes that the rank is gone.
    pub fn exited(&mut self, rank: usize) {
        self.clients[rank].exited = true;
    }

    /// A rank for which others wait in vain, and one of those that wait: the first is gone, and the others are in a barrier or wait for its
    /// key.
    pub fn waited_for_in_vain(&self) -> Option<(usize, usize)> {
        let waiter = self.clients.iter().position(|client| client.in_barrier);
        if let (Some(waiter), Some(gone)) = (waiter, self.clients.iter().position(|client| client.exited)) {
            return Some((gone, waiter));
        }
        let mut waiting = self.epochs.values().flat_map(|epoch| &epoch.waiting);
        waiting.find_map(|wait| {
            let from = wait.from.filter(|&from| self.clients[from].exited)?;
            (!self.clients[wait.rank].exited).then_some((from, wait.rank))
        })
    }

    /// Handles one line of `rank`, sent by the process `pid`. An error: the line breaks the protocol.
    pub fn line(&mut self, rank: usize, pid: Option<i32>, line: &[u8]) -> Result<Vec<Effect>> {
        if self.clients[rank].spawn_lines.is_within() {
            return self.spawn_line(rank, line);
        }
        let message = Message::parse(line)?;
        if !matches!(message.command(), "init" | "abort") && self.clients[rank].phase != Phase::Active {
            return Err(err!(
                Other,
                "PMI command '{}' outside of init and finalize",
                message.command()
            ));
        }
        let reply = |line: String| Ok(vec![Effect::Reply { rank, line }]);
        if message.is_multiline() {
            if message.command() != "spawn" {
                return Err(err!(
                    Other,
                    "unknown PMI command '{}' of several lines",
                    message.command()
                ));
            }
            self.clients[rank].spawn_lines.begin();
            return Ok(Vec::new());
        }
        match message.command() {
            "init" => self.init(rank, pid, &message),
            "get_maxes" => reply(format!(
                "cmd=maxes rc=0 kvsname_max={KVSNAME_MAX} keylen_max={KEYLEN_MAX} vallen_max={VALLEN_MAX}\n"
            )),
            "get_appnum" => reply(format!("cmd=appnum rc=0 appnum={}\n", self.facts.appnums[rank])),
            "get_my_kvsname" => reply(format!("cmd=my_kvsname rc=0 kvsname={}\n", self.kvsname(rank))),
            "get_universe_size" => reply(format!(
                "cmd=universe_size rc=0 size={}\n",
                self.facts.universe_size
            )),
            "put" => self.put(rank, &message),
            "get" => self.get(rank, &message),
            "getbyidx" => self.get_by_index(rank, &message),
            "barrier_in" => Ok(self.barrier_in(rank)),
            "finalize" => {
                self.clients[rank].phase = Phase::Finalized;
                let line = "cmd=finalize_ack rc=0\n".to_string();
                let reply = (!is_quiet(&message)).then_some(Effect::Reply { rank, line });
                Ok([Effect::Finalized { rank }].into_iter().chain(reply).collect())
            }
            "report_result" => {
                let text = wire::from_hex(message.get("text")?)?;
                let text = String::from_utf8_lossy(&text).into_owned();
                Ok(vec![Effect::Report { rank, text }])
            }
            "abort" => {
                let hex = message.find("weft_message").unwrap_or_default();
                let message_text = String::from_utf8_lossy(&wire::from_hex(hex)?).into_owned();
                let code = message
                    .find("exitcode")
                    .map_or(Ok(1), |_| message.number("exitcode"))?;
                Ok(vec![Effect::Abort {
                    rank,
                    code,
                    message: message_text,
                }])
            }
            "publish_name" => name(rank, What::Publish, &message),
            "unpublish_name" => name(rank, What::Unpublish, &message),
            "lookup_name" => name(rank, What::LookUp, &message),
            "weft_spawn" => self.spawn(rank, &message),
            "weft_connected" => {
                let job = message.get("job")?;
                let job = u64::from_str_radix(job, 16)
                    .map_err(|_| err!(Other, "weft_connected has job={job:.20}, which names no job"))?;
                let on = message.number::<u8>("on")? != 0;
                Ok(vec![Effect::Connected { rank, job, on }])
            }
            unknown => Err(err!(Other, "unknown PMI command '{unknown}'")),
        }
    }

    /// A part of what a rank asks to spawn.
    fn spawn(&mut self, rank: usize, message: &Message) -> Result<Vec<Effect>> {
        let id = message.number("id")?;
        let part = wire::from_hex(message.get("data")?)?;
        let list = &mut self.clients[rank].spawn;
        list.extend(part);
        if list.len() > words::BYTES_MAX {
            return Err(err!(Other, "what a rank asks to spawn is too long"));
        }
        if message.number::<u8>("more")? != 0 {
            return Ok(Vec::new());
        }
        let list = std::mem::take(list);
        words::to_spawn(&list)?;
        Ok(vec![Effect::Spawn {
            rank,
            form: SpawnForm::Weft(id),
            list,
            preput: Vec::new(),
        }])
    }

    /// A line of a spawn in the form of other MPIs' clients.
    fn spawn_line(&mut self, rank: usize, line: &[u8]) -> Result<Vec<Effect>> {
        let request = self.clients[rank].spawn_lines.line(line)?;
        Ok(request
            .into_iter()
            .map(|Request { spawn, preput }| Effect::Spawn {
                rank,
                form: SpawnForm::Lines,
                list: words::of_spawn(&spawn),
                preput,
            })
            .collect())
    }

    /// Puts keys and values that are there from the start, for all.
    pub fn put_before(&mut self, pairs: Vec<(String, String)>) {
        self.preput = pairs;
    }

    fn init(&mut self, rank: usize, pid: Option<i32>, message: &Message) -> Result<Vec<Effect>> {
        let refuse = |msg: &str| {
            let line = format!("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=1 msg={msg}\n");
            Ok(vec![Effect::Reply { rank, line }])
        };
        if message.number::<u32>("pmi_version")? != 1 {
            return refuse("only_pmi_version_1_is_supported");
        }
        let client = &mut self.clients[rank];
        if client.phase == Phase::Active {
            return refuse("this_rank_has_initialized_already");
        }
        // The same process may initialize again, and is then in the same epoch.
        if client.phase == Phase::Finalized && client.pid != pid {
            client.epoch += 1;
        }
        client.phase = Phase::Active;
        client.pid = pid;
        client.sessions = client.sessions.wrapping_add(1);
        client.spawn.clear();
        client.spawn_lines = Lines::default();
        let oldest = self.clients.iter().map(|client| client.epoch).min().unwrap_or(0);
        self.epochs.retain(|&epoch, _| epoch >= oldest);
        let line = format!(
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0 weft=1 launcher_pid={} kvsname={} \
             keylen_max={KEYLEN_MAX} vallen_max={WEFT_VALLEN_MAX} appnum={} universe_size={} mapping={}\n",
            self.facts.agents[self.facts.hosts[rank]],
            self.kvsname(rank),
            self.facts.appnums[rank],
            self.facts.universe_size,
            self.mapping,
        );
        Ok(vec![
            Effect::Initialized { rank, pid },
            Effect::Reply { rank, line },
        ])
    }

    fn kvsname(&self, rank: usize) -> String {
        format!("{}-{}", self.facts.job, self.clients[rank].epoch)
    }

    /// The numbers by which other jobs know the ranks: one for each program that they have run in turn.
    pub fn jobs(&self) -> BTreeSet<u64> {
        let names = (0..self.clients.len()).map(|rank| JobId::of(&self.kvsname(rank)));
        names.map(|job| job.0).collect()
    }

    /// Tells the process that has started the ranks of a host.
    pub fn set_agent(&mut self, host: usize, pid: u32) {
        self.facts.agents[host] = pid;
    }

    fn put(&mut self, rank: usize, message: &Message) -> Result<Vec<Effect>> {
        let (key, value) = (message.get("key")?, message.get("value")?);
        if key.len() > KEYLEN_MAX || value.len() > WEFT_VALLEN_MAX {
            if is_quiet(message) {
                return Err(err!(Other, "a quiet put has a key or value that is too long"));
            }
            let line = "cmd=put_result rc=1 msg=key_or_value_too_long\n".to_string();
            return Ok(vec![Effect::Reply { rank, line }]);
        }
        let epoch = self.epochs.entry(self.clients[rank].epoch).or_default();
        if epoch.values.insert(key.to_string(), value.to_string()).is_none() {
            epoch.order.push(key.to_string());
        }
        let mut effects = Vec::new();
        if !is_quiet(message) {
            let line = "cmd=put_result rc=0 msg=success\n".into();
            effects.push(Effect::Reply { rank, line });
        }
        epoch.waiting.retain(|wait| {
            let found = wait.key == key;
            if found {
                effects.push(Effect::Reply {
                    rank: wait.rank,
                    line: found_line(key, value),
                });
            }
            !found
        });
        Ok(effects)
    }

    fn get(&mut self, rank: usize, message: &Message) -> Result<Vec<Effect>> {
        let key = message.get("key")?;
        let waits = message.find("wait") == Some("1");
        let from = message
            .find("from")
            .and_then(|text| text.parse().ok())
            .filter(|&from| from < self.clients.len());
        let value = match key {
            "PMI_process_mapping" => Some(self.mapping.clone()),
            "PMI_mpi_memory_alloc_kinds" => self.facts.memory_alloc_kinds[rank]
                .clone()
                .filter(|kinds| wire::is_word(kinds)),
            _ => None,
        };
        let epoch = self.epochs.entry(self.clients[rank].epoch).or_default();
        let value = value.or_else(|| epoch.values.get(key).cloned()).or_else(|| {
            let known = self.preput.iter().find(|(name, _)| name == key);
            known.map(|(_, value)| value.clone())
        });
        let line = match value {
            Some(value) if waits => found_line(key, &value),
            Some(value) => format!("cmd=get_result rc=0 msg=success value={value}\n"),
            None if waits => {
                epoch.waiting.push(Waiting {
                    rank,
                    key: key.to_string(),
                    from,
                });
                return Ok(Vec::new());
            }
            None => "cmd=get_result rc=1 msg=key_not_found value=unknown\n".into(),
        };
        Ok(vec![Effect::Reply { rank, line }])
    }

    fn get_by_index(&mut self, rank: usize, message: &Message) -> Result<Vec<Effect>> {
        let index: usize = message.number("idx")?;
        let epoch = self.epochs.entry(self.clients[rank].epoch).or_default();
        let line = match epoch.order.get(index) {
            Some(key) => {
                let value = &epoch.values[key];
                format!(
                    "cmd=getbyidx_results rc=0 nextidx={} key={key} val={value}\n",
                    index + 1
                )
            }
            None => "cmd=getbyidx_results rc=1 reason=no_more_keys\n".into(),
        };
        Ok(vec![Effect::Reply { rank, line }])
    }

    fn barrier_in(&mut self, rank: usize) -> Vec<Effect> {
        let number = self.clients[rank].epoch;
        let epoch = self.epochs.entry(number).or_default();
        if !std::mem::replace(&mut self.clients[rank].in_barrier, true) {
            epoch.in_barrier += 1;
        }
        if epoch.in_barrier < self.clients.len() {
            return Vec::new();
        }
        epoch.in_barrier = 0;
        let everybody = self.clients.iter_mut().enumerate();
        everybody
            .map(|(rank, client)| {
                client.in_barrier = false;
                Effect::Reply {
                    rank,
                    line: "cmd=barrier_out rc=0\n".into(),
                }
            })
            .collect()
    }
}

/// A request about the name of a service; Weft's client has words in hexadecimal.
fn name(rank: usize, what: What, message: &Message) -> Result<Vec<Effect>> {
    let hex = message.find("hex") == Some("1");
    let word = |key: &str| match (message.get(key)?, hex) {
        (text, true) => String::from_utf8(wire::from_hex(text)?)
            .map_err(|_| err!(Other, "'{}' has a {key}= that is not text", message.command())),
        (text, false) => Ok(text.to_string()),
    };
    let service = word("service")?;
    let request = match what {
        What::Publish => names::Request::Publish {
            service,
            port: word("port")?,
        },
        What::Unpublish => names::Request::Unpublish { service },
        What::LookUp => names::Request::LookUp { service },
    };
    Ok(vec![Effect::Name {
        rank,
        what,
        hex,
        request,
    }])
}

/// Whether the client does not wait for an answer.
fn is_quiet(message: &Message) -> bool {
    message.find("quiet") == Some("1")
}

fn found_line(key: &str, value: &str) -> String {
    format!("cmd=get_result rc=0 msg=success key={key} value={value}\n")
}
