//! The lane over each provider of libfabric that needs no hardware.

use super::*;
use crate::lane::conformance::{self, Pair};

fn settings(provider: &str) -> Settings {
    Settings::read(|name| match name {
        "WEFT_PROVIDER" => Some(provider.to_string()),
        "WEFT_EMULATED_ATOMICS" => Some("1".into()),
        "WEFT_WINDOWS" => Some("rdma".into()),
        _ => None,
    })
    .unwrap()
}

fn open(provider: &str) -> OfiLane {
    open_spinning(provider, false)
}

fn open_spinning(provider: &str, spins: bool) -> OfiLane {
    OfiLane::open(&settings(provider), true, spins, &Ledger::default()).unwrap()
}

fn conforms(provider: &str) {
    conformance::run(|| [open(provider), open(provider)]);
}

#[test]
fn tcp_rxm_conforms() {
    conforms("tcp;ofi_rxm");
}

#[test]
fn tcp_conforms() {
    conforms(over_tcp()[1]);
}

#[test]
fn sockets_conforms() {
    conforms("sockets");
}

#[test]
fn shm_conforms() {
    // That of libfabric 2.x can't talk within one process: `other_process` has its test.
    if crate::system::fabric::version().unwrap() < (2, 0) {
        conforms("shm");
    }
}

#[test]
fn what_a_killed_process_with_the_same_id_left_is_not_in_the_way_of_shm() {
    // Under the provider's own names these make fi_enable fail with EBUSY, as this process lives.
    let uid = nix::unistd::getuid();
    let left: Vec<_> = (0..64)
        .map(|number| format!("/dev/shm/{}:{uid}:{number}", std::process::id()))
        .filter(|path| std::fs::File::create_new(path).is_ok())
        .collect();
    let lane = OfiLane::open(&settings("shm"), true, false, &Ledger::default());
    for path in left {
        std::fs::remove_file(path).unwrap();
    }
    lane.unwrap();
}

#[test]
fn udp_rxd_conforms() {
    conforms("udp;ofi_rxd");
}

#[test]
fn registered_buffers_work_as_well() {
    // No provider here asks for FI_MR_LOCAL, so the lane is told to register all the same.
    let open = || {
        let settings = settings("tcp;ofi_rxm");
        let info = select::choose(&settings, true).unwrap();
        OfiLane::open_info(info, &settings, true, false, &Ledger::default()).unwrap()
    };
    conformance::run(|| [open(), open()]);
    // The buffers that messages are sent from are a region, each receive buffer is one, and all have their descriptors.
    let lane = open();
    assert_eq!(lane.own_regions.len(), 1 + lane.receives.count());
    let descriptor = lane.own_regions[0].descriptor();
    assert!(!descriptor.is_null());
    assert_eq!(lane.operations.descriptor(), descriptor);
}

#[test]
fn a_read_that_is_over_leaves_no_region() {
    let open = || {
        let settings = settings("tcp;ofi_rxm");
        let info = select::choose(&settings, true).unwrap();
        OfiLane::open_info(info, &settings, true, false, &Ledger::default()).unwrap()
    };
    let mut pair = Pair::new([open(), open()]);
    let source = conformance::pattern(3, 1 << 16);
    // SAFETY: source and targets outlive the lanes' use of them.
    let (region, key) = unsafe { pair.lanes[1].register(&[Piece::of(&source)]) }.unwrap();
    let before = pair.lanes[0].registrar.held();
    for count in 1..=3 {
        let mut target = vec![0u8; 1 << 16];
        let pieces: Vec<_> = target
            .chunks_mut((1 << 16) / count + 1)
            .map(Piece::of_mut)
            .collect();
        let start = Instant::now();
        // SAFETY: as above.
        while unsafe { pair.lanes[0].read(PeerIndex::new(1), &key, 0, &pieces, count as u64) }.unwrap()
            == Sent::Again
        {
            pair.poll();
            assert!(start.elapsed() < Duration::from_secs(20));
        }
        assert_eq!(pair.lanes[0].registrar.held(), before + count);
        pair.poll_until("a read", |pair| pair.logs[0].completed.len() == count);
        assert!(target == source);
        assert_eq!(pair.lanes[0].registrar.held(), before);
    }
    pair.lanes[1].deregister(region);
    assert_eq!(pair.lanes[1].registrar.held(), 0);
}

#[test]
fn payloads_that_cannot_be_registered_are_copied() {
    // A lane that sends payloads in place.
    let provider = over_tcp()[1];
    let open = || {
        let settings = settings(provider);
        let info = select::choose(&settings, true).unwrap();
        let mut lane = OfiLane::open_info(info, &settings, true, false, &Ledger::default()).unwrap();
        lane.registrar.registers_one_in = Some(3);
        lane
    };
    let mut pair = Pair::new([open(), open()]);
    let limits = pair.lanes[0].limits;
    let sizes = [limits.buffered - 39, limits.message - 41, limits.message - 40];
    let payloads: Vec<_> = (0..90)
        .map(|number| conformance::pattern(number, sizes[(number + number / 60) % 3]))
        .collect();
    let mut pending = 0;
    for (number, payload) in payloads.iter().enumerate() {
        let sent = pair.send(0, payload, number as u64);
        pending += usize::from(sent == Sent::Pending);
    }
    // A payload that can be registered is sent in place.
    assert!((1..payloads.len()).contains(&pending), "{pending}");
    pair.poll_until("ninety messages", |pair| {
        pair.logs[1].messages.len() == payloads.len() && pair.logs[0].completed.len() == pending
    });
    for (message, payload) in pair.logs[1].messages.iter().zip(&payloads) {
        assert!(message[40..] == payload[..]);
    }
    assert!(pair.logs[0].lost.is_empty() && pair.logs[0].completed.iter().all(|(_, result)| result.is_ok()));
    pair.poll_until("draining", |pair| pair.lanes[0].is_drained());
}

/// An address of the lane's provider at which nobody listens.
fn address_of_nobody(lane: &OfiLane) -> Vec<u8> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let mut name = lane.own_name.clone();
    name[2..4].copy_from_slice(&port.to_be_bytes());
    peers::encode(&lane.provider, lane.info.address_format(), lane.secret, &name)
}

/// The names of the providers over TCP that this libfabric has: what 1.17 calls `net` is `tcp` from 1.18 on.
fn over_tcp() -> [&'static str; 2] {
    let old = crate::system::fabric::version().unwrap() < (1, 18);
    ["tcp;ofi_rxm", if old { "net" } else { "tcp" }]
}

#[test]
fn a_setting_says_when_a_late_contact_is_told() {
    for (seconds, expected) in [("0", None), ("1", Some(1)), ("90", Some(90))] {
        let settings = Settings::read(|name| match name {
            "WEFT_PROVIDER" => Some("tcp;ofi_rxm".into()),
            "WEFT_CONTACT_REPORT_S" => Some(seconds.into()),
            _ => None,
        });
        let lane = OfiLane::open(&settings.unwrap(), true, false, &Ledger::default()).unwrap();
        assert_eq!(lane.report_after, expected.map(Duration::from_secs));
    }
}

#[test]
fn where_nobody_listens_the_address_is_told_and_the_peer_is_lost() {
    for provider in over_tcp() {
        let mut lane = open(provider);
        lane.report_after = Some(Duration::from_millis(20));
        lane.attempt_after = Duration::from_millis(20);
        let mut told = Vec::new();
        let address = address_of_nobody(&lane);
        lane.connect(PeerIndex::new(5), &address).unwrap();
        let place = lane.place(PeerIndex::new(5)).unwrap();
        let mut log = conformance::Log::default();
        let start = std::time::Instant::now();
        let words = loop {
            // SAFETY: the message is short enough to be copied.
            match unsafe { lane.send(PeerIndex::new(5), &[1; 40], Piece::EMPTY, 1) } {
                Ok(Sent::Again) => match lane.late(PeerIndex::new(5)) {
                    Some(Late::Lost(error)) => break error.message.into_owned(),
                    Some(Late::Tell(words)) => told.push(words),
                    None => {}
                },
                // What the provider itself says.
                Ok(_) if !log.lost.is_empty() => break log.lost.remove(0).1.message.into_owned(),
                Ok(_) => {}
                Err(error) => break error.message.into_owned(),
            }
            lane.poll(&mut log).unwrap();
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{provider}: no word in time"
            );
        };
        assert!(told.len() <= 1, "{provider}: it is told once, and not {told:?}");
        for words in told.iter().chain([&words]) {
            assert!(
                words.contains("process 5") && place.contains(':') && words.contains(&place),
                "{provider}: {words}"
            );
        }
    }
}

#[test]
fn a_peer_whose_file_is_not_in_dev_shm_is_lost() {
    let mut lane = open("shm");
    let name = b"fi_shm://weft-1-0123456789abcdef:0:0\0";
    let address = peers::encode("shm", lane.info.address_format(), lane.secret, name);
    lane.connect(PeerIndex::new(5), &address).unwrap();
    let own = lane.address();
    lane.connect(PeerIndex::new(6), &own).unwrap();
    for peer in [5, 6] {
        let peer = PeerIndex::new(peer);
        lane.again(peer);
        lane.attempt_after = Duration::from_secs(1);
        assert_eq!(lane.late(peer), None, "it has not been tried for long");
        lane.attempt_after = Duration::ZERO;
        match lane.late(peer) {
            Some(Late::Lost(error)) if peer.number() == 5 => {
                assert!(error.message.contains("/dev/shm: "), "{error}");
            }
            None if peer.number() == 6 => {}
            other => panic!("process {}: {other:?}", peer.number()),
        }
    }
}

#[test]
fn a_peer_that_calls_nothing_for_long_is_told_of_and_not_lost() {
    for provider in over_tcp() {
        let mut pair = Pair::new([open(provider), open(provider)]);
        // However long it takes, it is longer than this.
        pair.lanes[0].report_after = Some(Duration::ZERO);
        pair.lanes[0].attempt_after = Duration::ZERO;
        let mut told = Vec::new();
        let mut sent = Sent::Again;
        // Without the other side only the first connection is made.
        for _ in 0..1000 {
            // SAFETY: the message is copied.
            sent = unsafe { pair.lanes[0].send(PeerIndex::new(1), &[7; 40], Piece::EMPTY, 1) }.unwrap();
            if sent == Sent::Done {
                break;
            }
            told.extend(pair.lanes[0].late(PeerIndex::new(1)));
            let Pair { lanes, logs, .. } = &mut pair;
            lanes[0].poll(&mut logs[0]).unwrap();
        }
        assert_eq!((sent, told.len()), (Sent::Again, 1), "{provider}: {told:?}");
        pair.send(0, &[], 1);
        pair.poll_until("the first message", |pair| !pair.logs[1].messages.is_empty());
        assert!(pair.logs.iter().all(|log| log.lost.is_empty()), "{provider}");
    }
}

#[test]
fn a_peer_that_is_gone_is_noticed() {
    let provider = "tcp;ofi_rxm";
    let (mut lane, mut log) = left_alone(provider);
    let payload = vec![3; lane.limits().message - 40];
    let start = std::time::Instant::now();
    // Sooner or later a send fails.
    // SAFETY: the payload outlives the lane.
    while unsafe { lane.send(PeerIndex::new(1), &[1; 40], Piece::of(&payload), 1) }.is_ok() {
        lane.poll(&mut log).unwrap();
        if !log.lost.is_empty() || log.completed.iter().any(|(_, result)| result.is_err()) {
            break;
        }
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{provider}: the loss is never noticed"
        );
    }
    drop(lane);
}

#[test]
fn tcp_says_again_when_a_peer_is_gone() {
    // It (`net` of 1.17) tries to connect anew forever and reports nothing, so the launcher has to notice the death. The
    // lane must neither report messages as sent without end, nor hang when it closes.
    let (mut lane, mut log) = left_alone(over_tcp()[1]);
    let start = std::time::Instant::now();
    // SAFETY: the message is copied.
    while unsafe { lane.send(PeerIndex::new(1), &[1; 40], Piece::of(&[2; 8]), 1) } == Ok(Sent::Done) {
        lane.poll(&mut log).unwrap();
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "messages to nobody are still taken"
        );
    }
    drop(lane);
}

/// A lane whose peer has closed after a first message.
fn left_alone(provider: &str) -> (OfiLane, conformance::Log) {
    let mut pair = Pair::new([open(provider), open(provider)]);
    pair.send(0, &[1; 8], 1);
    pair.poll_until("a message", |pair| !pair.logs[1].messages.is_empty());
    let Pair {
        lanes: [lane, other],
        logs: [log, _],
        ..
    } = pair;
    drop(other);
    (lane, log)
}

#[test]
fn unauthenticated_senders_of_junk_change_nothing() {
    use std::io::Write;
    // Not `sockets`: in 1.17 such junk stops its thread for good, whatever this side does.
    for provider in over_tcp() {
        let mut pair = Pair::new([open(provider), open(provider)]);
        pair.send(0, &[1; 8], 1);
        pair.poll_until("a message", |pair| !pair.logs[1].messages.is_empty());
        pair.logs[1].messages.clear();
        let address = crate::system::fabric::socket_address(&pair.lanes[1].own_name).unwrap();
        let mut senders = Vec::new();
        for junk in [
            vec![],
            vec![0],
            vec![0xff; 7],
            vec![0x55; 4096],
            conformance::pattern(1, 100_000),
        ] {
            let mut sender = std::net::TcpStream::connect(address).unwrap();
            sender.set_nonblocking(true).unwrap();
            // It does not matter how much of it the other side takes.
            let _ = sender.write(&junk);
            senders.push(sender);
            for _ in 0..100 {
                pair.poll();
            }
        }
        senders.truncate(2);
        for number in 0..100u8 {
            pair.send(0, &[number; 100], 1);
        }
        pair.poll_until("messages after junk", |pair| pair.logs[1].messages.len() == 100);
        assert!(
            pair.logs[1]
                .messages
                .iter()
                .enumerate()
                .all(|(at, one)| one[40..] == [at as u8; 100])
        );
    }
}

#[test]
fn a_sleeping_lane_is_woken() {
    let tcp = over_tcp()[1];
    let ways = [
        ("tcp;ofi_rxm", false),
        (tcp, false),
        ("sockets", false),
        ("tcp;ofi_rxm", true),
        (tcp, true),
    ];
    for (provider, spins) in ways {
        let mut pair = Pair::new([open_spinning(provider, spins), open_spinning(provider, spins)]);
        // Where waits spin, the queue has no descriptor, and that of `tcp` (`net`) is of no use: there the process sleeps on the sockets.
        let queue = provider == "sockets" || provider == "tcp;ofi_rxm" && !spins;
        assert_eq!(pair.lanes[1].can_sleep(), queue, "{provider}");
        let none = pair.lanes[1].sockets.is_none();
        assert_eq!(none, queue && provider != "sockets", "{provider}");
        pair.send(0, &[1; 8], 1);
        pair.poll_until("a message", |pair| !pair.logs[1].messages.is_empty());
        pair.logs[1].messages.clear();
        // Quiet: the lane gives its descriptor, which is not readable for long.
        let start = std::time::Instant::now();
        let descriptor = loop {
            pair.poll();
            if let Some(descriptor) = pair.lanes[1].arm() {
                break descriptor;
            }
            assert!(
                start.elapsed() < Duration::from_secs(5),
                "{provider}: never quiet"
            );
        };
        let readable = |milliseconds: i32| {
            let mut poll = libc::pollfd {
                fd: descriptor,
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one entry, valid during the call.
            unsafe { libc::poll(&mut poll, 1, milliseconds) == 1 }
        };
        assert!(!readable(20), "{provider}: woken by nothing");
        // A message wakes it.
        // SAFETY: the message is copied.
        let sent = unsafe { pair.lanes[0].send(PeerIndex::new(1), &[2; 40], Piece::EMPTY, 1) };
        assert_eq!(sent, Ok(Sent::Done), "{provider}");
        assert!(readable(5000), "{provider}: the message did not wake the sleeper");
        let start = std::time::Instant::now();
        while pair.logs[1].messages.is_empty() {
            let Pair { lanes, logs, .. } = &mut pair;
            lanes[1].poll(&mut logs[1]).unwrap();
            assert!(
                start.elapsed() < Duration::from_secs(5),
                "{provider}: woken, and no message"
            );
        }
    }
}

#[test]
fn it_is_known_whether_something_is_registered() {
    let mut lane = open("tcp;ofi_rxm");
    assert!(!lane.is_registered());
    let bytes = [1u8; 8];
    // SAFETY: the bytes outlive the registration.
    let (region, _) = unsafe { lane.register(&[Piece::of(&bytes)]) }.unwrap();
    assert!(lane.is_registered());
    lane.deregister(region);
    assert!(!lane.is_registered());
}

#[test]
fn short_messages_are_waited_for_while_all_are_counted() {
    let mut pair = Pair::new([open("tcp;ofi_rxm"), open("tcp;ofi_rxm")]);
    pair.send(0, &[1; 8], 1);
    pair.poll_until("a message", |pair| !pair.logs[1].messages.is_empty());
    pair.poll_until("draining", |pair| pair.lanes[0].is_drained());
    for counts in [false, true, false] {
        pair.lanes[0].count_all(counts);
        pair.send(0, &[2; 8], 1);
        // Its completion is only seen by polling.
        assert_eq!(pair.lanes[0].is_drained(), !counts);
        pair.poll_until("draining", |pair| pair.lanes[0].is_drained());
    }
}

#[test]
fn settings_switch_remote_reads_off() {
    let values = [("WEFT_PROVIDER", "tcp;ofi_rxm"), ("WEFT_RMA", "0")];
    let settings = Settings::read(|name| {
        values
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.to_string())
    })
    .unwrap();
    let lane = OfiLane::open(&settings, true, false, &Ledger::default()).unwrap();
    assert_eq!(lane.name(), "ofi/tcp;ofi_rxm");
    assert!(!lane.limits().rma);
}

#[test]
fn a_peer_with_another_provider_is_told_so() {
    let mut lane = open("tcp;ofi_rxm");
    let other = open(over_tcp()[1]);
    let error = lane.connect(PeerIndex::new(1), &other.address()).unwrap_err();
    assert!(
        error.message.contains(&format!("'{}'", other.provider)) && error.message.contains("WEFT_PROVIDER"),
        "{error}"
    );
}

/// An operation that ends with an error of libfabric's.
fn failure(context: *mut std::ffi::c_void, code: i32) -> Failure {
    Failure {
        context,
        releases_buffer: false,
        error: CallError {
            call: "fi_cq_readerr",
            code,
            detail: String::new(),
        },
    }
}

#[test]
fn a_loss_is_told_once_and_each_operation_ends() {
    let mut lane = open("tcp;ofi_rxm");
    let address = address_of_nobody(&lane);
    for peer in [4, 5, 6] {
        lane.connect(PeerIndex::new(peer), &address).unwrap();
    }
    let mut log = conformance::Log::default();
    let mut fail = |lane: &mut OfiLane, operation: Operation, code| {
        let slot = lane.operations.next().unwrap();
        lane.operations.start(slot, operation);
        let failure = failure(lane.operations.context(slot), code);
        lane.fail(failure, &mut log).unwrap();
        assert!(lane.is_drained());
        (
            log.completed.drain(..).collect::<Vec<_>>(),
            log.lost.drain(..).collect::<Vec<_>>(),
        )
    };
    let lent = |peer, token| Operation::Lent {
        peer: PeerIndex::new(peer),
        token,
        region: None,
    };
    // What was copied counts as sent: whatever the error is, the peer is lost.
    let (completed, lost) = fail(
        &mut lane,
        Operation::Copied {
            peer: PeerIndex::new(4),
        },
        libc::EINVAL,
    );
    assert!(completed.is_empty() && lost[0].0 == PeerIndex::new(4) && lost.len() == 1);
    assert!(lost[0].1.message.contains("process 4 at "), "{}", lost[0].1);
    for _ in 0..2 {
        let (completed, lost) = fail(
            &mut lane,
            Operation::Copied {
                peer: PeerIndex::new(4),
            },
            libc::EINVAL,
        );
        assert!(completed.is_empty() && lost.is_empty());
    }
    let (completed, lost) = fail(&mut lane, lent(4, 70), libc::ECONNRESET);
    assert!(completed[0].0 == 70 && completed[0].1.is_err() && lost.is_empty());
    // What the engine waits for ends with the error; the peer is lost if that is what it says.
    let (completed, lost) = fail(&mut lane, lent(5, 71), libc::EINVAL);
    assert!(completed[0].0 == 71 && completed[0].1.is_err() && lost.is_empty());
    let (completed, lost) = fail(&mut lane, lent(5, 72), libc::ECONNRESET);
    assert!(completed[0].0 == 72 && lost.len() == 1 && lost[0].0 == PeerIndex::new(5));
    assert!(lost[0].1.message.contains("process 5 at "), "{}", lost[0].1);
    // A read that there is none of: of no peer.
    let (completed, lost) = fail(&mut lane, Operation::Transfer { transfer: 9 }, libc::ECONNRESET);
    assert!(completed.is_empty() && lost.is_empty());
}

#[test]
fn a_failed_read_is_of_the_peer_that_it_reads_from() {
    let provider = "tcp;ofi_rxm";
    let mut pair = Pair::new([open(provider), open(provider)]);
    let source = vec![7u8; 1 << 16];
    let mut target = vec![0u8; 1 << 16];
    // SAFETY: source and target outlive the lanes' use of them.
    let (region, key) = unsafe { pair.lanes[1].register(&[Piece::of(&source)]) }.unwrap();
    // A first message, so that they are connected.
    pair.send(0, &[1; 8], 1);
    pair.poll_until("a message", |pair| !pair.logs[1].messages.is_empty());
    pair.poll_until("draining", |pair| pair.lanes[0].is_drained());
    let lane = &mut pair.lanes[0];
    let slot = lane.operations.next().unwrap();
    // SAFETY: as above.
    let sent = unsafe { lane.read(PeerIndex::new(1), &key, 0, &[Piece::of_mut(&mut target)], 33) };
    assert_eq!(sent, Ok(Sent::Pending));
    let failure = failure(lane.operations.context(slot), libc::ECONNRESET);
    lane.fail(failure, &mut pair.logs[0]).unwrap();
    let log = &mut pair.logs[0];
    assert!(log.completed.len() == 1 && log.completed[0].0 == 33 && log.completed[0].1.is_err());
    assert!(log.lost.len() == 1 && log.lost[0].0 == PeerIndex::new(1));
    // The real completion, later, finds no operation.
    log.completed.clear();
    let start = Instant::now();
    while target[source.len() - 1] != 7 && start.elapsed() < Duration::from_secs(5) {
        pair.poll();
    }
    for _ in 0..100 {
        pair.poll();
    }
    assert!(target == source && pair.logs[0].completed.is_empty());
    pair.lanes[1].deregister(region);
}

#[test]
fn a_receive_that_fails_is_replaced_unless_the_endpoint_is_broken() {
    let mut lane = open(over_tcp()[1]);
    let mut log = conformance::Log::default();
    let context = |lane: &OfiLane| lane.receives.context_of(0);
    for code in [
        libc::ECONNRESET,
        libc::EIO,
        libc::ECANCELED,
        libc::EMSGSIZE,
        256,
        300,
    ] {
        let failure = failure(context(&lane), code);
        lane.fail(failure, &mut log).unwrap();
        assert!(!lane.receives.is_short());
    }
    for code in [libc::EBADF, libc::EINVAL, 255] {
        let failure = failure(context(&lane), code);
        let error = lane.fail(failure, &mut log).unwrap_err();
        assert!(error.message.contains("receiving over"), "{error}");
    }
    assert!(log.lost.is_empty() && log.completed.is_empty());
    // Contexts that this lane never handed out.
    lane.fail(failure(std::ptr::null_mut(), libc::EIO), &mut log)
        .unwrap();
    lane.complete(Completion::of_receive(std::ptr::null_mut(), None, true), &mut log)
        .unwrap();
    assert!(log.lost.is_empty() && log.completed.is_empty() && log.messages.is_empty());
}

#[test]
fn messages_share_buffers_where_the_tuning_says_so() {
    for provider in over_tcp() {
        let lane = open(provider);
        assert_eq!(
            lane.receives.are_shared(),
            Tuning::of(&lane.info).shares,
            "{provider}"
        );
    }
    // Behind whose shared buffers ofi_rxm writes: docs/providers.md.
    let old = crate::system::fabric::version().unwrap() < (1, 18);
    assert_eq!(open("tcp;ofi_rxm").receives.are_shared(), old);
}

#[test]
fn nobody_sleeps_while_an_operation_is_under_way() {
    // The process sleeps on its sockets, which do not report operations.
    let mut pair = Pair::new([0, 1].map(|_| open_spinning("tcp;ofi_rxm", true)));
    pair.send(0, &[1; 8], 1);
    pair.poll_until("a message", |pair| !pair.logs[1].messages.is_empty());
    pair.poll_until("quiet", |pair| {
        pair.lanes[0].is_drained() && pair.lanes[0].arm().is_some()
    });
    let lane = &mut pair.lanes[0];
    let slot = lane.operations.next().unwrap();
    lane.operations.start(
        slot,
        Operation::Copied {
            peer: PeerIndex::new(1),
        },
    );
    assert_eq!(lane.arm(), None);
    lane.operations.end(slot);
    assert!(lane.arm().is_some());
}

#[test]
fn a_read_of_many_parts_goes_on_when_there_is_room() {
    let provider = "tcp;ofi_rxm";
    let mut pair = Pair::new([open(provider), open(provider)]);
    let source = conformance::pattern(3, 10_000);
    // SAFETY: source and target outlive the lanes' use of them.
    let (region, key) = unsafe { pair.lanes[1].register(&[Piece::of(&source)]) }.unwrap();
    pair.send(0, &[1; 8], 1);
    pair.poll_until("a message", |pair| !pair.logs[1].messages.is_empty());
    pair.poll_until("draining", |pair| pair.lanes[0].is_drained());
    pair.lanes[0].transfers = Transfers::new(1000, 1);
    // Room for that many operations; ten are needed.
    for room in [1, 3, 9, 10, 11] {
        let lane = &mut pair.lanes[0];
        let mut taken = Vec::new();
        while let Some(slot) = lane.operations.next() {
            lane.operations.start(
                slot,
                Operation::Copied {
                    peer: PeerIndex::new(1),
                },
            );
            taken.push(slot);
        }
        for slot in taken.drain(taken.len() - room..) {
            lane.operations.end(slot);
        }
        let mut target = vec![0u8; source.len()];
        // SAFETY: as above.
        let sent = unsafe {
            lane.read(
                PeerIndex::new(1),
                &key,
                0,
                &[Piece::of_mut(&mut target)],
                room as u64,
            )
        };
        assert_eq!(sent, Ok(Sent::Pending));
        assert_eq!(lane.transfers.has_unissued(), room < 10, "{room}");
        if room < 10 {
            assert!(lane.arm().is_none() && !lane.is_drained(), "{room}");
        }
        pair.poll_until("a read", |pair| pair.logs[0].completed.len() == 1);
        assert!(
            target == source && !pair.lanes[0].transfers.has_unissued(),
            "{room}"
        );
        assert_eq!(pair.logs[0].completed.remove(0), (room as u64, Ok(())));
        for slot in taken {
            pair.lanes[0].operations.end(slot);
        }
        assert!(pair.lanes[0].is_drained());
    }
    pair.lanes[1].deregister(region);
}

#[test]
fn addresses_are_put_into_words() {
    let lane = open("tcp;ofi_rxm");
    let words = |name: &[u8]| peers::words(&lane.info, name);
    assert_eq!(words(b"fi_shm://1:2\0"), "fi_shm://1:2 over tcp;ofi_rxm");
    assert_eq!(words(b"a b~\0\0"), "a b~ over tcp;ofi_rxm");
    assert_eq!(words(&[1, 0xff]), "[01, ff] over tcp;ofi_rxm");
    assert!(words(&lane.own_name).ends_with(" over tcp;ofi_rxm"));
    assert!(words(&lane.own_name).contains(':'));
}

#[test]
fn what_each_provider_keeps_in_order_and_reads() {
    // From 1.18 on all but ofi_rxm offer less: the engine puts their messages in order.
    let old = crate::system::fabric::version().unwrap() < (1, 18);
    for (provider, ordered) in [
        (over_tcp()[0], true),
        (over_tcp()[1], old),
        ("sockets", old),
        ("shm", old),
        ("udp;ofi_rxd", false),
    ] {
        let limits = open(provider).limits();
        assert_eq!((limits.ordered, limits.rma), (ordered, true), "{provider}");
    }
}

#[test]
fn a_write_of_many_parts_goes_on_when_there_is_room() {
    let mut pair = Pair::new([open("tcp;ofi_rxm"), open("tcp;ofi_rxm")]);
    let source = conformance::pattern(4, 10_000);
    let mut target = vec![0u8; source.len()];
    // SAFETY: source and target outlive the lanes' use of them; the target is looked at when the write has ended.
    let (region, key) = unsafe { pair.lanes[1].expose(Piece::of_mut(&mut target)) }.unwrap();
    pair.send(0, &[1; 8], 1);
    pair.poll_until("a message", |pair| !pair.logs[1].messages.is_empty());
    pair.poll_until("draining", |pair| pair.lanes[0].is_drained());
    let lane = &mut pair.lanes[0];
    lane.transfers = Transfers::new(1000, 1);
    let mut taken = Vec::new();
    while let Some(slot) = lane.operations.next() {
        let peer = PeerIndex::new(1);
        lane.operations.start(slot, Operation::Copied { peer });
        taken.push(slot);
    }
    for slot in taken.drain(taken.len() - 3..) {
        lane.operations.end(slot);
    }
    // SAFETY: as above.
    let sent = unsafe { lane.write(PeerIndex::new(1), &key, 0, &[Piece::of(&source)], 5) };
    assert_eq!(sent, Ok(Sent::Pending));
    assert!(lane.transfers.has_unissued() && !lane.is_drained());
    pair.poll_until("a write", |pair| pair.logs[0].completed.len() == 1);
    assert_eq!(pair.logs[0].completed.remove(0), (5, Ok(())));
    for slot in taken {
        pair.lanes[0].operations.end(slot);
    }
    pair.lanes[1].deregister(region);
    assert!(target == source);
}
