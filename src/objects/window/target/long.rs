//! Operations whose data is a message of its own, at their target: tasks receive it, or send it.

use super::super::direct::{self, Combine};
use super::super::message::{ACKNOWLEDGE, Head, Parsed};
use super::super::outbox::of_data;
use super::super::runs;
use super::{From, Served, Window, combined_by};
use crate::base::error::Result;
use crate::data::datatype::{Datatype, Runs, Unit};
use crate::data::memory::Memory;
use crate::data::op::Op;
use crate::engine::Received;
use crate::engine::dispatch::Outlet;
use crate::engine::request::Outcome;
use crate::instance::Completion;

/// The most bytes that are combined of one message.
const COMBINED_MAX: u64 = 512 << 10;
/// Room for so many of these is kept.
const ROOMS: usize = 4;

impl Window {
    /// The message with the data comes next.
    pub(super) fn on_put_long(
        &self,
        served: &mut Served,
        outlet: &mut Outlet<'_>,
        from: From,
        parsed: &Parsed<'_>,
    ) -> Option<Result<()>> {
        let memory = self
            .groups(parsed, Unit::BYTE)?
            .and_then(|(groups, _)| runs::memory(self.exposed().base(), &groups));
        let (memory, done) = match memory {
            Ok(memory) => (memory, Ok(())),
            // It is received all the same, and lost.
            Err(error) => (Memory::empty(), Err(error)),
        };
        let (window, tag) = (self.me.upgrade()?, parsed.head.tag as i32);
        let acknowledges = parsed.head.flags & ACKNOWLEDGE != 0;
        let uses_memory = done.is_ok();
        if uses_memory {
            served.begins(from);
        }
        outlet.begin(Box::pin(async move {
            // SAFETY: the memory belongs to the window, which this task holds.
            unsafe { window.receive_next(from, tag, memory).await };
            if uses_memory {
                window.task_ended(from);
            }
            if acknowledges {
                window.tell(from.rank, tag)?;
            }
            Ok(Outcome::EMPTY)
        }));
        Some(done)
    }

    /// The message with the operands comes next.
    pub(super) fn on_accumulate_long(
        &self,
        served: &mut Served,
        outlet: &mut Outlet<'_>,
        from: From,
        parsed: &Parsed<'_>,
    ) -> Option<Result<()>> {
        let head = &parsed.head;
        let (op, component) = combined_by(head)?;
        let (found, done) = match self.groups(parsed, Unit::element(component))? {
            Ok((_, len)) if len > COMBINED_MAX => return None,
            Ok(found) => (Some(found), Ok(())),
            // It is received all the same, and lost.
            Err(error) => (None, Err(error)),
        };
        let (window, tag) = (self.me.upgrade()?, head.tag as i32);
        let acknowledges = head.flags & ACKNOWLEDGE != 0;
        if found.is_some() {
            served.begins(from);
        }
        outlet.begin(Box::pin(async move {
            match found {
                Some((groups, len)) => {
                    window
                        .combine_next(from, tag, (op, component), &groups, len)
                        .await;
                    window.task_ended(from);
                }
                None => {
                    // SAFETY: it has no memory.
                    unsafe { window.receive_next(from, tag, Memory::empty()).await };
                }
            }
            if acknowledges {
                window.tell(from.rank, tag)?;
            }
            Ok(Outcome::EMPTY)
        }));
        Some(done)
    }

    /// Receives the data of an operation; how many bytes have come. What went wrong otherwise, the origin knows: it has lost this process, or was
    /// told.
    ///
    /// # Safety
    /// The memory is valid for writing, and for nothing else in use, as long as the future exists.
    async unsafe fn receive_next(&self, from: From, tag: i32, memory: Memory) -> Option<u64> {
        let communicator = self.communicator();
        // SAFETY: the caller's promise; the end of the receive is waited for here, or when the future is dropped.
        let received = unsafe { communicator.receive(Some(from.rank), Some(of_data(tag)), memory) };
        let outcome = match received {
            Ok(Received::Later(request)) => Completion::of(communicator.instance().clone(), request).await,
            Ok(Received::Now(outcome)) => Ok(outcome),
            Err(error) => Err(error),
        };
        let outcome = outcome.ok().filter(|outcome| outcome.error.is_none());
        outcome.map(|outcome| outcome.bytes)
    }

    /// Receives operands, and combines them with the elements of these groups.
    async fn combine_next(
        &self,
        from: From,
        tag: i32,
        (op, component): (&Op, &Datatype),
        groups: &[Runs],
        len: u64,
    ) {
        let mut room = self.served().lock().rooms.pop().unwrap_or_default();
        room.resize(len as usize, 0);
        // SAFETY: the room is this function's, and lives for longer.
        let come = unsafe { self.receive_next(from, tag, Memory::of_mut(&mut room)).await };
        let mut served = self.served().lock();
        if come == Some(len) {
            self.with_sharing(self.communicator().rank(), |sharing| {
                let combine = Combine {
                    op,
                    component,
                    sharing,
                };
                // SAFETY: the runs are within what this process exposes, which the user leaves to the window's operations; there are as many
                // operands.
                unsafe {
                    direct::accumulate_groups(combine, self.exposed().base(), groups, room.as_ptr(), None);
                };
            });
        }
        if served.rooms.len() < ROOMS {
            served.rooms.push(room);
        }
    }

    /// Sends memory as the answer to an operation, by a task, which has the bytes where they are not the window's.
    pub(super) fn send_later(
        &self,
        outlet: &mut Outlet<'_>,
        from: From,
        head: &Head,
        memory: Memory,
        bytes: Option<Vec<u8>>,
    ) -> Option<()> {
        let (window, tag) = (self.me.upgrade()?, head.tag as i32);
        outlet.begin(Box::pin(async move {
            let communicator = window.communicator();
            // SAFETY: the memory belongs to the window or is `bytes`, both of which this task holds until the send has ended.
            let sending = unsafe { communicator.send(from.rank, tag, memory, false, false) };
            if let Ok(Some(request)) = sending {
                // What went wrong, the origin knows: it has lost this process.
                let _ = Completion::of(communicator.instance().clone(), request).await;
            }
            match bytes {
                Some(bytes) => drop(bytes),
                None => window.task_ended(from),
            }
            Ok(Outcome::EMPTY)
        }));
        Some(())
    }

    /// A task that uses the window's memory has ended.
    fn task_ended(&self, from: From) {
        let mut engine = self.communicator().instance().engine();
        let mut outlet = engine.outlet();
        let mut served = self.served().lock();
        served.under_way -= 1;
        served.arrived[from.phase] += 1;
        let origin = served.origins.entry(from.rank).or_default();
        origin.under_way -= 1;
        if origin.under_way == 0 {
            if origin.lost {
                self.forget(&mut served, &mut outlet, from.rank);
            } else if std::mem::take(&mut origin.waits_for_tasks) {
                self.resume(&mut served, &mut outlet, from.rank);
                self.grant(&mut served, &mut outlet);
            }
        }
        outlet.happened();
    }

    /// Whether no task uses the window's memory.
    pub(in crate::objects::window) fn has_no_tasks(&self) -> bool {
        self.served().lock().under_way == 0
    }
}
