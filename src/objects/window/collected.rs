//! Short puts and gets where the kernel copies ([`Way::Attach`]), while locks are held: they are collected until they have to be complete,
//! since one system call for many runs costs hardly more than one for a single run.
//!
//! A system call costs more than asking a target that is in a call of MPI, so a few puts, or one get, first go by the [`mailbox`](super::mailbox).

use super::access::{Action, Place};
use super::members::Way;
use super::message::{self, Code, Head};
use super::outbox::ToTarget;
use super::passive::Until;
use super::{Origin, Window, mailbox};
use crate::base::error::Result;
use crate::data::datatype::Runs;
use crate::data::memory::Memory;
use crate::data::pieces::{Cursor, Piece};
use crate::err;
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
/// So many puts are asked for.
const ASKED: usize = 8;

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

    /// Whether so many runs at most, and few bytes: worth asking for.
    fn is_short(&self, runs: usize) -> bool {
        self.bytes <= mailbox::ROOM && self.here.len() <= runs && self.there.len() <= runs
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

    /// Completes what is under way to a rank, if the rank is to be asked for it at once, or only the kernel has to copy it.
    pub(super) fn complete_now(&self, origin: &mut Origin, rank: u32, until: Until) -> Result<()> {
        let Some(to) = origin.outbox.get_mut(rank) else {
            return Ok(());
        };
        let (collected, unsent) = (to.has_only_collected(), to.has_only_unsent());
        if !collected && !unsent {
            return Ok(());
        }
        // It is asked for those only who wait for the target.
        if until != Until::Here && (unsent || is_worth_asking(to)) && self.may_ask(origin, rank) {
            let asked = match unsent {
                // SAFETY: nothing is fetched.
                true => unsafe { self.ask_now(origin, rank, None) },
                false => self.ask_for_collected(origin, rank),
            };
            if let Some(done) = asked {
                return done;
            }
        }
        match collected {
            true => self.copy_collected(origin, rank),
            false => Ok(()),
        }
    }

    /// Asks a rank for what was collected for it, and nothing else is under way there. `None`: it is still to be done.
    fn ask_for_collected(&self, origin: &mut Origin, rank: u32) -> Option<Result<()>> {
        let Way::Attach { address, .. } = self.members().way(rank) else {
            return None;
        };
        let to = self.to(origin, rank);
        let (puts, gets) = (std::mem::take(&mut to.puts), std::mem::take(&mut to.gets));
        let run = |there: u64, len: usize| Runs {
            at: there.wrapping_sub(address),
            len: len as u64,
            count: 1,
            stride: 0,
        };
        let batch = &mut to.batch;
        let added = puts.each(|here, there| {
            let head = Head {
                data: here.len as u32,
                ..Head::of(Code::Put, 0)
            };
            head.append_with(&[run(there, here.len)], batch);
            // SAFETY: `collect`'s caller has promised that it is readable.
            unsafe { message::pack(&Memory::run(here.address, here.len), batch) };
            message::fill(batch);
            Ok(())
        });
        debug_assert!(added.is_ok(), "nothing fails");
        // One: see `is_worth_asking`.
        let result = gets.here.first().copied();
        if let Some(here) = result {
            Head::of(Code::Get, 0).append_with(&[run(gets.there[0].address as u64, here.len)], batch);
        }
        // SAFETY: `collect`'s caller has promised that it is writable.
        let asked = unsafe { self.ask_now(origin, rank, result) };
        let to = self.to(origin, rank);
        match asked {
            Some(_) => self.keep(origin, rank, puts, gets),
            None => {
                to.batch.clear();
                (to.puts, to.gets) = (puts, gets);
            }
        }
        asked
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
}

/// Whether what was collected for a rank may be asked for.
fn is_worth_asking(to: &ToTarget) -> bool {
    match (to.puts.is_empty(), to.gets.is_empty()) {
        (false, true) => to.puts.is_short(ASKED),
        (true, false) => to.gets.is_short(1),
        _ => false,
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
}
