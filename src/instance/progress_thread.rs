//! A thread that makes progress while the program computes: the setting `WEFT_PROGRESS_THREAD` turns it on, or a window whose info key asks
//! for it. So operations on windows that go by messages need no call of their target.
//!
//! It leaves progress to the program where that makes it itself:
//!
//! 1. While a thread of the program polls, this one looks only now and then whether that is still so ([`Pauses`]). It asks no peer to wake it,
//!    and hardly ever waits for the engine's lock.
//! 2. While a thread of the program sleeps in a wait, this one is *parked*: that thread is woken by whatever comes, and wakes this one when
//!    its sleep has led to something.
//! 3. Otherwise the program computes. This thread sleeps on what a wait sleeps on ([`super::wait`]), and makes progress when it is woken.
//!
//! It never runs the program's code: of the tasks it runs those that messages have begun, which are the library's own. Others, such as
//! collective operations with the user's functions, wait for the program's calls. Nor does it hear what the launcher says; the program's
//! calls do.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};
use parking_lot::Mutex;

use super::Instance;
use super::wait::{Naps, sleep};
use crate::base::error::{Error, Result};
use crate::engine::Engine;
use crate::err;
use crate::system::lock::MutexGuard;

/// Its name, for debuggers and `ps`.
const NAME: &str = "weft-progress";
/// libfabric's functions, which it calls, use some of it.
const STACK: usize = 1 << 20;
/// After a message it polls for so long, as the next one often follows: waking it takes as long.
const LINGER: Duration = Duration::from_micros(20);
/// So often in a row it polls again at once where a lane says that there is something to do, though nothing is found.
const FUTILE: u32 = 64;

/// The thread of an instance, and who wants it.
#[derive(Default)]
pub(super) struct ProgressThread {
    /// It is locked while the thread is started and while it ends, and the thread itself never locks it.
    running: Mutex<Running>,
    /// How many want it.
    wanted: AtomicUsize,
    bell: OnceLock<File>,
    /// It sleeps until the bell is rung.
    parked: AtomicBool,
    /// What has to be called so that the program's exit ends it.
    at_exit: OnceLock<fn()>,
}

#[derive(Default)]
struct Running {
    /// The instance has users.
    is_open: bool,
    thread: Option<(JoinHandle<()>, Arc<AtomicBool>)>,
}

/// While it lives, the process has the thread: see [`Instance::want_progress_thread`].
pub struct WantsProgress(Arc<Instance>);

impl Drop for WantsProgress {
    fn drop(&mut self) {
        self.0.progress_thread.wanted.fetch_sub(1, Ordering::Relaxed);
        self.0.settle_progress_thread();
    }
}

impl std::fmt::Debug for WantsProgress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("WantsProgress")
    }
}

impl ProgressThread {
    /// By a thread of the program that has slept in a wait, and found something: this thread may be needed again.
    #[cold]
    pub fn unpark(&self) {
        if self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::Relaxed) {
            self.ring();
        }
    }

    fn ring(&self) {
        // It is not full: the thread reads it whenever it wakes.
        let _ = self.bell.get().map(|mut bell| bell.write(&1u64.to_ne_bytes()));
    }

    fn silence(&self) {
        // It does not block.
        let _ = self.bell.get().map(|mut bell| bell.read(&mut [0; 8]));
    }

    fn descriptor(&self) -> RawFd {
        self.bell.get().map_or(-1, |bell| bell.as_raw_fd())
    }

    /// Ends the thread. `at_exit`: the program exits, perhaps out of a signal handler that has interrupted a call; then it is not waited for for
    /// long.
    fn end(&self, running: &mut Running, at_exit: bool) {
        let Some((thread, stop)) = running.thread.take() else {
            return;
        };
        stop.store(true, Ordering::Release);
        self.ring();
        if at_exit {
            let until = Instant::now() + EXIT_WAITS;
            while !thread.is_finished() {
                if Instant::now() > until {
                    return;
                }
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        // A panic there has ended the process.
        let _ = thread.join();
    }
}

/// So long the program's exit waits for it.
const EXIT_WAITS: Duration = Duration::from_millis(100);

impl Instance {
    /// The instance has users from now on, who may have the thread. `at_exit`: called once there has been one; then
    /// [`Instance::end_progress_thread`] is to be called before the process exits.
    pub(super) fn open_progress_thread(self: &Arc<Self>, at_exit: fn()) {
        // It is the same each time.
        let _ = self.progress_thread.at_exit.set(at_exit);
        self.progress_thread.running.lock().is_open = true;
        self.settle_progress_thread();
    }

    /// It has no users any more: the thread has ended when this returns.
    pub(super) fn close_progress_thread(&self) {
        let mut running = self.progress_thread.running.lock();
        running.is_open = false;
        self.progress_thread.end(&mut running, false);
    }

    /// The process exits though there are users.
    pub(super) fn end_progress_thread(&self) {
        if let Some(mut running) = self.progress_thread.running.try_lock() {
            running.is_open = false;
            self.progress_thread.end(&mut running, true);
        }
    }

    /// While the result lives, a thread makes progress when the program does not. The engine must not be locked, neither here nor when
    /// the result is dropped. In a simulation there is none.
    pub fn want_progress_thread(self: &Arc<Self>) -> WantsProgress {
        self.progress_thread.wanted.fetch_add(1, Ordering::Relaxed);
        self.settle_progress_thread();
        WantsProgress(self.clone())
    }

    /// Starts it or ends it, as it is wanted or not.
    fn settle_progress_thread(self: &Arc<Self>) {
        let own = &self.progress_thread;
        let mut running = own.running.lock();
        let is_wanted = self.settings.progress_thread || own.wanted.load(Ordering::Relaxed) != 0;
        match running.is_open && is_wanted {
            false => own.end(&mut running, false),
            true if running.thread.is_some() => {}
            true => match self.start_progress_thread() {
                Ok(thread) => running.thread = Some(thread),
                Err(error) => eprintln!("[weft] rank {}: {}", self.job.rank, error.message),
            },
        }
    }

    fn start_progress_thread(self: &Arc<Self>) -> Result<(JoinHandle<()>, Arc<AtomicBool>)> {
        let failed = |what: &str, error: &dyn std::fmt::Display| -> Error {
            err!(Other, "there is no thread that makes progress: {what}: {error}")
        };
        let own = &self.progress_thread;
        if own.bell.get().is_none() {
            let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
            let bell =
                EventFd::from_flags(flags).map_err(|error| failed("no descriptor wakes it", &error))?;
            own.bell.get_or_init(|| File::from(OwnedFd::from(bell)));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (instance, stops) = (self.clone(), stop.clone());
        // The program's signal handlers run in the program's threads: this one begins with all signals blocked, but those that tell of what it
        // does itself, such as an access to the program's memory.
        let mut blocked = SigSet::all();
        for own in [
            Signal::SIGSEGV,
            Signal::SIGBUS,
            Signal::SIGFPE,
            Signal::SIGILL,
            Signal::SIGTRAP,
            Signal::SIGSYS,
        ] {
            blocked.remove(own);
        }
        let mut before = SigSet::empty();
        pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&blocked), Some(&mut before))
            .map_err(|error| failed("signals can't be blocked", &error))?;
        let started = std::thread::Builder::new()
            .name(NAME.into())
            .stack_size(STACK)
            .spawn(move || instance.make_progress(&stops));
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
        let thread = started.map_err(|error| failed("it can't be started", &error))?;
        if let Some(at_exit) = own.at_exit.get() {
            at_exit();
        }
        Ok((thread, stop))
    }

    /// What the thread does until it is to stop.
    fn make_progress(self: Arc<Self>, stop: &AtomicBool) {
        let guard = EndsProcess;
        let own = &self.progress_thread;
        let mut pauses = Pauses::new();
        let mut round = Round::new(&self);
        while !stop.load(Ordering::Acquire) {
            // Whoever has it makes progress, or has made some since.
            let mut engine = self.engine.try_lock();
            if let Some(found) = &engine {
                let calls = found.calls();
                if std::mem::replace(&mut round.calls, calls) != calls {
                    engine = None;
                }
            }
            let Some(engine) = engine else {
                round.begin();
                sleep(&[own.descriptor()], pauses.next());
                own.silence();
                continue;
            };
            if engine.has_sleepers() {
                // With the engine locked: the sleeper looks at this after it has woken and locked the engine.
                own.parked.store(true, Ordering::Relaxed);
                drop(engine);
                let since = Instant::now();
                if !stop.load(Ordering::Acquire) {
                    wait_for_ring(own.descriptor());
                }
                own.parked.store(false, Ordering::Relaxed);
                own.silence();
                pauses.slept(since.elapsed());
                round.begin();
                continue;
            }
            round.turn(&self, engine, &mut pauses);
        }
        std::mem::forget(guard);
    }
}

/// Sleeps until the bell is rung, or a signal comes.
fn wait_for_ring(bell: RawFd) {
    sleep(&[bell], Duration::from_secs(3600));
}

/// From the time when the program has left progress to the thread, or something was found.
struct Round {
    /// How often progress had been made when this thread last made some: more means that the program has.
    calls: u32,
    naps: Naps,
    /// How many times nothing was found though a lane said that there is something.
    futile: u32,
    /// When something was last found.
    found: Option<Instant>,
    /// Whether it polls on for a while after that.
    lingers: bool,
    descriptors: Vec<RawFd>,
}

impl Round {
    fn new(instance: &Instance) -> Round {
        Round {
            calls: instance.engine().calls(),
            naps: Naps::default(),
            futile: 0,
            found: None,
            lingers: instance.policy.spins(),
            descriptors: Vec::new(),
        }
    }

    /// A new one.
    fn begin(&mut self) {
        (self.naps, self.futile, self.found) = (Naps::default(), 0, None);
    }

    /// Makes the progress that can be made, or sleeps.
    fn turn(&mut self, instance: &Instance, mut engine: MutexGuard<'_, Engine>, pauses: &mut Pauses) {
        let any = instance.step_engine(&mut engine, false);
        self.calls = engine.calls();
        let tasks = engine.has_served_tasks();
        if any || tasks {
            drop(engine);
            if tasks {
                instance.run_served_tasks();
            }
            self.begin();
            self.found = Some(Instant::now());
            pauses.served();
            return;
        }
        if self.lingers && self.found.is_some_and(|found| found.elapsed() < LINGER) {
            drop(engine);
            std::hint::spin_loop();
            return;
        }
        self.found = None;
        if engine.look_at_words() {
            return;
        }
        self.descriptors.clear();
        let Some(armed) = engine.arm(&mut self.descriptors) else {
            drop(engine);
            self.futile += 1;
            if self.futile > FUTILE {
                sleep(&[instance.progress_thread.descriptor()], Naps::SHORTEST);
                instance.progress_thread.silence();
            }
            return;
        };
        let by_clock = armed.by_clock || engine.has_wanted();
        drop(engine);
        self.descriptors.push(instance.progress_thread.descriptor());
        let since = Instant::now();
        sleep(
            &self.descriptors,
            self.naps.next(&instance.policy, by_clock, armed.moves),
        );
        pauses.slept(since.elapsed());
        instance.progress_thread.silence();
        instance.engine().has_slept(armed);
    }
}

/// How long the thread looks away while the program makes progress itself: short at first, so that it is soon there when the program computes; longer
/// where the program goes on, or comes back each time.
struct Pauses(Duration);

impl Pauses {
    const SHORTEST: Duration = Duration::from_micros(50);
    const LONGEST: Duration = Duration::from_millis(1);

    fn new() -> Pauses {
        Pauses(Pauses::SHORTEST)
    }

    /// The next one.
    fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(Pauses::LONGEST);
        pause
    }

    /// The thread has made progress that the program did not make.
    fn served(&mut self) {
        self.0 = Pauses::SHORTEST;
    }

    /// It has slept for so long without the program.
    fn slept(&mut self, slept: Duration) {
        if slept >= Pauses::LONGEST {
            self.0 = Pauses::SHORTEST;
        }
    }
}

/// Ends the process when it is dropped by a panic: the program would wait for progress that nobody makes.
struct EndsProcess;

impl Drop for EndsProcess {
    fn drop(&mut self) {
        eprintln!("weft: the thread that makes progress has failed: the process ends");
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_the_program_goes_on() {
        let mut pauses = Pauses::new();
        assert_eq!(pauses.next(), Pauses::SHORTEST);
        assert_eq!(pauses.next(), 2 * Pauses::SHORTEST);
        // It came back soon: the next one is no shorter.
        pauses.slept(Pauses::LONGEST - Duration::from_nanos(1));
        assert_eq!(pauses.next(), 4 * Pauses::SHORTEST);
        for _ in 0..100 {
            assert!(pauses.next() <= Pauses::LONGEST);
        }
        assert_eq!(pauses.next(), Pauses::LONGEST);
        pauses.slept(Pauses::LONGEST);
        assert_eq!(pauses.next(), Pauses::SHORTEST);
        assert_ne!(pauses.next(), Pauses::SHORTEST);
        pauses.served();
        assert_eq!(pauses.next(), Pauses::SHORTEST);
    }
}
