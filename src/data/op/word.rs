//! Integers that the processor updates atomically, as wide as the elements that `update` is about.
//!
//! All operations acquire and release.

use std::sync::atomic::{
    AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering,
};

/// An integer that the processor updates atomically.
pub(super) trait Word: Copy + Eq {
    type Atomic;

    /// # Safety
    /// It is readable and writable as long as the result is used, aligned to its size, and, meanwhile, accessed by atomic operations only.
    unsafe fn atomic<'a>(address: *mut u8) -> &'a Self::Atomic;
    fn load(at: &Self::Atomic, ordering: Ordering) -> Self;
    fn store(at: &Self::Atomic, value: Self);
    fn swap(at: &Self::Atomic, value: Self) -> Self;
    fn add(at: &Self::Atomic, value: Self) -> Self;
    fn and(at: &Self::Atomic, value: Self) -> Self;
    fn or(at: &Self::Atomic, value: Self) -> Self;
    fn xor(at: &Self::Atomic, value: Self) -> Self;
    fn max(at: &Self::Atomic, value: Self) -> Self;
    fn min(at: &Self::Atomic, value: Self) -> Self;
    /// It may fail for no reason.
    fn exchange_weak(at: &Self::Atomic, old: Self, new: Self) -> std::result::Result<Self, Self>;
    fn exchange(at: &Self::Atomic, old: Self, new: Self) -> std::result::Result<Self, Self>;

    /// Replaces what is there by what becomes of it.
    #[inline(always)]
    fn change(at: &Self::Atomic, change: impl Fn(Self) -> Self) -> Self {
        let mut old = Self::load(at, Ordering::Relaxed);
        loop {
            match Self::exchange_weak(at, old, change(old)) {
                Ok(old) => return old,
                Err(now) => old = now,
            }
        }
    }
}

macro_rules! words {
    ($($word:ty: $atomic:ty,)*) => {$(
        impl Word for $word {
            type Atomic = $atomic;

            #[inline(always)]
            unsafe fn atomic<'a>(address: *mut u8) -> &'a $atomic {
                // SAFETY: the caller's promise is that of this function.
                unsafe { <$atomic>::from_ptr(address.cast()) }
            }

            #[inline(always)]
            fn load(at: &$atomic, ordering: Ordering) -> $word {
                at.load(ordering)
            }

            #[inline(always)]
            fn store(at: &$atomic, value: $word) {
                at.store(value, Ordering::Release);
            }

            #[inline(always)]
            fn swap(at: &$atomic, value: $word) -> $word {
                at.swap(value, Ordering::AcqRel)
            }

            #[inline(always)]
            fn add(at: &$atomic, value: $word) -> $word {
                at.fetch_add(value, Ordering::AcqRel)
            }

            #[inline(always)]
            fn and(at: &$atomic, value: $word) -> $word {
                at.fetch_and(value, Ordering::AcqRel)
            }

            #[inline(always)]
            fn or(at: &$atomic, value: $word) -> $word {
                at.fetch_or(value, Ordering::AcqRel)
            }

            #[inline(always)]
            fn xor(at: &$atomic, value: $word) -> $word {
                at.fetch_xor(value, Ordering::AcqRel)
            }

            #[inline(always)]
            fn max(at: &$atomic, value: $word) -> $word {
                at.fetch_max(value, Ordering::AcqRel)
            }

            #[inline(always)]
            fn min(at: &$atomic, value: $word) -> $word {
                at.fetch_min(value, Ordering::AcqRel)
            }

            #[inline(always)]
            fn exchange_weak(at: &$atomic, old: $word, new: $word) -> std::result::Result<$word, $word> {
                at.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed)
            }

            #[inline(always)]
            fn exchange(at: &$atomic, old: $word, new: $word) -> std::result::Result<$word, $word> {
                at.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            }
        }
    )*};
}

words! {
    i8: AtomicI8,
    u8: AtomicU8,
    i16: AtomicI16,
    u16: AtomicU16,
    i32: AtomicI32,
    u32: AtomicU32,
    i64: AtomicI64,
    u64: AtomicU64,
}
