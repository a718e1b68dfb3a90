//! The predefined operations: their numbers in the standard ABI, and what each is defined on.

use super::loops::Levels;
use super::{Function, Op, kernels, location};
use crate::data::datatype::{Category, Element};
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

impl PredefinedKind {
    /// Whether section 6.9.2 or 6.9.4 defines it on `element`, or programs expect it: `MPI_CHAR` counts as a C integer.
    pub(super) fn takes(self, element: Element) -> bool {
        use Category::*;
        let category = match element {
            Element::Pair(..) => return matches!(self, PredefinedKind::Minloc | PredefinedKind::Maxloc),
            Element::Basic(basic) => basic.category,
        };
        match self {
            PredefinedKind::Max | PredefinedKind::Min => {
                matches!(
                    category,
                    CInteger | Char | FortranInteger | Floating | MultiLanguage
                )
            }
            PredefinedKind::Sum | PredefinedKind::Prod => {
                matches!(
                    category,
                    CInteger | Char | FortranInteger | Floating | Complex | MultiLanguage
                )
            }
            PredefinedKind::Land | PredefinedKind::Lor | PredefinedKind::Lxor => {
                matches!(category, CInteger | Char | Logical)
            }
            PredefinedKind::Band | PredefinedKind::Bor | PredefinedKind::Bxor => {
                matches!(category, CInteger | Char | FortranInteger | Byte | MultiLanguage)
            }
            PredefinedKind::Minloc | PredefinedKind::Maxloc => false,
            PredefinedKind::Replace | PredefinedKind::NoOp => true,
        }
    }

    /// The functions that do it, for each level; `None` where it is not defined on `element`.
    pub(super) fn kernels(self, element: Element) -> Option<&'static Levels> {
        if !self.takes(element) {
            return None;
        }
        match element {
            Element::Basic(basic) => kernels::kernels(self, basic.representation),
            Element::Pair(value, index, _) => location::kernels(
                self == PredefinedKind::Maxloc,
                value.representation,
                index.representation,
            ),
        }
    }
}

impl Op {
    /// The predefined operation of the handle constant `abi_value`: `MPI_SUM` for 33.
    pub fn predefined(abi_value: usize) -> Option<&'static Arc<Op>> {
        PREDEFINED.get(abi_value.wrapping_sub(OP_NULL))?.as_ref()
    }

    /// Every predefined operation, with its handle constant.
    #[cfg(feature = "sim")]
    pub fn all_predefined() -> impl Iterator<Item = (usize, &'static Arc<Op>)> {
        let all = PREDEFINED.iter().enumerate();
        all.filter_map(|(index, op)| Some((index + OP_NULL, op.as_ref()?)))
    }
}
