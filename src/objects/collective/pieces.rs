//! Cutting a message into one piece for each process.

use std::ops::Range;

/// `total` units in `number` pieces, each as long as the next or one longer.
#[derive(Clone, Copy)]
pub(super) struct Pieces {
    pub total: u64,
    pub number: u32,
}

impl Pieces {
    /// Where piece `at` begins; for `number`, where the last one ends.
    pub fn start(self, at: u32) -> u64 {
        (u128::from(self.total) * u128::from(at) / u128::from(self.number)) as u64
    }

    /// The piece that a unit is in.
    pub fn piece_of(self, unit: u64) -> u32 {
        // The last piece that begins at or before it.
        (((u128::from(unit) + 1) * u128::from(self.number) - 1) / u128::from(self.total)) as u32
    }

    /// Pieces `first` to `end - 1`.
    pub fn range(self, first: u32, end: u32) -> Range<u64> {
        self.start(first)..self.start(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_everything_once() {
        for (total, number) in [(0, 3), (1, 3), (10, 4), (u64::MAX, 7)] {
            let pieces = Pieces { total, number };
            assert_eq!((pieces.start(0), pieces.start(number)), (0, total));
            assert!((0..number).all(|at| pieces.start(at) <= pieces.start(at + 1)));
            for unit in 0..total.min(20) {
                let piece = pieces.piece_of(unit);
                assert!(
                    pieces.range(piece, piece + 1).contains(&unit),
                    "{unit} of {total} in {number}"
                );
            }
        }
    }
}
