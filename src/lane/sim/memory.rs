//! The memory of a simulation's processes that others read, write and update.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::SimLane;
use super::network::{Event, NetworkState, What, death_of};
use crate::base::error::Result;
use crate::data::pieces::{Piece, Pieces, total};
use crate::err;
use crate::identity::PeerIndex;
use crate::lane::atomic::Update;
use crate::lane::{Region, RemoteKey, Sent};

/// Memory that a process has registered.
pub(super) struct Registered {
    pub(super) pieces: Pieces,
    /// Whether peers may write to it.
    pub(super) exposed: bool,
}

/// A read of another process's memory.
pub(super) struct Reading {
    pub(super) peer: PeerIndex,
    pub(super) region: u64,
    pub(super) offset: u64,
    pub(super) into: Pieces,
    pub(super) token: u64,
}

/// A write or an atomic operation.
pub(super) struct Access {
    pub(super) from: PeerIndex,
    pub(super) peer: PeerIndex,
    pub(super) region: u64,
    pub(super) offset: u64,
    /// The bytes that are written, or the operands.
    pub(super) bytes: Vec<u8>,
    pub(super) what: Accesses,
    pub(super) token: u64,
}

pub(super) enum Accesses {
    /// A write from this memory.
    Write(Pieces),
    /// An atomic operation, with what it compares.
    Update(Update, Vec<u8>),
}

impl NetworkState {
    /// Gives memory a key.
    pub(super) fn register(&mut self, me: PeerIndex, pieces: Pieces, exposed: bool) -> (Region, RemoteKey) {
        let node = &mut self.nodes[me.index()];
        let region = node.next_region;
        node.next_region += 1;
        node.regions.insert(region, Registered { pieces, exposed });
        (Region(region), RemoteKey(region.to_le_bytes().to_vec()))
    }

    /// What was to happen at a process that has ended fails.
    pub(super) fn fail_accesses(&mut self, coming: BinaryHeap<Reverse<Event>>) {
        for Reverse(event) in coming.into_sorted_vec() {
            if let What::Access(access) = event.what
                && access.from != access.peer
            {
                let (from, result) = (access.from, Err(death_of(access.peer)));
                let due_ns = self.completion_time();
                self.push(from, due_ns, What::HasAccessed { access, result });
            }
        }
    }

    /// Performs a write or an atomic operation; returns what was there before.
    pub(super) fn access(&mut self, access: &Access) -> Result<Vec<u8>> {
        let len = access.bytes.len().max(match &access.what {
            Accesses::Write(_) => 0,
            Accesses::Update(update, _) => update.len(),
        });
        let fails = self.chance(self.conditions.failed_reads_permille);
        let registered = self.nodes[access.peer.index()].regions.get(&access.region);
        let within = registered.filter(|registered| {
            let end = access.offset.checked_add(len as u64);
            registered.exposed && end.is_some_and(|end| end <= total(&registered.pieces) as u64)
        });
        let Some(&[memory]) = within.filter(|_| !fails).map(|within| &within.pieces[..]) else {
            return Err(err!(
                Other,
                "region {} of process {} can't be written at {} for {len} bytes",
                access.region,
                access.peer.number(),
                access.offset
            ));
        };
        let target = [memory.part(access.offset as usize, len)];
        // SAFETY: the exposed memory is valid until it is deregistered, which it has not been.
        let before = unsafe { gather(&target) };
        let after = match &access.what {
            Accesses::Write(_) => access.bytes.clone(),
            Accesses::Update(update, compare) => updated(update, &before, &access.bytes, compare),
        };
        // SAFETY: as above.
        unsafe { scatter(&after, &target) };
        Ok(before)
    }

    /// Copies the bytes of a read from the registered memory.
    pub(super) fn read(&mut self, reading: &Reading) -> (Result<()>, Vec<u8>) {
        let fails = self.chance(self.conditions.failed_reads_permille);
        let len = total(&reading.into);
        let registered = self.nodes[reading.peer.index()].regions.get(&reading.region);
        let within = registered.filter(|registered| {
            let end = reading.offset.checked_add(len as u64);
            end.is_some_and(|end| end <= total(&registered.pieces) as u64)
        });
        let result = match within {
            Some(registered) if !fails => {
                // SAFETY: the registered memory is valid until it is deregistered, which it has not been.
                let from = unsafe { gather(&registered.pieces) };
                let start = reading.offset as usize;
                // SAFETY: the pieces are valid until the completion, as the engine promised.
                unsafe { scatter(&from[start..start + len], &reading.into) };
                Ok(())
            }
            _ => {
                // SAFETY: as above.
                unsafe { scatter(&vec![0xee; len], &reading.into) };
                Err(err!(
                    Other,
                    "region {} of process {} can't be read at {} for {} bytes",
                    reading.region,
                    reading.peer.number(),
                    reading.offset,
                    len
                ))
            }
        };
        // SAFETY: as above.
        (result, unsafe { gather(&reading.into) })
    }
}

impl SimLane {
    /// Begins a write or an atomic operation.
    pub(super) fn begin(
        &mut self,
        (peer, token): (PeerIndex, u64),
        (key, offset): (&RemoteKey, u64),
        bytes: Vec<u8>,
        what: Accesses,
    ) -> Result<Sent> {
        let region = region_of(peer, key)?;
        let peer = self.number(peer)?;
        let state = &mut *self.network.0.lock();
        if state.chance(state.conditions.again_permille) {
            return Ok(Sent::Again);
        }
        if let Accesses::Update(update, _) = &what
            && update.result.len > 0
        {
            let filler = vec![0xee; update.result.len];
            // SAFETY: the caller's memory is valid until the completion. Arbitrary bytes until the result comes.
            unsafe { scatter(&filler, &[update.result]) };
        }
        let access = Access {
            from: self.me,
            peer,
            region,
            offset,
            bytes,
            what,
            token,
        };
        state.nodes[self.me.index()].pending += 1;
        let due_ns = state.now_ns + 1 + state.rng.u64(..=state.conditions.delay_ns_max);
        if state.nodes[peer.index()].dead {
            let result = Err(death_of(peer));
            state.push(self.me, due_ns, What::HasAccessed { access, result });
        } else {
            let performs = if self.limits.needs_target { peer } else { self.me };
            state.push(performs, due_ns, What::Access(access));
        }
        Ok(Sent::Pending)
    }
}

/// The number of a region, from its key.
pub(super) fn region_of(peer: PeerIndex, key: &RemoteKey) -> Result<u64> {
    let number = <[u8; 8]>::try_from(key.0.as_slice()).map(u64::from_le_bytes);
    number.map_err(|_| {
        err!(
            Other,
            "process {} sent a memory key that makes no sense",
            peer.number()
        )
    })
}

/// What an atomic operation makes of some elements.
fn updated(update: &Update, before: &[u8], operands: &[u8], comparands: &[u8]) -> Vec<u8> {
    let size = update.number.size();
    let element = |bytes: &[u8], at: usize| {
        let mut element = [0; 8];
        // There are no operands, or none to compare with.
        let part = bytes.get(at..at + size).unwrap_or(&[]);
        element[..part.len()].copy_from_slice(part);
        u64::from_ne_bytes(element)
    };
    let mut after = Vec::with_capacity(before.len());
    for at in (0..before.len()).step_by(size) {
        let [target, operand, compare] = [before, operands, comparands].map(|bytes| element(bytes, at));
        let made = update.number.combined(update.op, target, operand, compare);
        after.extend_from_slice(&made.to_ne_bytes()[..size]);
    }
    after
}

/// The bytes of all pieces.
///
/// # Safety
/// They are valid for reading.
pub(super) unsafe fn gather(pieces: &[Piece]) -> Vec<u8> {
    // SAFETY: the caller's pieces are valid.
    let slice = |piece: &Piece| unsafe { std::slice::from_raw_parts(piece.address, piece.len) };
    let pieces = pieces.iter().filter(|piece| piece.len > 0);
    pieces.map(slice).collect::<Vec<&[u8]>>().concat()
}

/// Puts bytes into pieces that have room for exactly these bytes.
///
/// # Safety
/// The pieces are valid for writing.
pub(super) unsafe fn scatter(mut bytes: &[u8], pieces: &[Piece]) {
    for piece in pieces.iter().filter(|piece| piece.len > 0) {
        let (some, rest) = bytes.split_at(piece.len);
        // SAFETY: the caller's pieces are valid.
        unsafe { std::slice::from_raw_parts_mut(piece.address, piece.len) }.copy_from_slice(some);
        bytes = rest;
    }
    assert!(bytes.is_empty(), "{} bytes too many", bytes.len());
}
