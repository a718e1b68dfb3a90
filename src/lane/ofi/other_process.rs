//! For tests: a lane in a process of its own, which may have another libfabric than this one. `shm` of libfabric 2.x can't talk
//! within one process (2.5 crashes in `fi_cq_read` when two endpoints of a process exchange a message above 192 bytes), so there
//! each of the two lanes of a conformance test is in a process of its own.
//!
//! Each call of [`Lane`] is a request over a socket, and its answer. The other process runs the same test program, which
//! runs only [`serve`]; it ends when its socket is closed.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;
use crate::base::bytes::RawRoom;
use crate::lane::atomic::Atomics;
use crate::lane::conformance::{self, Log};

/// How long the other process may take for an answer, and to close its lane.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Names the provider for [`serve`].
const PROVIDER: &str = "WEFT_TEST_LANE_PROVIDER";

#[test]
#[ignore = "is what the processes of other tests run"]
fn serve() {
    let provider = std::env::var(PROVIDER).expect("another test starts this one");
    // SAFETY: standard input is the socket that `OtherProcess::open` gave this process, and nobody else here uses it.
    let mut socket = UnixStream::from(unsafe { OwnedFd::from_raw_fd(0) });
    let settings = Settings::read(|name| match name {
        "WEFT_PROVIDER" => Some(provider.clone()),
        "WEFT_WINDOWS" => Some("rdma".into()),
        _ => None,
    })
    .unwrap();
    let lane = OfiLane::open(&settings, true, false, &Ledger::default()).unwrap();
    let mut served = Served {
        lane,
        log: Log::default(),
        memory: Vec::new(),
        targets: HashMap::new(),
    };
    while let Some(request) = receive(&mut socket) {
        let answer = served.answer(Words(&request));
        send(&mut socket, &answer).unwrap();
    }
}

/// The kinds of requests.
const ABOUT: u64 = 0;
const CONNECT: u64 = 1;
const SEND: u64 = 2;
const SEND_PACKED: u64 = 3;
const POLL: u64 = 4;
const REGISTER: u64 = 5;
const DEREGISTER: u64 = 6;
const READ: u64 = 7;
const COUNT_ALL: u64 = 8;
const EXPOSE: u64 = 9;
const WRITE: u64 = 10;

/// The lane, and the memory that it works on.
struct Served {
    lane: OfiLane,
    log: Log,
    /// Payloads that were sent in place, and registered memory: kept to the end.
    memory: Vec<Vec<u8>>,
    /// By token, of reads.
    targets: HashMap<u64, Vec<Vec<u8>>>,
}

impl Served {
    fn answer(&mut self, mut request: Words<'_>) -> Answer {
        let mut answer = Answer::default();
        match request.number() {
            ABOUT => {
                let limits = self.lane.limits();
                answer.bytes(self.lane.name().as_bytes());
                answer.bytes(&self.lane.address());
                answer.number(crate::system::fabric::version().unwrap().0.into());
                for number in [
                    limits.buffered,
                    limits.message,
                    limits.header,
                    limits.piece,
                    limits.rma_from,
                ] {
                    answer.number(number as u64);
                }
                for number in [limits.read_run, limits.register_run, limits.eager, limits.queue] {
                    answer.number(number as u64);
                }
                answer.number(u64::from(limits.ordered));
                answer.number(u64::from(limits.rma));
                answer.number(u64::from(limits.write));
                answer.number(u64::from(limits.needs_target));
            }
            CONNECT => {
                let peer = request.peer();
                answer.result(self.lane.connect(peer, request.bytes()));
            }
            SEND => {
                let (peer, header, token) = (request.peer(), request.bytes(), request.number());
                let payload = request.bytes().to_vec();
                // SAFETY: a payload that is not copied is kept, and the lane closed before it.
                let sent = unsafe { self.lane.send(peer, header, Piece::of(&payload), token) };
                if sent == Ok(Sent::Pending) {
                    self.memory.push(payload);
                }
                answer.sent(sent);
            }
            SEND_PACKED => {
                let (peer, header, payload) = (request.peer(), request.bytes(), request.bytes());
                let fill = &mut |into: RawRoom| into.fill_from(payload);
                answer.sent(self.lane.send_packed(peer, header, payload.len(), fill));
            }
            POLL => self.poll(&mut answer),
            REGISTER => {
                self.memory.push(request.bytes().to_vec());
                let registered = self.memory.last().expect("it was added a line ago");
                // SAFETY: the memory is kept, and the lane closed before it.
                let (region, key) = unsafe { self.lane.register(&[Piece::of(registered)]) }.unwrap();
                answer.number(region.0);
                answer.bytes(&key.0);
            }
            DEREGISTER => self.lane.deregister(Region(request.number())),
            READ => {
                let (peer, key) = (request.peer(), RemoteKey(request.bytes().to_vec()));
                let (offset, token) = (request.number(), request.number());
                let mut targets: Vec<Vec<u8>> = (0..request.number())
                    .map(|_| vec![0; request.number() as usize])
                    .collect();
                let pieces: Vec<Piece> = targets.iter_mut().map(|target| Piece::of_mut(target)).collect();
                // SAFETY: the targets are kept until the completion below, and the lane closed before them.
                let sent = unsafe { self.lane.read(peer, &key, offset, &pieces, token) };
                answer.sent(sent.clone());
                match sent {
                    Ok(Sent::Done) => answer.bytes(&targets.concat()),
                    Ok(Sent::Pending) => drop(self.targets.insert(token, targets)),
                    Ok(Sent::Again) | Err(_) => {}
                }
            }
            EXPOSE => {
                self.memory.push(request.bytes().to_vec());
                let exposed = self.memory.last_mut().expect("it was added a line ago");
                // SAFETY: the memory is kept, not looked at, and the lane closed before it.
                let (region, key) = unsafe { self.lane.expose(Piece::of_mut(exposed)) }.unwrap();
                answer.number(region.0);
                answer.bytes(&key.0);
            }
            WRITE => {
                let (peer, key) = (request.peer(), RemoteKey(request.bytes().to_vec()));
                let (offset, token) = (request.number(), request.number());
                let sources: Vec<Vec<u8>> = (0..request.number()).map(|_| request.bytes().to_vec()).collect();
                let pieces: Vec<Piece> = sources.iter().map(|source| Piece::of(source)).collect();
                // SAFETY: the sources are kept, and the lane closed before them.
                let sent = unsafe { self.lane.write(peer, &key, offset, &pieces, token) };
                self.memory.extend(sources);
                answer.sent(sent);
            }
            COUNT_ALL => self.lane.count_all(request.number() != 0),
            other => panic!("request {other} is none"),
        }
        answer.number(u64::from(self.lane.is_drained()));
        answer
    }

    fn poll(&mut self, answer: &mut Answer) {
        let any = self.lane.poll(&mut self.log).unwrap();
        answer.number(u64::from(any));
        let Log {
            messages,
            completed,
            lost,
            ..
        } = std::mem::take(&mut self.log);
        answer.number(messages.len() as u64);
        for message in &messages {
            answer.bytes(message);
        }
        answer.number(completed.len() as u64);
        for (token, result) in completed {
            answer.number(token);
            answer.bytes(&self.targets.remove(&token).unwrap_or_default().concat());
            answer.result(result);
        }
        answer.number(lost.len() as u64);
        for (peer, error) in lost {
            answer.number(peer.number().into());
            answer.bytes(error.message.as_bytes());
        }
    }
}

/// A lane in another process.
struct OtherProcess {
    process: Child,
    socket: UnixStream,
    name: String,
    address: Vec<u8>,
    /// The major version of its libfabric.
    version: u64,
    limits: Limits,
    drained: bool,
    /// Where the bytes of reads go, by token.
    targets: HashMap<u64, Vec<Piece>>,
}

impl OtherProcess {
    /// Opens one over a provider of the libfabric in a folder, or of the one that this process would load.
    fn open(provider: &str, library: Option<&Path>) -> OtherProcess {
        let (socket, theirs) = UnixStream::pair().unwrap();
        socket.set_read_timeout(Some(ANSWER_MAX)).unwrap();
        let process = Command::new(std::env::current_exe().unwrap())
            .envs(library.map(|folder| ("LD_LIBRARY_PATH", folder)))
            .args([
                "--exact",
                "--ignored",
                "--nocapture",
                "lane::ofi::other_process::serve",
            ])
            .env(PROVIDER, provider)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut other = OtherProcess {
            process,
            socket,
            name: String::new(),
            address: Vec::new(),
            version: 0,
            limits: crate::lane::loopback::Loopback::default().limits(),
            drained: true,
            targets: HashMap::new(),
        };
        other.ask(ABOUT, |_| {}, |_, _| ());
        other
    }

    /// Sends a request; `read` reads the answer.
    fn ask<T>(
        &mut self,
        what: u64,
        say: impl FnOnce(&mut Answer),
        read: impl FnOnce(&mut OtherProcess, &mut Words<'_>) -> T,
    ) -> T {
        let mut request = Answer::default();
        request.number(what);
        say(&mut request);
        send(&mut self.socket, &request).expect("the other process lives");
        let answer = receive(&mut self.socket).expect("the other process lives");
        let mut words = Words(&answer);
        if what == ABOUT {
            self.learn(&mut words);
        }
        let result = read(self, &mut words);
        self.drained = words.number() != 0;
        assert!(words.0.is_empty(), "all of the answer was understood");
        result
    }

    fn learn(&mut self, words: &mut Words<'_>) {
        self.name = String::from_utf8(words.bytes().to_vec()).unwrap();
        self.address = words.bytes().to_vec();
        self.version = words.number();
        let mut size = || words.number() as usize;
        self.limits = Limits {
            buffered: size(),
            message: size(),
            header: size(),
            piece: size(),
            rma_from: size(),
            read_run: size(),
            register_run: size(),
            eager: size(),
            queue: size(),
            ordered: size() != 0,
            rma: size() != 0,
            write: size() != 0,
            needs_target: size() != 0,
            ends_with_receipt: false,
            // They are not among the requests.
            atomics: Atomics::None,
            pipelined: 0,
        };
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let start = Instant::now();
        while start.elapsed() < ANSWER_MAX {
            if let Some(status) = self.process.try_wait().unwrap() {
                assert!(status.success() || std::thread::panicking(), "{status}");
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        assert!(std::thread::panicking(), "{}: the lane does not close", self.name);
    }
}

/// Puts the bytes of a read where they belong.
fn scatter(mut bytes: &[u8], pieces: &[Piece]) {
    for piece in pieces {
        let (some, rest) = bytes.split_at(piece.len);
        // SAFETY: the test keeps its targets until the read has completed.
        unsafe { piece.address.copy_from_nonoverlapping(some.as_ptr(), some.len()) };
        bytes = rest;
    }
}

impl Lane for OtherProcess {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn address(&self) -> Vec<u8> {
        self.address.clone()
    }

    fn connect(&mut self, peer: PeerIndex, address: &[u8]) -> Result<()> {
        let say = |request: &mut Answer| {
            request.number(peer.number().into());
            request.bytes(address);
        };
        self.ask(CONNECT, say, |_, words| words.result())
    }

    unsafe fn send(&mut self, peer: PeerIndex, header: &[u8], payload: Piece, token: u64) -> Result<Sent> {
        // SAFETY: the caller says that the payload is readable.
        let payload = unsafe { payload.bytes() }.to_vec();
        let say = |request: &mut Answer| {
            request.number(peer.number().into());
            request.bytes(header);
            request.number(token);
            request.bytes(&payload);
        };
        self.ask(SEND, say, |_, words| words.sent())
    }

    fn send_packed(
        &mut self,
        peer: PeerIndex,
        header: &[u8],
        len: usize,
        fill: &mut dyn FnMut(RawRoom),
    ) -> Result<Sent> {
        let mut payload = vec![0; len];
        fill(RawRoom::from(&mut payload[..]));
        let say = |request: &mut Answer| {
            request.number(peer.number().into());
            request.bytes(header);
            request.bytes(&payload);
        };
        self.ask(SEND_PACKED, say, |_, words| words.sent())
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<bool> {
        self.ask(
            POLL,
            |_| {},
            |other, words| {
                let any = words.number() != 0;
                for _ in 0..words.number() {
                    sink.message(words.bytes());
                }
                for _ in 0..words.number() {
                    let (token, bytes) = (words.number(), words.bytes());
                    if let Some(targets) = other.targets.remove(&token) {
                        scatter(bytes, &targets);
                    }
                    sink.completed(token, words.result());
                }
                for _ in 0..words.number() {
                    let peer = words.peer();
                    sink.peer_lost(peer, words.error());
                }
                Ok(any)
            },
        )
    }

    unsafe fn register(&mut self, pieces: &[Piece]) -> Result<(Region, RemoteKey)> {
        let &[piece] = pieces else {
            return Err(err!(Intern, "one piece at a time"));
        };
        // SAFETY: the caller keeps it valid; the other process gets a copy.
        let bytes = unsafe { piece.bytes() }.to_vec();
        let read = |_: &mut OtherProcess, words: &mut Words<'_>| {
            (Region(words.number()), RemoteKey(words.bytes().to_vec()))
        };
        Ok(self.ask(REGISTER, |request| request.bytes(&bytes), read))
    }

    fn deregister(&mut self, region: Region) {
        self.ask(DEREGISTER, |request| request.number(region.0), |_, _| ());
    }

    unsafe fn read(
        &mut self,
        peer: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        into: &[Piece],
        token: u64,
    ) -> Result<Sent> {
        let say = |request: &mut Answer| {
            request.number(peer.number().into());
            request.bytes(&key.0);
            request.number(offset);
            request.number(token);
            request.number(into.len() as u64);
            for piece in into {
                request.number(piece.len as u64);
            }
        };
        self.ask(READ, say, |other, words| {
            let sent = words.sent()?;
            match sent {
                Sent::Done => scatter(words.bytes(), into),
                Sent::Pending => drop(other.targets.insert(token, into.to_vec())),
                Sent::Again => {}
            }
            Ok(sent)
        })
    }

    unsafe fn expose(&mut self, memory: Piece) -> Result<(Region, RemoteKey)> {
        // SAFETY: the caller keeps it valid; the other process gets a copy.
        let bytes = unsafe { memory.bytes() }.to_vec();
        let read = |_: &mut OtherProcess, words: &mut Words<'_>| {
            (Region(words.number()), RemoteKey(words.bytes().to_vec()))
        };
        Ok(self.ask(EXPOSE, |request| request.bytes(&bytes), read))
    }

    unsafe fn write(
        &mut self,
        peer: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        from: &[Piece],
        token: u64,
    ) -> Result<Sent> {
        let say = |request: &mut Answer| {
            request.number(peer.number().into());
            request.bytes(&key.0);
            request.number(offset);
            request.number(token);
            request.number(from.len() as u64);
            for piece in from {
                // SAFETY: the caller says that the pieces are readable.
                request.bytes(&unsafe { piece.bytes() }.to_vec());
            }
        };
        self.ask(WRITE, say, |_, words| words.sent())
    }

    fn arm(&mut self) -> Option<RawFd> {
        None
    }

    fn can_sleep(&self) -> bool {
        false
    }

    fn is_drained(&self) -> bool {
        self.drained
    }

    fn count_all(&mut self, on: bool) {
        self.ask(COUNT_ALL, |request| request.number(on.into()), |_, _| ());
    }
}

/// A request or an answer, being written: numbers, and bytes after their number.
#[derive(Default)]
struct Answer(Vec<u8>);

/// How an answer to a send begins.
const DONE: u8 = 0;
const PENDING: u8 = 1;
const AGAIN: u8 = 2;
const FAILED: u8 = 3;

impl Answer {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn result(&mut self, result: Result<()>) {
        self.sent(result.map(|()| Sent::Done));
    }

    fn sent(&mut self, sent: Result<Sent>) {
        self.0.push(match sent {
            Ok(Sent::Done) => DONE,
            Ok(Sent::Pending) => PENDING,
            Ok(Sent::Again) => AGAIN,
            Err(_) => FAILED,
        });
        if let Err(error) = sent {
            self.bytes(error.message.as_bytes());
        }
    }
}

/// A request or an answer, being read.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    fn bytes(&mut self) -> &'a [u8] {
        let len = self.number();
        self.take(len as usize)
    }

    fn peer(&mut self) -> PeerIndex {
        PeerIndex::new(self.number() as u32)
    }

    fn error(&mut self) -> crate::Error {
        err!(Other, "{}", String::from_utf8_lossy(self.bytes()))
    }

    fn result(&mut self) -> Result<()> {
        self.sent().map(|_| ())
    }

    fn sent(&mut self) -> Result<Sent> {
        match self.take(1)[0] {
            DONE => Ok(Sent::Done),
            PENDING => Ok(Sent::Pending),
            AGAIN => Ok(Sent::Again),
            _ => Err(self.error()),
        }
    }
}

fn send(socket: &mut UnixStream, Answer(bytes): &Answer) -> std::io::Result<()> {
    socket.write_all(&[&(bytes.len() as u64).to_le_bytes()[..], bytes].concat())
}

/// `None`: the other side is gone.
fn receive(socket: &mut UnixStream) -> Option<Vec<u8>> {
    let mut len = [0; 8];
    socket.read_exact(&mut len).ok()?;
    let mut bytes = vec![0; u64::from_le_bytes(len) as usize];
    socket.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// Over the libfabric 2.x of the MPICH in the folder `WEFT_TEST_PEERS`, if that is set.
#[test]
fn shm_conforms_across_processes() {
    let peers = std::env::var_os("WEFT_TEST_PEERS").filter(|path| !path.is_empty());
    let library = peers.map(|path| Path::new(&path).join("lib/mpich"));
    let open = || {
        let lane = OtherProcess::open("shm", library.as_deref());
        assert!(
            library.is_none() || lane.version >= 2,
            "{library:?}: {}",
            lane.version
        );
        lane
    };
    conformance::run_apart(|| [open(), open()]);
}
