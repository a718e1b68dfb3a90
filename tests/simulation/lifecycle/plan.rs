//! A random program that keeps to the standard's rules, so that it must come to its end.
//!
//! Time is cut into slots, the same for all ranks. At the end of a slot at most one *domain* is closed: the World Model,
//! or a communicator that is disconnected or left to the end of its session. All that a rank does in a slot depends only
//! on what others do in the same slot or before, so nobody waits in a circle.
//!
//! A session may hold several communicators that others hold in sessions of their own. Its end comes at the slot of the
//! first of them, waits for all, and so reaches up to the slot of the last: its rank does nothing else in the slots
//! between (the three processes of MPI 5.0 section 11.3.1).

use fastrand::Rng;
use weft::sim::skewed;

pub const TAGS_FROM: i32 = 100;

/// How a domain ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// `MPI_Finalize`
    World,
    /// A communicator of the World Model that is disconnected before.
    WorldDisconnect,
    /// A communicator of the World Model that is freed, and ends with it.
    WorldFree,
    /// A communicator of a session that is disconnected before.
    SessionDisconnect,
    /// A communicator that ends with its session, whether it was freed or not.
    Session,
}

#[derive(Clone, Debug)]
pub struct Domain {
    pub ending: Ending,
    pub members: Vec<u32>,
    /// In which slot it is made; the world is there from the start.
    pub made: usize,
    /// The slot at whose end each member closes it.
    pub closes: Vec<usize>,
    /// Receives name neither source nor tag; otherwise each names its message's tag.
    pub wild: bool,
    /// Of each member: whether it attaches a buffer to the communicator.
    pub has_room: Vec<bool>,
}

impl Domain {
    pub fn place(&self, rank: u32) -> Option<usize> {
        self.members.iter().position(|&member| member == rank)
    }

    pub fn closes(&self, rank: u32) -> usize {
        self.closes[self.place(rank).expect("a member")]
    }

    pub fn is_of_session(&self) -> bool {
        matches!(self.ending, Ending::Session | Ending::SessionDisconnect)
    }
}

/// One session of a rank.
#[derive(Clone, Debug)]
pub struct SessionPlan {
    pub domains: Vec<usize>,
    /// At the end of which slot it is finalized.
    pub closes: usize,
    /// Whether a buffer is attached to it.
    pub has_room: bool,
}

/// A rank's process buffer is detached, or flushed, and that has ended before the end of a slot by which all receives for
/// what may be in it have been posted.
#[derive(Clone, Copy, Debug)]
pub struct Emptying {
    pub rank: u32,
    /// Otherwise it is only flushed.
    pub detaches: bool,
    pub begins: usize,
    pub ends: usize,
}

/// What happens to a message; the slots are those before whose end it happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlannedFate {
    /// Sent and waited for.
    Waited { wait: usize },
    /// Sent, and the request is freed.
    Freed,
    /// Sent, and cancelled; a receive takes it or learns that it is gone.
    Cancelled { cancel: usize },
    /// Sent, and cancelled; there is no receive. `freed`: nobody waits for the end of the cancel but finalize.
    CancelledUnreceived { cancel: usize, freed: bool },
    /// The receive is cancelled; if it is taken back, so is the send.
    GivenUp { wait: usize },
    /// A receive without a send, which is cancelled.
    Vain,
}

/// How a message is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Standard,
    Synchronous,
    /// From the first buffer that is attached to the communicator, its session, or the process.
    Buffered,
}

#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub domain: usize,
    pub from: u32,
    pub to: u32,
    pub tag: i32,
    pub bytes: usize,
    pub mode: Mode,
    pub kind: PlannedFate,
    /// The slot of the send.
    pub send: usize,
    /// The slot of the receive.
    pub receive: usize,
    /// Before the end of which slot the receive has ended.
    pub received: usize,
    pub any_source: bool,
}

impl Message {
    /// The slot before whose end all is done that its send waits for.
    fn leaves(&self) -> usize {
        match self.kind {
            PlannedFate::Waited { .. } | PlannedFate::Freed | PlannedFate::Vain => {
                self.send.max(self.receive)
            }
            PlannedFate::GivenUp { wait } => wait,
            PlannedFate::Cancelled { cancel } | PlannedFate::CancelledUnreceived { cancel, .. } => cancel,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub ranks: u32,
    /// Whether the end of the World Model looks for messages that nobody has received.
    pub checks: bool,
    pub slots: usize,
    pub domains: Vec<Domain>,
    /// Of each rank, in the order in which they are finalized.
    pub sessions: Vec<Vec<SessionPlan>>,
    pub messages: Vec<Message>,
    /// Of each domain and member: the slot from which a wild domain's messages are received.
    pub sweeps: Vec<Vec<usize>>,
    pub emptyings: Vec<Emptying>,
}

impl Plan {
    pub fn random(seed: u64) -> Plan {
        let rng = &mut Rng::with_seed(seed ^ 0x6c69_6665);
        let ranks = rng.u32(1..=6);
        let slots = rng.u32(1..=6) as usize;
        let world = (rng.u32(..5) != 0).then(|| rng.u32(..slots as u32) as usize);
        let mut domains: Vec<Domain> = (0..slots)
            .map(|slot| closed_at(rng, ranks, slot, world))
            .collect();
        if let Some(world) = world {
            for _ in 0..rng.u32(..4) {
                let mut freed = closed_at(rng, ranks, world, None);
                freed.ending = Ending::WorldFree;
                domains.push(freed);
            }
        }
        let mut plan = Plan {
            ranks,
            checks: rng.u32(..4) == 0,
            slots,
            domains,
            sessions: Vec::new(),
            messages: Vec::new(),
            sweeps: Vec::new(),
            emptyings: Vec::new(),
        };
        let free: Vec<Vec<bool>> = (0..ranks).map(|rank| plan.draw_sessions(rng, rank)).collect();
        for at in 0..plan.domains.len() {
            plan.draw_domain(rng, at, &free);
        }
        for rank in 0..ranks {
            for _ in 0..rng.u32(..3) {
                let emptying = plan.draw_emptying(rng, rank, &free[rank as usize]);
                plan.emptyings.extend(emptying);
            }
        }
        plan
    }

    fn draw_emptying(&self, rng: &mut Rng, rank: u32, free: &[bool]) -> Option<Emptying> {
        let begins = pick(rng, free, 0, self.slots - 1);
        let mine = self.messages.iter().filter(|message| {
            message.from == rank && message.mode == Mode::Buffered && message.send <= begins
        });
        let left = mine.map(Message::leaves).max().unwrap_or(0).max(begins);
        let ends = pick(rng, free, left, self.slots - 1);
        (ends >= left).then_some(Emptying {
            rank,
            detaches: rng.bool(),
            begins,
            ends,
        })
    }

    /// Puts a rank's communicators into sessions. Gives the slots in which it is free to act.
    fn draw_sessions(&mut self, rng: &mut Rng, rank: u32) -> Vec<bool> {
        let mut free = vec![true; self.slots];
        let mut sessions: Vec<SessionPlan> = Vec::new();
        // The last session can still take communicators; and the slot of the first one that ends with it.
        let mut open = false;
        let mut first: Option<usize> = None;
        for slot in 0..self.slots {
            let domain = &mut self.domains[slot];
            let Some(place) = domain.place(rank) else {
                continue;
            };
            if !domain.is_of_session() {
                // What ends here must not lie within the end of a session.
                open &= first.is_none();
                continue;
            }
            if domain.ending == Ending::SessionDisconnect {
                open &= first.is_none();
            }
            if !open || rng.u32(..3) == 0 {
                sessions.push(SessionPlan {
                    domains: Vec::new(),
                    closes: slot,
                    has_room: rng.bool(),
                });
                (open, first) = (true, None);
            }
            let session = sessions.last_mut().expect("just made");
            session.domains.push(slot);
            if domain.ending == Ending::Session {
                match first {
                    Some(first) => {
                        domain.closes[place] = first;
                        free[first + 1..=slot].fill(false);
                    }
                    None => first = Some(slot),
                }
                session.closes = first.expect("just set");
            } else {
                session.closes = slot;
            }
        }
        // Sessions of which all was disconnected end when they like.
        for session in &mut sessions {
            let local = |&at: &usize| self.domains[at].ending == Ending::SessionDisconnect;
            if session.domains.iter().all(local) {
                session.closes = pick(rng, &free, session.closes, self.slots - 1);
            }
        }
        sessions.sort_by_key(|session| session.closes);
        self.sessions.push(sessions);
        free
    }

    /// When a domain is made, and its messages.
    fn draw_domain(&mut self, rng: &mut Rng, at: usize, free: &[Vec<bool>]) {
        let domain = &mut self.domains[at];
        let last = *domain.closes.iter().min().expect("has members");
        if domain.ending != Ending::World {
            let all_free: Vec<bool> = (0..self.slots)
                .map(|slot| domain.members.iter().all(|&member| free[member as usize][slot]))
                .collect();
            domain.made = pick(rng, &all_free, 0, last);
        }
        let domain = &*domain;
        let sweeps: Vec<usize> = domain
            .members
            .iter()
            .map(|&member| pick(rng, &free[member as usize], domain.made, domain.closes(member)))
            .collect();
        for number in 0..rng.i32(0..12) {
            let member = |rng: &mut Rng| domain.members[rng.u32(..domain.members.len() as u32) as usize];
            let (from, to) = (member(rng), member(rng));
            let (free_from, free_to) = (&free[from as usize], &free[to as usize]);
            let (ends_from, ends_to) = (domain.closes(from), domain.closes(to));
            let mut receive = pick(rng, free_to, domain.made, ends_to);
            let mut send_until = receive.min(ends_from);
            if domain.wild {
                receive = sweeps[domain.place(to).expect("a member")];
                send_until = ends_to.min(ends_from);
            }
            let mut send = pick(rng, free_from, domain.made, send_until);
            let mut kind = match rng.u32(..if domain.wild { 6 } else { 10 }) {
                0 | 1 => PlannedFate::Waited { wait: 0 },
                2 | 3 => PlannedFate::Freed,
                4 | 5 => PlannedFate::Cancelled { cancel: 0 },
                6 | 7 => PlannedFate::CancelledUnreceived {
                    cancel: 0,
                    freed: rng.u32(..3) == 0,
                },
                8 => PlannedFate::GivenUp { wait: 0 },
                _ => PlannedFate::Vain,
            };
            // Who waits for a receive comes to that slot no earlier than the receiver.
            let can_wait = (receive.max(send)..=ends_from).any(|slot| free_from[slot]);
            let waits = matches!(kind, PlannedFate::Waited { .. } | PlannedFate::GivenUp { .. });
            if waits && !can_wait {
                if domain.wild {
                    kind = PlannedFate::Freed;
                } else {
                    receive = domain.made;
                    send = domain.made;
                }
            }
            let mut settled = send;
            match &mut kind {
                PlannedFate::Waited { wait } | PlannedFate::GivenUp { wait } => {
                    *wait = pick(rng, free_from, receive.max(send), ends_from);
                }
                PlannedFate::Cancelled { cancel } => {
                    *cancel = pick(rng, free_from, send, ends_from.min(ends_to));
                    settled = *cancel;
                }
                PlannedFate::CancelledUnreceived { cancel, .. } => {
                    *cancel = pick(rng, free_from, send, ends_from)
                }
                PlannedFate::Freed | PlannedFate::Vain => {}
            }
            // Whoever waits for a receive must not do so before the message's fate can be settled.
            let received = match kind {
                PlannedFate::GivenUp { .. } => receive,
                _ => pick(rng, free_to, receive.max(settled).min(ends_to), ends_to),
            };
            self.messages.push(Message {
                domain: at,
                from,
                to,
                tag: TAGS_FROM + number,
                bytes: skewed(rng, 12) as usize,
                mode: match rng.u32(..4) {
                    0 => Mode::Synchronous,
                    1 => Mode::Buffered,
                    _ => Mode::Standard,
                },
                kind,
                send,
                receive,
                received,
                any_source: rng.bool(),
            });
        }
        self.sweeps.push(sweeps);
    }

    /// Whether a rank receives the messages to it in a domain as they come.
    pub fn sweeps(&self, domain: usize, rank: u32) -> bool {
        self.domains[domain].wild
            && self
                .messages
                .iter()
                .any(|message| message.domain == domain && message.to == rank)
    }
}

/// A domain that all its members close at the end of a slot.
fn closed_at(rng: &mut Rng, ranks: u32, slot: usize, world: Option<usize>) -> Domain {
    let mut members: Vec<u32> = (0..ranks).collect();
    let ending = if world == Some(slot) {
        Ending::World
    } else {
        rng.shuffle(&mut members);
        let most = if rng.bool() { ranks } else { ranks.min(3) };
        members.truncate(rng.u32(1..=most) as usize);
        match rng.u32(..6) {
            0 if world.is_some_and(|world| slot < world) => Ending::WorldDisconnect,
            0..3 => Ending::SessionDisconnect,
            _ => Ending::Session,
        }
    };
    Domain {
        ending,
        has_room: members.iter().map(|_| rng.u32(..3) == 0).collect(),
        closes: vec![slot; members.len()],
        members,
        made: 0,
        wild: rng.u32(..3) == 0,
    }
}

/// One of the slots from `first` to `last` that are free; the latest free one before, if there is none.
fn pick(rng: &mut Rng, free: &[bool], first: usize, last: usize) -> usize {
    let choice: Vec<usize> = (first..=last).filter(|&slot| free[slot]).collect();
    match choice.is_empty() {
        false => choice[rng.u32(..choice.len() as u32) as usize],
        true => (0..=first)
            .rev()
            .find(|&slot| free[slot])
            .expect("the first is free"),
    }
}
