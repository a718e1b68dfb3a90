//! One rank's program: it follows the plan, and all its messages go on beside each other, as with many threads.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fastrand::Rng;
use weft::engine::Received;
use weft::engine::buffered::{Attachment, SendBuffer};
use weft::engine::request::{Outcome, RequestId};
use weft::identity::PeerIndex;
use weft::objects::communicator::Communicator;
use weft::objects::errhandler::Errhandler;
use weft::objects::group::Group;
use weft::objects::session::{ProcessSet, Session};
use weft::sim::{Buffer, Rank, join_all, skewed};

use super::model::{Model, Rare};
use super::plan::{Emptying, Ending, Message, Mode, PlannedFate};
use super::rooms::{Leaving, Rooms, room_for};

/// What the actors of a rank share.
#[derive(Clone)]
struct Actor {
    rank: Rank,
    model: Rc<RefCell<Model>>,
    own: Rc<Own>,
}

#[derive(Default)]
struct Own {
    slot: Cell<usize>,
    /// What must be done before the end of each slot.
    owed: RefCell<Vec<u32>>,
    /// Each domain's communicator while this rank has it.
    communicators: RefCell<Vec<Option<Arc<Communicator>>>>,
    sessions: RefCell<Vec<Option<Arc<Session>>>>,
    /// Each domain's buffers of sends whose requests were freed: the user's again at the end of the domain.
    lent: RefCell<Vec<Vec<Buffer>>>,
    rooms: Rooms,
    world_has_ended: Cell<bool>,
}

type Part = Pin<Box<dyn Future<Output = ()>>>;

/// The rank's program.
pub async fn program(rank: Rank, mut rng: Rng, model: Rc<RefCell<Model>>) {
    let me = rank.me().number();
    let (slots, domains, sessions) = {
        let plan = &model.borrow().plan;
        (plan.slots, plan.domains.len(), plan.sessions[me as usize].len())
    };
    let own = Own::default();
    own.owed.borrow_mut().resize(slots, 0);
    own.communicators.borrow_mut().resize(domains, None);
    own.sessions.borrow_mut().resize(sessions, None);
    own.lent.borrow_mut().resize_with(domains, Vec::new);
    let actor = Actor {
        rank: rank.clone(),
        model: model.clone(),
        own: Rc::new(own),
    };
    let mut parts: Vec<Part> = Vec::new();
    let messages = model.borrow().plan.messages.clone();
    for (at, &message) in messages.iter().enumerate() {
        if message.from == me && message.kind != PlannedFate::Vain {
            let ends = match message.kind {
                PlannedFate::Waited { wait } | PlannedFate::GivenUp { wait } => wait,
                PlannedFate::Cancelled { cancel } | PlannedFate::CancelledUnreceived { cancel, .. } => cancel,
                PlannedFate::Freed | PlannedFate::Vain => message.send,
            };
            actor.owe(message.send);
            actor.owe(ends);
            parts.push(Box::pin(actor.clone().sends(rng.fork(), at, message, ends)));
        }
        let unreceived = matches!(message.kind, PlannedFate::CancelledUnreceived { .. });
        if message.to == me && !unreceived && !model.borrow().plan.domains[message.domain].wild {
            actor.owe(message.receive);
            actor.owe(message.received);
            parts.push(Box::pin(actor.clone().receives(rng.fork(), at, message)));
        }
    }
    for domain in 0..domains {
        if model.borrow().plan.sweeps(domain, me) {
            let plan = &model.borrow().plan;
            let place = plan.domains[domain].place(me).expect("a member");
            let (from, until) = (plan.sweeps[domain][place], plan.domains[domain].closes[place]);
            actor.owe(until);
            parts.push(Box::pin(actor.clone().sweeps(rng.fork(), domain, from, until)));
        }
    }
    let emptyings = model.borrow().plan.emptyings.clone();
    for emptying in emptyings.into_iter().filter(|emptying| emptying.rank == me) {
        actor.owe(emptying.begins);
        actor.owe(emptying.ends);
        parts.push(Box::pin(actor.clone().empties(rng.fork(), emptying)));
    }
    let has_world = model
        .borrow()
        .plan
        .domains
        .iter()
        .any(|domain| domain.ending == Ending::World);
    actor.own.world_has_ended.set(!has_world);
    if has_world {
        actor.attaches_for_process(&mut rng);
    }
    parts.push(Box::pin(actor.clone().goes_on(rng.fork())));
    join_all(parts).await;
    let engine = rank.instance().engine();
    assert!(
        engine.has_said_all(),
        "something is left:\n{}",
        engine.describe(&weft::engine::describe::bare)
    );
    drop(engine);
    rank.leave();
}

fn content(tag: i32, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (tag as usize * 31 + at * 7) as u8).collect()
}

impl Actor {
    fn me(&self) -> u32 {
        self.rank.me().number()
    }

    /// Something has to be done before the end of a slot.
    fn owe(&self, slot: usize) {
        self.own.owed.borrow_mut()[slot] += 1;
    }

    /// It is done.
    fn done(&self, slot: usize) {
        assert!(slot >= self.own.slot.get(), "too late for its slot");
        self.own.owed.borrow_mut()[slot] -= 1;
    }

    /// Waits for a slot, and for the communicator of a domain.
    async fn comes_to(&self, rng: &mut Rng, slot: usize, domain: usize) -> Arc<Communicator> {
        self.rank
            .until(|| self.own.slot.get() >= slot && self.own.communicators.borrow()[domain].is_some())
            .await;
        self.dawdles(rng).await;
        self.own.communicators.borrow()[domain]
            .clone()
            .expect("it is kept until everything is done")
    }

    async fn dawdles(&self, rng: &mut Rng) {
        if rng.bool() {
            self.rank.pause(skewed(rng, 16)).await;
        }
    }

    fn cancel(&self, request: RequestId) {
        self.rank.instance().engine().cancel(request);
    }

    /// Waits for a request; cancels it as soon as there is reason to give it up.
    async fn waits(&self, request: RequestId, mut give_up: impl FnMut(&Model) -> bool) -> Outcome {
        let mut given_up = false;
        self.rank
            .until(|| {
                let ended = self.rank.has_ended(request);
                given_up = !ended && give_up(&self.model.borrow());
                ended || given_up
            })
            .await;
        if given_up {
            self.cancel(request);
        }
        self.rank.wait(request).await
    }

    async fn sends(self, mut rng: Rng, at: usize, message: Message, ends: usize) {
        let rng = &mut rng;
        let communicator = self.comes_to(rng, message.send, message.domain).await;
        let buffer = self.rank.buffer(&content(message.tag, message.bytes));
        let to = communicator
            .group()
            .rank_of(PeerIndex::new(message.to))
            .expect("a member");
        self.model.borrow_mut().sent(at);
        let (memory, wanted) = (buffer.memory(), message.kind != PlannedFate::Freed || rng.bool());
        let (request, buffer) = match message.mode {
            Mode::Buffered => {
                let room = self.room(&communicator, message.domain);
                // SAFETY: the buffer is there during the call.
                let request =
                    unsafe { communicator.send_buffered(room.as_ref(), to, message.tag, memory, wanted) };
                (request.expect("nobody dies, and there is room"), None)
            }
            mode => {
                let sync = mode == Mode::Synchronous;
                // SAFETY: the buffer is kept until the send has ended, or the domain.
                let request = unsafe { communicator.send(to, message.tag, memory, sync, true) };
                (request.expect("nobody dies"), Some(buffer))
            }
        };
        drop(communicator);
        self.done(message.send);
        let Some(request) = request else {
            return self.done(ends);
        };
        match message.kind {
            PlannedFate::Freed => {
                if rng.bool() {
                    self.rank.turn().await;
                }
                self.rank.instance().engine().release(request);
                self.own.lent.borrow_mut()[message.domain].extend(buffer);
                return self.done(ends);
            }
            PlannedFate::Cancelled { cancel } | PlannedFate::CancelledUnreceived { cancel, .. } => {
                self.rank.until(|| self.own.slot.get() >= cancel).await;
                self.dawdles(rng).await;
                self.model.borrow_mut().cancels(at);
                // Whether it has ended or not; perhaps twice.
                self.cancel(request);
                if rng.bool() {
                    self.rank.turn().await;
                    self.cancel(request);
                }
                if let PlannedFate::CancelledUnreceived { freed: true, .. } = message.kind {
                    self.rank.instance().engine().release(request);
                    self.own.lent.borrow_mut()[message.domain].extend(buffer);
                    return self.done(ends);
                }
            }
            PlannedFate::GivenUp { .. } => {
                let fate = || self.model.borrow().fates[at];
                self.rank.until(|| fate().unwanted || fate().received != 0).await;
                // Though it may have ended.
                if fate().unwanted {
                    self.cancel(request);
                }
            }
            PlannedFate::Waited { .. } | PlannedFate::Vain => {}
        }
        let outcome = self.rank.wait(request).await;
        assert_eq!(outcome.error, None);
        drop(buffer);
        self.model.borrow_mut().ended(at, outcome.cancelled);
        self.done(ends);
    }

    async fn receives(self, mut rng: Rng, at: usize, message: Message) {
        let rng = &mut rng;
        let communicator = self.comes_to(rng, message.receive, message.domain).await;
        let buffer = self.rank.blank(message.bytes);
        let source = communicator
            .group()
            .rank_of(PeerIndex::new(message.from))
            .expect("a member");
        let named = (!message.any_source).then_some(source);
        // SAFETY: the buffer is kept until the receive has ended.
        let received = unsafe { communicator.receive(named, Some(message.tag), buffer.memory()) };
        drop(communicator);
        self.done(message.receive);
        let outcome = match received.expect("nobody dies") {
            Received::Now(outcome) => outcome,
            Received::Later(request) => {
                if matches!(message.kind, PlannedFate::GivenUp { .. } | PlannedFate::Vain) {
                    self.dawdles(rng).await;
                    self.cancel(request);
                }
                self.waits(request, |model| model.fates[at].ended == Some(true))
                    .await
            }
        };
        assert_eq!(outcome.error, None);
        let mut model = self.model.borrow_mut();
        if outcome.cancelled {
            match message.kind {
                PlannedFate::GivenUp { .. } => model.fates[at].unwanted = true,
                PlannedFate::Cancelled { .. } => assert_eq!(model.fates[at].ended, Some(true)),
                kind => assert_eq!(kind, PlannedFate::Vain),
            }
        } else {
            assert_eq!((outcome.source, outcome.tag), (source as i32, message.tag));
            assert_eq!(outcome.bytes, message.bytes as u64);
            assert_eq!(buffer.bytes(), content(message.tag, message.bytes));
            model.received(at);
        }
        drop(model);
        self.done(message.received);
    }

    /// Receives whatever comes in a domain, some at a time, until nothing more can come.
    async fn sweeps(self, mut rng: Rng, domain: usize, from: usize, until: usize) {
        let rng = &mut rng;
        let communicator = self.comes_to(rng, from, domain).await;
        let messages = self.model.borrow().plan.messages.clone();
        let to_me: Vec<usize> = (0..messages.len())
            .filter(|&at| messages[at].domain == domain && messages[at].to == self.me())
            .collect();
        let longest = to_me.iter().map(|&at| messages[at].bytes).max().unwrap_or(0);
        let together = rng.u32(1..4);
        loop {
            let mut posted = Vec::new();
            for _ in 0..together {
                let buffer = self.rank.blank(longest);
                // SAFETY: the buffer is kept until the receive has ended.
                let received = unsafe { communicator.receive(None, None, buffer.memory()) };
                posted.push((received.expect("nobody dies"), buffer));
            }
            for (received, buffer) in posted {
                let nothing_comes = |model: &Model| !to_me.iter().any(|&at| model.may_come(at));
                let outcome = match received {
                    Received::Now(outcome) => outcome,
                    Received::Later(request) => self.waits(request, nothing_comes).await,
                };
                assert_eq!(outcome.error, None);
                let mut model = self.model.borrow_mut();
                if outcome.cancelled {
                    assert!(nothing_comes(&model));
                    continue;
                }
                let sender = communicator.group().member(outcome.source as u32).number();
                let at = to_me
                    .iter()
                    .find(|&&at| messages[at].tag == outcome.tag && messages[at].from == sender);
                let &at = at.expect("such a message");
                assert_eq!(outcome.bytes, messages[at].bytes as u64);
                let bytes = &buffer.bytes()[..messages[at].bytes];
                assert_eq!(bytes, content(outcome.tag, bytes.len()));
                model.received(at);
                model.overtakes(at);
            }
            if !to_me.iter().any(|&at| self.model.borrow().may_come(at)) {
                break;
            }
            self.dawdles(rng).await;
        }
        drop(communicator);
        self.done(until);
    }

    /// Makes the communicators, passes from slot to slot, and closes what is to be closed.
    async fn goes_on(self, mut rng: Rng) {
        let rng = &mut rng;
        let (slots, domains, sessions) = {
            let plan = &self.model.borrow().plan;
            (
                plan.slots,
                plan.domains.clone(),
                plan.sessions[self.me() as usize].clone(),
            )
        };
        for slot in 0..slots {
            self.own.slot.set(slot);
            let mine = (0..domains.len()).filter(|&at| domains[at].place(self.me()).is_some());
            let made = mine.clone().filter(|&at| domains[at].made == slot);
            join_all(made.map(|at| self.clone().makes(rng.fork(), at))).await;
            self.rank.until(|| self.own.owed.borrow()[slot] == 0).await;
            self.dawdles(rng).await;
            for at in mine {
                let domain = &domains[at];
                if domain.closes(self.me()) == slot {
                    match domain.ending {
                        Ending::World => self.ends_world(rng, at).await,
                        Ending::WorldDisconnect | Ending::SessionDisconnect => self.disconnects(at).await,
                        // Freed; or with its session, below.
                        Ending::WorldFree | Ending::Session => {}
                    }
                }
            }
            for (number, session) in sessions.iter().enumerate() {
                if session.closes == slot {
                    self.ends_session(number, session.domains[session.domains.len() - 1])
                        .await;
                }
            }
        }
    }

    async fn makes(self, mut rng: Rng, at: usize) {
        self.dawdles(&mut rng).await;
        let domain = self.model.borrow().plan.domains[at].clone();
        let members: Vec<PeerIndex> = domain.members.iter().copied().map(PeerIndex::new).collect();
        let made = match domain.ending {
            Ending::World => Some(self.rank.world().clone()),
            Ending::WorldDisconnect | Ending::WorldFree => {
                let world = self.rank.world().clone();
                let made = world.create_group(Group::of(members), at as i32).await;
                made.expect("nobody dies")
            }
            Ending::SessionDisconnect | Ending::Session => {
                let session = self.session_of(at, &mut rng);
                let group = Group::of_session(session.group(ProcessSet::World).session(), members);
                let instance = self.rank.instance().clone();
                let made = Communicator::from_group(instance, group, &format!("{at}")).await;
                let made = made.expect("nobody dies");
                session.connect(made.as_ref().expect("a member"));
                made
            }
        };
        let place = domain.place(self.me()).expect("a member");
        if let Some(made) = made.as_ref().filter(|_| domain.has_room[place]) {
            self.attaches(&mut rng, made.attachment(), |domain| domain == at);
        }
        self.own.communicators.borrow_mut()[at] = made;
    }

    /// Attaches a buffer for the messages of the domains that `concerns`.
    fn attaches(&self, rng: &mut Rng, attachment: &Attachment, concerns: impl Fn(usize) -> bool) {
        let bytes = room_for(&self.model.borrow().plan.messages, self.me(), concerns);
        self.own.rooms.attach(&self.rank, rng, attachment, bytes);
    }

    /// Attaches a buffer to the process.
    fn attaches_for_process(&self, rng: &mut Rng) {
        self.attaches(rng, self.rank.instance().attachment(), |_| true);
    }

    /// The buffer that serves a domain.
    fn room(&self, communicator: &Communicator, domain: usize) -> Option<Arc<SendBuffer>> {
        let of_session = || {
            self.session_number(domain)?;
            self.open_session(domain).attachment().get()
        };
        let of_process = || self.rank.instance().attachment().get();
        communicator
            .attachment()
            .get()
            .or_else(of_session)
            .or_else(of_process)
    }

    /// Detaches the process's buffer, for which there is another one at once; or flushes it.
    async fn empties(self, mut rng: Rng, emptying: Emptying) {
        let rng = &mut rng;
        self.rank.until(|| self.own.slot.get() >= emptying.begins).await;
        self.dawdles(rng).await;
        let attachment = self.rank.instance().attachment();
        let attached = match emptying.detaches {
            true => attachment.take(),
            false => attachment.get(),
        };
        if let Some(buffer) = attached {
            if emptying.detaches {
                self.attaches_for_process(rng);
            }
            let leaving = Leaving::of(&self.rank, buffer);
            if !leaving.is_empty(&self.rank) {
                self.model.borrow_mut().seen.insert(Rare::EmptyingWaited);
            }
            self.done(emptying.begins);
            let empty = leaving.leaves(&self.rank).await;
            if emptying.detaches {
                self.own.rooms.forget(&empty);
            }
        } else {
            self.done(emptying.begins);
        }
        self.done(emptying.ends);
    }

    /// Detaches what the user did not: buffers of what is about to end.
    fn leave_behind<'a>(&self, attachments: impl IntoIterator<Item = &'a Attachment>) -> Vec<Leaving> {
        let taken = attachments.into_iter().filter_map(Attachment::take);
        let leaving: Vec<Leaving> = taken.map(|buffer| Leaving::of(&self.rank, buffer)).collect();
        if leaving.iter().any(|leaving| !leaving.is_empty(&self.rank)) {
            self.model.borrow_mut().seen.insert(Rare::LeftInBuffer);
        }
        leaving
    }

    /// All is over that could have messages in them.
    fn have_left(&self, leaving: Vec<Leaving>) {
        for leaving in leaving {
            let empty = leaving.has_left(&self.rank);
            self.own.rooms.forget(&empty);
        }
    }

    fn session_number(&self, domain: usize) -> Option<usize> {
        let plan = &self.model.borrow().plan;
        let mut sessions = plan.sessions[self.me() as usize].iter();
        sessions.position(|session| session.domains.contains(&domain))
    }

    /// The session of a domain that has been made.
    fn open_session(&self, domain: usize) -> Arc<Session> {
        let number = self.session_number(domain).expect("its session");
        self.own.sessions.borrow()[number].clone().expect("open")
    }

    /// The session of a domain, initialized when it is needed first.
    fn session_of(&self, domain: usize, rng: &mut Rng) -> Arc<Session> {
        let number = self.session_number(domain).expect("its session");
        if let Some(session) = &self.own.sessions.borrow()[number] {
            return session.clone();
        }
        let instance = self.rank.instance();
        let session = Session::new(instance.clone(), Errhandler::Return, None).expect("nothing is asked for");
        let plan = self.model.borrow().plan.sessions[self.me() as usize][number].clone();
        // The World Model's end empties the process's buffer, and waits for no receive that comes later.
        if plan.has_room || !self.own.world_has_ended.get() {
            self.attaches(rng, session.attachment(), |domain| plan.domains.contains(&domain));
        }
        if instance.attachment().get().is_none() {
            self.attaches_for_process(rng);
        }
        self.own.sessions.borrow_mut()[number] = Some(session.clone());
        session
    }

    /// Closes a domain, and those that end with it, by what `closing` does; the user's memory is the user's again.
    async fn closes(&self, domain: usize, mut leaving: Vec<Leaving>, closing: impl Future<Output = ()>) {
        let together = self.model.borrow().closing_with(domain, self.me());
        let mut contexts = Vec::new();
        for &at in &together {
            let communicator = self.own.communicators.borrow_mut()[at].take();
            let communicator = communicator.expect("open until now");
            leaving.extend(self.leave_behind([communicator.attachment()]));
            contexts.push(communicator.context());
            self.model.borrow_mut().enters(at, self.me());
        }
        self.rank.each_turn(closing).await;
        let engine = self.rank.instance().engine();
        assert!(
            !engine.has_freed(|context| contexts.contains(&context.communicator())),
            "freed operations are left:\n{}",
            engine.describe(&weft::engine::describe::bare)
        );
        let left = engine.unexpected().find(|left| contexts.contains(&left.context));
        assert_eq!(left, None, "a message is left");
        drop(engine);
        self.have_left(leaving);
        for &at in &together {
            self.own.lent.borrow_mut()[at].clear();
            self.model.borrow().leaves(at, self.me());
        }
    }

    async fn ends_world(&self, rng: &mut Rng, domain: usize) {
        let instance = self.rank.instance();
        let checks = self.model.borrow().plan.checks;
        let has_sessions = || self.own.sessions.borrow().iter().any(Option::is_some);
        let leaving = self.leave_behind([instance.attachment()]);
        self.closes(domain, leaving, async {
            // As with `WEFT_CHECK=1`, which finds nothing in a correct program.
            let check = checks.then_some(|left: Vec<String>| assert!(left.is_empty(), "{left:?}"));
            // As with a report that all or some were asked for.
            let told = |rank: u32| {
                if rank % 3 == 1 {
                    String::new()
                } else {
                    "told".repeat(rank as usize + 1)
                }
            };
            let ways = Some(told(instance.me().number())).filter(|text| checks && !text.is_empty());
            let ended = Communicator::finalize_world(instance, has_sessions, has_sessions, check, ways).await;
            let ended = ended.expect("nobody dies");
            if checks && instance.me().number() == 0 {
                let expected: Vec<String> = (0..instance.job().size).map(told).collect();
                assert_eq!(ended.ways, expected);
            }
        })
        .await;
        self.own.world_has_ended.set(true);
        if has_sessions() {
            self.attaches_for_process(rng);
        }
    }

    async fn disconnects(&self, domain: usize) {
        let communicator = self.own.communicators.borrow()[domain].clone().expect("open");
        self.closes(domain, Vec::new(), async {
            let disconnected =
                Communicator::disconnect_all(self.rank.instance(), vec![communicator.clone()]).await;
            disconnected.expect("nobody dies");
        })
        .await;
        if communicator.group().session() != 0 {
            self.open_session(domain).disconnect(&communicator);
        }
    }

    async fn ends_session(&self, number: usize, last: usize) {
        let session = self.own.sessions.borrow_mut()[number].take().expect("open");
        let open = self.own.communicators.borrow().iter().flatten().count();
        let together = self.model.borrow().closing_with(last, self.me()).len();
        {
            let seen = &mut self.model.borrow_mut().seen;
            if open > together {
                seen.insert(Rare::Beside);
            }
            if together > 1 {
                seen.insert(Rare::Shared);
            }
        }
        let mut leaving = self.leave_behind([session.attachment()]);
        let others = self.own.sessions.borrow().iter().any(Option::is_some);
        if self.own.world_has_ended.get() && !others {
            leaving.extend(self.leave_behind([self.rank.instance().attachment()]));
        }
        if self.model.borrow().plan.domains[last].ending == Ending::Session {
            self.closes(last, leaving, async {
                session.finalize().await.expect("nobody dies")
            })
            .await;
        } else {
            // All was disconnected: it must not wait for anybody.
            let mut ending = Box::pin(session.finalize());
            let mut context = Context::from_waker(Waker::noop());
            let Poll::Ready(ended) = ending.as_mut().poll(&mut context) else {
                panic!("the end of a session without communicators waits");
            };
            ended.expect("nobody dies");
            self.have_left(leaving);
            self.model.borrow_mut().seen.insert(Rare::Local);
        }
    }
}
