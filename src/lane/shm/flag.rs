//! A flag with which one side shows that it sleeps, so that the other side, which brings what it waits for, knows that it
//! has to wake it.
//!
//! The sleeper sets the flag and then checks once more for what it waits for; the other side publishes that and then
//! checks the flag. So at least one of the two sees what the other did, provided that neither's store and load are
//! reordered, which every processor may do unless prevented: hence a fence on each side.

/// How the flag is reached, and how the two sides order their accesses.
pub trait Flag {
    /// Loads it (relaxed).
    fn is_set(&self) -> bool;
    /// Stores it (relaxed).
    fn set(&self, on: bool);
    /// Clears it, and returns whether it was set.
    fn take(&self) -> bool;
    /// The fence between the sender's message and its check of the flag.
    fn fence_of_sender(&self);
    /// The fence between the sleeper's flag and its check of the rings.
    fn fence_of_sleeper(&self);
}

/// For senders, after each message: `true`: this sender, and no other, has to ring for the sleeper.
#[inline(always)]
pub fn must_ring(flag: &impl Flag) -> bool {
    flag.fence_of_sender();
    flag.is_set() && flag.take()
}

/// For the owner: sets the flag before it sleeps. `false`: there is something to do, as `quiet` returns.
pub fn go_to_sleep(flag: &impl Flag, quiet: impl FnOnce() -> bool) -> bool {
    flag.set(true);
    flag.fence_of_sleeper();
    let quiet = quiet();
    if !quiet {
        flag.set(false);
    }
    quiet
}
