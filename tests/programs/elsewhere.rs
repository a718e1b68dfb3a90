//! Processes that come and go under launchers of others: spawned jobs, and names of services. `WEFT_TEST_PEERS` names the folder where MPICH is
//! installed, with its Hydra.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};

use crate::Outcome;
use crate::build;
use crate::dynamic::meet;
use crate::job::Job;
use crate::matrix::common;

/// Modes of `spawn`, with numbers of ranks and of children.
const SPAWNS: &[(&str, u32, &str)] = &[
    ("disconnect", 3, "2"),
    ("finalize", 2, "3"),
    ("free", 1, "1"),
    ("grand", 1, "2"),
    ("several", 2, "3"),
    ("refused", 2, "1"),
];

/// The tests; none, saying so, without MPICH.
pub fn trials() -> Vec<Trial> {
    let Some(peers) = std::env::var_os("WEFT_TEST_PEERS").filter(|path| !path.is_empty()) else {
        eprintln!("programs: WEFT_TEST_PEERS does not say where Hydra is: nothing spawns under it");
        return Vec::new();
    };
    let folder = PathBuf::from(peers).join("bin");
    let hydra = folder.join("mpiexec");
    let mut trials = Vec::new();
    for &(mode, ranks, children) in SPAWNS {
        let hydra = hydra.clone();
        let name = format!("elsewhere::spawn_under_hydra::{mode}_{ranks}_and_{children}");
        trials.push(Trial::test(name, move || {
            one("spawn", ranks, &[children, mode], &hydra)
        }));
    }
    {
        let hydra = hydra.clone();
        trials.push(Trial::test("elsewhere::names_under_hydra", move || {
            one("ports", 3, &["one"], &hydra)
        }));
    }
    trials.push(Trial::test(
        "elsewhere::names_of_two_jobs_by_the_name_server_of_hydra",
        move || by_name_server(&folder),
    ));
    trials
}

fn job(program: &Path, ranks: u32, launcher: &Path) -> Job {
    Job::new(program, ranks)
        .under(launcher)
        .env("WEFT_TEST_BRIEF", "1")
        .over(common())
}

fn one(program: &str, ranks: u32, arguments: &[&str], launcher: &Path) -> Outcome {
    let path = build::program(program)?;
    let ended = job(&path, ranks, launcher).arguments(arguments).run()?;
    ended.is_well(program, ranks)
}

/// A name server, which is killed when this is dropped.
struct NameServer {
    process: Child,
    port: u16,
}

impl NameServer {
    fn start(folder: &Path) -> Result<NameServer, Failed> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            // Another process may take the port before the name server does, which ends then.
            let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            let process = Command::new(folder.join("hydra_nameserver"))
                .args(["-port", &port.to_string()])
                .stdin(Stdio::null())
                .spawn()?;
            let mut server = NameServer { process, port };
            while server.process.try_wait()?.is_none() {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Ok(server);
                }
                if Instant::now() > deadline {
                    return Err("the name server does not listen".into());
                }
                std::thread::sleep(Duration::from_millis(3));
            }
        }
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Jobs of two `mpiexec`s find each other.
fn by_name_server(folder: &Path) -> Outcome {
    let server = NameServer::start(folder)?;
    let program = build::program("ports")?;
    let address = format!("localhost:{}", server.port);
    let job = |ranks, mode: &str| {
        job(&program, ranks, &folder.join("mpiexec"))
            .option("-nameserver")
            .option(&address)
            .arguments(&[mode])
    };
    meet(&job(2, "publish"), &job(1, "lookup"))
}
