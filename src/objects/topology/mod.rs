//! Virtual topologies (MPI 5.0, chapter 8): how the processes of a communicator are arranged.
//!
//! - [`Topology`]: that of a communicator
//! - `cartesian`, `graph`, `dist_graph`: the three kinds
//! - [`dims`]: sizes of Cartesian grids
//! - [`mapping`]: which process takes which place, so that neighbours share a host
//!
//! What does not belong here: making communicators with topologies (`management`), where processes really are (`system::locality`), and
//! the messages between neighbours (`collective`).

mod cartesian;
pub mod dims;
mod dist_graph;
mod graph;
pub mod mapping;

use std::sync::OnceLock;

use crate::base::error::Result;
use crate::err;
pub use cartesian::Grid;
pub use dist_graph::{DistGraph, Edge, Edges};
pub use graph::Graph;

/// The topology of a communicator, as one of its processes knows it.
#[derive(Debug)]
pub struct Topology {
    kind: Kind,
    /// This process's rank.
    rank: u32,
    /// Found out when first needed.
    neighbours: OnceLock<Result<Neighbours>>,
}

/// One of the three kinds.
#[derive(Debug)]
pub enum Kind {
    /// A Cartesian grid.
    Cartesian(Grid),
    /// A graph that each process knows.
    Graph(Graph),
    /// A graph of which each process knows its own edges.
    DistGraph(DistGraph),
}

/// The neighbours of a process, as neighbourhood collective operations see them (section 8.6). `None` is nobody (`MPI_PROC_NULL`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbours {
    /// From whom each block comes.
    pub sources: Vec<Option<u32>>,
    /// To whom each block goes.
    pub destinations: Vec<Option<u32>>,
    /// Whether two blocks that follow each other come in the opposite order: what goes to the neighbour on one side of a grid comes
    /// from the one on the other side. This matters where both are the same process.
    pub crosswise: bool,
}

impl Neighbours {
    /// The places of the sources, in the order in which the blocks of one that is there several times come.
    pub fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let crosswise = usize::from(self.crosswise);
        (0..self.sources.len()).map(move |place| place ^ crosswise)
    }

    /// The blocks of the process of this rank that it sends to itself: the place among its sources, and the one among its destinations.
    pub fn own(&self, rank: u32) -> impl Iterator<Item = (usize, u32)> {
        let sources = self.order().filter(move |&at| self.sources[at] == Some(rank));
        let destinations = (0..).zip(&self.destinations);
        let to_itself = destinations.filter(move |(_, to)| **to == Some(rank));
        sources.zip(to_itself.map(|(at, _)| at))
    }
}

impl Topology {
    /// Of this kind, at the process of a rank.
    pub fn new(kind: Kind, rank: u32) -> Topology {
        Topology {
            kind,
            rank,
            neighbours: OnceLock::new(),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// This process's neighbours.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY`: a graph whose edges don't all lead in both directions, which operations among neighbours don't allow.
    pub fn neighbours(&self) -> Result<&Neighbours> {
        let found = self.neighbours.get_or_init(|| self.find_neighbours());
        found.as_ref().map_err(Clone::clone)
    }

    fn find_neighbours(&self) -> Result<Neighbours> {
        let some = |ranks: &[u32]| ranks.iter().copied().map(Some).collect::<Vec<_>>();
        Ok(match &self.kind {
            Kind::Cartesian(grid) => {
                let neighbours = grid.neighbours(self.rank);
                Neighbours {
                    sources: neighbours.clone(),
                    destinations: neighbours,
                    crosswise: true,
                }
            }
            Kind::Graph(graph) if !graph.is_symmetric() => {
                return Err(err!(
                    Topology,
                    "the graph has an edge from one process to another without one back; operations among neighbours need as many in \
                     both directions (or MPI_Dist_graph_create_adjacent)"
                ));
            }
            Kind::Graph(graph) => {
                let neighbours = some(graph.neighbours(self.rank));
                Neighbours {
                    sources: neighbours.clone(),
                    destinations: neighbours,
                    crosswise: false,
                }
            }
            Kind::DistGraph(graph) => Neighbours {
                sources: some(&graph.sources.ranks),
                destinations: some(&graph.destinations.ranks),
                crosswise: false,
            },
        })
    }
}
