//! The lines of a table.

use super::{ANY, Algorithm, Bounds, Choice, Line, Operation, Traits};
use crate::base::settings::number;

/// The algorithms of an operation, each with the parameters that it has.
fn algorithms(operation: Operation) -> &'static [(Algorithm, &'static [&'static str])] {
    use Algorithm::*;
    match operation {
        Operation::Barrier => &[(Levels, &[]), (Flat, &[]), (Dissemination, &["radix"])],
        Operation::Bcast => &[
            (Levels, &[]),
            (ChainOfHosts, &["pieces", "piece"]),
            (Flat, &[]),
            (Tree, &["radix"]),
            (Chain, &["radix", "piece"]),
            (ScatterDoubling, &[]),
            (ScatterRing, &[]),
        ],
        Operation::Gather | Operation::Scatter => &[(Tree, &["radix"]), (Direct, &[])],
        Operation::Allgather => &[(Doubling, &[]), (Bruck, &[]), (Ring, &[]), (Neighbours, &[])],
        Operation::Alltoall => &[(Bruck, &["radix"]), (Direct, &["window"])],
        Operation::Reduce => &[
            (Levels, &[]),
            (Flat, &[]),
            (Tree, &["radix"]),
            (Chain, &["piece"]),
            (Halving, &[]),
        ],
        Operation::Allreduce => &[
            (Levels, &[]),
            (Flat, &[]),
            (Doubling, &["radix"]),
            (Halving, &[]),
            (Ring, &[]),
            (Root, &[]),
        ],
        Operation::ReduceScatter => &[(Direct, &[]), (Halving, &[]), (Root, &[])],
    }
}

/// The largest radix: more messages at a time than a window has places are no gain.
const RADIX_MAX: u64 = 64;
/// The most exchanges at once.
const WINDOW_MAX: u64 = 4096;

/// Reads a line; `None`: it is empty, or a comment. An error is what was expected.
pub(super) fn line(text: &str) -> Result<Option<(Operation, Line)>, String> {
    let text = text.split('#').next().unwrap_or_default().trim();
    if text.is_empty() {
        return Ok(None);
    }
    let (left, right) = text
        .split_once("->")
        .ok_or("expected 'operation conditions -> algorithm parameters'")?;
    let mut words = left.split_whitespace();
    let name = words.next().unwrap_or_default();
    let operation = *Operation::ALL
        .iter()
        .find(|operation| operation.name() == name)
        .ok_or_else(|| {
            expected(
                name,
                "an operation",
                Operation::ALL.iter().map(|each| each.name()),
            )
        })?;
    let mut line = Line {
        bytes: ANY,
        block: ANY,
        ranks: Bounds(0, u32::MAX),
        hosts: Bounds(0, u32::MAX),
        looks_at: 0,
        wants: 0,
        choice: choice(operation, right)?,
    };
    for word in words {
        condition(&mut line, word)?;
    }
    Ok(Some((operation, line)))
}

fn condition(line: &mut Line, word: &str) -> Result<(), String> {
    if let Some((name, value)) = word.split_once('=') {
        let narrow = |Bounds(first, last)| {
            let narrow = |bound: u64| u32::try_from(bound).unwrap_or(u32::MAX);
            Bounds(narrow(first), narrow(last))
        };
        match name {
            "bytes" => line.bytes = bounds(value)?,
            "block" => line.block = bounds(value)?,
            "ranks" => line.ranks = narrow(bounds(value)?),
            "hosts" => line.hosts = narrow(bounds(value)?),
            _ => {
                return Err(expected(name, "a condition", NUMBERS.iter().copied()));
            }
        }
        return Ok(());
    }
    let (name, wanted) = match word.strip_prefix('!') {
        Some(name) => (name, false),
        None => (word, true),
    };
    let names = || Traits::NAMES.iter().map(|(name, _)| *name);
    let (_, Traits(bit)) = Traits::NAMES
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| expected(word, "a condition", NUMBERS.iter().copied().chain(names())))?;
    line.looks_at |= bit;
    line.wants = line.wants & !bit | if wanted { *bit } else { 0 };
    Ok(())
}

/// Conditions with a range.
const NUMBERS: [&str; 4] = ["bytes=", "block=", "ranks=", "hosts="];

/// `4`, `4..`, `..8K`, `4..8K`.
fn bounds(text: &str) -> Result<Bounds<u64>, String> {
    let bound = |text: &str, default| match text {
        "" => Some(default),
        _ => number(text),
    };
    let bounds = match text.split_once("..") {
        Some((first, last)) => bound(first, 0).zip(bound(last, u64::MAX)),
        None => number(text).map(|only| (only, only)),
    };
    bounds
        .filter(|(first, last)| first <= last)
        .map(|(first, last)| Bounds(first, last))
        .ok_or_else(|| {
            format!("'{text}' is no range: expected first..last, first.., ..last or one number (suffixes K, M and G are understood)")
        })
}

fn choice(operation: Operation, text: &str) -> Result<Choice, String> {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or_default();
    let known = algorithms(operation);
    let (algorithm, parameters) = known
        .iter()
        .find(|(algorithm, _)| algorithm.name() == name)
        .ok_or_else(|| {
            let what = format!("an algorithm of {}", operation.name());
            expected(name, &what, known.iter().map(|(algorithm, _)| algorithm.name()))
        })?;
    let mut choice = Choice::of(*algorithm);
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        if !parameters.contains(&name) {
            let what = format!("a parameter of {}", algorithm.name());
            return Err(match parameters {
                [] => format!("'{word}': {} has no parameters", algorithm.name()),
                _ => expected(word, &what, parameters.iter().copied()),
            });
        }
        let within = |min: u64, max: u64| {
            number(value)
                .filter(|number| (min..=max).contains(number))
                .ok_or_else(|| format!("'{word}': expected a number from {min} to {max}"))
        };
        match name {
            "radix" if *algorithm == Algorithm::Chain => choice.radix = within(1, RADIX_MAX)? as u32,
            "radix" if (operation, *algorithm) == (Operation::Allreduce, Algorithm::Doubling) => {
                choice.radix = within(2, 16)? as u32;
                if !choice.radix.is_power_of_two() {
                    return Err(format!("'{word}': expected 2, 4, 8 or 16"));
                }
            }
            "radix" => choice.radix = within(2, RADIX_MAX)? as u32,
            "window" => choice.window = within(1, WINDOW_MAX)? as u32,
            "pieces" => choice.pieces = within(1, u32::MAX.into())? as u32,
            _ => choice.piece = within(1, u64::MAX)?,
        }
    }
    Ok(choice)
}

fn expected<'a>(word: &str, what: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    format!("'{word}' is not {what}: expected one of {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_line_says_what_was_expected() {
        for (text, says) in [
            ("allreduce", "expected 'operation conditions -> algorithm"),
            (
                "-> ring",
                "'' is not an operation: expected one of barrier, bcast",
            ),
            ("allredcue -> ring", "'allredcue' is not an operation"),
            (
                "allreduce ->",
                "'' is not an algorithm of allreduce: expected one of levels, flat",
            ),
            ("allreduce -> bruck", "'bruck' is not an algorithm of allreduce"),
            (
                "allreduce size=3 -> ring",
                "'size' is not a condition: expected one of bytes=, block=, ranks=",
            ),
            ("allreduce odd -> ring", "'odd' is not a condition"),
            ("allreduce bytes=9..8 -> ring", "'9..8' is no range"),
            ("allreduce bytes=.. 8 -> ring", "'8' is not a condition"),
            ("allreduce bytes= -> ring", "'' is no range"),
            ("allreduce ranks=-1 -> ring", "'-1' is no range"),
            ("allreduce bytes=99999999999G -> ring", "is no range"),
            ("allreduce -> ring radix=3", "'radix=3': ring has no parameters"),
            ("allreduce -> doubling radix=3", "expected 2, 4, 8 or 16"),
            ("bcast -> tree radix=1", "expected a number from 2 to 64"),
            ("bcast -> tree radix", "expected a number from 2 to 64"),
            (
                "bcast -> tree piece=3",
                "'piece=3' is not a parameter of tree: expected one of radix",
            ),
            ("bcast -> chain piece=0", "expected a number from 1 to"),
        ] {
            let error = line(text).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_line_is_read_whole() {
        let text = "  bcast ranks=3.. bytes=1K..2M hosts=1 power2 !crowded -> chain radix=2 piece=32K # why";
        let (operation, line) = line(text).expect("a good line").expect("not empty");
        assert_eq!(operation, Operation::Bcast);
        assert_eq!(line.ranks, Bounds(3, u32::MAX));
        assert_eq!(line.bytes, Bounds(1 << 10, 2 << 20));
        assert_eq!(line.hosts, Bounds(1, 1));
        assert_eq!(line.wants, Traits::POWER2.0);
        assert_eq!(line.looks_at, Traits::POWER2.and(Traits::CROWDED).0);
        let choice = Choice {
            radix: 2,
            piece: 32 << 10,
            ..Choice::of(Algorithm::Chain)
        };
        assert_eq!(line.choice, choice);
    }

    #[test]
    fn what_a_choice_displays_is_read_as_the_same() {
        for &operation in Operation::ALL {
            for (algorithm, parameters) in algorithms(operation) {
                let mut choice = Choice::of(*algorithm);
                assert_eq!(super::choice(operation, &choice.to_string()), Ok(choice));
                for parameter in *parameters {
                    match *parameter {
                        "radix" => choice.radix = 8,
                        "window" => choice.window = 1,
                        "pieces" => choice.pieces = 5,
                        _ => choice.piece = 1000,
                    }
                }
                assert_eq!(super::choice(operation, &choice.to_string()), Ok(choice));
            }
        }
    }
}
