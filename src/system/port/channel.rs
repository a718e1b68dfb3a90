//! Frames over a stream socket: a length of 8 bytes, little-endian, and so many bytes. The length is another process's word, so memory for a
//! frame grows as its bytes come. Nothing is read beyond a frame: the bytes after the last one of `MPI_Comm_join` are the user's.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::socket::{SockType, SockaddrStorage, getpeername, getsockopt, sockopt};
use std::os::fd::AsRawFd;

use super::socket::{Got, receive, send_some};
use crate::base::error::{Error, Result};
use crate::err;

/// The longest frame that a channel carries, in bytes.
pub const FRAME_MAX: usize = 1 << 30;

/// Bytes of a length.
const LENGTH_BYTES: usize = 8;
/// How much is received at once, and memory taken for.
const PIECE: usize = 64 << 10;

/// A stream of frames between two processes.
pub struct Channel {
    socket: OwnedFd,
    /// The socket, to sleep on.
    epoll: Epoll,
    /// What is still to be sent, and how many bytes of the first have left.
    queue: VecDeque<Vec<u8>>,
    sent: usize,
    /// Whether `epoll` waits for room.
    waits_for_room: bool,
    /// Why nothing can be sent any more.
    broken: Option<Error>,
    /// What has come of the next frame: of its length, and of it.
    length: [u8; LENGTH_BYTES],
    length_count: usize,
    frame: Vec<u8>,
}

impl Channel {
    /// Over a connected stream socket that both sides own (`MPI_Comm_join`). Its flags stay as they are.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: it is no such socket.
    pub fn over(socket: OwnedFd) -> Result<Channel> {
        let kind = getsockopt(&socket, sockopt::SockType);
        if kind != Ok(SockType::Stream) || getpeername::<SockaddrStorage>(socket.as_raw_fd()).is_err() {
            return Err(err!(
                Arg,
                "descriptor {} is not a connected stream socket",
                socket.as_raw_fd()
            ));
        }
        let failed = |errno: Errno| err!(Other, "a connection can't be watched: {}", errno.desc());
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?;
        epoll
            .add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, 0))
            .map_err(failed)?;
        Ok(Channel {
            socket,
            epoll,
            queue: VecDeque::new(),
            sent: 0,
            waits_for_room: false,
            broken: None,
            length: [0; LENGTH_BYTES],
            length_count: 0,
            frame: Vec::new(),
        })
    }

    /// Sends a frame: it is queued, and leaves now, as far as there is room, and in [`Channel::is_drained`] and [`Channel::receive`].
    ///
    /// # Errors
    /// `MPI_ERR_OTHER`: it is longer than [`FRAME_MAX`]. That the other side is gone is told later.
    pub fn send(&mut self, frame: Vec<u8>) -> Result<()> {
        if frame.len() > FRAME_MAX {
            return Err(err!(
                Other,
                "{} bytes are to be sent to the other job at once: at most {FRAME_MAX} can be",
                frame.len()
            ));
        }
        self.queue.push_back((frame.len() as u64).to_le_bytes().to_vec());
        self.queue.push_back(frame);
        self.flush();
        Ok(())
    }

    /// Whether all that was sent has left this process.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER`: the other side is gone.
    pub fn is_drained(&mut self) -> Result<bool> {
        self.flush();
        match &self.broken {
            Some(error) => Err(error.clone()),
            None => Ok(self.queue.is_empty()),
        }
    }

    /// The next frame, if it is here.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER`: the other side is gone, or sent a frame longer than [`FRAME_MAX`].
    pub fn receive(&mut self) -> Result<Option<Vec<u8>>> {
        self.flush();
        while self.length_count < LENGTH_BYTES {
            match receive(&self.socket, &mut self.length[self.length_count..]).map_err(failed)? {
                Got::Bytes(count) => self.length_count += count,
                Got::Nothing => return self.broken.clone().map_or(Ok(None), Err),
                Got::End => return Err(gone()),
            }
        }
        let length = u64::from_le_bytes(self.length);
        let length = usize::try_from(length)
            .ok()
            .filter(|&length| length <= FRAME_MAX)
            .ok_or_else(|| err!(Other, "the other job announces a message of {length} bytes"))?;
        while self.frame.len() < length {
            let here = self.frame.len();
            let piece = (length - here).min(PIECE);
            self.frame
                .try_reserve(piece)
                .map_err(|_| err!(NoMem, "there is no memory for {length} bytes from the other job"))?;
            self.frame.resize(here + piece, 0);
            let got = receive(&self.socket, &mut self.frame[here..]);
            let count = if let Ok(Got::Bytes(count)) = got { count } else { 0 };
            self.frame.truncate(here + count);
            match got.map_err(failed)? {
                Got::Bytes(_) => {}
                Got::Nothing => return Ok(None),
                Got::End => return Err(gone()),
            }
        }
        self.length_count = 0;
        Ok(Some(std::mem::take(&mut self.frame)))
    }

    /// Becomes readable when [`Channel::receive`] may have something to do.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// The socket, after the last frame.
    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Sends what there is room for.
    fn flush(&mut self) {
        while let Some(first) = self.queue.front() {
            let rest = &first[self.sent..];
            if rest.is_empty() {
                self.queue.pop_front();
                self.sent = 0;
                continue;
            }
            match send_some(&self.socket, rest) {
                Ok(0) => break,
                Ok(count) => self.sent += count,
                Err(errno) => {
                    self.broken = Some(failed(errno));
                    self.queue.clear();
                    self.sent = 0;
                }
            }
        }
        let waits = !self.queue.is_empty();
        if waits != self.waits_for_room {
            let flags = match waits {
                true => EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT,
                false => EpollFlags::EPOLLIN,
            };
            // It fails for a descriptor that is not there, and this one is.
            let _ = self.epoll.modify(&self.socket, &mut EpollEvent::new(flags, 0));
            self.waits_for_room = waits;
        }
    }
}

fn failed(errno: Errno) -> Error {
    match errno {
        Errno::EPIPE | Errno::ECONNRESET => gone(),
        _ => err!(Other, "the connection to the other job failed: {}", errno.desc()),
    }
}

fn gone() -> Error {
    err!(Other, "the other job is gone: it closed its connection")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;

    fn tcp_pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    fn pairs() -> [(OwnedFd, OwnedFd); 2] {
        let (unix, tcp) = (UnixStream::pair().unwrap(), tcp_pair());
        [(unix.0.into(), unix.1.into()), (tcp.0.into(), tcp.1.into())]
    }

    fn wait(channel: &Channel) {
        let mut polled = [PollFd::new(channel.descriptor(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut polled, PollTimeout::NONE), Ok(1));
    }

    fn next(channel: &mut Channel) -> Result<Vec<u8>> {
        loop {
            if let Some(frame) = channel.receive()? {
                return Ok(frame);
            }
            wait(channel);
        }
    }

    #[test]
    fn frames_of_all_lengths_come_both_ways_and_the_descriptors_wake() {
        for (one, other) in pairs() {
            let (mut one, mut other) = (Channel::over(one).unwrap(), Channel::over(other).unwrap());
            assert_eq!(one.receive().unwrap(), None);
            let frames: Vec<Vec<u8>> = [0, 1, 7, 8, PIECE, PIECE + 1, 5 << 20]
                .map(|length: usize| (0..length).map(|at| (at * 7) as u8).collect())
                .into();
            // Both sides send more than the sockets hold before one receives.
            for frame in &frames {
                one.send(frame.clone()).unwrap();
                other.send(frame.clone()).unwrap();
            }
            assert!(!one.is_drained().unwrap());
            let echo = frames.clone();
            let thread = std::thread::spawn(move || {
                for frame in echo {
                    assert!(next(&mut other).unwrap() == frame);
                }
                while !other.is_drained().unwrap() {
                    wait(&other);
                }
                other
            });
            for frame in &frames {
                assert!(next(&mut one).unwrap() == *frame);
            }
            while !one.is_drained().unwrap() {
                wait(&one);
            }
            let other = thread.join().unwrap();
            assert!(!one.waits_for_room && one.receive().unwrap().is_none());
            drop(other);
            wait(&one);
            assert_eq!(one.receive().unwrap_err().class, Class::Other);
        }
    }

    #[test]
    fn what_was_sent_before_the_end_arrives() {
        for (one, other) in pairs() {
            let (mut one, mut other) = (Channel::over(one).unwrap(), Channel::over(other).unwrap());
            one.send(b"last".to_vec()).unwrap();
            drop(one);
            wait(&other);
            assert_eq!(next(&mut other).unwrap(), b"last");
            assert!(next(&mut other).unwrap_err().message.contains("gone"));
            other.send(vec![0; 1 << 20]).unwrap();
            other.send(Vec::new()).unwrap();
            // The first send after the end may still be taken by TCP.
            while other.is_drained().is_ok() {
                other.send(vec![0]).unwrap();
            }
        }
    }

    #[test]
    fn a_frame_may_be_cut_anywhere() {
        let mut stream = 3u64.to_le_bytes().to_vec();
        stream.extend(b"abc");
        for cut in 0..stream.len() {
            for goes_on in [false, true] {
                let (one, mut other) = UnixStream::pair().unwrap();
                let mut one = Channel::over(one.into()).unwrap();
                other.write_all(&stream[..cut]).unwrap();
                assert_eq!(one.receive().unwrap(), None, "cut at {cut}");
                if goes_on {
                    other.write_all(&stream[cut..]).unwrap();
                    assert_eq!(one.receive().unwrap().as_deref(), Some(&b"abc"[..]));
                } else {
                    drop(other);
                    assert!(
                        one.receive().unwrap_err().message.contains("gone"),
                        "cut at {cut}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_claimed_length_takes_no_memory_and_a_wrong_one_is_an_error() {
        let (one, mut other) = UnixStream::pair().unwrap();
        let mut one = Channel::over(one.into()).unwrap();
        other.write_all(&(FRAME_MAX as u64).to_le_bytes()).unwrap();
        other.write_all(&[1; 100]).unwrap();
        assert_eq!(one.receive().unwrap(), None);
        assert_eq!(one.frame.len(), 100);
        assert!(one.frame.capacity() <= 2 * PIECE);
        for length in [FRAME_MAX as u64 + 1, u64::MAX] {
            let (one, mut other) = UnixStream::pair().unwrap();
            let mut one = Channel::over(one.into()).unwrap();
            other.write_all(&length.to_le_bytes()).unwrap();
            let error = one.receive().unwrap_err();
            assert!(error.message.contains(&length.to_string()), "{error}");
        }
    }

    #[test]
    fn what_follows_the_last_frame_is_the_users_and_so_are_the_flags() {
        let (one, mut other) = UnixStream::pair().unwrap();
        let mut user = one.try_clone().unwrap();
        let mut one = Channel::over(one.into()).unwrap();
        other.write_all(&2u64.to_le_bytes()).unwrap();
        other.write_all(b"abuser").unwrap();
        assert_eq!(one.receive().unwrap().as_deref(), Some(&b"ab"[..]));
        drop(one.into_socket());
        let mut rest = [0; 4];
        // It waits, as before: this end was not made nonblocking.
        user.read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"user");
    }

    #[test]
    fn only_connected_streams_are_channels() {
        let file = tempfile::tempfile().unwrap();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for wrong in [file.into(), datagrams.into(), OwnedFd::from(listener)] {
            assert_eq!(Channel::over(wrong).err().unwrap().class, Class::Arg);
        }
    }

    proptest! {
        #[test]
        fn garbage_is_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), zeros in 0usize..9) {
            let (one, mut other) = UnixStream::pair().unwrap();
            let mut one = Channel::over(one.into()).unwrap();
            other.write_all(&bytes).unwrap();
            other.write_all(&vec![0; zeros]).unwrap();
            drop(other);
            while let Ok(Some(_)) = one.receive() {}
            prop_assert!(one.receive().is_err());
        }
    }
}
