//! Keys of memory regions, where the provider does not choose them.
//!
//! Whoever knows a key can read the memory that it stands for, so keys of registered memory are random, with as many bits
//! as the provider takes.

use std::collections::HashSet;

use crate::base::error::Result;
use crate::base::random;
use crate::err;

/// Random keys that are not in use.
pub(super) struct Keys {
    mask: u64,
    used: HashSet<u64, rustc_hash::FxBuildHasher>,
    random: [u64; 32],
    left: usize,
}

impl Keys {
    /// For a provider whose keys have `bytes` bytes.
    pub(super) fn new(bytes: usize) -> Keys {
        Keys {
            mask: if bytes >= 8 {
                u64::MAX >> 1
            } else {
                (1u64 << (8 * bytes.max(1))) - 1
            },
            used: HashSet::default(),
            random: [0; 32],
            left: 0,
        }
    }

    /// A key that no other region has, to be given back by [`Keys::free`].
    pub(super) fn take(&mut self) -> Result<u64> {
        for _ in 0..64 {
            if self.left == 0 {
                self.refill()?;
            }
            self.left -= 1;
            let key = self.random[self.left] & self.mask;
            // Keys of local buffers are small numbers.
            if key >= LOCAL_KEYS.min(self.mask / 2) && self.used.insert(key) {
                return Ok(key);
            }
        }
        Err(err!(
            Other,
            "no key is left for a memory region: {} are in use",
            self.used.len()
        ))
    }

    /// How many are in use.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.used.len()
    }

    /// Frees a key.
    pub(super) fn free(&mut self, key: u64) {
        self.used.remove(&key);
    }

    fn refill(&mut self) -> Result<()> {
        random::fill(&mut self.random)?;
        self.left = self.random.len();
        Ok(())
    }
}

/// Keys below this one belong to the lane's own buffers, which no other process may read.
const LOCAL_KEYS: u64 = 4096;

/// The key of the lane's own buffer number `index`.
pub(super) fn local(index: usize) -> u64 {
    (index as u64) % LOCAL_KEYS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_fit() {
        for bytes in [2, 4, 8] {
            let mut keys = Keys::new(bytes);
            let taken: HashSet<u64> = (0..1000).map(|_| keys.take().unwrap()).collect();
            assert_eq!(taken.len(), 1000);
            assert!(bytes == 8 || taken.iter().all(|key| *key < 1 << (8 * bytes)));
        }
    }

    #[test]
    fn local_keys_are_apart() {
        assert_eq!([local(0), local(7), local(4096 + 7)], [0, 7, 7]);
        for (bytes, least) in [(1, 127), (2, LOCAL_KEYS)] {
            let mut keys = Keys::new(bytes);
            for _ in 0..3000 {
                let key = keys.take().unwrap();
                assert!(key >= least, "{key} of {bytes} bytes");
                keys.free(key);
            }
        }
    }

    #[test]
    fn a_freed_key_may_come_again() {
        let mut keys = Keys::new(1);
        for _ in 0..10_000 {
            let key = keys.take().unwrap();
            keys.free(key);
        }
    }
}
