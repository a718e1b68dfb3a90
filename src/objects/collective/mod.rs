//! Collective operations (MPI 5.0 chapter 6), each an `async fn` over the messages of one
//! [`Collective`](crate::objects::communicator::Collective): the blocking, the nonblocking and the persistent procedure poll the
//! same function. Futures own what they describe, so that a task can hold them.
//!
//! - one file for each family of procedures
//! - `inter`: across intercommunicators, made of those inside a group
//! - `choose`: what is asked of the table of algorithms, and which of them can be used
//! - `two_level`: over several hosts, inside each and between one process of each
//! - `flat`: the direct algorithms, for processes that do
//! - `shared`: blocking ones in memory that the processes of a host share, without messages
//! - `buffer`: arguments of the procedures; `overlap`: send and receive buffers that overlap
//! - `persistent`: operations that are started again and again; `pool`: the memory that they keep
//! - `model`: the same algorithms in a model of a machine, for many processes
//! - `run`: the messages of one run; `queue`, `scratch`, `pieces`, `tree`, `reduction`: what algorithms are made of
//!
//! What does not belong here: handles and arguments (`abi::collective`), arithmetic on elements (`data::op`), making and ending
//! communicators (`management`), and finding out that ranks call different operations (`engine::mismatch`).
//!
//! # Failures
//! A message that fails does not end the operation on this process: the algorithm continues with what it has, so that its
//! peers are not left waiting, and the first failure is the result. What the peers of a failed process then get is
//! undefined. Counts that do not match are errors of the program. They never lead to accesses outside a buffer: where a
//! message is too long for its place the receiver gets `MPI_ERR_TRUNCATE`; where they make processes choose different
//! algorithms, those may wait for each other. If memory for temporary data is missing, a process ends at once with
//! `MPI_ERR_NO_MEM`.

mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod bcast;
mod buffer;
mod choose;
mod flat;
mod gather;
mod inter;
#[cfg(feature = "sim")]
pub mod model;
mod neighbour;
mod overlap;
mod persistent;
mod pieces;
mod pool;
mod queue;
mod reduce;
mod reduce_scatter;
mod reduction;
mod run;
mod scan;
mod scatter;
mod scratch;
pub mod shared;
mod tree;
mod two_level;

pub use allgather::{allgather, allgather_bytes, allgatherv};
pub use allreduce::allreduce;
pub use alltoall::{alltoall, alltoallv, alltoallw};
pub use barrier::{barrier, flush, largest, missing};
pub use bcast::{bcast, bcast_bytes};
pub use buffer::{Buffer, Operands, VBuffer, WBuffer};
pub use gather::{gather, gatherv};
pub use inter::Root;
pub use neighbour::{
    neighbour_allgather, neighbour_allgatherv, neighbour_alltoall, neighbour_alltoallv, neighbour_alltoallw,
};
pub use overlap::{Blocked, Refused, apart, apart_operands, elements_overlap, refuse};
pub use persistent::{persistent, persistent_in_area};
pub use reduce::reduce;
pub use reduce_scatter::{reduce_scatter, reduce_scatter_block, sum_of_each};
pub use scan::{exscan, scan};
pub use scatter::{scatter, scatterv};
