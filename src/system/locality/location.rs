//! In which parts of its host a process runs: package, memory, cache.
//!
//! The kernel tells of each processor which others share its package, its memory and its last cache, in a few small files of
//! `/sys/devices/system/cpu`. They are read here rather than hwloc asked, whose discovery of a whole machine takes milliseconds. A part has the
//! number of its first processor, which is the same to all processes of the machine; hwloc counts only what a process's control group allows
//! it, so the same number may mean different packages in two containers.

use std::path::Path;

use parking_lot::Mutex;

use super::Processors;

/// Where the kernel describes processors.
const PROCESSORS: &str = "/sys/devices/system/cpu";

/// In which parts of its host a process runs, where it is known.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Location {
    /// By level, the largest part first: package, memory (NUMA node), last-level cache. `None`: not known, or not a single one.
    pub parts: [Option<u32>; Location::LEVELS],
}

impl Location {
    /// How many levels of parts there are.
    pub const LEVELS: usize = 3;
    /// Length of an encoded one.
    pub const BYTES: usize = 4 * Location::LEVELS;

    /// Of this process, all of whose threads count. One that may run on several packages has no known location. The files are read once, and
    /// again when the process is bound elsewhere.
    pub fn of_this_process() -> Location {
        static READ: Mutex<Option<(usize, Parts)>> = Mutex::new(None);
        let own = Processors::of_this_process();
        let Some(first) = own.iter().next() else {
            return Location::default();
        };
        let mut read = READ.lock();
        let parts = match &*read {
            Some((processor, parts)) if *processor == first => parts,
            _ => &read.insert((first, Parts::read(first, Path::new(PROCESSORS)))).1,
        };
        Location::within(parts, &own)
    }

    /// Where each host counts as so many packages, to which its ranks are bound in turn (`WEFT_FAKE_PACKAGES`), and each machine as several
    /// hosts (`WEFT_FAKE_NODES`).
    pub fn pretended(rank: u32, nodes: u64, packages: u64) -> Location {
        let package = u64::from(rank) / nodes.max(1) % packages.max(1);
        Location {
            parts: [Some(package as u32); Location::LEVELS],
        }
    }

    /// Of a process that may run on these processors, the first of which is in these parts.
    fn within(parts: &Parts, own: &Processors) -> Location {
        let mut location = Location::default();
        for (number, part) in location.parts.iter_mut().zip(&parts.0) {
            // A process that is not in a single part is not in a single one of its parts either.
            if !part.contains_all(own) {
                break;
            }
            *number = part.iter().next().and_then(|first| u32::try_from(first).ok());
        }
        location
    }

    /// In a message.
    pub fn encode(self) -> [u8; Location::BYTES] {
        let mut bytes = [0; Location::BYTES];
        for (bytes, part) in bytes.as_chunks_mut().0.iter_mut().zip(self.parts) {
            *bytes = part.unwrap_or(UNKNOWN).to_le_bytes();
        }
        bytes
    }

    /// Any bytes are a location.
    pub fn decode(bytes: &[u8; Location::BYTES]) -> Location {
        let mut location = Location::default();
        for (part, bytes) in location.parts.iter_mut().zip(bytes.as_chunks().0) {
            *part = Some(u32::from_le_bytes(*bytes)).filter(|number| *number != UNKNOWN);
        }
        location
    }
}

/// In a message: no part.
const UNKNOWN: u32 = u32::MAX;

/// The processors of the parts in which a processor is, by level; none where the kernel does not tell.
#[derive(Default)]
struct Parts([Processors; Location::LEVELS]);

impl Parts {
    /// Reads the files of a processor.
    fn read(processor: usize, folder: &Path) -> Parts {
        let folder = folder.join(format!("cpu{processor}"));
        let Some(package) = package(&folder) else {
            return Parts::default();
        };
        // Without NUMA, a package is one memory.
        let memory = memory(&folder).unwrap_or_else(|| package.clone());
        let cache = cache(&folder).unwrap_or_default();
        Parts([package, memory, cache])
    }
}

/// The processors that a file lists.
fn list(file: &Path) -> Option<Processors> {
    Processors::parse(std::fs::read_to_string(file).ok()?.trim())
}

/// The processors of the package of the one that this folder describes.
fn package(folder: &Path) -> Option<Processors> {
    let topology = folder.join("topology");
    // Before Linux 5.3 it had the second name.
    list(&topology.join("package_cpus_list")).or_else(|| list(&topology.join("core_siblings_list")))
}

/// Those near the same memory: the folder has a link to that of the NUMA node.
fn memory(folder: &Path) -> Option<Processors> {
    let is_node = |name: &str| {
        name.strip_prefix("node")
            .is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let mut entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let node = entries.find(|entry| entry.file_name().to_str().is_some_and(is_node))?;
    list(&node.path().join("cpulist"))
}

/// Those behind the same last-level cache, which is that of the most processors.
fn cache(folder: &Path) -> Option<Processors> {
    /// A processor has about four.
    const CACHES_MAX: u32 = 16;
    let shared = |index| list(&folder.join(format!("cache/index{index}/shared_cpu_list")));
    (0..CACHES_MAX).map_while(shared).max_by_key(Processors::len)
}

#[cfg(test)]
mod tests {
    use super::super::{HardwareKind, Topology};
    use super::*;
    use crate::base::skip::skip;

    fn write(folder: &Path, file: &str, text: &str) {
        let file = folder.join(file);
        std::fs::create_dir_all(file.parent().expect("it is in a folder")).expect("a folder");
        std::fs::write(file, text).expect("a file");
    }

    /// Two packages of two memories, each with two caches of two processors; processors of one core are 16 apart.
    fn machine() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let lists = |cpu: usize, number: usize| {
            let first = cpu % 16 / number * number;
            let last = first + number - 1;
            format!("{first}-{last},{}-{}\n", first + 16, last + 16)
        };
        for cpu in 0..32 {
            let file = |name: &str| format!("cpu{cpu}/{name}");
            write(folder.path(), &file("topology/package_cpus_list"), &lists(cpu, 8));
            write(folder.path(), &file("node/uevent"), "not that of a NUMA node");
            write(
                folder.path(),
                &file(&format!("node{}/cpulist", cpu % 16 / 4)),
                &lists(cpu, 4),
            );
            write(
                folder.path(),
                &file("cache/index0/shared_cpu_list"),
                &lists(cpu, 1),
            );
            write(
                folder.path(),
                &file("cache/index1/shared_cpu_list"),
                &lists(cpu, 2),
            );
        }
        folder
    }

    fn located(folder: &Path, own: &[usize]) -> [Option<u32>; 3] {
        let parts = own.first().map(|&first| Parts::read(first, folder));
        let own = own.iter().copied().collect();
        Location::within(&parts.unwrap_or_default(), &own).parts
    }

    #[test]
    fn a_process_is_in_what_holds_all_of_its_processors() {
        let machine = machine();
        let located = |own: &[usize]| located(machine.path(), own);
        assert_eq!(located(&[15]), [Some(8), Some(12), Some(14)]);
        assert_eq!(located(&[14, 30, 31]), [Some(8), Some(12), Some(14)]);
        assert_eq!(located(&[12, 14]), [Some(8), Some(12), None]);
        assert_eq!(located(&[0, 4]), [Some(0), None, None]);
        assert_eq!(located(&[0, 8]), [None; 3]);
        // It is not known to the kernel.
        assert_eq!(located(&[77]), [None; 3]);
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_not_known() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(located(folder.path(), &[0]), [None; 3]);
        write(folder.path(), "cpu0/topology/core_siblings_list", "0-3\n");
        assert_eq!(located(folder.path(), &[0]), [Some(0), Some(0), None]);
        write(folder.path(), "cpu0/cache/index0/shared_cpu_list", "nonsense");
        assert_eq!(located(folder.path(), &[0]), [Some(0), Some(0), None]);
        write(folder.path(), "cpu0/cache/index0/shared_cpu_list", "0-1");
        assert_eq!(located(folder.path(), &[0, 1]), [Some(0), Some(0), Some(0)]);
    }

    /// The kernel and hwloc say of the same processors that they share a package.
    #[test]
    fn it_is_as_hwloc_says() {
        let Ok(topology) = Topology::discover() else {
            return skip("hwloc is needed");
        };
        let seen = |processor| {
            let alone: Processors = [processor].into_iter().collect();
            let by_kernel = Location::within(&Parts::read(processor, Path::new(PROCESSORS)), &alone).parts[0];
            let by_hwloc = topology.confined(HardwareKind::Package, &alone);
            (by_kernel, by_hwloc)
        };
        let own: Vec<_> = Processors::of_this_process().iter().map(seen).collect();
        for one in &own {
            for other in own.iter().filter(|_| one.0.is_some() && one.1.is_some()) {
                assert_eq!(one.0 == other.0, one.1 == other.1, "{own:?}");
            }
        }
    }

    #[test]
    fn a_location_comes_back() {
        for parts in [[None; 3], [Some(0), Some(70), None], [Some(1), Some(2), Some(3)]] {
            let location = Location { parts };
            assert_eq!(Location::decode(&location.encode()), location);
        }
    }

    #[test]
    fn pretended_packages_take_turns_on_each_pretended_host() {
        let packages = |nodes| [0, 1, 2, 3, 4, 5].map(|rank| Location::pretended(rank, nodes, 2).parts[0]);
        assert_eq!(packages(0), [0, 1, 0, 1, 0, 1].map(Some));
        assert_eq!(packages(2), [0, 0, 1, 1, 0, 0].map(Some));
    }
}
