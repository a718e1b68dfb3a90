//! Memory that libfabric works on: pages for buffers, and the contexts of operations.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use weft_libfabric_sys as sys;

use crate::base::error::Result;
use crate::err;

/// Anonymous pages, zeroed, and taken from the system only when touched.
pub(super) struct Pages {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: plain memory that this value owns.
unsafe impl Send for Pages {}

impl Pages {
    /// Maps `len` bytes (above zero).
    pub(super) fn map(len: usize) -> Result<Pages> {
        // SAFETY: an anonymous private mapping at an address of the system's choice.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Pages { base, len }),
            _ => Err(err!(
                NoMem,
                "can't map {len} bytes for message buffers: {}",
                std::io::Error::last_os_error()
            )),
        }
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and the lane drops it after the endpoint that used it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Contexts by number. libfabric gets a pointer to one with each operation, uses it as scratch space (`FI_CONTEXT`,
/// `FI_CONTEXT2`), and returns the pointer with the completion. Weft only uses their addresses. Those that are never used
/// take no memory.
pub(super) struct Contexts {
    pages: Pages,
    count: usize,
}

/// Bytes of a context.
const CONTEXT: usize = size_of::<sys::fi_context2>();

impl Contexts {
    pub(super) fn new(count: usize) -> Result<Contexts> {
        Ok(Contexts {
            pages: Pages::map(count * CONTEXT)?,
            count,
        })
    }

    /// What to hand to libfabric for operation `index`.
    #[inline]
    pub(super) fn pointer(&self, index: usize) -> *mut c_void {
        assert!(index < self.count);
        // SAFETY: inside the pages, which have room for `count` contexts.
        unsafe { self.pages.base().add(index * CONTEXT) }.cast()
    }

    /// Which operation a pointer from libfabric belongs to; `None` if it is none of these.
    #[inline]
    pub(super) fn index(&self, pointer: *mut c_void) -> Option<usize> {
        let offset = (pointer as usize).wrapping_sub(self.pages.base() as usize);
        let index = offset / CONTEXT;
        (index < self.count && offset.is_multiple_of(CONTEXT)).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_contexts_are_refused() {
        let contexts = Contexts::new(4).unwrap();
        for index in 0..4 {
            assert_eq!(contexts.index(contexts.pointer(index)), Some(index));
        }
        let first = contexts.pointer(0) as usize;
        for wrong in [0, 1, first - 64, first + 8, first + 4 * 64, usize::MAX] {
            assert_eq!(contexts.index(wrong as *mut c_void), None, "{wrong:#x}");
        }
    }

    #[test]
    fn pages_are_given_back() {
        let sizes = || std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages = || sizes().split(' ').next().unwrap().parse::<usize>().unwrap();
        let before = pages();
        for _ in 0..64 {
            Pages::map(1 << 30).unwrap();
        }
        let more_gib = pages().saturating_sub(before) >> 18;
        assert!(more_gib < 32, "{more_gib} GiB");
    }
}
