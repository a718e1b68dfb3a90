//! Stream sockets that are read and written without waiting, whatever their flags: those of `MPI_Comm_join` are the user's.

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send, setsockopt, sockopt};

/// After how many seconds of silence a TCP connection is looked after, at what distance that is repeated, and how often without an
/// answer before the other machine counts as gone.
const KEEP_ALIVE: [u32; 3] = [30, 10, 6];

/// What a socket had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Got {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// Nothing any more: the other side has closed it, or is gone.
    End,
}

/// Receives what is here.
pub(crate) fn receive(socket: &impl AsRawFd, buffer: &mut [u8]) -> Result<Got, Errno> {
    received(socket, buffer, MsgFlags::MSG_DONTWAIT)
}

/// Whether the other side is there and has sent nothing.
pub(super) fn is_silent(socket: &impl AsRawFd) -> bool {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK;
    received(socket, &mut [0], flags) == Ok(Got::Nothing)
}

fn received(socket: &impl AsRawFd, buffer: &mut [u8], flags: MsgFlags) -> Result<Got, Errno> {
    loop {
        return match recv(socket.as_raw_fd(), buffer, flags) {
            Ok(0) | Err(Errno::ECONNRESET | Errno::EPIPE | Errno::ETIMEDOUT) => Ok(Got::End),
            Ok(count) => Ok(Got::Bytes(count)),
            Err(Errno::EAGAIN) => Ok(Got::Nothing),
            Err(Errno::EINTR) => continue,
            Err(errno) => Err(errno),
        };
    }
}

/// Sends what there is room for; the result is how many bytes.
pub(crate) fn send_some(socket: &impl AsRawFd, bytes: &[u8]) -> Result<usize, Errno> {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    loop {
        return match send(socket.as_raw_fd(), bytes, flags) {
            Err(Errno::EAGAIN) => Ok(0),
            Err(Errno::EINTR) => continue,
            sent => sent,
        };
    }
}

/// Makes sure that the end of the other machine is seen, and that short messages leave at once. On a unix socket this has no effect.
pub(super) fn tune(socket: &impl AsFd) {
    let [idle, interval, count] = KEEP_ALIVE;
    let _ = setsockopt(socket, sockopt::TcpNoDelay, &true);
    let _ = setsockopt(socket, sockopt::KeepAlive, &true);
    let _ = setsockopt(socket, sockopt::TcpKeepIdle, &idle);
    let _ = setsockopt(socket, sockopt::TcpKeepInterval, &interval);
    let _ = setsockopt(socket, sockopt::TcpKeepCount, &count);
}
