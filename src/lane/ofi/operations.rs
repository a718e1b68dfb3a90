//! Operations under way: a fixed number of slots, each with a context for libfabric and a bounce buffer, and some spare
//! buffers for longer messages.

use std::ffi::c_void;

use super::memory::{Contexts, Pages};
use super::registered::Registered;
use crate::base::bytes::{RawBytes, RawRoom};
use crate::base::error::Result;
use crate::data::pieces::{Piece, total};
use crate::identity::PeerIndex;

/// What a slot is used for.
pub(super) enum Operation {
    /// Nothing; the next free slot.
    Free {
        /// Its number, or the count of slots for the end.
        next: usize,
    },
    /// A message that was copied; nothing waits for it.
    Copied {
        /// The receiver.
        peer: PeerIndex,
    },
    /// A message that was copied to a spare buffer; nothing waits for it.
    Spared {
        /// The receiver.
        peer: PeerIndex,
        /// The buffer.
        spare: Spare,
    },
    /// A message whose payload is the engine's; its header is in the slot's bounce buffer.
    Lent {
        /// The receiver.
        peer: PeerIndex,
        /// The token to report to the engine at the end.
        token: u64,
        /// The payload's registration, where the provider asks for one.
        region: Option<Registered>,
    },
    /// A part of a read or write of remote memory.
    Transfer {
        /// The index of the transfer.
        transfer: u32,
    },
    /// A short write of remote memory or an atomic operation, whose bytes are in the slot's bounce buffer.
    OneSided {
        /// The target.
        peer: PeerIndex,
        /// The token to report to the engine at the end.
        token: u64,
        /// Where the bytes go that an atomic operation returns, and where they are in the bounce buffers; or no bytes.
        result: (Piece, usize),
    },
}

/// A spare buffer, by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spare(usize);

/// All slots.
pub(super) struct Operations {
    slots: Vec<Operation>,
    free: usize,
    busy: usize,
    contexts: Contexts,
    bounce: Pages,
    stride: usize,
    /// The spare buffers, after those of the slots, that are free.
    spares: Vec<Spare>,
    spare_len: usize,
    /// The buffers' registration, for local operations.
    descriptor: *mut c_void,
}

// SAFETY: the descriptor is libfabric's, of no thread in particular.
unsafe impl Send for Operations {}

impl Operations {
    /// `count` slots with bounce buffers of `stride` bytes, and `spares` buffers of `spare_len` bytes.
    pub(super) fn new(count: usize, stride: usize, spares: usize, spare_len: usize) -> Result<Operations> {
        Ok(Operations {
            slots: (0..count)
                .map(|index| Operation::Free { next: index + 1 })
                .collect(),
            free: 0,
            busy: 0,
            contexts: Contexts::new(count)?,
            bounce: Pages::map(count * stride + spares * spare_len)?,
            stride,
            spares: (0..spares).rev().map(Spare).collect(),
            spare_len,
            descriptor: std::ptr::null_mut(),
        })
    }

    pub(super) fn bounce(&self) -> &Pages {
        &self.bounce
    }

    pub(super) fn set_descriptor(&mut self, descriptor: *mut c_void) {
        self.descriptor = descriptor;
    }

    pub(super) fn descriptor(&self) -> *mut c_void {
        self.descriptor
    }

    /// The next slot that [`Operations::start`] would use; the last one freed, whose memory is warm.
    #[inline]
    pub(super) fn next(&self) -> Option<usize> {
        (self.free < self.slots.len()).then_some(self.free)
    }

    /// Marks the slot that [`Operations::next`] returned as used.
    #[inline]
    pub(super) fn start(&mut self, slot: usize, operation: Operation) {
        debug_assert_eq!(slot, self.free);
        if let Operation::Free { next } = std::mem::replace(&mut self.slots[slot], operation) {
            self.free = next;
            self.busy += 1;
        }
    }

    /// Ends an operation and returns what it was; `None` if the slot was free.
    #[inline]
    pub(super) fn end(&mut self, slot: usize) -> Option<Operation> {
        if matches!(self.slots[slot], Operation::Free { .. }) {
            return None;
        }
        let next = std::mem::replace(&mut self.free, slot);
        self.busy -= 1;
        Some(std::mem::replace(&mut self.slots[slot], Operation::Free { next }))
    }

    /// A free spare buffer: the one that [`Operations::take`] would take.
    pub(super) fn spare(&self) -> Option<Spare> {
        self.spares.last().copied()
    }

    /// Marks the buffer that [`Operations::spare`] returned as used.
    pub(super) fn take(&mut self, spare: Spare) {
        let taken = self.spares.pop();
        debug_assert_eq!(taken, Some(spare));
    }

    /// Frees a spare buffer.
    pub(super) fn give_back(&mut self, spare: Spare) {
        self.spares.push(spare);
    }

    /// Copies a message into a free spare buffer. It must fit, which the caller has checked.
    pub(super) fn fill_spare(&mut self, Spare(number): Spare, header: &[u8], payload: RawBytes) -> *const u8 {
        let offset = self.slots.len() * self.stride + number * self.spare_len;
        assert!(self.spares.contains(&Spare(number)) && header.len() + payload.len() <= self.spare_len);
        // SAFETY: the buffer is inside the pages, which are mapped for writing, and long enough (asserted); nobody uses it
        // (asserted), libfabric neither.
        let buffer = unsafe {
            std::slice::from_raw_parts_mut(self.bounce.base().add(offset), header.len() + payload.len())
        };
        buffer[..header.len()].copy_from_slice(header);
        RawRoom::from(&mut buffer[header.len()..]).fill_from(payload);
        buffer.as_ptr()
    }

    /// How many bytes a slot's bounce buffer has.
    pub(super) fn room(&self) -> usize {
        self.stride
    }

    /// Copies pieces into a free slot's bounce buffer, one after the other. They must fit, which the caller has checked. Returns the place
    /// of the buffer among all, and its address.
    ///
    /// # Safety
    /// The pieces are valid for reading.
    pub(super) unsafe fn gather(&mut self, slot: usize, pieces: &[Piece]) -> (usize, *mut u8) {
        assert!(
            matches!(self.slots[slot], Operation::Free { .. }) && total(pieces) <= self.stride,
            "the slot is free, and the bytes fit"
        );
        let place = slot * self.stride;
        // SAFETY: the slot's buffer is inside the pages.
        let base = unsafe { self.bounce.base().add(place) };
        let mut done = 0;
        for piece in pieces {
            // SAFETY: the buffer is mapped for writing, and long enough (asserted); the slot is free (asserted), so nobody uses it. The
            // caller says that the piece is readable.
            unsafe {
                RawRoom::new(base.add(done), piece.len).fill_from(piece.bytes());
            }
            done += piece.len;
        }
        (place, base)
    }

    /// Copies bytes from a place in the bounce buffers to a piece.
    ///
    /// # Safety
    /// The piece is valid for writing, and the bytes are those of an operation that has just ended.
    pub(super) unsafe fn hand_out(&self, place: usize, into: Piece) {
        assert!(
            place + into.len <= self.slots.len() * self.stride,
            "within the buffers"
        );
        // SAFETY: the bytes are inside the pages (asserted), and libfabric no longer uses them, as the caller says, who also vouches for
        // the piece.
        unsafe {
            let bytes = RawBytes::new(self.bounce.base().add(place), into.len);
            into.room().fill_from(bytes);
        }
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.busy == 0
    }

    /// Whether an operation concerns a peer. `of`: whose memory a transfer concerns.
    pub(super) fn concern(&self, peer: PeerIndex, of: impl Fn(u32) -> Option<PeerIndex>) -> bool {
        self.slots.iter().any(|slot| match slot {
            Operation::Free { .. } => false,
            Operation::Copied { peer: to }
            | Operation::Spared { peer: to, .. }
            | Operation::Lent { peer: to, .. }
            | Operation::OneSided { peer: to, .. } => *to == peer,
            Operation::Transfer { transfer } => of(*transfer) == Some(peer),
        })
    }

    /// The slot that a context belongs to.
    #[inline]
    pub(super) fn index(&self, context: *mut c_void) -> Option<usize> {
        self.contexts.index(context)
    }

    /// What to hand to libfabric with the operation.
    #[inline]
    pub(super) fn context(&self, slot: usize) -> *mut c_void {
        self.contexts.pointer(slot)
    }

    /// Copies the header into a free slot's bounce buffer, and lets `payload` write `len` bytes after it. They must fit,
    /// which the caller has checked.
    #[inline]
    pub(super) fn fill(
        &mut self,
        slot: usize,
        header: &[u8],
        len: usize,
        payload: impl FnOnce(RawRoom),
    ) -> *const u8 {
        assert!(
            matches!(self.slots[slot], Operation::Free { .. }) && header.len() + len <= self.stride,
            "the slot is free, and the message fits"
        );
        // SAFETY: the slot's buffer is inside the pages, which are mapped for writing, and long enough (asserted); the slot
        // is free (asserted), so libfabric does not use it, and nobody else has this memory.
        let buffer = unsafe {
            let at = self.bounce.base().add(slot * self.stride);
            std::slice::from_raw_parts_mut(at, header.len() + len)
        };
        let (head, rest) = buffer.split_at_mut(header.len());
        head.copy_from_slice(header);
        payload(RawRoom::from(rest));
        buffer.as_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_back() {
        let mut operations = Operations::new(2, 64, 0, 0).unwrap();
        let peer = PeerIndex::new(0);
        let first = operations.next().unwrap();
        operations.start(first, Operation::Copied { peer });
        let second = operations.next().unwrap();
        operations.start(second, Operation::Copied { peer });
        assert_ne!(first, second);
        assert_eq!(operations.next(), None);
        assert!(operations.end(first).is_some());
        assert!(
            operations.end(first).is_none(),
            "a completion that comes twice changes nothing"
        );
        assert_eq!(operations.next(), Some(first));
        assert!(!operations.is_idle());
        assert!(operations.end(second).is_some());
        assert!(operations.is_idle());
    }

    #[test]
    fn spare_buffers_lie_apart_and_come_back() {
        let mut operations = Operations::new(3, 64, 2, 1000).unwrap();
        let slot = operations.fill(2, &[1; 32], 32, |rest| rest.fill_from(&[1; 32][..]));
        let first = operations.spare().unwrap();
        let a = operations.fill_spare(first, &[2; 40], RawBytes::from(&[2; 960][..]));
        operations.take(first);
        let second = operations.spare().unwrap();
        let b = operations.fill_spare(second, &[3; 40], RawBytes::from(&[3; 960][..]));
        operations.take(second);
        assert_eq!(operations.spare(), None);
        // SAFETY: the buffers are the operations', and have that many bytes.
        let all = |at: *const u8, len, byte| unsafe {
            std::slice::from_raw_parts(at, len)
                .iter()
                .all(|found| *found == byte)
        };
        assert!(all(slot, 64, 1) && all(a, 1000, 2) && all(b, 1000, 3));
        operations.give_back(first);
        assert_eq!(operations.spare(), Some(first));
    }
}
