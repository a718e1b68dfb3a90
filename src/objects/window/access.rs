//! The operations of a window (MPI 5.0 section 12.3): what they check, and by which way each goes.

use std::sync::Arc;

use super::direct::{self, Combine};
use super::members::Way;
use super::runs::{self, Access};
use super::{Exposed, Flavor, Origin, Window, ordering};
use crate::base::error::Result;
use crate::data::datatype::{Datatype, Unit};
use crate::data::memory::Memory;
use crate::data::op::{Op, Sharing, check_compare_and_swap, compare_and_swap};
use crate::engine::request::{Outcome, RequestId};
use crate::err;
use crate::lane::shm::cma;

/// Elements at a target: what the user says of them.
#[derive(Clone, Debug)]
pub struct Target {
    /// Whose memory.
    pub rank: u32,
    /// Where they begin, in the target's displacement units; for a dynamic window, their address.
    pub disp: i64,
    /// How many.
    pub count: u64,
    /// Of which type.
    pub datatype: Arc<Datatype>,
}

/// Elements at a target that lie within what it exposes, as far as its origin knows.
#[derive(Clone, Debug)]
pub struct Place {
    /// Whose memory.
    pub rank: u32,
    /// Where the datatype's origin is: in bytes from the beginning of the target's memory, or an address for a dynamic window.
    pub at: u64,
    /// How many elements.
    pub count: u64,
    /// Of which type.
    pub datatype: Arc<Datatype>,
    /// The predefined type that they consist of, for accumulates.
    pub component: Option<&'static Arc<Datatype>>,
    /// How many bytes of them, packed, are accessed: all, or the first ones.
    pub bytes: u64,
    /// The most of them that can be sent behind their operation from where they are, if it goes by messages.
    pub in_place: u64,
}

/// A get of more bytes costs more by message than by the kernel.
const SHORT_GET: u64 = 4 << 10;

impl Place {
    /// A run of bytes.
    pub(super) fn of_bytes(rank: u32, at: u64, len: u64) -> Place {
        Place {
            rank,
            at,
            count: len,
            datatype: Datatype::byte().clone(),
            component: None,
            bytes: len,
            in_place: 0,
        }
    }

    /// How many bytes are accessed, packed.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Where they are, as this process sees it.
    fn memory(&self, at: *mut u8) -> Memory {
        let all = Memory::new(at, self.count, &self.datatype);
        match all.len() == self.bytes {
            true => all,
            false => all.part(0, self.bytes),
        }
    }

    /// What runs of it are counted in.
    pub fn unit(&self) -> Unit {
        self.component
            .map_or(Unit::BYTE, |component| Unit::element(component))
    }

    /// Where its bytes are.
    pub fn access(&self) -> Access<'_> {
        Access::new(&self.datatype, self.count, self.at, self.unit()).expect("checked when it was made")
    }
}

/// What an operation does.
#[derive(Clone)]
pub enum Action {
    /// `MPI_Put`: from this memory.
    Put(Memory),
    /// `MPI_Get`: to this memory.
    Get(Memory),
    /// `MPI_Accumulate`: from this memory.
    Accumulate(Memory, Arc<Op>),
    /// `MPI_Get_accumulate`: from the first memory; what was there before goes to the second.
    GetAccumulate(Memory, Memory, Arc<Op>),
    /// `MPI_Compare_and_swap`: the new value, the expected one, and where the one before goes.
    CompareAndSwap(Memory, Memory, Memory),
}

/// An operation that has not been sent.
pub struct Pending {
    /// What it does.
    pub action: Action,
    /// Where.
    pub place: Place,
    /// The request that ends with it.
    pub done: Option<RequestId>,
}

impl Window {
    /// Stores `origin` at the target.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: no epoch allows it; `MPI_ERR_RMA_RANGE`: it is outside the target's memory; `MPI_ERR_TRUNCATE`: the two sides
    /// have different numbers of bytes; the target's error, if it is lost.
    ///
    /// # Safety
    /// The memory is valid, and nobody writes to it, until the operation is complete at this process as the standard says (section 12.5).
    /// This process and the target use the target's memory only as the standard allows.
    pub unsafe fn put(self: &Arc<Self>, origin: Memory, target: &Target) -> Result<()> {
        let place = self.place(target, None)?;
        let place = fits(&origin, place, true)?;
        // SAFETY: the caller's promises.
        unsafe { self.start(Action::Put(origin), place, false) }.map(drop)
    }

    /// Stores what is at the target in `result`.
    ///
    /// # Errors
    /// As for [`Window::put`].
    ///
    /// # Safety
    /// As there; the memory is valid for writing and nobody uses it.
    pub unsafe fn get(self: &Arc<Self>, result: Memory, target: &Target) -> Result<()> {
        let place = self.place(target, None)?;
        let place = fits(&result, place, false)?;
        // SAFETY: the caller's promises.
        unsafe { self.start(Action::Get(result), place, false) }.map(drop)
    }

    /// Combines `origin`, elements of `datatype`, with what is at the target, element by element: `target = target op origin`.
    ///
    /// # Errors
    /// As for [`Window::put`]; `MPI_ERR_TYPE`: the two sides do not consist of the same predefined type; `MPI_ERR_OP`: the operation is not
    /// defined on it, or is the user's.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn accumulate(
        self: &Arc<Self>,
        origin: Memory,
        datatype: &Datatype,
        target: &Target,
        op: &Arc<Op>,
    ) -> Result<()> {
        let place = self.combined(Some(&origin), datatype, target, op)?;
        // SAFETY: the caller's promises.
        unsafe { self.start(Action::Accumulate(origin, op.clone()), place, false) }.map(drop)
    }

    /// As [`Window::accumulate`], and what was at the target before is stored in `result`, elements of `result_type`. With `MPI_NO_OP`
    /// `origin` is not used.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there, and as for [`Window::get`].
    pub unsafe fn get_accumulate(
        self: &Arc<Self>,
        origin: (Memory, &Datatype),
        result: (Memory, &Datatype),
        target: &Target,
        op: &Arc<Op>,
    ) -> Result<()> {
        // SAFETY: the caller's promises.
        unsafe { self.start_get_accumulate(origin, result, target, op, false) }.map(drop)
    }

    /// If the element at the target is equal to that in `compare`, it becomes that in `origin`; what was there before is stored in `result`.
    ///
    /// # Errors
    /// As for [`Window::put`]; `MPI_ERR_TYPE` for a type that the standard does not allow.
    ///
    /// # Safety
    /// As for [`Window::get_accumulate`].
    pub unsafe fn compare_and_swap(
        self: &Arc<Self>,
        origin: Memory,
        compare: Memory,
        result: Memory,
        target: &Target,
    ) -> Result<()> {
        check_compare_and_swap(&target.datatype)?;
        let place = self.place(target, target.datatype.component())?;
        let action = Action::CompareAndSwap(origin, compare, result);
        // SAFETY: the caller's promises.
        unsafe { self.start(action, place, false) }.map(drop)
    }

    /// [`Window::put`] with a request, which ends when `origin` may be used again.
    ///
    /// # Errors
    /// As there; only in passive target communication.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn rput(self: &Arc<Self>, origin: Memory, target: &Target) -> Result<RequestId> {
        let place = self.place(target, None)?;
        let place = fits(&origin, place, true)?;
        // SAFETY: the caller's promises.
        unsafe { self.start_with_request(Action::Put(origin), place) }
    }

    /// [`Window::get`] with a request, which ends when `result` is there.
    ///
    /// # Errors
    /// As for [`Window::rput`].
    ///
    /// # Safety
    /// As for [`Window::get`].
    pub unsafe fn rget(self: &Arc<Self>, result: Memory, target: &Target) -> Result<RequestId> {
        let place = self.place(target, None)?;
        let place = fits(&result, place, false)?;
        // SAFETY: the caller's promises.
        unsafe { self.start_with_request(Action::Get(result), place) }
    }

    /// [`Window::accumulate`] with a request, as [`Window::rput`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn raccumulate(
        self: &Arc<Self>,
        origin: Memory,
        datatype: &Datatype,
        target: &Target,
        op: &Arc<Op>,
    ) -> Result<RequestId> {
        let place = self.combined(Some(&origin), datatype, target, op)?;
        // SAFETY: the caller's promises.
        unsafe { self.start_with_request(Action::Accumulate(origin, op.clone()), place) }
    }

    /// [`Window::get_accumulate`] with a request, as [`Window::rget`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn rget_accumulate(
        self: &Arc<Self>,
        origin: (Memory, &Datatype),
        result: (Memory, &Datatype),
        target: &Target,
        op: &Arc<Op>,
    ) -> Result<RequestId> {
        // SAFETY: the caller's promises.
        let started = unsafe { self.start_get_accumulate(origin, result, target, op, true) }?;
        Ok(started.expect("a request was asked for"))
    }

    /// # Safety
    /// As for [`Window::get_accumulate`].
    unsafe fn start_get_accumulate(
        self: &Arc<Self>,
        (origin, origin_type): (Memory, &Datatype),
        (result, result_type): (Memory, &Datatype),
        target: &Target,
        op: &Arc<Op>,
        request: bool,
    ) -> Result<Option<RequestId>> {
        let reads = op.is_no_op();
        let place = match reads {
            true => self.combined(None, result_type, target, op)?,
            false => self.combined(Some(&origin), origin_type, target, op)?,
        };
        if place.len() != 0 {
            Datatype::accumulated(result_type, &target.datatype)?;
        }
        let place = fits(&result, place, false)?;
        let origin = if reads { Memory::empty() } else { origin };
        let action = Action::GetAccumulate(origin, result, op.clone());
        // SAFETY: the caller's promises.
        unsafe {
            match request {
                true => self.start_with_request(action, place).map(Some),
                false => self.start(action, place, false),
            }
        }
    }

    /// The place of an accumulate, from a memory of some datatype or to one.
    fn combined(
        &self,
        origin: Option<&Memory>,
        datatype: &Datatype,
        target: &Target,
        op: &Op,
    ) -> Result<Place> {
        let component = match target.count == 0 || target.datatype.size() == 0 {
            true => None,
            false => {
                let component = Datatype::accumulated(datatype, &target.datatype)?;
                op.check_accumulate(component)?;
                Some(component)
            }
        };
        let place = self.place(target, component)?;
        match origin {
            Some(origin) => fits(origin, place, true),
            None => Ok(place),
        }
    }

    /// Where a target's elements are.
    fn place(&self, target: &Target, component: Option<&'static Arc<Datatype>>) -> Result<Place> {
        let member = self.members().member(target.rank);
        let dynamic = self.flavor() == Flavor::Dynamic;
        let at = runs::offset(target.disp, if dynamic { 1 } else { member.disp_unit })?;
        let place = Place {
            rank: target.rank,
            at,
            count: target.count,
            datatype: target.datatype.clone(),
            component,
            bytes: 0,
            in_place: 0,
        };
        let access = Access::new(&place.datatype, place.count, at, Unit::BYTE)?;
        let (bytes, span) = (access.len(), access.span());
        let place = Place { bytes, ..place };
        match span {
            None => Ok(Place { count: 0, ..place }),
            // The target checks what is attached there; this, that the bytes have addresses.
            Some(span) if dynamic => runs::check_range(&span, u64::MAX, place.rank).map(|()| place),
            Some(span) => runs::check_range(&span, member.size, place.rank).map(|()| place),
        }
    }

    /// # Safety
    /// As for the operation.
    unsafe fn start_with_request(self: &Arc<Self>, action: Action, place: Place) -> Result<RequestId> {
        // SAFETY: as the caller says.
        let started = unsafe { self.start(action, place, true) }?;
        Ok(started.expect("a request was asked for"))
    }

    /// Starts an operation. `None`: no request was asked for.
    ///
    /// # Safety
    /// As for the operation.
    unsafe fn start(
        self: &Arc<Self>,
        action: Action,
        place: Place,
        request: bool,
    ) -> Result<Option<RequestId>> {
        let mut origin = self.origin().lock();
        match request {
            true => origin.epochs.access_with_request(place.rank)?,
            false => origin.epochs.access(place.rank)?,
        }
        let alone = self.has_alone(&origin, place.rank);
        let done = match place.count {
            0 => true,
            _ if self.is_better_by_messages(&origin, &action, &place) => false,
            // SAFETY: the place is within the target's memory; the rest as the caller says.
            _ => unsafe { self.directly(&action, &place, alone) }?,
        };
        if done {
            drop(origin);
            return Ok(request.then(|| {
                // The wait for it will have nothing to wait for.
                self.take_turn(false);
                self.ended_request()
            }));
        }
        // SAFETY: as the caller says.
        if let Some(started) = unsafe { self.by_lane(&mut origin, &action, &place, request) } {
            return Ok(started);
        }
        // SAFETY: as the caller says.
        let started = unsafe { self.by_messages(&mut origin, action, place, request) };
        self.release(origin);
        started
    }

    /// Whether an operation is left to messages though this process gets at the target's memory: a system call costs more than a short
    /// message, and the target makes progress.
    fn is_better_by_messages(&self, origin: &Origin, action: &Action, place: &Place) -> bool {
        let is_short = match action {
            Action::Put(_) => place.len() <= self.limits().short(),
            Action::Get(_) => place.len() <= SHORT_GET,
            _ => return false,
        };
        is_short && origin.epochs.is_active() && matches!(self.members().way(place.rank), Way::Attach { .. })
    }

    /// Does an operation at once where this process gets at the target's memory. `false`: it does not. `alone`: nobody else updates that
    /// meanwhile.
    ///
    /// # Safety
    /// As for the operation; the place is within the target's memory, or that of a dynamic window.
    #[inline]
    unsafe fn directly(&self, action: &Action, place: &Place, alone: bool) -> Result<bool> {
        ordering::begin_loads();
        match self.members().way(place.rank) {
            Way::Messages | Way::Remote => Ok(false),
            // SAFETY: the caller's promises; a way leads to all of what the target exposes.
            Way::Mapped(base) => unsafe { self.by_processor(action, place, base, alone) }.map(|()| true),
            // SAFETY: as above.
            Way::Attach { pid, address } => unsafe { self.by_kernel(action, place, pid, address) },
        }
    }

    /// Does an operation on memory that this process sees.
    ///
    /// # Safety
    /// As for [`Window::directly`].
    unsafe fn by_processor(&self, action: &Action, place: &Place, base: *mut u8, alone: bool) -> Result<()> {
        if let Exposed::Attached(_) = self.exposed() {
            self.check_attached(place)?;
        }
        let at = runs::place(base, place.at);
        let there = || place.memory(at);
        let (op, origin, result) = match action {
            Action::Put(origin) => {
                // SAFETY: the caller's memories.
                unsafe { direct::copy(origin, &there()) };
                return Ok(());
            }
            Action::Get(result) => {
                // SAFETY: as above.
                unsafe { direct::copy(&there(), result) };
                return Ok(());
            }
            Action::Accumulate(origin, op) => (op, origin, None),
            Action::GetAccumulate(origin, result, op) => (op, origin, Some(result)),
            Action::CompareAndSwap(value, compare, result) => {
                return self.updating(place, alone, |component, sharing| {
                    let address = |memory: &Memory| memory.contiguous().map(|run| run.address);
                    if let (Some(value), Some(compare), Some(result)) =
                        (address(value), address(compare), address(result))
                    {
                        // SAFETY: the caller's memories, of one element each: those that are compared are one run.
                        unsafe { compare_and_swap(component, value, compare, result, at, sharing) };
                    }
                });
            }
        };
        self.updating(place, alone, |component, sharing| {
            let combine = Combine {
                op,
                component,
                sharing,
            };
            // SAFETY: the caller's memories; the datatypes consist of the component, for which the operation is defined.
            unsafe { direct::accumulate(combine, origin, result, at, place.count, &place.datatype) };
        })
    }

    /// Updates elements that this process sees: in memory of its own that no other process does, nobody else does so meanwhile.
    fn updating(
        &self,
        place: &Place,
        alone: bool,
        update: impl FnOnce(&Datatype, Sharing<'_>),
    ) -> Result<()> {
        let component = place.component.expect("an accumulate has one");
        let _served = (!self.is_shared()).then(|| self.served().lock());
        self.with_sharing(place.rank, |sharing| {
            update(component, if alone { Sharing::Alone } else { sharing });
        });
        Ok(())
    }

    /// Does an operation on memory of another process, by the kernel. `false`: it can't.
    ///
    /// # Safety
    /// As for [`Window::directly`].
    unsafe fn by_kernel(&self, action: &Action, place: &Place, pid: u32, address: u64) -> Result<bool> {
        let at = std::ptr::without_provenance_mut(address.wrapping_add(place.at) as usize);
        let there = place.memory(at);
        // SAFETY: the caller's memory; the target exposes what is written.
        let done = unsafe {
            match action {
                Action::Put(origin) => direct::write_attached(pid, &there, origin),
                Action::Get(result) => direct::read_attached(pid, &there, result),
                // Nothing that the kernel copies is atomic.
                Action::Accumulate(..) | Action::GetAccumulate(..) | Action::CompareAndSwap(..) => {
                    return Ok(false);
                }
            }
        };
        match done {
            Ok(()) => Ok(true),
            // Who hears of lost processes says what has become of this one; or it does not allow that any more, and takes messages.
            Err(error) if cma::is_refused(&error) => Ok(false),
            Err(error) => Err(err!(
                Other,
                "the memory of rank {} can't be read or written: {error}",
                place.rank
            )),
        }
    }

    /// A request that has ended.
    pub(super) fn ended_request(&self) -> RequestId {
        let communicator = self.communicator();
        let mut engine = communicator.instance().engine();
        engine.ended_request(Outcome::EMPTY, communicator.context())
    }
}

/// The part of a place that an operation with so much memory at this process accesses: as in a message, what is sent may be less than there is
/// room for (section 12.3.1).
///
/// # Errors
/// `MPI_ERR_TRUNCATE`: it is more.
fn fits(memory: &Memory, place: Place, sends: bool) -> Result<Place> {
    let (here, there) = (memory.len(), place.len());
    let (sent, room) = if sends { (here, there) } else { (there, here) };
    match sent <= room {
        true if sent == 0 => Ok(Place {
            bytes: 0,
            count: 0,
            ..place
        }),
        true => Ok(Place { bytes: sent, ..place }),
        false => Err(err!(
            Truncate,
            "more is sent than there is room for: the datatypes and counts are {here} bytes at this process and {there} bytes at rank {}",
            place.rank
        )),
    }
}
