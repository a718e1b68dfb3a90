//! What Weft is to reach, most of it beside the best of its peers.

use crate::measure::{self, Measure};
use crate::results::{Results, Row};

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;

/// A number that is wanted.
pub struct Goal {
    measure: &'static str,
    over: &'static str,
    /// Where a measure has several numbers of ranks: how many.
    ranks: Option<u32>,
    point: u64,
    weft: Which,
    wanted: Wanted,
}

/// Whose numbers, where Weft is measured on several libfabrics.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// The one that is being measured: the first.
    First,
    /// Weft on the libfabric that its peers bring: the second.
    Second,
}

/// What the number is to be; beyond that is better still.
#[derive(Clone, Copy)]
enum Wanted {
    /// So much of the best peer's.
    Ratio(f64),
    /// Below that, by itself.
    Below(f64),
    /// At most that, by itself.
    AtMost(f64),
    /// Below that, and no peer is better.
    BelowAndBest(f64),
}

/// What became of a goal.
pub struct Outcome {
    pub title: String,
    pub over: &'static str,
    /// Weft's median.
    pub weft: Option<f64>,
    /// The best peer's name and median.
    pub best: Option<(String, f64)>,
    pub ratio: Option<f64>,
    /// What is wanted, in words.
    pub wanted: String,
    /// `None`: a number is missing.
    pub reached: Option<bool>,
}

const fn own(measure: &'static str, point: u64, wanted: Wanted) -> Goal {
    Goal {
        measure,
        over: "own",
        ranks: None,
        point,
        weft: Which::First,
        wanted,
    }
}

/// Of a collective of so many ranks.
const fn of(ranks: u32, measure: &'static str, point: u64, ratio: f64) -> Goal {
    Goal {
        ranks: Some(ranks),
        ..own(measure, point, Wanted::Ratio(ratio))
    }
}

/// All goals.
pub static ALL: &[Goal] = &[
    own("latency", 8, Wanted::Ratio(0.8)),
    own("latency", K, Wanted::Ratio(0.9)),
    own("latency", 64 * K, Wanted::Ratio(0.9)),
    own("latency", M, Wanted::Ratio(0.9)),
    own("rate", 8, Wanted::Ratio(1.2)),
    own("bandwidth", 64 * K, Wanted::Ratio(1.0)),
    own("bandwidth", M, Wanted::Ratio(1.0)),
    own("bandwidth", 4 * M, Wanted::Ratio(1.0)),
    own("barrier", 8, Wanted::Ratio(1.0)),
    own("barrier", 2, Wanted::Ratio(0.8)),
    of(2, "allreduce", 8, 0.8),
    of(2, "allreduce-persistent", 8, 0.8),
    of(2, "reduce", 8, 0.8),
    of(2, "bcast", 8, 0.8),
    of(2, "allgather", 8, 0.8),
    of(2, "alltoall", 8, 0.8),
    of(2, "neighbor-alltoall", 8, 0.8),
    of(8, "allreduce", 8, 1.0),
    of(8, "allreduce", 64 * K, 1.0),
    of(8, "reduce", 64 * K, 1.0),
    of(8, "bcast", 64 * K, 1.0),
    of(8, "allgather", 64 * K, 1.0),
    of(8, "alltoall", 64 * K, 1.0),
    own("idle", 10_000, Wanted::Below(1.0)),
    own("startup", 8, Wanted::BelowAndBest(20.0)),
    // Peers bring libfabric 2.x, where `net` has become `tcp`.
    Goal {
        measure: "latency",
        over: "net",
        ranks: None,
        point: 8,
        weft: Which::Second,
        wanted: Wanted::Ratio(0.95),
    },
    Goal {
        measure: "bandwidth",
        over: "net",
        ranks: None,
        point: 64 * K,
        weft: Which::Second,
        wanted: Wanted::Ratio(1.05),
    },
    Goal {
        measure: "bandwidth",
        over: "tcp;ofi_rxm",
        ranks: None,
        point: M,
        weft: Which::First,
        wanted: Wanted::Ratio(1.1),
    },
    own("layouts", 0, Wanted::Ratio(1.0)),
    own("layouts", 1, Wanted::Ratio(1.0)),
    own("layouts", 2, Wanted::Ratio(1.0)),
    own("layouts", 3, Wanted::Ratio(1.0)),
    own("layouts", 4, Wanted::Ratio(1.0)),
    own("pack", 0, Wanted::AtMost(1.0)),
    own("pack", 1, Wanted::AtMost(1.0)),
    own("pack", 2, Wanted::AtMost(1.0)),
    own("pack", 3, Wanted::AtMost(1.0)),
    own("pack", 4, Wanted::AtMost(1.0)),
];

impl Goal {
    /// What became of it; `None`: its measure was not made there.
    pub fn outcome(&self, results: &Results) -> Option<Outcome> {
        let measure = measure::find(self.measure).ok()?;
        let row = results
            .rows_of(measure)
            .find(|row| row.over == self.over && row.ranks == self.ranks && row.point == self.point)?;
        let place = self.place(results);
        let weft = place.and_then(|place| Some(row.cells[place].as_ref()?.median));
        let best = results.best_peer(row);
        let ratio = weft
            .zip(best)
            .and_then(|(weft, (_, best))| (best > 0.0).then(|| weft / best));
        // Beyond 1 is better where lower is not.
        let at_least = |limit: f64| {
            ratio.map(|ratio| {
                if measure.lower_is_better {
                    ratio <= limit
                } else {
                    ratio >= limit
                }
            })
        };
        let reached = match self.wanted {
            Wanted::Ratio(limit) => at_least(limit),
            Wanted::Below(limit) => weft.map(|weft| weft < limit),
            Wanted::AtMost(limit) => weft.map(|weft| weft <= limit),
            Wanted::BelowAndBest(limit) => at_least(1.0).zip(weft).map(|(best, weft)| best && weft < limit),
        };
        Some(Outcome {
            title: self.title(measure, row, results),
            over: self.over,
            weft,
            best: best.map(|(library, median)| (library.name.clone(), median)),
            ratio,
            wanted: self.wanted.words(measure),
            reached,
        })
    }

    /// Where its numbers are among a row's.
    fn place(&self, results: &Results) -> Option<usize> {
        let mut wefts = (0..results.libraries.len()).filter(|&place| results.libraries[place].weft);
        match self.weft {
            Which::First => wefts.next(),
            Which::Second => wefts.nth(1),
        }
    }

    fn title(&self, measure: &Measure, row: &Row, results: &Results) -> String {
        let title = format!("{}, {}, {}", measure.title, row.label, measure.unit);
        match (self.weft, self.place(results)) {
            (Which::Second, Some(place)) => format!("{title}; {}", results.libraries[place].name),
            _ => title,
        }
    }
}

impl Wanted {
    fn words(self, measure: &Measure) -> String {
        let sign = if measure.lower_is_better { "≤" } else { "≥" };
        // A ratio has no unit.
        let unit = match measure.unit {
            "ratio" => String::new(),
            unit => format!(" {unit}"),
        };
        match self {
            Wanted::Ratio(limit) => format!("ratio {sign} {limit:.2}"),
            Wanted::Below(limit) => format!("Weft < {limit}{unit}"),
            Wanted::AtMost(limit) => format!("Weft ≤ {limit}{unit}"),
            Wanted::BelowAndBest(limit) => format!("Weft < {limit}{unit}, ratio {sign} 1.00"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Cell;
    use crate::results::tests::example;

    /// The goal for a measure at a point, and what becomes of it where the libraries have these numbers.
    fn outcome(name: &str, over: &str, point: u64, values: [Option<f64>; 4]) -> Outcome {
        let mut results = example();
        let measure = measure::find(name).unwrap();
        results.rows = vec![Row {
            measure: name.into(),
            unit: measure.unit.into(),
            over: over.into(),
            ranks: None,
            point,
            label: measure.point.label(point),
            cells: values
                .map(|value| value.and_then(|value| Cell::new(vec![value])))
                .into(),
        }];
        let mut outcomes = ALL.iter().filter_map(|goal| goal.outcome(&results));
        let found = outcomes.next().unwrap();
        assert!(outcomes.next().is_none());
        found
    }

    fn reached(name: &str, point: u64, weft: f64, peers: [f64; 2]) -> Option<bool> {
        outcome(
            name,
            "own",
            point,
            [Some(weft), None, Some(peers[0]), Some(peers[1])],
        )
        .reached
    }

    #[test]
    fn every_goal_is_of_a_point_that_is_measured() {
        use crate::options::Options;
        use clap::Parser;
        let options = Options::parse_from(["weft-bench", "--weft", "/opt"]);
        for goal in ALL {
            let measure = measure::find(goal.measure).unwrap();
            let runs = measure.runs(&options, goal.over);
            let measured = runs.iter().any(|run| {
                run.points.contains(&goal.point) && goal.ranks.is_none_or(|ranks| run.ranks == ranks)
            });
            assert_eq!(goal.ranks.is_some(), measure.has_ranks(), "{}", goal.measure);
            assert!(measured, "{} at {}", goal.measure, goal.point);
            assert!(
                measure.is_over(goal.over == "own", false),
                "{} over {}",
                goal.measure,
                goal.over
            );
        }
    }

    #[test]
    fn a_ratio_is_to_the_best_peer_whichever_way_is_better() {
        assert_eq!(reached("latency", 8, 0.16, [0.2, 1.0]), Some(true));
        assert_eq!(reached("latency", 8, 0.17, [1.0, 0.2]), Some(false));
        assert_eq!(reached("rate", 8, 12.0, [10.0, 1.0]), Some(true));
        assert_eq!(reached("rate", 8, 11.0, [1.0, 10.0]), Some(false));
        let found = outcome("rate", "own", 8, [Some(11.0), Some(99.0), Some(1.0), Some(10.0)]);
        assert_eq!(found.title, "Message rate, 8 B, million/s");
        assert_eq!(
            (found.weft, found.best),
            (Some(11.0), Some(("Open MPI".into(), 10.0)))
        );
        assert_eq!((found.ratio, found.wanted.as_str()), (Some(1.1), "ratio ≥ 1.20"));
    }

    #[test]
    fn some_are_wanted_by_themselves() {
        assert_eq!(reached("idle", 10_000, 0.9, [0.1, 0.1]), Some(true));
        assert_eq!(reached("idle", 10_000, 1.0, [100.0, 100.0]), Some(false));
        assert_eq!(reached("pack", 0, 1.0, [0.5, 0.5]), Some(true));
        assert_eq!(reached("pack", 0, 1.1, [2.0, 2.0]), Some(false));
        assert_eq!(reached("startup", 8, 19.0, [20.0, 500.0]), Some(true));
        assert_eq!(reached("startup", 8, 19.0, [18.0, 500.0]), Some(false));
        assert_eq!(reached("startup", 8, 21.0, [100.0, 500.0]), Some(false));
        let wanted = |name, point| outcome(name, "own", point, [None; 4]).wanted;
        assert_eq!(wanted("idle", 10_000), "Weft < 1 %");
        assert_eq!(wanted("pack", 4), "Weft ≤ 1");
        assert_eq!(wanted("startup", 8), "Weft < 20 ms, ratio ≤ 1.00");
    }

    #[test]
    fn over_the_libfabric_of_its_peers_weft_is_the_second() {
        let found = outcome("latency", "net", 8, [Some(9.0), Some(4.0), Some(5.0), None]);
        assert_eq!(found.title, "One-way latency, 8 B, µs; Weft, 2.x");
        assert_eq!((found.weft, found.reached), (Some(4.0), Some(true)));
        let found = outcome(
            "bandwidth",
            "tcp;ofi_rxm",
            M,
            [Some(3.0), Some(9.0), Some(3.0), None],
        );
        assert_eq!((found.weft, found.reached), (Some(3.0), Some(false)));
    }

    #[test]
    fn a_number_that_is_missing_is_no_verdict() {
        let found = outcome("latency", "own", 8, [None, None, Some(0.2), None]);
        assert_eq!((found.ratio, found.reached), (None, None));
        let found = outcome("barrier", "own", 8, [Some(1.0), None, None, None]);
        assert_eq!((found.best, found.reached), (None, None));
    }
}
