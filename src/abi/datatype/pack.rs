//! Sections 5.2 and 5.3: packing and unpacking.

use std::ffi::{c_char, c_void};

use crate::abi::common::arguments::{Integer, array, array_mut, count, give, give_count, memory, read, text};
use crate::abi::common::objects::{committed, communicator, datatype};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::base::error::Result;
use crate::err;

mpi! {
    /// Section 5.2.
    large fn MPI_Pack(inbuf: *const c_void, incount: Count, type_: MPI_Datatype, outbuf: *mut c_void,
        outsize: Count, position: *mut Count, comm: MPI_Comm) comm(comm) {
        communicator(comm)?;
        let datatype = committed(type_)?;
        let data = memory(inbuf, count(incount, "incount")?, &datatype, "inbuf")?;
        // SAFETY: null or a number of the user's.
        let (at, left) = place(unsafe { read(position, "position") }?, outsize, "outsize")?;
        let bytes = data.len();
        if bytes > left {
            return Err(err!(
                Truncate,
                "{incount} elements take {bytes} bytes, but outbuf has {left} left of {outsize}"
            ));
        }
        // SAFETY: the user's buffers, which do not overlap; `at + bytes` is within the outer one.
        unsafe {
            let into = array_mut(piece(outbuf, at, bytes, "outbuf")?.cast_mut(), bytes as usize, "outbuf")?;
            data.pack(0, into);
            give(position, (at + bytes) as Count, "position")
        }
    }

    /// Section 5.2.
    large fn MPI_Unpack(inbuf: *const c_void, insize: Count, position: *mut Count, outbuf: *mut c_void,
        outcount: Count, type_: MPI_Datatype, comm: MPI_Comm) comm(comm) {
        communicator(comm)?;
        let datatype = committed(type_)?;
        let data = memory(outbuf, count(outcount, "outcount")?, &datatype, "outbuf")?;
        // SAFETY: null or a number of the user's.
        let (at, left) = place(unsafe { read(position, "position") }?, insize, "insize")?;
        let bytes = data.len();
        if bytes > left {
            return Err(err!(
                Truncate,
                "{outcount} elements take {bytes} bytes, but inbuf has {left} left of {insize}"
            ));
        }
        // SAFETY: the user's buffers, which do not overlap; `at + bytes` is within the inner one.
        unsafe {
            let from = array(piece(inbuf, at, bytes, "inbuf")?, bytes as usize, "inbuf")?;
            data.unpack(0, from);
            give(position, (at + bytes) as Count, "position")
        }
    }

    /// Section 5.2. `MPI_UNDEFINED` where it does not fit.
    large fn MPI_Pack_size(incount: Count, type_: MPI_Datatype, comm: MPI_Comm, size: *mut Count) comm(comm) {
        communicator(comm)?;
        let datatype = datatype(type_)?;
        let number = count(incount, "incount")?;
        let bytes = number
            .checked_mul(datatype.size())
            .and_then(|bytes| i64::try_from(bytes).ok())
            .ok_or_else(|| {
                err!(ValueTooLarge, "{number} elements of {} bytes do not fit in 63 bits", datatype.size())
            })?;
        // SAFETY: null or a number of the user's.
        unsafe { give_count(size, bytes, "size") }
    }

    /// Section 5.3.
    large fn MPI_Pack_external(datarep: *const c_char, inbuf: *const c_void, incount: Count,
        type_: MPI_Datatype, outbuf: *mut c_void, outsize: Address, position: *mut Address) local {
        // SAFETY: null or a string of the user's.
        unsafe { external32(datarep) }?;
        let datatype = committed(type_)?;
        let number = count(incount, "incount")?;
        memory(inbuf, number, &datatype, "inbuf")?;
        // SAFETY: null or a number of the user's.
        let (at, left) = place(unsafe { read(position, "position") }?, outsize, "outsize")?;
        // SAFETY: the user's buffers, which do not overlap; `at + left` is the size of the outer one.
        unsafe {
            let into = array_mut(piece(outbuf, at, left, "outbuf")?.cast_mut(), left as usize, "outbuf")?;
            let bytes = datatype.pack_external(inbuf.cast(), number, into)?;
            give(position, (at + bytes as u64) as Address, "position")
        }
    }

    /// Section 5.3.
    large fn MPI_Unpack_external(datarep: *const c_char, inbuf: *const c_void, insize: Address,
        position: *mut Address, outbuf: *mut c_void, outcount: Count, type_: MPI_Datatype) local {
        // SAFETY: null or a string of the user's.
        unsafe { external32(datarep) }?;
        let datatype = committed(type_)?;
        let number = count(outcount, "outcount")?;
        memory(outbuf, number, &datatype, "outbuf")?;
        // SAFETY: null or a number of the user's.
        let (at, left) = place(unsafe { read(position, "position") }?, insize, "insize")?;
        // SAFETY: the user's buffers, which do not overlap; `at + left` is the size of the inner one.
        unsafe {
            let from = array(piece(inbuf, at, left, "inbuf")?, left as usize, "inbuf")?;
            let bytes = datatype.unpack_external(outbuf.cast(), number, from)?;
            give(position, (at + bytes as u64) as Address, "position")
        }
    }

    /// Section 5.3.
    large fn MPI_Pack_external_size(datarep: *const c_char, incount: Count, type_: MPI_Datatype,
        size: *mut Address) local {
        // SAFETY: null or a string of the user's.
        unsafe { external32(datarep) }?;
        let bytes = datatype(type_)?.external_size(count(incount, "incount")?)?;
        // SAFETY: null or a number of the user's.
        unsafe { give(size, bytes as Address, "size") }
    }
}

/// The bytes before and after the position in a buffer of `size` bytes.
fn place<T: Integer>(position: T, size: T, size_name: &str) -> Result<(u64, u64)> {
    let (position, size) = (position.wide(), size.wide());
    if size < 0 {
        return Err(err!(Arg, "{size_name} is {size}, but must not be negative"));
    }
    if !(0..=size).contains(&position) {
        return Err(err!(
            Arg,
            "position is {position}, outside the buffer of {size} bytes"
        ));
    }
    Ok((position as u64, (size - position) as u64))
}

/// Where the bytes from the position on are.
fn piece(buffer: *const c_void, at: u64, bytes: u64, name: &str) -> Result<*const u8> {
    if buffer.is_null() && bytes != 0 {
        return Err(err!(
            Buffer,
            "{name} is a null pointer, but {bytes} bytes of it are needed"
        ));
    }
    Ok(buffer.cast::<u8>().wrapping_add(at as usize))
}

/// The one data representation of section 5.3.
///
/// # Safety
/// The pointer is null or to a string that ends with a zero byte.
unsafe fn external32(datarep: *const c_char) -> Result<()> {
    // SAFETY: the caller's pointer is null or a string that ends with a zero byte.
    match unsafe { text(datarep, "datarep") }? {
        "external32" => Ok(()),
        other => Err(err!(Arg, "datarep is {other:?}, but must be \"external32\"")),
    }
}
