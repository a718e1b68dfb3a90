//! Whether anything listens at a TCP address. The kernel accepts connections for a process that computes or is stopped, so a
//! refusal means that there is no such process, or that the address leads to another machine.

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, connect, getsockopt, socket, sockopt,
};

/// What came of an attempt to connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// Something listens there, or it is not known.
    Listens,
    /// Nothing listens there.
    Refused,
    /// There is no way to that machine, or it does not answer to its address.
    Unreachable,
}

/// An attempt to connect, which does not block. Nothing is sent.
pub(crate) struct Attempt {
    socket: Result<OwnedFd, Errno>,
    begun: Result<(), Errno>,
}

impl Attempt {
    /// Begins one.
    pub fn begin(address: SocketAddr) -> Attempt {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::Inet,
            SocketAddr::V6(_) => AddressFamily::Inet6,
        };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(family, SockType::Stream, flags, None);
        let begun = match &socket {
            Ok(socket) => connect(socket.as_raw_fd(), &SockaddrStorage::from(address)),
            Err(errno) => Err(*errno),
        };
        Attempt { socket, begun }
    }

    /// Whether it has succeeded, once that is known.
    pub fn result(&self) -> Option<Result<(), Errno>> {
        match &self.socket {
            Ok(socket) if self.begun == Err(Errno::EINPROGRESS) => {
                let mut polled = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
                // A signal can interrupt even a call that does not wait.
                if matches!(poll(&mut polled, PollTimeout::ZERO), Ok(0) | Err(Errno::EINTR)) {
                    return None;
                }
                Some(match getsockopt(socket, sockopt::SocketError) {
                    Ok(0) => Ok(()),
                    Ok(errno) => Err(Errno::from_raw(errno)),
                    Err(errno) => Err(errno),
                })
            }
            _ => Some(self.begun),
        }
    }

    /// Its answer, once there is one.
    pub fn answer(&self) -> Option<Answer> {
        Some(match self.result()? {
            Err(Errno::ECONNREFUSED) => Answer::Refused,
            Err(Errno::EHOSTUNREACH | Errno::ENETUNREACH) => Answer::Unreachable,
            _ => Answer::Listens,
        })
    }

    /// Its socket, which becomes writable when there is a result.
    pub fn socket(&self) -> Option<&OwnedFd> {
        self.socket.as_ref().ok()
    }

    /// The socket, to be used.
    pub fn into_socket(self) -> Option<OwnedFd> {
        self.socket.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn answer(address: SocketAddr) -> Answer {
        let attempt = Attempt::begin(address);
        loop {
            match attempt.answer() {
                Some(answer) => return answer,
                None => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn who_listens_need_not_accept_and_nobody_refuses() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let address = listener.local_addr().unwrap();
            assert_eq!(answer(address), Answer::Listens);
            drop(listener);
            assert_eq!(answer(address), Answer::Refused);
        }
    }
}
