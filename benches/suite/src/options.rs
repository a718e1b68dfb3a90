//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::library::Peer;
use crate::measure::{self, Measure};

/// Measures Weft and other MPI libraries in turn with the same programs.
///
/// Each measure runs one program under one library after the other, in several rounds, and keeps each round's number.
/// Written are results.md (medians with the least and the most), results.json (every number) and a plot for each measure.
/// Nothing else should run on the machine meanwhile.
#[derive(Parser, Debug)]
#[command(name = "weft-bench", version, after_long_help = EXAMPLES, args_override_self = true)]
pub struct Options {
    /// What to measure: names from --list [default: all]
    #[arg(value_name = "MEASURE", value_parser = measure::find)]
    pub measures: Vec<&'static Measure>,

    /// Print what can be measured, and end
    #[arg(long)]
    pub list: bool,

    /// Weft, as ci/install put it: the folder that has bin/mpiexec, bin/mpicc and lib/libmpi_abi.so.1
    #[arg(long, value_name = "PREFIX", required_unless_present_any = ["list", "from"])]
    pub weft: Option<PathBuf>,

    /// Another MPI: its launcher, and the folder of its libmpi_abi.so.1
    ///
    /// LIBRARY may be several folders with colons between them, as in LD_LIBRARY_PATH: so a libfabric of choice can be
    /// named too. Without LIBRARY the programs are compiled by the mpicc beside the launcher, for an MPI that lacks the
    /// standard ABI. May be given several times; Weft itself, with another libfabric, can be a peer too.
    #[arg(long = "peer", value_name = "NAME=LAUNCHER[,LIBRARY]")]
    pub peers: Vec<Peer>,

    /// What carries the messages: `own` (each library's own choice, so its shared memory) or a provider of libfabric
    ///
    /// With a provider named, all libraries use it also between ranks of one machine. `net` is what libfabric calls
    /// `tcp` from 1.18 on; Open MPI uses its own TCP for it. May be given several times: then latency, bandwidth and startup
    /// are measured over each, and the rest over the first, unless named. Programs inherit the environment,
    /// but WEFT_PROVIDER, WEFT_LANES and FI_PROVIDER, which this option stands for.
    #[arg(long = "over", value_name = "PROVIDER", default_values = ["own"])]
    pub over: Vec<String>,

    /// How many rounds; each runs every program once under each library [default: 5 of latency, 3 of anything else]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,

    /// Ranks of the measures that can have more than two
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=4096))]
    pub ranks: u32,

    /// Message sizes in bytes, for all measures that have some [default: each measure's own]
    ///
    /// Multiples of 8; K and M stand for 1024 and 1024 * 1024.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = bytes)]
    pub sizes: Vec<u64>,

    /// About how long one point of one run is measured
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub milliseconds: u32,

    /// How long a rank waits where its processor time is measured
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=600_000))]
    pub idle_milliseconds: u32,

    /// Seconds after which a run is ended and counts as failed
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: u64,

    /// Where to write; made if it is not there
    #[arg(long, value_name = "FOLDER", default_value = "bench-results")]
    pub output: PathBuf,

    /// A Markdown file to put the most important numbers and all plots into
    ///
    /// They go between its lines `<!-- weft-bench -->` and `<!-- end of weft-bench -->`. The --output FOLDER must be in
    /// that file's folder.
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,

    /// Which part of the page: the lines are then `<!-- weft-bench NAME -->` and `<!-- end of weft-bench NAME -->`
    #[arg(long, value_name = "NAME", requires = "page")]
    pub part: Option<String>,

    /// Measure the algorithms of collective operations of --ranks ranks, and write those that are fastest to FILE, for WEFT_COLLECTIVES
    ///
    /// Over the first --over; own shared memory has no choice of algorithms.
    #[arg(long, value_name = "FILE", requires = "weft", conflicts_with_all = ["peers", "measures", "from", "page"])]
    pub tune: Option<PathBuf>,

    /// Measure nothing, and write tables and plots anew from an earlier results.json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["weft", "peers", "measures"])]
    pub from: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  weft-bench --weft /opt/weft latency barrier
  weft-bench --weft /opt/weft --peer MPICH=/opt/mpich/bin/mpiexec,/opt/mpich/lib \\
      --peer 'Open MPI=/opt/openmpi/bin/mpiexec' --over own --over net
  weft-bench --from bench-results/results.json --output plots

Exit status: 0, or 1 if a run failed (the rest is measured and written), or 2 if nothing could be measured.";

/// `8`, `64K`, `4M`.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix(['M', 'm']) {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "a number is expected, or one with K or M behind".to_string())?;
    match number.checked_mul(unit) {
        // The programs count in `int`s, and windows of messages must fit into memory.
        Some(bytes) if bytes.is_multiple_of(8) && (8..=256 << 20).contains(&bytes) => Ok(bytes),
        _ => Err("a multiple of 8 is expected, from 8 to 256M".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("8"), Ok(8));
        assert_eq!(bytes("64K"), Ok(65536));
        assert_eq!(bytes("4m"), Ok(4 << 20));
        for wrong in [
            "",
            "0",
            "7",
            "K",
            "1G",
            "-8",
            "512M",
            "99999999999999999999",
            "18446744073709551608M",
        ] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn weft_is_needed_to_measure_and_only_then() {
        let parse = |words: &[&str]| Options::try_parse_from([&["weft-bench"], words].concat());
        assert!(parse(&[]).unwrap_err().to_string().contains("--weft"));
        assert!(parse(&["--list"]).is_ok());
        assert!(parse(&["--from", "results.json"]).is_ok());
        let error = parse(&["--weft", "/opt", "speed"]).unwrap_err().to_string();
        assert!(error.contains("speed") && error.contains("latency"), "{error}");
        let some = parse(&["--weft", "/opt", "--sizes", "8,4K", "latency", "idle"]).unwrap();
        assert_eq!(some.sizes, [8, 4096]);
        assert_eq!(some.measures.len(), 2);
    }
}
