//! Sections 8.5.1, 8.5.2, 8.5.5 to 8.5.8: Cartesian grids.

use std::ffi::c_int;
use std::sync::Arc;

use super::{other_kind, reordering, topology};
use crate::abi::common::arguments::{array, array_mut, give, present, rank};
use crate::abi::common::constants::*;
use crate::abi::common::objects::{early_communicator, intracommunicator};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::abi::communicator::inherit;
use crate::base::error::{Error, Result};
use crate::err;
use crate::objects::topology::{Grid, Kind, Topology, dims};

/// A topology that is a grid.
struct Cartesian(Arc<Topology>);

impl Cartesian {
    fn of(comm: MPI_Comm) -> Result<Cartesian> {
        let found = topology(comm, "Cartesian")?;
        match found.kind() {
            Kind::Cartesian(_) => Ok(Cartesian(found)),
            _ => Err(other_kind(&found, "Cartesian")),
        }
    }

    fn grid(&self) -> &Grid {
        match self.0.kind() {
            Kind::Cartesian(grid) => grid,
            _ => unreachable!("checked when it was found"),
        }
    }
}

/// The number of dimensions.
fn dimensions(ndims: c_int) -> Result<usize> {
    usize::try_from(ndims).map_err(|_| {
        err!(
            Dims,
            "ndims is {ndims}, but a number of dimensions is not negative"
        )
    })
}

/// The grid that arguments describe.
///
/// # Safety
/// The pointers are null or valid for `ndims` numbers.
unsafe fn grid(ndims: c_int, dims: *const c_int, periods: *const c_int) -> Result<Grid> {
    let number = dimensions(ndims)?;
    // SAFETY: the caller's arrays are null or have that many elements.
    let (dims, periods) = unsafe { (array(dims, number, "dims")?, array(periods, number, "periods")?) };
    Grid::new(dims, periods.iter().map(|&period| period != 0).collect())
}

/// How many elements of an array of `max` are for coordinates: all dimensions have to fit.
fn room(max: c_int, grid: &Grid) -> Result<usize> {
    let number = grid.dims().len();
    match usize::try_from(max).is_ok_and(|max| max >= number) {
        true => Ok(number),
        false => Err(too_few(max, number)),
    }
}

#[cold]
fn too_few(max: c_int, number: usize) -> Error {
    err!(Dims, "maxdims is {max}, but the grid has {number} dimensions")
}

/// A place by mapping: that of this process. `None`: it has none.
pub(super) fn place_of(mapping: Option<Vec<u32>>, number: u32, me: u32) -> c_int {
    let place = match mapping {
        Some(rank_at) => rank_at.iter().position(|&rank| rank == me),
        None => (me < number).then_some(me as usize),
    };
    place.map_or(MPI_UNDEFINED, |place| place as c_int)
}

mpi! {
    /// Section 8.5.2.
    small fn MPI_Dims_create(nnodes: c_int, ndims: c_int, dims: *mut c_int) local {
        let nodes = u32::try_from(nnodes).ok().filter(|nodes| *nodes > 0);
        let nodes = nodes.ok_or_else(|| err!(Arg, "nnodes is {nnodes}, but a grid has at least one node"))?;
        let number = dimensions(ndims)?;
        // SAFETY: null or an array of the user's.
        let sizes = unsafe { array_mut(dims, number, "dims") }?;
        dims::fill(nodes, sizes)
    }

    /// Section 8.5.1.
    small fn MPI_Cart_create(comm_old: MPI_Comm, ndims: c_int, dims: *const c_int, periods: *const c_int, reorder: c_int,
        comm_cart: *mut MPI_Comm) comm(comm_old) {
        let old = intracommunicator(comm_old, "comm_old")?;
        // SAFETY: arrays of the user's.
        let grid = present(comm_cart, "comm_cart").and_then(|()| unsafe { grid(ndims, dims, periods) });
        let new = old.instance().block_on(old.clone().create_cartesian(grid, reordering(&old, reorder)))?;
        // SAFETY: a handle of the user's.
        unsafe { inherit(&old, new, comm_cart) }
    }

    /// Section 8.5.7.
    small fn MPI_Cart_sub(comm: MPI_Comm, remain_dims: *const c_int, newcomm: *mut MPI_Comm) comm(comm) {
        let cartesian = Cartesian::of(comm)?;
        let old = intracommunicator(comm, "comm")?;
        let grid = cartesian.grid();
        let remain = present(newcomm, "newcomm").and_then(|()| {
            // SAFETY: null or an array of the user's.
            let remain = unsafe { array(remain_dims, grid.dims().len(), "remain_dims") }?;
            Ok(remain.iter().map(|&remains| remains != 0).collect())
        });
        let new = old.instance().block_on(old.clone().cartesian_part(grid, remain))?;
        // SAFETY: a handle of the user's.
        unsafe { inherit(&old, Some(new), newcomm) }
    }

    /// Section 8.5.5.
    small fn MPI_Cartdim_get(comm: MPI_Comm, ndims: *mut c_int) comm(comm) {
        let number = Cartesian::of(comm)?.grid().dims().len();
        // SAFETY: null or an `int` of the user's.
        unsafe { give(ndims, number as c_int, "ndims") }
    }

    /// Section 8.5.5.
    small fn MPI_Cart_get(comm: MPI_Comm, maxdims: c_int, dims: *mut c_int, periods: *mut c_int, coords: *mut c_int)
        comm(comm) {
        let cartesian = Cartesian::of(comm)?;
        let grid = cartesian.grid();
        let number = room(maxdims, grid)?;
        // SAFETY: null or arrays of the user's.
        let (dims, periods, coords) = unsafe {
            (array_mut(dims, number, "dims")?, array_mut(periods, number, "periods")?, array_mut(coords, number, "coords")?)
        };
        let own = grid.coords(early_communicator(comm)?.rank());
        for at in 0..number {
            dims[at] = grid.dims()[at] as c_int;
            periods[at] = grid.periods()[at].into();
            coords[at] = own[at] as c_int;
        }
        Ok(())
    }

    /// Section 8.5.5.
    small fn MPI_Cart_rank(comm: MPI_Comm, coords: *const c_int, rank: *mut c_int) comm(comm) {
        let cartesian = Cartesian::of(comm)?;
        let grid = cartesian.grid();
        // SAFETY: null or an array of the user's.
        let coords = unsafe { array(coords, grid.dims().len(), "coords") }?;
        // SAFETY: null or an `int` of the user's.
        unsafe { give(rank, grid.rank_at(coords)? as c_int, "rank") }
    }

    /// Section 8.5.5.
    small fn MPI_Cart_coords(comm: MPI_Comm, rank_: c_int, maxdims: c_int, coords: *mut c_int) comm(comm) {
        let cartesian = Cartesian::of(comm)?;
        let grid = cartesian.grid();
        let of = rank(rank_, &*early_communicator(comm)?, "rank")?;
        let number = room(maxdims, grid)?;
        // SAFETY: null or an array of the user's.
        let coords = unsafe { array_mut(coords, number, "coords") }?;
        for (to, coord) in coords.iter_mut().zip(grid.coords(of)) {
            *to = coord as c_int;
        }
        Ok(())
    }

    /// Section 8.5.6.
    small fn MPI_Cart_shift(comm: MPI_Comm, direction: c_int, disp: c_int, rank_source: *mut c_int, rank_dest: *mut c_int)
        comm(comm) {
        let cartesian = Cartesian::of(comm)?;
        let grid = cartesian.grid();
        let number = grid.dims().len();
        let dimension = usize::try_from(direction).ok().filter(|direction| *direction < number);
        let dimension = dimension.ok_or_else(|| {
            err!(Dims, "direction is {direction}, but the grid has {number} dimensions, from 0 on")
        })?;
        let me = early_communicator(comm)?.rank();
        let at = |by: i64| grid.shifted(me, dimension, by).map_or(MPI_PROC_NULL, |rank| rank as c_int);
        // SAFETY: null or `int`s of the user's.
        unsafe {
            give(rank_source, at(-i64::from(disp)), "rank_source")?;
            give(rank_dest, at(disp.into()), "rank_dest")
        }
    }

    /// Section 8.5.8. The call is local, so it knows which processes share a host, and not in which parts of it they are: `MPI_Cart_create`
    /// has each place on the same host, but may give it to another process there.
    small fn MPI_Cart_map(comm: MPI_Comm, ndims: c_int, dims: *const c_int, periods: *const c_int, newrank: *mut c_int)
        comm(comm) {
        let comm = intracommunicator(comm, "comm")?;
        // SAFETY: arrays of the user's.
        let grid = unsafe { grid(ndims, dims, periods) }?.fitting(comm.size())?;
        let place = place_of(comm.map_grid(&grid), grid.size(), comm.rank());
        // SAFETY: null or an `int` of the user's.
        unsafe { give(newrank, place, "newrank") }
    }
}
