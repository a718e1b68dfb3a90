//! The descriptors of Fortran 2018 (`ISO_Fortran_binding.h`).
//!
//! The order of some fields is the compiler's own, but not where gfortran (version 1) and flang (versions 20180515 and 20240719) have what
//! is needed here:
//!
//! ```text
//! 0         8          16        20     21..24   24
//! base_addr elem_len   version   rank   …        dim[rank]: lower_bound, extent, sm  (8 bytes each)
//! ```
//!
//! The version is not looked at in each call: before the modules are compiled such that they pass descriptors, [`weft_probe`]
//! tells whether this compiler's are read rightly.

use std::ffi::{c_char, c_int, c_void};
use std::slice;

/// The most dimensions that an array has.
pub const MOST: usize = 15;
/// The version in gfortran's descriptors.
pub const GFORTRAN: c_int = 1;
/// The versions in flang's.
pub const VERSIONS_OF_FLANG: [c_int; 2] = [20_180_515, 20_240_719];

/// `CFI_cdesc_t`. There are only as many dimensions as the rank says, so no reference to the whole of it may exist.
#[repr(C)]
pub struct Descriptor {
    pub(super) base: *mut c_void,
    /// Bytes of an element.
    pub(super) length: usize,
    pub(super) version: c_int,
    rank: u8,
    /// In gfortran's: the attribute, and two bytes of the type.
    pub(super) rest: [u8; 3],
    dimensions: [Dimension; 0],
}

impl Descriptor {
    /// One whose dimensions are to follow it.
    pub(super) fn new(base: *mut c_void, length: usize, rank: u8) -> Self {
        Self {
            base,
            length,
            version: GFORTRAN,
            rank,
            rest: [0; 3],
            dimensions: [],
        }
    }
}

/// `CFI_dim_t`: one dimension of an array.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// The first subscript.
    pub lower: isize,
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
        // SAFETY: each descriptor has these two.
        let (base, element) = unsafe { ((*descriptor).base, (*descriptor).length) };
        // SAFETY: as promised.
        let dimensions = unsafe { dimensions(descriptor) };
        let mut expected = element as isize;
        let mut contiguous = true;
        for dimension in dimensions {
            contiguous &= dimension.stride == expected || dimension.extent == 1;
            expected = expected.wrapping_mul(dimension.extent);
        }
        // There is nothing in an empty one; and one whose size is not known is contiguous by its nature.
        Self {
            base,
            element,
            contiguous: contiguous || expected <= 0,
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
        unsafe { dimensions(self.descriptor) }
    }
}

/// The dimensions of an array.
///
/// # Safety
///
/// The descriptor must be one of a compiler's.
#[inline(always)]
pub(super) unsafe fn dimensions<'a>(descriptor: *const Descriptor) -> &'a [Dimension] {
    // SAFETY: a descriptor has as many dimensions as its rank says.
    unsafe {
        slice::from_raw_parts(
            (&raw const (*descriptor).dimensions).cast(),
            (*descriptor).rank.into(),
        )
    }
}

/// The bytes and the length of a `CHARACTER` that was passed as a descriptor.
///
/// # Safety
///
/// It must be one of a compiler's.
pub unsafe fn character(descriptor: *const Descriptor) -> (*mut c_char, usize) {
    // SAFETY: each descriptor has these two.
    unsafe { ((*descriptor).base.cast(), (*descriptor).length) }
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
