//! The lock of a target's elements ([`updates`](super::updates)): a word that says who has it, so that somebody who waits can find out that
//! this process has died, and take the lock over. Nobody else can end an update that was begun, so what it was about may be half done.
//!
//! ```text
//!   take:       free → its name                        wait:  a name → the name, wanted
//!   give back:  → free                                 take over from the dead: its name → the own one, wanted
//! ```
//!
//! Of those who find the same process dead, one gets the lock: the others don't find its name any more. A name never has the lock again after
//! that.
//!
//! The word is a parameter, so that a model can bring its own (`models/src/updates.rs`).

/// Nobody has it.
const FREE: u32 = 0;
/// Others wait for whoever has it.
const WANTED: u32 = 1 << 31;

/// The word.
pub trait Word {
    /// What it is.
    fn get(&self) -> u32;
    /// Exchanges that, if it is what the caller thinks; acquires then.
    fn change(&self, from: u32, to: u32) -> bool;
    /// Sets it; releases.
    fn set(&self, to: u32);
}

/// Takes the lock if it is free. `name` is that of the process: not 0, and below 2^31.
#[inline(always)]
pub fn try_take(word: &impl Word, name: u32) -> bool {
    word.get() == FREE && word.change(FREE, name)
}

/// Whether nobody has it.
pub fn is_free(word: &impl Word) -> bool {
    word.get() == FREE
}

/// Says that the caller waits; returns who has the lock.
pub fn want(word: &impl Word) -> Option<u32> {
    let found = word.get();
    if found != FREE && found & WANTED == 0 {
        // If it has changed, it was given back in between.
        word.change(found, found | WANTED);
    }
    (found != FREE).then_some(found & !WANTED)
}

/// Takes the lock from a process that has died. `false`: it did not have it any more.
pub fn take_over(word: &impl Word, dead: u32, name: u32) -> bool {
    let found = word.get();
    // Others may wait, too.
    found & !WANTED == dead && word.change(found, name | WANTED)
}

/// Gives it back; returns whether others wait for it.
pub fn give_back(word: &impl Word) -> bool {
    let is_wanted = word.get() & WANTED != 0;
    // Who says in between that he wants it will say it again, if this is not enough. Nobody else gives it back, or takes it over.
    word.set(FREE);
    is_wanted
}
