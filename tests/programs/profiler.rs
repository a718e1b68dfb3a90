//! The profiling interface (MPI 5.0 section 15.2): a preloaded library wraps `MPI_Send` by means of `PMPI_Send`.

use libtest_mimic::Trial;

use crate::Outcome;
use crate::build;
use crate::job::Job;
use crate::matrix::common;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![Trial::test("profiler::a_preloaded_library_counts_sends", counts)]
}

fn counts() -> Outcome {
    let ranks = 3;
    let library = build::preloaded("profiler")?;
    let ended = Job::new(&build::program("profiled")?, ranks)
        .option("-x")
        .option(format!("LD_PRELOAD={}", library.display()))
        .over(common())
        .run()?;
    ended.is_well("profiled", ranks)?;
    for rank in 0..ranks {
        let sends = rank + 1;
        ended.prints(&format!(
            "profiler: rank {rank} called MPI_Send {sends} times, with {} bytes\n",
            sends * 40
        ))?;
    }
    Ok(())
}
