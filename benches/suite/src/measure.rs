//! What can be measured: each measure's program, its points, its unit, and how it is drawn. `all` is the list, with `one_sided` as a part.

mod all;
mod one_sided;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use crate::options::Options;

pub use all::ALL;
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
