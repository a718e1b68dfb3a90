//! The measures of one-sided communication: each of windows of `MPI_Win_allocate`, and of memory that `MPI_Win_create` is given.

use super::{K, M, Measure, Point, Ranks, Scope, Value};

/// The operations and epochs of `one_sided.c`, and what they are.
pub const OPERATIONS: [(&str, &str); 17] = [
    ("put-8", "put of 8 B"),
    ("put-65536", "put of 64 KiB"),
    ("put-1048576", "put of 1 MiB"),
    ("get-8", "get of 8 B"),
    ("get-65536", "get of 64 KiB"),
    ("get-1048576", "get of 1 MiB"),
    ("fetch_and_op", "fetch-and-op"),
    ("compare_and_swap", "compare-and-swap"),
    ("accumulate-8", "accumulate of 8 B"),
    ("accumulate-1048576", "accumulate of 1 MiB"),
    ("fence", "empty fence"),
    ("fence_put", "put and fence"),
    ("lock", "exclusive lock, put, unlock"),
    ("lock_shared", "shared lock, put, unlock"),
    ("lock_all", "lock all, put, unlock all"),
    ("lock_contended", "exclusive lock, put, unlock by all ranks"),
    ("post_start", "post, start, put, complete, wait"),
];

pub const PROGRAM: &str = "one_sided";
/// The program's word for windows of `MPI_Win_allocate`.
pub const ALLOCATE: &str = "allocate";

const SECTION: &str = "One-sided communication";

const fn of_operations(
    name: &'static str,
    title: &'static str,
    arguments: &'static [&'static str],
    points: &'static [u64],
) -> Measure {
    Measure {
        name,
        section: SECTION,
        title,
        unit: "µs",
        lower_is_better: true,
        logarithmic: true,
        point: Point::Operation,
        key: &[],
        program: PROGRAM,
        arguments,
        points,
        ranks: Ranks::Two,
        scope: Scope::Named,
        rounds: 3,
        value: Value::Printed,
    }
}

const fn flushed(name: &'static str, title: &'static str, arguments: &'static [&'static str]) -> Measure {
    of_operations(name, title, arguments, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
}

const fn computing(name: &'static str, title: &'static str, arguments: &'static [&'static str]) -> Measure {
    of_operations(name, title, arguments, &[0, 3, 6, 8])
}

const fn epochs(name: &'static str, title: &'static str, arguments: &'static [&'static str]) -> Measure {
    Measure {
        ranks: Ranks::Extremes,
        ..of_operations(name, title, arguments, &[10, 11, 12, 13, 14, 15, 16])
    }
}

const fn stream(name: &'static str, title: &'static str, arguments: &'static [&'static str]) -> Measure {
    Measure {
        unit: "GB/s",
        lower_is_better: false,
        logarithmic: false,
        point: Point::Bytes,
        value: Value::GigabytesPerSecond(1.0),
        ..of_operations(name, title, arguments, &[4 * K, 64 * K, M])
    }
}

const fn rate(name: &'static str, title: &'static str, arguments: &'static [&'static str]) -> Measure {
    Measure {
        unit: "million/s",
        value: Value::MillionsPerSecond,
        points: &[8, 64, K],
        ..stream(name, title, arguments)
    }
}

pub const FLUSHED: Measure = flushed(
    "one-sided",
    "Operation and flush (allocate)",
    &[ALLOCATE, "operation"],
);
pub const FLUSHED_CREATED: Measure = flushed(
    "one-sided-created",
    "Operation and flush (create)",
    &["create", "operation"],
);
pub const STREAM: Measure = stream(
    "puts",
    "Bandwidth of 64 puts and a flush (allocate)",
    &[ALLOCATE, "stream"],
);
pub const STREAM_CREATED: Measure = stream(
    "puts-created",
    "Bandwidth of 64 puts and a flush (create)",
    &["create", "stream"],
);
pub const RATE: Measure = rate(
    "put-rate",
    "Rate of 4096 puts and a flush (allocate)",
    &[ALLOCATE, "rate"],
);
pub const RATE_CREATED: Measure = rate(
    "put-rate-created",
    "Rate of 4096 puts and a flush (create)",
    &["create", "rate"],
);
pub const EPOCHS: Measure = epochs("epochs", "Epoch (allocate)", &[ALLOCATE, "operation"]);
pub const EPOCHS_CREATED: Measure = epochs("epochs-created", "Epoch (create)", &["create", "operation"]);
pub const COMPUTING: Measure = computing(
    "computing",
    "Operation and flush at a target that computes (allocate)",
    &[ALLOCATE, "computing"],
);
pub const COMPUTING_CREATED: Measure = computing(
    "computing-created",
    "Operation and flush at a target that computes (create)",
    &["create", "computing"],
);
