//! `mpiexec`: starts the ranks of a job on this machine, connects them by PMI-1, and sees that they all end.
//!
//! The way of a job: [`cli`] reads the command line, [`hosts`], [`program`] and [`bind`] check it against this machine,
//! ([`picture`] draws what it binds), and [`job`] runs it: one loop over signals ([`process`] starts ranks), PMI lines ([`server`] answers them) and
//! output ([`output`] forwards it). [`outcome`] holds the rules of the exit status; a [`keeper`] cleans up if the
//! launcher itself is killed, and [`leftovers`] are what killed ranks leave. `docs/launcher.md` is the reference.

mod bind;
mod cli;
mod hosts;
mod job;
mod keeper;
mod leftovers;
mod outcome;
mod output;
mod picture;
mod process;
mod program;
mod server;

use std::io::Write;
use std::process::ExitCode;

use cli::{Plan, Request};
use outcome::Failure;

fn main() -> ExitCode {
    match cli::parse(std::env::args_os().skip(1)).and_then(|request| match request {
        Request::Run(plan) => run(&plan),
        Request::Print(text) => {
            // A reader that goes away has read enough.
            let _ = std::io::stdout().write_all(text.as_bytes());
            Ok(0)
        }
    }) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "mpiexec: {}", failure.message);
            ExitCode::from(failure.status)
        }
    }
}

fn run(plan: &Plan) -> Result<u8, Failure> {
    let hosts: Vec<String> = plan.apps.iter().flat_map(|app| app.hosts.clone()).collect();
    let slots = hosts::slots(&hosts)?;
    let programs = plan
        .apps
        .iter()
        .map(program::find)
        .collect::<Result<Vec<_>, _>>()?;
    let ranks: u32 = plan.apps.iter().map(|app| app.count).sum();
    let cpus = bind::bindings(plan.bind, plan.map_by, ranks as usize)?;
    job::run(plan, &programs, &cpus, slots.unwrap_or(0).max(ranks))
}
