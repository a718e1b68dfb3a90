//! The user's memory as the engine sees it: a run of bytes, or elements of a datatype that is packed and unpacked
//! piece by piece.

use std::sync::Arc;

use crate::base::bytes::{self, RawBytes, RawRoom};
use crate::data::datatype::Datatype;
use crate::data::pieces::{Piece, Pieces};

/// A buffer that a request reads from or writes to. Its maker promises that the memory stays valid until
/// the request has completed (MPI 5.0 section 3.7.2).
#[derive(Clone)]
pub enum Memory {
    /// One run of bytes.
    Contiguous {
        /// First byte.
        address: *mut u8,
        /// Number of bytes.
        len: usize,
    },
    /// Anything else.
    Typed {
        /// The buffer argument.
        address: *mut u8,
        /// Number of elements.
        count: u64,
        /// Type of each.
        datatype: Arc<Datatype>,
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
            Some((offset, len)) => Memory::Contiguous {
                address: address.wrapping_offset(offset as isize),
                len,
            },
            None => Memory::Typed {
                address,
                count,
                datatype: datatype.clone(),
            },
        }
    }

    /// The bytes of a slice, to be read.
    pub fn of(bytes: &[u8]) -> Memory {
        Memory::Contiguous {
            address: bytes.as_ptr().cast_mut(),
            len: bytes.len(),
        }
    }

    /// The bytes of a slice, to be written.
    pub fn of_mut(bytes: &mut [u8]) -> Memory {
        Memory::Contiguous {
            address: bytes.as_mut_ptr(),
            len: bytes.len(),
        }
    }

    /// Nothing.
    pub fn empty() -> Memory {
        Memory::Contiguous {
            address: std::ptr::null_mut(),
            len: 0,
        }
    }

    /// Bytes of data (packed).
    #[inline]
    pub fn len(&self) -> u64 {
        match self {
            Memory::Contiguous { len, .. } => *len as u64,
            Memory::Typed { count, datatype, .. } => count * datatype.size(),
            Memory::Part { len, .. } => *len,
        }
    }

    /// Its packed bytes from `start` on, `len` of them or as many as there are, as a memory.
    pub fn part(&self, start: u64, len: u64) -> Memory {
        let start = start.min(self.len());
        let len = len.min(self.len() - start);
        match self {
            Memory::Contiguous { address, .. } => Memory::Contiguous {
                address: address.wrapping_add(start as usize),
                len: len as usize,
            },
            Memory::Typed {
                address,
                count,
                datatype,
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
                }
            }
            Memory::Part {
                address,
                count,
                datatype,
                start: before,
                ..
            } => Memory::Part {
                address: *address,
                count: *count,
                datatype: datatype.clone(),
                start: before + start,
                len,
            },
        }
    }

    /// Whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, if they are one run.
    #[inline]
    pub fn contiguous(&self) -> Option<(*mut u8, usize)> {
        match self {
            Memory::Contiguous { address, len } => Some((*address, *len)),
            Memory::Typed { .. } | Memory::Part { .. } => None,
        }
    }

    /// How long the runs are on average that hold its data, or less than that.
    pub fn mean_run(&self) -> u64 {
        match self {
            Memory::Contiguous { len, .. } => *len as u64,
            Memory::Typed { datatype, .. } | Memory::Part { datatype, .. } => datatype.mean_run(),
        }
    }

    /// The runs that hold its data, up to `bytes` of it from the packed byte `offset` on, in no more than `most` pieces.
    pub fn pieces(&self, offset: u64, bytes: u64, most: usize) -> Pieces {
        let bytes = bytes.min(self.len().saturating_sub(offset));
        let (address, count, datatype, start) = match self {
            Memory::Contiguous { address, .. } => {
                return Pieces::from_elem(
                    Piece {
                        address: address.wrapping_add(offset as usize),
                        len: bytes as usize,
                    },
                    1,
                );
            }
            Memory::Typed {
                address,
                count,
                datatype,
            } => (address, count, datatype, 0),
            Memory::Part {
                address,
                count,
                datatype,
                start,
                ..
            } => (address, count, datatype, *start),
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
        };
        runs.into_iter().map(piece).collect()
    }

    /// The bytes at `offset` for `len`, where they are one run in memory.
    ///
    /// # Safety
    /// The memory is valid for reading, and stays so while the slice is used; nobody writes to it meanwhile.
    #[inline]
    pub unsafe fn slice<'a>(&self, offset: u64, len: usize) -> Option<&'a [u8]> {
        match self {
            Memory::Contiguous { address, len: all } => {
                debug_assert!(offset + len as u64 <= *all as u64);
                if len == 0 {
                    return Some(&[]);
                }
                // SAFETY: within the run, which the caller promises to be valid; not null, as len is not zero.
                Some(unsafe { std::slice::from_raw_parts(address.add(offset as usize), len) })
            }
            Memory::Typed { .. } | Memory::Part { .. } => None,
        }
    }

    /// Copies packed bytes from `offset` on into `into`; returns how many.
    ///
    /// # Safety
    /// The memory is valid for reading.
    pub unsafe fn pack<'a>(&self, offset: u64, into: impl Into<RawRoom<'a>>) -> usize {
        let mut into = into.into();
        match self {
            Memory::Contiguous { address, len } => {
                let bytes = into.len().min(len.saturating_sub(offset as usize));
                // SAFETY: `bytes` lies within both; they do not overlap, as `into` is ours.
                unsafe {
                    std::ptr::copy_nonoverlapping(address.add(offset as usize), into.as_mut_ptr(), bytes)
                };
                bytes
            }
            Memory::Typed {
                address,
                count,
                datatype,
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
            Memory::Contiguous { address, len } => {
                let bytes = from.len().min(len.saturating_sub(offset as usize));
                if bytes != 0 {
                    // SAFETY: `bytes` lies within both; `from` is a buffer of ours or of another message.
                    unsafe { bytes::copy_apart(from.as_ptr(), address.add(offset as usize), bytes) };
                }
                bytes
            }
            Memory::Typed {
                address,
                count,
                datatype,
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
