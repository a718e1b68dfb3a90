//! What can be measured: each measure's program, its points, its unit, and how it is drawn.

mod one_sided;

use std::fmt::Write;

use crate::options::Options;

pub use one_sided::OPERATIONS;

/// What a point of a measure counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// A message's size in bytes.
    Bytes,
    /// Ranks of the job.
    Ranks,
    /// A place in [`LAYOUTS`].
    Layout,
    /// A place in [`OPERATIONS`].
    Operation,
    /// Messages or receives in a queue.
    Queue,
    /// Threads of each of two ranks.
    Pairs,
    /// How long the run took, in milliseconds; there is but one point.
    Milliseconds,
}

/// The kinds of `layouts.c`, and what they are.
pub const LAYOUTS: [(&str, &str); 7] = [
    ("column", "column of a matrix"),
    ("x", "face across x"),
    ("y", "face across y"),
    ("z", "face across z"),
    ("indexed", "10,000 short blocks"),
    ("records", "10,000 structures"),
    ("rows", "1024 rows of 4 KiB"),
];

impl Point {
    /// The point in words: `64 KiB`, `8 ranks`, `10 s`.
    pub fn label(self, point: u64) -> String {
        match self {
            Point::Bytes => match point {
                _ if point.is_multiple_of(1 << 20) => format!("{} MiB", point >> 20),
                _ if point.is_multiple_of(1 << 10) => format!("{} KiB", point >> 10),
                _ => format!("{point} B"),
            },
            Point::Ranks => format!("{point} ranks"),
            Point::Layout | Point::Operation => {
                let kind = self.kinds().get(point as usize);
                kind.map_or("?", |(_, words)| words).into()
            }
            Point::Queue => format!("n = {}", thousands(point)),
            Point::Pairs if point == 1 => "1 pair".into(),
            Point::Pairs => format!("{point} pairs"),
            Point::Milliseconds if point.is_multiple_of(1000) => format!("{} s", point / 1000),
            Point::Milliseconds => format!("{point} ms"),
        }
    }

    /// What its points are places of, if they are: each one's word in programs, and what it is.
    pub fn kinds(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Point::Layout => &LAYOUTS,
            Point::Operation => &OPERATIONS,
            _ => &[],
        }
    }

    /// The point that a program's word stands for.
    fn parse(self, word: &str) -> Option<u64> {
        match self.kinds() {
            [] => word.parse().ok(),
            kinds => kinds
                .iter()
                .position(|(kind, _)| *kind == word)
                .map(|at| at as u64),
        }
    }

    /// The word for a point in a program's arguments.
    fn word(self, point: u64) -> String {
        match self.kinds().get(point as usize) {
            Some((kind, _)) => kind.to_string(),
            None => point.to_string(),
        }
    }
}

/// `100,000`
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Over what a measure is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scope {
    /// The first that `--over` says, unless the measure is named on the command line: it is about the library more than
    /// about what carries the messages.
    First,
    /// All that `--over` says.
    All,
    /// All that `--over` says, but only if the measure is named on the command line: it takes long, and is about a part of MPI
    /// that has a table of its own.
    Named,
}

/// How a program's number becomes the measure's.
#[derive(Clone, Copy, Debug)]
enum Value {
    /// As it is printed.
    Printed,
    /// The highest of what the ranks print, a line each.
    Slowest,
    /// Microseconds of a message, as 10^9 bytes per second, in so many directions at once.
    GigabytesPerSecond(f64),
    /// Microseconds of a message, as millions of messages per second.
    MillionsPerSecond,
}

/// One thing that can be measured.
#[derive(Debug)]
pub struct Measure {
    /// What it is called on the command line and in files.
    pub name: &'static str,
    /// Under which heading it is on a page; measures of one section follow each other.
    pub section: &'static str,
    /// What it is called in tables and plots.
    pub title: &'static str,
    /// The unit of its numbers.
    pub unit: &'static str,
    /// Whether lower numbers are the better ones.
    pub lower_is_better: bool,
    /// Whether plots show its numbers on a logarithmic axis.
    pub logarithmic: bool,
    /// What its points are.
    pub point: Point,
    /// The points that [`crate::table::for_page`] shows; none: all.
    pub key: &'static [u64],
    program: &'static str,
    arguments: &'static [&'static str],
    /// The points, where the options do not say them.
    points: &'static [u64],
    ranks: Ranks,
    scope: Scope,
    /// How many rounds, unless `--rounds` says it.
    rounds: u32,
    value: Value,
}

/// How many ranks run a measure's program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ranks {
    One,
    Two,
    /// All of `--ranks`.
    All,
    /// Two, and all of `--ranks`; over a provider at most [`FEW`], as what is measured there is the network. Results tell them apart.
    Each,
    /// Two, and all of `--ranks`, over providers too. Results tell them apart.
    Extremes,
}

/// How many ranks at most run a collective over a provider.
const FEW: u32 = 4;

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const QUEUES: &[u64] = &[1, 10, 100, 1000, 10_000, 100_000];

/// All measures.
pub static ALL: &[Measure] = &[
    Measure {
        name: "latency",
        section: "Messages",
        title: "One-way latency",
        unit: "µs",
        lower_is_better: true,
        logarithmic: true,
        point: Point::Bytes,
        key: &[8, K, 64 * K, M],
        program: "latency",
        arguments: &[],
        points: &[8, 64, K, 8 * K, 64 * K, 256 * K, M, 4 * M],
        ranks: Ranks::Two,
        scope: Scope::All,
        rounds: 5,
        value: Value::Printed,
    },
    Measure {
        name: "bandwidth",
        section: "Messages",
        title: "Bandwidth",
        unit: "GB/s",
        lower_is_better: false,
        logarithmic: false,
        point: Point::Bytes,
        key: &[64 * K, M, 4 * M],
        program: "stream",
        arguments: &["one"],
        points: &[K, 8 * K, 64 * K, 256 * K, M, 4 * M],
        ranks: Ranks::Two,
        scope: Scope::All,
        rounds: 3,
        value: Value::GigabytesPerSecond(1.0),
    },
    Measure {
        name: "bidirectional",
        section: "Messages",
        title: "Bidirectional bandwidth",
        unit: "GB/s",
        lower_is_better: false,
        logarithmic: false,
        point: Point::Bytes,
        key: &[64 * K, M, 4 * M],
        program: "stream",
        arguments: &["both"],
        points: &[K, 8 * K, 64 * K, 256 * K, M, 4 * M],
        ranks: Ranks::Two,
        scope: Scope::First,
        rounds: 3,
        value: Value::GigabytesPerSecond(2.0),
    },
    Measure {
        name: "rate",
        section: "Messages",
        title: "Message rate",
        unit: "million/s",
        lower_is_better: false,
        logarithmic: false,
        point: Point::Bytes,
        key: &[8],
        program: "stream",
        arguments: &["one"],
        points: &[8, 64, 256, K, 4 * K],
        ranks: Ranks::Two,
        scope: Scope::First,
        rounds: 3,
        value: Value::MillionsPerSecond,
    },
    Measure {
        name: "layouts",
        section: "Derived types",
        title: "One-way time of a derived type",
        unit: "µs",
        lower_is_better: true,
        logarithmic: true,
        point: Point::Layout,
        key: &[],
        program: "layouts",
        arguments: &["send"],
        points: &[0, 1, 2, 3, 4, 5, 6],
        ranks: Ranks::Two,
        scope: Scope::First,
        rounds: 3,
        value: Value::Printed,
    },
    Measure {
        name: "pack",
        section: "Derived types",
        title: "Time of MPI_Pack by that of a loop in C",
        unit: "ratio",
        lower_is_better: true,
        logarithmic: true,
        point: Point::Layout,
        key: &[],
        program: "layouts",
        arguments: &["pack"],
        points: &[0, 1, 2, 3, 4, 5, 6],
        ranks: Ranks::One,
        scope: Scope::First,
        rounds: 3,
        value: Value::Printed,
    },
    Measure {
        name: "unexpected",
        section: "Long queues",
        title: "Receive of the n-th of n unexpected messages",
        unit: "µs",
        lower_is_better: true,
        logarithmic: true,
        point: Point::Queue,
        key: &[1, 1000, 100_000],
        program: "matching",
        arguments: &["unexpected"],
        points: QUEUES,
        ranks: Ranks::Two,
        scope: Scope::First,
        rounds: 3,
        value: Value::Printed,
    },
    Measure {
        name: "posted",
        section: "Long queues",
        title: "One-way latency to the n-th of n posted receives",
        unit: "µs",
        lower_is_better: true,
        logarithmic: true,
        point: Point::Queue,
        key: &[1, 1000, 100_000],
        program: "matching",
        arguments: &["posted"],
        points: QUEUES,
        ranks: Ranks::Two,
        scope: Scope::First,
        rounds: 3,
        value: Value::Printed,
    },
    Measure {
        name: "threads",
        section: "Threads",
        title: "Message rate of pairs of threads, a communicator each",
        unit: "million/s",
        lower_is_better: false,
        logarithmic: false,
        point: Point::Pairs,
        key: &[],
        program: "threads",
        arguments: &["own"],
        points: &[1, 2, 4],
        ranks: Ranks::Two,
        scope: Scope::First,
        rounds: 3,
        value: Value::MillionsPerSecond,
    },
    Measure {
        name: "threads-shared",
        section: "Threads",
        title: "Message rate of pairs of threads, one communicator",
        unit: "million/s",
        lower_is_better: false,
        logarithmic: false,
        point: Point::Pairs,
        key: &[],
        program: "threads",
        arguments: &["shared"],
        points: &[1, 2, 4],
        ranks: Ranks::Two,
        scope: Scope::First,
        rounds: 3,
        value: Value::MillionsPerSecond,
    },
    Measure {
        name: "barrier",
        section: "Collectives",
        title: "Barrier",
        unit: "µs",
        lower_is_better: true,
        logarithmic: true,
        point: Point::Ranks,
        key: &[],
        program: "collective",
        arguments: &["barrier"],
        points: &[],
        ranks: Ranks::Each,
        scope: Scope::First,
        rounds: 3,
        value: Value::Printed,
    },
    Measure {
        name: "allreduce",
        section: "Collectives",
        title: "Allreduce (sum of doubles)",
        unit: "µs",
        lower_is_better: true,
        logarithmic: true,
        point: Point::Bytes,
        key: &[8, 64 * K],
        program: "collective",
        arguments: &["allreduce"],
        points: &[8, K, 64 * K, M],
        ranks: Ranks::Each,
        scope: Scope::First,
        rounds: 3,
        value: Value::Printed,
    },
    Measure {
        name: "allreduce-persistent",
        section: "Collectives",
        title: "Persistent allreduce (sum of doubles)",
        unit: "µs",
        lower_is_better: true,
        logarithmic: true,
        point: Point::Bytes,
        key: &[8, 64 * K],
        program: "collective",
        arguments: &["allreduce_init"],
        points: &[8, K, 64 * K, M],
        ranks: Ranks::Each,
        scope: Scope::First,
        rounds: 3,
        value: Value::Printed,
    },
    Measure {
        name: "reduce",
        section: "Collectives",
        title: "Reduce (sum of doubles)",
        unit: "µs",
        lower_is_better: true,
        logarithmic: true,
        point: Point::Bytes,
        key: &[8, 64 * K],
        program: "collective",
        arguments: &["reduce"],
        points: &[8, K, 64 * K, M],
        ranks: Ranks::Each,
        scope: Scope::First,
        rounds: 3,
        value: Value::Printed,
    },
    Measure {
        name: "bcast",
        section: "Collectives",
        title: "Broadcast",
        unit: "µs",
        lower_is_better: true,
        logarithmic: true,
        point: Point::Bytes,
        key: &[8, 64 * K],
        program: "collective",
        arguments: &["bcast"],
        points: &[8, K, 64 * K, M],
        ranks: Ranks::Each,
        scope: Scope::First,
        rounds: 3,
        value: Value::Printed,
    },
    Measure {
        name: "allgather",
        section: "Collectives",
        title: "Allgather",
        unit: "µs",
        lower_is_better: true,
        logarithmic: true,
        point: Point::Bytes,
        key: &[8, 64 * K],
        program: "collective",
        arguments: &["allgather"],
        points: &[8, K, 64 * K, M],
        ranks: Ranks::Each,
        scope: Scope::First,
        rounds: 3,
        value: Value::Printed,
    },
    Measure {
        name: "alltoall",
        section: "Collectives",
        title: "Alltoall",
        unit: "µs",
        lower_is_better: true,
        logarithmic: true,
        point: Point::Bytes,
        key: &[8, 64 * K],
        program: "collective",
        arguments: &["alltoall"],
        points: &[8, K, 64 * K, M],
        ranks: Ranks::Each,
        scope: Scope::First,
        rounds: 3,
        value: Value::Printed,
    },
    Measure {
        name: "neighbor-alltoall",
        section: "Collectives",
        title: "Neighbourhood alltoall on a grid",
        unit: "µs",
        lower_is_better: true,
        logarithmic: true,
        point: Point::Bytes,
        key: &[8, 64 * K],
        program: "collective",
        arguments: &["neighbor_alltoall"],
        points: &[8, K, 64 * K, M],
        ranks: Ranks::Each,
        scope: Scope::First,
        rounds: 3,
        value: Value::Printed,
    },
    one_sided::FLUSHED,
    one_sided::FLUSHED_CREATED,
    one_sided::STREAM,
    one_sided::STREAM_CREATED,
    one_sided::RATE,
    one_sided::RATE_CREATED,
    one_sided::EPOCHS,
    one_sided::EPOCHS_CREATED,
    one_sided::COMPUTING,
    one_sided::COMPUTING_CREATED,
    Measure {
        name: "startup",
        section: "Starting and waiting",
        title: "MPI_Init to the end of MPI_Finalize, slowest rank",
        unit: "ms",
        lower_is_better: true,
        logarithmic: true,
        point: Point::Ranks,
        key: &[],
        program: "startup",
        arguments: &[],
        points: &[],
        ranks: Ranks::All,
        scope: Scope::All,
        rounds: 3,
        value: Value::Slowest,
    },
    Measure {
        name: "idle",
        section: "Starting and waiting",
        title: "Processor time of a rank that waits in MPI_Recv",
        unit: "%",
        lower_is_better: true,
        logarithmic: false,
        point: Point::Milliseconds,
        key: &[],
        program: "idle",
        arguments: &[],
        points: &[],
        ranks: Ranks::Two,
        scope: Scope::First,
        rounds: 3,
        value: Value::Printed,
    },
];

/// The measure of that name.
pub fn find(name: &str) -> Result<&'static Measure, String> {
    ALL.iter().find(|measure| measure.name == name).ok_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|measure| measure.name).collect();
        format!("there is {}", names.join(", "))
    })
}

/// For `--list`: a line each.
pub fn list() -> String {
    let mut text = String::new();
    for Measure {
        name, title, unit, ..
    } in ALL
    {
        let _ = writeln!(text, "{name:16} {title}, {unit}");
    }
    text
}

/// One run that a measure needs, in each round under each library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    pub program: &'static str,
    pub arguments: Vec<String>,
    pub ranks: u32,
    /// The points that it gives.
    pub points: Vec<u64>,
}

impl Run {
    /// About how long it takes under a library that starts two ranks in so many seconds. What finds out how many messages
    /// fit into the time takes a third of it again.
    pub fn seconds(&self, start: f64, milliseconds: u32) -> f64 {
        let start = start * f64::from(self.ranks.max(2)) / 2.0;
        let each = match self.program {
            "idle" => return start + self.points[0] as f64 * 1e-3,
            "startup" => 0.0,
            _ => f64::from(milliseconds) * 1.3e-3,
        };
        start + each * self.points.len() as f64
    }
}

impl Measure {
    /// Whether it is made over the first that `--over` says, or any other one; `named`: the command line asks for it by name.
    pub fn is_over(&self, first: bool, named: bool) -> bool {
        match self.scope {
            Scope::First => first || named,
            Scope::All => true,
            Scope::Named => named,
        }
    }

    /// Whether it is about windows whose memory the library allocates.
    pub fn allocates_window(&self) -> bool {
        self.program == one_sided::PROGRAM && self.arguments.contains(&one_sided::ALLOCATE)
    }

    /// How many rounds it takes.
    pub fn rounds(&self, options: &Options) -> u32 {
        options.rounds.unwrap_or(self.rounds)
    }

    /// Whether its rows are for several numbers of ranks.
    pub fn has_ranks(&self) -> bool {
        matches!(self.ranks, Ranks::Each | Ranks::Extremes) && self.point != Point::Ranks
    }

    /// The runs of one round over what `--over` says.
    pub fn runs(&self, options: &Options, over: &str) -> Vec<Run> {
        let run = |ranks: u32, more: Vec<String>, points: Vec<u64>| Run {
            program: self.program,
            arguments: self
                .arguments
                .iter()
                .map(ToString::to_string)
                .chain(more)
                .collect(),
            ranks,
            points,
        };
        let milliseconds = options.milliseconds.to_string();
        let ranks = match self.ranks {
            Ranks::One => 1,
            Ranks::Two => 2,
            Ranks::Each if over != "own" => options.ranks.min(FEW),
            Ranks::All | Ranks::Each | Ranks::Extremes => options.ranks,
        };
        match self.point {
            Point::Bytes | Point::Queue | Point::Pairs | Point::Layout | Point::Operation => {
                let points = match self.point {
                    Point::Bytes if !options.sizes.is_empty() => &options.sizes,
                    _ => self.points,
                };
                let more: Vec<_> = [milliseconds]
                    .into_iter()
                    .chain(points.iter().map(|&point| self.point.word(point)))
                    .collect();
                let fewest = match self.ranks {
                    Ranks::Each | Ranks::Extremes if ranks > 2 => Some(2),
                    _ => None,
                };
                let all = fewest.into_iter().chain([ranks]);
                all.map(|ranks| run(ranks, more.clone(), points.to_vec()))
                    .collect()
            }
            Point::Ranks => {
                let below = (1..).map(|power| 1 << power).take_while(|&fewer| fewer < ranks);
                // `startup` takes no time limit: it measures itself once.
                let more = |_| {
                    if self.program == "startup" {
                        vec![]
                    } else {
                        vec![milliseconds.clone()]
                    }
                };
                below
                    .chain([ranks])
                    .map(|ranks| run(ranks, more(ranks), vec![u64::from(ranks)]))
                    .collect()
            }
            Point::Milliseconds => {
                let idle = options.idle_milliseconds;
                vec![run(ranks, vec![idle.to_string()], vec![u64::from(idle)])]
            }
        }
    }

    /// The measure's numbers in what a run printed, one for each of its points.
    pub fn read(&self, run: &Run, printed: &str) -> Result<Vec<f64>, String> {
        let found = self.lines(run, printed)?;
        if let Value::Slowest = self.value {
            if found.len() != run.ranks as usize {
                return Err(format!(
                    "{} ranks printed a number, of {}",
                    found.len(),
                    run.ranks
                ));
            }
            return Ok(vec![found.iter().map(|&(_, number)| number).fold(0.0, f64::max)]);
        }
        let number_at = |&point: &u64| match found.iter().find(|(at, _)| *at == point) {
            Some(&(_, number)) => Ok(self.convert(point, number)),
            None => Err(format!("it printed no number for {}", self.point.label(point))),
        };
        run.points.iter().map(number_at).collect()
    }

    /// The procedure that the library lacks, by what a run printed.
    pub fn lacking<'a>(&self, run: &Run, printed: &'a str) -> Option<&'a str> {
        printed.lines().find_map(|line| {
            let rest = line.strip_prefix(run.program)?.strip_prefix(" unsupported ")?;
            Some(rest.trim())
        })
    }

    /// The points that a run that failed had come to, with their numbers.
    pub fn read_some(&self, run: &Run, printed: &str) -> Vec<(u64, f64)> {
        if let Value::Slowest = self.value {
            return Vec::new();
        }
        let found = self.lines(run, printed).unwrap_or_default();
        found
            .into_iter()
            .filter(|(point, _)| run.points.contains(point))
            .map(|(point, number)| (point, self.convert(point, number)))
            .collect()
    }

    /// The lines that are results.
    fn lines(&self, run: &Run, printed: &str) -> Result<Vec<(u64, f64)>, String> {
        let mut found = Vec::new();
        for line in printed.lines() {
            let mut words = line.split_whitespace();
            if words.next() != Some(run.program) {
                continue;
            }
            let pair = words.next().and_then(|word| self.point.parse(word));
            let pair = pair.zip(words.next().and_then(|word| word.parse::<f64>().ok()));
            match pair {
                Some((point, number)) if number.is_finite() && number >= 0.0 => found.push((point, number)),
                _ => return Err(format!("it printed a line that makes no sense: {line}")),
            }
        }
        Ok(found)
    }

    fn convert(&self, bytes: u64, printed: f64) -> f64 {
        match self.value {
            Value::Printed | Value::Slowest => printed,
            Value::GigabytesPerSecond(directions) => directions * bytes as f64 / printed * 1e-3,
            Value::MillionsPerSecond => 1.0 / printed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn options(words: &[&str]) -> Options {
        Options::parse_from([&["weft-bench", "--weft", "/opt"], words].concat())
    }

    #[test]
    fn a_sweep_over_sizes_is_one_run() {
        let runs = find("bandwidth")
            .unwrap()
            .runs(&options(&["--sizes", "8,1K", "--milliseconds", "5"]), "own");
        assert_eq!(runs.len(), 1);
        assert_eq!((runs[0].program, runs[0].ranks), ("stream", 2));
        assert_eq!(runs[0].arguments, ["one", "5", "8", "1024"]);
        assert_eq!(runs[0].points, [8, 1024]);
        let ranks = |all: &str, over: &str| -> Vec<u32> {
            let runs = find("allreduce").unwrap().runs(&options(&["--ranks", all]), over);
            runs.iter().map(|run| run.ranks).collect()
        };
        assert_eq!(ranks("8", "own"), [2, 8]);
        assert_eq!(ranks("8", "net"), [2, 4]);
        assert_eq!((ranks("3", "net"), ranks("2", "own")), (vec![2, 3], vec![2]));
        let epochs = find("epochs").unwrap().runs(&options(&["--ranks", "6"]), "net");
        assert_eq!(epochs.iter().map(|run| run.ranks).collect::<Vec<_>>(), [2, 6]);
    }

    #[test]
    fn ranks_double_up_to_all() {
        let ranks = |name: &str, all: &str, over: &str| -> Vec<u32> {
            let runs = find(name).unwrap().runs(&options(&["--ranks", all]), over);
            runs.iter().map(|run| run.ranks).collect()
        };
        assert_eq!(ranks("barrier", "2", "own"), [2]);
        assert_eq!(ranks("barrier", "8", "own"), [2, 4, 8]);
        assert_eq!(ranks("barrier", "12", "own"), [2, 4, 8, 12]);
        assert_eq!(ranks("barrier", "8", "net"), [2, 4]);
        assert_eq!(ranks("startup", "8", "net"), [2, 4, 8]);
    }

    #[test]
    fn what_is_not_about_sizes_has_points_of_its_own() {
        let run = |name: &str| {
            find(name)
                .unwrap()
                .runs(&options(&["--sizes", "8"]), "own")
                .remove(0)
        };
        assert_eq!(run("pack").ranks, 1);
        assert_eq!(run("pack").arguments[..3], ["pack", "200", "column"]);
        assert_eq!(run("layouts").arguments[..3], ["send", "200", "column"]);
        assert_eq!(run("threads").arguments, ["own", "200", "1", "2", "4"]);
        let one_sided = run("computing-created").arguments;
        assert_eq!(one_sided[..4], ["create", "computing", "200", "put-8"]);
        let posted = run("posted");
        assert_eq!(posted.arguments.last().unwrap(), "100000");
        assert_eq!((posted.ranks, posted.points.len()), (2, 6));
    }

    #[test]
    fn further_providers_carry_only_what_is_about_them_or_is_named() {
        let over = |name: &str, first, named| find(name).unwrap().is_over(first, named);
        assert!(over("latency", false, false) && over("startup", false, false));
        assert!(over("idle", true, false) && !over("idle", false, false) && over("idle", false, true));
        assert!(!over("epochs", true, false) && over("epochs", false, true));
    }

    #[test]
    fn rounds_are_the_measures_own_unless_said() {
        let rounds = |name: &str, words: &[&str]| find(name).unwrap().rounds(&options(words));
        assert_eq!((rounds("latency", &[]), rounds("rate", &[])), (5, 3));
        assert_eq!(rounds("latency", &["--rounds", "2"]), 2);
    }

    #[test]
    fn a_run_takes_its_start_and_its_points() {
        let seconds = |name: &str| find(name).unwrap().runs(&options(&[]), "own")[0].seconds(0.5, 200);
        assert!((seconds("latency") - (0.5 + 8.0 * 0.26)).abs() < 1e-9);
        assert!((seconds("allreduce") - (0.5 + 4.0 * 0.26)).abs() < 1e-9);
        assert!((seconds("startup") - 0.5).abs() < 1e-9);
        assert!((seconds("idle") - 10.5).abs() < 1e-9);
    }

    #[test]
    fn numbers_are_read_and_converted() {
        let few = options(&["--sizes", "8,1K"]);
        let read = |name: &str, printed: &str| {
            let measure = find(name).unwrap();
            measure.read(&measure.runs(&few, "own")[0], printed)
        };
        let warned = "[0] warning: something\nlatency 1024 2.5\nlatency 8 0.25\n";
        assert_eq!(read("latency", warned), Ok(vec![0.25, 2.5]));
        assert_eq!(
            read("bandwidth", "stream 8 1\nstream 1024 0.5\n"),
            Ok(vec![0.008, 2.048])
        );
        assert_eq!(
            read("bidirectional", "stream 8 1\nstream 1024 0.5\n"),
            Ok(vec![0.016, 4.096])
        );
        assert_eq!(read("rate", "stream 8 0.5\nstream 1024 1\n"), Ok(vec![2.0, 1.0]));
        let kinds = "column x y z indexed records rows".split(' ');
        let printed: String = kinds
            .zip(1..)
            .map(|(kind, time)| format!("layouts {kind} {time}\n"))
            .collect();
        assert_eq!(
            read("layouts", &printed),
            Ok(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
        );
        assert_eq!(read("pack", &printed).unwrap()[1], 2.0);
        assert_eq!(
            read("threads-shared", "threads 4 0.25\nthreads 1 0.5\nthreads 2 1\n"),
            Ok(vec![2.0, 1.0, 4.0])
        );
        let queues: String = [1, 10, 100, 1000, 10_000, 100_000]
            .iter()
            .map(|n| format!("matching {n} {}\n", 2 * n))
            .collect();
        assert_eq!(
            read("posted", &queues),
            Ok(vec![2.0, 20.0, 200.0, 2000.0, 20_000.0, 200_000.0])
        );
        assert_eq!(read("startup", "startup 1 7.5\nstartup 0 3\n"), Ok(vec![7.5]));
        // The program's second number, of the slowest rank, is for the reader of its output.
        let printed = "collective 8 0.5 0.75\ncollective 1024 2 3\n";
        assert_eq!(read("allgather", printed), Ok(vec![0.5, 2.0]));
    }

    #[test]
    fn what_is_missing_or_wrong_is_said() {
        let few = options(&["--sizes", "8,1K"]);
        let error = |name: &str, printed: &str| {
            let measure = find(name).unwrap();
            measure.read(&measure.runs(&few, "own")[0], printed).unwrap_err()
        };
        assert_eq!(
            error("latency", "latency 8 0.25\n"),
            "it printed no number for 1 KiB"
        );
        assert!(error("latency", "latency 8 fast\n").contains("latency 8 fast"));
        assert!(error("latency", "latency 8 inf\n").contains("latency 8 inf"));
        assert_eq!(
            error("startup", "startup 0 3\n"),
            "1 ranks printed a number, of 2"
        );
    }

    #[test]
    fn what_a_library_lacks_is_known_by_what_the_program_says() {
        let measure = find("allreduce-persistent").unwrap();
        let run = &measure.runs(&options(&[]), "own")[0];
        let said = "warning\ncollective unsupported MPI_Allreduce_init\n";
        assert_eq!(measure.lacking(run, said), Some("MPI_Allreduce_init"));
        assert_eq!(measure.lacking(run, "collective 8 0.5 0.75\n"), None);
    }

    #[test]
    fn what_a_run_had_found_before_it_failed_is_kept() {
        let few = options(&["--sizes", "8,1K"]);
        let read = |name: &str, printed: &str| {
            let measure = find(name).unwrap();
            measure.read_some(&measure.runs(&few, "own")[0], printed)
        };
        assert_eq!(read("rate", "stream 8 0.5\n"), [(8, 2.0)]);
        assert_eq!(read("latency", "latency 64 1\nlatency 1024 3\n"), [(1024, 3.0)]);
        assert_eq!(read("latency", ""), []);
        assert_eq!(read("latency", "latency 8 1\nlatency 1024 soon\n"), []);
        assert_eq!(read("startup", "startup 0 3\n"), []);
    }

    #[test]
    fn points_have_units() {
        assert_eq!(Point::Bytes.label(8), "8 B");
        assert_eq!(Point::Bytes.label(1000), "1000 B");
        assert_eq!(Point::Bytes.label(64 << 10), "64 KiB");
        assert_eq!(Point::Bytes.label(4 << 20), "4 MiB");
        assert_eq!(Point::Ranks.label(8), "8 ranks");
        assert_eq!(Point::Layout.label(3), "face across z");
        assert_eq!(Point::Operation.label(9), "accumulate of 1 MiB");
        assert_eq!(Point::Queue.label(1), "n = 1");
        assert_eq!(Point::Queue.label(100_000), "n = 100,000");
        assert_eq!(Point::Pairs.label(1), "1 pair");
        assert_eq!(Point::Pairs.label(4), "4 pairs");
        assert_eq!(thousands(1_000_000), "1,000,000");
        assert_eq!(thousands(999), "999");
        assert_eq!(Point::Milliseconds.label(10_000), "10 s");
        assert_eq!(Point::Milliseconds.label(100), "100 ms");
    }
}
