//! Updates of one element by one atomic operation of the processor, found by one look at a table: what counters and flags of programs are. They
//! do what [`Op::update`] does with an aligned element that others may update.

use super::predefined::PredefinedKind;
use super::word::Word;
use super::{Function, Op};
use crate::data::datatype::{Datatype, Element, Representation};
use std::sync::atomic::Ordering;

/// Updates the element at `target` by `operand`, which `MPI_NO_OP` does not look at; what it was goes to `before`, unless that is null.
type Update = unsafe fn(operand: *const u8, target: *mut u8, before: *mut u8);

/// How one operation updates an element of one datatype.
#[derive(Clone, Copy)]
pub struct Single {
    size: usize,
    update: Update,
}

impl Single {
    /// Bytes of the element; a power of two.
    #[inline(always)]
    pub fn size(self) -> usize {
        self.size
    }

    /// Updates the element at `target`; what it was goes to `before`, unless that is null.
    ///
    /// # Safety
    /// `target` is readable and writable, aligned to the element's size, and meanwhile accessed only by the functions of this module and of
    /// [`Op::update`]. `operand`, unless the operation is `MPI_NO_OP`, is readable, and `before`, if it is not null, is writable; nobody else
    /// uses these.
    #[inline(always)]
    pub unsafe fn update(self, operand: *const u8, target: *mut u8, before: *mut u8) {
        // SAFETY: the caller's promise; the function is that of the element's representation.
        unsafe { (self.update)(operand, target, before) }
    }
}

/// By operation and representation. Whether the operation is defined on the datatype depends on its category, too.
static UPDATES: [[Option<Update>; Representation::ALL.len()]; PredefinedKind::ALL.len()] = {
    let mut table = [[None; Representation::ALL.len()]; PredefinedKind::ALL.len()];
    let mut at = 0;
    while at < PredefinedKind::ALL.len() * Representation::ALL.len() {
        let kind = PredefinedKind::ALL[at / Representation::ALL.len()];
        let representation = Representation::ALL[at % Representation::ALL.len()];
        table[kind as usize][representation as usize] = update_of(kind, representation);
        at += 1;
    }
    table
};

const fn update_of(kind: PredefinedKind, representation: Representation) -> Option<Update> {
    use Representation::*;
    let is_integer = matches!(representation, I8 | U8 | I16 | U16 | I32 | U32 | I64 | U64);
    match kind {
        PredefinedKind::NoOp => match representation.size() {
            1 => Some(load::<u8>),
            2 => Some(load::<u16>),
            4 => Some(load::<u32>),
            8 => Some(load::<u64>),
            _ => None,
        },
        PredefinedKind::Replace => match representation.size() {
            1 => Some(replace::<u8>),
            2 => Some(replace::<u16>),
            4 => Some(replace::<u32>),
            8 => Some(replace::<u64>),
            _ => None,
        },
        PredefinedKind::Sum if is_integer => by_size::<Add>(representation),
        PredefinedKind::Sum => match representation {
            F32 => Some(change::<u32, AddFloat>),
            F64 => Some(change::<u64, AddFloat>),
            _ => None,
        },
        PredefinedKind::Band if is_integer => by_size::<And>(representation),
        PredefinedKind::Bor if is_integer => by_size::<Or>(representation),
        PredefinedKind::Bxor if is_integer => by_size::<Xor>(representation),
        _ => None,
    }
}

/// The same for integers with a sign and without.
const fn by_size<C: Change<u8> + Change<u16> + Change<u32> + Change<u64>>(
    representation: Representation,
) -> Option<Update> {
    match representation.size() {
        1 => Some(change::<u8, C>),
        2 => Some(change::<u16, C>),
        4 => Some(change::<u32, C>),
        8 => Some(change::<u64, C>),
        _ => None,
    }
}

/// What an operation makes of a word.
trait Change<W: Word> {
    /// Changes it, and returns what it was.
    fn change(at: &W::Atomic, operand: W) -> W;
}

struct Add;
struct And;
struct Or;
struct Xor;
struct AddFloat;

impl<W: Word> Change<W> for Add {
    fn change(at: &W::Atomic, operand: W) -> W {
        W::add(at, operand)
    }
}

impl<W: Word> Change<W> for And {
    fn change(at: &W::Atomic, operand: W) -> W {
        W::and(at, operand)
    }
}

impl<W: Word> Change<W> for Or {
    fn change(at: &W::Atomic, operand: W) -> W {
        W::or(at, operand)
    }
}

impl<W: Word> Change<W> for Xor {
    fn change(at: &W::Atomic, operand: W) -> W {
        W::xor(at, operand)
    }
}

impl Change<u32> for AddFloat {
    fn change(at: &<u32 as Word>::Atomic, operand: u32) -> u32 {
        u32::change(at, |old| {
            (f32::from_bits(old) + f32::from_bits(operand)).to_bits()
        })
    }
}

impl Change<u64> for AddFloat {
    fn change(at: &<u64 as Word>::Atomic, operand: u64) -> u64 {
        u64::change(at, |old| {
            (f64::from_bits(old) + f64::from_bits(operand)).to_bits()
        })
    }
}

/// # Safety
/// As [`Single::update`], for an element of the size of `W`.
unsafe fn change<W: Word, C: Change<W>>(operand: *const u8, target: *mut u8, before: *mut u8) {
    // SAFETY: the caller's promise; operand and result need no alignment.
    unsafe {
        let was = C::change(W::atomic(target), operand.cast::<W>().read_unaligned());
        keep(was, before);
    }
}

/// # Safety
/// As [`change`].
unsafe fn load<W: Word>(_: *const u8, target: *mut u8, before: *mut u8) {
    // SAFETY: as there.
    unsafe { keep(W::load(W::atomic(target), Ordering::Acquire), before) };
}

/// # Safety
/// As [`change`].
unsafe fn replace<W: Word>(operand: *const u8, target: *mut u8, before: *mut u8) {
    // SAFETY: as there.
    unsafe {
        let (at, new) = (W::atomic(target), operand.cast::<W>().read_unaligned());
        match before.is_null() {
            // What it was need not be known, so that nothing has to be exchanged.
            true => W::store(at, new),
            false => keep(W::swap(at, new), before),
        }
    }
}

/// # Safety
/// `before` is null, or writable.
#[inline(always)]
unsafe fn keep<W: Word>(was: W, before: *mut u8) {
    if !before.is_null() {
        // SAFETY: as the caller says.
        unsafe { before.cast::<W>().write_unaligned(was) };
    }
}

impl Op {
    /// How this operation updates one element of a predefined datatype, if it is defined there and the processor does it: the most common ones
    /// on words.
    #[inline(always)]
    pub fn single(&self, datatype: &Datatype) -> Option<Single> {
        let (Function::Predefined(kind), Some(Element::Basic(basic))) = (&self.function, datatype.element())
        else {
            return None;
        };
        let update = UPDATES[*kind as usize][basic.representation as usize]?;
        kind.takes(basic.category).then_some(Single {
            size: datatype.size() as usize,
            update,
        })
    }
}
