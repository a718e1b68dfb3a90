//! Chapter 8: virtual topologies. (Operations among neighbours, section 8.6, are in `collective`.)
//!
//! - `cartesian`, `graph`, `dist_graph`: the three kinds
//!
//! What does not belong here: what topologies are (`objects::topology`), and making communicators with them
//! (`objects::management`).

mod cartesian;
mod dist_graph;
mod graph;

use std::ffi::c_int;
use std::sync::Arc;

use crate::abi::common::arguments::give;
use crate::abi::common::constants::*;
use crate::abi::common::objects::early_communicator;
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::base::error::{Error, Result};
use crate::err;
use crate::objects::communicator::Communicator;
use crate::objects::topology::{Kind, Topology};
use crate::system::locality::Location;

mpi! {
    /// Section 8.5.5.
    small fn MPI_Topo_test(comm: MPI_Comm, status: *mut c_int) comm(comm) {
        let kind = early_communicator(comm)?.topology().map(|topology| match topology.kind() {
            Kind::Cartesian(_) => MPI_CART,
            Kind::Graph(_) => MPI_GRAPH,
            Kind::DistGraph(_) => MPI_DIST_GRAPH,
        });
        // SAFETY: null or an `int` of the user's.
        unsafe { give(status, kind.unwrap_or(MPI_UNDEFINED), "status") }
    }
}

/// Whether processes may be reordered; if so, what says where this one is.
fn reordering(comm: &Communicator, reorder: c_int) -> Option<impl FnOnce() -> Location> {
    let instance = comm.instance().clone();
    (reorder != 0).then_some(move || instance.location())
}

/// The topology of a communicator, in a procedure for one kind of them.
fn topology(comm: MPI_Comm, kind: &str) -> Result<Arc<Topology>> {
    let comm = early_communicator(comm)?;
    match comm.topology() {
        Some(topology) => Ok(topology.clone()),
        None => Err(err!(
            Topology,
            "the communicator has no topology, but must have a {kind} topology"
        )),
    }
}

/// A topology is of another kind.
#[cold]
fn other_kind(topology: &Topology, kind: &str) -> Error {
    let other = match topology.kind() {
        Kind::Cartesian(_) => "Cartesian",
        Kind::Graph(_) => "graph",
        Kind::DistGraph(_) => "distributed graph",
    };
    err!(
        Topology,
        "the communicator has a {other} topology, but must have a {kind} topology"
    )
}

/// An argument that says how many elements an array has.
fn length(value: c_int, name: &str) -> Result<usize> {
    usize::try_from(value).map_err(|_| err!(Arg, "{name} is {value}, but must not be negative"))
}
