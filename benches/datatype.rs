//! Packing and unpacking against loops written by hand in C (`benches/loops/datatype.c`, compiled with `cc -O2`): a column of
//! a matrix, the faces of a 3-D array across each direction, an indexed type of 10,000 small blocks, structures of mixed
//! types.
//!
//! `cargo bench --bench datatype -- --once CASE WAY` runs one case ten times and nothing else, for callgrind; the ways are
//! `pack`, `unpack`, `pack-c` and `unpack-c`.

use std::ffi::{CString, c_char, c_long, c_void};
use std::process::Command;
use std::sync::Arc;

use criterion::{Criterion, Throughput};
use weft::data::datatype::{Datatype, Order};

const MATRIX: usize = 4096;
const CUBE: usize = 128;
const BLOCKS: usize = 10_000;

/// The compiled loops.
struct Loops(*mut c_void);

impl Loops {
    fn compile() -> Loops {
        let folder = tempfile::tempdir().expect("a folder");
        let library = folder.path().join("loops.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/loops/datatype.c");
        let compiled = Command::new("cc")
            .args(["-O2", "-fPIC", "-shared", "-o"])
            .args([library.as_os_str(), source.as_ref()])
            .status()
            .expect("a C compiler");
        assert!(compiled.success(), "{source} does not compile");
        let path = CString::new(library.to_str().expect("plain text")).expect("no zero");
        // SAFETY: a library without constructors.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{library:?} can't be loaded");
        Loops(handle)
    }

    /// The function of this name.
    ///
    /// # Safety
    /// It is of the type `F`, a function pointer.
    unsafe fn get<F: Copy>(&self, name: &str) -> F {
        let c_name = CString::new(name).expect("no zero");
        // SAFETY: a library that stays loaded.
        let address = unsafe { libc::dlsym(self.0, c_name.as_ptr().cast::<c_char>()) };
        assert!(!address.is_null(), "there is no {name}");
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
        // SAFETY: as long as a pointer, and the address of an `F`, as the caller says.
        unsafe { std::mem::transmute_copy(&address) }
    }
}

/// A copy by a loop of C's: array, packed bytes.
type ByHand = Box<dyn Fn(*mut u8, *mut u8)>;

struct Case {
    name: &'static str,
    datatype: Arc<Datatype>,
    count: u64,
    /// Bytes of the array.
    bytes: usize,
    pack: ByHand,
    unpack: ByHand,
}

type Strided = unsafe extern "C" fn(*mut u8, c_long, c_long, *mut u8);
type Cuboid = unsafe extern "C" fn(*mut u8, c_long, *const c_long, *mut u8);
type Indexed = unsafe extern "C" fn(*mut u8, c_long, *const i64, *const i64, *mut u8);
type Gather = unsafe extern "C" fn(*mut u8, c_long, *const i64, *mut u8);
type Records = unsafe extern "C" fn(*mut u8, c_long, *mut u8);

fn named(name: &str) -> &'static Arc<Datatype> {
    let mut all = Datatype::all_predefined();
    all.find(|(_, datatype)| datatype.name() == name)
        .expect("a predefined type")
        .1
}

fn column(loops: &Loops) -> Case {
    let side = MATRIX as i64;
    let copy = |name: &str| -> ByHand {
        // SAFETY: the type of the C function.
        let function: Strided = unsafe { loops.get(name) };
        // SAFETY: the column lies in the matrix.
        Box::new(move |array, packed| unsafe { function(array, MATRIX as c_long, MATRIX as c_long, packed) })
    };
    Case {
        name: "column",
        datatype: Datatype::vector(side, 1, side, named("MPI_DOUBLE")).expect("valid"),
        count: 1,
        bytes: MATRIX * MATRIX * 8,
        pack: copy("pack_strided"),
        unpack: copy("unpack_strided"),
    }
}

/// The face across the dimension `across`, without the array's halo.
fn face(loops: &Loops, name: &'static str, across: usize) -> Case {
    let mut sizes = [CUBE as i64 - 2; 3];
    sizes[across] = 1;
    let copy = |name: &str| -> ByHand {
        // SAFETY: the type of the C function.
        let function: Cuboid = unsafe { loops.get(name) };
        let sizes = sizes.map(|size| size as c_long);
        // SAFETY: the face lies in the array.
        Box::new(move |array, packed| unsafe { function(array, CUBE as c_long, sizes.as_ptr(), packed) })
    };
    let datatype = Datatype::subarray(&[CUBE as i64; 3], &sizes, &[1; 3], Order::C, named("MPI_DOUBLE"));
    Case {
        name,
        datatype: datatype.expect("valid"),
        count: 1,
        bytes: CUBE * CUBE * CUBE * 8,
        pack: copy("pack_box"),
        unpack: copy("unpack_box"),
    }
}

/// Blocks of `lengths` doubles, each a few doubles behind the last.
fn places(random: &mut fastrand::Rng, lengths: &[i64]) -> Vec<i64> {
    let mut at = 0;
    let place = |&length: &i64| {
        let place = at;
        at += length + random.i64(1..9);
        place
    };
    lengths.iter().map(place).collect()
}

fn indexed(loops: &Loops) -> Case {
    let mut random = fastrand::Rng::with_seed(1);
    let lengths: Vec<i64> = (0..BLOCKS).map(|_| random.i64(1..5)).collect();
    let places = places(&mut random, &lengths);
    let datatype = Datatype::indexed(&lengths, &places, named("MPI_DOUBLE")).expect("valid");
    let copy = |name: &str| -> ByHand {
        // SAFETY: the type of the C function.
        let function: Indexed = unsafe { loops.get(name) };
        let (lengths, places) = (lengths.clone(), places.clone());
        Box::new(move |array, packed| {
            // SAFETY: the blocks lie in the array.
            unsafe { function(array, BLOCKS as c_long, lengths.as_ptr(), places.as_ptr(), packed) }
        })
    };
    Case {
        name: "indexed",
        count: 1,
        bytes: datatype.extent() as usize,
        pack: copy("pack_indexed"),
        unpack: copy("unpack_indexed"),
        datatype,
    }
}

fn blocks(loops: &Loops) -> Case {
    let places = places(&mut fastrand::Rng::with_seed(2), &vec![1; BLOCKS]);
    let datatype = Datatype::indexed_block(1, &places, named("MPI_DOUBLE")).expect("valid");
    let copy = |name: &str| -> ByHand {
        // SAFETY: the type of the C function.
        let function: Gather = unsafe { loops.get(name) };
        let places = places.clone();
        // SAFETY: the blocks lie in the array.
        Box::new(move |array, packed| unsafe { function(array, BLOCKS as c_long, places.as_ptr(), packed) })
    };
    Case {
        name: "blocks",
        count: 1,
        bytes: datatype.extent() as usize,
        pack: copy("pack_gather"),
        unpack: copy("unpack_gather"),
        datatype,
    }
}

fn records(loops: &Loops) -> Case {
    let types = ["MPI_CHAR", "MPI_DOUBLE", "MPI_INT"].map(|name| named(name).clone());
    let plain = Datatype::struct_(&[1, 1, 3], &[0, 8, 16], &types).expect("valid");
    let copy = |name: &str| -> ByHand {
        // SAFETY: the type of the C function.
        let function: Records = unsafe { loops.get(name) };
        // SAFETY: the records lie in the array.
        Box::new(move |array, packed| unsafe { function(array, BLOCKS as c_long, packed) })
    };
    Case {
        name: "records",
        datatype: Datatype::resized(&plain, 0, 32).expect("valid"),
        count: BLOCKS as u64,
        bytes: BLOCKS * 32,
        pack: copy("pack_records"),
        unpack: copy("unpack_records"),
    }
}

/// The array and the packed bytes of a case.
fn buffers(case: &Case) -> (Vec<u8>, Vec<u8>) {
    let array = (0..case.bytes).map(|index| (index / 8) as u8).collect();
    (array, vec![0; (case.datatype.size() * case.count) as usize])
}

fn pack(case: &Case, array: &mut [u8], packed: &mut [u8]) {
    // SAFETY: all elements lie in the array.
    let bytes = unsafe { case.datatype.pack(array.as_ptr(), case.count, 0, &mut *packed) };
    assert_eq!(bytes, packed.len());
}

fn unpack(case: &Case, array: &mut [u8], packed: &mut [u8]) {
    // SAFETY: all elements lie in the array.
    let bytes = unsafe { case.datatype.unpack(array.as_mut_ptr(), case.count, 0, &*packed) };
    assert_eq!(bytes, packed.len());
}

/// Both ways do the same.
fn check(case: &Case) {
    let (mut array, mut packed) = buffers(case);
    let mut by_hand = packed.clone();
    pack(case, &mut array, &mut packed);
    (case.pack)(array.as_mut_ptr(), by_hand.as_mut_ptr());
    assert!(packed == by_hand, "{}: packed", case.name);
    let (mut one, mut other) = (vec![0; array.len()], vec![0; array.len()]);
    unpack(case, &mut one, &mut packed);
    (case.unpack)(other.as_mut_ptr(), by_hand.as_mut_ptr());
    assert!(one == other, "{}: unpacked", case.name);
}

fn main() {
    let loops = Loops::compile();
    let cases = [
        column(&loops),
        face(&loops, "x", 0),
        face(&loops, "y", 1),
        face(&loops, "z", 2),
        indexed(&loops),
        blocks(&loops),
        records(&loops),
    ];
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--once") {
        let (name, way) = (&arguments[at + 1], &arguments[at + 2]);
        let case = cases.iter().find(|case| case.name == name).expect("a case");
        let (mut array, mut packed) = buffers(case);
        for _ in 0..10 {
            match way.as_str() {
                "pack" => pack(case, &mut array, &mut packed),
                "unpack" => unpack(case, &mut array, &mut packed),
                "pack-c" => (case.pack)(array.as_mut_ptr(), packed.as_mut_ptr()),
                "unpack-c" => (case.unpack)(array.as_mut_ptr(), packed.as_mut_ptr()),
                other => panic!("no way {other}"),
            }
        }
        return;
    }
    let mut criterion = Criterion::default().configure_from_args();
    for case in &cases {
        check(case);
        let (mut array, mut packed) = buffers(case);
        let mut group = criterion.benchmark_group(case.name);
        group.throughput(Throughput::Bytes(packed.len() as u64));
        group.bench_function("pack", |b| b.iter(|| pack(case, &mut array, &mut packed)));
        group.bench_function("pack by hand", |b| {
            b.iter(|| (case.pack)(array.as_mut_ptr(), packed.as_mut_ptr()))
        });
        group.bench_function("unpack", |b| b.iter(|| unpack(case, &mut array, &mut packed)));
        group.bench_function("unpack by hand", |b| {
            b.iter(|| (case.unpack)(array.as_mut_ptr(), packed.as_mut_ptr()))
        });
        group.finish();
    }
    criterion.final_summary();
}
