//! How a lock passes from the thread that owns it to all threads. Separate from the lock, so that loom can run the same code (`models/`).

/// The words through which the owner and the first other thread synchronize.
pub trait Terms {
    /// Loads whether the owner is inside or about to be (acquire).
    fn is_held(&self) -> bool;
    /// Stores that; by the owner (release).
    fn set_held(&self, on: bool);
    /// Loads whether the ownership was taken away (relaxed).
    fn is_shared(&self) -> bool;
    /// Stores that; by the other thread (relaxed).
    fn set_shared(&self);
    /// The fence between the owner's store of `held` and its load of `shared`.
    fn fence_of_owner(&self);
    /// The fence between the other's store of `shared` and its load of `held`.
    fn fence_of_other(&self);
    /// Lets the owner run; called for the n-th time.
    fn wait(&self, nth: u32);
}

/// By the owner. `false`: it is no longer the owner, and locks as all others do.
#[inline(always)]
pub fn enter(terms: &impl Terms) -> bool {
    terms.set_held(true);
    terms.fence_of_owner();
    if !terms.is_shared() {
        return true;
    }
    terms.set_held(false);
    false
}

/// By another thread, which keeps further ones out: when this returns, the owner is not inside, and can't enter as owner any more.
pub fn take_over(terms: &impl Terms) {
    terms.set_shared();
    terms.fence_of_other();
    let mut nth = 0;
    while terms.is_held() {
        terms.wait(nth);
        nth = nth.saturating_add(1);
    }
}
