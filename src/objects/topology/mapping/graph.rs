//! Methods for graphs. Each returns the nodes in the order in which processes, host by host, take them.
//!
//! - `grown`: each host's part grows from a node by the one that is connected to it best (greedy graph growing; G. Karypis, V. Kumar, A
//!   fast and high quality multilevel scheme for partitioning irregular graphs, SIAM J. Sci. Comput. 20, 1998), in O(edges × log edges)
//! - `breadth_first`: nodes by their distance from one at the border, those of few edges first (E. Cuthill, J. McKee, Reducing the
//!   bandwidth of sparse symmetric matrices, 1969)
//!
//! Each of them, and the order of ranks, is then improved by exchanges ([`exchange`]).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::{Grid, Hosts, exchange};

/// The edges of a graph without their directions.
pub struct Links {
    /// Where the links of each node begin; behind the last, where they end.
    starts: Vec<usize>,
    /// The other end of each, and its weight.
    links: Vec<(u32, u64)>,
}

impl Links {
    /// Of edges between so many nodes: both ends and the weight of each. Those from a node to itself do not count.
    pub fn new(nodes: u32, edges: impl Iterator<Item = (u32, u32, u64)> + Clone) -> Links {
        let edges = edges.filter(|(one, other, _)| one != other);
        let mut starts = vec![0; nodes as usize + 1];
        for (one, other, _) in edges.clone() {
            starts[one as usize + 1] += 1;
            starts[other as usize + 1] += 1;
        }
        for node in 0..nodes as usize {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut links = vec![(0, 0); starts[nodes as usize]];
        for (one, other, weight) in edges {
            for (from, to) in [(one, other), (other, one)] {
                links[next[from as usize]] = (to, weight);
                next[from as usize] += 1;
            }
        }
        Links { starts, links }
    }

    /// Those between some of the nodes, which get new numbers: for each node, its index among them.
    pub(super) fn part(&self, nodes: &[u32], index_of: &[Option<u32>]) -> Links {
        let mut edges = Vec::new();
        for (index, &node) in (0..).zip(nodes) {
            // Each edge is seen from both ends.
            let links = self.of(node).iter().filter(|(other, _)| node < *other);
            edges.extend(
                links.filter_map(|&(other, weight)| Some((index, index_of[other as usize]?, weight))),
            );
        }
        Links::new(nodes.len() as u32, edges.iter().copied())
    }

    /// The same of a grid, in which two places may be neighbours twice.
    pub(super) fn of_part_of_grid(grid: &Grid, places: &[u32], index_of: &[Option<u32>]) -> Links {
        let mut edges = Vec::new();
        for (index, &place) in (0..).zip(places) {
            let next = (0..grid.dims().len()).filter_map(|dimension| grid.shifted(place, dimension, 1));
            edges.extend(next.filter_map(|next| Some((index, index_of[next as usize]?, 1))));
        }
        Links::new(places.len() as u32, edges.iter().copied())
    }

    fn nodes(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    /// How many there are, each counted at both ends.
    pub(super) fn number(&self) -> usize {
        self.links.len()
    }

    pub(super) fn of(&self, node: u32) -> &[(u32, u64)] {
        &self.links[self.starts[node as usize]..self.starts[node as usize + 1]]
    }

    /// The weight of the edges within hosts, where each node has this host.
    pub(super) fn together(&self, host_of: &[u32]) -> u64 {
        let inside = |node: u32| {
            let links = self.of(node).iter();
            // Each edge is seen from both ends.
            links
                .filter(move |(other, _)| node < *other && host_of[node as usize] == host_of[*other as usize])
        };
        let weights = (0..self.nodes()).flat_map(inside).map(|(_, weight)| *weight);
        weights.fold(0, u64::saturating_add)
    }
}

/// What all methods propose.
pub(super) fn proposals(links: &Links, hosts: &Hosts) -> Vec<Vec<u32>> {
    let orders = [grown(links, hosts), breadth_first(links), hosts.concat()];
    orders.map(|order| exchange::improved(links, hosts, order)).into()
}

/// A node that may be added to a part: its weight to the part, how far it is from where the part began, and its weight to free nodes. Of
/// nodes that are connected equally well, the nearest one is added, which makes parts round; then the one that leaves least behind.
type Rated = (u64, Reverse<u32>, Reverse<u64>, Reverse<u32>);

/// Lets the part of one host after the other grow.
fn grown(links: &Links, hosts: &Hosts) -> Vec<u32> {
    let weight = |node| {
        links
            .of(node)
            .iter()
            .map(|link| link.1)
            .fold(0, u64::saturating_add)
    };
    // The weight of a node's links to nodes in no part yet, and to the growing part.
    let mut free: Vec<u64> = (0..links.nodes()).map(weight).collect();
    let mut inside = vec![0u64; free.len()];
    let mut taken = vec![false; free.len()];
    // How far a node that is connected to the growing part is from where that began.
    let mut depth: Vec<Option<u32>> = vec![None; free.len()];
    // Where a part begins: at the node with the least weight to free nodes, as then no other one is left alone. Entries that are no
    // longer true are passed over.
    let mut seeds: BinaryHeap<(Reverse<u64>, Reverse<u32>)> = (0..links.nodes())
        .map(|node| (Reverse(free[node as usize]), Reverse(node)))
        .collect();
    let mut order = Vec::with_capacity(free.len());
    for ranks in hosts {
        let mut border: BinaryHeap<Rated> = BinaryHeap::new();
        let first = order.len();
        while order.len() < first + ranks.len() {
            let next = loop {
                let (node, true_still) = match border.pop() {
                    Some((to_part, _, Reverse(to_free), Reverse(node))) => {
                        let at = node as usize;
                        (node, (to_part, to_free) == (inside[at], free[at]))
                    }
                    None => match seeds.pop() {
                        Some((Reverse(rating), Reverse(node))) => (node, rating == free[node as usize]),
                        None => return order,
                    },
                };
                if true_still && !taken[node as usize] {
                    break node;
                }
            };
            taken[next as usize] = true;
            let further = depth[next as usize].map_or(1, |depth| depth + 1);
            order.push(next);
            for &(other, weight) in links.of(next) {
                let at = other as usize;
                if taken[at] {
                    continue;
                }
                free[at] = free[at].saturating_sub(weight);
                let depth = *depth[at].get_or_insert(further);
                inside[at] = inside[at].saturating_add(weight);
                seeds.push((Reverse(free[at]), Reverse(other)));
                border.push((inside[at], Reverse(depth), Reverse(free[at]), Reverse(other)));
            }
        }
        for &node in &order[first..] {
            links.of(node).iter().for_each(|(other, _)| {
                inside[*other as usize] = 0;
                depth[*other as usize] = None;
            });
        }
    }
    order
}

/// Nodes by their distance from one at the border, component by component.
fn breadth_first(links: &Links) -> Vec<u32> {
    let degree = |node: u32| links.of(node).len();
    let mut by_degree: Vec<u32> = (0..links.nodes()).collect();
    by_degree.sort_by_key(|&node| degree(node));
    let mut seen = vec![false; by_degree.len()];
    let mut order = Vec::with_capacity(by_degree.len());
    let visit = |from: u32, seen: &mut [bool], order: &mut Vec<u32>| {
        let mut waiting = VecDeque::from([from]);
        seen[from as usize] = true;
        while let Some(node) = waiting.pop_front() {
            order.push(node);
            let mut next: Vec<u32> = links.of(node).iter().map(|link| link.0).collect();
            next.sort_by_key(|&other| (degree(other), other));
            for other in next {
                if !std::mem::replace(&mut seen[other as usize], true) {
                    waiting.push_back(other);
                }
            }
        }
    };
    // The last one of a first visit is at the border.
    let mut looked = vec![false; by_degree.len()];
    let mut found = Vec::new();
    for node in by_degree {
        if seen[node as usize] {
            continue;
        }
        found.clear();
        visit(node, &mut looked, &mut found);
        visit(*found.last().unwrap_or(&node), &mut seen, &mut order);
    }
    order
}
