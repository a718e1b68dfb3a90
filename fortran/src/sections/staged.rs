//! A copy of a section in which the elements are beside each other. C gets it in place of the section.
//!
//! What C stored in it goes back to the section when the operation is complete, and nothing else does: each byte is compared with what
//! it was before. For the other elements may have been changed in the meantime, by another operation or, where the operation does not
//! touch them (a gap between the blocks of `MPI_Igatherv`, the receive buffer of a process that is not the root), by the program.

use std::alloc::{self, Layout};
use std::ffi::c_void;
use std::ptr::{self, NonNull};

use super::Way;
use super::section::Section;

/// The copy of a section.
pub struct Staged {
    section: Section,
    /// How many elements of the section are copied: the first.
    elements: usize,
    /// What C works on.
    now: Memory,
    /// What was there before, if something may be stored in it.
    before: Option<Memory>,
    /// Whether it has been a copy of the section: that of a persistent operation is not before the first start.
    filled: bool,
}

// SAFETY: the addresses in it may be used by any thread: which, the program sees to, as MPI asks for of each buffer.
unsafe impl Send for Staged {}

impl Staged {
    /// Memory for a copy of the first elements. None if there is not enough.
    pub fn new(section: Section, elements: usize, way: Way) -> Option<Self> {
        let elements = elements.min(section.elements);
        let bytes = elements * section.element;
        Some(Self {
            elements,
            now: Memory::new(bytes)?,
            before: match way {
                Way::In => None,
                Way::InOut => Some(Memory::new(bytes)?),
            },
            section,
            filled: false,
        })
    }

    /// What C gets.
    pub fn address(&self) -> *mut c_void {
        self.now.address().cast()
    }

    /// Copies the section.
    ///
    /// # Safety
    ///
    /// It must be there, and no operation may use the copy.
    pub unsafe fn fill(&mut self) {
        self.filled = true;
        // SAFETY: as promised, and the memory was made for it.
        unsafe { self.section.gather(self.elements, self.now.address()) };
        if let Some(before) = &self.before {
            // SAFETY: both have as many bytes.
            unsafe {
                ptr::copy_nonoverlapping(
                    self.now.address(),
                    before.address(),
                    self.elements * self.section.element,
                );
            }
        }
    }

    /// Copies what was stored back to the section. To do so once more changes nothing.
    ///
    /// # Safety
    ///
    /// The section must be there, and the operation that used the copy must be complete.
    pub unsafe fn store(&mut self) {
        if self.filled
            && let Some(before) = &self.before
        {
            // SAFETY: as promised, and the memory was made for it.
            unsafe {
                self.section
                    .scatter_changes(self.elements, self.now.address(), before.address());
            }
        }
    }
}

/// Memory that nothing has been stored in yet, aligned for any type.
struct Memory {
    first: NonNull<u8>,
    layout: Layout,
}

impl Memory {
    fn new(bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(bytes.max(1), 16).ok()?;
        // SAFETY: it is not empty.
        let first = NonNull::new(unsafe { alloc::alloc(layout) })?;
        Some(Self { first, layout })
    }

    fn address(&self) -> *mut u8 {
        self.first.as_ptr()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `new` got it with this layout.
        unsafe { alloc::dealloc(self.first.as_ptr(), self.layout) };
    }
}
