//! The predefined operations: their numbers in the standard ABI, and what each is defined on.

use super::loops::Levels;
use super::{Function, Op, kernels, location};
use crate::data::datatype::{Category, Element, Representation};
use std::sync::{Arc, LazyLock};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PredefinedKind {
    Min,
    Sum,
    Prod,
    Max,
    Band,
    Bor,
    Bxor,
    Land,
    Lor,
    Lxor,
    Minloc,
    Maxloc,
    Replace,
    NoOp,
}

/// Handle, name and operation (MPI 5.0, section 20.3.4).
const OPS: &[(usize, &str, PredefinedKind)] = &[
    (33, "MPI_SUM", PredefinedKind::Sum),
    (34, "MPI_MIN", PredefinedKind::Min),
    (35, "MPI_MAX", PredefinedKind::Max),
    (36, "MPI_PROD", PredefinedKind::Prod),
    (40, "MPI_BAND", PredefinedKind::Band),
    (41, "MPI_BOR", PredefinedKind::Bor),
    (42, "MPI_BXOR", PredefinedKind::Bxor),
    (48, "MPI_LAND", PredefinedKind::Land),
    (49, "MPI_LOR", PredefinedKind::Lor),
    (50, "MPI_LXOR", PredefinedKind::Lxor),
    (56, "MPI_MINLOC", PredefinedKind::Minloc),
    (57, "MPI_MAXLOC", PredefinedKind::Maxloc),
    (60, "MPI_REPLACE", PredefinedKind::Replace),
    (61, "MPI_NO_OP", PredefinedKind::NoOp),
];

const OP_NULL: usize = 32;
const TABLE: usize = 32;

static PREDEFINED: LazyLock<[Option<Arc<Op>>; TABLE]> = LazyLock::new(|| {
    let mut table = [const { None }; TABLE];
    for &(handle, name, kind) in OPS {
        // These two return one of their operands, whatever the other is.
        let commutes = !matches!(kind, PredefinedKind::Replace | PredefinedKind::NoOp);
        table[handle - OP_NULL] = Some(Op::new(Function::Predefined(kind), commutes, handle, name));
    }
    table
});

/// What an operation takes.
struct Row {
    /// A bit for each [`Category`].
    categories: u16,
    /// The kernels for each [`Representation`].
    kernels: [Option<&'static Levels>; Representation::ALL.len()],
}

/// A row for each kind: a short reduction must not look long for its kernel.
static ROWS: [Row; PredefinedKind::ALL.len()] = {
    let mut rows = [const {
        Row {
            categories: 0,
            kernels: [None; Representation::ALL.len()],
        }
    }; PredefinedKind::ALL.len()];
    let mut at = 0;
    while at < rows.len() {
        let kind = PredefinedKind::ALL[at];
        let row = &mut rows[kind as usize];
        row.categories = kind.categories();
        let mut place = 0;
        while place < row.kernels.len() {
            let representation = Representation::ALL[place];
            row.kernels[representation as usize] = kernels::kernels(kind, representation);
            place += 1;
        }
        at += 1;
    }
    rows
};

impl PredefinedKind {
    pub(super) const ALL: [PredefinedKind; 14] = {
        use PredefinedKind::*;
        [
            Min, Sum, Prod, Max, Band, Bor, Bxor, Land, Lor, Lxor, Minloc, Maxloc, Replace, NoOp,
        ]
    };

    /// What section 6.9.2 defines it on, or programs expect: `MPI_CHAR` counts as a C integer, and the logical operations take
    /// `MPI_AINT`, `MPI_COUNT` and `MPI_OFFSET`, as MPICH's and Open MPI's do. A bit for each category.
    const fn categories(self) -> u16 {
        use Category::*;
        const INTEGERS: u16 =
            1 << CInteger as u16 | 1 << Char as u16 | 1 << FortranInteger as u16 | 1 << MultiLanguage as u16;
        match self {
            PredefinedKind::Max | PredefinedKind::Min => INTEGERS | 1 << Floating as u16,
            PredefinedKind::Sum | PredefinedKind::Prod => {
                INTEGERS | 1 << Floating as u16 | 1 << Complex as u16
            }
            PredefinedKind::Land | PredefinedKind::Lor | PredefinedKind::Lxor => {
                1 << CInteger as u16 | 1 << Char as u16 | 1 << Logical as u16 | 1 << MultiLanguage as u16
            }
            PredefinedKind::Band | PredefinedKind::Bor | PredefinedKind::Bxor => INTEGERS | 1 << Byte as u16,
            PredefinedKind::Minloc
            | PredefinedKind::Maxloc
            | PredefinedKind::Replace
            | PredefinedKind::NoOp => 0,
        }
    }

    /// Whether an accumulate by it takes a basic element of a category: what those that only accumulates have do not look at.
    #[inline(always)]
    pub(super) fn takes(self, category: Category) -> bool {
        let is_copy = matches!(self, PredefinedKind::Replace | PredefinedKind::NoOp);
        is_copy || ROWS[self as usize].categories >> category as u16 & 1 != 0
    }

    /// The functions that do it, for each level; `None` where section 6.9.2 or 6.9.4 does not define it on `element`.
    #[inline]
    pub(super) fn kernels(self, element: Element) -> Option<&'static Levels> {
        match element {
            Element::Basic(basic) => {
                let row = &ROWS[self as usize];
                match row.categories >> basic.category as u16 & 1 {
                    0 => None,
                    _ => row.kernels[basic.representation as usize],
                }
            }
            Element::Pair(value, index, _) => {
                if !matches!(self, PredefinedKind::Minloc | PredefinedKind::Maxloc) {
                    return None;
                }
                location::kernels(
                    self == PredefinedKind::Maxloc,
                    value.representation,
                    index.representation,
                )
            }
        }
    }
}

/// `MPI_SUM`
const SUM: usize = 33;

impl Op {
    /// The predefined operation of the handle constant `abi_value`: `MPI_SUM` for 33.
    #[inline]
    pub fn predefined(abi_value: usize) -> Option<&'static Arc<Op>> {
        PREDEFINED.get(abi_value.wrapping_sub(OP_NULL))?.as_ref()
    }

    /// `MPI_SUM`
    pub fn sum() -> &'static Arc<Op> {
        Op::predefined(SUM).expect("MPI_SUM is predefined")
    }

    /// Every predefined operation, with its handle constant.
    #[cfg(feature = "sim")]
    pub fn all_predefined() -> impl Iterator<Item = (usize, &'static Arc<Op>)> {
        let all = PREDEFINED.iter().enumerate();
        all.filter_map(|(index, op)| Some((index + OP_NULL, op.as_ref()?)))
    }
}
