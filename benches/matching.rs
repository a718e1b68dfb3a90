//! Matching does not search: the cost of a match must not grow with the queue. Of the two queues: the message that
//! arrived last is received while n wait, and a message arrives for the receive that was posted last of n.
//! Then the whole thing: n messages wait, and are received in the reverse order of their tags.
//! `docs/performance.md` holds the results.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use weft::engine::matching::{Envelope, Pattern, Posted, Unexpected};
use weft::identity::Context;

const LENGTHS: [u32; 7] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000];

fn envelope(tag: u32) -> Envelope {
    Envelope {
        context: Context::WORLD,
        source: tag % 7,
        tag: tag as i32,
    }
}

fn exact(tag: u32) -> Pattern {
    Pattern {
        context: Context::WORLD,
        source: Some(tag % 7),
        tag: Some(tag as i32),
    }
}

/// The n-th of n unexpected messages is received, and comes again.
fn unexpected(c: &mut Criterion) {
    let mut group = c.benchmark_group("unexpected");
    for n in LENGTHS {
        let mut queue = Unexpected::default();
        for tag in 0..n {
            queue.push(envelope(tag), tag);
        }
        let pattern = exact(n - 1);
        group.bench_function(BenchmarkId::new("exact", n), |b| {
            b.iter(|| {
                let found = queue.find(black_box(&pattern)).expect("it waits");
                let (envelope, value) = queue.take(found);
                queue.push(envelope, value)
            })
        });
        let any_source = Pattern {
            source: None,
            ..pattern
        };
        group.bench_function(BenchmarkId::new("any source", n), |b| {
            b.iter(|| {
                let found = queue.find(black_box(&any_source)).expect("it waits");
                let (envelope, value) = queue.take(found);
                queue.push(envelope, value)
            })
        });
    }
    group.finish();
}

/// A message arrives for the n-th of n posted receives, which is posted again.
fn posted(c: &mut Criterion) {
    let mut group = c.benchmark_group("posted");
    for n in LENGTHS {
        let mut queue = Posted::default();
        for tag in 0..n {
            queue.push(exact(tag), tag);
        }
        let message = envelope(n - 1);
        group.bench_function(BenchmarkId::new("exact", n), |b| {
            b.iter(|| {
                let value = queue.take(black_box(&message)).expect("it waits");
                queue.push(exact(value), value)
            })
        });
        // Wildcards of other tags wait beside them.
        for tag in 0..n {
            queue.push(
                Pattern {
                    context: Context::WORLD,
                    source: None,
                    tag: Some((n + tag) as i32),
                },
                n + tag,
            );
        }
        let message = envelope(2 * n - 1);
        group.bench_function(BenchmarkId::new("any source", n), |b| {
            b.iter(|| {
                let value = queue.take(black_box(&message)).expect("it waits");
                queue.push(
                    Pattern {
                        context: Context::WORLD,
                        source: None,
                        tag: Some(value as i32),
                    },
                    value,
                )
            })
        });
    }
    group.finish();
}

/// n messages of one source wait, each with a tag of its own, and are received from the last to the first. Per message:
/// the throughput is what should not fall.
fn reversed(c: &mut Criterion) {
    let mut group = c.benchmark_group("reversed");
    group.sample_size(10);
    for n in LENGTHS {
        group.throughput(Throughput::Elements(n.into()));
        let message = |tag: u32| Envelope {
            context: Context::WORLD,
            source: 1,
            tag: tag as i32,
        };
        let filled = || {
            let mut queue = Unexpected::default();
            for tag in 0..n {
                queue.push(message(tag), tag);
            }
            queue
        };
        for any_source in [false, true] {
            let name = if any_source { "any source" } else { "exact" };
            group.bench_function(BenchmarkId::new(name, n), |b| {
                b.iter_batched_ref(
                    filled,
                    |queue| {
                        for tag in (0..n).rev() {
                            let pattern = Pattern {
                                context: Context::WORLD,
                                source: (!any_source).then_some(1),
                                tag: Some(tag as i32),
                            };
                            let found = queue.find(black_box(&pattern)).expect("it waits");
                            black_box(queue.take(found));
                        }
                    },
                    BatchSize::PerIteration,
                )
            });
        }
    }
    group.finish();
}

/// Functions, not macros that make undocumented ones.
mod groups {
    #![allow(missing_docs)]
    use super::*;
    criterion_group!(matching, unexpected, posted, reversed);
}

criterion_main!(groups::matching);
