//! Distributed graph topologies (MPI 5.0 section 8.5.4), of which each process knows its own edges.

/// Edges in one direction: the process at the other end of each, and their weights.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Edges {
    /// Ranks.
    pub ranks: Vec<u32>,
    /// As many, or none if the graph is not weighted.
    pub weights: Vec<i32>,
}

/// The edges of one process.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DistGraph {
    /// Those that lead to it.
    pub sources: Edges,
    /// Those that lead away.
    pub destinations: Edges,
    /// Whether edges have weights.
    pub weighted: bool,
}

/// An edge that a process gives for any two others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// Where it begins.
    pub source: u32,
    /// Where it ends.
    pub destination: u32,
    /// Its weight; 1 if the graph is not weighted.
    pub weight: i32,
}

impl Edges {
    /// Adds an edge.
    pub fn push(&mut self, rank: u32, weight: i32, weighted: bool) {
        self.ranks.push(rank);
        if weighted {
            self.weights.push(weight);
        }
    }

    /// Each with its weight.
    pub fn iter(&self) -> impl Iterator<Item = (u32, i32)> {
        let weight = |at: usize| self.weights.get(at).copied().unwrap_or(1);
        self.ranks
            .iter()
            .enumerate()
            .map(move |(at, &rank)| (rank, weight(at)))
    }
}
