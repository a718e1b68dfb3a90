//! Processes that come and go under launchers of others, spawned jobs and names of services; and programs of MPICH that spawn under Weft's
//! `mpiexec`. `WEFT_TEST_PEERS` names the folder where MPICH is
//! installed, with its Hydra; `WEFT_TEST_IMPI` that of Intel MPI, and `WEFT_TEST_OPENMPI` that of Open MPI 5, with its `prterun`
//! (`ci/soak.d/elsewhere`).

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};

use crate::Outcome;
use crate::build;
use crate::cross::by_mpich;
use crate::dynamic::meet;
use crate::job::{Job, repeat};

/// Modes of `spawn`, with numbers of ranks and of children.
const SPAWNS: &[(&str, u32, &str)] = &[
    ("disconnect", 3, "2"),
    ("finalize", 2, "3"),
    ("free", 1, "1"),
    ("grand", 1, "2"),
    ("several", 2, "3"),
    ("refused", 2, "1"),
];

/// A launcher, installed in a folder.
#[derive(Clone, Debug)]
enum Launcher {
    Hydra(PathBuf),
    HydraOfIntel(PathBuf),
    Prterun(PathBuf),
}

impl Launcher {
    /// Those that there are.
    fn all() -> Vec<Launcher> {
        let folder = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
        let known = [
            folder("WEFT_TEST_PEERS").map(|path| Launcher::Hydra(path.into())),
            folder("WEFT_TEST_IMPI").map(|path| Launcher::HydraOfIntel(path.into())),
            folder("WEFT_TEST_OPENMPI").map(|path| Launcher::Prterun(path.into())),
        ];
        known.into_iter().flatten().collect()
    }

    fn name(&self) -> &'static str {
        match self {
            Launcher::Hydra(_) => "hydra",
            Launcher::HydraOfIntel(_) => "hydra_of_intel",
            Launcher::Prterun(_) => "prterun",
        }
    }

    /// Ranks of a program under it.
    fn job(&self, program: &Path, ranks: u32) -> Job {
        let job = Job::new(program, ranks)
            .env("WEFT_TEST_BRIEF", "1")
            .env("WEFT_TEST_TEXT", "1")
            .over("tcp;ofi_rxm");
        match self {
            Launcher::Hydra(folder) => job.under(&folder.join("bin/mpiexec")),
            Launcher::HydraOfIntel(folder) => {
                job.under(&folder.join("bin/mpiexec")).env("I_MPI_ROOT", folder)
            }
            // It has been moved from where it was built, and there are more processes than cores.
            Launcher::Prterun(folder) => ["OPAL_PREFIX", "PRTE_PREFIX", "PMIX_PREFIX"]
                .into_iter()
                .fold(job, |job, name| job.env(name, folder))
                .under(&folder.join("bin/prterun"))
                .option("--allow-run-as-root")
                .option("--host")
                .option("localhost:64")
                .option("--bind-to")
                .option("none"),
        }
    }
}

/// The tests; none, saying so, without such launchers.
pub fn trials() -> Vec<Trial> {
    let launchers = Launcher::all();
    if launchers.is_empty() {
        eprintln!(
            "programs: WEFT_TEST_PEERS does not say where Hydra is: nothing spawns under other launchers"
        );
    }
    let mut trials = Vec::new();
    for launcher in launchers {
        let name = launcher.name();
        for &(mode, ranks, children) in SPAWNS {
            let launcher = launcher.clone();
            let name = format!("elsewhere::spawn_under_{name}::{mode}_{ranks}_and_{children}");
            trials.push(Trial::test(name, move || {
                one(&launcher, "spawn", ranks, &[children, mode])
            }));
        }
        let own = launcher.clone();
        trials.push(Trial::test(format!("elsewhere::names_under_{name}"), move || {
            one(&own, "ports", 3, &["one"])
        }));
        if let Launcher::Hydra(folder) = launcher {
            for (mode, ranks, children) in [("disconnect", 2, "2"), ("grand", 1, "2"), ("several", 1, "3")] {
                let folder = folder.clone();
                let name = format!("elsewhere::mpich_spawns_under_weft::{mode}_{ranks}_and_{children}");
                trials.push(Trial::test(name, move || {
                    mpich_spawns(&folder, ranks, &[children, mode])
                }));
            }
            let name = "elsewhere::names_of_two_jobs_by_the_name_server_of_hydra";
            trials.push(Trial::test(name, move || by_name_server(&folder)));
        }
    }
    trials
}

fn one(launcher: &Launcher, program: &str, ranks: u32, arguments: &[&str]) -> Outcome {
    let path = build::program(program)?;
    for _ in 0..repeat() {
        let ended = launcher.job(&path, ranks).arguments(arguments).run()?;
        ended.is_well(program, ranks)?;
    }
    Ok(())
}

fn mpich_spawns(peers: &Path, ranks: u32, arguments: &[&str]) -> Outcome {
    let program = by_mpich(peers, "spawn")?;
    for _ in 0..repeat() {
        let ended = Job::new(&program, ranks)
            .arguments(arguments)
            .env("LD_LIBRARY_PATH", peers.join("lib"))
            .env("WEFT_TEST_BRIEF", "1")
            .env("WEFT_TEST_TEXT", "1")
            .run()?;
        ended.is_well("spawn", ranks)?;
    }
    Ok(())
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
            let process = Command::new(folder.join("bin/hydra_nameserver"))
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
        Launcher::Hydra(folder.to_path_buf())
            .job(&program, ranks)
            .option("-nameserver")
            .option(&address)
            .arguments(&[mode])
    };
    meet(&job(2, "publish"), &job(1, "lookup"))
}
