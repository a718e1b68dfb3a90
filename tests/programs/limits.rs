//! Settings that bound what a process holds.

use libtest_mimic::Trial;

use crate::Outcome;
use crate::build;
use crate::job::Job;
use crate::matrix::common;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![Trial::test(
        "limits::unexpected_messages_stay_with_their_senders",
        unexpected,
    )]
}

fn unexpected() -> Outcome {
    let program = build::program("backpressure")?;
    for provider in [common(), "tcp;ofi_rxm"] {
        // By default that much may be held, which shows that the program measures something.
        let job = Job::new(&program, 3).over(provider);
        job.run()?.is_well("backpressure", 3)?;
        let job = job.env("WEFT_UNEXPECTED_MAX", "1M");
        job.run()?.is_well("backpressure", 3)?;
    }
    Ok(())
}
