//! Bytes that another process may be able to write, and copies of few bytes: for a short message a call of `memcpy` costs
//! more than the copy itself.

use std::marker::PhantomData;

/// Bytes to read that another process may be able to write, as those in shared memory. No slice is made of them; they are
/// copied out. They are readable as long as this lives.
#[derive(Clone, Copy)]
pub struct RawBytes<'a> {
    address: *const u8,
    len: usize,
    of: PhantomData<&'a [u8]>,
}

impl<'a> From<&'a [u8]> for RawBytes<'a> {
    #[inline(always)]
    fn from(bytes: &'a [u8]) -> RawBytes<'a> {
        RawBytes {
            address: bytes.as_ptr(),
            len: bytes.len(),
            of: PhantomData,
        }
    }
}

impl<'a> RawBytes<'a> {
    /// `len` bytes from an address on.
    ///
    /// # Safety
    /// They are readable as long as the result is used.
    #[inline(always)]
    pub unsafe fn new(address: *const u8, len: usize) -> RawBytes<'a> {
        RawBytes {
            address,
            len,
            of: PhantomData,
        }
    }

    /// The first one.
    #[inline(always)]
    pub fn as_ptr(self) -> *const u8 {
        self.address
    }

    /// How many.
    #[inline(always)]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The first ones, as many as there are.
    #[inline(always)]
    pub fn first(self, len: usize) -> RawBytes<'a> {
        RawBytes {
            len: len.min(self.len),
            ..self
        }
    }

    /// Those behind the first `len`; none if there are no more.
    #[inline(always)]
    pub fn skip(self, len: usize) -> RawBytes<'a> {
        let len = len.min(self.len);
        RawBytes {
            address: self.address.wrapping_add(len),
            len: self.len - len,
            of: PhantomData,
        }
    }

    /// A copy of the first `N`, and the rest.
    pub fn split_first<const N: usize>(self) -> Option<([u8; N], RawBytes<'a>)> {
        if self.len < N {
            return None;
        }
        // SAFETY: that many bytes are readable; an array of bytes has no alignment.
        let first = unsafe { self.address.cast::<[u8; N]>().read() };
        let rest = RawBytes {
            address: self.address.wrapping_add(N),
            len: self.len - N,
            of: PhantomData,
        };
        Some((first, rest))
    }

    /// A copy of all of them, which are `N`.
    pub fn array<const N: usize>(self) -> Option<[u8; N]> {
        let (all, rest) = self.split_first()?;
        rest.is_empty().then_some(all)
    }

    /// A copy at the end of a list.
    pub fn append_to(self, list: &mut Vec<u8>) {
        list.reserve(self.len);
        // SAFETY: that many bytes are readable here, and there is room for them behind the list's, which nothing else uses.
        unsafe {
            self.address
                .copy_to_nonoverlapping(list.as_mut_ptr().add(list.len()), self.len);
            list.set_len(list.len() + self.len);
        }
    }

    /// A copy.
    pub fn to_vec(self) -> Vec<u8> {
        let mut list = Vec::new();
        self.append_to(&mut list);
        list
    }
}

/// Room for bytes that another process may also be able to write: see [`RawBytes`].
pub struct RawRoom<'a> {
    address: *mut u8,
    len: usize,
    of: PhantomData<&'a mut [u8]>,
}

impl<'a> From<&'a mut [u8]> for RawRoom<'a> {
    #[inline(always)]
    fn from(bytes: &'a mut [u8]) -> RawRoom<'a> {
        RawRoom {
            address: bytes.as_mut_ptr(),
            len: bytes.len(),
            of: PhantomData,
        }
    }
}

impl<'a> RawRoom<'a> {
    /// `len` bytes from an address on.
    ///
    /// # Safety
    /// They are writable as long as the result is used, and nothing else in this process uses them meanwhile.
    #[inline(always)]
    pub unsafe fn new(address: *mut u8, len: usize) -> RawRoom<'a> {
        RawRoom {
            address,
            len,
            of: PhantomData,
        }
    }

    /// The first one.
    #[inline(always)]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.address
    }

    /// How many.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[allow(dead_code, reason = "for tests")]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first ones, as many as there are.
    #[inline(always)]
    pub fn first(self, len: usize) -> RawRoom<'a> {
        RawRoom {
            len: len.min(self.len),
            ..self
        }
    }

    /// Fills it.
    ///
    /// # Panics
    /// If `bytes` has another length.
    #[inline]
    pub fn fill_from<'b>(self, bytes: impl Into<RawBytes<'b>>) {
        let bytes = bytes.into();
        assert_eq!(self.len, bytes.len());
        // SAFETY: so many bytes are readable there and writable here, where nobody of this process uses them: so `bytes` is elsewhere.
        unsafe { self.address.copy_from_nonoverlapping(bytes.as_ptr(), self.len) };
    }
}

/// The most bytes that [`copy_short`] copies.
pub const SHORT: usize = 32;

/// Copies at most [`SHORT`] bytes, by words that overlap. The ranges may overlap too.
///
/// # Safety
/// `len` is at most `SHORT`; `from` is valid for reading, and `to` for writing, `len` bytes.
#[inline(always)]
pub unsafe fn copy_short(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: every access lies within the `len` bytes from `from` and `to`, and all of `from` is read before anything is
    // written.
    unsafe {
        if len >= 16 {
            ends::<u128>(from, to, len);
        } else if len >= 8 {
            ends::<u64>(from, to, len);
        } else if len >= 4 {
            ends::<u32>(from, to, len);
        } else if len > 0 {
            let (first, middle, last) = (*from, *from.add(len / 2), *from.add(len - 1));
            *to = first;
            *to.add(len / 2) = middle;
            *to.add(len - 1) = last;
        }
    }
}

/// Copies the first and the last `T` of `len` bytes.
///
/// # Safety
/// As for [`copy_short`], with `len` no less than the size of `T`, which is a type of integers.
#[inline(always)]
unsafe fn ends<T>(from: *const u8, to: *mut u8, len: usize) {
    let behind = len - size_of::<T>();
    // SAFETY: each access lies within the caller's `len` bytes, and both are read before anything is written.
    unsafe {
        let first = from.cast::<T>().read_unaligned();
        let last = from.add(behind).cast::<T>().read_unaligned();
        to.cast::<T>().write_unaligned(first);
        to.add(behind).cast::<T>().write_unaligned(last);
    }
}

/// Copies any number of bytes; the ranges may overlap.
///
/// # Safety
/// `from` is valid for reading, and `to` for writing, `len` bytes.
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's ranges are valid; both ways allow them to overlap.
    unsafe {
        if len <= SHORT {
            copy_short(from, to, len);
        } else {
            std::ptr::copy(from, to, len);
        }
    }
}

/// From this many bytes on, `memcpy` of glibc may use an instruction for copying strings, which on some processors (Zen 3
/// and 4) takes up to twice as long as plain loads and stores where the bytes come from, or go to, another core's cache.
const LONG: usize = 2 << 10;

/// Copies any number of bytes.
///
/// # Safety
/// `from` is valid for reading, and `to` for writing, `len` bytes. Where the ranges overlap, the contents of `to` are
/// undefined afterwards.
#[inline(always)]
pub unsafe fn copy_apart(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's ranges are valid; both ways allow them to overlap.
    unsafe {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if len >= LONG {
            return copy_long(from, to, len);
        }
        copy(from, to, len);
    }
}

/// The loop of the long copies: 64 bytes at each `at`, by this store, up to the first `at` that is not below `end`. It is
/// in assembly, because the compiler would turn a simple loop into a call of `memcpy`, and, where it does not optimize,
/// would turn intrinsics into a loop that is many times slower.
/// Miri has no assembly.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! copy_lines {
    ($store:literal, $from:expr, $to:expr, $at:expr, $end:expr) => {
        std::arch::asm!(
            "2:",
            "movups {a}, [{from} + {at}]",
            "movups {b}, [{from} + {at} + 16]",
            "movups {c}, [{from} + {at} + 32]",
            "movups {d}, [{from} + {at} + 48]",
            concat!($store, " [{to} + {at}], {a}"),
            concat!($store, " [{to} + {at} + 16], {b}"),
            concat!($store, " [{to} + {at} + 32], {c}"),
            concat!($store, " [{to} + {at} + 48], {d}"),
            "add {at}, 64",
            "cmp {at}, {end}",
            "jb 2b",
            at = inout(reg) $at => _,
            end = in(reg) $end,
            from = in(reg) $from,
            to = in(reg) $to,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        )
    };
}

/// See [`copy_apart`].
///
/// # Safety
/// As for that function, with `len` no less than a line of 64 bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(never)]
unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize) {
    let last = len - 64;
    // Lines from `at` on, up to one that begins at `last` or before it.
    let lines = |at: usize| {
        // SAFETY: reads and writes 64 bytes at each `at` up to `last`, so no more than `len` bytes of either; loads and stores of
        // any alignment, which every x86-64 has; all of a line is loaded before any of it is stored.
        unsafe {
            copy_lines!("movups", from, to, at, last);
        }
    };
    lines(0);
    // It may overlap the one before.
    lines(last);
}

/// Copies by stores that bypass the caches where the processor has such stores, and makes them visible before any store
/// that follows.
///
/// # Safety
/// `from` is valid for reading, and `to`, a multiple of 16, for writing, `len` bytes. The ranges do not overlap.
pub unsafe fn copy_streaming(from: *const u8, to: *mut u8, len: usize) {
    debug_assert!((to as usize).is_multiple_of(16));
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    let streamed = len & !63;
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let streamed = 0;
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if streamed > 0 {
        // SAFETY: reads and writes 64 bytes at each multiple of 64 below `streamed`, so no more than `len` bytes of either; `to` is
        // aligned as `movntps` wants it; every x86-64 has these instructions. Streaming stores are not ordered by what orders
        // others, the release store that publishes the bytes among them: the fence at the end orders them.
        unsafe {
            copy_lines!("movntps", from, to, 0usize, streamed);
            std::arch::x86_64::_mm_sfence();
        }
    }
    // SAFETY: what is left of both.
    unsafe { copy(from.add(streamed), to.add(streamed), len - streamed) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streaming_stores_copy_every_length_and_nothing_else() {
        let from: Vec<u8> = (0..600).map(|at| (at * 7 / 5) as u8).collect();
        for (len, skip) in (0..520).flat_map(|len| [(len, 0), (len, 3)]) {
            let mut to = [[0xeeu8; 16]; 34];
            let to: &mut [u8] = to.as_flattened_mut();
            let aligned = to.as_ptr().align_offset(16);
            // SAFETY: `from` has that many bytes behind `skip`, `to` behind the first that is aligned.
            unsafe { copy_streaming(from.as_ptr().add(skip), to.as_mut_ptr().add(aligned), len) };
            assert!(
                to[aligned..aligned + len] == from[skip..skip + len],
                "{len} bytes"
            );
            let around = to[..aligned].iter().chain(&to[aligned + len..]);
            assert!(around.into_iter().all(|byte| *byte == 0xee), "{len} bytes");
        }
    }

    #[test]
    fn every_length_is_copied_and_nothing_else() {
        for len in 0..3 * SHORT {
            let from: Vec<u8> = (1..=len as u8).collect();
            let mut to = vec![0; len + 2];
            // SAFETY: `to` has room for one more on each side.
            unsafe { copy(from.as_ptr(), to.as_mut_ptr().add(1), len) };
            assert_eq!(to[1..=len], from);
            assert_eq!((to[0], to[len + 1]), (0, 0));
        }
    }

    #[test]
    fn long_ranges_are_copied_and_nothing_else() {
        let from: Vec<u8> = (0..3 * LONG).map(|at| (at * 7 / 5) as u8).collect();
        for len in (LONG - 2..LONG + 200).chain([2 * LONG, 3 * LONG - 9]) {
            for (skip, shift) in [(0, 1), (3, 1), (5, 9)] {
                let mut to = vec![0xee; len + shift + 1];
                // SAFETY: `from` has that many bytes behind `skip`, `to` one more than `len` behind `shift`.
                unsafe { copy_apart(from.as_ptr().add(skip), to.as_mut_ptr().add(shift), len) };
                assert!(to[shift..shift + len] == from[skip..skip + len], "{len} bytes");
                assert!(
                    to[..shift]
                        .iter()
                        .chain(&to[shift + len..])
                        .all(|byte| *byte == 0xee)
                );
            }
        }
    }

    #[test]
    fn ranges_may_overlap() {
        for len in 0..2 * SHORT {
            for (from, to) in [(0, 1), (1, 0), (0, 5), (7, 0)] {
                let mut bytes: Vec<u8> = (0..len as u8 + 8).collect();
                let expected = bytes[from..from + len].to_vec();
                // SAFETY: both ranges lie within.
                unsafe { copy(bytes.as_ptr().add(from), bytes.as_mut_ptr().add(to), len) };
                assert_eq!(bytes[to..to + len], expected);
            }
        }
    }
}
