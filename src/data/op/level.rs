//! Which instructions kernels may use: what the target has in any case, or more, if this machine has it.

use std::sync::atomic::{AtomicU8, Ordering};

/// A set of instructions. A machine that has one also has those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Level {
    /// What every machine of the target has: SSE2 on x86-64, NEON on aarch64.
    Baseline,
    /// AVX2, and the conversions of half precision (F16C).
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 with the parts for bytes, words and shorter vectors.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// All, from the lowest on.
    #[cfg(not(target_arch = "x86_64"))]
    pub const ALL: &[Level] = &[Level::Baseline];
    #[cfg(target_arch = "x86_64")]
    /// All, from the lowest on.
    pub const ALL: &[Level] = &[Level::Baseline, Level::Avx2, Level::Avx512];

    /// The highest that this machine has.
    #[inline]
    pub fn here() -> Level {
        const UNKNOWN: u8 = u8::MAX;
        /// Threads that find it out at the same time write the same.
        static HERE: AtomicU8 = AtomicU8::new(UNKNOWN);
        #[cold]
        fn find() -> Level {
            let mut all = Level::ALL.iter().rev();
            let level = *all.find(|level| level.is_here()).unwrap_or(&Level::Baseline);
            HERE.store(level as u8, Ordering::Relaxed);
            level
        }
        match HERE.load(Ordering::Relaxed) {
            0 => Level::Baseline,
            #[cfg(target_arch = "x86_64")]
            1 => Level::Avx2,
            #[cfg(target_arch = "x86_64")]
            2 => Level::Avx512,
            _ => find(),
        }
    }

    /// Whether this machine has it.
    pub fn is_here(self) -> bool {
        match self {
            Level::Baseline => true,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c"),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                Level::Avx2.is_here()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_level_is_chosen() {
        for _ in 0..2 {
            let here = Level::here();
            assert!(Level::ALL.iter().all(|&level| level.is_here() == (level <= here)));
        }
    }
}
