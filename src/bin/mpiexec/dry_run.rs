//! `--dry-run`: what would be run, where and by which commands.

use std::fmt::Write;

use nix::sched::CpuSet;
use weft::tools::locality::Processors;

use crate::cli::{App, Inherits, Plan};
use crate::launch;
use crate::outcome::{Failure, rank_list};
use crate::picture::Picture;
use crate::placement::{Launcher, Placement};
use crate::program::Program;
use crate::shell::quoted;

/// The plan in words. `programs` and `cpus` are for the ranks on this machine, as far as there are some.
pub fn text(
    plan: &Plan,
    placement: &Placement,
    programs: &[Option<Program>],
    cpus: &[Option<CpuSet>],
) -> Result<String, Failure> {
    let mut text = String::new();
    let several = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let ranks_of = |host: usize| -> Vec<usize> {
        let all = placement.of_rank.iter().enumerate();
        all.filter(|(_, of)| **of == host).map(|(rank, _)| rank).collect()
    };
    let mut line = |words: String| text.push_str(&(words + "\n"));
    line(format!(
        "{} on {}, universe size {}",
        several(placement.of_rank.len(), "rank"),
        several(placement.hosts.len(), "host"),
        placement.universe_size
    ));
    for (number, host) in placement.hosts.iter().enumerate() {
        let this = if host.is_this { " (this machine)" } else { "" };
        let slots = several(host.slots as usize, "slot");
        line(format!(
            "host {}{this}, {slots}: {}",
            host.name,
            rank_list(&ranks_of(number))
        ));
    }
    let mut first = 0;
    for (app, program) in plan.apps.iter().zip(programs) {
        let ranks: Vec<usize> = (first..first + app.count as usize).collect();
        first += app.count as usize;
        line(describe(app, program.as_ref(), &ranks)?);
    }
    let picture = Picture::of_this_machine();
    let here: Vec<usize> = (placement.of_rank.iter().enumerate())
        .filter(|(_, host)| placement.hosts[**host].is_this)
        .map(|(rank, _)| rank)
        .collect();
    match cpus.iter().all(Option::is_none) {
        true if here.is_empty() => {}
        true => line(format!("{}: not bound", rank_list(&here))),
        false => {
            for (&rank, cpus) in here.iter().zip(cpus) {
                let meant = cpus.as_ref().map(Processors::from);
                let bound = meant.clone().unwrap_or_else(|| Processors::of_thread(0));
                line(picture.line(rank, &bound, meant.as_ref()));
            }
        }
    }
    let others: Vec<(usize, &str)> = (placement.hosts.iter().enumerate())
        .filter(|(_, host)| !host.is_this)
        .map(|(number, host)| (number, host.name.as_str()))
        .collect();
    if !others.is_empty() {
        line("on other hosts ranks are bound by the same rule to what is there".to_string());
        for command in launch::commands(&placement.launcher, plan.launcher_exec.as_deref(), &others)? {
            line(format!("command: {}", command.text()));
        }
        if launch::needs_port(&placement.launcher) {
            let engine = if placement.launcher == Launcher::Slurm {
                "srun"
            } else {
                "prterun"
            };
            line(format!("agents of {engine} connect to a port of this mpiexec"));
        }
    }
    Ok(text)
}

/// A program with its arguments, directory and changes to the environment.
fn describe(app: &App, program: Option<&Program>, ranks: &[usize]) -> Result<String, Failure> {
    let words: Vec<String> = (std::iter::once(&app.program).chain(&app.args))
        .map(|word| quoted(word).display().to_string())
        .collect();
    let directory = match (program, &app.wdir) {
        (Some(program), _) => program.wdir.clone(),
        (None, wdir) => {
            let here = std::env::current_dir().map_err(|error| {
                Failure::launcher(format!("the current directory can't be read: {error}"))
            })?;
            wdir.as_ref().map_or(here.clone(), |wdir| here.join(wdir))
        }
    };
    let mut text = format!(
        "{}: {}\n  in {}",
        rank_list(ranks),
        words.join(" "),
        directory.display()
    );
    // Writing to a String does not fail.
    if let Some(program) = program {
        let _ = write!(text, "\n  program file {}", program.path.display());
    }
    if let Inherits::Only(names) = &app.inherits {
        let names: Vec<String> = names.iter().map(|name| name.display().to_string()).collect();
        let names = if names.is_empty() {
            "nothing".into()
        } else {
            names.join(", ")
        };
        let _ = write!(text, "\n  of the environment: {names}");
    }
    for (name, value) in &app.env {
        let _ = write!(text, "\n  {}={}", name.display(), value.display());
    }
    Ok(text)
}
