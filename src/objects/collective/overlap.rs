//! Send and receive buffers that overlap, which no collective operation allows (with `MPI_IN_PLACE` one buffer is used
//! for both).
//!
//! A process sees this only for its own two buffers. If it returned at once, the others, which know nothing of it, would
//! wait for its messages. So it takes part with a copy of what it sends: every process gets the right result, and its own
//! call or request ends with `MPI_ERR_BUFFER`.

use std::sync::Arc;

use super::buffer::{Address, Blocks, Buffer, Chunk, Operands, VBuffer, WBuffer};
use super::scratch::{Scratch, copy, span};
use crate::base::error::{Error, Result};
use crate::data::datatype::Datatype;
use crate::data::memory::Memory;
use crate::data::pieces::Piece;
use crate::err;

/// For a block that is not one run of bytes, at most this many runs are checked: the first of them show whether a type
/// covers the gaps of another one or leaves them free, as the columns of a matrix do.
const RUNS: usize = 64;

/// The copy that is sent instead, and the error at the end.
pub struct Refused {
    error: Error,
    /// Short copies are stored in it, so it must not move.
    _copy: Box<Scratch>,
}

/// The result of an operation in which this process took part with a copy.
pub fn refuse(refused: Option<Refused>, result: Result<()>) -> Result<()> {
    match refused {
        Some(refused) => result.and(Err(refused.error)),
        None => result,
    }
}

/// A buffer of some blocks.
pub trait Blocked: Sized {
    /// All of its memory, in as few pieces as possible.
    fn each(&self, see: &mut dyn FnMut(Memory));
    /// The same bytes, stored consecutively from an address on.
    fn packed(&self, at: Address) -> Self;
}

impl Blocked for Buffer {
    fn each(&self, see: &mut dyn FnMut(Memory)) {
        see(self.all().into_memory());
    }

    fn packed(&self, at: Address) -> Buffer {
        Buffer {
            address: at,
            count: self.count * self.datatype.size(),
            blocks: self.blocks,
            datatype: Datatype::byte().clone(),
        }
    }
}

impl Blocked for VBuffer {
    fn each(&self, see: &mut dyn FnMut(Memory)) {
        (0..self.counts.len() as u32).for_each(|rank| see(self.block(rank).into_memory()));
    }

    fn packed(&self, at: Address) -> VBuffer {
        let size = self.datatype.size();
        let counts: Arc<[u64]> = self.counts.iter().map(|count| count * size).collect();
        VBuffer {
            address: at,
            displs: starts(&counts),
            counts,
            datatype: Datatype::byte().clone(),
        }
    }
}

impl Blocked for WBuffer {
    fn each(&self, see: &mut dyn FnMut(Memory)) {
        (0..self.counts.len() as u32).for_each(|rank| see(self.block(rank).into_memory()));
    }

    fn packed(&self, at: Address) -> WBuffer {
        let sizes = self.datatypes.iter().map(|datatype| datatype.size());
        let counts: Arc<[u64]> = (self.counts.iter())
            .zip(sizes)
            .map(|(count, size)| count * size)
            .collect();
        WBuffer {
            address: at,
            displs: starts(&counts),
            datatypes: self.datatypes.iter().map(|_| Datatype::byte().clone()).collect(),
            counts,
        }
    }
}

/// Where consecutive blocks of these lengths begin.
fn starts(lengths: &[u64]) -> Arc<[i64]> {
    let mut end = 0;
    let start = |&length: &u64| {
        let start = end;
        end += length as i64;
        start
    };
    lengths.iter().map(start).collect()
}

/// What this process sends, made separate from where it receives: a copy if they overlap.
///
/// # Errors
/// `MPI_ERR_NO_MEM` where there is no memory for a copy.
///
/// # Safety
/// The data of `send` can be read. What comes second, where it does, is kept until the first is gone and the operation that got that has
/// ended ([`refuse`]).
pub unsafe fn apart<S: Blocked>(send: S, receive: &impl Blocked) -> Result<(S, Option<Refused>)> {
    let given = |see: &mut dyn FnMut(Memory)| send.each(see);
    let taken = |see: &mut dyn FnMut(Memory)| receive.each(see);
    if !overlap(given, taken) {
        return Ok((send, None));
    }
    let mut len = 0;
    send.each(&mut |block| len += block.len() as usize);
    let scratch = Box::new(Scratch::bytes(len)?);
    let mut done = 0;
    let mut copied = Ok(());
    send.each(&mut |block| {
        let len = block.len() as usize;
        // SAFETY: the caller says that the data of `send` can be read.
        let block = unsafe { Chunk::of(block) };
        if let Err(error) = copy(&block, &scratch.part(done, len)) {
            copied = Err(error);
        }
        done += len;
    });
    copied?;
    Ok((send.packed(scratch.address()), Some(refused(scratch))))
}

/// The same for a reduction.
///
/// # Errors
/// As for [`apart`].
///
/// # Safety
/// What comes second, where it does, is kept as [`apart`] says.
pub unsafe fn apart_operands(operands: Operands) -> Result<(Operands, Option<Refused>)> {
    let (Some(send), Some(receive)) = (operands.send, operands.receive) else {
        return Ok((operands, None));
    };
    let datatype = &operands.reducer.datatype;
    let elements = |at: Address, count| Memory::new(at.get(), count, datatype);
    let given = |see: &mut dyn FnMut(Memory)| see(elements(send, operands.count));
    let taken = |see: &mut dyn FnMut(Memory)| see(elements(receive, operands.result));
    if !overlap(given, taken) {
        return Ok((operands, None));
    }
    let scratch = Box::new(Scratch::elements(datatype, operands.count, 1)?);
    copy(
        &Chunk::elements(send, operands.count, datatype),
        &Chunk::elements(scratch.slot(0), operands.count, datatype),
    )?;
    let copied = Operands {
        send: Some(scratch.slot(0)),
        ..operands
    };
    Ok((copied, Some(refused(scratch))))
}

/// Whether two runs of elements overlap.
pub fn elements_overlap(one: *const u8, other: *const u8, count: u64, datatype: &Arc<Datatype>) -> bool {
    let elements = |at: *const u8| Memory::new(at.cast_mut(), count, datatype);
    overlap(|see| see(elements(one)), |see| see(elements(other)))
}

#[cold]
fn refused(copy: Box<Scratch>) -> Refused {
    Refused {
        error: err!(
            Buffer,
            "sendbuf and recvbuf overlap; MPI_IN_PLACE says that one buffer serves for both (a copy of sendbuf was sent, so that \
             no other process waits)"
        ),
        _copy: copy,
    }
}

/// Whether two memories, each of several pieces, have a byte in common.
fn overlap(one: impl Fn(&mut dyn FnMut(Memory)), other: impl Fn(&mut dyn FnMut(Memory))) -> bool {
    let (a, b) = (span_of(&one), span_of(&other));
    if a.end <= b.start || b.end <= a.start {
        return false;
    }
    if a.contiguous && b.contiguous {
        return true;
    }
    let (a, b) = (runs(&one), runs(&other));
    let (mut i, mut k) = (0, 0);
    while i < a.len() && k < b.len() {
        if a[i].1 <= b[k].0 {
            i += 1;
        } else if b[k].1 <= a[i].0 {
            k += 1;
        } else {
            return true;
        }
    }
    false
}

/// From the lowest byte to the highest; empty: there is none. `contiguous`: all bytes between belong to it.
struct Span {
    start: usize,
    end: usize,
    contiguous: bool,
}

fn span_of(of: impl Fn(&mut dyn FnMut(Memory))) -> Span {
    let mut whole = Span {
        start: usize::MAX,
        end: 0,
        contiguous: true,
    };
    let mut pieces = 0;
    of(&mut |memory| {
        let (start, end) = match &memory {
            _ if memory.is_empty() => return,
            Memory::Contiguous(run) => (run.address.addr(), run.address.addr().saturating_add(run.len)),
            Memory::Typed {
                address,
                count,
                datatype,
                ..
            } => {
                whole.contiguous = false;
                match span(datatype, *count) {
                    Some((low, len)) => {
                        let start = address.addr().wrapping_add_signed(low as isize);
                        (start, start.saturating_add(len))
                    }
                    None => return,
                }
            }
            Memory::Part { .. } => return,
        };
        pieces += 1;
        whole.start = whole.start.min(start);
        whole.end = whole.end.max(end);
    });
    whole.contiguous &= pieces <= 1;
    whole
}

/// The runs of bytes that hold the data, in ascending order and without overlap.
fn runs(of: impl Fn(&mut dyn FnMut(Memory))) -> Vec<(usize, usize)> {
    let mut runs = Vec::new();
    of(&mut |memory| {
        let pieces = memory.pieces(0, memory.len(), RUNS);
        let some = pieces.iter().filter(|piece| piece.len > 0);
        let ends = |piece: &Piece| {
            let start = piece.address.addr();
            (start, start.saturating_add(piece.len))
        };
        runs.extend(some.map(ends));
    });
    runs.sort_unstable();
    // Blocks to be sent may overlap each other.
    runs.dedup_by(|next, last| {
        let joins = next.0 < last.1;
        if joins {
            last.1 = last.1.max(next.1);
        }
        joins
    });
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: usize, count: u64, blocks: u32, datatype: &Arc<Datatype>) -> Buffer {
        let address = std::ptr::without_provenance_mut(address);
        // SAFETY: only addresses are compared.
        unsafe { Buffer::new(address, count, blocks, datatype.clone()) }
    }

    fn overlaps(a: &impl Blocked, b: &impl Blocked) -> bool {
        overlap(|see| a.each(see), |see| b.each(see))
    }

    #[test]
    fn bytes_in_common_are_seen() {
        let byte = Datatype::byte();
        let one = at(1000, 10, 1, byte);
        for (address, count, blocks, expected) in [
            (1000, 10, 1, true),
            (1009, 5, 1, true),
            (1010, 5, 1, false),
            (990, 10, 1, false),
            (990, 10, 2, true),
            (1005, 0, 3, false),
        ] {
            let other = at(address, count, blocks, byte);
            assert_eq!(overlaps(&one, &other), expected, "{address}");
            assert_eq!(overlaps(&other, &one), expected, "{address}");
        }
    }

    /// Columns of one matrix do not overlap, nor do blocks between blocks.
    #[test]
    fn what_lies_between_is_apart() {
        let column = Datatype::vector(4, 1, 3, Datatype::int64()).expect("valid");
        let first = at(1 << 16, 1, 1, &column);
        let second = at((1 << 16) + 8, 1, 1, &column);
        assert!(!overlaps(&first, &second));
        assert!(!overlaps(&second, &first));
        assert!(overlaps(&first, &at((1 << 16) + 24, 1, 1, &column)));
        assert!(overlaps(&first, &first));
        // A single run lies in a gap of the other.
        let gap = at((1 << 16) + 8, 16, 1, Datatype::byte());
        assert!(!overlaps(&first, &gap) && !overlaps(&gap, &first));
        let gap = at((1 << 16) + 8, 17, 1, Datatype::byte());
        assert!(overlaps(&first, &gap) && overlaps(&gap, &first));
        let blocks = |counts: [u64; 3], displs: [i64; 3]| {
            let (address, datatype) = (
                std::ptr::without_provenance_mut(1 << 16),
                Datatype::byte().clone(),
            );
            // SAFETY: only addresses are compared.
            unsafe { VBuffer::new(address, counts.into(), displs.into(), datatype) }
        };
        let send = blocks([10, 10, 4], [0, 20, 22]);
        assert!(!overlaps(&send, &blocks([10, 5, 0], [10, 30, 5])));
        assert!(overlaps(&send, &blocks([10, 5, 1], [10, 30, 29])));
    }

    /// The bytes of each of some blocks.
    fn bytes(of: &(impl Blocked + Blocks), blocks: u32) -> Vec<Vec<u8>> {
        let of_block = |rank| {
            let memory = of.block(rank).into_memory();
            // SAFETY: the test's buffers and copies live.
            let read =
                |piece: &Piece| unsafe { std::slice::from_raw_parts(piece.address, piece.len) }.to_vec();
            memory
                .pieces(0, memory.len(), RUNS)
                .iter()
                .flat_map(read)
                .collect()
        };
        (0..blocks).map(of_block).collect()
    }

    #[test]
    fn a_copy_has_the_bytes_of_each_block() {
        let mut memory: Vec<u8> = (0..64).collect();
        let address = memory.as_mut_ptr();
        // SAFETY: `memory` outlives what is done with it, and is so long.
        let receive = unsafe { Buffer::new(address, 64, 1, Datatype::byte().clone()) };
        // The bytes 0 and 2 of 3.
        let pair = Datatype::vector(2, 1, 2, Datatype::byte()).expect("valid");
        fn copied<S: Blocked + Blocks>(send: S, receive: &Buffer) -> Vec<Vec<u8>> {
            // SAFETY: the memory is there, and `refused` is kept.
            let (copy, refused) = unsafe { apart(send, receive) }.expect("memory");
            let refused = refused.expect("they overlap");
            let found = bytes(&copy, 2);
            assert_eq!(
                refuse(Some(refused), Ok(())).unwrap_err().class,
                crate::base::error::Class::Buffer
            );
            found
        }
        // SAFETY: as for `receive`.
        let send = unsafe { Buffer::new(address, 3, 2, pair.clone()) };
        assert_eq!(
            copied(send, &receive),
            [[0, 2, 3, 5, 6, 8], [9, 11, 12, 14, 15, 17]]
        );
        // SAFETY: as for `receive`.
        let send = unsafe { VBuffer::new(address, [1, 2].into(), [4, 1].into(), pair.clone()) };
        assert_eq!(copied(send, &receive), [vec![12, 14], vec![3, 5, 6, 8]]);
        let datatypes = [pair, Datatype::byte().clone()].into();
        // SAFETY: as for `receive`.
        let send = unsafe { WBuffer::new(address, [1, 3].into(), [20, 1].into(), datatypes) };
        assert_eq!(copied(send, &receive), [vec![20, 22], vec![1, 2, 3]]);
    }
}
