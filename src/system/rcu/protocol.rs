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
    let step = match before & DEPTH {
        0 => (1 << DEPTH_BITS) + 1,
        DEPTH => too_deep(),
        _ => 1,
    };
    sides.set_count(reader, before.wrapping_add(step));
    sides.fence_of_reader();
}

/// One section more would look like none. Only those that were forgotten (`mem::forget`) can be so many.
#[cold]
#[inline(never)]
fn too_deep() -> ! {
    panic!("a thread is inside too many read sections");
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct Counts(Cell<usize>);

    impl Sides for Counts {
        type Reader = ();

        fn set_count(&self, (): (), count: usize) {
            self.0.set(count);
        }
        fn count(&self, (): ()) -> usize {
            self.0.get()
        }
        fn fence_of_reader(&self) {}
        fn fence_of_writer(&self) {}
        fn wait(&self, _: u32) {}
    }

    #[test]
    #[should_panic(expected = "too many")]
    fn forgotten_sections_never_look_like_none() {
        let sides = Counts(Cell::new(DEPTH - 1));
        enter(&sides, ());
        assert!(is_inside(sides.0.get()));
        enter(&sides, ());
    }
}
