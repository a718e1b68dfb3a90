//! Bytes that the others read where they are, by way of the kernel ([`cma`]), so that they are copied once and not twice.
//!
//! A process *lends* bytes in a round: it publishes their address and number. The others read from there what they need. The bytes stay
//! as they are until nobody reads them any more: all others are done with the round, which their process waits for ([`Area::returned`]), or have
//! published something that they do only after they have read. Where the operation says so, the others write what is lent.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use super::{AT_DONE, Area, Bytes, LINE, PAIR, Room, Round};
use crate::base::error::{Error, Result};
use crate::data::kind::MemoryKind;
use crate::data::pieces::{Cursor, Piece, total};
use crate::err;
use crate::lane::Sample;
use crate::lane::shm::cma;

/// Bytes of another process, until this one is done with the round.
#[derive(Clone, Copy, Debug)]
pub struct Lent {
    member: u32,
    address: u64,
    number: u64,
    total: u64,
}

impl Lent {
    /// How many they are.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// See [`Published::total`](super::Published::total).
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How far byte `at` is from the beginning of its cache line.
    pub fn offset_in_line(&self, at: u64) -> usize {
        (self.address.wrapping_add(at) % LINE as u64) as usize
    }
}

impl Area {
    /// Says how the others try whether they can read this process's memory, before they do.
    pub fn offer_sample(&self, sample: Option<Sample>) {
        self.sharers.offer_sample(sample);
    }

    /// The process ids of all processes, if this one can read and write the memory of all others. Called when all processes have mapped the
    /// area.
    pub fn try_reads(&self) -> Option<Box<[u32]>> {
        (0..self.size())
            .map(|member| self.sharers.attachable(member))
            .collect()
    }

    /// Whether each process can read and write the memory of all others, as all have agreed: then bytes can be lent.
    #[inline]
    pub fn reads(&self) -> bool {
        !self.readable.is_empty()
    }

    /// Lends bytes in a round: `number` runs of bytes, one for all others or one for each. They stay as they are until
    /// [`Area::returned`] has returned, or it is known otherwise that no other process reads them any more. `total`: see
    /// [`Published`](super::Published).
    ///
    /// # Errors
    /// As for [`Area::claim`].
    ///
    /// # Panics
    /// If so many entries, of 16 bytes each, are more than a short place has room for ([`SHORT`](super::SHORT)).
    pub async fn lend(
        &self,
        round: Round,
        number: u32,
        bytes: impl Fn(u32) -> Bytes + Send,
        total: u64,
    ) -> Result<()> {
        debug_assert!(self.reads(), "others can read them");
        // After an error, too: see there.
        let claimed = self.claim(round, Room::Short).await;
        let len = number as usize * PAIR;
        let entries = self.own(round, len, Room::Short);
        for nth in 0..number {
            let bytes = bytes(nth);
            let address = bytes.address().expose_provenance() as u64;
            entries.set_pair(nth as usize, [address, bytes.number() as u64]);
        }
        self.publish(round, len, Room::Short, total);
        claimed
    }

    /// Waits for what a process lends in a round, the `nth` of it.
    ///
    /// # Errors
    /// The process is lost, in another operation, or lends nothing there.
    pub async fn lent(&self, member: u32, round: Round, nth: u32) -> Result<Lent> {
        let found = self.published(member, round).await?;
        let Some(entry) = found.bytes.pair(nth as usize) else {
            return Err(self.nonsense(member));
        };
        Ok(Lent {
            total: found.total,
            ..self.lent_at(member, entry)
        })
    }

    /// Bytes that a process lends by their address and number, which it has published in some way.
    pub fn lent_at(&self, member: u32, [address, number]: [u64; 2]) -> Lent {
        Lent {
            member,
            address,
            number,
            total: number,
        }
    }

    /// Waits until all others are done with a round, so that what was lent in it may change.
    ///
    /// # Errors
    /// One of them is lost.
    #[inline]
    pub async fn returned(&self, round: Round) -> Result<()> {
        match round.id <= self.all_done.load(Relaxed) {
            true => Ok(()),
            false => self.claim_from_all(round.id).await,
        }
    }

    /// Reads lent bytes from byte `at` on, as many as `into` has.
    ///
    /// # Errors
    /// `MPI_ERR_INTERN`: not so many are lent. Otherwise: the process is lost, or can't be read any more.
    pub async fn read(&self, from: &Lent, at: u64, into: Bytes) -> Result<()> {
        let piece = Piece {
            address: into.address(),
            len: into.number(),
            kind: MemoryKind::System,
        };
        let pid = self.pid_for(from, at, piece.len)?;
        // SAFETY: by the promise of `Bytes::new` the memory is the operation's.
        match unsafe { cma::read_run(pid, from.address.wrapping_add(at), piece) } {
            Ok(()) => Ok(()),
            Err(error) => Err(self.unread(from, error).await),
        }
    }

    /// Writes bytes to lent ones from byte `at` on.
    ///
    /// # Errors
    /// As for [`Area::read`].
    ///
    /// # Safety
    /// They are lent for that: until this process is done with the round their owner waits, and nobody else uses those that are written.
    pub async unsafe fn write(&self, to: &Lent, at: u64, bytes: Bytes) -> Result<()> {
        let piece = Piece {
            address: bytes.address(),
            len: bytes.number(),
            kind: MemoryKind::System,
        };
        let pid = self.pid_for(to, at, piece.len)?;
        // SAFETY: by the promise of `Bytes::new` the memory is the operation's; the other process's: the caller's promise.
        match unsafe { cma::write_run(pid, to.address.wrapping_add(at), piece) } {
            Ok(()) => Ok(()),
            Err(error) => Err(self.unread(to, error).await),
        }
    }

    /// Reads lent bytes from byte `at` on into these pieces.
    ///
    /// # Errors
    /// As for [`Area::read`].
    ///
    /// # Safety
    /// The pieces are valid for writing, and nobody else uses them.
    pub async unsafe fn read_pieces(&self, from: &Lent, at: u64, into: &[Piece]) -> Result<()> {
        let len = total(into);
        let pid = self.pid_for(from, at, len)?;
        let remote = cma::remote(from.address.wrapping_add(at), len);
        // SAFETY: the caller's promise.
        match unsafe { cma::read(pid, &[remote], into, &mut Cursor::default()) } {
            Ok(()) => Ok(()),
            Err(error) => Err(self.unread(from, error).await),
        }
    }

    #[inline]
    fn pid_for(&self, from: &Lent, at: u64, len: usize) -> Result<u32> {
        let end = at.checked_add(len as u64);
        match self.readable.get(from.member as usize) {
            Some(&pid) if end.is_some_and(|end| end <= from.number) => Ok(pid),
            _ => Err(self.nonsense(from.member)),
        }
    }

    #[cold]
    async fn unread(&self, from: &Lent, error: io::Error) -> Error {
        if cma::is_gone(&error) {
            // Who notices lost processes tells of this one too, and how it ended.
            let lost = self
                .wait(from.member, self.member(from.member) + AT_DONE, u64::MAX)
                .await;
            if let Err(lost) = lost {
                return lost;
            }
        }
        err!(
            Other,
            "the memory of rank {} can't be read or written any more: {error}",
            self.sharers.who().ranks[from.member as usize]
        )
    }
}
