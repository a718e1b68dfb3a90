//! The values of attributes that were set in Fortran (section 19.3.7).
//!
//! C stores a pointer for each attribute. Fortran's attributes are integers, and C, asking for one, has to get a pointer to it: to an
//! `MPI_Aint`, or to an `int` if the deprecated `MPI_ATTR_PUT` set it. So each such attribute has a cell of that type, whose address is what
//! is stored. All cells are registered: a pointer that is not the address of one is C's own, and Fortran gets it as an integer.
//!
//! A cell is freed when its attribute is deleted or replaced, which the delete callback of the key tells; each key that Fortran made has one
//! (see [`keyvals`](super::keyvals)). Under a key that C made no one tells, and C's copy callback may have copied the pointer, so such a cell
//! stays until the process ends.
//!
//! One thread may read an attribute that another one deletes: then the reader has got the address from C, or gets it still, when the cell is
//! freed. So the last [`KEPT`] freed ones are kept.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, AtomicIsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use crate::abi::{Aint, Int};

/// A value that Fortran set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// By the deprecated procedures: an `int` for C.
    Default(Int),
    /// An `MPI_Aint` for C.
    Address(Aint),
}

impl Value {
    /// The whole word: a default integer is sign-extended.
    pub fn word(self) -> Aint {
        match self {
            Self::Default(value) => value as Aint,
            Self::Address(value) => value,
        }
    }
}

/// Atomic, since C has the address, and can write there.
enum Cell {
    Default(Arc<AtomicI32>),
    Address(Arc<AtomicIsize>),
}

/// How many freed cells are kept.
const KEPT: usize = 256;

struct Cells {
    /// By their addresses.
    all: BTreeMap<usize, Cell>,
    /// The addresses of those that are freed, the oldest first.
    freed: VecDeque<usize>,
}

static CELLS: RwLock<Cells> = RwLock::new(Cells {
    all: BTreeMap::new(),
    freed: VecDeque::new(),
});

/// A new cell with this value: its address, which C stores.
pub fn new(value: Value) -> *mut c_void {
    let (cell, address) = match value {
        Value::Default(value) => {
            let cell = Arc::new(AtomicI32::new(value));
            let address: *const c_void = Arc::as_ptr(&cell).cast();
            (Cell::Default(cell), address)
        }
        Value::Address(value) => {
            let cell = Arc::new(AtomicIsize::new(value));
            let address: *const c_void = Arc::as_ptr(&cell).cast();
            (Cell::Address(cell), address)
        }
    };
    CELLS
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .all
        .insert(address.addr(), cell);
    address.cast_mut()
}

/// What is in the cell, if C's pointer is one's address.
pub fn value(pointer: *mut c_void) -> Option<Value> {
    let cells = CELLS.read().unwrap_or_else(PoisonError::into_inner);
    cells.all.get(&pointer.addr()).map(|cell| match cell {
        Cell::Default(value) => Value::Default(value.load(Relaxed)),
        Cell::Address(value) => Value::Address(value.load(Relaxed)),
    })
}

/// The value as Fortran sees it: that of the cell, or C's pointer.
pub fn word(pointer: *mut c_void) -> Aint {
    value(pointer).map_or(pointer.addr() as Aint, Value::word)
}

/// Frees the cell, if C's pointer is one's address.
pub fn free(pointer: *mut c_void) {
    let mut cells = CELLS.write().unwrap_or_else(PoisonError::into_inner);
    let address = pointer.addr();
    // C may have stored the same pointer under another key of Fortran's, so it may be freed already.
    if cells.all.contains_key(&address) && !cells.freed.contains(&address) {
        cells.freed.push_back(address);
        if cells.freed.len() > KEPT
            && let Some(oldest) = cells.freed.pop_front()
        {
            cells.all.remove(&oldest);
        }
    }
}
