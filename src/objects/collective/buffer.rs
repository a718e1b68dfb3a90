//! Arguments of collective procedures: user buffers, described so that a task can own the description.

use std::sync::Arc;

use crate::data::datatype::Datatype;
use crate::data::memory::Memory;

/// An address in memory that an operation may use while it runs (MPI 5.0 section 6.12): see [`Address::new`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address(*mut u8);

// SAFETY: only an address; the memory is the operation's by the promise above, whichever thread polls it.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Address {
    /// From a user's buffer argument.
    ///
    /// # Safety
    /// Until each operation that gets it, or an address derived from it, has ended, the memory that the operation's arguments
    /// describe there is valid, and is used by others only as the standard allows.
    pub unsafe fn new(address: *mut u8) -> Address {
        Address(address)
    }

    /// As a pointer.
    #[inline]
    pub fn get(self) -> *mut u8 {
        self.0
    }

    /// The address `bytes` further on.
    #[inline]
    pub fn at(self, bytes: i64) -> Address {
        Address(self.0.wrapping_offset(bytes as isize))
    }

    /// The address `elements` extents of `datatype` further on.
    #[inline]
    pub fn element(self, elements: u64, datatype: &Datatype) -> Address {
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

/// `count` elements of a datatype. Where a procedure gives every rank a block of the buffer, they are those of one
/// block, and block `r` begins `r × count` extents after the address.
#[derive(Clone)]
pub struct Buffer {
    /// The buffer argument.
    pub address: Address,
    /// The count argument.
    pub count: u64,
    /// The datatype argument.
    pub datatype: Arc<Datatype>,
}

impl Buffer {
    /// See the fields.
    #[cfg(feature = "sim")]
    pub fn new(address: Address, count: u64, datatype: Arc<Datatype>) -> Buffer {
        Buffer {
            address,
            count,
            datatype,
        }
    }

    /// All `count` elements.
    #[inline]
    pub(super) fn chunk(&self) -> Chunk {
        Chunk::elements(self.address, self.count, &self.datatype)
    }

    /// Blocks `first` to `first + number - 1`, which are consecutive.
    pub(super) fn blocks(&self, first: u32, number: u32) -> Chunk {
        let at = self
            .address
            .element(self.count.wrapping_mul(first.into()), &self.datatype);
        Chunk::elements(at, self.count * u64::from(number), &self.datatype)
    }
}

/// A block for every rank, each with its count and displacement, all of one datatype (the arguments of the `v` procedures).
#[derive(Clone)]
pub struct VBuffer {
    /// The buffer argument.
    pub address: Address,
    /// Elements in each block, by rank.
    pub counts: Arc<[u64]>,
    /// Where each block begins, in extents from the address.
    pub displs: Arc<[i64]>,
    /// The datatype of every element.
    pub datatype: Arc<Datatype>,
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
    /// The buffer argument.
    pub address: Address,
    /// Elements in each block, by rank.
    pub counts: Arc<[u64]>,
    /// Where each block begins, in bytes from the address.
    pub displs: Arc<[i64]>,
    /// The datatype of the elements of each block.
    pub datatypes: Arc<[Arc<Datatype>]>,
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
    address: Address,
    /// Where each begins, and where the last one ends.
    starts: Vec<usize>,
}

impl Packed {
    /// Blocks of these lengths from `address` on.
    pub fn new(address: Address, lengths: impl Iterator<Item = u64>) -> Packed {
        let mut starts = vec![0];
        let mut end = 0;
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
