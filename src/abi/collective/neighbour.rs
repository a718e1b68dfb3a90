//! Section 8.6: operations among neighbours in a topology.

use std::ffi::c_void;
use std::sync::Arc;

use super::{How, Names, RECEIVE, SEND, buffer, collectives, fast_path, vbuffer, wbuffer};
use crate::abi::common::arguments::Integer;
use crate::abi::common::objects::intracommunicator;
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::base::error::Result;
use crate::err;
use crate::objects::collective;
use crate::objects::communicator::Communicator;

collectives! {
    /// Section 8.6.1.
    large fn MPI_Neighbor_allgather, fn MPI_Ineighbor_allgather, fn MPI_Neighbor_allgather_init(sendbuf: *const c_void,
        sendcount: Count, sendtype: MPI_Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype,
        comm: MPI_Comm) comm(comm) = allgather;

    /// Section 8.6.1.
    large fn MPI_Neighbor_allgatherv, fn MPI_Ineighbor_allgatherv, fn MPI_Neighbor_allgatherv_init(
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype, recvbuf: *mut c_void,
        recvcounts: *const Count, displs: *const Displ, recvtype: MPI_Datatype, comm: MPI_Comm) comm(comm) =
        allgatherv;

    /// Section 8.6.2.
    large fn MPI_Neighbor_alltoall, fn MPI_Ineighbor_alltoall, fn MPI_Neighbor_alltoall_init(sendbuf: *const c_void,
        sendcount: Count, sendtype: MPI_Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype,
        comm: MPI_Comm) comm(comm) = alltoall;

    /// Section 8.6.2.
    large fn MPI_Neighbor_alltoallv, fn MPI_Ineighbor_alltoallv, fn MPI_Neighbor_alltoallv_init(sendbuf: *const c_void,
        sendcounts: *const Count, sdispls: *const Displ, sendtype: MPI_Datatype, recvbuf: *mut c_void,
        recvcounts: *const Count, rdispls: *const Displ, recvtype: MPI_Datatype, comm: MPI_Comm) comm(comm) =
        alltoallv;

    /// Section 8.6.2. Displacements are addresses in both forms.
    large fn MPI_Neighbor_alltoallw, fn MPI_Ineighbor_alltoallw, fn MPI_Neighbor_alltoallw_init(sendbuf: *const c_void,
        sendcounts: *const Count, sdispls: *const MPI_Aint, sendtypes: *const MPI_Datatype, recvbuf: *mut c_void,
        recvcounts: *const Count, rdispls: *const MPI_Aint, recvtypes: *const MPI_Datatype, comm: MPI_Comm)
        comm(comm) = alltoallw;
}

/// A communicator with a topology, and how many sources and destinations this process has.
fn arranged(comm: MPI_Comm) -> Result<(Arc<Communicator>, u32, u32)> {
    let comm = intracommunicator(comm, "comm")?;
    let Some(topology) = comm.topology() else {
        return Err(err!(
            Topology,
            "the communicator has no topology, so nobody has neighbours"
        ));
    };
    let neighbours = topology.neighbours()?;
    let numbers = (
        neighbours.sources.len() as u32,
        neighbours.destinations.len() as u32,
    );
    Ok((comm, numbers.0, numbers.1))
}

/// Runs an operation in some way. It is of the caller's buffers, which are as the standard asks for until the operation has ended.
macro_rules! run {
    ($operation:ident($send:ident, $receive:ident), $how:ident, $comm:ident) => {{
        let run = move |operation| async move {
            // SAFETY: the caller's buffers are as the standard asks for while this runs, and it keeps the copy.
            let (send, refused) = unsafe { collective::apart($send, &$receive) }?;
            let result = collective::$operation(&operation, send, $receive).await;
            collective::refuse(refused, result)
        };
        // SAFETY: the caller keeps the buffers valid and alone for this until the operation has ended.
        unsafe { $how.run(&$comm, run) }
    }};
}

/// The names of the receive buffer's arguments where only this side has displacements.
const GATHERED: Names = RECEIVE.with_displs();

/// # Safety
/// The arguments are as the standard asks for, as in all that follow.
#[inline(always)]
unsafe fn allgather<H: How>(
    sendbuf: *const c_void,
    sendcount: impl Integer,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: impl Integer,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    mut how: H,
) -> Result<()> {
    if H::BLOCKS {
        let (send, receive) = (
            (sendbuf, sendcount.wide(), sendtype),
            (recvbuf.cast_const(), recvcount.wide(), recvtype),
        );
        // SAFETY: the caller's buffers are as the standard asks for.
        let done = unsafe { fast_path::neighbours(send, receive, true, comm, *how.operation()) };
        if let Some(result) = done {
            return result;
        }
    }
    let (comm, sources, _) = arranged(comm)?;
    // SAFETY: the caller's buffers are as the standard asks for.
    let (send, receive) = unsafe {
        (
            buffer(sendbuf, sendcount.wide(), sendtype, 1, SEND)?,
            buffer(recvbuf, recvcount.wide(), recvtype, sources, RECEIVE)?,
        )
    };
    run!(neighbour_allgather(send, receive), how, comm)
}

/// # Safety
/// See `allgather`.
unsafe fn allgatherv<C: Integer>(
    sendbuf: *const c_void,
    sendcount: C,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const C,
    displs: *const impl Integer,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    how: impl How,
) -> Result<()> {
    let (comm, sources, _) = arranged(comm)?;
    // SAFETY: the caller's arrays have an element for each source, and its buffers are as the standard asks for.
    let (send, receive) = unsafe {
        (
            buffer(sendbuf, sendcount.wide(), sendtype, 1, SEND)?,
            vbuffer(recvbuf, recvcounts, displs, recvtype, sources, GATHERED)?,
        )
    };
    run!(neighbour_allgatherv(send, receive), how, comm)
}

/// # Safety
/// See `allgather`.
#[inline(always)]
unsafe fn alltoall<H: How>(
    sendbuf: *const c_void,
    sendcount: impl Integer,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: impl Integer,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    mut how: H,
) -> Result<()> {
    if H::BLOCKS {
        let (send, receive) = (
            (sendbuf, sendcount.wide(), sendtype),
            (recvbuf.cast_const(), recvcount.wide(), recvtype),
        );
        // SAFETY: the caller's buffers are as the standard asks for.
        let done = unsafe { fast_path::neighbours(send, receive, false, comm, *how.operation()) };
        if let Some(result) = done {
            return result;
        }
    }
    let (comm, sources, destinations) = arranged(comm)?;
    // SAFETY: the caller's buffers are as the standard asks for.
    let (send, receive) = unsafe {
        (
            buffer(sendbuf, sendcount.wide(), sendtype, destinations, SEND)?,
            buffer(recvbuf, recvcount.wide(), recvtype, sources, RECEIVE)?,
        )
    };
    run!(neighbour_alltoall(send, receive), how, comm)
}

/// # Safety
/// See `allgather`.
unsafe fn alltoallv<C: Integer, D: Integer>(
    sendbuf: *const c_void,
    sendcounts: *const C,
    sdispls: *const D,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const C,
    rdispls: *const D,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    how: impl How,
) -> Result<()> {
    let (comm, sources, destinations) = arranged(comm)?;
    // SAFETY: the caller's arrays have an element for each neighbour, and its buffers are as the standard asks for.
    let (send, receive) = unsafe {
        (
            vbuffer(sendbuf, sendcounts, sdispls, sendtype, destinations, SEND)?,
            vbuffer(recvbuf, recvcounts, rdispls, recvtype, sources, RECEIVE)?,
        )
    };
    run!(neighbour_alltoallv(send, receive), how, comm)
}

/// # Safety
/// See `allgather`.
unsafe fn alltoallw<C: Integer>(
    sendbuf: *const c_void,
    sendcounts: *const C,
    sdispls: *const MPI_Aint,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const C,
    rdispls: *const MPI_Aint,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    how: impl How,
) -> Result<()> {
    let (comm, sources, destinations) = arranged(comm)?;
    // SAFETY: the caller's arrays have an element for each neighbour, and its buffers are as the standard asks for.
    let (send, receive) = unsafe {
        (
            wbuffer(sendbuf, sendcounts, sdispls, sendtypes, destinations, SEND)?,
            wbuffer(recvbuf, recvcounts, rdispls, recvtypes, sources, RECEIVE)?,
        )
    };
    run!(neighbour_alltoallw(send, receive), how, comm)
}
