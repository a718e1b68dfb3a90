//! What a rank uses that waits: next to no processor time, over each way and however the waits begin.

use libtest_mimic::Trial;

use crate::Outcome;
use crate::build;
use crate::job::Job;
use crate::matrix::common;

/// One test per way, where waits spin at first and where they do not: that decides on what a rank sleeps.
pub fn trials() -> Vec<Trial> {
    let ways = [
        "WEFT_LANES=shm".to_string(),
        "tcp;ofi_rxm".to_string(),
        common().to_string(),
        format!("WEFT_LANES=shm,ofi WEFT_FAKE_NODES=2 WEFT_PROVIDER={}", common()),
    ];
    let mut trials = Vec::new();
    for way in ways {
        for spin_us in ["0", "2000"] {
            let way = format!("{way} WEFT_SPIN_US={spin_us}");
            let name = format!("waiting::costs_nothing::{way}");
            trials.push(Trial::test(name, move || idle(&way)));
        }
    }
    trials
}

fn idle(way: &str) -> Outcome {
    let ended = Job::new(&build::program("idle")?, 3).over(way).run()?;
    ended.is_well("idle", 3)?;
    for line in ended.stdout.lines().filter(|line| line.starts_with("rank ")) {
        eprintln!("{way}: {line}");
    }
    Ok(())
}
