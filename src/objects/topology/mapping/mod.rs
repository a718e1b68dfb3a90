//! Which process takes which place of a topology, so that neighbours share a host where they can (`reorder`).
//!
//! Several simple methods propose how to place processes. For each proposal the neighbours that share a host are counted, by weight
//! where edges have weights, and the best one is taken: the identity, unless another one is better.
//!
//! A method puts the places into an order, and the processes, host by host, take them in this order. Inside a host, too, places that
//! follow each other are near each other. So neighbours in a grid share packages and caches where consecutive ranks do, as launchers bind them. Where
//! processes have told each other in which parts of their hosts they are, the same methods then improve the mapping inside each host.
//!
//! - `grid`: the methods for grids
//! - `graph`: those for graphs; `exchange`: improves them
//! - [`improve`]: packages, memories and caches inside a host
//!
//! All processes compute the same from what all know: the topology, the launcher's list of hosts, and what they have told each other.

mod exchange;
mod graph;
mod grid;
mod inside;

use super::cartesian::Grid;
pub use graph::Links;
pub use inside::{Pattern, improve};

/// Which of the ranks from 0 on share a host, or a part of one: the ranks of each host, ascending.
pub type Hosts<'a> = [&'a [u32]];

/// The rank of the process that takes each place of a grid; `None`: each stays where it is. There are as many ranks as places.
pub fn of_grid(grid: &Grid, hosts: &Hosts) -> Option<Vec<u32>> {
    let links = |host_of: &[u32]| grid::together(grid, host_of);
    best(hosts, grid::proposals(grid, hosts), links)
}

/// The same for the nodes of a graph.
pub fn of_graph(links: &Links, hosts: &Hosts) -> Option<Vec<u32>> {
    let together = |host_of: &[u32]| links.together(host_of);
    best(hosts, graph::proposals(links, hosts), together)
}

/// The best proposal. `together` returns the weight of the neighbours that share a host, where each place has this host.
fn best(
    hosts: &Hosts,
    proposals: impl IntoIterator<Item = Vec<u32>>,
    together: impl Fn(&[u32]) -> u64,
) -> Option<Vec<u32>> {
    let ranks = hosts.concat();
    let mut host_of = vec![0; ranks.len()];
    let numbered = || (0..).zip(hosts);
    let by_rank = numbered().flat_map(|(host, ranks)| ranks.iter().map(move |&rank| (host, rank)));
    by_rank.for_each(|(host, rank)| host_of[rank as usize] = host);
    let mut most = together(&host_of);
    let mut best = None;
    for order in proposals {
        let mut seats = order.iter();
        for (host, ranks) in numbered() {
            for &place in seats.by_ref().take(ranks.len()) {
                host_of[place as usize] = host;
            }
        }
        let sum = together(&host_of);
        if sum > most {
            (most, best) = (sum, Some(order));
        }
    }
    let order = best?;
    let mut rank_at = vec![0; ranks.len()];
    for (place, rank) in order.into_iter().zip(ranks) {
        rank_at[place as usize] = rank;
    }
    Some(rank_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    /// Ranks by host: `per_host` on each in blocks, or cyclically.
    pub(super) fn hosts(size: u32, number: u32, cyclic: bool) -> Vec<Vec<u32>> {
        let per_host = size.div_ceil(number);
        let host = |rank: u32| if cyclic { rank % number } else { rank / per_host };
        let ranks = |host_: u32| (0..size).filter(|&rank| host(rank) == host_).collect();
        (0..number)
            .map(ranks)
            .filter(|ranks: &Vec<u32>| !ranks.is_empty())
            .collect()
    }

    pub(super) fn lists(hosts: &[Vec<u32>]) -> Vec<&[u32]> {
        hosts.iter().map(Vec::as_slice).collect()
    }

    /// The neighbours that share a host before and after, counted one by one.
    fn counted(pairs: &[(u32, u32, u64)], hosts: &Hosts, mapping: Option<&[u32]>) -> (u64, u64) {
        let host = |rank: u32| hosts.iter().position(|ranks| ranks.contains(&rank));
        let rank = |place: u32| mapping.map_or(place, |rank_at| rank_at[place as usize]);
        let sum = |rank: &dyn Fn(u32) -> u32| {
            let share = |&&(one, other, _): &&(u32, u32, u64)| host(rank(one)) == host(rank(other));
            pairs.iter().filter(share).map(|pair| pair.2).sum()
        };
        (sum(&|place| place), sum(&rank))
    }

    pub(super) fn grid_pairs(grid: &Grid) -> Vec<(u32, u32, u64)> {
        let forward = |rank| (0..grid.dims().len()).filter_map(move |at| grid.shifted(rank, at, 1));
        (0..grid.size())
            .flat_map(|rank| forward(rank).map(move |to| (rank, to, 1)))
            .filter(|(one, other, _)| one != other)
            .collect()
    }

    pub(super) fn is_permutation(mapping: &[u32], size: u32) {
        let mut sorted = mapping.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..size).collect::<Vec<_>>());
    }

    #[test]
    fn grids_on_cyclic_hosts_become_blocks() {
        // What each host holds: 4 × 4, 2 × 2 × 4 or 2 × 4 × 2, a row of 8.
        for (dims, periods, number, expected) in [
            (&[8, 8][..], &[false, false][..], 4, 4 * 24),
            (&[8, 8], &[true, true], 4, 4 * 24),
            (&[4, 4, 4], &[false; 3], 4, 4 * 28),
            (&[32], &[false], 4, 4 * 7),
        ] {
            let grid = Grid::new(dims, periods.to_vec()).unwrap();
            let hosts = hosts(grid.size(), number, true);
            let hosts = lists(&hosts);
            let mapping = of_grid(&grid, &hosts).expect("cyclic is bad");
            is_permutation(&mapping, grid.size());
            let (before, after) = counted(&grid_pairs(&grid), &hosts, Some(&mapping));
            assert!(after > before);
            assert_eq!(after, expected, "{dims:?} on {number} hosts");
        }
    }

    #[test]
    fn blocks_of_rows_become_squares_and_what_is_best_stays() {
        let grid = Grid::new(&[8, 8], vec![false; 2]).unwrap();
        let rows = hosts(64, 4, false);
        let rows = lists(&rows);
        let mapping = of_grid(&grid, &rows).expect("2 × 8 is no square");
        assert_eq!(
            counted(&grid_pairs(&grid), &rows, Some(&mapping)),
            (4 * 22, 4 * 24)
        );
        // The places of host 0.
        let first: Vec<usize> = (0..64).filter(|&place| mapping[place] < 16).collect();
        assert_eq!(first, [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27]);
        let halves = hosts(64, 2, false);
        assert_eq!(of_grid(&grid, &lists(&halves)), None);
    }

    #[test]
    fn no_mapping_is_worse_than_the_identity() {
        let mut rng = Rng::with_seed(8);
        for _ in 0..300 {
            let dims: Vec<i32> = (0..rng.usize(1..4)).map(|_| rng.i32(1..6)).collect();
            let grid = Grid::new(&dims, dims.iter().map(|_| rng.bool()).collect()).unwrap();
            let size = grid.size();
            let number = rng.u32(1..6);
            let mut hosts = vec![Vec::new(); number as usize];
            (0..size).for_each(|rank| hosts[rng.usize(..number as usize)].push(rank));
            hosts.retain(|ranks: &Vec<u32>| !ranks.is_empty());
            let hosts = lists(&hosts);
            let mapping = of_grid(&grid, &hosts);
            if let Some(mapping) = &mapping {
                is_permutation(mapping, size);
                let (before, after) = counted(&grid_pairs(&grid), &hosts, Some(mapping));
                assert!(after > before, "{dims:?}: {before} and {after}");
            }
            let edges: Vec<(u32, u32, u64)> = (0..rng.u32(..4 * size))
                .map(|_| (rng.u32(..size), rng.u32(..size), rng.u64(..9)))
                .collect();
            let mapping = of_graph(&Links::new(size, edges.iter().copied()), &hosts);
            if let Some(mapping) = &mapping {
                is_permutation(mapping, size);
                let (before, after) = counted(&edges, &hosts, Some(mapping));
                assert!(after > before, "{edges:?}: {before} and {after}");
            }
        }
    }

    #[test]
    fn graphs_of_grids_are_placed_as_well() {
        for (dims, best) in [(&[8, 8][..], 96), (&[4, 4, 4], 112), (&[64], 60)] {
            let grid = Grid::new(dims, vec![false; dims.len()]).unwrap();
            let pairs = grid_pairs(&grid);
            let hosts = hosts(64, 4, true);
            let hosts = lists(&hosts);
            let mapping = of_graph(&Links::new(64, pairs.iter().copied()), &hosts).expect("better");
            is_permutation(&mapping, 64);
            let (_, after) = counted(&pairs, &hosts, Some(&mapping));
            assert_eq!(after, best, "{dims:?}");
        }
    }

    #[test]
    fn heavy_edges_come_first() {
        // A ring of light edges, and heavy ones between opposite nodes.
        let ring = (0..8).map(|node| (node, (node + 1) % 8, 1));
        let across = (0..4).map(|node| (node, node + 4, 100));
        let edges: Vec<_> = ring.chain(across).collect();
        let hosts = hosts(8, 4, false);
        let hosts = lists(&hosts);
        let mapping = of_graph(&Links::new(8, edges.iter().copied()), &hosts).expect("better");
        assert_eq!(counted(&edges, &hosts, Some(&mapping)), (4, 400));
    }

    /// The time grows with the number of places and not with its square: this ends at once.
    #[test]
    fn many_processes() {
        let grid = Grid::new(&[32, 16, 24], vec![true, false, true]).unwrap();
        for cyclic in [false, true] {
            let hosts = hosts(grid.size(), 256, cyclic);
            let hosts = lists(&hosts);
            let mapping = of_grid(&grid, &hosts).expect("better");
            is_permutation(&mapping, grid.size());
            let links = Links::new(grid.size(), grid_pairs(&grid).into_iter());
            is_permutation(&of_graph(&links, &hosts).expect("better"), grid.size());
        }
    }
}
