//! The head of a singleton that spawns: an `mpiexec` that this process starts itself, and speaks PMI to as if that had started it
//! (`mpiexec --own-head FD`).
//!
//! It is no child of the process: a program may wait for its children, and would find one that it has not started.
//!
//! What does not belong here: what is asked of it (`pmi1`).

use std::ffi::{CString, OsStr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::unistd::pipe2;

use super::death::fork;
use super::pmi1::Pmi1;
use crate::base::error::{Error, Result};
use crate::err;

/// The option that makes `mpiexec` the head of the process that has started it; the number of a descriptor follows.
pub const OPTION: &str = "--own-head";
/// The setting with the path of `mpiexec`.
const SETTING: &str = "WEFT_MPIEXEC";
/// The descriptor that the new process has for PMI.
const PMI: RawFd = 3;
/// The one to which it writes why it can't be executed.
const REFUSAL: RawFd = 4;
/// Where the kernel can't close descriptors by ranges (before 5.9), those below this one are closed.
const DESCRIPTORS_MAX: RawFd = 4096;

/// The connection to it. It ends with the process, and lets spawned jobs go on until they end.
pub(super) struct OwnHead {
    /// The client of PMI, which uses `_socket`.
    pub pmi: Pmi1,
    _socket: OwnedFd,
}

impl OwnHead {
    /// Starts it, and connects to it.
    ///
    /// # Errors
    /// `MPI_ERR_SPAWN`: there is no `mpiexec`, or it can't be executed.
    pub fn start() -> Result<OwnHead> {
        let path = find()?;
        let failed = |why: String| {
            err!(
                Spawn,
                "'{}', which has to start the processes, can't be executed: {why}",
                path.display()
            )
        };
        let of_system = |errno: Errno| failed(errno.desc().into());
        let (ours, theirs) = UnixStream::pair().map_err(|error| failed(error.to_string()))?;
        let (ours, theirs) = (OwnedFd::from(ours), OwnedFd::from(theirs));
        execute(&path, theirs).map_err(of_system)?;
        let number = ours.as_raw_fd().to_string();
        let environment = |name: &str| match name {
            "PMI_FD" => Some(number.clone()),
            "PMI_RANK" => Some("0".into()),
            "PMI_SIZE" => Some("1".into()),
            _ => None,
        };
        let pmi = Pmi1::connect(environment).map_err(|error| failed(error.message.into_owned()))?;
        match pmi.is_foreign() {
            true => Err(failed("it is not Weft's".into())),
            false => Ok(OwnHead { pmi, _socket: ours }),
        }
    }
}

/// The `mpiexec` of this library.
fn find() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(SETTING).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let is_there =
        |path: &PathBuf| nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok() && path.is_file();
    let own = own_file();
    let folders = own
        .iter()
        .flat_map(|file| [file.parent(), file.parent().and_then(Path::parent)]);
    // Where it is installed, it is in `bin` beside `lib`; where it was built, beside the library or above the program.
    let beside = folders.clone().flatten().map(|folder| folder.join("bin/mpiexec"));
    let built = folders.flatten().map(|folder| folder.join("mpiexec"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let along = std::env::split_paths(&path).map(|folder| folder.join("mpiexec"));
    beside.chain(built).chain(along).find(is_there).ok_or_else(|| {
        err!(
            Spawn,
            "this process was started without mpiexec and finds none to start others with, neither beside Weft's library nor along PATH: set \
             {SETTING} to the path of Weft's"
        )
    })
}

/// The file with this code: the library, or a program that contains it.
fn own_file() -> Option<PathBuf> {
    let mut known = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked for, and `known` has room for the answer.
    let found = unsafe { libc::dladdr(own_file as *const libc::c_void, known.as_mut_ptr()) };
    if found == 0 {
        return None;
    }
    // SAFETY: all zeros are valid for it, and the call has filled it.
    let name = unsafe { known.assume_init() }.dli_fname;
    if name.is_null() {
        return None;
    }
    // SAFETY: the loader's name of a file that stays loaded, with a zero byte at its end.
    let name = unsafe { std::ffi::CStr::from_ptr(name) };
    std::fs::canonicalize(OsStr::from_bytes(name.to_bytes())).ok()
}

/// Executes it with the socket as [`PMI`], in a process that is nobody's child here.
fn execute(path: &Path, socket: OwnedFd) -> nix::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)?;
    let (name, option) = (c"mpiexec", CString::new(OPTION).map_err(|_| Errno::EINVAL)?);
    let number = CString::new(PMI.to_string()).map_err(|_| Errno::EINVAL)?;
    let arguments = [name.as_ptr(), option.as_ptr(), number.as_ptr(), std::ptr::null()];
    let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
    // Above those that they are moved to.
    let above = |fd: &OwnedFd| -> nix::Result<OwnedFd> {
        let moved = fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(REFUSAL + 1))?;
        // SAFETY: the call gave this descriptor to us.
        Ok(unsafe { OwnedFd::from_raw_fd(moved) })
    };
    let (theirs, refusal) = (above(&socket)?, above(&write)?);
    drop((socket, write));
    // The new process gets the mask that this thread has; until then no handler of the program runs there.
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    // SAFETY: the child runs `become_head` only. It has no exit signal: `wait` in the program does not find it.
    let child = unsafe { fork(0) };
    if child == 0 {
        // SAFETY: in the child, with what was made before the fork.
        unsafe { become_head(&path, &arguments, theirs.as_raw_fd(), refusal.as_raw_fd(), &mask) };
    }
    let forked = Errno::last();
    let _ = mask.thread_set_mask();
    drop((theirs, refusal));
    let Ok(child) = libc::pid_t::try_from(child)
        .map_err(drop)
        .and_then(|child| if child > 0 { Ok(child) } else { Err(()) })
    else {
        return Err(forked);
    };
    // It ends at once.
    // SAFETY: takes numbers, and a place for the status that may be none.
    while unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::__WALL) } < 0
        && Errno::last() == Errno::EINTR
    {}
    let mut errno = [0; 4];
    loop {
        match nix::unistd::read(&read, &mut errno) {
            Err(Errno::EINTR) => {}
            Ok(4) => return Err(Errno::from_raw(i32::from_ne_bytes(errno))),
            // Its end was closed by the execution.
            _ => return Ok(()),
        }
    }
}

/// In the child of a fork: forks again, so that the second one has no parent that is left, and executes `path` there.
///
/// # Safety
/// Only in such a child. `arguments` are texts with an end, and end with none; the descriptors are open.
unsafe fn become_head(
    path: &std::ffi::CStr,
    arguments: &[*const libc::c_char; 4],
    socket: RawFd,
    refusal: RawFd,
    mask: &SigSet,
) -> ! {
    // SAFETY: these are system calls, on numbers and on memory that was there before; the environment is read as it is in a copy of the
    // process, in which nobody changes it.
    unsafe {
        let child = fork(libc::SIGCHLD);
        if child > 0 {
            libc::_exit(0);
        }
        if child == 0 {
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
            if null >= 0 {
                libc::dup2(null, libc::STDIN_FILENO);
            }
            libc::dup2(socket, PMI);
            libc::dup3(refusal, REFUSAL, libc::O_CLOEXEC);
            let first = REFUSAL + 1;
            if libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) < 0 {
                for descriptor in first..DESCRIPTORS_MAX {
                    libc::close(descriptor);
                }
            }
            libc::sigprocmask(libc::SIG_SETMASK, mask.as_ref(), std::ptr::null_mut());
            libc::execve(path.as_ptr(), arguments.as_ptr(), libc::environ.cast());
            let errno = (*libc::__errno_location()).to_ne_bytes();
            libc::write(REFUSAL, errno.as_ptr().cast(), errno.len());
            libc::_exit(0);
        }
        let errno = (*libc::__errno_location()).to_ne_bytes();
        libc::write(refusal, errno.as_ptr().cast(), errno.len());
        libc::_exit(0);
    }
}

/// The head is gone, and with it the jobs that were spawned.
pub(super) fn gone() -> Error {
    err!(Spawn, "the mpiexec that this process has started is gone")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// A script in a folder.
    fn script(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mpiexec");
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        drop(file);
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, executable).unwrap();
        (folder, path)
    }

    #[test]
    fn it_is_executed_without_being_a_child() {
        let text = "#!/bin/sh\necho \"$* $PPID $(cat) $(test -e /proc/$$/fd/99 && echo leaked)\" >&3\n";
        let (_folder, path) = script(text);
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        // A descriptor of the program that other programs get.
        // SAFETY: takes numbers only; the descriptor stays open.
        assert_eq!(unsafe { libc::dup2(ours.as_raw_fd(), 99) }, 99);
        execute(&path, theirs.into()).unwrap();
        let mut text = String::new();
        ours.read_to_string(&mut text).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!((words.len(), &words[..2]), (3, &[OPTION, "3"][..]), "{text}");
        assert_ne!(words[2], std::process::id().to_string());
    }

    #[test]
    fn what_cant_be_executed_is_an_error() {
        let (_, socket) = UnixStream::pair().unwrap();
        assert_eq!(
            execute(Path::new("/no/such/mpiexec"), socket.into()),
            Err(Errno::ENOENT)
        );
        let (_folder, path) = script("#!/no/such/shell\n");
        let (_, socket) = UnixStream::pair().unwrap();
        assert_eq!(execute(&path, socket.into()), Err(Errno::ENOENT));
    }

    #[test]
    fn the_code_is_in_a_file() {
        let own = std::fs::canonicalize(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(own_file(), Some(own));
    }
}
