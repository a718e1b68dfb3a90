//! The side of a port that accepts.
//!
//! Whoever connects is a stranger until it has shown the secret, and then waits to be accepted. Strangers are looked at all at once, so none
//! holds up another, and those that stay silent are dropped.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{
    AddressFamily, Backlog, Shutdown, SockFlag, SockType, SockaddrLike, SockaddrStorage, UnixAddr, accept4,
    bind, getsockname, listen, shutdown, socket,
};

use super::channel::Channel;
use super::handshake::{Answer, Shown, Stranger, is_confirmed, is_of_this_user};
use super::name::{ADDRESSES_MAX, PortName};
use super::socket::{is_silent, tune};
use crate::base::error::{Error, Result};
use crate::base::random;
use crate::err;
use crate::system::fabric::select::addresses_wanted;

/// How long a connection may take to show the secret.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most strangers. When there are more, the oldest is dropped: an honest one shows the secret at once.
const STRANGERS_MAX: usize = 256;

/// An open port. Dropping it closes it: who waits there is refused.
pub struct Port {
    name: String,
    secret: String,
    listeners: Vec<Listener>,
    strangers: VecDeque<Stranger>,
    /// Those that have shown the secret, in the order in which they did.
    waiting: VecDeque<OwnedFd>,
    /// The one that has been told that it is accepted, and when. It may have given up just then, so it has to confirm.
    accepted: Option<(OwnedFd, Instant)>,
    /// Listeners, strangers, `accepted` and `pending`, to sleep on.
    epoll: Epoll,
    /// Readable while some are waiting.
    pending: EventFd,
}

struct Listener {
    socket: OwnedFd,
    is_local: bool,
}

impl Port {
    /// Opens one. `interface`: the network interface or address that others are to use (the setting `WEFT_INTERFACE`); by default those
    /// that the machine has.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: the setting can't be read. `MPI_ERR_OTHER`: the system allows no sockets.
    pub fn open(interface: Option<&str>) -> Result<Port> {
        let mut name = PortName {
            secret: random::hexadecimal()?,
            socket: random::hexadecimal()?,
            addresses: Vec::new(),
        };
        let local = UnixAddr::new_abstract(&name.abstract_name()).map_err(failed)?;
        let mut listeners = vec![Listener {
            socket: listener(AddressFamily::Unix, &local).map_err(failed)?,
            is_local: true,
        }];
        for address in addresses_wanted(interface)?.into_iter().take(ADDRESSES_MAX) {
            let family = match address.is_ipv4() {
                true => AddressFamily::Inet,
                false => AddressFamily::Inet6,
            };
            // An address may be unusable for reasons of its own: it is still being tested, say. The others are there, too.
            let Ok(socket) = listener(family, &SockaddrStorage::from(SocketAddr::new(address, 0))) else {
                continue;
            };
            if let Some(port) = port_of(&socket) {
                name.addresses.push(SocketAddr::new(address, port));
                listeners.push(Listener {
                    socket,
                    is_local: false,
                });
            }
        }
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?;
        let pending = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).map_err(failed)?;
        let readable = || EpollEvent::new(EpollFlags::EPOLLIN, 0);
        epoll.add(&pending, readable()).map_err(failed)?;
        for listener in &listeners {
            epoll.add(&listener.socket, readable()).map_err(failed)?;
        }
        Ok(Port {
            name: name.encode(),
            secret: name.secret,
            listeners,
            strangers: VecDeque::new(),
            waiting: VecDeque::new(),
            accepted: None,
            epoll,
            pending,
        })
    }

    /// Its name: printable characters without spaces, at most [`NAME_MAX`](super::NAME_MAX) of them.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next process that has come and has shown the secret, if there is one: it has been told that it is accepted, and is still there.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER`: this process has no descriptors left.
    pub fn accept(&mut self) -> Result<Option<Channel>> {
        // Where nothing has happened, this is the only system call.
        let ready = self.epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::ZERO);
        if ready != Ok(0) {
            self.take_all()?;
            self.look_at_strangers();
        }
        while (self.strangers.front()).is_some_and(|oldest| oldest.since.elapsed() > PATIENCE) {
            self.strangers.pop_front();
        }
        let accepted = self.confirmed();
        // A descriptor of events that is written once is readable until it is read. Neither call fails but for that.
        let _ = match self.waiting.is_empty() || self.accepted.is_some() {
            true => self.pending.read().map(drop),
            false => self.pending.write(1).map(drop),
        };
        accepted.map(Channel::over).transpose()
    }

    /// The next one that confirms, as far as that has happened.
    fn confirmed(&mut self) -> Option<OwnedFd> {
        loop {
            let (socket, since) = match self.accepted.take() {
                Some(accepted) => accepted,
                None => {
                    let socket = self.waiting.pop_front()?;
                    // It may have given up.
                    if !is_silent(&socket) || !Answer::Accepted.give(&socket) {
                        continue;
                    }
                    // Without it, it is looked at when something else happens.
                    let _ = (self.epoll).add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, 0));
                    (socket, Instant::now())
                }
            };
            match is_confirmed(&socket) {
                None if since.elapsed() <= PATIENCE => {
                    self.accepted = Some((socket, since));
                    return None;
                }
                Some(true) => {
                    let _ = self.epoll.delete(&socket);
                    tune(&socket);
                    return Some(socket);
                }
                // The next one.
                None | Some(false) => {
                    let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
                }
            }
        }
    }

    /// Becomes readable when [`Port::accept`] may have something to do.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// Whether one has been told that it is accepted, and has not confirmed.
    pub fn is_accepting(&self) -> bool {
        self.accepted.is_some()
    }

    /// The sockets that listen.
    #[cfg(test)]
    pub(super) fn listeners(&self) -> impl Iterator<Item = &OwnedFd> {
        self.listeners.iter().map(|listener| &listener.socket)
    }

    /// Takes all connections that have come.
    fn take_all(&mut self) -> Result<()> {
        for at in 0..self.listeners.len() {
            while let Some(socket) = self.take(at)? {
                if self.listeners[at].is_local && !is_of_this_user(&socket) {
                    Answer::OtherUser.give(&socket);
                    continue;
                }
                if self.strangers.len() == STRANGERS_MAX {
                    self.strangers.pop_front();
                }
                // Without it, it is looked at only when others come.
                let _ = (self.epoll).add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, 0));
                self.strangers.push_back(Stranger::new(socket));
                // Most have shown the secret by now, so they are not dropped for others.
                self.look_at_newest();
            }
        }
        Ok(())
    }

    /// The next connection at a listener.
    fn take(&mut self, at: usize) -> Result<Option<OwnedFd>> {
        loop {
            match accept_from(&self.listeners[at].socket) {
                Ok(socket) => return Ok(Some(socket)),
                Err(Errno::EAGAIN) => return Ok(None),
                // A stranger may have no descriptor that is needed otherwise.
                Err(Errno::EMFILE | Errno::ENFILE) if self.strangers.pop_front().is_some() => {}
                Err(errno @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOBUFS)) => {
                    return Err(err!(
                        Other,
                        "a connection to the port can't be taken: {}",
                        errno.desc()
                    ));
                }
                Err(Errno::EINTR | Errno::ECONNABORTED) => {}
                // A connection that has failed already, by one of many errors: see the manual page. Others are taken at the next call.
                Err(_) => return Ok(None),
            }
        }
    }

    fn look_at_newest(&mut self) {
        if let Some(newest) = self.strangers.pop_back()
            && let Some(newest) = self.look_at(newest)
        {
            self.strangers.push_back(newest);
        }
    }

    fn look_at_strangers(&mut self) {
        for stranger in std::mem::take(&mut self.strangers) {
            if let Some(stranger) = self.look_at(stranger) {
                self.strangers.push_back(stranger);
            }
        }
    }

    /// The result is the stranger if it still is one.
    fn look_at(&mut self, mut stranger: Stranger) -> Option<Stranger> {
        match stranger.look(&self.secret) {
            Shown::NothingYet => return Some(stranger),
            Shown::Secret => {
                // That it ends would wake the process again and again.
                let _ = self.epoll.delete(&stranger.socket);
                self.waiting.push_back(stranger.socket);
            }
            Shown::Wrong => {}
        }
        None
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // A program that this process has forked may have the same sockets open, so closing them is not enough.
        for Listener { socket, .. } in &self.listeners {
            let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
            while let Ok(waiting) = accept_from(socket) {
                let _ = shutdown(waiting.as_raw_fd(), Shutdown::Both);
            }
        }
        let strangers = self.strangers.iter().map(|stranger| &stranger.socket);
        let accepted = self.accepted.iter().map(|(socket, _)| socket);
        for socket in strangers.chain(&self.waiting).chain(accepted) {
            let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
        }
    }
}

/// A socket that listens at an address.
fn listener(family: AddressFamily, address: &dyn SockaddrLike) -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(family, SockType::Stream, flags, None)?;
    bind(socket.as_raw_fd(), address)?;
    listen(&socket, Backlog::MAXALLOWABLE)?;
    Ok(socket)
}

fn accept_from(listener: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = accept4(listener.as_raw_fd(), flags)?;
    // SAFETY: the call has just made it, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// The port number of a socket.
fn port_of(socket: &OwnedFd) -> Option<u16> {
    let address = getsockname::<SockaddrStorage>(socket.as_raw_fd()).ok()?;
    let v4 = address.as_sockaddr_in().map(|address| address.port());
    v4.or_else(|| address.as_sockaddr_in6().map(|address| address.port()))
}

fn failed(errno: Errno) -> Error {
    err!(Other, "a port can't be opened: {}", errno.desc())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    use super::super::socket::{Got, receive};

    #[test]
    fn the_silent_are_dropped_after_a_while_and_the_oldest_for_others() {
        let mut port = Port::open(Some("127.0.0.0/8")).unwrap();
        let address = PortName::parse(port.name()).unwrap().addresses[0];
        assert!(address.ip().is_loopback());
        let come = || TcpStream::connect(address).unwrap();
        let mut sockets: Vec<TcpStream> = Vec::new();
        for _ in 0..STRANGERS_MAX + 2 {
            sockets.push(come());
            assert!(port.accept().unwrap().is_none());
        }
        while port.strangers.len() < STRANGERS_MAX {
            assert!(port.accept().unwrap().is_none());
        }
        // The first two had to go.
        for (at, socket) in sockets.iter().enumerate().take(4) {
            socket.set_nonblocking(true).unwrap();
            let expected = if at < 2 { Got::End } else { Got::Nothing };
            assert_eq!(receive(socket, &mut [0]), Ok(expected), "{at}");
        }
        let long_ago = Instant::now()
            .checked_sub(2 * PATIENCE)
            .expect("the machine has run for a while");
        for old in port.strangers.iter_mut().take(100) {
            old.since = long_ago;
        }
        assert!(port.accept().unwrap().is_none());
        assert_eq!(port.strangers.len(), STRANGERS_MAX - 100);
    }
}
