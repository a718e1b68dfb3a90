//! Linux's `membarrier`: of two sides that must see each other's stores, one makes all processors execute a fence, so
//! that the other side, which passes far more often, needs none.

use std::sync::OnceLock;

/// If the system has forbidden the call after it was offered, nothing can make another processor execute a fence. But a
/// store waits in a processor only until the stores before it have reached their cache lines, which takes microseconds,
/// and a thread that is taken off its processor leaves none waiting. So after this time the other's store can be seen, if
/// the other had read too early to see what was stored here.
pub const WRITTEN_OUT: std::time::Duration = std::time::Duration::from_millis(10);

/// Registers when the library is loaded. In a process with one thread that takes some microseconds; with more threads, the system
/// waits until each processor has been through its scheduler, 30 to 40 ms of `MPI_Init` (seen with 6.18, two processors).
// SAFETY: the loader calls the functions in this section, when no other code of Weft has run yet. The function makes a
// system call and stores its result; it needs nothing from the program, and can't unwind.
#[cfg(not(miri))]
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn register() {
        is_registered();
        is_registered_here();
    }
    register
};

fn is_registered() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| !cfg!(miri) && membarrier(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED))
}

fn is_registered_here() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| !cfg!(miri) && membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
}

/// Whether [`fence_all`] works in this process; tries it the first time, as a program may have forbidden it since it was loaded.
/// The result never changes.
pub fn is_offered() -> bool {
    static OFFERED: OnceLock<bool> = OnceLock::new();
    *OFFERED.get_or_init(|| is_registered() && membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED))
}

/// A fence for the caller and for all threads that run in this process and in others for which [`is_offered`] returned
/// `true`. `false`: there was none, because the program has forbidden the call since (by a seccomp filter that it
/// installs after `MPI_Init`).
#[must_use]
pub fn fence_all() -> bool {
    membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED)
}

/// A fence for the caller and for all threads that run in this process alone, where [`is_offered`] returned `true`. If
/// the program has forbidden the call since, stores that the others have made before become visible all the same, after a
/// time.
pub fn fence_here() {
    let here = is_registered_here() && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    if !here && !fence_all() {
        std::thread::sleep(WRITTEN_OUT);
    }
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes numbers only.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
