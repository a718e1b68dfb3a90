//! Which of the changes woven into this tree is made: the one whose number is in `MUTANT_MADE`.
//!
//! With `MUTANTS_REACHED` none is, and each that would have had an effect is noted in that file, a byte for each.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

const UNKNOWN: u32 = u32::MAX;
const NONE: u32 = u32::MAX - 1;
const NOTE: u32 = u32::MAX - 2;

static CHOSEN: AtomicU32 = AtomicU32::new(UNKNOWN);
static REACHED: OnceLock<&'static [AtomicU8]> = OnceLock::new();

/// Whether change `number` is made.
#[inline]
pub fn on(number: u32) -> bool {
    let chosen = CHOSEN.load(Relaxed);
    chosen == number || (chosen >= NOTE && slow(chosen, number))
}

#[cold]
fn slow(chosen: u32, number: u32) -> bool {
    match chosen {
        UNKNOWN => {
            let word = |name| std::env::var(name).ok();
            let chosen = match (word("MUTANT_MADE"), word("MUTANTS_REACHED")) {
                (Some(number), _) => number.parse().expect("MUTANT_MADE"),
                (None, Some(path)) if map(&path) => NOTE,
                _ => NONE,
            };
            CHOSEN.store(chosen, Relaxed);
            on(number)
        }
        NOTE => {
            if let Some(byte) = REACHED.get().and_then(|bytes| bytes.get(number as usize)) {
                byte.store(1, Relaxed);
            }
            false
        }
        _ => false,
    }
}

fn map(path: &str) -> bool {
    use std::os::fd::AsRawFd as _;
    let Ok(file) = std::fs::File::options().read(true).write(true).open(path) else {
        return false;
    };
    let Ok(length) = file.metadata().map(|data| data.len() as usize) else {
        return false;
    };
    // SAFETY: a new mapping of an open file, that is never unmapped.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the mapping has so many bytes, and each access is atomic.
    let bytes = unsafe { std::slice::from_raw_parts(at.cast::<AtomicU8>(), length) };
    // Another thread may have been first.
    REACHED.set(bytes).is_ok() || REACHED.get().is_some()
}
