//! A Rust program with Weft inside: `examples/embedding.rs` on several ranks.

use std::process::Command;

#[path = "../examples/embedding.rs"]
mod example;

/// By `mpiexec`, each of these is a rank and runs the example.
#[test]
fn a_rust_program_needs_no_bindings() {
    const RANK: &str = "WEFT_TEST_EMBEDDED";
    if std::env::var_os(RANK).is_some() {
        example::main().expect("it runs");
        return;
    }
    let this = std::env::current_exe().expect("a test");
    for ranks in [1, 2, 3, 5] {
        let job = Command::new(env!("CARGO_BIN_EXE_mpiexec"))
            .args(["-n", &ranks.to_string(), "-timeout", "60"])
            .arg(&this)
            .args(["--exact", "a_rust_program_needs_no_bindings", "--nocapture"])
            .env(RANK, "1")
            .output()
            .expect("mpiexec starts");
        let text = String::from_utf8_lossy(&job.stdout);
        let sum = ranks * (ranks - 1) / 2;
        assert!(
            job.status.success() && text.contains(&format!("the ranks add up to {sum}")),
            "{ranks} ranks: {job:?}"
        );
    }
}
