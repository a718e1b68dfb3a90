//! Datatypes (MPI 5.0, chapter 5): what they are, where their bytes lie, packing and unpacking.
//!
//! A [`Datatype`] never changes once made, apart from being committed and named; old types live as long as the types
//! made from them. It knows four things, each computed by its constructor from those of the old types:
//!
//! - its bounds and size (`bounds`), by the rules of section 5.1;
//! - its layout (`layout`): where its bytes are, as runs and loops in the best form known. `walk` finds the
//!   bytes between any two packed bytes, and `copy` moves them;
//! - its signature (`signature`): which basic elements those bytes are, for `MPI_Get_elements` and `external32`;
//! - its origin (`envelope`): the constructor call, for `MPI_Type_get_contents`.
//!
//! Layouts are made at construction, not at commit, because the constructors above them build on them, and because a
//! layout costs no more than the arguments of its constructor. Commit only marks.
//!
//! This module holds no state but the table of predefined types, and never communicates.
//!
//! - `construct`, `array`: the constructors; `parametrised`: types found by size or precision
//! - `basic`, `predefined`: what all others are made of; `component`: of which one a type is made
//! - `external`: the `external32` form
//! - `runs`: where elements are, for messages and accumulates
//!
//! What does not belong here: handles and arguments (`abi::datatype`), the buffer that a call is given (`data::memory`), and arithmetic on
//! elements (`data::op`).

mod array;
mod basic;
mod bounds;
mod component;
mod construct;
mod copy;
mod envelope;
mod external;
mod layout;
mod parametrised;
mod predefined;
mod runs;
mod signature;
mod walk;

pub use array::Order;
pub use basic::{Basic, Category, Element, Representation};
#[cfg(feature = "sim")]
pub use envelope::Envelope;
pub use envelope::{Combiner, Contents};

pub use parametrised::TypeClass;
pub use runs::{Runs, Unit};

use crate::base::attribute::Attributes;
use crate::base::bytes::{RawBytes, RawRoom};
use bounds::Bounds;
use component::Component;
use copy::Copier;
use envelope::Origin;
use layout::Layout;
use parking_lot::RwLock;
use signature::Signature;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use walk::{Lister, Sink};

/// An MPI datatype. Sizes, bounds and extents are in bytes.
#[derive(Debug)]
pub struct Datatype {
    size: u64,
    /// Where the run starts if `dense` or `single`.
    run_offset: i64,
    /// How many runs one element is, or more than it is.
    runs: u64,
    /// Any number of elements is one run in packed order.
    dense: bool,
    /// One element is one run.
    single: bool,
    bounds: Bounds,
    layout: Arc<Layout>,
    signature: Arc<Signature>,
    origin: Arc<Origin>,
    /// For a derived type.
    component: Component,
    element: Option<Element>,
    predefined: bool,
    committed: AtomicBool,
    handle: AtomicUsize,
    name: RwLock<Cow<'static, str>>,
    attributes: Attributes,
}

impl Datatype {
    /// The bytes of data in one element, without gaps (`MPI_Type_size_c`).
    #[inline]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The lower bound.
    #[inline]
    pub fn lb(&self) -> i64 {
        self.bounds.lb
    }

    /// The upper bound.
    #[inline]
    #[cfg(feature = "sim")]
    pub fn ub(&self) -> i64 {
        self.bounds.lb + self.bounds.extent
    }

    /// From the lower to the upper bound: how far apart elements lie.
    #[inline]
    pub fn extent(&self) -> i64 {
        self.bounds.extent
    }

    /// The offset of the lowest byte of data.
    #[inline]
    pub fn true_lb(&self) -> i64 {
        self.bounds.true_lb
    }

    /// From the lowest byte of data to after the highest.
    #[inline]
    pub fn true_extent(&self) -> i64 {
        self.bounds.true_extent
    }

    /// Whether it may be used in communication.
    #[inline]
    pub fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Relaxed)
    }

    /// `MPI_Type_commit`; a second call does no harm.
    pub fn commit(&self) {
        self.committed.store(true, Ordering::Relaxed);
    }

    /// Whether it is one of the predefined types, named or not (those of `MPI_Type_create_f90_real` and similar procedures), which
    /// must not be freed.
    #[inline]
    pub fn is_predefined(&self) -> bool {
        self.predefined
    }

    /// How a predefined reduction treats one element; `None` for a derived type.
    #[inline]
    pub fn element(&self) -> Option<Element> {
        self.element
    }

    /// The basic element that the type is made of, if it is made of one only.
    #[cfg_attr(not(feature = "sim"), allow(dead_code, reason = "for tests"))]
    pub fn uniform(&self) -> Option<Basic> {
        match *self.signature {
            Signature::Uniform { basic, .. } => Some(basic),
            _ => None,
        }
    }

    /// The ABI handle, which user-defined reductions get. 0 until the bindings set it; a named predefined type
    /// knows its own.
    #[inline]
    pub fn handle(&self) -> usize {
        self.handle.load(Ordering::Relaxed)
    }

    /// Sets the ABI handle.
    pub fn set_handle(&self, handle: usize) {
        self.handle.store(handle, Ordering::Relaxed);
    }

    /// The name: the constant's for a predefined type, empty for a new one.
    pub fn name(&self) -> Cow<'static, str> {
        self.name.read().clone()
    }

    /// `MPI_Type_set_name`.
    pub fn set_name(&self, name: impl Into<String>) {
        *self.name.write() = Cow::Owned(name.into());
    }

    /// What the user keeps with it.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The name for a message to the user, also when there is none.
    pub fn describe(&self) -> Cow<'static, str> {
        let name = self.name();
        match (name.is_empty(), self.predefined) {
            (true, true) => Cow::Borrowed("an unnamed predefined datatype"),
            (true, false) => Cow::Borrowed("a derived datatype"),
            (false, _) => name,
        }
    }

    /// If `count` elements are one run of bytes in packed order: its offset from the buffer's address, and its length.
    #[inline]
    pub fn run(&self, count: u64) -> Option<(i64, usize)> {
        if self.dense || (self.single && count <= 1) {
            let length = self.size.checked_mul(count)?;
            Some((self.run_offset, usize::try_from(length).ok()?))
        } else {
            (count == 0).then_some((0, 0))
        }
    }

    /// How long its runs of bytes are on average, or less than that.
    pub fn mean_run(&self) -> u64 {
        self.size / self.runs.max(1)
    }

    /// Packs `count` elements at `from` into `into`, from the packed byte `offset` on. Returns the bytes written, which
    /// are fewer than `into.len()` only where the data ends.
    ///
    /// `from` is the buffer's address, null with `MPI_BOTTOM`.
    ///
    /// # Safety
    /// Every byte of data of the `count` elements that falls into the packed range is readable, was written, and does
    /// not lie in `into`.
    pub unsafe fn pack<'a>(
        &self,
        from: *const u8,
        count: u64,
        offset: u64,
        into: impl Into<RawRoom<'a>>,
    ) -> usize {
        let mut into = into.into();
        let mut copier = Copier::<true> {
            packed: into.as_mut_ptr(),
        };
        // SAFETY: the caller vouches for the user's bytes; `into` has room for as many bytes as are asked for.
        unsafe { self.walk(from.expose_provenance(), count, offset, into.len(), &mut copier) }
    }

    /// Unpacks `from`, which holds the packed bytes of `count` elements from byte `offset` on, to `into`. Returns the
    /// bytes taken, which are fewer than `from.len()` only where the data ends.
    ///
    /// # Safety
    /// Every byte of data of the `count` elements that falls into the packed range is writable, and does not lie in
    /// `from`.
    pub unsafe fn unpack<'a>(
        &self,
        into: *mut u8,
        count: u64,
        offset: u64,
        from: impl Into<RawBytes<'a>>,
    ) -> usize {
        let from = from.into();
        let mut copier = Copier::<false> {
            // Unpacking only reads here.
            packed: from.as_ptr().cast_mut(),
        };
        // SAFETY: the caller vouches for the user's bytes; no more bytes of `from` are asked for than it has.
        unsafe { self.walk(into.expose_provenance(), count, offset, from.len(), &mut copier) }
    }

    /// The runs of `count` elements at the address `at` that hold up to `bytes` packed bytes from `offset` on, at most
    /// `limit` of them: (address, length) of each, for an iovec. Runs that touch are one. Together they may hold fewer
    /// than `bytes` where `limit` or the data ends.
    pub fn segments(
        &self,
        at: usize,
        count: u64,
        offset: u64,
        bytes: usize,
        limit: usize,
    ) -> Vec<(usize, usize)> {
        let mut lister = Lister::new(limit);
        // SAFETY: a lister asks nothing of the bytes.
        unsafe { self.walk(at, count, offset, bytes, &mut lister) };
        lister.runs
    }

    /// # Safety
    /// The sink's conditions hold for the runs of the packed bytes from `offset` on, `bytes` at most.
    unsafe fn walk<S: Sink>(&self, at: usize, count: u64, offset: u64, bytes: usize, sink: &mut S) -> usize {
        let total = self.size.saturating_mul(count);
        let range = offset..total.min(offset.saturating_add(bytes as u64));
        if range.is_empty() {
            return 0;
        }
        let length = (range.end - range.start) as usize;
        // SAFETY: the caller says that the bytes of these elements are valid.
        unsafe {
            if self.dense || (self.single && count == 1) {
                let first = at
                    .wrapping_add(self.run_offset as usize)
                    .wrapping_add(range.start as usize);
                sink.run(first, length);
            } else {
                walk::walk_repeat(&self.layout, at, count, self.bounds.extent, range, sink);
            }
        }
        length
    }

    /// How many whole elements `bytes` of packed data are (`MPI_Get_count_c`); `None` for `MPI_UNDEFINED`. No bytes
    /// are 0 elements of any type.
    pub fn count_of(&self, bytes: u64) -> Option<u64> {
        match (bytes, self.size) {
            (0, _) => Some(0),
            (_, 0) => None,
            (_, size) => bytes.is_multiple_of(size).then(|| bytes / size),
        }
    }

    /// The bytes of packed data that `elements` basic elements are (`MPI_Status_set_elements_c`), as the inverse of
    /// [`elements_of`](Self::elements_of). `None`: the type has no elements, or the bytes do not fit in 63 bits.
    pub fn bytes_of_elements(&self, elements: u64) -> Option<u64> {
        if elements == 0 {
            return Some(0);
        }
        let whole = elements.checked_div(self.signature.elements())?;
        let rest = self.signature.bytes_of(elements % self.signature.elements());
        let bytes = whole.checked_mul(self.size)?.checked_add(rest)?;
        i64::try_from(bytes).is_ok().then_some(bytes)
    }

    /// How many basic elements `bytes` of packed data are (`MPI_Get_elements_c`); `None` for `MPI_UNDEFINED`: the data
    /// ends inside one.
    pub fn elements_of(&self, bytes: u64) -> Option<u64> {
        match (bytes, self.size) {
            (0, _) => Some(0),
            (_, 0) => None,
            (_, size) => {
                let whole = (bytes / size).checked_mul(self.signature.elements())?;
                whole.checked_add(self.signature.elements_in(bytes % size)?)
            }
        }
    }
}

#[cfg(test)]
mod tests;
