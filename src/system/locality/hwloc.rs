//! Asking hwloc 2, which is loaded only for that. No program is linked against it: loading it and its own libraries would
//! cost each process of each job a part of a millisecond at its start, and most never use it.

use std::ffi::c_int;
use std::ptr;
use std::sync::OnceLock;

use weft_libfabric_sys::hwloc as sys;

use super::{HardwareKind, Processors, Topology};

/// Processors with higher numbers are taken for an error; a set without end contains all of them.
const PROCESSORS_MAX: usize = 1 << 16;

/// A kind as hwloc numbers it.
fn number(kind: HardwareKind) -> sys::hwloc_obj_type_t {
    match kind {
        HardwareKind::Machine => sys::HWLOC_OBJ_MACHINE,
        HardwareKind::Package => sys::HWLOC_OBJ_PACKAGE,
        HardwareKind::Die => sys::HWLOC_OBJ_DIE,
        HardwareKind::NumaNode => sys::HWLOC_OBJ_NUMANODE,
        HardwareKind::L5Cache => sys::HWLOC_OBJ_L5CACHE,
        HardwareKind::L4Cache => sys::HWLOC_OBJ_L4CACHE,
        HardwareKind::L3Cache => sys::HWLOC_OBJ_L3CACHE,
        HardwareKind::L2Cache => sys::HWLOC_OBJ_L2CACHE,
        HardwareKind::L1Cache => sys::HWLOC_OBJ_L1CACHE,
        HardwareKind::Core => sys::HWLOC_OBJ_CORE,
        HardwareKind::Thread => sys::HWLOC_OBJ_PU,
    }
}

/// There are no objects of the kind, or on several levels. Other negative depths are those of memory.
const NO_DEPTH: [c_int; 2] = [
    sys::HWLOC_TYPE_DEPTH_UNKNOWN as c_int,
    sys::HWLOC_TYPE_DEPTH_MULTIPLE as c_int,
];

/// A topology of hwloc's that is loaded.
struct Loaded {
    hwloc: &'static sys::Symbols,
    raw: sys::hwloc_topology_t,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: it was initialized, and no pointer into it is kept.
        unsafe { self.hwloc.hwloc_topology_destroy(self.raw) };
    }
}

impl Loaded {
    fn instances(&self, kind: HardwareKind) -> Vec<Processors> {
        // SAFETY: the topology is loaded, here and below.
        let depth = unsafe { self.hwloc.hwloc_get_type_depth(self.raw, number(kind)) };
        if NO_DEPTH.contains(&depth) {
            return Vec::new();
        }
        // SAFETY: as above.
        let count = unsafe { self.hwloc.hwloc_get_nbobjs_by_depth(self.raw, depth) };
        let objects = (0..count).map(|at| {
            // SAFETY: as above, and there are that many objects of this depth; null if not.
            let object = unsafe { self.hwloc.hwloc_get_obj_by_depth(self.raw, depth, at) };
            if object.is_null() {
                return Processors::default();
            }
            // SAFETY: an object of the topology. Its fields up to the set are the same in all of 2.x, and no others are read.
            let cpuset = unsafe { (*object).cpuset };
            self.processors(cpuset)
        });
        objects.collect()
    }

    fn processors(&self, cpuset: sys::hwloc_const_bitmap_t) -> Processors {
        let mut all = Processors::default();
        let mut at = -1;
        while !cpuset.is_null() {
            // SAFETY: a set of the topology; -1 asks for the first.
            at = unsafe { self.hwloc.hwloc_bitmap_next(cpuset, at) };
            match usize::try_from(at) {
                Ok(processor) if processor < PROCESSORS_MAX => all.insert(processor),
                _ => break,
            }
        }
        all
    }
}

/// hwloc, which stays loaded for the life of the process.
fn load() -> Result<&'static sys::Symbols, String> {
    static LOADED: OnceLock<Result<sys::Symbols, String>> = OnceLock::new();
    // SAFETY: hwloc's constructors, and those of its libraries, have no preconditions; the functions have these
    // types in all versions of this name.
    let loaded =
        LOADED.get_or_init(|| unsafe { sys::Symbols::new(sys::NAME) }.map_err(|error| error.to_string()));
    loaded.as_ref().map_err(|error| {
        let why = error.replace('\n', " ");
        format!(
            "hwloc 2 can't be loaded: {why}. Install it (Debian, Ubuntu: apt install libhwloc15; Fedora, RHEL, SUSE: \
             hwloc-libs; Arch, macOS: hwloc)"
        )
    })
}

/// See [`Topology::discover`].
pub(super) fn discover() -> Result<Topology, String> {
    let hwloc = load()?;
    let mut raw = ptr::null_mut();
    // SAFETY: the address of a pointer.
    if unsafe { hwloc.hwloc_topology_init(&mut raw) } != 0 {
        return Err("hwloc_topology_init has failed".into());
    }
    let loaded = Loaded { hwloc, raw };
    // SAFETY: just initialized.
    if unsafe { hwloc.hwloc_topology_load(loaded.raw) } != 0 {
        return Err(
            "hwloc_topology_load has failed: hwloc can't find out what this machine is made of".into(),
        );
    }
    Ok(Topology::of(
        HardwareKind::ALL.map(|kind| (kind, loaded.instances(kind))),
    ))
}
