//! Finds the program before anything is started, so that a mistake is one clear line and not one per rank.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

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
    let name = &app.program;
    let shown = name.display();
    let failure = |message: String, status: u8| Failure { message, status };
    if name.as_bytes().contains(&b'/') {
        let path = wdir.join(name);
        return match obstacle(&path) {
            None => Ok(Program { path, wdir }),
            Some(Obstacle::Missing) => Err(failure(
                format!("the program '{shown}' does not exist"),
                STATUS_NOT_FOUND,
            )),
            Some(Obstacle::Directory) => Err(failure(
                format!("the program '{shown}' is a directory"),
                STATUS_NOT_EXECUTABLE,
            )),
            Some(Obstacle::NotExecutable) => Err(failure(
                format!("the program '{shown}' is not executable"),
                STATUS_NOT_EXECUTABLE,
            )),
        };
    }
    let own = app
        .env
        .iter()
        .rev()
        .find(|(key, _)| key == "PATH")
        .map(|(_, value)| value.clone());
    let search = own.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    let mut refused = None;
    let first = app.search.iter().flat_map(std::env::split_paths);
    for directory in first.chain(std::env::split_paths(&search)) {
        let path = wdir.join(directory).join(name);
        match obstacle(&path) {
            None => return Ok(Program { path, wdir }),
            Some(Obstacle::NotExecutable) => refused = Some(path),
            Some(_) => {}
        }
    }
    Err(match refused {
        Some(path) => failure(
            format!("the program '{}' is not executable", path.display()),
            STATUS_NOT_EXECUTABLE,
        ),
        None => failure(
            format!(
                "the program '{shown}' is not found along PATH{}",
                hint(&wdir, name)
            ),
            STATUS_NOT_FOUND,
        ),
    })
}

enum Obstacle {
    Missing,
    Directory,
    NotExecutable,
}

fn obstacle(path: &Path) -> Option<Obstacle> {
    if !path.exists() {
        Some(Obstacle::Missing)
    } else if path.is_dir() {
        Some(Obstacle::Directory)
    } else if access(path, AccessFlags::X_OK).is_err() {
        Some(Obstacle::NotExecutable)
    } else {
        None
    }
}

fn hint(wdir: &Path, name: &OsStr) -> String {
    let there = wdir.join(name).is_file();
    if there {
        format!("; did you mean './{}'?", name.display())
    } else {
        String::new()
    }
}
