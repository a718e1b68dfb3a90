//! Asking hwloc 2, which is loaded for that. No program is linked against it: loading it, and what it is linked against
//! itself, would cost each process of each job a part of a millisecond at its start, and most never ask.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

use libloading::Library;

use super::{Kind, Processors, Topology};

/// The library's name, which all of 2.x share: it stands for the binary interface.
const NAME: &str = if cfg!(target_os = "macos") {
    "libhwloc.15.dylib"
} else {
    "libhwloc.so.15"
};

/// Processors with higher numbers are not believed in; a set without end has them all.
const PROCESSORS_MAX: usize = 1 << 16;

/// `hwloc_obj_type_t` of a kind (`hwloc.h` of 2.0 and later: new ones have been added at the end only).
fn number(kind: Kind) -> c_int {
    match kind {
        Kind::Machine => 0,
        Kind::Package => 1,
        Kind::Core => 2,
        Kind::Thread => 3,
        Kind::L1Cache => 4,
        Kind::L2Cache => 5,
        Kind::L3Cache => 6,
        Kind::L4Cache => 7,
        Kind::L5Cache => 8,
        Kind::NumaNode => 13,
        Kind::Die => 19,
    }
}

/// `HWLOC_TYPE_DEPTH_UNKNOWN` and `HWLOC_TYPE_DEPTH_MULTIPLE`: there are no objects of the kind, or on several levels.
/// Other negative depths are those of memory.
const NO_DEPTH: [c_int; 2] = [-1, -2];

/// The beginning of `struct hwloc_obj` of 2.x, up to what is looked at.
#[repr(C)]
struct Object {
    kind: c_int,
    subtype: *const c_char,
    os_index: c_uint,
    name: *const c_char,
    total_memory: u64,
    attributes: *const c_void,
    depth: c_int,
    logical_index: c_uint,
    cousins: [*const c_void; 2],
    parent: *const c_void,
    sibling_rank: c_uint,
    siblings: [*const c_void; 2],
    arity: c_uint,
    children: [*const c_void; 3],
    symmetric_subtree: c_int,
    memory_arity: c_uint,
    memory_first_child: *const c_void,
    io_arity: c_uint,
    io_first_child: *const c_void,
    misc_arity: c_uint,
    misc_first_child: *const c_void,
    cpuset: *const c_void,
}

/// The functions that are used, with their types in `hwloc.h`.
struct Functions {
    init: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    load: unsafe extern "C" fn(*mut c_void) -> c_int,
    destroy: unsafe extern "C" fn(*mut c_void),
    type_depth: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    count: unsafe extern "C" fn(*mut c_void, c_int) -> c_uint,
    object: unsafe extern "C" fn(*mut c_void, c_int, c_uint) -> *const Object,
    next: unsafe extern "C" fn(*const c_void, c_int) -> c_int,
}

impl Functions {
    /// hwloc stays loaded for the life of the process.
    fn load() -> Result<Functions, libloading::Error> {
        // SAFETY: hwloc's constructors, and those of what it is linked against, ask for nothing but a process.
        let library = unsafe { Library::new(NAME) }?;
        // SAFETY: the functions have these types in all versions of this name.
        let functions = unsafe {
            Functions {
                init: *library.get(b"hwloc_topology_init\0")?,
                load: *library.get(b"hwloc_topology_load\0")?,
                destroy: *library.get(b"hwloc_topology_destroy\0")?,
                type_depth: *library.get(b"hwloc_get_type_depth\0")?,
                count: *library.get(b"hwloc_get_nbobjs_by_depth\0")?,
                object: *library.get(b"hwloc_get_obj_by_depth\0")?,
                next: *library.get(b"hwloc_bitmap_next\0")?,
            }
        };
        std::mem::forget(library);
        Ok(functions)
    }
}

/// A topology of hwloc's that is loaded.
struct Loaded {
    functions: Functions,
    raw: *mut c_void,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: it was initialised, and nothing of it is kept.
        unsafe { (self.functions.destroy)(self.raw) };
    }
}

impl Loaded {
    fn instances(&self, kind: Kind) -> Vec<Processors> {
        // SAFETY: the topology is loaded, here and below.
        let depth = unsafe { (self.functions.type_depth)(self.raw, number(kind)) };
        if NO_DEPTH.contains(&depth) {
            return Vec::new();
        }
        // SAFETY: as above.
        let count = unsafe { (self.functions.count)(self.raw, depth) };
        let objects = (0..count).map(|at| {
            // SAFETY: as above, and there are so many objects of this depth; null if not.
            let object = unsafe { (self.functions.object)(self.raw, depth, at) };
            // SAFETY: null, or an object of the topology, whose beginning is the same in all of 2.x.
            let cpuset = unsafe { object.as_ref() }.map_or(ptr::null(), |object| object.cpuset);
            self.processors(cpuset)
        });
        objects.collect()
    }

    fn processors(&self, cpuset: *const c_void) -> Processors {
        let mut all = Processors::default();
        let mut at = -1;
        while !cpuset.is_null() {
            // SAFETY: a set of the topology; -1 asks for the first.
            at = unsafe { (self.functions.next)(cpuset, at) };
            match usize::try_from(at) {
                Ok(processor) if processor < PROCESSORS_MAX => all.insert(processor),
                _ => break,
            }
        }
        all
    }
}

/// See [`Topology::discover`].
pub(super) fn discover() -> Result<Topology, String> {
    let functions = Functions::load().map_err(|error| {
        let why = error.to_string().replace('\n', " ");
        format!(
            "hwloc 2 can't be loaded: {why}. Install it (Debian, Ubuntu: apt install libhwloc15; Fedora, RHEL, SUSE: \
             hwloc-libs; Arch, macOS: hwloc)"
        )
    })?;
    let mut raw = ptr::null_mut();
    // SAFETY: the address of a pointer.
    if unsafe { (functions.init)(&mut raw) } != 0 {
        return Err("hwloc_topology_init has failed".into());
    }
    let loaded = Loaded { functions, raw };
    // SAFETY: just initialised.
    if unsafe { (loaded.functions.load)(loaded.raw) } != 0 {
        return Err(
            "hwloc_topology_load has failed: hwloc can't find out what this machine is made of".into(),
        );
    }
    Ok(Topology::of(Kind::ALL.map(|kind| (kind, loaded.instances(kind)))))
}
