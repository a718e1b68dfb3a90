//! A mutex that costs nearly nothing as long as only one thread uses it.
//!
//! Locking and unlocking an ordinary mutex takes two locked instructions, some 40 cycles, and a short message needs
//! several mutexes. Yet nearly all processes call MPI from one thread only, whatever thread level they asked for. The
//! level does not decide it: a session may ask for another level than the World Model, and may be opened by any thread at
//! any time. So the lock itself detects how many threads use it.
//!
//! The first thread that locks it *owns* it. Only that thread writes the flag `held`: plain stores, no locked
//! instruction. The first other thread takes the ownership away, permanently, and from then on the lock is an ordinary
//! mutex (`parking_lot`'s). At that moment the two need an order: the owner stores `held` and then reads `shared`, the
//! other stores `shared` and then reads `held`, so that at least one of them sees the other. This needs a fence between
//! store and load on both sides, and the other thread does both: it makes the owner's processor execute one too
//! ([`membarrier`]). Where the system does not support that, no thread becomes an owner.
//!
//! What does not belong here: the fence (`membarrier`), looking at something without a lock (`rcu`), and which locks there are and in what
//! order they are taken (whoever uses them).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

use parking_lot::lock_api::{
    self, GuardNoSend, RawMutex as RawMutexTrait, RawMutexFair as RawMutexFairTrait,
};

use crate::system::membarrier;

mod terms;

use terms::{Terms, enter, take_over};

/// See the module.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
/// A [`Mutex`] that is locked.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// Whether more threads than one have locked it, or may have; `false` only in the thread that owns it.
#[inline(always)]
pub fn is_shared<T>(mutex: &Mutex<T>) -> bool {
    // SAFETY: nothing is locked or unlocked.
    let raw = unsafe { mutex.raw() };
    raw.is_shared() || raw.owner.load(Ordering::Relaxed) != this_thread()
}

/// The lock of a [`Mutex`].
pub struct RawMutex {
    /// [`NOBODY`], [`ALL`], or the thread that owns it.
    owner: AtomicUsize,
    /// Whether the owner holds it, as such.
    held: AtomicBool,
    /// Whether another thread has come.
    shared: AtomicBool,
    /// The mutex for all threads but the owner.
    inner: parking_lot::RawMutex,
}

/// No thread has locked it yet.
const NOBODY: usize = 0;
/// More than one thread has locked it: only the inner mutex counts.
const ALL: usize = 1;

/// A number that no other living thread has, and which is neither [`NOBODY`] nor [`ALL`].
#[inline(always)]
pub fn this_thread() -> usize {
    #[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
    {
        let pointer: usize;
        // SAFETY: the thread's control block begins with its own address (psABI, TLS variant II); nothing else is read or
        // changed.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(pure, readonly, nostack, preserves_flags));
        }
        pointer
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
    {
        thread_local!(static HERE: u64 = const { 0 });
        HERE.with(|here| std::ptr::from_ref(here).addr())
    }
}

impl Terms for RawMutex {
    #[inline(always)]
    fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn set_held(&self, on: bool) {
        self.held.store(on, Ordering::Release);
    }

    #[inline(always)]
    fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    fn set_shared(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    #[inline(always)]
    fn fence_of_owner(&self) {
        compiler_fence(Ordering::SeqCst);
    }

    fn fence_of_other(&self) {
        if !membarrier::fence_all() {
            // Happens once in the life of a lock.
            std::thread::sleep(membarrier::WRITTEN_OUT);
        }
    }

    fn wait(&self, nth: u32) {
        // The owner holds it briefly, unless it waits for the launcher.
        if nth < 100 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    }
}

impl RawMutex {
    /// Locks it, if this thread is the owner.
    #[inline(always)]
    fn enter_as_owner(&self) -> bool {
        if self.owner.load(Ordering::Relaxed) != this_thread() {
            return false;
        }
        if self.held.load(Ordering::Relaxed) {
            locked_twice();
        }
        enter(self)
    }

    /// Whether this thread holds it as its owner.
    #[inline(always)]
    fn is_held_by_owner(&self) -> bool {
        // Another thread may see `held` set for a moment by an owner that will then find the lock shared.
        self.held.load(Ordering::Relaxed) && self.owner.load(Ordering::Relaxed) == this_thread()
    }

    /// Once the inner mutex is locked: makes sure that no owner is inside, or makes the first thread the owner.
    #[inline]
    fn settle(&self, wait: bool) -> bool {
        self.owner.load(Ordering::Relaxed) == ALL || self.settle_first(wait)
    }

    #[cold]
    fn settle_first(&self, wait: bool) -> bool {
        if self.owner.load(Ordering::Relaxed) == NOBODY && membarrier::is_offered() {
            self.owner.store(this_thread(), Ordering::Relaxed);
            self.set_held(true);
            // SAFETY: locked by the caller. From now on `held` keeps others out.
            unsafe { self.inner.unlock() };
            return true;
        }
        if self.owner.load(Ordering::Relaxed) != NOBODY {
            if wait {
                take_over(self);
            } else {
                self.set_shared();
                self.fence_of_other();
                if self.is_held() {
                    // SAFETY: locked by the caller. The next holder goes on from here.
                    unsafe { self.inner.unlock() };
                    return false;
                }
            }
        }
        self.owner.store(ALL, Ordering::Relaxed);
        true
    }

    #[inline(never)]
    fn lock_inner(&self) {
        self.inner.lock();
        self.settle(true);
    }

    #[inline(never)]
    fn try_lock_inner(&self) -> bool {
        self.inner.try_lock() && self.settle(false)
    }
}

#[cold]
#[inline(never)]
fn locked_twice() -> ! {
    panic!("a thread locks what it has locked already");
}

// SAFETY: one thread at a time is inside. As long as it has one user that is the owner, which does not enter twice. `inner` keeps
// all others apart from each other, and the first of them passes `take_over` before anyone else gets to `inner`: after that,
// the owner is out, what it did inside is visible (`held`: release, acquire), and it comes in by `inner` only.
unsafe impl RawMutexTrait for RawMutex {
    #[allow(clippy::declare_interior_mutable_const)] // How the trait makes one.
    const INIT: RawMutex = RawMutex {
        owner: AtomicUsize::new(NOBODY),
        held: AtomicBool::new(false),
        shared: AtomicBool::new(false),
        inner: parking_lot::RawMutex::INIT,
    };

    /// The ownership depends on the thread.
    type GuardMarker = GuardNoSend;

    #[inline(always)]
    fn lock(&self) {
        if !self.enter_as_owner() {
            self.lock_inner();
        }
    }

    fn try_lock(&self) -> bool {
        if self.owner.load(Ordering::Relaxed) == this_thread() && self.held.load(Ordering::Relaxed) {
            return false;
        }
        self.enter_as_owner() || self.try_lock_inner()
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        if self.is_held_by_owner() {
            self.set_held(false);
        } else {
            // SAFETY: this thread holds it, and not as the owner.
            unsafe { self.inner.unlock() };
        }
    }

    fn is_locked(&self) -> bool {
        self.held.load(Ordering::Relaxed) || self.inner.is_locked()
    }
}

// SAFETY: as above; the functions pass the lock on as `unlock` and `lock` do.
unsafe impl RawMutexFairTrait for RawMutex {
    unsafe fn unlock_fair(&self) {
        if self.is_held_by_owner() {
            self.set_held(false);
        } else {
            // SAFETY: this thread holds it, and not as the owner.
            unsafe { self.inner.unlock_fair() };
        }
    }

    #[inline(always)]
    unsafe fn bump(&self) {
        if !self.is_held_by_owner() {
            // SAFETY: this thread holds it, and not as the owner.
            unsafe { self.inner.bump() };
        } else if self.is_shared() {
            self.set_held(false);
            self.lock();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    /// A lock that one thread owns and others take over, in every phase: no update is lost.
    #[test]
    fn threads_exclude_each_other() {
        const ROUNDS: u64 = if cfg!(miri) { 20 } else { 2_000 };
        for round in 0..if cfg!(miri) { 2 } else { 200 } {
            let counter = Arc::new(Mutex::new(0u64));
            let count = move |counter: &Mutex<u64>| {
                for step in 0..ROUNDS {
                    let mut guard = counter.lock();
                    let seen = *guard;
                    if (step + round) % 3 == 0 {
                        MutexGuard::bump(&mut guard);
                        *guard += 1;
                    } else {
                        std::hint::black_box(&guard);
                        *guard = seen + 1;
                    }
                }
            };
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let counter = counter.clone();
                    std::thread::spawn(move || count(&counter))
                })
                .collect();
            count(&counter);
            for other in others {
                other.join().expect("it ends");
            }
            assert_eq!(*counter.lock(), 3 * ROUNDS);
        }
    }

    #[test]
    fn another_thread_waits_until_the_owner_is_out() {
        let mutex = Arc::new(Mutex::new(Vec::new()));
        let mut guard = mutex.lock();
        let other = {
            let mutex = mutex.clone();
            std::thread::spawn(move || {
                assert!(mutex.try_lock().is_none(), "the owner is inside");
                mutex.lock().push("other");
            })
        };
        std::thread::sleep(Duration::from_millis(20));
        guard.push("owner");
        drop(guard);
        other.join().expect("it ends");
        assert_eq!(*mutex.lock(), ["owner", "other"]);
        assert!(mutex.try_lock().is_some());
    }

    #[test]
    fn a_bump_lets_the_first_other_in() {
        let mutex = Arc::new(Mutex::new(false));
        let mut guard = mutex.lock();
        let other = {
            let mutex = mutex.clone();
            std::thread::spawn(move || *mutex.lock() = true)
        };
        while !*guard {
            MutexGuard::bump(&mut guard);
            std::hint::spin_loop();
        }
        drop(guard);
        other.join().expect("it ends");
    }

    #[test]
    fn an_owner_does_not_enter_twice() {
        let mutex = Mutex::new(());
        let guard = mutex.lock();
        assert!(mutex.try_lock().is_none() && mutex.is_locked());
        drop(guard);
        assert!(!mutex.is_locked() && mutex.try_lock().is_some());
        if membarrier::is_offered() {
            let _guard = mutex.lock();
            let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(mutex.lock())));
            assert!(again.is_err());
        }
    }
}
