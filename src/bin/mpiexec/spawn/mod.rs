//! Jobs that ranks of this one start (MPI 5.0, section 11.8). Each has a head of its own, a second `mpiexec` that the first one starts as
//! `mpiexec --spawned-job FD` in a process group of its own: placement, agents, binding, output and the watchdog are those of any job. Over a
//! socket it gets what to start ([`messages`]), and says what became of that.
//!
//! - [`connection`]: the socket, from either side
//! - [`keys`]: what the user's hints say
//! - [`lines`]: how programs of other MPIs ask
//! - [`start`]: how the new head comes from its first message to a running job
//! - [`adopt`]: the head of a process that was started without one
//!
//! The first head's side is in `head::spawn`.

pub mod adopt;
pub mod connection;
pub mod keys;
pub mod lines;
pub mod messages;
pub mod start;

use std::os::fd::{FromRawFd, OwnedFd};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

/// The hidden option that makes `mpiexec` the head of a spawned job; the number of a descriptor follows.
pub const OPTION: &str = "--spawned-job";

/// Takes over a descriptor that was left open for this process.
fn take_descriptor(word: Option<&str>) -> Option<OwnedFd> {
    let number: i32 = word?.parse().ok()?;
    if number <= libc::STDERR_FILENO {
        return None;
    }
    // SAFETY: nobody else in this process knows the descriptor: it has just begun, and opens its own later. If it is not open, the next
    // call fails.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    match fcntl(&descriptor, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)) {
        Ok(_) => Some(descriptor),
        Err(_) => {
            // There is nothing to close.
            std::mem::forget(descriptor);
            None
        }
    }
}
