//! Temporary memory of an operation, and copies between memories.

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::sync::Arc;

use super::buffer::{Address, Chunk};
use super::pool::{Block, Pool, SPARE};
use crate::base::bytes::{self, RawBytes, RawRoom};
use crate::base::error::Result;
use crate::data::datatype::Datatype;
use crate::data::memory::Memory;
use crate::data::op::Op;
use crate::err;

/// Scratch up to this many bytes is stored in the operation itself.
const INLINE: usize = 128;
/// See [`Scratch::kept`].
pub(super) const KEPT: usize = 256 << 10;
const PAGE: usize = 4096;
/// The strictest alignment of a basic type.
const ALIGN: usize = 16;

/// Bytes, aligned for every basic type: zeroed ones, or those that an earlier operation of this thread or an earlier start of the same
/// persistent one has left. Declare it before the completions that use it: values are dropped in
/// the reverse order, and the drop of a completion ends the use of its memory.
///
/// Take addresses only when it no longer moves: short ones move with it.
pub(super) struct Scratch {
    inline: UnsafeCell<[u128; INLINE / 16]>,
    /// The bytes where they are too long for that.
    heap: Option<Block>,
    /// Where they are kept for the next start.
    pool: Option<Arc<Pool>>,
    len: usize,
    /// From slot to slot, in bytes, where there are slots.
    stride: usize,
    /// From the beginning of a slot to its elements' address.
    shift: i64,
}

// SAFETY: it owns its memory.
unsafe impl Send for Scratch {}
// SAFETY: a shared reference gives only addresses; the operation that owns it orders the accesses.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// `len` bytes.
    pub fn bytes(len: usize) -> Result<Scratch> {
        #[cfg(feature = "sim")]
        if super::model::takes(len) {
            return Ok(Scratch {
                inline: UnsafeCell::new([0; INLINE / 16]),
                heap: None,
                pool: None,
                len,
                stride: 0,
                shift: 0,
            });
        }
        let mut heap = None;
        let mut pool = None;
        if len > INLINE {
            pool = Pool::current();
            heap = if pool.is_none() && len <= SPARE {
                Block::spare()
            } else {
                let layout = Layout::from_size_align(len, ALIGN).map_err(|_| too_much(len))?;
                let kept = pool.as_ref().and_then(|pool| pool.take(layout));
                kept.or_else(|| Block::zeroed(layout))
            };
            if heap.is_none() {
                return Err(too_much(len));
            }
        }
        Ok(Scratch {
            inline: UnsafeCell::new([0; INLINE / 16]),
            heap,
            pool,
            len,
            stride: 0,
            shift: 0,
        })
    }

    /// `len` bytes, of which up to [`KEPT`] are those that an earlier operation of this thread has left: so that no time is spent on
    /// pages that are new, and on zeroes.
    pub fn kept(len: usize) -> Result<Scratch> {
        if len > KEPT {
            return Scratch::bytes(len);
        }
        let layout = Layout::from_size_align(KEPT, PAGE).map_err(|_| too_much(len))?;
        let pool = Pool::of_thread();
        let Some(block) = pool.take(layout).or_else(|| Block::zeroed(layout)) else {
            return Err(too_much(len));
        };
        Ok(Scratch {
            inline: UnsafeCell::new([0; INLINE / 16]),
            heap: Some(block),
            pool: Some(pool),
            len,
            stride: 0,
            shift: 0,
        })
    }

    /// A copy of some bytes.
    pub fn of(bytes: &[u8]) -> Result<Scratch> {
        let scratch = Scratch::bytes(bytes.len())?;
        assert!(
            scratch.heap.is_some() || bytes.len() <= INLINE,
            "a model has no bytes"
        );
        // SAFETY: as long as what it is given; new, so nobody else uses it.
        unsafe { RawRoom::new(scratch.address().get(), bytes.len()) }.fill_from(bytes);
        Ok(scratch)
    }

    /// A copy of all the bytes, once no message writes them any more.
    pub fn to_vec(&self) -> Vec<u8> {
        // SAFETY: its own bytes, which were zeroed when they were allocated, and may be those of an earlier operation.
        unsafe { RawBytes::new(self.address().get(), self.len) }.to_vec()
    }

    /// `slots` times `count` elements of `datatype`, laid out as in a user's buffer.
    pub fn elements(datatype: &Datatype, count: u64, slots: usize) -> Result<Scratch> {
        let (low, len) = span(datatype, count).ok_or_else(|| too_much(usize::MAX))?;
        // Addresses of elements are as aligned as if the buffer began at a multiple of the alignment.
        let before = low.rem_euclid(ALIGN as i64);
        let stride = (before as usize)
            .checked_add(len)
            .and_then(|end| end.checked_next_multiple_of(ALIGN))
            .ok_or_else(|| too_much(len))?;
        let all = stride.checked_mul(slots).ok_or_else(|| too_much(len))?;
        let mut scratch = Scratch::bytes(all)?;
        scratch.stride = stride;
        scratch.shift = before - low;
        Ok(scratch)
    }

    /// The first byte.
    pub fn address(&self) -> Address {
        let address = match &self.heap {
            Some(block) => block.address(),
            None => self.inline.get().cast(),
        };
        // SAFETY: an operation drops its scratch after its messages have ended.
        unsafe { Address::new(address) }
    }

    /// The address of the elements in slot `slot`.
    pub fn slot(&self, slot: usize) -> Address {
        self.address().at((slot * self.stride) as i64 + self.shift)
    }

    /// All the bytes.
    pub fn all(&self) -> Chunk {
        Chunk::bytes(self.address(), self.len)
    }

    /// The `len` bytes at `offset`.
    pub fn part(&self, offset: usize, len: usize) -> Chunk {
        assert!(offset + len <= self.len, "within the scratch");
        Chunk::bytes(self.address().at(offset as i64), len)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        #[cfg(feature = "sim")]
        super::model::gives_back(self.len);
        match (&self.pool, self.heap.take()) {
            (Some(pool), Some(block)) => pool.give(block),
            (None, Some(block)) => block.give_back(),
            (_, None) => {}
        }
    }
}

/// Where the bytes of `count` elements lie relative to their address: the lowest, and how many up to the highest.
pub(super) fn span(datatype: &Datatype, count: u64) -> Option<(i64, usize)> {
    let last = i64::try_from(count.saturating_sub(1))
        .ok()?
        .checked_mul(datatype.extent())?;
    if count == 0 {
        return Some((0, 0));
    }
    let low = datatype.true_lb().checked_add(last.min(0))?;
    let len = last
        .unsigned_abs()
        .checked_add(datatype.true_extent().unsigned_abs())?;
    Some((low, usize::try_from(len).ok()?))
}

#[cold]
fn too_much(len: usize) -> crate::base::error::Error {
    err!(
        NoMem,
        "there is no memory for {len} bytes of temporary data of a collective operation"
    )
}

/// Copies between memories of the operation; an error where `to` is shorter than `from`.
pub(super) fn copy(from: &Chunk, to: &Chunk) -> Result<()> {
    let len = from.len().min(to.len());
    #[cfg(feature = "sim")]
    if super::model::copies(len) {
        return Ok(());
    }
    if len != 0 {
        // SAFETY: both are memory of the operation, which lasts as long as it (see `Chunk`), and an operation does not copy
        // between memories that overlap.
        unsafe { copy_bytes(from.memory(), to.memory(), len as usize) };
    }
    if from.len() > to.len() {
        return Err(err!(
            Truncate,
            "this process's own block has {} bytes and its place in the receive buffer {}",
            from.len(),
            to.len()
        ));
    }
    Ok(())
}

/// As [`copy`], by stores that bypass the caches, if both are one run of bytes.
pub(super) fn copy_streaming(from: &Chunk, to: &Chunk) -> Result<()> {
    if let (Some((source, number)), Some((target, room))) = (from.run(), to.run())
        && number <= room
    {
        // What stands before the first address that such stores take.
        let before = target.get().align_offset(ALIGN).min(number);
        // SAFETY: as in `copy`; the second part begins at a multiple of 16.
        unsafe {
            bytes::copy(source.get(), target.get(), before);
            if before < number {
                let (source, target) = (source.get().add(before), target.get().add(before));
                bytes::copy_streaming(source, target, number - before);
            }
        }
        return Ok(());
    }
    copy(from, to)
}

/// `inout = input op inout` for `count` elements of memory of the operation.
pub(super) fn apply(op: &Op, input: Address, inout: Address, count: u64, datatype: &Arc<Datatype>) {
    #[cfg(feature = "sim")]
    if super::model::combines(count * datatype.size()) {
        return;
    }
    // SAFETY: both are buffers of the operation that hold these elements (see `Operands`, `Scratch`): the user's and what peers
    // sent are initialized, scratch was zeroed when it was allocated, where a peer sent too little. They are different buffers, and nothing is being sent
    // from or received into `inout`.
    unsafe { op.apply(input.get(), inout.get(), count, datatype) };
}

/// So many inputs are combined at a time: as many as processes that most hosts have.
pub(super) const AT_A_TIME: usize = 32;

/// `output = inputs[0] op inputs[1] op …` for `count` elements of memory of the operation. The output may be one of the last
/// [`AT_A_TIME`] inputs.
pub(super) fn apply_many(op: &Op, inputs: &[Address], output: Address, count: u64, datatype: &Arc<Datatype>) {
    let mut pointers = [std::ptr::null::<u8>(); AT_A_TIME + 1];
    for (nth, some) in inputs.rchunks(AT_A_TIME).enumerate() {
        for (pointer, input) in pointers.iter_mut().zip(some) {
            *pointer = input.get();
        }
        // What has been combined so far comes behind these.
        let number = some.len() + usize::from(nth > 0);
        pointers[some.len()] = output.get();
        // SAFETY: as in `apply`; the output is another buffer than the inputs, or the same as one.
        unsafe { op.combine_many(&pointers[..number], output.get(), count, datatype) };
    }
}

/// # Safety
/// `from` is valid for reading, `to` for writing; both have at least `len` bytes; they do not overlap.
unsafe fn copy_bytes(from: &Memory, to: &Memory, len: usize) {
    const CHUNK: usize = 32 << 10;
    // SAFETY: each access is within the first `len` bytes, which the caller says are readable and writable, and apart.
    unsafe {
        if let Some(piece) = from.piece(0, len) {
            to.unpack(0, piece.bytes());
        } else if let Some(piece) = to.piece(0, len) {
            from.pack(0, piece.room());
        } else {
            let mut chunk = vec![0; len.min(CHUNK)];
            let mut done = 0;
            while done < len {
                let piece = &mut chunk[..(len - done).min(CHUNK)];
                from.pack(done as u64, &mut *piece);
                to.unpack(done as u64, &*piece);
                done += piece.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Class;

    #[test]
    fn a_copy_is_an_error_only_where_there_is_too_little_room() {
        for (from_len, to_len) in [(4, 8), (8, 8), (8, 4)] {
            let (mut from, mut to) = ([7u8; 8], [0u8; 8]);
            // SAFETY: both outlive the copy.
            let chunk =
                |bytes: &mut [u8; 8], count| unsafe { Chunk::bytes(Address::new(bytes.as_mut_ptr()), count) };
            let result = copy(&chunk(&mut from, from_len), &chunk(&mut to, to_len));
            assert_eq!(
                result.err().map(|error| error.class),
                (from_len > to_len).then_some(Class::Truncate)
            );
            assert_eq!(to.iter().filter(|byte| **byte == 7).count(), from_len.min(to_len));
        }
    }

    #[test]
    fn memory_is_given_back() {
        // Pages of the process's addresses.
        let pages = || -> usize {
            let sizes = std::fs::read_to_string("/proc/self/statm").expect("Linux");
            sizes
                .split(' ')
                .next()
                .expect("a number")
                .parse()
                .expect("a number")
        };
        let before = pages();
        for _ in 0..64 {
            Scratch::bytes(16 << 20).expect("memory");
        }
        let more_mib = pages().saturating_sub(before) >> 8;
        assert!(more_mib < 512, "{more_mib} MiB");
    }
}
