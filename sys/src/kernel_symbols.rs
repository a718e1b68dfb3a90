//! Keeps libfabric from reading the kernel's symbol table when it starts.
//!
//! The verbs provider of 1.17 is a part of the library, and starts with it, whichever provider is asked for. It reads
//! `/proc/kallsyms` twice, to see whether InfiniBand devices could use the memory of GPUs. In each process this takes 80 to 160 ms of
//! processor time: three quarters of all that a short program of 32 ranks on 8 hosts used. Where there are no such devices, the answer is
//! of no use.
//!
//! No setting of libfabric prevents it. So, during the first call, the entry of `fopen` in libfabric's table of
//! imported functions ([`crate::imports`]) leads to a function that knows no such file; libfabric then believes that the kernel has none.

use std::ffi::{CStr, c_char};
use std::ptr;

use crate::Library;
use crate::imports::imported;

/// Makes a call in which `library` starts, without its reading of the kernel's symbol table. If its table of functions is not as expected,
/// the call is made all the same.
pub fn without_kernel_symbols<R>(library: &Library, call: impl FnOnce() -> R) -> R {
    let ours = open as *const () as usize;
    let replaced = imported(library.fi_getinfo as usize, &[c"fopen", c"fopen64"])
        .into_iter()
        .filter_map(|entry| {
            let before = entry.value();
            entry.replace(before, ours).then_some((entry, before))
        })
        .collect::<Vec<_>>();
    let result = call();
    for (entry, before) in replaced {
        // Not what another has put there meanwhile.
        entry.replace(ours, before);
    }
    result
}

/// `fopen`, but for the kernel's symbol table.
unsafe extern "C" fn open(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: the caller takes this for `fopen`, and gives it a C string.
    if unsafe { CStr::from_ptr(path) } == c"/proc/kallsyms" {
        // SAFETY: the address of the calling thread's errno.
        unsafe { *libc::__errno_location() = libc::ENOENT };
        return ptr::null_mut();
    }
    // SAFETY: both are what the caller gives to `fopen`.
    unsafe { libc::fopen(path, mode) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imports::Entry;

    /// What this thread has read from files, in bytes.
    fn read() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        line.unwrap().parse().unwrap()
    }

    #[test]
    fn libfabric_starts_without_the_kernels_symbol_table_and_is_then_as_before() {
        let library = crate::library().unwrap();
        let entries = || imported(library.fi_getinfo as usize, &[c"fopen", c"fopen64"]);
        let values = || entries().into_iter().map(Entry::value).collect::<Vec<_>>();
        let before = values();
        assert!(!before.is_empty(), "libfabric opens files in some other way now");
        let at_first = read();
        let mut list = ptr::null_mut();
        let status = without_kernel_symbols(library, || {
            assert!(values().iter().all(|&value| value == open as *const () as usize));
            // SAFETY: null hints ask for all; the list is libfabric's to make, and is freed below.
            unsafe { library.fi_getinfo(1 << 16 | 17, ptr::null(), ptr::null(), 0, ptr::null(), &mut list) }
        });
        assert_eq!(status, 0);
        // SAFETY: the list is libfabric's.
        unsafe { library.fi_freeinfo(list) };
        assert!(
            read() - at_first < 2 << 20,
            "{} bytes were read",
            read() - at_first
        );
        assert_eq!(values(), before);
    }

    #[test]
    fn other_files_are_opened_and_the_symbol_table_is_not_there() {
        // SAFETY: C strings; what was opened is closed.
        unsafe {
            let file = open(c"/proc/self/status".as_ptr(), c"r".as_ptr());
            assert!(!file.is_null());
            libc::fclose(file);
            assert!(open(c"/proc/kallsyms".as_ptr(), c"r".as_ptr()).is_null());
            assert_eq!(*libc::__errno_location(), libc::ENOENT);
        }
    }
}
