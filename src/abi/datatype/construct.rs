//! Sections 5.1.2 to 5.1.12, 19.1.9: making datatypes.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use crate::abi::common::arguments::{Integer, array, count, give, read};
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, datatype, new_datatype};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::base::error::{Error, Result};
use crate::data::datatype::{Combiner, Datatype, Order, TypeClass};
use crate::err;

mpi! {
    /// Section 5.1.2.
    large fn MPI_Type_contiguous(count: Count, oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) local {
        let new = Datatype::contiguous(count.wide(), &*datatype(oldtype)?)?;
        // SAFETY: null or a handle of the user's.
        unsafe { give_new::<Count>(newtype, new) }
    }

    /// Section 5.1.2.
    large fn MPI_Type_vector(count: Count, blocklength: Count, stride: Count, oldtype: MPI_Datatype,
        newtype: *mut MPI_Datatype) local {
        let old = datatype(oldtype)?;
        let new = Datatype::vector(count.wide(), blocklength.wide(), stride.wide(), &old)?;
        // SAFETY: null or a handle of the user's.
        unsafe { give_new::<Count>(newtype, new) }
    }

    /// Section 5.1.2.
    large fn MPI_Type_create_hvector(count: Count, blocklength: Count, stride: Address, oldtype: MPI_Datatype,
        newtype: *mut MPI_Datatype) local {
        // SAFETY: null or a handle of the user's.
        unsafe { hvector(count, blocklength, stride, oldtype, newtype) }
    }

    /// Removed in MPI 3.0; programs still use it.
    small fn MPI_Type_hvector(count: c_int, blocklength: c_int, stride: MPI_Aint, oldtype: MPI_Datatype,
        newtype: *mut MPI_Datatype) local {
        // SAFETY: null or a handle of the user's.
        unsafe { hvector(count, blocklength, stride, oldtype, newtype) }
    }

    /// Section 5.1.2.
    large fn MPI_Type_indexed(count: Count, blocklengths: *const Count, displacements: *const Count,
        oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) local {
        let old = datatype(oldtype)?;
        // SAFETY: arrays of the user's.
        let (blocklengths, displacements) = unsafe { blocks(count, blocklengths, displacements) }?;
        let new = Datatype::indexed(&blocklengths, &displacements, &old)?;
        // SAFETY: null or a handle of the user's.
        unsafe { give_new::<Count>(newtype, new) }
    }

    /// Section 5.1.2.
    large fn MPI_Type_create_hindexed(count: Count, blocklengths: *const Count, displacements: *const Address,
        oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) local {
        // SAFETY: arrays and null or a handle of the user's.
        unsafe { hindexed(count, blocklengths, displacements, oldtype, newtype) }
    }

    /// Removed in MPI 3.0; programs still use it.
    small fn MPI_Type_hindexed(count: c_int, blocklengths: *const c_int, displacements: *const MPI_Aint,
        oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) local {
        // SAFETY: arrays and null or a handle of the user's.
        unsafe { hindexed(count, blocklengths, displacements, oldtype, newtype) }
    }

    /// Section 5.1.2.
    large fn MPI_Type_create_indexed_block(count: Count, blocklength: Count, displacements: *const Count,
        oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) local {
        let old = datatype(oldtype)?;
        // SAFETY: an array of the user's.
        let displacements = unsafe { wide(displacements, count, "array_of_displacements") }?;
        let new = Datatype::indexed_block(blocklength.wide(), &displacements, &old)?;
        // SAFETY: null or a handle of the user's.
        unsafe { give_new::<Count>(newtype, new) }
    }

    /// Section 5.1.2.
    large fn MPI_Type_create_hindexed_block(count: Count, blocklength: Count, displacements: *const Address,
        oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) local {
        let old = datatype(oldtype)?;
        // SAFETY: an array of the user's.
        let displacements = unsafe { wide(displacements, count, "array_of_displacements") }?;
        let new = Datatype::hindexed_block(blocklength.wide(), &displacements, &old)?;
        // SAFETY: null or a handle of the user's.
        unsafe { give_new::<Count>(newtype, new) }
    }

    /// Section 5.1.2.
    large fn MPI_Type_create_struct(count: Count, blocklengths: *const Count, displacements: *const Address,
        types: *const MPI_Datatype, newtype: *mut MPI_Datatype) local {
        // SAFETY: arrays and null or a handle of the user's.
        unsafe { structure(count, blocklengths, displacements, types, newtype) }
    }

    /// Removed in MPI 3.0; programs still use it.
    small fn MPI_Type_struct(count: c_int, blocklengths: *const c_int, displacements: *const MPI_Aint,
        types: *const MPI_Datatype, newtype: *mut MPI_Datatype) local {
        // SAFETY: arrays and null or a handle of the user's.
        unsafe { structure(count, blocklengths, displacements, types, newtype) }
    }

    /// Section 5.1.3.
    large fn MPI_Type_create_subarray(ndims: c_int, sizes: *const Count, subsizes: *const Count,
        starts: *const Count, order: c_int, oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) local {
        let old = datatype(oldtype)?;
        // SAFETY: arrays of the user's.
        let (sizes, subsizes, starts) = unsafe {
            (
                wide_dims(sizes, ndims, "array_of_sizes")?,
                wide_dims(subsizes, ndims, "array_of_subsizes")?,
                wide_dims(starts, ndims, "array_of_starts")?,
            )
        };
        let new = Datatype::subarray(&sizes, &subsizes, &starts, Order::from_abi(order)?, &old)?;
        // SAFETY: null or a handle of the user's.
        unsafe { give_new::<Count>(newtype, new) }
    }

    /// Section 5.1.4.
    large fn MPI_Type_create_darray(size: c_int, rank: c_int, ndims: c_int, gsizes: *const Count,
        distribs: *const c_int, dargs: *const c_int, psizes: *const c_int, order: c_int, oldtype: MPI_Datatype,
        newtype: *mut MPI_Datatype) local {
        let old = datatype(oldtype)?;
        let dims = dimensions(ndims)?;
        // SAFETY: arrays of the user's.
        let (gsizes, distribs, dargs, psizes) = unsafe {
            (
                wide_dims(gsizes, ndims, "array_of_gsizes")?,
                array(distribs, dims, "array_of_distribs")?,
                array(dargs, dims, "array_of_dargs")?,
                array(psizes, dims, "array_of_psizes")?,
            )
        };
        let order = Order::from_abi(order)?;
        let new = Datatype::darray(size, rank, &gsizes, distribs, dargs, psizes, order, &old)?;
        // SAFETY: null or a handle of the user's.
        unsafe { give_new::<Count>(newtype, new) }
    }

    /// Section 5.1.7.
    large fn MPI_Type_create_resized(oldtype: MPI_Datatype, lb: Address, extent: Address,
        newtype: *mut MPI_Datatype) local {
        let new = Datatype::resized(&*datatype(oldtype)?, lb.wide(), extent.wide())?;
        // SAFETY: null or a handle of the user's.
        unsafe { give_new::<Count>(newtype, new) }
    }

    /// Section 5.1.9.
    small fn MPI_Type_commit(type_: *mut MPI_Datatype) local {
        // SAFETY: null or a handle of the user's.
        datatype(unsafe { read(type_, "datatype") }?)?.commit();
        Ok(())
    }

    /// Section 5.1.9. Types made from it, and communication under way, keep what they need.
    small fn MPI_Type_free(type_: *mut MPI_Datatype) local {
        // SAFETY: null or a handle of the user's.
        let handle = unsafe { read(type_, "datatype") }?;
        let found = datatype(handle)?;
        if found.is_predefined() {
            return Err(err!(Type, "{} is predefined and can't be freed", found.describe()));
        }
        found.attributes().delete_all(handle)?;
        objects::DATATYPES.remove(handle);
        // Reductions under way may still need a handle.
        found.set_handle(0);
        // SAFETY: read from above.
        unsafe { type_.write(MPI_DATATYPE_NULL) };
        Ok(())
    }

    /// Section 5.1.10.
    small fn MPI_Type_dup(oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) local {
        let old = datatype(oldtype)?;
        let new = Datatype::dup(&old);
        // SAFETY: null or a handle of the user's.
        unsafe { give_new::<c_int>(newtype, new.clone()) }?;
        old.attributes().copy_to(oldtype, new.attributes()).inspect_err(|_| {
            new.attributes().discard(new.handle());
            objects::DATATYPES.remove(new.handle());
            // SAFETY: written to above.
            unsafe { newtype.write(MPI_DATATYPE_NULL) };
        })
    }

    /// Section 5.1.11. `MPI_DATATYPE_NULL` where there is no such pair.
    small fn MPI_Type_get_value_index(value_type: MPI_Datatype, index_type: MPI_Datatype,
        pair_type: *mut MPI_Datatype) local {
        let (value, index) = (datatype(value_type)?, datatype(index_type)?);
        let pair = Datatype::value_index(&value, &index).map_or(MPI_DATATYPE_NULL, |pair| pair.handle());
        // SAFETY: null or a handle of the user's.
        unsafe { give(pair_type, pair, "pair_type") }
    }

    /// Section 19.1.9.
    small fn MPI_Type_match_size(typeclass: c_int, size: c_int, newtype: *mut MPI_Datatype) local {
        let found = Datatype::match_size(TypeClass::from_abi(typeclass)?, size)?;
        // SAFETY: null or a handle of the user's.
        unsafe { give(newtype, found.handle(), "datatype") }
    }

    /// Section 19.1.9.
    small fn MPI_Type_create_f90_real(p: c_int, r: c_int, newtype: *mut MPI_Datatype) local {
        let handle = parametrised(Combiner::F90Real, p, r, || Datatype::f90_real(p, r))?;
        // SAFETY: null or a handle of the user's.
        unsafe { give(newtype, handle, "newtype") }
    }

    /// Section 19.1.9.
    small fn MPI_Type_create_f90_complex(p: c_int, r: c_int, newtype: *mut MPI_Datatype) local {
        let handle = parametrised(Combiner::F90Complex, p, r, || Datatype::f90_complex(p, r))?;
        // SAFETY: null or a handle of the user's.
        unsafe { give(newtype, handle, "newtype") }
    }

    /// Section 19.1.9.
    small fn MPI_Type_create_f90_integer(r: c_int, newtype: *mut MPI_Datatype) local {
        let handle = parametrised(Combiner::F90Integer, 0, r, || Datatype::f90_integer(r))?;
        // SAFETY: null or a handle of the user's.
        unsafe { give(newtype, handle, "newtype") }
    }
}

/// # Safety
/// The pointer is null or valid for writing.
unsafe fn hvector<C: Integer>(
    count: C,
    blocklength: C,
    stride: impl Integer,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let old = datatype(oldtype)?;
    let new = Datatype::hvector(count.wide(), blocklength.wide(), stride.wide(), &old)?;
    // SAFETY: the caller's pointers are null or valid for writing.
    unsafe { give_new::<C>(newtype, new) }
}

/// # Safety
/// The pointers are null or valid, the arrays for `count` entries.
unsafe fn hindexed<C: Integer, A: Integer>(
    count: C,
    blocklengths: *const C,
    displacements: *const A,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let old = datatype(oldtype)?;
    // SAFETY: the caller's arrays have that many elements.
    let (blocklengths, displacements) = unsafe { blocks(count, blocklengths, displacements) }?;
    let new = Datatype::hindexed(&blocklengths, &displacements, &old)?;
    // SAFETY: the caller's pointers are null or valid for writing.
    unsafe { give_new::<C>(newtype, new) }
}

/// # Safety
/// The pointers are null or valid, the arrays for `count` entries.
unsafe fn structure<C: Integer, A: Integer>(
    count: C,
    blocklengths: *const C,
    displacements: *const A,
    types: *const MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's arrays have that many elements.
    let (blocklengths, displacements) = unsafe { blocks(count, blocklengths, displacements) }?;
    // SAFETY: the caller's array is null or has that many elements.
    let handles = unsafe { array(types, blocklengths.len(), "array_of_types") }?;
    let mut old = Vec::with_capacity(handles.len());
    for (at, &handle) in handles.iter().enumerate() {
        let found = datatype(handle)
            .map_err(|error| Error::new(error.class, format!("array_of_types[{at}]: {error}")))?;
        old.push(Arc::clone(&found));
    }
    let new = Datatype::struct_(&blocklengths, &displacements, &old)?;
    // SAFETY: the caller's pointers are null or valid for writing.
    unsafe { give_new::<C>(newtype, new) }
}

/// Returns to the user a new datatype, which a procedure with counts of type `C` has made.
///
/// # Safety
/// The pointer is null or valid for writing.
unsafe fn give_new<C: Integer>(to: *mut MPI_Datatype, new: Arc<Datatype>) -> Result<()> {
    if to.is_null() {
        return Err(err!(Arg, "newtype is a null pointer"));
    }
    let new = if C::LARGE { new.made_large() } else { new };
    // SAFETY: the caller's pointers are null or valid for writing.
    unsafe { give(to, new_datatype(new)?, "newtype") }
}

/// An array of `len` integers.
///
/// # Safety
/// The pointer is null or valid for that many.
unsafe fn wide<T: Integer>(from: *const T, len: impl Integer, name: &str) -> Result<Vec<i64>> {
    let len = count(len.wide(), "count")? as usize;
    // SAFETY: the caller's array is null or has that many elements.
    let values = unsafe { array(from, len, name) }?;
    Ok(values.iter().map(|value| value.wide()).collect())
}

/// Block lengths and displacements.
///
/// # Safety
/// The pointers are null or valid for `count` entries.
unsafe fn blocks(
    count: impl Integer,
    blocklengths: *const impl Integer,
    displacements: *const impl Integer,
) -> Result<(Vec<i64>, Vec<i64>)> {
    // SAFETY: the caller's arrays have that many elements.
    unsafe {
        Ok((
            wide(blocklengths, count, "array_of_blocklengths")?,
            wide(displacements, count, "array_of_displacements")?,
        ))
    }
}

/// A number of dimensions.
fn dimensions(ndims: c_int) -> Result<usize> {
    match usize::try_from(ndims) {
        Ok(dims) if dims > 0 => Ok(dims),
        _ => Err(err!(Arg, "ndims is {ndims}, but must be 1 at least")),
    }
}

/// An array with an entry for each dimension.
///
/// # Safety
/// The pointer is null or valid for that many.
unsafe fn wide_dims<T: Integer>(from: *const T, ndims: c_int, name: &str) -> Result<Vec<i64>> {
    dimensions(ndims)?;
    // SAFETY: the caller's arrays have that many elements.
    unsafe { wide(from, ndims, name) }
}

/// The handle of a type that a precision and a range select: always the same one.
fn parametrised(
    combiner: Combiner,
    p: c_int,
    r: c_int,
    make: impl FnOnce() -> Result<Arc<Datatype>>,
) -> Result<MPI_Datatype> {
    type Made = HashMap<(Combiner, c_int, c_int), MPI_Datatype>;
    static MADE: LazyLock<Mutex<Made>> = LazyLock::new(Mutex::default);
    let mut made = MADE.lock();
    if let Some(&handle) = made.get(&(combiner, p, r)) {
        return Ok(handle);
    }
    let handle = new_datatype(make()?)?;
    made.insert((combiner, p, r), handle);
    Ok(handle)
}
