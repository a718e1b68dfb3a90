//! Engines of several jobs, in one process, that send to each other over a lane of this test's.

use super::*;

/// What happens in a town: engines of several jobs, in one process.
#[derive(Default)]
pub(super) struct Town {
    /// From and to, by address.
    pub(super) letters: FxHashMap<(u32, u32), VecDeque<Vec<u8>>>,
    /// How many messages of each kind each has sent.
    pub(super) kinds: FxHashMap<(u32, u8), u32>,
    pub(super) disconnected: FxHashMap<u32, u32>,
    pub(super) released: Vec<(u32, ProcessName, bool)>,
    /// Nobody takes letters of these.
    pub(super) full: Vec<u32>,
}

pub(super) struct Street {
    pub(super) me: u32,
    pub(super) limits: Limits,
    pub(super) town: Arc<Mutex<Town>>,
    pub(super) peers: FxHashMap<PeerIndex, u32>,
    pub(super) name: String,
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
pub(super) struct Neighbours {
    pub(super) town: Arc<Mutex<Town>>,
    pub(super) engines: Vec<Engine>,
    /// Whether business cards come with the communicators.
    pub(super) cards: bool,
}

pub(super) const LIMITS: Limits = Limits {
    buffered: 1000,
    message: 1000,
    header: crate::lane::HEADER_BYTES,
    piece: 1000,
    ordered: true,
    rma: false,
    write: false,
    atomics: crate::lane::atomic::Atomics::None,
    needs_target: true,
    ends_with_receipt: false,
    rma_from: usize::MAX,
    read_run: usize::MAX,
    register_run: usize::MAX,
    eager: 500,
    pipelined: 0,
    queue: usize::MAX,
};

impl Neighbours {
    pub(super) fn new(count: u32, ordered: bool) -> Neighbours {
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

    pub(super) fn peer(&self, from: usize, to: usize) -> PeerIndex {
        let name = name(10 + to as u64, 0);
        self.engines[from].directory().place(name).expect("a place")
    }

    pub(super) fn meet(&mut self, one: usize, other: usize) {
        let peer = self.peer(one, other);
        self.engines[one].meet(peer);
    }

    pub(super) fn part(&mut self, one: usize, other: usize) {
        let peer = self.peer(one, other);
        self.engines[one].part(peer);
    }

    pub(super) fn send(&mut self, from: usize, to: usize, byte: u8) {
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

    pub(super) fn receives(&mut self, to: usize, from: usize) -> Option<u8> {
        let peer = self.peer(to, from);
        receive_of(&mut self.engines[to], peer, from as u32).map(|bytes| bytes[0])
    }

    /// Makes progress of one; `true`: something happened.
    pub(super) fn step(&mut self, at: usize) -> bool {
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

    /// A part of the way.
    pub(super) fn run_some(&mut self) {
        for _ in 0..20 {
            (0..self.engines.len()).for_each(|at| _ = self.step(at));
        }
    }

    pub(super) fn run(&mut self) {
        for _ in 0..1000 {
            let any = (0..self.engines.len()).fold(false, |any, at| self.step(at) | any);
            if !any {
                return;
            }
        }
        panic!("it does not end");
    }

    pub(super) fn said(&self, at: u32, kind: MessageKind) -> u32 {
        let town = self.town.lock();
        town.kinds.get(&(at, kind.number())).copied().unwrap_or(0)
    }

    /// Nothing at all is known of others any more.
    pub(super) fn assert_strangers(&self) {
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

pub(super) fn street(town: &Arc<Mutex<Town>>, me: u32, limits: Limits, name: &str) -> Box<Street> {
    Box::new(Street {
        me,
        limits,
        town: town.clone(),
        peers: FxHashMap::default(),
        name: name.into(),
    })
}

pub(super) fn engine(at: u32, lanes: Vec<Box<dyn Lane>>) -> Engine {
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
