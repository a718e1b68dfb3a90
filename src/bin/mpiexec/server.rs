//! The PMI-1 service of the job, without its sockets: a line of a rank comes in, effects come out.
//!
//! A rank may run several MPI programs one after another (`sh -c './a; ./b'`): each `init` of another process begins a
//! new epoch for that rank, and keys and barriers belong to one epoch, so a fast rank's second program never uses what a
//! slow rank's first program left.

use std::collections::{BTreeSet, HashMap};

use weft::Result;
use weft::err;
use weft::tools::JobId;
use weft::tools::pmi1::wire::{self, Message};
use weft::tools::pmi1::words;

use crate::names::{self, What};
use crate::spawn::lines::{Lines, Request};

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

/// Which rank is on which host, as MPICH writes it: `(vector,(HOST,HOSTS,RANKS),…)`, each part a number of hosts in order with that many
/// ranks each. Parts are repeated as long as there are ranks.
fn mapping(hosts: &[usize]) -> String {
    // Ranks that follow each other on a host.
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &host in hosts {
        match runs.last_mut() {
            Some((last, count)) if *last == host => *count += 1,
            _ => runs.push((host, 1)),
        }
    }
    // The shortest beginning of which all are repetitions, for ranks that are dealt out in turn.
    let period = (1..=runs.len()).find(|&period| {
        let (last, rest) = (runs.len() - 1, runs.len() % period);
        let same = |(at, run): (usize, &(usize, usize))| {
            let first = runs[at % period];
            // The last run may have been cut off.
            *run == first || at == last && run.0 == first.0 && run.1 < first.1
        };
        (rest == 0 || runs.len() > 2 * period) && runs.iter().enumerate().all(same)
    });
    let mut parts: Vec<(usize, usize, usize)> = Vec::new();
    for &(host, ranks) in &runs[..period.unwrap_or(runs.len())] {
        match parts.last_mut() {
            Some((first, count, each)) if *first + *count == host && *each == ranks => *count += 1,
            _ => parts.push((host, 1, ranks)),
        }
    }
    let parts: String = (parts.iter())
        .map(|(first, count, each)| format!(",({first},{count},{each})"))
        .collect();
    format!("(vector{parts})")
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn server(size: usize) -> Server {
        Server::new(Facts {
            job: "job".into(),
            appnums: vec![0; size],
            universe_size: size as u32,
            hosts: vec![0; size],
            agents: vec![1],
            memory_alloc_kinds: vec![None; size],
        })
    }

    /// The lines that go out, with their ranks.
    fn replies(server: &mut Server, rank: usize, line: &str) -> Vec<(usize, String)> {
        let effects = server
            .line(rank, Some(100 + rank as i32), line.as_bytes())
            .unwrap();
        effects
            .into_iter()
            .filter_map(|effect| match effect {
                Effect::Reply { rank, line } => Some((rank, line)),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn the_mapping_is_short_for_regular_placements() {
        for (hosts, expected) in [
            (vec![0; 4], "(vector,(0,1,4))"),
            (vec![0, 0, 1, 1, 2, 2], "(vector,(0,3,2))"),
            (vec![0, 0, 1, 1, 2], "(vector,(0,2,2),(2,1,1))"),
            (vec![1, 0, 0, 1], "(vector,(1,1,1),(0,1,2),(1,1,1))"),
        ] {
            assert_eq!(mapping(&hosts), expected);
        }
        let in_turn: Vec<usize> = (0..60_000).map(|rank| rank % 60).collect();
        assert_eq!(mapping(&in_turn), "(vector,(0,60,1))");
        // The last round is not full.
        assert_eq!(mapping(&in_turn[..59_990]), "(vector,(0,60,1))");
        let in_pairs: Vec<usize> = (0..13).map(|rank| rank / 2 % 3).collect();
        assert_eq!(mapping(&in_pairs), "(vector,(0,3,2))");
    }

    fn init(server: &mut Server, rank: usize) {
        let line = &replies(server, rank, "cmd=init pmi_version=1 pmi_subversion=1")[0].1;
        assert!(line.contains(" rc=0 "), "{line}");
    }

    #[test]
    fn a_plain_get_is_answered_at_once_and_a_waiting_one_when_put() {
        let mut server = server(2);
        init(&mut server, 0);
        init(&mut server, 1);
        let plain = replies(&mut server, 0, "cmd=get kvsname=k key=a");
        assert!(plain[0].1.contains("rc=1"), "{plain:?}");
        assert_eq!(
            replies(&mut server, 0, "cmd=get kvsname=k key=a wait=1 from=1"),
            []
        );
        assert_eq!(
            replies(&mut server, 1, "cmd=put kvsname=k key=a value=7"),
            [
                (1, "cmd=put_result rc=0 msg=success\n".to_string()),
                (0, "cmd=get_result rc=0 msg=success key=a value=7\n".to_string())
            ]
        );
    }

    #[test]
    fn who_is_quiet_has_no_answer() {
        let mut server = server(2);
        init(&mut server, 0);
        assert_eq!(
            replies(&mut server, 0, "cmd=get kvsname=k key=a wait=1 from=0"),
            []
        );
        assert_eq!(
            replies(&mut server, 0, "cmd=put kvsname=k key=a value=7 quiet=1"),
            [(0, "cmd=get_result rc=0 msg=success key=a value=7\n".to_string())]
        );
        let long = format!(
            "cmd=put kvsname=k key={} value=7 quiet=1",
            "a".repeat(KEYLEN_MAX + 1)
        );
        assert!(server.line(0, None, long.as_bytes()).is_err());
        let finalized = server.line(0, None, b"cmd=finalize quiet=1").unwrap();
        assert_eq!(finalized, [Effect::Finalized { rank: 0 }]);
        assert_eq!(server.phase(0), Phase::Finalized);
    }

    #[test]
    fn keys_and_values_have_a_longest() {
        let (key, value) = ("k".repeat(KEYLEN_MAX), "v".repeat(WEFT_VALLEN_MAX));
        for quiet in [false, true] {
            let mut server = server(1);
            init(&mut server, 0);
            let mut put = |key: &str, value: &str| {
                let quiet = if quiet { " quiet=1" } else { "" };
                let line = format!("cmd=put kvsname=k key={key} value={value}{quiet}");
                server.line(0, None, line.as_bytes())
            };
            let good = put(&key, &value).unwrap();
            assert_eq!(good.is_empty(), quiet);
            for (key, value) in [(&key, &format!("{value}v")), (&format!("{key}k"), &value)] {
                match put(key, value) {
                    Err(_) if quiet => {}
                    Ok(effects) if !quiet => {
                        let text = format!("{effects:?}");
                        assert!(text.contains("rc=1") && text.contains("too_long"), "{text}");
                    }
                    other => panic!("quiet {quiet}: {other:?}"),
                }
            }
            // A refused put has no effect.
            let get = |key: &str| format!("cmd=get kvsname=k key={key}");
            let found = &replies(&mut server, 0, &get(&key))[0].1;
            assert_eq!(*found, format!("cmd=get_result rc=0 msg=success value={value}\n"));
            assert!(
                replies(&mut server, 0, &get(&format!("{key}k")))[0]
                    .1
                    .contains("rc=1")
            );
        }
    }

    /// The limits that a client is told are the real ones.
    #[test]
    fn the_longest_value_fits_a_line() {
        let mut server = server(1);
        init(&mut server, 0);
        let maxes = &replies(&mut server, 0, "cmd=get_maxes")[0].1;
        assert!(maxes.contains("keylen_max=64 vallen_max=1024"), "{maxes}");
        let longest = found_line(&"k".repeat(KEYLEN_MAX), &"v".repeat(WEFT_VALLEN_MAX));
        assert!(longest.len() <= wire::LINE_BYTES_MAX);
    }

    #[test]
    fn a_barrier_opens_when_all_are_in() {
        let mut server = server(2);
        init(&mut server, 0);
        init(&mut server, 1);
        for _ in 0..2 {
            assert_eq!(replies(&mut server, 1, "cmd=barrier_in"), []);
            assert_eq!(replies(&mut server, 0, "cmd=barrier_in").len(), 2);
        }
    }

    #[test]
    fn a_second_program_of_a_rank_meets_nothing_of_the_first() {
        let mut server = server(2);
        init(&mut server, 0);
        init(&mut server, 1);
        replies(&mut server, 0, "cmd=put kvsname=k key=a value=old");
        replies(&mut server, 0, "cmd=finalize");
        let second = server
            .line(0, Some(7), b"cmd=init pmi_version=1 pmi_subversion=1")
            .unwrap();
        assert_eq!(
            second[0],
            Effect::Initialized {
                rank: 0,
                pid: Some(7)
            }
        );
        assert!(
            replies(&mut server, 0, "cmd=get kvsname=k key=a")[0]
                .1
                .contains("rc=1")
        );
        assert!(
            replies(&mut server, 1, "cmd=get kvsname=k key=a")[0]
                .1
                .contains("value=old")
        );
        assert_eq!(replies(&mut server, 0, "cmd=barrier_in"), []);
        assert_eq!(replies(&mut server, 1, "cmd=barrier_in"), []);
    }

    #[test]
    fn who_waits_for_a_gone_rank_is_found() {
        let mut server = server(3);
        init(&mut server, 0);
        init(&mut server, 2);
        replies(&mut server, 2, "cmd=get kvsname=k key=a wait=1 from=1");
        assert_eq!(server.waited_for_in_vain(), None);
        server.exited(1);
        assert_eq!(server.waited_for_in_vain(), Some((1, 2)));
        replies(&mut server, 0, "cmd=barrier_in");
        assert_eq!(server.waited_for_in_vain(), Some((1, 0)));
    }

    #[test]
    fn another_mpis_client_spawns_by_lines() {
        let mut server = server(1);
        let lines = [
            "mcmd=spawn",
            "nprocs=2",
            "execname=a b",
            "totspawns=1",
            "spawnssofar=1",
            "argcnt=0",
            "preput_num=1",
            "preput_key_0=PARENT",
            "preput_val_0=tag#0",
            "info_num=0",
        ];
        server.line(0, None, b"mcmd=spawn").expect_err("before init");
        init(&mut server, 0);
        for line in lines {
            assert_eq!(server.line(0, None, line.as_bytes()).unwrap(), []);
        }
        let effects = server.line(0, None, b"endcmd").unwrap();
        let [
            Effect::Spawn {
                rank: 0,
                form: SpawnForm::Lines,
                list,
                preput,
            },
        ] = &effects[..]
        else {
            panic!("{effects:?}")
        };
        assert_eq!(words::to_spawn(list).unwrap().commands[0].program, "a b");
        assert_eq!(preput, &[("PARENT".into(), "tag#0".into())]);
        // The next line is one of its own again.
        assert_eq!(replies(&mut server, 0, "cmd=get_appnum").len(), 1);
        // A new process of the rank begins anew.
        assert_eq!(replies(&mut server, 0, "mcmd=spawn"), []);
        assert_eq!(replies(&mut server, 0, "nprocs=1"), []);
        server.line(0, None, b"no line").expect_err("no key=value");
        for line in ["mcmd=put", "cmd=spawn"] {
            let mut server = self::server(1);
            init(&mut server, 0);
            server.line(0, None, line.as_bytes()).expect_err(line);
        }
    }

    #[test]
    fn what_those_that_spawn_have_put_is_there_from_the_start() {
        let mut server = server(2);
        server.put_before(vec![("PARENT".into(), "tag#0".into())]);
        init(&mut server, 1);
        let found = replies(&mut server, 1, "cmd=get kvsname=k key=PARENT");
        assert!(found[0].1.contains("value=tag#0"), "{found:?}");
    }

    #[test]
    fn a_second_process_of_an_active_rank_is_refused() {
        let mut server = server(1);
        init(&mut server, 0);
        let line = &replies(&mut server, 0, "cmd=init pmi_version=1 pmi_subversion=1")[0].1;
        assert!(line.contains("rc=1"), "{line}");
    }

    #[test]
    fn abort_carries_code_and_message() {
        let mut server = server(1);
        let line = format!(
            "cmd=abort exitcode=-3 message=abort weft_message={}",
            wire::to_hex(b"no field")
        );
        let effects = server.line(0, None, line.as_bytes()).unwrap();
        assert_eq!(
            effects,
            [Effect::Abort {
                rank: 0,
                code: -3,
                message: "no field".into()
            }]
        );
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(lines in proptest::collection::vec(
            "(cmd|mcmd)=(init|get|put|barrier_in|finalize|abort|getbyidx|spawn|x)\
             ( (key|value|kvsname|idx|from|wait|exitcode|message|pmi_version)=[a1-9]{0,3}){0,4}",
            0..20,
        )) {
            let mut server = server(2);
            for (number, line) in lines.iter().enumerate() {
                // Whether it is refused is not the point here.
                let _ = server.line(number % 2, None, line.as_bytes());
            }
        }
    }

    #[test]
    fn a_foreign_client_finds_where_the_ranks_are() {
        let mut server = server(3);
        init(&mut server, 1);
        assert_eq!(
            replies(&mut server, 1, "cmd=get kvsname=k key=PMI_process_mapping"),
            [(
                1,
                "cmd=get_result rc=0 msg=success value=(vector,(0,1,3))\n".to_string()
            )]
        );
    }

    #[test]
    fn a_foreign_client_finds_the_memory_kinds_that_were_asked_for() {
        let mut server = server(2);
        server.facts.memory_alloc_kinds[1] = Some("mpi:alloc_mem".into());
        init(&mut server, 0);
        init(&mut server, 1);
        let ask = "cmd=get kvsname=k key=PMI_mpi_memory_alloc_kinds";
        assert!(replies(&mut server, 0, ask)[0].1.contains("rc=1"));
        assert_eq!(
            replies(&mut server, 1, ask),
            [(
                1,
                "cmd=get_result rc=0 msg=success value=mpi:alloc_mem\n".to_string()
            )]
        );
    }

    #[test]
    fn who_waits_for_a_rank_that_there_is_none_of_waits_for_nobody_in_particular() {
        let mut server = server(2);
        init(&mut server, 0);
        for from in ["2", "3", "-1", "x"] {
            let line = format!("cmd=get kvsname=k key=a wait=1 from={from}");
            assert_eq!(replies(&mut server, 0, &line), []);
        }
        server.exited(1);
        assert_eq!(server.waited_for_in_vain(), None);
    }

    #[test]
    fn what_a_rank_spawns_comes_in_parts_and_is_checked() {
        let mut server = server(1);
        init(&mut server, 0);
        let spawn = weft::tools::Spawn {
            port: "p".into(),
            commands: vec![weft::tools::SpawnCommand::default()],
        };
        let list = words::of_spawn(&spawn);
        let hex = wire::to_hex(&list);
        let (first, second) = hex.split_at(8);
        let part = |more: u8, data: &str| format!("cmd=weft_spawn id=5 more={more} data={data}");
        for _ in 0..2 {
            assert_eq!(server.line(0, None, part(1, first).as_bytes()).unwrap(), []);
            let effects = server.line(0, None, part(0, second).as_bytes()).unwrap();
            let list = list.clone();
            let spawn = Effect::Spawn {
                rank: 0,
                form: SpawnForm::Weft(5),
                list,
                preput: Vec::new(),
            };
            assert_eq!(effects, [spawn]);
        }
        for line in [
            part(0, "x"),
            part(0, "00"),
            part(2, &hex[1..]),
            "cmd=weft_spawn id=5 data=00".into(),
            "cmd=weft_spawn id=-5 more=0 data=00".into(),
            "cmd=weft_connected job=x on=1".into(),
            "cmd=weft_connected job=1 on=".into(),
            "cmd=publish_name service=0g port=00 hex=1".into(),
            "cmd=publish_name service=ff port=00 hex=1".into(),
            "cmd=publish_name service=a".into(),
            "cmd=lookup_name".into(),
        ] {
            server.line(0, None, line.as_bytes()).expect_err(&line);
        }
        let long = part(1, &"00".repeat(7000));
        let parts = (0..=words::BYTES_MAX / 7000).map(|_| server.line(0, None, long.as_bytes()).is_ok());
        assert_eq!(parts.filter(|taken| !taken).count(), 1);
    }

    #[test]
    fn a_foreign_client_is_told_the_jobs_name_and_room() {
        let mut server = server(1);
        init(&mut server, 0);
        let name = &replies(&mut server, 0, "cmd=get_my_kvsname")[0].1;
        let name = name
            .strip_prefix("cmd=my_kvsname rc=0 kvsname=")
            .expect("the answer");
        assert!(name.starts_with("job") && name.len() <= KVSNAME_MAX, "{name}");
    }

    #[test]
    fn a_foreign_client_finds_what_was_put_by_its_number() {
        let mut server = server(1);
        init(&mut server, 0);
        for (key, value) in [("b", 7), ("a", 8)] {
            replies(
                &mut server,
                0,
                &format!("cmd=put kvsname=k key={key} value={value}"),
            );
        }
        let mut found = |index| {
            replies(&mut server, 0, &format!("cmd=getbyidx kvsname=k idx={index}"))[0]
                .1
                .clone()
        };
        assert_eq!(found(0), "cmd=getbyidx_results rc=0 nextidx=1 key=b val=7\n");
        assert_eq!(found(1), "cmd=getbyidx_results rc=0 nextidx=2 key=a val=8\n");
        assert_eq!(found(2), "cmd=getbyidx_results rc=1 reason=no_more_keys\n");
    }
}
