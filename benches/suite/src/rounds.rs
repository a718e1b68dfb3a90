//! The order of the runs: for each measure round after round, in each round every library once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::job;
use crate::library::Library;
use crate::measure::{self, Measure, Point, Run};
use crate::options::Options;
use crate::results::{self, Cell, Failed, Machine, Name, Results, Row};

/// Measures all that the options ask for.
///
/// # Errors
///
/// A library is not there or does not run at all. A single run that fails is a part of the results.
pub fn measure(options: &Options) -> Result<Results, String> {
    job::adopt()?;
    let machine = Machine::this();
    let folder = tempfile::tempdir().map_err(|error| format!("cannot make a temporary folder: {error}"))?;
    let libraries = Library::open_all(options, folder.path())?;
    let mut results = Results {
        weft_bench: env!("CARGO_PKG_VERSION").into(),
        date: results::today(),
        machine,
        libraries: libraries
            .iter()
            .map(|library| Name {
                name: library.name.clone(),
                version: library.version.clone(),
                weft: library.is_weft(),
            })
            .collect(),
        rows: Vec::new(),
        notes: Vec::new(),
        failures: Vec::new(),
    };
    if results.machine.was_busy() {
        let load = results.machine.load;
        eprintln!(
            "weft-bench: the machine is busy, and the numbers will be worth little: its load is {load}"
        );
        let note = format!("**The machine was busy** when measuring began: its load was {load}.");
        results.notes.push(note);
    }
    let fields = plan(options, &libraries, &mut results.notes)?;
    let runs: u64 = fields.iter().map(Field::count).sum();
    let seconds: f64 = fields
        .iter()
        .map(|field| field.seconds(options.milliseconds))
        .sum();
    eprintln!(
        "weft-bench: {runs} runs will take about {}",
        in_words(Duration::from_secs_f64(seconds))
    );
    let start = Instant::now();
    let bar = progress(runs);
    for field in &fields {
        field.measure(&libraries, &bar, &mut results);
    }
    bar.finish_and_clear();
    eprintln!("weft-bench: {runs} runs took {}", in_words(start.elapsed()));
    Ok(results)
}

/// A measure over one thing, for the libraries that can talk over it.
struct Field {
    measure: &'static Measure,
    over: String,
    runs: Vec<Run>,
    rounds: u32,
    /// At least one library.
    able: Vec<Able>,
}

/// A library that can talk over something.
#[derive(Clone, Copy)]
struct Able {
    /// Its index.
    index: usize,
    /// How long two ranks of it took to start, exchange a message, and end.
    start: Duration,
}

/// What is to be measured. Each library is tried first over each provider, and a note says which can't.
///
/// # Errors
///
/// No library talks over one of them.
fn plan(options: &Options, libraries: &[Library], notes: &mut Vec<String>) -> Result<Vec<Field>, String> {
    let named = |measure: &Measure| options.measures.iter().any(|one| one.name == measure.name);
    let wanted = |measure: &Measure| options.measures.is_empty() || named(measure);
    let mut able = Vec::new();
    for (place, over) in options.over.iter().enumerate() {
        if options.over[..place].contains(over) {
            continue;
        }
        let mut these = Vec::new();
        for (index, library) in libraries.iter().enumerate() {
            // That each runs over its own choice is known.
            let start = Instant::now();
            let tried = if over == "own" {
                Ok(library.start)
            } else {
                library.probe(over).map(|_| start.elapsed())
            };
            match tried {
                Ok(start) => these.push(Able { index, start }),
                Err(why) => {
                    notes.push(format!(
                        "{} is not measured over `{over}`: {}.",
                        library.name,
                        why.reason()
                    ));
                    let details = why.details();
                    eprintln!(
                        "weft-bench: {} is not measured over {over}: {details}",
                        library.name
                    );
                }
            }
        }
        if these.is_empty() {
            return Err(format!("nothing runs over {over}"));
        }
        able.push((over, these));
    }
    // All that concerns a measure is measured together.
    let mut fields = Vec::new();
    for measure in measure::ALL.iter().filter(|measure| wanted(measure)) {
        for (place, (over, able)) in able.iter().enumerate() {
            if measure.is_over(place == 0, named(measure)) {
                let mut able = able.clone();
                able.retain(|one| {
                    let library = &libraries[one.index];
                    let why = library.strays(measure, over);
                    notes.extend(why.map(|why| {
                        format!(
                            "{} is not measured in {} over `{over}`: {why}.",
                            library.name, measure.name
                        )
                    }));
                    why.is_none()
                });
                if able.is_empty() {
                    continue;
                }
                fields.push(Field {
                    measure,
                    over: over.to_string(),
                    runs: measure.runs(options, over),
                    rounds: measure.rounds(options),
                    able,
                });
            }
        }
    }
    Ok(fields)
}

/// What a run found out.
enum Numbers {
    /// A number for each of its points.
    Of(Vec<f64>),
    /// The library does not have this procedure.
    Lacking(String),
}

impl Field {
    /// How many runs it takes.
    fn count(&self) -> u64 {
        (self.runs.len() * self.able.len()) as u64 * u64::from(self.rounds)
    }

    /// About how long they take, if none fails.
    fn seconds(&self, milliseconds: u32) -> f64 {
        let once = self.able.iter().flat_map(|able| {
            let start = able.start.as_secs_f64();
            self.runs.iter().map(move |run| run.seconds(start, milliseconds))
        });
        once.sum::<f64>() * f64::from(self.rounds)
    }

    fn measure(&self, libraries: &[Library], bar: &ProgressBar, results: &mut Results) {
        let mut found: HashMap<(usize, u32, u64), Vec<f64>> = HashMap::new();
        // Not tried again: a run that hangs would cost its time limit in each round.
        let mut failed = Vec::new();
        let rounds = self.rounds;
        for round in 1..=rounds {
            // Each library comes first in turn, in case that what ran before leaves a trace.
            let first = round as usize % self.able.len();
            for run in &self.runs {
                for &Able { index, .. } in self.able[first..].iter().chain(&self.able[..first]) {
                    let library = &libraries[index];
                    let Measure { name, .. } = self.measure;
                    bar.set_message(format!(
                        "{name} over {}: {}, round {round} of {rounds}",
                        self.over, library.name
                    ));
                    if !failed.contains(&index) {
                        match self.number(library, run) {
                            Ok(Numbers::Lacking(procedure)) => {
                                failed.push(index);
                                results.notes.push(format!(
                                    "{} is not measured in {name} over `{}`: it lacks `{procedure}`.",
                                    library.name, self.over
                                ));
                            }
                            Ok(Numbers::Of(numbers)) => {
                                for (&point, number) in run.points.iter().zip(numbers) {
                                    found.entry((index, run.ranks, point)).or_default().push(number);
                                }
                            }
                            Err(failure) => {
                                failed.push(index);
                                for (point, number) in self.measure.read_some(run, &failure.printed) {
                                    found.entry((index, run.ranks, point)).or_default().push(number);
                                }
                                let failure = Failed {
                                    measure: name.to_string(),
                                    library: library.name.clone(),
                                    over: self.over.clone(),
                                    round,
                                    command: failure.command,
                                    what: failure.what,
                                    said: failure.said,
                                };
                                let text =
                                    format!("{}\n{}\n{}", failure.title(), failure.command, failure.said);
                                bar.suspend(|| {
                                    eprintln!("weft-bench: {}", text.trim_end().replace('\n', "\n    "))
                                });
                                results.failures.push(failure);
                            }
                        }
                    }
                    bar.inc(1);
                }
            }
        }
        let rows = self
            .runs
            .iter()
            .flat_map(|run| run.points.iter().map(move |&point| (run.ranks, point)));
        for (ranks, point) in rows {
            let cell = |index| Cell::new(found.remove(&(index, ranks, point)).unwrap_or_default());
            let label = self.measure.point.label(point);
            let several = self.measure.has_ranks();
            results.rows.push(Row {
                measure: self.measure.name.into(),
                unit: self.measure.unit.into(),
                over: self.over.clone(),
                ranks: several.then_some(ranks),
                point,
                label: match several {
                    true => format!("{label}, {}", Point::Ranks.label(ranks.into())),
                    false => label,
                },
                cells: (0..libraries.len()).map(cell).collect(),
            });
        }
        // Where there is no terminal there is no bar, and the lines tell that it goes on.
        if bar.is_hidden() {
            eprintln!("weft-bench: {} over {} is measured", self.measure.name, self.over);
        }
    }

    /// One run.
    fn number(&self, library: &Library, run: &Run) -> Result<Numbers, job::Failure> {
        let job = library.run(run.program, &run.arguments, run.ranks, &self.over);
        let job = job.expect("the library was tried over this");
        let printed = job.run()?;
        if let Some(procedure) = self.measure.lacking(run, &printed) {
            return Ok(Numbers::Lacking(procedure.to_string()));
        }
        self.measure
            .read(run, &printed)
            .map(Numbers::Of)
            .map_err(|what| job.failure(what, String::new(), printed))
    }
}

/// `40 s`, `17 min`.
fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}

fn progress(runs: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{wide_bar} {pos}/{len} runs, {elapsed}, about {eta} left\n{msg}");
    let bar = ProgressBar::new(runs).with_style(style.expect("the template is sound"));
    // Drawn between runs only: nothing of it may cost the measured programs time.
    bar.set_draw_target(indicatif::ProgressDrawTarget::stderr_with_hz(1));
    bar.tick();
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn the_time_that_it_will_take_is_told_before() {
        let options = Options::parse_from([
            "weft-bench",
            "--weft",
            "/opt",
            "--milliseconds",
            "100",
            "--sizes",
            "8",
        ]);
        let measure = measure::find("latency").unwrap();
        let able = |index, start| Able {
            index,
            start: Duration::from_millis(start),
        };
        let field = Field {
            measure,
            over: "own".into(),
            runs: measure.runs(&options, "own"),
            rounds: 5,
            able: vec![able(0, 20), able(1, 500)],
        };
        assert_eq!(field.count(), 10);
        assert!((field.seconds(100) - 5.0 * (0.02 + 0.5 + 2.0 * 0.13)).abs() < 1e-9);
        assert_eq!(in_words(Duration::from_millis(40_900)), "40 s");
        assert_eq!(in_words(Duration::from_secs(17 * 60 + 29)), "17 min");
    }
}
