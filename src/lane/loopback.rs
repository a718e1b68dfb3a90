//! The lane of a process to itself.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use super::{Lane, Limits, Region, RemoteKey, Sent, Sink};
use crate::base::bytes::RawRoom;
use crate::base::error::Result;
use crate::data::pieces::Piece;
use crate::err;
use crate::identity::PeerIndex;

/// Messages wait in a queue until the next poll; remote reads are copies.
#[derive(Default)]
pub struct Loopback {
    queue: VecDeque<Vec<u8>>,
    /// Buffers of delivered messages, for the next ones.
    spare: Vec<Vec<u8>>,
}

/// More spare buffers than this, or longer ones than `SPARE_BYTES`, are given back.
const SPARE: usize = 64;
const SPARE_BYTES: usize = 16 << 10;

const LIMITS: Limits = Limits {
    buffered: 256 << 10,
    message: 256 << 10,
    piece: 256 << 10,
    ordered: true,
    rma: true,
    rma_from: 0,
    // What is read comes from the other buffer straight into the runs; a message is copied twice.
    read_run: 64,
    register_run: usize::MAX,
    eager: 64 << 10,
    pipelined: 0,
    queue: usize::MAX,
};

impl Lane for Loopback {
    fn name(&self) -> String {
        "loopback".into()
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn address(&self) -> Vec<u8> {
        Vec::new()
    }

    fn connect(&mut self, _: PeerIndex, _: &[u8]) -> Result<()> {
        Ok(())
    }

    unsafe fn send(&mut self, _: PeerIndex, header: &[u8], payload: &[u8], _: u64) -> Result<Sent> {
        let mut message = self.spare.pop().unwrap_or_default();
        message.extend_from_slice(header);
        message.extend_from_slice(payload);
        self.queue.push_back(message);
        Ok(Sent::Done)
    }

    fn send_packed(
        &mut self,
        _: PeerIndex,
        header: &[u8],
        len: usize,
        fill: &mut dyn FnMut(RawRoom),
    ) -> Result<Sent> {
        let mut message = self.spare.pop().unwrap_or_default();
        message.extend_from_slice(header);
        message.resize(header.len() + len, 0);
        fill(RawRoom::from(&mut message[header.len()..]));
        self.queue.push_back(message);
        Ok(Sent::Done)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<bool> {
        let waiting = self.queue.len();
        // Every wait for other processes polls this lane too.
        if waiting == 0 {
            return Ok(false);
        }
        for mut message in self.queue.drain(..) {
            sink.message(&message);
            if self.spare.len() < SPARE && message.capacity() <= SPARE_BYTES {
                message.clear();
                self.spare.push(message);
            }
        }
        Ok(true)
    }

    unsafe fn register(&mut self, pieces: &[Piece]) -> Result<(Region, RemoteKey)> {
        let &[Piece { address, .. }] = pieces else {
            return Err(err!(Intern, "the lane loopback registers one piece at a time"));
        };
        let address = address.expose_provenance() as u64;
        Ok((Region(0), RemoteKey(address.to_le_bytes().to_vec())))
    }

    fn deregister(&mut self, _: Region) {}

    unsafe fn read(
        &mut self,
        _: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        into: &[Piece],
        _: u64,
    ) -> Result<Sent> {
        let Ok(address) = <[u8; 8]>::try_from(key.0.as_slice()) else {
            return Err(err!(
                Intern,
                "a loopback key has 8 bytes, this one {}",
                key.0.len()
            ));
        };
        let mut from: *const u8 =
            std::ptr::with_exposed_provenance((u64::from_le_bytes(address) + offset) as usize);
        for piece in into {
            // SAFETY: the address was made by `register` of this process and is still registered; `into` is the caller's
            // promise. A send to oneself may overlap its receive only in an erroneous program; `copy` permits that.
            unsafe {
                std::ptr::copy(from, piece.address, piece.len);
                from = from.add(piece.len);
            }
        }
        Ok(Sent::Done)
    }

    fn arm(&mut self) -> Option<RawFd> {
        None
    }

    fn can_sleep(&self) -> bool {
        self.queue.is_empty()
    }

    fn is_drained(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_at_once_and_never_sleeps_on_what_it_has() {
        let mut lane = Loopback::default();
        assert_eq!((lane.name().as_str(), lane.address().len()), ("loopback", 0));
        assert_eq!(
            (lane.place(PeerIndex::new(0)), lane.late(PeerIndex::new(0))),
            (None, None)
        );
        assert!(lane.can_sleep() && lane.arm().is_none() && lane.is_drained());
        assert!(!lane.is_registered() && !lane.rings_for_room(PeerIndex::new(0)) && !lane.sleeps_early());
        // SAFETY: the message is copied.
        let sent = unsafe { lane.send(PeerIndex::new(0), &[1], &[2], 0) };
        assert_eq!(sent, Ok(Sent::Done));
        assert!(!lane.can_sleep() && !lane.is_drained());
    }
}
