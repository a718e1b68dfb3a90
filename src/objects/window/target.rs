//! Operations by messages, at their target: what is done with a batch (see [`super::message`]).
//!
//! It is done while this process makes progress, under the engine's lock. Operations of one process are done in their order; those of one
//! that waits for the lock are kept until it is granted. What can't be answered with a short message is a task.

mod long;

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::access::Place;
use super::active::FEW;
use super::conflicts::{self, Conflicts};
use super::direct::{self, Combine};
use super::message::{self, ACKNOWLEDGE, Code, EXCLUSIVE, FETCHED, FLUSHED, HOLDS_OTHERS, Head, Parsed};
use super::queue::{Queue, Waiting};
use super::runs::{self, Groups};
use super::{Exposed, Window};
use crate::base::bytes::{RawBytes, RawRoom};
use crate::base::error::{Error, Result};
use crate::data::datatype::{Datatype, Runs, Unit};
use crate::data::memory::Memory;
use crate::data::op::{Op, check_compare_and_swap, compare_and_swap};
use crate::engine::dispatch::{Incoming, Outlet, Serve};
use crate::engine::matching::Envelope;
use crate::err;
use crate::identity::PeerIndex;

/// What a process knows as a target.
#[derive(Default)]
pub struct Served {
    /// How many operations were done, by their phases.
    arrived: [u64; 2],
    /// How many were said to come, where their origins say that with them, if any has said that it has sent some.
    counted: [Option<u64>; 2],
    /// The phase that this process is in: fences end it.
    phase: usize,
    /// Batches of the next phase.
    ahead: Vec<(From, Vec<u8>)>,
    /// A fence has failed, so that not all are in the same phase or the next.
    phaseless: bool,
    lock: Queue,
    /// Those who have got the lock, and have not been told.
    granted: VecDeque<Waiting>,
    /// How many tasks send from the window's memory or receive into it.
    under_way: usize,
    /// Room for what is received to be combined.
    rooms: Vec<Vec<u8>>,
    origins: FxHashMap<u32, FromOrigin>,
    /// What conflicts, if that is checked.
    conflicts: Option<Conflicts>,
}

/// What it knows of an origin.
#[derive(Default)]
struct FromOrigin {
    /// While it waits: its batches from there on, with their phases.
    held: Option<VecDeque<(usize, Vec<u8>)>>,
    /// It waits for its tasks to end, not for the lock.
    waits_for_tasks: bool,
    /// How many tasks send from the window's memory to it, or receive into that.
    under_way: usize,
    /// It is lost: when the last of them has ended, it is forgotten.
    lost: bool,
    /// The first error of its operations since it was last told.
    failed: Option<Error>,
}

impl Served {
    /// `checks`: conflicts are to be found.
    pub fn new(checks: bool) -> Served {
        Served {
            conflicts: checks.then(Conflicts::default),
            ..Served::default()
        }
    }

    /// An epoch in which all could access this process's memory has ended.
    pub fn end_accesses(&mut self) {
        if let Some(conflicts) = &mut self.conflicts {
            conflicts.end_all();
        }
    }

    /// An origin has completed its operations; `fetched`: those that fetch.
    fn end_accesses_of(&mut self, rank: u32, fetched: bool) {
        if let Some(conflicts) = &mut self.conflicts {
            conflicts.end(rank, fetched);
        }
    }

    /// An operation was wrong.
    fn note_error(&mut self, from: From, error: Error) {
        let origin = self.origins.entry(from.rank).or_default();
        origin.failed.get_or_insert(error);
    }

    /// Whether operations of an origin may be done now that do not come by a message: none wait that came before, and no fence lies between.
    pub fn may_begin(&self, rank: u32, phase: usize) -> bool {
        let waits = || {
            self.origins
                .get(&rank)
                .is_some_and(|origin| origin.held.is_some())
        };
        phase == self.phase && !self.phaseless && self.conflicts.is_none() && !waits()
    }

    /// A task begins for an origin that uses the window's memory.
    fn begins(&mut self, from: From) {
        self.under_way += 1;
        self.origins.entry(from.rank).or_default().under_way += 1;
    }
}

/// What is known when a phase has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ended {
    /// Some origin has said with its operations how many it has sent.
    pub counted: bool,
    /// Some of the next phase had come, and were done.
    pub ahead: bool,
}

/// What becomes of the rest of a batch.
enum Rest {
    /// It is done next.
    Next,
    /// It waits for the lock.
    Waits,
    /// It waits, with the operation, until all tasks for the origin have ended.
    WaitsForTasks,
    /// It makes no sense.
    Nonsense,
}

/// The origin of a batch.
#[derive(Clone, Copy)]
struct From {
    rank: u32,
    peer: PeerIndex,
    phase: usize,
}

impl Serve for Window {
    fn message(&self, incoming: &mut Incoming<'_>) -> bool {
        let arg = incoming.arg();
        let (rank, phase) = (arg as u32, (arg >> 32) as usize);
        let group = self.communicator().group();
        if phase > 1 || rank >= group.size() || group.member(rank) != incoming.from() {
            return false;
        }
        let from = From {
            rank,
            peer: incoming.from(),
            phase,
        };
        let payload = incoming.payload();
        let outlet = incoming.outlet();
        let mut served = self.served().lock();
        let done = if phase == served.phase || served.phaseless {
            self.deliver(&mut served, outlet, from, payload)
        } else {
            // It has left a fence in which this process still waits for operations of others.
            served.ahead.push((from, payload.to_vec()));
            true
        };
        outlet.happened();
        done
    }

    fn rung(&self) -> bool {
        self.serve_mailboxes()
    }

    fn lost(&self, outlet: &mut Outlet<'_>, peer: PeerIndex) {
        let Some(rank) = self.communicator().group().rank_of(peer) else {
            return;
        };
        let mut served = self.served().lock();
        served.ahead.retain(|(from, _)| from.rank != rank);
        let origin = served.origins.entry(rank).or_default();
        (origin.held, origin.failed, origin.lost) = (None, None, true);
        if origin.under_way == 0 {
            self.forget(&mut served, outlet, rank);
        }
    }
}

impl Window {
    /// Begins the next phase, once all operations of this one are done: so many, and those that others have said with them. What has come ahead is
    /// done now. `None`: more have to come.
    pub(super) fn next_phase(&self, outlet: &mut Outlet<'_>, expected: u64) -> Option<Ended> {
        let mut served = self.served().lock();
        let phase = served.phase;
        let counted = served.counted[phase];
        let expected = expected.checked_add(counted.unwrap_or(0))?;
        let left = served.arrived[phase].checked_sub(expected)?;
        (served.arrived[phase], served.counted[phase]) = (left, None);
        served.phase = 1 - phase;
        served.end_accesses();
        let ahead = std::mem::take(&mut served.ahead);
        let ended = Ended {
            counted: counted.is_some(),
            ahead: !ahead.is_empty(),
        };
        for (from, batch) in ahead {
            // If it makes no sense, its sender loses its operations, which it will wait for.
            self.deliver(&mut served, outlet, from, batch[..].into());
        }
        Some(ended)
    }

    /// After a fence that has failed nothing waits for its phase any more.
    pub(super) fn give_up_phases(&self, outlet: &mut Outlet<'_>) {
        let mut served = self.served().lock();
        served.phaseless = true;
        // Nor is it known from now on what is over.
        served.conflicts = None;
        for (from, batch) in std::mem::take(&mut served.ahead) {
            self.deliver(&mut served, outlet, from, batch[..].into());
        }
        outlet.happened();
    }

    /// Does the operations of a batch, unless its origin waits for the lock. `false`: it makes no sense.
    fn deliver(&self, served: &mut Served, outlet: &mut Outlet<'_>, from: From, batch: RawBytes<'_>) -> bool {
        match served.origins.get_mut(&from.rank) {
            Some(FromOrigin { held: Some(held), .. }) => {
                held.push_back((from.phase, batch.to_vec()));
                true
            }
            _ => {
                let done = self.batch(served, outlet, from, batch);
                self.grant(served, outlet);
                done
            }
        }
    }

    /// Does the operations of a batch. `false`: it makes no sense.
    fn batch(&self, served: &mut Served, outlet: &mut Outlet<'_>, from: From, batch: RawBytes<'_>) -> bool {
        let mut rest = batch;
        while !rest.is_empty() {
            let Some((parsed, after)) = message::parse(rest) else {
                return false;
            };
            match self.operation(served, outlet, from, &parsed) {
                Rest::Next => rest = after,
                Rest::Waits => {
                    let held = VecDeque::from([(from.phase, after.to_vec())]);
                    served.origins.entry(from.rank).or_default().held = Some(held);
                    return true;
                }
                Rest::WaitsForTasks => {
                    let held = VecDeque::from([(from.phase, rest.to_vec())]);
                    let origin = served.origins.entry(from.rank).or_default();
                    (origin.held, origin.waits_for_tasks) = (Some(held), true);
                    return true;
                }
                Rest::Nonsense => return false,
            }
        }
        true
    }

    fn operation(
        &self,
        served: &mut Served,
        outlet: &mut Outlet<'_>,
        from: From,
        parsed: &Parsed<'_>,
    ) -> Rest {
        let head = &parsed.head;
        // An acknowledgement says that the window's memory may change: no lane reads it any more.
        if matches!(head.code, Code::Unlock | Code::Flush)
            && served.under_way != 0
            && served.origins.entry(from.rank).or_default().under_way != 0
        {
            return Rest::WaitsForTasks;
        }
        self.check_conflicts(served, from, parsed);
        let done = match head.code {
            Code::Lock => {
                let asks = Waiting {
                    rank: from.rank,
                    exclusive: head.flags & EXCLUSIVE != 0,
                    holds_others: head.flags & HOLDS_OTHERS != 0,
                    tag: (head.tag != 0).then_some(head.tag as i32),
                };
                return match served.lock.ask(asks) {
                    None => Rest::Nonsense,
                    Some(false) => Rest::Waits,
                    Some(true) => {
                        self.tell_granted(outlet, from.peer, asks.tag);
                        Rest::Next
                    }
                };
            }
            Code::Unlock => {
                let Some(granted) = served.lock.give_back(from.rank) else {
                    return Rest::Nonsense;
                };
                served.end_accesses_of(from.rank, false);
                self.acknowledge(served, outlet, from, head.tag);
                served.granted.extend(granted);
                return Rest::Next;
            }
            Code::Flush => {
                if head.flags & (FLUSHED | FETCHED) != 0 {
                    served.end_accesses_of(from.rank, head.flags & FLUSHED == 0);
                }
                self.acknowledge(served, outlet, from, head.tag);
                return Rest::Next;
            }
            Code::Count => {
                let Some(number) = parsed.data.array().map(u64::from_le_bytes) else {
                    return Rest::Nonsense;
                };
                let is_used = self.communicator().size() <= FEW;
                let counted = &mut served.counted[from.phase];
                // Each other process says so once before a fence.
                if !is_used || number > COUNTED_MAX || counted.replace(number).is_some() {
                    return Rest::Nonsense;
                }
                return Rest::Next;
            }
            Code::Put => self.on_put(outlet, from, parsed),
            Code::PutLong => match self.on_put_long(served, outlet, from, parsed) {
                // It counts as done when its task has ended.
                Some(Ok(())) => return Rest::Next,
                done => done,
            },
            Code::AccumulateLong => match self.on_accumulate_long(served, outlet, from, parsed) {
                Some(Ok(())) => return Rest::Next,
                done => done,
            },
            Code::Get => match self.on_get(served, outlet, from, parsed) {
                // It counts as done when its send has ended.
                Some(Ok(true)) => return Rest::Next,
                done => done.map(|done| done.map(drop)),
            },
            Code::Accumulate => self.on_accumulate(outlet, from, parsed, false),
            Code::GetAccumulate => self.on_accumulate(outlet, from, parsed, true),
            Code::CompareAndSwap => self.on_compare_and_swap(outlet, from, parsed),
        };
        served.arrived[from.phase] += 1;
        match done {
            Some(Ok(())) => {}
            Some(Err(error)) => served.note_error(from, error),
            None => return Rest::Nonsense,
        }
        Rest::Next
    }

    /// Remembers what an operation accesses, if that is checked, and a conflict with another one as an error of it.
    fn check_conflicts(&self, served: &mut Served, from: From, parsed: &Parsed<'_>) {
        let Some(conflicts) = &mut served.conflicts else {
            return;
        };
        let Some(access) = conflicts::Access::of(from.rank, &parsed.head) else {
            return;
        };
        // What is wrong with others is said by whoever does them.
        let unit = access.unit();
        let Some(Some(Ok((groups, _)))) = unit.map(|unit| self.groups(parsed, unit)) else {
            return;
        };
        let same_op = self.hints().get("accumulate_ops").as_deref() == Some("same_op");
        if let Some(conflict) = conflicts.note(access, &groups, same_op) {
            let addresses = matches!(self.exposed(), Exposed::Attached(_));
            let words = conflict.describe(self.communicator().rank(), addresses);
            served.note_error(from, err!(RmaConflict, "{words}"));
        }
    }

    /// Those who have got the lock go on with what was kept, which may give it to others.
    fn grant(&self, served: &mut Served, outlet: &mut Outlet<'_>) {
        while let Some(next) = served.granted.pop_front() {
            let peer = self.communicator().group().member(next.rank);
            self.tell_granted(outlet, peer, next.tag);
            self.resume(served, outlet, next.rank);
        }
    }

    /// Goes on with what was kept of an origin.
    fn resume(&self, served: &mut Served, outlet: &mut Outlet<'_>, rank: u32) {
        let peer = self.communicator().group().member(rank);
        let held = served.origins.entry(rank).or_default().held.take();
        let mut held = held.unwrap_or_default();
        while let Some((phase, batch)) = held.pop_front() {
            let from = From { rank, peer, phase };
            // Whoever sent the message that this is done for is another one, and not to blame.
            self.batch(served, outlet, from, batch[..].into());
            // It may have to wait once more.
            if let Some(again) = &mut served.origins.entry(rank).or_default().held {
                again.append(&mut held);
            }
        }
    }

    fn tell_granted(&self, outlet: &mut Outlet<'_>, peer: PeerIndex, tag: Option<i32>) {
        if let Some(tag) = tag {
            outlet.send(peer, self.envelope(tag), &[]);
        }
    }

    /// Tells an origin that its operations are done, or what was wrong with one.
    fn acknowledge(&self, served: &mut Served, outlet: &mut Outlet<'_>, from: From, tag: u32) {
        let failed = served
            .origins
            .get_mut(&from.rank)
            .and_then(|origin| origin.failed.take());
        let told = failed.map_or_else(Vec::new, |error| told(&error));
        // No length but none can be sent to anybody at once: the setting `eager_max` may be smaller than any error.
        // The window exists: it is being served.
        let _ = self.answer(outlet, from, &Head::of(Code::Flush, tag as i32), &told);
    }

    fn envelope(&self, tag: i32) -> Envelope {
        let communicator = self.communicator();
        Envelope {
            context: communicator.context(),
            source: communicator.rank(),
            tag,
        }
    }

    /// The groups of an operation, all of which are in this process's part of the window, and how many bytes of data that is. `None`: they
    /// make no sense.
    fn groups(&self, parsed: &Parsed<'_>, unit: Unit) -> Option<Result<(Groups, u64)>> {
        // Another process may be able to write where they came from.
        let one: Option<[u8; runs::GROUP_BYTES_MIN]> = parsed.groups.array();
        let mut several: SmallVec<[u8; 2 * runs::GROUP_BYTES_MAX]> = SmallVec::new();
        let bytes = match &one {
            Some(one) => &one[..],
            None => {
                several.resize(parsed.groups.len(), 0);
                RawRoom::from(&mut several[..]).fill_from(parsed.groups);
                &several[..]
            }
        };
        let (groups, data, rest) = runs::decode(bytes, parsed.head.groups.into(), unit)?;
        if !rest.is_empty() {
            return None;
        }
        let inside = groups.iter().try_for_each(|group| self.contains(group, unit));
        Some(inside.map(|()| (groups, data)))
    }

    /// Whether this process exposes what a group names.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_RANGE`.
    fn contains(&self, group: &Runs, unit: Unit) -> Result<()> {
        match self.exposed() {
            Exposed::Attached(attached) if runs::is_attached(group, unit, attached) => Ok(()),
            Exposed::Attached(_) => {
                let span = group.span(unit);
                Err(err!(
                    RmaRange,
                    "not all memory from {:#x} to {:#x} of rank {} is attached to the window",
                    span.start,
                    span.end,
                    self.communicator().rank()
                ))
            }
            exposed if runs::is_within(group, unit, exposed.size() as u64) => Ok(()),
            exposed => runs::check_range(
                &group.span(unit),
                exposed.size() as u64,
                self.communicator().rank(),
            ),
        }
    }

    /// Whether all of a place is attached, in this process's own part of a dynamic window.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_RANGE`.
    pub(super) fn check_attached(&self, place: &Place) -> Result<()> {
        let unit = place.unit();
        let mut groups = Groups::new();
        let mut from = 0;
        while from < place.len() {
            from += place.access().piece(from, u64::MAX, GROUPS_AT_ONCE, &mut groups);
            groups.iter().try_for_each(|group| self.contains(group, unit))?;
        }
        Ok(())
    }

    fn on_put(&self, outlet: &mut Outlet<'_>, from: From, parsed: &Parsed<'_>) -> Option<Result<()>> {
        let done = self.store(parsed)?;
        self.acknowledge_one(outlet, from, &parsed.head);
        Some(done)
    }

    /// Stores the data of an operation. `None`: it makes no sense.
    pub(super) fn store(&self, parsed: &Parsed<'_>) -> Option<Result<()>> {
        match self.groups(parsed, Unit::BYTE)? {
            Ok((groups, len)) if len == parsed.data.len() as u64 => {
                // SAFETY: the runs are within what this process exposes, which the user leaves to the window's operations, and the data
                // has as many bytes.
                unsafe { direct::scatter(parsed.data, self.exposed().base(), &groups) };
                Some(Ok(()))
            }
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        }
    }

    fn acknowledge_one(&self, outlet: &mut Outlet<'_>, from: From, head: &Head) {
        if head.flags & ACKNOWLEDGE != 0 {
            outlet.send(from.peer, self.envelope(head.tag as i32), &[]);
        }
    }

    /// Forgets an origin that is lost. What it has left behind in the window is not known, but nobody waits for its lock any more.
    fn forget(&self, served: &mut Served, outlet: &mut Outlet<'_>, rank: u32) {
        served.origins.remove(&rank);
        served.end_accesses_of(rank, false);
        let granted = served.lock.forget(rank);
        served.granted.extend(granted);
        self.grant(served, outlet);
    }

    /// Whether the answer is still being sent from the window's memory.
    fn on_get(
        &self,
        served: &mut Served,
        outlet: &mut Outlet<'_>,
        from: From,
        parsed: &Parsed<'_>,
    ) -> Option<Result<bool>> {
        let (groups, len) = match self.groups(parsed, Unit::BYTE)? {
            Ok(found) => found,
            Err(error) => {
                self.answer(outlet, from, &parsed.head, &[])?;
                return Some(Err(error));
            }
        };
        let base = self.exposed().base();
        if len <= COPIED {
            let mut bytes = [0; COPIED as usize];
            let bytes = &mut bytes[..len as usize];
            // SAFETY: the runs are within what this process exposes, which the user leaves to the window's operations.
            unsafe { direct::gather(RawRoom::from(&mut *bytes), base, &groups) };
            // Not from the window's memory, even if it can't go at once: a lane may be busy with it for longer than the origin, which may have it
            // changed as soon as it has the bytes.
            self.answer(outlet, from, &parsed.head, bytes)?;
            return Some(Ok(false));
        }
        match runs::memory(base, &groups) {
            Ok(memory) => {
                self.send_later(outlet, from, &parsed.head, memory, None)?;
                served.begins(from);
                Some(Ok(true))
            }
            Err(error) => {
                self.answer(outlet, from, &parsed.head, &[])?;
                Some(Err(error))
            }
        }
    }

    /// Loads what an operation fetches, `most` bytes at most. `None`: it makes no sense.
    pub(super) fn load(
        &self,
        parsed: &Parsed<'_>,
        most: u64,
        into: &mut SmallVec<[u8; 64]>,
    ) -> Option<Result<()>> {
        match self.groups(parsed, Unit::BYTE)? {
            Ok((groups, len)) if len <= most => {
                into.resize(len as usize, 0);
                // SAFETY: the runs are within what this process exposes, which the user leaves to the window's operations.
                unsafe { direct::gather(RawRoom::from(&mut into[..]), self.exposed().base(), &groups) };
                Some(Ok(()))
            }
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Answers an operation with some bytes.
    fn answer(&self, outlet: &mut Outlet<'_>, from: From, head: &Head, bytes: &[u8]) -> Option<()> {
        if outlet.send(from.peer, self.envelope(head.tag as i32), bytes) {
            return Some(());
        }
        let bytes = bytes.to_vec();
        let memory = Memory::of(&bytes);
        self.send_later(outlet, from, head, memory, Some(bytes))
    }

    fn on_accumulate(
        &self,
        outlet: &mut Outlet<'_>,
        from: From,
        parsed: &Parsed<'_>,
        fetches: bool,
    ) -> Option<Result<()>> {
        let mut before = SmallVec::new();
        let done = self.update(parsed, fetches.then_some(&mut before))?;
        match fetches {
            true => self.answer(outlet, from, &parsed.head, &before)?,
            false => self.acknowledge_one(outlet, from, &parsed.head),
        }
        Some(done)
    }

    /// Combines the data of an operation with what is there; `before` gets what that was, and nothing after an error. `None`: it makes no sense.
    pub(super) fn update(
        &self,
        parsed: &Parsed<'_>,
        before: Option<&mut SmallVec<[u8; 64]>>,
    ) -> Option<Result<()>> {
        let (op, component) = combined_by(&parsed.head)?;
        let (groups, len) = match self.groups(parsed, Unit::element(component))? {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        // `MPI_NO_OP` needs no operands. A batch has no more than so many bytes (see `origin`).
        let has_operands = parsed.data.len() as u64 == len || parsed.data.is_empty() && op.is_no_op();
        if !has_operands || len > FETCHED_MAX {
            return None;
        }
        let old = before.map(|before| {
            before.resize(len as usize, 0);
            before.as_mut_ptr()
        });
        // Mostly it is one word; and here nobody else updates it.
        if let ([group], Some(single)) = (&groups[..], op.single(component))
            && group.units() == 1
            && !self.is_shared()
        {
            let target = runs::place(self.exposed().base(), group.at);
            if (target as usize).is_multiple_of(single.size()) {
                let old = old.unwrap_or(std::ptr::null_mut());
                // SAFETY: as below, for one element, which is aligned.
                unsafe { single.update(parsed.data.as_ptr(), target, old) };
                return Some(Ok(()));
            }
        }
        self.with_sharing(self.communicator().rank(), |sharing| {
            let combine = Combine {
                op,
                component,
                sharing,
            };
            // SAFETY: the runs are within what this process exposes, which the user leaves to the window's operations; operands, where they
            // are used, and `before` have as many elements.
            unsafe {
                direct::accumulate_groups(combine, self.exposed().base(), &groups, parsed.data.as_ptr(), old)
            };
        });
        Some(Ok(()))
    }

    fn on_compare_and_swap(
        &self,
        outlet: &mut Outlet<'_>,
        from: From,
        parsed: &Parsed<'_>,
    ) -> Option<Result<()>> {
        let mut before = SmallVec::new();
        let done = self.swap(parsed, &mut before)?;
        self.answer(outlet, from, &parsed.head, &before)?;
        Some(done)
    }

    /// Compares one element with the second half of an operation's data, and swaps it for the first; `before` as for [`Window::update`]. `None`: it
    /// makes no sense.
    pub(super) fn swap(&self, parsed: &Parsed<'_>, before: &mut SmallVec<[u8; 64]>) -> Option<Result<()>> {
        let component = Datatype::predefined(parsed.head.datatype.into())?;
        check_compare_and_swap(component).ok()?;
        let size = component.size() as usize;
        let (value, compare) = (parsed.data.first(size), parsed.data.skip(size));
        if value.len() != size || compare.len() != size {
            return None;
        }
        let (groups, len) = match self.groups(parsed, Unit::element(component))? {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        let [group] = &groups[..] else { return None };
        if len != size as u64 {
            return None;
        }
        before.resize(size, 0);
        let target = runs::place(self.exposed().base(), group.at);
        self.with_sharing(self.communicator().rank(), |sharing| {
            let (value, compare) = (value.as_ptr(), compare.as_ptr());
            // SAFETY: as in `update`, for one element.
            unsafe { compare_and_swap(component, value, compare, before.as_mut_ptr(), target, sharing) };
        });
        Some(Ok(()))
    }
}

/// How an operation combines elements, and of which datatype. `None`: not as an accumulate may.
fn combined_by(head: &Head) -> Option<(&'static Op, &'static Datatype)> {
    let component = Datatype::predefined(head.datatype.into())?;
    let op = Op::predefined(head.op.into())?;
    op.check_accumulate(component).ok()?;
    Some((op, component))
}

/// So many groups are looked at together.
const GROUPS_AT_ONCE: usize = 16;
/// A get of up to so many bytes is answered from a copy, a longer one from the window's memory.
pub const COPIED: u64 = 4 << 10;
/// The most operations that a process can say to have sent before a fence: more than it can have.
const COUNTED_MAX: u64 = 1 << 48;
/// The most bytes that an operation fetches.
const FETCHED_MAX: u64 = 64 << 10;

/// An error in a message: its class, and its words.
pub(super) fn told(error: &Error) -> Vec<u8> {
    let mut told = (error.class as u32).to_le_bytes().to_vec();
    told.extend_from_slice(error.to_string().as_bytes());
    told.truncate(256);
    told
}

/// An error of a target.
pub fn error_of(told: &[u8]) -> Error {
    let class = told
        .first_chunk()
        .and_then(|bytes| crate::Class::of_number(u32::from_le_bytes(*bytes)))
        .unwrap_or(crate::Class::Intern);
    let words = String::from_utf8_lossy(told.get(4..).unwrap_or_default());
    Error::new(class, format!("{words} (the target has found this)"))
}
