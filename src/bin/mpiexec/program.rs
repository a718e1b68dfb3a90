//! Finds the program before anything is started, so that a mistake is one clear line and not one per rank.

use std::path::PathBuf;

use weft::tools::{NoProgram, find_program};

use crate::cli::App;
use crate::outcome::{Failure, STATUS_NOT_EXECUTABLE, STATUS_NOT_FOUND};

/// A program that is there and may be executed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// The file, absolute.
    pub path: PathBuf,
    /// The directory to run in, absolute.
    pub wdir: PathBuf,
}

/// Finds the program of `app` as a shell would: by its path from the working directory, or along `PATH` (the program's
/// own, where an option sets it).
pub fn find(app: &App) -> Result<Program, Failure> {
    let current = std::env::current_dir()
        .map_err(|error| Failure::launcher(format!("the current directory can't be read: {error}")))?;
    let wdir = app
        .wdir
        .as_ref()
        .map_or(current.clone(), |wdir| current.join(wdir));
    if !wdir.is_dir() {
        let why = if wdir.exists() {
            "is not a directory"
        } else {
            "does not exist"
        };
        return Err(Failure::usage(format!(
            "the working directory '{}' {why}",
            wdir.display()
        )));
    }
    let own = app
        .env
        .iter()
        .rev()
        .find(|(key, _)| key == "PATH")
        .map(|(_, value)| value.clone());
    let search = own.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    let first = app.search.iter().flat_map(std::env::split_paths);
    let folders = first.chain(std::env::split_paths(&search));
    match find_program(&app.program, &wdir, folders) {
        Ok(path) => Ok(Program { path, wdir }),
        Err(why) => Err(Failure {
            message: why.to_string(),
            status: match why {
                NoProgram::NotFound(_) => STATUS_NOT_FOUND,
                NoProgram::NotExecutable(_) => STATUS_NOT_EXECUTABLE,
            },
        }),
    }
}
