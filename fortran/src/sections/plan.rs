//! What is done with a buffer that is not contiguous.

use std::ffi::c_void;
use std::marker::PhantomData;

use super::Buffer;
use crate::abi::{Count, Int};
use crate::bindings::Library;

/// Until when a procedure uses its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until it returns.
    Returned,
    /// Until its request completes.
    Completed,
    /// As often as its persistent request is started.
    Freed,
    /// Until a later call that does not name the buffer: one-sided and split collective operations.
    Later,
    /// As `Freed`, in partitions that another thread may send each.
    Partitions,
}

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the buffer.
    In,
    /// To the buffer; what is not written keeps its value.
    InOut,
}

/// The object at which an error is raised, by its Fortran handle.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum On {
    Comm(Int),
    Win(Int),
    File(Int),
    Nothing,
}

/// How one call uses buffers that are not contiguous.
pub struct Plan(PhantomData<()>);

impl Plan {
    /// For a call of this procedure.
    pub fn new(_procedure: &'static str, _until: Until, _on: On) -> Self {
        Self(PhantomData)
    }

    /// A buffer of one message: so many elements of a datatype. Returns what C gets instead.
    pub unsafe fn message<A: Library>(
        &mut self,
        buffer: &Buffer,
        count: Count,
        datatype: Int,
        _way: Way,
    ) -> (*mut c_void, Count, Int) {
        (buffer.address(), count, datatype)
    }

    /// A buffer that is used in another way.
    pub fn whole(&mut self, buffer: &Buffer, _way: Way) -> *mut c_void {
        buffer.address()
    }

    /// The error code if a buffer can't be used, or `MPI_SUCCESS`.
    pub unsafe fn failed<A: Library>(&self) -> Int {
        15
    }

    /// After the call, which returned this error code.
    pub unsafe fn end<A: Library>(self, _request: *const Int, _error: Int) {}
}
