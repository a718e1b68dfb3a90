//! A job: ranks of a program under a launcher, bounded in time, with all that it says.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;

use crate::Outcome;
use crate::build;

/// The longest that a job of a test may take. Some of them are slow where debug code shares two cores.
const LIMIT_S: u64 = 100;
/// How much later than its own limit the launcher must have ended.
const GRACE_S: u64 = 15;

/// Which program is the launcher.
#[derive(Clone, Debug)]
pub enum Launcher {
    /// Weft's `mpiexec`.
    Weft,
    /// Another one.
    Other(PathBuf),
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Job {
    launcher: Launcher,
    launcher_options: Vec<OsString>,
    ranks: u32,
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, OsString)>,
}

/// How a job ended.
#[derive(Debug)]
pub struct Ended {
    /// The command as a shell takes it.
    pub command: String,
    /// As a shell tells it: 128 + the signal for a killed launcher.
    pub status: i32,
    /// All of it.
    pub stdout: String,
    /// All of it.
    pub stderr: String,
    /// From start to end.
    pub took: Duration,
}

impl Job {
    /// Ranks of a program under Weft's `mpiexec`.
    pub fn new(program: &Path, ranks: u32) -> Job {
        Job {
            launcher: Launcher::Weft,
            launcher_options: Vec::new(),
            ranks,
            program: program.to_path_buf(),
            arguments: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// Under another launcher.
    pub fn under(mut self, launcher: &Path) -> Job {
        self.launcher = Launcher::Other(launcher.to_path_buf());
        self
    }

    /// An option of the launcher.
    pub fn option(mut self, option: impl Into<OsString>) -> Job {
        self.launcher_options.push(option.into());
        self
    }

    /// Arguments of the program.
    pub fn arguments(mut self, arguments: &[&str]) -> Job {
        self.arguments
            .extend(arguments.iter().map(|&argument| argument.into()));
        self
    }

    /// A variable of the environment.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Job {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Over a provider, or by settings `NAME=VALUE` with blanks between them. Where one forbids cross-memory attach, a rank
    /// that tries it all the same is killed.
    pub fn over(mut self, way: &str) -> Job {
        for setting in way.split(' ') {
            let (name, value) = setting.split_once('=').unwrap_or(("WEFT_PROVIDER", setting));
            self = self.env(name, value);
            if setting == "WEFT_CMA=0" {
                self = self.forbid("process_vm_readv=kill");
            }
        }
        self
    }

    /// System calls that ranks may not make: see `tests/c/forbid.c`.
    ///
    /// # Panics
    /// If that can't be compiled.
    pub fn forbid(self, what: &str) -> Job {
        let library = build::preloaded("forbid").unwrap_or_else(|error| panic!("{error:?}"));
        self.env("LD_PRELOAD", library).env("WEFT_FORBID", what)
    }

    /// The command, without output yet, in a folder of its own.
    pub fn command(&self, folder: &Path) -> Command {
        let mut command = match &self.launcher {
            Launcher::Weft => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_mpiexec"));
                command.args(["--timeout", &LIMIT_S.to_string()]);
                command
            }
            Launcher::Other(path) => Command::new(path),
        };
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if ["WEFT_", "PMI", "MPI", "FI_", "LD_"]
                .iter()
                .any(|prefix| text.starts_with(prefix))
            {
                command.env_remove(&name);
            }
        }
        // The libfabric of this folder, for all jobs: `ci/soak.d/libfabric2`.
        if let Some(folder) = std::env::var_os("WEFT_TEST_LIBFABRIC") {
            command.env("LD_LIBRARY_PATH", folder);
        }
        command
            .args(&self.launcher_options)
            .args(["-n", &self.ranks.to_string()])
            .arg(&self.program)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("TMPDIR", folder)
            .current_dir(folder)
            .stdin(Stdio::null());
        command
    }

    /// For people to run again.
    pub fn shell(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.environment {
            let _ = write!(text, "{name}='{}' ", value.to_string_lossy());
        }
        let launcher = match &self.launcher {
            Launcher::Weft => Path::new(env!("CARGO_BIN_EXE_mpiexec")),
            Launcher::Other(path) => path,
        };
        text.push_str(&launcher.to_string_lossy());
        for option in &self.launcher_options {
            let _ = write!(text, " {}", option.to_string_lossy());
        }
        let _ = write!(text, " -n {} {}", self.ranks, self.program.display());
        for argument in &self.arguments {
            let _ = write!(text, " {argument}");
        }
        text
    }

    /// Runs it to its end. A launcher that does not end is killed, and the job failed.
    pub fn run(&self) -> Result<Ended, Failed> {
        self.run_watched(|_| Ok(()))
    }

    /// The same, with a look now and then at what it has said on standard error until then.
    pub fn run_watched(&self, mut look: impl FnMut(&str) -> Outcome) -> Result<Ended, Failed> {
        let folder = tempfile::tempdir()?;
        let (out, err) = (folder.path().join("stdout"), folder.path().join("stderr"));
        let start = Instant::now();
        let mut child = self
            .command(folder.path())
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?)
            .spawn()
            .map_err(|error| format!("{}: {error}", self.shell()))?;
        let deadline = start + Duration::from_secs(LIMIT_S + GRACE_S);
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                let ended = self.ended(-1, &out, &err, start)?;
                return Err(format!("the launcher did not end\n{ended}").into());
            }
            look(&read(&err)?)?;
            std::thread::sleep(Duration::from_millis(3));
        };
        let status = status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        self.ended(status, &out, &err, start)
    }

    fn ended(&self, status: i32, out: &Path, err: &Path, start: Instant) -> Result<Ended, Failed> {
        Ok(Ended {
            command: self.shell(),
            status,
            stdout: read(out)?,
            stderr: read(err)?,
            took: start.elapsed(),
        })
    }
}

fn read(path: &Path) -> Result<String, Failed> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl std::fmt::Display for Ended {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(to, "$ {}", self.command)?;
        writeln!(
            to,
            "status {} after {:.1} s",
            self.status,
            self.took.as_secs_f64()
        )?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            writeln!(to, "--- {name} ---\n{}", text.trim_end())?;
        }
        Ok(())
    }
}

impl Ended {
    /// Fails with all that the job said.
    pub fn fail(&self, why: impl std::fmt::Display) -> Failed {
        format!("{why}\n{self}").into()
    }

    /// The status is this.
    pub fn status_is(&self, expected: i32) -> Outcome {
        match self.status == expected {
            true => Ok(()),
            false => Err(self.fail(format!("expected status {expected}, got {}", self.status))),
        }
    }

    /// Standard output has this text.
    pub fn prints(&self, text: &str) -> Outcome {
        match self.stdout.contains(text) {
            true => Ok(()),
            false => Err(self.fail(format!("'{text}' is not in the output"))),
        }
    }

    /// One line of standard error has all of these words.
    pub fn says(&self, words: &[&str]) -> Outcome {
        let found = |line: &str| words.iter().all(|word| line.contains(word));
        match self.stderr.lines().any(found) {
            true => Ok(()),
            false => Err(self.fail(format!("no line of standard error has all of {words:?}"))),
        }
    }

    /// Standard error has this text in one place.
    pub fn says_once(&self, text: &str) -> Outcome {
        match self.stderr.matches(text).count() {
            1 => Ok(()),
            number => Err(self.fail(format!("'{text}' stands {number} times on standard error"))),
        }
    }

    /// It ended well, with the line of the program `name`.
    pub fn is_well(&self, name: &str, ranks: u32) -> Outcome {
        self.status_is(0)?;
        self.prints(&format!("{name}: ok with {ranks} ranks"))
    }
}

/// How often each job is run.
pub fn repeat() -> u32 {
    std::env::var("WEFT_TEST_REPEAT")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1)
}
