//! What was measured, as it is kept in `results.json`.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::measure::{self, Measure};

/// Everything that one call of this program found out.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Results {
    /// This program's version.
    pub weft_bench: String,
    /// The day, in UTC: year-month-day.
    pub date: String,
    pub machine: Machine,
    /// Weft first.
    pub libraries: Vec<Name>,
    pub rows: Vec<Row>,
    /// What was left out and why, in sentences.
    pub notes: Vec<String>,
    /// Runs that failed.
    pub failures: Vec<Failed>,
}

/// Where it was measured.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Machine {
    pub processor: String,
    /// Processors that this program could use.
    pub processors: usize,
    pub kernel: String,
    /// The load average of the last minute, when measuring began.
    pub load: f64,
}

/// A library that was measured.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Name {
    pub name: String,
    pub version: String,
    /// Whether it is Weft, and so no peer of Weft.
    pub weft: bool,
}

/// One point of one measure over one thing.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Row {
    /// The measure's name.
    pub measure: String,
    /// The unit of the numbers.
    pub unit: String,
    /// `own` or a provider.
    pub over: String,
    /// Of a measure with several numbers of ranks at each point: how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
    /// Bytes, ranks, milliseconds or a place in a list: the measure decides.
    pub point: u64,
    /// The point in words.
    pub label: String,
    /// One for each library, in their order; none: no number.
    pub cells: Vec<Option<Cell>>,
}

/// What one library reached there.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Cell {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// One number for each round.
    pub values: Vec<f64>,
}

/// A run that failed.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Failed {
    pub measure: String,
    pub library: String,
    pub over: String,
    /// The round in which it failed, from 1; it was not tried again.
    pub round: u32,
    pub command: String,
    /// What happened, in a few words.
    pub what: String,
    /// The end of what it wrote to standard error.
    pub said: String,
}

impl Failed {
    /// Which it was and what happened, in one line.
    pub fn title(&self) -> String {
        let Failed {
            measure,
            library,
            over,
            round,
            what,
            ..
        } = self;
        format!("{measure} of {library} over {over}, round {round}: {what}")
    }
}

impl Cell {
    /// `None`: there are no values.
    pub fn new(values: Vec<f64>) -> Option<Cell> {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
            _ => sorted[middle],
        };
        Some(Cell {
            median,
            min,
            max,
            values,
        })
    }
}

impl Row {
    /// The measure that it belongs to.
    pub fn measure(&self) -> Option<&'static Measure> {
        measure::find(&self.measure).ok()
    }
}

impl Results {
    /// The table that an earlier call wrote.
    pub fn read(path: &Path) -> Result<Results, String> {
        let failed = |what: &str| format!("cannot read the results in {}: {what}", path.display());
        let text = fs::read_to_string(path).map_err(|error| failed(&error.to_string()))?;
        let results: Results = serde_json::from_str(&text).map_err(|error| failed(&error.to_string()))?;
        results.check().map_err(|what| failed(&what))?;
        Ok(results)
    }

    /// What the type does not say: every row has as many cells as there are libraries, and a measure that exists.
    fn check(&self) -> Result<(), String> {
        if self.libraries.is_empty() {
            return Err("there are no libraries".into());
        }
        for row in &self.rows {
            if row.measure().is_none() {
                return Err(format!("there is no measure {}", row.measure));
            }
            if row.cells.len() != self.libraries.len() {
                let (have, want) = (row.cells.len(), self.libraries.len());
                return Err(format!(
                    "a row of {} has {have} cells for {want} libraries",
                    row.measure
                ));
            }
        }
        Ok(())
    }

    pub fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("numbers and text have a form in JSON");
        json + "\n"
    }

    /// The rows of a measure, in the order in which they were measured.
    pub fn rows_of<'a>(&'a self, measure: &'static Measure) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.measure == measure.name)
    }

    /// The measures that have rows, in their order of [`measure::ALL`].
    pub fn measures(&self) -> impl Iterator<Item = &'static Measure> {
        measure::ALL
            .iter()
            .filter(|measure| self.rows_of(measure).next().is_some())
    }

    /// How many rounds there were of a measure: of a row that nobody failed in.
    pub fn rounds_of(&self, measure: &'static Measure) -> usize {
        let cells = self.rows_of(measure).flat_map(|row| row.cells.iter().flatten());
        cells.map(|cell| cell.values.len()).max().unwrap_or(0)
    }

    /// The peer with the best median, and that median.
    pub fn best_peer(&self, row: &Row) -> Option<(&Name, f64)> {
        let lower = row.measure()?.lower_is_better;
        let peers = row.cells.iter().zip(&self.libraries);
        peers
            .filter(|(_, library)| !library.weft)
            .filter_map(|(cell, library)| Some((library, cell.as_ref()?.median)))
            .reduce(|best, next| match (next.1 < best.1) == lower {
                true => next,
                false => best,
            })
    }

    /// Weft's median by the best peer's: below 1 is better where lower numbers are.
    pub fn ratio(&self, row: &Row) -> Option<f64> {
        let weft = row.cells.first()?.as_ref()?.median;
        let (_, best) = self.best_peer(row)?;
        (best > 0.0).then(|| weft / best)
    }
}

impl Machine {
    /// This one.
    pub fn this() -> Machine {
        let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let processor = file("/proc/cpuinfo")
            .lines()
            .find_map(|line| {
                line.strip_prefix("model name")
                    .map(|rest| rest.trim_start_matches(['\t', ' ', ':']).to_string())
            })
            .unwrap_or_else(|| std::env::consts::ARCH.to_string());
        Machine {
            processor,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            // The version, without what its builder put behind.
            kernel: file("/proc/sys/kernel/osrelease")
                .trim()
                .split('-')
                .next()
                .unwrap_or_default()
                .to_string(),
            load: file("/proc/loadavg")
                .split(' ')
                .next()
                .and_then(|word| word.parse().ok())
                .unwrap_or(0.0),
        }
    }

    /// Whether so much else was running that the numbers are worth little.
    pub fn was_busy(&self) -> bool {
        self.load > 0.25 * self.processors as f64
    }
}

/// Today, in UTC.
pub fn today() -> String {
    time::OffsetDateTime::now_utc().date().to_string()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn cell(values: &[f64]) -> Option<Cell> {
        Cell::new(values.to_vec())
    }

    /// Some of everything: two libraries of Weft's, two peers, two providers, gaps, a failure.
    pub fn example() -> Results {
        let row = |name: &str, over: &str, point: u64, cells: [Option<Cell>; 4]| {
            let measure = measure::find(name).unwrap();
            Row {
                measure: name.into(),
                unit: measure.unit.into(),
                over: over.into(),
                ranks: None,
                point,
                label: measure.point.label(point),
                cells: cells.into(),
            }
        };
        let library = |name: &str, version: &str, weft: bool| Name {
            name: name.into(),
            version: version.into(),
            weft,
        };
        Results {
            weft_bench: "0.1.0".into(),
            date: "2026-11-21".into(),
            machine: Machine {
                processor: "Some CPU".into(),
                processors: 2,
                kernel: "6.1.0".into(),
                load: 0.02,
            },
            libraries: vec![
                library("Weft", "Weft 0.1.0", true),
                library("Weft, 2.x", "Weft 0.1.0", true),
                library("MPICH", "MPICH 5.0.2", false),
                library("Open MPI", "Open MPI v5", false),
            ],
            rows: vec![
                row(
                    "latency",
                    "own",
                    8,
                    [
                        cell(&[0.3, 0.31, 0.27]),
                        cell(&[0.1]),
                        cell(&[1.2, 1.25, 1.22]),
                        cell(&[0.2; 3]),
                    ],
                ),
                row(
                    "latency",
                    "own",
                    1 << 20,
                    [cell(&[105.7]), None, cell(&[103.6]), cell(&[104.4])],
                ),
                row("latency", "net", 8, [cell(&[6.3]), None, cell(&[7.3]), None]),
                row(
                    "latency",
                    "net",
                    1 << 20,
                    [cell(&[244.0]), None, cell(&[170.0]), None],
                ),
                row("rate", "own", 8, [cell(&[6.0]), None, cell(&[1.5]), cell(&[7.5])]),
                row("barrier", "own", 8, [cell(&[12.0]), None, cell(&[4000.0]), None]),
                row("idle", "own", 10_000, [cell(&[0.04]), None, cell(&[100.0]), None]),
            ],
            notes: vec!["Open MPI is not measured over net: it has no setting for that.".into()],
            failures: vec![Failed {
                measure: "barrier".into(),
                library: "Open MPI".into(),
                over: "own".into(),
                round: 2,
                command: "/opt/bin/mpiexec -n 8 collective barrier".into(),
                what: "it hung: it was ended after 120 s".into(),
                said: "oh".into(),
            }],
        }
    }

    #[test]
    fn a_cell_has_median_and_spread() {
        let odd = cell(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((odd.median, odd.min, odd.max), (2.0, 1.0, 3.0));
        assert_eq!(odd.values, [3.0, 1.0, 2.0]);
        assert_eq!(cell(&[4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(cell(&[]), None);
    }

    #[test]
    fn the_ratio_is_to_the_best_peer_and_never_to_another_weft() {
        let results = example();
        let near = |row: usize, expected: f64| {
            let ratio = results.ratio(&results.rows[row]).unwrap();
            assert!((ratio - expected).abs() < 1e-9, "{ratio}, not {expected}");
        };
        near(0, 1.5);
        near(1, 105.7 / 103.6);
        near(4, 0.8);
        let mut alone = example();
        alone.libraries.truncate(2);
        alone.rows[0].cells.truncate(2);
        assert_eq!(alone.ratio(&alone.rows[0]), None);
    }

    #[test]
    fn json_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.json");
        fs::write(&path, example().to_json()).unwrap();
        assert_eq!(Results::read(&path), Ok(example()));
        let mut wrong = example();
        wrong.rows[2].cells.pop();
        fs::write(&path, wrong.to_json()).unwrap();
        assert!(
            Results::read(&path)
                .unwrap_err()
                .contains("3 cells for 4 libraries")
        );
        fs::write(&path, "{}").unwrap();
        assert!(Results::read(&path).unwrap_err().contains("results.json"));
    }

    #[test]
    fn a_busy_machine_is_noticed() {
        let mut machine = Machine::this();
        assert!(machine.processors > 0 && !machine.kernel.is_empty() && !machine.processor.is_empty());
        machine.processors = 2;
        machine.load = 0.1;
        assert!(!machine.was_busy());
        machine.load = 1.7;
        assert!(machine.was_busy());
    }

    #[test]
    fn a_day_has_year_month_and_day() {
        let today = today();
        let numbers: Vec<u32> = today.split('-').map(|word| word.parse().unwrap()).collect();
        assert!(
            today.len() == 10 && numbers.len() == 3 && numbers[0] >= 2026,
            "{today}"
        );
    }
}
