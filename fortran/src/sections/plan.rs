//! What is done with a buffer that is not contiguous.
//!
//! - One message's (a number of items of a datatype) is described by a datatype of our own, so nothing is copied: if the elements of the
//!   section are so and so many items each.
//! - Any other is copied: C works on the copy, until the call returns or its request is complete. Where neither tells when an operation
//!   is complete (one-sided ones, split collective ones) that can't be, and is an error.

use std::ffi::c_void;

use smallvec::SmallVec;

use super::described::{self, Extent, Failure, Types};
use super::section::Section;
use super::staged::Staged;
use super::{Buffer, pending};
use crate::abi::{Comm, Count, Datatype, Handle, Int, Request, SUCCESS};
use crate::bindings::pmpi;
use crate::errors::{ERR_BUFFER, ERR_COUNT, ERR_NO_MEM, On, raise};

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

const TOO_MANY: &str = "the array section has fewer elements than the count says";
const TOO_LARGE: &str = "the array section has more bytes than there are addresses";
const OUTSIDE: &str = "the datatype has items before the array section";
const NO_ROOM: &str = "there is not enough memory for a copy of the array section";
const NOT_FITTING: &str = "the array section is not contiguous, and here only those can be used then \
                           of whose elements each is a whole number of items of the datatype";
const NO_MEMORY_AS_SUCH: &str =
    "the array section is not contiguous, so it is no memory that can be given away";
const NOT_REGULAR: &str =
    "the array section is not contiguous, and its partitions are not all the same way apart";

/// Raises the error of a procedure that takes memory as such, and got a section that is not contiguous.
#[cold]
pub fn refuse(procedure: &str, on: On) -> Int {
    raise(on, ERR_BUFFER, &format!("{procedure}: {NO_MEMORY_AS_SUCH}"))
}

/// How one call uses its buffers, of which one at least is not contiguous.
pub struct Plan {
    procedure: &'static str,
    until: Until,
    on: On,
    types: Types,
    staged: SmallVec<[Staged; 2]>,
    error: Int,
}

impl Plan {
    /// For a call of this procedure, whose errors are raised there.
    pub fn new(procedure: &'static str, until: Until, on: On) -> Self {
        Self {
            procedure,
            until,
            on,
            types: Types::default(),
            staged: SmallVec::new(),
            error: SUCCESS,
        }
    }

    /// The buffer of a message: so many items of a datatype. Returns what C gets instead.
    ///
    /// # Safety
    ///
    /// The buffer must be the program's.
    pub unsafe fn message(
        &mut self,
        buffer: &Buffer,
        count: Count,
        datatype: Int,
        way: Way,
    ) -> (*mut c_void, Count, Int) {
        let as_it_is = (buffer.address(), count, datatype);
        let datatype_c = Datatype::from_int(datatype);
        // What C complains about, it shall.
        if self.error != SUCCESS || buffer.is_contiguous() || count <= 0 || datatype_c == Datatype::NULL {
            return as_it_is;
        }
        let Some(section) = self.section(buffer) else {
            return as_it_is;
        };
        let extent = match self.extent(datatype_c) {
            Ok(extent) => extent,
            Err(code) => {
                self.error = code;
                return as_it_is;
            }
        };
        if extent.fits(&section) {
            match described::message(&section, count, datatype_c, &extent, &mut self.types) {
                Ok(described) => return (buffer.address(), 1, described.to_int()),
                Err(failure) => self.failure(failure),
            }
            return as_it_is;
        }
        let Some(bytes) = extent.reach(count) else {
            self.fail(ERR_BUFFER, OUTSIDE);
            return as_it_is;
        };
        if bytes > section.elements * section.element {
            self.fail(ERR_COUNT, TOO_MANY);
            return as_it_is;
        }
        let elements = bytes.div_ceil(section.element);
        // SAFETY: as promised.
        let address = unsafe { self.stage(section, elements, way) };
        (address, count, datatype)
    }

    /// The buffer of a partitioned message: so many partitions, of so many items each. Returns what C gets instead.
    pub fn partitions(
        &mut self,
        buffer: &Buffer,
        partitions: Int,
        count: Count,
        datatype: Int,
    ) -> (*mut c_void, Count, Int) {
        let as_it_is = (buffer.address(), count, datatype);
        let datatype_c = Datatype::from_int(datatype);
        if buffer.is_contiguous() || partitions <= 0 || count <= 0 || datatype_c == Datatype::NULL {
            return as_it_is;
        }
        let Some(section) = self.section(buffer) else {
            return as_it_is;
        };
        let extent = match self.extent(datatype_c) {
            Ok(extent) => extent,
            Err(code) => {
                self.error = code;
                return as_it_is;
            }
        };
        if !extent.fits(&section) {
            self.fail(ERR_BUFFER, NOT_FITTING);
            return as_it_is;
        }
        let described = described::partitions(
            &section,
            partitions as usize,
            count,
            datatype_c,
            &extent,
            &mut self.types,
        );
        match described {
            Ok(Some(described)) => return (buffer.address(), 1, described.to_int()),
            Ok(None) => self.fail(ERR_BUFFER, NOT_REGULAR),
            Err(failure) => self.failure(failure),
        }
        as_it_is
    }

    /// A buffer that is used in another way. Returns what C gets instead.
    ///
    /// # Safety
    ///
    /// The buffer must be the program's.
    pub unsafe fn whole(&mut self, buffer: &Buffer, way: Way) -> *mut c_void {
        if self.error != SUCCESS || buffer.is_contiguous() {
            return buffer.address();
        }
        match self.section(buffer) {
            Some(section) => {
                let elements = section.elements;
                // SAFETY: as promised.
                unsafe { self.stage(section, elements, way) }
            }
            None => buffer.address(),
        }
    }

    /// The extent of a datatype. That it is one is asked of the call's communicator first, where an error belongs.
    fn extent(&self, datatype: Datatype) -> Result<Extent, Int> {
        if let On::Comm(comm) = self.on {
            let mut size = 0;
            // SAFETY: C checks the handles.
            let error = unsafe { pmpi::PMPI_Pack_size(0, datatype, Comm::from_int(comm), &mut size) };
            if error != SUCCESS {
                return Err(error);
            }
        }
        Extent::of(datatype)
    }

    fn section(&mut self, buffer: &Buffer) -> Option<Section> {
        let section = Section::new(buffer);
        if section.is_none() {
            self.fail(ERR_COUNT, TOO_LARGE);
        }
        section
    }

    /// Makes a copy of the first elements.
    unsafe fn stage(&mut self, section: Section, elements: usize, way: Way) -> *mut c_void {
        let base = section.base.cast();
        if matches!(self.until, Until::Later | Until::Partitions) {
            self.fail(ERR_BUFFER, NOT_FITTING);
            return base;
        }
        let Some(mut copy) = Staged::new(section, elements, way) else {
            self.fail(ERR_NO_MEM, NO_ROOM);
            return base;
        };
        // That of a persistent request is filled when it is started.
        if self.until != Until::Freed {
            // SAFETY: the buffer is the program's, and C has not got the copy yet.
            unsafe { copy.fill() };
        }
        let address = copy.address();
        self.staged.push(copy);
        address
    }

    fn failure(&mut self, failure: Failure) {
        match failure {
            Failure::TooMany => self.fail(ERR_COUNT, TOO_MANY),
            Failure::Code(code) => self.error = code,
        }
    }

    #[cold]
    fn fail(&mut self, class: Int, what: &str) {
        self.error = raise(self.on, class, &format!("{}: {what}", self.procedure));
    }

    /// The error code if a buffer can't be used, or `MPI_SUCCESS`. The error has been raised.
    pub fn failed(&self) -> Int {
        self.error
    }

    /// After the call, which returned this error code and stored the number of its request there.
    ///
    /// # Safety
    ///
    /// The pointer must be valid, if the procedure has a request, and what the call says of it be true.
    pub unsafe fn end(mut self, request: *const Int, error: Int) {
        if self.staged.is_empty() {
            return;
        }
        let waits = matches!(self.until, Until::Completed | Until::Freed);
        if waits && error != SUCCESS {
            return;
        }
        // SAFETY: as promised.
        if waits && Request::from_int(unsafe { *request }) != Request::NULL {
            // SAFETY: as promised.
            pending::keep(unsafe { *request }, self.staged.into_vec());
            return;
        }
        for copy in &mut self.staged {
            // SAFETY: the operation is complete, and its buffers are still there.
            unsafe { copy.store() };
        }
    }
}
