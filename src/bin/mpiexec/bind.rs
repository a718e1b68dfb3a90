//! Which cores each rank is bound to.
//!
//! The default, a core for each rank while they fit, is on the way of every start and reads a few small files of
//! `/sys`; only what the user asks for by name pays for hwloc's discovery of the whole machine.

use clap::ValueEnum;
use nix::sched::CpuSet;
use weft::topology::{Kind, Processors, Topology};

use crate::outcome::Failure;

/// What a rank is bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Bind {
    /// A core each if the ranks fit on the cores, else nothing.
    #[value(skip)]
    Fit,
    /// Nothing.
    None,
    /// A core, from the first again if there are more ranks.
    Core,
    /// All cores of a socket.
    Socket,
}

/// Where the next rank goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum MapBy {
    /// The next core.
    Slot,
    /// The next core.
    Core,
    /// The next socket.
    Socket,
}

/// A core that ranks may use, with its socket.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Place {
    core: Processors,
    socket: Processors,
}

/// The binding of each of `ranks` ranks; `None`: not bound.
pub fn bindings(bind: Bind, map_by: MapBy, ranks: usize) -> Result<Vec<Option<CpuSet>>, Failure> {
    let allowed = Processors::of_thread(0);
    let sets: Vec<Processors> = match (bind, map_by) {
        (Bind::None, _) => Vec::new(),
        (Bind::Fit, MapBy::Slot | MapBy::Core) => {
            let cores = cores_of_sysfs(&allowed);
            if fits(ranks, cores.len(), share()) {
                cores
            } else {
                Vec::new()
            }
        }
        _ => {
            let topology = Topology::discover()
                .map_err(|why| Failure::launcher(format!("{why}; --bind-to none does without")))?;
            let places = mapped(places(&topology, &allowed)?, map_by);
            match bind {
                Bind::Socket => places.into_iter().map(|place| place.socket).collect(),
                Bind::Fit if !fits(ranks, places.len(), share()) => Vec::new(),
                _ => places.into_iter().map(|place| place.core).collect(),
            }
        }
    };
    if sets.is_empty() {
        return Ok(vec![None; ranks]);
    }
    sets.iter()
        .cycle()
        .take(ranks)
        .map(|processors| cpu_set(processors).map(Some))
        .collect()
}

/// How many processors' worth of time this process may use: the affinity mask and the quota of its control group (rounded
/// down, at least 1) count.
fn share() -> usize {
    std::thread::available_parallelism().map_or(usize::MAX, |processors| processors.get())
}

/// Whether each rank can have a core of its own. With less time than that the ranks take turns, and the kernel places them
/// better than anybody who does not know what else runs.
fn fits(ranks: usize, cores: usize, share: usize) -> bool {
    ranks <= cores.min(share)
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

/// The allowed processors, those of one core together.
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
        // Where the kernel tells nothing, each processor counts as a core.
        cores.push(if core.contains(cpu) {
            core
        } else {
            [cpu].into_iter().collect()
        });
    }
    cores
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

/// The cores that may be used, as hwloc tells them.
fn places(topology: &Topology, allowed: &Processors) -> Result<Vec<Place>, Failure> {
    let sets = |kind| -> Vec<Processors> {
        let all = topology.instances(kind).iter().map(|one| one.within(allowed));
        all.filter(|one| !one.is_empty()).collect()
    };
    let mut cores = sets(Kind::Core);
    if cores.is_empty() {
        cores = sets(Kind::Thread);
    }
    if cores.is_empty() {
        return Err(Failure::launcher(
            "hwloc found no core that may be used; --bind-to none does without".into(),
        ));
    }
    let sockets = sets(Kind::Package);
    let places = cores.into_iter().map(|core| {
        let socket = sockets.iter().find(|socket| socket.meets(&core));
        Place {
            socket: socket.unwrap_or(allowed).clone(),
            core,
        }
    });
    Ok(places.collect())
}

/// Puts the places in the order in which ranks take them.
fn mapped(places: Vec<Place>, map_by: MapBy) -> Vec<Place> {
    if map_by != MapBy::Socket {
        return places;
    }
    let mut sockets: Vec<Vec<Place>> = Vec::new();
    for place in places {
        match sockets
            .iter_mut()
            .find(|socket| socket.first().is_some_and(|first| first.socket == place.socket))
        {
            Some(socket) => socket.push(place),
            None => sockets.push(vec![place]),
        }
    }
    let longest = sockets.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest)
        .flat_map(|turn| sockets.iter().filter_map(move |socket| socket.get(turn)).cloned())
        .collect()
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

    #[test]
    fn ranks_that_fit_get_a_core_each_and_others_none() {
        let cores = cores_of_sysfs(&Processors::of_thread(0)).len();
        let most = cores.min(share());
        let bound = bindings(Bind::Fit, MapBy::Slot, most).unwrap();
        assert!(bound.iter().all(Option::is_some));
        assert!((1..most).all(|rank| bound[rank] != bound[0]));
        assert_eq!(
            bindings(Bind::Fit, MapBy::Slot, most + 1).unwrap(),
            vec![None; most + 1]
        );
        assert_eq!(
            Ok(share()),
            std::thread::available_parallelism()
                .map(|share| share.get())
                .map_err(drop)
        );
        assert_eq!(bindings(Bind::None, MapBy::Slot, 1).unwrap(), [None]);
        let by_socket = bindings(Bind::Fit, MapBy::Socket, most).unwrap();
        assert!(by_socket.iter().all(Option::is_some));
        assert_eq!(
            bindings(Bind::Fit, MapBy::Socket, most + 1).unwrap(),
            vec![None; most + 1]
        );
    }

    #[test]
    fn a_quota_counts_as_much_as_cores() {
        assert!(fits(4, 4, 4) && fits(1, 1, 1) && fits(2, 4, 2));
        assert!(!fits(5, 4, 8) && !fits(3, 4, 2));
    }

    #[test]
    fn hwloc_and_sysfs_agree_about_cores() {
        let allowed = Processors::of_thread(0);
        let mut ours = cores_of_sysfs(&allowed);
        let mut theirs: Vec<Processors> = places(&Topology::discover().unwrap(), &allowed)
            .unwrap()
            .into_iter()
            .map(|place| place.core)
            .collect();
        ours.sort_by_key(|core| core.iter().next());
        theirs.sort_by_key(|core| core.iter().next());
        assert_eq!(ours, theirs);
    }

    #[test]
    fn mapping_by_socket_takes_turns() {
        let place = |core: usize, socket: &[usize]| Place {
            core: set(&[core]),
            socket: set(socket),
        };
        let places = vec![place(0, &[0, 1]), place(1, &[0, 1]), place(2, &[2])];
        let order = |map_by| {
            mapped(places.clone(), map_by)
                .iter()
                .map(|place| place.core.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(order(MapBy::Socket), ["0", "2", "1"]);
        assert_eq!(order(MapBy::Core), ["0", "1", "2"]);
    }

    #[test]
    fn a_rank_of_a_socket_has_all_of_it() {
        let allowed = Processors::of_thread(0);
        let places = places(&Topology::discover().unwrap(), &allowed).unwrap();
        let bound = bindings(Bind::Socket, MapBy::Slot, places.len()).unwrap();
        for (place, bound) in places.iter().zip(bound) {
            assert_eq!(bound, Some(cpu_set(&place.socket).unwrap()));
        }
    }
}
