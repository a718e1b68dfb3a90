//! A spawn as programs of other MPIs ask for it: a block of lines for each command, from `mcmd=spawn` to `endcmd`.

use std::collections::HashMap;

use weft::tools::pmi1::{wire, words};
use weft::tools::{Spawn, SpawnCommand};
use weft::{Error, Result, err};

use crate::server::{KEYLEN_MAX, WEFT_VALLEN_MAX};

/// How many keys may be put for new processes. MPICH puts one.
const PREPUT_MAX: usize = 100;

/// A whole request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// What to start. There is no port.
    pub spawn: Spawn,
    /// Keys and values that the new processes find in their key-value space from the start.
    pub preput: Vec<(String, String)>,
}

/// A request that is coming in.
#[derive(Default)]
pub struct Lines {
    /// The block, from its second line on; `None` between blocks.
    block: Option<HashMap<String, String>>,
    /// Of the blocks before.
    commands: Vec<SpawnCommand>,
    preput: Vec<(String, String)>,
    bytes: usize,
}

impl Lines {
    /// Whether the next line belongs to a block.
    pub fn is_within(&self) -> bool {
        self.block.is_some()
    }

    /// A block begins.
    pub fn begin(&mut self) {
        self.block = Some(HashMap::new());
    }

    /// The next line of the block; a request, if it is the last of its last block.
    ///
    /// # Errors
    /// It is no such line, or the block is not complete.
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Request>> {
        self.bytes += line.len();
        if self.bytes > words::BYTES_MAX {
            return Err(err!(Other, "what a rank asks to spawn is too long"));
        }
        if line == b"endcmd" {
            return self.end();
        }
        // A value may have blanks.
        let (key, value) = std::str::from_utf8(line)
            .ok()
            .and_then(|line| line.split_once('='))
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| err!(Other, "a line of the PMI command 'spawn' is not key=value"))?;
        if let Some(block) = &mut self.block {
            block.insert(key.to_string(), value.to_string());
        }
        Ok(None)
    }

    fn end(&mut self) -> Result<Option<Request>> {
        let block = Block(self.block.take().unwrap_or_default());
        self.commands.push(SpawnCommand {
            program: block.text("execname".into())?.into(),
            count: block.number("nprocs")?,
            arguments: block.several("argcnt", 1, |number| {
                Ok(block.text(format!("arg{number}"))?.into())
            })?,
            info: (block.pairs("info_num", "info_key_", "info_val_")?.into_iter())
                .map(|(key, value)| (key, value.into()))
                .collect(),
        });
        for (key, value) in block.pairs("preput_num", "preput_key_", "preput_val_")? {
            // They are answered in lines like those that are put later.
            if !wire::is_word(&key)
                || !wire::is_word(&value)
                || key.len() > KEYLEN_MAX
                || value.len() > WEFT_VALLEN_MAX
            {
                return Err(err!(
                    Other,
                    "the PMI command 'spawn' has the key '{key:.40}' with a value that no key can have"
                ));
            }
            if !self.preput.iter().any(|(known, _)| *known == key) {
                if self.preput.len() == PREPUT_MAX {
                    return Err(err!(
                        Other,
                        "the PMI command 'spawn' has more than {PREPUT_MAX} keys for the new processes"
                    ));
                }
                self.preput.push((key, value));
            }
        }
        let (all, number): (usize, usize) = (block.number("totspawns")?, block.number("spawnssofar")?);
        if number != self.commands.len() || number > all {
            return Err(err!(
                Other,
                "the PMI command 'spawn' has spawnssofar={number} and totspawns={all} in block {}",
                self.commands.len()
            ));
        }
        if number < all {
            return Ok(None);
        }
        let whole = std::mem::take(self);
        Ok(Some(Request {
            spawn: Spawn {
                commands: whole.commands,
                ..Spawn::default()
            },
            preput: whole.preput,
        }))
    }
}

/// A block whose last line has come.
struct Block(HashMap<String, String>);

impl Block {
    fn text(&self, key: String) -> Result<String> {
        self.0.get(&key).cloned().ok_or_else(|| lacks(&key))
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Result<T> {
        let text = self.0.get(key).ok_or_else(|| lacks(key))?;
        text.parse().map_err(|_| {
            err!(
                Other,
                "the PMI command 'spawn' has {key}={text:.20}: a number is expected"
            )
        })
    }

    /// As many as `count` says, if it is there, numbered from `first`. A number that is not true finds no line for what it claims.
    fn several<T>(&self, count: &str, first: usize, one: impl Fn(usize) -> Result<T>) -> Result<Vec<T>> {
        // MPICH puts keys in the first block only.
        let count: usize = match self.0.contains_key(count) {
            true => self.number(count)?,
            false => 0,
        };
        let mut all = Vec::new();
        for number in 0..count {
            all.push(one(first + number)?);
        }
        Ok(all)
    }

    fn pairs(&self, count: &str, key: &str, value: &str) -> Result<Vec<(String, String)>> {
        self.several(count, 0, |number| {
            Ok((
                self.text(format!("{key}{number}"))?,
                self.text(format!("{value}{number}"))?,
            ))
        })
    }
}

fn lacks(key: &str) -> Error {
    err!(Other, "the PMI command 'spawn' lacks {key:.40}=")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What comes of the lines, of which each block begins with `mcmd=spawn`.
    fn read(text: &str) -> Result<Option<Request>> {
        let mut lines = Lines::default();
        let mut request = None;
        for line in text.lines() {
            if line == "mcmd=spawn" {
                assert!(!lines.is_within());
                lines.begin();
                continue;
            }
            assert!(lines.is_within() && request.is_none());
            request = lines.line(line.as_bytes())?;
        }
        assert!(!lines.is_within());
        Ok(request)
    }

    const ONE: &str = "mcmd=spawn\nnprocs=2\nexecname=./a b\ntotspawns=1\nspawnssofar=1\nargcnt=2\narg1=x=y z\narg2=\npreput_num=1\n\
                       preput_key_0=PARENT\npreput_val_0=tag#0$\ninfo_num=1\ninfo_key_0=wdir\ninfo_val_0=/a b\nendcmd\n";

    #[test]
    fn a_block_is_a_command() {
        let request = read(ONE).unwrap().unwrap();
        let [command] = &request.spawn.commands[..] else {
            panic!("{request:?}")
        };
        assert_eq!((command.program.to_str(), command.count), (Some("./a b"), 2));
        assert_eq!(command.arguments, ["x=y z", ""]);
        assert_eq!(command.info, [("wdir".into(), "/a b".into())]);
        assert_eq!(request.preput, [("PARENT".into(), "tag#0$".into())]);
        assert_eq!(request.spawn.port, "");
    }

    #[test]
    fn several_blocks_are_one_request() {
        let block = |number: usize| {
            format!(
                "mcmd=spawn\nnprocs={number}\nexecname=p{number}\ntotspawns=3\nspawnssofar={number}\n{}endcmd\n",
                // In one block, or the same in several.
                match number < 3 {
                    true => "argcnt=0\npreput_num=1\npreput_key_0=PARENT\npreput_val_0=port\ninfo_num=0\n",
                    false => "",
                }
            )
        };
        assert_eq!(read(&(block(1) + &block(2))).unwrap(), None);
        let request = read(&(block(1) + &block(2) + &block(3))).unwrap().unwrap();
        let counts: Vec<u32> = (request.spawn.commands.iter())
            .map(|command| command.count)
            .collect();
        assert_eq!((counts, request.preput.len()), (vec![1, 2, 3], 1));
        read(&block(2)).expect_err("the first one lacks");
    }

    #[test]
    fn blocks_that_are_not_complete_are_refused() {
        for (line, words) in [
            ("nprocs=2", "lacks nprocs"),
            ("execname=./a b", "lacks execname"),
            ("arg2=", "lacks arg2"),
            ("info_val_0=/a b", "lacks info_val_0"),
            ("preput_key_0=PARENT", "lacks preput_key_0"),
        ] {
            let error = read(&ONE.replace(&format!("{line}\n"), "")).unwrap_err();
            assert!(error.message.contains(words), "{error}");
        }
        for (line, other) in [
            ("nprocs=2", "nprocs=-1"),
            ("argcnt=2", "argcnt=99999999999999"),
            ("spawnssofar=1", "spawnssofar=2"),
            ("spawnssofar=1", "spawnssofar=0"),
            ("arg2=", "arg2"),
        ] {
            read(&ONE.replace(line, other)).expect_err(other);
        }
    }

    proptest! {
        #[test]
        fn no_lines_do_harm(
            lines in prop::collection::vec("(nprocs|argcnt|totspawns|spawnssofar|info_num|preput_num)=[0-3]|arg[1-3]=x|execname=x|endcmd|\\PC{0,8}", 0..20)
        ) {
            let mut read = Lines::default();
            for line in lines {
                if !read.is_within() {
                    read.begin();
                }
                if read.line(line.as_bytes()).is_err() {
                    break;
                }
            }
        }
    }
}
