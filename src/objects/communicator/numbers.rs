//! The tags of the messages of partitioned sends.

use std::collections::BTreeMap;

/// Gives out consecutive tags. Freed ones are used again as late as possible, as their last messages may still be
/// on their way.
#[derive(Default)]
pub struct Numbers {
    /// Ranges in use: where each begins and ends.
    rows: BTreeMap<u32, u32>,
    next: u32,
}

impl Numbers {
    /// Tags are below this.
    pub const END: u32 = 1 << 31;

    /// The first of `len` consecutive tags; `None`: there is no such range.
    pub fn take(&mut self, len: u32) -> Option<u32> {
        let first = self.gap(self.next, len).or_else(|| self.gap(0, len))?;
        self.rows.insert(first, first + len);
        self.next = first + len;
        Some(first)
    }

    /// Where the first free range of `len` tags begins, from `start` on.
    fn gap(&self, mut start: u32, len: u32) -> Option<u32> {
        if let Some((_, &end)) = self.rows.range(..start).next_back() {
            start = start.max(end);
        }
        for (&row, &end) in self.rows.range(start..) {
            if row - start >= len {
                return Some(start);
            }
            start = end;
        }
        (Numbers::END - start >= len).then_some(start)
    }

    /// Frees a range.
    pub fn give_back(&mut self, first: u32) {
        self.rows.remove(&first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Ranges in use never overlap, and a range is refused only when there is no room.
        #[test]
        fn rows_of_numbers_never_overlap(steps in prop::collection::vec((any::<bool>(), 1..1u32 << 29), 1..60)) {
            let mut numbers = Numbers::default();
            let mut held: Vec<(u32, u32)> = Vec::new();
            for (gives_back, len) in steps {
                if gives_back && !held.is_empty() {
                    let (first, _) = held.swap_remove(len as usize % held.len());
                    numbers.give_back(first);
                    continue;
                }
                held.sort_unstable();
                let starts = held.iter().map(|&(start, _)| start).chain([Numbers::END]);
                let ends = [0].into_iter().chain(held.iter().map(|&(_, end)| end));
                let room = starts.zip(ends).map(|(start, end)| start - end).max();
                match numbers.take(len) {
                    None => prop_assert!(room < Some(len)),
                    Some(first) => {
                        prop_assert!(held.iter().all(|&(start, end)| first + len <= start || end <= first));
                        prop_assert!(first + len <= Numbers::END);
                        held.push((first, first + len));
                    }
                }
            }
        }
    }
}
