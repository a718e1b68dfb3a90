//! C and Fortran programs (`tests/c/`, `tests/fortran/`) on Weft: over each provider with several numbers of ranks, dying in several ways, under
//! other launchers and on another MPI's library.
//!
//! Each program and provider is a test of its own: `cargo test --test programs -- sizes` runs one program over all
//! providers. `WEFT_TEST_REPEAT=100` runs each job so often, to hunt for what fails rarely.

mod aborts;
mod build;
mod confined;
mod cross;
mod deaths;
mod diagnosis;
mod dynamic;
mod elsewhere;
mod finalizing;
mod fortran;
mod job;
mod kills;
mod libfabric2;
mod limits;
mod locality;
mod matrix;
mod misuse;
mod onesided;
mod profiler;
mod semantics;
mod sessions;
mod unauthenticated;
mod waiting;

use libtest_mimic::{Arguments, Failed, Trial};

/// What a test ends with: nothing, or the text of its failure.
type Outcome = Result<(), Failed>;

fn main() {
    let arguments = Arguments::from_args();
    let mut trials: Vec<Trial> = Vec::new();
    trials.extend(matrix::trials());
    trials.extend(misuse::trials());
    trials.extend(onesided::trials());
    trials.extend(limits::trials());
    trials.extend(deaths::trials());
    trials.extend(diagnosis::trials());
    trials.extend(dynamic::trials());
    trials.extend(elsewhere::trials());
    trials.extend(aborts::trials());
    trials.extend(kills::trials());
    trials.extend(confined::trials());
    trials.extend(finalizing::trials());
    trials.extend(fortran::trials());
    trials.extend(unauthenticated::trials());
    trials.extend(profiler::trials());
    trials.extend(cross::trials());
    trials.extend(sessions::trials());
    trials.extend(semantics::trials());
    trials.extend(locality::trials());
    trials.extend(waiting::trials());
    trials.extend(libfabric2::trials());
    libtest_mimic::run(&arguments, trials).exit();
}
