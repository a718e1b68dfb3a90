//! Two such lanes in one process, and what they do with invalid contents of shared memory.

use super::*;
use crate::identity::{JobId, ProcessName};
use crate::lane::conformance::{self, Log, Pair};
use crate::lane::ofi::shm_name;

fn lane(me: u32, cma: bool) -> ShmLane {
    lane_of(me, 4, cma)
}

fn lane_of(me: u32, senders: u32, cma: bool) -> ShmLane {
    lane_with(me, senders, cma, Allowed::Both)
}

fn lane_with(me: u32, senders: u32, cma: bool, stores: Allowed) -> ShmLane {
    ShmLane::open(Options {
        me: ProcessName {
            job: JobId(1),
            rank: me,
        },
        // All peers of these tests are of this job.
        size: u32::MAX,
        senders,
        token: 0x1234_5678_9abc_def0 + u64::from(me),
        node: 0,
        cma,
        crowded: false,
        stores,
    })
    .expect("shared memory works here")
}

fn lanes() -> [ShmLane; 2] {
    [lane(0, true), lane(1, true)]
}

#[test]
fn conforms() {
    assert!(lane(0, true).limits().rma, "cross-memory attach works here");
    conformance::run(lanes);
}

#[test]
fn a_segment_has_no_more_places_than_it_was_made_for() {
    let full = lane_of(0, 2, false);
    let address = full.address();
    let mut others: Vec<_> = (1..=4).map(|me| lane_of(me, 4, false)).collect();
    for (number, other) in others.iter_mut().enumerate() {
        let joined = other
            .connect(PeerIndex::new(0), &address)
            .map_err(|error| error.to_string());
        match joined {
            Ok(()) => assert!(number < 2, "{number}"),
            Err(words) => assert!(number >= 2 && words.contains("all 2 places"), "{number}: {words}"),
        }
    }
}

#[test]
fn what_is_deregistered_leaves_no_table() {
    let mut lane = lane(0, true);
    let bytes = [0u8; 8];
    let pieces = [Piece::of(&bytes[..2]), Piece::of(&bytes[4..])];
    // SAFETY: the bytes outlive the registrations.
    let regions = [(); 2].map(|()| unsafe { lane.register(&pieces) }.unwrap().0);
    assert_eq!(lane.tables.count(), 2);
    for (left, region) in [1, 0].into_iter().zip(regions) {
        lane.deregister(region);
        assert_eq!(lane.tables.count(), left);
    }
}

#[test]
fn a_segment_of_another_token_is_not_joined() {
    let one = lane(0, false);
    let right = Address::decode(&one.address()).unwrap();
    let wrong = [
        Address {
            token: right.token ^ 1,
            ..right
        },
        Address {
            rings: right.rings + 1,
            ..right
        },
    ];
    for address in wrong {
        let error = lane(1, false)
            .connect(PeerIndex::new(0), &address.encode())
            .unwrap_err();
        let words = ["is another process's", "was not made by Weft"];
        assert!(words.iter().any(|words| error.message.contains(words)), "{error}");
    }
    lane(1, false)
        .connect(PeerIndex::new(0), &right.encode())
        .unwrap();
}

#[test]
fn a_segment_says_whether_its_senders_need_fences() {
    for wants in [true, false] {
        let segment = segment::Segment::create(2, 7, wants).unwrap();
        assert_eq!(segment.head().wants_fences(), wants);
    }
}

#[test]
fn a_word_counts_only_if_it_was_read_and_is_the_right_one() {
    let (word, pid) = (0x1234_5678_9abc_def0u64, std::process::id());
    let address = &raw const word as u64;
    let sample = |address, value| Sample { pid, address, value };
    assert!(cma::works(sample(address, word)));
    assert!(!cma::works(sample(address, word + 1)));
    // There is no message, and none is expected.
    assert!(!cma::works(sample(8, 0)));
}

#[test]
fn a_run_is_written_where_it_belongs() {
    let (from, mut to) = ([1u8, 2, 3], [0u8; 5]);
    let at = |first: &mut u8| std::ptr::from_mut(first).expose_provenance() as u64;
    let address = at(&mut to[1]);
    // SAFETY: of this process, and as long.
    let written = unsafe { cma::write_run(std::process::id(), address, Piece::of(&from)) };
    written.unwrap();
    assert_eq!(to, [0, 1, 2, 3, 0]);
    // SAFETY: nothing is there.
    let failed = unsafe { cma::write_run(std::process::id(), 8, Piece::of(&from)) };
    failed.expect_err("there is no memory");
}

#[test]
fn conforms_without_cross_memory_attach() {
    assert!(!lane(0, false).limits().rma);
    conformance::run(|| [lane(0, false), lane(1, false)]);
}

#[test]
fn conforms_with_either_kind_of_stores() {
    for kind in [StoreKind::Cached, StoreKind::Streaming] {
        conformance::run(|| [0, 1].map(|me| lane_with(me, 4, false, Allowed::Only(kind))));
    }
}

#[test]
fn conforms_with_fences_of_senders() {
    conformance::run(|| {
        lanes().map(|mut lane| {
            lane.fences = Fences::BySenders;
            lane
        })
    });
}

const HEADER: [u8; HEADER_BYTES] = [7; HEADER_BYTES];

fn send(lane: &mut ShmLane, to: u32, payload: &[u8]) -> Sent {
    // SAFETY: the lane copies all that it takes.
    unsafe { lane.send(PeerIndex::new(to), &HEADER, Piece::of(payload), 0) }.expect("sending works")
}

/// A connected pair after a few messages from 0 to 1.
fn talking() -> Pair<ShmLane> {
    let mut pair = Pair::new(lanes());
    for len in [0, 8, 16, 17, 100, 5000, 8] {
        assert_eq!(send(&mut pair.lanes[0], 1, &vec![1; len]), Sent::Done);
    }
    pair.poll();
    assert_eq!(pair.logs[1].messages.len(), 7);
    pair.logs[1].messages.clear();
    pair
}

#[test]
fn rubbish_in_any_word_of_a_ring_loses_that_peer_at_most() {
    let rubbish = [
        u64::MAX,
        1,
        1 << 32,
        8 << 32 | 40_000,
        8 << 32 | u32::MAX as u64,
        1 << 63,
        0x5555_5555_5555_5555,
    ];
    let words = segment::Raw::words();
    // Every counter, every cell's word, and a sample of the rest, which is data.
    for at in (0..words).filter(|at| *at < 16 || at % 8 == 0 && *at < 512 + 64 || at % 997 == 0) {
        for value in rubbish {
            let mut pair = talking();
            segment::Raw::write(&pair.lanes[1].segment, 0, at, value);
            for _ in 0..3 {
                let mut log = Log::default();
                pair.lanes[1].poll(&mut log).expect("the lane itself works on");
                assert!(log.lost.len() <= 1 && log.lost.iter().all(|(peer, _)| *peer == PeerIndex::new(0)));
                // SAFETY: the lane copies all that it takes.
                let _ = unsafe { pair.lanes[0].send(PeerIndex::new(1), &HEADER, Piece::of(&[3; 3000]), 0) };
            }
            // The other direction has a ring of its own.
            assert_eq!(send(&mut pair.lanes[1], 0, &[5; 30]), Sent::Done);
            pair.poll();
            assert_eq!(pair.logs[0].messages.len(), 1);
        }
    }
}

#[test]
fn a_message_too_long_or_out_of_turn_closes_its_sender() {
    let next = 7 * 8 + 512; // the word of the eighth cell
    for value in [8 << 32 | 40_000, 9 << 32 | 8, 7 << 32] {
        let mut pair = talking();
        segment::Raw::write(&pair.lanes[1].segment, 0, next, value);
        for _ in 0..3 {
            pair.poll();
        }
        let [(peer, error)] = &pair.logs[1].lost[..] else {
            panic!("{value:x}: {:?}", pair.logs[1].lost);
        };
        assert_eq!(*peer, PeerIndex::new(0));
        assert!(error.message.contains("process 0"), "{error}");
        assert!(pair.logs[1].messages.is_empty());
    }
}

#[test]
fn counters_that_can_not_be_fail_the_send() {
    let mut pair = talking();
    for at in [0, 1] {
        segment::Raw::write(&pair.lanes[1].segment, 0, at, 1 << 40);
    }
    let error = (0..1000).find_map(|_| {
        // SAFETY: the lane copies all that it takes.
        unsafe { pair.lanes[0].send(PeerIndex::new(1), &HEADER, Piece::of(&[3; 3000]), 0) }.err()
    });
    assert!(
        error
            .expect("the counters are looked at")
            .message
            .contains("process 1")
    );
}

fn rung(fd: RawFd) -> bool {
    let mut polled = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry.
    unsafe { libc::poll(&mut polled, 1, 0) == 1 }
}

/// Prepares for sleeping as the engine does.
fn arm(lane: &mut ShmLane) -> Option<RawFd> {
    lane.silence();
    lane.arm()
}

#[test]
fn a_sleeper_is_woken_by_the_first_message_and_no_other() {
    let mut pair = Pair::new(lanes());
    assert_eq!(arm(&mut pair.lanes[1]), None, "a sender has joined");
    pair.poll();
    for _ in 0..3 {
        let fd = arm(&mut pair.lanes[1]).expect("nothing to do");
        assert!(!rung(fd));
        send(&mut pair.lanes[0], 1, &[1]);
        assert!(rung(fd));
        assert_eq!(arm(&mut pair.lanes[1]), None, "a message waits");
        assert!(!rung(fd), "arming takes the ring away");
        send(&mut pair.lanes[0], 1, &[1]);
        assert!(!rung(fd), "it is not asleep");
        pair.poll();
        assert_eq!(std::mem::take(&mut pair.logs[1].messages).len(), 2);
    }
}

/// Sends messages of this length until no more fit.
fn fill(lane: &mut ShmLane, len: usize) -> usize {
    let payload = vec![9; len];
    (0..)
        .find(|_| send(lane, 1, &payload) == Sent::Again)
        .expect("a ring has an end")
}

/// How much a ring holds that is not emptied: long messages make the bulk grow, as far as the number of senders allows; short ones do not.
#[test]
fn long_messages_let_the_bulk_grow() {
    let most = |senders, len| {
        let mut pair = Pair::new([lane(0, true), lane_of(1, senders, true)]);
        fill(&mut pair.lanes[0], len) * len
    };
    assert_eq!(most(4, 8 << 10), 2 << 20);
    assert_eq!(most(4, 32 << 10), 2 << 20);
    assert_eq!(most(16, 8 << 10), 1 << 20);
    assert_eq!(most(100, 8 << 10), 128 << 10);
    assert_eq!(most(1000, 8 << 10), 128 << 10);
    assert_eq!(most(4, 4 << 10), 128 << 10);
}

/// Messages of all lengths, lap after lap, with the bulk as long as it is at first, growing, and grown.
#[test]
fn every_byte_arrives_while_the_bulk_grows() {
    let mut pair = Pair::new(lanes());
    let rng = &mut fastrand::Rng::with_seed(7);
    let (mut sent, mut taken) = (std::collections::VecDeque::new(), 0);
    for round in 0..4000 {
        let most = if round < 1000 { 8 << 10 } else { (32 << 10) + 1 };
        let payload = vec![round as u8; rng.usize(..most)];
        if send(&mut pair.lanes[0], 1, &payload) == Sent::Done {
            sent.push_back(payload);
        }
        if rng.u32(..20) == 0 || round == 3999 {
            for _ in 0..40 {
                pair.lanes[1].poll(&mut pair.logs[1]).expect("polling works");
            }
            for message in pair.logs[1].messages.drain(..) {
                assert!(message[HEADER_BYTES..] == sent.pop_front().expect("it was sent")[..]);
                taken += 1;
            }
        }
    }
    assert!(sent.is_empty() && taken > 3000, "{taken} messages");
}

#[test]
fn a_sender_without_room_is_rung_for_once_there_is_some() {
    for len in [0, 16, 17, 5000, 32 << 10] {
        let mut pair = Pair::new(lanes());
        assert!(!pair.lanes[0].rings_for_room(PeerIndex::new(1)), "there is room");
        let sent = fill(&mut pair.lanes[0], len);
        assert!(pair.lanes[0].rings_for_room(PeerIndex::new(1)), "there is none");
        pair.lanes[0].poll(&mut pair.logs[0]).expect("polling works");
        let fd = arm(&mut pair.lanes[0]).expect("nothing to do");
        assert!(!rung(fd));
        while pair.logs[1].messages.len() < sent && !rung(fd) {
            pair.lanes[1].poll(&mut pair.logs[1]).expect("polling works");
        }
        assert!(rung(fd), "{len} bytes: all were taken, and nobody rang");
        assert_eq!(arm(&mut pair.lanes[0]), None, "there is room");
        assert_eq!(send(&mut pair.lanes[0], 1, &vec![9; len]), Sent::Done);
        assert!(
            arm(&mut pair.lanes[0]).is_some(),
            "what was asked for has been had"
        );
        pair.poll();
        assert!(!rung(fd), "nobody waits for room any more");
    }
}

#[test]
fn room_that_came_before_the_sleep_is_seen() {
    let mut pair = Pair::new(lanes());
    fill(&mut pair.lanes[0], 8);
    for _ in 0..20 {
        pair.poll();
    }
    assert_eq!(arm(&mut pair.lanes[0]), None, "there is room");
    let fd = arm(&mut pair.lanes[0]).expect("and nobody said that it waits");
    assert!(!rung(fd));
}

/// A lane whose pipe can't be opened checks after a time, and says so.
#[test]
fn a_sender_whose_bell_can_not_be_rung_does_not_rely_on_it() {
    let [mut first, second] = lanes();
    first.address.bell_inode ^= 1;
    let theirs = second.address();
    let mut pair = Pair::unconnected([first, second]);
    pair.lanes[0]
        .connect(PeerIndex::new(1), &theirs)
        .expect("they share a machine");
    let sent = fill(&mut pair.lanes[0], 8);
    assert!(
        pair.lanes[0].rings_for_room(PeerIndex::new(1)),
        "nothing else is known yet"
    );
    let fd = arm(&mut pair.lanes[0]).expect("nothing to do");
    while pair.logs[1].messages.len() < sent {
        pair.lanes[1].poll(&mut pair.logs[1]).expect("polling works");
    }
    assert!(!rung(fd));
    fill(&mut pair.lanes[0], 8);
    assert!(!pair.lanes[0].rings_for_room(PeerIndex::new(1)));
}

#[test]
fn who_joins_a_sleeper_wakes_it_with_the_first_message() {
    let [mut first, mut second] = lanes();
    let fd = arm(&mut second).expect("nothing to do");
    first
        .connect(PeerIndex::new(1), &second.address())
        .expect("they share a machine");
    send(&mut first, 1, &[1; 100]);
    let mut log = Log::default();
    assert!(second.poll(&mut log).expect("polling works"));
    assert_eq!(log.messages.len(), 1);
    drop(first);
    assert!(arm(&mut second).is_some_and(|again| again == fd));
}

#[test]
fn places_are_counted_and_other_nodes_refused() {
    let mut senders: Vec<ShmLane> = (1..7).map(|me| lane(me, true)).collect();
    let receiver = lane(0, true);
    let address = receiver.address();
    let joined: Vec<bool> = senders
        .iter_mut()
        .map(|sender| sender.connect(PeerIndex::new(0), &address).is_ok())
        .collect();
    assert_eq!(
        joined,
        [true, true, true, true, false, false],
        "there is room for four"
    );
    let mut elsewhere = receiver.address;
    elsewhere.domain.node = 1;
    let error = senders[0]
        .connect(PeerIndex::new(9), &elsewhere.encode())
        .expect_err("it is elsewhere");
    assert!(error.message.contains("WEFT_FAKE_NODES"), "{error}");
    let mut stale = receiver.address;
    stale.token ^= 1;
    let error = senders[0]
        .connect(PeerIndex::new(9), &stale.encode())
        .expect_err("it is another's");
    assert!(error.message.contains("another process's"), "{error}");
    drop(receiver);
    senders[5]
        .connect(PeerIndex::new(0), &address)
        .expect_err("it is gone");
}

/// A sender that nobody rings.
fn owner(rank: u32) -> segment::Owner {
    segment::Owner {
        name: ProcessName { job: JobId(7), rank },
        pid: std::process::id(),
        bell: 0,
        bell_inode: 0,
    }
}

/// The bits of ready rings are in words of 64 bits.
#[test]
fn each_of_many_rings_is_ready_when_its_own_sender_has_joined() {
    const RINGS: u32 = 131;
    let mut receiver = lane_of(0, RINGS, true);
    let (segment, address) = (&mut receiver.segment, &receiver.address);
    let mut taken = |ring| segment.ring(ring).map(|(_, owner)| owner.name.rank);
    let mut senders = Vec::new();
    for ring in 0..RINGS {
        assert_eq!(taken(ring), None, "{ring}");
        let (pid, owner) = (address.pid, owner(1000 + ring));
        let joined = segment::Joined::join(pid, address.segment, address.rings, address.token, owner, false);
        senders.push(joined.expect("there is room"));
        assert_eq!(taken(ring + 1), None, "{ring}");
        if ring % 2 == 0 {
            assert_eq!(taken(ring), Some(1000 + ring));
        }
    }
    for ring in 0..RINGS {
        let left = (ring % 2 == 1).then_some(1000 + ring);
        assert_eq!(taken(ring), left, "a ring has one receiver");
    }
}

#[test]
fn a_ring_of_another_job_is_used_again_and_its_memory_goes_back() {
    use std::os::unix::fs::MetadataExt;

    let mut segment = segment::Segment::create(2, 7, false).unwrap();
    let (pid, descriptor) = (std::process::id(), segment.descriptor() as u32);
    let blocks = || {
        let file = std::fs::File::open(format!("/proc/self/fd/{descriptor}")).unwrap();
        file.metadata().unwrap().blocks()
    };
    let before = blocks();
    for cycle in 0..2000 {
        let owner = owner(cycle);
        let (joined, theirs) =
            segment::Joined::join(pid, descriptor, segment.rings(), 7, owner, true).expect("there is room");
        assert!(segment.ring(0).is_none() && segment.ring(3).is_none());
        let (mine, said) = segment.ring(2).expect("the first behind this job's own");
        assert_eq!(said, owner);
        assert!(blocks() > before && !mine.is_mute());
        mine.set_mute();
        drop((joined, theirs, mine));
        segment.release(2);
        assert_eq!(blocks(), before, "after cycle {cycle}");
    }
    // This job's own places are not touched by that.
    let own = segment::Joined::join(pid, descriptor, segment.rings(), 7, owner(1), false);
    own.expect("there is room");
    assert!(segment.ring(0).is_some());
    segment.release(0);
    assert!(
        segment.ring(0).is_none(),
        "a ring of this job has one receiver, once"
    );
}

#[test]
fn the_memory_of_a_ring_stays_without_its_segment() {
    let (mut segment, owner) = (segment::Segment::create(1, 7, false).unwrap(), owner(3));
    let (pid, descriptor) = (std::process::id(), segment.descriptor() as u32);
    let (joined, theirs) =
        segment::Joined::join(pid, descriptor, segment.rings(), 7, owner, false).expect("there is room");
    let (mine, said) = segment.ring(0).expect("it has joined");
    assert_eq!(said, owner);
    drop((segment, joined));
    assert!(!theirs.is_mute());
    mine.set_mute();
    assert!(theirs.is_mute());
}

#[test]
fn nothing_has_a_name() {
    // The endpoints of libfabric's own provider have files there, and other tests may use it meanwhile.
    let ours = |name: &String| name.contains("weft") && shm_name::owner(name).is_none();
    let entries = || std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = || entries().filter_map(|entry| entry.file_name().into_string().ok());
    let pair = talking();
    assert_eq!(names().filter(ours).collect::<Vec<_>>(), [""; 0]);
    drop(pair);
}
