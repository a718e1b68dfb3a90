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
//! One thread may read an attribute that another one deletes. Then two things must not happen to the reader, who gets an address from C and
//! looks for a cell there:
//!
//! - C still gives the address, for the attribute goes after its callback has returned, and the cell is gone. So a thread removes a cell only
//!   when it frees another, in a later callback: then C is done with the attribute.
//! - C has given the address, and the cell is removed before the reader looks. So the removals are counted: a pointer is C's own if there
//!   was no removal since before it was read.
//!
//! (If one thread deletes an attribute while another one duplicates the object, its copy may be the address: C's copy callback can't ask
//! again.)

use std::cell::Cell as Slot;
use std::collections::BTreeMap;
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

struct Entry {
    cell: Cell,
    /// It is freed, but not yet removed.
    freed: bool,
}

struct Cells {
    /// By their addresses.
    all: BTreeMap<usize, Entry>,
    /// How many were removed.
    removed: u64,
}

static CELLS: RwLock<Cells> = RwLock::new(Cells {
    all: BTreeMap::new(),
    removed: 0,
});

/// The address of the last cell that a thread freed, or 0.
struct Last(Slot<usize>);

impl Drop for Last {
    fn drop(&mut self) {
        remove(self.0.get());
    }
}

thread_local! {
    static LAST: Last = const { Last(Slot::new(0)) };
}

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
    let mut cells = CELLS.write().unwrap_or_else(PoisonError::into_inner);
    let freed = false;
    cells.all.insert(address.addr(), Entry { cell, freed });
    address.cast_mut()
}

/// What is in the cell, if C's pointer is one's address; if not, how many cells have been removed so far.
pub fn look(pointer: *mut c_void) -> Result<Value, u64> {
    let cells = CELLS.read().unwrap_or_else(PoisonError::into_inner);
    match cells.all.get(&pointer.addr()) {
        Some(entry) => Ok(match &entry.cell {
            Cell::Default(value) => Value::Default(value.load(Relaxed)),
            Cell::Address(value) => Value::Address(value.load(Relaxed)),
        }),
        None => Err(cells.removed),
    }
}

/// The value as Fortran sees it: that of the cell, or C's pointer.
pub fn word(pointer: *mut c_void) -> Aint {
    look(pointer).map_or(pointer.addr() as Aint, Value::word)
}

/// Frees the cell, if C's pointer is one's address.
pub fn free(pointer: *mut c_void) {
    let address = pointer.addr();
    {
        let mut cells = CELLS.write().unwrap_or_else(PoisonError::into_inner);
        match cells.all.get_mut(&address) {
            // C may have stored the same pointer under another key of Fortran's.
            Some(entry) if !entry.freed => entry.freed = true,
            _ => return,
        }
    }
    // A thread that ends, and has forgotten its last, removes none any more.
    if let Ok(before) = LAST.try_with(|last| last.0.replace(address)) {
        remove(before);
    }
}

fn remove(address: usize) {
    if address != 0 {
        let mut cells = CELLS.write().unwrap_or_else(PoisonError::into_inner);
        cells.all.remove(&address);
        cells.removed += 1;
    }
}
