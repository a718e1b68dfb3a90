//! Where the time of Init and Finalize goes (`WEFT_REPORT=startup`): libfabric's share and Weft's own.
//!
//! A [`Ledger`] measures while an instance is opened and closed. One that is off does not read the clock.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Whose time a span counts as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    Libfabric,
    Weft,
}

macro_rules! phases {
    ($($(#[doc = $doc:literal])+ $phase:ident: $owner:ident, $words:literal;)+) => {
        /// What the time is spent on.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Phase {
            $($(#[doc = $doc])+ $phase,)+
        }

        const PHASES: &[(Owner, &str)] = &[$((Owner::$owner, $words),)+];
    };
}

phases! {
    /// The dynamic linker, with the constructors of everything that libfabric is linked against.
    Load: Libfabric, "loading the library";
    /// Asking for providers: the first call initializes all of them.
    Ask: Libfabric, "fi_getinfo";
    /// Fabric, domain, queue, address vector, endpoint.
    Open: Libfabric, "opening the endpoint";
    /// Receive buffers are mapped, which takes no time, and handed over: `tcp` of 2.x makes 17 MB of entries then.
    Post: Libfabric, "posting receive buffers";
    /// Everything that [`Phase::Open`] opened.
    Close: Libfabric, "closing";
    /// What the launcher says about the job.
    Connect: Weft, "connecting to the launcher";
    /// The business card is sent to the launcher; launchers other than Weft's then need a fence.
    Publish: Weft, "publishing the business card";
    /// Cards of others, whenever they are needed.
    LookUp: Weft, "looking up addresses";
    /// Everything that was handed to the lanes is sent.
    Drain: Weft, "draining";
    /// The internal collective of finalize, with the time that it waits for others.
    Barrier: Weft, "barrier of the ranks";
    /// The launcher's barrier.
    Fence: Weft, "barrier of the launcher";
    /// The launcher is told that this process may exit.
    Disconnect: Weft, "disconnecting from the launcher";
}

/// Adds up spans of time by phase.
#[derive(Debug, Default)]
pub struct Ledger {
    on: bool,
    /// Nanoseconds.
    spans: [AtomicU64; PHASES.len()],
    /// The sum of the spans.
    counted: AtomicU64,
    /// Nanoseconds of Init and Finalize as a whole, and of what was spent on phases outside of them.
    init: AtomicU64,
    finalize: AtomicU64,
    between: AtomicU64,
}

impl Ledger {
    /// One that measures, or one that does nothing.
    pub fn new(on: bool) -> Ledger {
        Ledger {
            on,
            ..Ledger::default()
        }
    }

    /// Runs `body`; its time counts for `phase`.
    #[inline]
    pub fn time<T>(&self, phase: Phase, body: impl FnOnce() -> T) -> T {
        let span = self.begin();
        let result = body();
        self.end(span, phase);
        result
    }

    /// Awaits `future`; its time counts for `phase`.
    pub async fn during<T>(&self, phase: Phase, future: impl Future<Output = T>) -> T {
        let span = self.begin();
        let result = future.await;
        self.end(span, phase);
        result
    }

    /// Begins a span: returns when, and what was counted before.
    #[inline]
    fn begin(&self) -> Option<(Instant, u64)> {
        self.on
            .then(|| (Instant::now(), self.counted.load(Ordering::Relaxed)))
    }

    #[inline]
    fn end(&self, span: Option<(Instant, u64)>, phase: Phase) {
        let Some((start, counted_before)) = span else {
            return;
        };
        let whole = nanoseconds(start);
        // The time of phases inside this one counts for them alone.
        let inside = self
            .counted
            .load(Ordering::Relaxed)
            .saturating_sub(counted_before);
        self.spans[phase as usize].fetch_add(whole.saturating_sub(inside), Ordering::Relaxed);
        self.counted.store(counted_before + whole, Ordering::Relaxed);
    }

    /// The same for a phase that can also occur while the user's program runs, between Init and Finalize.
    #[inline]
    pub fn time_between<T>(&self, phase: Phase, body: impl FnOnce() -> T) -> T {
        if !self.on {
            return body();
        }
        let start = Instant::now();
        let result = self.time(phase, body);
        if self.init.load(Ordering::Relaxed) != 0 && self.finalize.load(Ordering::Relaxed) == 0 {
            self.add(&self.between, start);
        }
        result
    }

    /// Init began at `start` and is over.
    pub fn end_init(&self, start: Instant) {
        if self.on {
            self.add(&self.init, start);
        }
    }

    /// Finalize begins.
    pub fn begin_finalize(&self) {
        if self.on {
            // Not 0: from now on, time is no longer between the two.
            self.finalize.store(1, Ordering::Relaxed);
        }
    }

    /// Finalize began at `start` and is over: returns the table, if the ledger measures.
    pub fn end_finalize(&self, start: Instant, rank: u32) -> Option<String> {
        self.on.then(|| {
            self.add(&self.finalize, start);
            self.table(rank)
        })
    }

    fn add(&self, to: &AtomicU64, start: Instant) {
        to.fetch_add(nanoseconds(start), Ordering::Relaxed);
    }

    fn table(&self, rank: u32) -> String {
        let read = |from: &AtomicU64| Duration::from_nanos(from.load(Ordering::Relaxed));
        let (init, finalize) = (read(&self.init), read(&self.finalize));
        let sum = |owner: Owner| -> Duration {
            let lines = PHASES.iter().zip(&self.spans);
            lines
                .filter(|((whose, _), _)| *whose == owner)
                .map(|(_, span)| read(span))
                .sum()
        };
        let libfabric = sum(Owner::Libfabric);
        let whole = init + finalize + read(&self.between);
        let own = whole.saturating_sub(libfabric);
        let mut text = format!(
            "[weft] rank {rank}: startup report, milliseconds: MPI_Init {:.3}, MPI_Finalize {:.3}\n",
            milliseconds(init),
            milliseconds(finalize)
        );
        let rest = own.saturating_sub(sum(Owner::Weft));
        for (owner, title, total) in [
            (Owner::Libfabric, "libfabric", libfabric),
            (Owner::Weft, "Weft's own", own),
        ] {
            line(&mut text, "  ", title, total);
            for ((_, words), span) in PHASES
                .iter()
                .zip(&self.spans)
                .filter(|((whose, _), _)| *whose == owner)
            {
                line(&mut text, "    ", words, read(span));
            }
        }
        line(&mut text, "    ", "tables and all else", rest);
        text
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn line(text: &mut String, indent: &str, words: &str, time: Duration) {
    // Writing to a String does not fail.
    let _ = writeln!(
        text,
        "[weft]{indent}{words:<width$}{:>10.3}",
        milliseconds(time),
        width = 34 - indent.len()
    );
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_millis(3);

    fn spend() {
        std::thread::sleep(SPAN);
    }

    /// The number at the end of the line that has these words.
    fn number(table: &str, words: &str) -> f64 {
        let line = table.lines().find(|line| line.contains(words));
        let last = line.and_then(|line| line.split_whitespace().last());
        last.unwrap_or_else(|| panic!("no '{words}' in {table}"))
            .parse()
            .unwrap()
    }

    #[test]
    fn shares_are_apart_and_the_rest_is_ours() {
        let ledger = Ledger::new(true);
        let start = Instant::now();
        ledger.time(Phase::Ask, spend);
        ledger.time(Phase::Connect, spend);
        spend();
        ledger.end_init(start);
        spend();
        ledger.time_between(Phase::LookUp, spend);
        let start = Instant::now();
        ledger.begin_finalize();
        ledger.time(Phase::Barrier, || ledger.time_between(Phase::Fence, spend));
        let table = ledger.end_finalize(start, 5).unwrap();
        assert!(table.starts_with("[weft] rank 5:"), "{table}");
        let span = milliseconds(SPAN);
        for words in [
            "libfabric",
            "fi_getinfo",
            "connecting",
            "looking up",
            "barrier of the launcher",
            "all else",
        ] {
            assert!(number(&table, words) >= span, "{words}: {table}");
        }
        // Connecting, the rest, looking up, and the fence; not the user's time in between.
        let parts: f64 = ["connecting", "all else", "looking up", "barrier of the launcher"]
            .map(|words| number(&table, words))
            .iter()
            .sum();
        let own = number(&table, "Weft's own");
        assert!((own - parts).abs() < 0.1, "{own} is not {parts}: {table}");
        assert_eq!(number(&table, "closing"), 0.0);
        assert!(number(&table, "barrier of the ranks") < span, "{table}");
    }

    #[test]
    fn off_it_says_nothing() {
        let ledger = Ledger::new(false);
        assert_eq!(ledger.time(Phase::Load, || 7), 7);
        ledger.end_init(Instant::now());
        assert_eq!(ledger.end_finalize(Instant::now(), 0), None);
    }
}
