//! A TCP provider's own sockets: to sleep on, or to give them options that libfabric does not set (`guard`). A completion queue with a
//! descriptor to sleep on (`FI_WAIT_FD`) costs two system calls for every other message, so a lane whose waits spin first
//! has none. Once it has long been quiet, it sleeps on the sockets below instead: those of this process that have the
//! endpoint's address at one end, or a peer's at the other.
//!
//! Data that libfabric has read from a socket and not delivered yet can't be seen there, nor can its timers: so a sleep
//! on the sockets must be short, and is not allowed while anything is being sent.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::socket::{SockaddrStorage, getpeername, getsockname, getsockopt, sockopt};
use nix::time::{ClockId, clock_gettime};
use rustc_hash::FxHashSet;

use super::guard;

/// Sockets are searched for again after this many times what the last search cost, as peers may have connected.
const SEARCH_SHARE: u32 = 1000;

/// The same after peers were added, which will soon be connected. A search looks at every descriptor of the program, so one for each
/// peer would take long where there are many of both.
const SEARCH_SHARE_EARLY: u32 = 30;

/// After this many sleeps in a row that ended at once and without a result, the sockets are no use: one of them contains
/// something that libfabric leaves for later.
const FRUITLESS_MAX: u32 = 4;

/// The sockets of one endpoint.
pub(crate) struct Sockets {
    own: SocketAddr,
    peers: FxHashSet<SocketAddr>,
    /// Those of the peers that have parted.
    departed: FxHashSet<SocketAddr>,
    epoll: Epoll,
    /// Connections that are in `epoll`; a closed one is removed by the kernel.
    connections: Vec<RawFd>,
    /// The listening socket, which is in `epoll`, too.
    listener: Option<RawFd>,
    /// When they were last searched for, and the processor time that took.
    searched: Option<(Instant, Duration)>,
    /// Whether peers were added since.
    added: bool,
    /// The search whose connections [`Sockets::unpace`] has seen.
    unpaced: Option<Instant>,
    fruitless: u32,
}

impl Sockets {
    /// The sockets of the endpoint of this address. `None`: the system has no way to sleep on many descriptors at once.
    pub fn new(own: SocketAddr) -> Option<Sockets> {
        Some(Sockets {
            own,
            peers: FxHashSet::default(),
            departed: FxHashSet::default(),
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).ok()?,
            connections: Vec::new(),
            listener: None,
            searched: None,
            added: false,
            unpaced: None,
            fruitless: 0,
        })
    }

    /// Adds a peer whose endpoint has this address.
    pub fn add(&mut self, peer: SocketAddr) {
        self.departed.remove(&peer);
        self.added |= self.peers.insert(peer);
    }

    /// A peer has parted: it counts as one for as long as libfabric keeps a connection to it, over which it may come again.
    pub fn part(&mut self, peer: SocketAddr) {
        self.departed.insert(peer);
    }

    /// A descriptor that becomes readable when one of the sockets does. `None`: something is being sent, or it makes no
    /// sense to sleep on them now.
    pub fn arm(&mut self) -> Option<RawFd> {
        self.search_if_due();
        // Without the listening socket, new connections would not wake the process.
        if self.listener.is_none() || !self.all_has_left() {
            return None;
        }
        self.fruitless = if self.is_readable() { self.fruitless + 1 } else { 0 };
        (self.fruitless <= FRUITLESS_MAX).then(|| self.epoll.0.as_raw_fd())
    }

    /// The number of connections, if any socket contains data that has not been read.
    #[cold]
    pub fn unread(&mut self) -> Option<usize> {
        self.search_if_due();
        self.is_readable().then_some(self.connections.len())
    }

    /// Gives connections that are new a long receive buffer, which they keep (`guard`).
    #[cold]
    pub fn lengthen(&mut self) {
        if !self.search_if_due() {
            return;
        }
        for connection in self.still_open() {
            guard::lengthen(connection);
        }
    }

    /// Sees to it that new connections to near peers don't send long messages by timers (`guard`). `false`: none ever does, by the system's
    /// choice.
    #[cold]
    pub fn unpace(&mut self) -> bool {
        self.search_if_due();
        let found = self.searched.map(|(at, _)| at);
        if std::mem::replace(&mut self.unpaced, found) == found {
            return true;
        }
        for connection in self.still_open() {
            guard::unpace(connection);
        }
        // Connections begin with the same choice.
        self.listener.is_none_or(|number| {
            // SAFETY: as in `still_open`; this only asks.
            guard::is_paced(unsafe { BorrowedFd::borrow_raw(number) })
        })
    }

    /// The connections, without those that libfabric has closed since the last search, whose numbers may be other files of the program
    /// by now. To be used at once.
    fn still_open(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let open = self.connections.iter().filter(|number| self.has(**number));
        // SAFETY: it is one of the endpoint's at this moment, and used for this step only. libfabric closes it only when it is called, or
        // in a thread of its own (`sockets`): should that happen in this moment, the calls fail, or another socket that has just been
        // opened gets the option.
        open.map(|&number| unsafe { BorrowedFd::borrow_raw(number) })
    }

    /// Whether a descriptor is a socket of the endpoint.
    fn has(&self, number: RawFd) -> bool {
        let Some(own) = address(getsockname(number)) else {
            return false;
        };
        own == self.own || address(getpeername(number)).is_some_and(|peer| self.peers.contains(&peer))
    }

    fn is_readable(&self) -> bool {
        let mut epolled = [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)];
        poll(&mut epolled, PollTimeout::ZERO).is_ok_and(|count| count > 0)
    }

    /// Whether the search was due.
    fn search_if_due(&mut self) -> bool {
        let share = if self.added {
            SEARCH_SHARE_EARLY
        } else {
            SEARCH_SHARE
        };
        let again = |(at, took): (Instant, Duration)| at.elapsed() >= took * share;
        let due = self.searched.is_none_or(again);
        if due {
            self.search();
        }
        due
    }

    /// Whether each connection could take more: then libfabric holds nothing back.
    fn all_has_left(&self) -> bool {
        // SAFETY: used for this step only. Should libfabric have closed one, poll reports it, or it is another file by now,
        // and then the worst is a shorter sleep.
        let borrow = |&number: &RawFd| unsafe { BorrowedFd::borrow_raw(number) };
        let polled = |number| PollFd::new(borrow(number), PollFlags::POLLOUT);
        let mut all: Vec<PollFd<'_>> = self.connections.iter().map(polled).collect();
        let ready = poll(&mut all, PollTimeout::ZERO).is_ok();
        let settled = PollFlags::POLLOUT | PollFlags::POLLNVAL;
        ready
            && all
                .iter()
                .all(|one| one.revents().is_some_and(|events| events.intersects(settled)))
    }

    #[cold]
    fn search(&mut self) {
        let start = Instant::now();
        let processor = processor_time();
        self.connections.clear();
        self.listener = None;
        let mut gone = std::mem::take(&mut self.departed);
        for number in open_descriptors() {
            // SAFETY: the system listed it just now, and it is used for this step only. Should another thread of the
            // program close it meanwhile, the calls fail, or find a socket of other addresses.
            let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
            if !self.has(number) {
                continue;
            }
            // One that is already in it stays.
            let _ = self
                .epoll
                .add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, 0));
            match getsockopt(&descriptor, sockopt::AcceptConn) {
                Ok(true) => self.listener = Some(number),
                _ => self.connections.push(number),
            }
            if !gone.is_empty()
                && let Some(peer) = address(getpeername(number))
                && gone.remove(&peer)
            {
                self.departed.insert(peer);
            }
        }
        self.peers.retain(|peer| !gone.contains(peer));
        // On a busy machine the time on the clock can be many times longer, and the next search would be minutes away.
        let took = processor.zip(processor_time());
        let took = took.map_or_else(|| start.elapsed(), |(before, after)| after.saturating_sub(before));
        self.searched = Some((start, took));
        self.added = false;
    }
}

/// The processor time of this thread.
fn processor_time() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .ok()
        .map(Duration::from)
}

/// The descriptors of this process; none where the system lists none (`/proc`).
pub(super) fn open_descriptors() -> impl Iterator<Item = RawFd> {
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn address(found: nix::Result<SockaddrStorage>) -> Option<SocketAddr> {
    let found = found.ok()?;
    let v4 = found
        .as_sockaddr_in()
        .map(|found| SocketAddr::V4((*found).into()));
    v4.or_else(|| {
        found
            .as_sockaddr_in6()
            .map(|found| (found.ip(), found.port()).into())
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use nix::sys::socket::setsockopt;

    use super::*;

    fn readable(descriptor: RawFd, milliseconds: u16) -> bool {
        // SAFETY: the set is open while the test asks.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        poll(&mut [PollFd::new(borrowed, PollFlags::POLLIN)], milliseconds) == Ok(1)
    }

    #[test]
    fn what_comes_over_a_connection_wakes_and_other_sockets_do_not() {
        let [listener, peer, other] = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let mut sockets = Sockets::new(listener.local_addr().unwrap()).unwrap();
        let alone = sockets.arm().expect("nobody is connected");
        assert!(!readable(alone, 0));
        // A peer that has connected to us, and one that we have connected to.
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut near, _) = listener.accept().unwrap();
        sockets.add(peer.local_addr().unwrap());
        let mut ours = TcpStream::connect(peer.local_addr().unwrap()).unwrap();
        let (mut theirs, _) = peer.accept().unwrap();
        sockets.search();
        let _strange = TcpStream::connect(other.local_addr().unwrap()).unwrap();
        let (mut unauthenticated, _) = other.accept().unwrap();

        let descriptor = sockets.arm().expect("connections that are quiet");
        assert!(!readable(descriptor, 0));
        unauthenticated.write_all(b"?").unwrap();
        assert!(!readable(descriptor, 50), "that is none of ours");
        for (from, to) in [(&mut far, &mut near), (&mut theirs, &mut ours)] {
            from.write_all(b"!").unwrap();
            assert!(readable(descriptor, 5000));
            to.read_exact(&mut [0]).unwrap();
            assert!(!readable(descriptor, 0));
        }
        // A new connection also wakes the process.
        let _late = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(readable(descriptor, 5000));
    }

    #[test]
    fn who_has_parted_is_known_as_long_as_it_is_connected() {
        let [listener, peer, other] = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let mut sockets = Sockets::new(listener.local_addr().unwrap()).unwrap();
        let [peer_address, other_address] = [&peer, &other].map(|socket| socket.local_addr().unwrap());
        let ours = TcpStream::connect(peer_address).unwrap();
        let (mut theirs, _) = peer.accept().unwrap();
        for address in [peer_address, other_address] {
            sockets.add(address);
            sockets.part(address);
        }
        sockets.search();
        assert_eq!((sockets.peers.len(), sockets.departed.len()), (1, 1));
        let descriptor = sockets.arm().expect("quiet");
        theirs.write_all(b"!").unwrap();
        assert!(readable(descriptor, 5000));
        // It comes again, and parts.
        sockets.add(peer_address);
        sockets.search();
        assert_eq!((sockets.peers.len(), sockets.departed.len()), (1, 0));
        sockets.part(peer_address);
        drop((ours, theirs));
        sockets.search();
        assert_eq!((sockets.peers.len(), sockets.departed.len()), (0, 0));
    }

    #[test]
    fn what_nobody_takes_does_not_keep_awake() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_near, _) = listener.accept().unwrap();
        let mut sockets = Sockets::new(listener.local_addr().unwrap()).unwrap();
        let descriptor = sockets.arm().expect("quiet");
        far.write_all(b"!").unwrap();
        assert!(readable(descriptor, 5000));
        let awake = (0..100).take_while(|_| sockets.arm().is_some()).count();
        assert!(awake < 10, "{awake} sleeps that ended at once");
    }

    #[test]
    fn near_connections_are_not_paced() {
        let name = |socket: BorrowedFd<'_>| getsockopt(&socket, sockopt::TcpCongestion).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // Where there is no BBR, the choice of the system stays, whatever it is.
        let bbr = setsockopt(&listener, sockopt::TcpCongestion, &"bbr".into()).is_ok();
        let before = name(listener.as_fd());
        let mut sockets = Sockets::new(listener.local_addr().unwrap()).unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut near, _) = listener.accept().unwrap();
        assert_eq!(name(near.as_fd()), before);
        // One byte each way: both have measured a round trip.
        far.write_all(b"?").unwrap();
        near.read_exact(&mut [0]).unwrap();
        near.write_all(b"!").unwrap();
        far.read_exact(&mut [0]).unwrap();
        assert_eq!(
            sockets.unpace(),
            bbr || before.as_encoded_bytes().starts_with(b"bbr")
        );
        assert_eq!(name(near.as_fd()) == before, !bbr);
        assert_eq!(name(listener.as_fd()), before);
    }

    /// A connection that was closed after the search, and whose number is another connection's by now.
    #[test]
    fn a_socket_of_the_program_keeps_its_options() {
        let name = |socket: BorrowedFd<'_>| getsockopt(&socket, sockopt::TcpCongestion).unwrap();
        let [listener, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        for socket in [&listener, &other] {
            // Without BBR nothing is changed in any case.
            let _ = setsockopt(socket, sockopt::TcpCongestion, &"bbr".into());
        }
        let mut sockets = Sockets::new(listener.local_addr().unwrap()).unwrap();
        let _far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (near, _) = listener.accept().unwrap();
        assert!(sockets.arm().is_some());
        assert_eq!(sockets.connections, [near.as_raw_fd()]);
        let mut theirs = TcpStream::connect(other.local_addr().unwrap()).unwrap();
        let (mut ours, _) = other.accept().unwrap();
        theirs.write_all(b"?").unwrap();
        ours.read_exact(&mut [0]).unwrap();
        ours.write_all(b"!").unwrap();
        theirs.read_exact(&mut [0]).unwrap();
        let before = name(ours.as_fd());
        // SAFETY: `near` owns the number, and closes what it is from now on.
        assert!(unsafe { libc::dup2(ours.as_raw_fd(), near.as_raw_fd()) } >= 0);
        sockets.unpace();
        assert_eq!(name(ours.as_fd()), before);
    }

    #[test]
    fn many_peers_are_not_searched_for_one_by_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sockets = Sockets::new(listener.local_addr().unwrap()).unwrap();
        let searches = (1..=1000).filter(|port| {
            sockets.add(([10, 0, 0, 1], *port).into());
            sockets.search_if_due()
        });
        // Each time that this thread has to wait for a processor may make one due.
        assert!(searches.count() < 500);
    }

    #[test]
    fn what_has_not_left_forbids_to_sleep() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut near, _) = listener.accept().unwrap();
        let mut sockets = Sockets::new(listener.local_addr().unwrap()).unwrap();
        assert!(sockets.arm().is_some());
        near.set_nonblocking(true).unwrap();
        while near.write(&[0; 1 << 16]).is_ok() {}
        assert_eq!(sockets.arm(), None);
    }
}
