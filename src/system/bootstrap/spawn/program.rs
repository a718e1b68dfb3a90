//! Finds a program before anything is started, so that a mistake is one clear line and not one per process.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// Why there is no program to start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoProgram {
    /// There is nothing of its name; in words.
    NotFound(String),
    /// What is there can't be executed; in words.
    NotExecutable(String),
}

impl fmt::Display for NoProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (NoProgram::NotFound(why) | NoProgram::NotExecutable(why)) = self;
        f.write_str(why)
    }
}

/// Finds a program as a shell would: by its path from the working directory `wdir`, which is absolute, or in `folders`.
pub fn find_program(
    name: &OsStr,
    wdir: &Path,
    folders: impl Iterator<Item = PathBuf>,
) -> Result<PathBuf, NoProgram> {
    let shown = name.display();
    if name.as_bytes().contains(&b'/') {
        let path = wdir.join(name);
        return match obstacle(&path) {
            None => Ok(path),
            Some(Obstacle::Missing) => Err(NoProgram::NotFound(format!(
                "the program '{shown}' does not exist"
            ))),
            Some(Obstacle::Directory) => Err(NoProgram::NotExecutable(format!(
                "the program '{shown}' is a directory"
            ))),
            Some(Obstacle::NotExecutable) => Err(NoProgram::NotExecutable(format!(
                "the program '{shown}' is not executable"
            ))),
        };
    }
    let mut refused = None;
    for folder in folders {
        let path = wdir.join(folder).join(name);
        match obstacle(&path) {
            None => return Ok(path),
            Some(Obstacle::NotExecutable) => refused = Some(path),
            Some(_) => {}
        }
    }
    Err(match refused {
        Some(path) => NoProgram::NotExecutable(format!("the program '{}' is not executable", path.display())),
        None => NoProgram::NotFound(format!(
            "the program '{shown}' is not found along PATH{}",
            hint(wdir, name)
        )),
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
