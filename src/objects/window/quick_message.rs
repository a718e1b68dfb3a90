//! The short way of what programs send most: puts, gets and updates of a short run of bytes or elements where this process does not see the
//! target's memory. Each call does all of its work, or nothing, and says which. Then the general one does it, and finds what is unusual or
//! wrong. As in `quick`, they make no progress, so whoever calls them may hold the window without a reference to it.

use super::collected::SHORT;
use super::members::Way;
use super::message::{self, Code, Head};
use super::{Flavor, Origin, Window, mailbox};
use crate::data::datatype::{Datatype, Runs};
use crate::data::memory::Memory;
use crate::data::op::Op;
use crate::data::pieces::Piece;

impl Window {
    /// Begins to put a run of bytes at a displacement in a rank's memory, or to get it.
    ///
    /// # Safety
    /// As for [`Window::put`] and [`Window::get`].
    pub unsafe fn begin_short(&self, rank: u32, disp: i64, here: Piece, puts: bool) -> bool {
        let Some(at) = self.offset_within(rank, disp, here.len as u64) else {
            return false;
        };
        let way = self.members().way(rank);
        let mut origin = self.origin().lock();
        // Elsewhere the target has to call MPI for the epoch to end.
        let holds_locks = !origin.epochs.is_active();
        // SAFETY: the caller's promises; the bytes are within the rank's memory.
        unsafe {
            match way {
                Way::Attach { .. } if here.len <= SHORT && holds_locks => {
                    self.begin_to_collect(&mut origin, rank, here, at, puts)
                }
                _ => puts && self.put_into_batch(&mut origin, rank, here, at, way != Way::Messages),
            }
        }
    }

    /// Begins to combine elements of a predefined datatype with those at a displacement in a rank's memory; what was there goes to `result`.
    ///
    /// # Safety
    /// As for [`Window::get_accumulate`]; the operation is defined on the datatype, whose elements have no gaps, and the memories have as many
    /// elements.
    pub unsafe fn begin_update(
        &self,
        rank: u32,
        disp: i64,
        (op, datatype): (&Op, &Datatype),
        number: u64,
        [operands, result]: [Option<Piece>; 2],
    ) -> bool {
        let len = number.saturating_mul(datatype.size());
        let Some(at) = self.offset_within(rank, disp, len) else {
            return false;
        };
        let mut origin = self.origin().lock();
        if len > self.limits().short() || origin.epochs.access(rank).is_err() {
            return false;
        }
        if self.ensure_lock(&mut origin, rank).is_err() {
            return false;
        }
        let phase = origin.outbox.phase;
        let code = if result.is_some() {
            Code::GetAccumulate
        } else {
            Code::Accumulate
        };
        let run = Runs {
            at,
            len: number,
            count: 1,
            stride: 0,
        };
        let mut head = Head {
            op: op.handle() as u8,
            datatype: datatype.handle() as u16,
            data: operands.map_or(0, |operands| operands.len) as u32,
            ..Head::of(code, 0)
        };
        if let Some(result) = result {
            // SAFETY: the caller's promises.
            let fetched =
                unsafe { self.fetch_now(&mut origin, rank, (head, run), operands.as_slice(), result) };
            if fetched {
                return true;
            }
        }
        let to = self.to(&mut origin, rank);
        if !to.has_room() || to.batch.len() + head.len_with(&[run]) > self.limits().batch() {
            return false;
        }
        let mut reply = None;
        if let Some(result) = result {
            let tag = origin.outbox.new_tag();
            // SAFETY: the caller's memory, which is the operation's until it ends; replies are waited for.
            match unsafe { self.hear(rank, tag, Memory::run(result.address, result.len)) } {
                Ok(request) => reply = request,
                Err(_) => return false,
            }
            head.tag = tag as u32;
        }
        let to = self.to(&mut origin, rank);
        head.append_with(&[run], &mut to.batch);
        if let Some(operands) = operands {
            // SAFETY: the caller's promise.
            unsafe { message::pack(&Memory::run(operands.address, operands.len), &mut to.batch) };
        }
        message::fill(&mut to.batch);
        to.count(phase);
        let Some(reply) = reply else {
            to.unanswered = true;
            return true;
        };
        // A first one that is waited for is not kept back.
        let alone = to.replies.is_empty();
        to.answered = to.batches();
        to.replies.push(reply);
        if alone && let Err(error) = self.post_batch(&mut origin, rank) {
            origin.failed.get_or_insert(error);
        }
        true
    }

    /// Compares an element of a predefined datatype at a displacement in a rank's memory with `compare`, and swaps it for `value` if they are equal;
    /// `result` gets what it was. All of that only if it is done at once.
    ///
    /// # Safety
    /// As for [`Window::compare_and_swap`]; the datatype is one that this allows, and the memories have its size.
    pub unsafe fn swap_now(
        &self,
        rank: u32,
        disp: i64,
        datatype: &Datatype,
        [value, compare, result]: [Piece; 3],
    ) -> bool {
        let Some(at) = self.offset_within(rank, disp, datatype.size()) else {
            return false;
        };
        let mut origin = self.origin().lock();
        if origin.epochs.access(rank).is_err() {
            return false;
        }
        let run = Runs {
            at,
            len: 1,
            count: 1,
            stride: 0,
        };
        let head = Head {
            datatype: datatype.handle() as u16,
            data: (value.len + compare.len) as u32,
            ..Head::of(Code::CompareAndSwap, 0)
        };
        // SAFETY: the caller's promises.
        unsafe { self.fetch_now(&mut origin, rank, (head, run), &[value, compare], result) }
    }

    /// Has a rank do an operation at once that fetches something, behind what is in the batch.
    ///
    /// # Safety
    /// The operands are readable, and as many as the head says; the result is writable.
    unsafe fn fetch_now(
        &self,
        origin: &mut Origin,
        rank: u32,
        (head, run): (Head, Runs),
        operands: &[Piece],
        result: Piece,
    ) -> bool {
        if result.len > mailbox::ROOM {
            return false;
        }
        let to = self.to(origin, rank);
        if !to.has_nothing_or_only_unsent() || !self.may_ask(origin, rank) {
            return false;
        }
        let batch = &mut self.to(origin, rank).batch;
        let before = batch.len();
        head.append_with(&[run], batch);
        for operand in operands {
            // SAFETY: the caller's promise.
            unsafe { message::pack(&Memory::run(operand.address, operand.len), batch) };
        }
        message::fill(batch);
        // SAFETY: as above.
        let Some(done) = (unsafe { self.ask_now(origin, rank, Some(result)) }) else {
            self.to(origin, rank).batch.truncate(before);
            return false;
        };
        if let Err(error) = done {
            origin.failed.get_or_insert(error);
        }
        true
    }

    /// Whether this process does not see a rank's memory. (What is checked goes by the general way.)
    #[inline]
    pub fn is_unseen(&self, rank: u32) -> bool {
        let members = self.members();
        rank < members.size() && !members.are_checked() && !matches!(members.way(rank), Way::Mapped(_))
    }

    /// Where some bytes at a displacement begin in a rank's memory, if they are within that, and this process does not see it.
    #[inline]
    fn offset_within(&self, rank: u32, disp: i64, len: u64) -> Option<u64> {
        if !self.is_unseen(rank) || self.flavor() == Flavor::Dynamic || len == 0 {
            return None;
        }
        let members = self.members();
        let member = members.member(rank);
        let at = u64::try_from(disp.checked_mul(member.disp_unit)?).ok()?;
        let end = at.checked_add(len)?;
        (end <= member.size).then_some(at)
    }

    /// # Safety
    /// As for [`Window::collect`].
    unsafe fn begin_to_collect(
        &self,
        origin: &mut Origin,
        rank: u32,
        here: Piece,
        at: u64,
        puts: bool,
    ) -> bool {
        if origin.epochs.access(rank).is_err() {
            return false;
        }
        // SAFETY: the caller's promises.
        let collected = unsafe { self.collect(origin, rank, here, at, puts) };
        if let Err(error) = collected {
            // It may be one of an operation before.
            origin.failed.get_or_insert(error);
        }
        // If tasks were begun, the call of synchronisation that waits for them starts them.
        true
    }

    /// `active`: only in an epoch that is.
    ///
    /// # Safety
    /// The memory is readable.
    unsafe fn put_into_batch(
        &self,
        origin: &mut Origin,
        rank: u32,
        here: Piece,
        at: u64,
        active: bool,
    ) -> bool {
        let len = here.len as u64;
        if len > self.limits().short() || origin.epochs.access(rank).is_err() {
            return false;
        }
        if active && !origin.epochs.is_active() || self.ensure_lock(origin, rank).is_err() {
            return false;
        }
        let phase = origin.outbox.phase;
        let to = self.to(origin, rank);
        let run = Runs {
            at,
            len,
            count: 1,
            stride: 0,
        };
        let head = Head {
            data: len as u32,
            ..Head::of(Code::Put, 0)
        };
        if !to.has_room() || to.batch.len() + head.len_with(&[run]) > self.limits().batch() {
            return false;
        }
        head.append_with(&[run], &mut to.batch);
        // SAFETY: the caller's promise.
        unsafe { message::pack(&Memory::run(here.address, here.len), &mut to.batch) };
        message::fill(&mut to.batch);
        to.count(phase);
        to.unanswered = true;
        true
    }
}
