//! How messages are sent, a file for each protocol. The sender chooses the protocol by the message's length; the receiver
//! of a rendezvous chooses how the data comes.
//!
//! - [`eager`]: at once and whole
//! - [`pipelined`]: in pieces, without waiting for the receive
//! - [`rendezvous`]: announced, and fetched when a receive has matched: [`rendezvous_read`] or [`rendezvous_data`]
//! - [`cancel`]: requests that are cancelled or abandoned
//!
//! What does not belong here: making headers and talking to lanes (`transmit`), matching (`receive`), the order in which
//! messages leave (`queue`).

pub(super) mod cancel;
pub(super) mod eager;
pub(super) mod pipelined;
pub(super) mod rendezvous;
pub(super) mod rendezvous_data;
pub(super) mod rendezvous_read;
