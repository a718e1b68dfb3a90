//! Ports: where processes of another job find this one (MPI 5.0 section 11.9), and channels: the connections that are made there.
//!
//! A port's name says where the port is and carries a secret: who does not know it is refused. Nothing here waits: callers ask again
//! at each turn of progress, and sleep on the descriptors.
//!
//! - `name`: a port's name as text
//! - `listening`: [`Port`], the side that accepts
//! - `connecting`: [`Connecting`], the side that comes
//! - `handshake`: the bytes by which the two find that they belong together
//! - `channel`: [`Channel`], frames over what has come of it
//! - `traits`: [`Ports`] and what comes of it, for all that need not know whether these are sockets
//! - `socket`: sockets that are read and written without waiting
//!
//! A connector sends a mark and the secret, and then waits for one byte, which comes when the port's owner accepts it. In the same network
//! namespace it comes by a unix socket, where the kernel tells whose process it is, and processes of other users are refused
//! whatever they know. All others come by TCP.
//!
//! What does not belong here: what goes through a channel (`objects::management`), and messages between processes (`lane`).

mod channel;
mod connecting;
mod handshake;
mod listening;
mod name;
pub(crate) mod socket;
#[cfg(test)]
mod tests;
mod traits;

pub use channel::{Channel, FRAME_MAX};
pub use connecting::Connecting;
pub use listening::Port;
pub use name::NAME_MAX;
pub use traits::{Accepts, Connects, Courier, Ports, Sockets};
