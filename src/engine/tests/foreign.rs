//! Processes of other jobs: how they introduce themselves, and how they part. First against a played process, then several engines.

use rustc_hash::FxHashMap;

use super::*;
use crate::base::error::Error;
use crate::engine::numbering::derived;
use crate::err;

pub(super) const OTHER_JOB: JobId = JobId(2);
/// Of a communicator of both jobs.
pub(super) const SHARED: Context = Context::of_bits(100 << 1);
/// After the three of this job.
pub(super) const OTHER: PeerIndex = PeerIndex::new(3);
const OTHER_TOKEN: u64 = 1234;

fn name(job: u64, rank: u32) -> ProcessName {
    ProcessName {
        job: JobId(job),
        rank,
    }
}

fn header(token: u64, kind: MessageKind, rank: u32, seq: u32) -> Header {
    Header {
        token,
        kind,
        flags: 0,
        ack: 0,
        src: rank,
        seq,
        tag: 5,
        context: SHARED.bits(),
        arg: 0,
    }
}

/// An eager message of process `rank` with this token.
pub(super) fn message(token: u64, rank: u32, seq: u32, payload: &[u8]) -> Vec<u8> {
    message_in(SHARED, token, rank, seq, payload)
}

pub(super) fn message_in(context: Context, token: u64, rank: u32, seq: u32, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        context: context.bits(),
        ..header(token, MessageKind::EAGER, rank, seq)
    };
    [&header.encode(), payload].concat()
}

fn hello_of(token: u64, named: ProcessName, rank: u32, seq: u32, window: u16) -> Vec<u8> {
    let card = BusinessCard {
        agreed: 0,
        token: OTHER_TOKEN,
        lanes: vec![played_at(window)],
    };
    let header = header(token, MessageKind::HELLO, rank, seq);
    [&header.encode()[..], &named.encode(), &card.encode()].concat()
}

/// Process `rank` of the other job introduces itself.
pub(super) fn hello(rank: u32, seq: u32, window: u16) -> Vec<u8> {
    let named = name(OTHER_JOB.0, rank);
    hello_of(derived(TOKEN, OTHER_JOB), named, rank, seq, window)
}

/// What a receive of a message of `peer` gets.
pub(super) fn receive(scene: &mut Scene, peer: PeerIndex) -> Option<Vec<u8>> {
    receive_from(&mut scene.engine, peer)
}

fn receive_from(engine: &mut Engine, peer: PeerIndex) -> Option<Vec<u8>> {
    receive_of(engine, peer, 0)
}

/// The same with the sender's rank in the communicator.
fn receive_of(engine: &mut Engine, peer: PeerIndex, source: u32) -> Option<Vec<u8>> {
    let mut bytes = [0; 8];
    let pattern = Pattern {
        context: SHARED,
        source: Some(source),
        tag: Some(5),
    };
    // SAFETY: `bytes` outlives the receive, which has ended or is given up here.
    let received = unsafe { engine.receive(pattern, Some(peer), Memory::of_mut(&mut bytes)) };
    match received.expect("the peer lives") {
        Received::Now(outcome) => Some(bytes[..outcome.bytes as usize].to_vec()),
        Received::Later(id) => {
            engine.abandon(id);
            engine.take(id);
            None
        }
    }
}

fn unauthenticated(scene: &Scene) -> u64 {
    scene.engine.state.unauthenticated
}

#[test]
fn who_has_heard_hello_says_none() {
    let mut scene = Scene::new(|_| ());
    scene.gets(hello(1, 0, 0));
    assert_eq!(scene.engine.directory().name(OTHER), name(2, 1));
    let bytes = *b"to them";
    let send = Send {
        peer: OTHER,
        envelope: Envelope {
            context: SHARED,
            source: 0,
            tag: 5,
        },
        memory: Memory::of(&bytes),
        sync: false,
    };
    // SAFETY: the bytes outlive the send.
    assert!(
        // SAFETY: the memory of these messages is a constant's.
        unsafe { scene.engine.send(&send, false) }
            .expect("the peer lives")
            .is_none()
    );
    let heard = scene.heard();
    let [(header, payload)] = &heard[..] else {
        panic!("one message is sent: {heard:?}");
    };
    // It names this process by its own rank, and carries what its job has to.
    assert_eq!(
        (header.token, header.src, &payload[..]),
        (derived(OTHER_TOKEN, JOB), ME.number(), &b"to them"[..])
    );
    assert!(scene.engine.wanted().is_empty());
}

#[test]
fn hello_with_a_wrong_token_or_name_is_not_heard() {
    let right = derived(TOKEN, OTHER_JOB);
    let mut scene = Scene::new(|_| ());
    let wrong = [
        hello_of(right + 1, name(2, 1), 1, 0, 0),
        // The token is that of another job, or of this one.
        hello_of(right, name(3, 1), 1, 0, 0),
        hello_of(derived(TOKEN, JOB), name(JOB.0, 1), 1, 0, 0),
        // Of this job, without such a rank.
        hello_of(TOKEN, name(JOB.0, 9), 9, 0, 0),
        // Another rank.
        hello_of(right, name(2, 1), 2, 0, 0),
    ];
    let count = wrong.len() as u64;
    for bytes in wrong {
        scene.gets(bytes);
    }
    let whole = hello(1, 0, 0);
    for len in crate::engine::wire::HEADER_BYTES..whole.len() {
        scene.gets(whole[..len].to_vec());
    }
    let cut = (whole.len() - crate::engine::wire::HEADER_BYTES) as u64;
    assert_eq!(unauthenticated(&scene), count + cut);
    assert_eq!(scene.engine.state.numberings.counts(), (0, 0));
    assert!(scene.heard().is_empty() && !scene.is_lost());
    // The right one is heard after all.
    scene.gets(whole);
    assert_eq!(scene.engine.state.numberings.counts(), (1, 1));
}

#[test]
fn hello_of_a_process_of_this_job_closes_the_connection() {
    let mut scene = Scene::new(|_| ());
    scene.gets(hello_of(TOKEN, name(JOB.0, 1), 1, 0, 0));
    assert!(scene.is_lost());
    let mut scene = Scene::new(|_| ());
    scene.gets(header(TOKEN, MessageKind::BYE, 1, 0).encode().to_vec());
    assert!(scene.is_lost());
}

#[test]
fn garbage_of_a_known_process_closes_its_connection() {
    let token = derived(TOKEN, OTHER_JOB);
    let bye = |payload: &[u8]| [&header(token, MessageKind::BYE, 1, 1).encode()[..], payload].concat();
    let known = hello(1, 1, 0);
    let wrong = [
        known[..known.len() - 1].to_vec(),
        hello_of(token, name(2, 2), 1, 1, 0),
        bye(b"x"),
        // A number out of turn.
        hello(1, 0, 0),
    ];
    for bytes in wrong {
        let mut scene = Scene::new(|_| ());
        scene.gets(hello(1, 0, 0));
        scene.gets(bytes);
        let peer = scene.engine.state.peers.get(OTHER).expect("it is known");
        assert!(matches!(peer.link, ConnectionState::Lost(_)));
        assert!(!scene.is_lost());
    }
    // Once more is no error.
    let mut scene = Scene::new(|_| ());
    scene.gets(hello(1, 0, 0));
    scene.gets(known);
    scene.gets(message(token, 1, 2, b"hello"));
    assert_eq!(receive(&mut scene, OTHER).as_deref(), Some(&b"hello"[..]));
}

#[test]
fn who_is_met_has_to_introduce_itself_nevertheless() {
    let mut scene = Scene::new(|_| ());
    let peer = scene.engine.directory().place(name(2, 1)).expect("a place");
    assert_eq!(peer, OTHER);
    scene.engine.meet(peer);
    scene.gets(message(derived(TOKEN, OTHER_JOB), 1, 0, b"hello"));
    assert_eq!(unauthenticated(&scene), 1);
    scene.gets(hello(1, 0, 0));
    scene.gets(message(derived(TOKEN, OTHER_JOB), 1, 1, b"hello"));
    assert_eq!(receive(&mut scene, OTHER).as_deref(), Some(&b"hello"[..]));
}

#[test]
fn after_bye_nothing_comes() {
    let token = derived(TOKEN, OTHER_JOB);
    let mut scene = Scene::new(|_| ());
    scene.gets(hello(1, 0, 0));
    // The answer to `Bye` does not leave, so the conversation has not ended.
    scene.wire.lock().full = true;
    scene.gets(header(token, MessageKind::BYE, 1, 1).encode().to_vec());
    scene.gets(message(token, 1, 2, b"hello"));
    let peer = scene.engine.state.peers.get(OTHER);
    assert!(peer.is_none(), "it is lost, and nobody has met it");
}

/// What happens in a town: engines of several jobs, in one process.
#[derive(Default)]
struct Town {
    /// From and to, by address.
    letters: FxHashMap<(u32, u32), VecDeque<Vec<u8>>>,
    /// How many messages of each kind each has sent.
    kinds: FxHashMap<(u32, u8), u32>,
    disconnected: FxHashMap<u32, u32>,
    released: Vec<(u32, ProcessName, bool)>,
    /// Nobody takes letters of these.
    full: Vec<u32>,
}

struct Street {
    me: u32,
    limits: Limits,
    town: Arc<Mutex<Town>>,
    peers: FxHashMap<PeerIndex, u32>,
    name: String,
}

impl Lane for Street {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn address(&self) -> Vec<u8> {
        self.me.to_le_bytes().to_vec()
    }

    fn connect(&mut self, peer: PeerIndex, address: &[u8]) -> Result<()> {
        let address = address.try_into().expect("four bytes");
        let known = self.peers.insert(peer, u32::from_le_bytes(address));
        assert!(known.is_none(), "it is connected once");
        Ok(())
    }

    fn disconnect(&mut self, peer: PeerIndex) {
        self.peers.remove(&peer).expect("it is connected");
        *self.town.lock().disconnected.entry(self.me).or_default() += 1;
    }

    fn release(&mut self, sender: ProcessName, ended: bool) {
        self.town.lock().released.push((self.me, sender, ended));
    }

    unsafe fn send(&mut self, peer: PeerIndex, header: &[u8], payload: Piece, _: u64) -> Result<Sent> {
        let to = *self.peers.get(&peer).expect("it is connected");
        let mut town = self.town.lock();
        if town.full.contains(&self.me) {
            return Ok(Sent::Again);
        }
        // SAFETY: the caller says that the payload is readable.
        let bytes = [header, &unsafe { payload.bytes() }.to_vec()].concat();
        *town.kinds.entry((self.me, header[8])).or_default() += 1;
        town.letters.entry((self.me, to)).or_default().push_back(bytes);
        Ok(Sent::Done)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<bool> {
        let mut letters = Vec::new();
        for ((_, to), waiting) in &mut self.town.lock().letters {
            if *to == self.me {
                let mut taken: Vec<_> = waiting.drain(..).collect();
                if !self.limits.ordered {
                    taken.reverse();
                }
                letters.append(&mut taken);
            }
        }
        letters.iter().for_each(|letter| sink.message(letter));
        Ok(!letters.is_empty())
    }

    unsafe fn register(&mut self, _: &[Piece]) -> Result<(Region, RemoteKey)> {
        Err(err!(Other, "no memory is registered here"))
    }

    fn deregister(&mut self, _: Region) {}

    unsafe fn read(&mut self, _: PeerIndex, _: &RemoteKey, _: u64, _: &[Piece], _: u64) -> Result<Sent> {
        Err(err!(Other, "no memory is read here"))
    }

    fn arm(&mut self) -> Option<RawFd> {
        None
    }

    fn can_sleep(&self) -> bool {
        false
    }

    fn is_drained(&self) -> bool {
        true
    }
}

/// Processes of jobs 10, 11, …, one of each.
struct Neighbours {
    town: Arc<Mutex<Town>>,
    engines: Vec<Engine>,
    /// Whether business cards come with the communicators.
    cards: bool,
}

const LIMITS: Limits = Limits {
    buffered: 1000,
    message: 1000,
    piece: 1000,
    ordered: true,
    rma: false,
    rma_from: usize::MAX,
    read_run: usize::MAX,
    register_run: usize::MAX,
    eager: 500,
    pipelined: 0,
    queue: usize::MAX,
};

impl Neighbours {
    fn new(count: u32, ordered: bool) -> Neighbours {
        let town: Arc<Mutex<Town>> = Arc::default();
        let engines = (0..count).map(|at| {
            let limits = Limits { ordered, ..LIMITS };
            let street = street(&town, at, limits, "street");
            engine(at, vec![Box::new(Loopback::default()), street])
        });
        Neighbours {
            engines: engines.collect(),
            town: town.clone(),
            cards: true,
        }
    }

    fn peer(&self, from: usize, to: usize) -> PeerIndex {
        let name = name(10 + to as u64, 0);
        self.engines[from].directory().place(name).expect("a place")
    }

    fn meet(&mut self, one: usize, other: usize) {
        let peer = self.peer(one, other);
        self.engines[one].meet(peer);
    }

    fn part(&mut self, one: usize, other: usize) {
        let peer = self.peer(one, other);
        self.engines[one].part(peer);
    }

    fn send(&mut self, from: usize, to: usize, byte: u8) {
        let bytes = vec![byte];
        let send = Send {
            peer: self.peer(from, to),
            envelope: Envelope {
                context: SHARED,
                source: from as u32,
                tag: 5,
            },
            memory: Memory::of(&bytes),
            sync: false,
        };
        // Some wait in a queue.
        std::mem::forget(bytes);
        // SAFETY: the memory is kept for ever.
        let id = unsafe { self.engines[from].send(&send, false) }.expect("the peer lives");
        if let Some(id) = id {
            self.engines[from].release(id);
        }
    }

    fn receives(&mut self, to: usize, from: usize) -> Option<u8> {
        let peer = self.peer(to, from);
        receive_of(&mut self.engines[to], peer, from as u32).map(|bytes| bytes[0])
    }

    /// Makes progress of one; `true`: something happened.
    fn step(&mut self, at: usize) -> bool {
        let mut any = self.engines[at].progress(false);
        let wanted = std::mem::take(self.engines[at].wanted());
        for peer in wanted {
            any = true;
            let name = self.engines[at].directory().name(peer);
            match self.cards {
                true => {
                    let card = self.engines[name.job.0 as usize - 10].card();
                    self.engines[at].connect(peer, &card);
                }
                false => self.engines[at].lose(peer, err!(Other, "it is not known")),
            }
        }
        any
    }

    fn run(&mut self) {
        for _ in 0..1000 {
            let any = (0..self.engines.len()).fold(false, |any, at| self.step(at) | any);
            if !any {
                return;
            }
        }
        panic!("it does not end");
    }

    fn said(&self, at: u32, kind: MessageKind) -> u32 {
        let town = self.town.lock();
        town.kinds.get(&(at, kind.number())).copied().unwrap_or(0)
    }

    /// Nothing at all is known of others any more.
    fn assert_strangers(&self) {
        for (at, engine) in self.engines.iter().enumerate() {
            let state = &engine.state;
            let known: Vec<_> = state
                .peers
                .iter()
                .map(|(id, _)| id)
                .filter(|id| *id != state.me)
                .collect();
            assert_eq!(known, [], "{at}");
            assert_eq!(state.numberings.counts(), (0, 0), "{at}");
            assert!(state.unexpected.is_empty() && engine.is_drained() && state.wanted.is_empty());
        }
        assert!(self.town.lock().letters.values().all(VecDeque::is_empty));
    }
}

fn street(town: &Arc<Mutex<Town>>, me: u32, limits: Limits, name: &str) -> Box<Street> {
    Box::new(Street {
        me,
        limits,
        town: town.clone(),
        peers: FxHashMap::default(),
        name: name.into(),
    })
}

fn engine(at: u32, lanes: Vec<Box<dyn Lane>>) -> Engine {
    Engine::new(Parts {
        me: name(10 + u64::from(at), 0),
        size: 1,
        token: 5000 + u64::from(at),
        agreed: u64::from(at),
        lanes,
        eager_max: None,
        rma: false,
        first_generation: 0,
        window: 2,
        unexpected_max: 1 << 20,
    })
}

#[test]
fn a_process_is_heard_before_and_after_it_is_met() {
    for meets in [false, true] {
        let mut two = Neighbours::new(2, true);
        two.meet(0, 1);
        if meets {
            two.meet(1, 0);
        }
        for byte in 0..3 {
            two.send(0, 1, byte);
        }
        two.run();
        two.meet(1, 0);
        for byte in 0..3 {
            assert_eq!(two.receives(1, 0), Some(byte));
        }
        two.cards = false;
        two.send(1, 0, 9);
        two.run();
        assert_eq!(two.receives(0, 1), Some(9));
        assert_eq!([0, 1].map(|at| two.said(at, MessageKind::HELLO)), [1, 0]);
    }
}

#[test]
fn both_may_begin_at_the_same_time() {
    for ordered in [true, false] {
        let mut two = Neighbours::new(2, ordered);
        for at in [0, 1] {
            two.meet(at, 1 - at);
            two.send(at, 1 - at, at as u8);
            two.send(at, 1 - at, 10 + at as u8);
        }
        // Each looks up the other's card, and sends before it polls.
        for at in [0, 1, 0] {
            two.step(at);
        }
        two.run();
        for at in [0, 1] {
            assert_eq!(two.receives(1 - at, at), Some(at as u8));
            assert_eq!(two.receives(1 - at, at), Some(10 + at as u8));
        }
        assert_eq!([0, 1].map(|at| two.said(at, MessageKind::HELLO)), [1, 1]);
    }
}

#[test]
fn on_a_lane_without_order_nothing_follows_hello_before_its_answer() {
    let mut two = Neighbours::new(2, false);
    two.meet(0, 1);
    for byte in 0..5 {
        two.send(0, 1, byte);
    }
    for _ in 0..10 {
        two.step(0);
    }
    assert_eq!(two.town.lock().letters[&(0, 1)].len(), 1);
    assert!(!two.engines[0].is_drained());
    two.run();
    for byte in 0..5 {
        assert_eq!(two.receives(1, 0), Some(byte));
    }
    assert_eq!(two.said(0, MessageKind::EAGER), 5);
    // The state stays there.
    for at in [0, 1] {
        two.part(at, 1 - at);
    }
    two.run();
    assert_eq!([0, 1].map(|at| two.said(at, MessageKind::BYE)), [0, 0]);
    two.meet(0, 1);
    two.send(0, 1, 7);
    two.run();
    assert_eq!(two.receives(1, 0), Some(7));
    assert_eq!(two.said(0, MessageKind::HELLO), 1);
}

/// After a message of the first, in each order of steps and partings.
#[test]
fn two_part_in_any_order() {
    for seed in 0..2000 {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let mut two = Neighbours::new(2, true);
        for at in [0, 1] {
            two.meet(at, 1 - at);
        }
        let senders = rng.u32(..4);
        for at in [0, 1] {
            if senders & 1 << at != 0 {
                two.send(at, 1 - at, at as u8);
            }
        }
        let mut parted = [false; 2];
        while parted != [true; 2] {
            let at = rng.usize(..2);
            if rng.u32(..3) != 0 {
                two.step(at);
            } else if !std::mem::replace(&mut parted[at], true) {
                two.part(at, 1 - at);
            }
        }
        two.run();
        two.assert_strangers();
        let byes = [0, 1].map(|at| two.said(at, MessageKind::BYE));
        let expected = u32::from(senders != 0);
        assert_eq!(byes, [expected; 2], "{seed}");
        let town = two.town.lock();
        let left = |at: u32| town.disconnected.get(&at).copied().unwrap_or(0);
        assert_eq!([left(0), left(1)], [expected; 2], "{seed}");
        let mut released = town.released.clone();
        released.sort_by_key(|(at, ..)| *at);
        let both = [(0, name(11, 0), true), (1, name(10, 0), true)];
        assert_eq!(released, &both[..2 * expected as usize], "{seed}");
    }
}

#[test]
fn a_stranger_is_parted_without_a_word() {
    let mut two = Neighbours::new(2, true);
    two.meet(0, 1);
    assert_eq!(two.engines[0].state.numberings.counts(), (1, 1));
    two.part(0, 1);
    two.part(0, 1);
    two.run();
    two.assert_strangers();
    assert!(two.town.lock().kinds.is_empty());
}

/// What is sent to a process that has not said `Bye` yet begins the next conversation.
#[test]
fn what_is_sent_after_bye_waits() {
    let mut two = Neighbours::new(2, true);
    for at in [0, 1] {
        two.meet(at, 1 - at);
    }
    two.send(0, 1, 1);
    two.step(0);
    two.step(0);
    two.part(0, 1);
    two.step(0);
    assert_eq!(two.said(0, MessageKind::BYE), 1);
    two.meet(0, 1);
    two.send(0, 1, 2);
    two.step(0);
    assert!(!two.engines[0].is_drained(), "it waits");
    assert_eq!(two.said(0, MessageKind::EAGER), 1);
    // Without a card from elsewhere.
    two.cards = false;
    two.run();
    assert_eq!([two.receives(1, 0), two.receives(1, 0)], [Some(1), Some(2)]);
    assert!(two.engines[0].is_drained());
    assert_eq!(two.said(0, MessageKind::HELLO), 2);
    // The other one has a communicator still, and has answered.
    assert_eq!(two.said(1, MessageKind::BYE), 1);
}

/// A message that is never sent, as its send was given up, is not in the next conversation either.
#[test]
fn what_waits_can_be_given_up() {
    let mut two = Neighbours::new(2, true);
    two.meet(0, 1);
    two.meet(1, 0);
    two.send(0, 1, 1);
    two.step(0);
    two.step(0);
    two.part(0, 1);
    let bytes = [2];
    let send = Send {
        peer: two.peer(0, 1),
        envelope: Envelope {
            context: SHARED,
            source: 0,
            tag: 5,
        },
        memory: Memory::of(&bytes),
        sync: false,
    };
    // SAFETY: the bytes outlive the send.
    let id = unsafe { two.engines[0].send(&send, true) }
        .expect("the peer lives")
        .expect("a request");
    two.engines[0].cancel(id);
    assert!(two.engines[0].take(id).expect("it has ended").cancelled);
    two.run();
    assert_eq!([two.receives(1, 0), two.receives(1, 0)], [Some(1), None]);
    two.part(1, 0);
    two.run();
    two.assert_strangers();
}

/// Messages that wait for a receive that the communicator still has are not dropped, though their sender has taken leave.
#[test]
fn messages_stay_for_a_communicator_that_is_left() {
    let mut two = Neighbours::new(2, true);
    for at in [0, 1] {
        two.meet(at, 1 - at);
    }
    two.send(0, 1, 1);
    two.run();
    two.part(0, 1);
    two.run();
    assert_eq!(two.engines[1].state.peers.iter().count(), 1, "only itself");
    assert_eq!(two.receives(1, 0), Some(1));
    two.send(1, 0, 3);
    two.run();
    assert_eq!(two.receives(0, 1), Some(3));
    two.part(1, 0);
    two.run();
    two.assert_strangers();
}

#[test]
fn a_lost_process_is_forgotten_and_may_come_again() {
    let mut two = Neighbours::new(2, true);
    for at in [0, 1] {
        two.meet(at, 1 - at);
    }
    two.send(0, 1, 1);
    two.run();
    let lost = || -> Error { err!(ProcAborted, "it has died") };
    for at in [0, 1] {
        let peer = two.peer(at, 1 - at);
        two.engines[at].lose(peer, lost());
        let state = two.engines[at]
            .state
            .peers
            .get(peer)
            .map(|peer| peer.link.clone());
        assert!(matches!(state, Some(ConnectionState::Lost(_))));
    }
    for at in [0, 1] {
        two.part(at, 1 - at);
    }
    two.assert_strangers();
    let released = std::mem::take(&mut two.town.lock().released);
    assert_eq!(released, [(0, name(11, 0), false), (1, name(10, 0), false)]);
    for at in [0, 1] {
        two.meet(at, 1 - at);
        two.send(at, 1 - at, 5);
    }
    two.run();
    for at in [0, 1] {
        assert_eq!(two.receives(at, 1 - at), Some(5));
    }
}

/// It is lost before it has said `Bye`: there is nothing to wait for.
#[test]
fn who_is_lost_while_it_is_left_is_forgotten() {
    let mut two = Neighbours::new(2, true);
    two.meet(0, 1);
    two.send(0, 1, 1);
    two.step(0);
    two.step(0);
    two.part(0, 1);
    assert_eq!(two.said(0, MessageKind::BYE), 1);
    let peer = two.peer(0, 1);
    two.engines[0].lose(peer, err!(ProcAborted, "it has died"));
    two.step(0);
    assert!(two.engines[0].state.peers.get(peer).is_none());
    assert_eq!(two.engines[0].state.numberings.counts(), (0, 0));
}

/// No card: it is an error of those who send, and another communicator may bring one.
#[test]
fn without_a_card_a_process_is_lost() {
    let mut two = Neighbours::new(2, true);
    two.cards = false;
    two.meet(0, 1);
    two.send(0, 1, 1);
    two.run();
    let peer = two.peer(0, 1);
    let state = two.engines[0].state.peers.get(peer).map(|peer| peer.link.clone());
    assert!(matches!(state, Some(ConnectionState::Lost(_))));
    two.part(0, 1);
    two.cards = true;
    two.meet(0, 1);
    two.send(0, 1, 2);
    two.run();
    assert_eq!(two.receives(1, 0), Some(2));
}

/// Bye does not overtake what the lane does not take yet.
#[test]
fn bye_is_the_last_message() {
    let mut two = Neighbours::new(2, true);
    for at in [0, 1] {
        two.meet(at, 1 - at);
    }
    two.send(0, 1, 0);
    two.run();
    two.town.lock().full.push(0);
    for byte in 1..20 {
        two.send(0, 1, byte);
    }
    two.part(0, 1);
    two.run_some();
    assert!(!two.engines[0].has_left());
    assert_eq!(two.said(0, MessageKind::BYE), 0);
    two.town.lock().full.clear();
    two.run();
    assert_eq!(two.said(0, MessageKind::BYE), 1);
    for byte in 0..20 {
        assert_eq!(two.receives(1, 0), Some(byte));
    }
    two.part(1, 0);
    two.run();
    two.assert_strangers();
}

impl Neighbours {
    fn run_some(&mut self) {
        for _ in 0..20 {
            (0..self.engines.len()).for_each(|at| _ = self.step(at));
        }
    }
}

/// The last message waits for the window, which a process that has taken leave does not move any more.
#[test]
fn bye_comes_through_a_full_window() {
    let mut two = Neighbours::new(2, true);
    for engine in &mut two.engines {
        engine.state.limits[1].queue = 0;
    }
    for at in [0, 1] {
        two.meet(at, 1 - at);
    }
    for byte in 0..20 {
        two.send(0, 1, byte);
        two.send(1, 0, byte);
    }
    for _ in 0..5 {
        two.step(0);
    }
    two.part(0, 1);
    two.part(1, 0);
    two.run();
    two.assert_strangers();
}

/// Three jobs that meet, send and part at random: each message arrives, in order, whichever conversation carries it.
#[test]
fn conversations_that_come_and_go_lose_nothing() {
    for seed in 0..300 {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let mut three = Neighbours::new(3, true);
        let mut sent: FxHashMap<(usize, usize), VecDeque<u8>> = FxHashMap::default();
        let check = |three: &mut Neighbours, sent: &mut FxHashMap<_, VecDeque<u8>>, from, to| {
            let Some(byte) = three.receives(to, from) else {
                return false;
            };
            let next = sent.get_mut(&(from, to)).and_then(VecDeque::pop_front);
            assert_eq!(next, Some(byte), "{seed}: from {from} to {to}");
            true
        };
        let mut number = 0u8;
        for _ in 0..400 {
            let (one, other) = (rng.usize(..3), rng.usize(1..3));
            let other = (one + other) % 3;
            match rng.u32(..10) {
                0..3 => {
                    number = number.wrapping_add(1);
                    // A communicator is there as long as messages are on their way.
                    three.meet(one, other);
                    three.meet(other, one);
                    three.send(one, other, number);
                    sent.entry((one, other)).or_default().push_back(number);
                }
                3..7 => _ = three.step(one),
                7 => _ = check(&mut three, &mut sent, one, other),
                _ => {
                    // One side has no communicator any more; the other one may be late to find that out.
                    let pending = |pair| sent.get(&pair).is_some_and(|sent| !sent.is_empty());
                    if !pending((other, one)) {
                        three.part(one, other);
                    }
                }
            }
        }
        three.run();
        for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            three.meet(to, from);
            while check(&mut three, &mut sent, from, to) {}
        }
        assert!(sent.values().all(VecDeque::is_empty), "{seed}: {sent:?}");
        for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            three.part(from, to);
        }
        three.run();
        three.assert_strangers();
    }
}

/// Two processes without a common lane get one, and then reach each other by it.
#[test]
fn a_lane_that_is_added_carries_messages() {
    let town: Arc<Mutex<Town>> = Arc::default();
    let engines = (0..2).map(|at| engine(at, vec![Box::new(Loopback::default())]));
    let mut two = Neighbours {
        engines: engines.collect(),
        town: town.clone(),
        cards: true,
    };
    two.engines[0].count_all(true);
    for (at, engine) in (0..).zip(&mut two.engines) {
        assert!(engine.card().lanes.is_empty());
        engine.add_lane(street(&town, at, LIMITS, "main"));
        engine.add_lane(street(&town, at + 10, Limits { queue: 160, ..LIMITS }, "side"));
        let card = engine.card();
        let lanes: Vec<_> = card
            .lanes
            .iter()
            .map(|lane| (lane.network.as_str(), lane.window))
            .collect();
        assert_eq!(lanes, [("main", 1024), ("side", 10)]);
    }
    for at in [0, 1] {
        two.meet(at, 1 - at);
        two.send(at, 1 - at, 4);
    }
    two.run();
    for at in [0, 1] {
        assert_eq!(two.receives(at, 1 - at), Some(4));
        two.part(at, 1 - at);
    }
    two.run();
    two.assert_strangers();
}
