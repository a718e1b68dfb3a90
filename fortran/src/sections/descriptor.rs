//! The descriptors of Fortran 2018 (`ISO_Fortran_binding.h`).
//!
//! The order of some fields is the compiler's own, but not where gfortran and flang have what is needed here:
//!
//! ```text
//! 0         8          16        20     21..24   24
//! base_addr elem_len   version   rank   …        dim[rank]: lower_bound, extent, sm  (8 bytes each)
//! ```

use std::ffi::{c_char, c_int, c_void};
use std::slice;

/// `CFI_cdesc_t`.
#[repr(C)]
pub struct Descriptor {
    base: *mut c_void,
    length: usize,
    version: c_int,
    rank: u8,
    rest: [u8; 3],
    dimensions: [Dimension; 15],
}

/// `CFI_dim_t`: one dimension of an array.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    lower: isize,
    /// How many elements; -1 in the last dimension of an array whose size is not known.
    pub extent: isize,
    /// Bytes from one element to the next.
    pub stride: isize,
}

/// A buffer, as a procedure sees it.
#[derive(Clone, Copy)]
pub struct Buffer {
    base: *mut c_void,
    /// Bytes of an element.
    pub element: usize,
    contiguous: bool,
    descriptor: *const Descriptor,
}

impl Buffer {
    /// Reads a descriptor.
    ///
    /// # Safety
    ///
    /// It must be one of a compiler's, and stay there as long as the buffer is used.
    #[inline(always)]
    pub unsafe fn read(descriptor: *const Descriptor) -> Self {
        let described = unsafe { &*descriptor };
        let mut expected = described.length as isize;
        let mut contiguous = true;
        // SAFETY: a descriptor has as many dimensions as its rank says, of which 15 is the most.
        let dimensions = unsafe {
            slice::from_raw_parts(
                (&raw const (*descriptor).dimensions).cast::<Dimension>(),
                described.rank.into(),
            )
        };
        for dimension in dimensions {
            contiguous &= dimension.stride == expected || dimension.extent == 1;
            expected *= dimension.extent;
        }
        Self {
            base: described.base,
            element: described.length,
            // There is nothing in an empty one.
            contiguous: contiguous || expected == 0,
            descriptor,
        }
    }

    /// Whether its elements are beside each other.
    #[inline(always)]
    pub fn is_contiguous(&self) -> bool {
        self.contiguous
    }

    /// The address of its first element, as it is: also that of `MPI_BOTTOM` and the like.
    #[inline(always)]
    pub fn address(&self) -> *mut c_void {
        self.base
    }

    /// Its dimensions, from the first, whose elements are next to each other in the order of Fortran.
    pub fn dimensions(&self) -> &[Dimension] {
        // SAFETY: `read` was promised that the descriptor stays.
        unsafe {
            slice::from_raw_parts(
                (&raw const (*self.descriptor).dimensions).cast::<Dimension>(),
                (*self.descriptor).rank.into(),
            )
        }
    }

    /// How many elements it has.
    pub fn elements(&self) -> usize {
        self.dimensions()
            .iter()
            .map(|dimension| usize::try_from(dimension.extent).unwrap_or(0))
            .product()
    }
}

/// The bytes and the length of a `CHARACTER` that was passed as a descriptor.
///
/// # Safety
///
/// It must be one of a compiler's.
pub unsafe fn character(descriptor: *const Descriptor) -> (*mut c_char, usize) {
    let described = unsafe { &*descriptor };
    (described.base.cast(), described.length)
}

/// For `weft-fortran-modules`, which passes `array(2:8:3, 1:5:2)` of `integer :: array(10, 6)`, and a scalar: whether a compiler's
/// descriptors are what this library reads. 0: the former; 1: the latter; -1: something else.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_probe(descriptor: *const Descriptor) -> c_int {
    let buffer = unsafe { Buffer::read(descriptor) };
    let dimensions: Vec<_> = buffer
        .dimensions()
        .iter()
        .map(|dimension| (dimension.extent, dimension.stride))
        .collect();
    match (buffer.element, dimensions.as_slice()) {
        (4, [(3, 12), (3, 80)]) if !buffer.is_contiguous() => 0,
        (4, []) if buffer.is_contiguous() => 1,
        _ => -1,
    }
}
