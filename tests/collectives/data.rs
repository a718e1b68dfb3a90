//! Elements, the layouts in which they can lie in memory, and buffers that are compared byte by byte.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Arc;

use weft::data::datatype::Datatype;
use weft::data::op::{Lender, Op, UserFunction};
use weft::objects::collective::{Buffer, Operands, VBuffer};

/// A 2 × 2 matrix.
pub type Element = [u32; 4];

/// The element `index` that `rank` contributes.
pub fn element(rank: u32, index: u64) -> Element {
    let seed = (u64::from(rank) << 40 | index).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    let mixed = (seed ^ seed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    [
        mixed as u32,
        (mixed >> 32) as u32,
        (mixed >> 13) as u32,
        (mixed >> 47) as u32,
    ]
}

/// Their product: associative, and not commutative.
pub fn product(a: Element, b: Element) -> Element {
    let cell = |row: usize, column: usize| {
        a[2 * row]
            .wrapping_mul(b[column])
            .wrapping_add(a[2 * row + 1].wrapping_mul(b[2 + column]))
    };
    [cell(0, 0), cell(0, 1), cell(1, 0), cell(1, 1)]
}

/// Their sum.
pub fn sum(a: Element, b: Element) -> Element {
    std::array::from_fn(|at| a[at].wrapping_add(b[at]))
}

/// Where the four numbers lie, and how far apart elements are: in a row; with gaps, below their address too; the
/// same going downwards; and each ending inside the next, whose extent is shorter than the element.
const PLACES: [([i64; 4], i64); 4] = [
    ([0, 4, 8, 12], 16),
    ([8, 12, 20, -4], 48),
    ([8, 12, 20, -4], -40),
    ([0, 4, 8, 28], 16),
];
const FIRST_HANDLE: usize = 7000;

/// A way in which elements lie in memory.
#[derive(Clone)]
pub struct Layout {
    pub datatype: Arc<Datatype>,
    kind: usize,
}

/// Number of layouts; 0 is dense.
pub const LAYOUTS: usize = PLACES.len();

impl Layout {
    /// One of the [`LAYOUTS`].
    pub fn new(kind: usize) -> Layout {
        let (places, extent) = PLACES[kind];
        let datatype = if kind == 0 {
            Datatype::contiguous(4, Datatype::int32()).unwrap()
        } else {
            let scattered = Datatype::hindexed(&[1; 4], &places, Datatype::int32()).unwrap();
            Datatype::resized(&scattered, -16, extent).unwrap()
        };
        datatype.commit();
        datatype.set_handle(FIRST_HANDLE + kind);
        Layout { datatype, kind }
    }

    fn places(&self, index: i64) -> [i64; 4] {
        let (places, extent) = PLACES[self.kind];
        places.map(|place| index * extent + place)
    }
}

/// Memory that an operation writes to, to be put back as it was before the operation is started again.
#[derive(Clone, Copy)]
pub struct Room {
    address: *mut u8,
    len: usize,
}

// SAFETY: an address and a length; the tasks of a simulation run in its thread.
unsafe impl Send for Room {}

impl Room {
    /// Bytes that are not moved, and not used otherwise, as long as this is in use.
    pub fn of(bytes: &mut Vec<u8>) -> Room {
        Room {
            address: bytes.as_mut_ptr(),
            len: bytes.len(),
        }
    }

    /// The same of numbers.
    pub fn of_numbers(numbers: &mut [i32]) -> Room {
        Room {
            address: numbers.as_mut_ptr().cast(),
            len: size_of_val(numbers),
        }
    }

    /// Its bytes, while no operation is under way.
    pub fn read(self) -> Vec<u8> {
        // SAFETY: the maker keeps so many bytes, which nobody uses now.
        unsafe { std::slice::from_raw_parts(self.address, self.len) }.to_vec()
    }

    /// Puts bytes back, while no operation is under way.
    pub fn write(self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.len);
        // SAFETY: as for `read`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.address, self.len) };
    }
}

const SURROUNDINGS: i64 = 64;
const RUBBISH: u8 = 0xa5;

/// Room for elements with something around them.
#[derive(Clone)]
pub struct Area {
    layout: Layout,
    bytes: Vec<u8>,
    /// Where in `bytes` the buffer's address is.
    origin: i64,
}

impl Area {
    /// For elements of these indices.
    pub fn new(layout: &Layout, elements: Range<i64>) -> Area {
        let last = (elements.end - 1).max(elements.start);
        let ends = [elements.start, last].map(|index| layout.places(index));
        let low = ends.iter().flatten().min().unwrap() - SURROUNDINGS;
        let high = ends.iter().flatten().max().unwrap() + 4 + SURROUNDINGS;
        Area {
            layout: layout.clone(),
            bytes: vec![RUBBISH; (high - low) as usize],
            origin: -low,
        }
    }

    /// With `count` elements of `rank` in it.
    pub fn of(layout: &Layout, rank: u32, count: u64) -> Area {
        let mut area = Area::new(layout, 0..count as i64);
        for index in 0..count {
            area.put(index as i64, element(rank, index));
        }
        area
    }

    pub fn put(&mut self, index: i64, element: Element) {
        for (place, value) in self.layout.places(index).into_iter().zip(element) {
            let at = (self.origin + place) as usize;
            self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
    }

    pub fn address(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().wrapping_offset(self.origin as isize)
    }

    /// All of it, for an operation that writes to it.
    pub fn room(&mut self) -> Room {
        Room::of(&mut self.bytes)
    }

    /// As an argument with this count.
    pub fn buffer(&mut self, count: u64) -> Buffer {
        self.blocks(count, 1)
    }

    /// As an argument with a block of this count for each of some ranks.
    pub fn blocks(&mut self, count: u64, ranks: u32) -> Buffer {
        // SAFETY: tests keep an area until the operation has ended, and ask for no more than it has.
        unsafe { Buffer::new(self.address(), count, ranks, self.layout.datatype.clone()) }
    }

    /// As an argument with these counts and displacements.
    pub fn uneven(&mut self, counts: &[u64], displs: &[i64]) -> VBuffer {
        // SAFETY: as for `blocks`.
        unsafe {
            VBuffer::new(
                self.address(),
                counts.into(),
                displs.into(),
                self.layout.datatype.clone(),
            )
        }
    }

    /// Compares every byte.
    #[track_caller]
    pub fn check(&self, expected: &Area, what: &dyn std::fmt::Debug) {
        let len = self.bytes.len();
        // In debug code much sooner done than byte by byte.
        if self.bytes != expected.bytes[..len] {
            let at = (0..len).find(|&at| self.bytes[at] != expected.bytes[at]);
            let at = at.expect("they differ");
            panic!(
                "{what:?}, layout {}: the byte {} from the address is {:#x} and not {:#x}",
                self.layout.kind,
                at as i64 - self.origin,
                self.bytes[at],
                expected.bytes[at]
            );
        }
    }
}

/// What a reduction is handed: `count` elements of `send`, or of `receive` in place, for a result of `result` elements.
pub fn operands(
    send: Option<&mut Area>,
    receive: Option<&mut Area>,
    (count, result): (u64, u64),
    (layout, op): (&Layout, &Arc<Op>),
) -> Operands {
    let send = send.map(|area| area.address().cast_const());
    let receive = receive.map(Area::address);
    // SAFETY: tests keep an area until the operation has ended, and ask for no more than it has.
    unsafe { Operands::new(send, receive, count, result, layout.datatype.clone(), op.clone()) }
}

/// Combines elements as a user's function, which is told the layout by the datatype's handle.
///
/// # Safety
/// As the standard has it for `MPI_User_function`.
unsafe fn combine(
    input: *mut c_void,
    inout: *mut c_void,
    len: *mut c_int,
    handle: *mut usize,
    operation: fn(Element, Element) -> Element,
) {
    // SAFETY: the caller's promise; elements lie as the handle's layout says. Unaligned accesses would be a fault of
    // the library: Rust's checks of debug builds find them.
    unsafe {
        let (places, extent) = PLACES[*handle - FIRST_HANDLE];
        for index in 0..i64::from(*len) {
            let at = |base: *mut c_void, number: usize| {
                let place = (index * extent + places[number]) as isize;
                base.wrapping_byte_offset(place).cast::<u32>()
            };
            let read = |base| std::array::from_fn(|number| at(base, number).read());
            let result = operation(read(input), read(inout));
            for (number, value) in result.into_iter().enumerate() {
                at(inout, number).write(value);
            }
        }
    }
}

unsafe extern "C" fn combine_product(
    input: *mut c_void,
    inout: *mut c_void,
    len: *mut c_int,
    handle: *mut usize,
) {
    // SAFETY: the caller's promise.
    unsafe { combine(input, inout, len, handle, product) }
}

unsafe extern "C" fn combine_sum(
    input: *mut c_void,
    inout: *mut c_void,
    len: *mut c_int,
    handle: *mut usize,
) {
    // SAFETY: the caller's promise.
    unsafe { combine(input, inout, len, handle, sum) }
}

/// [`product`] or [`sum`], and whether it commutes.
pub fn operation(commutes: bool) -> (Arc<Op>, fn(Element, Element) -> Element) {
    if commutes {
        // SAFETY: the function combines elements of every `Layout`, and tests have no others.
        let op = unsafe { Op::user(UserFunction::Int(combine_sum), true, Lender::NOBODY) };
        (op, sum)
    } else {
        // SAFETY: as for `combine_sum`.
        let op = unsafe { Op::user(UserFunction::Int(combine_product), false, Lender::NOBODY) };
        (op, product)
    }
}
