//! Every operation on every predefined type against [`Op::apply`], at every alignment; and threads that update the same elements.

use super::super::kernel_tests::{equal, random, size};
use super::*;
use crate::Class;
use crate::data::op::UserFunction;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// A lock that counts how often it was taken.
#[derive(Default)]
struct Spin {
    taken: AtomicBool,
    times: AtomicUsize,
    /// Words are updated under it only, now or from the first time on that this is wanted.
    excludes: AtomicBool,
    can_exclude: bool,
}

impl Spin {
    fn that_excludes(now: bool) -> Spin {
        Spin {
            excludes: now.into(),
            can_exclude: true,
            ..Spin::default()
        }
    }
}

impl Guard for Spin {
    fn by_atomics(&self, update: &mut dyn FnMut()) -> bool {
        let excludes = self.excludes.load(Ordering::Relaxed);
        if !excludes {
            update();
        }
        !excludes
    }

    fn excludes_all(&self, wanted: bool) -> bool {
        if wanted && self.can_exclude {
            self.excludes.store(true, Ordering::Relaxed);
        }
        self.excludes.load(Ordering::Relaxed)
    }

    fn lock(&self) {
        while self.taken.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        self.times.fetch_add(1, Ordering::Relaxed);
    }

    fn unlock(&self) -> bool {
        assert!(self.taken.swap(false, Ordering::Release));
        false
    }

    fn give_way(&self) {}
}

fn datatype(name: &str) -> &'static Arc<Datatype> {
    Datatype::all_predefined()
        .find(|(_, datatype)| datatype.name() == name)
        .expect("a predefined type")
        .1
}

fn op(name: &str) -> &'static Arc<Op> {
    Op::all_predefined()
        .find(|(_, op)| op.name() == name)
        .expect("a predefined operation")
        .1
}

fn kind(op: &Op) -> PredefinedKind {
    match op.function {
        Function::Predefined(kind) => kind,
        Function::User(..) => unreachable!("one of the table"),
    }
}

/// Words, so that the first byte is aligned for every type.
#[repr(align(32))]
struct Aligned([u8; 32 * 80]);

/// `count` elements packed.
fn packed(datatype: &Datatype, elements: &[u8], count: usize) -> Vec<u8> {
    let mut packed = vec![0; datatype.size() as usize * count];
    // SAFETY: so many elements are there.
    let written = unsafe { datatype.pack(elements.as_ptr(), count as u64, 0, &mut packed[..]) };
    assert_eq!(written, packed.len());
    packed
}

#[test]
fn every_operation_on_every_type() {
    let mut seed = fastrand::Rng::with_seed(16);
    let mut tested = 0;
    for (_, datatype) in Datatype::all_predefined() {
        let element = datatype.element().expect("a predefined type");
        let extent = datatype.extent() as usize;
        for (_, op) in Op::all_predefined() {
            if op.check_accumulate(datatype).is_err() {
                continue;
            }
            for offset in [0, 1, 4, 8] {
                for count in [1, 70] {
                    if cfg!(miri) && (count > 1 || seed.u8(..) > 20) {
                        continue;
                    }
                    tested += 1;
                    let (there, given) = match element {
                        // Values that no kernel looks at.
                        Element::Basic(basic)
                            if matches!(basic.category, Category::Character | Category::Packed) =>
                        {
                            let mut some = || (0..count * extent).map(|_| seed.u8(..)).collect::<Vec<u8>>();
                            (some(), some())
                        }
                        _ => (
                            random(element, count, &mut seed),
                            random(element, count, &mut seed),
                        ),
                    };
                    assert!(there.len() == count * extent && extent == size(element));
                    // What the reduction makes of it, with the operand as second one.
                    let mut combined = given.clone();
                    let mut wanted = there.clone();
                    if !op.is_no_op() {
                        // SAFETY: arrays of so many elements.
                        unsafe {
                            if !op.is_accumulate_only() {
                                op.apply(there.as_ptr(), combined.as_mut_ptr(), count as u64, datatype);
                            }
                            let data = packed(datatype, &combined, count);
                            datatype.unpack(wanted.as_mut_ptr(), count as u64, 0, &data[..]);
                        }
                    }
                    let operands = match op.is_no_op() {
                        true => Vec::new(),
                        false => packed(datatype, &given, count),
                    };
                    let old = packed(datatype, &there, count);
                    for (shared, fetches) in
                        (0..6).flat_map(|shared| [true, false].map(|fetches| (shared, fetches)))
                    {
                        let guard = match shared {
                            1 => Spin::that_excludes(false),
                            2 => Spin::that_excludes(true),
                            _ => Spin::default(),
                        };
                        let sharing = match shared {
                            0..3 => Sharing::Shared(&guard),
                            3 => Sharing::ByAtomics(&guard),
                            4 => Sharing::Locked,
                            _ => Sharing::Alone,
                        };
                        let mut memory = Box::new(Aligned([0xc3; 32 * 80]));
                        memory.0[offset..offset + there.len()].copy_from_slice(&there);
                        let mut before = vec![0x99; old.len() + 1];
                        // SAFETY: all have room for so many elements.
                        unsafe {
                            op.update(
                                datatype,
                                operands.as_ptr(),
                                memory.0.as_mut_ptr().wrapping_add(offset),
                                count as u64,
                                fetches.then_some(before.as_mut_ptr()),
                                sharing,
                            )
                        };
                        let what = || format!("{} on {} at {offset}", op.name(), datatype.name());
                        let got = &memory.0[offset..offset + there.len()];
                        for (got, wanted) in got.chunks(extent).zip(wanted.chunks(extent)) {
                            assert!(
                                equal(kind(op), element, got, wanted),
                                "{}: {got:?}, not {wanted:?}",
                                what()
                            );
                        }
                        let mut around = memory.0[..offset].iter().chain(&memory.0[offset + there.len()..]);
                        assert!(around.all(|byte| *byte == 0xc3), "{}", what());
                        match fetches {
                            true => assert!(
                                before.starts_with(&old) && before.ends_with(&[0x99]),
                                "{}",
                                what()
                            ),
                            false => assert!(before.iter().all(|byte| *byte == 0x99)),
                        }
                        let by_word = matches!(element, Element::Basic(_))
                            && extent <= 8
                            && offset.is_multiple_of(extent);
                        let locked = guard.times.load(Ordering::Relaxed);
                        let takes = match shared {
                            0 | 1 => !by_word || count as u64 >= MANY,
                            2 => true,
                            3 => !by_word,
                            _ => false,
                        };
                        assert_eq!(locked, usize::from(takes), "{}", what());
                    }
                }
            }
        }
    }
    assert!(cfg!(miri) || tested > 2000, "{tested}");
}

#[test]
fn nothing_is_updated_where_nothing_is_defined() {
    unsafe extern "C" fn overwrite(_: *mut c_void, inout: *mut c_void, _: *mut c_int, _: *mut usize) {
        // SAFETY: not called.
        unsafe { inout.cast::<i32>().write(-1) };
    }
    // SAFETY: not called.
    let users = unsafe {
        Op::user(
            UserFunction::Int(overwrite),
            true,
            crate::data::op::Lender::NOBODY,
        )
    };
    for (op, name) in [
        (&users, "MPI_INT"),
        (op("MPI_SUM"), "MPI_BYTE"),
        (op("MPI_BAND"), "MPI_FLOAT"),
    ] {
        let error = op.check_accumulate(datatype(name)).unwrap_err();
        assert_eq!(error.class, Class::Op);
        let (operand, mut target, mut before) = (7i32, 5i32, 3i32);
        for sharing in [Sharing::Alone, Sharing::Shared(&Spin::default())] {
            let (operand, target) = ((&raw const operand).cast(), (&raw mut target).cast());
            // SAFETY: 4 bytes each.
            unsafe {
                op.update(
                    datatype(name),
                    operand,
                    target,
                    1,
                    Some((&raw mut before).cast()),
                    sharing,
                )
            };
        }
        assert_eq!((target, before), (5, 3));
    }
}

/// Memory that threads update by the functions of this module.
struct Common(UnsafeCell<Aligned>);

// SAFETY: used by those functions alone while several threads run.
unsafe impl Sync for Common {}

impl Common {
    fn new(bytes: &[u8], at: usize) -> Common {
        let mut memory = Aligned([0; 32 * 80]);
        memory.0[at..at + bytes.len()].copy_from_slice(bytes);
        Common(UnsafeCell::new(memory))
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.0.get().cast::<u8>().wrapping_add(offset)
    }
}

const THREADS: usize = 4;
const TIMES: usize = if cfg!(miri) { 20 } else { 2000 };

fn by_threads(work: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
}

/// Each value of a counter is fetched once, whatever its type and wherever it is.
#[test]
fn no_update_is_lost() {
    let guard = Spin::default();
    let sharing = Sharing::Shared(&guard);
    for (name, one) in [
        ("MPI_INT16_T", 1i16.to_ne_bytes().to_vec()),
        ("MPI_INT32_T", 1i32.to_ne_bytes().to_vec()),
        ("MPI_UINT64_T", 1u64.to_ne_bytes().to_vec()),
        ("MPI_FLOAT", 1f32.to_ne_bytes().to_vec()),
        ("MPI_DOUBLE", 1f64.to_ne_bytes().to_vec()),
        ("MPI_INTEGER16", 1i128.to_ne_bytes().to_vec()),
        ("MPI_C_COMPLEX", [1f32.to_ne_bytes(), 0f32.to_ne_bytes()].concat()),
        (
            "MPI_C_DOUBLE_COMPLEX",
            [1f64.to_ne_bytes(), 0f64.to_ne_bytes()].concat(),
        ),
    ] {
        let datatype = datatype(name);
        let number = |bytes: &[u8]| match name {
            "MPI_FLOAT" | "MPI_C_COMPLEX" => f32::from_ne_bytes(*bytes.first_chunk().expect("4")) as usize,
            "MPI_DOUBLE" | "MPI_C_DOUBLE_COMPLEX" => {
                f64::from_ne_bytes(*bytes.first_chunk().expect("8")) as usize
            }
            _ => usize::from(u16::from_le_bytes([bytes[0], bytes[1]])),
        };
        for offset in [0, 2] {
            let common = Common::new(&vec![0; one.len()], offset);
            let seen: Vec<AtomicBool> = (0..THREADS * TIMES).map(|_| AtomicBool::default()).collect();
            by_threads(|_| {
                for _ in 0..TIMES {
                    let mut before = [0; 16];
                    // SAFETY: one element each; the target is common to threads that all do this.
                    unsafe {
                        op("MPI_SUM").update(
                            datatype,
                            one.as_ptr(),
                            common.at(offset),
                            1,
                            Some(before.as_mut_ptr()),
                            sharing,
                        )
                    };
                    assert!(!seen[number(&before)].swap(true, Ordering::Relaxed), "{name}");
                }
            });
            assert!(seen.iter().all(|seen| seen.load(Ordering::Relaxed)), "{name}");
        }
    }
}

/// The maximum of all that any thread offers, and where it was.
#[test]
fn pairs_and_kernels_keep_the_largest() {
    let guard = Spin::default();
    let (double_int, product) = (datatype("MPI_DOUBLE_INT"), datatype("MPI_UINT32_T"));
    let common = Common::new(&1u32.to_ne_bytes(), 64);
    by_threads(|thread| {
        for time in 0..TIMES {
            let value = ((time * 7919 + thread * 13) % 10007) as f64;
            let operand = [&value.to_ne_bytes()[..], &(thread as i32).to_ne_bytes()].concat();
            let three = 3u32.to_ne_bytes();
            // SAFETY: one element each; the targets are common to threads that all do this.
            unsafe {
                op("MPI_MAXLOC").update(
                    double_int,
                    operand.as_ptr(),
                    common.at(0),
                    1,
                    None,
                    Sharing::Shared(&guard),
                );
                op("MPI_PROD").update(
                    product,
                    three.as_ptr(),
                    common.at(64),
                    1,
                    None,
                    Sharing::Shared(&guard),
                );
            }
        }
    });
    let all = (0..THREADS)
        .flat_map(|thread| (0..TIMES).map(move |time| ((time * 7919 + thread * 13) % 10007, thread)));
    let largest = all.max_by_key(|&(value, thread)| (value, std::cmp::Reverse(thread)));
    let memory = common.0.into_inner().0;
    let value = f64::from_ne_bytes(*memory.first_chunk().expect("8")) as usize;
    let thread = i32::from_ne_bytes(*memory[8..].first_chunk().expect("4")) as usize;
    assert_eq!(Some((value, thread)), largest);
    let expected = (0..THREADS * TIMES).fold(1u32, |product, _| product.wrapping_mul(3));
    assert_eq!(
        u32::from_ne_bytes(*memory[64..].first_chunk().expect("4")),
        expected
    );
}

/// A program's lock: what it protects needs no atomic operations.
#[test]
fn locks_can_be_built_of_updates() {
    struct Protected(UnsafeCell<usize>);
    // SAFETY: used by whoever has the lock.
    unsafe impl Sync for Protected {}
    let guard = Spin::default();
    let sharing = Sharing::Shared(&guard);
    let (int, fetched) = (datatype("MPI_INT"), op("MPI_REPLACE"));
    for offset in [0, 6] {
        let (common, protected) = (Common::new(&[0; 4], offset), Protected(UnsafeCell::new(0)));
        let protected = &protected;
        let (free, taken) = (0i32.to_ne_bytes(), 1i32.to_ne_bytes());
        by_threads(|thread| {
            for _ in 0..TIMES / 4 {
                let mut was = [1; 4];
                while was != free {
                    // SAFETY: one integer each; the target is common to threads that all do this.
                    unsafe {
                        if thread % 2 == 0 {
                            fetched.update(
                                int,
                                taken.as_ptr(),
                                common.at(offset),
                                1,
                                Some(was.as_mut_ptr()),
                                sharing,
                            );
                        } else {
                            let (new, old) = (taken.as_ptr(), free.as_ptr());
                            compare_and_swap(int, new, old, was.as_mut_ptr(), common.at(offset), sharing);
                        }
                    }
                    std::thread::yield_now();
                }
                // SAFETY: the lock is this thread's; the target as above.
                unsafe {
                    *protected.0.get() += 1;
                    fetched.update(int, free.as_ptr(), common.at(offset), 1, None, sharing);
                }
            }
        });
        // SAFETY: the threads have ended.
        assert_eq!(unsafe { *protected.0.get() }, THREADS * (TIMES / 4));
    }
}

#[test]
fn compare_and_swap_takes_integers_and_truth_values() {
    let guard = Spin::default();
    let mut taken = 0;
    for (_, datatype) in Datatype::all_predefined() {
        let size = datatype.size() as usize;
        let allowed = match datatype.element() {
            Some(Element::Basic(basic)) => is_compared(basic.category),
            _ => false,
        };
        assert_eq!(check_compare_and_swap(datatype).is_ok(), allowed);
        taken += usize::from(allowed);
        for (offset, shared, differs) in [0, 1, 8].into_iter().flat_map(|offset| {
            [
                (offset, true, false),
                (offset, true, true),
                (offset, false, false),
                (offset, false, true),
            ]
        }) {
            let mut memory = Box::new(Aligned([0xc3; 32 * 80]));
            let (old, new): (Vec<u8>, Vec<u8>) = (0..size as u8).map(|byte| (byte + 1, byte + 101)).unzip();
            memory.0[offset..offset + size].copy_from_slice(&old);
            let mut compare = old.clone();
            compare[size - 1] ^= u8::from(differs);
            let mut result = vec![0x77; size];
            let target = memory.0.as_mut_ptr().wrapping_add(offset);
            let sharing = match shared {
                true => Sharing::Shared(&guard),
                false => Sharing::Alone,
            };
            // SAFETY: one element each.
            unsafe {
                compare_and_swap(
                    datatype,
                    new.as_ptr(),
                    compare.as_ptr(),
                    result.as_mut_ptr(),
                    target,
                    sharing,
                )
            };
            let now = if allowed && !differs { &new } else { &old };
            assert_eq!(&memory.0[offset..offset + size], &now[..], "{}", datatype.name());
            assert_eq!(result, if allowed { old.clone() } else { vec![0x77; size] });
            let around = memory.0[..offset].iter().chain(&memory.0[offset + size..]);
            assert!(around.into_iter().all(|byte| *byte == 0xc3));
        }
    }
    assert!(taken > 30, "{taken}");
    let derived = Datatype::contiguous(1, datatype("MPI_INT")).unwrap();
    for bad in [
        &derived,
        datatype("MPI_DOUBLE"),
        datatype("MPI_2INT"),
        datatype("MPI_PACKED"),
    ] {
        assert_eq!(check_compare_and_swap(bad).unwrap_err().class, Class::Type);
    }
    let error = check_compare_and_swap(datatype("MPI_DOUBLE")).unwrap_err();
    assert!(error.message.starts_with("datatype is MPI_DOUBLE;"), "{error}");
}

/// What the table has does the same as the general way, and it has no operation that is not defined.
#[test]
fn single_elements_are_updated_as_all_others() {
    let mut known = 0;
    for (_, datatype) in Datatype::all_predefined() {
        for (_, op) in Op::all_predefined() {
            let mut targets = [[0x0123_4567_89ab_cdefu64, 7]; 2];
            let (operand, mut was) = (0x0706_0504_0302_0100u64, [0u64; 2]);
            let operands = (&raw const operand).cast::<u8>();
            let at = targets.each_mut().map(|target| target.as_mut_ptr().cast::<u8>());
            let before = was.each_mut().map(|was| std::ptr::from_mut(was).cast::<u8>());
            let Some(single) = op.single(datatype) else {
                continue;
            };
            assert!(op.check_accumulate(datatype).is_ok());
            assert_eq!(single.size() as u64, datatype.size());
            let spin = Spin::default();
            // SAFETY: a word of 8 bytes each, and one behind it; the second element has one of its own.
            unsafe {
                for (result, sets) in [
                    (before.map(Some), at),
                    ([None; 2], at.map(|at| at.wrapping_add(8))),
                ] {
                    single.update(operands, sets[0], result[0].unwrap_or(std::ptr::null_mut()));
                    op.update(datatype, operands, sets[1], 1, result[1], Sharing::Shared(&spin));
                }
            }
            assert_eq!(targets[0], targets[1], "{} of {}", op.name(), datatype.name());
            assert_eq!(was[0], was[1], "{} of {}", op.name(), datatype.name());
            known += 1;
        }
    }
    assert!(known >= 6 * 16, "{known}");
}
