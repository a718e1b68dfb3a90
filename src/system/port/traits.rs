//! Ports and channels as the layers above see them: the simulator has its own, without sockets and clocks.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use super::{Channel, Connecting, Port};
use crate::base::error::Result;

/// How ports are opened and found.
pub trait Ports: Send + Sync {
    /// Opens one. `interface`: see [`Port::open`], also for errors.
    fn open(&self, interface: Option<&str>) -> Result<Box<dyn Accepts>>;

    /// Begins to connect to one: see [`Connecting::to`], also for errors.
    fn connect(&self, name: &str, until: Option<Instant>) -> Result<Box<dyn Connects>>;
}

/// An open port; see [`Port`].
pub trait Accepts: Send {
    /// Its name.
    fn name(&self) -> &str;

    /// The next process that has come, if there is one.
    fn accept(&mut self) -> Result<Option<Box<dyn Courier>>>;

    /// Whether one has been told that it is accepted, and has not confirmed: it would wait for ever if nobody went on with that. It lasts for
    /// seconds at most.
    fn is_accepting(&self) -> bool {
        false
    }

    /// Becomes readable when [`Accepts::accept`] may have something to do. `None`: nobody sleeps.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

/// A connection to a port that is being made; see [`Connecting`].
pub trait Connects: Send {
    /// The channel, once the port's owner has accepted it.
    fn finish(&mut self) -> Result<Option<Box<dyn Courier>>>;

    /// Becomes readable when [`Connects::finish`] may have something to do. `None`: nobody sleeps.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

/// Carries frames between two processes that have no communicator in common. It does not wait: a caller asks again after some progress.
pub trait Courier: Send {
    /// Sends a frame; it may leave later, in the other calls.
    fn send(&mut self, frame: Vec<u8>) -> Result<()>;

    /// The next frame, if it is here. An error: the other side is gone.
    fn receive(&mut self) -> Result<Option<Vec<u8>>>;

    /// Whether all frames have left.
    fn is_drained(&mut self) -> Result<bool>;

    /// Becomes readable when [`Courier::receive`] may have something to do. `None`: nobody sleeps.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// After the last frame: what becomes the link between the two jobs. `None`: the two sides see to that themselves.
    fn into_link(self: Box<Self>) -> Option<OwnedFd>;
}

/// Ports by the system's sockets.
pub struct Sockets;

impl Ports for Sockets {
    fn open(&self, interface: Option<&str>) -> Result<Box<dyn Accepts>> {
        Ok(Box::new(Port::open(interface)?))
    }

    fn connect(&self, name: &str, until: Option<Instant>) -> Result<Box<dyn Connects>> {
        Ok(Box::new(Connecting::to(name, until)?))
    }
}

fn boxed(channel: Channel) -> Box<dyn Courier> {
    Box::new(channel)
}

impl Accepts for Port {
    fn name(&self) -> &str {
        self.name()
    }

    fn accept(&mut self) -> Result<Option<Box<dyn Courier>>> {
        Ok(self.accept()?.map(boxed))
    }

    fn is_accepting(&self) -> bool {
        self.is_accepting()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.descriptor())
    }
}

impl Connects for Connecting {
    fn finish(&mut self) -> Result<Option<Box<dyn Courier>>> {
        Ok(self.finish()?.map(boxed))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.descriptor())
    }
}

impl Courier for Channel {
    fn send(&mut self, frame: Vec<u8>) -> Result<()> {
        self.send(frame)
    }

    fn receive(&mut self) -> Result<Option<Vec<u8>>> {
        self.receive()
    }

    fn is_drained(&mut self) -> Result<bool> {
        self.is_drained()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.descriptor())
    }

    fn into_link(self: Box<Self>) -> Option<OwnedFd> {
        Some(self.into_socket())
    }
}
