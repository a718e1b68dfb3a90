//! The user's hints of a command (MPI 5.0, section 11.8.4), as far as every launcher's client or server has to know them: more of them in a
//! file, the processors, and how many processes are enough.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::errno::Errno;

use super::{Command, soft};
use crate::base::error::{Class, Error, Result};
use crate::err;

/// The longest file of the key `file` (bytes).
const FILE_MAX: u64 = 1 << 20;

/// The keys and values of a command, with those in its file after them.
pub struct Hints(Vec<(String, OsString)>);

impl Hints {
    /// Reads them.
    ///
    /// # Errors
    /// `MPI_ERR_SPAWN`: the command can't be started by them, or has what no process can be given.
    pub fn of(command: &Command) -> Result<Hints> {
        if command.program.is_empty() {
            return Err(err!(Spawn, "a command has no program"));
        }
        let mut hints = Hints(command.info.clone());
        if let Some(path) = hints.find("file") {
            // What the program says itself goes before what is in the file.
            let more = of_file(Path::new(path))?;
            hints.0.extend(more);
        }
        let texts = command.arguments.iter().chain([&command.program]);
        let values = hints.0.iter().map(|(_, value)| value);
        if texts.chain(values).any(|text| text.as_bytes().contains(&0)) {
            return Err(err!(Spawn, "an argument or a value has a byte 0"));
        }
        match hints.text("arch")? {
            Some(arch) if arch != std::env::consts::ARCH => Err(err!(
                Spawn,
                "arch='{arch}': the processors of this job are {}",
                std::env::consts::ARCH
            )),
            _ => Ok(hints),
        }
    }

    /// The value of a key, of any bytes.
    pub fn find(&self, key: &str) -> Option<&OsStr> {
        let known = self.0.iter().find(|(name, _)| name == key);
        known.map(|(_, value)| value.as_os_str())
    }

    /// The value of a key whose values are text.
    ///
    /// # Errors
    /// `MPI_ERR_INFO_VALUE`: it is none.
    pub fn text(&self, key: &str) -> Result<Option<&str>> {
        let text = |value: &'_ OsStr| err!(InfoValue, "the value of {key} is no text: {value:?}");
        self.find(key)
            .map(|value| value.to_str().ok_or_else(|| text(value)))
            .transpose()
    }

    /// The lines `NAME=VALUE` of the key `env`.
    ///
    /// # Errors
    /// `MPI_ERR_INFO_VALUE`: one is not of this form.
    pub fn environment(&self) -> Result<Vec<(&OsStr, &OsStr)>> {
        let lines = self.find("env").unwrap_or_default().as_bytes();
        let lines = lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        lines
            .map(|line| {
                let equals = line.iter().position(|&byte| byte == b'=').filter(|&at| at != 0);
                let at = equals.ok_or_else(|| {
                    err!(
                        InfoValue,
                        "env: the line '{}' is not NAME=VALUE",
                        line.escape_ascii()
                    )
                })?;
                Ok((OsStr::from_bytes(&line[..at]), OsStr::from_bytes(&line[at + 1..])))
            })
            .collect()
    }

    /// How many processes to start, of `most` that were asked for: the largest number that `soft` allows.
    ///
    /// # Errors
    /// `MPI_ERR_INFO_VALUE`: it is no set of numbers. `MPI_ERR_SPAWN`: it has none that is possible.
    pub fn count(&self, most: u32) -> Result<u32> {
        let Some(set) = self.text("soft")? else {
            return Ok(most);
        };
        let number = soft::largest(set, most).map_err(|why| Error::new(Class::InfoValue, why))?;
        number.ok_or_else(|| {
            err!(
                Spawn,
                "soft='{set}' has no number from 0 to {most}, the number of processes"
            )
        })
    }
}

/// The keys of a file: lines `key=value`; those that are empty or begin with `#` don't count.
fn of_file(path: &Path) -> Result<Vec<(String, OsString)>> {
    let wrong = |why: String| err!(Spawn, "the file '{}' of the key file {why}", path.display());
    let read = std::fs::metadata(path).and_then(|known| match known.is_file() && known.len() <= FILE_MAX {
        true => std::fs::read(path).map(Some),
        false => Ok(None),
    });
    let unreadable = |error: std::io::Error| {
        let errno = error.raw_os_error().map(Errno::from_raw);
        let words = errno.map_or_else(|| error.to_string(), |errno| errno.desc().to_string());
        wrong(format!("can't be read: {words}"))
    };
    let bytes = read
        .map_err(unreadable)?
        .ok_or_else(|| wrong("is no file or too long".into()))?;
    let mut keys = Vec::new();
    for (line, number) in bytes.split(|&byte| byte == b'\n').zip(1..) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let equals = line.iter().position(|&byte| byte == b'=');
        let (key, value) = (equals.map(|at| (line[..at].trim_ascii(), line[at + 1..].trim_ascii())))
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| wrong(format!("has no key=value on line {number}")))?;
        keys.push((
            String::from_utf8_lossy(key).into_owned(),
            OsStr::from_bytes(value).into(),
        ));
    }
    Ok(keys)
}
