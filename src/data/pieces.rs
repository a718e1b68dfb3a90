//! Memory that is not one run: the runs that a lane reads into, or that a peer may read.

use smallvec::SmallVec;

/// A run of bytes. It is laid out as the system's `struct iovec` is.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The first byte.
    pub address: *mut u8,
    /// How many; more than none, unless the piece is the only one.
    pub len: usize,
}

/// The pieces of one memory, in the order of its data. Usually there is one.
pub type Pieces = SmallVec<[Piece; 1]>;

impl Piece {
    /// No bytes.
    pub const EMPTY: Piece = Piece {
        address: std::ptr::null_mut(),
        len: 0,
    };

    /// The bytes of a slice, to be read.
    pub fn of(bytes: &[u8]) -> Piece {
        Piece {
            address: bytes.as_ptr().cast_mut(),
            len: bytes.len(),
        }
    }

    /// The bytes of a slice, to be written.
    pub fn of_mut(bytes: &mut [u8]) -> Piece {
        Piece {
            address: bytes.as_mut_ptr(),
            len: bytes.len(),
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
            *place = Piece {
                address: piece.address.wrapping_add(skip),
                len,
            };
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
