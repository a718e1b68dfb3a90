//! Linux's `membarrier`: one side of two that must see each other's stores makes all processors go through a fence, so
//! that the other side, which comes by far more often, needs none.

use std::sync::OnceLock;

/// Where the system took it away after it was offered, nothing can make another processor go through a fence. But no store waits in a
/// processor for longer than the stores before it take to reach their cache lines, which is microseconds, and a thread that is
/// taken off its processor leaves none behind. So after this time the other's store can be seen, if it looked too early at
/// what was stored here.
pub const WRITTEN_OUT: std::time::Duration = std::time::Duration::from_millis(10);

/// Registers when the library is loaded. In a process of one thread that takes some microseconds; once there are more, the system
/// waits until each processor has been through its scheduler, 30 to 40 ms of `MPI_Init` (seen with 6.18, two processors).
// SAFETY: the loader calls what stands in this section, in a process where nothing of Weft's has run yet. The function makes a
// system call and stores what it says; it needs nothing of the program's, and can't unwind.
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

/// Whether [`fence_all`] works in this process; tries it the first time, as a program may have confined itself since it was loaded.
/// What it says never changes.
pub fn is_offered() -> bool {
    static OFFERED: OnceLock<bool> = OnceLock::new();
    *OFFERED.get_or_init(|| is_registered() && membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED))
}

/// A fence for the caller and for all threads that run in this process and in others for which [`is_offered`] said yes. `false`: there
/// was none, for the program has confined itself since (a seccomp filter that it installs after `MPI_Init`).
#[must_use]
pub fn fence_all() -> bool {
    membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED)
}

/// A fence for the caller and for all threads that run in this process, and no other, where [`is_offered`] said yes. Where the
/// program has confined itself since, what the others have stored before is seen all the same: after a time.
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
