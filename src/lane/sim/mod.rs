//! An in-process lane for tests: a network in virtual time, in which every delay and refusal follows from a seed.
//!
//! The idea: a [`Network`] holds, for each process, a heap of what is going to reach it and when: messages, completions,
//! deaths. A [`SimLane`] delivers what is due when the engine polls it. Time does not advance until [`Network::advance`]
//! is called. Every delay is at least one nanosecond, so nothing that one process does can be seen at another before time
//! has advanced.
//!
//! It is a strict lane. Bytes that must not change while a message is pending are compared when it completes; memory that
//! is the target of a read is first overwritten with arbitrary bytes; a region can be accessed only until it is deregistered.
//!
//! Writes and atomic operations happen in any order, each at once and some time before its completion: when the target polls, or, where
//! [`Limits::needs_target`] is not set, without it.

mod memory;
mod network;

use std::collections::VecDeque;
use std::os::fd::RawFd;

use rustc_hash::FxHashMap;

use self::memory::{Accesses, Reading, gather, region_of, scatter};
pub use self::network::{Conditions, Network};
use self::network::{What, death_of};
use super::atomic::{AtomicTable, Form, Update};
use super::{Doorbell, Lane, Limits, Region, RemoteKey, Sample, Sent, Sink};
use crate::base::error::Result;
use crate::data::pieces::{Piece, Pieces, total};
use crate::err;
use crate::identity::PeerIndex;

/// One process's connection to a [`Network`].
pub struct SimLane {
    me: PeerIndex,
    limits: Limits,
    network: Network,
    /// What is being delivered, outside of the network's lock.
    due: VecDeque<What>,
    /// The numbers in the network of the processes that this one is connected to.
    peers: FxHashMap<PeerIndex, PeerIndex>,
    counts_all: bool,
    /// See [`Lane::atomics`].
    atomics: Box<AtomicTable>,
}

impl SimLane {
    /// The number in the network of a peer.
    fn number(&self, peer: PeerIndex) -> Result<PeerIndex> {
        let number = self.peers.get(&peer).copied();
        number.ok_or_else(|| err!(Intern, "process {} was not connected", peer.number()))
    }
}

impl Lane for SimLane {
    fn name(&self) -> String {
        "sim".into()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn address(&self) -> Vec<u8> {
        self.me.number().to_le_bytes().to_vec()
    }

    fn connect(&mut self, peer: PeerIndex, address: &[u8]) -> Result<()> {
        let node = <[u8; 4]>::try_from(address).map(u32::from_le_bytes);
        let state = &mut *self.network.0.lock();
        match node {
            Ok(node) if (node as usize) < state.nodes.len() => {
                let node = PeerIndex::new(node);
                self.peers.insert(peer, node);
                // Whoever comes too late for the news finds nobody.
                if state.nodes[node.index()].dead {
                    state.announce(node, self.me, state.now_ns, death_of(node));
                }
                Ok(())
            }
            _ => Err(err!(
                Other,
                "process {} has an address that makes no sense",
                peer.number()
            )),
        }
    }

    fn disconnect(&mut self, peer: PeerIndex) {
        let known = self.peers.remove(&peer);
        assert!(known.is_some(), "process {} was not connected", peer.number());
    }

    unsafe fn send(&mut self, peer: PeerIndex, header: &[u8], payload: Piece, token: u64) -> Result<Sent> {
        let peer = self.number(peer)?;
        let state = &mut *self.network.0.lock();
        let len = header.len() + payload.len;
        assert!(
            len <= self.limits.message,
            "a message of {len} bytes in a lane for {}",
            self.limits.message
        );
        if state.chance(state.conditions.again_permille) {
            return Ok(Sent::Again);
        }
        // SAFETY: the caller says that the payload is readable.
        let copy = unsafe { payload.bytes() }.to_vec();
        let message = [header, &copy].concat();
        let dead = state.nodes[peer.index()].dead;
        let left_ns = state.completion_time();
        state.post(self.me, peer, message, left_ns);
        if len <= self.limits.buffered || state.rng.u32(..8) == 0 {
            if self.counts_all {
                state.nodes[self.me.index()].pending += 1;
                state.push(self.me, left_ns, What::Counted);
            }
            return Ok(Sent::Done);
        }
        let result = if dead && state.rng.bool() {
            Err(death_of(peer))
        } else {
            Ok(())
        };
        let left = What::Left {
            peer,
            token,
            payload,
            copy,
            result,
        };
        state.nodes[self.me.index()].pending += 1;
        state.push(self.me, left_ns, left);
        Ok(Sent::Pending)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<bool> {
        let mut state = self.network.0.lock();
        while let Some(what) = state.next_due(self.me) {
            if let What::Left { .. } | What::HasRead { .. } | What::HasAccessed { .. } | What::Counted = &what
            {
                state.nodes[self.me.index()].pending -= 1;
            }
            self.due.push_back(what);
        }
        drop(state);
        let any = !self.due.is_empty();
        for what in self.due.drain(..) {
            match what {
                What::Message { bytes, .. } => sink.message(&bytes),
                What::Left {
                    peer,
                    token,
                    payload,
                    copy,
                    result,
                } => {
                    // SAFETY: the engine promised to keep the payload until this completion.
                    let bytes = unsafe { payload.bytes() }.to_vec();
                    assert!(
                        bytes == copy,
                        "{} bytes on their way from {} to {} were changed before the lane was done with them",
                        copy.len(),
                        self.me.number(),
                        peer.number()
                    );
                    sink.completed(token, result);
                }
                What::HasRead {
                    reading,
                    result,
                    copy,
                } => {
                    // SAFETY: the engine promised to keep the memory until this completion.
                    let bytes = unsafe { gather(&reading.into) };
                    assert!(
                        bytes == copy,
                        "{} bytes being read by {} from {} were touched before the lane was done with them",
                        copy.len(),
                        self.me.number(),
                        reading.peer.number()
                    );
                    sink.completed(reading.token, result);
                }
                What::Lost(name, error) => sink.sender_lost(name, error),
                What::Wake | What::Counted => {}
                What::HasAccessed { access, result } => {
                    match &access.what {
                        Accesses::Write(from) => {
                            // SAFETY: the engine promised to keep the bytes until this completion.
                            let bytes = unsafe { gather(from) };
                            assert!(
                                bytes == access.bytes,
                                "{} bytes being written by {} to {} were changed before the lane was done with them",
                                bytes.len(),
                                self.me.number(),
                                access.peer.number()
                            );
                        }
                        Accesses::Update(update, _) if update.form() != Form::Update => {
                            // SAFETY: the engine promised to keep the memory until this completion.
                            let bytes = unsafe { gather(&[update.result]) };
                            assert!(
                                bytes.iter().all(|&byte| byte == 0xee),
                                "the result of an atomic operation by {} was touched before the lane was done with it",
                                self.me.number()
                            );
                            if let Ok(before) = &result {
                                // SAFETY: as above.
                                unsafe { scatter(before, &[update.result]) };
                            }
                        }
                        Accesses::Update(..) => {}
                    }
                    sink.completed(access.token, result.map(drop));
                }
                What::Read(_) | What::Access(_) => unreachable!("done by next_due"),
            }
        }
        Ok(any)
    }

    unsafe fn register(&mut self, pieces: &[Piece]) -> Result<(Region, RemoteKey)> {
        let state = &mut *self.network.0.lock();
        Ok(state.register(self.me, pieces.into(), false))
    }

    unsafe fn expose(&mut self, memory: Piece) -> Result<(Region, RemoteKey)> {
        let state = &mut *self.network.0.lock();
        Ok(state.register(self.me, Pieces::from_elem(memory, 1), true))
    }

    unsafe fn write(
        &mut self,
        peer: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        from: &[Piece],
        token: u64,
    ) -> Result<Sent> {
        // SAFETY: the caller says that the pieces are readable.
        let bytes = unsafe { gather(from) };
        self.begin((peer, token), (key, offset), bytes, Accesses::Write(from.into()))
    }

    fn atomics(&self) -> &AtomicTable {
        &self.atomics
    }

    unsafe fn atomic(
        &mut self,
        peer: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        update: &Update,
        token: u64,
    ) -> Result<Sent> {
        let count = update.elements()?;
        assert!(
            count <= self.atomics.count(update.form(), update.op, update.number),
            "{count} elements of {update:?}"
        );
        // SAFETY: the caller says that operand and comparand are readable.
        let [operands, comparands] =
            [update.operand, update.compare].map(|piece| unsafe { gather(&[piece]) });
        let what = Accesses::Update(*update, comparands);
        self.begin((peer, token), (key, offset), operands, what)
    }

    fn deregister(&mut self, region: Region) {
        let state = &mut *self.network.0.lock();
        let node = &mut state.nodes[self.me.index()];
        let known = node.regions.remove(&region.0).is_some();
        assert!(
            known || node.dead,
            "region {} of process {} is not registered",
            region.0,
            self.me.number()
        );
    }

    unsafe fn read(
        &mut self,
        peer: PeerIndex,
        key: &RemoteKey,
        offset: u64,
        into: &[Piece],
        token: u64,
    ) -> Result<Sent> {
        let region = region_of(peer, key)?;
        let peer = self.number(peer)?;
        let state = &mut *self.network.0.lock();
        if state.chance(state.conditions.again_permille) {
            return Ok(Sent::Again);
        }
        let reading = Reading {
            peer,
            region,
            offset,
            into: into.into(),
            token,
        };
        if state.rng.u32(..8) == 0 {
            return state.read(&reading).0.map(|()| Sent::Done);
        }
        // SAFETY: the caller's pieces are valid. Arbitrary bytes until the data comes.
        unsafe { scatter(&vec![0xee; total(into)], into) };
        let due_ns = state.now_ns + 1 + state.rng.u64(..=state.conditions.delay_ns_max);
        state.nodes[self.me.index()].pending += 1;
        state.push(self.me, due_ns, What::Read(reading));
        Ok(Sent::Pending)
    }

    fn arm(&mut self) -> Option<RawFd> {
        None
    }

    /// Nobody sleeps in a simulation.
    fn doorbell(&self) -> Option<Doorbell> {
        Some(Doorbell {
            pid: 0,
            descriptor: 0,
            inode: 0,
            wants_fences: false,
        })
    }

    /// All processes are in this one.
    fn sample(&self) -> Option<Sample> {
        static WORD: u64 = 0x7765_6674_2d73_696d;
        Some(Sample {
            pid: std::process::id(),
            address: (&raw const WORD).expose_provenance() as u64,
            value: WORD,
        })
    }

    fn can_sleep(&self) -> bool {
        false
    }

    fn is_drained(&self) -> bool {
        self.network.0.lock().nodes[self.me.index()].pending == 0
    }

    fn count_all(&mut self, on: bool) {
        self.counts_all = on;
    }
}
