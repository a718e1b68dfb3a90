//! What handles stand for.
//!
//! - [`communicator`]: a group and a context, and messages among its members; [`group`]
//! - [`collective`]: the algorithms of collective operations
//! - [`management`]: making, dividing, connecting and ending communicators, which needs collective operations
//! - [`partitioned`]: sends and receives in partitions
//! - [`topology`]: virtual topologies
//! - [`window`], [`file`], [`session`]
//! - [`world`]: the World Model
//! - [`allocation`], [`errhandler`], [`info`], [`memory_kinds`]
//!
//! What does not belong here: handles, C types and codes of errors (`abi`), and single messages (`engine`).

pub mod allocation;
pub mod collective;
pub mod communicator;
pub mod errhandler;
pub mod file;
pub mod group;
pub mod info;
pub mod management;
pub mod memory_kinds;
pub mod partitioned;
pub mod session;
pub mod topology;
pub mod window;
pub mod world;
