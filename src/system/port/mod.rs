//! Ports: where processes of another job find this one (MPI 5.0 section 11.9), and channels: the connections that are made there.
//!
//! A port's name says where the port is and carries a secret: who does not know it is refused. Nothing here waits: callers ask again
//! at each turn of progress, and sleep on the descriptors.
//!
//! What does not belong here: what goes through a channel (`objects::management`), and messages between processes (`lane`).

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use crate::base::error::Result;
use crate::err;

/// The longest name of a port, in bytes, without a zero byte at the end: `MPI_MAX_PORT_NAME` - 1.
pub const NAME_MAX: usize = 1023;

/// The longest frame that a channel carries, in bytes.
pub const FRAME_MAX: usize = 1 << 30;

/// An open port. Dropping it closes it: who waits there is refused.
pub struct Port {
    name: String,
}

impl Port {
    /// Opens one. `interface`: the network interface or address that others are to use (the setting `WEFT_INTERFACE`); by default those
    /// that the machine has.
    pub fn open(interface: Option<&str>) -> Result<Port> {
        let _ = interface;
        Err(err!(UnsupportedOperation, "ports are not built yet"))
    }

    /// Its name: printable characters without spaces, at most [`NAME_MAX`] of them.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next process that has come and has shown the secret, if there is one: it has been told that it is accepted.
    pub fn accept(&mut self) -> Result<Option<Channel>> {
        Ok(None)
    }

    /// Becomes readable when [`Port::accept`] may have something to do.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        unimplemented!()
    }
}

/// A connection to a port that is being made.
pub struct Connecting {}

impl Connecting {
    /// Begins to connect to a port by its name. `until`: when to give up.
    ///
    /// # Errors
    /// `MPI_ERR_PORT`: it is no name of a port, or nobody listens there.
    pub fn to(name: &str, until: Option<Instant>) -> Result<Connecting> {
        let _ = (name, until);
        Err(err!(Port, "ports are not built yet"))
    }

    /// The channel, once the port's owner has accepted it.
    ///
    /// # Errors
    /// `MPI_ERR_PORT`: refused, closed meanwhile, or nobody accepted in time.
    pub fn finish(&mut self) -> Result<Option<Channel>> {
        Ok(None)
    }

    /// Becomes readable or writable when [`Connecting::finish`] may have something to do.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        unimplemented!()
    }
}

/// A stream of frames between two processes.
pub struct Channel {
    socket: OwnedFd,
}

impl Channel {
    /// Over a connected stream socket that both sides own (`MPI_Comm_join`).
    pub fn over(socket: OwnedFd) -> Result<Channel> {
        Ok(Channel { socket })
    }

    /// Sends a frame: it is queued, and leaves in [`Channel::is_drained`] and [`Channel::receive`].
    pub fn send(&mut self, frame: Vec<u8>) -> Result<()> {
        let _ = frame;
        Ok(())
    }

    /// Whether all that was sent has left this process.
    pub fn is_drained(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// The next frame, if it is here.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER`: the other side is gone.
    pub fn receive(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Becomes readable when [`Channel::receive`] may have something to do.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        unimplemented!()
    }

    /// The socket, after the last frame.
    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }
}
