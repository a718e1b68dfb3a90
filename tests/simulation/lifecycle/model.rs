//! What must become of each message, and who has come how far.

use rustc_hash::{FxHashMap, FxHashSet};

use super::plan::{Ending, Message, Mode, Plan, PlannedFate};

/// What is known of one message. All ranks look at it, so that one that would wait in vain can give up.
#[derive(Clone, Copy, Default, Debug)]
pub struct Fate {
    /// When it was sent, among the messages of its sender.
    pub order: Option<u32>,
    /// How the wait for the send has ended: cancelled or not.
    pub ended: Option<bool>,
    pub received: u32,
    /// The receive was taken back.
    pub unwanted: bool,
}

/// What is rare, and must have happened in many runs, or they prove little.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rare {
    /// A cancel came too late.
    CancelledInVain,
    /// It came in time.
    Cancelled,
    /// A send was cancelled while its receiver was in finalize or disconnect.
    CancelledInFinalize,
    /// A receive was taken back, and so the send.
    GivenUp,
    /// A message was received while its sender was in finalize or disconnect, which has to wait for that.
    FinalizeWaited,
    /// A session's message was received only after the World Model had ended, for the receiver and the sender.
    OutlivedWorld,
    /// A session ended with several communicators, which others had in several sessions.
    Shared,
    /// Several sessions, or one and the World Model, were open at the end of a session.
    Beside,
    /// A session ended locally.
    Local,
    /// A message was cancelled that was in the sender's buffer.
    CancelledInBuffer,
    /// Detaching or flushing a buffer had to wait for its messages.
    EmptyingWaited,
    /// There were messages in a buffer that nobody had detached, at the end of what it was attached to.
    LeftInBuffer,
}

impl Rare {
    pub const ALL: [Rare; 12] = [
        Rare::CancelledInVain,
        Rare::Cancelled,
        Rare::CancelledInFinalize,
        Rare::GivenUp,
        Rare::FinalizeWaited,
        Rare::OutlivedWorld,
        Rare::Shared,
        Rare::Beside,
        Rare::Local,
        Rare::CancelledInBuffer,
        Rare::EmptyingWaited,
        Rare::LeftInBuffer,
    ];
}

/// The state of a run, as seen from outside.
pub struct Model {
    pub plan: Plan,
    pub fates: Vec<Fate>,
    /// Of each domain and rank: whether it has begun to close it.
    entered: Vec<Vec<bool>>,
    orders: u32,
    pub seen: FxHashSet<Rare>,
    /// Of each domain, sender and receiver: the latest `order` that a wild receive has taken.
    latest: FxHashMap<(usize, u32, u32), u32>,
}

impl Model {
    pub fn new(plan: Plan) -> Model {
        Model {
            fates: vec![Fate::default(); plan.messages.len()],
            entered: vec![vec![false; plan.ranks as usize]; plan.domains.len()],
            orders: 0,
            seen: FxHashSet::default(),
            latest: FxHashMap::default(),
            plan,
        }
    }

    /// A message is about to be sent.
    pub fn sent(&mut self, message: usize) {
        self.fates[message].order = Some(self.orders);
        self.orders += 1;
    }

    /// A send is about to be cancelled.
    pub fn cancels(&mut self, message: usize) {
        let Message { domain, to, .. } = self.plan.messages[message];
        if self.entered[domain][to as usize] {
            self.seen.insert(Rare::CancelledInFinalize);
        }
    }

    /// A send that was waited for has ended.
    pub fn ended(&mut self, message: usize, cancelled: bool) {
        let fate = &mut self.fates[message];
        assert_eq!(fate.ended, None);
        fate.ended = Some(cancelled);
        assert!(!(cancelled && fate.received != 0), "received, and cancelled");
        let Message { kind, mode, .. } = self.plan.messages[message];
        if cancelled && mode == Mode::Buffered {
            self.seen.insert(Rare::CancelledInBuffer);
        }
        match kind {
            PlannedFate::Waited { .. } => assert!(!cancelled, "nobody has cancelled it"),
            PlannedFate::CancelledUnreceived { .. } => assert!(cancelled, "nobody can have received it"),
            PlannedFate::Cancelled { .. } => {
                self.seen.insert(match cancelled {
                    true => Rare::Cancelled,
                    false => Rare::CancelledInVain,
                });
            }
            PlannedFate::GivenUp { .. } if cancelled => {
                self.seen.insert(Rare::GivenUp);
            }
            PlannedFate::GivenUp { .. } => {}
            PlannedFate::Freed | PlannedFate::Vain => panic!("nobody waits for it"),
        }
    }

    /// A receive has got a message.
    pub fn received(&mut self, message: usize) {
        let fate = &mut self.fates[message];
        assert!(fate.order.is_some(), "received before it was sent");
        assert_ne!(fate.ended, Some(true), "cancelled, and received");
        fate.received += 1;
        assert_eq!(fate.received, 1, "received twice");
        let Message {
            domain,
            from,
            to,
            kind,
            ..
        } = self.plan.messages[message];
        assert!(
            !matches!(kind, PlannedFate::CancelledUnreceived { .. } | PlannedFate::Vain),
            "no receive was for it"
        );
        if self.entered[domain][from as usize] {
            self.seen.insert(Rare::FinalizeWaited);
        }
        let domains = &self.plan.domains;
        let world = domains.iter().position(|other| other.ending == Ending::World);
        if domains[domain].is_of_session()
            && world.is_some_and(|world| [from, to].iter().all(|&rank| self.entered[world][rank as usize]))
        {
            self.seen.insert(Rare::OutlivedWorld);
        }
    }

    /// A receive that takes anything has got a message; such receives are told of in the order in which they were posted.
    pub fn overtakes(&mut self, message: usize) {
        let Message { domain, from, to, .. } = self.plan.messages[message];
        let order = self.fates[message].order;
        let before = self.latest.insert((domain, from, to), order.expect("received"));
        assert!(before < order, "it has overtaken another");
    }

    /// Whether a receive may still get the message.
    pub fn may_come(&self, message: usize) -> bool {
        let fate = &self.fates[message];
        fate.ended != Some(true) && fate.received == 0
    }

    /// Whether what the standard promises has come true.
    pub fn is_settled(&self, message: usize) -> bool {
        let fate = &self.fates[message];
        match self.plan.messages[message].kind {
            PlannedFate::Waited { .. } => fate.ended == Some(false) && fate.received == 1,
            PlannedFate::Freed => fate.received == 1,
            PlannedFate::Cancelled { .. } | PlannedFate::GivenUp { .. } => fate
                .ended
                .is_some_and(|cancelled| cancelled != (fate.received == 1)),
            PlannedFate::CancelledUnreceived { freed, .. } => {
                (freed || fate.ended == Some(true)) && fate.received == 0
            }
            PlannedFate::Vain => fate.received == 0,
        }
    }

    /// The domains that end together with one at a rank.
    pub fn closing_with(&self, domain: usize, rank: u32) -> Vec<usize> {
        let plan = &self.plan;
        match plan.domains[domain].ending {
            Ending::World => (0..plan.domains.len())
                .filter(|&at| plan.domains[at].place(rank).is_some())
                .filter(|&at| matches!(plan.domains[at].ending, Ending::World | Ending::WorldFree))
                .collect(),
            Ending::Session => {
                let sessions = plan.sessions[rank as usize].iter();
                let session = sessions.clone().find(|session| session.domains.contains(&domain));
                let domains = session.expect("its session").domains.iter().copied();
                domains
                    .filter(|&at| plan.domains[at].ending == Ending::Session)
                    .collect()
            }
            _ => vec![domain],
        }
    }

    /// A rank begins to close a domain.
    pub fn enters(&mut self, domain: usize, rank: u32) {
        self.entered[domain][rank as usize] = true;
    }

    /// A rank has closed a domain: everybody has come to that, and all its messages have met their fates.
    pub fn leaves(&self, domain: usize, rank: u32) {
        for &member in &self.plan.domains[domain].members {
            assert!(
                self.entered[domain][member as usize],
                "rank {rank} has closed domain {domain} before rank {member} came to it"
            );
        }
        for (at, message) in self.plan.messages.iter().enumerate() {
            assert!(
                message.domain != domain || self.is_settled(at),
                "rank {rank} has closed domain {domain}, but: {message:?}: {:?}",
                self.fates[at]
            );
        }
    }

    /// At the end of the run.
    pub fn check(&self) {
        for (at, message) in self.plan.messages.iter().enumerate() {
            assert!(self.is_settled(at), "{message:?}: {:?}", self.fates[at]);
        }
    }
}
