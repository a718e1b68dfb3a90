//! Weft and MPICH mixed, by the standard ABI and by PMI: binaries of one on the library of the other, and each one's
//! launcher with the other's programs. `WEFT_TEST_PEERS` names the folder where MPICH is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Failed, Trial};

use crate::Outcome;
use crate::build;
use crate::job::Job;
use crate::matrix::common;

/// Programs that meet both libraries: those that MPICH passes, too.
const PROGRAMS: &[&str] = &[
    "version",
    "sizes",
    "collectives",
    "layouts",
    "user_ops",
    "completion",
];
/// A process of MPICH takes most of a second to start.
const RANKS: &[u32] = &[3];

/// `session_again`: the number of ranks, and whether a process returns or leaves by `_exit`.
const AGAIN: &[(&str, u32, &str)] = &[
    ("cycles", 1, "return"),
    ("cycles", 3, "_exit"),
    ("after", 1, "_exit"),
    ("after", 4, "return"),
    ("after", 3, "_exit"),
    ("threads", 3, "return"),
];

/// The tests; none, saying so, without MPICH.
pub fn trials() -> Vec<Trial> {
    let Some(peers) = std::env::var_os("WEFT_TEST_PEERS").filter(|path| !path.is_empty()) else {
        eprintln!("programs: WEFT_TEST_PEERS does not say where MPICH is: nothing is mixed with it");
        return Vec::new();
    };
    let peers = PathBuf::from(peers);
    let mut trials = Vec::new();
    for &name in PROGRAMS {
        let path = peers.clone();
        trials.push(Trial::test(
            format!("cross::binary_of_mpich_on_weft::{name}"),
            move || binary_of_mpich_on_weft(&path, name),
        ));
        let path = peers.clone();
        trials.push(Trial::test(
            format!("cross::binary_of_weft_on_mpich::{name}"),
            move || binary_of_weft_on_mpich(&path, name),
        ));
        let path = peers.clone();
        trials.push(Trial::test(
            format!("cross::weft_under_launcher_of_mpich::{name}"),
            move || weft_under_launcher_of_mpich(&path, name),
        ));
        let path = peers.clone();
        trials.push(Trial::test(
            format!("cross::mpich_under_launcher_of_weft::{name}"),
            move || mpich_under_launcher_of_weft(&path, name),
        ));
    }
    for &(case, ranks, end) in AGAIN {
        let path = peers.clone();
        trials.push(Trial::test(
            format!("cross::sessions_again_under_launcher_of_mpich::{case}_{ranks}_{end}"),
            move || sessions_again(&path, case, ranks, end),
        ));
    }
    trials.push(Trial::test(
        "cross::an_abort_in_a_later_session_ends_the_job_of_mpichs_launcher",
        move || abort_again(&peers),
    ));
    trials
}

fn sessions_again(peers: &Path, case: &str, ranks: u32, end: &str) -> Outcome {
    let job = Job::new(&build::program("session_again")?, ranks);
    let ended = job
        .arguments(&[case, end])
        .under(&peers.join("bin/mpiexec"))
        .run()?;
    ended.is_well("session_again", ranks)
}

/// Hydra hears of nothing after the first session's end but that a signal kills a rank.
fn abort_again(peers: &Path) -> Outcome {
    let job = Job::new(&build::program("session_again")?, 3);
    let ended = job
        .arguments(&["abort"])
        .under(&peers.join("bin/mpiexec"))
        .run()?;
    ended.status_is(9)?;
    ended.says(&["rank 1", "MPI_Abort with code 3"])
}

/// As built by MPICH's wrapper, for its ABI of the standard.
pub fn by_mpich(peers: &Path, name: &str) -> Result<PathBuf, Failed> {
    build::wrapped(&peers.join("bin/mpicc_abi"), name, "by-mpich")
}

fn library_is(ended: &crate::job::Ended, name: &str, library: &str) -> Outcome {
    match name {
        "version" => ended.prints(&format!("library: {library}")),
        _ => Ok(()),
    }
}

/// The dynamic linker takes the library from this folder.
fn is_linked_to(program: &Path, folder: &Path) -> Outcome {
    let output = Command::new("ldd")
        .arg(program)
        .env("LD_LIBRARY_PATH", folder)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let expected = format!("libmpi_abi.so.1 => {}", folder.join("libmpi_abi.so.1").display());
    match text.contains(&expected) {
        true => Ok(()),
        false => Err(format!("ldd {}: '{expected}' is not in {text}", program.display()).into()),
    }
}

fn binary_of_mpich_on_weft(peers: &Path, name: &str) -> Outcome {
    let (program, library) = (by_mpich(peers, name)?, build::library_folder()?);
    is_linked_to(&program, &library)?;
    for &ranks in RANKS {
        let ended = Job::new(&program, ranks)
            .env("LD_LIBRARY_PATH", &library)
            .over(common())
            .run()?;
        ended.is_well(name, ranks)?;
        library_is(&ended, name, "Weft")?;
    }
    Ok(())
}

fn binary_of_weft_on_mpich(peers: &Path, name: &str) -> Outcome {
    let (program, library) = (
        build::wrapped(&build::mpicc()?, name, "by-weft")?,
        peers.join("lib"),
    );
    is_linked_to(&program, &library)?;
    for &ranks in RANKS {
        let ended = Job::new(&program, ranks)
            .under(&peers.join("bin/mpiexec"))
            .env("LD_LIBRARY_PATH", &library)
            .run()?;
        ended.is_well(name, ranks)?;
        library_is(&ended, name, "MPICH")?;
    }
    Ok(())
}

fn weft_under_launcher_of_mpich(peers: &Path, name: &str) -> Outcome {
    let program = build::program(name)?;
    for &ranks in RANKS {
        let ended = Job::new(&program, ranks)
            .under(&peers.join("bin/mpiexec"))
            .over(common())
            .run()?;
        ended.is_well(name, ranks)?;
        library_is(&ended, name, "Weft")?;
    }
    Ok(())
}

fn mpich_under_launcher_of_weft(peers: &Path, name: &str) -> Outcome {
    let program = by_mpich(peers, name)?;
    for &ranks in RANKS {
        let ended = Job::new(&program, ranks)
            .env("LD_LIBRARY_PATH", peers.join("lib"))
            .run()?;
        ended.is_well(name, ranks)?;
        library_is(&ended, name, "MPICH")?;
    }
    Ok(())
}
