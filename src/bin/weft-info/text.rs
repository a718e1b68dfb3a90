//! The report for people.

use std::fmt::Write;

use weft::tools::columns;

use super::report::{Provider, Report, SharedMemory, Transports};

/// The whole report.
pub fn render(report: &Report) -> String {
    let mut out = format!(
        "Weft {}: MPI {}, standard ABI {}, {}\n\n",
        report.weft,
        report.mpi,
        report.abi,
        libfabric(&report.transports),
    );
    choice(&mut out, &report.transports);
    providers(&mut out, &report.transports);

    let kinds = report.hardware.kinds.iter();
    let kinds: Vec<String> = kinds
        .map(|(uri, count)| format!("{count} {}", uri.trim_start_matches("hwloc://")))
        .collect();
    let told = match &report.hardware.problem {
        Some(problem) => format!("only machines are told apart. {problem}"),
        None => format!(
            "{}. MPI_Comm_split_type calls them hwloc://Package and so on.",
            kinds.join(", ")
        ),
    };
    line(&mut out, format_args!("\nHardware: {told}"));

    out.push_str("\nSettings\n");
    let mut rows = vec![["name", "value", "default", "from", "accepts"].map(String::from)];
    rows.extend(report.settings.iter().map(|one| {
        [
            one.name.to_string(),
            shown(&one.value),
            shown(one.default),
            one.origin.to_string(),
            one.accepts.clone(),
        ]
    }));
    table(&mut out, &rows);
    out.push('\n');
    for setting in &report.settings {
        line(&mut out, format_args!("  {}: {}", setting.name, setting.help));
    }
    out
}

/// What can carry messages, and why not.
pub fn transports(found: &Transports) -> String {
    let mut out = String::new();
    choice(&mut out, found);
    let shared = &found.shared_memory;
    let mut rows = vec![["lane", "provider", "interface", "used", "how, or why not"].map(String::from)];
    rows.push([
        "shm".into(),
        "-".into(),
        "-".into(),
        yes(shared.reason.is_none()),
        through_memory(shared),
    ]);
    if found.providers.is_empty() {
        let why = found.problem.clone();
        let why = why.unwrap_or_else(|| "libfabric offers no provider".into());
        rows.push(["ofi".into(), "-".into(), "-".into(), yes(false), why]);
    }
    for alike in by_reason(found) {
        let one = &alike[0];
        rows.push([
            "ofi".into(),
            one.name.clone(),
            places(alike),
            yes(one.is_used()),
            match (one.role(), &found.problem) {
                (role, None) => role,
                (_, Some(problem)) => problem.clone(),
            },
        ]);
    }
    out.push('\n');
    table(&mut out, &rows);
    out
}

fn libfabric(found: &Transports) -> String {
    match &found.libfabric {
        Some(version) => format!("libfabric {version}"),
        None => "no libfabric".to_string(),
    }
}

fn through_memory(shared: &SharedMemory) -> String {
    match (&shared.reason, shared.reads_memory) {
        (Some(reason), _) => reason.clone(),
        (None, true) => "between the ranks of one machine; it reads large messages from the sender".into(),
        (None, false) => "between the ranks of one machine; large messages are copied twice".into(),
    }
}

/// What a job uses, in a few lines.
fn choice(out: &mut String, found: &Transports) {
    let (uses, shared) = (&found.uses, &found.shared_memory);
    let how = match (&shared.reason, shared.reads_memory) {
        (Some(_), _) if uses.within_machine.lane.is_none() => String::new(),
        (Some(reason), _) => format!("; shared memory is not used: {reason}"),
        (None, true) => ", which reads large messages from the sender".into(),
        (None, false) => ", which copies large messages twice".into(),
    };
    let within = uses.within_machine.words();
    line(out, format_args!("Ranks of one machine use {within}{how}"));
    let between = uses.between_machines.words();
    line(out, format_args!("Ranks of different machines use {between}"));
    if let Some(filter) = &found.fi_provider {
        line(
            out,
            format_args!("FI_PROVIDER is '{filter}': libfabric shows no other provider"),
        );
    }
}

fn providers(out: &mut String, found: &Transports) {
    out.push_str("\nProviders that libfabric offers, in its order\n");
    let mut rows = vec![
        [
            "",
            "provider",
            "version",
            "interface",
            "reads memory",
            "in order",
            "used, or why not",
        ]
        .map(String::from),
    ];
    for alike in by_reason(found) {
        let one = &alike[0];
        rows.push([
            if one.is_used() { "*" } else { "" }.to_string(),
            one.name.clone(),
            one.version.clone(),
            places(alike),
            yes(one.rma),
            yes(one.ordered),
            match one.role() {
                // Printed once, above.
                _ if found.problem.is_some() => String::new(),
                role => role,
            },
        ]);
    }
    table(out, &rows);
}

/// Interfaces of one provider that share a use or a reason take one row; --json has each.
fn by_reason(found: &Transports) -> impl Iterator<Item = &[Provider]> {
    let alike = |a: &Provider, b: &Provider| a.name == b.name && a.role() == b.role();
    found.providers.chunk_by(alike)
}

/// The first one's interface, and how many more there are.
fn places(alike: &[Provider]) -> String {
    match alike.len() {
        1 => place(&alike[0]),
        number => format!("{} and {} more", place(&alike[0]), number - 1),
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = writeln!(out, "{text}");
}

fn place(provider: &Provider) -> String {
    match &provider.address {
        Some(address) => format!("{} ({address})", provider.interface),
        None => provider.interface.clone(),
    }
}

fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.to_string()
}

fn shown(value: &str) -> String {
    if value.is_empty() {
        "-".to_string()
    } else {
        value.to_string()
    }
}

/// Rows as columns.
fn table<const COLUMNS: usize>(out: &mut String, rows: &[[String; COLUMNS]]) {
    for row in columns(rows) {
        line(out, format_args!("{row}"));
    }
}
