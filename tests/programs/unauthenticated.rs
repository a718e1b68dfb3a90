//! An unauthenticated sender finds the endpoints of a job's ranks, connects to them and sends what it likes, below libfabric's protocol
//! and above it, before the first message of the job and while messages flow: the job goes on and ends well.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use weft::base::settings::Settings;
use weft::base::startup::Ledger;
use weft::data::pieces::Piece;
use weft::identity::{PeerIndex, ProcessName};
use weft::lane::ofi::OfiLane;
use weft::lane::{HEADER_BYTES, Lane as _, Sent, Sink};

use crate::Outcome;
use crate::build;
use crate::job::Job;
use crate::matrix::providers;

const RANKS: u32 = 3;

/// How long an unauthenticated sender who speaks libfabric tries to get its messages out.
const PATIENCE: Duration = Duration::from_secs(30);

/// Unauthenticated senders per rank who hang up in the middle of a message, a long one, of which three find room in a buffer. A rank with 64
/// buffers that loses each of these dies.
const HANGING_UP: usize = 240;

/// Providers with sockets whose endpoint does not survive an unauthenticated sender, and why (docs/providers.md has it all).
const NOT_OVER: &[(&str, &str)] = &[("udp;ofi_rxd", "a single byte to its port crashes libfabric 1.17")];

/// The tests.
pub fn trials() -> Vec<Trial> {
    providers()
        .into_iter()
        // No sockets, and files that only this user can open.
        .filter(|&provider| provider != "shm")
        .filter_map(|provider| {
            if let Some((_, why)) = NOT_OVER.iter().find(|(name, _)| *name == provider) {
                eprintln!("programs: unauthenticated senders are left out over {provider}: {why}");
                return None;
            }
            Some(Trial::test(format!("unauthenticated::{provider}"), move || {
                meet(provider)
            }))
        })
        .collect()
}

/// Where a rank waits for others.
enum Endpoint {
    Tcp(u16),
    Udp(u16),
}

impl Endpoint {
    fn port(&self) -> u16 {
        match *self {
            Endpoint::Tcp(port) | Endpoint::Udp(port) => port,
        }
    }
}

fn meet(provider: &'static str) -> Outcome {
    let folder = tempfile::tempdir()?;
    let job = Job::new(&build::program("unauthenticated")?, RANKS).over(provider);
    let errors = folder.path().join("errors");
    let mut launcher = job
        .command(folder.path())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&errors)?)
        .spawn()?;
    let result = disturb(&mut launcher, provider, folder.path());
    if result.is_err() {
        let _ = launcher.kill();
    }
    let status = launcher.wait()?;
    let said = std::fs::read_to_string(&errors)?;
    let explain = |what: String| -> Failed { format!("{what}\n$ {}\n{said}", job.shell()).into() };
    let printed = result.map_err(|failed| explain(failed.message().unwrap_or("").into()))?;
    if !status.success() || !printed.contains(&format!("unauthenticated: ok with {RANKS} ranks")) {
        return Err(explain(format!("{status:?}\n{printed}")));
    }
    Ok(())
}

/// What the unauthenticated sender does. Returns what the job printed at its end.
fn disturb(launcher: &mut Child, provider: &str, folder: &Path) -> Result<String, Failed> {
    let mut lines = BufReader::new(launcher.stdout.take().ok_or("no output")?);
    let mut endpoints = Vec::new();
    let mut ready = 0;
    while ready < RANKS {
        let line = next(&mut lines)?;
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["ready", _] => ready += 1,
            ["endpoint", _, "tcp", port] => endpoints.push(Endpoint::Tcp(port.parse()?)),
            ["endpoint", _, "udp", port] => endpoints.push(Endpoint::Udp(port.parse()?)),
            _ => return Err(format!("an unexpected line: {line}").into()),
        }
    }
    if endpoints.len() < RANKS as usize {
        return Err(format!("{} endpoints found for {RANKS} ranks", endpoints.len()).into());
    }

    // Connections stay open: an unauthenticated sender who goes away at once is but one kind.
    let mut held = Vec::new();
    knock(provider, &endpoints, &mut held)?;
    std::fs::write(folder.join("go"), "")?;
    while next(&mut lines)?.trim() != "traffic" {}
    knock(provider, &endpoints, &mut held)?;
    for endpoint in &endpoints {
        speak(provider, endpoint.port())?;
        if provider == "net" {
            hang_up(endpoint.port(), HANGING_UP)?;
        }
    }
    drop(held);
    std::fs::write(folder.join("stop"), "")?;
    let mut rest = String::new();
    lines.read_to_string(&mut rest)?;
    Ok(rest)
}

fn next(lines: &mut BufReader<ChildStdout>) -> Result<String, Failed> {
    let mut line = String::new();
    if lines.read_line(&mut line)? == 0 {
        return Err("the job ended too early".into());
    }
    Ok(line)
}

/// Bytes without a meaning, the same in each run.
fn junk(len: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}

/// What goes over a bare socket. The 32 bytes of `request` are how libfabric's TCP providers begin to ask for a
/// connection: their header, with 8 bytes of data to follow.
fn utterances(provider: &str) -> Vec<Vec<u8>> {
    let mut request = vec![0; 32];
    request[0] = 3;
    request[3] = 8;
    request[24] = 1;
    let followed_by = |len: usize| [request.clone(), junk(len, 7)].concat();
    let short = vec![
        vec![],
        junk(1, 1),
        vec![0; 4096],
        request[..1].to_vec(),
        request[..16].to_vec(),
        request.clone(),
    ];
    if provider == "sockets" {
        // What has a whole header's length and other bytes than 0 stops libfabric's progress thread.
        return short;
    }
    let long = [
        junk(4096, 2),
        junk(1 << 20, 3),
        vec![0xff; 4096],
        followed_by(8),
        followed_by(4096),
        b"GET / HTTP/1.0\r\n\r\n".to_vec(),
    ];
    short.into_iter().chain(long).collect()
}

/// Says each utterance to each endpoint, over connections of its own.
fn knock(provider: &str, endpoints: &[Endpoint], held: &mut Vec<TcpStream>) -> Outcome {
    for endpoint in endpoints {
        for bytes in utterances(provider) {
            match *endpoint {
                Endpoint::Tcp(port) => {
                    let address = (Ipv4Addr::LOCALHOST, port).into();
                    // Twice: one stays, and one hangs up in the middle of the sentence.
                    for stays in [true, false] {
                        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
                        stream.set_nonblocking(true)?;
                        // As much as the kernel takes; a rank that hangs up is within its rights.
                        let _ = stream.write(&bytes);
                        if stays {
                            held.push(stream);
                        }
                    }
                }
                Endpoint::Udp(port) => {
                    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
                    for datagram in bytes.chunks(4096) {
                        let _ = socket.send_to(datagram, (Ipv4Addr::LOCALHOST, port));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Receives what the unauthenticated sender's own lane reports: nothing that it needs.
#[derive(Default)]
struct Deaf {
    completed: usize,
}

impl Sink for Deaf {
    fn message(&mut self, _: &[u8]) {}
    fn completed(&mut self, _: u64, _: weft::Result<()>) {
        self.completed += 1;
    }
    fn peer_lost(&mut self, _: PeerIndex, _: weft::Error) {}
    fn sender_lost(&mut self, _: ProcessName, _: weft::Error) {}
}

/// Speaks libfabric's protocol with the rank, as one more process of the job would, but not Weft's.
fn speak(provider: &str, port: u16) -> Outcome {
    let settings = Settings::read(|name| (name == "WEFT_PROVIDER").then(|| provider.to_string()))?;
    let mut lane = OfiLane::open(&settings, true, true, &Ledger::default())?;
    // The rank's address is this lane's but for the port: a sockaddr_in at the end.
    let mut address = lane.address();
    let at = address.len() - 16;
    if address[at..at + 2] != libc_af_inet() {
        return Err(format!("{provider}: the address does not end with a sockaddr_in").into());
    }
    address[at + 2..at + 4].copy_from_slice(&port.to_be_bytes());
    let rank = PeerIndex::new(0);
    lane.connect(rank, &address)?;
    let most = lane.limits().message;
    let mut sink = Deaf::default();
    for (seed, len) in [1, 8, 20, 40, 41, 64, 500, 4000, most].into_iter().enumerate() {
        let bytes = junk(len.min(most), seed as u64);
        // In front of it goes this lane's secret, which is not the rank's.
        let (head, rest) = bytes.split_at(len.min(HEADER_BYTES));
        let deadline = Instant::now() + PATIENCE;
        let completed = sink.completed;
        loop {
            // SAFETY: `bytes` stays until the lane has completed the send, or is closed below.
            match unsafe { lane.send(rank, head, Piece::of(rest), 1) } {
                Ok(Sent::Done) | Err(_) => break,
                Ok(Sent::Pending) => {
                    while sink.completed == completed && Instant::now() < deadline {
                        lane.poll(&mut sink)?;
                    }
                    break;
                }
                Ok(Sent::Again) if Instant::now() < deadline => {
                    lane.poll(&mut sink)?;
                }
                Ok(Sent::Again) => return Err(format!("{provider}: no connection to port {port}").into()),
            }
        }
        if sink.completed == completed && Instant::now() >= deadline {
            // Closed while `bytes` is still there.
            drop(lane);
            return Err(format!("{provider}: {len} bytes to port {port} do not leave").into());
        }
    }
    // What was copied may still be in libfabric's queues. A rank owes an unauthenticated sender nothing, so this is no condition.
    let deadline = Instant::now() + Duration::from_secs(1);
    while !lane.is_drained() && Instant::now() < deadline {
        lane.poll(&mut sink)?;
    }
    Ok(())
}

/// Asks for a connection as another process would (the words of libfabric's TCP provider), announces a message, sends half of
/// it and hangs up; so many times.
fn hang_up(port: u16, count: usize) -> Outcome {
    for number in 0..count {
        let mut stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), PATIENCE)?;
        let own = stream.local_addr()?.port();
        let mut request = vec![0; 40];
        (request[0], request[3], request[24]) = (3, 8, 1);
        request[34..36].copy_from_slice(&own.to_be_bytes());
        let len = 65_576;
        let mut header = vec![0; 16];
        (header[0], header[6]) = (3, 16);
        header[8..].copy_from_slice(&(16 + len as u64).to_le_bytes());
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&request)?;
        stream.read_exact(&mut request)?;
        stream.write_all(&[header, junk(len / 2, number as u64)].concat())?;
    }
    Ok(())
}

fn libc_af_inet() -> [u8; 2] {
    (nix::libc::AF_INET as u16).to_ne_bytes()
}
