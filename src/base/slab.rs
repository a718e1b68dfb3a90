//! A slab: values at small stable indices, freed places are used again. No allocation once it has grown.

use std::ops::{Index, IndexMut};

/// See the module.
pub struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: u32,
    len: usize,
}

enum Entry<T> {
    Used(T),
    Free(u32),
}

const END: u32 = u32::MAX;

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            entries: Vec::new(),
            free: END,
            len: 0,
        }
    }
}

impl<T> Slab<T> {
    /// Stores a value and returns its index. The value is made in its place, so a large one need not be moved.
    #[inline(always)]
    pub fn insert_with(&mut self, value: impl FnOnce() -> T) -> u32 {
        if self.free == END {
            self.grow();
        }
        let index = self.free;
        let entry = &mut self.entries[index as usize];
        let Entry::Free(next) = *entry else {
            unreachable!("the free list holds free entries only");
        };
        // Nothing stands between these lines, so the compiler knows that nothing has to be dropped.
        *entry = Entry::Used(value());
        self.free = next;
        self.len += 1;
        index
    }

    /// Stores a value and returns its index.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        self.insert_with(|| value)
    }

    /// One more free entry, where there is none.
    #[cold]
    fn grow(&mut self) {
        self.free = self.entries.len() as u32;
        self.entries.push(Entry::Free(END));
    }

    /// The index that the next value gets.
    #[inline]
    pub fn next_index(&self) -> u32 {
        match self.free {
            END => self.entries.len() as u32,
            free => free,
        }
    }

    /// Takes out the value at an index in use.
    ///
    /// # Panics
    /// If the index is not in use.
    #[inline]
    pub fn remove(&mut self, index: u32) -> T {
        match std::mem::replace(&mut self.entries[index as usize], Entry::Free(self.free)) {
            Entry::Used(value) => {
                self.free = index;
                self.len -= 1;
                value
            }
            Entry::Free(_) => panic!("slab index {index} is not in use"),
        }
    }

    /// Drops the value at an index in use in its place, so a large one need not be moved.
    ///
    /// # Panics
    /// If the index is not in use.
    #[inline(always)]
    pub fn discard(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        assert!(
            matches!(entry, Entry::Used(_)),
            "slab index {index} is not in use"
        );
        *entry = Entry::Free(self.free);
        self.free = index;
        self.len -= 1;
    }

    /// The value at an index, if it is in use.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        match self.entries.get(index as usize) {
            Some(Entry::Used(value)) => Some(value),
            _ => None,
        }
    }

    /// The value at an index, if it is in use.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        match self.entries.get_mut(index as usize) {
            Some(Entry::Used(value)) => Some(value),
            _ => None,
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Indices and values in use.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.entries
            .iter_mut()
            .enumerate()
            .filter_map(|(index, entry)| match entry {
                Entry::Used(value) => Some((index as u32, value)),
                Entry::Free(_) => None,
            })
    }

    /// The same, to look at.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(index, entry)| match entry {
                Entry::Used(value) => Some((index as u32, value)),
                Entry::Free(_) => None,
            })
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        self.get(index).expect("slab index in use")
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        self.get_mut(index).expect("slab index in use")
    }
}
