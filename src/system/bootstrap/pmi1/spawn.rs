//! Spawning by Weft's launcher: the lines `weft_spawn` and `weft_spawned`.

use std::sync::atomic::{AtomicU32, Ordering};

use rustc_hash::FxHashMap;

use super::wire::{self, Message};
use super::words;
use super::{Pmi1, gone};
use crate::base::error::Result;
use crate::err;
use crate::system::bootstrap::{Notice, Spawn, Spawned};

/// How much of a list one line carries (bytes; twice as many digits).
const PART_BYTES: usize = 7 * 1024;

/// The number of the next spawn of this process, which may connect to its launcher several times.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The spawns of this process that were asked for and not yet told.
#[derive(Default)]
pub(super) struct Spawns(FxHashMap<u32, UnderWay>);

struct UnderWay {
    commands: usize,
    /// What has come of the answer.
    answer: Vec<u8>,
    outcome: Option<Result<Spawned>>,
}

impl Pmi1 {
    pub(super) fn send_spawn(&mut self, spawn: &Spawn) -> Result<u32> {
        if !self.weft {
            return Err(err!(
                Spawn,
                "the launcher of this job can't start further processes; Weft's mpiexec can"
            ));
        }
        if self.over {
            return Err(gone());
        }
        let list = words::of_spawn(spawn);
        if list.len() > words::BYTES_MAX {
            return Err(err!(
                Spawn,
                "arguments and info of the processes to start have {} bytes together; at most {} are possible",
                list.len(),
                words::BYTES_MAX
            ));
        }
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut parts = list.chunks(PART_BYTES).peekable();
        while let Some(part) = parts.next() {
            let more = u8::from(parts.peek().is_some());
            self.send(&format!(
                "cmd=weft_spawn id={id} more={more} data={}\n",
                wire::to_hex(part)
            ))?;
        }
        self.spawns.0.insert(
            id,
            UnderWay {
                commands: spawn.commands.len(),
                answer: Vec::new(),
                outcome: None,
            },
        );
        Ok(id)
    }

    pub(super) fn take_spawned(&mut self, spawn: u32) -> Result<Option<Spawned>> {
        self.take_answers()?;
        match self.spawns.0.get(&spawn) {
            None => Err(err!(Intern, "there is no spawn {spawn}")),
            Some(UnderWay { outcome: None, .. }) => Ok(None),
            Some(_) => self
                .spawns
                .0
                .remove(&spawn)
                .and_then(|known| known.outcome)
                .transpose(),
        }
    }

    /// A part of the answer to a spawn.
    pub(super) fn read_spawned(&mut self, answer: &Message) -> Result<()> {
        let id: u32 = answer.number("id")?;
        let part = wire::from_hex(answer.get("data")?)?;
        // One that was asked for over the last connection has nobody who waits for it.
        let Some(known) = self.spawns.0.get_mut(&id) else {
            return Ok(());
        };
        if known.outcome.is_some() {
            return Err(err!(Other, "the launcher answered the spawn {id} twice"));
        }
        known.answer.extend(part);
        if known.answer.len() > words::BYTES_MAX {
            return Err(err!(Other, "the launcher's answer to a spawn is too long"));
        }
        if answer.number::<u8>("more")? == 0 {
            known.outcome = Some(words::to_outcome(&known.answer, known.commands)?);
        }
        Ok(())
    }

    pub(super) fn read_not_connected(&mut self, line: &Message) -> Result<()> {
        self.notices.push(Notice::NotConnected {
            spawn: line.number("id")?,
            why: text_of(line, "why")?,
        });
        Ok(())
    }
}

/// A value that is sent in hexadecimal.
pub(super) fn text_of(line: &Message, key: &str) -> Result<String> {
    String::from_utf8(wire::from_hex(line.get(key)?)?).map_err(|_| {
        err!(
            Other,
            "the launcher's '{}' has a {key}= that is not text",
            line.command()
        )
    })
}
