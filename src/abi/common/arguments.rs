//! Arguments: the checks of counts, ranks, tags, buffers, strings and pointers that many procedures share, and how results are returned.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use crate::abi::common::constants::*;
use crate::abi::common::objects::name_of_communicator;
use crate::abi::common::types::*;
use crate::base::error::{Error, Result};
use crate::data::datatype::Datatype;
use crate::data::memory::Memory;
use crate::err;
use crate::objects::communicator::Communicator;
use crate::objects::group::processes;

/// The integer types of counts, displacements and sizes.
pub trait Integer: Copy {
    /// Whether only the `_c` procedures use it.
    const LARGE: bool;

    /// The value as all of them are inside.
    fn wide(self) -> i64;
}

impl Integer for c_int {
    const LARGE: bool = false;

    #[inline]
    fn wide(self) -> i64 {
        self.into()
    }
}

impl Integer for MPI_Aint {
    const LARGE: bool = false;

    #[inline]
    fn wide(self) -> i64 {
        self as i64
    }
}

impl Integer for MPI_Count {
    const LARGE: bool = true;

    #[inline]
    fn wide(self) -> i64 {
        self
    }
}

/// A count argument.
#[inline]
pub fn count(value: impl Into<i64>, name: &str) -> Result<u64> {
    let value = value.into();
    u64::try_from(value).map_err(|_| negative(value, name))
}

#[cold]
fn negative(value: i64, name: &str) -> Error {
    err!(Count, "{name} is {value}, but must not be negative")
}

/// A buffer argument: `count` elements of `datatype` at `address`.
#[inline(always)]
pub fn memory(address: *const c_void, count: u64, datatype: &Arc<Datatype>, name: &str) -> Result<Memory> {
    let memory = Memory::new(address.cast_mut().cast::<u8>(), count, datatype);
    match memory {
        Memory::Contiguous(run) if run.address.is_null() && run.len != 0 => Err(null_buffer(name, count)),
        Memory::Contiguous(run) if run.len <= isize::MAX as usize => Ok(memory),
        Memory::Typed { .. } if count <= isize::MAX as u64 / datatype.size() => Ok(memory),
        _ => Err(endless_buffer(name, count, datatype)),
    }
}

#[cold]
fn endless_buffer(name: &str, count: u64, datatype: &Datatype) -> Error {
    err!(
        Count,
        "{name} is of {count} elements of {}, which is {} bytes long: that does not fit in 63 bits",
        datatype.describe(),
        datatype.size()
    )
}

#[cold]
fn null_buffer(name: &str, count: u64) -> Error {
    err!(Buffer, "{name} is a null pointer, but the count is {count}")
}

/// A rank argument that names a process of the communicator; for an intercommunicator, of the remote group.
#[inline]
pub fn rank(value: c_int, communicator: &Communicator, name: &str) -> Result<u32> {
    if value >= 0 && (value as u32) < communicator.peers().size() {
        return Ok(value as u32);
    }
    Err(outside(value, communicator, name))
}

#[cold]
fn outside(value: c_int, communicator: &Communicator, name: &str) -> Error {
    let whom = match communicator.is_inter() {
        true => "the remote group of ",
        false => "",
    };
    err!(
        Rank,
        "{name} {value} is outside {whom}{} of {}",
        name_of_communicator(communicator),
        processes(communicator.peers().size())
    )
}

/// The root argument of a collective operation.
#[inline]
pub fn root(value: c_int, communicator: &Communicator) -> Result<u32> {
    rank(value, communicator, "root").map_err(|error| Error {
        class: crate::Class::Root,
        ..error
    })
}

/// A tag to send with.
#[inline]
pub fn tag(value: c_int) -> Result<i32> {
    if value >= 0 {
        return Ok(value);
    }
    Err(bad_tag(value))
}

#[cold]
fn bad_tag(value: c_int) -> Error {
    err!(
        Tag,
        "tag {value} is outside 0 to {} (MPI_TAG_UB)",
        crate::objects::communicator::TAG_UB
    )
}

/// A tag to receive with; `None` is `MPI_ANY_TAG`.
#[inline]
pub fn any_tag(value: c_int) -> Result<Option<i32>> {
    if value == MPI_ANY_TAG {
        Ok(None)
    } else {
        tag(value).map(Some)
    }
}

/// A pointer argument to which a result will be written, checked before anything is started or taken.
#[inline]
pub fn present<T>(to: *const T, name: &str) -> Result<()> {
    match to.is_null() {
        true => Err(null_argument(name)),
        false => Ok(()),
    }
}

/// Writes a result to where the user asks for it.
///
/// # Safety
/// The pointer is null or valid for writing.
#[inline]
pub unsafe fn give<T>(to: *mut T, value: T, name: &str) -> Result<()> {
    if to.is_null() {
        return Err(null_argument(name));
    }
    // SAFETY: not null, so valid for writing, as the caller says.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes a count as `int` or as `MPI_Count`; `MPI_UNDEFINED` where it does not fit.
///
/// # Safety
/// The pointer is null or valid for writing.
pub unsafe fn give_count<T: TryFrom<i64> + From<i16>>(to: *mut T, value: i64, name: &str) -> Result<()> {
    let value = T::try_from(value).unwrap_or_else(|_| T::from(MPI_UNDEFINED as i16));
    // SAFETY: the caller's pointers are null or valid for writing.
    unsafe { give(to, value, name) }
}

#[cold]
fn null_argument(name: &str) -> Error {
    err!(Arg, "{name} is a null pointer")
}

/// Reads through a pointer argument.
///
/// # Safety
/// The pointer is null or valid for reading.
#[inline]
pub unsafe fn read<T: Copy>(from: *const T, name: &str) -> Result<T> {
    if from.is_null() {
        return Err(null_argument(name));
    }
    // SAFETY: not null, so valid for reading, as the caller says.
    Ok(unsafe { from.read() })
}

/// An array argument.
///
/// # Safety
/// The pointer is null or valid for `len` elements, for as long as the slice is used.
#[inline]
pub unsafe fn array<'a, T>(from: *const T, len: usize, name: &str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if from.is_null() {
        return Err(null_argument(name));
    }
    // SAFETY: not null, so the caller's array, which has that many elements.
    Ok(unsafe { std::slice::from_raw_parts(from, len) })
}

/// An array argument that is written to.
///
/// # Safety
/// The pointer is null or valid for `len` elements, for as long as the slice is used, and nobody else uses it.
#[inline]
pub unsafe fn array_mut<'a, T>(from: *mut T, len: usize, name: &str) -> Result<&'a mut [T]> {
    if len == 0 {
        return Ok(&mut []);
    }
    if from.is_null() {
        return Err(null_argument(name));
    }
    // SAFETY: not null, so the caller's array, which has that many elements.
    Ok(unsafe { std::slice::from_raw_parts_mut(from, len) })
}

/// A string argument, which must be text.
///
/// # Safety
/// The pointer is null or to a string that ends with a zero byte.
pub unsafe fn text<'a>(from: *const c_char, name: &str) -> Result<&'a str> {
    // SAFETY: as promised by the caller.
    let bytes = unsafe { bytes(from, name) }?;
    std::str::from_utf8(bytes)
        .map_err(|_| err!(Arg, "{name} is not valid UTF-8: \"{}\"", bytes.escape_ascii()))
}

/// A string argument of any bytes.
///
/// # Safety
/// As for [`text`].
pub unsafe fn bytes<'a>(from: *const c_char, name: &str) -> Result<&'a [u8]> {
    if from.is_null() {
        return Err(null_argument(name));
    }
    // SAFETY: the caller's pointer is to a string that ends with a zero byte.
    Ok(unsafe { CStr::from_ptr(from) }.to_bytes())
}

/// The name that an object is given.
///
/// # Safety
/// As for [`text`].
pub unsafe fn object_name<'a>(from: *const c_char, name: &str) -> Result<&'a str> {
    // SAFETY: the caller's pointer is null or a string that ends with a zero byte.
    let given = unsafe { text(from, name) }?;
    if given.len() < MPI_MAX_OBJECT_NAME as usize {
        return Ok(given);
    }
    Err(err!(
        Arg,
        "{name} has {} bytes, more than MPI_MAX_OBJECT_NAME ({MPI_MAX_OBJECT_NAME}) has room for",
        given.len()
    ))
}

/// Copies a text with its zero byte into a buffer of `room` bytes, shortened to fit; returns its length.
///
/// # Safety
/// The pointers are null or valid for writing that much.
pub unsafe fn give_text(to: *mut c_char, room: usize, len: *mut c_int, text: &str, name: &str) -> Result<()> {
    // SAFETY: as promised by the caller.
    unsafe { give_bytes(to, room, len, text.as_bytes(), name) }
}

/// The same for any bytes. Text is not cut within a character.
///
/// # Safety
/// As for [`give_text`].
pub unsafe fn give_bytes(
    to: *mut c_char,
    room: usize,
    len: *mut c_int,
    bytes: &[u8],
    name: &str,
) -> Result<()> {
    if to.is_null() {
        return Err(null_argument(name));
    }
    let mut end = bytes.len().min(room - 1);
    if let Ok(text) = std::str::from_utf8(bytes) {
        end = text.floor_char_boundary(end);
    }
    // SAFETY: `end + 1` bytes fit into the room.
    unsafe {
        to.copy_from_nonoverlapping(bytes.as_ptr().cast(), end);
        to.add(end).write(0);
        give(len, end as c_int, "resultlen")
    }
}
