//! Arguments of collective procedures: user buffers, described so that a task can own the description.

use std::sync::Arc;

use super::reduction::Reducer;
use crate::base::error::Result;
use crate::data::datatype::Datatype;
use crate::data::memory::Memory;
use crate::data::op::Op;
use crate::err;

/// An address in memory of an operation: in what the maker of a [`Buffer`], or of its like, has promised, or in the operation's
/// scratch. Nobody outside `collective` can make one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address(*mut u8);

// SAFETY: only an address; by the promise of `Address::new` the memory is the operation's, whichever thread polls it.
unsafe impl Send for Address {}
// SAFETY: as for `Send`.
unsafe impl Sync for Address {}

impl Address {
    /// Of memory that is the operation's until it has ended.
    ///
    /// # Safety
    /// Until the operation has ended, all that it makes of the address are [`Chunk`]s that lie in memory which is valid for what it
    /// does there, and which nobody else uses but as the standard allows (MPI 5.0 section 6.12).
    pub(super) unsafe fn new(address: *mut u8) -> Address {
        Address(address)
    }

    /// As a pointer.
    #[inline]
    pub(super) fn get(self) -> *mut u8 {
        self.0
    }

    /// The address `bytes` further on.
    #[inline]
    pub(super) fn at(self, bytes: i64) -> Address {
        Address(self.0.wrapping_offset(bytes as isize))
    }

    /// The address `elements` extents of `datatype` further on.
    #[inline]
    pub(super) fn element(self, elements: u64, datatype: &Datatype) -> Address {
        self.at((elements as i64).wrapping_mul(datatype.extent()))
    }
}

/// Memory of an operation: a part of what the maker of its [`Address`] has promised, or of the operation's scratch. So
/// messages and copies of the operation may use it without further conditions.
#[derive(Clone)]
pub(super) struct Chunk(Memory);

impl Chunk {
    /// `count` elements.
    #[inline]
    pub fn elements(address: Address, count: u64, datatype: &Arc<Datatype>) -> Chunk {
        Chunk(Memory::new(address.get(), count, datatype))
    }

    /// `len` bytes.
    pub fn bytes(address: Address, len: usize) -> Chunk {
        Chunk(Memory::run(address.get(), len))
    }

    /// Some memory.
    ///
    /// # Safety
    /// As for [`Address::new`].
    pub unsafe fn of(memory: Memory) -> Chunk {
        Chunk(memory)
    }

    /// Nothing.
    pub fn empty() -> Chunk {
        Chunk(Memory::empty())
    }

    /// Bytes of data (packed).
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes, if they are one run.
    pub fn run(&self) -> Option<(Address, usize)> {
        self.0.contiguous().map(|run| (Address(run.address), run.len))
    }

    /// The same for the engine.
    pub fn memory(&self) -> &Memory {
        &self.0
    }

    /// The same, by value.
    pub fn into_memory(self) -> Memory {
        self.0
    }
}

/// One block of elements of a datatype, or one for every rank.
///
/// [`Buffer::new`] and its like for [`VBuffer`], [`WBuffer`] and [`Operands`] are where the memory that an operation uses is promised:
/// what they were given can't be changed afterwards, and no operation goes beyond it.
#[derive(Clone)]
pub struct Buffer {
    pub(super) address: Address,
    pub(super) count: u64,
    pub(super) blocks: u32,
    pub(super) datatype: Arc<Datatype>,
}

impl Buffer {
    /// `blocks` blocks of `count` elements; block `r` begins `r × count` extents after the address.
    ///
    /// # Safety
    /// As long as the result exists, and until the operation that gets it has ended: the data of all these elements is valid for
    /// reading and, unless the result is given to operations as a send buffer only, for writing; and nobody else uses it but as the
    /// standard allows (MPI 5.0 section 6.12).
    pub unsafe fn new(address: *mut u8, count: u64, blocks: u32, datatype: Arc<Datatype>) -> Buffer {
        Buffer {
            address: Address(address),
            count,
            blocks,
            datatype,
        }
    }

    /// One block, for which the maker of the address has promised what [`Buffer::new`] asks for.
    pub(super) fn one(address: Address, count: u64, datatype: Arc<Datatype>) -> Buffer {
        Buffer {
            address,
            count,
            blocks: 1,
            datatype,
        }
    }

    /// The elements of the first block.
    #[inline]
    pub(super) fn chunk(&self) -> Chunk {
        self.blocks(0, 1)
    }

    /// Blocks `first` to `first + number - 1`, which are consecutive.
    ///
    /// # Panics
    /// If the buffer has no such blocks.
    pub(super) fn blocks(&self, first: u32, number: u32) -> Chunk {
        assert!(
            number <= self.blocks && first <= self.blocks - number,
            "a buffer of {} blocks was given where {first} + {number} are needed",
            self.blocks
        );
        let at = self
            .address
            .element(self.count.wrapping_mul(first.into()), &self.datatype);
        Chunk::elements(at, self.count * u64::from(number), &self.datatype)
    }

    /// All blocks.
    pub(super) fn all(&self) -> Chunk {
        self.blocks(0, self.blocks)
    }
}

/// A block for every rank, each with its count and displacement, all of one datatype (the arguments of the `v` procedures).
#[derive(Clone)]
pub struct VBuffer {
    pub(super) address: Address,
    pub(super) counts: Arc<[u64]>,
    pub(super) displs: Arc<[i64]>,
    pub(super) datatype: Arc<Datatype>,
}

impl VBuffer {
    /// `counts[r]` elements in block `r`, which begins `displs[r]` extents after the address.
    ///
    /// # Safety
    /// As for [`Buffer::new`].
    pub unsafe fn new(
        address: *mut u8,
        counts: Arc<[u64]>,
        displs: Arc<[i64]>,
        datatype: Arc<Datatype>,
    ) -> VBuffer {
        VBuffer {
            address: Address(address),
            counts,
            displs,
            datatype,
        }
    }
}

/// The blocks of a root that is rank 0 of an operation and has none for itself.
pub(super) trait WithoutOwn {
    /// For ranks that are one higher; the block of rank 0 is not to be touched.
    fn behind_one(self) -> Self;
}

impl WithoutOwn for Buffer {
    fn behind_one(self) -> Buffer {
        Buffer {
            address: self.address.element(self.count.wrapping_neg(), &self.datatype),
            blocks: self.blocks + 1,
            ..self
        }
    }
}

impl WithoutOwn for VBuffer {
    fn behind_one(self) -> VBuffer {
        VBuffer {
            counts: std::iter::once(0).chain(self.counts.iter().copied()).collect(),
            displs: std::iter::once(0).chain(self.displs.iter().copied()).collect(),
            ..self
        }
    }
}

/// A block for every rank, each with its count, displacement and datatype (the arguments of `MPI_Alltoallw`).
#[derive(Clone)]
pub struct WBuffer {
    pub(super) address: Address,
    pub(super) counts: Arc<[u64]>,
    pub(super) displs: Arc<[i64]>,
    pub(super) datatypes: Arc<[Arc<Datatype>]>,
}

impl WBuffer {
    /// `counts[r]` elements of `datatypes[r]` in block `r`, which begins `displs[r]` bytes after the address.
    ///
    /// # Safety
    /// As for [`Buffer::new`].
    pub unsafe fn new(
        address: *mut u8,
        counts: Arc<[u64]>,
        displs: Arc<[i64]>,
        datatypes: Arc<[Arc<Datatype>]>,
    ) -> WBuffer {
        WBuffer {
            address: Address(address),
            counts,
            displs,
            datatypes,
        }
    }
}

/// What a reduction is handed: this process's operand, the place of its result, and how elements are combined.
#[derive(Clone)]
pub struct Operands {
    /// `None` with `MPI_IN_PLACE`: the operand is in the receive buffer.
    pub(super) send: Option<Address>,
    /// `None` where there is no result at this process.
    pub(super) receive: Option<Address>,
    /// Elements of the operand.
    pub(super) count: u64,
    /// Elements of the result.
    pub(super) result: u64,
    pub(super) reducer: Reducer,
}

impl Operands {
    /// `count` elements at `send` or, where that is `None`, at `receive`, which then or for a result of `result` elements is given.
    ///
    /// # Safety
    /// As long as the result exists, and until the operation that gets it has ended: the data of `count` elements at `send` is valid
    /// for reading, that of `result` elements at `receive` for writing, or without `send` that of the larger of both numbers for
    /// both; the two are apart; and nobody else uses them but as the standard allows (MPI 5.0 section 6.12).
    pub unsafe fn new(
        send: Option<*const u8>,
        receive: Option<*mut u8>,
        count: u64,
        result: u64,
        datatype: Arc<Datatype>,
        op: Arc<Op>,
    ) -> Operands {
        Operands {
            send: send.map(|send| Address(send.cast_mut())),
            receive: receive.map(Address),
            count,
            result,
            reducer: Reducer {
                datatype,
                operation: op,
            },
        }
    }

    /// How many elements of a result there is room for.
    fn room(&self) -> u64 {
        match (self.send, self.receive) {
            (_, None) => 0,
            (None, Some(_)) => self.result.max(self.count),
            (Some(_), Some(_)) => self.result,
        }
    }

    /// For operations whose result has as many elements as the operand.
    ///
    /// # Errors
    /// `MPI_ERR_COUNT`: there is less room for it.
    pub(super) fn whole(self) -> Result<Operands> {
        match self.receive.is_some() && self.room() < self.count {
            true => Err(err!(
                Count,
                "the operand has {} elements, and there is room for {} of the result",
                self.count,
                self.room()
            )),
            false => Ok(self),
        }
    }

    /// For operations that give each rank a block of the result: those of all have `total` elements, this process's `own`.
    ///
    /// # Errors
    /// `MPI_ERR_COUNT`: the operand has another number of elements, or there is less room for the block.
    pub(super) fn scattered(self, total: u64, own: u64) -> Result<Operands> {
        let room = self.room();
        match total == self.count && own <= room {
            true => Ok(self),
            false => Err(err!(
                Count,
                "the operand has {} elements and the blocks of all ranks {total}; there is room for {room} elements of the result, \
                 and this rank's block has {own}",
                self.count
            )),
        }
    }
}

/// One block of memory for each rank.
pub(super) trait Blocks: Send + Sync {
    /// That of `rank`.
    fn block(&self, rank: u32) -> Chunk;
}

impl Blocks for Buffer {
    fn block(&self, rank: u32) -> Chunk {
        self.blocks(rank, 1)
    }
}

impl Blocks for VBuffer {
    fn block(&self, rank: u32) -> Chunk {
        let rank = rank as usize;
        let at = self
            .address
            .at(self.displs[rank].wrapping_mul(self.datatype.extent()));
        Chunk::elements(at, self.counts[rank], &self.datatype)
    }
}

impl Blocks for WBuffer {
    fn block(&self, rank: u32) -> Chunk {
        let rank = rank as usize;
        let at = self.address.at(self.displs[rank]);
        Chunk::elements(at, self.counts[rank], &self.datatypes[rank])
    }
}

/// Consecutive runs of bytes.
pub(super) struct Packed {
    pub(super) address: Address,
    /// Where each begins, and where the last one ends.
    starts: Vec<usize>,
}

impl Packed {
    /// Blocks of these lengths from `address` on.
    pub fn new(address: Address, lengths: impl Iterator<Item = u64>) -> Packed {
        let mut starts = Vec::with_capacity(lengths.size_hint().0 + 1);
        let mut end = 0;
        starts.push(0);
        starts.extend(lengths.map(|length| {
            end += length as usize;
            end
        }));
        Packed { address, starts }
    }

    /// Blocks `first` to `end - 1`.
    pub fn range(&self, first: u32, end: u32) -> Chunk {
        let (from, to) = (self.starts[first as usize], self.starts[end as usize]);
        Chunk::bytes(self.address.at(from as i64), to - from)
    }
}

impl Blocks for Packed {
    fn block(&self, rank: u32) -> Chunk {
        self.range(rank, rank + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "2 blocks")]
    fn there_is_no_block_beyond_the_last() {
        let mut bytes = [0u8; 8];
        // SAFETY: so many bytes, which stay.
        let buffer = unsafe { Buffer::new(bytes.as_mut_ptr(), 4, 2, Datatype::byte().clone()) };
        assert_eq!(buffer.block(1).len(), 4);
        buffer.block(2);
    }
}
