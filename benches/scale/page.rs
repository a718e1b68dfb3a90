//! The page.

use std::fmt::Write;
use std::path::Path;

use weft::instance::selection::Operation;
use weft::objects::collective::model::{Cost, LogGp, algorithms};

use crate::{Case, MACHINES};

const HEAD: &str = "# How collective operations scale

`cargo bench --bench scale` writes this page and its plots (`ci/soak.d/scale` does that every now and then); nothing here was measured on a
network. Every algorithm runs as the same `async fn` that a program's call runs, but its messages go into a model of a machine
(`src/objects/collective/model`): LogGP, exact and the same each time. One rank is on each host, or 16
consecutive ones are (*16 a host*); all begin at the same time, and nobody else is on the network. A host takes one message at a time from the
network and sends one at a time to it. There is no rendezvous, and the
network itself is never full: on a real one, algorithms that send far and much at once lose more than here.

";

/// Writes `scale.md` into the folder.
pub fn write(cases: &[Case], docs: &Path) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(docs.join("plots"))?;
    let mut page = HEAD.to_string();
    machines(&mut page)?;
    for &operation in Operation::ALL {
        let of = cases.iter().filter(|case| case.call.operation == operation);
        section(&mut page, operation, &of.collect::<Vec<_>>())?;
    }
    std::fs::write(docs.join("scale.md"), page)?;
    Ok(())
}

fn machines(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "| machine | L | o | g | G | source |\n|---|---|---|---|---|---|"
    )?;
    for machine in MACHINES {
        let LogGp { l, o, g, big_g } = machine.network;
        let us = |ps: u64| ps as f64 / 1e6;
        let (l, o, g, big_g) = (us(l), us(o), us(g), big_g as f64 / 1e3);
        let (name, source) = (machine.name, machine.source);
        writeln!(
            page,
            "| {name} | {l} µs | {o} µs | {g} µs | {big_g} ns/byte | {source} |"
        )?;
    }
    let machine = MACHINES[0];
    let (combine, copy) = (machine.combine as f64 / 1e3, machine.copy as f64 / 1e3);
    writeln!(
        page,
        "\nTo combine a byte takes {combine} ns and to copy one {copy} ns. *Bound*: no algorithm can be faster; the larger of the time of the \
         optimal\nbroadcast of LogP (Karp and others, 1993) and of that in which the bytes that some rank has to send or receive pass its port\n\
         (Chan and others, 2007). *Bytes* are those of the message or operand, or of one rank's block (gather, scatter, allgather, alltoall,\n\
         reduce_scatter). Cases are left out in which the ranks together send more than 4 million messages, or where an algorithm can't be\n\
         used.\n"
    )
}

fn section(page: &mut String, operation: Operation, cases: &[&Case]) -> std::fmt::Result {
    let name = operation.name();
    writeln!(
        page,
        "## {name}\n\n![The time of {name} by the number of ranks](plots/scale-{name}.svg)\n"
    )?;
    writeln!(page, "What the table chooses, beside the best in the model:\n")?;
    writeln!(
        page,
        "| machine | ranks | bytes | chosen | time | best | time | chosen ÷ best | bound | chosen ÷ bound |\n\
         |---|--:|--:|---|--:|---|--:|--:|--:|--:|"
    )?;
    for case in cases {
        let Some((best, cost)) = case.best() else { continue };
        let (machine, length) = (case.machine.name, bytes(case.length));
        let ranks = match case.call.per_host {
            1 => case.call.ranks.to_string(),
            many => format!("{} ({many} a host)", case.call.ranks),
        };
        // That of one rank on each host does not hold for more.
        let bounded = |text: String| {
            if case.call.per_host == 1 {
                text
            } else {
                String::new()
            }
        };
        let bound = case.bound;
        let (chosen, taken, ratio, above) = match case.chosen {
            Some(Cost { choice, time, .. }) => (
                choice.map_or_else(String::new, |choice| choice.to_string()),
                us(time),
                format!("{:.2}", time as f64 / cost.time as f64),
                bounded(format!("{:.2}", time as f64 / bound as f64)),
            ),
            None => (
                "(too many messages)".into(),
                String::new(),
                String::new(),
                String::new(),
            ),
        };
        let (best_time, bound) = (us(cost.time), bounded(us(bound)));
        writeln!(
            page,
            "| {machine} | {ranks} | {length} | {chosen} | {taken} | {best} | {best_time} | {ratio} | {bound} | {above} |"
        )?;
    }
    details(page, operation, cases)
}

/// What each algorithm does on 1000 ranks.
fn details(page: &mut String, operation: Operation, cases: &[&Case]) -> std::fmt::Result {
    let cases: Vec<&Case> = cases
        .iter()
        .copied()
        .filter(|case| case.call.per_host == 1)
        .collect();
    let most = cases
        .iter()
        .map(|case| case.call.ranks)
        .filter(|&ranks| ranks <= 1000)
        .max();
    let Some(ranks) = most else { return Ok(()) };
    writeln!(
        page,
        "\nEach algorithm on {ranks} ranks; of messages, bytes, temporary memory and peers that of the rank with the most:\n\n\
         | bytes | algorithm | {} | {} | rounds | messages sent | bytes sent | memory | peers |\n|--:|---|--:|--:|--:|--:|--:|--:|--:|",
        MACHINES[0].name, MACHINES[1].name
    )?;
    let here = |case: &&&Case| case.call.ranks == ranks;
    let lengths: Vec<u64> = cases
        .iter()
        .filter(here)
        .filter(|case| case.machine.name == MACHINES[0].name)
        .map(|case| case.length)
        .collect();
    for length in lengths {
        for (at, algorithm) in algorithms(operation).iter().enumerate() {
            let on = |name: &str| {
                let found = cases
                    .iter()
                    .filter(here)
                    .find(|case| case.length == length && case.machine.name == name);
                found.and_then(|case| case.each[at])
            };
            let times = MACHINES.map(|machine| on(machine.name).map_or("–".into(), |cost| us(cost.time)));
            let Some(cost) = on(MACHINES[0].name) else {
                continue;
            };
            writeln!(
                page,
                "| {} | {algorithm} | {} | {} | {} | {} | {} | {} | {} |",
                bytes(length),
                times[0],
                times[1],
                cost.rounds,
                cost.messages,
                bytes(cost.bytes),
                bytes(cost.memory),
                cost.peers
            )?;
        }
    }
    writeln!(page)
}

/// A time, to three digits.
fn us(ps: u64) -> String {
    let us = ps as f64 / 1e6;
    match us {
        ..10.0 => format!("{us:.2} µs"),
        ..100.0 => format!("{us:.1} µs"),
        ..10_000.0 => format!("{us:.0} µs"),
        ..100_000.0 => format!("{:.1} ms", us / 1e3),
        _ => format!("{:.0} ms", us / 1e3),
    }
}

fn bytes(bytes: u64) -> String {
    match bytes {
        ..10_000 if !(bytes >= 1024 && bytes.is_multiple_of(1024)) => format!("{bytes}"),
        ..10_240_000 => format!("{:.0} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.0} MiB", bytes as f64 / 1_048_576.0),
    }
}
