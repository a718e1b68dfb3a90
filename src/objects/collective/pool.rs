//! Temporary memory that a persistent operation keeps from start to start, as each start needs the same again. So it is neither allocated
//! nor zeroed anew, its pages stay, and so does what a provider of libfabric has cached about them.
//!
//! The pool in use is that of the operation that this thread polls: algorithms need not say where their memory comes from.

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;

use parking_lot::Mutex;

/// The bytes of the block that each thread keeps for the next short temporary memory of an operation that is not persistent.
pub(super) const SPARE: usize = 4 << 10;
/// Where it begins: at a line of the caches.
const SPARE_ALIGN: usize = 64;

thread_local! {
    static SPARE_BLOCK: Cell<Option<Block>> = const { Cell::new(None) };
    static CURRENT: RefCell<Option<Arc<Pool>>> = const { RefCell::new(None) };
    /// Of this thread's operations that read other processes' memory.
    static KEPT: Arc<Pool> = Arc::default();
}

/// See the module.
#[derive(Default)]
pub(super) struct Pool(Mutex<Vec<Block>>);

impl Pool {
    /// Uses this pool for what `body` allocates.
    pub fn during<T>(self: &Arc<Pool>, body: impl FnOnce() -> T) -> T {
        /// Puts back what was in use before: dropping a future may poll another operation.
        struct Before(Option<Arc<Pool>>);
        impl Drop for Before {
            fn drop(&mut self) {
                let before = self.0.take();
                CURRENT.with(|current| *current.borrow_mut() = before);
            }
        }
        let _before = Before(CURRENT.with(|current| current.borrow_mut().replace(self.clone())));
        body()
    }

    /// The pool of the operation that this thread polls.
    pub fn current() -> Option<Arc<Pool>> {
        CURRENT.with(|current| current.borrow().clone())
    }

    /// One of this thread, which it keeps until it ends.
    pub fn of_thread() -> Arc<Pool> {
        // At the end of a thread it may be gone already.
        KEPT.try_with(Arc::clone).unwrap_or_default()
    }

    /// A block of this layout that was given back.
    pub fn take(&self, layout: Layout) -> Option<Block> {
        let mut blocks = self.0.lock();
        let at = blocks.iter().position(|block| block.layout == layout)?;
        Some(blocks.swap_remove(at))
    }

    /// Keeps a block for the next start.
    pub fn give(&self, block: Block) {
        self.0.lock().push(block);
    }
}

/// Allocated bytes that have been written to.
pub(super) struct Block {
    address: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its memory, and gives only its address.
unsafe impl Send for Block {}
// SAFETY: as for `Send`.
unsafe impl Sync for Block {}

impl Block {
    /// Zeroed bytes; `None`: there is no memory.
    ///
    /// # Panics
    /// If the layout has no bytes.
    pub fn zeroed(layout: Layout) -> Option<Block> {
        assert_ne!(layout.size(), 0, "there is nothing to allocate");
        // SAFETY: the layout's size is not zero.
        let address = unsafe { std::alloc::alloc_zeroed(layout) };
        Some(Block {
            address: NonNull::new(address)?,
            layout,
        })
    }

    /// [`SPARE`] bytes: the block that this thread keeps, or another one.
    pub fn spare() -> Option<Block> {
        // At the end of a thread there may be none to be kept any more.
        let kept = SPARE_BLOCK.try_with(Cell::take).ok().flatten();
        kept.or_else(|| Block::zeroed(Layout::from_size_align(SPARE, SPARE_ALIGN).expect("a power of two")))
    }

    /// Keeps a block that [`Block::spare`] has given, or frees it.
    pub fn give_back(self) {
        if self.layout.size() == SPARE {
            // Where it can't be kept, the closure is dropped with it.
            let _ = SPARE_BLOCK.try_with(|spare| spare.set(Some(self)));
        }
    }

    /// The first byte.
    pub fn address(&self) -> *mut u8 {
        self.address.as_ptr()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout by `zeroed`; not freed before.
        unsafe { std::alloc::dealloc(self.address.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_comes_back_for_the_same_layout_only() {
        let layout = |len| Layout::from_size_align(len, 16).expect("a layout");
        let pool = Pool::default();
        assert!(pool.take(layout(200)).is_none());
        let block = Block::zeroed(layout(200)).expect("memory");
        let address = block.address();
        pool.give(block);
        assert!(pool.take(layout(201)).is_none());
        assert_eq!(pool.take(layout(200)).map(|block| block.address()), Some(address));
        assert!(pool.take(layout(200)).is_none(), "it is in use");
    }

    #[test]
    fn a_thread_keeps_one_spare_block() {
        let first = Block::spare().expect("memory");
        let second = Block::spare().expect("memory");
        let addresses = [first.address(), second.address()];
        assert_ne!(addresses[0], addresses[1]);
        first.give_back();
        second.give_back();
        assert_eq!(Block::spare().map(|block| block.address()), Some(addresses[1]));
    }

    #[test]
    fn the_pool_before_is_in_use_again() {
        let (outer, inner) = (Arc::<Pool>::default(), Arc::<Pool>::default());
        let in_use = |pool: &Arc<Pool>| Pool::current().is_some_and(|current| Arc::ptr_eq(&current, pool));
        assert!(Pool::current().is_none());
        outer.during(|| {
            assert!(in_use(&outer));
            let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                inner.during(|| {
                    assert!(in_use(&inner));
                    std::panic::resume_unwind(Box::new(()))
                })
            }));
            assert!(failed.is_err() && in_use(&outer));
        });
        assert!(Pool::current().is_none());
    }
}
