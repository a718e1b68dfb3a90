//! Cross-memory attach: reading another process's memory by `process_vm_readv`, and writing it by `process_vm_writev`: one copy, made by
//! the kernel.
//!
//! Any process that may trace the other one may do this. Yama restricts that to ancestors unless the process allows it,
//! and seccomp profiles may forbid the call. So it is tried once for each peer, on the token in its segment.

use std::io;

use smallvec::SmallVec;

use crate::data::kind::MemoryKind;
use crate::data::pieces::{Cursor, Piece, total};
use crate::lane::Sample;

/// The longest read; the kernel shortens longer ones.
const PART: usize = 1 << 30;

/// Pieces of either side in one call; the kernel takes up to 1024.
pub const BATCH: usize = 128;

/// Lets the other processes of this user read this one's memory, where Yama would forbid it. Elsewhere it does nothing.
pub fn allow() {
    // SAFETY: the call takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

/// Whether this word of a process can be read, and is what it is to be.
pub fn works(sample: Sample) -> bool {
    let mut word = [0u8; 8];
    // SAFETY: `word` is ours.
    let read = unsafe { read_run(sample.pid, sample.address, Piece::of_mut(&mut word)) };
    read.is_ok() && u64::from_ne_bytes(word) == sample.value
}

/// Whether a read failed since the process is gone.
pub fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

/// The same, or since the process does not allow it any more.
pub fn is_refused(error: &io::Error) -> bool {
    is_gone(error) || error.raw_os_error() == Some(libc::EPERM)
}

/// A run of another process's memory.
pub fn remote(address: u64, len: usize) -> Piece {
    Piece {
        address: std::ptr::without_provenance_mut(address as usize),
        len,
        kind: MemoryKind::System,
    }
}

/// Pieces as the kernel takes them.
fn iovecs(pieces: &[Piece]) -> SmallVec<[libc::iovec; 4]> {
    pieces.iter().map(iovec).collect()
}

fn iovec(piece: &Piece) -> libc::iovec {
    let MemoryKind::System = piece.kind;
    libc::iovec {
        iov_base: piece.address.cast(),
        iov_len: piece.len,
    }
}

/// The one or the other system call: both take the same arguments.
type Attach = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

/// Reads what is there of `remote` into `local`, or writes what fits of `local` to `remote`; returns how many bytes, at least one.
///
/// # Safety
/// `local` is valid for that; what is written to `remote` spoils nothing there.
unsafe fn attach(call: Attach, pid: u32, local: &[libc::iovec], remote: &[libc::iovec]) -> io::Result<usize> {
    loop {
        // SAFETY: `local` is the caller's; the kernel checks `remote`, and both lists have the lengths given.
        let count = unsafe {
            call(
                pid as libc::pid_t,
                local.as_ptr(),
                local.len() as libc::c_ulong,
                remote.as_ptr(),
                remote.len() as libc::c_ulong,
                0,
            )
        };
        match usize::try_from(count) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => return Ok(count),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// Reads from one run of memory of process `pid` into another one as long.
///
/// # Safety
/// `into` is valid for writes. (`address` need not be valid: that is an error.)
pub unsafe fn read_run(pid: u32, address: u64, into: Piece) -> io::Result<()> {
    // SAFETY: the caller says that `into` is valid for writes.
    unsafe { copy_run(libc::process_vm_readv, pid, address, into) }
}

/// Writes one run of memory to another one as long, of process `pid`.
///
/// # Safety
/// `from` is valid for reads. Process `pid` expects what is written there. (`address` need not be valid: that is an error.)
pub unsafe fn write_run(pid: u32, address: u64, from: Piece) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe { copy_run(libc::process_vm_writev, pid, address, from) }
}

/// # Safety
/// As for [`read_run`] and [`write_run`].
unsafe fn copy_run(call: Attach, pid: u32, address: u64, own: Piece) -> io::Result<()> {
    let mut done = 0;
    while done < own.len {
        let len = (own.len - done).min(PART);
        let local = iovec(&own.part(done, len));
        let remote = iovec(&remote(address.wrapping_add(done as u64), len));
        // SAFETY: the caller's promise.
        done += unsafe { attach(call, pid, &[local], &[remote]) }?;
    }
    Ok(())
}

/// Reads all of `from`, memory of process `pid`, into the pieces `into` from `at` on, which have room for it, and advances `at`.
///
/// # Safety
/// `into` is valid for writes. (`from` need not be valid: that is an error.)
pub unsafe fn read(pid: u32, from: &[Piece], into: &[Piece], at: &mut Cursor) -> io::Result<()> {
    // SAFETY: the caller says that `into` is valid for writes.
    unsafe { copy(libc::process_vm_readv, pid, from, into, at) }
}

/// Writes to all of `to`, memory of process `pid`, from the pieces `from`, which have at least as much.
///
/// # Safety
/// `from` is valid for reads. Process `pid` expects what is written there. (`to` need not be valid: that is an error.)
pub unsafe fn write(pid: u32, to: &[Piece], from: &[Piece]) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe { copy(libc::process_vm_writev, pid, to, from, &mut Cursor::default()) }
}

/// Copies as many bytes as `theirs` has between that and `own`.
///
/// # Safety
/// As for [`read`] and [`write`].
unsafe fn copy(call: Attach, pid: u32, theirs: &[Piece], own: &[Piece], at: &mut Cursor) -> io::Result<()> {
    let mut left = total(theirs);
    let mut taken = Cursor::default();
    while left > 0 {
        let (mut local, mut remote) = ([Piece::EMPTY; BATCH], [Piece::EMPTY; BATCH]);
        let (remotes, bytes) = taken.next(theirs, left.min(PART), &mut remote);
        let (locals, bytes) = at.next(own, bytes, &mut local);
        if bytes == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (local, remote) = (iovecs(&local[..locals]), iovecs(&remote[..remotes]));
        // SAFETY: the caller's promise.
        let count = unsafe { attach(call, pid, &local, &remote) }?;
        at.advance(own, count);
        taken.advance(theirs, count);
        left -= count;
    }
    Ok(())
}
