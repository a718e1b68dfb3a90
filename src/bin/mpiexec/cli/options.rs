//! The options, as `clap` reads them; help, manual page and completion are made of them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Command};

use weft::tools::ProcessSet;

use super::Universe;
use crate::bind::{Bind, MapBy};
use crate::host_list::RANKS_MAX;
use crate::pages::Page;

/// The initial error handlers of MPI 5.0, section 9.3.
pub const INITIAL_ERRHANDLERS: [&str; 3] = ["mpi_errors_abort", "mpi_errors_are_fatal", "mpi_errors_return"];

/// The options of one program's part.
#[derive(Args, Debug)]
pub struct Options {
    /// Ranks of the program that follows [default: 1, or all slots of the hosts that are named]; also -c N
    #[arg(short = 'n', long = "np", value_name = "N", short_alias = 'c', aliases = ["n", "c"],
        value_parser = ranks)]
    pub count: Option<u32>,

    /// Directory to run the program in
    #[arg(long, value_name = "DIR", alias = "wd")]
    pub wdir: Option<PathBuf>,

    /// End the job after this time, with exit status 124
    #[arg(long, env = "MPIEXEC_TIMEOUT", value_name = "SECONDS", hide_env_values = true, value_parser = seconds)]
    pub timeout: Option<Duration>,

    /// Read programs and their options from a file, a program on each line
    #[arg(long, value_name = "FILE")]
    pub configfile: Option<PathBuf>,

    /// Print hosts, ranks, bindings and commands, and start nothing
    #[arg(long, alias = "do-not-launch")]
    pub dry_run: bool,

    /// Print what happens
    #[arg(short = 'v', long)]
    pub verbose: bool,

    /// A process set that the program's ranks belong to: a word (the set is weft://WORD) or a URI such as app://ocean
    #[arg(long, value_name = "NAME", value_parser = pset, action = ArgAction::Append)]
    pub pset: Vec<String>,

    /// Kinds of memory that the program wants to use, such as system
    #[arg(long, value_name = "KINDS")]
    pub memory_alloc_kinds: Option<String>,

    /// mpi_errors_abort, mpi_errors_are_fatal or mpi_errors_return
    #[arg(long, value_name = "HANDLER", value_parser = INITIAL_ERRHANDLERS, hide_possible_values = true)]
    pub initial_errhandler: Option<String>,

    /// Hosts of the job [default: those of the allocation (Slurm, PBS, LSF, SGE), or this machine]
    #[arg(long, value_name = "HOST[:SLOTS],...", help_heading = "Hosts", action = ArgAction::Append)]
    pub hosts: Vec<String>,

    /// Hosts of this program
    #[arg(short = 'H', long, value_name = "HOST[:SLOTS],...", help_heading = "Hosts", action = ArgAction::Append)]
    pub host: Vec<String>,

    /// Hosts of the job, one on each line: HOST:SLOTS, or HOST slots=N max_slots=M
    #[arg(short = 'f', long, value_name = "FILE", help_heading = "Hosts", aliases = ["f", "machinefile", "machine"])]
    pub hostfile: Option<PathBuf>,

    /// Ranks on each host before the next one has its turn, instead of its slots; also -perhost, --npernode
    #[arg(short = 'N', long, value_name = "N", help_heading = "Hosts", aliases = ["N", "perhost", "npernode"],
        value_parser = ranks)]
    pub ppn: Option<u32>,

    /// More ranks than slots are an error
    #[arg(long, help_heading = "Hosts")]
    pub nooversubscribe: bool,

    /// What starts ranks on other hosts: ssh, slurm, prrte or a program that is called like ssh [default: the engine of the
    /// allocation, or ssh]
    #[arg(long, value_name = "WHAT", help_heading = "Hosts", alias = "bootstrap")]
    pub launcher: Option<OsString>,

    /// The path of ssh, srun or prterun
    #[arg(long, value_name = "PATH", help_heading = "Hosts", alias = "bootstrap-exec")]
    pub launcher_exec: Option<OsString>,

    /// The network interface (or address, or network) that ranks use: sets WEFT_INTERFACE
    #[arg(long, value_name = "NAME", help_heading = "Hosts")]
    pub iface: Option<OsString>,

    /// user: don't use the allocation
    #[arg(long, value_name = "WHOSE", help_heading = "Hosts", value_parser = ["user", "auto"], hide = true)]
    pub rmk: Option<String>,

    /// MPI_UNIVERSE_SIZE: a number, SYSTEM (all slots) or INFINITE
    #[arg(long, value_name = "N", help_heading = "Hosts", value_parser = universe, hide = true)]
    pub usize: Option<Universe>,

    /// Set an environment variable for this program
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], allow_hyphen_values = true, action = ArgAction::Append,
        help_heading = "Environment")]
    pub env: Vec<OsString>,

    /// Set an environment variable for all programs
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], allow_hyphen_values = true, action = ArgAction::Append,
        help_heading = "Environment")]
    pub genv: Vec<OsString>,

    /// Set an environment variable for this program; without VALUE, the one that it has here
    #[arg(short = 'x', long, alias = "x", value_name = "NAME[=VALUE]", action = ArgAction::Append,
        help_heading = "Environment")]
    pub export: Vec<OsString>,

    /// Of the environment here, pass on only these variables; for this program: -envlist
    #[arg(long, value_name = "NAME,...", help_heading = "Environment")]
    pub genvlist: Option<OsString>,

    /// Pass on nothing of the environment here; for this program: -envnone
    #[arg(long, help_heading = "Environment")]
    pub genvnone: bool,

    /// Pass on all of the environment, which is the default
    #[arg(long, help_heading = "Environment", hide = true)]
    pub genvall: bool,

    /// The same as -genvlist for this program
    #[arg(long, value_name = "NAME,...", help_heading = "Environment", hide = true)]
    pub envlist: Option<OsString>,

    /// The same as -genvnone for this program
    #[arg(long, help_heading = "Environment", hide = true)]
    pub envnone: bool,

    /// The same as -genvall for this program
    #[arg(long, help_heading = "Environment", hide = true)]
    pub envall: bool,

    /// Put the rank before each line of output
    #[arg(
        short = 'l',
        long = "prepend-rank",
        alias = "l",
        alias = "tag-output",
        help_heading = "Output"
    )]
    pub prefix: bool,

    /// Write standard output into files: %r is the rank, %h its host, %p the number of the host, %g the job, %t the time
    #[arg(long, value_name = "PATTERN", help_heading = "Output", alias = "outfile")]
    pub outfile_pattern: Option<String>,

    /// The same for standard error
    #[arg(long, value_name = "PATTERN", help_heading = "Output", alias = "errfile")]
    pub errfile_pattern: Option<String>,

    /// Write output into DIR/1/rank.N/stdout and stderr, too; with :nocopy only there
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub output_filename: Option<String>,

    /// Print the exit status of all ranks at the end
    #[arg(long, help_heading = "Output")]
    pub print_all_exitcodes: bool,

    /// hwthread, core, numa, socket or none [default: an even share of the cores, or none if ranks are more than cores]
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        hide_possible_values = true,
        help_heading = "Placement on a host"
    )]
    pub bind_to: Option<Bind>,

    /// Where the next rank goes: slot or core (the next core), numa or socket (the next one of them), node (the next
    /// host), or ppr:N:node (as --ppn N)
    #[arg(long, value_name = "WHERE", value_parser = mapping, help_heading = "Placement on a host")]
    pub map_by: Option<Mapping>,

    /// Print where each rank is bound, with a picture: [ ] is a socket, / is between cores, B is a hardware thread of
    /// the rank, . one of other ranks, - one that the job may not use
    #[arg(long, help_heading = "Placement on a host")]
    pub report_bindings: bool,

    /// Keep names of services for several jobs (MPI_Publish_name), and print the address for --nameserver
    #[arg(long, help_heading = "Other jobs")]
    pub name_server: bool,

    /// What keeps the names of services: an address that mpiexec --name-server has printed
    #[arg(
        long,
        env = "WEFT_NAME_SERVER",
        value_name = "ADDRESS",
        hide_env_values = true,
        help_heading = "Other jobs"
    )]
    pub nameserver: Option<String>,

    /// Print a manual page or a shell's completion
    #[arg(long, hide = true)]
    pub generate: Option<Page>,
}

/// The options that concern the whole job come before the first program.
pub const OF_THE_JOB: [&str; 23] = [
    "name_server",
    "nameserver",
    "timeout",
    "configfile",
    "dry_run",
    "verbose",
    "hosts",
    "hostfile",
    "ppn",
    "nooversubscribe",
    "launcher",
    "launcher_exec",
    "iface",
    "rmk",
    "usize",
    "prefix",
    "outfile_pattern",
    "errfile_pattern",
    "output_filename",
    "print_all_exitcodes",
    "bind_to",
    "map_by",
    "report_bindings",
];

/// What `--map-by` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// The order of cores in a host.
    pub within: MapBy,
    /// Hosts take ranks in turn.
    pub by_node: bool,
    /// Ranks on each host.
    pub per_host: Option<u32>,
    /// More ranks than slots are an error.
    pub no_oversubscribe: bool,
}

fn mapping(text: &str) -> Result<Mapping, String> {
    let mut mapping = Mapping {
        within: MapBy::Slot,
        by_node: false,
        per_host: None,
        no_oversubscribe: false,
    };
    let lower = text.to_ascii_lowercase();
    let mut words = lower.split([':', ',']);
    match words.next().unwrap_or_default() {
        "slot" => {}
        "core" => mapping.within = MapBy::Core,
        "numa" => mapping.within = MapBy::Numa,
        "socket" | "package" => mapping.within = MapBy::Socket,
        "node" => mapping.by_node = true,
        "ppr" => {
            let (number, object) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            if object != "node" {
                return Err("ppr:N:node is expected: N ranks on each host".into());
            }
            mapping.per_host = Some(ranks(number)?);
        }
        _ => return Err("slot, core, numa, socket, node or ppr:N:node is expected".into()),
    }
    for word in words {
        match word {
            "oversubscribe" => mapping.no_oversubscribe = false,
            "nooversubscribe" => mapping.no_oversubscribe = true,
            _ => {
                return Err(format!(
                    "'{word}' is not supported; --bind-to says what a rank is bound to"
                ));
            }
        }
    }
    Ok(mapping)
}

fn universe(text: &str) -> Result<Universe, String> {
    match text.to_ascii_uppercase().as_str() {
        "SYSTEM" => Ok(Universe::System),
        "INFINITE" => Ok(Universe::Infinite),
        _ => {
            let number = text
                .parse()
                .ok()
                .filter(|&number| (1..=i32::MAX as u32).contains(&number));
            number
                .map(Universe::Ranks)
                .ok_or_else(|| "SYSTEM, INFINITE or a number above 0 is expected".into())
        }
    }
}

fn pset(text: &str) -> Result<String, String> {
    ProcessSet::name_of(text).map_err(|error| error.to_string())
}

fn ranks(text: &str) -> Result<u32, String> {
    let ranks = text.parse().ok().filter(|ranks| (1..=RANKS_MAX).contains(ranks));
    ranks.ok_or_else(|| format!("a number from 1 to {RANKS_MAX} is expected"))
}

pub fn seconds(text: &str) -> Result<Duration, String> {
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
  mpiexec -hosts node1:4,node2:4 ./solver
  mpiexec -f hosts.txt -ppn 2 -n 8 --dry-run ./solver

Standard input goes to rank 0. Output is forwarded line by line. The exit status is that of the first rank that failed,
128 + the signal if a signal killed it, the code of MPI_Abort, 124 after a timeout, 127 if the program is not found.
A rank that dies, or exits between MPI_Init and MPI_Finalize, ends the job.";

/// The command, for `clap`.
pub fn command() -> Command {
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
