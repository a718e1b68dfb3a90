//! The descriptors that a compiler passes to procedures of Fortran's own, which are not `BIND(C)`: a tool may define `MPI_Send_f08ts` as
//! one (section 19.1.5). Those of flang are the same as for C. gfortran's are like this, where strides are in units of `span`:
//!
//! ```text
//! 0          8       16        24       28    29    30         32    40
//! base_addr  offset  elem_len  version  rank  type  attribute  span  dim[rank]: stride, lower_bound, upper_bound  (8 bytes each)
//! ```

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::Descriptor;
use super::descriptor::{Dimension, GFORTRAN, MOST, VERSIONS_OF_FLANG};

/// gfortran's own descriptor.
#[repr(C)]
pub struct Native {
    base: *mut c_void,
    offset: isize,
    element: usize,
    version: c_int,
    rank: i8,
    kind: i8,
    attribute: i16,
    span: isize,
    dimensions: [NativeDimension; MOST],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct NativeDimension {
    stride: isize,
    lower: isize,
    upper: isize,
}

/// gfortran's numbers of types (`libgfortran.h`), by those that it has for C: of integers, logicals, reals, complex numbers, texts,
/// structures, and addresses.
const KINDS: [i8; 9] = [0, 1, 2, 3, 4, 6, 5, 10, 10];

impl Native {
    /// What procedures of Fortran's own get for this descriptor: a pointer to the descriptor itself, or to what is stored in `room`.
    ///
    /// # Safety
    ///
    /// It must be one of a compiler's.
    pub unsafe fn of(descriptor: *const Descriptor, room: &mut Option<Self>) -> *mut c_void {
        // SAFETY: as promised.
        let dimensions = unsafe { super::descriptor::dimensions(descriptor) };
        // SAFETY: each descriptor has these.
        let (base, element, version) =
            unsafe { ((*descriptor).base, (*descriptor).length, (*descriptor).version) };
        if version != GFORTRAN || dimensions.len() > MOST {
            return descriptor.cast_mut().cast();
        }
        // SAFETY: as above; this is how gfortran has it.
        let [attribute, kind, _] = unsafe { (*descriptor).rest };
        // The bytes of an element, if all distances are multiples of that; otherwise the greatest that fits, so that no stride of a
        // component is 1, which gfortran takes for a contiguous array.
        let span = dimensions
            .iter()
            .fold(element as isize, |common, dimension| {
                divisor(common, dimension.stride)
            })
            .max(1);
        let native = room.insert(Self {
            base,
            offset: 0,
            element,
            version: 0,
            rank: dimensions.len() as i8,
            kind: KINDS.get(usize::from(kind)).copied().unwrap_or(0),
            attribute: (attribute as i8).into(),
            span,
            dimensions: [NativeDimension::default(); MOST],
        });
        for (native_dimension, dimension) in native.dimensions.iter_mut().zip(dimensions) {
            let stride = dimension.stride / span;
            *native_dimension = NativeDimension {
                stride,
                lower: 1,
                // -1 if the size is not known.
                upper: dimension.extent,
            };
            native.offset = native.offset.wrapping_sub(stride);
        }
        ptr::from_mut(native).cast()
    }
}

/// The greatest that divides both, or the other if one is 0.
fn divisor(mut a: isize, mut b: isize) -> isize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.wrapping_abs()
}

/// A descriptor made from one of gfortran's own.
#[repr(C)]
pub struct Described {
    head: Descriptor,
    dimensions: [Dimension; MOST],
}

impl Described {
    /// The descriptor for what a procedure of Fortran's own got: the same, or one that is stored in `room`.
    ///
    /// # Safety
    ///
    /// It must be one of a compiler's.
    pub unsafe fn of(native: *const c_void, room: &mut Option<Self>) -> *const Descriptor {
        let same = native.cast::<Descriptor>();
        // gfortran has here what is the length of an element: a text or structure of so many bytes is not expected.
        // SAFETY: both are longer than this.
        if VERSIONS_OF_FLANG.contains(&unsafe { (*same).version }) {
            return same;
        }
        let native = native.cast::<Native>();
        // SAFETY: each descriptor has these.
        let (base, element, rank, span) =
            unsafe { ((*native).base, (*native).element, (*native).rank, (*native).span) };
        let span = if span == 0 { element as isize } else { span };
        let rank = usize::try_from(rank).unwrap_or(0).min(MOST);
        let nothing = Dimension {
            lower: 0,
            extent: 0,
            stride: 0,
        };
        let described = room.insert(Self {
            head: Descriptor::new(base, element, rank as u8),
            dimensions: [nothing; MOST],
        });
        for (index, dimension) in described.dimensions[..rank].iter_mut().enumerate() {
            // SAFETY: it has as many as its rank says.
            let from = unsafe {
                (&raw const (*native).dimensions)
                    .cast::<NativeDimension>()
                    .add(index)
                    .read()
            };
            *dimension = Dimension {
                lower: 0,
                extent: from.upper.wrapping_sub(from.lower).wrapping_add(1).max(-1),
                stride: from.stride.wrapping_mul(span),
            };
        }
        // The address of the whole, not that of the head only: the dimensions follow it.
        ptr::from_ref(described).cast()
    }
}

/// A procedure that a tool may have instead of the library's.
pub struct Tool {
    name: &'static CStr,
    /// Null: not known yet. `Self::NONE`: there is none.
    found: AtomicPtr<c_void>,
}

impl Tool {
    const NONE: *mut c_void = ptr::without_provenance_mut(1);

    /// Of this symbol.
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The tool's procedure, if there is one. The first call finds it out: what is loaded later is not seen.
    #[inline(always)]
    pub fn get(&self) -> Option<*mut c_void> {
        let found = self.found.load(Ordering::Relaxed);
        if found == Self::NONE {
            None
        } else {
            self.find(found)
        }
    }

    #[cold]
    fn find(&self, mut found: *mut c_void) -> Option<*mut c_void> {
        static HERE: u8 = 0;
        if found.is_null() {
            // SAFETY: the name ends with a zero.
            found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, self.name.as_ptr()) };
            let ours = library_of((&raw const HERE).cast());
            if found.is_null() || library_of(found) == ours {
                found = Self::NONE;
            }
            self.found.store(found, Ordering::Relaxed);
        }
        (found != Self::NONE).then_some(found)
    }
}

/// Where the program or library begins that has this address.
fn library_of(address: *const c_void) -> *mut c_void {
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: any address may be asked for.
    unsafe { libc::dladdr(address, &mut info) };
    info.dli_fbase
}
