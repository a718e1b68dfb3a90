//! Sending: by size, a message is injected, copied into a buffer of the lane's, or sent in place.

use super::*;
use crate::base::bytes::RawBytes;

/// A header that may be longer than others: what they have, and the rest.
fn parts(header: &[u8]) -> (&[u8], &[u8]) {
    header.split_at(header.len().min(HEADER_BYTES))
}

impl OfiLane {
    /// Sends a message that is copied in any case.
    #[inline]
    pub(super) fn send_short(
        &mut self,
        peer: PeerIndex,
        header: &[u8],
        len: usize,
        payload: impl FnOnce(RawRoom),
    ) -> Result<Sent> {
        if Secret::BYTES + header.len() + len <= self.inject_size && !self.counts_all {
            self.inject(peer, header, len, payload)
        } else {
            self.send_copied(peer, header, len, payload)
        }
    }

    /// Sends a message that libfabric copies before it returns.
    #[inline]
    pub(super) fn inject(
        &mut self,
        peer: PeerIndex,
        header: &[u8],
        len: usize,
        payload: impl FnOnce(RawRoom),
    ) -> Result<Sent> {
        let Some(known) = self.peers.get_mut(&peer) else {
            return Err(self.unknown(peer));
        };
        let header = known.secret.before(header);
        let bytes = if len == 0 {
            &*header
        } else {
            let bytes = &mut self.scratch[..header.len() + len];
            let (head, rest) = bytes.split_at_mut(header.len());
            head.copy_from_slice(&header);
            payload(RawRoom::from(rest));
            bytes
        };
        // SAFETY: a peer's address is one of the lane's only vector.
        match unsafe { self.endpoint.inject(bytes, known.address) } {
            Ok(Posted::Accepted) => {
                known.accepted();
                Ok(Sent::Done)
            }
            Ok(Posted::Again) => Ok(self.again(peer)),
            Err(error) => Err(self.refused(peer, error)),
        }
    }

    /// Sends from a bounce buffer.
    pub(super) fn send_copied(
        &mut self,
        peer: PeerIndex,
        header: &[u8],
        len: usize,
        payload: impl FnOnce(RawRoom),
    ) -> Result<Sent> {
        let Some(slot) = self.operations.next() else {
            return Ok(Sent::Again);
        };
        let Some(known) = self.peers.get_mut(&peer) else {
            return Err(self.unknown(peer));
        };
        let header = known.secret.before(header);
        let bytes = self.operations.fill(slot, &header, len, payload);
        let descriptor = self.operations.descriptor();
        let context = self.operations.context(slot);
        let len = header.len() + len;
        // SAFETY: the slot's buffer and context are not touched until the operation ends, and outlive the endpoint. The address: as in
        // `inject`.
        match unsafe { self.endpoint.send(bytes, len, descriptor, known.address, context) } {
            Ok(Posted::Accepted) => {
                known.accepted();
                self.operations.start(slot, Operation::Copied { peer });
                Ok(Sent::Done)
            }
            Ok(Posted::Again) => Ok(self.again(peer)),
            Err(error) => Err(self.refused(peer, error)),
        }
    }

    /// Sends a payload that is to be sent in place but can't be registered, as happens when no more memory may be locked:
    /// it is copied into one of the buffers that were registered when the lane was opened.
    #[cold]
    pub(super) fn send_spared(&mut self, peer: PeerIndex, header: &[u8], payload: RawBytes) -> Result<Sent> {
        let (Some(slot), Some(spare)) = (self.operations.next(), self.operations.spare()) else {
            return Ok(Sent::Again);
        };
        let Some(known) = self.peers.get_mut(&peer) else {
            return Err(self.unknown(peer));
        };
        let (first, rest) = parts(header);
        let header = [&*known.secret.before(first), rest].concat();
        let bytes = self.operations.fill_spare(spare, &header, payload);
        let descriptor = self.operations.descriptor();
        let context = self.operations.context(slot);
        let len = header.len() + payload.len();
        // SAFETY: the buffer is taken and the slot's context not touched until the operation ends, and both outlive the
        // endpoint. The address: as in `inject`.
        match unsafe { self.endpoint.send(bytes, len, descriptor, known.address, context) } {
            Ok(Posted::Accepted) => {
                known.accepted();
                self.operations.take(spare);
                self.operations.start(slot, Operation::Spared { peer, spare });
                Ok(Sent::Done)
            }
            Ok(Posted::Again) => Ok(self.again(peer)),
            Err(error) => Err(self.refused(peer, error)),
        }
    }

    /// Sends the payload in place.
    ///
    /// # Safety
    /// As for [`Lane::send`].
    pub(super) unsafe fn send_in_place(
        &mut self,
        peer: PeerIndex,
        header: &[u8],
        payload: Piece,
        token: u64,
    ) -> Result<Sent> {
        let Some(slot) = self.operations.next() else {
            return Ok(Sent::Again);
        };
        let Some(known) = self.peers.get(&peer) else {
            return Err(self.unknown(peer));
        };
        let (first, rest) = parts(header);
        let (address, head) = (known.address, known.secret.before(first));
        let region = if self.registers_local {
            // SAFETY: the caller keeps the payload valid until the completion, at which the region ends.
            let region = unsafe {
                self.registrar
                    .register(&self.domain, &self.endpoint, payload, Access::Send)
            };
            match region {
                Ok(region) => Some(region),
                // SAFETY: the caller says that the payload is readable.
                Err(_) => return self.send_spared(peer, header, unsafe { payload.bytes() }),
            }
        } else {
            None
        };
        let len = head.len() + rest.len();
        let head = self
            .operations
            .fill(slot, &head, rest.len(), |to| to.fill_from(rest));
        let in_place = region
            .as_ref()
            .map_or(std::ptr::null_mut(), |one| one.region.descriptor());
        // SAFETY: the slot's buffer and context are not touched until the operation ends, and outlive the endpoint;
        // the caller vouches for the payload. The address: as in `inject`.
        let posted = unsafe {
            self.endpoint.send_pair(
                [(head, len), (payload.address.cast_const(), payload.len)],
                [self.operations.descriptor(), in_place],
                address,
                self.operations.context(slot),
            )
        };
        if let Ok(Posted::Accepted) = posted {
            self.operations
                .start(slot, Operation::Lent { peer, token, region });
            if let Some(known) = self.peers.get_mut(&peer) {
                known.accepted();
            }
            return Ok(Sent::Pending);
        }
        if let Some(region) = region {
            self.registrar.end(region);
        }
        match posted {
            Err(error) => Err(self.refused(peer, error)),
            Ok(_) => Ok(self.again(peer)),
        }
    }
}
