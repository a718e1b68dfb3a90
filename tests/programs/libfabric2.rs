//! Programs about the transport on a libfabric of version 2, which PyPI's MPICH brings: a few, as a sample. `WEFT_TEST_PEERS` names
//! the folder where that is installed. The whole matrix, and the lane's own tests, run on it in `ci/soak.d/libfabric2`.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Trial;

use crate::Outcome;
use crate::build;
use crate::job::Job;

const PROVIDERS: &[&str] = &["tcp", "tcp;ofi_rxm", "shm"];

/// Each with its number of ranks: sizes around all limits and around the ends of receive buffers, many messages to one that is late,
/// both directions at once.
const PROGRAMS: &[(&str, u32)] = &[("sizes", 2), ("received", 2), ("late", 3), ("outstanding", 3)];

/// The tests; none, saying so, without MPICH.
pub fn trials() -> Vec<Trial> {
    let Some(peers) = std::env::var_os("WEFT_TEST_PEERS").filter(|path| !path.is_empty()) else {
        eprintln!("programs: WEFT_TEST_PEERS does not say where MPICH is: nothing is run on libfabric 2.x");
        return Vec::new();
    };
    let library = PathBuf::from(peers).join("lib/mpich");
    let mut trials = Vec::new();
    for &provider in PROVIDERS {
        for &(program, ranks) in PROGRAMS {
            let library = library.clone();
            let name = format!("libfabric2::{program}::{provider}");
            trials.push(Trial::test(name, move || run(&library, provider, program, ranks)));
        }
    }
    trials
}

fn run(library: &Path, provider: &str, program: &str, ranks: u32) -> Outcome {
    is_found(library)?;
    let job = Job::new(&build::program(program)?, ranks).over(provider);
    let ended = job.env("LD_LIBRARY_PATH", library).run()?;
    ended.is_well(program, ranks)
}

/// Weft loads the libfabric of that folder, and it is of version 2.
fn is_found(library: &Path) -> Outcome {
    let output = Command::new(env!("CARGO_BIN_EXE_weft-info"))
        .env("LD_LIBRARY_PATH", library)
        .output()?;
    let (said, complained) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    match said.contains(", libfabric 2.") {
        true => Ok(()),
        false => Err(format!("{}: no libfabric 2.x: {said}{complained}", library.display()).into()),
    }
}
