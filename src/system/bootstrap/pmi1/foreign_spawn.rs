//! Spawning by launchers other than Weft's: the lines `mcmd=spawn` to `endcmd`, a block for each command, and the answer `spawn_result`. The
//! port at which the new processes find those that have spawned them is among the keys that are put for them.
//!
//! Hydra ends itself and all ranks at a block that it can't read, and says that all is well when it has not yet executed anything. So
//! what is known to end it is refused here.

use std::fmt::Write;
use std::time::Duration;

use super::wire::{self, Message};
use super::{Pmi1, spawn::UnderWay};
use crate::base::error::Result;
use crate::err;
use crate::system::bootstrap::Spawn;
use crate::system::bootstrap::spawn::{Plain, PlainCommand};

/// The key with the parents' port. A program of another MPI that has spawned this one puts others.
const PARENT_KEY: &str = "weft-parent";
/// The key with the commands, each `NUMBER:COUNT`: launchers count them otherwise if one has no processes, or not at all (Slurm).
const COMMANDS_KEY: &str = "weft-commands";
/// Launchers set this for processes that were spawned.
const SPAWNED: &str = "PMI_SPAWNED";

/// How many lines Hydra takes for one spawn: fewer than this.
const LINES_MAX: usize = 1000;
/// How many bytes: it reads into a buffer of 64 KiB.
const BYTES_MAX: usize = 60 << 10;
/// How long to wait for new processes, as nothing is told of those that end before they have come.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);

impl Pmi1 {
    /// Finds the parents' port, if this job was spawned.
    pub(super) fn ask_for_parent(&mut self, environment: impl Fn(&str) -> Option<String>) -> Result<()> {
        // A program that a spawned rank has started inherits this; there is no such key then.
        if environment(SPAWNED).is_none() {
            return Ok(());
        }
        self.job.parent = self.get_now(PARENT_KEY)?;
        if self.job.parent.is_none() {
            return Ok(());
        }
        if let Some(commands) = self.get_now(COMMANDS_KEY)? {
            self.job.appnum = command_of(&commands, self.job.rank);
        }
        Ok(())
    }

    pub(super) fn send_foreign_spawn(&mut self, spawn: &Spawn) -> Result<u32> {
        if self.over {
            return Err(err!(
                Spawn,
                "the launcher of this job takes no requests after the end of the first session"
            ));
        }
        let id = self.spawns.next();
        let commands = spawn.commands.len();
        let mut under_way = UnderWay::of(commands);
        match Plain::of(spawn)? {
            Plain::Nothing(outcome) => under_way.outcome = Some(Ok(outcome)),
            Plain::Start { commands, outcome } => {
                let has_blanks = |command: &PlainCommand| {
                    (command.arguments.iter()).any(|argument| argument.contains(char::is_whitespace))
                };
                if self.slurm && commands.len() > 1 && commands.iter().any(has_blanks) {
                    return Err(err!(
                        Spawn,
                        "Slurm takes no arguments with blanks where several commands are spawned at once"
                    ));
                }
                let request = request(&spawn.port, &commands, self.escapes)?;
                self.wait_until_read(None);
                self.write_all(request.as_bytes())?;
                under_way.expected = Some(outcome);
                self.spawns.in_order.push_back(id);
            }
        }
        self.spawns.known.insert(id, under_way);
        Ok(id)
    }

    /// The answer to the oldest spawn without one.
    pub(super) fn read_spawn_result(&mut self, answer: &Message) -> Result<()> {
        let asked = self.spawns.in_order.pop_front();
        let known = asked.and_then(|id| self.spawns.known.get_mut(&id));
        let Some((known, expected)) = known.and_then(|known| {
            let expected = known.expected.take()?;
            Some((known, expected))
        }) else {
            return Err(err!(Other, "the launcher answered a spawn that nobody asked for"));
        };
        let failed = answer.find("errcodes").map_or(0, |codes| {
            let codes = codes.split(',').filter(|code| !code.is_empty());
            codes.filter(|&code| code != "0").count()
        });
        known.outcome = Some(match (answer.code()?, failed) {
            (0, 0) => Ok(expected),
            (0, failed) => Err(err!(
                Spawn,
                "the launcher could not start {failed} of {} processes",
                expected.started
            )),
            (code, _) => {
                let why = answer
                    .find("msg")
                    .unwrap_or("it does not say why")
                    .replace('_', " ");
                Err(err!(Spawn, "the launcher starts nothing (error {code}): {why}"))
            }
        });
        Ok(())
    }
}

/// The number of a rank's command.
fn command_of(commands: &str, rank: u32) -> Option<i32> {
    let mut before: u64 = 0;
    for command in commands.split(',') {
        let (number, count) = command.split_once(':')?;
        before += u64::from(count.parse::<u32>().ok()?);
        if u64::from(rank) < before {
            return number.parse().ok();
        }
    }
    None
}

/// The request, in lines. `escapes`: the launcher takes a backslash for a sign that the next character is meant.
fn request(port: &str, commands: &[PlainCommand], escapes: bool) -> Result<String> {
    let numbers: Vec<String> = (commands.iter())
        .map(|command| format!("{}:{}", command.number, command.count))
        .collect();
    let preput = [(PARENT_KEY, port.to_string()), (COMMANDS_KEY, numbers.join(","))];
    if !preput.iter().all(|(_, value)| wire::is_word(value)) {
        return Err(err!(Spawn, "the port's name is none that a launcher takes"));
    }
    let mut lines = String::new();
    for (command, number) in commands.iter().zip(1..) {
        let arguments: Vec<(String, &str)> = (command.arguments.iter().zip(1..))
            .map(|(argument, number)| (format!("arg{number}"), argument.as_str()))
            .collect();
        let info: Vec<(&str, &str)> = [
            ("wdir", Some(&command.wdir)),
            ("host", command.host.as_ref()),
            ("hostfile", command.host_file.as_ref()),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?.as_str())))
        .collect();
        lines += "mcmd=spawn\n";
        let mut line = |key: &str, value: &str| {
            let value = match escapes {
                true => value.replace('\\', "\\\\"),
                false => value.to_string(),
            };
            let _ = writeln!(lines, "{key}={value}");
        };
        line("nprocs", &command.count.to_string());
        line("execname", checked(&command.program, "the path of the program")?);
        line("totspawns", &commands.len().to_string());
        line("spawnssofar", &number.to_string());
        line("argcnt", &arguments.len().to_string());
        for (key, argument) in &arguments {
            line(key, checked(argument, "the argument")?);
        }
        line("preput_num", &preput.len().to_string());
        for ((key, value), number) in preput.iter().zip(0..) {
            line(&format!("preput_key_{number}"), key);
            line(&format!("preput_val_{number}"), value);
        }
        line("info_num", &info.len().to_string());
        for ((key, value), number) in info.iter().zip(0..) {
            line(&format!("info_key_{number}"), key);
            line(&format!("info_val_{number}"), checked(value, "the value")?);
        }
        lines += "endcmd\n";
    }
    let count = lines.lines().count();
    if count >= LINES_MAX || lines.len() > BYTES_MAX {
        return Err(err!(
            Spawn,
            "the launcher of this job takes no spawn of {count} lines and {} bytes: at most {} and {BYTES_MAX} are possible, a line for each \
             argument and some more",
            lines.len(),
            LINES_MAX - 1
        ));
    }
    Ok(lines)
}

/// The text, if it can stand in a line.
fn checked<'a>(text: &'a str, what: &str) -> Result<&'a str> {
    let wrong = match text {
        "" => "is empty",
        text if text.contains('\n') => "has a line feed",
        // What looks like the end of the request is taken for it.
        text if text.ends_with("endcmd") => "ends with 'endcmd'",
        _ => return Ok(text),
    };
    Err(err!(
        Spawn,
        "{what} '{}' can't be passed on by the launcher of this job: it {wrong}",
        text.escape_debug()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(number: usize, arguments: &[&str]) -> PlainCommand {
        PlainCommand {
            number,
            program: "/bin/child".into(),
            arguments: arguments.iter().map(|text| text.to_string()).collect(),
            count: 3,
            wdir: "/tmp".into(),
            host: None,
            host_file: None,
            env: Vec::new(),
        }
    }

    #[test]
    fn a_request_has_a_block_for_each_command() {
        let second = PlainCommand {
            host: Some("a,b".into()),
            ..command(2, &[])
        };
        let lines = request("weft1/x", &[command(0, &["a b", "x=\\y"]), second], true).unwrap();
        let expected = "mcmd=spawn\nnprocs=3\nexecname=/bin/child\ntotspawns=2\nspawnssofar=1\nargcnt=2\narg1=a b\narg2=x=\\\\y\n\
                        preput_num=2\npreput_key_0=weft-parent\npreput_val_0=weft1/x\npreput_key_1=weft-commands\npreput_val_1=0:3,2:3\n\
                        info_num=1\ninfo_key_0=wdir\ninfo_val_0=/tmp\nendcmd\n\
                        mcmd=spawn\nnprocs=3\nexecname=/bin/child\ntotspawns=2\nspawnssofar=2\nargcnt=0\n\
                        preput_num=2\npreput_key_0=weft-parent\npreput_val_0=weft1/x\npreput_key_1=weft-commands\npreput_val_1=0:3,2:3\n\
                        info_num=2\ninfo_key_0=wdir\ninfo_val_0=/tmp\ninfo_key_1=host\ninfo_val_1=a,b\nendcmd\n";
        assert_eq!(lines, expected);
        let one = request("weft1/x", &[command(0, &["\\"])], false).unwrap();
        assert!(one.contains("preput_val_1=0:3\n") && one.contains("arg1=\\\n"));
    }

    #[test]
    fn each_rank_finds_its_command() {
        let commands = [0, 1, 2, 3].map(|rank| command_of("0:1,2:2", rank));
        assert_eq!(commands, [Some(0), Some(2), Some(2), None]);
        for wrong in ["", "0", "0:x", ":", "x:1"] {
            assert_eq!(command_of(wrong, 0), None);
        }
    }

    #[test]
    fn what_ends_a_launcher_is_refused() {
        for (argument, words) in [("", "is empty"), ("a\nb", "line feed"), ("xendcmd", "'endcmd'")] {
            let error = request("port", &[command(0, &[argument])], true).unwrap_err();
            assert!(
                error.class == crate::Class::Spawn && error.message.contains(words),
                "{error}"
            );
        }
        for arguments in [vec!["x"; 1000], vec![&"x".repeat(62_000)[..]]] {
            let error = request("port", &[command(0, &arguments)], true).unwrap_err();
            assert!(error.message.contains("are possible"), "{error}");
        }
        request("a port", &[command(0, &[])], true).unwrap_err();
    }
}
