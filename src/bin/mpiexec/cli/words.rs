//! Words of the command line: what is an option, what is the program.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use clap::Command;

use super::foreign;
use crate::outcome::{Failure, system_words};

/// Splits a program's part into its options and the program with its arguments. Single-dash long options are written
/// with two dashes.
pub fn split_part<'a>(
    command: &mut Command,
    part: &'a [OsString],
) -> Result<(Vec<OsString>, &'a [OsString]), Failure> {
    command.build();
    let mut normal = Vec::new();
    let mut rest = part;
    while let Some((word, after)) = rest.split_first() {
        if word == "--" {
            return Ok((normal, after));
        }
        let Some((dashes, name)) = word.to_str().and_then(split_dashes) else {
            break;
        };
        let (name, value) = name
            .split_once('=')
            .map_or((name, None), |(name, value)| (name, Some(value)));
        let long = command.get_arguments().find(|arg| {
            let mut aliases = arg.get_all_aliases().unwrap_or_default().into_iter();
            arg.get_long() == Some(name) || aliases.any(|alias| alias == name)
        });
        // `-n4` is a short option with its value.
        let short = || {
            let mut letters = name.chars();
            let letter = letters.next().filter(|_| dashes == 1)?;
            let is_it = |arg: &&clap::Arg| {
                let aliases = arg.get_all_short_aliases().unwrap_or_default();
                arg.get_short() == Some(letter) || aliases.contains(&letter)
            };
            let arg = command.get_arguments().find(is_it)?;
            let alone = letters.as_str().is_empty();
            (alone || letters.as_str().starts_with(|c: char| c.is_ascii_digit())).then_some((arg, alone))
        };
        let found = long.map_or_else(short, |arg| Some((arg, true)));
        let Some((arg, alone)) = found else {
            if let Some(words) = foreign::synonym(name) {
                normal.extend(words.iter().map(OsString::from));
                rest = after;
                continue;
            }
            if let Some(advice) = foreign::advice(name) {
                return Err(Failure::usage(format!(
                    "the option '{}' {advice}",
                    word.display()
                )));
            }
            let word = word.display();
            return Err(Failure::usage(format!(
                "unknown option '{word}' (mpiexec --help lists all)"
            )));
        };
        normal.push(match long {
            Some(_) if dashes == 1 => OsString::from(format!("-{}", word.display())),
            _ => word.clone(),
        });
        let takes_values = alone && value.is_none() && arg.get_action().takes_values();
        let count = arg
            .get_num_args()
            .filter(|_| takes_values)
            .map_or(0, |range| range.max_values());
        // `-env NAME=VALUE` is taken, too.
        if count == 2
            && let Some(first) = after.first()
            && let Some(at) = first.as_bytes().iter().position(|&byte| byte == b'=')
        {
            let (name, value) = (&first.as_bytes()[..at], &first.as_bytes()[at + 1..]);
            normal.extend([name, value].map(|bytes| OsString::from_vec(bytes.to_vec())));
            rest = &after[1..];
            continue;
        }
        let (values, after) = after.split_at(count.min(after.len()));
        normal.extend_from_slice(values);
        rest = after;
    }
    Ok((normal, rest))
}

/// `-name` and `--name`, but not `-`.
fn split_dashes(word: &str) -> Option<(usize, &str)> {
    let (dashes, name) = match word.strip_prefix("--") {
        Some(name) => (2, name),
        None => (1, word.strip_prefix('-')?),
    };
    (!name.is_empty()).then_some((dashes, name))
}

/// The sentence of an error of clap, without the usage that follows it.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:"));
    let sentence = lines
        .filter(|line| !line.is_empty() && !line.starts_with("For more"))
        .collect::<Vec<_>>()
        .join(" ");
    sentence.strip_prefix("error: ").unwrap_or(&sentence).to_string()
}

/// The words of a file of `-configfile` (MPI 5.0, section 11.5): a program's part on each line, which may go on after a `\` at its
/// end; lines that begin with `#` don't count. Words are split at blanks; those in quotes stay whole.
pub fn of_file(path: &Path) -> Result<Vec<OsString>, Failure> {
    let wrong = |why: String| Failure::usage(format!("the file '{}' of -configfile {why}", path.display()));
    let bytes =
        std::fs::read(path).map_err(|error| wrong(format!("can't be read: {}", system_words(&error))))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("is not text".into()))?;
    let mut all: Vec<OsString> = Vec::new();
    let mut part = String::new();
    for (line, number) in text.lines().zip(1..) {
        if part.is_empty() && line.trim_start().starts_with('#') {
            continue;
        }
        if let Some(begin) = line.strip_suffix('\\') {
            part += begin;
            part.push(' ');
            continue;
        }
        part += line;
        let words = quoted_words(&std::mem::take(&mut part))
            .ok_or_else(|| wrong(format!("has a quote without end on line {number}")))?;
        if !words.is_empty() {
            let colon = (!all.is_empty()).then(|| OsString::from(":"));
            // An own colon at the end of a line is allowed.
            let ends = all.last().is_some_and(|word| word == ":") || words[0] == ":";
            all.extend(colon.filter(|_| !ends));
            all.extend(words.into_iter().map(OsString::from));
        }
    }
    all.pop_if(|word| word == ":");
    match all.is_empty() {
        true => Err(wrong("has no program".into())),
        false => Ok(all),
    }
}

/// Words between blanks; `None`: a quote has no end.
fn quoted_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_program_on_each_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            of_file(&path).map(|words| {
                let words: Vec<String> = words.iter().map(|word| word.display().to_string()).collect();
                words.join("|")
            })
        };
        assert_eq!(
            read("# two\n-n 1 ./a 'x y' \"\"\n\n-n 2 \\\n ./b # no comment\n").as_deref(),
            Ok("-n|1|./a|x y||:|-n|2|./b|#|no|comment")
        );
        assert_eq!(read("./a :\n./b\n").as_deref(), Ok("./a|:|./b"));
        assert!(read("./a 'x\n").unwrap_err().message.contains("line 1"));
        assert!(read("# nothing\n").unwrap_err().message.contains("no program"));
        std::fs::write(&path, [0xff]).unwrap();
        assert!(of_file(&path).unwrap_err().message.contains("not text"));
        assert!(
            of_file(&folder.path().join("none"))
                .unwrap_err()
                .message
                .contains("can't be read")
        );
    }
}
