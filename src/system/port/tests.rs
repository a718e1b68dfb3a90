//! Both sides of ports, by unix sockets and by TCP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::handshake::{Answer, show};
use super::name::PortName;
use super::{Channel, Connecting, NAME_MAX, Port};
use crate::Class;
use crate::base::error::{Error, Result};
use crate::base::skip::skip;

/// How a connector comes to the port.
#[derive(Clone, Copy, PartialEq, Debug)]
enum By {
    Unix,
    Tcp,
}

const WAYS: [By; 2] = [By::Unix, By::Tcp];

/// A port on the loopback interface, which is the same for TCP.
fn open() -> Port {
    Port::open(Some("lo")).unwrap()
}

/// The name with one way only.
fn name_by(port: &Port, by: By) -> String {
    let mut name = PortName::parse(port.name()).unwrap();
    match by {
        By::Unix => name.addresses.clear(),
        By::Tcp => name.socket = "0".repeat(32),
    }
    name.encode()
}

fn sleep_on(descriptors: &[BorrowedFd<'_>]) {
    let mut polled: Vec<PollFd> = descriptors
        .iter()
        .map(|&descriptor| PollFd::new(descriptor, PollFlags::POLLIN))
        .collect();
    poll(&mut polled, PollTimeout::NONE).unwrap();
}

/// Sleeps on both sides until one is accepted, and until its connector knows.
fn meet(port: &mut Port, connecting: &mut Connecting) -> Result<(Channel, Channel)> {
    let (mut accepted, mut connected) = (None, None);
    loop {
        accepted = match accepted {
            None => port.accept()?,
            accepted => accepted,
        };
        connected = match connected {
            None => connecting.finish()?,
            connected => connected,
        };
        match (accepted.take(), connected.take()) {
            (Some(one), Some(other)) => return Ok((one, other)),
            // A channel that is there makes its connection quiet.
            (None, None) => sleep_on(&[port.descriptor(), connecting.descriptor()]),
            some => (accepted, connected) = some,
        }
    }
}

/// Until the connection has failed.
fn failure(connecting: &mut Connecting) -> Error {
    loop {
        match connecting.finish() {
            Ok(None) => sleep_on(&[connecting.descriptor()]),
            Ok(Some(_)) => panic!("it was accepted"),
            Err(error) => return error,
        }
    }
}

/// Sends a frame from the one to the other.
fn pass(one: &mut Channel, other: &mut Channel, text: &str) {
    one.send(text.into()).unwrap();
    loop {
        match other.receive().unwrap() {
            Some(frame) => return assert_eq!(frame, text.as_bytes()),
            None => sleep_on(&[other.descriptor()]),
        }
    }
}

/// A TCP connection without a secret.
fn stranger(port: &Port) -> TcpStream {
    let name = PortName::parse(port.name()).unwrap();
    let local: Vec<SocketAddr> = (name.addresses.into_iter())
        .filter(|address| address.ip().is_loopback())
        .collect();
    TcpStream::connect(&local[..]).unwrap()
}

#[test]
fn names_are_text_of_limited_length_and_no_two_are_the_same() {
    let ports = [Port::open(None).unwrap(), Port::open(None).unwrap(), open()];
    for port in &ports {
        let name = port.name();
        assert!(name.len() <= NAME_MAX && name.bytes().all(|byte| byte.is_ascii_graphic()));
    }
    assert_ne!(ports[0].name(), ports[1].name());
    assert!(ports[2].name().contains("127.0.0.1@"), "{}", ports[2].name());
    assert_eq!(Port::open(Some("10.0.0.0/64")).err().unwrap().class, Class::Arg);
}

#[test]
fn one_comes_and_is_accepted() {
    let mut port = open();
    for by in WAYS {
        let mut connecting = Connecting::to(&name_by(&port, by), None).unwrap();
        let (mut one, mut other) = meet(&mut port, &mut connecting).unwrap();
        pass(&mut one, &mut other, "from the port");
        pass(&mut other, &mut one, "to the port");
        assert_eq!(connecting.finish().err().unwrap().class, Class::Intern);
    }
}

#[test]
fn nobody_has_a_channel_before_it_is_accepted() {
    let mut port = open();
    for by in WAYS {
        let mut first = Connecting::to(&name_by(&port, by), None).unwrap();
        let mut second = Connecting::to(&name_by(&port, by), None).unwrap();
        for connecting in [&mut first, &mut second] {
            assert!(connecting.finish().unwrap().is_none());
        }
        // Accepted is the one that was first to show the secret.
        let (mut one, mut other) = meet(&mut port, &mut first).unwrap();
        pass(&mut one, &mut other, "first");
        for _ in 0..3 {
            assert!(second.finish().unwrap().is_none());
        }
        let (mut one, mut other) = meet(&mut port, &mut second).unwrap();
        pass(&mut one, &mut other, "second");
    }
}

#[test]
fn two_threads_sleep_until_they_meet() {
    for by in WAYS {
        let mut port = open();
        let name = name_by(&port, by);
        let connector = std::thread::spawn(move || {
            let mut connecting = Connecting::to(&name, None).unwrap();
            loop {
                match connecting.finish().unwrap() {
                    Some(channel) => return channel,
                    None => sleep_on(&[connecting.descriptor()]),
                }
            }
        });
        let mut one = loop {
            match port.accept().unwrap() {
                Some(channel) => break channel,
                None => sleep_on(&[port.descriptor()]),
            }
        };
        let mut other = connector.join().unwrap();
        pass(&mut one, &mut other, "met");
    }
}

#[test]
fn many_come_at_once() {
    const MANY: usize = 60;
    let mut port = open();
    for by in WAYS {
        let name = name_by(&port, by);
        let mut connecting: Vec<_> = (0..MANY)
            .map(|_| (Some(Connecting::to(&name, None).unwrap()), None))
            .collect();
        let mut accepted = Vec::new();
        while accepted.len() < MANY || connecting.iter().any(|(_, channel)| channel.is_none()) {
            let mut descriptors = vec![port.descriptor()];
            descriptors.extend(
                connecting
                    .iter()
                    .flat_map(|(one, _)| one)
                    .map(Connecting::descriptor),
            );
            sleep_on(&descriptors);
            accepted.extend(port.accept().unwrap());
            for (one, channel) in &mut connecting {
                if let Some(coming) = one {
                    *channel = coming.finish().unwrap();
                }
                if channel.is_some() {
                    *one = None;
                }
            }
        }
        for (at, (_, channel)) in connecting.iter_mut().enumerate() {
            channel.as_mut().unwrap().send(vec![at as u8]).unwrap();
        }
        let mut numbers: Vec<u8> = Vec::new();
        for channel in &mut accepted {
            loop {
                match channel.receive().unwrap() {
                    Some(frame) => break numbers.extend(frame),
                    None => sleep_on(&[channel.descriptor()]),
                }
            }
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (0..MANY as u8).collect::<Vec<_>>());
    }
}

#[test]
fn a_wrong_secret_is_refused_in_words() {
    let mut port = open();
    for by in WAYS {
        let mut name = PortName::parse(&name_by(&port, by)).unwrap();
        name.secret = "0".repeat(32);
        let mut connecting = Connecting::to(&name.encode(), None).unwrap();
        let error = loop {
            assert!(port.accept().unwrap().is_none());
            match connecting.finish() {
                Ok(None) => sleep_on(&[port.descriptor(), connecting.descriptor()]),
                Ok(Some(_)) => panic!("it was accepted"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.class, Class::Port);
        assert!(error.message.contains("secret"), "{error}");
    }
}

#[test]
fn strangers_hold_up_nobody() {
    let mut port = open();
    // More than are kept: some silent, some with garbage, some that end.
    let mut strangers = Vec::new();
    for number in 0..300 {
        let mut socket = stranger(&port);
        match number % 4 {
            0 => {}
            1 => socket.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap(),
            2 => socket.write_all(b"\0we").unwrap(),
            _ => continue,
        }
        strangers.push(socket);
        if number % 100 == 0 {
            assert!(port.accept().unwrap().is_none());
        }
    }
    for by in WAYS {
        let mut connecting = Connecting::to(&name_by(&port, by), None).unwrap();
        let (mut one, mut other) = meet(&mut port, &mut connecting).unwrap();
        pass(&mut one, &mut other, "through");
    }
    // Who is silent is kept for a while, and does not keep the port awake.
    assert!(port.accept().unwrap().is_none());
    let mut polled = [PollFd::new(port.descriptor(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut polled, PollTimeout::ZERO), Ok(0));
}

#[test]
fn closing_refuses_those_that_wait() {
    for by in WAYS {
        let mut port = open();
        let name = name_by(&port, by);
        // Some are known as waiting, some are not taken yet, and one is a stranger.
        let mut first = Connecting::to(&name, None).unwrap();
        let (one, other) = meet(&mut port, &mut first).unwrap();
        let mut stranger = stranger(&port);
        let mut waiting: Vec<_> = (0..3).map(|_| Connecting::to(&name, None).unwrap()).collect();
        for connecting in &mut waiting {
            // By TCP the secret is shown here.
            assert!(connecting.finish().unwrap().is_none());
        }
        let mut late = Connecting::to(&name, None).unwrap();
        drop(port);
        waiting.push(late);
        for connecting in &mut waiting {
            let error = failure(connecting);
            assert_eq!(error.class, Class::Port);
            assert!(error.message.contains("closed"), "{error}");
        }
        assert!(matches!(stranger.read(&mut [0]), Ok(0) | Err(_)));
        // What was made there stays.
        let (mut one, mut other) = (one, other);
        pass(&mut one, &mut other, "still here");
        late = match Connecting::to(&name, None) {
            Ok(late) => late,
            Err(error) => {
                assert_eq!(error.class, Class::Port);
                continue;
            }
        };
        assert_eq!(failure(&mut late).class, Class::Port);
    }
}

#[test]
fn a_forked_child_keeps_no_port_open() {
    let port = open();
    // What such a child has: the same sockets.
    let copies: Vec<_> = port
        .listeners()
        .map(|socket| socket.try_clone().unwrap())
        .collect();
    let mut waiting: Vec<_> = WAYS
        .map(|by| Connecting::to(&name_by(&port, by), None).unwrap())
        .into();
    let names = WAYS.map(|by| name_by(&port, by));
    drop(port);
    for connecting in &mut waiting {
        assert_eq!(failure(connecting).class, Class::Port);
    }
    for name in names {
        let error = match Connecting::to(&name, None) {
            Ok(mut connecting) => failure(&mut connecting),
            Err(error) => error,
        };
        assert_eq!(error.class, Class::Port);
    }
    drop(copies);
}

#[test]
fn time_limits_end_a_wait() {
    let mut port = open();
    for by in WAYS {
        let name = name_by(&port, by);
        let until = Instant::now() + Duration::from_millis(20);
        let mut connecting = Connecting::to(&name, Some(until)).unwrap();
        let error = failure(&mut connecting);
        assert_eq!(error.class, Class::Port);
        assert!(error.message.contains("in time"), "{error}");
        assert!(Instant::now() >= until);
        drop(connecting);
        // The port passes over it.
        let mut next = Connecting::to(&name, Some(Instant::now() + Duration::from_secs(600))).unwrap();
        let (mut one, mut other) = meet(&mut port, &mut next).unwrap();
        pass(&mut one, &mut other, "next");
        let mut past = Connecting::to(&name, Some(Instant::now())).unwrap();
        assert_eq!(failure(&mut past).class, Class::Port);
    }
    assert!(port.accept().unwrap().is_none());
}

#[test]
fn one_that_gives_up_when_it_is_accepted_is_passed_over() {
    let mut port = open();
    for by in WAYS {
        let name = name_by(&port, by);
        let mut first = Connecting::to(&name, None).unwrap();
        // It has shown the secret, and is told that it is accepted, which it does not hear.
        while !port.is_accepting() {
            assert!(first.finish().unwrap().is_none());
            assert!(port.accept().unwrap().is_none());
        }
        assert!(port.accept().unwrap().is_none());
        drop(first);
        let mut second = Connecting::to(&name, None).unwrap();
        let (mut one, mut other) = meet(&mut port, &mut second).unwrap();
        pass(&mut one, &mut other, "second");
    }
}

#[test]
fn names_without_a_port_are_refused_at_once() {
    let port = open();
    let names = WAYS.map(|by| name_by(&port, by));
    drop(port);
    let unix = Connecting::to(&names[0], None).err().unwrap();
    assert_eq!(unix.class, Class::Port);
    let error = match Connecting::to(&names[1], None) {
        Ok(mut connecting) => failure(&mut connecting),
        Err(error) => error,
    };
    assert!(
        error.class == Class::Port && error.message.contains("nobody listens"),
        "{error}"
    );
    for wrong in ["", "nothing", "weft1/a/b/c"] {
        assert_eq!(Connecting::to(wrong, None).err().unwrap().class, Class::Port);
    }
}

#[test]
fn what_is_no_port_is_an_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let name = PortName {
        secret: "0".repeat(32),
        socket: "0".repeat(32),
        addresses: vec![listener.local_addr().unwrap()],
    };
    for (answer, why) in [(&b"HTTP"[..], "no port"), (b"u", "another user"), (b"", "closed")] {
        let mut connecting = Connecting::to(&name.encode(), None).unwrap();
        let (mut socket, _) = listener.accept().unwrap();
        assert!(matches!(connecting.finish(), Ok(None)));
        socket.write_all(answer).unwrap();
        drop(socket);
        let error = failure(&mut connecting);
        assert!(
            error.class == Class::Port && error.message.contains(why),
            "{error}"
        );
    }
}

/// What another user's thread does.
fn as_other_user(name: &str) {
    let error = Connecting::to(name, None).err().unwrap();
    assert!(
        error.class == Class::Port && error.message.contains("another user"),
        "{error}"
    );
    // Who does not ask whose port it is gets an answer all the same.
    let name = PortName::parse(name).unwrap();
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name.abstract_name()).unwrap();
    let mut socket = UnixStream::connect_addr(&address).unwrap();
    show(&name.secret, &OwnedFd::from(socket.try_clone().unwrap()));
    let mut answer = [0];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(Answer::of(answer[0]), Some(Answer::OtherUser));
}

#[test]
fn processes_of_other_users_are_refused_though_they_know_the_name() {
    if !nix::unistd::geteuid().is_root() {
        return skip("only root can be another user");
    }
    let mut port = open();
    let name = name_by(&port, By::Unix);
    let (ended, alive) = UnixStream::pair().unwrap();
    let thread = std::thread::spawn(move || {
        let _alive = alive;
        let other: libc::uid_t = 65534;
        // SAFETY: the call takes numbers. Made without the C library, it changes this thread alone, which does nothing but the test.
        let done = unsafe { libc::syscall(libc::SYS_setresuid, other, other, other) };
        assert_eq!(done, 0, "root may be another user");
        as_other_user(&name);
    });
    while poll(
        &mut [PollFd::new(ended.as_fd(), PollFlags::POLLIN)],
        PollTimeout::ZERO,
    ) == Ok(0)
    {
        sleep_on(&[port.descriptor(), ended.as_fd()]);
        assert!(port.accept().unwrap().is_none());
    }
    thread.join().unwrap();
}
