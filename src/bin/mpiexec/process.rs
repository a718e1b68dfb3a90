//! Starts one rank.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl, open};
use nix::pty::openpty;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt};
use nix::sys::stat::Mode;
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpid, getppid, pipe2, setpgid};
use weft::tools::locality::pid_namespace;
use weft::tools::pmi1::{
    ENV_INITIAL_ERRHANDLER, ENV_JOB, ENV_MEMORY_ALLOC_KINDS, ENV_MPIEXEC, ENV_PARENT, ENV_PIDS,
    ENV_PROCESS_SETS, ENV_PROCESSORS,
};

use crate::cli::{App, Inherits};
use crate::program::Program;
use crate::wire::Input;

/// What a rank is started with.
pub struct Start<'a> {
    /// Its program's part of the command line.
    pub app: &'a App,
    /// The program.
    pub program: &'a Program,
    /// Its rank.
    pub rank: usize,
    /// Number of ranks.
    pub size: usize,
    /// Its number among the ranks of this machine.
    pub local_rank: usize,
    /// Their number.
    pub local_size: usize,
    /// The job's id.
    pub job: &'a str,
    /// The job's process sets, encoded, where there are any.
    pub process_sets: &'a Option<String>,
    /// Its `LD_LIBRARY_PATH`, where that is not the launcher's or the command line's.
    pub library_path: Option<&'a OsStr>,
    /// The processors to bind it to.
    pub cpus: Option<CpuSet>,
    /// Its standard input.
    pub input: Input,
    /// The launcher's standard output is a terminal: so is the rank's.
    pub at_terminal: bool,
    /// The signal mask and open-file limit that the launcher was started with.
    pub inherited: &'a Inherited,
}

/// What the launcher changes for itself, and ranks get unchanged; and facts about the launcher that all ranks get, found out once.
#[derive(Clone)]
pub struct Inherited {
    mask: SigSet,
    files: Option<(u64, u64)>,
    /// How many processors it may use. It is not bound itself, unless all of the job is bound from outside.
    processors: Option<usize>,
    /// Its pid namespace.
    pids: Option<u64>,
}

impl Inherited {
    /// The signal mask before.
    pub fn mask(&self) -> SigSet {
        self.mask
    }

    /// What a process that is forked calls before it executes: it gets back what was replaced. It makes system calls only.
    pub fn restore(&self) -> impl Fn() -> io::Result<()> + Send + Sync + 'static {
        let (mask, files) = (self.mask, self.files);
        move || {
            sigprocmask(SigmaskHow::SIG_SETMASK, Some(&mask), None)?;
            if let Some((soft, hard)) = files {
                setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
            }
            Ok(())
        }
    }

    /// Blocks `signals` for the launcher and lets it open as many files as it may; remembers the state before.
    pub fn replace(signals: &SigSet) -> nix::Result<Inherited> {
        let mut mask = SigSet::empty();
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(signals), Some(&mut mask))?;
        // Each rank takes three descriptors. Where the limit can't be raised, few ranks still work.
        let files = getrlimit(Resource::RLIMIT_NOFILE).ok();
        if let Some((_, hard)) = files {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
        }
        Ok(Inherited {
            mask,
            files,
            processors: std::thread::available_parallelism()
                .ok()
                .map(|number| number.get()),
            pids: pid_namespace().ok(),
        })
    }
}

/// A rank that was started, with the launcher's ends of its connections.
pub struct Started {
    /// The process, which leads a process group of its own.
    pub pid: Pid,
    /// PMI.
    pub pmi: OwnedFd,
    /// Standard output.
    pub stdout: OwnedFd,
    /// Standard error.
    pub stderr: OwnedFd,
    /// Standard input, if it is a pipe.
    pub stdin: Option<OwnedFd>,
}

impl Start<'_> {
    /// Starts the rank. Each end that is not the rank's is closed when it executes.
    pub fn spawn(&self) -> io::Result<Started> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (pmi, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, flags)?;
        // With this, each line comes with the process that sent it.
        setsockopt(&pmi, sockopt::PassCred, &true)?;
        fcntl(&pmi, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let (stdout, stdout_theirs) = match self.at_terminal {
            // A machine may have no more terminals.
            true => output_terminal().or_else(|_| output_pipe())?,
            false => output_pipe()?,
        };
        let (stderr, stderr_theirs) = output_pipe()?;
        let (stdin_theirs, stdin) = match self.input {
            Input::Null => (Stdio::null(), None),
            Input::Inherit => (Stdio::inherit(), None),
            Input::Pipe => {
                let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
                fcntl(&write, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
                (Stdio::from(read), Some(write))
            }
        };
        let mut command = Command::new(&self.program.path);
        command
            .arg0(&self.app.program)
            .args(&self.app.args)
            .current_dir(&self.program.wdir)
            .stdin(stdin_theirs)
            .stdout(stdout_theirs)
            .stderr(stderr_theirs);
        self.set_environment(&mut command, theirs.as_raw_fd());
        self.before_exec(&mut command, theirs.as_raw_fd());
        // The launcher reaps all of its children by itself.
        let child = command.spawn()?;
        Ok(Started {
            pid: Pid::from_raw(child.id() as i32),
            pmi,
            stdout,
            stderr,
            stdin,
        })
    }

    fn set_environment(&self, command: &mut Command, pmi: i32) {
        if let Inherits::Only(names) = &self.app.inherits {
            command.env_clear();
            let here = |name: &OsString| Some((name.clone(), std::env::var_os(name)?));
            command.envs(names.iter().filter_map(here));
        }
        let options = [
            (ENV_MEMORY_ALLOC_KINDS, &self.app.memory_alloc_kinds),
            (ENV_INITIAL_ERRHANDLER, &self.app.initial_errhandler),
            (ENV_PROCESS_SETS, self.process_sets),
        ];
        for (name, value) in options {
            match value {
                Some(value) => command.env(name, value),
                // A launcher that runs under another one does not pass on that one's settings.
                None => command.env_remove(name),
            };
        }
        // A launcher that a spawned job starts spawns nothing.
        command.env_remove(ENV_PARENT);
        for name in ["PMI_PORT", "PMI_ID", "PMI_SPAWNED", "PMI_HOSTNAME"] {
            command.env_remove(name);
        }
        // libfabric may load libraries of InfiniPath and Omni-Path, which would turn a rank's crash into an exit with
        // status 1 and leave trace files behind.
        for name in ["IPATH_NO_BACKTRACE", "HFI_NO_BACKTRACE"] {
            command.env(name, "1");
        }
        command.envs(self.app.env.iter().map(|(name, value)| (name, value)));
        // The streams of C are line-buffered (`src/system/output.rs`); these have buffers of their own.
        for name in ["PYTHONUNBUFFERED", "GFORTRAN_UNBUFFERED_PRECONNECTED"] {
            if self.app.environment(name).is_none() {
                command.env(name, "1");
            }
        }
        if let Some(folders) = self.library_path {
            command.env("LD_LIBRARY_PATH", folders);
        }
        let numbers = [
            ("PMI_FD", pmi as usize),
            ("PMI_RANK", self.rank),
            ("PMI_SIZE", self.size),
            ("MPI_LOCALRANKID", self.local_rank),
            ("MPI_LOCALNRANKS", self.local_size),
        ];
        command.envs(numbers.map(|(name, number)| (name, OsString::from(number.to_string()))));
        command.env(ENV_JOB, self.job);
        command.env(ENV_MPIEXEC, std::process::id().to_string());
        let told = [
            (
                ENV_PROCESSORS,
                self.inherited.processors.map(|number| number.to_string()),
            ),
            (ENV_PIDS, self.inherited.pids.map(|inode| inode.to_string())),
        ];
        for (name, value) in told {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }

    fn before_exec(&self, command: &mut Command, pmi: i32) {
        let (restore, cpus) = (self.inherited.restore(), self.cpus);
        let launcher = getpid();
        let prepare = move || {
            setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
            leave_terminal();
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The launcher may have died before that.
            if getppid() != launcher {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            restore()?;
            if let Some(cpus) = &cpus {
                // A processor can go away at any time; an unbound rank is better than none.
                let _ = sched_setaffinity(Pid::from_raw(0), cpus);
            }
            // SAFETY: the launcher's copy of this descriptor is open until `spawn` returns, so ours is open.
            let pmi = unsafe { std::os::fd::BorrowedFd::borrow_raw(pmi) };
            fcntl(pmi, FcntlArg::F_SETFD(FdFlag::empty()))?;
            Ok(())
        };
        // SAFETY: between fork and exec this makes system calls only: no allocation, no lock.
        unsafe { command.pre_exec(prepare) };
    }
}

/// Detaches from the terminal that the launcher was started from. A process that is not in its foreground process group
/// is stopped when it reads from it, and shells wait to come to the foreground; without a terminal they know that there
/// is none.
fn leave_terminal() {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    if let Ok(terminal) = open(c"/dev/tty", flags, Mode::empty()) {
        // SAFETY: an open descriptor; the call takes nothing else. Without effect it is as it was.
        unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCNOTTY) };
    }
}

/// A terminal: the first end, which does not block, reads the unchanged bytes that are written to the other.
fn output_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let window = {
        let mut window = libc::winsize {
            ws_row: 0,
            ws_col: 0,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: TIOCGWINSZ writes such a structure. Where it fails, zeros say that nobody knows.
        unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut window) };
        window
    };
    let ends = openpty(Some(&window), None)?;
    let mut settings = tcgetattr(&ends.slave)?;
    cfmakeraw(&mut settings);
    tcsetattr(&ends.slave, SetArg::TCSANOW, &settings)?;
    for end in [&ends.master, &ends.slave] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    fcntl(&ends.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((ends.master, ends.slave))
}

/// A pipe whose reading end, the first, does not block.
fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&read, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((read, write))
}
