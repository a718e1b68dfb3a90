//! Spawning by Weft's launcher: the lines `weft_spawn` and `weft_spawned`; and what is known of all spawns.

use std::collections::VecDeque;
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
pub(super) struct Spawns {
    pub known: FxHashMap<u32, UnderWay>,
    /// Those without an answer, where answers do not say whose they are.
    pub in_order: VecDeque<u32>,
}

pub(super) struct UnderWay {
    commands: usize,
    /// What has come of the answer.
    answer: Vec<u8>,
    /// The outcome, if the launcher's answer is a good one.
    pub expected: Option<Spawned>,
    pub outcome: Option<Result<Spawned>>,
}

impl Spawns {
    /// The number of the next one.
    pub fn next(&self) -> u32 {
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}

impl UnderWay {
    /// A spawn of so many commands.
    pub fn of(commands: usize) -> UnderWay {
        UnderWay {
            commands,
            answer: Vec::new(),
            expected: None,
            outcome: None,
        }
    }
}

impl Pmi1 {
    pub(super) fn send_spawn(&mut self, spawn: &Spawn) -> Result<u32> {
        if !self.weft {
            return self.send_foreign_spawn(spawn);
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
        let id = self.spawns.next();
        let mut parts = list.chunks(PART_BYTES).peekable();
        while let Some(part) = parts.next() {
            let more = u8::from(parts.peek().is_some());
            self.send(&format!(
                "cmd=weft_spawn id={id} more={more} data={}\n",
                wire::to_hex(part)
            ))?;
        }
        let commands = spawn.commands.len();
        self.spawns.known.insert(id, UnderWay::of(commands));
        Ok(id)
    }

    pub(super) fn take_spawned(&mut self, spawn: u32) -> Result<Option<Spawned>> {
        self.take_answers()?;
        match self.spawns.known.get(&spawn) {
            None => Err(err!(Intern, "there is no spawn {spawn}")),
            Some(UnderWay { outcome: None, .. }) => Ok(None),
            Some(_) => self
                .spawns
                .known
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
        let Some(known) = self.spawns.known.get_mut(&id) else {
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
