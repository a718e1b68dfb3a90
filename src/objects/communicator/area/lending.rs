//! Bytes that the others read where they are, by way of the kernel ([`cma`]), so that they are copied once and not twice.
//!
//! A process *lends* bytes in a round: it publishes their address and number. The others read from there what they need. The bytes stay
//! as they are until all others are done with the round, which their process waits for ([`Area::returned`]).

use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{AT_DONE, AT_READER, AT_SAMPLE, AT_VALUE, Area, Bytes, Room, Round};
use crate::base::error::{Error, Result};
use crate::data::kind::MemoryKind;
use crate::data::pieces::{Cursor, Piece, total};
use crate::err;
use crate::lane::Sample;
use crate::lane::shm::cma;

/// What is published: address and number.
const WORDS: usize = 2 * size_of::<u64>();

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
}

impl Area {
    /// Says how the others try whether they can read this process's memory, before they do.
    pub fn offer_sample(&self, sample: Option<Sample>) {
        let at = self.member(self.mine);
        let Some(Sample { pid, address, value }) = sample else {
            return;
        };
        self.map.u64(at + AT_VALUE).store(value, Relaxed);
        self.map.u64(at + AT_SAMPLE).store(address, Relaxed);
        self.map.u32(at + AT_READER).store(pid, Release);
    }

    /// The process ids of all processes, if this one can read the memory of all others. Called when all processes have mapped the area.
    pub fn try_reads(&self) -> Option<Box<[u32]>> {
        let sample = |member| {
            let at = self.member(member);
            Sample {
                pid: self.map.u32(at + AT_READER).load(Acquire),
                address: self.map.u64(at + AT_SAMPLE).load(Relaxed),
                value: self.map.u64(at + AT_VALUE).load(Relaxed),
            }
        };
        let works = |sample: Sample| (sample.pid != 0 && cma::works(sample)).then_some(sample.pid);
        (0..self.size).map(|member| works(sample(member))).collect()
    }

    /// Whether each process can read the memory of all others, as all have agreed: then bytes can be lent.
    #[inline]
    pub fn reads(&self) -> bool {
        !self.readable.is_empty()
    }

    /// Lends bytes in a round. They stay as they are until [`Area::returned`] has returned. `total`: see
    /// [`Published`](super::Published).
    ///
    /// # Errors
    /// As for [`Area::claim`].
    #[inline]
    pub async fn lend(&self, round: Round, bytes: Bytes, total: u64) -> Result<()> {
        debug_assert!(self.reads(), "others can read them");
        self.claim(round).await?;
        let words = self.own(round, WORDS, Room::Short);
        let address = bytes.address().expose_provenance() as u64;
        for (nth, word) in [address, bytes.number() as u64].into_iter().enumerate() {
            // SAFETY: two words of the claimed place, which lie in its flag and are aligned.
            unsafe { words.address().cast::<u64>().add(nth).write(word) };
        }
        self.publish(round, WORDS, Room::Short, total);
        Ok(())
    }

    /// Waits for what a process lends in a round.
    ///
    /// # Errors
    /// The process is lost, in another operation, or lends nothing there.
    #[inline]
    pub async fn lent(&self, member: u32, round: Round) -> Result<Lent> {
        let found = self.published(member, round).await?;
        if found.bytes.number() != WORDS {
            return Err(self.nonsense(member));
        }
        let words = found.bytes.address().cast::<u64>();
        // SAFETY: two words in the other's flag, which are aligned, and any bytes are numbers.
        let (address, number) = unsafe { (words.read(), words.add(1).read()) };
        Ok(Lent {
            member,
            address,
            number,
            total: found.total,
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
            "the memory of rank {} can't be read any more: {error}",
            self.ranks[from.member as usize]
        )
    }
}
