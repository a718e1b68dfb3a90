//! Sections 8.5.3, 8.5.5 and 8.5.8: graphs that each process knows.

use std::ffi::c_int;
use std::sync::Arc;

use super::cartesian::place_of;
use super::{length, other_kind, reordering, topology};
use crate::abi::common::arguments::{array, array_mut, give, present, rank};
use crate::abi::common::objects::{early_communicator, intracommunicator};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::abi::communicator::inherit;
use crate::base::error::Result;
use crate::objects::topology::{Graph, Kind, Topology};

/// A topology that is a graph.
struct Known(Arc<Topology>);

impl Known {
    fn of(comm: MPI_Comm) -> Result<Known> {
        let found = topology(comm, "graph")?;
        match found.kind() {
            Kind::Graph(_) => Ok(Known(found)),
            _ => Err(other_kind(&found, "graph")),
        }
    }

    fn graph(&self) -> &Graph {
        match self.0.kind() {
            Kind::Graph(graph) => graph,
            _ => unreachable!("checked when it was found"),
        }
    }
}

/// The graph that arguments describe.
///
/// # Safety
/// `index` is null or valid for `nnodes` numbers, `edges` is null or valid for as many as the last of these says.
unsafe fn graph(nnodes: c_int, index: *const c_int, edges: *const c_int) -> Result<Graph> {
    // SAFETY: the caller's arrays are null or have that many elements.
    unsafe {
        let index = array(index, length(nnodes, "nnodes")?, "index")?;
        Graph::new(index, |number| array(edges, number, "edges"))
    }
}

/// The first numbers of a list, as many as there is room for.
fn give_first(to: &mut [c_int], list: &[u32]) {
    for (to, &number) in to.iter_mut().zip(list) {
        *to = number as c_int;
    }
}

mpi! {
    /// Section 8.5.3.
    small fn MPI_Graph_create(comm_old: MPI_Comm, nnodes: c_int, index: *const c_int, edges: *const c_int, reorder: c_int,
        comm_graph: *mut MPI_Comm) comm(comm_old) {
        let old = intracommunicator(comm_old, "comm_old")?;
        // SAFETY: arrays of the user's.
        let graph = present(comm_graph, "comm_graph").and_then(|()| unsafe { graph(nnodes, index, edges) });
        let new = old.instance().block_on(old.clone().create_graph(graph, reordering(&old, reorder)))?;
        // SAFETY: a handle of the user's.
        unsafe { inherit(&old, new, comm_graph) }
    }

    /// Section 8.5.5.
    small fn MPI_Graphdims_get(comm: MPI_Comm, nnodes: *mut c_int, nedges: *mut c_int) comm(comm) {
        let known = Known::of(comm)?;
        let graph = known.graph();
        // SAFETY: null or `int`s of the user's.
        unsafe {
            give(nnodes, graph.nodes() as c_int, "nnodes")?;
            give(nedges, graph.edges().len() as c_int, "nedges")
        }
    }

    /// Section 8.5.5. Where an array is shorter than its list it gets the first part.
    small fn MPI_Graph_get(comm: MPI_Comm, maxindex: c_int, maxedges: c_int, index: *mut c_int, edges: *mut c_int)
        comm(comm) {
        let known = Known::of(comm)?;
        let graph = known.graph();
        let nodes = length(maxindex, "maxindex")?.min(graph.index().len());
        let number = length(maxedges, "maxedges")?.min(graph.edges().len());
        // SAFETY: null or arrays of the user's.
        let (index, edges) = unsafe { (array_mut(index, nodes, "index")?, array_mut(edges, number, "edges")?) };
        give_first(index, graph.index());
        give_first(edges, graph.edges());
        Ok(())
    }

    /// Section 8.5.5.
    small fn MPI_Graph_neighbors_count(comm: MPI_Comm, rank_: c_int, nneighbors: *mut c_int) comm(comm) {
        let known = Known::of(comm)?;
        let node = rank(rank_, &*early_communicator(comm)?, "rank")?;
        let number = known.graph().neighbours(node).len();
        // SAFETY: null or an `int` of the user's.
        unsafe { give(nneighbors, number as c_int, "nneighbors") }
    }

    /// Section 8.5.5. A shorter array gets the first part of the list.
    small fn MPI_Graph_neighbors(comm: MPI_Comm, rank_: c_int, maxneighbors: c_int, neighbors: *mut c_int) comm(comm) {
        let known = Known::of(comm)?;
        let node = rank(rank_, &*early_communicator(comm)?, "rank")?;
        let list = known.graph().neighbours(node);
        let number = length(maxneighbors, "maxneighbors")?.min(list.len());
        // SAFETY: null or an array of the user's.
        give_first(unsafe { array_mut(neighbors, number, "neighbors") }?, list);
        Ok(())
    }

    /// Section 8.5.8. Local, as `MPI_Cart_map`, and like this one it knows hosts alone.
    small fn MPI_Graph_map(comm: MPI_Comm, nnodes: c_int, index: *const c_int, edges: *const c_int, newrank: *mut c_int)
        comm(comm) {
        let comm = intracommunicator(comm, "comm")?;
        // SAFETY: arrays of the user's.
        let graph = unsafe { graph(nnodes, index, edges) }?.fitting(comm.size())?;
        let node = place_of(comm.map_graph(&graph), graph.nodes(), comm.rank());
        // SAFETY: null or an `int` of the user's.
        unsafe { give(newrank, node, "newrank") }
    }
}
