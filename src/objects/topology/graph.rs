//! Graph topologies (MPI 5.0 section 8.5.3), of which each process knows all edges.

use crate::base::error::Result;
use crate::err;
use crate::objects::group::processes;

/// A graph: node `n` is the process of rank `n`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Graph {
    /// Where the edges of each node end.
    index: Vec<u32>,
    /// To which node each edge leads, node by node.
    edges: Vec<u32>,
}

impl Graph {
    /// From the arrays of `MPI_Graph_create`: the number of neighbours of the first `n + 1` nodes for each node `n`, and the
    /// neighbours, as many as are asked for.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: they do not describe a graph.
    pub fn new<'a>(index: &[i32], edges: impl FnOnce(usize) -> Result<&'a [i32]>) -> Result<Graph> {
        let mut before = 0;
        for (at, &end) in index.iter().enumerate() {
            if end < before {
                return Err(match at {
                    0 => err!(Arg, "index[0] is {end}, but must not be negative"),
                    _ => err!(
                        Arg,
                        "index[{at}] is {end}, less than index[{}], which is {before}",
                        at - 1
                    ),
                });
            }
            before = end;
        }
        let edges = edges(before as usize)?;
        let nodes = index.len();
        let node = |(at, &node): (usize, &i32)| match usize::try_from(node) {
            Ok(number) if number < nodes => Ok(number as u32),
            _ => Err(err!(
                Arg,
                "edges[{at}] is {node}, but the graph has {nodes} nodes, from 0 on"
            )),
        };
        Ok(Graph {
            index: index.iter().map(|&end| end as u32).collect(),
            edges: edges.iter().enumerate().map(node).collect::<Result<_>>()?,
        })
    }

    /// The same, if there are so many processes for it.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY`: there are fewer.
    pub fn fitting(self, size: u32) -> Result<Graph> {
        match self.nodes() <= size {
            true => Ok(self),
            false => Err(err!(
                Topology,
                "nnodes is {}, but the communicator has {}",
                self.nodes(),
                processes(size)
            )),
        }
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u32 {
        self.index.len() as u32
    }

    /// Where the edges of each node end.
    pub fn index(&self) -> &[u32] {
        &self.index
    }

    /// All edges, node by node.
    pub fn edges(&self) -> &[u32] {
        &self.edges
    }

    /// The neighbours of a node, in the order of its edges.
    pub fn neighbours(&self, node: u32) -> &[u32] {
        let node = node as usize;
        let start = node.checked_sub(1).map_or(0, |before| self.index[before]);
        &self.edges[start as usize..self.index[node] as usize]
    }

    /// All edges with their origin.
    pub fn pairs(&self) -> impl Iterator<Item = (u32, u32)> + Clone {
        (0..self.nodes()).flat_map(|node| self.neighbours(node).iter().map(move |&to| (node, to)))
    }

    /// Whether as many edges lead from each node to each other one as back.
    pub fn is_symmetric(&self) -> bool {
        let mut there: Vec<_> = self.pairs().collect();
        let mut back: Vec<_> = self.pairs().map(|(from, to)| (to, from)).collect();
        there.sort_unstable();
        back.sort_unstable();
        there == back
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Class;

    fn made(index: &[i32], edges: &[i32]) -> Result<Graph> {
        Graph::new(index, |number| Ok(&edges[..number]))
    }

    #[test]
    fn the_standards_example() {
        let graph = made(&[2, 3, 4, 6], &[1, 3, 0, 3, 0, 2]).expect("a graph");
        let all: Vec<&[u32]> = (0..4).map(|node| graph.neighbours(node)).collect();
        assert_eq!(all, [&[1, 3][..], &[0], &[3], &[0, 2]]);
        assert!(graph.is_symmetric());
    }

    #[test]
    fn edges_may_be_repeated_lead_to_themselves_and_have_no_way_back() {
        let graph = made(&[3, 5, 5], &[0, 1, 1, 0, 0]).expect("a graph");
        assert_eq!(graph.neighbours(0), [0, 1, 1]);
        assert_eq!(graph.neighbours(2), [0u32; 0]);
        assert!(graph.is_symmetric());
        let graph = made(&[2, 3], &[1, 1, 0]).expect("a graph");
        assert!(!graph.is_symmetric());
    }

    #[test]
    fn what_is_no_graph_is_refused() {
        for (index, edges, word) in [
            (&[-1][..], &[][..], "index[0] is -1"),
            (&[2, 1], &[0, 0], "index[1] is 1"),
            (&[1, 2], &[0, 2], "edges[1] is 2"),
            (&[1], &[-1], "edges[0] is -1"),
        ] {
            let error = made(index, edges).expect_err("no graph");
            assert_eq!(error.class, Class::Arg);
            assert!(error.message.contains(word), "{error}");
        }
        let graph = made(&[0, 0], &[]).expect("a graph");
        assert_eq!(graph.fitting(1).expect_err("too large").class, Class::Topology);
    }
}
