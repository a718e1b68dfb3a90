//! The command line: what people type for MPICH's, Open MPI's and the standard's `mpiexec` (MPI 5.0, section 11.5).
//!
//! Each program's part is split at the program's name: from there on all words are the program's. Before it,
//! single-dash long options become double-dash ones, and `clap` reads them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Command, FromArgMatches};

use weft::tools::ProcessSet;

use crate::bind::{Bind, MapBy};
use crate::outcome::Failure;
use crate::pages::{self, Page};
use crate::placement::Launcher;

/// The most ranks of a job.
const RANKS_MAX: u32 = 65_536;

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
    /// An environment variable as its ranks get it.
    pub fn environment(&self, name: &str) -> Option<OsString> {
        let own = self.env.iter().rfind(|(own, _)| own == name);
        own.map(|(_, value)| value.clone())
            .or_else(|| std::env::var_os(name))
    }
}

/// What to run and how.
#[derive(Clone, PartialEq, Eq, Debug)]
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
    /// What starts agents on other hosts.
    pub launcher: Launcher,
    /// The path of that command.
    pub launcher_exec: Option<OsString>,
}

impl Plan {
    /// The process sets of the job, in the order in which they are first named. Programs that name the same one are
    /// all in it.
    pub fn process_sets(&self) -> Vec<ProcessSet> {
        let mut sets: Vec<ProcessSet> = Vec::new();
        let mut first = 0;
        for app in &self.apps {
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
}

/// The initial error handlers of MPI 5.0, section 9.3.
const INITIAL_ERRHANDLERS: [&str; 3] = ["mpi_errors_abort", "mpi_errors_are_fatal", "mpi_errors_return"];

/// The options of one program's part.
#[derive(Args, Debug)]
struct Options {
    /// Ranks of the program that follows [default: 1]; also -c N
    #[arg(short = 'n', long = "np", value_name = "N", short_alias = 'c', aliases = ["n", "c"],
        value_parser = ranks)]
    count: Option<u32>,

    /// Directory to run the program in
    #[arg(long, value_name = "DIR", alias = "wd")]
    wdir: Option<PathBuf>,

    /// Set an environment variable for this program
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], allow_hyphen_values = true, action = ArgAction::Append)]
    env: Vec<OsString>,

    /// Set an environment variable for all programs
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], allow_hyphen_values = true, action = ArgAction::Append)]
    genv: Vec<OsString>,

    /// Set an environment variable for this program; without VALUE, the one that it has here
    #[arg(short = 'x', long, alias = "x", value_name = "NAME[=VALUE]", action = ArgAction::Append)]
    export: Vec<OsString>,

    /// Machines to run on; so far only this one (its name, localhost, 127.0.0.1, ::1); also -hosts
    #[arg(
        short = 'H',
        long,
        alias = "hosts",
        value_name = "HOST[:SLOTS],...",
        value_delimiter = ','
    )]
    host: Vec<String>,

    /// Kinds of memory that the program wants to use, such as system
    #[arg(long, value_name = "KINDS")]
    memory_alloc_kinds: Option<String>,

    /// mpi_errors_abort, mpi_errors_are_fatal or mpi_errors_return
    #[arg(long, value_name = "HANDLER", value_parser = INITIAL_ERRHANDLERS, hide_possible_values = true)]
    initial_errhandler: Option<String>,

    /// A process set that the program's ranks belong to: a word (the set is weft://WORD) or a URI such as app://ocean
    #[arg(long, value_name = "NAME", value_parser = pset, action = ArgAction::Append)]
    pset: Vec<String>,

    /// Put the rank before each line of output
    #[arg(short = 'l', long = "prepend-rank", alias = "l", alias = "tag-output")]
    prefix: bool,

    /// core, socket or none [default: an even share of the cores, or none if ranks are more than cores]
    #[arg(long, value_enum, value_name = "WHAT", hide_possible_values = true)]
    bind_to: Option<Bind>,

    /// Where the next rank is bound: slot or core (the next core), or socket (the next socket)
    #[arg(
        long,
        value_enum,
        value_name = "WHERE",
        default_value = "slot",
        hide_possible_values = true
    )]
    map_by: MapBy,

    /// Print where each rank is bound, with a picture: [ ] is a socket, / is between cores, B is a hardware thread of
    /// the rank, . one of other ranks, - one that the job may not use
    #[arg(long)]
    report_bindings: bool,

    /// End the job after this time, with exit status 124
    #[arg(long, env = "MPIEXEC_TIMEOUT", value_name = "SECONDS", hide_env_values = true, value_parser = seconds)]
    timeout: Option<Duration>,

    /// What starts agents
    #[arg(long)]
    launcher: Option<String>,

    /// Its path
    #[arg(long)]
    launcher_exec: Option<OsString>,

    /// Print what happens
    #[arg(short = 'v', long)]
    verbose: bool,

    /// Print a manual page or a shell's completion
    #[arg(long, hide = true)]
    generate: Option<Page>,
}

fn pset(text: &str) -> Result<String, String> {
    ProcessSet::name_of(text).map_err(|error| error.to_string())
}

fn ranks(text: &str) -> Result<u32, String> {
    let ranks = text.parse().ok().filter(|ranks| (1..=RANKS_MAX).contains(ranks));
    ranks.ok_or_else(|| format!("a number from 1 to {RANKS_MAX} is expected"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|&seconds| seconds > 0.0);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|duration| duration.as_secs() <= 366 * 86_400)
        .ok_or_else(|| "a number of seconds above 0 is expected".to_string())
}

const AFTER_HELP: &str = "\
Options may be written with one dash or two (-np 4, --np 4). The first word that is not an option is the program; all that
follows is passed to it, up to a lone ':', which begins the next program of the same job:

  mpiexec -n 4 ./solver input.dat
  mpiexec -n 1 ./manager : -n 7 ./worker
  mpiexec -n 8 -l -x OMP_NUM_THREADS=2 --bind-to socket --timeout 60 ./solver

Standard input goes to rank 0. Output is forwarded line by line. The exit status is that of the first rank that failed,
128 + the signal if a signal killed it, the code of MPI_Abort, 124 after a timeout, 127 if the program is not found.
A rank that dies, or exits between MPI_Init and MPI_Finalize, ends the job.";

fn command() -> Command {
    Options::augment_args(Command::new("mpiexec"))
        .version(env!("CARGO_PKG_VERSION"))
        .about("Runs MPI programs (Weft)")
        .override_usage("mpiexec [OPTIONS] PROGRAM [ARGS]... [: [OPTIONS] PROGRAM [ARGS]...]...")
        .after_help(AFTER_HELP)
        .args_override_self(true)
        .disable_help_flag(true)
        .arg(
            clap::Arg::new("help")
                .short('h')
                .long("help")
                .action(ArgAction::HelpShort)
                .help("Print this"),
        )
}

/// Reads the command line, without the launcher's own name.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Request, Failure> {
    let words: Vec<OsString> = words.into_iter().collect();
    let mut apps = Vec::new();
    let mut first: Option<Options> = None;
    let mut everywhere = Vec::new();
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
            return Ok(Request::Print(pages::render(page, self::command())));
        }
        everywhere.extend(pairs(&options.genv)?);
        apps.push(app(
            &options,
            program,
            apps.len(),
            words.iter().any(|word| word == ":"),
        )?);
        first.get_or_insert(options);
    }
    for app in &mut apps {
        let own = std::mem::take(&mut app.env);
        app.env = everywhere.iter().cloned().chain(own).collect();
    }
    let ranks: u64 = apps.iter().map(|app| u64::from(app.count)).sum();
    if ranks > u64::from(RANKS_MAX) {
        return Err(Failure::usage(format!(
            "{ranks} ranks: at most {RANKS_MAX} are possible"
        )));
    }
    let Some(first) = first else {
        return Err(Failure::usage("no program given".into()));
    };
    Ok(Request::Run(Box::new(Plan {
        apps,
        prefix: first.prefix,
        verbose: first.verbose,
        bind: first.bind_to.unwrap_or(Bind::Share),
        map_by: first.map_by,
        report_bindings: first.report_bindings,
        timeout: first.timeout,
        launcher: match first.launcher.as_deref() {
            None | Some("ssh") => Launcher::Ssh,
            Some("slurm") => Launcher::Slurm,
            Some("prrte") => Launcher::Prrte,
            Some(other) => Launcher::Program(other.into()),
        },
        launcher_exec: first.launcher_exec.clone(),
    })))
}

/// The options that concern the whole job come before the first program.
fn check_first_only(
    matches: &clap::ArgMatches,
    later: bool,
    command: &mut Command,
) -> Result<(), clap::Error> {
    let typed = |id: &&str| matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
    let misplaced = [
        "prefix",
        "bind_to",
        "map_by",
        "report_bindings",
        "timeout",
        "verbose",
    ]
    .into_iter()
    .find(typed);
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
    let mut env = pairs(&options.env)?;
    for export in &options.export {
        let bytes = export.as_bytes();
        let split = bytes.iter().position(|&byte| byte == b'=');
        let name = OsStr::from_bytes(&bytes[..split.unwrap_or(bytes.len())]);
        check_name(name)?;
        match split {
            Some(split) => env.push((name.to_owned(), OsString::from_vec(bytes[split + 1..].to_vec()))),
            // All of the environment is passed on anyway; this makes sure that it overrides -genv.
            None => env.extend(std::env::var_os(name).map(|value| (name.to_owned(), value))),
        }
    }
    let mut process_sets = options.pset.clone();
    process_sets.sort();
    process_sets.dedup();
    Ok(App {
        count: options.count.unwrap_or(1),
        program: program.clone(),
        args: args.to_vec(),
        wdir: options.wdir.clone(),
        env,
        hosts: options.host.clone(),
        memory_alloc_kinds: options.memory_alloc_kinds.clone(),
        initial_errhandler: options.initial_errhandler.clone(),
        process_sets,
    })
}

fn pairs(words: &[OsString]) -> Result<Vec<(OsString, OsString)>, Failure> {
    let pairs = words
        .chunks_exact(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()));
    pairs.map(|pair| check_name(&pair.0).map(|()| pair)).collect()
}

fn check_name(name: &OsStr) -> Result<(), Failure> {
    if name.is_empty() || name.as_bytes().contains(&b'=') {
        return Err(Failure::usage(format!(
            "'{}' can't be the name of an environment variable",
            name.display()
        )));
    }
    Ok(())
}

/// Splits a program's part into its options and the program with its arguments. Single-dash long options are written
/// with two dashes.
fn split_part<'a>(
    command: &mut Command,
    part: &'a [OsString],
) -> Result<(Vec<OsString>, &'a [OsString]), Failure> {
    command.build();
    let mut normal = Vec::new();
    let mut rest = part;
    while let Some((word, after)) = rest.split_first() {
        if word == "--" {
            return Ok((normal, after));
        }
        let Some((dashes, name)) = word.to_str().and_then(split_dashes) else {
            break;
        };
        let (name, value) = name
            .split_once('=')
            .map_or((name, None), |(name, value)| (name, Some(value)));
        let long = command.get_arguments().find(|arg| {
            let mut aliases = arg.get_all_aliases().unwrap_or_default().into_iter();
            arg.get_long() == Some(name) || aliases.any(|alias| alias == name)
        });
        // `-n4` is a short option with its value.
        let short = || {
            let mut letters = name.chars();
            let letter = letters.next().filter(|_| dashes == 1)?;
            let is_it = |arg: &&clap::Arg| {
                let aliases = arg.get_all_short_aliases().unwrap_or_default();
                arg.get_short() == Some(letter) || aliases.contains(&letter)
            };
            let arg = command.get_arguments().find(is_it)?;
            let alone = letters.as_str().is_empty();
            (alone || letters.as_str().starts_with(|c: char| c.is_ascii_digit())).then_some((arg, alone))
        };
        let found = long.map_or_else(short, |arg| Some((arg, true)));
        let Some((arg, alone)) = found else {
            let word = word.display();
            return Err(Failure::usage(format!(
                "unknown option '{word}' (mpiexec --help lists all)"
            )));
        };
        normal.push(match long {
            Some(_) if dashes == 1 => OsString::from(format!("-{}", word.display())),
            _ => word.clone(),
        });
        let takes_values = alone && value.is_none() && arg.get_action().takes_values();
        let count = arg
            .get_num_args()
            .filter(|_| takes_values)
            .map_or(0, |range| range.max_values());
        let (values, after) = after.split_at(count.min(after.len()));
        normal.extend_from_slice(values);
        rest = after;
    }
    Ok((normal, rest))
}

/// `-name` and `--name`, but not `-`.
fn split_dashes(word: &str) -> Option<(usize, &str)> {
    let (dashes, name) = match word.strip_prefix("--") {
        Some(name) => (2, name),
        None => (1, word.strip_prefix('-')?),
    };
    (!name.is_empty()).then_some((dashes, name))
}

/// The sentence of an error of clap, without the usage that follows it.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:"));
    let sentence = lines
        .filter(|line| !line.is_empty() && !line.starts_with("For more"))
        .collect::<Vec<_>>()
        .join(" ");
    sentence.strip_prefix("error: ").unwrap_or(&sentence).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str) -> Result<Request, Failure> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn plan(line: &str) -> Plan {
        match request(line) {
            Ok(Request::Run(plan)) => *plan,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn refusal(line: &str) -> String {
        let failure = request(line).expect_err(line);
        assert!(!failure.message.contains('\n'), "{}", failure.message);
        assert_ne!(failure.status, 0);
        failure.message
    }

    #[test]
    fn the_number_of_ranks_has_many_spellings() {
        for option in [
            "-n 4", "-np 4", "--np 4", "-c 4", "--n 4", "-n4", "-np=4", "--np=4", "-n=4",
        ] {
            let plan = plan(&format!("{option} ./a -n 7 --np x"));
            assert_eq!(plan.apps[0].count, 4, "{option}");
            assert_eq!(plan.apps[0].args, ["-n", "7", "--np", "x"], "{option}");
        }
    }

    #[test]
    fn the_program_takes_all_words_up_to_a_lone_colon() {
        let plan = plan("-n 1 ./a -l --help a:b : -np 2 -wdir /tmp ./b -- -x");
        assert_eq!(plan.apps[0].args, ["-l", "--help", "a:b"]);
        assert_eq!(plan.apps[1].args, ["--", "-x"]);
        assert_eq!(plan.apps[1].wdir.as_deref(), Some(std::path::Path::new("/tmp")));
        assert!(!plan.prefix);
    }

    #[test]
    fn environment_options() {
        let plan = plan("-genv A 1 -env B -2 -x C=3=4 ./a : -x A=5 ./b");
        let text = |app: &App| {
            app.env
                .iter()
                .map(|(name, value)| format!("{}={} ", name.display(), value.display()))
                .collect::<String>()
        };
        assert_eq!(text(&plan.apps[0]), "A=1 B=-2 C=3=4 ");
        assert_eq!(text(&plan.apps[1]), "A=1 A=5 ");
    }

    #[test]
    fn options_of_the_whole_job() {
        let plan = plan(
            "-l -bind-to core --map-by socket -report-bindings -timeout 2.5 -v -initial-errhandler mpi_errors_return -memory-alloc-kinds system ./a",
        );
        assert!(plan.prefix && plan.verbose && plan.report_bindings);
        assert_eq!((plan.bind, plan.map_by), (Bind::Core, MapBy::Socket));
        assert_eq!(plan.timeout, Some(Duration::from_millis(2500)));
        assert_eq!(
            plan.apps[0].initial_errhandler.as_deref(),
            Some("mpi_errors_return")
        );
        assert_eq!(plan.apps[0].memory_alloc_kinds.as_deref(), Some("system"));
    }

    #[test]
    fn process_sets_are_named_by_programs() {
        let plan = plan(
            "-n 2 -pset ocean -pset app://all ./a : -n 1 ./b : -n 3 --pset=app://all -pset app://all ./c",
        );
        assert_eq!(
            ProcessSet::encode(&plan.process_sets()),
            "app://all=0-1,3-5 weft://ocean=0-1"
        );
        assert!(refusal("-pset mpi://mine ./a").contains("mpi://mine"));
        assert!(refusal("-pset app:// ./a").contains("app://"));
    }

    #[test]
    fn hosts_are_a_list() {
        assert_eq!(plan("-hosts a:2,b ./p").apps[0].hosts, ["a:2", "b"]);
        assert_eq!(plan("-H a -host b ./p").apps[0].hosts, ["a", "b"]);
    }

    #[test]
    fn mistakes_are_told_in_one_line() {
        assert!(refusal("-n 0 ./a").contains('0'));
        assert!(refusal("-n four ./a").contains("four"));
        assert!(refusal("-n -1 ./a").contains("-1"));
        assert!(refusal("-n 99999999999 ./a").contains("99999999999"));
        assert!(refusal("").contains("no program"));
        assert!(refusal("-n 2").contains("no program"));
        assert!(refusal("./a :").contains("no program number 2"));
        assert!(refusal("-bogus ./a").contains("bogus"));
        let words = refusal("-timeout 0 ./a");
        assert!(
            words.contains("seconds") && !words.contains("For more") && !words.ends_with(' '),
            "{words}"
        );
        assert!(refusal("-timeout nan ./a").contains("seconds"));
        assert!(refusal("-bind-to moon ./a").contains("moon"));
        assert!(refusal("./a : -timeout 3 ./b").contains("timeout"));
        assert!(refusal("./a : -report-bindings ./b").contains("report-bindings"));
        assert!(refusal("-x =3 ./a").contains("name"));
        assert!(refusal("-initial-errhandler mpi_errors ./a").contains("mpi_errors_return"));
        assert!(refusal("-n 65536 ./a : ./b").contains("65537"));
    }

    #[test]
    fn help_and_version_are_printed() {
        assert!(
            matches!(request("--help"), Ok(Request::Print(text)) if text.contains("-n 1 ./manager : -n 7 ./worker"))
        );
        assert!(matches!(request("-help"), Ok(Request::Print(_))));
        assert!(
            matches!(request("--version"), Ok(Request::Print(text)) if text.contains(env!("CARGO_PKG_VERSION")))
        );
    }

    #[test]
    fn which_program_is_missing_is_told_where_there_are_several() {
        assert!(refusal("-n 2").contains("no program given"));
        assert!(refusal("-n 2 : ./b").contains("no program number 1 given"));
        assert!(refusal("./a : -n 2").contains("no program number 2 given"));
    }

    #[test]
    fn a_time_limit_is_above_0_and_no_longer_than_a_year() {
        for (text, expected) in [("0.5", 0.5), ("100000", 1e5), ("31622400", 31_622_400.0)] {
            assert_eq!(seconds(text).map(|limit| limit.as_secs_f64()), Ok(expected));
        }
        for text in ["0", "-1", "31622401", "1e300", "nan", "inf", "x", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn as_many_ranks_as_are_possible_and_no_more() {
        assert_eq!(plan("-n 65536 ./a").apps[0].count, RANKS_MAX);
        assert_eq!(plan("-n 65535 ./a : ./b").apps.len(), 2);
        assert!(refusal("-n 65536 ./a : ./b").contains("65537 ranks"));
        assert!(refusal("-n 65537 ./a").contains("65537"));
    }

    #[test]
    fn an_unknown_option_is_told_without_advice_that_leads_nowhere() {
        let words = refusal("--no-such-option ./a");
        assert!(
            words.contains("--no-such-option") && !words.contains("For more"),
            "{words}"
        );
        assert!(!words.contains("  "), "no empty line is left: {words}");
    }
}
