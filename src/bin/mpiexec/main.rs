//! `mpiexec`: starts the ranks of a job on this machine, connects them by PMI-1, and makes sure that they all end.
//!
//! The steps of a job: [`cli`] reads the command line, [`hosts`], [`program`] and [`bind`] check it against this machine
//! ([`claims`] keeps jobs off each other's cores, [`picture`] draws what is bound), and [`job`] runs it: one loop over signals ([`process`] starts ranks, [`library`] has them find Weft's library), PMI lines ([`server`] answers them) and
//! output ([`output`] forwards it). [`outcome`] holds the rules of the exit status; a [`watchdog`] cleans up if the
//! launcher itself is killed, and [`leftovers`] are what killed ranks leave. `docs/launcher.md` is the reference.

mod bind;
mod claims;
mod cli;
mod hosts;
mod job;
mod leftovers;
mod library;
mod outcome;
mod output;
#[path = "../common/pages.rs"]
mod pages;
mod picture;
mod process;
mod program;
mod server;
mod watchdog;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use cli::{Plan, Request};
use outcome::Failure;

fn main() -> ExitCode {
    match cli::parse(std::env::args_os().skip(1)).and_then(|request| match request {
        Request::Run(plan) => run(&plan),
        Request::Print(text) => print(&text),
    }) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "mpiexec: {}", failure.message);
            ExitCode::from(failure.status)
        }
    }
}

/// The ranks don't do this: each of them would.
fn tell_of_misspelt_settings(plan: &Plan) {
    let own: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).collect();
    let of_apps = plan.apps.iter().flat_map(|app| &app.env).map(|(name, _)| name);
    let names = own.iter().chain(of_apps).filter_map(|name| name.to_str());
    for line in weft::tools::settings::misspelt(names) {
        let _ = writeln!(std::io::stderr(), "mpiexec: {line}");
    }
}

fn print(text: &str) -> Result<u8, Failure> {
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // A reader that goes away has read enough.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::launcher(format!(
            "standard output can't be written: {}",
            outcome::system_words(&error)
        ))),
        _ => Ok(0),
    }
}

fn run(plan: &Plan) -> Result<u8, Failure> {
    tell_of_misspelt_settings(plan);
    let hosts: Vec<String> = plan.apps.iter().flat_map(|app| app.hosts.clone()).collect();
    let slots = hosts::slots(&hosts)?;
    let programs = plan
        .apps
        .iter()
        .map(program::find)
        .collect::<Result<Vec<_>, _>>()?;
    let ranks: u32 = plan.apps.iter().map(|app| app.count).sum();
    // Held until the job has ended.
    let mut claims = claims::Claims::new();
    let cpus = bind::bindings(plan.bind, plan.map_by, ranks as usize, &mut claims)?;
    job::run(plan, &programs, &cpus, slots.unwrap_or(0).max(ranks))
}
