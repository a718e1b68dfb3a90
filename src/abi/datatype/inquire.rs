//! Sections 5.1.5 to 5.1.13 and 7.8: what a datatype is; sections 3.2.5, 5.1.11 and 13.3: how many elements are in a
//! status.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use crate::abi::common::arguments::{
    Integer, array_mut, count, give, give_count, give_text, object_name, read,
};
use crate::abi::common::constants::*;
use crate::abi::common::objects::{datatype, new_datatype};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::base::error::Result;
use crate::data::datatype::{Contents, Datatype};
use crate::err;

/// The bytes of a datatype. `MPI_UNDEFINED` says that the Fortran compiler does not have it (section 20.4).
fn size_of_type(handle: MPI_Datatype) -> Result<i64> {
    match datatype(handle) {
        Ok(found) => Ok(found.size() as i64),
        Err(_) if Datatype::unsupported(handle).is_some() => Ok(MPI_UNDEFINED.into()),
        Err(error) => Err(error),
    }
}

mpi! {
    /// Section 5.1.5.
    large fn MPI_Type_size(type_: MPI_Datatype, size: *mut Count) local {
        // SAFETY: null or a number of the user's.
        unsafe { give_count(size, size_of_type(type_)?, "size") }
    }

    /// Section 16.3.
    small fn MPI_Type_size_x(type_: MPI_Datatype, size: *mut MPI_Count) local {
        // SAFETY: null or a number of the user's.
        unsafe { give(size, size_of_type(type_)?, "size") }
    }

    /// Section 5.1.7.
    large fn MPI_Type_get_extent(type_: MPI_Datatype, lb: *mut Address, extent: *mut Address) local {
        let found = datatype(type_)?;
        // SAFETY: each is null or a number of the user's.
        unsafe {
            give(lb, found.lb() as Address, "lb")?;
            give(extent, found.extent() as Address, "extent")
        }
    }

    /// Removed in MPI 3.0; programs still use it.
    small fn MPI_Type_extent(type_: MPI_Datatype, extent: *mut MPI_Aint) local {
        // SAFETY: null or a number of the user's.
        unsafe { give(extent, datatype(type_)?.extent() as MPI_Aint, "extent") }
    }

    /// Removed in MPI 3.0; programs still use it.
    small fn MPI_Type_lb(type_: MPI_Datatype, displacement: *mut MPI_Aint) local {
        // SAFETY: null or a number of the user's.
        unsafe { give(displacement, datatype(type_)?.lb() as MPI_Aint, "displacement") }
    }

    /// Removed in MPI 3.0; programs still use it.
    small fn MPI_Type_ub(type_: MPI_Datatype, displacement: *mut MPI_Aint) local {
        let found = datatype(type_)?;
        // SAFETY: null or a number of the user's.
        unsafe { give(displacement, (found.lb() + found.extent()) as MPI_Aint, "displacement") }
    }

    /// Section 16.3.
    small fn MPI_Type_get_extent_x(type_: MPI_Datatype, lb: *mut MPI_Count, extent: *mut MPI_Count) local {
        let found = datatype(type_)?;
        // SAFETY: each is null or a number of the user's.
        unsafe {
            give(lb, found.lb(), "lb")?;
            give(extent, found.extent(), "extent")
        }
    }

    /// Section 5.1.8.
    large fn MPI_Type_get_true_extent(type_: MPI_Datatype, true_lb: *mut Address, true_extent: *mut Address)
        local {
        let found = datatype(type_)?;
        // SAFETY: each is null or a number of the user's.
        unsafe {
            give(true_lb, found.true_lb() as Address, "true_lb")?;
            give(true_extent, found.true_extent() as Address, "true_extent")
        }
    }

    /// Section 16.3.
    small fn MPI_Type_get_true_extent_x(type_: MPI_Datatype, true_lb: *mut MPI_Count,
        true_extent: *mut MPI_Count) local {
        let found = datatype(type_)?;
        // SAFETY: each is null or a number of the user's.
        unsafe {
            give(true_lb, found.true_lb(), "true_lb")?;
            give(true_extent, found.true_extent(), "true_extent")
        }
    }

    /// Section 5.1.13.
    small fn MPI_Type_get_envelope(type_: MPI_Datatype, num_integers: *mut c_int, num_addresses: *mut c_int,
        num_datatypes: *mut c_int, combiner: *mut c_int) local {
        let found = datatype(type_)?;
        without_large_counts(&found, "MPI_Type_get_envelope_c")?;
        let envelope = found.envelope();
        // SAFETY: each is null or an `int` of the user's.
        unsafe {
            give_count(num_integers, envelope.integers as i64, "num_integers")?;
            give_count(num_addresses, envelope.addresses as i64, "num_addresses")?;
            give_count(num_datatypes, envelope.datatypes as i64, "num_datatypes")?;
            give(combiner, envelope.combiner as c_int, "combiner")
        }
    }

    /// Section 5.1.13.
    small fn MPI_Type_get_envelope_c(type_: MPI_Datatype, num_integers: *mut MPI_Count,
        num_addresses: *mut MPI_Count, num_large_counts: *mut MPI_Count, num_datatypes: *mut MPI_Count,
        combiner: *mut c_int) local {
        let envelope = datatype(type_)?.envelope();
        // SAFETY: each is null or a number of the user's.
        unsafe {
            give(num_integers, envelope.integers as MPI_Count, "num_integers")?;
            give(num_addresses, envelope.addresses as MPI_Count, "num_addresses")?;
            give(num_large_counts, envelope.large_counts as MPI_Count, "num_large_counts")?;
            give(num_datatypes, envelope.datatypes as MPI_Count, "num_datatypes")?;
            give(combiner, envelope.combiner as c_int, "combiner")
        }
    }

    /// Section 5.1.13.
    small fn MPI_Type_get_contents(type_: MPI_Datatype, max_integers: c_int, max_addresses: c_int,
        max_datatypes: c_int, integers: *mut c_int, addresses: *mut MPI_Aint, datatypes: *mut MPI_Datatype)
        local {
        let found = datatype(type_)?;
        without_large_counts(&found, "MPI_Type_get_contents_c")?;
        let Contents { integers: ints, addresses: places, datatypes: types, .. } = found.contents()?;
        // SAFETY: arrays of the user's.
        unsafe {
            fill(integers, max_integers, &ints, "integers", |&value| Ok(value))?;
            fill(addresses, max_addresses, &places, "addresses", |&value| Ok(value as MPI_Aint))?;
            fill(datatypes, max_datatypes, &types, "datatypes", handle_of)
        }
    }

    /// Section 5.1.13.
    small fn MPI_Type_get_contents_c(type_: MPI_Datatype, max_integers: MPI_Count, max_addresses: MPI_Count,
        max_large_counts: MPI_Count, max_datatypes: MPI_Count, integers: *mut c_int, addresses: *mut MPI_Aint,
        large_counts: *mut MPI_Count, datatypes: *mut MPI_Datatype) local {
        let contents = datatype(type_)?.contents()?;
        // SAFETY: arrays of the user's.
        unsafe {
            fill(integers, max_integers, &contents.integers, "integers", |&value| Ok(value))?;
            fill(addresses, max_addresses, &contents.addresses, "addresses", |&value| Ok(value as MPI_Aint))?;
            fill(large_counts, max_large_counts, &contents.large_counts, "large_counts", |&value| Ok(value))?;
            fill(datatypes, max_datatypes, &contents.datatypes, "datatypes", handle_of)
        }
    }

    /// Section 7.8.
    small fn MPI_Type_set_name(type_: MPI_Datatype, name: *const c_char) local {
        let found = datatype(type_)?;
        // SAFETY: null or a string of the user's.
        found.set_name(unsafe { object_name(name, "type_name") }?);
        Ok(())
    }

    /// Section 7.8.
    small fn MPI_Type_get_name(type_: MPI_Datatype, name: *mut c_char, resultlen: *mut c_int) local {
        // A null handle has a name, too: the standard's own. So has what the Fortran compiler does not have.
        let known = match (type_, datatype(type_)) {
            (MPI_DATATYPE_NULL, _) => "MPI_DATATYPE_NULL".into(),
            (_, Ok(found)) => found.name(),
            (_, Err(error)) => Datatype::unsupported(type_).ok_or(error)?.into(),
        };
        // SAFETY: the standard asks for MPI_MAX_OBJECT_NAME bytes.
        unsafe { give_text(name, MPI_MAX_OBJECT_NAME as usize, resultlen, &known, "type_name") }
    }

    /// Section 3.2.5. `MPI_UNDEFINED` where it is not a whole number, or does not fit.
    large fn MPI_Get_count(status: *const MPI_Status, type_: MPI_Datatype, count: *mut Count) local {
        // SAFETY: null or a status of the user's.
        let bytes = unsafe { read(status, "status") }?.bytes();
        let number = datatype(type_)?.count_of(bytes);
        // SAFETY: null or a number of the user's.
        unsafe { give_count(count, defined(number), "count") }
    }

    /// Section 5.1.11. `MPI_UNDEFINED` where it is not a whole number, or does not fit.
    large fn MPI_Get_elements(status: *const MPI_Status, type_: MPI_Datatype, count: *mut Count) local {
        // SAFETY: null or a status of the user's.
        let bytes = unsafe { read(status, "status") }?.bytes();
        let number = datatype(type_)?.elements_of(bytes);
        // SAFETY: null or a number of the user's.
        unsafe { give_count(count, defined(number), "count") }
    }

    /// Section 16.3.
    small fn MPI_Get_elements_x(status: *const MPI_Status, type_: MPI_Datatype, count: *mut MPI_Count) local {
        // SAFETY: null or a status of the user's.
        let bytes = unsafe { read(status, "status") }?.bytes();
        let number = datatype(type_)?.elements_of(bytes);
        // SAFETY: null or a number of the user's.
        unsafe { give(count, defined(number), "count") }
    }

    /// Section 13.3.
    large fn MPI_Status_set_elements(status: *mut MPI_Status, type_: MPI_Datatype, count: Count) local {
        // SAFETY: null or a status of the user's.
        unsafe { set_elements(status, type_, count.wide()) }
    }

    /// Section 16.3.
    small fn MPI_Status_set_elements_x(status: *mut MPI_Status, type_: MPI_Datatype, count: MPI_Count) local {
        // SAFETY: null or a status of the user's.
        unsafe { set_elements(status, type_, count) }
    }

    /// Section 13.3.
    small fn MPI_Status_set_cancelled(status: *mut MPI_Status, flag: c_int) local {
        // SAFETY: null or a status of the user's.
        let mut changed = unsafe { read(status, "status") }?;
        changed.set_cancelled(flag != 0);
        // SAFETY: read from above.
        unsafe { status.write(changed) };
        Ok(())
    }
}

/// A number of elements as the user sees it.
fn defined(number: Option<u64>) -> i64 {
    number
        .and_then(|number| i64::try_from(number).ok())
        .unwrap_or(MPI_UNDEFINED.into())
}

/// # Safety
/// The status is null or valid for reading and writing.
unsafe fn set_elements(status: *mut MPI_Status, type_: MPI_Datatype, count_: i64) -> Result<()> {
    // SAFETY: null or valid for reading, as the caller says.
    let mut changed = unsafe { read(status, "status") }?;
    let elements = count(count_, "count")?;
    let found = datatype(type_)?;
    let bytes = found.bytes_of_elements(elements).ok_or_else(|| {
        err!(
            Count,
            "count is {elements}, but {} has no such number of basic elements",
            found.describe()
        )
    })?;
    changed.set_bytes(bytes);
    // SAFETY: not null, as it was read from above, so valid for writing, as the caller says.
    unsafe { status.write(changed) };
    Ok(())
}

/// Only the procedure `instead` can return large counts.
fn without_large_counts(datatype: &Datatype, instead: &str) -> Result<()> {
    if datatype.has_large_counts() {
        return Err(err!(
            Type,
            "the datatype was made with large counts, which only {instead} can tell"
        ));
    }
    Ok(())
}

/// Fills an array of the user's that has room for `max` entries.
///
/// # Safety
/// The pointer is null or valid for that many.
unsafe fn fill<T, U>(
    to: *mut T,
    max: impl Integer,
    values: &[U],
    what: &str,
    value: impl Fn(&U) -> Result<T>,
) -> Result<()> {
    let max = max.wide();
    if max < values.len() as i64 {
        return Err(err!(
            Arg,
            "max_{what} is {max}, but the datatype has {} {what}",
            values.len()
        ));
    }
    // SAFETY: the caller's array is null or has that many elements.
    let to = unsafe { array_mut(to, values.len(), &format!("array_of_{what}")) }?;
    for (to, from) in to.iter_mut().zip(values) {
        *to = value(from)?;
    }
    Ok(())
}

/// A handle for one of the types that a type was made of: the constant of a predefined one, and for any other that of a
/// new object, which the user frees.
fn handle_of(part: &Arc<Datatype>) -> Result<MPI_Datatype> {
    if part.is_predefined() {
        return Ok(part.handle());
    }
    new_datatype(Datatype::second(part))
}
