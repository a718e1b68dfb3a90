//! The fast path of the calls that programs make most: sends, receives and waits with the most common arguments.
//!
//! Each function does all of its call, or nothing, and returns which. Otherwise the general path checks everything from
//! the beginning, and finds what is unusual or wrong. So this needs no error messages, and no description of a buffer
//! beyond an address and a length, which would cost more than the message itself.
//!
//! The conditions: a buffer of a predefined datatype that is one run of bytes and not at null; a process of the
//! communicator; and for a send, standard mode and a lane that takes the message at once.

use std::ffi::{c_int, c_void};

use super::request;
use crate::abi::common::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_REQUEST_NULL};
use crate::abi::common::handle;
use crate::abi::common::objects::COMMUNICATORS;
use crate::abi::common::status;
use crate::abi::common::types::*;
use crate::abi::point_to_point::Receiving;
use crate::abi::process;
use crate::base::error::Result;
use crate::data::datatype::Datatype;
use crate::data::kind::MemoryKind;
use crate::data::memory::Memory;
use crate::data::pieces::Piece;
use crate::engine::Engine;
use crate::engine::matching::Envelope;
use crate::identity::PeerIndex;
use crate::instance::Looked;
use crate::objects::communicator::Communicator;
use crate::system::rcu::Held;

/// Sends.
///
/// # Safety
/// The buffer is valid, and left alone until this returns.
#[inline(always)]
pub unsafe fn send(
    buf: *const c_void,
    number: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> bool {
    let sent = |engine: &mut Engine, to, envelope: &Envelope, bytes: Piece| {
        // SAFETY: the caller keeps the memory valid, and lets nobody write to it, until this returns.
        unsafe { engine.send_now(to, envelope, bytes) }
    };
    message(buf, number, datatype, dest, tag, comm, sent).is_some()
}

/// Sends, and returns to the user a request that has ended.
///
/// # Safety
/// The buffer is valid, and left alone until this returns; the pointer is null or valid for writing.
#[inline(always)]
pub unsafe fn isend(
    buf: *const c_void,
    number: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    to_request: *mut MPI_Request,
) -> Result<bool> {
    if to_request.is_null() {
        return Ok(false);
    }
    let sent = |engine: &mut Engine, to, envelope: &Envelope, bytes: Piece| {
        // SAFETY: the caller keeps the memory valid, and lets nobody write to it, until this returns.
        let id = unsafe { engine.send_now_with_request(to, envelope, bytes) }?;
        Some(request::handle_in(engine, id))
    };
    match message(buf, number, datatype, dest, tag, comm, sent) {
        None => Ok(false),
        Some(handle) => {
            // SAFETY: not null, so the user's.
            unsafe { to_request.write(handle?) };
            Ok(true)
        }
    }
}

/// Starts a receive for which no message has arrived, and returns its request to the user.
///
/// # Safety
/// The buffer is valid, and left alone until the receive has ended; the pointer is null or valid for writing.
#[inline(always)]
pub unsafe fn irecv(
    buf: *mut c_void,
    number: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    to_request: *mut MPI_Request,
) -> Result<bool> {
    if to_request.is_null() {
        return Ok(false);
    }
    let Some(receive) = receive(buf, number, datatype, source, tag, comm) else {
        return Ok(false);
    };
    let Receive {
        comm,
        from,
        tag,
        memory,
    } = receive;
    let peer = from.map(|rank| comm.peers().member(rank));
    let mut engine = comm.instance().engine();
    // SAFETY: the caller keeps the memory valid for writing, and alone for this, until the receive has ended.
    match unsafe { engine.post_now(comm.pattern(from, tag), peer, memory) } {
        None => Ok(false),
        Some(id) => {
            // SAFETY: not null, so the user's.
            unsafe { to_request.write(request::handle_in(&mut engine, id)?) };
            Ok(true)
        }
    }
}

/// The receive that these arguments mean.
#[inline(always)]
pub fn receiving(
    buf: *mut c_void,
    number: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Option<Receiving<Hold>> {
    let Receive {
        comm,
        from,
        tag,
        memory,
    } = receive(buf, number, datatype, source, tag, comm)?;
    Some(Receiving::of(comm, from, tag, memory))
}

/// Waits for a request that has ended without an error, or does so within one call of progress.
///
/// # Safety
/// `to_request` is null or valid for reading and writing a handle, `to_status` `MPI_STATUS_IGNORE` or valid for writing.
#[inline(always)]
pub unsafe fn wait(to_request: *mut MPI_Request, to_status: *mut MPI_Status) -> bool {
    if to_request.is_null() {
        return false;
    }
    // SAFETY: not null, so the user's.
    let Some((index, generation)) = handle::request_place(unsafe { to_request.read() }) else {
        return false;
    };
    let Ok(instance) = process::hold_instance() else {
        return false;
    };
    let looked = instance.look_into(&mut instance.engine(), |engine| {
        engine.take_well_ended(index, generation, handle::REQUEST_GENERATION_MASK)
    });
    drop(instance);
    let Looked::Found(outcome) = looked else {
        return false;
    };
    // SAFETY: read from above; the status is ignored or the user's.
    unsafe {
        status::write(to_status, &outcome);
        to_request.write(MPI_REQUEST_NULL);
    }
    true
}

type Hold = Held<'static, Communicator>;

/// The run of bytes that elements of a predefined datatype are.
#[inline(always)]
pub fn run(buf: *const c_void, number: i64, datatype: MPI_Datatype) -> Option<Piece> {
    let (offset, len) = Datatype::predefined(datatype)?.run(u64::try_from(number).ok()?)?;
    let address = buf.cast_mut().cast::<u8>().wrapping_offset(offset as isize);
    let kind = MemoryKind::of(address);
    (!address.is_null() && len <= isize::MAX as usize).then_some(Piece { address, len, kind })
}

/// Calls `send` to send a message.
#[inline(always)]
fn message<T>(
    buf: *const c_void,
    number: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    send: impl FnOnce(&mut Engine, PeerIndex, &Envelope, Piece) -> Option<T>,
) -> Option<T> {
    let bytes = run(buf, number, datatype)?;
    let comm = COMMUNICATORS.hold(comm)?;
    let rank = u32::try_from(dest).ok()?;
    if rank >= comm.peers().size() || tag < 0 {
        return None;
    }
    let envelope = Envelope {
        context: comm.context(),
        source: comm.rank(),
        tag,
    };
    let to = comm.peers().member(rank);
    send(&mut comm.instance().engine(), to, &envelope, bytes)
}

/// The source and pattern of a receive, and its memory.
struct Receive {
    comm: Hold,
    from: Option<u32>,
    tag: Option<i32>,
    memory: Memory,
}

#[inline(always)]
fn receive(
    buf: *mut c_void,
    number: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Option<Receive> {
    let bytes = run(buf, number, datatype)?;
    let comm = COMMUNICATORS.hold(comm)?;
    let from = match source {
        MPI_ANY_SOURCE => None,
        _ => Some(
            u32::try_from(source)
                .ok()
                .filter(|rank| *rank < comm.peers().size())?,
        ),
    };
    let tag = match tag {
        MPI_ANY_TAG => None,
        _ if tag < 0 => return None,
        _ => Some(tag),
    };
    Some(Receive {
        comm,
        from,
        tag,
        memory: Memory::Contiguous(bytes),
    })
}
