//! `--tune`: measures the algorithms of collective operations on this machine, and writes the table of those that were fastest: what the
//! setting `WEFT_COLLECTIVES` reads (docs/collectives.md).
//!
//! Each algorithm is named by a table of one line, which leaves Weft no choice; where it can't be used, Weft's own choice is measured once
//! more. The lines are for the number of ranks that was measured; files of several numbers of ranks can be put one behind the other.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::job;
use crate::library::Library;
use crate::options::Options;

/// An operation as the program `collective` and as tables name it, and its algorithms.
struct Operation {
    name: &'static str,
    algorithms: &'static [&'static str],
}

const OPERATIONS: [Operation; 6] = [
    Operation {
        name: "barrier",
        algorithms: &[
            "flat",
            "dissemination",
            "dissemination radix=4",
            "dissemination radix=8",
        ],
    },
    Operation {
        name: "bcast",
        algorithms: &[
            "flat",
            "tree",
            "tree radix=4",
            "chain",
            "chain radix=2 piece=16K",
            "scatter-doubling",
            "scatter-ring",
        ],
    },
    Operation {
        name: "reduce",
        algorithms: &["flat", "tree", "tree radix=4", "chain", "halving"],
    },
    Operation {
        name: "allreduce",
        algorithms: &["flat", "doubling", "doubling radix=4", "halving", "ring", "root"],
    },
    Operation {
        name: "allgather",
        algorithms: &["doubling", "bruck", "ring", "neighbours"],
    },
    Operation {
        name: "alltoall",
        algorithms: &["bruck", "bruck radix=4", "direct window=1", "direct"],
    },
];

/// Where `--sizes` names none.
const SIZES: [u64; 6] = [8, 256, 4 << 10, 32 << 10, 256 << 10, 2 << 20];
/// What is not this much faster than Weft's own choice, as a part of it, gets no line: it may be chance.
const GAIN: f64 = 0.95;

/// Microseconds by size.
type Times = BTreeMap<u64, f64>;

/// Measures and writes.
///
/// # Errors
/// Weft is not there or does not run, no operation could be measured, or the file can't be written.
pub fn tune(options: &Options, file: &Path) -> Result<(), String> {
    job::adopt()?;
    let folder = tempfile::tempdir().map_err(|error| format!("cannot make a temporary folder: {error}"))?;
    let libraries = Library::open_all(options, folder.path())?;
    let weft = &libraries[0];
    let over = options.over.first().map_or("own", String::as_str);
    let sizes = match options.sizes.is_empty() {
        true => SIZES.to_vec(),
        false => options.sizes.clone(),
    };
    let mut text = format!(
        "# The fastest algorithms of {} ranks over {over}, as weft-bench --tune measured them. Lines of other numbers of ranks may follow.\n",
        options.ranks
    );
    let mut measured = false;
    for operation in &OPERATIONS {
        let measure = |line: &str| {
            let table = folder.path().join("table");
            fs::write(&table, line).map_err(|error| format!("cannot write {}: {error}", table.display()))?;
            let times = times(options, weft, operation.name, &sizes, over, &table);
            eprintln!(
                "weft-bench: {}: {}",
                if line.is_empty() { operation.name } else { line },
                times.as_ref().map_or_else(|why| why.clone(), words)
            );
            Ok::<_, String>(times.unwrap_or_default())
        };
        let own = measure("")?;
        let mut each = Vec::new();
        for algorithm in operation.algorithms {
            let line = format!("{} -> {algorithm}", operation.name);
            each.push((*algorithm, measure(&line)?));
        }
        measured |= !own.is_empty();
        text += &lines(operation.name, options.ranks, &own, &each);
    }
    if !measured {
        return Err("no collective operation could be measured".into());
    }
    fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    eprintln!("weft-bench: {} is for WEFT_COLLECTIVES", file.display());
    Ok(())
}

fn words(times: &Times) -> String {
    let each = times.iter().map(|(size, us)| format!("{size}: {us:.2} µs"));
    each.collect::<Vec<_>>().join(", ")
}

/// The best of the rounds, by size. For a barrier the size is 0.
fn times(
    options: &Options,
    weft: &Library,
    operation: &str,
    sizes: &[u64],
    over: &str,
    table: &Path,
) -> Result<Times, String> {
    let is_barrier = operation == "barrier";
    let mut arguments = vec![operation.to_string(), options.milliseconds.to_string()];
    if !is_barrier {
        arguments.extend(sizes.iter().map(u64::to_string));
    }
    let mut best = Times::new();
    for _ in 0..options.rounds.unwrap_or(3) {
        let job = weft.run("collective", &arguments, options.ranks, over);
        let mut job = job.ok_or_else(|| format!("it has no setting for {over}"))?;
        job.environment.push(("WEFT_COLLECTIVES", table.into()));
        let printed = job.run().map_err(|failure| failure.to_string())?;
        for line in printed.lines() {
            let Some((size, us)) = parse(line) else { continue };
            let size = if is_barrier { 0 } else { size };
            let least = best.entry(size).or_insert(f64::MAX);
            *least = least.min(us);
        }
    }
    match best.is_empty() {
        true => Err("it printed no times".into()),
        false => Ok(best),
    }
}

/// `collective SIZE MICROSECONDS`, and perhaps more.
fn parse(line: &str) -> Option<(u64, f64)> {
    let mut words = line.strip_prefix("collective ")?.split_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// The lines of an operation: for each size the fastest algorithm, from that size to the next one that was measured.
fn lines(operation: &str, ranks: u32, own: &Times, each: &[(&str, Times)]) -> String {
    let mut found: Vec<(u64, Option<&str>)> = Vec::new();
    for (&size, &us) in own {
        let known = each
            .iter()
            .filter_map(|(name, times)| Some((*name, *times.get(&size)?)));
        let best = known.min_by(|(_, one), (_, other)| one.total_cmp(other));
        let name = best.filter(|(_, time)| *time < GAIN * us).map(|(name, _)| name);
        if found.last().is_none_or(|(_, last)| *last != name) {
            found.push((size, name));
        }
    }
    // The table counts all blocks of an allgather.
    let factor = if operation == "allgather" {
        u64::from(ranks)
    } else {
        1
    };
    let mut text = String::new();
    for (at, (from, name)) in found.iter().enumerate() {
        let Some(name) = name else { continue };
        let first = if at == 0 { 0 } else { from * factor };
        let bytes = match found.get(at + 1) {
            Some((next, _)) => format!(" bytes={first}..{}", next * factor - 1),
            None if first == 0 => String::new(),
            None => format!(" bytes={first}.."),
        };
        text += &format!("{operation} ranks={ranks}{bytes} -> {name}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(of: &[(u64, f64)]) -> Times {
        of.iter().copied().collect()
    }

    #[test]
    fn sizes_with_the_same_algorithm_are_one_line() {
        let own = times(&[(8, 10.0), (64, 10.0), (512, 10.0), (4096, 10.0)]);
        let each = [
            ("ring", times(&[(8, 9.0), (64, 8.0), (512, 9.9), (4096, 20.0)])),
            ("tree", times(&[(8, 20.0), (64, 8.5), (512, 20.0), (4096, 5.0)])),
        ];
        assert_eq!(
            lines("bcast", 4, &own, &each),
            "bcast ranks=4 bytes=0..511 -> ring\nbcast ranks=4 bytes=4096.. -> tree\n"
        );
        assert_eq!(
            lines("allgather", 4, &own, &each),
            "allgather ranks=4 bytes=0..2047 -> ring\nallgather ranks=4 bytes=16384.. -> tree\n"
        );
        assert_eq!(
            lines("barrier", 4, &times(&[(0, 2.0)]), &[("flat", times(&[(0, 1.0)]))]),
            "barrier ranks=4 -> flat\n"
        );
        assert_eq!(lines("barrier", 4, &own, &[]), "");
    }

    #[test]
    fn lines_of_the_program_have_a_size_and_a_time() {
        assert_eq!(parse("collective 8 1.25"), Some((8, 1.25)));
        assert_eq!(parse("collective 8 1.25 1.5"), Some((8, 1.25)));
        assert_eq!(parse("collective unsupported MPI_Bcast"), None);
        assert_eq!(parse("latency 8 1.25"), None);
    }
}
