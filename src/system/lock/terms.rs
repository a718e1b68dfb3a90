//! How a lock goes from the thread that owns it to all. Apart from the lock, so that loom can run the same code (`models/`).

/// The words by which the owner and the first other thread come to terms.
pub trait Terms {
    /// Whether the owner is inside or about to be (acquire).
    fn is_held(&self) -> bool;
    /// By the owner (release).
    fn set_held(&self, on: bool);
    /// Whether the ownership was taken away (relaxed).
    fn is_shared(&self) -> bool;
    /// By the other (relaxed).
    fn set_shared(&self);
    /// Stands between the owner's `held` and its look at `shared`.
    fn fence_of_owner(&self);
    /// Stands between the other's `shared` and its look at `held`.
    fn fence_of_other(&self);
    /// Lets the owner get on; called for the n-th time.
    fn wait(&self, nth: u32);
}

/// By the owner. `false`: it is one no more, and goes where all go.
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

/// By another thread, which keeps further ones out: after it the owner is not inside, and can't enter any more.
pub fn take_over(terms: &impl Terms) {
    terms.set_shared();
    terms.fence_of_other();
    let mut nth = 0;
    while terms.is_held() {
        terms.wait(nth);
        nth = nth.saturating_add(1);
    }
}
