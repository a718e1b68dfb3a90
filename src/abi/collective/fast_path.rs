//! The fast path of blocking operations on short runs of bytes, where all processes of the communicator share memory
//! (`objects::collective::shared`).
//!
//! Each function does all of its call, or nothing, and returns `None`; then the general path checks everything from the beginning. A
//! process may take either way, whatever the others do: both publish the same.
//!
//! The conditions: a communicator that has such memory; buffers of a predefined datatype that are one run of bytes, not empty, not at
//! null, and do not overlap; a predefined operation; and no more bytes than a place has room for.

use std::ffi::{c_int, c_void};
use std::future::Future;
use std::sync::Arc;

use super::in_place;
use crate::abi::common::objects::COMMUNICATORS;
use crate::abi::common::types::*;
use crate::abi::point_to_point::fast_path::run;
use crate::base::error::Result;
use crate::data::datatype::Datatype;
use crate::data::op::Op;
use crate::engine::mismatch::Operation;
use crate::instance::run_in_place;
use crate::objects::collective::Buffer;
use crate::objects::collective::shared::{rest_among_neighbours, short};
use crate::objects::communicator::Communicator;
use crate::objects::communicator::area::{Area, Bytes, SHORT};

/// Runs an operation, which is made by `make`, on a communicator's memory.
#[inline(always)]
fn on<'a, F: Future<Output = Result<()>>>(
    comm: &'a Communicator,
    area: &'a Area,
    operation: Operation,
    make: impl FnOnce(&'a Area) -> F,
) -> Result<()> {
    let _used = Area::begin(area, comm.next_tag(operation))?;
    run_in_place(make(area))
}

/// A communicator, if all of its processes share memory.
#[inline(always)]
fn sharing(comm: MPI_Comm) -> Option<Arc<Communicator>> {
    let comm = COMMUNICATORS.get(comm)?;
    comm.whole_area().is_some().then_some(comm)
}

/// The bytes of a buffer, if there are some, and no more than `most`.
///
/// # Safety
/// Where there are some: as for [`Bytes::new`].
#[inline(always)]
pub(super) unsafe fn bytes(
    buffer: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    most: usize,
) -> Option<Bytes> {
    if in_place(buffer) {
        return None;
    }
    let piece = run(buffer, count, datatype).filter(|piece| piece.len != 0 && piece.len <= most)?;
    // SAFETY: the caller's promise.
    Some(unsafe { Bytes::new(piece.address, piece.len) })
}

/// A rank of the communicator.
#[inline(always)]
pub(super) fn root_of(root: c_int, comm: &Communicator) -> Option<u32> {
    u32::try_from(root).ok().filter(|&root| root < comm.size())
}

/// `MPI_Barrier`.
#[inline(always)]
pub fn barrier(comm: MPI_Comm, operation: Operation) -> Option<Result<()>> {
    let comm = sharing(comm)?;
    Some(on(&comm, comm.whole_area()?, operation, short::barrier))
}

/// `MPI_Bcast`.
///
/// # Safety
/// The buffer is as the standard asks for, as in all that follow.
#[inline(always)]
pub unsafe fn bcast(
    buffer: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    operation: Operation,
) -> Option<Result<()>> {
    // SAFETY: the caller's buffer.
    let buffer = unsafe { bytes(buffer, count, datatype, SHORT) }?;
    let comm = sharing(comm)?;
    let root = root_of(root, &comm)?;
    let operation = operation.of_root(root);
    let is_root = root == comm.rank();
    let make = |area| async move {
        match is_root {
            true => short::publish(area, buffer).await.map(drop),
            false => short::fetch(area, root, buffer).await,
        }
    };
    Some(on(&comm, comm.whole_area()?, operation, make))
}

/// This process's operand and its result, which are apart or the same, and a function that combines an operand with the result.
///
/// # Safety
/// See `bcast`.
#[inline(always)]
pub(super) unsafe fn reduction(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Option<(Bytes, Bytes, impl Combines)> {
    // SAFETY: the caller's buffers.
    let result = unsafe { bytes(recvbuf, count, datatype, SHORT) }?;
    let own = match in_place(sendbuf) {
        true => result,
        // SAFETY: the caller's buffers.
        false => unsafe { bytes(sendbuf, count, datatype, SHORT) }.filter(|own| own.is_apart(result))?,
    };
    let combine = combining(count, datatype, op)?;
    Some((own, result, combine))
}

/// A function that combines an operand with a result.
pub(super) trait Combines: Fn(Bytes, Bytes) + Copy + Send + Sync + 'static {}

impl<C: Fn(Bytes, Bytes) + Copy + Send + Sync + 'static> Combines for C {}

/// See [`Combines`].
#[inline(always)]
pub(super) fn combining(count: i64, datatype: MPI_Datatype, op: MPI_Op) -> Option<impl Combines> {
    let (datatype, op) = (Datatype::predefined(datatype)?, Op::predefined(op)?);
    if op.check(datatype).is_err() || op.is_accumulate_only() {
        return None;
    }
    // SAFETY: `short::allreduce` and `short::reduce` pass an operand and the result, of so many elements.
    Some(move |input: Bytes, inout: Bytes| unsafe {
        op.apply(input.address(), inout.address(), count as u64, datatype);
    })
}

/// `MPI_Allreduce`.
///
/// # Safety
/// See `bcast`.
#[inline(always)]
pub unsafe fn allreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    operation: Operation,
) -> Option<Result<()>> {
    // SAFETY: the caller's buffers.
    let (own, result, combine) = unsafe { reduction(sendbuf, recvbuf, count, datatype, op) }?;
    let comm = sharing(comm)?;
    if !short::all_combine(own, comm.size()) {
        return None;
    }
    // SAFETY: it combines an operand with the result.
    let make = |area| unsafe { short::allreduce(area, own, result, combine) };
    Some(on(&comm, comm.whole_area()?, operation, make))
}

/// `MPI_Reduce`.
///
/// # Safety
/// See `bcast`.
#[inline(always)]
pub unsafe fn reduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    operation: Operation,
) -> Option<Result<()>> {
    let comm = sharing(comm)?;
    let root = root_of(root, &comm)?;
    let operation = operation.of_root(root);
    let area = comm.whole_area()?;
    if root != comm.rank() {
        let _ = combining(count, datatype, op)?;
        // SAFETY: the caller's buffer.
        let own = unsafe { bytes(sendbuf, count, datatype, SHORT) }?;
        // SAFETY: it combines nothing.
        let make = |area| unsafe { short::reduce(area, own, None, |_, _| {}) };
        return Some(on(&comm, area, operation, make));
    }
    // SAFETY: the caller's buffers.
    let (own, result, combine) = unsafe { reduction(sendbuf, recvbuf, count, datatype, op) }?;
    // SAFETY: it combines an operand with the result.
    let make = |area| unsafe { short::reduce(area, own, Some(result), combine) };
    Some(on(&comm, area, operation, make))
}

/// Two buffers with a block for each process in the second one, and in the first one as many as `blocks`.
///
/// # Safety
/// See `bcast`.
#[inline(always)]
pub(super) unsafe fn blocks(
    (sendbuf, sendcount, sendtype): (*const c_void, i64, MPI_Datatype),
    (recvbuf, recvcount, recvtype): (*const c_void, i64, MPI_Datatype),
    size: u32,
    blocks: u32,
) -> Option<(Bytes, Bytes)> {
    // SAFETY: the caller's buffers.
    let all = unsafe { bytes(recvbuf, recvcount.checked_mul(size.into())?, recvtype, usize::MAX) }?;
    // SAFETY: the caller's buffers.
    let own = unsafe { bytes(sendbuf, sendcount.checked_mul(blocks.into())?, sendtype, SHORT) }?;
    let same = own.number() / blocks as usize == all.number() / size as usize;
    (same && own.is_apart(all)).then_some((own, all))
}

/// `MPI_Allgather`.
///
/// # Safety
/// See `bcast`.
#[inline(always)]
pub unsafe fn allgather(
    send: (*const c_void, i64, MPI_Datatype),
    receive: (*const c_void, i64, MPI_Datatype),
    comm: MPI_Comm,
    operation: Operation,
) -> Option<Result<()>> {
    let comm = sharing(comm)?;
    // SAFETY: the caller's buffers.
    let (own, all) = unsafe { blocks(send, receive, comm.size(), 1) }?;
    let make = |area| short::allgather(area, own, all);
    Some(on(&comm, comm.whole_area()?, operation, make))
}

/// `MPI_Alltoall`.
///
/// # Safety
/// See `bcast`.
#[inline(always)]
pub unsafe fn alltoall(
    send: (*const c_void, i64, MPI_Datatype),
    receive: (*const c_void, i64, MPI_Datatype),
    comm: MPI_Comm,
    operation: Operation,
) -> Option<Result<()>> {
    let comm = sharing(comm)?;
    // SAFETY: the caller's buffers.
    let (own, all) = unsafe { blocks(send, receive, comm.size(), comm.size()) }?;
    let make = |area| short::alltoall(area, own, all);
    Some(on(&comm, comm.whole_area()?, operation, make))
}

/// `MPI_Neighbor_alltoall` or, where `same` says that one block is for all, `MPI_Neighbor_allgather`.
///
/// # Safety
/// See `bcast`.
#[inline(always)]
pub unsafe fn neighbours(
    (sendbuf, sendcount, sendtype): (*const c_void, i64, MPI_Datatype),
    (recvbuf, recvcount, recvtype): (*const c_void, i64, MPI_Datatype),
    same: bool,
    comm: MPI_Comm,
    operation: Operation,
) -> Option<Result<()>> {
    let comm = COMMUNICATORS.get(comm)?;
    let area = comm.area().get()?.as_deref()?;
    let edges = area.edges().get().filter(|edges| edges.all_here)?;
    let sources = edges.sources.len();
    let blocks = if same { 1 } else { edges.destinations.len() };
    let count = |count: i64, blocks: usize| count.checked_mul(blocks as i64);
    // SAFETY: the caller's buffers.
    let (receive, send) = unsafe {
        (
            bytes(recvbuf, count(recvcount, sources)?, recvtype, usize::MAX)?,
            bytes(sendbuf, count(sendcount, blocks)?, sendtype, SHORT)?,
        )
    };
    let len = send.number() / blocks;
    if len != receive.number() / sources || !send.is_apart(receive) {
        return None;
    }
    let tag = comm.next_tag(operation);
    let _used = match Area::begin(area, tag) {
        Ok(used) => used,
        Err(error) => return Some(Err(error)),
    };
    let done = run_in_place(short::neighbours(area, edges, same, (send, receive), len));
    Some(match done {
        Ok(None) => Ok(()),
        Ok(Some(round)) => {
            let address = receive.address();
            // SAFETY: the caller's buffer.
            let receive =
                unsafe { Buffer::new(address, len as u64, sources as u32, Datatype::byte().clone()) };
            let rest = rest_among_neighbours(comm.begun_with(tag).on_area(), round, same, receive);
            comm.instance().block_on(rest)
        }
        Err(error) => Err(error),
    })
}
