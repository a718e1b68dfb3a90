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
        trials.push(Trial::test(format!("fortran::abort::{name}"), move || {
            aborts(name)
        }));
        trials.push(Trial::test(format!("fortran::profilers::{name}"), move || {
            profiled(name)
        }));
    }
    let flang = !build::fortran_compiler().contains("gfortran");
    for program in PROGRAMS {
        if flang && NOT_BY_FLANG.contains(&program.name) {
            eprintln!("programs: {} is left out: flang can't compile it", program.name);
            continue;
        }
        for &interface in program.interfaces {
            let name = format!("fortran::{}::{interface}", program.name);
            trials.push(Trial::test(name.trim_end_matches(':'), move || {
                program.run(interface)
            }));
        }
    }
    if !flang {
        trials.push(Trial::test("fortran::a_tool_in_fortran_2008", tool));
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

/// A program of `tests/fortran`.
struct Program {
    name: &'static str,
    /// Its files, if not one of its name.
    files: &'static [&'static str],
    /// The interfaces that it is compiled for. None: it has one of its own.
    interfaces: &'static [&'static str],
    /// With how many ranks it is run.
    ranks: &'static [u32],
    options: &'static [&'static str],
    arguments: &'static [&'static str],
    /// Its source is valid in both forms: with `mpif.h` it is compiled as fixed form.
    both_forms: bool,
    /// Whether it says at the end that all is well. Otherwise only its status does.
    says_ok: bool,
    /// The job's status.
    status: i32,
}

const ALL: &[&str] = &["F08", "MPI", "MPIF"];
const RANKS: &[u32] = &[1, 2, 3, 4, 5, 8];
const FEW: &[u32] = &[1, 2, 3, 5];

const fn program(name: &'static str, ranks: &'static [u32]) -> Program {
    Program {
        name,
        files: &[],
        interfaces: ALL,
        ranks,
        options: &[],
        arguments: &[],
        both_forms: false,
        says_ok: true,
        status: 0,
    }
}

/// One about callbacks.
const fn callbacks(name: &'static str, ranks: &'static [u32]) -> Program {
    Program {
        both_forms: true,
        says_ok: false,
        ..program(name, ranks)
    }
}

/// One that has an interface of its own.
const fn alone(name: &'static str, files: &'static [&'static str], ranks: &'static [u32]) -> Program {
    Program {
        files,
        interfaces: &[""],
        says_ok: false,
        ..program(name, ranks)
    }
}

const PROGRAMS: &[Program] = &[
    program("messages", RANKS),
    program("objects", FEW),
    program("collectives", RANKS),
    program("datatypes", &[1, 3]),
    program("sessions", FEW),
    program("spawning", &[1, 3]),
    program("onesided", FEW),
    callbacks("attributes", FEW),
    callbacks("errhandlers", FEW),
    callbacks("operations", FEW),
    callbacks("generalized", &[1, 3]),
    callbacks("session_attributes", FEW),
    callbacks("finalize", RANKS),
    Program {
        name: "finalize_fails",
        files: &["finalize.F90"],
        options: &["-DFAILS"],
        ..callbacks("finalize", FEW)
    },
    Program {
        status: 37,
        ..callbacks("abort_at_finalize", FEW)
    },
    alone("removed", &["removed.F"], &[1, 2, 3]),
    alone(
        "callbacks_many",
        &["callbacks_many.F90", "callbacks_many.c"],
        &[1, 2],
    ),
    alone(
        "languages_attributes",
        &["languages_attributes.F90", "languages_attributes.c"],
        FEW,
    ),
    alone(
        "languages_datareps",
        &["languages_datareps.F90", "languages_datareps.c"],
        &[1, 2],
    ),
    alone(
        "languages_profiled",
        &["languages_profiled.F90", "languages_profiled.c"],
        &[1, 2],
    ),
    // Where the program has a copy of what the library has: see `callback/predefined.rs`.
    Program {
        name: "languages_profiled_in_place",
        options: &["-fno-pic", "-no-pie"],
        ..alone(
            "languages_profiled",
            &["languages_profiled.F90", "languages_profiled.c"],
            &[1, 2],
        )
    },
    Program {
        options: &["-pthread"],
        ..alone(
            "threads_callbacks",
            &["threads_callbacks.F90", "threads_callbacks.c"],
            &[1, 2],
        )
    },
    alone("sections_shapes", &["sections_shapes.f90"], FEW),
    alone("sections_messages", &["sections_messages.f90"], FEW),
    alone("sections_completion", &["sections_completion.f90"], FEW),
    alone("sections_collectives", &["sections_collectives.f90"], RANKS),
    alone("sections_elsewhere", &["sections_elsewhere.f90"], FEW),
    alone("sections_direct", &["sections_direct.f90"], &[1, 2, 3]),
    alone("corners", &["corners.f90"], FEW),
    alone("sections_errors", &["sections_errors.f90"], &[1, 2]),
    Program {
        options: &["-fopenmp"],
        ..alone("sections_threads", &["sections_threads.f90"], &[1, 2, 3])
    },
];

/// What flang 19 can't compile, in its own words: "not yet implemented: assumed-rank variable in procedure implemented in Fortran".
const NOT_BY_FLANG: &[&str] = &["sections_threads", "tool"];

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

impl Program {
    fn compiled(&self, interface: &str) -> Result<PathBuf, Failed> {
        let own = format!("{}.F90", self.name);
        let files: Vec<&Path> = match self.files {
            [] => vec![Path::new(&own)],
            files => files.iter().map(Path::new).collect(),
        };
        let mut options = options(interface);
        options.extend(self.options);
        if self.both_forms && interface == "MPIF" {
            options.push("-ffixed-form");
        }
        build::fortran(self.name, &files, interface, &options)
    }

    /// Over Weft's own shared memory with each number of ranks, and over libfabric with the most up to three, or all in the full matrix.
    fn run(&self, interface: &str) -> Outcome {
        let program = self.compiled(interface)?;
        let network = self.ranks.iter().copied().filter(|&ranks| ranks <= 3).max();
        for _ in 0..repeat() {
            for &ranks in self.ranks {
                self.run_over(&program, ranks, SHM)?;
                if Some(ranks) == network || full() {
                    self.run_over(&program, ranks, common())?;
                }
            }
        }
        Ok(())
    }

    fn run_over(&self, program: &Path, ranks: u32, way: &str) -> Outcome {
        let ended = Job::new(program, ranks)
            .arguments(self.arguments)
            .over(way)
            .run()?;
        ended.status_is(self.status)?;
        match self.says_ok {
            true => ended.is_well(self.name, ranks),
            false => Ok(()),
        }
    }
}

/// One of the programs that tests below run in ways of their own.
fn compiled(name: &'static str, interface: &str) -> Result<PathBuf, Failed> {
    program(name, &[]).compiled(interface)
}

/// The job's status is the code, and what was written before is there.
fn aborts(interface: &str) -> Outcome {
    let program = compiled("abort", interface)?;
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
    let by_c = Job::new(&compiled("profiled", interface)?, ranks)
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

/// A tool in Fortran 2008 takes the place of `MPI_Isend_f08ts` and others: linked with the program, or preloaded.
fn tool() -> Outcome {
    let ranks = 2;
    let (program, tool) = (Path::new("tool_program.f90"), Path::new("tool_f08.f90"));
    let plain = build::fortran("tool_program", &[program], "", &["-O2"])?;
    let linked = build::fortran("tool_linked", &[tool, program], "", &["-O2"])?;
    let preloaded = build::fortran("tool_preloaded", &[tool], "", &["-O2", "-shared", "-fPIC"])?;
    let seen = "the tool has seen 4 1 5 5 3 1 1 10 364 19";
    let ended = Job::new(&plain, ranks).over(SHM).run()?;
    ended.status_is(0)?;
    if ended.stdout.contains("the tool has seen") {
        return Err(ended.fail("there is no tool here"));
    }
    let preload = format!("LD_PRELOAD={}", preloaded.display());
    let jobs = [
        Job::new(&linked, ranks),
        Job::new(&plain, ranks).option("-x").option(preload),
    ];
    for job in jobs {
        let ended = job.over(SHM).run()?;
        ended.status_is(0)?;
        if ended.stdout.matches(seen).count() != ranks as usize {
            return Err(ended.fail(format!("'{seen}' is not there once for each rank")));
        }
    }
    Ok(())
}
