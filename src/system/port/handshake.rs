//! What a connector and a port's owner say to each other before there is a channel. The connector: a mark, and the secret. The owner:
//! one byte ([`Answer`]). The connector, if it is accepted and has not given up meanwhile: another one ([`confirm`]).

use std::os::fd::OwnedFd;
use std::time::Instant;

use nix::sys::socket::{getsockopt, sockopt};

use super::name::SECRET_BYTES;
use super::socket::{Got, receive, send_some};
use crate::base::random::is_same;

/// What a connector's bytes begin with.
const MARK: &[u8; 8] = b"\0weft-p1";
/// How many bytes it sends.
const HELLO_BYTES: usize = MARK.len() + SECRET_BYTES;

/// What the port's owner says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Answer {
    /// The socket is a channel from now on.
    Accepted = b'a',
    /// The secret is another one.
    WrongSecret = b's',
    /// The connector is a process of another user.
    OtherUser = b'u',
}

impl Answer {
    /// The answer of a byte.
    pub fn of(byte: u8) -> Option<Answer> {
        [Answer::Accepted, Answer::WrongSecret, Answer::OtherUser]
            .into_iter()
            .find(|&answer| answer as u8 == byte)
    }

    /// Gives it; whether it has left.
    pub fn give(self, socket: &OwnedFd) -> bool {
        send_some(socket, &[self as u8]) == Ok(1)
    }
}

/// Shows the secret; whether it has left. A new socket has room for so much.
pub(super) fn show(secret: &str, socket: &OwnedFd) -> bool {
    let hello = [&MARK[..], secret.as_bytes()].concat();
    send_some(socket, &hello) == Ok(hello.len())
}

/// What a connector says that is accepted.
const CONFIRMS: u8 = b'c';

/// Confirms that this process is still there; whether that has left.
pub(super) fn confirm(socket: &OwnedFd) -> bool {
    send_some(socket, &[CONFIRMS]) == Ok(1)
}

/// Whether the connector has confirmed; `None`: it has said nothing yet.
pub(super) fn is_confirmed(socket: &OwnedFd) -> Option<bool> {
    let mut byte = [0];
    match receive(socket, &mut byte) {
        Ok(Got::Nothing) => None,
        Ok(Got::Bytes(_)) => Some(byte[0] == CONFIRMS),
        Ok(Got::End) | Err(_) => Some(false),
    }
}

/// Whether the process at the other end of a unix socket is of this one's user. Where it has listened, that is who called `listen`.
pub(super) fn is_of_this_user(socket: &OwnedFd) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    getsockopt(socket, sockopt::PeerCredentials).is_ok_and(|peer| peer.uid() == own)
}

/// A connection that has not shown the secret yet.
pub(super) struct Stranger {
    pub socket: OwnedFd,
    pub since: Instant,
    hello: [u8; HELLO_BYTES],
    count: usize,
}

/// What a stranger has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shown {
    /// Not enough to tell.
    NothingYet,
    /// The secret.
    Secret,
    /// Something else, or it is gone.
    Wrong,
}

impl Stranger {
    /// One that has just come.
    pub fn new(socket: OwnedFd) -> Stranger {
        Stranger {
            socket,
            since: Instant::now(),
            hello: [0; HELLO_BYTES],
            count: 0,
        }
    }

    /// Reads what is here, and nothing that comes after the secret.
    pub fn look(&mut self, secret: &str) -> Shown {
        while self.count < HELLO_BYTES {
            match receive(&self.socket, &mut self.hello[self.count..]) {
                Ok(Got::Bytes(count)) => self.count += count,
                Ok(Got::Nothing) => break,
                Ok(Got::End) | Err(_) => return Shown::Wrong,
            }
        }
        let marked = self.count.min(MARK.len());
        if self.hello[..marked] != MARK[..marked] {
            return Shown::Wrong;
        }
        if self.count < HELLO_BYTES {
            return Shown::NothingYet;
        }
        let shown = std::str::from_utf8(&self.hello[MARK.len()..]);
        if shown.is_ok_and(|shown| is_same(shown, secret)) {
            return Shown::Secret;
        }
        Answer::WrongSecret.give(&self.socket);
        Shown::Wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn stranger() -> (Stranger, UnixStream) {
        let (one, other) = UnixStream::pair().unwrap();
        (Stranger::new(one.into()), other)
    }

    #[test]
    fn the_secret_may_come_in_any_pieces() {
        let (one, other) = UnixStream::pair().unwrap();
        let one: OwnedFd = one.into();
        assert!(show(SECRET, &one));
        let mut bytes = [0; 100];
        let Ok(Got::Bytes(HELLO_BYTES)) = receive(&other, &mut bytes) else {
            panic!("all has come at once");
        };
        for cut in 0..=HELLO_BYTES {
            let (mut stranger, mut other) = stranger();
            other.write_all(&bytes[..cut]).unwrap();
            let expected = if cut < HELLO_BYTES {
                Shown::NothingYet
            } else {
                Shown::Secret
            };
            assert_eq!(stranger.look(SECRET), expected);
            other.write_all(&bytes[cut..HELLO_BYTES]).unwrap();
            other.write_all(b"more").unwrap();
            assert_eq!(stranger.look(SECRET), Shown::Secret);
            let mut rest = [0; 100];
            assert_eq!(
                receive(&stranger.socket, &mut rest),
                Ok(Got::Bytes(4)),
                "what follows stays"
            );
        }
        assert!(is_of_this_user(&one));
    }

    #[test]
    fn a_wrong_secret_is_told_and_a_wrong_mark_is_seen_early() {
        let (mut wrong, other) = stranger();
        assert!(show(
            &SECRET.replace('0', "1"),
            &OwnedFd::from(other.try_clone().unwrap())
        ));
        assert_eq!(wrong.look(SECRET), Shown::Wrong);
        let mut answer = [0; 9];
        assert_eq!(receive(&other, &mut answer), Ok(Got::Bytes(1)));
        assert_eq!(Answer::of(answer[0]), Some(Answer::WrongSecret));
        let (mut early, mut other) = stranger();
        other.write_all(b"G").unwrap();
        assert_eq!(early.look(SECRET), Shown::Wrong);
        let (mut gone, mut other) = stranger();
        other.write_all(MARK).unwrap();
        drop(other);
        assert_eq!(gone.look(SECRET), Shown::Wrong);
    }

    proptest! {
        #[test]
        fn garbage_shows_nothing(bytes in prop::collection::vec(any::<u8>(), 0..100), marked: bool) {
            let (mut stranger, mut other) = stranger();
            if marked {
                other.write_all(MARK).unwrap();
            }
            other.write_all(&bytes).unwrap();
            prop_assert_ne!(stranger.look(SECRET), Shown::Secret);
        }

        #[test]
        fn few_bytes_are_answers(byte: u8) {
            prop_assert_eq!(Answer::of(byte).map(|answer| answer as u8), b"asu".contains(&byte).then_some(byte));
        }
    }
}
