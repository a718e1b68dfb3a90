//! Reads of remote memory: split to what one operation can carry, in bytes and in pieces of memory, and completed once.

use std::collections::VecDeque;

use smallvec::SmallVec;
use weft_libfabric_sys as sys;

use super::operations::{Operation, Operations};
use super::registered::Registered;
use crate::base::error::{Error, Result};
use crate::base::slab::Slab;
use crate::data::pieces::{Cursor, Piece, Pieces, total};
use crate::identity::PeerIndex;
use crate::system::fabric::{Endpoint, Posted};

/// One call of [`crate::lane::Lane::read`].
pub(super) struct Read {
    /// The token to report to the engine at the end.
    pub token: u64,
    /// Who registered the memory.
    pub peer: PeerIndex,
    /// The peer's number in the address vector.
    pub from: sys::fi_addr_t,
    /// libfabric's address of the first byte.
    pub remote: u64,
    /// libfabric's key.
    pub key: u64,
    /// Where the bytes go.
    into: Pieces,
    /// How many.
    len: usize,
    /// The registration of each target, where the provider asks for them.
    pub regions: SmallVec<[Registered; 1]>,
    /// The offset of the next part to ask for.
    at: Cursor,
    /// Bytes asked for so far.
    issued: usize,
    /// Operations under way.
    outstanding: usize,
    /// The first thing that went wrong.
    error: Option<Error>,
}

impl Read {
    /// A read of which nothing has been asked for.
    pub(super) fn new(
        token: u64,
        (peer, from): (PeerIndex, sys::fi_addr_t),
        (remote, key): (u64, u64),
        into: &[Piece],
        regions: SmallVec<[Registered; 1]>,
    ) -> Read {
        Read {
            token,
            peer,
            from,
            remote,
            key,
            into: into.into(),
            len: total(into),
            regions,
            at: Cursor::default(),
            issued: 0,
            outstanding: 0,
            error: None,
        }
    }

    fn is_over(&self) -> bool {
        self.outstanding == 0 && (self.issued == self.len || self.error.is_some())
    }

    /// The result for the engine.
    pub(super) fn result(&mut self) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }
}

/// All reads under way.
pub(super) struct Reads {
    reads: Slab<Read>,
    /// The reads with parts that are still to be asked for.
    unissued: VecDeque<u32>,
    /// The longest single operation in bytes.
    part_max: usize,
    /// The most pieces of this process's memory in one.
    pieces_max: usize,
}

// SAFETY: the pointers are the engine's buffers, of no thread in particular.
unsafe impl Send for Reads {}

impl Reads {
    /// No reads; operations of at most `part_max` bytes and `pieces_max` pieces.
    pub(super) fn new(part_max: usize, pieces_max: usize) -> Reads {
        Reads {
            reads: Slab::default(),
            unissued: VecDeque::new(),
            part_max: part_max.max(1),
            pieces_max: pieces_max.clamp(1, Endpoint::TARGETS),
        }
    }

    /// Whether parts are still to be asked for.
    #[inline]
    pub(super) fn has_unissued(&self) -> bool {
        !self.unissued.is_empty()
    }

    /// Starts a read. `Err` returns it when nothing could be asked for: with an error, or because resources are missing.
    ///
    /// # Safety
    /// The target stays valid and untouched until the read is over or the endpoint is closed.
    pub(super) unsafe fn start(
        &mut self,
        read: Read,
        endpoint: &Endpoint,
        operations: &mut Operations,
    ) -> std::result::Result<(), Box<Read>> {
        let index = self.reads.insert(read);
        // SAFETY: the caller keeps the pieces valid and untouched until the read has completed.
        unsafe { self.issue(index, endpoint, operations) };
        let read = &self.reads[index];
        if read.outstanding == 0 {
            return Err(Box::new(self.reads.remove(index)));
        }
        if read.issued < read.len && read.error.is_none() {
            self.unissued.push_back(index);
        }
        Ok(())
    }

    /// Asks for as many parts of read `index` as possible.
    ///
    /// # Safety
    /// As for [`Reads::start`].
    unsafe fn issue(&mut self, index: u32, endpoint: &Endpoint, operations: &mut Operations) {
        let Some(read) = self.reads.get_mut(index) else {
            return;
        };
        while read.issued < read.len && read.error.is_none() {
            let Some(slot) = operations.next() else { return };
            let mut targets = [Piece::EMPTY; Endpoint::TARGETS];
            let (count, part) = read
                .at
                .next(&read.into, self.part_max, &mut targets[..self.pieces_max]);
            let descriptor = |index: usize| {
                let region = read.regions.get(read.at.index + index);
                region.map_or(std::ptr::null_mut(), |one| one.region.descriptor())
            };
            let remote = read.remote + read.issued as u64;
            let context = operations.context(slot);
            // SAFETY: the targets are some of the caller's; contexts live as long as the endpoint; `from` is a peer's address, one of
            // the lane's only vector.
            let posted = unsafe {
                if let [target] = &targets[..count] {
                    let (into, len) = (target.address, target.len);
                    endpoint.read(into, len, descriptor(0), read.from, remote, read.key, context)
                } else {
                    let targets = targets[..count].iter().enumerate();
                    let targets =
                        targets.map(|(index, target)| ((target.address, target.len), descriptor(index)));
                    endpoint.read_scattered(targets, read.from, remote, read.key, context)
                }
            };
            match posted {
                Ok(Posted::Accepted) => {
                    operations.start(slot, Operation::Read { read: index });
                    read.at.advance(&read.into, part);
                    read.issued += part;
                    read.outstanding += 1;
                }
                Ok(Posted::Again) => return,
                Err(error) => read.error = Some(error.into()),
            }
        }
    }

    /// Asks for parts that had to wait. Returns reads that ended by it, all with errors.
    pub(super) fn resume(&mut self, endpoint: &Endpoint, operations: &mut Operations) -> Option<Read> {
        let index = *self.unissued.front()?;
        // SAFETY: the read was started with the engine's promise, which holds until it is over.
        unsafe { self.issue(index, endpoint, operations) };
        let read = self.reads.get(index)?;
        if read.issued < read.len && read.error.is_none() {
            return None;
        }
        self.unissued.pop_front();
        let over = read.is_over();
        over.then(|| self.reads.remove(index))
    }

    /// Notes that one operation of read `index` ended; returns the read if it is over.
    pub(super) fn ended(&mut self, index: u32, result: Result<()>) -> Option<Read> {
        let read = self.reads.get_mut(index)?;
        read.outstanding = read.outstanding.saturating_sub(1);
        if let Err(error) = result {
            read.error.get_or_insert(error);
        }
        if !read.is_over() {
            return None;
        }
        self.unissued.retain(|waiting| *waiting != index);
        Some(self.reads.remove(index))
    }

    /// The process that registered the memory that read `index` reads.
    pub(super) fn peer(&self, index: u32) -> Option<PeerIndex> {
        Some(self.reads.get(index)?.peer)
    }
}
