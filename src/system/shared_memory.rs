//! Memory that several processes of one machine map: files without a name, which another process opens through
//! `/proc/PID/fd/N`, and which disappear with the last process that has them open or mapped, however that ends.
//!
//! A file is sealed against shrinking. A process that [`allocate`]s a part of it before it touches it gets an error with
//! a reason if memory is missing, never a SIGBUS.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::system::locality::{PID_NAMESPACE, pid_namespace};
pub use finding::Finding;

mod finding;

/// The machine and namespace of a process: two processes can share memory only if both are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// This boot of the machine, from `/proc/sys/kernel/random/boot_id`.
    pub boot: u128,
    /// The namespace of process ids.
    pub pids: u64,
}

impl Machine {
    /// That of this process. The error says what is missing.
    pub fn here() -> Result<Machine, String> {
        let path = "/proc/sys/kernel/random/boot_id";
        let text = fs::read_to_string(path).map_err(|error| format!("{path} can't be read: {error}"))?;
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        let boot = u128::from_str_radix(&digits, 16).map_err(|_| format!("{path} holds no id"))?;
        let pids = pid_namespace().map_err(|error| format!("{PID_NAMESPACE} can't be read: {error}"))?;
        // A process in a new namespace may still see the old one's /proc, in which it has another number.
        let own =
            fs::read_link("/proc/self").map_err(|error| format!("/proc/self can't be read: {error}"))?;
        if own.to_str().and_then(|text| text.parse().ok()) != Some(std::process::id()) {
            return Err("/proc is that of another pid namespace".into());
        }
        Ok(Machine { boot, pids })
    }

    /// The boot's id as a number of 64 bits.
    pub fn folded_boot(&self) -> u64 {
        (self.boot ^ self.boot >> 64) as u64
    }

    /// A number of 31 bits, by which few different ones are confused.
    pub fn short(&self) -> u32 {
        let folded = self.folded_boot() ^ self.pids;
        (folded ^ folded >> 32) as u32 >> 1
    }
}

/// How long a file of this process may be (`ulimit -f`): a longer one would end it by a signal.
pub fn longest() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the call fills the place that it is given; if it fails, there is no limit.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur
}

/// A new file of this many bytes, none of which is allocated, for this user alone.
pub fn file(len: u64) -> io::Result<File> {
    let file = memfd()?;
    file.set_permissions(PermissionsExt::from_mode(0o600))?;
    file.set_len(len)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: a descriptor of ours and a number.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

fn memfd() -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // Kernels before 6.3 don't know MFD_NOEXEC_SEAL, later ones may require it.
    for flags in [flags | libc::MFD_NOEXEC_SEAL, flags] {
        // SAFETY: a name that ends with zero.
        let descriptor = unsafe { libc::memfd_create(c"weft".as_ptr(), flags) };
        if descriptor >= 0 {
            // SAFETY: the descriptor is new, and nobody else's.
            return Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }.into());
        }
    }
    Err(io::Error::last_os_error())
}

/// Opens what another process has as a descriptor.
pub fn open(pid: u32, descriptor: u32) -> io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(format!("/proc/{pid}/fd/{descriptor}"))
}

/// Whether a file that was opened can be one of [`file`], of this many bytes.
pub fn is_one(file: &File, len: u64) -> io::Result<bool> {
    // SAFETY: a descriptor of ours.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    Ok(seals >= 0 && seals & libc::F_SEAL_SHRINK != 0 && file.metadata()?.size() == len)
}

/// Makes sure that the pages of a part of the file exist: it returns an error now, which would be a SIGBUS later.
pub fn allocate(file: &File, offset: usize, len: usize) -> io::Result<()> {
    loop {
        // SAFETY: a descriptor of ours and numbers.
        let done = unsafe { libc::fallocate(file.as_raw_fd(), 0, offset as libc::off_t, len as libc::off_t) };
        if done == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Gives the pages of a part of the file back to the system: it is zero from then on.
pub fn give_back(file: &File, offset: usize, len: usize) -> io::Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    loop {
        // SAFETY: a descriptor of ours and numbers.
        let done =
            unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as libc::off_t, len as libc::off_t) };
        if done == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// A shared mapping of a part of a file.
#[derive(Debug)]
pub struct Map {
    base: NonNull<u8>,
    len: usize,
    /// See [`Map::leave`].
    left: AtomicBool,
}

// SAFETY: the memory is shared between processes, and so also between threads; all accesses follow
// rules of their own.
unsafe impl Send for Map {}
// SAFETY: as for `Send`.
unsafe impl Sync for Map {}

impl Map {
    /// Maps `len` bytes, more than none, from an offset on that is a multiple of a page.
    pub fn new(file: &File, offset: usize, len: usize) -> io::Result<Map> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let offset = offset as libc::off_t;
        // SAFETY: a new mapping at an address of the system's choice touches nothing that exists.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("a mapping at address 0"))?;
        Ok(Map {
            base,
            len,
            left: AtomicBool::new(false),
        })
    }

    /// Where it begins.
    #[inline(always)]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Whether `bytes` from an offset on, which may be any number, are within the mapping.
    #[inline]
    pub fn has(&self, at: usize, bytes: usize) -> bool {
        at.checked_add(bytes).is_some_and(|end| end <= self.len)
    }

    /// The four bytes at an offset that is a multiple of four.
    ///
    /// # Panics
    /// If it is not, or they are not within the mapping.
    #[inline]
    pub fn u32(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && self.has(at, 4), "within the mapping");
        // SAFETY: aligned (pages are, and `at` is), within the mapping, which lives as long as `self`, and accessed as an
        // atomic by all.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// The eight bytes at an offset that is a multiple of eight.
    ///
    /// # Panics
    /// If it is not, or they are not within the mapping.
    #[inline]
    pub fn u64(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && self.has(at, 8), "within the mapping");
        // SAFETY: as in `u32`.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// Makes sure that the pages of a part of the mapping exist, as [`allocate`] does where the file is open: near this process. An error
    /// too where the system can't do that (before Linux 5.14).
    pub fn populate(&self, at: usize, len: usize) -> io::Result<()> {
        assert!(self.has(at, len), "within the mapping");
        // SAFETY: within the mapping, as just checked, whose contents stay as they are.
        let done = unsafe {
            let at = self.base.as_ptr().add(at).cast();
            libc::madvise(at, len, libc::MADV_POPULATE_WRITE)
        };
        match done {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Keeps the mapping for the rest of the process's life.
    pub fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if !*self.left.get_mut() {
            // SAFETY: the mapping is this value's own, and the owners of pointers into it hold a reference to it.
            unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_are_the_same_memory() {
        let mine = file(8192).expect("a file");
        allocate(&mine, 0, 8192).expect("memory");
        let theirs = open(std::process::id(), mine.as_raw_fd() as u32).expect("its own descriptor");
        assert!(is_one(&theirs, 8192).unwrap() && !is_one(&theirs, 4096).unwrap());
        let (one, other) = (
            Map::new(&mine, 0, 8192).expect("a mapping"),
            Map::new(&theirs, 4096, 4096).expect("a mapping"),
        );
        drop((mine, theirs));
        assert_ne!(one.base(), other.base());
        one.u64(4096 + 8).store(77, Ordering::Relaxed);
        assert_eq!(other.u64(8).load(Ordering::Relaxed), 77);
        other.u32(4092).store(5, Ordering::Relaxed);
        assert_eq!(one.u32(8188).load(Ordering::Relaxed), 5);
    }

    /// An offset whose end is no number is not taken for a small one.
    #[test]
    fn what_is_outside_a_mapping_is_not_given_out() {
        let file = file(4096).expect("a file");
        let map = Map::new(&file, 0, 4096).expect("a mapping");
        for at in [4096, 4094, usize::MAX - 3, usize::MAX - 7] {
            let within = |look: &dyn Fn()| {
                let panic =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(look)).expect_err("outside");
                *panic.downcast::<&str>().expect("this assertion's words")
            };
            assert_eq!(within(&|| _ = map.u32(at)), "within the mapping", "{at}");
            assert_eq!(within(&|| _ = map.u64(at)), "within the mapping", "{at}");
        }
    }

    #[test]
    fn other_files_are_not_taken_for_one() {
        let plain = tempfile::tempfile().expect("a file");
        plain.set_len(4096).unwrap();
        assert!(!is_one(&plain, 4096).unwrap());
    }

    #[test]
    fn this_machine_is_the_same_twice() {
        assert_eq!(Machine::here().expect("a machine"), Machine::here().unwrap());
    }
}
