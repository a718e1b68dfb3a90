//! Access to memory that this process sees, or that the kernel copies from and to: without the target's taking part.
//!
//! - [`copy`]: put and get, between two memories of which one is the target's
//! - [`scatter`] and [`gather`]: the same between packed bytes and groups of runs, which came by a message
//! - [`accumulate`]: all accumulates (`data::op` has the updates of elements); [`accumulate_groups`]: those that came by a message
//! - [`read_attached`] and [`write_attached`]: put and get by cross-memory attach
//!
//! Origin and target may overlap where they are of the same process; what the bytes in common then are is the program's fault.

use std::io;
use std::mem::MaybeUninit;

use super::runs::place;
use crate::base::bytes::{self, RawBytes, RawRoom};
use crate::data::datatype::{Datatype, Runs, Unit};
use crate::data::memory::Memory;
use crate::data::op::{AT_ONCE, Held, MANY, Op, Sharing};
use crate::data::pieces::{Cursor, Piece, total};
use crate::lane::shm::cma;

/// Bytes packed at a time, on the stack: few enough that they stay in the nearest cache.
const BLOCK: usize = 8 << 10;

/// From this mean length on, runs of one of two memories are copied one by one, without packing them first.
const LONG_RUN: u64 = 2 << 10;

/// Room on the stack, which is not cleared before.
#[repr(align(64))]
struct Block(MaybeUninit<[u8; BLOCK]>);

impl Block {
    fn new() -> Block {
        Block(MaybeUninit::uninit())
    }

    fn address(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    /// Packs bytes of a memory from `offset` on, `len` at most; returns how many.
    ///
    /// # Safety
    /// The memory is valid for reading, and `len` is at most [`BLOCK`].
    unsafe fn pack(&mut self, from: &Memory, offset: u64, len: usize) -> usize {
        debug_assert!(len <= BLOCK);
        // SAFETY: the caller's memory; so many bytes are here, and nobody else uses them.
        unsafe { from.pack(offset, RawRoom::new(self.address(), len)) }
    }

    /// Unpacks the first `len` bytes to a memory from `offset` on.
    ///
    /// # Safety
    /// The memory is valid for writing, and the first `len` bytes, at most [`BLOCK`], were written.
    unsafe fn unpack(&mut self, to: &Memory, offset: u64, len: usize) {
        debug_assert!(len <= BLOCK);
        // SAFETY: the caller's memory; so many bytes are here.
        unsafe { to.unpack(offset, RawBytes::new(self.address(), len)) };
    }
}

/// Copies the data of one memory to another one, as much as both have.
///
/// # Safety
/// `from` is valid for reading and `to` for writing.
#[inline]
pub unsafe fn copy(from: &Memory, to: &Memory) {
    match (from.contiguous(), to.contiguous()) {
        // SAFETY: as the caller says.
        (Some(from), Some(to)) => unsafe { copy_run(from, to) },
        // SAFETY: as the caller says.
        _ => unsafe { copy_packed(from, to) },
    }
}

/// # Safety
/// As [`copy`].
#[inline]
unsafe fn copy_run(from: Piece, to: Piece) {
    let len = from.len.min(to.len);
    // SAFETY: the caller's ranges, and as many bytes as both have.
    unsafe {
        let (from, mut to) = (from.part(0, len).bytes(), to.part(0, len).room());
        copy_bytes(from.as_ptr(), to.as_mut_ptr(), len);
    }
}

/// Copies bytes between this process and, it may be, another one; they may overlap.
///
/// # Safety
/// `from` is valid for reading, and `to` for writing, `len` bytes.
#[inline(always)]
unsafe fn copy_bytes(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's ranges.
    unsafe {
        match (from as usize).abs_diff(to as usize) < len {
            true => bytes::copy(from, to, len),
            false => bytes::copy_apart(from, to, len),
        }
    }
}

/// [`copy`] where one of the two is not one run.
///
/// # Safety
/// As [`copy`].
unsafe fn copy_packed(from: &Memory, to: &Memory) {
    let (ours, theirs) = (from.span(), to.span());
    let is_apart = ours.end <= theirs.start || theirs.end <= ours.start;
    let len = from.len().min(to.len());
    let (from_run, to_run) = (from.mean_run(), to.mean_run());
    // SAFETY: the caller's memories. What is copied directly does not overlap.
    unsafe {
        let is_run = from.contiguous().is_some() || to.contiguous().is_some();
        if is_apart && (is_run || from_run.max(to_run) >= LONG_RUN) {
            let (mut done, long) = (0, if from_run > to_run { from } else { to });
            while done < len {
                for piece in long.pieces(done, len - done, cma::BATCH) {
                    match from_run > to_run {
                        true => to.unpack(done, piece.bytes()),
                        false => from.pack(done, piece.room()),
                    };
                    done += piece.len as u64;
                }
            }
            return;
        }
        let mut block = Block::new();
        let mut done = 0;
        while done < len {
            let some = block.pack(from, done, (len - done).min(BLOCK as u64) as usize);
            block.unpack(to, done, some);
            done += some as u64;
        }
    }
}

/// Puts packed bytes where groups of runs of bytes are, in memory that begins at `base`. There are as many bytes.
///
/// # Safety
/// The bytes are readable, and those of the groups writable; the two do not overlap.
pub unsafe fn scatter(bytes: RawBytes<'_>, base: *mut u8, groups: &[Runs]) {
    let mut from = bytes.as_ptr();
    let mut left = bytes.len();
    for runs in groups {
        for at in runs.places() {
            let len = left.min(runs.len as usize);
            // SAFETY: a run of the caller's, and as many bytes of those that are left.
            unsafe { bytes::copy_apart(from, place(base, at), len) };
            from = from.wrapping_add(len);
            left -= len;
            if left == 0 {
                return;
            }
        }
    }
}

/// Packs the bytes of groups of runs, in memory that begins at `base`. There is as much room.
///
/// # Safety
/// The bytes of the groups are readable, and the room is elsewhere.
pub unsafe fn gather(mut room: RawRoom<'_>, base: *mut u8, groups: &[Runs]) {
    let mut to = room.as_mut_ptr();
    let mut left = room.len();
    for runs in groups {
        for at in runs.places() {
            let len = left.min(runs.len as usize);
            // SAFETY: a run of the caller's, and as much of the room as is left.
            unsafe { bytes::copy_apart(place(base, at), to, len) };
            to = to.wrapping_add(len);
            left -= len;
            if left == 0 {
                return;
            }
        }
    }
}

/// How elements are combined.
#[derive(Clone, Copy)]
pub struct Combine<'a> {
    /// By this operation, which is defined on the component ([`Op::check_accumulate`]).
    pub op: &'a Op,
    /// The predefined datatype that they are of ([`Datatype::component`]).
    pub component: &'a Datatype,
    /// Who else may update them.
    pub sharing: Sharing<'a>,
}

impl Combine<'_> {
    /// Combines the elements of a group with packed operands; `before`, if there is one, is room for what they were, packed. `many`: so many
    /// are to be combined together with these that they go under the lock.
    ///
    /// # Safety
    /// As [`Op::update`], for each run of the group, in memory that begins at `base`.
    #[inline]
    unsafe fn runs(
        &self,
        base: *mut u8,
        runs: &Runs,
        operands: *const u8,
        before: Option<*mut u8>,
        many: bool,
    ) {
        let bytes = (runs.len * self.component.size()) as usize;
        let update = |index: usize, at, sharing| {
            let behind = index * bytes;
            // SAFETY: the caller's elements, operands and room.
            unsafe {
                self.op.update(
                    self.component,
                    operands.wrapping_add(behind),
                    place(base, at),
                    runs.len,
                    before.map(|before| before.wrapping_add(behind)),
                    sharing,
                );
            }
        };
        let mut places = runs.places().enumerate();
        match self.sharing {
            // Short runs that would take it one by one.
            Sharing::Shared(guard) if many && bytes < AT_ONCE => {
                let at_once = (AT_ONCE / bytes.max(1)).min(RUNS_AT_ONCE);
                while let Some((index, at)) = places.next() {
                    let held = Held::take(guard);
                    let sharing = held.sharing(self.component, true);
                    update(index, at, sharing);
                    (places.by_ref().take(at_once - 1)).for_each(|(index, at)| update(index, at, sharing));
                    held.interrupt();
                }
            }
            sharing => places.for_each(|(index, at)| update(index, at, sharing)),
        }
    }
}

/// So many runs at most are combined before others get the lock.
const RUNS_AT_ONCE: usize = 256;

/// Combines the elements of groups, in memory that begins at `base`, with packed operands; `before`, if there is one, is room for what they
/// were, packed.
///
/// # Safety
/// As [`Op::update`], for all runs: those of one group after those of the group before it among operands and results.
pub unsafe fn accumulate_groups(
    combine: Combine<'_>,
    base: *mut u8,
    groups: &[Runs],
    operands: *const u8,
    before: Option<*mut u8>,
) {
    let mut done = 0;
    let many = groups.iter().map(Runs::units).sum::<u64>() >= MANY;
    for runs in groups {
        // SAFETY: the caller's promise.
        unsafe {
            combine.runs(
                base,
                runs,
                operands.wrapping_add(done),
                before.map(|before| before.wrapping_add(done)),
                many,
            );
        }
        done += (runs.units() * combine.component.size()) as usize;
    }
}

/// Combines `count` elements of a datatype that is made of the component, at `target`, with those of `origin`; `result`, if there is one,
/// gets what they were. `MPI_NO_OP` does not look at `origin`. No more elements are combined than all have.
///
/// # Safety
/// `origin` is valid for reading, `result` for writing, and the target's elements as [`Op::update`] says.
#[inline]
pub unsafe fn accumulate(
    combine: Combine<'_>,
    origin: &Memory,
    result: Option<&Memory>,
    target: *mut u8,
    count: u64,
    datatype: &Datatype,
) {
    let component = combine.component;
    let operands = match (combine.op.is_no_op(), origin.contiguous()) {
        (true, _) => Some(std::ptr::null()),
        (false, Some(run)) => Some(run.address.cast_const()),
        (false, None) => None,
    };
    let before = match result {
        None => Some(None),
        Some(result) => result.contiguous().map(|run| Some(run.address)),
    };
    let mut len = datatype.size().saturating_mul(count);
    if !combine.op.is_no_op() {
        len = len.min(origin.len());
    }
    if let Some(result) = result {
        len = len.min(result.len());
    }
    let unit = Unit::element(component);
    // One is usual, and a division takes a while.
    let elements = match len == unit.size {
        true => 1,
        false => len / unit.size,
    };
    len = elements * unit.size;
    // SAFETY: the caller's memories, up to as many elements as all of them have.
    unsafe {
        match (operands, before) {
            (Some(operands), Some(before)) => {
                let is_component = std::ptr::eq(datatype, component);
                let run = match datatype.run(count) {
                    Some((offset, _)) if unit.size == unit.extent => Some(offset),
                    _ => is_component.then_some(0),
                };
                if let Some(offset) = run {
                    let first = target.wrapping_offset(offset as isize);
                    combine
                        .op
                        .update(component, operands, first, elements, before, combine.sharing);
                } else {
                    groups(combine, target, count, datatype, 0..len, operands, before);
                }
            }
            _ => by_blocks(combine, origin, result, target, count, datatype, len),
        }
    }
}

/// Combines the elements of some packed bytes of the target's.
///
/// # Safety
/// As [`accumulate`]; operands, and room for results, are packed.
unsafe fn groups(
    combine: Combine<'_>,
    target: *mut u8,
    count: u64,
    datatype: &Datatype,
    range: std::ops::Range<u64>,
    operands: *const u8,
    before: Option<*mut u8>,
) {
    let unit = Unit::element(combine.component);
    let mut done = 0;
    let many = range.end / unit.size >= MANY;
    let first = target.expose_provenance() as u64;
    datatype.runs_of(first, count, range, unit, &mut |runs| {
        // SAFETY: some of the caller's elements, by their addresses.
        unsafe {
            combine.runs(
                std::ptr::null_mut(),
                &runs,
                operands.wrapping_add(done),
                before.map(|before| before.wrapping_add(done)),
                many,
            );
        }
        done += (runs.units() * unit.size) as usize;
        true
    });
}

/// [`accumulate`] of the first `len` bytes, where operands or results have to be packed.
///
/// # Safety
/// As [`accumulate`].
unsafe fn by_blocks(
    combine: Combine<'_>,
    origin: &Memory,
    result: Option<&Memory>,
    target: *mut u8,
    count: u64,
    datatype: &Datatype,
    len: u64,
) {
    let size = combine.component.size();
    let (mut operands, mut before) = (Block::new(), Block::new());
    let mut done = 0;
    while done < len {
        let some = (len - done).min(BLOCK as u64 / size * size);
        // SAFETY: the caller's memories; a block has room for so many bytes.
        unsafe {
            if !combine.op.is_no_op() {
                operands.pack(origin, done, some as usize);
            }
            let was = result.map(|_| before.address());
            groups(
                combine,
                target,
                count,
                datatype,
                done..done + some,
                operands.address(),
                was,
            );
            if let Some(result) = result {
                before.unpack(result, done, some as usize);
            }
        }
        done += some;
    }
}

/// Reads memory of process `pid`, which `from` describes by that process's addresses, into memory of this one, as much as both have.
///
/// # Errors
/// Those of the system: [`cma::is_gone`] tells whether the process is.
///
/// # Safety
/// `into` is valid for writing. (`from` need not be valid: that is an error.)
pub unsafe fn read_attached(pid: u32, from: &Memory, into: &Memory) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        match (from.contiguous(), into.contiguous()) {
            (Some(from), Some(into)) => {
                let len = from.len.min(into.len);
                cma::read_run(pid, from.address as u64, into.part(0, len))
            }
            _ => attached(from, into, |from, into| {
                cma::read(pid, from, into, &mut Cursor::default())
            }),
        }
    }
}

/// Writes memory of this process to that of process `pid`, which `to` describes by that process's addresses, as much as both have.
///
/// # Errors
/// As for [`read_attached`].
///
/// # Safety
/// `from` is valid for reading. Process `pid` expects what is written there. (`to` need not be valid: that is an error.)
pub unsafe fn write_attached(pid: u32, to: &Memory, from: &Memory) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        match (to.contiguous(), from.contiguous()) {
            (Some(to), Some(from)) => {
                let len = from.len.min(to.len);
                cma::write_run(pid, to.address as u64, from.part(0, len))
            }
            _ => attached(to, from, |to, from| cma::write(pid, to, from)),
        }
    }
}

/// Calls with the pieces of two memories, some at a time; the second list has at least as many bytes as the first one.
fn attached(
    theirs: &Memory,
    own: &Memory,
    mut call: impl FnMut(&[Piece], &[Piece]) -> io::Result<()>,
) -> io::Result<()> {
    let (len, mut done) = (theirs.len().min(own.len()), 0);
    while done < len {
        let ours = own.pieces(done, len - done, cma::BATCH);
        let some = theirs.pieces(done, total(&ours) as u64, cma::BATCH);
        if some.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        call(&some, &ours)?;
        done += total(&some) as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
