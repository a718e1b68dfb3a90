//! The fast path of blocking operations that are short ([`short`](super::short)) and whose processes all share memory.
//!
//! Each function does all of its call, or nothing, and returns `None`; then the general path checks everything from the beginning. A
//! process may take either way, whatever the others do: both publish the same.

use std::ffi::c_void;

use super::short::{Short, bytes};
use crate::abi::common::objects::COMMUNICATORS;
use crate::abi::common::types::*;
use crate::base::error::Result;
use crate::data::datatype::Datatype;
use crate::engine::mismatch::Operation;
use crate::instance::run_in_place;
use crate::objects::collective::Buffer;
use crate::objects::collective::shared::{rest_among_neighbours, short};
use crate::objects::communicator::Communicator;
use crate::objects::communicator::area::{Area, SHORT};

/// Runs an operation, if its communicator has such memory and `describe` finds it short.
#[inline(always)]
pub fn run<S: Short>(
    comm: MPI_Comm,
    operation: Operation,
    describe: impl FnOnce(&Communicator) -> Option<S>,
) -> Option<Result<()>> {
    let comm = COMMUNICATORS.get(comm)?;
    let area = comm.whole_area()?;
    let short = describe(&comm)?;
    let operation = match short.root() {
        Some(root) => operation.of_root(root),
        None => operation,
    };
    let used = match Area::begin(area, comm.next_tag(operation)) {
        Ok(used) => used,
        Err(error) => return Some(Err(error)),
    };
    let done = run_in_place(short.begin(area));
    drop(used);
    Some(done)
}

/// `MPI_Neighbor_alltoall` or, where `same` says that one block is for all, `MPI_Neighbor_allgather`.
///
/// # Safety
/// The buffers are as the standard asks for.
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
            let operation = comm.begun_with(tag).on_area();
            let rest = rest_among_neighbours(operation, round, same, receive);
            comm.instance().block_on(rest)
        }
        Err(error) => Err(error),
    })
}
