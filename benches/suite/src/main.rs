//! `weft-bench`: runs the programs of `benches/programs` under Weft and under other MPI libraries in turn, several
//! rounds, and writes what it found as a table, as JSON and as plots.
//!
//! [`options`] is the command line, [`measure`] the list of what can be measured, [`library`] an MPI library and how its
//! programs are started, [`job`] one run of one program, [`rounds`] the order of the runs. [`results`] is what was found, [`goal`] what was
//! wanted; [`table`] and [`plot`] show it. [`tune`] looks for the fastest collective algorithms.

mod goal;
mod job;
mod library;
mod measure;
mod options;
mod plot;
mod programs;
mod results;
mod rounds;
mod table;
mod tune;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use options::Options;
use results::Results;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("weft-bench: {message}");
            ExitCode::from(2)
        }
    }
}

/// Measures and writes. `false`: something could not be measured.
fn run(options: &Options) -> Result<bool, String> {
    if options.list {
        print!("{}", measure::list());
        return Ok(true);
    }
    if let Some(file) = &options.tune {
        return tune::tune(options, file).map(|()| true);
    }
    let output = options.output.as_path();
    fs::create_dir_all(output)
        .map_err(|error| format!("cannot make the folder {}: {error}", output.display()))?;
    // Whatever is wrong with the page is better known before an hour of measuring than after.
    let page = options
        .page
        .as_deref()
        .map(|page| table::Page::open(page, options.part.as_deref(), output))
        .transpose()?;

    let results = match &options.from {
        Some(file) => Results::read(file)?,
        None => rounds::measure(options)?,
    };
    write(output, "results.json", &results.to_json())?;
    write(output, "results.md", &table::full(&results))?;
    let plots = plot::all(&results, output)?;
    if let Some(page) = page {
        page.replace(&table::for_page(&results, &plots, &page.folder))?;
    }
    eprintln!(
        "weft-bench: results.md, results.json and {} plots are in {}",
        plots.len(),
        output.display()
    );
    for failure in &results.failures {
        eprintln!("weft-bench: not measured: {}", failure.title());
    }
    Ok(results.failures.is_empty())
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = folder.join(name);
    fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
