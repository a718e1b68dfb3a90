//! Slurm goes on without a rank that died, and Hydra over several hosts without one that exited, and the others would wait for ever.
//! So each rank has a *watch*: a child process that waits for the end of the rank, and sees to the end of the job if the rank was still
//! between initialization and finalization ([`Means`]). A thread would die with its process, and a signal handler sees no SIGKILL.
//!
//! The program does not see it: the child has no exit signal (no SIGCHLD, and `wait` does not find it), blocks all signals, has a name of
//! its own, keeps no descriptors but standard error and what it needs, and gives up the memory that it has inherited, so that nothing
//! is copied when the rank writes to it, and nothing stays that the rank frees. It does not share memory with the rank, because the kernel
//! then also ends it where the rank runs out of memory or dumps core.

use std::io;
use std::mem::{offset_of, zeroed};
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow};

use super::Job;
use super::death::{fork, pidfd_of_self};
use crate::base::error::Result;
use crate::err;

/// The name of the process.
const NAME: &[u8] = b"weft-watch\0";
/// The most areas of memory that are given up: those that are found first.
const AREAS_MAX: usize = 4096;
/// Room for what the watch prints: a host's name has 64 bytes at most.
const LINE_BYTES_MAX: usize = 160;
/// Room for the path of a program.
const PATH_BYTES_MAX: usize = 1024;
/// How long the launcher has to end the watch with a job that ends for another reason, in milliseconds.
const GRACE_MS: i64 = 300;
/// Where the kernel can't close descriptors by ranges (before 5.9), those below this one are closed.
const DESCRIPTORS_MAX: u32 = 4096;
/// What the launcher is asked for.
const ABORT: &[u8] = b"cmd=abort exitcode=1\n";
/// How long standard error is held open, in milliseconds: for what Slurm's step does meanwhile.
const HELD_MS: i64 = 3000;

/// How a watch sees to the end of the job.
#[derive(Clone, Copy)]
pub(super) enum Means {
    /// It asks by a line of PMI-1 on this connection, which it keeps open.
    Line(RawFd),
    /// It holds standard error open for a while. Slurm's plug-in for PMIx ends the job, but it is in the host's step, which ends with the
    /// host's last rank, and may do so before the plug-in has got that far.
    Step,
}

/// Where the rank is.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    /// Not between initialization and finalization, so that it may end.
    Outside,
    /// In between, as the launcher knows.
    Inside,
    /// In between for one more time, of which the launcher has not been told: the job is ended by `scancel`, if there is one.
    Again,
}

/// What rank and watch share.
struct Shared {
    /// A [`Stage`].
    stage: AtomicU8,
    /// Areas of memory that the watch gives up, by address and length, and how many.
    areas: [(usize, usize); AREAS_MAX],
    areas_count: usize,
    /// What it prints if the rank dies, and how long that is.
    line: [u8; LINE_BYTES_MAX],
    line_bytes: usize,
    /// The name, the same on this host for all ranks of the job, that the first of several watches takes.
    socket: libc::sockaddr_un,
    socket_bytes: usize,
    /// The path of `scancel`, the step, and a variable of the environment, each with a zero byte at the end.
    scancel: [u8; PATH_BYTES_MAX],
    step: [u8; PATH_BYTES_MAX],
    variable: [u8; PATH_BYTES_MAX],
    /// Pointers to these: arguments and environment, each with a zero at the end. No path: there is no `scancel`.
    arguments: [usize; 3],
    variables: [usize; 2],
}

/// The watch of this process. It lives as long as the process.
pub(super) struct Watch(&'static Shared);

impl Watch {
    /// Starts the watch of this process, if it is one of several. Where there can be none, that is said once on each host.
    pub fn start_or_warn(job: &Job, step: &str, means: Means) -> Option<Watch> {
        if job.size == 1 {
            return None;
        }
        match Watch::start(step, job.rank, means) {
            Ok(watch) => return Some(watch),
            Err(error) if job.local_rank == 0 => eprintln!(
                "[weft] rank {}: {error}; if a rank dies, the others may wait for it for ever (not under srun -K)",
                job.rank
            ),
            Err(_) => {}
        }
        None
    }

    /// Starts the watch of this process, which is `rank` of the job; under Slurm, of a step (`JOB.STEP`).
    fn start(step: &str, rank: u32, means: Means) -> Result<Watch> {
        let failed = |what: &str| {
            let error = io::Error::last_os_error();
            err!(
                Other,
                "a process that watches this rank can't be started: {what}: {error}"
            )
        };
        // SAFETY: a new mapping, anywhere.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<Shared>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(failed("mmap"));
        }
        // SAFETY: it is large enough, aligned to a page, never unmapped, not used by another, and zeros are a valid value.
        let shared = unsafe { &mut *memory.cast::<Shared>() };
        shared.stage.store(Stage::Inside as u8, Ordering::Relaxed);
        let host = nix::unistd::gethostname().unwrap_or_default();
        let line = format!(
            "[weft] rank {rank} on {} has ended without MPI_Finalize; the job is ended\n",
            host.to_string_lossy()
        );
        shared.line_bytes = fill(&mut shared.line, line.bytes());
        // Without a file: the name begins with a zero byte.
        shared.socket.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let name = format!("\0weft-watch-{step}");
        let name_bytes = fill(
            &mut shared.socket.sun_path,
            name.bytes().map(|byte| byte as libc::c_char),
        );
        shared.socket_bytes = offset_of!(libc::sockaddr_un, sun_path) + name_bytes;
        shared.prepare_scancel(step);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let used = [
            memory as usize,
            // This stack, and this thread's errno, which `syscall` sets.
            ptr::from_ref(&line) as usize,
            // SAFETY: it is always there.
            unsafe { libc::__errno_location() } as usize,
        ];
        shared.areas_count = fill(&mut shared.areas, unneeded(&maps, &used));
        let shared: &'static Shared = shared;
        let own = pidfd_of_self().ok_or_else(|| failed("pidfd_open"))?;
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK);
        // SAFETY: the child runs `watch` only.
        let child = unsafe { fork(0) };
        if child == 0 {
            // SAFETY: in the child, with descriptors that were open before; `shared` lists memory that neither this stack nor `syscall` needs.
            unsafe { watch(shared, own, means) };
        }
        let failed = (child < 0).then(|| failed("clone"));
        if let Ok(before) = before {
            let _ = before.thread_set_mask();
        }
        // SAFETY: opened above; the child has its own.
        unsafe { libc::close(own) };
        failed.map_or(Ok(Watch(shared)), Err)
    }

    /// The rank has come so far.
    pub fn set(&self, stage: Stage) {
        self.0.stage.store(stage as u8, Ordering::Release);
    }
}

impl Shared {
    /// Finds `scancel`, which a copy of a process with threads can start, but not look for.
    fn prepare_scancel(&mut self, step: &str) {
        let is_number = |text: &str| text.parse::<u32>().is_ok();
        if !step
            .split_once('.')
            .is_some_and(|(job, step)| is_number(job) && is_number(step))
        {
            return;
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let found = path
            .split(':')
            .map(|folder| format!("{folder}/scancel"))
            .find(|path| std::path::Path::new(path).is_file());
        let (Some(program), conf) = (found, std::env::var("SLURM_CONF")) else {
            return;
        };
        // Where there is no room for the whole, there is no zero byte at the end either.
        let fits = |text: &String| text.len() < PATH_BYTES_MAX;
        if !fits(&program) {
            return;
        }
        fill(&mut self.scancel, program.bytes());
        fill(&mut self.step, step.bytes());
        self.arguments[0] = self.scancel.as_ptr() as usize;
        self.arguments[1] = self.step.as_ptr() as usize;
        if let Some(variable) = conf.ok().map(|conf| format!("SLURM_CONF={conf}")).filter(fits) {
            fill(&mut self.variable, variable.bytes());
            self.variables[0] = self.variable.as_ptr() as usize;
        }
    }
}

/// Copies what there is room for; the result is how many.
fn fill<T>(room: &mut [T], from: impl IntoIterator<Item = T>) -> usize {
    room.iter_mut().zip(from).map(|(to, from)| *to = from).count()
}

/// The memory that a process which only makes system calls does not need, by address and length, from `/proc/PID/maps`: private memory of no
/// file, and shared memory, without the areas in which one of the addresses is. What belongs to programs and libraries stays.
fn unneeded(maps: &str, used: &[usize]) -> Vec<(usize, usize)> {
    // Its own memory, which runs the watch, too, is among the program's.
    if maps.contains("/valgrind/") {
        return Vec::new();
    }
    let area = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let from = usize::from_str_radix(from, 16).ok()?;
        let to = usize::from_str_radix(to, 16).ok()?;
        let is_shared = words.next()?.ends_with('s');
        // Its offset, its device, its inode; other names in brackets are the kernel's.
        let inode = words.nth(2)?;
        let is_of_no_file = inode == "0"
            && words
                .next()
                .is_none_or(|name| name == "[heap]" || name.starts_with("[anon"));
        let is_used = used.iter().any(|address| (from..to).contains(address));
        let bytes = to.checked_sub(from).filter(|&bytes| bytes > 0)?;
        ((is_shared || is_of_no_file) && !is_used).then_some((from, bytes))
    };
    maps.lines().filter_map(area).collect()
}

/// The child's life.
///
/// # Safety
/// In a child that shares nothing but `shared`, with these descriptors open; the areas in `shared` are not needed for system calls on this stack.
unsafe fn watch(shared: &Shared, own: RawFd, means: Means) -> ! {
    // SAFETY: here and below, only system calls, with numbers or valid memory. Nothing of this copy of the program is to be run, so nobody uses
    // the descriptors that are closed and the memory that is unmapped.
    unsafe {
        let connection = match means {
            Means::Line(connection) => connection,
            Means::Step => own,
        };
        let mut kept = [libc::STDERR_FILENO, own, connection].map(|descriptor| descriptor as u32);
        kept.sort_unstable();
        let mut next = 0;
        for descriptor in kept {
            if next < descriptor {
                close_range(next, descriptor - 1);
            }
            next = descriptor + 1;
        }
        close_range(next, u32::MAX);
        for &(address, bytes) in shared.areas.iter().take(shared.areas_count) {
            libc::syscall(libc::SYS_munmap, address, bytes);
        }
        libc::syscall(libc::SYS_prctl, libc::PR_SET_NAME, NAME.as_ptr(), 0, 0, 0);
        let mut ended: libc::pollfd = zeroed();
        (ended.fd, ended.events) = (own, libc::POLLIN);
        while libc::syscall(libc::SYS_ppoll, &raw mut ended, 1, 0, 0, 0) < 1 {}
        let stage = shared.stage.load(Ordering::Acquire);
        if stage != Stage::Outside as u8 {
            end_job(shared, means, stage == Stage::Again as u8);
        }
        libc::syscall(libc::SYS_exit_group, 0);
    }
    unreachable!("exit_group does not return")
}

/// Asks for the end of the job. Where many ranks of a host die together, as by a signal to all, one watch does so for all. It does not stay
/// then: Slurm's step waits for the end of standard error, and some of its plug-ins don't find the watch to kill it.
///
/// # Safety
/// As for [`watch`].
unsafe fn end_job(shared: &Shared, means: Means, again: bool) {
    // SAFETY: only system calls, with numbers or valid memory.
    unsafe {
        let socket = libc::syscall(
            libc::SYS_socket,
            libc::AF_UNIX,
            libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
            0,
        );
        let bound = libc::syscall(
            libc::SYS_bind,
            socket,
            &raw const shared.socket,
            shared.socket_bytes,
        );
        if bound != 0 && Errno::last_raw() == libc::EADDRINUSE {
            return;
        }
        sleep(GRACE_MS);
        libc::syscall(
            libc::SYS_write,
            libc::STDERR_FILENO,
            shared.line.as_ptr(),
            shared.line_bytes,
        );
        match means {
            Means::Line(connection) => {
                let nobody = ptr::null::<libc::sockaddr>();
                let sent = libc::syscall(
                    libc::SYS_sendto,
                    connection,
                    ABORT.as_ptr(),
                    ABORT.len(),
                    libc::MSG_NOSIGNAL,
                    nobody,
                    0,
                );
                // Slurm's step on this host is gone, and the rank has noticed that.
                if sent < 0 {
                    become_scancel(shared);
                }
            }
            Means::Step if !again => sleep(HELD_MS),
            Means::Step => become_scancel(shared),
        }
    }
}

/// Runs `scancel` in the place of this process; returns if there is none.
///
/// # Safety
/// As for [`watch`].
unsafe fn become_scancel(shared: &Shared) {
    // It may be pending, as nobody may read standard error any more.
    let blocked = 1_u64 << (libc::SIGPIPE - 1);
    // SAFETY: only system calls, with valid memory. Where there is no `scancel`, the path is empty.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const blocked,
            0,
            size_of_val(&blocked),
        );
        libc::syscall(
            libc::SYS_execve,
            shared.scancel.as_ptr(),
            shared.arguments.as_ptr(),
            shared.variables.as_ptr(),
        );
    }
}

/// Closes the descriptors from one to another.
///
/// # Safety
/// Nobody uses them.
unsafe fn close_range(from: u32, to: u32) {
    // SAFETY: takes numbers only; the caller's promise.
    unsafe {
        if libc::syscall(libc::SYS_close_range, from, to, 0) != 0 {
            for descriptor in from..=to.min(DESCRIPTORS_MAX) {
                libc::syscall(libc::SYS_close, descriptor);
            }
        }
    }
}

/// By a system call alone. All signals are blocked, so nothing ends it early.
fn sleep(ms: i64) {
    // SAFETY: zeros are a valid value.
    let mut time: libc::timespec = unsafe { zeroed() };
    time.tv_sec = (ms / 1000) as libc::time_t;
    time.tv_nsec = (ms % 1000 * 1_000_000) as libc::c_long;
    let none = ptr::null::<libc::pollfd>();
    // SAFETY: no descriptors, and a time that lives until the call returns.
    unsafe { libc::syscall(libc::SYS_ppoll, none, 0, &raw const time, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_up_but_for_what_the_watch_needs() {
        let maps = "\
00400000-00800000 rw-p 00000000 08:01 123 /bin/program
10000000-10200000 rw-p 00000000 00:00 0 [heap]
20000000-20001000 rw-p 00000000 00:00 0
30000000-30200000 rw-s 00000000 00:01 77 /dev/shm/a b
40000000-40200000 rw-p 00000000 00:00 0
50000000-50200000 rw-s 00000000 00:01 78 /dev/zero (deleted)
60000000-60200000 ---p 00000000 00:00 0 [anon:pool]
7ff00000-7ff00000 rw-p
7ff00000-7ff00000 rw-p 00000000 00:00 0
garbage
zz-yy rw-p 0 0 0
7fff0000-80000000 rw-p 00000000 00:00 0 [stack]
80000000-80001000 r-xp 00000000 00:00 0 [vdso]
ffffffff-00000000 rw-p 00000000 00:00 0
";
        assert_eq!(
            unneeded(maps, &[0x4010_0000, 0x5000_0000]),
            [
                (0x1000_0000, 0x20_0000),
                (0x2000_0000, 0x1000),
                (0x3000_0000, 0x20_0000),
                (0x6000_0000, 0x20_0000)
            ]
        );
        let under_valgrind =
            format!("{maps}58000000-58400000 r-xp 0 08:01 9 /usr/libexec/valgrind/memcheck-amd64-linux\n");
        assert_eq!(unneeded(&under_valgrind, &[]), []);
    }
}
