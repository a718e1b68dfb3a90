//! Which cores each rank is bound to.
//!
//! By default the cores are shared out evenly, so that threads of a rank can use all of the rank's cores;
//! [`claims`](crate::claims) keeps jobs off each other's cores. The default is part of every start and reads a few small
//! files of `/sys`; only an option for binding needs hwloc's discovery of the whole machine.

use clap::ValueEnum;
use nix::sched::CpuSet;
use weft::tools::locality::{HardwareKind, Processors, Topology};

use crate::claims::Claims;
use crate::outcome::Failure;

/// What a rank is bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, serde::Serialize, serde::Deserialize)]
pub enum Bind {
    /// An even share of the cores that no other job has, if that is one or more for each of several ranks. With more ranks than cores one
    /// core, in turn, if no other job has any, and all get the same number of ranks. Otherwise nothing.
    #[value(skip)]
    Share,
    /// Nothing.
    None,
    /// A core that no other job has, if there are enough of them; otherwise from the first core on, and again from there if there
    /// are more ranks.
    Core,
    /// A hardware thread, in the same way.
    #[value(alias = "thread")]
    Hwthread,
    /// All cores of a NUMA node.
    Numa,
    /// All cores of a socket.
    #[value(alias = "package")]
    Socket,
}

/// Where the next rank goes on its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum MapBy {
    /// The next core.
    Slot,
    /// The next core.
    Core,
    /// The next NUMA node.
    Numa,
    /// The next socket.
    Socket,
}

/// A core that ranks may use, with its NUMA node and its socket.
#[derive(Clone, PartialEq, Eq, Debug)]
struct BindingUnit {
    core: Processors,
    numa: Processors,
    socket: Processors,
}

impl BindingUnit {
    /// What it is a part of, where ranks take such parts in turn.
    fn group(&self, map_by: MapBy) -> &Processors {
        match map_by {
            MapBy::Numa => &self.numa,
            _ => &self.socket,
        }
    }
}

/// The binding of each of `ranks` ranks; `None`: not bound. Cores are taken in `claims`.
pub fn bindings(
    bind: Bind,
    map_by: MapBy,
    ranks: usize,
    claims: &mut Claims,
) -> Result<Vec<Option<CpuSet>>, Failure> {
    let allowed = Processors::of_thread(0);
    let sets: Vec<Processors> = match (bind, map_by) {
        (Bind::None, _) => Vec::new(),
        // One rank keeps all cores.
        (Bind::Share, _) if ranks < 2 => Vec::new(),
        (Bind::Share, MapBy::Slot | MapBy::Core) => {
            let cores = cores_of_sysfs(&allowed);
            if ranks <= cores.len().min(share()) {
                shares(&claims.take(&cores, ranks..=cores.len()), ranks)
            } else if takes_turns(ranks, cores.len()) && allowed.len() == share() {
                claims.take(&cores, cores.len()..=cores.len())
            } else {
                Vec::new()
            }
        }
        (Bind::Share, _) if ranks > share() => Vec::new(),
        _ => {
            let topology = Topology::discover()
                .map_err(|why| Failure::launcher(format!("{why}; --bind-to none does without")))?;
            let mut units = units(&topology, &allowed)?;
            match bind {
                Bind::Socket => mapped(units, map_by)
                    .into_iter()
                    .map(|unit| unit.socket)
                    .collect(),
                Bind::Numa => mapped(units, map_by).into_iter().map(|unit| unit.numa).collect(),
                Bind::Hwthread => {
                    let cores: Vec<Processors> =
                        mapped(units, map_by).into_iter().map(|unit| unit.core).collect();
                    let wanted = cores_for_threads(&cores, ranks);
                    let free = claims.take(&cores, wanted..=wanted);
                    let taken = if free.is_empty() { cores } else { free };
                    let one = |thread: usize| [thread].into_iter().collect();
                    taken.iter().flat_map(Processors::iter).map(one).collect()
                }
                Bind::Core => {
                    let cores: Vec<Processors> =
                        mapped(units, map_by).into_iter().map(|unit| unit.core).collect();
                    let free = claims.take(&cores, ranks..=ranks);
                    if free.is_empty() { cores } else { free }
                }
                _ => {
                    let cores: Vec<Processors> = units.iter().map(|unit| unit.core.clone()).collect();
                    let free = claims.take(&cores, ranks..=cores.len());
                    units.retain(|unit| free.contains(&unit.core));
                    shares_of_groups(&groups(units, map_by), ranks)
                }
            }
        }
    };
    if sets.is_empty() {
        claims.release();
        return Ok(vec![None; ranks]);
    }
    sets.iter()
        .cycle()
        .take(ranks)
        .map(|processors| cpu_set(processors).map(Some))
        .collect()
}

/// How many processors this process may use: the affinity mask and the quota of its control group (rounded
/// down, at least 1) count.
fn share() -> usize {
    std::thread::available_parallelism().map_or(usize::MAX, |processors| processors.get())
}

/// Whether ranks that take turns on the cores are bound. The kernel leaves three of four on one of two cores for tenths of a second, as
/// none of them ever sleeps for long: seen in most of the runs of less than a second, which then took up to twice as long. Where cores would get different
/// numbers of ranks, the kernel is fairer to them.
fn takes_turns(ranks: usize, cores: usize) -> bool {
    cores > 1 && ranks.is_multiple_of(cores)
}

/// Shares neighbouring cores out to `ranks` ranks: as many to each, or one more. Empty: there are not enough.
fn shares(cores: &[Processors], ranks: usize) -> Vec<Processors> {
    if cores.len() < ranks {
        return Vec::new();
    }
    let bound = |rank: usize| rank * cores.len() / ranks;
    (0..ranks)
        .map(|rank| {
            cores[bound(rank)..bound(rank + 1)]
                .iter()
                .flat_map(Processors::iter)
                .collect()
        })
        .collect()
}

/// How many of the first cores have a hardware thread for each rank, or all.
fn cores_for_threads(cores: &[Processors], ranks: usize) -> usize {
    let mut threads = 0;
    let enough = cores.iter().position(|core| {
        threads += core.len();
        threads >= ranks
    });
    enough.map_or(cores.len(), |last| last + 1)
}

/// The same with ranks on the sockets (or NUMA nodes) in turn, those of a socket sharing its cores.
fn shares_of_groups(sockets: &[Vec<BindingUnit>], ranks: usize) -> Vec<Processors> {
    let cores = |socket: &[BindingUnit]| socket.iter().map(|unit| unit.core.clone()).collect::<Vec<_>>();
    if sockets.is_empty() {
        return Vec::new();
    }
    // A rank has several sockets where there are more of them than ranks.
    if ranks < sockets.len() {
        return shares(
            &sockets
                .iter()
                .flat_map(|socket| cores(socket))
                .collect::<Vec<_>>(),
            ranks,
        );
    }
    let of_sockets = sockets
        .iter()
        .enumerate()
        .map(|(number, socket)| shares(&cores(socket), (ranks - number).div_ceil(sockets.len())));
    let of_sockets: Vec<Vec<Processors>> = of_sockets.collect();
    let dealt = (0..ranks).map(|rank| {
        of_sockets[rank % sockets.len()]
            .get(rank / sockets.len())
            .cloned()
    });
    dealt.collect::<Option<Vec<_>>>().unwrap_or_default()
}

fn cpu_set(processors: &Processors) -> Result<CpuSet, Failure> {
    let mut set = CpuSet::new();
    for processor in processors.iter() {
        set.set(processor).map_err(|_| {
            Failure::launcher(format!(
                "can't bind to processor {processor}: its number is too high"
            ))
        })?;
    }
    Ok(set)
}

/// The allowed processors, those of one core together, and cores of one socket side by side, in there those of one last-level cache.
fn cores_of_sysfs(allowed: &Processors) -> Vec<Processors> {
    let mut cores: Vec<Processors> = Vec::new();
    for cpu in allowed.iter() {
        if cores.iter().any(|core| core.contains(cpu)) {
            continue;
        }
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let siblings = std::fs::read_to_string(path)
            .ok()
            .and_then(|text| cpu_list(text.trim()));
        let core = siblings.unwrap_or_default().within(allowed);
        // Where the kernel does not report cores, each processor counts as a core.
        cores.push(if core.contains(cpu) {
            core
        } else {
            [cpu].into_iter().collect()
        });
    }
    cores.sort_by_cached_key(|core| core.iter().next().map(neighbourhood));
    cores
}

/// What orders the processors: socket, last-level cache, number.
fn neighbourhood(cpu: usize) -> (usize, usize, usize) {
    let read = |file: &str| std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/{file}")).ok();
    let socket = read("topology/physical_package_id").and_then(|text| text.trim().parse().ok());
    let cache = read("cache/index3/shared_cpu_list").and_then(|text| cpu_list(text.trim())?.iter().next());
    (socket.unwrap_or(0), cache.unwrap_or(0), cpu)
}

/// Parses the kernel's lists: `0-3,8`.
fn cpu_list(text: &str) -> Option<Processors> {
    let mut cpus = Processors::default();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last.checked_sub(first)? > 1 << 16 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// The cores that may be used, as hwloc reports them.
fn units(topology: &Topology, allowed: &Processors) -> Result<Vec<BindingUnit>, Failure> {
    let sets = |kind| -> Vec<Processors> {
        let all = topology.instances(kind).iter().map(|one| one.within(allowed));
        all.filter(|one| !one.is_empty()).collect()
    };
    let mut cores = sets(HardwareKind::Core);
    if cores.is_empty() {
        cores = sets(HardwareKind::Thread);
    }
    if cores.is_empty() {
        return Err(Failure::launcher(
            "hwloc found no core that may be used; --bind-to none does without".into(),
        ));
    }
    let (sockets, numas) = (sets(HardwareKind::Package), sets(HardwareKind::NumaNode));
    let units = cores.into_iter().map(|core| {
        let of = |groups: &[Processors]| groups.iter().find(|group| group.meets(&core)).cloned();
        let socket = of(&sockets).unwrap_or_else(|| allowed.clone());
        BindingUnit {
            numa: of(&numas).unwrap_or_else(|| socket.clone()),
            socket,
            core,
        }
    });
    Ok(units.collect())
}

/// Puts the units in the order in which ranks take them.
fn mapped(units: Vec<BindingUnit>, map_by: MapBy) -> Vec<BindingUnit> {
    if !matches!(map_by, MapBy::Socket | MapBy::Numa) {
        return units;
    }
    let sockets = groups(units, map_by);
    let longest = sockets.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest)
        .flat_map(|turn| sockets.iter().filter_map(move |socket| socket.get(turn)).cloned())
        .collect()
}

/// The units of each socket or NUMA node.
fn groups(units: Vec<BindingUnit>, map_by: MapBy) -> Vec<Vec<BindingUnit>> {
    let mut groups: Vec<Vec<BindingUnit>> = Vec::new();
    for unit in units {
        let is_its = |group: &&mut Vec<BindingUnit>| {
            group
                .first()
                .is_some_and(|first| first.group(map_by) == unit.group(map_by))
        };
        match groups.iter_mut().find(is_its) {
            Some(group) => group.push(unit),
            None => groups.push(vec![unit]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(of: &[usize]) -> Processors {
        of.iter().copied().collect()
    }

    #[test]
    fn kernel_lists_are_parsed() {
        assert_eq!(cpu_list("0-2,8"), Some(set(&[0, 1, 2, 8])));
        assert_eq!(cpu_list("5"), Some(set(&[5])));
        assert!(cpu_list("0-65536").is_some() && cpu_list("0-65537").is_none());
        for text in ["", "a", "3-1", "0-", "0-99999999"] {
            assert_eq!(cpu_list(text), None, "{text}");
        }
    }

    /// Claims of the test alone, which no other job makes.
    fn claims(name: &str) -> Claims {
        Claims::named(&format!("weft-test-{}-{name}", std::process::id()))
    }

    #[test]
    fn several_ranks_share_the_cores_and_others_are_not_bound() {
        let cores = cores_of_sysfs(&Processors::of_thread(0)).len();
        let most = cores.min(share());
        for map_by in [MapBy::Slot, MapBy::Core, MapBy::Socket] {
            let mut claims = claims("share");
            for ranks in [1, most + 1] {
                let bound = bindings(Bind::Share, map_by, ranks, &mut claims).unwrap();
                assert_eq!(bound, vec![None; ranks]);
            }
            if most > 1 {
                let bound = bindings(Bind::Share, map_by, most, &mut claims).unwrap();
                assert!(bound.iter().all(Option::is_some));
                assert!((1..most).all(|rank| bound[rank] != bound[0]));
                let second = &mut self::claims("share");
                let bound = bindings(Bind::Share, map_by, most, second).unwrap();
                assert_eq!(bound, vec![None; most], "no core is free any more");
                let bound = bindings(Bind::Share, map_by, 2 * most, second).unwrap();
                assert_eq!(bound, vec![None; 2 * most], "nor any to take turns on");
            }
        }
        assert_eq!(
            bindings(Bind::None, MapBy::Slot, 1, &mut claims("none")).unwrap(),
            [None]
        );
    }

    #[test]
    fn ranks_take_turns_on_the_cores_where_all_cores_get_the_same_number() {
        let allowed = Processors::of_thread(0);
        let cores = cores_of_sysfs(&allowed);
        let whole = allowed.len() == share();
        let mut claims = claims("turns");
        for turns in 2..4 {
            let ranks = turns * cores.len();
            let bound = bindings(Bind::Share, MapBy::Slot, ranks, &mut claims).unwrap();
            for (rank, bound) in bound.iter().enumerate() {
                let core = cpu_set(&cores[rank % cores.len()]).unwrap();
                let expected = (whole && cores.len() > 1).then_some(core);
                assert_eq!(*bound, expected, "rank {rank} of {ranks}");
            }
            claims.release();
        }
        assert!(takes_turns(8, 4) && !takes_turns(9, 4) && !takes_turns(8, 1));
    }

    #[test]
    fn a_core_of_another_job_is_the_last_choice() {
        let cores = cores_of_sysfs(&Processors::of_thread(0)).len();
        let mut jobs: Vec<Claims> = (0..=cores).map(|_| claims("core")).collect();
        let bound: Vec<Option<CpuSet>> = jobs
            .iter_mut()
            .flat_map(|job| bindings(Bind::Core, MapBy::Slot, 1, job).unwrap())
            .collect();
        assert!((1..cores).all(|job| bound[job].is_some() && !bound[..job].contains(&bound[job])));
        // There is no free one for the last job, which has asked for one.
        assert_eq!(bound[cores], bound[0]);
    }

    #[test]
    fn cores_are_shared_out_evenly() {
        let cores: Vec<Processors> = (0..8).map(|core| set(&[core, core + 8])).collect();
        let of = |cores: &[Processors], ranks| -> Vec<String> {
            shares(cores, ranks).iter().map(Processors::to_string).collect()
        };
        assert_eq!(of(&cores, 2), ["0-3,8-11", "4-7,12-15"]);
        assert_eq!(of(&cores, 3), ["0-1,8-9", "2-4,10-12", "5-7,13-15"]);
        assert_eq!(of(&cores, 8)[7], "7,15");
        assert!(of(&cores, 9).is_empty() && of(&[], 1).is_empty());
        let unit = |core: usize, socket: usize| BindingUnit {
            core: set(&[core]),
            numa: set(&[socket]),
            socket: set(&[socket]),
        };
        let sockets = groups((0..8).map(|core| unit(core, core % 2)).collect(), MapBy::Socket);
        let of = |ranks| -> Vec<String> {
            shares_of_groups(&sockets, ranks)
                .iter()
                .map(Processors::to_string)
                .collect()
        };
        assert_eq!(of(1), ["0-7"]);
        assert_eq!(of(2), ["0,2,4,6", "1,3,5,7"]);
        assert_eq!(of(3), ["0,2", "1,3,5,7", "4,6"]);
        assert_eq!(of(8), ["0", "1", "2", "3", "4", "5", "6", "7"]);
        assert!(of(9).is_empty() && shares_of_groups(&[], 2).is_empty());
    }

    #[test]
    fn hwloc_and_sysfs_agree_about_cores() {
        let allowed = Processors::of_thread(0);
        let mut ours = cores_of_sysfs(&allowed);
        let mut theirs: Vec<Processors> = units(&Topology::discover().unwrap(), &allowed)
            .unwrap()
            .into_iter()
            .map(|unit| unit.core)
            .collect();
        ours.sort_by_key(|core| core.iter().next());
        theirs.sort_by_key(|core| core.iter().next());
        assert_eq!(ours, theirs);
    }

    #[test]
    fn mapping_by_socket_takes_turns() {
        let unit = |core: usize, socket: &[usize]| BindingUnit {
            core: set(&[core]),
            numa: set(&[core % 2]),
            socket: set(socket),
        };
        let units = vec![unit(0, &[0, 1]), unit(1, &[0, 1]), unit(2, &[2])];
        let order = |map_by| {
            mapped(units.clone(), map_by)
                .iter()
                .map(|unit| unit.core.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(order(MapBy::Socket), ["0", "2", "1"]);
        assert_eq!(order(MapBy::Numa), ["0", "1", "2"]);
        assert_eq!(order(MapBy::Core), ["0", "1", "2"]);
    }

    #[test]
    fn a_rank_of_a_hardware_thread_has_one() {
        let (threads, ranks) = (Processors::of_thread(0).len(), Processors::of_thread(0).len() + 1);
        let bound = bindings(Bind::Hwthread, MapBy::Slot, ranks, &mut claims("hwthread")).unwrap();
        let bound: Vec<Processors> = bound.iter().flatten().map(Processors::from).collect();
        assert_eq!(bound.len(), ranks);
        assert!(bound.iter().all(|one| one.len() == 1));
        assert!((1..threads).all(|rank| !bound[..rank].contains(&bound[rank])));
        assert_eq!(bound[threads], bound[0], "there is none for the last rank");
        let cores = [set(&[0, 4]), set(&[1]), set(&[2, 6])];
        let wanted = |ranks| cores_for_threads(&cores, ranks);
        assert_eq!([1, 2, 3, 4, 5, 6].map(wanted), [1, 1, 2, 3, 3, 3]);
    }

    #[test]
    fn a_rank_of_a_numa_node_has_all_of_it() {
        let allowed = Processors::of_thread(0);
        let topology = Topology::of([
            (HardwareKind::NumaNode, vec![set(&[0, 1]), set(&[2, 3])]),
            (HardwareKind::Core, (0..4).map(|core| set(&[core])).collect()),
        ]);
        let all = set(&[0, 1, 2, 3]);
        let nodes: Vec<String> = mapped(units(&topology, &all).unwrap(), MapBy::Numa)
            .iter()
            .map(|unit| unit.numa.to_string())
            .collect();
        assert_eq!(nodes, ["0-1", "2-3", "0-1", "2-3"]);
        let units = units(&Topology::discover().unwrap(), &allowed).unwrap();
        let bound = bindings(Bind::Numa, MapBy::Slot, units.len(), &mut claims("numa")).unwrap();
        for (unit, bound) in units.iter().zip(bound) {
            assert_eq!(bound, Some(cpu_set(&unit.numa).unwrap()));
        }
    }

    #[test]
    fn a_rank_of_a_socket_has_all_of_it() {
        let allowed = Processors::of_thread(0);
        let units = units(&Topology::discover().unwrap(), &allowed).unwrap();
        let mut claims = claims("socket");
        let bound = bindings(Bind::Socket, MapBy::Slot, units.len(), &mut claims).unwrap();
        for (unit, bound) in units.iter().zip(bound) {
            assert_eq!(bound, Some(cpu_set(&unit.socket).unwrap()));
        }
    }
}
