//! The client of PMI-1, over the descriptor that the launcher left in `PMI_FD`. `docs/launcher.md` describes the lines.
//!
//! Weft's `mpiexec` identifies itself in its answer to `init` (`weft=1`), and then one round trip brings all information
//! about the job; a `get` with `wait=1` is answered when its key has been put, and any number of them may be under way,
//! because the answers contain their key; a request with `quiet=1` has no answer. Other launchers (Hydra of MPICH and
//! Intel MPI, Slurm) answer each line in order and at once, return keys only after a barrier, and close the connection
//! after `finalize` ([`AfterFinalize`]).
//!
//! - `cards`: business cards as values of keys, in parts
//! - [`wire`]: the lines, which `mpiexec` reads and writes too
//! - `foreign`: what launchers other than Weft's are asked at the start; `foreign_spawn`: how they start further jobs
//! - `machines`: where the ranks are, if the launcher's mapping can't be read
//! - `spawn`, `names`, `links`: further jobs, services, and jobs that this one is connected with; [`words`]: lists in such lines
//!
//! What does not belong here: the launcher's side (`bin/mpiexec`), a process without a launcher (`singleton`), and how process sets are
//! written (`process_sets`).

mod cards;
mod foreign;
mod foreign_spawn;
mod links;
mod machines;
pub mod names;
mod spawn;
#[cfg(test)]
mod tests;
pub mod wire;
pub mod words;

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::fmt::Write;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv, send};
use rustc_hash::FxHashMap;

use super::death::die_of_a_signal;
use super::watch::{Means, Stage, Watch};
use super::{AfterFinalize, Bootstrap, Job, Notice, ProcessSet, Spawn, Spawned};
use crate::base::error::{Error, Result};
use crate::err;
use crate::identity::{JobId, ProcessName};
use crate::system::locality::Layout;
use cards::{CardName, Lookup, PARTS_MAX};
use spawn::Spawns;
use wire::{LINE_BYTES_MAX, Lines, Message};

/// The environment variable with the kinds of `mpiexec -memory-alloc-kinds`.
pub const ENV_MEMORY_ALLOC_KINDS: &str = "WEFT_LAUNCH_MEMORY_ALLOC_KINDS";
/// The environment variable with the handler of `mpiexec -initial-errhandler` (MPI 5.0 section 9.3): `mpi_errors_abort`,
/// `mpi_errors_are_fatal` or `mpi_errors_return`. It counts before Init and after Finalize too, so it is read where an error is
/// handled, whether there is a connection or not.
pub const ENV_INITIAL_ERRHANDLER: &str = "WEFT_LAUNCH_INITIAL_ERRHANDLER";
/// The environment variable with the process sets of `mpiexec -pset`.
pub const ENV_PROCESS_SETS: &str = "WEFT_LAUNCH_PROCESS_SETS";
/// The environment variable of a spawned job: the port at which those wait that have spawned it.
pub const ENV_PARENT: &str = "WEFT_LAUNCH_PARENT";
/// The environment variable that every process of a job of Weft's `mpiexec` has: the job's id.
pub const ENV_JOB: &str = "WEFT_LAUNCH_JOB";
/// The environment variable with the number of the `mpiexec` process that has started the rank. A job has several on one machine
/// if that has several names in a list of hosts.
pub const ENV_MPIEXEC: &str = "WEFT_LAUNCH_MPIEXEC";

/// The environment variable with the number of processors that the ranks of one machine share.
pub const ENV_PROCESSORS: &str = "WEFT_LAUNCH_PROCESSORS";
/// The environment variable with the launcher's pid namespace ([`pid_namespace`](crate::system::locality::pid_namespace)).
pub const ENV_PIDS: &str = "WEFT_LAUNCH_PIDS";

/// The longest request that every launcher reads whole, in bytes and with its line feed. Slurm reads this much at once,
/// and takes what follows for the next request, whatever maximum it reports for values.
const FOREIGN_LINE_BYTES_MAX: usize = 1024;

/// How long [`Bootstrap::abort`] waits for the launcher to end this process, in milliseconds.
const ABORT_WAIT_MS: u16 = 5000;

/// How long to wait before it is seen again whether the launcher has read what was sent.
const READ_AGAIN: Duration = Duration::from_micros(100);

/// The connection to a PMI-1 launcher. It stays open for the life of the process: dropping this closes nothing.
pub struct Pmi1 {
    fd: RawFd,
    lines: Lines,
    /// The launcher is Weft's `mpiexec`.
    weft: bool,
    /// The launcher is Slurm's `srun`: it looks only at a process's status, and receives nothing more after `finalize`.
    slurm: bool,
    /// The launcher takes a backslash in a request of several lines for a sign that the next character is meant: Hydra of MPICH 5, which has
    /// a subversion of its own.
    escapes: bool,
    job: Job,
    kvsname: String,
    keylen_max: usize,
    vallen_max: usize,
    /// Cards asked for and not yet returned to the caller.
    lookups: FxHashMap<CardName, Lookup>,
    /// Keys still to be asked for, where the launcher takes one `get` at a time.
    queue: VecDeque<(CardName, u32)>,
    /// The `get` without an answer, where answers do not name their key.
    outstanding: Option<(CardName, u32)>,
    /// Whether the last fence begun is over.
    fence_over: bool,
    /// Whether the launcher has asked what this process waits for.
    report_wanted: bool,
    /// What the launcher has told, for the caller.
    notices: Vec<Notice>,
    spawns: Spawns,
    /// Under launchers that go on without a rank that has ended, for a job of several ranks.
    watch: Option<Watch>,
    /// Whether the launcher, which is not Weft's, has received `finalize` and closed its end.
    over: bool,
}

impl Pmi1 {
    /// Connects by what is in `environment`: `PMI_FD`, `PMI_RANK`, `PMI_SIZE`.
    pub fn connect(environment: impl Fn(&str) -> Option<String>) -> Result<Pmi1> {
        let number = |name: &str| -> Result<u32> {
            let text = environment(name)
                .ok_or_else(|| err!(Other, "the launcher set PMI_FD but not {name} in the environment"))?;
            text.parse().map_err(|_| {
                err!(
                    Other,
                    "the environment variable {name} is '{text}': a number from the launcher is expected"
                )
            })
        };
        let (fd, rank, size) = (number("PMI_FD")?, number("PMI_RANK")?, number("PMI_SIZE")?);
        if rank >= size {
            return Err(err!(
                Other,
                "the launcher set PMI_RANK={rank} and PMI_SIZE={size}: a rank below the size is expected"
            ));
        }
        let fd = RawFd::try_from(fd)
            .ok()
            .filter(|&fd| nix::sys::stat::fstat(borrow(fd)).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFSOCK))
            .ok_or_else(|| {
                err!(
                    Other,
                    "the launcher's connection, descriptor {fd} of PMI_FD, is not open in this process: was it started \
                     by a program that closes descriptors? Unset PMI_FD to run as a singleton."
                )
            })?;
        // Programs that this process starts are not ranks.
        fcntl(borrow(fd), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).map_err(io_error)?;

        let mut pmi = Pmi1 {
            fd,
            lines: Lines::default(),
            weft: false,
            slurm: false,
            escapes: false,
            job: Job {
                rank,
                size,
                ..super::singleton::Singleton::new().job().clone()
            },
            kvsname: String::new(),
            keylen_max: 0,
            vallen_max: 0,
            lookups: FxHashMap::default(),
            queue: VecDeque::new(),
            outstanding: None,
            fence_over: false,
            report_wanted: false,
            notices: Vec::new(),
            spawns: Spawns::default(),
            watch: None,
            over: false,
        };
        let answer = pmi.request("cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init")?;
        pmi.weft = answer.find("weft") == Some("1");
        if pmi.weft {
            pmi.read_init_answer(&answer, &environment)
        } else {
            pmi.escapes = answer
                .number("pmi_subversion")
                .is_ok_and(|number: u32| number >= 2);
            pmi.ask_foreign_launcher(&environment)
        }?;
        // Another launcher's job inside a step of Slurm has a name of its own.
        let step = environment("SLURM_JOB_ID").zip(environment("SLURM_STEP_ID"));
        pmi.slurm = step.is_some_and(|(job, step)| pmi.kvsname == format!("{job}.{step}"));
        let locals = pmi.job.layout.locals_of(rank, size);
        pmi.job.local_ranks = locals.count;
        pmi.job.local_rank = locals.before;
        pmi.job.local_only = locals.count == size;
        pmi.job.id.clone_from(&pmi.kvsname);
        if pmi.weft {
            die_with_launcher(answer.number("launcher_pid")?)?;
        }
        Ok(pmi)
    }

    /// Makes sure that the end of this process ends the job, where the launcher would go on without it.
    pub fn watch_over(&mut self) {
        // Hydra ends a job for a rank that a signal kills, or that exits on the only host.
        if self.slurm || !self.weft && !self.job.local_only {
            self.watch = Watch::start_or_warn(&self.job, &self.kvsname, Means::Line(self.fd));
        }
    }

    fn read_init_answer(
        &mut self,
        answer: &Message,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<()> {
        self.kvsname = answer.get("kvsname")?.to_string();
        self.keylen_max = answer.number("keylen_max")?;
        self.vallen_max = answer.number("vallen_max")?;
        self.job.appnum = Some(answer.number("appnum")?);
        self.job.universe_size = Some(answer.number("universe_size")?);
        self.job.layout = Layout::parse(answer.get("mapping")?)?;
        self.job.memory_alloc_kinds = environment(ENV_MEMORY_ALLOC_KINDS);
        self.job.parent = environment(ENV_PARENT);
        self.job.process_sets = match environment(ENV_PROCESS_SETS) {
            Some(text) => ProcessSet::decode(&text, self.job.size)?,
            None => Vec::new(),
        };
        self.job.processors = environment(ENV_PROCESSORS).and_then(|text| text.parse().ok());
        self.job.launcher_pids = environment(ENV_PIDS).and_then(|text| text.parse().ok());
        Ok(())
    }

    /// The value of `key` if the launcher has it now. Not for use with lookups under way.
    fn get_now(&mut self, key: &str) -> Result<Option<String>> {
        let request = format!("cmd=get kvsname={} key={key}\n", self.kvsname);
        self.send(&request)?;
        let answer = self.next_answer("get_result")?;
        Ok((answer.code()? == 0)
            .then(|| answer.find("value").map(str::to_string))
            .flatten())
    }

    /// Sends a request and waits for its answer, which must be `expected` and report success.
    fn request(&mut self, request: &str, expected: &str) -> Result<Message> {
        self.send(request)?;
        let answer = self.next_answer(expected)?;
        match answer.code()? {
            0 => Ok(answer),
            code => {
                let reason = answer.find("msg").unwrap_or("no reason given");
                Err(err!(
                    Other,
                    "the launcher answered '{}' with error {code}: {reason}",
                    request.trim_end()
                ))
            }
        }
    }

    /// Sends a request whose answer matters only if it reports an error. Weft's launcher sends none: on a busy machine
    /// each wait for an answer can cost a time slice of every other rank.
    fn tell(&mut self, request: &str, answer: &str) -> Result<()> {
        if self.weft {
            return self.send(&format!("{request} quiet=1\n"));
        }
        self.request(&format!("{request}\n"), answer).map(drop)
    }

    /// Waits for the next line that is not about a lookup; it must be `expected`.
    fn next_answer(&mut self, expected: &str) -> Result<Message> {
        loop {
            let Some(line) = self.lines.next_line()? else {
                self.receive(MsgFlags::empty())?;
                continue;
            };
            let answer = Message::parse(&line)?;
            if answer.command() == "get_result" && self.take_card_answer(&answer)? {
                self.ask_next()?;
            } else if answer.command() == expected {
                return Ok(answer);
            } else if !self.take_aside(&answer)? {
                let command = answer.command();
                return Err(err!(
                    Other,
                    "the launcher sent '{command}' where '{expected}' was expected"
                ));
            }
        }
    }

    /// Handles a line that is no answer to what was asked last; `false`: it is none of those.
    fn take_aside(&mut self, line: &Message) -> Result<bool> {
        match line.command() {
            "barrier_out" => self.fence_over = true,
            "report" => self.report_wanted = true,
            "weft_spawned" => self.read_spawned(line)?,
            "spawn_result" => self.read_spawn_result(line)?,
            "weft_not_connected" => self.read_not_connected(line)?,
            "weft_lost" => self.read_lost(line)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Sends the `get`s that can be sent now.
    fn ask_next(&mut self) -> Result<()> {
        while self.weft || self.outstanding.is_none() {
            let Some((name, part)) = self.queue.pop_front() else {
                break;
            };
            let mut request = format!("cmd=get kvsname={} key={}", self.kvsname, name.key(part));
            if self.weft {
                let _ = write!(request, " wait=1 from={}", name.rank);
            } else {
                self.outstanding = Some((name, part));
            }
            request.push('\n');
            self.send(&request)?;
        }
        Ok(())
    }

    /// Handles the answers that are here, without waiting for more.
    fn take_answers(&mut self) -> Result<()> {
        loop {
            while let Some(line) = self.lines.next_line()? {
                let answer = Message::parse(&line)?;
                let taken = self.take_aside(&answer)?
                    || answer.command() == "get_result" && self.take_card_answer(&answer)?;
                if !taken {
                    return Err(err!(
                        Other,
                        "the launcher sent '{}', which was not asked for",
                        answer.command()
                    ));
                }
                self.ask_next()?;
            }
            if !self.receive(MsgFlags::MSG_DONTWAIT)? {
                return Ok(());
            }
        }
    }

    /// Sends a line, where the launcher is not Weft's once it has read the line before: two may be under way where one thread has begun a
    /// fence and another looks for a business card, and of two lines in one read Slurm sees only the first.
    fn send(&mut self, line: &str) -> Result<()> {
        self.wait_until_read(None);
        self.write(line)
    }

    /// Waits until a launcher that is not Weft's has read all that was sent, or until the time is over.
    fn wait_until_read(&self, limit: Option<Duration>) {
        if self.weft {
            return;
        }
        let begun = Instant::now();
        while has_unread(self.fd) && limit.is_none_or(|limit| begun.elapsed() < limit) {
            // It is another process's turn to read, and nothing tells of that.
            std::thread::sleep(READ_AGAIN);
        }
    }

    fn write(&mut self, line: &str) -> Result<()> {
        if line.len() > LINE_BYTES_MAX {
            return Err(err!(
                Other,
                "a line of {} bytes for the launcher is too long",
                line.len()
            ));
        }
        self.write_all(line.as_bytes())
    }

    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match send(self.fd, rest, MsgFlags::MSG_NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::EINTR) => {}
                // Where the launcher made this end nonblocking, it is so for all processes that share it.
                Err(Errno::EAGAIN) => self.wait(PollFlags::POLLOUT, PollTimeout::NONE)?,
                Err(errno) => return Err(io_error(errno)),
            }
        }
        Ok(())
    }

    /// Receives once into `lines`; `false` if `flags` forbid waiting and there is nothing.
    fn receive(&mut self, flags: MsgFlags) -> Result<bool> {
        let mut buffer = [0u8; 4096];
        loop {
            match recv(self.fd, &mut buffer, flags) {
                Ok(0) => return Err(gone()),
                Ok(received) => {
                    self.lines.push(&buffer[..received]);
                    return Ok(true);
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) if flags.contains(MsgFlags::MSG_DONTWAIT) => return Ok(false),
                Err(Errno::EAGAIN) => self.wait(PollFlags::POLLIN, PollTimeout::NONE)?,
                Err(errno) => return Err(io_error(errno)),
            }
        }
    }

    fn wait(&self, events: PollFlags, timeout: PollTimeout) -> Result<()> {
        match poll(&mut [PollFd::new(borrow(self.fd), events)], timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(io_error(errno)),
        }
    }
}

impl Bootstrap for Pmi1 {
    fn job(&self) -> &Job {
        &self.job
    }

    fn name(&self) -> &'static str {
        if self.weft { "pmi-1 (weft)" } else { "pmi-1" }
    }

    fn publish(&mut self, incarnation: u32, card: &[u8]) -> Result<()> {
        let name = CardName {
            incarnation,
            rank: self.job.rank,
        };
        let hex = wire::to_hex(card);
        let kvsname = self.kvsname.clone();
        let put = |part: u32, value: &str| {
            format!("cmd=put kvsname={kvsname} key={} value={value}", name.key(part))
        };
        // Each value begins with "1." (there is another part) or "0." (it is the last), and a launcher may count a
        // final zero byte.
        let value_max = self.vallen_max.saturating_sub(3);
        let line_max = if self.weft {
            LINE_BYTES_MAX
        } else {
            FOREIGN_LINE_BYTES_MAX
        };
        // The last part has the longest key.
        let rest_of_line = put(PARTS_MAX, "1.\n").len();
        let room = value_max.min(line_max.saturating_sub(rest_of_line)).max(1);
        let parts = hex.len().div_ceil(room).max(1);
        if parts > PARTS_MAX as usize {
            return Err(err!(
                Intern,
                "a business card of {} bytes is too long for the launcher",
                card.len()
            ));
        }
        // The first part is put last: a process that gets it can get them all.
        if name.key(PARTS_MAX).len() >= self.keylen_max {
            return Err(err!(
                Other,
                "the launcher's keys of {} bytes are too short",
                self.keylen_max
            ));
        }
        for part in (0..parts).rev() {
            let value = &hex[part * room..hex.len().min((part + 1) * room)];
            let more = u8::from(part + 1 < parts);
            let request = put(part as u32, &format!("{more}.{value}"));
            self.tell(&request, "put_result")?;
        }
        Ok(())
    }

    fn needs_fence(&self) -> bool {
        !self.weft
    }

    fn after_finalize(&self) -> AfterFinalize {
        match (self.weft, self.slurm) {
            (true, _) => AfterFinalize::Returns,
            (_, true) => AfterFinalize::Stays,
            _ => AfterFinalize::Ends,
        }
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn has_news(&self) -> bool {
        !self.over && (self.report_wanted || !self.notices.is_empty())
    }

    fn attend(&mut self) -> Result<bool> {
        if self.over {
            return Ok(false);
        }
        self.take_answers()?;
        Ok(std::mem::take(&mut self.report_wanted))
    }

    fn report(&mut self, text: &str) -> bool {
        // In hexadecimal, and with the rest of the line, it must fit.
        let end = text.floor_char_boundary(LINE_BYTES_MAX / 2 - 64);
        let line = format!(
            "cmd=report_result text={}\n",
            wire::to_hex(&text.as_bytes()[..end])
        );
        self.weft && !self.over && self.send(&line).is_ok()
    }

    fn begin_fence(&mut self) -> Result<()> {
        self.fence_over = false;
        self.send("cmd=barrier_in\n")
    }

    fn fence_is_over(&mut self) -> Result<bool> {
        self.take_answers()?;
        Ok(self.fence_over)
    }

    fn lookup(&mut self, incarnation: u32, peer: ProcessName) -> Result<Option<Vec<u8>>> {
        let name = CardName {
            incarnation,
            rank: self.job.rank_of(peer)?,
        };
        if let Entry::Vacant(entry) = self.lookups.entry(name) {
            entry.insert(Lookup::default());
            self.queue.push_back((name, 0));
            self.ask_next()?;
        }
        self.take_answers()?;
        if self
            .lookups
            .get(&name)
            .is_some_and(|lookup| lookup.result.is_some())
        {
            return self
                .lookups
                .remove(&name)
                .and_then(|lookup| lookup.result)
                .transpose();
        }
        Ok(None)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (!self.over).then(|| borrow(self.fd))
    }

    fn tells_why(&self) -> bool {
        self.weft
    }

    fn spawn(&mut self, spawn: &Spawn) -> Result<u32> {
        self.send_spawn(spawn)
    }

    fn spawned(&mut self, spawn: u32) -> Result<Option<Spawned>> {
        self.take_spawned(spawn)
    }

    fn spawn_patience(&self) -> Option<Duration> {
        (!self.weft).then_some(foreign_spawn::PATIENCE)
    }

    fn publish_name(&mut self, service: &str, port: &str) -> Result<()> {
        self.publish_service(service, port)
    }

    fn unpublish_name(&mut self, service: &str) -> Result<()> {
        self.unpublish_service(service)
    }

    fn lookup_name(&mut self, service: &str) -> Result<Option<String>> {
        self.look_up_service(service)
    }

    fn link(&mut self, job: JobId, socket: OwnedFd) -> Result<()> {
        match self.weft && !self.over {
            true => self.pass_link(job, &socket),
            false => Ok(()),
        }
    }

    fn connected(&mut self, job: JobId, on: bool) {
        if self.weft && !self.over {
            self.tell_connected(job, on);
        }
    }

    fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn abort(&mut self, code: i32, message: &str) -> bool {
        if self.over {
            if self.job.size > 1 {
                die_of_a_signal();
            }
            return false;
        }
        let request = if self.weft {
            // A longer one would not fit a line.
            let end = message.floor_char_boundary(1024);
            format!(
                "cmd=abort exitcode={code} weft_message={}\n",
                wire::to_hex(&message.as_bytes()[..end])
            )
        } else {
            format!("cmd=abort exitcode={code}\n")
        };
        self.wait_until_read(Some(Duration::from_millis(ABORT_WAIT_MS.into())));
        if self.write(&request).is_err() {
            return false;
        }
        // Asked already.
        if let Some(watch) = &self.watch {
            watch.set(Stage::Outside);
        }
        // The end comes as a signal. Where it does not, the launcher does not work as it should.
        let _ = poll(
            &mut [PollFd::new(borrow(self.fd), PollFlags::empty())],
            PollTimeout::from(ABORT_WAIT_MS),
        );
        true
    }

    fn come_back(&mut self) {
        if let Some(watch) = &self.watch
            && !self.over
        {
            watch.set(Stage::Inside);
        }
    }

    fn finalize(&mut self) -> Result<()> {
        if let Some(watch) = &self.watch {
            watch.set(Stage::Outside);
        }
        if self.over || self.slurm {
            return Ok(());
        }
        // Weft's launcher receives it even if this process has ended by then. Hydra requires that its answer is read, and a process that
        // ends without having sent it counts as died, whatever its status.
        self.tell("cmd=finalize", "finalize_ack")?;
        self.over = !self.weft;
        Ok(())
    }
}

/// Ties this process to the launcher's life where it is the launcher's own child. (Below a wrapper it must not be
/// tied to the wrapper: the signal comes when the *thread* that started this process ends. The launcher's watchdog
/// finds those processes.)
fn die_with_launcher(launcher_pid: i32) -> Result<()> {
    if nix::unistd::getppid().as_raw() != launcher_pid {
        return Ok(());
    }
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL).map_err(io_error)?;
    // It may have died just before.
    if nix::unistd::getppid().as_raw() == launcher_pid {
        Ok(())
    } else {
        Err(gone())
    }
}

/// The descriptor is open for the life of the process, as the launcher promises.
fn borrow(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: `fd` is not -1 (it was parsed as an unsigned number). It can't be checked that the program does not
    // close it; calls on it then fail with EBADF, or reach another file of the program, as with every PMI library.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Whether the other end of a connection has not read all that was sent to it. An end that is gone has, and one of which the system does not
/// tell that counts so.
fn has_unread(fd: RawFd) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: `bytes` is where the call writes a number.
    unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut bytes) == 0 && bytes > 0 }
}

fn io_error(errno: Errno) -> Error {
    match errno {
        Errno::EPIPE | Errno::ECONNRESET => gone(),
        _ => err!(Other, "the connection to the launcher failed: {}", errno.desc()),
    }
}

fn gone() -> Error {
    err!(Other, "the launcher is gone: it closed its connection")
}
