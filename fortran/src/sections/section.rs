//! Where the elements of an array section are.

use std::ptr;

use smallvec::SmallVec;

use super::Buffer;

/// One dimension: of more than one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Along {
    /// How many elements, or sections of the dimensions before.
    pub extent: usize,
    /// Bytes from one to the next; negative if it goes backwards.
    pub stride: isize,
}

/// An array section that has elements.
#[derive(Clone, Debug)]
pub struct Section {
    /// The address of its first element.
    pub base: *mut u8,
    /// Bytes of an element.
    pub element: usize,
    /// How many elements it has.
    pub elements: usize,
    /// Its dimensions. Two that follow each other with one stride are one here. There is none if the section has one element only.
    pub dimensions: SmallVec<[Along; 4]>,
}

impl Section {
    /// The section of a buffer. None if it has more bytes than there are addresses.
    pub fn new(buffer: &Buffer) -> Option<Self> {
        let mut elements = 1_usize;
        let mut reach = 0_isize;
        let mut dimensions: SmallVec<[Along; 4]> = SmallVec::new();
        for dimension in buffer.dimensions() {
            let extent = usize::try_from(dimension.extent).unwrap_or(0);
            elements = elements.checked_mul(extent)?;
            if extent == 1 {
                continue;
            }
            // So that no offset in the section overflows.
            let length = dimension
                .stride
                .checked_abs()?
                .checked_mul(isize::try_from(extent).ok()?)?;
            reach = reach.checked_add(length)?;
            match dimensions.last_mut() {
                Some(last) if last.stride.checked_mul(last.extent as isize) == Some(dimension.stride) => {
                    last.extent = last.extent.checked_mul(extent)?;
                }
                _ => dimensions.push(Along {
                    extent,
                    stride: dimension.stride,
                }),
            }
        }
        isize::try_from(elements.checked_mul(buffer.element)?).ok()?;
        Some(Self {
            base: buffer.address().cast(),
            element: buffer.element,
            elements,
            dimensions,
        })
    }

    /// How many bytes are beside each other, and the dimensions in which such runs are.
    pub fn runs(&self) -> (usize, &[Along]) {
        match self.dimensions.split_first() {
            Some((first, rest)) if first.stride == self.element as isize => {
                (first.extent * self.element, rest)
            }
            _ => (self.element, &self.dimensions),
        }
    }

    /// Where an element is, from the first.
    pub fn offset(&self, mut element: usize) -> isize {
        let mut offset = 0;
        for along in &self.dimensions {
            offset += (element % along.extent) as isize * along.stride;
            element /= along.extent;
        }
        offset
    }

    /// Calls a function for each run of bytes in the first elements: with its address, its place among the bytes of these, and its length.
    fn each_run(&self, elements: usize, mut then: impl FnMut(*mut u8, usize, usize)) {
        let (run, outer) = self.runs();
        let bytes = elements.min(self.elements) * self.element;
        let (inner, outer) = match outer.split_first() {
            Some((inner, outer)) => (*inner, outer),
            None => (Along { extent: 1, stride: 0 }, outer),
        };
        let mut index: SmallVec<[usize; 4]> = SmallVec::from_elem(0, outer.len());
        let mut offset = 0_isize;
        let mut place = 0;
        while place < bytes {
            let mut at = offset;
            for _ in 0..inner.extent {
                if place >= bytes {
                    return;
                }
                then(self.base.wrapping_offset(at), place, run.min(bytes - place));
                place += run;
                at += inner.stride;
            }
            for (index, along) in index.iter_mut().zip(outer) {
                *index += 1;
                offset += along.stride;
                if *index < along.extent {
                    break;
                }
                offset -= along.stride * along.extent as isize;
                *index = 0;
            }
        }
    }

    /// Copies its first elements to memory where they are beside each other.
    ///
    /// # Safety
    ///
    /// The section's elements must be there, and as many bytes at `to`.
    pub unsafe fn gather(&self, elements: usize, to: *mut u8) {
        self.each_run(elements, |from, place, length| {
            // SAFETY: as promised: `each_run` stays within the section.
            unsafe { copy(from, to.add(place), length) };
        });
    }

    /// Copies what has changed, from memory where the first elements are beside each other: what differs between `now` and `before`. Both
    /// are the same afterwards.
    ///
    /// # Safety
    ///
    /// The section's elements must be there, and as many bytes at `now` and `before`.
    pub unsafe fn scatter_changes(&self, elements: usize, now: *const u8, before: *mut u8) {
        self.each_run(elements, |to, place, length| {
            // SAFETY: as promised: `each_run` stays within the section.
            unsafe { copy_changes(now.add(place), before.add(place), to, length) };
        });
    }
}

/// Copies bytes; the sizes that numbers have without a call.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller has so many bytes at both.
    unsafe {
        match length {
            4 => to
                .cast::<u32>()
                .write_unaligned(from.cast::<u32>().read_unaligned()),
            8 => to
                .cast::<u64>()
                .write_unaligned(from.cast::<u64>().read_unaligned()),
            16 => to
                .cast::<[u64; 2]>()
                .write_unaligned(from.cast::<[u64; 2]>().read_unaligned()),
            _ => ptr::copy_nonoverlapping(from, to, length),
        }
    }
}

/// Copies the bytes that differ from those before, also to where those are.
#[inline(always)]
unsafe fn copy_changes(now: *const u8, before: *mut u8, to: *mut u8, length: usize) {
    let mut at = 0;
    while at < length {
        // SAFETY: the caller has `length` bytes at each of the three.
        unsafe {
            let (now, before) = (now.add(at), before.add(at));
            let (step, same) = match length - at {
                8.. => (
                    8,
                    now.cast::<u64>().read_unaligned() == before.cast::<u64>().read_unaligned(),
                ),
                4.. => (
                    4,
                    now.cast::<u32>().read_unaligned() == before.cast::<u32>().read_unaligned(),
                ),
                _ => (1, *now == *before),
            };
            for byte in 0..if same { 0 } else { step } {
                let value = *now.add(byte);
                if value != *before.add(byte) {
                    *to.add(at + byte) = value;
                    *before.add(byte) = value;
                }
            }
            at += step;
        }
    }
}
