//! How readers and a thread that replaces an object synchronize. Separate from the rest, so that loom can run the same code
//! (`models/`).

/// The bits of a reader's counter for how many sections its thread is inside. The rest is the number of the outermost one.
const DEPTH_BITS: u32 = usize::BITS / 2;
const DEPTH: usize = (1 << DEPTH_BITS) - 1;

/// Whether a thread with this counter is inside a section.
pub const fn is_inside(count: usize) -> bool {
    count & DEPTH != 0
}

/// The operations of the two sides.
pub trait Sides {
    /// The reader of one thread.
    type Reader: Copy;

    /// By the reader's thread (release).
    fn set_count(&self, reader: Self::Reader, count: usize);
    /// See [`is_inside`] (acquire).
    fn count(&self, reader: Self::Reader) -> usize;
    /// The fence between a reader's `set_count` and its first access to an object.
    fn fence_of_reader(&self);
    /// The fence between the replacement of an object and the check of the readers.
    fn fence_of_writer(&self);
    /// Lets readers run; called for the n-th time.
    fn wait(&self, nth: u32);
}

/// By the reader's thread: what it finds from now on stays until [`leave`].
#[inline(always)]
pub fn enter<S: Sides>(sides: &S, reader: S::Reader) {
    let before = sides.count(reader);
    let outermost = usize::from(!is_inside(before)) << DEPTH_BITS;
    sides.set_count(reader, before.wrapping_add(outermost + 1));
    sides.fence_of_reader();
}

/// By the reader's thread.
#[inline(always)]
pub fn leave<S: Sides>(sides: &S, reader: S::Reader) {
    sides.set_count(reader, sides.count(reader) - 1);
}

/// After an object was replaced: returns once no reader can use the old one. Each reader has then been outside all
/// sections at one moment, and one that enters later finds the new object.
pub fn until_all_left<S: Sides>(sides: &S, readers: impl FnOnce() -> Vec<S::Reader>) {
    sides.fence_of_writer();
    for reader in readers() {
        let seen = sides.count(reader);
        let mut now = seen;
        let mut nth = 0;
        while is_inside(now) && now >> DEPTH_BITS == seen >> DEPTH_BITS {
            sides.wait(nth);
            nth = nth.saturating_add(1);
            now = sides.count(reader);
        }
    }
}
