//! Slurm goes on without a rank that died, and Hydra over several hosts without one that exited, and the others would wait for ever.
//! So each rank has a *watch*: a child process that waits for the end of the rank, and sees to the end of the job if the rank was still
//! between initialization and finalization ([`Means`]). A thread would die with its process, and a signal handler sees no SIGKILL.
//!
//! The program does not see it: the child has no exit signal (no SIGCHLD, and `wait` does not find it), is not traced with the rank (a debugger
//! would take it for a thread, and end it with the rank), blocks all signals, has a name of its own, keeps no descriptors but standard
//! error and what it needs, and gives up the memory that it has inherited, so that nothing is copied when the rank writes to it,
//! and nothing stays that the rank frees. It does not share memory with the rank, because the kernel then also ends it where the
//! rank runs out of memory or dumps core.
//!
//! Without that memory it can make system calls, and nothing else: even `memset` may be a tool's own (AddressSanitizer), which needs its data. So
//! its code has no arrays of zeros and moves nothing large, which an unoptimized build would leave to such functions.

use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow};

use super::Job;
use super::death::{fork, pidfd_of_self};

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
/// How long a rank may take to end after it was told to, in seconds: Slurm's default before it kills.
const TOLD_S: libc::c_long = 30;
/// The signals by which a user, through the launcher, tells all processes of a job to end.
const TELLING: [libc::c_int; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

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
    /// The descriptors that the watch keeps, in order.
    kept: [u32; 3],
    /// The signals of [`TELLING`], as the kernel's set.
    telling: u64,
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
    /// Starts the watch of this process, if it is one of several. Where there can be none, that is said; once on each host, if the reason is
    /// the host's kernel.
    pub fn start_or_warn(job: &Job, step: &str, means: Means) -> Option<Watch> {
        if job.size == 1 {
            return None;
        }
        match Watch::start(step, job.rank, means) {
            Ok(watch) => return Some(watch),
            Err((_, Errno::ENOSYS)) if job.local_rank != 0 => {}
            Err((call, errno)) => eprintln!(
                "[weft] rank {}: a process that watches this rank can't be started: {call}: {}; if the rank dies, the others may wait for it \
                 for ever (not under srun -K)",
                job.rank,
                io::Error::from(errno)
            ),
        }
        None
    }

    /// Starts the watch of this process, which is `rank` of the job; under Slurm, of a step (`JOB.STEP`). An error: the system call that failed.
    fn start(step: &str, rank: u32, means: Means) -> Result<Watch, (&'static str, Errno)> {
        let failed = |call| (call, Errno::last());
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
        shared.telling = TELLING.iter().fold(0, |set, signal| set | 1_u64 << (signal - 1));
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
            // Some tools move code into such memory, for larger pages.
            watch as *const () as usize,
            libc::syscall as *const () as usize,
        ];
        shared.areas_count = fill(&mut shared.areas, unneeded(&maps, &used));
        let own = pidfd_of_self().ok_or_else(|| failed("pidfd_open"))?;
        let connection = match means {
            Means::Line(connection) => connection,
            Means::Step => own,
        };
        shared.kept = [libc::STDERR_FILENO, own, connection].map(|descriptor| descriptor as u32);
        shared.kept.sort_unstable();
        let shared: &'static Shared = shared;
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK);
        // SAFETY: the child runs `watch` only.
        let child = unsafe { fork(libc::CLONE_UNTRACED) };
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
        // Its offset, its device, its inode; other names in brackets are the kernel's. Memory of large pages has a file with a name.
        let inode = words.nth(2)?;
        let name = words.next().unwrap_or_default();
        let is_of_no_file = name == "/anon_hugepage"
            || inode == "0" && (name.is_empty() || name == "[heap]" || name.starts_with("[anon"));
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
        let mut next = 0;
        for at in 0..shared.kept.len() {
            let descriptor = shared.kept[at];
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
        // Without such a descriptor, `poll` passes over it.
        let signals = libc::syscall(
            libc::SYS_signalfd4,
            -1,
            &raw const shared.telling,
            size_of::<u64>(),
            libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
        ) as RawFd;
        if let Some(told) = wait_for_end(own, signals) {
            let stage = shared.stage.load(Ordering::Acquire);
            if stage != Stage::Outside as u8 {
                end_job(shared, means, stage == Stage::Again as u8, told, signals);
            }
        }
        libc::syscall(libc::SYS_exit_group, 0);
    }
    unreachable!("exit_group does not return")
}

/// Waits until the rank has ended. The result is whether it was told to, not long before, by a signal that has come to this process, too:
/// launchers send those to all processes of a job. `None`: the kernel does not let this process wait.
///
/// # Safety
/// As for [`watch`], with a descriptor of the rank and one of signals, if there is one.
unsafe fn wait_for_end(own: RawFd, signals: RawFd) -> Option<bool> {
    let mut told = false;
    loop {
        let of = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut waited = [of(own), of(signals)];
        let time = [TOLD_S, 0];
        let limit = if told { time.as_ptr() } else { ptr::null() };
        let no_mask = ptr::null::<u64>();
        // SAFETY: two valid entries, and a time that lives until the call returns.
        let ready = unsafe { libc::syscall(libc::SYS_ppoll, waited.as_mut_ptr(), 2, limit, no_mask, 0) };
        if ready < 0 && Errno::last_raw() != libc::EINTR {
            return None;
        }
        if ready > 0 && waited[0].revents != 0 {
            return Some(told);
        }
        // SAFETY: as for this function.
        told = unsafe { take_signal(signals) };
    }
}

/// Whether a signal has come; it counts once.
///
/// # Safety
/// As for [`watch`].
unsafe fn take_signal(signals: RawFd) -> bool {
    let mut signal = MaybeUninit::<libc::signalfd_siginfo>::uninit();
    // SAFETY: room for one signal; and a read of a bad descriptor fails.
    unsafe {
        libc::syscall(
            libc::SYS_read,
            signals,
            signal.as_mut_ptr(),
            size_of::<libc::signalfd_siginfo>(),
        ) > 0
    }
}

/// Asks for the end of the job. Where many ranks of a host die together, as by a signal to all, one watch does so for all. It does not stay
/// then: Slurm's step waits for the end of standard error, and some of its plug-ins don't find the watch to kill it.
///
/// That is no news to the user who has `told` the rank to end.
///
/// # Safety
/// As for [`watch`].
unsafe fn end_job(shared: &Shared, means: Means, again: bool, told: bool, signals: RawFd) {
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
        // The signal may come to this process a moment after the rank.
        if !take_signal(signals) && !told {
            libc::syscall(
                libc::SYS_write,
                libc::STDERR_FILENO,
                shared.line.as_ptr(),
                shared.line_bytes,
            );
        }
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

/// Runs `scancel` in the place of this process; returns if there is none. All signals stay blocked: those that are pending would run the
/// program's handlers in this process, or end it.
///
/// # Safety
/// As for [`watch`].
unsafe fn become_scancel(shared: &Shared) {
    // SAFETY: only system calls, with valid memory. Where there is no `scancel`, the path is empty.
    unsafe {
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
    // Seconds and nanoseconds.
    let time = [
        (ms / 1000) as libc::c_long,
        (ms % 1000 * 1_000_000) as libc::c_long,
    ];
    let (none, no_mask) = (ptr::null::<libc::pollfd>(), ptr::null::<u64>());
    // SAFETY: no descriptors, and a time that lives until the call returns.
    unsafe { libc::syscall(libc::SYS_ppoll, none, 0, time.as_ptr(), no_mask, 0) };
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use nix::fcntl::{FcntlArg, FdFlag};

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
58000000-58200000 rw-p 00000000 00:0f 99 /anon_hugepage (deleted)
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
                (0x5800_0000, 0x20_0000),
                (0x6000_0000, 0x20_0000)
            ]
        );
        let under_valgrind =
            format!("{maps}58000000-58400000 r-xp 0 08:01 9 /usr/libexec/valgrind/memcheck-amd64-linux\n");
        assert_eq!(unneeded(&under_valgrind, &[]), []);
    }

    const NAME: &str = "system::bootstrap::watch::tests::";
    const HOW: &str = "WEFT_TEST_WATCH_OF";

    /// Runs a test of this module again, as a rank (see [`rank`]) that ends in the way `how`: what it and its watch have sent to the
    /// launcher, and printed.
    fn ended(test: &str, how: &str, variable: (&str, &str)) -> (String, String) {
        let (mut launcher, connection) = UnixStream::pair().unwrap();
        nix::fcntl::fcntl(&connection, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        let mut again = Command::new(std::env::current_exe().unwrap());
        again
            .args(["--exact", "--nocapture", &format!("{NAME}{test}")])
            .env(HOW, format!("{how} {}", connection.as_raw_fd()))
            .env(variable.0, variable.1)
            .stdout(Stdio::null())
            .process_group(0);
        // Both end with the watch.
        let printed = again.output().unwrap().stderr;
        drop(connection);
        let mut sent = String::new();
        launcher.read_to_string(&mut sent).unwrap();
        (sent, String::from_utf8(printed).unwrap())
    }

    /// Does not return in a process that [`ended`] has started.
    fn rank() {
        let Ok(text) = std::env::var(HOW) else { return };
        let (how, connection) = text.rsplit_once(' ').unwrap();
        let step = format!("test-{}", std::process::id());
        let watch = Watch::start(&step, 5, Means::Line(connection.parse().unwrap())).unwrap();
        match how {
            "exits" => {}
            "is outside" => watch.set(Stage::Outside),
            // To the process group, in which its watch is.
            // SAFETY: takes numbers only.
            "is told" => drop(unsafe { libc::kill(0, libc::SIGTERM) }),
            _ => panic!("{how}"),
        }
        std::process::exit(0);
    }

    const ASKED: &str = "cmd=abort exitcode=1\n";

    #[test]
    fn the_job_of_a_rank_that_has_ended_is_ended_and_why_is_printed_unless_it_was_told_to_end() {
        rank();
        let of = |how| {
            ended(
                "the_job_of_a_rank_that_has_ended_is_ended_and_why_is_printed_unless_it_was_told_to_end",
                how,
                ("LD_PRELOAD", ""),
            )
        };
        let (sent, printed) = of("exits");
        assert_eq!(sent, ASKED);
        assert!(printed.starts_with("[weft] rank 5 on "), "{printed}");
        assert!(
            printed.ends_with(" has ended without MPI_Finalize; the job is ended\n"),
            "{printed}"
        );
        assert_eq!(of("is told"), (ASKED.into(), String::new()));
        assert_eq!(of("is outside"), (String::new(), String::new()));
    }

    /// It puts functions of its own, which need its data, in the place of the C library's.
    #[test]
    fn a_watch_works_under_address_sanitizer() {
        rank();
        let asked = Command::new("cc")
            .arg("-print-file-name=libasan.so")
            .output()
            .unwrap();
        let library = String::from_utf8(asked.stdout).unwrap();
        // Without a folder, the compiler has none.
        if library.contains('/') {
            let preloaded = ("LD_PRELOAD", library.trim());
            let (sent, printed) = ended("a_watch_works_under_address_sanitizer", "exits", preloaded);
            assert_eq!(sent, ASKED, "{printed}");
        }
    }
}
