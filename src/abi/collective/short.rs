//! Short operations: those whose arguments are runs of bytes that a short place of shared memory has room for
//! (`objects::collective::shared`). Each is described once: which arguments are of a short one, and what it does. Blocking procedures run
//! it at once (`fast_path`), persistent ones at each start.
//!
//! The conditions, beside a communicator whose processes all share such memory: buffers of a predefined datatype that are one run of bytes,
//! not empty, not at null, and do not overlap; a predefined operation; and no more bytes than a place has room for. A process may take this
//! way, whatever the others do: they publish the same on the general one.

use std::ffi::{c_int, c_void};
use std::future::Future;

use super::in_place;
use crate::abi::common::types::*;
use crate::abi::point_to_point::fast_path::run;
use crate::base::error::Result;
use crate::data::datatype::Datatype;
use crate::data::op::Op;
use crate::objects::collective::shared::short;
use crate::objects::communicator::Communicator;
use crate::objects::communicator::area::{Area, Bytes, SHORT};

/// An operation that makes its future anew each time.
pub trait Short: Copy + Send + Sync + 'static {
    /// Where it has a root, by which its messages are told from those of others: that.
    #[inline(always)]
    fn root(self) -> Option<u32> {
        None
    }

    /// In this memory.
    fn begin(self, area: &Area) -> impl Future<Output = Result<()>> + Send;
}

/// An operation that is never short.
#[derive(Clone, Copy)]
pub enum Never {}

impl Short for Never {
    async fn begin(self, _: &Area) -> Result<()> {
        match self {}
    }
}

/// `MPI_Barrier`.
#[derive(Clone, Copy)]
pub struct Barrier;

impl Short for Barrier {
    #[inline(always)]
    fn begin(self, area: &Area) -> impl Future<Output = Result<()>> + Send {
        short::barrier(area)
    }
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
fn root_of(root: c_int, comm: &Communicator) -> Option<u32> {
    u32::try_from(root).ok().filter(|&root| root < comm.size())
}

#[derive(Clone, Copy)]
struct Bcast {
    buffer: Bytes,
    root: u32,
}

impl Short for Bcast {
    #[inline(always)]
    fn root(self) -> Option<u32> {
        Some(self.root)
    }

    #[inline(always)]
    async fn begin(self, area: &Area) -> Result<()> {
        match self.root == area.mine() {
            true => short::publish(area, self.buffer).await.map(drop),
            false => short::fetch(area, self.root, self.buffer).await,
        }
    }
}

/// `MPI_Bcast`.
///
/// # Safety
/// The buffer is as the standard asks for: during the blocking call, or whenever the request is active; as in all that follow.
#[inline(always)]
pub unsafe fn bcast(
    buffer: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    root: c_int,
    comm: &Communicator,
) -> Option<impl Short + use<>> {
    let root = root_of(root, comm)?;
    // SAFETY: the caller's buffer.
    let buffer = unsafe { bytes(buffer, count, datatype, SHORT) }?;
    Some(Bcast { buffer, root })
}

/// A function that combines an operand with a result.
trait Combines: Fn(Bytes, Bytes) + Copy + Send + Sync + 'static {}

impl<C: Fn(Bytes, Bytes) + Copy + Send + Sync + 'static> Combines for C {}

/// See [`Combines`].
#[inline(always)]
fn combining(count: i64, datatype: MPI_Datatype, op: MPI_Op) -> Option<impl Combines> {
    let (datatype, op) = (Datatype::predefined(datatype)?, Op::predefined(op)?);
    if op.check(datatype).is_err() || op.is_accumulate_only() {
        return None;
    }
    // SAFETY: `short::allreduce` and `short::reduce` pass an operand and the result, of so many elements.
    Some(move |input: Bytes, inout: Bytes| unsafe {
        op.apply(input.address(), inout.address(), count as u64, datatype);
    })
}

/// This process's operand and its result, which are apart or the same.
///
/// # Safety
/// See `bcast`.
#[inline(always)]
unsafe fn operands(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
) -> Option<(Bytes, Bytes)> {
    // SAFETY: the caller's buffers.
    let result = unsafe { bytes(recvbuf, count, datatype, SHORT) }?;
    let own = match in_place(sendbuf) {
        true => result,
        // SAFETY: the caller's buffers.
        false => unsafe { bytes(sendbuf, count, datatype, SHORT) }.filter(|own| own.is_apart(result))?,
    };
    Some((own, result))
}

#[derive(Clone, Copy)]
struct Allreduce<C> {
    own: Bytes,
    result: Bytes,
    combine: C,
}

impl<C: Combines> Short for Allreduce<C> {
    #[inline(always)]
    fn begin(self, area: &Area) -> impl Future<Output = Result<()>> + Send {
        // SAFETY: it combines an operand with the result.
        unsafe { short::allreduce(area, self.own, self.result, self.combine) }
    }
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
    comm: &Communicator,
) -> Option<impl Short + use<>> {
    // SAFETY: the caller's buffers.
    let (own, result) = unsafe { operands(sendbuf, recvbuf, count, datatype) }?;
    let combine = combining(count, datatype, op)?;
    short::all_combine(own, comm.size()).then_some(Allreduce { own, result, combine })
}

#[derive(Clone, Copy)]
struct Reduce<C> {
    own: Bytes,
    /// At the root.
    result: Option<Bytes>,
    combine: C,
    root: u32,
}

impl<C: Combines> Short for Reduce<C> {
    #[inline(always)]
    fn root(self) -> Option<u32> {
        Some(self.root)
    }

    #[inline(always)]
    fn begin(self, area: &Area) -> impl Future<Output = Result<()>> + Send {
        // SAFETY: it combines an operand with the result.
        unsafe { short::reduce(area, self.own, self.result, self.combine) }
    }
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
    comm: &Communicator,
) -> Option<impl Short + use<>> {
    let root = root_of(root, comm)?;
    let combine = combining(count, datatype, op)?;
    // SAFETY: the caller's buffers.
    let (own, result) = unsafe {
        match root == comm.rank() {
            true => {
                let (own, result) = operands(sendbuf, recvbuf, count, datatype)?;
                (own, Some(result))
            }
            false => (bytes(sendbuf, count, datatype, SHORT)?, None),
        }
    };
    Some(Reduce {
        own,
        result,
        combine,
        root,
    })
}

/// Address, number of elements in a block, datatype.
type Blocks = (*const c_void, i64, MPI_Datatype);

/// Two buffers with a block for each process in the second one, and in the first one as many as `blocks`.
///
/// # Safety
/// See `bcast`.
#[inline(always)]
unsafe fn blocks(
    (sendbuf, sendcount, sendtype): Blocks,
    (recvbuf, recvcount, recvtype): Blocks,
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

#[derive(Clone, Copy)]
struct Allgather {
    own: Bytes,
    all: Bytes,
}

impl Short for Allgather {
    #[inline(always)]
    fn begin(self, area: &Area) -> impl Future<Output = Result<()>> + Send {
        short::allgather(area, self.own, self.all)
    }
}

/// `MPI_Allgather`.
///
/// # Safety
/// See `bcast`.
#[inline(always)]
pub unsafe fn allgather(send: Blocks, receive: Blocks, comm: &Communicator) -> Option<impl Short + use<>> {
    // SAFETY: the caller's buffers.
    let (own, all) = unsafe { blocks(send, receive, comm.size(), 1) }?;
    Some(Allgather { own, all })
}

#[derive(Clone, Copy)]
struct Alltoall {
    send: Bytes,
    receive: Bytes,
}

impl Short for Alltoall {
    #[inline(always)]
    fn begin(self, area: &Area) -> impl Future<Output = Result<()>> + Send {
        short::alltoall(area, self.send, self.receive)
    }
}

/// `MPI_Alltoall`.
///
/// # Safety
/// See `bcast`.
#[inline(always)]
pub unsafe fn alltoall(send: Blocks, receive: Blocks, comm: &Communicator) -> Option<impl Short + use<>> {
    // SAFETY: the caller's buffers.
    let (send, receive) = unsafe { blocks(send, receive, comm.size(), comm.size()) }?;
    Some(Alltoall { send, receive })
}
