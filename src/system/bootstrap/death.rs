//! How a launcher that has received `finalize` learns that this process does not end well.
//!
//! What does not belong here: a process that ends before (`watch`).

use std::os::fd::RawFd;

use nix::sys::signal::SigSet;

/// How long the child process lives at most, in milliseconds.
const WAIT_MS: i32 = 5000;

/// A descriptor that becomes readable when this process has ended.
pub(super) fn pidfd_of_self() -> Option<RawFd> {
    // SAFETY: takes numbers only.
    let own = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
    RawFd::try_from(own).ok().filter(|&own| own >= 0)
}

/// A plain fork (the parent's stack goes on) without the functions that were registered for forks. `flags` are those of `clone`: the signal that
/// tells the parent of the child's end, and whether the child is traced. The result is 0 in the child, and negative where there is none.
///
/// # Safety
/// The child makes system calls only: other threads may have held any lock.
pub(super) unsafe fn fork(flags: i32) -> i64 {
    // SAFETY: the flags share nothing, and the caller's promise.
    unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) }
}

/// Ends this process by SIGKILL: a launcher that has received `finalize` accepts any exit status as a good end, but not a
/// death by a signal. Hydra looks for dead ranks only when one of their streams ends or has data, and the streams of a
/// process are closed a moment before it can be waited for. So a child process keeps them open until then.
pub(super) fn die_of_a_signal() {
    // The child must not run the program's handlers: a launcher may send signals to the whole process group.
    let _ = SigSet::all().thread_block();
    if let Some(own) = pidfd_of_self() {
        // SAFETY: the child makes system calls only.
        let child = unsafe { fork(libc::SIGCHLD) };
        if child == 0 {
            let mut ended = libc::pollfd {
                fd: own,
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one valid entry; and nothing of this copy of the process is to be run.
            unsafe {
                libc::poll(&mut ended, 1, WAIT_MS);
                libc::_exit(0);
            }
        }
    }
    // SAFETY: takes numbers only.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}
