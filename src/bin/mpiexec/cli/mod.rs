//! The command line: what people type for MPICH's, Open MPI's and the standard's `mpiexec` (MPI 5.0, section 11.5).
//!
//! Each program's part is split at the program's name: from there on all words are the program's. Before it,
//! single-dash long options become double-dash ones, and `clap` reads them.

mod environment;
mod foreign;
mod options;
mod words;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Command, FromArgMatches};

use weft::tools::ProcessSet;

use crate::bind::{Bind, MapBy};
use crate::host_list::RANKS_MAX;
use crate::outcome::Failure;
use crate::output_files::Pattern;
use crate::pages;
use crate::placement::{Launcher, Taken};
pub use environment::Inherits;
pub use options::INITIAL_ERRHANDLERS;
use options::{OF_THE_JOB, Options, command};
use words::{one_line, split_part};

/// One program of the job.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct App {
    /// Number of ranks.
    pub count: u32,
    /// The program as typed.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Working directory, where one was given.
    pub wdir: Option<PathBuf>,
    /// Where it is searched before `PATH`.
    pub search: Option<OsString>,
    /// What it gets of the environment here.
    pub inherits: Inherits,
    /// Environment variables to set.
    pub env: Vec<(OsString, OsString)>,
    /// Host names as typed, with `:slots`.
    pub hosts: Vec<String>,
    /// `-memory-alloc-kinds`.
    pub memory_alloc_kinds: Option<String>,
    /// `-initial-errhandler`.
    pub initial_errhandler: Option<String>,
    /// `-pset`: names of process sets that its ranks belong to, each once.
    pub process_sets: Vec<String>,
}

impl App {
    /// One rank of a program, and nothing else that was said.
    pub fn new(program: OsString) -> App {
        App {
            count: 1,
            program,
            args: Vec::new(),
            wdir: None,
            search: None,
            inherits: Inherits::All,
            env: Vec::new(),
            hosts: Vec::new(),
            memory_alloc_kinds: None,
            initial_errhandler: None,
            process_sets: Vec::new(),
        }
    }

    /// An environment variable as its ranks get it.
    pub fn environment(&self, name: &str) -> Option<OsString> {
        let own = self.env.iter().rfind(|(own, _)| own == name);
        own.map(|(_, value)| value.clone()).or_else(|| {
            let here = std::env::var_os(name);
            here.filter(|_| self.inherits.has(name.as_ref()))
        })
    }
}

/// What to run and how.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Plan {
    /// The programs; a program's place is its `MPI_APPNUM`.
    pub apps: Vec<App>,
    /// Prefix each line of output with the rank.
    pub prefix: bool,
    /// Print what happens.
    pub verbose: bool,
    /// The cores that ranks get.
    pub bind: Bind,
    /// The order in which they get them.
    pub map_by: MapBy,
    /// Print which cores they got.
    pub report_bindings: bool,
    /// The time limit.
    pub timeout: Option<Duration>,
    /// What starts agents on other hosts; `None`: what the allocation has.
    pub launcher: Option<Launcher>,
    /// The path of that command.
    pub launcher_exec: Option<OsString>,
    /// Hosts of the whole job, as typed.
    pub hosts: Vec<String>,
    /// The file that lists them.
    pub host_file: Option<PathBuf>,
    /// Ranks on each host, instead of its slots.
    pub per_host: Option<u32>,
    /// Hosts take ranks in turn.
    pub by_node: bool,
    /// More ranks than slots are an error.
    pub no_oversubscribe: bool,
    /// Hosts of an allocation don't count.
    pub ignore_allocation: bool,
    /// The only program has no `-n`: it takes all slots of the hosts that are named.
    pub fill: bool,
    /// `MPI_UNIVERSE_SIZE`, where it is given.
    pub universe: Option<Universe>,
    /// Files for standard output and standard error. Spawned jobs have none: their ranks' numbers are those of the first job's, too.
    #[serde(skip)]
    pub files: [Option<Pattern>; 2],
    /// Print the exit status of every rank.
    pub print_all_exitcodes: bool,
    /// Print the plan and start nothing.
    pub dry_run: bool,
    /// The address of what keeps names of services.
    pub name_server: Option<String>,
    /// Of a spawned job: the slots that those before it have.
    pub taken: Vec<Taken>,
}

/// What `-usize` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Universe {
    /// This number.
    Ranks(u32),
    /// All slots.
    System,
    /// As many as there can be.
    Infinite,
}

impl Plan {
    /// The process sets of the job, in the order in which they are first named. Programs that name the same one are
    /// all in it.
    pub fn process_sets(&self) -> Vec<ProcessSet> {
        let mut sets: Vec<ProcessSet> = Vec::new();
        let mut first = 0;
        // A spawned job may have programs without ranks.
        for app in self.apps.iter().filter(|app| app.count > 0) {
            let ranks = first..=first + app.count - 1;
            for name in &app.process_sets {
                match sets.iter_mut().find(|set| set.name == *name) {
                    Some(set) => set.ranks.push(ranks.clone()),
                    None => sets.push(ProcessSet {
                        name: name.clone(),
                        ranks: vec![ranks.clone()],
                    }),
                }
            }
            first += app.count;
        }
        sets
    }
}

/// What to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Run a job.
    Run(Box<Plan>),
    /// Print this and exit: help or version.
    Print(String),
    /// Keep names of services for several jobs, on this network interface.
    KeepNames(Option<OsString>),
}

/// Reads the command line, without the launcher's own name.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Request, Failure> {
    let words: Vec<OsString> = words.into_iter().collect();
    let mut apps = Vec::new();
    let mut first: Option<Options> = None;
    let mut everywhere = Vec::new();
    let mut inherits = None;
    for part in words.split(|word| word == ":") {
        let mut command = command();
        let (typed, program) = split_part(&mut command, part)?;
        let arguments = std::iter::once(OsString::from("mpiexec")).chain(typed);
        let parsed = command.clone().try_get_matches_from(arguments);
        let options = match parsed.and_then(|matches| {
            check_first_only(&matches, first.is_some(), &mut command)?;
            Options::from_arg_matches(&matches)
        }) {
            Ok(options) => options,
            Err(error) if error.use_stderr() => return Err(Failure::usage(one_line(&error))),
            Err(error) => return Ok(Request::Print(error.render().to_string())),
        };
        if let Some(page) = options.generate {
            return Ok(Request::Print(pages::render(page, options::command())));
        }
        if options.name_server {
            let interface = options.iface.or_else(|| std::env::var_os("WEFT_INTERFACE"));
            return match program {
                [] => Ok(Request::KeepNames(interface)),
                _ => Err(Failure::usage("--name-server runs no program".into())),
            };
        }
        if let Some(path) = &options.configfile {
            let at = words
                .len()
                .checked_sub(2)
                .filter(|&at| words[at].as_encoded_bytes().ends_with(b"-configfile"));
            let Some(at) = at.filter(|_| program.is_empty()) else {
                return Err(Failure::usage(
                    "-configfile FILE has to be the end of the command line".into(),
                ));
            };
            let inner = words::of_file(path)?;
            if inner
                .iter()
                .any(|word| word.as_encoded_bytes().ends_with(b"-configfile"))
            {
                return Err(Failure::usage(format!(
                    "the file '{}' names another -configfile",
                    path.display()
                )));
            }
            return parse(words[..at].iter().cloned().chain(inner));
        }
        everywhere.extend(environment::pairs(&options.genv)?);
        inherits = inherits.or(Inherits::general(&options)?);
        let several = words.iter().any(|word| word == ":");
        apps.push((
            app(&options, program, apps.len(), several)?,
            Inherits::own(&options)?,
        ));
        first.get_or_insert(options);
    }
    let Some(first) = first else {
        return Err(Failure::usage("no program given".into()));
    };
    if let Some(iface) = &first.iface {
        everywhere.push(("WEFT_INTERFACE".into(), iface.clone()));
    }
    let inherits = inherits.unwrap_or(Inherits::All);
    let mut apps: Vec<App> = apps
        .into_iter()
        .map(|(app, own)| App {
            inherits: own.unwrap_or_else(|| inherits.clone()),
            env: everywhere.iter().cloned().chain(app.env).collect(),
            ..app
        })
        .collect();
    let ranks: u64 = apps.iter().map(|app| u64::from(app.count)).sum();
    if ranks > u64::from(RANKS_MAX) {
        return Err(Failure::usage(format!(
            "{ranks} ranks: at most {RANKS_MAX} are possible"
        )));
    }
    plan(&first, std::mem::take(&mut apps)).map(|plan| Request::Run(Box::new(plan)))
}

fn plan(first: &Options, apps: Vec<App>) -> Result<Plan, Failure> {
    let map_by = first.map_by;
    let per_host = match (first.ppn, map_by.and_then(|map_by| map_by.per_host)) {
        (Some(one), Some(other)) if one != other => {
            return Err(Failure::usage(format!(
                "--ppn {one} and --map-by ppr:{other}:node contradict each other"
            )));
        }
        (one, other) => one.or(other),
    };
    let launcher = |name: &OsString| match name.to_str() {
        Some("ssh") => Launcher::Ssh,
        Some("slurm" | "srun") => Launcher::Slurm,
        Some("prrte" | "prterun") => Launcher::Prrte,
        _ => Launcher::Program(name.clone()),
    };
    let size = apps.iter().map(|app| app.count).sum();
    let pattern = |own: &Option<String>, name: &str| match (own, &first.output_filename) {
        (Some(_), Some(_)) => Err(Failure::usage(
            "-outfile-pattern and -errfile-pattern can't be combined with --output-filename".into(),
        )),
        (Some(text), None) => Pattern::parse(text).map(Some).map_err(Failure::usage),
        (None, Some(folder)) => Pattern::of_folder(folder, name, size)
            .map(Some)
            .map_err(Failure::usage),
        (None, None) => Ok(None),
    };
    Ok(Plan {
        prefix: first.prefix,
        verbose: first.verbose,
        bind: first.bind_to.unwrap_or(Bind::Share),
        map_by: map_by.map_or(MapBy::Slot, |map_by| map_by.within),
        report_bindings: first.report_bindings,
        timeout: first.timeout,
        launcher: first.launcher.as_ref().map(launcher),
        launcher_exec: first.launcher_exec.clone(),
        hosts: first.hosts.clone(),
        host_file: first.hostfile.clone(),
        per_host,
        by_node: map_by.is_some_and(|map_by| map_by.by_node),
        no_oversubscribe: first.nooversubscribe || map_by.is_some_and(|map_by| map_by.no_oversubscribe),
        ignore_allocation: first.rmk.as_deref() == Some("user"),
        fill: apps.len() == 1 && first.count.is_none(),
        universe: first.usize,
        files: [
            pattern(&first.outfile_pattern, "stdout")?,
            pattern(&first.errfile_pattern, "stderr")?,
        ],
        print_all_exitcodes: first.print_all_exitcodes,
        dry_run: first.dry_run,
        name_server: first.nameserver.clone().filter(|address| !address.is_empty()),
        taken: Vec::new(),
        apps,
    })
}

/// The options that concern the whole job come before the first program.
fn check_first_only(
    matches: &clap::ArgMatches,
    later: bool,
    command: &mut Command,
) -> Result<(), clap::Error> {
    let typed = |id: &str| matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
    let misplaced = OF_THE_JOB.into_iter().find(|id| typed(id));
    match misplaced.filter(|_| later) {
        Some(id) => Err(command.error(
            clap::error::ErrorKind::ArgumentConflict,
            format!(
                "the option {} concerns the whole job: it goes before the first program",
                id.replace('_', "-")
            ),
        )),
        None => Ok(()),
    }
}

fn app(options: &Options, program: &[OsString], number: usize, several: bool) -> Result<App, Failure> {
    let Some((program, args)) = program.split_first().filter(|(program, _)| !program.is_empty()) else {
        let which = if several {
            format!(" number {}", number + 1)
        } else {
            String::new()
        };
        return Err(Failure::usage(format!(
            "no program{which} given (mpiexec --help tells how)"
        )));
    };
    let mut process_sets = options.pset.clone();
    process_sets.sort();
    process_sets.dedup();
    Ok(App {
        count: options.count.unwrap_or(1),
        args: args.to_vec(),
        wdir: options.wdir.clone(),
        env: environment::own(options)?,
        hosts: options.host.clone(),
        memory_alloc_kinds: options.memory_alloc_kinds.clone(),
        initial_errhandler: options.initial_errhandler.clone(),
        process_sets,
        ..App::new(program.clone())
    })
}

#[cfg(test)]
mod tests;
