//! A library's table of imported functions: where its entries are, and how one leads to another function. Other libraries and the program
//! have tables of their own, which stay as they are. What is put there calls libc's function: whatever else has replaced the same entry in the same
//! way is left out meanwhile.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{mem, slice};

/// Held while a page is writable, so that nobody else makes it read-only meanwhile.
static PAGES: Mutex<()> = Mutex::new(());

/// An entry in the table of imported functions of a library that stays loaded.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    address: usize,
    /// The linker has made it read-only after it had filled it in.
    sealed: bool,
}

impl Entry {
    fn atomic(&self) -> &AtomicUsize {
        // SAFETY: the entry is an aligned pointer in memory of the library. The library's own code reads it in one piece, and
        // the linker writes it so.
        unsafe { AtomicUsize::from_ptr(self.address as *mut usize) }
    }

    pub(crate) fn value(self) -> usize {
        self.atomic().load(Ordering::Relaxed)
    }

    /// Puts a function there if there is `before`; `false` if there is another, or the entry can't be changed.
    pub(crate) fn replace(self, before: usize, function: usize) -> bool {
        // Entries of several functions share a page.
        let _alone = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
        if self.sealed && !self.protect(libc::PROT_READ | libc::PROT_WRITE) {
            return false;
        }
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let replaced = self
            .atomic()
            .compare_exchange(before, function, success, failure)
            .is_ok();
        if self.sealed {
            self.protect(libc::PROT_READ);
        }
        replaced
    }

    fn protect(self, protection: c_int) -> bool {
        let page = page_bytes();
        let start = self.address & !(page - 1);
        // SAFETY: the whole page is in the part of the library that the dynamic linker writes, and then makes read-only.
        unsafe { libc::mprotect(start as *mut c_void, page, protection) == 0 }
    }
}

fn page_bytes() -> usize {
    // SAFETY: the call has no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// The pages that the dynamic linker makes read-only of a part that it should make so: a page at the end that only begins with it has
/// other data, too, and stays writable. Libraries are made for some size of page, and a kernel may have larger ones.
fn sealed_pages(part: &Range<usize>, page: usize) -> Range<usize> {
    part.start & !(page - 1)..part.end & !(page - 1)
}

/// The entries of the functions with these names in the table of the library that contains `code`.
pub(crate) fn imported(code: usize, names: &[&CStr]) -> Vec<Entry> {
    let mut search = Search {
        code,
        names,
        found: Vec::new(),
    };
    // SAFETY: `visit` takes the address for that of a `Search`, which lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

struct Search<'a> {
    code: usize,
    names: &'a [&'a CStr],
    found: Vec<Entry>,
}

/// Looks at one loaded library; 1 ends the search.
unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY: `imported` gives the address of its `Search`, and the linker that of a description, for this call.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search<'_>>()) };
    let base = info.dlpi_addr as usize;
    // SAFETY: the linker describes so many program headers of a loaded library.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let part = |header: &libc::Elf64_Phdr| {
        let start = base.wrapping_add(header.p_vaddr as usize);
        start..start.wrapping_add(header.p_memsz as usize)
    };
    let of_type = |wanted: u32| headers.iter().filter(move |header| header.p_type == wanted);
    if !of_type(libc::PT_LOAD).any(|header| part(header).contains(&search.code)) {
        return 0;
    }
    let sealed = of_type(libc::PT_GNU_RELRO).map(part).next().unwrap_or(0..0);
    let sealed = sealed_pages(&sealed, page_bytes());
    if let Some(dynamic) = of_type(libc::PT_DYNAMIC).map(part).next() {
        // SAFETY: the linker has loaded this library by this very table, and changes it no more.
        let tables = unsafe { Tables::of(base, dynamic.start) };
        for name in search.names {
            // SAFETY: as above.
            let entries = unsafe { tables.entries(name) };
            search.found.extend(entries.map(|address| Entry {
                address,
                sealed: sealed.contains(&address),
            }));
        }
    }
    1
}

/// What a library's dynamic section says of the functions that it imports (ELF, "Dynamic Linking").
#[derive(Default)]
struct Tables {
    base: usize,
    symbols: usize,
    strings: usize,
    /// Start and length in bytes of the relocations of functions, and of all others.
    relocations: [(usize, usize); 2],
}

#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

#[repr(C)]
struct Relocation {
    offset: usize,
    info: u64,
    addend: i64,
}

impl Tables {
    /// # Safety
    ///
    /// `section` is the address of the dynamic section of a library that is loaded at `base`.
    unsafe fn of(base: usize, section: usize) -> Tables {
        const PLTRELSZ: i64 = 2;
        const STRTAB: i64 = 5;
        const SYMTAB: i64 = 6;
        const RELA: i64 = 7;
        const RELASZ: i64 = 8;
        const JMPREL: i64 = 23;
        let mut tables = Tables {
            base,
            ..Tables::default()
        };
        // glibc replaces what the file has by addresses, other C libraries leave them as they are.
        let address = |value: usize| if value < base { base + value } else { value };
        let mut at = section as *const Dynamic;
        loop {
            // SAFETY: the section ends with an entry whose tag is 0.
            let entry = unsafe { &*at };
            match entry.tag {
                0 => return tables,
                STRTAB => tables.strings = address(entry.value),
                SYMTAB => tables.symbols = address(entry.value),
                JMPREL => tables.relocations[0].0 = address(entry.value),
                PLTRELSZ => tables.relocations[0].1 = entry.value,
                RELA => tables.relocations[1].0 = address(entry.value),
                RELASZ => tables.relocations[1].1 = entry.value,
                _ => {}
            }
            // SAFETY: as above.
            at = unsafe { at.add(1) };
        }
    }

    /// The addresses of the entries that the linker fills with the address of the function `name`.
    ///
    /// # Safety
    ///
    /// The tables are those of a library that is loaded.
    unsafe fn entries(&self, name: &CStr) -> impl Iterator<Item = usize> {
        #[cfg(target_arch = "x86_64")]
        const FUNCTION: [u64; 2] = [6, 7]; // R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT
        #[cfg(target_arch = "aarch64")]
        const FUNCTION: [u64; 2] = [1025, 1026]; // R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT
        let (symbols, strings) = (self.symbols, self.strings);
        let relocations = self.relocations.into_iter().flat_map(|(start, length)| {
            if start == 0 {
                return [].iter();
            }
            // SAFETY: so says the library's dynamic section.
            unsafe {
                slice::from_raw_parts(start as *const Relocation, length / mem::size_of::<Relocation>())
            }
            .iter()
        });
        relocations
            .filter(move |relocation| {
                if !FUNCTION.contains(&(relocation.info & 0xffff_ffff)) {
                    return false;
                }
                let symbol = symbols as *const libc::Elf64_Sym;
                // SAFETY: the relocation has the number of a symbol in the library's table, and the symbol the place of its name.
                let of = unsafe {
                    let symbol = &*symbol.add((relocation.info >> 32) as usize);
                    CStr::from_ptr((strings as *const c_char).add(symbol.st_name as usize))
                };
                of == name
            })
            .map(|relocation| self.base + relocation.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_has_other_data_too_is_not_sealed() {
        assert_eq!(sealed_pages(&(0x1d30..0x3000), 0x1000), 0x1000..0x3000);
        assert_eq!(sealed_pages(&(0x1d30..0x3e00), 0x1000), 0x1000..0x3000);
        assert!(sealed_pages(&(0x1_ed30..0x1_f000), 0x1_0000).is_empty());
    }

    #[test]
    fn an_entry_that_has_changed_meanwhile_stays() {
        let memory = AtomicUsize::new(7);
        let entry = Entry {
            address: memory.as_ptr() as usize,
            sealed: false,
        };
        assert!(!entry.replace(3, 4));
        assert_eq!(entry.value(), 7);
        assert!(entry.replace(7, 8));
        assert_eq!(entry.value(), 8);
    }

    #[test]
    fn a_library_without_such_an_entry_has_none() {
        let code = imported as *const () as usize;
        assert!(imported(code, &[c"no_such_function"]).is_empty());
        assert!(imported(0, &[c"fopen"]).is_empty());
    }
}
