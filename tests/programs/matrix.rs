//! The programs over shared memory and over the providers, with several numbers of ranks.
//!
//! A program about communicators needs one transport, one about the transport needs each: so all programs run over Weft's own
//! shared memory, where a process starts in milliseconds, and those with [`Program::transport`] also over every other way, with few
//! ranks. `WEFT_TEST_MATRIX=full` runs all of them over all ways with all numbers of ranks (`ci/soak.d/matrix`).

use std::sync::OnceLock;

use libtest_mimic::Trial;

use crate::Outcome;
use crate::build;
use crate::job::{Job, repeat};

/// The numbers of ranks: one, pairs, odd ones, and more than a small machine has cores.
const RANKS: &[u32] = &[1, 2, 3, 4, 5, 8];

/// Of those, what the gate runs over ways that are slow to start: each process that opens libfabric 1.17 takes a third of a second
/// before it does anything. Three, where a program runs with so many: pairs find less.
const FEW_RANKS: &[u32] = &[3, 2];

/// Whether the whole matrix is asked for.
pub fn full() -> bool {
    std::env::var_os("WEFT_TEST_MATRIX").is_some_and(|value| value == "full")
}

/// A program of `tests/c`, with its arguments, and where it is run.
struct Program {
    name: &'static str,
    arguments: &'static [&'static str],
    ranks: &'static [u32],
    /// Not over those, for the reason given.
    not_over: &'static [(&'static str, &'static str)],
    /// Over that provider it does less (`WEFT_TEST_BRIEF`) with more ranks than so many.
    brief_above: Option<(&'static str, u32)>,
    /// What it tests depends on what carries the messages.
    transport: bool,
}

impl Program {
    const fn transport(self) -> Program {
        Program {
            transport: true,
            ..self
        }
    }
}

const fn program(name: &'static str, arguments: &'static [&'static str], ranks: &'static [u32]) -> Program {
    Program {
        name,
        arguments,
        ranks,
        not_over: &[],
        brief_above: None,
        transport: false,
    }
}

/// With 8 ranks on 2 cores the whole of it takes more than a minute over `sockets`, whose own threads wait for the cores that
/// ranks have. What these programs are about is not the transport.
const fn slow_over_sockets(name: &'static str) -> Program {
    Program {
        name,
        arguments: &[],
        ranks: RANKS,
        not_over: &[],
        brief_above: Some(("sockets", 4)),
        transport: false,
    }
}

/// Seen with 1.17 in `session_threads` and in `sessions` with 8 ranks, once in many runs. Concerns all programs that end with a
/// session of several processes; with `MPI_Finalize` the launcher's fence keeps each process until all are through.
const UNACKNOWLEDGED: &str = "a process that has exited acknowledges nothing: ofi_rxd waits forever for the word that its last message came";

const SLOW: &str = "it moves less than 0.5 GB/s: this would take minutes";
/// Why messages of gigabytes go over one provider, and over Weft's own shared memory.
const ENOUGH: &str = "half a minute each, on the same path as over net: one provider is enough";

const PROGRAMS: &[Program] = &[
    program("sizes", &[], RANKS).transport(),
    program("received", &[], &[2, 3]).transport(),
    program("synchronous", &[], RANKS).transport(),
    program("ordering", &[], RANKS).transport(),
    program("probe", &[], RANKS).transport(),
    Program {
        arguments: &["7"],
        ranks: &[1, 2, 3, 5, 8],
        transport: true,
        ..slow_over_sockets("random")
    },
    program("ring", &[], RANKS),
    program("completion", &[], RANKS),
    program("truncation", &[], RANKS).transport(),
    program("layouts", &[], RANKS).transport(),
    Program {
        ranks: &[1, 2, 3],
        transport: true,
        ..slow_over_sockets("scattered")
    },
    program("datatypes", &[], &[1]),
    program("fortran_types", &[], &[1]),
    program("communicators", &[], RANKS),
    program("topologies", &[], RANKS),
    program("graphs", &[], RANKS),
    program("reorder", &[], RANKS),
    slow_over_sockets("neighbourhood").transport(),
    program("neighbour_forms", &[], &[1, 2, 3, 5, 8]),
    program("removed", &[], &[1]),
    program("idup", &[], &[1, 2, 5]),
    program("mixed", &[], &[1, 2, 3, 5]),
    program("split_type", &[], &[1, 3, 4]),
    slow_over_sockets("operations"),
    program("user_ops", &[], RANKS),
    slow_over_sockets("collectives"),
    program("shared_collectives", &["1", "300"], &[2, 3, 4, 5, 8]),
    slow_over_sockets("intercomm"),
    program("persistent_collectives", &[], RANKS),
    Program {
        arguments: &["10", "7"],
        transport: true,
        ..slow_over_sockets("many_collectives")
    },
    Program {
        arguments: &["8", "3", "threads"],
        ..slow_over_sockets("many_collectives")
    },
    program("outstanding", &[], RANKS).transport(),
    program("self", &[], RANKS),
    program("cancel", &[], RANKS).transport(),
    program("persistent", &[], RANKS),
    Program {
        ranks: &[1, 2, 3, 5],
        ..slow_over_sockets("partitioned")
    },
    program("generalized", &[], &[1, 3]),
    program("buffered", &[], RANKS),
    program("buffered", &["finalize", "8"], RANKS),
    program("buffered", &["finalize", "1000000"], RANKS).transport(),
    program("buffered", &["automatic", "1000000"], &[1, 2, 3]),
    program("late", &[], RANKS).transport(),
    slow_over_sockets("threads"),
    program("errors", &[], RANKS),
    program("arguments", &[], &[1, 2, 3]),
    program("error_codes", &[], RANKS),
    program("attributes", &[], RANKS),
    program("attribute_callbacks", &[], RANKS),
    Program {
        ranks: &[1, 2, 3, 5],
        not_over: &[("udp;ofi_rxd", UNACKNOWLEDGED)],
        ..slow_over_sockets("windows")
    },
    Program {
        ranks: &[1, 2, 3, 5],
        ..slow_over_sockets("window_memory")
    },
    Program {
        ranks: &[1, 2, 3, 5],
        not_over: &[("udp;ofi_rxd", UNACKNOWLEDGED)],
        ..slow_over_sockets("files")
    },
    Program {
        ranks: &[1, 2, 3, 5],
        ..slow_over_sockets("file_errors")
    },
    program("at_finalize", &["order"], RANKS),
    program("at_finalize", &["fails"], RANKS),
    Program {
        not_over: &[("udp;ofi_rxd", UNACKNOWLEDGED)],
        ..program("at_finalize", &["sessions"], RANKS)
    },
    Program {
        not_over: &[("udp;ofi_rxd", UNACKNOWLEDGED)],
        ..program("sessions", &[], RANKS)
    },
    Program {
        not_over: &[("udp;ofi_rxd", UNACKNOWLEDGED)],
        ..program("session_sync", &[], &[3, 5, 8])
    },
    Program {
        not_over: &[("udp;ofi_rxd", UNACKNOWLEDGED)],
        ..slow_over_sockets("session_threads")
    },
    Program {
        not_over: &[("udp;ofi_rxd", UNACKNOWLEDGED)],
        ..program("session_late", &[], &[1, 2, 3, 8]).transport()
    },
    program("version", &[], RANKS),
    program("finalize", &["nothing"], RANKS),
    program("finalize", &["send", "8"], &[2, 3, 8]).transport(),
    program("finalize", &["send", "1000000"], &[2, 3]).transport(),
    program("finalize", &["isend", "30000"], &[2, 3]).transport(),
    program("finalize", &["freed", "8"], &[2, 3]),
    program("finalize", &["freed", "1000000"], &[2, 3]).transport(),
    program("finalize", &["cancelled", "0"], &[2, 3]),
    program("finalize", &["cancelled", "8"], &[1, 2, 3, 8]).transport(),
    program("finalize", &["cancelled", "1000000"], &[1, 2, 3]).transport(),
    program("finalize", &["crossed"], RANKS).transport(),
    program("finalize", &["late"], &[2, 5]).transport(),
    program("finalize", &["example", "8"], &[2, 3, 5, 8]).transport(),
    program("finalize", &["example", "1000000"], &[2, 3, 5, 8]).transport(),
    program("finalize", &["cannot_complete", "30000"], RANKS),
    program("finalize", &["freed_only", "8"], &[1, 2, 3, 5, 8]),
    program("finalize", &["freed_only", "300000"], &[1, 2, 3, 5, 8]),
    program("finalize", &["exchanged", "8"], &[1, 2, 3, 5, 8]),
    program("finalize", &["exchanged", "30000"], &[1, 2, 3, 5, 8]),
    program("finalize", &["exchanged", "300000"], &[1, 2, 3, 5, 8]).transport(),
    Program {
        not_over: &[("udp;ofi_rxd", UNACKNOWLEDGED)],
        ..program("finalize", &["session", "8"], &[1, 2, 3, 5, 8])
    },
    Program {
        not_over: &[("udp;ofi_rxd", UNACKNOWLEDGED)],
        ..program("finalize", &["session", "300000"], &[1, 2, 3, 5, 8]).transport()
    },
    program("finalize", &["nested"], RANKS),
    program("always", &[], RANKS),
    Program {
        name: "reverse",
        arguments: &["1000000"],
        ranks: &[2],
        not_over: &[("sockets", SLOW), ("udp;ofi_rxd", SLOW)],
        brief_above: None,
        transport: true,
    },
    program("stream", &[], &[2, 4]),
    program("reverse", &["20000"], &[1, 3]).transport(),
    Program {
        name: "huge",
        arguments: &[],
        ranks: &[2],
        not_over: &[
            ("sockets", SLOW),
            ("udp;ofi_rxd", SLOW),
            ("tcp;ofi_rxm", ENOUGH),
            ("shm", ENOUGH),
            (MIXED, ENOUGH),
        ],
        brief_above: None,
        transport: true,
    },
];

/// Left out unless `WEFT_TEST_RXD=1`, and with few ranks then: with 1.17 on a loaded machine it has lost a message, and a job hung
/// (see `docs/providers.md`). Nobody who has a choice runs jobs over it.
const UNRELIABLE: &str = "udp;ofi_rxd";
const UNRELIABLE_MOST: u32 = 3;

/// The providers of the matrix. What 1.17 calls `net` is `tcp` from 2.x on.
const PROVIDERS: &[&[&str]] = &[
    &["tcp;ofi_rxm"],
    &["net", "tcp"],
    &["sockets"],
    &["shm"],
    &["udp;ofi_rxd"],
];

/// What this machine's libfabric offers. Loading it takes a fifth of a second; under nextest each test is a process, and the first one
/// keeps the answer for the others of its run.
fn offered() -> &'static [String] {
    static OFFERED: OnceLock<Vec<String>> = OnceLock::new();
    OFFERED.get_or_init(|| match std::env::var("NEXTEST_RUN_ID") {
        Ok(run) => build::kept_for(&run, "offered", ask_libfabric).expect("a file for what libfabric offers"),
        Err(_) => ask_libfabric(),
    })
}

fn ask_libfabric() -> Vec<String> {
    let settings = weft::base::settings::Settings::read(|_| None).expect("defaults are valid");
    let survey =
        weft::system::fabric::select::survey(&settings, true).expect("libfabric lists its providers");
    survey.into_iter().map(|candidate| candidate.provider).collect()
}

/// The name of one provider of the matrix here, if it is offered.
fn available(names: &[&'static str]) -> Option<&'static str> {
    names
        .iter()
        .copied()
        .find(|&name| offered().iter().any(|offer| offer == name))
}

/// The best provider that every machine with libfabric has.
pub fn common() -> &'static str {
    available(&["net", "tcp"]).unwrap_or("tcp;ofi_rxm")
}

/// The providers of the matrix that are offered here.
pub fn providers() -> Vec<&'static str> {
    PROVIDERS
        .iter()
        .filter(|names| names[0] != UNRELIABLE || asks_for_unreliable())
        .filter_map(|names| available(names))
        .collect()
}

fn asks_for_unreliable() -> bool {
    std::env::var_os("WEFT_TEST_RXD").is_some_and(|value| value == "1")
}

/// Those whose large messages take another way without cross-memory attach.
const LARGE: &[&str] = &["sizes", "layouts", "cancel", "finalize", "reverse", "stream"];

/// Shared memory and libfabric together.
const MIXED: &str = "WEFT_LANES=shm,ofi WEFT_FAKE_NODES=2";

/// Weft's own shared memory, where processes start soonest.
const SHARED_MEMORY: &str = "WEFT_LANES=shm";

/// Weft's own shared memory: alone, without cross-memory attach, and together with libfabric between two pretended nodes; by all
/// programs or by those named.
const OVER_SHM: &[(&str, Option<&[&str]>)] = &[
    (SHARED_MEMORY, None),
    ("WEFT_LANES=shm WEFT_CMA=0", Some(LARGE)),
    (MIXED, None),
];

/// More ranks than any machine that this is tested on has cores, over shared memory: all programs but
/// [`NOT_WITH_MANY`], each in brief.
const MANY: u32 = 32;

/// Not with so many ranks: these move gigabytes between pairs, or every rank has a stream to each other one. That takes minutes
/// and finds nothing more.
const NOT_WITH_MANY: &[&str] = &["huge", "reverse", "stream"];
/// What the gate runs with so many ranks.
const MANY_IN_THE_GATE: &[&str] = &["sizes", "communicators", "session_sync", "threads"];

/// Too long for the gate, each some half a minute for each way: gigabytes, and a million messages.
const NOT_IN_THE_GATE: &[(&str, &[&str])] = &[("huge", &[]), ("reverse", &["1000000"])];

/// From so many ranks on programs do less in the gate.
const BRIEF_IN_THE_GATE: u32 = 8;

/// What is run with so many ranks.
fn takes_many(program: &Program) -> bool {
    match full() {
        true => !NOT_WITH_MANY.contains(&program.name),
        false => MANY_IN_THE_GATE.contains(&program.name),
    }
}

/// Whether the program runs this way: always in the full matrix; in the gate each over Weft's own shared memory, others only
/// if what they test depends on the way.
fn takes(program: &Program, way: &str) -> bool {
    let too_long = NOT_IN_THE_GATE.contains(&(program.name, program.arguments));
    full() || !too_long && (way == SHARED_MEMORY || program.transport)
}

/// With how many ranks a program runs this way.
fn ranks_over(program: &Program, way: &str) -> Vec<u32> {
    let ranks = program.ranks.iter().copied();
    if way == UNRELIABLE {
        ranks.filter(|&ranks| ranks <= UNRELIABLE_MOST).collect()
    } else if full() || way == SHARED_MEMORY {
        ranks.collect()
    } else {
        FEW_RANKS
            .iter()
            .copied()
            .find(|few| program.ranks.contains(few))
            .into_iter()
            .collect()
    }
}

/// Many threads of each rank at once, over Weft's own shared memory.
const THREADED: &[Program] = &[program("blocked", &[], RANKS), program("crowd", &[], &[1, 2, 3])];
/// The same over all other ways, in brief: how a waiting thread sleeps, and who wakes it, is another matter for each transport.
const THREADED_ELSEWHERE: &[u32] = &[2];

/// One test per program, arguments and way.
pub fn trials() -> Vec<Trial> {
    let mut ways = OVER_SHM.to_vec();
    for names in PROVIDERS {
        if available(names).is_none() {
            eprintln!("programs: libfabric offers no {} here: left out", names[0]);
        }
    }
    ways.extend(providers().into_iter().map(|provider| (provider, None)));
    if !asks_for_unreliable() {
        eprintln!(
            "programs: {UNRELIABLE} is left out, as it has lost a message; WEFT_TEST_RXD=1 runs the programs over it"
        );
    }
    let mut trials = Vec::new();
    for &(way, named) in &ways {
        let wanted = |program: &&Program| {
            named.is_none_or(|names| names.contains(&program.name)) && takes(program, way)
        };
        for program in PROGRAMS.iter().filter(wanted) {
            if let Some((_, why)) = program.not_over.iter().find(|(name, _)| *name == way) {
                eprintln!(
                    "programs: {} {:?} is left out over {way}: {why}",
                    program.name, program.arguments
                );
                continue;
            }
            let mut words = vec![program.name];
            words.extend(program.arguments);
            let name = format!("{}::{way}", words.join("_"));
            let ranks = ranks_over(program, way);
            if ranks.is_empty() {
                eprintln!(
                    "programs: {} {:?} is left out over {way}, which is run with other numbers of ranks",
                    program.name, program.arguments
                );
                continue;
            }
            trials.push(Trial::test(name, move || run(program, way, &ranks, false)));
        }
    }
    for program in PROGRAMS.iter().filter(|program| takes_many(program)) {
        let mut words = vec![program.name];
        words.extend(program.arguments);
        let name = format!("{}::{MANY} ranks", words.join("_"));
        trials.push(Trial::test(name, move || {
            run(program, SHARED_MEMORY, &[MANY], true)
        }));
    }
    for program in THREADED {
        for &(way, _) in &ways {
            let alone = way == SHARED_MEMORY;
            let ranks = if alone { program.ranks } else { THREADED_ELSEWHERE };
            let name = format!("{}::{way}", program.name);
            trials.push(Trial::test(name, move || run(program, way, ranks, !alone)));
        }
    }
    trials
}

fn run(program: &Program, way: &str, numbers: &[u32], brief: bool) -> Outcome {
    let path = build::program(program.name)?;
    for _ in 0..repeat() {
        for &ranks in numbers {
            let mut job = Job::new(&path, ranks).arguments(program.arguments).over(way);
            let slow = program
                .brief_above
                .is_some_and(|(over, most)| over == way && ranks > most);
            let gate = !full() && ranks >= BRIEF_IN_THE_GATE;
            if slow || brief || gate {
                job = job.env("WEFT_TEST_BRIEF", "1");
            }
            let ended = job.run()?;
            ended.is_well(program.name, ranks)?;
            // What a program left out, and its measurements.
            for line in ended.stdout.lines().filter(|line| line.starts_with("skipped:")) {
                eprintln!("{} over {way}: {line}", program.name);
            }
        }
    }
    Ok(())
}
