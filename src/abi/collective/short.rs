//! What a persistent operation does at each start where all of its processes share memory and its arguments are short runs of bytes: what
//! the fast path does for a blocking one (see there for the conditions), prepared when the request is made.
//!
//! A process may take this way, whatever the others do: they publish the same on the general one.

use std::ffi::{c_int, c_void};
use std::future::Future;

use super::fast_path::{Combines, blocks, bytes, combining, reduction, root_of};
use crate::abi::common::types::*;
use crate::base::error::Result;
use crate::objects::collective::Lasting;
use crate::objects::collective::shared::short;
use crate::objects::communicator::Communicator;
use crate::objects::communicator::area::{Bytes, SHORT};

/// An operation that makes its future anew at each start.
pub trait Short: Copy + Send + Sync + 'static {
    /// In its own memory.
    fn begin(self, area: Lasting) -> impl Future<Output = Result<()>> + Send + 'static;
}

/// An operation that is never short.
#[derive(Clone, Copy)]
pub enum Never {}

impl Short for Never {
    async fn begin(self, _: Lasting) -> Result<()> {
        match self {}
    }
}

/// `MPI_Barrier_init`.
#[derive(Clone, Copy)]
pub struct Barrier;

impl Short for Barrier {
    async fn begin(self, area: Lasting) -> Result<()> {
        short::barrier(&area).await
    }
}

#[derive(Clone, Copy)]
struct Bcast {
    buffer: Bytes,
    root: u32,
}

impl Short for Bcast {
    async fn begin(self, area: Lasting) -> Result<()> {
        match self.root == area.mine() {
            true => short::publish(&area, self.buffer).await.map(drop),
            false => short::fetch(&area, self.root, self.buffer).await,
        }
    }
}

/// `MPI_Bcast_init`.
///
/// # Safety
/// The buffer is as the standard asks for whenever the request is active, as in all that follow.
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

#[derive(Clone, Copy)]
struct Allreduce<C> {
    own: Bytes,
    result: Bytes,
    combine: C,
}

impl<C: Combines> Short for Allreduce<C> {
    async fn begin(self, area: Lasting) -> Result<()> {
        // SAFETY: it combines an operand with the result.
        unsafe { short::allreduce(&area, self.own, self.result, self.combine) }.await
    }
}

/// `MPI_Allreduce_init`.
///
/// # Safety
/// See `bcast`.
pub unsafe fn allreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: &Communicator,
) -> Option<impl Short + use<>> {
    // SAFETY: the caller's buffers.
    let (own, result, combine) = unsafe { reduction(sendbuf, recvbuf, count, datatype, op) }?;
    short::all_combine(own, comm.size()).then_some(Allreduce { own, result, combine })
}

#[derive(Clone, Copy)]
struct Reduce<C> {
    own: Bytes,
    /// At the root.
    result: Option<Bytes>,
    combine: C,
}

impl<C: Combines> Short for Reduce<C> {
    async fn begin(self, area: Lasting) -> Result<()> {
        // SAFETY: it combines an operand with the result.
        unsafe { short::reduce(&area, self.own, self.result, self.combine) }.await
    }
}

/// `MPI_Reduce_init`.
///
/// # Safety
/// See `bcast`.
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
                let (own, result, _) = reduction(sendbuf, recvbuf, count, datatype, op)?;
                (own, Some(result))
            }
            false => (bytes(sendbuf, count, datatype, SHORT)?, None),
        }
    };
    Some(Reduce { own, result, combine })
}

#[derive(Clone, Copy)]
struct Allgather {
    own: Bytes,
    all: Bytes,
}

impl Short for Allgather {
    async fn begin(self, area: Lasting) -> Result<()> {
        short::allgather(&area, self.own, self.all).await
    }
}

/// `MPI_Allgather_init`.
///
/// # Safety
/// See `bcast`.
pub unsafe fn allgather(
    send: (*const c_void, i64, MPI_Datatype),
    receive: (*const c_void, i64, MPI_Datatype),
    comm: &Communicator,
) -> Option<impl Short + use<>> {
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
    async fn begin(self, area: Lasting) -> Result<()> {
        short::alltoall(&area, self.send, self.receive).await
    }
}

/// `MPI_Alltoall_init`.
///
/// # Safety
/// See `bcast`.
pub unsafe fn alltoall(
    send: (*const c_void, i64, MPI_Datatype),
    receive: (*const c_void, i64, MPI_Datatype),
    comm: &Communicator,
) -> Option<impl Short + use<>> {
    // SAFETY: the caller's buffers.
    let (send, receive) = unsafe { blocks(send, receive, comm.size(), comm.size()) }?;
    Some(Alltoall { send, receive })
}
