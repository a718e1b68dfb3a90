//! Section 6.9 and 6.10 to 6.12: reductions and scans.

use std::ffi::{c_int, c_void};

use super::{
    BUFFER, How, Part, collectives, counts, elements, fast_path, hold, in_place, nothing, operand_in_place,
    part, short,
};
use crate::abi::common::arguments::Integer;
use crate::abi::common::constants::MPI_IN_PLACE;
use crate::abi::common::objects::{self, committed, communicator, intracommunicator};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::base::error::Result;
use crate::err;
use crate::objects::collective::{self, Operands, apart_operands};
use crate::objects::communicator::Communicator;

collectives! {
    /// Section 6.9.1.
    large fn MPI_Reduce, fn MPI_Ireduce, fn MPI_Reduce_init(sendbuf: *const c_void, recvbuf: *mut c_void,
        count: Count, datatype: MPI_Datatype, op: MPI_Op, root: c_int, comm: MPI_Comm) comm(comm) = reduce;

    /// Section 6.9.6.
    large fn MPI_Allreduce, fn MPI_Iallreduce, fn MPI_Allreduce_init(sendbuf: *const c_void, recvbuf: *mut c_void,
        count: Count, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm) comm(comm) = allreduce;

    /// Section 6.10.1.
    large fn MPI_Reduce_scatter_block, fn MPI_Ireduce_scatter_block, fn
        MPI_Reduce_scatter_block_init(sendbuf: *const c_void, recvbuf: *mut c_void, recvcount: Count,
        datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm) comm(comm) = reduce_scatter_block;

    /// Section 6.10.2.
    large fn MPI_Reduce_scatter, fn MPI_Ireduce_scatter, fn MPI_Reduce_scatter_init(sendbuf: *const c_void,
        recvbuf: *mut c_void, recvcounts: *const Count, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm)
        comm(comm) = reduce_scatter;

    /// Section 6.11.1.
    large fn MPI_Scan, fn MPI_Iscan, fn MPI_Scan_init(sendbuf: *const c_void, recvbuf: *mut c_void, count: Count,
        datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm) comm(comm) = scan;

    /// Section 6.11.2.
    large fn MPI_Exscan, fn MPI_Iexscan, fn MPI_Exscan_init(sendbuf: *const c_void, recvbuf: *mut c_void,
        count: Count, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm) comm(comm) = exscan;
}

/// The checked arguments of every reduction. `blocks`: how many times `count`
/// elements there are in the longer buffer. `received`: how many elements the result at this process has; `None`: the receive buffer
/// does not matter here.
///
/// # Safety
/// Where there is no error: as for [`Operands::new`], of the user's buffers (section 6.12).
unsafe fn operands(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    count_name: &str,
    (datatype, op): (MPI_Datatype, MPI_Op),
    blocks: u32,
    received: Option<i64>,
) -> Result<Operands> {
    let datatype = committed(datatype)?;
    let op = objects::op(op)?;
    op.check(&datatype)?;
    if op.is_accumulate_only() {
        return Err(err!(Op, "{} is for one-sided communication only", op.name()));
    }
    let mut number = 0;
    let mut send = None;
    let mut receive = None;
    if !in_place(sendbuf) {
        number = elements(sendbuf, count, &datatype, blocks, "sendbuf", count_name)?;
        send = Some(sendbuf.cast());
    }
    if received.is_some() || in_place(sendbuf) {
        number = elements(recvbuf, count, &datatype, blocks, "recvbuf", count_name)?;
        receive = Some(recvbuf.cast());
    }
    let result = received.and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
    let number = number * u64::from(blocks);
    // SAFETY: the caller's promise.
    Ok(unsafe { Operands::new(send, receive, number, result, hold(datatype), hold(op)) })
}

/// # Safety
/// The arguments are as the standard asks for, as in all that follow.
#[inline(always)]
unsafe fn reduce<H: How>(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: impl Integer,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    mut how: H,
) -> Result<()> {
    let short = |comm: &Communicator| {
        // SAFETY: the caller's buffers are as the standard asks for.
        unsafe { short::reduce(sendbuf, recvbuf, count.wide(), datatype, op, root, comm) }
    };
    if H::BLOCKS
        && let Some(result) = fast_path::run(comm, *how.operation(), short)
    {
        return result;
    }
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
    // Across an intercommunicator the root has no operand, as with MPI_IN_PLACE.
    let sendbuf = if beside { sendbuf } else { MPI_IN_PLACE };
    if in_place(sendbuf) && beside && !at_root {
        return Err(err!(Buffer, "sendbuf can be MPI_IN_PLACE at the root only"));
    }
    // SAFETY: the caller's buffers are as the standard asks for.
    let operands = unsafe {
        operands(
            sendbuf,
            recvbuf,
            count.wide(),
            BUFFER.count,
            (datatype, op),
            1,
            at_root.then(|| count.wide()),
        )
    }?;
    let run = move |operation| async move {
        // SAFETY: this keeps the copy.
        let (operands, refused) = unsafe { apart_operands(operands) }?;
        let reduce = collective::reduce(&operation, root, operands);
        collective::refuse(refused, reduce.await)
    };
    // SAFETY: the caller keeps the buffers valid and alone for this until the operation has ended.
    unsafe { how.run_or(&comm, run, || short(&comm)) }
}

/// # Safety
/// See `reduce`.
#[inline(always)]
unsafe fn allreduce<H: How>(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: impl Integer,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    mut how: H,
) -> Result<()> {
    let short = |comm: &Communicator| {
        // SAFETY: the caller's buffers are as the standard asks for.
        unsafe { short::allreduce(sendbuf, recvbuf, count.wide(), datatype, op, comm) }
    };
    if H::BLOCKS
        && let Some(result) = fast_path::run(comm, *how.operation(), short)
    {
        return result;
    }
    let comm = communicator(comm)?;
    operand_in_place(sendbuf, "sendbuf", &comm)?;
    // SAFETY: the caller's buffers are as the standard asks for.
    let operands = unsafe {
        operands(
            sendbuf,
            recvbuf,
            count.wide(),
            BUFFER.count,
            (datatype, op),
            1,
            Some(count.wide()),
        )
    }?;
    let run = move |operation| async move {
        // SAFETY: this keeps the copy.
        let (operands, refused) = unsafe { apart_operands(operands) }?;
        let allreduce = collective::allreduce(&operation, operands);
        collective::refuse(refused, allreduce.await)
    };
    // SAFETY: the caller keeps the buffers valid and alone for this until the operation has ended.
    unsafe { how.run_or(&comm, run, || short(&comm)) }
}

/// # Safety
/// See `reduce`.
unsafe fn scan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: impl Integer,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    how: impl How,
) -> Result<()> {
    let comm = intracommunicator(comm, "comm")?;
    // SAFETY: the caller's buffers are as the standard asks for.
    let operands = unsafe {
        operands(
            sendbuf,
            recvbuf,
            count.wide(),
            BUFFER.count,
            (datatype, op),
            1,
            Some(count.wide()),
        )
    }?;
    let run = move |operation| async move {
        // SAFETY: this keeps the copy.
        let (operands, refused) = unsafe { apart_operands(operands) }?;
        let scan = collective::scan(&operation, operands);
        collective::refuse(refused, scan.await)
    };
    // SAFETY: the caller keeps the buffers valid and alone for this until the operation has ended.
    unsafe { how.run(&comm, run) }
}

/// # Safety
/// See `reduce`.
unsafe fn exscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: impl Integer,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    how: impl How,
) -> Result<()> {
    let comm = intracommunicator(comm, "comm")?;
    // Rank 0 receives nothing.
    let receives = comm.rank() > 0;
    // SAFETY: the caller's buffers are as the standard asks for.
    let operands = unsafe {
        operands(
            sendbuf,
            recvbuf,
            count.wide(),
            BUFFER.count,
            (datatype, op),
            1,
            receives.then(|| count.wide()),
        )
    }?;
    let run = move |operation| async move {
        // SAFETY: this keeps the copy.
        let (operands, refused) = unsafe { apart_operands(operands) }?;
        let exscan = collective::exscan(&operation, operands);
        collective::refuse(refused, exscan.await)
    };
    // SAFETY: the caller keeps the buffers valid and alone for this until the operation has ended.
    unsafe { how.run(&comm, run) }
}

/// # Safety
/// See `reduce`.
unsafe fn reduce_scatter_block(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: impl Integer,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    how: impl How,
) -> Result<()> {
    let comm = communicator(comm)?;
    operand_in_place(sendbuf, "sendbuf", &comm)?;
    // SAFETY: the caller's buffers are as the standard asks for.
    let operands = unsafe {
        operands(
            sendbuf,
            recvbuf,
            recvcount.wide(),
            "recvcount",
            (datatype, op),
            comm.size(),
            Some(recvcount.wide()),
        )
    }?;
    let run = move |operation| async move {
        // SAFETY: this keeps the copy.
        let (operands, refused) = unsafe { apart_operands(operands) }?;
        let reduce_scatter_block = collective::reduce_scatter_block(&operation, operands);
        collective::refuse(refused, reduce_scatter_block.await)
    };
    // SAFETY: the caller keeps the buffers valid and alone for this until the operation has ended.
    unsafe { how.run(&comm, run) }
}

/// # Safety
/// See `reduce`.
unsafe fn reduce_scatter<C: Integer>(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: *const C,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    how: impl How,
) -> Result<()> {
    let comm = communicator(comm)?;
    operand_in_place(sendbuf, "sendbuf", &comm)?;
    // SAFETY: the caller's arrays have an element for each process.
    let counts = unsafe { counts(recvcounts, comm.size(), "recvcounts") }?;
    let total = counts
        .iter()
        .try_fold(0u64, |sum, &count| sum.checked_add(count))
        .and_then(|sum| i64::try_from(sum).ok())
        .ok_or_else(|| err!(Count, "the sum of recvcounts does not fit in 63 bits"))?;
    let own = counts[comm.rank() as usize];
    // SAFETY: the caller's buffers are as the standard asks for.
    let operands = unsafe {
        operands(
            sendbuf,
            recvbuf,
            total,
            "the sum of recvcounts",
            (datatype, op),
            1,
            // A process may receive nothing, and then needs no buffer.
            (own > 0).then_some(own as i64),
        )
    }?;
    let run = move |operation| async move {
        // SAFETY: this keeps the copy.
        let (operands, refused) = unsafe { apart_operands(operands) }?;
        let reduce_scatter = collective::reduce_scatter(&operation, operands, counts);
        collective::refuse(refused, reduce_scatter.await)
    };
    // SAFETY: the caller keeps the buffers valid and alone for this until the operation has ended.
    unsafe { how.run(&comm, run) }
}
