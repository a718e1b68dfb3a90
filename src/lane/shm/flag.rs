//! A flag by which one side says that it sleeps, and the other, which brings what it waits for, learns that it has to wake it.
//!
//! The sleeper sets the flag and then looks once more for what it waits for; the other side publishes that and then looks at the
//! flag. So one of the two sees what the other did, provided that neither's store and load change places, which every
//! processor does unless told not to: hence a fence on each side.

/// How the flag is reached, and how the two sides order their accesses.
pub trait Flag {
    /// Loads it (relaxed).
    fn is_set(&self) -> bool;
    /// Stores it (relaxed).
    fn set(&self, on: bool);
    /// Clears it, and tells whether it was set.
    fn take(&self) -> bool;
    /// Stands between the sender's message and its look at the flag.
    fn fence_of_sender(&self);
    /// Stands between the sleeper's flag and its look into the rings.
    fn fence_of_sleeper(&self);
}

/// For senders, after each message: `true`: the sleeper has to be rung for, by this sender alone.
#[inline(always)]
pub fn must_ring(flag: &impl Flag) -> bool {
    flag.fence_of_sender();
    flag.is_set() && flag.take()
}

/// For the owner: says that it goes to sleep. `false`: there is something to do. `quiet` looks.
pub fn go_to_sleep(flag: &impl Flag, quiet: impl FnOnce() -> bool) -> bool {
    flag.set(true);
    flag.fence_of_sleeper();
    let quiet = quiet();
    if !quiet {
        flag.set(false);
    }
    quiet
}
