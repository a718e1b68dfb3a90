//! Improves an order of nodes: two parts of a graph exchange nodes where this brings edges into parts (B. W. Kernighan, S. Lin, An efficient
//! heuristic procedure for partitioning graphs, Bell System Technical Journal 49, 1970).
//!
//! Of two parts that have edges between them, the pair of nodes that gains most is exchanged, then the next pair of other nodes, also where this
//! loses something for now; and of all these exchanges the first ones up to the largest gain are kept. The work is bounded by a
//! multiple of the number of links, so a large graph may keep pairs of parts that could gain.

use std::ops::Range;

use super::{Hosts, Links};

/// Links and nodes that may be looked at, for each of a graph.
const LOOKS: u64 = 64;
/// So many exchanges without a gain end the work on two parts.
const FRUITLESS_MAX: usize = 24;
/// How often all pairs of parts are gone through.
const ROUNDS: usize = 4;

/// Improves an order in which processes, host by host, take the nodes. No order becomes worse.
pub(super) fn improved(links: &Links, hosts: &Hosts, order: Vec<u32>) -> Vec<u32> {
    let nodes = order.len();
    let mut end = 0;
    let seats = hosts.iter().map(|ranks| {
        let begin = end;
        end += ranks.len();
        begin..end
    });
    let seats: Vec<Range<usize>> = seats.collect();
    let mut part_of = vec![0; nodes];
    for (part, seats) in (0..).zip(&seats) {
        order[seats.clone()]
            .iter()
            .for_each(|&node| part_of[node as usize] = part);
    }
    let looks = LOOKS * (nodes + links.number()) as u64;
    let mut work = Work {
        links,
        order,
        part_of,
        gain: vec![0; nodes],
        to_first: vec![0; nodes],
        exchanged: vec![false; nodes],
        looks,
    };
    for _ in 0..ROUNDS {
        let gained: Vec<bool> = work
            .neighbours()
            .into_iter()
            .map(|(one, other)| work.exchange([&seats[one as usize], &seats[other as usize]]))
            .collect();
        if !gained.contains(&true) {
            break;
        }
    }
    work.order
}

struct Work<'a> {
    links: &'a Links,
    /// The nodes, part by part.
    order: Vec<u32>,
    part_of: Vec<u32>,
    /// What edges inside parts gain when this node of two parts goes to the other one.
    gain: Vec<i128>,
    /// The weight of a node's links to one that is about to go.
    to_first: Vec<i128>,
    /// Nodes that were exchanged, and don't go back.
    exchanged: Vec<bool>,
    /// How many links and nodes may still be looked at.
    looks: u64,
}

impl Work<'_> {
    /// The pairs of parts with edges between them.
    fn neighbours(&self) -> Vec<(u32, u32)> {
        let part = |node: u32| self.part_of[node as usize];
        let of_node = |node: u32| {
            let links = self.links.of(node).iter();
            let parts = links.map(move |(other, _)| (part(node), part(*other)));
            parts.filter(|(one, other)| one < other)
        };
        let mut pairs: Vec<(u32, u32)> = (0..self.order.len() as u32).flat_map(of_node).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Exchanges nodes of two parts, which have these seats in the order. Returns whether anything was gained.
    fn exchange(&mut self, parts: [&Range<usize>; 2]) -> bool {
        let links = self.links;
        if self.looks == 0 {
            return false;
        }
        for seat in parts.into_iter().flat_map(Range::clone) {
            let node = self.order[seat];
            self.gain[node as usize] = self.gain_of(node, parts);
            self.exchanged[node as usize] = false;
            self.looks = self.looks.saturating_sub(1 + links.of(node).len() as u64);
        }
        let mut exchanges: Vec<[usize; 2]> = Vec::new();
        let (mut sum, mut most, mut kept) = (0, 0, 0);
        while self.looks > 0 && exchanges.len() < kept + FRUITLESS_MAX {
            let Some(first) = self.best(parts[0]) else {
                break;
            };
            let node = self.order[first];
            let of_node = links.of(node);
            of_node
                .iter()
                .for_each(|(other, weight)| self.to_first[*other as usize] += i128::from(*weight));
            let second = self.best(parts[1]);
            let both = second.map(|second| self.gain[node as usize] + self.with_first(self.order[second]));
            of_node
                .iter()
                .for_each(|(other, _)| self.to_first[*other as usize] = 0);
            let (Some(second), Some(gain)) = (second, both) else {
                break;
            };
            for seat in [first, second] {
                self.take(self.order[seat]);
            }
            let looked = parts[0].len() + parts[1].len() + of_node.len();
            self.looks = self.looks.saturating_sub(looked as u64);
            exchanges.push([first, second]);
            sum += gain;
            if sum > most {
                (most, kept) = (sum, exchanges.len());
            }
        }
        for &[first, second] in &exchanges[..kept] {
            let (one, other) = (self.order[first] as usize, self.order[second] as usize);
            self.part_of.swap(one, other);
            self.order.swap(first, second);
        }
        kept > 0
    }

    /// What is gained when this node of two parts goes to the other one alone.
    fn gain_of(&self, node: u32, parts: [&Range<usize>; 2]) -> i128 {
        let [one, other] = parts.map(|seats| self.part_of[self.order[seats.start] as usize]);
        let mine = self.part_of[node as usize];
        let theirs = if mine == one { other } else { one };
        let weight = |(to, weight): &(u32, u64)| match self.part_of[*to as usize] {
            part if part == mine => -i128::from(*weight),
            part if part == theirs => i128::from(*weight),
            _ => 0,
        };
        self.links.of(node).iter().map(weight).sum()
    }

    /// What a node of the second part gains, where that of the first part goes at the same time: edges between the two stay between parts.
    fn with_first(&self, node: u32) -> i128 {
        self.gain[node as usize] - 2 * self.to_first[node as usize]
    }

    /// The seat of the node of a part that gains most, the first of several.
    fn best(&self, seats: &Range<usize>) -> Option<usize> {
        let free = seats
            .clone()
            .rev()
            .filter(|&seat| !self.exchanged[self.order[seat] as usize]);
        free.max_by_key(|&seat| self.with_first(self.order[seat]))
    }

    /// Counts a node as gone to the other part: those that stay gain from links to it if they are where it was, and lose otherwise.
    fn take(&mut self, node: u32) {
        self.exchanged[node as usize] = true;
        let mine = self.part_of[node as usize];
        for &(other, weight) in self.links.of(node) {
            let weight = 2 * i128::from(weight);
            match self.part_of[other as usize] == mine {
                true => self.gain[other as usize] += weight,
                false => self.gain[other as usize] -= weight,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{hosts, lists};
    use super::*;
    use fastrand::Rng;

    /// The weight of edges inside parts.
    fn inside(links: &Links, hosts: &Hosts, order: &[u32]) -> u64 {
        let mut part_of = vec![0; order.len()];
        let seats = (0..).zip(hosts).flat_map(|(part, ranks)| vec![part; ranks.len()]);
        seats
            .zip(order)
            .for_each(|(part, &node)| part_of[node as usize] = part);
        links.together(&part_of)
    }

    #[test]
    fn a_ring_in_disorder_is_put_in_order() {
        let ring = Links::new(12, (0..12).map(|node| (node, (node + 1) % 12, 1)));
        let hosts = hosts(12, 2, false);
        let hosts = lists(&hosts);
        let order = vec![0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11];
        assert_eq!(inside(&ring, &hosts, &order), 0);
        let order = improved(&ring, &hosts, order);
        assert_eq!(inside(&ring, &hosts, &order), 10);
    }

    #[test]
    fn no_order_becomes_worse() {
        let mut rng = Rng::with_seed(70);
        let mut better = 0;
        for _ in 0..300 {
            let nodes = rng.u32(1..40);
            let edges: Vec<(u32, u32, u64)> = (0..rng.u32(..4 * nodes))
                .map(|_| (rng.u32(..nodes), rng.u32(..nodes), rng.u64(..9)))
                .collect();
            let links = Links::new(nodes, edges.iter().copied());
            let number = rng.usize(1..6);
            let mut parts = vec![Vec::new(); number];
            (0..nodes).for_each(|rank| parts[rng.usize(..number)].push(rank));
            parts.retain(|ranks: &Vec<u32>| !ranks.is_empty());
            let parts = lists(&parts);
            let mut order: Vec<u32> = (0..nodes).collect();
            rng.shuffle(&mut order);
            let before = inside(&links, &parts, &order);
            let after = improved(&links, &parts, order);
            let sum = inside(&links, &parts, &after);
            assert!(sum >= before);
            better += u32::from(sum > before);
            let mut sorted = after;
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..nodes));
        }
        assert!(better > 150, "{better}");
    }
}
