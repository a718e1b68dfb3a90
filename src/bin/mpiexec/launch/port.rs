//! The port to which agents connect that an engine (`srun`, `prterun`) has started, where standard input and output are not one agent's. It
//! is open until all have connected. Who connects has to know a secret of 128 bits, which agents get by their environment.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use weft::tools::{random, select};

use crate::wire::frames::{Frames, greeting};

/// The environment variable with secret, port and addresses.
pub const VARIABLE: &str = "WEFT_LAUNCH_AGENT";
/// How long an agent tries to connect to one address.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection may take to show the secret.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most connections that have not shown it.
const STRANGERS_MAX: usize = 256;

/// A connection that has not shown the secret.
struct Stranger {
    stream: TcpStream,
    frames: Frames,
    since: Instant,
}

/// The head's end.
pub struct Port {
    listener: TcpListener,
    secret: String,
    strangers: Vec<Stranger>,
}

/// An agent that has connected: the name of its host, its connection, and what it has sent.
pub type Arrival = (String, TcpStream, Frames);

impl Port {
    /// Opens it, and makes the secret.
    pub fn open() -> std::io::Result<Port> {
        // Without IPv6 the other kind is left.
        let any = |ip: IpAddr| TcpListener::bind(SocketAddr::new(ip, 0));
        let listener = any(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| any([0, 0, 0, 0].into()))?;
        listener.set_nonblocking(true)?;
        Ok(Port {
            listener,
            secret: random::hexadecimal().map_err(std::io::Error::other)?,
            strangers: Vec::new(),
        })
    }

    /// The value of [`VARIABLE`]: secret, port, and the addresses of this machine, the best first: agents try them in turn.
    pub fn call(&self) -> std::io::Result<String> {
        let port = self.listener.local_addr()?.port();
        let addresses: Vec<String> = select::addresses().iter().map(IpAddr::to_string).collect();
        Ok(format!("{} {port} {}", self.secret, addresses.join(" ")))
    }

    /// Takes connections, and those that have shown the secret by now.
    pub fn take(&mut self) -> Vec<Arrival> {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.strangers.len() < STRANGERS_MAX && stream.set_nonblocking(true).is_ok() {
                let _ = stream.set_nodelay(true);
                self.strangers.push(Stranger {
                    stream,
                    frames: Frames::default(),
                    since: Instant::now(),
                });
            }
        }
        let mut arrivals = Vec::new();
        for mut stranger in std::mem::take(&mut self.strangers) {
            let mut bytes = [0; 512];
            let ended = match stranger.stream.read(&mut bytes) {
                Ok(0) => true,
                Ok(count) => {
                    stranger.frames.push(&bytes[..count]);
                    false
                }
                Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
            };
            match stranger.frames.greeting() {
                Ok(Some(words)) => {
                    let (secret, host) = words.split_once(' ').unwrap_or((&words, ""));
                    if random::is_same(secret, &self.secret) {
                        arrivals.push((host.to_string(), stranger.stream, stranger.frames));
                    }
                }
                Ok(None) if !ended && stranger.since.elapsed() < PATIENCE => self.strangers.push(stranger),
                // It is dropped without an answer. An agent of another version ends with words of its own.
                _ => {}
            }
        }
        arrivals
    }

    /// Whether connections are to be looked at again soon.
    pub fn has_strangers(&self) -> bool {
        !self.strangers.is_empty()
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Connects an agent to its head: by the value of [`VARIABLE`], as the host `host`.
pub fn connect(call: &str, host: &str) -> Result<TcpStream, String> {
    let mut words = call.split(' ');
    let secret = words.next().unwrap_or_default();
    let port: u16 =
        (words.next().and_then(|port| port.parse().ok())).ok_or_else(|| format!("{VARIABLE} has no port"))?;
    let mut why = "no address was given".to_string();
    for word in words {
        let Ok(ip) = word.parse::<IpAddr>() else { continue };
        match TcpStream::connect_timeout(&SocketAddr::new(ip, port), CONNECT) {
            Ok(mut stream) => {
                let _ = stream.set_nodelay(true);
                let sent = stream.write_all(&greeting(&format!("{secret} {host}")));
                return sent.map(|()| stream).map_err(|error| error.to_string());
            }
            Err(error) => why = format!("{ip}: {error}"),
        }
    }
    Err(format!("the head of the job can't be reached: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_knows_the_secret_is_taken() {
        let mut port = Port::open().unwrap();
        let call = port.call().unwrap();
        let number = call.split(' ').nth(1).unwrap();
        let secret = call.split(' ').next().unwrap();
        assert_eq!(secret.len(), 32);
        let local = |secret: &str| format!("{secret} {number} 127.0.0.1");
        let _wrong = connect(&local(&"0".repeat(32)), "h1").unwrap();
        let _shorter = connect(&local(&secret[1..]), "h1").unwrap();
        let mut noise = TcpStream::connect(format!("127.0.0.1:{number}")).unwrap();
        noise.write_all(&[0xff; 1000]).unwrap();
        let _right = connect(&local(secret), "h2").unwrap();
        let start = Instant::now();
        let mut arrivals = Vec::new();
        while arrivals.is_empty() {
            assert!(start.elapsed() < Duration::from_secs(20));
            arrivals.extend(port.take());
        }
        assert_eq!(arrivals.len(), 1);
        assert_eq!(arrivals[0].0, "h2");
    }
}
