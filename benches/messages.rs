//! Messages between two processes, seen from a program's calls: latency by size and lane, message rate, and what it
//! costs to wake a peer that has waited for a while.
//!
//!     cargo bench --bench messages [-- FILTER]
//!
//! For each lane, and for each way to wait, this program starts two ranks of itself under `mpiexec`. Rank 0 has Criterion
//! and the clock; rank 1 does what rank 0 orders. `weft-bench` measures Weft beside other MPI libraries; this is for
//! comparing Weft with itself (`-- --save-baseline NAME`, `-- --baseline NAME`).

use std::ffi::{c_char, c_int, c_void};
use std::process::{Command, ExitCode};
use std::ptr;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use weft::abi::common::constants::{
    MPI_BYTE, MPI_COMM_WORLD, MPI_REQUEST_NULL, MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE, MPI_SUCCESS,
};
use weft::abi::common::types::{MPI_Comm, MPI_Datatype, MPI_Request, MPI_Status};
use weft::base::settings::Settings;

unsafe extern "C" {
    fn MPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int;
    fn MPI_Finalize() -> c_int;
    fn MPI_Comm_rank(comm: MPI_Comm, rank: *mut c_int) -> c_int;
    fn MPI_Send(
        buf: *const c_void,
        count: c_int,
        datatype: MPI_Datatype,
        dest: c_int,
        tag: c_int,
        comm: MPI_Comm,
    ) -> c_int;
    fn MPI_Recv(
        buf: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        source: c_int,
        tag: c_int,
        comm: MPI_Comm,
        status: *mut MPI_Status,
    ) -> c_int;
    fn MPI_Isend(
        buf: *const c_void,
        count: c_int,
        datatype: MPI_Datatype,
        dest: c_int,
        tag: c_int,
        comm: MPI_Comm,
        request: *mut MPI_Request,
    ) -> c_int;
    fn MPI_Irecv(
        buf: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        source: c_int,
        tag: c_int,
        comm: MPI_Comm,
        request: *mut MPI_Request,
    ) -> c_int;
    fn MPI_Waitall(count: c_int, requests: *mut MPI_Request, statuses: *mut MPI_Status) -> c_int;
}

/// Messages of a window of the message rate; each window is answered.
const WINDOW: usize = 64;
const SIZES: [usize; 4] = [8, 1 << 10, 64 << 10, 1 << 20];
/// How long the peer has waited when it is woken: the defaults make it spin, yield, sleep, and sleep again.
const PAUSES: [Duration; 4] = [
    Duration::from_micros(500),
    Duration::from_millis(3),
    Duration::from_millis(10),
    Duration::from_millis(50),
];
/// Names the job to the ranks that the parent starts.
const JOB: &str = "MESSAGES_BENCH_JOB";

/// One pair of processes.
struct Pair {
    name: &'static str,
    settings: &'static [(&'static str, &'static str)],
    /// Whether it is for the ways to wait, or for latency and rate.
    waits: bool,
}

const PAIRS: [Pair; 5] = [
    Pair {
        name: "shm",
        settings: &[("WEFT_LANES", "shm")],
        waits: false,
    },
    Pair {
        name: "net",
        settings: &[("WEFT_PROVIDER", "net")],
        waits: false,
    },
    Pair {
        name: "tcp;ofi_rxm",
        settings: &[("WEFT_PROVIDER", "tcp;ofi_rxm")],
        waits: false,
    },
    Pair {
        name: "spin, yield, sleep",
        settings: &[("WEFT_LANES", "shm"), ("WEFT_SPIN_US", "2000")],
        waits: true,
    },
    Pair {
        name: "yield, sleep",
        settings: &[("WEFT_LANES", "shm"), ("WEFT_SPIN_US", "0")],
        waits: true,
    },
];

/// What rank 0 orders.
#[derive(Clone, Copy)]
enum Measurement {
    End,
    /// Answer each message by one of the same size.
    Exchange,
    /// Take windows of messages, and answer each window.
    Stream,
}

fn ok(code: c_int) {
    assert_eq!(code, MPI_SUCCESS);
}

/// The calls of one rank to the other.
struct Side {
    peer: c_int,
    buffer: Vec<u8>,
}

impl Side {
    fn send(&self, bytes: usize) {
        // SAFETY: the buffer has so many bytes, and the call returns when it may be written again.
        ok(unsafe {
            MPI_Send(
                self.buffer.as_ptr().cast(),
                bytes as c_int,
                MPI_BYTE,
                self.peer,
                1,
                MPI_COMM_WORLD,
            )
        });
    }

    fn receive(&mut self, bytes: usize) {
        let buffer = self.buffer.as_mut_ptr().cast();
        // SAFETY: the buffer has room for so many bytes.
        ok(unsafe {
            MPI_Recv(
                buffer,
                bytes as c_int,
                MPI_BYTE,
                self.peer,
                1,
                MPI_COMM_WORLD,
                MPI_STATUS_IGNORE,
            )
        });
    }

    /// So many messages, window by window.
    fn stream(&mut self, bytes: usize, messages: usize, sends: bool) {
        let mut requests = [MPI_REQUEST_NULL; WINDOW];
        let mut left = messages;
        while left > 0 {
            let window = left.min(WINDOW);
            for (place, request) in requests[..window].iter_mut().enumerate() {
                let part = self.buffer[place * bytes..][..bytes].as_mut_ptr().cast();
                // SAFETY: each message has a part of the buffer of its own, left alone until MPI_Waitall.
                ok(unsafe {
                    if sends {
                        MPI_Isend(
                            part,
                            bytes as c_int,
                            MPI_BYTE,
                            self.peer,
                            2,
                            MPI_COMM_WORLD,
                            request,
                        )
                    } else {
                        MPI_Irecv(
                            part,
                            bytes as c_int,
                            MPI_BYTE,
                            self.peer,
                            2,
                            MPI_COMM_WORLD,
                            request,
                        )
                    }
                });
            }
            // SAFETY: so many requests, made above.
            ok(unsafe { MPI_Waitall(window as c_int, requests.as_mut_ptr(), MPI_STATUSES_IGNORE) });
            if sends {
                self.receive(1)
            } else {
                self.send(1)
            }
            left -= window;
        }
    }

    /// Rank 0: has rank 1 begin, and returns when it has.
    fn order(&mut self, kind: Measurement, bytes: usize, times: u64) {
        let words = [kind as u64, bytes as u64, times];
        for (place, word) in words.iter().enumerate() {
            self.buffer[place * 8..][..8].copy_from_slice(&word.to_ne_bytes());
        }
        self.send(24);
        self.receive(1);
    }

    /// Rank 1: does as it is told until the end.
    fn serve(&mut self) {
        loop {
            self.receive(24);
            let word = |place: usize| self.buffer[place * 8..][..8].try_into().map(u64::from_ne_bytes);
            let [kind, bytes, times] = [word(0), word(1), word(2)].map(|word| word.expect("8 bytes"));
            let bytes = bytes as usize;
            self.send(1);
            if kind == Measurement::End as u64 {
                return;
            } else if kind == Measurement::Stream as u64 {
                self.stream(bytes, times as usize, false);
            } else {
                for _ in 0..times {
                    self.receive(bytes);
                    self.send(bytes);
                }
            }
        }
    }

    /// The time of so many round trips, each after a pause.
    fn round_trips(&mut self, bytes: usize, times: u64, pause: Option<Duration>) -> Duration {
        self.order(Measurement::Exchange, bytes, times);
        let start = Instant::now();
        let mut paused = Duration::ZERO;
        for _ in 0..times {
            if let Some(pause) = pause {
                let begin = Instant::now();
                std::thread::sleep(pause);
                paused += begin.elapsed();
            }
            self.send(bytes);
            self.receive(bytes);
        }
        start.elapsed() - paused
    }
}

fn messages(c: &mut Criterion, pair: &Pair, side: &mut Side) {
    let mut group = c.benchmark_group("one way");
    group
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(50);
    for bytes in SIZES {
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::new(pair.name, bytes), |b| {
            b.iter_custom(|times| side.round_trips(bytes, times, None) / 2)
        });
    }
    group.finish();
    let mut group = c.benchmark_group("rate");
    group
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(50);
    group.throughput(Throughput::Elements(1));
    group.bench_function(BenchmarkId::new(pair.name, 8), |b| {
        b.iter_custom(|times| {
            side.order(Measurement::Stream, 8, times);
            let start = Instant::now();
            side.stream(8, times as usize, true);
            start.elapsed()
        })
    });
    group.finish();
}

/// Round trips of 8 bytes: at once, and to a peer that has waited.
fn waits(c: &mut Criterion, pair: &Pair, side: &mut Side) {
    let mut group = c.benchmark_group("waiting");
    group
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .sample_size(20)
        .sampling_mode(SamplingMode::Flat);
    for pause in [None].into_iter().chain(PAUSES.map(Some)) {
        let after = pause.map_or("at once".into(), |pause| format!("after {pause:?}"));
        group.bench_function(BenchmarkId::new(pair.name, after), |b| {
            b.iter_custom(|times| side.round_trips(8, times, pause))
        });
    }
    group.finish();
}

/// A rank of the pair.
fn rank(pair: &Pair) {
    let mut rank = -1;
    // SAFETY: null stands for no arguments; there is a place for the rank.
    ok(unsafe { MPI_Init(ptr::null_mut(), ptr::null_mut()) });
    // SAFETY: as above.
    ok(unsafe { MPI_Comm_rank(MPI_COMM_WORLD, &mut rank) });
    let mut side = Side {
        peer: 1 - rank,
        buffer: vec![1; SIZES[SIZES.len() - 1]],
    };
    if rank == 0 {
        let mut criterion = Criterion::default().configure_from_args();
        if pair.waits {
            waits(&mut criterion, pair, &mut side);
        } else {
            messages(&mut criterion, pair, &mut side);
        }
        side.order(Measurement::End, 0, 0);
        criterion.final_summary();
    } else {
        side.serve();
    }
    // SAFETY: nothing of MPI is used after it.
    ok(unsafe { MPI_Finalize() });
}

/// Whether the pair's provider, if it names one, is there.
fn available(pair: &Pair) -> weft::Result<()> {
    let lookup = |name: &str| {
        pair.settings
            .iter()
            .find(|(set, _)| *set == name)
            .map(|(_, value)| value.to_string())
    };
    let settings = Settings::read(lookup)?;
    match settings.provider {
        Some(_) => weft::system::fabric::select::choose(&settings, true).map(|_| ()),
        None => Ok(()),
    }
}

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(JOB) {
        let pair = PAIRS.iter().find(|pair| pair.name == name);
        rank(pair.expect("the parent names one of the pairs"));
        return ExitCode::SUCCESS;
    }
    let mut failed = false;
    for pair in &PAIRS {
        if let Err(error) = available(pair) {
            eprintln!("{} is left out: {error}", pair.name);
            continue;
        }
        let status = Command::new(env!("CARGO_BIN_EXE_mpiexec"))
            .args(["-n", "2"])
            .arg(std::env::current_exe().expect("this program has a path"))
            .args(std::env::args().skip(1))
            .envs(pair.settings.iter().copied())
            .env(JOB, pair.name)
            .status()
            .expect("mpiexec starts");
        if !status.success() {
            eprintln!("the ranks over {} ended with {status}", pair.name);
            failed = true;
        }
    }
    ExitCode::from(u8::from(failed))
}
