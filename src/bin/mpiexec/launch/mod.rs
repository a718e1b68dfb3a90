//! How agents on other machines are started: by ssh, or a program that is called like it, for each of them; or by the
//! scheduler's engine for all at once.
//!
//! Job id, environment and secrets never stand on a command line, where every user of a machine can read them.

pub mod environment;
pub mod port;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::unistd::{Pid, getpid, getppid, setsid};

use crate::host_list::is_safe_name;
use crate::outcome::{Failure, system_words};
use crate::placement::Launcher;
use crate::shell::quoted;

/// The hidden option that makes `mpiexec` an agent.
pub const AGENT_OPTION: &str = "--agent";
/// The most hosts that one head serves.
pub const HOSTS_MAX: usize = 64;
/// How long ssh tries to connect.
const CONNECT_S: u32 = 10;

/// What was started for one host, or for all.
pub struct Launched {
    /// The command's process.
    pub pid: Pid,
    /// Its name, for messages.
    pub name: String,
    /// Its standard input and output, where agents speak over them.
    pub link: Option<(OwnedFd, OwnedFd)>,
    /// Its standard error.
    pub errors: OwnedFd,
    /// The hosts that it is for.
    pub hosts: Vec<usize>,
}

/// Whether agents connect to a port of the head: the engine's standard input and output are not one agent's.
pub fn needs_port(launcher: &Launcher) -> bool {
    matches!(launcher, Launcher::Slurm | Launcher::Prrte)
}

/// The path of `mpiexec` here, which it has on all machines.
pub fn own_path() -> Result<OsString, Failure> {
    let path = std::env::current_exe();
    path.map(Into::into).map_err(|error| {
        Failure::launcher(format!(
            "this program's own path is unknown: {}",
            system_words(&error)
        ))
    })
}

/// A command that starts agents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartCommand {
    /// The program, along `PATH` or by its path.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The hosts that it is for.
    pub hosts: Vec<usize>,
}

impl StartCommand {
    /// As one may type it.
    pub fn text(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.arguments);
        let words: Vec<String> = words.map(|word| quoted(word).display().to_string()).collect();
        words.join(" ")
    }
}

/// The commands that start the agents of `hosts`, each a number with a name. `path`: of the launcher's command, where that is given.
pub fn commands(
    launcher: &Launcher,
    path: Option<&OsStr>,
    hosts: &[(usize, &str)],
) -> Result<Vec<StartCommand>, Failure> {
    if let Some((_, name)) = hosts.iter().find(|(_, name)| !is_safe_name(name)) {
        return Err(Failure::usage(format!(
            "'{name}' can't be the name of a host: letters, digits and . - _ : @ [ ] % are expected"
        )));
    }
    let own = own_path()?;
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let program = |name: &str| path.unwrap_or(OsStr::new(name)).to_os_string();
    let timeout = format!("ConnectTimeout={CONNECT_S}");
    let each = |program: OsString, before: &[&str], after: &[&str]| {
        let of_host = |&(number, host): &(usize, &str)| StartCommand {
            program: program.clone(),
            arguments: [
                words(before),
                words(&[host]),
                words(after),
                vec![quoted(&own), AGENT_OPTION.into()],
            ]
            .concat(),
            hosts: vec![number],
        };
        hosts.iter().map(of_host).collect()
    };
    let all = |program: OsString, arguments: &[&str]| {
        vec![StartCommand {
            program,
            arguments: [words(arguments), vec![own.clone(), AGENT_OPTION.into()]].concat(),
            hosts: hosts.iter().map(|(number, _)| *number).collect(),
        }]
    };
    let names: Vec<&str> = hosts.iter().map(|(_, name)| *name).collect();
    let count = names.len().to_string();
    Ok(match launcher {
        Launcher::Ssh => {
            let options = ["-x", "-T", "-o", "BatchMode=yes", "-o", &timeout];
            each(program("ssh"), &options, &["exec"])
        }
        Launcher::Program(program) => each(program.clone(), &[], &[]),
        Launcher::Slurm => {
            let list = names.join(",");
            let options = [
                "--nodes",
                &count,
                "--ntasks",
                &count,
                "--ntasks-per-node=1",
                "--nodelist",
                &list,
                "--mpi=none",
                "--overlap",
                "--cpu-bind=none",
                "--kill-on-bad-exit=0",
                "--input=none",
                "--quiet",
            ];
            all(program("srun"), &options)
        }
        Launcher::Prrte => {
            let list = names
                .iter()
                .map(|name| format!("{name}:1"))
                .collect::<Vec<_>>()
                .join(",");
            let options = [
                "--host",
                &list,
                "--map-by",
                "ppr:1:node",
                "--bind-to",
                "none",
                "-n",
                &count,
                "-x",
                port::VARIABLE,
            ];
            all(program("prterun"), &options)
        }
    })
}

/// Runs these commands. `call`: the environment variable with which agents find the head's port; without it they speak over standard
/// input and output.
pub fn start(
    commands: Vec<StartCommand>,
    call: Option<&str>,
    mask: &SigSet,
) -> Result<Vec<Launched>, Failure> {
    commands
        .into_iter()
        .map(|command| spawn(command, call, mask))
        .collect()
}

fn spawn(start: StartCommand, call: Option<&str>, mask: &SigSet) -> Result<Launched, Failure> {
    let StartCommand {
        program,
        arguments,
        hosts,
    } = start;
    let stdio = || {
        if call.is_none() {
            Stdio::piped()
        } else {
            Stdio::null()
        }
    };
    let mut command = Command::new(&program);
    command
        .args(arguments)
        .stdin(stdio())
        .stdout(stdio())
        .stderr(Stdio::piped());
    if let Some(call) = call {
        command.env(port::VARIABLE, call);
    }
    let (mask, head) = (*mask, getpid());
    let prepare = move || {
        // The terminal's signals are the head's, and nobody can be asked for a password.
        setsid()?;
        nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
        if getppid() != head {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&mask), None)?;
        Ok(())
    };
    // SAFETY: between fork and exec this makes system calls only: no allocation, no lock.
    unsafe { command.pre_exec(prepare) };
    let name = Path::new(&program)
        .file_name()
        .unwrap_or(&program)
        .display()
        .to_string();
    let failed = |error: &io::Error| {
        Failure::launcher(format!(
            "'{}', which starts agents on other hosts, can't be executed: {}",
            program.display(),
            system_words(error)
        ))
    };
    // The head reaps all of its children by itself.
    let mut child = command.spawn().map_err(|error| failed(&error))?;
    let link = (child.stdin.take().map(OwnedFd::from)).zip(child.stdout.take().map(OwnedFd::from));
    let Some(errors) = child.stderr.take().map(OwnedFd::from) else {
        return Err(Failure::launcher("a pipe is missing".into()));
    };
    let ends = link.iter().flat_map(|(into, from)| [into, from]).chain([&errors]);
    for end in ends {
        fcntl(end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|errno| failed(&errno.into()))?;
    }
    Ok(Launched {
        pid: Pid::from_raw(child.id() as i32),
        name,
        link,
        errors,
        hosts,
    })
}
