//! A spawn as launchers other than Weft's take it. They know fewer hints, and tell less, or too late, about what can't be started: so what
//! this process can find out is done here.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::{Command, Hints, Spawn, Spawned, find_program};
use crate::base::error::{Class, Result};
use crate::err;

/// What to ask for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Plain {
    /// To start these.
    Start {
        /// Those of which processes are wanted; at least one.
        commands: Vec<PlainCommand>,
        /// What became of the spawn, if the launcher starts them all.
        outcome: Spawned,
    },
    /// Nothing: what became of the spawn is known.
    Nothing(Spawned),
}

/// One program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlainCommand {
    /// Which of the spawn's commands it is, from 0.
    pub number: usize,
    /// Its file: with its path, if that is known.
    pub program: String,
    /// Its arguments, without the program's name.
    pub arguments: Vec<String>,
    /// How many processes; not 0.
    pub count: u32,
    /// The working directory, with its path.
    pub wdir: String,
    /// Where to start it: names of machines.
    pub host: Option<String>,
    /// A file with such names.
    pub host_file: Option<String>,
    /// Changes of the environment.
    pub env: Vec<(String, String)>,
}

impl Plain {
    /// Reads hints, and finds programs.
    ///
    /// # Errors
    /// `MPI_ERR_INFO_VALUE`: a value has no meaning. `MPI_ERR_SPAWN`: nothing can be asked for.
    pub fn of(spawn: &Spawn) -> Result<Plain> {
        let here = std::env::current_dir()
            .map_err(|error| err!(Spawn, "the working directory can't be read: {error}"))?;
        let (mut commands, mut counts, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for (number, command) in spawn.commands.iter().enumerate() {
            let (count, error) = match plain(&here, number, command) {
                Ok(plain) => {
                    let count = plain.count;
                    commands.extend((count > 0).then_some(plain));
                    (count, None)
                }
                Err(error) if error.class == Class::Spawn => (0, Some(error.message.into_owned())),
                Err(error) => return Err(error),
            };
            counts.push(count);
            errors.push(error);
        }
        let all: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        let most = i32::MAX as u64;
        if all > most {
            return Err(err!(Spawn, "{all} processes: at most {most} are possible"));
        }
        if all == 0 || errors.iter().any(Option::is_some) {
            return Ok(Plain::Nothing(Spawned {
                started: 0,
                of_command: vec![0; errors.len()],
                errors,
            }));
        }
        Ok(Plain::Start {
            commands,
            outcome: Spawned {
                started: all as u32,
                of_command: counts,
                errors,
            },
        })
    }
}

fn plain(here: &Path, number: usize, command: &Command) -> Result<PlainCommand> {
    let hints = Hints::of(command)?;
    let own = |key: &str| -> Result<_> { Ok(hints.text(key)?.map(str::to_string)) };
    let wdir = hints
        .find("wdir")
        .map_or_else(|| here.to_path_buf(), |wdir| here.join(wdir));
    let (host, host_file) = (own("host")?, own("hostfile")?);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first = hints.find("path").into_iter().flat_map(std::env::split_paths);
    let folders = first.chain(std::env::split_paths(&path));
    // Other machines may have other files.
    let is_here = host.is_none() && host_file.is_none();
    if is_here && !wdir.is_dir() {
        return Err(err!(
            Spawn,
            "the working directory '{}' does not exist, or is none",
            wdir.display()
        ));
    }
    let program = match find_program(&command.program, &wdir, folders) {
        Ok(path) => text(path)?,
        Err(why) if is_here => return Err(err!(Spawn, "{why}")),
        Err(_) if command.program.as_bytes().contains(&b'/') => text(wdir.join(&command.program))?,
        Err(_) => text(&command.program)?,
    };
    let variables = hints.environment()?;
    let variables = variables
        .into_iter()
        .map(|(name, value)| Ok((text(name)?, text(value)?)));
    Ok(PlainCommand {
        number,
        program,
        arguments: command.arguments.iter().map(text).collect::<Result<_>>()?,
        count: hints.count(command.count)?,
        wdir: text(wdir)?,
        host,
        host_file,
        env: variables.collect::<Result<_>>()?,
    })
}

/// Other launchers take text.
fn text(bytes: impl AsRef<OsStr>) -> Result<String> {
    let bytes = bytes.as_ref();
    bytes.to_str().map(str::to_string).ok_or_else(|| {
        err!(
            Spawn,
            "{bytes:?} is not text, and the launcher of this job takes nothing else"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(program: &str, count: u32, info: &[(&str, &str)]) -> Command {
        let pair = |(key, value): &(&str, &str)| (key.to_string(), value.into());
        Command {
            program: program.into(),
            arguments: vec!["a b".into()],
            count,
            info: info.iter().map(pair).collect(),
        }
    }

    fn plain_of(commands: Vec<Command>) -> Result<Plain> {
        Plain::of(&Spawn {
            commands,
            port: "port".into(),
        })
    }

    /// Why the first command can't be started.
    fn refused(program: &str, info: &[(&str, &str)]) -> String {
        let both = vec![command(program, 1, info), command("sh", 1, &[])];
        match plain_of(both).unwrap() {
            Plain::Nothing(Spawned {
                started: 0,
                of_command,
                errors,
            }) => {
                assert_eq!((of_command, &errors[1]), (vec![0, 0], &None));
                errors[0].clone().unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn programs_are_found_and_hints_are_carried_out() {
        let info = [
            ("wdir", "/usr"),
            ("path", "/none:bin"),
            ("soft", "1:9:2"),
            ("env", "A=b=c\n"),
        ];
        let none = [("soft", "0")];
        let all = vec![
            command("sh", 2, &none),
            command("env", 4, &info),
            command("sh", 1, &[]),
        ];
        let Plain::Start { commands, outcome } = plain_of(all).unwrap() else {
            panic!("nothing")
        };
        let expected = Spawned {
            started: 4,
            of_command: vec![0, 3, 1],
            errors: vec![None; 3],
        };
        assert_eq!(outcome, expected);
        let [env, sh] = &commands[..] else { panic!() };
        assert_eq!((env.number, env.count, &env.wdir[..]), (1, 3, "/usr"));
        assert_eq!((&env.program[..], sh.number), ("/usr/bin/env", 2));
        assert_eq!(env.env, [("A".into(), "b=c".into())]);
        assert!(sh.program.starts_with('/') && sh.program.ends_with("/sh"));
        assert_eq!(Path::new(&sh.wdir), std::env::current_dir().unwrap());
    }

    #[test]
    fn what_cant_be_started_is_named() {
        assert!(refused("no-such-program", &[]).contains("'no-such-program' is not found"));
        assert!(refused("/etc/passwd", &[]).contains("is not executable"));
        assert!(refused("sh", &[("wdir", "/no/such")]).contains("'/no/such'"));
        assert!(refused("sh", &[("arch", "pdp11")]).contains("pdp11"));
        assert!(refused("sh", &[("file", "/no/such")]).contains("'/no/such'"));
        assert!(refused("sh", &[("soft", "9")]).contains("'9'"));
        assert!(refused("", &[]).contains("no program"));
        let nothing = plain_of(vec![command("sh", 0, &[])]).unwrap();
        assert!(matches!(nothing, Plain::Nothing(spawned) if spawned.errors == [None]));
    }

    #[test]
    fn other_machines_may_have_other_files() {
        let there = [("host", "a,b"), ("wdir", "/no/such")];
        let all = vec![command("no-such-program", 1, &there), command("./x", 1, &there)];
        let Plain::Start { commands, .. } = plain_of(all).unwrap() else {
            panic!("nothing")
        };
        assert_eq!(commands[0].program, "no-such-program");
        assert_eq!(commands[0].host.as_deref(), Some("a,b"));
        assert_eq!(commands[1].program, "/no/such/./x");
    }

    #[test]
    fn wrong_values_and_too_many_processes_are_errors_of_all() {
        for (key, value) in [("soft", "x"), ("env", "A")] {
            let error = plain_of(vec![command("sh", 1, &[(key, value)])]).unwrap_err();
            assert_eq!(error.class, Class::InfoValue, "{key}");
        }
        let many = vec![command("sh", i32::MAX as u32, &[]); 2];
        assert_eq!(plain_of(many).unwrap_err().class, Class::Spawn);
    }
}
