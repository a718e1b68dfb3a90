//! Waking a process that sleeps: its [`flag`](super::flag) `sleeping` is in its segment; a sender checks it after each
//! message, and only if it is set makes a system call, which writes one byte into the sleeper's pipe.
//!
//! The fence between a message and the check of the flag costs a sender about as much as the rest of the fast path,
//! because it waits until the message's cache line has come. So where the system supports it, the sleeper, which has
//! time, makes all senders' processors execute a fence instead (`membarrier`), and the senders only keep the compiler
//! from reordering.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};

use nix::fcntl::OFlag;
use nix::unistd::pipe2;

use super::flag::Flag;
use crate::system::membarrier;
use crate::system::shared_memory;

/// Which side executes the fences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fences {
    /// The sleeper, for all senders.
    BySleeper,
    /// Each sender, at each message.
    BySenders,
}

impl Fences {
    /// What the system offers to this process.
    pub fn offered() -> Fences {
        if membarrier::is_offered() {
            Fences::BySleeper
        } else {
            Fences::BySenders
        }
    }
}

/// The flag in a segment.
pub struct Shared<'a> {
    /// Where it is.
    pub word: &'a AtomicU32,
    /// For this sender, or this sleeper.
    pub fences: Fences,
}

impl Flag for Shared<'_> {
    #[inline(always)]
    fn is_set(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }

    fn set(&self, on: bool) {
        self.word.store(on.into(), Ordering::Relaxed);
    }

    fn take(&self) -> bool {
        self.word.swap(0, Ordering::Relaxed) != 0
    }

    #[inline(always)]
    fn fence_of_sender(&self) {
        match self.fences {
            Fences::BySleeper => compiler_fence(Ordering::SeqCst),
            Fences::BySenders => fence(Ordering::SeqCst),
        }
    }

    fn fence_of_sleeper(&self) {
        fence(Ordering::SeqCst);
        if self.fences == Fences::BySleeper {
            // Without it a sender may not see the flag in time. No sleep is so long that this would matter (`SLEEP_MAX`).
            let _ = membarrier::fence_all();
        }
    }
}

/// The owner's pipe.
pub struct Bell {
    read: File,
    write: File,
}

impl Bell {
    /// A new one.
    pub fn new() -> io::Result<Bell> {
        let (read, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        Ok(Bell {
            read: read.into(),
            write: write.into(),
        })
    }

    /// Becomes readable when it is rung.
    pub fn descriptor(&self) -> RawFd {
        self.read.as_raw_fd()
    }

    /// For the business card: the descriptor that others open, and the inode that identifies the pipe.
    pub fn names(&self) -> io::Result<(RawFd, u64)> {
        Ok((self.write.as_raw_fd(), self.write.metadata()?.ino()))
    }

    /// Empties the pipe after a ring.
    pub fn silence(&self) {
        // It does not block. More rings than that end the next sleep at once, which costs one more check.
        let _ = (&self.read).read(&mut [0; 64]);
    }
}

/// Another process's pipe.
pub struct BellPull {
    pipe: File,
}

impl BellPull {
    /// Opens it by what [`Bell::names`] returned in process `pid`.
    pub fn open(pid: u32, descriptor: u32, inode: u64) -> Result<BellPull, String> {
        // For reading as well: writing into a pipe without readers would be a signal.
        let pipe = shared_memory::open(pid, descriptor)
            .map_err(|error| format!("the pipe that wakes it can't be opened: {error}"))?;
        match pipe.metadata() {
            Ok(found) if found.ino() == inode => Ok(BellPull { pipe }),
            _ => Err("the pipe that wakes it is another one".into()),
        }
    }

    /// Wakes the owner. If the pipe is full, it has been woken.
    #[cold]
    pub fn ring(&self) {
        // It does not block.
        let _ = (&self.pipe).write(b"!");
    }
}
