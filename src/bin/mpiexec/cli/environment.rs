//! Environment variables of the ranks.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::options::Options;
use crate::outcome::Failure;

/// What ranks get of the environment of `mpiexec`.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Inherits {
    /// All variables.
    All,
    /// Only these.
    Only(Vec<OsString>),
}

impl Inherits {
    /// Whether a variable is passed on.
    pub fn has(&self, name: &OsStr) -> bool {
        match self {
            Inherits::All => true,
            Inherits::Only(names) => names.iter().any(|own| own == name),
        }
    }

    /// What the options of a program say about itself.
    pub fn own(options: &Options) -> Result<Option<Inherits>, Failure> {
        Inherits::of(options.envnone, options.envlist.as_deref(), options.envall)
    }

    /// What they say about all programs.
    pub fn general(options: &Options) -> Result<Option<Inherits>, Failure> {
        Inherits::of(options.genvnone, options.genvlist.as_deref(), options.genvall)
    }

    fn of(none: bool, list: Option<&OsStr>, all: bool) -> Result<Option<Inherits>, Failure> {
        if none {
            return Ok(Some(Inherits::Only(Vec::new())));
        }
        let Some(list) = list else {
            return Ok(all.then_some(Inherits::All));
        };
        let names = list.as_bytes().split(|&byte| byte == b',');
        let names: Vec<OsString> = names.map(|name| OsString::from_vec(name.to_vec())).collect();
        names.iter().try_for_each(|name| check_name(name))?;
        Ok(Some(Inherits::Only(names)))
    }
}

/// The variables that `-env` and `-x` set.
pub fn own(options: &Options) -> Result<Vec<(OsString, OsString)>, Failure> {
    let mut env = pairs(&options.env)?;
    for export in &options.export {
        let bytes = export.as_bytes();
        let split = bytes.iter().position(|&byte| byte == b'=');
        let name = OsStr::from_bytes(&bytes[..split.unwrap_or(bytes.len())]);
        check_name(name)?;
        match split {
            Some(split) => env.push((name.to_owned(), OsString::from_vec(bytes[split + 1..].to_vec()))),
            // Most of the environment is passed on anyway; this makes sure that it overrides -genv.
            None => env.extend(std::env::var_os(name).map(|value| (name.to_owned(), value))),
        }
    }
    Ok(env)
}

/// Names and values in turn.
pub fn pairs(words: &[OsString]) -> Result<Vec<(OsString, OsString)>, Failure> {
    let pairs = words
        .chunks_exact(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()));
    pairs.map(|pair| check_name(&pair.0).map(|()| pair)).collect()
}

fn check_name(name: &OsStr) -> Result<(), Failure> {
    if name.is_empty() || name.as_bytes().contains(&b'=') {
        return Err(Failure::usage(format!(
            "'{}' can't be the name of an environment variable",
            name.display()
        )));
    }
    Ok(())
}
