//! Memory that peers read, or also write, by cross-memory attach ([`super::cma`]).
//!
//! A key names one run of memory. Where there are more, it names a table of them, which stays in the memory of the
//! process that registers them until it deregisters them, and which the reader reads part by part.

use std::collections::HashMap;
use std::io;

use rustc_hash::FxBuildHasher;

use super::cma;
use crate::data::kind::MemoryKind;
use crate::data::pieces::{Cursor, Piece, total};
use crate::lane::{Region, RemoteKey};

/// Marks keys of this lane: a message that comes by one lane may be answered by another.
const RUN: u8 = b's';
/// The same, for the key of a table.
const TABLE: u8 = b't';
/// The same, for the key of a run that peers may write to.
const EXPOSED: u8 = b'e';

/// An entry of a table: address and length.
type Entry = [u64; 2];

/// The tables of this process.
#[derive(Default)]
pub struct Tables {
    tables: HashMap<u64, Box<[Entry]>, FxBuildHasher>,
    latest: u64,
}

#[cfg(test)]
impl Tables {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.tables.len()
    }
}

impl Tables {
    /// Registers some pieces.
    pub fn register(&mut self, pieces: &[Piece]) -> (Region, RemoteKey) {
        let len = total(pieces) as u64;
        let entry = |piece: &Piece| [piece.address.expose_provenance() as u64, piece.len as u64];
        if let [piece] = pieces {
            let [address, _] = entry(piece);
            return (Region(0), encode(RUN, &[address, len]));
        }
        let table: Box<[Entry]> = pieces.iter().map(entry).collect();
        self.latest += 1;
        let address = table.as_ptr().expose_provenance() as u64;
        let key = encode(TABLE, &[address, len, table.len() as u64, self.latest]);
        self.tables.insert(self.latest, table);
        (Region(self.latest), key)
    }

    /// Lets peers write to some memory as well as read it.
    pub fn expose(memory: Piece) -> (Region, RemoteKey) {
        let address = memory.address.expose_provenance() as u64;
        (Region(0), encode(EXPOSED, &[address, memory.len as u64]))
    }

    /// Ends an registration.
    pub fn deregister(&mut self, region: Region) {
        self.tables.remove(&region.0);
    }
}

fn encode(kind: u8, numbers: &[u64]) -> RemoteKey {
    let mut bytes = vec![kind];
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    RemoteKey(bytes)
}

fn decode<const COUNT: usize>(bytes: &[u8]) -> Option<[u64; COUNT]> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = <&[[u8; 8]; COUNT]>::try_from(words).ok()?;
    rest.is_empty().then(|| words.map(u64::from_le_bytes))
}

/// What a peer has registered.
pub enum Registered {
    /// One run.
    Run { address: u64, len: u64, exposed: bool },
    /// Several.
    Table(Table),
}

/// A table in a peer's memory.
pub struct Table {
    address: u64,
    len: u64,
    entries: u64,
    number: u64,
}

/// Where the latest read of a peer's table ended, since the next one mostly continues there.
#[derive(Clone, Copy, Default)]
pub struct Bookmark {
    /// The table's number; they begin with 1.
    number: u64,
    /// Bytes of the entries before this one.
    start: u64,
    entry: u64,
}

impl Registered {
    /// Checks a key from a message.
    pub fn decode(RemoteKey(key): &RemoteKey) -> Option<Registered> {
        match key.split_first()? {
            (&kind @ (RUN | EXPOSED), rest) => {
                let [address, len] = decode(rest)?;
                let exposed = kind == EXPOSED;
                Some(Registered::Run {
                    address,
                    len,
                    exposed,
                })
            }
            (&TABLE, rest) => {
                let [address, len, entries, number] = decode(rest)?;
                Some(Registered::Table(Table {
                    address,
                    len,
                    entries,
                    number,
                }))
            }
            _ => None,
        }
    }

    /// Whether it has `len` bytes at `offset`.
    pub fn has(&self, offset: u64, len: usize) -> bool {
        let (Registered::Run { len: all, .. } | Registered::Table(Table { len: all, .. })) = *self;
        offset.checked_add(len as u64).is_some_and(|end| end <= all)
    }

    /// Reads as much as `into` has room for, from the byte `offset` on, in the memory of process `pid`.
    ///
    /// # Safety
    /// `into` is valid for writes.
    pub unsafe fn read(
        &self,
        pid: u32,
        offset: u64,
        into: &[Piece],
        bookmark: &mut Bookmark,
    ) -> io::Result<()> {
        let mut at = Cursor::default();
        match self {
            // SAFETY: the caller's pieces are valid for writing, and nobody else uses them.
            Registered::Run { address, .. } => unsafe {
                let from = cma::remote(address.wrapping_add(offset), total(into));
                cma::read(pid, &[from], into, &mut at)
            },
            // SAFETY: as above.
            Registered::Table(table) => unsafe { table.read(pid, offset, into, bookmark) },
        }
    }
}

impl Registered {
    /// Writes all of `from` into the memory of process `pid`, from the byte `offset` on.
    ///
    /// # Safety
    /// `from` is valid for reads, and process `pid` has exposed the memory, or has had it exposed: it is not checked whether it still is.
    pub unsafe fn write(&self, pid: u32, offset: u64, from: &[Piece]) -> io::Result<()> {
        let &Registered::Run {
            address,
            exposed: true,
            ..
        } = self
        else {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it is registered for being read only",
            ));
        };
        let into = cma::remote(address.wrapping_add(offset), total(from));
        // SAFETY: as the caller says.
        unsafe { cma::write(pid, &[into], from) }
    }
}

impl Table {
    /// # Safety
    /// As for [`Registered::read`].
    unsafe fn read(
        &self,
        pid: u32,
        mut offset: u64,
        into: &[Piece],
        bookmark: &mut Bookmark,
    ) -> io::Result<()> {
        if bookmark.number != self.number || bookmark.start > offset {
            *bookmark = Bookmark {
                number: self.number,
                ..Bookmark::default()
            };
        }
        let (mut at, mut left) = (Cursor::default(), total(into) as u64);
        while left > 0 {
            let mut entries = [[0u64; 2]; cma::BATCH];
            let count = (self.entries.saturating_sub(bookmark.entry)).min(cma::BATCH as u64) as usize;
            if count == 0 {
                // The table describes less memory than its key says.
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let entries = &mut entries[..count];
            self.load(pid, bookmark.entry, entries)?;
            let mut runs = [Piece::EMPTY; cma::BATCH];
            let mut number = 0;
            for &[address, len] in &*entries {
                if left == 0 {
                    break;
                }
                let end = bookmark
                    .start
                    .checked_add(len)
                    .ok_or(io::ErrorKind::InvalidData)?;
                if offset < end {
                    let skip = offset - bookmark.start;
                    let some = (len - skip).min(left);
                    runs[number] = cma::remote(address.wrapping_add(skip), some as usize);
                    number += 1;
                    (offset, left) = (offset + some, left - some);
                }
                if offset >= end {
                    (bookmark.start, bookmark.entry) = (end, bookmark.entry + 1);
                }
            }
            // SAFETY: the caller says that these pieces are valid for writing.
            unsafe { cma::read(pid, &runs[..number], into, &mut at) }?;
        }
        Ok(())
    }

    /// Reads the entries from `first` on.
    fn load(&self, pid: u32, first: u64, entries: &mut [Entry]) -> io::Result<()> {
        let bytes = size_of_val(entries);
        let from = self
            .address
            .wrapping_add(first.wrapping_mul(size_of::<Entry>() as u64));
        let into = Piece {
            address: entries.as_mut_ptr().cast(),
            len: bytes,
            kind: MemoryKind::System,
        };
        // SAFETY: `entries` is the caller's, and any bytes are numbers.
        unsafe { cma::read(pid, &[cma::remote(from, bytes)], &[into], &mut Cursor::default()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_has_its_own_number() {
        let bytes = [0u8; 8];
        let pieces = [Piece::of(&bytes[..2]), Piece::of(&bytes[4..])];
        let mut tables = Tables::default();
        let (first, key) = tables.register(&pieces);
        let (second, other) = tables.register(&pieces);
        assert!(first != second && key.0 != other.0);
        tables.deregister(first);
        assert_eq!(tables.tables.keys().collect::<Vec<_>>(), [&second.0]);
    }
}
