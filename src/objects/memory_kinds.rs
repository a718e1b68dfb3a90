//! Kinds of memory (MPI 5.0 section 11.4.3): what the info key `mpi_memory_alloc_kinds` asks for and returns.
//!
//! The value is a list, separated by commas, of kinds, each of which may have restrictors after colons:
//! `system,mpi:alloc_mem`. Weft reads and writes any memory that the processor can, so it supports the kinds that the
//! standard itself names, and none of those of accelerators.

/// The info key.
pub const KEY: &str = "mpi_memory_alloc_kinds";

/// The kinds that there are, with their restrictors.
const KINDS: [(&str, &[&str]); 2] = [
    ("mpi", &["alloc_mem", "win_allocate", "win_allocate_shared"]),
    ("system", &[]),
];

/// The kinds that are always supported, whatever was asked for: the standard's default.
pub const DEFAULT: &str = "mpi,system";

/// Whether a kind with its restrictors is supported.
fn is_supported(wanted: &str) -> bool {
    let mut words = wanted.split(':');
    let kind = words.next().unwrap_or_default();
    KINDS
        .into_iter()
        .find(|(known, _)| *known == kind)
        .is_some_and(|(_, restrictors)| words.all(|word| restrictors.contains(&word)))
}

/// The supported kinds: those in a list of wanted ones, and those that always are. Unsupported ones are left out without an error.
pub fn supported(wanted: &str) -> String {
    let mut kinds: Vec<&str> = DEFAULT.split(',').collect();
    for kind in wanted.split(',').map(str::trim) {
        if is_supported(kind) && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_not_supported_is_left_out() {
        assert_eq!(supported(""), DEFAULT);
        assert_eq!(supported("system"), DEFAULT);
        assert_eq!(
            supported("cuda:device, mpi:alloc_mem,system,mpi:alloc_mem , mpi:hbm"),
            "mpi,system,mpi:alloc_mem"
        );
        assert_eq!(
            supported("mpi:win_allocate:win_allocate_shared,system:alloc_mem,mpi:,:"),
            "mpi,system,mpi:win_allocate:win_allocate_shared"
        );
    }

    proptest! {
        #[test]
        fn it_stays_as_it_is(wanted in "(mpi|system|cuda|:|,|alloc_mem|win_allocate| ){0,12}") {
            let once = supported(&wanted);
            prop_assert_eq!(supported(&once), once);
        }
    }
}
