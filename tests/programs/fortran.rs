//! Fortran programs (`tests/fortran`) on the three interfaces, and all procedures that there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Failed, Trial};
use weft_fortran_generator::calls::{self, Interface};

use crate::Outcome;
use crate::build;
use crate::job::{Job, repeat};
use crate::matrix::{common, full};

const SHM: &str = "WEFT_LANES=shm";

/// The interfaces, as a program that is for all of them is compiled (`tests/fortran/interface.h`).
const INTERFACES: [(&str, Interface); 3] = [
    ("F08", Interface::F08),
    ("MPI", Interface::Mpi),
    ("MPIF", Interface::Include),
];

/// The tests.
pub fn trials() -> Vec<Trial> {
    if !build::has_fortran() {
        eprintln!(
            "programs: Fortran is left out: there is no {} here",
            build::fortran_compiler()
        );
        return Vec::new();
    }
    let mut trials = vec![Trial::test(
        "fortran::other_kinds_of_handles_do_not_compile",
        wrong_handles,
    )];
    for (name, interface) in INTERFACES {
        trials.push(Trial::test(
            format!("fortran::all_procedures::{name}"),
            move || all_procedures(name, interface),
        ));
        for &(program, ranks) in PROGRAMS {
            trials.push(Trial::test(format!("fortran::{program}::{name}"), move || {
                run(program, name, ranks)
            }));
        }
        trials.push(Trial::test(format!("fortran::abort::{name}"), move || {
            aborts(name)
        }));
        trials.push(Trial::test(format!("fortran::profilers::{name}"), move || {
            profiled(name)
        }));
    }
    trials
}

/// Every procedure of the table compiles and links.
fn all_procedures(name: &str, interface: Interface) -> Outcome {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("all.f90");
    let text = calls::program(interface);
    fs::write(&source, &text)?;
    let program = build::fortran("all", &[&source], name, &[])?;
    let output = Command::new(program).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let calls = text.matches("\nsubroutine call_").count();
    match output.status.success() && calls > 800 && said.trim() == calls.to_string() {
        true => Ok(()),
        false => Err(format!("{calls} calls: {output:?}").into()),
    }
}

/// gfortran ends after 25 errors unless it is told not to.
fn errors_without_end() -> &'static [&'static str] {
    match build::fortran_compiler().contains("gfortran") {
        true => &["-fsyntax-only", "-fmax-errors=0"],
        false => &["-fsyntax-only"],
    }
}

/// In each of many calls the compiler finds the one handle that is of another kind.
fn wrong_handles() -> Outcome {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("wrong.f90");
    let (text, wrongs) = calls::wrong_handles();
    fs::write(&source, text)?;
    let output = Command::new(build::fortran_compiler())
        .arg(format!("-I{}", build::fortran_modules()?.display()))
        .args(errors_without_end())
        .arg(&source)
        .current_dir(folder.path())
        .output()?;
    // gfortran's form: a line FILE:LINE:COLUMN: in front of each error.
    let said = String::from_utf8_lossy(&output.stderr);
    let prefix = format!("{}:", source.display());
    let lines: BTreeSet<usize> = said
        .lines()
        .filter_map(|line| line.strip_prefix(&prefix)?.split(':').next()?.parse().ok())
        .collect();
    let accepted: Vec<_> = wrongs
        .iter()
        .filter(|(_, begin, end)| lines.range(*begin..*end).next().is_none())
        .map(|(what, ..)| what.as_str())
        .collect();
    match wrongs.len() > 500 && accepted.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{} wrong calls, of which these are accepted: {accepted:?}",
            wrongs.len()
        )
        .into()),
    }
}

/// The programs that are compiled for each interface, and with how many ranks they are run.
const PROGRAMS: &[(&str, &[u32])] = &[
    ("messages", &[1, 2, 3, 4, 5, 8]),
    ("objects", &[1, 2, 3, 5]),
    ("collectives", &[1, 2, 3, 4, 5, 8]),
    ("datatypes", &[1, 3]),
    ("sessions", &[1, 2, 3, 5]),
];

/// For calls without an interface, with buffers of several types: gfortran has to be told, as mpifort does.
fn without_interface() -> &'static [&'static str] {
    match build::fortran_compiler().contains("gfortran") {
        true => &["-fallow-argument-mismatch", "-w"],
        false => &["-w"],
    }
}

/// What the compiler gets for a program of an interface.
fn options(interface: &str) -> Vec<&'static str> {
    match interface {
        "F08" => vec!["-O2", "-DUSE_F08"],
        "MPI" => vec!["-O2", "-DUSE_MPI_MODULE"],
        _ => [["-O2", "-DUSE_MPIF"].as_slice(), without_interface()].concat(),
    }
}

fn program(name: &str, interface: &str) -> Result<PathBuf, Failed> {
    let source = format!("{name}.F90");
    build::fortran(name, &[Path::new(&source)], interface, &options(interface))
}

/// A program over Weft's own shared memory with each number of ranks, and over libfabric with three, or all in the full matrix.
fn run(name: &str, interface: &str, numbers: &[u32]) -> Outcome {
    let program = program(name, interface)?;
    for _ in 0..repeat() {
        for &ranks in numbers {
            Job::new(&program, ranks).over(SHM).run()?.is_well(name, ranks)?;
            if ranks == 3 || full() {
                Job::new(&program, ranks)
                    .over(common())
                    .run()?
                    .is_well(name, ranks)?;
            }
        }
    }
    Ok(())
}

/// The job's status is the code, and what was written before is there.
fn aborts(interface: &str) -> Outcome {
    let program = program("abort", interface)?;
    for (code, status, way) in [(0, 0, SHM), (7, 7, common()), (300, 44, SHM), (-1, 255, common())] {
        let ended = Job::new(&program, 3)
            .arguments(&[&code.to_string()])
            .over(way)
            .run()?;
        ended.status_is(status)?;
        ended.prints("written before the end\n")?;
        ended.says(&["mpiexec: rank 2 ", &format!("called MPI_Abort with code {code}")])?;
        if ended.stdout.contains("has returned") {
            return Err(ended.fail("MPI_Abort has returned"));
        }
    }
    Ok(())
}

/// A profiler in C, preloaded, and one in Fortran, linked with the program, see each call once.
fn profiled(interface: &str) -> Outcome {
    let ranks = 3;
    let by_c = Job::new(&program("profiled", interface)?, ranks)
        .option("-x")
        .option(format!("LD_PRELOAD={}", build::preloaded("profiler")?.display()));
    let mut jobs = vec![by_c];
    // That of Fortran 77 is for calls by addresses.
    if interface != "F08" {
        let files = [Path::new("profiled.F90"), Path::new("profiler.f")];
        let mut options = options(interface);
        options.extend(without_interface());
        jobs.push(Job::new(
            &build::fortran("profiler", &files, interface, &options)?,
            ranks,
        ));
    }
    for job in jobs {
        let ended = job.over(common()).run()?;
        ended.is_well("profiled", ranks)?;
        for rank in 0..ranks {
            let sends = rank + 1;
            ended.prints(&format!(
                "profiler: rank {rank} called MPI_Send {sends} times, with {} bytes\n",
                sends * 40
            ))?;
        }
    }
    Ok(())
}
