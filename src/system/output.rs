//! Makes sure that what a process has written arrives, even if it hangs, dies, or the job ends.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// How long output that is still in C's buffers, or in a pipe, has to be written or read when the process aborts.
pub const TIME: Duration = Duration::from_secs(2);

unsafe extern "C" {
    /// C's stream; a pointer that the C library sets before any program's code runs.
    static stdout: *mut libc::FILE;
}

/// Runs when the library is loaded.
// SAFETY: the section holds addresses of functions, which the loader calls once each; this one takes no arguments.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = write_line_by_line;

/// Where a launcher reads what a rank writes through a pipe, C would keep back some KiB of it, which are lost if the rank
/// is killed. So each line is written at once, as at a terminal. To a file, whole blocks are written as usual.
extern "C" fn write_line_by_line() {
    let started = |name: &std::ffi::CStr| {
        // SAFETY: a string of ours; nothing changes the environment while libraries are loaded.
        unsafe { !libc::getenv(name.as_ptr()).is_null() }
    };
    let is_taken = |stream: i32| {
        // SAFETY: all zeros are such a structure, and `fstat` fills it in.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let known = unsafe { libc::fstat(stream, &raw mut stat) } == 0;
        known && matches!(stat.st_mode & libc::S_IFMT, libc::S_IFIFO | libc::S_IFSOCK)
    };
    if (started(c"PMI_RANK") || started(c"PMIX_RANK")) && is_taken(libc::STDOUT_FILENO) {
        // SAFETY: an open stream; without a buffer of ours, only the mode changes.
        unsafe { libc::setvbuf(stdout, std::ptr::null_mut(), libc::_IOLBF, 0) };
    }
}

/// Writes out C's buffers, so that output already written arrives. Another thread may hold a stream forever (it waits for
/// input), and a pipe may have no reader, so there is a time limit.
pub fn flush() {
    // SAFETY: flushes all of C's streams, each under its own lock.
    let flush = || unsafe { libc::fflush(std::ptr::null_mut()) };
    let (done, flushed) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().spawn(move || done.send(flush()));
    match thread {
        // Without an answer the output is lost.
        Ok(_) => drop(flushed.recv_timeout(TIME)),
        Err(_) => drop(flush()),
    }
}

/// Waits until what was written to a pipe has been read, or until `end`. A launcher that is asked to end the job may lose output that it has not
/// read by then (Hydra sometimes does).
pub fn wait_for_reader(pipe: &impl AsFd, end: Instant) {
    let is_pipe = nix::sys::stat::fstat(pipe).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFIFO);
    let unread = || {
        let mut bytes: c_int = 0;
        // SAFETY: an open descriptor; FIONREAD writes an int.
        let asked = unsafe { libc::ioctl(pipe.as_fd().as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
        asked == 0 && bytes > 0
    };
    // Nothing wakes a writer when its pipe is empty.
    while is_pipe && unread() && Instant::now() < end {
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_pipe_is_waited_for_until_it_has_been_read() {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let far = Instant::now() + Duration::from_secs(1000);
        // There is nothing to be read.
        wait_for_reader(&writer, far);
        writer.write_all(b"why").unwrap();
        // No process reads it.
        wait_for_reader(&writer, Instant::now());
        let has_read = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // As long as it takes until the other waits: whenever that is, it comes back after this.
                std::thread::yield_now();
                has_read.store(true, Ordering::SeqCst);
                reader.read_exact(&mut [0; 3]).unwrap();
            });
            wait_for_reader(&writer, far);
            assert!(has_read.load(Ordering::SeqCst), "it is still unread");
        });
        // A file that is not a pipe accepts whatever is written.
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"why").unwrap();
        wait_for_reader(&file, far);
    }
}
