//! Memory that an operation reads or writes: the user's, its own, or a place of the area.

use crate::base::bytes;

/// The bytes of a pair of numbers.
pub const PAIR: usize = size_of::<[u64; 2]>();

/// See the module.
#[derive(Clone, Copy)]
pub struct Bytes {
    address: *mut u8,
    number: usize,
}

// SAFETY: only an address; by the promise of `Bytes::new` the memory is the operation's, whichever thread polls it.
unsafe impl Send for Bytes {}
// SAFETY: as for `Send`.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// So many bytes.
    ///
    /// # Safety
    /// Until the operation has ended, they are valid for what it does with them, and nobody else uses them but as the standard allows
    /// (MPI 5.0 section 6.12).
    #[inline(always)]
    pub unsafe fn new(address: *mut u8, number: usize) -> Bytes {
        Bytes { address, number }
    }

    /// None.
    pub fn none() -> Bytes {
        Bytes {
            address: std::ptr::NonNull::dangling().as_ptr(),
            number: 0,
        }
    }

    /// The first one.
    #[inline(always)]
    pub fn address(self) -> *mut u8 {
        self.address
    }

    /// How many.
    #[inline(always)]
    pub fn number(self) -> usize {
        self.number
    }

    /// So many of them from one on.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline(always)]
    pub fn part(self, at: usize, number: usize) -> Bytes {
        assert!(
            at <= self.number && number <= self.number - at,
            "a part of the bytes"
        );
        Bytes {
            address: self.address.wrapping_add(at),
            number,
        }
    }

    /// Whether they begin where the others do.
    #[inline(always)]
    pub fn is(self, other: Bytes) -> bool {
        std::ptr::eq(self.address, other.address)
    }

    /// Whether none of them is also one of the others.
    #[inline(always)]
    pub fn is_apart(self, other: Bytes) -> bool {
        let (mine, theirs) = (self.address as usize, other.address as usize);
        mine + self.number <= theirs || theirs + other.number <= mine
    }

    /// The entry of a table of pairs of numbers that they begin with; `None`: they are too few for that.
    pub fn pair(self, at: usize) -> Option<[u64; 2]> {
        let end = at.checked_add(1)?.checked_mul(PAIR)?;
        let mut pair = [0; 2];
        let from = (end <= self.number).then(|| self.part(at * PAIR, PAIR))?;
        // SAFETY: both have so many bytes (`Bytes::new`); any bytes are numbers.
        unsafe { bytes::copy(from.address, pair.as_mut_ptr().cast(), PAIR) };
        Some(pair)
    }

    /// Sets such an entry.
    ///
    /// # Panics
    /// If they are too few for that.
    pub fn set_pair(self, at: usize, pair: [u64; 2]) {
        let to = self.part(at * PAIR, PAIR);
        // SAFETY: as in `pair`.
        unsafe { bytes::copy(pair.as_ptr().cast(), to.address, PAIR) };
    }

    /// Copies the first of them, as many as there are in both.
    #[inline(always)]
    pub fn copy_to(self, to: Bytes) {
        let number = self.number.min(to.number);
        // SAFETY: both are valid for so many (`Bytes::new`), and may overlap.
        unsafe { bytes::copy(self.address, to.address, number) };
    }
}
