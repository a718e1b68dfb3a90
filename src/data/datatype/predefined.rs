//! The predefined datatypes, by the numbers of the standard ABI (MPI 5.0, section 20.3.4).
//!
//! Fortran's types are those of a compiler with a 4-byte INTEGER, REAL and LOGICAL until the library is told otherwise
//! ([`Kinds::tell`]). Then entries of the table are exchanged; those before stay in memory, so that a datatype which somebody has found can be
//! used without a lock or a count.

use super::Datatype;
use super::basic::{Basic, Category, Element, Representation};
use super::bounds::Bounds;
use super::envelope::{Combiner, Origin};
use super::layout::{Builder, Layout};
use super::signature::Signature;
use crate::data::fortran::Kinds;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Once};

use Category::*;
use Representation::*;

/// Handles of the types that code in Weft names.
mod handle {
    pub const DATATYPE_NULL: usize = 512;
    pub const SHORT: usize = 520;
    pub const INT: usize = 521;
    pub const LONG: usize = 522;
    pub const FLOAT: usize = 528;
    pub const DOUBLE: usize = 532;
    pub const LOGICAL: usize = 536;
    pub const INTEGER: usize = 537;
    pub const REAL: usize = 538;
    pub const COMPLEX: usize = 539;
    pub const DOUBLE_PRECISION: usize = 540;
    pub const DOUBLE_COMPLEX: usize = 541;
    pub const LONG_DOUBLE: usize = 544;
    pub const BYTE: usize = 583;
    #[cfg(feature = "sim")]
    pub const INT32: usize = 592;
    #[cfg(feature = "sim")]
    pub const INT64: usize = 600;
    pub const UINT64: usize = 601;
}

/// The basic types: handle, name, what they are, usually.
const BASIC: &[(usize, &str, Category, Representation)] = &[
    (513, "MPI_AINT", MultiLanguage, I64),
    (514, "MPI_COUNT", MultiLanguage, I64),
    (515, "MPI_OFFSET", MultiLanguage, I64),
    (519, "MPI_PACKED", Packed, U8),
    (520, "MPI_SHORT", CInteger, I16),
    (521, "MPI_INT", CInteger, I32),
    (522, "MPI_LONG", CInteger, I64),
    (523, "MPI_LONG_LONG_INT", CInteger, I64),
    (524, "MPI_UNSIGNED_SHORT", CInteger, U16),
    (525, "MPI_UNSIGNED", CInteger, U32),
    (526, "MPI_UNSIGNED_LONG", CInteger, U64),
    (527, "MPI_UNSIGNED_LONG_LONG", CInteger, U64),
    (528, "MPI_FLOAT", Floating, F32),
    (530, "MPI_C_COMPLEX", Complex, ComplexF32),
    (531, "MPI_CXX_FLOAT_COMPLEX", Complex, ComplexF32),
    (532, "MPI_DOUBLE", Floating, F64),
    (534, "MPI_C_DOUBLE_COMPLEX", Complex, ComplexF64),
    (535, "MPI_CXX_DOUBLE_COMPLEX", Complex, ComplexF64),
    (536, "MPI_LOGICAL", Logical, L32),
    (537, "MPI_INTEGER", FortranInteger, I32),
    (538, "MPI_REAL", Floating, F32),
    (539, "MPI_COMPLEX", Complex, ComplexF32),
    (540, "MPI_DOUBLE_PRECISION", Floating, F64),
    (541, "MPI_DOUBLE_COMPLEX", Complex, ComplexF64),
    (542, "MPI_CHARACTER", Character, U8),
    (544, "MPI_LONG_DOUBLE", Floating, LongDouble),
    (548, "MPI_C_LONG_DOUBLE_COMPLEX", Complex, ComplexLongDouble),
    (549, "MPI_CXX_LONG_DOUBLE_COMPLEX", Complex, ComplexLongDouble),
    (568, "MPI_C_BOOL", Logical, U8),
    (569, "MPI_CXX_BOOL", Logical, U8),
    (572, "MPI_WCHAR", Character, I32),
    (576, "MPI_INT8_T", CInteger, I8),
    (577, "MPI_UINT8_T", CInteger, U8),
    (579, "MPI_CHAR", Char, CHAR),
    (580, "MPI_SIGNED_CHAR", CInteger, I8),
    (581, "MPI_UNSIGNED_CHAR", CInteger, U8),
    (583, "MPI_BYTE", Byte, U8),
    (584, "MPI_INT16_T", CInteger, I16),
    (585, "MPI_UINT16_T", CInteger, U16),
    (592, "MPI_INT32_T", CInteger, I32),
    (593, "MPI_UINT32_T", CInteger, U32),
    (600, "MPI_INT64_T", CInteger, I64),
    (601, "MPI_UINT64_T", CInteger, U64),
    (704, "MPI_LOGICAL1", Logical, L8),
    (705, "MPI_INTEGER1", FortranInteger, I8),
    (712, "MPI_LOGICAL2", Logical, L16),
    (713, "MPI_INTEGER2", FortranInteger, I16),
    (714, "MPI_REAL2", Floating, F16),
    (720, "MPI_LOGICAL4", Logical, L32),
    (721, "MPI_INTEGER4", FortranInteger, I32),
    (722, "MPI_REAL4", Floating, F32),
    (723, "MPI_COMPLEX4", Complex, ComplexF16),
    (728, "MPI_LOGICAL8", Logical, L64),
    (729, "MPI_INTEGER8", FortranInteger, I64),
    (730, "MPI_REAL8", Floating, F64),
    (731, "MPI_COMPLEX8", Complex, ComplexF32),
    (736, "MPI_LOGICAL16", Logical, L128),
    (737, "MPI_INTEGER16", FortranInteger, I128),
    (738, "MPI_REAL16", Floating, F128),
    (739, "MPI_COMPLEX16", Complex, ComplexF64),
    (747, "MPI_COMPLEX32", Complex, ComplexF128),
];

/// C's `char` has a sign on x86-64 and none on AArch64.
const CHAR: Representation = match std::ffi::c_char::MIN {
    0 => U8,
    _ => I8,
};

/// The pairs for `MPI_MINLOC` and `MPI_MAXLOC`: handle, name, the types of value and index.
const PAIRS: &[(usize, &str, usize, usize)] = &[
    (552, "MPI_FLOAT_INT", handle::FLOAT, handle::INT),
    (553, "MPI_DOUBLE_INT", handle::DOUBLE, handle::INT),
    (554, "MPI_LONG_INT", handle::LONG, handle::INT),
    (555, "MPI_2INT", handle::INT, handle::INT),
    (556, "MPI_SHORT_INT", handle::SHORT, handle::INT),
    (557, "MPI_LONG_DOUBLE_INT", handle::LONG_DOUBLE, handle::INT),
    (560, "MPI_2REAL", handle::REAL, handle::REAL),
    (
        561,
        "MPI_2DOUBLE_PRECISION",
        handle::DOUBLE_PRECISION,
        handle::DOUBLE_PRECISION,
    ),
    (562, "MPI_2INTEGER", handle::INTEGER, handle::INTEGER),
];

/// The number of handles that the ABI reserves for predefined datatypes.
const ENTRIES: usize = 256;

type Entry = Option<&'static Arc<Datatype>>;

/// By handle: null, or a datatype that is never freed. All are null until the first datatype is asked for.
static TABLE: [AtomicPtr<Arc<Datatype>>; ENTRIES] = [const { AtomicPtr::new(ptr::null_mut()) }; ENTRIES];

/// Writes an entry of the table.
fn enter(handle: usize, datatype: Option<Arc<Datatype>>) {
    let entry = datatype.map_or(ptr::null_mut(), |datatype| Box::into_raw(Box::new(datatype)));
    // Pairs with the load of `entry`, which then finds the datatype written.
    TABLE[handle - handle::DATATYPE_NULL].store(entry, Ordering::Release);
}

#[inline]
fn entry(abi_value: usize) -> Entry {
    let entry = TABLE.get(abi_value.wrapping_sub(handle::DATATYPE_NULL))?;
    // SAFETY: null, or from the `Box::into_raw` of `enter`, which nobody turns back into a box.
    unsafe { entry.load(Ordering::Acquire).as_ref() }
}

/// Fills the table, if nobody has.
fn fill() {
    static FILLED: Once = Once::new();
    FILLED.call_once(|| {
        for &(handle, name, category, usual) in BASIC {
            enter(handle, basic_entry(handle, name, category, usual, Kinds::USUAL));
        }
        for &(handle, name, value, index) in PAIRS {
            enter(handle, Some(pair_entry(handle, name, value, index)));
        }
    });
}

/// The representation that a type of the usual one has with these kinds; `None`: the compiler has no such type.
fn representation(handle: usize, usual: Representation, kinds: Kinds) -> Option<Representation> {
    if !kinds.has(handle) {
        return None;
    }
    match handle {
        handle::LOGICAL => of_size(kinds.logical, &[L8, L16, L32, L64, L128]),
        handle::INTEGER => of_size(kinds.integer, &[I8, I16, I32, I64, I128]),
        handle::REAL => of_size(kinds.real, &[F32, F64, F128]),
        handle::DOUBLE_PRECISION => of_size(kinds.double_precision, &[F32, F64, F128]),
        handle::COMPLEX => of_size(2 * kinds.real, &[ComplexF32, ComplexF64, ComplexF128]),
        handle::DOUBLE_COMPLEX => of_size(2 * kinds.double_precision, &[ComplexF32, ComplexF64, ComplexF128]),
        _ => Some(usual),
    }
}

fn of_size(size: u8, among: &[Representation]) -> Option<Representation> {
    let mut among = among.iter().copied();
    among.find(|one| one.size() == u64::from(size))
}

fn basic_entry(
    handle: usize,
    name: &'static str,
    category: Category,
    usual: Representation,
    kinds: Kinds,
) -> Option<Arc<Datatype>> {
    // In external32, `long` has the 4 bytes and `wchar_t` the 2 bytes of the systems that it was made for, and Fortran's default
    // kinds have their usual sizes, whatever they are in memory.
    let external_size = match name {
        "MPI_LONG" | "MPI_UNSIGNED_LONG" => 4,
        "MPI_WCHAR" => 2,
        _ => usual.size() as u8,
    };
    let basic = Basic {
        category,
        representation: representation(handle, usual, kinds)?,
        external_size,
    };
    Some(basic_type(name, handle, basic))
}

/// A pair of types that are in the table.
fn pair_entry(handle: usize, name: &'static str, value: usize, index: usize) -> Arc<Datatype> {
    let basic = |handle: usize| match entry(handle).and_then(|part| part.element) {
        Some(Element::Basic(basic)) => basic,
        other => unreachable!("{name} is made of basic types, not {other:?}"),
    };
    pair_type(name, handle, basic(value), basic(index))
}

/// The bounds of one basic element.
pub(super) fn basic_bounds(basic: Basic) -> Bounds {
    let extent = basic.size() as i64;
    Bounds {
        lb: 0,
        extent,
        true_lb: 0,
        true_extent: extent,
        marked: false,
        align: basic.representation.align(),
    }
}

fn basic_type(name: &'static str, handle: usize, basic: Basic) -> Arc<Datatype> {
    let len = basic.size();
    Datatype::assemble_predefined(
        name,
        handle,
        Some(Element::Basic(basic)),
        basic_bounds(basic),
        Arc::new(Layout::Run { offset: 0, len }),
        Arc::new(Signature::Uniform { basic, count: 1 }),
        Origin::new(Combiner::Named, Vec::new(), Vec::new()),
    )
}

/// `struct { value; index }` as a C compiler lays it out.
fn pair_type(name: &'static str, handle: usize, value: Basic, index: Basic) -> Arc<Datatype> {
    let align = value.representation.align().max(index.representation.align());
    let index_at = value.size().next_multiple_of(index.representation.align());
    let end = index_at + index.size();
    let bounds = Bounds {
        lb: 0,
        extent: end.next_multiple_of(align) as i64,
        true_lb: 0,
        true_extent: end as i64,
        marked: false,
        align,
    };
    let mut layout = Builder::default();
    layout.run(0, value.size());
    layout.run(index_at as i64, index.size());
    let uniform = |basic| Arc::new(Signature::Uniform { basic, count: 1 });
    Datatype::assemble_predefined(
        name,
        handle,
        Some(Element::Pair(value, index, index_at)),
        bounds,
        layout.finish(),
        Signature::series([uniform(value), uniform(index)]),
        Origin::new(Combiner::Named, Vec::new(), Vec::new()),
    )
}

fn known(abi_value: usize) -> &'static Arc<Datatype> {
    Datatype::predefined(abi_value).expect("the table holds every type that Weft names")
}

impl Datatype {
    /// The predefined datatype of the handle constant `abi_value`: `MPI_INT` for 521. `None` also for one that the Fortran compiler does
    /// not have ([`unsupported`](Self::unsupported)).
    #[inline]
    pub fn predefined(abi_value: usize) -> Entry {
        match entry(abi_value) {
            None => Datatype::predefined_at_first(abi_value),
            found => found,
        }
    }

    /// The same when the table may not have been filled.
    #[cold]
    fn predefined_at_first(abi_value: usize) -> Entry {
        fill();
        entry(abi_value)
    }

    /// The name of the optional datatype of the handle constant `abi_value`, if the Fortran compiler does not have it.
    pub fn unsupported(abi_value: usize) -> Option<&'static str> {
        let (_, name, ..) = BASIC.iter().find(|basic| basic.0 == abi_value)?;
        (!Kinds::current().has(abi_value)).then_some(name)
    }

    /// Exchanges the datatypes that are others with these kinds than they were, which [`Kinds::tell`] does once.
    pub(in crate::data) fn adopt_kinds(kinds: Kinds) {
        fill();
        for &(handle, name, category, usual) in BASIC {
            if representation(handle, usual, kinds) != Some(usual) {
                enter(handle, basic_entry(handle, name, category, usual, kinds));
            }
        }
        for &(handle, name, value, index) in PAIRS {
            let new = pair_entry(handle, name, value, index);
            if entry(handle).is_some_and(|old| old.element != new.element) {
                enter(handle, Some(new));
            }
        }
    }

    /// Every predefined datatype that has a name.
    pub(super) fn named_predefined() -> impl Iterator<Item = &'static Arc<Datatype>> {
        let handles = handle::DATATYPE_NULL..handle::DATATYPE_NULL + ENTRIES;
        handles.filter_map(Datatype::predefined)
    }

    /// Every named predefined datatype, with its handle constant.
    #[cfg(feature = "sim")]
    pub fn all_predefined() -> impl Iterator<Item = (usize, &'static Arc<Datatype>)> {
        let handles = handle::DATATYPE_NULL..handle::DATATYPE_NULL + ENTRIES;
        handles.filter_map(|handle| Some((handle, Datatype::predefined(handle)?)))
    }

    /// `MPI_BYTE`.
    pub fn byte() -> &'static Arc<Datatype> {
        known(handle::BYTE)
    }

    /// `MPI_INT32_T`.
    #[cfg(feature = "sim")]
    pub fn int32() -> &'static Arc<Datatype> {
        known(handle::INT32)
    }

    /// `MPI_INT64_T`.
    #[cfg(feature = "sim")]
    pub fn int64() -> &'static Arc<Datatype> {
        known(handle::INT64)
    }

    /// `MPI_UINT64_T`.
    pub fn uint64() -> &'static Arc<Datatype> {
        known(handle::UINT64)
    }

    /// The predefined pair of a value and an index type for `MPI_MINLOC` and `MPI_MAXLOC`, if there is one
    /// (`MPI_Type_get_value_index`). All have names: the standard lets a library have others without, but other libraries
    /// have none, and programs (mpi4py's tests) take whatever has no name for a type that they have to free.
    pub fn value_index(value: &Datatype, index: &Datatype) -> Option<&'static Arc<Datatype>> {
        let wanted = (value.handle(), index.handle());
        let pair = PAIRS.iter().find(|pair| (pair.2, pair.3) == wanted)?;
        Some(known(pair.0))
    }
}
