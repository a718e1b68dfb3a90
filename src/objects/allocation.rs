//! Memory that Weft allocates for the user: `MPI_Alloc_mem` (MPI 5.0 section 9.2) and `MPI_Win_allocate` (section 12.2.2).
//!
//! Small blocks come from the heap. Each large one is mapped separately: otherwise a program that allocates and frees
//! windows of many sizes would leave a heap with holes, because glibc takes even larger blocks from the heap once a large
//! one has been freed.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::base::error::Result;
use crate::err;
use crate::objects::info::Info;

/// The info key that asks for an alignment, in bytes.
pub const ALIGNMENT_KEY: &str = "mpi_minimum_memory_alignment";
/// In bytes, where nothing larger is asked for: a cache line.
pub const ALIGNMENT: usize = 64;
/// The largest that can be asked for: larger than any page.
const ALIGNMENT_MAX: usize = 1 << 30;

/// Blocks from this size on are mapped.
const MAPPED_FROM: usize = 1 << 20;
/// The smallest size of a page: every mapping begins at a multiple of it.
const PAGE: usize = 4096;

/// The mapped blocks, and how long each is: the caller that frees one passes only its address. It is memory of the
/// process, so there is one such table for all instances.
static MAPPED: Mutex<FxHashMap<usize, usize>> = Mutex::new(FxHashMap::with_hasher(FxBuildHasher));

/// The alignment that a value of [`ALIGNMENT_KEY`] asks for, in bytes. `None`: it is not a power of two up to 1 GiB.
pub fn alignment(value: &str) -> Option<usize> {
    let bytes = value.parse::<usize>().ok()?;
    (bytes.is_power_of_two() && bytes <= ALIGNMENT_MAX).then_some(bytes.max(ALIGNMENT))
}

/// The alignment of memory for which these hints were given. One that is not possible is ignored.
pub fn alignment_of(asked: Option<&Info>) -> usize {
    let asked = asked.and_then(|info| info.get(ALIGNMENT_KEY));
    asked.and_then(|value| alignment(&value)).unwrap_or(ALIGNMENT)
}

/// Some bytes, freed when this is dropped.
#[derive(Debug)]
pub struct Allocation {
    address: *mut c_void,
    /// See [`Allocation::leave`].
    left: AtomicBool,
}

// SAFETY: only an address. Who reads and writes the memory is the user's business, as with any memory of the user's.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// This many bytes, with undefined contents. With none there is still an address. An alignment in `asked` that is not
    /// possible is a hint that is ignored.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn new(bytes: usize, asked: Option<&Info>) -> Result<Allocation> {
        let alignment = alignment_of(asked);
        let address = match bytes >= MAPPED_FROM && alignment <= PAGE {
            true => map(bytes),
            false => from_heap(bytes, alignment),
        };
        let address = address.ok_or_else(|| err!(NoMem, "there is no memory for {bytes} bytes"))?;
        Ok(Allocation {
            address,
            left: AtomicBool::new(false),
        })
    }

    /// Where it begins.
    pub fn address(&self) -> *mut c_void {
        self.address
    }

    /// From now on it is the user's, who passes it to [`free`].
    pub fn into_raw(self) -> *mut c_void {
        self.leave();
        self.address
    }

    /// Keeps it for the rest of the process's life.
    pub fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if !*self.left.get_mut() {
            // SAFETY: allocated in `new`, and nobody was given it for good.
            unsafe { free(self.address) };
        }
    }
}

/// Frees what [`Allocation::into_raw`] returned.
///
/// # Safety
/// The address is from that function, or null, and the memory is not used any more.
pub unsafe fn free(address: *mut c_void) {
    // Only a block that begins at a page can be a mapped one.
    let mapped = match address.addr().is_multiple_of(PAGE) {
        true => MAPPED.lock().remove(&address.addr()),
        false => None,
    };
    match mapped {
        // SAFETY: `map` mapped that many bytes there, and the caller says that they are not used any more.
        Some(bytes) => unsafe {
            libc::munmap(address, bytes);
        },
        // SAFETY: the caller says that it is of `allocate`, so from the heap, or null.
        None => unsafe { libc::free(address) },
    }
}

fn from_heap(bytes: usize, alignment: usize) -> Option<*mut c_void> {
    let mut address = std::ptr::null_mut();
    // SAFETY: the alignment is a power of two, and at least that of a pointer.
    let failed = unsafe { libc::posix_memalign(&mut address, alignment, bytes.max(1)) };
    (failed == 0).then_some(address)
}

fn map(bytes: usize) -> Option<*mut c_void> {
    let (readable, private) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping where the system likes, of no file.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, readable, private, -1, 0) };
    if address == libc::MAP_FAILED {
        return None;
    }
    MAPPED.lock().insert(address.addr(), bytes);
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_as_asked() {
        for (asked, expected) in [
            (None, 64),
            (Some("4096"), 4096),
            (Some("8"), 64),
            (Some("1048576"), 1 << 20),
            // Hints that make no sense are ignored.
            (Some("100"), 64),
            (Some("0"), 64),
            (Some("-64"), 64),
            (Some("much"), 64),
            (Some("18446744073709551615"), 64),
        ] {
            let asked = asked.map(|value| Info::of([(ALIGNMENT_KEY.to_string(), value.to_string())]));
            for bytes in [0, 1, 1000, MAPPED_FROM - 1, MAPPED_FROM, MAPPED_FROM + 1] {
                let memory = Allocation::new(bytes, asked.as_ref()).expect("there is memory");
                assert!(!memory.address().is_null());
                assert!(memory.address().addr().is_multiple_of(expected), "{asked:?}");
                // SAFETY: that many bytes are there.
                unsafe { memory.address().write_bytes(7, bytes) };
            }
        }
    }

    #[test]
    fn too_much_memory_is_an_error() {
        let error = Allocation::new(isize::MAX as usize, None).unwrap_err();
        assert_eq!(error.class, crate::Class::NoMem);
        assert!(error.message.contains("9223372036854775807"), "{error}");
    }

    #[test]
    fn raw_memory_is_freed_by_its_address() {
        for bytes in [10, MAPPED_FROM + 10] {
            let address = Allocation::new(bytes, None).expect("there is memory").into_raw();
            // SAFETY: from `into_raw`, and unused.
            unsafe { free(address) };
            assert!(!MAPPED.lock().contains_key(&address.addr()));
        }
        // SAFETY: null is allowed.
        unsafe { free(std::ptr::null_mut()) };
    }

    /// Whether the system has anything mapped at an address.
    fn is_mapped(address: usize) -> bool {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("the system tells");
        maps.lines().any(|line| {
            let (begin, rest) = line.split_once('-').expect("two addresses");
            let number = |text| usize::from_str_radix(text, 16).expect("an address");
            let end = rest.split(' ').next().expect("the end");
            (number(begin)..number(end)).contains(&address)
        })
    }

    #[test]
    fn large_blocks_go_back_to_the_system() {
        // In the middle of such a large block nothing else will be mapped meanwhile.
        let bytes = 1 << 30;
        let memory = Allocation::new(bytes, None).expect("there is memory");
        let middle = memory.address().addr() + bytes / 2;
        assert!(is_mapped(middle) && MAPPED.lock().get(&memory.address().addr()) == Some(&bytes));
        drop(memory);
        assert!(!is_mapped(middle));
        // A block that must begin at a larger page is not mapped.
        let asked = Info::of([(ALIGNMENT_KEY.to_string(), "2097152".to_string())]);
        let memory = Allocation::new(MAPPED_FROM, Some(&asked)).expect("there is memory");
        assert!(!MAPPED.lock().contains_key(&memory.address().addr()));
    }
}
