//! Copying between a user's buffer and packed bytes.
//!
//! Loops are compiled for each kind of [`Block`]: for the usual small sizes exactly, for the others of up to 64 bytes as
//! two moves that overlap, since a call of `memcpy` costs more than that. The kind is chosen once for a loop.
//!
//! User addresses are plain numbers with exposed provenance: with `MPI_BOTTOM` a displacement is the address itself,
//! and no Rust pointer to the memory exists to start from.

use super::walk::{RecordRun, Sink};
#[cfg(not(miri))]
use std::arch::asm;
use std::ptr;

/// How a run of one length is copied.
trait Block: Copy {
    /// Bytes.
    fn len(self) -> usize;

    /// Copies one.
    ///
    /// # Safety
    /// Both sides are valid for that many bytes, and do not overlap.
    unsafe fn copy(self, from: *const u8, to: *mut u8);
}

/// A length known when this is compiled.
#[derive(Clone, Copy)]
struct Exact<const LEN: usize>;

impl<const LEN: usize> Block for Exact<LEN> {
    #[inline(always)]
    fn len(self) -> usize {
        LEN
    }

    #[inline(always)]
    unsafe fn copy(self, from: *const u8, to: *mut u8) {
        if LEN.is_multiple_of(16) {
            // SAFETY: the caller's runs are valid and do not overlap.
            return unsafe { ptr::copy_nonoverlapping(from, to, LEN) };
        }
        // By words: an unaligned store of 16 bytes, which the compiler would choose, costs more than two of 8
        // (measured on AMD EPYC: a third more time for structures of 21 bytes).
        let mut done = 0;
        while done < LEN {
            let rest = LEN - done;
            let word = if rest >= 8 { 8 } else { 1 << rest.ilog2() };
            // SAFETY: part of the bytes that the caller vouches for. The length is a constant once the loop is unrolled.
            unsafe { ptr::copy_nonoverlapping(from.add(done), to.add(done), word) };
            done += word;
        }
    }
}

/// Any length from `LEN` to twice that: the first and the last `LEN` bytes.
#[derive(Clone, Copy)]
struct Ends<const LEN: usize>(usize);

impl<const LEN: usize> Block for Ends<LEN> {
    #[inline(always)]
    fn len(self) -> usize {
        self.0
    }

    #[inline(always)]
    unsafe fn copy(self, from: *const u8, to: *mut u8) {
        let last = self.0 - LEN;
        // SAFETY: two ranges within the bytes that the caller vouches for.
        unsafe {
            ptr::copy_nonoverlapping(from, to, LEN);
            ptr::copy_nonoverlapping(from.add(last), to.add(last), LEN);
        }
    }
}

/// Any length of more than `WORDS` words of 8 bytes, up to one more: that many words, and the last 8 bytes.
#[derive(Clone, Copy)]
struct Words<const WORDS: usize>(usize);

impl<const WORDS: usize> Block for Words<WORDS> {
    #[inline(always)]
    fn len(self) -> usize {
        self.0
    }

    #[inline(always)]
    unsafe fn copy(self, from: *const u8, to: *mut u8) {
        let last = self.0 - 8;
        // SAFETY: ranges within the bytes that the caller vouches for.
        unsafe {
            for word in 0..WORDS {
                ptr::copy_nonoverlapping(from.add(word * 8), to.add(word * 8), 8);
            }
            ptr::copy_nonoverlapping(from.add(last), to.add(last), 8);
        }
    }
}

/// Any length.
#[derive(Clone, Copy)]
struct Long(usize);

impl Block for Long {
    #[inline(always)]
    fn len(self) -> usize {
        self.0
    }

    #[inline(always)]
    unsafe fn copy(self, from: *const u8, to: *mut u8) {
        // SAFETY: the caller's runs are valid and do not overlap.
        unsafe { ptr::copy_nonoverlapping(from, to, self.0) }
    }
}

/// Evaluates an expression with the [`Block`] for a length.
macro_rules! with_block {
    (@ $value:expr, $block:ident => $body:expr) => {{
        let $block = $value;
        $body
    }};
    ($len:expr, $block:ident => $body:expr) => {
        match $len {
            1 => with_block!(@ Exact::<1>, $block => $body),
            2 => with_block!(@ Exact::<2>, $block => $body),
            3 => with_block!(@ Exact::<3>, $block => $body),
            4 => with_block!(@ Exact::<4>, $block => $body),
            8 => with_block!(@ Exact::<8>, $block => $body),
            12 => with_block!(@ Exact::<12>, $block => $body),
            16 => with_block!(@ Exact::<16>, $block => $body),
            20 => with_block!(@ Exact::<20>, $block => $body),
            24 => with_block!(@ Exact::<24>, $block => $body),
            28 => with_block!(@ Exact::<28>, $block => $body),
            32 => with_block!(@ Exact::<32>, $block => $body),
            40 => with_block!(@ Exact::<40>, $block => $body),
            48 => with_block!(@ Exact::<48>, $block => $body),
            64 => with_block!(@ Exact::<64>, $block => $body),
            len @ 5..8 => with_block!(@ Ends::<4>(len), $block => $body),
            len @ 9..16 => with_block!(@ Ends::<8>(len), $block => $body),
            len @ 17..32 => with_block!(@ Ends::<16>(len), $block => $body),
            len @ 33..64 => with_block!(@ Ends::<32>(len), $block => $body),
            len => with_block!(@ Long(len), $block => $body),
        }
    };
}

/// As `with_block`, for the lengths that [`is_short`]: fewer kinds, for loops of two blocks.
macro_rules! with_short_block {
    ($len:expr, $block:ident => $body:expr) => {
        match $len {
            1 => with_block!(@ Exact::<1>, $block => $body),
            2 => with_block!(@ Exact::<2>, $block => $body),
            4 => with_block!(@ Exact::<4>, $block => $body),
            8 => with_block!(@ Exact::<8>, $block => $body),
            12 => with_block!(@ Exact::<12>, $block => $body),
            20 => with_block!(@ Exact::<20>, $block => $body),
            len @ ..8 => with_block!(@ Ends::<4>(len), $block => $body),
            len @ ..=16 => with_block!(@ Words::<1>(len), $block => $body),
            len @ ..=24 => with_block!(@ Words::<2>(len), $block => $body),
            len => with_block!(@ Words::<3>(len), $block => $body),
        }
    };
}

fn is_short(run: &RecordRun) -> bool {
    matches!(run.len, 1..=2 | 4..=32)
}

/// Copies between user memory and a packed buffer; `PACK` selects the direction.
pub(crate) struct Copier<const PACK: bool> {
    /// Where the next packed byte is.
    pub(crate) packed: *mut u8,
}

impl<const PACK: bool> Copier<PACK> {
    /// Copies one run, to or from `packed`.
    ///
    /// # Safety
    /// As [`Copier::run`].
    #[inline(always)]
    unsafe fn block<B: Block>(block: B, at: usize, packed: *mut u8) {
        let user = ptr::with_exposed_provenance_mut::<u8>(at);
        // SAFETY: the caller vouches for both sides, and that they are apart.
        unsafe {
            if PACK {
                block.copy(user, packed);
            } else {
                block.copy(packed, user);
            }
        }
    }

    /// # Safety
    /// As [`Copier::run`], for each.
    #[inline(always)]
    unsafe fn strided_blocks<B: Block>(&mut self, block: B, at: usize, count: u64, stride: i64) {
        let (mut at, mut packed) = (at, self.packed);
        for _ in 0..count {
            // SAFETY: the caller vouches for the run, and the packed side has room for all of them.
            unsafe {
                Self::block(block, at, packed);
                packed = packed.add(block.len());
            }
            at = at.wrapping_add(stride as usize);
            #[cfg(not(miri))]
            if PACK {
                // Keeps the compiler from unrolling the loop. Processors that predict strides do so for each load
                // instruction: one that walks a matrix column is predicted better than four that take turns
                // (measured on AMD EPYC: 5 to 10 % for a column of 4096 rows of 32 KiB).
                // SAFETY: no instruction at all.
                unsafe { asm!("/* {at} */", at = inout(reg) at, options(nomem, nostack, preserves_flags)) };
            }
        }
        self.packed = packed;
    }

    /// Copies runs `stride` apart in memory and `size` apart among the packed bytes, four at a time.
    ///
    /// # Safety
    /// As [`Copier::run`], for each.
    #[inline(always)]
    unsafe fn spread<B: Block>(block: B, at: usize, packed: *mut u8, count: u64, stride: i64, size: usize) {
        let (mut at, mut packed, mut left) = (at, packed, count);
        let stride = stride as usize;
        // SAFETY: the caller vouches for the runs and for their places on the packed side; addresses behind the last one
        // are never used.
        unsafe {
            while left >= 4 {
                Self::block(block, at, packed);
                Self::block(block, at.wrapping_add(stride), packed.wrapping_add(size));
                let (third, there) = (
                    at.wrapping_add(stride.wrapping_mul(2)),
                    packed.wrapping_add(size * 2),
                );
                Self::block(block, third, there);
                Self::block(block, third.wrapping_add(stride), there.wrapping_add(size));
                (at, packed) = (
                    at.wrapping_add(stride.wrapping_mul(4)),
                    packed.wrapping_add(size * 4),
                );
                left -= 4;
            }
            while left > 0 {
                Self::block(block, at, packed);
                (at, packed) = (at.wrapping_add(stride), packed.wrapping_add(size));
                left -= 1;
            }
        }
    }

    /// Copies two runs of each of some records, `stride` apart in memory and `size` apart among the packed bytes. The second
    /// run is `apart` from the first in memory, and `packed_apart` among the packed bytes.
    ///
    /// # Safety
    /// As [`Copier::run`], for each.
    #[inline(always)]
    unsafe fn spread_two<A: Block, B: Block>(
        (first, second): (A, B),
        at: usize,
        packed: *mut u8,
        (apart, packed_apart): (usize, usize),
        count: u64,
        (stride, size): (i64, usize),
    ) {
        let (mut at, mut packed) = (at, packed);
        for _ in 0..count {
            // SAFETY: the caller vouches for the runs and for their places on the packed side.
            unsafe {
                Self::block(first, at, packed);
                Self::block(second, at.wrapping_add(apart), packed.wrapping_add(packed_apart));
            }
            (at, packed) = (at.wrapping_add(stride as usize), packed.wrapping_add(size));
        }
    }

    /// # Safety
    /// As [`Copier::run`], for each.
    #[inline(always)]
    unsafe fn gather_blocks<B: Block>(&mut self, block: B, at: usize, offsets: &[i64]) {
        let mut packed = self.packed;
        for &offset in offsets {
            // SAFETY: the caller vouches for the run, and the packed side has room for all of them.
            unsafe {
                Self::block(block, at.wrapping_add(offset as usize), packed);
                packed = packed.add(block.len());
            }
        }
        self.packed = packed;
    }
}

/// The runs must be readable (to pack) or writable (to unpack), the packed side must have room for all of them, and
/// the two sides must not overlap.
impl<const PACK: bool> Sink for Copier<PACK> {
    #[inline(always)]
    unsafe fn run(&mut self, at: usize, len: usize) {
        // SAFETY: the caller vouches for the run and for room on the packed side.
        unsafe {
            match len {
                0..4 => {
                    for index in 0..len {
                        Self::block(Exact::<1>, at.wrapping_add(index), self.packed.add(index));
                    }
                }
                4..8 => Self::block(Ends::<4>(len), at, self.packed),
                8..=16 => Self::block(Ends::<8>(len), at, self.packed),
                17..=32 => Self::block(Ends::<16>(len), at, self.packed),
                _ => Self::block(Long(len), at, self.packed),
            }
            self.packed = self.packed.add(len);
        }
    }

    unsafe fn strided(&mut self, at: usize, count: u64, stride: i64, len: usize) {
        // SAFETY: the caller vouches for every run and for room on the packed side.
        with_block!(len, block => unsafe { self.strided_blocks(block, at, count, stride) })
    }

    unsafe fn gather(&mut self, at: usize, offsets: &[i64], len: usize) {
        // SAFETY: the caller vouches for every run and for room on the packed side.
        with_block!(len, block => unsafe { self.gather_blocks(block, at, offsets) })
    }

    unsafe fn records(&mut self, at: usize, count: u64, stride: i64, runs: &[RecordRun], size: u64) {
        /// Records taken at a time where they are traversed more than once: few enough that they stay in the nearest cache.
        const TOGETHER: u64 = 128;
        let size = size as usize;
        let together = if runs.len() <= 2 { count } else { TOGETHER };
        let mut done = 0;
        while done < count {
            let now = together.min(count - done);
            let first = at.wrapping_add((done as usize).wrapping_mul(stride as usize));
            let mut rest = runs;
            while let [run, others @ ..] = rest {
                let at = first.wrapping_add(run.offset as usize);
                let packed = self.packed.wrapping_add(run.start);
                rest = others;
                if let [next, others @ ..] = others
                    && is_short(run)
                    && is_short(next)
                {
                    let apart = (
                        next.offset.wrapping_sub(run.offset) as usize,
                        next.start - run.start,
                    );
                    // SAFETY: the caller vouches for every run and for room on the packed side.
                    with_short_block!(run.len, one => with_short_block!(next.len, two => unsafe {
                        Self::spread_two((one, two), at, packed, apart, now, (stride, size))
                    }));
                    rest = others;
                } else {
                    // SAFETY: as above.
                    with_block!(run.len, block => unsafe { Self::spread(block, at, packed, now, stride, size) });
                }
            }
            // SAFETY: the packed side has room for all records.
            self.packed = unsafe { self.packed.add(now as usize * size) };
            done += now;
        }
    }
}
