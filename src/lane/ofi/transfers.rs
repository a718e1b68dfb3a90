//! Reads and writes of remote memory: split to what one operation can carry, in bytes and in pieces of memory, and completed once.

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

/// Which way the bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    /// From the peer: [`crate::lane::Lane::read`].
    Read,
    /// To the peer: [`crate::lane::Lane::write`].
    Write,
}

/// One call of [`crate::lane::Lane::read`] or [`crate::lane::Lane::write`].
pub(super) struct Transfer {
    direction: Direction,
    /// The token to report to the engine at the end.
    pub token: u64,
    /// Who registered the memory.
    pub peer: PeerIndex,
    /// The peer's number in the address vector.
    pub address: sys::fi_addr_t,
    /// libfabric's address of the first byte.
    pub remote: u64,
    /// libfabric's key.
    pub key: u64,
    /// This process's memory.
    pieces: Pieces,
    /// How many bytes.
    len: usize,
    /// The registration of each piece, where the provider asks for them.
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

impl Transfer {
    /// A transfer of which nothing has been asked for.
    pub(super) fn new(
        direction: Direction,
        token: u64,
        (peer, address): (PeerIndex, sys::fi_addr_t),
        (remote, key): (u64, u64),
        pieces: &[Piece],
    ) -> Transfer {
        Transfer {
            direction,
            token,
            peer,
            address,
            remote,
            key,
            pieces: pieces.into(),
            len: total(pieces),
            regions: SmallVec::new(),
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

/// All transfers under way.
pub(super) struct Transfers {
    transfers: Slab<Transfer>,
    /// Those with parts that are still to be asked for.
    unissued: VecDeque<u32>,
    /// The longest single operation in bytes.
    part_max: usize,
    /// The most pieces of this process's memory in one.
    pieces_max: usize,
}

// SAFETY: the pointers are the engine's buffers, of no thread in particular.
unsafe impl Send for Transfers {}

impl Transfers {
    /// None; operations of at most `part_max` bytes and `pieces_max` pieces.
    pub(super) fn new(part_max: usize, pieces_max: usize) -> Transfers {
        Transfers {
            transfers: Slab::default(),
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

    /// Starts a transfer. `Err` returns it when nothing could be asked for: with an error, or because resources are missing.
    ///
    /// # Safety
    /// This process's memory stays valid, what is read into it untouched, and what is written from it unchanged, until the transfer is over
    /// or the endpoint is closed.
    pub(super) unsafe fn start(
        &mut self,
        transfer: Transfer,
        endpoint: &Endpoint,
        operations: &mut Operations,
    ) -> std::result::Result<(), Box<Transfer>> {
        let index = self.transfers.insert(transfer);
        // SAFETY: the caller keeps the pieces as they have to be until the transfer is over.
        unsafe { self.issue(index, endpoint, operations) };
        let transfer = &self.transfers[index];
        if transfer.outstanding == 0 {
            return Err(Box::new(self.transfers.remove(index)));
        }
        if transfer.issued < transfer.len && transfer.error.is_none() {
            self.unissued.push_back(index);
        }
        Ok(())
    }

    /// Asks for as many parts of transfer `index` as possible.
    ///
    /// # Safety
    /// As for [`Transfers::start`].
    unsafe fn issue(&mut self, index: u32, endpoint: &Endpoint, operations: &mut Operations) {
        let Some(transfer) = self.transfers.get_mut(index) else {
            return;
        };
        while transfer.issued < transfer.len && transfer.error.is_none() {
            let Some(slot) = operations.next() else { return };
            let mut some = [Piece::EMPTY; Endpoint::TARGETS];
            let (count, part) =
                transfer
                    .at
                    .next(&transfer.pieces, self.part_max, &mut some[..self.pieces_max]);
            let descriptor = |index: usize| {
                let region = transfer.regions.get(transfer.at.index + index);
                region.map_or(std::ptr::null_mut(), |one| one.region.descriptor())
            };
            let (remote, key, peer) = (
                transfer.remote + transfer.issued as u64,
                transfer.key,
                transfer.address,
            );
            let context = operations.context(slot);
            let several = (some[..count].iter().enumerate())
                .map(|(index, piece)| ((piece.address, piece.len), descriptor(index)));
            // SAFETY: the pieces are some of the caller's; contexts live as long as the endpoint; `peer` is a peer's address, one of
            // the lane's only vector.
            let posted = unsafe {
                match (transfer.direction, &some[..count]) {
                    (Direction::Read, [piece]) => {
                        let (into, len) = (piece.address, piece.len);
                        endpoint.read(into, len, descriptor(0), peer, remote, key, context)
                    }
                    (Direction::Read, _) => endpoint.read_scattered(several, peer, remote, key, context),
                    (Direction::Write, _) => {
                        let several =
                            several.map(|((from, len), descriptor)| ((from.cast_const(), len), descriptor));
                        endpoint.write(several, peer, remote, key, context)
                    }
                }
            };
            match posted {
                Ok(Posted::Accepted) => {
                    operations.start(slot, Operation::Transfer { transfer: index });
                    transfer.at.advance(&transfer.pieces, part);
                    transfer.issued += part;
                    transfer.outstanding += 1;
                }
                Ok(Posted::Again) => return,
                Err(error) => transfer.error = Some(error.into()),
            }
        }
    }

    /// Asks for parts that had to wait. Returns transfers that ended by it, all with errors.
    pub(super) fn resume(&mut self, endpoint: &Endpoint, operations: &mut Operations) -> Option<Transfer> {
        let index = *self.unissued.front()?;
        // SAFETY: the transfer was started with the engine's promise, which holds until it is over.
        unsafe { self.issue(index, endpoint, operations) };
        let transfer = self.transfers.get(index)?;
        if transfer.issued < transfer.len && transfer.error.is_none() {
            return None;
        }
        self.unissued.pop_front();
        let over = transfer.is_over();
        over.then(|| self.transfers.remove(index))
    }

    /// Notes that one operation of transfer `index` ended; returns the transfer if it is over.
    pub(super) fn ended(&mut self, index: u32, result: Result<()>) -> Option<Transfer> {
        let transfer = self.transfers.get_mut(index)?;
        transfer.outstanding = transfer.outstanding.saturating_sub(1);
        if let Err(error) = result {
            transfer.error.get_or_insert(error);
        }
        if !transfer.is_over() {
            return None;
        }
        self.unissued.retain(|waiting| *waiting != index);
        Some(self.transfers.remove(index))
    }

    /// The process whose memory transfer `index` concerns.
    pub(super) fn peer(&self, index: u32) -> Option<PeerIndex> {
        Some(self.transfers.get(index)?.peer)
    }
}
