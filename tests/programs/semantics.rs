//! What calls mean, whatever carries the messages: over one way, or those few that tell it apart.

use libtest_mimic::Trial;

use crate::Outcome;
use crate::build;
use crate::job::Job;
use crate::matrix::common;

const SHM: &str = "WEFT_LANES=shm";

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test(
            "semantics::errors_go_to_the_right_handler_with_the_right_code",
            || {
                are_well("raising", &[1, 3], SHM)?;
                are_well("raising", &[2], common())
            },
        ),
        Trial::test("semantics::tool_calls_return_codes_at_any_time", || {
            are_well("tool", &[1, 2], SHM)
        }),
        Trial::test("semantics::kinds_of_fortran_are_told_once", kinds_of_fortran),
        Trial::test("semantics::buffers_that_overlap_are_refused", || {
            are_well("aliased", &[1, 2, 3, 5], SHM)?;
            are_well("aliased", &[3], common())
        }),
        Trial::test("semantics::a_program_may_confine_itself_after_init", || {
            are_well("confine", &[1, 3], SHM)
        }),
        Trial::test("semantics::sessions_alone", sessions_alone),
        Trial::test("semantics::a_forked_child_leaves_the_endpoint_alone", forked),
    ]
}

fn are_well(program: &str, numbers: &[u32], way: &str) -> Outcome {
    for &ranks in numbers {
        let job = Job::new(&build::program(program)?, ranks).over(way);
        job.run()?.is_well(program, ranks)?;
    }
    Ok(())
}

/// A process is told once, so each case is a job of its own.
fn kinds_of_fortran() -> Outcome {
    for case in [
        "nothing", "usual", "wide", "narrow", "lacking", "refused", "threads",
    ] {
        for (ranks, way) in [(1, SHM), (2, SHM), (3, SHM), (5, SHM), (3, common())] {
            let job = Job::new(&build::program("fortran_kinds")?, ranks)
                .arguments(&[case])
                .over(way);
            job.run()?.is_well("fortran_kinds", ranks)?;
        }
    }
    Ok(())
}

/// Errors that belong to no object go to the initial error handler, which returns.
fn sessions_alone() -> Outcome {
    for ranks in [1, 3] {
        let job = Job::new(&build::program("session_only")?, ranks)
            .option("-initial-errhandler")
            .option("mpi_errors_return")
            .over(SHM);
        job.run()?.is_well("session_only", ranks)?;
    }
    Ok(())
}

/// What a child could close is of another kind with each of them.
fn forked() -> Outcome {
    for way in [common(), "tcp;ofi_rxm", "shm", SHM] {
        are_well("forked", &[3], way)?;
    }
    Ok(())
}
