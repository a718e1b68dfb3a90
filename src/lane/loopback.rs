//! The lane of a process to itself.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use rustc_hash::FxHashMap;

use super::atomic::Atomics;
use super::{HEADER_BYTES, LONGER_BY, Lane, Limits, Region, RemoteKey, Sent, Sink};
use crate::base::bytes::RawRoom;
use crate::base::error::Result;
use crate::data::kind::MemoryKind;
use crate::data::pieces::{Piece, total};
use crate::err;
use crate::identity::PeerIndex;

/// Messages wait in a queue until the next poll; remote reads are copies.
#[derive(Default)]
pub struct Loopback {
    queue: VecDeque<Vec<u8>>,
    /// Buffers of delivered messages, for the next ones.
    spare: Vec<Vec<u8>>,
    /// What may be read, by the number that is its key, and whether it may be written as well.
    regions: FxHashMap<u64, (Piece, bool)>,
    next_region: u64,
}

/// More spare buffers than this, or longer ones than `SPARE_BYTES`, are given back.
const SPARE: usize = 64;
const SPARE_BYTES: usize = 16 << 10;

const LIMITS: Limits = Limits {
    buffered: 256 << 10,
    message: 256 << 10,
    header: HEADER_BYTES + LONGER_BY,
    piece: 256 << 10,
    ordered: true,
    rma: true,
    write: true,
    atomics: Atomics::None,
    needs_target: false,
    ends_with_receipt: true,
    rma_from: 0,
    // What is read comes from the other buffer straight into the runs; a message is copied twice.
    read_run: 64,
    register_run: usize::MAX,
    eager: 64 << 10,
    pipelined: 0,
    queue: usize::MAX,
};

impl Loopback {
    fn insert(&mut self, memory: Piece, exposed: bool) -> (Region, RemoteKey) {
        let region = self.next_region;
        self.next_region += 1;
        self.regions.insert(region, (memory, exposed));
        (Region(region), RemoteKey(region.to_le_bytes().to_vec()))
    }

    /// Some bytes of registered memory, and whether it may be written.
    fn find(&self, key: &RemoteKey, offset: u64, len: usize) -> Result<(Piece, bool)> {
        let number = <[u8; 8]>::try_from(key.0.as_slice()).map(u64::from_le_bytes);
        let found = number.ok().and_then(|number| self.regions.get(&number));
        let Some(&(memory, exposed)) = found else {
            return Err(err!(Other, "the memory is not registered any more"));
        };
        let within = usize::try_from(offset).ok();
        match within.filter(|at| *at <= memory.len && len <= memory.len - at) {
            Some(at) => Ok((memory.part(at, len), exposed)),
            None => Err(err!(
                Intern,
                "an access to {len} bytes at {offset} is outside the {} bytes that are registered",
                memory.len
            )),
        }
    }
}

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

    unsafe fn send(&mut self, _: PeerIndex, header: &[u8], payload: Piece, _: u64) -> Result<Sent> {
        let mut message = self.spare.pop().unwrap_or_default();
        message.extend_from_slice(header);
        // SAFETY: the caller says that the payload is readable.
        unsafe { payload.bytes() }.append_to(&mut message);
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
        let &[piece] = pieces else {
            return Err(err!(Intern, "the lane loopback registers one piece at a time"));
        };
        Ok(self.insert(piece, false))
    }

    unsafe fn expose(&mut self, memory: Piece) -> Result<(Region, RemoteKey)> {
        Ok(self.insert(memory, true))
    }

    unsafe fn write(
        &mut self,
        _: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        from: &[Piece],
        _: u64,
    ) -> Result<Sent> {
        let (mut to, exposed) = self.find(key, offset, total(from))?;
        if !exposed {
            return Err(err!(
                Intern,
                "the memory to be written is registered for being read only"
            ));
        }
        for piece in from {
            let (MemoryKind::System, MemoryKind::System) = (to.kind, piece.kind);
            // SAFETY: within an exposed region, which is writable until it is deregistered; the pieces are readable, as the caller says.
            unsafe { std::ptr::copy(piece.address, to.address, piece.len) };
            to = to.part(piece.len, to.len - piece.len);
        }
        Ok(Sent::Done)
    }

    fn deregister(&mut self, Region(region): Region) {
        self.regions.remove(&region);
    }

    unsafe fn read(
        &mut self,
        _: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        into: &[Piece],
        _: u64,
    ) -> Result<Sent> {
        let (mut from, _) = self.find(key, offset, total(into))?;
        for piece in into {
            let (MemoryKind::System, MemoryKind::System) = (from.kind, piece.kind);
            // SAFETY: within a registered region, which is readable until it is deregistered; the pieces are writable, as the caller
            // says. A send to oneself may overlap its receive only in an erroneous program; `copy` permits that.
            unsafe { std::ptr::copy(from.address, piece.address, piece.len) };
            from = from.part(piece.len, from.len - piece.len);
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
        let sent = unsafe { lane.send(PeerIndex::new(0), &[1], Piece::of(&[2]), 0) };
        assert_eq!(sent, Ok(Sent::Done));
        assert!(!lane.can_sleep() && !lane.is_drained());
    }

    #[test]
    fn only_what_is_registered_is_read() {
        let mut lane = Loopback::default();
        let (source, mut target) = ([1u8, 2, 3, 4], [0u8; 3]);
        let me = PeerIndex::new(0);
        let into = [Piece::of_mut(&mut target)];
        // SAFETY: both arrays outlive the lane's use of them.
        unsafe {
            let (region, key) = lane.register(&[Piece::of(&source)]).expect("one piece");
            assert_eq!(lane.read(me, &key, 1, &into, 0), Ok(Sent::Done));
            for beyond in [2, 5, u64::MAX] {
                assert!(lane.read(me, &key, beyond, &into, 0).is_err());
            }
            lane.deregister(region);
            assert!(lane.read(me, &key, 0, &into, 0).is_err());
            let (_, other) = lane.register(&[Piece::of(&source)]).expect("one piece");
            assert_ne!(key, other);
        }
        assert_eq!(target, [2, 3, 4]);
    }

    #[test]
    fn only_what_is_exposed_is_written() {
        let mut lane = Loopback::default();
        let (mut target, source) = ([1u8, 2, 3, 4], [7u8, 8, 9]);
        let me = PeerIndex::new(0);
        let from = [Piece::of(&source[..1]), Piece::of(&source[1..])];
        // SAFETY: both arrays outlive the lane's use of them.
        unsafe {
            let (readable, key) = lane.register(&[Piece::of_mut(&mut target)]).expect("one piece");
            assert!(lane.write(me, &key, 0, &from, 0).is_err());
            lane.deregister(readable);
            let (region, key) = lane.expose(Piece::of_mut(&mut target)).expect("it is exposed");
            for beyond in [2, 5, u64::MAX] {
                assert!(lane.write(me, &key, beyond, &from, 0).is_err());
            }
            assert_eq!(lane.write(me, &key, 1, &from, 0), Ok(Sent::Done));
            lane.deregister(region);
            assert!(lane.write(me, &key, 0, &from, 0).is_err());
        }
        assert_eq!(target, [1, 7, 8, 9]);
    }
}
