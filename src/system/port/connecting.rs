//! The side that comes to a port.
//!
//! First by the unix socket, which only exists in the port's own network namespace; then by TCP, to all addresses at once. The first in the
//! name's order that is connected gets to see the secret. Until then there is a limit of time; after that it is the
//! port's owner who decides when to accept.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::channel::Channel;
use super::handshake::{Answer, confirm, is_of_this_user, show};
use super::name::PortName;
use super::socket::{Got, receive, tune};
use crate::base::error::{Error, Result};
use crate::err;
use crate::system::fabric::Attempt;

/// How long a machine may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// When to try again where too many are waiting at the port for one more to be put into the queue.
const FULL_AGAIN: Duration = Duration::from_millis(10);

/// A connection to a port that is being made.
pub struct Connecting {
    name: PortName,
    until: Option<Instant>,
    /// The sockets and the timer, to sleep on.
    epoll: Epoll,
    timer: TimerFd,
    state: State,
}

enum State {
    /// The unix socket is to be tried, for the first time or again.
    Local,
    /// Attempts by TCP, in the name's order; when to give them up.
    Remote(Vec<(SocketAddr, Attempt)>, Instant),
    /// The secret was shown here; the other addresses that may be right.
    Shown(OwnedFd, Vec<SocketAddr>),
    /// There is a result.
    Over,
}

impl Connecting {
    /// Begins to connect to a port by its name. `until`: when to give up.
    ///
    /// # Errors
    /// `MPI_ERR_PORT`: it is no name of a port, or nobody listens there.
    pub fn to(name: &str, until: Option<Instant>) -> Result<Connecting> {
        let name = PortName::parse(name)?;
        let failed = |errno: Errno| err!(Other, "a connection to the port can't be made: {}", errno.desc());
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?;
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).map_err(failed)?;
        epoll
            .add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, 0))
            .map_err(failed)?;
        let mut connecting = Connecting {
            name,
            until,
            epoll,
            timer,
            state: State::Local,
        };
        connecting.state = connecting.local()?;
        connecting.set_timer();
        Ok(connecting)
    }

    /// The channel, once the port's owner has accepted it.
    ///
    /// # Errors
    /// `MPI_ERR_PORT`: refused, closed meanwhile, or nobody accepted in time.
    pub fn finish(&mut self) -> Result<Option<Channel>> {
        self.state = match std::mem::replace(&mut self.state, State::Over) {
            State::Over => return Err(err!(Intern, "a connection to a port was used after its end")),
            State::Local => self.local()?,
            State::Remote(attempts, limit) => self.remote(attempts, limit)?,
            State::Shown(socket, others) => {
                let mut answer = [0];
                match receive(&socket, &mut answer) {
                    Ok(Got::Bytes(_)) => return self.answered(answer[0], socket).map(Some),
                    Ok(Got::Nothing) => State::Shown(socket, others),
                    // Another machine may have the address, too, where this process is.
                    Ok(Got::End) | Err(_) if !others.is_empty() => self.begin(&others)?,
                    Ok(Got::End) | Err(_) => {
                        return Err(err!(Port, "the port was closed before anybody accepted"));
                    }
                }
            }
        };
        if self.until.is_some_and(|until| Instant::now() >= until) {
            self.state = State::Over;
            return Err(err!(Port, "nobody accepted in time"));
        }
        self.set_timer();
        Ok(None)
    }

    /// Becomes readable when [`Connecting::finish`] may have something to do.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// Tries the unix socket, and begins with TCP if there is none.
    fn local(&self) -> Result<State> {
        let failed = |errno: Errno| err!(Other, "a connection to the port can't be made: {}", errno.desc());
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None).map_err(failed)?;
        let address = UnixAddr::new_abstract(&self.name.abstract_name()).map_err(failed)?;
        loop {
            match connect(socket.as_raw_fd(), &address) {
                Ok(()) if !is_of_this_user(&socket) => return Err(other_user()),
                Ok(()) => return self.shown(socket, Vec::new()),
                // The queue is full.
                Err(Errno::EAGAIN) => return Ok(State::Local),
                Err(Errno::EINTR) => {}
                Err(_) => return self.begin(&self.name.addresses),
            }
        }
    }

    /// Begins to connect by TCP.
    fn begin(&self, addresses: &[SocketAddr]) -> Result<State> {
        let attempts: Vec<_> = addresses
            .iter()
            .map(|&address| (address, Attempt::begin(address)))
            .collect();
        for socket in attempts.iter().filter_map(|(_, attempt)| attempt.socket()) {
            // Without it, the timer ends the sleep.
            let _ = (self.epoll).add(socket, EpollEvent::new(EpollFlags::EPOLLOUT, 0));
        }
        self.remote(attempts, Instant::now() + PATIENCE)
    }

    /// Looks at the attempts by TCP.
    fn remote(&self, attempts: Vec<(SocketAddr, Attempt)>, limit: Instant) -> Result<State> {
        let (mut left, mut connected, mut failed) = (Vec::new(), None, None);
        for (address, attempt) in attempts {
            match attempt.result() {
                Some(Ok(())) if connected.is_none() => connected = attempt.into_socket(),
                Some(Err(errno)) => failed = Some(format!("{}: {}", address.ip(), errno.desc())),
                _ => left.push((address, attempt)),
            }
        }
        if let Some(socket) = connected {
            return self.shown(socket, left.iter().map(|(address, _)| *address).collect());
        }
        if left.is_empty() {
            let why = failed.map_or_else(String::new, |why| format!(" ({why})"));
            return Err(err!(Port, "nobody listens at the port: it is closed{why}"));
        }
        if Instant::now() >= limit {
            return Err(err!(
                Port,
                "the machine of the port does not answer at {}",
                left[0].0.ip()
            ));
        }
        Ok(State::Remote(left, limit))
    }

    /// Shows the secret over a connection.
    fn shown(&self, socket: OwnedFd, others: Vec<SocketAddr>) -> Result<State> {
        if !show(&self.name.secret, &socket) {
            return match others.is_empty() {
                true => Err(err!(Port, "the port was closed")),
                false => self.begin(&others),
            };
        }
        let _ = self.epoll.delete(&socket);
        self.epoll
            .add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, 0))
            .map_err(|errno| err!(Other, "a connection to a port can't be watched: {}", errno.desc()))?;
        Ok(State::Shown(socket, others))
    }

    /// What the port's owner has answered.
    fn answered(&self, answer: u8, socket: OwnedFd) -> Result<Channel> {
        match Answer::of(answer) {
            Some(Answer::Accepted) => {
                let _ = self.epoll.delete(&socket);
                if !confirm(&socket) {
                    return Err(err!(Port, "the port was closed before anybody accepted"));
                }
                tune(&socket);
                Channel::over(socket)
            }
            Some(Answer::WrongSecret) => Err(err!(
                Port,
                "the port refuses the secret in its name: the name was changed, or is an old one"
            )),
            Some(Answer::OtherUser) => Err(other_user()),
            None => Err(err!(Port, "what listens there is no port of Weft's")),
        }
    }

    /// Sets the timer to when there is something to do though no socket has anything.
    fn set_timer(&self) {
        let now = Instant::now();
        let own = match &self.state {
            State::Local => Some(now + FULL_AGAIN),
            State::Remote(_, limit) => Some(*limit),
            State::Shown(..) | State::Over => None,
        };
        let Some(next) = own.into_iter().chain(self.until).min() else {
            let _ = self.timer.unset();
            return;
        };
        // Zero would stop it. It can't fail with such times.
        let rest = (next - now).max(Duration::from_nanos(1));
        let _ = (self.timer).set(
            Expiration::OneShot(TimeSpec::from_duration(rest)),
            TimerSetTimeFlags::empty(),
        );
    }
}

fn other_user() -> Error {
    err!(Port, "the port belongs to another user")
}
