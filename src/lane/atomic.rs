//! Atomic operations on remote memory: what a lane is asked for, and what it offers.
//!
//! What a lane's atomic operations are atomic with is only each other, and only those on elements of the same type: not the
//! processor's, nor those of another lane.

use crate::base::error::Result;
use crate::data::pieces::Piece;
use crate::err;

/// What is done with each element of the target.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AtomicOp {
    /// The lesser of target and operand.
    Min,
    /// The greater.
    Max,
    /// Their sum.
    Sum,
    /// Their product.
    Product,
    /// Whether one of them is not 0.
    LogicalOr,
    /// Whether both are not 0.
    LogicalAnd,
    /// Whether exactly one is not 0.
    LogicalXor,
    /// Each bit of either.
    Or,
    /// Each bit of both.
    And,
    /// Each bit of exactly one.
    Xor,
    /// The target stays as it is, and is returned.
    Read,
    /// The operand.
    Replace,
    /// The operand, where the target is equal to the comparand.
    CompareAndSwap,
}

impl AtomicOp {
    /// All of them, each at the place of its number.
    pub const ALL: [AtomicOp; 13] = [
        AtomicOp::Min,
        AtomicOp::Max,
        AtomicOp::Sum,
        AtomicOp::Product,
        AtomicOp::LogicalOr,
        AtomicOp::LogicalAnd,
        AtomicOp::LogicalXor,
        AtomicOp::Or,
        AtomicOp::And,
        AtomicOp::Xor,
        AtomicOp::Read,
        AtomicOp::Replace,
        AtomicOp::CompareAndSwap,
    ];
}

/// The type of an element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Number {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

impl Number {
    /// All of them, each at the place of its number.
    pub const ALL: [Number; 10] = [
        Number::I8,
        Number::U8,
        Number::I16,
        Number::U16,
        Number::I32,
        Number::U32,
        Number::I64,
        Number::U64,
        Number::F32,
        Number::F64,
    ];

    /// Whether an operation is defined on it: those on bits are not defined on floating-point numbers.
    #[cfg(any(test, feature = "sim"))]
    pub fn has(self, op: AtomicOp) -> bool {
        !matches!(self, Number::F32 | Number::F64)
            || !matches!(op, AtomicOp::Or | AtomicOp::And | AtomicOp::Xor)
    }

    /// Its bytes.
    pub fn size(self) -> usize {
        match self {
            Number::I8 | Number::U8 => 1,
            Number::I16 | Number::U16 => 2,
            Number::I32 | Number::U32 | Number::F32 => 4,
            Number::I64 | Number::U64 | Number::F64 => 8,
        }
    }

    /// What an operation makes of two elements, in the low bits: for the simulated network, and for tests.
    #[cfg(any(test, feature = "sim"))]
    pub fn combined(self, op: AtomicOp, target: u64, operand: u64, compare: u64) -> u64 {
        macro_rules! integer {
            ($type:ty) => {{
                let (a, b, c) = (target as $type, operand as $type, compare as $type);
                (match op {
                    AtomicOp::Min => a.min(b),
                    AtomicOp::Max => a.max(b),
                    AtomicOp::Sum => a.wrapping_add(b),
                    AtomicOp::Product => a.wrapping_mul(b),
                    AtomicOp::LogicalOr => <$type>::from(a != 0 || b != 0),
                    AtomicOp::LogicalAnd => <$type>::from(a != 0 && b != 0),
                    AtomicOp::LogicalXor => <$type>::from((a != 0) != (b != 0)),
                    AtomicOp::Or => a | b,
                    AtomicOp::And => a & b,
                    AtomicOp::Xor => a ^ b,
                    AtomicOp::Read => a,
                    AtomicOp::Replace => b,
                    AtomicOp::CompareAndSwap => {
                        if a == c {
                            b
                        } else {
                            a
                        }
                    }
                }) as u64
            }};
        }
        macro_rules! floating {
            ($type:ty, $bits:ty) => {{
                let [a, b, c] = [target, operand, compare].map(|bits| <$type>::from_bits(bits as $bits));
                let truth = |is: bool| if is { 1.0 } else { 0.0 };
                (match op {
                    AtomicOp::Min => a.min(b),
                    AtomicOp::Max => a.max(b),
                    AtomicOp::Sum => a + b,
                    AtomicOp::Product => a * b,
                    AtomicOp::LogicalOr => truth(a != 0.0 || b != 0.0),
                    AtomicOp::LogicalAnd => truth(a != 0.0 && b != 0.0),
                    AtomicOp::LogicalXor => truth((a != 0.0) != (b != 0.0)),
                    AtomicOp::Or | AtomicOp::And | AtomicOp::Xor => {
                        unreachable!("there is none on {self:?}")
                    }
                    AtomicOp::Read => a,
                    AtomicOp::Replace => b,
                    AtomicOp::CompareAndSwap => {
                        if a == c {
                            b
                        } else {
                            a
                        }
                    }
                })
                .to_bits() as u64
            }};
        }
        match self {
            Number::I8 => integer!(i8) as u8 as u64,
            Number::U8 => integer!(u8),
            Number::I16 => integer!(i16) as u16 as u64,
            Number::U16 => integer!(u16),
            Number::I32 => integer!(i32) as u32 as u64,
            Number::U32 => integer!(u32),
            Number::I64 => integer!(i64),
            Number::U64 => integer!(u64),
            Number::F32 => floating!(f32, u32),
            Number::F64 => floating!(f64, u64),
        }
    }
}

/// What comes back to the origin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// Nothing.
    Update,
    /// What the target held before.
    Fetch,
    /// The same, after a comparison.
    Compare,
}

impl Form {
    /// All of them, each at the place of its number.
    pub const ALL: [Form; 3] = [Form::Update, Form::Fetch, Form::Compare];
}

/// Who performs atomic operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Atomics {
    /// Nobody: there are none.
    None,
    /// The target's processor, when it polls the lane or by a thread of the transport: ordinary loads and stores, which are not atomic with
    /// those of the process itself.
    Emulated,
    /// The network's hardware.
    Hardware,
}

/// How many elements one call takes, by form, operation and type; 0: there is no such operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AtomicTable([[[u32; Number::ALL.len()]; AtomicOp::ALL.len()]; Form::ALL.len()]);

impl AtomicTable {
    /// No operations.
    pub const NONE: AtomicTable =
        AtomicTable([[[0; Number::ALL.len()]; AtomicOp::ALL.len()]; Form::ALL.len()]);

    /// Asks for the count of each.
    pub fn of(mut count: impl FnMut(Form, AtomicOp, Number) -> usize) -> AtomicTable {
        let mut table = AtomicTable::NONE;
        for form in Form::ALL {
            for op in AtomicOp::ALL {
                // A comparison is one form's, and it has no other operation.
                let fits = match form {
                    Form::Update => !matches!(op, AtomicOp::Read | AtomicOp::CompareAndSwap),
                    Form::Fetch => op != AtomicOp::CompareAndSwap,
                    Form::Compare => op == AtomicOp::CompareAndSwap,
                };
                for number in Number::ALL.into_iter().filter(|_| fits) {
                    let most = count(form, op, number).min(u32::MAX as usize) as u32;
                    table.0[form as usize][op as usize][number as usize] = most;
                }
            }
        }
        table
    }

    /// How many elements one call takes.
    #[inline]
    pub fn count(&self, form: Form, op: AtomicOp, number: Number) -> usize {
        self.0[form as usize][op as usize][number as usize] as usize
    }

    /// Whether there is no operation.
    pub fn is_empty(&self) -> bool {
        *self == AtomicTable::NONE
    }
}

/// An atomic operation on some elements, one after the other; each is atomic by itself. Operand and comparand are free as soon as the call
/// returns, the result when the operation has ended.
#[derive(Clone, Copy, Debug)]
pub struct Update {
    /// What is done.
    pub op: AtomicOp,
    /// With elements of this type, to whose size the target is aligned.
    pub number: Number,
    /// The operands; none for [`AtomicOp::Read`].
    pub operand: Piece,
    /// What the target is compared with; only for [`AtomicOp::CompareAndSwap`].
    pub compare: Piece,
    /// Where the target's former elements go, if they are asked for.
    pub result: Piece,
}

impl Update {
    /// What comes back.
    pub fn form(&self) -> Form {
        match self.op {
            AtomicOp::CompareAndSwap => Form::Compare,
            AtomicOp::Read => Form::Fetch,
            _ if self.result.len > 0 => Form::Fetch,
            _ => Form::Update,
        }
    }

    /// Bytes of the target that it concerns.
    #[inline]
    pub fn len(&self) -> usize {
        match self.op {
            AtomicOp::Read => self.result.len,
            _ => self.operand.len,
        }
    }

    /// Whether it has no elements at all.
    #[cfg_attr(
        not(any(test, feature = "sim")),
        allow(dead_code, reason = "no window has lanes perform atomic operations")
    )]
    pub fn is_empty(&self) -> bool {
        [self.operand, self.compare, self.result]
            .iter()
            .all(|piece| piece.len == 0)
    }

    /// The same operation on only some of its elements, by bytes.
    pub fn part(&self, skip: usize, len: usize) -> Update {
        let part = |piece: Piece| match piece.len {
            0 => piece,
            _ => piece.part(skip, len),
        };
        Update {
            operand: part(self.operand),
            compare: part(self.compare),
            result: part(self.result),
            ..*self
        }
    }

    /// How many elements it has: at least one, and as many in each of its memories.
    ///
    /// # Errors
    /// The lengths do not belong together.
    pub fn elements(&self) -> Result<usize> {
        let len = self.len();
        let (operand, compare, result) = (self.operand.len, self.compare.len, self.result.len);
        let fits = match self.op {
            AtomicOp::Read => operand == 0 && compare == 0,
            AtomicOp::CompareAndSwap => compare == len && result == len,
            _ => compare == 0 && (result == 0 || result == len),
        };
        if fits && len > 0 && len.is_multiple_of(self.number.size()) {
            return Ok(len / self.number.size());
        }
        Err(err!(
            Intern,
            "{:?} of {:?} with {operand} bytes of operands, {compare} to compare with and {result} for the result: expected the same number of \
             whole elements in each that the operation has",
            self.op,
            self.number
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stands_at_the_place_of_its_number() {
        assert!((AtomicOp::ALL.iter().enumerate()).all(|(at, op)| *op as usize == at));
        assert!((Number::ALL.iter().enumerate()).all(|(at, number)| *number as usize == at));
        assert!((Form::ALL.iter().enumerate()).all(|(at, form)| *form as usize == at));
    }

    #[test]
    fn a_table_has_only_what_there_can_be() {
        let table = AtomicTable::of(|_, _, number| 64 / number.size());
        assert_eq!(table.count(Form::Update, AtomicOp::Sum, Number::F64), 8);
        assert_eq!(table.count(Form::Fetch, AtomicOp::Read, Number::U16), 32);
        assert_eq!(
            table.count(Form::Compare, AtomicOp::CompareAndSwap, Number::I8),
            64
        );
        for (form, op) in [
            (Form::Update, AtomicOp::Read),
            (Form::Update, AtomicOp::CompareAndSwap),
            (Form::Fetch, AtomicOp::CompareAndSwap),
            (Form::Compare, AtomicOp::Sum),
        ] {
            assert_eq!(table.count(form, op, Number::I32), 0);
        }
        assert!(!table.is_empty() && AtomicTable::of(|_, _, _| 0).is_empty());
    }

    #[test]
    fn lengths_belong_together() {
        let bytes = [0u8; 32];
        let piece = |len| Piece::of(&bytes[..len]);
        let elements = |op, operand, compare, result| {
            let update = Update {
                op,
                number: Number::U64,
                operand: piece(operand),
                compare: piece(compare),
                result: piece(result),
            };
            update.elements().ok()
        };
        assert_eq!(elements(AtomicOp::Sum, 16, 0, 0), Some(2));
        assert_eq!(elements(AtomicOp::Sum, 16, 0, 16), Some(2));
        assert_eq!(elements(AtomicOp::Read, 0, 0, 32), Some(4));
        assert_eq!(elements(AtomicOp::CompareAndSwap, 8, 8, 8), Some(1));
        for wrong in [
            elements(AtomicOp::Sum, 0, 0, 0),
            elements(AtomicOp::Sum, 12, 0, 0),
            elements(AtomicOp::Sum, 16, 0, 8),
            elements(AtomicOp::Sum, 16, 16, 0),
            elements(AtomicOp::Read, 8, 0, 8),
            elements(AtomicOp::CompareAndSwap, 8, 8, 0),
            elements(AtomicOp::CompareAndSwap, 8, 0, 8),
        ] {
            assert_eq!(wrong, None);
        }
    }
}
