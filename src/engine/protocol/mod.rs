//! How messages go, a file for each way. Which one a message takes, its sender chooses by its length, and the receiver of a
//! rendezvous by what it can do.
//!
//! - [`eager`]: at once and whole
//! - [`pipelined`]: in pieces, without waiting for the receive
//! - [`rendezvous`]: announced, and fetched when a receive has matched: [`rendezvous_read`] or [`rendezvous_data`]
//! - [`cancel`]: what is taken back or given up
//!
//! What does not belong here: making headers and talking to lanes (`transmit`), matching (`receive`), the order in which
//! messages leave (`queue`).

pub(super) mod cancel;
pub(super) mod eager;
pub(super) mod pipelined;
pub(super) mod rendezvous;
pub(super) mod rendezvous_data;
pub(super) mod rendezvous_read;
