//! What orders the stores of puts before loads that follow their completion.
//!
//! An operation that a flush has completed is seen by whoever begins an operation afterwards: of two processes that both put something, flush, and
//! get what the other one has put, at least one gets it. So between the store and the load there has to be a fence, unless an atomic operation
//! of the processor, which is one on x86, comes in between. Most flushes are not followed by a load, so there the load executes
//! it: a flush only notes that stores may be on their way. Elsewhere the flush does.
//!
//! The note is one for all windows and threads of the process. It is a store as those before it, which on x86 leave a processor in their order:
//! a thread that finds it erased by another one, after it has made it, knows by that alone that its stores before are seen by all. A
//! thread that finds the note of another one sees the stores of that one, as all others do.

use std::sync::atomic::{AtomicBool, Ordering, fence};

static STORED: AtomicBool = AtomicBool::new(false);

/// The stores before come before the loads of later operations.
#[inline(always)]
pub fn complete_stores() {
    if cfg!(all(target_arch = "x86_64", not(miri))) {
        STORED.store(true, Ordering::Release);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The same after a lock was given back.
#[inline(always)]
pub fn unlocked() {
    // On x86 that was an atomic operation of the processor.
    if cfg!(not(target_arch = "x86_64")) {
        fence(Ordering::SeqCst);
    }
}

/// An operation will load something.
#[inline(always)]
pub fn begin_loads() {
    // Acquire: the compiler leaves the load behind it.
    if STORED.load(Ordering::Acquire) {
        order();
    }
}

#[cold]
fn order() {
    STORED.store(false, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}
