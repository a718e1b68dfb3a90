//! Files that ranks leave behind when they are killed. libfabric's `shm` provider keeps one for each endpoint in `/dev/shm`
//! ([`shm_name`]), for as long as its process lives: it removes the file when the process closes the endpoint or
//! dies of a signal that can be caught, and can't on SIGKILL.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use nix::unistd::getuid;
use weft::tools::shm_name;

const FOLDER: &str = "/dev/shm";
/// How long processes that were killed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(1);

/// The processes of a job, including those that are gone, and when the first one was started.
#[derive(Debug)]
pub struct Processes {
    pids: BTreeSet<i32>,
    since: SystemTime,
}

impl Processes {
    /// None yet.
    pub fn new() -> Processes {
        Processes {
            pids: BTreeSet::new(),
            since: SystemTime::now(),
        }
    }

    /// Adds one.
    pub fn add(&mut self, pid: i32) {
        self.pids.insert(pid);
    }

    /// Removes the files that ended processes have left. The others were killed just now: they are waited for, as long as it
    /// takes to die.
    pub fn remove_files(&self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let mut alive = false;
            for (pid, path) in self.files(Path::new(FOLDER)) {
                if is_alive(pid) {
                    alive = true;
                } else {
                    // It is as good if another process has removed it meanwhile.
                    let _ = std::fs::remove_file(path);
                }
            }
            if !alive || Instant::now() > end {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The job's files. One that is older than the job belongs to another process that had the same number.
    fn files(&self, folder: &Path) -> Vec<(i32, PathBuf)> {
        let uid = getuid().as_raw();
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let ours = entries.filter_map(|entry| {
            let (pid, owner) = shm_name::owner(entry.file_name().to_str()?)?;
            let data = entry.metadata().ok().filter(|data| data.is_file())?;
            let age = Duration::new(data.ctime().try_into().ok()?, data.ctime_nsec().try_into().ok()?);
            // The clock of files ticks in steps of up to 10 ms.
            let is_young = SystemTime::UNIX_EPOCH + age + Duration::from_millis(10) >= self.since;
            (owner == uid && data.uid() == uid && is_young && self.pids.contains(&pid))
                .then(|| (pid, entry.path()))
        });
        ours.collect()
    }
}

/// Whether the process is there and not a zombie.
fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_jobs_processes_are_its() {
        let folder = tempfile::tempdir().unwrap();
        let uid = getuid();
        let names = [
            format!("17:{uid}:0"),
            format!("weft-17-0123456789abcdef:{uid}:3"),
            format!("18:{uid}:0"),
            format!("17:{uid}"),
            format!("17:{uid}:0:1"),
            format!("17:{uid}:x"),
            format!("17:{}:0", uid.as_raw() + 1),
            "mpich_shm_17_0".into(),
        ];
        let mut processes = Processes::new();
        for name in &names {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        processes.add(17);
        let mut found: Vec<String> = processes
            .files(folder.path())
            .into_iter()
            .map(|(pid, path)| format!("{pid} {}", path.file_name().unwrap().to_str().unwrap()))
            .collect();
        found.sort();
        assert_eq!(
            found,
            [
                format!("17 17:{uid}:0"),
                format!("17 weft-17-0123456789abcdef:{uid}:3")
            ]
        );
        // The next job's process with the same number has none yet.
        processes.since += Duration::from_secs(1000);
        assert_eq!(processes.files(folder.path()), []);
    }

    #[test]
    fn a_process_that_is_still_dying_is_waited_for() {
        let mut processes = Processes::new();
        let mut dying = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = dying.id() as i32;
        processes.add(pid);
        let path = Path::new(FOLDER).join(format!("weft-{pid}-0123456789abcdef:{}:3", getuid()));
        std::fs::write(&path, "left").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(PATIENCE / 10);
                assert!(path.exists(), "it lives");
                dying.kill().unwrap();
            });
            processes.remove_files();
        });
        let left = path.exists();
        let _ = std::fs::remove_file(path);
        dying.wait().unwrap();
        assert!(!left);
    }
}
