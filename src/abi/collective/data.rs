//! Sections 6.3 to 6.8: operations that move data.

use std::ffi::{c_int, c_void};

use super::{
    BUFFER, How, Part, RECEIVE, SEND, apart, buffer, collectives, fast_path, in_place, nothing,
    operand_in_place, part, short, vbuffer, wbuffer,
};
use crate::abi::common::arguments::Integer;
use crate::abi::common::objects::communicator;
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::base::error::Result;
use crate::objects::collective;
use crate::objects::communicator::Communicator;

collectives! {
    /// Section 6.3.
    small fn MPI_Barrier, fn MPI_Ibarrier, fn MPI_Barrier_init(comm: MPI_Comm) comm(comm) = barrier;

    /// Section 6.4.
    large fn MPI_Bcast, fn MPI_Ibcast, fn MPI_Bcast_init(buffer: *mut c_void, count: Count, datatype: MPI_Datatype,
        root: c_int, comm: MPI_Comm) comm(comm) = bcast;

    /// Section 6.5.
    large fn MPI_Gather, fn MPI_Igather, fn MPI_Gather_init(sendbuf: *const c_void, sendcount: Count,
        sendtype: MPI_Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype, root: c_int,
        comm: MPI_Comm) comm(comm) = gather;

    /// Section 6.5.
    large fn MPI_Gatherv, fn MPI_Igatherv, fn MPI_Gatherv_init(sendbuf: *const c_void, sendcount: Count,
        sendtype: MPI_Datatype, recvbuf: *mut c_void, recvcounts: *const Count, displs: *const Displ,
        recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm) comm(comm) = gatherv;

    /// Section 6.6.
    large fn MPI_Scatter, fn MPI_Iscatter, fn MPI_Scatter_init(sendbuf: *const c_void, sendcount: Count,
        sendtype: MPI_Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype, root: c_int,
        comm: MPI_Comm) comm(comm) = scatter;

    /// Section 6.6.
    large fn MPI_Scatterv, fn MPI_Iscatterv, fn MPI_Scatterv_init(sendbuf: *const c_void, sendcounts: *const Count,
        displs: *const Displ, sendtype: MPI_Datatype, recvbuf: *mut c_void, recvcount: Count,
        recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm) comm(comm) = scatterv;

    /// Section 6.7.
    large fn MPI_Allgather, fn MPI_Iallgather, fn MPI_Allgather_init(sendbuf: *const c_void, sendcount: Count,
        sendtype: MPI_Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype, comm: MPI_Comm)
        comm(comm) = allgather;

    /// Section 6.7.
    large fn MPI_Allgatherv, fn MPI_Iallgatherv, fn MPI_Allgatherv_init(sendbuf: *const c_void, sendcount: Count,
        sendtype: MPI_Datatype, recvbuf: *mut c_void, recvcounts: *const Count, displs: *const Displ,
        recvtype: MPI_Datatype, comm: MPI_Comm) comm(comm) = allgatherv;

    /// Section 6.8.
    large fn MPI_Alltoall, fn MPI_Ialltoall, fn MPI_Alltoall_init(sendbuf: *const c_void, sendcount: Count,
        sendtype: MPI_Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype, comm: MPI_Comm)
        comm(comm) = alltoall;

    /// Section 6.8.
    large fn MPI_Alltoallv, fn MPI_Ialltoallv, fn MPI_Alltoallv_init(sendbuf: *const c_void,
        sendcounts: *const Count, sdispls: *const Displ, sendtype: MPI_Datatype, recvbuf: *mut c_void,
        recvcounts: *const Count, rdispls: *const Displ, recvtype: MPI_Datatype, comm: MPI_Comm) comm(comm) =
        alltoallv;

    /// Section 6.8.
    large fn MPI_Alltoallw, fn MPI_Ialltoallw, fn MPI_Alltoallw_init(sendbuf: *const c_void,
        sendcounts: *const Count, sdispls: *const Displ, sendtypes: *const MPI_Datatype, recvbuf: *mut c_void,
        recvcounts: *const Count, rdispls: *const Displ, recvtypes: *const MPI_Datatype, comm: MPI_Comm) comm(comm)
        = alltoallw;
}

/// # Safety
/// The arguments are as the standard asks for, as in all that follow.
#[inline(always)]
unsafe fn barrier<H: How>(comm: MPI_Comm, mut how: H) -> Result<()> {
    if H::BLOCKS
        && let Some(result) = fast_path::run(comm, *how.operation(), |_| Some(short::Barrier))
    {
        return result;
    }
    let comm = communicator(comm)?;
    let run = |operation| async move { collective::barrier(&operation).await };
    // SAFETY: there is no memory.
    unsafe { how.run_or(&comm, run, || Some(short::Barrier)) }
}

/// # Safety
/// See `barrier`.
#[inline(always)]
unsafe fn bcast<H: How>(
    buffer: *mut c_void,
    count: impl Integer,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    mut how: H,
) -> Result<()> {
    let short = |comm: &Communicator| {
        // SAFETY: the caller's buffer is as the standard asks for.
        unsafe { short::bcast(buffer, count.wide(), datatype, root, comm) }
    };
    if H::BLOCKS
        && let Some(result) = fast_path::run(comm, *how.operation(), short)
    {
        return result;
    }
    let comm = communicator(comm)?;
    let Some(Part { root, .. }) = part(root, &comm)? else {
        // SAFETY: there is no memory.
        return unsafe { how.run(&comm, nothing) };
    };
    let how = how.of_root(root, &comm);
    // SAFETY: the caller's buffer is as the standard asks for.
    let buffer = unsafe { self::buffer(buffer, count.wide(), datatype, 1, BUFFER) }?;
    let run = move |operation| async move { collective::bcast(&operation, root, buffer).await };
    // SAFETY: the caller keeps the buffers valid and alone for this until the operation has ended.
    unsafe { how.run_or(&comm, run, || short(&comm)) }
}

/// # Safety
/// See `barrier`.
unsafe fn gather(
    sendbuf: *const c_void,
    sendcount: impl Integer,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: impl Integer,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    how: impl How,
) -> Result<()> {
    let comm = communicator(comm)?;
    let Some(Part {
        root,
        at_root,
        beside,
    }) = part(root, &comm)?
    else {
        // SAFETY: there is no memory.
        return unsafe { how.run(&comm, nothing) };
    };
    let how = how.of_root(root, &comm);
    let send = match !beside || (at_root && in_place(sendbuf)) {
        true => None,
        // SAFETY: the caller's buffer is as the standard asks for.
        false => Some(unsafe { buffer(sendbuf, sendcount.wide(), sendtype, 1, SEND) }?),
    };
    let receive = match at_root {
        // SAFETY: the caller's buffer is as the standard asks for.
        true => Some(unsafe { buffer(recvbuf, recvcount.wide(), recvtype, comm.peers().size(), RECEIVE) }?),
        false => None,
    };
    let run = move |operation| async move {
        // SAFETY: the caller's buffers are as the standard asks for while this runs, and it keeps the copy.
        let (send, refused) = unsafe { apart(send, receive.as_ref()) }?;
        collective::refuse(refused, collective::gather(&operation, root, send, receive).await)
    };
    // SAFETY: the caller keeps the buffers valid and alone for this until the operation has ended.
    unsafe { how.run(&comm, run) }
}

/// # Safety
/// See `barrier`.
unsafe fn gatherv<C: Integer>(
    sendbuf: *const c_void,
    sendcount: C,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const C,
    displs: *const impl Integer,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    how: impl How,
) -> Result<()> {
    let comm = communicator(comm)?;
    let Some(Part {
        root,
        at_root,
        beside,
    }) = part(root, &comm)?
    else {
        // SAFETY: there is no memory.
        return unsafe { how.run(&comm, nothing) };
    };
    let how = how.of_root(root, &comm);
    let send = match !beside || (at_root && in_place(sendbuf)) {
        true => None,
        // SAFETY: the caller's buffer is as the standard asks for.
        false => Some(unsafe { buffer(sendbuf, sendcount.wide(), sendtype, 1, SEND) }?),
    };
    let receive = match at_root {
        // SAFETY: the caller's arrays have an element for each process, and its buffer is as the standard asks for.
        true => Some(unsafe {
            vbuffer(
                recvbuf,
                recvcounts,
                displs,
                recvtype,
                comm.peers().size(),
                RECEIVE.with_displs(),
            )
        }?),
        false => None,
    };
    let run = move |operation| async move {
        // SAFETY: the caller's buffers are as the standard asks for while this runs, and it keeps the copy.
        let (send, refused) = unsafe { apart(send, receive.as_ref()) }?;
        collective::refuse(
            refused,
            collective::gatherv(&operation, root, send, receive).await,
        )
    };
    // SAFETY: the caller keeps the buffers valid and alone for this until the operation has ended.
    unsafe { how.run(&comm, run) }
}

/// # Safety
/// See `barrier`.
unsafe fn scatter(
    sendbuf: *const c_void,
    sendcount: impl Integer,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: impl Integer,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    how: impl How,
) -> Result<()> {
    let comm = communicator(comm)?;
    let Some(Part {
        root,
        at_root,
        beside,
    }) = part(root, &comm)?
    else {
        // SAFETY: there is no memory.
        return unsafe { how.run(&comm, nothing) };
    };
    let how = how.of_root(root, &comm);
    let send = match at_root {
        // SAFETY: the caller's buffer is as the standard asks for.
        true => Some(unsafe { buffer(sendbuf, sendcount.wide(), sendtype, comm.peers().size(), SEND) }?),
        false => None,
    };
    let receive = match !beside || (at_root && in_place(recvbuf)) {
        true => None,
        // SAFETY: the caller's buffer is as the standard asks for.
        false => Some(unsafe { buffer(recvbuf, recvcount.wide(), recvtype, 1, RECEIVE) }?),
    };
    let run = move |operation| async move {
        // SAFETY: the caller's buffers are as the standard asks for while this runs, and it keeps the copy.
        let (send, refused) = unsafe { apart(send, receive.as_ref()) }?;
        collective::refuse(
            refused,
            collective::scatter(&operation, root, send, receive).await,
        )
    };
    // SAFETY: the caller keeps the buffers valid and alone for this until the operation has ended.
    unsafe { how.run(&comm, run) }
}

/// # Safety
/// See `barrier`.
unsafe fn scatterv<C: Integer>(
    sendbuf: *const c_void,
    sendcounts: *const C,
    displs: *const impl Integer,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: C,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    how: impl How,
) -> Result<()> {
    let comm = communicator(comm)?;
    let Some(Part {
        root,
        at_root,
        beside,
    }) = part(root, &comm)?
    else {
        // SAFETY: there is no memory.
        return unsafe { how.run(&comm, nothing) };
    };
    let how = how.of_root(root, &comm);
    let send = match at_root {
        // SAFETY: the caller's arrays have an element for each process, and its buffer is as the standard asks for.
        true => Some(unsafe {
            vbuffer(
                sendbuf,
                sendcounts,
                displs,
                sendtype,
                comm.peers().size(),
                SEND.with_displs(),
            )
        }?),
        false => None,
    };
    let receive = match !beside || (at_root && in_place(recvbuf)) {
        true => None,
        // SAFETY: the caller's buffer is as the standard asks for.
        false => Some(unsafe { buffer(recvbuf, recvcount.wide(), recvtype, 1, RECEIVE) }?),
    };
    let run = move |operation| async move {
        // SAFETY: the caller's buffers are as the standard asks for while this runs, and it keeps the copy.
        let (send, refused) = unsafe { apart(send, receive.as_ref()) }?;
        collective::refuse(
            refused,
            collective::scatterv(&operation, root, send, receive).await,
        )
    };
    // SAFETY: the caller keeps the buffers valid and alone for this until the operation has ended.
    unsafe { how.run(&comm, run) }
}

/// # Safety
/// See `barrier`.
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
    let sends = (sendbuf, sendcount.wide(), sendtype);
    let receives = (recvbuf.cast_const(), recvcount.wide(), recvtype);
    // SAFETY: the caller's buffers are as the standard asks for.
    let short = |comm: &Communicator| unsafe { short::allgather(sends, receives, comm) };
    if H::BLOCKS
        && let Some(result) = fast_path::run(comm, *how.operation(), short)
    {
        return result;
    }
    let comm = communicator(comm)?;
    let send = match operand_in_place(sendbuf, SEND.buffer, &comm)? {
        true => None,
        // SAFETY: the caller's buffer is as the standard asks for.
        false => Some(unsafe { buffer(sendbuf, sendcount.wide(), sendtype, 1, SEND) }?),
    };
    // SAFETY: the caller's buffer is as the standard asks for.
    let receive = unsafe { buffer(recvbuf, recvcount.wide(), recvtype, comm.peers().size(), RECEIVE) }?;
    let run = move |operation| async move {
        // SAFETY: the caller's buffers are as the standard asks for while this runs, and it keeps the copy.
        let (send, refused) = unsafe { apart(send, Some(&receive)) }?;
        collective::refuse(refused, collective::allgather(&operation, send, receive).await)
    };
    // SAFETY: the caller keeps the buffers valid and alone for this until the operation has ended.
    unsafe { how.run_or(&comm, run, || short(&comm)) }
}

/// # Safety
/// See `barrier`.
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
    let comm = communicator(comm)?;
    let send = match operand_in_place(sendbuf, SEND.buffer, &comm)? {
        true => None,
        // SAFETY: the caller's buffer is as the standard asks for.
        false => Some(unsafe { buffer(sendbuf, sendcount.wide(), sendtype, 1, SEND) }?),
    };
    // SAFETY: the caller's arrays have an element for each process, and its buffers are as the standard asks for.
    let receive = unsafe {
        vbuffer(
            recvbuf,
            recvcounts,
            displs,
            recvtype,
            comm.peers().size(),
            RECEIVE.with_displs(),
        )
    }?;
    let run = move |operation| async move {
        // SAFETY: the caller's buffers are as the standard asks for while this runs, and it keeps the copy.
        let (send, refused) = unsafe { apart(send, Some(&receive)) }?;
        collective::refuse(refused, collective::allgatherv(&operation, send, receive).await)
    };
    // SAFETY: the caller keeps the buffers valid and alone for this until the operation has ended.
    unsafe { how.run(&comm, run) }
}

/// # Safety
/// See `barrier`.
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
    let sends = (sendbuf, sendcount.wide(), sendtype);
    let receives = (recvbuf.cast_const(), recvcount.wide(), recvtype);
    // SAFETY: the caller's buffers are as the standard asks for.
    let short = |comm: &Communicator| unsafe { short::alltoall(sends, receives, comm) };
    if H::BLOCKS
        && let Some(result) = fast_path::run(comm, *how.operation(), short)
    {
        return result;
    }
    let comm = communicator(comm)?;
    let size = comm.peers().size();
    let send = match operand_in_place(sendbuf, SEND.buffer, &comm)? {
        true => None,
        // SAFETY: the caller's buffer is as the standard asks for.
        false => Some(unsafe { buffer(sendbuf, sendcount.wide(), sendtype, size, SEND) }?),
    };
    // SAFETY: the caller's buffer is as the standard asks for.
    let receive = unsafe { buffer(recvbuf, recvcount.wide(), recvtype, size, RECEIVE) }?;
    let run = move |operation| async move {
        // SAFETY: the caller's buffers are as the standard asks for while this runs, and it keeps the copy.
        let (send, refused) = unsafe { apart(send, Some(&receive)) }?;
        collective::refuse(refused, collective::alltoall(&operation, send, receive).await)
    };
    // SAFETY: the caller keeps the buffers valid and alone for this until the operation has ended.
    unsafe { how.run_or(&comm, run, || short(&comm)) }
}

/// # Safety
/// See `barrier`.
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
    let comm = communicator(comm)?;
    let size = comm.peers().size();
    // SAFETY: the caller's arrays have an element for each process, and its buffers are as the standard asks for.
    let (send, receive) = unsafe {
        let send = match operand_in_place(sendbuf, SEND.buffer, &comm)? {
            true => None,
            false => Some(vbuffer(sendbuf, sendcounts, sdispls, sendtype, size, SEND)?),
        };
        (
            send,
            vbuffer(recvbuf, recvcounts, rdispls, recvtype, size, RECEIVE)?,
        )
    };
    let run = move |operation| async move {
        // SAFETY: the caller's buffers are as the standard asks for while this runs, and it keeps the copy.
        let (send, refused) = unsafe { apart(send, Some(&receive)) }?;
        collective::refuse(refused, collective::alltoallv(&operation, send, receive).await)
    };
    // SAFETY: the caller keeps the buffers valid and alone for this until the operation has ended.
    unsafe { how.run(&comm, run) }
}

/// # Safety
/// See `barrier`.
unsafe fn alltoallw<C: Integer, D: Integer>(
    sendbuf: *const c_void,
    sendcounts: *const C,
    sdispls: *const D,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const C,
    rdispls: *const D,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    how: impl How,
) -> Result<()> {
    let comm = communicator(comm)?;
    let size = comm.peers().size();
    // SAFETY: the caller's arrays have an element for each process, and its buffers are as the standard asks for.
    let (send, receive) = unsafe {
        let send = match operand_in_place(sendbuf, SEND.buffer, &comm)? {
            true => None,
            false => Some(wbuffer(sendbuf, sendcounts, sdispls, sendtypes, size, SEND)?),
        };
        (
            send,
            wbuffer(recvbuf, recvcounts, rdispls, recvtypes, size, RECEIVE)?,
        )
    };
    let run = move |operation| async move {
        // SAFETY: the caller's buffers are as the standard asks for while this runs, and it keeps the copy.
        let (send, refused) = unsafe { apart(send, Some(&receive)) }?;
        collective::refuse(refused, collective::alltoallw(&operation, send, receive).await)
    };
    // SAFETY: the caller keeps the buffers valid and alone for this until the operation has ended.
    unsafe { how.run(&comm, run) }
}
