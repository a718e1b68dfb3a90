//! Inside a host: which of its processes takes which of its places, so that neighbours share a package, in there a memory (NUMA node), and in
//! there a last-level cache.
//!
//! The parts of one level after the other divide the places of each part of the level above, so no level takes neighbours from one above. At
//! first a host has the places that the mapping of hosts gives it, and each of its processes one of them. The methods for whole topologies
//! propose how to place the processes better, on what there is of the topology in the part, and the best proposal is taken, if it has
//! more neighbours in one part than there were.
//!
//! A process whose part is not known counts as alone in one.

use super::{Grid, Links, best, graph, grid};
use crate::system::locality::Location;

/// Who are neighbours.
#[derive(Clone, Copy)]
pub enum Pattern<'a> {
    /// Those of a grid.
    Grid(&'a Grid),
    /// Those of a graph.
    Graph(&'a Links),
}

/// Improves the mapping of hosts inside each host. `nodes`: the host of each rank; `locations`: in which of its parts it is. There are as
/// many ranks as places. `None`: each stays where it is.
pub fn improve(
    pattern: Pattern<'_>,
    mapping: Option<Vec<u32>>,
    nodes: &[u64],
    locations: &[Location],
) -> Option<Vec<u32>> {
    let mut rank_at = mapping.unwrap_or_else(|| (0..nodes.len() as u32).collect());
    let mut places = Places::new(nodes.len());
    for level in 0..Location::LEVELS {
        let above = |rank: u32| (nodes[rank as usize], &locations[rank as usize].parts[..level]);
        let known = |place: &u32| !above(rank_at[*place as usize]).1.contains(&None);
        let mut all: Vec<u32> = (0..nodes.len() as u32).filter(known).collect();
        all.sort_by_key(|&place| above(rank_at[place as usize]));
        let parts: Vec<&[u32]> = all
            .chunk_by(|&one, &next| above(rank_at[one as usize]) == above(rank_at[next as usize]))
            .collect();
        for part in parts {
            let ranks: Vec<u32> = part.iter().map(|&place| rank_at[place as usize]).collect();
            let number = |at: &u32| locations[ranks[*at as usize] as usize].parts[level];
            if let Some(better) = divide(pattern, part, number, &mut places) {
                for (&place, at) in part.iter().zip(better) {
                    rank_at[place as usize] = ranks[at as usize];
                }
            }
        }
    }
    let moved = (0..).zip(&rank_at).any(|(place, rank)| place != *rank);
    moved.then_some(rank_at)
}

/// Divides places, which are ascending, between smaller parts. Each place has a process; `number` says in which smaller part the process at the
/// place of this index is. Returns for each place the index of the one whose process comes to it; `None`: each stays.
fn divide(
    pattern: Pattern<'_>,
    places: &[u32],
    number: impl Fn(&u32) -> Option<u32>,
    index: &mut Places,
) -> Option<Vec<u32>> {
    let mut all: Vec<u32> = (0..places.len() as u32).collect();
    // Those that are alone come last, as no cut by a plane fits them.
    all.sort_by_key(|at| (number(at).is_none(), number(at)));
    let mut parts: Vec<&[u32]> = Vec::new();
    for part in all.chunk_by(|one, next| number(one) == number(next)) {
        match number(&part[0]) {
            Some(_) => parts.push(part),
            None => parts.extend(part.chunks(1)),
        }
    }
    if parts.len() < 2 || parts.len() == places.len() {
        return None;
    }
    let links = index.with(places, |index| match pattern {
        Pattern::Grid(whole) => Links::of_part_of_grid(whole, places, index),
        Pattern::Graph(whole) => whole.part(places, index),
    });
    let mut proposals = graph::proposals(&links, &parts);
    if let Pattern::Grid(whole) = pattern
        && let Some(part) = whole.spanned_by(places)
    {
        proposals.extend(grid::proposals(&part, &parts));
    }
    best(&parts, proposals, |part_of| links.together(part_of))
}

/// Where in a list of places each one is.
struct Places {
    index_of: Vec<Option<u32>>,
}

impl Places {
    /// Of a topology of so many places.
    fn new(number: usize) -> Places {
        Places {
            index_of: vec![None; number],
        }
    }

    /// Calls a function with the index of each place of a list.
    fn with<T>(&mut self, list: &[u32], function: impl FnOnce(&[Option<u32>]) -> T) -> T {
        for (index, &place) in (0..).zip(list) {
            self.index_of[place as usize] = Some(index);
        }
        let result = function(&self.index_of);
        list.iter()
            .for_each(|&place| self.index_of[place as usize] = None);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{grid_pairs, is_permutation};
    use super::super::{of_graph, of_grid};
    use super::*;
    use fastrand::Rng;
    use std::collections::BTreeMap;

    /// Ranks by node, as they are for the mapping of hosts.
    fn hosts(nodes: &[u64]) -> Vec<Vec<u32>> {
        let mut hosts: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for (rank, &node) in (0..).zip(nodes) {
            hosts.entry(node).or_default().push(rank);
        }
        hosts.into_values().collect()
    }

    fn at(package: u32, memory: u32, cache: u32) -> Location {
        Location {
            parts: [package, memory, cache].map(Some),
        }
    }

    /// Weights of neighbours that share a host, a package, a memory, a cache, counted one by one.
    fn shared(
        pairs: &[(u32, u32, u64)],
        nodes: &[u64],
        locations: &[Location],
        rank: impl Fn(u32) -> u32,
    ) -> [u64; 4] {
        let mut sums = [0; 4];
        for &(one, other, weight) in pairs.iter().filter(|(one, other, _)| one != other) {
            let [one, other] = [one, other].map(|place| rank(place) as usize);
            let [a, b] = [locations[one].parts, locations[other].parts];
            let levels = a
                .iter()
                .zip(&b)
                .take_while(|(a, b)| a.is_some() && a == b)
                .count();
            if nodes[one] == nodes[other] {
                sums[..=levels].iter_mut().for_each(|sum| *sum += weight);
            }
        }
        sums
    }

    /// Shared neighbours of a grid before and after.
    fn of_whole_grid(
        dims: &[i32],
        periodic: bool,
        nodes: &[u64],
        locations: &[Location],
    ) -> ([u64; 4], [u64; 4]) {
        let grid = Grid::new(dims, vec![periodic; dims.len()]).expect("a grid");
        let hosts = hosts(nodes);
        let hosts: Vec<&[u32]> = hosts.iter().map(Vec::as_slice).collect();
        let by_hosts = of_grid(&grid, &hosts);
        let mapping = improve(Pattern::Grid(&grid), by_hosts, nodes, locations);
        let rank_at = mapping.unwrap_or_else(|| (0..grid.size()).collect());
        is_permutation(&rank_at, grid.size());
        let pairs = grid_pairs(&grid);
        (
            shared(&pairs, nodes, locations, |place| place),
            shared(&pairs, nodes, locations, |place| rank_at[place as usize]),
        )
    }

    #[test]
    fn ranks_that_take_turns_on_packages_and_caches_are_put_together() {
        // Two packages with two caches each, by turns.
        let turns = |size: u32| -> Vec<Location> {
            (0..size)
                .map(|rank| at(rank % 2, rank % 2, rank / 2 % 2))
                .collect()
        };
        // 4 × 4 on a package, 2 × 4 behind a cache, and so on.
        for (dims, best) in [
            (&[4, 8][..], [52, 2 * 24, 2 * 24, 4 * 10]),
            (&[32], [31, 30, 30, 28]),
            (&[4, 4, 2], [64, 2 * 28, 2 * 28, 4 * 12]),
        ] {
            let (before, after) = of_whole_grid(dims, false, &[0; 32], &turns(32));
            assert_eq!(before[0], after[0]);
            assert!(after[1] > before[1] && after[3] > before[3], "{before:?}");
            assert_eq!(after, best, "{dims:?}");
        }
    }

    #[test]
    fn packages_divide_what_hosts_have() {
        // Two hosts by blocks, in each two packages by turns: squares of 4 × 4 are cut into 4 × 2.
        let nodes: Vec<u64> = (0..32).map(|rank| rank / 16).collect();
        let locations: Vec<Location> = (0..32).map(|rank| at(rank % 2, 0, 0)).collect();
        let (before, after) = of_whole_grid(&[8, 4], false, &nodes, &locations);
        assert_eq!((before, after), ([48, 24, 24, 24], [48, 40, 40, 40]));
        // Hosts by turns: their places change, too.
        let nodes: Vec<u64> = (0..32).map(|rank| rank % 2).collect();
        let locations: Vec<Location> = (0..32).map(|rank| at(rank / 2 % 2, 0, 0)).collect();
        let (before, after) = of_whole_grid(&[8, 4], false, &nodes, &locations);
        assert_eq!((before[0], after), (28, [48, 40, 40, 40]));
    }

    #[test]
    fn parts_may_be_uneven_and_processes_may_know_nothing() {
        // Three on one package and five on the other.
        let packages = [0, 1, 0, 1, 1, 0, 1, 1];
        let locations: Vec<Location> = packages.map(|package| at(package, package, package)).to_vec();
        let (before, after) = of_whole_grid(&[8], false, &[0; 8], &locations);
        assert_eq!((before[1], after[1]), (2, 6));
        let (_, after) = of_whole_grid(&[2, 4], false, &[0; 8], &locations);
        assert_eq!(after[1], 7);
        // Two of them are not bound, and one to a package only.
        let mut locations = locations;
        locations[3] = Location::default();
        locations[6] = Location::default();
        locations[5].parts[2] = None;
        let (before, after) = of_whole_grid(&[8], false, &[0; 8], &locations);
        assert_eq!((before, after), ([7, 0, 0, 0], [7, 4, 4, 3]));
        // All are alone, or all together.
        for location in [Location::default(), at(1, 1, 1)] {
            let (before, after) = of_whole_grid(&[2, 4], true, &[0; 8], &[location; 8]);
            assert_eq!(before, after);
        }
        assert_eq!(of_whole_grid(&[1], false, &[0], &[at(0, 0, 0)]).1, [0; 4]);
        assert_eq!(of_whole_grid(&[0], false, &[], &[]).1, [0; 4]);
    }

    /// By levels, the largest first, the sums are those of the identity up to the first level that is better. Whatever hosts had stays.
    #[test]
    fn no_level_is_worse_for_one_below() {
        let mut rng = Rng::with_seed(21);
        let mut gained = [0; 4];
        for _ in 0..600 {
            let dims: Vec<i32> = (0..rng.usize(1..4)).map(|_| rng.i32(1..6)).collect();
            let grid = Grid::new(&dims, dims.iter().map(|_| rng.bool()).collect()).expect("a grid");
            let size = grid.size();
            let number = rng.u64(1..5);
            let (by_turns, unknown) = (rng.bool(), rng.u32(2..20));
            let nodes: Vec<u64> = (0..u64::from(size))
                .map(|rank| {
                    if by_turns {
                        rank % number
                    } else {
                        rng.u64(..number)
                    }
                })
                .collect();
            let mut locations = Vec::new();
            for _ in 0..size {
                let (package, half, cache) = (rng.u32(..2), rng.u32(..2), rng.u32(..2));
                let memory = 2 * package + half;
                let mut location = at(package, memory, 2 * memory + cache);
                if rng.u32(..unknown) == 0 {
                    let from = rng.usize(..3);
                    location.parts[from..].fill(None);
                }
                locations.push(location);
            }
            let hosts = hosts(&nodes);
            let hosts: Vec<&[u32]> = hosts.iter().map(Vec::as_slice).collect();
            let check = |pairs: &[(u32, u32, u64)], by_hosts: Option<Vec<u32>>, mapping: Option<Vec<u32>>| {
                let or_same = |mapping: Option<Vec<u32>>| mapping.unwrap_or_else(|| (0..size).collect());
                let (by_hosts, mapping) = (or_same(by_hosts), or_same(mapping));
                is_permutation(&mapping, size);
                for (before, after) in by_hosts.iter().zip(&mapping) {
                    assert_eq!(nodes[*before as usize], nodes[*after as usize], "another host");
                }
                let before = shared(pairs, &nodes, &locations, |place| place);
                let hosts_only = shared(pairs, &nodes, &locations, |place| by_hosts[place as usize]);
                let after = shared(pairs, &nodes, &locations, |place| mapping[place as usize]);
                assert!(
                    after >= hosts_only && hosts_only >= before,
                    "{before:?} {hosts_only:?} {after:?}"
                );
                assert_eq!(after[0], hosts_only[0]);
                std::array::from_fn(|level| u32::from(after[level] > before[level]))
            };
            let by_hosts = of_grid(&grid, &hosts);
            let mapping = improve(Pattern::Grid(&grid), by_hosts.clone(), &nodes, &locations);
            let better: [u32; 4] = check(&grid_pairs(&grid), by_hosts, mapping);
            let edges: Vec<(u32, u32, u64)> = (0..rng.u32(..4 * size))
                .map(|_| (rng.u32(..size), rng.u32(..size), rng.u64(..9)))
                .collect();
            let links = Links::new(size, edges.iter().copied());
            let by_hosts = of_graph(&links, &hosts);
            let mapping = improve(Pattern::Graph(&links), by_hosts.clone(), &nodes, &locations);
            let also: [u32; 4] = check(&edges, by_hosts, mapping);
            for (sum, more) in gained.iter_mut().zip(better.iter().zip(also)) {
                *sum += more.0 + more.1;
            }
        }
        assert!(gained.iter().all(|&times| times > 300), "{gained:?}");
    }

    /// The time grows with the number of places and not with its square: this ends at once.
    #[test]
    fn many_processes() {
        let grid = Grid::new(&[16, 16, 12], vec![true, false, true]).expect("a grid");
        let nodes: Vec<u64> = (0..u64::from(grid.size())).map(|rank| rank / 128).collect();
        let locations: Vec<Location> = (0..grid.size())
            .map(|rank| at(rank % 2, rank % 4, rank % 16))
            .collect();
        for nodes in [nodes, vec![0; grid.size() as usize]] {
            let mapping = improve(Pattern::Grid(&grid), None, &nodes, &locations).expect("better");
            is_permutation(&mapping, grid.size());
            let links = Links::new(grid.size(), grid_pairs(&grid).into_iter());
            let mapping = improve(Pattern::Graph(&links), None, &nodes, &locations).expect("better");
            is_permutation(&mapping, grid.size());
        }
    }
}
