//! The user's memory as the engine sees it: a run of bytes, or elements of a datatype that is packed and unpacked
//! piece by piece.

use std::ops::Range;
use std::sync::Arc;

use crate::base::bytes::{self, RawBytes, RawRoom};
use crate::data::datatype::Datatype;
use crate::data::kind::MemoryKind;
use crate::data::pieces::{Piece, Pieces};

/// A buffer that a request reads from or writes to. Its maker promises that the memory stays valid until
/// the request has completed (MPI 5.0 section 3.7.2).
#[derive(Clone)]
pub enum Memory {
    /// One run of bytes.
    Contiguous(Piece),
    /// Anything else.
    Typed {
        /// The buffer argument.
        address: *mut u8,
        /// Number of elements.
        count: u64,
        /// Type of each.
        datatype: Arc<Datatype>,
        /// Where they are.
        kind: MemoryKind,
    },
    /// Some of the packed bytes of elements, where they are not whole elements.
    Part {
        /// The buffer argument.
        address: *mut u8,
        /// Number of elements of all.
        count: u64,
        /// Type of each.
        datatype: Arc<Datatype>,
        /// The first packed byte.
        start: u64,
        /// How many.
        len: u64,
        /// Where they are.
        kind: MemoryKind,
    },
}

// SAFETY: the memory belongs to the user, who gives it to the request until it completes, from whichever thread; see
// the type's promise.
unsafe impl Send for Memory {}
// SAFETY: as above; shared references only read the description.
unsafe impl Sync for Memory {}

impl Memory {
    /// `count` elements of `datatype` at `address`.
    #[inline(always)]
    pub fn new(address: *mut u8, count: u64, datatype: &Arc<Datatype>) -> Memory {
        match datatype.run(count) {
            Some((offset, len)) => Memory::run(address.wrapping_offset(offset as isize), len),
            None => Memory::Typed {
                address,
                count,
                datatype: datatype.clone(),
                kind: MemoryKind::of(address),
            },
        }
    }

    /// `len` bytes from `address` on.
    #[inline(always)]
    pub fn run(address: *mut u8, len: usize) -> Memory {
        let kind = MemoryKind::of(address);
        Memory::Contiguous(Piece { address, len, kind })
    }

    /// The bytes of a slice, to be read.
    pub fn of(bytes: &[u8]) -> Memory {
        Memory::Contiguous(Piece::of(bytes))
    }

    /// The bytes of a slice, to be written.
    pub fn of_mut(bytes: &mut [u8]) -> Memory {
        Memory::Contiguous(Piece::of_mut(bytes))
    }

    /// Nothing.
    pub fn empty() -> Memory {
        Memory::Contiguous(Piece::EMPTY)
    }

    /// Bytes of data (packed).
    #[inline]
    pub fn len(&self) -> u64 {
        match self {
            Memory::Contiguous(run) => run.len as u64,
            Memory::Typed { count, datatype, .. } => count * datatype.size(),
            Memory::Part { len, .. } => *len,
        }
    }

    /// Its packed bytes from `start` on, `len` of them or as many as there are, as a memory.
    pub fn part(&self, start: u64, len: u64) -> Memory {
        let start = start.min(self.len());
        let len = len.min(self.len() - start);
        match self {
            Memory::Contiguous(run) => Memory::Contiguous(run.part(start as usize, len as usize)),
            Memory::Typed {
                address,
                count,
                datatype,
                kind,
            } => {
                let size = datatype.size();
                if len != 0 && start.is_multiple_of(size) && len.is_multiple_of(size) {
                    let skipped = (start / size) as isize * datatype.extent() as isize;
                    return Memory::new(address.wrapping_offset(skipped), len / size, datatype);
                }
                Memory::Part {
                    address: *address,
                    count: *count,
                    datatype: datatype.clone(),
                    start,
                    len,
                    kind: *kind,
                }
            }
            Memory::Part {
                address,
                count,
                datatype,
                start: before,
                kind,
                ..
            } => Memory::Part {
                address: *address,
                count: *count,
                datatype: datatype.clone(),
                start: before + start,
                len,
                kind: *kind,
            },
        }
    }

    /// Whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, if they are one run.
    #[inline]
    pub fn contiguous(&self) -> Option<Piece> {
        match self {
            Memory::Contiguous(run) => Some(*run),
            Memory::Typed { .. } | Memory::Part { .. } => None,
        }
    }

    /// From its lowest address to after its highest, or further; empty without data.
    pub fn span(&self) -> Range<i128> {
        match self {
            Memory::Contiguous(run) => {
                let at = run.address as i128;
                at..at + run.len as i128
            }
            Memory::Typed {
                address,
                count,
                datatype,
                ..
            }
            | Memory::Part {
                address,
                count,
                datatype,
                ..
            } => datatype.span(*count, *address as u64).unwrap_or(0..0),
        }
    }

    /// How long the runs are on average that hold its data, or less than that.
    pub fn mean_run(&self) -> u64 {
        match self {
            Memory::Contiguous(run) => run.len as u64,
            Memory::Typed { datatype, .. } | Memory::Part { datatype, .. } => datatype.mean_run(),
        }
    }

    /// The runs that hold its data, up to `bytes` of it from the packed byte `offset` on, in no more than `most` pieces.
    pub fn pieces(&self, offset: u64, bytes: u64, most: usize) -> Pieces {
        let bytes = bytes.min(self.len().saturating_sub(offset));
        let (address, count, datatype, start, kind) = match self {
            Memory::Contiguous(run) => {
                let offset = offset.min(run.len as u64) as usize;
                return Pieces::from_elem(run.part(offset, bytes as usize), 1);
            }
            Memory::Typed {
                address,
                count,
                datatype,
                kind,
            } => (address, count, datatype, 0, *kind),
            Memory::Part {
                address,
                count,
                datatype,
                start,
                kind,
                ..
            } => (address, count, datatype, *start, *kind),
        };
        let runs = datatype.segments(
            address.expose_provenance(),
            *count,
            start + offset,
            bytes as usize,
            most,
        );
        let piece = |(at, len)| Piece {
            address: std::ptr::with_exposed_provenance_mut(at),
            len,
            kind,
        };
        runs.into_iter().map(piece).collect()
    }

    /// The bytes at `offset` for `len`, where they are one run in memory. There are as many.
    #[inline]
    pub fn piece(&self, offset: u64, len: usize) -> Option<Piece> {
        Some(self.contiguous()?.part(offset as usize, len))
    }

    /// Copies packed bytes from `offset` on into `into`; returns how many.
    ///
    /// # Safety
    /// The memory is valid for reading.
    pub unsafe fn pack<'a>(&self, offset: u64, into: impl Into<RawRoom<'a>>) -> usize {
        let into = into.into();
        match self {
            Memory::Contiguous(run) => {
                let bytes = into.len().min(run.len.saturating_sub(offset as usize));
                if bytes != 0 {
                    // SAFETY: `bytes` lies within the run, which is readable as the caller says.
                    into.first(bytes)
                        .fill_from(unsafe { run.part(offset as usize, bytes).bytes() });
                }
                bytes
            }
            Memory::Typed {
                address,
                count,
                datatype,
                kind: MemoryKind::System,
            } => {
                // SAFETY: the caller says that the bytes of these elements are valid.
                unsafe { datatype.pack(*address, *count, offset, into) }
            }
            Memory::Part {
                address,
                count,
                datatype,
                start,
                len,
                kind: MemoryKind::System,
            } => {
                let bytes = (into.len() as u64).min(len.saturating_sub(offset)) as usize;
                // SAFETY: the caller says that the bytes of these elements are valid.
                unsafe { datatype.pack(*address, *count, start + offset, into.first(bytes)) }
            }
        }
    }

    /// Puts packed bytes `from` at `offset`; returns how many fitted.
    ///
    /// # Safety
    /// The memory is valid for writing.
    #[inline(always)]
    pub unsafe fn unpack<'a>(&self, offset: u64, from: impl Into<RawBytes<'a>>) -> usize {
        let from = from.into();
        match self {
            Memory::Contiguous(run) => {
                let bytes = from.len().min(run.len.saturating_sub(offset as usize));
                if bytes != 0 {
                    // SAFETY: `bytes` lies within both; `from` is a buffer of ours or of another message, and what the caller keeps
                    // valid for writing is used by nobody else until the receive has ended.
                    unsafe {
                        let mut into = run.part(offset as usize, bytes).room();
                        bytes::copy_apart(from.as_ptr(), into.as_mut_ptr(), bytes);
                    }
                }
                bytes
            }
            Memory::Typed {
                address,
                count,
                datatype,
                kind: MemoryKind::System,
            } => {
                // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
                unsafe { datatype.unpack(*address, *count, offset, from) }
            }
            Memory::Part {
                address,
                count,
                datatype,
                start,
                len,
                kind: MemoryKind::System,
            } => {
                let bytes = (from.len() as u64).min(len.saturating_sub(offset)) as usize;
                // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
                unsafe { datatype.unpack(*address, *count, start + offset, from.first(bytes)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_a_mean_length() {
        let int = Datatype::int32();
        let holey = Datatype::vector(2, 3, 5, int).expect("a vector");
        let mut bytes = vec![0u8; 1000];
        let typed = Memory::new(bytes.as_mut_ptr(), 4, &holey);
        assert_eq!((typed.mean_run(), typed.part(12, 30).mean_run()), (12, 12));
        let at = bytes.as_ptr() as i128;
        assert_eq!(
            typed.span(),
            at..at + 3 * i128::from(holey.extent()) + i128::from(holey.true_extent())
        );
        assert_eq!(
            (
                Memory::of(&bytes[1..]).span(),
                Memory::new(bytes.as_mut_ptr(), 0, &holey).span()
            ),
            (at + 1..at + 1000, at..at)
        );
        assert_eq!(Memory::of(&bytes).mean_run(), 1000);
    }

    /// Every part of a buffer with holes, packed and unpacked piece by piece, against the same bytes of the whole.
    #[test]
    fn a_part_is_that_part_of_the_packed_bytes() {
        let int = Datatype::int32();
        let holey = Datatype::vector(2, 1, 3, int).expect("a vector");
        let extent = holey.extent() as usize;
        let mut bytes: Vec<u8> = (0..3 * extent).map(|at| at as u8).collect();
        let all = Memory::new(bytes.as_mut_ptr(), 3, &holey);
        let mut packed = vec![0; all.len() as usize];
        // SAFETY: three elements lie within `bytes`.
        unsafe { all.pack(0, &mut packed[..]) };
        for start in 0..=packed.len() {
            for len in 0..=packed.len() + 2 {
                let part = all.part(start as u64, len as u64);
                let end = packed.len().min(start + len);
                assert_eq!(part.len(), (end - start) as u64);
                for inner in 0..=end - start {
                    let mut got = [0; 100];
                    // SAFETY: as above.
                    let number = unsafe { part.pack(inner as u64, &mut got[..]) };
                    assert_eq!(got[..number], packed[start + inner..end]);
                    let deeper = part.part(inner as u64, 3);
                    // SAFETY: as above.
                    let number = unsafe { deeper.pack(0, &mut got[..]) };
                    assert_eq!(got[..number], packed[start + inner..end.min(start + inner + 3)]);
                }
                let base = bytes.as_ptr() as usize;
                let pieces = part.pieces(0, u64::MAX, usize::MAX);
                let range =
                    |piece: &Piece| piece.address as usize - base..piece.address as usize - base + piece.len;
                let listed: Vec<u8> = pieces
                    .iter()
                    .flat_map(|piece| &bytes[range(piece)])
                    .copied()
                    .collect();
                assert_eq!(listed, packed[start.min(end)..end]);
                // Some of them, from any offset, and no more than are asked for.
                let some = part.pieces(1, 5, 2);
                let listed: Vec<u8> = some
                    .iter()
                    .flat_map(|piece| &bytes[range(piece)])
                    .copied()
                    .collect();
                assert!(some.len() <= 2 && packed[end.min(start + 1)..].starts_with(&listed));
                assert!(
                    listed.len() <= 5
                        && (listed.len() == 5 || some.len() == 2 || listed.len() + 1 >= end - start)
                );
                let mut copy = vec![0xee; 3 * extent];
                let into = Memory::new(copy.as_mut_ptr(), 3, &holey);
                // SAFETY: three elements lie within `copy`.
                let fitted = unsafe { into.part(start as u64, len as u64).unpack(0, &packed[start..]) };
                assert_eq!(fitted, end - start);
                let mut back = vec![0; packed.len()];
                // SAFETY: as above.
                unsafe { into.pack(0, &mut back[..]) };
                let expected = packed.iter().enumerate();
                let expected =
                    expected.map(|(at, &byte)| if (start..end).contains(&at) { byte } else { 0xee });
                assert_eq!(back, expected.collect::<Vec<u8>>());
                let untouched = copy.iter().filter(|&&byte| byte == 0xee).count();
                assert_eq!(untouched, 3 * extent - (end - start));
            }
        }
    }
}
