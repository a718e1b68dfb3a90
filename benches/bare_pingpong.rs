//! What the ofi lane costs over bare libfabric: a ping-pong and a bandwidth test written straight on the FFI, beside
//! the same through the `Lane` trait, alternating in one pair of processes.
//!
//!     cargo bench --bench bare_pingpong -- [PROVIDER] [--bytes N] [--rounds N] [--descriptor]
//!
//! `PROVIDER` is `tcp;ofi_rxm` if not given; `--bytes` is the message's size, header included (48); `--descriptor`
//! gives the bare queue a descriptor to sleep on (`FI_WAIT_FD`), to see what that costs while spinning. The parent
//! starts itself as the other process; traffic stays on the loopback address.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use weft::base::settings::Settings;
use weft::base::startup::Ledger;
use weft::data::pieces::Piece;
use weft::identity::{PeerIndex, ProcessName};
use weft::lane::ofi::OfiLane;
use weft::lane::{Lane, RemoteKey, Sent, Sink};

#[path = "bare/mod.rs"]
mod bare;

/// Iterations of one round.
const ITERATIONS: usize = 2000;
/// Bytes of the bandwidth test.
const BULK: usize = 1 << 20;
/// Reads of one bandwidth round.
const READS: usize = 50;

/// What both sides of a measurement do.
trait Side {
    fn send(&mut self, bytes: &[u8]);
    /// Waits for one message.
    fn receive(&mut self);
    /// Reads the peer's bulk memory into `into`.
    fn read(&mut self, key: &[u8], into: &mut [u8]);
    /// Makes progress once, for the peer's reads.
    fn progress(&mut self) -> bool;
}

#[derive(Default)]
struct Counter {
    messages: usize,
    completed: usize,
}

impl Sink for Counter {
    fn message(&mut self, _: &[u8]) {
        self.messages += 1;
    }
    fn completed(&mut self, _: u64, result: weft::Result<()>) {
        result.expect("operations succeed");
        self.completed += 1;
    }
    fn sender_lost(&mut self, _: ProcessName, error: weft::Error) {
        panic!("{error}");
    }
    fn peer_lost(&mut self, _: PeerIndex, error: weft::Error) {
        panic!("the peer is lost: {error}");
    }
}

struct ThroughLane {
    lane: OfiLane,
    counter: Counter,
}

impl ThroughLane {
    fn poll(&mut self) {
        self.lane.poll(&mut self.counter).expect("polling works");
        if self.lane.sleeps_early() {
            std::thread::yield_now();
        }
    }
}

impl Side for ThroughLane {
    fn send(&mut self, bytes: &[u8]) {
        let (header, payload) = bytes.split_at(40.min(bytes.len()));
        loop {
            // SAFETY: small messages are copied; longer ones are waited for below, while `bytes` lives.
            match unsafe { self.lane.send(PeerIndex::new(1), header, Piece::of(payload), 1) }
                .expect("sending works")
            {
                Sent::Done => return,
                Sent::Again => self.poll(),
                Sent::Pending => break,
            }
        }
        while self.counter.completed == 0 {
            self.poll();
        }
        self.counter.completed = 0;
    }

    fn receive(&mut self) {
        while self.counter.messages == 0 {
            self.poll();
        }
        self.counter.messages -= 1;
    }

    fn read(&mut self, key: &[u8], into: &mut [u8]) {
        let key = RemoteKey(key.to_vec());
        loop {
            // SAFETY: the completion is waited for below, while `into` lives.
            let sent = unsafe {
                self.lane
                    .read(PeerIndex::new(1), &key, 0, &[Piece::of_mut(into)], 1)
            };
            match sent.expect("reading works") {
                Sent::Done => return,
                Sent::Again => self.poll(),
                Sent::Pending => break,
            }
        }
        while self.counter.completed == 0 {
            self.poll();
        }
        self.counter.completed = 0;
    }

    fn progress(&mut self) -> bool {
        self.poll();
        self.counter.messages > 0
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.trim().bytes().collect();
    let digit = |byte: u8| (byte as char).to_digit(16).expect("hex digits") as u8;
    digits
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

struct Options {
    provider: String,
    bytes: usize,
    rounds: usize,
    descriptor: bool,
    child: bool,
}

fn options() -> Options {
    let mut options = Options {
        provider: "tcp;ofi_rxm".into(),
        bytes: 48,
        rounds: 20,
        descriptor: false,
        child: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            arguments
                .next()
                .and_then(|text| text.parse().ok())
                .expect("a number follows")
        };
        match argument.as_str() {
            "--bytes" => options.bytes = number(),
            "--rounds" => options.rounds = number(),
            "--descriptor" => options.descriptor = true,
            "--child" => options.child = true,
            "--bench" => {}
            provider => options.provider = provider.into(),
        }
    }
    options
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let options = options();
    let mut child = (!options.child).then(|| {
        Command::new(std::env::current_exe().expect("this program has a path"))
            .args([&options.provider, "--bytes", &options.bytes.to_string()])
            .args(["--rounds", &options.rounds.to_string(), "--child"])
            .args(options.descriptor.then_some("--descriptor"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts again")
    });
    let (mut to, mut from): (Box<dyn Write>, Box<dyn BufRead>) = match &mut child {
        Some(child) => (
            Box::new(child.stdin.take().expect("piped")),
            Box::new(BufReader::new(child.stdout.take().expect("piped"))),
        ),
        None => (
            Box::new(std::io::stdout()),
            Box::new(BufReader::new(std::io::stdin())),
        ),
    };
    let mut exchange = |ours: &[u8]| {
        writeln!(to, "{}", hex(ours))
            .and_then(|()| to.flush())
            .expect("the other process listens");
        let mut line = String::new();
        from.read_line(&mut line).expect("the other process answers");
        unhex(&line)
    };

    let settings = Settings::read(|name| (name == "WEFT_PROVIDER").then(|| options.provider.clone()))
        .expect("the settings are good");
    let bulk = vec![7u8; BULK];
    let mut lane = OfiLane::open(&settings, true, true, &Ledger::default()).expect("the lane opens");
    let address = exchange(&lane.address());
    lane.connect(PeerIndex::new(1), &address)
        .expect("the address is good");
    let rma = lane.limits().rma;
    // SAFETY: `bulk` outlives the lane's use.
    let (_, key) = unsafe { lane.register(&[Piece::of(&bulk)]) }.expect("registering works");
    let lane_key = exchange(&key.0);

    let info = weft::system::fabric::select::choose(&settings, true).expect("the provider is there");
    let mut raw = bare::Bare::open(&info.info, lane.limits().message, options.descriptor);
    let address = exchange(&raw.name());
    raw.connect(&address);
    let bare_key = exchange(&raw.register(&bulk));

    let mut sides: [(Box<dyn Side>, Vec<u8>, &str); 2] = [
        (Box::new(raw), bare_key, "bare libfabric"),
        (
            Box::new(ThroughLane {
                lane,
                counter: Counter::default(),
            }),
            lane_key,
            "the ofi lane",
        ),
    ];
    let message = vec![1u8; options.bytes];
    let mut into = vec![0u8; BULK];
    let mut times = [Vec::new(), Vec::new()];
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..options.rounds {
        for (which, (side, key, _)) in sides.iter_mut().enumerate() {
            if options.child {
                for _ in 0..ITERATIONS {
                    side.receive();
                    side.send(&message);
                }
                // The parent reads, and says when it is done.
                while !side.progress() {}
                side.receive();
                side.send(&message);
            } else {
                for _ in 0..ITERATIONS {
                    let start = Instant::now();
                    side.send(&message);
                    side.receive();
                    // The first round connects and warms up.
                    if round > 0 {
                        times[which].push(start.elapsed().as_secs_f64() * 1e6 / 2.0);
                    }
                }
                if rma {
                    let start = Instant::now();
                    for _ in 0..READS {
                        side.read(key, &mut into);
                    }
                    if round > 0 {
                        rates[which].push((READS * BULK) as f64 / start.elapsed().as_secs_f64() / 1e9);
                    }
                }
                side.send(&message);
                side.receive();
            }
        }
    }
    if let Some(mut child) = child {
        assert!(into == bulk || !rma);
        println!(
            "{}, {} bytes, {} round trips each",
            options.provider,
            options.bytes,
            times[0].len()
        );
        for which in 0..2 {
            let rate = if rma {
                format!("{:.2} GB/s", median(&mut rates[which]))
            } else {
                "none".into()
            };
            println!(
                "  {:15} {:.3} us one way (median); 1 MiB remote reads {rate}",
                sides[which].2,
                median(&mut times[which])
            );
        }
        drop(sides);
        child.wait().expect("the other process ends");
    }
}
