//! Objects that many threads read without a lock, and that are replaced from time to time: read-copy-update in user space.
//!
//! A reader accesses objects inside a *read section* ([`enter`]): a counter of its thread, changed by plain stores. A
//! thread that replaces an object ([`Published::replace`]) waits for a *grace period* ([`Replaced::reclaim`]), after
//! which all sections that may have seen the old object have ended. The fences that both sides need are all made by the
//! replacing thread, which makes all threads of the process execute one ([`membarrier`]).
//!
//! Nearly all processes call MPI from one thread only. The counter of the first reader is at a fixed address, so it need
//! not access its thread-local memory; and as long as there is no other reader, a grace period costs nothing.
//!
//! `crossbeam-epoch` and `arc-swap` do the same with a locked instruction for each access, as much as all else that
//! looking up the communicator of a short message costs.
//!
//! A section is short: no waiting, no call of a user's function, and no grace period inside. The engine may be locked
//! inside, but a thread never waits for a grace period while it holds the engine.
//!
//! What does not belong here: what is published (the tables of handles in `abi::common`, the instance of a process in `instance`), locks
//! (`lock`), and the fence (`membarrier`).

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, compiler_fence, fence};

use parking_lot::Mutex;

use crate::system::lock::this_thread;
use crate::system::membarrier;

mod protocol;

use protocol::{Sides, is_inside, until_all_left};

/// The sections that a thread is inside: see [`protocol`].
struct Reader {
    count: AtomicUsize,
}

/// The first thread of the process that was a reader; 0: none yet, or there is no `membarrier`.
static FIRST: AtomicUsize = AtomicUsize::new(0);
static FIRST_READER: Reader = Reader::new();
/// How many other readers there have been.
static OTHERS: AtomicUsize = AtomicUsize::new(0);
static READERS: Mutex<Readers> = Mutex::new(Readers {
    all: Vec::new(),
    free: Vec::new(),
});
/// Threads that wait for a grace period.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// All readers but the first. They stay: later threads reuse those of threads that have ended.
struct Readers {
    all: Vec<&'static Reader>,
    free: Vec<&'static Reader>,
}

thread_local! {
    static READER: Cell<Option<&'static Reader>> = const { Cell::new(None) };
    static LEAVING: Leaving = const { Leaving };
}

/// Frees the reader of a thread at its end.
struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(reader) = READER.take()
            // A section that another thread-local value holds may end after this: its reader is never another's.
            && !reader.is_inside()
        {
            READERS.lock().free.push(reader);
        }
    }
}

impl Reader {
    const fn new() -> Reader {
        Reader {
            count: AtomicUsize::new(0),
        }
    }

    /// Whether its thread is inside a section.
    fn is_inside(&self) -> bool {
        is_inside(self.count.load(Ordering::Relaxed))
    }

    /// The reader of the calling thread.
    fn mine() -> &'static Reader {
        match is_first() {
            true => &FIRST_READER,
            false => READER.get().unwrap_or_else(Reader::register),
        }
    }

    #[cold]
    fn register() -> &'static Reader {
        // Where there is no `membarrier`, no thread is the first: all execute a fence.
        if membarrier::is_offered()
            && FIRST
                .compare_exchange(0, this_thread(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            return &FIRST_READER;
        }
        let mut readers = READERS.lock();
        let reader = readers.free.pop().unwrap_or_else(|| {
            let reader: &'static Reader = Box::leak(Box::new(Reader::new()));
            readers.all.push(reader);
            reader
        });
        OTHERS.store(readers.all.len(), Ordering::Relaxed);
        drop(readers);
        // Before the first read: see `is_only_reader`.
        fence(Ordering::SeqCst);
        READER.set(Some(reader));
        // Where the destructor has run already, the thread is about to end and its reader stays: `READER` itself has no destructor.
        let _ = LEAVING.try_with(|_| ());
        reader
    }
}

/// Whether the calling thread is the first one of the process that was a reader. There is none where there is no `membarrier`.
#[inline(always)]
pub fn is_first() -> bool {
    FIRST.load(Ordering::Relaxed) == this_thread()
}

/// The two sides of [`protocol`] as they are in a process.
struct Process {
    /// Whether a thread has become the first, which needs `membarrier`.
    has_first: bool,
}

impl Process {
    /// `FIRST` is set by the first reader or never.
    fn now() -> Process {
        Process {
            has_first: FIRST.load(Ordering::Relaxed) != 0,
        }
    }
}

impl Sides for Process {
    type Reader = &'static Reader;

    #[inline(always)]
    fn set_count(&self, reader: &'static Reader, count: usize) {
        reader.count.store(count, Ordering::Release);
    }

    #[inline(always)]
    fn count(&self, reader: &'static Reader) -> usize {
        reader.count.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn fence_of_reader(&self) {
        if self.has_first {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    fn fence_of_writer(&self) {
        fence(Ordering::SeqCst);
        if self.has_first {
            membarrier::fence_here();
        }
    }

    fn wait(&self, nth: u32) {
        if nth < 100 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    }
}

/// As long as it lives, the objects that its thread has found stay valid. It belongs to one thread.
pub struct Section {
    reader: &'static Reader,
    of_one_thread: PhantomData<*const ()>,
}

/// Begins a read section.
#[inline(always)]
fn enter() -> Section {
    match is_first() {
        true => Section::begin(Process { has_first: true }, &FIRST_READER),
        false => enter_as_another(),
    }
}

#[inline(never)]
fn enter_as_another() -> Section {
    let reader = Reader::mine();
    Section::begin(Process::now(), reader)
}

impl Section {
    #[inline(always)]
    fn begin(sides: Process, reader: &'static Reader) -> Section {
        protocol::enter(&sides, reader);
        Section {
            reader,
            of_one_thread: PhantomData,
        }
    }
}

impl Drop for Section {
    #[inline(always)]
    fn drop(&mut self) {
        protocol::leave(&Process { has_first: true }, self.reader);
    }
}

/// Whether a thread waits for others to leave their sections.
#[inline(always)]
pub fn is_waited_for() -> bool {
    WAITING.load(Ordering::Relaxed) != 0
}

/// Whether no other thread has ever been a reader: then only sections of this thread can have seen what it has replaced.
fn is_only_reader() -> bool {
    // Either another thread's first read sees the store before this, or this load sees that thread's registration.
    fence(Ordering::SeqCst);
    OTHERS.load(Ordering::Relaxed) == 0 && is_first()
}

/// Waits until all sections that began before have ended.
fn wait_for_grace_period() {
    let mine = Reader::mine();
    assert!(
        !mine.is_inside(),
        "a thread waits for a grace period inside a section of its own"
    );
    if is_only_reader() {
        return;
    }
    WAITING.fetch_add(1, Ordering::Relaxed);
    until_all_left(&Process::now(), || {
        // A reader that comes later sees the new object.
        let mut readers = READERS.lock().all.clone();
        readers.push(&FIRST_READER);
        readers
    });
    WAITING.fetch_sub(1, Ordering::Relaxed);
}

/// An object that all threads can read, or none.
pub struct Published<T> {
    /// From `Arc::into_raw`.
    object: AtomicPtr<T>,
    owns: PhantomData<Arc<T>>,
}

impl<T> Published<T> {
    /// No object.
    pub const fn none() -> Published<T> {
        Published {
            object: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
        }
    }

    /// The object, if there is one. It stays as long as the result lives: see the module for what must not be done meanwhile.
    #[inline(always)]
    pub fn hold(&self) -> Option<Held<'_, T>> {
        let section = enter();
        let object = self.object.load(Ordering::Acquire);
        NonNull::new(object).map(|object| Held {
            object,
            section,
            of: PhantomData,
        })
    }

    /// The object, if there is one, with a reference that stays.
    #[inline]
    pub fn share(&self) -> Option<Arc<T>> {
        self.hold().map(|held| held.share())
    }

    /// Replaces the object by another one, or none. Readers may still use the old one.
    #[must_use]
    pub fn replace(&self, object: Option<Arc<T>>) -> Option<Replaced<T>> {
        let object = object.map_or(ptr::null_mut(), |object| Arc::into_raw(object).cast_mut());
        let before = self.object.swap(object, Ordering::AcqRel);
        (!before.is_null()).then_some(Replaced {
            object: before,
            owns: PhantomData,
        })
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        let object = *self.object.get_mut();
        if !object.is_null() {
            // SAFETY: the reference that this owns; holders of the object have borrowed this.
            drop(unsafe { Arc::from_raw(object) });
        }
    }
}

/// An object that readers may still use. If this is dropped without [`Replaced::reclaim`], the object is never freed.
pub struct Replaced<T> {
    /// From `Arc::into_raw`.
    object: *mut T,
    owns: PhantomData<Arc<T>>,
}

// SAFETY: it owns a reference of an `Arc<T>`, which may be handed to another thread on these terms.
unsafe impl<T: Send + Sync> Send for Replaced<T> {}

impl<T> Replaced<T> {
    /// The object, with a reference of its own.
    pub fn share(&self) -> Arc<T> {
        // SAFETY: from `Arc::into_raw`, and the reference is still this one's.
        unsafe {
            Arc::increment_strong_count(self.object);
            Arc::from_raw(self.object)
        }
    }

    /// The object, which no reader uses any more.
    pub fn reclaim(self) -> Arc<T> {
        wait_for_grace_period();
        // SAFETY: from `Arc::into_raw`, and this takes the reference along.
        unsafe { Arc::from_raw(self.object) }
    }

    /// The same for several objects.
    pub fn reclaim_all(replaced: Vec<Replaced<T>>) -> Vec<Arc<T>> {
        if replaced.is_empty() {
            return Vec::new();
        }
        wait_for_grace_period();
        // SAFETY: as in `reclaim`.
        replaced
            .into_iter()
            .map(|replaced| unsafe { Arc::from_raw(replaced.object) })
            .collect()
    }

    /// Whether [`Replaced::reclaim`] has no reader to wait for.
    pub fn is_unseen() -> bool {
        is_only_reader() && !FIRST_READER.is_inside()
    }
}

/// An object that stays while this lives: see [`Published::hold`].
pub struct Held<'a, T> {
    /// That of an Arc, which has the reference of a `Published`. Whoever takes it away gives the reference back after a grace
    /// period ([`Published::replace`]), which waits for the section. No reference: the Arc's counts are reached by it, too.
    object: NonNull<T>,
    #[allow(dead_code, reason = "its end is what counts")]
    section: Section,
    of: PhantomData<&'a T>,
}

impl<T> Held<'_, T> {
    /// A reference that stays.
    #[inline]
    pub fn share(&self) -> Arc<T> {
        // SAFETY: the object of an Arc, whose reference is given up after this section at the earliest.
        unsafe {
            Arc::increment_strong_count(self.object.as_ptr());
            Arc::from_raw(self.object.as_ptr())
        }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the object stays as long as the section.
        unsafe { self.object.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;

    use super::*;

    /// Detects whether it is used after its end.
    struct Canary {
        alive: AtomicBool,
    }

    impl Canary {
        fn new() -> Arc<Canary> {
            Arc::new(Canary {
                alive: AtomicBool::new(true),
            })
        }
    }

    impl Drop for Canary {
        fn drop(&mut self) {
            self.alive.store(false, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_readers_hold_is_not_reclaimed() {
        const ROUNDS: usize = if cfg!(miri) { 20 } else { 200 };
        let published = Published::none();
        assert!(published.replace(Some(Canary::new())).is_none());
        let done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let held = published.hold().expect("there is always one");
                        assert!(held.alive.load(Ordering::Relaxed));
                        let again = published.hold().expect("there is always one").share();
                        assert!(held.alive.load(Ordering::Relaxed) && again.alive.load(Ordering::Relaxed));
                    }
                });
            }
            for _ in 0..ROUNDS {
                let before = published
                    .replace(Some(Canary::new()))
                    .expect("there is always one");
                drop(before.reclaim());
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn who_reclaims_waits_for_those_who_hold() {
        let published = Arc::new(Published::none());
        assert!(published.replace(Some(Canary::new())).is_none());
        let (holds, held) = mpsc::channel();
        let (go, gone) = mpsc::channel();
        let reader = {
            let published = published.clone();
            std::thread::spawn(move || {
                let object = published.hold().expect("it is there");
                holds.send(()).expect("somebody waits");
                gone.recv().expect("somebody sends");
                let stays = object.alive.load(Ordering::Relaxed);
                drop(object);
                (stays, published.hold().is_none())
            })
        };
        held.recv().expect("it holds it");
        let before = published.replace(None).expect("it was there");
        let kept = before.share();
        assert!(published.share().is_none() && kept.alive.load(Ordering::Relaxed));
        let writer = std::thread::spawn(move || drop(before.reclaim()));
        while !is_waited_for() {
            std::thread::yield_now();
        }
        assert!(!writer.is_finished() && Arc::strong_count(&kept) == 2);
        go.send(()).expect("it waits");
        assert_eq!(reader.join().expect("it ends"), (true, true));
        writer.join().expect("it ends");
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    /// What a thread holds in a thread-local value ends after `LEAVING`, where that came first.
    #[test]
    fn the_reader_of_a_thread_that_ends_inside_is_nobody_elses() {
        struct Kept {
            held: Option<Held<'static, Canary>>,
            free_are_outside: mpsc::Sender<bool>,
        }
        impl Drop for Kept {
            fn drop(&mut self) {
                assert!(READER.get().is_none(), "the thread has left");
                let outside = READERS.lock().free.iter().all(|reader| !reader.is_inside());
                drop(self.held.take());
                let _ = self.free_are_outside.send(outside);
            }
        }
        thread_local!(static KEPT: Cell<Option<Kept>> = const { Cell::new(None) });
        static PUBLISHED: Published<Canary> = Published::none();
        assert!(PUBLISHED.replace(Some(Canary::new())).is_none());
        // The first thread has no reader of its own.
        drop(PUBLISHED.hold());
        let (free_are_outside, told) = mpsc::channel();
        std::thread::spawn(move || {
            // Before the thread's reader, and so ended after it.
            KEPT.with(|_| ());
            let held = PUBLISHED.hold();
            assert!(held.is_some() && Reader::mine().is_inside());
            KEPT.set(Some(Kept {
                held,
                free_are_outside,
            }));
        });
        assert_eq!(told.recv(), Ok(true));
        assert!(
            PUBLISHED
                .replace(None)
                .expect("it was there")
                .reclaim()
                .alive
                .load(Ordering::Relaxed)
        );
    }

    #[test]
    fn nobody_waits_for_themselves() {
        let published = Published::none();
        assert!(published.replace(Some(Canary::new())).is_none());
        let held = published.hold().expect("it is there");
        let before = published.replace(None).expect("it was there");
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(before.reclaim())));
        assert!(waited.is_err() && held.alive.load(Ordering::Relaxed));
    }
}
