//! Socket options that libfabric does not set for its providers over TCP. Connections inherit them from the listening
//! socket.
//!
//! **A time limit**: without it, an unauthenticated sender can hold up a rank. Whoever connects to an endpoint of `net`
//! or `tcp` first asks for a connection: a header, which contains how many bytes follow. libfabric 1.17 reads both inside
//! `fi_cq_read` from a blocking socket. An unauthenticated sender who sends such a header and then nothing would hold the
//! rank there for as long as it stays connected. Sockets inherit a time limit for receiving from the listening socket
//! that they come from, so that socket is found and given one. Connections to peers are nonblocking by the time that they
//! carry messages: the limit does not affect them.
//!
//! **A long receive buffer**: without it, a connection of `sockets` can stop forever. Its progress thread peeks at a
//! header of 24 bytes (`MSG_PEEK`), and takes it only when it is whole. Until then its first bytes keep all of the
//! kernel's buffer (`sk_buff`) in which they came, and Linux adds later bytes to the buffer before as long as that has
//! room: up to half a megabyte. A receive buffer begins with 128 KiB. If those few bytes use it up, Linux offers the
//! sender no window, and the rest of the header never comes.
//!
//! **No pacing within a network**: where the system's choice of congestion control is
//! BBR, which is made for long ways, the kernel sends each 64 KiB of a long message by a timer. Between two hosts on one machine, that was 60 % of the
//! time of a message of 1 MiB. So a connection with a short round trip gets cubic, which is Linux's own choice, or reno, which every
//! process may choose. Other choices, and connections over longer ways, stay as they are. Cubic goes on using the timers of a connection that
//! began with BBR, which still makes long messages late where ranks share cores. So on the loopback address, where the way is known to be
//! short, connections begin without BBR.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;

use nix::sys::socket::{SockaddrStorage, getsockname, getsockopt, setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike as _};
use weft_libfabric_sys::BeforeConnect;

use super::library;
use super::sockets::open_descriptors;

/// How long an unauthenticated sender may hold a rank up, in milliseconds. A peer's header and the bytes after it are one `send`.
const PATIENCE_MS: i64 = 200;

/// The length of a long receive buffer, in bytes: several times what one `sk_buff` holds (`MAX_SKB_FRAGS`, mostly 17, of 32 KiB).
/// Linux gives less where `net.ipv4.tcp_rmem` limits it, whose maximum is mostly 6 MiB.
const LONG: usize = 4 << 20;

/// Gives the socket of this process that listens at `address`, if there is one, a time limit for connections to it.
/// Where the system lists no descriptors (`/proc`), nothing happens.
pub(crate) fn limit_patience(address: SocketAddr) {
    // Without it the rank works as well, except against unauthenticated senders.
    at_listener(address, |socket| {
        let _ = setsockopt(
            &socket,
            sockopt::ReceiveTimeout,
            &TimeVal::milliseconds(PATIENCE_MS),
        );
    });
}

/// Gives connections to the socket of this process that listens at `address` a long receive buffer.
pub(crate) fn lengthen_accepted(address: SocketAddr) {
    at_listener(address, lengthen);
}

/// Gives a socket a long receive buffer, if it has none.
///
/// `SO_RCVBUF` is not enough: it gives no more than `net.core.rmem_max`, mostly 208 KiB. But a buffer grows to twice the number
/// of bytes that are asked for at once (`SO_RCVLOWAT`; Linux, from 4.17 on), and keeps that size.
pub(super) fn lengthen(socket: BorrowedFd<'_>) {
    if getsockopt(&socket, sockopt::RcvBuf).is_ok_and(|len| len >= LONG) {
        return;
    }
    for bytes in [(LONG / 2) as libc::c_int, 1] {
        // SAFETY: the option is an int, which lives during the call. What fails leaves the buffer as it is.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVLOWAT,
                (&raw const bytes).cast(),
                size_of_val(&bytes) as libc::socklen_t,
            );
        }
    }
}

/// Whether a socket's congestion control is one that sends by timers.
pub(super) fn is_paced(socket: BorrowedFd<'_>) -> bool {
    getsockopt(&socket, sockopt::TcpCongestion).is_ok_and(|name| name.as_bytes().starts_with(b"bbr"))
}

/// The longest round trip within a network, in microseconds.
const NEAR_US: u32 = 1000;

/// Gives a connection another congestion control, if it has one that sends by timers and its peer is near.
pub(super) fn unpace(socket: BorrowedFd<'_>) {
    // 0: an old kernel does not tell; the largest number: nothing has been measured.
    if is_paced(socket) && (1..NEAR_US).contains(&shortest_round_trip(socket)) {
        choose_unpaced(socket);
    }
}

/// While it exists, connections of this process's endpoint do not begin with a congestion control that sends by timers.
pub(crate) struct UnpacedLoopback(BeforeConnect);

impl UnpacedLoopback {
    /// For the endpoint at `address`. `None`: that is not on the loopback address, or this system does not choose such a congestion control.
    pub fn new(address: SocketAddr) -> Option<UnpacedLoopback> {
        if !is_loopback(address) {
            return None;
        }
        let mut paced = false;
        at_listener(address, |listener| {
            paced = is_paced(listener);
            begin_unpaced(listener, address);
        });
        let library = paced.then(library)?.ok()?;
        Some(UnpacedLoopback(BeforeConnect::new(library, begin_unpaced)))
    }
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Before a socket has connections, or is connected to `address`.
fn begin_unpaced(socket: BorrowedFd<'_>, address: SocketAddr) {
    if is_loopback(address) && is_paced(socket) {
        choose_unpaced(socket);
    }
}

fn choose_unpaced(socket: BorrowedFd<'_>) {
    for name in ["cubic", "reno"] {
        if setsockopt(&socket, sockopt::TcpCongestion, &OsString::from(name)).is_ok() {
            return;
        }
    }
}

/// The shortest round trip that the kernel has measured, in microseconds.
fn shortest_round_trip(socket: BorrowedFd<'_>) -> u32 {
    // SAFETY: numbers only, for which zeros are values.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: `info` has room for `len` bytes. What an old kernel does not know stays 0, as after a failure.
    unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &mut len,
        );
    }
    info.tcpi_min_rtt
}

fn at_listener(address: SocketAddr, mut then: impl FnMut(BorrowedFd<'_>)) {
    for number in open_descriptors() {
        // SAFETY: the system listed it just now, and it is used for this step only. Should another thread of the
        // program close it meanwhile, the calls fail, or find a socket that does not listen there.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if getsockopt(&descriptor, sockopt::AcceptConn).unwrap_or(false) && is_at(number, address) {
            then(descriptor);
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
    use std::io::{ErrorKind, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;
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

    #[test]
    fn connections_on_the_loopback_address_begin_without_timers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Where a process may not choose BBR, the choice of the system counts, whatever it is.
        let _ = setsockopt(&listener, sockopt::TcpCongestion, &OsString::from("bbr"));
        let bbr = is_paced(listener.as_fd());
        let unpaced = UnpacedLoopback::new(address);
        assert_eq!(unpaced.is_some(), bbr);
        assert!(!is_paced(listener.as_fd()));
        let _connecting = TcpStream::connect(address).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert!(!is_paced(accepted.as_fd()));
        let elsewhere = ([10, 0, 0, 1], 1).into();
        assert!(UnpacedLoopback::new(elsewhere).is_none());
        let _ = setsockopt(&listener, sockopt::TcpCongestion, &OsString::from("bbr"));
        begin_unpaced(listener.as_fd(), elsewhere);
        assert_eq!(is_paced(listener.as_fd()), bbr, "elsewhere the choice stays");
    }

    /// The bytes of a header, which is looked at until it is whole.
    const HEADER: usize = 24;

    /// Sends short messages in one direction as fast as they are taken, and takes them one by one, as `sockets` does. Returns whether all
    /// came.
    fn all_come(mut from: &TcpStream, mut to: &TcpStream, seed: u64) -> bool {
        let mut random = fastrand::Rng::with_seed(seed);
        let lengths: Vec<usize> = (0..12_000).map(|_| random.usize(1..100)).collect();
        let stream = vec![0; lengths.iter().map(|len| HEADER + len).sum()];
        from.set_nonblocking(true).unwrap();
        to.set_nonblocking(true).unwrap();
        let (mut sent, mut taken) = (0, 0);
        let mut last = Instant::now();
        while taken < lengths.len() {
            let mut moved = false;
            loop {
                match from.write(&stream[sent..]) {
                    Ok(0) => break,
                    Ok(len) => (sent, moved) = (sent + len, true),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        break;
                    }
                }
            }
            let mut message = [0; HEADER + 100];
            let whole = HEADER + lengths[taken];
            if to.peek(&mut message[..whole]).is_ok_and(|len| len == whole) {
                to.read_exact(&mut message[..whole]).unwrap();
                (taken, moved) = (taken + 1, true);
            }
            if moved {
                last = Instant::now();
            } else if last.elapsed() > Duration::from_secs(5) {
                return false;
            } else {
                std::thread::yield_now();
            }
        }
        true
    }

    /// As was seen: without it, each of these connections stops.
    #[test]
    fn a_part_of_a_header_does_not_take_up_a_long_buffer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        lengthen_accepted(listener.local_addr().unwrap());
        for seed in 0..4 {
            let connecting = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            assert!(
                all_come(&connecting, &accepted, seed),
                "to the accepted end, seed {seed}"
            );
            lengthen(connecting.as_fd());
            assert!(
                all_come(&accepted, &connecting, seed),
                "to the connecting end, seed {seed}"
            );
        }
    }
}
