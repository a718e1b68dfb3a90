//! Reading an attribute takes nanoseconds, however many keys there are: `MPI_Comm_get_attr` of the first and of the last of
//! n attributes of a communicator, of one that is not there, and of a predefined one. `docs/performance.md` holds the
//! results.
//!
//! The process is a singleton, without a launcher.

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::ptr::null_mut;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use weft::abi::common::constants::{
    MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, MPI_COMM_WORLD, MPI_SUCCESS, MPI_TAG_UB,
};
use weft::abi::common::types::{Callback, MPI_Comm};

const KEYS: [usize; 5] = [1, 10, 100, 1000, 10_000];

unsafe extern "C" {
    fn MPI_Init(argc: *mut c_int, argv: *mut *mut *mut i8) -> c_int;
    fn MPI_Finalize() -> c_int;
    fn MPI_Comm_dup(comm: MPI_Comm, new: *mut MPI_Comm) -> c_int;
    fn MPI_Comm_free(comm: *mut MPI_Comm) -> c_int;
    fn MPI_Comm_create_keyval(copy: Callback, delete: Callback, key: *mut c_int, extra: *mut c_void)
    -> c_int;
    fn MPI_Comm_free_keyval(key: *mut c_int) -> c_int;
    fn MPI_Comm_set_attr(comm: MPI_Comm, key: c_int, value: *mut c_void) -> c_int;
    fn MPI_Comm_get_attr(comm: MPI_Comm, key: c_int, value: *mut c_void, flag: *mut c_int) -> c_int;
}

fn new_key() -> c_int {
    let mut key = 0;
    // SAFETY: predefined callbacks, and an `int`.
    let code = unsafe {
        MPI_Comm_create_keyval(
            MPI_COMM_NULL_COPY_FN,
            MPI_COMM_NULL_DELETE_FN,
            &mut key,
            null_mut(),
        )
    };
    assert_eq!(code, MPI_SUCCESS);
    key
}

/// Whether the communicator has an attribute under the key.
fn get(comm: MPI_Comm, key: c_int) -> bool {
    let (mut value, mut flag) = (null_mut::<c_void>(), 0);
    // SAFETY: a pointer to a pointer, and an `int`.
    let code = unsafe { MPI_Comm_get_attr(comm, key, (&raw mut value).cast(), &mut flag) };
    assert_eq!(code, MPI_SUCCESS);
    black_box(value);
    flag != 0
}

fn gets(c: &mut Criterion) {
    // SAFETY: null pointers are allowed.
    assert_eq!(unsafe { MPI_Init(null_mut(), null_mut()) }, MPI_SUCCESS);
    let mut group = c.benchmark_group("get_attr");
    for n in KEYS {
        let mut comm = 0;
        // SAFETY: a handle.
        assert_eq!(unsafe { MPI_Comm_dup(MPI_COMM_WORLD, &mut comm) }, MPI_SUCCESS);
        let mut keys: Vec<c_int> = (0..n).map(|_| new_key()).collect();
        for &key in &keys {
            // SAFETY: a value is never followed.
            assert_eq!(unsafe { MPI_Comm_set_attr(comm, key, null_mut()) }, MPI_SUCCESS);
        }
        let mut other = new_key();
        let cases = [
            ("first", keys[0], true),
            ("last", keys[n - 1], true),
            ("none", other, false),
            ("predefined", MPI_TAG_UB, true),
        ];
        for (name, key, there) in cases {
            assert_eq!(get(comm, key), there);
            group.bench_function(BenchmarkId::new(name, n), |b| {
                b.iter(|| get(black_box(comm), black_box(key)))
            });
        }
        // SAFETY: a handle and keys of ours.
        unsafe {
            assert_eq!(MPI_Comm_free(&mut comm), MPI_SUCCESS);
            for key in keys.iter_mut().chain([&mut other]) {
                assert_eq!(MPI_Comm_free_keyval(key), MPI_SUCCESS);
            }
        }
    }
    group.finish();
    // SAFETY: nothing of MPI is in use any more.
    assert_eq!(unsafe { MPI_Finalize() }, MPI_SUCCESS);
}

/// Functions, not macros that make undocumented ones.
mod groups {
    #![allow(missing_docs)]
    use super::*;
    criterion_group!(attribute, gets);
}

criterion_main!(groups::attribute);
