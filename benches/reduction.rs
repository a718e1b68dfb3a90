//! The predefined operations on arrays: sums of doubles of several lengths, on two operands and on eight, beside `memcpy`.
//!
//! `cargo bench --bench reduction -- --table` instead prints the least times, in nanoseconds for each KiB of an array: of these, and of every operation and type at
//! each level of instructions that the machine has, for 16 KiB (in the first cache) and 16 MiB, with nanoseconds of a call with one element. `-- --once` applies
//! `MPI_SUM` to one double ten times and nothing else, for callgrind. `-- --updates` prints the least nanoseconds of an update of one element, and of each of 1024, as
//! accumulates make them: atomically, atomically with the former value as result, and where nobody else may update.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use criterion::{Criterion, Throughput};
use weft::data::datatype::{Datatype, Element};
use weft::data::op::{Guard, Level, Op, Sharing};

fn datatype(name: &str) -> &'static Arc<Datatype> {
    let mut all = Datatype::all_predefined();
    all.find(|(_, datatype)| datatype.name() == name)
        .expect("a predefined type")
        .1
}

fn operation(name: &str) -> &'static Arc<Op> {
    let mut all = Op::all_predefined();
    all.find(|(_, op)| op.name() == name)
        .expect("a predefined operation")
        .1
}

/// Bytes that are small positive numbers in every format, and not the same everywhere.
fn operand(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| ((at * at * seed) >> 3) as u8 & 0x3f)
        .collect()
}

/// The least time of a call, in nanoseconds: of several batches.
fn least(bytes: usize, mut call: impl FnMut()) -> f64 {
    let calls = ((1 << 20) / bytes).clamp(1, 10_000);
    let mut least = f64::MAX;
    for _ in 0..15 {
        let start = Instant::now();
        for _ in 0..calls {
            call();
        }
        least = least.min(start.elapsed().as_secs_f64() / calls as f64);
    }
    least * 1e9
}

/// Types that differ in their elements, by name.
const TYPES: &[&str] = &[
    "MPI_INT8_T",
    "MPI_UINT8_T",
    "MPI_INT16_T",
    "MPI_UINT16_T",
    "MPI_INT32_T",
    "MPI_UINT32_T",
    "MPI_INT64_T",
    "MPI_UINT64_T",
    "MPI_INTEGER16",
    "MPI_REAL2",
    "MPI_FLOAT",
    "MPI_DOUBLE",
    "MPI_LONG_DOUBLE",
    "MPI_REAL16",
    "MPI_COMPLEX4",
    "MPI_C_COMPLEX",
    "MPI_C_DOUBLE_COMPLEX",
    "MPI_SHORT_INT",
    "MPI_2INT",
    "MPI_FLOAT_INT",
    "MPI_2REAL",
    "MPI_LONG_INT",
    "MPI_DOUBLE_INT",
    "MPI_2DOUBLE_PRECISION",
    "MPI_LONG_DOUBLE_INT",
];

const CACHED: usize = 16 << 10;
const LONG: usize = 16 << 20;

fn table() {
    let levels: Vec<_> = (Level::ALL.iter().copied())
        .filter(|level| level.is_here())
        .collect();
    let (input, start) = (operand(8 * LONG, 7), operand(LONG, 11));
    let mut inout = start.clone();
    let kib = |bytes: usize| bytes as f64 / 1024.0;
    let (sum, double) = (operation("MPI_SUM"), datatype("MPI_DOUBLE"));
    println!(
        "| bytes | memcpy | sum of 2 | sum of 8, one after the other | sum of 8 at once |\n| --- | --- | --- | --- | --- |"
    );
    for bytes in [1 << 10, CACHED, 128 << 10, 1 << 20, LONG] {
        let count = (bytes / 8) as u64;
        let operands: Vec<_> = (0..8).map(|place| input[place * bytes..].as_ptr()).collect();
        let copy = least(bytes, || {
            inout[..bytes].copy_from_slice(black_box(&input[..bytes]))
        });
        let output = inout.as_mut_ptr();
        // SAFETY: all operands and the output hold so many doubles.
        let apply = |operand: *const u8| unsafe { sum.apply(operand, output, count, double) };
        let two = least(bytes, || apply(black_box(operands[0])));
        let each = least(bytes, || {
            // SAFETY: as above.
            unsafe { output.copy_from_nonoverlapping(operands[7], bytes) };
            operands[..7].iter().rev().for_each(|operand| apply(*operand));
        });
        let once = least(bytes, || {
            // SAFETY: as above.
            unsafe { sum.combine_many(black_box(&operands), output, count, double) };
        });
        let numbers = [copy, two, each, once].map(|time| format!("{:.1}", time / kib(bytes)));
        println!("| {} KiB | {} |", bytes >> 10, numbers.join(" | "));
    }
    print!("| operation | type |");
    for level in &levels {
        print!(" {level:?}, 16 KiB | 16 MiB | 1 element |");
    }
    println!("\n{}", "| --- ".repeat(2 + 3 * levels.len()) + "|");
    for name in TYPES {
        let datatype = datatype(name);
        let element = datatype.element().expect("a predefined type");
        let size = datatype.extent() as usize;
        for (_, op) in Op::all_predefined() {
            if op.is_accumulate_only() || op.check(datatype).is_err() {
                continue;
            }
            print!("| {} | {name} |", op.name());
            for &level in &levels {
                let mut time = |bytes: usize| {
                    inout[..bytes].copy_from_slice(&start[..bytes]);
                    let count = (bytes / size) as u64;
                    least(bytes, || {
                        let (from, to) = (black_box(&input).as_ptr(), inout.as_mut_ptr());
                        // SAFETY: both hold so many elements, of numbers; the machine has the level.
                        unsafe { op.apply_at(level, from, to, count, element) };
                    })
                };
                let (cached, long, one) = (time(CACHED), time(LONG), time(size));
                print!(
                    " {:.1} | {:.1} | {one:.1} |",
                    cached / kib(CACHED),
                    long / kib(LONG)
                );
            }
            println!();
        }
    }
}

/// A lock that nobody else takes, beside which atomic operations stay in use.
struct Nobody;

impl Guard for Nobody {
    fn by_atomics(&self, update: &mut dyn FnMut()) -> bool {
        update();
        true
    }

    fn excludes_all(&self, _: bool) -> bool {
        false
    }

    fn lock(&self) {}

    fn unlock(&self) -> bool {
        false
    }

    fn give_way(&self) {}
}

/// Prints what an update of an element takes.
fn updates() {
    const ELEMENTS: u64 = 1024;
    println!("| operation | type | atomic | each | fetched | each | alone | each |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for name in [
        "MPI_INT32_T",
        "MPI_INT64_T",
        "MPI_FLOAT",
        "MPI_DOUBLE",
        "MPI_C_DOUBLE_COMPLEX",
        "MPI_DOUBLE_INT",
    ] {
        let datatype = datatype(name);
        let (operands, mut target, mut before) =
            (operand(1 << 15, 7), operand(1 << 15, 11), operand(1 << 15, 3));
        let first = target.as_ptr().align_offset(64);
        for (_, op) in Op::all_predefined() {
            if op.check_accumulate(datatype).is_err() {
                continue;
            }
            print!("| {} | {name} |", op.name());
            for (fetches, sharing) in [
                (false, Sharing::Shared(&Nobody)),
                (true, Sharing::Shared(&Nobody)),
                (false, Sharing::Alone),
            ] {
                for count in [1, ELEMENTS] {
                    let time = least(8 * count as usize, || {
                        let (from, to) = (black_box(&operands).as_ptr(), target[first..].as_mut_ptr());
                        let room = fetches.then_some(before.as_mut_ptr());
                        // SAFETY: all hold 1024 elements, of 16 bytes at most; nobody else uses them.
                        unsafe { op.update(datatype, from, to, count, room, sharing) };
                    });
                    print!(" {:.2} |", time / count as f64);
                }
            }
            println!();
        }
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    let double = datatype("MPI_DOUBLE");
    let sum = operation("MPI_SUM");
    let apply = |input: &[u8], inout: &mut [u8]| {
        // SAFETY: as many doubles in both.
        unsafe { sum.apply(input.as_ptr(), inout.as_mut_ptr(), inout.len() as u64 / 8, double) };
    };
    if arguments.iter().any(|argument| argument == "--table") {
        return table();
    }
    if arguments.iter().any(|argument| argument == "--updates") {
        return updates();
    }
    if arguments.iter().any(|argument| argument == "--once") {
        let (input, mut inout) = (operand(8, 7), operand(8, 11));
        assert!(matches!(double.element(), Some(Element::Basic(_))));
        for _ in 0..10 {
            once(&mut || apply(black_box(&input), &mut inout));
        }
        return;
    }
    let mut criterion = Criterion::default().configure_from_args();
    for bytes in [8, 1 << 10, CACHED, 1 << 20, LONG] {
        let mut group = criterion.benchmark_group(format!("{bytes} bytes"));
        group.throughput(Throughput::Bytes(bytes as u64));
        let inputs: Vec<_> = (1..=8).map(|seed| operand(bytes, seed)).collect();
        let mut output = operand(bytes, 11);
        group.bench_function("memcpy", |bench| {
            bench.iter(|| output.copy_from_slice(black_box(&inputs[0])))
        });
        group.bench_function("sum of two", |bench| {
            bench.iter(|| apply(black_box(&inputs[0]), &mut output))
        });
        group.bench_function("sum of eight, one after the other", |bench| {
            bench.iter(|| {
                output.copy_from_slice(&inputs[7]);
                for input in inputs[..7].iter().rev() {
                    apply(input, &mut output);
                }
            });
        });
        let addresses: Vec<_> = inputs.iter().map(|input| input.as_ptr()).collect();
        group.bench_function("sum of eight at once", |bench| {
            bench.iter(|| {
                // SAFETY: as many doubles in all.
                unsafe {
                    sum.combine_many(
                        black_box(&addresses),
                        output.as_mut_ptr(),
                        bytes as u64 / 8,
                        double,
                    )
                };
            });
        });
        group.finish();
    }
    criterion.final_summary();
}

/// A function of its own for callgrind.
#[inline(never)]
fn once(call: &mut dyn FnMut()) {
    call();
}
