//! Short puts and gets where the kernel copies ([`Way::Attach`]), while locks are held: they are collected until they have to be complete,
//! since one system call for many runs costs hardly more than one for a single run.
//!
//! A system call costs more than a short message and its answer, but needs nothing of the target. So a few puts, or one get, are first
//! *offered* to the target in a message. Whether it takes them or this process withdraws them is decided by whoever is the first to change a
//! word in shared memory ([`Control::offer`](super::segments::Control::offer)): an even number while they are offered, one more when it is
//! decided. A target that is in a call of MPI takes them at once. From one that does not they are withdrawn, the kernel copies, and nothing is
//! offered for a while.

use std::sync::atomic::{AtomicU64, Ordering};

use super::access::{Action, Place};
use super::members::Way;
use super::message::{self, Code, Head};
use super::outbox::ToTarget;
use super::passive::{Told, Until};
use super::{Origin, Window, runs};
use crate::base::error::Result;
use crate::data::datatype::Runs;
use crate::data::memory::Memory;
use crate::data::pieces::{Cursor, Piece};
use crate::engine::request::RequestId;
use crate::err;
use crate::instance::{Completion, Instance, Looked};
use crate::lane::shm::cma;

/// A run of more bytes is copied at once.
pub const SHORT: usize = 8 << 10;
/// So many runs are collected, and so many bytes.
const RUNS: usize = cma::BATCH;
const BYTES: usize = 64 << 10;
/// No run of those is longer: it fits into a message together with what describes it, so that nothing but tasks sends it later.
const MERGED: usize = 1 << 10;
/// Room for those that are copied at once.
const ROOM: usize = 8 << 10;
/// What is put from a run of so many bytes is copied at once. The standard has programs leave it alone until the operation is complete
/// here, but where other libraries copy what is short, too, not all do.
const KEPT: usize = 256;
/// So many puts are offered, with so many bytes.
const OFFERED: usize = 8;
const OFFERED_BYTES: usize = 4 << 10;
/// So often it is looked whether an offer was taken: some microseconds, as long as a system call takes where the system checks much. A target that
/// is in a call of MPI answers in less than one, and one that sleeps in it wakes up too late for this offer, but not for the next one.
const LOOKS: u32 = 160;
/// After so many offers in a row that were not taken the pauses do not become longer: 2 to the power of that. After a longer one, a target that
/// waits in a call of MPI would sleep again each time.
const REFUSED: u32 = 6;

/// Runs of memory here and there, with as many bytes. Those on one side need not be as long as those on the other.
#[derive(Default)]
pub struct Collected {
    here: Vec<Piece>,
    there: Vec<Piece>,
    bytes: usize,
    /// The last one of those here is of `kept`.
    ends_kept: bool,
    /// What has been copied. It does not grow beyond the room that it gets first, so that pieces stay where they are.
    kept: Vec<u8>,
}

impl Collected {
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Adds some bytes, `kept` ones or others. `false`: now there are so many that they are to be copied.
    fn push(&mut self, here: Piece, there: Piece, kept: bool) -> bool {
        self.bytes += here.len;
        let joined = match self.here.last() {
            Some(last) if self.ends_kept == kept && kept => MERGED.saturating_sub(last.len),
            Some(_) if self.ends_kept == kept => usize::MAX,
            _ => 0,
        };
        self.ends_kept = kept;
        for (list, piece, most) in [
            (&mut self.here, here, joined),
            (&mut self.there, there, usize::MAX),
        ] {
            match list.last_mut() {
                Some(last) if last.address.wrapping_add(last.len) == piece.address && piece.len <= most => {
                    last.len += piece.len;
                }
                _ => list.push(piece),
            }
        }
        self.here.len() < RUNS && self.there.len() < RUNS && self.bytes < BYTES
    }

    /// Copies what is put, if it is short.
    ///
    /// # Safety
    /// It is readable.
    unsafe fn keep(&mut self, put: Piece) -> Option<Piece> {
        if self.kept.capacity() == 0 {
            self.kept.reserve_exact(ROOM);
        }
        let at = self.kept.len();
        if put.len > KEPT || self.kept.capacity() - at < put.len {
            return None;
        }
        // SAFETY: as the caller says.
        unsafe { message::pack(&Memory::run(put.address, put.len), &mut self.kept) };
        Some(Piece::of_mut(&mut self.kept[at..]))
    }

    fn clear(&mut self) {
        self.kept.clear();
        self.here.clear();
        self.there.clear();
        self.bytes = 0;
    }

    /// Whether it is worth a message: so many runs at most.
    fn is_short(&self, runs: usize) -> bool {
        self.bytes <= OFFERED_BYTES && self.here.len() <= runs && self.there.len() <= runs
    }

    /// As many bytes as an offer of puts has at most.
    fn bytes_in_message(&self) -> usize {
        let parts = self.here.len() + self.there.len();
        let each = Head::BYTES + runs::GROUP_BYTES_MIN + message::ALIGN;
        self.bytes + parts * each + 3 * (Head::BYTES + message::ALIGN)
    }

    /// Calls with parts that are one run on both sides.
    fn each(&self, mut call: impl FnMut(Piece, u64) -> Result<()>) -> Result<()> {
        let (mut own, mut theirs) = (self.here.iter().copied(), self.there.iter().copied());
        let (mut here, mut there) = (Piece::EMPTY, Piece::EMPTY);
        let mut left = self.bytes;
        while left > 0 {
            if here.len == 0 {
                here = own.next().expect("there are more bytes");
            }
            if there.len == 0 {
                there = theirs.next().expect("there are more bytes");
            }
            let len = here.len.min(there.len);
            call(here.part(0, len), there.address as u64)?;
            (here, there) = (here.part(len, here.len - len), there.part(len, there.len - len));
            left -= len;
        }
        Ok(())
    }
}

/// What this process has offered in one window.
#[derive(Default)]
pub struct Offers {
    /// How many times.
    made: u64,
    /// One has not been decided.
    open: bool,
    /// How many in a row were withdrawn.
    refused: u32,
    /// How many times nothing is offered.
    pause: u32,
}

impl Offers {
    fn pays(&mut self) -> bool {
        if self.open {
            return false;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        true
    }

    /// Whether the next one would not pay; counts it then.
    fn skips(&mut self) -> bool {
        let skips = self.open || self.pause > 0;
        self.pause = self.pause.saturating_sub(1);
        skips
    }

    fn decided(&mut self, taken: bool) {
        self.open = false;
        if taken {
            self.refused = 0;
        } else {
            self.refused = (self.refused + 1).min(REFUSED);
            self.pause = 1 << self.refused;
        }
    }
}

/// An offer that has been sent.
pub(super) struct Offer {
    /// The answer, and room for its words.
    answer: RequestId,
    told: Option<Told>,
    number: u64,
    operations: u64,
    puts: Collected,
    gets: Collected,
}

impl Window {
    /// Puts a run of bytes at an offset in a rank's memory, or gets it, no later than when the operation has to be complete.
    ///
    /// # Safety
    /// `here` is valid for that until then. The offset is within the rank's memory, and the way there is [`Way::Attach`].
    pub(super) unsafe fn collect(
        &self,
        origin: &mut Origin,
        rank: u32,
        here: Piece,
        at: u64,
        puts: bool,
    ) -> Result<()> {
        let Way::Attach { address, .. } = self.members().way(rank) else {
            return Err(err!(
                Intern,
                "rank {rank} is not one whose memory the kernel copies"
            ));
        };
        let there = cma::remote(address.wrapping_add(at), here.len);
        let to = self.to(origin, rank);
        let goes_on = match puts {
            true => {
                // SAFETY: the caller's promise.
                let kept = unsafe { to.puts.keep(here) };
                to.puts.push(kept.unwrap_or(here), there, kept.is_some())
            }
            false => to.gets.push(here, there, false),
        };
        match goes_on {
            true => Ok(()),
            false => self.copy_collected(origin, rank),
        }
    }

    /// Copies what was collected for a rank, if nothing else is under way there, and an offer does not pay, which is made for those only who wait
    /// for the target.
    pub(super) fn copy_now(&self, origin: &mut Origin, rank: u32, until: Until) -> Result<()> {
        let Some(to) = origin.outbox.get_mut(rank).filter(|to| to.has_only_collected()) else {
            return Ok(());
        };
        let may_be_offered = until != Until::Here && self.is_worth_a_message(to);
        match may_be_offered && !origin.offers.skips() {
            true => Ok(()),
            false => self.copy_collected(origin, rank),
        }
    }

    /// Whether what was collected for a rank may be offered to it.
    fn is_worth_a_message(&self, to: &ToTarget) -> bool {
        // All of it has to be one message.
        let is_short = match (to.puts.is_empty(), to.gets.is_empty()) {
            (false, true) => to.puts.is_short(OFFERED) && to.puts.bytes_in_message() <= self.limits().batch(),
            (true, false) => to.gets.is_short(1),
            _ => false,
        };
        is_short && self.communicator().instance().spins()
    }

    /// Copies what was collected for a rank.
    pub(super) fn copy_collected(&self, origin: &mut Origin, rank: u32) -> Result<()> {
        let Some(to) = origin.outbox.get_mut(rank).filter(|to| to.has_collected()) else {
            return Ok(());
        };
        let (mut puts, gets) = (std::mem::take(&mut to.puts), std::mem::take(&mut to.gets));
        let copied = self.copy_all(origin, rank, &mut puts, &gets);
        self.keep(origin, rank, puts, gets);
        copied
    }

    /// Keeps the room of lists that are not needed any more.
    fn keep(&self, origin: &mut Origin, rank: u32, mut puts: Collected, mut gets: Collected) {
        let to = self.to(origin, rank);
        if !to.has_collected() {
            puts.clear();
            gets.clear();
            (to.puts, to.gets) = (puts, gets);
        }
    }

    /// Has the kernel copy runs between this process and a rank; or sends messages, where it does not do that any more.
    fn copy_all(&self, origin: &mut Origin, rank: u32, puts: &mut Collected, gets: &Collected) -> Result<()> {
        let Way::Attach { pid, address } = self.members().way(rank) else {
            return Ok(());
        };
        // One run is usual.
        let is_run = |list: &Collected| list.here.len() == 1 && list.there.len() == 1;
        // SAFETY: `collect`'s caller has promised that the memory here is valid, and that what is put is expected there.
        let copied = unsafe {
            let written = match is_run(puts) {
                true => cma::write_run(pid, puts.there[0].address as u64, puts.here[0]),
                false => cma::write(pid, &puts.there, &puts.here),
            };
            written.and_then(|()| match is_run(gets) {
                true => cma::read_run(pid, gets.there[0].address as u64, gets.here[0]),
                false => cma::read(pid, &gets.there, &gets.here, &mut Cursor::default()),
            })
        };
        match copied {
            Ok(()) => Ok(()),
            Err(error) if cma::is_refused(&error) => {
                let window = self.me.upgrade().expect("it is in use");
                let mut send = |action: fn(Memory) -> Action, here: Piece, there: u64| {
                    let place = Place::of_bytes(rank, there.wrapping_sub(address), here.len as u64);
                    let memory = Memory::run(here.address, here.len);
                    // SAFETY: as above.
                    unsafe { window.by_messages(origin, action(memory), place, false) }.map(drop)
                };
                let sent = puts.each(|here, there| send(Action::Put, here, there));
                let sent = sent.and(gets.each(|here, there| send(Action::Get, here, there)));
                // A task may have to send some of it.
                origin.keep(std::mem::take(&mut puts.kept));
                sent
            }
            Err(error) => Err(err!(
                Other,
                "the memory of rank {rank} can't be read or written: {error}"
            )),
        }
    }

    /// Offers what was collected for a rank to that rank. `None`: that does not pay.
    pub(super) fn offer(&self, origin: &mut Origin, rank: u32) -> Option<Result<Offer>> {
        let to = origin.outbox.get_mut(rank)?;
        // What is sent anyway has to be taken, too.
        let is_alone = to.batch.is_empty() && to.replies.is_empty() && !to.unanswered && to.jobs == 0;
        if !is_alone || !self.is_worth_a_message(to) {
            return None;
        }
        let word = self.offer_word(self.communicator().rank())?;
        if !origin.offers.pays() {
            return None;
        }
        origin.offers.made += 1;
        let number = origin.offers.made << 1;
        // The message that tells of it comes later.
        word.store(number, Ordering::Release);
        let to = self.to(origin, rank);
        let (puts, gets) = (std::mem::take(&mut to.puts), std::mem::take(&mut to.gets));
        let sent = self.send_offer(origin, rank, number, [&puts, &gets]);
        let offer = match sent {
            Ok((answer, told, operations)) => Offer {
                answer,
                told,
                number,
                operations,
                puts,
                gets,
            },
            Err(error) => {
                word.store(number | 1, Ordering::Release);
                let to = self.to(origin, rank);
                to.batch.clear();
                (to.puts, to.gets) = (puts, gets);
                return Some(Err(error));
            }
        };
        origin.offers.open = true;
        Some(Ok(offer))
    }

    /// Returns the answer's request, room for its words, and how many operations there are.
    fn send_offer(
        &self,
        origin: &mut Origin,
        rank: u32,
        number: u64,
        [puts, gets]: [&Collected; 2],
    ) -> Result<(RequestId, Option<Told>, u64)> {
        let Way::Attach { address, .. } = self.members().way(rank) else {
            return Err(err!(Intern, "nothing was collected for rank {rank}"));
        };
        let run = |there: u64, len: usize| Runs {
            at: there.wrapping_sub(address),
            len: len as u64,
            count: 1,
            stride: 0,
        };
        let head = |code, data: usize, tag| Head {
            data: data as u32,
            ..Head::of(code, tag)
        };
        self.append(origin, rank, head(Code::Offer, 8, 0), &[], |into| {
            into.extend_from_slice(&number.to_le_bytes());
        })?;
        let mut operations = 0;
        puts.each(|here, there| {
            operations += 1;
            let (head, runs) = (head(Code::Put, here.len, 0), [run(there, here.len)]);
            self.append(origin, rank, head, &runs, |into| {
                // SAFETY: `collect`'s caller has promised that it is readable.
                unsafe { message::pack(&Memory::run(here.address, here.len), into) };
            })
        })?;
        if gets.is_empty() {
            let (answer, told) = self.ask(origin, rank, Head::of(Code::Flush, 0))?;
            return Ok((answer, Some(told), operations));
        }
        // One: see `offer`.
        let (here, there) = (gets.here[0], gets.there[0].address as u64);
        let tag = origin.outbox.new_tag();
        // SAFETY: `collect`'s caller has promised that it is writable; the answer is waited for, or given up.
        let answer =
            unsafe { self.hear(rank, tag, Memory::run(here.address, here.len)) }?.expect("a receive");
        let sent = self
            .append(
                origin,
                rank,
                head(Code::Get, 0, tag),
                &[run(there, here.len)],
                |_| (),
            )
            .and_then(|()| self.post_batch(origin, rank));
        match sent {
            Ok(()) => Ok((answer, None, 1)),
            Err(error) => {
                origin.given_up.push((answer, None));
                Err(error)
            }
        }
    }

    /// Waits until an offer is decided, and then for what has become of it.
    pub(super) async fn end_offer(&self, rank: u32, mut offer: Offer) -> Result<()> {
        let instance: &Instance = self.communicator().instance();
        let answer = offer.answer;
        let is_answered = (0..LOOKS).any(|_| {
            let looked = instance.look(|engine| (engine.is_complete(answer) != Some(false)).then_some(()));
            matches!(looked, Looked::Found(()))
        });
        let withdrawn = !is_answered && self.decides(self.communicator().rank(), offer.number);
        if withdrawn {
            // First the receive of the answer is taken away, then its memory.
            drop(Completion::of(instance, answer));
        }
        let result = {
            let mut origin = self.origin().lock();
            origin.offers.decided(!withdrawn);
            let result = match withdrawn {
                true => self.copy_all(&mut origin, rank, &mut offer.puts, &offer.gets),
                false => {
                    let phase = origin.outbox.phase;
                    self.to(&mut origin, rank).sent[phase] += offer.operations;
                    Ok(())
                }
            };
            self.keep(&mut origin, rank, offer.puts, offer.gets);
            if withdrawn && offer.told.is_some() {
                origin.told = offer.told;
                self.release(origin);
                return result;
            }
            self.release(origin);
            result
        };
        match offer.told {
            _ if withdrawn => result,
            Some(told) => self.answered(answer, told).await,
            None => Completion::of(instance, answer).await.map(drop),
        }
    }

    /// Decides what becomes of an offer of a rank. `false`: that was decided before, or is left to the other one.
    pub(super) fn decides(&self, rank: u32, number: u64) -> bool {
        number & 1 == 0
            && self.offer_word(rank).is_some_and(|word| {
                let decided = word.compare_exchange(number, number | 1, Ordering::AcqRel, Ordering::Relaxed);
                decided.is_ok()
            })
    }

    /// `None`: there is none, or this process has not come to the end of making the window.
    fn offer_word(&self, rank: u32) -> Option<&AtomicU64> {
        Some(self.members.get()?.segments()?.control(rank)?.offer())
    }
}

impl Origin {
    /// Keeps bytes until no task has anything to send.
    fn keep(&mut self, bytes: Vec<u8>) {
        if !self.outbox.has_jobs() {
            self.kept.clear();
        }
        self.kept.push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(address: usize, len: usize) -> Piece {
        cma::remote(address as u64, len)
    }

    #[test]
    fn neighbours_are_one_run_on_each_side() {
        let mut list = Collected::default();
        for (here, there, len) in [(100, 1000, 10), (110, 2000, 5), (115, 2005, 5), (300, 2010, 8)] {
            assert!(list.push(run(here, len), run(there, len), false));
        }
        let pieces = |list: &[Piece]| -> Vec<(usize, usize)> {
            list.iter()
                .map(|piece| (piece.address as usize, piece.len))
                .collect()
        };
        assert_eq!(pieces(&list.here), [(100, 20), (300, 8)]);
        assert_eq!(pieces(&list.there), [(1000, 10), (2000, 18)]);
        let mut parts = Vec::new();
        list.each(|here, there| {
            parts.push((here.address as usize, there, here.len));
            Ok(())
        })
        .unwrap();
        assert_eq!(parts, [(100, 1000, 10), (110, 2000, 10), (300, 2010, 8)]);
        assert!(list.is_short(2) && !list.is_short(1));
        list.clear();
        assert!(list.is_empty());
    }

    #[test]
    fn short_puts_are_copied_as_long_as_there_is_room() {
        let mut list = Collected::default();
        let mut bytes = vec![1u8; KEPT + 1];
        // SAFETY: they are there.
        let mut keep =
            |list: &mut Collected, len: usize| unsafe { list.keep(Piece::of_mut(&mut bytes[..len])) };
        for nth in 0..ROOM / KEPT {
            let kept = keep(&mut list, KEPT).unwrap();
            assert!(list.push(kept, run(1000 + nth * KEPT, KEPT), true));
        }
        assert!(keep(&mut list, 1).is_none(), "there is no room");
        assert_eq!((list.here.len(), list.there.len()), (ROOM / MERGED, 1));
        // What follows in memory by chance is none of them.
        let after = list.kept.as_ptr().addr() + ROOM;
        assert!(list.push(run(after, 8), run(8, 8), false));
        assert_eq!(list.here.len(), ROOM / MERGED + 1);
        list.clear();
        assert_eq!(list.kept.capacity(), ROOM);
        assert!(keep(&mut list, KEPT + 1).is_none(), "it is too long");
    }

    #[test]
    fn lists_are_bounded() {
        let mut list = Collected::default();
        let room = (0..)
            .take_while(|&nth| list.push(run(nth * 16, 8), run(nth * 32, 8), false))
            .count();
        assert_eq!(room, RUNS - 1);
        list.clear();
        assert!(!list.push(run(0, BYTES), run(0, BYTES), false));
    }

    #[test]
    fn offers_that_nobody_takes_become_rare() {
        let mut offers = Offers::default();
        let mut made = 0;
        for _ in 0..2000 {
            if offers.pays() {
                made += 1;
                offers.decided(false);
            }
        }
        assert!((25..45).contains(&made), "{made}");
        while !offers.pays() {}
        offers.decided(true);
        assert!(offers.pays() && offers.pays());
    }
}
