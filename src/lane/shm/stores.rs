//! How a long payload is best written into a ring: by plain stores, or by streaming ones, which bypass the caches.
//!
//! Users: the [`Writer`] of a ring's sender, the [`Reader`] of its receiver.
//!
//! Two cores that share a cache are fastest through it. Where they share none, a plain store has to fetch its line from
//! the other core's cache first, and a streaming one does not: it is at least twice as fast, and the reader finds the
//! bytes in memory. The system does not reliably say which case it is: a virtual machine's topology is made up, and its
//! host moves cores while they run. So both sides measure the time of their copies, and the reader reports its times when
//! it returns room. The writer uses the kind of stores whose two copies take less time together, and tries the other kind
//! from time to time.
//!
//! Copies are compared by the least of their last few times, so that neither a copy during which the process was stopped
//! counts, nor a few copies that took long for a passing reason.

use crate::base::bytes::{copy_apart, copy_streaming};

/// Payloads of this many bytes or more are timed, and may be written by streaming stores. (At 1 KiB neither kind was clearly ahead.)
pub const LONG: usize = 4 << 10;

/// The bytes of a trial of the kind that is not in use: a lap of the longest bulk and a little more. What a store costs
/// depends on where the last lap has left the line, so only the end of a trial shows what a kind costs when it is in use.
const TRIAL: u32 = (2 << 20) + (128 << 10);
/// From the end of one trial to the beginning of the next at first, and again after each change of the kind in use. It
/// doubles with each trial that changes nothing ...
const PERIOD_LEAST: u32 = 8 << 20;
/// ... up to this: less than one byte in fifty is written the slower way then.
const PERIOD_MOST: u32 = 128 << 20;
/// The first trial comes when the longest bulk has been written from end to end and
/// half of it again: in the first lap its pages are new.
const FIRST: u32 = 3 << 20;

/// The value of a processor's clock. Only differences of a few microseconds count, on one processor.
#[inline(always)]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction.
    #[allow(unused_unsafe, reason = "it is safe in newer versions of Rust")]
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// The stores by which a payload is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreKind {
    /// Plain ones.
    Cached = 0,
    /// Streaming ones.
    Streaming = 1,
}

impl StoreKind {
    fn other(self) -> StoreKind {
        match self {
            StoreKind::Cached => StoreKind::Streaming,
            StoreKind::Streaming => StoreKind::Cached,
        }
    }
}

const KEPT: usize = 16;

/// The last few times of copies of one kind, in ticks for 1024 bytes.
#[derive(Clone, Copy)]
struct Recent {
    times: [u32; KEPT],
    next: u8,
}

/// No time yet.
const NONE: u32 = u32::MAX;

impl Recent {
    const fn new() -> Recent {
        Recent {
            times: [NONE; KEPT],
            next: 0,
        }
    }

    fn add(&mut self, ticks: u64, len: usize) {
        let each = ticks.saturating_mul(1024) / len as u64;
        self.times[self.next as usize % KEPT] = each.min(u64::from(NONE - 1)) as u32;
        self.next = self.next.wrapping_add(1);
    }

    fn least(&self) -> u32 {
        self.times.into_iter().min().unwrap_or(NONE)
    }
}

/// The receiving side: times its copies.
pub struct Reader {
    times: [Recent; 2],
}

impl Reader {
    /// A reader without any times.
    pub const fn new() -> Reader {
        Reader {
            times: [Recent::new(); 2],
        }
    }

    /// Calls `see` to copy a payload of `len` bytes that was written by these stores.
    pub fn timed<T>(&mut self, kind: StoreKind, len: usize, see: impl FnOnce() -> T) -> T {
        let before = ticks();
        let seen = see();
        self.times[kind as usize].add(ticks().wrapping_sub(before), len);
        seen
    }

    /// The word for the writer to [take](Writer::hear): the times of both kinds.
    pub fn word(&self) -> u64 {
        let [cached, streaming] = self.times.map(|kind| kind.least());
        // Inverted, so that a word that was never written, 0, means no times.
        !(u64::from(streaming) << 32 | u64::from(cached))
    }
}

/// Which kinds a [`Writer`] may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allowed {
    /// This one.
    Only(StoreKind),
    /// The quicker one.
    Both,
}

impl Allowed {
    /// From the setting `WEFT_STORES`: if it is empty, both.
    pub fn of(words: &[&str]) -> Allowed {
        match words {
            ["cached"] => Allowed::Only(StoreKind::Cached),
            ["streaming"] => Allowed::Only(StoreKind::Streaming),
            _ => Allowed::Both,
        }
    }
}

/// The sending side: copies with the faster kind of stores.
pub struct Writer {
    allowed: Allowed,
    times: [Recent; 2],
    /// The reader's times.
    told: [u32; 2],
    kind: StoreKind,
    /// Whether the other kind is on trial.
    trial: bool,
    /// How many bytes there are until the next trial.
    period: u32,
    /// Bytes until a trial ends, or the next begins.
    left: u32,
}

impl Writer {
    /// A writer without any times.
    pub const fn new(allowed: Allowed) -> Writer {
        Writer {
            allowed: if cfg!(target_arch = "x86_64") {
                allowed
            } else {
                Allowed::Only(StoreKind::Cached)
            },
            times: [Recent::new(); 2],
            told: [NONE; 2],
            kind: StoreKind::Cached,
            trial: false,
            period: PERIOD_LEAST,
            left: FIRST,
        }
    }

    /// Takes the reader's [word](Reader::word), whatever it is: it only affects how bytes are written.
    pub fn hear(&mut self, word: u64) {
        let word = !word;
        self.told = [word as u32, (word >> 32) as u32];
    }

    /// Copies a payload of [`LONG`] bytes or more; returns by which stores.
    ///
    /// # Safety
    /// `from` is valid for reading, and `to`, a multiple of 16, for writing, `len` bytes, which do not overlap.
    pub unsafe fn copy(&mut self, from: *const u8, to: *mut u8, len: usize) -> StoreKind {
        let kind = match self.allowed {
            Allowed::Only(kind) => kind,
            Allowed::Both => self.choose(len),
        };
        let before = ticks();
        // SAFETY: the caller's runs are valid and do not overlap.
        unsafe {
            match kind {
                StoreKind::Cached => copy_apart(from, to, len),
                StoreKind::Streaming => copy_streaming(from, to, len),
            }
        }
        self.times[kind as usize].add(ticks().wrapping_sub(before), len);
        kind
    }

    /// The kind for the next payload, of `len` bytes.
    fn choose(&mut self, len: usize) -> StoreKind {
        self.left = match self.left.checked_sub(len as u32) {
            Some(left) => left,
            None => {
                self.trial = !self.trial;
                if self.trial {
                    TRIAL
                } else {
                    let period = self.period;
                    self.period = (2 * period).min(PERIOD_MOST);
                    period
                }
            }
        };
        let other = self.kind.other();
        if self.trial {
            return other;
        }
        // By an eighth, so that the kinds do not alternate where they cost the same.
        let cost = self.cost(other);
        if cost.saturating_add(cost / 8) < self.cost(self.kind) {
            self.kind = other;
            self.period = PERIOD_LEAST;
        }
        self.kind
    }

    /// The time of both copies of 1024 bytes, in ticks: the largest number if one of them was never timed.
    fn cost(&self, kind: StoreKind) -> u32 {
        self.times[kind as usize]
            .least()
            .saturating_add(self.told[kind as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader and a writer whose copies take these ticks for 1024 bytes: of the writer, of the reader, by kind.
    struct Pair {
        writer: Writer,
        reader: Reader,
    }

    impl Pair {
        fn new(allowed: Allowed) -> Pair {
            Pair {
                writer: Writer::new(allowed),
                reader: Reader::new(),
            }
        }

        /// Writes this many MiB in payloads of 8 KiB; returns how many of them by streaming stores.
        fn write(&mut self, mebibytes: usize, writes: [u64; 2], reads: [u64; 2]) -> usize {
            let mut streamed = 0;
            for at in 0..mebibytes * 128 {
                let kind = self.writer.choose(8 << 10);
                self.writer.times[kind as usize].add(8 * writes[kind as usize], 8 << 10);
                self.reader.times[kind as usize].add(8 * reads[kind as usize], 8 << 10);
                streamed += kind as usize;
                if at % 256 == 255 {
                    self.writer.hear(self.reader.word());
                }
            }
            streamed
        }
    }

    #[test]
    fn the_quicker_kind_is_found_and_the_other_tried_now_and_then() {
        const TRIED: usize = TRIAL as usize / (8 << 10);
        let mut pair = Pair::new(Allowed::Both);
        // A shared cache, as measured: the writer alone would say otherwise.
        let streamed = pair.write(1000, [90, 90], [94, 198]);
        assert!((9 * TRIED..13 * TRIED).contains(&streamed), "{streamed}");
        // Nothing shared: that costs more at once, and the other kind's times are known.
        let streamed = pair.write(1000, [314, 187], [303, 226]);
        assert!((125_000 - 13 * TRIED..128_000).contains(&streamed), "{streamed}");
        // Back again: found by the next trial.
        let streamed = pair.write(1000, [90, 60], [94, 198]);
        assert!(
            (6 * TRIED..16 * 1024 + 9 * TRIED).contains(&streamed),
            "{streamed}"
        );
    }

    #[test]
    fn a_reader_that_says_nothing_or_nonsense_does_no_harm() {
        let mut pair = Pair::new(Allowed::Both);
        pair.writer.hear(0);
        assert_eq!(pair.writer.told, [NONE, NONE]);
        for word in [u64::MAX, 1, 1 << 63, 0xffff_ffff] {
            pair.writer.hear(word);
            for _ in 0..30_000 {
                let kind = pair.writer.choose(32 << 10);
                pair.writer.times[kind as usize].add(u64::MAX, 1);
            }
        }
    }

    #[test]
    fn an_interruption_does_not_count() {
        let mut recent = Recent::new();
        for ticks in [90_000_000; KEPT - 1].into_iter().chain([800]) {
            recent.add(ticks, 8 << 10);
        }
        assert_eq!(recent.least(), 100);
    }

    #[test]
    fn one_kind_alone_is_never_left() {
        for kind in [StoreKind::Cached, StoreKind::Streaming] {
            let mut writer = Writer::new(Allowed::Only(kind));
            let from = vec![3u8; LONG + 100];
            let mut to = vec![0u128; LONG / 16 + 7];
            let (from, to) = (from.as_ptr(), to.as_mut_ptr().cast());
            for _ in 0..(FIRST + TRIAL) / LONG as u32 {
                // SAFETY: both have that many bytes, `to` is a multiple of 16.
                let used = unsafe { writer.copy(from, to, LONG + 100) };
                assert!(used == kind || cfg!(not(target_arch = "x86_64")));
            }
        }
    }
}
