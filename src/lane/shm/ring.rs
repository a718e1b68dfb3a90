//! A ring from one sender to one receiver: what its words mean, and which side may access what, and when. Where the words
//! are in memory is defined by [`Memory`], so that loom can run the same code over memory of its own.
//!
//! A message takes one *cell*, a cache line of its own: a word, the header, and up to [`INLINE`] bytes of payload. A
//! longer payload is in the *bulk*, a ring of bytes, where both sides compute its place from what came before: no
//! position is ever read from memory that the other side writes.
//!
//! The bulk is short at first. When a long payload reaches its end, the sender makes the bulk longer, up to a maximum,
//! before it starts again at the beginning: long messages are fastest where a lap is so long that the beginning has left
//! the caches of both cores when it is used again, and all others need little memory. Only the sender knows how long the
//! bulk is, so it tells the receiver where it starts again at the beginning.
//!
//! The word contains which message of the ring it is (so a cell of the last lap is never taken for a new one, and nothing
//! has to be cleared), how long its payload is, and whether that is at the beginning of the bulk. It is stored last, with
//! release; the receiver's acquire load of it makes the rest of the cell and the bulk visible. The receiver returns room
//! by two counters, stored with release after its last access to the bytes, and not after every message; the sender loads
//! them, with acquire, only when it seems to have no room.
//!
//! A sender that found no room and goes to sleep asks to be woken: [`Sender::ask_for_room`], a fence,
//! [`Sender::has_room`]. The receiver checks whether it was asked each time it has returned room. That is the protocol of
//! [`flag`].
//!
//! Long payloads are written by plain or by streaming stores ([`stores`](super::stores)). The word contains which; the
//! receiver returns its copying times for both together with the room.
//!
//! All that is read here was written by another process, so it is checked: an impossible word is [`Popped::Nonsense`].

use super::flag::{self, Flag};
use super::stores::{self, Allowed, Reader, StoreKind, Writer};
use crate::base::bytes::{RawBytes, RawRoom, copy_apart};
use crate::lane::HEADER_BYTES;

/// Payload bytes that lie in the cell itself.
pub const INLINE: usize = 16;
/// Payloads in the bulk begin at multiples of this many bytes.
pub const LINE: usize = 64;

/// Where the words and bytes of a ring are in memory. Indices and offsets are below the sizes given here.
pub trait Memory {
    /// Number of cells: a power of two.
    const CELLS: u64;
    /// The most bytes of the bulk: a power of two.
    const BULK: u64;
    /// How many it has at first: a power of two.
    const FIRST: u64;
    /// From this many bytes on, a payload makes the bulk grow.
    const LONG: usize;

    /// Loads the word of a cell (acquire).
    fn word(&self, cell: u64) -> u64;
    /// Stores the word of a cell (release).
    fn publish(&self, cell: u64, word: u64);
    /// Writes what follows the word in a cell: at most [`INLINE`] bytes of payload.
    fn fill(&self, cell: u64, header: &[u8; HEADER_BYTES], payload: RawBytes);
    /// Reads what follows the word.
    fn contents(&self, cell: u64) -> ([u8; HEADER_BYTES], [u8; INLINE]);
    /// Lets `fill` write `len` bytes into the bulk. Their previous contents have no meaning.
    fn write(&self, at: u64, len: usize, fill: impl FnOnce(RawRoom));
    /// For the sender: doubles the bulk, which has `from` bytes now and less than the most. `false`: it stays as it is.
    fn grow(&mut self, from: u64) -> bool;
    /// Passes bytes of the bulk to `see`.
    fn read(&self, at: u64, len: usize, see: impl FnOnce(RawBytes));
    /// Loads how many cells and bytes of the bulk the receiver has returned (acquire).
    fn given_back(&self) -> (u64, u64);
    /// Stores the same (release).
    fn give_back(&self, cells: u64, bulk: u64);
    /// Loads what the receiver reports about its copies ([`Reader::word`]).
    fn times(&self) -> u64;
    /// Stores the same.
    fn tell_times(&self, times: u64);
    /// Whether the sender sleeps until there is room.
    fn wants_room(&self) -> impl Flag;
}

/// What the other side wrote is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nonsense;

/// The longest payload of a ring: two of them fit into the room that is left when the receiver has not yet returned a
/// quarter, so that one always finds a place, wherever the bulk's end is.
pub const fn payload_max<M: Memory>() -> usize {
    kept::<M>() as usize
}

/// The receiver returns bytes of the bulk when it has this many.
const fn kept<M: Memory>() -> u64 {
    M::FIRST / 4
}

/// In a word: the payload lies at the beginning of the bulk, though there may be room after the last one.
const ANEW: u64 = 1 << 31;
/// In a word: the payload was written by streaming stores.
const STREAMED: u64 = 1 << 30;
/// In a word: the payload's length.
const LENGTH: u64 = STREAMED - 1;

#[inline(always)]
fn word(number: u64, len: usize, marks: u64) -> u64 {
    u64::from(number as u32) << 32 | marks | len as u64
}

/// Where the next payload of `len` bytes begins and ends, as positions that only grow: each lap of positions is as long
/// as the longest bulk, so a position stands for the same bytes however long the bulk has become.
#[inline(always)]
fn place<M: Memory>(position: u64, len: usize, anew: bool) -> (u64, u64) {
    let start = if anew {
        position.next_multiple_of(M::BULK)
    } else {
        position
    };
    (start, start + (len as u64).next_multiple_of(LINE as u64))
}

/// The sending side.
pub struct Sender<M> {
    memory: M,
    /// Messages sent.
    sent: u64,
    /// The end of the last payload in the bulk.
    bulk: u64,
    /// How many bytes the bulk has, and whether it may have more.
    bulk_len: u64,
    grows: bool,
    /// What the receiver has returned, as last loaded.
    cells_back: u64,
    bulk_back: u64,
    /// The end in the bulk of the last message that found no room.
    short_of: Option<u64>,
    writer: Writer,
}

impl<M: Memory> Sender<M> {
    /// The sender of an empty ring, whose memory is all zero. Long payloads are written by the stores that are allowed.
    pub fn new(memory: M, stores: Allowed) -> Sender<M> {
        Sender {
            memory,
            sent: 0,
            bulk: 0,
            bulk_len: M::FIRST,
            grows: M::FIRST < M::BULK,
            cells_back: 0,
            bulk_back: 0,
            short_of: None,
            writer: Writer::new(stores),
        }
    }

    /// Puts a message into the ring. `false`: it is full. The payload has at most [`payload_max`] bytes.
    #[inline(always)]
    pub fn push(&mut self, header: &[u8; HEADER_BYTES], payload: RawBytes) -> Result<bool, Nonsense> {
        if payload.len() > INLINE {
            return self.push_bulk(header, payload.len(), move |mut to, writer| {
                assert_eq!(to.len(), payload.len());
                let (from, to, len) = (payload.as_ptr(), to.as_mut_ptr(), payload.len());
                // SAFETY: both have the same length; no buffer of a message lies in a ring. A payload in the bulk begins at a line.
                unsafe {
                    if len >= stores::LONG {
                        return writer.copy(from, to, len);
                    }
                    copy_apart(from, to, len);
                }
                StoreKind::Cached
            });
        }
        if !self.has_cell()? {
            return Ok(false);
        }
        self.memory.fill(self.sent % M::CELLS, header, payload);
        self.publish(payload.len(), 0);
        Ok(true)
    }

    /// As [`Sender::push`], for `len` bytes that `fill` writes.
    pub fn push_packed(
        &mut self,
        header: &[u8; HEADER_BYTES],
        len: usize,
        fill: impl FnOnce(RawRoom),
    ) -> Result<bool, Nonsense> {
        if len > INLINE {
            return self.push_bulk(header, len, |to, _| {
                fill(to);
                StoreKind::Cached
            });
        }
        let mut short = [0; INLINE];
        fill(RawRoom::from(&mut short[..len]));
        self.push(header, RawBytes::from(&short[..len]))
    }

    #[inline(never)]
    fn push_bulk(
        &mut self,
        header: &[u8; HEADER_BYTES],
        len: usize,
        fill: impl FnOnce(RawRoom, &mut Writer) -> StoreKind,
    ) -> Result<bool, Nonsense> {
        let at = self.bulk % M::BULK;
        let anew = at + len as u64 > self.bulk_len && !self.grow(len);
        let (start, end) = place::<M>(self.bulk, len, anew);
        if !self.has_cell()? || end - self.bulk_back > M::BULK && !self.look(end)? {
            return Ok(false);
        }
        let mut marks = if anew { ANEW } else { 0 };
        self.memory.write(start % M::BULK, len, |to| {
            if fill(to, &mut self.writer) == StoreKind::Streaming {
                marks |= STREAMED;
            }
        });
        self.memory
            .fill(self.sent % M::CELLS, header, RawBytes::from(&[][..]));
        self.bulk = end;
        self.publish(len, marks);
        Ok(true)
    }

    /// Makes the bulk grow for a payload that finds no room at its end.
    #[cold]
    fn grow(&mut self, len: usize) -> bool {
        if len < M::LONG || !self.grows {
            return false;
        }
        self.grows = self.memory.grow(self.bulk_len);
        if self.grows {
            self.bulk_len *= 2;
            self.grows = self.bulk_len < M::BULK;
            return true;
        }
        false
    }

    #[inline(always)]
    fn has_cell(&mut self) -> Result<bool, Nonsense> {
        Ok(self.sent - self.cells_back < M::CELLS || self.look(self.bulk)?)
    }

    #[inline(always)]
    fn publish(&mut self, len: usize, marks: u64) {
        let cell = self.sent % M::CELLS;
        self.sent += 1;
        self.memory.publish(cell, word(self.sent, len, marks));
    }

    /// Loads what the receiver has returned, which is no less than before and no more than was sent: whether there is a
    /// free cell, and the bulk is free up to `end`.
    #[cold]
    fn look(&mut self, end: u64) -> Result<bool, Nonsense> {
        let (cells, bulk) = self.memory.given_back();
        if !(self.cells_back..=self.sent).contains(&cells) || !(self.bulk_back..=self.bulk).contains(&bulk) {
            return Err(Nonsense);
        }
        self.cells_back = cells;
        self.bulk_back = bulk;
        self.writer.hear(self.memory.times());
        let room = self.sent - cells < M::CELLS && end <= bulk + M::BULK;
        self.short_of = (!room).then_some(end);
        Ok(room)
    }

    /// The memory of its words.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Whether a message found no room, and none has been found since.
    pub fn is_short(&self) -> bool {
        self.short_of.is_some()
    }

    /// Asks the receiver to ring when it has returned room, if a message found none.
    pub fn ask_for_room(&self) {
        if self.is_short() {
            self.memory.wants_room().set(true);
        }
    }

    /// After [`Sender::ask_for_room`] and a fence: whether the message that found no room would find some now. If not, the receiver rings.
    pub fn has_room(&mut self) -> bool {
        let Some(end) = self.short_of else {
            return true;
        };
        // Invalid counters are reported by the next message.
        let room = self.look(end).unwrap_or(true);
        if room {
            self.memory.wants_room().set(false);
        }
        room
    }
}

/// What [`Receiver::pop`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Popped {
    /// No message.
    Nothing,
    /// One, and it was delivered.
    Message,
    /// The same, and the sender has to be woken: it sleeps until there is room, and now there is.
    MessageAndBell,
    /// Something that no sender writes.
    Nonsense,
}

/// The receiving side.
pub struct Receiver<M> {
    memory: M,
    /// Messages received.
    received: u64,
    /// The end of the last payload in the bulk.
    bulk: u64,
    /// What was returned.
    cells_back: u64,
    bulk_back: u64,
    reader: Reader,
}

impl<M: Memory> Receiver<M> {
    /// The receiver of a ring that its sender may have begun to use.
    pub fn new(memory: M) -> Receiver<M> {
        Receiver {
            memory,
            received: 0,
            bulk: 0,
            cells_back: 0,
            bulk_back: 0,
            reader: Reader::new(),
        }
    }

    /// The memory of its words.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Whether [`Receiver::pop`] would find something.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let word = self.memory.word(self.received % M::CELLS);
        (word >> 32) as u32 == self.stale()
    }

    /// The number in the next cell while nothing new is there.
    #[inline(always)]
    fn stale(&self) -> u32 {
        let last_lap = self.received as u32;
        if self.received < M::CELLS {
            0
        } else {
            last_lap.wrapping_sub(M::CELLS as u32).wrapping_add(1)
        }
    }

    /// Delivers the next message, if there is one.
    #[inline(always)]
    pub fn pop(&mut self, deliver: impl FnOnce(&[u8; HEADER_BYTES], RawBytes)) -> Popped {
        let cell = self.received % M::CELLS;
        let word = self.memory.word(cell);
        let number = (word >> 32) as u32;
        if number != self.received.wrapping_add(1) as u32 {
            return if number == self.stale() {
                Popped::Nothing
            } else {
                Popped::Nonsense
            };
        }
        let len = (word & LENGTH) as usize;
        let (header, short) = self.memory.contents(cell);
        if let Some(payload) = short.get(..len) {
            deliver(&header, payload.into());
        } else if !self.pop_bulk(word, len, |payload| deliver(&header, payload)) {
            return Popped::Nonsense;
        }
        self.received += 1;
        if self.received - self.cells_back >= M::CELLS / 4 || self.bulk - self.bulk_back >= kept::<M>() {
            self.cells_back = self.received;
            self.bulk_back = self.bulk;
            self.memory.tell_times(self.reader.word());
            self.memory.give_back(self.received, self.bulk);
            if flag::must_ring(&self.memory.wants_room()) {
                return Popped::MessageAndBell;
            }
        }
        Popped::Message
    }

    /// Delivers a payload from the bulk. `false`: it can't be there. Separate from [`Receiver::pop`], which would have to save
    /// more registers for short messages otherwise.
    #[inline(never)]
    fn pop_bulk(&mut self, word: u64, len: usize, deliver: impl FnOnce(RawBytes)) -> bool {
        let (start, end) = place::<M>(self.bulk, len, word & ANEW != 0);
        let at = start % M::BULK;
        if len > payload_max::<M>() || at + len as u64 > M::BULK {
            return false;
        }
        let read = || self.memory.read(at, len, deliver);
        if len < stores::LONG {
            read();
        } else {
            let kind = if word & STREAMED == 0 {
                StoreKind::Cached
            } else {
                StoreKind::Streaming
            };
            self.reader.timed(kind, len, read);
        }
        self.bulk = end;
        true
    }
}
