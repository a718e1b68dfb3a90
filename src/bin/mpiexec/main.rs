//! `mpiexec`: starts the ranks of a job on this machine, connects them by PMI-1, and makes sure that they all end.
//!
//! The steps of a job: [`cli`] reads the command line, [`placement`] chooses hosts for the ranks ([`dry_run`] shows them), [`program`] and [`bind`] check
//! it against this machine ([`claims`] keeps jobs off each other's cores, [`picture`] draws what is bound), and [`head`] runs it: it
//! answers PMI lines ([`server`]), forwards output ([`output`], [`output_files`]) and decides when and how the job ends ([`outcome`] holds the rules of the
//! exit status). An [`agent`] on each machine starts ranks ([`process`]; [`library`] has them find Weft's library) and
//! watches them; [`launch`] starts those of other machines, and [`wire`] has what head and agents tell each other.
//! [`spawn`] has what jobs need that ranks start, and [`names`] the services that ranks publish. A
//! [`watchdog`] cleans up if head or agent is killed, and [`leftovers`] are what killed ranks leave. `docs/launcher.md` is the
//! reference.

mod agent;
mod bind;
mod claims;
mod cli;
mod dry_run;
mod events;
mod head;
#[path = "../common/host_file.rs"]
mod host_file;
#[path = "../common/host_list.rs"]
mod host_list;
mod launch;
mod leftovers;
mod library;
mod names;
mod outcome;
mod output;
mod output_files;
#[path = "../common/pages.rs"]
mod pages;
mod picture;
mod placement;
mod process;
mod program;
mod server;
#[path = "../common/shell.rs"]
mod shell;
mod spawn;
#[path = "../common/system_words.rs"]
mod system_words;
mod watchdog;
mod wire;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use cli::{Plan, Request};
use head::Origin;
use outcome::Failure;
use weft::tools::own_head::OPTION as OWN_HEAD_OPTION;

fn main() -> ExitCode {
    // Another `mpiexec` has started this one; see `launch` and `spawn`.
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(word) if word == launch::AGENT_OPTION => return ExitCode::from(agent::remote::run()),
        Some(word) if word == spawn::OPTION => {
            let descriptor = words.next();
            let descriptor = descriptor.as_ref().and_then(|word| word.to_str());
            return ExitCode::from(spawn::start::run(descriptor));
        }
        Some(word) if word == OWN_HEAD_OPTION => {
            let descriptor = words.next();
            let descriptor = descriptor.as_ref().and_then(|word| word.to_str());
            return ExitCode::from(spawn::adopt::run(descriptor));
        }
        _ => {}
    }
    match cli::parse(std::env::args_os().skip(1)).and_then(|request| match request {
        Request::Run(plan) => run(*plan),
        Request::Print(text) => print(&text),
        Request::KeepNames(interface) => names::service::serve(
            interface
                .as_ref()
                .and_then(|name| name.to_str())
                .filter(|name| !name.is_empty()),
        ),
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

fn run(mut plan: Plan) -> Result<u8, Failure> {
    tell_of_misspelt_settings(&plan);
    let placement = placement::place(&mut plan)?;
    let is_here = |rank: usize| placement.hosts[placement.of_rank[rank]].is_this;
    let mut programs = Vec::new();
    let (mut first, mut here) = (0, 0);
    for app in &plan.apps {
        let ranks = first..first + app.count as usize;
        first = ranks.end;
        let own = ranks.filter(|&rank| is_here(rank)).count();
        here += own;
        programs.push((own > 0).then(|| program::find(app)).transpose()?);
    }
    // Held until the job has ended.
    let mut claims = claims::Claims::new();
    let cpus = bind::bindings(plan.bind, plan.map_by, here, &mut claims)?;
    if plan.dry_run {
        return print(&dry_run::text(&plan, &placement, &programs, &cpus)?);
    }
    head::run(&plan, &placement, &programs, &cpus, Origin::User)
}
