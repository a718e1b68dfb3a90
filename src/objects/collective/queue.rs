//! Messages under way in the order in which they were started, where the oldest is waited for before a further one is started.

use smallvec::SmallVec;

/// So many need no allocation.
const INLINE: usize = 8;

/// See the module: a ring, which grows when it is full.
pub(super) struct Queue<T> {
    places: SmallVec<[Option<T>; INLINE]>,
    first: usize,
    number: usize,
}

impl<T> Queue<T> {
    pub fn new() -> Queue<T> {
        Queue {
            places: SmallVec::new(),
            first: 0,
            number: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.number
    }

    /// Adds one at the end.
    pub fn push(&mut self, entry: T) {
        if self.number == self.places.len() {
            self.places.rotate_left(self.first);
            self.first = 0;
            self.places.push(Some(entry));
        } else {
            let at = (self.first + self.number) % self.places.len();
            self.places[at] = Some(entry);
        }
        self.number += 1;
    }

    /// Takes the oldest, if there is one.
    pub fn pop(&mut self) -> Option<T> {
        let oldest = self.places.get_mut(self.first)?.take()?;
        self.first = (self.first + 1) % self.places.len();
        self.number -= 1;
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn the_oldest_comes_first() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut queue, mut model) = (Queue::new(), VecDeque::new());
        assert_eq!(queue.pop(), None);
        for turn in 0..5000 {
            if random.u32(..if turn / 500 % 2 == 0 { 3 } else { 5 }) < 2 {
                queue.push(turn);
                model.push_back(turn);
            } else {
                assert_eq!(queue.pop(), model.pop_front());
            }
            assert_eq!(queue.len(), model.len());
        }
        while let Some(oldest) = model.pop_front() {
            assert_eq!(queue.pop(), Some(oldest));
        }
        assert_eq!(queue.pop(), None);
    }
}
