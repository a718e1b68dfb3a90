//! `weft-info`: what this Weft is, what would carry messages and why, and every setting with its value.
//!
//! [`report`] gathers the facts, [`ways`] derives what a job would use, and they are printed as [`text`] or as JSON. With `--hosts`,
//! [`hosts`] asks a [`host`] on each.

mod host;
#[path = "../common/host_file.rs"]
mod host_file;
#[path = "../common/host_list.rs"]
#[allow(dead_code, reason = "slots are of no interest here")]
mod host_list;
mod hosts;
#[path = "../common/pages.rs"]
mod pages;
mod report;
#[path = "../common/shell.rs"]
mod shell;
#[path = "../common/system_words.rs"]
mod system_words;
mod text;
mod ways;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use report::Report;

/// Prints what this Weft is, what would carry a job's messages and why nothing else, and every setting with its value.
#[derive(Parser)]
#[command(name = "weft-info", version)]
struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print only what can carry messages here: lanes, libfabric's providers, and why not
    #[arg(long)]
    transports: bool,
    /// Choose as for a job on several machines, not as for a job on this machine
    #[arg(long)]
    several_machines: bool,
    /// Print what would carry messages between these hosts, by asking weft-info on each of them: names with commas, or a file of them
    #[arg(long, value_name = "LIST|FILE")]
    hosts: Option<String>,
    /// With --hosts: the command that starts weft-info on a host, called with the host's name and a command for its shell
    #[arg(long, value_name = "COMMAND", default_value = "ssh", requires = "hosts")]
    launcher_exec: String,
    /// One host of --hosts
    #[arg(long, hide = true)]
    serve_hosts: bool,
    /// Print a manual page or a shell's completion
    #[arg(long, hide = true)]
    generate: Option<pages::Page>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(usable) => ExitCode::from(u8::from(!usable)),
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "weft-info: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the report. `false`: no provider can be used, or not between all hosts.
fn run(options: &Options) -> Result<bool, String> {
    if let Some(page) = options.generate {
        print(&pages::render(page, Options::command()))?;
        return Ok(true);
    }
    if options.serve_hosts {
        return host::serve().map(|()| true);
    }
    if let Some(hosts) = &options.hosts {
        let picture = hosts::Picture::gather(&hosts::names(hosts)?, &options.launcher_exec);
        print(&match options.json {
            true => json(&picture)?,
            false => picture.render(),
        })?;
        return Ok(picture.is_well());
    }
    let report = Report::gather(
        |name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
        !options.several_machines,
    )
    .map_err(|error| error.to_string())?;
    let text = match (options.json, options.transports) {
        (true, true) => json(&report.transports)?,
        (true, false) => json(&report)?,
        (false, true) => text::transports(&report.transports),
        (false, false) => text::render(&report),
    };
    for line in weft::tools::settings::misspelt_here() {
        let _ = writeln!(std::io::stderr(), "weft-info: {line}");
    }
    print(&text)?;
    Ok(report.transports.problem.is_none())
}

fn print(text: &str) -> Result<(), String> {
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // A reader that goes away has read enough.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("standard output can't be written: {error}"))
        }
        _ => Ok(()),
    }
}

fn json(facts: &impl serde::Serialize) -> Result<String, String> {
    let json = serde_json::to_string_pretty(facts).map_err(|error| error.to_string())?;
    Ok(json + "\n")
}
