//! The socket between two heads: frames to and fro, without waiting.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::epoll::{Epoll, EpollFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::events::Source;
use crate::wire::frames::{Frames, frame};

/// One end.
pub struct Connection {
    /// `None`: it has ended.
    socket: Option<OwnedFd>,
    frames: Frames,
    out: VecDeque<u8>,
    watch: Option<Watch>,
}

/// Who is told of events.
struct Watch {
    epoll: Rc<Epoll>,
    source: Source,
    number: usize,
    for_room: bool,
}

impl Connection {
    /// Over one end of a stream socket.
    pub fn over(socket: OwnedFd) -> nix::Result<Connection> {
        fcntl(&socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Connection {
            socket: Some(socket),
            frames: Frames::default(),
            out: VecDeque::new(),
            watch: None,
        })
    }

    /// Events of it come as those of `source` from now on.
    pub fn watch(&mut self, epoll: &Rc<Epoll>, source: Source, number: usize) -> nix::Result<()> {
        if let Some(socket) = &self.socket {
            source.readable(epoll, socket, number)?;
        }
        self.watch = Some(Watch {
            epoll: epoll.clone(),
            source,
            number,
            for_room: false,
        });
        self.flush();
        Ok(())
    }

    /// The socket, while it has not ended.
    pub fn socket(&self) -> Option<&OwnedFd> {
        self.socket.as_ref()
    }

    /// Sends a message; one that is too long ends the connection.
    pub fn send(&mut self, message: &impl Serialize) {
        match frame(message) {
            Some(bytes) => self.out.extend(bytes),
            None => return self.close(),
        }
        self.flush();
    }

    /// Writes what is waiting, as far as there is room; whether all is written.
    pub fn flush(&mut self) -> bool {
        while let Some(socket) = self.socket.as_ref().filter(|_| !self.out.is_empty()) {
            let (front, _) = self.out.as_slices();
            match nix::unistd::write(socket, front) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                // What came before its end is read all the same.
                Err(_) => self.out.clear(),
            }
        }
        let waits = !self.out.is_empty();
        if let (Some(watch), Some(socket)) = (&mut self.watch, &self.socket)
            && watch.for_room != waits
        {
            watch.for_room = waits;
            let mut flags = EpollFlags::EPOLLIN;
            flags.set(EpollFlags::EPOLLOUT, waits);
            let _ = watch
                .epoll
                .modify(socket, &mut watch.source.event(flags, watch.number));
        }
        !waits
    }

    /// Reads what is there; all messages that are whole. At its end, or if it has sent what can't be read, it is closed.
    pub fn read<T: DeserializeOwned>(&mut self) -> Vec<T> {
        let mut buffer = [0u8; 16 * 1024];
        let mut messages = Vec::new();
        while let Some(socket) = &self.socket {
            match nix::unistd::read(socket, &mut buffer) {
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => break,
                Ok(0) | Err(_) => self.close(),
                Ok(count) => self.frames.push(&buffer[..count]),
            }
            loop {
                match self.frames.next() {
                    Ok(Some(message)) => messages.push(message),
                    Ok(None) => break,
                    Err(_) => {
                        self.close();
                        break;
                    }
                }
            }
        }
        messages
    }

    /// Ends it.
    pub fn close(&mut self) {
        if let (Some(socket), Some(watch)) = (&self.socket, &self.watch) {
            let _ = watch.epoll.delete(socket);
        }
        self.socket = None;
        self.out.clear();
    }

    /// Whether it has ended.
    pub fn is_closed(&self) -> bool {
        self.socket.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::messages::FromSpawned;
    use std::os::unix::net::UnixStream;

    #[test]
    fn messages_larger_than_the_socket_arrive() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut one, mut other) = (
            Connection::over(one.into()).unwrap(),
            Connection::over(other.into()).unwrap(),
        );
        let message = FromSpawned::Outcome(vec![7; 3 << 20]);
        one.send(&message);
        let mut read = Vec::new();
        while read.is_empty() {
            one.flush();
            read.extend(other.read::<FromSpawned>());
        }
        assert_eq!(read, [message]);
        one.close();
        assert!(other.read::<FromSpawned>().is_empty() && other.is_closed());
    }

    #[test]
    fn noise_ends_it() {
        let (one, other) = UnixStream::pair().unwrap();
        let mut connection = Connection::over(other.into()).unwrap();
        nix::unistd::write(&one, &[0xff; 100]).unwrap();
        assert!(connection.read::<FromSpawned>().is_empty() && connection.is_closed());
    }
}
