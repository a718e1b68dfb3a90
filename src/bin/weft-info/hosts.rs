//! `--hosts`: what would carry messages between which hosts. [`crate::host`] is the other end, on each host.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use weft::tools::columns;

use crate::host::Facts;
use crate::shell::quoted;
use crate::{host_file, host_list};

/// For a host to be reached and to tell of itself; and then to try the others.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Up to so many hosts all pairs are printed; beyond that only those with a problem.
const ALL_PAIRS: usize = 8;

/// All that `--hosts` prints.
#[derive(Serialize)]
pub struct Picture {
    hosts: Vec<Host>,
    pairs: Vec<Pair>,
}

#[derive(Serialize)]
struct Host {
    name: String,
    facts: Option<Facts>,
    /// Why there are none, or why nothing carries messages to others.
    problem: Option<String>,
}

/// What two hosts use.
#[derive(Serialize, Debug, PartialEq, Eq)]
struct Pair {
    hosts: [String; 2],
    /// `None`: nothing.
    carried_by: Option<String>,
    /// The interfaces and addresses of both.
    places: Option<String>,
    /// Why that, or why nothing.
    why: String,
}

/// The names in `hosts`: a list or a host file, as `mpiexec` takes them. Slots don't matter here.
pub fn names(hosts: &str) -> Result<Vec<String>, String> {
    let entries = match Path::new(hosts).is_file() {
        true => host_file::read(Path::new(hosts))?,
        false => host_list::entries(&[hosts.to_string()])?,
    };
    let mut names: Vec<String> = Vec::new();
    for entry in entries {
        if !names.contains(&entry.name) {
            names.push(entry.name);
        }
    }
    match names.is_empty() {
        true => Err(format!("'{hosts}' names no host")),
        false => Ok(names),
    }
}

/// A `weft-info` that runs on a host.
struct Asked {
    launcher: String,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        // The one on the host ends when its input does.
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Asked {
    fn start(launcher: &str, name: &str) -> Result<Asked, String> {
        let mut words = launcher.split_whitespace();
        let program = words.next().ok_or("the command of --launcher-exec is empty")?;
        let mut command = Command::new(program);
        command.args(words);
        if program == "ssh" {
            command.args(["-x", "-T", "-oBatchMode=yes", "-oConnectTimeout=10"]);
        }
        command.arg(name).arg(remote_command()?);
        let mut child = (command.stdin(Stdio::piped()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program} can't be started: {error}"))?;
        let stdin = child.stdin.take();
        let (to, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    // Nobody waits for more.
                    if to.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let stderr = child.stderr.take().map(|mut stderr| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                // What came until the error is all there is.
                let _ = stderr.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        });
        Ok(Asked {
            launcher: program.into(),
            child,
            stdin,
            lines,
            stderr,
        })
    }

    /// The next line, which `prefix` begins: what a shell's start-up files print before is not for us.
    fn answer<T: DeserializeOwned>(&mut self, prefix: char) -> Result<T, String> {
        loop {
            match self.lines.recv_timeout(ANSWER_LIMIT) {
                Ok(line) if line.starts_with(prefix) => {
                    return serde_json::from_str(&line).map_err(|_| {
                        "weft-info there gave another answer than expected: is it another version?".into()
                    });
                }
                Ok(_) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    return Err(format!("no answer within {} s", ANSWER_LIMIT.as_secs()));
                }
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return Err(self.why_ended()),
            }
        }
    }

    fn why_ended(&mut self) -> String {
        self.stdin = None;
        let status = match self.child.wait() {
            Ok(status) => status,
            Err(error) => return format!("how {} ended is not known: {error}", self.launcher),
        };
        let said = self.stderr.take().and_then(|thread| thread.join().ok());
        let said = said.unwrap_or_default();
        let said = said.lines().rfind(|line| !line.trim().is_empty()).map(str::trim);
        why_no_answer(&self.launcher, status, said)
    }
}

fn why_no_answer(launcher: &str, status: ExitStatus, said: Option<&str>) -> String {
    let said = said.map(|said| format!(": {said}")).unwrap_or_default();
    match status.code() {
        Some(126 | 127) => format!("weft-info can't be run there{said}"),
        Some(255) if launcher == "ssh" => format!("ssh can't reach it{said}"),
        Some(code) => format!("weft-info there ended with status {code}{said}"),
        None => format!("{launcher} was ended by a signal{said}"),
    }
}

/// This program, by its path here, with the settings of here.
fn remote_command() -> Result<String, String> {
    let own =
        std::env::current_exe().map_err(|error| format!("the path of weft-info is not known: {error}"))?;
    let mut command = "exec env".to_string();
    let quoted = |word: &str| quoted(word.as_ref()).display().to_string();
    for (name, value) in std::env::vars() {
        let travels =
            ["WEFT_", "FI_"].iter().any(|prefix| name.starts_with(prefix)) || name == "LD_LIBRARY_PATH";
        if travels && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            let _ = write!(command, " {name}={}", quoted(&value));
        }
    }
    let _ = write!(command, " {} --serve-hosts", quoted(&own.to_string_lossy()));
    Ok(command)
}

impl Picture {
    /// Asks all hosts at once.
    pub fn gather(names: &[String], launcher: &str) -> Picture {
        let mut asked: Vec<Result<Asked, String>> =
            names.iter().map(|name| Asked::start(launcher, name)).collect();
        let facts: Vec<Result<Facts, String>> = (asked.iter_mut())
            .map(|asked| match asked {
                Ok(asked) => asked.answer('{'),
                Err(problem) => Err(problem.clone()),
            })
            .collect();
        let targets: Vec<Option<SocketAddr>> = (facts.iter())
            .map(|facts| facts.as_ref().ok().and_then(|facts| facts.listens))
            .collect();
        let line = serde_json::to_string(&targets).unwrap_or_default() + "\n";
        for (asked, facts) in asked.iter_mut().zip(&facts) {
            if let (Ok(asked), Ok(_)) = (asked, facts)
                && let Some(stdin) = &mut asked.stdin
            {
                // A host that is gone by now gives no answer, which is reported.
                let _ = stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush());
            }
        }
        let tries: Vec<Result<Vec<Option<String>>, String>> = (asked.iter_mut().zip(&facts))
            .map(|(asked, facts)| match (asked, facts) {
                (Ok(asked), Ok(_)) => asked.answer('['),
                _ => Err("not asked".into()),
            })
            .collect();
        let hosts: Vec<Host> = (names.iter().zip(facts))
            .map(|(name, facts)| Host {
                name: name.clone(),
                problem: match &facts {
                    Ok(facts) => facts.problem.clone(),
                    Err(problem) => Some(problem.clone()),
                },
                facts: facts.ok(),
            })
            .collect();
        let pairs = pairs(&hosts, &tries);
        Picture { hosts, pairs }
    }

    /// Whether all hosts answered, and all can send to all.
    pub fn is_well(&self) -> bool {
        self.hosts.iter().all(|host| host.facts.is_some())
            && self.pairs.iter().all(|pair| pair.carried_by.is_some())
    }

    /// For people.
    pub fn render(&self) -> String {
        let mut rows = vec![
            [
                "host",
                "Weft",
                "libfabric",
                "to other hosts",
                "within it",
                "problem",
            ]
            .map(String::from),
        ];
        for host in &self.hosts {
            let told = |what: fn(&Facts) -> String| host.facts.as_ref().map_or_else(|| "-".into(), what);
            rows.push([
                host.name.clone(),
                told(|facts| facts.weft.clone()),
                told(|facts| facts.libfabric.clone().unwrap_or_else(|| "none".into())),
                told(|facts| match &facts.provider {
                    Some(provider) => format!("{provider} on {}", place(facts)),
                    None => "nothing".into(),
                }),
                // The reason of a "nothing" is that of the provider.
                told(|facts| facts.within.split(": ").next().unwrap_or_default().into()),
                host.problem.clone().unwrap_or_else(|| "-".into()),
            ]);
        }
        let mut out = String::new();
        let all = self.pairs.len() <= ALL_PAIRS * (ALL_PAIRS - 1) / 2;
        table(&mut out, &rows);
        let mut rows = vec![["between", "and", "carried by", "where", "why"].map(String::from)];
        for pair in self.pairs.iter().filter(|pair| all || pair.carried_by.is_none()) {
            rows.push([
                pair.hosts[0].clone(),
                pair.hosts[1].clone(),
                pair.carried_by.clone().unwrap_or_else(|| "nothing".into()),
                pair.places.clone().unwrap_or_else(|| "-".into()),
                pair.why.clone(),
            ]);
        }
        if rows.len() > 1 {
            out.push('\n');
            table(&mut out, &rows);
        }
        if !all {
            let well = self.pairs.iter().filter(|pair| pair.carried_by.is_some()).count();
            let _ = writeln!(
                out,
                "\n{well} of {} pairs can send to each other; --json lists them",
                self.pairs.len()
            );
        }
        out
    }
}

fn table<const COLUMNS: usize>(out: &mut String, rows: &[[String; COLUMNS]]) {
    for row in columns(rows) {
        let _ = writeln!(out, "{row}");
    }
}

fn place(facts: &Facts) -> String {
    let interface = facts.interface.clone().unwrap_or_default();
    match &facts.address {
        Some(address) => format!("{interface} ({address})"),
        None => interface,
    }
}

fn pairs(hosts: &[Host], tries: &[Result<Vec<Option<String>>, String>]) -> Vec<Pair> {
    let known: Vec<(usize, &str, &Facts)> = (hosts.iter().enumerate())
        .filter_map(|(number, host)| Some((number, host.name.as_str(), host.facts.as_ref()?)))
        .collect();
    let mut pairs = Vec::new();
    for (at, &(first, first_name, one)) in known.iter().enumerate() {
        for &(second, second_name, other) in &known[at + 1..] {
            let reach = [(first, second), (second, first)].map(|(from, to)| {
                let why_not = match &tries[from] {
                    Ok(results) => results.get(to).cloned().flatten(),
                    Err(problem) => Some(problem.clone()),
                };
                why_not.map(|why| {
                    let at = hosts[to].facts.as_ref().and_then(|facts| facts.address.clone());
                    let at = at.map(|address| format!(" at {address}")).unwrap_or_default();
                    format!("{} can't reach {}{at}: {why}", hosts[from].name, hosts[to].name)
                })
            });
            let (carried_by, places, why) = between([first_name, second_name], one, other, reach);
            pairs.push(Pair {
                hosts: [first_name.into(), second_name.into()],
                carried_by,
                places,
                why,
            });
        }
    }
    pairs
}

/// What carries messages between two hosts, where, and why that or why nothing. `unreachable`: by the tries from one to the other.
fn between(
    names: [&str; 2],
    one: &Facts,
    other: &Facts,
    unreachable: [Option<String>; 2],
) -> (Option<String>, Option<String>, String) {
    let nothing = |why: String| (None, None, why);
    if one.weft != other.weft {
        let [first, second] = names;
        return nothing(format!(
            "{first} has Weft {}, {second} has {}: a job needs the same on all hosts",
            one.weft, other.weft
        ));
    }
    let boot = |facts: &Facts| {
        facts
            .machine
            .as_ref()
            .and_then(|machine| machine.split('-').next().map(String::from))
    };
    let one_machine = boot(one).is_some() && boot(one) == boot(other);
    if one_machine && one.machine == other.machine {
        return (
            Some(one.within.clone()),
            None,
            "one machine: the same boot id and pid namespace".into(),
        );
    }
    let (Some(provider), Some(second)) = (&one.provider, &other.provider) else {
        let name = names[usize::from(one.provider.is_some())];
        return nothing(format!("{name} has no provider to other hosts"));
    };
    if provider != second {
        return nothing(format!(
            "{} would use {provider}, {} {second}: choose one that both have by WEFT_PROVIDER",
            names[0], names[1]
        ));
    }
    let places = Some(format!("{} - {}", place(one), place(other)));
    let problems: Vec<String> = unreachable.into_iter().flatten().collect();
    if !problems.is_empty() {
        return (None, places, problems.join("; "));
    }
    let machines = match one_machine {
        true => "one machine, but different pid namespaces (containers)",
        false => "different machines",
    };
    let tried = match one.listens.is_some() && other.listens.is_some() {
        true => "connections both ways work",
        false => "connections were not tried",
    };
    (Some(provider.clone()), places, format!("{machines}; {tried}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    fn facts(machine: &str, provider: &str) -> Facts {
        Facts {
            weft: "1".into(),
            machine: Some(machine.into()),
            within: "shared memory".into(),
            provider: Some(provider.into()),
            interface: Some("eth0".into()),
            address: Some("10.0.0.1".into()),
            listens: Some(([10, 0, 0, 1], 7).into()),
            ..Facts::default()
        }
    }

    #[test]
    fn lists_and_files_name_hosts() {
        assert_eq!(names("a,b:4,n[1-2],a").unwrap(), ["a", "b", "n1", "n2"]);
        assert_eq!(names("fd00::1,me@b").unwrap(), ["fd00::1", "me@b"]);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# all\na slots=2 max_slots=4\n\nb:3 # the second\n").unwrap();
        assert_eq!(names(file.path().to_str().unwrap()).unwrap(), ["a", "b"]);
        for wrong in ["", ",", "-oProxyCommand=x", "a;b", "a b$c,d$"] {
            let error = names(wrong).expect_err(wrong);
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn one_machine_shares_memory_and_containers_do_not() {
        let (one, container) = (facts("b-1", "net"), facts("b-2", "net"));
        let (by, _, why) = between(["a", "b"], &one, &one.clone(), [None, None]);
        assert_eq!(by.as_deref(), Some("shared memory"), "{why}");
        let (by, _, why) = between(["a", "b"], &one, &container, [None, None]);
        assert_eq!(by.as_deref(), Some("net"));
        assert!(why.contains("containers"), "{why}");
        let unknown = Facts {
            machine: None,
            ..facts("", "net")
        };
        let (by, _, why) = between(["a", "b"], &unknown, &unknown.clone(), [None, None]);
        assert_eq!(by.as_deref(), Some("net"), "{why}");
    }

    #[test]
    fn what_does_not_work_says_which_host() {
        let (one, other) = (facts("b-1", "net"), facts("c-1", "tcp;ofi_rxm"));
        let (by, _, why) = between(["a", "b"], &one, &other, [None, None]);
        assert!(
            by.is_none() && why.contains("a would use net, b tcp;ofi_rxm"),
            "{why}"
        );
        let newer = Facts {
            weft: "2".into(),
            ..facts("c-1", "net")
        };
        let (by, _, why) = between(["a", "b"], &one, &newer, [None, None]);
        assert!(by.is_none() && why.contains("b has 2"), "{why}");
        let alone = Facts {
            provider: None,
            problem: Some("no interface".into()),
            ..facts("c-1", "net")
        };
        let (by, _, why) = between(["a", "b"], &one, &alone, [None, None]);
        assert!(by.is_none() && why.starts_with("b has no provider"), "{why}");
        let cut = [None, Some("b can't reach a".to_string())];
        let (by, _, why) = between(["a", "b"], &one, &facts("c-1", "net"), cut);
        assert!(by.is_none() && why == "b can't reach a", "{why}");
    }

    #[test]
    fn an_end_without_an_answer_is_told_in_words() {
        let ended = |code: i32| ExitStatus::from_raw(code << 8);
        let why = |code, said| why_no_answer("ssh", ended(code), said);
        assert!(why(255, Some("refused")).contains("ssh can't reach it: refused"));
        assert!(why(127, None).contains("can't be run there"));
        assert!(why(3, Some("x")).contains("status 3: x"));
    }
}
