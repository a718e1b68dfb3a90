//! Arguments from Fortran to C, and back.

use std::ffi::c_char;
use std::ptr;
use std::slice;

use smallvec::SmallVec;

use crate::abi::{Comm, Handle, Int, Logical, SUCCESS, Status};
use crate::bindings::pmpi;
pub use crate::variables::address;
use crate::variables::{is_status_ignore, is_statuses_ignore, is_unweighted, is_weights_empty};

/// A few of something, without an allocation.
pub type Few<T> = SmallVec<[T; 16]>;

/// Stores the error code, unless `ierror` was left out.
#[inline(always)]
pub unsafe fn set(ierror: *mut Int, error: Int) {
    if !ierror.is_null() {
        unsafe { *ierror = error };
    }
}

/// The length of an array; a negative one is left to C to complain about.
pub fn length(length: i64) -> usize {
    usize::try_from(length).unwrap_or(0)
}

/// A `LOGICAL` for C. Compilers differ in what is true: 1 (gfortran, flang), or every odd number (ifx).
#[inline(always)]
pub fn truth(logical: Logical) -> Int {
    Int::from(logical & 1 != 0)
}

/// A `LOGICAL` from C: 1 is true for every compiler.
#[inline(always)]
pub fn logical(truth: Int) -> Logical {
    Logical::from(truth != 0)
}

/// An array of `LOGICAL`s for C.
pub unsafe fn truths(logicals: *const Logical, length: usize) -> Few<Int> {
    unsafe { array(logicals, length) }
        .iter()
        .map(|&logical| truth(logical))
        .collect()
}

/// Room for an array that C stores.
pub fn integers(length: usize) -> Few<Int> {
    // Such that what C does not store stays false.
    SmallVec::from_elem(0, length)
}

/// An array of `LOGICAL`s from C.
pub unsafe fn store_logicals(logicals: *mut Logical, truths: &[Int]) {
    for (index, &truth) in truths.iter().enumerate() {
        unsafe { *logicals.add(index) = logical(truth) };
    }
}

/// An array that Fortran passed. An empty one may have any address.
pub unsafe fn array<'a, T>(first: *const T, length: usize) -> &'a [T] {
    if length == 0 || first.is_null() {
        &[]
    } else {
        unsafe { slice::from_raw_parts(first, length) }
    }
}

/// An array of handles for C.
pub unsafe fn handles<H: Handle>(numbers: *const Int, length: usize) -> Few<H> {
    unsafe { array(numbers, length) }
        .iter()
        .map(|&number| H::from_int(number))
        .collect()
}

/// An array of handles that C may read until an operation is complete: `pending::keep_array` keeps it where it is.
pub unsafe fn lasting_handles<H: Handle>(numbers: *const Int, length: usize) -> Vec<H> {
    unsafe { handles(numbers, length) }.into_vec()
}

/// Room for handles that C stores.
pub fn null_handles<H: Handle>(length: usize) -> Few<H> {
    SmallVec::from_elem(H::NULL, length)
}

/// An array of handles from C.
pub unsafe fn store_handles<H: Handle>(numbers: *mut Int, handles: &[H]) {
    for (index, handle) in handles.iter().enumerate() {
        unsafe { *numbers.add(index) = handle.to_int() };
    }
}

/// A status for C: null stands for `MPI_STATUS_IGNORE`.
#[inline(always)]
pub fn status(status: *mut Status) -> *mut Status {
    if is_status_ignore(status.cast()) {
        ptr::null_mut()
    } else {
        status
    }
}

/// Statuses for C: null stands for `MPI_STATUSES_IGNORE`.
#[inline(always)]
pub fn statuses(statuses: *mut Status) -> *mut Status {
    if is_statuses_ignore(statuses.cast()) {
        ptr::null_mut()
    } else {
        statuses
    }
}

/// Weights of a graph for C.
pub fn weights(weights: *const Int) -> *const Int {
    if is_unweighted(weights.cast()) {
        ptr::without_provenance(10)
    } else if is_weights_empty(weights.cast()) {
        ptr::without_provenance(11)
    } else {
        weights
    }
}

/// A string for C: with a zero at the end.
pub struct Text(SmallVec<[u8; 64]>);

impl Text {
    /// A copy of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        let mut text = SmallVec::with_capacity(bytes.len() + 1);
        text.extend_from_slice(bytes);
        text.push(0);
        Self(text)
    }

    /// Whether it has no characters.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 1
    }

    /// Its first byte.
    pub fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }
}

/// A `CHARACTER` for C: blanks at its end are not part of it (section 2.5.4).
pub unsafe fn text(first: *const c_char, length: usize) -> Text {
    Text::new(without_blanks(unsafe { array(first.cast::<u8>(), length) }))
}

/// A `CHARACTER` for C whose blanks at both ends are not part of it: a key or value of an info object (chapter 10), a command or argument of
/// a process to spawn (section 11.8.2).
pub unsafe fn trimmed(first: *const c_char, length: usize) -> Text {
    let bytes = without_blanks(unsafe { array(first.cast::<u8>(), length) });
    let start = bytes.iter().position(|&byte| byte != b' ').unwrap_or(bytes.len());
    Text::new(&bytes[start..])
}

/// Bytes without the blanks at their end.
fn without_blanks(bytes: &[u8]) -> &[u8] {
    let length = bytes
        .iter()
        .rposition(|&byte| byte != b' ')
        .map_or(0, |last| last + 1);
    &bytes[..length]
}

/// Stores C's string in a `CHARACTER`, filled up with blanks; what does not fit is left out.
pub unsafe fn fill(first: *mut c_char, length: usize, string: *const c_char) {
    let mut index = 0;
    while index < length {
        let byte = unsafe { *string.add(index) };
        if byte == 0 {
            break;
        }
        unsafe { *first.add(index) = byte };
        index += 1;
    }
    unsafe { ptr::write_bytes(first.add(index).cast::<u8>(), b' ', length - index) };
}

/// How many numbers the arrays have of an operation like `MPI_Alltoallw`, to send and to receive: one for each process that it exchanges data
/// with, so for those of the other group, if there are two. Or the code of an error, which has been raised.
pub fn peers(comm: Comm) -> Result<(usize, usize), Int> {
    let (mut inter, mut size) = (0, 0);
    // SAFETY: C checks the handle.
    unsafe {
        succeeded(pmpi::PMPI_Comm_test_inter(comm, &mut inter))?;
        succeeded(if inter != 0 {
            pmpi::PMPI_Comm_remote_size(comm, &mut size)
        } else {
            pmpi::PMPI_Comm_size(comm, &mut size)
        })?;
    }
    Ok((length(size.into()), length(size.into())))
}

/// `MPI_GRAPH`, `MPI_CART`, `MPI_DIST_GRAPH`.
const GRAPH: Int = 212;
const CART: Int = 211;
const DIST_GRAPH: Int = 213;

fn succeeded(error: Int) -> Result<(), Int> {
    if error == SUCCESS { Ok(()) } else { Err(error) }
}

fn topology(comm: Comm) -> Result<Int, Int> {
    let mut kind = 0;
    // SAFETY: C checks the handle.
    succeeded(unsafe { pmpi::PMPI_Topo_test(comm, &mut kind) })?;
    Ok(kind)
}

/// How many neighbours a process sends to and receives from: none without a topology, which C complains about then. Or the code of an
/// error, which has been raised.
pub fn neighbors(comm: Comm) -> Result<(usize, usize), Int> {
    match topology(comm)? {
        CART => {
            let both = 2 * dimensions(comm)?.0;
            Ok((both, both))
        }
        GRAPH => {
            let (mut rank, mut count) = (0, 0);
            // SAFETY: the communicator has a topology.
            unsafe {
                succeeded(pmpi::PMPI_Comm_rank(comm, &mut rank))?;
                succeeded(pmpi::PMPI_Graph_neighbors_count(comm, rank, &mut count))?;
            }
            Ok((length(count.into()), length(count.into())))
        }
        DIST_GRAPH => {
            let (mut sources, mut targets, mut weighted) = (0, 0, 0);
            // SAFETY: the communicator has a topology.
            succeeded(unsafe {
                pmpi::PMPI_Dist_graph_neighbors_count(comm, &mut sources, &mut targets, &mut weighted)
            })?;
            Ok((length(targets.into()), length(sources.into())))
        }
        _ => Ok((0, 0)),
    }
}

/// How many dimensions a Cartesian communicator has: none if it is not one, which C complains about then. Or the code of an error, which
/// has been raised.
pub fn dimensions(comm: Comm) -> Result<(usize, usize), Int> {
    if topology(comm)? != CART {
        return Ok((0, 0));
    }
    let mut dimensions = 0;
    // SAFETY: the communicator has such a topology.
    succeeded(unsafe { pmpi::PMPI_Cartdim_get(comm, &mut dimensions) })?;
    Ok((length(dimensions.into()), length(dimensions.into())))
}
