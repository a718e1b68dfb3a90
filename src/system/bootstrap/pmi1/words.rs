//! Lists of words as one value: each word with its length before it, `3:abc2:de`. What a spawn asks for and what became of it are such
//! lists, in hexadecimal and in parts over several lines. Programs, arguments and the values of hints are any bytes; all else is text.
//!
//! They come from another process and are untrusted input: nothing that they say is used as a length or a place before it was checked.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use crate::base::error::{Class, Error, Result};
use crate::err;
use crate::system::bootstrap::{Command, Spawn, Spawned};

/// The longest list (bytes). Arguments and environment of a program have 2 MiB on most systems.
pub const BYTES_MAX: usize = 4 << 20;

/// A list that is being written.
#[derive(Default)]
struct List(Vec<u8>);

impl List {
    fn word(&mut self, word: impl AsRef<OsStr>) {
        let word = word.as_ref().as_bytes();
        self.0.extend_from_slice(format!("{}:", word.len()).as_bytes());
        self.0.extend_from_slice(word);
    }

    fn number(&mut self, number: usize) {
        self.word(number.to_string());
    }
}

/// A list that is being read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A word that is text.
    fn word(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| wrong())
    }

    /// A word of any bytes.
    fn any(&mut self) -> Result<OsString> {
        Ok(OsStr::from_bytes(self.bytes()?).into())
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        // No length has more digits.
        let colon = self.0.iter().take(10).position(|&byte| byte == b':');
        let (length, rest) = colon
            .and_then(|at| self.0.split_at_checked(at))
            .ok_or_else(wrong)?;
        let length: usize = std::str::from_utf8(length)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(wrong)?;
        let (word, rest) = rest[1..].split_at_checked(length).ok_or_else(wrong)?;
        self.0 = rest;
        Ok(word)
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T> {
        let word = self.word()?;
        word.parse().map_err(|_| {
            err!(
                Other,
                "a list of words for a spawn has '{word:.20}' where a number is expected"
            )
        })
    }

    /// A list of what `one` reads, with its length before it. A length that is not true finds no words for what it claims.
    fn several<T>(&mut self, mut one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count: usize = self.number()?;
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(one(self)?);
        }
        Ok(all)
    }

    fn end(&self) -> Result<()> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(err!(
                Other,
                "a list of words for a spawn is longer than what it holds"
            )),
        }
    }
}

fn wrong() -> Error {
    err!(Other, "a list of words for a spawn can't be read")
}

/// What a spawn asks for, as a list.
pub fn of_spawn(spawn: &Spawn) -> Vec<u8> {
    let mut list = List::default();
    list.word(&spawn.port);
    list.number(spawn.commands.len());
    for command in &spawn.commands {
        list.word(&command.program);
        list.number(command.count as usize);
        list.number(command.arguments.len());
        (command.arguments.iter()).for_each(|argument| list.word(argument));
        list.number(command.info.len());
        for (key, value) in &command.info {
            list.word(key);
            list.word(value);
        }
    }
    list.0
}

/// Reads it.
pub fn to_spawn(bytes: &[u8]) -> Result<Spawn> {
    let mut reader = Reader(bytes);
    let port = reader.word()?.to_string();
    let commands = reader.several(|reader| {
        Ok(Command {
            program: reader.any()?,
            count: reader.number()?,
            arguments: reader.several(Reader::any)?,
            info: reader.several(|reader| Ok((reader.word()?.to_string(), reader.any()?)))?,
        })
    })?;
    reader.end()?;
    Ok(Spawn { commands, port })
}

/// What became of a spawn, as a list. An error: of the classes, only `MPI_ERR_INFO_VALUE` stays; the others are `MPI_ERR_SPAWN`.
pub fn of_outcome(outcome: &Result<Spawned>) -> Vec<u8> {
    let mut list = List::default();
    match outcome {
        Ok(spawned) => {
            list.word("made");
            list.number(spawned.started as usize);
            list.number(spawned.of_command.len());
            spawned
                .of_command
                .iter()
                .for_each(|&count| list.number(count as usize));
            list.number(spawned.errors.len());
            for error in &spawned.errors {
                list.word(if error.is_some() { "error" } else { "" });
                list.word(error.as_deref().unwrap_or_default());
            }
        }
        Err(error) => {
            list.word(if error.class == Class::InfoValue {
                "value"
            } else {
                "refused"
            });
            list.word(&*error.message);
        }
    }
    list.0
}

/// Reads it; `commands`: how many the spawn has.
pub fn to_outcome(bytes: &[u8], commands: usize) -> Result<Result<Spawned>> {
    let outcome = to_any_outcome(bytes)?;
    match &outcome {
        Ok(spawned) if spawned.of_command.len() != commands => Err(contradiction()),
        _ => Ok(outcome),
    }
}

fn contradiction() -> Error {
    err!(Other, "the launcher's answer to a spawn contradicts itself")
}

/// Reads that of a spawn of any number of commands.
pub fn to_any_outcome(bytes: &[u8]) -> Result<Result<Spawned>> {
    let mut reader = Reader(bytes);
    let outcome = match reader.word()? {
        "made" => {
            let spawned = Spawned {
                started: reader.number()?,
                of_command: reader.several(Reader::number)?,
                errors: reader.several(|reader| {
                    let is_error = reader.word()? == "error";
                    let text = reader.word()?;
                    Ok(is_error.then(|| text.to_string()))
                })?,
            };
            let all: u64 = spawned.of_command.iter().map(|&count| u64::from(count)).sum();
            if spawned.errors.len() != spawned.of_command.len() || all != u64::from(spawned.started) {
                return Err(contradiction());
            }
            Ok(spawned)
        }
        "value" => Err(Error::new(Class::InfoValue, reader.word()?.to_string())),
        "refused" => Err(Error::new(Class::Spawn, reader.word()?.to_string())),
        _ => return Err(err!(Other, "the launcher's answer to a spawn can't be read")),
    };
    reader.end()?;
    Ok(outcome)
}

/// Whether a list says that processes were started.
pub fn are_some_started(outcome: &[u8]) -> bool {
    let mut reader = Reader(outcome);
    reader.word().is_ok_and(|word| word == "made") && reader.number::<u32>().is_ok_and(|started| started > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spawns() -> impl Strategy<Value = Spawn> {
        let bytes = || {
            prop::collection::vec(any::<u8>(), 0..8)
                .prop_map(|bytes| OsStr::from_bytes(&bytes).to_os_string())
        };
        let texts = || prop::collection::vec(bytes(), 0..4);
        let pairs = prop::collection::vec(("\\PC{0,8}", bytes()), 0..4);
        let command =
            (bytes(), texts(), any::<u32>(), pairs).prop_map(|(program, arguments, count, info)| Command {
                program,
                arguments,
                count,
                info,
            });
        ("\\PC{0,8}", prop::collection::vec(command, 0..4))
            .prop_map(|(port, commands)| Spawn { commands, port })
    }

    #[test]
    fn outcomes_come_back() {
        let made = Ok(Spawned {
            started: 3,
            of_command: vec![1, 2, 0],
            errors: vec![None, None, Some("the program 'x' is not found".into())],
        });
        assert_eq!(to_outcome(&of_outcome(&made), 3).unwrap(), made);
        to_outcome(&of_outcome(&made), 2).unwrap_err();
        for error in [err!(Spawn, "no"), err!(InfoValue, "soft")] {
            assert_eq!(
                to_outcome(&of_outcome(&Err(error.clone())), 1).unwrap(),
                Err(error)
            );
        }
    }

    #[test]
    fn wrong_lists_are_refused() {
        for bytes in [
            &b""[..],
            b"1",
            b"1:",
            b":a",
            b"-1:a",
            b"99999999999999999999:a",
            b"1:a3:999",
            b"0:1:1",
            b"0:1:0x",
            b"1:\xff1:0",
        ] {
            to_spawn(bytes).expect_err("garbage");
            to_outcome(bytes, 1).expect_err("garbage");
        }
    }

    proptest! {
        #[test]
        fn a_spawn_comes_back(spawn in spawns()) {
            let bytes = of_spawn(&spawn);
            prop_assert_eq!(to_spawn(&bytes).unwrap(), spawn);
            if let Some((_, shorter)) = bytes.split_last() {
                prop_assert!(to_spawn(shorter).is_err());
            }
        }

        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(prop_oneof![b'0'..=b':', any::<u8>()], 0..60)) {
            let _ = to_spawn(&bytes);
            let _ = to_outcome(&bytes, 1);
        }
    }
}
