//! Runs of the user's bytes, as lanes take them: what is sent from where it is, read into, or registered for a peer to read.

use smallvec::SmallVec;

use super::kind::MemoryKind;
use crate::base::bytes::{RawBytes, RawRoom};

/// A run of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The first byte.
    pub address: *mut u8,
    /// How many; in a list of several pieces, more than none.
    pub len: usize,
    /// Where they are.
    pub kind: MemoryKind,
}

// SAFETY: only a description. Whoever uses the memory does so by a promise of its owner's, which names no thread.
unsafe impl Send for Piece {}
// SAFETY: as above; shared references only read the description.
unsafe impl Sync for Piece {}

/// The pieces of one memory, in the order of its data. Usually there is one.
pub type Pieces = SmallVec<[Piece; 1]>;

impl Piece {
    /// No bytes.
    pub const EMPTY: Piece = Piece {
        address: std::ptr::null_mut(),
        len: 0,
        kind: MemoryKind::System,
    };

    /// The bytes of a slice, to be read.
    #[inline(always)]
    pub fn of(bytes: &[u8]) -> Piece {
        Piece {
            address: bytes.as_ptr().cast_mut(),
            len: bytes.len(),
            kind: MemoryKind::System,
        }
    }

    /// The bytes of a slice, to be written.
    pub fn of_mut(bytes: &mut [u8]) -> Piece {
        Piece {
            address: bytes.as_mut_ptr(),
            len: bytes.len(),
            kind: MemoryKind::System,
        }
    }

    /// Its bytes from `skip` on, `len` of them; there are as many.
    #[inline(always)]
    pub fn part(self, skip: usize, len: usize) -> Piece {
        debug_assert!(skip <= self.len && len <= self.len - skip);
        Piece {
            address: self.address.wrapping_add(skip),
            len,
            ..self
        }
    }

    /// The bytes, for the processor to read.
    ///
    /// # Safety
    /// They are valid for reading as long as the result is used.
    #[inline(always)]
    pub unsafe fn bytes<'a>(self) -> RawBytes<'a> {
        match self.kind {
            // SAFETY: the caller says that they are readable so long.
            MemoryKind::System => unsafe { RawBytes::new(self.address, self.len) },
        }
    }

    /// The bytes, for the processor to write.
    ///
    /// # Safety
    /// They are valid for writing, and nobody else uses them, as long as the result is used.
    #[inline(always)]
    pub unsafe fn room<'a>(self) -> RawRoom<'a> {
        match self.kind {
            // SAFETY: the caller says that they are writable, and this process's alone, so long.
            MemoryKind::System => unsafe { RawRoom::new(self.address, self.len) },
        }
    }
}

/// Bytes in all of these.
pub fn total(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.len).sum()
}

/// A position in a list of pieces.
#[derive(Clone, Copy, Default, Debug)]
pub struct Cursor {
    /// The piece with the next byte.
    pub index: usize,
    done: usize,
}

impl Cursor {
    /// The pieces of the next bytes, `most` at most, and no more pieces than `into` has room for. Returns how many those are,
    /// and their bytes together.
    pub fn next(&self, pieces: &[Piece], most: usize, into: &mut [Piece]) -> (usize, usize) {
        let (mut count, mut bytes, mut skip) = (0, 0, self.done);
        for (piece, place) in pieces[self.index..].iter().zip(into) {
            if bytes == most {
                break;
            }
            let len = (piece.len - skip).min(most - bytes);
            *place = piece.part(skip, len);
            (count, bytes, skip) = (count + 1, bytes + len, 0);
        }
        (count, bytes)
    }

    /// Advances by this many bytes, which must exist.
    pub fn advance(&mut self, pieces: &[Piece], bytes: usize) {
        self.done += bytes;
        while let Some(piece) = pieces.get(self.index)
            && self.done >= piece.len
        {
            self.done -= piece.len;
            self.index += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every traversal of some pieces in steps of one length returns all their bytes, once each, in order.
    #[test]
    fn a_cursor_misses_no_byte() {
        let bytes: Vec<u8> = (0..60).collect();
        let pieces = [&bytes[40..60], &bytes[0..1], &bytes[10..17], &bytes[20..22]].map(Piece::of);
        let all: Vec<u8> = [40..60, 0..1, 10..17, 20..22].into_iter().flatten().collect();
        assert_eq!(total(&pieces), all.len());
        for most in 1..40 {
            for room in 1..5 {
                let (mut cursor, mut seen) = (Cursor::default(), Vec::new());
                while seen.len() < all.len() {
                    let mut some = [Piece::EMPTY; 5];
                    let (count, number) = cursor.next(&pieces, most, &mut some[..room]);
                    assert!(0 < number && number <= most && count <= room);
                    assert_eq!(total(&some[..count]), number);
                    for piece in &some[..count] {
                        let start = piece.address as usize - bytes.as_ptr() as usize;
                        seen.extend_from_slice(&bytes[start..start + piece.len]);
                    }
                    cursor.advance(&pieces, number);
                }
                assert_eq!(seen, all);
                assert_eq!(cursor.next(&pieces, most, &mut [Piece::EMPTY; 5]), (0, 0));
            }
        }
    }
}
