//! One end of a link: the socket, and what has come over it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{Shutdown, shutdown};

use super::words::{Word, Words};
use crate::system::port::socket::{Got, receive, send_some};

/// See the module.
pub struct Link {
    socket: OwnedFd,
    words: Words,
}

/// What has come over a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// Nothing.
    Nothing,
    /// A word.
    Word(Word),
    /// Its end, without a goodbye, for this reason.
    End(String),
}

impl Link {
    /// Over a stream socket to a process of the other job.
    pub fn over(socket: OwnedFd) -> Link {
        Link {
            socket,
            words: Words::default(),
        }
    }

    /// Says a word. The socket has room for it, as a link has few: where it has not, or its other end is gone, nobody reads it.
    pub fn say(&self, word: &Word) {
        let _ = send_some(&self.socket, &word.encode());
    }

    /// The next word that is here.
    pub fn hear(&mut self) -> Heard {
        let mut buffer = [0; 512];
        loop {
            match self.words.next_word() {
                Ok(Some(word)) => return Heard::Word(word),
                Ok(None) => {}
                Err(error) => return Heard::End(error.message.into_owned()),
            }
            match receive(&self.socket, &mut buffer) {
                Ok(Got::Bytes(count)) => self.words.push(&buffer[..count]),
                Ok(Got::Nothing) => return Heard::Nothing,
                Ok(Got::End) => return Heard::End("it has ended without a goodbye".into()),
                Err(errno) => return Heard::End(format!("the link to it failed: {}", errno.desc())),
            }
        }
    }

    /// Ends it, also where a program that this process has forked has it open.
    pub fn end(self) {
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
