//! Sections 8.5.4 and 8.5.5: graphs of which each process knows its own edges.

use std::ffi::c_int;

use super::{length, other_kind, reordering, topology};
use crate::abi::common::arguments::{array, array_mut, give, present, rank};
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, intracommunicator};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::abi::communicator::inherit;
use crate::base::error::Result;
use crate::err;
use crate::objects::communicator::Communicator;
use crate::objects::topology::{DistGraph, Edge, Edges, Kind};

/// The weights of so many edges; `None`: `MPI_UNWEIGHTED`. Of no edges, any pointer is taken.
///
/// # Safety
/// The pointer is one of the constants, null, or valid for so many weights.
unsafe fn weights<'a>(from: *const c_int, number: usize, name: &str) -> Result<Option<&'a [c_int]>> {
    if from == MPI_UNWEIGHTED {
        return Ok(None);
    }
    if number > 0 && from == MPI_WEIGHTS_EMPTY {
        return Err(err!(
            Arg,
            "{name} is MPI_WEIGHTS_EMPTY, but there are {number} edges"
        ));
    }
    // SAFETY: the caller's array is null or has that many elements.
    let weights = unsafe { array(from, number, name) }?;
    match weights.iter().position(|&weight| weight < 0) {
        Some(at) => Err(err!(
            Arg,
            "{name}[{at}] is {}, but a weight must not be negative",
            weights[at]
        )),
        None => Ok(Some(weights)),
    }
}

/// The ranks of an array.
///
/// # Safety
/// The pointer is null or valid for so many ranks.
unsafe fn ranks(from: *const c_int, number: usize, comm: &Communicator, name: &str) -> Result<Vec<u32>> {
    // SAFETY: the caller's array is null or has that many elements.
    let ranks = unsafe { array(from, number, name) }?;
    let check = |(at, &value)| rank(value, comm, &format!("{name}[{at}]"));
    ranks.iter().enumerate().map(check).collect()
}

/// The graph of one process that arguments describe.
///
/// # Safety
/// The pointers are constants, null, or valid for as many numbers as the degrees say.
unsafe fn adjacent(
    comm: &Communicator,
    indegree: c_int,
    sources: *const c_int,
    sourceweights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destweights: *const c_int,
) -> Result<DistGraph> {
    let (incoming, outgoing) = (length(indegree, "indegree")?, length(outdegree, "outdegree")?);
    // SAFETY: the caller's arrays have that many elements.
    let (sources, destinations, from, to) = unsafe {
        (
            ranks(sources, incoming, comm, "sources")?,
            ranks(destinations, outgoing, comm, "destinations")?,
            weights(sourceweights, incoming, "sourceweights")?,
            weights(destweights, outgoing, "destweights")?,
        )
    };
    let weighted = match (from, to) {
        (Some(_), Some(_)) => true,
        (None, None) => false,
        // The constant for no edges is not needed where there are none.
        (Some(_), None) if incoming == 0 => false,
        (None, Some(_)) if outgoing == 0 => false,
        _ => {
            return Err(err!(
                Arg,
                "one of sourceweights and destweights is MPI_UNWEIGHTED, but either both or none can be"
            ));
        }
    };
    let weights = |weights: Option<&[c_int]>| weights.filter(|_| weighted).unwrap_or_default().to_vec();
    Ok(DistGraph {
        sources: Edges {
            ranks: sources,
            weights: weights(from),
        },
        destinations: Edges {
            ranks: destinations,
            weights: weights(to),
        },
        weighted,
    })
}

/// The edges that arguments describe, and whether they have weights.
///
/// # Safety
/// The pointers are constants, null, or valid: `sources` and `degrees` for `n` numbers, the others for as many as the degrees say.
unsafe fn edges(
    comm: &Communicator,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    edge_weights: *const c_int,
) -> Result<(Vec<Edge>, bool)> {
    let number = length(n, "n")?;
    // SAFETY: the caller's arrays have that many elements.
    let (sources, degrees) = unsafe {
        (
            ranks(sources, number, comm, "sources")?,
            array(degrees, number, "degrees")?,
        )
    };
    let mut total = 0usize;
    for (at, &degree) in degrees.iter().enumerate() {
        total = total.saturating_add(length(degree, &format!("degrees[{at}]"))?);
    }
    if u32::try_from(total).is_err() {
        return Err(err!(
            Arg,
            "degrees holds {total} edges in all, more than one process can give"
        ));
    }
    // SAFETY: the caller's arrays have that many elements.
    let (destinations, weights) = unsafe {
        (
            ranks(destinations, total, comm, "destinations")?,
            weights(edge_weights, total, "weights")?,
        )
    };
    let origins = sources
        .iter()
        .zip(degrees)
        .flat_map(|(&source, &degree)| std::iter::repeat_n(source, degree as usize));
    let edge = |(at, (source, destination))| Edge {
        source,
        destination,
        weight: weights.map_or(1, |weights: &[c_int]| weights[at]),
    };
    let edges = origins.zip(destinations).enumerate().map(edge).collect();
    Ok((edges, weights.is_some()))
}

/// Gives the first edges of a list, as many as there is room for.
///
/// # Safety
/// `ranks` is null or valid for `max` numbers, and so is `weights`, which may be `MPI_UNWEIGHTED`.
unsafe fn give_edges(
    edges: &Edges,
    max: c_int,
    ranks: *mut c_int,
    weights: *mut c_int,
    [max_name, ranks_name, weights_name]: [&str; 3],
) -> Result<()> {
    let number = length(max, max_name)?.min(edges.ranks.len());
    // SAFETY: the caller's arrays are null or have that many elements.
    let to = unsafe { array_mut(ranks, number, ranks_name) }?;
    for (to, &rank) in to.iter_mut().zip(&edges.ranks) {
        *to = rank as c_int;
    }
    let wanted = weights.cast_const() != MPI_UNWEIGHTED && weights.cast_const() != MPI_WEIGHTS_EMPTY;
    if wanted && !edges.weights.is_empty() {
        // SAFETY: as above.
        let to = unsafe { array_mut(weights, number, weights_name) }?;
        to.copy_from_slice(&edges.weights[..number]);
    }
    Ok(())
}

mpi! {
    /// Section 8.5.4. No hint of the info is used.
    small fn MPI_Dist_graph_create_adjacent(comm_old: MPI_Comm, indegree: c_int, sources: *const c_int,
        sourceweights: *const c_int, outdegree: c_int, destinations: *const c_int, destweights: *const c_int,
        info: MPI_Info, reorder: c_int, comm_dist_graph: *mut MPI_Comm) comm(comm_old) {
        let old = intracommunicator(comm_old, "comm_old")?;
        let checked = present(comm_dist_graph, "comm_dist_graph").and_then(|()| objects::optional_info(info));
        // SAFETY: arrays of the user's.
        let graph = checked.and_then(|_| unsafe {
            adjacent(&old, indegree, sources, sourceweights, outdegree, destinations, destweights)
        });
        let new = old.instance().block_on(old.clone().create_dist_graph_adjacent(graph, reordering(&old, reorder)))?;
        // SAFETY: a handle of the user's.
        unsafe { inherit(&old, Some(new), comm_dist_graph) }
    }

    /// Section 8.5.4. As [`MPI_Dist_graph_create_adjacent`].
    small fn MPI_Dist_graph_create(comm_old: MPI_Comm, n: c_int, sources: *const c_int, degrees: *const c_int,
        destinations: *const c_int, weights: *const c_int, info: MPI_Info, reorder: c_int,
        comm_dist_graph: *mut MPI_Comm) comm(comm_old) {
        let old = intracommunicator(comm_old, "comm_old")?;
        let checked = present(comm_dist_graph, "comm_dist_graph").and_then(|()| objects::optional_info(info));
        // SAFETY: arrays of the user's.
        let edges = checked.and_then(|_| unsafe { edges(&old, n, sources, degrees, destinations, weights) });
        let new = old.instance().block_on(old.clone().create_dist_graph(edges, reordering(&old, reorder)))?;
        // SAFETY: a handle of the user's.
        unsafe { inherit(&old, Some(new), comm_dist_graph) }
    }

    /// Section 8.5.5.
    small fn MPI_Dist_graph_neighbors_count(comm: MPI_Comm, indegree: *mut c_int, outdegree: *mut c_int,
        weighted: *mut c_int) comm(comm) {
        let found = topology(comm, "distributed graph")?;
        let Kind::DistGraph(graph) = found.kind() else {
            return Err(other_kind(&found, "distributed graph"));
        };
        // SAFETY: null or `int`s of the user's.
        unsafe {
            give(indegree, graph.sources.ranks.len() as c_int, "indegree")?;
            give(outdegree, graph.destinations.ranks.len() as c_int, "outdegree")?;
            give(weighted, graph.weighted.into(), "weighted")
        }
    }

    /// Section 8.5.5. A shorter array gets the first part of its list. Weights are given where the graph has some, and an array is
    /// there for them.
    small fn MPI_Dist_graph_neighbors(comm: MPI_Comm, maxindegree: c_int, sources: *mut c_int, sourceweights: *mut c_int,
        maxoutdegree: c_int, destinations: *mut c_int, destweights: *mut c_int) comm(comm) {
        let found = topology(comm, "distributed graph")?;
        let Kind::DistGraph(graph) = found.kind() else {
            return Err(other_kind(&found, "distributed graph"));
        };
        let (of_sources, of_destinations) =
            (["maxindegree", "sources", "sourceweights"], ["maxoutdegree", "destinations", "destweights"]);
        // SAFETY: constants, null, or arrays of the user's.
        unsafe {
            give_edges(&graph.sources, maxindegree, sources, sourceweights, of_sources)?;
            give_edges(&graph.destinations, maxoutdegree, destinations, destweights, of_destinations)
        }
    }
}
