//! A mailbox of each process in the memory that the processes of a host share: by it a process asks another one, whose memory it does not see,
//! to do a few short operations at once.
//!
//! Where the kernel copies ([`Way::Attach`]), a system call takes longer than the target needs if it is in a call of MPI, and updates of
//! elements are always the target's. So the operations, a batch as in messages ([`super::message`]), are written into this process's mailbox, and
//! a word of the target's bell says that there is something. A target that makes progress looks at its bell, does the operations, and writes into
//! the same lines what they fetch or what is wrong with them. If it does not begin soon, the operations are withdrawn, go another way, and nobody
//! is asked for a while. Whether they are done or withdrawn is decided by who is the first to change the mailbox's state.
//!
//! ```text
//!   0 state: number << 8 | who is asked << 2 | stage (8)   8 bytes of the batch, later of an error (4)   12 phase (4)   16 the batch, later what it fetches
//! ```
//!
//! What others write is input and is checked as a message is.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use smallvec::SmallVec;

use super::members::Way;
use super::message::{self, Code};
use super::segments::Segments;
use super::target::{Served, error_of, told};
use super::{Origin, Window};
use crate::base::bytes::{RawBytes, RawRoom};
use crate::base::error::Result;
use crate::data::memory::Memory;
use crate::data::pieces::Piece;
use crate::err;
use crate::system::shared_memory::Map;

/// The bytes of a mailbox, a multiple of a cache line.
pub const BYTES: usize = 1 << 10;
/// The most bytes of a batch, and of what it fetches.
pub const ROOM: usize = BYTES - HEAD;

const HEAD: usize = 16;
const AT_LEN: usize = 8;
const AT_PHASE: usize = 12;

/// So often it is looked whether a target has begun: some microseconds, as long as a system call takes where the system checks much. A target that
/// is in a call of MPI needs less than one.
const LOOKS: u32 = 128;
/// So many of these are without a pause.
const SOON: u32 = 32;
/// From then on other processes run in between, and after so many looks it is asked whether the target exists.
const LIVES: u32 = 1 << 12;
/// After so many times in a row that a target has not begun the pauses do not become longer: 2 to the power of that.
const REFUSED: u32 = 6;

/// What has become of the batch with a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Its target may begin.
    Asked = 0,
    /// Its target has begun.
    Begun = 1,
    /// It is done.
    Done = 2,
    /// It will not be done.
    Left = 3,
}

/// A batch: its number, from 1, and the place of the target that is asked. A bell may still ring at one that was asked for the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Name {
    number: u64,
    target: u32,
}

/// Targets have places below this.
pub const TARGETS: u32 = 64;

impl Name {
    /// The state of the batch.
    fn at(self, stage: Stage) -> u64 {
        self.number << 8 | u64::from(self.target % TARGETS) << 2 | stage as u64
    }

    fn of_state(state: u64) -> Name {
        Name {
            number: state >> 8,
            target: (state >> 2) as u32 % TARGETS,
        }
    }
}

impl Stage {
    fn in_state(state: u64) -> Stage {
        match state & 3 {
            0 => Stage::Asked,
            1 => Stage::Begun,
            2 => Stage::Done,
            _ => Stage::Left,
        }
    }
}

/// The bytes of a bell.
pub const BELL: usize = WORDS as usize * 8;
const WORDS: u32 = 8;

/// Some words, of which a process sets one when it has asked for something: that of its place modulo their number. What is set may be lost if
/// several processes share a word; then who has set it withdraws what it asks for.
#[derive(Clone, Copy)]
pub struct Bell<'a> {
    map: &'a Map,
    at: usize,
    /// How many processes there are.
    size: u32,
}

impl<'a> Bell<'a> {
    /// # Panics
    /// If it is not within the mapping.
    pub(super) fn new(map: &'a Map, at: usize, size: u32) -> Bell<'a> {
        assert!(map.has(at, BELL), "within the mapping");
        Bell { map, at, size }
    }

    pub(super) fn at(self) -> usize {
        self.at
    }

    /// So many words are ever set.
    pub(super) fn words(self) -> usize {
        self.size.min(WORDS) as usize
    }

    #[inline]
    fn word(self, word: u32) -> &'a AtomicU64 {
        self.map.u64(self.at + word as usize * 8)
    }

    /// Whether somebody has said so since the last answer.
    #[inline]
    fn rings(self) -> bool {
        (0..self.words() as u32).any(|word| self.word(word).load(Ordering::Relaxed) != 0)
    }

    /// Said by the process at a place. No instruction that locks: it would wait until what was written before can be seen.
    #[inline]
    fn ring(self, place: u32) {
        // Release: who sees it sees what is asked for.
        self.word(place % WORDS).store(1, Ordering::Release);
    }

    /// Calls with the places whose words are set. `true`: for one of them, something was done.
    #[inline]
    fn answer(self, mut serve: impl FnMut(u32) -> bool) -> bool {
        let mut any = false;
        for word in 0..self.words() as u32 {
            if self.word(word).load(Ordering::Acquire) == 0 {
                continue;
            }
            let mut serve_all = || {
                let places = (word..self.size).step_by(WORDS as usize);
                places.fold(false, |any, place| serve(place) | any)
            };
            // At once, as somebody waits.
            any |= serve_all();
            // What was asked for before the word is clear is seen below.
            self.word(word).swap(0, Ordering::AcqRel);
            any |= serve_all();
        }
        any
    }
}

/// See the module.
#[derive(Clone, Copy)]
pub struct Mailbox<'a> {
    map: &'a Map,
    at: usize,
}

impl<'a> Mailbox<'a> {
    /// # Panics
    /// If it is not within the mapping.
    pub(super) fn new(map: &'a Map, at: usize) -> Mailbox<'a> {
        assert!(map.has(at, BYTES), "within the mapping");
        Mailbox { map, at }
    }

    #[inline]
    fn state(self) -> &'a AtomicU64 {
        self.map.u64(self.at)
    }

    /// Bytes of the batch, and later of an error.
    #[inline]
    fn len(self) -> &'a AtomicU32 {
        self.map.u32(self.at + AT_LEN)
    }

    fn contents(self) -> *mut u8 {
        self.map.base().as_ptr().wrapping_add(self.at + HEAD)
    }

    /// Where the batch is, and what it fetches comes.
    fn bytes(self) -> RawBytes<'a> {
        // SAFETY: within the mapping, as `new` has looked, which outlives the result.
        unsafe { RawBytes::new(self.contents(), ROOM) }
    }

    /// Said by its owner: the batch, which fits, is to be done.
    fn ask(self, name: Name, phase: usize, batch: &[u8]) {
        assert!(batch.len() <= ROOM);
        // SAFETY: within the mapping, and it is the owner's as long as no target may begin. One that did not look at the state first would read
        // what makes no sense.
        let room = unsafe { RawRoom::new(self.contents(), batch.len()) };
        room.fill_from(batch);
        self.len().store(batch.len() as u32, Ordering::Relaxed);
        self.map
            .u32(self.at + AT_PHASE)
            .store(phase as u32, Ordering::Relaxed);
        // Release: whoever begins sees the batch.
        self.state().store(name.at(Stage::Asked), Ordering::Release);
    }

    /// Said by its owner. `false`: the target has begun.
    fn withdraw(self, name: Name) -> bool {
        self.change(name, Stage::Asked, Stage::Left)
    }

    /// From one stage to the next. `false`: it is not in that one.
    fn change(self, name: Name, from: Stage, to: Stage) -> bool {
        let (from, to) = (name.at(from), name.at(to));
        // Release: the owner sees what was written before. Acquire: whoever begins sees the batch.
        self.state()
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Acquire: what a target has written is there when it is done.
    #[inline]
    fn stage(self) -> Stage {
        Stage::in_state(self.state().load(Ordering::Acquire))
    }

    /// Said by a target: the name, the phase and the batch, if there is one to begin with.
    fn begin(self, target: u32) -> Option<(Name, u32, RawBytes<'a>)> {
        let state = self.state().load(Ordering::Relaxed);
        let name = Name::of_state(state);
        let is_asked = Stage::in_state(state) == Stage::Asked && name.number != 0 && name.target == target;
        if !is_asked || !self.change(name, Stage::Asked, Stage::Begun) {
            return None;
        }
        let len = self.len().load(Ordering::Relaxed) as usize;
        let phase = self.map.u32(self.at + AT_PHASE).load(Ordering::Relaxed);
        Some((name, phase, self.bytes().first(len)))
    }

    /// Said by the target that has begun: it is done, and has fetched these bytes.
    fn end(self, name: Name, result: Result<&[u8]>) {
        let error = result.as_ref().err().map(told);
        let bytes = error.as_deref().or(result.ok()).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(ROOM)];
        // SAFETY: within the mapping; the owner waits, and nobody else in this process uses it.
        let room = unsafe { RawRoom::new(self.contents(), bytes.len()) };
        room.fill_from(bytes);
        let failed = if error.is_some() { bytes.len() } else { 0 };
        self.len().store(failed as u32, Ordering::Relaxed);
        // An owner that took this process for lost may have gone on.
        self.change(name, Stage::Begun, Stage::Done);
    }

    /// Said by that target: it does nothing.
    fn refuse(self, name: Name) {
        self.change(name, Stage::Begun, Stage::Left);
    }

    /// What was wrong with a batch that is done.
    fn failure(self) -> Result<()> {
        match self.len().load(Ordering::Relaxed) as usize {
            0 => Ok(()),
            len => Err(error_of(&self.bytes().first(len).to_vec())),
        }
    }
}

/// Whether it pays to ask others, in one window.
#[derive(Default)]
pub struct Asking {
    /// How many times.
    asked: u64,
    /// How many in a row were not done.
    refused: u32,
    /// How many times nobody is asked.
    pause: u32,
    /// Whether a target has done something since it was last looked.
    done: bool,
}

impl Asking {
    /// Whether to ask now.
    fn pays(&mut self) -> bool {
        let pays = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        pays
    }

    /// Whether a target has done something since the last call of this.
    #[inline]
    pub(super) fn take_done(&mut self) -> bool {
        std::mem::take(&mut self.done)
    }

    fn ended(&mut self, done: bool) {
        if done {
            self.done = true;
            self.refused = 0;
        } else {
            self.refused = (self.refused + 1).min(REFUSED);
            self.pause = 1 << self.refused;
        }
    }
}

impl Window {
    /// Whether a rank can be asked by this process's mailbox, and that pays now.
    pub(super) fn may_ask(&self, origin: &mut Origin, rank: u32) -> bool {
        let members = self.members();
        matches!(members.way(rank), Way::Attach { .. })
            && members
                .segments()
                .is_some_and(|segments| segments.mailbox(0).is_some())
            && self.communicator().instance().spins()
            && origin.asking.pays()
    }

    /// Has a rank do the operations in its batch at once, the last of which may fetch `result`. `None`: it does not do that now, and
    /// they are still to be done.
    ///
    /// # Safety
    /// `result` is valid for writing.
    pub(super) unsafe fn ask_now(
        &self,
        origin: &mut Origin,
        rank: u32,
        result: Option<Piece>,
    ) -> Option<Result<()>> {
        let segments = self.members().segments()?;
        let sharers = segments.sharers();
        let mailbox = segments.mailbox(sharers.mine())?;
        let target = sharers.place_of_rank(rank)?;
        let bell = segments.bell(target)?;
        let phase = origin.outbox.phase;
        origin.asking.asked += 1;
        let name = Name {
            number: origin.asking.asked,
            target,
        };
        let to = self.to(origin, rank);
        if to.batch.len() > ROOM {
            return None;
        }
        mailbox.ask(name, phase, &to.batch);
        bell.ring(sharers.mine());
        let done = self.wait_for_answer(segments, mailbox, name);
        origin.asking.ended(done);
        if !done {
            return None;
        }
        let to = self.to(origin, rank);
        to.batch.clear();
        to.unanswered = false;
        // Nobody need wait for these any more.
        to.sent[phase] -= std::mem::take(&mut to.in_batch);
        let failure = mailbox.failure();
        if let (Some(result), true) = (result, failure.is_ok()) {
            let fetched = mailbox.bytes().first(result.len);
            // SAFETY: the caller's promise.
            unsafe { Memory::run(result.address, result.len).unpack(0, fetched) };
        }
        Some(failure)
    }

    /// Whether it is done in the end.
    fn wait_for_answer(&self, segments: &Segments, mailbox: Mailbox<'_>, name: Name) -> bool {
        let mut looks: u32 = 0;
        loop {
            match mailbox.stage() {
                Stage::Done => return true,
                Stage::Left => return false,
                Stage::Asked | Stage::Begun => {}
            }
            looks = looks.wrapping_add(1);
            if looks == LOOKS && mailbox.withdraw(name) {
                return false;
            }
            // Who is asked may ask this process.
            self.serve_mailboxes_of(segments);
            // A processor's pause is about as long as an answer takes.
            if looks > SOON {
                std::hint::spin_loop();
            }
            // It has begun, and is not running. Others may need this process meanwhile.
            if looks > LOOKS {
                self.communicator().instance().engine().progress(false);
                std::thread::yield_now();
                if looks.is_multiple_of(LIVES) && segments.has_ended(name.target) {
                    return false;
                }
            }
        }
    }

    /// Does what others ask for by their mailboxes. `false`: nothing.
    pub(super) fn serve_mailboxes(&self) -> bool {
        let segments = self.members.get().and_then(|members| members.segments());
        segments.is_some_and(|segments| self.serve_mailboxes_of(segments))
    }

    #[inline]
    fn serve_mailboxes_of(&self, segments: &Segments) -> bool {
        let bell = segments.bell(segments.sharers().mine());
        bell.is_some_and(|bell| bell.rings() && self.answer_bell(segments, bell))
    }

    #[inline(never)]
    fn answer_bell(&self, segments: &Segments, bell: Bell<'_>) -> bool {
        let sharers = segments.sharers();
        let served = self.served().lock();
        bell.answer(|place| {
            let (Some(&rank), Some(mailbox)) =
                (sharers.who().ranks.get(place as usize), segments.mailbox(place))
            else {
                return false;
            };
            let Some((name, phase, batch)) = mailbox.begin(sharers.mine()) else {
                return false;
            };
            let mut fetched = SmallVec::new();
            match self.at_once(&served, rank, phase as usize, batch, &mut fetched) {
                None => mailbox.refuse(name),
                Some(done) => mailbox.end(name, done.map(|()| &fetched[..])),
            }
            true
        })
    }

    /// Does the operations of a batch of a rank. `None`: nothing, as something before has to be done first.
    fn at_once(
        &self,
        served: &Served,
        rank: u32,
        phase: usize,
        batch: RawBytes<'_>,
        fetched: &mut SmallVec<[u8; 64]>,
    ) -> Option<Result<()>> {
        if !served.may_begin(rank, phase) {
            return None;
        }
        let (mut rest, mut result) = (batch, Ok(()));
        while !rest.is_empty() {
            // Nothing is fetched but by the last one.
            let parsed = message::parse(rest).filter(|_| fetched.is_empty());
            let done = parsed.and_then(|(parsed, after)| {
                rest = after;
                match parsed.head.code {
                    Code::Put => self.store(&parsed),
                    Code::Get => self.load(&parsed, ROOM as u64, fetched),
                    Code::Accumulate => self.update(&parsed, None),
                    Code::GetAccumulate => self.update(&parsed, Some(fetched)),
                    Code::CompareAndSwap => self.swap(&parsed, fetched),
                    Code::PutLong
                    | Code::AccumulateLong
                    | Code::Lock
                    | Code::Unlock
                    | Code::Flush
                    | Code::Count => None,
                }
            });
            match done {
                // What is wrong with one of them does not concern the others.
                Some(done) => result = result.and(done),
                None => return Some(Err(err!(Intern, "what rank {rank} asks for makes no sense"))),
            }
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::shared_memory;

    fn map() -> Map {
        Map::new(&shared_memory::file(4096).unwrap(), 0, 4096).unwrap()
    }

    const NAME: Name = Name {
        number: 1,
        target: 63,
    };

    #[test]
    fn a_batch_is_done_once() {
        let map = map();
        let mailbox = Mailbox::new(&map, 64);
        assert!(mailbox.begin(0).is_none(), "nothing was ever asked for");
        mailbox.ask(NAME, 1, b"12345678");
        let (name, phase, batch) = mailbox.begin(63).unwrap();
        assert_eq!((name, phase, &batch.to_vec()[..]), (NAME, 1, &b"12345678"[..]));
        assert!(mailbox.begin(63).is_none() && !mailbox.withdraw(NAME));
        mailbox.end(NAME, Ok(b"abc"));
        assert_eq!(mailbox.stage(), Stage::Done);
        assert!(mailbox.failure().is_ok());
        assert_eq!(mailbox.bytes().first(3).to_vec(), b"abc");
    }

    #[test]
    fn a_bell_calls_those_of_its_word() {
        let map = map();
        let bell = Bell::new(&map, 64, 20);
        let answered = |bell: Bell<'_>| {
            let mut places = Vec::new();
            let any = bell.answer(|place| {
                places.push(place);
                place == 19
            });
            (any, places)
        };
        assert!(!bell.rings() && answered(bell) == (false, Vec::new()));
        bell.ring(11);
        assert!(bell.rings());
        assert_eq!(answered(bell), (true, vec![3, 11, 19, 3, 11, 19]));
        assert!(!bell.rings());
        // One that rings while it is answered is seen, too.
        bell.ring(0);
        let mut calls = 0;
        bell.answer(|_| {
            calls += 1;
            bell.ring(8);
            true
        });
        assert_eq!((calls, bell.rings()), (6, true));
        assert_eq!(Bell::new(&map, 64, 2).words(), 2);
    }

    #[test]
    fn what_is_withdrawn_or_refused_is_not_done() {
        let map = map();
        let mailbox = Mailbox::new(&map, 0);
        mailbox.ask(NAME, 0, b"1");
        assert!(mailbox.withdraw(NAME) && mailbox.begin(63).is_none());
        let next = Name { number: 2, ..NAME };
        mailbox.ask(next, 0, b"2");
        assert!(mailbox.begin(63).is_some());
        mailbox.refuse(next);
        assert_eq!(mailbox.stage(), Stage::Left);
    }

    #[test]
    fn only_who_is_asked_begins() {
        let map = map();
        let mailbox = Mailbox::new(&map, 0);
        mailbox.ask(NAME, 0, b"1");
        assert!(mailbox.withdraw(NAME));
        // The bell of the first one still rings.
        let other = Name { number: 2, target: 5 };
        mailbox.ask(other, 0, b"2");
        assert!(mailbox.begin(63).is_none());
        assert_eq!(mailbox.begin(5).map(|(name, ..)| name), Some(other));
        // What is late changes nothing.
        mailbox.end(NAME, Ok(b"abc"));
        mailbox.refuse(NAME);
        assert_eq!(mailbox.stage(), Stage::Begun);
    }

    #[test]
    fn errors_arrive() {
        let map = map();
        let mailbox = Mailbox::new(&map, 0);
        mailbox.ask(NAME, 0, b"1");
        assert!(mailbox.begin(63).is_some());
        mailbox.end(NAME, Err(err!(RmaRange, "too far")));
        let error = mailbox.failure().unwrap_err();
        assert!(
            error.class == crate::Class::RmaRange && error.message.contains("too far"),
            "{error}"
        );
    }

    #[test]
    fn who_is_asked_in_vain_is_asked_less_often() {
        let mut asking = Asking::default();
        let mut asked = 0;
        for _ in 0..2000 {
            if asking.pays() {
                asked += 1;
                asking.ended(false);
            }
        }
        assert!((25..45).contains(&asked), "{asked}");
        while !asking.pays() {}
        asking.ended(true);
        assert!(asking.pays() && asking.pays());
    }
}
