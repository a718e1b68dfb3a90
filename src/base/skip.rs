//! Tests that can't run everywhere.

/// Prints why a test does nothing here. Where everything that tests need must be present (`CI=true`), it fails instead.
///
/// # Panics
/// In CI.
pub fn skip(why: impl std::fmt::Display) {
    skip_where(is_ci(std::env::var("CI").ok().as_deref()), why);
}

fn is_ci(value: Option<&str>) -> bool {
    value.is_some_and(|value| !matches!(value, "" | "0" | "false"))
}

fn skip_where(ci: bool, why: impl std::fmt::Display) {
    assert!(!ci, "in CI this test must run, but {why}");
    // Not `eprintln`, whose output cargo's test runner hides where a test passes.
    let line = format!(
        "skipped: {}: {why}\n",
        std::thread::current().name().unwrap_or("a test")
    );
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_skipped_in_ci() {
        for (value, ci) in [
            (None, false),
            (Some(""), false),
            (Some("0"), false),
            (Some("false"), false),
            (Some("true"), true),
            (Some("1"), true),
        ] {
            assert_eq!(is_ci(value), ci, "{value:?}");
        }
        skip_where(false, "this is a test of skipping");
        let refused = std::panic::catch_unwind(|| skip_where(true, "there is no hwloc"));
        let text = refused.expect_err("it fails in CI");
        let text = text.downcast_ref::<String>().expect("a text");
        assert!(text.contains("there is no hwloc"), "{text}");
    }
}
