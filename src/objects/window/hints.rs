//! Hints about a window (MPI 5.0 sections 12.2.1 to 12.2.4 and 12.2.7): what the user promises about its use.
//!
//! An info object of the window contains all hints for its flavor, with the values in use. A hint without a valid value
//! is ignored, and so is one that the standard or Weft does not know. Hints that are returned bind the user.
//!
//! What they change: `accumulate_ordering` lets accumulates overtake each other ([`orders_accumulates`]), `accumulate_ops` says which of them
//! conflict (`conflicts`), and those about allocation how a window's memory lies. The others change nothing.

use super::Flavor;
use crate::objects::allocation::{self, ALIGNMENT_KEY};
use crate::objects::info::Info;

/// One kind of hint.
struct Hint {
    key: &'static str,
    default: &'static str,
    is_valid: fn(&str) -> bool,
    /// The windows that have it.
    has: fn(Flavor) -> bool,
    /// Whether it is about how the window is made, so that it can't be changed later.
    fixed: bool,
}

fn boolean(value: &str) -> bool {
    matches!(value, "true" | "false")
}

/// `none`, or some of the orders between reads and writes.
fn orders(value: &str) -> bool {
    value == "none"
        || value
            .split(',')
            .all(|order| matches!(order, "rar" | "raw" | "war" | "waw"))
}

const HINTS: [Hint; 9] = [
    Hint {
        key: "no_locks",
        default: "false",
        is_valid: boolean,
        has: |_| true,
        fixed: false,
    },
    Hint {
        key: ORDERING_KEY,
        default: "rar,raw,war,waw",
        is_valid: orders,
        has: |_| true,
        fixed: false,
    },
    Hint {
        key: "accumulate_ops",
        default: "same_op_no_op",
        is_valid: |value| matches!(value, "same_op" | "same_op_no_op"),
        has: |_| true,
        fixed: false,
    },
    Hint {
        key: "mpi_accumulate_granularity",
        default: "0",
        is_valid: |value| value.parse::<u64>().is_ok(),
        has: |_| true,
        fixed: false,
    },
    Hint {
        key: "same_size",
        default: "false",
        is_valid: boolean,
        has: |flavor| flavor != Flavor::Dynamic,
        fixed: true,
    },
    Hint {
        key: "same_disp_unit",
        default: "false",
        is_valid: boolean,
        has: |flavor| flavor != Flavor::Dynamic,
        fixed: true,
    },
    Hint {
        key: SEPARATE_KEY,
        default: "false",
        is_valid: boolean,
        has: |flavor| flavor == Flavor::Shared,
        fixed: true,
    },
    Hint {
        key: ALIGNMENT_KEY,
        default: "64",
        is_valid: |value| allocation::alignment(value).is_some(),
        has: |flavor| flavor == Flavor::Allocate,
        fixed: true,
    },
    Hint {
        key: PROGRESS_KEY,
        default: "false",
        is_valid: boolean,
        has: |_| true,
        fixed: false,
    },
];

/// The hint in which order the accumulates of one origin are done.
const ORDERING_KEY: &str = "accumulate_ordering";
/// Weft's own: whether a thread makes progress while this process computes.
const PROGRESS_KEY: &str = "weft_progress_thread";

/// Whether the user wants that for a window with these hints.
pub fn wants_progress_thread(hints: &Info) -> bool {
    hints.get(PROGRESS_KEY).as_deref() == Some("true")
}

/// The hint that the parts of a shared window need not follow one another.
const SEPARATE_KEY: &str = "alloc_shared_noncontig";

/// Whether the user allows that.
pub fn may_be_separate(asked: Option<&Info>) -> bool {
    asked.and_then(|asked| asked.get(SEPARATE_KEY)).as_deref() == Some("true")
}

/// Whether accumulates of one origin are done in their order, as far as the hints promise that they need not be. Any order that is wanted
/// keeps all.
pub fn orders_accumulates(hints: &Info) -> bool {
    hints.get(ORDERING_KEY).as_deref() != Some("none")
}

/// The hints of a new window.
pub fn of_new(flavor: Flavor, asked: Option<&Info>) -> Info {
    let known = HINTS.iter().filter(|hint| (hint.has)(flavor));
    let values = known.map(|hint| (hint.key.to_string(), hint.default.to_string()));
    let hints = Info::of(values);
    if let Some(asked) = asked {
        adopt(&hints, asked, |_| true);
    }
    hints
}

/// Sets those hints of a window that can change.
pub fn change(hints: &Info, asked: &Info) {
    adopt(hints, asked, |hint| !hint.fixed);
}

fn adopt(hints: &Info, asked: &Info, may_change: impl Fn(&Hint) -> bool) {
    for hint in HINTS.iter().filter(|hint| may_change(hint)) {
        if hints.get(hint.key).is_some()
            && let Some(value) = asked.get(hint.key).filter(|value| (hint.is_valid)(value))
        {
            hints.set(hint.key, &value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(entries: &[(&str, &str)]) -> Info {
        Info::of(
            entries
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string())),
        )
    }

    #[test]
    fn defaults_are_valid() {
        for hint in &HINTS {
            assert!((hint.is_valid)(hint.default), "{}", hint.key);
        }
        assert_eq!(allocation::ALIGNMENT.to_string(), HINTS[7].default);
    }

    #[test]
    fn each_flavor_has_its_hints() {
        let of = |flavor| of_new(flavor, None);
        assert_eq!(of(Flavor::Create).get("no_locks").as_deref(), Some("false"));
        assert_eq!(
            of(Flavor::Dynamic).get("accumulate_ordering").as_deref(),
            Some("rar,raw,war,waw")
        );
        assert_eq!(of(Flavor::Create).get(SEPARATE_KEY), None);
        assert_eq!(of(Flavor::Shared).get(SEPARATE_KEY).as_deref(), Some("false"));
        assert_eq!(of(Flavor::Dynamic).get("same_size"), None);
        assert_eq!(of(Flavor::Create).get(ALIGNMENT_KEY), None);
        assert_eq!(of(Flavor::Allocate).get(ALIGNMENT_KEY).as_deref(), Some("64"));
    }

    #[test]
    fn valid_values_count() {
        let asked = info(&[
            ("no_locks", "true"),
            ("accumulate_ordering", "raw,waw"),
            ("accumulate_ops", "same_op"),
            ("mpi_accumulate_granularity", "4096"),
            ("same_size", "true"),
            (PROGRESS_KEY, "true"),
            (SEPARATE_KEY, "true"),
            ("of_another_library", "yes"),
        ]);
        let hints = of_new(Flavor::Create, Some(&asked));
        for (key, value) in asked.entries() {
            let counts = key != SEPARATE_KEY && key != "of_another_library";
            assert_eq!(hints.value(&key), counts.then_some(value), "{key}");
        }
        assert_eq!(hints.get("same_disp_unit").as_deref(), Some("false"));
        assert!(wants_progress_thread(&hints));
        change(&hints, &info(&[(PROGRESS_KEY, "no")]));
        assert!(wants_progress_thread(&hints));
        change(&hints, &info(&[(PROGRESS_KEY, "false")]));
        assert!(!wants_progress_thread(&hints));
    }

    #[test]
    fn others_are_ignored() {
        let asked = info(&[
            ("no_locks", "perhaps"),
            ("accumulate_ordering", "rar,,waw"),
            ("accumulate_ops", "any"),
            ("mpi_accumulate_granularity", "-1"),
        ]);
        let hints = of_new(Flavor::Dynamic, Some(&asked));
        assert_eq!(hints.entries(), of_new(Flavor::Dynamic, None).entries());
    }

    #[test]
    fn what_a_window_was_made_by_stays() {
        let hints = of_new(Flavor::Create, None);
        change(
            &hints,
            &info(&[
                ("same_size", "true"),
                ("no_locks", "true"),
                ("accumulate_ordering", "none"),
            ]),
        );
        assert_eq!(hints.get("same_size").as_deref(), Some("false"));
        assert_eq!(hints.get("no_locks").as_deref(), Some("true"));
        assert_eq!(hints.get("accumulate_ordering").as_deref(), Some("none"));
        assert_eq!(hints.get("accumulate_ops").as_deref(), Some("same_op_no_op"));
    }

    #[test]
    fn accumulates_are_in_order_unless_the_user_needs_none() {
        let hints = of_new(Flavor::Create, None);
        for (value, ordered) in [
            ("rar", true),
            ("none", false),
            ("rar,raw,war,waw", true),
            ("any", true),
        ] {
            change(&hints, &info(&[("accumulate_ordering", value)]));
            assert_eq!(orders_accumulates(&hints), ordered, "{value}");
        }
    }
}
