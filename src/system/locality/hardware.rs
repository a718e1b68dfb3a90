//! The hardware of this machine as hwloc reports it: its kinds, how many there are of each, and to which of them a
//! process is confined.
//!
//! Discovery takes milliseconds, on large machines many, so it is done only where it is needed.

use std::sync::OnceLock;

use super::hwloc;
use super::processors::Processors;

/// A kind of hardware. The order is that of size: where one kind can be part of another it comes after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum HardwareKind {
    /// Everything that shares memory.
    Machine,
    /// The package in a socket.
    Package,
    /// A part of a package.
    Die,
    /// Memory, with the processors near it.
    NumaNode,
    /// A cache, data or unified.
    L5Cache,
    /// A cache, data or unified.
    L4Cache,
    /// A cache, data or unified.
    L3Cache,
    /// A cache, data or unified.
    L2Cache,
    /// A cache, data or unified.
    L1Cache,
    /// A core.
    Core,
    /// A hardware thread: what the kernel calls a processor.
    Thread,
}

impl HardwareKind {
    /// All of them, the largest first.
    pub const ALL: [HardwareKind; 11] = [
        HardwareKind::Machine,
        HardwareKind::Package,
        HardwareKind::Die,
        HardwareKind::NumaNode,
        HardwareKind::L5Cache,
        HardwareKind::L4Cache,
        HardwareKind::L3Cache,
        HardwareKind::L2Cache,
        HardwareKind::L1Cache,
        HardwareKind::Core,
        HardwareKind::Thread,
    ];

    /// Its name as a URI: hwloc's name after `hwloc://` (MPI 5.0, section 9.1.2).
    pub fn uri(self) -> &'static str {
        match self {
            HardwareKind::Machine => "hwloc://Machine",
            HardwareKind::Package => "hwloc://Package",
            HardwareKind::Die => "hwloc://Die",
            HardwareKind::NumaNode => "hwloc://NUMANode",
            HardwareKind::L5Cache => "hwloc://L5Cache",
            HardwareKind::L4Cache => "hwloc://L4Cache",
            HardwareKind::L3Cache => "hwloc://L3Cache",
            HardwareKind::L2Cache => "hwloc://L2Cache",
            HardwareKind::L1Cache => "hwloc://L1Cache",
            HardwareKind::Core => "hwloc://Core",
            HardwareKind::Thread => "hwloc://PU",
        }
    }

    /// The kind of a name: a URI, or hwloc's name alone, as in MPI 4.0.
    pub fn of_name(name: &str) -> Option<HardwareKind> {
        HardwareKind::ALL.into_iter().find(|kind| {
            let uri = kind.uri();
            uri == name || uri.strip_prefix("hwloc://") == Some(name)
        })
    }
}

/// The machine: for each kind that it has, the processors of each instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    kinds: Vec<(HardwareKind, Vec<Processors>)>,
}

impl Topology {
    /// Asks hwloc.
    ///
    /// # Errors
    /// hwloc is not installed, or finds nothing: as one line.
    pub fn discover() -> Result<Topology, String> {
        hwloc::discover()
    }

    /// The machine of this process, discovered once, when it is first needed: all instances of a process are on the same
    /// one. Without hwloc nothing is known about its parts.
    pub fn of_this_machine() -> &'static Topology {
        static TOPOLOGY: OnceLock<Topology> = OnceLock::new();
        TOPOLOGY.get_or_init(|| Topology::discover().unwrap_or_else(|_| Topology::of([])))
    }

    /// A machine with these instances. Kinds without any are left out; a machine is added where none is given.
    pub fn of(instances: impl IntoIterator<Item = (HardwareKind, Vec<Processors>)>) -> Topology {
        let mut kinds: Vec<_> = instances.into_iter().filter(|(_, all)| !all.is_empty()).collect();
        if !kinds.iter().any(|(kind, _)| *kind == HardwareKind::Machine) {
            kinds.push((HardwareKind::Machine, vec![Processors::default()]));
        }
        kinds.sort_by_key(|(kind, _)| *kind);
        Topology { kinds }
    }

    /// The kinds that this machine has, the largest first. A machine is always among them.
    pub fn kinds(&self) -> impl Iterator<Item = HardwareKind> {
        self.kinds.iter().map(|(kind, _)| *kind)
    }

    /// The processors of each instance of a kind; memory without processors has none.
    pub fn instances(&self, kind: HardwareKind) -> &[Processors] {
        let found = self.kinds.iter().find(|(known, _)| *known == kind);
        found.map_or(&[], |(_, all)| all)
    }

    /// The one instance of a kind that a process uses which may run on these processors; `None`: there are none or
    /// several. All processes of a machine get the same result.
    pub fn confined(&self, kind: HardwareKind, to: &Processors) -> Option<usize> {
        if kind == HardwareKind::Machine {
            return Some(0);
        }
        if to.is_empty() {
            return None;
        }
        // Two memories of the same processors are both used.
        let mut touched = (self.instances(kind).iter().enumerate()).filter(|(_, one)| one.meets(to));
        match (touched.next(), touched.next()) {
            (Some((at, one)), None) if one.contains_all(to) => Some(at),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(of: &[usize]) -> Processors {
        of.iter().copied().collect()
    }

    #[test]
    fn names_are_told_with_and_without_their_provider() {
        for kind in HardwareKind::ALL {
            assert_eq!(HardwareKind::of_name(kind.uri()), Some(kind));
        }
        assert_eq!(HardwareKind::of_name("NUMANode"), Some(HardwareKind::NumaNode));
        for other in [
            "",
            "hwloc://",
            "hwloc://core",
            "other://Core",
            "mpi_shared_memory",
        ] {
            assert_eq!(HardwareKind::of_name(other), None, "{other}");
        }
    }

    #[test]
    fn a_process_is_confined_to_what_holds_all_of_its_processors() {
        let topology = Topology::of([
            (HardwareKind::Package, vec![set(&[0, 1, 2, 3]), set(&[4, 5])]),
            (HardwareKind::Core, vec![set(&[0, 1]), set(&[2, 3]), set(&[4, 5])]),
            (
                HardwareKind::NumaNode,
                vec![set(&[0, 1, 2, 3, 4, 5]), set(&[4, 5]), set(&[])],
            ),
        ]);
        let confined = |to: &[usize]| {
            [HardwareKind::Machine, HardwareKind::Package, HardwareKind::Core]
                .map(|kind| topology.confined(kind, &set(to)))
        };
        assert_eq!(confined(&[3]), [Some(0), Some(0), Some(1)]);
        assert_eq!(confined(&[0, 3]), [Some(0), Some(0), None]);
        assert_eq!(confined(&[3, 4]), [Some(0), None, None]);
        // Processors that nobody knows, and none at all.
        assert_eq!(confined(&[5, 9]), [Some(0), None, None]);
        assert_eq!(confined(&[]), [Some(0), None, None]);
        // Of two memories that are equally near, neither is the only one.
        assert_eq!(topology.confined(HardwareKind::NumaNode, &set(&[4])), None);
        assert_eq!(topology.confined(HardwareKind::NumaNode, &set(&[1])), Some(0));
        assert_eq!(topology.confined(HardwareKind::L3Cache, &set(&[1])), None);
    }

    #[test]
    fn hwloc_knows_every_processor_of_this_process() {
        let topology = match Topology::discover() {
            Ok(topology) => topology,
            Err(why) => return crate::base::skip::skip(why),
        };
        let own = Processors::of_this_process();
        let threads: Processors = (topology.instances(HardwareKind::Thread).iter())
            .flat_map(Processors::iter)
            .collect();
        assert!(threads.contains_all(&own), "{own} of {threads}");
        assert_eq!(topology.kinds().next(), Some(HardwareKind::Machine));
        assert!(topology.instances(HardwareKind::Machine)[0].contains_all(&threads));
        // Cores are disjoint, and each is in one package.
        let cores = topology.instances(HardwareKind::Core);
        for (at, core) in cores.iter().enumerate() {
            assert!(cores[..at].iter().all(|other| !other.meets(core)), "core {at}");
            let packages = topology.instances(HardwareKind::Package);
            assert!(packages.is_empty() || packages.iter().any(|package| package.contains_all(core)));
        }
    }
}
