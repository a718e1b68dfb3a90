//! Keeps a stranger from holding up a rank over libfabric's TCP providers.
//!
//! Whoever connects to an endpoint of `net` or `tcp` first asks for a connection: a header, which says how many bytes
//! follow. libfabric 1.17 reads both inside `fi_cq_read` from a blocking socket. A stranger who sends such a header and
//! then nothing would hold the rank there for as long as it stays connected. Sockets inherit a time limit for receiving
//! from the listening socket that they come from, so that socket is found and given one. Connections to peers are
//! nonblocking by the time that they carry messages: for them the limit means nothing.

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};

use nix::sys::socket::{SockaddrStorage, getsockname, getsockopt, setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike as _};

use super::sockets::open_descriptors;

/// How long a stranger may hold a rank up, in milliseconds. A peer's header and the bytes behind it are one `send`.
const PATIENCE_MS: i64 = 200;

/// Gives the socket of this process that listens at `address`, if there is one, a time limit for what connects to it.
/// Where the system lists no descriptors (`/proc`), nothing happens.
pub(crate) fn limit_patience(address: SocketAddr) {
    for number in open_descriptors() {
        // SAFETY: the system listed it just now, and it is used for this step only. Should another thread of the
        // program close it meanwhile, the calls fail, or find a socket that does not listen there.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if getsockopt(&descriptor, sockopt::AcceptConn).unwrap_or(false) && is_at(number, address) {
            // Without it the rank works as well, but for strangers.
            let _ = setsockopt(
                &descriptor,
                sockopt::ReceiveTimeout,
                &TimeVal::milliseconds(PATIENCE_MS),
            );
        }
    }
}

fn is_at(number: RawFd, address: SocketAddr) -> bool {
    getsockname::<SockaddrStorage>(number).is_ok_and(|bound| match address {
        SocketAddr::V4(v4) => bound.as_sockaddr_in().is_some_and(|bound| *bound == v4.into()),
        SocketAddr::V6(v6) => bound
            .as_sockaddr_in6()
            .is_some_and(|bound| (bound.ip(), bound.port()) == (*v6.ip(), v6.port())),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn connections_of_that_listener_do_not_wait_for_ever() {
        let (guarded, other) = (
            TcpListener::bind("127.0.0.1:0").unwrap(),
            TcpListener::bind("127.0.0.1:0").unwrap(),
        );
        limit_patience(guarded.local_addr().unwrap());
        let _silent = TcpStream::connect(guarded.local_addr().unwrap()).unwrap();
        let (mut accepted, _) = guarded.accept().unwrap();
        let start = Instant::now();
        assert!(accepted.read(&mut [0]).is_err());
        assert!(start.elapsed() >= Duration::from_millis(100));
        assert_eq!(
            getsockopt(&other, sockopt::ReceiveTimeout).unwrap(),
            TimeVal::milliseconds(0),
            "another listener is left alone"
        );
    }
}
