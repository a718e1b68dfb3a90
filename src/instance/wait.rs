//! How a process waits: it spins while that is worth it, then yields its core, then sleeps on descriptors through which a
//! peer or the transport can wake it.

use std::future::Future;
use std::os::fd::{AsRawFd, RawFd};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::Instance;
use super::pace::PROBE;
use super::progress_thread::ProgressThread;
use crate::base::error::Result;
use crate::base::settings::Settings;
use crate::engine::mismatch::View;
use crate::engine::request::{Outcome, RequestId};
use crate::engine::{Armed, Engine, WatchId, Watched};
use crate::system::bootstrap::Job;
use crate::system::lock::{self, MutexGuard};

/// How long to spin and to yield.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Spin for this long.
    pub spin: Duration,
    /// Then yield the core at each turn for this long, and sleep from then on.
    pub yields: Duration,
    /// The longest sleep where a descriptor is to end it: the most that a missed wake-up may cost. With a very long one,
    /// a test hangs if its process is not woken.
    pub sleep: Duration,
}

/// Where each rank has a core, a spin costs no other rank anything; one that is shorter than the pauses of a busy machine
/// adds half a microsecond of latency (seen with 200 µs).
const SPIN: Duration = Duration::from_millis(2);
/// While a wait spins it yields so often, which costs nothing where nobody else wants the core ([`super::pace`]).
const LOOK: Duration = Duration::from_micros(50);
const YIELD: Duration = Duration::from_millis(2);
/// The first sleep of a wait; each is twice as long as the one before. Without a descriptor to wake the process, this is
/// also the longest; otherwise [`Policy::sleep`] is.
const NAP: Duration = Duration::from_micros(50);
const NAP_MAX: Duration = Duration::from_millis(2);
/// After this many sleeps they do not become longer.
const NAPS: u32 = 9;
/// So many stay at their shortest where something long is under way over a lane that moves only when it is polled: some tenths of a second.
const MOVING_NAPS: u32 = 2000;

/// How often a wait for a word in shared memory looks at it before it makes other progress.
const WORD_TURNS: u32 = 50;

impl Policy {
    /// By the settings, and by whether each rank of the machine has a processor. The processors that count are those that
    /// the launcher may use, or this process where the launcher does not say: the affinity mask and the quota of the
    /// control group limit that number.
    pub fn new(settings: &Settings, job: &Job) -> Policy {
        let cores = match job.processors {
            Some(processors) => processors as usize,
            None => std::thread::available_parallelism().map_or(1, |cores| cores.get()),
        };
        let spin = match settings.spin_us {
            Some(us) => Duration::from_micros(us),
            None if job.local_ranks as usize > cores => Duration::ZERO,
            None => SPIN,
        };
        Policy {
            spin,
            yields: YIELD,
            sleep: Duration::from_millis(settings.sleep_max_ms),
        }
    }

    /// Whether a wait spins first.
    pub fn spins(&self) -> bool {
        !self.spin.is_zero()
    }
}

/// The sleeps of a process, one after the other, in which nothing comes.
#[derive(Default)]
pub(super) struct Naps(u32);

impl Naps {
    /// The first.
    pub const SHORTEST: Duration = NAP;

    /// How long the next one is. `by_clock`, `moves`: as in [`Armed`].
    pub fn next(&mut self, policy: &Policy, by_clock: bool, moves: bool) -> Duration {
        self.0 += 1;
        let longest = if by_clock { NAP_MAX } else { policy.sleep };
        match self.0 {
            naps if moves && naps < MOVING_NAPS => NAP,
            NAPS.. => longest,
            naps => longest.min(NAP * (1 << naps)),
        }
    }

    /// Whether there has been none.
    pub fn are_none(&self) -> bool {
        self.0 == 0
    }
}

/// One wait.
struct Idle<'a> {
    thread: &'a ProgressThread,
    polls: u32,
    since: Option<Instant>,
    /// Yields during the time of spinning.
    looks: u32,
    naps: Naps,
    /// Whether what is waited for wakes the process.
    may_sleep: bool,
    /// It would have slept.
    tired: bool,
}

enum Rest {
    Spin,
    Yield,
    Sleep,
}

impl Drop for Idle<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.naps.are_none() {
            self.thread.unpark();
        }
    }
}

impl Idle<'_> {
    fn new(thread: &ProgressThread) -> Idle<'_> {
        Idle {
            thread,
            polls: 0,
            since: None,
            looks: 0,
            naps: Naps::default(),
            may_sleep: true,
            tired: false,
        }
    }

    /// What to do after a poll that found nothing.
    #[inline]
    fn rest(&mut self, policy: &Policy, spin: u64, early: bool) -> Rest {
        self.polls = self.polls.wrapping_add(1);
        // A process that has slept and was woken for nothing goes on sleeping.
        if early || !self.naps.are_none() {
            return Rest::Sleep;
        }
        if spin == 0 {
            if self.polls < 64 {
                return Rest::Yield;
            }
        } else if self.polls & 31 != 0 {
            return Rest::Spin;
        }
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        let spin = Duration::from_nanos(spin);
        if waited < spin {
            // Somebody else may want the core, and may be who is waited for.
            if waited < LOOK * (self.looks + 1) {
                return Rest::Spin;
            }
            self.looks += 1;
            Rest::Yield
        } else if waited < spin + policy.yields {
            Rest::Yield
        } else {
            Rest::Sleep
        }
    }
}

impl Instance {
    /// Makes progress until `check` gives something. Other threads get the engine in between.
    pub fn wait_for<T>(&self, check: impl FnMut(&mut Engine) -> Option<T>) -> T {
        self.wait_for_all(|_| false, check)
    }

    /// The same. `needs` returns requests, all of which have ended when this returns; with them reasons can be given
    /// where one of them never will end.
    pub fn wait_for_all<T>(
        &self,
        needs: impl Fn(RequestId) -> bool,
        mut check: impl FnMut(&mut Engine) -> Option<T>,
    ) -> T {
        let mut engine = self.engine();
        if let Some(found) = check(&mut engine) {
            return found;
        }
        let mut idle = Idle::new(&self.progress_thread);
        let early = engine.sleeps_early();
        loop {
            let any = self.step_engine(&mut engine, true);
            if let Some(found) = check(&mut engine) {
                return found;
            }
            if any {
                // First: tasks may run the program's code for long, and then the progress thread is needed.
                idle = Idle::new(&self.progress_thread);
            }
            if engine.has_ready_tasks() {
                drop(engine);
                self.run_ready_tasks();
                engine = self.engine();
                if let Some(found) = check(&mut engine) {
                    return found;
                }
            }
            if any {
                continue;
            }
            engine = self.rest(engine, &mut idle, early, &needs);
        }
    }

    /// Makes progress until `is_reached`, which looks at a word in shared memory. `watched` describes it, for a wait that goes on.
    ///
    /// # Errors
    /// What the engine knows of the process that was to raise it: it is lost, or in another operation.
    #[inline]
    pub fn wait_for_word(&self, is_reached: impl Fn() -> bool, watched: impl Fn() -> Watched) -> Result<()> {
        if self.pace.spin() != 0 {
            for _ in 0..WORD_TURNS {
                if is_reached() {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
        } else if is_reached() {
            return Ok(());
        }
        self.wait_long_for_word(&is_reached, &watched)
    }

    /// Waits for a while for a collective operation that may end without a message, and takes its outcome.
    pub(super) fn wait_for_task(&self, request: RequestId) -> Option<Outcome> {
        let mut engine = self.engine();
        if !engine.is_collective(request) || !engine.may_have_ready_tasks() {
            return engine.take(request);
        }
        let turns = match self.pace.spin() != 0 && !lock::is_shared(&self.engine) {
            true => WORD_TURNS,
            false => 1,
        };
        for _ in 0..turns {
            if engine.has_ready_tasks() {
                drop(engine);
                self.run_ready_tasks();
                engine = self.engine();
                if let Some(outcome) = engine.take(request) {
                    return Some(outcome);
                }
            } else {
                std::hint::spin_loop();
            }
        }
        None
    }

    #[inline(never)]
    fn wait_long_for_word(&self, is_reached: &dyn Fn() -> bool, watched: &dyn Fn() -> Watched) -> Result<()> {
        let mut engine = self.engine();
        let early = engine.sleeps_early();
        let mut watch: Option<WatchId> = None;
        let begin = |watch: Option<WatchId>| {
            let mut idle = Idle::new(&self.progress_thread);
            idle.may_sleep = watch.is_some();
            idle
        };
        let mut idle = begin(watch);
        let result = loop {
            let any = self.step_engine(&mut engine, true);
            if is_reached() {
                break Ok(());
            }
            if any {
                // As above.
                idle = begin(watch);
            }
            if engine.has_ready_tasks() {
                drop(engine);
                self.run_ready_tasks();
                engine = self.engine();
                if is_reached() {
                    break Ok(());
                }
            }
            if let Some(error) = watch.and_then(|watch| engine.failure_of(watch)) {
                // What a process publishes before it is lost counts.
                break if is_reached() { Ok(()) } else { Err(error) };
            }
            if any {
                continue;
            }
            if idle.tired && watch.is_none() {
                watch = Some(engine.watch(watched()));
                idle.may_sleep = true;
                continue;
            }
            let request = watch.and_then(|watch| engine.request_of(watch));
            engine = self.rest(engine, &mut idle, early, &|id| Some(id) == request);
        };
        if let Some(watch) = watch {
            engine.unwatch(watch);
        }
        result
    }

    /// Runs to its end an operation that waits for more than requests: for lanes, or for the launcher. It is polled at
    /// each turn.
    pub fn block_on_turns<T>(&self, operation: impl Future<Output = T>) -> T {
        let mut operation = std::pin::pin!(operation);
        let mut context = Context::from_waker(Waker::noop());
        let mut idle = Idle::new(&self.progress_thread);
        let early = self.engine().sleeps_early();
        loop {
            let events = self.engine().events();
            if let Poll::Ready(result) = operation.as_mut().poll(&mut context) {
                return result;
            }
            if self.step() {
                idle = Idle::new(&self.progress_thread);
                continue;
            }
            let engine = self.engine();
            // Another thread may have ended what is waited for since the poll.
            if engine.events() == events {
                drop(self.rest(engine, &mut idle, early, &|_| false));
            }
        }
    }

    /// After a turn that found nothing: spins, yields or sleeps; other threads get the engine meanwhile.
    #[inline]
    fn rest<'a>(
        &'a self,
        mut engine: MutexGuard<'a, Engine>,
        idle: &mut Idle<'_>,
        early: bool,
        needs: &dyn Fn(RequestId) -> bool,
    ) -> MutexGuard<'a, Engine> {
        if self.attention.is_due() {
            drop(engine);
            self.attend();
            // What is waited for may have ended by that, or meanwhile.
            return self.engine();
        }
        match idle.rest(&self.policy, self.pace.spin(), early) {
            Rest::Spin => {
                std::hint::spin_loop();
                MutexGuard::bump(&mut engine);
                engine
            }
            Rest::Yield => {
                drop(engine);
                self.give_way(idle)
            }
            Rest::Sleep if !idle.may_sleep => {
                idle.tired = true;
                engine
            }
            Rest::Sleep if engine.look_at_words() => engine,
            Rest::Sleep => {
                let mut descriptors = Vec::new();
                engine.look_into_waits(&View {
                    now: Instant::now(),
                    needs,
                });
                let armed = engine.arm(&mut descriptors);
                drop(engine);
                self.report_if_late();
                if let Some(Armed { by_clock, moves, .. }) = armed {
                    let nap = idle.naps.next(&self.policy, by_clock, moves);
                    let (launcher, has_news) = self.bootstrap.try_lock().map_or((None, false), |bootstrap| {
                        let descriptor = bootstrap.descriptor();
                        (descriptor.map(|it| it.as_raw_fd()), bootstrap.has_news())
                    });
                    descriptors.extend(self.sleeps_on.lock().iter().map(|(_, &descriptor)| descriptor));
                    descriptors.extend(launcher);
                    let nap = if has_news { Duration::ZERO } else { nap };
                    let readable = sleep(&descriptors, nap);
                    if has_news || (launcher.is_some() && readable.last() == Some(&true)) {
                        self.attend();
                    }
                }
                let mut engine = self.engine();
                if let Some(armed) = armed {
                    engine.has_slept(armed);
                }
                engine
            }
        }
    }
}

impl Instance {
    /// Yields the core, and learns from it whether spinning pays.
    #[cold]
    fn give_way(&self, idle: &mut Idle<'_>) -> MutexGuard<'_, Engine> {
        if idle.polls == 1 && self.pace.probes() {
            let start = Instant::now();
            loop {
                let mut engine = self.engine();
                if self.step_engine(&mut engine, true) {
                    self.pace.spinning_pays();
                    return engine;
                }
                drop(engine);
                if start.elapsed() >= PROBE {
                    break;
                }
                std::hint::spin_loop();
            }
        }
        if !self.pace.adapts() {
            std::thread::yield_now();
            return self.engine();
        }
        let start = Instant::now();
        std::thread::yield_now();
        let took = start.elapsed();
        let mut engine = self.engine();
        let found = self.step_engine(&mut engine, true);
        self.pace.yielded(took, found);
        engine
    }
}

/// Sleeps until one of the descriptors can be read, or for `longest`; returns which can be read.
pub(super) fn sleep(descriptors: &[RawFd], longest: Duration) -> Vec<bool> {
    let mut polled: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|&fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let timeout = libc::timespec {
        tv_sec: longest.as_secs() as libc::time_t,
        tv_nsec: longest.subsec_nanos().into(),
    };
    let count = polled.len() as libc::nfds_t;
    // SAFETY: `polled` is an array of that length; no signal mask is given. An error (a signal) ends the sleep early.
    unsafe { libc::ppoll(polled.as_mut_ptr(), count, &timeout, std::ptr::null()) };
    polled.iter().map(|entry| entry.revents != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::bootstrap::Bootstrap;
    use crate::system::bootstrap::singleton::Singleton;

    /// Whether waits spin, by the number of ranks on this machine and of the processors that the launcher shares out.
    fn spins(ranks: u32, processors: u32, spin_us: &str) -> bool {
        let settings = Settings::read(|name| (name == "WEFT_SPIN_US").then(|| spin_us.into())).unwrap();
        let job = Job {
            local_ranks: ranks,
            processors: Some(processors),
            ..Singleton::new().job().clone()
        };
        Policy::new(&settings, &job).spins()
    }

    #[test]
    fn waits_spin_where_each_rank_has_a_processor() {
        assert!(spins(1, 1, "") && spins(2, 2, "") && spins(2, 8, ""));
        assert!(!spins(2, 1, "") && !spins(9, 8, ""));
        // A user who sets it knows better.
        assert!(spins(9, 8, "10") && !spins(1, 8, "0"));
    }
}
