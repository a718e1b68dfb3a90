//! Chapter 8: virtual topologies.

use std::ffi::c_int;

use crate::abi::common::arguments::array_mut;
use crate::abi::common::procedure::mpi;
use crate::err;
use crate::objects::topology::dims;

mpi! {
    /// Section 8.5.2.
    small fn MPI_Dims_create(nnodes: c_int, ndims: c_int, dims: *mut c_int) local {
        let nodes = u32::try_from(nnodes).ok().filter(|nodes| *nodes > 0);
        let nodes = nodes.ok_or_else(|| err!(Arg, "nnodes is {nnodes}, but a grid has at least one node"))?;
        let number = usize::try_from(ndims)
            .map_err(|_| err!(Dims, "ndims is {ndims}, but a number of dimensions is not negative"))?;
        // SAFETY: null or an array of the user's.
        let sizes = unsafe { array_mut(dims, number, "dims") }?;
        dims::fill(nodes, sizes)
    }
}
