//! Updates of elements that several processes may update at the same time: what accumulates and their relatives do to a target
//! (MPI 5.0 sections 12.3.4 and 12.7.1).
//!
//! `target = target op operand`, atomically for each element of a predefined datatype. An element of 1, 2, 4 or 8 bytes that is aligned to its
//! size, a *word*, can be updated by an atomic operation of the processor: the same one in all processes, as memory is mapped by pages, so that
//! its alignment is the same everywhere. All others (16 and 32 bytes, pairs of a value and an index, and elements without alignment) are updated
//! under a lock, which the caller has for each target ([`Guard`]). Atomic operations are best for a few words; for many, the vector instructions
//! of reductions are ten times faster, but they need the lock, and that nobody updates words without it. The guard says which of the two
//! is in use. Where nobody else may update, neither is needed ([`Sharing::Alone`]).
//!
//! Updates acquire and release: what a process wrote before one is visible to whoever has read the result and goes on. They are not
//! ordered among each other beyond that, so what completes them (a flush, an unlock) needs a fence of its own where the order of a
//! store and a later load matters.
//!
//! What does not belong here: where the elements are (`objects::window`), and which datatype a derived one is made of
//! ([`Datatype::component`]).

use super::level::Level;
use super::loops::{Kernels, Pairwise};
use super::predefined::PredefinedKind;
use super::word::Word;
use super::{Function, Op};
use crate::base::bytes;
use crate::base::error::Result;
use crate::data::datatype::{Basic, Category, Datatype, Element, Representation};
use crate::err;
use std::sync::atomic::Ordering;

/// What keeps updates of a target's elements apart. All who update elements of this target have the same one.
///
/// Words are updated by atomic operations of the processor within [`Guard::by_atomics`], or under the lock; all else under the lock.
pub trait Guard: Sync {
    /// Has words updated by atomic operations, without the lock. `false`: they have to be under the lock now, and nothing was done.
    fn by_atomics(&self, update: &mut dyn FnMut()) -> bool;

    /// Waits until nobody has the lock, and takes it.
    fn lock(&self);

    /// Gives it back; returns whether others wait for it. It was taken by this thread.
    fn unlock(&self) -> bool;

    /// Lets others take it who wait for it, before this thread wants it again.
    fn give_way(&self);

    /// Whether words are updated under the lock only, now that this thread has it and later. `wanted`: there are many, so it is worthwhile to
    /// bring that about.
    fn excludes_all(&self, wanted: bool) -> bool;
}

/// Who else may update the elements meanwhile.
#[derive(Clone, Copy)]
pub enum Sharing<'a> {
    /// Nobody.
    Alone,
    /// Others may update words by atomic operations. The caller has the lock.
    Locked,
    /// Others, who use these functions and this guard.
    Shared(&'a dyn Guard),
    /// The same within [`Guard::by_atomics`], for few elements.
    ByAtomics(&'a dyn Guard),
}

/// The lock of a guard, taken.
pub struct Held<'a>(&'a dyn Guard);

impl<'a> Held<'a> {
    /// Takes it.
    pub fn take(guard: &'a dyn Guard) -> Held<'a> {
        guard.lock();
        Held(guard)
    }

    /// Gives it back in the midst of something long, so that those who wait get it.
    pub fn interrupt(self) {
        let guard = self.0;
        std::mem::forget(self);
        if guard.unlock() {
            guard.give_way();
        }
    }

    /// Who else may update elements of a predefined datatype as long as it is held. `many`: there are at least [`MANY`].
    pub fn sharing(&self, datatype: &Datatype, many: bool) -> Sharing<'static> {
        match has_words(datatype) && !self.0.excludes_all(many) {
            true => Sharing::Locked,
            false => Sharing::Alone,
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

/// From so many elements on, those of one operation are updated under the lock: from 16 on that takes less time, but it is the end of atomic
/// operations for those who update few. Simulated programs are short.
pub const MANY: u64 = if cfg!(feature = "sim") { 16 } else { 64 };
/// From so many on it pays to call a kernel for numbers, and not to update each by itself.
const SOME: usize = 8;
/// How many bytes are updated before others get the lock, and how many pairs.
pub const AT_ONCE: usize = 16 << 10;
const PAIRS_AT_ONCE: usize = 128;

/// Bytes of the largest element, with its gaps.
const LARGEST: usize = 32;

/// Whether the elements of a datatype may be words, if they are aligned.
fn has_words(datatype: &Datatype) -> bool {
    matches!(datatype.element(), Some(Element::Basic(basic)) if basic.representation.size() as usize <= WORD)
}

/// Bytes of the largest word.
const WORD: usize = 8;

/// An operation on a word of the processor. Its result is what was there before.
#[derive(Clone, Copy)]
enum Action {
    Load,
    Swap,
    Add,
    And,
    Or,
    Xor,
    Max,
    Min,
    /// A sum of floating-point numbers.
    AddFloats,
    /// Another one, by its kernel.
    Kernel(Pairwise),
}

impl Action {
    #[inline(always)]
    fn of(kind: PredefinedKind, representation: Representation, kernels: Option<&Kernels>) -> Option<Action> {
        use Representation::*;
        let is_integer = matches!(representation, I8 | U8 | I16 | U16 | I32 | U32 | I64 | U64);
        Some(match kind {
            PredefinedKind::NoOp => Action::Load,
            PredefinedKind::Replace => Action::Swap,
            PredefinedKind::Sum if is_integer => Action::Add,
            PredefinedKind::Sum if matches!(representation, F32 | F64) => Action::AddFloats,
            PredefinedKind::Band => Action::And,
            PredefinedKind::Bor => Action::Or,
            PredefinedKind::Bxor => Action::Xor,
            PredefinedKind::Max if is_integer => Action::Max,
            PredefinedKind::Min if is_integer => Action::Min,
            _ => Action::Kernel(kernels?.pairwise),
        })
    }
}

/// What is updated: elements one after the other, and their operands, and room for what they were.
#[derive(Clone, Copy)]
struct Elements {
    /// Packed. Not read by `MPI_NO_OP`.
    operands: *const u8,
    target: *mut u8,
    count: usize,
    /// Packed.
    before: Option<*mut u8>,
}

impl Elements {
    /// Those behind `done` elements, up to `count` of them; an element is so many bytes packed, and takes so many at the target.
    fn part(self, done: usize, count: usize, packed: usize, extent: usize) -> Elements {
        Elements {
            operands: self.operands.wrapping_add(done * packed),
            target: self.target.wrapping_add(done * extent),
            count: count.min(self.count - done),
            before: self.before.map(|before| before.wrapping_add(done * packed)),
        }
    }

    /// Changes each, a word, by an atomic operation of which the result is what it was.
    ///
    /// # Safety
    /// As [`Op::update`], for aligned elements of the size of `W`.
    #[inline(always)]
    unsafe fn each<W: Word>(self, change: impl Fn(&W::Atomic, W) -> W) {
        let (operands, target) = (self.operands.cast::<W>(), self.target.cast::<W>());
        for index in 0..self.count {
            // SAFETY: one of the elements that the caller vouches for; operands and results need no alignment.
            unsafe {
                let was = change(
                    W::atomic(target.add(index).cast()),
                    operands.add(index).read_unaligned(),
                );
                if let Some(before) = self.before {
                    before.cast::<W>().add(index).write_unaligned(was);
                }
            }
        }
    }

    /// # Safety
    /// As [`Elements::each`].
    unsafe fn loads<W: Word>(self) {
        let Some(before) = self.before else { return };
        for index in 0..self.count {
            // SAFETY: one of the elements that the caller vouches for, and its place among the results.
            unsafe {
                let at = W::atomic(self.target.cast::<W>().add(index).cast());
                (before.cast::<W>().add(index)).write_unaligned(W::load(at, Ordering::Acquire));
            }
        }
    }

    /// # Safety
    /// As [`Elements::each`].
    #[inline(always)]
    unsafe fn words<W: Word>(self, action: Action) {
        // SAFETY: the caller's promise.
        unsafe {
            match (action, self.before) {
                (Action::Load, _) => self.loads::<W>(),
                (Action::Swap, None) => self.each::<W>(|at, operand| {
                    W::store(at, operand);
                    operand
                }),
                (Action::Swap, Some(_)) => self.each::<W>(W::swap),
                (Action::Add, _) => self.each::<W>(W::add),
                (Action::And, _) => self.each::<W>(W::and),
                (Action::Or, _) => self.each::<W>(W::or),
                (Action::Xor, _) => self.each::<W>(W::xor),
                (Action::Max, _) => self.each::<W>(W::max),
                (Action::Min, _) => self.each::<W>(W::min),
                (Action::AddFloats, _) => {}
                (Action::Kernel(kernel), _) => self.each::<W>(|at, operand| {
                    W::change(at, |old| {
                        let mut new = operand;
                        // The kernel is that of elements of this size: `new = old op new`.
                        kernel((&raw const old).cast(), (&raw mut new).cast(), 1);
                        new
                    })
                }),
            }
        }
    }

    /// Updates words, whose size is that of the representation, each by one atomic operation.
    ///
    /// # Safety
    /// As [`Op::update`]; the elements are aligned to their size, which is at most 8 bytes.
    unsafe fn atomically(self, action: Action, representation: Representation) {
        use Representation::*;
        // SAFETY: the caller's promise.
        unsafe {
            match (action, representation) {
                (Action::AddFloats, F32) => self.each::<u32>(|at, operand| {
                    let operand = f32::from_bits(operand);
                    u32::change(at, |old| (f32::from_bits(old) + operand).to_bits())
                }),
                (Action::AddFloats, F64) => self.each::<u64>(|at, operand| {
                    let operand = f64::from_bits(operand);
                    u64::change(at, |old| (f64::from_bits(old) + operand).to_bits())
                }),
                (Action::Max | Action::Min, I8) => self.words::<i8>(action),
                (Action::Max | Action::Min, I16) => self.words::<i16>(action),
                (Action::Max | Action::Min, I32) => self.words::<i32>(action),
                (Action::Max | Action::Min, I64) => self.words::<i64>(action),
                _ => match representation.size() {
                    1 => self.words::<u8>(action),
                    2 => self.words::<u16>(action),
                    4 => self.words::<u32>(action),
                    8 => self.words::<u64>(action),
                    _ => {}
                },
            }
        }
    }

    /// Updates elements of any alignment, which nobody else may update meanwhile; an element has `size` bytes.
    ///
    /// # Safety
    /// As [`Op::update`].
    unsafe fn plainly(self, kind: PredefinedKind, kernels: Option<&Kernels>, size: usize) {
        let bytes = self.count * size;
        // SAFETY: the caller's elements, which the kernels are for.
        unsafe {
            if let Some(before) = self.before {
                bytes::copy(self.target, before, bytes);
            }
            match (kind, kernels) {
                (PredefinedKind::NoOp, _) => {}
                (PredefinedKind::Replace, _) => bytes::copy(self.operands, self.target, bytes),
                (_, Some(kernels)) => {
                    let inputs = [self.target.cast_const(), self.operands];
                    (kernels.many)(inputs.as_ptr(), inputs.len(), self.target, self.count);
                }
                (_, None) => {}
            }
        }
    }

    /// [`plainly`](Self::plainly) for pairs; gaps stay as they are.
    ///
    /// # Safety
    /// As [`Op::update`].
    unsafe fn pairs(self, kind: PredefinedKind, kernels: Option<&Kernels>, pair: Pair) {
        for index in 0..self.count {
            let target = self.target.wrapping_add(index * pair.extent);
            let (mut old, mut new) = (Spread::default(), Spread::default());
            // SAFETY: one of the caller's elements, its operand and its place among the results; a `Spread` has room for any pair.
            unsafe {
                pair.copy(target, pair.index_at, old.bytes(), pair.index_at);
                if let Some(before) = self.before {
                    let before = before.wrapping_add(index * pair.packed());
                    pair.copy(old.bytes(), pair.index_at, before, pair.value);
                }
                if kind == PredefinedKind::NoOp {
                    continue;
                }
                let operand = self.operands.wrapping_add(index * pair.packed());
                pair.copy(operand, pair.value, new.bytes(), pair.index_at);
                match (kind, kernels) {
                    (PredefinedKind::Replace, _) => {}
                    // `new = old op new`
                    (_, Some(kernels)) => (kernels.pairwise)(old.bytes(), new.bytes(), 1),
                    (_, None) => continue,
                }
                pair.copy(new.bytes(), pair.index_at, target, pair.index_at);
            }
        }
    }
}

/// Where the parts of a pair are, in bytes.
#[derive(Clone, Copy)]
struct Pair {
    /// How many the value has.
    value: usize,
    /// How many the index has.
    index: usize,
    /// Where the index begins.
    index_at: usize,
    extent: usize,
}

impl Pair {
    fn packed(self) -> usize {
        self.value + self.index
    }

    /// Copies a pair whose index is `from_index` bytes behind its value to where it is `to_index` behind it.
    ///
    /// # Safety
    /// Both parts are valid on both sides.
    unsafe fn copy(self, from: *const u8, from_index: usize, to: *mut u8, to_index: usize) {
        // SAFETY: the caller's promise. A part has 16 bytes at most.
        unsafe {
            bytes::copy_short(from, to, self.value);
            bytes::copy_short(
                from.wrapping_add(from_index),
                to.wrapping_add(to_index),
                self.index,
            );
        }
    }
}

/// A pair as C lays it out.
#[derive(Default)]
#[repr(align(16))]
struct Spread([u8; LARGEST]);

impl Spread {
    fn bytes(&mut self) -> *mut u8 {
        self.0.as_mut_ptr()
    }
}

/// Whether an address is a multiple of a size, which is a power of two.
#[inline(always)]
fn is_aligned(address: *const u8, size: usize) -> bool {
    address as usize & (size - 1) == 0
}

impl Op {
    /// Whether an accumulate may combine elements of a predefined datatype by this operation (section 12.3.4).
    ///
    /// # Errors
    /// `MPI_ERR_OP` for an operation of the user's, and for one that is not defined on the datatype.
    pub fn check_accumulate(&self, component: &Datatype) -> Result<()> {
        match self.function {
            Function::Predefined(_) => self.check(component),
            Function::User(..) => Err(err!(
                Op,
                "the operation is one of MPI_Op_create; an accumulate takes predefined operations only"
            )),
        }
    }

    /// Whether the operands are not looked at: `MPI_NO_OP`.
    pub fn is_no_op(&self) -> bool {
        matches!(self.function, Function::Predefined(PredefinedKind::NoOp))
    }

    /// `target[i] = target[i] op operands[i]` for `count` elements of a predefined datatype, which lie one after the other, each atomically; and
    /// what they were before goes to `before`. Operands and former values are packed, as by [`Datatype::pack`]: pairs have no gaps there.
    /// [`check_accumulate`](Op::check_accumulate) has been passed; where it was not, the target stays as it is.
    ///
    /// # Safety
    /// `operands`, unless the operation is `MPI_NO_OP`, holds so many elements, packed, and `target` so many at the datatype's extent, readable and
    /// writable; `before` has room for them, packed. Nobody in this process uses them meanwhile, except that elements of
    /// the target may be updated by these functions if they are shared.
    #[inline]
    pub unsafe fn update(
        &self,
        datatype: &Datatype,
        operands: *const u8,
        target: *mut u8,
        count: u64,
        before: Option<*mut u8>,
        sharing: Sharing<'_>,
    ) {
        let (Function::Predefined(kind), Some(element)) = (&self.function, datatype.element()) else {
            return;
        };
        let kernels = match kind {
            PredefinedKind::Replace | PredefinedKind::NoOp => None,
            kind => match kind.kernels(element) {
                Some(levels) => Some(&levels[Level::here() as usize]),
                None => return,
            },
        };
        let elements = Elements {
            operands,
            target,
            count: count as usize,
            before,
        };
        let extent = datatype.extent() as usize;
        let word = match element {
            Element::Basic(Basic { representation, .. })
                if representation.size() as usize <= WORD
                    && is_aligned(target, representation.size() as usize) =>
            {
                Some(representation)
            }
            _ => None,
        };
        let action = word.and_then(|word| Some((Action::of(*kind, word, kernels)?, word)));
        // SAFETY: the caller's promise; the kernels are those of the element and of this machine.
        unsafe {
            let guard = match (sharing, action) {
                (Sharing::Locked | Sharing::ByAtomics(_), Some((action, word))) => {
                    return elements.atomically(action, word);
                }
                (Sharing::Alone | Sharing::Locked, _) => {
                    return elements.any(*kind, kernels, element, extent);
                }
                (Sharing::Shared(guard) | Sharing::ByAtomics(guard), _) => guard,
            };
            if count < MANY
                && let Some((action, word)) = action
                && guard.by_atomics(&mut || elements.atomically(action, word))
            {
                return;
            }
            let packed = datatype.size() as usize;
            let at_once = match element {
                Element::Basic(_) => AT_ONCE / packed,
                Element::Pair(..) => PAIRS_AT_ONCE,
            };
            for done in (0..elements.count).step_by(at_once) {
                let part = elements.part(done, at_once, packed, extent);
                let held = Held::take(guard);
                match action {
                    Some((action, word)) if part.count < SOME || !guard.excludes_all(count >= MANY) => {
                        part.atomically(action, word);
                    }
                    _ => part.any(*kind, kernels, element, extent),
                }
                if done + at_once < elements.count {
                    held.interrupt();
                }
            }
        }
    }
}

impl Elements {
    /// Updates elements that nobody else may update meanwhile.
    ///
    /// # Safety
    /// As [`Op::update`].
    unsafe fn any(self, kind: PredefinedKind, kernels: Option<&Kernels>, element: Element, extent: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match element {
                Element::Basic(basic) => self.plainly(kind, kernels, basic.size() as usize),
                Element::Pair(value, index, index_at) => {
                    let pair = Pair {
                        value: value.size() as usize,
                        index: index.size() as usize,
                        index_at: index_at as usize,
                        extent,
                    };
                    self.pairs(kind, kernels, pair);
                }
            }
        }
    }
}

/// Whether elements of a datatype can be compared and swapped (section 12.3.4): C's `char` counts as an integer, as for reductions.
///
/// # Errors
/// `MPI_ERR_TYPE`.
pub fn check_compare_and_swap(datatype: &Datatype) -> Result<()> {
    match can_compare_and_swap(datatype) {
        true => Ok(()),
        false => Err(err!(
            Type,
            "datatype is {}; to compare and swap takes a predefined datatype of an integer or logical type, or MPI_BYTE",
            datatype.describe()
        )),
    }
}

/// The same without an error.
#[inline]
pub fn can_compare_and_swap(datatype: &Datatype) -> bool {
    matches!(datatype.element(), Some(Element::Basic(basic)) if is_compared(basic.category))
}

fn is_compared(category: Category) -> bool {
    match category {
        Category::CInteger
        | Category::FortranInteger
        | Category::Logical
        | Category::MultiLanguage
        | Category::Byte
        | Category::Char => true,
        Category::Floating | Category::Complex | Category::Character | Category::Packed => false,
    }
}

/// Puts `origin` where the target is the same, byte by byte, as `compare`; `result` is what the target was. All are one element of a
/// datatype that has passed [`check_compare_and_swap`]; with another one, nothing happens.
///
/// # Safety
/// `origin` and `compare` can be read, `result` written, and `target` both. Nobody in this process uses them meanwhile, except that the target may be
/// updated by the functions of this module if it is shared.
#[inline]
pub unsafe fn compare_and_swap(
    datatype: &Datatype,
    origin: *const u8,
    compare: *const u8,
    result: *mut u8,
    target: *mut u8,
    sharing: Sharing<'_>,
) {
    let size = match datatype.element() {
        Some(Element::Basic(basic)) if is_compared(basic.category) => basic.size() as usize,
        _ => return,
    };
    let is_word = size <= WORD && is_aligned(target, size);
    // SAFETY: the caller's promise; words are aligned.
    unsafe {
        match sharing {
            Sharing::Alone => swap_plainly(size, origin, compare, result, target),
            Sharing::Locked | Sharing::ByAtomics(_) if is_word => {
                swap_word(size, origin, compare, result, target)
            }
            Sharing::Locked => swap_plainly(size, origin, compare, result, target),
            Sharing::Shared(guard) if is_word => {
                let mut swap = || swap_word(size, origin, compare, result, target);
                if !guard.by_atomics(&mut swap) {
                    let _held = Held::take(guard);
                    swap();
                }
            }
            Sharing::Shared(guard) | Sharing::ByAtomics(guard) => {
                let _held = Held::take(guard);
                swap_plainly(size, origin, compare, result, target);
            }
        }
    }
}

/// # Safety
/// As [`compare_and_swap`], for an aligned element of 1, 2, 4 or 8 bytes.
#[inline(always)]
unsafe fn swap_word(size: usize, origin: *const u8, compare: *const u8, result: *mut u8, target: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 => swap::<u8>(origin, compare, result, target),
            2 => swap::<u16>(origin, compare, result, target),
            4 => swap::<u32>(origin, compare, result, target),
            8 => swap::<u64>(origin, compare, result, target),
            _ => {}
        }
    }
}

/// # Safety
/// As [`compare_and_swap`], for an aligned element of the size of `W`.
#[inline(always)]
unsafe fn swap<W: Word>(origin: *const u8, compare: *const u8, result: *mut u8, target: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        let (new, old) = (
            origin.cast::<W>().read_unaligned(),
            compare.cast::<W>().read_unaligned(),
        );
        let (Ok(was) | Err(was)) = W::exchange(W::atomic(target), old, new);
        result.cast::<W>().write_unaligned(was);
    }
}

/// # Safety
/// As [`compare_and_swap`], for an element of `size` bytes, at most 16, that nobody else updates meanwhile.
unsafe fn swap_plainly(size: usize, origin: *const u8, compare: *const u8, result: *mut u8, target: *mut u8) {
    let [mut was, mut wanted] = [[0u8; LARGEST]; 2];
    // SAFETY: the caller's promise.
    unsafe {
        bytes::copy_short(target, was.as_mut_ptr(), size);
        bytes::copy_short(compare, wanted.as_mut_ptr(), size);
        if was == wanted {
            bytes::copy_short(origin, target, size);
        }
        bytes::copy_short(was.as_ptr(), result, size);
    }
}

#[cfg(test)]
mod tests;
